/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided operations of a sender: before and after there is a connection, in
 * order with messages, to more targets than initiators, and refused ones.
 */
#include "dc_halls.h"
#include "../dc_post.h"

/* Adds 2 to the first word, and swaps the sum for 77. */
static void change(struct hall *h, uint64_t before, uint64_t old[2],
		   struct cookie *c)
{
	assert_int_equal(dc_fetch_add(to[0], &h->key, 0, 2, &old[0], 0, &c[0]),
			 0);
	assert_int_equal(dc_compare_swap(to[0], &h->key, 0, before + 2, 77,
					 &old[1], RDMAMSG_FENCE, &c[1]),
			 0);
}

/* Round 0 waits for the connection, and round 1 has it. */
static void each_operation__WITHOUT_AND_WITH_A_CONNECTION(void **state)
{
	struct hall *h = &halls[0];
	unsigned int due = 0;

	start(1, 0, 0);
	for (unsigned int round = 0; round < 2; round++) {
		struct rdmamsg_sge out = { local, 3000, mine };
		struct rdmamsg_sge in = { local + 8192, 3000, mine };
		uint64_t old[2] = { 0, 0 }, copied = 40 + round;
		struct rdmamsg_sge small = { &copied, sizeof(copied), NULL };
		struct cookie c[6];

		memset(c, 0, sizeof(c));
		memset(local, 0, sizeof(local));
		memcpy(local, pattern(round), 3000);
		assert_int_equal(
			dc_write(to[0], &out, 1, &h->key, 4096, 0, &c[0]), 0);
		assert_int_equal(dc_read(to[0], &in, 1, &h->key, 4096,
					 RDMAMSG_FENCE, &c[1]),
				 0);
		assert_int_equal(dc_notify(to[0], &small, 1, &h->key, 0,
					   round + 9, 0, &c[2]),
				 0);
		copied = 0;
		if (atomics)
			change(h, 40 + round, old, &c[3]);
		assert_int_equal(rdmamsg_dc_send(to[0], "x", 1, 0, &c[5]), 0);
		if (!round)
			assert_int_equal(rdmamsg_region_revoke(mine), -EBUSY);
		due += atomics ? 6 : 4;
		WAIT_FOR(completed == due && h->written == round + 1 &&
			 h->messages == round + 1);
		assert_int_equal(failed, 0);
		assert_memory_equal((uint8_t *)h->memory + 4096, pattern(round),
				    3000);
		assert_memory_equal(local + 8192, pattern(round), 3000);
		assert_int_equal(h->value, round + 9);
		assert_int_equal(old[0], atomics ? 40 + round : 0);
		assert_int_equal(old[1], atomics ? 42 + round : 0);
		assert_int_equal(h->memory[0], atomics ? 77 : 40 + round);
	}
	assert_int_equal(rdmamsg_region_revoke(mine), 0);
	finish(1);
}

/* The target sees in a message's callback all that was written before it. */
static void writes__then_a_message_ARE_THERE_BEFORE_IT(void **state)
{
	static struct cookie c[2 * 60];
	unsigned int n = 0;

	start(1, 0, 0);
	memset(c, 0, sizeof(c));
	for (uint64_t i = 1; i <= 30; i++) {
		const struct rdmamsg_sge s = { &i, sizeof(i), NULL };

		assert_int_equal(
			dc_write(to[0], &s, 1, &halls[0].key, 0, 0, &c[n++]),
			0);
		assert_int_equal(rdmamsg_dc_send(to[0], &i, sizeof(i), 0,
						 &c[n++]), 0);
		WAIT_FOR(completed == n && halls[0].messages == i);
		assert_true(halls[0].seen == i);
	}
	assert_int_equal(failed, 0);
	finish(1);
}

/* Each operation goes to another target than the one before. */
static void adds__to_more_targets_than_initiators_ADD_UP(void **state)
{
	static struct cookie c[HALLS * 30];
	static uint64_t old[HALLS * 30];

	start(HALLS, 2, 0);
	need_atomics();
	memset(c, 0, sizeof(c));
	for (uint32_t i = 0; i < HALLS * 30; i++) {
		assert_int_equal(dc_fetch_add(to[i % HALLS],
					      &halls[i % HALLS].key, 8, 3,
					      &old[i], 0, &c[i]),
				 0);
		if (i % 20 == 0)
			test_pump(0);
	}
	WAIT_FOR(completed == HALLS * 30);
	assert_int_equal(failed, 0);
	for (uint32_t i = 0; i < HALLS * 30; i++)
		assert_int_equal(old[i], i / HALLS * 3);
	for (uint32_t i = 0; i < HALLS; i++)
		assert_int_equal(halls[i].memory[1], 90);
	finish(HALLS);
}

