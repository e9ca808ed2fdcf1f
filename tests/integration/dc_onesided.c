/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided operations of a sender: before and after there is a connection, in
 * order with messages, to more targets than initiators, and refused ones.
 */
#include "common.h"

#include <errno.h>
#include <stdlib.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/layout.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rma.h>

#ifndef DC_PATH
#define DC_PATH	RDMAMSG_DC_CONNECTIONS
#endif
#define HALLS	5u
#define BYTES	65536u

/* A target with memory that senders reach. */
struct hall {
	struct rdmamsg_dc_target *target;
	struct rdmamsg_region *region;
	struct rdmamsg_key key;
	uint64_t memory[BYTES / 8];
	char port[8];
	unsigned int messages, written, destroyed;
	uint32_t value;			/* of the last on_written */
	uint64_t seen;			/* memory[0] when it was called */
};

static struct rdmamsg *near, *far;
static struct hall halls[HALLS];
static struct rdmamsg_dc_sender *sender;
static struct rdmamsg_dc_address *to[HALLS];
static uint8_t local[BYTES];
static struct rdmamsg_region *mine;
static unsigned int completed, failed, gone;
static bool atomics;			/* false: the device has none */

static void on_message(struct rdmamsg_dc_target *t, struct rdmamsg_msg *msg,
		       uint64_t from)
{
	struct hall *h = rdmamsg_dc_target_user(t);

	(void)from;
	h->messages++;
	h->seen = h->memory[0];
	rdmamsg_msg_free(msg);
}

static void on_written(struct rdmamsg_dc_target *t, uint32_t value,
		       uint64_t from)
{
	struct rdmamsg_dc_sender_attr a = { .size = sizeof(a) };
	struct hall *h = rdmamsg_dc_target_user(t);

	assert_int_equal(rdmamsg_dc_sender_query(sender, &a), 0);
	if (from != a.id)
		note("written by another sender");
	h->written++;
	h->value = value;
	h->seen = h->memory[0];
}

static void on_target_destroyed(struct rdmamsg_dc_target *t)
{
	struct hall *h = rdmamsg_dc_target_user(t);

	h->destroyed++;
}

static void on_complete(struct rdmamsg_dc_sender *s,
			struct rdmamsg_dc_address *a, void *cookie, int status)
{
	struct cookie *c = cookie;

	(void)s;
	(void)a;
	if (c->count++)
		note("an operation has completed twice");
	c->status = status;
	completed++;
	failed += status != 0;
}

static void on_sender_destroyed(struct rdmamsg_dc_sender *s)
{
	(void)s;
	gone++;
}

static struct rdmamsg_dc_address *address_of(const struct hall *h)
{
	struct rdmamsg_dc_address *a;

	assert_int_equal(rdmamsg_dc_address_create(sender, test_addr(), h->port,
						   7, NULL, &a), 0);
	return a;
}

/* Some devices are not known before the first sender has come. */
static void visit(struct hall *h)
{
	struct rdmamsg_dc_address *a = address_of(h);

	assert_int_equal(rdmamsg_dc_send(a, NULL, 0, 0, NULL), 0);
	rdmamsg_dc_address_destroy(a);
	WAIT_FOR(h->messages == 1);
	h->messages = 0;
}

static void open_hall(struct hall *h)
{
	const uint32_t access = RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE |
				RDMAMSG_ACCESS_ATOMIC;
	const struct rdmamsg_dc_target_options opts = {
		.size = sizeof(opts), .user = h, .access_key = 7,
		.on_message = on_message, .on_written = on_written,
		.on_destroyed = on_target_destroyed, .path = DC_PATH,
	};
	int ret;

	memset(h, 0, sizeof(*h));
	assert_int_equal(rdmamsg_dc_target_create(far, test_addr(), "0", &opts,
						  &h->target), 0);
	(void)snprintf(h->port, sizeof(h->port), "%u",
		       rdmamsg_dc_target_port(h->target));
	assert_int_equal(rdmamsg_region_create(far, h->memory,
					       sizeof(h->memory), access,
					       &h->region), 0);
	ret = rdmamsg_dc_target_get_key(h->target, h->region, &h->key);
	if (ret == -ENOTCONN) {
		visit(h);
		ret = rdmamsg_dc_target_get_key(h->target, h->region, &h->key);
	}
	assert_int_equal(ret, 0);
}

