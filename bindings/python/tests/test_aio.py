# SPDX-License-Identifier: BSD-2-Clause
"""asyncio: connect, serve, send, recv, back-pressure, cancelling, ends."""

import array
import asyncio
import gc
import unittest
import unittest.mock
from typing import Any

import rdmamsg
from helper import BOUND, HOST, SIZES, Library, descriptors, feed, pattern
from rdmamsg import aio
from rdmamsg._message import Message
from rdmamsg._rdmamsg import lib

Options = rdmamsg.EndpointOptions


async def echo(ep: aio.Endpoint) -> None:
    """Sends all messages back."""
    async for message in ep:
        await ep.send(message, tag=message.tag)


class Case(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.wrong: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: self.wrong.append(context))

    async def asyncTearDown(self) -> None:
        self.assertEqual(self.wrong, [])

    async def exchange_every_size(self, ep: aio.Endpoint) -> None:
        """With a peer that echoes."""
        for size in SIZES:
            await ep.send(pattern(size), tag=size)
            message = await ep.recv()
            self.assertEqual(bytes(message), pattern(size))
            self.assertEqual(message.tag, size)


class Messages(Case):
    async def test_echo_of_every_size(self) -> None:
        async with rdmamsg.serve(echo, HOST) as server, \
                rdmamsg.connect(HOST, server.port) as ep:
            await self.exchange_every_size(ep)

    async def test_many_peers_and_messages(self) -> None:
        async def client(port: int) -> None:
            async with rdmamsg.connect(HOST, port) as ep:
                for number in range(100):
                    await ep.send(b"x" * number, tag=number)
                for number in range(100):
                    message = await ep.recv()
                    self.assertEqual((message.tag, len(message)),
                                     (number, number))
        async with rdmamsg.serve(echo, HOST) as server:
            async with asyncio.timeout(BOUND):
                await asyncio.gather(*(client(server.port)
                                       for _ in range(20)))

    async def test_back_pressure_keeps_the_order_of_tasks(self) -> None:
        got: list[int] = []
        go = asyncio.Event()

        async def slow(ep: aio.Endpoint) -> None:
            ep.pause()
            await go.wait()
            ep.resume()
            async for message in ep:
                got.append(message.tag)
        async with rdmamsg.serve(slow, HOST) as server:
            async with rdmamsg.connect(HOST, server.port) as ep:
                tasks = [asyncio.create_task(ep.send(bytes(3000), number))
                         for number in range(1500)]
                await asyncio.sleep(0.01)
                waiting = [task for task in tasks if not task.done()]
                self.assertTrue(waiting)
                # neither a cancelled task nor its message is in the way
                dropped = waiting[::7]
                for task in dropped:
                    task.cancel()
                go.set()
                await asyncio.gather(*tasks, return_exceptions=True)
                for task in tasks:
                    self.assertEqual(task.cancelled(), task in dropped)
        self.assertEqual(got, [number for number, task in enumerate(tasks)
                               if task not in dropped])

    async def test_a_slow_handler_slows_its_peer(self) -> None:
        served: list[aio.Endpoint] = []
        go = asyncio.Event()
        got: list[int] = []

        async def slow(ep: aio.Endpoint) -> None:
            served.append(ep)
            await go.wait()
            async for message in ep:
                got.append(message.tag)

        async def send(ep: aio.Endpoint) -> None:
            for number in range(3000):
                await ep.send(b"x", number)
        async with rdmamsg.serve(slow, HOST) as server, \
                rdmamsg.connect(HOST, server.port) as ep, \
                asyncio.timeout(BOUND):
            task = asyncio.create_task(send(ep))
            while not (ep._senders and served and served[0]._full):
                self.assertFalse(task.done())
                await asyncio.sleep(0.01)
            self.assertLess(len(served[0]._inbox), 512)
            go.set()
            await task
        self.assertEqual(got, list(range(3000)))

    async def test_large_sends_together(self) -> None:
        async with rdmamsg.serve(echo, HOST) as server, \
                rdmamsg.connect(HOST, server.port) as ep:
            data = [bytearray(pattern(size)) for size in
                    (1 << 20, 70000, 300000, 1 << 21)]
            async with asyncio.TaskGroup() as group:
                for number, one in enumerate(data):
                    group.create_task(ep.send(one, tag=number))
                for number, one in enumerate(data):
                    message = await ep.recv()
                    self.assertEqual(message.tag, number)
                    self.assertEqual(message.data, one)

    async def test_a_cancelled_send_holds_its_memory(self) -> None:
        got: list[int] = []

        async def count(ep: aio.Endpoint) -> None:
            async for message in ep:
                got.append(len(message))
        async with rdmamsg.serve(count, HOST) as server, \
                rdmamsg.connect(HOST, server.port) as ep:
            for _ in range(20):
                task = asyncio.create_task(ep.send(bytearray(1 << 20)))
                await asyncio.sleep(0)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                gc.collect()
            await ep.send(b"last")
        self.assertEqual(got[-1], 4)
        self.assertLessEqual(set(got), {1 << 20, 4})
        self.assertFalse(ep._core._operations)


