/* SPDX-License-Identifier: BSD-2-Clause */
/* Buffers and their accounting, over a table of verbs that access no device. */
#include "base/ctx.h"
#include "base/list.h"
#include "base/poison.h"
#include "base/timer.h"
#include "device/device.h"
#include "device/verbs_api.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/stretch.h"
#include "memory/large.h"
#include "session/lent.h"
#include "wire/proto.h"
#include "../../integration/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static int regions, fail_reg;

static struct ibv_mr *fake_reg(struct ibv_pd *pd, void *addr, size_t len,
			       int access)
{
	struct ibv_mr *mr;

	/* a pool's memory permits no remote access */
	assert_int_equal(access, IBV_ACCESS_LOCAL_WRITE);
	if (fail_reg) {
		errno = fail_reg;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	mr->addr = addr;
	mr->length = len;
	mr->lkey = (uint32_t)++regions;
	return mr;
}

static int fake_dereg(struct ibv_mr *mr)
{
	regions--;
	free(mr);
	return 0;
}

static const struct verbs_api fake = {
	.reg_mr = fake_reg, .dereg_mr = fake_dereg,
};

static struct rdmamsg *ctx;
static struct rdmamsg_device device;
static struct dev dev;

static int set_up(void **state)
{
	struct rdmamsg_options opts = {
		.size = sizeof(opts), .max_registered = 8 << 20,
		.max_send_registered = 4 << 20,
	};

	regions = fail_reg = 0;
	if (rdmamsg_open(&ctx, &opts))
		return -1;
	memset(&device, 0, sizeof(device));
	device.v = &fake;
	device.kind = KIND_ROCE;
	memset(&dev, 0, sizeof(dev));
	dev.ctx = ctx;
	dev.device = &device;
	list_init(&dev.cqs);
	list_init(&dev.recv_pools);
	list_init(&dev.send_pools);
	list_init(&dev.large);
	list_init(&dev.loose);
	return 0;
}

static int tear_down(void **state)
{
	rdmamsg__spares_drop(&dev);
	rdmamsg__pools_dereg(&dev.recv_pools);
	rdmamsg__pools_free(&dev.recv_pools);
	if (regions || rdmamsg__registered(ctx))
		return -1;
	rdmamsg_close(ctx);
	return 0;
}

static struct pool *get(size_t size)
{
	struct pool *pool;

	assert_int_equal(rdmamsg__pool_get(&dev, DIR_IN, NULL, size, &pool),
			 0);
	return pool;
}

static void pool__sizes_ARE_CLASSES(void **state)
{
	struct pool *a = get(4097), *b = get(8192);
	struct pool *c = get(8193), *d = get(16384);

	assert_ptr_equal(a, b);
	assert_ptr_equal(c, d);
	assert_ptr_not_equal(a, c);
	assert_int_equal(a->buf_size, 8192);
	assert_int_equal(c->buf_size, 16384);
}

static void pool__grown_GIVES_SO_MANY(void **state)
{
	struct pool *pool = get(8192);
	struct rdmamsg_msg *msgs[200];
	uint32_t n = 0;

	assert_null(rdmamsg__pool_take(pool));
	assert_int_equal(rdmamsg__pool_grow(pool, 100, NULL), 0);
	while ((msgs[n] = rdmamsg__pool_take(pool))) {
		/* buffers do not overlap, to the last byte */
		memset(msgs[n]->buf, (int)n, pool->buf_size);
		assert_ptr_equal(msgs[n]->data, msgs[n]->buf + PROTO_HDR_LEN);
		assert_int_equal(msgs[n]->room, pool->buf_size - PROTO_HDR_LEN);
		n++;
	}
	assert_int_equal(n, 100);
	assert_int_equal(pool->used, 100);
	assert_int_equal(rdmamsg__registered(ctx), 100 * 8192);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(msgs[i]->buf[0], i);
		assert_int_equal(msgs[i]->buf[pool->buf_size - 1], i);
		rdmamsg__pool_return(msgs[i]);
	}
	assert_int_equal(pool->used, 0);
	/* the pool hands out the buffer returned last first */
	assert_ptr_equal(rdmamsg__pool_take(pool), msgs[n - 1]);
	rdmamsg__pool_return(msgs[n - 1]);
}

