#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: instructions.sh PROGRAM [-v]
#
# Prints how many instructions the library needs for a message of 64 bytes:
# send, completion, receive and credit, at both ends together; for one that is
# allocated, and one that is sent with a reference, both with on_complete; and
# for a read and a write of as many, from the call to on_complete. Two runs of
# different length are subtracted, so that what is done once does not count;
# -v: by function.

set -eu

program=$1 verbose=${2:-}
few=1000 many=11000
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

command -v valgrind >/dev/null || {
	echo "instructions.sh: valgrind is missing" >&2
	exit 77
}

# Lines "COUNT FUNCTION" of what was executed in each function itself.
by_function()
{
	valgrind -q --tool=callgrind --toggle-collect="measured_$1" \
		--callgrind-out-file="$directory/out" "$program" "$1" "$2" \
		>"$directory/says"
	callgrind_annotate --threshold=100 --auto=no --show-percs=no \
		"$directory/out" |
	sed -n 's/^ *\([0-9,]\{1,\}\) .*:\([A-Za-z_][A-Za-z0-9_.'\'']*\).*$/\1 \2/p' |
		tr -d ,
}

for way in single pingpong stream msg ref read write
do
	by_function $way $few >"$directory/few"
	by_function $way $many >"$directory/many"
	awk -v messages=$((many - few)) -v way=$way -v verbose="$verbose" '
		FNR == NR { count[$2] -= $1; next }
		{ count[$2] += $1 }
		END {
			if (way == "pingpong")
				messages *= 2
			for (name in count) {
				if (name ~ /^null_/)
					device += count[name]
				else
					library += count[name]
				if (verbose == "-v" && count[name] > 0)
					printf "%10.1f  %s %s\n", \
						count[name] / messages, way, name | "sort -rn"
			}
			close("sort -rn")
			what = way == "read" || way == "write" ? "a " way : \
			       "a message"
			goal = way ~ /^(single|pingpong|stream)$/ ? \
			       " (goal: below 150)" : ""
			printf "%-9s %6.1f instructions for %s of 64 bytes%s, the device %.1f\n", \
				way, library / messages, what, goal, \
				device / messages
		}' "$directory/few" "$directory/many"
done
grep '^idle endpoint' "$directory/says"
