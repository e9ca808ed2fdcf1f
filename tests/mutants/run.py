#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""
Applies deliberate mistakes to a copy of the tree, one at a time, builds it and
runs suites until one fails. Prints a line for each mutant, `ok NAME # noticed
by SUITE`, `not ok NAME # SURVIVED` or `not ok NAME # stale: reason`, and the
share at the end. The copy, its build and the logs are in WORKDIR.

A mutant is a file in list/:

	in: FUNCTION, or file:PATH for text outside of functions
	hint: SUITE...			most likely to notice, run first
	about: what the mistake does
	equivalent: why no test can see it; it is not run
	-text that the function has once; white space does not matter
	+text in its place
"""
import argparse
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
SOURCES = ("lib", "cm", "include", "samples/info", "samples/perf")

# Run in this order when no hint has noticed: a little of everything.
DEFAULT = """
	unit:* fuzz int:messages int:credits int:memory int:cookies int:close
	int:connect int:setup int:fast int:rma int:window int:pool int:srq
	int:srq_options int:pd int:regcache int:oob int:wait
	chaos:calm chaos:onesided chaos:credits chaos:srq-tiny chaos:abort
	chaos:oob
	chaos:kill chaos:device chaos:tight hostile:client-64
	hostile:client hostile:server hostile:client-4096 hostile:server-4096
	fault:exchange fault:close fault:rma fault:srq-connect
	fault:srq-exchange int:cycles int:features int:death int:killed int:idle
""".split()

BOUND_FACTOR = 4	# of the time that a suite takes without a mistake
BOUND_LEAST = 30	# s
QUIET_BOUND = 1800	# s in which a build writes nothing


def say(text):
    print(text, flush=True)


# ---- mutants -----------------------------------------------------------


class Stale(Exception):
    pass


class Mutant:
    def __init__(self, path):
        self.name = os.path.basename(path)
        self.hints, self.about, self.where = [], "", None
        self.equivalent = ""
        old, new = [], []
        with open(path) as f:
            for line in f.read().splitlines():
                if line.startswith("-"):
                    old.append(line[1:])
                elif line.startswith("+"):
                    new.append(line[1:])
                elif line.startswith("in:"):
                    self.where = line[3:].strip()
                elif line.startswith("hint:"):
                    self.hints = line[5:].split()
                elif line.startswith("about:"):
                    self.about = line[6:].strip()
                elif line.startswith("equivalent:"):
                    self.equivalent = line[11:].strip()
        self.old, self.new = "\n".join(old), "\n".join(new)
        if not self.where or not self.old.strip():
            raise SystemExit(f"{path}: no 'in:' or no text to replace")


def loose(text):
    """A pattern for the text, whatever white space is in it."""
    tokens = re.findall(r"\w+|[^\w\s]", text)
    return re.compile(r"\s*".join(re.escape(t) for t in tokens))


def body_of(source, function):
    """The stretch of a function's definition; None: it is not there."""
    for m in re.finditer(r"^(?!\s)[^\n;={]*\b" + re.escape(function) + r"\(",
                         source, re.M):
        brace = re.compile(r"[{;]").search(source, m.end())
        end = source.find("\n}", m.end())
        # a call, a prototype
        if not brace or brace.group() == ";" or end < 0:
            continue
        return m.start(), end + 2
    return None


@functools.cache
def sources(tree):
    """The files that can have mutants, as pairs of path and text."""
    ret = []
    for folder in SOURCES:
        for base, _, names in os.walk(os.path.join(tree, folder)):
            for name in sorted(names):
                path = os.path.join(base, name)
                if name.endswith((".c", ".h")):
                    with open(path) as f:
                        ret.append((path, f.read()))
    return ret


def find(tree, mutant):
    """The file, and where in it the text is. No other mutant is applied."""
    pattern, hits = loose(mutant.old), []
    for path, source in sources(tree):
        if mutant.where.startswith("file:"):
            if not path.endswith(mutant.where[5:]):
                continue
            span = (0, len(source))
        elif mutant.where + "(" in source:
            span = body_of(source, mutant.where)
        else:
            continue
        if span:
            hits += [(path, m.span()) for m in
                     pattern.finditer(source, *span)]
    if len(hits) != 1:
        raise Stale(f"{len(hits)} places match in {mutant.where}")
    return hits[0]


