#! /bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The installed programs: --help, the manual page, the table of options in the
# source and the program itself agree on every option, and -h, -V and a wrong
# option do the same in each program.

srcdir=${srcdir:-.}
builddir=${builddir:-.}
LC_ALL=C
LD_LIBRARY_PATH=$builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LC_ALL LD_LIBRARY_PATH

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
bad=0

# wrong TEXT
wrong()
{
	echo "$name: $1"
	bad=1
}

# Lists of options have a line for each: SHORT LONG ARGUMENT, where '.' stands
# for none and ARGUMENT is '='.

# normal: "-a, --address=ADDR" in lines of the input
normal()
{
	sed -n -e 's/^-\([[:alnum:]]\), --\([a-z-]*\)\(=\{0,1\}\).*/\1 \2 \3/p' \
	    -e 's/^--\([a-z-]*\)\(=\{0,1\}\).*/. \1 \2/p' \
	    -e 's/^-\([[:alnum:]]\)\( .*\)\{0,1\}$/\1 . /p' |
	sed 's/ $/ ./' | sort
}

of_help()
{
	sed -n 's/^  *\(-.*\)/\1/p' "$tmp/help" | normal
}

# roff: the text of a page without its markup
roff()
{
	sed -e 's/\\-/-/g' -e 's/\\f[BIRP]//g' "$page"
}

of_page()
{
	roff | sed -n '/^\.SH OPTIONS/,/^\.SH [^O]/p' |
	sed -n '/^\.TP/{n;p;}' | normal
}

of_source()
{
	sed -n "s/.*{ \"\([a-z-]*\)\", \([a-z]*\)_argument, NULL, \([^ ]*\) }.*/\3 \1 \2/p" \
	    "$source" |
	sed -e "s/^'\(.\)'/\1/" -e 's/^[A-Z][A-Z_][A-Z_]* /. /' \
	    -e 's/required$/=/' -e 's/no$/./' | sort
}

# run STATUS ARGUMENT...: what it prints goes to out and err
run()
{
	expected=$1
	shift
	timeout 600 "$program" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	status=$?
	[ $status -eq "$expected" ] ||
		wrong "$*: exit status $status, not $expected"
}

says()
{
	grep -q -e "$1" "$tmp/err" || wrong "$2: no '$1' in: $(cat "$tmp/err")"
}

about()
{
	version=$(sed -n 's/.*RDMAMSG_VERSION_M[AI][JN]OR[^0-9]*\([0-9]*\)$/\1/p
		s/.*RDMAMSG_VERSION_PATCH[^0-9]*\([0-9]*\)$/\1/p' \
	    "$srcdir/include/rdmamsg/version.h" | paste -s -d. -)
	for option in -V --version
	do
		run 0 $option
		echo "$name $version" | cmp -s - "$tmp/out" ||
			wrong "$option does not print '$name $version'"
		[ ! -s "$tmp/err" ] || wrong "$option: $(cat "$tmp/err")"
	done
	for option in -h --help
	do
		run 0 $option
		head -n 1 "$tmp/out" | grep -q "^Usage: $name " ||
			wrong "$option does not begin with 'Usage: $name'"
		[ ! -s "$tmp/err" ] || wrong "$option: $(cat "$tmp/err")"
		[ -z "$(awk 'length > 80' "$tmp/out")" ] ||
			wrong "$option: lines of more than 80 columns"
	done
	cp "$tmp/out" "$tmp/help"
	run 2 --no-such-option
	says "^$name: .*'--no-such-option'" "a wrong option"
	says "see --help" "a wrong option"
	[ ! -s "$tmp/out" ] || wrong "a wrong option: $(cat "$tmp/out")"
	if [ "$alone" = alone ]
	then
		run 0
	elif [ -n "$alone" ]
	then
		# what it says depends on the host
		timeout 600 "$program" >"$tmp/out" 2>"$tmp/err" </dev/null
		status=$?
		if [ $status -gt 2 ] || [ ! -s "$tmp/out" ]
		then wrong "without arguments: $status: $(cat "$tmp/err")"
		fi
	else
		run 2
		says "^$name: .*see --help" "without arguments"
	fi
}

# Each option has an argument or not, as the list says, and no other is known.
behaviour()
{
	while read -r short long argument
	do
		if [ "$argument" = = ]
		then
			run 2 "--$long"
			says "requires an argument" "--$long"
		else
			run 2 "--$long=x"
			says "doesn't allow an argument" "--$long"
		fi
	done <"$tmp/options.help"
	for short in a b c d e f g h i j k l m n o p q r s t u v w x y z \
		A B C D E F G H I J K L M N O P Q R S T U V W X Y Z \
		0 1 2 3 4 5 6 7 8 9
	do
		case $short in
		[hV])	continue ;;
		esac
		argument=$(sed -n "s/^$short [^ ]* //p" "$tmp/options.help")
		# an operand, where the option alone would do
		operand=
		[ -z "$alone" ] || [ "$argument" != . ] || operand=:x
		# shellcheck disable=SC2086 # one word or none
		run 2 "-$short" $operand
		case $argument in
		=)	says "requires an argument -- '$short'" "-$short" ;;
		.)	! grep -q "invalid option" "$tmp/err" ||
				wrong "-$short: invalid" ;;
		*)	says "invalid option -- '$short'" "-$short" ;;
		esac
	done
}

