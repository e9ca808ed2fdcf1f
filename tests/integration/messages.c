/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages: the three sends, all sizes, order, memory, completions. */
#include "common.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static struct pair p;

#define LARGE	((size_t)16 << 20)

/* ---- sizes ------------------------------------------------------------ */

static void send_sizes(enum how how)
{
	struct rdmamsg_ep_info i = end_info(&p.c);
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

static void send__all_sizes_ARRIVE(void **state)
{
	pair_init(&p, NULL);
	p.c.opts.max_copy = LARGE;
	pair_listen(&p);
	pair_connect(&p);
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

		pair_init(&p, NULL);
		p.c.opts.inline_max = cases[n].inline_max;
		p.c.opts.eager_max = cases[n].eager_max;
		p.s.opts.eager_max = cases[n].eager_max;
		p.c.opts.max_copy = LARGE;
		pair_listen(&p);
		pair_connect(&p);
		for (enum how how = 0; how < HOW_COUNT; how++)
			end_send_all(&p.c, how, cases[n].len, how);
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

static size_t mixed_size(uint32_t n)
{
	static const size_t sizes[] = {
		10, 300000, 5000, 0, 70000, 100, 1, 1 << 20, 8000, 20, 9000,
	};

	return sizes[n % ARRAY_SIZE(sizes)] + n % 7;
}

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
	p.c.opts.max_copy = p.s.opts.max_copy = LARGE;
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

/* The client looks only when SETUP and data lie in its queue together. */
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
	/* until the device has carried them over: all but the large one */
	usleep(300000);
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
	assert_error(rdmamsg_sendv(p.c.ep, iov, 17, 0, NULL), -EINVAL, "iovcnt");
	assert_error(rdmamsg_sendv(p.c.ep, iov, -1, 0, NULL), -EINVAL, "iovcnt");
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
	static const struct iovec huge[2] = {
		{ (void *)64, RDMAMSG_MSG_MAX }, { (void *)64, 1 },
	};
	struct rdmamsg_msg *msg;

	pair_init(&p, NULL);
	p.s.opts.max_msg_size = 100000;
	p.c.opts.max_copy = 50000;
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
	/* not the other way round */
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
		assert_non_null(rdmamsg_ep_reason(ep));
		rdmamsg_ep_close(ep);
		rdmamsg_ep_abort(ep);
		rdmamsg_ep_rele(ep);
	}
	pair_fini(&p);
}

/* ---- the receiver's memory -------------------------------------------- */

static uint8_t *own;
static enum { TAKE_OWN, TAKE_DEFAULT, REFUSE, BAD_MEMORY } choice[8];

static int on_incoming(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
		       struct rdmamsg_buffer *dst)
{
	struct end *e = rdmamsg_ep_user(ep);

	e->incoming++;
	if (len < 100000)
		note("on_incoming for %zu bytes", len);
	switch (choice[tag % 8]) {
	case TAKE_OWN:
		dst->data = own + (size_t)(tag % 8) * LARGE;
		return 0;
	case TAKE_DEFAULT:
		return 0;
	case REFUSE:
		return -EPERM;
	case BAD_MEMORY:
		dst->data = (void *)64;
		return 0;
	}
	return -1;
}

static void check_place(struct end *e, struct rdmamsg_msg *msg)
{
	uint32_t tag = rdmamsg_msg_tag(msg);
	bool here = rdmamsg_msg_data(msg) == own + (size_t)(tag % 8) * LARGE;

	if (rdmamsg_msg_len(msg) >= 100000 &&
	    here != (choice[tag % 8] == TAKE_OWN))
		note("message %u is in the wrong memory", tag);
	rdmamsg_msg_free(msg);
}

