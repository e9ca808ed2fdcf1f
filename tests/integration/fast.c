/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inlines of <rdmamsg/fast.h>: what they do alone, and when they call out.
 */
#define _GNU_SOURCE
#include "common.h"

#include <dlfcn.h>
#include <sched.h>

/*
 * The inlines call these functions, whose counts show how far they get alone.
 */
static size_t long_sends, long_polls;

static int long_send(struct rdmamsg_ep *ep, const void *buf, size_t len,
		     uint32_t tag, void *cookie)
{
	long_sends++;
	return rdmamsg_send(ep, buf, len, tag, cookie);
}

static int long_poll(struct rdmamsg *ctx)
{
	long_polls++;
	return rdmamsg_poll(ctx);
}

#define rdmamsg_send long_send
#define rdmamsg_poll long_poll
#include <rdmamsg/endpoint.h>
#include <rdmamsg/fast.h>
#undef rdmamsg_send
#undef rdmamsg_poll

static struct pair p;

static void poll_both(void)
{
	int a = rdmamsg_fast_poll(p.c.ctx), b = rdmamsg_fast_poll(p.s.ctx);

	if (a < 0 || b < 0)
		fail_msg("rdmamsg_fast_poll: %d, %d", a, b);
	if (!a && !b)
		sched_yield();
	check_notes();
}

