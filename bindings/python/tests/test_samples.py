# SPDX-License-Identifier: BSD-2-Clause
"""The samples do what their first lines say."""

import pathlib
import subprocess
import sys
import unittest

import rdmamsg
from helper import BOUND, HOST, IWARP, finish

SAMPLES = pathlib.Path(__file__).resolve().parent.parent / "samples"


def start(name: str, *arguments: str) -> subprocess.Popen[str]:
    """A sample in a process of its own."""
    return subprocess.Popen(
        [sys.executable, str(SAMPLES / name), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Samples(unittest.TestCase):
    def test_echo(self) -> None:
        process = start("echo.py", "0")
        assert process.stdout is not None
        port = int(process.stdout.readline().split()[-1])
        with rdmamsg.Context() as ctx, ctx.connect(HOST, port) as ep:
            ep.send(b"hello", tag=3)
            self.assertEqual(bytes(ep.recv(BOUND)), b"hello")
        process.terminate()
        process.communicate()

    def test_rpc(self) -> None:
        status, out, err = finish(start("rpc.py", HOST))
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(out.splitlines(), [
            "rpc: 100 answers, the last is 198",
            "rpc: a call has missed its deadline",
            "rpc: the next answer is 3"])

    @unittest.skipIf(IWARP, "iWARP has no multicast")
    def test_topics(self) -> None:
        process = start("topics.py", "239.7.7.7")
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), "joined\n")
        self.assertEqual(finish(start("topics.py", "239.7.7.7", "a", "b"))[0],
                         0)
        lines = [process.stdout.readline() for _ in range(2)]
        self.assertEqual([line.split()[-1] for line in lines], ["a", "b"])
        process.terminate()
        process.communicate()

    def test_cache(self) -> None:
        self.assertEqual(finish(start("cache.py", HOST)),
                         (0, "cache: entry 7 is changed\n", ""))

    def test_allreduce(self) -> None:
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("no numpy")
        with rdmamsg.Context() as ctx:
            held = [ctx.listen(0, HOST) for _ in range(2)]
            where = [f"{HOST}:{listener.port}" for listener in held]
        members = [start("allreduce.py", str(rank), *where)
                   for rank in range(2)]
        for member in members:
            self.assertEqual(finish(member), (
                0, "allreduce: the sum of 2 members is 3\n", ""))


if __name__ == "__main__":
    unittest.main()
