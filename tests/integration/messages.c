/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages: the three sends, all sizes, order, limits. */
#include "clock.h"
#include "common.h"

#include <stdlib.h>
#include <string.h>

#include <rdmamsg/endpoint.h>

#define LARGE	((size_t)16 << 20)

static struct pair p;

/* ---- sizes ------------------------------------------------------------ */

static void send_sizes(enum how how)
{
	struct rdmamsg_ep_attr i = end_info(&p.c);
	const size_t sizes[] = {
		0, 1, 2, 63, 64, i.inline_max - 1, i.inline_max,
		i.inline_max + 1, 4096, i.eager_max - 1, i.eager_max,
		i.eager_max + 1, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1,
		LARGE - 1, LARGE,
	};

	for (size_t n = 0; n < ARRAY_SIZE(sizes); n++)
		end_send_all(&p.c, how, sizes[n], (uint32_t)n + 100 * how);
	WAIT_FOR(p.s.received == p.s.expected_count);
}

static void check_way(void)
{
	const uint32_t way = !test_on_soft() ? RDMAMSG_WAY_DEVICE :
			     test_over_packets() ? RDMAMSG_WAY_UDP :
			     RDMAMSG_WAY_MEMORY;

	assert_int_equal(end_info(&p.c).way, way);
	assert_int_equal(end_info(&p.s).way, way);
}

static void send__all_sizes_ARRIVE(void **state)
{
	pair_init(&p, NULL);
	p.c.tuning.max_copy = LARGE;
	pair_listen(&p);
	pair_connect(&p);
	check_way();
	assert_true(end_info(&p.c).inline_max > 1);
	assert_true(end_info(&p.c).eager_max > end_info(&p.c).inline_max);
	for (enum how how = 0; how < HOW_COUNT; how++)
		send_sizes(how);
	pair_close(&p);
	assert_int_equal(end_stats(&p.c).msgs_sent, p.c.sent);
	assert_int_equal(end_stats(&p.s).msgs_received, p.c.sent);
	pair_fini(&p);
}

static void send__thresholds_set_TAKE_THE_PATHS(void **state)
{
	static const struct {
		uint32_t inline_max, eager_max;
		size_t len;
		int path;		/* 0 inline, 1 eager, 2 rendezvous */
	} cases[] = {
		{ 100, 1000, 100, 0 }, { 100, 1000, 101, 1 },
		{ 100, 1000, 1000, 1 }, { 100, 1000, 1001, 2 },
		{ RDMAMSG_NONE, 1000, 1, 1 }, { RDMAMSG_NONE, 1000, 1001, 2 },
		{ RDMAMSG_NONE, RDMAMSG_NONE, 1, 2 },
		{ 0, RDMAMSG_NONE, 1, 2 }, { 0, 65536, 65536, 1 },
		{ 0, 65536, 65537, 2 },
	};

	for (size_t n = 0; n < ARRAY_SIZE(cases); n++) {
		struct rdmamsg_stats s;
		size_t len = cases[n].len;

		pair_init(&p, NULL);
		p.c.tuning.inline_max = cases[n].inline_max;
		p.c.tuning.eager_max = cases[n].eager_max;
		p.s.tuning.eager_max = cases[n].eager_max;
		p.c.tuning.max_copy = LARGE;
		p.c.tuning.pieces_max = RDMAMSG_NONE;
		pair_listen(&p);
		pair_connect(&p);
		/* a device may take less inline */
		if (cases[n].path == 0 && len > end_info(&p.c).inline_max)
			len = end_info(&p.c).inline_max;
		for (enum how how = 0; how < HOW_COUNT; how++)
			end_send_all(&p.c, how, len, how);
		pair_close(&p);
		s = end_stats(&p.c);
		if ((cases[n].path == 0) != (s.sent_inline >= 2) ||
		    (cases[n].path == 2) != (s.sent_rendezvous == 3) ||
		    s.sent_inline + s.sent_eager + s.sent_rendezvous != 3)
			fail_msg("case %zu: %llu inline, %llu eager, %llu "
				 "rendezvous", n,
				 (unsigned long long)s.sent_inline,
				 (unsigned long long)s.sent_eager,
				 (unsigned long long)s.sent_rendezvous);
		pair_fini(&p);
	}
}

