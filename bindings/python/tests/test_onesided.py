# SPDX-License-Identifier: BSD-2-Clause
"""Regions, keys, one-sided operations, groups, teams, failover, devices."""

import array
import asyncio
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import rdmamsg
from helper import BOUND, HOST, IWARP, Cuda, DLPack, connected, pattern
from rdmamsg import Access, aio

ALL = Access.READ | Access.WRITE | Access.ATOMIC


class OneSided(unittest.TestCase):
    def setUp(self) -> None:
        self.memory = bytearray(pattern(1 << 20))
        self.written: list[int] = []

    def serve(self, listener: rdmamsg.Listener) -> None:
        ep = listener.accept(timeout=BOUND)
        ep.on_written = self.written.append
        with listener._core.region(self.memory, ALL) as region:
            ep.send(bytes(region.key(ep)))
            for _ in ep:
                pass

    def test_read_write(self) -> None:
        for make in (bytearray, lambda size: mmap.mmap(-1, size)):
            memory = make(1 << 20)
            with connected(self.serve) as ep:
                key = rdmamsg.Key(ep.recv(BOUND).data)
                self.assertEqual(len(key), 1 << 20)
                self.assertEqual(key.access, ALL)
                region = ep._core.region(memory, Access.LOCAL_WRITE)
                ep.read(key, region, timeout=BOUND)
                self.assertEqual(memory[:], pattern(1 << 20))
                memory[:4] = b"here"
                ep.write(key, region, at=0, size=4, offset=100, notify=5,
                         timeout=BOUND)
                ep.write(key, b"copied", offset=200, timeout=BOUND)
                ep.flush(timeout=BOUND)
                self.assertEqual(self.memory[100:104], b"here")
                self.assertEqual(self.memory[200:206], b"copied")
                if isinstance(memory, bytearray):
                    with self.assertRaises(BufferError):
                        memory.append(1)  # the region has it
                region.destroy()
                if isinstance(memory, bytearray):
                    memory.append(1)
                self.memory[:] = pattern(1 << 20)
        self.assertEqual(self.written, [5, 5])

    @unittest.skipIf(IWARP, "iWARP has no atomic operations")
    def test_numpy_and_atomics(self) -> None:
        self.memory[:16] = bytes(16)
        with connected(self.serve) as ep:
            key = rdmamsg.Key(bytes(ep.recv(BOUND)))
            self.assertEqual(ep.fetch_add(key, 0, 5, BOUND), 0)
            self.assertEqual(ep.fetch_add(key, 0, -2, BOUND), 5)
            self.assertEqual(ep.compare_swap(key, 0, 3, 9, BOUND), 3)
            self.assertEqual(ep.compare_swap(key, 0, 3, 1, BOUND), 9)
            numbers = array.array("Q", [0])
            with ep._core.region(numbers, Access.LOCAL_WRITE) as region:
                ep.read(key, region, timeout=BOUND)
            self.assertEqual(numbers[0], 9)

    def test_mistakes(self) -> None:
        with connected(self.serve) as ep:
            ctx = ep._core
            key = rdmamsg.Key(ep.recv(BOUND).data)
            region = ctx.region(bytearray(100), Access.LOCAL_WRITE)
            for mistake, error in (
                    (lambda: ep.read(key, region, offset=1 << 20),
                     rdmamsg.InvalidArgument),
                    (lambda: ep.read(key, region, at=50, size=51), IndexError),
                    (lambda: ep.read(key, region, at=-1), IndexError),
                    (lambda: ep.read(b"", region), TypeError),
                    (lambda: ep.read(key, bytearray(8)), TypeError),
                    (lambda: ep.write(key, b"abc", at=1), TypeError),
                    (lambda: ep.fetch_add(key, 4, 1),
                     rdmamsg.Unsupported if IWARP
                     else rdmamsg.InvalidArgument),
                    (lambda: ctx.region(b"abc", Access.WRITE), BufferError),
                    (lambda: ctx.region("abc"), TypeError),
                    (lambda: rdmamsg.Key(b"not a key"), rdmamsg.Error)):
                with self.assertRaises(error):
                    mistake()
            region.destroy()
            region.destroy()
            with self.assertRaises(rdmamsg.ClosedError):
                ep.read(key, region)

    def test_a_revoked_key(self) -> None:
        def serve(listener: rdmamsg.Listener) -> None:
            ep = listener.accept(timeout=BOUND)
            region = listener._core.region(self.memory, ALL)
            ep.send(bytes(region.key(ep)))
            region.revoke()
            ep.send(b"revoked")
            with self.assertRaises(rdmamsg.Disconnected):
                ep.recv(BOUND)
        with connected(serve) as ep:
            key = rdmamsg.Key(ep.recv(BOUND).data)
            ep.recv(BOUND)
            region = ep._core.region(bytearray(100), Access.LOCAL_WRITE)
            with self.assertRaises(rdmamsg.Error):
                ep.read(key, region, timeout=BOUND)

    def test_regions_end_with_the_context(self) -> None:
        memory = bytearray(100)
        with rdmamsg.Context() as ctx:
            region = ctx.region(memory, Access.LOCAL_WRITE)
            del region
            with self.assertRaises(BufferError):
                memory.append(1)
        memory.append(1)

    def test_asyncio(self) -> None:
        async def handler(ep: aio.Endpoint) -> None:
            region = ep._core.region(self.memory, ALL)
            await ep.send(bytes(region.key(ep)))
            await ep.wait_closed()
            region.destroy()

        async def main() -> None:
            async with rdmamsg.serve(handler, HOST) as server, \
                    rdmamsg.connect(HOST, server.port) as ep:
                key = rdmamsg.Key((await ep.recv()).data)
                target = bytearray(64 * 100)
                region = await aio.region(target, Access.LOCAL_WRITE)
                await asyncio.gather(*(
                    ep.read(key, region, at=at, size=100, offset=at)
                    for at in range(0, 6400, 100)))
                self.assertEqual(target, self.memory[:6400])
                await ep.write(key, b"abc")
                await ep.flush()
                self.assertEqual(self.memory[:3], b"abc")
                if not IWARP:
                    await ep.fetch_add(key, 8, 1)
                    await ep.compare_swap(key, 8, 0, 1)
                region.destroy()
        asyncio.run(main())


