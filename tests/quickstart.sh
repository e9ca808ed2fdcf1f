#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: quickstart.sh BUILD
#
# samples/quickstart that is interrupted: sends SIGINT to its process group, as a
# terminal does for Ctrl-C, while it prepares, in a build directory of its own,
# and while it measures and copies, in BUILD, which a run of it has built. It ends
# with 130 and leaves no process. Then runs it in BUILD once more: it configures
# and compiles nothing.

set -u

[ $# -eq 1 ] || {
	sed -n 's/^# \(Usage: \)/\1/p' "$0" >&2
	exit 2
}
build=$(cd "$1" && pwd) || exit
top=$(cd "$(dirname "$0")/.." && pwd) || exit
work=$(mktemp -d) || exit
session=
trap 'end_session; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
LIMIT=600	# s: far beyond what a step takes on a busy machine

# Prints the processes of the session, without zombies.
processes()
{
	cat /proc/[0-9]*/stat 2>/dev/null | sed 's/(.*)/name/' |
		awk -v session="$session" '$6 == session && $3 != "Z" {
			print $1 }'
}

end_session()
{
	[ -z "$session" ] || kill -KILL $(processes) 2>/dev/null
}

fail()
{
	echo "not ok quickstart-$name: $*"
	sed 's/^/# /' "$work/said"
	exit 1
}

# await COMMAND...: repeats the command until it succeeds.
await()
{
	end=$(($(date +%s) + LIMIT))
	until "$@"
	do
		[ "$(date +%s)" -lt $end ] || fail "in vain: $*"
		sleep 0.05
	done
}

# has_begun TEXT: the step has, or quickstart has ended
has_begun()
{
	grep -q "$1" "$work/said" || ! kill -0 "$session" 2>/dev/null
}


# interrupt NAME TEXT BUILD: interrupts quickstart when it has printed TEXT.
interrupt()
{
	name=$1
	: >"$work/said"
	RDMAMSG_BUILD=$3 setsid env --default-signal=INT \
		sh "$top/samples/quickstart" >"$work/said" 2>&1 &
	session=$!
	await has_begun "$2"
	kill -INT -$session || fail 'it has ended before'
	wait $session
	status=$?
	[ $status -eq 130 ] || fail "status $status, not 130"
	left=$(processes)
	[ -z "$left" ] || {
		# shellcheck disable=SC2086 # a list
		ps -fp "$(echo $left | tr ' ' ,)"
		fail 'it has left processes'
	}
	session=
	echo "ok quickstart-$name"
}

again()
{
	name=again
	began=$(date +%s)
	RDMAMSG_BUILD=$build sh "$top/samples/quickstart" >"$work/said" 2>&1 ||
		fail "status $?"
	! grep -q configuring "$work/said" || fail 'it configures again'
	! grep '^  CC ' "$build/quickstart.log" || fail 'it compiles again'
	sed -n '/^packages\|^building/s/^/# /p' "$work/said"
	echo "ok quickstart-again"
	echo "# took $(($(date +%s) - began)) quickstart-again"
}

interrupt packages 'packages for building' "$work/build"
interrupt configuring '^configuring' "$work/build"
interrupt building '^building' "$work/build"
interrupt measuring '^Measuring' "$build"
interrupt copying '^Copying' "$build"
again
