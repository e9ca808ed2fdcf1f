/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the limits of a listener: the reject that the peer gets, the
 * statistics, and the initiator's retries.
 */
#include "clock.h"
#include "common.h"
#include "oob_pair.h"
#include "request.h"

#include <rdmamsg/listener.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rma.h>

#define SLOW_MS	5000	/* longer than this machine needs for a request */

static struct pair p;
static bool out_of_band;

static void listen_with(struct rdmamsg_listen_options *o)
{
	int ret;

	pair_init(&p, NULL);
	o->size = sizeof(*o);
	o->user = &p;
	ret = out_of_band ?
	      rdmamsg_oob_listen(p.s.ctx, test_addr(), "0", o, &p.listener) :
	      rdmamsg_listen(p.s.ctx, test_addr(), "0", o, &p.listener);
	if (ret)
		fail_msg("listen: %s", rdmamsg_error());
	listener_service(p.listener, p.port);
}

static void dial_end(struct end *e, uint32_t timeout_ms)
{
	int ret;

	e->opts.timeout_ms = timeout_ms;
	e->opts.device = out_of_band ? test_device() : NULL;
	ret = out_of_band ?
	      rdmamsg_oob_connect(e->ctx, test_addr(), p.port, &e->opts,
				  &e->ep) :
	      rdmamsg_connect(e->ctx, test_addr(), p.port, &e->opts, &e->ep);
	if (ret)
		fail_msg("connect: %s", rdmamsg_error());
}

static struct rdmamsg_listener_stats stats(void)
{
	struct rdmamsg_listener_stats s = { .size = sizeof(s) };

	assert_int_equal(rdmamsg_listener_get_stats(p.listener, &s), 0);
	return s;
}

static void expect_limit(struct end *e, const char *name)
{
	expect_end(e, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_RESOURCES, -ENOBUFS);
	if (!strstr(e->why.text, name))
		fail_msg("not %s: %s", name, e->why.text);
}

static void second_end(struct end *e)
{
	end_init(e, "second", test_open(NULL));
}

/* ---- lasting limits --------------------------------------------------- */

static void max_endpoints(void)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = pair_on_request,
	};
	struct rdmamsg_listen_options o = {
		.handlers = &on, .max_endpoints = 1,
		.max_per_source = RDMAMSG_NONE,
	};
	struct end second;

	listen_with(&o);
	dial_end(&p.c, WAIT_MS);
	WAIT_FOR(p.c.connected && p.s.connected);
	assert_int_equal(stats().endpoints, 1);
	assert_int_equal(stats().accepted, 1);
	second_end(&second);
	dial_end(&second, WAIT_MS);
	expect_limit(&second, "max_endpoints");
	assert_int_equal(stats().rejected_endpoints, 1);
	pair_close(&p);
	assert_int_equal(stats().endpoints, 0);
	test_close(second.ctx);
	end_fini(&second);
	pair_fini(&p);
}

static void connect__max_endpoints_IS_TOLD(void **state)
{
	out_of_band = false;
	max_endpoints();
}

static void oob_connect__max_endpoints_IS_TOLD(void **state)
{
	skip_on_iwarp(NO_OOB);
	out_of_band = true;
	max_endpoints();
}

static void max_per_source(void)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = pair_on_request,
	};
	struct rdmamsg_listen_options o = {
		.handlers = &on, .max_per_source = 1,
	};
	struct end second;

	listen_with(&o);
	dial_end(&p.c, WAIT_MS);
	WAIT_FOR(p.c.connected && p.s.connected);
	second_end(&second);
	dial_end(&second, WAIT_MS);
	expect_limit(&second, "max_per_source");
	assert_int_equal(stats().rejected_source, 1);
	pair_close(&p);
	test_close(second.ctx);
	end_fini(&second);
	pair_fini(&p);
}

static void connect__max_per_source_IS_TOLD(void **state)
{
	out_of_band = false;
	max_per_source();
}

static void oob_connect__max_per_source_IS_TOLD(void **state)
{
	skip_on_iwarp(NO_OOB);
	out_of_band = true;
	max_per_source();
}

/* ---- passing limits --------------------------------------------------- */

/* The initiator retries until the program has answered the earlier request. */
static void max_requests(void)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = put_off,
	};
	struct rdmamsg_listen_options o = {
		.handlers = &on, .max_requests = 1,
	};
	struct end second;

	waiting_count = 0;
	listen_with(&o);
	dial_end(&p.c, WAIT_MS);
	WAIT_FOR(waiting_count == 1);
	assert_int_equal(stats().requests, 1);
	second_end(&second);
	dial_end(&second, WAIT_MS);
	WAIT_FOR(stats().rejected_requests >= 2);
	assert_int_equal(second.closed, 0);
	assert_int_equal(rdmamsg_request_reject(waiting[0], NULL, 0), 0);
	WAIT_FOR(waiting_count == 2);
	WAIT_FOR(p.c.closed);
	assert_int_equal(rdmamsg_request_reject(waiting[1], NULL, 0), 0);
	WAIT_FOR(second.closed);
	assert_int_equal(second.why.cause, RDMAMSG_CAUSE_REJECTED);
	test_close(second.ctx);
	end_fini(&second);
	pair_fini(&p);
}

static void connect__max_requests_TRIES_AGAIN(void **state)
{
	out_of_band = false;
	max_requests();
}

