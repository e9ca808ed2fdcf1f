/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the device takes its time to define the key of a layout, or does
 * not define it. The loop goes on, and the program hears of each key once.
 */
#include "config.h"

#include "../../integration/clock.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include "device/umr.h"
#include "memory/layout.h"
#include "memory/region.h"
#include "session/ep.h"
#include "soft/control/soft_ctl.h"

#ifdef HAVE_MLX5DV

#include "late_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/layout.h>

#define BLOCK	64u
#define STRIDE	256u
#define BLOCKS	40u
#define BYTES	(BLOCKS * BLOCK)
#define LARGE	(1u << 20)
#define ACCESS	(RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE | \
		 RDMAMSG_ACCESS_LOCAL_WRITE)

static uint8_t far[BLOCKS * STRIDE], near[BYTES], large[LARGE];
static uint8_t bytes[1024];
static size_t len;
static struct rdmamsg_region *far_region, *near_region;
static struct rdmamsg_layout *layout;
static unsigned int messages;

/* The program hears this of one key. */
struct key {
	unsigned int count;
	int status;
};

/* ---- both ends --------------------------------------------------------- */

static void on_message_of(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	messages++;
	rdmamsg_msg_free(msg);
}

static void on_key(struct rdmamsg_ep *ep, void *cookie, int status)
{
	const struct side *s = rdmamsg_ep_user(ep);
	struct key *k = cookie;

	assert_false(s->closed);
	k->count++;
	k->status = status;
}

/* The server receives large messages in its layout. */
static int on_incoming(struct rdmamsg_ep *ep, size_t size, uint32_t tag,
		       struct rdmamsg_buffer *dst)
{
	return rdmamsg_layout_recv(ep, layout, 0);
}

static struct rdmamsg_layout *layout_new(struct rdmamsg *ctx)
{
	const struct rdmamsg_layout_options opts = {
		.size = sizeof(opts), .access = ACCESS,
	};
	struct rdmamsg_layout *l;

	assert_int_equal(rdmamsg_layout_create(ctx, &opts, &l), 0);
	return l;
}

static void define(struct rdmamsg_layout *l, struct rdmamsg_region *region,
		   uint64_t block, uint64_t stride, uint64_t count)
{
	const struct rdmamsg_layout_part part = {
		.region = region, .len = block, .dims = 1, .count = { count },
		.stride = { stride },
	};

	assert_int_equal(rdmamsg_layout_define(l, &part, 1, 1), 0);
}

static int set_up(void **state)
{
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_message = on_message_of, .on_complete = on_key,
		.on_incoming = on_incoming, .on_closed = on_closed,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};

	clear_ends();
	messages = 0;
	memset(far, 0, sizeof(far));
	memset(bytes, 0, sizeof(bytes));
	len = 0;
	replace_definitions();
	connect_ends(&opts);
	assert_int_equal(rdmamsg_region_create(server.ctx, far, sizeof(far),
					       ACCESS, &far_region), 0);
	assert_int_equal(rdmamsg_region_create(client.ctx, near, sizeof(near),
					       ACCESS, &near_region), 0);
	assert_int_equal(rdmamsg_region_register(near_region, client.ep), 0);
	layout = layout_new(server.ctx);
	define(layout, far_region, BLOCK, STRIDE, BLOCKS);
	return 0;
}

static void ask(struct key *k)
{
	assert_int_equal(rdmamsg_layout_get_key(layout, server.ep, bytes,
						sizeof(bytes), &len, k), 0);
}

/* Each side has sent a message, and the other has it. */
static void talk(void)
{
	const unsigned int want = messages + 2;
	struct key sent[2] = { { 0 } };

	assert_int_equal(rdmamsg_send(client.ep, "a", 1, 0, &sent[0]), 0);
	assert_int_equal(rdmamsg_send(server.ep, "b", 1, 0, &sent[1]), 0);
	WAIT_FOR(messages == want && sent[0].count && sent[1].count);
	assert_false(sent[0].status || sent[1].status);
}