static void pool__limit_ENOBUFS(void **state)
{
	struct pool *pool = get(8192);

	assert_int_equal(rdmamsg__pool_grow(pool, 512, NULL), 0);
	assert_int_equal(rdmamsg__registered(ctx), 4 << 20);
	assert_int_equal(rdmamsg__pool_grow(pool, 1, NULL), -ENOBUFS);
	assert_non_null(strstr(rdmamsg_error(), "max_registered"));
	assert_int_equal(rdmamsg__registered(ctx), 4 << 20);
	assert_int_equal(pool->total, 512);
}

/* The error text names the remedy for the call that failed. */
static void pool__register_fails_SAYS_WHAT_TO_DO(void **state)
{
	struct pool *pool = get(8192);

	fail_reg = ENOMEM;
	assert_int_equal(rdmamsg__pool_grow(pool, 1, NULL), -ENOMEM);
	assert_non_null(strstr(rdmamsg_error(), "registering memory"));
	fail_reg = EACCES;
	assert_int_equal(rdmamsg__pool_grow(pool, 1, NULL), -EACCES);
	assert_non_null(strstr(rdmamsg_error(), "/dev/infiniband"));
	assert_int_equal(rdmamsg__registered(ctx), 0);
	assert_int_equal(pool->total, 0);
}

static struct large *large(size_t size)
{
	struct large *l;

	assert_int_equal(rdmamsg__large_get(&dev, DIR_IN, size, 0, &l), 0);
	return l;
}

static size_t spare(void)
{
	return ctx->memory->budget[DIR_IN].spare;
}

static void large__put_IS_FOUND_AGAIN(void **state)
{
	struct large *a = large(100000), *b;

	assert_int_equal(a->stretch.size, 131072);
	rdmamsg__large_put(a);
	assert_int_equal(spare(), 131072);
	b = large(131072);
	assert_ptr_equal(a, b);
	assert_int_equal(spare(), 0);
	rdmamsg__large_put(b);
}

/* A request frees spares of other sizes before it fails. */
static void large__spares_in_the_way_GO(void **state)
{
	struct large *l[3];

	for (int i = 0; i < 3; i++)
		l[i] = large(1 << 20);
	assert_int_equal(rdmamsg__large_get(&dev, DIR_IN, 2 << 20, 0, &l[0]),
			 -ENOBUFS);
	for (int i = 0; i < 3; i++)
		rdmamsg__large_put(l[i]);
	assert_int_equal(rdmamsg__registered(ctx), 3 << 20);
	l[0] = large(4 << 20);
	assert_int_equal(rdmamsg__registered(ctx), 4 << 20);
	rdmamsg__large_put(l[0]);
}

/* A request frees only the spares that it needs, the oldest first. */
static void large__spares_beside_it_STAY(void **state)
{
	struct large *l[3], *more;

	for (int i = 0; i < 3; i++)
		l[i] = large(1 << 20);
	for (int i = 0; i < 3; i++)
		rdmamsg__large_put(l[i]);
	more = large(2 << 20);
	assert_int_equal(spare(), 2 << 20);
	assert_int_equal(rdmamsg__registered(ctx), 4 << 20);
	assert_ptr_equal(list_first(&dev.large, struct large, node), l[2]);
	/* a request that cannot succeed frees no spare */
	assert_int_equal(rdmamsg__large_get(&dev, DIR_IN, 3 << 20, 0, &l[0]),
			 -ENOBUFS);
	assert_int_equal(spare(), 2 << 20);
	rdmamsg__large_put(more);
}

