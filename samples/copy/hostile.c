/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that rdmamsg-copy must resist. 'copy-hostile HOST PORT' is a client:
 * the server's directory has symbolic links "link", to a directory outside, and
 * "file-link", to a file in it. 'copy-hostile --old-server HOST' is a server of
 * an older version. Tests run them.
 */
#include "copy.h"

#include <rdmamsg/rdmamsg.h>

#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS	10000
#define LIMIT		120	/* seconds for the whole run */

static const char *host, *port;
static struct rdmamsg *ctx;
static int cases, failures;

static void check(bool ok, const char *what)
{
	cases++;
	if (ok)
		return;
	failures++;
	fprintf(stderr, "copy-hostile: %s: not refused as it should be\n",
		what);
}

static int dial(const char *hello, struct rdmamsg_ep **ret)
{
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts),
		.hello_data = hello,
		.hello_data_len = strlen(hello),
	};

	return rdmamsg_connect_wait(ctx, host, port, &opts, TIMEOUT_MS, ret);
}

static struct rdmamsg_ep *dial_ok(void)
{
	struct rdmamsg_ep *ep;

	if (dial(COPY_HELLO, &ep))
		errx(1, "%s", rdmamsg_error());
	return ep;
}

static void send_as(struct rdmamsg_ep *ep, enum copy_tag tag, const void *data,
		    size_t len)
{
	/* the server may end the connection; the test checks its answers */
	(void)rdmamsg_send_wait(ep, data, len, tag, TIMEOUT_MS);
}

static void send_kind(struct rdmamsg_ep *ep, uint32_t kind, uint32_t nsec,
		      uint64_t size, const char *path, size_t len)
{
	struct copy_begin b = {
		.kind = (enum copy_kind)kind, .size = size, .mode = 0777,
		.mtime = { 1, (long)nsec },
	};
	uint8_t buf[COPY_BEGIN_MAX + 4096];

	(void)copy_begin_encode(&b, buf);
	memcpy(buf + COPY_BEGIN_FIXED, path, len);
	send_as(ep, COPY_BEGIN, buf, COPY_BEGIN_FIXED + len);
}

static void send_begin(struct rdmamsg_ep *ep, uint64_t size, const char *path,
		       size_t len)
{
	send_kind(ep, COPY_FILE, 0, size, path, len);
}

static void send_dir(struct rdmamsg_ep *ep, enum copy_kind kind,
		     const char *path)
{
	send_kind(ep, kind, 0, 0, path, strlen(path));
}

/* Returns 0: done, 1: refused, negative: no answer. */
static int answer(struct rdmamsg_ep *ep)
{
	struct copy_result r;
	struct rdmamsg_msg *msg;
	int ret = rdmamsg_recv_wait(ep, TIMEOUT_MS, &msg);

	if (ret)
		return ret;
	ret = copy_result_decode(&r, rdmamsg_msg_data(msg),
				 rdmamsg_msg_len(msg));
	rdmamsg_msg_free(msg);
	return ret ? ret : (int)r.failed;
}

static bool dropped(struct rdmamsg_ep *ep)
{
	struct rdmamsg_msg *msg;
	int ret;

	while (!(ret = rdmamsg_recv_wait(ep, TIMEOUT_MS, &msg)))
		rdmamsg_msg_free(msg);
	(void)rdmamsg_ep_close_wait(ep, TIMEOUT_MS);
	return ret == -ECONNRESET;
}

static void sha_of(const void *data, size_t len, uint8_t sha[COPY_SHA_LEN])
{
	struct copy_digest *d = copy_digest_new();

	if (!d || copy_digest_add(d, data, len) || copy_digest_end(d, sha))
		errx(1, "no SHA-256");
	copy_digest_free(d);
}

/* ---- names ------------------------------------------------------------ */