static void fill(uint8_t seed)
{
	for (uint32_t i = 0; i < BYTES; i++)
		near[i] = (uint8_t)(seed + i * 7);
}

static bool has_blocks(const uint8_t *from)
{
	for (uint32_t i = 0; i < BLOCKS; i++)
		if (memcmp(far + (size_t)i * STRIDE, from + (size_t)i * BLOCK,
			   BLOCK))
			return false;
	return true;
}

/* The client writes with the key. */
static void use(void)
{
	const struct rdmamsg_sge s = { near, BYTES, near_region };
	struct key done = { 0 };
	struct rdmamsg_key key;

	assert_int_equal(rdmamsg_layout_import(client.ctx, bytes, len, &key),
			 0);
	fill((uint8_t)len);
	assert_int_equal(rdmamsg_write(client.ep, &s, 1, &key, 0, 0, &done), 0);
	WAIT_FOR(done.count);
	assert_int_equal(done.status, 0);
	assert_true(has_blocks(near));
}

/* Lets both sides do all that they can, and drops nothing. */
static void rest(void)
{
	for (int i = 0; i < 20; i++) {
		assert_true(rdmamsg_process(client.ctx) >= 0);
		assert_true(rdmamsg_process(server.ctx) >= 0);
	}
}

/* Returns how many registrations and keys the device has. */
static uint32_t keys_of_device(void)
{
	struct soft_ctl_node node;
	struct soft_ctl *ctl;
	uint32_t next = 0;

	assert_int_equal(soft_ctl_open(own_fabric, &ctl), 0);
	assert_int_equal(soft_ctl_next(ctl, &next, &node), 0);
	soft_ctl_close(ctl);
	return node.mrs;
}

/* ---- late -------------------------------------------------------------- */

static void get_key__done_LATER_THAN_THE_CALL(void **state)
{
	struct key k = { 0 };

	ask(&k);
	assert_int_equal(k.count, 0);
	assert_int_equal(len, 0);
	WAIT_FOR(k.count);
	assert_int_equal(k.status, 0);
	assert_int_equal(len, sizeof(struct rdmamsg_key));
	use();
	/* the layout has its key already */
	ask(&k);
	assert_int_equal(k.count, 1);
	WAIT_FOR(k.count == 2);
	assert_int_equal(defined, 1);
}

static void get_key__completion_held_OTHERS_GO_ON(void **state)
{
	struct key k = { 0 };

	held = true;
	ask(&k);
	for (int i = 0; i < 3; i++)
		talk();
	assert_int_equal(k.count, 0);
	held = false;
	WAIT_FOR(k.count);
	assert_int_equal(k.status, 0);
	assert_int_equal(len, sizeof(struct rdmamsg_key));
	use();
	rest();
	assert_int_equal(k.count, 1);
}

/* A tree of 1 + 4 + 250 keys, whose requests follow each other in the loop. */
static void get_key__of_a_tree_held_OTHERS_GO_ON(void **state)
{
	static uint8_t memory[65536];
	struct rdmamsg_layout_part parts[2] = {
		{ .len = 1, .dims = 1, .count = { 8000 }, .stride = { 3 } },
		{ .len = 1, .dims = 1, .count = { 8000 }, .stride = { 5 } },
	};
	struct key k = { 0 };

	assert_int_equal(rdmamsg_region_create(server.ctx, memory,
					       sizeof(memory), ACCESS,
					       &parts[0].region), 0);
	parts[1].region = parts[0].region;
	assert_int_equal(rdmamsg_layout_define(layout, parts, 2, 1), 0);
	held = true;
	ask(&k);
	talk();
	assert_int_equal(defined, 0);
	held = false;
	WAIT_FOR(k.count);
	assert_int_equal(k.status, 0);
	assert_int_equal(defined, 255);
	assert_int_equal(len, sizeof(struct rdmamsg_key));
}

