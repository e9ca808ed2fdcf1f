# shellcheck shell=sh
# SPDX-License-Identifier: BSD-2-Clause
#
# The steps of tests/run, which sources this file, and the programs that each
# runs. CONTRIBUTING has a table of what they show. A step whose name ends in
# -rest runs what the step before it leaves out; both together run everything.

# ---- lists ------------------------------------------------------------

# The longest first, and what they build before. Steps that wait most of the time
# are patient.
host_steps="tsan tsan-check distcheck check san-check quickstart installed
	device device-ib device-iwarp device-net device-programs soft-threads
	soft-crash soft-programs big python cxx
	san-check-rest tsan-check-rest distcheck-rest clang pages switches cross
	model soft-samples-rest quickstart-rest fresh python-rest
	cxx-rest rust"
patient_steps="soft-fault soft-asan soft-hostile soft-twohost soft-samples soft-ib
	soft-no-vm chaos soft-below soft-iwarp soft-disorder soft-net
	soft soft-net-rest soft-no-vm-rest soft-apps soft-hostile-iwarp soft-fault-iwarp
	oldnew chaos-asan"
# in one virtual machine after the other
machine_steps="device-rxe integration san-integration fault chaos-vm samples
	integration-rest san-integration-rest hostile fault-rest samples-rest
	soft-rxe"
# in another, which has siw
siw_steps="device-siw siw siw-rest"
# in machines of their own
machines_steps="twohost twohost-rest siw-twohost vm big-vm"

rest_steps="san-check-rest tsan-check-rest distcheck-rest clang pages switches cross
	model soft soft-net-rest soft-no-vm-rest soft-samples-rest quickstart-rest fresh soft-apps
	soft-hostile-iwarp soft-fault-iwarp
	oldnew chaos-asan python-rest cxx-rest rust
	integration-rest san-integration-rest hostile fault-rest samples-rest
	soft-rxe siw-rest twohost-rest siw-twohost vm big-vm"
named_steps="quick packages autogen"

# Steps that run programs of the build asan.
asan_steps="san-check san-check-rest device device-ib device-iwarp device-net
	soft-asan soft-crash soft-fault soft-fault-iwarp soft-hostile
	soft-hostile-iwarp san-integration san-integration-rest
	chaos-asan python-rest cxx-rest"
tsan_steps="tsan tsan-check soft-threads tsan-check-rest cxx-rest"

# without LIST LESS: prints the words of LIST that are not in LESS
without()
{
	for word in $1
	do
		case " $(echo $2) " in
		*" $word "*) ;;
		*)	echo "$word" ;;
		esac
	done | tr '\n' ' '
}

default_steps="packages autogen gcc asan $(without \
	"$host_steps $patient_steps $machine_steps $siw_steps $machines_steps" \
	"$rest_steps")"

# default_if_none NAMES: what the run does, for the names that it was given
default_if_none()
{
	case $1 in
	'')	echo "$default_steps" ;;
	all)	echo "$default_steps $rest_steps" ;;
	*)	echo "$1" ;;
	esac | tr -s '\n\t' '  '
}

# needs_no_build: succeeds if all wanted steps build by themselves or not at all
needs_no_build()
{
	[ -z "$(without "$wanted" "packages autogen quickstart vm clang cross \
		switches quickstart-rest fresh")" ]
}

# Integration tests that wait for time to pass, and that quick leaves out.
slow_programs='idle|exit|death|killed|dead|cycles|thousands|wait|credits|dc_lease'

# Programs whose results depend on the link layer.
link_programs='device errors connect setup accept close messages refs memory move
	listen_lanes listen_shared listen_threads events failover oob
	oob_records qp qp_xrc rma
	op_timeout op_timeout_lane atomics layout window features regcache timer
	srq pool pd guard group strangers auth ends burst shutdown successor
	word
	chain_native chain_carried team_native dc_native'

# Programs that rest on what completions tell.
order_programs='messages memory rma srq window connect close dead guard layout pd
	loop move cookies credits submit wait'

