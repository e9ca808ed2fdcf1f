#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: fresh.sh WORKDIR
#
# Follows README.md from a bare clone in a fresh root of Debian, WORKDIR/root, in
# which there is neither a compiler nor a header: types the first of its two
# commands twice, as root, then installs what that has built and follows the rest
# with readme.sh. The second run configures and compiles nothing. MIRROR is the
# archive, by default the one that this system uses.

set -eu

[ $# -eq 1 ] || {
	sed -n 's/^# \(Usage: \)/\1/p' "$0" >&2
	exit 2
}
top=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
root=$(cd "$1" && pwd)/root
log=$root.log
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
name=root
trap '[ $? -eq 0 ] || {
	sed "s/^/# /" "$log" | tail -n 60
	echo "not ok fresh-$name"
}' EXIT

# Prints the archive: $MIRROR, or the one that this system uses
mirror()
{
	[ -z "${MIRROR-}" ] || { echo "$MIRROR"; return; }
	apt-get indextargets --format '$(REPO_URI)' | grep -v security |
		head -n 1
}

# passed: prints the result of the step
passed()
{
	echo "ok fresh-$name"
	echo "# took $(($(date +%s) - began)) fresh-$name"
}

# in_root COMMAND...: runs the command there, in processes of its own
in_root()
{
	unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" \
		chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/root LC_ALL=C.UTF-8 "$@" >>"$log" 2>&1
}

began=$(date +%s)
rm -rf "$root"
: >"$log"
mmdebstrap --variant=minbase "$suite" "$root" \
	"deb $(mirror) $suite main" >>"$log" 2>&1
cp /etc/resolv.conf "$root/etc/resolv.conf"
rm -rf "$root/rdmamsg"
# as in a clone: what is committed, and no configure
mkdir "$root/rdmamsg"
git -C "$top" archive HEAD | tar -x -C "$root/rdmamsg"
passed

# what README.md says is typed
name=quickstart began=$(date +%s)
command=$(sed -n 's/^    \(sh samples\/quickstart\) .*/\1/p' "$top/README.md")
[ -n "$command" ]
in_root sh -c "cd /rdmamsg && $command"
passed

name=quickstart-again began=$(date +%s)
: >"$log"
in_root sh -c "cd /rdmamsg && $command"
! grep '^configuring' "$log"
! grep '^  CC ' "$root/rdmamsg/build/quickstart.log"
passed

name=program began=$(date +%s)
in_root sh -c 'cd /rdmamsg/build && make install && ldconfig &&
	sh /rdmamsg/tests/readme.sh ""'
passed
