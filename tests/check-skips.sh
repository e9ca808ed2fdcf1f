#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# tests/skips: each skip has a reason, and only a rule of a device is a reason for
# any test of a program.

bad=$(grep -v '^#' "${srcdir:-.}/tests/skips" |
	grep -n -v -e '^[^*]* # .' -e '^[^*]*: \* # .*\(iWARP\|InfiniBand\|device\|libibverbs\)')
[ -z "$bad" ] && exit
printf 'not a name and a reason:\n%s\n' "$bad"
exit 1
