# SPDX-License-Identifier: BSD-2-Clause
"""A context: one thread, one descriptor, and the events of its objects."""

from __future__ import annotations

import atexit
import errno
import functools
import os
import struct
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ._errors import (
    ClosedError, Forked, NoResources, TimedOut, WrongThread, check, error,
)
from ._message import Message, owned_once
from ._options import ContextOptions, chosen, fill, new
from ._rdmamsg import ffi, lib

if TYPE_CHECKING:
    from ._endpoint import EndpointBase
    from ._onesided import Region

_EVENT = struct.Struct("IiQQQQ")
_MESSAGE: int = lib.PYR_MESSAGE
_LENT: int = lib.PYR_LENT

# The longest sleep in the main thread. A signal may arrive between Python's
# check for signals and the sleep, and its handler then waits so long.
_SIGNAL_MS = 100

_forks = 0


class Target(Protocol):
    """An object that events are for."""

    _inbox: deque[Any]

    def _on_message(self) -> None: ...
    def _on_event(self, kind: int, status: int, value: int, obj: int,
                  data: bytes) -> None: ...


class Core:
    """Opens, drives and closes a context. Has no connections itself."""

    def __init__(self, options: ContextOptions | None = None) -> None:
        self._ctx: Any = None
        self._thread = threading.get_ident()
        self._forks = _forks
        self._targets: dict[int, Target] = {}
        self._operations: dict[int, Operation] = {}
        self._last_id = 0
        self._regions: set[Region] = set()  # until destroyed: memory in use
        self._calls: deque[Callable[[], object]] = deque()
        # of the event that is being given: see _give()
        self._called: list[Callable[[], object]] = []
        self._queued: tuple[deque[Any], Any] | None = None
        self._lent: list[Any] = []
        self._dropped: deque[int] = deque()  # requests that nobody answers
        self._full: set[EndpointBase] = set()  # those with a full inbox
        filled = fill(chosen(ContextOptions, options))
        self._queue = ffi.gc(_made(lib.pyr_queue_new()), lib.pyr_queue_free)
        self._batch = ffi.new("struct pyr_batch *")
        ret = ffi.new("struct rdmamsg **")
        check(lib.pyr_open(filled.at, self._queue, ret))
        self._ctx = ret[0]
        _open.add(self)

    # ---- its life ------------------------------------------------------

    @property
    def closed(self) -> bool:
        """True after close()."""
        return self._ctx is None

    def close(self) -> None:
        """Aborts open endpoints and frees everything. May be repeated."""
        if self._ctx is None:
            return
        if self._forks != _forks:
            self._ctx = None
            return
        self._handle()
        self._close()
        self._run_calls()

    def _close(self) -> None:
        lib.pyr_closing(self._queue)
        ctx, self._ctx = self._ctx, None
        lib.rdmamsg_close(ctx)
        self._take()
        for target in list(self._targets.values()):
            target._on_event(lib.PYR_SHUTDOWN, 0, 0, 0, b"")
        self._targets.clear()
        for operation in list(self._operations.values()):
            operation.finish(-errno.ECANCELED)
        self._operations.clear()
        self._full.clear()
        for region in list(self._regions):
            region._forget()

    def __del__(self) -> None:
        if getattr(self, "_ctx", None) is None or self._forks != _forks:
            return
        warnings.warn(f"{self!r} was not closed", ResourceWarning, 2,
                      source=self)
        self._close()

    def fileno(self) -> int:
        """The descriptor for a loop: if it is readable, call process()."""
        return check(lib.rdmamsg_fd(self._handle()))

    def _handle(self) -> Any:
        """The context, if this thread may use it."""
        if self._thread != threading.get_ident():
            raise WrongThread(
                errno.EPERM, "the context belongs to another thread: each "
                "thread opens a context of its own")
        if self._ctx is None:
            raise ClosedError(errno.EBADF, "the context is closed")
        if self._forks != _forks:
            raise Forked(errno.ECHILD, "the context was opened before fork(): "
                         "open another one in the child")
        return self._ctx

    def _forks_differ(self) -> bool:
        """True in a child of fork()."""
        return self._forks != _forks

    # ---- events --------------------------------------------------------

    def process(self) -> int:
        """Handles pending events without waiting, and returns their number."""
        count = check(lib.rdmamsg_process(self._handle()))
        self._take()
        self._run_calls()
        return count

    def _take(self) -> int:
        """Gives the events to their objects. Calls nothing of the program."""
        batch = self._batch
        count = self._give() if batch.next < batch.count else 0
        if self._dropped:
            self._reject_dropped()
        lib.pyr_take(self._queue, batch)
        if batch.lost and self._ctx is not None:
            self._close()
            raise NoResources(errno.ENOMEM, "no memory for an event: the "
                              "context is closed, so that nobody waits for it")
        count += self._give()
        if self._full and self._ctx is not None:
            for ep in list(self._full):
                ep._check_end()
        return count

    def _give(self) -> int:
        """Gives what is left of the batch.

        Ctrl-C raises after a call, and where a function or a turn of a loop
        begins. An event that it interrupts is given again, so handlers may
        run twice. What must happen once, an append, is done here by +=, and
        no call follows until the event is counted.
        """
        batch = self._batch
        first: int = batch.next
        count: int = batch.count
        number = first
        if first == count:
            return 0
        targets = self._targets
        arena = ffi.buffer(batch.arena, batch.bytes) if batch.bytes else b""
        events = ffi.buffer(batch.events + first,
                            (count - first) * _EVENT.size)
        try:
            for kind, status, id_, value, obj, size in \
                    _EVENT.iter_unpack(events):
                target = targets.get(id_)
                if kind == _MESSAGE:
                    if target is not None:
                        message = Message(value, arena[obj:obj + size], None)
                        target._on_message()
                        target._inbox += (message,)
                elif kind == _LENT:
                    if not self._lent:
                        self._lent += owned_once(obj)
                    message = Message(value, None, self._lent[0])
                    if target is not None:
                        target._on_message()
                        target._inbox += (message,)
                    self._lent = []
                else:
                    data = arena[obj:obj + size] if size else b""
                    self._begin_event()
                    self._other(target, kind, status, value, obj, data)
                    self._calls += self._called
                    if self._queued is not None:
                        inbox, one = self._queued
                        inbox += (one,)
                number += 1
        finally:
            batch.next = number
        return count - first

    def _other(self, target: Target | None, kind: int, status: int, value: int,
               obj: int, data: bytes) -> None:
        if kind == lib.PYR_COMPLETE or kind == lib.PYR_LATE:
            operation = self._operations.get(value)
            if operation is not None:
                operation.finish(status)
                del self._operations[value]
        elif kind == lib.PYR_DEVICE:
            self._on_context_event(kind, status, value, obj, data)
        elif target is not None:
            target._on_event(kind, status, value, obj, data)
        elif kind == lib.PYR_REQUEST:
            self._queue_in(self._dropped, obj)  # its listener is closed
        else:
            self._on_context_event(kind, status, value, obj, data)

    def _on_context_event(self, kind: int, status: int, value: int, obj: int,
                          data: bytes) -> None:
        """An event of the context. Context handles it."""

    def _call(self, function: Callable[..., object] | None,
              *args: object) -> None:
        """Calls a callback of the program when the events are handled."""
        if function is not None:
            self._called.append(functools.partial(function, *args))

    def _begin_event(self) -> None:
        """Nothing is called or queued for it yet."""
        self._called, self._queued = [], None

    def _queue_in(self, inbox: deque[Any], one: object) -> None:
        """Appends when the event is handled."""
        self._queued = inbox, one

    def _run_calls(self) -> None:
        """What a callback raises, the driving call raises."""
        while self._calls:
            call = self._calls[0]
            del self._calls[0]
            call()

    # ---- requests that nobody answers ----------------------------------

    def _drop_request(self, pointer: int) -> None:
        """Rejects a request, in the context's thread: now or soon."""
        if self._ctx is None or self._forks != _forks:
            return
        self._dropped.append(pointer)
        if self._thread == threading.get_ident():
            self._reject_dropped()

    def _reject_dropped(self) -> None:
        while self._dropped and self._ctx is not None:
            request = ffi.cast("struct rdmamsg_request *", self._dropped[0])
            del self._dropped[0]
            lib.rdmamsg_request_reject(request, ffi.NULL, 0)

    # ---- ids, operations ----------------------------------------------

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _add(self, target: Target) -> int:
        number = self._new_id()
        self._targets[number] = target
        return number

    def _begin(self, keep: object) -> Operation:
        """A new operation, whose cookie is its number."""
        operation = Operation(self._new_id(), keep)
        self._operations[operation.number] = operation
        return operation

    def _drop(self, operation: Operation) -> None:
        """The library has not accepted the operation."""
        self._operations.pop(operation.number, None)

    # ---- waiting -------------------------------------------------------

    def _drive(self, done: Callable[[], object], timeout: float | None,
               what: str) -> None:
        """Handles events until done() is true. TimedOut, KeyboardInterrupt."""
        end = None if timeout is None else time.monotonic() + timeout
        main = threading.current_thread() is threading.main_thread()
        if not done():
            self._handle()
            self._take()  # what Ctrl-C has left
            self._run_calls()
        while not done():
            left = -1
            if end is not None:
                left = max(0, round((end - time.monotonic()) * 1000))
            limit = left
            if main and (left < 0 or left > _SIGNAL_MS):
                limit = _SIGNAL_MS
            result = lib.rdmamsg_wait(self._handle(), limit)
            if result < 0 and result != -errno.EINTR:
                raise error(result)
            self._take()
            self._run_calls()
            if left == 0 and not done():
                raise TimedOut(errno.ETIMEDOUT,
                               f"{what} has not ended in {timeout:g} s")