static void get_key__twice_ONE_DEFINITION(void **state)
{
	uint8_t other[sizeof(bytes)];
	struct key k[2] = { { 0 } };
	size_t other_len;

	held = true;
	ask(&k[0]);
	assert_int_equal(rdmamsg_layout_get_key(layout, server.ep, other,
						sizeof(other), &other_len,
						&k[1]), 0);
	talk();
	held = false;
	WAIT_FOR(k[0].count && k[1].count);
	assert_false(k[0].status || k[1].status);
	assert_int_equal(defined, 1);
	assert_int_equal(len, other_len);
	assert_memory_equal(bytes, other, len);
	use();
}

/* This program reaches its layout meanwhile, block by block. */
static void register__completion_held_GATHERS(void **state)
{
	struct rdmamsg_layout *mine = layout_new(client.ctx);
	struct rdmamsg_sge s = {
		NULL, BYTES, rdmamsg_layout_region(mine),
	};
	static uint8_t spread[sizeof(far)];
	struct rdmamsg_region *region;
	struct rdmamsg_key key;
	struct key k = { 0 };
	const struct dev *dev = client.ep->lane.dev;

	assert_int_equal(rdmamsg_region_create(client.ctx, spread,
					       sizeof(spread), ACCESS,
					       &region), 0);
	assert_int_equal(rdmamsg_region_get_key(far_region, server.ep, &key),
			 0);
	define(mine, region, BLOCK, STRIDE, BLOCKS);
	held = true;
	assert_int_equal(rdmamsg_layout_register(mine, client.ep), 0);
	assert_null(rdmamsg__region_mr(&mine->map->own, dev));
	memset(far, 5, BYTES);
	assert_int_equal(rdmamsg_read(client.ep, &s, 1, &key, 0, 0, &k), 0);
	WAIT_FOR(k.count);
	assert_int_equal(k.status, 0);
	for (uint32_t i = 0; i < BLOCKS; i++)
		assert_memory_equal(spread + (size_t)i * STRIDE, far, BLOCK);
	held = false;
	WAIT_FOR(rdmamsg__region_mr(&mine->map->own, dev));
	memset(far, 6, BYTES);
	assert_int_equal(rdmamsg_read(client.ep, &s, 1, &key, 0, 0, &k), 0);
	WAIT_FOR(k.count == 2);
	assert_int_equal(k.status, 0);
	assert_int_equal(spread[STRIDE], 6);
	assert_int_equal(spread[BLOCK], 0);
}

static void recv__completion_held_ARRIVES(void **state)
{
	static uint8_t memory[2 * LARGE];
	struct rdmamsg_region *region;
	struct key k = { 0 };

	assert_int_equal(rdmamsg_region_create(server.ctx, memory,
					       sizeof(memory), ACCESS,
					       &region), 0);
	define(layout, region, 1024, 2048, LARGE / 1024);
	memset(large, 9, LARGE);
	held = true;
	assert_int_equal(rdmamsg_sendv(client.ep, &(struct iovec){
					       large, LARGE }, 1, 0, &k), 0);
	WAIT_FOR(messages && k.count);
	assert_int_equal(k.status, 0);
	assert_memory_equal(memory + LARGE / 1024 * 2048 - 2048, large, 1024);
	assert_int_equal(defined, 0);
}

/* ---- never ------------------------------------------------------------- */

static void in_software(const struct key *k)
{
	struct rdmamsg_layout_attr a = { .size = sizeof(a) };

	assert_int_equal(k->count, 1);
	assert_int_equal(k->status, 0);
	assert_int_equal(rdmamsg_layout_query(layout, &a), 0);
	assert_int_equal(len, a.key_len);
	use();
}

static void get_key__never_defined_IN_SOFTWARE_AFTER_A_LIMIT(void **state)
{
	struct key k = { 0 };

	held = true;
	ask(&k);
	talk();
	clock_pass(UMR_WAIT_MS - 1000);
	talk();
	assert_int_equal(k.count, 0);
	clock_pass(1000);
	WAIT_FOR(k.count);
	in_software(&k);
}

