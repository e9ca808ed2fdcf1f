/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Back-pressure: a receiver that keeps its messages, and the limits on memory
 * of both sides.
 */
#include "credits.h"

void held__until_the_limit_THEN_RECOVERS(void **state)
{
	pair_init(&p, NULL);
	test_close(p.s.ctx);
	p.s.ctx = test_open(&little);
	p.s.keep = true;
	be_still();
	pair_listen(&p);
	pair_connect(&p);
	send_until_refused(100);
	WAIT_FOR(p.s.received == p.s.expected_count);
	assert_true(end_stats(&p.c).sends_refused > 0);
	assert_true(end_stats(&p.c).credit_stalls > 0);
	assert_true(end_stats(&p.s).bytes_registered <= 4 << 20);
	assert_int_equal(end_stats(&p.s).msgs_lent, p.s.received);
	check_no_rnr();

	for (int round = 0; round < 3; round++) {
		/* refused again, so that on_writable is still due */
		p.c.writable = 0;
		while (!end_send(&p.c, HOW_SEND, 10, 1))
			;
		/* one freed message makes room again, then all of them do */
		rdmamsg_msg_free(p.s.kept[--p.s.kept_count]);
		WAIT_FOR(p.c.writable);
		end_send_all(&p.c, HOW_SEND, 7, 7);
		p.c.writable = 0;
		end_release(&p.s);
		send_until_refused(50);
		WAIT_FOR(p.s.received == p.s.expected_count);
	}
	check_no_rnr();
	end_release(&p.s);
	pair_close(&p);
	pair_fini(&p);
}

void held__inbox_without_on_message_PUSHES_BACK(void **state)
{
	struct rdmamsg_msg *msg;
	size_t n = 0;

	pair_init(&p, NULL);
	test_close(p.s.ctx);
	p.s.ctx = test_open(&little);
	p.s.on.on_message = NULL;
	pair_listen(&p);
	pair_connect(&p);
	send_until_refused(100);
	while (n < p.s.expected_count) {
		assert_int_equal(rdmamsg_recv_wait(p.s.ep, WAIT_MS, &msg), 0);
		assert_int_equal(rdmamsg_msg_len(msg), 100);
		assert_int_equal(rdmamsg_msg_tag(msg), n++);
		rdmamsg_msg_free(msg);
	}
	p.s.received = n;
	pair_close(&p);
	pair_fini(&p);
}

/* Memory for receiving and memory for sending have separate budgets. */
void limit__held_up_to_the_limit_SENDS_STILL(void **state)
{
	pair_init(&p, NULL);
	test_close(p.c.ctx);
	p.c.ctx = test_open(&little);
	p.c.keep = true;
	be_still();
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t n = 0; n < 8; n++)
		end_send_all(&p.s, HOW_SENDV, 1 << 20, n);
	WAIT_FOR(p.c.received);
	for (uint32_t n = 0; n < 100; n++)
		end_send_all(&p.c, n % HOW_COUNT, 60000, n);
	WAIT_FOR(p.s.received == 100);
	assert_true(p.c.received < 8);
	while (p.c.received < 8) {
		size_t before = p.c.received;

		end_release(&p.c);
		WAIT_FOR(p.c.received != before);
	}
	end_release(&p.c);
	pair_close(&p);
	pair_fini(&p);
}

/* Spares of one size must make room for other sizes. */
void limit__other_sizes_before_ARE_GIVEN_BACK(void **state)
{
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .max_registered = 8 << 20,
		.max_send_registered = 3 << 20,
	};

	pair_init(&p, NULL);
	test_close(p.c.ctx);
	p.c.ctx = test_open(&opts);
	p.c.opts.send_queue = 2000;
	p.c.tuning.max_copy = 1 << 20;
	pair_listen(&p);
	pair_connect(&p);
	/* fill the limit with free large buffers */
	for (uint32_t n = 0; n < 3; n++)
		for (size_t len = 64 << 10; len <= 1 << 20; len *= 2)
			end_send_all(&p.c, HOW_SEND, len, (uint32_t)len);
	WAIT_FOR(p.c.sent_ok == p.c.sent);
	/* each message needs its own buffer until it is sent */
	for (uint32_t n = 0; n < 200; n++)
		end_send_all(&p.c, HOW_SEND, 8000, n);
	WAIT_FOR(p.s.received == p.s.expected_count);
	pair_close(&p);
	pair_fini(&p);
}

static void send_64k(struct end *e)
{
	int ret = end_send(e, HOW_SEND, 64 << 10, 9);

	if (ret && ret != -EAGAIN)
		note("%s", rdmamsg_error());
}

