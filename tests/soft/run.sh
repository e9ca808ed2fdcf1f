#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: run.sh BUILDDIR [CASE...]
#
# Runs programs that other people wrote on the soft HCA, unmodified, through
# rdmamsg-soft: a line for each case, `ok NAME`, `not ok NAME` or
# `skip NAME # reason`, and what a failed one has said after its line. Each case
# has a fabric and a port of its own; a name ending in * stands for many.

set -u

[ $# -ge 1 ] || { sed -n 's/^# //; 4p' "$0" >&2; exit 2; }

build=$1
soft=$build/lib/soft/tools/rdmamsg-soft
shift
wanted=${*:-'*'}
# Programs that poll share the processors with all others.
limit=300	# seconds a program may take
work=$(mktemp -d) || exit
registry=$work.dat
trap 'rm -rf "$work" "$registry" "$registry.d"' EXIT
failed=0
count=0
unset LD_PRELOAD RDMAMSG_DEVICE

# lacks PACKAGE: the lists of the distribution are there and do not name it
lacks()
{
	[ -n "$(apt-cache madison libc6 2>/dev/null)" ] &&
		[ -z "$(apt-cache madison "$1" 2>/dev/null)" ]
}

# case_of NAME PROGRAM [PACKAGE]: begins a wanted case if the program is
# installed. Not every distribution has the package.
case_of()
{
	name=$1
	found=
	set -f
	for pattern in $wanted
	do
		# shellcheck disable=SC2254 # a pattern
		case $name in $pattern) found=1 ;; esac
	done
	set +f
	[ "$found" ] || return
	if ! command -v "$2" >/dev/null
	then
		why="$2 is not installed"
		[ -z "${3-}" ] || ! lacks "$3" ||
			why="this distribution has no $3"
		echo "skip $name # $why"
		return 1
	fi
	count=$((count + 1))
	next_port
	RDMAMSG_SOFT_FABRIC=programs-$$-$count
	export RDMAMSG_SOFT_FABRIC
	rm -f "$work"/*
	began=$(date +%s)
}

# in_use PORT [STATE]: whether a TCP socket has the port, in the state if given
in_use()
{
	cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
	awk -v port="$(printf '%04X' "$1")" -v state="${2:-..}" '
		$4 ~ "^" state "$" && $2 ~ ":" port "$" { found = 1 }
		END { exit !found }'
}

# next_port: sets 'port'. These programs take no port of the kernel's choice, so
# it is one below those that the kernel gives away, which nobody uses. Another
# run of this script, whose process number is near, is far away.
next_port()
{
	port=$((20000 + ($$ * 211 + count) % 12000))
	while in_use $port
	do
		port=$((20000 + (port - 20000 + 1) % 12000))
	done
}

# program_of COMMAND: its program, also behind 'env NAME=VALUE...'
program_of()
{
	# shellcheck disable=SC2086 # words
	set -- $1
	[ "$1" != env ] || [ "${2#*=}" = "$2" ] || shift
	while [ "${1#*=}" != "$1" ]
	do
		shift
	done
	echo "$1"
}

took()
{
	echo "# took $(($(date +%s) - began)) $name"
}

pass()
{
	echo "ok $name"
	took
}

# fail WHY
fail()
{
	failed=1
	echo "not ok $name"
	took
	echo "# $1"
	for log in "$work"/*
	do
		sed "s|^|# $(basename "$log"): |" "$log"
	done
}

# Succeeds if a program listens on this fabric or on the case's TCP port.
listens()
{
	# the flag is __SO_ACCEPTCON: a bound id may not listen yet
	awk -v name="/$RDMAMSG_SOFT_FABRIC/cm/" '
		$4 == "00010000" && index($8, name) { found = 1 }
		END { exit !found }' /proc/net/unix || in_use "$port" 0A
}

# wait_for COMMAND...: until it is true, the server has ended, or $limit
wait_for()
{
	n=0
	until "$@"
	do
		n=$((n + 1))
		[ $n -lt $((10 * limit)) ] && kill -0 "$pid" 2>/dev/null ||
			return
		sleep 0.1
	done
}

serve()
{
	# shellcheck disable=SC2086 # words
	timeout $limit "$soft" $1 >"$work/server" 2>&1 </dev/null &
	pid=$!
}

# expect PATTERN: checks the output.
expect()
{
	cat "$work"/* 2>/dev/null | grep -q -e "$1"
}

# one NAME COMMAND [PATTERN]: runs one program.
one()
{
	case_of "$1" "$(program_of "$2")" || return 0
	# shellcheck disable=SC2086 # words
	timeout $limit "$soft" $2 >"$work/output" 2>&1 </dev/null
	status=$?
	if [ $status -ne 0 ]
	then fail "status $status"
	elif ! expect "${3:-.}"
	then fail "no '$3' in what it says"
	else pass
	fi
}

# both SERVER CLIENT PATTERN: whether they end well; if not, $why. Without a
# pattern they may say nothing: rping names the end only if its other thread has
# not ended it yet.
both()
{
	serve "$1"
	if ! wait_for listens
	then
		kill "$pid" 2>/dev/null
		wait "$pid"
		why="server: status $?, and it does not listen"
		return 1
	fi
	# shellcheck disable=SC2086 # words
	timeout $limit "$soft" $2 >"$work/client" 2>&1 </dev/null
	status=$?
	if [ $status -ne 0 ] || [ "${endless-}" ]
	then
		kill "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
		server=0
	else
		wait "$pid"
		server=$?
	fi
	why="client: status $status, server: $server"
	[ $status -eq 0 ] && [ $server -eq 0 ] || return
	why="no '$3' in what they say"
	[ -z "$3" ] || expect "$3"
}

# pair NAME SERVER CLIENT [PATTERN]: both are to end well; PORT in the commands
# is one for this case
pair()
{
	case_of "$1" "$(program_of "$2")" || return 0
	if both "$(echo "$2" | sed "s/PORT/$port/")" \
	    "$(echo "$3" | sed "s/PORT/$port/")" "${4-}"
	then pass
	else fail "$why"
	fi
}

# endless_pair: the server stays until it is killed
endless_pair()
{
	endless=1
	pair "$@"
	endless=
}

# perf NAME PROGRAM OPTIONS...: of perftest. For its report it measures how fast
# the processor's counter runs, and exits with 1 if another program gets the
# processor between the two readings of a sample. Programs for latency report
# the counter with -C, and do not measure. Those for bandwidth always measure,
# after the transfer: such a run says nothing about the device, so it is not
# counted.
perf()
{
	perf_name=$1
	shift
	case $* in
	*_lat*)	pair "$perf_name" "$* -C -p PORT" "$* -C -p PORT 127.0.0.1" \
		    '#bytes'
		return ;;
	esac
	case_of "$perf_name" "$(program_of "$*")" || return 0
	tries=0
	until both "$* -p $port" "$* -p $port 127.0.0.1" '#bytes'
	do
		tries=$((tries + 1))
		if [ $tries -eq 50 ] ||
		    ! expect 'Correlation coefficient r^2: [^ ]* < 0.9'
		then
			fail "$why"
			return
		fi
	done
	pass
}

if ! [ -x "$soft" ]
then
	echo "not ok programs: $soft is not there"
	exit 1
fi

# ---- the launcher ---------------------------------------------------------

one launcher-help "env --help"
if case_of launcher-status sh
then
	"$soft" sh -c 'exit 7' >"$work/output" 2>&1
	[ $? -eq 7 ] && "$soft" no-such-program-here >>"$work/output" 2>&1
	[ $? -eq 127 ] && "$soft" --no-such-option >>"$work/output" 2>&1
	[ $? -eq 2 ] && "$soft" --help >"$work/help" && expect Usage &&
	"$soft" --fabric=x sh -c '[ "$RDMAMSG_SOFT_FABRIC" = x ]' &&
	pass || fail "a status is not the one to expect"
fi

# Every call of the installed libibverbs that takes an object of a device is the
# device's: libibverbs would find something else in the object than it expects.
if case_of exports nm
then
	library=$(ldd "$(command -v ibv_devices)" |
		awk '/libibverbs/ { print $3 }')
	nm -D --defined-only \
	    "$build/lib/soft/preload/.libs/libsoft-preload.so" |
	awk '{ print $3 }' >"$registry"
	nm -D --defined-only "$library" |
	sed -n 's/.* T \([^@]*\)@*IBVERBS_1\..*/\1/p' | sort -u |
	grep -v -e '_str$' -e '_kern$' -e 'ibv_rate_to_' -e '_to_ibv_rate$' \
	    -e 'fork_range$' -e '^ibv_get_sysfs_path$' \
	    -e '^ibv_register_driver$' >"$work/calls"
	if ! [ -s "$work/calls" ]
	then fail "libibverbs exports nothing"
	elif grep -vxF -f "$registry" "$work/calls" >"$work/missing"
	then fail "not the device's"
	else pass
	fi
fi

# ---- devices --------------------------------------------------------------

one ibv_devices ibv_devices soft0
one ibv_devinfo "ibv_devinfo -v" "PORT_ACTIVE"
one ibv_devinfo-ib "$soft --link=ib --ports=3 ibv_devinfo -v" "port:.*3"
if case_of ibv_asyncwatch ibv_asyncwatch
then
	serve "stdbuf -oL ibv_asyncwatch"
	if wait_for expect "soft0: async event FD" && kill -0 "$pid"
	then pass
	else fail "it does not wait for events"
	fi
	kill "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
fi

# ---- pingpong -------------------------------------------------------------

# pingpong KIND SIZE...
pingpong()
{
	kind=$1
	shift
	for size
	do
		for events in "" " -e"
		do
			pp="ibv_${kind}_pingpong -g 0 -n 500 -s $size$events"
			pair "ibv_${kind}_pingpong-$size${events# }" \
			    "$pp -p PORT" "$pp -p PORT 127.0.0.1" "500 iters"
		done
	done
}

pingpong rc 1 64 4096 65536 1048576
pingpong uc 1 4096 65536
pingpong ud 1 2048
pingpong srq 1 4096
pair ibv_rc_pingpong-new "ibv_rc_pingpong -N -g 0 -n 500 -p PORT" \
    "ibv_rc_pingpong -N -g 0 -n 500 -p PORT 127.0.0.1" "500 iters"
# with time stamps of completions
pair ibv_rc_pingpong-ts "ibv_rc_pingpong -t -g 0 -n 500 -p PORT" \
    "ibv_rc_pingpong -t -g 0 -n 500 -p PORT 127.0.0.1" \
    "Max receive completion clock cycles = [1-9]"
for events in "" " -e"
do
	pair "ibv_xsrq_pingpong${events# }" \
	    "ibv_xsrq_pingpong -g 0 -c 1$events -p PORT" \
	    "ibv_xsrq_pingpong -g 0$events -p PORT 127.0.0.1" success
done
for kind in rc uc ud
do
	pair "ibv_${kind}_pingpong-ib" "env RDMAMSG_SOFT_LINK=ib \
	    ibv_${kind}_pingpong -s 2048 -i 2 -p PORT" "env RDMAMSG_SOFT_LINK=ib \
	    ibv_${kind}_pingpong -s 2048 -i 2 -p PORT 127.0.0.1" "1000 iters"
done

# ---- librdmacm ------------------------------------------------------------

for a in 127.0.0.1 ::1 localhost
do
	pair "rping-$a-iwarp" "env RDMAMSG_SOFT_LINK=iwarp rping -s -a $a -C 20" \
	    "env RDMAMSG_SOFT_LINK=iwarp rping -c -a $a -C 20 -V"
	pair "rping-$a" "rping -s -a $a -C 20 -v" "rping -c -a $a -C 20 -v -V" \
	    "ping data: rdma-ping-9:"
done
# an address of another interface, where there is one
other=$(ip -4 -o addr show up scope global 2>/dev/null |
	awk '{ sub("/.*", "", $4); print $4; exit }')
if [ "$other" ]
then
	pair rping-other "rping -s -a $other -C 20" "rping -c -a $other -C 20"
	pair ibv_rc_pingpong-other "ibv_rc_pingpong -g 2 -n 500 -p PORT" \
	    "ibv_rc_pingpong -g 2 -n 500 -p PORT 127.0.0.1" "500 iters"
else
	echo "skip rping-other # only the loopback interface has an address"
fi
one channel-in-use "$build/tests/soft/channel" destroyed
pair rping-size "rping -s -a 127.0.0.1 -C 20 -S 65535" \
    "rping -c -a 127.0.0.1 -C 20 -S 65535 -V"
endless_pair rping-persistent "rping -s -P -a 127.0.0.1" \
    "rping -c -a 127.0.0.1 -C 20 -V"
pair ucmatose ucmatose "ucmatose -s 127.0.0.1" "return status 0"
# GIDs as addresses (AF_IB) are those of InfiniBand
if case_of ucmatose-gid-ethernet ucmatose
then
	timeout $limit "$soft" ucmatose -f gid -P ib >"$work/server" 2>&1
	timeout $limit "$soft" ucmatose -f gid -P ib -s fe80::1 \
	    >"$work/client" 2>&1
	if grep -q 'listen: Operation not supported' "$work/server" &&
	    grep -q 'addr: Operation not supported' "$work/client"
	then pass
	else fail "they do not say that it is not supported"
	fi
fi
pair ucmatose-many "ucmatose -c 50 -C 5 -S 4096" \
    "ucmatose -s 127.0.0.1 -c 50 -C 5 -S 4096" "return status 0"
pair ucmatose-migrate "ucmatose -m" "ucmatose -m -s 127.0.0.1" "return status 0"
endless_pair cmtime "cmtime -c 100" "cmtime -c 100 -s 127.0.0.1" destroy
pair rdma_server rdma_server "rdma_client -s 127.0.0.1" "rdma_client: end 0"
pair rdma_xserver "rdma_xserver -c r" "rdma_xclient -s 127.0.0.1 -c r" \
    "rdma_xclient: end 0"
pair rdma_xserver-xrc "rdma_xserver -c x" "rdma_xclient -s 127.0.0.1 -c x" \
    "rdma_xclient: end 0"

# With InfiniBand, and the GID of the server's first port as its address.
server_gid()
{
	guid=$("$build/lib/soft/tools/rdmamsg-soft-ctl" list |
		sed -n "s/^node [0-9]* pid [0-9]* .* guid \([0-9a-f]*\)0000 .*/\1/p")
	[ "${#guid}" -eq 12 ] || return
	gid=fe80::$(echo "$guid" | sed 's/..../&:/g')1
}

# gid_pair NAME PROGRAM: with its options
gid_pair()
{
	case_of "$1" "${2%% *}" || return 0
	RDMAMSG_SOFT_LINK=ib
	export RDMAMSG_SOFT_LINK
	serve "$2 -f gid"
	if wait_for listens && server_gid &&
	    timeout $limit "$soft" $2 -f gid -s "$gid" >"$work/client" 2>&1 &&
	    wait "$pid"
	then pass
	else fail "by GID ${gid-}"
	fi
	unset RDMAMSG_SOFT_LINK
}
gid_pair ucmatose-gid "ucmatose -P ib"
gid_pair ucmatose-gid-tcp "ucmatose -P tcp -C 20"
gid_pair udaddy-gid udaddy
gid_pair rstream-gid "rstream -S 64"

pair udaddy udaddy "udaddy -s 127.0.0.1" "return status 0"
pair udaddy-many "udaddy -c 10 -C 5" "udaddy -s 127.0.0.1 -c 10 -C 5" \
    "return status 0"
if case_of mckey mckey
then
	serve "stdbuf -oL mckey -b 127.0.0.1 -m 239.1.2.3 -C 5"
	if wait_for expect "joined" &&
	    timeout $limit "$soft" mckey -s -b 127.0.0.1 -m 239.1.2.3 -C 5 \
	    >"$work/client" 2>&1 && wait "$pid"
	then pass
	else fail "status $?"
	fi
fi

# An MGID that is not mapped, which only InfiniBand has.
if case_of mckey-mgid mckey
then
	if RDMAMSG_SOFT_LINK=ib timeout $limit "$soft" mckey -s -b 127.0.0.1 \
	    -M ff12:401b:ffff::77 -C 5 >"$work/client" 2>&1 &&
	    grep -q 'dgid: ff12:401b:ffff::77 ' "$work/client"
	then pass
	else
		cat "$work/client"
		fail "the sender"
	fi
fi

# few FILE N COMMAND...: with N descriptors. A client and a server that have too
# few say so, until they have enough: nobody listens, and somebody listens.
if case_of descriptors rping
then
	# shellcheck disable=SC2016 # its own words
	echo 'ulimit -n $1; shift; exec "$@"' >"$registry"
	few=4 why='' pid=''
	until [ "$why" ]
	do
		timeout $limit "$soft" sh "$registry" $few \
		    rping -c -a 127.0.0.1 -C 1 >"$work/client" 2>&1
		if expect REJECTED
		then break
		elif ! expect 'Too many open files\|error -24\|failed: 24'
		then why="a client with $few descriptors"
		fi
		few=$((few + 1))
	done
	rm -f "$work/client"
	few=4
	until [ "$why" ]
	do
		serve "sh $registry $few rping -s -a 127.0.0.1 -C 1"
		if wait_for listens
		then
			kill "$pid"
			break
		elif ! expect 'Too many open files'
		then why="a server with $few descriptors"
		fi
		few=$((few + 1))
	done
	[ -z "$pid" ] || wait "$pid" 2>/dev/null
	if [ "$why" ]
	then fail "$why"
	else pass
	fi
fi

# ---- rsockets -------------------------------------------------------------

pair rstream rstream "rstream -s 127.0.0.1" 1m_bw
# the side that accepts sends first
pair rstream-iwarp "env RDMAMSG_SOFT_LINK=iwarp rstream -S 64" \
    "env RDMAMSG_SOFT_LINK=iwarp rstream -S 64 -s 127.0.0.1" custom
pair rstream-blocking "rstream -T b" "rstream -T b -s 127.0.0.1" 1m_bw
pair rstream-async "rstream -T a" "rstream -T a -s 127.0.0.1" 1m_bw
# of a name with two addresses, both take the first
pair rstream-resolve "rstream -T r -b localhost" "rstream -T r -s localhost" \
    1m_bw
pair riostream "riostream -I 100" "riostream -I 100 -s 127.0.0.1" custom
rspreload=$(find /usr/lib* -name librspreload.so | head -n 1)
pair rspreload "$build/tests/soft/rsockets $rspreload PORT" \
    "$build/tests/soft/rsockets $rspreload PORT 127.0.0.1" \
    'all bytes came back'
# the device asks the kernel about an address that is no loopback address
[ -z "$other" ] ||
	pair rspreload-other "$build/tests/soft/rsockets $rspreload PORT" \
	    "$build/tests/soft/rsockets $rspreload PORT $other" \
	    'all bytes came back'
endless_pair rcopy rcopy "rcopy $0 127.0.0.1:$work/copy" transferring

# ---- perftest -------------------------------------------------------------

for test in send_lat send_bw write_lat write_bw read_lat read_bw \
	atomic_lat atomic_bw
do
	perf ib_$test ib_$test -n 1000
	# the server listens twice: the client may come before the second time
	perf ib_$test-cm env RDMAMSG_SOFT_PATIENCE=60000 ib_$test -R -n 1000
done
for test in send_lat write_lat write_bw
do
	perf ib_$test-cm-iwarp env RDMAMSG_SOFT_LINK=iwarp \
	    RDMAMSG_SOFT_PATIENCE=60000 ib_$test -R -n 1000
done
perf ib_send_lat-events ib_send_lat -e -n 1000
perf ib_send_bw-all ib_send_bw -a -n 100
perf ib_send_bw-both ib_send_bw -b -n 1000
perf ib_write_bw-qps ib_write_bw -q 8 -n 1000
perf ib_read_bw-all ib_read_bw -a -n 100
perf ib_send_lat-uc ib_send_lat -c UC -n 1000
perf ib_write_bw-uc ib_write_bw -c UC -n 1000
perf ib_send_lat-ud ib_send_lat -c UD -n 1000
perf ib_send_bw-ud ib_send_bw -c UD -n 1000
perf ib_send_bw-uc ib_send_bw -c UC -n 1000
for test in send_lat send_bw write_bw read_bw
do
	perf ib_$test-xrc ib_$test -c XRC -n 1000
done
# perftest has DC on devices whose part number it knows
for test in send_lat send_bw write_lat write_bw read_lat read_bw \
	atomic_lat atomic_bw
do
	perf ib_$test-dc env RDMAMSG_SOFT_PART=4123 ib_$test -c DC -n 200
done
# groups, as this program names them, are of IPv6
perf ib_send_lat-mcast ib_send_lat -c UD -g -x 1 -n 1000
perf ib_send_bw-mcast ib_send_bw -c UD -g -x 1 -n 1000

# with InfiniBand, perftest joins and leaves with management datagrams
perf ib_send_bw-mcast-ib env RDMAMSG_SOFT_LINK=ib ib_send_bw -c UD -g -n 1000
# From 23.04 on, ib_send_lat frees the name of the device (send_lat.c: main) and
# then leaves with it, so its status tells nothing.
if case_of ib_send_lat-mcast-ib ib_send_lat
then
	perf_ib="env RDMAMSG_SOFT_LINK=ib ib_send_lat -C -c UD -g -n 1000"
	if both "$perf_ib -p $port" "$perf_ib -p $port 127.0.0.1" '#bytes' ||
	    { grep -q "Couldn't Unregister the Mcast group" "$work/client" &&
		grep -q '^ *2 *1000 ' "$work/client"; }
	then pass
	else fail "$why"
	fi
fi

# ---- libfabric ------------------------------------------------------------

pair fi_pingpong "fi_pingpong -p verbs -e msg -B PORT" \
    "fi_pingpong -p verbs -e msg -P PORT 127.0.0.1" 1m
pair fi_pingpong-dgram "fi_pingpong -p verbs -e dgram -B PORT" \
    "fi_pingpong -p verbs -e dgram -P PORT 127.0.0.1" 1k
# How they end is not ours: in libfabric 1.17 what has completed and was not yet
# polled when the peer closes is reported as flushed, or never.
if case_of fi_pingpong-rdm fi_pingpong
then
	rdm="fi_pingpong -p verbs;ofi_rxm -e rdm"
	serve "$rdm -B $port"
	server=$pid
	if ! wait_for listens
	then fail "the server does not listen"
	else
		# shellcheck disable=SC2086 # words
		timeout $limit "$soft" $rdm -P "$port" 127.0.0.1 \
		    >"$work/client" 2>&1 </dev/null &
		client=$!
		until grep -q ^1m "$work/server" && grep -q ^1m "$work/client"
		do
			kill -0 $client 2>/dev/null ||
			    kill -0 "$server" 2>/dev/null || break
			sleep 0.1
		done
		if grep -q ^1m "$work/server" && grep -q ^1m "$work/client"
		then pass
		else fail "they end too early"
		fi
		kill $client 2>/dev/null
		wait $client 2>/dev/null
	fi
	kill "$server" 2>/dev/null
	wait "$server" 2>/dev/null
fi

# ---- UCX ------------------------------------------------------------------

# one that is built with MPI wants mpirun unless -P 0 says otherwise
ucx_perftest="ucx_perftest -p PORT"
! ucx_perftest -h 2>/dev/null | grep -q ' -P <0|1>' ||
	ucx_perftest="$ucx_perftest -P 0"

# ucx NAME TRANSPORTS TEST...
ucx()
{
	ucx_name=$1
	over="env UCX_TLS=$2 UCX_NET_DEVICES=soft0:1 $ucx_perftest"
	shift 2
	case_of "$ucx_name" ucx_perftest || return 0
	pair "$ucx_name" "$over" "$over $* 127.0.0.1" Final
}

ucx ucx_perftest-rc rc_v,ud_v,self -t tag_lat -n 1000
ucx ucx_perftest-ud ud_v,self -t tag_lat -n 1000
ucx ucx_perftest-bw rc_v,ud_v,self -t tag_bw -s 1000000 -n 100
# UCX arms queues that are not empty, and sleeps, in one run of three
for n in 1 2 3 4
do
	ucx ucx_perftest-sleep-$n rc_v,ud_v,self -E sleep -t tag_lat -n 300
done

# by the device, not by the processor of the other end
uct="env UCX_LOG_LEVEL=error $ucx_perftest -d soft0:1 -x rc_verbs"
for op in fadd cswap
do
	pair ucx_perftest-$op "$uct" "$uct -t $op -s 8 -n 1000 127.0.0.1" Final
done

# ---- uDAPL ----------------------------------------------------------------

# dtestcm creates queue pairs on ids that are bound and not resolved.
if case_of dtestcm dtestcm dapl2-utils
then
	echo 'soft u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0' \
	    '"127.0.0.1 0" ""' >"$registry"
	dapl="env DAT_OVERRIDE=$registry dtestcm -P soft -c 20"
	pair dtestcm "$dapl" "$dapl -h 127.0.0.1" "Test Complete"
fi

# ---- pyverbs --------------------------------------------------------------

# rdma-core's own tests, as Debian's package has them; those that need another
# device skip themselves
suite=/usr/share/doc/rdma-core/tests
python=/usr/bin/python3
# pyverbs NAME LINK: on iWARP, most look for a GID that is no MAC address, and
# skip themselves.
pyverbs()
{
	case_of "$1" "$python" || return 0
	[ -d "$registry.d" ] || ! cp -r $suite "$registry.d" 2>/dev/null ||
		gunzip -r "$registry.d"
	if ! [ -d $suite ] || ! "$python" -c 'import pyverbs' 2>/dev/null
	then
		echo "skip $1 # python3-pyverbs is not installed"
		return
	fi
	timeout $limit "$soft" --link="$2" "$python" \
	    "$registry.d/run_tests.py" >"$work/output" 2>&1 </dev/null
	status=$?
	if [ $status -ne 0 ]
	then fail "status $status"
	elif ! expect '^OK'
	then fail "no 'OK' in what it says"
	else pass
	fi
}
pyverbs pyverbs ethernet
pyverbs pyverbs-ib ib
pyverbs pyverbs-iwarp iwarp

# libmlx5 opens a device for the programs that use its calls.
if case_of mlx5-open "$python"
then
	echo 'from pyverbs.providers.mlx5.mlx5dv import (Mlx5Context,
                                             Mlx5DVContextAttr)
