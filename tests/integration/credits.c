/* SPDX-License-Identifier: BSD-2-Clause */
/* Back-pressure: credits and send queues. */
#include "credits.h"

/* ---- floods ----------------------------------------------------------- */

struct flood {
	uint32_t sent, count;
	size_t (*len)(uint32_t n);
};

static void pour(struct end *e)
{
	struct flood *f = e->arg;

	while (f->sent < f->count) {
		int ret = end_send(e, f->sent % HOW_COUNT, f->len(f->sent),
				   f->sent);

		if (ret == -EAGAIN)
			return;
		if (ret)
			note("%s: %s", e->name, rdmamsg_error());
		f->sent++;
	}
}

static size_t small(uint32_t n)
{
	return n % 300;
}

static size_t mixed(uint32_t n)
{
	return n % 10 == 3 ? 20000 + n : n % 7 == 2 ? 5000 : n % 100;
}

static void flood(uint32_t from_c, uint32_t from_s, size_t (*len)(uint32_t n))
{
	struct flood c = { 0, from_c, len }, s = { 0, from_s, len };

	p.c.arg = &c;
	p.s.arg = &s;
	p.c.then_connected = p.s.then_connected = pour;
	p.c.then_writable = p.s.then_writable = pour;
	pair_listen(&p);
	pair_connect(&p);
	WAIT_FOR(p.s.received == from_c && p.c.received == from_s);
	check_no_rnr();
	pair_close(&p);
	check_no_rnr();
	pair_fini(&p);
}

static void flood__one_way_ARRIVES(void **state)
{
	pair_init(&p, NULL);
	flood(5000, 0, small);
	pair_init(&p, NULL);
	flood(0, 5000, small);
}

static void flood__both_ways_ARRIVES(void **state)
{
	pair_init(&p, NULL);
	flood(3000, 3000, small);
	pair_init(&p, NULL);
	flood(500, 500, mixed);
}

static void flood__recv_depth_1_and_2_ARRIVES(void **state)
{
	static const uint32_t depths[][2] = { { 1, 1 }, { 2, 2 }, { 1, 64 } };

	for (size_t n = 0; n < ARRAY_SIZE(depths); n++) {
		pair_init(&p, NULL);
		p.c.tuning.recv_depth = depths[n][0];
		p.s.tuning.recv_depth = depths[n][1];
		flood(300, 300, mixed);
		pair_init(&p, NULL);
		p.c.tuning.recv_depth = depths[n][0];
		p.s.tuning.recv_depth = depths[n][1];
		flood(300, 0, mixed);
	}
}

static void flood__send_depth_1_ARRIVES(void **state)
{
	pair_init(&p, NULL);
	p.c.tuning.send_depth = p.s.tuning.send_depth = 1;
	flood(300, 300, mixed);
}

static void flood__one_read_at_a_time_ARRIVES(void **state)
{
	pair_init(&p, NULL);
	p.c.tuning.initiator_depth = p.s.tuning.initiator_depth = 1;
	p.c.tuning.responder_resources = p.s.tuning.responder_resources = 1;
	flood(100, 100, mixed);
}

static void flood__from_many_queued_sends_ARRIVES(void **state)
{
	pair_init(&p, NULL);
	p.c.opts.send_queue = 65536;
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t n = 0; n < 5000; n++)
		assert_int_equal(end_send(&p.c, HOW_SENDV, n % 500, n), 0);
	WAIT_FOR(p.s.received == 5000);
	assert_int_equal(end_stats(&p.c).sends_refused, 0);
	check_no_rnr();
	pair_close(&p);
	pair_fini(&p);
}

/* ---- passed on --------------------------------------------------------- */

static size_t passed_on, dropped;

/* Passes a message on, or drops it if the send is refused. */
static void pass_on(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (!rdmamsg_msg_send(ep, msg, rdmamsg_msg_tag(msg), NULL)) {
		passed_on++;
	} else {
		dropped++;
		rdmamsg_msg_free(msg);
	}
}

static struct rdmamsg_msg *never_freed[64];
static size_t never_freed_count;

static void keep_it(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (never_freed_count < ARRAY_SIZE(never_freed))
		never_freed[never_freed_count++] = msg;
	else
		rdmamsg_msg_free(msg);
}