/* If its size class does not fit the budget, a message takes its exact size. */
static void large__class_too_large_TAKES_WHAT_FITS(void **state)
{
	struct large *l = large(1 << 20), *odd = large((2 << 20) + 1);

	assert_int_equal(odd->stretch.size,
			 (2 << 20) + sysconf(_SC_PAGESIZE));
	rdmamsg__large_put(odd);
	rdmamsg__large_put(l);
}

/* The process has nothing to do for this time. */
static void rest(uint32_t ms)
{
	for (uint32_t step; ms; ms -= step) {
		step = ms < 500 ? ms : 500;
		clock_pass(step);
		while (rdmamsg_process(ctx) > 0)
			;
	}
}

/* A spare that nothing has used for some seconds is the system's again. */
static void large__unused_for_seconds_GOES(void **state)
{
	struct large *in = large(1 << 20), *out;

	assert_int_equal(rdmamsg__large_get(&dev, DIR_OUT, 1 << 20, 0, &out),
			 0);
	rest(20000);
	rdmamsg__large_put(in);
	rdmamsg__large_put(out);
	rest(3900);
	assert_int_equal(rdmamsg__registered(ctx), 2 << 20);
	rest(4600);
	assert_int_equal(rdmamsg__registered(ctx), 0);
	assert_int_equal(spare(), 0);
	assert_true(ctx->memory->cool.pos < 0);
}

static void large__used_now_and_then_STAYS(void **state)
{
	struct large *hot = large(1 << 20), *cold = large(2 << 20), *l = hot;

	rdmamsg__large_put(cold);
	for (int i = 0; i < 10; i++) {
		rdmamsg__large_put(hot);
		rest(3000);
		assert_true(spare() >= 1 << 20);
		hot = large(1 << 20);
		assert_ptr_equal(hot, l);
	}
	assert_int_equal(rdmamsg__registered(ctx), 1 << 20);
	rdmamsg__large_put(hot);
}

/* The program has asked for the memory of its pools. */
static void pool__of_the_program_unused_for_seconds_STAYS(void **state)
{
	struct rdmamsg_pool owner = {
		.ctx = ctx, .opts.max_bytes = 512 << 10,
	};
	struct pool *pool;
	struct rdmamsg_msg *msg;

	assert_int_equal(rdmamsg__pool_get(&dev, DIR_IN, &owner, 4096, &pool),
			 0);
	assert_int_equal(rdmamsg__pool_grow(pool, 1, NULL), 0);
	msg = rdmamsg__pool_take(pool);
	rdmamsg__large_put(large(1 << 20));
	rdmamsg__pool_return(msg);
	rest(20000);
	assert_int_equal(rdmamsg__registered(ctx), owner.bytes);
	assert_true(owner.bytes > 0);
	assert_true(ctx->memory->cool.pos < 0);
	rdmamsg__pool_free(pool);
}

/* Sending and receiving have separate budgets. */
static void large__of_the_other_direction_IS_FREE(void **state)
{
	struct large *in = large(4 << 20), *out;

	assert_int_equal(rdmamsg__large_get(&dev, DIR_IN, 1, 0, &out), -ENOBUFS);
	assert_non_null(strstr(rdmamsg_error(), "for receiving"));
	assert_int_equal(rdmamsg__large_get(&dev, DIR_OUT, 4 << 20, 0, &out), 0);
	rdmamsg__large_put(in);
	/* sending does not reuse spares of receiving */
	assert_int_equal(rdmamsg__large_get(&dev, DIR_OUT, 4 << 20, 0, &in),
			 -ENOBUFS);
	assert_non_null(strstr(rdmamsg_error(), "for sending"));
	rdmamsg__large_put(out);
}

static struct rdmamsg_msg *take(struct pool *pool)
{
	struct rdmamsg_msg *msg = rdmamsg__pool_take(pool);

	if (!msg && !rdmamsg__pool_grow(pool, 1, NULL))
		msg = rdmamsg__pool_take(pool);
	return msg;
}

