# SPDX-License-Identifier: BSD-2-Clause
"""What the program gives to be sent, or to be read into."""

from __future__ import annotations

from typing import Any, TypeAlias

from ._rdmamsg import ffi

#: Anything with the buffer protocol: bytes, memoryview, mmap, numpy.ndarray.
Buffer: TypeAlias = Any


_DLPACK_HOST = (1, 3)  # kDLCPU, kDLCUDAHost


def _on_host(data: Any) -> bool:
    """True if the memory of an object with DLPack is the host's."""
    try:
        return data.__dlpack_device__()[0] in _DLPACK_HOST
    except Exception:
        return False


def _wrong(data: object, why: Exception) -> Exception:
    name = type(data).__name__
    if isinstance(data, str):
        return TypeError("a str is not a buffer: send data.encode()")
    dlpack = hasattr(data, "__dlpack__") and not isinstance(why, ValueError)
    if dlpack and _on_host(data):
        return TypeError(f"{name} has no buffer: give numpy.from_dlpack(data)")
    if dlpack or hasattr(data, "__cuda_array_interface__"):
        return TypeError(
            f"{name} is memory of another device, which has no buffer: export "
            "it as a dmabuf and use Context.region_dmabuf(), or copy it to "
            "the host")
    if isinstance(why, BufferError | ValueError):
        return BufferError(
            f"the {name} is {why}: give memory that is contiguous, as "
            "bytes(data) or numpy.ascontiguousarray(data)")
    return TypeError(
        f"{name} is not a buffer: give bytes, bytearray, memoryview, mmap, "
        "array or numpy.ndarray")


def readable(data: Buffer) -> Any:
    """The memory as char[], which holds the object and its export."""
    try:
        return ffi.from_buffer(data)
    except (BufferError, TypeError, ValueError) as err:
        raise _wrong(data, err) from None


def writable(data: Buffer) -> Any:
    """The same of memory that the library writes."""
    try:
        return ffi.from_buffer(data, require_writable=True)
    except (BufferError, TypeError, ValueError) as err:
        if not isinstance(data, str):
            try:
                ffi.from_buffer(data)
            except (BufferError, TypeError, ValueError):
                pass
            else:
                raise BufferError(
                    f"the {type(data).__name__} is read-only: give a "
                    "bytearray, mmap, array or writable numpy.ndarray"
                ) from None
        raise _wrong(data, err) from None
