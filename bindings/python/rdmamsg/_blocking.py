# SPDX-License-Identifier: BSD-2-Clause
"""Contexts, endpoints and listeners of programs without a loop.

Each call that waits drives the context, and ends with TimedOut after its
timeout in seconds. Ctrl-C ends it at once.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import Any

from ._buffer import Buffer
from ._core import Core, Operation, stats_dict
from ._endpoint import EndpointBase, text_from
from ._errors import (
    Closed, ClosedError, TimedOut, check, text_of,
)
from ._group import Flushed, GroupBase, GroupFlag, Published
from ._listener import ListenerBase, Request, c_text
from ._message import Message, OutMessage
from ._onesided import Access, Key, Region, region_dmabuf, region_of
from ._options import (
    ContextOptions, EndpointOptions, GroupOptions, ListenOptions,
)
from ._rdmamsg import ffi, lib
from ._team import Op, TeamBase, TeamOptions


class Endpoint(EndpointBase):
    """A connection of a program that waits."""

    def _wait(self, done: Callable[[], object], timeout: float | None,
              what: str) -> None:
        """Waits while the endpoint is open."""
        self._core._drive(lambda: done() or self._ep is None, timeout, what)

    def _begin(self, attempt: Callable[[], Operation | bool | None],
               timeout: float | None) -> Operation | bool:
        """Repeats the attempt until there is room for it."""
        while True:
            begun = attempt()
            if begun:
                return begun
            self._writable = False
            self._wait(lambda: self._writable, timeout, "waiting for room")

    _writable = False

    def _wake_writer(self) -> None:
        self._writable = True

    def _finish(self, attempt: Callable[[], Operation | None],
                timeout: float | None, what: str) -> None:
        operation = self._begin(attempt, timeout)
        assert isinstance(operation, Operation)
        try:
            self._wait(operation.done, timeout, what)
        except TimedOut:
            self._cancel(operation)
            raise
        if operation.status is None:
            raise self._why()
        operation.check()

    def send(self, data: Buffer | Message | OutMessage, tag: int = 0,
             timeout: float | None = None) -> None:
        """Sends a message. The memory is the caller's when the call returns.

        TimedOut: a large message may arrive nevertheless, and its memory
        stays in use until then.
        """
        memory, large = self._outgoing(data)
        if large:
            self._finish(lambda: self._post_large(memory, tag), timeout,
                         "sending")
        else:
            self._begin(lambda: self._try(memory, tag), timeout)

    def recv(self, timeout: float | None = None) -> Message:
        """The next message. Closed: the peer has closed gracefully."""
        if not self._inbox:
            self._handle()
            self._wait(lambda: self._inbox, timeout, "receiving")
            if not self._inbox:
                raise self._why()
        return self._next()

    def __iter__(self) -> Iterator[Message]:
        """Messages until the peer closes."""
        while True:
            try:
                yield self.recv()
            except Closed:
                return

    def read(self, key: Key, region: Region, *, at: int = 0,
             size: int | None = None, offset: int = 0,
             timeout: float | None = None) -> None:
        """Reads the peer's memory at offset into the region at ``at``."""
        count = len(region) - at if size is None else size
        self._finish(lambda: self._post_read(key, region, at, count, offset),
                     timeout, "reading")

    def write(self, key: Key, source: Region | Buffer, *, at: int = 0,
              size: int | None = None, offset: int = 0,
              notify: int | None = None, timeout: float | None = None) -> None:
        """Writes a region, or a copy of a small buffer, to the peer."""
        self._finish(self._write_attempt(key, source, at, size, offset,
                                         notify), timeout, "writing")

    def fetch_add(self, key: Key, offset: int, add: int,
                  timeout: float | None = None) -> int:
        """Adds to 8 bytes of the peer, and returns the value before."""
        result = ffi.new("uint64_t *")
        self._finish(lambda: self._post_fetch_add(key, offset, add, result),
                     timeout, "an atomic operation")
        value: int = result[0]
        return value

    def compare_swap(self, key: Key, offset: int, expected: int, desired: int,
                     timeout: float | None = None) -> int:
        """Writes desired if the value is expected. Returns the one before."""
        result = ffi.new("uint64_t *")
        self._finish(lambda: self._post_compare_swap(
            key, offset, expected, desired, result), timeout,
            "an atomic operation")
        value: int = result[0]
        return value

    def flush(self, timeout: float | None = None) -> None:
        """Returns when all earlier writes are in the peer's memory."""
        self._finish(self._post_flush, timeout, "flushing")

    def close(self, code: int = 0, data: bytes = b"",
              timeout: float | None = None) -> None:
        """Closes gracefully: both sides deliver what they have accepted.

        After the timeout the close becomes an abort, and raises TimedOut.
        """
        if self._ep is None:
            return
        self._begin_close(code, data)
        try:
            self._wait(lambda: False, timeout, "closing")
        except TimedOut:
            self.abort()
            raise

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._core.closed:
            return
        if kind is None:
            self.close()
        else:
            self.abort()


