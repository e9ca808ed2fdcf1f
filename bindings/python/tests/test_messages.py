# SPDX-License-Identifier: BSD-2-Clause
"""Messages of all sizes, their memory, and what can be sent."""

import array
import gc
import mmap
import pickle
import threading
import tracemalloc
import unittest

import rdmamsg
from helper import (
    BOUND, HOST, SIZES, Cuda, DLPack, connected, echo, pattern, serving,
)


class Sizes(unittest.TestCase):
    def test_echo_of_every_size(self) -> None:
        with connected() as ep:
            for size in SIZES:
                with self.subTest(size=size):
                    ep.send(pattern(size), tag=size, timeout=BOUND)
                    message = ep.recv(timeout=BOUND)
                    self.assertEqual(len(message), size)
                    self.assertEqual(message.tag, size)
                    self.assertEqual(bytes(message), pattern(size))

    def test_order_of_small_and_large(self) -> None:
        sizes = [1, 100000, 10, 5000, 1 << 20, 0]

        def send(listener: rdmamsg.Listener) -> None:
            ep = listener.accept(timeout=BOUND)
            for size in sizes:
                ep.send(pattern(size), timeout=BOUND)
            ep.close()
        with connected(send) as ep:
            self.assertEqual([len(message) for message in ep], sizes)

    def test_too_large(self) -> None:
        with connected() as ep:
            largest = ep.attributes()["max_send"]
            with self.assertRaises(rdmamsg.TooLarge):
                ep.send(mmap.mmap(-1, largest + 1), timeout=BOUND)
            ep.send(b"still there")
            self.assertEqual(bytes(ep.recv(BOUND)), b"still there")


class Buffers(unittest.TestCase):
    def test_what_is_a_buffer(self) -> None:
        memory = mmap.mmap(-1, 100)
        with connected() as ep:
            for data in (bytearray(b"abc"), memoryview(b"abc"), memory,
                         array.array("q", [1, 2, 3])):
                ep.send(data)
                self.assertEqual(bytes(ep.recv(BOUND)), bytes(data))

    def test_what_is_not(self) -> None:
        with connected() as ep:
            with self.assertRaisesRegex(TypeError, "encode"):
                ep.send("text")
            with self.assertRaisesRegex(TypeError, "not a buffer"):
                ep.send(7)
            for gpu in (Cuda(), DLPack(2), DLPack(10)):
                with self.assertRaisesRegex(TypeError, "region_dmabuf"):
                    ep.send(gpu)
                with self.assertRaisesRegex(TypeError, "region_dmabuf"):
                    ep._core.region(gpu, rdmamsg.Access.WRITE)
            with self.assertRaisesRegex(TypeError, "from_dlpack"):
                ep.send(DLPack(1))
            with self.assertRaisesRegex(BufferError, "contiguous"):
                ep.send(memoryview(bytes(100))[::2])
            for tag in (-1, 1 << 32):
                with self.assertRaises(OverflowError):
                    ep.send(b"", tag=tag)

    def test_numpy(self) -> None:
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy")
        numbers = numpy.arange(100000, dtype="float64")
        with connected() as ep:
            ep.send(numbers, timeout=BOUND)
            back = numpy.frombuffer(ep.recv(BOUND).data, dtype="float64")
            self.assertTrue((back == numbers).all())
            with self.assertRaises(BufferError):
                ep.send(numbers[::2])

    def test_pickle_out_of_band(self) -> None:
        buffers: list[pickle.PickleBuffer] = []
        data = bytearray(pattern(200000))
        head = pickle.dumps(pickle.PickleBuffer(data), protocol=5,
                            buffer_callback=buffers.append)
        with connected() as ep:
            ep.send(head)
            ep.send(buffers[0], timeout=BOUND)
            head = bytes(ep.recv(BOUND))
            view = ep.recv(BOUND).data
            self.assertEqual(bytes(pickle.loads(head, buffers=[view])), data)

    def test_a_large_buffer_is_held_while_it_is_sent(self) -> None:
        data = bytearray(1 << 20)
        with connected() as ep:
            ep.send(data, timeout=BOUND)
            data.append(1)  # not exported any more
            self.assertEqual(len(ep.recv(BOUND)), 1 << 20)