from pyverbs.pyverbs_error import PyverbsRDMAError, PyverbsUserError
for flags in (0, 1, 1 << 31):
    try:
        with Mlx5Context(Mlx5DVContextAttr(flags), "soft0") as ctx:
            print("opened", ctx.query_mlx5_device().comp_mask >= 0)
    except (PyverbsRDMAError, PyverbsUserError) as error:
        print(flags, "fails:", error)' >"$registry"
	if ! "$python" -c 'import pyverbs.providers.mlx5.mlx5dv' 2>/dev/null
	then echo "skip mlx5-open # python3-pyverbs has no mlx5dv"
	elif timeout $limit "$soft" "$python" "$registry" >"$work/output" 2>&1 &&
	    [ "$(grep -c '^opened True$' "$work/output")" -eq 2 ] &&
	    expect '^2147483648 fails: .*Errno: 22' &&
	    RDMAMSG_SOFT_LINK=iwarp timeout $limit "$soft" "$python" \
	    "$registry" >"$work/iwarp" 2>&1 && ! grep -q opened "$work/iwarp"
	then pass
	else fail "not as libmlx5 opens its own devices"
	fi
fi

# Objects of another process cannot be imported.
if case_of import "$python"
then
	echo 'from pyverbs.device import Context
from pyverbs.pyverbs_error import PyverbsRDMAError
ctx = Context(name="soft0")
try:
    Context(cmd_fd=0)
