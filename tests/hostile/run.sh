#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: run.sh BUILDDIR [SIDE...]
#
# Peers that break every rule, inside a machine with a device. One line for
# each case; the exit status tells whether any failed. A SIDE is a program, and
# perhaps the depth of a shared receive queue, as in client-4096, or -shared: the
# victim listens with RDMAMSG_LISTEN_SHARED.

set -eu

[ $# -ge 1 ] || { sed -n 's/^# //; 4p' "$0" >&2; exit 2; }
build=$1
shift
[ $# -gt 0 ] || set -- client server client-4096 server-4096 client-64 \
	client-shared crowd crowd-256 crowd-4096 crowd-shared strangers

failed=0
for side
do
	echo "# hostile $side"
	status=0
	TEST_SRQ=${side#*-}
	unset TEST_SHARED
	case $side in
	*-shared)
		unset TEST_SRQ
		export TEST_SHARED=1 ;;
	*-*)	export TEST_SRQ ;;
	*)	unset TEST_SRQ ;;
	esac
	# the crowd and the innocent client at one address
	case $side in
	crowd-4096)	TEST_INNOCENT=${RDMAMSG_VM_ADDR:-10.9.0.1}
			export TEST_INNOCENT ;;
	esac
	began=$(date +%s)
	case $side in
	strangers)	# the soft HCA within the library, in a fabric of its own
		LD_PRELOAD='' RDMAMSG_DEVICE=soft \
		RDMAMSG_SOFT_FABRIC="strangers-$$" \
		    "$build/tests/hostile/$side" || status=$? ;;
	*)	"$build/tests/hostile/${side%-*}" || status=$? ;;
	esac
	echo "# took $(($(date +%s) - began)) $side"
	case $status in
	0)	;;
	1)	failed=1 ;;
	77)	echo "skip hostile $side # no RDMA device" ;;
	*)	echo "not ok hostile $side: exit status $status"
		failed=1 ;;
	esac
done
exit $failed
