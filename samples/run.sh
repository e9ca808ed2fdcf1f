#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: run.sh BUILD [ADDR [NAME...]]
#
# Runs every sample of the build directory BUILD, and rdmamsg-copy through
# what can happen to it, over the RDMA device that has ADDR, by default or if it
# is empty $RDMAMSG_VM_ADDR; with names only those, and the long ones only with
# their names. Prints 'ok NAME' or
# 'not ok NAME' for each, and '# took SECONDS NAME'; exit status 1 if one has failed.

set -u

if [ $# -lt 1 ] || [ -z "${2:-${RDMAMSG_VM_ADDR-}}" ]
then
	sed -n 's/^# \(Usage: \)/\1/p' "$0" >&2
	exit 2
fi
build=$(cd "$1" && pwd) || exit
bin=$build/samples
if [ -x "$bin/.libs/rdmamsg-copy" ]
then
	# Past libtool's scripts, which take long in a virtual machine.
	bin=$bin/.libs
	LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	export LD_LIBRARY_PATH
fi
addr=${2:-${RDMAMSG_VM_ADDR-}}
shift
[ $# -eq 0 ] || shift
only=$*
copy=$bin/rdmamsg-copy
conform=$bin/rdmamsg-conform
info=$bin/rdmamsg-info
perf=$bin/rdmamsg-perf
pub=$bin/rdmamsg-pub
sub=$bin/rdmamsg-sub
samples=$(cd "$(dirname "$0")" && pwd) || exit
soft=$build/lib/soft/tools/rdmamsg-soft
ctl=$build/lib/soft/tools/rdmamsg-soft-ctl

work=$(mktemp -d) || exit
dir=$work/dir
failures=0 server=
trap 'stop_server; umount "$work/full" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# beside: not with the soft HCA below libibverbs, where long cases find only what
# they find beside the program
beside()
{
	case ${LD_PRELOAD-} in
	*/libsoft-preload.so*)	return 1 ;;
	esac
}

LIMIT=600	# s: far beyond what a command takes on a busy machine

# ---- tools --------------------------------------------------------------

# await COMMAND...: repeats the command until it succeeds.
await()
{
	end=$(($(date +%s) + LIMIT))
	until "$@"
	do
		[ "$(date +%s)" -lt "$end" ] || {
			echo "in vain: $*"
			return 1
		}
		sleep 0.05
	done
}

# expects FILE PATTERN
expects()
{
	grep -q -e "$2" "$1" || {
		echo "no '$2' in $1:"
		cat "$1"
		return 1
	}
}

# returns STATUS COMMAND...: checks the status. $work/said keeps the output.
returns()
{
	expected=$1 status=0
	shift
	timeout $LIMIT "$@" >"$work/said" 2>&1 || status=$?
	cat "$work/said"
	[ $status -eq "$expected" ] || {
		echo "status $status, not $expected: $*"
		return 1
	}
}

said()
{
	grep -q -e "$1" "$work/said" || {
		echo "it does not say '$1'"
		return 1
	}
}

# complains STATUS PATTERN COMMAND...: checks that the command prints one line.
complains()
{
	expected_text=$2
	expected_status=$1
	shift 2
	returns "$expected_status" "$@"
	said "$expected_text"
	[ "$(wc -l <"$work/said")" -eq 1 ] || {
		echo "more than one line: $*"
		return 1
	}
}

# not COMMAND...: checks that the command fails.
not()
{
	if "$@"
	then
		echo "it does not fail: $*"
		return 1
	fi
}

# options_of PROGRAM: prints the long options that --help lists.
options_of()
{
	"$1" --help | sed -n 's/^  *\(-., \)\{0,1\}--\([a-z-]*\).*/\2/p'
}

# start COMMAND...: starts a server and sets $port to the port that it prints.
start()
{
	rm -f "$work/server"	# the one before has said its port there
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

# has_ended PID: the process is a zombie, or gone
has_ended()
{
	[ ! -e "/proc/$1/status" ] ||
		grep -q '^State:[[:space:]]*[ZX]' "/proc/$1/status"
}

# server_ends STATUS
server_ends()
{
	status=0
	await has_ended "$server" || return
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
	end=$(($(date +%s) + LIMIT))
	until
		rm -f ended
		(
			status=0
			timeout $LIMIT sh -c 'echo $$ >client; exec "$@"' - \
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
		[ "$(date +%s)" -lt "$end" ] || {
			echo "no client was stopped in the middle of $1"
			return 1
		}
		kill -CONT "$(cat client)" 2>/dev/null || :
		await test -e ended
		rm -f "$dir/$1"
	done
}

# The client has written a part of the file, and much is left.
writing()
{
	find "$dir" -name '.rdmamsg-copy-*' -size +1024k -size -131072k |
		grep -q .
}

# goes_on STATUS: continues the client that half has stopped.
goes_on()
{
	kill -CONT "$(cat client)"
	await test -e ended
	cat said
	[ "$(cat ended)" -eq "$1" ] || {
		echo "the client's status is $(cat ended), not $1"
		return 1
	}
}

no_file()
{
	[ -z "$(ls -A "$dir")" ]
}

# long NAME COMMAND...: runs it if it is named
long()
{
	case " $only " in
	*" $1 "*)
		run "$@" ;;
	esac
}

# wants NAME: succeeds if the case is to run.
wants()
{
	case " $only " in
	'  ' | *" $1 "*) ;;
	*)	return 1 ;;
	esac
}

# run NAME COMMAND...: runs a case in its own directory and a subshell.
run()
{
	wants "$1" || return 0
	name=$1
	shift
	mkdir -p "$dir"
	began=$(date +%s)
	# Not in a condition, where set -e has no effect. What a sample exports
	# ends here, and only this shell knows the server.
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
	echo "# took $(($(date +%s) - began)) $name"
	chmod -R u+rwx "$work"
	find "$work" -mindepth 1 -maxdepth 1 ! -name full -exec rm -rf {} +
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

# Checks that text which cannot be written is no success.
output_full()
{
	for command in "$copy" "$conform" "$info" "$perf" "$pub" "$sub" \
		"$soft" "$ctl" "$bin/rdmamsg-doctor"
	do
		for option in --help --version
		do
			status=0
			"$command" $option >/dev/full 2>told || status=$?
			[ $status -ne 0 ]
			expects told 'No space left'
		done
	done
}

# Checks -h and wrong arguments of the samples.
sample_usage()
{
	for sample in echo echo-client own-loop ev-loop event-loop glib-loop \
		uv-loop threads srq apm \
		rc-pingpong atomics dc layout allreduce rss chat \
		rpc kv-server kv-cli kv-load kv-hostile snapshot
	do
		case $sample in
		ev-loop | event-loop | glib-loop | uv-loop | kv-server)
			# configured without
			[ -x "$bin/$sample" ] || continue ;;
		esac
		for option in -h --help
		do
			returns 0 "$bin/$sample" $option
			said "^Usage: $sample"
		done
		returns 2 "$bin/$sample" --no-such-option
		said "'--no-such-option'"
		said 'see --help'
	done
	! [ -x "$bin/ev-loop" ] ||
		complains 2 'Usage: ev-loop ADDR' "$bin/ev-loop"
	complains 2 'Usage: echo .HOST. PORT' "$bin/echo" 1 2 3
	complains 2 "'talk' is neither serve nor join" "$bin/chat" talk x 1
	complains 2 "'have' is neither publish nor follow" "$bin/snapshot" \
		have x x x x
	complains 2 "'ask' is neither serve nor call" "$bin/rpc" ask x 1
	complains 2 '1 to 1024 calls' "$bin/rpc" call x 1
	complains 2 '-a ADDR is missing' "$bin/srq"
	complains 2 'no operand' "$bin/srq" -a "$addr" x
	complains 2 '-a ADDR is missing' "$bin/apm"
	complains 2 'only 5 messages' "$bin/apm" -a "$addr" -c 5 -m 6
	complains 2 'the client migrates' "$bin/apm" -a "$addr" -s -m 1
	complains 2 '1 to 254; see' "$bin/apm" -a "$addr" -r 0
	complains 2 '1 to 49151; see' "$bin/apm" -a "$addr" -r 2 -d 49152
	complains 2 '-d needs -r' "$bin/apm" -a "$addr" -d 5
	complains 2 "'300'.*1 to 255; see" "$bin/rc-pingpong" -i 300
}

# apm_migrates ARGUMENT...: migrates on purpose, and prints what the client says.
apm_migrates()
{
	start "$bin/apm" -s -a "$addr" -p 0 -c 20 -l 100000 -w 0
	returns 0 "$bin/apm" -a "$addr" -p "$port" -c 20 -l 100000 -w 0 -m 10 "$@"
	said '^path armed, port 1 in use'
	said '^path migrated, port 2 in use'
	said '^recv: 20$'
	wait "$server"
	server=
	expects "$work/server" '^path migrated, port 2 in use'
}

# both_say PATTERN
both_say()
{
	grep -q "$1" "$work/server" && grep -q "$1" "$work/client"
}

# received_more COUNT: the client has more messages than that.
received_more()
{
	[ "$(grep -c '^recv: ' "$work/client")" -gt "$1" ]
}

# apm_port_down: the server's port fails, and the messages go on.
apm_port_down()
{
	start "$bin/apm" -s -a "$addr" -p 0 -c 1000000 -l 100000 -w 5
	"$bin/apm" -a "$addr" -p "$port" -c 1000000 -l 100000 -w 5 \
	    >"$work/client" 2>&1 &
	client=$!
	await both_say '^path armed'
	"$ctl" --pid "$server" port 1 down
	await both_say '^path migrated, port 2 in use'
	await received_more "$(grep -c '^recv: ' "$work/client")"
	# the connection manager, which stays on port 1, tells of the end
	"$ctl" --pid "$server" port 1 up
	kill -KILL "$client"
	wait "$client" || :
	server_ends 1
}

# Only the soft HCA has InfiniBand here.
apm_sample()
{
	RDMAMSG_DEVICE=soft RDMAMSG_SOFT_FABRIC=apm-$$
	export RDMAMSG_DEVICE RDMAMSG_SOFT_FABRIC
	start "$bin/apm" -s -a "$addr" -p 0 -c 3 -w 0
	returns 1 "$bin/apm" -a "$addr" -p "$port" -c 3 -w 0 -m 1
	said '^no alternate path: .*Linux refuses alternate paths'
	stop_server
	RDMAMSG_SOFT_LINK=ib
	export RDMAMSG_SOFT_LINK
	apm_migrates
	apm_migrates -r 2
	# the LID of the port that the server would name itself
	lid=$("$info" -v -d soft0 -p 2 | sed -n "s/^ *port_lid: //p")
	apm_migrates -r 2 -d "$lid"
	said "^path armed, port 1 in use: from port 2 to LID $lid\$"
	apm_port_down
}

# ---- rdmamsg-conform ----------------------------------------------------

# conforms LINK: all cases pass or differ as written. The list asks whether
# requests have arrived, so that those of iWARP are in order.
conforms()
{
	RDMAMSG_SOFT_ORDER=0 timeout $LIMIT "$soft" -l "$1" "$conform" \
	    -d soft0 --json >"conform.$1"
	if command -v python3 >/dev/null
	then
		python3 - "$1" <<-'END'
		import json, sys
		link = sys.argv[1]
		r = json.load(open("conform." + link))
		cases = {c["name"]: c["result"] for c in r["cases"]}
		n = r["counts"]
		assert r["status"] == 0 and n["differs"] == n["gone"] == 0, n
		assert sum(n.values()) == len(r["cases"]) > 200, n
		assert r["device"]["known"] and r["device"]["firmware"], r
		assert r["kernel"]["release"] and r["port"]["number"] == 1, r
		assert len(r["capabilities"]) > 20, r["capabilities"]
		assert cases["order__send_behind_a_read_COMPLETES_LATER"] == "ok"
		has = link != "iwarp"
		dc = cases["dc__device_supports_it"]
		assert dc == ("ok" if has else "skipped"), dc
		assert ("path__armed_again_MIGRATES_BACK" in cases) == has, cases
		assert ("raw_wqe__add_fields_CARRY_NOT" in cases) == has, cases
		END
	fi
}

# all at the same time, because most of a case is waiting
conform_links()
{
	links=
	for link in ethernet ib iwarp
	do
		conforms $link &
		links="$links $!"
	done
	for pid in $links
	do wait "$pid"
	done
}

# iWARP permits a send to complete before a read that was posted earlier.
conform_finds()
{
	order=order__send_behind_a_read_COMPLETES_LATER
	RDMAMSG_SOFT_ORDER=3
	export RDMAMSG_SOFT_ORDER
	returns 1 "$soft" -l iwarp "$conform" -d soft0 $order
	said '^device: soft0, soft, board soft HCA, '
	said '^firmware: '
	said '^kernel: Linux [0-9]'
	said '^port: 1, ACTIVE, '
	said '^known: yes'
	said "^differs $order: request [0-9]*, not [0-9]* (order.c:[0-9]*)$"
	said '^0 ok, 0 known, 1 differ, '
	said '^differences found$'
	returns 1 "$soft" -l iwarp "$conform" -d soft0 --json $order
	said '"result": "differs", "text": "request [0-9]'
	said '"status": 1'
}

conform_options()
{
	order=order__send_behind_a_write_DATA_IS_THERE
	returns 0 "$soft" "$conform" --device=soft0 --port=2 --verbose $order
	said '^port: 2, ACTIVE, '
	said '^capability dc: native, '
	said "^ok $order$"
	returns 0 "$soft" "$conform" -d soft0 -p 2 $order
	not said '^ok '
	said '^1 ok, 0 known, 0 differ, '
	said '^all as expected$'
}

# The time of all cases has a bound.
conform_time()
{
	returns 1 "$soft" "$conform" -d soft0 -t 1
	said '^not asked [a-z0-9_]*__[A-Za-z0-9_]*$'
	said ', [1-9][0-9]* not asked$'
	said '^not complete: the cases took more than 1 seconds$'
	returns 1 "$soft" "$conform" -d soft0 --time=1 --json
	said '"complete": false'
	said '"reason": "the cases took more than 1 seconds"'
	said '"result": "not asked"'
}

# The server serves the connections of a client on each link.
conform_peer()
{
	for link in ethernet ib iwarp
	do
		start "$soft" -l $link "$conform" server -a 127.0.0.1 \
			--service=$PEER_PORT
		returns 0 "$soft" -l $link "$conform" -d soft0 -v \
			--peer=127.0.0.1 --service="$port"
		said '^ok peer__send_behind_a_write_DATA_IS_THERE$'
		said '^8 ok, 0 known, 0 differ, '
		end_server TERM 143
	done
	returns 2 "$soft" "$conform" -d soft0 --peer=127.0.0.1 \
		--service=$PEER_PORT peer__send_COMES_BACK
	said "^rdmamsg-conform: --peer 127.0.0.1: no 'rdmamsg-conform server' "
	not said '^differs'
	complains 2 'has no IPv4 address' "$soft" "$conform" -d soft0 \
		--peer=no.such.host.invalid
	complains 2 'is no case' "$conform" -d soft0 peer__send_COMES_BACK
	complains 2 'a number from 1 to 65535' "$conform" --service=0
}

# Clients at one time, beside another that takes all that it gets: each is served.
conform_crowd()
{
	start "$soft" "$conform" server -a 127.0.0.1 --service=$PEER_PORT
	"$soft" "$build/tests/soft/flood" "$port" >flooded 2>&1 &
	flood=$!
	await grep -q '^busy' flooded
	for i in 1 2 3
	do
		"$soft" timeout $LIMIT "$conform" -d soft0 -v --peer=127.0.0.1 \
			--service="$port" >"crowd.$i" 2>&1 &
		eval "crowd$i=\$!"
	done
	status=0
	wait "$crowd1" || status=$?
	wait "$crowd2" || status=$?
	wait "$crowd3" || status=$?
	kill "$flood"
	wait "$flood" || :
	cat flooded crowd.*
	[ $status -eq 0 ]
	end_server TERM 143
}
PEER_PORT=7499		# of a fabric of this host, not of the network

# ends_with_parent PID...: none of these is there, or as a zombie.
ends_with_parent()
{
	for pid
	do
		! grep -q '^State:[[:space:]]*[^ZX]' "/proc/$pid/status" \
			2>/dev/null || return 1
	done
}

# No case outlives the program that runs it.
conform_killed()
{
	"$soft" "$conform" -d soft0 >told 2>&1 &
	server=$!
	await has_children $server
	# the cases are short: stop one
	await stop_a_case
	kill -KILL $server
	wait $server || :
	server=
	await ends_with_parent "$stopped"
}

