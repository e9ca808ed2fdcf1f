/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a publisher waits for its slowest subscriber, or for a quorum, as
 * long as it was told to.
 */
#include "members.h"
#include "../../integration/clock.h"
#include "base/util.h"

#define WINDOW	16u
#define FEW	32u		/* receives */
#define TAG	0x7a61u
#define LAST	(&all[SUBSCRIBERS])	/* it stands still */
#define GONE_MS	4000u		/* then a publisher forgets it */
#define STEP_MS	50u

static struct rdmamsg_group_options with(uint32_t flow)
{
	return (struct rdmamsg_group_options){
		.flow = flow, .flow_window = WINDOW,
		.flow_limit_ms = RDMAMSG_NONE,
	};
}

static int count_member(const struct rdmamsg_group_member *m, void *user)
{
	++*(int *)user;
	return 0;
}

static int members(void)
{
	int n = 0;

	assert_int_equal(rdmamsg_group_members(all[0].group, count_member, &n),
			 0);
	return n;
}

/* The tags are those of the subscribers. */
static void begin(struct rdmamsg_group_options opts, const uint64_t *tags)
{
	published = 0;
	opts.flags = RDMAMSG_GROUP_REPAIR | RDMAMSG_GROUP_PUBLISH;
	join_one(&all[0], opts);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		join_one(&all[i], (struct rdmamsg_group_options){
			.flags = RDMAMSG_GROUP_REPAIR |
				 RDMAMSG_GROUP_SUBSCRIBE,
			.tag = tags ? tags[i - 1] : 0,
		});
	for (int i = 0; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].joined);
	publish(1);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].due == 1);
	WAIT_FOR(members() == SUBSCRIBERS);
}

/* Publishes until the first refusal, or so many. Returns their number. */
static uint32_t publish_below(int end, uint32_t most)
{
	for (uint32_t n = 0; n < most; n++) {
		const uint32_t number = published;
		int ret = rdmamsg_group_publish(all[0].group,
						content + number % 256,
						length_of(number));

		if (ret == -EAGAIN && all[0].group->flow.blocked)
			return n;
		if (ret == -EAGAIN)
			n--;		/* the rate, or the queue */
		else
			published++;
		assert_true(!ret || ret == -EAGAIN);
		turn_below(end);
	}
	return most;
}

static void finish(void)
{
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(all[i].due == published);
		assert_int_equal(all[i].gaps, 0);
		assert_false(all[i].bad);
	}
	assert_false(all[0].bad);
	end_all();
}

static void slowest__stands_still_IS_WAITED_FOR(void **state)
{
	begin(with(RDMAMSG_GROUP_FLOW_SLOWEST), NULL);
	assert_in_range(publish_below(SUBSCRIBERS, 1000), WINDOW - 1, WINDOW);
	for (int i = 0; i < 20; i++)
		turn_below(SUBSCRIBERS);
	assert_int_equal(publish_below(SUBSCRIBERS, 1), 0);
	assert_int_equal(all[0].laggards, 0);
	all[0].writable = 0;
	WAIT_FOR(all[0].writable);
	publish(500);
	finish();
}

static int count_few(const struct rdmamsg_group_member *m, void *user)
{
	*(int *)user += m->receives > 0 && m->receives <= FEW;
	return 0;
}

/* Publishes until it is refused, with a window that is not the reason. */
static void few_receives(uint32_t flow)
{
	struct rdmamsg_group_options opts = with(flow);
	uint64_t before;
	int few = 0;

	opts.flow_window = 512;
	opts.flow_quorum = flow == RDMAMSG_GROUP_FLOW_QUORUM ? SUBSCRIBERS : 0;
	recv_depth = FEW;
	begin(opts, NULL);
	assert_int_equal(rdmamsg_group_members(all[0].group, count_few, &few),
			 0);
	assert_int_equal(few, SUBSCRIBERS);
	before = rdmamsg__published(all[0].group);
	assert_in_range(publish_below(SUBSCRIBERS, 1000), 1, FEW);
	assert_in_range(rdmamsg__published(all[0].group) - before, 1,
			FEW + LARGEST / 900 + 1);
	all[0].writable = 0;
	WAIT_FOR(all[0].writable);
	publish(500);
	finish();
	recv_depth = 0;
}

static void slowest__few_receives_NOT_MORE_DATAGRAMS(void **state)
{
	few_receives(RDMAMSG_GROUP_FLOW_SLOWEST);
}

static void quorum__few_receives_NOT_MORE_DATAGRAMS(void **state)
{
	few_receives(RDMAMSG_GROUP_FLOW_QUORUM);
}

