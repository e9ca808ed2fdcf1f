#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The package and the samples pass mypy --strict and pyright, which npm fetches if
# it is not installed. Exits with 77 if there is neither.

cd "$(dirname "$0")/.." || exit
python=${PYTHON:-/usr/bin/python3}
work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
status=0 tried=

# done_by CHECKER COMMAND...
done_by()
{
	checker=$1
	shift
	tried=1
	if "$@" >"$work/log" 2>&1
	then
		echo "ok python-types $checker"
	else
		cat "$work/log"
		echo "not ok python-types $checker"
		status=1
	fi
}

# The path of pyright, or a failure.
find_pyright()
{
	command -v pyright && return
	command -v npm >/dev/null && timeout 120 npm install --silent \
	    --no-audit --no-fund --prefix "$work" pyright >&2 &&
		echo "$work/node_modules/.bin/pyright"
}

if "$python" -c 'import mypy' 2>/dev/null
then
	done_by mypy "$python" -m mypy --strict --cache-dir "$work/cache" \
		rdmamsg samples/*.py
else
	echo "skip python-types mypy # it is not installed"
fi
if pyright=$(find_pyright)
then
	done_by pyright "$pyright" --pythonpath "$python" rdmamsg samples
else
	echo "skip python-types pyright # it is not installed, nor can npm fetch it"
fi
[ "$tried" ] || exit 77
exit $status
