"""Models on plain arrays: TransE, RotatE, DistMult, ComplEx, TuckER, RESCAL, SimplE, CP; files of them.

Each scores a triple `(h, r, t)`, higher is better, and knows how the score factors for each side: query
vector against a table of candidates. Arrays may be NumPy's or torch's (on the CPU: without a copy).
Complex numbers are complex arrays, or real ones that hold all real parts, then all imaginary parts.

**Sides.** Plain models answer `(?, r, t)` with their own formula. Models trained with reciprocal
(inverse) relations answer it as `(t, r', ?)`, with a row of its own for `r'`: `inverse="stacked"` where
the rows are r_0 .. r_R, r'_0 .. r'_R (most libraries), `inverse="interleaved"` where they are r_0,
r'_0, r_1, r'_1, ... (PyKEEN).

**Files.** `save` and `load` use safetensors: no pickle, no code; a small JSON header names the model.

>>> import numpy as np
>>> model = TransE([[0.0], [1.0], [2.0]], [[1.0]])
>>> model.score(np.array([[0, 0, -1]]), slice(0, 3))  # 0 + 1 is nearest to entity 1
array([[-1., -0., -1.]])
"""

from evenrank.models._files import save
from evenrank.models._load import bundled, load
from evenrank.models._model import Inverse, Model
from evenrank.models._named import CP, NAMED, RESCAL, ComplEx, DistMult, RotatE, SimplE, TransE, TuckER

__all__ = [
    "CP",
    "NAMED",
    "RESCAL",
    "ComplEx",
    "DistMult",
    "Inverse",
    "Model",
    "RotatE",
    "SimplE",
    "TransE",
    "TuckER",
    "bundled",
    "load",
    "save",
]