/* Like WAIT_FOR(), but only with the inline poll. */
#define POLL_FOR(condition) \
	do { \
		uint64_t end_ = now_ms() + WAIT_MS; \
		while (!(condition)) { \
			if (now_ms() > end_) \
				fail_msg("%s:%d: polled in vain for %s", \
					 __FILE__, __LINE__, #condition); \
			poll_both(); \
		} \
	} while (0)

#define NO_FAST_PATH	"iWARP has no immediate data, so no fast path"

static int fast_send(struct end *e, size_t len, uint32_t tag)
{
	int ret = rdmamsg_fast_send(e->ep, len ? pattern(tag) : NULL, len, tag);

	if (!ret)
		end_expect(e->peer, len, tag);
	return ret;
}

static void open_pair(void)
{
	pair_open(&p);
	long_sends = long_polls = 0;
}

static void shut_pair(void)
{
	pair_close(&p);
	assert_int_equal(end_stats(&p.c).rnr_errors, 0);
	assert_int_equal(end_stats(&p.s).rnr_errors, 0);
	pair_fini(&p);
}

/* ---- messages --------------------------------------------------------- */

static void send__0_to_the_inline_limit_GO_BY_THEMSELVES(void **state)
{
	struct rdmamsg_stats was, is;
	uint32_t limit;

	skip_on_iwarp(NO_FAST_PATH);
	open_pair();
	limit = end_info(&p.c).inline_max;
	assert_true(limit >= 16);
	was = end_stats(&p.c);
	for (uint32_t len = 0; len <= limit; len++) {
		assert_int_equal(fast_send(&p.c, len, len), 0);
		POLL_FOR(p.s.received == len + 1);
	}
	assert_int_equal(long_sends, 0);
	is = end_stats(&p.c);
	assert_int_equal(is.msgs_sent - was.msgs_sent, limit + 1);
	assert_int_equal(is.sent_inline - was.sent_inline, limit + 1);
	assert_int_equal(is.bytes_sent - was.bytes_sent,
			 limit * (limit + 1) / 2);
	assert_int_equal(is.bytes_copied, was.bytes_copied);
	assert_int_equal(end_stats(&p.s).bytes_received,
			 limit * (limit + 1) / 2);
	shut_pair();
}

static void send__beyond_the_inline_limit_ARRIVES_TOO(void **state)
{
	struct rdmamsg_stats s;
	struct rdmamsg_ep_attr i;
	size_t sizes[5];

	skip_on_iwarp(NO_FAST_PATH);
	open_pair();
	i = end_info(&p.c);
	sizes[0] = i.inline_max + 1;
	sizes[1] = i.eager_max;
	sizes[2] = i.eager_max + 1;
	sizes[3] = 65536;
	sizes[4] = 1;
	for (uint32_t n = 0; n < ARRAY_SIZE(sizes); n++) {
		assert_int_equal(fast_send(&p.c, sizes[n], n), 0);
		POLL_FOR(p.s.received == n + 1);
	}
	assert_int_equal(long_sends, 4);
	assert_error(rdmamsg_fast_send(p.c.ep, pattern(0), 65537, 0), -EMSGSIZE,
		     "max_copy");
	s = end_stats(&p.c);
	assert_int_equal(s.sent_pieces + s.sent_rendezvous, 2);
	shut_pair();
}

static void send__no_inline_TAKES_THE_LONG_WAY(void **state)
{
	pair_init(&p, NULL);
	p.c.tuning.inline_max = RDMAMSG_NONE;
	pair_listen(&p);
	pair_connect(&p);
	long_sends = 0;
	for (uint32_t n = 0; n < 20; n++)
		assert_int_equal(fast_send(&p.c, 1 + n, n), 0);
	POLL_FOR(p.s.received == 20);
	assert_int_equal(long_sends, 20);
	assert_int_equal(end_stats(&p.c).sent_eager, 20);
	shut_pair();
}

static void send__not_connected_or_closing_SAYS_SO(void **state)
{
	struct rdmamsg_ep *ep;

	pair_init(&p, NULL);
	pair_listen(&p);
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	assert_error(rdmamsg_fast_send(p.c.ep, "a", 1, 0), -ENOTCONN,
		     "connected");
	POLL_FOR(p.c.connected && p.s.connected);
	ep = p.c.ep;
	rdmamsg_ep_hold(ep);
	rdmamsg_ep_close(ep);
	assert_error(rdmamsg_fast_send(ep, "a", 1, 0), -ESHUTDOWN, "clos");
	POLL_FOR(p.c.closed && p.s.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_error(rdmamsg_fast_send(ep, "a", 1, 0), -ESHUTDOWN, "clos");
	rdmamsg_ep_release(ep);
	pair_fini(&p);
}

/* ---- back-pressure ---------------------------------------------------- */

struct stream {
	uint32_t sent, count;
	uint32_t refused;
};

static void pour(struct end *e)
{
	struct stream *s = e->arg;

	while (s->sent < s->count) {
		int ret = fast_send(e, s->sent % 100, s->sent);

		if (ret == -EAGAIN) {
			s->refused++;
			return;
		}
		if (ret)
			note("%s: %s", e->name, rdmamsg_error());
		s->sent++;
	}
}

static void send__without_credits_EAGAIN_THEN_WRITABLE(void **state)
{
	uint32_t depth, n = 0;
	int ret;

	skip_on_iwarp(NO_FAST_PATH);
	open_pair();
	depth = end_info(&p.s).recv_depth;
	/* the server does not poll */
	while (!(ret = fast_send(&p.c, n % 50, n)))
		assert_true(++n < 10000);
	assert_int_equal(ret, -EAGAIN);
	assert_int_equal(n, depth);
	assert_int_equal(long_sends, 1);
	assert_int_equal(end_stats(&p.c).sends_refused, 1);
	assert_int_equal(end_stats(&p.c).credit_stalls, 1);
	POLL_FOR(p.c.writable == 1);
	assert_int_equal(fast_send(&p.c, 3, 3), 0);
	POLL_FOR(p.s.received == n + 1);
	shut_pair();
}

static void flood(uint32_t recv_depth, uint32_t send_depth, uint32_t count)
{
	struct stream c = { 0, count, 0 }, s = { 0, count, 0 };

	pair_init(&p, NULL);
	p.c.tuning.recv_depth = p.s.tuning.recv_depth = recv_depth;
	p.c.tuning.send_depth = p.s.tuning.send_depth = send_depth;
	p.c.arg = &c;
	p.s.arg = &s;
	p.c.then_writable = p.s.then_writable = pour;
	pair_listen(&p);
	pair_connect(&p);
	long_sends = long_polls = 0;
	pour(&p.c);
	pour(&p.s);
	POLL_FOR(p.s.received == count && p.c.received == count);
	assert_true(c.refused > 0 && s.refused > 0);
	assert_int_equal(end_stats(&p.c).sends_refused, c.refused);
	shut_pair();
}

static void send__flood_both_ways_ARRIVES(void **state)
{
	skip_on_iwarp(NO_FAST_PATH);
	flood(0, 0, 3000);
	/* sends outside of callbacks, and the first send of each callback */
	assert_true(long_sends < 2 * 3000);
}

static void send__flood_with_little_room_ARRIVES(void **state)
{
	flood(1, 0, 300);
	flood(0, 1, 300);
	flood(2, 3, 300);
}

static void send__queue_in_between_KEEPS_ORDER(void **state)
{
	uint32_t n = 0;
	int ret;

	pair_init(&p, NULL);
	p.c.opts.send_queue = 100;
	p.s.tuning.recv_depth = 8;
	pair_listen(&p);
	pair_connect(&p);
	while (!(ret = fast_send(&p.c, n % 50, n)))
		assert_true(++n < 10000);
	assert_int_equal(ret, -EAGAIN);
	assert_int_equal(n, 108);
	/*
	 * credits arrive while messages are queued: no new message overtakes
	 * those
	 */
	for (uint32_t more = 0; more < 500; ) {
		ret = fast_send(&p.c, more % 50, more);
		if (!ret)
			more++;
		else
			assert_int_equal(ret, -EAGAIN);
		poll_both();
	}
	POLL_FOR(p.s.received == n + 500);
	shut_pair();
}

/* ---- order ------------------------------------------------------------ */

static int send_some_way(struct end *e, uint32_t n)
{
	static const size_t sizes[] = { 5, 10, 100000, 240, 0, 3000, 8, 1, 20 };
	size_t len = sizes[n / 3 % ARRAY_SIZE(sizes)];

	switch (n % 7) {
	case 1:
		return end_send(e, HOW_SEND, len % 65536, n);
	case 3:
		return end_send(e, HOW_SENDV, len, n);
	case 5:
		return end_send(e, HOW_MSG, len, n);
	default:
		return fast_send(e, len % 65536, n);
	}
}

static void pour_mixed(struct end *e)
{
	struct stream *s = e->arg;

	while (s->sent < s->count) {
		int ret = send_some_way(e, s->sent);

		if (ret == -EAGAIN)
			return;
		if (ret)
			note("%s: %s", e->name, rdmamsg_error());
		s->sent++;
	}
}

static void order__mixed_outside_callbacks_IS_KEPT(void **state)
{
	uint32_t n = 0;

	open_pair();
	while (n < 1000) {
		size_t before = long_sends;
		int ret = send_some_way(&p.c, n);

		if (!ret) {
			n++;
		} else {
			assert_int_equal(ret, -EAGAIN);
			/* a slow device makes the inline call out again */
			long_sends = before;
		}
		if (ret || n % 13 == 0)
			poll_both();
	}
	POLL_FOR(p.s.received == 1000);
	assert_true(long_sends < 1000);
	shut_pair();
}

static void order__mixed_in_on_writable_IS_KEPT(void **state)
{
	struct stream c = { 0, 1000, 0 }, s = { 0, 1000, 0 };

	pair_init(&p, NULL);
	p.c.arg = &c;
	p.s.arg = &s;
	p.c.then_connected = p.s.then_connected = pour_mixed;
	p.c.then_writable = p.s.then_writable = pour_mixed;
	pair_listen(&p);
	pair_connect(&p);
	POLL_FOR(p.s.received == 1000 && p.c.received == 1000);
	shut_pair();
}

/* Sends three answers to a message: the first and the last inline. */
static void answer(struct end *e, struct rdmamsg_msg *msg)
{
	uint32_t tag = rdmamsg_msg_tag(msg);

	rdmamsg_msg_free(msg);
	if (fast_send(e, tag % 60, tag + 1) ||
	    end_send(e, tag % HOW_COUNT, tag % 400, tag + 2) ||
	    fast_send(e, tag % 50, tag + 3))
		note("%s: no room for an answer", e->name);
}

static void order__mixed_in_on_message_IS_KEPT(void **state)
{
	open_pair();
	p.s.then_message = answer;
	for (uint32_t n = 0; n < 300; n++) {
		/* keep the answers within the room */
		POLL_FOR(p.c.received + 3 * 8 >= 3 * n);
		assert_int_equal(fast_send(&p.c, n % 200, 10 * n), 0);
	}
	POLL_FOR(p.s.received == 300 && p.c.received == 900);
	shut_pair();
}

/* A callback of one endpoint sends through another one. */
static struct pair q;
static uint32_t came[200];		/* tags */
static size_t came_count, forwarded;	/* each as three messages */

/* Goes as far as there is room. */
static void forward_more(struct end *e)
{
	int ret = 0;

	for (; forwarded < 3 * came_count && !ret; forwarded += !ret) {
		const uint32_t tag = came[forwarded / 3];
		const uint32_t part = forwarded % 3;

		ret = part == 1 ? end_send(e, HOW_SEND, tag % 100, tag) :
		      fast_send(e, tag % (part ? 150 : 200), tag);
	}
	if (ret && ret != -EAGAIN)
		note("%s: %s", e->name, rdmamsg_error());
}

static void forward(struct end *e, struct rdmamsg_msg *msg)
{
	if (came_count < ARRAY_SIZE(came))
		came[came_count++] = rdmamsg_msg_tag(msg);
	rdmamsg_msg_free(msg);
	forward_more(&q.c);
}

static void order__through_another_endpoint_IS_KEPT(void **state)
{
	open_pair();
	pair_init(&q, NULL);
	pair_listen(&q);
	/* the two forwarding ends have one context */
	test_close(q.c.ctx);
	q.c.ctx = p.s.ctx;
	q.c.then_writable = forward_more;
	pair_connect(&q);
	p.s.then_message = forward;
	came_count = forwarded = 0;
	for (uint32_t n = 0; n < ARRAY_SIZE(came); n++) {
		WAIT_FOR(q.s.received + 3 * 8 >= 3 * n);
		assert_int_equal(fast_send(&p.c, n % 200, n), 0);
	}
	WAIT_FOR(q.s.received == 600);
	pair_close(&q);
	end_fini(&q.c);
	test_close(q.s.ctx);
	end_fini(&q.s);
	shut_pair();
}

/* ---- polling ---------------------------------------------------------- */

static void poll__alone_DRIVES_A_WHOLE_LIFE(void **state)
{
	pair_init(&p, NULL);
	p.c.opts.dead_after_ms = p.s.opts.dead_after_ms = 4000;
	pair_listen(&p);
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	POLL_FOR(p.c.connected && p.s.connected);
	long_polls = 0;
	assert_int_equal(fast_send(&p.c, 100, 1), 0);
	assert_int_equal(end_send(&p.s, HOW_SENDV, 1 << 20, 2), 0);
	POLL_FOR(p.s.received == 1 && p.c.received == 1);
	/* timers run too */
	POLL_FOR(pair_keeps_alive(&p, 1));
	assert_true(long_polls > 0);
	rdmamsg_ep_close(p.s.ep);
	POLL_FOR(p.c.closed && p.s.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_CLOSED);
	pair_fini(&p);
}

static void poll__nothing_there_RETURNS_0(void **state)
{
	size_t polls = 0;

	open_pair();
	POLL_FOR(polls++ > 100);
	long_polls = 0;
	for (size_t n = 0; n < 5000; n++)
		assert_true(rdmamsg_fast_poll(p.c.ctx) >= 0);
	/* the inline poll has done the work */
	assert_true(long_polls > 0);
	assert_true(long_polls < 100);
	shut_pair();
}

/* ---- the library's side ----------------------------------------------- */

static void twins__through_dlsym_WORK(void **state)
{
	int (*send)(struct rdmamsg_ep *ep, const void *buf, size_t len,
		    uint32_t tag);
	int (*poll)(struct rdmamsg *ctx);
	uint64_t end = now_ms() + WAIT_MS;
	uint32_t n = 0;

	*(void **)&send = dlsym(RTLD_DEFAULT, "rdmamsg_fast_send");
	*(void **)&poll = dlsym(RTLD_DEFAULT, "rdmamsg_fast_poll");
	assert_non_null(send);
	assert_non_null(poll);
	open_pair();
	while (p.s.received < 500) {
		int ret = n < 500 ? send(p.c.ep, pattern(n), n, n) : -EAGAIN;

		if (!ret) {
			end_expect(&p.s, n, n);
			n++;
		} else {
			assert_int_equal(ret, -EAGAIN);
		}
		assert_true(poll(p.c.ctx) >= 0);
		assert_true(poll(p.s.ctx) >= 0);
		assert_true(now_ms() < end);
		check_notes();
	}
	assert_error(send(p.c.ep, pattern(0), 65537, 0), -EMSGSIZE, "max_copy");
	assert_true(end_stats(&p.c).sent_inline > 0);
	assert_int_equal(long_sends + long_polls, 0);
	shut_pair();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(send__0_to_the_inline_limit_GO_BY_THEMSELVES),
		TEST(send__beyond_the_inline_limit_ARRIVES_TOO),
		TEST(send__no_inline_TAKES_THE_LONG_WAY),
		TEST(send__not_connected_or_closing_SAYS_SO),
		TEST(send__without_credits_EAGAIN_THEN_WRITABLE),
		TEST(send__flood_both_ways_ARRIVES),
		TEST(send__flood_with_little_room_ARRIVES),
		TEST(send__queue_in_between_KEEPS_ORDER),
		TEST(order__mixed_outside_callbacks_IS_KEPT),
		TEST(order__mixed_in_on_writable_IS_KEPT),
		TEST(order__mixed_in_on_message_IS_KEPT),
		TEST(order__through_another_endpoint_IS_KEPT),
		TEST(poll__alone_DRIVES_A_WHOLE_LIFE),
		TEST(poll__nothing_there_RETURNS_0),
		TEST(twins__through_dlsym_WORK),
	};

	return test_main(tests, NULL, argc, argv);
}
