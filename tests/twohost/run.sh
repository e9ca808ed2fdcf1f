#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: run.sh [-s] [-b BUILDDIR] [-x CASES] BUILDDIR [CASE...]
#
# Tests between two machines, each with two networks; with -s without machines,
# as processes on the soft HCA: a line for each case,
# `ok NAME`, `not ok NAME` or `skip NAME # reason`, the log of a failed one after
# it. TWOHOST_VERBOSE shows all logs, with the times that were measured. -b names
# the build whose programs run on machine b, by default the same; -x names cases to
# leave out, in one word.

set -eu
here=$(cd "$(dirname "$0")" && pwd)
on='' except='' build_b=''
while getopts sb:x: option
do
	case $option in
	s)	on=soft ;;
	b)	build_b=$(cd "$OPTARG" && pwd) ;;
	x)	except=" $OPTARG " ;;
	*)	sed -n 's/^# //; 4p' "$0" >&2
		exit 2 ;;
	esac
done
shift $((OPTIND - 1))
build=$(cd "$1" && pwd)
build_b=${build_b:-$build}
shift
only=$*
VM_SRC=${VM_SRC:-$here/../vm}
# shellcheck source=../vm/lib.sh
. "$VM_SRC/lib.sh"
# shellcheck source=lib.sh
. "$here/lib.sh"

work=$(mktemp -d)
if [ -n "$on" ]
then
	# shellcheck source=soft.sh
	. "$here/$on.sh"
fi
trap 'vm_stop_all || :; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

for machine in a b
do
	status=0
	vm_start $machine || status=$?
	if [ $status -eq 77 ]
	then
		echo 'skip twohost # no virtual machine, see above'
		exit 77
	fi
	[ $status -eq 0 ] || exit $status
done

for cases in basic samples doctor conform topic link cut loss stop vanish remove \
	failover versions chaos
do
	# shellcheck source=/dev/null
	. "$here/cases/$cases"
done

# A kernel that complains a second time, or at its end, is a failure too.
only='' renewed=1
check "${on:-kernel}_b" vm_stop b
check "${on:-kernel}_a" vm_stop a
[ $failures -eq 0 ]
