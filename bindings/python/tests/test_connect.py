# SPDX-License-Identifier: BSD-2-Clause
"""Connections: made, refused, rejected, closed, aborted, killed."""

import errno
import os
import pickle
import signal
import unittest

import rdmamsg
from helper import BOUND, HOST, child, connected, echo, serving

Options = rdmamsg.EndpointOptions


class Connecting(unittest.TestCase):
    def test_refused(self) -> None:
        with rdmamsg.Context() as ctx:
            listener = ctx.listen(0, HOST)
            port = listener.port
            listener.close()
            with self.assertRaises(rdmamsg.Refused) as caught:
                ctx.connect(HOST, port, timeout=BOUND)
        self.assertIsInstance(caught.exception, ConnectionRefusedError)
        reason = caught.exception.reason
        assert reason is not None
        self.assertEqual(reason.cause, rdmamsg.Cause.REFUSED)
        self.assertTrue(reason.text)
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual(again.reason, reason)

    def test_rejected_with_data(self) -> None:
        def reject(listener: rdmamsg.Listener) -> None:
            request = listener.request(BOUND)
            self.assertEqual(request.data, b"hello")
            peer = request.peer
            assert peer is not None
            self.assertEqual(peer[0], HOST)
            request.reject(b"no room")
            with self.assertRaises(rdmamsg.ClosedError):
                request.reject()
        with serving(reject) as port, rdmamsg.Context() as ctx:
            with self.assertRaises(rdmamsg.Rejected) as caught:
                ctx.connect(HOST, port, timeout=BOUND,
                            options=Options(hello_data=b"hello"))
        reason = caught.exception.reason
        assert reason is not None
        self.assertEqual(reason.data, b"no room")

    def test_no_such_name(self) -> None:
        with rdmamsg.Context() as ctx:
            with self.assertRaises(rdmamsg.Error):
                ctx.connect("no-such-host.invalid", 1, timeout=BOUND)
            with self.assertRaises(rdmamsg.Error):
                ctx.connect(HOST, 1, timeout=BOUND,
                            options=Options(device="none0"))

    def test_timeout(self) -> None:
        with rdmamsg.Context() as ctx, ctx.listen(0, HOST) as listener:
            with self.assertRaises(rdmamsg.TimedOut):  # nobody accepts
                ctx.connect(HOST, listener.port, timeout=0.1)
            self.assertIsInstance(rdmamsg.TimedOut(1, ""), TimeoutError)

    def test_setup_data(self) -> None:
        def accept(listener: rdmamsg.Listener) -> None:
            ep = listener.accept(timeout=BOUND,
                                 options=Options(setup_data=b"server"))
            self.assertEqual(ep.peer_data, b"client")
            for _ in ep:
                pass
        with connected(accept, Options(setup_data=b"client")) as ep:
            self.assertEqual(ep.peer_data, b"server")

    def test_pre_shared_key(self) -> None:
        def options(key: bytes | None) -> rdmamsg.ContextOptions:
            return rdmamsg.ContextOptions(key=key)
        with self.assertRaises(rdmamsg.InvalidArgument):
            rdmamsg.Context(options(b"short"))

        def serve(listener: rdmamsg.Listener) -> None:
            for which in ("another key", "no key"):
                with self.assertRaisesRegex(rdmamsg.AuthFailed, which):
                    listener.accept(timeout=BOUND)
            echo(listener)
        with serving(serve, options(b"k" * 32)) as port:
            for wrong in (b"o" * 32, None):
                with rdmamsg.Context(options(wrong)) as ctx:
                    with self.assertRaises(rdmamsg.AuthFailed) as caught:
                        ctx.connect(HOST, port, timeout=BOUND)
                self.assertEqual(caught.exception.errno, errno.EACCES)
                reason = caught.exception.reason
                assert reason is not None
                self.assertEqual(reason.cause, rdmamsg.Cause.AUTH)
            with rdmamsg.Context(options(b"k" * 32)) as ctx, \
                    ctx.connect(HOST, port, timeout=BOUND) as ep:
                ep.send(b"secret")
                self.assertEqual(bytes(ep.recv(BOUND)), b"secret")


class Ends(unittest.TestCase):
    def test_the_peer_closes_with_a_code(self) -> None:
        def close(listener: rdmamsg.Listener) -> None:
            ep = listener.accept(timeout=BOUND)
            ep.send(b"last")
            ep.close(7, b"bye", timeout=BOUND)
        with connected(close) as ep:
            self.assertEqual([bytes(m) for m in ep], [b"last"])
            with self.assertRaises(rdmamsg.Closed) as caught:
                ep.recv()
            with self.assertRaises(rdmamsg.Closed):
                ep.send(b"x")
        reason = caught.exception.reason
        assert reason is not None
        self.assertEqual((reason.code, reason.data), (7, b"bye"))
        self.assertEqual(reason.who, rdmamsg.Who.PEER)

    def test_the_peer_aborts(self) -> None:
        def abort(listener: rdmamsg.Listener) -> None:
            listener.accept(timeout=BOUND).abort(9, b"because")
            listener._core.wait(0.1)
        with connected(abort) as ep:
            with self.assertRaises(rdmamsg.Disconnected) as caught:
                ep.recv(BOUND)
        self.assertNotIsInstance(caught.exception, rdmamsg.Closed)
        reason = caught.exception.reason
        assert reason is not None
        self.assertEqual(reason.cause, rdmamsg.Cause.ABORTED)

    def test_the_peer_is_killed(self) -> None:
        server = child(
            "from helper import *\n"
            "def serve(listener):\n"
            "    print(listener.port, flush=True)\n"
            "    ep = listener.accept(timeout=BOUND)\n"
            "    ep.send(b'here')\n"
            "    ep.recv()\n"
            "import rdmamsg\n"
            "with rdmamsg.Context() as ctx: serve(ctx.listen(0, HOST))\n")
        assert server.stdout is not None
        port = int(server.stdout.readline())
        with rdmamsg.Context() as ctx:
            ep = ctx.connect(HOST, port, timeout=BOUND)
            self.assertEqual(bytes(ep.recv(BOUND)), b"here")
            server.kill()
            with self.assertRaises(rdmamsg.Disconnected) as caught:
                ep.recv(BOUND)
            self.assertTrue(ep.closed)
            self.assertTrue(caught.exception.strerror)
        server.communicate()
        self.assertEqual(server.returncode, -signal.SIGKILL)

    def test_shutdown(self) -> None:
        with serving(echo) as port, rdmamsg.Context() as ctx:
            ep = ctx.connect(HOST, port, timeout=BOUND)
            ep.send(b"x")
            ep.recv(BOUND)
            self.assertEqual(ctx.shutdown(BOUND), 0)
            self.assertTrue(ep.closed)
            with self.assertRaises(rdmamsg.Error):
                ctx.connect(HOST, port, timeout=BOUND)


class CtrlC(unittest.TestCase):
    def test_it_ends_a_wait(self) -> None:
        process = child(
            "import rdmamsg\n"
            "with rdmamsg.Context() as ctx:\n"
            "    print('waits', flush=True)\n"
            "    ctx.listen(0, '127.0.0.1').accept()\n")
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=BOUND)
        self.assertIn("KeyboardInterrupt", err)
        self.assertEqual(process.returncode, -signal.SIGINT)


if __name__ == "__main__":
    unittest.main()
