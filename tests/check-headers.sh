#! /bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Each public header compiles alone, as C99, C11 and C++11, without a warning of
# a strict program, with the compilers that are there; structs are set in C++ as
# rdmamsg(7) shows; and the headers include little.

srcdir=${srcdir:-.}
CC=${CC:-cc}
inc=$srcdir/include

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
bad=0
warn="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"

compile()
{
	what=$1
	shift
	if ! "$@" -o "$tmp/alone.o" > "$tmp/log" 2>&1; then
		echo "$what: $*"
		cat "$tmp/log"
		bad=1
	fi
}

# works FILE COMPILER...: succeeds if the compiler is installed and complete.
works()
{
	file=$1
	shift
	command -v "${1%% *}" > /dev/null 2>&1 &&
	"$@" -c "$file" -o "$tmp/try.o" > /dev/null 2>&1
}

# loop HEADER: sets 'flags' for a header of another loop. Fails if this host lacks
# the loop's library.
loop()
{
	flags=
	case $1 in
	event.h) module=libevent_core ;;
	glib.h)	module=glib-2.0 ;;
	uv.h)	module=libuv ;;
	*)	return 0 ;;
	esac
	# their headers have other rules for warnings
	flags=$(pkg-config --cflags "$module" 2>/dev/null) &&
	flags=$(echo " $flags" | sed 's/ -I/ -isystem /g') &&
	# uv.h needs types that C99 alone does not have
	flags="$flags -D_GNU_SOURCE" && return
	case " $lacking " in
	*" $1 "*) ;;
	*)	echo "no $module: $1 not tried"
		lacking="$lacking $1" ;;
	esac
	return 1
}
lacking=

# each LANGUAGE SUFFIX STANDARDS COMPILERS: every header in every standard. A
# compiler may be several words.
each()
{
	tried=
	echo 'int main(void) { return 0; }' > "$tmp/try.$2"
	for compiler in $4
	do
		compiler=$(echo "$compiler" | tr '|' ' ')
		# shellcheck disable=SC2086
		works "$tmp/try.$2" $compiler || continue
		tried="$tried $compiler"
		for h in "$inc"/rdmamsg/*.h
		do
			name=${h##*/}
			loop "$name" || continue
			# Twice: the guard works, too. An object keeps
			# -Wpedantic content.
			{
				echo "#include <rdmamsg/$name>"
				echo "#include <rdmamsg/$name>"
				echo "extern int rdmamsg_not_empty;"
			} > "$tmp/alone.$2"
			for std in $3
			do
				# shellcheck disable=SC2086
				compile "$name as $1" $compiler "-std=$std" \
				    $warn -I"$inc" $flags -c "$tmp/alone.$2"
			done
		done
	done
	[ -n "$tried" ] || echo "no compiler for $1: headers not tried as that"
}

each C c "c99 c11" "$(echo "$CC" | tr ' ' '|') gcc clang"
[ -n "$tried" ] || bad=1
each C++ cc c++11 "$(echo "${CXX:-c++}" | tr ' ' '|') g++ clang++"

# Every struct that has a size, in the style of rdmamsg(7).
{
	for h in "$inc"/rdmamsg/*.h
	do
		case ${h##*/} in
		ev.h | event.h | glib.h | uv.h) ;;
		*)	echo "#include <rdmamsg/${h##*/}>" ;;
		esac
	done
	echo "void set();"
	echo "void set()"
	echo "{"
	awk '/^struct rdmamsg_[a-z_]* {$/ { name = $2; next }
	name && $0 == "\tsize_t size;" {
		print "\t{ struct " name " x = {}; x.size = sizeof(x); }"
		n++
	}
	{ name = "" }
	END { exit n < 30 }' "$inc"/rdmamsg/*.h || echo "#error no structs"
	echo "}"
} > "$tmp/style.cc"
for compiler in $tried
do
	for std in c++11 c++17 c++20
	do
		# shellcheck disable=SC2086
		compile "structs as C++" $compiler "-std=$std" $warn -I"$inc" \
			-c "$tmp/style.cc"
	done
done

# all but those for programs that use verbs or a loop's library
for h in "$inc"/rdmamsg/*.h
do
	case ${h##*/} in
	verbs.h | fast.h | ev.h | event.h | glib.h | uv.h) ;;
	*)	sed -n 's/^[ 	]*#[ 	]*include[ 	]*\([^ 	]*\).*/\1/p' "$h" ;;
	esac
done > "$tmp/includes"
while read -r i; do
	case $i in
	"<stddef.h>"|"<stdint.h>"|"<sys/socket.h>"|"<sys/uio.h>") ;;
	"<rdmamsg/rdmamsg.h>"|"<rdmamsg/version.h>") ;;
	*)
		echo "a public header includes $i"
		bad=1
		;;
	esac
done < "$tmp/includes"
if grep 'include <rdmamsg/[^v]' "$inc/rdmamsg/rdmamsg.h"; then
	echo "rdmamsg.h includes another header of the library"
	bad=1
fi
if grep '^[ 	]*#[ 	]*include' "$inc/rdmamsg/version.h"; then
	echo "version.h includes something"
	bad=1
fi

exit $bad
