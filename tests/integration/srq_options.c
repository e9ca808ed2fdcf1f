/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: valid options, pools and completion queues, and the
 * estimate of their memory.
 */
#include "many.h"

#include <rdmamsg/memory.h>

static struct rdmamsg_pool *pool;

/* ---- options ---------------------------------------------------------- */

static void options__out_of_range_EINVAL(void **state)
{
	static const struct {
		struct rdmamsg_srq_options o;
		const char *word;
	} bad[] = {
		{ { .depth = 15 }, "depth" },
		{ { .depth = (1 << 20) + 1 }, "depth" },
		{ { .buffer_size = (1 << 20) + 1 }, "buffer_size" },
		{ { .floor = 5000 }, "floor" },
		{ { .overcommit = 99 }, "overcommit" },
		{ { .depth = 100, .limit = 101 }, "limit" },
		{ { .sge = 256 }, "sge" },
	};
	struct rdmamsg *ctx = test_open(NULL);

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct rdmamsg_srq_options o = bad[i].o;

		o.size = sizeof(o);
		assert_error(rdmamsg_srq_create(ctx, &o, &srq), -EINVAL,
			     bad[i].word);
	}
	assert_error(rdmamsg_srq_create(ctx, NULL, NULL), -EINVAL, "NULL");
	assert_error(rdmamsg_srq_create(NULL, NULL, &srq), -EINVAL, "NULL");
	rdmamsg_srq_destroy(NULL);
}

static void options__of_another_context_EINVAL(void **state)
{
	struct rdmamsg_ep_options ep = many_ep_options();
	struct rdmamsg_ep *ret;

	many_start(NULL);
	ep.srq = srq;
	assert_error(rdmamsg_connect(client.ctx, test_addr(), service, &ep,
				     &ret), -EINVAL, "another context");
	many_finish();
}

static void options__beyond_the_device_EINVAL(void **state)
{
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 1 << 20,
	};
	struct rdmamsg_ep_options ep = many_ep_options();
	char want[64];

	if (!test_on_soft())
		skip_because("the limit of this device is not known");
	/* the side that accepts tells the other one only that it lacks them */
	many_start(&o);
	many_dial(NULL);
	WAIT_FOR(client.closed == 1);
	assert_int_equal(client.connected, 0);
	assert_int_equal(client.last_error, -ENOBUFS);
	many_finish();
	many_start(NULL);
	assert_int_equal(rdmamsg_srq_create(client.ctx, &o, &ep.srq), 0);
	many_dial(&ep);
	WAIT_FOR(client.closed == 1);
	assert_int_equal(client.last_error, -EINVAL);
	snprintf(want, sizeof(want), "depth %u of a shared receive queue",
		 o.depth);
	assert_non_null(strstr(client.last_text, want));
	rdmamsg_srq_destroy(ep.srq);
	many_finish();
}

static void sge__within_the_device_WORKS(void **state)
{
	struct rdmamsg_srq_options o = { .size = sizeof(o), .sge = 2 };
	struct rdmamsg_ep_options ep = many_ep_options();

	many_start(&o);
	many_connect(1);
	many_send(&client.conns[0], 100, 64);
	WAIT_FOR(server.received == 100);
	many_finish();
	if (!test_on_soft())
		return;
	o.sge = 255;
	many_start(NULL);
	assert_int_equal(rdmamsg_srq_create(client.ctx, &o, &ep.srq), 0);
	many_dial(&ep);
	WAIT_FOR(client.closed == 1);
	assert_int_equal(client.last_error, -EINVAL);
	assert_non_null(strstr(client.last_text, "sge 255"));
	rdmamsg_srq_destroy(ep.srq);
	many_finish();
}

/* ---- a pool of the program -------------------------------------------- */

static struct rdmamsg_pool_stats pool_stats(void)
{
	struct rdmamsg_pool_stats s = { .size = sizeof(s) };

	assert_int_equal(rdmamsg_pool_get_stats(pool, &s), 0);
	return s;
}

static void start_with_pool(struct rdmamsg_srq_options *o, size_t max_bytes)
{
	struct rdmamsg_pool_options po = {
		.size = sizeof(po), .max_bytes = max_bytes,
	};

	many_open();
	assert_int_equal(rdmamsg_pool_create(server.ctx, &po, &pool), 0);
	o->recv_pool = pool;
	many_listen(o);
}

