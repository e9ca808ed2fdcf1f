# shellcheck shell=sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Cases of rdmamsg-doctor, for samples/run.sh. Each breaks one thing, checks the
# verdict and the remedy, runs the remedy if it is a command that can be run here,
# and checks that the verdict turns ok.

doctor=$bin/rdmamsg-doctor

# diagnose ARGUMENT...: what it prints is in the file `said`.
diagnose()
{
	status=0
	timeout 600 "$doctor" "$@" >said 2>complaints || status=$?
	cat said complaints
	[ $status -le 2 ]
}

# judged VERDICT CHECK PATTERN
judged()
{
	grep -q -E -e "^$1 +$2[ :].*$3" said || {
		echo "no '$1 $2' with '$3'"
		return 1
	}
	case $1 in
	warning) [ $status -ge 1 ] ;;
	wrong)	[ $status -eq 2 ] ;;
	esac
}

# remedy CHECK: prints the remedy of its first finding that is not ok.
remedy()
{
	awk -v check="$1" '
	seen { sub(/^ +/, ""); print; exit }
	/^(warning|wrong) / && $2 ~ "^" check ":?$" { seen = 1 }' said
}

# advises CHECK PATTERN
advises()
{
	remedy "$1" | grep -q -e "$2" || {
		echo "the remedy of $1 has no '$2': $(remedy "$1")"
		return 1
	}
}

# mended CHECK
mended()
{
	grep -q -E "^ok +$1[ :]" said || {
		echo "nothing is ok about $1"
		return 1
	}
	not grep -E "^(warning|wrong) +$1[ :]" said
}

# mends CHECK ARGUMENT...: runs the remedy and looks again.
mends()
{
	check=$1
	shift
	remedy "$check" >advice
	cat advice
	[ -s advice ]
	sh -e ./advice
	diagnose "$@"
	mended "$check"
}

# ---- a host as files ----------------------------------------------------

# port NUMBER STATE PHYSICAL LINK: of the device $device, 'root' is the host
port()
{
	at=root/sys/class/infiniband/$device/ports/$1
	mkdir -p "$at/gids" "$at/gid_attrs/types" "$at/gid_attrs/ndevs" \
		"$at/pkeys" "$at/counters" "$at/hw_counters"
	echo "$2" >"$at/state"
	echo "$3" >"$at/phys_state"
	echo "$4" >"$at/link_layer"
	echo '100 Gb/sec (4X EDR)' >"$at/rate"
	echo 0xffff >"$at/pkeys/0"
	echo 0 >"$at/counters/symbol_error"
	echo 0 >"$at/hw_counters/out_of_sequence"
}

# gid INDEX GID TYPE: of the first port of mlx5_0, on eth0
gid()
{
	at=root/sys/class/infiniband/mlx5_0/ports/1
	echo "$2" >"$at/gids/$1"
	echo "$3" >"$at/gid_attrs/types/$1"
	echo eth0 >"$at/gid_attrs/ndevs/$1"
}

# device NAME FIRMWARE
rdma_device()
{
	device=$1
	mkdir -p "root/sys/class/infiniband/$device/device/iommu_group"
	echo "$2" >"root/sys/class/infiniband/$device/fw_ver"
	echo MT_0000000012 >"root/sys/class/infiniband/$device/board_id"
	echo identity \
		>"root/sys/class/infiniband/$device/device/iommu_group/type"
}

# healthy: a host with a RoCE card on eth0, where nothing is wrong
healthy()
{
	rm -rf root
	rdma_device mlx5_0 16.35.2000
	port 1 '4: ACTIVE' '5: LinkUp' Ethernet
	gid 0 fe80:0000:0000:0000:0202:c9ff:fe00:0001 'RoCE v2'
	gid 1 0000:0000:0000:0000:0000:ffff:c000:0201 'RoCE v2'
	mkdir -p root/sys/class/infiniband_verbs/uverbs0 \
		root/sys/class/misc/rdma_cm root/dev/infiniband \
		root/sys/module/ib_uverbs root/sys/module/rdma_ucm \
		root/sys/module/ib_core/parameters root/sys/class/net/eth0 \
		root/proc/self/ns root/proc/1/ns root/proc/sys/kernel/yama \
		root/sys/fs/cgroup/app root/lib/modules/6.1.0
	# the numbers of /dev/null and /dev/zero, which can be opened anywhere
	echo 1:3 >root/sys/class/infiniband_verbs/uverbs0/dev
	echo 1:5 >root/sys/class/misc/rdma_cm/dev
	: >root/dev/infiniband/uverbs0
	: >root/dev/infiniband/rdma_cm
	echo Y >root/sys/module/ib_core/parameters/netns_mode
	echo 1 >root/sys/class/net/eth0/type
	echo up >root/sys/class/net/eth0/operstate
	echo 4200 >root/sys/class/net/eth0/mtu
	ln -s 'net:[1]' root/proc/self/ns/net
	ln -s 'net:[1]' root/proc/1/ns/net
	printf '%s\n' \
		'Limit                     Soft Limit  Hard Limit  Units' \
		'Max processes             96365       96365       processes' \
		'Max open files            20000       20000       files' \
		'Max locked memory         unlimited   unlimited   bytes' \
		'Max address space         unlimited   unlimited   bytes' \
		>root/proc/self/limits
	printf 'CapEff:\t0000000000000000\n' >root/proc/self/status
	echo '0::/app' >root/proc/self/cgroup
	echo '0::/app' >root/proc/1/cgroup
	: >root/proc/self/environ
	maps /usr/lib/libibverbs.so.1.14 /usr/lib/librdmacm.so.1.3
	printf '%s\n' 'HugePages_Total:      16' 'HugePages_Free:       16' \
		'Hugepagesize:       2048 kB' >root/proc/meminfo
	echo 0 >root/proc/sys/kernel/yama/ptrace_scope
	echo 6.1.0 >root/proc/sys/kernel/osrelease
	echo 'kernel/drivers/infiniband/core/ib_uverbs.ko.xz:' \
		>root/lib/modules/6.1.0/modules.dep
}

# maps FILE...: what is mapped
maps()
{
	printf '7f0000000000-7f0000001000 r-xp 00000000 08:01 5  %s\n' "$@" \
		>root/proc/self/maps
}

# look: at the host of files
look()
{
	diagnose --root="$PWD/root"
}

doctor_healthy()
{
	healthy
	look
	[ $status -eq 0 ]
	[ "$(grep -c '^ok ' said)" -ge 25 ]
	diagnose -q --root="$PWD/root"
	[ "$(wc -l <said)" -eq 1 ]
	said '0 warnings, 0 wrong'
}

# ---- situations of the kernel and of containers -------------------------

doctor_no_module()
{
	healthy
	rm -r root/sys/module/ib_uverbs root/sys/class/infiniband_verbs
	look
	judged wrong modules 'ib_uverbs: not loaded'
	advises modules '^modprobe ib_uverbs$'
	mkdir root/sys/module/ib_uverbs
	look
	mended modules
}

