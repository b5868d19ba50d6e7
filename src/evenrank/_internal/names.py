"""What the columns of tables of ranks are called: in any case, with the usual aliases.

A name that could mean two things is an error, and so is a column of numbers that seems to be misspelt:
otherwise it would silently become a key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from evenrank.errors import InputError

# canonical names and their aliases, without case, spaces, hyphens, dots and underscores
COUNT_WORDS = {
    "better": "better numbetter nbetter bettercount",
    "equal": "equal numequal nequal equalcount",
    "candidates": "candidates candidate numcandidates numcandidate ncandidates numberofcandidates "
    "candidatecount candidatescount numcands ncands cands",
    "weight": "weight weights sampleweight sampleweights",
    "optimistic": "optimistic optimisticrank rankoptimistic bestrank rankbest",
    "pessimistic": "pessimistic pessimisticrank rankpessimistic worstrank rankworst",
    "rank": "rank ranks",
}
# of ranks, if there is no column rank
RANK_WORDS = (
    *("filteredrank", "rankfiltered", "filterrank", "filtrank", "rawrank", "rankraw", "targetrank"),
    *("truerank", "rankoftarget", "position", "realistic", "realisticrank", "rankrealistic"),
    *("averagerank", "avgrank", "meanrank", "expectedrank"),
)
KEY_WORDS = {
    "head": "head h subject subj headid hid headentity headlabel headname subjectid",
    "relation": "relation r rel predicate pred relationid rid relationlabel relationname predicateid",
    "tail": "tail t object obj tailid tid tailentity taillabel tailname objectid",
    "side": "side predictedside targetside predictionside",
    "query": "query queryid qid",
    "data": "data dataset datasets",
    "model": "model modelname",
}
UNCLEAR = {
    **dict.fromkeys(("count", "counts", "n", "num", "number", "total"), ("candidates", "weight")),
    **dict.fromkeys(("size", "sizes"), ("candidates",)),
}
SCHEMAS = (("better", "equal"), ("optimistic", "pessimistic"), ("rank",))
MINE = ("better", "equal", "candidates", "weight")  # the columns that are no keys in our files

COUNTS = {alias: name for name, words in COUNT_WORDS.items() for alias in words.split()}
KEYS = {alias: name for name, words in KEY_WORDS.items() for alias in words.split()}


def folded(name: str) -> str:
    """Reduce a name to what distinguishes it.

    >>> folded(" Num. Candidates"), folded("#rank_filtered")
    ('numcandidates', 'rankfiltered')
    """
    return "".join(letter for letter in name.casefold() if letter not in " \t_-.#\ufeff\u00a0")


def count_name(name: str, *, numbers: bool) -> str | None:
    """Return the count that a column means beside `better` and `equal`; None for keys.

    Keys may be named much like counts if they are no numbers.
    """
    word = folded(name)
    found = COUNTS.get(word)
    return found if found in MINE and (numbers or word == found) else None


def meanings(
    columns: Sequence[str], are_numbers: Callable[[str], bool], given: Collection[str] = ()
) -> dict[str, str]:
    """Return the new names of columns whose meaning another name tells.

    Parameters
    ----------
    columns : sequence of str
        Names of columns.
    are_numbers : callable
        Whether a column contains numbers only.
    given : collection of str
        Columns that are given otherwise, such as the number of candidates.

    Returns
    -------
    dict of str to str
        New names of some columns.

    Raises
    ------
    InputError
        If two columns mean the same, one could mean two things, or one is misspelt.

    Examples
    --------
    >>> meanings(["Rank", "num_candidates", "Relation", "score"], lambda name: True)
    {'Rank': 'rank', 'num_candidates': 'candidates', 'Relation': 'relation'}
    """
    own = {"better", "equal"} <= {*columns}
    found: dict[str, str] = {}  # from the meaning to the column
    for column in columns:
        meaning = COUNTS.get(folded(column))
        if meaning is not None and own and column != meaning:
            meaning = count_name(column, numbers=are_numbers(column))
        if meaning is None or (own and meaning not in MINE):
            continue
        if meaning in found:
            raise InputError(
                f"two columns mean {meaning}",
                got=f"{found[meaning]!r} and {column!r}",
                do="rename or remove one",
            )
        found[meaning] = column
    if not any(found.keys() >= {*schema} for schema in SCHEMAS):
        several = [column for column in columns if folded(column) in RANK_WORDS]
        if len(several) > 1:
            got, do = " and ".join(map(repr, several)), "rename the one to evaluate to rank"
            raise InputError("several columns could mean rank", got=got, do=do)
        found |= dict.fromkeys(["rank"], several[0]) if several else {}
    others = [column for column in columns if column not in found.values()]
    possible = MINE if own else (*MINE, *SCHEMAS[1])
    missing = {*possible} - found.keys() - {*given}
    for column in others:
        _check_spelling(column, missing, are_numbers)
        unclear = () if own else UNCLEAR.get(folded(column), ())
        could = [meaning for meaning in unclear if meaning not in found and meaning not in given]
        if could and are_numbers(column):
            raise InputError(
                f"column {column!r} could mean {' or '.join(could)}",
                do=f"rename it to {' or '.join(could)}, or to another name if it is a key",
            )
    renamed = {column: meaning for meaning, column in found.items() if column != meaning}
    return renamed if own else renamed | _keys(others)


def near(columns: Sequence[str]) -> str | None:
    """Suggest which column to rename if there are no ranks."""
    for column in columns:
        for word in ("rank", "ranks", *COUNTS):
            if _is_misspelt(folded(column), word):
                return f"rename {column} to {COUNTS.get(word, 'rank')}"
    return None


def _keys(columns: Sequence[str]) -> dict[str, str]:
    """Find the keys that have other names; of several names of one key, the column of its own."""
    words: dict[str, list[str]] = {}
    for column in columns:
        words.setdefault(KEYS.get(folded(column), ""), []).append(column)
    words.pop("", None)
    renamed: dict[str, str] = {}
    letters = sum(len(folded(column)) == 1 for several in words.values() for column in several)
    for key, several in words.items():
        exact = [column for column in several if folded(column) == key]
        if len(exact) > 1:
            got = " and ".join(map(repr, exact))
            raise InputError(f"two columns mean {key}", got=got, do="rename or remove one")
        chosen = exact or (several if len(several) == 1 else [])
        # a single letter h, r or t may mean anything, two of them are parts of a triple
        if chosen and chosen[0] != key and (len(folded(chosen[0])) > 1 or letters > 1):
            renamed[chosen[0]] = key
    return renamed


def _check_spelling(column: str, missing: Collection[str], are_numbers: Callable[[str], bool]) -> None:
    """Raise an error for a column of numbers whose name is one slip away from a missing column."""
    for word, meaning in COUNTS.items():
        if meaning in missing and _is_misspelt(folded(column), word) and are_numbers(column):
            raise InputError(
                f"column {column!r} may be misspelt",
                do=f"rename it to {meaning}, or to another name if it is a key",
            )


def _is_misspelt(name: str, word: str) -> bool:
    """Whether a name differs from a word by one letter, or by two that are swapped.

    >>> [_is_misspelt(name, "weight") for name in ("wieght", "weigth", "weigh", "height", "weighted")]
    [True, True, True, False, False]
    """
    if abs(len(name) - len(word)) > 1 or name[:1] != word[:1]:
        return False
    start = next((i for i, (a, b) in enumerate(zip(name, word, strict=False)) if a != b), None)
    if start is None:
        return name != word
    one, other = name[start:], word[start:]
    swapped = one[:2] == other[1::-1] and one[2:] == other[2:]
    return swapped or one[1:] == other[1:] or one[1:] == other or one == other[1:]