static void incoming__own_default_or_refused_AS_ASKED(void **state)
{
	struct cookie *refused[2];

	own = malloc(8 * LARGE);
	choice[0] = TAKE_OWN;
	choice[1] = REFUSE;
	choice[2] = TAKE_DEFAULT;
	choice[3] = TAKE_OWN;
	choice[4] = REFUSE;
	choice[5] = TAKE_DEFAULT;
	pair_init(&p, NULL);
	p.s.on.on_incoming = on_incoming;
	p.s.then_message = check_place;
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t tag = 0, k = 0; tag < 6; tag++) {
		assert_int_equal(end_send(&p.c, HOW_SENDV, 100000 + LARGE / 4 *
					  (tag % 3), tag), 0);
		if (choice[tag] == REFUSE) {
			refused[k++] = p.c.cookies;
			p.s.expected_count--;
		}
		assert_int_equal(end_send(&p.c, HOW_SEND, 10, 10 + tag), 0);
	}
	WAIT_FOR(p.c.sent_ok + p.c.sent_failed == p.c.sent);
	assert_int_equal(p.c.sent_failed, 2);
	assert_int_equal(refused[0]->status, -ECANCELED);
	assert_int_equal(refused[1]->status, -ECANCELED);
	WAIT_FOR(p.s.received == p.s.expected_count);
	assert_int_equal(p.s.received, 10);
	assert_int_equal(p.s.incoming, 6);
	end_check_cookies(&p.c);
	rdmamsg_ep_close(p.c.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	pair_fini(&p);
	free(own);
}

static void incoming__memory_that_is_none_OURS_IS_USED(void **state)
{
	choice[0] = BAD_MEMORY;
	choice[2] = TAKE_DEFAULT;
	pair_init(&p, NULL);
	p.s.on.on_incoming = on_incoming;
	pair_listen(&p);
	pair_connect(&p);
	assert_int_equal(end_send(&p.c, HOW_SENDV, 200000, 0), 0);
	assert_int_equal(end_send(&p.c, HOW_SENDV, 200000, 2), 0);
	WAIT_FOR(p.c.sent_ok == 2 && p.s.received == 2);
	assert_int_equal(p.s.incoming, 2);
	pair_close(&p);
	pair_fini(&p);
}

static void abort_now(struct end *e)
{
	rdmamsg_ep_abort(e->ep);
}

static int abort_incoming(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
			  struct rdmamsg_buffer *dst)
{
	rdmamsg_ep_abort(ep);
	return 0;
}

static void incoming__abort_inside_ENDS_BOTH(void **state)
{
	pair_init(&p, NULL);
	p.s.on.on_incoming = abort_incoming;
	pair_listen(&p);
	pair_connect(&p);
	assert_int_equal(end_send(&p.c, HOW_SENDV, 200000, 0), 0);
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_ABORTED);
	assert_int_equal(p.s.why.who, RDMAMSG_WHO_LOCAL);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_ABORTED);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(p.c.sent_failed, 1);
	pair_fini(&p);
}

static void stats__rendezvous_COPIES_NOTHING(void **state)
{
	struct rdmamsg_stats s;

	pair_open(&p);
	end_send_all(&p.c, HOW_SENDV, LARGE, 0);
	end_send_all(&p.c, HOW_MSG, 1 << 20, 1);
	WAIT_FOR(p.s.received == 2 && p.c.sent_ok == 2);
	s = end_stats(&p.c);
	assert_int_equal(s.bytes_copied, 0);
	assert_int_equal(s.sent_rendezvous, 2);
	assert_int_equal(s.bytes_sent, LARGE + (1 << 20));
	s = end_stats(&p.s);
	assert_int_equal(s.bytes_copied, 0);
	assert_int_equal(s.received_rendezvous, 2);
	assert_int_equal(s.bytes_received, LARGE + (1 << 20));
	assert_int_equal(s.msgs_lent, 0);
	pair_close(&p);
	pair_fini(&p);
}

/* ---- allocated and received messages ---------------------------------- */

static void msg_set_len__fewer_bytes_SENDS_THOSE(void **state)
{
	static const size_t alloc[] = { 10, 5000, 100000 };
	static const size_t len[] = { 0, 10, 70000 };

	pair_open(&p);
	for (size_t n = 0; n < ARRAY_SIZE(alloc); n++) {
		struct rdmamsg_msg *msg;

		assert_int_equal(rdmamsg_msg_alloc(p.c.ep, alloc[n], &msg), 0);
		assert_int_equal(rdmamsg_msg_len(msg), alloc[n]);
		memcpy(rdmamsg_msg_data(msg), pattern(3), alloc[n]);
		assert_int_equal(rdmamsg_msg_set_len(msg, len[n]), 0);
		assert_int_equal(rdmamsg_msg_send(p.c.ep, msg, 3, NULL), 0);
		end_expect(&p.s, len[n], 3);
	}
	pair_close(&p);
	pair_fini(&p);
}

