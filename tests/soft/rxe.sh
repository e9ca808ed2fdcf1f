#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: rxe.sh BUILDDIR [CASE...]
#
# The soft HCA and the kernel's Soft-RoCE talk to each other, inside the test
# machine: rxe7 in the first network namespace, on one end of a pair of veth,
# and the soft HCA in a namespace with the other end. In the first namespace
# Soft-RoCE has the port of RoCE. Prints `ok NAME` or `not ok NAME` for each
# case, and what a failed case has said after its line. A CASE may be a pattern.

# shellcheck disable=SC2086 # words
set -u

[ $# -ge 1 ] || { sed -n 's/^# //; 4p' "$0" >&2; exit 2; }

perf=$1/samples/rdmamsg-perf
pub=$1/samples/rdmamsg-pub
sub=$1/samples/rdmamsg-sub
peer=$1/tests/twohost/peer
tools=$1/lib/soft/tools

shift
wanted=${*:-'*'}

# Where a program of rdmamsg runs, and where any program of verbs. They are
# words, not functions, so that $! of a background command is the program.
far='nsenter --net=/run/netns/rxe-far'
at_rxe='env RDMAMSG_DEVICE=rxe7'
at_soft="$far env RDMAMSG_DEVICE=soft RDMAMSG_SOFT_NET=1"
any_rxe='env'
any_soft="$far env RDMAMSG_SOFT_NET=1 RDMAMSG_SOFT_PATIENCE=60000
	$tools/rdmamsg-soft"
ctl="$far $tools/rdmamsg-soft-ctl"

limit=300	# seconds that a program may take
work=$(mktemp -d)
log=$work/log
children=
trap 'clean_up' EXIT
trap 'exit 1' HUP INT TERM

# The machine goes on with other steps.
clean_up()
{
	[ -z "$children" ] || kill $children 2>/dev/null
	wait
	rdma link delete rxe7
	ip link delete vr
	ip netns delete rxe-far
	rm -rf "$work"
} 2>/dev/null

# until_true COMMAND...: waits for at most 60 s
until_true()
{
	for _ in $(seq 600)
	do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	echo "never: $*"
	return 1
}

# is_wanted NAME
is_wanted()
{
	set -f
	for pattern in $wanted
	do
		# shellcheck disable=SC2254 # a pattern
		case $1 in $pattern) set +f; return ;; esac
	done
	set +f
	return 1
}

# result NAME COMMAND...
result()
{
	is_wanted "$1" || return 0
	name=rxe__$1
	began=$(date +%s)
	shift
	if "$@" >"$log" 2>&1
	then
		echo "ok $name"
		sed -n '/^# [0-9]/p' "$log"
	else
		echo "not ok $name"
		sed 's/^/# /' "$log"
		status=1
	fi
	echo "# took $(($(date +%s) - began)) $name"
}

# ---- the two devices --------------------------------------------------

set_up()
{
	ip netns add rxe-far &&
	ip link add vr type veth peer name vs netns rxe-far &&
	ip addr add 10.7.0.1/24 dev vr &&
	ip addr add fd07::1/64 dev vr nodad &&
	$far ip addr add 10.7.0.2/24 dev vs &&
	$far ip addr add fd07::2/64 dev vs nodad &&
	ip link set vr up && $far ip link set vs up &&
	$far ip link set lo up &&
	rdma link add rxe7 type rxe netdev vr &&
	until_true has_gids
}

has_gids()
{
	cat /sys/class/infiniband/rxe7/ports/1/gids/* >"$work/gids"
	grep -q ffff:0a07:0001 "$work/gids" && grep -q ^fd07: "$work/gids"
}

# mtu BYTES RDMA: of the network devices; rxe7 follows
mtu()
{
	ip link set vr mtu "$1" && $far ip link set vs mtu "$1" &&
		until_true has_mtu "$2"
}

has_mtu()
{
	ibv_devinfo -d rxe7 | grep "active_mtu:[[:space:]]*$1 "
}

# rxe_listens PORT
rxe_listens()
{
	rdma resource show cm_id |
		grep -E "^link rxe7/.* state LISTEN .*:$1( |\$)"
}

# soft_listens PORT: the flag is __SO_ACCEPTCON
soft_listens()
{
	$far grep " 00010000 .*/cm/[0-9]*/$1/" /proc/net/unix
}

