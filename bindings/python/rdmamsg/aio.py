# SPDX-License-Identifier: BSD-2-Clause
"""rdmamsg with asyncio, and with uvloop.

All connections of a loop share a context, which ends with asyncio.run().
Deadlines are those of asyncio.timeout(). A cancelled call leaves nothing half
done: a message is sent whole or not at all.
"""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from collections.abc import Generator
from typing import Any, NoReturn

from . import _blocking
from ._buffer import Buffer
from ._core import Operation
from ._endpoint import EndpointBase
from ._errors import Closed, check
from ._group import Flushed, GroupBase, GroupFlag, Published
from ._listener import ListenerBase, Request, c_text
from ._message import Message, OutMessage
from ._onesided import Access, Key, Region
from ._options import (
    NONE, ContextOptions, EndpointOptions, GroupOptions, ListenOptions,
)
from ._rdmamsg import ffi, lib
from ._team import Op, TeamBase, TeamOptions

_MANY = 4  # events of a wake that are worth a cork
_SPINS = 32  # from one turn of the loop to the next, at most

Handler = Callable[["Endpoint"], Awaitable[object]]


def _instead(function: str) -> Any:
    """A method that refuses to wait before it begins anything."""
    def refuse(*_: object, **__: object) -> NoReturn:
        raise RuntimeError("a context of asyncio does not wait: use "
                           f"{function}")
    return refuse


class Context(_blocking.Context):
    """A context on the running loop. context() has the loop's own."""

    def __init__(self, options: ContextOptions | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._corked = False
        spin_us = options.spin_us if options else None
        self._spin_us = 0 if spin_us in (None, NONE) else spin_us
        self._spins = 0
        self._due = 0  # tasks that have been woken and have not run
        super().__init__(options)
        self._fd = self.fileno()
        self._loop.add_reader(self._fd, self._on_readable)
        self._holder: AsyncGenerator[None, None] | None = None

    def _on_readable(self) -> None:
        self._uncork()
        self._spins = 0
        try:
            self.process()
        except Exception as err:
            # What a callback of the program has raised. Others still run.
            self._loop.call_exception_handler({
                "message": "exception in a callback of rdmamsg",
                "exception": err})
            if self._calls and not self.closed:
                self._loop.call_soon(self._on_readable)
        except BaseException:
            self._loop.call_soon(self._go_on)
            raise

    def _go_on(self) -> None:
        """Handles what Ctrl-C has left, if the program runs on."""
        if not self.closed:
            self._on_readable()

    # ---- tasks that wait -----------------------------------------------

    async def _pause(self, future: asyncio.Future[None]) -> None:
        """Waits until _resume(future)."""
        try:
            await future
        finally:
            if future.done() and not future.cancelled():
                self._due -= 1

    def _resume(self, future: asyncio.Future[None], _: object = None) -> None:
        """Ends the wait of a task that still waits."""
        if not future.done():
            self._due += 1
            future.set_result(None)

    def _spin(self) -> None:
        """Polls for spin_us before a task waits: a turn of the loop costs more
        than a message. Not while another task of rdmamsg could run, and not
        for ever: the loop has other work."""
        if not self._spin_us or self._due or self._spins >= _SPINS:
            return
        self._uncork()
        self._spins += 1
        try:
            check(lib.pyr_spin(self._handle(), self._queue, self._spin_us))
            self._take()
        except KeyboardInterrupt:
            self._loop.call_soon(self._go_on)
            raise
        if self._calls:
            self._loop.call_soon(self._on_readable)

    def _take(self) -> int:
        """After many events, tasks answer them with few doorbells.

        The loop wakes the tasks first, and then calls _uncork().
        """
        count = super()._take()
        if count >= _MANY and not self.closed:
            self._corked = lib.rdmamsg_cork(self._ctx) == 0
            self._loop.call_soon(self._uncork)
        return count

    def _uncork(self) -> None:
        if self._corked and not self.closed:
            self._corked = False
            lib.rdmamsg_uncork(self._ctx)

    def _close(self) -> None:
        if not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        super()._close()

    connect: Any = _instead("rdmamsg.connect()")
    listen: Any = _instead("rdmamsg.serve()")
    join: Any = _instead("rdmamsg.aio.join()")
    team: Any = _instead("rdmamsg.aio.team()")
    shutdown: Any = _instead("close() of the endpoints")
    wait: Any = _instead("asyncio.sleep()")
    _drive: Any = _instead("the functions of rdmamsg.aio")

    def close(self) -> None:
        """Aborts what is open and frees everything."""
        super().close()
        if _contexts.get(self._loop) is self:
            del _contexts[self._loop]

    async def __aenter__(self) -> Context:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


_contexts: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Context] = \
    weakref.WeakKeyDictionary()