class Listener(ListenerBase):
    """Accepts connections of a program that waits."""

    def request(self, timeout: float | None = None) -> Request:
        """The next request, to accept(), reject() or look at."""
        self._handle()
        self._core._drive(lambda: self._inbox or self._listener is None,
                          timeout, "waiting for a request")
        if not self._inbox:
            raise ClosedError(errno.EBADF, "the listener is closed")
        return self._next()

    def accept(self, request: Request | None = None, *,
               timeout: float | None = None,
               options: EndpointOptions | None = None) -> Endpoint:
        """Accepts a request, or the next one, and waits until connected."""
        if request is None:
            request = self.request(timeout)
        ep = Endpoint(self._core, options or self._endpoint)
        request._accept_as(ep)
        ep._wait(lambda: ep._connected, timeout, "accepting")
        if not ep._connected:
            raise ep._why()
        return ep

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._core.closed:
            self.close()


class Group(GroupBase):
    """A multicast group of a program that waits."""

    def recv(self, timeout: float | None = None) -> Published:
        """The next message that somebody has published."""
        self._core._drive(lambda: self._inbox or self._group is None, timeout,
                          "receiving")
        if not self._inbox:
            raise self._why()
        return self._next()

    def publish(self, data: Buffer, timeout: float | None = None) -> None:
        """Sends a copy to all members."""
        while not self.try_publish(data):
            self._writable = False
            self._core._drive(lambda: self._writable or self._group is None,
                              timeout, "waiting for room")

    def flush(self, timeout: float | None = None) -> Flushed:
        """Waits until all subscribers with repair have everything, or for
        this time: the result is true if they have."""
        self._begin_flush(timeout)
        self._core._drive(lambda: self._flushed is not None or
                          self._group is None, None, "flushing")
        return self._end_flush()

    def leave(self, timeout: float | None = None) -> None:
        """Leaves after what was published is sent."""
        if self._group is not None:
            self._begin_leave()
            self._core._drive(lambda: self._group is None, timeout, "leaving")

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._core.closed:
            self.leave()


class Team(TeamBase):
    """Connected processes. Context.team() makes it."""

    def wait(self, timeout: float | None = None) -> None:
        """Waits for the operation that runs, and raises its error.

        After a timeout the operation runs on, and wait() may be repeated.
        """
        self._core._drive(lambda: not self._busy, timeout, "the operation")
        self._result()

    def barrier(self, timeout: float | None = None) -> None:
        """Returns after all members have called it."""
        self._begin_barrier()
        self.wait(timeout)

    def broadcast(self, data: Buffer, root: int = 0,
                  timeout: float | None = None) -> None:
        """Copies data of member root to data of all others."""
        self._begin_broadcast(data, root)
        self.wait(timeout)

    def allreduce(self, data: Buffer, op: Op = Op.ADD,
                  timeout: float | None = None) -> None:
        """Combines data of all members, in place. Elements of 8 bytes."""
        self._begin_allreduce(data, op)
        self.wait(timeout)

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()


