#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: net.sh BUILDDIR
#
# The soft HCA on a network: rdmamsg-perf between two network namespaces with a
# pair of veth between them, every byte checked, with and without lost, doubled
# and reordered packets. Prints `ok NAME` or `not ok NAME` for each.

set -u

# In a network namespace of its own, where an ordinary user is root.
if [ "${NET_INSIDE-}" != 1 ]
then
	export NET_INSIDE=1
	[ "$(id -u)" = 0 ] || exec unshare -rn sh "$0" "$@"
	exec unshare -n sh "$0" "$@"
fi

perf=$1/samples/rdmamsg-perf
pub=$1/samples/rdmamsg-pub
sub=$1/samples/rdmamsg-sub
stranger=$1/tests/soft/stranger
ctl=$1/lib/soft/tools/rdmamsg-soft-ctl
export RDMAMSG_DEVICE=soft RDMAMSG_SOFT_NET=1
log=$(mktemp)
unshare -n sleep 600 &
other=$!
children=$other
trap 'kill $children 2>/dev/null; rm -f "$log"' EXIT
trap 'exit 1' HUP INT TERM

there()
{
	nsenter -t $other -n "$@"
}

# until_true COMMAND...: waits for at most 30 s
until_true()
{
	for _ in $(seq 300)
	do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	return 1
}

apart()
{
	[ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/$$/ns/net)" ]
}

listens()
{
	grep -q 'listening on port' "$log.$1"
}

# set_up MTU
set_up()
{
	ip link add v0 mtu "$1" type veth peer name v1 mtu "$1" &&
	    ip link set v1 netns $other &&
	    ip addr add 10.7.0.1/24 dev v0 &&
	    ip addr add fd07::1/64 dev v0 nodad &&
	    there ip addr add 10.7.0.2/24 dev v1 &&
	    there ip addr add fd07::2/64 dev v1 nodad &&
	    ip link set v0 up && there ip link set v1 up &&
	    ip link set lo up && there ip link set lo up
}

# result NAME COMMAND...
result()
{
	name=$1
	shift
	if "$@" >"$log" 2>&1
	then
		echo "ok $name"
		return
	fi
	echo "not ok $name"
	sed 's/^/# /' "$log"
	status=1
}

# perf_all HOST COUNT
perf_all()
{
	for size in 1 1K 8K 64K 1M
	do
		there timeout 120 "$perf" lat "$1" -n "$2" -s $size --check ||
			return
		there timeout 120 "$perf" bw "$1" -n "$2" -s $size --check ||
			return
	done
}

# one_sided HOST COUNT
one_sided()
{
	for test in write-lat read-lat atomic-lat write-bw read-bw
	do
		there timeout 120 "$perf" $test "$1" -n "$2" || return
	done
}

# is_refused: nobody listens on that port, or has any socket there
is_refused()
{
	! there timeout 60 "$perf" lat "$1" -p "$2" -n 1 >"$log.refused" 2>&1 &&
		grep 'nobody listens' "$log.refused"
}

# came: packets for the processes here are more than $1
came()
{
	set -- "$1" $(packets)
	[ "$2" -gt "$1" ]
}

# late HOST: a process that has the port of RoCE waits for another's listener
late()
{
	RDMAMSG_SOFT_PATIENCE=60000 timeout 60 "$perf" server -p 7477 \
		>"$log.7477" 2>&1 &
	patient=$!
	until_true listens 7477 || return
	set -- "$1" $(packets)
	nsenter -t $other -n timeout 60 "$perf" lat "$1" -p 7476 -n 20 -s 64 \
		--check &
	client=$!
	until_true came "$2"
	timeout 60 "$perf" server -p 7476 >"$log.7476" 2>&1 &
	server=$!
	wait $client
	ended=$?
	kill $server $patient
	wait $server $patient 2>/dev/null
	return $ended
}

# held: a socket that shares the port with nobody; prints when it has it
held()
{
	exec perl -MSocket -e 'socket(S, PF_INET6, SOCK_DGRAM, 0) and
		bind(S, pack_sockaddr_in6(4791, "\0" x 16)) or die "$!";
		$| = 1; print "held\n"; sleep 60'
}

# says TEXT COMMAND...: the command prints the text within 30 s, and ends then
says()
{
	said=$1
	shift
	rm -f "$log.said"
	timeout 60 "$@" >"$log.said" 2>&1 &
	speaker=$!
	until_true grep -q "$said" "$log.said"
	heard=$?
	kill $speaker 2>/dev/null
	wait $speaker
	[ $heard -eq 0 ] || cat "$log.said"
	return $heard
}

