#! /bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The manual pages: correct markup, no link to nowhere, and no field of a
# public struct left out. README.md shows the sample that it names, and its
# sections and sentences are short. The files and functions that the other
# documents name exist.

srcdir=${srcdir:-.}
man=$srcdir/man
LC_ALL=C
export LC_ALL

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
bad=0

if command -v mandoc > /dev/null 2>&1; then
	lint="mandoc -Tlint -W warning"
elif command -v groff > /dev/null 2>&1; then
	lint="groff -man -Tutf8 -ww -z"
else
	echo "neither mandoc nor groff is installed" >&2
	exit 77
fi

pages=
for p in "$man"/man[137]/*.[137]; do
	[ -f "$p" ] || continue
	to=$(sed -n '1s/^\.so //p' "$p")
	if [ -z "$to" ]; then
		pages="$pages $p"
		continue
	fi
	case $to in
	man[137]/*)
		if [ ! -f "$man/$to" ]; then
			echo "$p: $to is not there"
			bad=1
		elif grep -q '^\.so ' "$man/$to"; then
			echo "$p: $to is an alias itself"
			bad=1
		fi
		;;
	*)
		echo "$p: .so $to: not of the form man3/NAME.3"
		bad=1
		;;
	esac
	if [ "$(wc -l < "$p")" -ne 1 ]; then
		echo "$p: an alias has one line"
		bad=1
	fi
done
if [ -z "$pages" ]; then
	echo "$man: no pages"
	exit 1
fi

for p in $pages; do
	# shellcheck disable=SC2086
	$lint "$p" > "$tmp/lint" 2>&1
	if [ -s "$tmp/lint" ]; then
		cat "$tmp/lint"
		bad=1
	fi
	name=$(basename "$p")
	section=${name##*.}
	case $p in
	*/man$section/*) ;;
	*)	echo "$p: not in man$section/"
		bad=1
		;;
	esac
	if ! grep -q "^\\.TH ${name%.*} $section " "$p"; then
		echo "$p: .TH does not name ${name%.*} $section"
		bad=1
	fi
done

# "\-" and font changes away, then every rdmamsg...(N)
for p in $pages; do
	sed -e 's/\\-/-/g' -e 's/\\f[BIRP]//g' -e 's/^\.BR \([^ ]*\) (/\1(/' \
		-e 's/^\.[BI]R \([^ ]*\) (/\1(/' "$p" |
	grep -o 'rdmamsg[a-z0-9_-]*([137])' | sort -u > "$tmp/refs"
	while read -r ref; do
		n=${ref#*(}
		n=${n%)}
		if [ ! -f "$man/man$n/${ref%(*}.$n" ]; then
			echo "$p: $ref is not there"
			bad=1
		fi
	done < "$tmp/refs"
done

# SEE ALSO of rdmamsg(7) leads to every page that is no alias.
sed -n '/^\.SH SEE ALSO/,$p' "$man/man7/rdmamsg.7" > "$tmp/see"
for p in $pages; do
	name=${p##*/}
	[ "$name" != rdmamsg.7 ] || continue
	grep -q "^\.BR ${name%.*} (${name##*.})" "$tmp/see" && continue
	echo "SEE ALSO of rdmamsg(7) does not name ${name%.*}(${name##*.})"
	bad=1
done

# rdmamsg-index(7) has a place for each call.
sed -n 's/^[ 	]*\(rdmamsg_[a-z_0-9]*\);.*/\1/p' "$srcdir/lib/rdmamsg.map" \
	> "$tmp/calls"
while read -r call; do
	[ -f "$man/man3/$call.3" ] || continue
	grep -q "^\.BR $call (3)" "$man/man7/rdmamsg-index.7" && continue
	echo "rdmamsg-index(7) does not name $call(3)"
	bad=1
done < "$tmp/calls"

