/* SPDX-License-Identifier: BSD-2-Clause */
/* The graceful end of a context: what is delivered, refused and counted. */
#include "clock.h"
#include "common.h"
#include "request.h"
#include "thread.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/flow.h>
#include <rdmamsg/listener.h>

#define PEERS	3
#define MESSAGES 40
#define BACKLOG	200		/* more than the credits of a peer */

static struct rdmamsg *ctx;	/* that is shut down */
static struct rdmamsg_listener *listener;
static char port[8];
static struct end s[PEERS], c[PEERS];	/* endpoints of ctx, and their peers */
static int accepted;
static unsigned int told;
static uint32_t failed;

static void on_shutdown(struct rdmamsg *of, uint32_t count)
{
	if (of != ctx)
		note("on_shutdown of another context");
	told++;
	failed = count;
}

static const struct rdmamsg_options options = {
	.size = sizeof(options), .on_shutdown = on_shutdown,
};

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct end *e = &s[accepted++];

	if (rdmamsg_accept(req, &e->opts, &e->ep))
		note("rdmamsg_accept: %s", rdmamsg_error());
}

static void open_ctx(void)
{
	accepted = 0;
	told = failed = 0;
	ctx = test_open(&options);
}

static void listen_with(void (*fn)(struct rdmamsg_listener *l,
				   struct rdmamsg_request *req))
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .on_request = fn,
	};

	if (rdmamsg_listen(ctx, test_addr(), "0", &opts, &listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(listener, port);
}

/* Connects so many peers, each in a context of its own. */
static void open_peers(int n)
{
	open_ctx();
	listen_with(on_request);
	for (int i = 0; i < n; i++) {
		end_init(&s[i], "server", ctx);
		end_init(&c[i], "client", test_open(NULL));
		s[i].opts.send_queue = BACKLOG;
		s[i].opts.close_timeout_ms = WAIT_MS;
		s[i].peer = &c[i];
		c[i].peer = &s[i];
		dial(&c[i], test_addr(), port, WAIT_MS);
		WAIT_FOR((s[i].connected && c[i].connected) || c[i].closed);
		if (c[i].closed)
			fail_msg("not connected: %s", c[i].why.text);
	}
}

static void close_peers(int n)
{
	if (ctx)
		test_close(ctx);
	ctx = NULL;
	for (int i = 0; i < n; i++)
		test_close(c[i].ctx);
	check_notes();
	for (int i = 0; i < n; i++) {
		end_fini(&c[i]);
		end_fini(&s[i]);
	}
}

/* All of them has arrived at the other side, and the cause is a close. */
static void check_end(const struct end *e, enum rdmamsg_who who)
{
	assert_int_equal(e->closed, 1);
	if (e->why.cause != RDMAMSG_CAUSE_CLOSED || e->why.who != who)
		fail_msg("%s: by %d, cause %d: %s", e->name, e->why.who,
			 e->why.cause, e->why.text);
	assert_int_equal(e->received, e->expected_count);
	assert_int_equal(e->sent_failed, 0);
	end_check_cookies(e);
}

static void send_both_ways(int n)
{
	for (uint32_t k = 0; k < MESSAGES; k++)
		for (int i = 0; i < n; i++) {
			end_send_all(&s[i], HOW_MSG, mixed_size(k), 2 * k);
			end_send_all(&c[i], HOW_SENDV, mixed_size(k + 1),
				     2 * k + 1);
		}
}

/* Accepted messages that the paused peer does not take. */
static void send_to_paused(int i)
{
	assert_int_equal(rdmamsg_ep_pause(c[i].ep), 0);
	s[i].expect_nothing = c[i].expect_nothing = true;
	for (uint32_t k = 0; k < BACKLOG; k++)
		assert_int_equal(end_send(&s[i], HOW_SEND, 100, k), 0);
}

static void begin(int timeout_ms)
{
	if (rdmamsg_shutdown(ctx, timeout_ms))
		fail_msg("rdmamsg_shutdown: %s", rdmamsg_error());
	assert_int_equal(told, 0);
}

/* ---- all ends well ----------------------------------------------------- */

static void shutdown__of_nothing_IS_TOLD_BY_THE_LOOP(void **state)
{
	open_ctx();
	begin(WAIT_MS);
	WAIT_FOR(told);
	assert_int_equal(failed, 0);
	test_close(ctx);
	assert_int_equal(told, 1);
}

static void shutdown__messages_both_ways_ARE_DELIVERED(void **state)
{
	open_peers(PEERS);
	send_both_ways(PEERS);
	begin(-1);
	WAIT_FOR(told);
	assert_int_equal(failed, 0);
	for (int i = 0; i < PEERS; i++) {
		WAIT_FOR(c[i].closed);
		check_end(&s[i], RDMAMSG_WHO_LOCAL);
		check_end(&c[i], RDMAMSG_WHO_PEER);
	}
	close_peers(PEERS);
	assert_int_equal(told, 1);
}

static void shutdown__twice_IS_HARMLESS(void **state)
{
	open_peers(1);
	send_both_ways(1);
	begin(WAIT_MS);
	begin(WAIT_MS);
	WAIT_FOR(told && c[0].closed);
	check_end(&s[0], RDMAMSG_WHO_LOCAL);
	/* after the end, too */
	assert_int_equal(rdmamsg_shutdown(ctx, 0), 0);
	assert_int_equal(rdmamsg_shutdown_wait(ctx, 0), 0);
	for (int i = 0; i < 10; i++)
		test_drive(ctx);
	assert_int_equal(told, 1);
	close_peers(1);
}

/* ---- what does not end well -------------------------------------------- */

static void shutdown__a_peer_that_takes_nothing_IS_COUNTED(void **state)
{
	open_peers(PEERS);
	send_to_paused(1);
	begin(5000);
	WAIT_FOR(s[0].closed && s[2].closed);
	assert_int_equal(told, 0);
	WAIT_PASSING(told);
	assert_int_equal(failed, 1);
	check_end(&s[0], RDMAMSG_WHO_LOCAL);
	check_end(&s[2], RDMAMSG_WHO_LOCAL);
	assert_int_equal(s[1].why.who, RDMAMSG_WHO_LOCAL);
	assert_int_equal(s[1].why.cause, RDMAMSG_CAUSE_TIMEOUT);
	assert_non_null(strstr(s[1].why.text, "rdmamsg_shutdown"));
	end_check_cookies(&s[1]);
	close_peers(PEERS);
}

static void shutdown__again_with_0_ENDS_IT_NOW(void **state)
{
	open_peers(1);
	send_to_paused(0);
	begin(-1);
	test_drive(ctx);
	assert_int_equal(told, 0);
	begin(0);
	WAIT_FOR(told);
	assert_int_equal(failed, 1);
	assert_int_equal(rdmamsg_shutdown_wait(ctx, 0), 1);
	close_peers(1);
}

static void shutdown__and_close_before_the_end_ABORTS(void **state)
{
	open_peers(1);
	send_to_paused(0);
	begin(-1);
	test_close(ctx);
	ctx = NULL;
	assert_int_equal(told, 0);
	assert_int_equal(s[0].why.cause, RDMAMSG_CAUSE_ABORTED);
	close_peers(1);
}

/* ---- what does not begin any more -------------------------------------- */

static void shutdown__peer_that_connects_IS_REFUSED(void **state)
{
	struct rdmamsg_listener_counters stats = { .size = sizeof(stats) };
	struct end late;

	open_peers(1);
	send_to_paused(0);
	begin(-1);
	end_init(&late, "late", test_open(NULL));
	dial(&late, test_addr(), port, WAIT_MS);
	expect_end(&late, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_RESOURCES, -ENOBUFS);
	assert_non_null(strstr(late.why.text, "draining"));
	assert_int_equal(told, 0);
	assert_int_equal(rdmamsg_listener_stats(listener, &stats), 0);
	assert_int_equal(stats.rejected_draining, 1);
	end_fini(&late);
	close_peers(1);
}

static void shutdown__unanswered_requests_ARE_REFUSED(void **state)
{
	open_ctx();
	listen_with(put_off);
	waiting_count = 0;
	for (int i = 0; i < 2; i++) {
		end_init(&c[i], "client", test_open(NULL));
		dial(&c[i], test_addr(), port, WAIT_MS);
		WAIT_FOR(waiting_count == i + 1);
	}
	begin(-1);
	for (int i = 0; i < 2; i++)
		expect_end(&c[i], RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_RESOURCES,
			   -ENOBUFS);
	/* the program still has them */
	assert_error(rdmamsg_accept(waiting[0], NULL, NULL), -ESHUTDOWN,
		     "shut down");
	assert_int_equal(rdmamsg_reject(waiting[1], NULL, 0), 0);
	WAIT_FOR(told);
	assert_int_equal(failed, 0);
	test_close(ctx);
	for (int i = 0; i < 2; i++)
		end_fini(&c[i]);
}

/* Another program, which follows the one that ends, on the same port. */
static void successor(struct end *e)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .on_request = on_request,
	};
	int ret;

	end_init(e, "successor", test_open(NULL));
	/* a device of the kernel may keep the port for a moment */
	UNTIL_BY(test_pump(10), (ret = rdmamsg_listen(e->ctx, test_addr(), port,
						      &opts, NULL)) !=
				-EADDRINUSE);
	assert_int_equal(ret, 0);
}

