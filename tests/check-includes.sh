#! /bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Each private header compiles alone, in the folders listed here and below them.
# And no file includes a header whose functions depend on the program's locale.

srcdir=${srcdir:-.}
CC=${CC:-cc}
folders='lib cm'

bad=0
tried=0
# shellcheck disable=SC2086 # words
for header in $(cd "$srcdir" && find $folders -name '*.h')
do
	tried=$((tried + 1))
	echo "#include \"${header#lib/}\"" |
	$CC -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wno-unused-parameter \
	    -Werror -I"$srcdir" -I"$srcdir/include" -I"$srcdir/lib" -fsyntax-only -x c - || {
		echo "$header does not compile alone"
		bad=1
	}
done
[ $tried -gt 0 ] || { echo "no header found"; bad=1; }
# shellcheck disable=SC2086 # words
(cd "$srcdir" && find $folders -name '*.[ch]' -exec \
	grep -nE '#include <(ctype|locale|strings|wctype)\.h>' /dev/null {} +) && {
	echo "these functions depend on the locale: compare ASCII"
	bad=1
}
exit $bad
