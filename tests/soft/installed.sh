#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: installed.sh BUILDDIR ROOT
#
# rdmamsg-soft from the build tree, from ROOT, which 'make install DESTDIR=ROOT'
# has filled and which this script moves away, and from a directory without the
# library. Prints 'ok NAME' or 'not ok NAME' for each.

set -u

[ $# -eq 2 ] || { sed -n 's/^# \(Usage: \)/\1/p' "$0" >&2; exit 2; }
build=$1 root=$2
source=$(cd "$(dirname "$0")/../.." && pwd)/lib/soft/tools/launcher.c
work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
bin=usr/local/bin/rdmamsg-soft lib=usr/local/lib/rdmamsg
failed=0
unset LD_PRELOAD
RDMAMSG_SOFT_FABRIC=installed-$$
export RDMAMSG_SOFT_FABRIC

# result NAME STATUS
result()
{
	if [ "$2" -eq 0 ]
	then
		echo "ok $1"
	else
		failed=1
		echo "not ok $1"
		sed 's/^/# /' "$work"/said.*
	fi
	rm -f "$work"/said.*
}

# preloads LAUNCHER DIR: the library of DIR, in which the device is found
preloads()
{
	"$1" sh -c 'echo "$LD_PRELOAD"' >"$work/said.path" 2>&1 &&
	[ "$(cat "$work/said.path")" = "$2/libsoft-preload.so" ] &&
	"$1" ibv_devices >"$work/said.devices" 2>&1 &&
	grep -q soft0 "$work/said.devices"
}

# refuses LAUNCHER PATTERN
refuses()
{
	"$1" true >"$work/said.text" 2>&1
	[ $? -eq 125 ] && grep -q "$2" "$work/said.text" &&
	[ "$(wc -l <"$work/said.text")" -eq 1 ]
}

# launcher FILE DIR: one that was configured to find the library in DIR
launcher()
{
	${CC:-cc} -D_GNU_SOURCE -DPACKAGE_VERSION='"0"' -o "$1" \
	    -DBINDIR='"/nowhere/bin"' -DPRELOAD_DIR="\"$2\"" "$source"
}

tree=$(cd "$build/lib/soft" && pwd -P)
preloads "$tree/tools/rdmamsg-soft" "$tree/preload/.libs"
result soft-build-tree $?

root=$(cd "$root" && pwd -P) || exit
preloads "$root/$bin" "$root/$lib"
result soft-staged $?

ln -s "$root/$bin" "$work/link"
preloads "$work/link" "$root/$lib"
result soft-symbolic-link $?

mv "$root" "$work/moved" &&
preloads "$work/moved/$bin" "$(cd "$work" && pwd -P)/moved/$lib"
result soft-moved $?

mkdir "$work/alone" && launcher "$work/alone/rdmamsg-soft" "$work/moved/$lib" &&
preloads "$work/alone/rdmamsg-soft" "$work/moved/$lib"
result soft-configured-path $?

launcher "$work/alone/rdmamsg-soft" /nowhere/lib/rdmamsg &&
refuses "$work/alone/rdmamsg-soft" \
    'libsoft-preload.so is neither in .*preload/.libs nor in /nowhere/lib'
result soft-no-library $?

mv "$work/moved" "$work/moved again" &&
refuses "$work/moved again/$bin" 'no path with a space or a colon'
result soft-path-with-space $?

exit $failed
