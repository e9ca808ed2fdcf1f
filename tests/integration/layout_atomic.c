/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomic operations in the memory of layouts: those inside of one block work as
 * in a region, on each path.
 */
#include "layout_board.h"
#include "../post.h"

#include <rdmamsg/endpoint.h>

static uint64_t *word(size_t at)
{
	return (uint64_t *)(void *)(far + at);
}

/*
 * A layout of 16, 12 and 12 bytes of far_region, and its key. Byte 24 begins a
 * word whose block ends in the middle, and byte 32 is in the middle of a word.
 */
static struct rdmamsg_layout *open_words(uint32_t access,
					 struct rdmamsg_key *ret)
{
	struct rdmamsg_layout_part part[] = {
		{ .offset = 64, .len = 16 }, { .offset = 136, .len = 12 },
		{ .offset = 256, .len = 12 },
	};
	struct rdmamsg_layout *l;

	skip_on_iwarp(NO_ATOMICS);
	boards_open();
	memset(far, 0, 512);
	for (size_t i = 0; i < ARRAY_SIZE(part); i++)
		part[i].region = far_region;
	l = layout_new(p.s.ctx, access);
	if (rdmamsg_layout_define(l, part, ARRAY_SIZE(part), 1))
		fail_msg("%s", rdmamsg_error());
	*ret = give(l);
	return l;
}

static void close_words(struct rdmamsg_layout *l)
{
	assert_int_equal(rdmamsg_layout_destroy(l), 0);
	boards_close();
}

/* Plain and masked ones, in the first block. */
static void atomics__in_a_block_DONE(void **state)
{
	const uint64_t one = 1, nine = 9, two[2] = { 1, 1 };
	const struct post_swap swap = { &one, NULL, &nine, NULL };
	struct rdmamsg_masked_attr can = { .size = sizeof(can) };
	struct rdmamsg_key to;
	struct rdmamsg_layout *l = open_words(ACCESS_ALL, &to);
	uint64_t was[4] = { 7, 7, 7, 7 };
	struct cookie *c[4];
	uint32_t half = 3;

	for (int i = 0; i < 4; i++)
		c[i] = cookie();
	assert_int_equal(rdmamsg_fetch_add(p.c.ep, &to, 8, 1, &was[0], 0,
					   c[0]), 0);
	assert_int_equal(rdmamsg_compare_swap(p.c.ep, &to, 0, 0, 1, &was[1], 0,
					      c[1]), 0);
	assert_int_equal(
		post_masked_swap(p.c.ep, &to, 0, 8, &swap, &was[2], 0, c[2]),
		0);
	UNTIL_POSTED(post_add_fields(p.c.ep, &to, 12, 4, &half, NULL, &was[3],
				     0, c[3]));
	for (int i = 0; i < 4; i++)
		wait_cookie(c[i], 0);
	assert_int_equal(was[0], 0);
	assert_int_equal(was[1], 0);
	assert_int_equal(was[2], 1);
	assert_int_equal((uint32_t)was[3], 0);
	assert_int_equal(*word(64), 9);
	assert_int_equal(((uint32_t *)word(72))[0], 1);
	assert_int_equal(((uint32_t *)word(72))[1], 3);
	assert_int_equal(rdmamsg_ep_masked_query(p.c.ep, &can), 0);
	if (can.sizes & 16) {
		c[0] = cookie();
		assert_int_equal(post_add_fields(p.c.ep, &to, 0, 16, two, NULL,
						 NULL, 0, c[0]),
				 0);
		wait_cookie(c[0], 0);
		assert_int_equal(*word(64), 10);
	}
	close_words(l);
}

/* The requester knows the blocks, and refuses what the device would. */
void software__atomics__outside_of_a_block_ARE_TOLD(void **state)
{
	const uint32_t half = 1;
	struct rdmamsg_masked_attr can = { .size = sizeof(can) };
	struct rdmamsg_layout *l;
	struct rdmamsg_key to;

	take_path(SOFTWARE);
	l = open_words(ACCESS_ALL, &to);
	assert_error(rdmamsg_fetch_add(p.c.ep, &to, 24, 1, NULL, 0, NULL),
		     -EINVAL, "blocks");
	assert_error(rdmamsg_fetch_add(p.c.ep, &to, 32, 1, NULL, 0, NULL),
		     -EINVAL, "multiple of");
	assert_error(rdmamsg_fetch_add(p.c.ep, &to, 40, 1, NULL, 0, NULL),
		     -ERANGE, "reaches");
	assert_int_equal(rdmamsg_ep_masked_query(p.c.ep, &can), 0);
	/* the word around these 4 bytes ends behind the block */
	if (can.how == RDMAMSG_CAP_SOFTWARE)
		assert_error(post_add_fields(p.c.ep, &to, 24, 4, &half, NULL,
					     NULL, 0, NULL),
			     -ERANGE, "8 bytes");
	close_words(l);
}

static void ends_with(const struct rdmamsg_key *to, uint64_t offset)
{
	struct cookie *c = cookie();

	assert_int_equal(rdmamsg_fetch_add(p.c.ep, to, offset, 1, NULL, 0, c),
			 0);
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_true(c->count == 1 && c->status < 0);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_ACCESS);
}

/* Only the peer's device knows the blocks, and refuses. */
void native__atomic__across_blocks_ACCESS(void **state)
{
	struct rdmamsg_layout *l;
	struct rdmamsg_key to;

	take_path(NATIVE);
	l = open_words(ACCESS_ALL, &to);
	ends_with(&to, 24);
	assert_int_equal(*word(144), 0);
	assert_int_equal(rdmamsg_layout_destroy(l), 0);
	boards_fini();
}

static void atomic__layout_without_the_right_EACCES(void **state)
{
	struct rdmamsg_key to;
	struct rdmamsg_layout *l = open_words(RDMAMSG_ACCESS_READ |
					      RDMAMSG_ACCESS_WRITE, &to);

	assert_error(rdmamsg_fetch_add(p.c.ep, &to, 8, 1, NULL, 0, NULL),
		     -EACCES, "allow");
	close_words(l);
}

/* Reads and writes need other rights. */
static void atomics__only_AS_THE_KEY_SAYS(void **state)
{
	struct rdmamsg_key to;
	struct rdmamsg_layout *l = open_words(RDMAMSG_ACCESS_ATOMIC, &to);
	struct rdmamsg_sge s = { near, 8, near_region };
	struct cookie *c = cookie();

	assert_error(post(WRITES, &s, 1, &to, 0, NULL), -EACCES, "allow");
	assert_error(post(READS, &s, 1, &to, 0, NULL), -EACCES, "allow");
	assert_int_equal(rdmamsg_fetch_add(p.c.ep, &to, 8, 5, NULL, 0, c), 0);
	wait_cookie(c, 0);
	assert_int_equal(*word(72), 5);
	close_words(l);
}

ON_BOTH(atomics__in_a_block_DONE)
ON_BOTH(atomic__layout_without_the_right_EACCES)
ON_BOTH(atomics__only_AS_THE_KEY_SAYS)
