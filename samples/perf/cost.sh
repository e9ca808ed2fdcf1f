#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: cost.sh BUILD
#
# Measures what rdmamsg_cost(7) shows, on the soft HCA, three times, between two
# processes on the first two processors. Run it on a quiet machine. RUNNER, if
# set, is a command in front of both processes, as 'chrt -r 1'.

set -eu

[ $# -gt 0 ] || {
	sed -n 's/^# \(Usage: \)/\1/p' "$0" >&2
	exit 2
}
perf=$(cd "$1" && pwd)/samples/rdmamsg-perf
said=$(mktemp)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -f "$said"' EXIT
trap 'exit 1' HUP INT TERM

RDMAMSG_DEVICE=soft
RDMAMSG_SOFT_FABRIC=cost-$$
export RDMAMSG_DEVICE RDMAMSG_SOFT_FABRIC

# shellcheck disable=SC2086 # a command
taskset -c 0 ${RUNNER-} "$perf" server -a 127.0.0.1 -p 0 >"$said" &
server=$!
until port=$(sed -n 's/^listening on port //p' "$said") && [ -n "$port" ]
do
	kill -0 $server
	sleep 0.05
done

# measure SIZES TEST OPTION...
measure()
{
	sizes=$1 test=$2
	shift 2
	# shellcheck disable=SC2086 # a command
	taskset -c 1 ${RUNNER-} "$perf" "$test" 127.0.0.1 -p "$port" --poll \
		-s "$sizes" "$@"
}

for round in 1 2 3
do
	echo "round $round"
	measure 8,64,1K,8K,64K,1M write-lat
	measure 8,64,1K,8K,64K,1M lat
	measure 64,4K,64K,1M write-bw
	measure 64,4K,64K,1M rate
	measure 64,4K,64K,1M bw
	measure 64,1M lat --crc
	measure 64,1M lat --guard
done
