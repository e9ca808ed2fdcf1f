#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: switches.sh WORKDIR [BUILD...]
#
# Builds the library with each switch of configure, in WORKDIR/BUILD, with
# warnings as errors. Runs the unit tests of each build, and compares what
# 'make install' installs with what the manual and INSTALL promise. Prints a line
# for each: `ok NAME`, `not ok NAME` or `skip NAME # reason`. JOBS is the number
# of jobs of make, by default the processors. The builds:
#
#	debug		--enable-debug
#	without-ev	without libev and the other loops, and without what automake
#			adds to a build
#	static		--disable-shared --enable-static
#	both		--enable-static
#	bare		without the headers that configure can do without

set -u

[ $# -ge 1 ] || { sed -n 's/^# \(Usage: \)/\1/p' "$0" >&2; exit 2; }
top=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1" && work=$(cd "$1" && pwd) || exit
shift
builds='debug without-ev static both bare'
[ $# -gt 0 ] || set -- $builds
jobs=${JOBS:-$(nproc)}
failed=0

# Of autoconf, automake and libtool, and not of interest here. The steps asan
# and tsan of tests/run build with sanitizers, and python-rest makes the wheel.
others='option-checking silent-rules dependency-tracking fast-install
	libtool-lock pic aix-soname gnu-ld sysroot werror sanitizer python'
tried='debug ev event glib uv shared static'
loops='ev event glib uv'

# switches BUILD: sets 'args', and the variables that configure gets
switches()
{
	args='' variables=''
	case $1 in
	debug)	args=--enable-debug ;;
	without-ev)
		args='--without-ev --without-event --without-glib --without-uv
			--disable-dependency-tracking --disable-silent-rules' ;;
	static)	args='--disable-shared --enable-static' ;;
	both)	args=--enable-static ;;
	bare)	variables='ac_cv_have_decl_mlx5dv_wr_set_mkey_crypto=no
			ac_cv_have_decl_IBV_QP_EX_WITH_ATOMIC_WRITE=no
			ac_cv_header_valgrind_memcheck_h=no
			ac_cv_header_sys_sdt_h=no' ;;
	*)	return 1 ;;
	esac
}

# has_shared, has_static BUILD
has_shared()
{
	[ "$1" != static ]
}

has_static()
{
	[ "$1" = static ] || [ "$1" = both ]
}

# loops BUILD: those that the build has a library for. This host may lack others.
loops()
{
	[ "$1" != without-ev ] || return 0
	for loop in $loops
	do
		case " $(value "$1" lib_LTLIBRARIES) " in
		*" librdmamsg-$loop.la "*) echo "$loop" ;;
		esac
	done
}

# has_loop BUILD LOOP
has_loop()
{
	loops "$1" | grep -qx "$2"
}

# ---- the builds -------------------------------------------------------

# step NAME COMMAND...: prints a result, and the end of the log of a failure
step()
{
	name=$1
	shift
	if ("$@") >"$work/$name.log" 2>&1
	then
		echo "ok $name"
		return
	fi
	failed=1
	echo "not ok $name"
	grep -E '(error|warning): ' "$work/$name.log" | head -n 40 | sed 's/^/# /'
	tail -n 20 "$work/$name.log" | sed 's/^/# /'
	return 1
}

# make_in BUILD ARGUMENT...: tests/quick-libtool does what libtool does without
# static libraries.
make_in()
{
	dir=$work/$1
	if has_static "$1"
	then libtool='sh ./libtool'
	else libtool="sh $top/tests/quick-libtool ./libtool"
	fi
	shift
	make -C "$dir" SHELL=/bin/sh LIBTOOL="$libtool" -j"$jobs" "$@"
}

# value BUILD VARIABLE
value()
{
	make -C "$work/$1" -s --no-print-directory \
	    --eval="print-it: ; @echo \$($2)" print-it
}

# units BUILD VARIABLE: those words of the variable that are unit tests
units()
{
	value "$1" "$2" | tr ' ' '\n' | grep '^tests/unit/' | tr '\n' ' '
}

compile()
{
	mkdir -p "$work/$1" && cd "$work/$1" || return
	# with CFLAGS, --enable-debug does not choose its own
	[ "$1" != debug ] || unset CFLAGS
	# shellcheck disable=SC2086 # words
	[ -e Makefile ] || env $variables "$top/configure" --enable-werror \
		--prefix=/usr/local $args || return
	make_in "$1" &&
	make_in "$1" check check_PROGRAMS="$(units "$1" check_PROGRAMS)" \
		check_LTLIBRARIES= TESTS=
}

# Prints a line for each unit test.
run_units()
{
	wanted=$(units "$1" TESTS)
	[ -n "$wanted" ] || {
		failed=1
		echo "not ok $1-units # there are none"
		return
	}
	for one in $wanted
	do
		rm -f "$work/$1/$one.trs"
	done
	# they wait most of the time
	make_in "$1" check -k -j$((2 * jobs)) check_PROGRAMS="$wanted" \
	    check_LTLIBRARIES= TESTS="$wanted" >"$work/$1-units.log" 2>&1
	for one in $wanted
	do
		result "$1-${one#tests/unit/}" "$work/$1/$one"
	done
}

# result NAME PATH: prints the result that automake has written beside PATH.
result()
{
	case $(sed -n 's/^:test-result: //p' "$2.trs" 2>/dev/null) in
	PASS)	echo "ok $1" ;;
	SKIP)	echo "skip $1 # $(grep -v '^# took\|^SKIP ' "$2.log" |
			tail -n 1)" ;;
	*)	failed=1
		echo "not ok $1"
		sed 's/^/# /' "$2.log" ;;
	esac
}

