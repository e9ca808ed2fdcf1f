# SPDX-License-Identifier: BSD-2-Clause
"""Groups: publish and subscribe on multicast, without waiting."""

from __future__ import annotations

import enum
import errno
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._buffer import Buffer, readable
from ._core import Core, as_dict, stats_dict
from ._errors import ClosedError, Error, check, error
from ._listener import c_text
from ._options import GroupOptions, chosen, fill, new
from ._rdmamsg import ffi, lib


class GroupFlag(enum.IntFlag):
    """GroupOptions.flags: enum rdmamsg_group_flags."""

    PUBLISH = lib.RDMAMSG_GROUP_PUBLISH
    SUBSCRIBE = lib.RDMAMSG_GROUP_SUBSCRIBE
    OWN = lib.RDMAMSG_GROUP_OWN
    RAW = lib.RDMAMSG_GROUP_RAW
    REPAIR = lib.RDMAMSG_GROUP_REPAIR
    IPOIB = lib.RDMAMSG_GROUP_IPOIB
    UNORDERED = lib.RDMAMSG_GROUP_UNORDERED


class GroupFlow(enum.IntEnum):
    """GroupOptions.flow: enum rdmamsg_group_flow."""

    RATE = lib.RDMAMSG_GROUP_FLOW_RATE
    SLOWEST = lib.RDMAMSG_GROUP_FLOW_SLOWEST
    QUORUM = lib.RDMAMSG_GROUP_FLOW_QUORUM