@unittest.skipIf(IWARP, "iWARP has no multicast")
class Groups(unittest.TestCase):
    def test_publish_and_subscribe(self) -> None:
        ready, done = threading.Event(), threading.Event()
        got: list[bytes] = []

        def subscribe() -> None:
            with rdmamsg.Context() as ctx, ctx.join(
                    "239.1.2.3", flags=rdmamsg.GroupFlag.SUBSCRIBE,
                    timeout=BOUND) as group:
                ready.set()
                for _ in range(20):
                    got.append(group.recv(BOUND).data)
                done.set()
        thread = threading.Thread(target=subscribe)
        thread.start()
        with rdmamsg.Context() as ctx, ctx.join(
                "239.1.2.3", flags=rdmamsg.GroupFlag.PUBLISH,
                timeout=BOUND) as group:
            self.assertTrue(ready.wait(BOUND))
            for number in range(20):
                group.publish(pattern(number * 1000), timeout=BOUND)
            while not done.is_set():
                ctx.wait(0.01)
            self.assertEqual(group.statistics()["sent_messages"], 20)
            self.assertTrue(group.attributes()["joined"])
        thread.join()
        self.assertEqual(got, [pattern(number * 1000)
                               for number in range(20)])
        with self.assertRaises(rdmamsg.ClosedError):
            group.try_publish(b"x")

    def test_flush(self) -> None:
        flag = rdmamsg.GroupFlag

        async def main() -> None:
            async with (
                rdmamsg.join("239.1.2.5", flags=flag.SUBSCRIBE | flag.REPAIR)
                as sub, rdmamsg.join(
                    "239.1.2.5", flags=flag.PUBLISH | flag.REPAIR) as pub,
                asyncio.timeout(BOUND)
            ):
                await pub.publish(b"news")
                self.assertEqual((await sub.recv()).data, b"news")
                while not pub.members():
                    await asyncio.sleep(0.01)
                self.assertEqual(pub.members()[0]["lost"], 0)
                self.assertEqual(await pub.flush(BOUND),
                                 rdmamsg.Flushed(1, 1, 0, 0, False))
                self.assertTrue(await pub.flush(BOUND))
                with self.assertRaises(rdmamsg.Unsupported):
                    await sub.flush(BOUND)
        asyncio.run(main())
        with rdmamsg.Context() as ctx, ctx.join(
                "239.1.2.5", flags=flag.PUBLISH | flag.REPAIR,
                timeout=BOUND) as group:
            self.assertEqual(group.flush(BOUND).members, 0)

    def test_asyncio(self) -> None:
        async def main() -> None:
            own = rdmamsg.GroupFlag.OWN
            async with rdmamsg.join("239.1.2.4", flags=own) as group:
                await group.publish(b"hello")
                async with asyncio.timeout(BOUND):
                    self.assertEqual((await group.recv()).data, b"hello")
        asyncio.run(main())

    def test_topics(self) -> None:
        # a process reads RDMAMSG_TOPICS once
        program = """
import rdmamsg
many = {f"n.t{i}": f"239.1.{i}.1" for i in range(100)}
assert rdmamsg.topics("n.*") == many, rdmamsg.topics("n.*")
assert rdmamsg.topics("t.*") == {"t.eur": "239.1.2.5:7000"}
assert len(rdmamsg.topics()) == 101
assert rdmamsg.topics("none") == {}
try:
    rdmamsg.topics("t*")
    raise AssertionError
except rdmamsg.InvalidArgument:
    pass
with rdmamsg.Context() as ctx, ctx.join("t.eur", timeout=60) as group:
    assert group.attributes()["joined"]
"""
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("t.eur 239.1.2.5 7000\n")
            for number in range(100):
                file.write(f"n.t{number} 239.1.{number}.1\n")
            file.flush()
            subprocess.run([sys.executable, "-c", program], check=True,
                           env=os.environ | {"RDMAMSG_TOPICS": file.name},
                           timeout=BOUND)

    def test_no_group(self) -> None:
        with rdmamsg.Context() as ctx:
            with self.assertRaises(rdmamsg.InvalidArgument):
                ctx.join("10.0.0.1")