# Programs over packets between processes of this host, as if it were another:
# what a network can change. The rest asks for what packets do not carry as yet,
# for other fabrics, or for the end of a process at once.
net_programs='messages memory rma accept close'
net_programs_rest='errors arguments handles log stats ends fork connect setup
	request_key word refs crc credits burst loop submit timer
	adapters adapters_event wait move listen_lanes listen_threads events
	dead op_timeout op_timeout_lane window exit unload signals left
	shutdown successor regcache srq srq_options pool pd guard strangers
	auth chain chain_native chain_carried'

# Programs for the threads of the soft HCA and of the library.
thread_programs='loop submit wait move listen_shared listen_threads messages refs
	memory cookies'

# Unit tests of what threads share: those of the soft HCA, and these.
thread_units='base/submit cm/late cm/resolve device/slow group/answer'

# Programs whose results depend on the device, and those of the abilities that
# other devices have natively. All others, and those that mostly wait, find on
# Soft-RoCE only what they find on the soft HCA. The second list has what takes
# a machine long: many connections, or large messages through an emulated card.
guest_programs='device errors fork connect accept close messages events
	dead death failover qp qp_xrc rma chain'
guest_programs_rest='listen_lanes listen_shared listen_threads killed srq group memory oob
	atomics window features pd dc dc_onesided layout chain_native team'

# What iWARP does otherwise: connections, completions, order and ends. The machine
# takes half a minute for the first list, and four minutes for the second.
siw_programs='setup messages rma'
siw_programs_rest='device errors ends fork connect accept cookies close events move
	listen_lanes listen_shared listen_threads memory loop wait window layout regcache
	pool pd srq guard dead failover crc credits idle submit stats auth strangers cycles announce thousands
	death killed fast arguments handles log timer srq_options chain_native
	team_native team burst refs word op_timeout left exit signals team_connect
	adapters adapters_event chain request_key shutdown successor process
	unload'

# Samples that work over iWARP as over anything else
siw_samples='echo copy-files copy-client-killed copy-server-killed info-agrees
	layout allreduce kv rpc srq doctor-peer info-fields'

# Options, mistakes and the soft HCA's own tools need no kernel, and what the
# library does on Soft-RoCE the integration programs show.
guest_samples='echo rc-pingpong topic-mckey
	info-rxe topic-members doctor-peer doctor-rxe-link-down
	doctor-rxe-modules'
guest_samples_rest='info-fields info-agrees atomics dc layout allreduce conform-rxe
	multicast copy-files copy-client-killed copy-server-killed
	doctor-rxe-host doctor-rxe-no-address doctor-rxe-mtu
	doctor-rxe-no-link doctor-rxe-cgroup doctor-rxe-permission
	doctor-rxe-container doctor-rxe-provider doctor-rxe-netns
	topic-confirm topic-backlog topic-key topic-unicast'

# Cases of samples/kv beside the short ones
kv_samples='kv-log-anew kv-hostile kv-crowd kv-torn kv-counters kv-killed kv-client-killed kv-follow
	kv-load kv-log-full'

# Calls below the library that fail once on Soft-RoCE; all others fail on the
# soft HCA.
guest_faults='connect removed'
guest_faults_rest='exchange teardown qp-fatal rma srq-connect'

# Between machines: one way to lose a network of each kind. On the soft HCA all run,
# and chaos-vm kills peers on Soft-RoCE.
twohost_cases='both_networks one_way link_down_up
	cut_large_to_server failover_standby'

# iWARP between machines: a silent cut, which TCP hides, and ends of all kinds.
siw_twohost_cases='both_networks one_way choice wrong_choice
	cut_idle cut_ping cut_stream_to_server cut_stream_to_client
	cut_large_to_server cut_large_to_client cut_one_sided cut_short
	cut_address_late cut_silent_host loss_and_delay killed_a killed_b
	conform_report conform_server_killed conform_client_killed'

# Tests that show whether the archive is whole.
dist_tests='tests/check-abi.sh tests/check-layers.sh tests/check-skips.sh
	tests/fuzz/run.sh tests/unit/wire/hello tests/unit/session/order'

