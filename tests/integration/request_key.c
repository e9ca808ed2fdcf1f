/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys that a server makes before it accepts: the peer has them at once. */
#include "common.h"
#include "harm.h"
#include "request.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rma.h>
#include <rdmamsg/verbs.h>

#define ROOM	((size_t)1 << 16)

#define ACCESS_ALL	(RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE | \
			 RDMAMSG_ACCESS_LOCAL_WRITE)

static struct pair p;
static uint8_t far[ROOM], near[ROOM];
static struct rdmamsg_region *here;	/* near, of the client */
static struct cookie *read_cookie;

static struct rdmamsg_region *region(struct rdmamsg *ctx, uint8_t *mem,
				     struct rdmamsg_pd *pd)
{
	struct rdmamsg_region *r;

	assert_int_equal(rdmamsg_region_create(ctx, mem, ROOM, ACCESS_ALL, &r),
			 0);
	assert_int_equal(rdmamsg_region_set_pd(r, pd), 0);
	return r;
}

static struct rdmamsg_pd *domain(struct rdmamsg *ctx)
{
	struct rdmamsg_pd *pd;

	assert_int_equal(rdmamsg_pd_create(ctx, NULL, &pd), 0);
	return pd;
}

static struct rdmamsg_key key_for(struct rdmamsg_request *req,
				  struct rdmamsg_region *r)
{
	struct rdmamsg_key key;

	if (rdmamsg_request_get_key(req, r, &key))
		fail_msg("rdmamsg_request_get_key: %s", rdmamsg_error());
	return key;
}

/* Reads all of the peer's memory by the key in its setup_data. */
static void read_at_once(struct end *e)
{
	struct rdmamsg_sge s = { near, ROOM, here };
	struct rdmamsg_key key;
	size_t len;
	const void *data = rdmamsg_ep_peer_data(e->ep, &len);

	read_cookie = end_cookie(e);
	e->sent++;
	if (rdmamsg_key_import(data, len, &key) ||
	    rdmamsg_region_register(here, e->ep) ||
	    rdmamsg_read(e->ep, &s, 1, &key, 0, 0, read_cookie))
		note("%s", rdmamsg_error());
}

/* A client that reads when it is connected has a request that waits. */
static void begin(void)
{
	listen_put_off(&p);
	memcpy(far, pattern(1), ROOM);
	memset(near, 0, ROOM);
	here = region(p.c.ctx, near, NULL);
	read_cookie = NULL;
	p.c.then_connected = read_at_once;
	dial(&p.c, test_addr(), p.port, WAIT_MS);
	WAIT_FOR(waiting_count);
}

static void accept_with(const struct rdmamsg_key *key)
{
	p.s.opts.setup_data = key;
	p.s.opts.setup_data_len = sizeof(*key);
	if (rdmamsg_request_accept(waiting[0], &p.s.opts, &p.s.ep))
		fail_msg("rdmamsg_request_accept: %s", rdmamsg_error());
}

static void expect_read(void)
{
	WAIT_FOR((read_cookie && read_cookie->count) || p.c.closed);
	if (p.c.closed)
		fail_msg("%s", p.c.why.text);
	assert_int_equal(read_cookie->status, 0);
	assert_memory_equal(near, pattern(1), ROOM);
}

static void end_pair(void)
{
	assert_int_equal(rdmamsg_region_destroy(here), 0);
	pair_close(&p);
	pair_fini(&p);
}

static void expect_rejected(void)
{
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.connected, 0);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
}

/* ---- the key serves ---------------------------------------------------- */

static void key__in_setup_data_READS_IN_on_connected(void **state)
{
	struct rdmamsg_key key, again, later;
	struct rdmamsg_region *r;

	begin();
	r = region(p.s.ctx, far, NULL);
	key = key_for(waiting[0], r);
	again = key_for(waiting[0], r);
	assert_memory_equal(&key, &again, sizeof(key));
	accept_with(&key);
	expect_read();
	assert_int_equal(rdmamsg_region_get_key(r, p.s.ep, &later), 0);
	assert_memory_equal(&key, &later, sizeof(key));
	assert_int_equal(end_stats(&p.c).msgs_received, 0);
	assert_int_equal(rdmamsg_region_destroy(r), 0);
	end_pair();
}

