#! /bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The tracepoints of the sources, those that rdmamsg(7) lists, and those in the
# library are the same. Each change of an endpoint that the library tells has one.
# In the library, each has the arguments of rdmamsg(7): their number and their
# sizes. Without <sys/sdt.h> the library has none.

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

# ---- arguments ----------------------------------------------------------

class=$(readelf -h "$builddir/.libs/librdmamsg.so" |
	sed -n 's/^ *Class: *ELF//p')
[ "$class" ] || exit

# "NAME SIZE...", where -4 is a signed number of 4 bytes
awk -v pointer=$((class / 8)) '
	BEGIN {
		bytes["pointer"] = pointer
		bytes["uint64_t"] = 8
		bytes["uint32_t"] = 4
		bytes["int32_t"] = -4
	}
	/^\.SH/ { ours = $2 == "TRACEPOINTS" }
	!ours { next }
	/^\./ { type = $1 == ".B" ? $2 : "" }
	/^\\fI/ && type {
		gsub(/\\fI|\\fP|[,:;]/, "")
		for (i = 1; i <= NF; i++)
			size[$i] = bytes[type]
	}
	/^\.BR [a-z_]+ "\(/ {
		name = $2
		sub(/^[^(]*\(/, "")
		gsub(/\\fI|\\fP|[,)"]/, "")
		line = name
		for (i = 1; i <= NF; i++)
			line = line " " ($i in size ? size[$i] : $i "=?")
		print line
	}' "$srcdir/man/man7/rdmamsg.7" | sort >"$tmp/documented"
grep '=?' "$tmp/documented" && {
	echo "rdmamsg(7) does not say the type of these arguments"
	exit 1
}
[ "$(wc -l <"$tmp/documented")" -eq "$(wc -l <"$tmp/page")" ] || {
	echo "the arguments of rdmamsg(7) were not found"
	exit 1
}

# An operand behind the @ may have spaces, as "8@[sp, 24]" has.
awk '
	/^ *Provider:/ { ours = $2 == "rdmamsg" }
	/^ *Name:/ { name = $2 }
	/^ *Arguments:/ && ours {
		line = name
		for (i = 2; i <= NF; i++)
			if ($i ~ /^-?[0-9]+@/) {
				sub(/@.*/, "", $i)
				line = line " " $i
			}
		print line
	}' "$tmp/notes" | sort -u >"$tmp/passed"
same 'rdmamsg(7), with sizes of arguments' "$tmp/documented" \
	'the library' "$tmp/passed"
