/* SPDX-License-Identifier: BSD-2-Clause */
/* Accepting and rejecting: at once, later, never. */
#include "common.h"
#include "request.h"

#include <rdmamsg/oob.h>

static struct pair p;

static const char reject_data[RDMAMSG_HELLO_DATA_MAX + 1] =
	"no more than thirty-two of these";

static void say_no(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	size_t *len = rdmamsg_listener_user(l);

	if (rdmamsg_request_reject(req, *len ? reject_data : NULL, *len))
		note("rdmamsg_request_reject: %s", rdmamsg_error());
}

static void reject__with_data_IS_IN_THE_REASON(void **state)
{
	static const size_t lens[] = { 0, 1, RDMAMSG_HELLO_DATA_MAX };

	for (size_t n = 0; n < ARRAY_SIZE(lens); n++) {
		static const struct rdmamsg_listener_handlers on = {
			.size = sizeof(on), .on_request = say_no,
		};
		struct rdmamsg_listen_options opts = {
			.size = sizeof(opts),
			.user = (void *)(uintptr_t)&lens[n], .handlers = &on,
		};

		pair_init(&p, NULL);
		if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts,
				   &p.listener))
			fail_msg("rdmamsg_listen: %s", rdmamsg_error());
		dial(&p.c, test_addr(), listener_service(p.listener, p.port),
		     WAIT_MS);
		expect_end(&p.c, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REJECTED,
			   -ECONNABORTED);
		assert_int_equal(p.c.why.data_len, lens[n]);
		assert_memory_equal(p.c.why_data, reject_data, lens[n]);
		assert_true(p.c.why.cm_event >= 0);
		pair_fini(&p);
	}
}

static void reject_too_much(struct rdmamsg_listener *l,
			    struct rdmamsg_request *req)
{
	texts_are_fine = true;
	if (rdmamsg_request_reject(req, reject_data,
				   RDMAMSG_HELLO_DATA_MAX + 1) !=
	    -EINVAL)
		note("33 bytes with a reject");
}

static void reject__too_long_EINVAL_BUT_REJECTED(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = reject_too_much,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};

	pair_init(&p, NULL);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	dial(&p.c, test_addr(), listener_service(p.listener, p.port), WAIT_MS);
	expect_end(&p.c, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REJECTED,
		   -ECONNABORTED);
	assert_int_equal(p.c.why.data_len, 0);
	pair_fini(&p);
}

static void accept__later_CONNECTS(void **state)
{
	listen_put_off(&p);
	dial(&p.c, test_addr(), p.port, WAIT_MS);
	WAIT_FOR(waiting_count);
	for (int i = 0; i < 5; i++)
		test_pump(100);
	/* a waiting request outlives its listener */
	rdmamsg_listener_close(p.listener);
	assert_int_equal(rdmamsg_request_accept(waiting[0], &p.s.opts, &p.s.ep),
			 0);
	pair_exchange(&p);
	pair_fini(&p);
}

static void reject__later_REJECTS(void **state)
{
	listen_put_off(&p);
	dial(&p.c, test_addr(), p.port, WAIT_MS);
	WAIT_FOR(waiting_count);
	for (int i = 0; i < 5; i++)
		test_pump(100);
	assert_int_equal(rdmamsg_request_reject(waiting[0], "x", 1), 0);
	expect_end(&p.c, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REJECTED, 0);
	pair_fini(&p);
}

static void accept__bad_options_REJECTS(void **state)
{
	listen_put_off(&p);
	dial(&p.c, test_addr(), p.port, WAIT_MS);
	WAIT_FOR(waiting_count);
	p.s.tuning.recv_depth = 1 << 20;
	assert_error(rdmamsg_request_accept(waiting[0], &p.s.opts, &p.s.ep),
		     -EINVAL,
		     "recv_depth");
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(p.s.closed, 0);
	pair_fini(&p);
}

static struct rdmamsg_reason failed_why;
static int failed_count;
static bool close_when_failed;

static void on_accept_failed(struct rdmamsg_listener *l,
			     const struct rdmamsg_reason *why)
{
	if (rdmamsg_listener_user(l) != &p)
		note("another listener");
	failed_why = *why;
	failed_count++;
	if (close_when_failed)
		rdmamsg_listener_close(l);
}