doctor_no_such_module()
{
	healthy
	rm -r root/sys/module/rdma_ucm root/sys/class/misc/rdma_cm
	look
	judged wrong modules 'rdma_ucm: not loaded'
	advises modules 'no rdma_ucm for kernel 6.1.0: .*linux-image-amd64'
}

doctor_no_device()
{
	healthy
	rm -r root/sys/class/infiniband root/sys/class/infiniband_verbs
	look
	[ $status -eq 1 ]
	judged warning devices 'no RDMA device'
	advises devices 'rdma link add rxe0 type rxe netdev eth0$'
	judged warning links 'eth0: has no RDMA device'
	advises links '^rdma link add rxe_eth0 type rxe netdev eth0$'
}

doctor_no_node()
{
	healthy
	rm root/dev/infiniband/uverbs0
	look
	judged wrong nodes '/dev/infiniband/uverbs0: there is no such node'
	mends nodes --root="$PWD/root"
}

doctor_stale_node()
{
	healthy
	rm root/dev/infiniband/uverbs0
	# no driver has this number
	mknod root/dev/infiniband/uverbs0 c 231 250
	look
	judged wrong nodes 'uverbs0: the node does not belong to the driver'
	mends nodes --root="$PWD/root"
}

# unprivileged COMMAND...: as a user who may do nothing
unprivileged()
{
	setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all \
		"$@"
}

# diagnose_as_user ARGUMENT... The build may be where no other user can read.
diagnose_as_user()
{
	status=0
	chmod a+rx "$work" .
	cp "$doctor" ./doctor
	for library in "$build"/.libs/librdmamsg.so.*
	do
		! [ -e "$library" ] || cp "$library" .
	done
	LD_LIBRARY_PATH=$PWD unprivileged timeout 600 ./doctor "$@" \
		>said 2>complaints || status=$?
	cat said complaints
	[ $status -le 2 ]
}

doctor_permission()
{
	healthy
	chmod 600 root/dev/infiniband/rdma_cm
	diagnose_as_user --root="$PWD/root"
	judged wrong nodes 'rdma_cm: no permission'
	judged wrong nodes 'uverbs0: no permission'
	# one finding at a time
	chmod a+rw root/dev/infiniband/uverbs0
	diagnose_as_user --root="$PWD/root"
	not judged wrong nodes 'uverbs0'
	advises nodes "^chmod a+rw .*/dev/infiniband/rdma_cm$"
	remedy nodes | sh -e
	diagnose_as_user --root="$PWD/root"
	mended nodes
}

doctor_container()
{
	healthy
	: >root/.dockerenv
	look
	judged warning container 'may not lock memory'
	printf 'CapEff:\t0000000000004000\n' >root/proc/self/status
	look
	mended container
	rm -r root/dev/infiniband
	look
	judged wrong container 'has no /dev/infiniband'
	advises container 'docker run --device=/dev/infiniband .*IPC_LOCK'
	advises nodes 'docker run --device'
	# other signs of a container
	rm root/.dockerenv
	look
	not judged wrong container .
	echo '0::/kubepods.slice/pod1' >root/proc/1/cgroup
	look
	judged wrong container .
	echo '0::/' >root/proc/1/cgroup
	printf 'PATH=/\0container=lxc\0' >root/proc/1/environ
	look
	judged wrong container .
}

doctor_netns()
{
	healthy
	ln -sfn 'net:[2]' root/proc/self/ns/net
	look
	judged warning netns 'mode shared'
	advises netns 'rdma system set netns exclusive'
	echo N >root/sys/module/ib_core/parameters/netns_mode
	look
	mended netns
	rm -r root/sys/class/infiniband
	look
	judged wrong netns 'mode exclusive, and no device'
	advises netns 'rdma dev set DEVICE netns NAME'
}

doctor_cgroup()
{
	healthy
	echo 'mlx5_0 hca_handle=4 hca_object=max' >root/sys/fs/cgroup/app/rdma.max
	echo 'mlx5_0 hca_handle=1 hca_object=7' \
		>root/sys/fs/cgroup/app/rdma.current
	look
	judged warning cgroup 'hca_handle: limit of 4, in use 1'
	echo 'mlx5_0 hca_handle=4 hca_object=7' \
		>root/sys/fs/cgroup/app/rdma.current
	look
	judged wrong cgroup 'hca_handle: limit of 4, in use 4'
	mends cgroup --root="$PWD/root"
	# above
	echo 'mlx5_0 hca_object=7' >root/sys/fs/cgroup/rdma.max
	look
	judged warning cgroup 'hca_object: limit of 7'
	# the hierarchy of version 1
	rm root/sys/fs/cgroup/rdma.max
	echo '4:rdma:/old' >>root/proc/self/cgroup
	mkdir -p root/sys/fs/cgroup/rdma/old
	echo 'mlx5_0 hca_handle=0' >root/sys/fs/cgroup/rdma/old/rdma.max
	look
	judged wrong cgroup 'hca_handle: limit of 0.*/rdma/old'
	mends cgroup --root="$PWD/root"
}

doctor_hugepages()
{
	healthy
	sed -i 's/\(Free: *\)16/\10/' root/proc/meminfo
	look
	judged warning hugepages 'all 16 are in use'
	advises hugepages '^sysctl vm.nr_hugepages=32$'
	sed -i 's/\(Free: *\)0/\116/' root/proc/meminfo
	look
	mended hugepages
}

doctor_iommu()
{
	healthy
	echo DMA-FQ >root/sys/class/infiniband/mlx5_0/device/iommu_group/type
	look
	judged warning iommu 'mlx5_0: the IOMMU translates.*DMA-FQ'
	advises iommu 'iommu=pt'
}

doctor_yama()
{
	healthy
	echo 1 >root/proc/sys/kernel/yama/ptrace_scope
	look
	judged warning yama 'ptrace_scope is 1'
	mends yama --root="$PWD/root"
	echo 3 >root/proc/sys/kernel/yama/ptrace_scope
	look
	judged warning yama 'ptrace_scope is 3'
	advises yama 'reboot'
}

# ---- situations of devices and ports ------------------------------------

doctor_port_disabled()
{
	healthy
	port 1 '1: DOWN' '3: Disabled' Ethernet
	look
	judged wrong ports 'mlx5_0 port 1: DOWN: the port is disabled'
	advises ports '^ip link set dev eth0 up$'
	port 1 '4: ACTIVE' '5: LinkUp' Ethernet
	look
	mended ports
}

# A second port without a cable is no more than a warning.
doctor_second_port()
{
	healthy
	port 2 '1: DOWN' '2: Polling' Ethernet
	look
	judged warning ports 'mlx5_0 port 2: DOWN: no link'
	[ $status -eq 1 ]
}

