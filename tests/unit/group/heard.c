/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: what a subscriber makes of single frames; and address handles
 * and memberships that go.
 */
#include "../own_fabric.h"
#include "base/base.h"
#include "base/ctx.h"
#include "base/timer.h"
#include "base/util.h"
#include "device/verbs_api.h"
#include "group/carrier.h"
#include "group/group.h"
#include "wire/frame.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <rdmamsg/diag.h>
#include <rdmamsg/group.h>

#define GROUP	"239.1.2.3"
#define SENDER	99u
#define WAIT_MS	60000		/* far beyond what anything takes */
#define PLACE	77u		/* QP number of the sender */

static struct rdmamsg *ctx;
static uint32_t joined, closed, messages, first_lost, last_lost, gaps;
static uint32_t complaints;

static void on_joined(struct rdmamsg_group *group)
{
	joined++;
}

static void on_message(struct rdmamsg_group *group,
		       const struct rdmamsg_group_message *msg)
{
	messages++;
}

static void on_gap(struct rdmamsg_group *group,
		   const struct rdmamsg_group_sender *sender, uint32_t first,
		   uint32_t last)
{
	first_lost = first;
	last_lost = last;
	gaps++;
}

static void on_closed(struct rdmamsg_group *group,
		      const struct rdmamsg_reason *why)
{
	closed++;
}

static void turns_until(const uint32_t *count)
{
	uint64_t end = rdmamsg__now_ms() + WAIT_MS;

	while (!*count) {
		assert_true(rdmamsg__now_ms() < end);
		assert_true(rdmamsg_wait(ctx, 10) >= 0);
	}
}

static struct rdmamsg_group *join_with(struct rdmamsg_group_options opts)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined,
		.on_message = on_message, .on_gap = on_gap,
		.on_closed = on_closed,
	};
	struct rdmamsg_group *group;

	opts.size = sizeof(opts);
	opts.handlers = &on;
	joined = closed = messages = gaps = 0;
	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_group_join(ctx, GROUP, &opts, &group), 0);
	turns_until(&joined);
	return group;
}

static struct rdmamsg_group *join(uint32_t flags)
{
	return join_with((struct rdmamsg_group_options){
		.flags = flags, .rate = RDMAMSG_NONE,
	});
}

/* A frame of at most 100 bytes. */
static void hear_frame(struct rdmamsg_group *group, struct frame f,
		       uint32_t place)
{
	uint8_t bytes[FRAME_HDR_LEN + 100] = { 0 };
	struct datagram d = { .data = bytes, .from = { .qpn = place } };

	f.size = 100;
	if (f.type == FRAME_DATA)
		f.data_len = min(f.length - f.index * f.size, 100u);
	d.len = FRAME_HDR_LEN + f.data_len;
	rdmamsg__frame_encode(&f, bytes);
	rdmamsg__group_datagram(group, &d);
}

static void hear(struct rdmamsg_group *group, enum frame_type type,
		 uint32_t number, uint8_t flags, uint32_t place)
{
	hear_frame(group, (struct frame){
		.type = type, .flags = FRAME_REPAIRS | flags, .sender = SENDER,
		.number = number, .length = type == FRAME_DATA,
	}, place);
}

static void hear_first_of(struct rdmamsg_group *group, uint32_t number,
			  uint32_t length)
{
	hear_frame(group, (struct frame){
		.type = FRAME_DATA, .flags = FRAME_REPAIRS, .sender = SENDER,
		.number = number, .length = length,
	}, PLACE);
}

/* A test that stands still here must not change what is silent. */
static void set_silent(struct member *m, uint64_t ms)
{
	m->heard = rdmamsg__now_ms() - ms;
	rdmamsg__timer_set(&ctx->loop.timers, &m->group->sweep, WAIT_MS);
	m->group->went_on = 0;
}

/* This process does not run for a time, and senders do. */
static void stop(struct rdmamsg_group *g, uint64_t ms)
{
	struct timers *ts = &ctx->loop.timers;
	struct list *n;

	for (int i = 0; i < ts->count; i++)
		ts->heap[i]->when -= ms * 1000;
	list_for_each(n, &g->members)
		list_entry(n, struct member, node)->heard -= ms;
}

