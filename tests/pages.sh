#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: pages.sh BUILDDIR
#
# Runs unit tests, and integration programs on the soft HCA, as on a kernel with
# pages of 64 KB: tests/pages.c is preloaded. Prints a line for each: `ok NAME`,
# `not ok NAME` or `skip NAME # reason`.

set -u

[ $# -eq 1 ] || { sed -n 's/^# \(Usage: \)/\1/p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd) || exit
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
shim=$work/pages.so
failed=0

if [ "$(getconf PAGESIZE)" != 4096 ]
then
	echo "skip pages # this kernel's pages have $(getconf PAGESIZE) bytes"
	exit
fi
${CC:-cc} -D_GNU_SOURCE -O1 -Wall -Wextra -shared -fPIC -o "$shim" \
    "$here/pages.c" || exit
if [ "$(LD_PRELOAD=$shim getconf PAGESIZE)" != 65536 ]
then
	echo 'not ok pages # tests/pages.c is not preloaded'
	exit 1
fi

# unit NAME: runs a unit test in a fabric of its own
unit()
{
	if RDMAMSG_SOFT_FABRIC=pages-$$-$1 LD_PRELOAD=$shim \
	    "$build/tests/unit/$1" >"$work/out" 2>&1
	then
		echo "ok $1"
	else
		case $? in
		77)	echo "skip $1 # $(tail -n 1 "$work/out")"
			return ;;
		esac
		failed=1
		echo "not ok $1"
		sed 's/^/# /' "$work/out"
	fi
}

ran=0
for folder in base/object memory soft
do
	for source in "$here/unit/$folder.c" "$here/unit/$folder"/*.c
	do
		name=${source#"$here/unit/"}
		name=${name%.c}
		# some files are parts of others
		[ -f "$build/tests/unit/$name" ] || continue
		ran=1
		unit "$name"
	done
done
[ $ran -eq 1 ] || { echo 'not ok pages # no unit test is built'; exit 1; }

LD_PRELOAD=$shim sh "$here/integration/soft.sh" "$build" messages memory \
    connect rma srq pool stats || failed=1
# below libibverbs, in which pages matter as well
RDMAMSG_VM_ADDR=127.0.0.1 RDMAMSG_VM_HOST=localhost LD_PRELOAD=$shim \
    "$build/lib/soft/tools/rdmamsg-soft" \
    sh "$here/integration/soft.sh" "$build" messages memory || failed=1
exit $failed