/* The limit has room for the message but not for its announcement. */
void limit__no_room_for_the_announcement_WAITS(void **state)
{
	/* whole slabs for the small ones, and 64 KB, less than any slab */
	const struct rdmamsg_options opts = {
		.size = sizeof(opts),
		.max_registered = 16 << 20,
		.max_send_registered = (4 << 20) + (64 << 10),
	};
	struct rdmamsg_msg *msg[1024];
	size_t n = 0;

	pair_init(&p, NULL);
	test_close(p.c.ctx);
	p.c.ctx = test_open(&opts);
	p.c.then_writable = send_64k;
	pair_listen(&p);
	pair_connect(&p);
	while (!rdmamsg_msg_alloc(p.c.ep, 8000, &msg[n]))
		assert_true(++n < ARRAY_SIZE(msg));
	send_64k(&p.c);
	assert_int_equal(p.c.sent, 0);
	for (int i = 0; i < 5; i++)
		test_pump(100);
	assert_int_equal(p.c.sent, 0);
	while (n)
		rdmamsg_msg_free(msg[--n]);
	WAIT_FOR(p.s.received == 1);
	pair_close(&p);
	pair_fini(&p);
}

void alloc__beyond_the_limit_EAGAIN(void **state)
{
	struct rdmamsg_msg *msg[64];
	size_t n = 0;
	int ret;

	pair_init(&p, NULL);
	test_close(p.c.ctx);
	p.c.ctx = test_open(&little);
	be_still();
	pair_listen(&p);
	pair_connect(&p);
	while (!(ret = rdmamsg_msg_alloc(p.c.ep, 300000, &msg[n])))
		assert_true(++n < ARRAY_SIZE(msg));
	assert_int_equal(ret, -EAGAIN);
	assert_true(n > 0);
	/* after the refusal on_writable waits until there is room again */
	for (int i = 0; i < 3; i++)
		test_pump(50);
	assert_int_equal(p.c.writable, 0);
	rdmamsg_msg_free(msg[--n]);
	WAIT_FOR(p.c.writable == 1);
	assert_int_equal(rdmamsg_msg_alloc(p.c.ep, 300000, &msg[n]), 0);
	/* an allocation beyond the limit fails at once */
	assert_error(rdmamsg_msg_alloc(p.c.ep, 5 << 20, &msg[n + 1]), -ENOBUFS,
		     "max_registered");
	for (size_t i = 0; i <= n; i++)
		rdmamsg_msg_free(msg[i]);
	assert_int_equal(end_stats(&p.c).msgs_lent, 0);
	pair_close(&p);
	pair_fini(&p);
}

/*
 * The announced messages exceed what the receiver may register, and its program
 * keeps those that arrive. The rest waits and nothing is lost.
 */
void limit__of_the_receiver_ITS_MESSAGES_WAIT(void **state)
{
	pair_init(&p, NULL);
	test_close(p.s.ctx);
	p.s.ctx = test_open(&little);
	p.s.keep = true;
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t tag = 0; tag < 12; tag++)
		assert_int_equal(end_send(&p.c, HOW_SENDV, 1 << 20, tag), 0);
	WAIT_FOR(p.s.received);
	/* the program frees its messages when no more arrive */
	for (int quiet = 0; quiet < 3; quiet++) {
		size_t before = p.s.received;

		test_pump(50);
		if (p.s.received != before)
			quiet = -1;
	}
	assert_true(p.s.received < 4);
	assert_int_equal(p.c.sent_failed, 0);
	while (p.s.received < 12) {
		size_t before = p.s.received;

		end_release(&p.s);
		WAIT_FOR(p.s.received != before);
	}
	end_release(&p.s);
	WAIT_FOR(p.c.sent_ok == 12);
	assert_int_equal(end_stats(&p.s).msgs_lent, 0);
	pair_close(&p);
	pair_fini(&p);
}

/* A message that can never fit fails at the sender at once. */
void limit__of_the_receiver_NEVER_FITS_EMSGSIZE(void **state)
{
	uint32_t most;

	pair_init(&p, NULL);
	test_close(p.s.ctx);
	p.s.ctx = test_open(&little);
	pair_listen(&p);
	pair_connect(&p);
	most = end_info(&p.c).max_send;
	assert_in_range(most, 1 << 20, 3 << 20);
	assert_int_equal(end_info(&p.s).max_receive, most);
	assert_int_equal(end_send(&p.c, HOW_SENDV, most + 1, 0), -EMSGSIZE);
	assert_int_equal(end_send(&p.c, HOW_SENDV, most, 1), 0);
	WAIT_FOR(p.c.sent_ok == 1 && p.s.received == 1);
	pair_close(&p);
	pair_fini(&p);
}

static void send_small(struct end *e, uint32_t count)
{
	for (uint32_t n = 0; n < count; n++)
		end_send_all(e, HOW_SEND, 100, n);
}

