#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: picture.sh BUILD [FILE.svg]
#
# Draws the picture of README.md: measures latency and bandwidth over size on the
# soft HCA, with polling and with events, between two processes on the first two
# processors, and draws FILE.svg, by default the one in this directory. Prints a
# line for the text beside the picture: processor, kernel, date and version. Run
# it on a quiet machine. RUNNER, if set, is a command in front of both processes,
# as 'chrt -r 1'.

set -eu

[ $# -gt 0 ] || {
	sed -n 's/^# \(Usage: \)/\1/p' "$0" >&2
	exit 2
}
command -v gnuplot >/dev/null || {
	echo 'picture.sh: gnuplot is missing: apt-get install gnuplot-nox' >&2
	exit 1
}
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
to=${2:-$here/picture.svg}
perf=$build/samples/rdmamsg-perf
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# commit: prints that of this directory if it is under version control
commit()
{
	git -C "$here" ls-files --error-unmatch picture.sh >/dev/null 2>&1 &&
		git -C "$here" describe --always --dirty
}

measured_on()
{
	model=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo |
		head -n 1)
	echo "Measured on ${model:-$(uname -m)}, Linux $(uname -r |
		sed 's/-.*//'), $(date +%Y-%m-%d), with $("$perf" --version |
		sed 's/rdmamsg-perf/rdmamsg/')$(commit | sed 's/.*/ (&)/')."
}

RDMAMSG_DEVICE=soft
RDMAMSG_SOFT_FABRIC=picture-$$
export RDMAMSG_DEVICE RDMAMSG_SOFT_FABRIC

# shellcheck disable=SC2086 # a command
taskset -c 0 ${RUNNER-} "$perf" server -a 127.0.0.1 -p 0 >"$work/server" &
server=$!
until port=$(sed -n 's/^listening on port //p' "$work/server") &&
	[ -n "$port" ]
do
	kill -0 $server
	sleep 0.05
done

for mode in poll event
do
	for test in lat bw
	do
		taskset -c 1 ${RUNNER-} "$perf" $test 127.0.0.1 -p "$port" \
			--$mode --json \
			-s 1,64,256,1K,4K,16K,64K,256K,1M \
			>>"$work/rdmamsg"
	done
done
! grep '"moving": true' "$work/rdmamsg" >/dev/null ||
	echo "picture.sh: some figures were still moving" >&2
cd "$work"
"$perf" plot rdmamsg --compact --plot=picture.svg
line=$(measured_on)	# before the tree has a new picture
sed '1a <!-- SPDX-License-Identifier: BSD-2-Clause -->' picture.svg >"$to"
echo "$line"
