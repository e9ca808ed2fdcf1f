# SPDX-License-Identifier: BSD-2-Clause
"""Both kinds of endpoint: what needs no waiting."""

from __future__ import annotations

import enum
import errno
import ipaddress
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _onesided
from ._buffer import Buffer, readable
from ._core import Core, Operation, as_dict, stats_dict
from ._errors import (
    Error, MisuseError, Reason, check, error, read_reason, reason_error,
    text_of,
)
from ._message import Message, OutMessage, owned
from ._options import EndpointOptions, Filled, chosen, fill, new
from ._rdmamsg import ffi, lib

_COPY_MAX = 65536  # the library's default of max_copy
_INBOX = 256  # messages that wait for the program before the peer waits


class EndpointFlag(enum.IntFlag):
    """EndpointOptions.flags: enum rdmamsg_ep_flags."""

    SIGNAL_ALL = lib.RDMAMSG_EP_SIGNAL_ALL
    OWN_CQ = lib.RDMAMSG_EP_OWN_CQ
    GUARD = lib.RDMAMSG_EP_GUARD
    FULL_HEADERS = lib.RDMAMSG_EP_FULL_HEADERS
    CRC = lib.RDMAMSG_EP_CRC
    RETRY = lib.RDMAMSG_EP_RETRY


class Rung(enum.IntFlag):
    """Failover.rungs: enum rdmamsg_rung."""

    PATH = lib.RDMAMSG_RUNG_PATH
    STANDBY = lib.RDMAMSG_RUNG_STANDBY
    LANE = lib.RDMAMSG_RUNG_LANE


class PathChange(enum.IntEnum):
    """PathEvent.change: enum rdmamsg_path_change."""

    ARMED = lib.RDMAMSG_PATH_CHANGE_ARMED
    MIGRATED = lib.RDMAMSG_PATH_CHANGE_MIGRATED
    LOST = lib.RDMAMSG_PATH_CHANGE_LOST
    DOWN = lib.RDMAMSG_PATH_CHANGE_DOWN
    RESUMED = lib.RDMAMSG_PATH_CHANGE_RESUMED
    STANDBY = lib.RDMAMSG_PATH_CHANGE_STANDBY
    NOT_MOVED = lib.RDMAMSG_PATH_CHANGE_NOT_MOVED


@dataclass(frozen=True, slots=True)
class PathEvent:
    """A failover: struct rdmamsg_path_event."""

    change: int  #: PathChange
    port: int
    alternate: int
    ms: int  #: RESUMED: time without a connection
    repeated: int  #: RESUMED: messages that are sent again
    text: str


_PATH = struct.Struct("5I")