static void shutdown__a_peer_that_retries_FINDS_THE_SUCCESSOR(void **state)
{
	struct rdmamsg_listener_counters stats = { .size = sizeof(stats) };
	struct end late;

	open_peers(1);
	send_to_paused(0);
	begin(-1);
	end_init(&late, "late", test_open(NULL));
	late.opts.flags = RDMAMSG_EP_RETRY;
	dial(&late, test_addr(), port, WAIT_MS);
	WAIT_FOR(!rdmamsg_listener_stats(listener, &stats) &&
		 stats.rejected_draining >= 2);
	assert_int_equal(late.closed, 0);
	test_close(ctx);
	ctx = NULL;
	successor(&s[1]);
	WAIT_FOR(late.connected && s[1].connected);
	rdmamsg_ep_close(late.ep);
	WAIT_FOR(late.closed && s[1].closed);
	check_end(&late, RDMAMSG_WHO_LOCAL);
	end_fini(&late);
	end_fini(&s[1]);
	close_peers(1);
}

static void shutdown__a_peer_that_retries_in_vain_TELLS_WHY(void **state)
{
	struct end late;

	open_peers(1);
	send_to_paused(0);
	begin(-1);
	end_init(&late, "late", test_open(NULL));
	late.opts.flags = RDMAMSG_EP_RETRY;
	dial(&late, test_addr(), port, 3000);
	WAIT_PASSING(late.closed);
	expect_end(&late, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_RESOURCES, -ENOBUFS);
	assert_non_null(strstr(late.why.text, "tries"));
	assert_non_null(strstr(late.why.text, "draining"));
	end_fini(&late);
	close_peers(1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(shutdown__of_nothing_IS_TOLD_BY_THE_LOOP),
		TEST(shutdown__messages_both_ways_ARE_DELIVERED),
		TEST(shutdown__twice_IS_HARMLESS),
		TEST(shutdown__a_peer_that_takes_nothing_IS_COUNTED),
		TEST(shutdown__again_with_0_ENDS_IT_NOW),
		TEST(shutdown__and_close_before_the_end_ABORTS),
		TEST(shutdown__peer_that_connects_IS_REFUSED),
		TEST(shutdown__unanswered_requests_ARE_REFUSED),
		TEST(shutdown__a_peer_that_retries_FINDS_THE_SUCCESSOR),
		TEST(shutdown__a_peer_that_retries_in_vain_TELLS_WHY),
	};

	return test_main(tests, NULL, argc, argv);
}
