# SPDX-License-Identifier: BSD-2-Clause
"""Teams: barrier, broadcast and all-reduce between processes."""

from __future__ import annotations

import enum
import errno
from collections import deque
from dataclasses import dataclass
from typing import Any

from ._buffer import Buffer, readable, writable
from ._core import Core
from ._errors import Canceled, ClosedError, Error, check, error, text_of
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


class Team:
    """Connected processes. Context.team() makes it."""

    def __init__(self, core: Core, addresses: list[str], rank: int,
                 options: TeamOptions | None) -> None:
        options = chosen(TeamOptions, options)
        self._core = core
        self._keep: list[Any] = []
        self._inbox: deque[Any] = deque()
        self.rank = rank  #: of this process
        self.size = len(addresses)  #: number of members
        self._busy = True
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
            self._busy, self._status = False, status
        elif kind == lib.PYR_SHUTDOWN:
            self._team, self._busy = None, False
            self._status = -errno.ECANCELED
            self._keep.clear()

    def wait(self, timeout: float | None = None) -> None:
        """Waits for the operation that runs, and raises its error."""
        self._core._drive(lambda: not self._busy, timeout, "the operation")
        self._keep.clear()
        if self._status < 0:
            raise self._why()

    def _why(self) -> Error:
        if self._team is None:
            return Canceled(errno.ECANCELED, "the team is destroyed")
        failure = lib.rdmamsg_team_reason(self._team)
        if failure.error:
            return error(failure.error, text_of(failure.text))
        return error(self._status, "the operation has failed")

    def _run(self, keep: object, result: int, timeout: float | None) -> None:
        check(result)
        self._busy = True
        self._keep = [keep]
        self.wait(timeout)

    def barrier(self, timeout: float | None = None) -> None:
        """Returns after all members have called it."""
        self._run(None, lib.rdmamsg_team_barrier(self._handle(), ffi.NULL),
                  timeout)

    def broadcast(self, data: Buffer, root: int = 0,
                  timeout: float | None = None) -> None:
        """Copies data of member root to data of all others."""
        memory = readable(data) if root == self.rank else writable(data)
        self._run(memory, lib.rdmamsg_team_broadcast(
            self._handle(), memory, len(memory), root, ffi.NULL), timeout)

    def allreduce(self, data: Buffer, op: Op = Op.ADD,
                  timeout: float | None = None) -> None:
        """Combines data of all members, in place. Elements of 8 bytes."""
        view = memoryview(data)
        if view.format not in _TYPES:
            raise TypeError(f"elements of format {view.format!r}: give int64, "
                            "uint64 or float64")
        memory = writable(data)
        self._run(memory, lib.rdmamsg_team_allreduce(
            self._handle(), op, _TYPES[view.format], memory, memory,
            len(memory) // view.itemsize, ffi.NULL), timeout)

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

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._core.closed:
            self.destroy()
