/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guarded endpoints: each has a protection domain of its own, works like any
 * other endpoint, takes no descriptor and no completion queue, and leaves no
 * resource behind.
 */
#include "common.h"
#include "harm.h"
#include "oob_pair.h"
#include "../verbs_of.h"

#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rma.h>
#include <rdmamsg/verbs.h>

#define ROOM	((size_t)1 << 16)
#define PAIRS	3

#define ACCESS_ALL	(RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE | \
			 RDMAMSG_ACCESS_LOCAL_WRITE)

static struct pair p, more[PAIRS];	/* more has the contexts of p */
static uint8_t far[ROOM], near[ROOM];

static void guard(struct pair *pair)
{
	pair->s.opts.flags = pair->c.opts.flags = RDMAMSG_EP_GUARD;
}

static void another_init(struct pair *q)
{
	memset(q, 0, sizeof(*q));
	end_init(&q->s, "another server", p.s.ctx);
	end_init(&q->c, "another client", p.c.ctx);
	q->s.peer = &q->c;
	q->c.peer = &q->s;
}

static void another_fini(struct pair *q)
{
	end_fini(&q->s);
	end_fini(&q->c);
}

static void connect_pair(struct pair *pair)
{
	pair_listen(pair);
	pair_connect(pair);
}

static void exchange(struct pair *pair, uint32_t n)
{
	size_t all = pair->s.received + n;

	for (uint32_t i = 0; i < n; i++) {
		end_send_all(&pair->c, i % 2 ? HOW_SENDV : HOW_MSG,
			     mixed_size(i), i);
		end_send_all(&pair->s, i % 2 ? HOW_MSG : HOW_SEND,
			     mixed_size(i) % 60000, i);
	}
	WAIT_FOR(pair->s.received == all && pair->c.received == all);
}

static void begin_again(struct pair *pair)
{
	struct end *ends[] = { &pair->s, &pair->c };

	for (int i = 0; i < 2; i++) {
		ends[i]->connected = ends[i]->closed = 0;
		ends[i]->received = ends[i]->expected_count = 0;
		ends[i]->sent = ends[i]->sent_ok = ends[i]->sent_failed = 0;
	}
}

/* ---- options ---------------------------------------------------------- */

static void options__with_shared_things_EINVAL(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_ep_options e = {
		.size = sizeof(e), .flags = RDMAMSG_EP_GUARD,
	};
	struct rdmamsg_listen_options l = { .size = sizeof(l), .ep = &e };
	struct rdmamsg_listener *listener;
	struct rdmamsg_srq *srq;
	struct rdmamsg_pd *pd;
	struct rdmamsg_ep *ep;

	assert_int_equal(rdmamsg_pd_create(ctx, NULL, &pd), 0);
	assert_int_equal(rdmamsg_srq_create(ctx, NULL, &srq), 0);
	e.pd = pd;
	assert_error(rdmamsg_connect(ctx, test_addr(), "1", &e, &ep), -EINVAL,
		     "GUARD and pd");
	assert_error(rdmamsg_listen(ctx, test_addr(), "0", &l, &listener),
		     -EINVAL, "GUARD and pd");
	e.pd = NULL;
	e.srq = srq;
	assert_error(rdmamsg_connect(ctx, test_addr(), "1", &e, &ep), -EINVAL,
		     "GUARD and srq");
	assert_error(rdmamsg_listen(ctx, test_addr(), "0", &l, &listener),
		     -EINVAL, "GUARD and srq");
	rdmamsg_srq_destroy(srq);
	assert_int_equal(rdmamsg_pd_destroy(pd), 0);
	test_close(ctx);
}

static void info__TELLS_THE_GUARD(void **state)
{
	pair_init(&p, NULL);
	p.s.opts.flags = RDMAMSG_EP_GUARD;
	connect_pair(&p);
	assert_int_equal(end_info(&p.s).guard, RDMAMSG_GUARD_DOMAIN);
	assert_int_equal(end_info(&p.c).guard, RDMAMSG_GUARD_ADDRESS);
	exchange(&p, 22);
	pair_close(&p);
	pair_fini(&p);
}

/* ---- traffic ---------------------------------------------------------- */

static uint32_t queues;

static void count_queues(void *arg, const char *text)
{
	queues += strstr(text, "completion queue:") != NULL;
}

static uint32_t queues_of(const struct rdmamsg *ctx)
{
	queues = 0;
	rdmamsg_dump(ctx, count_queues, NULL);
	return queues;
}