except PyverbsRDMAError as error:
    print(error.error_code)' >"$registry"
	if ! "$python" -c 'import pyverbs' 2>/dev/null
	then echo "skip import # python3-pyverbs is not installed"
	elif timeout $limit "$soft" "$python" "$registry" >"$work/output" 2>&1 &&
	    expect '^95$'
	then pass
	else fail "not EOPNOTSUPP"
	fi
fi

# ---- /sys/class/infiniband -------------------------------------------------

one user-event "$python $(dirname "$0")/user_event.py" written
for link in ethernet ib iwarp
do
	one sysfs-$link "env RDMAMSG_SOFT_LINK=$link \
	    $python $(dirname "$0")/sysfs.py" 'ports/2/state = 4: ACTIVE'
done

# Counters are the fabric's: a program that only looks sees what two others have
# sent. An async watcher keeps the fabric when they end.
if case_of sysfs-counters ibv_rc_pingpong
then
	"$soft" stdbuf -oL ibv_asyncwatch >"$work/watch" 2>&1 &
	watch=$!
	pid=$watch
	wait_for expect "async event FD"
	pingpong="ibv_rc_pingpong -g 0 -n 100 -s 4096 -p $port"
	# shellcheck disable=SC2016 # its own words
	look='cd /; for f in "$0"/counters/* "$0"/hw_counters/*
		do echo "${f##*/} $(cat "$f")"; done; ls -R "$0/.."'
	if both "$pingpong" "$pingpong 127.0.0.1" "100 iters" &&
	    "$soft" sh -c "$look" /sys/class/infiniband/soft0/ports/1 \
	    >"$work/counters" 2>&1 &&
	    expect '^port_xmit_data 204800$' &&
	    expect '^port_rcv_data 204800$' && expect '^out_of_buffer [0-9]'
	then pass
	else fail "$why, or the counters"
	fi
	kill "$watch"
	wait "$watch" 2>/dev/null