# Each side has a server of rdmamsg-perf all the time. On the soft side it
# has the port together with all other programs, and passes packets on to them.
serve()
{
	$at_rxe "$perf" server >"$work/server.rxe" 2>&1 &
	children="$children $!"
	$at_soft "$perf" server >"$work/server.soft" 2>&1 &
	children="$children $!"
	until_true rxe_listens 7471 && until_true soft_listens 7471
}

# sides SIDE: sets where programs of rdmamsg and any programs of verbs run, on
# that side and on the other
sides()
{
	case $1 in
	rxe)	here=$at_rxe there=$at_soft any_here=$any_rxe
		any_there=$any_soft ;;
	soft)	here=$at_soft there=$at_rxe any_here=$any_soft
		any_there=$any_rxe ;;
	esac
}

# ---- cases ------------------------------------------------------------

# at SIDE HOST TEST OPTION...: rdmamsg-perf, without a warm-up, which takes long
# in a machine. Two processes that poll for each other take longer still.
at()
{
	sides "$1"
	host=$2 test=$3
	shift 3
	$here timeout $limit "$perf" "$test" "$host" --cold "$@"
}

# messages SIDE HOST
messages()
{
	at "$@" lat --event --check -n 4 -s 64,1K,8K,64K,1M &&
		at "$@" bw --event --check -n 8 -s 64,1K,8K,64K,1M \
			>"$work/bw"
	passed=$?
	cat "$work/bw"
	awk '$1 == 1048576 { print "# " $8 " MB/s of 1 MB each" }' "$work/bw"
	return $passed
}

# one_sided SIDE HOST
one_sided()
{
	at "$@" write-lat -n 10 -s 64 &&
		at "$@" write-bw --event -n 4 -s 64,64K,1M &&
		at "$@" read-lat --event -n 10 -s 64,64K &&
		at "$@" read-bw --event -n 4 -s 64,64K,1M &&
		at "$@" atomic-lat --event -n 50
}

# bandwidths SIDE HOST
bandwidths()
{
	at "$@" bw --event --check -n 8 -s 4K,64K,1M &&
		at "$@" write-bw --event -n 8 -s 64K,1M &&
		at "$@" read-bw --event -n 8 -s 64K,1M
}

# larger MTU RDMA
larger()
{
	mtu "$1" "$2" && bandwidths soft fd07::1 && bandwidths rxe 10.7.0.2
}

# is_refused SIDE HOST TEXT OPTION...
is_refused()
{
	refused_at=$1 refused_by=$2 text=$3
	shift 3
	! at "$refused_at" "$refused_by" lat -n 1 "$@" 2>"$work/refused" &&
		cat "$work/refused" && grep -q "$text" "$work/refused"
}

# Soft-RoCE has the port in this namespace.
port_taken()
{
	! RDMAMSG_DEVICE=soft RDMAMSG_SOFT_NET=1 timeout $limit \
		"$perf" lat 10.7.0.2 -n 1 2>"$work/taken" &&
		cat "$work/taken" && grep 'port 4791' "$work/taken"
}

# There are RDMA devices, of which none leads to the address.
chosen_by_itself()
{
	$far ibv_devices | grep -w rxe7 &&
		RDMAMSG_LOG=info $far timeout $limit "$perf" lat 10.7.0.1 \
			--cold --event -n 10 -s 64 >"$work/chosen" 2>&1
	passed=$?
	cat "$work/chosen"
	[ $passed = 0 ] && grep 'trying the soft HCA' "$work/chosen" &&
		grep 'lat on soft0 over UDP' "$work/chosen"
}