/* Nobody answers when a sender has ended: what is missing is lost. */
static void end__behind_a_loss_TELLS_THE_GAP(void **state)
{
	struct rdmamsg_group *g = join(RDMAMSG_GROUP_SUBSCRIBE |
				       RDMAMSG_GROUP_REPAIR);

	hear(g, FRAME_DATA, 5, 0, PLACE);
	hear(g, FRAME_DATA, 8, 0, PLACE);
	assert_int_equal(messages, 1);
	assert_int_equal(gaps, 0);
	hear(g, FRAME_END, 9, 0, PLACE);
	assert_int_equal(messages, 2);
	assert_int_equal(gaps, 1);
	assert_int_equal(first_lost, 6);
	assert_int_equal(last_lost, 7);
	rdmamsg_close(ctx);
}

static void frame__of_another_place_IS_FORGED(void **state)
{
	struct rdmamsg_group_stats st = { .size = sizeof(st) };
	struct rdmamsg_group *g = join(RDMAMSG_GROUP_SUBSCRIBE);
	struct member *m;

	hear(g, FRAME_DATA, 5, 0, PLACE);
	m = rdmamsg__member_find(g, SENDER);
	assert_non_null(m);
	/* a test that stands still here is no silence */
	m->heard += 3600000;
	hear(g, FRAME_DATA, 6, 0, PLACE + 1);
	assert_int_equal(messages, 1);
	assert_int_equal(rdmamsg_group_get_stats(g, &st), 0);
	assert_int_equal(st.dropped_forged, 1);
	/* after a silence it may have moved */
	set_silent(m, 200);
	hear(g, FRAME_DATA, 6, 0, PLACE + 1);
	assert_int_equal(messages, 2);
	/* an idle sender's heartbeat tells that it has moved */
	set_silent(m, 200);
	hear(g, FRAME_HEARTBEAT, 7, 0, PLACE);
	hear(g, FRAME_DATA, 7, 0, PLACE);
	assert_int_equal(messages, 3);
	rdmamsg_close(ctx);
}

/* The sender is silent long enough to have moved, but it has not moved. */
static void end__of_another_place_ENDS_NOBODY(void **state)
{
	struct rdmamsg_group *g = join(RDMAMSG_GROUP_SUBSCRIBE);
	struct member *m;

	hear(g, FRAME_DATA, 5, 0, PLACE);
	m = rdmamsg__member_find(g, SENDER);
	assert_non_null(m);
	set_silent(m, 200);
	hear(g, FRAME_END, 6, 0, PLACE + 1);
	assert_int_equal(m->st.dropped_forged, 1);
	for (uint32_t n = 6; n < 10; n++)
		hear(g, FRAME_DATA, n, 0, PLACE);
	assert_int_equal(messages, 5);
	assert_int_equal(gaps, 0);
	rdmamsg_close(ctx);
}

static void number__of_another_place_FITS(void **state)
{
	static const uint32_t wrong[] = { 5 + 0x7ffffff0, 4, 5 + 20000 };
	struct rdmamsg_group *g = join(RDMAMSG_GROUP_SUBSCRIBE);
	struct member *m;

	hear(g, FRAME_DATA, 5, 0, PLACE);
	m = rdmamsg__member_find(g, SENDER);
	assert_non_null(m);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		set_silent(m, 200);
		hear(g, FRAME_DATA, wrong[i], 0, PLACE + 1);
		hear(g, FRAME_HEARTBEAT, wrong[i], 0, PLACE + 1);
	}
	assert_int_equal(m->st.dropped_forged, 6);
	hear(g, FRAME_DATA, 6, 0, PLACE);
	assert_int_equal(messages, 2);
	assert_int_equal(gaps, 0);
	rdmamsg_close(ctx);
}

/* The sender comes back, behind the numbers of who has taken its id. */
static void sender__behind_forged_numbers_IS_HEARD_AGAIN(void **state)
{
	struct rdmamsg_group *g = join(RDMAMSG_GROUP_SUBSCRIBE);
	struct member *m;

	hear(g, FRAME_DATA, 5, 0, PLACE);
	m = rdmamsg__member_find(g, SENDER);
	assert_non_null(m);
	set_silent(m, 2 * SILENT_MS);
	hear(g, FRAME_DATA, 5 + 0x7ffffff0, 0, PLACE + 1);
	assert_int_equal(messages, 2);
	assert_int_equal(gaps, 1);
	set_silent(m, SILENT_MS / 2);
	hear(g, FRAME_DATA, 6, 0, PLACE);
	assert_int_equal(messages, 2);
	set_silent(m, 2 * SILENT_MS);
	hear(g, FRAME_DATA, 7, FRAME_REPEATED, PLACE);
	assert_int_equal(messages, 2);
	hear(g, FRAME_DATA, 7, 0, PLACE);
	hear(g, FRAME_DATA, 8, 0, PLACE);
	assert_int_equal(messages, 4);
	assert_int_equal(gaps, 1);
	rdmamsg_close(ctx);
}

