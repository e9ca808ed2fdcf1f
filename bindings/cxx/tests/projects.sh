#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: projects.sh BUILDDIR
#
# Installs the library of a build in a folder of its own, and makes a project of
# CMake and one of Meson with it, each with its one line for rdmamsg. Skips those
# that are not installed; exits with 77 if none is.

set -u

here=$(cd "$(dirname "$0")" && pwd) || exit
[ $# -eq 1 ] || { sed -n 's/^# \(Usage: \)/\1/p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd) || exit
work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
tried=

# installed_at NAME: prints the folder that has this file
installed_at()
{
	found=$(find "$work/root" -name "$1" | head -n 1)
	echo "${found%/*}"
}

# logged COMMAND...
logged()
{
	"$@" >"$work/log" 2>&1 || {
		cat "$work/log"
		return 1
	}
}

has()
{
	command -v "$1" >/dev/null && return
	echo "skip $1 # $1 is not installed"
	return 1
}

of_cmake()
{
	mkdir -p "$work/cmake" && cat >"$work/cmake/CMakeLists.txt" <<-'END'
	cmake_minimum_required(VERSION 3.18)
	project(echo CXX)
	set(CMAKE_CXX_STANDARD 17)
	find_package(rdmamsg 0.1 REQUIRED)
	add_executable(echo echo.cc)
	target_link_libraries(echo rdmamsg::rdmamsg)
	END
	cp "$here/../samples/echo.cc" "$work/cmake" &&
	logged cmake -S "$work/cmake" -B "$work/cmake/build" \
	    -Drdmamsg_DIR="$(installed_at rdmamsg-config.cmake)" &&
	logged cmake --build "$work/cmake/build" &&
	[ -x "$work/cmake/build/echo" ] && echo "ok cmake"
}

of_meson()
{
	mkdir -p "$work/meson" && cat >"$work/meson/meson.build" <<-'END'
	project('echo', 'cpp', default_options: 'cpp_std=c++17')
	executable('echo', 'echo.cc', dependencies: dependency('rdmamsg'))
	END
	cp "$here/../samples/echo.cc" "$work/meson" &&
	PKG_CONFIG_PATH=$(installed_at rdmamsg.pc) &&
	PKG_CONFIG_SYSROOT_DIR=$work/root &&
	export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR &&
	logged meson setup "$work/meson/build" "$work/meson" &&
	logged meson compile -C "$work/meson/build" &&
	[ -x "$work/meson/build/echo" ] && echo "ok meson"
}

# Programs take long to install, because libtool links them again.
logged make -C "$build" SHELL=/bin/sh DESTDIR="$work/root" \
    install-rdmamsgincludeHEADERS install-rdmamsgcxxHEADERS \
    install-pkgconfigDATA install-cmakeDATA install-libLTLIBRARIES || exit
status=0
if has cmake
then
	tried=1
	of_cmake || status=1
fi
if has meson && has ninja
then
	tried=1
	of_meson || status=1
fi
[ "$tried" ] || exit 77
exit $status
