#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: run.sh BUILDDIR
#
# Every call below the library fails once, inside a machine with a device.
# One line for each case; the exit status tells whether any failed.

set -eu

[ $# -eq 1 ] || { sed -n 's/^# //; 4p' "$0" >&2; exit 2; }

nth=$1/tests/fault/nth
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
failed=0
"$nth" exchange late rma rma-abort starve pool pool-exchange pd close-behind teardown async qp-fatal removed \
	oob-move oob-close oob-teardown srq-open srq-exchange srq-keep srq-own-cq revoke >"$out" 2>&1 &
second=$!
status=0
"$nth" open listen connect name move keep keep-longer close abort \
	qp oob-listen oob srq-connect srq-abort srq-teardown || status=$?
verdict $status
status=0
wait $second || status=$?
cat "$out"
verdict $status
exit $failed