class Teams(unittest.TestCase):
    def test_all_operations(self) -> None:
        with rdmamsg.Context() as ctx:
            held = [ctx.listen(0, HOST) for _ in range(3)]
            where = [f"{HOST}:{listener.port}" for listener in held]
        results: dict[int, list[float]] = {}

        def member(rank: int) -> None:
            with rdmamsg.Context() as ctx, \
                    ctx.team(where, rank, timeout=BOUND) as team:
                data = array.array("d", [rank, 1.5])
                team.allreduce(data, timeout=BOUND)
                copy = bytearray(b"root" if rank == 1 else b"none")
                team.broadcast(copy, root=1, timeout=BOUND)
                team.barrier(timeout=BOUND)
                self.assertEqual(copy, b"root")
                with self.assertRaises(TypeError):
                    team.allreduce(bytearray(8))
                results[rank] = list(data)
        threads = [threading.Thread(target=member, args=(rank,))
                   for rank in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND)
        self.assertEqual(results, dict.fromkeys(range(3), [3.0, 4.5]))


    def test_what_is_no_buffer(self) -> None:
        with rdmamsg.Context() as ctx:
            with ctx.listen(0, HOST) as listener:
                where = [f"{HOST}:{listener.port}"]
            with ctx.team(where, 0, timeout=BOUND) as team:
                for data, text in ((Cuda(), "region_dmabuf"),
                                   (DLPack(2), "region_dmabuf"),
                                   (DLPack(1), "from_dlpack"),
                                   ("text", "encode")):
                    with self.assertRaisesRegex(TypeError, text):
                        team.allreduce(data)
                    with self.assertRaisesRegex(TypeError, text):
                        team.broadcast(data)
                with self.assertRaisesRegex(BufferError, "read-only"):
                    team.allreduce(bytes(8))
                with self.assertRaisesRegex(TypeError, "int64"):
                    team.allreduce(bytearray(8))
                team.barrier(BOUND)


