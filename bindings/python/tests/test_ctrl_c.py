# SPDX-License-Identifier: BSD-2-Clause
"""Ctrl-C at random moments: the program ends, or goes on with all messages.

CTRL_C in the environment says how many times.
"""

import contextlib
import os
import random
import signal
import subprocess
import unittest

from helper import child, finish

TIMES = int(os.environ.get("CTRL_C", "6"))

# a program that ends
BLOCKING = """
from helper import *
with connected() as ep:
    print("ready", flush=True)
    while True:
        ep.send(bytes(100), timeout=BOUND)
        ep.send(bytes(100000), timeout=BOUND)
        ep.recv(BOUND), ep.recv(BOUND)
"""
ASYNCIO = """
import asyncio
import rdmamsg
from helper import HOST
async def echo(ep):
    async for message in ep:
        await ep.send(message)
async def main():
    async with rdmamsg.serve(echo, HOST) as server, \\
            rdmamsg.connect(HOST, server.port) as ep:
        print("ready", flush=True)
        while True:
            await ep.send(bytes(100))
            await ep.send(bytes(100000))
            await ep.recv(), await ep.recv()
asyncio.run(main())
"""

# a program that goes on, and whose peer numbers its messages
NUMBERS = """
import asyncio, contextlib, sys
import rdmamsg
from helper import *
def number(listener):
    ep = listener.accept(timeout=BOUND)
    tag = 0
    with contextlib.suppress(rdmamsg.Disconnected):
        while True:
            ep.send(bytes(100 if tag % 2 else 5000), tag=tag)
            tag += 1
tags = []
times = int(sys.argv[1])
def end():
    assert tags == list(range(len(tags))), tags
"""
BLOCKING_ON = NUMBERS + """
with connected(number) as ep:
    while times:
        try:
            print("ready", flush=True)
            while True:
                message = ep.recv()
                tags += [message.tag]
        except KeyboardInterrupt:
            times -= 1
    ep.abort()
end()
"""
ASYNCIO_ON = NUMBERS + """
async def connect(port):
    return await rdmamsg.connect(HOST, port)
async def receive(ep):
    print("ready", flush=True)
    while True:
        message = await ep.recv()
        tags.append(message.tag)
async def leave(ep):
    ep.abort()
    await ep.wait_closed()
with serving(number) as port, asyncio.Runner() as runner:
    ep = runner.run(connect(port))
    while times:
        try:
            runner.run(receive(ep))
        except KeyboardInterrupt:
            times -= 1
    runner.run(leave(ep))
end()
"""


def interrupt(process: subprocess.Popen[str]) -> None:
    """Sends the signal after a random time."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(random.uniform(0, 0.05))
    process.send_signal(signal.SIGINT)


class CtrlC(unittest.TestCase):
    def expect(self, process: subprocess.Popen[str], line: str) -> None:
        assert process.stdout is not None
        if process.stdout.readline() != f"{line}\n":
            self.fail(finish(process)[2])

    def ends(self, program: str) -> None:
        for _ in range(TIMES):
            process = child(program)
            self.expect(process, "ready")
            interrupt(process)
            status, _, err = finish(process)
            self.assertEqual(status, -signal.SIGINT, err)
            self.assertIn("KeyboardInterrupt", err)

    def goes_on(self, program: str) -> None:
        process = child(program, str(TIMES))
        for _ in range(TIMES):
            self.expect(process, "ready")
            interrupt(process)
        status, _, err = finish(process)
        self.assertEqual(status, 0, err)

    def test_it_ends(self) -> None:
        self.ends(BLOCKING)

    def test_it_ends_in_asyncio(self) -> None:
        self.ends(ASYNCIO)

    def test_it_goes_on(self) -> None:
        self.goes_on(BLOCKING_ON)

    def test_it_goes_on_in_asyncio(self) -> None:
        self.goes_on(ASYNCIO_ON)


if __name__ == "__main__":
    unittest.main()