static void sender__alive_behind_its_end_IS_HEARD(void **state)
{
	struct rdmamsg_group_stats st = { .size = sizeof(st) };
	struct rdmamsg_group *g = join(RDMAMSG_GROUP_SUBSCRIBE |
				       RDMAMSG_GROUP_REPAIR);

	for (uint32_t n = 5; n < 15; n += 5) {
		enum frame_type type = n == 5 ? FRAME_DATA : FRAME_HEARTBEAT;

		messages = 0;
		hear(g, FRAME_DATA, n, 0, PLACE);
		hear(g, FRAME_END, n + 1, 0, PLACE);
		/* late ones prove nothing */
		hear(g, FRAME_DATA, n, 0, PLACE);
		hear(g, FRAME_HEARTBEAT, n + 1, 0, PLACE);
		hear(g, FRAME_END, n + 1, 0, PLACE);
		assert_int_equal(rdmamsg_group_get_stats(g, &st), 0);
		assert_int_equal(st.senders, 0);
		hear(g, type, n + 1 + (type == FRAME_HEARTBEAT), 0, PLACE);
		assert_int_equal(rdmamsg_group_get_stats(g, &st), 0);
		assert_int_equal(st.senders, 1);
		hear(g, FRAME_DATA, n + 1, 0, PLACE);
		assert_int_equal(messages, 2);
		for (uint32_t i = n + 2; i < n + 5; i++)
			hear(g, FRAME_DATA, i, 0, PLACE);
	}
	assert_int_equal(gaps, 0);
	rdmamsg_close(ctx);
}

/*
 * A publisher dies in the middle of a message. Without repair it is not asked
 * for the rest, and with repair neither, because the rest was never sent.
 */
static void sender__dead_in_a_message_IS_GIVEN_UP(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct rdmamsg_group *g =
			join(RDMAMSG_GROUP_SUBSCRIBE |
			     (i ? RDMAMSG_GROUP_REPAIR : 0u));
		struct member *m;

		hear(g, FRAME_DATA, 5, 0, PLACE);
		hear_first_of(g, 6, 1 << 20);
		m = rdmamsg__member_find(g, SENDER);
		assert_non_null(m);
		assert_true(g->room.used >= 1 << 20);
		assert_true(g->sweep.pos >= 0);
		/* not yet */
		set_silent(m, SILENT_MS / 2);
		rdmamsg__timer_set(&ctx->loop.timers, &g->sweep, 0);
		assert_true(rdmamsg_wait(ctx, 20) >= 0);
		assert_int_equal(gaps, 0);
		assert_in_range(rdmamsg__timer_ms(&g->sweep) -
				rdmamsg__now_ms(), 1, SILENT_MS / 2);
		set_silent(m, SILENT_MS);
		rdmamsg__timer_set(&ctx->loop.timers, &g->sweep, 0);
		turns_until(&gaps);
		assert_int_equal(first_lost, 6);
		assert_int_equal(last_lost, 6);
		assert_int_equal(g->room.used, 0);
		assert_true(g->sweep.pos < 0);
		rdmamsg_close(ctx);
	}
}

static void hear_id(struct rdmamsg_group *group, uint64_t id, uint32_t number)
{
	hear_frame(group, (struct frame){
		.type = FRAME_DATA, .sender = id, .number = number, .length = 1,
	}, PLACE);
}

static void expect_followed(struct rdmamsg_group *group, uint64_t count,
			    uint64_t refused)
{
	struct rdmamsg_group_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_group_get_stats(group, &st), 0);
	assert_int_equal(st.senders, count);
	assert_int_equal(st.dropped_senders, refused);
}

