#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: wireguard.sh BUILDDIR
#
# The recipe of rdmamsg-soft(7) for a tunnel, inside the test machine: types its
# commands in two network namespaces with a pair of veth between them, and sends
# messages through the tunnel, whose packets of RoCE nobody sees on the veth.
# Without the tunnel they are seen. Prints `ok NAME` or `not ok NAME` for each.

set -u

[ $# -eq 1 ] || { sed -n 's/^# \(Usage: \)/\1/p' "$0" >&2; exit 2; }
perf=$1/samples/rdmamsg-perf
manual=$(cd "$(dirname "$0")/../.." && pwd)/man/man7/rdmamsg-soft.7
work=$(mktemp -d)
log=$work/log
children=
export RDMAMSG_DEVICE=soft
trap 'clean_up' EXIT
trap 'exit 1' HUP INT TERM
LIMIT=300	# s that a program may take

# The machine goes on with other steps.
clean_up()
{
	# shellcheck disable=SC2086 # a list
	[ -z "$children" ] || kill $children 2>/dev/null
	wait
	for n in 1 2
	do
		ip netns delete wg-$n
	done
	rm -rf "$work"
} 2>/dev/null

fail()
{
	echo "not ok wireguard-$name: $*"
	sed 's/^/# /' "$log"
	exit 1
}

# at HOST COMMAND...
at()
{
	host=$1
	shift
	ip netns exec "wg-$host" "$@"
}

# recipe HOST: prints what the manual says for the host with this last number
recipe()
{
	sed -n '/^WireGuard /,/^\.EE/p' "$manual" | sed '1,/^\.EX/d; /^\.EE/d' |
		sed 's/\\-/-/g; s/\\e$/\\/' |
		if [ "$1" -eq 2 ]
		then sed 's/\(10\.77\.0\.\|fd77::\|192\.0\.2\.\)1/\1@/g
			s/\(10\.77\.0\.\|fd77::\|192\.0\.2\.\)2/\11/g; s/@/2/g'
		else cat
		fi
}

# The first command of the recipe makes the key that the other host needs.
make_key()
{
	mkdir "$work/$1"
	recipe "$1" | head -n 1 >"$work/$1/first"
	(cd "$work/$1" && at "$1" sh -e ./first) >>"$log" 2>&1
}

follow()
{
	cp "$work/$((3 - $1))/key.pub" "$work/$1/peer.pub"
	recipe "$1" | sed 1d >"$work/$1/rest"
	(cd "$work/$1" && at "$1" sh -e ./rest) >>"$log" 2>&1
}

# Counts the packets on the veth whose UDP port is that of RoCE, and of WireGuard.
cat >"$work/watch.py" <<'END'
import signal
import socket
import sys

roce = tunnel = 0
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.bind((sys.argv[1], 0))


def tell(*_):
    print(roce, tunnel, flush=True)
    sys.exit(0)


signal.signal(signal.SIGTERM, tell)
print("watching", flush=True)
while True:
    frame = wire.recv(65536)
    version, next_header = frame[12:14], frame[20]
    start = 54
    if version == b"\x08\x00":
        next_header, start = frame[23], 14 + 4 * (frame[14] & 15)
    if next_header == 17:
        ports = (frame[start:start + 2], frame[start + 2:start + 4])
        roce += (4791).to_bytes(2, "big") in ports
        tunnel += (51820).to_bytes(2, "big") in ports
END

# tells FILE PATTERN CHILD: waits until the file says so
tells()
{
	end=$(($(date +%s) + LIMIT))
	until grep -q "$2" "$1"
	do
		kill -0 "$3" 2>/dev/null && [ "$(date +%s)" -lt $end ] ||
			fail "no '$2' in $1"
		sleep 0.1
	done
}

# exchange ADDRESS: writes the packets of RoCE and of the tunnel to $seen
exchange()
{
	: >"$work/seen"
	# not by a function, so that $! is the program
	ip netns exec wg-1 python3 "$work/watch.py" veth >"$work/seen" &
	watcher=$!
	: >"$work/server"
	ip netns exec wg-2 "$perf" server -a "$1" -p 0 >"$work/server" \
		2>>"$log" &
	server=$!
	children="$watcher $server"
	tells "$work/seen" watching $watcher
	tells "$work/server" '^listening on port' $server
	at 1 timeout $LIMIT "$perf" lat "$1" --event --check -s 64,8K,64K -n 20 \
		-p "$(sed -n 's/^listening on port //p' "$work/server")" \
		>>"$log" 2>&1 || fail "rdmamsg-perf: $?"
	kill $server $watcher
	wait $server
	wait $watcher
	children=
	seen=$(sed 1d "$work/seen")
}

: >"$log"
name=recipe
command -v wg >/dev/null || {
	echo 'ok wireguard-recipe # SKIP wg is not installed'
	exit 0
}
[ "$(recipe 1 | wc -l)" -ge 7 ] || fail "the manual has no recipe"
modprobe wireguard || fail 'this kernel has no WireGuard'
ip netns add wg-1 && ip netns add wg-2 &&
	ip link add veth netns wg-1 type veth peer name veth netns wg-2 ||
	fail 'no namespaces'
for n in 1 2
do
	ip -n wg-$n addr add 192.0.2.$n/24 dev veth
	ip -n wg-$n link set lo up
	ip -n wg-$n link set veth up
	make_key $n || fail "the first command on host $n"
done
for n in 1 2
do
	follow $n || fail "the commands on host $n"
done
echo "ok wireguard-$name"

for address in 10.77.0.2 fd77::2
do
	name=$address
	exchange $address
	echo "# $name: $seen packets of RoCE and of the tunnel"
	[ "${seen% *}" -eq 0 ] && [ "${seen#* }" -gt 100 ] ||
		fail "packets of RoCE, of the tunnel: $seen"
	echo "ok wireguard-$name"
done

name=without
exchange 192.0.2.2
[ "${seen% *}" -gt 100 ] || fail "packets of RoCE, of the tunnel: $seen"
echo "ok wireguard-$name"