static void sendv__0_to_16_segments_ARRIVE(void **state)
{
	static const size_t sizes[] = { 0, 5, 200, 5000, 300000 };

	pair_open(&p);
	for (size_t n = 0; n < ARRAY_SIZE(sizes); n++)
		for (int k = 1; k <= RDMAMSG_SEGMENTS_MAX; k++) {
			int ret = end_sendv(&p.c, k, sizes[n], (uint32_t)k);

			if (ret == -EAGAIN) {
				WAIT_FOR(p.c.writable);
				p.c.writable = 0;
				k--;
			} else {
				assert_int_equal(ret, 0);
			}
		}
	assert_int_equal(end_sendv(&p.c, 0, 0, 77), 0);
	pair_close(&p);
	pair_fini(&p);
}

static void sendv__NULL_iov_without_segments_SENDS_NOTHING(void **state)
{
	pair_open(&p);
	assert_int_equal(rdmamsg_sendv(p.c.ep, NULL, 0, 7, NULL), 0);
	end_expect(&p.s, 0, 7);
	pair_close(&p);
	pair_fini(&p);
}

/* ---- order ------------------------------------------------------------ */

static void send_more(struct end *e)
{
	uint32_t *next = e->arg;

	while (*next < 200) {
		int ret = end_send(e, *next % HOW_COUNT, mixed_size(*next),
				   *next);

		if (ret == -EAGAIN)
			return;
		if (ret)
			note("%s: %s", e->name, rdmamsg_error());
		++*next;
	}
}

static void send__mixed_sizes_both_ways_KEEP_ORDER(void **state)
{
	uint32_t from_c = 0, from_s = 0;

	pair_init(&p, NULL);
	p.c.tuning.max_copy = p.s.tuning.max_copy = LARGE;
	p.c.arg = &from_c;
	p.s.arg = &from_s;
	p.c.then_writable = p.s.then_writable = send_more;
	p.c.then_connected = p.s.then_connected = send_more;
	pair_listen(&p);
	pair_connect(&p);
	WAIT_FOR(p.c.received == 200 && p.s.received == 200);
	pair_close(&p);
	pair_fini(&p);
}

/* The client polls only when its queue has both SETUP and data. */
static void send__from_on_connected_ARRIVES_BEHIND_SETUP(void **state)
{
	static const size_t sizes[] = { 3, 5000, 100000, 0 };

	pair_init(&p, NULL);
	pair_listen(&p);
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	for (uint64_t end = now_ms() + WAIT_MS; !p.s.connected; ) {
		assert_true(now_ms() < end);
		check_notes();
		test_drive(p.s.ctx);
		if (!p.s.connected)
			rdmamsg_process(p.c.ctx);
	}
	assert_false(p.c.connected);
	for (size_t n = 0; n < ARRAY_SIZE(sizes); n++)
		assert_int_equal(end_send(&p.s, HOW_SENDV, sizes[n],
					  (uint32_t)n), 0);
	rdmamsg_ep_close(p.s.ep);
	/* wait until the device has delivered all but the large message */
	for (int i = 0;
	     i < 300 || (test_on_soft() && !clock_others_sleep()); i++)
		usleep(1000);
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_int_equal(p.c.connected, 1);
	assert_int_equal(p.c.received, ARRAY_SIZE(sizes));
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_CLOSED);
	pair_fini(&p);
}

/* ---- arguments and limits --------------------------------------------- */

static void send__arguments_out_of_range_SAY_WHICH(void **state)
{
	struct iovec iov[17] = { { (void *)(uintptr_t)pattern(0), 1 } };
	struct rdmamsg_msg *msg;

	pair_open(&p);
	assert_error(rdmamsg_send(p.c.ep, NULL, 1, 0, NULL), -EINVAL, "buf");
	assert_error(rdmamsg_send(NULL, "a", 1, 0, NULL), -EINVAL, "ep");
	assert_error(rdmamsg_sendv(NULL, iov, 1, 0, NULL), -EINVAL, "ep");
	assert_error(rdmamsg_sendv(p.c.ep, NULL, 1, 0, NULL), -EINVAL, "iov");
	assert_error(rdmamsg_sendv(p.c.ep, iov, 17, 0, NULL), -EINVAL,
		     "iovcnt");
	assert_error(rdmamsg_sendv(p.c.ep, iov, -1, 0, NULL), -EINVAL,
		     "iovcnt");
	iov[3].iov_len = 1;
	assert_error(rdmamsg_sendv(p.c.ep, iov, 4, 0, NULL), -EINVAL,
		     "segment 3");
	assert_error(rdmamsg_msg_send(p.c.ep, NULL, 0, NULL), -EINVAL,
		     "message");
	assert_error(rdmamsg_msg_alloc(p.c.ep, 1, NULL), -EINVAL, "ret");
	assert_error(rdmamsg_msg_alloc(NULL, 1, &msg), -EINVAL, "endpoint");
	assert_int_equal(rdmamsg_msg_alloc(p.c.ep, 10, &msg), 0);
	assert_error(rdmamsg_msg_send(NULL, msg, 0, NULL), -EINVAL, "ep");
	assert_error(rdmamsg_msg_set_len(msg, 1 << 20), -EINVAL, "set_len");
	rdmamsg_msg_free(msg);
	check_notes();
	rdmamsg_msg_free(NULL);
	pair_close(&p);
	pair_fini(&p);
}