@dataclass(frozen=True, slots=True)
class Published:
    """A message of a group. ``data`` is a copy."""

    data: bytes
    sender: int  #: id of the publisher
    number: int  #: counts the publisher's messages
    is_backlog: bool = False  #: from before: GroupOptions.backlog


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages of a publisher that will not come, both included."""

    sender: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """Messages that a publisher has kept from before. They follow."""

    sender: int
    first: int
    count: int
    less: bool  #: more was wanted, and is not kept


@dataclass(frozen=True, slots=True)
class Flushed:
    """What flush() has found."""

    end: int  #: it was for all messages below
    members: int  #: subscribers that report
    behind: int  #: of these, that lack some of them
    gone: int  #: of these, that left or went silent
    uncounted: bool  #: there are more than a group counts

    def __bool__(self) -> bool:
        """All subscribers with repair have all."""
        return not (self.behind or self.gone or self.uncounted)


_HEAD = struct.Struct("Q6I")
_FLUSHED = struct.Struct("N4Ii")
_MEMBERS = 254  # most that a publisher counts
_LIMIT = 65536  # messages that wait for the program


class GroupBase:
    """A membership. Context.join() makes it."""

    #: Called with a Gap: messages that are lost.
    on_gap: Callable[[Gap], object] | None = None
    #: Called with a Backlog, before the first message of each publisher.
    on_backlog: Callable[[Backlog], object] | None = None
    #: Called with a dict, as of members(): it has held up this publisher.
    on_laggard: Callable[[dict[str, Any]], object] | None = None
    #: Called with an Error: not a member until the library has joined again.
    on_lost: Callable[[Error], object] | None = None

    def __init__(self, core: Core, address: str, flags: GroupFlag | None,
                 options: GroupOptions | None) -> None:
        self._core = core
        self._inbox: deque[Published] = deque()
        self._joined = False
        self._writable = False
        self._flushed: Flushed | None = None
        self._dropped = 0
        self._error: tuple[int, str] | None = None
        filled = fill(chosen(GroupOptions, options))
        if flags is not None:
            filled.set("flags", int(flags))
        handle, where = core._handle(), c_text(address)
        self._id = core._add(self)
        self._owner = ffi.new("struct pyr_owner *", (core._queue, self._id))
        filled.at.user = self._owner
        filled.at.handlers = lib.pyr_group_handlers()
        ret = ffi.new("struct rdmamsg_group **")
        try:
            check(lib.rdmamsg_group_join(handle, where, filled.at, ret))
        except BaseException:
            del core._targets[self._id]
            raise
        self._group: Any = ret[0]

    def _handle(self) -> Any:
        if self._group is not None:
            self._core._handle()
        if self._group is None:
            raise self._why()
        return self._group

    def _why(self) -> Error:
        if self._error is not None and self._error[0]:
            return error(*self._error)
        return ClosedError(errno.ESHUTDOWN, "the group was left")

    def _on_message(self) -> None:
        raise NotImplementedError

    def _on_event(self, kind: int, status: int, value: int, obj: int,
                  data: bytes) -> None:
        call = self._core._call
        self._wake()
        if kind == lib.PYR_PUBLISHED:
            self._arrived(data)
        elif kind == lib.PYR_GROUP_WRITABLE:
            self._writable = True
        elif kind == lib.PYR_FLUSHED:
            _, end, members, behind, gone, more = _FLUSHED.unpack_from(data)
            self._flushed = Flushed(end, members, behind, gone, bool(more))
        elif kind == lib.PYR_JOINED:
            self._joined = True
        elif kind == lib.PYR_GAP:
            call(self.on_gap, Gap(value, obj >> 32, obj & 0xffffffff))
        elif kind == lib.PYR_BACKLOG:
            call(self.on_backlog, Backlog(value, obj >> 32, obj & 0xffffffff,
                                          bool(status)))
        elif kind == lib.PYR_LAGGARD:
            member = ffi.from_buffer("struct rdmamsg_group_member *", data)
            call(self.on_laggard, as_dict(member))
        elif kind == lib.PYR_LOST:
            self._joined = False
            call(self.on_lost, error(status, data.decode()))
        elif kind in (lib.PYR_LEFT, lib.PYR_SHUTDOWN):
            self._error = status, data.decode()
            self._group = None
            self._core._targets.pop(self._id, None)

    def _next(self) -> Published:
        """Takes the first message, which Ctrl-C cannot lose."""
        message = self._inbox[0]
        del self._inbox[0]
        return message

    def _arrived(self, data: bytes) -> None:
        sender, number, _imm, _has_imm, _qp, old, _ = _HEAD.unpack_from(data)
        message = Published(data[_HEAD.size:], sender, number, bool(old))
        if len(self._inbox) >= _LIMIT:
            self._dropped += 1
        else:
            self._core._queue_in(self._inbox, message)

    def _wake(self) -> None:
        """Something has happened."""

    def try_publish(self, data: Buffer) -> bool:
        """Sends a copy to all members, or returns False without room."""
        memory = readable(data)
        result = lib.rdmamsg_group_publish(self._handle(), memory, len(memory))
        if result == -errno.EAGAIN:
            return False
        check(result)
        return True

    def _begin_flush(self, timeout: float | None) -> None:
        ms = lib.RDMAMSG_NONE if timeout is None else round(timeout * 1000)
        self._flushed = None
        check(lib.rdmamsg_group_flush(self._handle(), ms))

    def _end_flush(self) -> Flushed:
        if self._flushed is None:
            raise self._why()
        return self._flushed

    def members(self) -> list[dict[str, Any]]:
        """The subscribers that report: struct rdmamsg_group_member."""
        all_ = ffi.new("struct rdmamsg_group_member[]", _MEMBERS)
        count = lib.pyr_group_members(self._handle(), all_, _MEMBERS)
        check(min(count, 0))
        return [as_dict(all_ + i) for i in range(count)]

    @property
    def dropped(self) -> int:
        """Messages that came while 65536 waited for the program."""
        return self._dropped

    def attributes(self) -> dict[str, Any]:
        """struct rdmamsg_group_attr."""
        attr = new("struct rdmamsg_group_attr")
        check(lib.rdmamsg_group_query(self._handle(), attr))
        return as_dict(attr)

    def statistics(self, sender: int | None = None) -> dict[str, Any]:
        """Counters of the group, or of one publisher."""
        group = self._handle()
        if sender is None:
            return stats_dict("struct rdmamsg_group_stats", lambda s:
                              lib.rdmamsg_group_get_stats(group, s))
        return stats_dict("struct rdmamsg_group_stats", lambda s:
                          lib.rdmamsg_group_get_sender_stats(group, sender, s))

    def _begin_leave(self) -> None:
        lib.rdmamsg_group_leave(self._handle())
