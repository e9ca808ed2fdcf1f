# SPDX-License-Identifier: BSD-2-Clause
"""Exceptions, and the reason of a connection's end."""

from __future__ import annotations

import enum
import errno
import os
from dataclasses import dataclass
from typing import Any

from ._rdmamsg import ffi, lib


class Who(enum.IntEnum):
    """The side that has ended a connection: enum rdmamsg_who."""

    NONE = 0
    LOCAL = 1
    PEER = 2
    NETWORK = 3
    DEVICE = 4


class Cause(enum.IntEnum):
    """Why a connection has ended: enum rdmamsg_cause."""

    NONE = 0
    CLOSED = 1
    ABORTED = 2
    TIMEOUT = 3
    ADDRESS = 4
    REFUSED = 5
    REJECTED = 6
    UNREACHABLE = 7
    PROTOCOL = 8
    VERSION = 9
    TRANSPORT = 10
    ACCESS = 11
    SILENT = 12
    REMOVED = 13
    RESOURCES = 14
    AUTH = 15
    CRC = 16


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a connection has ended: struct rdmamsg_reason."""

    who: Who | int
    cause: Cause | int
    error: int  #: negative errno, 0 if the end was graceful
    text: str
    data: bytes  #: of the peer's reject(), or with its code
    code: int  #: of the peer's close() or abort()
    operation: str  #: of the failed completion, "" if there is none
    cm_event: int
    cm_status: int
    wc_status: int
    vendor_err: int


class Error(OSError):
    """Base of all errors: errno, strerror, and the reason if there is one."""

    reason: Reason | None

    def __init__(self, number: int, text: str,
                 reason: Reason | None = None) -> None:
        super().__init__(number, text)
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.errno, self.strerror, self.reason)


class InvalidArgument(Error, ValueError):
    """An argument or an option is wrong. The text names it."""


class MisuseError(Error, RuntimeError):
    """A call that cannot be made now, or not from here."""


class ClosedError(MisuseError):
    """The program has closed the object."""


class WrongThread(MisuseError):
    """The context belongs to another thread."""


class Forked(MisuseError):
    """A child of fork() has used an object of its parent."""


class TooLarge(Error, ValueError):
    """The message is larger than the peer or the group takes."""


class NoDevice(Error):
    """There is no such RDMA device."""


class NoPermission(Error, PermissionError):
    """A file, a key or a region does not allow it."""


class NoResources(Error, MemoryError):
    """No memory, or a limit of the context."""


class Unsupported(Error):
    """The device or the peer lacks the ability."""


class TimedOut(Error, TimeoutError):
    """A deadline has passed."""


class Canceled(Error):
    """The operation did not happen, or its effect is not known."""


class InDoubt(Error):
    """An atomic operation was under way when a connection failed."""


class Disconnected(Error, ConnectionError):
    """The connection has ended, or was never made. See the reason."""


class Closed(Disconnected):
    """The connection has ended gracefully: nothing was lost."""


class Refused(Disconnected, ConnectionRefusedError):
    """Nobody listens there."""


class Rejected(Disconnected):
    """The peer's program has rejected the connection: reason.data."""


class Unreachable(Disconnected):
    """The peer's host does not answer."""


class AuthFailed(Disconnected):
    """No pre-shared key, or another one."""


_BY_ERRNO: dict[int, type[Error]] = {
    errno.EINVAL: InvalidArgument,
    errno.ERANGE: InvalidArgument,
    errno.EMSGSIZE: TooLarge,
    errno.ENODEV: NoDevice,
    errno.ENXIO: NoDevice,
    errno.EACCES: NoPermission,
    errno.EPERM: NoPermission,
    errno.ENOMEM: NoResources,
    errno.ENOBUFS: NoResources,
    errno.EMFILE: NoResources,
    errno.EOPNOTSUPP: Unsupported,
    errno.ETIMEDOUT: TimedOut,
    errno.ECANCELED: Canceled,
    errno.EREMOTEIO: InDoubt,
    errno.ECHILD: Forked,
    errno.ENOTCONN: Disconnected,
    errno.ECONNRESET: Disconnected,
    errno.ESHUTDOWN: Closed,
    errno.EBUSY: MisuseError,
    errno.EDEADLK: MisuseError,
}

_BY_CAUSE: dict[int, type[Error]] = {
    Cause.CLOSED: Closed,
    Cause.TIMEOUT: TimedOut,
    Cause.REFUSED: Refused,
    Cause.REJECTED: Rejected,
    Cause.UNREACHABLE: Unreachable,
    Cause.AUTH: AuthFailed,
}


def text_of(pointer: Any) -> str:
    """The str of a C string, "" of NULL."""
    if pointer == ffi.NULL:
        return ""
    raw: bytes = ffi.string(pointer)
    return raw.decode(errors="replace")


def error(number: int, text: str | None = None,
          reason: Reason | None = None) -> Error:
    """The exception of a negative errno, with the library's text."""
    if text is None:
        text = text_of(lib.rdmamsg_error()) or os.strerror(-number)
    return _BY_ERRNO.get(-number, Error)(-number, text, reason)


def check(result: int) -> int:
    """The result of a call, or the exception of its error."""
    if result < 0:
        raise error(result)
    return result


def read_reason(why: Any) -> Reason:
    """Copies a struct rdmamsg_reason."""
    data = ffi.unpack(ffi.cast("char *", why.data), why.data_len) \
        if why.data_len else b""
    who, cause = int(why.who), int(why.cause)
    return Reason(
        who=Who(who) if who < len(Who) else who,
        cause=Cause(cause) if cause < len(Cause) else cause,
        error=why.error, text=text_of(why.text), data=data, code=why.code,
        operation=text_of(why.operation), cm_event=why.cm_event,
        cm_status=why.cm_status, wc_status=why.wc_status,
        vendor_err=why.vendor_err)


def reason_error(reason: Reason) -> Error:
    """The exception of an endpoint that has ended."""
    kind = _BY_CAUSE.get(reason.cause, Disconnected)
    number = -reason.error or errno.ESHUTDOWN
    return kind(number, reason.text or "the connection is closed", reason)
