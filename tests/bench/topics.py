#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Measures groups and their rivals in turns, prints medians and ratios.

Usage: topics.py [-n PAIRS] [-o FILE] BUILDDIR [ADDRESS DEVICE]

Without a device: on the soft HCA. Subscribers are pinned on the first core, the
publisher on the second one. A round asks everybody once for everything. FILE
gets an object a line: each figure, then each goal. The exit status is 0
whatever the figures are, and 1 if there are none.
"""

import argparse
import collections
import json
import os
import statistics
import subprocess
import sys

from pairs import (Failed, both, client, last_row, name_of, ratio,
                   report_goals, show, write_lines)

SERVER = ["taskset", "-c", "0"]
CLIENT = ["taskset", "-c", "1"]
MTU = 4096
HEADER = 32             # bytes of a frame
SIZES = (64, MTU - HEADER, 65536)
SUBSCRIBERS = (1, 4)
LAT = "publish to deliver, us"


class Bench:
    """Figures by (what is measured, who did it, which figure)."""

    def __init__(self, args):
        self.args = args
        self.build = os.path.abspath(args.build)
        self.soft = not args.device
        if self.soft:
            # all are on this host: nothing goes to the network as well
            os.environ.setdefault("RDMAMSG_SOFT_NET", "0")
        self.port = 20600
        self.figures = collections.defaultdict(list)
        self.failures = collections.Counter()

    def count(self, test, size):
        if test == "lat":
            return 50000 if self.soft else 4000
        count = 32000 if size == 64 else 8000 if size <= MTU else 800
        return count * 10 if self.soft else count

    # ---- who measures what; each returns a dictionary of figures

    def raw(self, tool, size, count, *more):
        self.port += 1
        command = [tool, "-c", "UD", "-F", "-p", str(self.port),
                   "-s", str(size), "-n", str(count), *more]
        address = self.args.address
        if self.soft:
            command = [f"{self.build}/lib/soft/tools/rdmamsg-soft"] + command
            address = "127.0.0.1"
        else:
            command += ["-d", self.args.device]
        return last_row(both(SERVER + command, CLIENT + command + [address],
                             self.port), size)

    def raw_lat(self, size, count):
        return {"usec_p50": self.raw("ib_send_lat", size, count)[4]}

    def raw_rate(self, size, count):
        # A datagram has no more than the MTU. For a lost one ib_send_bw waits
        # for ever, so all have their receive.
        size = size if size == 64 else MTU
        row = self.raw("ib_send_bw", size, min(count, 4000), "-r", "4096")
        return {"per_s": row[4] * 1e6, "mb_per_s": row[3] * 1.048576}

    def topic(self, who, test, size, count, subscribers, mode):
        command = [f"{self.build}/tests/bench/topic", who, test, str(size),
                   str(count), str(subscribers), mode,
                   self.args.address or "127.0.0.1"]
        if self.soft and who == "verbs":
            command = [f"{self.build}/lib/soft/tools/rdmamsg-soft"] + command
        elif self.soft:
            command = ["env", "RDMAMSG_DEVICE=soft"] + command
        return json.loads(client(command))

    def shape(self, test, size, subscribers):
        """Those who publish so."""
        count = self.count(test, size)
        # more than one that polls would be in each other's way
        mode = "poll" if subscribers == 1 else "event"
        raw = self.raw_lat if test == "lat" else self.raw_rate
        rivals = [("raw UD", lambda: raw(size, count))]
        for name, who in (("multicast", "verbs"), ("rdmamsg", "rdmamsg"),
                          ("UDP", "udp")):
            # raw verbs here have no fragments
            if who != "verbs" or (size <= MTU and subscribers == 1):
                rivals.append((name, lambda who=who: self.topic(
                    who, test, size, count, subscribers, mode)))
        return rivals

    # ---- rounds

    def plan(self):
        yield LAT, "usec_p50", self.shape("lat", 64, 1)
        for subscribers in SUBSCRIBERS:
            for size in SIZES:
                what, unit = (("mb_per_s", "MB/s") if size > MTU else
                              ("per_s", "messages/s"))
                yield (f"{name_of(size)} to {subscribers}, {unit}",
                       what, self.shape("rate", size, subscribers))

    def round(self, number):
        for what, _, rivals in self.plan():
            # whoever comes first comes last in the next round
            for who, measure in rivals if number % 2 else rivals[::-1]:
                try:
                    for figure, value in measure().items():
                        self.figures[what, who, figure].append(value)
                except (Failed, subprocess.TimeoutExpired, IndexError,
                        ValueError) as why:
                    self.failures[what, who] += 1
                    print(f"{what}, {who}: {why}", file=sys.stderr)
            print(f"round {number} of {self.args.pairs}: {what}",
                  file=sys.stderr, flush=True)

    def median(self, *key):
        values = self.figures.get(key)
        return statistics.median(values) if values else None


def goals(bench):
    for what, figure, _ in bench.plan():
        ours = bench.median(what, "rdmamsg", figure)
        raw = bench.median(what, "raw UD", figure)
        udp = bench.median(what, "UDP", figure)
        if what == LAT:
            yield f"{what}, to raw UD", ratio(ours, raw), "<=", 1.05
            yield f"{what}, to UDP sockets", ratio(ours, udp), "<=", 1.0
            continue
        if " to 1," in what:
            yield f"{what}, to raw UD", ratio(ours, raw), ">=", 0.85
        yield f"{what}, to UDP sockets", ratio(ours, udp), ">=", 1.0


def share(value, of):
    return f"{show(value, 1):>10} {show(ratio(of, value)):>6}"


def report(bench):
    lines = []
    print("""
'raw UD' is ib_send_lat or ib_send_bw -c UD: to one receiver, of one MTU at most.
'multicast' is raw verbs, 'UDP' is multicast sockets. Rates are those of the
slowest subscriber; 'lost' is what it has missed. Each ratio is of rdmamsg to the
one before it.
""")
    print(f"{'':>32} {'rdmamsg':>10} {'lost':>6}" + "".join(
        f" {who:>10} {'ratio':>6}" for who in ("raw UD", "multicast", "UDP"))
        + f" {'lost':>6}")
    for what, figure, _ in bench.plan():
        ours = bench.median(what, "rdmamsg", figure)
        line = (f"{what:>32} {show(ours, 1):>10} "
                f"{show(bench.median(what, 'rdmamsg', 'lost'), 0):>6}")
        for who in ("raw UD", "multicast", "UDP"):
            line += " " + share(bench.median(what, who, figure), ours)
        print(line + f" {show(bench.median(what, 'UDP', 'lost'), 0):>6}")
    for (what, who, figure), values in sorted(bench.figures.items()):
        lines.append({"what": what, "who": who, "figure": figure,
                      "median": statistics.median(values), "values": values})
    lines += report_goals(goals(bench))
    for (what, who), times in sorted(bench.failures.items()):
        print(f"{who} failed {times} times: {what}")
    write_lines(bench.args.output, lines)
    return 0 if bench.figures else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("-n", dest="pairs", type=int, default=7)
    parser.add_argument("-o", dest="output")
    parser.add_argument("build")
    parser.add_argument("address", nargs="?")
    parser.add_argument("device", nargs="?")
    bench = Bench(parser.parse_args())
    os.environ.pop("RDMAMSG_LOG", None)
    for number in range(1, bench.args.pairs + 1):
        bench.round(number)
    return report(bench)


if __name__ == "__main__":
    sys.exit(main())