static void send__too_large_EMSGSIZE(void **state)
{
	static const struct iovec three_gib[3] = {
		{ (void *)"a", 1u << 30 }, { (void *)"a", 1u << 30 },
		{ (void *)"a", 1u << 30 },
	};
	static const struct iovec huge[2] = {
		{ (void *)64, RDMAMSG_MSG_MAX }, { (void *)64, 1 },
	};
	struct rdmamsg_msg *msg;

	pair_init(&p, NULL);
	p.s.opts.max_msg_size = 100000;
	p.c.tuning.max_copy = 50000;
	pair_listen(&p);
	pair_connect(&p);
	assert_int_equal(end_info(&p.c).max_send, 100000);
	assert_int_equal(end_info(&p.s).max_receive, 100000);
	assert_error(end_send(&p.c, HOW_SEND, 50001, 0), -EMSGSIZE, "max_copy");
	assert_int_equal(end_send(&p.c, HOW_SEND, 50000, 0), 0);
	for (enum how how = HOW_SENDV; how < HOW_COUNT; how++) {
		assert_error(end_send(&p.c, how, 100001, 0), -EMSGSIZE,
			     "100000");
		assert_int_equal(end_send(&p.c, how, 100000, 0), 0);
	}
	assert_error(rdmamsg_sendv(p.c.ep, huge, 2, 0, NULL), -EMSGSIZE,
		     "100000");
	assert_error(rdmamsg_msg_alloc(p.c.ep, 100001, &msg), -EMSGSIZE,
		     "100000");
	/* the error names the true length; the call does not read the bytes */
	assert_error(rdmamsg_sendv(p.c.ep, three_gib, 3, 0, NULL), -EMSGSIZE,
		     "3221225472 bytes");
	/* the client's limit does not bind the server's sends */
	assert_int_equal(end_send(&p.s, HOW_SENDV, 100001, 0), 0);
	pair_close(&p);
	pair_fini(&p);
}

static void send__before_connected_and_after_close_REFUSED(void **state)
{
	struct rdmamsg_msg *msg;

	pair_init(&p, NULL);
	pair_listen(&p);
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	for (enum how how = 0; how < HOW_COUNT; how++)
		assert_error(end_send(&p.c, how, 1, 0), -ENOTCONN, "connected");
	WAIT_FOR(p.c.connected && p.s.connected);
	rdmamsg_ep_hold(p.c.ep);
	rdmamsg_ep_close(p.c.ep);
	for (enum how how = 0; how < HOW_COUNT; how++)
		assert_error(end_send(&p.c, how, 1, 0), -ESHUTDOWN, "");
	{
		struct rdmamsg_ep *ep = p.c.ep;

		WAIT_FOR(p.c.closed && p.s.closed);
		assert_error(rdmamsg_send(ep, "a", 1, 0, NULL), -ESHUTDOWN, "");
		assert_error(rdmamsg_msg_alloc(ep, 1, &msg), -ESHUTDOWN, "");
		assert_int_equal(rdmamsg_ep_state(ep), RDMAMSG_CLOSED);
		assert_int_equal(rdmamsg_ep_reason(ep)->cause,
				 RDMAMSG_CAUSE_CLOSED);
		rdmamsg_ep_close(ep);
		rdmamsg_ep_abort(ep);
		rdmamsg_ep_release(ep);
	}
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(send__all_sizes_ARRIVE),
		TEST(send__thresholds_set_TAKE_THE_PATHS),
		TEST(sendv__0_to_16_segments_ARRIVE),
		TEST(sendv__NULL_iov_without_segments_SENDS_NOTHING),
		TEST(send__mixed_sizes_both_ways_KEEP_ORDER),
		TEST(send__from_on_connected_ARRIVES_BEHIND_SETUP),
		TEST(send__arguments_out_of_range_SAY_WHICH),
		TEST(send__too_large_EMSGSIZE),
		TEST(send__before_connected_and_after_close_REFUSED),
	};

	return test_main(tests, NULL, argc, argv);
}
