# shellcheck shell=sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Test machines: Soft-RoCE, or siw, which is iWARP, in the kernel of virtual
# machines, driven from a shell script on the host.  To be sourced; VM_SRC says
# where this file lies when it is not beside the script, in ./vm or in
# $srcdir/tests/vm.
#
#	. tests/vm/lib.sh
#	trap vm_stop_all EXIT
#	trap 'exit 1' HUP INT TERM
#	vm_start a
#	vm_start b
#	vm_spawn a server 'rping -s -a 10.9.1.1 -C 5'
#	vm_exec b 'rping -c -a 10.9.1.1 -C 5'
#	vm_wait a server
#	vm_stop b && vm_stop a
#
# The machines a and b are joined by two networks:
#
#		eth0, rxe0			 eth1, rxe1
#	a	10.9.1.1, fd00:9:1::1, vm-a0	 10.9.2.1, fd00:9:2::1, vm-a1
#	b	10.9.1.2, fd00:9:1::2, vm-b0	 10.9.2.2, fd00:9:2::2, vm-b1
#
# A machine started with -s stands alone, with one device, rxe0 on veth0:
# 10.9.0.1, fd00:9::1, rxe-host. With siw the devices are siw0 and siw1, and the
# host's name is siw-host.
#
# A machine sees the host's files below an overlay in its memory: nothing it
# writes reaches the host, but for the directories shared with -n.  It may go on
# seeing the old contents of a file changed on the host while it runs.  Commands
# run as root in the current directory with the exported environment.
#
#   vm_start NAME [-s] [-m MEGABYTES] [-c CPUS] [-n DIRECTORY]...
#			boots it and returns when it is ready.  Not in a
#			subshell: the machine ends with the process that starts it
#   vm_exec NAME COMMAND...	runs a command line, prints its output, returns
#			its status, or 124 after VM_EXEC_TIMEOUT seconds (600)
#   vm_spawn NAME TAG COMMAND...	starts one in the background
#   vm_wait NAME TAG [SECONDS]	waits for it, prints its output, returns its
#			status, or 124 (the command is killed then)
#   vm_output NAME TAG	prints what it has written so far
#   vm_alive NAME	whether the machine runs
#   vm_complaint NAME	prints the first complaint of its kernel, if there is one
#   vm_kill NAME	cuts its power
#   vm_stop NAME	switches it off
#   vm_stop_all		switches off whatever runs, for a trap on EXIT
#   vm_link NAME IFACE up|down
#   vm_cut NAME IFACE on|off	drops silently what NAME sends
#   vm_cut_both IFACE on|off	the same on a and b
#   vm_netem NAME IFACE [SPEC...]	tc-netem(8); without SPEC, undoes it
#
# vm_kill and vm_stop return 125, and show the excerpt, when the kernel has
# complained.  vm_start and the functions that run commands return 125 likewise
# when the machine dies, 99 when it does without a word.  vm_start returns 77
# when a package is missing.
#
# Environment:
#   RDMAMSG_VM_ACCEL	 tcg, kvm, or icount: tcg with a clock that counts
#			 instructions, 2 ns each, whatever the host does; it
#			 has one processor (tcg)
#   RDMAMSG_VM_DRIVER	 rxe or siw (rxe); the programs in the machine have it
#   RDMAMSG_VM_QEMU	 (qemu-system-x86_64)
#   RDMAMSG_VM_KERNEL	 version of the kernel (the newest with Soft-RoCE)
#   RDMAMSG_VM_ROOT	 root whose boot/ and lib/modules/ have the kernel (/)
#   VM_BOOT_TIMEOUT	 seconds that a boot may take (90); more for a slow host
#   VM_KEEP		 keep the machines' directory, with the kernels' messages

if [ -z "${VM_SRC:-}" ]
then
	for VM_SRC in "${0%/*}" "${0%/*}/vm" "${srcdir:-.}/vm" \
		      "${srcdir:-.}/tests/vm"
	do
		! [ -e "$VM_SRC/guest" ] || break
	done
fi
VM_DIR=

