"""Names of models: one spelling for each, apart from its variant.

Papers write ComplEx-N3 and ComplEx (N3), KBAT and KBGAT. `models.toml` lists the spellings. What stands
in parentheses, such as a size, and how a model was trained (KvsAll) is the variant of the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

_PARENTHESES = re.compile(r"(?P<before>.*\S)\s*\((?P<inside>[^()]+)\)\s*(?P<after>[^()]*)")
# how DICE Embeddings names the strategy by which a model was trained
_TRAINED = re.compile(r"(?P<model>.+)-(?P<how>(KvsAll|AllvsAll|1vsAll)(-A?SWA)?)", re.IGNORECASE)


class ModelName(NamedTuple):
    """A model and its variant.

    Parameters
    ----------
    model : str
        The model, in the spelling of the record.
    variant : str
        Its size or setting; empty if the name says nothing.
    """

    model: str
    variant: str = ""

    def __str__(self) -> str:
        """Write both, as in "ComplEx-N3 (rank 100)"."""
        return f"{self.model} ({self.variant})" if self.variant else self.model


def key(name: str) -> str:
    """Reduce a name to what distinguishes models: no case, spaces, hyphens, underscores or dots.

    >>> key("Dist_Mult") == key("distmult"), key("InterHT+") == key("InterHT")
    (True, False)
    """
    return re.sub(r"[\s_.\-–‑]+", "", name).casefold()


@cache
def spellings() -> Mapping[str, str]:
    """Return the spelling of the record for every known name, by `key`."""
    import tomllib

    table = tomllib.loads(files(__package__).joinpath("models.toml").read_text(encoding="utf-8"))
    return MappingProxyType(
        {key(name): known for known, others in table.items() for name in (known, *others)}
    )


def model_name(name: str) -> ModelName:
    """Find the model and the variant that a name stands for.

    Parameters
    ----------
    name : str
        A name in any spelling; an unknown one is kept.

    Returns
    -------
    ModelName
        The model, in the spelling of the record, and its variant.

    Examples
    --------
    >>> [str(model_name(name)) for name in ("complex n3", "ComplEx (N3)", "KBAT", "transe_l2")]
    ['ComplEx-N3', 'ComplEx-N3', 'KBGAT', 'TransE (L2)']
    >>> model_name("ComplEx (1000dim) + relation prediction")
    ModelName(model='ComplEx-RP', variant='1000dim')
    >>> model_name("Keci-KvsAll-SWA"), model_name("My model")
    (ModelName(model='Keci', variant='KvsAll-SWA'), ModelName(model='My model', variant=''))
    """
    base, variants = " ".join(name.split()), list[str]()
    while (known := spellings().get(key(base))) is None and _PARENTHESES.fullmatch(base):
        base, inside = _apart(base)
        variants = [inside, *variants]
    trained = _TRAINED.fullmatch(base) if known is None else None
    if trained:
        base, variants = trained["model"], [trained["how"], *variants]
        known = spellings().get(key(base))
    if known is not None:
        base, *more = _apart(known)
        variants = [*more, *variants]
    return ModelName(base, "; ".join(filter(None, variants)))


def _apart(name: str) -> ModelName:
    """Take what stands in the last parentheses from a name."""
    found = _PARENTHESES.fullmatch(name)
    if not found:
        return ModelName(name)
    return ModelName(f"{found['before']} {found['after']}".rstrip(), found["inside"])
