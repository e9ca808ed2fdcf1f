#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: run.sh BUILDDIR [ROUNDS]
#
# The same echo in C and in C++ on the soft HCA, in turns, compiled alike. Decides
# no test. Exits with 77 if there is no compiler.

set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$here/../../..
[ $# -ge 1 ] || { sed -n 's/^# \(Usage: \)/\1/p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd)
shift
command -v "${CXX:-c++}" >/dev/null || {
	echo "skip bench-cxx # no ${CXX:-c++}" >&2
	exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${CXX:-c++}" -std=c++17 -O2 -I"$here/../include" -I"$top/include" \
	-o "$work/echo" "$here/echo.cc" "$build/.libs/librdmamsg.so"
LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
    RDMAMSG_DEVICE=soft RDMAMSG_SOFT_FABRIC=bench-$$ \
    taskset -c 1 "$work/echo" "$@"
