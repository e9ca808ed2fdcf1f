#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Measures rdmamsg and its rivals at each size, in turns, in one table.

Usage: goals.py [-n ROUNDS] [-o FILE] [SIZE...] BUILDDIR

Runs `rdmamsg-perf compare` for each SIZE (bytes; 64 to 16 MB): the best of
UCX beside polling, TCP with epoll beside sleeping, both beside the rates. The
time of a cache line between the two processors is printed for each size, before
and after: if they differ, the host was busy. FILE gets an object a line: each
figure, then each goal. The exit status is 0 whatever the figures are, and 1 if
there are none.
"""

import argparse
import json
import subprocess
import sys

from pairs import ratio, report_goals, show, write_lines

SIZES = (64, 1 << 10, 8 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10,
         1 << 20, 4 << 20, 16 << 20)
RIVALS = "rdmamsg,TCP,UCX"
POLLING, SLEEPING = "rdmamsg, polling", "rdmamsg, events"
TCP, UCX = "TCP, epoll", "UCX"


def name_of(size):
    for unit, shift in (("M", 20), ("K", 10)):
        if size >> shift and not size % (1 << shift):
            return f"{size >> shift}{unit}"
    return str(size)


def measure(build, size, rounds):
    """The objects of one size, by rival; a tool's beside its driver's."""
    done = subprocess.run(
        [f"{build}/samples/rdmamsg-perf", "compare", "--json", "-n", str(rounds),
         "-s", f"{size},{size}", f"--only={RIVALS}"],
        capture_output=True, text=True, check=False)
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    if not objects:
        print(done.stderr, file=sys.stderr, end="")
    return {(o["rival"], o["tool"]): o for o in objects}


def best(of, rival, figure):
    """That of the rival's own tool counts, if it is better."""
    values = [o[figure] for (name, _), o in of.items()
              if name.split(", its tool")[0] == rival and o[figure] > 0]
    if not values:
        return None
    return min(values) if figure == "usec" else max(values)


class Row:
    """Figures of one size, and their ratios."""

    def __init__(self, size, of):
        self.size = size
        self.lines = sorted(of.values(), key=lambda o: o["rival"])
        self.polling, self.ucx = (best(of, who, "usec")
                                  for who in (POLLING, UCX))
        self.sleeping, self.tcp = (best(of, who, "usec")
                                   for who in (SLEEPING, TCP))
        self.rate, self.ucx_rate, self.tcp_rate = (
            best(of, who, "msg_per_s") for who in (POLLING, UCX, TCP))
        first = self.lines[0] if self.lines else {}
        self.cache = [first.get(f"line_{when}_ns") for when in
                      ("before", "after")]

    def show(self):
        def million(rate):
            return None if rate is None else rate / 1e6

        print(f"{name_of(self.size):>5}"
              f" {show(self.polling, 3):>9} {show(self.ucx, 3):>8}"
              f" {show(ratio(self.polling, self.ucx)):>6}"
              f" {show(self.sleeping, 1):>9} {show(self.tcp, 1):>8}"
              f" {show(ratio(self.sleeping, self.tcp)):>6}"
              f" {show(million(self.rate), 4):>9}"
              f" {show(million(self.ucx_rate), 4):>9}"
              f" {show(ratio(self.rate, self.ucx_rate)):>6}"
              f" {show(million(self.tcp_rate), 4):>9}"
              f" {show(ratio(self.rate, self.tcp_rate)):>6}"
              f"   {show(self.cache[0], 0)}, {show(self.cache[1], 0)}",
              flush=True)

    def goals(self):
        name = name_of(self.size)
        yield (f"{name}, polling, time beside UCX",
               ratio(self.polling, self.ucx), "<=", 1.0)
        yield (f"{name}, sleeping, time beside TCP",
               ratio(self.sleeping, self.tcp), "<=",
               1.0 if self.size == 4 << 20 else 0.9)
        yield (f"{name}, messages/s beside UCX",
               ratio(self.rate, self.ucx_rate), ">=", 1.0)
        # TCP has no messages: it writes 16 KB of small ones at once
        if self.size >= 16 << 10:
            yield (f"{name}, messages/s beside TCP",
                   ratio(self.rate, self.tcp_rate), ">=", 2.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("-n", type=int, default=3, dest="rounds",
                        help="rounds of each size (3)")
    parser.add_argument("-o", dest="file", help="write objects to this file")
    parser.add_argument("sizes", type=int, nargs="*", metavar="SIZE")
    parser.add_argument("build", metavar="BUILDDIR")
    args = parser.parse_args()
    rows = []

    print("microseconds one way, million messages/s; the last column is a cache"
          " line's way in ns, before and after\n")
    print(f"{'bytes':>5} {'polling':>9} {'UCX':>8} {'ratio':>6}"
          f" {'sleeping':>9} {'TCP':>8} {'ratio':>6}"
          f" {'rate':>9} {'UCX':>9} {'ratio':>6} {'TCP':>9} {'ratio':>6}")
    for size in args.sizes or SIZES:
        rows.append(Row(size, measure(args.build, size, args.rounds)))
        rows[-1].show()
    lines = [line for row in rows for line in row.lines]
    lines += report_goals([goal for row in rows for goal in row.goals()])
    write_lines(args.file, lines)
    return 0 if any(row.polling for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
