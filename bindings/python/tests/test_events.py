# SPDX-License-Identifier: BSD-2-Clause
"""Events reach the program once, also when Ctrl-C comes between them."""

import dis
import gc
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import types
import unittest
import unittest.mock
import warnings
from typing import Any

import rdmamsg
from helper import (
    BOUND, HOST, Library, connected, echo, feed, pattern, serving,
)
from rdmamsg._rdmamsg import ffi, lib


class Interrupt:
    """Raises KeyboardInterrupt at the Nth moment in which CPython may do so.

    Those are the beginning of a function, the end of a call and a turn of a
    loop. Other threads and destructors are left alone.
    """

    def __init__(self, moment: int) -> None:
        self._left = moment
        self._last: dict[types.FrameType, str] = {}

    def __enter__(self) -> None:
        sys.settrace(self._trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: types.FrameType, event: str, _: object) -> Any:
        if "/rdmamsg/" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            last = self._last.get(frame, "")
            self._last[frame] = dis.opname[
                frame.f_code.co_code[frame.f_lasti]]
            if last in ("RESUME", "JUMP_BACKWARD") or last[:4] == "CALL":
                self._left -= 1
                if self._left < 0:
                    raise KeyboardInterrupt
        return self._trace


class Interrupted(unittest.TestCase):
    def lend(self, ep: rdmamsg.Endpoint) -> int:
        """A message as the library lends it."""
        out = ffi.new("struct rdmamsg_msg **")
        self.assertEqual(lib.rdmamsg_msg_alloc(ep._handle(), 5000, out), 0)
        self.assertEqual(lib.rdmamsg_msg_ref(out[0]), 0)
        lib.rdmamsg_msg_free(out[0])
        return int(ffi.cast("uintptr_t", out[0]))

    def once(self, ep: rdmamsg.Endpoint, moment: int) -> bool:
        """Interrupts the moment. Returns false if there is no such one."""
        core, called, done = ep._core, [], []
        ep.on_written = called.append
        core.on_event = lambda *_: called.append("event")
        operation = core._begin(None)
        operation.on_done = done.append
        lent, freed = [self.lend(ep), self.lend(ep)], []

        def free(message: Any) -> None:
            freed.append(int(ffi.cast("uintptr_t", message)))
            lib.pyr_msg_free(message)
        feed(core, (lib.PYR_MESSAGE, ep, 0, 1, 0, b"copied"),
             (lib.PYR_LENT, ep, 0, 2, lent[0]),
             (lib.PYR_COMPLETE, ep, 0, operation.number),
             (lib.PYR_WRITTEN, ep, 0, 3),
             (lib.PYR_LENT, None, 0, 2, lent[1]),
             (lib.PYR_DEVICE, None, 0, 1, 0, b"name\ndevice"),
             (lib.PYR_MESSAGE, ep, 0, 4))
        interrupted = False
        with unittest.mock.patch.object(rdmamsg._message, "lib",
                                        Library(pyr_msg_free=free)):
            try:
                with Interrupt(moment):
                    core._take()
            except KeyboardInterrupt:
                interrupted = True
            core._take()
            core._run_calls()
        with self.subTest(moment):
            self.assertEqual([m.tag for m in ep._inbox], [1, 2, 4])
            self.assertEqual([len(m) for m in ep._inbox], [6, 5000, 0])
            self.assertEqual(called, [3, "event"])
            self.assertEqual((operation.status, set(done)), (0, {0}))
        ep._inbox.clear()
        gc.collect()
        self.assertEqual(sorted(freed), sorted(lent))
        self.assertFalse(core._operations)
        self.assertFalse(core._lent)
        return interrupted

    def test_every_moment(self) -> None:
        with connected() as ep:
            for moment in itertools.count():
                if not self.once(ep, moment):
                    break
        self.assertGreater(moment, 30)

    def test_a_wait_takes_what_is_left(self) -> None:
        with connected() as ep:
            feed(ep._core, (lib.PYR_MESSAGE, ep, 0, 1))
            with unittest.mock.patch.object(rdmamsg._core, "lib",
                                            Library(rdmamsg_wait=None)):
                self.assertEqual(ep.recv(BOUND).tag, 1)

    def test_timers(self) -> None:
        """All messages arrive, in order, beside signals at any moment."""
        count = int(os.environ.get("INTERRUPTS", "60"))
        sizes = (10, 5000)

        def send(listener: rdmamsg.Listener) -> None:
            ep = listener.accept(timeout=BOUND)
            tag = 0
            while not end.is_set():
                ep.send(pattern(sizes[tag % 2]), tag=tag, timeout=BOUND)
                tag += 1
            ep.close()
        end = threading.Event()
        old = signal.signal(signal.SIGALRM, signal.default_int_handler)
        tags: list[int] = []
        interrupts = 0
        try:
            with connected(send) as ep:
                while True:
                    try:
                        if interrupts < count:
                            signal.setitimer(signal.ITIMER_REAL,
                                             random.uniform(1e-5, 2e-3))
                        while True:
                            message = ep.recv()
                            tags += [message.tag]
                    except KeyboardInterrupt:
                        interrupts += 1
                    except rdmamsg.Closed:
                        break
                    if interrupts == count:
                        end.set()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
        self.assertGreaterEqual(interrupts, count)
        self.assertEqual(tags, list(range(len(tags))))