# Here the soft HCA has no port, so the reason is that of the devices.
no_port_to_choose()
{
	ip link add vd type veth peer name vd-peer &&
		ip addr add 10.8.0.1/24 dev vd && ip link set vd up &&
		ip link set vd-peer up &&
		ip neigh add 10.8.0.2 lladdr 02:00:00:00:00:02 dev vd &&
		! timeout $limit "$perf" lat 10.8.0.2 -n 1 2>"$work/chosen"
	passed=$?
	ip link delete vd
	cat "$work/chosen"
	[ $passed = 0 ] && grep 'no RDMA device leads to 10.8.0.2' "$work/chosen"
}

# subscribe SIDE GROUP: starts a subscriber, and waits until it is a member
subscribe()
{
	sides "$1"
	rm -f "$work/sub.$1.err"	# of the one before
	$here timeout $limit "$sub" "$2" --repair -v >"$work/sub.$1" \
		2>"$work/sub.$1.err" &
	subs="$subs $!"
	until_true grep -q "$2" "$work/sub.$1.err"
}

# publish GROUP COUNT WHERE...: lines, to that number of subscribers
publish()
{
	group=$1 members=$2
	shift 2
	seq 2000 | "$@" timeout $limit "$pub" "$group" --repair \
		--confirm="$members" --timeout=250
	said=$?
	kill $subs
	wait $subs
	cat "$work"/sub.*.err
	return $said
}

has_all()
{
	seq 2000 | cmp - "$work/sub.$1"
}

topic_from_soft()
{
	subs=
	subscribe rxe "$1" && subscribe soft "$1"
	publish "$1" 2 $at_soft && has_all rxe && has_all soft
}

# Soft-RoCE passes no datagram of its own to its own members.
topic_from_rxe()
{
	subs=
	subscribe soft "$1"
	publish "$1" 1 $at_rxe && has_all soft
}

# meet SIDE PORT SERVER CLIENT: other programs, the server there
meet()
{
	sides "$1"
	$any_here timeout $limit $3 >"$work/server" 2>&1 &
	server=$!
	until_true "$1_listens" "$2" &&
		$any_there timeout $limit $4 >"$work/client" 2>&1
	said=$?
	[ $said -eq 0 ] || kill $server
	wait $server
	served=$?
	cat "$work/server" "$work/client"
	echo "server: status $served, client: status $said"
	[ $said -eq 0 ] && [ $served -eq 0 ]
}

# meet_again SIDE PORT SERVER CLIENT: perftest's client connects a second time
# before its server listens for that, and does not survive the refusal. Linux
# refuses at once.
meet_again()
{
	for _ in 1 2 3 4
	do
		meet "$@" && return
		grep -q 'EVENT_REJECTED; error: 8' "$work/client" || return
	done
	return 1
}

# perftest PROGRAM OPTION...: both ways; Soft-RoCE has two devices here
perftest()
{
	# a program that crashes is no complaint of the kernel
	sysctl -q debug.exception-trace=0
	meet_again rxe 18515 "$* -R -d rxe7" "$* -R 10.7.0.1" &&
		meet_again soft 18515 "$* -R" "$* -R -d rxe7 10.7.0.2"
	met=$?
	sysctl -q debug.exception-trace=1
	return $met
}

rpings()
{
	meet rxe 7174 'rping -s -a 10.7.0.1 -C 20' \
		'rping -c -a 10.7.0.1 -C 20' &&
	meet rxe 7174 'rping -s -a fd07::1 -C 20' \
		'rping -c -a fd07::1 -C 20' &&
	meet soft 7174 'rping -s -a 10.7.0.2 -C 20 -S 4000' \
		'rping -c -a 10.7.0.2 -C 20 -S 4000' &&
	meet soft 7174 'rping -s -a fd07::2 -C 20 -S 4000' \
		'rping -c -a fd07::2 -C 20 -S 4000'
}

# ends STATUS PID LOG: the partner ends as well, by a signal if STATUS is not 0
ends()
{
	[ $1 -eq 0 ] || kill $2
	wait $2
	ended=$?
	cat "$work/$3"
	[ $1 -eq 0 ] && [ $ended -eq 0 ]
}