# freed HOST: a listener and a subscriber that came too early for the port
freed()
{
	rm -f "$log.held"	# of the one before
	held >"$log.held" 2>&1 &
	holder=$!
	until_true grep -q held "$log.held"
	env -u RDMAMSG_SOFT_NET timeout 100 "$perf" server -p 7478 \
		>"$log.7478" 2>&1 &
	early=$!
	RDMAMSG_LOG=warn timeout 100 "$sub" 239.1.2.5 --repair -v \
		>"$log.lines" 2>"$log.sub" &
	early="$early $!"
	until_true listens 7478 &&
		until_true grep 'for this host only: UDP port' "$log.sub"
	ended=$?
	kill $holder
	wait $holder 2>/dev/null
	[ $ended -eq 0 ] &&
		until_true there timeout 30 "$perf" lat "$1" -p 7478 -n 1 &&
		seq 100 | there timeout 60 "$pub" 239.1.2.5 --repair \
			--confirm=1 --timeout=50
	ended=$?
	kill $early
	wait $early 2>/dev/null
	[ $ended -eq 0 ] && seq 100 | cmp - "$log.lines"
}

# taken: another program has the port
taken()
{
	rm -f "$log.held"	# of the one before
	held >"$log.held" 2>&1 &
	holder=$!
	until_true grep -q held "$log.held" &&
		says 'listens to this host only: UDP port 4791' \
			env -u RDMAMSG_SOFT_NET RDMAMSG_LOG=warn \
			"$perf" server -p 7480 &&
		says 'listening: UDP port 4791' "$perf" server -p 7481 &&
		says 'UDP port 4791 of RoCE v2 is taken' \
			"$perf" lat 10.7.0.2 -n 1
	status_taken=$?
	kill $holder
	wait $holder 2>/dev/null
	return $status_taken
}

# A program without privilege, with little memory to lock, and of another user if
# there is one who can read it: as in a container.
other_user='--reuid=65534 --regid=65534 --clear-groups'
setpriv $other_user test -r "$perf" 2>/dev/null || other_user=
ordinary="prlimit --memlock=65536 setpriv $other_user --no-new-privs
	--bounding-set=-all --inh-caps=-all"

# unprivileged HOST
unprivileged()
{
	$ordinary timeout 60 "$perf" server -p 7475 >"$log.7475" 2>&1 &
	server=$!
	until_true listens 7475 && there $ordinary timeout 60 "$perf" lat "$1" \
		-p 7475 -n 200 -s 64K --check
	ended=$?
	kill $server
	wait $server 2>/dev/null
	return $ended
}

# unconfigured HOST: without any variable, the soft HCA is the way by itself
unconfigured()
{
	there env -u RDMAMSG_DEVICE -u RDMAMSG_SOFT_NET RDMAMSG_LOG=info \
		timeout 60 "$perf" lat "$1" -p 7474 -n 20 -s 64 --check \
		>"$log.un" 2>&1 || { cat "$log.un"; return 1; }
	grep 'connected on soft0 over UDP (RoCE v2)' "$log.un" &&
		grep '^lat on soft0 over UDP,' "$log.un" || return
	! there env -u RDMAMSG_SOFT_NET RDMAMSG_DEVICE=hw timeout 60 "$perf" \
		lat "$1" -p 7474 -n 1 || return
	! there env RDMAMSG_SOFT_NET=0 timeout 60 "$perf" lat "$1" -p 7474 \
		-n 1 >"$log.un" 2>&1 &&
		grep 'keep it within this host' "$log.un"
}

faults()
{
	"$ctl" -a faults "$@" && there "$ctl" -a faults "$@"
}

# two_at_once HOST: both servers share the port of RoCE
two_at_once()
{
	nsenter -t $other -n timeout 120 "$perf" lat "$1" -p 7472 -n 300 \
		-s 8K --check --event &
	two=$!
	there timeout 120 "$perf" lat "$1" -n 300 -s 8K --check --event
	one=$?
	wait $two && [ $one -eq 0 ]
}

# packets: those that came here, and those of them that another process got
packets()
{
	"$ctl" list | awk '$1 == "packets" { came += $7; passed += $12 }
		END { print came + 0, passed + 0 }'
}

# steered HOST: the kernel gives each process its own packets
steered()
{
	set -- "$1" $(packets)
	two_at_once "$1" || return
	set -- "$2" "$3" $(packets)
	echo "of $(($3 - $1)) packets $(($4 - $2)) came to the other process"
	[ $(($3 - $1)) -gt 1000 ] && [ $((($4 - $2) * 20)) -lt $(($3 - $1)) ]
}

# memory: KB that the servers here have
memory()
{
	for pid in $("$ctl" list | awk '$1 == "node" { print $4 }')
	do
		awk '$1 == "VmRSS:" { print $2 }' "/proc/$pid/status"
	done | awk '{ sum += $1 } END { print sum }'
}

# marks: packets that have come here with a mark of congestion
marks()
{
	"$ctl" list | awk '$1 == "duplicates" { sum += $10 }
		END { print sum + 0 }'
}