static void accept__by_the_listener_fails_IS_TOLD(void **state)
{
	static int (*const listens[])(struct rdmamsg *ctx, const char *host,
				      const char *service,
				      const struct rdmamsg_listen_options *opts,
				      struct rdmamsg_listener **ret) = {
		rdmamsg_listen, rdmamsg_oob_listen,
	};
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_accept_failed = on_accept_failed,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = &p, .handlers = &on,
	};

	for (int oob = 0; oob < (test_iwarp() ? 1 : 2); oob++) {
		pair_init(&p, NULL);
		p.c.opts.device = test_device();
		/* 60000 is in range, and more vectors than any device has */
		p.s.tuning.comp_vector = 60000;
		opts.ep = &p.s.opts;
		assert_int_equal(listens[oob](p.s.ctx, test_addr(), "0", &opts,
					      &p.listener), 0);
		listener_service(p.listener, p.port);
		failed_count = 0;
		for (int n = 0; n < 2; n++) {
			close_when_failed = n;
			p.c.closed = 0;
			assert_int_equal((oob ? rdmamsg_oob_connect :
					  rdmamsg_connect)
					 (p.c.ctx, test_addr(), p.port,
					  &p.c.opts, &p.c.ep), 0);
			expect_end(&p.c, RDMAMSG_WHO_PEER,
				   RDMAMSG_CAUSE_RESOURCES, -ENOBUFS);
			assert_int_equal(failed_count, n + 1);
			assert_int_equal(failed_why.who, RDMAMSG_WHO_LOCAL);
			assert_int_equal(failed_why.cause,
					 RDMAMSG_CAUSE_RESOURCES);
			assert_int_equal(failed_why.error, -EINVAL);
			assert_non_null(strstr(failed_why.text,
					       "comp_vector"));
		}
		assert_int_equal(p.s.closed, 0);
		pair_fini(&p);
	}
}

static void accept__peer_has_gone_ECONNRESET(void **state)
{
	struct rdmamsg_ep *ep;
	uint64_t end = now_ms() + WAIT_MS;
	int ret;

	listen_put_off(&p);
	dial(&p.c, test_addr(), p.port, WAIT_MS);
	WAIT_FOR(waiting_count);
	rdmamsg_ep_abort(p.c.ep);
	WAIT_FOR(p.c.closed);
	for (int i = 0; i < 5; i++)
		test_pump(100);
	ret = rdmamsg_request_accept(waiting[0], &p.s.opts, &ep);
	if (ret) {
		assert_int_equal(ret, -ECONNRESET);
	} else {
		/*
		 * the abort may arrive after the accept, and ends the endpoint
		 * then
		 */
		while (!p.s.closed && now_ms() < end)
			test_pump(100);
		assert_int_equal(p.s.closed, 1);
	}
	pair_fini(&p);
}

static void close__with_requests_waiting_REJECTS_THEM(void **state)
{
	listen_put_off(&p);
	dial(&p.c, test_addr(), p.port, WAIT_MS);
	WAIT_FOR(waiting_count);
	test_close(p.s.ctx);
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
	test_close(p.c.ctx);
	check_notes();
}

static void listener_close__with_requests_queued_REJECTS_THEM(void **state)
{
	struct rdmamsg_listen_options opts = { .size = sizeof(opts) };

	pair_init(&p, NULL);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	dial(&p.c, test_addr(), listener_service(p.listener, p.port), WAIT_MS);
	/* loop until the request has arrived */
	while (!rdmamsg_process(p.s.ctx))
		rdmamsg_process(p.c.ctx);
	rdmamsg_listener_close(p.listener);
	expect_end(&p.c, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REJECTED, 0);
	pair_fini(&p);
}

static void close_listener_and_accept(struct rdmamsg_listener *l,
				      struct rdmamsg_request *req)
{
	rdmamsg_listener_close(l);
	if (rdmamsg_request_accept(req, &p.s.opts, &p.s.ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
}

static void listener_close__in_on_request_IS_FINE(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = close_listener_and_accept,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};

	pair_init(&p, NULL);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	dial(&p.c, test_addr(), listener_service(p.listener, p.port), WAIT_MS);
	pair_exchange(&p);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(reject__with_data_IS_IN_THE_REASON),
		TEST(reject__too_long_EINVAL_BUT_REJECTED),
		TEST(accept__later_CONNECTS),
		TEST(reject__later_REJECTS),
		TEST(accept__bad_options_REJECTS),
		TEST(accept__by_the_listener_fails_IS_TOLD),
		TEST(accept__peer_has_gone_ECONNRESET),
		TEST(close__with_requests_waiting_REJECTS_THEM),
		TEST(listener_close__with_requests_queued_REJECTS_THEM),
		TEST(listener_close__in_on_request_IS_FINE),
	};

	return test_main(tests, NULL, argc, argv);
}
