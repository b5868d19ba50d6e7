"""Models on their way to workers: arrays that lie in files go by name, and are mapped again there."""

from __future__ import annotations

import pickle
from functools import cached_property
from io import BytesIO
from mmap import mmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.optional import need
from evenrank.errors import InputError
from evenrank.ranking.resume import content_hash

SAMPLE = 4096  # numbers by which an array is known again, without reading all of it


class Parcel:
    """A scorer of any kind, packed once, and unpacked once by every worker that gets it.

    Arrays are copied neither here nor there, where they are views of what arrived. One that is mapped
    from a file is not even sent: workers map it too, and those of one machine share its memory.
    """

    def __init__(self, scorer: Any) -> None:
        """Pack."""
        need("distributed")
        from cloudpickle import Pickler  # as Dask does: scorers may be functions, and nested ones

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
        """Travel packed, also from worker to worker."""
        return {"content": self.content, "buffers": self.buffers}

    @cached_property
    def scorer(self) -> Any:
        """What was packed."""
        return pickle.loads(self.content, buffers=self.buffers)  # noqa: S301  # as all that Dask sends


class Place(NamedTuple):
    """Where an array lies in a file, and a hash to know it by."""

    path: Path
    kind: str
    shape: tuple[int, ...]
    offset: int
    known_by: str

    @classmethod
    def of(cls, array: NDArray[Any]) -> Place | None:
        """Find the place of an array; None: it is in memory."""
        base: Any = array
        while isinstance(base, np.ndarray) and not isinstance(base.base, mmap):
            base = base.base
        # what was mapped to be written to may not be in the file, or not stay there
        if not isinstance(base, np.memmap) or base.mode != "r" or base.filename is None:
            return None
        if not array.flags.c_contiguous:
            return None
        offset = base.offset + array.ctypes.data - base.ctypes.data
        path = Path(base.filename).resolve()
        return cls(path, array.dtype.str, array.shape, offset, _sampled(array))

    def open(self) -> NDArray[Any]:
        """Map the array."""
        do = "put the model where all workers see it by this name, or load it without mapping it"
        try:
            array = np.asarray(np.memmap(self.path, self.kind, "r", self.offset, self.shape))
        except (OSError, ValueError) as error:
            raise InputError(
                "a worker cannot map the file of the model", got=f"{self.path}: {error}", do=do
            ) from None
        if _sampled(array) != self.known_by:
            raise InputError("a worker finds another model by this name", got=str(self.path), do=do)
        return array


def _sampled(array: NDArray[Any]) -> str:
    numbers = array.reshape(-1)
    return content_hash([("sample", numbers[:: max(1, len(numbers) // SAMPLE)])])
