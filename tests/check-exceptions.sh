#! /bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# An exception of C++ may leave a callback. The next call repairs the context,
# as tests/integration/left.c shows for longjmp(3). Skips without a compiler.

srcdir=${srcdir:-.}
builddir=${builddir:-.}
CXX=${CXX:-c++}

# shellcheck disable=SC2086 # words
command -v ${CXX%% *} >/dev/null 2>&1 || {
	echo "skip: no C++ compiler" >&2
	exit 77
}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

cat >"$tmp/left.cpp" <<'EOF'
#include <cstdio>
#include <cstring>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/rdmamsg.h>

static int closed;

static void on_connected(struct rdmamsg_ep *)
{
	throw 7;
}

static void on_closed(struct rdmamsg_ep *, const struct rdmamsg_reason *why)
{
	if (std::strstr(why->text, "exception"))
		closed++;
}

int main()
{
	struct rdmamsg_ep_handlers on = { sizeof(on) };
	struct rdmamsg_ep_options opts = { sizeof(opts) };
	struct rdmamsg_listen_options lo = { sizeof(lo) };
	struct rdmamsg_listener *l;
	struct rdmamsg *ctx;
	char port[8];
	int thrown = 0;

	on.on_connected = on_connected;
	on.on_closed = on_closed;
	opts.handlers = &on;
	lo.ep = &opts;
	if (rdmamsg_open(&ctx, NULL) ||
	    rdmamsg_listen(ctx, "127.0.0.1", "0", &lo, &l))
		return 2;
	std::snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(l));
	if (rdmamsg_connect(ctx, "127.0.0.1", port, &opts, NULL))
		return 2;
	while (!thrown) {
		try {
			if (rdmamsg_wait(ctx, 60000) <= 0)
				return 3;
		} catch (int n) {
			thrown = n;
		}
	}
	while (!closed)
		if (rdmamsg_wait(ctx, 60000) < 0) {
			std::fprintf(stderr, "%s\n", rdmamsg_error());
			return 4;
		}
	rdmamsg_close(ctx);
	return 0;
}
EOF
# shellcheck disable=SC2086 # words
$CXX -std=c++11 -I"$srcdir/include" -o "$tmp/left" "$tmp/left.cpp" \
	"$builddir/.libs/librdmamsg.so" || exit 1
RDMAMSG_DEVICE=soft LD_LIBRARY_PATH=$builddir/.libs timeout 600 "$tmp/left"
status=$?
[ $status -eq 0 ] || echo "an exception in a callback: status $status"
exit $status
