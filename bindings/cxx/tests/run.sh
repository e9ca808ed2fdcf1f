#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: run.sh BUILDDIR [STANDARD [COMPILER...]]
#
# Compiles the tests of the C++ binding as one program, for c++17 if no other
# standard is named, and runs it on the soft HCA. Prints 'ok NAME', 'not ok
# NAME' or 'skip NAME # reason' for each case. CXXFLAGS are added. Exits with 77
# if there is no such compiler.

set -u

here=$(cd "$(dirname "$0")" && pwd) || exit
top=$here/../../..
[ $# -ge 1 ] || { sed -n 's/^# \(Usage: \)/\1/p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd) || exit
standard=${2:-c++17}
shift
[ $# -eq 0 ] || shift
# shellcheck disable=SC2086 # words
[ $# -gt 0 ] || set -- ${CXX:-c++}

work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
echo '#include <optional>
int main() { return std::optional<int>(0).value(); }' >"$work/try.cc"
"$@" -std="$standard" -o "$work/try" "$work/try.cc" 2>/dev/null || {
	echo "skip: no compiler of $standard" >&2
	exit 77
}

# compile COMPILER...: each file alone, two at a time
compile()
{
	# shellcheck disable=SC2016,SC2086 # words
	ls "$here"/*.cc | xargs -P 2 -I FILE sh -c 'file=$1 out=$2; shift 2
		"$@" -c -o "$out/$(basename "$file" .cc).o" "$file"' - FILE \
		"$work" "$@" -std="$standard" -Wall -Wextra -Wshadow -Werror \
		-I"$here/../include" -I"$top/include" ${CXXFLAGS:--O1 -g}
}

# shellcheck disable=SC2086 # words
compile "$@" && "$@" ${CXXFLAGS:--O1 -g} -o "$work/behaviour" "$work"/*.o \
	"$build/.libs/librdmamsg.so" -lpthread || exit 1
export RDMAMSG_DEVICE=soft RDMAMSG_SOFT_FABRIC="cxx-$$"
PATH=$build/lib/soft/tools:$PATH
LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH LD_LIBRARY_PATH
# shellcheck disable=SC2086 # words
timeout 300 "$work/behaviour" ${CASES:-}