fi

# ---- rdma(8), which asks over netlink -------------------------------------

one rdma-link "rdma link show" 'link soft0/2 state ACTIVE .*netdev lo'
# iproute2 6.15 prints the protocol, 6.1 does not
one rdma-dev "rdma dev show" \
    'soft0: node_type ca \(protocol roce \)\?fw 1.0 node_guid 02'
one rdma-statistic "rdma -j statistic show" \
    '"ifname":"soft0","port":1,.*"out_of_buffer":0'
if case_of rdma-link-ib rdma
then
	if timeout $limit "$soft" --link=ib rdma link show >"$work/output" 2>&1 &&
	    expect 'prefix fe80:0000:0000:0000 lid 1 sm_lid 1 .*ACTIVE'
	then pass
	else fail "the port"
	fi
fi
# resources are those of all processes, and those of other buses the kernel's
if case_of rdma-resource rdma
then
	serve "ibv_rc_pingpong -g 0 -p $port"
	if wait_for listens &&
	    timeout $limit "$soft" rdma resource show >"$work/sum" 2>&1 &&
	    timeout $limit "$soft" rdma resource show qp >"$work/qps" 2>&1 &&
	    expect 'pd 1 cq 1 qp 1 cm_id 0 mr 1 ctx 1 srq 0' &&
	    expect "type RC state INIT .*comm ibv_rc_pingpong" &&
	    ! timeout $limit "$soft" rdma link add x type rxe netdev lo \
	    >"$work/add" 2>&1 && expect 'Operation not supported' &&
	    timeout $limit "$soft" ip link show lo >"$work/ip" 2>&1 &&
	    expect LOOPBACK
	then pass
	else fail "the resources"
	fi
	kill "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