static void send_back(struct end *e, struct rdmamsg_msg *msg)
{
	struct cookie *c = end_cookie(e);

	e->sent++;
	if (rdmamsg_msg_send(e->ep, msg, rdmamsg_msg_tag(msg), c))
		note("%s: sending back: %s", e->name, rdmamsg_error());
}

static void msg_send__received_message_GOES_BACK(void **state)
{
	static const size_t sizes[] = { 0, 1, 100, 5000, 100000, LARGE };

	own = malloc(8 * LARGE);
	choice[0] = choice[1] = choice[2] = choice[3] = TAKE_DEFAULT;
	choice[4] = TAKE_OWN;
	choice[5] = TAKE_DEFAULT;
	pair_init(&p, NULL);
	p.s.on.on_incoming = on_incoming;
	p.s.then_message = send_back;
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t n = 0; n < ARRAY_SIZE(sizes); n++) {
		end_expect(&p.c, sizes[n], n);
		end_send_all(&p.c, HOW_SENDV, sizes[n], n);
		WAIT_FOR(p.c.received == n + 1);
	}
	pair_close(&p);
	assert_int_equal(end_stats(&p.s).msgs_lent, 0);
	pair_fini(&p);
	free(own);
}

static void msg_send__what_was_sent_or_freed_IS_REFUSED(void **state)
{
	struct rdmamsg_msg *msg;

	pair_open(&p);
	assert_int_equal(rdmamsg_msg_alloc(p.c.ep, 100, &msg), 0);
	memcpy(rdmamsg_msg_data(msg), pattern(0), 100);
	end_expect(&p.s, 100, 0);
	assert_int_equal(rdmamsg_msg_send(p.c.ep, msg, 0, NULL), 0);
	assert_error(rdmamsg_msg_send(p.c.ep, msg, 0, NULL), -EINVAL, "yours");
	pair_close(&p);
	pair_fini(&p);
}

static void msg_send__of_another_context_IS_REFUSED(void **state)
{
	struct rdmamsg_msg *msg;

	pair_open(&p);
	assert_int_equal(rdmamsg_msg_alloc(p.c.ep, 100, &msg), 0);
	assert_error(rdmamsg_msg_send(p.s.ep, msg, 0, NULL), -EINVAL,
		     "context");
	rdmamsg_msg_free(msg);
	pair_close(&p);
	pair_fini(&p);
}

static void shuffle(struct rdmamsg_msg **m, size_t n)
{
	uint32_t x = 12345;

	while (n > 1) {
		struct rdmamsg_msg *t;
		size_t k;

		x = x * 1664525 + 1013904223;
		k = (x >> 8) % n--;
		t = m[k];
		m[k] = m[n];
		m[n] = t;
	}
}

static void keep_some(void)
{
	for (uint32_t n = 0; n < 40; n++)
		end_send_all(&p.c, HOW_SENDV, mixed_size(n), n);
	WAIT_FOR(p.s.received == p.s.expected_count);
	assert_int_equal(end_stats(&p.s).msgs_lent, 40);
	shuffle(p.s.kept, p.s.kept_count);
}

static void msg_free__any_order_IS_FINE(void **state)
{
	pair_init(&p, NULL);
	p.s.keep = true;
	pair_listen(&p);
	pair_connect(&p);
	keep_some();
	end_release(&p.s);
	keep_some();
	end_release(&p.s);
	pair_close(&p);
	pair_fini(&p);
}

static void check_kept(void)
{
	for (size_t n = 0; n < p.s.kept_count; n++)
		if (memcmp(rdmamsg_msg_data(p.s.kept[n]),
			   pattern(rdmamsg_msg_tag(p.s.kept[n])),
			   rdmamsg_msg_len(p.s.kept[n])))
			fail_msg("a message changed after the endpoint");
}

static void msg_free__after_the_endpoint_IS_FINE(void **state)
{
	pair_init(&p, NULL);
	p.s.keep = true;
	pair_listen(&p);
	pair_connect(&p);
	keep_some();
	pair_close(&p);
	check_kept();
	end_release(&p.s);
	assert_int_equal(end_stats(&p.s).msgs_lent, 0);
	pair_fini(&p);
}