class Memory(unittest.TestCase):
    def test_no_copy_of_a_megabyte(self) -> None:
        data = pattern(1 << 20)
        with connected() as ep:
            for _ in range(2):  # the first time has other allocations
                tracemalloc.start()
                ep.send(data, timeout=BOUND)
                message = ep.recv(BOUND)
                view = message.data
                self.assertEqual(view.nbytes, 1 << 20)
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
            self.assertLess(peak, 200000)
            self.assertTrue(view.readonly)

    def test_views_outlive_message_and_context(self) -> None:
        with connected() as ep:
            ep.send(pattern(100000), timeout=BOUND)
            message = ep.recv(BOUND)
            part = message.data[5:10]
            whole = message.data
            message.release()
            with self.assertRaises(ValueError):
                len(message)
        self.assertEqual(bytes(part), pattern(10)[5:])
        self.assertEqual(bytes(whole), pattern(100000))
        del message, part, whole
        gc.collect()

    def test_memory_returns_from_another_thread(self) -> None:
        def drop(views: list[memoryview]) -> None:
            views.clear()
        with connected() as ep:
            ctx = ep._core
            ep.send(pattern(100000), timeout=BOUND)
            views = [ep.recv(BOUND).data]
            self.assertEqual(ctx.statistics()["msgs_lent"], 1)
            thread = threading.Thread(target=drop, args=(views,))
            thread.start()
            thread.join()
            ctx._drive(lambda: not ctx.statistics()["msgs_lent"], BOUND, "it")

    def test_a_message_is_sent_twice(self) -> None:
        with connected() as ep:
            ep.send(pattern(100000), timeout=BOUND)
            message = ep.recv(BOUND)
            ep.send(message)
            ep.send(message)
            for _ in range(2):
                self.assertEqual(bytes(ep.recv(BOUND)), pattern(100000))
            self.assertEqual(bytes(message), pattern(100000))
            message.release()
            with self.assertRaises(ValueError):
                ep.send(message)

    def test_allocate(self) -> None:
        with connected() as ep:
            out = ep.allocate(100000)
            out.data[:] = pattern(100000)
            ep.send(out, tag=3)
            self.assertEqual(bytes(ep.recv(BOUND)), pattern(100000))
            ep.allocate(10)  # never sent

    def test_back_pressure(self) -> None:
        go = threading.Event()

        def late(listener: rdmamsg.Listener) -> None:
            ep = listener.accept(timeout=BOUND)
            ep.pause()
            go.wait(BOUND)
            ep.resume()
            for number in range(2000):
                self.assertEqual(ep.recv(BOUND).tag, number)
            ep.send(b"all")
            ep.close()
        with connected(late) as ep:
            sent = 0
            while ep.try_send(bytes(5000), sent):
                sent += 1
            self.assertLess(sent, 2000)
            with self.assertRaises(rdmamsg.TimedOut):
                ep.send(bytes(5000), sent, timeout=0.05)
            go.set()
            for number in range(sent, 2000):
                ep.send(bytes(5000), number, timeout=BOUND)
            self.assertEqual(bytes(ep.recv(BOUND)), b"all")


    def test_a_program_that_does_not_receive(self) -> None:
        def late(listener: rdmamsg.Listener) -> None:
            ep = listener.accept(timeout=BOUND)
            while not go.is_set():
                listener._core.wait(0.01)
            self.assertGreaterEqual(len(ep._inbox), 256)
            self.assertLess(len(ep._inbox), 512)
            self.assertEqual(ep.flow()["paused"], 1)
            for number in range(2000):
                self.assertEqual(ep.recv(BOUND).tag, number)
            self.assertFalse(ep._full)
            ep.send(b"all")
            ep.close()
        go = threading.Event()
        with connected(late) as ep:
            sent = 0
            with self.assertRaises(rdmamsg.TimedOut):
                while sent < 2000:
                    ep.send(b"x", sent, timeout=0.5)
                    sent += 1
            go.set()
            for number in range(sent, 2000):
                ep.send(b"x", number, timeout=BOUND)
            self.assertEqual(bytes(ep.recv(BOUND)), b"all")

    def test_pause_beside_a_full_inbox(self) -> None:
        def slow(listener: rdmamsg.Listener) -> None:
            ep = listener.accept(timeout=BOUND)

            def fill() -> None:
                ep._core._drive(lambda: ep._full, BOUND, "filling")
            fill()
            ep.pause()
            ep.resume()
            self.assertEqual(ep.flow()["paused"], 1)
            ep.pause()
            while ep._full:
                ep.recv(BOUND)
            self.assertEqual(ep.flow()["paused"], 1)
            ep.resume()
            self.assertEqual(ep.flow()["paused"], 0)
            fill()
            while ep.recv(BOUND).tag < 1499:
                pass
            self.assertEqual(ep.flow()["paused"], 0)
            ep.close()
        with connected(slow) as ep:
            for number in range(1500):
                ep.send(b"x", number, timeout=BOUND)
            with self.assertRaises(rdmamsg.Closed):
                ep.recv(BOUND)

    def test_ends_with_a_full_inbox(self) -> None:
        for peer_closes in (False, True):
            def full(listener: rdmamsg.Listener) -> None:
                ep = listener.accept(timeout=BOUND)
                ep._core._drive(lambda: ep._full, BOUND, "filling")
                filled.set()
                if peer_closes:
                    ep._wait(lambda: False, BOUND, "the end")
                else:
                    ep.close(timeout=BOUND)
                self.assertEqual([m.tag for m in ep], list(range(300)))
            filled = threading.Event()
            with self.subTest(peer_closes=peer_closes), \
                    connected(full) as ep:
                for number in range(300):
                    ep.send(b"x", number, timeout=BOUND)
                while not filled.is_set():
                    ep._core.wait(0.01)
                ep.close(timeout=BOUND)
                assert ep.reason is not None
                self.assertEqual(ep.reason.cause, rdmamsg.Cause.CLOSED)


class Statistics(unittest.TestCase):
    def test_they_are_there(self) -> None:
        with connected() as ep:
            ep.send(b"x")
            ep.recv(BOUND)
            self.assertEqual(ep.statistics()["msgs_sent"], 1)
            self.assertEqual(ep.attributes()["peer"][0], HOST)
            self.assertEqual(ep.flow()["paused"], 0)
            self.assertEqual(ep.device, "soft0")
            ctx = ep._core
            self.assertEqual(ctx.statistics()["endpoints"], 1)
            self.assertIn("rdmamsg_", ctx.statistics_text())
            self.assertIn("soft0", ctx.dump())
        with serving(echo) as port, rdmamsg.Context() as ctx:
            ctx.connect(HOST, port).close()


if __name__ == "__main__":
    unittest.main()
