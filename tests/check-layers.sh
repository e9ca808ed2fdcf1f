#! /bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Each folder of lib/ and cm/ is a layer. A file includes only headers of its own
# folder and of the folders in the list below. And no header declares a function
# of another folder, which would be a call upward that no #include shows.

srcdir=${srcdir:-.}

# FOLDER: what its files may include, as folders or single headers. A folder that
# is not listed is not checked.
layers='
lib/base:
lib/wire: lib/base
lib/device: lib/base lib/wire lib/soft/soft.h lib/soft/cm/ucm_abi.h
lib/memory: lib/base lib/wire lib/device
lib/lane: lib/base lib/wire lib/device lib/memory
lib/session: lib/base lib/wire lib/device lib/memory lib/lane
lib/onesided: lib/base lib/wire lib/device lib/memory lib/lane lib/session
cm: lib/base lib/wire lib/device lib/memory lib/lane lib/session lib/onesided
cm/rdma: cm lib/base lib/wire lib/device lib/memory lib/lane lib/session lib/onesided
cm/oob: cm lib/base lib/wire lib/device lib/memory lib/lane lib/session lib/onesided
lib/qp: lib/base lib/wire lib/device lib/memory lib/lane lib/session cm/oob
lib/group: lib/base lib/wire lib/device lib/memory lib/session cm cm/rdma
lib/loop: lib/base lib/wire lib/device lib/memory lib/lane lib/session lib/onesided lib/qp lib/group cm cm/rdma
lib/soft/fabric: lib/base
lib/soft/verbs: lib/base lib/soft/fabric
lib/soft/engine: lib/base lib/soft/fabric lib/soft/verbs
lib/soft/cm: lib/base lib/soft/fabric lib/soft/verbs lib/soft/engine
lib/soft/cma: lib/base lib/soft/fabric lib/soft/verbs lib/soft/cm
lib/soft/control: lib/base lib/soft/fabric lib/soft/verbs lib/soft/engine lib/soft/cm
lib/soft: lib/soft/fabric lib/soft/verbs lib/soft/engine lib/soft/cm lib/soft/cma lib/soft/control
lib/soft/preload: lib/base lib/soft lib/soft/fabric lib/soft/verbs lib/soft/cm
lib/soft/tools: lib/soft/control
'

cd "$srcdir" || exit
tmp=$(mktemp -d) || exit
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

printf '%s\n' "$layers" | sed '/^$/d' >"$tmp/layers"
# FILE:#include "HEADER", with HEADER relative to lib/ or to the file
grep -n '^[ 	]*#[ 	]*include[ 	]*"' /dev/null $(find lib cm -name '*.[ch]') |
sed 's/^\([^:]*\):\([0-9]*\):.*"\(.*\)".*/\1 \2 \3/' |
while read -r file line header
do
	for path in "lib/$header" "$header" "${file%/*}/$header"
	do
		[ -f "$path" ] && echo "$file $line $path"
	done
done >"$tmp/arrows"

awk '
NR == FNR {
	folder = $1
	sub(/:$/, "", folder)
	listed[folder] = 1
	for (i = 2; i <= NF; i++)
		may[folder, $i] = 1
	next
}
{
	from = to = $0
	sub(/ .*/, "", from)
	sub(/\/[^\/]*$/, "", from)
	sub(/.* /, "", to)
	header = to
	sub(/\/[^\/]*$/, "", to)
	if (listed[from] && from != to && !may[from, to] && !may[from, header]) {
		printf "%s:%s: %s may not include %s\n", $1, $2, from, header
		bad = 1
	}
}
END {
	if (!FNR)
		print "no #include found"
	exit bad || !FNR
}' "$tmp/layers" "$tmp/arrows" || exit

# NAME FOLDER FILE of what is defined, and of what is declared
names()
{
	awk '/^[a-z].*[ *](rdmamsg__|soft_)[a-z0-9_]+\(/ && !/^static|^typedef/ {
		match($0, /(rdmamsg__|soft_)[a-z0-9_]+\(/)
		folder = FILENAME
		sub(/\/[^\/]*$/, "", folder)
		print substr($0, RSTART, RLENGTH - 1), folder, FILENAME
	}' "$@"
}

names $(find lib cm -name '*.c') >"$tmp/defined"
names $(find lib cm -name '*.h') >"$tmp/declared"
awk '
NR == FNR { folders[$1] = folders[$1] " " $2 " "; next }
{ seen++ }
folders[$1] && !index(folders[$1], " " $2 " ") {
	printf "%s declares %s(), which is in%s\n", $3, $1, folders[$1]
	bad = 1
}
END { exit bad || !seen }' "$tmp/defined" "$tmp/declared"