# mckeys SIDE FROM-ADDRESS TO-ADDRESS: ten datagrams to a member on that side
mckeys()
{
	sides "$1"
	rm -f "$work/receiver"
	$any_here timeout $limit stdbuf -oL mckey -m 239.5.6.7 -b "$3" \
		>"$work/receiver" 2>&1 &
	receiver=$!
	until_true grep 'joined dgid' "$work/receiver" &&
		$any_there timeout $limit mckey -m 239.5.6.7 -b "$2" -s
	ends $? $receiver receiver
}

# killed SIDE SERVER-ADDRESS VICTIM: the server is on that side, and the victim
# is the server or the client
killed()
{
	sides "$1"
	rm -f "$work/server" "$work/client"
	$here "$peer" server -m echo -d 8000 any 7475 >"$work/server" 2>&1 &
	server=$!
	until_true grep listening "$work/server"
	$there "$peer" client -m ping -d 8000 "$2" 7475 >"$work/client" 2>&1 &
	client=$!
	killed=0
	until_true grep 'message 10$' "$work/client" && kill_one "$3" ||
		killed=1
	kill $server $client 2>/dev/null
	wait $server $client
	cat "$work/server" "$work/client"
	return $killed
}

# kill_one server|client: the other one tells the end
kill_one()
{
	case $1 in
	server)	victim=$server other=client ;;
	client)	victim=$client other=server ;;
	esac
	kill -USR1 "$(sed -n 's/^pid //p' "$work/$other")" &&
		until_true grep '^mark' "$work/$other" &&
		kill -KILL "$victim" &&
		until_true grep '^closed ' "$work/$other" &&
		awk '/^closed / { print "# " $4 " ms: " $0; exit $4 > 60000 }' \
			"$work/$other"
}

# soft_shows PORT: what soft_listens() tells, by the tool that shows ids
soft_shows()
{
	$any_soft rdma resource show cm_id | grep " state LISTEN .*:$1"
}

connect_many()
{
	timeout $limit cmtime -s 10.7.0.2 -b 10.7.0.1 -p 7476 -c 200 \
		>"$work/cmtime" 2>&1 &&
		$any_soft timeout $limit cmtime -s 10.7.0.1 -b 10.7.0.2 \
			-p 7476 -c 200 >"$work/cmtime" 2>&1
}

# 10,000, in both directions. The servers live on.
connects()
{
	timeout 3000 cmtime -b 10.7.0.1 -p 7476 >"$work/cmtime.rxe" 2>&1 &
	servers=$!
	$any_soft timeout 3000 cmtime -b 10.7.0.2 -p 7476 \
		>"$work/cmtime.soft" 2>&1 &
	servers="$servers $!"
	children="$children $servers"
	until_true rxe_listens 7476 && until_true soft_shows 7476 || return
	made=0
	while [ $made -lt 10000 ]
	do
		if ! connect_many
		then
			cat "$work"/cmtime*
			return 1
		fi
		made=$((made + 400))
	done
	echo "# $made connections"
	none_left=0
	until_true nothing_left || none_left=1
	left
	kill $servers
	wait $servers
	return $none_left
}

# left: prints ids that do not listen, and queue pairs of programs
left()
{
	rdma resource show cm_id | grep ^link.rxe7 | grep -v LISTEN
	rdma resource show qp | grep ^link.rxe7 | grep -v 'comm .ib_core.'
	$any_soft rdma resource show cm_id | grep ^link | grep -v LISTEN
	$ctl list | grep ' qps [1-9]'
}

nothing_left()
{
	[ -z "$(left)" ]
}

loss()
{
	tc qdisc replace dev vr root netem loss 1% &&
		$far tc qdisc replace dev vs root netem loss 1%
}

no_loss()
{
	tc qdisc delete dev vr root
	$far tc qdisc delete dev vs root
}

# lossy SIDE HOST: Soft-RoCE waits an ack timeout if the last packet is lost
lossy()
{
	at "$@" bw --event --check -n 1000 -s 64,4K &&
		at "$@" bw --event --check -n 100 -s 64K &&
		at "$@" bw --event --check -n 10 -s 1M
}

