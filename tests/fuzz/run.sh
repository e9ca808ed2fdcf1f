#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Description: replays each fuzz target's corpus.

failed=0
for target in auth dc dc_frame doctor frame header hello key layout oob packet path perf preload resume session setup soft team topics word
do
	"${builddir:-.}/tests/fuzz/$target" \
		"${srcdir:-.}/tests/fuzz/corpus/$target" || failed=1
done
exit $failed