# Half of the tests of the Python binding, which take 10 seconds.
python_tests='test_messages test_aio test_onesided test_events test_callbacks'

# Of the C++ binding, in C++20: 20 seconds with the compiler.
cxx_tests='connect messages callbacks coroutine'

# A round of each scenario, about a minute in all, always with the same seeds.
chaos_round='--each --load-ms=1000 53'

# ---- builds -----------------------------------------------------------

# libtool takes as long as the compiler; distcheck-rest builds with libtool itself
libtool="sh $top/tests/quick-libtool ./libtool"

# build NAME CONFIGURE-ARGUMENTS...
build()
{
	mkdir -p "$work/$1" && cd "$work/$1" || return
	built=$1
	shift
	# -O2 takes twice as long to compile
	! sanitized "$built" || set -- "$@" CFLAGS='-Og -g1'
	[ -e Makefile ] || "$top/configure" --enable-werror "$@" || return
	if sanitized "$built"
	then make_sanitized "$built" -j"$jobs" check TESTS=
	else make SHELL=/bin/sh LIBTOOL="$libtool" -j"$jobs" &&
		make SHELL=/bin/sh LIBTOOL="$libtool" -j"$jobs" check TESTS=
	fi
}

# value NAME VARIABLE: what a variable has in the Makefile of a build.
value()
{
	make -C "$work/$1" -s --no-print-directory \
	    --eval="print-it: ; @echo \$($2)" print-it
}

# sanitized NAME: succeeds for the builds of which steps run some tests only.
sanitized()
{
	[ "$1" = asan ] || [ "$1" = tsan ]
}

# thread_pattern: prints a pattern of the programs that run with ThreadSanitizer
thread_pattern()
{
	if wants tsan-check-rest
	then echo "unit|integration/($(alternatives "$thread_programs"))\$"
	else echo "$(thread_unit_pattern)|integration/($(
		alternatives "$thread_programs"))\$"
	fi
}

thread_unit_pattern()
{
	echo "unit/(soft/.*|$(alternatives "$thread_units"))\$"
}

# alternatives LIST: prints it as a part of a pattern
alternatives()
{
	# shellcheck disable=SC2086 # words
	echo $1 | tr ' ' '|'
}

# make_sanitized NAME ARGUMENTS...: make without programs that no step runs.
make_sanitized()
{
	case $1 in
	asan)	programs='unit|integration|device|fault|hostile|fuzz|soft'
		! wants san-check-rest || programs="$programs|model|netsim" ;;
	tsan)	programs=$(thread_pattern) ;;
	esac
	programs=$(value "$1" check_PROGRAMS | tr ' ' '\n' |
		grep -E "^tests/($programs)" | tr '\n' ' ')
	sanitized_build=$1
	shift
	make -C "$work/$sanitized_build" SHELL=/bin/sh LIBTOOL="$libtool" \
	    noinst_PROGRAMS= \
	    bin_PROGRAMS="$(value "$sanitized_build" bin_PROGRAMS |
		tr ' ' '\n' | grep ^lib/ | tr '\n' ' ')" \
	    check_PROGRAMS="$programs" "$@"
}

# ---- tests of check ---------------------------------------------------

# check_tests BUILD PATTERN [EXCEPT]: runs the tests of check of which the names
# match, and not the second pattern. Prints a line for each.
check_tests()
{
	tests=$(value "$1" TESTS | tr ' ' '\n' | grep -E "^tests/($2)" |
		grep -v -E "^tests/(${3:-none})" | tr '\n' ' ')
	checked=$work/$1
	make=make_any
	! sanitized "$1" || make=make_sanitized
	for one in $tests
	do
		rm -f "$checked/$one.trs"
	done
	# they wait most of the time
	$make "$1" check -k -j$((2 * jobs)) TESTS="$tests" \
	    >"$logs/$name.make" 2>&1
	made=$?
	for one in $tests
	do
		result "$one" "$checked/$one"
	done
	[ $made -eq 0 ] || [ "$bad" ] || {
		cat "$logs/$name.make"
		return 1
	}
	[ -z "$bad" ]
}