/* The queues of an unguarded pair serve all guarded ones. */
static void many__SHARE_DESCRIPTORS_AND_QUEUES(void **state)
{
	int fds, first;

	pair_init(&p, NULL);
	connect_pair(&p);
	first = open_fds();
	another_init(&more[0]);
	connect_pair(&more[0]);
	fds = open_fds() - first;	/* with its listener */
	exchange(&more[0], 11);
	for (int i = 1; i < PAIRS; i++) {
		another_init(&more[i]);
		guard(&more[i]);
		connect_pair(&more[i]);
		assert_int_equal(open_fds(), first + (i + 1) * fds);
		assert_ptr_not_equal(ep_verbs_of(more[i].s.ep).pd,
				     ep_verbs_of(more[i - 1].s.ep).pd);
		assert_ptr_not_equal(ep_verbs_of(more[i].c.ep).pd,
				     ep_verbs_of(p.c.ep).pd);
	}
	assert_int_equal(queues_of(p.s.ctx), 1);
	assert_int_equal(queues_of(p.c.ctx), 1);
	for (int i = 0; i < PAIRS; i++)
		exchange(&more[i], 22);
	exchange(&p, 22);
	for (int i = 0; i < PAIRS; i++) {
		pair_close(&more[i]);
		another_fini(&more[i]);
	}
	exchange(&p, 22);
	pair_close(&p);
	pair_fini(&p);
}

/* The guarded endpoint is the first one, so it makes the queues. */
static void alone__with_a_queue_of_its_own_EXCHANGES(void **state)
{
	pair_init(&p, NULL);
	guard(&p);
	p.s.opts.flags |= RDMAMSG_EP_OWN_CQ;
	connect_pair(&p);
	exchange(&p, 33);
	pair_close(&p);
	pair_fini(&p);
}

static void oob__EXCHANGES(void **state)
{
	skip_on_iwarp(NO_OOB);
	oob_init(&p);
	guard(&p);
	oob_listen(&p, test_addr());
	oob_connect(&p, test_addr());
	oob_talk(&p);
	assert_int_equal(end_info(&p.s).guard, RDMAMSG_GUARD_DOMAIN);
	pair_close(&p);
	pair_fini(&p);
}

/* Unguarded endpoints use the context's shared receives. */
static void context__with_shared_receives_HAS_ITS_OWN(void **state)
{
	const struct rdmamsg_srq_options srq = { .size = sizeof(srq) };
	const struct rdmamsg_options o = { .size = sizeof(o), .srq = &srq };

	pair_init(&p, &o);
	guard(&p);
	connect_pair(&p);
	another_init(&more[0]);
	connect_pair(&more[0]);
	exchange(&p, 22);
	exchange(&more[0], 22);
	assert_int_equal(end_info(&p.s).guard, RDMAMSG_GUARD_DOMAIN);
	pair_close(&p);
	exchange(&more[0], 22);
	pair_close(&more[0]);
	another_fini(&more[0]);
	pair_fini(&p);
}

/* A message of one guarded endpoint goes out through another one. */
static void message__of_another_ARRIVES(void **state)
{
	static const size_t sizes[] = { 10, 4000, 300000 };

	pair_init(&p, NULL);
	guard(&p);
	connect_pair(&p);
	another_init(&more[0]);
	guard(&more[0]);
	connect_pair(&more[0]);
	p.s.keep = true;
	for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		end_send_all(&p.c, HOW_SENDV, sizes[i], i);
		WAIT_FOR(p.s.received == i + 1);
		end_expect(&more[0].c, sizes[i], i);
		assert_int_equal(rdmamsg_msg_send(more[0].s.ep, p.s.kept[i], i,
						  NULL), 0);
	}
	WAIT_FOR(more[0].c.received == ARRAY_SIZE(sizes));
	p.s.kept_count = 0;
	pair_close(&p);
	pair_close(&more[0]);
	another_fini(&more[0]);
	pair_fini(&p);
}

/* ---- keys ------------------------------------------------------------- */

static int write_with(struct end *e, const struct rdmamsg_key *key)
{
	struct rdmamsg_sge s = { near, 64, NULL };
	struct cookie *c = end_cookie(e);

	e->sent++;
	assert_int_equal(rdmamsg_write(e->ep, &s, 1, key, 0, 0, c), 0);
	WAIT_FOR(c->count);
	return c->status;
}

/* The peer's device refuses the key. Then the connection ends. */
static void write_in_vain(struct end *e, const struct rdmamsg_key *key)
{
	/* any error: the peer may close before its device answers */
	if (!write_with(e, key))
		assert_true(test_iwarp());	/* it completed before */
	WAIT_FOR(p.c.closed && p.s.closed);
}

