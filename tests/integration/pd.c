/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains: objects of one domain work together, those of two do not.
 * An unused domain can be destroyed.
 */
#include "common.h"
#include "harm.h"
#include "../verbs_of.h"

#include <poll.h>
#include <rdmamsg/device.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rma.h>
#include <rdmamsg/verbs.h>

#define ROOM	((size_t)1 << 20)

#define ACCESS_ALL	(RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE | \
			 RDMAMSG_ACCESS_ATOMIC | RDMAMSG_ACCESS_LOCAL_WRITE)

static struct pair p, q;		/* q has the contexts of p */
static uint8_t far[ROOM], near[ROOM];

static struct rdmamsg_pd *create(struct rdmamsg *ctx)
{
	struct rdmamsg_pd_options o = { .size = sizeof(o) };
	struct rdmamsg_pd *pd;

	assert_int_equal(rdmamsg_pd_create(ctx, &o, &pd), 0);
	return pd;
}

static void destroy(struct rdmamsg_pd *pd)
{
	if (rdmamsg_pd_destroy(pd))
		fail_msg("rdmamsg_pd_destroy: %s", rdmamsg_error());
}

static struct rdmamsg_region *region(struct rdmamsg *ctx, uint8_t *mem,
				     uint32_t access, struct rdmamsg_pd *pd)
{
	struct rdmamsg_region *r;

	assert_int_equal(rdmamsg_region_create(ctx, mem, ROOM, access, &r), 0);
	if (pd)
		assert_int_equal(rdmamsg_region_set_pd(r, pd), 0);
	return r;
}

/* A second connection of the same contexts. */
static void second_init(void)
{
	memset(&q, 0, sizeof(q));
	end_init(&q.s, "server 2", p.s.ctx);
	end_init(&q.c, "client 2", p.c.ctx);
	q.s.peer = &q.c;
	q.c.peer = &q.s;
}

static void second_fini(void)
{
	end_fini(&q.s);
	end_fini(&q.c);
}

static void exchange(struct pair *pair)
{
	size_t all = pair->s.received + 30;

	for (uint32_t i = 0; i < 30; i++) {
		enum how how = i % 2 ? HOW_SENDV : HOW_MSG;

		end_send_all(&pair->c, how, mixed_size(i), i);
		end_send_all(&pair->s, how, mixed_size(i), i);
	}
	WAIT_FOR(pair->s.received == all && pair->c.received == all);
}

static struct rdmamsg_qp_options qp_options(struct rdmamsg_pd *pd)
{
	return (struct rdmamsg_qp_options) {
		.size = sizeof(struct rdmamsg_qp_options),
		.device = test_device(), .max_send = 16, .max_recv = 16,
		.pd = pd,
	};
}

static struct rdmamsg_qp *make_qp(struct rdmamsg *ctx, struct rdmamsg_pd *pd)
{
	struct rdmamsg_qp_options o = qp_options(pd);
	struct rdmamsg_qp *qp;

	skip_on_iwarp(NO_OOB);
	if (rdmamsg_qp_create(ctx, &o, &qp))
		fail_msg("rdmamsg_qp_create: %s", rdmamsg_error());
	return qp;
}

/* ---- what is refused at once ------------------------------------------ */

static void options__out_of_range_EINVAL(void **state)
{
	struct rdmamsg *ctx = test_open(NULL), *other = test_open(NULL);
	struct rdmamsg_pd_options o = { .size = 1 };
	struct rdmamsg_ep_options e = { .size = sizeof(e) };
	struct rdmamsg_listen_options l = { .size = sizeof(l), .ep = &e };
	struct rdmamsg_qp_options r;
	struct rdmamsg_listener *listener;
	struct rdmamsg_region *mem;
	struct rdmamsg_pd *pd;
	struct rdmamsg_qp *qp;
	struct rdmamsg_ep *ep;

	assert_error(rdmamsg_pd_create(ctx, &o, &pd), -EINVAL, "size");
	assert_error(rdmamsg_pd_create(ctx, NULL, NULL), -EINVAL, "NULL");
	assert_error(rdmamsg_pd_create(NULL, NULL, &pd), -EINVAL, "NULL");
	assert_int_equal(rdmamsg_pd_destroy(NULL), 0);
	assert_int_equal(rdmamsg_pd_create(ctx, NULL, &pd), 0);
	e.pd = pd;
	assert_error(rdmamsg_connect(other, test_addr(), "1", &e, &ep), -EINVAL,
		     "another context");
	assert_error(rdmamsg_listen(other, test_addr(), "0", &l, &listener),
		     -EINVAL, "another context");
	r = qp_options(pd);
	assert_error(rdmamsg_qp_create(other, &r, &qp), -EINVAL,
		     "another context");
	mem = region(other, near, 0, NULL);
	assert_error(rdmamsg_region_set_pd(mem, pd), -EINVAL,
		     "another context");
	assert_error(rdmamsg_region_set_pd(NULL, pd), -EINVAL, "NULL");
	/* the refused objects do not hold the domain */
	destroy(pd);
}