make_any()
{
	any_build=$1
	shift
	make -C "$work/$any_build" SHELL=/bin/sh LIBTOOL="$libtool" "$@"
}

# result TEST PATH: prints the result that automake has written beside PATH.
bad=
result()
{
	case $(sed -n 's/^:test-result: //p' "$2.trs" 2>/dev/null) in
	PASS)	echo "ok $1" ;;
	SKIP)	echo "skip $1 # $(grep -v '^# took\|^SKIP ' "$2.log" | tail -n 1)" ;;
	'')	;;	# it was not built
	*)	bad=1
		echo "not ok $1"
		cat "$2.log" ;;
	esac
	grep '^# took ' "$2.log" 2>/dev/null
}

# ---- the archive and the installed library ----------------------------

# distcheck FLAGS...: of make. What it compiles is compiled already.
distcheck()
{
	make -C "$work/gcc" SHELL=/bin/sh distcheck -j"$jobs" "$@" &&
		echo "ok distcheck"
}

# Builds programs outside the tree, with the installed library only.
installed()
{
	rm -rf "$work/root" &&
	make -C "$work/gcc" install DESTDIR="$work/root" >/dev/null &&
	PKG_CONFIG_PATH=$work/root/usr/local/lib/pkgconfig &&
	PKG_CONFIG_SYSROOT_DIR=$work/root &&
	export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR || return
	for pc in rdmamsg rdmamsg-ev rdmamsg-event rdmamsg-glib rdmamsg-uv
	do
		sample=echo
		[ $pc = rdmamsg ] || sample=${pc#rdmamsg-}-loop
		# shellcheck disable=SC2046 # flags are words
		${CC:-cc} -o "$work/root/$sample" "$top/samples/$sample.c" \
		    $(pkg-config --cflags --libs $pc) \
		    $(env -u PKG_CONFIG_SYSROOT_DIR pkg-config --cflags $pc) \
		    -Wl,-rpath-link,"$work/root/usr/local/lib" || return
		echo "ok installed $pc"
	done
	for page in man7/rdmamsg.7 man7/rdmamsg-proto.7 man1/rdmamsg-perf.1 man3/rdmamsg_send.3
	do
		[ -f "$work/root/usr/local/share/man/$page" ] || return
	done
	[ -x "$work/root/usr/local/bin/rdmamsg-perf" ] &&
	[ -x "$work/root/usr/local/bin/rdmamsg-copy" ] &&
	[ -x "$work/root/usr/local/bin/rdmamsg-doctor" ] &&
	[ -x "$work/root/usr/local/bin/rdmamsg-conform" ] &&
	sh "$top/tests/readme.sh" "$work/root" &&
	sh "$top/tests/soft/installed.sh" "$work/gcc" "$work/root"
}

quickstart()
{
	RDMAMSG_BUILD=$work/quickstart sh "$top/samples/quickstart" && echo "ok quickstart"
}

# ---- the soft HCA -----------------------------------------------------

# on_soft BUILDDIR [PROGRAM...]: runs integration programs on the soft HCA.
on_soft()
{
	sh "$top/tests/integration/soft.sh" "$@"
}

# by_packets COMMAND...: in a network namespace of its own, because all soft
# HCAs of a user share a port there. Any user has one as root of a user namespace.
by_packets()
{
	with=-rn
	[ "$(id -u)" != 0 ] || with=-n
	RDMAMSG_SOFT_NET=all \
	    unshare $with sh -c 'ip link set lo up && exec "$@"' by_packets "$@"
}

# over_packets PROGRAM...
over_packets()
{
	RDMAMSG_DEVICE=soft RDMAMSG_SOFT_FABRIC=packets-$$ \
	RDMAMSG_VM_ADDR=127.0.0.1 RDMAMSG_VM_ADDR6=::1 \
	RDMAMSG_VM_DEVICE=soft0 RDMAMSG_VM_HOST=localhost \
	    by_packets sh "$top/tests/integration/run.sh" "$work/gcc" "$@"
}

on_network()
{
	status=0
	sh "$top/tests/soft/net.sh" "$work/gcc" || status=$?
	# shellcheck disable=SC2086 # words
	over_packets $net_programs || status=$?
	return $status
}

# Runs tests of the soft HCA again, without process_vm_readv(2).
without_vm()
{
	status=0
	RDMAMSG_SOFT_NO_VM=1
	export RDMAMSG_SOFT_NO_VM
	for program in "$work"/gcc/tests/unit/soft/*
	do
		[ -f "$program" ] && [ -x "$program" ] || continue
		if "$program" >"$program.no-vm" 2>&1
		then
			echo "ok ${program##*/}"
		else
			status=1
			echo "not ok ${program##*/}"
			cat "$program.no-vm"
		fi
	done
	# programs that move large payloads
	on_soft "$work/gcc" messages memory fast rma srq oob || status=1
	sh "$top/tests/soft/run.sh" "$work/gcc" ib_send_bw ib_read_bw ib_write_bw \
	    rping-size riostream 'fi_pingpong*' rdmamsg-perf || status=1
	"$work/gcc/tests/soft/crash" 30 || status=1
	return $status
}

