#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Measures rdmamsg-perf and its rivals in turns, prints medians and ratios.

Usage: pairs.py [-n PAIRS] [-o FILE] [-q] PERF ADDRESS DEVICE

Both ends run on this machine. PERF is rdmamsg-perf. A round asks everybody
once for everything; what is compared was measured seconds apart. FILE gets an
object a line: each figure, then each goal. -q: sizes and counts for a quick
look, which prove nothing. The exit status is 0 whatever the figures are, and
1 if there are none.
"""

import argparse
import collections
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time

SIZES = (1, 64, 1024, 65536, 1048576)
HEADER = 16             # bytes of rdmamsg on the wire
PATIENCE = 120          # seconds for one measurement


def name_of(size):
    for unit, shift in (("M", 20), ("K", 10)):
        if size >= 1 << shift:
            return f"{size >> shift} {unit}B"
    return f"{size} B"


class Failed(Exception):
    pass


def somebody_on(port):
    """Whether somebody listens on this TCP port."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            for line in lines:
                field = line.split()
                if field[1].endswith(wanted) and field[3] == "0A":
                    return True
    return False


def stop(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def listening(command):
    """A server that prints its port last in its first line: that port."""
    with subprocess.Popen(command, stdout=subprocess.PIPE,
                          text=True) as server:
        try:
            line = server.stdout.readline()
            if not line:
                sys.exit(f"{' '.join(command)}: does not listen")
            yield line.split()[-1]
        finally:
            stop(server)


def client(command):
    done = subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          timeout=PATIENCE, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {done.stdout[-500:]}")
    return done.stdout


def both(server, command, port=None):
    """Output of a client whose server serves once.

    Without a port to look at, the client tries until the server is there.
    """
    with subprocess.Popen(server, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + 20
            while port and not somebody_on(port):
                if time.monotonic() > end or process.poll() is not None:
                    raise Failed(f"{' '.join(server)}: does not listen")
                time.sleep(0.05)
            while True:
                try:
                    return client(command)
                except Failed:
                    if port or time.monotonic() > end:
                        raise
                    time.sleep(0.2)
        finally:
            stop(process)


def last_row(text, size):
    """The numbers of the last row that begins with this size."""
    row = None
    for line in text.splitlines():
        field = line.split()
        if field and field[0] == str(size):
            row = [float(x) for x in field
                   if re.fullmatch(r"-?[0-9.]+(e[+-]?[0-9]+)?", x)]
    if not row:
        raise Failed(f"no figures in: {text[-500:]}")
    return row


# one-sided: ours, raw verbs by, with what options
ONESIDED = (("write-lat", "ib_write_lat", ()), ("read-lat", "ib_read_lat", ()),
            ("atomic-lat", "ib_atomic_lat", ("-A", "FETCH_AND_ADD")),
            ("write-bw", "ib_write_bw", ()), ("read-bw", "ib_read_bw", ()))
ONESIDED_SIZES = (64, 4096, 1048576)


class Bench:
    """What is to be measured and with what; figures by (test, size, who)."""

    def __init__(self, args):
        self.args = args
        self.port = 18600
        self.figures = collections.defaultdict(list)
        self.failures = collections.Counter()

    def count(self, test, size):
        if self.args.quick:
            return 400 if size < 65536 else 20
        if test == "rate":
            return 32000
        if test.endswith("bw"):
            return 3200 if size < 1 << 20 else 200
        return 4000 if size < 65536 else 400 if size < 1 << 20 else 50

    def perftest(self, tool, size, count, *more):
        # the same port again would be in TIME_WAIT
        self.port += 1
        command = [tool, "-d", self.args.device, "-F", "-p", str(self.port),
                   "-s", str(size), "-n", str(count), *more]
        return last_row(both(command, command + [self.args.address],
                             self.port), size)

    def perf(self, test, size, count, mode):
        done = client([self.args.perf, test, self.args.address, "--json",
                       "-p", self.perf_port, "-s", str(size), "-n", str(count),
                       mode])
        return json.loads(done.splitlines()[-1])

    # ---- who measures what; each returns a dictionary of figures

    def raw_lat(self, size, count, *more):
        # bytes, iterations, t_min, t_max, t_typical, t_avg, ...
        row = self.perftest("ib_send_lat", size, count, *more)
        return {"p50": row[4], "avg": row[5]}

    def raw_lat_wire(self, size, count):
        """What our message is to the device: with our header."""
        return self.raw_lat(size + HEADER, count)

    def raw_lat_event(self, size, count):
        return self.raw_lat(size, count, "-e")

    def our_lat(self, size, count, mode="--poll"):
        got = self.perf("lat", size, count, mode)
        return {"p50": got["usec_p50"], "avg": got["usec_avg"]}

    def our_lat_event(self, size, count):
        return self.our_lat(size, count, "--event")

    def libfabric_lat(self, size, count):
        self.port += 1
        command = ["fi_pingpong", "-p", "verbs", "-e", "msg", "-I", str(count),
                   "-S", str(size), "-d", self.args.device]
        text = both(command + ["-B", str(self.port)],
                    command + ["-P", str(self.port), self.args.address],
                    self.port)
        # bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec
        for line in reversed(text.splitlines()):
            field = line.split()
            # counts are shown like 10 and 4k
            if len(field) == 8 and field[1][0].isdigit():
                return {"avg": float(field[6])}
        raise Failed(f"fi_pingpong: {text[-500:]}")

    def rsocket_lat(self, size, count):
        self.port += 1
        command = ["rstream", "-p", str(self.port), "-S", str(size), "-C", "1",
                   "-I", str(count)]
        text = both(command, command + ["-s", self.args.address])
        # name bytes xfers iters total time Gb/sec usec/xfer
        field = text.splitlines()[-1].split()
        if len(field) != 8:
            raise Failed(f"rstream: {text[-500:]}")
        return {"avg": float(field[7])}

    def raw_rate(self, size, count):
        # bytes, iterations, peak, average, Mmsg/s
        row = self.perftest("ib_send_bw", size, count, "-l", "16")
        return {"per_s": row[4] * 1e6}

    def our_rate(self, size, count):
        return {"per_s": self.perf("rate", size, count, "--poll")["msg_per_s"]}

    def raw_bw(self, size, count, *more):
        row = self.perftest("ib_read_bw", size, count, *more)
        return {"mb_per_s": row[3] * 1.048576}

    def raw_bw_event(self, size, count):
        return self.raw_bw(size, count, "-e")

    def our_bw(self, size, count, mode="--poll"):
        return {"mb_per_s": self.perf("bw", size, count, mode)["mb_per_s"]}

    def our_bw_event(self, size, count):
        return self.our_bw(size, count, "--event")

    def raw_onesided(self, size, count, tool, *more):
        row = self.perftest(tool, size, count, *more)
        if tool.endswith("bw"):
            return {"mb_per_s": row[3] * 1.048576}
        return {"p50": row[4], "avg": row[5]}

    def our_onesided(self, size, count, test):
        got = self.perf(test, size, count, "--poll")
        if test.endswith("bw"):
            return {"mb_per_s": got["mb_per_s"]}
        return {"p50": got["usec_p50"], "avg": got["usec_avg"]}

    # ---- rounds

    def plan(self):
        for size in SIZES:
            yield "lat", size, (
                ("raw", self.raw_lat), ("rdmamsg", self.our_lat),
                ("libfabric", self.libfabric_lat),
                ("rsocket", self.rsocket_lat),
                *([("wire", self.raw_lat_wire)] if size == 64 else []))
        for size in SIZES:
            yield "lat-event", size, (("raw", self.raw_lat_event),
                                      ("rdmamsg", self.our_lat_event))
        yield "rate", 64, (("raw", self.raw_rate), ("rdmamsg", self.our_rate))
        for size in (65536, 1048576):
            yield "bw", size, (("raw", self.raw_bw), ("rdmamsg", self.our_bw))
            yield "bw-event", size, (("raw", self.raw_bw_event),
                                     ("rdmamsg", self.our_bw_event))

        for test, tool, more in ONESIDED:
            for size in (8,) if test == "atomic-lat" else ONESIDED_SIZES:
                yield test, size, (
                    ("raw", lambda s, n, tool=tool, more=more:
                        self.raw_onesided(s, n, tool, *more)),
                    ("rdmamsg", lambda s, n, test=test:
                        self.our_onesided(s, n, test)))

    def round(self, number):
        for test, size, rivals in self.plan():
            if self.args.only and test not in self.args.only:
                continue
            # whoever comes first comes last in the next round
            for who, measure in rivals if number % 2 else rivals[::-1]:
                try:
                    got = measure(size, self.count(test, size))
                except (Failed, subprocess.TimeoutExpired, IndexError,
                        ValueError) as why:
                    self.failures[test, size, who] += 1
                    print(f"{test} {size} {who}: {why}", file=sys.stderr)
                    continue
                for what, value in got.items():
                    self.figures[test, size, who, what].append(value)
            print(f"round {number} of {self.args.pairs}: {test} "
                  f"{name_of(size)}", file=sys.stderr, flush=True)

    def run(self):
        command = [self.args.perf, "server", "-p", "0"]
        with listening(command) as self.perf_port:
            for number in range(1, self.args.pairs + 1):
                self.round(number)

    def median(self, *key):
        values = self.figures.get(key)
        return statistics.median(values) if values else None


def ratio(a, b):
    return a / b if a is not None and b else None


def show(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


# ---- what comes out


def table_lat(bench, test, others):
    print(f"\n{test}: one way, microseconds; 'raw' is ib_send_lat"
          f"{' -e' if test.endswith('event') else ''}")
    print(f"{'':>8} {'raw p50':>10} {'ours p50':>10} {'ratio':>6} "
          f"{'raw avg':>10} {'ours avg':>10} {'ratio':>6}"
          + "".join(f" {who:>10} {'ratio':>6}" for who in others))
    for size in SIZES:
        line = f"{name_of(size):>8}"
        for what in ("p50", "avg"):
            raw = bench.median(test, size, "raw", what)
            ours = bench.median(test, size, "rdmamsg", what)
            line += (f" {show(raw):>10} {show(ours):>10} "
                     f"{show(ratio(ours, raw)):>6}")
        for who in others:
            value = bench.median(test, size, who, "avg")
            line += (f" {show(value):>10} "
                     f"{show(ratio(value, bench.median(test, size, 'raw', 'avg'))):>6}")
        print(line)


def table_wire(bench):
    wire = bench.median("lat", 64, "wire", "p50")
    ours = bench.median("lat", 64, "rdmamsg", "p50")
    print(f"\n64 B of ours are {64 + HEADER} on the wire; as many by "
          f"ib_send_lat: {show(wire)}, ratio {show(ratio(ours, wire))}")


def table_more(bench):
    print(f"\n{'':>26} {'raw':>12} {'rdmamsg':>12} {'ratio':>6}   raw verbs by")
    for test, size, what, by in (
            ("rate", 64, "per_s", "ib_send_bw -l 16"),
            ("bw", 65536, "mb_per_s", "ib_read_bw"),
            ("bw", 1048576, "mb_per_s", "ib_read_bw"),
            ("bw-event", 65536, "mb_per_s", "ib_read_bw -e"),
            ("bw-event", 1048576, "mb_per_s", "ib_read_bw -e")):
        raw = bench.median(test, size, "raw", what)
        ours = bench.median(test, size, "rdmamsg", what)
        label = f"{test} {name_of(size)}, {'msg/s' if what == 'per_s' else 'MB/s'}"
        print(f"{label:>26} {show(raw):>12} {show(ours):>12} "
              f"{show(ratio(ours, raw)):>6}   {by}")


def table_onesided(bench):
    print("\none-sided: microseconds (median) or MB/s")
    for (test, size), (raw, ours) in sorted(onesided(bench).items()):
        print(f"{test + ' ' + name_of(size):>26} {show(raw):>12} "
              f"{show(ours):>12} {show(ratio(ours, raw)):>6}")


def onesided(bench):
    """Both figures by (test, size), where there is one."""
    both = {}
    for test, size, who, what in bench.figures:
        if test in [t[0] for t in ONESIDED] and what in ("p50", "mb_per_s"):
            both[test, size] = (bench.median(test, size, "raw", what),
                                bench.median(test, size, "rdmamsg", what))
    return both


def goals(bench):
    """What is wanted: name, the figure that counts, 'at most' it, reached."""
    def of(test, size, what, by="raw"):
        return ratio(bench.median(test, size, "rdmamsg", what),
                     bench.median(test, size, by, what))
    yield "64 B latency, polling, to raw verbs", of("lat", 64, "p50"), "<=", 1.10
    for size in SIZES:
        for who in ("libfabric", "rsocket"):
            yield (f"{name_of(size)} latency to {who}",
                   of("lat", size, "avg", who), "<=", 1.0)
    yield ("64 B latency, events, to raw verbs", of("lat-event", 64, "p50"),
           "<=", 1.15)
    yield "64 B messages/s to raw verbs", of("rate", 64, "per_s"), ">=", 0.95
    best = {who: max((bench.median(test, 1048576, who, "mb_per_s") or 0
                      for test in ("bw", "bw-event")))
            for who in ("raw", "rdmamsg")}
    yield ("1 MB bytes/s to raw verbs, best of polling and events",
           ratio(best["rdmamsg"] or None, best["raw"]), ">=", 0.97)
    for (test, size), (raw, ours) in sorted(onesided(bench).items()):
        yield (f"{test} {name_of(size)} to raw verbs", ratio(ours, raw),
               *((">=", 0.97) if test.endswith("bw") else ("<=", 1.05)))


def report_goals(wanted):
    """Prints them; an object for each."""
    lines = []
    print(f"\n{'goal':>56} {'':>9} {'figure':>7}")
    for name, figure, sign, limit in wanted:
        met = figure is not None and (
            figure <= limit if sign == "<=" else figure >= limit)
        print(f"{name:>56} {sign:>4} {limit:.2f} {show(figure, 3):>7} "
              f"{'reached' if met else 'no figure' if figure is None else 'MISSED'}")
        lines.append({"goal": name, "figure": figure, "sign": sign,
                      "limit": limit, "met": met})
    return lines


def write_lines(path, lines):
    if path:
        with open(path, "w", encoding="utf-8") as out:
            for line in lines:
                out.write(json.dumps(line) + "\n")


def report(bench):
    table_lat(bench, "lat", ("libfabric", "rsocket"))
    table_wire(bench)
    table_lat(bench, "lat-event", ())
    table_more(bench)
    table_onesided(bench)
    lines = []
    for (test, size, who, what), values in sorted(bench.figures.items()):
        lines.append({"test": test, "size": size, "who": who, "what": what,
                      "median": statistics.median(values), "values": values})
    lines += report_goals(goals(bench))
    for (test, size, who), times in sorted(bench.failures.items()):
        print(f"{who} failed {times} times: {test} {name_of(size)}")
    write_lines(bench.args.output, lines)
    return 0 if bench.figures else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("-n", dest="pairs", type=int, default=7)
    parser.add_argument("-o", dest="output")
    parser.add_argument("-q", dest="quick", action="store_true")
    parser.add_argument("-t", dest="only", action="append",
                        help="lat, lat-event, rate, bw, bw-event, or a "
                        "one-sided test; all")
    parser.add_argument("perf")
    parser.add_argument("address")
    parser.add_argument("device")
    bench = Bench(parser.parse_args())
    os.environ.pop("RDMAMSG_LOG", None)
    bench.run()
    return report(bench)


if __name__ == "__main__":
    sys.exit(main())