/* ---- objects of one domain -------------------------------------------- */

static void endpoints__in_one_DO_ALL(void **state)
{
	struct rdmamsg_sge s = { near, ROOM, NULL };
	struct rdmamsg_region *there, *here;
	struct rdmamsg_pd *spd, *cpd;
	struct rdmamsg_key key;
	struct cookie *c;

	pair_init(&p, NULL);
	p.s.opts.pd = spd = create(p.s.ctx);
	p.c.opts.pd = cpd = create(p.c.ctx);
	pair_listen(&p);
	pair_connect(&p);
	exchange(&p);
	there = region(p.s.ctx, far, ACCESS_ALL, spd);
	here = region(p.c.ctx, near, ACCESS_ALL, cpd);
	assert_int_equal(rdmamsg_region_get_key(there, p.s.ep, &key), 0);
	assert_int_equal(rdmamsg_region_register(here, p.c.ep), 0);
	assert_error(rdmamsg_region_set_pd(here, NULL), -EBUSY, "registered");
	memcpy(near, pattern(1), ROOM);
	s.region = here;
	p.c.sent += 2;
	c = end_cookie(&p.c);
	assert_int_equal(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0, c), 0);
	WAIT_FOR(c->count);
	assert_int_equal(c->status, 0);
	assert_memory_equal(far, pattern(1), ROOM);
	memcpy(far, pattern(2), ROOM);
	c = end_cookie(&p.c);
	assert_int_equal(rdmamsg_read(p.c.ep, &s, 1, &key, 0, 0, c), 0);
	WAIT_FOR(c->count);
	assert_int_equal(c->status, 0);
	assert_memory_equal(near, pattern(2), ROOM);
	assert_int_equal(rdmamsg_region_destroy(there), 0);
	assert_int_equal(rdmamsg_region_destroy(here), 0);
	pair_close(&p);
	destroy(spd);
	destroy(cpd);
	pair_fini(&p);
}

static void accepted(struct rdmamsg_ep *ep)
{
	p.s.ep = ep;
	p.s.connected++;
}

/* Only the listener names the domain, and accepted endpoints are in it. */
static void listener__in_one_ACCEPTS_THERE(void **state)
{
	struct rdmamsg_listen_options o = { .size = sizeof(o) };
	struct rdmamsg_pd *pd;

	pair_init(&p, NULL);
	p.s.opts.pd = pd = create(p.s.ctx);
	p.s.on.on_connected = accepted;
	o.ep = &p.s.opts;
	assert_int_equal(rdmamsg_listen(p.s.ctx, test_addr(), "0", &o,
					&p.listener), 0);
	listener_service(p.listener, p.port);
	assert_error(rdmamsg_pd_destroy(pd), -EBUSY, "1 endpoints, listeners");
	pair_connect(&p);
	second_init();
	pair_listen(&q);
	pair_connect(&q);
	assert_ptr_not_equal(ep_verbs_of(p.s.ep).pd, ep_verbs_of(q.s.ep).pd);
	assert_ptr_equal(ep_verbs_of(p.c.ep).pd, ep_verbs_of(q.c.ep).pd);
	rdmamsg_listener_close(p.listener);
	assert_error(rdmamsg_pd_destroy(pd), -EBUSY, "1 endpoints, listeners");
	exchange(&p);
	exchange(&q);
	pair_close(&p);
	destroy(pd);
	exchange(&q);
	pair_close(&q);
	second_fini();
	pair_fini(&p);
}