doctor_infiniband()
{
	healthy
	for state in '2: INIT' '3: ARMED'
	do
		port 1 "$state" '5: LinkUp' InfiniBand
		look
		judged wrong ports "port 1: ${state#*: }: "
		advises ports 'systemctl start opensm'
	done
	port 1 '1: DOWN' '2: Polling' InfiniBand
	look
	judged wrong ports 'port 1: DOWN: no link'
	advises ports 'check the cable.*iblinkinfo'
}

doctor_counters()
{
	healthy
	echo 17 >root/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error
	look
	judged warning counters 'mlx5_0 port 1: symbol_error is 17'
	advises counters 'cable, then clear with: perfquery -R'
	port 1 '4: ACTIVE' '5: LinkUp' Ethernet
	look
	mended counters
	echo 3 >root/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence
	look
	judged warning counters 'out_of_sequence is 3'
	advises counters 'PFC or ECN'
}

doctor_no_address()
{
	healthy
	rm root/sys/class/infiniband/mlx5_0/ports/1/gids/1
	look
	judged wrong gids 'mlx5_0 port 1: no GID of an IP address'
	advises gids '^ip addr add ADDRESS/LENGTH dev eth0$'
	gid 1 0000:0000:0000:0000:0000:ffff:c000:0201 'RoCE v2'
	look
	mended gids
}

doctor_roce_v1()
{
	healthy
	gid 0 fe80:0000:0000:0000:0202:c9ff:fe00:0001 'IB/RoCE v1'
	gid 1 0000:0000:0000:0000:0000:ffff:c000:0201 'IB/RoCE v1'
	look
	judged warning roce 'mlx5_0 port 1: RoCE v1 only'
	advises roce 'enable RoCE v2'
	gid 1 0000:0000:0000:0000:0000:ffff:c000:0201 'RoCE v2'
	look
	mended roce
	mode=root/sys/kernel/config/rdma_cm/mlx5_0/ports/1
	mkdir -p $mode
	echo 'IB/RoCE v1' >$mode/default_roce_mode
	look
	judged warning roce 'connections use RoCE v1'
	mends roce --root="$PWD/root"
}

# The only GID of iWARP is no address, and there is no version of RoCE.
doctor_iwarp()
{
	healthy
	echo '4: RNIC' >root/sys/class/infiniband/mlx5_0/node_type
	rm root/sys/class/infiniband/mlx5_0/ports/1/gids/*
	gid 0 0202:c900:0001:0000:0000:0000:0000:0000 ''
	look
	[ $status -eq 0 ]
	judged ok gids 'no active RoCE port'
	judged ok roce 'no RoCE port'
}

doctor_mtu()
{
	healthy
	echo 500 >root/sys/class/net/eth0/mtu
	look
	judged warning mtu 'eth0 has an MTU of 500'
	advises mtu '^ip link set dev eth0 mtu 4200$'
	echo 1500 >root/sys/class/net/eth0/mtu
	look
	mended mtu
}

doctor_pkeys()
{
	healthy
	port 1 '4: ACTIVE' '5: LinkUp' InfiniBand
	look
	mended pkeys
	echo 0x7fff >root/sys/class/infiniband/mlx5_0/ports/1/pkeys/0
	look
	judged warning pkeys 'limited membership only'
	advises pkeys 'partitions.conf'
	echo 0x0000 >root/sys/class/infiniband/mlx5_0/ports/1/pkeys/0
	look
	judged wrong pkeys 'no P_Key'
}

doctor_firmware()
{
	healthy
	rdma_device mlx5_1 16.31.1014
	port 1 '4: ACTIVE' '5: LinkUp' InfiniBand
	look
	judged warning firmware 'mlx5_1: 16.31.1014, but mlx5_0 .* has 16.35.2000'
	advises firmware '^devlink dev flash pci/.*/mlx5_1/device)) file'
	rdma_device mlx5_1 16.35.2000
	look
	mended firmware
}

doctor_libraries()
{
	healthy
	maps /opt/ofed/lib/libibverbs.so.1.8 /usr/lib/librdmacm.so.1.3
	look
	judged warning libraries 'not of one installation'
	advises libraries 'unset LD_LIBRARY_PATH'
}

# ---- situations of a process --------------------------------------------

# limited LETTER VALUE CHECK PATTERN: the shell's remedy is run in this shell.
limited()
{
	(
		# shellcheck disable=SC3045 # dash and bash have these
		ulimit -S -"$1" "$2"
		diagnose
		judged '(warning|wrong)' "$3" "$4"
		advises "$3" "^ulimit -S -$1 "
		remedy "$3" >advice
		# shellcheck disable=SC1091 # made above
		. ./advice
		diagnose
		mended "$3"
	)
}

doctor_few_files()
{
	limited n 40 files '40: a process with endpoints needs 64'
	limited n 500 files '500: '
	# not enough for a device, nor for a shell's own files
	status=0
	sh -c 'ulimit -S -n 8; exec "$0"' "$doctor" >said 2>&1 || status=$?
	judged wrong devices 'no descriptors left'
	advises files '^ulimit -S -n '
	status=0
	sh -c "ulimit -S -n 8; $(remedy files); exec '$doctor'" >said 2>&1 ||
		status=$?
	mended files
	not judged wrong devices .
}

doctor_address_space()
{
	limited v 2000000 space '1953 MB: '
}

# may_raise: root without CAP_SYS_RESOURCE may not
may_raise()
{
	# shellcheck disable=SC2016 # of the inner shell
	sh -c 'prlimit --pid $$ --memlock=unlimited:unlimited'
}

# raised_memlock: the remedy of root, for the subshell that calls
raised_memlock()
{
	# $$ is not the subshell
	# shellcheck disable=SC2016
	self=$(exec sh -c 'echo $PPID')
	remedy memlock | sed "s/[$][$]/$self/" >advice
	sh -e ./advice
	diagnose_as_user
	mended memlock
}

# Root runs a remedy that takes root, for the shell of the user.
doctor_memlock()
{
	chmod a+rx "$work" .
	(
		# shellcheck disable=SC3045 # dash and bash have these
		ulimit -l 64
		diagnose_as_user
		judged '(warning|wrong)' memlock '64 KB: one endpoint needs'
		advises memlock '^prlimit --pid \$\$ --memlock='
		may_raise || exit 0
		raised_memlock
	)
	# the soft limit only
	(
		may_raise || exit 0
		# shellcheck disable=SC3045
		ulimit -l unlimited
		# shellcheck disable=SC3045
		ulimit -S -l 64
		diagnose_as_user
		advises memlock '^ulimit -S -l unlimited$'
		remedy memlock >advice
		# shellcheck disable=SC1091
		. ./advice
		diagnose_as_user
		mended memlock
	)
	# with a device of the kernel nothing works
	healthy
	sed -i 's/\(locked memory *\)unlimited   unlimited/\165536 65536/' \
		root/proc/self/limits
	look
	judged wrong memlock '64 KB'
	# CAP_IPC_LOCK
	printf 'CapEff:\t0000000000004000\n' >root/proc/self/status
	look
	mended memlock
}