without_vm_rest()
{
	RDMAMSG_SOFT_NO_VM=1 \
	    sh "$top/tests/soft/run.sh" "$work/gcc" 'ib_*_bw*'
}

# below PROGRAM...: runs it with the soft HCA below libibverbs, in a fabric of
# the step. The preloaded library has no sanitizer, even if the program has.
below()
{
	RDMAMSG_SOFT_FABRIC=below-$$-$name RDMAMSG_VM_ADDR=127.0.0.1 \
	RDMAMSG_VM_HOST=localhost ASAN_OPTIONS=verify_asan_link_order=0 \
	    "$work/gcc/lib/soft/tools/rdmamsg-soft" "$@"
}

# samples_on_soft [NAME...]
samples_on_soft()
{
	RDMAMSG_DEVICE=soft RDMAMSG_SOFT_FABRIC=test-$$ \
	    sh "$top/samples/run.sh" "$work/gcc" 127.0.0.1 "$@"
}

# On iWARP the counters of samples/kv are the server's, and it has no group.
on_soft_samples_rest()
{
	status=0
	# shellcheck disable=SC2086 # words
	samples_on_soft conform-links perf-compare perf-compare-drivers \
	    perf-compare-tools perf-compare-behind $kv_samples || status=1
	# shellcheck disable=SC2086 # words
	RDMAMSG_SOFT_LINK=iwarp samples_on_soft kv $kv_samples \
	    perf-checked perf-checked-long || status=1
	return $status
}

on_soft_samples()
{
	status=0
	samples_on_soft || status=1
	sh "$top/tests/soft/syscalls.sh" "$work/gcc" || [ $? -eq 77 ] ||
	    status=1
	return $status
}

# A million schedules on devices that complete in any order, and a million of
# packets.
model()
{
	"$work/gcc/tests/model/model" --schedules=1000000 --jobs="$jobs" \
	    --loose && echo 'ok model' &&
		"$work/gcc/tests/netsim/netsim" --schedules=1000000 \
		    --jobs="$jobs" && echo 'ok netsim' &&
		"$work/gcc/tests/netsim/incast" --schedules=1000 \
		    --jobs="$jobs" && echo 'ok incast'
}

# on_siw PROGRAM...
on_siw()
{
	in_machine sh "$top/tests/integration/run.sh" "$work/gcc" "$@"
}

siw_short()
{
	status=0
	# shellcheck disable=SC2086 # words
	on_siw $siw_programs || status=$?
	in_machine sh "$top/samples/run.sh" "$work/gcc" "" perf-checked ||
		status=$?
	return $status
}

siw_rest()
{
	status=0
	# shellcheck disable=SC2086 # words
	on_siw $siw_programs_rest || status=$?
	# shellcheck disable=SC2086 # words
	in_machine sh "$top/samples/run.sh" "$work/gcc" "" \
		perf-checked-long $siw_samples || status=$?
	return $status
}

