/* SPDX-License-Identifier: BSD-2-Clause */
/* Ending a connection with a code and data for the peer's program. */
#include "clock.h"
#include "common.h"

#include <rdmamsg/failover.h>

#define CODE	0xfedcba98u

static struct pair p;

static const char data[RDMAMSG_HELLO_DATA_MAX + 1] =
	"no more than thirty-two of these";

static struct end *closer, *told;

static void open_pair(bool server)
{
	pair_open(&p);
	closer = server ? &p.s : &p.c;
	told = server ? &p.c : &p.s;
}

static void check_word(const struct end *e, uint32_t code, size_t len)
{
	assert_int_equal(e->why.code, code);
	assert_int_equal(e->why.data_len, len);
	assert_memory_equal(e->why_data, data, len);
}

/* The end is told after all messages. */
static void then_closed(struct end *e)
{
	if (e->received != e->expected_count)
		note("%s: closed before the last message", e->name);
}

static void send_both_ways(void)
{
	for (uint32_t n = 0; n < 8; n++) {
		end_send_all(&p.c, n % HOW_COUNT, mixed_size(n), n);
		end_send_all(&p.s, n % HOW_COUNT, mixed_size(n), n);
	}
	p.c.then_closed = p.s.then_closed = then_closed;
}

static void close_with(bool server, uint32_t code, size_t len)
{
	open_pair(server);
	if (len % 8 == 0)
		send_both_ways();
	assert_int_equal(rdmamsg_ep_close_with(closer->ep, code,
					       len ? data : NULL, len), 0);
	WAIT_FOR(p.c.closed && p.s.closed);
	pair_check_graceful(&p);
	assert_int_equal(told->why.who, RDMAMSG_WHO_PEER);
	check_word(told, code, len);
	assert_int_equal(closer->why.who, RDMAMSG_WHO_LOCAL);
	check_word(closer, 0, 0);
	pair_fini(&p);
}

static void close_with__each_length_IS_IN_THE_REASON(void **state)
{
	for (int server = 0; server < 2; server++)
		for (size_t len = 0; len <= RDMAMSG_HELLO_DATA_MAX; len++)
			close_with(server, CODE + (uint32_t)len, len);
}

static void close_with__no_code_or_nothing_IS_IN_THE_REASON(void **state)
{
	close_with(false, 0, RDMAMSG_HELLO_DATA_MAX);
	close_with(false, 0, 0);
	close_with(true, UINT32_MAX, 0);
}

static void close_with__headers_in_full_IS_IN_THE_REASON(void **state)
{
	pair_init(&p, NULL);
	p.c.opts.flags = p.s.opts.flags = RDMAMSG_EP_FULL_HEADERS;
	p.c.tuning.inline_max = p.s.tuning.inline_max = RDMAMSG_NONE;
	pair_listen(&p);
	pair_connect(&p);
	assert_int_equal(rdmamsg_ep_close_with(p.c.ep, CODE, data, 5), 0);
	WAIT_FOR(p.c.closed && p.s.closed);
	pair_check_graceful(&p);
	check_word(&p.s, CODE, 5);
	pair_fini(&p);
}

static void close_with__both_EACH_HAS_THE_OTHERS(void **state)
{
	open_pair(false);
	send_both_ways();
	assert_int_equal(rdmamsg_ep_close_with(p.c.ep, 1, data, 3), 0);
	assert_int_equal(rdmamsg_ep_close_with(p.s.ep, 2, data, 30), 0);
	WAIT_FOR(p.c.closed && p.s.closed);
	pair_check_graceful(&p);
	check_word(&p.c, 2, 30);
	check_word(&p.s, 1, 3);
	pair_fini(&p);
}

/* After a refused call everything goes on. */
static void with__too_long_EINVAL(void **state)
{
	static int (*const calls[])(struct rdmamsg_ep *ep, uint32_t code,
				    const void *data, size_t len) = {
		rdmamsg_ep_close_with, rdmamsg_ep_abort_with,
	};
	open_pair(false);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		assert_error(calls[i](p.c.ep, 1, data, sizeof(data)), -EINVAL,
			     "32");
		assert_error(calls[i](p.c.ep, 1, data, SIZE_MAX), -EINVAL,
			     "32");
		assert_error(calls[i](p.c.ep, 1, NULL, 1), -EINVAL, "32");
	}
	assert_int_equal(rdmamsg_ep_state(p.c.ep), RDMAMSG_CONNECTED);
	send_both_ways();
	pair_close(&p);
	check_word(&p.c, 0, 0);
	check_word(&p.s, 0, 0);
	pair_fini(&p);
}

/* The first word counts. */
static void close_with__is_closing_ESHUTDOWN(void **state)
{
	open_pair(false);
	assert_int_equal(rdmamsg_ep_close_with(p.c.ep, 1, data, 3), 0);
	assert_error(rdmamsg_ep_close_with(p.c.ep, 2, data, 4), -ESHUTDOWN,
		     "closing");
	WAIT_FOR(p.c.closed && p.s.closed);
	check_word(&p.s, 1, 3);
	pair_fini(&p);
}