/* The client's key fits into its own setup_data: its domain has a device. */
static void key__of_a_domain_with_a_device_BEFORE_CONNECTING(void **state)
{
	const struct rdmamsg_pd_options po = {
		.size = sizeof(po), .device = test_device(),
	};
	struct rdmamsg_key key, later;
	struct rdmamsg_region *r;
	struct rdmamsg_pd *pd;

	pair_init(&p, NULL);
	pair_listen(&p);
	assert_int_equal(rdmamsg_pd_create(p.c.ctx, &po, &pd), 0);
	memcpy(far, pattern(1), ROOM);
	memset(near, 0, ROOM);
	r = region(p.c.ctx, far, pd);
	here = region(p.s.ctx, near, NULL);
	if (rdmamsg_region_get_key(r, NULL, &key))
		fail_msg("%s", rdmamsg_error());
	p.c.opts.pd = pd;
	p.c.opts.device = test_device();
	p.c.opts.setup_data = &key;
	p.c.opts.setup_data_len = sizeof(key);
	read_cookie = NULL;
	p.s.then_connected = read_at_once;
	pair_connect(&p);
	expect_read();
	assert_int_equal(rdmamsg_region_get_key(r, p.c.ep, &later), 0);
	assert_memory_equal(&key, &later, sizeof(key));
	assert_int_equal(rdmamsg_region_destroy(here), 0);
	pair_close(&p);
	assert_error(rdmamsg_pd_destroy(pd), -EBUSY, "regions");
	assert_int_equal(rdmamsg_region_destroy(r), 0);
	assert_int_equal(rdmamsg_pd_destroy(pd), 0);
	pair_fini(&p);
}

/* The domain keeps the device open, so that the key stays. */
static void key__of_a_domain_nobody_connects_STAYS(void **state)
{
	const struct rdmamsg_pd_options po = {
		.size = sizeof(po), .device = test_device(),
	};
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_key key, later;
	struct rdmamsg_pd *pd, *other;
	struct rdmamsg_region *r;

	assert_int_equal(rdmamsg_pd_create(ctx, &po, &pd), 0);
	assert_int_equal(rdmamsg_pd_create(ctx, NULL, &other), 0);
	r = region(ctx, far, pd);
	assert_int_equal(rdmamsg_region_get_key(r, NULL, &key), 0);
	test_pass(60000);
	assert_int_equal(rdmamsg_region_get_key(r, NULL, &later), 0);
	assert_memory_equal(&key, &later, sizeof(key));
	/* without a device there is no key */
	assert_int_equal(rdmamsg_region_revoke(r), 0);
	assert_int_equal(rdmamsg_region_set_pd(r, other), 0);
	assert_error(rdmamsg_region_get_key(r, NULL, &key), -EINVAL, "NULL");
	test_close(ctx);
}

static void domain__of_a_device_that_is_not_there_ENXIO(void **state)
{
	const struct rdmamsg_pd_options po = {
		.size = sizeof(po), .device = "nowhere0",
	};
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_pd *pd;

	assert_error(rdmamsg_pd_create(ctx, &po, &pd), test_unknown_device(),
		     "nowhere0");
	test_close(ctx);
}

/* The server accepts later than a device without an owner stays open. */
static void key__request_waits_long_SERVES(void **state)
{
	struct rdmamsg_key key;

	begin();
	key = key_for(waiting[0], region(p.s.ctx, far, NULL));
	for (int i = 0; i < 8; i++)
		test_pass(1000);
	accept_with(&key);
	expect_read();
	end_pair();
}

static void key__in_a_domain_SERVES_THERE(void **state)
{
	struct rdmamsg_region *r, *other;
	struct rdmamsg_key key;

	begin();
	p.s.opts.pd = domain(p.s.ctx);
	r = region(p.s.ctx, far, p.s.opts.pd);
	other = region(p.s.ctx, far, NULL);
	key = key_for(waiting[0], r);
	assert_error(rdmamsg_request_get_key(waiting[0], other, &key), -EPERM,
		     "domain");
	/* the domain has the request, too */
	assert_int_equal(rdmamsg_region_destroy(r), 0);
	assert_error(rdmamsg_pd_destroy(p.s.opts.pd), -EBUSY, "requests");
	r = region(p.s.ctx, far, p.s.opts.pd);
	key = key_for(waiting[0], r);
	accept_with(&key);
	expect_read();
	assert_int_equal(rdmamsg_region_destroy(r), 0);
	end_pair();
}

/* ---- it does not ------------------------------------------------------- */