# Sets 'stopped' to a case of the server, and stops it. A case asks to end with its
# parent before its output is a pipe.
stop_a_case()
{
	for stopped in $(cat /proc/"$server"/task/*/children)
	do
		[ -p "/proc/$stopped/fd/1" ] || continue
		kill -STOP "$stopped" 2>/dev/null && return
	done
	return 1
}

conform_mistakes()
{
	complains 2 'which device?' "$conform"
	complains 2 "no device 'no-such'" "$soft" "$conform" -d no-such
	complains 2 'port 99: ' "$soft" "$conform" -d soft0 -p 99
	complains 2 'a number from 1 to 255' "$conform" -d soft0 -p 0
	complains 2 'a number from 1 to 86400' "$conform" -d soft0 -t 0
	complains 2 'is no case' "$conform" -d soft0 no_such_case
}

# Soft-RoCE has written differences. Nothing stays on the device.
conform_rxe()
{
	rdma resource show rxe0 >before
	returns 0 "$conform" -d rxe0
	said '^device: rxe0, soft-roce, '
	said '^known local__wrong_key_LOC_PROT_ERR: '
	said '^all as expected$'
	rdma resource show rxe0 >after
	diff before after
}

# ---- rdmamsg-info -------------------------------------------------------

# fields: "device.port.key value" for each line of ibv_devinfo or rdmamsg-info.
# Flags of ibv_devinfo follow on lines of their own, in one word each.
fields()
{
	awk '
	function show() { if (key != "") print scope key, value; key = "" }
	{ sub(/^[ \t]+/, ""); sub(/[ \t]+$/, "") }
	/^[A-Z0-9_]+$/ { value = value " " $0; next }
	match($0, /^[A-Za-z0-9_ ]+(\[ *[0-9]+\])?:/) {
		show()
		key = substr($0, 1, RLENGTH - 1)
		value = substr($0, RLENGTH + 1)
		sub(/^[ \t]+/, "", value)
		gsub(/ /, "", key)
		if (key == "hca_id")
			key = "device"
		if (key == "device")
			scope = device = value "."
		if (key == "port")
			scope = device value "."
		# the same key in several groups
		if (sub(/_caps$/, "_", key)) {
			group = key
			key = key "caps"
		}
		if (key == "supported_qp")
			key = group key
	}
	END { show() }'
}

# alike: what only the programs' ways of writing make different. On InfiniBand the
# soft HCA of each process has a GID of its own.
alike()
{
	sed -e 's/\(PORT\|ATOMIC\)_\([A-Z]* (\)/\2/' -e 's/ Gbps (/ Gb\/s (/' \
	    -e 's/ 0x0*\([0-9a-fA-F]\)/ 0x\1/' \
	    -e 's/  *SUPPORT_RAW_PACKET/ 0x100 RAW_PACKET/' \
	    -e 's/\(rate_limit_m[a-z]*\)\( .*\)kbps$/\1_kbps\2/' \
	    -e 's/max_vl_num 1 (1)/max_vl_num VL0 (1)/' \
	    -e 's/\(GID.0. fe80:0000:0000:0000:\)[0-9a-f:]*:/\1own:/' |
	awk '
	$1 ~ /odp_caps$/ && NF == 1 { $2 = "0x0" }
	{ print tolower($0) }'
}

# info_shows LINK: checks the fields of ibv_devinfo -v, with the same values.
info_shows()
{
	RDMAMSG_SOFT_FABRIC=info-$$ "$soft" -l "$1" ibv_devinfo -v >theirs
	RDMAMSG_SOFT_FABRIC=info-$$ "$soft" -l "$1" "$info" -v >ours
	# in words, what is not there
	sed -e 's/^\(.*\)tag matching not supported/max_num_tags: 0/' \
	    -e 's/\(completion_timestamp_mask\) not supported/\1: 0x0/' \
	    -e 's/core clock not supported/hca_core_clock_khz: 0/' \
	    -e 's/completion timestamp_mask/completion_timestamp_mask/' \
	    -e 's/hca_core_clock:\(.*\)kHZ/hca_core_clock_khz:\1/' \
	    -e 's/raw packet caps/raw_packet_caps/' \
	    -e 's/NO SUPPORT//' theirs | fields | alike >expected
	fields <ours | alike >got
	[ "$(wc -l <expected)" -gt 100 ]
	awk '
	NR == FNR { ours[$1] = $0; next }
	{
		rest = substr(ours[$1], length($0) + 1)
		# headings have no value
		if ($1 ~ /\.(tso|rss|packet_pacing|raw_packet)_caps$/)
			next
		# names only what device_cap_flags has not
		if ($1 ~ /device_cap_flags_ex$/ && NF == 3 &&
		    index(ours[$1], $1 " " $2 " ") == 1 &&
		    index(ours[$1] " ", " " $3 " "))
			next
		if (index(ours[$1], $0) != 1 || rest !~ /^([ ,].*)?$/) {
			print "ibv_devinfo: " $0 "\nrdmamsg-info: " ours[$1]
			bad = 1
		}
	}
	END { exit bad }' got expected
}

info_fields()
{
	info_shows ethernet
	not grep -q 'active_mtu.*n/a' ours
	grep -q 'port_lid: .* \[n/a\]' ours
	info_shows ib
	not grep -q 'port_lid: .* \[n/a\]' ours
}

# info_agrees: with ibv_devices, rdma(8) and the files in /sys
info_agrees()
{
	[ ! -e /sys/class/infiniband/rxe0 ] || {
		python3 "$samples/info/agrees.py" "$info"
		return
	}
	for link in ethernet ib iwarp
	do
		RDMAMSG_SOFT_FABRIC=agrees-$$ RDMAMSG_SOFT_LINK=$link \
		    "$soft" python3 "$samples/info/agrees.py" "$info"
	done
}

info_options()
{
	returns 0 "$info"
	said '^device: '
	said '  state: '
	not said 'max_qp'
	returns 0 "$info" -d soft -p 2
	[ "$(grep -c '^device: soft0$' said)" -eq 1 ]
	[ "$(grep -c '^  port: ' said)" -eq 1 ]
	said '^  port: 2$'
	returns 0 "$info" --device=soft --port=1 --verbose
	said 'max_qp: [0-9]'
	said 'pieces_max: 131072$'
	said '    flags: 0x1 GRH_REQUIRED$'
	not grep "$(printf '\033')" said
	on_terminal "'$info' -d soft"
	grep -q "$(printf '\033')" said
	returns 0 "$info" --json -d soft
	if command -v python3 >/dev/null
	then
		python3 -c '
import json
d = json.load(open("said"))["devices"][0]
p = d["ports"][0]
assert d["device"] == "soft0" and d["max_qp"] > 1, d
assert p["port"] == "1" and p["state"]["name"] == "ACTIVE", p
assert p["port_lid"] is None and p["gids"][0]["type"] == "RoCE v2", p
assert "XRC" in d["device_cap_flags"]["names"], d'
	fi
}

# info_finds LINK: checks the abilities of the soft HCA, as text and as JSON.
info_finds()
{
	RDMAMSG_SOFT_FABRIC=caps-$$ RDMAMSG_SOFT_LINK=$1
	export RDMAMSG_SOFT_FABRIC RDMAMSG_SOFT_LINK
	returns 0 "$info" -d soft
	said '^  kind: soft$'
	not said capability
	returns 0 "$info" -v -d soft
	said '^  capability inline: native, .* granted [1-9]'
	said '^  capability ud: native, a datagram arrived$'
	if [ "$1" = ethernet ]
	then said '^  capability rss: native, .* 256 queues of one table$'
	else said '^  capability rss: absent, .* not supported$'
	fi
	said '^  capability dc: native, a message of DC worked'
	returns 0 "$info" --json -d soft
	if command -v python3 >/dev/null
	then
		python3 -c '
import json
d = json.load(open("said"))["devices"][0]
c = {c["name"]: c for c in d["capabilities"]}
assert d["kind"] == "soft" and len(c) == len(d["capabilities"]) > 20, c
assert c["windows"]["how"] == "native" and c["windows"]["tried"] == 1, c
assert c["odp"]["how"] == "absent" and c["odp"]["reason"], c
assert c["chains"]["how"] == "native" and c["inline"]["value"] > 0, c'
	fi
}

# used DEVICE: prints the number of objects of the device.
used()
{
	rdma resource show "$1" | sed 's/^[0-9]*: //'
}

# Soft-RoCE reports path migration and windows.
info_rxe()
{
	used rxe0 >before
	returns 0 "$info" -v -d rxe0
	said '^  capability read: native, a read returned the data$'
	said '^  capability windows: absent, .*do not keep to their bounds$'
	said '^  capability path-migration: absent, loading an alternate path'
	used rxe0 >after
	diff before after
}

info_capabilities()
{
	(info_finds ethernet)
	(info_finds ib)
}

# rdmamsg-info shows a port that is down.
info_port_down()
{
	RDMAMSG_SOFT_FABRIC=info-$$
	export RDMAMSG_SOFT_FABRIC
	start "$perf" server -a 127.0.0.1 -d soft -p 0
	returns 0 "$ctl" -a port 2 down
	returns 0 "$info" -d soft
	said 'state: ACTIVE (4)'
	said 'state: DOWN (1)'
	end_server TERM 0
}

# watch OPTION...: starts the program, and waits until it watches the soft HCA.
watch()
{
	rm -f watched
	"$info" --watch -d soft "$@" >watched 2>&1 &
	watcher=$!
	await grep -q 'WATCHING' watched
}

# happens EVENT COMMAND...: rdmamsg-soft-ctl does it, and a line tells it
happens()
{
	event=$1
	shift
	returns 0 "$ctl" -p "$watcher" "$@"
	await grep -q "$event" watched
}

info_watch()
{
	RDMAMSG_SOFT_FABRIC=watch-$$
	export RDMAMSG_SOFT_FABRIC
	trap 'status=$?; kill "$watcher"; exit $status' EXIT
	time='^[-0-9]*T[0-9:]*\.[0-9]\{3\}Z'
	watch
	happens "$time soft0 port 2: PORT_ERR (.*), the port is DOWN$" \
		port 2 down
	happens "$time soft0 port 2: PORT_ACTIVE (.*), the port is ACTIVE$" \
		port 2 up
	happens 'soft0 port 1: GID_CHANGE' event GID_CHANGE 1
	happens 'soft0 port 1: LID_CHANGE' event LID_CHANGE 1
	happens 'soft0: DEVICE_FATAL' remove
	await grep -q 'soft0: REMOVED' watched
	# closing the last device has ended the node, unless librdmacm has one
	timeout 100 "$ctl" -p "$watcher" add || :
	await grep -q 'soft0: ADDED' watched
	happens 'soft0 port 1: SM_CHANGE' event SM_CHANGE 1
	kill -INT "$watcher"
	wait "$watcher"
	[ "$(wc -l <watched)" -eq 9 ]
	watch --json --count=2 --port=1
	returns 0 "$ctl" -p "$watcher" event PKEY_CHANGE 2
	happens PKEY_CHANGE event PKEY_CHANGE 1
	happens PORT_ERR port 1 down
	wait "$watcher"
	trap - EXIT
	[ "$(wc -l <watched)" -eq 3 ]
	grep -q '^{ "time": "[^"]*Z", "device": "soft0", "port": 1, "event": "PORT_ERR", "text": "[^"]*", "state": "DOWN" }$' watched
}

lists_endpoint()
{
	"$info" --stats="$stats" >said 2>&1 &&
	grep -q "^$1endpoint 0x.* connected .* -> 127\.0\.0\.1:" said
}

no_endpoint()
{
	"$info" --stats="$stats" >said 2>&1 && ! grep -q '^# endpoint' said
}

info_stats()
{
	RDMAMSG_STATS=$work/stats-%p
	export RDMAMSG_STATS
	start "$perf" server -a 127.0.0.1 -d soft -p 0
	unset RDMAMSG_STATS
	stats=$work/stats-$server
	returns 0 "$info" --stats="$stats"
	said '^# TYPE rdmamsg_messages_sent_total counter$'
	said '^rdmamsg_messages_sent_total{context="0"} 0$'
	said "^rdmamsg_listener_accepted_total{context=\"0\",listener=\"1\",port=\"$port\"} 0$"
	returns 0 "$perf" lat 127.0.0.1 -p "$port" -n 100
	returns 0 "$info" --stats="$stats"
	not said '^rdmamsg_messages_sent_total{context="0"} 0$'
	returns 0 "$info" --json --stats="$stats"
	said '"name": "rdmamsg_messages_sent_total"'
	if command -v python3 >/dev/null
	then
		python3 -c '
import json
by = { m["name"]: m for m in json.load(open("said"))["metrics"] }
sent = by["rdmamsg_messages_sent_total"]
assert sent["type"] == "counter" and sent["help"], sent
assert sent["samples"][0]["context"] == "0", sent
assert sent["samples"][0]["value"] >= 100, sent
assert by["rdmamsg_device_info"]["samples"][0]["kind"] == "soft", by'
	fi
	"$perf" lat 127.0.0.1 -p "$port" -n 100000000 >client 2>&1 &
	client=$!
	await lists_endpoint "# "
	returns 0 "$info" --json --stats="$stats"
	said '"endpoint": "endpoint 0x.* connected .* -> 127.0.0.1:'
	kill "$client"
	await no_endpoint
	returns 0 "$info" --dump="$stats"
	said '^rdmamsg [0-9.]*, context .*: 0 endpoints$'
	said "^listener .*: port $port: "
	kill -STOP "$server"
	returns 1 "$info" --stats="$stats"
	said 'no answer: the program does not drive this context'
	kill -CONT "$server"
	end_server TERM 0
	[ ! -e "$stats" ]
	complains 1 'No such file.*RDMAMSG_STATS' "$info" --stats="$stats"
}

# metrics_say PYTHON: with 'get(PATH, METHOD)', which returns status and text.
metrics_say()
{
	python3 -c '
import sys, urllib.request, urllib.error
url, pid = sys.argv[1:3]
def get(path="/metrics", method="GET"):
    r = urllib.request.Request(url.replace("/metrics", path), method=method)
    try:
        with urllib.request.urlopen(r, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, ""
'"$1" "$url" "$server"
}

# serve_metrics OPTION...: sets 'scraper' and 'url'
serve_metrics()
{
	rm -f metrics	# the one before has said its address there
	"$info" "$@" >metrics 2>&1 &
	scraper=$!
	trap 'status=$?; kill "$scraper"; exit $status' EXIT
	await grep -q '^http:' metrics
	url=$(cat metrics)
}

info_metrics()
{
	RDMAMSG_STATS=@metrics-$$-%p
	export RDMAMSG_STATS
	start "$perf" server -a 127.0.0.1 -d soft -p 0
	unset RDMAMSG_STATS
	serve_metrics --metrics=127.0.0.1:0
	metrics_say '
status, text = get()
assert status == 200 and "# TYPE rdmamsg_programs gauge" in text, text
ours = [l for l in text.splitlines() if "{pid=\"%s\",context=\"0\"" % pid in l]
assert any(l.startswith("rdmamsg_messages_sent_total{") for l in ours), text
assert text.count("# TYPE rdmamsg_messages_sent_total counter") == 1, text
assert get("/")[0] == 200 and get(method="HEAD") == (200, "")
assert get("/other")[0] == 404 and get(method="POST")[0] == 405'
	kill -STOP "$server"
	metrics_say '
text = get()[1]
assert "\"%s\"" % pid not in text, text
silent = [l for l in text.splitlines() if l.startswith("rdmamsg_contexts_silent ")]
assert int(silent[0].split()[1]) > 0, text'
	kill -CONT "$server"
	# a client that asks half of it holds nobody up for long
	metrics_say '
import socket
at = url.split("/")[2].split(":")
mute = socket.create_connection((at[0], int(at[1])))
mute.sendall(b"GET /metr")
assert "\"%s\"" % pid in get()[1]'
	# more of them than places, some drip, one sends without an end, and
	# one takes no answer: nobody waits for their time
	metrics_say '
import socket, time
at = url.split("/")[2].split(":")
def client(say):
    s = socket.create_connection((at[0], int(at[1])), 60)
    s.sendall(say)
    return s
mute = [client(b"GET /metr") for i in range(100)]
deaf = [client(b"GET /metrics HTTP/1.1\r\n\r\n") for i in range(20)]
huge = client(b"GET /metrics HTTP/1.1\r\nX: ")
try:
    while True:
        huge.sendall(b"x" * 4096)
except OSError:
    pass
began = time.monotonic()
for i in range(20):
    assert "\"%s\"" % pid in get()[1]
took = time.monotonic() - began
assert took < 30, took
size = [l for l in open("/proc/'"$scraper"'/status") if l.startswith("VmRSS")]
assert int(size[0].split()[1]) < 65536, size'
	kill "$scraper"
	wait "$scraper"
	trap - EXIT
	at=0
	! grep -q ' lo$' /proc/net/if_inet6 || at='[::1]:0'
	serve_metrics --metrics="$at" --stats="@metrics-$$-$server"
	metrics_say '
assert "\nrdmamsg_programs 1\n" in get()[1]'
	end_server TERM 0
	metrics_say '
text = get()[1]
assert "\nrdmamsg_programs 0\n" in text and "pid=" not in text, text'
	kill -INT "$scraper"
	wait "$scraper"
	trap - EXIT
	serve_metrics --metrics="$at" --stats=talker
	# another program that has the socket does not fill the memory
	metrics_say '
import socket, threading
def talk(listener):
    s = listener.accept()[0]
    try:
        s.sendall(b"# HELP rdmamsg_x x\n" + b"rdmamsg_x 1\n" * 2000000)
    except OSError:
        pass
    s.close()
listener = socket.socket(socket.AF_UNIX)
listener.bind("talker")
listener.listen(1)
threading.Thread(target=talk, args=(listener,), daemon=True).start()
text = get()[1]
assert "\nrdmamsg_contexts_silent 1\n" in text, text[:1000]
assert "rdmamsg_x" not in text'
	kill "$scraper"
	wait "$scraper"
	trap - EXIT
}

info_mistakes()
{
	complains 2 '--watch and --dump' "$info" --watch --dump=x
	complains 2 '--dump and --stats' "$info" --stats=x --dump=x
	complains 1 'No such file.*RDMAMSG_STATS' "$info" --dump=x
	complains 2 '--watch and --metrics' "$info" --watch --metrics=1
	complains 2 '--metrics has no use for' "$info" --metrics=1 -v
	complains 2 '--metrics has no use for --json' "$info" --metrics=1 --json
	complains 2 '--metrics=none:x: ' "$info" --metrics=none:x
	complains 1 '--metrics=192.0.2.1:0: ' "$info" --metrics=192.0.2.1:0
	complains 2 '--count is for --watch' "$info" --count=1
	complains 2 "--count '0': a number" "$info" --watch --count=0
	complains 2 '--watch and --stats' "$info" --watch --stats=x
	complains 2 '--stats has no use for' "$info" --stats=x -v
	complains 1 'no RDMA device is named nosuch' "$info" --watch -d nosuch
	complains 1 'no RDMA device is named nosuch' "$info" -d nosuch
	complains 2 "--port '0': a number from 1 to 255" "$info" -p 0
	complains 2 "'x': there are no operands; see" "$info" x
	returns 1 "$info" -d soft -p 9
	said 'soft0: there is no port 9, the device has 2'
}

# ---- rdmamsg-perf -------------------------------------------------------

# client TEST OPTION...: runs a client of the started server.
client()
{
	test=$1
	shift
	returns 0 "$perf" "$test" "$addr" -p "$port" "$@"
}

# Prints the device that carries messages to and from this address.
device()
{
	start "$perf" server -a "$addr" -p 0 >/dev/null
	"$perf" lat "$addr" -p "$port" -s 1 -n 1 --event --json |
		sed -n 's/.*"device": "\([^"]*\).*/\1/p'
	end_server TERM 0
}

# make_key: writes two different keys to the files key and other-key.
make_key()
{
	(umask 077
	head -c 32 /dev/urandom >key
	head -c 32 /dev/urandom >other-key)
}

# what --steps prints
step_line='largest step: [0-9]* to [0-9]* bytes: [0-9]*\.[0-9][0-9] times the time\( (still moving)\)\{0,1\}'

# perf_option NAME: tries it. Without polling where that is not what is tried: in
# a virtual machine both sides and the device share two processors.
perf_option()
{
	case $1 in
	rate | time | subscribers | group | drop | no-repair | unordered)
		group_option "$1"
		return ;;
	esac
	serve='-p 0'
	# two different processors
	case $(nproc)$1 in
	1cpus | 1only)	return ;;
	esac
	case $1 in
	address)	serve="--address=$addr --port=0" ;;
	device)		serve="--device=$(device) -p 0" ;;
	once)		serve='-p 0 --once' ;;
	srq)		serve='-p 0 --srq' ;;
	key-file)	make_key
			serve='-p 0 --key-file=key' ;;
	esac
	# shellcheck disable=SC2086 # words
	start "$perf" server $serve
	case $1 in
	address | device)
		client lat -s 1 -n 2 --event ;;
	port)	returns 0 "$perf" lat "$addr" --port="$port" -s 1 -n 2 \
			--event ;;
	size)	client bw --size=1,2K,1M -n 4 --event
		said '^ *2048 ' ;;
	count)	client rate -s 8 --count=7 --event
		said '^ *8  *7 ' ;;
	poll)	client lat -s 1 -n 2 --poll
		said '^lat on .*, polling;' ;;
	event)	client lat -n 2 --event
		said '^lat on .*, events;' ;;
	check)	client lat -n 50 --check --event
		said '^ *1048576 ' ;;
	cpus)	returns 0 "$perf" compare -a "$addr" --cpus=1,0 -n 1 --only=tcp
		ns='[1-9][0-9]*\.[0-9]'
		said '^between processors 1 and 0, medians of 1 round; '
		said "; a cache line takes $ns ns before and $ns ns after$"
		returns 0 "$perf" compare -a "$addr" -n 1 --only=tcp --json
		said "\"line_before_ns\": $ns, \"line_after_ns\": $ns}$" ;;
	only)	returns 0 "$perf" compare -a "$addr" -n 2 --only=tcp
		# three figures and the messages left out
		said '^TCP, busy poll \( *[0-9.]*\)\{3\} *[1-9][0-9]*  TCP'
		not said '^rdmamsg,' ;;
	hist)	client lat -s 64 -n 300 --hist --event
		said '^ *[0-9.]* to  *[0-9.]* us  *[0-9]*  *[0-9.]*% [#.]' ;;
	plot)	client lat -s 64,4K -n 300 --plot=- --event
		said '^rdmamsg-perf: lat, .*, event: microseconds over bytes'
		said '^ *4096 bytes .* messages/s'
		said '^ *[0-9.]* p99.9  *##*$'
		not said '^left out'
		client lat -s 1,64,4K -n 300 --plot=- --event
		said ', 1 bytes: microseconds over time, from '
		said ', 64 bytes: microseconds over time, from '
		not said ', 4096 bytes: microseconds over time'
		said '^left out: 1 of 3 curves over time$' ;;
	steps)	client lat --steps=64:128 -n 20 --event
		said "^$step_line$"
		[ "$(wc -l <"$work/said")" -eq 1 ] ;;
	compact)
		client lat -s 64,4K -n 300 --plot=- --event --compact
		said 'microseconds over bytes'
		not said 'microseconds over time' ;;
	pause)	client lat --pause=2 -s 64,4K --event
		said '; the first after a pause of 2 ms$' ;;
	cold)	client lat --cold -s 64,4K --event
		said '; cold start: the first messages of a new connection$'
		said '^ *64  *100 .* 0$' ;;
	guard)	client bw -s 1M -n 4 --guard --event
		said '^ *1048576 ' ;;
	crc)	client lat -s 64,64K -n 20 --event --check --crc
		said '^ *65536 ' ;;
	failover)
		client lat -s 64 -n 20 --event --failover="$addr"
		said '^longest time without traffic: .* ms; 0 other' ;;
	json)	client lat -n 2 --json --event
		said '"server_mode": "event"}$' ;;
	srq)	client conns --srq -n 3 --event
		said '^3 connections.*events, shared receives$'
		said ', 384 left out before, '
		client conns -n 3 --event --json
		json_is warmup 384 ;;
	key-file)
		client lat -s 1 -n 2 --event --key-file=key
		said '^ *1 '
		complains 1 'requires a key' "$perf" lat "$addr" -p "$port"
		complains 1 'another key' "$perf" lat "$addr" -p "$port" \
			--key-file=other-key ;;
	once)	client lat -n 2 --event
		server_ends 0
		return ;;
	help | version)
		returns 0 "$perf" --"$1" ;;
	*)	echo "--$1 is not tried"
		return 1 ;;
	esac
	end_server TERM 0
}