# Each options struct has a page.
for s in $(cat "$srcdir"/include/rdmamsg/*.h |
	   sed -n 's/^struct \(rdmamsg_\([a-z]*_\)\{0,1\}options\) {$/\1/p'); do
	[ -f "$man/man3/$s.3" ] && continue
	echo "struct $s has no page"
	bad=1
done

# The program in README.md is that of samples/, and README.md is short.
sed -n '/^```c$/,/^```$/p' "$srcdir/README.md" | sed '1d; $d' > "$tmp/shown"
sed '1,2d' "$srcdir/samples/hello.c" | cmp -s - "$tmp/shown" || {
	echo "README.md does not show samples/hello.c"
	bad=1
}
if [ "$(wc -l < "$srcdir/README.md")" -gt 130 ]; then
	echo "README.md has more than 130 lines"
	bad=1
fi

# A section of README.md has at most a screen and a half. Of the sentences, most
# have at most 20 words; programs, tables and headings are not counted.
awk -v lengths="$tmp/lengths" '
function end()
{
	if (words)
		print words > lengths
	words = 0
}
/^```/		{ code = !code }
/^## /		{ section = $0; lines = 0 }
section && ++lines == 61 {
	print "README.md: more than 60 lines of " section
	bad = 1
}
code || /^(```|#|\||!|    )/	{ $0 = "" }
/^- /		{ end() }
NF == 0		{ end() }
{
	for (i = 1; i <= NF; i++) {
		words += $i ~ /[A-Za-z0-9]/
		if ($i ~ /[.?!]$/)
			end()
	}
}
END	{ end(); exit bad }' "$srcdir/README.md" || bad=1
sort -n "$tmp/lengths" | awk '
	{ words[NR] = $1 }
	END {
		median = words[int((NR + 1) / 2)]
		if (NR < 20)
			print "README.md: its sentences were not found"
		else if (median > 20)
			print "README.md: sentences have " median " words"
		else
			exit 0
		exit 1
	}' || bad=1

# Complete programs among the examples compile.
CC=${CC:-cc}
for p in $pages; do
	sed -n '/^\.EX/,/^\.EE/p' "$p" | sed 's/^\\&//; s/\\-/-/g; s/\\e/\\/g' |
	awk -v base="$tmp/$(basename "$p")" '
	/^\.EX/	{ text = ""; next }
	/^\.EE/	{
		if (text ~ /\nint main\(/)
			printf "%s", text > (base "-" ++n ".c")
		next
	}
	{ text = text $0 "\n" }'
done
for c in "$tmp"/*.c; do
	[ -f "$c" ] || continue
	# shellcheck disable=SC2086
	if ! $CC -std=c99 -Wall -Wextra -Werror -I"$srcdir/include" \
	     -fsyntax-only "$c"; then
		echo "$(basename "$c" .c): the example does not compile"
		bad=1
	fi
done

# "FILE, FUNCTION()" and "FILE: FUNCTION() and FUNCTION()"
tr -s '\n\t' '  ' < "$srcdir/ARCHITECTURE" |
grep -o '\(lib\|cm\)/[a-z_/]*\.[ch][,:]\( [a-z_]*()\( and\)*\)*' > "$tmp/named"
if [ "$(wc -l < "$tmp/named")" -lt 7 ]; then
	echo "ARCHITECTURE: its files and functions were not found"
	bad=1
fi
while read -r file functions; do
	file=${file%[,:]}
	for f in $functions; do
		[ "$f" != and ] || continue
		grep -q "^[a-z].*[ *]${f%()}(" "$srcdir/$file" && continue
		echo "ARCHITECTURE: $f is not in $file"
		bad=1
	done
	[ -f "$srcdir/$file" ] || bad=1
done < "$tmp/named"
for document in README.md ARCHITECTURE CONTRIBUTING INSTALL NEWS SECURITY; do
	for file in $(grep -o \
		'\(lib\|cm\|tests\|samples\)/[a-z_/-]*\(\.[a-z]*[a-z]\)*' \
		"$srcdir/$document" | sort -u); do
		[ -e "$srcdir/$file" ] && continue
		echo "$document: $file is not there"
		bad=1
	done
done

# fields HEADER...: "STRUCT FIELD" for each field, enumerators as "enum NAME"
fields()
{
	awk '
	{
		if (comment) {
			i = index($0, "*/")
			if (!i)
				next
			comment = 0
			$0 = substr($0, i + 2)
		}
		while (i = index($0, "/*")) {
			rest = substr($0, i + 2)
			$0 = substr($0, 1, i - 1)
			i = index(rest, "*/")
			if (!i) {
				comment = 1
				break
			}
			$0 = $0 " " substr(rest, i + 2)
		}
	}
	/^struct [a-z_]+ {/	{ what = $2; text = ""; next }
	/^enum [a-z_]+ {/	{ what = "enum"; next }
	/^}/			{ what = ""; next }
	what == "enum" {
		if (match($0, /[A-Z][A-Z0-9_]+/))
			print "enum", substr($0, RSTART, RLENGTH)
		next
	}
	what {
		text = text " " $0
		if (text !~ /;/)
			next
		if (match(text, /\(\*[a-z_]+\)/)) {
			print what, substr(text, RSTART + 2, RLENGTH - 3)
		} else {
			sub(/(\[[^\]]*\])?;.*/, "", text)
			match(text, /[a-z_0-9]+$/)
			print what, substr(text, RSTART, RLENGTH)
		}
		text = ""
	}' "$@"
}

