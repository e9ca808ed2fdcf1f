# SPDX-License-Identifier: BSD-2-Clause
"""Received messages, and messages that the program fills."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._rdmamsg import ffi, lib


class Message:
    """A received message.

    ``data`` is its memory, without a copy for messages above 4096 bytes. The
    memory returns to the library when the message and all views of it are
    gone, on any thread, and after the end of the context too.
    """

    __slots__ = ("tag", "_bytes", "_msg", "_view", "__weakref__")

    def __init__(self, tag: int, data: bytes | None, msg: Any) -> None:
        self.tag = tag  #: the number that the sender gave
        self._bytes = data
        self._msg = msg
        self._view: memoryview | None = None

    @property
    def data(self) -> memoryview:
        """The payload, read-only. ``data.obj`` keeps the memory alive."""
        if self._view is None:
            if self._bytes is not None:
                self._view = memoryview(self._bytes)
            else:
                self._view = lent(self._pointer()).toreadonly()
        return self._view

    def _pointer(self) -> Any:
        if self._msg is None:
            raise ValueError("the message was released")
        return self._msg

    def release(self) -> None:
        """Drops the message. Views that the program has stay valid."""
        self._bytes = self._msg = self._view = None

    def __enter__(self) -> Message:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __len__(self) -> int:
        if self._bytes is not None:
            return len(self._bytes)
        length: int = lib.rdmamsg_msg_len(self._pointer())
        return length

    def __bool__(self) -> bool:
        return True

    def __bytes__(self) -> bytes:
        return self._bytes if self._bytes is not None else bytes(self.data)

    def __repr__(self) -> str:
        if self._bytes is None and self._msg is None:
            return "<rdmamsg.Message, released>"
        return f"<rdmamsg.Message of {len(self)} bytes, tag {self.tag}>"


class OutMessage:
    """Registered memory of one endpoint's device: fill ``data`` and send it.

    Nothing is copied. Do not write to ``data`` after the send.
    """

    __slots__ = ("_msg", "data", "__weakref__")

    def __init__(self, msg: Any) -> None:
        self._msg = msg
        self.data = lent(msg)

    def __len__(self) -> int:
        return self.data.nbytes


def owned(pointer: Any) -> Any:
    """The message, with a destructor that any thread may run."""
    return ffi.gc(ffi.cast("void *", pointer), lib.pyr_msg_free)


def owned_once(pointer: int) -> Iterable[Any]:
    """The same for ``list +=``, which no Ctrl-C can interrupt: it frees the
    message never or once."""
    return map(ffi.gc, (ffi.cast("void *", pointer),), (lib.pyr_msg_free,))


def lent(msg: Any) -> memoryview:
    """A view of the message's memory, which holds the message."""
    message = ffi.cast("struct rdmamsg_msg *", msg)
    length = lib.rdmamsg_msg_len(message)
    memory = ffi.gc(ffi.cast("char *", lib.rdmamsg_msg_data(message)),
                    _Hold(msg))
    return memoryview(ffi.buffer(memory, length))


class _Hold:
    """A destructor that does nothing but hold the message until then."""

    __slots__ = ("msg",)

    def __init__(self, msg: Any) -> None:
        self.msg = msg

    def __call__(self, _: Any) -> None:
        self.msg = None
