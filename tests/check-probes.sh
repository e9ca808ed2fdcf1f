#! /bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The tracepoints of the sources, those that rdmamsg(7) lists, and those in the
# library are the same. Each change of an endpoint that the library tells has one.
# Without <sys/sdt.h> the library has none.

srcdir=${srcdir:-.}
builddir=${builddir:-.}
LC_ALL=C
export LC_ALL

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# same WHAT FILE WHAT FILE
same()
{
	comm -3 "$2" "$4" >"$tmp/differ"
	[ -s "$tmp/differ" ] || return 0
	echo "tracepoints of $1, and indented those of $3:"
	cat "$tmp/differ"
	exit 1
}

# probe(NAME, ...) in calls
find "$srcdir/lib" "$srcdir/cm" -name '*.c' -exec cat {} + |
	sed -n 's/^	*probe(\([a-z_]*\),.*/\1/p' | sort -u >"$tmp/sources"
sed -n '/^\.SH TRACEPOINTS/,/^\.SH SEE/s/^\.BR \([a-z_]*\) "(.*/\1/p' \
	"$srcdir/man/man7/rdmamsg.7" | sort >"$tmp/page"
[ "$(wc -l <"$tmp/sources")" -gt 9 ] || {
	echo "the tracepoints of the sources were not found"
	exit 1
}
same sources "$tmp/sources" 'rdmamsg(7)' "$tmp/page"

for change in connected closed stalled resumed path
do
	grep -r -l "&ep->ctx->loop, ep->on\.on_$change," "$srcdir/lib" \
		>"$tmp/tell" || {
		echo "the calls of on_$change were not found"
		exit 1
	}
	xargs grep -L "^	*probe($change," <"$tmp/tell" >"$tmp/silent"
	[ ! -s "$tmp/silent" ] || {
		echo "on_$change without the tracepoint $change:"
		cat "$tmp/silent"
		exit 1
	}
done

grep -q '^#define HAVE_SYS_SDT_H 1' "$builddir/config.h" || {
	echo "there was no <sys/sdt.h> when this was configured" >&2
	exit 77
}
readelf -n "$builddir/.libs/librdmamsg.so" >"$tmp/notes" || exit
awk '/^ *Provider:/ { ours = $2 == "rdmamsg" }
	/^ *Name:/ && ours { print $2 }' "$tmp/notes" | sort -u >"$tmp/library"
same sources "$tmp/sources" 'the library' "$tmp/library"
