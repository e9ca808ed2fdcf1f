#! /bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# A program compiled with <rdmamsg/fast.h> of another layout than the library's
# neither links nor loads. Prints each way in which it does.

srcdir=${srcdir:-.}
builddir=${builddir:-.}
CC=${CC:-cc}
libs=$builddir/.libs

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
bad=0

layout=$(sed -n 's/^#define RDMAMSG_FAST_LAYOUT[ 	]*\([0-9]*\).*/\1/p' \
	"$srcdir/include/rdmamsg/fast.h")
symbol=rdmamsg_fast_layout_$layout
other=rdmamsg_fast_layout_$((layout + 1))
if [ -z "$layout" ]; then
	echo "fast.h: RDMAMSG_FAST_LAYOUT is not a number"
	exit 1
fi

# The header as an earlier or later release has it.
mkdir "$tmp/rdmamsg"
sed "s/$symbol/$other/" "$srcdir/include/rdmamsg/fast.h" \
	> "$tmp/rdmamsg/fast.h"

# Each file uses one inline. The last file only includes the header.
cat > "$tmp/send.c" <<-'C'
	#include <rdmamsg/fast.h>
	int user(struct rdmamsg_ep *ep);
	int user(struct rdmamsg_ep *ep)
	{
		return rdmamsg_fast_send(ep, "", 1, 0);
	}
C
cat > "$tmp/poll.c" <<-'C'
	#include <rdmamsg/fast.h>
	int user(struct rdmamsg *ctx);
	int user(struct rdmamsg *ctx)
	{
		return rdmamsg_fast_poll(ctx);
	}
C
echo '#include <rdmamsg/fast.h>' > "$tmp/nothing.c"
echo 'int main(void) { return 0; }' > "$tmp/main.c"
cat > "$tmp/load.c" <<-'C'
	#include <dlfcn.h>
	#include <stdio.h>
	int main(int argc, char **argv)
	{
		if (dlopen(argv[1], RTLD_LAZY))
			return 0;
		puts(dlerror());
		return 1;
	}
C

# must WHAT COMMAND...: runs a step that has to succeed.
must()
{
	what=$1
	shift
	if ! "$@" > "$tmp/log" 2>&1; then
		echo "$what: $*"
		cat "$tmp/log"
		exit 1
	fi
}

# refused WHAT COMMAND...: a step that has to fail for want of the symbol
refused()
{
	what=$1
	shift
	if "$@" > "$tmp/log" 2>&1; then
		echo "$what: accepted"
		bad=1
	elif ! grep -q "$other" "$tmp/log"; then
		echo "$what: refused for another reason"
		cat "$tmp/log"
		bad=1
	fi
}

LD_LIBRARY_PATH=$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
# --gc-sections lets the linker drop unreferenced sections.
flags="-O2 -fPIC -fdata-sections -ffunction-sections"
# shellcheck disable=SC2086 # words
must load $CC -o "$tmp/load" "$tmp/load.c" -ldl

for header in "$srcdir/include" "$tmp"; do
	expect=must
	[ "$header" = "$tmp" ] && expect=refused
	for name in send poll nothing; do
		# shellcheck disable=SC2086 # words
		must compile $CC $CPPFLAGS $flags -I"$header" \
			-I"$srcdir/include" -c -o "$tmp/$name.o" "$tmp/$name.c"
		# shellcheck disable=SC2086 # words
		$expect "linking $name" $CC -Wl,--gc-sections -o "$tmp/program" \
			"$tmp/main.c" "$tmp/$name.o" -L"$libs" -lrdmamsg
		# shellcheck disable=SC2086 # words
		must "plug-in $name" $CC -shared -Wl,-z,lazy \
			-Wl,--gc-sections -o "$tmp/$name.so" "$tmp/$name.o" \
			-L"$libs" -lrdmamsg
		$expect "loading $name" "$tmp/load" "$tmp/$name.so"
	done
done

exit $bad