def apply(tree, mutant):
    """Changes the file; returns its path and what it was."""
    path, (start, end) = find(tree, mutant)
    with open(path) as f:
        source = f.read()
    with open(path, "w") as f:
        f.write(source[:start] + mutant.new + source[end:])
    return path, source


# ---- suites ------------------------------------------------------------


class Suites:
    def __init__(self, tree, build, log_dir):
        self.tree, self.build, self.logs = tree, build, log_dir
        self.times = {}

    def script(self, *path):
        return ["sh", os.path.join(self.tree, "tests", *path)]

    def below(self, *command):
        return [os.path.join(self.build, "lib/soft/tools/rdmamsg-soft"),
                *command]

    def units(self):
        with open(os.path.join(self.tree, "tests/unit/include.am")) as f:
            names = re.findall(r"tests/unit/[\w/]+(?=[\s\\])", f.read())
        # those of the soft HCA itself know nothing of the library
        return sorted({n for n in names if "/soft" not in n and
                       os.path.exists(os.path.join(self.build, n))})

    def of(self, name):
        """What to make, and the commands to run with their environment."""
        kind, _, what = name.partition(":")
        soft = {"RDMAMSG_SOFT_FABRIC": f"mutant-{os.getpid()}",
                "RDMAMSG_VM_ADDR": "127.0.0.1",
                "RDMAMSG_VM_HOST": "localhost"}
        preload = ["lib/soft/tools/rdmamsg-soft",
                   "lib/soft/preload/libsoft-preload.la"]
        if kind == "unit":
            units = self.units() if what == "*" else [f"tests/unit/{what}"]
            return units, [[os.path.join(self.build, u)] for u in units], soft
        if kind in ("model", "netsim", "incast"):
            folder = "netsim" if kind == "incast" else kind
            program = f"tests/{folder}/{kind}"
            return [program], [[os.path.join(self.build, program)]], {}
        if kind == "fuzz":
            names = ("header", "hello", "key", "oob", "setup")
            targets = [f"tests/fuzz/{n}" for n in names]
            return targets, [[os.path.join(self.build, t),
                              os.path.join(self.tree, "tests/fuzz/corpus", n)]
                             for t, n in zip(targets, names)], soft
        if kind == "int-iwarp":
            # completions in any order that iWARP permits
            return (["librdmamsg.la", f"tests/integration/{what}"],
                    [self.script("integration", "soft.sh") +
                     [self.build, what]],
                    {"RDMAMSG_SOFT_LINK": "iwarp", "RDMAMSG_SOFT_ORDER": "3"})
        if kind == "int":
            return (["librdmamsg.la", f"tests/integration/{what}"],
                    [self.script("integration", "soft.sh") +
                     [self.build, what]], {})
        if kind == "device":
            # the soft HCA itself, with the LINK of device:LINK, or by packets
            program = "tests/device/conform"
            command = [os.path.join(self.build, program)]
            if what == "net":
                return [program], [alone(command)], \
                    dict(soft, RDMAMSG_SOFT_NET="all")
            env = dict(soft, RDMAMSG_SOFT_LINK=what,
                       RDMAMSG_SOFT_ORDER="0") if what else soft
            return [program], [command], env
        if kind == "hostile":
            # SIDE[-DEPTH of a shared receive queue][/CASE]
            what, _, case = what.partition("/")
            side, _, depth = what.partition("-")
            env = dict(soft, TEST_SRQ=depth) if depth else soft
            program = os.path.join(self.build, f"tests/hostile/{side}")
            return ([f"tests/hostile/{side}"] + preload,
                    [self.below(program, *(["127.0.0.1", case] if case
                                           else []))], env)
        if kind == "fault":
            return (["tests/fault/nth"] + preload,
                    [self.below(os.path.join(self.build, "tests/fault/nth"),
                                what)], soft)
        if kind == "info":
            # samples/run.sh has the tests of rdmamsg-info
            return (["samples/rdmamsg-info", "samples/rdmamsg-perf"],
                    [["sh", os.path.join(self.tree, "samples/run.sh"),
                      self.build, "127.0.0.1", f"info-{what}"]],
                    {"RDMAMSG_DEVICE": "soft",
                     "RDMAMSG_SOFT_FABRIC": f"mutant-{os.getpid()}"})
        if kind == "chaos":
            return (["tests/chaos/chaos"] + preload,
                    [self.script("chaos", "run.sh") +
                     [self.build, "--rounds=2", "--load-ms=1500",
                      f"--dir={self.logs}/chaos", f"--scenario={what}", "7"]],
                    {})
        raise SystemExit(f"no suite is called {name}")

    def run(self, name, log):
        """Whether it passed, after how many seconds; the build included."""
        targets, commands, env = self.of(name)
        began = time.time()
        with open(log, "ab") as out:
            if make(self.build, targets, out):
                return False, "build"
            bound = max(BOUND_LEAST, BOUND_FACTOR * self.times.get(name, 300))
            for command in commands:
                status = bounded(command, dict(os.environ, **env), out, bound)
                if status not in (0, 77):
                    return False, status
        return True, time.time() - began


