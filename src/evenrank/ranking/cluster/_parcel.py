"""Send models to workers; arrays mapped from files are not sent, workers map the same files."""

from __future__ import annotations

import pickle
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.mapped import mapped_array
from evenrank._internal.optional import need
from evenrank.errors import InputError
from evenrank.ranking.resume import content_hash

SAMPLE = 4096  # numbers of a mapped array that are hashed to recognise it


class Parcel:
    """A model, pickled once and unpickled once by every worker.

    Arrays are not copied: in the workers they are views of the received bytes. An array that is mapped
    from a file is not sent: workers map the file too, and those on one machine share its memory.
    """

    def __init__(self, scorer: Any) -> None:
        need("distributed")
        from cloudpickle import Pickler  # as Dask does: a model may be a nested function

        class Packer(Pickler):  # type: ignore[misc]  # it has no stubs
            def reducer_override(self, thing: Any) -> Any:
                place = Place.of(thing) if isinstance(thing, np.ndarray) else None
                return super().reducer_override(thing) if place is None else (Place.open, (place,))

        buffers: list[pickle.PickleBuffer] = []
        content = BytesIO()
        try:
            Packer(content, protocol=5, buffer_callback=buffers.append).dump(scorer)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise InputError("this model cannot be sent to workers", got=str(error)) from None
        self.content = content.getvalue()
        self.buffers = [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]

    def __getstate__(self) -> dict[str, Any]:
        """Send the pickled bytes, also from worker to worker."""
        return {"content": self.content, "buffers": self.buffers}

    @cached_property
    def scorer(self) -> Any:
        """The model."""
        return pickle.loads(self.content, buffers=self.buffers)  # noqa: S301  # as all that Dask sends


class Place(NamedTuple):
    """The place of an array in a file, and a hash to recognise it."""

    path: Path
    kind: str
    shape: tuple[int, ...]
    offset: int
    known_by: str

    @classmethod
    def of(cls, array: NDArray[Any]) -> Place | None:
        """Return the place of an array, or None if it is not mapped from a file."""
        base = mapped_array(array)
        # an array mapped for writing may differ from the file
        if base is None or base.mode != "r" or base.filename is None:
            return None
        if not array.flags.c_contiguous:
            return None
        offset = base.offset + array.ctypes.data - base.ctypes.data
        path = Path(base.filename).resolve()
        return cls(path, array.dtype.str, array.shape, offset, _sampled(array))

    def open(self) -> NDArray[Any]:
        """Map the array."""
        do = "put the model where all workers find it under this path, or load it without mapping"
        try:
            array = np.asarray(np.memmap(self.path, self.kind, "r", self.offset, self.shape))
        except (OSError, ValueError) as error:
            raise InputError(
                "a worker cannot map the file of the model", got=f"{self.path}: {error}", do=do
            ) from None
        if _sampled(array) != self.known_by:
            raise InputError("a worker has another model at this path", got=str(self.path), do=do)
        return array


def _sampled(array: NDArray[Any]) -> str:
    numbers = array.reshape(-1)
    return content_hash([("sample", numbers[:: max(1, len(numbers) // SAMPLE)])])