doctor_processes()
{
	healthy
	sed -i 's/\(processes *\)96365 /\14 /' root/proc/self/limits
	look
	judged warning processes '4: '
	advises processes '^ulimit -S -u 96365$'
}

# vain NAME=VALUE VERDICT PATTERN
vain()
{
	(
		export "${1?}"
		diagnose
		judged "$2" environment "$3"
		advises environment "^unset ${1%%=*}$"
		remedy environment >advice
		# shellcheck disable=SC1091
		. ./advice
		diagnose
		not grep -E "^(warning|wrong) +environment ${1%%=*}:" said
	)
}

doctor_environment()
{
	unset RDMAMSG_DEVICE
	vain RDMAMSG_LOGG=debug warning 'do you mean RDMAMSG_LOG$'
	vain RDMAMSG_SOFT_PORTZ=2 warning 'do you mean RDMAMSG_SOFT_PORTS$'
	vain RDMAMSG_COLOUR=red warning 'RDMAMSG_COLOUR: nobody reads it$'
	vain RDMAMSG_LOG=loud warning "'loud' is not none, error"
	vain RDMAMSG_LOG=info,xml warning "'info,xml' is not none, error"
	vain RDMAMSG_SOFT_ATOMICS=no warning "'no' is not masked, big-endian"
	vain RDMAMSG_SOFT_PART=mlx5 warning "'mlx5' is not 1 to 65535"
	vain RDMAMSG_SOFT_PATIENCE=-1 warning "'-1' is not 0 to 600000"
	vain RDMAMSG_SOFT_LACKS=ports warning "'ports' is not windows, resizing"
	vain RDMAMSG_SOFT_LAYOUTS=no warning "'no' is not native or none"
	vain RDMAMSG_DEVICE=nosuch wrong "'nosuch': there is no such RDMA device"
	vain RDMAMSG_SOFT_NO_VM=1 warning 'copies large messages twice'
}

# The doctor knows the variables that the library knows.
doctor_variables()
{
	top=$(dirname "$samples")
	sed -n 's/.*{ "\(RDMAMSG_[A-Z_]*\)".*/\1/p' "$top/lib/base/env.c" |
		sort >theirs
	sed -n 's/.*{ "\(RDMAMSG_[A-Z_]*\)".*/\1/p' "$samples/doctor/process.c" |
		sort >ours
	[ -s theirs ]
	diff theirs ours
}

# ---- situations of the soft HCA -----------------------------------------

# Others on this fabric keep the state of its ports.
doctor_soft_fabric()
{
	RDMAMSG_SOFT_FABRIC=doctor-$$ RDMAMSG_DEVICE=soft
	export RDMAMSG_SOFT_FABRIC RDMAMSG_DEVICE
	PATH=$(dirname "$ctl"):$PATH
	export PATH
}

doctor_soft_value()
{
	for wrong in RDMAMSG_SOFT_LINK=ring RDMAMSG_SOFT_PORTS=99 \
		RDMAMSG_SOFT_FABRIC=a/b
	do
		(
			export "${wrong?}"
			diagnose
			judged wrong devices 'soft0: cannot be opened'
			judged warning environment "${wrong%%=*}: '"
			remedy devices >advice
			# shellcheck disable=SC1091
			. ./advice
			diagnose
			not judged wrong devices .
		)
	done
}

doctor_soft_port()
{
	doctor_soft_fabric
	start "$perf" server -a 127.0.0.1 -d soft -p 0
	for state in down armed
	do
		returns 0 "$ctl" -a port 2 $state
		diagnose
		judged warning ports 'soft0 port 2: '
		advises ports '^rdmamsg-soft-ctl port 2 up$'
		mends ports
	done
	returns 0 "$ctl" -a port all down
	diagnose
	judged wrong ports 'soft0 port 1: DOWN'
	remedy ports | sh -e
	diagnose
	judged warning ports 'soft0 port 2: DOWN'
	mends ports
	end_server TERM 0
}

# A table of GIDs that cannot be read
doctor_soft_tables()
{
	doctor_soft_fabric
	for RDMAMSG_SOFT_LINK in ethernet ib iwarp
	do
		export RDMAMSG_SOFT_LINK
		start "$perf" server -a 127.0.0.1 -d soft -p 0
		returns 0 "$ctl" -a set gid-error 2 5
		diagnose
		judged wrong gids 'port 2: entry 0 of the GID table of soft0'
		advises gids '^rdmamsg-soft-ctl set gid-error 2 default$'
		not judged wrong gids 'soft0 port 1'
		mends gids
		end_server TERM 0
	done
}

# P_Keys are for InfiniBand.
doctor_soft_pkeys()
{
	doctor_soft_fabric
	RDMAMSG_SOFT_LINK=ib
	export RDMAMSG_SOFT_LINK
	start "$perf" server -a 127.0.0.1 -d soft -p 0
	diagnose
	mended pkeys
	returns 0 "$ctl" -a set pkey-error 1 5
	diagnose
	judged wrong pkeys 'port 1: entry 0 of the P_Key table of soft0 port 1: '
	advises pkeys '^rdmamsg-soft-ctl set pkey-error 1 default$'
	mends pkeys
	returns 0 "$ctl" -a set pkey 2 0x7fff
	diagnose
	judged warning pkeys 'soft0 port 2: limited membership only'
	advises pkeys '^rdmamsg-soft-ctl set pkey 2 default$'
	mends pkeys
	# no partition has the number 0
	returns 0 "$ctl" -a set pkey 1 0x8000
	diagnose
	judged wrong pkeys 'soft0 port 1: no P_Key: nobody can connect'
	mends pkeys
	end_server TERM 0
}

doctor_soft_iwarp()
{
	doctor_soft_fabric
	RDMAMSG_SOFT_LINK=iwarp
	export RDMAMSG_SOFT_LINK
	diagnose
	judged ok devices 'soft0: soft, opens'
	judged ok gids 'no active RoCE port'
	judged ok roce 'no RoCE port'
}

# GIDs of InfiniBand and iWARP do not tell which port an address has.
doctor_soft_peer()
{
	doctor_soft_fabric
	for RDMAMSG_SOFT_LINK in ib iwarp
	do
		export RDMAMSG_SOFT_LINK
		start "$doctor" --serve -a 127.0.0.1 -p 0
		diagnose "127.0.0.1:$port"
		step route ok 'device soft0'
		step compare ok .
		# the soft HCA without being asked for it
		(
			unset RDMAMSG_DEVICE
			diagnose "127.0.0.1:$port"
			step compare ok .
		)
		returns 0 "$ctl" -a port all down
		diagnose "127.0.0.1:$port"
		step route wrong 'port 1 of soft0 is not active'
		end_server TERM 0
	done
}