class Requests(unittest.TestCase):
    def test_a_dropped_request_is_rejected(self) -> None:
        def drop(listener: rdmamsg.Listener) -> None:
            listener.request(BOUND)
            self.assertFalse(listener._core._dropped)
            listener._core.wait(0.01)
        with serving(drop) as port, rdmamsg.Context() as ctx:
            with self.assertRaises(rdmamsg.Rejected):
                ctx.connect(HOST, port, timeout=BOUND)

    def test_dropped_in_another_thread(self) -> None:
        def drop(listener: rdmamsg.Listener) -> None:
            held = [listener.request(BOUND)]
            thread = threading.Thread(target=held.clear)
            thread.start()
            thread.join()
            self.assertTrue(listener._core._dropped)
            listener._core.wait(0.01)
            self.assertFalse(listener._core._dropped)
        with serving(drop) as port, rdmamsg.Context() as ctx:
            with self.assertRaises(rdmamsg.Rejected):
                ctx.connect(HOST, port, timeout=BOUND)

    def test_dropped_after_the_context(self) -> None:
        held: list[rdmamsg.Request] = []
        with serving(lambda listener: held.append(listener.request(BOUND))
                     ) as port, rdmamsg.Context() as ctx:
            with self.assertRaises(rdmamsg.Disconnected):
                ctx.connect(HOST, port, timeout=BOUND)
        held.clear()
        gc.collect()

    def test_a_listener_that_is_closed_meanwhile(self) -> None:
        def close(listener: rdmamsg.Listener) -> None:
            request = listener.request(BOUND)
            listener.close()
            request._taken = False
            feed(listener._core, (lib.PYR_REQUEST, listener, 0, 0,
                                  int(ffi.cast("uintptr_t", request._req))))
            listener._core.wait(0.01)
        with serving(close) as port, rdmamsg.Context() as ctx:
            with self.assertRaises(rdmamsg.Rejected):
                ctx.connect(HOST, port, timeout=BOUND)

    def test_reject_with_a_str(self) -> None:
        def reject(listener: rdmamsg.Listener) -> None:
            request = listener.request(BOUND)
            with self.assertRaises(TypeError):
                request.reject("no")  # type: ignore[arg-type]
            self.assertFalse(request.answered)
            request.reject(b"no")
        with serving(reject) as port, rdmamsg.Context() as ctx:
            with self.assertRaises(rdmamsg.Rejected) as caught:
                ctx.connect(HOST, port, timeout=BOUND)
        assert caught.exception.reason is not None
        self.assertEqual(caught.exception.reason.data, b"no")


class Events(unittest.TestCase):
    def test_a_failed_handshake_loses_nothing(self) -> None:
        with connected() as ep, ep._core.listen(0, HOST) as listener, \
                warnings.catch_warnings():
            warnings.simplefilter("error")
            feed(ep._core, (lib.PYR_MESSAGE, ep, 0, 1),
                 (lib.PYR_ACCEPT_FAILED, listener, -5, 0, 0, b"because"),
                 (lib.PYR_MESSAGE, ep, 0, 2))
            with self.assertRaisesRegex(RuntimeWarning, "because"):
                ep._core.process()
            self.assertEqual([ep.recv(0).tag, ep.recv(0).tag], [1, 2])

    @unittest.skipUnless(shutil.which("rdmamsg-soft-ctl"),
                         "no rdmamsg-soft-ctl in PATH")
    def test_events_of_a_device(self) -> None:
        events: list[tuple[str, str, int]] = []

        def cause(name: str, element: int, *event: object) -> None:
            subprocess.run(["rdmamsg-soft-ctl", "--pid", str(os.getpid()),
                            "event", name, str(element)], check=True)
            ep._core._drive(lambda: event in events, BOUND, "the event")
        with connected(echo) as ep:
            ep._core.on_event = lambda *event: events.append(event)
            cause("SQ_DRAINED", ep.attributes()["qp_num"],
                  "send queue drained", "soft0", 0)  # of the endpoint
            cause("CLIENT_REREGISTER", 1, "client reregistration", "soft0", 1)


if __name__ == "__main__":
    unittest.main()