/* A shared receive queue has a separate part in each domain. */
static void shared__in_two_SERVES_BOTH(void **state)
{
	struct rdmamsg_pool *pool;
	struct rdmamsg_srq *srq;
	struct rdmamsg_pd *pd;

	pair_init(&p, NULL);
	second_init();
	q.s.opts.pd = pd = create(p.s.ctx);
	assert_int_equal(rdmamsg_srq_create(p.s.ctx, NULL, &srq), 0);
	assert_int_equal(rdmamsg_pool_create(p.s.ctx, NULL, &pool), 0);
	p.s.opts.srq = q.s.opts.srq = srq;
	p.s.opts.send_pool = q.s.opts.send_pool = pool;
	pair_listen(&p);
	pair_connect(&p);
	pair_listen(&q);
	pair_connect(&q);
	exchange(&p);
	exchange(&q);
	pair_close(&q);
	destroy(pd);
	exchange(&p);
	pair_close(&p);
	rdmamsg_srq_destroy(srq);
	assert_int_equal(rdmamsg_pool_destroy(pool), 0);
	second_fini();
	pair_fini(&p);
}

/* ---- objects of two domains ------------------------------------------- */

static struct rdmamsg_pd *two_domains(void)
{
	struct rdmamsg_pd *pd;

	pair_init(&p, NULL);
	second_init();
	q.s.opts.pd = pd = create(p.s.ctx);
	pair_listen(&p);
	pair_connect(&p);
	pair_listen(&q);
	pair_connect(&q);
	return pd;
}

static void two_end(struct rdmamsg_pd *pd)
{
	destroy(pd);
	second_fini();
	pair_fini(&p);
}

static void region__of_another_EPERM(void **state)
{
	struct rdmamsg_pd *pd = two_domains();
	struct rdmamsg_region *plain, *mine;
	struct rdmamsg_key key, peers;
	struct rdmamsg_sge s = { far, 4096, NULL };

	plain = region(p.s.ctx, far, ACCESS_ALL | RDMAMSG_ACCESS_WINDOW, NULL);
	mine = region(p.s.ctx, near, ACCESS_ALL, pd);
	assert_error(rdmamsg_region_register(plain, q.s.ep), -EPERM, "domain");
	assert_error(rdmamsg_region_get_key(plain, q.s.ep, &key), -EPERM,
		     "domain");
	assert_error(rdmamsg_region_register(mine, p.s.ep), -EPERM, "domain");
	assert_int_equal(rdmamsg_region_register(plain, p.s.ep), 0);
	assert_int_equal(rdmamsg_region_get_key(mine, q.s.ep, &key), 0);
	/* the same context and device, but another domain */
	s.region = plain;
	peers = key;
	assert_error(rdmamsg_write(q.s.ep, &s, 1, &peers, 0, 0, NULL), -EPERM,
		     "domain");
	assert_error(rdmamsg_read(q.s.ep, &s, 1, &peers, 0, 0, NULL), -EPERM,
		     "domain");
	if (test_on_soft()) {
		struct rdmamsg_window *w;

		assert_int_equal(rdmamsg_window_create(q.s.ep, &w), 0);
		assert_error(rdmamsg_window_bind(w, plain, 0, 8,
						 RDMAMSG_ACCESS_READ, &key,
						 NULL), -EPERM, "domain");
		assert_int_equal(rdmamsg_window_destroy(w), 0);
	}
	/* a revoked region may change its domain */
	assert_int_equal(rdmamsg_region_revoke(plain), 0);
	assert_int_equal(rdmamsg_region_set_pd(plain, pd), 0);
	assert_int_equal(rdmamsg_region_register(plain, q.s.ep), 0);
	pair_close(&p);
	pair_close(&q);
	assert_error(rdmamsg_pd_destroy(pd), -EBUSY, "2 regions");
	assert_int_equal(rdmamsg_region_destroy(mine), 0);
	assert_int_equal(rdmamsg_region_revoke(plain), 0);
	assert_int_equal(rdmamsg_region_set_pd(plain, NULL), 0);
	two_end(pd);
}

