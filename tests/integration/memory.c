/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of messages: the receiver's own, allocated, lent, exhausted. */
#include "common.h"

#define LARGE	((size_t)16 << 20)

static struct pair p;

/* ---- where large messages go ------------------------------------------ */

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

static void open_choosing(void (*then)(struct end *e, struct rdmamsg_msg *msg))
{
	pair_init(&p, NULL);
	p.s.on.on_incoming = on_incoming;
	p.s.then_message = then;
	pair_listen(&p);
	pair_connect(&p);
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
	open_choosing(check_place);
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

static void expect_too_long(struct rdmamsg_msg *msg, size_t len)
{
	if (rdmamsg_msg_set_len(msg, len) != -EINVAL)
		note("set_len to %zu was not refused", len);
	texts_are_fine = true;
}

static void msg_set_len__more_than_allocated_EINVAL(void **state)
{
	static const size_t lens[] = { 0, 10, 5000, 100000 };
	struct rdmamsg_msg *msg;

	pair_open(&p);
	for (size_t n = 0; n < ARRAY_SIZE(lens); n++) {
		assert_int_equal(rdmamsg_msg_alloc(p.c.ep, lens[n], &msg), 0);
		expect_too_long(msg, lens[n] + 1);
		assert_int_equal(rdmamsg_msg_set_len(msg, lens[n] / 2), 0);
		expect_too_long(msg, lens[n] + 1);
		/* the requested length fits */
		assert_int_equal(rdmamsg_msg_set_len(msg, lens[n]), 0);
		assert_int_equal(rdmamsg_msg_len(msg), lens[n]);
		rdmamsg_msg_free(msg);
	}
	check_notes();
	assert_error(rdmamsg_msg_set_len(NULL, 0), -EINVAL, "NULL");
	pair_close(&p);
	pair_fini(&p);
}

static void try_to_lengthen(struct end *e, struct rdmamsg_msg *msg)
{
	size_t len = rdmamsg_msg_len(msg);

	expect_too_long(msg, len + 1);
	if (rdmamsg_msg_set_len(msg, len) || rdmamsg_msg_set_len(msg, len / 2))
		note("set_len to no more than %zu is refused", len);
	if (len)
		expect_too_long(msg, len);
	rdmamsg_msg_free(msg);
}

static void msg_set_len__more_than_received_EINVAL(void **state)
{
	static const size_t lens[] = { 0, 10, 5000, 100000, 200000 };

	own = malloc(8 * LARGE);
	choice[3] = TAKE_DEFAULT;
	choice[4] = TAKE_OWN;
	open_choosing(try_to_lengthen);
	for (int twice = 0; twice < 2; twice++)
		for (uint32_t n = 0; n < ARRAY_SIZE(lens); n++)
			end_send_all(&p.c, HOW_SENDV, lens[n], n);
	WAIT_FOR(p.s.received == 2 * ARRAY_SIZE(lens));
	pair_close(&p);
	pair_fini(&p);
	free(own);
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
	open_choosing(send_back);
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

/* The library closes an unused device after a while. Its messages remain. */
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
	/*
	 * send a kept message on another connection, which reopens the device
	 */
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(incoming__own_default_or_refused_AS_ASKED),
		TEST(incoming__memory_that_is_none_OURS_IS_USED),
		TEST(incoming__abort_inside_ENDS_BOTH),
		TEST(stats__rendezvous_COPIES_NOTHING),
		TEST(msg_set_len__fewer_bytes_SENDS_THOSE),
		TEST(msg_set_len__more_than_allocated_EINVAL),
		TEST(msg_set_len__more_than_received_EINVAL),
		TEST(msg_send__received_message_GOES_BACK),
		TEST(msg_send__what_was_sent_or_freed_IS_REFUSED),
		TEST(msg_send__of_another_context_IS_REFUSED),
		TEST(msg_free__any_order_IS_FINE),
		TEST(msg_free__after_the_endpoint_IS_FINE),
		TEST(msg_free__after_the_device_IS_FINE),
		TEST(close__with_messages_out_LEAKS_NOTHING),
	};

	return test_main(tests, NULL, argc, argv);
}