class EndpointBase(_onesided.OneSided):
    """A connection. Context.connect() and Listener.accept() make it."""

    #: Called with a PathEvent if the endpoint has failover.
    on_path: Callable[[PathEvent], object] | None = None
    #: Called with milliseconds when the peer's program does not answer.
    on_stalled: Callable[[int], object] | None = None
    #: Called when it answers again.
    on_resumed: Callable[[], object] | None = None
    #: Called with the value of a peer's write(notify=value).
    on_written: Callable[[int], object] | None = None

    def __init__(self, core: Core, options: EndpointOptions | None) -> None:
        options = chosen(EndpointOptions, options)
        self._core = core
        self._ep: Any = None
        self._inbox: deque[Message] = deque()
        self._full = False  # the inbox: paused by the binding
        self._paused = False  # by the program
        self._closing = False  # seen while the inbox was full
        self._connected = False
        self._reason: Reason | None = None
        self._peer_data = b""
        tuning = options.tuning
        self._copy_max = tuning.max_copy if tuning and tuning.max_copy \
            else _COPY_MAX
        self._options = fill(options)
        self._id = 0

    def _start(self, begin: Callable[[Any, Any], Any]) -> None:
        """Calls begin(options, ret), which makes the endpoint."""
        self._id = self._core._add(self)
        at = self._options.at
        at.user = ffi.cast("void *", self._id)
        at.handlers = lib.pyr_ep_handlers()
        ret = ffi.new("struct rdmamsg_ep **")
        try:
            check(begin(at, ret))
        except BaseException:
            del self._core._targets[self._id]
            if ret[0] != ffi.NULL:  # Ctrl-C
                lib.rdmamsg_ep_abort(ret[0])
            raise
        self._ep = ret[0]
        lib.rdmamsg_ep_hold(self._ep)

    # ---- events --------------------------------------------------------

    def _on_message(self) -> None:
        """A message comes next."""
        self._wake_reader()
        if len(self._inbox) >= _INBOX - 1 and self._ep is not None and \
                not self._full and not self._closing:
            self._full = True
            self._core._full.add(self)
            lib.rdmamsg_ep_pause(self._ep)

    def _inbox_free(self) -> None:
        self._full = False
        self._core._full.discard(self)
        if self._ep is not None and not self._paused:
            lib.rdmamsg_ep_resume(self._ep)

    def _check_end(self) -> None:
        """The end of a connection does not wait for a full inbox."""
        self._closing = self._ep is None or lib.rdmamsg_ep_state(
            self._ep) in (lib.RDMAMSG_CLOSING, lib.RDMAMSG_CLOSED)
        if self._closing:
            self._inbox_free()

    def _on_event(self, kind: int, status: int, value: int, obj: int,
                  data: bytes) -> None:
        call = self._core._call
        if kind == lib.PYR_WRITABLE:
            self._wake_writer()
        elif kind == lib.PYR_CONNECTED:
            self._connected = True
            self._peer_data = self._read_peer_data()
            self._wake_all()
        elif kind in (lib.PYR_CLOSED, lib.PYR_SHUTDOWN):
            self._ended()
        elif kind == lib.PYR_PATH:
            change, port, alternate, ms, repeated = _PATH.unpack_from(data)
            call(self.on_path, PathEvent(change, port, alternate, ms, repeated,
                                         data[_PATH.size:].decode()))
        elif kind == lib.PYR_STALLED:
            call(self.on_stalled, value)
        elif kind == lib.PYR_RESUMED:
            call(self.on_resumed)
        elif kind == lib.PYR_WRITTEN:
            call(self.on_written, value)

    def _read_peer_data(self) -> bytes:
        size = ffi.new("size_t *")
        data = lib.rdmamsg_ep_peer_data(self._ep, size)
        if data == ffi.NULL:
            return b""
        return bytes(ffi.buffer(data, size[0]))

    def _ended(self) -> None:
        if self._ep is not None:
            self._reason = read_reason(lib.rdmamsg_ep_reason(self._ep))
            ep, self._ep = self._ep, None
            lib.rdmamsg_ep_release(ep)
        self._wake_all()
        self._core._targets.pop(self._id, None)

    def _next(self) -> Message:
        """Takes the first message, which Ctrl-C cannot lose."""
        if self._full and len(self._inbox) <= _INBOX // 2 + 1:
            if self._ep is not None:
                self._handle()
            self._inbox_free()
        message = self._inbox[0]
        del self._inbox[0]
        return message

    def _wake_reader(self) -> None:
        """A message has come."""

    def _wake_writer(self) -> None:
        """A send may succeed now."""

    def _wake_all(self) -> None:
        """The endpoint is connected, or has ended."""

    # ---- state ---------------------------------------------------------

    def _handle(self) -> Any:
        """The endpoint, if it is there and this thread may use it."""
        self._core._handle()
        if self._ep is None:
            raise self._why()
        return self._ep

    def _why(self) -> Error:
        """A new exception, because each has its own traceback."""
        if self._reason is None:
            return MisuseError(errno.ENOTCONN, "the endpoint does not exist")
        return reason_error(self._reason)

    @property
    def closed(self) -> bool:
        """True when the connection has ended."""
        return self._ep is None

    @property
    def reason(self) -> Reason | None:
        """Why the connection has ended; None before the end."""
        return self._reason

    @property
    def peer_data(self) -> bytes:
        """The peer's setup_data."""
        return self._peer_data

    @property
    def device(self) -> str:
        """The name of the RDMA device, "" while not known."""
        return text_of(lib.rdmamsg_ep_device_name(self._handle()))

    def attributes(self) -> dict[str, Any]:
        """Negotiated values: struct rdmamsg_ep_attr."""
        attr = new("struct rdmamsg_ep_attr")
        check(lib.rdmamsg_ep_query(self._handle(), attr))
        values = as_dict(attr)
        for side in ("local", "peer"):
            values[side] = address_of(getattr(attr, side))
        return values

    def statistics(self) -> dict[str, Any]:
        """Counters: struct rdmamsg_stats."""
        ep = self._handle()
        return stats_dict("struct rdmamsg_stats",
                          lambda s: lib.rdmamsg_ep_get_stats(ep, s))

    def flow(self) -> dict[str, Any]:
        """How far the messages are: struct rdmamsg_ep_flow_attr."""
        ep = self._handle()
        return stats_dict("struct rdmamsg_ep_flow_attr",
                          lambda s: lib.rdmamsg_ep_flow_query(ep, s))

    def path(self) -> dict[str, Any]:
        """The state of failover: struct rdmamsg_ep_path_attr."""
        ep = self._handle()
        return stats_dict("struct rdmamsg_ep_path_attr",
                          lambda s: lib.rdmamsg_ep_path_query(ep, s))

    def history(self) -> str:
        """The last events of failover, for people."""
        ep = self._handle()
        return text_from(lambda buf, size:
                         lib.rdmamsg_ep_history(ep, buf, size))

    def pause(self) -> None:
        """Delivers nothing until resume(), so that the peer stops."""
        check(lib.rdmamsg_ep_pause(self._handle()))
        self._paused = True

    def resume(self) -> None:
        """Ends pause()."""
        ep, self._paused = self._handle(), False
        if not self._full:
            check(lib.rdmamsg_ep_resume(ep))

    def migrate(self, **where: int | str) -> None:
        """Moves to another path: struct rdmamsg_migrate_options."""
        filled = Filled("struct rdmamsg_migrate_options")
        for name, value in where.items():
            filled.set(name, value)
        check(lib.rdmamsg_ep_migrate(self._handle(), filled.at))

    def set_alternate(self, port: int = 0, lid: int = 0) -> None:
        """Loads or replaces the alternate path."""
        alternate = new("struct rdmamsg_alternate")
        alternate.port, alternate.lid = port, lid
        check(lib.rdmamsg_ep_set_alternate(self._handle(), alternate))

    def abort(self, code: int = 0, data: bytes = b"") -> None:
        """Ends the connection now. The peer's reason has code and data."""
        if self._ep is None:
            return
        if code or data:
            check(lib.rdmamsg_ep_abort_with(self._handle(), code, data,
                                            len(data)))
        else:
            lib.rdmamsg_ep_abort(self._handle())

    def _begin_close(self, code: int, data: bytes) -> None:
        ep = self._handle()
        if code or data:
            result = lib.rdmamsg_ep_close_with(ep, code, data, len(data))
            if result != -errno.ESHUTDOWN:
                check(result)
        else:
            lib.rdmamsg_ep_close(ep)

    # ---- sending -------------------------------------------------------

    def allocate(self, size: int) -> OutMessage:
        """Registered memory to fill and send without a copy."""
        ret = ffi.new("struct rdmamsg_msg **")
        check(lib.rdmamsg_msg_alloc(self._handle(), size, ret))
        check(lib.rdmamsg_msg_ref(ret[0]))
        lib.rdmamsg_msg_free(ret[0])
        return OutMessage(owned(ret[0]))

    def try_send(self, data: Buffer | Message | OutMessage,
                 tag: int = 0) -> bool:
        """Sends a copy now, or returns False if there is no room."""
        return self._try(self._outgoing(data)[0], tag)

    def _outgoing(self, data: Any) -> tuple[Any, bool]:
        """For _try() and False, or for _post_large() and True."""
        if isinstance(data, Message | OutMessage):
            return data, False
        if type(data) is bytes and len(data) <= self._copy_max:
            return data, False
        memory = readable(data)
        return memory, len(memory) > self._copy_max

    def _try(self, data: Any, tag: int) -> bool:
        """Sends what the library copies, or a message."""
        if isinstance(data, Message | OutMessage):
            return self._forward(data, tag)
        return _accepted(lib.rdmamsg_send(self._handle(), data, len(data), tag,
                                          ffi.NULL))

    def _forward(self, message: Message | OutMessage, tag: int) -> bool:
        """The library gets a reference of its own."""
        if isinstance(message, Message) and message._bytes is not None:
            return self._try(message._bytes, tag)
        msg = message._msg
        if msg is None:
            raise ValueError("the message was released")
        ep = self._handle()
        check(lib.rdmamsg_msg_ref(msg))
        result = lib.rdmamsg_msg_send(ep, msg, tag, ffi.NULL)
        if result:
            lib.rdmamsg_msg_free(msg)
        return _accepted(result)

    def _post_large(self, memory: Any, tag: int) -> Operation | None:
        """Sends in place. The operation holds the memory. None: no room."""
        iov = ffi.new("struct iovec *")
        iov.iov_base, iov.iov_len = memory, len(memory)
        return self._post(
            memory, lambda ep, cookie:
            lib.rdmamsg_sendv(ep, iov, 1, tag, cookie))

    def _post(self, keep: object,
              call: Callable[[Any, Any], Any]) -> Operation | None:
        """Begins an operation that ends with on_complete. None: no room."""
        ep = self._handle()
        operation = self._core._begin(keep)
        try:
            result = call(ep, operation.cookie)
        except (TypeError, ValueError, OverflowError):
            self._core._drop(operation)
            raise
        # after Ctrl-C the library may have accepted it, and use the memory
        if result:
            self._core._drop(operation)
        return operation if _accepted(result) else None

    def _cancel(self, operation: Operation) -> None:
        """Takes a send back if it has not begun."""
        if self._ep is not None:
            lib.rdmamsg_ep_cancel(self._ep, operation.cookie)


def _accepted(result: int) -> bool:
    if result == 0:
        return True
    if result == -errno.EAGAIN:
        return False
    raise error(result)


def text_from(call: Callable[[Any, int], Any]) -> str:
    """A text of any length from a call like snprintf()."""
    size = 4096
    while True:
        buf = ffi.new("char[]", size)
        length = check(call(buf, size))
        if length < size:
            return text_of(buf)
        size = length + 1


def address_of(storage: Any) -> tuple[str, int] | None:
    """Host and port of a struct sockaddr_storage."""
    raw = bytes(ffi.buffer(ffi.addressof(storage)))
    family = int.from_bytes(raw[:2], "little" if _LITTLE else "big")
    port = int.from_bytes(raw[2:4], "big")
    if family == socket.AF_INET:
        return str(ipaddress.IPv4Address(raw[4:8])), port
    if family == socket.AF_INET6:
        return str(ipaddress.IPv6Address(raw[8:24])), port
    return None


_LITTLE = struct.pack("=H", 1) == b"\1\0"