perf_options()
{
	options_of "$perf" >options
	grep -qx json options
	while read -r option
	do
		perf_option "$option"
	done <options
}

# A table has the mode of both sides in its heading.
perf_modes()
{
	start "$perf" server -a "$addr" -p 0 --event
	client lat -s 1 -n 10
	said ', client polls, server waits for events;'
	client lat -s 1 -n 10 --event
	said ', events;'
	end_server TERM 0
	start "$perf" server -a "$addr" -p 0 --poll
	client lat -s 1 -n 10 --event
	said ', client waits for events, server polls;'
	client read-lat -s 1 -n 10 --event
	said ', events;'
	end_server TERM 0
}

# failover_client TEST ARGUMENT...: its connection is one that goes on.
failover_client()
{
	test=$1
	shift
	RDMAMSG_LOG=info "$perf" "$test" "$addr" -p "$port" --event \
		--failover="$addr" "$@" >"$work/$test" 2>&1 &
	client=$!
	await tells '[^ ]* rdmamsg: info: context 0: .* -> .*: connected on soft0'
}

# tells PATTERN: the client has said so, or it has ended.
tells()
{
	grep -q "^$1" "$work/$test" ||
		grep -q '^State:.*zombie' /proc/$client/status
}

# The client's device goes and comes back.
lose_device()
{
	"$ctl" -p $client remove || return 0
	await tells 'rdmamsg-perf: path down: '
	"$ctl" -p $client add || return 0
	await tells 'rdmamsg-perf: path resumed: '
}

# Devices are lost at each step of short runs, not only amid messages.
lose_device_between_runs()
{
	for test in lat bw lat read-lat lat
	do
		failover_client $test -s "$(seq -s, 1 60)" -n 500
		lose_device
		wait $client || {
			cat "$work/$test"
			return 1
		}
		client=
	done
}

perf_failover()
{
	RDMAMSG_DEVICE=soft RDMAMSG_SOFT_FABRIC=perf-$$
	export RDMAMSG_DEVICE RDMAMSG_SOFT_FABRIC
	start "$perf" server -a "$addr" -p 0
	failover_client lat -s 64 -n 10000000 --check
	lose_device
	# without a client, its output says why
	kill -INT $client || :
	wait $client || :
	client=
	cat "$work/lat"
	grep -q '^longest .* noticed, .* without a connection; 1 other' \
		"$work/lat"
	lose_device_between_runs
	end_server TERM 0
}

# A signal is sent until the program has a handler: the shell lets programs in
# the background ignore SIGINT before that.
# device_returns SERVER...: the server's device is removed, and comes back.
device_returns()
{
	RDMAMSG_SOFT_FABRIC=returns-$$
	export RDMAMSG_SOFT_FABRIC
	start "$@"
	returns 0 "$ctl" -p "$server" remove
	await grep -q "not listening on port $port: .*again when" \
	    "$work/server"
	# closing the last device may have ended the node
	timeout 100 "$ctl" -p "$server" add || :
}

perf_device_returns()
{
	device_returns "$perf" server -a 127.0.0.1 -d soft -p 0
	await "$perf" lat -n 10 -p "$port" 127.0.0.1
	end_server TERM 0
}

perf_interrupted()
{
	start "$perf" server -a "$addr" -p 0
	RDMAMSG_LOG=info "$perf" lat "$addr" -p "$port" -n 100000000 \
		>told 2>&1 &
	client=$! status=0
	await grep -q connected told
	while kill -INT $client 2>/dev/null
	do
		sleep 0.1
	done
	wait $client || status=$?
	client=
	[ $status -eq 130 ]
	expects told interrupted
	end_server TERM 0
}

# The server names a client that ends, in a few lines for many connections.
perf_client_killed()
{
	start "$perf" server -a "$addr" -p 0 --event
	RDMAMSG_LOG=info "$perf" conns "$addr" -p "$port" -n 500 --event \
		>told 2>&1 &
	client=$!
	await eval '[ "$(grep -c connected told)" -gt 100 ]'
	kill -KILL $client
	wait $client || :
	client=
	await grep -q "client .*: [0-9]* more of its connections" "$work/server"
	grep -q 'rdmamsg-perf: client [0-9a-f.:]*: ' "$work/server"
	[ "$(grep -c rdmamsg-perf: "$work/server")" -le 4 ]
	end_server TERM 0
}

perf_mistakes()
{
	start "$perf" server -a "$addr" -p 0
	end_server TERM 0
	for test in lat tune conns
	do
		complains 1 "$addr: .*nobody listens on port $port.*: start 'rdmamsg-perf server'" \
			"$perf" $test "$addr" -p "$port"
	done
	complains 1 "'no-such-service' is neither" \
		"$perf" lat "$addr" -p no-such-service
	complains 1 "is named ''" "$info" -d ''
	complains 1 'cannot resolve host.invalid port 7471: ' \
		"$perf" lat host.invalid
	complains 1 'named no-such-device' "$perf" server -d no-such-device
	complains 2 "'late' is no test" "$perf" late "$addr"
	complains 2 'lat: HOST is missing; see --help' "$perf" lat
	complains 2 'lat: HOST is missing; see --help' "$perf" lat ''
	complains 2 "'b': one operand too many" "$perf" lat a b
	complains 2 "'a:7471': the port goes to -p" "$perf" lat a:7471
	complains 2 '0 is for the server' "$perf" lat a -p 0
	complains 2 '--once is not an option of lat' "$perf" lat a --once
	complains 2 '-s 4x: ' "$perf" lat a -s 4x
	complains 2 '-n 0: ' "$perf" lat a -n 0
	complains 2 'not both' "$perf" lat a --poll --event
	start "$perf" server -a "$addr" -p 0
	complains 1 "port is in use" \
		"$perf" server -a "$addr" -p "$port"
	end_server TERM 0
	# other servers
	start "$bin/echo" "$addr" 0
	for test in lat conns
	do
		complains 1 "no server of rdmamsg-perf 5 listens on port $port" \
			"$perf" $test "$addr" -p "$port"
	done
	stop_server
	start_copy
	complains 1 "says 'this is rdmamsg-copy " \
		"$perf" lat "$addr" -p "$port"
	end_server TERM 0
}

conns()
{
	start "$bin/rdmamsg-perf" server -a "$addr" -p 0 --srq --event
	returns 0 "$bin/rdmamsg-perf" conns "$addr" -p "$port" -n 20 --srq \
		--json --event
	said '"connections": 20, '
	end_server TERM 0
}

# json_is KEY VALUE...: the last client's objects have these values, in order.
json_is()
{
	key=$1
	shift
	sed -n "s/.*\"$key\": \"\{0,1\}\([^\",}]*\).*/\1/p" "$work/said" >is
	printf '%s\n' "$@" | cmp -s - is || {
		echo "$key:" "$(cat is)" "instead of" "$@"
		return 1
	}
}

# At least three runs warm up, and the output says how many messages they are.
# Without -n, the count grows until the figures stay or the time is over.
perf_warm()
{
	start "$perf" server -a "$addr" -p 0
	client lat -s 64,4K -n 200 --event --json
	json_is count 200 200
	json_is cold false false
	json_is moving false false
	sed -n 's/.*"warmup": \([0-9]*\).*/\1/p' "$work/said" |
		while read -r warmup
		do
			[ "$warmup" -ge 60 ]
		done
	client lat -s 64 -n 200 --event
	said ' left out$'
	client read-lat -s 64,4K --cold -n 20 --event --json
	json_is count 20 20
	json_is warmup 0 0
	json_is cold true true
	client bw -s 64K --event --json
	# the first run has 4096 messages
	[ "$(sed -n 's/.*"count": \([0-9]*\).*/\1/p' "$work/said")" -ge 4096 ]
	client lat -s 64,4K --pause=100 --event --json
	json_is count 16 16
	json_is pause_ms 100 100
	client lat -s 64 --pause=1 -n 20 --event
	said '; the first after a pause of 1 ms$'
	complains 2 'cold or --pause' "$perf" lat a --cold --pause=1
	complains 2 'cold or --failover' "$perf" lat a --cold --failover=b
	complains 2 '--cold is not an option of tune' "$perf" tune a --cold
	end_server TERM 0
}

# --steps: each test, the sizes and their counts, and what it refuses.
perf_steps()
{
	start "$perf" server -a "$addr" -p 0
	for test in lat rate bw read-lat write-bw read-bw
	do
		client $test --steps=1:2K:1K -n 20 --event
		said '^largest step: 1 to 1025 bytes: '
		[ "$(wc -l <"$work/said")" -eq 1 ]
	done
	client lat --steps=64:128 -n 22 --event --json --check \
		--failover="$addr"
	json_is size 64 80 96 112 128
	json_is count 22 22 22 22 22
	json_is test lat lat lat lat lat lat
	tail -n 2 "$work/said" | head -n 1 | grep -q '^{"test": "lat", "step_from": [0-9]*, "step_to": [0-9]*, "step_times": [0-9.]*, "moving": [a-z]*}$'
	tail -n 1 "$work/said" | grep -q longest_gap_ms
	# without what --failover says of paths
	grep '^{' "$work/said" >steps.json
	returns 0 "$perf" plot steps.json
	said '^ *128 bytes'
	client rate --steps=0:32:8 -n 3 --event --json
	json_is size 0 8 16 24 32
	json_is count 3 3 3 3 3
	end_server TERM 0
	complains 2 '--steps 8:4: FROM is above TO; ' \
		"$perf" lat a --steps=8:4
	complains 2 '--steps 4:8:0: STEP is at least 1; ' \
		"$perf" lat a --steps=4:8:0
	complains 2 '--steps 4:19: one size has no step: ' \
		"$perf" lat a --steps=4:19
	complains 2 '--steps 0:16K:1: at most 16384 sizes; ' \
		"$perf" lat a --steps=0:16K:1
	complains 2 '--steps 1:2G: at most 2147483647 bytes; ' \
		"$perf" lat a --steps=1:2G
	for wrong in '' 4 4: :4 4:8: 4:8:1: 4:8:1:1 4,8 4:8x -4:8
	do
		complains 2 "^rdmamsg-perf: --steps $wrong: FROM:TO\[:STEP\] are" \
			"$perf" lat a --steps="$wrong"
	done
	for other in -s4 --cold --pause=1 --hist --plot=-
	do
		complains 2 '^rdmamsg-perf: --steps or -.*, not both; ' \
			"$perf" bw a --steps=4:64 $other
	done
	complains 2 'atomic operations are on 8 bytes' \
		"$perf" atomic-lat a --steps=4:64
	complains 2 'one-sided tests need a byte' \
		"$perf" read-lat a --steps=0:64
	complains 2 '--steps is not an option of conns' \
		"$perf" conns a --steps=4:64
}