# Kernel messages that show a fault.
vm__trouble='BUG: |kernel BUG at|WARNING: |Oops|general protection|KASAN|UBSAN'
vm__trouble="$vm__trouble|blocked for more than|soft lockup|hard LOCKUP"
vm__trouble="$vm__trouble|detected (expedited )?stalls|self-detected stall"
vm__trouble="$vm__trouble|refcount_t: |Kernel panic|Out of memory: "
vm__trouble="$vm__trouble|unregister_netdevice: waiting|^init: "

# And this is none: a read that a lost packet has failed, which Soft-RoCE reports as
# done. lib/device/quirks.h, doubtful_reads, is about it.
vm__known='WARNING: .* rxe_completer\+'

# Nor is a warning behind this line. Soft-RoCE frees a CQ although its tasklet is
# scheduled still. If the next CQ gets that memory, the kernel finds a tasklet in
# its list that is not scheduled (Linux 6.1, rxe_cq_cleanup()).
vm__known_before='tasklet SCHED state not set: callback rxe_send_complete'

# vm__complaint FILE: prints the first complaint and the lines around it.
vm__complaint()
{
	awk -v known="$vm__known" -v known_before="$vm__known_before" \
		-v trouble="$vm__trouble" '
		$0 ~ trouble && $0 !~ known && before !~ known_before &&
		!found++ {
			print older; print old; print before
		}
		found && lines++ < 40
		{ older = old; old = before; before = $0 }
		END { exit !found }' "$1"
}

vm__say()
{
	echo "vm: $*" >&2
}

vm__quote()
{
	printf "'%s'" "$(printf '%s\n' "$1" | sed "s/'/'\\\\''/g")"
}

vm__comma()
{
	printf '%s\n' "$1" | sed 's/,/,,/g'
}

# Prints the process of machine $1, if it runs.
vm__pid()
{
	cat "$VM_DIR/$1/pid" 2>/dev/null
}

vm_alive()
{
	[ -n "$VM_DIR" ] && kill -0 "$(vm__pid "$1")" 2>/dev/null
}

vm_complaint()
{
	tr -d '\r' <"$VM_DIR/$1/console" >"$VM_DIR/$1/messages"
	vm__complaint "$VM_DIR/$1/messages"
}

# Forgets machine $1, whose process has ended or is about to, and reads what its
# kernel has said.
vm__bury()
{
	if vm__old=$(vm__pid "$1")
	then
		wait "$vm__old" 2>/dev/null || :
		rm -f "$VM_DIR/$1/pid"
	fi
	if vm_complaint "$1" >"$VM_DIR/$1/complaint"
	then
		vm__say "$1: the kernel complains:"
		cat "$VM_DIR/$1/complaint" >&2
		return 125
	fi
}

# Reports that machine $1 has ended without vm_stop or vm_kill.
vm__lost()
{
	vm__bury "$1" || return
	vm__say "$1: the machine is gone"
	cat "$VM_DIR/$1/qemu.log" "$VM_DIR/$1/messages" >&2
	return 99
}

# Waits for file $2 of machine $1, at most $3 seconds and not much less.
vm__await()
{
	vm__end=$(($(date +%s) + $3 + 1))
	until [ -e "$VM_DIR/$1/$2" ]
	do
		if ! vm_alive "$1"
		then
			vm__lost "$1"
			return
		fi
		[ "$(date +%s)" -lt "$vm__end" ] || return 124
		sleep 0.05
	done
}

# Writes $3... to the agent or the monitor ($2) of machine $1.  The pipe is
# opened for reading too: that cannot block when the machine has died.
vm__tell()
{
	vm__port=$VM_DIR/$1/$2.in
	shift 2
	echo "$*" 1<>"$vm__port"
}

# Puts in or pulls the cable of network $2 of machine $1.
vm__plug()
{
	vm__tell "$1" monitor "set_link net$2 $3"
}

