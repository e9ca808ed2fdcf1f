#! /bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Each binding makes every public call of lib/rdmamsg.map, or lists it in its
# file left-out with a reason. A line there that names no call, or only calls
# that the binding makes, fails too, and so does the reason "as yet".

srcdir=${srcdir:-.}
bad=0

calls=$(sed -n 's/^\t\(rdmamsg_[a-z0-9_]*\);.*/\1/p' "$srcdir/lib/rdmamsg.map")
[ -n "$calls" ] || { echo 'lib/rdmamsg.map: no calls'; exit 1; }

# wrong TEXT
wrong()
{
	echo "$1"
	bad=1
}

# made DIRECTORY: prints the words rdmamsg_... of a binding's sources, without
# those of declarations
made()
{
	find "$1" \( -name samples -o -name tests -o -name bench -o \
	    -name build -o -name target -o -name rdmamsg-sys \) -prune -o \
	    -type f ! -name left-out ! -name '*.md' -exec cat {} + |
	grep -a -o 'rdmamsg_[a-z0-9_]*' | sort -u
}

# of_pattern PATTERN: prints the calls that the pattern of left-out means
of_pattern()
{
	for call in $calls
	do
		# shellcheck disable=SC2254 # a pattern
		case $call in
		$1)	echo "$call" ;;
		esac
	done
}

for list in "$srcdir"/bindings/*/left-out
do
	[ -e "$list" ] || continue
	directory=${list%/*}
	binding=bindings/${directory##*/}
	bound=$(made "$directory")
	missing=$(printf '%s\n' "$calls" | grep -vxF "$bound")
	excused=
	while read -r pattern hash reason
	do
		case $pattern in '#'* | '') continue ;; esac
		case $hash$reason in
		'#'*'as yet'*)
			wrong "$binding/left-out: $pattern: 'as yet' is no reason" ;;
		'#'?*)	;;
		*)	wrong "$binding/left-out: $pattern has no reason" ;;
		esac
		these=$(of_pattern "$pattern" | grep -xF "$missing")
		[ -n "$these" ] ||
			wrong "$binding/left-out: $pattern: no such call, or it is made"
		excused="$excused
$these"
	done <"$list"
	for call in $(printf '%s\n' "$missing" | grep -vxF "$excused")
	do
		wrong "$binding: does not make $call, and left-out has no reason"
	done
done
exit $bad