# rivals NAME...: compare had these, and each of the first three figures.
rivals()
{
	sed -n 's/^{"rival": "\([^"]*\).*/\1/p' said >rivals
	printf '%s\n' "$@" | cmp -s - rivals || {
		echo "rivals:" "$(cat rivals)" "instead of" "$@"
		return 1
	}
	! grep -q '"\(usec\|msg_per_s\|gb_per_s\)": 0\.0*[,}]' said
}

# Sends SIGINT to $client, which has processes of its own, until it has ended.
ends_by_sigint()
{
	status=0
	await has_children $client
	while kill -INT $client 2>/dev/null
	do
		sleep 0.1
	done
	wait $client || status=$?
	client=
	[ $status -eq 130 ]
	expects told '^rdmamsg-perf: interrupted$'
}

# compare ends by SIGINT, and leaves no process.
compare_interrupted()
{
	# these words are in the command line of its processes only
	"$perf" compare -a "$addr" -n 101 --only="rdmamsg,$work" >told 2>&1 &
	client=$!
	ends_by_sigint
	! command -v pgrep >/dev/null || not pgrep -f "only=rdmamsg,$work"
}

has_children()
{
	[ -n "$(cat /proc/"$1"/task/*/children)" ]
}

perf_compare()
{
	returns 0 "$perf" compare -a "$addr" -n 1 --only=rdmamsg,TCP --json \
		-s 100,100K
	rivals 'rdmamsg, polling' 'rdmamsg, events' 'TCP, epoll' \
		'TCP, busy poll'
	json_is size 100 100 100 100
	json_is large 102400 102400 102400 102400
	not grep -v '"warmup": [1-9]' said
	complains 1 'no such rival' "$perf" compare --only=nobody
	complains 1 'at most 101 rounds' "$perf" compare -n 102
	complains 1 'may not use processor 1023' "$perf" compare --cpus=0,1023
	complains 2 'two different processors' "$perf" compare --cpus=1,1
	complains 2 'two different processors' "$perf" compare --cpus=1
	complains 2 'takes two sizes' "$perf" compare -s 1,2,3
	complains 2 'needs a byte' "$perf" compare -s 0
	complains 2 "'x': one operand too many" "$perf" compare x
	complains 2 '--cpus is not an option of lat' "$perf" lat a --cpus=0,1
	complains 2 '--poll is not an option of compare' "$perf" compare --poll
	# without its tool; its driver may be there
	mkdir none
	env PATH="$work/none" "$perf" compare -n 1 --only=ucx >told 2>&1 || :
	expects told '^rdmamsg-perf: UCX, its tool is not installed$'
	compare_interrupted
}

# driver_of NAME: rdmamsg-perf was built with its headers
driver_of()
{
	grep -qi "^#define HAVE_$1 1" "$build/config.h"
}

# The drivers of other libraries, where they were built.
perf_compare_drivers()
{
	for name in UCX libfabric
	do
		driver_of $name || {
			returns 1 env PATH=/nowhere "$perf" compare --only=$name
			said "^rdmamsg-perf: $name has no driver: built without"
			continue
		}
		env PATH=/nowhere UCX_TLS=self,cma,posix "$perf" compare \
			-a "$addr" -n 1 --json --only=$name -s 1,100K \
			>said 2>told || {
			cat told
			return 1
		}
		# the value that it had, not the one that it has without
		[ $name = libfabric ] ||
			expects said '; UCX_TLS=self,cma,posix", "tool"'
		expects told "^rdmamsg-perf: $name, its tool is not installed$"
		rivals $name
	done
}

# fake TOOL LINE: makes a tool that prints the line as a client.
fake()
{
	mkdir -p fake
	{
		echo '#!/bin/sh'
		# shellcheck disable=SC2016 # that shell expands
		echo 'case "$*" in -h) exit ;; *127.0.0.1*) ;;'
		echo '*) exec /bin/sleep 100 ;; esac'
		echo "echo '$2'"
	} >fake/"$1"
	chmod +x fake/"$1"
}

# The tools are below their drivers, and better than those.
perf_compare_behind()
{
	fake ucx_perftest 1,1e-5,1e-5,1e-5,1e9,1e9,1e15,1e15
	fake fi_pingpong '64 1k =1k 0 0s 1 1e-5 1'
	returns 0 env PATH="$PWD/fake" "$perf" compare -a "$addr" -n 1 \
		--only=tcp,ucx,libfabric
	for name in UCX libfabric
	do
		driver_of $name || continue
		grep -A 1 "^$name " said | tail -n 1 |
			grep "^$name, its tool  *0.000 "
		said "^$name: the latency of its tool is [0-9]* % better than"
	done
	not said '^TCP.* better'
	driver_of UCX || return 0
	said '^UCX: the rate of its tool is [0-9]* % better'
	said '^UCX: the bandwidth of its tool is [0-9]* % better'
	returns 0 env PATH="$PWD/fake" "$perf" compare -a "$addr" -n 1 \
		--only=ucx --json
	said '^rdmamsg-perf: UCX: the latency of its tool is [0-9]* % better'
	# within 5 percent, or worse
	fake ucx_perftest 1,1e9,1e9,1e9,1e-9,1e-9,1,1
	returns 0 env PATH="$PWD/fake" "$perf" compare -a "$addr" -n 1 --only=ucx
	not said 'better'
}

# The tools of other libraries, where they are.
perf_compare_tools()
{
	names=
	! command -v ucx_perftest >/dev/null || names=UCX
	! command -v fi_pingpong >/dev/null || names=$names,libfabric
	[ -n "$names" ] || return 0
	returns 0 "$perf" compare -a "$addr" -n 1 --only="$names,zero" -s 64,100K
	said "^\(UCX\|libfabric\), its tool  *[0-9.]* "
}

# drawn FILE: draws two files of results.
drawn()
{
	returns 0 "$perf" plot poll.json event.json --plot="$1"
	test -s "$1"
}

# Several runs, overlaid, as text and as pictures.
perf_plot()
{
	start "$perf" server -a "$addr" -p 0
	client lat -s 64,4K -n 300 --poll --json
	cp said poll.json
	client lat -s 64,4K -n 300 --event --json
	cp said event.json
	client bw -s 4K -n 300 --event --json
	cat said >>event.json
	returns 0 "$perf" lat "$addr" -p "$port" -n 20 --json --failover="$addr"
	cat said >>event.json	# and a line of another kind
	returns 0 "$perf" plot poll.json event.json
	said '^poll.json: lat, .*, poll: microseconds over bytes'
	said '^event.json: lat, .*, event: microseconds over bytes'
	returns 0 "$perf" plot poll.json --plot=-
	said '^poll.json: lat, .*, 64 bytes: microseconds over time'
	# no gnuplot: the text, and no file
	returns 1 env PATH=/nowhere "$perf" plot poll.json --plot=none.svg
	said '^rdmamsg-perf: none.svg is not drawn, because gnuplot is not'
	said '^poll.json: lat, '
	not test -e none.svg
	if command -v gnuplot >/dev/null
	then
		# a name is no command
		cp poll.json "'.\`touch oops\`"
		returns 0 "$perf" plot "'.\`touch oops\`" --plot=name.svg
		not test -e oops
		drawn both.svg
		expects both.svg '</svg>'
		expects both.svg 'event.json: lat'
		returns 0 "$perf" plot poll.json event.json --compact \
			--plot=small.svg
		expects small.svg 'poll.json: lat.*p99.9'
		expects small.svg 'event.json: bw, .*, event<'
		not grep 'over time' small.svg
		[ "$(wc -c <small.svg)" -lt 25000 ]
		drawn both.png
		[ "$(head -c 4 both.png | tail -c 3)" = PNG ]
		client lat -s 64 -n 300 --event --json --plot=run.svg
		expects run.svg 'latency over time'
	fi
	complains 1 'no.json: No such file' "$perf" plot no.json
	echo '{"test": "lat", "usec_p50": 1' >wrong.json
	complains 1 'wrong.json: line 1 is no object' "$perf" plot wrong.json
	: >empty.json
	complains 1 'empty.json: no results' "$perf" plot empty.json
	complains 1 'Is a directory' "$perf" plot .
	head -c 100000 /dev/urandom >random.json
	complains 1 'random.json: line 1 is no object' "$perf" plot random.json
	complains 1 'nowhere/x.svg: No such file' \
		"$perf" plot poll.json --plot=nowhere/x.svg
	complains 2 'FILE.svg, FILE.png or -' "$perf" plot a --plot=x.pdf
	complains 2 'plot: FILE is missing' "$perf" plot
	complains 2 '--size is not an option of plot' "$perf" plot a -s 4
	complains 2 '--json or --hist' "$perf" lat a --json --hist
	end_server TERM 0
}

# Each path is tried, and the settings are printed.
perf_tune()
{
	start "$bin/rdmamsg-perf" server -a "$addr" -p 0
	returns 0 "$bin/rdmamsg-perf" tune "$addr" -p "$port" -n 3 || return
	said 'settings for rdmamsg_ep_tuning(3):'
	said '^inline_max = '
	said '^eager_max = '
	said '^pieces_max = '
	end_server TERM 0
}

# group_lat OPTION...: publisher and subscribers, with the tool for --drop
group_lat()
{
	returns 0 env PATH="${ctl%/*}:$PATH" "$perf" group-lat -a "$addr" \
		--event "$@"
}

# json_some KEY: the last client's objects have it, and it is not 0.
json_some()
{
	said "\"$1\": "
	not said "\"$1\": 0[.,]"
}

# group_option OPTION: of group-lat alone
group_option()
{
	case $1 in
	rate)	group_lat -n 100 --rate=500
		said '^group-lat on .*, events, 500 messages/s to 1 subscriber, '
		said '^ *64  *100 ' ;;
	time)	group_lat --rate=200 --time=1 --json
		json_is count 200 ;;
	subscribers)
		group_lat -n 100 --rate=500 --subscribers=3
		said ' to 3 subscribers, repair, 0 % dropped; ' ;;
	group)	group_lat -n 100 --rate=500 --group=239.255.1.2 --json
		json_is group 239.255.1.2 ;;
	drop)	on_soft_hca || {
			complains 1 'only the soft HCA loses datagrams' \
				"$perf" group-lat -a "$addr" --event --drop=1
			return
		}
		group_lat -n 1000 --rate=1000 --drop=5
		said ', repair, 5 % dropped; '
		said '^repaired: [0-9]* messages, p50 [0-9.]*, p90 [0-9.]*, p99 [0-9.]*, p99.9 [0-9.]*$' ;;
	no-repair)
		group_lat -n 100 --rate=500 --no-repair --json
		json_is repair false ;;
	unordered)
		group_lat -n 100 --rate=500 --unordered
		said ', repair without order, ' ;;
	esac
}

# Two subscribers miss 3 percent. All is repaired, or all that is missing is told.
# So few messages that the publisher keeps them all, however late a repair is.
perf_group()
{
	start "$perf" server -a "$addr" -p 0
	group_lat -s 64,3000 -n 3000 --rate=1500 -S 2 --drop=3 --json
	json_is test group-lat group-lat
	json_is size 64 3000
	json_is count 3000 3000
	json_is subscribers 2 2
	json_is repair true true
	json_is overtaken 0 0
	json_is lost 0 0
	json_is gaps 0 0
	json_is errors 0 0
	for key in repeated asked repaired usec_p50 usec_max usec_repaired_p50 \
		usec_repaired_p90 usec_repaired_p99 usec_repaired_p999 warmup
	do
		json_some $key
	done
	cp said repaired.json
	# no other program of the fabric loses anything
	returns 0 "$ctl" list
	said 'rdmamsg-perf'
	not said 'drop='
	group_lat -n 1500 --rate=1500 --drop=3 --no-repair --json
	json_is errors 0
	json_is repeated 0
	json_is repaired 0
	json_some lost
	json_some gaps
	cat said >>repaired.json
	returns 0 "$perf" plot repaired.json
	said '^repaired.json: group-lat, .*, event: microseconds over bytes'
	# what is repaired holds up nothing, and all comes once
	group_lat -s 64,3000 -n 1500 --rate=1500 --drop=3 --unordered --json
	json_is unordered true true
	json_is lost 0 0
	json_is errors 0 0
	json_some repaired
	json_some overtaken
	group_lat -n 1000 --rate=1000 --drop=5 --hist
	said '^repaired: '
	# a table of all, and one of those that were repaired
	awk '/^the repaired messages alone:$/ { at++ } / us .*% [#.]/ { n[at] += $5 }
	     /^repaired: / { repaired = $2 }
	     END { exit at != 1 || n[""] != 1000 || n[1] != repaired }' said
	group_lat -n 200 --rate=1000 --hist --plot=-
	not said '^the repaired messages'
	said ' lost  *gaps  *repeated  *asked  *left out$'
	said '^the publisher was at most [0-9.]* behind the schedule$'
	said '^ *[0-9.]* to  *[0-9.]* us  *[0-9]*  *[0-9.]*% [#.]'
	said ', 64 bytes: microseconds over time, from '
	# without the tool
	complains 1 '--drop: rdmamsg-soft-ctl: No such file' env PATH=/nowhere \
		"$perf" group-lat -a "$addr" --event --drop=1
	end_server TERM 0
}

# number_of KEY: prints it as the file said has it, without a fraction.
number_of()
{
	sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" said
}

# A publisher that is stopped again and again counts as late: its messages keep
# the time that they have in the schedule.
perf_group_late()
{
	"$perf" group-lat -a "$addr" --event --rate=100 -n 800 --json \
		>said 2>&1 &
	client=$! status=0
	# both are in the fabric, which a stopped process lets nobody into
	await eval '[ "$("$ctl" list 2>/dev/null | grep -c rdmamsg-perf)" -eq 2 ]'
	await eval '"$ctl" list 2>/dev/null | grep -q "group"'
	publisher=$(cut -d ' ' -f 1 /proc/$client/task/$client/children)
	while kill -STOP "$publisher" 2>/dev/null
	do
		sleep 0.5
		kill -CONT "$publisher" || :
		sleep 0.1
	done
	wait $client || status=$?
	client=
	cat said
	[ $status -eq 0 ]
	[ "$(number_of usec_late)" -gt 400000 ]
	[ "$(number_of usec_max)" -ge "$(number_of usec_late)" ]
}

perf_group_mistakes()
{
	complains 1 'not a multicast address' "$perf" group-lat -a "$addr" \
		--group=127.0.0.1
	complains 1 'a rate of [0-9]* at most$' "$perf" group-lat -a "$addr" \
		--event --rate=50000 -s 64K
	complains 2 '--rate 0: a number from 1' "$perf" group-lat --rate=0
	complains 2 '-S 65: a number from 1 to 64' "$perf" group-lat -S 65
	complains 2 '--drop 100: a percentage' "$perf" group-lat --drop=100
	complains 2 '--drop nan: a percentage' "$perf" group-lat --drop=nan
	complains 2 'at least 16 bytes' "$perf" group-lat -s 15
	complains 2 '-n or --time, not both' "$perf" group-lat -n 1 --time=1
	complains 2 '--no-repair or --unordered' \
		"$perf" group-lat --no-repair --unordered
	complains 2 'at most 100000000 messages' \
		"$perf" group-lat --rate=1M --time=3600
	complains 2 '--json or --hist' "$perf" group-lat --json --hist
	complains 2 "'x': one operand too many" "$perf" group-lat x
	complains 2 '--drop is not an option of lat' "$perf" lat a --drop=1
	complains 2 '--port is not an option of group-lat' "$perf" group-lat -p 1
	"$perf" group-lat -a "$addr" --event --rate=100 --time=3600 >told 2>&1 &
	client=$!
	ends_by_sigint
}

# checked TEST COUNT OPTION...: every byte of the messages is right.
checked()
{
	checked_test=$1 messages=$2
	shift 2
	client "$checked_test" -n "$messages" --check "$@"
}

