/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations of a sender from, into and through layouts. */
#include "dc_halls.h"
#include "../dc_post.h"

#include <stdlib.h>

#include <rdmamsg/layout.h>

#define BLOCKS	100u
#define BLOCK	24u
#define NEAR_STEP	40u	/* from block to block */
#define FAR_STEP	64u
#define SPREAD	(BLOCKS * BLOCK)	/* bytes of both layouts */

/* Blocks of this side, or of the hall. */
static struct rdmamsg_layout *spread(struct rdmamsg *ctx,
				     struct rdmamsg_region *region,
				     uint64_t step, uint32_t access)
{
	const struct rdmamsg_layout_options opts = {
		.size = sizeof(opts), .access = access,
	};
	const struct rdmamsg_layout_part part = {
		.region = region, .len = BLOCK, .dims = 1, .count = { BLOCKS },
		.stride = { step },
	};
	struct rdmamsg_layout *l;

	assert_int_equal(rdmamsg_layout_create(ctx, &opts, &l), 0);
	assert_int_equal(rdmamsg_layout_define(l, &part, 1, 1), 0);
	return l;
}

static void import_key(const struct hall *h, struct rdmamsg_layout *l,
		       struct rdmamsg_key *ret)
{
	struct cookie c = { 0 };
	uint8_t buf[512];
	size_t len;

	assert_error(rdmamsg_dc_target_get_layout_key(h->target, l, buf, 31,
						      &len, &c), -EMSGSIZE,
		     "key");
	assert_error(rdmamsg_dc_target_get_layout_key(h->target, l, buf,
						      sizeof(buf), &len, NULL),
		     -EINVAL, "cookie");
	assert_int_equal(rdmamsg_dc_target_get_layout_key(h->target, l, buf,
							  sizeof(buf), &len,
							  &c), 0);
	WAIT_FOR(c.count);
	assert_int_equal(c.status, 0);
	assert_int_equal(rdmamsg_layout_import(near, buf, len, ret), 0);
}

/* Byte i of a layout. */
static uint8_t *byte_of(void *memory, uint64_t step, uint32_t i)
{
	return (uint8_t *)memory + i / BLOCK * step + i % BLOCK;
}

static void fill_spread(uint8_t seed)
{
	memset(local, 0, sizeof(local));
	for (uint32_t i = 0; i < SPREAD; i++)
		*byte_of(local, NEAR_STEP, i) = (uint8_t)(seed + i * 7);
}

/* Returns true if the hall has these bytes in its blocks, 0 between them. */
static bool has_spread(struct hall *h, uint8_t seed)
{
	static uint8_t expected[BYTES];

	memset(expected, 0, sizeof(expected));
	for (uint32_t i = 0; i < SPREAD; i++)
		*byte_of(expected, FAR_STEP, i) = (uint8_t)(seed + i * 7);
	return !memcmp(expected, h->memory, BLOCKS * FAR_STEP);
}

/* Writes from one layout into the other, and reads the bytes back. */
static void exchange_spread(struct hall *h, struct rdmamsg_layout *here,
			    const struct rdmamsg_key *key)
{
	const struct rdmamsg_sge all = {
		NULL, SPREAD, rdmamsg_layout_region(here),
	};
	struct rdmamsg_sge piece = { local + 32768, 1000, mine };
	struct cookie c[4] = { { 0 } };

	fill_spread(1);
	assert_int_equal(dc_notify(to[0], &all, 1, key, 0, 5, 0, &c[0]), 0);
	WAIT_FOR(completed == 1 && h->written == 1);
	assert_int_equal(failed, 0);
	assert_true(has_spread(h, 1));
	/* a copy into some blocks, from the middle of one on */
	assert_int_equal(
		dc_write(to[0],
			 &(struct rdmamsg_sge){(void *)(uintptr_t)pattern(3),
					       100, NULL},
			 1, key, 20, 0, &c[1]),
		0);
	assert_int_equal(
		dc_read(to[0], &piece, 1, key, 10, RDMAMSG_FENCE, &c[2]), 0);
	assert_int_equal(dc_read(to[0], &all, 1, key, 0, RDMAMSG_FENCE, &c[3]),
			 0);
	WAIT_FOR(completed == 4);
	assert_int_equal(failed, 0);
	assert_memory_equal(local + 32768 + 10, pattern(3), 100);
	for (uint32_t i = 0; i < SPREAD; i++)
		assert_int_equal(*byte_of(local, NEAR_STEP, i),
				 *byte_of(h->memory, FAR_STEP, i));
	assert_int_equal(h->messages, 0);
}

/* The operands are the first two words of block 3. */
static void add_in_block(struct hall *h, const struct rdmamsg_key *key)
{
	uint64_t *word = (uint64_t *)(void *)byte_of(h->memory, FAR_STEP,
						     3 * BLOCK);
	uint32_t *half = (uint32_t *)(void *)(word + 1);
	const uint32_t add = 7;
	struct cookie c[2] = { { 0 } };
	uint64_t old = 0;
	uint32_t was = 0;

	if (!atomics)
		return;
	*word = 40;
	half[0] = half[1] = 9;
	assert_int_equal(dc_fetch_add(to[0], key, 3 * BLOCK, 2, &old, 0, &c[0]),
			 0);
	assert_int_equal(dc_add_fields(to[0], key, 3 * BLOCK + 12, sizeof(add),
				       &add, NULL, &was, 0, &c[1]),
			 0);
	WAIT_FOR(completed == 6);
	assert_int_equal(failed, 0);
	assert_true(old == 40 && *word == 42);
	assert_true(was == 9 && half[0] == 9 && half[1] == 16);
}

