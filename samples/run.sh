#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: run.sh BUILD [ADDR]
#
# Runs every sample of the build directory BUILD, and rdmamsg-copy through
# what can happen to it, over the RDMA device that has ADDR, by default
# $RDMAMSG_VM_ADDR. Prints 'ok NAME' or 'not ok NAME' for each; exit status 1
# if one has failed.

set -u

if [ $# -lt 1 ] || [ -z "${2-${RDMAMSG_VM_ADDR-}}" ]
then
	sed -n 's/^# \(Usage: \)/\1/p' "$0" >&2
	exit 2
fi
bin=$1/samples
if [ -x "$bin/.libs/rdmamsg-copy" ]
then
	# Past libtool's scripts, which take long in a virtual machine.
	bin=$bin/.libs
	LD_LIBRARY_PATH=$1/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	export LD_LIBRARY_PATH
fi
addr=${2-${RDMAMSG_VM_ADDR-}}
copy=$bin/rdmamsg-copy

work=$(mktemp -d) || exit
dir=$work/dir
failures=0 server=
trap 'stop_server; umount "$work/full" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# ---- tools --------------------------------------------------------------

# await COMMAND...: until it succeeds, at most 60 s.
await()
{
	end=$(($(date +%s) + 60))
	until "$@"
	do
		[ "$(date +%s)" -lt "$end" ] || {
			echo "in vain: $*"
			return 1
		}
		sleep 0.05
	done
}

# returns STATUS COMMAND...: what it prints goes to $work/said as well.
returns()
{
	expected=$1 status=0
	shift
	timeout 100 "$@" >"$work/said" 2>&1 || status=$?
	cat "$work/said"
	[ $status -eq "$expected" ] || {
		echo "status $status, not $expected: $*"
		return 1
	}
}

said()
{
	grep -q -e "$1" "$work/said"
}

# start COMMAND...: a server that prints its port, which is then $port.
start()
{
	"$@" >"$work/server" 2>&1 &
	server=$!
	await grep -q '^listening on port' "$work/server" || return
	port=$(sed -n 's/^listening on port //p' "$work/server")
}

# end_server SIGNAL STATUS
end_server()
{
	kill -"$1" "$server"
	server_ends "$2"
}

# server_ends STATUS
server_ends()
{
	status=0
	wait "$server" || status=$?
	server=
	[ $status -eq "$1" ] || {
		echo "the server's status is $status, not $1"
		return 1
	}
}

stop_server()
{
	[ -z "$server" ] || {
		kill -KILL "$server" 2>/dev/null || :
		wait "$server" 2>/dev/null || :
	}
	server=
}

start_copy()
{
	start "$copy" server "$dir" -a "$addr" -p 0
}

# holds NAME...: these files are in the server's directory, and no others.
holds()
{
	ls -A "$dir" >"$work/there"
	if [ $# -gt 0 ]
	then printf '%s\n' "$@" | sort
	else :
	fi | cmp -s - "$work/there" || {
		echo "in the directory:"
		cat "$work/there"
		return 1
	}
}

# half FILE: a client copies it and is stopped in the middle; if it has got too
# far before anybody could look, the next one is. Its number is in the file
# `client`, its status will be in `ended`.
half()
{
	end=$(($(date +%s) + 60))
	until
		rm -f ended
		(
			status=0
			timeout 100 sh -c 'echo $$ >client; exec "$@"' - \
				"$copy" "$1" "$addr:$port" >said 2>&1 ||
				status=$?
			echo $status >ending
			mv ending ended
		) &
		until [ -e ended ] || writing
		do
			sleep 0.01
		done
		kill -STOP "$(cat client)" 2>/dev/null && writing
	do
		[ "$(date +%s)" -lt "$end" ] || return
		kill -CONT "$(cat client)" 2>/dev/null || :
		await test -e ended
		rm -f "$dir/$1"
	done
}

# A part of it is there, and there is far to go.
writing()
{
	find "$dir" -name '.rdmamsg-copy-*' -size +1024k -size -131072k |
		grep -q .
}

# goes_on STATUS: the client that half has stopped.
goes_on()
{
	kill -CONT "$(cat client)"
	await test -e ended
	cat said
	[ "$(cat ended)" -eq "$1" ]
}

no_file()
{
	[ -z "$(ls -A "$dir")" ]
}

# run NAME COMMAND...: each in a directory of its own, and a subshell.
run()
{
	name=$1
	shift
	mkdir -p "$dir"
	# Not in a condition, where set -e has no effect.
	(
		trap 'status=$?; stop_server; exit $status' EXIT
		set -e
		cd "$work"
		"$@"
	) >"$work/log" 2>&1
	# shellcheck disable=SC2181 # see above
	if [ $? -eq 0 ]
	then
		echo "ok $name"
	else
		echo "not ok $name"
		sed 's/^/# /' "$work/log"
		[ ! -s "$work/server" ] || sed 's/^/# server: /' "$work/server"
		failures=$((failures + 1))
	fi
	rm -rf "$dir"
	rm -f "$work/server"
}

# ---- the samples --------------------------------------------------------

srq_sample()
{
	start "$bin/srq" -s -a "$addr" -p 0 -c 300 -q 5 -w 16
	returns 0 "$bin/srq" -a "$addr" -p "$port" -c 300 -q 5 -w 16
	said '^send count: 300$'
	await grep -q '^recv count: 300, qp_num: ' "$work/server"
	status=0
	wait "$server" || status=$?
	server=
	[ $status -eq 0 ]
}

conns()
{
	start "$bin/rdmamsg-perf" server -a "$addr" -p 0 --srq --event
	returns 0 "$bin/rdmamsg-perf" conns "$addr" -p "$port" -n 20 --srq \
		--json --event
	said '"connections": 20, '
	end_server TERM 0
}

perf_onesided()
{
	start "$bin/rdmamsg-perf" server -a "$addr" -p 0
	for test in write-lat read-lat write-bw read-bw
	do
		returns 0 "$bin/rdmamsg-perf" $test "$addr" -p "$port" \
			-s 1,64,5000,2M -n 20 --json || return
		said '"size": 2097152, "count": 20, '
	done
	returns 0 "$bin/rdmamsg-perf" atomic-lat "$addr" -p "$port" -n 20 --json
	said '"size": 8, "count": 20, '
	returns 2 "$bin/rdmamsg-perf" write-lat "$addr" -p "$port" --event
	returns 2 "$bin/rdmamsg-perf" atomic-lat "$addr" -p "$port" -s 4
	end_server TERM 0
}

echo_sample()
{
	start "$bin/echo" "$addr" 0
	returns 0 "$bin/echo-client" "$addr" "$port" 'one two' '' three
	printf 'one two\n\nthree\n' | cmp - "$work/said"
}

rc_pingpong()
{
	start "$bin/rc-pingpong" -p 0
	returns 0 "$bin/rc-pingpong" -p "$port" "$@" "$addr"
	said "^received: 'SEND operation '"
	said "^read there: 'RDMA read operation '"
	said '^test result is 0'
	wait "$server"
	server=
	grep -q "^written here: 'RDMA write operation'" "$work/server"
	grep -q '^test result is 0' "$work/server"
}

rc_pingpong_usage()
{
	returns 0 "$bin/rc-pingpong" --help
	returns 2 "$bin/rc-pingpong" -i 0
	returns 2 "$bin/rc-pingpong" -i 300
	returns 2 "$bin/rc-pingpong" -p 65536
	returns 2 "$bin/rc-pingpong" -g -1
	returns 2 "$bin/rc-pingpong" -g x
	returns 2 "$bin/rc-pingpong" a b
	returns 1 "$bin/rc-pingpong" -d no-such-device "$addr"
	said 'test result is 1'
}

# ---- rdmamsg-copy -------------------------------------------------------

usage()
{
	returns 0 "$copy" --help
	said '^Usage'
	returns 0 "$copy" --version
	said '^rdmamsg-copy [0-9]'
	returns 2 "$copy"
	returns 2 "$copy" file
	returns 2 "$copy" --nonsense
	returns 2 "$copy" server a b
	returns 2 "$copy" file '[::1'
	returns 2 "$copy" file host:
	returns 1 "$copy" server "$work/missing"
}

files()
{
	: >empty
	printf x >one
	head -c 10000000 /dev/urandom >'ten million'
	head -c 1048576 /dev/urandom >chunk
	chmod 640 one
	chmod 755 chunk
	start_copy
	echo old >"$dir/one"
	returns 0 "$copy" empty one 'ten million' "$work/chunk" "$addr:$port"
	for file in empty one 'ten million' chunk
	do
		cmp "$file" "$dir/$file"
		[ "$(stat -c %a "$file")" = "$(stat -c %a "$dir/$file")" ]
	done
	holds chunk empty one 'ten million'
	end_server TERM 0
	rm empty one 'ten million' chunk
}

many()
{
	mkdir many
	i=0
	while [ $i -lt 60 ]
	do
		echo $i >many/$i
		i=$((i + 1))
	done
	start_copy
	returns 0 "$copy" many/* -p "$port" "$addr"
	diff -r many "$dir"
	rm -r many
}

ipv6()
{
	echo text >file
	start "$copy" server "$dir" -p 0
	returns 0 "$copy" file "[$RDMAMSG_VM_ADDR6]:$port"
	cmp file "$dir/file"
}

at_once()
{
	head -c 3000000 /dev/urandom >a
	head -c 4000000 /dev/urandom >b
	start_copy
	timeout 100 "$copy" a "$addr:$port" &
	first=$!
	returns 0 "$copy" b "$addr:$port"
	wait $first
	cmp a "$dir/a"
	cmp b "$dir/b"
	rm a b
}

hostile()
{
	start_copy
	returns 0 "$bin/copy-hostile" "$addr" "$port"
	await holds fine
	[ ! -e "$work/escaped" ] && [ ! -e /tmp/escaped ]
	end_server TERM 0
}

# What goes wrong here costs the file, not those after it.
bad_source()
{
	echo good >good
	echo hidden >.hidden
	mkfifo fifo
	start_copy
	returns 1 "$copy" missing "$dir" fifo .hidden good "$addr:$port"
	said 'missing: No such file'
	said 'not a regular file'
	said 'hidden: not a name that is accepted'
	holds good
	rm .hidden fifo
}

# Files of the kernel have other sizes than they say.
changing()
{
	echo good >good
	start_copy
	returns 1 "$copy" /proc/cpuinfo /sys/kernel/mm/transparent_hugepage/enabled \
		good "$addr:$port"
	[ "$(grep -c 'has changed its size' said)" = 2 ]
	holds good
}

no_server()
{
	echo text >file
	start_copy
	end_server TERM 0
	returns 1 "$copy" file "$addr:$port"
	said 'listens'
	start "$bin/echo" "$addr" 0
	returns 1 "$copy" file "$addr:$port"
	said 'no server of rdmamsg-copy'
}

disk_full()
{
	mkdir full
	mount -t tmpfs -o size=4m tmpfs full
	dir=$work/full
	head -c 10000000 /dev/zero >large
	echo small >small
	start_copy
	returns 1 "$copy" large small "$addr:$port"
	said 'large: No space left'
	holds small
	stop_server
	umount full
}

client_killed()
{
	truncate -s 256M large
	echo small >small
	start_copy
	half large
	kill -KILL "$(cat client)"
	await test -e ended
	await no_file
	returns 0 "$copy" small "$addr:$port"
	holds small
	end_server TERM 0
}

server_killed()
{
	truncate -s 256M large
	start_copy
	half large
	end_server KILL 137
	goes_on 1
	said 'large: not copied'
	[ ! -e "$dir/large" ]

	head -c 3000000 /dev/urandom >large
	start_copy
	no_file
	returns 0 "$copy" large "$addr:$port"
	cmp large "$dir/large"
	holds large
}

# A server that is asked to end removes what is half there; two servers on one
# directory leave each other's files alone.
server_ended()
{
	truncate -s 256M large
	start_copy
	half large
	other=$server
	start_copy
	writing
	end_server TERM 0
	writing
	server=$other
	# it knows before anything more can come
	kill -TERM "$server"
	goes_on 1
	server_ends 0
	no_file
}

terminal()
{
	head -c 1000000 /dev/urandom >file
	start_copy
	returns 0 script -qec "'$copy' file '$addr:$port'" /dev/null
	said '#####'
	said '100%'
	returns 0 "$copy" file "$addr:$port"
	[ ! -s said ]
}

run echo echo_sample
run own-loop returns 0 "$bin/own-loop" "$addr"
run ev-loop returns 0 "$bin/ev-loop" "$addr"
run threads returns 0 "$bin/threads" "$addr"
run rc-pingpong rc_pingpong
run rc-pingpong-port rc_pingpong -i 1
run rc-pingpong-usage rc_pingpong_usage
run srq srq_sample
run perf-conns conns
run perf-onesided perf_onesided
run copy-usage usage
run copy-files files
run copy-many many
[ -z "${RDMAMSG_VM_ADDR6-}" ] || run copy-ipv6 ipv6
run copy-at-once at_once
run copy-hostile hostile
run copy-bad-source bad_source
run copy-changing changing
run copy-no-server no_server
if [ "$(id -u)" -eq 0 ]
then run copy-disk-full disk_full
else echo "skip copy-disk-full # needs root, for mount"
fi
run copy-client-killed client_killed
run copy-server-killed server_killed
run copy-server-ended server_ended
run copy-terminal terminal
[ $failures -eq 0 ]
