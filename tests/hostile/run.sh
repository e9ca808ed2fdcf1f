#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: run.sh BUILDDIR
#
# Peers that break every rule, inside a machine with a device. One line for
# each case; the exit status tells whether any failed.

set -eu

[ $# -eq 1 ] || { sed -n 's/^# //; 4p' "$0" >&2; exit 2; }

failed=0
for side in client server client-srq server-srq
do
	echo "# hostile $side"
	status=0
	case $side in
	*-srq)	TEST_SRQ=1
		export TEST_SRQ
		;;
	esac
	"$1/tests/hostile/${side%-srq}" || status=$?
	case $status in
	0)	;;
	1)	failed=1 ;;
	77)	echo "skip hostile $side # no RDMA device" ;;
	*)	echo "not ok hostile $side: exit status $status"
		failed=1 ;;
	esac
done
exit $failed