synopsis()
{
	roff | sed -n '/^\.SH SYNOPSIS/,/^\.SH DESC/p' | tr -s ' |[]' '\n' |
	sed -n 's/^\(--*[[:alnum:]][a-z-]*\).*/\1/p' | sort -u |
	while read -r option
	do
		case $option in
		--*)	set "[^ ]* ${option#--} " ;;
		*)	set "${option#-} " ;;
		esac
		grep -q "^$1" "$tmp/options.help" ||
			echo "$option is in the synopsis and not in --help"
	done >"$tmp/synopsis"
	[ ! -s "$tmp/synopsis" ] || wrong "$(cat "$tmp/synopsis")"
}

# check PROGRAM SOURCE [alone|judges]: both work without arguments, and ':x' is no
# operand of theirs; the status of what judges is its verdict
check()
{
	alone=${3-}
	name=${1##*/} program=$builddir/$1 source=$srcdir/$2
	page=$srcdir/man/man1/$name.1
	# past libtool's script
	[ ! -x "$builddir/${1%/*}/.libs/$name" ] ||
		program=$builddir/${1%/*}/.libs/$name
	about
	of_help >"$tmp/options.help"
	of_page >"$tmp/options.page"
	of_source >"$tmp/options.source"
	[ "$(wc -l <"$tmp/options.help")" -gt 2 ] ||
		wrong "the options in --help were not understood"
	diff "$tmp/options.help" "$tmp/options.page" >"$tmp/diff" ||
		wrong "--help (<) and the manual page (>) differ:
$(cat "$tmp/diff")"
	diff "$tmp/options.help" "$tmp/options.source" >"$tmp/diff" ||
		wrong "--help (<) and $2 (>) differ:
$(cat "$tmp/diff")"
	behaviour
	synopsis
}

check samples/rdmamsg-perf samples/perf/options.c
check samples/rdmamsg-conform samples/conform/main.c
check samples/rdmamsg-copy samples/copy/main.c
check samples/rdmamsg-doctor samples/doctor/main.c judges
check samples/rdmamsg-info samples/info/main.c alone
check samples/rdmamsg-pub samples/topic/pub.c
check samples/rdmamsg-sub samples/topic/sub.c
soft=lib/soft/tools/rdmamsg-soft
case " ${programs-$soft} " in
*" $soft "*)	# not without shared libraries
	check $soft lib/soft/tools/launcher.c ;;
esac
check lib/soft/tools/rdmamsg-soft-ctl lib/soft/tools/ctl_main.c
exit $bad