static void get_key__definition_fails_IN_SOFTWARE(void **state)
{
	struct key k = { 0 };

	failing = true;
	ask(&k);
	WAIT_FOR(k.count);
	in_software(&k);
	assert_int_equal(defined, 1);
	/* no other layout of the device tries again */
	define(layout, far_region, BLOCK, STRIDE, BLOCKS);
	ask(&k);
	WAIT_FOR(k.count == 2);
	assert_int_equal(defined, 1);
}

/* ---- ends in between --------------------------------------------------- */

enum change { DEFINED, INVALIDATED, DESTROYED };

static void change_layout(enum change change)
{
	if (change == DEFINED)
		define(layout, far_region, BLOCK, STRIDE, BLOCKS - 1);
	else if (change == INVALIDATED)
		assert_int_equal(rdmamsg_layout_invalidate(layout), 0);
	else
		assert_int_equal(rdmamsg_layout_destroy(layout), 0);
}

/* The key that the device goes on to define is freed, too. */
static void changed(enum change change)
{
	struct rdmamsg_layout *others = layout_new(server.ctx);
	struct key k[2] = { { 0 } };
	uint32_t keys;

	/* its queue pair and the registered region stay */
	ask(&k[0]);
	WAIT_FOR(k[0].count);
	assert_int_equal(rdmamsg_layout_invalidate(layout), 0);
	keys = keys_of_device();
	define(layout, far_region, BLOCK, STRIDE, BLOCKS);
	define(others, far_region, BLOCK, STRIDE, BLOCKS);
	held = true;
	len = 0;
	ask(&k[0]);
	change_layout(change);
	assert_int_equal(k[0].count, 1);
	WAIT_FOR(k[0].count == 2);
	assert_int_equal(k[0].status, -ECANCELED);
	assert_int_equal(len, 0);
	/* behind the cancelled one */
	if (change == DESTROYED)
		layout = others;
	else
		define(layout, far_region, BLOCK, STRIDE, BLOCKS);
	ask(&k[1]);
	talk();
	held = false;
	WAIT_FOR(k[1].count);
	assert_int_equal(k[1].status, 0);
	assert_int_equal(len, sizeof(struct rdmamsg_key));
	/* not by the completion of the cancelled request */
	assert_int_equal(defined, 3);
	assert_int_equal(k[0].count, 2);
	assert_int_equal(keys_of_device(), keys + 1);
	use();
}

static void layout__changed_before_CANCELLED(void **state)
{
	changed(DEFINED);
}

static void layout__invalidated_before_CANCELLED(void **state)
{
	changed(INVALIDATED);
}

static void layout__destroyed_before_CANCELLED(void **state)
{
	changed(DESTROYED);
}

/* The device is done, and the program has not heard of it yet. */
static void layout__invalidated_at_the_end_CANCELLED(void **state)
{
	struct key k = { 0 };

	ask(&k);
	assert_int_equal(defined, 1);
	assert_int_equal(rdmamsg_layout_invalidate(layout), 0);
	WAIT_FOR(k.count);
	assert_int_equal(k.status, -ECANCELED);
	rest();
	assert_int_equal(k.count, 1);
}

static void endpoint__aborted_before_CANCELLED(void **state)
{
	struct key k[2] = { { 0 } };

	held = true;
	ask(&k[0]);
	ask(&k[1]);
	rdmamsg_ep_abort(server.ep);
	/* mostly without timers; on_key() comes before on_closed */
	UNTIL_BY(assert_true(rdmamsg_poll(server.ctx) >= 0), server.closed);
	assert_int_equal(k[0].count, 1);
	assert_int_equal(k[0].status, -ECANCELED);
	assert_int_equal(k[1].count, 1);
	held = false;
	rest();
	assert_int_equal(k[0].count + k[1].count, 2);
	assert_int_equal(rdmamsg_layout_destroy(layout), 0);
}

static void context__closed_before_CANCELLED(void **state)
{
	struct key k = { 0 };

	held = true;
	ask(&k);
	rdmamsg_close(server.ctx);
	server.ctx = NULL;
	assert_true(server.closed);
	assert_int_equal(k.count, 1);
	assert_int_equal(k.status, -ECANCELED);
}