# Messages of each path, one way and both ways; 50 MB of each size above 8 KB.
perf_checked()
{
	start "$perf" server -a "$addr" -p 0
	checked bw 1000 --event -s 64,8000,8K
	checked rate 300 --event --crc -s 64,8000
	checked lat 50 --event -s 64,8K
	checked bw 300 --poll -s 64,8K
	for size in 64K:16 1M:1
	do
		count=${size#*:} size=${size%:*}
		checked bw $((20 * count)) --event -s $size
		checked bw $((15 * count)) --event --crc -s $size
		checked rate $((5 * count)) --poll -s $size
		checked lat $((5 * count)) --event --crc -s $size
		checked lat $((5 * count)) --poll -s $size
	done
	checked bw 2 --event --crc -s 16M
	checked rate 1 --event -s 16M
	checked lat 1 --poll -s 16M
	end_server TERM 0
}

# 100,000 messages of each size up to 8 KB, 1 GB of each above.
perf_checked_long()
{
	start "$perf" server -a "$addr" -p 0
	for size in 64 1K 8000 8K
	do
		checked bw 40000 --event -s $size
		checked bw 30000 --event --crc -s $size
		checked rate 20000 --event -s $size
		checked rate 7000 --poll --crc -s $size
		checked bw 2000 --poll -s $size
		checked lat 500 --event -s $size
		checked lat 500 --poll --crc -s $size
	done
	for size in 64K:16 1M:1
	do
		count=${size#*:} size=${size%:*}
		checked bw $((500 * count)) --event -s $size
		checked bw $((300 * count)) --event --crc -s $size
		checked rate $((100 * count)) --poll -s $size
		checked lat $((60 * count)) --event --crc -s $size
		checked lat $((40 * count)) --poll -s $size
	done
	checked bw 30 --event --crc -s 16M
	checked rate 14 --event -s 16M
	checked bw 10 --poll -s 16M
	checked lat 5 --event -s 16M
	checked lat 5 --poll --crc -s 16M
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

# Sends a datagram to the loop's own socket, and reads the answer.
datagram()
{
	# a virtual machine has no such shell
	command -v bash >/dev/null || return 0
	udp=$(sed -n 's/^datagrams on port //p' "$work/server")
	# shellcheck disable=SC2016 # expanded by the other shell
	timeout 10 bash -c 'exec 3<>"/dev/udp/$1/$2" && echo beside >&3 &&
		dd bs=64 count=1 <&3' - "$addr" "$udp" 2>/dev/null |
		grep -qx beside
}

# loop_sample NAME: messages, datagrams, a report of the timer, and a signal
loop_sample()
{
	start "$bin/$1" "$addr"
	returns 0 "$bin/echo-client" "$addr" "$port" 'one two' '' three
	printf 'one two\n\nthree\n' | cmp - "$work/said"
	await datagram
	await grep -q '^3 messages, ' "$work/server"
	end_server TERM 0
}

# joins NAME: a client of the chat reads from the pipe NAME, until its pid's end.
joins()
{
	mkfifo "$1.in"
	"$bin/chat" join "$addr" "$port" <"$1.in" >"$1" 2>&1 &
	pids="$pids $!"
	eval "$1=$!"
}

# chat_starts [GRACE_MS]: a server and three clients, ann, bob and eve.
chat_starts()
{
	pids='' ann='' bob='' eve=''
	trap 'status=$?; kill -KILL $pids 2>/dev/null || :
	stop_server; exit $status' EXIT
	start "$bin/chat" serve "$addr" 0 "$@"
	joins ann
	exec 5>ann.in
	await grep -q '^0: welcome' ann
	joins bob
	exec 6>bob.in
	await grep -q '^0: welcome' bob
	joins eve
	exec 7>eve.in
	await grep -q '^0: welcome' eve
}

# chat_ends NAME STATUS
chat_ends()
{
	status=0
	eval "wait \$$1" || status=$?
	[ $status -eq "$2" ] || {
		cat "$1"
		return 1
	}
}

chat_sample()
{
	chat_starts
	echo 'hello all' >&5
	await grep -q '^1: hello all$' bob
	await grep -q '^1: hello all$' eve
	not grep -q hello ann
	seq 250 >&6	# a queue holds these
	await grep -q '^2: 250$' ann
	seq 250 >numbers
	sed -n 's/^2: //p' ann | cmp - numbers
	exec 7>&-	# eve leaves
	chat_ends eve 0
	expects "$work/server" '^client 3 has left: closed'
	end_server TERM 0
	chat_ends ann 0
	chat_ends bob 0
	expects ann 'closed by the peer'
	expects "$work/server" '^0 connections did not end gracefully'
}

# ann_writes COUNT: eve has the lines before there are more than her queue holds
ann_writes()
{
	for last in $(seq 200 200 "$1")
	do
		seq $((last - 199)) "$last" >&5
		await grep -q "^1: $last\$" eve
	done
}

# A client that is slow for a while misses lines, and is told how many.
chat_slow()
{
	chat_starts 600000
	kill -STOP "$bob"
	ann_writes 1000
	kill -CONT "$bob"
	await grep -q '^0: you have missed [0-9]* lines' bob
	missed=$(sed -n 's/^0: you have missed \([0-9]*\) .*/\1/p' bob)
	[ "$(($(grep -c '^1: ' bob) + missed))" -eq 1000 ]
	end_server TERM 0
	chat_ends bob 0
}

# A client that stays slow is dropped, and the others go on.
chat_dropped()
{
	chat_starts 1
	kill -STOP "$bob"
	ann_writes 1000
	await grep -q '^client 2 has left: ' "$work/server"
	expects "$work/server" '^client 2 is too slow'
	kill -CONT "$bob"
	chat_ends bob 1
	end_server TERM 0
	chat_ends eve 0
}

# Answers come in any order, and a call ends once, whatever ends it.
rpc_sample()
{
	start "$bin/rpc" serve "$addr" 0
	returns 0 "$bin/rpc" call "$addr" "$port" 'sleep 500' 'upper one' \
		'50:sleep 600000' 'divide 0' 'cancel:sleep 600000'
	said '^sleep 500: awake$'
	said '^upper one: ONE$'
	said '^sleep 600000: the deadline is over; the server may have done it$'
	said '^divide 0: error: no such function$'
	said '^sleep 600000: cancelled; '
	[ "$(wc -l <said)" -eq 5 ]
	await grep -q '^call 3 is cancelled' "$work/server"
	end_server TERM 0
}

# A call that waits behind others is cancelled before the server has it.
rpc_many()
{
	start "$bin/rpc" serve "$addr" 0
	# shellcheck disable=SC2046 # words
	returns 0 "$bin/rpc" call "$addr" "$port" \
		$(seq -f 'cancel-not-%g' 500) 'cancel:upper it' >/dev/null
	[ "$(grep -c '^cancel-not-[0-9]*: error: no such' said)" -eq 500 ]
	said '^upper it: cancelled; never sent$'
	end_server TERM 0
	not grep -q cancelled "$work/server"
}

# Calls under way fail with the reason of the connection.
rpc_killed()
{
	start "$bin/rpc" serve "$addr" 0
	"$bin/rpc" call "$addr" "$port" 'upper first' 'sleep 600000' \
		>told 2>&1 &
	client=$!
	await grep -q '^upper first: FIRST' told
	kill -KILL "$server"
	status=0
	wait $client || status=$?
	[ $status -eq 1 ]
	expects told '^sleep 600000: failed: .*killed'
	stop_server
	returns 1 "$bin/rpc" call "$addr" "$port" 'upper more'
	said '^upper more: failed: '
}

# follows NAME: a follower of the table
follows()
{
	"$bin/snapshot" follow 239.77.77.78 "$addr" "$port" 3000 >"$1" 2>&1 &
	eval "$1=$!"
	await grep -q '^the table has' "$1"
}

# ends_alike NAME: the follower has the publisher's table.
ends_alike()
{
	eval "wait \$$1" || {
		cat "$1"
		return 1
	}
	expects "$1" "$(grep '^the sum is' "$work/server")"
}

# One follower comes before the first change, and one in the middle.
snapshot_late()
{
	start "$bin/snapshot" publish 239.77.77.78 "$addr" 0 3000
	follows early
	await grep -q '^200 changes' "$work/server"
	follows late
	await grep -q '^the sum is' "$work/server"
	ends_alike early
	ends_alike late
	had=$(sed -n 's/^the table has \([0-9]*\) .*/\1/p' late | head -n 1)
	[ "$had" -ge 200 ]
	end_server TERM 0
}

# hundreds: the lines of the publisher that count its changes
hundreds()
{
	grep -c ' changes$' "$work/server"
}

has_hundreds()
{
	[ "$(hundreds)" -ge "$1" ]
}

# A follower is cut off while the publisher makes 400 changes or more, of which it
# keeps the last 256. The others are lost, and the follower asks for the table.
snapshot_lost()
{
	RDMAMSG_DEVICE=soft RDMAMSG_SOFT_FABRIC=snapshot-$$
	export RDMAMSG_DEVICE RDMAMSG_SOFT_FABRIC
	addr=127.0.0.1
	start "$bin/snapshot" publish 239.77.77.78 "$addr" 0 3000
	follows cut
	# shellcheck disable=SC2154 # follows has set it
	returns 0 "$ctl" -p "$cut" port all blackhole
	await has_hundreds $(($(hundreds) + 5))
	returns 0 "$ctl" -p "$cut" port all up
	ends_alike cut
	expects cut 'changes are lost$'
	[ "$(grep -c '^the table has' cut)" -ge 2 ]
	end_server TERM 0
}

# cxx20 ARGUMENT...: a compiler that has coroutines, if there is one
cxx20()
{
	# shellcheck disable=SC2086 # words
	${CXX:-c++} -std=c++20 "$@"
}

has_coroutines()
{
	echo '#include <coroutine>' |
		cxx20 -fsyntax-only -x c++ - >/dev/null 2>&1
}

coroutine_sample()
{
	cxx20 -Wall -Wextra -Werror -I"$samples/../include" -o coroutine \
		"$samples/coroutine.cc" "$build/.libs/librdmamsg.so"
	LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	export LD_LIBRARY_PATH
	returns 0 ./coroutine "$addr"
	said '^1000 messages there and back: closed$'
	complains 2 'Usage: coroutine ADDR' ./coroutine
}

# recipe_flags NAME: prints what samples/loops/NAME needs beside rdmamsg, or fails
recipe_flags()
{
	case $1 in
	epoll)	echo '#include <sys/epoll.h>' |
			${CC:-cc} -x c -fsyntax-only - ;;
	asio)	echo '#include <boost/asio/posix/stream_descriptor.hpp>' |
			${CXX:-c++} -x c++ -fsyntax-only - && echo -pthread ;;
	qt)	pkg-config --cflags --libs Qt6Core ||
			pkg-config --cflags --libs Qt5Core ;;
	sd-event) pkg-config --cflags --libs libsystemd ;;
	io-uring) pkg-config --cflags --libs liburing && has_io_uring ;;
	esac 2>/dev/null
}

# Kernels and containers can do without.
has_io_uring()
{
	cat >"$work/ring.c" <<\END
#include <liburing.h>

int main(void)
{
	struct io_uring ring;

	return io_uring_queue_init(2, &ring, 0) != 0;
}
END
	# shellcheck disable=SC2046 # words
	${CC:-cc} -o "$work/ring" "$work/ring.c" \
		$(pkg-config --cflags --libs liburing) && "$work/ring"
}

# recipe FILE FLAGS: compiles and runs samples/loops/FILE
recipe()
{
	case $1 in
	*.cc)	compiler=${CXX:-c++} ;;
	*)	compiler=${CC:-cc} ;;
	esac
	# shellcheck disable=SC2086 # words
	$compiler -Wall -Wextra -Werror -Wno-unused-parameter -fPIC \
		-I"$samples/../include" -o recipe "$samples/loops/$1" \
		"$build/.libs/librdmamsg.so" $2
	LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	export LD_LIBRARY_PATH
	[ "$1" != epoll.c ] || {
		recipe_runs edge
		recipe_runs one-shot
		set -- "$1" "$2" level
	}
	recipe_runs ${3+"$3"}
	complains 2 "Usage: ${1%.*} .*ADDR" ./recipe
}

# recipe_runs [MODE]
recipe_runs()
{
	returns 0 ./recipe "$@" "$addr"
	said ': 1000 messages there and back$'
}

# Each of the two says hello to the other, also when the client comes first.
hello()
{
	"$bin/hello" >heard &
	pid=$!
	await "$bin/hello" "$addr" >said
	wait "$pid"
	[ "$(cat heard said)" = "$(printf 'hello\nhello')" ]
}

# atomics_sample HOW: of one after the other and many at once, each has a seat
atomics_sample()
{
	start "$bin/atomics" "$addr"
	for seat in 0 1 2
	do
		returns 0 "$bin/atomics" "$addr" "$port"
		said "^extended atomics: $1"
		said "^seat $seat\$"
	done
	pids=
	for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14
	do
		"$bin/atomics" "$addr" "$port" >"seat-$n" &
		pids="$pids $!"
	done
	for pid in $pids
	do
		wait "$pid"
	done
	cat seat-* | sed -n 's/^seat //p' | sort -n | tr '\n' ' ' >seats
	[ "$(cat seats)" = '3 4 5 6 7 8 9 10 11 12 13 14 15 16 ' ]
	await grep -q '^seats 1ffff 16 1 0 0$' "$work/server"
}

# squares PATH [-n]: the members of a team, of each size from 1 to 5, all have
# the same sum, by this path.
squares()
{
	path=$1
	shift
	first=$((20000 + $$ % 20000))
	for size in 1 2 3 5
	do
		pids=
		rank=$size	# the last one starts first
		while [ $rank -gt 0 ]
		do
			rank=$((rank - 1))
			"$bin/allreduce" "$@" "$addr" $first $rank $size \
				>"member-$rank" &
			pids="$pids $!"
		done
		for pid in $pids
		do
			wait "$pid"
		done
		cat member-? >members
		rm member-?
		[ "$(grep -c ', all: 333833500$' members)" -eq $size ]
		# alone, a member has nobody to run natively with
		[ $size -eq 1 ] ||
			[ "$(grep -c ", $path: " members)" -eq $size ]
		first=$((first + size))
	done
}

allreduce_sample()
{
	squares 'in the loop'
}

# Only the soft HCA has cross-channel queue pairs.
allreduce_native()
{
	if on_soft_hca
	then squares native -n
	else squares 'in the loop' -n
	fi
}

# A column has rows 0 to 19, each 1000 above the one before, from 7 * 5 * 5 on.
layout_sample()
{
	start "$bin/layout" "$addr"
	returns 0 "$bin/layout" "$addr" "$port"
	said '^column 5: 175 to 19175, sum 193500$'
	said '^halo: 50 steps, as in one piece$'
	sum=$(sed -n 's/^received a column of sum //p' "$work/said")
	[ "${sum:-0}" -gt 0 ]
	await grep -qx "sent a column of sum $sum" "$work/server"
	await grep -q '^halo: 50 steps, as in one piece$' "$work/server"
	wait "$server"
	server=
}

layout_software()
{
	RDMAMSG_SOFT_LAYOUTS=none
	export RDMAMSG_SOFT_LAYOUTS
	layout_sample
}

# dc_notes SESSIONS [-c]: four addresses of one board, and then one that nobody
# listens at.
dc_notes()
{
	sessions=$1
	shift
	start "$bin/dc" "$@" "$addr"
	returns 0 "$bin/dc" "$@" "$addr" "$addr" "$port" "$port" "$port" "$port"
	said "^4 notes, [0-9]* connections begun, $sessions sessions\$"
	said '^4 read back, at most 3 before them$'
	for note in 0 1 2 3
	do
		await grep -q "^note $note\$" "$work/server"
	done
	returns 1 "$bin/dc" "$@" "$addr" "$addr" "$port" 9
	returns 0 "$bin/dc" "$@" "$addr" "$addr" "$port"
	said '^1 notes'
	said '^1 read back, at most [45] before them$'
	# the board is told of each use of a wrong access key
	returns 1 "$bin/dc" "$@" -w "$addr" "$addr" "$port"
	await grep -q '^a wrong access key, 1 so far' "$work/server"
	complains 2 'Usage: dc \[-c\] ' "$bin/dc" "$@" "$addr" "$addr"
}

# on_soft_hca: the device is the soft HCA, inside the library or below libibverbs
on_soft_hca()
{
	[ "${RDMAMSG_DEVICE-}" = soft ] || [ "${RDMAMSG_SOFT_FABRIC-}" ]
}

# Only the soft HCA has DC.
dc_sample()
{
	if on_soft_hca
	then dc_notes '[1-9]'
	else dc_notes 0
	fi
}

dc_connections()
{
	dc_notes 0 -c
}

# Native where the device has extended atomics, which only the soft HCA has.
atomics_native()
{
	if on_soft_hca
	then atomics_sample native
	else atomics_sample software
	fi
}

atomics_software()
{
	RDMAMSG_SOFT_ATOMICS=plain
	export RDMAMSG_SOFT_ATOMICS
	atomics_sample software
}

rc_pingpong()
{
	start "$bin/rc-pingpong" -p 0
	returns 0 "$bin/rc-pingpong" -p "$port" "$@" "$addr"
	said "^host: $addr\$"
	said "^TCP port: $port\$"
	said "^received: 'SEND operation '"
	said "^read there: 'RDMA read operation '"
	said '^test result is 0'
	wait "$server"
	server=
	grep -q "^written here: 'RDMA write operation'" "$work/server"
	grep -q '^test result is 0' "$work/server"
}