/* The device itself refuses the key, even if a peer knows it. */
static void key__of_another_IS_WORTH_NOTHING(void **state)
{
	struct rdmamsg_pd *pd = two_domains();
	struct rdmamsg_sge s = { near, 64, NULL };
	struct rdmamsg_region *there;
	struct rdmamsg_key key;
	struct cookie *c;

	there = region(p.s.ctx, far, ACCESS_ALL, pd);
	memset(far, 0, 64);
	memset(near, 7, 64);
	assert_int_equal(rdmamsg_region_get_key(there, q.s.ep, &key), 0);
	p.c.sent++;
	c = end_cookie(&p.c);
	assert_int_equal(rdmamsg_write(p.c.ep, &s, 1, &key, 0, 0, c), 0);
	WAIT_FOR(p.c.closed && p.s.closed);
	check_refused(&p.c, c);
	assert_int_equal(far[0], 0);
	/* the key works in its own domain */
	q.c.sent++;
	c = end_cookie(&q.c);
	assert_int_equal(rdmamsg_write(q.c.ep, &s, 1, &key, 0, 0, c), 0);
	WAIT_FOR(c->count);
	assert_int_equal(c->status, 0);
	assert_int_equal(far[63], 7);
	assert_int_equal(rdmamsg_region_destroy(there), 0);
	pair_close(&q);
	two_end(pd);
}

static void cache__in_two_HAS_BOTH(void **state)
{
	struct rdmamsg_pd *pd = two_domains();
	struct rdmamsg_cache_stats i = { .size = sizeof(i) };
	struct rdmamsg_region *a, *b, *again;
	struct rdmamsg_cache *cache;

	assert_int_equal(rdmamsg_cache_create(p.s.ctx, NULL, &cache), 0);
	assert_int_equal(rdmamsg_cache_get(cache, p.s.ep, far, ROOM, 0, &a), 0);
	assert_int_equal(rdmamsg_cache_get(cache, q.s.ep, far, ROOM, 0, &b), 0);
	assert_ptr_not_equal(a, b);
	assert_error(rdmamsg_region_set_pd(a, pd), -EINVAL, "cache");
	assert_int_equal(rdmamsg_cache_get(cache, q.s.ep, far, 10, 0, &again),
			 0);
	assert_ptr_equal(again, b);
	assert_error(rdmamsg_cache_get(cache, NULL, far, ROOM, 0, &again),
		     -EINVAL, "NULL");
	assert_int_equal(rdmamsg_cache_get_stats(cache, &i), 0);
	assert_int_equal(i.hits, 1);
	assert_int_equal(i.misses, 2);
	pair_close(&p);
	pair_close(&q);
	rdmamsg_cache_put(cache, a);
	rdmamsg_cache_put(cache, b);
	rdmamsg_cache_put(cache, b);
	assert_error(rdmamsg_pd_destroy(pd), -EBUSY, "cache_invalidate");
	assert_int_equal(rdmamsg_cache_invalidate(cache, far, 1), 0);
	destroy(pd);
	assert_int_equal(rdmamsg_cache_destroy(cache), 0);
	second_fini();
	pair_fini(&p);
}

/* Messages allocated in one domain are sent in the other, small and large. */
static void message__of_another_ARRIVES(void **state)
{
	static const size_t sizes[] = { 10, 4000, 300000 };
	struct rdmamsg_pd *pd = two_domains();

	for (uint32_t i = 0; i < 2 * ARRAY_SIZE(sizes); i++) {
		size_t len = sizes[i / 2];
		struct rdmamsg_msg *msg;
		struct end *from = i % 2 ? &p.s : &q.s;
		struct end *through = i % 2 ? &q.s : &p.s;

		assert_int_equal(rdmamsg_msg_alloc(from->ep, len, &msg), 0);
		memcpy(rdmamsg_msg_data(msg), pattern(i), len);
		end_expect(through->peer, len, i);
		assert_int_equal(rdmamsg_msg_send(through->ep, msg, i, NULL),
				 0);
	}
	WAIT_FOR(p.c.received == 3 && q.c.received == 3);
	pair_close(&p);
	pair_close(&q);
	two_end(pd);
}

