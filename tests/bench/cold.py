#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Measures the first messages beside later ones, and steps between sizes.

Usage: cold.py [-n ROUNDS] [-o FILE] BUILDDIR

On the soft HCA, with the server on the first processor and the client on the
second: for each size the latency of messages that are warm, of the first 16 of
a new connection to a new server, and of the first 16 after a pause of 1 s, in
turns; then the largest step between two sizes that are 16 bytes apart, from
4,096 to 12,288. FILE gets an object a line: each figure, then each goal. The
exit status is 0 whatever the figures are, and 1 if there are none.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

from pairs import Failed, client, listening, ratio, report_goals, show, \
    write_lines

SIZES = (64, 1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20)
WAYS = {"warm": (), "cold": ("--cold", "-n", "16"),
        "pause": ("--pause=1000",)}
FIRST_MOST = 1.5        # of warm
STEP_MOST = 1.5


def figure(perf, mode, size, way):
    """Microseconds one way: the median if warm, the mean of the first 16."""
    with listening(["taskset", "-c", "0", perf, "server", "-a", "127.0.0.1",
                    "-p", "0"]) as port:
        said = client(["taskset", "-c", "1", perf, "lat", "127.0.0.1", "-p",
                       port, "-s", str(size), "--json", mode, *WAYS[way]])
    of = json.loads(said.splitlines()[-1])
    return of["usec_p50" if way == "warm" else "usec_avg"]


def firsts(perf, rounds):
    for mode in ("--poll", "--event"):
        print(f"{mode[2:]:>10} {'warm':>10} {'cold':>10} {'':>6} "
              f"{'pause 1 s':>10} {'':>6}")
        for size in SIZES:
            values = {way: [] for way in WAYS}
            for _ in range(rounds):
                for way in WAYS:
                    values[way].append(figure(perf, mode, size, way))
            warm, cold, pause = (statistics.median(values[way])
                                 for way in WAYS)
            print(f"{size:>10} {show(warm, 2):>10} {show(cold, 2):>10} "
                  f"{show(ratio(cold, warm)):>6} {show(pause, 2):>10} "
                  f"{show(ratio(pause, warm)):>6}")
            yield {"mode": mode[2:], "size": size, "warm_us": warm,
                   "cold_us": cold, "pause_us": pause}


def steps(perf):
    for test in ("lat", "rate", "bw"):
        with listening(["taskset", "-c", "0", perf, "server", "-a",
                        "127.0.0.1", "-p", "0"]) as port:
            done = subprocess.run(
                ["taskset", "-c", "1", perf, test, "127.0.0.1", "-p", port,
                 "--poll", "--json", "--steps=4096:12288:16"],
                capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(done.stderr[-500:])
        of = json.loads(done.stdout.splitlines()[-1])
        print(f"{test:>10}: {of['step_from']} to {of['step_to']} bytes "
              f"{of['step_times']:.2f}")
        yield of


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--rounds", type=int, default=3)
    parser.add_argument("-o", "--output")
    parser.add_argument("build")
    args = parser.parse_args()
    os.environ["RDMAMSG_DEVICE"] = "soft"
    os.environ["RDMAMSG_SOFT_FABRIC"] = f"cold-{os.getpid()}"
    perf = os.path.abspath(f"{args.build}/samples/rdmamsg-perf")
    lines = []
    try:
        lines += firsts(perf, args.rounds)
        lines += steps(perf)
    except Failed as failed:
        print(failed, file=sys.stderr)
    goals = [(f"{of['size']} B {of['mode']}, first of a connection",
              ratio(of["cold_us"], of["warm_us"]), "<=", FIRST_MOST)
             for of in lines if "mode" in of]
    goals += [(f"{of['size']} B {of['mode']}, after a pause",
               ratio(of["pause_us"], of["warm_us"]), "<=", FIRST_MOST)
              for of in lines if "mode" in of]
    goals += [(f"{of['test']}, step at {of['step_to']} B", of["step_times"],
               "<=", STEP_MOST) for of in lines if "test" in of]
    write_lines(args.output, lines + report_goals(goals))
    return 0 if lines else 1


if __name__ == "__main__":
    sys.exit(main())
