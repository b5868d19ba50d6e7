"""The exceptions that evenrank raises. All are `EvenrankError`, which is a `ValueError`."""

from __future__ import annotations

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


@dataclass(frozen=True)
class Option:
    """A parameter that an error names: written as a keyword in Python, as an option in the shell.

    >>> option = Option("unseen", "drop")
    >>> str(option), option.in_shell()
    ("unseen='drop'", '--unseen drop')
    >>> str(Option("candidates")), Option("candidates").in_shell()
    ('candidates=', '--candidates')
    """

    name: str
    value: Any = None

    def __str__(self) -> str:
        """Write it as Python does."""
        return f"{self.name}={'' if self.value is None else repr(self.value)}"

    def in_shell(self) -> str:
        """Write it as the shell does."""
        value = "" if self.value is None or self.value is True else f" {self.value}"
        return f"--{self.name.replace('_', '-')}{value}"


class EvenrankError(ValueError):
    """Base class of all errors: one line that says what is wrong, what was given, and what to do.

    Parameters
    ----------
    what : str
        What is wrong.
    got : object, optional
        The value that was given.
    allowed : str, optional
        What would have been right.
    do : str or sequence of str and Option, optional
        What to do; options are written for Python or for the shell.

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
            parts.append(f"got {got}")
        if allowed is not None:
            parts.append(f"allowed: {allowed}")
        self._said = "; ".join(parts)
        self._do: Sequence[str | Option] = [do] if isinstance(do, str) else do or ()
        super().__init__(self._line([str(part) for part in self._do]))

    def in_shell(self) -> str:
        """Write the error with options as the shell has them."""
        return self._line([p if isinstance(p, str) else p.in_shell() for p in self._do])

    def _line(self, do: list[str]) -> str:
        return "; ".join([self._said, "".join(do)] if do else [self._said])


class InputError(EvenrankError):
    """Ranks, sizes, weights, options or files that cannot be right."""


class UnknownMetricError(EvenrankError):
    """A metric expression that names nothing evenrank knows."""


class NullDistributionError(EvenrankError):
    """A moment that does not exist under chance, such as an infinite mean, or is not known exactly."""


class DegenerateError(EvenrankError):
    """An adjustment that is undefined because every ranking gets the same value."""