/* The context has one limit: memory freed in one domain helps the other. */
static void memory__back_in_one_WRITABLE_IN_THE_OTHER(void **state)
{
	struct rdmamsg_options o = {
		.size = sizeof(o), .max_registered = (size_t)48 << 20,
		.max_send_registered = (size_t)20 << 20,
	};
	const size_t len = (size_t)10 << 20;
	struct rdmamsg_msg *one, *other;
	struct rdmamsg_pd *pd;

	pair_init(&p, &o);
	second_init();
	q.c.opts.pd = pd = create(p.c.ctx);
	pair_listen(&p);
	pair_connect(&p);
	pair_listen(&q);
	pair_connect(&q);
	assert_int_equal(rdmamsg_msg_alloc(p.c.ep, len, &one), 0);
	assert_int_equal(rdmamsg_msg_alloc(q.c.ep, len, &other), -EAGAIN);
	test_drive(p.c.ctx);
	q.c.writable = 0;
	rdmamsg_msg_free(one);
	/* on_writable comes at once, without another event in that domain */
	test_drive(p.c.ctx);
	assert_true(q.c.writable);
	assert_int_equal(rdmamsg_msg_alloc(q.c.ep, len, &other), 0);
	rdmamsg_msg_free(other);
	pair_close(&p);
	pair_close(&q);
	two_end(pd);
}

/* ---- the end ---------------------------------------------------------- */

static void begin_again(void)
{
	struct end *ends[] = { &p.s, &p.c };

	for (int i = 0; i < 2; i++) {
		ends[i]->connected = ends[i]->closed = 0;
		ends[i]->received = ends[i]->expected_count = 0;
	}
}

static void destroy__after_the_last_reference_GONE(void **state)
{
	struct rdmamsg_pd *pd;

	pair_init(&p, NULL);
	p.c.opts.pd = pd = create(p.c.ctx);
	p.c.keep = true;
	pair_listen(&p);
	pair_connect(&p);
	end_send_all(&p.s, HOW_SEND, 5000, 1);
	WAIT_FOR(p.c.received == 1);
	pair_close(&p);
	assert_int_equal(rdmamsg_msg_ref(p.c.kept[0]), 0);
	rdmamsg_msg_free(p.c.kept[0]);
	assert_error(rdmamsg_pd_destroy(pd), -EBUSY, "rdmamsg_msg_free");
	end_release(&p.c);
	destroy(pd);
	pair_fini(&p);
}

static void destroy__in_use_EBUSY(void **state)
{
	struct rdmamsg_pd *pd;
	struct rdmamsg_qp *qp;
	struct ibv_mr *mr;

	pair_init(&p, NULL);
	p.c.opts.pd = pd = create(p.c.ctx);
	p.c.keep = true;
	qp = make_qp(p.c.ctx, pd);
	assert_error(rdmamsg_pd_destroy(pd), -EBUSY, "queue pairs");
	assert_int_equal(rdmamsg_qp_destroy(qp), 0);
	pair_listen(&p);
	pair_connect(&p);
	end_send_all(&p.s, HOW_SEND, 5000, 1);
	WAIT_FOR(p.c.received == 1);
	assert_error(rdmamsg_pd_destroy(pd), -EBUSY, "1 endpoints");
	pair_close(&p);
	assert_error(rdmamsg_pd_destroy(pd), -EBUSY, "rdmamsg_msg_free");
	assert_memory_equal(rdmamsg_msg_data(p.c.kept[0]), pattern(1), 5000);
	end_release(&p.c);
	/* verbs reports a memory region that the library does not know */
	qp = make_qp(p.c.ctx, pd);
	assert_int_equal(rdmamsg_qp_register(qp, near, ROOM, 0, &mr), 0);
	assert_int_equal(rdmamsg_qp_destroy(qp), 0);
	assert_error(rdmamsg_pd_destroy(pd), -EBUSY, "verbs");
	p.c.keep = false;
	begin_again();
	pair_connect(&p);
	exchange(&p);
	pair_close(&p);
	qp = make_qp(p.c.ctx, pd);
	assert_int_equal(rdmamsg_qp_deregister(qp, mr), 0);
	assert_int_equal(rdmamsg_qp_destroy(qp), 0);
	destroy(pd);
	pair_fini(&p);
}