async def _end_with_loop(ctx: Context) -> AsyncGenerator[None, None]:
    """asyncio.run() ends asynchronous generators before the loop."""
    try:
        yield
    finally:
        ctx.close()


async def context(options: ContextOptions | None = None) -> Context:
    """The context of the running loop, which ends with the loop.

    The first call of a loop may give options.
    """
    loop = asyncio.get_running_loop()
    ctx = _contexts.get(loop)
    if ctx is None or ctx.closed or ctx._forks_differ():
        ctx = Context(options)
        _contexts[loop] = ctx
        ctx._holder = _end_with_loop(ctx)
        await anext(ctx._holder)
    elif options is not None:
        raise RuntimeError("the loop has a context already: give the options "
                           "before the first connection")
    return ctx


class _Waiter:
    """A place where one task waits, woken by the context."""

    __slots__ = ("_core", "_future")

    def __init__(self, core: Context) -> None:
        self._core = core
        self._future: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Waits until wake()."""
        if self._future is not None:
            raise RuntimeError("another task waits here already")
        self._future = asyncio.get_running_loop().create_future()
        try:
            await self._core._pause(self._future)
        finally:
            self._future = None

    def wake(self) -> None:
        """Ends wait(), if a task is there."""
        if self._future is not None:
            self._core._resume(self._future)


class Endpoint(EndpointBase):
    """A connection on a loop."""

    def __init__(self, core: Context, options: EndpointOptions | None) -> None:
        super().__init__(core, options)
        self._context = core
        self._loop = core._loop
        self._reader = _Waiter(core)
        self._state = _Waiter(core)
        self._closers: list[asyncio.Future[None]] = []
        self._senders: deque[asyncio.Future[None]] = deque()

    # ---- being woken ---------------------------------------------------

    def _wake_reader(self) -> None:
        self._reader.wake()

    def _wake_writer(self) -> None:
        if self._senders:
            self._context._resume(self._senders[0])

    def _wake_all(self) -> None:
        self._state.wake()
        if self._ep is not None:
            return
        self._reader.wake()
        for future in [*self._senders, *self._closers]:
            self._context._resume(future)

    # ---- beginning and finishing ---------------------------------------

    async def _begin(self, attempt: Callable[[], Operation | bool | None]
                     ) -> Operation | bool:
        """Repeats the attempt until there is room. Tasks go in turn."""
        if not self._senders:
            begun = attempt()
            if begun:
                return begun
        turn = self._loop.create_future()
        self._senders.append(turn)
        try:
            while True:
                await self._context._pause(turn)
                begun = attempt()
                if begun:
                    return begun
                turn = self._senders[0] = self._loop.create_future()
        finally:
            self._senders.remove(turn)
            self._wake_writer()

    async def _finish(self, attempt: Callable[[], Operation | None]) -> None:
        operation = await self._begin(attempt)
        assert isinstance(operation, Operation)
        if operation.status is None:
            self._context._spin()
        if operation.status is None:
            future = self._loop.create_future()
            operation.on_done = functools.partial(self._context._resume,
                                                  future)
            try:
                await self._context._pause(future)
            except asyncio.CancelledError:
                # either taken back whole, or it ends by itself
                self._cancel(operation)
                raise
        if operation.status and self._reason is not None:
            raise self._why()
        operation.check()

    # ---- messages ------------------------------------------------------

    async def send(self, data: Buffer | Message | OutMessage,
                   tag: int = 0) -> None:
        """Sends a message. The memory is the caller's when the call ends.

        Waits while the peer is slow. A cancelled send of a large message may
        arrive nevertheless, and its memory stays in use until then.
        """
        memory, large = self._outgoing(data)
        if large:
            await self._finish(lambda: self._post_large(memory, tag))
        elif self._senders or not self._try(memory, tag):
            await self._begin(lambda: self._try(memory, tag))

    async def recv(self) -> Message:
        """The next message. Closed: the peer has closed gracefully."""
        while not self._inbox:
            self._handle()
            self._context._spin()
            if not self._inbox and self._ep is not None:
                await self._reader.wait()
        return self._next()

    def __aiter__(self) -> AsyncIterator[Message]:
        """Messages until the peer closes."""
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.recv()
        except Closed:
            raise StopAsyncIteration from None

    # ---- one-sided operations ------------------------------------------

    async def read(self, key: Key, region: Region, *, at: int = 0,
                   size: int | None = None, offset: int = 0) -> None:
        """Reads the peer's memory at offset into the region at ``at``."""
        count = len(region) - at if size is None else size
        await self._finish(
            lambda: self._post_read(key, region, at, count, offset))

    async def write(self, key: Key, source: Region | Buffer, *, at: int = 0,
                    size: int | None = None, offset: int = 0,
                    notify: int | None = None) -> None:
        """Writes a region, or a copy of a small buffer, to the peer."""
        await self._finish(self._write_attempt(key, source, at, size, offset,
                                               notify))

    async def fetch_add(self, key: Key, offset: int, add: int) -> int:
        """Adds to 8 bytes of the peer, and returns the value before."""
        result = ffi.new("uint64_t *")
        await self._finish(
            lambda: self._post_fetch_add(key, offset, add, result))
        value: int = result[0]
        return value

    async def compare_swap(self, key: Key, offset: int, expected: int,
                           desired: int) -> int:
        """Writes desired if the value is expected. Returns the one before."""
        result = ffi.new("uint64_t *")
        await self._finish(lambda: self._post_compare_swap(
            key, offset, expected, desired, result))
        value: int = result[0]
        return value

    async def flush(self) -> None:
        """Ends when all earlier writes are in the peer's memory."""
        await self._finish(self._post_flush)

    # ---- its life ------------------------------------------------------

    async def _until_connected(self) -> None:
        try:
            while not self._connected and self._ep is not None:
                await self._state.wait()
        except BaseException:
            self.abort()
            raise
        if not self._connected:
            raise self._why()

    async def close(self, code: int = 0, data: bytes = b"") -> None:
        """Closes gracefully: both sides deliver what they have accepted."""
        if self._ep is not None:
            self._begin_close(code, data)
            await self.wait_closed()

    async def wait_closed(self) -> None:
        """Waits for the end of the connection, whoever ends it."""
        if self._ep is None:
            return
        future = self._loop.create_future()
        self._closers.append(future)
        try:
            await self._context._pause(future)
        finally:
            self._closers.remove(future)

    async def __aenter__(self) -> Endpoint:
        return self

    async def __aexit__(self, kind: type[BaseException] | None,
                        *_: object) -> None:
        if self._core.closed:
            return
        if kind is None:
            await self.close()
        else:
            self.abort()