# No warning is about what only devices of the kernel need.
doctor_soft_asked()
{
	doctor_soft_fabric
	diagnose
	mended modules
	mended devices
	mended links
	unset RDMAMSG_DEVICE
	diagnose
	[ -e /sys/class/infiniband ] || judged warning devices 'of the kernel'
}

can_connect()
{
	diagnose "127.0.0.1:$port"
	step connect ok .
}

doctor_device_returns()
{
	device_returns "$doctor" --serve -a 127.0.0.1 -p 0
	await can_connect
	end_server TERM 0
}

# Between a host and itself there is no firewall.
doctor_soft_stopped()
{
	doctor_soft_fabric
	start "$doctor" --serve -a 127.0.0.1 -p 0
	kill -STOP "$server"
	diagnose "127.0.0.1:$port"
	kill -CONT "$server"
	step connect wrong .
	advises connect '^on this host: rdmamsg-doctor --serve'
	not grep 4791 said
	end_server TERM 0
}

# Two link layers in one fabric
doctor_soft_unlike()
{
	doctor_soft_fabric
	RDMAMSG_SOFT_LINK=ib start "$doctor" --serve -a 127.0.0.1 -p 0
	for RDMAMSG_SOFT_LINK in ethernet iwarp
	do
		export RDMAMSG_SOFT_LINK
		diagnose "127.0.0.1:$port"
		step connect wrong "is $RDMAMSG_SOFT_LINK here and ib there"
		advises connect 'unset RDMAMSG_SOFT_LINK; there: unset'
	done
	end_server TERM 0
}

# From here nobody listens on the port, for the server is in another fabric.
doctor_soft_apart()
{
	doctor_soft_fabric
	RDMAMSG_SOFT_FABRIC=apart-$$ start "$doctor" --serve -a 127.0.0.1 -p 0
	diagnose "127.0.0.1:$port"
	step connect wrong 'another user, network namespace or RDMAMSG_SOFT_FABRIC'
	end_server TERM 0
}

# A program that keeps the removed device open keeps the fabric.
doctor_soft_removed()
{
	doctor_soft_fabric
	"$soft" ibv_rc_pingpong -p 0 >server 2>&1 &
	server=$!
	await "$ctl" list
	diagnose
	judged ok devices 'soft0: soft, opens'
	returns 0 "$ctl" -a remove
	diagnose
	judged wrong devices 'soft0: cannot be opened'
	remedy devices | sh -e
	diagnose
	judged ok devices 'soft0: soft, opens'
	end_server TERM 143
}

# Under rdmamsg-soft the soft HCA is in /sys. It needs no module of the kernel and
# no node.
doctor_soft_preloaded()
{
	doctor_soft_fabric
	status=0
	timeout 600 "$soft" "$doctor" >said 2>&1 || status=$?
	cat said
	judged ok devices 'soft0: soft, opens'
	judged ok counters .
	not judged wrong '(modules|container|nodes|provider)' .
}

# ---- the way to a peer --------------------------------------------------

# step NAME VERDICT PATTERN
step()
{
	judged "$2" "$1" "$3"
	[ "$2" = ok ] || grep -q "^the first step that fails is '$1'" said
}

# measured NAME WHOLE PART: all rounds are ok, and fewer are a warning, on a machine
# that is as slow as that.
measured()
{
	if grep -q -E "^ok +$1[ :]" said
	then step "$1" ok "$2"
	else judged warning "$1" "$3"
	fi
}

measured_all()
{
	measured latency ' us, median of 101$' ' us, median of [0-9]{1,2}$'
	measured bandwidth ': 8 messages of 1024 KB' ': [1-7] messages of 1024 KB'
}

# On the device of $addr.
doctor_peer()
{
	start "$doctor" --serve -a "$addr" -p 0
	diagnose "${RDMAMSG_VM_HOST-$addr}:$port"
	for one in resolve route connect report compare
	do
		step $one ok .
	done
	not grep 'the first step that fails' said
	measured_all
	step compare ok 'both have librdmamsg [0-9.]*, MTU [0-9]'
	end_server TERM 0
	diagnose "$addr:$port"
	step connect wrong .
	advises connect "^there: rdmamsg-doctor --serve -p $port$"
	not grep -E '^[a-z]+ +(report|latency|compare)' said
}

# The peer's own findings are told.
doctor_peer_findings()
{
	RDMAMSG_TYPO=1 start "$doctor" --serve -a "$addr" -p 0
	diagnose "$addr:$port"
	judged warning peer 'environment RDMAMSG_TYPO: nobody reads it'
	grep -q '^ *there: unset RDMAMSG_TYPO$' said
	end_server TERM 0
}

# reported FIELD...: the report of a peer, with these fields of its line 'used'
reported()
{
	printf 'rdmamsg-doctor\t9\nlibrary\t%s\n' "$version" >report
	(IFS=$(printf '\t')
	printf 'used\t%s\n' "$*") >>report
	printf 'news\tfrom\ta later version\n' >>report
}

# compared: the first step that fails is none, but 'compare' tells differences.
compared()
{
	start "$bin/doctor-other" "$addr" report
	diagnose "$addr:$port"
	of_doctor=$status
	end_server TERM 0
	status=$of_doctor
	not grep 'the first step that fails' said
	step report ok 'from mlx5_7 port 2$'
	measured_all
}

