#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: syscalls.sh BUILDDIR
#
# Counts the system calls for a message of 64 bytes in event mode on the soft
# HCA, with strace: in a ping-pong, where each message wakes its receiver, and in
# a stream, where a wake-up handles all messages that have come. All threads of
# both processes count, from the send to the callbacks. The difference of two
# runs counts, so that connecting does not. --cold omits the warm-up, whose length
# varies. Waiting for a lock (futex) does not count either, because threads meet
# at locks mostly under strace. Prints a line for each, and fails if a message
# needs more calls. rdmamsg(7) has the figures.

set -eu

perf=$1/samples/rdmamsg-perf
few=200 many=1200
# In thousandths. Without a second wake-up for a message, a ping-pong has 2000:
# write the doorbell, and epoll_wait of the loop. A busy host adds some: 2094 was
# seen, and 114 in a stream. With the thread of the device between, it has 5000.
most_lat=3500 most_rate=1000
export RDMAMSG_DEVICE=soft RDMAMSG_SOFT_FABRIC="syscalls-$$"

command -v strace >/dev/null || {
	echo "skip syscalls # strace is missing"
	exit 77
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
strace -o /dev/null true 2>"$tmp/why" || {
	echo "skip syscalls # strace does not work: $(head -n 1 "$tmp/why")"
	exit 77
}

# Prints the calls of a summary of strace -c, without futex.
calls()
{
	awk '$NF == "total" || $1 !~ /^[0-9.]+$/ { next }
	     $NF != "futex" { n += $4 }
	     END { print n + 0 }' "$@"
}

# measure TEST COUNT: prints the calls of both processes.
measure()
{
	# not the port of the server before, until the new one is running
	: >"$tmp/port"
	timeout 600 strace -f -qq -c -o "$tmp/server" "$perf" server --event \
		--once --port 0 >"$tmp/port" 2>&1 &
	server=$!
	tries=0
	until port=$(sed -n 's/^listening on port //p' "$tmp/port") &&
	      [ -n "$port" ]
	do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || {
			echo "the server does not listen: $(cat "$tmp/port")" >&2
			kill "$server"
			exit 1
		}
		sleep 0.1
	done
	timeout 600 strace -f -qq -c -o "$tmp/client" "$perf" "$1" --event \
		--size 64 --count "$2" --cold --port "$port" 127.0.0.1 \
		>"$tmp/says" 2>&1 || {
		cat "$tmp/says" >&2
		kill "$server"
		exit 1
	}
	wait "$server" || {
		cat "$tmp/port" >&2
		exit 1
	}
	calls "$tmp/server" "$tmp/client"
}

# check TEST WHAT MESSAGES MOST: the least of some measurements, because a busy
# host only adds calls
check()
{
	least= tries=0
	while [ $tries -lt 5 ] && [ "${least:-$(($4 + 1))}" -gt "$4" ]
	do
		few_calls=$(measure "$1" $few)
		many_calls=$(measure "$1" $many)
		n=$(((many_calls - few_calls) * 1000 / ($3 * (many - few))))
		[ "${least:-$n}" -lt $n ] || least=$n
		tries=$((tries + 1))
	done
	says=ok
	[ "$least" -le "$4" ] || says='not ok' bad=1
	printf '%s syscalls-%s # %d.%03d system calls for a message, at most %d.%03d\n' \
		"$says" "$2" $((least / 1000)) $((least % 1000)) \
		$(($4 / 1000)) $(($4 % 1000))
}

bad=0
check lat ping-pong 2 $most_lat
check rate stream 1 $most_rate
exit $bad
