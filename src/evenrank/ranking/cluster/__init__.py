"""Clusters: the same work by the workers of a Dask cluster, to the last bit.

`connect` gives a client, of a scheduler that runs somewhere or of this machine's cores; `tally` counts
files of ranks, `rank` ranks a model.
"""

from evenrank.ranking.cluster._client import connect
from evenrank.ranking.cluster._rank import rank
from evenrank.ranking.cluster._tally import tally

__all__ = ["connect", "rank", "tally"]