/* Asks the device of the connection, which the program does not see. */
static bool has_atomics(const struct hall *h)
{
	struct rdmamsg_dc_address *a = address_of(h);
	struct cookie c = { 0 };

	assert_int_equal(rdmamsg_dc_fetch_add(a, &h->key, BYTES - 8, 0, NULL, 0,
					      &c), 0);
	rdmamsg_dc_address_destroy(a);
	WAIT_FOR(c.count);
	completed = failed = 0;
	if (c.status)
		assert_int_equal(c.status, -EOPNOTSUPP);
	return !c.status;
}

static void start(uint32_t targets, uint32_t initiators, size_t queue_bytes)
{
	const struct rdmamsg_dc_sender_options opts = {
		.size = sizeof(opts), .on_complete = on_complete,
		.on_destroyed = on_sender_destroyed, .initiators = initiators,
		.queue_bytes = queue_bytes, .path = DC_PATH,
	};

	near = test_open(NULL);
	far = test_open(NULL);
	completed = failed = gone = 0;
	assert_int_equal(rdmamsg_dc_sender_create(near, &opts, &sender), 0);
	assert_int_equal(rdmamsg_region_create(near, local, sizeof(local),
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &mine), 0);
	for (uint32_t i = 0; i < targets; i++) {
		open_hall(&halls[i]);
		to[i] = address_of(&halls[i]);
	}
	atomics = has_atomics(&halls[0]);
}

static void finish(uint32_t targets)
{
	rdmamsg_dc_sender_destroy(sender);
	WAIT_FOR(gone == 1);
	for (uint32_t i = 0; i < targets; i++)
		rdmamsg_dc_target_destroy(halls[i].target);
	for (uint32_t i = 0; i < targets; i++)
		WAIT_FOR(halls[i].destroyed == 1);
	test_close(near);
	test_close(far);
}

/* ---- tests ------------------------------------------------------------ */

