# shellcheck shell=sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Pairs of peers on the machines a and b, for the cases. To be sourced by run.sh,
# which sets `build` and `build_b`; a case is a function, run in a subshell with
# `set -e`.

export LD_LIBRARY_PATH="$build/.libs" RDMAMSG_LOG="${RDMAMSG_LOG:-warn}"

DEAD=6000	# ms: dead_after_ms where an end is to be noticed
LATE=20000	# ms: a busy host may be that late
# Connections that must live on survive a busy host too, and send nothing but
# messages.
PATIENT='-d 3600000 -t 3600000 -A 19'
GIVE_UP=10000	# ms: a server waits for a session of a peer that is gone
SOON=300	# s: for what is due at once; the host may be busy
failures=0 slack=0 pairs= soft= renewed=
driver=${RDMAMSG_VM_DRIVER:-rxe}

# addr MACHINE NET
addr()
{
	case $1 in
	a)	echo "10.9.$(($2 + 1)).1" ;;
	b)	echo "10.9.$(($2 + 1)).2" ;;
	esac
}

# Prints the build whose programs run on machine $1.
built()
{
	case $1 in
	b)	echo "$build_b" ;;
	*)	echo "$build" ;;
	esac
}

# program MACHINE PATH: a program of the build there, without libtool's script,
# which is slow there.
program()
{
	direct=$(built "$1")/${2%/*}/.libs/${2##*/}
	if [ -x "$direct" ]
	then echo "$direct"
	else echo "$(built "$1")/$2"
	fi
}

# Prints the path of the peer on machine $1.
peer()
{
	program "$1" tests/twohost/peer
}

# Prints the device of network $1.
device()
{
	echo "$driver$1"
}

# from MACHINE NET: prints the options that a client there needs, if any.
from()
{
	:
}

other()
{
	case $1 in
	a)	echo b ;;
	b)	echo a ;;
	esac
}

# cut NET on|off: the wire between the machines, for both directions at the same
# moment, and without any work in the machines. What is sent is lost.
cut()
{
	for machine in a b
	do
		if [ "$2" = on ]
		then
			mv "$VM_DIR/$machine.net$1" "$VM_DIR/$machine.cut$1"
		else
			mv "$VM_DIR/$machine.cut$1" "$VM_DIR/$machine.net$1"
		fi
	done
}

### Peers.  MACHINE TAG names one.

# start MACHINE TAG ARGUMENT...
start()
{
	machine=$1 tag=$2
	shift 2
	vm_spawn "$machine" "$tag" "exec $(peer "$machine") $*"
}

# await MACHINE TAG SECONDS PATTERN [COUNT]: waits for COUNT matching lines.
await()
{
	until=$(($(date +%s) + $3 + 1))
	until [ "$(vm_output "$1" "$2" | grep -Ec "$4")" -ge "${5:-1}" ]
	do
		if [ "$(date +%s)" -ge "$until" ]
		then
			echo "$1 $2: no '$4' in $3 s:"
			vm_output "$1" "$2" | tail -n 20
			return 1
		fi
		sleep 0.1
	done
}

# silent MACHINE TAG PATTERN: checks that no line matches.
silent()
{
	if vm_output "$1" "$2" | grep -E "$3"
	then
		echo "$1 $2: unexpected"
		return 1
	fi
}

# word MACHINE TAG LINE N: prints word N of the last line that starts with LINE.
word()
{
	vm_output "$1" "$2" | awk -v line="$3" -v n="$4" \
		'$1 == line { found = $n } END { print found }'
}

# server MACHINE TAG ARGUMENT...
server()
{
	machine=$1 tag=$2
	shift 2
	start "$machine" "$tag" server "$@"
	await "$machine" "$tag" $SOON '^listening'
}

# Connects NAME.c to NAME.s.
connect()
{
	net=$3
	server "$1" "$2.s" "$4"
	start "$(other "$1")" "$2.c" client "$(from "$(other "$1")" "$3") $5" \
		"$(addr "$1" "$3")" "$(word "$1" "$2.s" listening 2)"
	await "$(other "$1")" "$2.c" $SOON '^connected'
	await "$1" "$2.s" $SOON '^connected'
	[ "$(word "$1" "$2.s" connected 2)" = "$(device "$3")" ]
}

