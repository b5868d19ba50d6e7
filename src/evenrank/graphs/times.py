"""Times of the facts of temporal graphs: points and intervals, as numbers or as dates.

Files of temporal graphs have a fourth column with a time, or a fourth and a fifth with the first and
the last time at which the fact holds. Whole numbers are ids of times, in chronological order. Dates are
years, months or days, such as 2014, 2014-05 or 2014-05-31, where # stands for an unknown digit:
2014-##-## is all of 2014, and ####-##-## means that the interval has no known start or end. Each date
is converted to the first and the last day that it may be, and these days are numbered in chronological
order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from evenrank._internal.arrays import Ints
from evenrank.errors import InputError
from evenrank.graphs.text import Table

POINT, INTERVAL = ("time",), ("since", "until")
WHOLE = r"^\d{1,15}$"  # up to milliseconds since 1970
DATE = re.compile(r"(-?[\d#]{1,4})(?:-([\d#]{1,2}))?(?:-([\d#]{1,2}))?")
MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
START, END = -(2**40), 2**40  # days that are before and after all others
OPEN = {START: "open start", END: "open end"}
ALLOWED = "dates such as 2014-05-31, with # for unknown digits; or whole numbers in all lines"
SHORT = r"^\d{1,2}-\d{1,2}-\d{1,2}$"  # a day whose year may come last


def columns_of(table: Table) -> tuple[str, ...]:
    """Return the columns of a table that hold times: none, one or two."""
    return next((c for c in (POINT, INTERVAL) if set(c) <= set(table.frame.columns)), ())


def read_times(
    tables: Mapping[str, Table],
) -> tuple[dict[str, Ints], tuple[str, ...] | range, list[str]]:
    """Number the times of a temporal graph.

    Parameters
    ----------
    tables : mapping of str to Table
        The table of each split, all with a column `time`, or with `since` and `until`, of text.

    Returns
    -------
    times : dict of str to array of int, shape (n, 2)
        For each split, the ids of the first and the last time of each fact.
    instants : tuple of str or range
        The names of the times in their order; a range if these are numbers.
    notes : list of str
        What the user should know.
    """
    import polars as pl

    columns = columns_of(next(iter(tables.values())))
    texts = pl.concat([t.frame[c].rename("") for t in tables.values() for c in columns]).unique().sort()
    notes: list[str] = []
    if columns == INTERVAL and not any(table.named for table in tables.values()):
        last = pl.concat([table.frame["until"] for table in tables.values()]).unique()
        first = pl.concat([table.frame["since"] for table in tables.values()]).unique()
        if len(last) == 1 and len(first) > 1 and last.str.contains(r"^-?\d+$").all():
            notes = [f"the fifth column is {last[0]} in all lines, and is left out"]
            columns, texts = ("since",), first.rename("").sort()
    if not texts.null_count() and texts.str.contains(WHOLE).all():
        numbers = {
            split: np.stack(
                [
                    table.frame[c].cast(pl.Int64).to_numpy()
                    for c in (columns if len(columns) == 2 else columns * 2)
                ],
                axis=1,
            )
            for split, table in tables.items()
        }
        return numbers, range(int(max(rows.max(initial=0) for rows in numbers.values())) + 1), notes
    days = {text: _days(text) for text in texts.drop_nulls()}
    for table in tables.values():
        for column in columns:
            bad = [text for text, known in days.items() if known is None]
            wrong = table.frame[column].is_null() | table.frame[column].is_in(bad)
            if wrong.any():
                row = int(wrong.arg_true()[0])
                got = table.frame[column][row]
                what = "no time" if got is None else repr(got)
                do = "correct the line, or remove the columns after the third if they hold no times"
                raise InputError(f"{table.at(row)}: not a time", got=what, allowed=ALLOWED, do=do)
    short = texts.filter(texts.str.contains(SHORT))
    if len(short):
        notes.append(f"{short[0]} is read as a day of the year {int(short[0].partition('-')[0])}")
    sound = {text: known for text, known in days.items() if known is not None}
    ends: dict[str, list[Ints]] = {
        split: [
            np.array([sound[text][end] for text in table.frame[column]], dtype=np.int64)
            for end, column in enumerate(columns if len(columns) == 2 else columns * 2)
        ]
        for split, table in tables.items()
    }
    every = np.unique(np.concatenate([part for two in ends.values() for part in two]))
    numbered = {
        split: np.stack([np.searchsorted(every, part) for part in two], axis=1)
        for split, two in ends.items()
    }
    return numbered, tuple(OPEN.get(day) or _iso(day) for day in every.tolist()), notes


def _days(text: str) -> tuple[int, int] | None:
    """Return the first and the last day that a date may be; None if it is not a date.

    >>> [_iso(day) for day in _days("2012-02-##")], _days("2014-02-30")
    (['2012-02-01', '2012-02-29'], None)
    >>> [_iso(day) for day in _days("19##")], _days("####-##-##") == (START, END)
    (['1900-01-01', '1999-12-31'], True)
    """
    found = DATE.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day = found.groups()
    if not year.strip("#"):
        return None if (month or "#").strip("#") or (day or "#").strip("#") else (START, END)
    years = sorted(int(year.replace("#", digit)) for digit in "09")
    ends = []
    for last, which in enumerate(years):
        m = _part(month, 1, 12, last)
        if m is None:
            return None
        d = _part(day, 1, _length(which, m), last)
        if d is None:
            return None
        ends.append(_number(which, m, d))
    return ends[0], ends[1]


def _part(text: str | None, low: int, high: int, last: int) -> int | None:
    """Return the least or the largest month or day that is written like this; None if there is none."""
    if text is None:
        return high if last else low
    pattern = re.compile(text.zfill(2).replace("#", r"\d") if text.strip("#") else r"\d\d")
    fitting = [n for n in range(low, high + 1) if pattern.fullmatch(f"{n:02}")]
    return (fitting[-1] if last else fitting[0]) if fitting else None


def _length(year: int, month: int) -> int:
    """Return the number of days of a month.

    >>> _length(2000, 2), _length(1900, 2), _length(1999, 12)
    (29, 28, 31)
    """
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return MONTHS[month - 1] + (month == 2 and leap)


def _number(year: int, month: int, day: int) -> int:
    """Number the days in their order, also before the year 1; day 0 is 0000-03-01."""
    year -= month < 3  # so that a leap day is the last day of its year
    of_year = (153 * ((month - 3) % 12) + 2) // 5 + day - 1
    return 365 * year + year // 4 - year // 100 + year // 400 + of_year


def _iso(day: int) -> str:
    """Write a day by its number.

    >>> _iso(_number(2000, 2, 29)), _iso(_number(-44, 3, 15))
    ('2000-02-29', '-0044-03-15')
    """
    era, of_era = divmod(day, 146_097)  # days in 400 years
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    rest = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * rest + 2) // 153
    number = 400 * era + year + (month >= 10)
    sign = "-" * (number < 0)
    return f"{sign}{abs(number):04}-{(month + 2) % 12 + 1:02}-{rest - (153 * month + 2) // 5 + 1:02}"
