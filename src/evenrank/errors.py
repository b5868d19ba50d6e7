"""The few exceptions users may catch."""

from __future__ import annotations

__all__ = ["DegenerateError", "EvenrankError", "InputError", "NoLawError", "UnknownMetricError"]


class EvenrankError(ValueError):
    """Anything evenrank refuses to do, in one line: what, got, allowed, do.

    >>> print(EvenrankError("hits@k needs k >= 1", got=0, do="ask for hits@1 or more"))
    hits@k needs k >= 1; got 0; ask for hits@1 or more
    """

    def __init__(
        self, what: str, *, got: object = None, allowed: str | None = None, do: str | None = None
    ) -> None:
        """Join what there is to say."""
        self.what = what
        parts = [what]
        if got is not None:
            parts.append(f"got {got}")
        if allowed is not None:
            parts.append(f"allowed: {allowed}")
        if do is not None:
            parts.append(do)
        super().__init__("; ".join(parts))


class InputError(EvenrankError):
    """Ranks, sizes, weights, options or files that cannot be right."""


class UnknownMetricError(EvenrankError):
    """A metric expression that names nothing evenrank knows."""


class NoLawError(EvenrankError):
    """A number that does not exist under chance (an infinite mean) or has no exact law."""


class DegenerateError(EvenrankError):
    """An adjustment that is undefined because chance leaves no room: every outcome is the same."""