class Waiting(Case):
    async def test_deadline_of_recv(self) -> None:
        async with rdmamsg.serve(echo, HOST) as server, \
                rdmamsg.connect(HOST, server.port) as ep:
            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await ep.recv()
            await ep.send(b"still there")
            self.assertEqual(bytes(await ep.recv()), b"still there")

    async def test_only_one_task_receives(self) -> None:
        async with rdmamsg.serve(echo, HOST) as server, \
                rdmamsg.connect(HOST, server.port) as ep:
            first = asyncio.create_task(ep.recv())
            await asyncio.sleep(0)
            with self.assertRaisesRegex(RuntimeError, "another task"):
                await ep.recv()
            await ep.send(b"x")
            self.assertEqual(bytes(await first), b"x")

    async def test_cancelled_connect(self) -> None:
        ctx = await aio.context()
        before = len(ctx._targets)
        held: list[rdmamsg.Request] = []
        with self.assertRaises(TimeoutError):
            async with asyncio.timeout(0.05):
                async with rdmamsg.serve(
                        echo, HOST, on_request=lambda _: None) as server:
                    server._answer = held.append  # type: ignore
                    await rdmamsg.connect(HOST, server.port)
        async with asyncio.timeout(BOUND):
            while len(ctx._targets) > before:
                await asyncio.sleep(0.01)


class AlwaysFull(Library):
    """The module's library, whose every look at the queues finds a message."""

    ep: aio.Endpoint | None = None

    def pyr_spin(self, *_: object) -> int:
        assert self.ep
        self.ep._on_message()
        self.ep._inbox.append(Message(0, b"x", None))
        return 0


class Spinning(Case):
    """A context that polls before a task waits."""

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.core = await aio.context(rdmamsg.ContextOptions(spin_us=200))

    async def test_messages_and_one_sided(self) -> None:
        async with rdmamsg.serve(echo, HOST) as server, \
                rdmamsg.connect(HOST, server.port) as ep:
            await self.exchange_every_size(ep)
            await ep.flush()

    async def test_other_tasks_have_turns(self) -> None:
        turns = [0]

        async def other(ep: aio.Endpoint) -> None:
            while True:
                turns[0] += 1
                await asyncio.sleep(0)
                self.core._on_readable()
                ep._on_message()
                ep._inbox.append(Message(0, b"x", None))
        full = AlwaysFull()
        async with rdmamsg.serve(echo, HOST) as server, \
                rdmamsg.connect(HOST, server.port) as full.ep:
            task = asyncio.create_task(other(full.ep))
            with unittest.mock.patch.object(aio, "lib", full):
                for _ in range(10 * aio._SPINS):
                    await full.ep.recv()
            task.cancel()
        self.assertGreaterEqual(turns[0], 9)
        self.assertEqual(self.core._due, 0)

    async def test_tasks_together(self) -> None:
        async def client(port: int) -> None:
            async with rdmamsg.connect(HOST, port) as ep:
                for number in range(50):
                    await ep.send(b"", tag=number)
                    self.assertEqual((await ep.recv()).tag, number)
        async with rdmamsg.serve(echo, HOST) as server, \
                asyncio.timeout(BOUND):
            await asyncio.gather(*(client(server.port) for _ in range(20)))
        self.assertEqual(self.core._due, 0)

    async def test_cancelled_when_woken(self) -> None:
        async with rdmamsg.serve(echo, HOST) as server, \
                rdmamsg.connect(HOST, server.port) as ep:
            for _ in range(20):
                task = asyncio.create_task(ep.recv())
                await asyncio.sleep(0)
                await ep.send(b"x")
                while not ep._inbox:
                    await asyncio.sleep(0)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                await ep.recv()
        self.assertEqual(self.core._due, 0)

    async def test_what_a_callback_raises(self) -> None:
        def fail(value: int) -> None:
            raise ZeroDivisionError(value)

        async def notified(ep: aio.Endpoint) -> None:
            ep.on_written = fail
            await ep.send(bytes(region.key(ep)))
            async for _ in ep:
                pass
        region = self.core.region(bytearray(64), rdmamsg.Access.WRITE)
        async with rdmamsg.serve(notified, HOST) as server, \
                rdmamsg.connect(HOST, server.port) as ep:
            key = rdmamsg.Key((await ep.recv()).data)
            await ep.write(key, b"12345678", notify=7)
            await ep.flush()
        errors = [type(one["exception"]) for one in self.wrong]
        self.assertEqual(errors, [ZeroDivisionError])
        self.wrong.clear()

    async def test_options_come_first(self) -> None:
        with self.assertRaises(RuntimeError):
            await aio.context(rdmamsg.ContextOptions())
        self.assertIs(await aio.context(), self.core)


