/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a callback publishes more than the send queue holds. The device
 * has sent the datagrams at once, so no call is refused. No call runs a
 * callback, and on_sent comes once for each message and in order.
 */
#include "../own_fabric.h"
#include "../until.h"
#include "device/verbs_api.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <rdmamsg/group.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>

#define DEPTH	16u		/* send_depth */
#define MANY	(20 * DEPTH)	/* messages of a callback */
#define PIECES	20u		/* datagrams of a large message, at least */

static struct rdmamsg *ctx;
static struct rdmamsg_group *group, *other;
static uint8_t data[PIECES * 4096];
static size_t len;
static uint32_t accepted, refused, sent, joined, writables, received;
static bool in_call, bad, ended;

static int publish(struct rdmamsg_group *g)
{
	const struct rdmamsg_sge entry = { .data = data, .len = len };
	const struct rdmamsg_op op = {
		.size = sizeof(op), .kind = RDMAMSG_OP_SEND, .sge = &entry,
		.count = 1,
	};
	int ret;

	in_call = true;
	ret = accepted % 2 ? rdmamsg_group_post(g, &op) :
	      rdmamsg_group_publish(g, data, len);
	in_call = false;
	accepted += !ret;
	refused += ret == -EAGAIN;
	bad |= ret && ret != -EAGAIN;
	return ret;
}

static void publish_many(void)
{
	for (uint32_t i = 0; i < MANY; i++)
		if (publish(group))
			return;
}

static void (*when_sent)(uint64_t n);
static void (*when_received)(void);

static void on_joined(struct rdmamsg_group *g)
{
	joined++;
}

static void on_sent(struct rdmamsg_group *g, uint64_t n)
{
	bad |= in_call || n != ++sent;
	if (when_sent)
		when_sent(n);
}

static void on_message(struct rdmamsg_group *g,
		       const struct rdmamsg_group_message *msg)
{
	bad |= in_call;
	if (!received++ && when_received)
		when_received();
}

static void on_room(struct rdmamsg_group *g)
{
	bad |= in_call;
	writables++;
}

static void on_end(struct rdmamsg_group *g, const struct rdmamsg_reason *why)
{
	ended = true;
}

static struct rdmamsg_group *join(const char *address, uint32_t flags,
				  bool tells_sent)
{
	const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined,
		.on_message = on_message, .on_writable = on_room,
		.on_closed = on_end, .on_sent = tells_sent ? on_sent : NULL,
	};
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .handlers = &on, .flags = flags,
		.send_depth = DEPTH, .rate = RDMAMSG_NONE, .linger_ms = 1,
	};
	const uint32_t before = joined;
	struct rdmamsg_group *g;

	assert_int_equal(rdmamsg_group_join(ctx, address, &opts, &g), 0);
	UNTIL(ctx, joined == before + 1);
	return g;
}

static void begin(uint32_t flags, bool tells_sent)
{
	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	joined = accepted = refused = sent = writables = received = 0;
	in_call = bad = ended = false;
	when_sent = NULL;
	when_received = NULL;
	len = 1;
	group = join("239.1.2.6", flags, tells_sent);
}

static void finish(void)
{
	rdmamsg_close(ctx);
	assert_false(bad);
}

static void run_now(struct rdmamsg *of, void *arg)
{
	*(bool *)arg = true;
	publish_many();
}

/* Publishes in a callback of the context. */
static void run_callback(void)
{
	bool called = false;

	assert_int_equal(rdmamsg_submit(ctx, run_now, &called), 0);
	UNTIL(ctx, called);
}

/* ---- room -------------------------------------------------------------- */

static void publish__in_a_callback_FINDS_ROOM(void **state)
{
	static const uint32_t kinds[] = {
		RDMAMSG_GROUP_PUBLISH,
		RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_RAW,
		RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR,
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		begin(kinds[i], false);
		run_callback();
		assert_int_equal(refused, 0);
		assert_int_equal(accepted, MANY);
		finish();
	}
}

static void publish__of_large_messages_FINDS_ROOM(void **state)
{
	begin(RDMAMSG_GROUP_PUBLISH, true);
	len = sizeof(data);
	run_callback();
	assert_int_equal(refused, 0);
	assert_int_equal(accepted, MANY);
	UNTIL(ctx, sent == accepted);
	finish();
}

