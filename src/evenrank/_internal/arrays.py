"""Helpers for arrays that may be NumPy arrays or torch tensors, on any device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenrank.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Function = Callable[[Floats], Floats]


# torch's names of the types of numbers that NumPy has too, or that float32 can hold
TYPES = {
    *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
    *("bfloat16", "float16", "float32", "float64", "complex64", "complex128"),
}


def is_tensor(values: Any) -> bool:
    """Return whether an object is a tensor of torch, without importing torch."""
    return hasattr(values, "detach")


def array(name: str, values: Any, *, real: bool = False) -> Any:
    """Convert to an array of floats; floats of NumPy and torch are not copied.

    Tensors on the CPU become NumPy arrays; those on other devices stay there. Complex numbers become
    pairs of real ones, as in embeddings; with `real`, as in scores, they are an error.
    """
    if is_tensor(values):
        return _tensor(name, dense(name, values), real)
    try:
        result = np.asarray(values)
    except ValueError:
        raise InputError(
            f"{name} must have rows of one length", got="rows of different lengths"
        ) from None
    if result.dtype.kind in "iub":
        return result.astype(np.float64)
    if result.dtype.kind == "c":
        if real:
            raise complex_error(name)
        # real parts, then imaginary parts
        result = np.concatenate([result.real, result.imag], axis=-1)
    if result.dtype.kind != "f":
        raise InputError(f"{name} must be numbers", got=f"type {result.dtype}")
    # foreign byte orders and lengths become native ones
    kinds = {2: np.float16, 4: np.float32}
    return result.astype(kinds.get(result.dtype.itemsize, np.float64), copy=False)


def dense(name: str, values: Any) -> Any:
    """Detach a torch tensor from its graph and convert it to a type that NumPy has."""
    layout, where = (str(getattr(values, part, None)) for part in ("layout", "device"))
    nested = getattr(values, "is_nested", False)
    if layout not in ("torch.strided", "None") or where == "meta" or nested:
        raise InputError(
            f"{name} must be a dense tensor with values",
            got="a nested tensor" if nested else f"{layout} on device {where}",
            do="pad it with torch.nested.to_padded_tensor"
            if nested
            else "convert it with .to_dense(), on a device other than meta",
        )
    kind = str(values.dtype).removeprefix("torch.")
    if kind not in TYPES:
        raise InputError(
            f"{name} has numbers of a type that NumPy does not have",
            got=kind,
            do="convert it with " + (".dequantize()" if kind.startswith("q") else ".float()"),
        )
    # float32 holds every value of bfloat16
    return values.detach().float() if str(values.dtype) == "torch.bfloat16" else values.detach()


def complex_error(name: str) -> InputError:
    """Build the error for complex numbers where only real ones have a meaning."""
    do = "pass their real parts or absolute values"
    return InputError(f"{name} must be real numbers", got="complex numbers, which have no order", do=do)


def _tensor(name: str, values: Any, real: bool) -> Any:
    on_host = str(getattr(values, "device", "cpu")) == "cpu"
    if on_host:
        return array(name, values.cpu().numpy(), real=real)
    if values.is_complex():
        if real:
            raise complex_error(name)
        return join(values.real, values.imag)
    return values if values.is_floating_point() else values.double()


def read_only(values: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view of an array."""
    view = values.view()
    view.flags.writeable = False
    return view


def nan_error(where: str, do: str = "check the model's parameters") -> InputError:
    """Build the error for scores that contain NaN; `where` names query and candidate."""
    return InputError(f"scores contain NaN ({where})", do=do)


def join(first: Any, second: Any) -> Any:
    """Put the columns of two arrays side by side."""
    if is_tensor(first):
        import torch

        return torch.cat([first, second], dim=-1)
    return np.concatenate([first, second], axis=-1)


def wide(rows: Any) -> Any:
    """Convert rows to float64."""
    return rows.double() if is_tensor(rows) else rows.astype(np.float64, copy=False)


def to(device: Any, values: Any) -> Any:
    """Move an array to a torch device; None means NumPy."""
    if device is None:
        return host(values)
    import torch

    if not is_tensor(values):
        # memory-mapped files are read-only, which torch warns about
        values = torch.from_numpy(values if values.flags.writeable else values.copy())
    return values.to(device)


def place(values: Any) -> str:
    """Return the name of the device that holds an array."""
    return str(values.device) if is_tensor(values) else "cpu"


def memory(values: Any) -> tuple[Any, ...]:
    """Identify the memory of an array, with its shape, strides and type."""
    if is_tensor(values):
        return values.data_ptr(), values.shape, values.stride(), values.dtype
    return values.ctypes.data, values.shape, values.strides, values.dtype


def host(values: Any) -> Any:
    """Copy an array from its device to a NumPy array."""
    return values.cpu().numpy() if is_tensor(values) else values