fi

# resource KIND PATTERN: "rdma resource show KIND" has the pattern, once.
resource()
{
	timeout $limit "$soft" rdma resource show "$1" >"$work/$1" 2>&1 ||
		return 1
	[ "$(grep -c -e "$2" "$work/$1")" -eq 1 ] || {
		cat "$work/$1"
		return 1
	}
}
if case_of rdma-resources rdma
then
	serve "ibv_srq_pingpong -q 3 -g 0 -p $port"
	if wait_for listens &&
	    resource ctx "ctxn [1-9].* comm ibv_srq_pingpon" &&
	    resource pd "pdn [1-9][0-9]* users 5 .* comm ibv_srq_pingpon" &&
	    resource cq "cqn [1-9].* cqe [1-9].* users 6 .* ibv_srq_pingpon" &&
	    resource mr "mrn [1-9].* mrlen 4096 pdn [1-9].* ibv_srq_pingpon" &&
	    resource srq "srqn [1-9].* type BASIC .*pdn [1-9].* ibv_srq_pingp"
	then pass
	else fail "the resources"
	fi
	kill "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
fi
if case_of rdma-resource-cm-id rdma
then
	serve "rping -s -a 127.0.0.1 -p $port"
	if wait_for resource cm_id "state LISTEN ps TCP .* rping src-addr 127.0.0.1"
	then pass
	else fail "the ids"
	fi
	kill "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
