#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: run.sh BUILDDIR [PROGRAM...]
#        run.sh -l
#
# Runs the integration tests inside the test machine: a line for each test
# function, `ok NAME`, `not ok NAME` or `skip NAME # reason`, and what a program
# with a failure has said after its lines. A program that dies is a failure too.
# Lines of a program that begin with `# needed` say what a test has used. A test
# that takes longer than a second has a line `# took SECONDS NAME # waited ...`.
# With -l it lists the programs.

set -eu

# device comes first: it removes the device, which nothing else must have open
programs="device errors arguments handles log stats ends fork connect setup
	request_key
	accept close word messages refs crc memory cookies credits burst loop
	submit timer adapters adapters_event wait move listen_lanes listen_shared listen_threads idle events dead death
	killed cycles failover announce fast oob oob_records oob_strangers qp qp_xrc
	raw rma op_timeout op_timeout_lane atomics
	layout window features process exit unload signals left links shutdown successor
	regcache srq srq_options pool pd guard group topics thousands
	strangers auth chain chain_native chain_carried team team_connect team_leave team_native dc
	dc_onesided dc_native dc_onesided_native dc_lease"

[ $# -ge 1 ] || { sed -n 's/^# //; 4,5p' "$0" >&2; exit 2; }
if [ "$1" = -l ]
then
	# shellcheck disable=SC2086 # words
	echo $programs
	exit
fi

PATH=$1/lib/soft/tools:$PATH
build=$1/tests/integration
shift
# shellcheck disable=SC2086 # words
[ $# -gt 0 ] || set -- $programs

log=$(mktemp)
trap 'rm -f "$log" "$log".*' EXIT

# results PROGRAM STATUS: the lines for what is in the log.
results()
{
	awk -v program="$1" -v status="$2" '
	function result(what, text) {
		if (took)
			print "# took " took " " program ": " text waited
		took = waited = ""
		print what " " program ": " text
		seen++
	}
	/^# needed/ { print }
	/^# took / {
		took = $3
		waited = substr($0, 8 + length(took))
		next
	}
	/^1\.\.[0-9]+$/ { planned = substr($0, 4) + 0 }
	/^skip: / { why = substr($0, 7) }
	/^(not )?ok [0-9]+ # SKIP / {
		sub(/^.* # SKIP /, "")
		result("skip", $0 " # " why)
		next
	}
	/^ok [0-9]+ - / { sub(/^ok [0-9]+ - /, ""); result("ok", $0) }
	/^not ok [0-9]+ - / {
		sub(/^not ok [0-9]+ - /, "")
		result("not ok", $0)
		failed = 1
	}
	END {
		if (status == 77 && !seen) {
			print "skip " program " # " why
		} else if ((status != 0 && !failed) || !seen ||
			   seen < planned) {
			print "not ok " program ": status " status " after " \
				seen + 0 " of " planned + 0 " tests"
			failed = 1
		}
		exit failed
	}' "$log"
}

# took PROGRAM: prints how long the program has run, from the clock and the
# times before it and after it.
took()
{
	cat "$log.began" "$log.ended" | tr 'ms' '  ' | awk -v program="$1" '
	NF == 1 { clock = $1 - clock }
	NF == 4 && ++lines % 2 == 0 {
		processor = 60 * ($1 + $3) + $2 + $4 - processor
	}
	END {
		printf "# %s: %.1f s, %.1f s of processor\n", program,
			clock / 1000, processor
	}'
}

failed=0
for program
do
	status=0
	{
		date +%s%3N
		times
	} >"$log.began"
	CMOCKA_MESSAGE_OUTPUT=TAP "$build/$program" >"$log" 2>&1 || status=$?
	{
		date +%s%3N
		times
	} >"$log.ended"
	took "$program"
	if ! results "$program" "$status"
	then
		failed=1
		grep -v '^\(not \)\{0,1\}ok [0-9]' "$log" | sed 's/^/# /'
	fi
done
exit $failed