/* Each end waits until the other end takes the messages passed on to it. */
static void passed_on__to_each_other_GOES_ON(void **state)
{
	struct iovec iov = { (void *)pattern(0), 100000 };
	uint32_t n = 0;

	passed_on = dropped = 0;
	pair_init(&p, NULL);
	p.s.on.on_message = p.c.on.on_message = pass_on;
	p.s.tuning.max_lent = p.c.tuning.max_lent = 512 << 10;
	p.s.opts.send_queue = p.c.opts.send_queue = 64;
	p.s.tuning.pieces_max = RDMAMSG_NONE;
	pair_listen(&p);
	pair_connect(&p);
	while (n < 20 && !rdmamsg_sendv(p.c.ep, &iov, 1, n, NULL) &&
	       !rdmamsg_sendv(p.s.ep, &iov, 1, n, NULL))
		n++;
	assert_int_equal(n, 20);
	/* the number of dropped messages depends on the timing */
	WAIT_FOR(passed_on >= 1000 || dropped == 2 * n);
	assert_true(passed_on > 0);
	p.s.on.on_message = p.c.on.on_message = NULL;
	rdmamsg_ep_abort(p.c.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	pair_fini(&p);
}

/*
 * The client keeps most of the messages that come back, so they stay counted.
 */
static void passed_on__to_a_peer_that_keeps_IS_BOUNDED(void **state)
{
	struct iovec iov = { (void *)pattern(0), 500000 };
	uint64_t bytes;
	uint32_t n = 0;

	passed_on = dropped = never_freed_count = 0;
	pair_init(&p, NULL);
	p.s.on.on_message = pass_on;
	p.c.on.on_message = keep_it;
	p.s.tuning.max_lent = p.c.tuning.max_lent = 4 << 20;
	p.s.opts.send_queue = p.c.opts.send_queue = 64;
	be_still();
	pair_listen(&p);
	pair_connect(&p);
	bytes = end_stats(&p.s).bytes_registered;
	while (n < 40 && !rdmamsg_sendv(p.c.ep, &iov, 1, n, NULL))
		n++;
	assert_true(n >= 32);
	/* the client's limit, then the server's for messages passed on */
	WAIT_FOR(never_freed_count >= 8 && passed_on >= 16);
	for (int i = 0; i < 20; i++)
		test_pump(20);
	check_notes();
	assert_in_range(passed_on, 16, 17);
	/* these messages, and as many that arrive */
	assert_true(end_stats(&p.s).bytes_registered <= bytes + (10 << 20));
	while (never_freed_count)
		rdmamsg_msg_free(never_freed[--never_freed_count]);
	rdmamsg_ep_abort(p.c.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	pair_fini(&p);
}

/* ---- send_queue ------------------------------------------------------- */

/*
 * Sends while the server does not poll. Returns the number that credits and
 * queue accept.
 */
static unsigned int send_at_once(void)
{
	unsigned int accepted = 0;
	int ret;

	while (!(ret = end_send(&p.c, HOW_SEND, 10, accepted)))
		assert_true(++accepted < 100);
	assert_int_equal(ret, -EAGAIN);
	return accepted;
}

/* Drives one end. The other end gives no credits and fetches nothing. */
static void run_alone(const struct end *e)
{
	for (int i = 0; i < 20; i++)
		assert_true(rdmamsg_process(e->ctx) >= 0);
}

static void queue__of_ten_KEEPS_TEN(void **state)
{
	pair_init(&p, NULL);
	p.c.opts.send_queue = 10;
	p.s.tuning.recv_depth = 4;
	pair_listen(&p);
	pair_connect(&p);
	assert_int_equal(send_at_once(), 4 + 10);
	assert_int_equal(end_info(&p.c).send_credits, 0);
	p.c.writable = 0;
	run_alone(&p.c);
	assert_int_equal(p.c.writable, 0);
	WAIT_FOR(p.c.writable);
	WAIT_FOR(p.s.received == 14);
	assert_int_equal(end_stats(&p.c).sends_refused, 1);
	pair_close(&p);
	pair_fini(&p);
}

/* A limit on rendezvous in flight holds even if credits are left. */
static void rendezvous__too_many_WRITABLE_WHEN_ONE_IS_DONE(void **state)
{
	uint32_t n = 0;
	int ret;

	pair_init(&p, NULL);
	p.c.tuning.pieces_max = RDMAMSG_NONE;
	pair_listen(&p);
	pair_connect(&p);
	while (!(ret = end_send(&p.c, HOW_SENDV, 100000, n)))
		assert_true(++n < 100);
	assert_int_equal(ret, -EAGAIN);
	assert_true(end_info(&p.c).send_credits > 0);
	p.c.writable = 0;
	run_alone(&p.c);
	assert_int_equal(p.c.writable, 0);
	WAIT_FOR(p.c.writable);
	WAIT_FOR(p.s.received == n);
	pair_close(&p);
	pair_fini(&p);
}

static void queue__without_NEEDS_CREDITS(void **state)
{
	pair_init(&p, NULL);
	p.s.tuning.recv_depth = 4;
	pair_listen(&p);
	pair_connect(&p);
	assert_int_equal(send_at_once(), 4);
	assert_int_equal(end_stats(&p.c).credit_stalls, 1);
	WAIT_FOR(p.c.writable == 1);
	pair_close(&p);
	pair_fini(&p);
}

/* on_writable comes once for a refusal, not for each credit. */
static void writable__nothing_refused_IS_NOT_TOLD(void **state)
{
	pair_open(&p);
	for (uint32_t n = 0; n < 30; n++)
		assert_int_equal(end_send(&p.c, HOW_SEND, 10, n), 0);
	WAIT_FOR(p.s.received == 30);
	pair_close(&p);
	assert_int_equal(p.c.writable, 0);
	pair_fini(&p);
}

/* ---- the first sends -------------------------------------------------- */

#define FIRST_CREDITS	65u

/*
 * Sends as many messages as the peer takes, in on_connected. The device may
 * have done with some before the next one, so that it can take more than
 * send_depth.
 */
static void send_depth_many(struct end *e)
{
	uint32_t depth = e->tuning.send_depth, n = 0;

	while (n <= FIRST_CREDITS && !end_send(e, HOW_SEND, 10, n))
		n++;
	if (n < depth)
		note("%s: send %u of %u in on_connected: refused", e->name,
		     n + 1, depth);
	if (n > FIRST_CREDITS)
		note("%s: more than %u sends at once", e->name, FIRST_CREDITS);
}

static void send__in_on_connected_HAS_THE_WHOLE_QUEUE(void **state)
{
	static const uint32_t depths[] = { 1, 2, 64 };

	for (size_t i = 0; i < ARRAY_SIZE(depths); i++) {
		pair_init(&p, NULL);
		p.s.tuning.send_depth = p.c.tuning.send_depth = depths[i];
		p.s.tuning.recv_depth = p.c.tuning.recv_depth = FIRST_CREDITS;
		p.s.then_connected = p.c.then_connected = send_depth_many;
		pair_listen(&p);
		pair_connect(&p);
		WAIT_FOR(p.s.received == p.c.sent && p.c.received == p.s.sent);
		assert_true(p.c.sent >= depths[i] && p.s.sent >= depths[i]);
		pair_close(&p);
		pair_fini(&p);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(flood__one_way_ARRIVES),
		TEST(flood__both_ways_ARRIVES),
		TEST(flood__recv_depth_1_and_2_ARRIVES),
		TEST(flood__send_depth_1_ARRIVES),
		TEST(flood__one_read_at_a_time_ARRIVES),
		TEST(flood__from_many_queued_sends_ARRIVES),
		TEST(held__until_the_limit_THEN_RECOVERS),
		TEST(held__inbox_without_on_message_PUSHES_BACK),
		TEST(limit__held_up_to_the_limit_SENDS_STILL),
		TEST(limit__other_sizes_before_ARE_GIVEN_BACK),
		TEST(limit__no_room_for_the_announcement_WAITS),
		TEST(alloc__beyond_the_limit_EAGAIN),
		TEST(limit__of_the_receiver_ITS_MESSAGES_WAIT),
		TEST(limit__of_the_receiver_NEVER_FITS_EMSGSIZE),
		TEST(limit__small_ones_held_and_freed_LARGE_ARRIVE),
		TEST(behind__a_waiting_one_HOLD_THEIR_CREDITS),
		TEST(both__full_of_what_they_send_ALL_ARRIVES),
		TEST(limit__waits_beyond_fetch_timeout_IS_NOT_PUNISHED),
		TEST(kept__of_one_peer_OTHERS_GO_ON),
		TEST(limit__below_a_message_IT_COMES_ALONE),
		TEST(limit__too_small_and_no_memory_given_CLOSES),
		TEST(limit__smaller_ones_behind_WAIT_THEIR_TURN),
		TEST(kept__of_one_server_LEAVES_HALF_TO_OTHERS),
		TEST(passed_on__to_each_other_GOES_ON),
		TEST(passed_on__to_a_peer_that_keeps_IS_BOUNDED),
		TEST(queue__of_ten_KEEPS_TEN),
		TEST(rendezvous__too_many_WRITABLE_WHEN_ONE_IS_DONE),
		TEST(queue__without_NEEDS_CREDITS),
		TEST(writable__nothing_refused_IS_NOT_TOLD),
		TEST(send__in_on_connected_HAS_THE_WHOLE_QUEUE),
	};

	return test_main(tests, NULL, argc, argv);
}
