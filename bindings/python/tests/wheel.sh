#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: wheel.sh BUILDDIR
#
# Makes a wheel that contains the library, installs it in a new environment with
# nothing else, and runs an echo there. pip finds the dependency, cffi, in the
# system's packages or fails. 77: Python lacks pip, wheel or venv.

here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-/usr/bin/python3}
build=$(cd "$1" && pwd) || exit
"$python" -c 'import cffi, setuptools, wheel, pip, ensurepip' 2>/dev/null || {
	echo "skip python-wheel # Python lacks cffi, setuptools, wheel, pip or venv" >&2
	exit 77
}
work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cp -R "$here/../." "$work/source" || exit
RDMAMSG_SOURCE=$here/../../.. RDMAMSG_BUILD=$build RDMAMSG_BUNDLE=1 \
    "$python" -m pip -q wheel "$work/source" --no-build-isolation --no-deps \
    --no-index -w "$work" &&
"$python" -m venv --system-site-packages "$work/venv" &&
"$work/venv/bin/pip" -q install --no-index "$work"/rdmamsg-*.whl &&
cd / && unset LD_LIBRARY_PATH PYTHONPATH &&
RDMAMSG_DEVICE=soft RDMAMSG_SOFT_FABRIC="wheel-$$" \
    "$work/venv/bin/python" "$here/../samples/rpc.py" 127.0.0.1 &&
echo 'ok python-wheel'