# A device is taken by its name, and its GID by number. What does not exist is
# refused.
rc_pingpong_device()
{
	rc_pingpong
	said '^device: one that suits$'
	device=$(sed -n 's/^connected on \([^ ]*\) port.*/\1/p' "$work/said")
	[ "$device" ]
	returns 0 "$info" -v -d "$device"
	gid=$(sed -n "s/^ *GID\[\(.*\)\]: ::ffff:$addr, .*/\1/p" "$work/said" |
		head -n 1)
	gid=${gid:-0}	# InfiniBand has one, which is not an address
	start "$bin/rc-pingpong" -p 0 -d "$device"
	returns 1 "$bin/rc-pingpong" -p "$port" -d no-such-device "$addr"
	said 'no-such-device'
	returns 1 "$bin/rc-pingpong" -p "$port" -d "$device" -g 254 "$addr"
	said 'gid_index 254'
	returns 0 "$bin/rc-pingpong" -p "$port" -d "$device" -i 1 -g "$gid" "$addr"
	said "^device: $device\$"
	said '^port of it: 1$'
	said "^host: $addr\$"
	said "^TCP port: $port\$"
	said "^GID index: $gid\$"
	said "^connected on $device port"
	said '^test result is 0'
	wait "$server"
	server=
	grep -q "^device: $device\$" "$work/server"
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

# ---- rdmamsg-soft and rdmamsg-soft-ctl ----------------------------------

# soft_option NAME: tries the option.
soft_option()
{
	case $1 in
	fabric)	returns 0 "$soft" --fabric=other sh -c \
			'env | grep "^RDMAMSG_SOFT_FABRIC="'
		said '^RDMAMSG_SOFT_FABRIC=other$' ;;
	link)	returns 0 "$soft" -f "$fabric" --link=ib ibv_devinfo
		said 'link_layer:.*InfiniBand' ;;
	ports)	returns 0 "$soft" -f "$fabric" --ports=3 ibv_devinfo
		said 'port:.*3$' ;;
	help | version)
		returns 0 "$soft" "--$1" ;;
	*)	echo "--$1 is not tried"
		return 1 ;;
	esac
}

soft_options()
{
	fabric=soft-$$
	options_of "$soft" >options
	grep -qx link options
	while read -r option
	do
		soft_option "$option"
	done <options
}

soft_mistakes()
{
	complains 2 'COMMAND is missing; see --help' "$soft"
	complains 2 "--link 'token-ring': ethernet, ib or iwarp; see" \
		"$soft" -l token-ring true
	complains 2 "--ports '9': 1 to 8" "$soft" -p 9 true
	complains 2 "--fabric 'a/b': .* no slash" "$soft" -f a/b true
	complains 127 'no-such-program: No such file' "$soft" no-such-program
	complains 126 "$work: Permission denied" "$soft" "$work"
	returns 7 "$soft" sh -c 'exit 7'
}

# soft_program NAME: starts a program that is on the fabric until a signal.
soft_program()
{
	RDMAMSG_SOFT_FABRIC=$fabric "$soft" "$perf" server -a 127.0.0.1 -p 0 \
		>"$1" 2>&1 &
	echo $! >"$1.pid"
	await grep -q '^listening on port' "$1"
}

soft_end()
{
	for one
	do
		kill "$(cat "$one.pid")" 2>/dev/null || :
	done
	wait
}

ctl()
{
	"$ctl" -f "$fabric" "$@"
}

# down NAME PORT: succeeds if the port is down at this program.
down()
{
	ctl -p "$(cat "$1.pid")" list >listed
	grep -q "^  port $2 down" listed
}

# Among several programs, a harmful command must name a node.
ctl_whom()
{
	fabric=ctl-$$
	complains 1 'no program is on this fabric' "$ctl" -f "$fabric" list
	trap 'status=$?; soft_end first second; exit $status' EXIT
	soft_program first
	# the only one there is, and not those that join later
	returns 0 "$ctl" -f "$fabric" port 1 down
	down first 1
	soft_program second
	not down second 1

	returns 2 "$ctl" -f "$fabric" port 2 down
	said "'port' would hit 2 programs: .* -n or -p, .* --all; see --help"
	said "  node 0, process $(cat first.pid) (rdmamsg-perf)"
	said "  node 1, process $(cat second.pid) (rdmamsg-perf)"
	for command in 'faults drop=1' 'refuse qp' remove 'event DEVICE_FATAL' \
		'port all blackhole'
	do
		# shellcheck disable=SC2086 # words
		returns 2 "$ctl" -f "$fabric" $command
		said 'would hit 2 programs'
	done
	not down first 2
	not down second 2

	returns 0 "$ctl" -f "$fabric" -p "$(cat second.pid)" port 2 down
	not down first 2
	down second 2
	returns 0 "$ctl" -f "$fabric" -n 0 port 2 down
	down first 2
	# a repairing command is for all nodes
	returns 0 "$ctl" -f "$fabric" port all up
	not down first 1
	not down second 2
	for command in faults 'refuse qp 0' add list
	do
		# shellcheck disable=SC2086 # words
		returns 0 "$ctl" -f "$fabric" $command
	done
	# options may come last
	returns 0 "$ctl" port 2 down --all --fabric="$fabric"
	down first 2
	down second 2
	returns 0 "$ctl" -f "$fabric" -a port 2 up
	ctl_terminal
	returns 1 "$ctl" -f "$fabric" -p $$ remove
	said "process $$ is not on this fabric"
	returns 1 "$ctl" -f "$fabric" -n 7 remove
	said 'no such node'
}

# On a terminal the program asks the user.
ctl_terminal()
{
	echo n | returns 2 script -qec "'$ctl' -f $fabric port 2 down" /dev/null
	said "'port' hits these 2 programs, and all that join later"
	said 'nothing was done'
	not down first 2
	echo y | returns 0 script -qec "'$ctl' -f $fabric port 2 down" /dev/null
	said "process $(cat second.pid) (rdmamsg-perf)"
	down first 2
	down second 2
	returns 0 "$ctl" -f "$fabric" port 2 up
}

# An event of a queue pair finds the program that has it.
ctl_event()
{
	fabric=event-$$
	trap 'status=$?; soft_end first client; exit $status' EXIT
	soft_program first
	port=$(sed -n 's/^listening on port //p' first)
	RDMAMSG_SOFT_FABRIC=$fabric "$soft" "$perf" lat 127.0.0.1 -p "$port" \
		-n 100000000 --event >client 2>&1 &
	echo $! >client.pid
	await connected first
	returns 0 "$ctl" -f "$fabric" event QP_FATAL "$(connected first)"
	await grep -q 'QP_FATAL\|fatal\|local work queue' first client
	for node in '' '-n 0'
	do
		# shellcheck disable=SC2086 # words
		complains 1 'no node has such a queue pair' \
			"$ctl" -f "$fabric" $node event QP_FATAL 0xfffffff
	done
}

# connected NAME: prints the number of its queue pair
connected()
{
	ctl -p "$(cat "$1.pid")" list | sed -n 's/^  qp \([^ ]*\) RC RTS .*/\1/p' |
		grep .
}

# ctl_option NAME: tries the option on the fabric of one program.
ctl_option()
{
	case $1 in
	fabric)	returns 0 "$ctl" --fabric="$fabric" list
		said "^node 0 pid $(cat first.pid) .* program rdmamsg-perf$" ;;
	node)	returns 0 "$ctl" -f "$fabric" --node=0 list
		said '^node 0 ' ;;
	pid)	returns 0 "$ctl" -f "$fabric" --pid="$(cat first.pid)" list
		said '^node 0 ' ;;
	all)	returns 0 "$ctl" -f "$fabric" --all faults drop=50
		returns 0 "$ctl" -f "$fabric" list
		said '^  faults drop=50 ' ;;
	help | version)
		returns 0 "$ctl" "--$1" ;;
	*)	echo "--$1 is not tried"
		return 1 ;;
	esac
}

ctl_options()
{
	fabric=options-$$
	trap 'status=$?; soft_end first; exit $status' EXIT
	soft_program first
	options_of "$ctl" >options
	grep -qx node options
	while read -r option
	do
		ctl_option "$option"
	done <options
}

ctl_mistakes()
{
	complains 2 'COMMAND is missing; see' "$ctl"
	complains 2 "'explode': unknown command; see" "$ctl" explode
	complains 2 'port takes PORT or all, and STATE; see' "$ctl" port 1
	complains 2 "'9': a port is 1 to 8, or all; see" "$ctl" port 9 down
	complains 2 "'broken': a port is up, down, " "$ctl" port 1 broken
	complains 2 "'drop=200': " "$ctl" faults drop=200
	complains 2 "'loss=2': unknown fault" "$ctl" faults loss=2
	complains 2 "'cable': unknown object" "$ctl" refuse cable
	complains 2 "'FIRE': unknown event" "$ctl" event FIRE
	complains 2 "'x': not the number of a node" "$ctl" -n x list
	complains 2 'ctl: -n, -p and -a exclude each other' "$ctl" -n 1 --all remove
	complains 2 "'a/b': the name of a fabric" "$ctl" -f a/b list
}

# ---- rdmamsg-pub, rdmamsg-sub -------------------------------------------

group=239.77.77.77

# subscribe OPTION...: starts a subscriber that writes to the file got.
subscribe()
{
	: >got
	rm -f told	# the one before has said there that it has joined
	"$sub" -a "$addr" "$@" $group >got 2>told &
	server=$!
}

# lines N: prints twenty lines a second until the subscriber has N of them.
lines()
{
	i=0
	while [ "$(wc -l <got)" -lt "$1" ] && [ $i -lt 1200 ]
	do
		i=$((i + 1))
		echo "line $i"
		sleep 0.05
	done
}

# topic OPTION...: for both
topic()
{
	subscribe --count=20 "$@"
	lines 20 | returns 0 "$pub" --address="$addr" "$@" $group
	server_ends 0
	# whenever it has joined, nothing is missing from there on
	awk '$1 != "line" || NR > 1 && $2 != last + 1 { exit 1 }
	     { last = $2 } END { exit NR != 20 }' got
	[ ! -s told ]
}

# lose PERCENT: of multicast, which in a machine passes an interface
lose()
{
	if [ -n "${RDMAMSG_VM-}" ]
	then
		netdev=$(ip -o -4 addr show | awk -v a="$addr/" 'index($4, a) == 1 {
			print $2 }')
		tc qdisc del dev "$netdev" clsact 2>/dev/null || :
		[ "$1" -gt 0 ] || return 0
		tc qdisc add dev "$netdev" clsact
		tc filter add dev "$netdev" ingress matchall \
			action pass random netrand drop $((100 / $1))
	elif [ "$1" -eq 0 ]
	then "$ctl" --all faults
	else "$ctl" --all faults drop="$1"
	fi
}

# has_line FILE N: succeeds if the last line begins with N.
has_line()
{
	[ "$(tail -n 1 "$1" | cut -d ' ' -f 1)" = "$2" ]
}

# Three subscribers lose different messages, and get all in the end.
topic_lossy()
{
	# the kernel's device is slow, and fewer lines find each kind of loss
	n=${TOPIC_LINES:-100000}
	[ -n "${TOPIC_LINES-}" ] || [ -z "${RDMAMSG_VM-}" ] || n=30000
	awk -v n=$n 'BEGIN {
		for (pad = "x"; length(pad) < 10000; )
			pad = pad pad
		for (srand(1); i++ < n; )
			print i, substr(pad, 1, i % 100 ? 300 * rand() : 10000)
	}' >lines
	for i in 1 2 3
	do
		"$sub" -v -a "$addr" --repair $group >got.$i 2>told.$i &
		eval "sub$i=\$!"
		await grep -q '^joined' told.$i
	done
	lose 1
	returns 0 "$pub" -a "$addr" --repair --confirm=3 --timeout=120 \
		--rate=10000 $group <lines
	for i in 1 2 3
	do
		await has_line got.$i $n
	done
	lose 0
	for i in 1 2 3
	do
		eval "server=\$sub$i"
		kill -INT "$server"
		server_ends 0
		cmp lines got.$i
	done
}

# A repair holds up no line behind it, and all lines come once.
topic_unordered()
{
	seq 20000 >lines
	"$sub" -v -a "$addr" --repair --unordered $group >got 2>told.sub &
	server=$!
	await grep -q '^joined' told.sub
	lose 2
	returns 0 "$pub" -a "$addr" --repair --confirm=1 --timeout=120 \
		--rate=10000 $group <lines
	lose 0
	kill -INT "$server"
	server_ends 0
	not cmp -s lines got
	sort -n got | cmp lines -
}

# Both directions with mckey of librdmacm, which knows nothing of rdmamsg. mckey
# sends again until enough arrive, because early datagrams are lost.
topic_mckey()
{
	subscribe --raw --json --messages=20 --wait=$LIMIT
	until ! kill -0 $server 2>/dev/null
	do
		timeout 60 mckey -m $group -b "$addr" -s -C 10 -S 64 >mckey
	done
	server_ends 0
	[ "$(grep -c '"qp": [0-9]*, "immediate": [0-9]*, "data"' got)" -eq 20 ]
	awk -F '[:,]' '{ for (i = 1; i <= NF; i++) {
			if ($i ~ /"qp"/) qp = $(i + 1)
			if ($i ~ /"immediate"/) imm = $(i + 1) }
			if (qp != imm) exit 1 }' got

	timeout $LIMIT mckey -m $group -b "$addr" -C 20 -S 64 >mckey 2>&1 &
	server=$!
	until ! kill -0 $server 2>/dev/null
	do
		returns 0 "$pub" --raw --immediate -b "$addr" -C 10 -S 64 \
			-m $group
	done
	server_ends 0
}

# Each of four queues gets packets, which are 1000 together.
rss_sample()
{
	"$bin/rss" -s -c 1000 >got 2>told &
	server=$!
	await grep -q '^waiting for 1000 packets$' got
	returns 0 "$bin/rss" -c 1000 -f 100
	server_ends 0
	[ "$(grep -c '^queue [0-3]: [1-9][0-9]* packets$' got)" -eq 4 ]
	[ "$(awk '/^queue/ { n += $3 } END { print n }' got)" -eq 1000 ]
	complains 2 "'-c 0'\|-c 0" "$bin/rss" -c 0
	complains 2 'not like 02:' "$bin/rss" -m 1
	complains 2 'no operand' "$bin/rss" x
	complains 1 'must be a power of two' "$bin/rss" -s -q 3
}

# Neither Soft-RoCE nor siw has raw packets.
rss_absent()
{
	complains 1 '^rss: a queue pair: .*device' "$bin/rss" -s
	complains 1 '^rss: a queue pair: .*device' "$bin/rss"
}

# multicast OPTION...
multicast()
{
	"$bin/multicast" -m $group -b "$addr" -c 20 "$@" >got 2>told &
	server=$!
	until ! kill -0 $server 2>/dev/null
	do
		returns 0 "$bin/multicast" -m $group -b "$addr" -s "$@"
		said 'joined dgid: '
		[ "$(grep '^sent message ' "$work/said")" = "$(
			printf 'sent message %d\n' 1 2 3 4)" ]
	done
	server_ends 0
	grep -q '^waiting for messages...$' got
	[ "$(grep -c '^received message ' got)" -eq 20 ]
}

multicast_mistakes()
{
	returns 0 "$bin/multicast" -h
	said '^Usage'
	complains 2 'a group is needed' "$bin/multicast"
	complains 2 "'-c 0'" "$bin/multicast" -m $group -c 0
	complains 1 'not a multicast address' "$bin/multicast" -m 10.1.2.3
	returns 1 "$bin/multicast" -m $group -b "$addr" -s -l 100000
	said 'larger than the MTU'
	returns 1 "$bin/multicast" -m $group -b "$addr" -t 1
	said 'no message for 1 s'
}

# Without data, by MGID, and several memberships.
topic_members()
{
	returns 0 "$pub" --json -C 5 -S 0 -b "$addr" $group
	said '^{"messages": 0, "bytes": 0}$'
	returns 0 "$pub" -v -C 0 -c 3 -b "$addr" $group
	[ "$(grep -c '^joined 239.77.77.77: device .* Q_Key 0x' "$work/said")" -eq 3 ]
	# Linux has IPoIB's port space on InfiniBand only
	if [ -n "${RDMAMSG_VM-}" ]
	then complains 1 'RDMAMSG_GROUP_IPOIB needs' \
		"$sub" -C 0 -p ipoib -b "$addr" $group
	else returns 0 "$sub" -v -C 0 -p ipoib -b "$addr" -m $group
	fi
	complains 1 'no message for 1 s' "$sub" -w 1 -b "$addr" $group
	complains 2 'needs --address or --device' "$pub" -C 1 -M ff15::7
	complains 2 'not an MGID' "$pub" -C 1 -M topic
	subscribe --messages=5 -c 2
	until ! kill -0 $server 2>/dev/null
	do
		returns 0 "$pub" -b "$addr" -C 5 -S 20000 --rate=0 $group:7000
	done
	server_ends 0
	[ "$(tr -d -c '\n' <got | wc -c)" -ge 10 ]
}