# Boots a machine. Returns 98 if the kernel got stuck.
vm__boot()
{
	vm__name=$1
	shift
	vm__memory=2048 vm__cpus=2 vm__host='' vm__shares='' vm__count=0
	# one after the other, two processors get nowhere
	[ "${RDMAMSG_VM_ACCEL:-}" != icount ] || vm__cpus=1
	OPTIND=1
	while getopts m:c:n:s vm__option
	do
		case $vm__option in
		m)	vm__memory=$OPTARG ;;
		c)	vm__cpus=$OPTARG ;;
		s)	vm__host=0 ;;
		n)	vm__path=$(cd "$OPTARG" && pwd -P) || return
			vm__shares="$vm__shares
share n$vm__count $(vm__quote "$vm__path")"
			vm__count=$((vm__count + 1)) ;;
		*)	return 2 ;;
		esac
	done

	case ${vm__host:-$vm__name} in
	0)	vm__peer='' vm__address=10.9.0.1 vm__address6=fd00:9::1
		vm__named=${RDMAMSG_VM_DRIVER:-rxe}-host ;;
	a)	vm__host=1 vm__peer=b ;;
	b)	vm__host=2 vm__peer=a ;;
	*)	vm__say "$vm__name: only a and b have a network"
		return 2 ;;
	esac

	if [ -n "$vm__peer" ]
	then
		vm__address=10.9.1.$vm__host vm__address6=fd00:9:1::$vm__host
		vm__named=vm-$vm__name
	fi

	vm__qemu=${RDMAMSG_VM_QEMU:-qemu-system-x86_64}
	if ! command -v "$vm__qemu" >/dev/null
	then
		vm__say "no $vm__qemu; tests/setup-packages vm installs it"
		return 77
	fi
	vm__image=$("$VM_SRC/image") || return

	if [ -z "$VM_DIR" ]
	then
		VM_DIR=$(mktemp -d "${TMPDIR:-/tmp}/rdmamsg-vm.XXXXXX") || return
	fi
	if vm_alive "$vm__name"
	then
		vm__say "$vm__name runs already"
		return 2
	fi
	vm__dir=$VM_DIR/$vm__name
	rm -rf "$vm__dir"
	mkdir -p "$vm__dir/control"
	cp "$VM_SRC/guest" "$vm__dir/control/guest"
	mkfifo "$vm__dir/agent.in" "$vm__dir/agent.out" \
		"$vm__dir/monitor.in" "$vm__dir/monitor.out" || return
	: >"$vm__dir/console"
	cat >"$vm__dir/control/config" <<-CONFIG
		vm_host=$vm__host
		vm_hostname=vm-$vm__name
		vm_driver=${RDMAMSG_VM_DRIVER:-rxe}
		$vm__shares
	CONFIG
	cat >"$vm__dir/env" <<-ENV
		export HOME=/root RDMAMSG_VM=1 RDMAMSG_VM_NAME=$vm__name
		export RDMAMSG_VM_ADDR=$vm__address RDMAMSG_VM_ADDR6=$vm__address6
		export RDMAMSG_VM_DRIVER=${RDMAMSG_VM_DRIVER:-rxe}
		export RDMAMSG_VM_DEVICE=\${RDMAMSG_VM_DRIVER}0
		export RDMAMSG_VM_HOST=$vm__named
		PATH=\$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	ENV

	# The emulated CPU has RDRAND; the clock would be the slow HPET without
	# tsc=reliable.
	set -- -machine q35 -nodefaults -no-user-config -no-reboot -display none \
		-smp "$vm__cpus" -m "$vm__memory" \
		-kernel "${vm__image%%