/* Evicts a sender that has left first, then a likely forgery, then a silent one. */
static void senders__beyond_max_senders_REPLACE_OTHERS(void **state)
{
	struct rdmamsg_group *g = join_with((struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_SUBSCRIBE, .max_senders = 4,
	});

	/* a test that stands still here is no silence */
	for (uint64_t id = 1; id <= 4; id++) {
		hear_id(g, id, 0);
		if (id < 4)
			hear_id(g, id, 1);
		rdmamsg__member_find(g, id)->heard += 3600000;
	}
	hear_id(g, 5, 0);
	expect_followed(g, 4, 1);
	/* one of several datagrams stays longer */
	set_silent(rdmamsg__member_find(g, 1), 25000);
	hear_id(g, 5, 0);
	expect_followed(g, 4, 2);
	set_silent(rdmamsg__member_find(g, 4), 1000);
	set_silent(rdmamsg__member_find(g, 3), 1000);
	set_silent(rdmamsg__member_find(g, 2), 1000);
	hear_id(g, 5, 0);
	hear_id(g, 5, 1);
	expect_followed(g, 4, 2);
	assert_null(rdmamsg__member_find(g, 4));
	assert_int_equal(messages, 7 + 2);
	set_silent(rdmamsg__member_find(g, 1), 30000);
	hear_id(g, 6, 0);
	hear_id(g, 6, 1);
	assert_null(rdmamsg__member_find(g, 1));
	/* the last one that was heard, but it has left */
	hear_frame(g, (struct frame){
		.type = FRAME_END, .sender = 6, .number = 2,
	}, PLACE);
	expect_followed(g, 3, 2);
	set_silent(rdmamsg__member_find(g, 2), 30000);
	hear_id(g, 7, 0);
	assert_null(rdmamsg__member_find(g, 6));
	assert_non_null(rdmamsg__member_find(g, 2));
	expect_followed(g, 4, 2);
	rdmamsg_close(ctx);
}

static void repairs__that_arrive_PUT_OFF_ASKING(void **state)
{
	struct rdmamsg_group *g = join(RDMAMSG_GROUP_SUBSCRIBE |
				       RDMAMSG_GROUP_REPAIR);
	uint64_t now = rdmamsg__now_us();
	struct member *m;

	hear(g, FRAME_DATA, 5, 0, PLACE);
	hear(g, FRAME_DATA, 9, 0, PLACE);
	m = rdmamsg__member_find(g, SENDER);
	assert_non_null(m);
	assert_true(m->ask_at >= now);
	m->ask_at = now;
	hear(g, FRAME_DATA, 6, FRAME_REPEATED, PLACE);
	assert_true(m->ask_at >= now + 2000);
	/* a new message is no repair */
	m->ask_at = now;
	hear(g, FRAME_DATA, 10, 0, PLACE);
	assert_true(m->ask_at == now);
	/* a repair for others says nothing about what is missing here */
	hear(g, FRAME_DATA, 5, FRAME_REPEATED, PLACE);
	assert_true(m->ask_at == now);
	rdmamsg_close(ctx);
}

/* Some of it may be lost for good, however much else is repaired. */
static void repairs__without_end_DO_NOT_SILENCE_A_SUBSCRIBER(void **state)
{
	struct rdmamsg_group *g = join(RDMAMSG_GROUP_SUBSCRIBE |
				       RDMAMSG_GROUP_REPAIR);
	uint64_t now = rdmamsg__now_us();
	struct member *m;
	uint32_t n;

	hear(g, FRAME_DATA, 5, 0, PLACE);
	hear(g, FRAME_DATA, 1000, 0, PLACE);
	m = rdmamsg__member_find(g, SENDER);
	assert_non_null(m);
	for (n = 7; n < 1000; n++) {
		m->ask_at = now;
		hear(g, FRAME_DATA, n, FRAME_REPEATED, PLACE);
		if (m->ask_at == now)
			break;
	}
	assert_in_range(n, 8, 50);
	/* and the next request may be put off again */
	turns_until(&m->asked);
	m->again_at = now;
	hear(g, FRAME_DATA, n + 1, FRAME_REPEATED, PLACE);
	assert_true(m->again_at > now);
	rdmamsg_close(ctx);
}

/* It sends heartbeats no more, and nobody answers. */
static void sender__silent_IS_ASKED_NO_MORE(void **state)
{
	struct rdmamsg_group *g = join(RDMAMSG_GROUP_SUBSCRIBE |
				       RDMAMSG_GROUP_REPAIR);
	struct member *m;

	hear(g, FRAME_DATA, 5, 0, PLACE);
	hear(g, FRAME_DATA, 8, 0, PLACE);
	m = rdmamsg__member_find(g, SENDER);
	assert_non_null(m);
	turns_until(&m->asked);
	assert_int_equal(gaps, 0);
	set_silent(m, SILENT_MS);
	m->ask_at = 1;
	turns_until(&gaps);
	assert_int_equal(first_lost, 6);
	assert_int_equal(last_lost, 7);
	assert_int_equal(messages, 2);
	assert_int_equal(m->ask_at, 0);
	rdmamsg_close(ctx);
}