static void spread_both(const char *how)
{
	struct rdmamsg_layout *here, *there;
	struct hall *h = &halls[0];
	struct rdmamsg_key key;
	struct cookie c = { 0 };

	(void)setenv("RDMAMSG_SOFT_LAYOUTS", how, 1);
	start(1, 0, 0);
	here = spread(near, mine, NEAR_STEP, RDMAMSG_ACCESS_LOCAL_WRITE);
	there = spread(far, h->region, FAR_STEP, RDMAMSG_ACCESS_READ |
		       RDMAMSG_ACCESS_WRITE | RDMAMSG_ACCESS_ATOMIC);
	import_key(h, there, &key);
	exchange_spread(h, here, &key);
	add_in_block(h, &key);
	assert_int_equal(rdmamsg_layout_invalidate(here), 0);
	assert_int_equal(rdmamsg_layout_destroy(here), 0);
	assert_error(dc_read(to[0], &(struct rdmamsg_sge){local, 64, mine}, 1,
			     &key, SPREAD - 63, 0, &c),
		     -ERANGE, "key");
	/* the target takes the memory away */
	assert_int_equal(rdmamsg_layout_destroy(there), 0);
	assert_int_equal(dc_read(to[0], &(struct rdmamsg_sge){local, 64, mine},
				 1, &key, 0, 0, &c),
			 0);
	WAIT_FOR(c.count);
	assert_int_equal(c.status, -EACCES);
	(void)rdmamsg_layout_forget(near, &key);
	finish(1);
	(void)unsetenv("RDMAMSG_SOFT_LAYOUTS");
}

void layouts__of_both_sides_AS_IN_ONE_PIECE(void **state)
{
	spread_both("native");
}

void layouts__in_software_AS_IN_ONE_PIECE(void **state)
{
	spread_both("none");
}

/* Every other word of the hall's memory. */
static struct rdmamsg_layout *every_other(struct hall *h)
{
	const struct rdmamsg_layout_options opts = {
		.size = sizeof(opts), .access = RDMAMSG_ACCESS_WRITE,
	};
	const struct rdmamsg_layout_part part = {
		.region = h->region, .len = 8, .dims = 1,
		.count = { BYTES / 16 }, .stride = { 16 },
	};
	struct rdmamsg_layout *l;

	assert_int_equal(rdmamsg_layout_create(far, &opts, &l), 0);
	assert_int_equal(rdmamsg_layout_define(l, &part, 1, 1), 0);
	return l;
}

/* In software each of these writes takes 4,096 requests. */
void runs__to_more_targets_than_initiators_BEFORE_THEIR_MESSAGES(
	void **state)
{
	const unsigned int all = 3;
	struct cookie c[2 * 3] = { { 0 } };
	struct rdmamsg_key key[3];
	struct rdmamsg_sge s;

	(void)setenv("RDMAMSG_SOFT_LAYOUTS", "none", 1);
	start(all, 1, 0);
	s = (struct rdmamsg_sge){ local, BYTES / 2, mine };
	memset(local, 0x5a, sizeof(local));
	for (unsigned int i = 0; i < all; i++)
		import_key(&halls[i], every_other(&halls[i]), &key[i]);
	for (unsigned int i = 0; i < all; i++) {
		assert_int_equal(
			dc_write(to[i], &s, 1, &key[i], 0, 0, &c[2 * i]), 0);
		assert_int_equal(rdmamsg_dc_send(to[i], "x", 1, 0,
						 &c[2 * i + 1]), 0);
	}
	WAIT_FOR(completed == 2 * all);
	assert_int_equal(failed, 0);
	for (unsigned int i = 0; i < all; i++) {
		WAIT_FOR(halls[i].messages == 1);
		assert_true(halls[i].seen == 0x5a5a5a5a5a5a5a5a);
		for (uint32_t w = 0; w < BYTES / 8; w++)
			assert_true(halls[i].memory[w] ==
				    (w % 2 ? 0 : 0x5a5a5a5a5a5a5a5a));
	}
	finish(all);
	(void)unsetenv("RDMAMSG_SOFT_LAYOUTS");
}

/* The rest of a run ends with its operation, and the layout is free again. */
void run__when_its_sender_is_destroyed_CANCELLED(void **state)
{
	struct rdmamsg_layout *here;
	struct rdmamsg_key key;
	struct cookie c = { 0 };
	struct rdmamsg_sge s;

	(void)setenv("RDMAMSG_SOFT_LAYOUTS", "none", 1);
	start(1, 1, 0);
	here = spread(near, mine, NEAR_STEP, 0);
	import_key(&halls[0], every_other(&halls[0]), &key);
	s = (struct rdmamsg_sge){
		NULL, SPREAD, rdmamsg_layout_region(here),
	};
	assert_int_equal(dc_write(to[0], &s, 1, &key, 0, 0, &c), 0);
	test_pump(0);
	rdmamsg_dc_sender_destroy(sender);
	WAIT_FOR(gone == 1);
	assert_int_equal(c.count, 1);
	assert_true(!c.status || c.status == -ECANCELED);
	assert_int_equal(rdmamsg_layout_destroy(here), 0);
	assert_int_equal(rdmamsg_layout_forget(near, &key), 0);
	rdmamsg_dc_target_destroy(halls[0].target);
	WAIT_PASSING(halls[0].destroyed == 1);
	test_close(near);
	test_close(far);
	(void)unsetenv("RDMAMSG_SOFT_LAYOUTS");
}
