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
out=$(mktemp)
trap 'rm -f "$out"' EXIT

verdict()
{
	case $1 in
	0 | 1)	;;
	77)	echo "skip nth # no RDMA device" ;;
	*)	echo "not ok nth: exit status $1" ;;
	esac
	[ "$1" -eq 0 ] || [ "$1" -eq 77 ] || failed=1
}

# Two at a time: mostly they wait for the kernel.
left='' right=''
for scenario
do
	if [ ${#left} -le ${#right} ]
	then left="$left $scenario"
	else right="$right $scenario"
	fi
done
failed=0
# A process that joins the other's fabric costs the other a descriptor meanwhile,
# and descriptors are counted: each has a fabric of its own.
# shellcheck disable=SC2086 # words
RDMAMSG_SOFT_FABRIC=${RDMAMSG_SOFT_FABRIC-}-second "$nth" $left >"$out" 2>&1 &
second=$!
status=0
# without names nth runs all
# shellcheck disable=SC2086 # words
[ -z "$right" ] || "$nth" $right || status=$?
verdict $status
status=0
wait $second || status=$?
cat "$out"
verdict $status
exit $failed
