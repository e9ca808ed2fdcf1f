#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: quickstart.sh BUILD
#
# samples/quickstart that is interrupted: sends SIGINT to its process group, as a
# terminal does for Ctrl-C, while it prepares, in a bare copy of the tree, and
# while it measures and copies, in BUILD, which a run of it has built. It ends with
# 130, and leaves no process and no temporary file. Then runs it once more in both:
# in the copy it does all that it has not done, and in BUILD it configures and
# compiles nothing. Then it shows messages as in a virtual machine. At last it is
# interrupted while it prepares a real one, which needs root, while that boots, and
# while it measures there.

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

# has_begun TEXT FILE: the step has and FILE is there, or quickstart has ended
has_begun()
{
	grep -q "$1" "$work/said" && [ -e "$2" ] ||
		! kill -0 "$session" 2>/dev/null
}

# Copies what a clone has, as far as configure is concerned.
copy_tree()
{
	mkdir "$work/tree"
	tar -C "$top" -c --exclude='./build*' --exclude=./.git \
		--exclude='./configure*' --exclude='./Makefile*' \
		--exclude='./config.h.in*' --exclude=./aclocal.m4 \
		--exclude=./autom4te.cache . | tar -x -C "$work/tree" &&
		cp "$top/configure.ac" "$top/Makefile.am" "$work/tree" || exit
}

# interrupt NAME TEXT TREE BUILD FILE OPTION...: interrupts quickstart when it has
# printed TEXT and FILE is there.
interrupt()
{
	name=$1 text=$2 checkout=$3 in=$4 file=$5
	shift 5
	: >"$work/said"
	RDMAMSG_BUILD=$in TMPDIR=$work/tmp RDMAMSG_VM_CACHE=$work/images \
		setsid env --default-signal=INT \
		sh "$checkout/samples/quickstart" "$@" >"$work/said" 2>&1 &
	session=$!
	await has_begun "$text" "$file"
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
	left=$(ls -A "$work/tmp")
	[ -z "$left" ] || fail "it has left $left"
	echo "ok quickstart-$name"
}

# run NAME TREE BUILD: runs it to the end.
run()
{
	name=$1
	began=$(date +%s)
	RDMAMSG_BUILD=$3 sh "$2/samples/quickstart" >"$work/said" 2>&1 ||
		fail "status $?"
}

passed()
{
	sed -n '/^packages\|^making\|^configuring\|^building/s/^/# /p' \
		"$work/said"
	echo "ok quickstart-$name"
	echo "# took $(($(date +%s) - began)) quickstart-$name"
}

again()
{
	run again "$top" "$build"
	! grep -q configuring "$work/said" || fail 'it configures again'
	! grep '^  CC ' "$build/quickstart.log" || fail 'it compiles again'
	passed
}

# In a virtual machine the figures are those of messages that are checked. Goes on
# with the address of the last run.
machine()
{
	addr=$(sed -n 's/^Messages over .* at \(.*\), after a warm-up\. .*/\1/p' \
		"$work/said")
	name=machine began=$(date +%s)
	RDMAMSG_VM=1 RDMAMSG_BUILD=$build sh "$top/samples/quickstart" \
		--show "$addr" >"$work/said" 2>&1 || fail "status $?"
	grep -q "^Messages over .* at $addr, with checking of every byte\." \
		"$work/said" || fail 'it does not say that it checks'
	passed
}

copy_tree
tree=$work/tree
mkdir "$work/tmp"
interrupt packages 'packages for building' "$tree" "$work/build" /
# another build directory than that of the next run, which knows nothing of it;
# the half of configure comes first
interrupt making '^making configure' "$tree" "$work/other" "$tree/configure"
interrupt configuring '^configuring' "$tree" "$work/build" /
interrupt building '^building' "$tree" "$work/build" /
run resumed "$tree" "$work/build"
passed
interrupt measuring '^Measuring' "$top" "$build" /
interrupt copying '^Copying' "$top" "$build" /
again
machine
[ "$(id -u)" -eq 0 ] || {
	echo '# not interrupted in a machine: only root installs what one needs'
	exit 0
}
interrupt vm-packages 'packages for the machine' "$top" "$build" / --vm
interrupt vm-booting '^Continuing in a virtual machine' "$top" "$build" / --vm
interrupt vm-measuring '^Measuring' "$top" "$build" / --vm
