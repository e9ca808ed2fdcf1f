/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a subscriber that joins late has what the publisher has kept,
 * before what follows, and nobody has it sent to the address of another.
 */
#include "members.h"
#include "base/util.h"
#include "group/audience.h"

#define LATE	(&all[SUBSCRIBERS])

/* The last subscriber leaves, and all others have what was published. */
static void begin(uint32_t flags, uint32_t messages)
{
	join_all(flags);
	publish(messages);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].due == published);
	rdmamsg_close(LATE->ctx);
}

static void join_late(struct rdmamsg_group_options opts)
{
	opts.flags |= RDMAMSG_GROUP_SUBSCRIBE | RDMAMSG_GROUP_REPAIR;
	join_one(LATE, opts);
	WAIT_FOR(LATE->joined);
}

static void expect(uint32_t count, bool less)
{
	WAIT_FOR(LATE->backlogs && LATE->due == published);
	assert_int_equal(LATE->backlogs, 1);
	assert_int_equal(LATE->backlog, count);
	assert_int_equal(LATE->marked, count);
	assert_int_equal(LATE->less, less);
	assert_int_equal(LATE->gaps, 0);
	assert_false(LATE->bad);
}

static void late__COMES_FIRST(void **state)
{
	begin(RDMAMSG_GROUP_REPAIR, 100);
	join_late((struct rdmamsg_group_options){ .backlog = 30 });
	expect(30, false);
	assert_int_equal(LATE->messages, 30);
	publish(20);
	expect(30, false);
	assert_int_equal(LATE->messages, 50);
	end_all();
}

static void late__wants_all_IS_ALL(void **state)
{
	begin(RDMAMSG_GROUP_REPAIR, 1000);
	join_late((struct rdmamsg_group_options){ .backlog = RDMAMSG_NONE });
	expect(1001, false);
	end_all();
}

static void late__kept_less_IS_TOLD(void **state)
{
	history = 16;
	begin(RDMAMSG_GROUP_REPAIR, 100);
	history = 0;
	join_late((struct rdmamsg_group_options){ .backlog = 30 });
	expect(16, true);
	rdmamsg_close(LATE->ctx);
	join_late((struct rdmamsg_group_options){ .backlog = 16 });
	expect(16, false);
	end_all();
}

static void late__bytes_BOUND(void **state)
{
	uint32_t sum = 0;

	begin(RDMAMSG_GROUP_REPAIR, 100);
	for (uint32_t i = 1; i <= 40; i++)
		sum += length_of(published - i);
	join_late((struct rdmamsg_group_options){ .backlog_bytes = sum });
	expect(40, false);
	rdmamsg_close(LATE->ctx);
	join_late((struct rdmamsg_group_options){ .backlog_bytes = sum - 1 });
	expect(39, false);
	end_all();
}

static void late__age_BOUNDS(void **state)
{
	begin(RDMAMSG_GROUP_REPAIR, 100);
	(void)poll(NULL, 0, 5);
	join_late((struct rdmamsg_group_options){ .backlog_ms = 1 });
	WAIT_FOR(LATE->backlogs);
	assert_int_equal(LATE->backlog, 0);
	assert_false(LATE->less);
	LATE->due = published;
	rdmamsg_close(LATE->ctx);
	join_late((struct rdmamsg_group_options){ .backlog_ms = 600000 });
	expect(101, false);
	end_all();
}

static void late__with_losses_under_load_IS_WHOLE(void **state)
{
	for (int round = 0; round < 5; round++) {
		begin(RDMAMSG_GROUP_REPAIR, 300);
		drop(200000);
		join_late((struct rdmamsg_group_options){ .backlog = 250 });
		while (!LATE->backlogs)
			publish(1);
		publish(300);
		WAIT_FOR(LATE->due == published);
		assert_int_equal(LATE->backlog, 250);
		assert_int_equal(LATE->marked, 250);
		assert_true(LATE->messages >= 550);
		assert_int_equal(LATE->gaps, 0);
		assert_false(LATE->bad);
		drop(0);
		end_all();
	}
}

static void late__nothing_was_published_IS_NONE(void **state)
{
	join_one(&all[0], (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_REPAIR | RDMAMSG_GROUP_PUBLISH,
	});
	published = 0;
	for (int i = 1; i <= SUBSCRIBERS; i++)
		join_one(&all[i], (struct rdmamsg_group_options){
			.flags = RDMAMSG_GROUP_REPAIR |
				 RDMAMSG_GROUP_SUBSCRIBE, .backlog = 30,
		});
	for (int i = 0; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].joined);
	publish(5);
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(all[i].due == published);
		assert_int_equal(all[i].backlogs, 1);
		assert_int_equal(all[i].messages, published);
		assert_false(all[i].bad || all[i].less);
	}
	end_all();
}

static void late__publisher_without_repair_HAS_NONE(void **state)
{
	begin(0, 10);
	join_late((struct rdmamsg_group_options){ .backlog = 30 });
	publish(5);
	expect(0, true);
	assert_int_equal(LATE->messages, 5);
	end_all();
}