/* Memory that small messages have used and freed serves large ones again. */
void limit__small_ones_held_and_freed_LARGE_ARRIVE(void **state)
{
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .max_registered = 16 << 20,
	};

	pair_init(&p, NULL);
	test_close(p.s.ctx);
	p.s.ctx = test_open(&opts);
	p.s.keep = true;
	be_still();
	pair_listen(&p);
	pair_connect(&p);
	send_until_refused(100);
	WAIT_FOR(p.s.received == p.s.expected_count);
	end_release(&p.s);
	p.s.keep = false;
	for (uint32_t n = 0; n < 20; n++)
		end_send_all(&p.c, n % 2 ? HOW_SENDV : HOW_MSG, 4 << 20, n);
	WAIT_FOR(p.s.received == p.s.expected_count);
	send_small(&p.c, 500);
	WAIT_FOR(p.s.received == p.s.expected_count);
	check_no_rnr();
	pair_close(&p);
	pair_fini(&p);
}

/* Messages behind a large one that waits hold their credits. */
void behind__a_waiting_one_HOLD_THEIR_CREDITS(void **state)
{
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .max_registered = 24 << 20,
	};
	uint64_t pinned;
	size_t before;

	pair_init(&p, NULL);
	test_close(p.s.ctx);
	p.s.ctx = test_open(&opts);
	p.s.keep = true;
	p.s.tuning.recv_depth = 64;
	be_still();
	pair_listen(&p);
	pair_connect(&p);
	/* until the first message that has to wait for memory */
	do {
		before = p.s.received;
		end_send_all(&p.c, HOW_SENDV, 4 << 20, 5);
		for (int i = 0; i < 100 && p.s.received == before; i++)
			test_pass(20);
	} while (p.s.received != before);
	pinned = end_stats(&p.s).bytes_registered;
	before = p.c.sent;
	send_until_refused(100);
	assert_in_range(p.c.sent - before, 1, 64);
	assert_int_equal(end_stats(&p.s).bytes_registered, pinned);
	while (p.s.received < p.s.expected_count) {
		before = p.s.received;
		end_release(&p.s);
		WAIT_FOR(p.s.received != before);
	}
	end_release(&p.s);
	check_no_rnr();
	pair_close(&p);
	pair_fini(&p);
}

/*
 * Both sides have filled their memory with messages to be sent. Each must still
 * be able to receive the messages of the other.
 */
void both__full_of_what_they_send_ALL_ARRIVES(void **state)
{
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .max_registered = 32 << 20,
	};
	struct end *ends[] = { &p.c, &p.s };
	const size_t len = 3 << 20;
	uint32_t count = 0;

	pair_init(&p, &opts);
	p.c.opts.send_queue = p.s.opts.send_queue = 100;
	pair_listen(&p);
	pair_connect(&p);
	for (int i = 0; i < 2; i++)
		while (!end_send(ends[i], HOW_MSG, len, count))
			count++;
	assert_true(count >= 4);
	WAIT_FOR(p.s.received + p.c.received == count);
	pair_close(&p);
	pair_fini(&p);
}

/* A receiver without memory answers, and says that it waits for some. */
void limit__waits_beyond_fetch_timeout_IS_NOT_PUNISHED(void **state)
{
	uint64_t end;

	pair_init(&p, NULL);
	test_close(p.s.ctx);
	p.s.ctx = test_open(&little);
	p.s.keep = true;
	p.c.tuning.fetch_timeout_ms = 300;
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t n = 0; n < 4; n++)
		end_send_all(&p.c, HOW_SENDV, 1 << 20, n);
	/* the sender also announces this smaller message behind them */
	end_send_all(&p.c, HOW_SENDV, 20000, 4);
	/* fetch_timeout_ms, 300 ms, and 1 s for a megabyte */
	end = now_ms() + 4000;
	while (now_ms() < end) {
		test_pump(50);
		check_notes();
		if (p.c.closed || p.s.closed)
			fail_msg("closed: %s", p.c.why.text);
	}
	assert_true(p.s.received < 4);
	while (p.s.received < 5) {
		size_t before = p.s.received;

		end_release(&p.s);
		WAIT_FOR(p.s.received != before);
	}
	end_release(&p.s);
	pair_close(&p);
	pair_fini(&p);
}