/* The timers run before the datagrams that have come meanwhile are read. */
static void stopped__amid_messages_GIVES_UP_NONE(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct rdmamsg_group *g =
			join(RDMAMSG_GROUP_SUBSCRIBE |
			     (i ? RDMAMSG_GROUP_REPAIR : 0u));
		struct member *m;
		uint64_t now;

		hear(g, FRAME_DATA, 5, 0, PLACE);
		hear(g, FRAME_DATA, 6 + 2 * (uint32_t)i, 0, PLACE);
		hear_first_of(g, 7 + 2 * (uint32_t)i, 1 << 20);
		m = rdmamsg__member_find(g, SENDER);
		assert_non_null(m);
		for (int k = 0; k < 3; k++) {
			m->heard = rdmamsg__now_ms();
			stop(g, 2 * SILENT_MS);
			now = rdmamsg__now_ms();
			assert_true(rdmamsg__timers_run(&ctx->loop.timers) >=
				    0);
			assert_int_equal(gaps, 0);
			assert_true(g->sweep.pos >= 0);
			assert_true(now < m->heard + SILENT_MS);
		}
		/* the time in which it runs counts */
		set_silent(m, SILENT_MS);
		rdmamsg__timer_set(&ctx->loop.timers, &g->sweep, 0);
		turns_until(&gaps);
		rdmamsg_close(ctx);
	}
}

static void stopped__sender_HAS_NOT_MOVED(void **state)
{
	struct rdmamsg_group *g = join(RDMAMSG_GROUP_SUBSCRIBE);
	struct member *m;

	hear(g, FRAME_DATA, 5, 0, PLACE);
	m = rdmamsg__member_find(g, SENDER);
	assert_non_null(m);
	stop(g, 2 * SILENT_MS);
	hear(g, FRAME_DATA, 6, 0, PLACE + 1);
	assert_int_equal(m->st.dropped_forged, 1);
	assert_true(rdmamsg__timers_run(&ctx->loop.timers) >= 0);
	/* the moment after it, however long this test takes */
	assert_true(g->went_on);
	m->heard -= SILENT_MS / 2;
	rdmamsg__timer_set(&ctx->loop.timers, &g->sweep, WAIT_MS);
	g->went_on += WAIT_MS;
	hear(g, FRAME_DATA, 6, 0, PLACE + 1);
	assert_int_equal(m->st.dropped_forged, 2);
	hear(g, FRAME_DATA, 6, 0, PLACE);
	assert_int_equal(messages, 2);
	assert_int_equal(gaps, 0);
	rdmamsg_close(ctx);
}

/* A table that is full keeps its senders as well. */
static void stopped__full_of_senders_FORGETS_NONE(void **state)
{
	struct rdmamsg_group *g = join_with((struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_SUBSCRIBE, .max_senders = 1,
	});

	hear_id(g, 1, 0);
	hear_id(g, 1, 1);
	stop(g, 60000);
	hear_id(g, 2, 0);
	assert_non_null(rdmamsg__member_find(g, 1));
	assert_null(rdmamsg__member_find(g, 2));
	rdmamsg_close(ctx);
}

static void datagrams__dropped_ARE_COUNTED_BY_CAUSE(void **state)
{
	struct rdmamsg_group_stats st = { .size = sizeof(st) };
	struct rdmamsg_group *g = join_with((struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_SUBSCRIBE | RDMAMSG_GROUP_REPAIR,
		.max_message = 100000, .max_held = 100000,
	});
	struct frame f = {
		.type = FRAME_DATA, .flags = FRAME_REPAIRS, .sender = SENDER,
	};
	const struct datagram nothing = {
		.data = (const uint8_t *)"", .len = 1,
	};

	hear(g, FRAME_DATA, 0, 0, PLACE);
	hear(g, FRAME_DATA, 0, 0, PLACE);	/* late */
	f.number = 2;
	f.length = 150;
	hear_frame(g, f, PLACE);
	hear_frame(g, f, PLACE);		/* double */
	f.length = 160;
	hear_frame(g, f, PLACE);		/* unlike: malformed */
	rdmamsg__group_datagram(g, &nothing);	/* malformed */
	f.type = FRAME_NACK;
	hear_frame(g, f, PLACE);		/* to a group: malformed */
	f.type = FRAME_DATA;
	f.number = 3;
	f.length = 100001;
	hear_frame(g, f, PLACE);		/* large */
	f.length = 90000;
	for (f.number = 4; f.number < 7; f.number++)
		hear_frame(g, f, PLACE);	/* no room for the third */
	assert_int_equal(rdmamsg_group_get_stats(g, &st), 0);
	assert_int_equal(st.dropped_late, 1);
	assert_int_equal(st.dropped_double, 1);
	assert_int_equal(st.dropped_malformed, 3);
	assert_int_equal(st.dropped_large, 1);
	assert_int_equal(st.dropped_memory, 1);
	assert_int_equal(st.received_messages, 1);
	/* each that is no frame is of no sender */
	assert_int_equal(rdmamsg_group_get_sender_stats(g, SENDER, &st), 0);
	assert_int_equal(st.dropped_late, 1);
	assert_int_equal(st.dropped_double, 1);
	assert_int_equal(st.dropped_malformed, 1);
	assert_int_equal(st.dropped_large, 1);
	assert_int_equal(st.dropped_memory, 1);
	rdmamsg_close(ctx);
}