# A peer with other settings
doctor_peer_compare()
{
	start "$doctor" --serve -a "$addr" -p 0
	diagnose "$addr:$port"
	end_server TERM 0
	step compare ok .
	mtu=$(sed -n 's/^ok *compare .* MTU \([0-9]*\),.*/\1/p' said)
	version=$(sed -n 's/.*both have librdmamsg \([^,]*\),.*/\1/p' said)
	reported mlx5_7 2 roce Ethernet "$mtu" 2 eth7 '' 0.1
	compared
	step compare ok .
	# smaller there, and larger there
	reported mlx5_7 2 roce Ethernet 256 2 eth7 '' 0.1
	compared
	judged warning compare "MTU of $mtu here, of 256 there"
	advises compare "^there: ip link set dev eth7 mtu $((mtu + 104))$"
	reported mlx5_7 2 roce Ethernet 8192 2 eth7 '' 0.1
	compared
	judged warning compare "MTU of $mtu here, of 8192 there"
	advises compare 'ip link set dev .* mtu 8296$\|the same MTU on both sides'
	reported mlx5_7 2 roce Ethernet "$mtu" 1 eth7 '' 0.1
	compared
	judged warning compare 'RoCE v2 here, v1 there'
	advises compare "^there: cd /sys/kernel/config/rdma_cm && mkdir -p mlx5_7\
 && echo 'RoCE v2' >mlx5_7/ports/2/default_roce_mode$"
	# iWARP and InfiniBand have no version of RoCE
	reported mlx5_7 2 roce Ethernet "$mtu" 0 eth7 '' 0.1
	compared
	step compare ok .
	# a peer's text is not made a command
	reported mlx5_7 2 roce Ethernet 256 2 '$(halt)' '' 0.1
	compared
	advises compare '^set the same MTU on both sides$'
	reported mlx5_7 2 infiniband InfiniBand 1024 2 '' '' 0.1
	compared
	[ "$mtu" -le 1024 ] || advises compare 'partitions.conf: mtu=[345]$'
	was=$version version=9.9.9
	reported mlx5_7 2 roce Ethernet "$mtu" 2 eth7 '' 0.1
	compared
	judged warning compare "librdmamsg $was here, 9.9.9 there"
	advises compare 'the same version on both sides'
	# Soft-RoCE has no board
	[ "${RDMAMSG_DEVICE-}" = soft ] || return 0
	version=$was
	reported mlx5_7 2 roce Ethernet "$mtu" 2 eth7 'soft HCA' 0.1
	compared
	judged warning compare 'firmware .* here, 0.1 there'
	advises compare '^there: devlink dev flash pci/.*/mlx5_7/device)) file'
	reported mlx5_7 2 roce Ethernet "$mtu" 2 eth7 'soft HCA' 999.1
	compared
	advises compare '^devlink dev flash pci/.*/soft0/device)) file'
}

# not_a_report: the peer answers with the file 'report'.
not_a_report()
{
	start "$bin/doctor-other" "$addr" report
	diagnose "$addr:$port"
	step report wrong 'is not rdmamsg-doctor'
	advises report '^there: rdmamsg-doctor --serve'
	end_server TERM 0
}

# A peer whose report is no report
doctor_peer_nonsense()
{
	head -c 5000 /dev/urandom >report
	not_a_report
	: >report
	not_a_report
	# of another program, and without the line 'used'
	version=1.0
	reported mlx5_7 2 roce Ethernet 4096 2 eth7 '' 0.1
	sed -i '1s/rdmamsg-doctor/rdmamsg-surgeon/' report
	not_a_report
	reported mlx5_7 2
	not_a_report
}

# padded BYTES: makes the report so long, with lines that nobody knows.
padded()
{
	yes 'news	of no use to an older doctor' |
		head -c $(($1 - $(wc -c <report))) >>report
}

# A report that is longer than any can be. The memory for the peer's messages
# has a bound: a peer with this library cannot send more than 64 KB.
doctor_peer_too_long()
{
	version=1.0
	reported mlx5_7 2 roce Ethernet 4096 2 eth7 '' 0.1
	padded 60000
	start "$bin/doctor-other" "$addr" report
	diagnose "$addr:$port"
	end_server TERM 0
	step report ok 'from mlx5_7 port 2$'
	padded 60001
	not_a_report
	expects said 'report .*a report of 60001 bytes, where 60000 are the most'
	padded 1000000
	start "$bin/doctor-other" "$addr" report
	diagnose "$addr:$port"
	step report wrong 'no report of at most 60000 bytes: '
	advises report '^there: rdmamsg-doctor --serve'
	expects "$work/server" 'takes at most 65536'
	end_server TERM 0
}

# A peer that answers as late as it can: each measurement ends after two seconds
# with what it has. 101 answers would take 70 s. One that does not answer at all
# is waited for once.
doctor_peer_late()
{
	version=1.0
	reported mlx5_7 2 roce Ethernet 4096 2 eth7 '' 0.1
	start "$bin/doctor-other" "$addr" report 700
	diagnose "$addr:$port"
	judged warning latency ' us, median of [1-9]$'
	judged warning bandwidth '[1-7] messages of 1024 KB'
	advises latency '^there: top'
	not grep 'the first step that fails' said
	end_server TERM 0
	start "$bin/doctor-other" "$addr" report -1
	diagnose "$addr:$port"
	step latency wrong .
	advises latency '^there: rdmamsg-doctor --serve'
	end_server TERM 0
}

# Programs that are no doctor: one that answers otherwise, and one that ends
# connections which it does not understand.
doctor_peer_other()
{
	start "$perf" server -a "$addr" -p 0
	diagnose "$addr:$port"
	judged wrong '(connect|report)' .
	advises '(connect|report)' 'rdmamsg-doctor --serve'
	end_server TERM 0
}

doctor_peer_unknown()
{
	diagnose no-such-host.invalid
	step resolve wrong .
	advises resolve 'getent hosts no-such-host.invalid'
	diagnose "$addr:no-such-service"
	step resolve wrong .
}

# An address that no RDMA device reaches
doctor_peer_no_device()
{
	RDMAMSG_DEVICE=soft RDMAMSG_SOFT_NET=0
	export RDMAMSG_DEVICE RDMAMSG_SOFT_NET
	diagnose 203.0.113.9
	step route wrong 'which has no RDMA device; RDMAMSG_DEVICE is soft$|no route'
	advises route '^unset RDMAMSG_DEVICE; rdma link add rxe_\|ip route add'
}

# The soft HCA has every address of this host, if RDMAMSG_DEVICE allows it.
doctor_peer_own_address()
{
	doctor_soft_fabric
	unset RDMAMSG_DEVICE
	own=$(ip -o -4 addr show scope global | awk '{ sub(/\/.*/, "", $4)
		print $4; exit }')
	start "$doctor" --serve -p 0
	for RDMAMSG_DEVICE in '' hw
	do
		export RDMAMSG_DEVICE
		diagnose "127.0.0.1:$port"
		if [ -z "$RDMAMSG_DEVICE" ]
		then
			step route ok 'through lo from 127.0.0.1, device soft0'
			step compare ok .
		else
			step route wrong 'RDMAMSG_DEVICE=hw excludes the soft HCA'
			advises route '^unset RDMAMSG_DEVICE$'
			follow route "127.0.0.1:$port"
		fi
		[ -n "$own" ] && [ ! -e /sys/class/infiniband ] || continue
		diagnose "$own:$port"
		if [ -z "$RDMAMSG_DEVICE" ]
		then
			step route ok 'device soft0'
			step compare ok .
		else
			step route wrong 'RDMAMSG_DEVICE=hw excludes the soft HCA'
			advises route '^unset RDMAMSG_DEVICE$'
			follow route "$own:$port"
		fi
	done
	end_server TERM 0
}

# follow STEP TARGET: the remedy of the step sets a variable, and all turns well.
follow()
{
	(
		remedy "$1" >advice
		# shellcheck disable=SC1091
		. ./advice
		diagnose "$2"
		step "$1" ok 'device soft0'
		step compare ok .
	)
}

