/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One message of 2^31-1 bytes, from a child to its parent. Needs a machine of
 * 8 GB and some minutes, so it is a program of its own.
 */
#include "common.h"

#include <sys/mman.h>
#include <sys/wait.h>

#define BIG	((size_t)RDMAMSG_MSG_MAX)
#define BOUND	800	/* seconds; it takes one or two minutes */

/* Position-dependent at every byte, cheap to make and to check. */
static uint64_t word(uint64_t i)
{
	return i * 0x9e3779b97f4a7c15ull ^ i >> 7;
}

static void fill(uint8_t *p)
{
	for (uint64_t i = 0; i < BIG / 8; i++) {
		uint64_t w = word(i);

		memcpy(p + 8 * i, &w, 8);
	}
	memset(p + BIG / 8 * 8, 0xa5, BIG % 8);
}

static size_t count_wrong(const uint8_t *p)
{
	size_t wrong = 0;

	for (uint64_t i = 0; i < BIG / 8; i++) {
		uint64_t w = word(i);

		wrong += memcmp(p + 8 * i, &w, 8) != 0;
	}
	for (size_t i = BIG / 8 * 8; i < BIG; i++)
		wrong += p[i] != 0xa5;
	return wrong;
}

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, rdmamsg_error());
	exit(1);
}

static int sender(int argc, char **argv)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };
	struct rdmamsg_msg *msg;
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	uint8_t *p;

	alarm(BOUND);
	p = mmap(NULL, BIG, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	fill(p);
	if (rdmamsg_open(&ctx, NULL) ||
	    rdmamsg_connect_wait(ctx, test_addr(), argv[0], NULL, WAIT_MS, &ep))
		die("connect");
	if (rdmamsg_send_wait(ep, p, BIG + 1, 0, 1000) == 0)
		die("2^31 bytes were accepted");
	if (rdmamsg_send_wait(ep, p, BIG, 7, -1))
		die("send");
	rdmamsg_ep_stats(ep, &st);
	if (st.bytes_copied || st.sent_rendezvous != 1)
		die("bytes were copied");
	/* the parent has looked at it */
	if (rdmamsg_recv_wait(ep, -1, &msg))
		die("answer");
	rdmamsg_msg_free(msg);
	if (rdmamsg_close_wait(ep, WAIT_MS))
		die("close");
	rdmamsg_close(ctx);
	return 0;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	size_t *wrong = rdmamsg_user(rdmamsg_ep_ctx(ep));

	*wrong = rdmamsg_msg_len(msg) == BIG && rdmamsg_msg_tag(msg) == 7 ?
		 count_wrong(rdmamsg_msg_data(msg)) : SIZE_MAX;
	rdmamsg_msg_free(msg);
	if (rdmamsg_send(ep, "", 0, 0, NULL))
		note("%s", rdmamsg_error());
}

static void message__of_2_GB_ARRIVES(void **state)
{
	static const struct rdmamsg_handlers on = {
		.size = sizeof(on), .on_message = on_message,
	};
	const struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .handlers = &on,
	};
	const struct rdmamsg_listen_options lo = { .size = sizeof(lo), .ep = &ep };
	size_t wrong = SIZE_MAX;
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .user = &wrong,
		.max_registered = (size_t)3 << 30,
	};
	struct rdmamsg *ctx = test_open(&opts);
	struct rdmamsg_listener *l;
	struct child c;
	char port[8];
	int status;

	alarm(BOUND);
	assert_int_equal(rdmamsg_listen(ctx, test_addr(), "0", &lo, &l), 0);
	child_start(&c, "sender", listener_service(l, port));
	while (!waitpid(c.pid, &status, WNOHANG))
		test_pump(1000);
	assert_int_equal(status, 0);
	assert_int_equal(wrong, 0);
}

int main(int argc, char **argv)
{
	static const struct role roles[] = {
		{ "sender", sender },
		{ NULL, NULL },
	};
	const struct CMUnitTest tests[] = { TEST(message__of_2_GB_ARRIVES) };

	return test_main(tests, roles, argc, argv);
}
