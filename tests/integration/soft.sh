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
[ $# -ne 2 ] || exec sh "$here/run.sh" "$@"

# Programs that mostly wait run beside the others, each row in its own fabric.
row1='idle'
row2='death ends killed dead credits'
row3='dc_onesided_native wait announce strangers connect team_leave'
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
trap 'exit 1' HUP INT TERM

# some PROGRAM...: runs them, if there are any
some()
{
	[ $# -eq 0 ] || sh "$here/run.sh" "$build" "$@"
}

# lines WORD...: prints each in its line
lines()
{
	printf '%s\n' "$@"
}

# aside PROGRAM...: runs those of the programs that are wanted
aside()
{
	RDMAMSG_SOFT_FABRIC=$1-$$
	# shellcheck disable=SC2046,SC2086 # words
	some $(lines "$@" | grep -xF "$(lines $wanted)") >"$out/$1" 2>&1
}

build=$1
shift
[ $# -gt 0 ] || set -- "$(sh "$here/run.sh" -l)"
wanted=$*
rows=
for row in "$row1" "$row2" "$row3"
do
	# shellcheck disable=SC2086 # words
	aside $row &
	rows="$rows $!"
done
status=0
# shellcheck disable=SC2046,SC2086 # words
some $(lines $wanted | grep -vxF "$(lines $row1 $row2 $row3)") || status=$?
for row in $rows
do
	wait "$row" || status=$?
done
cat "$out"/*
exit $status
