#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: fresh.sh WORKDIR
#
# Follows README.md from a bare clone in a fresh root of Debian, WORKDIR/root, in
# which there is neither a compiler nor a header: types the first of its two
# commands twice, as root, the second with --help, and those that show manual
# pages. Then it installs what the first has built, follows the rest with
# readme.sh, and asks the soft HCA with the command for a card. The second run
# configures and compiles nothing. Before, a user without sudo, or whom sudo
# refuses, types the first command, and is told what to ask for; afterwards, it is
# done as that user, too. MIRROR is the archive, by default the one that this
# system uses.

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

# in_root COMMAND...: runs the command there, in processes of its own. UCX aborts
# without /sys.
in_root()
{
	unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" \
		sh -c 'mount --rbind /sys "$0/sys" && exec chroot "$@"' "$root" \
		${user:+"--userspec=$user"} "$root" \
		env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
		LC_ALL=C.UTF-8 "$@" >>"$log" 2>&1
}
user=		# empty: root

# as_user COMMAND: in a clone of that user
as_user()
{
	user=1000:1000 status=0
	in_root sh -c "cd /user/rdmamsg && $1" || status=$?
	user=
	return $status
}

# has_not PATTERN FILE: set -e ignores what begins with '!'
has_not()
{
	if grep "$1" "$2"
	then return 1
	fi
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
mkdir "$root/user"
cp -R "$root/rdmamsg" "$root/user"
chown -R 1000:1000 "$root/user"
passed

# what README.md says is typed, and what the last line of the first command says
readme=$top/README.md
command=$(sed -n 's/^    \(sh samples\/quickstart\) .*/\1/p' "$readme")
promise=$(sed -n "s/^    sh samples\/quickstart .* says '\(.*\)'$/\1/p" "$readme")
tests=$(sed -n 's/^    \(sh tests\/run\) .*/\1/p' "$readme")
conform=$(sed -n 's/.*`\(rdmamsg-conform -d DEVICE[^`]*\)`.*/\1/p' "$readme" |
	sed 's/DEVICE/soft0/')
compare=$(sed -n 's/.*`\(rdmamsg-perf compare\)`.*/\1/p' "$readme")
rivals=$(sed -n 's/.*`\(sh tests\/setup-packages bench [^`]*\)`.*/\1/p' "$readme")
install=$(sed -n 's/.*`\(make -C build install [^`]*\)`.*/\1/p' "$readme")
picture=$(sed -n 's/.*`\(sh samples\/perf\/picture.sh build\)`.*/\1/p' "$readme")
grep -o '`man -M man [^`]*`' "$readme" | tr -d '`' >"$root.pages"
for typed in "$command" "$promise" "$tests" "$conform" "$compare" "$rivals" "$picture" "$install"
do
	[ -n "$typed" ]
done
[ -s "$root.pages" ]

# asks: the user types it, is told what to ask for, and nothing else has happened
asks()
{
	: >"$log"
	(cd "$root" && find user tmp home) >"$root.before"
	if as_user "$command"
	then return 1
	fi
	asked='ask an administrator for: .*apt-get install --no-install-recommends'
	grep "^setup-packages: $1; $asked gcc libc6-dev make .* librdmacm-dev " \
		"$log"
	(cd "$root" && find user tmp home) | diff "$root.before" -
}

name=user-asks began=$(date +%s)
asks 'neither root nor sudo'
# a sudo that refuses
printf '#!/bin/sh\nexit 1\n' >"$root/usr/bin/sudo"
chmod +x "$root/usr/bin/sudo"
asks 'sudo does not let this user install packages'
rm "$root/usr/bin/sudo"
passed

# an interrupted dpkg leaves such a journal
name=quickstart began=$(date +%s)
in_root sh -c 'dpkg-query -s hostname |
	sed "s/^Status: .*/Status: install ok half-configured/" \
		>/var/lib/dpkg/updates/0000'
in_root sh -c "cd /rdmamsg && $command"
tail -n 1 "$log" | grep -F "$promise"
passed

name=tests-help began=$(date +%s)
: >"$log"
in_root sh -c "cd /rdmamsg && $tests --help"
grep '^Usage: tests/run ' "$log"
passed

name=manual began=$(date +%s)
in_root apt-get install -y --no-install-recommends man-db
while read -r page
do
	: >"$log"
	in_root sh -c "cd /rdmamsg && $page" </dev/null
	grep -i "^${page##* }(.*rdmamsg manual" "$log"
done <"$root.pages"
passed

name=quickstart-again began=$(date +%s)
: >"$log"
in_root sh -c "cd /rdmamsg && $command"
has_not '^configuring' "$log"
has_not '^  CC ' "$root/rdmamsg/build/quickstart.log"
passed

# twice, and interrupted at each step
name=user began=$(date +%s)
as_user "$command && sh tests/quickstart.sh build"
passed

name=program began=$(date +%s)
in_root sh -c "cd /rdmamsg && $install"
in_root sh -c 'cd /rdmamsg/build && sh /rdmamsg/tests/readme.sh ""'
passed

# as a user too, who needs no more than the device
name=conform began=$(date +%s)
conform="PATH=/usr/local/bin:\$PATH && rdmamsg-soft $conform"
: >"$log"
in_root sh -c "$conform"
as_user "$conform"
[ "$(grep -c '^  "complete": true,$' "$log")" -eq 2 ]
passed

# one round, with figures of all rivals
name=compare began=$(date +%s)
: >"$log"
in_root sh -c "cd /rdmamsg && $rivals"
# ends with 1, because UCX's tool finds no transport in such a root
in_root sh -c "PATH=/usr/local/bin:\$PATH && $compare -n 1 || [ \$? -eq 1 ]"
for rival in 'rdmamsg, polling' 'rdmamsg, events' 'TCP, epoll' 'TCP, busy poll' \
	ZeroMQ UCX libfabric
do
	grep "^$rival  *[0-9]" "$log"
done
passed

name=picture began=$(date +%s)
in_root apt-get install -y --no-install-recommends gnuplot-nox
: >"$log"
in_root sh -c "cd /rdmamsg && $picture"
grep '^Measured on ' "$log"
passed
