/* SPDX-License-Identifier: BSD-2-Clause */
/* Buffers and their accounts, over a verbs table that only pretends. */
#include "internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static int regions, fail_reg;

static struct ibv_mr *fake_reg(struct ibv_pd *pd, void *addr, size_t len,
			       int access)
{
	struct ibv_mr *mr;

	/* nothing of a pool may be reached from outside */
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
		.size = sizeof(opts), .max_registered = 4 << 20,
	};

	regions = fail_reg = 0;
	if (rdmamsg_open(&ctx, &opts))
		return -1;
	memset(&device, 0, sizeof(device));
	device.v = &fake;
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
	rdmamsg__larges_free(&dev);
	rdmamsg__pools_dereg(&dev.recv_pools);
	rdmamsg__pools_free(&dev.recv_pools);
	if (regions || ctx->registered)
		return -1;
	rdmamsg_close(ctx);
	return 0;
}

static struct pool *get(size_t size)
{
	struct pool *pool;

	assert_int_equal(rdmamsg__pool_get(&dev, &dev.recv_pools, NULL, size,
					   &pool),
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
		/* each one's memory is its own, to the last byte */
		memset(msgs[n]->buf, (int)n, pool->buf_size);
		assert_ptr_equal(msgs[n]->data, msgs[n]->buf + PROTO_HDR_LEN);
		assert_int_equal(msgs[n]->room, pool->buf_size - PROTO_HDR_LEN);
		n++;
	}
	assert_int_equal(n, 100);
	assert_int_equal(pool->used, 100);
	assert_int_equal(ctx->registered, 100 * 8192);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(msgs[i]->buf[0], i);
		assert_int_equal(msgs[i]->buf[pool->buf_size - 1], i);
		rdmamsg__pool_return(msgs[i]);
	}
	assert_int_equal(pool->used, 0);
	/* the warmest first */
	assert_ptr_equal(rdmamsg__pool_take(pool), msgs[n - 1]);
	rdmamsg__pool_return(msgs[n - 1]);
}

static void pool__limit_ENOBUFS(void **state)
{
	struct pool *pool = get(8192);

	assert_int_equal(rdmamsg__pool_grow(pool, 512, NULL), 0);
	assert_int_equal(ctx->registered, 4 << 20);
	assert_int_equal(rdmamsg__pool_grow(pool, 1, NULL), -ENOBUFS);
	assert_non_null(strstr(rdmamsg_error(), "max_registered"));
	assert_int_equal(ctx->registered, 4 << 20);
	assert_int_equal(pool->total, 512);
}

/* The remedy in the text is that of whoever failed. */
static void pool__register_fails_SAYS_WHAT_TO_DO(void **state)
{
	struct pool *pool = get(8192);

	fail_reg = ENOMEM;
	assert_int_equal(rdmamsg__pool_grow(pool, 1, NULL), -ENOMEM);
	assert_non_null(strstr(rdmamsg_error(), "registering memory"));
	fail_reg = EACCES;
	assert_int_equal(rdmamsg__pool_grow(pool, 1, NULL), -EACCES);
	assert_non_null(strstr(rdmamsg_error(), "/dev/infiniband"));
	assert_int_equal(ctx->registered, 0);
	assert_int_equal(pool->total, 0);
}

static void large__put_IS_FOUND_AGAIN(void **state)
{
	struct large *a, *b;

	assert_int_equal(rdmamsg__large_get(&dev, 100000, &a), 0);
	assert_int_equal(a->size, 131072);
	rdmamsg__large_put(&dev, a);
	assert_int_equal(dev.large_bytes, 131072);
	assert_int_equal(rdmamsg__large_get(&dev, 131072, &b), 0);
	assert_ptr_equal(a, b);
	assert_int_equal(dev.large_bytes, 0);
	assert_int_equal(regions, 1);
	rdmamsg__large_put(&dev, b);
}

/* What is kept of other sizes goes before a request fails. */
static void large__kept_in_the_way_GO(void **state)
{
	struct large *l[3];

	list_add_tail(&ctx->devs, &dev.node);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rdmamsg__large_get(&dev, 1 << 20, &l[i]), 0);
	assert_int_equal(rdmamsg__large_get(&dev, 2 << 20, &l[0]), -ENOBUFS);
	for (int i = 0; i < 3; i++)
		rdmamsg__large_put(&dev, l[i]);
	assert_int_equal(regions, 3);
	assert_int_equal(rdmamsg__large_get(&dev, 4 << 20, &l[0]), 0);
	assert_int_equal(regions, 1);
	assert_int_equal(ctx->registered, 4 << 20);
	rdmamsg__large_put(&dev, l[0]);
	list_del(&dev.node);
}

