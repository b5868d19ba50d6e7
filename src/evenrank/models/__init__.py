"""Models on plain arrays: TransE, RotatE, DistMult, ComplEx, TuckER, RESCAL, SimplE, CP; DotProduct.

Each model scores triples `(h, r, t)`, higher is better, and factors the score of each side into query
vectors and candidate vectors. Arrays may be NumPy arrays or torch tensors (on the CPU without a copy).
Complex numbers are complex arrays, or real ones with all real parts before all imaginary parts.

**Inverse relations.** Plain models answer `(?, r, t)` by their own formula. Models trained with
reciprocal (inverse) relations answer it as `(t, r', ?)`, with a separate row for `r'`: with
`inverse="stacked"` rows are r_0 .. r_R, r'_0 .. r'_R (most libraries), with `inverse="interleaved"`
they are r_0, r'_0, r_1, r'_1, ... (PyKEEN).

**Recommenders.** `DotProduct` scores items for users by matrix factorization, with a bias per item.

**Your own models.** `TripleScorer` ranks torch modules and functions of `(h, r, t)`, `QueryScorer`
functions of queries and candidates. `er.rank` chooses one by the names of parameters.

**Files.** `load` reads checkpoints of many libraries; `save` writes safetensors, without pickles.

>>> import numpy as np
>>> model = TransE([[0.0], [1.0], [2.0]], [[1.0]])
>>> model.score(np.array([[0, 0, -1]]), slice(0, 3))  # 0 + 1 is nearest to entity 1
array([[-1., -0., -1.]])
"""

from evenrank.models._dot_product import DotProduct
from evenrank.models._files import save
from evenrank.models._load import bundled, load, load_pair
from evenrank.models._model import Inverse, Model
from evenrank.models._named import CP, NAMED, RESCAL, ComplEx, DistMult, RotatE, SimplE, TransE, TuckER
from evenrank.ranking import QueryScorer, TripleScorer

__all__ = [
    "CP",
    "NAMED",
    "RESCAL",
    "ComplEx",
    "DistMult",
    "DotProduct",
    "Inverse",
    "Model",
    "QueryScorer",
    "RotatE",
    "SimplE",
    "TransE",
    "TripleScorer",
    "TuckER",
    "bundled",
    "load",
    "load_pair",
    "save",
]
