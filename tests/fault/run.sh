#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: run.sh BUILDDIR [SCENARIO...]
#
# Every call below the library fails once, where there is a device. One line for
# each case; the exit status tells whether any failed.

set -eu

[ $# -ge 1 ] || { sed -n 's/^# //; 4p' "$0" >&2; exit 2; }

nth=$1/tests/fault/nth
shift
# shellcheck disable=SC2046 # words
[ $# -gt 0 ] || set -- $("$nth" -l)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# Several at a time: mostly they wait. A process that joins another's fabric costs
# that one a descriptor meanwhile, and descriptors are counted: each way has a
# fabric of its own.
ways=$((2 * $(nproc)))
fabric=${RDMAMSG_SOFT_FABRIC-}
way=0 pids=
while [ $way -lt $ways ]
do
	turn=0 scenarios=
	for scenario
	do
		[ $((turn % ways)) -ne $way ] || scenarios="$scenarios $scenario"
		turn=$((turn + 1))
	done
	way=$((way + 1))
	# without names nth runs all
	[ -n "$scenarios" ] || break
	# shellcheck disable=SC2086 # words
	RDMAMSG_SOFT_FABRIC=$fabric-$way "$nth" $scenarios >"$out/$way" 2>&1 &
	pids="$pids $!"
done

failed=0 way=0
for pid in $pids
do
	status=0
	wait "$pid" || status=$?
	way=$((way + 1))
	cat "$out/$way"
	case $status in
	0 | 1)	;;
	77)	echo "skip nth # no RDMA device" ;;
	*)	echo "not ok nth: exit status $status" ;;
	esac
	[ $status -eq 0 ] || [ $status -eq 77 ] || failed=1
done
exit $failed