class connect:
    """Connects: ``ep = await connect(...)``, ``async with connect(...) as ep``.

    The end of the block closes gracefully; an exception aborts.
    """

    def __init__(self, host: str, service: str | int, *,
                 options: EndpointOptions | None = None,
                 context: Context | None = None) -> None:
        self._where = c_text(host), c_text(service)
        self._options = options
        self._context = context
        self._ep: Endpoint | None = None

    def __await__(self) -> Generator[Any, None, Endpoint]:
        return self._connect().__await__()

    async def _connect(self) -> Endpoint:
        ctx = self._context or await context()
        ep = Endpoint(ctx, self._options)
        ep._start(lambda opts, ret: lib.rdmamsg_connect(
            ctx._handle(), *self._where, opts, ret))
        await ep._until_connected()
        return ep

    async def __aenter__(self) -> Endpoint:
        self._ep = await self._connect()
        return self._ep

    async def __aexit__(self, *exc: Any) -> None:
        assert self._ep is not None
        await self._ep.__aexit__(*exc)


class Server(ListenerBase):
    """Runs a handler for each connection. serve() makes it."""

    def __init__(self, core: Context, handler: Handler, host: str | None,
                 service: str | int, endpoint: EndpointOptions | None,
                 options: ListenOptions | None,
                 on_request: Callable[[Request], object] | None,
                 timeout: float | None) -> None:
        self._loop = core._loop
        self._handler = handler
        self._on_request = on_request
        self._timeout = timeout
        self._tasks: dict[asyncio.Task[None], Endpoint] = {}
        self._state = _Waiter(core)
        self._context = core
        super().__init__(core, host, service, endpoint, options)

    def _wake(self) -> None:
        self._state.wake()

    def _requested(self) -> None:
        self._core._call(self._answer_next)

    def _answer_next(self) -> None:
        if self._inbox:
            self._answer(self._next())

    def _answer(self, request: Request) -> None:
        """The program may reject the request. All others are accepted."""
        if self._on_request is not None:
            try:
                self._on_request(request)
            except BaseException:
                if not request.answered:
                    request.reject()
                raise
        if not request.answered:
            ep = Endpoint(self._context, self._endpoint)
            task = self._loop.create_task(self._run(request, ep))
            self._tasks[task] = ep
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._state.wake()
        error = None if task.cancelled() else task.exception()
        # a peer may close before it has all answers
        if error is not None and not isinstance(error, Closed):
            self._loop.call_exception_handler({
                "message": "exception in a handler of rdmamsg.serve()",
                "exception": error, "task": task})

    async def _run(self, request: Request, ep: Endpoint) -> None:
        try:
            request._accept_as(ep)
            await ep._until_connected()
        except OSError:
            return  # the peer has gone
        async with ep:
            await self._handler(ep)

    async def wait_closed(self) -> None:
        """Waits until the server is closed and all handlers have ended."""
        while self._tasks or self._listener is not None:
            await self._state.wait()

    async def serve_forever(self) -> None:
        """Waits until the task is cancelled or the server closed."""
        await self.wait_closed()

    async def shutdown(self, timeout: float | None = None) -> None:
        """Stops listening, closes all connections gracefully, and waits.

        Handlers see the end of their messages. Those that go on after the
        timeout are cancelled.
        """
        if not self._context.closed:
            self.close()
        for ep in self._tasks.values():
            if ep._ep is not None:
                ep._begin_close(0, b"")
        try:
            async with asyncio.timeout(timeout):
                while self._tasks:
                    await self._state.wait()
        except TimeoutError:
            await self._cancel_tasks()

    async def _cancel_tasks(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class serve:
    """Serves: ``async with serve(handler, host, port) as server``.

    ``handler(ep)`` runs in a task for each connection, which closes with its
    end. The end of the block shuts down gracefully. ``on_request(request)``
    may reject a request.
    """

    def __init__(self, handler: Handler, host: str | None = None,
                 service: str | int = 0, *,
                 endpoint: EndpointOptions | None = None,
                 options: ListenOptions | None = None,
                 on_request: Callable[[Request], object] | None = None,
                 shutdown_timeout: float | None = 10,
                 context: Context | None = None) -> None:
        self._args = (handler, host, service, endpoint, options, on_request,
                      shutdown_timeout)
        self._context = context
        self._server: Server | None = None

    async def _serve(self) -> Server:
        return Server(self._context or await context(), *self._args)

    def __await__(self) -> Generator[Any, None, Server]:
        return self._serve().__await__()

    async def __aenter__(self) -> Server:
        self._server = await self._serve()
        return self._server

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        await self._server.shutdown(self._server._timeout)


class Group(GroupBase):
    """A multicast group on a loop."""

    def __init__(self, core: Context, address: str, flags: GroupFlag | None,
                 options: GroupOptions | None) -> None:
        self._waiters: set[asyncio.Future[None]] = set()
        self._context = core
        self._loop = core._loop
        super().__init__(core, address, flags, options)

    def _wake(self) -> None:
        for future in self._waiters:
            self._context._resume(future)

    async def _until(self, done: Callable[[], object]) -> None:
        while not done():
            future = self._loop.create_future()
            self._waiters.add(future)
            try:
                await self._context._pause(future)
            finally:
                self._waiters.discard(future)

    async def publish(self, data: Buffer) -> None:
        """Sends a copy to all members. Waits if there is no room."""
        while not self.try_publish(data):
            self._writable = False
            await self._until(lambda: self._writable or self._group is None)

    async def flush(self, timeout: float | None = None) -> Flushed:
        """Waits until all subscribers with repair have everything, or for
        this time: the result is true if they have."""
        self._begin_flush(timeout)
        await self._until(lambda: self._flushed is not None or
                          self._group is None)
        return self._end_flush()

    async def recv(self) -> Published:
        """The next message that somebody has published."""
        if not self._inbox:
            self._context._spin()
        await self._until(lambda: self._inbox or self._group is None)
        if not self._inbox:
            raise self._why()
        return self._next()

    def __aiter__(self) -> AsyncIterator[Published]:
        return self

    async def __anext__(self) -> Published:
        return await self.recv()

    async def leave(self) -> None:
        """Leaves after what was published is sent."""
        if self._group is not None:
            self._begin_leave()
            await self._until(lambda: self._group is None)

    async def __aenter__(self) -> Group:
        try:
            await self._until(lambda: self._joined or self._group is None)
        except BaseException:
            self._begin_leave()
            raise
        if self._group is None:
            raise self._why()
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._core.closed:
            await self.leave()


class join:
    """Joins a group: ``async with join("239.1.2.3") as group``."""

    def __init__(self, address: str, *, flags: GroupFlag | None = None,
                 options: GroupOptions | None = None,
                 context: Context | None = None) -> None:
        self._args = address, flags, options
        self._context = context
        self._group: Group | None = None

    async def __aenter__(self) -> Group:
        self._group = Group(self._context or await context(), *self._args)
        return await self._group.__aenter__()

    async def __aexit__(self, *exc: Any) -> None:
        assert self._group is not None
        await self._group.__aexit__(*exc)


class Team(TeamBase):
    """Connected processes on a loop.

    A cancelled operation runs on: wait() waits for its end, and until then
    another one is refused.
    """

    def __init__(self, core: Context, addresses: list[str], rank: int,
                 options: TeamOptions | None) -> None:
        self._state = _Waiter(core)
        super().__init__(core, addresses, rank, options)

    def _wake(self) -> None:
        self._state.wake()

    async def wait(self) -> None:
        """Waits for the operation that runs, and raises its error."""
        while self._busy:
            await self._state.wait()
        self._result()

    async def barrier(self) -> None:
        """Ends after all members have called it."""
        self._begin_barrier()
        await self.wait()

    async def broadcast(self, data: Buffer, root: int = 0) -> None:
        """Copies data of member root to data of all others."""
        self._begin_broadcast(data, root)
        await self.wait()

    async def allreduce(self, data: Buffer, op: Op = Op.ADD) -> None:
        """Combines data of all members, in place. Elements of 8 bytes."""
        self._begin_allreduce(data, op)
        await self.wait()


class team:
    """Connects the members of a team, "HOST:PORT" of each:
    ``async with team(addresses, rank) as team``, or ``await team(...)``."""

    def __init__(self, addresses: list[str], rank: int, *,
                 options: TeamOptions | None = None,
                 context: Context | None = None) -> None:
        self._args = addresses, rank, options
        self._context = context
        self._team: Team | None = None

    async def _connect(self) -> Team:
        made = Team(self._context or await context(), *self._args)
        try:
            await made.wait()
        except BaseException:
            made._leave()
            raise
        return made

    def __await__(self) -> Generator[Any, None, Team]:
        return self._connect().__await__()

    async def __aenter__(self) -> Team:
        self._team = await self._connect()
        return self._team

    async def __aexit__(self, *_: object) -> None:
        assert self._team is not None
        self._team._leave()


async def region(memory: Buffer, access: Access = Access.NONE) -> Region:
    """Declares memory for one-sided operations in the loop's context."""
    return (await context()).region(memory, access)
