# SPDX-License-Identifier: BSD-2-Clause
"""Calls with deadlines, many at a time on one connection: rpc.py HOST

The tag of a message is the number of the call. An answer that comes after the
deadline is dropped.
"""

import asyncio
import itertools
import json
import sys
from typing import Any

import rdmamsg
from rdmamsg import aio


class Client:
    """Sends requests, and gives each answer to the call that waits for it."""

    def __init__(self, ep: aio.Endpoint) -> None:
        self._ep = ep
        self._numbers = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            async for message in self._ep:
                future = self._calls.get(message.tag)
                if future is not None and not future.done():
                    future.set_result(json.loads(bytes(message)))
        finally:
            for future in self._calls.values():
                future.cancel("the server has gone")

    async def call(self, method: str, *arguments: Any, timeout: float) -> Any:
        """The answer; TimeoutError after so many seconds."""
        number = next(self._numbers) & 0xffffffff
        future = asyncio.get_running_loop().create_future()
        self._calls[number] = future
        try:
            async with asyncio.timeout(timeout):
                await self._ep.send(json.dumps([method, *arguments]).encode(),
                                    tag=number)
                return await future
        finally:
            del self._calls[number]


async def handler(ep: aio.Endpoint) -> None:
    """Answers each request in a task of its own."""
    async def answer(message: rdmamsg.Message) -> None:
        method, *arguments = json.loads(bytes(message))
        if method == "sleep":
            await asyncio.sleep(arguments[0])
        result = sum(arguments)
        try:
            await ep.send(json.dumps(result).encode(), tag=message.tag)
        except rdmamsg.Disconnected:
            pass  # the client has gone
    async with asyncio.TaskGroup() as group:
        async for message in ep:
            group.create_task(answer(message))


async def main(host: str) -> None:
    """Has both sides in one process."""
    async with rdmamsg.serve(handler, host) as server, \
            rdmamsg.connect(host, server.port) as ep:
        client = Client(ep)
        sums = await asyncio.gather(*(client.call("add", n, n, timeout=30)
                                      for n in range(100)))
        print(f"rpc: {len(sums)} answers, the last is {sums[-1]}")
        try:
            await client.call("sleep", 2, timeout=0.05)
        except TimeoutError:
            print("rpc: a call has missed its deadline")
        print("rpc: the next answer is", await client.call("add", 1, 2,
                                                           timeout=30))

if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