class Context(Core):
    """A context of one thread, and its blocking calls.

    The end of a ``with`` block shuts down gracefully; an exception aborts.
    """

    #: Called with (name, device, port) of an event of a device.
    on_event: Callable[[str, str, int], object] | None = None

    def _on_context_event(self, kind: int, status: int, value: int, obj: int,
                          data: bytes) -> None:
        if kind == lib.PYR_DEVICE:
            name, _, device = data.decode().partition("\n")
            self._call(self.on_event, name, device, value)
        elif kind == lib.PYR_SHUTDOWN:
            self._failed = value

    _failed: int | None = None

    def connect(self, host: str, service: str | int, *,
                timeout: float | None = None,
                options: EndpointOptions | None = None) -> Endpoint:
        """Connects to a service, and waits until connected."""
        ep = Endpoint(self, options)
        where = c_text(host), c_text(service)
        ep._start(lambda opts, ret: lib.rdmamsg_connect(
            self._handle(), *where, opts, ret))
        try:
            ep._wait(lambda: ep._connected, timeout, "connecting")
        except BaseException:
            ep.abort()
            raise
        if not ep._connected:
            raise ep._why()
        return ep

    def listen(self, service: str | int = 0, host: str | None = None, *,
               endpoint: EndpointOptions | None = None,
               options: ListenOptions | None = None) -> Listener:
        """Listens on a service; 0 takes a free port."""
        return Listener(self, host, service, endpoint, options)

    def region(self, memory: Buffer, access: Access = Access.NONE) -> Region:
        """Declares memory for one-sided operations, until destroy()."""
        return region_of(self, memory, access)

    def region_dmabuf(self, fd: int, offset: int, size: int,
                      access: Access = Access.NONE) -> Region:
        """Declares a dmabuf, which may be memory of another device."""
        return region_dmabuf(self, fd, offset, size, access)

    def join(self, address: str, *, flags: GroupFlag | None = None,
             timeout: float | None = None,
             options: GroupOptions | None = None) -> Group:
        """Joins a multicast group, and waits until joined."""
        group = Group(self, address, flags, options)
        self._drive(lambda: group._joined or group._group is None, timeout,
                    "joining")
        if group._group is None:
            raise group._why()
        return group

    def team(self, addresses: list[str], rank: int, *,
             timeout: float | None = None,
             options: TeamOptions | None = None) -> Team:
        """Connects the members of a team: "HOST:PORT" of each."""
        team = Team(self, addresses, rank, options)
        try:
            team.wait(timeout)
        except BaseException:
            team._leave()
            raise
        return team

    def watch(self, device: str | None = None) -> None:
        """on_event gets the events of the device without an endpoint."""
        check(lib.rdmamsg_device_watch(self._handle(), c_text(device)))

    def statistics(self) -> dict[str, Any]:
        """Counters: struct rdmamsg_stats."""
        ctx = self._handle()
        return stats_dict("struct rdmamsg_stats",
                          lambda s: lib.rdmamsg_get_stats(ctx, s))

    def statistics_text(self) -> str:
        """All counters in the text format of Prometheus."""
        ctx = self._handle()
        return text_from(lambda buf, size:
                         lib.rdmamsg_stats_text(ctx, buf, size))

    def dump(self) -> str:
        """A description of the context and all its objects."""
        ctx = self._handle()
        size = 1 << 16
        while True:
            buf = ffi.new("char[]", size)
            length: int = lib.pyr_dump(ctx, buf, size - 1)
            if length < size:
                return text_of(buf)
            size = length + 1

    def shutdown(self, timeout: float | None = None) -> int:
        """Ends all connections gracefully. Returns how many failed."""
        ms = -1 if timeout is None else round(timeout * 1000)
        if self._failed is not None:
            return self._failed
        check(lib.rdmamsg_shutdown(self._handle(), ms))
        self._drive(lambda: self._failed is not None, None, "shutdown")
        return self._failed or 0

    def wait(self, timeout: float | None = None) -> None:
        """Handles events for so many seconds."""
        try:
            self._drive(lambda: False, timeout, "waiting")
        except TimedOut:
            pass

    def __enter__(self) -> Context:
        self._handle()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not self.closed:
            self.shutdown()
        self.close()