# Under rdmamsg-soft the soft HCA is what RDMAMSG_DEVICE=hw means.
doctor_peer_preloaded()
{
	doctor_soft_fabric
	RDMAMSG_DEVICE=hw
	start "$soft" "$doctor" --serve -a 127.0.0.1 -p 0
	own_doctor=$doctor doctor=$soft
	diagnose "$own_doctor" "127.0.0.1:$port"
	not judged wrong environment RDMAMSG_DEVICE
	step route ok 'device soft0'
	step compare ok .
	returns 0 "$ctl" -a port 1 down
	diagnose "$own_doctor" "127.0.0.1:$port"
	step route wrong 'port 1 of soft0 is not active'
	advises route '^rdmamsg-soft-ctl port 1 up$'
	doctor=$own_doctor
	end_server TERM 0
}

doctor_peer_port_down()
{
	doctor_soft_fabric
	start "$doctor" --serve -a 127.0.0.1 -p 0
	peer=$port
	returns 0 "$ctl" -a port all down
	diagnose "127.0.0.1:$peer"
	step route wrong 'port 1 of soft0 is not active'
	remedy route | sh -e
	returns 0 "$ctl" port all up
	diagnose "127.0.0.1:$peer"
	step compare ok .
	# a connection uses the first port
	returns 0 "$ctl" -a port 2 down
	diagnose "127.0.0.1:$peer"
	step compare ok .
	unset RDMAMSG_DEVICE
	returns 0 "$ctl" -a port 1 down
	diagnose "127.0.0.1:$peer"
	step route wrong 'port 1 of soft0 is not active'
	remedy route | sh -e
	diagnose "127.0.0.1:$peer"
	step compare ok .
	end_server TERM 0
}

# ---- Soft-RoCE, in the virtual machine ----------------------------------

# The container around the machine is no container of the machine.
no_container()
{
	rm -f /.dockerenv
}

doctor_rxe_host()
{
	no_container
	diagnose
	mended modules
	mended ports
	mended gids
	mended mtu
	mended nodes
	judged ok links 'veth0: has an RDMA device'
	judged ok devices 'rxe0: soft-roce, opens'
}

doctor_rxe_link_down()
{
	no_container
	ip link set veth0 down
	await grep -q DOWN /sys/class/infiniband/rxe0/ports/1/state
	diagnose "$addr"
	judged wrong ports 'rxe0 port 1: DOWN'
	advises ports '^ip link set dev veth0 up$'
	step route wrong .
	remedy ports | sh -e
	await grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state
	ip route replace 224.0.0.0/4 dev veth0 metric 10
	diagnose
	mended ports
	judged warning counters 'rxe0 port 1: link_downed is [1-9]'
	advises counters 'ip monitor link'
}

