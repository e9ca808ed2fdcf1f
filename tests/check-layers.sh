#! /bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Each folder of lib/ and cm/ is a layer. A file includes only headers of its
# own folder and of the folders in the list below. And no file declares a
# function or a variable that only other folders define, which would be an arrow
# that no #include shows. A weak declaration is no arrow: the library links
# without a definition. The list itself has no circle, so none of files is larger
# than a folder.

srcdir=${srcdir:-.}

# FOLDER: what its files may include, as folders or single headers.
layers='
lib/base:
lib/wire: lib/base
lib/device: lib/base lib/wire lib/soft/soft.h lib/soft/cm/ucm_abi.h
lib/memory: lib/base lib/wire lib/device
lib/lane: lib/base lib/wire lib/device lib/memory
lib/session: lib/base lib/wire lib/device lib/memory lib/lane
lib/onesided: lib/base lib/wire lib/device lib/memory lib/lane lib/session
lib/chain: lib/base lib/wire lib/device lib/memory lib/lane lib/session
lib/dc: lib/base lib/wire lib/device lib/memory lib/lane lib/session lib/onesided
cm: lib/base lib/wire lib/device lib/memory lib/lane lib/session lib/onesided
cm/rdma: cm lib/base lib/wire lib/device lib/memory lib/lane lib/session lib/onesided
cm/oob: cm lib/base lib/wire lib/device lib/memory lib/lane lib/session lib/onesided
lib/qp: lib/base lib/wire lib/device lib/memory lib/lane lib/session cm/oob
lib/group: lib/base lib/wire lib/device lib/memory lib/session cm cm/rdma
lib/loop: lib/base lib/wire lib/device lib/memory lib/lane lib/session lib/onesided lib/qp lib/group lib/chain lib/dc cm cm/rdma
lib/soft/fabric: lib/base
lib/soft/net: lib/base lib/soft/fabric
lib/soft/verbs: lib/base lib/soft/fabric
lib/soft/engine: lib/base lib/soft/fabric lib/soft/verbs
lib/soft/transport: lib/base lib/soft/fabric lib/soft/net lib/soft/verbs lib/soft/engine
lib/soft/cm: lib/base lib/soft/fabric lib/soft/net lib/soft/verbs lib/soft/engine
lib/soft/cma: lib/base lib/soft/fabric lib/soft/verbs lib/soft/cm
lib/soft/control: lib/base lib/soft/fabric lib/soft/verbs lib/soft/engine lib/soft/cm
lib/soft: lib/base lib/soft/fabric lib/soft/net lib/soft/verbs lib/soft/engine lib/soft/transport lib/soft/cm lib/soft/cma lib/soft/control
lib/soft/preload: lib/base lib/soft lib/soft/fabric lib/soft/verbs lib/soft/cm lib/soft/control
lib/soft/tools: lib/soft/control
'

cd "$srcdir" || exit
tmp=$(mktemp -d) || exit
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

bad=0
files=$(find lib cm -name '*.[ch]')
printf '%s\n' "$layers" | sed '/^$/d' >"$tmp/layers"
awk '{
	sub(/:$/, "", $1)
	print $1, $1		# a folder without arrows
	for (i = 2; i <= NF; i++) {
		sub(/\/[^\/]*\.h$/, "", $i)
		print $1, $i
	}
}' "$tmp/layers" | tsort >/dev/null || {
	echo 'the list of layers has a circle'
	bad=1
}
for folder in $(printf '%s\n' $files | sed 's/\/[^/]*$//' | sort -u)
do
	grep -q "^$folder:" "$tmp/layers" || {
		echo "$folder is not in the list of layers"
		bad=1
	}
done

include='^[ 	]*#[ 	]*include[ 	]*'
grep -n "$include[^ 	\"<]" /dev/null $files && {
	echo 'an #include whose header a macro names cannot be checked'
	bad=1
}
# FILE LINE PATH, for a header relative to lib/, to the top or to the file
grep -n "$include[\"<]" /dev/null $files |
sed 's/^\([^:]*\):\([0-9]*\):[^"<]*["<]\([^">]*\).*/\1 \2 \3/' |
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
}' "$tmp/layers" "$tmp/arrows" || bad=1

# 'defines' or 'declares', NAME FOLDER FILE:LINE, of what is not static
awk '
FNR == 1 { text = "" }
{ sub(/\/\*.*/, "") }
!text && /^[ 	]*extern [^"]|^[a-z]/ && !/^[a-z_0-9]+:/ {
	text = $0
	line = FNR
}
text && FNR > line { text = text " " $0 }
text && match(text, /[;{=]/) {
	end = substr(text, RSTART, 1)
	head = substr(text, 1, RSTART - 1)
	text = ""
	if (head ~ /^(static|typedef)[ 	]|weak/)
		next
	gsub(/__attribute__.*|\[[^]]*\]/, "", head)
	gsub(/(struct|union|enum)[ 	]+[a-z_0-9]+/, "type", head)
	if (match(head, /\(\*[a-z_0-9]+/)) {
		name = substr(head, RSTART + 2, RLENGTH - 2)
		defines = head !~ /extern/
	} else if (match(head, /[a-z_0-9]+\(/)) {
		name = substr(head, RSTART, RLENGTH - 1)
		defines = end == "{"
	} else if (match(head, /[ *][a-z_0-9]+[ 	]*$/)) {
		name = substr(head, RSTART + 1)
		defines = head !~ /extern/
	} else {
		next
	}
	sub(/[ 	]+$/, "", name)
	folder = FILENAME
	sub(/\/[^\/]*$/, "", folder)
	print defines ? "defines" : "declares", name, folder, FILENAME ":" line
}' $files >"$tmp/names"
awk '
NR == FNR && $1 == "defines" { folders[$2] = folders[$2] " " $3 " " }
NR == FNR || $1 != "declares" { next }
{ seen++ }
folders[$2] && !index(folders[$2], " " $3 " ") {
	printf "%s declares %s, which is in%s\n", $4, $2, folders[$2]
	bad = 1
}
END { exit bad || !seen }' "$tmp/names" "$tmp/names" || bad=1
exit $bad