class Teams(Case):
    async def members(self, size: int) -> list[aio.Team]:
        """All members of a team, each with a context of its own."""
        with rdmamsg.Context() as ctx:
            held = [ctx.listen(0, HOST) for _ in range(size)]
            where = [f"{HOST}:{listener.port}" for listener in held]
        contexts = [aio.Context() for _ in held]
        for ctx in contexts:
            self.addCleanup(ctx.close)
        async with asyncio.timeout(BOUND):
            return await asyncio.gather(*(
                aio.team(where, rank, context=ctx)
                for rank, ctx in enumerate(contexts)))

    async def test_all_operations(self) -> None:
        async def member(team: aio.Team) -> None:
            data = array.array("d", [team.rank, 1.5])
            await team.allreduce(data)
            self.assertEqual(list(data), [3.0, 4.5])
            await team.allreduce(data, rdmamsg.Op.MAX)
            self.assertEqual(list(data), [3.0, 4.5])
            copy = bytearray(b"root" if team.rank == 1 else b"none")
            await team.broadcast(copy, root=1)
            self.assertEqual(copy, b"root")
            await team.barrier()
        members = await self.members(3)
        async with asyncio.timeout(BOUND):
            await asyncio.gather(*map(member, members))
        for team in members:
            team.destroy()
            with self.assertRaises(rdmamsg.ClosedError):
                await team.barrier()

    async def test_a_cancelled_operation_runs_on(self) -> None:
        one, two = await self.members(2)
        data = array.array("q", [1])
        task = asyncio.create_task(one.allreduce(data))
        await asyncio.sleep(0.01)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        for begin in (one.barrier(), one.allreduce(data)):
            with self.assertRaises(rdmamsg.MisuseError):
                await begin
        with self.assertRaises(BufferError):
            data.append(1)  # the operation has the memory
        feed(one._core, (lib.PYR_DONE, one))  # of the one before, again
        one._core.process()
        self.assertTrue(one._busy)
        async with asyncio.timeout(BOUND):
            await asyncio.gather(one.wait(),
                                 two.allreduce(array.array("q", [2])))
        data.append(4)
        self.assertEqual(list(data), [3, 4])
        for wrong in (-1, 1 << 32):
            with self.assertRaises(OverflowError):
                await one.broadcast(bytearray(8), root=wrong)
        await asyncio.gather(one.barrier(), two.barrier())

    async def test_nobody_is_there(self) -> None:
        with rdmamsg.Context() as ctx:
            held = [ctx.listen(0, HOST) for _ in range(2)]
            where = [f"{HOST}:{listener.port}" for listener in held]
        core = await aio.context()
        with self.assertRaises(TimeoutError):
            async with asyncio.timeout(0.05):
                await aio.team(where, 0)
        self.assertFalse(core._targets)
        with self.assertRaises(rdmamsg.Error):
            async with aio.team(where, 0, options=rdmamsg.TeamOptions(
                    timeout_ms=50)):
                self.fail("connected")
        self.assertFalse(core._targets)

    async def test_methods_that_wait_are_refused(self) -> None:
        core = await aio.context()
        for call in (lambda: core.connect(HOST, 1), lambda: core.listen(),
                     lambda: core.team([HOST], 0), lambda: core.wait(1),
                     lambda: core.join("239.1.2.3"), core.shutdown):
            with self.assertRaisesRegex(RuntimeError, "asyncio"):
                call()
        self.assertFalse(core._targets)