# A group by its MGID, and a publisher that waits before the first message.
topic_mgid()
{
	mgid=ff15::77:7
	: >got
	"$sub" -v --json -C 3 -b "$addr" -M $mgid >got 2>told &
	server=$!
	await grep -q '^joined ff15:' told
	before=$(date +%s)
	returns 0 "$pub" -C 3 -S 100 -b "$addr" --settle=2 -M $mgid
	[ $(($(date +%s) - before)) -ge 2 ]
	until ! kill -0 $server 2>/dev/null
	do
		returns 0 "$pub" -C 3 -S 100 -b "$addr" -M $mgid
	done
	server_ends 0
	[ "$(grep -c '"data": "' got)" -ge 3 ]
}

# All that a publisher waits for have everything, or it tells how many.
topic_confirm()
{
	seq 3 >lines
	"$sub" -v -a "$addr" --repair $group >got 2>told &
	server=$!
	await grep -q '^joined' told
	returns 0 "$pub" -a "$addr" --repair --confirm=1 $group <lines
	complains 3 ': 1 of 2 subscribers have reported in 1 s' "$pub" -a "$addr" \
		--repair --confirm=2 --timeout=1 $group <lines
	kill -INT $server
	server_ends 0
	[ "$(wc -l <got)" -eq 6 ]
	complains 3 ': 0 of 1 subscribers have reported in 1 s' "$pub" -a "$addr" \
		--repair --confirm=1 --timeout=1 $group <lines
}

# A subscriber that joins late has what was kept, and then what follows.
topic_backlog()
{
	mkfifo input
	"$pub" -v -a "$addr" --repair $group <input 2>told &
	publisher=$!
	exec 9>input
	await grep -q '^joined' told
	"$sub" -v -a "$addr" --count=50 $group >got 2>told.sub &
	server=$!
	await grep -q '^joined' told.sub
	seq 50 >&9
	server_ends 0
	"$sub" -v -a "$addr" --repair --backlog=20 --count=21 --json $group \
		>got 2>told.sub &
	server=$!
	await grep -q '20 messages of sender' told.sub
	echo last >&9
	server_ends 0
	exec 9>&-
	wait $publisher
	[ "$(wc -l <got)" -eq 21 ]
	[ "$(grep -c '"backlog": true' got)" -eq 20 ]
	grep -q '"number": 30, "backlog": true, "data": "31"' got
	tail -n 1 got | grep -q '"number": 50, "data": "last"'
	rm input
}

# Subscribers without the key see nothing, and are told why.
topic_key()
{
	printf 'the key of the group' >key
	chmod 600 key
	"$sub" -v -a "$addr" --repair --key-file=key $group >got 2>told.sub &
	server=$!
	"$sub" -v -a "$addr" --repair $group >stranger 2>told.stranger &
	stranger=$!
	await grep -q '^joined' told.sub
	await grep -q '^joined' told.stranger
	seq 200 | "$pub" -a "$addr" --repair --key-file=key --flow=slowest \
		--parity=4 --confirm=1 $group
	kill -INT $server
	server_ends 0
	kill -TERM $stranger
	wait $stranger || :
	seq 200 | cmp - got
	[ ! -s stranger ]
	grep -q 'datagrams with a key (see --key-file) are dropped' \
		told.stranger
	# the key of a topic
	printf 'ticks.eur %s %s/key\n' $group "$PWD" >topics
	RDMAMSG_TOPICS=$PWD/topics "$sub" -v -a "$addr" --repair 'ticks.*' \
		>got 2>told &
	server=$!
	await grep -q '^joined' told
	echo one | RDMAMSG_TOPICS=$PWD/topics "$pub" -a "$addr" --repair \
		--confirm=1 ticks.eur
	kill -INT $server
	server_ends 0
	[ "$(cat got)" = one ]
	chmod 644 key
	status=0
	"$pub" --key-file=key $group </dev/null 2>told || status=$?
	[ $status -eq 1 ]
	grep -q 'key file key: mode 0644' told
	status=0
	"$pub" --flow=fastest --repair $group </dev/null 2>told || status=$?
	[ $status -eq 2 ]
	rm key stranger topics
}

# Without multicast, subscribers ask the publisher for what it publishes.
topic_unicast()
{
	place=unicast:$addr:7399
	case $addr in
	*:*)	place=unicast:[$addr]:7399 ;;
	esac
	complains 1 'no publisher listens there' "$sub" --repair "$place"
	complains 2 'needs --repair' "$sub" "$place"
	mkfifo input
	"$pub" -v --repair --confirm=2 "$place" <input 2>told &
	publisher=$!
	exec 9>input
	await grep -q '^joined' told
	"$sub" -v --repair "$place" >got 2>told.sub 9>&- &
	server=$!
	"$sub" -v --repair "$place" >got.2 2>told.2 9>&- &
	second=$!
	await grep -q '^joined' told.sub
	await grep -q '^joined' told.2
	seq 1000 >&9
	exec 9>&-
	wait $publisher
	kill -INT $server $second
	server_ends 0
	wait $second
	seq 1000 | cmp - got
	seq 1000 | cmp - got.2
	rm input got.2 told.2
}

# A signal ends a publisher that lingers, and the first one may come before.
topic_interrupted()
{
	echo line | "$pub" -v -a "$addr" --repair --linger=600 $group 2>told &
	server=$!
	await grep -q '^joined' told
	i=0
	while kill -INT $server 2>/dev/null
	do
		i=$((i + 1))
		[ $i -lt 200 ]
		sleep 0.1
	done
	server_ends 130
	[ "$(wc -l <told)" -eq 1 ]
}

topic_json()
{
	subscribe --count=3 --json
	lines 3 | returns 0 "$pub" -a "$addr" --json $group
	said '^{"messages": [0-9]*, "bytes": [0-9]*}$'
	server_ends 0
	[ "$(grep -c '^{"group": "239.77.77.77", "sender": "[0-9a-f]\{16\}", "number": [0-9]*, "data": "line [0-9]*"}$' got)" -eq 3 ]
}

# Publishes to two topics by name; a pattern subscribes to both.
topic_names()
{
	RDMAMSG_TOPICS=$PWD/topics
	export RDMAMSG_TOPICS
	complains 1 'topics: No such file' "$sub" -a "$addr" ticks.eur
	complains 1 'topics: No such file' "$sub" --list
	cat >topics <<-EOF
		# prices
		ticks.eur 239.77.77.79
		news ff15::77
		ticks.usd.jpy 239.77.77.80 7000
	EOF
	returns 0 "$sub" --list
	[ "$(wc -l <"$work/said")" -eq 3 ]
	returns 0 "$sub" --list 'ticks.*' news
	[ "$(cat "$work/said")" = 'ticks.eur 239.77.77.79
ticks.usd.jpy 239.77.77.80:7000
news ff15::77' ]
	returns 0 "$sub" --list --json news
	said '^{"name": "news", "address": "ff15::77"}$'
	complains 1 "no topic matches 'x.\\*'" "$sub" --list 'x.*'
	complains 1 "no topic matches 'x.\\*'" "$sub" -a "$addr" 'x.*'
	complains 2 "'tick\\*' is not a topic" "$sub" -a "$addr" 'tick*'
	complains 2 "'ticks.\\*' is not the address" "$pub" -a "$addr" 'ticks.*'
	complains 1 "'ticks.gbp' is not the address" "$pub" -a "$addr" ticks.gbp
	# the second pattern has a topic of the first
	"$sub" -v -a "$addr" --repair 'ticks.*' '*.eur' >got 2>told &
	server=$!
	await grep -q '^joined ticks.usd.jpy: ' told
	[ "$(grep -c '^joined ' told)" -eq 2 ]
	echo 1.08 | returns 0 "$pub" -a "$addr" --repair ticks.eur
	echo 150.2 | returns 0 "$pub" -a "$addr" --repair ticks.usd.jpy
	await grep -q '^ticks.eur: 1.08$' got
	await grep -q '^ticks.usd.jpy: 150.2$' got
	end_server INT 0
	[ "$(wc -l <got)" -eq 2 ]
	# one topic: lines without its name
	rm -f told
	"$sub" -v -a "$addr" --count=1 --repair ticks.eur >got 2>told &
	server=$!
	await grep -q '^joined ticks.eur: ' told
	echo 1.09 | returns 0 "$pub" -a "$addr" --repair ticks.eur
	server_ends 0
	[ "$(cat got)" = 1.09 ]
	rm -f told
	"$sub" -v -a "$addr" --count=1 --repair --json ticks.eur >got 2>told &
	server=$!
	await grep -q '^joined ticks.eur: ' told
	echo 1.10 | returns 0 "$pub" -a "$addr" --repair ticks.eur
	server_ends 0
	grep -q '^{"group": "ticks.eur", .*"number": 0, "data": "1.10"}$' got
	echo 'ticks.gbp 10.0.0.1' >>topics
	complains 1 'topics:5: not the address' "$sub" -a "$addr" ticks.eur
}

# has_bytes FILE N
has_bytes()
{
	[ "$(stat -c %s "$1")" -ge "$2" ]
}

# The messages that were asked for have not come.
topic_cut_short()
{
	subscribe --verbose --count=3
	await grep -q '^joined ' told
	end_server INT 130
	subscribe --verbose --messages=3
	await grep -q '^joined ' told
	end_server TERM 143
	subscribe --verbose
	await grep -q '^joined ' told
	end_server INT 0
	subscribe --count=3
	lines 3 | returns 0 "$pub" -a "$addr" $group
	server_ends 0
}

topic_file()
{
	head -c 300000 /dev/urandom >file
	subscribe --repair
	i=0
	while [ ! -s got ]
	do
		i=$((i + 1))
		[ $i -lt 100 ]
		returns 0 "$pub" -a "$addr" --repair --file $group file
	done
	await has_bytes got 300001
	end_server INT 0
	head -c 300000 got | cmp file -
	head -c 1100000 /dev/zero >file
	complains 1 'max_message' "$pub" -a "$addr" --file $group file
	# as large as both sides allow
	subscribe --max-message=2000000 --wait=60
	: >got
	i=0
	while [ ! -s got ]
	do
		i=$((i + 1))
		[ $i -lt 100 ]
		returns 0 "$pub" -a "$addr" --max-message=1100000 --file \
			$group file
	done
	await has_bytes got 1100001
	end_server INT 0
	subscribe --wait=60
	until grep -q lost told
	do
		returns 0 "$pub" -a "$addr" --max-message=1100000 --file \
			$group file
	done
	end_server INT 3
}

# The membership is lost, and so is the last message, when the input ends. The
# publisher joins again before it leaves, and repeats the message.
topic_rejoined()
{
	subscribe --repair --count=20 --wait=$LIMIT
	i=0
	{
		while [ "$(wc -l <got)" -lt 19 ]
		do
			i=$((i + 1))
			[ $i -lt 600 ]
			echo "line $i"
			sleep 0.1
		done
		"$ctl" --all faults drop=100
		echo last
		sleep 0.2
		{ sleep 0.1; "$ctl" --all faults; } >/dev/null 2>&1 &
		# joining again fails once, so that the input ends before
		"$ctl" --all refuse id
		"$ctl" --all event SM_CHANGE 1
		await grep -q 'joining again' "$work/said"
	} | returns 0 "$pub" -a "$addr" --repair $group
	said 'joining again'
	server_ends 0
	has_line got last
}

topic_mistakes()
{
	for program in "$pub" "$sub"
	do
		returns 0 "$program" --help
		said '^Usage'
		returns 0 "$program" --version
		said "^${program##*/} [0-9]"
		complains 2 'no group, such as' "$program"
		complains 2 'plain datagrams have no number' "$program" \
			--raw --repair $group
		complains 2 '--timeout' "$program" --timeout=x $group
		complains 2 'not a multicast address' "$program" 10.1.2.3
		complains 2 "'a:b' is not the address" "$program" a:b
		complains 2 "'' is not the address" "$program" ''
		complains 1 'nowhere0' "$program" --device=nowhere0 $group
		! beside || complains 1 'RDMAMSG_SOFT_PORTS=99: ' env \
			RDMAMSG_SOFT_PORTS=99 "$program" --device=soft0 $group
	done </dev/null
	complains 2 'needs --raw' "$pub" --immediate $group
	complains 2 'udp or ipoib' "$pub" -p tcp $group
	complains 2 'needs --messages' "$pub" -S 10 $group
	complains 2 'needs --repair' "$pub" --linger=1 $group
	complains 2 'needs --repair' "$pub" --confirm=1 $group
	complains 2 'needs --repair' "$sub" --backlog=1 $group
	complains 2 'needs --repair' "$sub" --unordered $group
	complains 2 'a number from 1 to 254' "$pub" --repair --confirm=0 $group
	complains 2 'the MTU bounds' "$sub" --raw --max-message=9 $group
	complains 2 'a number from 1' "$pub" --max-message=0 $group
	complains 2 'one of them' "$pub" --file -C 1 $group file
	complains 2 'a group, and then files' "$pub" --file $group
}

# ---- rdmamsg-copy -------------------------------------------------------

usage()
{
	returns 0 "$copy" --help
	said '^Usage'
	returns 0 "$copy" --version
	said '^rdmamsg-copy [0-9]'
	complains 2 "'server DIR', or FILE... and HOST, are needed" "$copy"
	complains 2 'FILE... and HOST are needed' "$copy" file
	complains 2 'a server has one DIR' "$copy" server a b
	complains 2 'a server has one DIR' "$copy" server
	complains 2 'are for the client' "$copy" server a -r
	complains 2 '-a is for the server' "$copy" -a x file host
	complains 2 'must be HOST' "$copy" file '[::1'
	complains 2 '0 is for the server' "$copy" file a:0
	complains 2 'must be HOST' "$copy" file host:
	complains 2 'HOST:PORT has no path' "$copy" file host:/tmp
	complains 2 'needs a name: -n NAME' "$copy" - host
	complains 2 'for one FILE' "$copy" -n a b c host
	complains 2 'without a slash' "$copy" -n a/b c host
	complains 1 'missing: No such file.*: the server needs a directory' \
		"$copy" server "$work/missing"
	complains 1 'Not a directory: the server needs' "$copy" server "$copy"
}

# copy_option NAME: tries the option.
copy_option()
{
	echo "$1" >file
	serve='-p 0'
	[ "$1" != address ] || serve="--address=$addr -p 0"
	[ "$1" != key-file ] || { make_key; serve='--key-file=key -p 0'; }
	# shellcheck disable=SC2086 # words
	start "$copy" server "$dir" $serve
	case $1 in
	address)
		returns 0 "$copy" file "$addr:$port"
		cmp file "$dir/file" ;;
	port)	returns 0 "$copy" --port="$port" file "$addr"
		cmp file "$dir/file" ;;
	failover)
		returns 0 "$copy" --failover="$addr" file "$addr:$port"
		cmp file "$dir/file" ;;
	name)	returns 0 "$copy" --name=other file "$addr:$port"
		cmp file "$dir/other" ;;
	key-file)
		complains 1 'requires a key' "$copy" file "$addr:$port"
		complains 1 'another key' "$copy" -k other-key file \
			"$addr:$port"
		chmod 644 key
		complains 1 'mode 0644 .*chmod 600' "$copy" -k key file \
			"$addr:$port"
		chmod 600 key
		returns 0 "$copy" --key-file=key file "$addr:$port"
		cmp file "$dir/file" ;;
	recursive)
		mkdir recursive
		returns 0 "$copy" --recursive recursive "$addr:$port"
		rmdir recursive "$dir/recursive" ;;
	help | version)
		returns 0 "$copy" "--$1" ;;
	*)	echo "--$1 is not tried"
		return 1 ;;
	esac
	end_server TERM 0
}

copy_options()
{
	options_of "$copy" >options
	grep -qx recursive options
	while read -r option
	do
		copy_option "$option"
	done <options
}

# same FILE OTHER: compares mode and modification time.
same()
{
	[ "$(stat -c '%a %.9Y' "$1")" = "$(stat -c '%a %.9Y' "$2")" ] || {
		stat -c '%n: %a %y' "$1" "$2"
		return 1
	}
}

