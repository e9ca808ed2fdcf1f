#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Measures the soft HCA and its rivals in turns, prints medians and ratios.

Usage: soft.py [-n PAIRS] [-o FILE] BUILDDIR

Servers are pinned on the first core, clients on the second. A round asks
everybody once for everything. FILE gets an object a line: each figure, then
each goal. The exit status is 0 whatever the figures are, and 1 if there are
none.
"""

import argparse
import collections
import json
import os
import statistics
import subprocess
import sys

from pairs import (Failed, both, client, last_row, listening, ratio,
                   report_goals, show, write_lines)

SERVER = ["taskset", "-c", "0"]
CLIENT = ["taskset", "-c", "1"]
SMALL, LARGE = 64, 1 << 20
CONNS = (1, 100, 1000)
# beside sockets: bytes, messages
SIZES = ((64, 20000), (8192, 10000), (65536, 4000), (1 << 20, 1000))


def with_env(**more):
    return ["env"] + [f"{name}={value}" for name, value in more.items()]


def no_mpi():
    """What keeps an ucx_perftest that is built with MPI from wanting mpirun."""
    usage = subprocess.run(["env", "ucx_perftest", "-h"], capture_output=True,
                           text=True, check=False).stdout
    return ["-P", "0"] if " -P <0|1>" in usage else []


class Bench:
    """Figures by (what is measured, who did it)."""

    def __init__(self, args):
        self.args = args
        self.build = os.path.abspath(args.build)
        self.port = 19600
        self.figures = collections.defaultdict(list)
        self.failures = collections.Counter()
        self.perf_port = None
        self.srq_port = None

    # ---- who measures what; each returns one figure

    def bounce(self):
        return float(client([f"{self.build}/tests/bench/bounce"]))

    def perftest(self, tool, size, count, *more):
        self.port += 1
        command = [f"{self.build}/lib/soft/tools/rdmamsg-soft", tool, "-F", "-p",
                   str(self.port), "-s", str(size), "-n", str(count), *more]
        return last_row(both(SERVER + command, CLIENT + command + ["127.0.0.1"],
                             self.port), size)

    def raw_lat(self):
        return self.perftest("ib_send_lat", SMALL, 100000)[4] * 1000

    def raw_rate(self):
        return self.perftest("ib_send_bw", SMALL, 400000, "-l", "16")[4] * 1e6

    def raw_bw(self):
        return self.perftest("ib_read_bw", LARGE, 4000)[3] * 1.048576

    def perf(self, test, size, count, mode="--poll"):
        done = client(CLIENT + with_env(RDMAMSG_DEVICE="soft") +
                      [f"{self.build}/samples/rdmamsg-perf", test, "127.0.0.1",
                       "--json", "-p", self.perf_port, "-s", str(size),
                       "-n", str(count), mode])
        return json.loads(done.splitlines()[-1])

    def our_lat(self):
        return self.perf("lat", SMALL, 100000)["usec_p50"] * 1000

    def our_rate(self):
        return self.perf("rate", SMALL, 1000000)["msg_per_s"]

    def our_bw(self):
        return self.perf("bw", LARGE, 4000)["mb_per_s"]

    def conns(self, count, shared):
        done = client(CLIENT + with_env(RDMAMSG_DEVICE="soft") +
                      [f"{self.build}/samples/rdmamsg-perf", "conns",
                       "127.0.0.1", "--json", "-s", str(SMALL),
                       "-n", str(count)] +
                      (["--srq", "-p", self.srq_port] if shared else
                       ["-p", self.perf_port]))
        return json.loads(done.splitlines()[-1])["msg_per_s"]

    def over(self, shared):
        return tuple((f"{count} connections" + ", shared" * shared,
                      lambda count=count: self.conns(count, shared))
                     for count in CONNS)

    def ucx(self, test, size, count, transports):
        self.port += 1
        command = with_env(UCX_TLS=transports) + [
            "ucx_perftest", "-t", test, "-s", str(size), "-n", str(count),
            "-p", str(self.port), "-f", "-v"] + no_mpi()
        text = both(SERVER + command, CLIENT + command + ["127.0.0.1"],
                    self.port)
        # iterations, latency (typical, average, overall), MB/s x2, msg/s x2
        row = [line.split(",") for line in text.splitlines()
               if line[:1].isdigit() and "," in line]
        if not row:
            raise Failed(f"ucx_perftest: {text[-500:]}")
        return [float(x) for x in row[-1]]

    def ucx_lat(self):
        return self.ucx("tag_lat", SMALL, 200000, "posix,self")[1] * 1000

    def ucx_rate(self):
        return self.ucx("tag_bw", SMALL, 1000000, "posix,self")[7]

    def ucx_bw(self):
        return self.ucx("tag_bw", LARGE, 4000, "posix,self")[5] * 1.048576

    def ucx_cma_bw(self):
        return self.ucx("tag_bw", LARGE, 4000, "posix,cma,self")[5] * 1.048576

    def libfabric_lat(self):
        self.port += 1
        command = ["fi_pingpong", "-p", "shm", "-e", "rdm", "-I", "100000",
                   "-S", str(SMALL)]
        text = both(SERVER + command + ["-B", str(self.port)],
                    CLIENT + command + ["-P", str(self.port), "127.0.0.1"],
                    self.port)
        for line in reversed(text.splitlines()):
            field = line.split()
            if len(field) == 8 and field[1][0].isdigit():
                return float(field[6]) * 1000
        raise Failed(f"fi_pingpong: {text[-500:]}")

    def sockets(self, kind, size, count):
        # pins its two processes itself
        return float(client([f"{self.build}/tests/bench/sockets", kind,
                             str(size), str(count)]))

    def beside_sockets(self, size, count):
        """Events and polling of ours, beside streams with epoll."""
        def ours(mode):
            return self.perf("lat", size, count, mode)["usec_p50"] * 1000
        return (f"{size} B beside sockets, ns", (
            ("rdmamsg, events", lambda: ours("--event")),
            ("rdmamsg, polling", lambda: ours("--poll")),
            ("AF_UNIX, epoll", lambda: self.sockets("unix", size, count)),
            ("TCP, epoll", lambda: self.sockets("tcp", size, count))))

    # ---- rounds

    def plan(self):
        return (
            ("64 B one way, ns", (
                ("cache line", self.bounce), ("raw verbs", self.raw_lat),
                ("rdmamsg", self.our_lat), ("UCX posix", self.ucx_lat),
                ("libfabric shm", self.libfabric_lat))),
            ("64 B messages/s", (
                ("raw verbs", self.raw_rate), ("rdmamsg", self.our_rate),
                ("UCX posix", self.ucx_rate))),
            ("1 MB, MB/s", (
                ("raw verbs", self.raw_bw), ("rdmamsg", self.our_bw),
                ("UCX posix", self.ucx_bw), ("UCX cma", self.ucx_cma_bw))),
            (f"{SMALL} B there and back/s", self.over(False) + self.over(True)),
            *(self.beside_sockets(size, count) for size, count in SIZES),
        )

    def round(self, number):
        for what, rivals in self.plan():
            # whoever comes first comes last in the next round
            for who, measure in rivals if number % 2 else rivals[::-1]:
                try:
                    self.figures[what, who].append(measure())
                except (Failed, subprocess.TimeoutExpired, IndexError,
                        ValueError) as why:
                    self.failures[what, who] += 1
                    print(f"{what}, {who}: {why}", file=sys.stderr)
            print(f"round {number} of {self.args.pairs}: {what}",
                  file=sys.stderr, flush=True)

    def run(self):
        command = SERVER + with_env(RDMAMSG_DEVICE="soft") + [
            f"{self.build}/samples/rdmamsg-perf", "server", "-a", "127.0.0.1",
            "-p", "0"]
        with listening(command) as self.perf_port, \
                listening(command + ["--srq"]) as self.srq_port:
            for number in range(1, self.args.pairs + 1):
                self.round(number)

    def median(self, what, who):
        values = self.figures.get((what, who))
        return statistics.median(values) if values else None


def goals(bench):
    def of(what, who, by):
        return ratio(bench.median(what, who), bench.median(what, by))
    lat, rate, bw, conns, *beside = (what for what, _ in bench.plan())
    yield ("raw verbs' latency to libfabric shm",
           of(lat, "raw verbs", "libfabric shm"), "<=", 1.0)
    yield ("rdmamsg's latency to raw verbs", of(lat, "rdmamsg", "raw verbs"),
           "<=", 1.15)
    yield ("64 B messages/s to UCX posix", of(rate, "rdmamsg", "UCX posix"),
           ">=", 1 / 3)
    yield ("1 MB throughput to UCX posix", of(bw, "rdmamsg", "UCX posix"),
           ">=", 1.0)
    for shared in "", ", shared":
        yield (f"64 B over 1000 connections to over one{shared}",
               of(conns, f"1000 connections{shared}",
                  f"1 connections{shared}"), ">=", 0.8)
    for what in beside:
        for mode in "events", "polling":
            for rival in "AF_UNIX", "TCP":
                yield (f"{what.split(' beside')[0]}, {mode}, to {rival}",
                       of(what, f"rdmamsg, {mode}", f"{rival}, epoll"), "<=",
                       0.9)


def report(bench):
    lines = []
    for what, rivals in bench.plan():
        base = bench.median(what, rivals[0][0])
        print(f"\n{what:>24} {'median':>14} {'ratio':>8}")
        for who, _ in rivals:
            value = bench.median(what, who)
            print(f"{who:>24} {show(value, 1):>14} "
                  f"{show(ratio(value, base)):>8}")
            lines.append({"what": what, "who": who, "median": value,
                          "values": bench.figures.get((what, who))})
    lines += report_goals(goals(bench))
    for (what, who), times in sorted(bench.failures.items()):
        print(f"{who} failed {times} times: {what}")
    write_lines(bench.args.output, lines)
    return 0 if bench.figures else 1


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("-n", dest="pairs", type=int, default=7)
    parser.add_argument("-o", dest="output")
    parser.add_argument("build")
    bench = Bench(parser.parse_args())
    bench.run()
    return report(bench)


if __name__ == "__main__":
    sys.exit(main())