static void on_sent__of_a_full_queue_COMES_ONCE_AND_IN_ORDER(void **state)
{
	begin(RDMAMSG_GROUP_PUBLISH, true);
	run_callback();
	assert_int_equal(refused, 0);
	UNTIL(ctx, sent == accepted);
	run_callback();
	assert_int_equal(refused, 0);
	UNTIL(ctx, sent == accepted);
	assert_int_equal(accepted, 2 * MANY);
	finish();
}

static void publish_more(uint64_t n)
{
	if (n < 4)
		publish_many();
}

/* The completion that leads to on_sent covers others, which the call takes. */
static void publish__in_on_sent_FINDS_ROOM(void **state)
{
	begin(RDMAMSG_GROUP_PUBLISH, true);
	when_sent = publish_more;
	run_callback();
	UNTIL(ctx, sent == 4 * MANY);
	assert_int_equal(refused, 0);
	assert_int_equal(accepted, 4 * MANY);
	finish();
}

/* The completions were polled together with the message. */
static void publish__in_on_message_FINDS_ROOM(void **state)
{
	uint32_t before;

	begin(RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_SUBSCRIBE |
	      RDMAMSG_GROUP_OWN, true);
	when_received = publish_many;
	while (!publish(group))
		;
	before = accepted;
	UNTIL(ctx, sent == before + MANY);
	assert_int_equal(refused, 1);
	assert_int_equal(accepted, before + MANY);
	finish();
}

/* ---- what it leaves to the loop ---------------------------------------- */

/* Both groups have the same queue pair. */
static void group__that_waits_for_room_IS_TOLD(void **state)
{
	begin(RDMAMSG_GROUP_PUBLISH, false);
	other = join("239.1.2.7", RDMAMSG_GROUP_PUBLISH, false);
	while (!publish(other))
		;
	assert_int_equal(refused, 1);
	accepted = refused = 0;
	run_callback();
	assert_int_equal(refused, 0);
	UNTIL(ctx, writables == 1);
	finish();
}

static void leave_now(struct rdmamsg *of, void *arg)
{
	publish_many();
	rdmamsg_group_leave(group);
}

static void on_sent__of_a_group_that_is_left_COMES_FIRST(void **state)
{
	begin(RDMAMSG_GROUP_PUBLISH, true);
	assert_int_equal(rdmamsg_submit(ctx, leave_now, NULL), 0);
	UNTIL(ctx, ended);
	assert_int_equal(refused, 0);
	assert_int_equal(sent, MANY);
	finish();
}

static void until_refused(struct rdmamsg *of, void *arg)
{
	while (!publish(group))
		;
}

static void callback__that_publishes_until_refused_ENDS(void **state)
{
	begin(RDMAMSG_GROUP_PUBLISH, true);
	assert_int_equal(rdmamsg_submit(ctx, until_refused, NULL), 0);
	UNTIL(ctx, refused == 1);
	assert_true(accepted > MANY);
	UNTIL(ctx, writables == 1 && sent == accepted);
	/* the next round has room again */
	run_callback();
	assert_int_equal(refused, 1);
	finish();
}

/* The loop comes by itself, so the call leaves the queue to it. */
static void publish__outside_callbacks_IS_REFUSED(void **state)
{
	begin(RDMAMSG_GROUP_PUBLISH, false);
	until_refused(ctx, NULL);
	assert_true(accepted <= DEPTH);
	UNTIL(ctx, writables == 1);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(publish__in_a_callback_FINDS_ROOM),
		cmocka_unit_test(publish__of_large_messages_FINDS_ROOM),
		cmocka_unit_test(
			on_sent__of_a_full_queue_COMES_ONCE_AND_IN_ORDER),
		cmocka_unit_test(publish__in_on_sent_FINDS_ROOM),
		cmocka_unit_test(publish__in_on_message_FINDS_ROOM),
		cmocka_unit_test(group__that_waits_for_room_IS_TOLD),
		cmocka_unit_test(on_sent__of_a_group_that_is_left_COMES_FIRST),
		cmocka_unit_test(callback__that_publishes_until_refused_ENDS),
		cmocka_unit_test(publish__outside_callbacks_IS_REFUSED),
	};

	join_own_fabric("room");
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
