/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a peer was accepted when the listener's context is shut down, so
 * that its SETUP is refused. With RDMAMSG_EP_RETRY it dials again and finds the
 * successor on the same port, and the program sees one endpoint that connects.
 */
#include "clock.h"
#include "common.h"
#include "oob_pair.h"
#include "request.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/oob.h>

#define ROUNDS	16		/* from the SETUP to the back-off */

static const char key[] = "the key of both sides";
static struct pair p;
static bool out_of_band, with_key;

static struct rdmamsg *open_ctx(void)
{
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .key = with_key ? key : NULL,
		.key_len = with_key ? strlen(key) : 0,
	};

	return test_open(&opts);
}

static int listen_at(const char *service, const struct rdmamsg_listen_options *o)
{
	return out_of_band ?
	       rdmamsg_oob_listen(p.s.ctx, test_addr(), service, o,
				  &p.listener) :
	       rdmamsg_listen(p.s.ctx, test_addr(), service, o, &p.listener);
}

/* The client is accepted. After some rounds it is connected. */
static void accept_client(uint32_t timeout_ms)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = put_off,
	};
	const struct rdmamsg_listen_options o = {
		.size = sizeof(o), .handlers = &on,
	};

	pair_init(&p, NULL);
	test_close(p.c.ctx);
	test_close(p.s.ctx);
	p.c.ctx = open_ctx();
	p.s.ctx = open_ctx();
	if (out_of_band)
		p.c.opts.device = p.s.opts.device = test_device();
	waiting_count = 0;
	assert_int_equal(listen_at("0", &o), 0);
	listener_service(p.listener, p.port);
	p.c.opts.flags = RDMAMSG_EP_RETRY;
	p.c.opts.timeout_ms = timeout_ms;
	assert_int_equal(out_of_band ?
			 rdmamsg_oob_connect(p.c.ctx, test_addr(), p.port,
					     &p.c.opts, &p.c.ep) :
			 rdmamsg_connect(p.c.ctx, test_addr(), p.port,
					 &p.c.opts, &p.c.ep), 0);
	WAIT_FOR(waiting_count);
	assert_int_equal(rdmamsg_request_accept(waiting[0], &p.s.opts, &p.s.ep),
			 0);
}

static void shut_down(void)
{
	assert_int_equal(rdmamsg_shutdown(p.s.ctx, WAIT_MS), 0);
}

/* Another program, on the same port. */
static void succeed(void)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = pair_on_request,
	};
	const struct rdmamsg_listen_options o = {
		.size = sizeof(o), .user = &p, .handlers = &on,
	};
	int ret;

	test_close(p.s.ctx);
	end_fini(&p.s);
	end_init(&p.s, "successor", open_ctx());
	p.s.peer = &p.c;
	if (out_of_band)
		p.s.opts.device = test_device();
	/* a device of the kernel may keep the port for a moment */
	UNTIL_BY(test_pump(10), (ret = listen_at(p.port, &o)) != -EADDRINUSE);
	assert_int_equal(ret, 0);
}

static void find_successor(void)
{
	accept_client(WAIT_MS);
	shut_down();
	WAIT_FOR(p.s.closed || p.c.closed);
	assert_int_equal(p.c.closed, 0);
	assert_int_equal(rdmamsg_ep_state(p.c.ep), RDMAMSG_CONNECTING);
	succeed();
	WAIT_FOR((p.s.connected && p.c.connected) || p.c.closed);
	if (p.c.closed)
		fail_msg("%s", p.c.why.text);
	oob_talk(&p);
	pair_close(&p);
	assert_int_equal(p.c.connected, 1);
	pair_fini(&p);
}

static void successor__of_a_context_that_had_accepted_IS_FOUND(void **state)
{
	find_successor();
}

static void successor__with_a_key_IS_FOUND(void **state)
{
	with_key = true;
	find_successor();
	with_key = false;
}

static void successor__out_of_band_IS_FOUND(void **state)
{
	if (test_iwarp())
		skip_because(NO_OOB);
	out_of_band = true;
	find_successor();
	out_of_band = false;
}

static void successor__that_never_comes_ENDS_WITH_THE_REASON(void **state)
{
	accept_client(2000);
	shut_down();
	WAIT_PASSING(p.c.closed);
	assert_int_equal(p.c.connected, 0);
	assert_non_null(strstr(p.c.why.text, "tries"));
	assert_true(p.c.why.error);
	pair_fini(&p);
}

/* In the states from the refusal to the back-off. */
static void peer__that_gives_up_ENDS(void **state)
{
	for (int rounds = 0; rounds < ROUNDS; rounds++) {
		accept_client(WAIT_MS);
		shut_down();
		for (int i = 0; i < rounds; i++)
			rdmamsg_process(i & 1 ? p.s.ctx : p.c.ctx);
		assert_int_equal(rdmamsg_ep_state(p.c.ep), RDMAMSG_CONNECTING);
		if (rounds & 2)
			rdmamsg_ep_abort(p.c.ep);
		else
			rdmamsg_ep_close(p.c.ep);
		expect_end(&p.c, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ABORTED,
			   -ECANCELED);
		pair_fini(&p);
	}
}

/* rdmamsg_close() of the peer's context, in the same states. */
static void peer__whose_context_is_closed_ENDS(void **state)
{
	for (int rounds = 0; rounds < ROUNDS; rounds++) {
		accept_client(WAIT_MS);
		shut_down();
		for (int i = 0; i < rounds; i++)
			rdmamsg_process(i & 1 ? p.s.ctx : p.c.ctx);
		test_close(p.c.ctx);
		assert_int_equal(p.c.closed, 1);
		p.c.ctx = test_open(NULL);
		pair_fini(&p);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(successor__of_a_context_that_had_accepted_IS_FOUND),
		TEST(successor__with_a_key_IS_FOUND),
		TEST(successor__out_of_band_IS_FOUND),
		TEST(successor__that_never_comes_ENDS_WITH_THE_REASON),
		TEST(peer__that_gives_up_ENDS),
		TEST(peer__whose_context_is_closed_ENDS),
	};

	return test_main(tests, NULL, argc, argv);
}