# flooded HOST: marked packets of every kind from a stranger, while others work
flooded()
{
	there ip addr add 10.7.0.3/24 dev v1 2>/dev/null
	before=$(memory)
	nsenter -t $other -n "$stranger" 10.7.0.3 "$1" 5 >"$log.stranger" &
	flood=$!
	there timeout 120 "$perf" bw "$1" -n 500 -s 64K --check &&
		there timeout 120 "$perf" lat "$1" -n 100 -s 64 --check
	said=$?
	wait $flood || return
	cat "$log.stranger"
	echo "memory of the servers: $before KB, then $(memory) KB"
	echo "marked: $(marks)"
	[ $said -eq 0 ] && [ "$(memory)" -lt $((before + 16384)) ] &&
		[ "$(marks)" -gt 1000 ]
}

# group ADDRESS: a subscriber on each side gets each line once, in order
group()
{
	timeout 120 "$sub" "$1" --repair -v >"$log.here" 2>"$log.here.err" &
	subs=$!
	nsenter -t $other -n timeout 120 "$sub" "$1" --repair -v \
		>"$log.there" 2>"$log.there.err" &
	subs="$subs $!"
	until_true grep -q "$1" "$log.here.err" &&
		until_true grep -q "$1" "$log.there.err"
	seq 3000 | there timeout 60 "$pub" "$1" --repair --confirm=2 \
		--timeout=50
	said=$?
	kill $subs
	wait $subs 2>/dev/null
	[ $said -eq 0 ] && seq 3000 | cmp - "$log.here" &&
		seq 3000 | cmp - "$log.there"
}

# bytes: that have come from the other namespace
bytes()
{
	sed -n 's/^ *v0: *\([0-9]*\).*/\1/p' /proc/net/dev
}

# streams: 20 MB have come since $came
streams()
{
	[ $(($(bytes) - came)) -gt 20000000 ]
}

# A path that carries no whole packet for a while: nothing spins, nothing is lost.
narrow()
{
	nsenter -t $other -n timeout 400 "$perf" bw "$1" -n 3000 -s 1M \
		--check &
	wide=$!
	came=$(bytes)
	until_true streams || return
	there ip link set v1 mtu 1000 && ip link set v0 mtu 1000 || return
	sleep 1
	there ip link set v1 mtu 1500 && ip link set v0 mtu 1500 || return
	wait $wide
}

status=0
until_true apart && set_up 1500 || {
	echo 'not ok net__namespaces_and_veth_MADE'
	exit 1
}
trap 'kill $children 2>/dev/null; rm -f "$log" "$log".*' EXIT
result net__port_of_another_program_SAID taken
result net__port_is_free_later_HEARD freed 10.7.0.1
result net__without_privilege_EVERY_BYTE unprivileged 10.7.0.1
result net__no_process_there_REFUSED is_refused 10.7.0.1 7471
result net__listener_comes_later_WAITED_FOR late 10.7.0.1
"$perf" server -p 7470 >"$log.7470" 2>&1 &
first=$!
children="$children $first"
until_true listens 7470 || exit
timeout 580 "$perf" server >"$log.7471" 2>&1 &
children="$children $!"
timeout 580 "$perf" server -p 7472 >"$log.7472" 2>&1 &
children="$children $!"
# a process whose device lives on has the faults of its fabric
nsenter -t $other -n timeout 580 "$perf" server -p 7473 >"$log.7473" 2>&1 &
children="$children $!"
env -u RDMAMSG_DEVICE -u RDMAMSG_SOFT_NET timeout 580 "$perf" server -p 7474 \
	>"$log.7474" 2>&1 &
children="$children $!"
until_true listens 7471 && until_true listens 7472 &&
	until_true listens 7473 && until_true listens 7474 || exit

result net__nothing_configured_REACHED unconfigured 10.7.0.1

result net__no_listener_there_REFUSED is_refused 10.7.0.1 7400
result net__ipv4_EVERY_BYTE perf_all 10.7.0.1 100
result net__ipv6_EVERY_BYTE perf_all fd07::1 100
result net__one_sided_ALL_KINDS one_sided 10.7.0.1 100
result net__flood_of_a_stranger_GOES_ON flooded 10.7.0.1
result net__group_ipv4_EACH_LINE group 239.1.2.3
result net__group_ipv6_EACH_LINE group ff05::1234
result net__two_processes_share_THE_PORT steered 10.7.0.1
# the last socket takes the place of the first one's
kill -KILL $first
result net__third_one_killed_STILL_SHARE_IT steered 10.7.0.1
if faults drop=2 duplicate=2 reorder=2
then
	result net__packets_lost_EVERY_BYTE perf_all 10.7.0.1 30
	result net__packets_lost_ONE_SIDED one_sided fd07::1 30
	result net__packets_lost_GROUP group 239.1.2.4
	faults
else
	echo 'not ok net__faults_TAKEN'
	status=1
fi
ip link set v0 mtu 9000 && there ip link set v1 mtu 9000
result net__large_packets_EVERY_BYTE perf_all 10.7.0.1 50
ip link set v0 mtu 1500 && there ip link set v1 mtu 1500
result net__path_too_narrow_for_a_while_GOES_ON narrow 10.7.0.1
exit $status