/* No more of it than is needed, the coldest first. */
static void large__kept_beside_it_STAYS(void **state)
{
	struct large *l[3], *more;

	list_add_tail(&ctx->devs, &dev.node);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rdmamsg__large_get(&dev, 1 << 20, &l[i]), 0);
	for (int i = 0; i < 3; i++)
		rdmamsg__large_put(&dev, l[i]);
	assert_int_equal(rdmamsg__large_get(&dev, 2 << 20, &more), 0);
	assert_int_equal(dev.large_bytes, 2 << 20);
	assert_int_equal(ctx->registered, 4 << 20);
	assert_ptr_equal(list_first(&dev.large, struct large, node), l[2]);
	/* nothing goes for what cannot come */
	assert_int_equal(rdmamsg__large_get(&dev, 3 << 20, &l[0]), -ENOBUFS);
	assert_int_equal(dev.large_bytes, 2 << 20);
	rdmamsg__large_put(&dev, more);
	list_del(&dev.node);
}

/* Of a program's pool: three pieces of 256 KB, of which one has to go. */
static void pool__kept_beside_it_STAYS(void **state)
{
	struct rdmamsg_pool owner = {
		.ctx = ctx, .opts.max_bytes = SIZE_MAX,
	};
	struct rdmamsg_msg *used;
	struct pool *pool, *own;

	list_add_tail(&ctx->devs, &dev.node);
	assert_int_equal(rdmamsg__pool_get(&dev, &dev.recv_pools, &owner, 4096,
					   &own), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rdmamsg__pool_grow(own, 64, NULL), 0);
	pool = get(8192);
	assert_int_equal(rdmamsg__pool_grow(pool, 512 - 96, NULL), 0);
	assert_int_equal(ctx->registered, 4 << 20);
	assert_int_equal(rdmamsg__pool_grow(pool, 32, NULL), 0);
	assert_int_equal(own->total, 128);
	assert_int_equal(owner.bytes, 512 << 10);
	assert_int_equal(ctx->registered, 4 << 20);
	/* all that there is would not do */
	used = rdmamsg__pool_take(own);
	assert_int_equal(rdmamsg__pool_grow(pool, 64, NULL), -ENOBUFS);
	assert_int_equal(own->total, 128);
	rdmamsg__pool_return(used);
	rdmamsg__pool_free(own);
	list_del(&dev.node);
}

/* What pools have does not come back, what is large does. */
static void large__beside_pools_FITS_OR_NOT(void **state)
{
	struct large *l;

	assert_true(rdmamsg__large_fits(ctx, 4 << 20));
	assert_int_equal(rdmamsg__pool_grow(get(8192), 128, NULL), 0);
	assert_false(rdmamsg__large_fits(ctx, 4 << 20));
	assert_true(rdmamsg__large_fits(ctx, 2 << 20));
	assert_int_equal(rdmamsg__large_get(&dev, 2 << 20, &l), 0);
	assert_true(rdmamsg__large_fits(ctx, 2 << 20));
	rdmamsg__large_put(&dev, l);
	rdmamsg__larges_free(&dev);
	assert_true(rdmamsg__large_fits(ctx, 2 << 20));
	assert_false(rdmamsg__large_fits(ctx, 4 << 20));
}

static void large__beyond_what_is_kept_IS_FREED(void **state)
{
	struct large *l[2];

	ctx->opts.max_registered = 256 << 20;
	assert_int_equal(rdmamsg__large_get(&dev, 40 << 20, &l[0]), 0);
	assert_int_equal(rdmamsg__large_get(&dev, 65 << 20, &l[1]), 0);
	assert_int_equal(l[1]->size, 65 << 20);
	rdmamsg__large_put(&dev, l[1]);
	assert_int_equal(dev.large_bytes, 0);
	rdmamsg__large_put(&dev, l[0]);
	assert_int_equal(dev.large_bytes, 64 << 20);
}

