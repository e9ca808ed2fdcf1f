#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: run.sh BUILDDIR [TEST...]
#
# Builds the module beside a copy of the package and runs the tests of the Python
# binding, or those that are named ("test_aio", "test_aio.Send"), on the soft HCA
# in a fabric of its own; "bench" and its options run bench.py. A build with
# AddressSanitizer is run with it, and so is what the binding adds in C. Exits
# with 77 and the reason if Python lacks cffi.

here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-/usr/bin/python3}
[ $# -gt 0 ] || { sed -n 's/^# Usage: //p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd) || exit
shift

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
	echo "skip python # no Python 3.11" >&2
	exit 77
}
"$python" -c 'import cffi, setuptools' 2>/dev/null || {
	echo "skip python # Python has no cffi or setuptools" >&2
	exit 77
}

preload=
if grep -q __asan_init "$build/.libs/librdmamsg.so"
then
	preload=$(${CC:-cc} -print-file-name=libasan.so)
	# CPython keeps much until its end
	export CFLAGS='-g -fsanitize=address' ASAN_OPTIONS=detect_leaks=0
	export PYTHONMALLOC=malloc
fi
work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cp -R "$here/../." "$work/source" || exit
(
	cd "$work/source" || exit
	RDMAMSG_SOURCE=$here/../../.. RDMAMSG_BUILD=$build \
	    "$python" setup.py -q build --build-base "$work/build" \
	    --build-lib "$work/lib"
) >"$work/log" 2>&1 || {
	cat "$work/log"
	exit 1
}

export RDMAMSG_DEVICE=soft RDMAMSG_SOFT_FABRIC="python-$$"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$work/lib:$work/source/tests"
PATH=$build/lib/soft/tools:$PATH
LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH LD_LIBRARY_PATH
cd "$work/source/tests" || exit
if [ "${1-}" = bench ]
then
	shift
	"$python" bench.py "$@"
	exit
fi
[ $# -gt 0 ] || set -- discover -b
# a test that hangs shows where
timeout -s ABRT "${TEST_TIMEOUT:-120}" \
    env ${preload:+"LD_PRELOAD=$preload"} "$python" -X dev -W error::ResourceWarning \
    -m unittest "$@"