# Runs programs as any verbs program: the soft HCA is below libibverbs.
on_soft_below()
{
	below sh "$top/samples/run.sh" "$work/gcc" 127.0.0.1
	samples=$?
	below sh "$top/tests/integration/soft.sh" "$work/gcc" messages memory \
	    connect cookies credits fast stats && return $samples
}

quick_below()
{
	below sh "$top/tests/fault/run.sh" "$work/gcc" connect exchange close \
		abort
	fault=$?
	below sh "$top/tests/hostile/run.sh" "$work/gcc" client && return $fault
}

# Runs a few tests of each kind, without the sanitizers and machines.
quick()
{
	failed=0
	quick_below >"$logs/quick-below" 2>&1 &
	check_tests gcc . || failed=1
	# shellcheck disable=SC2046 # words
	on_soft "$work/gcc" $(sh "$top/tests/integration/run.sh" -l |
		tr ' ' '\n' | grep -vxE "$slow_programs") || failed=1
	sh "$top/tests/chaos/run.sh" "$work/gcc" --scenario=all --rounds=1 53 ||
		failed=1
	wait $! || failed=1
	cat "$logs/quick-below"
	return $failed
}

# on_python BUILD [TEST...]: the binding; run.sh says why it skips
on_python()
{
	python_build=$1
	shift
	python_status=0
	sh "$top/bindings/python/tests/run.sh" "$work/$python_build" "$@" ||
		python_status=$?
	case $python_status in
	0)	echo "ok python-$python_build" ;;
	77)	;;
	*)	return 1 ;;
	esac
}

# Prints the largest message of the tests: 1 GB, which exists five times, if
# there is memory.
python_largest()
{
	awk '/^MemAvailable/ { print ($2 > 8388608 ? 1073741824 : 16777216) }' \
		/proc/meminfo
}

# All tests, also in asan, the types, and the wheel in a new environment.
python_rest()
{
	CTRL_C=200 INTERRUPTS=10000 CONNECTIONS=10000 TEST_TIMEOUT=1800 \
		LARGEST=$(python_largest) on_python gcc || return
	TEST_TIMEOUT=900 on_python asan || return
	sh "$top/bindings/python/tests/types.sh" || [ $? -eq 77 ] || return
	sh "$top/bindings/python/tests/wheel.sh" "$work/gcc" || [ $? -eq 77 ]
}

# on_cxx BUILD STANDARD COMPILER: the tests of the binding
on_cxx()
{
	cxx_status=0
	sh "$top/bindings/cxx/tests/run.sh" "$work/$1" "$2" "$3" ||
		cxx_status=$?
	case $cxx_status in
	0)	echo "ok cxx-$1-$2-$3" ;;
	77)	;;
	*)	return 1 ;;
	esac
}

# Each standard with each compiler, the three links, the sanitizers, what linters
# find, and projects of CMake and Meson.
cxx_rest()
{
	LINKS='ethernet ib iwarp' TEST_TIMEOUT=900
	export LINKS TEST_TIMEOUT
	for standard in c++17 c++20 c++23
	do
		on_cxx gcc $standard g++ || return
		on_cxx gcc $standard clang++-19 || return
	done
	on_cxx asan c++20 g++ || return
	on_cxx tsan c++20 clang++ || return
	sh "$top/bindings/cxx/tests/lint.sh" || [ $? -eq 77 ] || return
	sh "$top/bindings/cxx/tests/projects.sh" "$work/gcc" || [ $? -eq 77 ]
}

# rust: three links, valgrind, linters; run.sh says why it skips
rust()
{
	rust_status=0
	LINKS='ethernet ib iwarp' VALGRIND=1 LINT=1 TEST_TIMEOUT=900 JOBS=$jobs \
		sh "$top/bindings/rust/tests/run.sh" "$work/gcc" ||
		rust_status=$?
	case $rust_status in
	0)	echo 'ok rust' ;;
	77)	;;
	*)	return 1 ;;
	esac
}

