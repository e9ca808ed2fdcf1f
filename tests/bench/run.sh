#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: run.sh pairs|topics [OPTION...]
#
# Runs pairs.py or topics.py with these options on the RDMA device of this host
# or, without one, in a virtual machine. PAIRS is the number of rounds, 7 by
# default. The figures are in a file of tests/bench in the build directory as
# well: results.json or topics.json.

set -eu

here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${builddir:-.}" && pwd)
results=$build/tests/bench
what=$1
shift
case $what in
pairs)	file=$results/results.json subject=$build/samples/rdmamsg-perf ;;
topics)	file=$results/topics.json subject=$build ;;
*)	echo "run.sh: pairs or topics, not '$what'" >&2
	exit 2 ;;
esac
PAIRS=${PAIRS:-7}

# Soft-RoCE or not, an address of it is needed: that of its network device.
local_device()
{
	rdma link show 2>/dev/null |
		sed -n 's/^link \([^/]*\)\/.* state ACTIVE .*netdev \([^ ]*\).*/\1 \2/p' |
	while read -r device netdev
	do
		address=$(ip -4 -o addr show dev "$netdev" |
			  sed -n 's/.* inet \([^/]*\).*/\1/p' | head -n 1)
		[ -z "$address" ] || echo "$address $device"
	done | head -n 1
}

for tool in ib_send_lat fi_pingpong rstream
do
	command -v "$tool" >/dev/null || {
		echo "run.sh: $tool is missing: install perftest," \
		     "libfabric-bin and rdmacm-utils" >&2
		exit 77
	}
done
mkdir -p "$results"
set -- python3 "$here/$what.py" -n "$PAIRS" -o "$file" "$@"

device=$(local_device)
if [ -n "$device" ]
then
	# shellcheck disable=SC2086 # two words
	exec "$@" "$subject" $device
fi
status=0
sh "$here/../vm/run" -t $((600 + PAIRS * 300)) -n "$results" -- \
	"$@" "$subject" 10.9.0.1 rxe0 || status=$?
# Soft-RoCE warns when rstream lets go of its memory (rxe_pool.c:255)
if [ $status -eq 125 ] && [ -s "$file" ]
then
	echo "run.sh: the figures are there, whatever the kernel said" >&2
	status=0
fi
exit $status