static void msg__lent_and_back_COUNTS(void **state)
{
	struct rdmamsg_msg *msg;

	assert_int_equal(rdmamsg__msg_large(&dev, 70000, &msg), 0);
	assert_int_equal(rdmamsg_msg_len(msg), 70000);
	rdmamsg__msg_lend(msg);
	assert_int_equal(dev.msgs_out, 1);
	assert_int_equal(rdmamsg_msg_set_len(msg, 131073), -EINVAL);
	assert_int_equal(rdmamsg_msg_set_len(msg, 131072), 0);
	rdmamsg_msg_free(msg);
	assert_int_equal(dev.msgs_out, 0);
	assert_int_equal(dev.large_bytes, 131072);
}

/* Released after the device is closed: the memory goes, nothing else. */
static void msg__after_the_device_IS_FREED(void **state)
{
	struct rdmamsg_msg *msg;

	assert_int_equal(rdmamsg__msg_large(&dev, 70000, &msg), 0);
	rdmamsg__msg_lend(msg);
	rdmamsg__msgs_dereg(&dev);
	assert_int_equal(regions, 0);
	dev.device = NULL;
	memset(rdmamsg_msg_data(msg), 1, rdmamsg_msg_len(msg));
	rdmamsg_msg_free(msg);
	ctx->reap = false;		/* dev is not of the context */
	assert_int_equal(ctx->registered, 0);
	assert_true(list_empty(&dev.loose));
	dev.device = &device;
}

/* Sent through another device, it is nobody's, but its memory is needed. */
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
	list_add_tail(&ctx->devs, &other->node);
	assert_int_equal(rdmamsg__msg_large(other, 70000, &large), 0);
	assert_int_equal(rdmamsg__pool_get(other, &other->send_pools, NULL, 1,
					   &pool),
			 0);
	assert_int_equal(rdmamsg__pool_grow(pool, 1, NULL), 0);
	small = rdmamsg__pool_take(pool);
	/* as dev_release() leaves it */
	rdmamsg__msgs_dereg(other);
	rdmamsg__pools_dereg(&other->send_pools);
	other->device = NULL;

	rdmamsg__dev_close(other);
	assert_false(list_empty(&ctx->devs));
	memset(rdmamsg_msg_data(large), 1, 70000);
	rdmamsg__msg_put(large);
	assert_true(ctx->reap);
	rdmamsg__devs_reap(ctx);
	assert_false(list_empty(&ctx->devs));
	memset(rdmamsg_msg_data(small), 1, small->room);
	rdmamsg__msg_put(small);
	assert_true(ctx->reap);
	rdmamsg__devs_reap(ctx);
	assert_true(list_empty(&ctx->devs));
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
	list_del(&items[1].node);	/* again: harmless */
	assert_true(list_empty(&items[1].node));
	assert_ptr_equal(head.next, &items[0].node);
	assert_ptr_equal(head.prev, &items[2].node);
	list_for_each_safe(n, t, &head)
		list_del(n);
	assert_true(list_empty(&head));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

/* AddressSanitizer knows which buffers are anybody's. */
static void return__buffer_CANNOT_BE_TOUCHED(void **state)
{
#ifdef POISON_ASAN
	struct list pools;
	struct pool *pool;
	struct rdmamsg_msg *msg;
	uint8_t *buf;

	list_init(&pools);
	assert_int_equal(rdmamsg__pool_get(&dev, &pools, NULL, 8192, &pool), 0);
	assert_int_equal(rdmamsg__pool_grow(pool, 1, NULL), 0);
	buf = pool->free->buf;
	assert_true(__asan_address_is_poisoned(buf));
	msg = rdmamsg__pool_take(pool);
	assert_ptr_equal(msg->buf, buf);
	assert_null(__asan_region_is_poisoned(buf, pool->buf_size));
	rdmamsg__pool_return(msg);
	assert_true(__asan_address_is_poisoned(buf));
	assert_true(__asan_address_is_poisoned(buf + pool->buf_size - 1));
	rdmamsg__pools_free(&pools);
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
		TEST(large__kept_in_the_way_GO),
		TEST(large__kept_beside_it_STAYS),
		TEST(pool__kept_beside_it_STAYS),
		TEST(large__beside_pools_FITS_OR_NOT),
		TEST(large__beyond_what_is_kept_IS_FREED),
		TEST(msg__lent_and_back_COUNTS),
		TEST(msg__after_the_device_IS_FREED),
		TEST(dev__closed_with_a_message_under_way_WAITS),
		cmocka_unit_test(list__in_order_AND_GONE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