chaos_asan()
{
	# shellcheck disable=SC2086 # words
	make -C "$work/asan" SHELL=/bin/sh tests/chaos/chaos &&
		sh "$top/tests/chaos/run.sh" "$work/asan" $chaos_round &&
		RDMAMSG_SOFT_LINK=iwarp sh "$top/tests/chaos/run.sh" \
			"$work/gcc" $chaos_round
}

# big COMMAND...: skips without memory for the largest message on both sides.
big()
{
	if [ "$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)" -lt 10 ]
	then
		echo "skip big # this machine has too little memory"
		return
	fi
	"$@" && echo "ok big"
}

# ---- the steps --------------------------------------------------------

# run_step NAME: runs a step that needs the builds and no other step.
run_step()
{
	# shellcheck disable=SC2086 # words
	case $1 in
	clang)	build $1 CC=clang ;;
	tsan)	build $1 CC=clang --enable-debug --with-sanitizer=thread ;;
	check)	check_tests gcc . ;;
	san-check)
		check_tests asan 'unit|fuzz' ;;
	san-check-rest)
		check_tests asan 'model|netsim' ;;
	tsan-check)
		check_tests tsan "$(thread_unit_pattern)" ;;
	tsan-check-rest)
		check_tests tsan unit "$(thread_unit_pattern)" ;;
	distcheck)
		# a few of the tests; 'check' runs all
		distcheck LIBTOOL="$libtool" \
			AM_MAKEFLAGS="TESTS='$(echo $dist_tests)'" ;;
	distcheck-rest)
		distcheck ;;
	pages)	sh "$top/tests/pages.sh" "$work/gcc" ;;
	switches)
		JOBS=$jobs sh "$top/tests/switches.sh" "$work/switches" ;;
	cross)	JOBS=$jobs sh "$top/tests/cross.sh" "$work/cross" ;;
	model)	model ;;
	installed | quickstart)
		$1 ;;
	quickstart-rest)
		quickstart &&
			sh "$top/tests/quickstart.sh" "$work/quickstart" ;;
	fresh)	sh "$top/tests/fresh.sh" "$work/fresh" ;;

	# the soft HCA
	device)	"$work/asan/tests/device/conform" ;;
	device-ib)
		RDMAMSG_SOFT_LINK=ib "$work/asan/tests/device/conform" ;;
	device-iwarp)
		# the list asks whether requests have arrived
		RDMAMSG_SOFT_LINK=iwarp RDMAMSG_SOFT_ORDER=0 \
			"$work/asan/tests/device/conform" ;;
	device-net)
		by_packets "$work/asan/tests/device/conform" ;;
	device-programs)
		"$work/gcc/lib/soft/tools/rdmamsg-soft" \
			"$work/gcc/tests/device/conform" -d soft0 ;;
	soft)	on_soft "$work/gcc" ;;
	soft-ib)
		RDMAMSG_SOFT_LINK=ib on_soft "$work/gcc" $link_programs fast ;;
	soft-iwarp)
		RDMAMSG_SOFT_LINK=iwarp on_soft "$work/gcc" \
			$link_programs fast thousands dead death killed dc_onesided ;;
	soft-disorder)
		RDMAMSG_SOFT_LINK=iwarp RDMAMSG_SOFT_ORDER=3 \
			on_soft "$work/gcc" $order_programs ;;
	soft-asan)
		on_soft "$work/asan" ;;
	soft-net)
		on_network ;;
	soft-net-rest)
		over_packets $net_programs_rest ;;
	soft-threads)
		on_soft "$work/tsan" $thread_programs ;;
	soft-crash)
		"$work/asan/tests/soft/crash" ;;
	soft-no-vm)
		without_vm ;;
	soft-no-vm-rest)
		without_vm_rest ;;
	soft-fault)
		below sh "$top/tests/fault/run.sh" "$work/asan" ;;
	soft-fault-iwarp)
		RDMAMSG_SOFT_LINK=iwarp below \
			sh "$top/tests/fault/run.sh" "$work/asan" ;;
	soft-hostile)
		below sh "$top/tests/hostile/run.sh" "$work/asan" ;;
	soft-hostile-iwarp)
		RDMAMSG_SOFT_LINK=iwarp below \
			sh "$top/tests/hostile/run.sh" "$work/asan" ;;
	soft-samples)
		on_soft_samples ;;
	soft-samples-rest)
		on_soft_samples_rest ;;
	soft-below)
		on_soft_below ;;
	soft-programs)
		sh "$top/tests/soft/run.sh" "$work/gcc" ;;
	soft-apps)
		sh "$top/tests/soft/run.sh" "$work/gcc" 'app-*' ;;
	soft-twohost)
		sh "$top/tests/twohost/run.sh" -s "$work/gcc" ;;
	oldnew)	JOBS=$jobs sh "$top/tests/oldnew.sh" "$work/oldnew" "$work/gcc" ;;
	big)	big on_soft "$work/gcc" big ;;
	quick)	quick ;;
	python)	on_python gcc $python_tests ;;
	python-rest)
		python_rest ;;
	cxx)	FILES=$cxx_tests on_cxx gcc c++20 g++ ;;
	cxx-rest)
		cxx_rest ;;
	rust)	rust ;;
	chaos)	sh "$top/tests/chaos/run.sh" "$work/gcc" $chaos_round ;;
	chaos-asan)
		chaos_asan ;;

	# These steps use the kernel's Soft-RoCE, or siw. Under the sanitizers they run
	# only the programs for removed devices, ports that are down, and files
	# that cannot be opened, which the soft HCA cannot show.
	device-rxe)
		in_machine "$work/gcc/tests/device/conform" -d rxe0 ;;
	soft-rxe)
		in_machine sh "$top/tests/soft/rxe.sh" "$work/gcc" &&
			in_machine sh "$top/tests/soft/wireguard.sh" "$work/gcc" ;;
	device-siw)
		in_machine "$work/gcc/tests/device/conform" -d siw0 ;;
	siw)	siw_short ;;
	siw-rest)
		siw_rest ;;
	integration)
		in_machine sh "$top/tests/integration/run.sh" "$work/gcc" \
			$guest_programs ;;
	integration-rest)
		in_machine sh "$top/tests/integration/run.sh" "$work/gcc" \
			$guest_programs_rest ;;
	san-integration)
		in_machine sh "$top/tests/integration/run.sh" "$work/asan" \
			device ;;
	san-integration-rest)
		in_machine sh "$top/tests/integration/run.sh" "$work/asan" \
			errors close ;;
	fault)	in_machine sh "$top/tests/fault/run.sh" "$work/gcc" \
			$guest_faults ;;
	fault-rest)
		in_machine sh "$top/tests/fault/run.sh" "$work/gcc" \
			$guest_faults_rest ;;
	hostile)
		in_machine sh "$top/tests/hostile/run.sh" "$work/gcc" client \
			crowd ;;
	samples)
		in_machine sh "$top/samples/run.sh" "$work/gcc" "" \
			$guest_samples ;;
	samples-rest)
		in_machine sh "$top/samples/run.sh" "$work/gcc" "" \
			$guest_samples_rest ;;
	chaos-vm)
		in_machine sh "$top/tests/chaos/run.sh" "$work/gcc" \
			--max-size=300000 --scenario=all --rounds=8 53 ;;
	big-vm)	big sh "$top/tests/vm/run" -t 3600 -m 8192 -- \
			"$work/gcc/tests/integration/big" ;;
	vm)	sh "$top/tests/vm/selftest" ;;
	twohost)
		sh "$top/tests/twohost/run.sh" "$work/gcc" $twohost_cases ;;
	siw-twohost)
		RDMAMSG_VM_DRIVER=siw sh "$top/tests/twohost/run.sh" \
			"$work/gcc" $siw_twohost_cases ;;
	twohost-rest)
		sh "$top/tests/twohost/run.sh" -x "$(echo $twohost_cases)" \
			"$work/gcc" ;;
	esac
}