static void device__removed_before_CANCELLED(void **state)
{
	struct key k = { 0 };
	struct soft_ctl *ctl;

	held = true;
	ask(&k);
	assert_int_equal(soft_ctl_open(own_fabric, &ctl), 0);
	assert_int_equal(soft_ctl_remove(ctl, SOFT_CTL_ALL), 0);
	WAIT_FOR(server.closed && client.closed);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_REMOVED);
	assert_int_equal(k.count, 1);
	assert_int_equal(k.status, -ECANCELED);
	rest();
	assert_int_equal(soft_ctl_add(ctl, SOFT_CTL_ALL), 0);
	soft_ctl_close(ctl);
}

/* ---- targets ----------------------------------------------------------- */

static struct key target_key;
static unsigned int destroyed;

static void on_target_key(struct rdmamsg_dc_target *t, void *cookie, int status)
{
	assert_ptr_equal(cookie, &target_key);
	assert_int_equal(destroyed, 0);
	target_key.count++;
	target_key.status = status;
}

static void on_destroyed(struct rdmamsg_dc_target *t)
{
	destroyed++;
}

static struct rdmamsg_dc_target *target_new(void)
{
	const struct rdmamsg_dc_target_options opts = {
		.size = sizeof(opts), .on_complete = on_target_key,
		.on_destroyed = on_destroyed,
	};
	struct rdmamsg_dc_target *t;

	destroyed = 0;
	target_key = (struct key){ 0 };
	assert_int_equal(rdmamsg_dc_target_create(server.ctx, "127.0.0.1", "0",
						  &opts, &t), 0);
	held = true;
	assert_int_equal(rdmamsg_dc_target_get_layout_key(t, layout, bytes,
							  sizeof(bytes), &len,
							  &target_key), 0);
	talk();
	assert_int_equal(target_key.count, 0);
	return t;
}

static void target__completion_held_OTHERS_GO_ON(void **state)
{
	struct rdmamsg_dc_target *t = target_new();

	held = false;
	WAIT_FOR(target_key.count);
	assert_int_equal(target_key.status, 0);
	assert_int_equal(len, sizeof(struct rdmamsg_key));
	rdmamsg_dc_target_destroy(t);
	WAIT_FOR(destroyed);
	assert_int_equal(target_key.count, 1);
}

static void target__destroyed_before_CANCELLED(void **state)
{
	rdmamsg_dc_target_destroy(target_new());
	WAIT_FOR(destroyed);
	assert_int_equal(target_key.count, 1);
	assert_int_equal(target_key.status, -ECANCELED);
}

#define TEST_OF(fn)	cmocka_unit_test_setup_teardown(fn, set_up, leave_soft)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_OF(get_key__done_LATER_THAN_THE_CALL),
		TEST_OF(get_key__completion_held_OTHERS_GO_ON),
		TEST_OF(get_key__of_a_tree_held_OTHERS_GO_ON),
		TEST_OF(get_key__twice_ONE_DEFINITION),
		TEST_OF(register__completion_held_GATHERS),
		TEST_OF(recv__completion_held_ARRIVES),
		TEST_OF(get_key__never_defined_IN_SOFTWARE_AFTER_A_LIMIT),
		TEST_OF(get_key__definition_fails_IN_SOFTWARE),
		TEST_OF(layout__changed_before_CANCELLED),
		TEST_OF(layout__invalidated_before_CANCELLED),
		TEST_OF(layout__destroyed_before_CANCELLED),
		TEST_OF(layout__invalidated_at_the_end_CANCELLED),
		TEST_OF(endpoint__aborted_before_CANCELLED),
		TEST_OF(context__closed_before_CANCELLED),
		TEST_OF(device__removed_before_CANCELLED),
		TEST_OF(target__completion_held_OTHERS_GO_ON),
		TEST_OF(target__destroyed_before_CANCELLED),
	};

	join_own_fabric("late-key");
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	fprintf(stderr, "skip: built without infiniband/mlx5dv.h\n");
	return 77;
}

#endif
