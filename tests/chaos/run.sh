#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: run.sh BUILDDIR [OPTION...]
#
# Runs chaos with these options (see chaos --help): in the test machine on the
# kernel's device, elsewhere on the soft HCA, in a fabric of its own.

set -eu

[ $# -ge 1 ] || { sed -n 's/^# //; 4p' "$0" >&2; exit 2; }

build=$1
shift
[ -z "${RDMAMSG_VM:-}" ] || exec "$build/tests/chaos/chaos" "$@"
# the library that is preloaded does without the sanitizer of the program
RDMAMSG_SOFT_FABRIC=chaos-$$ RDMAMSG_VM_ADDR=127.0.0.1
ASAN_OPTIONS=verify_asan_link_order=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
export RDMAMSG_SOFT_FABRIC RDMAMSG_VM_ADDR ASAN_OPTIONS
exec "$build/lib/soft/tools/rdmamsg-soft" "$build/tests/chaos/chaos" "$@"