static void names(struct rdmamsg_ep *ep)
{
	static const char *const bad[] = {
		"", ".", "..", "../escaped", "/tmp/escaped", "a/escaped",
		".hidden", "slash/", "..\\..", ".rdmamsg-copy-0123456789abcdef",
		"/", "//", "dir/..", "dir/../escaped", "dir/../../escaped",
		"dir//escaped", "dir/./escaped", "dir/", "./escaped",
		".hidden/escaped", "link/escaped", "link/inside/escaped",
		"link/..", "file-link/escaped", "missing/escaped",
	};
	char longest[NAME_MAX + 2], path[COPY_PATH_MAX + 2];

	send_dir(ep, COPY_DIR, "dir");
	check(answer(ep) == 0, "a directory that may be made");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		for (uint32_t kind = COPY_FILE; kind < COPY_KINDS; kind++) {
			send_kind(ep, kind, 0, 0, bad[i], strlen(bad[i]));
			check(answer(ep) == 1, bad[i]);
		}
	/*
	 * the server refuses a symbolic link as a directory, whatever its
	 * target
	 */
	send_dir(ep, COPY_DIR, "link");
	check(answer(ep) == 1, "a directory that is a link");
	send_dir(ep, COPY_DIR_END, "link");
	check(answer(ep) == 1, "the end of a directory that is a link");
	for (size_t i = 0; i < sizeof(path); i++)
		path[i] = i % 2 ? '/' : 'd';
	send_begin(ep, 0, path, sizeof(path));
	check(answer(ep) == 1, "a path too long");
	send_begin(ep, 0, path, COPY_PATH_MAX - 2);
	check(answer(ep) == 1, "a path of directories that are missing");
	send_begin(ep, 0, "nul\0escaped", 11);
	check(answer(ep) == 1, "a name with NUL");
	memset(longest, 'x', sizeof(longest));
	send_begin(ep, 0, longest, sizeof(longest));
	check(answer(ep) == 1, "a name too long");
	send_begin(ep, (uint64_t)1 << 63, "huge", 4);
	check(answer(ep) == 1, "a size beyond 2^63");
}

/* ---- contents --------------------------------------------------------- */

static void contents(struct rdmamsg_ep *ep)
{
	uint8_t sha[COPY_SHA_LEN];

	sha_of("wrong", 5, sha);
	send_begin(ep, 5, "forged", 6);
	send_as(ep, COPY_DATA, "right", 5);
	send_as(ep, COPY_END, sha, sizeof(sha));
	check(answer(ep) == 1, "another SHA-256");

	sha_of("half", 4, sha);
	send_begin(ep, 8, "half", 4);
	send_as(ep, COPY_DATA, "half", 4);
	send_as(ep, COPY_END, sha, sizeof(sha));
	check(answer(ep) == 1, "half a file");

	send_begin(ep, 4, "longer", 6);
	send_as(ep, COPY_DATA, "longer", 6);
	check(answer(ep) == 1, "more bytes than announced");
	/* the server ignores data in flight after the error */
	send_as(ep, COPY_DATA, "longer", 6);
	send_as(ep, COPY_END, sha, sizeof(sha));

	send_begin(ep, 4, "cancelled", 9);
	send_as(ep, COPY_DATA, "ca", 2);
	send_as(ep, COPY_CANCEL, NULL, 0);
	check(answer(ep) == 1, "a cancelled file");

	sha_of("fine", 4, sha);
	send_begin(ep, 4, "fine", 4);
	send_as(ep, COPY_DATA, "fine", 4);
	send_as(ep, COPY_END, sha, sizeof(sha));
	check(answer(ep) == 0, "a good file after all that");

	/* the file replaces the link, not its target */
	send_begin(ep, 4, "file-link", 9);
	send_as(ep, COPY_DATA, "fine", 4);
	send_as(ep, COPY_END, sha, sizeof(sha));
	check(answer(ep) == 0, "a good file in place of a link");
	send_begin(ep, 4, "dir", 3);
	send_as(ep, COPY_DATA, "fine", 4);
	send_as(ep, COPY_END, sha, sizeof(sha));
	check(answer(ep) == 1, "a file in place of a directory");
	send_dir(ep, COPY_DIR, "fine");
	check(answer(ep) == 1, "a directory in place of a file");

	send_begin(ep, COPY_SIZE_UNKNOWN, "unknown", 7);
	send_as(ep, COPY_DATA, "half", 4);
	send_as(ep, COPY_END, sha, sizeof(sha));
	check(answer(ep) == 1, "another SHA-256 of an unknown size");
}