/* Goes on publishing when the last one has been told as a laggard. */
static void leave_behind(struct rdmamsg_group_options opts)
{
	opts.flow_limit_ms = 20;
	begin(opts, NULL);
	(void)publish_below(SUBSCRIBERS, 1000);
	UNTIL_BY(turn_below(SUBSCRIBERS), all[0].laggards);
	assert_int_equal(all[0].laggard.id, LAST->group->report_id);
	while (published < 200)
		if (!publish_below(SUBSCRIBERS, 10))
			turn_below(SUBSCRIBERS);
}

static void slowest__for_too_long_DOES_NOT_COUNT(void **state)
{
	struct rdmamsg_group_options opts = with(RDMAMSG_GROUP_FLOW_SLOWEST);

	leave_behind(opts);
	assert_int_equal(all[0].laggards, 1);
	/* it catches up, and counts again */
	WAIT_FOR(LAST->due == published);
	WAIT_FOR(rdmamsg_group_flush(all[0].group, WAIT_MS) == 0);
	WAIT_FOR(all[0].flushes);
	(void)publish_below(SUBSCRIBERS, 1000);
	UNTIL_BY(turn_below(SUBSCRIBERS), all[0].laggards == 2);
	finish();
}

static void slowest__few_receives_for_too_long_DOES_NOT_COUNT(void **state)
{
	struct rdmamsg_group_options opts = with(RDMAMSG_GROUP_FLOW_SLOWEST);

	opts.flow_window = 512;
	recv_depth = FEW;
	leave_behind(opts);
	finish();
	recv_depth = 0;
}

/* Some time passes, in which those from 'end' on do nothing. */
static void pass_below(int end)
{
	turn_below(end);
	clock_pass(STEP_MS);
}

/* A publisher looks when it beats and when it is told something. */
static void pass_until_gone(void)
{
	UNTIL_BY(pass_below(SUBSCRIBERS), members() == SUBSCRIBERS - 1);
}

/* A time in which it is not forgotten yet, however slow the machine is. */
static void pass_before_gone(void)
{
	clock_stop();
	for (uint32_t ms = 0; ms < GONE_MS / 2; ms += STEP_MS)
		pass_below(SUBSCRIBERS);
	assert_int_equal(members(), SUBSCRIBERS);
	assert_int_equal(all[0].laggards, 0);
	clock_go();
}

/* It goes on, has all, and is waited for again. */
static void goes_on(void)
{
	while (published < 200)
		if (!publish_below(SUBSCRIBERS, 10))
			turn_below(SUBSCRIBERS);
	WAIT_FOR(LAST->due == published);
	WAIT_FOR(members() == SUBSCRIBERS);
	WAIT_FOR(rdmamsg_group_flush(all[0].group, WAIT_MS) == 0);
	WAIT_FOR(all[0].flushes);
	assert_in_range(publish_below(SUBSCRIBERS, 1000), WINDOW - 1, WINDOW);
	finish();
}

/* A limit above the time in which it is forgotten. */
static void slowest__stopped_for_long_IS_TOLD(void **state)
{
	static const uint32_t limits[] = { RDMAMSG_NONE, 10 * GONE_MS };
	const struct rdmamsg_group_member *m = &all[0].laggard;

	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		struct rdmamsg_group_options opts =
			with(RDMAMSG_GROUP_FLOW_SLOWEST);

		opts.flow_limit_ms = limits[i];
		begin(opts, NULL);
		(void)publish_below(SUBSCRIBERS, 1000);
		pass_before_gone();
		pass_until_gone();
		assert_int_equal(all[0].laggards, 1);
		assert_true(m->id == LAST->group->report_id);
		assert_int_equal(m->qp_num,
				 LAST->group->carrier->qp->qp_num);
		assert_in_range(m->lag, WINDOW - 1, WINDOW);
		assert_in_range(m->age_ms, GONE_MS, WAIT_MS);
		goes_on();
	}
}

/* It was a laggard before, so it is one no second time. */
static void slowest__stopped_beyond_the_limit_IS_TOLD_ONCE(void **state)
{
	struct rdmamsg_group_options opts = with(RDMAMSG_GROUP_FLOW_SLOWEST);

	leave_behind(opts);
	pass_until_gone();
	assert_int_equal(all[0].laggards, 1);
	goes_on();
}