# rxe_has PATTERN: a GID
rxe_has()
{
	grep -q "$1" /sys/class/infiniband/rxe0/ports/1/gids/*
}

doctor_rxe_no_address()
{
	no_container
	ip addr del 10.9.0.1/24 dev veth0
	ip addr del fd00:9::1/64 dev veth0
	await not rxe_has 'ffff:0a09:0001'
	await not rxe_has '^fd00'
	diagnose
	judged wrong gids 'rxe0 port 1: no GID of an IP address'
	remedy gids | sed 's,ADDRESS/LENGTH,10.9.0.1/24,' >advice
	sh -e ./advice
	ip addr add fd00:9::1/64 dev veth0 nodad
	ip route replace 224.0.0.0/4 dev veth0 metric 10
	await rxe_has 'ffff:0a09:0001'
	await rxe_has '^fd00'
	diagnose
	mended gids
}

# Beside a device that does not lead there, the soft HCA does: not where Soft-RoCE
# has its port.
doctor_rxe_elsewhere()
{
	no_container
	ip link add doctor0 type veth peer name doctor1
	trap 'status=$?; ip link del doctor0; exit $status' EXIT
	ip addr add 10.9.8.1/24 dev doctor0
	ip link set doctor0 up
	ip link set doctor1 up
	diagnose 10.9.8.2
	step route wrong 'through doctor0, which has no RDMA device'
	advises route '^rdma link add rxe_doctor0 type rxe netdev doctor0'
}

doctor_rxe_mtu()
{
	no_container
	ip link set veth0 mtu 600
	diagnose
	judged warning mtu 'rxe0 port 1: path MTU of 512.*veth0 has an MTU of 600'
	mends mtu
	# the kernel removes IPv6 addresses below 1280 bytes
	ip addr replace fd00:9::1/64 dev veth0 nodad
	await rxe_has '^fd00'
}

doctor_rxe_modules()
{
	no_container
	# a device that some program has closed just now is still in use
	await rmmod rdma_ucm
	diagnose
	judged wrong modules 'rdma_ucm: not loaded'
	advises modules '^modprobe rdma_ucm$'
	mends modules
	await test -e /dev/infiniband/rdma_cm
}

doctor_rxe_no_link()
{
	no_container
	rdma link del rxe0
	diagnose
	judged warning devices 'no RDMA device of the kernel'
	judged warning links 'veth0: has no RDMA device'
	remedy devices | sed 's/.*or: //' >advice
	grep -q 'rdma link add rxe0 type rxe netdev' advice
	remedy links | sed 's/rxe_veth0/rxe0/' | sh -e
	await test -e /dev/infiniband/uverbs0
	diagnose
	judged ok links 'veth0: has an RDMA device'
	judged ok devices 'rxe0: soft-roce, opens'
	await rxe_has 'ffff:0a09:0001'
}

doctor_rxe_cgroup()
{
	no_container
	mkdir -p cgroup
	mount -t cgroup2 none cgroup
	trap 'status=$?; echo $$ >cgroup/cgroup.procs || :
		rmdir cgroup/doctor; umount cgroup /sys/fs/cgroup; exit $status' EXIT
	mount --bind cgroup /sys/fs/cgroup
	echo +rdma >/sys/fs/cgroup/cgroup.subtree_control
	mkdir /sys/fs/cgroup/doctor
	echo 'rxe0 hca_handle=0' >/sys/fs/cgroup/doctor/rdma.max
	# the shell of this subshell is not $$
	sh -c 'echo $$ >/sys/fs/cgroup/doctor/cgroup.procs
		exec timeout 600 "$0"' "$doctor" >said 2>complaints || status=$?
	cat said complaints
	judged wrong cgroup 'rxe0: hca_handle: limit of 0, in use 0'
	judged wrong devices 'rxe0: cannot be opened'
	remedy cgroup | sh -e
	status=0
	sh -c 'echo $$ >/sys/fs/cgroup/doctor/cgroup.procs
		exec timeout 600 "$0"' "$doctor" >said 2>complaints || status=$?
	cat said complaints
	mended cgroup
	mended devices
}

doctor_rxe_permission()
{
	no_container
	chmod 600 /dev/infiniband/uverbs0
	diagnose_as_user
	judged wrong nodes 'uverbs0: no permission'
	judged wrong devices 'rxe0: cannot be opened'
	remedy nodes | sh -e
	chmod a+rw /dev/infiniband/rdma_cm
	diagnose_as_user
	mended nodes
	(
		# shellcheck disable=SC3045
		ulimit -l 64
		diagnose_as_user
		judged wrong memlock '64 KB'
		raised_memlock
	)
}

# in_namespace LETTER COMMANDS: with what is there in sh, where the remedy can
# be run as well
in_namespace()
{
	letter=$1
	shift
	unshare "-$letter" sh -c "$1; timeout 600 '$doctor' >said 2>complaints"
}

# A container without the nodes.
doctor_rxe_container()
{
	no_container
	status=0
	in_namespace m 'mount -t tmpfs none /dev/infiniband' || status=$?
	cat said
	judged wrong nodes 'uverbs0: there is no such node'
	remedy nodes | grep '^mkdir -p /dev/infiniband' >advice
	status=0
	in_namespace m 'mount -t tmpfs none /dev/infiniband
		sh -e ./advice' || status=$?
	cat said
	judged ok nodes '/dev/infiniband/uverbs0'
	: >/.dockerenv
	status=0
	in_namespace m 'mount -t tmpfs none /dev/infiniband' || status=$?
	rm /.dockerenv
	cat said
	judged wrong container 'has no /dev/infiniband'
	advises container 'docker run --device=/dev/infiniband'
}

doctor_rxe_provider()
{
	no_container
	status=0
	in_namespace m 'mount -t tmpfs none /etc/libibverbs.d' || status=$?
	cat said
	judged wrong provider 'rxe0: libibverbs has no driver'
	advises provider 'apt-get install ibverbs-providers'
	diagnose
	mended provider
}

doctor_rxe_netns()
{
	no_container
	status=0
	in_namespace n : || status=$?
	cat said
	judged warning netns 'mode shared'
	judged warning gids '10.9.0.1 is an address that no network device'
	advises gids '^ip addr show dev veth0$'
	await rdma system set netns exclusive
	trap 'status=$?; await rdma system set netns shared; exit $status' EXIT
	status=0
	in_namespace n : || status=$?
	cat said
	judged wrong netns 'mode exclusive, and no device'
	advises netns 'rdma dev set DEVICE netns NAME'
}

# ---- the program --------------------------------------------------------

# json FILE EXPRESSION: of the object d
json()
{
	python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))
assert eval(sys.argv[2]), d' "$1" "$2"
}

doctor_json()
{
	healthy
	returns 0 "$doctor" --json --root="$PWD/root"
	json said 'd["verdict"] == "ok" and d["failed_step"] == ""'
	json said 'd["version"] and len(d["findings"]) >= 25'
	json said 'all(set(f) == {"check", "what", "subject", "verdict",
		"text", "remedy"} and f["what"] for f in d["findings"])'
	# names that JSON and terminals do not like
	printf 'RDMAMSG_A"\\\0RDMAMSG_B\033\n\377=\001\0' >root/proc/self/environ
	returns 1 "$doctor" --json --root="$PWD/root"
	json said 'd["verdict"] == "warning"'
	json said 'any(f["subject"] == "RDMAMSG_A\"\\" for f in d["findings"])'
	returns 2 "$doctor" --json no-such-host.invalid
	sed -n '/^{/,$p' said >object
	json object 'd["target"] == "no-such-host.invalid"'
	json object 'd["failed_step"] == "resolve" and d["verdict"] == "wrong"'
}

doctor_mistakes()
{
	complains 2 "--root 'nosuch': No such file" "$doctor" --root nosuch
	: >file
	complains 2 "--root 'file': not a directory" "$doctor" --root file
	complains 2 "'a:': not HOST or HOST:PORT; see" "$doctor" a:
	complains 2 "'\[::1': not HOST or" "$doctor" '[::1'
	complains 2 "'b': there is one HOST; see" "$doctor" a b
	complains 2 "'a': --serve has no operand; see" "$doctor" --serve a
	complains 2 '--serve goes with -a and -p only' "$doctor" --serve --json
	complains 2 '-a and -p go with --serve; .* HOST:PORT' "$doctor" -p 1 a
	complains 2 'the way to a HOST is that of this' "$doctor" --root . a
	complains 2 "'no-such-service'" "$doctor" --serve -p no-such-service
}

# An image of nothing, and one of nonsense: no crash, no endless loop.
doctor_nonsense()
{
	mkdir root
	look
	judged warning devices .
	healthy
	find root -type f -exec sh -c 'head -c 3000 /dev/urandom >"$1"' - {} \;
	look
	find root -type f -exec sh -c 'printf "%s" ":::: = /" >"$1"' - {} \;
	look
}

doctor_cases='healthy no_module no_such_module no_device container netns cgroup
	hugepages iommu yama port_disabled second_port infiniband counters
	no_address roce_v1 iwarp mtu pkeys firmware libraries processes nonsense
	mistakes variables'
# in the environment as it is
doctor_live_cases='few_files address_space environment soft_value soft_port
	soft_tables soft_pkeys soft_iwarp soft_peer soft_asked soft_unlike soft_apart
	soft_stopped soft_preloaded peer_no_device peer_port_down peer_own_address peer_preloaded
	device_returns'
doctor_root_cases='no_node stale_node'
doctor_user_cases='permission memlock'
doctor_peer_cases='peer peer_findings peer_compare peer_nonsense peer_too_long
	peer_late peer_other peer_unknown'
doctor_rxe_cases='rxe_host rxe_link_down rxe_no_address rxe_elsewhere rxe_mtu rxe_modules rxe_no_link
	rxe_cgroup rxe_permission rxe_container rxe_provider rxe_netns'

# run_doctor CASE...
run_doctor()
{
	for one
	do
		run "doctor-$(echo "$one" | tr _ -)" "doctor_$one"
	done
}

# shellcheck disable=SC2086 # words
{
	run_doctor $doctor_peer_cases
	if command -v python3 >/dev/null
	then run_doctor json
	else echo "skip doctor-json # there is no python3"
	fi
	run_doctor $doctor_cases
	if [ "$(id -u)" -eq 0 ]
	then run_doctor $doctor_root_cases $doctor_user_cases
	else echo "skip doctor-root # needs root, for mknod and another user"
	fi
}

# A soft HCA that is below libibverbs is not the soft HCA of the library.
case ${LD_PRELOAD-} in
*soft-preload*) ;;
*)
	# shellcheck disable=SC2086 # words
	run_doctor $doctor_live_cases
	if command -v ibv_rc_pingpong >/dev/null
	then run_doctor soft_removed
	else echo "skip doctor-soft-removed # there is no ibv_rc_pingpong"
	fi
	;;
esac
# shellcheck disable=SC2086 # words
[ ! -e /sys/class/infiniband/rxe0 ] || run_doctor $doctor_rxe_cases