/* Each guarded endpoint has its own registration of a region. */
static void region__key_of_another_IS_WORTH_NOTHING(void **state)
{
	struct rdmamsg_key mine, others;
	struct rdmamsg_region *r;

	pair_init(&p, NULL);
	guard(&p);
	connect_pair(&p);
	another_init(&more[0]);
	guard(&more[0]);
	connect_pair(&more[0]);
	assert_int_equal(rdmamsg_region_create(p.s.ctx, far, ROOM, ACCESS_ALL,
					       &r), 0);
	assert_int_equal(rdmamsg_region_get_key(r, p.s.ep, &mine), 0);
	assert_int_equal(rdmamsg_region_get_key(r, more[0].s.ep, &others), 0);
	memset(far, 0, ROOM);
	memset(near, 7, ROOM);
	write_in_vain(&p.c, &others);
	assert_int_equal(far[0], 0);
	assert_int_equal(write_with(&more[0].c, &others), 0);
	if (test_iwarp())
		WAIT_FOR(far[63]);
	assert_int_equal(far[63], 7);
	assert_int_equal(rdmamsg_region_destroy(r), 0);
	pair_close(&more[0]);
	another_fini(&more[0]);
	pair_fini(&p);
}

/* The registration ends with its endpoint. The region remains. */
static void region__after_the_endpoint_IS_GOOD_FOR_THE_NEXT(void **state)
{
	struct rdmamsg_cache *cache;
	struct rdmamsg_region *r, *cached;
	struct rdmamsg_key key;

	pair_init(&p, NULL);
	guard(&p);
	pair_listen(&p);
	assert_int_equal(rdmamsg_cache_create(p.s.ctx, NULL, &cache), 0);
	assert_int_equal(rdmamsg_region_create(p.s.ctx, far, ROOM, ACCESS_ALL,
					       &r), 0);
	for (int i = 0; i < 3; i++) {
		begin_again(&p);
		pair_connect(&p);
		assert_int_equal(rdmamsg_cache_get(cache, p.s.ep, near, ROOM,
						   0, &cached), 0);
		assert_int_equal(rdmamsg_region_get_key(r, p.s.ep, &key), 0);
		assert_int_equal(write_with(&p.c, &key), 0);
		assert_int_equal(rdmamsg_cache_put(cache, cached), 0);
		pair_close(&p);
		test_drive(p.s.ctx);
	}
	assert_int_equal(rdmamsg_region_destroy(r), 0);
	assert_int_equal(rdmamsg_cache_destroy(cache), 0);
	pair_fini(&p);
}

/* ---- the end ---------------------------------------------------------- */

struct held {
	int fds, qp, cq, mr, pd;
};

/* The soft HCA has no counts. It logs an error if a domain is in use. */
static int count(const char *what)
{
	return test_on_soft() ? 0 : rdma_count(what);
}

static struct held held_now(void)
{
	return (struct held){
		open_fds(), count("qp"), count("cq"), count("mr"), count("pd"),
	};
}

static uint64_t registered(const struct rdmamsg *ctx)
{
	struct rdmamsg_stats s = { .size = sizeof(s) };

	assert_int_equal(rdmamsg_get_stats(ctx, &s), 0);
	return s.bytes_registered;
}

static bool same(const struct held *a)
{
	struct held b = held_now();

	return !memcmp(a, &b, sizeof(b));
}

/* Ways to end while 16 rendezvous are outstanding. */
static void end_graceful(void)
{
	pair_close(&p);
}