static void fill(struct audience *a)
{
	while (a->count < AUDIENCE_MAX)
		a->members[a->count++] = (struct subscriber){
			.at.qpn = 0x10000 + a->count,
			.heard = rdmamsg__now_ms() + WAIT_MS,
		};
}

/* It answers nobody more, and what is published meanwhile is not lost. */
static void late__audience_is_full_GOES_ON_WITHOUT(void **state)
{
	begin(RDMAMSG_GROUP_REPAIR, 100);
	fill(all[0].group->audience);
	join_late((struct rdmamsg_group_options){ .backlog = 30 });
	publish(50);
	expect(0, true);
	assert_int_equal(LATE->messages, 50);
	end_all();
}

/* All that was held up is known to be missing, even if nothing more comes. */
static void late__publisher_dies_meanwhile_WHAT_WAS_HEARD_IS_MISSING(
							void **state)
{
	struct member *m;

	begin(RDMAMSG_GROUP_REPAIR, 100);
	fill(all[0].group->audience);
	join_late((struct rdmamsg_group_options){ .backlog = 30 });
	publish(20);
	WAIT_FOR(!list_empty(&LATE->group->members));
	m = list_first(&LATE->group->members, struct member, node);
	WAIT_FOR(m->held_up == published || !m->wishes);
	if (m->wishes)
		rdmamsg__backlog_give_up(m);
	WAIT_FOR(m->stream.heard.number == published);
	expect(0, true);
	end_all();
}

static void wish(uint64_t nonce)
{
	const struct frame_wish w = {
		.nonce = nonce, .messages = RDMAMSG_NONE,
	};

	report(published, 0, &w);
}

static const struct subscriber *stranger(void)
{
	const struct carrier_peer at = stranger_at();

	return rdmamsg__audience_find(all[0].group->audience, &at);
}

static void ask_for_all(void)
{
	const struct frame_range all_of = {
		.count = published, .last = FRAME_TO_END,
	};
	uint8_t payload[FRAME_RANGE_LEN];
	const struct frame f = {
		.type = FRAME_NACK, .sender = all[0].group->id, .length = 1,
		.data = payload, .data_len = sizeof(payload),
	};
	const struct datagram d = { .from = stranger()->at };

	rdmamsg__range_encode(&all_of, payload);
	rdmamsg__repair_nack(all[0].group, &f, &d);
	UNTIL_BY(turn_below(SUBSCRIBERS),
		 !rdmamsg__repair_pending(all[0].group));
}

static uint64_t repeated(void)
{
	struct rdmamsg_group_stats c = { .size = sizeof(c) };

	assert_int_equal(rdmamsg_group_get_stats(all[0].group, &c), 0);
	return c.sent_repeated;
}

static void wish__granted_HAS_A_BUDGET(void **state)
{
	uint64_t before;

	begin(RDMAMSG_GROUP_REPAIR, 1000);
	/* messages of the last second have a budget in any case */
	(void)poll(NULL, 0, 1100);
	wish(0);
	before = repeated();
	ask_for_all();
	assert_true(repeated() - before < published);
	wish(stranger()->nonce);
	before = repeated();
	ask_for_all();
	assert_true(repeated() - before >= published);
	join_late((struct rdmamsg_group_options){ 0 });
	end_all();
}

static void wish__from_a_forged_address_IS_NOT_GRANTED(void **state)
{
	begin(RDMAMSG_GROUP_REPAIR, 100);
	wish(0);
	assert_false(stranger()->granted);
	wish(0);
	wish(stranger()->nonce + 1);
	assert_false(stranger()->granted);
	wish(stranger()->nonce);
	assert_true(stranger()->granted);
	assert_int_equal(stranger()->first, 0);
	join_late((struct rdmamsg_group_options){ 0 });
	end_all();
}

static void option__without_repair_EINVAL(void **state)
{
	struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .backlog = 1,
	};
	struct rdmamsg_group *g;
	struct rdmamsg *ctx;

	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_group_join(ctx, GROUP, &opts, &g), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "RDMAMSG_GROUP_REPAIR"));
	rdmamsg_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(late__COMES_FIRST),
		cmocka_unit_test(late__wants_all_IS_ALL),
		cmocka_unit_test(late__kept_less_IS_TOLD),
		cmocka_unit_test(late__bytes_BOUND),
		cmocka_unit_test(late__age_BOUNDS),
		cmocka_unit_test(late__with_losses_under_load_IS_WHOLE),
		cmocka_unit_test(late__nothing_was_published_IS_NONE),
		cmocka_unit_test(late__publisher_without_repair_HAS_NONE),
		cmocka_unit_test(late__audience_is_full_GOES_ON_WITHOUT),
		cmocka_unit_test(
		    late__publisher_dies_meanwhile_WHAT_WAS_HEARD_IS_MISSING),
		cmocka_unit_test(wish__granted_HAS_A_BUDGET),
		cmocka_unit_test(wish__from_a_forged_address_IS_NOT_GRANTED),
		cmocka_unit_test(option__without_repair_EINVAL),
	};

	return run_members("backlog", tests, sizeof(tests) / sizeof(*tests));
}
