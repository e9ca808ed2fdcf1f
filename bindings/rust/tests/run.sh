#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Usage: run.sh BUILDDIR [TEST...]
#
# Runs the tests of the Rust binding on the soft HCA, once for each of the words
# of LINKS ("ethernet ib iwarp"), then the samples and the examples of the
# documentation. Without TEST, all; "bench" and its options compare with C. Crates come from the packages of the
# distribution, and what is built goes to BUILDDIR/rust. With VALGRIND=1 the tests
# also run under valgrind, and with LINT=1 rustfmt, clippy and generate.sh -c
# judge the sources. Prints 'ok NAME', 'not ok NAME' or 'skip NAME # reason'.
# Exits with 77 if there is no cargo or a crate is missing.

set -u

here=$(cd "$(dirname "$0")" && pwd) || exit
[ $# -ge 1 ] || { sed -n 's/^# \(Usage: \)/\1/p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd) || exit
shift
tests=${*:-connect messages callbacks lifetime onesided group aio allocations}
registry=/usr/share/cargo/registry
# that of the distribution fits its crates
cargo=${CARGO:-/usr/bin/cargo}

skip()
{
	echo "skip rust # $*" >&2
	exit 77
}

"$cargo" --version >/dev/null 2>&1 || skip "no $cargo"
for crate in libc tokio futures futures-core
do
	set -- "$registry/$crate"-[0-9]*
	[ -d "$1" ] || skip "no package librust-$crate-dev"
done

work=$build/rust
mkdir -p "$work/source/.cargo" || exit
for name in Cargo.toml rustfmt.toml rdmamsg rdmamsg-sys samples bench
do
	rm -rf "${work:?}/source/$name"
	cp -Rp "$here/../$name" "$work/source" || exit
done
chmod -R u+w "$work/source"
cp "$here/debian.toml" "$work/source/.cargo/config.toml" || exit
cd "$work/source" || exit

# clippy-driver and rustfmt of the same version
PATH=$(dirname "$cargo"):$build/lib/soft/tools:$PATH
LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
LIBRDMAMSG_DIR=$build/.libs CARGO_TARGET_DIR=$work/target
RDMAMSG_DEVICE=soft RDMAMSG_SOFT_FABRIC="rust-$$" RUST_BACKTRACE=0
export PATH LD_LIBRARY_PATH LIBRDMAMSG_DIR CARGO_TARGET_DIR RDMAMSG_DEVICE \
	RDMAMSG_SOFT_FABRIC RUST_BACKTRACE

case $tests in
bench*)	# shellcheck disable=SC2086 # words
	exec taskset -c 1 "$cargo" run -q -j "${JOBS:-1}" --offline --release \
	    -p rdmamsg --example $tests ;;
esac

status=0

# report NAME COMMAND...: prints what a command says only if it fails
report()
{
	name=$1
	shift
	if timeout "${TEST_TIMEOUT:-300}" "$@" >"$work/out" 2>&1 </dev/null
	then
		echo "ok rust $name"
	else
		cat "$work/out"
		echo "not ok rust $name"
		status=1
	fi
}

# cases NAME COMMAND...: runs a program of tests, and prints a line for each
cases()
{
	name=$1
	shift
	report "$name" "$@"
	sed -n "s/^test \\(.*\\) \\.\\.\\. ok\$/ok rust $name \\1/p" "$work/out"
}

# program NAME: prints the path of the program of these tests
program()
{
	sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' "$work/programs" |
		grep "/deps/$1-[0-9a-f]*\$" | tail -n 1
}

# sample NAME ARGUMENT...: a server, and a client that must print NAME.out
sample()
{
	name=$1
	shift
	: >"$work/port"
	"$work/target/debug/examples/$name" 0 >"$work/port" &
	server=$!
	# shellcheck disable=SC2034 # a count
	for try in $(seq 300)
	do
		[ ! -s "$work/port" ] || break
		sleep 0.1
	done
	timeout 60 "$work/target/debug/examples/$name" 127.0.0.1 \
		"$(cat "$work/port")" "$@" >"$work/out" 2>&1
	sample_status=$?
	kill "$server"
	wait "$server" 2>/dev/null
	said "$name"
}

# said NAME: what the client of a sample has printed is NAME.out
said()
{
	if [ $sample_status -eq 0 ] && cmp -s "$work/out" "$here/$1.out"
	then
		echo "ok rust sample $1"
	else
		cat "$work/out"
		echo "not ok rust sample $1"
		status=1
	fi
}

# kv: commands to the server of samples/kv, and what it says
kv()
{
	if [ ! -x "$build/samples/kv-server" ]
	then
		echo 'skip rust sample kv # no kv-server'
		return
	fi
	rm -f "$work/data"*
	"$build/samples/kv-server" 127.0.0.1 0 0 "$work/data" >"$work/port" &
	server=$!
	# shellcheck disable=SC2034 # a count
	for try in $(seq 300)
	do
		port=$(sed -n 's/^listening on port //p' "$work/port")
		[ -z "$port" ] || break
		sleep 0.1
	done
	timeout 60 "$work/target/debug/examples/kv" 127.0.0.1 "$port" \
		<"$here/kv.in" >"$work/out" 2>&1
	sample_status=$?
	kill "$server"
	wait "$server" 2>/dev/null
	said kv
}

lint()
{
	if "$cargo" fmt --version >/dev/null 2>&1
	then report rustfmt "$cargo" fmt --check -p rdmamsg
	else echo 'skip rustfmt # no package rustfmt'
	fi
	if "$cargo" clippy --version >/dev/null 2>&1
	then report clippy "$cargo" clippy -j "${JOBS:-1}" --offline --all-targets \
		--all-features -- -D warnings
	else echo 'skip clippy # no package rust-clippy'
	fi
	sh "$here/../rdmamsg-sys/generate.sh" -c
	case $? in
	0)	echo 'ok rust generate' ;;
	77)	;;
	*)	status=1
		echo 'not ok rust generate' ;;
	esac
}

compile()
{
	"$cargo" test -q -j "${JOBS:-1}" --offline --features tokio --no-run \
		--tests --message-format json >"$work/programs" 2>"$work/err" &&
		"$cargo" build -q -j "${JOBS:-1}" --offline --features tokio \
			--examples 2>"$work/err"
}

compile || {
	grep -o '"rendered":"[^"]*"' "$work/programs" | head -n 20
	cat "$work/err"
	echo 'not ok rust build'
	exit 1
}

for link in ${LINKS:-${RDMAMSG_SOFT_LINK:-ethernet}}
do
	export RDMAMSG_SOFT_LINK="$link"
	for name in $tests
	do
		cases "$link $name" "$(program "$name")" --test-threads=1
	done
done
# two tests leave memory: by mem::forget(), and in a child of fork()
if [ -n "${VALGRIND:-}" ]
then
	for name in $tests
	do
		report "valgrind $name" valgrind -q --error-exitcode=9 \
			--leak-check=full --errors-for-leak-kinds=definite \
			--suppressions="$here/valgrind.supp" \
			"$(program "$name")" --test-threads=1 \
			--skip leaked --skip forked
	done
fi
sample echo hello
sample rpc
kv
report documentation "$cargo" test -q -j "${JOBS:-1}" --offline \
	--features tokio --doc -p rdmamsg -- --test-threads=1
[ -z "${LINT:-}" ] || lint
exit $status