/* Destroys the queue, which the listener uses as well, and then the pool. */
static void finish_with_pool(void)
{
	many_close();
	rdmamsg_listener_close(listener);
	assert_error(rdmamsg_pool_destroy(pool), -EBUSY, "shared receive");
	rdmamsg_srq_destroy(srq);
	assert_int_equal(pool_stats().used, 0);
	assert_int_equal(rdmamsg_pool_destroy(pool), 0);
	test_close(client.ctx);
	test_close(server.ctx);
}

static void pool__of_the_program_IS_USED(void **state)
{
	struct rdmamsg_srq_options o = { .size = sizeof(o), .depth = 128 };

	start_with_pool(&o, SIZE_MAX);
	echoes = true;
	assert_int_equal(pool_stats().bytes, 0);
	many_connect(4);
	assert_true(pool_stats().used >= many_stats().posted);
	assert_true(pool_stats().bytes >= many_stats().bytes_pinned);
	for (unsigned int i = 0; i < 4; i++)
		many_send(&client.conns[i], 300, 0);
	WAIT_FOR(client.received == 1200);
	/* large messages are read into the pool as well */
	echoes = false;
	for (unsigned int i = 0; i < 4; i++)
		many_send(&client.conns[i], 10, 20000);
	WAIT_FOR(server.received == 1240);
	assert_int_equal(pool_stats().received_rendezvous, 40);
	finish_with_pool();
}

static void pool__at_its_cap_NEXT_IS_REFUSED(void **state)
{
	/* a batch of 32 and 10 for each endpoint: 42, then 32 more at once */
	struct rdmamsg_srq_options o = { .size = sizeof(o), .depth = 1024 };

	start_with_pool(&o, 512 << 10);
	many_connect(1);
	many_dial(NULL);
	WAIT_FOR(client.closed == 1);
	assert_int_equal(many_stats().refused, 1);
	assert_int_equal(many_stats().endpoints, 1);
	assert_true(pool_stats().bytes <= 512 << 10);
	many_send(&client.conns[0], 100, 64);
	WAIT_FOR(server.received == 100);
	/* closing the first endpoint makes room again */
	rdmamsg_ep_close(client.conns[0].ep);
	WAIT_FOR(client.closed == 2 && server.closed >= 1);
	many_dial(NULL);
	WAIT_FOR(client.connected == 2);
	many_send(&client.conns[2], 100, 64);
	WAIT_FOR(server.received == 200);
	assert_int_equal(many_stats().ran_empty, 0);
	server.closed = server.opened - 1;
	finish_with_pool();
}

/*
 * An endpoint that uses its share wants more than the cap leaves: 16 buffers
 * when 8 are left. The next endpoint needs 7 of them.
 */
static void pool__too_little_for_one_NEXT_IS_ACCEPTED(void **state)
{
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 1024, .floor = 1,
		.buffer_size = (64 << 10) - 16,
	};

	/* 39 receives at first, then 4, 4 and 7, for a share of 16 */
	start_with_pool(&o, (54 + 8) * (size_t)(64 << 10));
	many_connect(1);
	many_send(&client.conns[0], 500, 64);
	WAIT_FOR(server.received == 500);
	assert_true(pool_stats().refused > 0);
	many_connect(2);
	assert_int_equal(many_stats().refused, 0);
	many_send(&client.conns[1], 100, 64);
	WAIT_FOR(server.received == 600);
	assert_int_equal(many_stats().ran_empty, 0);
	finish_with_pool();
}

static void pool__that_does_not_fit_EINVAL(void **state)
{
	struct rdmamsg_srq_options o = { .size = sizeof(o) };
	struct rdmamsg_options opts = { .size = sizeof(opts), .srq = &o };
	struct rdmamsg *ctx = test_open(NULL), *other = test_open(NULL);
	struct rdmamsg_pool_options po = {
		.size = sizeof(po), .max_bytes = 200000,
	};

	assert_int_equal(rdmamsg_pool_create(other, NULL, &o.recv_pool), 0);
	assert_error(rdmamsg_srq_create(ctx, &o, &srq), -EINVAL,
		     "another context");
	assert_int_equal(rdmamsg_open(&ctx, &opts), -EINVAL);
	assert_int_equal(rdmamsg_pool_destroy(o.recv_pool), 0);
	assert_int_equal(rdmamsg_pool_create(ctx, &po, &o.recv_pool), 0);
	assert_error(rdmamsg_srq_create(ctx, &o, &srq), -EINVAL, "max_bytes");
	assert_int_equal(rdmamsg_pool_destroy(o.recv_pool), 0);
}

/* ---- completion queues ------------------------------------------------ */

