# shellcheck shell=sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Cases of kv-server and its clients. run.sh sources this file.
# shellcheck disable=SC2154 # addr, bin, port, server and work are those of run.sh

# kv_start [PORT TCP-PORT [GROUP]]: sets $port and $tcp_port. The log stays.
kv_start()
{
	start "$bin/kv-server" "$addr" "${1:-0}" "${2:-0}" data ${3+"$3"}
	tcp_port=$(sed -n 's/^TCP on port //p' "$work/server")
}

# kv_do COMMAND...: by a client over rdmamsg, a line each
kv_do()
{
	printf '%s\n' "$@" >commands
	returns 0 "$bin/kv-cli" rdma "$addr" "$port" <commands
}

# kv_do_tcp COMMAND...
kv_do_tcp()
{
	printf '%s\n' "$@" >commands
	returns 0 "$bin/kv-cli" tcp "$addr" "$tcp_port" <commands
}

# kv_kill: as a crash does; the log is what remains
kv_kill()
{
	kill -KILL "$server"
	wait "$server" || :
	server=
}

# The same data over TCP, by message and one-sided, and after a crash. A client
# goes on with the next server.
kv_sample()
{
	kv_start
	mkfifo words
	"$bin/kv-cli" rdma "$addr" "$port" <words >told 2>&1 &
	client=$!
	exec 5>words
	printf 'get a\nput a one\nget a\nput b two words\n' >&5
	await grep -q '^b is stored$' told
	expects told '^a is not there$'
	expects told '^a: one$'
	large=$(printf '%050000d' 7)
	kv_do_tcp 'get b' "put c $large" 'delete a' 'delete a' 'add n 5'
	said '^b: two words$'
	said '^a is deleted$'
	said '^a is not there$'
	kv_do 'get c' 'ask c' 'add n 2' 'get a' "put $large x" nonsense
	[ "$(grep -cx "c: $large" said)" -eq 2 ]
	said '^n: 7$'
	said '^a is not there$'
	[ "$(grep -c "^kv-cli: none of 'put KEY" said)" -eq 2 ]
	kv_kill
	echo 'get b' >&5
	await grep -q 'connecting again$' told
	kv_start "$port" "$tcp_port" 5>&-
	await grep -q '^b: two words$' told
	exec 5>&-
	wait $client
	kv_do 'get a' 'get c' 'put a three'
	said '^a is not there$'
	said "^c: $large$"
	kv_do_tcp 'get a'
	said '^a: three$'
	end_server TERM 0
}

kv_mistakes()
{
	complains 2 'Usage: kv-server ADDR' "$bin/kv-server" x
	complains 2 "'udp' is none of tcp, rdma" "$bin/kv-cli" udp x 1
	complains 1 'cannot be opened' "$bin/kv-server" "$addr" 0 0 none/log
	echo 'text of the user' >file
	complains 1 'not a log of kv-server' "$bin/kv-server" "$addr" 0 0 file
	expects file '^text of the user$'
	kv_start
	complains 1 'another kv-server has it' "$bin/kv-server" "$addr" 0 0 data
	end_server INT 0
}

# Bytes behind the last whole record were not acknowledged.
kv_log()
{
	kv_start
	kv_do 'put a one' 'put b two'
	kv_kill
	printf 'half a record' >>data
	kv_start
	expects "$work/server" '13 bytes behind the last whole record'
	kv_do 'get a' 'get b' 'put c three'
	said '^b: two$'
	end_server TERM 0
	# as if the disk had only a part of it
	truncate -s -3 data
	kv_start
	expects "$work/server" 'bytes behind the last whole record'
	kv_do 'get a' 'get b' 'get c'
	said '^b: two$'
	said '^c is not there$'
	end_server INT 0
}

# A log that is mostly history is written anew at the start, and has the same data.
kv_log_anew()
{
	kv_start
	yes "put x $(printf '%050000d' 7)" | head -n 60 >commands
	printf '%s\n' 'put y two' 'add n 5' 'put z three' 'delete z' >>commands
	returns 0 "$bin/kv-cli" tcp "$addr" "$tcp_port" <commands >/dev/null
	kv_do 'add n 2'
	end_server TERM 0
	[ "$(stat -c %s data)" -gt 3000000 ]
	kv_start
	[ "$(stat -c %s data)" -lt 60000 ]
	[ ! -e data.new ]
	kv_do 'put y four' 'put w five'
	kv_kill
	# a crash while it was written anew leaves this
	printf 'half a log' >data.new
	kv_start 0 0 239.77.77.79
	kv_do 'get x' 'get y' 'get z' 'get w' 'add n 1'
	said '^x: 0*7$'
	said '^y: four$'
	said '^z is not there$'
	said '^w: five$'
	said '^n: 8$'
	[ "${RDMAMSG_SOFT_LINK-}" = iwarp ] || {
		returns 0 "$bin/kv-cli" follow "$addr" "$port" 65 >/dev/null
		said '^the table has 65 changes'
	}
	end_server TERM 0
}

# A server that cannot write the log acknowledges nothing, and still answers.
kv_log_full()
{
	mkdir full
	mount -t tmpfs -o size=64k tmpfs full
	start "$bin/kv-server" "$addr" 0 0 full/log
	large=$(printf '%050000d' 7)
	kv_do 'put a one' "put b $large" "put c $large" 'put d four' 'get a' \
		'get c'
	said '^c is refused'
	said '^d is refused'
	said '^a: one$'
	said '^c is not there$'
	expects "$work/server" 'No space left on device; no change is accepted'
	kv_kill
	start "$bin/kv-server" "$addr" 0 0 full/log
	kv_do 'get a' 'ask b' 'put d four'
	said '^a: one$'
	said "^b: $large$"
	said '^d is stored$'
	end_server TERM 0
	umount full
	rmdir full
}

# Each value that was read is one that was put, whole; and the check of slots
# finds all mixtures of two.
kv_torn()
{
	returns 0 "$bin/kv-hostile" torn
	said '^100[0-9]* torn slots found$'
	kv_start
	a=$(printf '%0180d' 0) b=$(printf '%0180d' 0 | tr 0 1)
	yes "$(printf 'put x %s\nput x %s' "$a" "$b")" |
		"$bin/kv-cli" tcp "$addr" "$tcp_port" >put 2>&1 &
	client=$!
	trap 'status=$?; kill "$client" || :; stop_server; exit $status' EXIT
	await grep -qs stored put
	yes 'get x' | head -n 4000 >commands
	returns 0 "$bin/kv-cli" rdma "$addr" "$port" <commands
	kill -KILL "$client"
	wait $client || :
	[ "$(grep -cx -e "x: $a" -e "x: $b" said)" -eq 4000 ]
	end_server TERM 0
}

# Clients of all kinds add at the same time, and nothing is lost, also not by the
# end of the server.
kv_counters()
{
	kv_start
	yes 'add n 3' | head -n 500 >commands
	pids=
	for i in 1 2 3
	do
		timeout $LIMIT "$bin/kv-cli" rdma "$addr" "$port" <commands \
			>"rdma.$i" 2>&1 &
		pids="$pids $!"
		timeout $LIMIT "$bin/kv-cli" tcp "$addr" "$tcp_port" <commands \
			>"tcp.$i" 2>&1 &
		pids="$pids $!"
	done
	for pid in $pids
	do wait "$pid"
	done
	[ "${RDMAMSG_SOFT_LINK-}" != iwarp ] ||
		expects rdma.1 'no atomic operations; the server counts'
	kv_do 'add n 0'
	said '^n: 9000$'
	end_server TERM 0
	kv_start
	kv_do 'add n 1'
	said '^n: 9001$'
	kv_do_tcp 'add n 1'
	said '^n: 9002$'
	end_server TERM 0
}

# kv_writer NAME WAY PORT: keys of its own, as fast as it can. It says what is
# acknowledged in the file NAME.
kv_writer()
{
	seq 6000 | awk -v name="$1" '{ print "put " name $1 % 500, $1 }' |
		timeout $LIMIT "$bin/kv-cli" "$2" "$addr" "$3" >"$1" 2>&1
}

# kv_has FILE NAME: what the writer says in the file is acknowledged, or later
kv_has()
{
	last=$(grep -c ' is stored$' "$1") || :
	first=$((last > 500 ? last - 499 : 1))
	seq $first "$last" | awk -v name="$2" '{ print "get " name $1 % 500 }' \
		>commands
	returns 0 "$bin/kv-cli" rdma "$addr" "$port" <commands >/dev/null
	seq $first "$last" >numbers
	grep -v '^kv-cli' said | paste -d ' ' numbers - |
		awk -v name="$2" '
		$2 != name $1 % 500 ":" || $3 < $1 { print; bad = 1 }
		END { exit bad }'
}

# acknowledged NAME COUNT
acknowledged()
{
	[ "$(grep -c ' is stored$' "$1")" -ge "$2" ]
}

# kill -9 in the middle of writes: what was acknowledged is there, and the clients
# go on.
kv_killed()
{
	kv_start
	touch t r
	(kv_writer t tcp "$tcp_port") &
	over_tcp=$!
	(kv_writer r rdma "$port") &
	over_rdma=$!
	for round in 1 2 3
	do
		await acknowledged t $((round * 300))
		await acknowledged r $((round * 300))
		kv_kill
		cp t t.then
		cp r r.then
		kv_start "$port" "$tcp_port"
		kv_has t.then t
		kv_has r.then r
	done
	wait $over_tcp
	wait $over_rdma
	[ "$(grep -c ' is stored$' t)" -eq 6000 ]
	[ "$(grep -c ' is stored$' r)" -eq 6000 ]
	expects t 'connecting again$'
	expects r 'connecting again$'
	kv_has t t
	kv_has r r
	end_server TERM 0
}

# Clients that are killed cost the others nothing.
kv_client_killed()
{
	kv_start
	for way in tcp rdma
	do
		to=$port
		[ $way = rdma ] || to=$tcp_port
		yes 'put x one' | "$bin/kv-cli" $way "$addr" "$to" >"told.$way" 2>&1 &
		client=$!
		await grep -q stored "told.$way"
		kill -KILL $client
		wait $client || :
		kv_do 'put y two' 'get y'
		said '^y: two$'
	done
	kv_do_tcp 'get x'
	said '^x: one$'
	end_server TERM 0
}

# Followers end with the same copy, whenever they began, and whatever happened.
kv_follow()
{
	if [ "${RDMAMSG_SOFT_LINK-}" = iwarp ]
	then
		kv_start 0 0 239.77.77.79
		await grep -q 'changes are not published' "$work/server"
		complains 1 'does not publish: start it with a GROUP' \
			"$bin/kv-cli" follow "$addr" "$port" 1
		end_server TERM 0
		return
	fi
	kv_start 0 0 239.77.77.79
	timeout $LIMIT "$bin/kv-cli" follow "$addr" "$port" 1167 >early 2>&1 &
	early=$!
	await grep -q '^the table has 0 changes' early
	seq 700 | awk '{ print "put k" $1 % 90, "v" $1 }' >puts
	{
		seq 350 | awk '{ print "put k" $1 % 90, "w" $1 }
			$1 % 3 == 0 { print "delete k" $1 % 90 }'
		printf 'put k0 %0900d\n' 1
	} >changes
	returns 0 "$bin/kv-cli" tcp "$addr" "$tcp_port" <puts >/dev/null
	timeout $LIMIT "$bin/kv-cli" follow "$addr" "$port" 1167 >late 2>&1 &
	late=$!
	await grep -q '^the table has 700 changes' late
	await grep -q '^700: ' early
	kv_kill
	kv_start "$port" "$tcp_port" 239.77.77.79
	returns 0 "$bin/kv-cli" rdma "$addr" "$port" <changes >/dev/null
	wait $early
	wait $late
	grep '^k[0-9]*: ' early | sort >early.copy
	grep '^k[0-9]*: ' late | sort >late.copy
	cmp early.copy late.copy
	[ -s early.copy ]
	seq 0 89 | sed 's/^/get k/' >commands
	returns 0 "$bin/kv-cli" rdma "$addr" "$port" <commands
	grep '^k[0-9]*: ' said | sort | cmp - late.copy
	end_server TERM 0
}

# Garbage over TCP and by message ends that connection alone.
kv_hostile()
{
	kv_start
	kv_do 'put a one'
	returns 0 "$bin/kv-hostile" garbage "$addr" "$port" "$tcp_port"
	said '^200 offences each way$'
	kv_do 'get a'
	said '^a: one$'
	kv_do_tcp 'get a'
	said '^a: one$'
	end_server TERM 0
}

# A client that asks and does not read is held up, and gets all its answers.
kv_crowd()
{
	kv_start
	returns 0 "$bin/kv-hostile" crowd "$addr" "$port" "$tcp_port"
	said '^[1-9][0-9]* answers by message while others were asked for$'
	said '^1000 answers each way$'
	end_server TERM 0
}

kv_load()
{
	kv_start
	set --
	! command -v gnuplot >/dev/null || set -- --plot=picture.svg
	returns 0 "$bin/kv-load" -n 200 -c 2 -s 100 --puts "$@" "$addr" \
		"$port" "$tcp_port"
	for way in 'get TCP' 'get message' 'get one-sided' 'put TCP' \
		'put message'
	do said "^$way  *[0-9]*/s  *[0-9.]*  *[0-9.]*  *[0-9.]*  *[0-9.]*$"
	done
	[ $# -eq 0 ] || expects picture.svg 'get one-sided'
	returns 0 "$bin/kv-load" --help
	complains 2 "'0' is not a number from 1 to" "$bin/kv-load" -c 0
	complains 2 'HOST, PORT and TCP-PORT' "$bin/kv-load" x
	complains 2 'not .picture.pdf' "$bin/kv-load" --plot=picture.pdf \
		"$addr" "$port" "$tcp_port"
	end_server TERM 0
}

if [ -x "$bin/kv-server" ]
then
	run kv kv_sample
	run kv-mistakes kv_mistakes
	run kv-log kv_log
	long kv-log-anew kv_log_anew
	long kv-hostile kv_hostile
	long kv-crowd kv_crowd
	long kv-torn kv_torn
	long kv-counters kv_counters
	long kv-killed kv_killed
	long kv-client-killed kv_client_killed
	long kv-follow kv_follow
	long kv-load kv_load
	[ "$(id -u)" -ne 0 ] || long kv-log-full kv_log_full
else
	echo "skip kv # built without librdmamsg-uv"
fi