*}" -initrd "${vm__image#*
}" \
		-append 'console=ttyS0 loglevel=5 panic=-1 mitigations=off nokaslr tsc=reliable no_timer_check cryptomgr.notests random.trust_cpu=on rcupdate.rcu_cpu_stall_timeout=60' \
		-chardev file,id=console,path=console -serial chardev:console \
		-chardev pipe,id=monitor,path=monitor -mon chardev=monitor \
		-device virtio-serial-pci -chardev pipe,id=agent,path=agent \
		-device virtserialport,chardev=agent,name=agent \
		-virtfs local,path=/,mount_tag=hostroot,security_model=none,multidevs=remap,readonly=on \
		-virtfs local,path=control,mount_tag=control,security_model=none,multidevs=remap
	case ${RDMAMSG_VM_ACCEL:-tcg} in
	kvm)	set -- "$@" -accel kvm -cpu host ;;
	icount)
		set -- "$@" -accel tcg,thread=single -cpu max \
			-icount shift=1
		;;
	*)	set -- "$@" -accel tcg,thread=multi -cpu max ;;
	esac
	vm__count=0
	while read -r vm__word vm__tag vm__path
	do
		[ "$vm__word" = share ] || continue
		eval "vm__path=$vm__path"
		set -- "$@" -virtfs "local,path=$(vm__comma "$vm__path"),mount_tag=$vm__tag,security_model=none,multidevs=remap"
	done <"$vm__dir/control/config"
	# Datagrams between UNIX sockets: they have no connection that would be lost
	# with one machine, and are not dropped under load as UDP's are.
	for vm__net in ${vm__peer:+0 1}
	do
		set -- "$@" \
			-netdev "dgram,id=net$vm__net,local.type=unix,local.path=../$vm__name.net$vm__net,remote.type=unix,remote.path=../$vm__peer.net$vm__net" \
			-device "virtio-net-pci,netdev=net$vm__net,host_mtu=4200,romfile=,mac=52:54:00:09:0$((vm__net + 1)):0$vm__host"
	done

	# From within the directory, for a socket's path is short.  The machine must
	# not outlive this shell, however that ends.
	(cd "$vm__dir" && exec setpriv --pdeathsig KILL "$vm__qemu" "$@") \
		</dev/null >"$vm__dir/qemu.log" 2>&1 &
	echo $! >"$vm__dir/pid"
	{
		if [ -n "$vm__peer" ]
		then
			# Without a link, frames to a machine that cannot receive yet
			# are lost. With a link they would wait and block the peer.
			vm__plug "$vm__name" 0 off
			vm__plug "$vm__name" 1 off
			vm__await "$vm__name" control/network "${VM_BOOT_TIMEOUT:-90}" &&
				vm__plug "$vm__name" 0 on &&
				vm__plug "$vm__name" 1 on
		fi &&
		vm__await "$vm__name" control/ready "${VM_BOOT_TIMEOUT:-90}"
	} || {
		vm__status=$?
		[ "$vm__status" -eq 124 ] || return "$vm__status"
		vm__say "$vm__name does not boot in ${VM_BOOT_TIMEOUT:-90} s;" \
			"VM_BOOT_TIMEOUT=SECONDS gives it more"
		kill -KILL "$(vm__pid "$vm__name")"
		vm__status=0
		vm__lost "$vm__name" || vm__status=$?
		[ "$vm__status" -ne 99 ] || vm__status=98
		return "$vm__status"
	}
}

# Seldom, and under load, an emulated processor is stuck in the first second of
# its kernel, before there is anything of ours: it has a second try.
vm_start()
{
	vm__boot "$@" && return
	vm__code=$?
	[ "$vm__code" -eq 98 ] || return "$vm__code"
	vm__say "$1 has a second try"
	vm__boot "$@" && return
	vm__code=$?
	[ "$vm__code" -ne 98 ] || vm__code=99
	return "$vm__code"
}

# Sends the command line $3... to machine $1 as request $2.
vm__submit()
{
	vm__name=$1 vm__id=$2
	shift 2
	if ! vm_alive "$vm__name"
	then
		vm__say "$vm__name does not run"
		return 99
	fi
	vm__file=$VM_DIR/$vm__name/control/$vm__id
	{
		(
			unset HOME TMPDIR OLDPWD XDG_RUNTIME_DIR RDMAMSG_VM_CACHE
			# Outside its POSIX mode bash says declare.
			export -p | sed 's/^declare -[a-z]* /export /'
		)
		cat "$VM_DIR/$vm__name/env"
		printf 'cd %s || exit 126\n%s\n' "$(vm__quote "$PWD")" "$*"
	} >"$vm__file"
	vm__tell "$vm__name" agent run "$vm__id"
}