static void refused__AT_ONCE_OR_AS_THE_STATUS(void **state)
{
	struct rdmamsg_sge s = { local, 64, mine };
	struct rdmamsg_region *foreign;
	struct rdmamsg_key key;
	struct rdmamsg_op op;
	struct cookie c[4];

	start(2, 0, 0);
	s.region = mine;
	memset(c, 0, sizeof(c));
	/* without a connection: the status */
	assert_int_equal(dc_write(to[0], &s, 1, &halls[0].key, BYTES, 0, &c[0]),
			 0);
	assert_int_equal(rdmamsg_dc_send(to[0], "x", 1, 0, &c[1]), 0);
	WAIT_FOR(completed == 2 && halls[0].messages == 1);
	assert_int_equal(c[0].status, -ERANGE);
	assert_int_equal(c[1].status, 0);
	/* with one: at once */
	assert_error(dc_write(to[0], &s, 1, &halls[0].key, BYTES, 0, &c[2]),
		     -ERANGE, "key");
	if (atomics)
		assert_error(dc_fetch_add(to[0], &halls[0].key, 4, 1, NULL, 0,
					  &c[2]),
			     -EINVAL, "multiple");
	assert_error(dc_write(to[0], &s, 1, NULL, 0, 0, &c[2]), -EINVAL, "key");
	assert_error(dc_write(to[0], &s, 1, &halls[0].key, 0, 0, NULL), -EINVAL,
		     "cookie");
	assert_error(dc_write(to[0], &s, 17, &halls[0].key, 0, 0, &c[2]),
		     -EINVAL, "16");
	assert_error(dc_write(to[0], &s, 1, &halls[0].key, 0, 8, &c[2]),
		     -EINVAL, "flags");
	op = op_entries(RDMAMSG_OP_WRITE, &s, 1, &halls[0].key, 0, 0, &c[2]);
	op.timeout_ms = 1;
	assert_error(rdmamsg_dc_post(to[0], &op), -EOPNOTSUPP, "timeout_ms");
	s.region = halls[0].region;
	assert_error(dc_read(to[0], &s, 1, &halls[0].key, 0, 0, &c[2]), -EINVAL,
		     "context");
	s.region = NULL;
	assert_error(dc_read(to[0], &s, 1, &halls[0].key, 0, 0, &c[2]), -EINVAL,
		     "region");
	s.len = 65537;
	assert_error(dc_write(to[0], &s, 1, &halls[0].key, 0, 0, &c[2]),
		     -EMSGSIZE, "max_copy");
	assert_error(rdmamsg_dc_target_get_key(halls[0].target, mine, &key),
		     -EINVAL, "context");
	assert_int_equal(rdmamsg_region_create(far, local, 64, 0, &foreign), 0);
	assert_error(rdmamsg_dc_target_get_key(halls[0].target, foreign, &key),
		     -EINVAL, "nothing");
	assert_int_equal(completed, 2);
	finish(2);
}

/*
 * The connection ends, and the next operation makes another. On iWARP the write
 * may have completed before its refusal, and the read behind it tells.
 */
static void key__revoked_FAILS_AND_THE_ADDRESS_GOES_ON(void **state)
{
	const uint64_t value = 5;
	const struct rdmamsg_sge s = { (void *)(uintptr_t)&value, 8, NULL };
	struct rdmamsg_sge back = { local, 8, NULL };
	struct rdmamsg_key old;
	struct cookie c[3];

	start(1, 0, 0);
	back.region = mine;
	memset(c, 0, sizeof(c));
	old = halls[0].key;
	assert_int_equal(rdmamsg_region_revoke(halls[0].region), 0);
	assert_int_equal(dc_write(to[0], &s, 1, &old, 0, 0, &c[0]), 0);
	assert_int_equal(dc_read(to[0], &back, 1, &old, 0, 0, &c[1]), 0);
	WAIT_FOR(completed == 2);
	assert_true(c[0].status < 0 || (test_iwarp() && !c[0].status));
	assert_true(c[1].status < 0);
	assert_int_equal(halls[0].memory[0], 0);
	assert_int_equal(rdmamsg_dc_target_get_key(halls[0].target,
						   halls[0].region,
						   &halls[0].key), 0);
	assert_int_equal(dc_write(to[0], &s, 1, &halls[0].key, 0, 0, &c[2]), 0);
	WAIT_FOR(completed == 3);
	assert_int_equal(c[2].status, 0);
	assert_int_equal(halls[0].memory[0], 5);
	finish(1);
}

