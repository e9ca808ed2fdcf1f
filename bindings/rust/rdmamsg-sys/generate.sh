#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: generate.sh [-c]
#
# Makes the modules of src from the headers with bindgen 0.60. With -c compares
# them with those in src instead. Exits with 77 if there is no bindgen 0.60.
# bindgen 0.60 needs libclang 14; LIBCLANG_PATH names its directory.

set -u

here=$(cd "$(dirname "$0")" && pwd) || exit
work=$(mktemp -d) || exit
trap 'rm -rf "$work"' EXIT
: "${LIBCLANG_PATH:=/usr/lib/llvm-14/lib}"
export LIBCLANG_PATH

case $(bindgen --version 2>/dev/null) in
*' 0.60.'*)	;;
*)	echo 'skip rust-generate # no bindgen 0.60' >&2
	exit 77 ;;
esac
command -v rustfmt >/dev/null || {
	echo 'skip rust-generate # no rustfmt' >&2
	exit 77
}
# rustfmt finds rustfmt.toml from here
cd "$here" || exit
bindgen "$here/wrapper.h" -o "$work/all" \
    --allowlist-function 'rdmamsg_.*' --allowlist-type 'rdmamsg_.*' \
    --allowlist-var 'RDMAMSG_.*' \
    --blocklist-type 'sockaddr_storage|iovec|sa_family_t' \
    --no-layout-tests --no-doc-comments --no-prepend-enum-name \
    --size_t-is-usize --rust-target 1.47 -- \
    -I"$here/../../../include" || exit

# An item ends with a line that begins with '}' or ends with ';' at the margin.
awk -v out="$work" '
	function file() {
		if (item ~ /extern "C" \{/)
			return "functions"
		if (item ~ /^pub const/)
			return "constants"
		if (item ~ /(struct|union|type) rdmamsg_(device|port|gid|cap|event)/)
			return "device"
		if (item ~ /(struct|union|type) rdmamsg_(group|chain|team|calc|failover|path)/)
			return "groups"
		return "types"
	}
	/^\/\*/ || /^$/ || /^pub type __/ { next }
	{ item = item $0 "\n" }
	/^}/ || (/^[^ #].*;$/) || (/^    .*;$/ && item ~ /^pub (const|type)/) {
		name = file()
		if (name == "functions") {
			sub(/^extern "C" \{\n/, "", item)
			sub(/}\n$/, "", item)
		}
		printf "%s", item >(out "/" name ".rs")
		item = ""
	}' "$work/all"

status=0
for name in constants device functions groups types
do
	new=$work/$name.new
	{
		echo '// SPDX-License-Identifier: BSD-2-Clause'
		echo '//! Made by generate.sh.'
		echo
		echo 'use super::*;'
		echo
		[ $name != functions ] || echo 'extern "C" {'
		cat "$work/$name.rs"
		[ $name != functions ] || echo '}'
	} >"$new"
	case ${1:-} in
	-c)	diff -u "$here/src/$name.rs" "$new" || status=1 ;;
	*)	cp "$new" "$here/src/$name.rs" ;;
	esac
done
exit $status
