#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: cross.sh WORKDIR [ARCHITECTURE...]
#
# Compiles the library and its unit tests for other architectures, by default
# arm64, s390x and riscv64, each in a fresh root of Debian 12, or 13 for riscv64:
# WORKDIR/ARCHITECTURE. What an emulated program can show runs there: the unit
# tests of lib/base and lib/wire. Prints a line for each: `ok NAME`, `not ok NAME`
# or `skip NAME # reason`. A root with its compiler stays for the next run. JOBS
# is the number of jobs of make, by default the processors, MIRROR the archive.

set -u

[ $# -ge 1 ] || { sed -n 's/^# \(Usage: \)/\1/p' "$0" >&2; exit 2; }
top=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1" && work=$(cd "$1" && pwd) || exit
shift
[ $# -gt 0 ] || set -- arm64 s390x riscv64
jobs=${JOBS:-$(nproc)}
tools='make autoconf automake libtool pkg-config qemu-user'
libraries='libc6-dev libibverbs-dev librdmacm-dev libssl-dev libcmocka-dev'
failed=0

# Prints the archive: $MIRROR, or the one that this system uses
mirror()
{
	[ -z "${MIRROR-}" ] || { echo "$MIRROR"; return; }
	apt-get indextargets --format '$(REPO_URI)' | grep -v security |
		head -n 1
}

# root ARCHITECTURE: makes the root
# shellcheck disable=SC2317 # step calls it
root()
{
	suite=bookworm
	[ "$1" != riscv64 ] || suite=trixie
	packages="$tools gcc-$triplet"
	for library in $libraries
	do
		packages="$packages $library:$1"
	done
	# updates do not have each version for each architecture
	rm -rf "${work:?}/$1" &&
	mmdebstrap --variant=apt --architectures="$(dpkg --print-architecture),$1" \
	    --include="$packages" "$suite" "$work/$1" \
	    "deb $(mirror) $suite main" &&
	: >"$work/$1/complete"
}

# The files that git knows, with their changes.
copy_source()
{
	rm -rf "$1/src" && mkdir "$1/src" && cd "$top" &&
	git ls-files -z | tar -c --null -T - | tar -x -C "$1/src"
}

# in_root ROOT: runs the script on stdin there
in_root()
{
	chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
	    CONFIG_SHELL=/bin/sh triplet="$triplet" emulator="$emulator" \
	    jobs="$jobs" sh -eu
}

# shellcheck disable=SC2317 # step calls it
compile()
{
	in_root "$1" <<\END
cd /src
sh autogen.sh
rm -rf /build
mkdir /build
cd /build
PKG_CONFIG=/usr/bin/$triplet-pkg-config
[ -x "$PKG_CONFIG" ] || {
	PKG_CONFIG=/usr/bin/pkg-config
	export PKG_CONFIG_LIBDIR=/usr/lib/$triplet/pkgconfig:/usr/share/pkgconfig
}
export PKG_CONFIG
/src/configure --host="$triplet" --without-ev --enable-werror CFLAGS='-O1 -g1'
units=$(make -s --no-print-directory \
    --eval='print-it: ; @echo $(check_PROGRAMS)' print-it |
	tr ' ' '\n' | grep ^tests/unit/ | tr '\n' ' ')
quick='sh /src/tests/quick-libtool ./libtool'
make SHELL=/bin/sh LIBTOOL="$quick" -j"$jobs"
make SHELL=/bin/sh LIBTOOL="$quick" -j"$jobs" check_PROGRAMS="$units" TESTS= check
END
}

# Prints a line for each program.
emulate()
{
	in_root "$1" <<\END
cd /build
bad=0 ran=0

# skipped NAME: prints a line for each test that the program has skipped
skipped()
{
	awk -v name="$1" '
		/^skip: / { reason[++reasons] = substr($0, 7) }
		/^\[  SKIPPED \] [a-z_]+__/ && !seen[$4]++ {
			print "skip " name ": " $4 " # " reason[++skips]
		}' out
}

for test in tests/unit/base/* tests/unit/wire/*
do
	[ -f "$test" ] && [ -x "$test" ] || continue
	ran=1 status=0
	srcdir=/src builddir=. timeout 600 "$emulator" "$test" >out 2>&1 || status=$?
	name=${triplet%%-*}-${test#tests/unit/}
	case $status in
	0)	echo "ok $name"
		skipped "$name" ;;
	77)	echo "skip $name # $(tail -n 1 out)" ;;
	*)	bad=1
		echo "not ok $name"
		sed 's/^/# /' out ;;
	esac
done
[ $ran -eq 1 ] || echo 'not ok emulated # no unit test is built'
[ $ran -eq 1 ] && [ $bad -eq 0 ]
END
}

# step NAME COMMAND...: prints a result, and the end of the log of a failure
step()
{
	name=$1
	shift
	"$@" >"$work/$name.log" 2>&1 && return
	failed=1
	echo "not ok $name"
	grep -E '(error|warning): ' "$work/$name.log" | head -n 40 | sed 's/^/# /'
	tail -n 20 "$work/$name.log" | sed 's/^/# /'
	return 1
}

for needed in mmdebstrap git
do
	command -v "$needed" >/dev/null && continue
	echo "skip cross # $needed is not installed"
	exit
done
if [ "$(id -u)" -ne 0 ]
then
	echo 'skip cross # a fresh root needs root'
	exit
fi

for arch
do
	case $arch in
	arm64)	triplet=aarch64-linux-gnu emulator=qemu-aarch64 ;;
	s390x)	triplet=s390x-linux-gnu emulator=qemu-s390x ;;
	riscv64)
		triplet=riscv64-linux-gnu emulator=qemu-riscv64 ;;
	*)	echo "not ok $arch # unknown"
		failed=1
		continue ;;
	esac
	[ -e "$work/$arch/complete" ] || step "$arch-root" root "$arch" ||
		continue
	copy_source "$work/$arch" || exit
	step "$arch" compile "$work/$arch" || continue
	echo "ok $arch"
	emulate "$work/$arch" || failed=1
done
exit $failed
