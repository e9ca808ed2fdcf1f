#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# usage: fuzz.sh [SECONDS [TARGET ...]]
#
# Runs each fuzz target under libFuzzer for that long (60), from its corpus.
# Needs clang and its runtime (libclang-rt-dev). Input that fails is left in
# the current directory as TARGET-crash-*: fix, then keep it in the corpus.
# With MERGE=1 whatever reaches new code is added to the corpus.
set -eu

seconds=${1:-60}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- auth dc dc_frame doctor frame header hello key layout oob packet \
	path perf preload resume session setup soft team topics word

top=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# what configure finds is optional
: >"$tmp/config.h"

for target in "$@"; do
	corpus=$top/tests/fuzz/corpus/$target
	echo "$target"
	mkdir "$tmp/new-$target"
	case $target in
	packet | soft) sources=$(find "$top/lib/soft" -name '*.c' ! -path '*/preload/*' \
			-exec grep -L '^int main' {} +)
		sources="$sources $top/lib/base/handles.c $top/lib/base/layout.c" ;;
	preload) sources=$(find "$top/lib/soft" -name '*.c' \
			! -path '*/preload/*' -exec grep -L '^int main' {} +)
		sources="$sources $top/lib/base/handles.c $top/lib/base/layout.c"
		for part in mad nldev nlmsg syscount sysfs sysname systree
		do sources="$sources $top/lib/soft/preload/$part.c"
		done ;;
	doctor)	sources=$top/samples/doctor/parse.c ;;
	perf)	sources=$top/samples/perf/rows.c ;;
	layout)	sources="$top/lib/wire/layout.c $top/lib/wire/proto.c"
		sources="$sources $top/lib/wire/path.c $top/lib/base/layout.c"
		sources="$sources $top/lib/wire/resume.c $top/lib/wire/addresses.c" ;;
	session | topics) sources=$(find "$top/lib" "$top/cm" -name '*.c' \
			! -path '*/preload/*' ! -name ev.c ! -name glib.c \
			! -name libevent.c ! -name uv.c \
			-exec grep -L '^int main' {} +) ;;
	team)	sources=$top/lib/wire/team.c ;;
	word)	sources=$top/lib/wire/word.c ;;
	frame)	sources="$top/lib/wire/frame.c $top/lib/group/stream.c"
		sources="$sources $top/lib/group/parity.c" ;;
	*)	sources="$top/lib/wire/proto.c $top/lib/wire/hello.c $top/lib/wire/oob_record.c"
		sources="$sources $top/lib/wire/path.c $top/lib/wire/resume.c"
		sources="$sources $top/lib/wire/addresses.c $top/lib/wire/dc_frame.c" ;;
	esac
	# shellcheck disable=SC2086 # names without spaces
	"${CLANG:-clang}" -std=gnu11 -D_GNU_SOURCE -O1 -g \
		-I"$top/lib" -I"$top" -I"$tmp" -I"$top/include" \
		-I"$top/samples/doctor" -I"$top/samples/perf" \
		-fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -o "$tmp/$target" \
		"$top/tests/fuzz/$target.c" $sources -libverbs -lrdmacm \
		-lcrypto -lpthread -ldl
	"$tmp/$target" -max_total_time="$seconds" -max_len=8192 -timeout=5 \
		-print_final_stats=1 -verbosity=0 \
		-artifact_prefix="$target-" "$tmp/new-$target" "$corpus"
	if [ -n "${MERGE-}" ]; then
		"$tmp/$target" -merge=1 "$corpus" "$tmp/new-$target"
	fi
done