static void slowest__killed_IS_NOT_WAITED_FOR(void **state)
{
	uint64_t id;

	begin(with(RDMAMSG_GROUP_FLOW_SLOWEST), NULL);
	(void)publish_below(SUBSCRIBERS, 1000);
	id = LAST->group->report_id;
	rdmamsg_close(LAST->ctx);
	UNTIL_BY(pass_below(SUBSCRIBERS), all[0].writable);
	assert_int_equal(all[0].laggards, 1);
	assert_true(all[0].laggard.id == id);
	all[0].writable = 0;
	join_one(LAST, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_REPAIR | RDMAMSG_GROUP_SUBSCRIBE,
	});
	WAIT_FOR(LAST->joined);
	LAST->due = published;
	publish(100);
	finish();
}

/* It has held up nobody. */
static void slowest__killed_with_everything_IS_NOT_TOLD(void **state)
{
	begin(with(RDMAMSG_GROUP_FLOW_SLOWEST), NULL);
	WAIT_FOR(rdmamsg_group_flush(all[0].group, WAIT_MS) == 0);
	WAIT_FOR(all[0].flushes);
	rdmamsg_close(LAST->ctx);
	pass_until_gone();
	assert_int_equal(all[0].laggards, 0);
	LAST->ctx = NULL;
	publish_below(SUBSCRIBERS, 100);
	for (int i = 0; i < SUBSCRIBERS; i++)
		rdmamsg_close(all[i].ctx);
}

/* The publisher waits for a number, and for none of them by name. */
static void quorum__killed_IS_NOT_TOLD(void **state)
{
	for (uint32_t quorum = SUBSCRIBERS - 1; quorum <= SUBSCRIBERS;
	     quorum++) {
		struct rdmamsg_group_options opts =
			with(RDMAMSG_GROUP_FLOW_QUORUM);

		opts.flow_quorum = quorum;
		begin(opts, NULL);
		rdmamsg_close(LAST->ctx);
		assert_in_range(publish_below(SUBSCRIBERS, 100),
				quorum < SUBSCRIBERS ? 100 : WINDOW - 1,
				quorum < SUBSCRIBERS ? 100 : WINDOW);
		pass_until_gone();
		assert_int_equal(all[0].laggards, 0);
		assert_int_equal(publish_below(SUBSCRIBERS, 1),
				 quorum < SUBSCRIBERS);
		join_one(LAST, (struct rdmamsg_group_options){
			.flags = RDMAMSG_GROUP_REPAIR |
				 RDMAMSG_GROUP_SUBSCRIBE,
		});
		WAIT_FOR(LAST->joined);
		LAST->due = published;
		publish(100);
		finish();
	}
}

static void slowest__without_the_tag_IS_NOT_WAITED_FOR(void **state)
{
	struct rdmamsg_group_options opts = with(RDMAMSG_GROUP_FLOW_SLOWEST);

	opts.tag = TAG;
	begin(opts, (const uint64_t[]){ TAG, TAG, TAG + 1 });
	while (published < 100)
		if (!publish_below(SUBSCRIBERS, 10))
			turn_below(SUBSCRIBERS);
	/* nor until it was forgotten */
	assert_int_equal(all[0].laggards, 0);
	assert_in_range(publish_below(SUBSCRIBERS - 1, 1000), 0, WINDOW);
	finish();
}

/* Flushes while those from 'end' on do nothing. */
static void flush_below(int end, uint32_t ms, uint32_t of, uint32_t behind)
{
	const struct rdmamsg_group_flushed *f = &all[0].flushed;

	all[0].flushes = 0;
	assert_int_equal(publish_below(end, 1), 1);
	assert_int_equal(rdmamsg_group_flush(all[0].group, ms), 0);
	UNTIL_BY(turn_below(end), all[0].flushes);
	assert_int_equal(f->members, of);
	assert_int_equal(f->behind, behind);
	assert_int_equal(f->gone, 0);
}

/* The flow's tag holds for a flush as well. */
static void flush__without_the_tag_IS_NOT_WAITED_FOR(void **state)
{
	static const uint64_t tags[] = { TAG, TAG, TAG + 1 };
	struct rdmamsg_group_options opts = with(RDMAMSG_GROUP_FLOW_SLOWEST);

	opts.tag = TAG;
	begin(opts, tags);
	flush_below(SUBSCRIBERS, RDMAMSG_NONE, SUBSCRIBERS - 1, 0);
	flush_below(SUBSCRIBERS - 1, 100, SUBSCRIBERS - 1, 1);
	/* nor is it missed when it goes, as one with the tag is */
	rdmamsg_close(LAST->ctx);
	all[0].flushes = 0;
	assert_int_equal(publish_below(SUBSCRIBERS - 1, 1), 1);
	assert_int_equal(rdmamsg_group_flush(all[0].group, RDMAMSG_NONE), 0);
	UNTIL_BY(pass_below(SUBSCRIBERS - 1), all[0].flushes);
	assert_int_equal(all[0].flushed.members, SUBSCRIBERS - 1);
	assert_int_equal(all[0].flushed.behind, 0);
	assert_int_equal(all[0].flushed.gone, 1);
	for (int i = 0; i < SUBSCRIBERS; i++)
		rdmamsg_close(all[i].ctx);
}

