"""Names of data sets and models as papers write them: FB15k-237, ComplEx."""

from __future__ import annotations

import re
from functools import cache

DATA = """
    Nations Kinships UMLS Countries-S1 Countries-S2 Countries-S3 CoDEx-S CoDEx-M CoDEx-L FB13 FB15k
    FB15k-237 FB122 WN11 WN18 WN18RR WD50K YAGO3-10 YAGO37 Wikidata5M Hetionet ogbl-wikikg2 ogbl-biokg
    WikiKG90Mv2 DBpedia50 DB100K NELL-995 NELL23K ConceptNet-100k OpenBioLink PharmKG-8k Freebase-86m
    Aristo-v4 ILPC2022-S ILPC2022-L ICEWS14 ICEWS18 ICEWS05-15 GDELT DBP15K MovieLens-100K MovieLens-1M
    WD-singer FB15k-237-10 Family Wikidata12k ConceptNet ConceptNet-82k YAGO11k PharmKG BioKG CKG DRKG
    GloBI PrimeKG PharMeBINet
"""
VERSIONS = {"wn18rr": "WN18RR", "fb237": "FB15k-237", "nell": "NELL-995"}  # GraIL's, 1 to 4
OTHERS = {
    "codexsmall": "CoDEx-S",
    "codexmedium": "CoDEx-M",
    "codexlarge": "CoDEx-L",
    "ilpc2022small": "ILPC2022-S",
    "ilpc2022large": "ILPC2022-L",
    **{f"nell995h{i}": f"NELL-995 h{i}" for i in (25, 50, 75, 100)},
    "nell995q2b": "NELL-995 (Query2box)",
    "wd50k33": "WD50K (33)",
    "wd50k100": "WD50K (100)",
    "icews14forecasting": "ICEWS14 (forecasting)",
    "yagorenet": "YAGO (RE-NET)",
    **{f"dbp15k{a}en": f"DBP15K ({a}-en)" for a in ("zh", "ja", "fr")},
    "kinship": "Kinships",
    "yago310": "YAGO3-10",
    "movielens100k": "MovieLens-100K",
    "ml100k": "MovieLens-100K",
    **{f"{key}v{i}": f"{name} v{i}" for key, name in VERSIONS.items() for i in range(1, 5)},
    **{f"{key}v{i}ind": f"{name} v{i}" for key, name in VERSIONS.items() for i in range(1, 5)},
}
MODELS = """
    TransE TransH TransR TransD TransF TorusE RotatE QuatE ComplEx ComplEx-N3 DistMult DistMA SimplE
    TuckER RESCAL HolE CP ANALOGY ConvE ConvKB ConvR InteractE CrossE CapsE HypER ConEx ProjE ER-MLP NTN
    SE UM KG2E MuRE MuRP RotE RotH RefE RefH AttE AttH BoxE PairRE HAKE ModE AutoSF MEI R-GCN CompGCN
    NodePiece NBFNet RED-GNN AdaProp GraIL ULTRA KBGAT KG-BERT SimKGC StAR AnyBURL AMIE RuleN NeuralLP
    DRUM RNNLogic MINERVA MultiHopKG
"""


def _key(name: str) -> str:
    """Reduce a name to letters and digits."""
    return re.sub(r"[\W_]", "", name.casefold())


@cache
def _known(text: str) -> dict[str, str]:
    return {_key(name): name for name in text.split()}


def data_name(name: str) -> str:
    """Write the name of a data set as papers do; other names stay as they are.

    >>> data_name("fb15k237"), data_name("yago3_10"), data_name("wn18rr-v1"), data_name("my-data")
    ('FB15k-237', 'YAGO3-10', 'WN18RR v1', 'my-data')
    """
    key = _key(name)
    return OTHERS.get(key) or _known(DATA).get(key, name)


def model_name(name: str) -> str:
    """Write the name of a model as papers do; other names stay as they are.

    >>> model_name("complex"), model_name("rgcn"), model_name("transe-512")
    ('ComplEx', 'R-GCN', 'transe-512')
    """
    return _known(MODELS).get(_key(name), name)