class Ends(Case):
    async def test_refused(self) -> None:
        server = await rdmamsg.serve(echo, HOST)
        port = server.port
        server.close()
        with self.assertRaises(rdmamsg.Refused):
            await rdmamsg.connect(HOST, port)

    async def test_rejected(self) -> None:
        def judge(request: rdmamsg.Request) -> None:
            if request.data != b"friend":
                request.reject(b"no")
        async with rdmamsg.serve(echo, HOST, on_request=judge) as server:
            with self.assertRaises(rdmamsg.Rejected) as caught:
                await rdmamsg.connect(HOST, server.port)
            assert caught.exception.reason is not None
            self.assertEqual(caught.exception.reason.data, b"no")
            async with rdmamsg.connect(
                    HOST, server.port,
                    options=Options(hello_data=b"friend")) as ep:
                await ep.send(b"x")
                await ep.recv()

    async def test_exceptions_of_the_program(self) -> None:
        async def fails(ep: aio.Endpoint) -> None:
            raise ZeroDivisionError
        async with rdmamsg.serve(fails, HOST) as server:
            ep = await rdmamsg.connect(HOST, server.port)
            with self.assertRaises(rdmamsg.Disconnected):
                await ep.recv()
        self.assertIsInstance(self.wrong.pop()["exception"],
                              ZeroDivisionError)

        def judge(request: rdmamsg.Request) -> None:
            raise KeyError
        async with rdmamsg.serve(echo, HOST, on_request=judge) as server:
            with self.assertRaises(rdmamsg.Rejected):
                await rdmamsg.connect(HOST, server.port)
        self.assertIsInstance(self.wrong.pop()["exception"], KeyError)

    async def test_an_exception_aborts(self) -> None:
        ended: list[rdmamsg.Disconnected] = []

        async def wait(ep: aio.Endpoint) -> None:
            try:
                await ep.recv()
            except rdmamsg.Disconnected as err:
                ended.append(err)
        async with rdmamsg.serve(wait, HOST) as server:
            with self.assertRaises(ZeroDivisionError):
                async with rdmamsg.connect(HOST, server.port):
                    raise ZeroDivisionError
            async with asyncio.timeout(BOUND):
                while not ended:
                    await asyncio.sleep(0.01)
        self.assertNotIsInstance(ended[0], rdmamsg.Closed)

    async def test_graceful_shutdown(self) -> None:
        got: list[bytes] = []

        async def collect(ep: aio.Endpoint) -> None:
            async for message in ep:
                got.append(bytes(message))
        async with rdmamsg.serve(collect, HOST) as server:
            ep = await rdmamsg.connect(HOST, server.port)
            for number in range(50):
                await ep.send(b"%d" % number)
        self.assertEqual(got, [b"%d" % number for number in range(50)])
        await ep.wait_closed()
        assert ep.reason is not None
        self.assertEqual(ep.reason.cause, rdmamsg.Cause.CLOSED)

    async def test_a_handler_that_does_not_end_is_cancelled(self) -> None:
        cancelled = asyncio.Event()

        async def forever(ep: aio.Endpoint) -> None:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cancelled.set()
                raise
        async with rdmamsg.serve(forever, HOST,
                                 shutdown_timeout=0.05) as server:
            ep = await rdmamsg.connect(HOST, server.port)
        self.assertTrue(cancelled.is_set())
        ep.abort()


class Loops(unittest.TestCase):
    def test_the_context_ends_with_the_loop(self) -> None:
        async def main() -> aio.Context:
            async with rdmamsg.serve(echo, HOST) as server, \
                    rdmamsg.connect(HOST, server.port) as ep:
                await ep.send(b"x")
                await ep.recv()
            return await aio.context()
        asyncio.run(main())
        before = descriptors()
        for _ in range(3):
            self.assertTrue(asyncio.run(main()).closed)
        self.assertEqual(descriptors(), before)

    def test_uvloop(self) -> None:
        try:
            import uvloop
        except ImportError:
            self.skipTest("no uvloop")

        async def main() -> None:
            async with rdmamsg.serve(echo, HOST) as server, \
                    rdmamsg.connect(HOST, server.port) as ep:
                for size in (10, 100000):
                    await ep.send(pattern(size))
                    self.assertEqual(bytes(await ep.recv()), pattern(size))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())


if __name__ == "__main__":
    unittest.main()