/* Adds 2 to the first word, and swaps the sum for 77. */
static void change(struct hall *h, uint64_t before, uint64_t old[2],
		   struct cookie *c)
{
	assert_int_equal(rdmamsg_dc_fetch_add(to[0], &h->key, 0, 2, &old[0], 0,
					      &c[0]), 0);
	assert_int_equal(rdmamsg_dc_compare_swap(to[0], &h->key, 0, before + 2,
						 77, &old[1], RDMAMSG_FENCE,
						 &c[1]), 0);
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
		assert_int_equal(rdmamsg_dc_write(to[0], &out, 1, &h->key, 4096,
						  0, &c[0]), 0);
		assert_int_equal(rdmamsg_dc_read(to[0], &in, 1, &h->key, 4096,
						 RDMAMSG_FENCE, &c[1]), 0);
		assert_int_equal(rdmamsg_dc_write_imm(to[0], &small, 1, &h->key,
						      0, round + 9, 0, &c[2]),
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

		assert_int_equal(rdmamsg_dc_write(to[0], &s, 1, &halls[0].key,
						  0, 0, &c[n++]), 0);
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
	if (!atomics)
		skip_because("no atomic operations");
	memset(c, 0, sizeof(c));
	for (uint32_t i = 0; i < HALLS * 30; i++) {
		assert_int_equal(rdmamsg_dc_fetch_add(to[i % HALLS],
						      &halls[i % HALLS].key, 8,
						      3, &old[i], 0, &c[i]),
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
	struct cookie c[4];

	start(2, 0, 0);
	s.region = mine;
	memset(c, 0, sizeof(c));
	/* without a connection: the status */
	assert_int_equal(rdmamsg_dc_write(to[0], &s, 1, &halls[0].key, BYTES, 0,
					  &c[0]), 0);
	assert_int_equal(rdmamsg_dc_send(to[0], "x", 1, 0, &c[1]), 0);
	WAIT_FOR(completed == 2 && halls[0].messages == 1);
	assert_int_equal(c[0].status, -ERANGE);
	assert_int_equal(c[1].status, 0);
	/* with one: at once */
	assert_error(rdmamsg_dc_write(to[0], &s, 1, &halls[0].key, BYTES, 0,
				      &c[2]), -ERANGE, "key");
	if (atomics)
		assert_error(rdmamsg_dc_fetch_add(to[0], &halls[0].key, 4, 1,
						  NULL, 0, &c[2]), -EINVAL,
			     "multiple");
	assert_error(rdmamsg_dc_write(to[0], &s, 1, NULL, 0, 0, &c[2]), -EINVAL,
		     "key");
	assert_error(rdmamsg_dc_write(to[0], &s, 1, &halls[0].key, 0, 0, NULL),
		     -EINVAL, "cookie");
	assert_error(rdmamsg_dc_write(to[0], &s, 17, &halls[0].key, 0, 0,
				      &c[2]), -EINVAL, "16");
	assert_error(rdmamsg_dc_write(to[0], &s, 1, &halls[0].key, 0, 8, &c[2]),
		     -EINVAL, "flags");
	s.region = halls[0].region;
	assert_error(rdmamsg_dc_read(to[0], &s, 1, &halls[0].key, 0, 0, &c[2]),
		     -EINVAL, "context");
	s.region = NULL;
	assert_error(rdmamsg_dc_read(to[0], &s, 1, &halls[0].key, 0, 0, &c[2]),
		     -EINVAL, "region");
	s.len = 65537;
	assert_error(rdmamsg_dc_write(to[0], &s, 1, &halls[0].key, 0, 0, &c[2]),
		     -EMSGSIZE, "max_copy");
	assert_error(rdmamsg_dc_target_get_key(halls[0].target, mine, &key),
		     -EINVAL, "context");
	assert_int_equal(rdmamsg_region_create(far, local, 64, 0, &foreign), 0);
	assert_error(rdmamsg_dc_target_get_key(halls[0].target, foreign, &key),
		     -EINVAL, "nothing");
	assert_int_equal(completed, 2);
	finish(2);
}

/* The connection ends, and the next operation makes another. */
static void key__revoked_FAILS_AND_THE_ADDRESS_GOES_ON(void **state)
{
	const uint64_t value = 5;
	const struct rdmamsg_sge s = { (void *)(uintptr_t)&value, 8, NULL };
	struct rdmamsg_key old;
	struct cookie c[3];

	start(1, 0, 0);
	memset(c, 0, sizeof(c));
	old = halls[0].key;
	assert_int_equal(rdmamsg_region_revoke(halls[0].region), 0);
	assert_int_equal(rdmamsg_dc_write(to[0], &s, 1, &old, 0, 0, &c[0]), 0);
	WAIT_FOR(completed == 1);
	assert_true(c[0].status < 0);
	assert_int_equal(halls[0].memory[0], 0);
	assert_int_equal(rdmamsg_dc_target_get_key(halls[0].target,
						   halls[0].region,
						   &halls[0].key), 0);
	assert_int_equal(rdmamsg_dc_write(to[0], &s, 1, &halls[0].key, 0, 0,
					  &c[1]), 0);
	WAIT_FOR(completed == 2);
	assert_int_equal(c[1].status, 0);
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
	assert_int_equal(rdmamsg_dc_write(to[0], &s, 1, &halls[0].key, 0, 0,
					  &c[1]), -EAGAIN);
	assert_int_equal(rdmamsg_dc_sendv(to[0], &iov, 1, 0, &c[1]), 0);
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
		assert_int_equal(rdmamsg_dc_read(to[0], &s, 1, &halls[0].key, 0,
						 0, &c[i]), 0);
	rdmamsg_dc_sender_destroy(sender);
	WAIT_FOR(gone == 1);
	assert_int_equal(completed, 3);
	assert_int_equal(c[2].status, -ECANCELED);
	assert_int_equal(rdmamsg_region_destroy(mine), 0);
	sender = NULL;
	rdmamsg_dc_target_destroy(halls[0].target);
	WAIT_FOR(halls[0].destroyed == 1);
	test_close(near);
	test_close(far);
}

/* ---- layouts ---------------------------------------------------------- */

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
	uint8_t buf[512];
	size_t len;

	assert_error(rdmamsg_dc_target_get_layout_key(h->target, l, buf, 31,
						      &len), -EMSGSIZE, "key");
	assert_int_equal(rdmamsg_dc_target_get_layout_key(h->target, l, buf,
							  sizeof(buf), &len),
			 0);
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
	assert_int_equal(rdmamsg_dc_write_imm(to[0], &all, 1, key, 0, 5, 0,
					      &c[0]), 0);
	WAIT_FOR(completed == 1 && h->written == 1);
	assert_int_equal(failed, 0);
	assert_true(has_spread(h, 1));
	/* a copy into some blocks, from the middle of one on */
	assert_int_equal(rdmamsg_dc_write(to[0], &(struct rdmamsg_sge){
				(void *)(uintptr_t)pattern(3), 100, NULL }, 1,
						  key, 20, 0, &c[1]),
			 0);
	assert_int_equal(rdmamsg_dc_read(to[0], &piece, 1, key, 10,
					 RDMAMSG_FENCE, &c[2]), 0);
	assert_int_equal(rdmamsg_dc_read(to[0], &all, 1, key, 0, RDMAMSG_FENCE,
					 &c[3]), 0);
	WAIT_FOR(completed == 4);
	assert_int_equal(failed, 0);
	assert_memory_equal(local + 32768 + 10, pattern(3), 100);
	for (uint32_t i = 0; i < SPREAD; i++)
		assert_int_equal(*byte_of(local, NEAR_STEP, i),
				 *byte_of(h->memory, FAR_STEP, i));
	assert_int_equal(h->messages, 0);
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
		       RDMAMSG_ACCESS_WRITE);
	import_key(h, there, &key);
	exchange_spread(h, here, &key);
	assert_int_equal(rdmamsg_layout_invalidate(here), 0);
	assert_int_equal(rdmamsg_layout_destroy(here), 0);
	assert_error(rdmamsg_dc_read(to[0], &(struct rdmamsg_sge){
				local, 64, mine }, 1, &key, SPREAD - 63, 0, &c),
		     -ERANGE, "key");
	/* the target takes the memory away */
	assert_int_equal(rdmamsg_layout_destroy(there), 0);
	assert_int_equal(rdmamsg_dc_read(to[0], &(struct rdmamsg_sge){
				local, 64, mine }, 1, &key, 0, 0, &c), 0);
	WAIT_FOR(c.count);
	assert_int_equal(c.status, -EACCES);
	(void)rdmamsg_layout_forget(near, &key);
	finish(1);
	(void)unsetenv("RDMAMSG_SOFT_LAYOUTS");
}

static void layouts__of_both_sides_AS_IN_ONE_PIECE(void **state)
{
	spread_both("native");
}

static void layouts__in_software_AS_IN_ONE_PIECE(void **state)
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
static void runs__to_more_targets_than_initiators_BEFORE_THEIR_MESSAGES(
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
		assert_int_equal(rdmamsg_dc_write(to[i], &s, 1, &key[i], 0, 0,
						  &c[2 * i]), 0);
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
static void run__when_its_sender_is_destroyed_CANCELLED(void **state)
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
	assert_int_equal(rdmamsg_dc_write(to[0], &s, 1, &key, 0, 0, &c), 0);
	test_pump(0);
	rdmamsg_dc_sender_destroy(sender);
	WAIT_FOR(gone == 1);
	assert_int_equal(c.count, 1);
	assert_true(!c.status || c.status == -ECANCELED);
	assert_int_equal(rdmamsg_layout_destroy(here), 0);
	assert_int_equal(rdmamsg_layout_forget(near, &key), 0);
	rdmamsg_dc_target_destroy(halls[0].target);
	WAIT_FOR(halls[0].destroyed == 1);
	test_close(near);
	test_close(far);
	(void)unsetenv("RDMAMSG_SOFT_LAYOUTS");
}

/* ---- masked atomics ---------------------------------------------------- */

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
	const struct rdmamsg_masked_swap swap = {
		r->expected, r->compare, r->value, r->mask,
	};

