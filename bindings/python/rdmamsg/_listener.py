# SPDX-License-Identifier: BSD-2-Clause
"""Listeners and connection requests, without waiting."""

from __future__ import annotations

import enum
import errno
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

from ._buffer import readable
from ._core import Core, stats_dict
from ._endpoint import EndpointBase, address_of
from ._errors import ClosedError, Error, check, error
from ._onesided import Key, Region
from ._options import EndpointOptions, ListenOptions, chosen, fill
from ._rdmamsg import ffi, lib


class ListenFlag(enum.IntFlag):
    """ListenOptions.flags: enum rdmamsg_listen_flags."""

    SHARED = lib.RDMAMSG_LISTEN_SHARED
    BY_LOAD = lib.RDMAMSG_LISTEN_BY_LOAD


class Request:
    """A peer asks for a connection. Accept or reject it, once.

    A request that the program drops is rejected.
    """

    def __init__(self, listener: ListenerBase, pointer: int) -> None:
        self._listener = listener
        self._req: Any = ffi.cast("struct rdmamsg_request *", pointer)
        self._taken = False  # the listener does not have it any more

    def __del__(self) -> None:
        if self._taken and self._req is not None:
            self._listener._core._drop_request(
                int(ffi.cast("uintptr_t", self._req)))

    def _handle(self) -> Any:
        self._listener._core._handle()
        if self._req is None:
            raise ClosedError(errno.EALREADY,
                              "the request was accepted or rejected before")
        return self._req

    @property
    def answered(self) -> bool:
        """True after accepting or rejecting."""
        return self._req is None

    @property
    def data(self) -> bytes:
        """The peer's hello_data."""
        size = ffi.new("size_t *")
        data = lib.rdmamsg_request_data(self._handle(), size)
        return b"" if data == ffi.NULL else bytes(ffi.buffer(data, size[0]))

    @property
    def peer(self) -> tuple[str, int] | None:
        """The peer's host and port."""
        storage = ffi.new("struct sockaddr_storage *")
        check(lib.rdmamsg_request_addrs(self._handle(), ffi.NULL, storage))
        return address_of(storage[0])

    @property
    def local(self) -> tuple[str, int] | None:
        """This host's address that the request came to."""
        storage = ffi.new("struct sockaddr_storage *")
        check(lib.rdmamsg_request_addrs(self._handle(), storage, ffi.NULL))
        return address_of(storage[0])

    def key(self, region: Region) -> Key:
        """A key for this peer, which fits into setup_data of accept()."""
        key = Key.__new__(Key)
        key._key = ffi.new("struct rdmamsg_key *")
        check(lib.rdmamsg_request_get_key(self._handle(), region._handle(),
                                          key._key))
        return key

    def reject(self, data: bytes = b"") -> None:
        """Rejects the request. The peer's Rejected.reason has the data."""
        memory = readable(data)
        size = len(memory)
        handle, self._req = self._handle(), None
        check(lib.rdmamsg_request_reject(handle, memory, size))

    def _take(self) -> Any:
        handle, self._req = self._handle(), None
        return handle

    def _accept_as(self, ep: EndpointBase) -> None:
        """Accepts the request as this endpoint, which is new."""
        handle = self._handle()

        def accept(options: Any, ret: Any) -> int:
            self._req = None
            result: int = lib.rdmamsg_request_accept(handle, options, ret)
            return result
        ep._start(accept)


class ListenerBase:
    """Accepts connections. Context.listen() makes it."""

    #: Called with an Error when the listener's device was removed.
    on_failed: Callable[[Error], object] | None = None

    def __init__(self, core: Core, host: str | None, service: str | int,
                 endpoint: EndpointOptions | None,
                 options: ListenOptions | None) -> None:
        self._core = core
        self._endpoint = chosen(EndpointOptions, endpoint)
        self._inbox: deque[int] = deque()  # requests
        filled = fill(chosen(ListenOptions, options))
        handle = core._handle()
        self._id = core._add(self)
        filled.at.user = ffi.cast("void *", self._id)
        filled.at.handlers = lib.pyr_listener_handlers()
        ret = ffi.new("struct rdmamsg_listener **")
        try:
            check(lib.rdmamsg_listen(handle, c_text(host), c_text(service),
                                     filled.at, ret))
        except BaseException:
            del core._targets[self._id]
            raise
        self._listener: Any = ret[0]

    def _handle(self) -> Any:
        if self._listener is not None:
            self._core._handle()
        if self._listener is None:
            raise ClosedError(errno.EBADF, "the listener is closed")
        return self._listener

    def _on_message(self) -> None:
        raise NotImplementedError

    def _on_event(self, kind: int, status: int, value: int, obj: int,
                  data: bytes) -> None:
        if kind == lib.PYR_REQUEST:
            self._requested()
            self._core._queue_in(self._inbox, obj)
        elif kind == lib.PYR_LISTEN_FAILED:
            self._core._call(self.on_failed, error(
                status, "the listener's device was removed"))
        elif kind == lib.PYR_ACCEPT_FAILED:
            self._core._call(
                warnings.warn, f"rdmamsg: not accepted: {data.decode()}",
                RuntimeWarning, 2)
        elif kind == lib.PYR_SHUTDOWN:
            self._listener = None
            self._wake()

    def _wake(self) -> None:
        """The listener is closed."""

    def _requested(self) -> None:
        """A request comes next."""

    def _next(self) -> Request:
        """Takes the first request, which Ctrl-C cannot lose."""
        request = Request(self, self._inbox[0])
        del self._inbox[0]
        request._taken = True
        return request

    @property
    def port(self) -> int:
        """The port, also if the program asked for any."""
        port: int = lib.rdmamsg_listener_port(self._handle())
        return port

    @property
    def closed(self) -> bool:
        """True after close()."""
        return self._listener is None

    def statistics(self) -> dict[str, Any]:
        """Counters: struct rdmamsg_listener_stats."""
        handle = self._handle()
        return stats_dict("struct rdmamsg_listener_stats",
                          lambda s: lib.rdmamsg_listener_get_stats(handle, s))

    def drain(self) -> None:
        """Rejects new requests, and asks peers to move elsewhere."""
        check(lib.rdmamsg_listener_drain(self._handle()))

    def close(self) -> None:
        """Stops listening. Rejects requests that nobody has taken."""
        if self._listener is None:
            return
        handle = self._handle()
        self._listener = None
        while self._inbox:
            self._next().reject()
        lib.rdmamsg_listener_close(handle)
        self._core._targets.pop(self._id, None)
        self._wake()


def c_text(value: str | int | None) -> Any:
    """A host or a service as C string; NULL of None."""
    if value is None:
        return ffi.NULL
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError(f"give a str or an int, not {type(value).__name__}")
    text = str(value).encode()
    if b"\0" in text:
        raise ValueError("a host or service has no NUL")
    return ffi.new("char[]", text)
