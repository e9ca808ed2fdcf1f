#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: run.sh BUILDDIR [STANDARD [COMPILER...]]
#
# Compiles the tests of the C++ binding as one program, for c++17 if no other
# standard is named, and runs it on the soft HCA, once for each of the words of
# LINKS ("ethernet ib iwarp"). FILES names tests ("connect messages") if not all
# are wanted. Then the samples run. Prints 'ok NAME', 'not ok NAME' or 'skip
# NAME # reason' for each case. CXXFLAGS are added; a build with a sanitizer is
# tried with that. Exits with 77 if there is no such compiler.

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

flags="${CXXFLAGS:--O0 -g1} $(sh "$here/sanitizer.sh" "$build")"
# shellcheck disable=SC2086 # words
"$@" -std="$standard" $flags -o "$work/try" "$work/try.cc" 2>/dev/null || {
	echo "skip cxx # no compiler '$*' for $standard $flags" >&2
	exit 77
}

# compile COMPILER...: each file alone, two at a time
compile()
{
	# shellcheck disable=SC2016,SC2086 # words
	for name in $files
	do
		echo "$here/$name.cc"
	done | xargs -P 2 -I FILE sh -c 'file=$1 out=$2; shift 2
		"$@" -c -o "$out/$(basename "$file" .cc).o" "$file"' - FILE \
		"$work" "$@" -std="$standard" -Wall -Wextra -Wshadow -Werror \
		-I"$here/../include" -I"$top/include" $flags
}

# sample NAME ARGUMENT...: a server, and a client that must print NAME.out
sample()
{
	name=$1
	shift
	# the file of the sample before is there until the server's shell runs
	rm -f "$work/port"
	"$work/$name" 0 >"$work/port" &
	server=$!
	for try in $(seq 300)
	do
		[ ! -s "$work/port" ] || break
		sleep 0.1
	done
	timeout 60 "$work/$name" 127.0.0.1 "$(cat "$work/port")" "$@" \
		>"$work/out" 2>&1
	sample_status=$?
	kill "$server"
	wait "$server" 2>/dev/null
	if [ $sample_status -eq 0 ] && cmp -s "$work/out" "$here/$name.out"
	then
		echo "ok sample $name"
	else
		cat "$work/out"
		echo "not ok sample $name # $try"
		return 1
	fi
}

samples()
{
	run_samples=echo
	[ "$standard" = c++17 ] || run_samples='echo rpc'
	for name in $run_samples
	do
		# shellcheck disable=SC2086 # words
		"$@" -std="$standard" -Wall -Wextra -Werror $flags \
		    -I"$here/../include" -I"$top/include" -o "$work/$name" \
		    "$here/../samples/$name.cc" \
		    "$build/.libs/librdmamsg.so" || return
	done
	sample echo hello || return
	[ "$standard" = c++17 ] || sample rpc
}

files=${FILES:-$(cd "$here" && echo *.cc | sed 's/\.cc//g')}
case " $files " in
*' main '*) ;;
*)	files="$files main" ;;
esac
# shellcheck disable=SC2086 # words
compile "$@" && "$@" $flags -o "$work/behaviour" "$work"/*.o \
	"$build/.libs/librdmamsg.so" -lpthread || exit 1
export RDMAMSG_DEVICE=soft RDMAMSG_SOFT_FABRIC="cxx-$$"
PATH=$build/lib/soft/tools:$PATH
LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH LD_LIBRARY_PATH

status=0
for link in ${LINKS:-${RDMAMSG_SOFT_LINK:-ethernet}}
do
	RDMAMSG_SOFT_LINK=$link timeout "${TEST_TIMEOUT:-300}" \
	    "$work/behaviour" || {
		status=1
		echo "not ok cxx $standard $*, link $link"
	}
done
samples "$@" || status=1
exit $status