/* A program that keeps messages of one peer holds up this peer alone. */
void kept__of_one_peer_OTHERS_GO_ON(void **state)
{
	static struct pair q;
	uint64_t bytes;

	pair_init(&p, NULL);
	p.s.keep = true;
	p.s.tuning.max_lent = 1 << 20;
	be_still();
	pair_listen(&p);
	pair_connect(&p);
	bytes = end_stats(&p.s).bytes_registered;
	send_until_refused(100);
	for (uint32_t n = 0; n < 4; n++)
		(void)end_send(&p.c, HOW_SENDV, 500000, n);
	for (int i = 0; i < 5; i++)
		test_pump(20);
	/* max_lent, the posted receives, and a slab in part use */
	assert_in_range(end_stats(&p.s).bytes_registered, bytes + (1 << 20),
			bytes + (3 << 20));

	memset(&q, 0, sizeof(q));
	end_init(&q.s, "server 2", p.s.ctx);
	end_init(&q.c, "client 2", p.c.ctx);
	q.s.peer = &q.c;
	q.c.peer = &q.s;
	pair_listen(&q);
	pair_connect(&q);
	for (uint32_t n = 0; n < 300; n++)
		end_send_all(&q.c, n % 2 ? HOW_SENDV : HOW_MSG, mixed_size(n),
			     n);
	WAIT_FOR(q.s.received == 300);
	rdmamsg_ep_close(q.c.ep);
	WAIT_FOR(q.c.closed && q.s.closed);
	while (p.s.received < p.s.expected_count) {
		size_t before = p.s.received;

		end_release(&p.s);
		WAIT_FOR(p.s.received != before);
	}
	end_release(&p.s);
	check_no_rnr();
	pair_close(&p);
	pair_fini(&p);
	end_fini(&q.c);
	end_fini(&q.s);
}

static int give_no_memory(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
			  struct rdmamsg_buffer *dst)
{
	return 0;
}

/* If neither the library nor the program has memory, the endpoint closes. */
void limit__too_small_and_no_memory_given_CLOSES(void **state)
{
	pair_init(&p, NULL);
	test_close(p.s.ctx);
	p.s.ctx = test_open(&little);
	p.s.on.on_incoming = give_no_memory;
	p.c.expect_nothing = p.s.expect_nothing = true;
	pair_listen(&p);
	pair_connect(&p);
	assert_int_equal(end_send(&p.c, HOW_SENDV, 3 << 20, 0), 0);
	WAIT_FOR(p.s.closed && p.c.closed);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_RESOURCES);
	assert_non_null(strstr(p.s.why.text, "on_incoming"));
	pair_fini(&p);
}

/* Smaller messages must not take the memory that an earlier one waits for. */
void limit__smaller_ones_behind_WAIT_THEIR_TURN(void **state)
{
	pair_init(&p, NULL);
	test_close(p.s.ctx);
	p.s.ctx = test_open(&little);
	p.s.keep = true;
	be_still();
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t tag = 0; tag < 7; tag++)
		end_send_all(&p.c, HOW_SENDV, 100000, tag);
	WAIT_FOR(p.s.received == 7);
	assert_int_equal(end_send(&p.c, HOW_SENDV, 1100000, 7), 0);
	for (uint32_t tag = 8; tag < 20; tag++)
		end_send_all(&p.c, HOW_SENDV, 100000, tag);
	for (int i = 0; i < 5; i++)
		test_pump(20);
	assert_int_equal(p.s.received, 7);
	while (p.s.kept_count) {
		rdmamsg_msg_free(p.s.kept[--p.s.kept_count]);
		test_pump(20);
	}
	WAIT_FOR(p.s.received > 7);
	while (p.s.received < 20) {
		size_t before = p.s.received;

		end_release(&p.s);
		WAIT_FOR(p.s.received != before);
	}
	end_release(&p.s);
	pair_close(&p);
	pair_fini(&p);
}

/* The library takes one message even if it exceeds the limit. */
void limit__below_a_message_IT_COMES_ALONE(void **state)
{
	pair_init(&p, NULL);
	p.s.tuning.max_lent = 100000;
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t tag = 0; tag < 3; tag++)
		assert_int_equal(end_send(&p.c, HOW_SENDV, 1 << 20, tag), 0);
	WAIT_FOR(p.s.received == 3);
	pair_close(&p);
	pair_fini(&p);
}

/* The connecting side does the same, although peers' addresses tell nothing. */
void kept__of_one_server_LEAVES_HALF_TO_OTHERS(void **state)
{
	static const struct rdmamsg_options some = {
		.size = sizeof(some), .max_registered = 32 << 20,
		.max_send_registered = 8 << 20,
	};
	uint64_t before;

	pair_init(&p, NULL);
	test_close(p.c.ctx);
	p.c.ctx = test_open(&some);
	p.c.keep = true;
	p.c.tuning.max_lent = RDMAMSG_NONE;
	be_still();
	pair_listen(&p);
	pair_connect(&p);
	before = end_stats(&p.c).bytes_registered;
	send_until_refused_from(&p.s, 300000);
	assert_in_range(end_stats(&p.c).bytes_registered - before, 8 << 20,
			14 << 20);
	while (p.c.received < p.c.expected_count) {
		size_t received = p.c.received;

		end_release(&p.c);
		WAIT_FOR(p.c.received != received);
	}
	end_release(&p.c);
	pair_close(&p);
	pair_fini(&p);
}
