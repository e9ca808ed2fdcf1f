# SPDX-License-Identifier: BSD-2-Clause
"""Many connections leave nothing, and the largest messages arrive.

CONNECTIONS in the environment says how many, and LARGEST how many bytes.
"""

import asyncio
import gc
import linecache
import mmap
import os
import tracemalloc
import unittest

import rdmamsg
from helper import BOUND, HOST, descriptors, serving
from rdmamsg import Access, aio

CONNECTIONS = int(os.environ.get("CONNECTIONS", "60"))
LARGEST = int(os.environ.get("LARGEST", str(1 << 24)))
FIRST = 20  # connections that may leave caches behind


def resident() -> int:
    """Bytes of memory that this process has, of C too."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE


class Left(unittest.TestCase):
    """Compares after the first connections and after all."""

    def setUp(self) -> None:
        with rdmamsg.Context() as ctx:  # opens what stays
            ctx.listen(0, HOST).close()
        self.addCleanup(tracemalloc.stop)
        tracemalloc.start()
        self.descriptors = descriptors()

    def look(self, ctx: rdmamsg.Context, number: int) -> None:
        """Called after each connection, with its number."""
        if number in (FIRST, CONNECTIONS):
            linecache.clearcache()  # asyncio names tasks that take long
            gc.collect()
        if number == FIRST:
            self.memory = tracemalloc.get_traced_memory()[0]
            self.open = descriptors()
        if number == 10 * FIRST:
            self.resident = resident()
        if number < CONNECTIONS:
            return
        if number >= 1000:  # a connection of C has 8 KB
            self.assertLess(resident(),
                            self.resident + (2 << 20) + 1024 * number)
        self.assertLess(tracemalloc.get_traced_memory()[0],
                        self.memory + 20000 + 20 * number)
        # the server's side of a connection ends a little later
        self.assertLess(descriptors(), self.open + 20)
        self.assertFalse(ctx._targets.keys() - {1})  # of the listener
        self.assertFalse(ctx._operations)
        self.assertFalse(ctx._regions)
        self.assertEqual(ctx.statistics()["endpoints"], 0)
        self.assertEqual(ctx.statistics()["msgs_lent"], 0)
        self.assertNotIn("region", ctx.dump())

    def test_blocking(self) -> None:
        def many(listener: rdmamsg.Listener) -> None:
            for _ in range(CONNECTIONS):
                for message in listener.accept(timeout=BOUND):
                    self.assertEqual(len(message), 5000)
        with serving(many) as port, rdmamsg.Context() as ctx:
            for number in range(1, CONNECTIONS + 1):
                with ctx.connect(HOST, port, timeout=BOUND) as ep, \
                        ctx.region(bytearray(100), Access.READ) as region:
                    region.key(ep)
                    ep.send(bytes(5000))
                self.look(ctx, number)
        self.assertEqual(descriptors(), self.descriptors)

    def test_asyncio(self) -> None:
        async def handler(ep: aio.Endpoint) -> None:
            async for message in ep:
                self.assertEqual(len(message), 5000)

        async def main() -> None:
            ctx = await aio.context()
            async with rdmamsg.serve(handler, HOST) as server:
                for number in range(1, CONNECTIONS + 1):
                    async with rdmamsg.connect(HOST, server.port) as ep:
                        with ctx.region(bytearray(100), Access.READ) as one:
                            one.key(ep)
                            await ep.send(bytes(5000))
                    while server._tasks:
                        await asyncio.sleep(0)
                    self.look(ctx, number)
        asyncio.run(main())
        gc.collect()
        self.assertEqual(descriptors(), self.descriptors)


class Largest(unittest.TestCase):
    def test_echo(self) -> None:
        options = rdmamsg.EndpointOptions(max_msg_size=LARGEST)

        def echo(listener: rdmamsg.Listener) -> None:
            ep = listener.accept(timeout=BOUND, options=options)
            ep.send(ep.recv(BOUND), timeout=10 * BOUND)
            with self.assertRaises(rdmamsg.Closed):
                ep.recv()
        data = mmap.mmap(-1, LARGEST)
        marks = range(0, LARGEST, 4093)
        for at in marks:
            data[at] = at % 251
        # the default of 2 GB is not enough for a message of 1 GB
        context = rdmamsg.ContextOptions(
            max_registered=max(2 << 30, 4 * LARGEST))
        with serving(echo, context) as port, rdmamsg.Context(context) as ctx, \
                ctx.connect(HOST, port, timeout=BOUND, options=options) as ep:
            ep.send(data, timeout=10 * BOUND)
            message = ep.recv(10 * BOUND)
            self.assertEqual(len(message), LARGEST)
            self.assertTrue(message.data == data)


if __name__ == "__main__":
    unittest.main()
