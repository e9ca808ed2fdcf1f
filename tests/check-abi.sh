#! /bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Version scripts, headers, exported symbols and manual pages name the same
# functions. Prints each disagreement.

srcdir=${srcdir:-.}
builddir=${builddir:-.}
LC_ALL=C
export LC_ALL

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
bad=0

# in_map MAP: prints the global symbols of the map.
in_map()
{
	sed -n '/global:/,/local:/s/^[ 	]*\(rdmamsg[a-z0-9_]*\);$/\1/p' "$1"
}

# declared HEADER...: functions and data, without comments, macros and inline
# bodies
declared()
{
	awk '
	{
		line = $0
		out = ""
		while (line != "") {
			if (comment) {
				i = index(line, "*/")
				if (!i)
					break
				comment = 0
				line = substr(line, i + 2)
			} else {
				i = index(line, "/*")
				if (!i) {
					out = out line
					break
				}
				out = out substr(line, 1, i - 1) " "
				comment = 1
				line = substr(line, i + 2)
			}
		}
		if (more || out ~ /^[ \t]*#/) {
			more = out ~ /\\$/
			next
		}
		if (out ~ /^extern "C" {/)
			next
		n = length(out)
		for (k = 1; k <= n; k++) {
			c = substr(out, k, 1)
			if (c == "{") {
				depth++
			} else if (c == "}") {
				if (depth)
					depth--
				if (!depth)
					text = text ";"
			} else if (!depth) {
				text = text c
			}
		}
		text = text " "
	}
	END {
		n = split(text, decl, ";")
		for (k = 1; k <= n; k++)
			if (match(decl[k], /extern const char rdmamsg_[a-z0-9_]+/)) {
				name = substr(decl[k], RSTART, RLENGTH)
				sub(/.* /, "", name)
				print name
			} else if (decl[k] !~ /typedef/ &&
			    match(decl[k], /rdmamsg_[a-z0-9_]+[ \t]*\(/)) {
				name = substr(decl[k], RSTART, RLENGTH - 1)
				sub(/[ \t]+$/, "", name)
				print name
			}
	}' "$@" | sort -u
}

exported()
{
	nm -D --defined-only "$1" | awk '$2 ~ /^[RTWi]$/ { print $3 }' |
	sed 's/@.*//' | sort -u
}

# compare WHAT-A FILE-A WHAT-B FILE-B
compare()
{
	comm -23 "$2" "$4" | sed "s|^|$1, but not $3: |" > "$tmp/diff"
	comm -13 "$2" "$4" | sed "s|^|$3, but not $1: |" >> "$tmp/diff"
	if [ -s "$tmp/diff" ]; then
		cat "$tmp/diff"
		bad=1
	fi
}

inc=$srcdir/include/rdmamsg
loops='ev event glib uv'
for lib in rdmamsg $(printf 'rdmamsg-%s ' $loops); do
	map=$srcdir/lib/$lib.map
	headers=
	for h in "$inc"/*.h; do
		name=${h##*/}
		case " $loops " in
		*" ${name%.h} "*)	of=rdmamsg-${name%.h} ;;
		*)			of=rdmamsg ;;
		esac
		[ $of != "$lib" ] || headers="$headers $h"
	done
	in_map "$map" > "$tmp/map.$lib"
	if ! sort -cu "$tmp/map.$lib" 2> "$tmp/diff"; then
		echo "$map: not sorted:" "$(cat "$tmp/diff")"
		bad=1
	fi
	sort -u -o "$tmp/map.$lib" "$tmp/map.$lib"
	if [ ! -s "$tmp/map.$lib" ]; then
		echo "$map: no symbols"
		bad=1
	fi
	# shellcheck disable=SC2086
	declared $headers > "$tmp/headers.$lib"
	compare "in lib/$lib.map" "$tmp/map.$lib" \
		"declared in a header" "$tmp/headers.$lib"

	# configured without this loop
	case " ${libraries-lib$lib.la} " in
	*" lib$lib.la "*)	;;
	*)			continue ;;
	esac
	so=$builddir/.libs/lib$lib.so
	if [ ! -f "$so" ]; then
		echo "$so: not there"
		bad=1
		continue
	fi
	if ! exported "$so" > "$tmp/so.$lib" || [ ! -s "$tmp/so.$lib" ]; then
		echo "$so: no symbols"
		bad=1
	fi
	compare "in lib/$lib.map" "$tmp/map.$lib" \
		"exported by lib$lib.so" "$tmp/so.$lib"
done

# The page of the inlines describes the symbol of their layout.
cat "$tmp"/map.rdmamsg* |
grep -v '^rdmamsg_fast_layout_[0-9]*$' | sort -u > "$tmp/map"
# a page may also be about a struct
for p in "$srcdir"/man/man3/*.3; do
	[ -f "$p" ] || continue
	p=$(basename "$p" .3)
	if grep -qx "$p" "$tmp/map" ||
	   ! cat "$inc"/*.h | grep -q "^struct ${p}[ ;]"; then
		echo "$p"
	fi
done | sort -u > "$tmp/man"
compare "in a map" "$tmp/map" "in man/" "$tmp/man"

# man/include.am lists the installed pages.
for p in "$srcdir"/man/man[137]/*.[137]; do
	[ -f "$p" ] && echo "${p#"$srcdir"/}"
done | sort -u > "$tmp/pages"
sed -n 's/^	\(man\/[^ ]*\).*/\1/p' "$srcdir/man/include.am" |
sort -u > "$tmp/dist"
compare "in man/" "$tmp/pages" "in man/include.am" "$tmp/dist"

# A page is found by the names in its NAME section; an alias leads to one.
while read -r f; do
	p=$srcdir/man/man3/$f.3
	[ -f "$p" ] || continue
	to=$(sed -n '1s/^\.so man3\///p' "$p")
	if [ -n "$to" ]; then
		p=$srcdir/man/man3/$to
		if [ ! -f "$p" ]; then
			echo "man/man3/$f.3: leads to $to, which is not there"
			bad=1
			continue
		fi
	fi
	if ! sed -n '/^\.SH NAME/,/^\.SH SYNOPSIS/p' "$p" |
	     tr -s ', ' '[\n*]' | grep -qx "$f"; then
		echo "$p: NAME does not list $f"
		bad=1
	fi
	if ! sed -n '/^\.SH SYNOPSIS/,/^\.SH DESC/p' "$p" |
	     sed 's/\\f[BIPR]//g' | grep -q "[ *]$f("; then
		echo "$p: SYNOPSIS does not declare $f"
		bad=1
	fi
done < "$tmp/map"

# its threads may outlive dlclose()
readelf -d "$builddir/.libs/librdmamsg.so" | grep -q NODELETE || {
	echo "librdmamsg.so is not linked with -z nodelete"
	bad=1
}
exit $bad