/* An unused device is closed after a while; its messages are still there. */
static void msg_free__after_the_device_IS_FINE(void **state)
{
	uint64_t end = now_ms() + WAIT_MS;
	int pds, mrs;

	pds = rdma_count("pd");
	mrs = rdma_count("mr");
	pair_init(&p, NULL);
	p.s.keep = true;
	pair_listen(&p);
	pair_connect(&p);
	keep_some();
	pair_close(&p);
	/* the listener keeps librdmacm's protection domain */
	while (rdma_count("pd") > pds + 1 || rdma_count("mr") > mrs) {
		assert_true(now_ms() < end);
		test_pump(500);
	}
	check_kept();
	/* one of them is sent on another connection, over the device anew */
	memset(&p.c.connected, 0, sizeof(p.c.connected));
	p.c.closed = p.s.closed = p.s.connected = 0;
	p.c.expect_nothing = true;
	p.s.received = p.s.expected_count = 0;
	pair_connect(&p);
	while (p.s.kept_count > 20) {
		int ret = rdmamsg_msg_send(p.s.ep, p.s.kept[p.s.kept_count - 1],
					   0, NULL);

		if (ret == -EAGAIN) {
			test_pump(100);
			continue;
		}
		assert_int_equal(ret, 0);
		p.s.kept_count--;
	}
	WAIT_FOR(p.c.received == 20);
	end_release(&p.s);
	rdmamsg_ep_close(p.c.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	pair_fini(&p);
	assert_int_equal(rdma_count("mr"), mrs);
	assert_int_equal(rdma_count("pd"), pds);
}

static void close__with_messages_out_LEAKS_NOTHING(void **state)
{
	int mrs, pds;

	mrs = rdma_count("mr");
	pds = rdma_count("pd");
	own = malloc(8 * LARGE);
	memset(choice, 0, sizeof(choice));
	choice[1] = choice[3] = choice[5] = choice[7] = TAKE_DEFAULT;
	pair_init(&p, NULL);
	p.s.keep = true;
	p.s.on.on_incoming = on_incoming;
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t n = 0; n < 8; n++) {
		end_send_all(&p.c, HOW_SENDV, 200000, n);
		end_send_all(&p.c, HOW_SENDV, 100, n);
	}
	WAIT_FOR(p.s.received == 16);
	pair_fini(&p);
	assert_int_equal(rdma_count("mr"), mrs);
	assert_int_equal(rdma_count("pd"), pds);
	free(own);
}

/* ---- completions ------------------------------------------------------ */

/* As much of everything as is accepted. */
static void fill(struct end *e)
{
	for (uint32_t n = 0; n < 60; n++) {
		int ret = end_send(e, n % HOW_COUNT, mixed_size(n), n);

		if (ret == -EAGAIN)
			break;
		if (ret)
			fail_msg("%s: %s", e->name, rdmamsg_error());
	}
	assert_true(e->sent > 0);
}

static void start_filled(uint32_t send_queue)
{
	pair_init(&p, NULL);
	p.c.opts.max_copy = p.s.opts.max_copy = LARGE;
	p.c.opts.send_queue = p.s.opts.send_queue = send_queue;
	pair_listen(&p);
	pair_connect(&p);
	fill(&p.c);
	fill(&p.s);
}

static void cookies__graceful_close_in_flight_ALL_DELIVERED(void **state)
{
	start_filled(0);
	pair_close(&p);
	pair_fini(&p);
	/* with a queue that needs credits while both are closing */
	pair_init(&p, NULL);
	p.c.opts.send_queue = p.s.opts.send_queue = 200;
	p.c.opts.recv_depth = p.s.opts.recv_depth = 4;
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t n = 0; n < 150; n++) {
		assert_int_equal(end_send(&p.c, HOW_SENDV, mixed_size(n) % 9000,
					  n), 0);
		assert_int_equal(end_send(&p.s, HOW_SENDV, mixed_size(n) % 9000,
					  n), 0);
	}
	pair_close(&p);
	pair_fini(&p);
}