/* A slab without buffers in use makes room for other sizes. */
static void pool__unused_slabs_GIVE_ROOM(void **state)
{
	struct pool *pool = get(8192);
	struct rdmamsg_msg *msgs[512];
	struct large *l;

	for (int i = 0; i < 512; i++)
		msgs[i] = take(pool);
	assert_non_null(msgs[511]);
	assert_null(take(pool));
	assert_int_equal(rdmamsg__large_get(&dev, DIR_IN, 1 << 20, 0, &l),
			 -ENOBUFS);
	/* one buffer stays in use, and so does its slab */
	for (int i = 1; i < 512; i++)
		rdmamsg__pool_return(msgs[i]);
	l = large(3 << 20);
	assert_int_equal(pool->used, 1);
	rdmamsg__pool_return(msgs[0]);
	rdmamsg__large_put(l);
}

/* A pool that an endpoint uses keeps its last slab. */
static void pool__last_slab_of_a_user_STAYS(void **state)
{
	struct pool *pool = get(8192);
	struct large *l;

	rdmamsg__pool_use(pool, false);
	rdmamsg__pool_return(take(pool));
	assert_int_equal(spare(), 0);
	assert_int_equal(rdmamsg__large_get(&dev, DIR_IN, 4 << 20, 0, &l),
			 -ENOBUFS);
	rdmamsg__pool_unuse(pool);
	assert_int_equal(spare(), 256 << 10);
	l = large(4 << 20);
	assert_int_equal(pool->total, 0);
	rdmamsg__large_put(l);
}

/* A program's pool at max_bytes frees unused slabs of its other sizes. */
static void pool__at_its_cap_OTHER_SIZES_GO(void **state)
{
	struct rdmamsg_pool owner = {
		.ctx = ctx, .opts.max_bytes = 512 << 10,
	};
	struct rdmamsg_msg *small, *other;
	struct pool *a, *b;
	bool waits = false;

	assert_int_equal(rdmamsg__pool_get(&dev, DIR_IN, &owner, 4096, &a), 0);
	assert_int_equal(rdmamsg__pool_get(&dev, DIR_IN, &owner, 65536, &b), 0);
	small = take(a);
	other = take(b);
	assert_int_equal(owner.bytes, 512 << 10);
	assert_int_equal(rdmamsg__pool_grow(b, 1, &waits), -ENOBUFS);
	assert_int_equal(rdmamsg__pool_grow(b, 1, &waits), -ENOBUFS);
	assert_int_equal(owner.refused, 1);
	rdmamsg__pool_return(small);
	assert_int_equal(rdmamsg__pool_grow(b, 1, &waits), 0);
	assert_int_equal(a->total, 0);
	assert_int_equal(owner.bytes, 512 << 10);
	rdmamsg__pool_return(other);
	rdmamsg__pool_free(a);
	rdmamsg__pool_free(b);
	assert_int_equal(owner.bytes, 0);
}

/* Receives leave memory for the largest message announced to a peer. */
static void pool__of_receives_LEAVES_ROOM_FOR_ONE_MESSAGE(void **state)
{
	struct pool *pool = get(8192);
	struct large *l;

	rdmamsg__pool_use(pool, true);
	assert_int_equal(rdmamsg__budget_largest(ctx, 100), 100);
	assert_int_equal(rdmamsg__budget_largest(ctx, UINT32_MAX), 2 << 20);
	rdmamsg__budget_announce(ctx, 2 << 20);
	rdmamsg__budget_announce(ctx, 1 << 20);
	assert_int_equal(rdmamsg__pool_grow(pool, 256, NULL), 0);
	assert_int_equal(rdmamsg__pool_room(pool, 100), 1);
	assert_int_equal(rdmamsg__pool_grow(pool, 1, NULL), -ENOBUFS);
	assert_non_null(strstr(rdmamsg_error(), "max_msg_size"));
	l = large(2 << 20);
	rdmamsg__large_put(l);
	rdmamsg__budget_withdraw(ctx, 1 << 20);
	assert_int_equal(rdmamsg__pool_grow(pool, 1, NULL), -ENOBUFS);
	rdmamsg__budget_withdraw(ctx, 2 << 20);
	assert_int_equal(rdmamsg__pool_grow(pool, 1, NULL), 0);
	rdmamsg__pool_unuse(pool);
}