/* A tag without a flow is that of a subscriber. */
static void flush__with_a_tag_of_its_own_IS_FOR_ALL(void **state)
{
	begin((struct rdmamsg_group_options){ .tag = TAG },
	      (const uint64_t[]){ TAG, TAG, TAG + 1 });
	flush_below(SUBSCRIBERS, 100, SUBSCRIBERS, 1);
	finish();
}

static void quorum__of_two_ONE_MAY_STAND_STILL(void **state)
{
	struct rdmamsg_group_options opts = with(RDMAMSG_GROUP_FLOW_QUORUM);

	opts.flow_quorum = 2;
	begin(opts, NULL);
	while (published < 100)
		if (!publish_below(SUBSCRIBERS, 10))
			turn_below(SUBSCRIBERS);
	assert_in_range(publish_below(SUBSCRIBERS - 1, 1000), 0, WINDOW);
	finish();
}

static void quorum__too_few_IS_WAITED_FOR(void **state)
{
	struct rdmamsg_group_options opts = with(RDMAMSG_GROUP_FLOW_QUORUM);

	opts.flow_quorum = SUBSCRIBERS + 1;
	begin(opts, NULL);
	assert_in_range(publish_below(1 + SUBSCRIBERS, 1000), 0, WINDOW);
	assert_int_equal(publish_below(1 + SUBSCRIBERS, 1), 0);
	finish();
}

static void slowest__goes_back_and_forth_DOES_NOT_COUNT(void **state)
{
	struct rdmamsg_group_options opts = with(RDMAMSG_GROUP_FLOW_SLOWEST);
	uint32_t n = 0;

	opts.flow_limit_ms = 20;
	begin(opts, NULL);
	report(1, 0, NULL);
	(void)publish_below(1 + SUBSCRIBERS, 1000);
	UNTIL_BY((report(n++ % 2, 0, NULL), turn(1)), all[0].laggards);
	assert_true(all[0].laggard.id == STRANGER);
	finish();
}

static void flow__options_EINVAL(void **state)
{
	struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .flow = RDMAMSG_GROUP_FLOW_SLOWEST,
	};
	struct rdmamsg_group *g;
	struct rdmamsg *ctx;

	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_group_join(ctx, GROUP, &opts, &g), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "RDMAMSG_GROUP_REPAIR"));
	opts.flags = RDMAMSG_GROUP_REPAIR;
	opts.flow = 3;
	assert_int_equal(rdmamsg_group_join(ctx, GROUP, &opts, &g), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "flow 3"));
	opts.flow = RDMAMSG_GROUP_FLOW_QUORUM;
	opts.flow_quorum = 255;
	assert_int_equal(rdmamsg_group_join(ctx, GROUP, &opts, &g), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "flow_quorum"));
	rdmamsg_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slowest__stands_still_IS_WAITED_FOR),
		cmocka_unit_test(slowest__few_receives_NOT_MORE_DATAGRAMS),
		cmocka_unit_test(quorum__few_receives_NOT_MORE_DATAGRAMS),
		cmocka_unit_test(slowest__for_too_long_DOES_NOT_COUNT),
		cmocka_unit_test(slowest__few_receives_for_too_long_DOES_NOT_COUNT),
		cmocka_unit_test(slowest__stopped_for_long_IS_TOLD),
		cmocka_unit_test(slowest__stopped_beyond_the_limit_IS_TOLD_ONCE),
		cmocka_unit_test(slowest__killed_IS_NOT_WAITED_FOR),
		cmocka_unit_test(slowest__killed_with_everything_IS_NOT_TOLD),
		cmocka_unit_test(slowest__without_the_tag_IS_NOT_WAITED_FOR),
		cmocka_unit_test(flush__without_the_tag_IS_NOT_WAITED_FOR),
		cmocka_unit_test(flush__with_a_tag_of_its_own_IS_FOR_ALL),
		cmocka_unit_test(quorum__of_two_ONE_MAY_STAND_STILL),
		cmocka_unit_test(quorum__too_few_IS_WAITED_FOR),
		cmocka_unit_test(quorum__killed_IS_NOT_TOLD),
		cmocka_unit_test(slowest__goes_back_and_forth_DOES_NOT_COUNT),
		cmocka_unit_test(flow__options_EINVAL),
	};

	return run_members("flow", tests, sizeof(tests) / sizeof(*tests));
}
