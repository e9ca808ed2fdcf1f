#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: soft.sh BUILDDIR [PROGRAM...]
#
# Like run.sh, on the soft HCA: on any host, without a machine, in a fabric of
# its own.

here=$(dirname "$0")
export RDMAMSG_DEVICE=soft RDMAMSG_SOFT_FABRIC="test-$$"
export RDMAMSG_VM_ADDR=127.0.0.1 RDMAMSG_VM_ADDR6=::1
export RDMAMSG_VM_DEVICE=soft0 RDMAMSG_VM_HOST=localhost
[ $# -eq 1 ] || exec sh "$here/run.sh" "$@"

# Programs that mostly wait run beside the others, each in its own fabric.
patient='idle death dead credits'
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
trap 'exit 1' HUP INT TERM

# aside PROGRAM...
aside()
{
	RDMAMSG_SOFT_FABRIC=$1-$$
	sh "$here/run.sh" "$build" "$@" >"$out/$1" 2>&1
}

build=$1
aside idle &
idle=$!
aside death dead credits &
others=$!
status=0
# shellcheck disable=SC2046 # words
sh "$here/run.sh" "$build" $(sh "$here/run.sh" -l | tr ' ' '\n' |
	grep -vxF "$(echo "$patient" | tr ' ' '\n')") || status=$?
wait $idle || status=$?
wait $others || status=$?
cat "$out"/*
exit $status