fi

# ---- infiniband-diags -----------------------------------------------------

one ibstat ibstat 'Link layer: Ethernet'
command -v ibstat >/dev/null &&
	one ibstat-ib "env RDMAMSG_SOFT_LINK=ib ibstat" 'SM lid: 1'

command -v perfquery >/dev/null &&
	one perfquery "env RDMAMSG_SOFT_LINK=ib perfquery -x" \
	    'PortMulticastRcvPkts:\.*0'

# ---- rdmamsg --------------------------------------------------------------

pair rdmamsg-perf "$build/samples/rdmamsg-perf server --once" \
    "$build/samples/rdmamsg-perf lat 127.0.0.1 -n 200" "lat on soft0"
pair rdmamsg-perf-event "$build/samples/rdmamsg-perf server --once --event" \
    "$build/samples/rdmamsg-perf rate localhost -n 1000 --event --check" soft0
# with a wildcard listener, asked for as hardware and as what it is
for device in hw soft soft0
do
	pair "rdmamsg-perf-$device" "env RDMAMSG_DEVICE=$device \
	    $build/samples/rdmamsg-perf server --once" \
	    "env RDMAMSG_DEVICE=$device \
	    $build/samples/rdmamsg-perf lat 127.0.0.1 -n 200" "lat on soft0"
done

# ---- applications, each only if it is asked for ---------------------------

# shellcheck source=apps.sh
[ "$wanted" = '*' ] || . "$(dirname "$0")/apps.sh"

exit $failed