# mixed SIDE SERVER-ADDRESS: 100,000, sizes after each other, by each kind of send
mixed()
{
	sides "$1"
	set -- "$@" 64,4k,64,300,64,1,4095,64,200,8k,1000,64k,64,17
	rm -f "$work/server"
	$here timeout 3000 "$peer" server -m recv -A 17 -e 50000 -s "$3" \
		any 7475 >"$work/server" 2>&1 &
	server=$!
	until_true grep listening "$work/server" &&
		$there timeout 3000 "$peer" client -m send -A 17 -s "$3" \
			-n 100000 "$2" 7475
	ends $? $server server
}

no_bad_packets()
{
	$ctl list && ! $ctl list | grep -q ' bad [1-9]'
}

status=0
if ! set_up >"$log" 2>&1 || ! serve >>"$log" 2>&1
then
	echo 'not ok rxe__devices_and_servers_READY'
	sed 's/^/# /' "$log" "$work"/server.*
	exit 1
fi
result no_listener_at_rxe_REFUSED is_refused soft 10.7.0.1 \
	'nobody listens on port 7400' -p 7400
result no_listener_at_soft_REFUSED is_refused rxe 10.7.0.2 \
	'nobody listens on port 7400' -p 7400
result port_of_roce_taken_SAYS_SO port_taken
result no_device_leads_there_SOFT_HCA chosen_by_itself
result no_device_and_no_port_SAYS_SO no_port_to_choose
result to_rxe_ipv4_EVERY_BYTE messages soft 10.7.0.1
result to_rxe_ipv6_EVERY_BYTE messages soft fd07::1
result to_soft_ipv4_EVERY_BYTE messages rxe 10.7.0.2
result to_soft_ipv6_EVERY_BYTE messages rxe fd07::2
result to_rxe_one_sided_ALL_KINDS one_sided soft 10.7.0.1
result to_soft_one_sided_ALL_KINDS one_sided rxe fd07::2
result rping_EACH_WAY rpings
result ib_send_bw_EACH_WAY perftest ib_send_bw -n 100 -s 4096
result ib_read_bw_EACH_WAY perftest ib_read_bw -n 20 -s 65536
result ib_write_lat_EACH_WAY perftest ib_write_lat -n 20 -s 64
result mckey_from_soft_TEN_DATAGRAMS mckeys rxe 10.7.0.2 10.7.0.1
result mckey_from_rxe_TEN_DATAGRAMS mckeys soft 10.7.0.1 10.7.0.2
result topic_ipv4_from_soft_EACH_LINE topic_from_soft 239.1.2.3
result topic_ipv4_from_rxe_EACH_LINE topic_from_rxe 239.1.2.3
result topic_ipv6_from_soft_EACH_LINE topic_from_soft ff05::1234
result topic_ipv6_from_rxe_EACH_LINE topic_from_rxe ff05::1234
result killed_server_at_rxe_NOTICED killed rxe 10.7.0.1 server
result killed_client_at_rxe_NOTICED killed soft 10.7.0.2 client
result killed_server_at_soft_NOTICED killed soft 10.7.0.2 server
result killed_client_at_soft_NOTICED killed rxe 10.7.0.1 client
result connections_NOTHING_LEFT connects
result mtu_4200_EVERY_BYTE larger 4200 4096
result mtu_9000_EVERY_BYTE larger 9000 4096
mtu 1500 1024 >/dev/null
result packets_GOOD no_bad_packets
if loss >"$log" 2>&1
then
	result packets_lost_to_rxe_EVERY_BYTE lossy soft 10.7.0.1
	result packets_lost_to_soft_EVERY_BYTE lossy rxe fd07::2
	result packets_lost_to_rxe_mixed_EVERY_BYTE mixed rxe 10.7.0.1
	result packets_lost_to_soft_mixed_EVERY_BYTE mixed soft 10.7.0.2
	no_loss
else
	echo 'not ok rxe__losses_TAKEN'
	sed 's/^/# /' "$log"
	status=1
fi
exit $status