static struct rdmamsg_pd *ended;

static void then_closed(struct end *e)
{
	if (rdmamsg_pd_destroy(ended))
		note("rdmamsg_pd_destroy: %s", rdmamsg_error());
}

static void destroy__in_on_closed_AND_MADE_AGAIN(void **state)
{
	int fds = 0;

	pair_init(&p, NULL);
	p.c.then_closed = then_closed;
	pair_listen(&p);
	for (int i = 0; i < 20; i++) {
		begin_again();
		p.c.opts.pd = ended = create(p.c.ctx);
		pair_connect(&p);
		end_send_all(&p.c, HOW_SENDV, 100000, 1);
		WAIT_FOR(p.s.received == 1);
		pair_close(&p);
		test_drive(p.c.ctx);
		/* the domain leaves nothing to close later */
		if (i)
			assert_int_equal(open_fds(), fds);
		fds = open_fds();
	}
	pair_fini(&p);
}

/*
 * Without another event, the destruction wakes a sleeping loop to close the
 * rest.
 */
static void destroy__outside_of_callbacks_WAKES_THE_LOOP(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct pollfd fd = { .fd = rdmamsg_fd(ctx), .events = POLLIN };
	struct rdmamsg_pd *pd = create(ctx);
	int fds;

	assert_int_equal(rdmamsg_qp_destroy(make_qp(ctx, pd)), 0);
	test_drive(ctx);
	assert_int_equal(poll(&fd, 1, 0), 0);
	fds = open_fds();
	destroy(pd);
	assert_int_equal(poll(&fd, 1, 0), 1);
	test_drive(ctx);
	assert_true(open_fds() < fds);
	test_close(ctx);
}

/* rdmamsg_close() destroys all remaining domains. */
static void destroy__by_the_context_LEAVES_NOTHING(void **state)
{
	struct rdmamsg_pd *pd;

	pair_init(&p, NULL);
	p.c.opts.pd = pd = create(p.c.ctx);
	pair_listen(&p);
	pair_connect(&p);
	make_qp(p.c.ctx, pd);
	region(p.c.ctx, near, 0, pd);
	exchange(&p);
	pair_close(&p);
	pair_fini(&p);
}

/* ---- queue pairs of the program --------------------------------------- */

static void queue_pair__with_an_srq_of_another_EPERM(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_pd *pd = create(ctx);
	struct rdmamsg_qp *inside = make_qp(ctx, pd), *outside, *qp;
	struct rdmamsg_qp_options o = qp_options(NULL);
	struct ibv_srq srq;

	outside = make_qp(ctx, NULL);
	assert_ptr_not_equal(verbs_of(inside).qp->pd,
			     verbs_of(outside).qp->pd);
	/* the call reads only the pd of this srq */
	srq = (struct ibv_srq) { .pd = verbs_of(inside).qp->pd };
	o.srq = &srq;
	assert_error(rdmamsg_qp_create(ctx, &o, &qp), -EPERM, "srq");
	assert_int_equal(rdmamsg_qp_destroy(inside), 0);
	destroy(pd);
	test_close(ctx);
}

/* ---- events ----------------------------------------------------------- */

static unsigned int down, up;

static void on_event(struct rdmamsg *ctx, const struct rdmamsg_event *ev)
{
	down += ev->type == IBV_EVENT_PORT_ERR;
	up += ev->type == IBV_EVENT_PORT_ACTIVE;
}

