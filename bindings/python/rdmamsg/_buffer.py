# SPDX-License-Identifier: BSD-2-Clause
"""What the program gives to be sent, or to be read into."""

from __future__ import annotations

from typing import Any, TypeAlias

from ._rdmamsg import ffi

#: Anything with the buffer protocol: bytes, memoryview, mmap, numpy.ndarray.
Buffer: TypeAlias = Any


def _wrong(data: object, why: Exception) -> Exception:
    name = type(data).__name__
    if isinstance(data, str):
        return TypeError("a str is not a buffer: send data.encode()")
    if hasattr(data, "__cuda_array_interface__") or \
            (hasattr(data, "__dlpack__") and not isinstance(why, ValueError)):
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
