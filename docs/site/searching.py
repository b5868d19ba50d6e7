"""Search the built site as its search page does: by the stems of words, in the index of Sphinx."""

from __future__ import annotations

import json
import re
from pathlib import Path

from sphinx.search.en import SearchEnglish

# what users look for must be found
EXPECTED = (
    *("AMRI", "MRR", "Hits@10", "nDCG", "filtered", "tie", "significance", "p-value", "leaderboard"),
    *("confidence interval", "early stopping", "GPU", "LibKGE", "trec_eval", "recommender", "Wikidata"),
)


def found(index: dict[str, object], query: str) -> set[str]:
    """Return the names of the pages that have all words of a query.

    >>> terms = {"earli": [0, 1], "stop": 0}
    >>> index = {"docnames": ["a", "b"], "terms": terms, "titleterms": {"tie": [1]}}
    >>> sorted(found(index, "early stopping")), sorted(found(index, "Tie")), found(index, "absent")
    (['a'], ['b'], set())
    """
    stem = SearchEnglish({}).stem
    names: list[str] = index["docnames"]  # type: ignore[assignment]
    each = []
    for word in re.findall(r"\w+", query.lower()):
        if word.isdigit():  # the search ignores numbers
            continue
        pages: set[int] = set()
        for kind in ("terms", "titleterms"):
            where = index[kind].get(stem(word), [])  # type: ignore[attr-defined]
            pages |= {where} if isinstance(where, int) else set(where)
        each.append(pages)
    return {names[i] for i in set.intersection(*each)}


def missing(out: Path) -> list[str]:
    """Return a line for every expected query that the built site does not answer.

    Parameters
    ----------
    out : Path
        The folder of the site.
    """
    text = (out / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return [f"the search finds no page for {query!r}" for query in EXPECTED if not found(index, query)]
