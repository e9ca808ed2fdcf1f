#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: oldnew.sh WORKDIR BUILDDIR [CASE...]
#
# Builds an earlier commit in WORKDIR, and lets its library and that of BUILDDIR
# talk on the soft HCA: cases of tests/twohost in which the machine a has the older
# one, then the same with the two exchanged; those that are quick as InfiniBand and
# iWARP, too. With names of cases only those, on the link of RDMAMSG_SOFT_LINK.
# JOBS is how many compilers run at once.

set -eu

# the commit before the interface was gone over, and before ends had words
old=78bcf24d5659fb43aeb702f8a41c52caf622ed5f

cases='both_networks one_way sample_rc_pingpong sample_srq topic_repaired
	versions_libraries versions_mixed versions_words versions_left_open
	versions_perf versions_atomics versions_layouts versions_connectionless
	versions_team versions_copied killed_a slept silence failover_lanes
	failover_killed'
link_cases='both_networks one_way versions_mixed versions_words
	versions_left_open versions_perf failover_lanes'
programs='lib/soft/tools/rdmamsg-soft-ctl tests/twohost/peer samples/allreduce
	samples/atomics samples/dc
	samples/layout samples/rc-pingpong samples/rdmamsg-copy
	samples/rdmamsg-perf samples/rdmamsg-pub samples/rdmamsg-sub samples/srq'

[ $# -ge 2 ] || {
	sed -n '4,10s/^# \{0,1\}//p' "$0" >&2
	exit 2
}
top=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
work=$(cd "$1" && pwd)
new_build=$(cd "$2" && pwd)
shift 2
old_build=$work/build source=$work/source

# configure_old: once for each commit
configure_old()
{
	[ "$(cat "$work/commit" 2>/dev/null)" != $old ] || return 0
	rm -rf "$source" "$old_build" &&
	mkdir "$source" "$old_build" &&
	git -C "$top" archive $old | tar -x -C "$source" &&
	(cd "$source" && sh autogen.sh) &&
	(cd "$old_build" && "$source/configure" -q) &&
	echo $old >"$work/commit"
}

build_old()
{
	# shellcheck disable=SC2086 # words
	configure_old && make -C "$old_build" -s SHELL=/bin/sh \
	    -j"${JOBS:-$(nproc)}" \
	    LIBTOOL="sh $source/tests/quick-libtool ./libtool" $programs
}

# Prints the version that a header of a source tree defines: TREE HEADER NAME
version()
{
	sed -n "s/^#define $3[[:space:]][[:space:]]*\([0-9][0-9]*\).*/\1/p" "$1/$2"
}

# same_version HEADER NAME: fails if a tree does not define it
same_version()
{
	new_version=$(version "$top" "$1" "$2")
	[ "$new_version" ] &&
	[ "$(version "$source" "$1" "$2")" = "$new_version" ]
}

# named NAME: adds it to the names of results
named()
{
	sed "s/^\(ok\|not ok\|skip\|# took [0-9]*\) /&$1-/"
}

# talk NAME BUILD-A BUILD-B CASE...
talk()
{
	talk_name=$1 build_a=$2 build_b=$3 status=0
	shift 3
	sh "$top/tests/twohost/run.sh" -s -b "$build_b" "$build_a" "$@" \
		>"$work/log.$talk_name" 2>&1 || status=$?
	grep -q '^not ok ' "$work/log.$talk_name" || [ $status -eq 0 ] ||
		echo "not ok ended with status $status" >>"$work/log.$talk_name"
	named "$talk_name" <"$work/log.$talk_name"
	return $status
}

# both_ways LINK CASE...
both_ways()
{
	link=$1 failed=0
	shift
	RDMAMSG_SOFT_LINK=$link
	export RDMAMSG_SOFT_LINK
	talk "$link-old-new" "$old_build" "$new_build" "$@" || failed=1
	talk "$link-new-old" "$new_build" "$old_build" "$@" || failed=1
	return $failed
}

if ! git -C "$top" cat-file -e "$old^{commit}" 2>/dev/null
then
	echo 'skip oldnew # the history does not have the earlier commit'
	exit
fi
build_old >"$work/log" 2>&1 || {
	echo 'not ok build of the earlier commit'
	tail -n 40 "$work/log"
	exit 1
}
same_version lib/soft/fabric/shared.h SOFT_FABRIC_VERSION || {
	echo 'not ok fabric: the soft HCAs have no memory in common: name a later commit'
	exit 1
}

status=0
if ! same_version lib/wire/proto.h PROTO_VERSION
then both_ways ethernet versions_refused || status=1
elif [ $# -gt 0 ]
then both_ways "${RDMAMSG_SOFT_LINK:-ethernet}" "$@" || status=1
else
	# shellcheck disable=SC2086 # words
	{
		both_ways ethernet $cases || status=1
		both_ways ib $link_cases || status=1
		both_ways iwarp $link_cases || status=1
	}
fi
exit $status
