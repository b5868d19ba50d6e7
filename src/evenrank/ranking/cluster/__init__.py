"""Rank models and count files of ranks by the workers of a Dask cluster, with the same bits.

- `connect`  a client of a running scheduler, or of a local cluster on the cores of this machine
- `rank`     rank a model, as `er.rank`
- `tally`    count files of ranks, as `er.stream`
"""

from evenrank.ranking.cluster._client import connect
from evenrank.ranking.cluster._rank import rank
from evenrank.ranking.cluster._tally import tally

__all__ = ["connect", "rank", "tally"]
