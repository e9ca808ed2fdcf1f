#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: soft.sh BUILDDIR [PROGRAM...]
#
# Like run.sh, on the soft HCA: on any host, without a machine. The programs
# mostly wait: some run beside each other, each in a fabric of its own.

export RDMAMSG_DEVICE=soft RDMAMSG_SOFT_FABRIC="test-$$"
export RDMAMSG_VM_ADDR=127.0.0.1 RDMAMSG_VM_ADDR6=::1
export RDMAMSG_VM_DEVICE=soft0 RDMAMSG_VM_HOST=localhost
run=$(dirname "$0")/run.sh

[ $# -ne 0 ] && [ $# -ne 2 ] || exec sh "$run" "$@"
build=$1
shift
# shellcheck disable=SC2046 # words
[ $# -gt 0 ] || set -- $(sh "$run" -l)
# shellcheck disable=SC2016 # for the inner shell
printf '%s\n' "$@" | xargs -P 3 -n 1 sh -c '
	out=$(sh "$0" "$1" "$2")
	status=$?
	printf "%s\n" "$out"
	exit $status
' "$0" "$build"
