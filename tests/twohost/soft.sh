# shellcheck shell=sh
# SPDX-License-Identifier: BSD-2-Clause
#
# The machines a and b without machines: each is a group of processes on this
# host, each network a fabric of the soft HCA. A machine that loses its power is
# a black hole whose processes are killed. To be sourced by run.sh after lib.sh,
# for what the cases use of ../vm/lib.sh.

PATH=$build/lib/soft/tools:$PATH
export RDMAMSG_DEVICE=soft

soft=1
DEAD=3000
net=0 libraries=$build/.libs	# of what is started next
VM_DIR=$work/soft

addr()
{
	case $1 in
	a)	echo "127.9.$(($2 + 1)).1" ;;
	b)	echo "127.9.$(($2 + 1)).2" ;;
	esac
}

# Names the source, which on one host would be the address of the peer.
from()
{
	echo "-S $(addr "$1" "$2")"
}

device()
{
	echo soft0
}

fabric()
{
	echo "two-$$-$1"
}

# ctl NET ARGUMENT...
ctl()
{
	ctl_net=$1
	shift
	rdmamsg-soft-ctl -f "$(fabric "$ctl_net")" "$@"
}

### Machines

# spawn DIRECTORY TAG COMMAND...
spawn()
{
	spawn_at=$1/tag-$2
	shift 2
	rm -f "$spawn_at.status"
	: >"$spawn_at.out"
	(
		RDMAMSG_SOFT_FABRIC=$(fabric "$net") LD_LIBRARY_PATH=$libraries
		export RDMAMSG_SOFT_FABRIC LD_LIBRARY_PATH
		# the peer takes the place of that shell, and tells its number
		status=0
		sh -c "$*" >"$spawn_at.out" 2>&1 </dev/null || status=$?
		echo $status >"$spawn_at.tmp"
		mv "$spawn_at.tmp" "$spawn_at.status"
	) &
}

vm_spawn()
{
	spawn_to=$VM_DIR/$1/control libraries=$(built "$1")/.libs
	shift
	spawn "$spawn_to" "$@"
}

vm_output()
{
	cat "$VM_DIR/$1/control/tag-$2.out" 2>/dev/null || :
}

vm_exec()
{
	shift
	sh -c "$*"
}

vm_wait()
{
	until=$(($(date +%s) + ${3:-60} + 1))
	until [ -e "$VM_DIR/$1/control/tag-$2.status" ]
	do
		[ "$(date +%s)" -lt "$until" ] || return 124
		sleep 0.05
	done
	vm_output "$1" "$2"
	return "$(cat "$VM_DIR/$1/control/tag-$2.status")"
}

# Prints the peers of machine $1 that have not ended.
living()
{
	for out in "$VM_DIR/$1"/control/tag-*.out
	do
		! [ -e "$out" ] || [ -e "${out%.out}.status" ] ||
			sed -n 's/^pid //p' "$out"
	done
}

kill_all()
{
	for pid in $(living "$1")
	do
		kill -KILL "$pid" 2>/dev/null || :
	done
	for out in "$VM_DIR/$1"/control/tag-*.out
	do
		tag=${out##*/tag-}
		! [ -e "$out" ] || vm_wait "$1" "${tag%.out}" >/dev/null || :
	done
}

vm_start()
{
	mkdir -p "$VM_DIR/$1/control"
	for machine_net in 0 1
	do
		# what is set for a fabric lasts as long as somebody is on it
		net=$machine_net
		[ "$1" != a ] || spawn "$VM_DIR" "anchor$net" "exec $(peer a) server"
		ctl $net --all port all up 2>/dev/null || :
	done
	net=0
	[ "$1" != a ] || sleep_until_anchored
}

sleep_until_anchored()
{
	for machine_net in 0 1
	do
		tries=0
		until grep -q '^listening' "$VM_DIR/tag-anchor$machine_net.out"
		do
			tries=$((tries + 1))
			[ $tries -lt 600 ] || return 1
			sleep 0.1
		done
	done
}

vm_alive()
{
	[ -d "$VM_DIR/$1" ]
}

vm_kill()
{
	ctl 0 --all port all blackhole &&
	ctl 1 --all port all blackhole &&
	kill_all "$1"
}

# The last machine to stop checks that nothing is left.
vm_stop()
{
	kill_all "$1"
	[ "$1" = a ] || return 0
	for pid in $(sed -n 's/^pid //p' "$VM_DIR"/tag-anchor*.out)
	do
		kill -KILL "$pid"
	done
	for machine_net in 0 1
	do
		tries=0
		while ctl $machine_net list 2>/dev/null
		do
			tries=$((tries + 1))
			[ $tries -lt 600 ] || return 1
			sleep 0.1
		done
	done
}

vm_stop_all()
{
	kill_all a
	kill_all b
	for pid in $(sed -n 's/^pid //p' "$VM_DIR"/tag-anchor*.out 2>/dev/null)
	do
		kill -KILL "$pid" 2>/dev/null || :
	done
	wait
}

### Faults

# each MACHINE NET ARGUMENT...: of rdmamsg-soft-ctl, for each node there.
each()
{
	each_pids=" $(living "$1" | tr '\n' ' ')" each_net=$2
	shift 2
	ctl "$each_net" list | sed -n 's/^node \([0-9]*\) pid \([0-9]*\) .*/\1 \2/p' |
	while read -r each_node each_pid
	do
		case $each_pids in
		*" $each_pid "*) ctl "$each_net" -n "$each_node" "$@" ;;
		esac
	done
}

cut()
{
	if [ "$2" = on ]
	then ctl "$1" --all port all blackhole
	else ctl "$1" --all port all up
	fi
}

vm_link()
{
	each "$1" "${2#eth}" port all "$3"
}

vm__plug()
{
	if [ "$3" = on ]
	then each "$1" "$2" port all up
	else each "$1" "$2" port all down
	fi
}

# Of any machine: the other one's would be late or lost twice.
vm_netem()
{
	[ "$1" = a ] || return 0
	if [ $# -gt 2 ]
	then ctl "${2#eth}" --all faults drop="${4%\%}" delay="100:${6%ms}"
	else ctl "${2#eth}" --all faults
	fi
}

remove_device()
{
	each "$1" "$2" remove
}

# Nothing to do: the soft HCA is removed for later opens as well.
device_removed()
{
	:
}

add_device()
{
	each "$1" "$2" add
}

renew_device()
{
	:
}

clean_up()
{
	kill_all a
	kill_all b
	for machine_net in 0 1
	do
		ctl $machine_net --all port all up
		ctl $machine_net --all faults
	done
}