/* Spare receives of closed endpoints count as room for the largest message. */
static void pool__spares_of_receives_COUNT_AS_ROOM(void **state)
{
	struct pool *pool = get(8192);
	struct large *l;

	rdmamsg__pool_use(pool, true);
	assert_int_equal(rdmamsg__pool_grow(pool, 320, NULL), 0);
	assert_int_equal(rdmamsg__budget_largest(ctx, UINT32_MAX), 768 << 10);
	rdmamsg__pool_unuse(pool);
	assert_int_equal(rdmamsg__budget_largest(ctx, UINT32_MAX), 2 << 20);
	rdmamsg__budget_announce(ctx, 2 << 20);
	/* a pool may post its spare buffers again */
	assert_true(ctx->memory->budget[DIR_IN].posted <= 2 << 20);
	l = large(2 << 20);
	rdmamsg__large_put(l);
	rdmamsg__budget_withdraw(ctx, 2 << 20);
}

/*
 * A slab in use for sending keeps its memory; other sending memory is
 * available.
 */
static void out__beside_pools_FITS_OR_NOT(void **state)
{
	struct pool *pool;
	struct large *l;

	list_add_tail(&ctx->devices->devs, &dev.node);
	assert_int_equal(rdmamsg__pool_get(&dev, DIR_OUT, NULL, 8192, &pool),
			 0);
	rdmamsg__pool_use(pool, false);
	assert_int_equal(rdmamsg__pool_grow(pool, 100, NULL), 0);
	assert_true(rdmamsg__out_fits(ctx, (4 << 20) - (256 << 10)));
	assert_false(rdmamsg__out_fits(ctx, 4 << 20));
	assert_int_equal(rdmamsg__large_get(&dev, DIR_OUT, 2 << 20, 0, &l), 0);
	assert_true(rdmamsg__out_fits(ctx, (4 << 20) - (256 << 10)));
	rdmamsg__large_put(l);
	rdmamsg__pool_unuse(pool);
	rdmamsg__pool_free(pool);
	list_del(&dev.node);
}

static void large__beyond_what_is_kept_IS_FREED(void **state)
{
	struct large *l[2];

	ctx->memory->budget[DIR_IN].cap = 256 << 20;
	l[0] = large(40 << 20);
	l[1] = large(65 << 20);
	assert_int_equal(l[1]->stretch.size, 65 << 20);
	rdmamsg__large_put(l[1]);
	assert_int_equal(spare(), 0);
	rdmamsg__large_put(l[0]);
	assert_int_equal(spare(), 64 << 20);
}

/* A large message is registered step by step as it arrives. */
static void sink__in_steps_AS_FAR_AS_BELIEVED(void **state)
{
	struct large *l;
	uint32_t lkey, first;
	size_t end;

	ctx->memory->budget[DIR_IN].cap = 256 << 20;
	l = large(64 << 20);
	assert_int_equal(regions, 0);
	assert_int_equal(rdmamsg__sink_ready(&l->sink, &dev, 0, 0, &first,
					     &end), 0);
	assert_int_equal(regions, 1);
	assert_int_equal(end, 1 << 20);
	/* EAGAIN, because none of the first step has arrived */
	assert_int_equal(rdmamsg__sink_ready(&l->sink, &dev, 1 << 20, 0, &lkey,
					     &end), -EAGAIN);
	assert_int_equal(rdmamsg__sink_ready(&l->sink, &dev, 1 << 20, 1 << 20,
					     &lkey, &end), 0);
	assert_int_not_equal(lkey, first);
	assert_int_equal(end, 2 << 20);
	assert_int_equal(rdmamsg__sink_ready(&l->sink, &dev, 63 << 20, 2 << 20,
					     &lkey, &end), -EAGAIN);
	assert_int_equal(rdmamsg__sink_ready(&l->sink, &dev, 63 << 20, 60 << 20,
					     &lkey, &end), 0);
	assert_int_equal(end, 64 << 20);
	assert_int_equal(regions, 7);
	/* the first step stays registered */
	assert_int_equal(rdmamsg__sink_ready(&l->sink, &dev, 100, 0, &lkey,
					     &end), 0);
	assert_int_equal(lkey, first);
	rdmamsg__large_put(l);
}