static void cookies__both_close_in_flight_ALL_DELIVERED(void **state)
{
	start_filled(100);
	rdmamsg_ep_close(p.s.ep);
	pair_close(&p);
	pair_fini(&p);
}

static void cookies__abort_in_flight_EACH_ONCE(void **state)
{
	for (uint32_t queue = 0; queue <= 100; queue += 100) {
		start_filled(queue);
		p.c.expect_nothing = p.s.expect_nothing = true;
		rdmamsg_ep_abort(p.c.ep);
		/* not before the loop has its turn */
		assert_int_equal(p.c.closed, 0);
		WAIT_FOR(p.c.closed && p.s.closed);
		end_check_cookies(&p.c);
		end_check_cookies(&p.s);
		assert_true(p.c.sent_failed > 0);
		assert_int_equal(p.c.why.who, RDMAMSG_WHO_LOCAL);
		assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_ABORTED);
		assert_int_equal(p.s.why.who, RDMAMSG_WHO_PEER);
		assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_ABORTED);
		pair_fini(&p);
	}
}

static void cookies__abort_from_on_sent_EACH_ONCE(void **state)
{
	pair_init(&p, NULL);
	p.c.then_sent = abort_now;
	p.c.opts.max_copy = LARGE;
	pair_listen(&p);
	pair_connect(&p);
	fill(&p.c);
	WAIT_FOR(p.c.closed && p.s.closed);
	end_check_cookies(&p.c);
	pair_fini(&p);
}

static void cookies__context_closed_in_flight_EACH_ONCE(void **state)
{
	start_filled(100);
	test_close(p.c.ctx);
	check_notes();
	assert_int_equal(p.c.closed, 1);
	end_check_cookies(&p.c);
	WAIT_FOR(p.s.closed);
	end_check_cookies(&p.s);
	test_close(p.s.ctx);
	check_notes();
	end_fini(&p.c);
	end_fini(&p.s);
}

static int receive_for_ever(int argc, char **argv)
{
	static struct pair q;

	pair_init(&q, NULL);
	q.s.expect_nothing = true;
	pair_listen(&q);
	say("%s\n", q.port);
	for (;;)
		test_pump(1000);
	return 0;
}

static void cookies__peer_killed_in_flight_EACH_ONCE(void **state)
{
	struct child child;

	child_start(&child, "receiver", NULL);
	pair_init(&p, NULL);
	p.c.opts.max_copy = LARGE;
	p.c.opts.send_queue = 100;
	child_line(&child, p.port, sizeof(p.port));
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.connected);
	fill(&p.c);
	WAIT_FOR(p.c.sent_ok > 2);
	kill(child.pid, SIGKILL);
	WAIT_FOR(p.c.closed);
	end_check_cookies(&p.c);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_ABORTED);
	assert_true(WIFSIGNALED(child_wait(&child)));
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	static const struct role roles[] = {
		{ "receiver", receive_for_ever }, { NULL },
	};
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
		TEST(incoming__own_default_or_refused_AS_ASKED),
		TEST(incoming__memory_that_is_none_OURS_IS_USED),
		TEST(incoming__abort_inside_ENDS_BOTH),
		TEST(stats__rendezvous_COPIES_NOTHING),
		TEST(msg_set_len__fewer_bytes_SENDS_THOSE),
		TEST(msg_send__received_message_GOES_BACK),
		TEST(msg_send__what_was_sent_or_freed_IS_REFUSED),
		TEST(msg_send__of_another_context_IS_REFUSED),
		TEST(msg_free__any_order_IS_FINE),
		TEST(msg_free__after_the_endpoint_IS_FINE),
		TEST(msg_free__after_the_device_IS_FINE),
		TEST(close__with_messages_out_LEAKS_NOTHING),
		TEST(cookies__graceful_close_in_flight_ALL_DELIVERED),
		TEST(cookies__both_close_in_flight_ALL_DELIVERED),
		TEST(cookies__abort_in_flight_EACH_ONCE),
		TEST(cookies__abort_from_on_sent_EACH_ONCE),
		TEST(cookies__context_closed_in_flight_EACH_ONCE),
		TEST(cookies__peer_killed_in_flight_EACH_ONCE),
	};

	return test_main(tests, roles, argc, argv);
}
