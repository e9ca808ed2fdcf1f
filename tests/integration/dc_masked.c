/* SPDX-License-Identifier: BSD-2-Clause */
/* Masked atomics of a sender. */
#include "dc_halls.h"
#include "../dc_post.h"

#include <errno.h>
#include <stdlib.h>

/* A swap, unless it adds. Values as those of tests/integration/atomics.c. */
static const struct masked_row {
	bool adds;
	size_t bytes;
	uint64_t before[2], value[2], mask[2], expected[2], compare[2],
		 after[2];
} masked_rows[] = {
	{ false, 8, { 5 }, { 9 }, { UINT64_MAX }, { 5 }, { UINT64_MAX },
	  { 9 } },
	{ false, 8, { 6 }, { 9 }, { UINT64_MAX }, { 5 }, { UINT64_MAX },
	  { 6 } },
	{ false, 8, { 0x11223344 }, { 0xffff }, { 0xff00 }, { 0x11000000 },
	  { 0xff000000 }, { 0x1122ff44 } },
	{ false, 4, { 0x5511223344 }, { 0xffff }, { 0xff00 }, { 0x11000000 },
	  { 0xff000000 }, { 0x551122ff44 } },
	{ true, 8, { UINT64_MAX }, { 1 }, { 1ull << 31 }, { 0 }, { 0 },
	  { 0xffffffff00000000 } },
	{ true, 4, { 0x77ff107f00 }, { 0x01010101 }, { 0x80808080 }, { 0 },
	  { 0 }, { 0x7700118001 } },
	{ true, 16, { UINT64_MAX, 7 }, { 2, 3 }, { 1ull << 63, 0 }, { 0 },
	  { 0 }, { 1, 10 } },
	{ false, 16, { 1, 2 }, { 3, 4 }, { UINT64_MAX, 0xff }, { 1, 2 },
	  { UINT64_MAX, UINT64_MAX }, { 3, 4 } },
};

static int masked_post(const struct masked_row *r, void *was, struct cookie *c)
{
	const struct post_swap swap = {
		r->expected, r->compare, r->value, r->mask,
	};

	return r->adds ? dc_add_fields(to[0], &halls[0].key, 64, r->bytes,
				       r->value, r->mask, was, 0, c)
		       : dc_masked_swap(to[0], &halls[0].key, 64, r->bytes,
					&swap, was, 0, c);
}

/* Returns false if the path has no such operand, which changes nothing. */
static bool masked_run(const struct masked_row *r)
{
	uint64_t *at = &halls[0].memory[8], was[2] = { 0, 0 };
	struct cookie c = { 0 };
	int ret;

	memcpy(at, r->before, sizeof(r->before));
	ret = masked_post(r, was, &c);
	if (!ret) {
		WAIT_FOR(c.count);
		ret = c.status;
	}
	if (ret == -EOPNOTSUPP) {
		assert_memory_equal(at, r->before, sizeof(r->before));
		return false;
	}
	assert_int_equal(ret, 0);
	assert_memory_equal(was, r->before, r->bytes);
	assert_memory_equal(at, r->after, sizeof(r->after));
	return true;
}

/* Round 0 waits for the connection, and round 1 has it. */
void masked__each_AS_LISTED(void **state)
{
	start(1, 0, 0);
	need_atomics();
	for (unsigned int round = 0; round < 2; round++)
		for (size_t i = 0; i < ARRAY_SIZE(masked_rows); i++)
			if (!masked_run(&masked_rows[i]))
				assert_true(masked_rows[i].bytes > 8 &&
					    (DC_PATH == RDMAMSG_DC_NATIVE ||
					     !test_on_soft()));
	finish(1);
}