static void msg__lent_and_back_COUNTS(void **state)
{
	struct rdmamsg_msg *msg;

	assert_int_equal(rdmamsg__msg_large(&dev, DIR_OUT, 70000, 0, &msg), 0);
	assert_int_equal(rdmamsg_msg_len(msg), 70000);
	rdmamsg__msg_lend(msg, NULL);
	assert_int_equal(dev.msgs_out, 1);
	assert_int_equal(rdmamsg_msg_set_len(msg, 131073), -EINVAL);
	assert_int_equal(rdmamsg_msg_set_len(msg, 131072), 0);
	rdmamsg_msg_free(msg);
	assert_int_equal(dev.msgs_out, 0);
	assert_int_equal(ctx->memory->budget[DIR_OUT].spare, 131072);
}

/* The program frees a message after its device is closed. */
static void msg__after_the_device_IS_FREED(void **state)
{
	struct rdmamsg_msg *msg;

	assert_int_equal(rdmamsg__msg_large(&dev, DIR_OUT, 70000, 0, &msg), 0);
	rdmamsg__msg_lend(msg, NULL);
	rdmamsg__msgs_dereg(&dev);
	assert_int_equal(regions, 0);
	dev.device = NULL;
	memset(rdmamsg_msg_data(msg), 1, rdmamsg_msg_len(msg));
	rdmamsg_msg_free(msg);
	/* dev is not in the context's list */
	ctx->devices->reap = false;
	assert_int_equal(rdmamsg__registered(ctx), 0);
	assert_true(list_empty(&dev.loose));
	dev.device = &device;
}

/*
 * A message in another device's send queue keeps the memory of its own device.
 */
static void dev__closed_with_a_message_under_way_WAITS(void **state)
{
	struct dev *other = calloc(1, sizeof(*other));
	struct rdmamsg_msg *large, *small;
	struct pool *pool;

	*other = dev;
	list_init(&other->cqs);
	list_init(&other->recv_pools);
	list_init(&other->send_pools);
	list_init(&other->large);
	list_init(&other->loose);
	rdmamsg__timer_init(&other->linger, NULL);
	list_add_tail(&ctx->devices->devs, &other->node);
	assert_int_equal(rdmamsg__msg_large(other, DIR_IN, 70000, 0, &large), 0);
	assert_int_equal(rdmamsg__pool_get(other, DIR_OUT, NULL, 1, &pool),
			 0);
	assert_int_equal(rdmamsg__pool_grow(pool, 1, NULL), 0);
	small = rdmamsg__pool_take(pool);
	/* dev_release() leaves a device in this state */
	rdmamsg__msgs_dereg(other);
	rdmamsg__pools_dereg(&other->send_pools);
	other->device = NULL;

	rdmamsg__dev_close(other);
	assert_false(list_empty(&ctx->devices->devs));
	memset(rdmamsg_msg_data(large), 1, 70000);
	rdmamsg__msg_put(large);
	assert_true(ctx->devices->reap);
	rdmamsg__devs_reap(ctx);
	assert_false(list_empty(&ctx->devices->devs));
	memset(rdmamsg_msg_data(small), 1, small->room);
	rdmamsg__msg_put(small);
	assert_true(ctx->devices->reap);
	rdmamsg__devs_reap(ctx);
	assert_true(list_empty(&ctx->devices->devs));
}