# pair SERVER-MACHINE NAME NET SERVER-ARGUMENTS CLIENT-ARGUMENTS: until paired,
# which waits for all of them.
pair()
{
	connect "$@" &
	pairs="$pairs $!"
}

paired()
{
	for child in $pairs
	do
		wait "$child"
	done
	pairs=
}

# signal MACHINE SIGNAL TAG...
signal()
{
	machine=$1 line="kill -$2"
	shift 2
	[ -n "$*" ] || return 0
	# shellcheck disable=SC2048 # lists of them too
	for tag in $*
	do
		line="$line $(word "$machine" "$tag" pid 2)"
	done
	vm_exec "$machine" "$line"
}

# moving MACHINE TAG: checks that messages go on arriving.
moving()
{
	await "$1" "$2" $SOON '^message' \
		$(($(vm_output "$1" "$2" | grep -c '^message') + 3))
}

# ends MACHINE TAG [STATUS]
ends()
{
	status=0
	vm_wait "$1" "$2" $SOON >/dev/null || status=$?
	if [ $status -ne "${3:-0}" ]
	then
		echo "$1 $2: status $status, not ${3:-0}:"
		vm_output "$1" "$2" | tail -n 20
		return 1
	fi
}

now_ms()
{
	date +%s%3N
}

# harm A-TAGS B-TAGS COMMAND...: marks the time in those, then does COMMAND. What
# this took, `slack`, is not to be blamed on the peers.
harm()
{
	slack=$(now_ms) a_tags=$1 b_tags=$2
	shift 2
	signal a USR1 "$a_tags" &
	signal b USR1 "$b_tags"
	wait $!
	"$@"
	slack=$(($(now_ms) - slack))
	echo "slack $slack ms"
}

# closed MACHINE TAG MILLISECONDS PATTERN: within so many of the harm, for a
# reason (WHO CAUSE) that matches; the peer ends with status 3.
closed()
{
	await "$1" "$2" $(($3 / 1000 + SOON)) '^closed'
	printf '%s %s: ' "$1" "$2"
	vm_output "$1" "$2" | grep '^closed'
	vm_output "$1" "$2" | grep -Eq "^closed ($4) "
	silent "$1" "$2" 'were not flushed'
	[ "$(word "$1" "$2" closed 4)" -le $(($3 + slack)) ]
	ends "$1" "$2" 3
}

# dead MACHINE TAG: closed for want of an answer, in the bounds of dead_after_ms. On
# a busy host a request may be old already when the wire is cut.
dead()
{
	closed "$1" "$2" $((DEAD * 5 / 4 + LATE)) 'NETWORK TRANSPORT'
	[ "$(word "$1" "$2" closed 4)" -ge $((DEAD / 2)) ]
}

# doomed_sessions OPTION...: starts two sessions with failover. The first has its
# server on a, which gives up after GIVE_UP. The second has its client on a, which
# goes on trying.
doomed_sessions()
{
	options="-d $DEAD -s 100,64k -w 50 $*" address=-
	[ "$soft" ] || address=$(addr b 1)
	pair a fs 0 "$options -F - -O $GIVE_UP -m send" \
		"$options -F - -m recv"
	pair b fc 0 "$options -F - -m recv" \
		"$options -F $address -O 600000 -m send"
}

# given_up MACHINE TAG TEXT: a session ended with this text. It was not resumed.
given_up()
{
	vm_output "$1" "$2" | grep -q "^closed .*$3"
	vm_output "$1" "$2" | grep '^left'
	silent "$1" "$2" '^(path resumed|error)'
}

# unknown_session PORT: another program of b is at the port of the second doomed
# session. The session ends, and other clients can use the port.
unknown_session()
{
	start b next.s server -m echo -F - any "$1"
	await b next.s $SOON '^listening'
	closed a fc.c 600000 'PEER ABORTED'
	given_up a fc.c 'does not know this session any more'
	start a next.c client -F - -m ping -n 5 "$(from a 0)" "$(addr b 0)" "$1"
	ends a next.c
	ends b next.s
}

