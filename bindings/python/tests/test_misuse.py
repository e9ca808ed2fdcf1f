# SPDX-License-Identifier: BSD-2-Clause
"""Mistakes of a program end with an exception, never with a crash."""

import gc
import importlib
import os
import sys
import sysconfig
import threading
import types
import unittest
import unittest.mock
import warnings

import rdmamsg
from helper import BOUND, HOST, child, connected, echo, finish, serving
from rdmamsg import Access, _check

PEER = """
import asyncio, os, sys, threading
import rdmamsg
from helper import *
async def echo(ep):
    async for message in ep:
        await ep.send(message)
"""


class AfterClose(unittest.TestCase):
    def test_every_call(self) -> None:
        with serving(echo) as port:
            ctx = rdmamsg.Context()
            listener = ctx.listen(0, HOST)
            region = ctx.region(bytearray(8), Access.READ)
            ep = ctx.connect(HOST, port, timeout=BOUND)
            key = region.key(ep)
            out = ep.allocate(100)
            ctx.close()
        ctx.close()
        ep.abort()
        ep.close()
        region.destroy()
        out.data[:] = bytes(100)
        calls = [
            ctx.process, ctx.fileno, ctx.statistics, ctx.statistics_text,
            ctx.dump, ctx.shutdown, ctx.watch, lambda: ctx.wait(1),
            lambda: ctx.connect(HOST, port), lambda: ctx.listen(0),
            lambda: ctx.region(b""), lambda: ctx.join("239.1.2.3"),
            lambda: ctx.team([HOST], 0), ctx.__enter__,
            lambda: listener.port, listener.statistics, listener.drain,
            listener.request, listener.accept,
            lambda: ep.send(b"x"), lambda: ep.send(out), ep.recv,
            ep.attributes, ep.statistics, ep.flow, ep.path, ep.history,
            ep.pause, ep.resume, ep.migrate, ep.set_alternate, ep.flush,
            lambda: ep.allocate(1), lambda: ep.device,
            lambda: ep.read(key, region), lambda: ep.write(key, b"x"),
            lambda: ep.fetch_add(key, 0, 1), region.revoke,
            lambda: region.key(ep), lambda: region.register(ep),
        ]
        for number, call in enumerate(calls):
            with self.subTest(number), self.assertRaises(rdmamsg.Error):
                call()

    def test_messages_outlive_the_context(self) -> None:
        with connected() as ep:
            ep.send(bytes(1 << 20), timeout=BOUND)
            message = ep.recv(BOUND)
        self.assertEqual(len(message), 1 << 20)
        with self.assertRaises(rdmamsg.Error):
            ep.send(message)

    def test_a_context_that_is_dropped(self) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ctx = rdmamsg.Context()
            ctx.listen(0, HOST)
            del ctx
            gc.collect()
        self.assertTrue(any(one.category is ResourceWarning
                            for one in caught))


class OtherThreads(unittest.TestCase):
    def test_every_object_says_so(self) -> None:
        wrong: list[BaseException] = []
        with connected() as ep:
            ctx = ep._core
            region = ctx.region(bytearray(8), Access.LOCAL_WRITE)
            listener = ctx.listen(0, HOST)

            def use() -> None:
                for call in (ctx.process, ctx.close, lambda: ep.send(b"x"),
                             ep.recv, ep.close, lambda: ep.abort(),
                             region.destroy, listener.close,
                             lambda: listener.port,
                             lambda: ctx.connect(HOST, 1)):
                    try:
                        call()
                    except rdmamsg.WrongThread as err:
                        wrong.append(err)
            thread = threading.Thread(target=use)
            thread.start()
            thread.join()
        self.assertEqual(len(wrong), 10)


class Arguments(unittest.TestCase):
    def test_wrong_options(self) -> None:
        with rdmamsg.Context() as ctx:
            for mistake, error in (
                    (lambda: ctx.connect(HOST, 1.5), TypeError),
                    (lambda: ctx.connect(None, 1), rdmamsg.Error),
                    (lambda: ctx.connect("a\0b", 1), ValueError),
                    (lambda: ctx.connect(HOST, -1), rdmamsg.Error),
                    (lambda: ctx.connect(HOST, 1, options={}), TypeError),
                    (lambda: ctx.connect(
                        HOST, 1, options=rdmamsg.EndpointOptions(
                            timeout_ms=-1)), OverflowError),
                    (lambda: ctx.connect(
                        HOST, 1, options=rdmamsg.EndpointOptions(
                            timeout_ms="1")), TypeError),
                    (lambda: ctx.connect(
                        HOST, 1, options=rdmamsg.EndpointOptions(
                            hello_data=bytes(33))), rdmamsg.InvalidArgument),
                    (lambda: ctx.listen("no-such-service", HOST),
                     rdmamsg.Error),
                    (lambda: ctx.region(bytes(8), 1 << 30),
                     rdmamsg.InvalidArgument),
                    (lambda: rdmamsg.Context(7), TypeError)):
                with self.assertRaises(error):
                    mistake()

    def test_sizes(self) -> None:
        with connected() as ep:
            for size in (-1, 1 << 64):
                with self.assertRaises(OverflowError):
                    ep.allocate(size)
            with self.assertRaises(rdmamsg.Error):
                ep.allocate(1 << 40)

    def test_errors_have_a_text(self) -> None:
        with self.assertRaises(rdmamsg.Error) as caught:
            rdmamsg.Context(rdmamsg.ContextOptions(key_file="/none"))
        self.assertIn("/none", str(caught.exception))
        self.assertTrue(caught.exception.errno)