static void accept__in_another_domain_EPERM(void **state)
{
	for (int guard = 0; guard < 2; guard++) {
		struct rdmamsg_ep *ep;

		begin();
		(void)key_for(waiting[0], region(p.s.ctx, far, NULL));
		if (guard)
			p.s.opts.flags = RDMAMSG_EP_GUARD;
		else
			p.s.opts.pd = domain(p.s.ctx);
		assert_error(rdmamsg_request_accept(waiting[0], &p.s.opts, &ep),
			     -EPERM, "domain");
		expect_rejected();
		pair_fini(&p);
	}
}

static void reject__after_a_key_LEAVES_NOTHING(void **state)
{
	struct rdmamsg_region *r;
	struct rdmamsg_pd *pd;

	begin();
	pd = domain(p.s.ctx);
	r = region(p.s.ctx, far, pd);
	(void)key_for(waiting[0], r);
	assert_int_equal(rdmamsg_request_reject(waiting[0], "no", 2), 0);
	expect_rejected();
	assert_int_equal(rdmamsg_region_destroy(r), 0);
	assert_int_equal(rdmamsg_pd_destroy(pd), 0);
	pair_fini(&p);
}

/* A request with a key that the program never answers. */
static void close__with_a_key_REJECTS(void **state)
{
	begin();
	(void)key_for(waiting[0], region(p.s.ctx, far, domain(p.s.ctx)));
	rdmamsg_listener_close(p.listener);
	test_close(p.s.ctx);
	p.s.ctx = NULL;
	expect_rejected();
	pair_fini(&p);
}

/* Some connection managers tell that the peer has given up, others do not. */
static void key__peer_has_gone_LEAVES_NOTHING(void **state)
{
	struct rdmamsg_key key;
	struct rdmamsg_region *r;
	int ret;

	begin();
	r = region(p.s.ctx, far, NULL);
	(void)key_for(waiting[0], r);
	rdmamsg_ep_abort(p.c.ep);
	WAIT_FOR(p.c.closed);
	test_pump(100);
	ret = rdmamsg_request_get_key(waiting[0], r, &key);
	assert_true(!ret || ret == -ECONNRESET);
	assert_int_equal(rdmamsg_request_reject(waiting[0], NULL, 0), 0);
	pair_fini(&p);
}

/*
 * The kernel tells no id that is not accepted (Linux 6.1, ucma_event_handler()),
 * and the removal of siw waits until nobody has the device open.
 */
static void leaves_siw(struct rdmamsg_region *r)
{
	assert_false(harm_removed());
	assert_int_equal(rdmamsg_request_reject(waiting[0], NULL, 0), 0);
	WAIT_FOR(harm_removed());
	harm_add();
	assert_int_equal(rdmamsg_region_destroy(r), 0);
	pair_fini(&p);
}

/* The request holds a device that goes, and lets it. */
static void key__device_removed_ERROR(void **state)
{
	struct rdmamsg_key key;
	struct rdmamsg_region *r;
	struct rdmamsg_ep *ep;
	int ret;

	harm_find();
	begin();
	r = region(p.s.ctx, far, NULL);
	(void)key_for(waiting[0], r);
	harm_remove();
	WAIT_FOR(p.c.closed);
	if (test_on_siw()) {
		leaves_siw(r);
		return;
	}
	WAIT_FOR(harm_removed());
	ret = rdmamsg_request_get_key(waiting[0], r, &key);
	/* a connection manager may tell the request, or not */
	assert_true(ret == -ENODEV || ret == -ECONNRESET);
	assert_true(rdmamsg_request_accept(waiting[0], &p.s.opts, &ep) < 0);
	harm_add();
	assert_int_equal(rdmamsg_region_destroy(r), 0);
	pair_fini(&p);
}

static void key__shut_down_ESHUTDOWN(void **state)
{
	struct rdmamsg_region *r;
	struct rdmamsg_key key;

	begin();
	r = region(p.s.ctx, far, NULL);
	(void)key_for(waiting[0], r);
	assert_int_equal(rdmamsg_shutdown(p.s.ctx, 1000), 0);
	assert_error(rdmamsg_request_get_key(waiting[0], r, &key), -ESHUTDOWN,
		     "shut");
	expect_rejected();
	assert_int_equal(rdmamsg_request_reject(waiting[0], NULL, 0), 0);
	pair_fini(&p);
}

