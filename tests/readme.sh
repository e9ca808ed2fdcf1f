#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: readme.sh ROOT
#
# Follows README.md with the library that is installed in ROOT, which
# pkg-config finds: types the commands beside its program, and compares what
# README.md says is printed. A command with & is a server: the next one is typed
# when it listens.

root=$1
top=$(cd "$(dirname "$0")/.." && pwd) || exit
work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work" || exit

unset LD_PRELOAD
RDMAMSG_SOFT_FABRIC=readme-$$
LD_LIBRARY_PATH=$root/usr/local/lib
export RDMAMSG_SOFT_FABRIC LD_LIBRARY_PATH RDMAMSG_DEVICE=soft
ALLOWED=60	# s: far beyond what a command takes on a busy machine

fail()
{
	echo "README.md: $*"
	cat said
	echo 'not ok readme'
	exit 1
}

# block LANGUAGE: the lines of the blocks that are marked as such
block()
{
	awk -v language="$1" '
		/^```/	{ on = !on && substr($0, 4) == language && !in_block
			  in_block = !in_block; next }
		on' "$top/README.md"
}

listens()
{
	# the flag is __SO_ACCEPTCON: a bound id may not listen yet
	awk -v name="/$RDMAMSG_SOFT_FABRIC/cm/" '
		$4 == "00010000" && index($8, name) { found = 1 }
		END { exit !found }' /proc/net/unix
}

# names TEXT FILE WORD: a line of README.md with TEXT names FILE, or as a page
# of the manual, and the file has WORD
names()
{
	link=$2
	case $2 in
	man/*)	link=$(echo "${2##*/}" | sed 's/\.\([0-9]\)$/(\1)/') ;;
	esac
	grep -F "$1" "$top/README.md" | grep -qF "$link" ||
		fail "'$1' does not lead to $link"
	grep -rqF "$3" "$top/$2" || fail "$2 does not lead to $3"
}

: >said
# "I have a C server with epoll", "I publish ticks", "I evaluate against UCX":
# each gets from README.md to a program
names 'a server with epoll' samples/own-loop.c epoll_wait
names 'publish to many' samples/topic rdmamsg_group_publish
names 'measure it beside others' man/man1/rdmamsg-perf.1 UCX
names 'measure it beside others' man/man7/rdmamsg_cost.7 samples/perf/cost.sh
block c >hello.c
block '' >session
sed -n 's/^\$ //p' session >typed
grep -v '^\$ ' session >printed
[ -s hello.c ] && [ -s typed ] && [ -s printed ] ||
	fail 'its program, commands or output were not found'
while read -r command <&3
do
	case $command in
	cc\ *)	command="$command -Wl,-rpath-link,$root/usr/local/lib" ;;
	esac
	case $command in
	*\&)	timeout $ALLOWED sh -c "exec ${command%&}" >>said 2>&1 &
		server=$!
		end=$(($(date +%s) + ALLOWED))
		until listens
		do
			kill -0 $server && [ "$(date +%s)" -lt $end ] ||
				fail "'$command' does not listen"
			sleep 0.05
		done ;;
	*)	timeout $ALLOWED sh -c "$command" >>said 2>&1 ||
			fail "'$command' fails" ;;
	esac
done 3<typed
wait || fail 'the server fails'
cmp -s said printed || fail 'it promises other output'
echo 'ok readme'