class Operation:
    """Accepted by the library, and not completed yet: holds its memory."""

    __slots__ = ("number", "keep", "status", "on_done")

    def __init__(self, number: int, keep: object) -> None:
        self.number = number
        self.keep = keep
        self.status: int | None = None
        self.on_done: Callable[[int], object] | None = None

    @property
    def cookie(self) -> Any:
        """The number as a pointer."""
        return ffi.cast("void *", self.number)

    def done(self) -> bool:
        """True when the library has given the memory back."""
        return self.status is not None

    def finish(self, status: int) -> None:
        """The library has completed the operation."""
        self.status = status
        self.keep = None
        if self.on_done is not None:
            self.on_done(status)

    def check(self) -> None:
        """Raises the error of an operation that has failed."""
        assert self.status is not None
        if self.status < 0:
            raise error(self.status, os.strerror(-self.status))


def _made(pointer: Any) -> Any:
    if pointer == ffi.NULL:
        raise MemoryError
    return pointer


# ---- the process ------------------------------------------------------

_open: weakref.WeakSet[Core] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Peers learn at once that the program ends."""
    for ctx in list(_open):
        if ctx._ctx is not None and ctx._forks == _forks and \
                ctx._thread == threading.get_ident():
            ctx._close()


def _in_child() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_in_child)


def stats_dict(name: str, call: Callable[[Any], Any]) -> dict[str, Any]:
    """The fields of a struct of integers that the call fills."""
    struct_ = new(name)
    check(call(struct_))
    return as_dict(struct_)


def as_dict(struct_: Any) -> dict[str, Any]:
    """The fields of a C struct apart from its size."""
    result: dict[str, Any] = {}
    for field, info in ffi.typeof(struct_[0]).fields:
        value = getattr(struct_, field)
        if field == "size":
            continue
        if info.type.kind == "array":
            if info.type.item.cname == "char":
                value = ffi.string(value).decode(errors="replace")
            elif info.type.item.cname in ("unsigned char", "uint8_t"):
                value = bytes(ffi.buffer(value))
            else:
                value = list(value)
        elif info.type.kind not in ("primitive", "enum"):
            continue
        result[field] = value
    return result
