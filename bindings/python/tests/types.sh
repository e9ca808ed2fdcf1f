#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The package and the samples pass mypy --strict. 77: there is no mypy.

cd "$(dirname "$0")/.." || exit
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import mypy' 2>/dev/null || {
	echo "skip python-types # no mypy" >&2
	exit 77
}
cache=$(mktemp -d) || exit
trap 'rm -rf "$cache"' EXIT
trap 'exit 1' HUP INT TERM
"$python" -m mypy --strict --cache-dir "$cache" rdmamsg samples/*.py &&
	echo 'ok python-types'