def alone(command):
    """The command in a network namespace, of which it has all ports."""
    return ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"',
            "sh"] + command


def make(build, targets, out):
    return building(["make", "-C", build, "-j2"] + targets, out)


def building(command, out):
    """
    The exit status. A build on a busy machine may take hours, but writes a line
    for each file; 124 after QUIET_BOUND without one.
    """
    p = started(command, os.environ, out)
    size, since = os.fstat(out.fileno()).st_size, time.monotonic()
    try:
        while time.monotonic() - since < QUIET_BOUND:
            try:
                return p.wait(5)
            except subprocess.TimeoutExpired:
                now = os.fstat(out.fileno()).st_size
                if now != size:
                    size, since = now, time.monotonic()
        return 124
    finally:
        end(p)


def bounded(command, env, out, seconds):
    """The exit status; 124 after so many seconds, with all that it started."""
    p = started(command, env, out)
    try:
        return p.wait(seconds)
    except subprocess.TimeoutExpired:
        return 124
    finally:
        end(p)


def started(command, env, out):
    return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL,
                            stdout=out, stderr=out, start_new_session=True)


def end(process):
    """With all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


# ---- the run -----------------------------------------------------------


def copy_tree(to):
    """The files that git knows, as they are now; whether any has changed."""
    changed = False
    names = subprocess.run(["git", "-C", TOP, "ls-files", "-zco",
                            "--exclude-standard"], check=True,
                           capture_output=True).stdout.decode().split("\0")
    for name in filter(None, names):
        src, dst = os.path.join(TOP, name), os.path.join(to, name)
        if not os.path.exists(src):
            continue
        os.makedirs(os.path.dirname(dst), exist_ok=True)
        with open(src, "rb") as f:
            data = f.read()
        if os.path.exists(dst):
            with open(dst, "rb") as f:
                if f.read() == data:
                    continue
        shutil.copy(src, dst)
        changed |= "tests/mutants" not in name
    return changed


def prepare(tree, build, log, times):
    if copy_tree(tree) and os.path.exists(times):
        os.unlink(times)
    with open(log, "wb") as out:
        if not os.path.exists(os.path.join(tree, "configure")):
            if building(["sh", "-c", f"cd {tree} && ./autogen.sh"], out):
                raise SystemExit(f"autogen.sh has failed: {log}")
        os.makedirs(build, exist_ok=True)
        if not os.path.exists(os.path.join(build, "Makefile")):
            if building(["sh", "-c", f"cd {build} && {tree}/configure"], out):
                raise SystemExit(f"configure has failed: {log}")
        if make(build, ["all"], out) or make(build, ["check", "TESTS="], out):
            raise SystemExit(f"the build has failed: {log}")


def baseline(suites, names, logs, times):
    """Without a mistake all of them pass; what that takes is their bound."""
    usable = []
    if os.path.exists(times):
        with open(times) as f:
            suites.times = json.load(f)
    for name in names:
        if name in suites.times:
            usable.append(name)
            continue
        log = os.path.join(logs, "baseline-" + re.sub("[*/]", "-", name))
        open(log, "wb").close()
        good, took = suites.run(name, log)
        if good:
            suites.times[name] = took
            usable.append(name)
            with open(times, "w") as f:
                json.dump(suites.times, f)
        else:
            say(f"# {name} fails without a mutant, and is left out: {log}")
    return usable


def try_mutant(suites, mutant, order, tree, log):
    """The suite that noticed, or None."""
    open(log, "wb").close()
    path, source = apply(tree, mutant)
    try:
        for name in order:
            good, how = suites.run(name, log)
            if not good:
                return "the compiler" if how == "build" else name
        return None
    finally:
        with open(path, "w") as f:
            f.write(source)


def main():
    parser = argparse.ArgumentParser(
        description="Runs the tests against deliberate mistakes.")
    parser.add_argument("-l", "--list", action="store_true",
                        help="names of the mutants")
    parser.add_argument("-n", "--no-default", action="store_true",
                        help="only the suites that the mutants hint at")
    parser.add_argument("-c", "--check", action="store_true",
                        help="only tell which mutants are stale")
    parser.add_argument("workdir", nargs="?", help="for copy, build and logs")
    parser.add_argument("mutant", nargs="*")
    args = parser.parse_args()
    # so that the file that is changed is put back
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    folder = os.path.join(HERE, "list")
    mutants = [Mutant(os.path.join(folder, n)) for n in
               sorted(os.listdir(folder))
               if not args.mutant or n in args.mutant]
    if args.list or not args.workdir:
        for m in mutants:
            say(f"{m.name:28} {m.about}")
        return 0
    if args.mutant and len(mutants) != len(args.mutant):
        raise SystemExit("no such mutant")

    if args.check:
        stale = 0
        for m in mutants:
            try:
                find(TOP, m)
            except Stale as why:
                stale += 1
                say(f"not ok {m.name} # stale: {why}")
        return 1 if stale else 0

    work = os.path.abspath(args.workdir)
    tree, build, logs = (os.path.join(work, d) for d in
                         ("tree", "build", "logs"))
    os.makedirs(logs, exist_ok=True)
    times = os.path.join(work, "times")
    prepare(tree, build, os.path.join(logs, "build"), times)
    suites = Suites(tree, build, logs)
    wanted = list(dict.fromkeys([h for m in mutants for h in m.hints] +
                                ([] if args.no_default else DEFAULT)))
    usable = baseline(suites, wanted, logs, times)

    noticed, survived, stale = 0, [], []
    for m in mutants:
        if m.equivalent:
            say(f"skip {m.name} # equivalent: {m.equivalent}")
            continue
        order = [s for s in dict.fromkeys(
            m.hints + ([] if args.no_default else DEFAULT)) if s in usable]
        began = time.time()
        try:
            by = try_mutant(suites, m, order, tree,
                            os.path.join(logs, m.name))
        except Stale as why:
            stale.append(m.name)
            say(f"not ok {m.name} # stale: {why}")
            continue
        took = int(time.time() - began)
        if by == "the compiler":
            stale.append(m.name)
            say(f"not ok {m.name} # stale: it does not build")
        elif by:
            noticed += 1
            say(f"ok {m.name} # noticed by {by}, {took} s")
        else:
            survived.append(m.name)
            say(f"not ok {m.name} # SURVIVED, {took} s: {m.about}")
    total = noticed + len(survived)
    say(f"# {noticed} of {total} noticed, "
        f"{100 * noticed / max(total, 1):.1f} %; survivors: "
        f"{' '.join(survived) or 'none'}; stale: {' '.join(stale) or 'none'}")
    return 1 if survived or stale else 0


if __name__ == "__main__":
    sys.exit(main())