/* ---- the protocol ----------------------------------------------------- */

static void out_of_turn(void)
{
	uint8_t sha[COPY_SHA_LEN] = { 0 };
	struct rdmamsg_ep *ep;

	ep = dial_ok();
	send_as(ep, COPY_BEGIN, "abc", 3);
	check(dropped(ep), "a broken BEGIN");

	ep = dial_ok();
	send_kind(ep, COPY_KINDS, 0, 0, "kind", 4);
	check(dropped(ep), "a BEGIN of no known kind");

	ep = dial_ok();
	send_kind(ep, COPY_FILE, 1000000000, 0, "time", 4);
	check(dropped(ep), "a time of too many nanoseconds");

	ep = dial_ok();
	send_dir(ep, COPY_DIR, "dir");
	check(answer(ep) == 0, "a directory once more");
	send_as(ep, COPY_DATA, "abc", 3);
	check(dropped(ep), "DATA of a directory");

	ep = dial_ok();
	send_as(ep, COPY_DATA, "abc", 3);
	check(dropped(ep), "DATA before BEGIN");

	ep = dial_ok();
	send_begin(ep, 4, "twice", 5);
	send_begin(ep, 4, "twice", 5);
	check(dropped(ep), "BEGIN twice");

	ep = dial_ok();
	send_begin(ep, 0, "short", 5);
	send_as(ep, COPY_END, sha, 5);
	check(dropped(ep), "a broken END");

	ep = dial_ok();
	send_as(ep, 4711, sha, sizeof(sha));
	check(dropped(ep), "a message of no known kind");

	ep = dial_ok();
	send_begin(ep, 4, "left", 4);
	rdmamsg_ep_abort(ep);
	(void)rdmamsg_ep_close_wait(ep, TIMEOUT_MS);
	check(dial("another protocol", &ep) == -ECONNABORTED, "a stranger");
	check(dial("rdmamsg-copy 1", &ep) == -ECONNABORTED, "an old client");
	check(dial("rdmamsg-copy 22", &ep) == -ECONNABORTED, "a later client");
}

/* ---- an old server ---------------------------------------------------- */

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	static const char text[] = "this is " COPY_NAME "1";

	(void)rdmamsg_request_reject(req, text, sizeof(text) - 1);
}

static int old_server(const char *address)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	struct rdmamsg_listener *l;

	if (rdmamsg_open(&ctx, NULL) ||
	    rdmamsg_listen(ctx, address, "0", &opts, &l))
		errx(1, "%s", rdmamsg_error());
	printf("listening on port %u\n", rdmamsg_listener_port(l));
	fflush(stdout);
	(void)rdmamsg_run(ctx);
	return 0;
}

int main(int argc, char **argv)
{
	struct rdmamsg_ep *ep;

	if (argc != 3)
		errx(2, "Usage: copy-hostile HOST PORT | --old-server HOST");
	alarm(LIMIT);
	if (!strcmp(argv[1], "--old-server"))
		return old_server(argv[2]);
	host = argv[1];
	port = argv[2];
	if (rdmamsg_open(&ctx, NULL))
		errx(1, "%s", rdmamsg_error());
	ep = dial_ok();
	names(ep);
	contents(ep);
	check(!rdmamsg_ep_close_wait(ep, TIMEOUT_MS), "a farewell");
	out_of_turn();
	rdmamsg_close(ctx);
	printf("copy-hostile: %d cases, %d failures\n", cases, failures);
	return failures ? 1 : 0;
}
