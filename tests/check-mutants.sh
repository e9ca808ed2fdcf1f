#! /bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Each deliberate mistake of tests/mutants/list can still be made: its text is
# found in one place of the sources.

command -v python3 >/dev/null || {
	echo 'python3 is missing: install it'
	exit 77
}
exec python3 "${srcdir:-.}/tests/mutants/run.py" -c .