static void oob_connect__max_requests_TRIES_AGAIN(void **state)
{
	skip_on_iwarp(NO_OOB);
	out_of_band = true;
	max_requests();
}

static void connect__max_requests_too_long_IS_TOLD(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = put_off,
	};
	struct rdmamsg_listen_options o = {
		.handlers = &on, .max_requests = 1,
	};
	struct end second;

	out_of_band = false;
	waiting_count = 0;
	listen_with(&o);
	dial_end(&p.c, WAIT_MS);
	WAIT_FOR(waiting_count == 1);
	second_end(&second);
	dial_end(&second, WAIT_MS);
	/* with its second request it has the answer to the first */
	WAIT_FOR(stats().rejected_requests >= 2);
	clock_pass(WAIT_MS);
	expect_limit(&second, "max_requests");
	assert_int_equal(rdmamsg_request_reject(waiting[0], NULL, 0), 0);
	WAIT_FOR(p.c.closed);
	test_close(second.ctx);
	end_fini(&second);
	pair_fini(&p);
}

/* ---- wrong keys ------------------------------------------------------- */

/*
 * Writes beyond the end of a region, with a key that is changed where
 * rdmamsg-proto(7) has the length. siw raises no event for a key that is revoked
 * (Linux 6.1, siw_qp_rx.c, siw_proc_write()).
 */
static void offend(void)
{
	static uint8_t there[64], here[64];
	const uint64_t len = htole64(4096);
	const struct rdmamsg_sge src = { .data = here, .len = sizeof(here) };
	struct rdmamsg_region *region;
	struct rdmamsg_key theirs, key;

	assert_int_equal(rdmamsg_region_create(p.s.ctx, there, sizeof(there),
					       RDMAMSG_ACCESS_WRITE, &region),
			 0);
	assert_int_equal(rdmamsg_region_get_key(region, p.s.ep, &theirs), 0);
	memcpy(theirs.bytes + 24, &len, sizeof(len));
	assert_int_equal(rdmamsg_key_import(&theirs, sizeof(theirs), &key), 0);
	assert_int_equal(rdmamsg_write(p.c.ep, &src, 1, &key, sizeof(there),
				       0, end_cookie(&p.c)),
			 0);
	WAIT_FOR(p.s.closed && p.c.closed);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_ACCESS);
	assert_int_equal(rdmamsg_region_destroy(region), 0);
}

static struct end late;		/* the server's end for the second client */

static void first_then_late(struct rdmamsg_listener *l,
			    struct rdmamsg_request *req)
{
	if (!p.s.closed)
		pair_on_request(l, req);
	else if (rdmamsg_request_accept(req, &late.opts, &late.ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
}

static void wrong_key(void)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = first_then_late,
	};
	struct rdmamsg_listen_options o = {
		.handlers = &on, .slow_ms = SLOW_MS,
	};
	struct end second;

	listen_with(&o);
	dial_end(&p.c, WAIT_MS);
	WAIT_FOR(p.c.connected && p.s.connected);
	offend();
	assert_int_equal(stats().offences, 1);
	second_end(&second);
	end_init(&late, "late", p.s.ctx);
	dial_end(&second, WAIT_MS);
	WAIT_FOR(stats().slowed);
	assert_int_equal(second.connected, 0);
	clock_pass(SLOW_MS);
	/* the pause ends, and the initiator has not given up */
	WAIT_FOR(second.connected && late.connected);
	rdmamsg_ep_close(second.ep);
	WAIT_FOR(second.closed && late.closed);
	test_close(second.ctx);
	end_fini(&second);
	end_fini(&late);
	pair_fini(&p);
}

static void connect__after_a_wrong_key_IS_SLOWED(void **state)
{
	out_of_band = false;
	wrong_key();
}

static void oob_connect__after_a_wrong_key_IS_SLOWED(void **state)
{
	skip_on_iwarp(NO_OOB);
	out_of_band = true;
	wrong_key();
}

/* ---- arguments -------------------------------------------------------- */

static void stats__arguments_ARE_CHECKED(void **state)
{
	struct rdmamsg_listener_stats s = { .size = sizeof(s) };
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = pair_on_request,
	};
	struct rdmamsg_listen_options o = { .handlers = &on };

	out_of_band = false;
	assert_error(rdmamsg_listener_get_stats(NULL, &s), -EINVAL, "NULL");
	listen_with(&o);
	assert_int_equal(rdmamsg_listener_get_stats(p.listener, NULL), -EINVAL);
	assert_int_equal(stats().accepted, 0);
	o.slow_ms = 10001;
	assert_error(rdmamsg_listen(p.s.ctx, test_addr(), "0", &o, NULL),
		     -EINVAL, "slow_ms");
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		TEST(connect__max_endpoints_IS_TOLD),
		TEST(oob_connect__max_endpoints_IS_TOLD),
		TEST(connect__max_per_source_IS_TOLD),
		TEST(oob_connect__max_per_source_IS_TOLD),
		TEST(connect__max_requests_TRIES_AGAIN),
		TEST(oob_connect__max_requests_TRIES_AGAIN),
		TEST(connect__max_requests_too_long_IS_TOLD),
		TEST(connect__after_a_wrong_key_IS_SLOWED),
		TEST(oob_connect__after_a_wrong_key_IS_SLOWED),
		TEST(stats__arguments_ARE_CHECKED),
	};

	return test_main(tests, NULL, argc, argv);
}