static void cq__of_its_own_WORKS(void **state)
{
	struct rdmamsg_ep_options ep = many_ep_options();

	many_start(NULL);
	ep.flags = RDMAMSG_EP_OWN_CQ;
	many_dial(&ep);
	many_dial(NULL);
	many_dial(&ep);
	WAIT_FOR(client.connected == 3);
	for (int i = 0; i < 3; i++)
		many_send(&client.conns[i], 200, 0);
	WAIT_FOR(server.received == 600);
	rdmamsg_ep_abort(client.conns[0].ep);
	WAIT_FOR(client.closed == 1);
	many_send(&client.conns[2], 200, 0);
	WAIT_FOR(server.received == 800);
	many_finish();
}

static void cq__vector_that_is_none_EINVAL(void **state)
{
	struct rdmamsg_ep_options ep = many_ep_options();

	many_start(NULL);
	ep.tuning = TUNING(.comp_vector = 60000);
	many_dial(&ep);
	WAIT_FOR(client.closed == 1);
	assert_int_equal(client.last_error, -EINVAL);
	assert_non_null(strstr(client.last_text, "comp_vector"));
	many_finish();
}

/* ---- estimates -------------------------------------------------------- */

static uint64_t registered(const struct side *s)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_get_stats(s->ctx, &st), 0);
	return st.bytes_registered;
}

static void estimate__of_idle_ones_IS_WHAT_THEY_TAKE(void **state)
{
	struct rdmamsg_srq_options o = { .size = sizeof(o), .depth = 512 };
	struct rdmamsg_memory_estimate own = { .size = sizeof(own) };
	struct rdmamsg_memory_estimate one = { .size = sizeof(one) };

	many_start(&o);
	many_connect(20);
	assert_int_equal(rdmamsg_estimate(NULL, NULL, 20, &own), 0);
	assert_int_equal(rdmamsg_estimate(NULL, &o, 20, &one), 0);
	assert_int_equal(registered(&client), own.pinned_idle);
	/* receives added one by one may waste a part of a slab */
	assert_in_range(registered(&server), one.pinned_idle / 2,
			2 * one.pinned_idle);
	assert_true(own.pinned_most > own.pinned_idle);
	assert_true(one.pinned_most > one.pinned_idle);
	assert_true(one.pinned_most < own.pinned_most);
	many_finish();
}

static void estimate__bad_options_EINVAL(void **state)
{
	struct rdmamsg_memory_estimate e = { .size = sizeof(e) };
	struct rdmamsg_ep_options ep = many_ep_options();
	struct rdmamsg_srq_options o = { .size = sizeof(o), .depth = 1 };

	assert_error(rdmamsg_estimate(NULL, &o, 1, &e), -EINVAL, "depth");
	ep.tuning = TUNING(.recv_depth = 1 << 20);
	assert_error(rdmamsg_estimate(&ep, NULL, 1, &e), -EINVAL, "recv_depth");
	assert_error(rdmamsg_estimate(NULL, NULL, 1, NULL), -EINVAL, "struct");
	/* the largest options and count that the estimate accepts */
	ep.tuning = TUNING(.recv_depth = 65536, .eager_max = 1 << 20);
	assert_int_equal(rdmamsg_estimate(&ep, NULL, 1u << 23, &e), 0);
	assert_true(e.pinned_idle >> 60);
	assert_error(rdmamsg_estimate(&ep, NULL, (1u << 23) + 1, &e), -EINVAL,
		     "at most");
	assert_error(rdmamsg_estimate(NULL, NULL, UINT32_MAX, &e), -EINVAL,
		     "at most");
	assert_int_equal(rdmamsg_estimate(NULL, NULL, 0, &e), 0);
	assert_int_equal(e.pinned_most, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(options__out_of_range_EINVAL),
		TEST(options__of_another_context_EINVAL),
		TEST(options__beyond_the_device_EINVAL),
		TEST(sge__within_the_device_WORKS),
		TEST(pool__of_the_program_IS_USED),
		TEST(pool__at_its_cap_NEXT_IS_REFUSED),
		TEST(pool__too_little_for_one_NEXT_IS_ACCEPTED),
		TEST(pool__that_does_not_fit_EINVAL),
		TEST(cq__of_its_own_WORKS),
		TEST(cq__vector_that_is_none_EINVAL),
		TEST(estimate__of_idle_ones_IS_WHAT_THEY_TAKE),
		TEST(estimate__bad_options_EINVAL),
	};

	return test_main(tests, NULL, argc, argv);
}