files()
{
	: >empty
	printf x >one
	head -c 10000000 /dev/urandom >'ten million'
	head -c 1048576 /dev/urandom >chunk
	chmod 640 one
	chmod 755 chunk
	touch -d '2001-02-03 04:05:06.123456789' one
	touch -d '1969-12-31 00:00:00 UTC' chunk
	start_copy
	echo old >"$dir/one"
	returns 0 "$copy" empty one 'ten million' "$work/chunk" "$addr:$port"
	for file in empty one 'ten million' chunk
	do
		cmp "$file" "$dir/$file"
		same "$file" "$dir/$file"
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

# tree DIR: makes a tree with all kinds of files.
tree()
{
	mkdir -p "$1/empty" "$1/deep/a/b/c" "$1/a b/ * /-r" "$1/.hidden"
	: >"$1/empty file"
	echo text >"$1/deep/a/b/c/file"
	echo text >"$1/.hidden/.hidden too"
	head -c 3000000 /dev/urandom >"$1/a b/ * /-r/large"
	name=$(printf 'odd\nname\033[31m \"\047\\ \303\266 \377')
	echo odd >"$1/$name"
	echo special >"$1/-"
	echo "only read" >"$1/deep/read-only"
	chmod 440 "$1/deep/read-only"
	chmod 755 "$1/a b"
	chmod 555 "$1/deep/a/b/c"
	touch -d '1999-12-31 23:59:59.5' "$1/deep" "$1/empty" "$1/-"
	touch -d '2010-01-01 12:00:00' "$1"
}

# like ONE OTHER: compares names, contents, modes and times.
like()
{
	diff -r "$1" "$2"
	for one in "$1" "$2"
	do
		(cd "$one" && find . -printf '%p %m %T@\n' | LC_ALL=C sort) \
			>"listed.${one##*/}"
	done
	cmp "listed.${1##*/}" "listed.${2##*/}"
}

directories()
{
	tree tree
	start_copy
	returns 0 "$copy" -r tree "$addr:$port"
	[ ! -s said ]
	mv "$dir/tree" copied
	like tree copied
	# copy again over the existing tree
	mv copied "$dir/tree"
	echo changed >"$dir/tree/empty file"
	echo more >"$dir/tree/more"
	returns 0 "$copy" -r tree "$addr:$port"
	cmp "$dir/tree/empty file" "tree/empty file"
	[ -e "$dir/tree/more" ]
	# what a directory is called
	ln -s tree link
	returns 0 "$copy" -r link tree/deep/// "$addr:$port"
	cmp tree/- "$dir/link/-"
	[ -d "$dir/deep/a/b/c" ] && [ ! -L "$dir/link" ]
	(cd tree/empty && returns 0 "$copy" -r . "$addr:$port")
	[ -d "$dir/empty" ]
	returns 0 "$copy" -r -n other tree/deep "$addr:$port"
	diff -r tree/deep "$dir/other"
	holds deep empty link other tree
	end_server TERM 0
	chmod -R u+w "$dir" tree
	rm -r tree link
}

# A file that cannot be copied is named, and its neighbours are copied.
directories_left_out()
{
	mkdir -p tree/sub
	echo text >tree/sub/file
	echo text >tree/last
	ln -s /etc/passwd tree/absolute
	ln -s sub tree/relative
	ln -s nowhere tree/broken
	mkfifo tree/fifo
	start_copy
	returns 1 "$copy" tree "$addr:$port"
	said "tree: a directory: -r copies it"
	no_file
	returns 1 "$copy" -r tree "$addr:$port"
	said "tree/absolute: not copied: a symbolic link to '/etc/passwd'"
	said "tree/relative: not copied: a symbolic link to 'sub'"
	said "tree/broken: not copied: a symbolic link to 'nowhere'"
	said 'tree/fifo: not a regular file'
	[ "$(wc -l <said)" -eq 4 ]
	cmp tree/sub/file "$dir/tree/sub/file"
	cmp tree/last "$dir/tree/last"
	[ "$(ls "$dir/tree")" = "$(printf 'last\nsub\n')" ]
	# a file in place of a directory, and the other way round
	mv "$dir/tree/sub" "$dir/moved"
	echo file >"$dir/tree/sub"
	rm "$dir/tree/last"
	mkdir "$dir/tree/last"
	returns 1 "$copy" -r tree "$addr:$port"
	said "tree/sub: at $addr: its path there has a file"
	said "tree/last: at $addr: a directory there has that name"
	[ "$(wc -l <said)" -eq 6 ]
	end_server TERM 0
	rm -r tree
}

# Two arguments of one name would leave one file.
same_names()
{
	mkdir a b
	echo a >a/file
	echo b >b/file
	start_copy
	complains 1 'b/file: another argument has the same name' \
		"$copy" a/file b/file "$addr:$port"
	cmp a/file "$dir/file"
	# a missing argument takes no name
	complains 1 'missing/file: No such file' \
		"$copy" missing/file b/file "$addr:$port"
	cmp b/file "$dir/file"
	end_server TERM 0
	rm -r a b
}

standard_input()
{
	head -c 5000000 /dev/urandom >input
	start_copy
	returns 0 "$copy" - -n file "$addr:$port" <input
	cmp input "$dir/file"
	returns 0 "$copy" - --name=empty "$addr:$port" </dev/null
	[ -f "$dir/empty" ] && [ ! -s "$dir/empty" ]
	# in pieces, by a program that is slow
	{
		head -c 1500000 input
		await writing_any
		tail -c +1500001 input
	} | returns 0 "$copy" - -n slow "$addr:$port"
	cmp input "$dir/slow"
	[ $(($(date +%s) - $(stat -c %Y "$dir/slow"))) -lt $LIMIT ]
	holds empty file slow
	expects server '^slow from .*: 5000000 bytes$'
	end_server TERM 0
}

# says COUNT PATTERN FILE
says()
{
	[ "$(grep -c "$2" "$3")" -ge "$1" ]
}

# is_connected PID: it has a queue pair.
is_connected()
{
	"$ctl" list | grep -q " pid $1 .* qps 1 "
}

# The client loses its device in the middle of a stream, which arrives whole.
copy_failover()
{
	RDMAMSG_DEVICE=soft RDMAMSG_SOFT_FABRIC=copy-$$
	export RDMAMSG_DEVICE RDMAMSG_SOFT_FABRIC
	start_copy
	head -c 1000000 /dev/urandom >chunk
	mkfifo input
	"$copy" - -n file -f "$addr" "$addr:$port" <input >said 2>&1 &
	client=$!
	until [ -e enough ]
	do
		cat chunk
		sleep 0.02
	done | tee sent >input &
	feed=$!
	await writing_any
	for times in 1 2 3
	do
		await is_connected $client
		"$ctl" -p $client remove
		await says $times 'connection down: ' said
		"$ctl" -p $client add
		await says $times 'connection resumed: ' said
	done
	touch enough
	wait $feed
	status=0
	wait $client || status=$?
	client=
	cat said
	[ $status -eq 0 ]
	cmp sent "$dir/file"
	says 3 'connection down: ' "$work/server"
	says 3 'connection resumed: ' "$work/server"
	end_server TERM 0
}

writing_any()
{
	find "$dir" -name '.rdmamsg-copy-*' -size +1000k | grep -q .
}

hostile()
{
	mkdir outside outside/inside
	echo secret >outside/file
	touch -d '2001-01-01' outside outside/file
	ln -s "$work/outside" "$dir/link"
	ln -s "$work/outside/file" "$dir/file-link"
	find outside -printf '%p %m %T@ %s\n' >before
	start_copy
	returns 0 "$bin/copy-hostile" "$addr" "$port"
	await holds dir file-link fine link
	[ ! -e "$work/escaped" ] && [ ! -e /tmp/escaped ]
	find outside -printf '%p %m %T@ %s\n' | cmp - before
	[ ! -L "$dir/file-link" ] && [ -L "$dir/link" ]
	find "$dir" -name escaped | not grep .
	expects server "rejected, this is rdmamsg-copy 2; it says 'rdmamsg-copy 1'"
	end_server TERM 0
	rm -r outside
}

# The client names the version of an old server, and copy-hostile is one as a
# client.
old_server()
{
	echo text >file
	start "$bin/copy-hostile" --old-server "$addr"
	complains 1 "$addr: the server has version 1 of the protocol, this program version 2: install the same" \
		"$copy" file "$addr:$port"
	stop_server
}

# A bad source costs that file, and later files are copied.
bad_source()
{
	echo good >good
	echo hidden >.hidden
	mkfifo fifo
	start_copy
	returns 1 "$copy" missing "$dir" fifo .hidden good "$addr:$port"
	said 'missing: No such file'
	said "$dir: a directory: -r copies it"
	said 'fifo: not a regular file'
	said "hidden: at $addr: not a name that is accepted"
	holds good
	rm .hidden fifo
}

# used FILE: prints the KB that it has on the disk.
used()
{
	du -k "$1" | cut -f 1
}

holes()
{
	for name in begins ends middle
	do
		truncate -s 40M $name
	done
	echo data | dd of=begins conv=notrunc bs=1 seek=41943035 status=none
	echo data | dd of=ends conv=notrunc bs=1 status=none
	echo data | dd of=middle conv=notrunc bs=1 seek=20000000 status=none
	truncate -s 40M empty
	start_copy
	returns 0 "$copy" begins ends middle empty "$addr:$port"
	for name in begins ends middle empty
	do
		cmp $name "$dir/$name"
		[ "$(used $name)" -gt 1000 ] ||
			[ "$(used "$dir/$name")" -lt 1000 ]
	done
	holds begins ends middle empty
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
	complains 1 "$addr: nobody listens on port $port.*: start 'rdmamsg-copy server DIR' there" \
		"$copy" file "$addr:$port"
	complains 1 "'no-such-service' is neither" \
		"$copy" file "$addr:no-such-service"
	complains 1 'cannot resolve host.invalid' "$copy" file host.invalid
	# with nothing to send the client does not connect
	complains 1 'missing: No such file' "$copy" missing "$addr:$port"
	complains 1 "'': No such file" "$copy" '' "$addr:$port"
	complains 1 "'': No such file" "$copy" server ''
	complains 2 '-n takes a name of at most 255 bytes, not 300' \
		"$copy" -n "$(printf '%0300d' 1)" file "$addr:$port"
	start "$bin/echo" "$addr" 0
	complains 1 "no server of rdmamsg-copy listens on port $port" \
		"$copy" file "$addr:$port"
	stop_server
	start "$perf" server -a "$addr" -p 0
	complains 1 "rejected by the program.* says 'this is rdmamsg-perf" \
		"$copy" file "$addr:$port"
	end_server TERM 0
}

# The server does not start in a read-only directory.
read_only()
{
	mkdir -p full
	mount -t tmpfs -o ro tmpfs full
	complains 1 'Read-only file system: the server needs a directory' \
		"$copy" server full -a "$addr" -p 0
	umount full
}

disk_full()
{
	mkdir -p full
	mount -t tmpfs -o size=4m tmpfs full
	dir=$work/full
	head -c 10000000 /dev/zero | tr '\0' x >large
	echo small >small
	start_copy
	returns 1 "$copy" large small "$addr:$port"
	said "large: at $addr: No space left"
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

# on_terminal COMMAND...
on_terminal()
{
	returns 0 script -qec "$*" /dev/null
}

terminal()
{
	head -c 1000000 /dev/urandom >file
	start_copy
	on_terminal "'$copy' file '$addr:$port'"
	said 'file .*#####'
	said '100%'
	returns 0 "$copy" file "$addr:$port"
	[ ! -s said ]
	# files of a directory share a line
	mkdir tree
	cp file tree/one
	cp file tree/two
	on_terminal "'$copy' -r tree '$addr:$port'"
	[ "$(wc -l <said)" -le 1 ]
	truncate -s 300M tree/large
	on_terminal "'$copy' -r tree '$addr:$port'"
	said 'large .*#####'
	[ "$(wc -l <said)" -eq 1 ]
	# of standard input the total is not known
	on_terminal "cat file | '$copy' - -n file '$addr:$port'"
	said 'standard input .* 1.0 MB .* MB/s'
	end_server TERM 0
	rm -r tree
}

run hello hello
run echo echo_sample
run own-loop returns 0 "$bin/own-loop" "$addr"
run chat chat_sample
run chat-slow chat_slow
run chat-dropped chat_dropped
if [ -x "$bin/ev-loop" ]
then run ev-loop returns 0 "$bin/ev-loop" "$addr"
else echo "skip ev-loop # built without libev"
fi
for loop in event glib uv
do
	wants $loop-loop || continue
	if [ -x "$bin/$loop-loop" ]
	then run $loop-loop loop_sample $loop-loop
	else echo "skip $loop-loop # built without librdmamsg-$loop"
	fi
done
! beside || for name in epoll.c sd-event.c io-uring.c asio.cc qt.cc
do
	wants "recipe-${name%.*}" || continue
	if flags=$(recipe_flags "${name%.*}")
	then run "recipe-${name%.*}" recipe "$name" "$flags"
	else echo "skip recipe-${name%.*} # this host lacks the loop's library"
	fi
done
run rpc rpc_sample
run rpc-many rpc_many
run rpc-killed rpc_killed
# shellcheck source=kv/cases.sh
. "$samples/kv/cases.sh"
run snapshot snapshot_late
if beside
then run snapshot-lost snapshot_lost
fi
if has_coroutines
then run coroutine coroutine_sample
else echo "skip coroutine # there is no compiler of C++20"
fi
run threads returns 0 "$bin/threads" "$addr"
run rc-pingpong rc_pingpong
run rc-pingpong-device rc_pingpong_device
run rc-pingpong-port rc_pingpong -i 1
run rc-pingpong-usage rc_pingpong_usage
run srq srq_sample
run apm apm_sample
run allreduce allreduce_sample
run allreduce-native allreduce_native
run atomics atomics_native
run atomics-software atomics_software
run dc dc_sample
run dc-connections dc_connections
run layout layout_sample
run layout-software layout_software
run sample-usage sample_usage
long conform-links conform_links
run conform-finds conform_finds
run conform-options conform_options
run conform-peer conform_peer
run conform-crowd conform_crowd
run conform-time conform_time
run conform-killed conform_killed
run conform-mistakes conform_mistakes
[ -z "${RDMAMSG_VM-}" ] || run conform-rxe conform_rxe
if command -v ibv_devinfo >/dev/null
then run info-fields info_fields
else echo "skip info-fields # there is no ibv_devinfo"
fi
if command -v python3 >/dev/null && command -v ibv_devices >/dev/null
then run info-agrees info_agrees
else echo "skip info-agrees # there is no python3 or no ibv_devices"
fi
run info-options info_options
run info-capabilities info_capabilities
[ -z "${RDMAMSG_VM-}" ] || run info-rxe info_rxe
run info-port-down info_port_down
run info-watch info_watch
run info-stats info_stats
if command -v python3 >/dev/null
then run info-metrics info_metrics
else echo "skip info-metrics # there is no python3"
fi
run info-mistakes info_mistakes
# shellcheck source=doctor/cases.sh
. "$samples/doctor/cases.sh"
! beside || run perf-options perf_options
run perf-modes perf_modes
run perf-failover perf_failover
run perf-device-returns perf_device_returns
run perf-interrupted perf_interrupted
run perf-mistakes perf_mistakes
run perf-client-killed perf_client_killed
run perf-conns conns
run perf-warm perf_warm
run perf-steps perf_steps
run perf-plot perf_plot
if [ "$(nproc)" -gt 1 ]
then
	long perf-compare perf_compare
	long perf-compare-drivers perf_compare_drivers
	long perf-compare-tools perf_compare_tools
	long perf-compare-behind perf_compare_behind
else
	echo "skip perf-compare # there is one processor"
fi
run perf-tune perf_tune
run perf-onesided perf_onesided
! on_soft_hca || run perf-group perf_group
! on_soft_hca || run perf-group-late perf_group_late
run perf-group-mistakes perf_group_mistakes
run perf-checked perf_checked
long perf-checked-long perf_checked_long
run soft-options soft_options
run soft-mistakes soft_mistakes
run ctl-options ctl_options
run ctl-whom ctl_whom
run ctl-event ctl_event
run ctl-mistakes ctl_mistakes
run topic-lines topic
run topic-repair topic --repair
! beside || run topic-lossy topic_lossy
! beside || run topic-unordered topic_unordered
run topic-raw topic --raw
# mckey needs a device that librdmacm finds
[ "${RDMAMSG_DEVICE-}" = soft ] || run topic-mckey topic_mckey
run topic-members topic_members
run topic-mgid topic_mgid
if on_soft_hca
then run rss rss_sample
else run rss rss_absent
fi
run multicast multicast
run multicast-mistakes multicast_mistakes
run topic-cut-short topic_cut_short
# only the soft HCA's own faces know its events
[ "${RDMAMSG_DEVICE-}" != soft ] || run topic-rejoined topic_rejoined
run topic-json topic_json
run topic-names topic_names
run topic-confirm topic_confirm
run topic-backlog topic_backlog
run topic-key topic_key
run topic-unicast topic_unicast
run topic-interrupted topic_interrupted
run topic-file topic_file
run topic-mistakes topic_mistakes
run output-full output_full
run copy-usage usage
run copy-options copy_options
run copy-files files
run copy-directories directories
run copy-left-out directories_left_out
run copy-same-names same_names
run copy-standard-input standard_input
run copy-many many
[ -z "${RDMAMSG_VM_ADDR6-}" ] || run copy-ipv6 ipv6
run copy-at-once at_once
run copy-hostile hostile
run copy-old-server old_server
run copy-bad-source bad_source
run copy-holes holes
run copy-changing changing
run copy-no-server no_server
if [ "$(id -u)" -eq 0 ]
then
	run copy-disk-full disk_full
	run copy-read-only read_only
else
	echo "skip copy-disk-full # needs root, for mount"
	echo "skip copy-read-only # needs root, for mount"
fi
run copy-failover copy_failover
run copy-client-killed client_killed
run copy-server-killed server_killed
run copy-server-ended server_ended
run copy-terminal terminal
[ $failures -eq 0 ]
