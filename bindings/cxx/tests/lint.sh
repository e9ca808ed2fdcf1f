#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: lint.sh [STANDARD...]
#
# The headers and samples of the C++ binding with all warnings of clang but those
# that are named here, in each standard, and with clang-tidy. Skips what is not
# installed; exits with 77 if neither is.

set -u

here=$(cd "$(dirname "$0")" && pwd) || exit
top=$here/../../..
[ $# -gt 0 ] || set -- c++17 c++20 c++23
work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# newest NAME: the newest installed version of a program of LLVM
newest()
{
	for program in "$1-19" "$1"
	do
		if command -v "$program" >/dev/null
		then
			echo "$program"
			return
		fi
	done
}

# Warnings that are off:
# - of C++98 and of standards before the one that is compiled for
# - padding and layout, of which classes have some
# - pointers that the C interface gives with a length, and its enumerations,
#   which may have values of later versions
# - destructors that g++ writes out of line anyway
quiet='-Wno-c++98-compat -Wno-c++98-compat-pedantic -Wno-pre-c++17-compat
	-Wno-pre-c++20-compat-pedantic -Wno-c++20-compat -Wno-padded
	-Wno-unsafe-buffer-usage -Wno-weak-vtables -Wno-unknown-warning-option
	-Wno-switch-default'
include="-I$here/../include -isystem $top/include"

status=0 tried=
clang=$(newest clang++)
tidy=$(newest clang-tidy)
echo '#include <rdmamsg/rdmamsg.hpp>' >"$work/header.cc"
for standard
do
	for file in "$work/header.cc" "$here"/../samples/*.cc
	do
		case $standard:$file in
		c++17:*/rpc.cc)	continue ;;
		esac
		[ "$clang" ] || continue
		tried=1
		# shellcheck disable=SC2086 # words
		"$clang" -std="$standard" -Weverything -Werror $quiet $include \
		    -fsyntax-only "$file" || {
			status=1
			echo "not ok $clang $standard ${file##*/}"
		}
	done
done
for file in "$here"/../samples/*.cc
do
	[ "$tidy" ] || continue
	tried=1
	# shellcheck disable=SC2086 # words
	"$tidy" --quiet --config-file="$here/../.clang-tidy" "$file" -- \
	    -std=c++20 $include || {
		status=1
		echo "not ok $tidy ${file##*/}"
	}
done
[ "$tried" ] || {
	echo "skip lint # neither clang++ nor clang-tidy is installed" >&2
	exit 77
}
[ $status -ne 0 ] || echo "ok lint"
exit $status