/* Copies that wait are bounded, and one above the bound waits alone. */
static void copies__above_queue_bytes_AGAIN(void **state)
{
	struct rdmamsg_dc_sender_attr a = { .size = sizeof(a) };
	const struct rdmamsg_sge s = { local, 600, NULL };
	struct iovec iov = { local, 5000 };
	struct cookie c[5];

	start(1, 0, 1000);
	memset(c, 0, sizeof(c));
	assert_int_equal(rdmamsg_dc_send(to[0], local, 600, 0, &c[0]), 0);
	assert_int_equal(rdmamsg_dc_send(to[0], local, 401, 0, &c[1]), -EAGAIN);
	assert_int_equal(dc_write(to[0], &s, 1, &halls[0].key, 0, 0, &c[1]),
			 -EAGAIN);
	assert_int_equal(dc_sendv(to[0], &iov, 1, 0, &c[1]), 0);
	assert_int_equal(rdmamsg_dc_send(to[0], local, 400, 0, &c[2]), 0);
	assert_int_equal(rdmamsg_dc_sender_query(sender, &a), 0);
	assert_int_equal(a.queued_bytes, 1000);
	assert_int_equal(a.queued, 3);
	WAIT_FOR(completed == 3 && halls[0].messages == 3);
	assert_int_equal(rdmamsg_dc_sender_query(sender, &a), 0);
	assert_int_equal(a.queued_bytes, 0);
	assert_int_equal(failed, 0);
	finish(1);
	start(1, 0, 1000);
	memset(c, 0, sizeof(c));
	assert_int_equal(rdmamsg_dc_send(to[0], local, 1200, 0, &c[0]), 0);
	assert_int_equal(rdmamsg_dc_send(to[0], local, 1, 0, &c[1]), -EAGAIN);
	WAIT_FOR(completed == 1 && halls[0].messages == 1);
	finish(1);
}

/* Operations that wait are cancelled, and let go of their regions. */
static void sender__destroyed_with_operations_CANCELLED(void **state)
{
	struct rdmamsg_sge s = { local, 64, NULL };
	struct cookie c[3];

	start(1, 0, 0);
	s.region = mine;
	memset(c, 0, sizeof(c));
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(
			dc_read(to[0], &s, 1, &halls[0].key, 0, 0, &c[i]), 0);
	rdmamsg_dc_sender_destroy(sender);
	WAIT_FOR(gone == 1);
	assert_int_equal(completed, 3);
	assert_int_equal(c[2].status, -ECANCELED);
	assert_int_equal(rdmamsg_region_destroy(mine), 0);
	sender = NULL;
	rdmamsg_dc_target_destroy(halls[0].target);
	WAIT_PASSING(halls[0].destroyed == 1);
	test_close(near);
	test_close(far);
}

static const struct CMUnitTest tests[] = {
	TEST(runs__to_more_targets_than_initiators_BEFORE_THEIR_MESSAGES),
	TEST(run__when_its_sender_is_destroyed_CANCELLED),
	TEST(layouts__of_both_sides_AS_IN_ONE_PIECE),
	TEST(layouts__in_software_AS_IN_ONE_PIECE),
	TEST(each_operation__WITHOUT_AND_WITH_A_CONNECTION),
	TEST(writes__then_a_message_ARE_THERE_BEFORE_IT),
	TEST(adds__to_more_targets_than_initiators_ADD_UP),
	TEST(refused__AT_ONCE_OR_AS_THE_STATUS),
	TEST(key__revoked_FAILS_AND_THE_ADDRESS_GOES_ON),
	TEST(copies__above_queue_bytes_AGAIN),
	TEST(sender__destroyed_with_operations_CANCELLED),
	TEST(masked__each_AS_LISTED),
	TEST(masked__among_others_IN_ORDER),
	TEST(masked__of_rivals_ADD_UP),
	TEST(masked__sender_destroyed_EACH_ENDS),
	TEST(masked__bad_arguments_ARE_TOLD),
	TEST(address__query_FOLLOWS_ITS_STATE),
	TEST(address__query_of_no_use_REFUSED),
	TEST(target__query_TELLS_OF_ITS_DCT),
	TEST(options__of_connections_ARE_THOSE_OF_DC),
	TEST(options__out_of_range_REFUSED_AT_ONCE),
	TEST(masked__sizes_ARE_THOSE_THAT_WORK),
};

int main(int argc, char **argv)
{
	return test_main(tests, NULL, argc, argv);
}