	return r->adds ?
	       rdmamsg_dc_fetch_add_fields(to[0], &halls[0].key, 64, r->bytes,
					   r->value, r->mask, was, 0, c) :
	       rdmamsg_dc_masked_compare_swap(to[0], &halls[0].key, 64,
					      r->bytes, &swap, was, 0, c);
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
static void masked__each_AS_LISTED(void **state)
{
	start(1, 0, 0);
	if (!atomics)
		skip_because("no atomic operations");
	for (unsigned int round = 0; round < 2; round++)
		for (size_t i = 0; i < ARRAY_SIZE(masked_rows); i++)
			if (!masked_run(&masked_rows[i]))
				assert_true(masked_rows[i].bytes > 8 &&
					    (DC_PATH == RDMAMSG_DC_NATIVE ||
					     !test_on_soft()));
	finish(1);
}

/* Other operations and messages wait for the tries, if there are any. */
static void masked__among_others_IN_ORDER(void **state)
{
	static struct cookie c[4 * 25];
	static uint64_t was[25];
	static uint32_t half[25];
	struct hall *h = &halls[0];
	const uint64_t one = 1;
	const uint32_t small = 1;
	unsigned int n = 0;

	start(1, 0, 0);
	if (!atomics)
		skip_because("no atomic operations");
	memset(c, 0, sizeof(c));
	for (uint32_t i = 0; i < 25; i++) {
		assert_int_equal(rdmamsg_dc_fetch_add_fields(
					 to[0], &h->key, 0, 8, &one, NULL, NULL,
					 0, &c[n++]), 0);
		assert_int_equal(rdmamsg_dc_fetch_add(to[0], &h->key, 0, 1,
						      &was[i], 0, &c[n++]), 0);
		assert_int_equal(rdmamsg_dc_fetch_add_fields(
					 to[0], &h->key, 12, 4, &small, NULL,
					 &half[i], 0, &c[n++]), 0);
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
static void masked__of_rivals_ADD_UP(void **state)
{
	static struct cookie c[HALLS * 20];
	struct rdmamsg_dc_address *rival[4];
	const uint64_t one = 1;

	start(1, 2, 0);
	if (!atomics)
		skip_because("no atomic operations");
	memset(c, 0, sizeof(c));
	for (int i = 0; i < 4; i++)
		rival[i] = address_of(&halls[0]);
	for (uint32_t i = 0; i < ARRAY_SIZE(c); i++)
		assert_int_equal(rdmamsg_dc_fetch_add_fields(
					 rival[i % 4], &halls[0].key, 0, 8,
					 &one, NULL, NULL, 0, &c[i]), 0);
	WAIT_FOR(completed == ARRAY_SIZE(c));
	assert_int_equal(failed, 0);
	assert_int_equal(halls[0].memory[0], ARRAY_SIZE(c));
	for (int i = 0; i < 4; i++)
		rdmamsg_dc_address_destroy(rival[i]);
	finish(1);
}

static void masked__sender_destroyed_EACH_ENDS(void **state)
{
	static struct cookie c[20];
	const uint64_t one = 1;
	unsigned int n = 0;

	start(1, 0, 0);
	if (!atomics)
		skip_because("no atomic operations");
	memset(c, 0, sizeof(c));
	for (; n < ARRAY_SIZE(c); n++)
		assert_int_equal(rdmamsg_dc_fetch_add_fields(
					 to[0], &halls[0].key, 0, 8, &one, NULL,
					 NULL, 0, &c[n]), 0);
	rdmamsg_dc_sender_destroy(sender);
	WAIT_FOR(gone == 1);
	assert_int_equal(completed, n);
	for (n = 0; n < ARRAY_SIZE(c); n++)
		assert_int_equal(c[n].count, 1);
	rdmamsg_dc_target_destroy(halls[0].target);
	WAIT_FOR(halls[0].destroyed == 1);
	test_close(near);
	test_close(far);
}

static void masked__bad_arguments_ARE_TOLD(void **state)
{
	const uint64_t v[2] = { 0, 0 };
	struct rdmamsg_masked_swap swap = { v, NULL, NULL, NULL };
	const struct rdmamsg_key *key;
	struct cookie c = { 0 };

	start(1, 0, 0);
	if (!atomics)
		skip_because("no atomic operations");
	key = &halls[0].key;
	assert_error(rdmamsg_dc_fetch_add_fields(to[0], key, 0, 5, v, NULL,
						 NULL, 0, &c), -EINVAL,
		     "4, 8, 16 or 32");
	assert_error(rdmamsg_dc_fetch_add_fields(to[0], key, 0, (size_t)1 << 34,
						 v, NULL, NULL, 0, &c), -EINVAL,
		     "4, 8, 16 or 32");
	assert_error(rdmamsg_dc_fetch_add_fields(to[0], key, 0, 16, v, v, NULL,
						 0, &c), -EINVAL, "field");
	assert_error(rdmamsg_dc_fetch_add_fields(to[0], key, 0, 8, NULL, NULL,
						 NULL, 0, &c), -EINVAL, "add");
	assert_error(rdmamsg_dc_masked_compare_swap(to[0], key, 0, 8, &swap,
						    NULL, 0, &c), -EINVAL,
		     "NULL");
	assert_error(rdmamsg_dc_masked_compare_swap(to[0], key, 0, 8, NULL,
						    NULL, 0, &c), -EINVAL,
		     "NULL");
	assert_error(rdmamsg_dc_fetch_add_fields(to[0], NULL, 0, 8, v, NULL,
						 NULL, 0, &c), -EINVAL, "key");
	assert_error(rdmamsg_dc_fetch_add_fields(to[0], key, 0, 8, v, NULL,
						 NULL, 0, NULL), -EINVAL,
		     "cookie");
	assert_error(rdmamsg_dc_fetch_add_fields(NULL, key, 0, 8, v, NULL, NULL,
						 0, &c), -EINVAL, "NULL");
	assert_int_equal(c.count, 0);
	finish(1);
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
};

int main(int argc, char **argv)
{
	return test_main(tests, NULL, argc, argv);
}