# A field counts where its struct is shown; an enumerator counts anywhere.
mkdir "$tmp/words"
for p in $pages; do
	sed -e '/^\.\\"/d' -e 's/\\-/-/g' -e 's/\\f[BIRP]/ /g' "$p" |
	tr -c 'A-Za-z0-9_\n' '[ *]' | tr -s ' ' '\n' |
	sort -u > "$tmp/words/$(basename "$p")"
done
h=$srcdir/include/rdmamsg
fields "$h/rdmamsg.h" "$h/chain.h" "$h/dc.h" "$h/endpoint.h" "$h/failover.h" "$h/listener.h" \
	"$h/device.h" "$h/diag.h" "$h/flow.h" "$h/memory.h" "$h/oob.h" "$h/rma.h" > "$tmp/fields"
if [ "$(wc -l < "$tmp/fields")" -lt 100 ] || grep ' $' "$tmp/fields"; then
	echo "rdmamsg.h: its structs were not understood"
	bad=1
fi
while read -r what field; do
	case $what in
	enum)	where=$(ls "$tmp/words"/*) ;;
	*)	where=$(grep -lx "$what" "$tmp/words"/*) ;;
	esac
	# shellcheck disable=SC2086
	if [ -z "$where" ] || ! cat $where | grep -qx "$field"; then
		echo "no page mentions $field ($what)"
		bad=1
	fi
done < "$tmp/fields"

# The metrics of rdmamsg_stats_text(3): "NAME FIELD" as in stats_text.c, where "-"
# is a value that no struct has, and each field of the counters.
text=$srcdir/lib/loop/stats_text.c
{ tr '\n\t' '  ' < "$text"; echo; } | sed 's/static const struct metric /\n&/g' |
sed -n 's/^static const struct metric \([a-z]*\)_metrics\[\] = {/\1 /p' |
while read -r kind metrics; do
	prefix=$(sed -n "s/^	KIND(\"\([a-z_]*\)\", $kind),/\1/p" "$text")
	echo "${metrics%%\};*}" | sed 's/M(struct [a-z_]*, /M(/g' |
	grep -o '[A-Z]("[a-z_]*", *[a-z_]*' |
	sed 's/.*("\([a-z_]*\)", */\1 /; '"s/^/$prefix/"
done | sort > "$tmp/metrics"
sed -n 's/^\(rdmamsg_[a-z_]*\)	\([a-z_-]*\)	..*/\1 \2/p' \
	"$man/man3/rdmamsg_stats_text.3" | sort > "$tmp/listed"
if [ "$(wc -l < "$tmp/metrics")" -lt 100 ]; then
	echo "$text: its metrics were not understood"
	bad=1
fi
while read -r metric field; do
	[ "$field" != - ] || field='.*'
	grep -qx "$metric $field" "$tmp/metrics" && continue
	echo "rdmamsg_stats_text(3): $metric is not the metric of $field"
	bad=1
done < "$tmp/listed"
for what in rdmamsg_stats rdmamsg_pool_stats rdmamsg_srq_stats \
	rdmamsg_listener_stats rdmamsg_group_stats; do
	sed -n "/^Of .fBstruct $what.fP/,/^\.TE/p" \
		"$man/man3/rdmamsg_stats_text.3" | cut -f 2 > "$tmp/those"
	fields "$h"/*.h | sed -n "s/^$what //p" | grep -vx size |
	while read -r field; do
		grep -qx "$field" "$tmp/those" ||
			echo "rdmamsg_stats_text(3): no metric of $field ($what)"
	done
done > "$tmp/lost"
if [ -s "$tmp/lost" ]; then
	cat "$tmp/lost"
	bad=1
fi

# rdmamsg-proto(7) has each type of a message and of a frame, "9 ASK".
tr -s '\n' ' ' < "$man/man7/rdmamsg-proto.7" > "$tmp/proto"
awk '
/^enum (proto|frame|dcf)_type {/	{ types = 1; n = 0; next }
/^}/					{ types = 0 }
types && match($1, /^[A-Z]+_[A-Z]+/) && !/_TYPE_MAX/ {
	name = substr($1, 1, RLENGTH)
	sub(/^[A-Z]+_/, "", name)
	n = $2 == "=" ? $3 + 0 : n + 1
	print n, name
}' "$srcdir/lib/wire/proto.h" "$srcdir/lib/wire/frame.h" \
	"$srcdir/lib/wire/dc_frame.h" > "$tmp/types"
if [ "$(wc -l < "$tmp/types")" -lt 28 ]; then
	echo "lib/wire: the types of messages were not understood"
	bad=1
fi
while read -r type; do
	grep -qw "$type" "$tmp/proto" && continue
	echo "rdmamsg-proto(7) does not have the type $type"
	bad=1
done < "$tmp/types"

exit $bad