# same SERVER-MACHINE NAME: a stream that has ended: what one end has sent, the
# other has received.
same()
{
	client=$(other "$1")
	[ "$(word "$1" "$2.s" total 2)" = "$(word "$client" "$2.c" total 3)" ] ||
		[ "$(word "$1" "$2.s" total 2)" = 0 ]
	[ "$(word "$1" "$2.s" total 3)" = "$(word "$client" "$2.c" total 2)" ] ||
		[ "$(word "$1" "$2.s" total 3)" = 0 ]
}

# remove_device MACHINE NET, until add_device; which of them have what is open.
remove_device()
{
	vm_spawn "$1" del rdma link del "$driver$2"
}

device_removed()
{
	vm_wait "$1" del $SOON
	vm_exec "$1" "! rdma link show $driver$2/1 2>/dev/null"
}

add_device()
{
	vm_exec "$1" "rdma link add $driver$2 type $driver netdev eth$2"
}

# Soft-RoCE's connection manager is dead from the first farewell on that it
# could not send: its queue pair is in error (seen in Linux 6.1).
renew_device()
{
	vm_exec "$1" "rdma link del $driver$2" || :
	add_device "$1" "$2"
}

# Skips a case that needs a device on each network in one process.
two_devices()
{
	[ -z "$soft" ] || {
		echo "the soft HCA is one device"
		return 77
	}
}

### Cases

# Prints how the peers of this case have ended.
post_mortem()
{
	find "$VM_DIR" -name 'tag-*.out' -newer "$work/start" |
		while read -r file
		do
			echo "# $file:" | sed "s,$VM_DIR/,,"
			# with the history of an endpoint
			grep -E '^(closed|error|failed|rdmamsg:)' "$file" |
				tail -n 80 | sed 's/^/#   /'
		done
	# of the processes of a round of chaos
	tail -n 5 "$VM_DIR"/*/control/chaos/process-*.log 2>/dev/null |
		sed 's/^/#   /'
}

clean_up()
{
	for machine in a b
	do
		vm_alive $machine || continue
		vm_exec $machine 'pkill -KILL -x "(conform-)?peer|rdmamsg-.*"
			tc qdisc del dev eth0 root
			tc qdisc del dev eth1 root' || :
		vm_link $machine eth0 up
		renew_device $machine 0
		renew_device $machine 1
	done
	! [ -e "$VM_DIR/a.cut0" ] || cut 0 off
}

# attempt COMMAND...: runs a case; its status is in $status.
attempt()
{
	: >"$work/start"
	set +e
	(set -e; "$@") >"$work/log" 2>&1
	status=$?
	set -e
}

# broken: whether a kernel has a fault, for the first time. The machines are new
# then: a fault of Soft-RoCE or of the emulation seldom comes again, and would
# fail every case that is left.
broken()
{
	[ -z "$soft$renewed" ] || return 1
	for machine in a b
	do
		vm_complaint $machine >"$work/complaint" || continue
		echo "# machine $machine: its kernel has a fault; both are new"
		sed 's/^/# /' "$work/complaint"
		renewed=1
		vm_kill a 2>/dev/null || :
		vm_kill b 2>/dev/null || :
		vm_start a && vm_start b
		return
	done
	return 1
}

# check NAME COMMAND...
check()
{
	name=$1 from=$(date +%s)
	shift
	case " $only " in
	'  ' | *" $name "*)	;;
	*)	return ;;
	esac
	case $except in *" $name "*) return ;; esac
	attempt "$@"
	! broken || attempt "$@"
	case $status in
	0)	echo "ok $name"
		[ -z "${TWOHOST_VERBOSE:-}" ] ||
			sed 's/^/# /' "$work/log"
		;;
	77)	echo "skip $name # $(tail -n 1 "$work/log")" ;;
	*)	echo "not ok $name"
		sed 's/^/# /' "$work/log"
		post_mortem
		failures=$((failures + 1))
		clean_up >/dev/null 2>&1 || :
		;;
	esac
	echo "# took $(($(date +%s) - from)) $name"
}

# once NAME COMMAND...: a case that shows nothing between machines that another or
# the soft HCA does not show. In machines it runs only if it is named.
once()
{
	[ "$soft" ] || [ "$only" ] || return 0
	check "$@"
}
