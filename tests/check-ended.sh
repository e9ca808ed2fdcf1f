#! /bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Every public function that takes an endpoint is called with one that has
# outlived its context: tests/integration/handles.c names it. Functions that
# only write an endpoint to *ret take none.

srcdir=${srcdir:-.}
LC_ALL=C
export LC_ALL
test=$srcdir/tests/integration/handles.c

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# statements: each declaration of the headers in a line, without comments
statements()
{
	sed -e 's|/\*.*\*/||' -e '/\/\*/,/\*\//d' -e '/^#/d' \
	    "$srcdir"/include/rdmamsg/*.h | tr '\n\t' '  ' | tr ';{}' '\n\n\n'
}

statements | grep 'struct rdmamsg_ep \*\([a-z_]*[,)]\|const\)' |
sed -n 's/^[^(]*[ *]\(rdmamsg_[a-z_0-9]*\)(.*/\1/p' | sort -u > "$tmp/calls"

# Fewer than there are: the lines above no longer fit the headers.
if [ "$(wc -l < "$tmp/calls")" -lt 50 ]; then
	echo "only $(wc -l < "$tmp/calls") functions take an endpoint"
	exit 1
fi
grep -o 'rdmamsg_[a-z_0-9]*(' "$test" | tr -d '(' | sort -u > "$tmp/named"
comm -23 "$tmp/calls" "$tmp/named" > "$tmp/missing"
sed 's|$|: not called in tests/integration/handles.c|' "$tmp/missing"
[ ! -s "$tmp/missing" ]
