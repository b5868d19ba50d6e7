"""Exceptions that evenrank raises; all derive from `EvenrankError`, a `ValueError`."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "DegenerateError",
    "EvenrankError",
    "InputError",
    "NullDistributionError",
    "UnknownMetricError",
]


VALUE, MESSAGE = 500, 2000  # most letters of a value in a message, and of a message
# letters that a terminal obeys, and that change the order of others; joiners belong to words and emoji
_CONTROLS, _JOINERS = {"Cc", "Cf", "Cs", "Zl", "Zp"}, "\u200c\u200d"


def visible(text: str) -> str:
    r"""Write control characters as escapes, so that a name can neither hide nor steer a terminal.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        The text without control characters, line breaks, marks of direction and lone surrogates.

    Examples
    --------
    >>> print(visible("caf\u00e9 \x1b[2J \u202egnp.exe"))
    café \x1b[2J \u202egnp.exe
    """
    if text.isprintable():
        return text
    return "".join(
        one.encode("unicode_escape").decode()
        if unicodedata.category(one) in _CONTROLS and one not in _JOINERS
        else one
        for one in text
    )


def shortened(text: str, most: int) -> str:
    """Leave out the middle of a text that is too long.

    Parameters
    ----------
    text : str
        Any text.
    most : int
        The most letters.

    Returns
    -------
    str
        The text, or its two ends.

    Examples
    --------
    >>> shortened("0123456789", 10), shortened("0123456789", 7)
    ('0123456789', '012…789')
    """
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - 1 - half]}…{text[-half:]}"


@dataclass(frozen=True)
class Option:
    """A parameter named in an error message: a keyword in Python, an option in the shell.

    Parameters
    ----------
    name : str
        Name of the parameter in Python.
    value : object, optional
        The value to pass.
    flag : str, optional
        Name of the shell option, if it is not that of the parameter.
    typed : str, optional
        The value in the shell, if it is written in another way.

    Examples
    --------
    >>> option = Option("unseen", "drop")
    >>> str(option), option.in_shell()
    ("unseen='drop'", '--unseen drop')
    >>> str(Option("candidates")), Option("candidates").in_shell()
    ('candidates=', '--candidates')
    >>> Option("format", "pykeen", flag="model-format").in_shell()
    '--model-format pykeen'
    >>> Option("sizes", {14541: 40932}, typed="14541x40932").in_shell()
    '--sizes 14541x40932'
    """

    name: str
    value: Any = None
    flag: str | None = None
    typed: str | None = None

    def __str__(self) -> str:
        """Format as a keyword argument."""
        return f"{self.name}={'' if self.value is None else repr(self.value)}"

    def in_shell(self) -> str:
        """Format as a shell option.

        Returns
        -------
        str
            The option, with its value if there is one.
        """
        given = self.value if self.typed is None else self.typed
        value = "" if given is None or given is True else f" {given}"
        return f"--{self.flag or self.name.replace('_', '-')}{value}"


class Advice(str):
    """A note that says what to do; options are formatted for Python, or for the shell.

    Parameters
    ----------
    *parts : str or Option
        Text and options, in order.

    Examples
    --------
    >>> note = Advice("1 entity is unseen; drop it with ", Option("unseen", "drop"))
    >>> print(note, "|", note.in_shell())
    1 entity is unseen; drop it with unseen='drop' | 1 entity is unseen; drop it with --unseen drop
    """

    __slots__ = ("_parts",)
    _parts: tuple[str | Option, ...]

    def __new__(cls, *parts: str | Option) -> Advice:
        made = super().__new__(cls, "".join(map(str, parts)))
        made._parts = parts
        return made

    def __reduce__(self) -> tuple[type[Advice], tuple[str | Option, ...]]:
        """Keep the options when a note is pickled or copied."""
        return Advice, self._parts

    def in_shell(self) -> str:
        """Format the note with shell options.

        Returns
        -------
        str
            The note.
        """
        return "".join(p if isinstance(p, str) else p.in_shell() for p in self._parts)


def for_shell(text: str) -> str:
    """Format a note for the shell, if it names options.

    Parameters
    ----------
    text : str
        A note.

    Returns
    -------
    str
        The note, with shell options.
    """
    return text.in_shell() if isinstance(text, Advice) else text


class EvenrankError(ValueError):
    """Base class of all errors.

    The message is one line: the problem, the value, the values allowed, and what to do. Control
    characters are shown as escapes, and long values are shortened.

    Parameters
    ----------
    what : str
        The problem.
    got : object, optional
        The offending value.
    allowed : str, optional
        Which values are allowed.
    do : str or sequence of str and Option, optional
        How to solve the problem; options are formatted for Python or for the shell.

    Examples
    --------
    >>> print(EvenrankError("hits@k needs k >= 1", got=0, do="ask for hits@1 or more"))
    hits@k needs k >= 1; got 0; ask for hits@1 or more
    >>> error = EvenrankError("unknown entity", do=["load the graph with ", Option("unseen", "drop")])
    >>> print(error, "|", error.in_shell())
    unknown entity; load the graph with unseen='drop' | unknown entity; load the graph with --unseen drop
    """

    def __init__(
        self,
        what: str,
        *,
        got: object = None,
        allowed: str | None = None,
        do: str | Sequence[str | Option] | None = None,
    ) -> None:
        self.what = what
        parts = [what]
        if got is not None:
            line = " ".join(line.strip() for line in str(got).split("\n"))
            parts.append(f"got {shortened(line, VALUE)}")
        if allowed is not None:
            parts.append(f"allowed: {allowed}")
        self._problem = "; ".join(parts)
        self._do: Sequence[str | Option] = [do] if isinstance(do, str) else do or ()
        super().__init__(self._line([str(part) for part in self._do]))

    def in_shell(self) -> str:
        """Format the message with shell options.

        Returns
        -------
        str
            The message.
        """
        return self._line([p if isinstance(p, str) else p.in_shell() for p in self._do])

    def at(self, where: str) -> EvenrankError:
        """Prefix the message with the place it is about, such as a file and a line.

        Parameters
        ----------
        where : str
            The place.

        Returns
        -------
        EvenrankError
            An error of the same type.

        Examples
        --------
        >>> print(InputError("not a number", got="x").at("results.csv:3"))
        results.csv:3: not a number; got x
        """
        return type(self)(f"{where}: {self._problem}", do=self._do)

    def _line(self, do: list[str]) -> str:
        line = "; ".join([self._problem, "".join(do)] if do else [self._problem])
        return visible(shortened(line, MESSAGE))


class InputError(EvenrankError):
    """An argument or a file is invalid."""


class UnknownMetricError(EvenrankError):
    """A metric expression cannot be parsed."""


class NullDistributionError(EvenrankError):
    """A null distribution, or a moment of it, does not exist or is not known exactly."""


class DegenerateError(EvenrankError):
    """A chance-adjusted metric is undefined because every ranking has the same value."""
