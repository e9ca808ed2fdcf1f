#! /bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Each public header compiles alone, as strict C99 and as C++, and rdmamsg.h
# includes little.

srcdir=${srcdir:-.}
CC=${CC:-cc}
inc=$srcdir/include

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
bad=0
warn="-Wall -Wextra -Werror"

# CC and CXX may be several words
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

if [ -z "$CXX" ]; then
	for c in c++ g++ clang++; do
		if command -v "$c" > /dev/null 2>&1; then
			CXX=$c
			break
		fi
	done
fi
echo 'int main() { return 0; }' > "$tmp/try.cc"
# shellcheck disable=SC2086
if [ -n "$CXX" ] && ! $CXX -c "$tmp/try.cc" -o "$tmp/try.o" 2> /dev/null; then
	CXX=
fi
[ -n "$CXX" ] || echo "no C++ compiler: headers tried as C only"

for h in "$inc"/rdmamsg/*.h; do
	name=${h##*/}
	std="-std=c99 -pedantic"
	case $name in
	fast.h|verbs.h) std=-std=gnu99 ;;
	esac
	# Twice: the guard works, too. An object keeps -pedantic content.
	{
		echo "#include <rdmamsg/$name>"
		echo "#include <rdmamsg/$name>"
		echo "extern int rdmamsg_not_empty;"
	} > "$tmp/alone.c"
	cp "$tmp/alone.c" "$tmp/alone.cc"
	# shellcheck disable=SC2086
	compile "$name as C" $CC $std $warn -I"$inc" -c "$tmp/alone.c"
	[ -n "$CXX" ] || continue
	# shellcheck disable=SC2086
	compile "$name as C++" $CXX $warn -I"$inc" -c "$tmp/alone.cc"
done

# rdmamsg.h and its parts
sed -n 's/^[ 	]*#[ 	]*include[ 	]*\([^ 	]*\).*/\1/p' \
	"$inc/rdmamsg/rdmamsg.h" "$inc/rdmamsg/memory.h" \
	"$inc/rdmamsg/oob.h" "$inc/rdmamsg/rma.h" |
grep -vx '<rdmamsg/rdmamsg.h>' > "$tmp/includes"
while read -r i; do
	case $i in
	"<stddef.h>"|"<stdint.h>"|"<sys/socket.h>"|"<sys/uio.h>") ;;
	"<rdmamsg/memory.h>"|"<rdmamsg/oob.h>"|"<rdmamsg/rma.h>") ;;
	"<rdmamsg/version.h>") ;;
	*)
		echo "rdmamsg.h includes $i"
		bad=1
		;;
	esac
done < "$tmp/includes"
if grep '^[ 	]*#[ 	]*include' "$inc/rdmamsg/version.h"; then
	echo "version.h includes something"
	bad=1
fi

exit $bad