static void key__without_access_or_memory_REFUSED(void **state)
{
	struct rdmamsg_region *r, *none;
	struct rdmamsg_key key;

	begin();
	r = region(p.s.ctx, far, NULL);
	assert_error(rdmamsg_request_get_key(NULL, r, &key), -EINVAL,
		     "request");
	assert_error(rdmamsg_request_get_key(waiting[0], NULL, &key), -EINVAL,
		     "region");
	assert_error(rdmamsg_request_get_key(waiting[0], r, NULL), -EINVAL,
		     "ret");
	assert_error(rdmamsg_request_get_key(waiting[0], here, &key), -EINVAL,
		     "another context");
	assert_int_equal(rdmamsg_region_create(p.s.ctx, far, ROOM, 0, &none),
			 0);
	assert_error(rdmamsg_request_get_key(waiting[0], none, &key), -EINVAL,
		     "nothing");
	/* a call that fails does not decide the domain */
	assert_int_equal(rdmamsg_region_create(p.s.ctx, (void *)4096, ROOM,
					       ACCESS_ALL, &none), 0);
	assert_error(rdmamsg_request_get_key(waiting[0], none, &key), -EFAULT,
		     "mapped");
	p.s.opts.pd = domain(p.s.ctx);
	key = key_for(waiting[0], region(p.s.ctx, far, p.s.opts.pd));
	accept_with(&key);
	expect_read();
	end_pair();
}

static void key__of_an_oob_request_EOPNOTSUPP(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = put_off,
	};
	struct rdmamsg_listen_options o = {
		.size = sizeof(o), .handlers = &on,
	};
	struct rdmamsg_key key;

	skip_on_iwarp(NO_OOB);
	waiting_count = 0;
	pair_init(&p, NULL);
	p.c.opts.device = p.s.opts.device = test_device();
	assert_int_equal(rdmamsg_oob_listen(p.s.ctx, test_addr(), "0", &o,
					    &p.listener), 0);
	listener_service(p.listener, p.port);
	assert_int_equal(rdmamsg_oob_connect(p.c.ctx, test_addr(), p.port,
					     &p.c.opts, &p.c.ep), 0);
	WAIT_FOR(waiting_count);
	assert_error(rdmamsg_request_get_key(waiting[0],
					     region(p.s.ctx, far, NULL), &key),
		     -EOPNOTSUPP, "out-of-band");
	assert_int_equal(rdmamsg_request_accept(waiting[0], &p.s.opts, &p.s.ep),
			 0);
	pair_exchange(&p);
	pair_fini(&p);
}

/* ---- moved ------------------------------------------------------------- */

static void accept_there(struct rdmamsg *ctx, struct rdmamsg_request *req,
			 void *arg)
{
	struct rdmamsg_key key = key_for(req, arg);

	waiting[0] = req;
	accept_with(&key);
}

/* The keys of a request stay with the context that it leaves. */
static void key__moved_IS_MADE_THERE(void **state)
{
	struct rdmamsg_region *left, *r;
	struct rdmamsg_pd *pd;

	begin();
	pd = domain(p.s.ctx);
	left = region(p.s.ctx, far, pd);
	(void)key_for(waiting[0], left);
	r = region(p.c.ctx, far, NULL);
	assert_int_equal(rdmamsg_request_move(waiting[0], p.c.ctx,
					      accept_there, r), 0);
	assert_int_equal(rdmamsg_region_destroy(left), 0);
	assert_int_equal(rdmamsg_pd_destroy(pd), 0);
	expect_read();
	end_pair();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(key__in_setup_data_READS_IN_on_connected),
		TEST(key__of_a_domain_with_a_device_BEFORE_CONNECTING),
		TEST(key__of_a_domain_nobody_connects_STAYS),
		TEST(domain__of_a_device_that_is_not_there_ENXIO),
		TEST(key__request_waits_long_SERVES),
		TEST(key__in_a_domain_SERVES_THERE),
		TEST(accept__in_another_domain_EPERM),
		TEST(reject__after_a_key_LEAVES_NOTHING),
		TEST(close__with_a_key_REJECTS),
		TEST(key__peer_has_gone_LEAVES_NOTHING),
		TEST(key__device_removed_ERROR),
		TEST(key__shut_down_ESHUTDOWN),
		TEST(key__without_access_or_memory_REFUSED),
		TEST(key__of_an_oob_request_EOPNOTSUPP),
		TEST(key__moved_IS_MADE_THERE),
	};

	return test_main(tests, NULL, argc, argv);
}
