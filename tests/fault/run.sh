#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: run.sh BUILDDIR
#
# Every call below the library fails once, inside a machine with a device.
# One line for each case; the exit status tells whether any failed.

set -eu

[ $# -eq 1 ] || { sed -n 's/^# //; 4p' "$0" >&2; exit 2; }

status=0
"$1/tests/fault/nth" || status=$?
case $status in
0 | 1)	exit $status ;;
77)	echo "skip nth # no RDMA device" ;;
*)	echo "not ok nth: exit status $status"
	exit 1 ;;
esac