static void with__not_connected_ENDS(void **state)
{
	for (int abort = 0; abort < 2; abort++) {
		pair_init(&p, NULL);
		pair_listen(&p);
		assert_int_equal(rdmamsg_connect(p.c.ctx, test_addr(), p.port,
						 &p.c.opts, &p.c.ep), 0);
		assert_int_equal((abort ? rdmamsg_ep_abort_with :
				  rdmamsg_ep_close_with)(p.c.ep, 1, data, 3),
				 0);
		WAIT_FOR(p.c.closed);
		assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_ABORTED);
		assert_int_equal(p.c.why.who, RDMAMSG_WHO_LOCAL);
		check_word(&p.c, 0, 0);
		pair_fini(&p);
	}
}

/* ---- abort ------------------------------------------------------------ */

/* The wait for the last message has a bound in time, which does not pass. */
static void abort_now(uint32_t code, size_t len)
{
	clock_stop();
	assert_int_equal(rdmamsg_ep_abort_with(closer->ep, code,
					       len ? data : NULL, len), 0);
	WAIT_FOR(told->closed);
	clock_go();
	WAIT_FOR(closer->closed);
	assert_int_equal(closer->why.who, RDMAMSG_WHO_LOCAL);
	assert_int_equal(closer->why.cause, RDMAMSG_CAUSE_ABORTED);
	check_word(closer, 0, 0);
	assert_int_equal(told->why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(told->why.cause, RDMAMSG_CAUSE_ABORTED);
	assert_int_equal(told->why.error, -ECONNRESET);
	check_word(told, code, len);
	pair_fini(&p);
}

static void abort_with__each_length_IS_IN_THE_REASON(void **state)
{
	for (int server = 0; server < 2; server++)
		for (size_t len = 0; len <= RDMAMSG_HELLO_DATA_MAX; len++) {
			open_pair(server);
			abort_now(CODE + (uint32_t)len, len);
		}
}

static void abort_with__nothing_IS_AN_ABORT(void **state)
{
	open_pair(true);
	abort_now(0, 0);
}

static void abort_with__messages_on_their_way_ENDS_BOTH(void **state)
{
	open_pair(false);
	p.c.expect_nothing = p.s.expect_nothing = true;
	for (uint32_t n = 0; n < 8; n++) {
		(void)end_send(&p.c, n % HOW_COUNT, mixed_size(n), n);
		(void)end_send(&p.s, n % HOW_COUNT, mixed_size(n), n);
	}
	abort_now(CODE, 32);
}

static void abort_with__is_closing_THE_ABORT_COUNTS(void **state)
{
	open_pair(false);
	assert_int_equal(rdmamsg_ep_close_with(p.c.ep, 1, data, 3), 0);
	abort_now(2, 4);
}

static void abort_with__twice_ESHUTDOWN(void **state)
{
	open_pair(false);
	assert_int_equal(rdmamsg_ep_abort_with(p.c.ep, 1, data, 3), 0);
	assert_error(rdmamsg_ep_abort_with(p.c.ep, 2, data, 4), -ESHUTDOWN,
		     "ending");
	assert_error(rdmamsg_ep_close_with(p.c.ep, 2, data, 4), -ESHUTDOWN,
		     "closing");
	WAIT_FOR(p.c.closed && p.s.closed);
	pair_fini(&p);
}

/* The peer does not look for another lane, which would take long. */
static void abort_with__failover_ENDS_THE_SESSION(void **state)
{
	static const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
	};

	pair_init(&p, NULL);
	p.c.opts.failover = p.s.opts.failover = &failover;
	pair_listen(&p);
	pair_connect(&p);
	closer = &p.s;
	told = &p.c;
	abort_now(CODE, 7);
}

/* Without an answer the call has a bound in time. */
static void abort_with__peer_never_reads_ENDS(void **state)
{
	open_pair(false);
	assert_int_equal(rdmamsg_ep_abort_with(p.c.ep, CODE, data, 7), 0);
	UNTIL_BY(test_drive(p.c.ctx), p.c.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_ABORTED);
	WAIT_FOR(p.s.closed);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(close_with__each_length_IS_IN_THE_REASON),
		TEST(close_with__no_code_or_nothing_IS_IN_THE_REASON),
		TEST(close_with__headers_in_full_IS_IN_THE_REASON),
		TEST(close_with__both_EACH_HAS_THE_OTHERS),
		TEST(with__too_long_EINVAL),
		TEST(close_with__is_closing_ESHUTDOWN),
		TEST(with__not_connected_ENDS),
		TEST(abort_with__each_length_IS_IN_THE_REASON),
		TEST(abort_with__nothing_IS_AN_ABORT),
		TEST(abort_with__messages_on_their_way_ENDS_BOTH),
		TEST(abort_with__is_closing_THE_ABORT_COUNTS),
		TEST(abort_with__twice_ESHUTDOWN),
		TEST(abort_with__failover_ENDS_THE_SESSION),
		TEST(abort_with__peer_never_reads_ENDS),
	};

	return test_main(tests, NULL, argc, argv);
}