/* ---- lists ------------------------------------------------------------ */

struct item {
	int id;
	struct list node;
};

static void list__in_order_AND_GONE(void **state)
{
	struct item items[4] = { { 0 }, { 1 }, { 2 }, { 3 } };
	struct list head, *n, *t;
	int next = 0;

	list_init(&head);
	assert_true(list_empty(&head));
	for (int i = 0; i < 4; i++)
		list_add_tail(&head, &items[i].node);
	list_for_each(n, &head)
		assert_int_equal(list_entry(n, struct item, node)->id, next++);
	assert_int_equal(next, 4);
	assert_int_equal(list_first(&head, struct item, node)->id, 0);
	list_for_each_safe(n, t, &head)
		if (list_entry(n, struct item, node)->id % 2)
			list_del(n);
	list_del(&items[1].node);	/* a second list_del() is harmless */
	assert_true(list_empty(&items[1].node));
	assert_ptr_equal(head.next, &items[0].node);
	assert_ptr_equal(head.prev, &items[2].node);
	list_for_each_safe(n, t, &head)
		list_del(n);
	assert_true(list_empty(&head));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

/* AddressSanitizer poisons the buffers that are in the pool. */
static void return__buffer_CANNOT_BE_TOUCHED(void **state)
{
#ifdef POISON_ASAN
	struct pool *pool;
	struct rdmamsg_msg *msg;
	uint8_t *buf;

	pool = get(8192);
	assert_int_equal(rdmamsg__pool_grow(pool, 1, NULL), 0);
	buf = list_first(&pool->free_slabs, struct slab, free_node)->free->buf;
	assert_true(__asan_address_is_poisoned(buf));
	msg = rdmamsg__pool_take(pool);
	assert_ptr_equal(msg->buf, buf);
	assert_null(__asan_region_is_poisoned(buf, pool->buf_size));
	rdmamsg__pool_return(msg);
	assert_true(__asan_address_is_poisoned(buf));
	assert_true(__asan_address_is_poisoned(buf + pool->buf_size - 1));
#else
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(pool__sizes_ARE_CLASSES),
		TEST(pool__grown_GIVES_SO_MANY),
		TEST(pool__limit_ENOBUFS),
		TEST(pool__register_fails_SAYS_WHAT_TO_DO),
		TEST(return__buffer_CANNOT_BE_TOUCHED),
		TEST(large__put_IS_FOUND_AGAIN),
		TEST(large__spares_in_the_way_GO),
		TEST(large__spares_beside_it_STAY),
		TEST(large__class_too_large_TAKES_WHAT_FITS),
		TEST(large__unused_for_seconds_GOES),
		TEST(large__used_now_and_then_STAYS),
		TEST(pool__of_the_program_unused_for_seconds_STAYS),
		TEST(large__of_the_other_direction_IS_FREE),
		TEST(large__beyond_what_is_kept_IS_FREED),
		TEST(sink__in_steps_AS_FAR_AS_BELIEVED),
		TEST(pool__unused_slabs_GIVE_ROOM),
		TEST(pool__last_slab_of_a_user_STAYS),
		TEST(pool__at_its_cap_OTHER_SIZES_GO),
		TEST(pool__of_receives_LEAVES_ROOM_FOR_ONE_MESSAGE),
		TEST(pool__spares_of_receives_COUNT_AS_ROOM),
		TEST(out__beside_pools_FITS_OR_NOT),
		TEST(msg__lent_and_back_COUNTS),
		TEST(msg__after_the_device_IS_FREED),
		TEST(dev__closed_with_a_message_under_way_WAITS),
		cmocka_unit_test(list__in_order_AND_GONE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