class Failover(unittest.TestCase):
    def test_migrate_by_hand(self) -> None:
        events: list[rdmamsg.PathEvent] = []
        options = rdmamsg.EndpointOptions(failover=rdmamsg.Failover())

        def serve(listener: rdmamsg.Listener) -> None:
            for message in listener.accept(timeout=BOUND, options=options):
                message.release()
        with connected(serve, options) as ep:
            ep.on_path = events.append
            ep.send(b"x")
            ep.migrate(lane=1)
            ep._core._drive(lambda: any(
                event.change == rdmamsg.PathChange.RESUMED
                for event in events), BOUND, "migrating")
            self.assertEqual(ep.path()["resumes"], 1)
            self.assertTrue(ep.history())
            ep.send(b"y")

    @unittest.skipUnless(shutil.which("rdmamsg-soft-ctl"),
                         "no rdmamsg-soft-ctl in PATH")
    def test_a_cut_link(self) -> None:
        # the end of the connection comes soon, with each kind of link
        options = rdmamsg.EndpointOptions(
            failover=rdmamsg.Failover(rungs=rdmamsg.Rung.LANE,
                                      timeout_ms=60000),
            dead_after_ms=3000, tuning=rdmamsg.Tuning(ack_timeout=13))
        changes: list[int] = []
        got: list[int] = []

        def serve(listener: rdmamsg.Listener) -> None:
            for message in listener.accept(timeout=BOUND, options=options):
                got.append(message.tag)

        def port(state: str) -> None:
            subprocess.run(["rdmamsg-soft-ctl", "--pid", str(os.getpid()),
                            "port", "1", state], check=True)

        with connected(serve, options) as ep:
            ep.on_path = lambda event: changes.append(event.change)

            def wait_for(change: int) -> None:
                ep._core._drive(lambda: change in changes, BOUND, "failover")
            for tag in range(10):
                ep.send(b"before", tag=tag)
            port("down")
            try:
                ep.send(b"on the way", tag=10)
                wait_for(rdmamsg.PathChange.DOWN)
            finally:
                port("up")
            for tag in range(11, 20):
                ep.send(b"after", tag=tag)
            wait_for(rdmamsg.PathChange.RESUMED)
            self.assertGreater(ep.path()["resumes"], 0)
        self.assertEqual(got, list(range(20)))

    def test_what_a_callback_raises_comes_out(self) -> None:
        options = rdmamsg.EndpointOptions(failover=rdmamsg.Failover())

        def serve(listener: rdmamsg.Listener) -> None:
            for message in listener.accept(timeout=BOUND, options=options):
                message.release()

        def fail(event: rdmamsg.PathEvent) -> None:
            raise ZeroDivisionError
        with connected(serve, options) as ep:
            ep.on_path = fail
            ep.migrate(lane=1)
            with self.assertRaises(ZeroDivisionError):
                ep.recv(BOUND)
            ep.on_path = None
            ep.send(b"still there")


class Devices(unittest.TestCase):
    def test_devices_and_capabilities(self) -> None:
        names = [one["name"] for one in rdmamsg.devices()]
        self.assertIn("soft0", names)
        self.assertEqual(rdmamsg.device("soft0")["error"], 0)
        self.assertEqual(rdmamsg.port(1, "soft0")["port"], 1)
        self.assertTrue(rdmamsg.gids(1, "soft0"))
        self.assertEqual(bool(rdmamsg.pkeys(1, "soft0")), not IWARP)
        caps = {cap.name: cap for cap in rdmamsg.capabilities("soft0")}
        self.assertNotEqual(caps["read"].how, rdmamsg.How.ABSENT)
        with self.assertRaises(rdmamsg.NoDevice):
            rdmamsg.device("none0")
        with self.assertRaises(rdmamsg.InvalidArgument):
            rdmamsg.port(99, "soft0")

    def test_module(self) -> None:
        done = subprocess.run([sys.executable, "-m", "rdmamsg", "soft0"],
                              capture_output=True, text=True, check=True)
        self.assertIn(rdmamsg.version(), done.stdout)
        self.assertIn("soft0", done.stdout)


if __name__ == "__main__":
    unittest.main()