static void end_aborted(void)
{
	rdmamsg_ep_abort(p.c.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
}

static void end_refused(void)
{
	struct rdmamsg_key none;
	struct rdmamsg_region *r;

	assert_int_equal(rdmamsg_region_create(p.s.ctx, far, ROOM, ACCESS_ALL,
					       &r), 0);
	assert_int_equal(rdmamsg_region_get_key(r, p.s.ep, &none), 0);
	assert_int_equal(rdmamsg_region_destroy(r), 0);
	write_in_vain(&p.c, &none);
}

static void cycle(void (*end)(void))
{
	begin_again(&p);
	/* an abort loses messages */
	p.s.expect_nothing = p.c.expect_nothing = end != end_graceful;
	pair_connect(&p);
	for (uint32_t i = 0; i < 16; i++) {
		int ret = end_sendv(&p.s, 3, 50000, i);

		/* in pieces: their credits do not last */
		if (end_sendv(&p.c, 16, 160000, i) || (ret && ret != -EAGAIN))
			fail_msg("rdmamsg_sendv: %s", rdmamsg_error());
	}
	end();
	test_drive(p.s.ctx);
	test_drive(p.c.ctx);
}

static void ends__of_every_kind_LEAVE_NOTHING(void **state)
{
	static void (*const ends[])(void) = {
		end_graceful, end_aborted, end_refused,
	};
	struct held held;
	uint64_t bytes;

	pair_init(&p, NULL);
	guard(&p);
	pair_listen(&p);
	cycle(end_graceful);
	held = held_now();
	bytes = registered(p.c.ctx);
	for (uint32_t i = 0; i < 12; i++) {
		cycle(ends[i % ARRAY_SIZE(ends)]);
		WAIT_FOR(same(&held));
		assert_int_equal(registered(p.c.ctx), bytes);
	}
	pair_fini(&p);
}

static void message__after_the_endpoint_CAN_BE_READ(void **state)
{
	struct held before;

	pair_init(&p, NULL);
	guard(&p);
	pair_listen(&p);
	cycle(end_graceful);
	before = held_now();
	p.c.keep = true;
	begin_again(&p);
	pair_connect(&p);
	end_send_all(&p.s, HOW_SEND, 5000, 1);
	end_send_all(&p.s, HOW_SENDV, 500000, 2);
	WAIT_FOR(p.c.received == 2);
	pair_close(&p);
	test_drive(p.c.ctx);
	WAIT_FOR(same(&before));
	assert_memory_equal(rdmamsg_msg_data(p.c.kept[0]), pattern(1), 5000);
	assert_memory_equal(rdmamsg_msg_data(p.c.kept[1]), pattern(2), 500000);
	end_release(&p.c);
	test_drive(p.c.ctx);
	pair_fini(&p);
}

/* The context closes with endpoints, a kept message and a region. */
static void context__closed_with_all_LEAVES_NOTHING(void **state)
{
	struct rdmamsg_region *r;

	pair_init(&p, NULL);
	guard(&p);
	connect_pair(&p);
	p.s.keep = true;
	end_send_all(&p.c, HOW_SEND, 5000, 1);
	WAIT_FOR(p.s.received == 1);
	assert_int_equal(rdmamsg_region_create(p.s.ctx, far, ROOM, ACCESS_ALL,
					       &r), 0);
	assert_int_equal(rdmamsg_region_register(r, p.s.ep), 0);
	for (uint32_t i = 0; i < 16; i++)
		assert_int_equal(end_sendv(&p.c, 16, 160000, i), 0);
	p.s.kept_count = 0;
	test_close(p.s.ctx);
	WAIT_FOR(p.c.closed);
	test_close(p.c.ctx);
	end_check_cookies(&p.c);
	end_fini(&p.c);
	end_fini(&p.s);
}

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

static void removed__CAN_BEGIN_AGAIN(void **state)
{
	harm_find();
	pair_init(&p, NULL);
	guard(&p);
	p.c.keep = true;
	connect_pair(&p);
	end_send_all(&p.s, HOW_SEND, 5000, 1);
	WAIT_FOR(p.c.received == 1);
	harm_remove();
	WAIT_FOR(p.c.closed && p.s.closed);
	WAIT_FOR(harm_removed());
	assert_memory_equal(rdmamsg_msg_data(p.c.kept[0]), pattern(1), 5000);
	rdmamsg_listener_close(p.listener);
	harm_add();
	/* the device gets its addresses later */
	WAIT_FOR(listens());
	listener_service(p.listener, p.port);
	end_release(&p.c);
	p.c.keep = false;
	begin_again(&p);
	pair_connect(&p);
	exchange(&p, 11);
	pair_close(&p);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(options__with_shared_things_EINVAL),
		TEST(info__TELLS_THE_GUARD),
		TEST(many__SHARE_DESCRIPTORS_AND_QUEUES),
		TEST(alone__with_a_queue_of_its_own_EXCHANGES),
		TEST(oob__EXCHANGES),
		TEST(context__with_shared_receives_HAS_ITS_OWN),
		TEST(message__of_another_ARRIVES),
		TEST(region__key_of_another_IS_WORTH_NOTHING),
		TEST(region__after_the_endpoint_IS_GOOD_FOR_THE_NEXT),
		TEST(ends__of_every_kind_LEAVE_NOTHING),
		TEST(message__after_the_endpoint_CAN_BE_READ),
		TEST(context__closed_with_all_LEAVES_NOTHING),
		TEST(removed__CAN_BEGIN_AGAIN),
	};

	return test_main(tests, NULL, argc, argv);
}