static void port__with_two_domains_IS_TOLD_ONCE(void **state)
{
	static const struct rdmamsg_ctx_handlers on = {
		.size = sizeof(on), .on_event = on_event,
	};
	struct rdmamsg_options o = { .size = sizeof(o), .handlers = &on };
	struct rdmamsg *ctx = test_open(&o), *other = test_open(&o);
	struct rdmamsg_pd *pd;
	struct rdmamsg_qp *qp;

	harm_find();
	make_qp(ctx, NULL);
	make_qp(other, NULL);
	pd = create(ctx);
	qp = make_qp(ctx, pd);
	down = up = 0;
	harm_link(false);
	WAIT_FOR(down >= 2);
	harm_link(true);
	WAIT_FOR(up >= 2);
	assert_int_equal(down, 2);
	/* the domain that is left still hears of the port */
	test_close(other);
	assert_int_equal(rdmamsg_qp_destroy(qp), 0);
	destroy(pd);
	harm_link(false);
	WAIT_FOR(down >= 3);
	harm_link(true);
	WAIT_FOR(up >= 3);
}

/* ---- the device goes -------------------------------------------------- */

static bool listens(void)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = pair_on_request,
	};
	const struct rdmamsg_listen_options o = {
		.size = sizeof(o), .user = &p, .handlers = &on,
	};

	return !rdmamsg_listen(p.s.ctx, test_addr(), "0", &o, &p.listener);
}

/* A domain in use and an unused one both work again after a removal. */
static void removed__with_domains_CAN_BEGIN_AGAIN(void **state)
{
	struct rdmamsg_pd *used, *idle;
	struct rdmamsg_region *mem;

	harm_find();
	pair_init(&p, NULL);
	p.c.opts.pd = used = create(p.c.ctx);
	idle = create(p.c.ctx);
	assert_int_equal(rdmamsg_qp_destroy(make_qp(p.c.ctx, idle)), 0);
	mem = region(p.c.ctx, near, 0, used);
	p.c.keep = true;
	pair_listen(&p);
	pair_connect(&p);
	assert_int_equal(rdmamsg_region_register(mem, p.c.ep), 0);
	end_send_all(&p.s, HOW_SEND, 5000, 1);
	WAIT_FOR(p.c.received == 1);
	harm_remove();
	WAIT_FOR(p.c.closed && p.s.closed);
	WAIT_FOR(harm_removed());
	/*
	 * or the other end aborts first, because the kernel notifies it earlier
	 */
	if (test_on_soft() || p.c.why.cause != RDMAMSG_CAUSE_ABORTED)
		assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_REMOVED);
	else
		assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_REMOVED);
	assert_memory_equal(rdmamsg_msg_data(p.c.kept[0]), pattern(1), 5000);
	assert_error(rdmamsg_pd_destroy(used), -EBUSY, "region");
	rdmamsg_listener_close(p.listener);
	harm_add();
	/* the addresses of the device come a little later */
	WAIT_FOR(listens());
	listener_service(p.listener, p.port);
	begin_again();
	pair_connect(&p);
	assert_int_equal(rdmamsg_region_register(mem, p.c.ep), 0);
	/* a message from before the removal, of the removed device */
	assert_memory_equal(rdmamsg_msg_data(p.c.kept[0]), pattern(1), 5000);
	end_release(&p.c);
	p.c.keep = false;
	exchange(&p);
	pair_close(&p);
	assert_int_equal(rdmamsg_region_destroy(mem), 0);
	destroy(used);
	destroy(idle);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(options__out_of_range_EINVAL),
		TEST(endpoints__in_one_DO_ALL),
		TEST(listener__in_one_ACCEPTS_THERE),
		TEST(shared__in_two_SERVES_BOTH),
		TEST(region__of_another_EPERM),
		TEST(key__of_another_IS_WORTH_NOTHING),
		TEST(cache__in_two_HAS_BOTH),
		TEST(message__of_another_ARRIVES),
		TEST(memory__back_in_one_WRITABLE_IN_THE_OTHER),
		TEST(destroy__after_the_last_reference_GONE),
		TEST(destroy__in_use_EBUSY),
		TEST(destroy__in_on_closed_AND_MADE_AGAIN),
		TEST(destroy__outside_of_callbacks_WAKES_THE_LOOP),
		TEST(destroy__by_the_context_LEAVES_NOTHING),
		TEST(queue_pair__with_an_srq_of_another_EPERM),
		TEST(port__with_two_domains_IS_TOLD_ONCE),
		TEST(removed__with_domains_CAN_BEGIN_AGAIN),
	};

	return test_main(tests, NULL, argc, argv);
}