class Processes(unittest.TestCase):
    def run_child(self, program: str) -> str:
        status, out, err = finish(child(PEER + program))
        self.assertEqual((status, err), (0, ""))
        return out

    def test_fork(self) -> None:
        self.run_child("""
ctx = rdmamsg.Context()
listener = ctx.listen(0, HOST)
region = ctx.region(bytearray(8))
def mistakes():
    for call in (ctx.process, lambda: listener.port, region.destroy,
                 listener.close, lambda: ctx.connect(HOST, 1)):
        try:
            call()
        except rdmamsg.Forked:
            continue
        return 1
    ctx.close()
    return 0
pid = os.fork()
if not pid:
    os._exit(mistakes())
assert os.waitpid(pid, 0)[1] == 0
assert listener.port
ctx.close()
""")

    def test_lent_message_after_fork(self) -> None:
        self.run_child("""
with connected() as ep:
    ep.send(bytes(100000), timeout=BOUND)
    message = ep.recv(BOUND)
    data = message.data
    pid = os.fork()
    if not pid:
        del message, data
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert bytes(data) == bytes(100000)
""")

    def test_exit_with_everything_open(self) -> None:
        self.run_child("""
ctx = rdmamsg.Context()
held = []
def server():
    with rdmamsg.Context() as other:
        listener = other.listen(0, HOST)
        held.append(listener.port)
        ready.set()
        echo = listener.accept()
        try:
            for message in echo:
                echo.send(message)
        except rdmamsg.Disconnected:
            pass
ready = threading.Event()
threading.Thread(target=server, daemon=True).start()
ready.wait()
ep = ctx.connect(HOST, held[0])
ep.send(bytes(1 << 20))
message = ep.recv()
data = message.data
memory = bytearray(100)
region = ctx.region(memory, rdmamsg.Access.LOCAL_WRITE)
listener = ctx.listen(0, HOST)
group = IWARP or ctx.join("239.1.2.3")
assert ep.try_send(b"x")
""")

    def test_exit_in_asyncio(self) -> None:
        self.run_child("""
async def main():
    server = await rdmamsg.serve(echo, HOST)
    ep = await rdmamsg.connect(HOST, server.port)
    await ep.send(b"x")
    await ep.recv()
asyncio.run(main())
""")

    def test_exit_in_the_middle_of_a_send(self) -> None:
        self.run_child("""
async def main():
    async def slow(ep):
        ep.pause()
        await asyncio.sleep(60)
    server = await rdmamsg.serve(slow, HOST)
    ep = await rdmamsg.connect(HOST, server.port)
    asyncio.create_task(ep.send(bytearray(1 << 22)))
    await asyncio.sleep(0.01)
asyncio.run(main())
""")


class Interpreters(unittest.TestCase):
    def test_sub_interpreter(self) -> None:
        for name in ("_interpreters", "_xxsubinterpreters"):
            try:
                sub = importlib.import_module(name)
                break
            except ImportError:
                continue
        else:
            self.skipTest("no _interpreters or _xxsubinterpreters")
        one = sub.create()
        try:
            sub.run_string(one, f"import sys; sys.path[:] = {sys.path!r}")
            self.assertIn("sub-interpreters",
                          self.failure(sub, one, "import rdmamsg"))
        finally:
            sub.destroy(one)

    def failure(self, sub: types.ModuleType, one: int, program: str) -> str:
        """What the program has raised: since Python 3.13 it is returned."""
        try:
            return str(sub.run_string(one, program).formatted)
        except RuntimeError as err:
            return str(err)

    def test_free_threaded(self) -> None:
        ask = sysconfig.get_config_var

        def free(name: str) -> object:
            return 1 if name == "Py_GIL_DISABLED" else ask(name)
        _check.supported()
        with unittest.mock.patch.object(sysconfig, "get_config_var", free):
            with self.assertRaisesRegex(ImportError, "free-threaded"):
                _check.supported()

    def test_another_implementation(self) -> None:
        with unittest.mock.patch.object(
                sys, "implementation", types.SimpleNamespace(name="pypy")):
            with self.assertRaisesRegex(ImportError, "CPython"):
                _check.supported()


if __name__ == "__main__":
    unittest.main()
