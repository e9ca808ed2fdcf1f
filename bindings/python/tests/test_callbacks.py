# SPDX-License-Identifier: BSD-2-Clause
"""What each callback of the program raises comes out, and others still run."""

import asyncio
import struct
import unittest
import unittest.mock
from typing import Any

import rdmamsg
from helper import BOUND, HOST, Library, connected, feed
from rdmamsg import aio
from rdmamsg._rdmamsg import ffi, lib

MEMBER = bytes(ffi.sizeof("struct rdmamsg_group_member"))
PATH = struct.pack("5I", 1, 1, 0, 0, 0) + b"text"

# the object, its callback, the event's kind, status, value, object and data,
# and what the callback gets
TABLE: list[tuple[str, str, tuple[Any, ...], object]] = [
    ("endpoint", "on_path", (lib.PYR_PATH, 0, 0, 0, PATH),
     rdmamsg.PathEvent(1, 1, 0, 0, 0, "text")),
    ("endpoint", "on_stalled", (lib.PYR_STALLED, 0, 70), 70),
    ("endpoint", "on_resumed", (lib.PYR_RESUMED,), None),
    ("endpoint", "on_written", (lib.PYR_WRITTEN, 0, 7), 7),
    ("listener", "on_failed", (lib.PYR_LISTEN_FAILED, -19), rdmamsg.NoDevice),
    ("context", "on_event", (lib.PYR_DEVICE, 0, 1, 0, b"name\nsoft0"), "name"),
    ("group", "on_gap", (lib.PYR_GAP, 0, 5, 1 << 32 | 2),
     rdmamsg.Gap(5, 1, 2)),
    ("group", "on_backlog", (lib.PYR_BACKLOG, 1, 5, 1 << 32 | 2),
     rdmamsg.Backlog(5, 1, 2, True)),
    ("group", "on_laggard", (lib.PYR_LAGGARD, 0, 0, 0, MEMBER), dict),
    ("group", "on_lost", (lib.PYR_LOST, -5, 0, 0, b"text"), rdmamsg.Error),
]


class Calls:
    """A callback that raises, and one that follows."""

    def __init__(self, objects: dict[str, Any], name: str, attribute: str,
                 event: tuple[Any, ...]) -> None:
        self.got: list[Any] = []
        self.others: list[int] = []
        one, ep = objects[name], objects["endpoint"]
        ep.on_written = self.others.append
        setattr(one, attribute, self._fail)
        target = None if name == "context" else one
        if attribute == "on_written":
            self.others.append(9)
            feed(ep._core, (event[0], target, *event[1:]))
        else:
            feed(ep._core, (event[0], target, *event[1:]),
                 (lib.PYR_WRITTEN, ep, 0, 9))

    def _fail(self, *arguments: object) -> None:
        self.got.append(arguments[0] if arguments else None)
        raise ZeroDivisionError


def check(case: unittest.TestCase, calls: Calls, expected: object) -> None:
    """The callback was called once with this, and then the other one."""
    case.assertEqual(len(calls.got), 1)
    if isinstance(expected, type):
        case.assertIsInstance(calls.got[0], expected)
    else:
        case.assertEqual(calls.got[0], expected)
    case.assertEqual(calls.others, [9])


def group(kind: Any, core: rdmamsg.Context) -> Any:
    """A member of a group, on devices without multicast too."""
    with unittest.mock.patch.object(
            rdmamsg._group, "lib", Library(rdmamsg_group_join=lambda *_: 0)):
        return kind(core, "239.1.2.3", None, None)


class Blocking(unittest.TestCase):
    def test_each(self) -> None:
        for name, attribute, event, expected in TABLE:
            with self.subTest(attribute), connected() as ep:
                core = ep._core
                objects = {"endpoint": ep, "context": core,
                           "listener": core.listen(0, HOST),
                           "group": group(rdmamsg.Group, core)}
                calls = Calls(objects, name, attribute, event)
                with self.assertRaises(ZeroDivisionError):
                    ep.recv(BOUND)
                core.process()
                check(self, calls, expected)


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def one(self, name: str, attribute: str, event: tuple[Any, ...],
                  expected: object) -> None:
        async def handler(ep: aio.Endpoint) -> None:
            await ep.wait_closed()
        wrong: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: wrong.append(context["exception"]))
        async with rdmamsg.serve(handler, HOST) as server, \
                rdmamsg.connect(HOST, server.port) as ep:
            core = await aio.context()
            objects = {"endpoint": ep, "context": core, "listener": server,
                       "group": group(aio.Group, core)}
            calls = Calls(objects, name, attribute, event)
            core._on_readable()
            await asyncio.sleep(0.01)
            self.assertEqual([type(one) for one in wrong],
                             [ZeroDivisionError])
            check(self, calls, expected)

    async def test_each(self) -> None:
        for row in TABLE:
            with self.subTest(row[1]):
                await self.one(*row)


if __name__ == "__main__":
    unittest.main()
