# SPDX-License-Identifier: BSD-2-Clause
"""What the tests share: a server in a thread, a child, a bound for waiting."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

from typing import Any

import rdmamsg
from rdmamsg._rdmamsg import ffi, lib

HOST = "127.0.0.1"
# iWARP has no multicast, no atomic operations, and no partitions
IWARP = os.environ.get("RDMAMSG_SOFT_LINK") == "iwarp"
BOUND = 60.0  # seconds that no wait takes, on a busy machine either

# around every threshold: copied, lent, eager, large, in pieces, in place
SIZES = sorted({size + more for size in (
    0, 1, 240, 512, 4096, 8176, 8192, 16384, 32768, 65536, 1 << 20)
    for more in (-1, 0, 1) if size + more >= 0} | {5 << 20})


def pattern(size: int) -> bytes:
    """Bytes that differ from their neighbours."""
    return (bytes(range(251)) * (size // 251 + 1))[:size]


class Cuda:
    """An array of a GPU."""

    __cuda_array_interface__: dict[str, object] = {}


class DLPack:
    """An array with DLPack, and without a buffer."""

    def __init__(self, device: int) -> None:
        self._device = device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device, 0

    def __dlpack__(self, **_: object) -> object:
        raise NotImplementedError


class Library:
    """The module's library with other functions."""

    def __init__(self, **others: Any) -> None:
        self.__dict__.update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(lib, name)


class Server(threading.Thread):
    """Runs serve(listener) with a context of its own."""

    def __init__(self, serve: Callable[[rdmamsg.Listener], object],
                 context: rdmamsg.ContextOptions | None) -> None:
        super().__init__(daemon=True)
        self._serve = serve
        self._context = context
        self._ready = threading.Event()
        self.port = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with rdmamsg.Context(self._context) as ctx, \
                    ctx.listen(0, HOST) as listener:
                self.port = listener.port
                self._ready.set()
                self._serve(listener)
        except BaseException as err:
            self.error = err
        finally:
            self._ready.set()


@contextlib.contextmanager
def serving(serve: Callable[[rdmamsg.Listener], object],
            context: rdmamsg.ContextOptions | None = None) -> Iterator[int]:
    """The port of a server, which must end without an error."""
    server = Server(serve, context)
    server.start()
    server._ready.wait(BOUND)
    yield server.port
    server.join(BOUND)
    if server.error is not None:
        raise server.error
    assert not server.is_alive(), "the server has not ended"


def echo(listener: rdmamsg.Listener) -> None:
    """Sends the messages of one peer back, until it ends."""
    ep = listener.accept(timeout=BOUND)
    with contextlib.suppress(rdmamsg.Disconnected):
        for message in ep:
            ep.send(message, tag=message.tag)


@contextlib.contextmanager
def connected(serve: Callable[[rdmamsg.Listener], object] = echo,
              options: rdmamsg.EndpointOptions | None = None
              ) -> Iterator[rdmamsg.Endpoint]:
    """An endpoint to a server."""
    with serving(serve) as port, rdmamsg.Context() as ctx:
        with ctx.connect(HOST, port, timeout=BOUND, options=options) as ep:
            yield ep


def feed(core: rdmamsg.Context, *events: tuple[Any, ...]) -> None:
    """Lets the core find events: (kind, target, status, value, obj, data)."""
    batch, arena = core._batch, b""
    assert batch.next == batch.count
    array = ffi.new("struct pyr_event[]", len(events))
    for at, event in zip(array, events):
        kind, target, status, value, obj, data = event + ((None, 0, 0, 0, b"")[
            len(event) - 1:])
        at.kind, at.status, at.value = kind, status, value
        at.id = target._id if target else 0
        at.object, at.len = len(arena) if data else obj, len(data)
        arena += data
    memory = ffi.new("char[]", arena or b"-")
    core._fed = array, memory  # type: ignore[attr-defined]
    batch.events, batch.count, batch.next = array, len(events), 0
    batch.arena, batch.bytes = memory, len(arena)


def child(program: str, *arguments: str) -> subprocess.Popen[str]:
    """A Python program, which has the modules of the tests.

    Since 3.12 Python warns of fork() where there are threads.
    """
    return subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "ignore:This process",
         "-c", program, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True)


def finish(process: subprocess.Popen[str], timeout: float = BOUND
           ) -> tuple[int, str, str]:
    """Status, output and errors of a child."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return process.returncode, out, err


def descriptors() -> int:
    """How many this process has."""
    return len(os.listdir("/proc/self/fd"))