static void address_handle__in_use_STAYS(void **state)
{
	struct rdmamsg_group *g = join(RDMAMSG_GROUP_PUBLISH);
	struct carrier *c = g->carrier;
	const struct carrier_peer peer = { .gid = c->sgid, .qpn = PLACE };
	struct carrier_to to;

	/* more than what completes with the next signaled request */
	for (uint32_t i = 0; i < c->send_depth / 4 + 6; i++)
		assert_int_equal(rdmamsg_group_publish(g, "x", 1), 0);
	assert_int_equal(rdmamsg__carrier_way(c, &peer, &to), 0);
	rdmamsg__carrier_drop_ah(c, to.ah);
	assert_false(list_empty(&c->old_ahs));
	while (!c->done)
		assert_true(rdmamsg_wait(ctx, 10) >= 0);
	assert_true(c->done < c->sent);
	assert_false(list_empty(&c->old_ahs));
	for (uint32_t i = 0; i < c->send_depth / 4; i++)
		assert_int_equal(rdmamsg_group_publish(g, "x", 1), 0);
	while (c->done <= c->send_depth / 4)
		assert_true(rdmamsg_wait(ctx, 10) >= 0);
	assert_true(list_empty(&c->old_ahs));
	rdmamsg_close(ctx);
}

static void on_log(void *user, enum rdmamsg_log_level level, const char *line)
{
	complaints += strstr(line, "detaching") || strstr(line, "leaving");
}

/* A publisher is not attached. */
static void leave__of_a_publisher_LEAVES_WHAT_WAS_JOINED(void **state)
{
	struct rdmamsg_group *g;

	complaints = 0;
	rdmamsg_set_log(on_log, NULL, RDMAMSG_LOG_INFO);
	g = join(RDMAMSG_GROUP_PUBLISH);
	rdmamsg_group_leave(g);
	turns_until(&closed);
	rdmamsg_close(ctx);
	rdmamsg_set_log(NULL, NULL, RDMAMSG_LOG_INFO);
	assert_int_equal(complaints, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(end__behind_a_loss_TELLS_THE_GAP),
		cmocka_unit_test(frame__of_another_place_IS_FORGED),
		cmocka_unit_test(end__of_another_place_ENDS_NOBODY),
		cmocka_unit_test(number__of_another_place_FITS),
		cmocka_unit_test(sender__behind_forged_numbers_IS_HEARD_AGAIN),
		cmocka_unit_test(sender__alive_behind_its_end_IS_HEARD),
		cmocka_unit_test(sender__dead_in_a_message_IS_GIVEN_UP),
		cmocka_unit_test(senders__beyond_max_senders_REPLACE_OTHERS),
		cmocka_unit_test(repairs__that_arrive_PUT_OFF_ASKING),
		cmocka_unit_test(
			repairs__without_end_DO_NOT_SILENCE_A_SUBSCRIBER),
		cmocka_unit_test(sender__silent_IS_ASKED_NO_MORE),
		cmocka_unit_test(stopped__amid_messages_GIVES_UP_NONE),
		cmocka_unit_test(stopped__sender_HAS_NOT_MOVED),
		cmocka_unit_test(stopped__full_of_senders_FORGETS_NONE),
		cmocka_unit_test(datagrams__dropped_ARE_COUNTED_BY_CAUSE),
		cmocka_unit_test(address_handle__in_use_STAYS),
		cmocka_unit_test(leave__of_a_publisher_LEAVES_WHAT_WAS_JOINED),
	};

	join_own_fabric("heard");
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