# Waits for request $2 of machine $1, at most $3 seconds; returns its status.
vm__finish()
{
	vm__await "$1" "control/$2.status" "$3" || {
		vm__status=$?
		[ "$vm__status" -ne 124 ] || vm__tell "$1" agent kill "$2"
		return "$vm__status"
	}
	read -r vm__status <"$VM_DIR/$1/control/$2.status"
	return "$vm__status"
}

vm_exec()
{
	vm__name=$1
	shift
	# The file is made to keep the name: two shells may ask at once.
	vm__id=$(mktemp "$VM_DIR/$vm__name/control/exec-XXXXXX") || return 99
	vm__id=${vm__id##*/}
	vm__submit "$vm__name" "$vm__id" "$@" || return
	vm__status=0
	vm__finish "$vm__name" "$vm__id" "${VM_EXEC_TIMEOUT:-600}" ||
		vm__status=$?
	[ "$vm__status" -ne 124 ] || vm__say "$vm__name: no end: $*"
	cat "$VM_DIR/$vm__name/control/$vm__id.out" 2>/dev/null || :
	return "$vm__status"
}

vm_spawn()
{
	vm__name=$1 vm__id=tag-$2
	shift 2
	rm -f "$VM_DIR/$vm__name/control/$vm__id".*
	vm__submit "$vm__name" "$vm__id" "$@"
}

vm_wait()
{
	vm__status=0
	vm__finish "$1" "tag-$2" "${3:-${VM_EXEC_TIMEOUT:-600}}" || vm__status=$?
	vm_output "$1" "$2"
	return "$vm__status"
}

vm_output()
{
	cat "$VM_DIR/$1/control/tag-$2.out" 2>/dev/null || :
}

vm_kill()
{
	if vm_alive "$1"
	then
		kill -KILL "$(vm__pid "$1")"
	fi
	vm__bury "$1"
}

vm_stop()
{
	if vm_alive "$1"
	then
		vm__tell "$1" agent off
		vm__tries=0
		while vm_alive "$1" && [ $vm__tries -lt 300 ]
		do
			vm__tries=$((vm__tries + 1))
			sleep 0.05
		done
		vm_alive "$1" && vm__say "$1 does not switch itself off"
	fi
	vm_kill "$1"
}

vm_stop_all()
{
	[ -n "$VM_DIR" ] || return 0
	vm__all=0
	for vm__machine in "$VM_DIR"/*/pid
	do
		[ -e "$vm__machine" ] || continue
		vm__machine=${vm__machine%/pid}
		vm_kill "${vm__machine##*/}" || vm__all=$?
	done
	if [ -n "${VM_KEEP:-}" ]
	then
		vm__say "kept $VM_DIR"
	else
		rm -rf "$VM_DIR"
	fi
	VM_DIR=
	return $vm__all
}

vm_link()
{
	if [ "$3" = up ]
	then
		vm__plug "$1" "${2#eth}" on
		# The route goes with the link.
		vm_exec "$1" "ip link set $2 up &&
			ip route replace 224.0.0.0/4 dev $2 metric $((${2#eth} * 10 + 10))"
	else
		vm_exec "$1" "ip link set $2 down" || return
		vm__plug "$1" "${2#eth}" off
	fi
}

vm_netem()
{
	vm__name=$1 vm__iface=$2
	shift 2
	if [ $# -gt 0 ]
	then
		vm_exec "$vm__name" "tc qdisc replace dev $vm__iface root netem $*"
	else
		vm_exec "$vm__name" "tc qdisc del dev $vm__iface root 2>/dev/null || :"
	fi
}

vm_cut()
{
	if [ "$3" = on ]
	then
		vm_netem "$1" "$2" loss 100%
	else
		vm_netem "$1" "$2"
	fi
}

vm_cut_both()
{
	vm_cut a "$1" "$2" && vm_cut b "$1" "$2"
}