# ---- what is installed ------------------------------------------------

# Prints each file that the manual and INSTALL promise, without its prefix.
promised()
{
	(
		cd "$top" || exit
		for header in include/rdmamsg/*.h
		do
			loop=$(basename "$header" .h)
			case " $loops " in
			*" $loop "*) has_loop "$1" "$loop" ;;
			esac && echo "$header"
		done
		find bindings/cxx/include -name '*.hpp' | sed 's,^bindings/cxx/,,'
		printf 'lib/cmake/rdmamsg/rdmamsg-config%s.cmake\n' '' -version
		echo lib/pkgconfig/rdmamsg.pc
		library "$1" rdmamsg
		for loop in $(loops "$1")
		do
			echo "lib/pkgconfig/rdmamsg-$loop.pc"
			library "$1" "rdmamsg-$loop"
		done
		! has_shared "$1" || echo lib/rdmamsg/libsoft-preload.so
		# each program has a page, and each page a program
		for page in man/man1/*.1
		do
			program=$(basename "$page" .1)
			[ "$program" = rdmamsg-soft ] && ! has_shared "$1" || {
				echo "bin/$program"
				echo "share/$page"
			}
		done
		for page in man/man3/*.3 man/man7/*.7
		do
			case $page in
			man/man3/rdmamsg_ev_*) has_loop "$1" ev ;;
			man/man3/rdmamsg_glib_*) has_loop "$1" glib ;;
			man/man3/rdmamsg_libevent_*) has_loop "$1" event ;;
			man/man3/rdmamsg_uv_*) has_loop "$1" uv ;;
			esac && echo "share/$page"
		done
	) | sort
}

# library BUILD NAME
library()
{
	! has_static "$1" || echo "lib/lib$2.a"
	! has_shared "$1" ||
		printf '%s\n' "lib/lib$2.so" "lib/lib$2.so.0" \
			"lib/lib$2.so.0.0.0"
}

# Installs, and compares. What libtool writes for itself is not promised.
install_it()
{
	rm -rf "$work/$1-root" &&
	make -C "$work/$1" SHELL=/bin/sh install DESTDIR="$work/$1-root" || return
	promised "$1" >"$work/$1-promised"
	(cd "$work/$1-root/usr/local" && find . ! -type d ! -name '*.la' |
		sed 's,^\./,,' | sort) >"$work/$1-installed"
	echo 'promised (-) and installed (+):'
	diff -u "$work/$1-promised" "$work/$1-installed" || return
	use_it "$1"
}

# A program that links with the installed library finds the soft HCA in it.
use_it()
{
	root=$work/$1-root
	static=''
	has_shared "$1" || static=--static
	cat >"$work/use.c" <<\END
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <stdio.h>

int main(void)
{
	struct rdmamsg_device_attr d = { .size = sizeof(d) };
	struct rdmamsg *ctx;

	if (rdmamsg_open(&ctx, NULL) || rdmamsg_device_query("soft0", &d)) {
		fprintf(stderr, "%s\n", rdmamsg_error());
		return 1;
	}
	rdmamsg_close(ctx);
	return 0;
}
END
	PKG_CONFIG_PATH=$root/usr/local/lib/pkgconfig
	PKG_CONFIG_SYSROOT_DIR=$root
	export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
	# shellcheck disable=SC2046,SC2086 # flags are words
	${CC:-cc} -o "$root/use" "$work/use.c" \
	    $(pkg-config $static --cflags --libs rdmamsg) || return
	LD_LIBRARY_PATH=$root/usr/local/lib RDMAMSG_DEVICE=soft "$root/use" || return
	for loop in $(loops "$1")
	do
		# shellcheck disable=SC2046,SC2086 # flags are words
		${CC:-cc} -o "$root/$loop-loop" "$top/samples/$loop-loop.c" \
		    $(pkg-config $static --cflags --libs "rdmamsg-$loop") \
		    $(env -u PKG_CONFIG_SYSROOT_DIR \
			pkg-config --cflags "rdmamsg-$loop") \
		    -Wl,-rpath-link,"$root/usr/local/lib" || return
	done
}

# --enable-debug is without optimisation, and with assertions.
check_debug()
{
	case " $(value debug CFLAGS) " in
	*' -O0 '*) ;;
	*)	echo "CFLAGS of --enable-debug: $(value debug CFLAGS)"
		return 1 ;;
	esac
	value debug PRIVATE_CPPFLAGS | grep -- -DRDMAMSG_DEBUG
}

# ---- the switches -----------------------------------------------------

# Each switch that configure names is tried, or is one of the others.
check_known()
{
	for switch in $(cd "$work" && "$top/configure" --help | sed -n \
		's/^  --\(disable\|enable\|with\|without\)-\([a-z-]*\).*/\2/p')
	do
		case " $(echo $others $tried) " in
		*" $switch "*) ;;
		*)	echo "no build tries $switch"
			return 1 ;;
		esac
	done
}

step all-of-them check_known || :
for build
do
	if ! switches "$build"
	then
		failed=1
		echo "not ok $build # unknown; there are: $builds"
		continue
	fi
	step "$build" compile "$build" || continue
	[ "$build" != debug ] || step debug-flags check_debug || :
	run_units "$build"
	step "$build-install" install_it "$build" || :
done
exit $failed
