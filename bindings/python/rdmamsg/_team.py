# SPDX-License-Identifier: BSD-2-Clause
"""Teams: barrier, broadcast and all-reduce between processes."""

from __future__ import annotations

import enum
import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._buffer import Buffer, readable, writable
from ._core import Core
from ._errors import (
    Canceled, ClosedError, Error, MisuseError, check, error, text_of,
)
from ._options import EndpointOptions, chosen, fill, new
from ._rdmamsg import ffi, lib


class Op(enum.IntEnum):
    """How all-reduce combines elements: enum rdmamsg_calc_op."""

    ADD = lib.RDMAMSG_CALC_ADD
    MIN = lib.RDMAMSG_CALC_MIN
    MAX = lib.RDMAMSG_CALC_MAX
    AND = lib.RDMAMSG_CALC_AND
    OR = lib.RDMAMSG_CALC_OR
    XOR = lib.RDMAMSG_CALC_XOR


@dataclass(kw_only=True)
class TeamOptions:
    """struct rdmamsg_team_options."""

    path: int | None = None
    timeout_ms: int | None = None
    endpoint: EndpointOptions | None = None


# formats of memoryview and numpy
_TYPES: dict[str, int] = {
    **dict.fromkeys(("l", "q"), lib.RDMAMSG_CALC_INT),
    **dict.fromkeys(("L", "Q"), lib.RDMAMSG_CALC_UINT),
    "d": lib.RDMAMSG_CALC_DOUBLE,
}


class TeamBase:
    """Connected processes, without waiting."""

    def __init__(self, core: Core, addresses: list[str], rank: int,
                 options: TeamOptions | None) -> None:
        options = chosen(TeamOptions, options)
        self._core = core
        self._keep: list[Any] = []
        self._inbox: deque[Any] = deque()
        self.rank = rank  #: of this process
        self.size = len(addresses)  #: number of members
        self._busy = True
        self._number = 0  # of the operation, and its cookie
        self._status = 0
        ep = fill(chosen(EndpointOptions, options.endpoint))
        opts = new("struct rdmamsg_team_options")
        opts.ep = ep.at
        opts.path = options.path or 0
        opts.timeout_ms = options.timeout_ms or 0
        names = [ffi.new("char[]", name.encode()) for name in addresses]
        array = ffi.new("char *[]", names)
        handle = core._handle()
        self._id = core._add(self)
        self._owner = ffi.new("struct pyr_owner *", (core._queue, self._id))
        opts.user, opts.handlers = self._owner, lib.pyr_team_handlers()
        self._keep = [ep, opts, names, array]
        ret = ffi.new("struct rdmamsg_team **")
        try:
            check(lib.rdmamsg_team_connect(
                handle, opts, ffi.cast("const char *const *", array),
                self.size, rank, ret))
        except BaseException:
            del core._targets[self._id]
            raise
        self._team: Any = ret[0]

    def _handle(self) -> Any:
        if self._team is not None:
            self._core._handle()
        if self._team is None:
            raise ClosedError(errno.EBADF, "the team is destroyed")
        return self._team

    def _on_message(self) -> None:
        raise NotImplementedError

    def _on_event(self, kind: int, status: int, value: int, obj: int,
                  data: bytes) -> None:
        if kind == lib.PYR_DONE:
            if value == self._number:  # once: see Core._give()
                self._ended(status)
        elif kind == lib.PYR_SHUTDOWN:
            self._team = None
            self._ended(-errno.ECANCELED)

    def _ended(self, status: int) -> None:
        self._busy, self._status = False, status
        self._keep = []
        self._wake()

    def _wake(self) -> None:
        """The operation has ended."""

    def _result(self) -> None:
        """Raises the error of an operation that has failed."""
        if self._status < 0:
            raise self._why()

    def _why(self) -> Error:
        if self._team is None:
            return Canceled(errno.ECANCELED, "the team is destroyed")
        failure = lib.rdmamsg_team_reason(self._team)
        if failure.error:
            return error(failure.error, text_of(failure.text))
        return error(self._status, "the operation has failed")

    def _begin(self, keep: object, call: Callable[[Any, Any], Any]) -> None:
        """Begins an operation, which uses the memory until it ends."""
        team = self._handle()
        if self._busy:
            raise MisuseError(errno.EBUSY, "an operation of the team runs: "
                              "wait() waits for it")
        self._keep = [keep]  # before the call: Ctrl-C may follow it
        self._number += 1
        self._busy = True
        try:
            check(call(team, ffi.cast("void *", self._number)))
        except Exception:
            self._busy, self._keep = False, []
            raise

    def _begin_barrier(self) -> None:
        self._begin(None, lambda team, cookie:
                    lib.rdmamsg_team_barrier(team, cookie))

    def _begin_broadcast(self, data: Buffer, root: int) -> None:
        memory = readable(data) if root == self.rank else writable(data)
        self._begin(memory, lambda team, cookie:
                    lib.rdmamsg_team_broadcast(
                        team, memory, len(memory), root, cookie))

    def _begin_allreduce(self, data: Buffer, op: Op) -> None:
        memory, view = writable(data), memoryview(data)
        if view.format not in _TYPES:
            raise TypeError(f"elements of format {view.format!r}: give int64, "
                            "uint64 or float64")
        kind, op = _TYPES[view.format], Op(op)
        count = len(memory) // view.itemsize
        self._begin(memory, lambda team, cookie:
                    lib.rdmamsg_team_allreduce(
                        team, op, kind, memory, memory, count, cookie))

    def abort(self) -> None:
        """Fails the team at all members."""
        lib.rdmamsg_team_abort(self._handle())

    def destroy(self) -> None:
        """Ends the team. May be repeated."""
        if self._team is None:
            return
        lib.rdmamsg_team_destroy(self._handle())
        self._team = None
        self._core._targets.pop(self._id, None)
        self._ended(-errno.ECANCELED)

    def _leave(self) -> None:
        if not self._core.closed:
            self.destroy()
