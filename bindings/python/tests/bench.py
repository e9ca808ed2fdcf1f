# SPDX-License-Identifier: BSD-2-Clause
"""Echo over rdmamsg, asyncio's streams on TCP and, if it is there, pyzmq.

Usage: bench.py [-n ROUNDS] [-s SECONDS] [-d DEPTH] [--uvloop]

Each round measures every pair of a transport and a size for so many seconds, in
turns. Client and server are processes of their own. Prints messages there and
back a second, the median of the rounds, and how often rdmamsg has as many:
as it comes, and with spin_us=50 on both sides.
DEPTH messages, of 1 MB at most together, are on their way at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import statistics
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Any

import rdmamsg

try:
    import zmq
    import zmq.asyncio
except ImportError:
    zmq = None

HOST = "127.0.0.1"
SIZES = (64, 4096, 65536, 1 << 20)
Send = Callable[[bytes], Awaitable[Any]]
Recv = Callable[[], Awaitable[Any]]


async def spin() -> None:
    """Lets the loop's context poll before it sleeps."""
    await rdmamsg.aio.context(rdmamsg.ContextOptions(spin_us=50))


async def rdmamsg_server(pipe: Connection) -> None:
    """Sends each message back, until the client has gone."""
    over = asyncio.Event()

    async def echo(ep: rdmamsg.aio.Endpoint) -> None:
        async for message in ep:
            await ep.send(message)
        over.set()
    async with rdmamsg.serve(echo, HOST) as server:
        pipe.send(server.port)
        await over.wait()


async def spin_server(pipe: Connection) -> None:
    """The same, polling."""
    await spin()
    await rdmamsg_server(pipe)


async def tcp_server(pipe: Connection) -> None:
    """The same, of messages with a length before them."""
    over = asyncio.Event()

    async def echo(reader: asyncio.StreamReader,
                   writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readexactly(4)
                writer.write(head)
                writer.write(await reader.readexactly(
                    int.from_bytes(head, "big")))
                await writer.drain()
        except asyncio.IncompleteReadError:
            writer.close()
            over.set()
    server = await asyncio.start_server(echo, HOST, 0, limit=1 << 21)
    pipe.send(server.sockets[0].getsockname()[1])
    await over.wait()
    server.close()


async def count(send: Send, recv: Recv, size: int, seconds: float,
                depth: int) -> float:
    """Exchanges a second."""
    data = bytes(size)
    for _ in range(depth):
        await send(data)
    for _ in range(20):
        await recv()
        await send(data)
    done, began = 0, time.monotonic()
    while time.monotonic() - began < seconds:
        for _ in range(8):
            await recv()
            await send(data)
        done += 8
    rate = done / (time.monotonic() - began)
    for _ in range(depth):
        await recv()
    return rate


async def rdmamsg_client(port: int, *what: Any) -> float:
    """Measures over rdmamsg."""
    async with rdmamsg.connect(HOST, port) as ep:
        return await count(ep.send, ep.recv, *what)


async def spin_client(port: int, *what: Any) -> float:
    """Measures over rdmamsg, polling."""
    await spin()
    return await rdmamsg_client(port, *what)


async def tcp_client(port: int, size: int, *what: Any) -> float:
    """Measures over TCP."""
    reader, writer = await asyncio.open_connection(HOST, port, limit=1 << 21)
    head = size.to_bytes(4, "big")

    async def send(data: bytes) -> None:
        writer.write(head)
        writer.write(data)
        await writer.drain()

    async def recv() -> None:
        await reader.readexactly(4)
        await reader.readexactly(size)
    result = await count(send, recv, size, *what)
    writer.close()
    return result


async def zmq_server(pipe: Connection) -> None:
    """Sends each message back, until it is empty."""
    with zmq.asyncio.Context() as ctx, ctx.socket(zmq.PAIR) as socket:
        pipe.send(socket.bind_to_random_port(f"tcp://{HOST}"))
        while data := await socket.recv(copy=False):
            await socket.send(data, copy=False)


async def zmq_client(port: int, *what: Any) -> float:
    """Measures over ZeroMQ on TCP."""
    with zmq.asyncio.Context() as ctx, ctx.socket(zmq.PAIR) as socket:
        socket.connect(f"tcp://{HOST}:{port}")
        result = await count(lambda data: socket.send(data, copy=False),
                             lambda: socket.recv(copy=False), *what)
        await socket.send(b"")
    return result

TRANSPORTS = {"rdmamsg": (rdmamsg_server, rdmamsg_client),
              "spin_us=50": (spin_server, spin_client),
              "tcp": (tcp_server, tcp_client)}
if zmq:
    TRANSPORTS["zmq"] = (zmq_server, zmq_client)


def run(main: Any, uvloop: bool) -> Any:
    """asyncio.run() on the wanted loop."""
    factory = None
    if uvloop:
        import uvloop as module
        factory = module.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


def serve(name: str, pipe: Connection, uvloop: bool) -> None:
    """The process of a server."""
    run(TRANSPORTS[name][0](pipe), uvloop)


def measure(name: str, size: int, options: argparse.Namespace) -> float:
    """One pair, with a server of its own."""
    # more would not fit into the buffers of TCP, and both sides would wait
    depth = max(1, min(options.d, (1 << 20) // size))
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(name, there, options.uvloop))
    process.start()
    try:
        return float(run(TRANSPORTS[name][1](
            here.recv(), size, options.s, depth), options.uvloop))
    finally:
        process.join(30)
        process.kill()


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=5, help="rounds")
    parser.add_argument("-s", type=float, default=1, help="seconds each")
    parser.add_argument("-d", type=int, default=1, help="depth")
    parser.add_argument("--uvloop", action="store_true")
    options = parser.parse_args()
    rates: dict[tuple[str, int], list[float]] = {}
    for _ in range(options.n):
        for size in SIZES:
            for name in TRANSPORTS:
                rates.setdefault((name, size), []).append(
                    measure(name, size, options))
    ours = [*TRANSPORTS][:2]
    rivals = [*TRANSPORTS][2:]
    print(f"{'bytes':>8}", *(f"{name:>10}" for name in ours),
          *(f"{name:>10} {'times':>6} {'times':>6}" for name in rivals))
    for size in SIZES:
        rate = {name: statistics.median(rates[name, size])
                for name in TRANSPORTS}
        print(f"{size:8}", *(f"{rate[name]:10.0f}" for name in ours),
              *(f"{rate[name]:10.0f} {rate[ours[0]] / rate[name]:6.2f} "
                f"{rate[ours[1]] / rate[name]:6.2f}" for name in rivals))


if __name__ == "__main__":
    main()