/* Other operations and messages wait for the tries, if there are any. */
void masked__among_others_IN_ORDER(void **state)
{
	static struct cookie c[4 * 25];
	static uint64_t was[25];
	static uint32_t half[25];
	struct hall *h = &halls[0];
	const uint64_t one = 1;
	const uint32_t small = 1;
	unsigned int n = 0;

	start(1, 0, 0);
	need_atomics();
	memset(c, 0, sizeof(c));
	for (uint32_t i = 0; i < 25; i++) {
		assert_int_equal(dc_add_fields(to[0], &h->key, 0, 8, &one, NULL,
					       NULL, 0, &c[n++]),
				 0);
		assert_int_equal(
			dc_fetch_add(to[0], &h->key, 0, 1, &was[i], 0, &c[n++]),
			0);
		assert_int_equal(dc_add_fields(to[0], &h->key, 12, 4, &small,
					       NULL, &half[i], 0, &c[n++]),
				 0);
		assert_int_equal(rdmamsg_dc_send(to[0], "x", 1, 0, &c[n++]), 0);
		WAIT_FOR(i % 5 || (completed == n && h->messages == i + 1));
		/* all of them came before the message */
		if (i % 5 == 0)
			assert_true(h->seen == 2 * i + 2);
	}
	WAIT_FOR(completed == n);
	assert_int_equal(failed, 0);
	for (uint32_t i = 0; i < 25; i++) {
		assert_int_equal(was[i], 2 * i + 1);
		assert_int_equal(half[i], i);
	}
	assert_int_equal(h->memory[0], 50);
	assert_int_equal(((uint32_t *)h->memory)[2], 0);
	assert_int_equal(((uint32_t *)h->memory)[3], 25);
	finish(1);
}

/* Tries of several addresses change the same words. */
void masked__of_rivals_ADD_UP(void **state)
{
	static struct cookie c[HALLS * 20];
	struct rdmamsg_dc_address *rival[4];
	const uint64_t one = 1;

	start(1, 2, 0);
	need_atomics();
	memset(c, 0, sizeof(c));
	for (int i = 0; i < 4; i++)
		rival[i] = address_of(&halls[0]);
	for (uint32_t i = 0; i < ARRAY_SIZE(c); i++)
		assert_int_equal(dc_add_fields(rival[i % 4], &halls[0].key, 0,
					       8, &one, NULL, NULL, 0, &c[i]),
				 0);
	WAIT_FOR(completed == ARRAY_SIZE(c));
	assert_int_equal(failed, 0);
	assert_int_equal(halls[0].memory[0], ARRAY_SIZE(c));
	for (int i = 0; i < 4; i++)
		rdmamsg_dc_address_destroy(rival[i]);
	finish(1);
}

void masked__sender_destroyed_EACH_ENDS(void **state)
{
	static struct cookie c[20];
	const uint64_t one = 1;
	unsigned int n = 0;

	start(1, 0, 0);
	need_atomics();
	memset(c, 0, sizeof(c));
	for (; n < ARRAY_SIZE(c); n++)
		assert_int_equal(dc_add_fields(to[0], &halls[0].key, 0, 8, &one,
					       NULL, NULL, 0, &c[n]),
				 0);
	rdmamsg_dc_sender_destroy(sender);
	WAIT_FOR(gone == 1);
	assert_int_equal(completed, n);
	for (n = 0; n < ARRAY_SIZE(c); n++)
		assert_int_equal(c[n].count, 1);
	rdmamsg_dc_target_destroy(halls[0].target);
	WAIT_PASSING(halls[0].destroyed == 1);
	test_close(near);
	test_close(far);
}

void masked__bad_arguments_ARE_TOLD(void **state)
{
	const uint64_t v[2] = { 0, 0 };
	struct post_swap swap = { v, NULL, NULL, NULL };
	const struct rdmamsg_key *key;
	struct cookie c = { 0 };

	start(1, 0, 0);
	need_atomics();
	key = &halls[0].key;
	assert_error(dc_add_fields(to[0], key, 0, 5, v, NULL, NULL, 0, &c),
		     -EINVAL, "4, 8, 16 or 32");
	assert_error(dc_add_fields(to[0], key, 0, UINT32_MAX, v, NULL,
				   NULL, 0, &c),
		     -EINVAL, "4, 8, 16 or 32");
	assert_error(dc_add_fields(to[0], key, 0, 16, v, v, NULL, 0, &c),
		     -EINVAL, "field");
	assert_error(dc_add_fields(to[0], key, 0, 8, NULL, NULL, NULL, 0, &c),
		     -EINVAL, "operand");
	assert_error(dc_masked_swap(to[0], key, 0, 8, &swap, NULL, 0, &c),
		     -EINVAL, "NULL");
	assert_error(dc_masked_swap(to[0], key, 0, 8, NULL, NULL, 0, &c),
		     -EINVAL, "NULL");
	assert_error(dc_add_fields(to[0], NULL, 0, 8, v, NULL, NULL, 0, &c),
		     -EINVAL, "key");
	assert_error(dc_add_fields(to[0], key, 0, 8, v, NULL, NULL, 0, NULL),
		     -EINVAL, "cookie");
	assert_error(dc_add_fields(NULL, key, 0, 8, v, NULL, NULL, 0, &c),
		     -EINVAL, "NULL");
	assert_int_equal(c.count, 0);
	finish(1);
}
