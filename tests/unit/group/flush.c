/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a publisher knows its subscribers, and when all of them have what
 * was published.
 */
#include "members.h"
#include "base/util.h"

#define LAST	SUBSCRIBERS		/* the subscriber that goes, or stops */
#define FEW	16u			/* receives, and messages that are kept */

static struct rdmamsg_group_member seen[SUBSCRIBERS + 1];
static int seen_count;

static int note_member(const struct rdmamsg_group_member *m, void *user)
{
	assert_ptr_equal(user, seen);
	assert_int_equal(m->size, sizeof(*m));
	assert_true(seen_count < SUBSCRIBERS);
	seen[seen_count++] = *m;
	return 0;
}

static int members(void)
{
	seen_count = 0;
	assert_int_equal(rdmamsg_group_members(all[0].group, note_member,
					       seen), 0);
	return seen_count;
}

static bool all_measured(void)
{
	for (int i = 0; i < members(); i++)
		if (!seen[i].rtt_us)
			return false;
	return seen_count == SUBSCRIBERS;
}

static void begin(void)
{
	join_all(RDMAMSG_GROUP_REPAIR);
	WAIT_FOR(members() == SUBSCRIBERS);
}

static void flush(uint32_t ms)
{
	all[0].flushes = 0;
	assert_int_equal(rdmamsg_group_flush(all[0].group, ms), 0);
	assert_int_equal(all[0].flushes, 0);
}

static void expect(uint32_t behind, uint32_t gone)
{
	const struct rdmamsg_group_flushed *f = &all[0].flushed;

	WAIT_FOR(all[0].flushes);
	assert_int_equal(f->size, sizeof(*f));
	assert_int_equal(f->end, published);
	assert_int_equal(f->members, SUBSCRIBERS);
	assert_int_equal(f->behind, behind);
	assert_int_equal(f->gone, gone);
	assert_int_equal(f->uncounted, 0);
}

static void flush__with_losses_ALL_HAVE_IT(void **state)
{
	begin();
	drop(200000);
	for (int round = 0; round < 20; round++) {
		publish(20);
		flush(WAIT_MS);
		expect(0, 0);
		for (int i = 1; i <= SUBSCRIBERS; i++)
			assert_int_equal(all[i].due, published);
	}
	drop(0);
	end_all();
}

static void flush__one_stands_still_IS_BEHIND(void **state)
{
	begin();
	publish(1);
	WAIT_FOR(all[LAST].due == published);
	published++;
	assert_int_equal(rdmamsg_group_publish(all[0].group, content + 1,
					       length_of(1)), 0);
	flush(300);
	UNTIL_BY(turn_below(LAST), all[0].flushes);
	assert_int_equal(all[0].flushed.behind, 1);
	assert_int_equal(all[0].flushed.gone, 0);
	assert_int_equal(members(), SUBSCRIBERS);
	/* and when it goes on it has it */
	flush(WAIT_MS);
	expect(0, 0);
	end_all();
}

static void flush__one_goes_IS_GONE(void **state)
{
	begin();
	assert_int_equal(rdmamsg_group_publish(all[0].group, content + 1,
					       length_of(1)), 0);
	published++;
	flush(WAIT_MS);
	rdmamsg_close(all[LAST].ctx);
	all[LAST].ctx = NULL;
	UNTIL_BY(turn_below(LAST), all[0].flushes);
	assert_int_equal(all[0].flushed.members, SUBSCRIBERS);
	assert_int_equal(all[0].flushed.behind, 0);
	assert_int_equal(all[0].flushed.gone, 1);
	assert_int_equal(members(), SUBSCRIBERS - 1);
	end_all();
}

static void flush__one_has_it_and_leaves_IS_NOT_GONE(void **state)
{
	begin();
	publish(1);
	report(0, 0, NULL);
	flush(WAIT_MS);
	for (int i = 0; i < 20; i++)
		turn(1);
	assert_int_equal(all[0].flushes, 0);
	report(published, FRAME_LEFT, NULL);
	expect(0, 0);
	end_all();
}

static void flush__nobody_IS_OVER_AT_ONCE(void **state)
{
	begin();
	for (int i = 1; i <= SUBSCRIBERS; i++)
		rdmamsg_group_leave(all[i].group);
	WAIT_FOR(!members());
	flush(WAIT_MS);
	WAIT_FOR(all[0].flushes);
	assert_int_equal(all[0].flushed.members, 0);
	assert_int_equal(all[0].flushed.gone, 0);
	end_all();
}

static void flush__left_meanwhile_IS_TOLD_FIRST(void **state)
{
	begin();
	drop(1000000);
	publish(1);
	flush(WAIT_MS);
	rdmamsg_group_leave(all[0].group);
	WAIT_FOR(all[0].closed);
	assert_int_equal(all[0].flushes, 1);
	assert_false(all[0].bad);
	assert_int_equal(all[0].flushed.behind + all[0].flushed.gone,
			 SUBSCRIBERS);
	drop(0);
	end_all();
}

static void flush__wrong_FAILS(void **state)
{
	assert_int_equal(rdmamsg_group_flush(NULL, 1), -EINVAL);
	assert_int_equal(rdmamsg_group_members(NULL, note_member, NULL),
			 -EINVAL);
	join_all(0);
	assert_int_equal(rdmamsg_group_flush(all[0].group, 1), -EOPNOTSUPP);
	assert_int_equal(rdmamsg_group_flush(all[1].group, 1), -EOPNOTSUPP);
	assert_int_equal(members(), 0);
	end_all();
	begin();
	flush(WAIT_MS);
	assert_int_equal(rdmamsg_group_flush(all[0].group, 1), -EBUSY);
	assert_int_equal(rdmamsg_group_members(all[0].group, NULL, NULL),
			 -EINVAL);
	rdmamsg_group_leave(all[0].group);
	assert_int_equal(rdmamsg_group_flush(all[0].group, 1), -ENOTCONN);
	end_all();
}

static int stop(const struct rdmamsg_group_member *m, void *user)
{
	++*(int *)user;
	return 53;
}

static void members__ARE_SEEN(void **state)
{
	int calls = 0;

	begin();
	WAIT_FOR(all_measured());
	for (int i = 0; i < SUBSCRIBERS; i++) {
		assert_int_equal(seen[i].lag, 0);
		assert_int_equal(seen[i].lost, 0);
		assert_true(seen[i].age_ms < WAIT_MS);
		for (int k = 0; k < i; k++)
			assert_true(seen[i].id != seen[k].id);
	}
	assert_int_equal(rdmamsg_group_members(all[0].group, stop, &calls),
			 53);
	assert_int_equal(calls, 1);
	publish(1);
	(void)members();
	for (int i = 0; i < SUBSCRIBERS; i++)
		assert_in_range(seen[i].lag, 0, 1);
	end_all();
}

static const struct rdmamsg_group_member *seen_of(int which)
{
	(void)members();
	for (int i = 0; i < seen_count; i++)
		if (seen[i].id == all[which].group->report_id)
			return &seen[i];
	fail_msg("subscriber %d is not seen", which);
	return NULL;
}

static uint32_t reports_of(int which)
{
	const struct member *m = rdmamsg__member_find(all[which].group,
						      all[0].group->id);

	assert_non_null(m);
	return m->reports;
}

/* Its receives are used up, and the publisher keeps less than it misses. */
static void members__one_stands_still_LAGS_AND_LOSES(void **state)
{
	const uint32_t many = 100;
	uint32_t before;

	recv_depth = history = FEW;
	begin();
	for (const uint32_t end = published + many; published < end;) {
		int ret = rdmamsg_group_publish(all[0].group, content +
						published % 256,
						length_of(published));

		assert_true(!ret || ret == -EAGAIN);
		published += !ret;
		turn_below(LAST);
	}
	/* by its last report, of before */
	assert_in_range(seen_of(LAST)->lag, 0, 1);
	/* it goes on alone: takes what has found a receive, and reports */
	for (int i = 0; i < 20; i++)
		assert_true(rdmamsg_process(all[LAST].ctx) >= 0);
	assert_true(all[LAST].due < published - many / 2);
	before = reports_of(LAST);
	UNTIL_BY(assert_true(rdmamsg_wait(all[LAST].ctx, 10) >= 0),
		 reports_of(LAST) > before);
	before = all[LAST].due;
	UNTIL_BY(turn_below(1), seen_of(LAST)->lag == published - before);
	flush(WAIT_MS);
	expect(0, 0);
	assert_true(all_due(published));
	assert_true(all[LAST].lost);
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		assert_int_equal(seen_of(i)->lost, all[i].lost);
		assert_int_equal(seen_of(i)->lag, 0);
		assert_false(all[i].bad);
	}
	end_all();
	recv_depth = history = 0;
}

/*
 * A subscriber that joins while questions are asked: its report on request is
 * followed by others, so that it is not forgotten.
 */
static void report__on_request_IS_FOLLOWED_BY_OTHERS(void **state)
{
	struct end *last = &all[LAST];
	const struct carrier *c;
	uint8_t bytes[FRAME_HDR_LEN];
	struct datagram d = { .data = bytes, .len = sizeof(bytes) };
	struct member *m;

	begin();
	c = all[0].group->carrier;
	rdmamsg_close(last->ctx);
	join_one(last, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_REPAIR | RDMAMSG_GROUP_SUBSCRIBE,
	});
	WAIT_FOR(last->joined);
	rdmamsg__frame_encode(&(struct frame){
		.type = FRAME_HEARTBEAT, .flags = FRAME_REPAIRS | FRAME_ASKS,
		.sender = all[0].group->id, .number = published,
		.oldest = published, .audience = SUBSCRIBERS,
	}, bytes);
	d.from = (struct carrier_peer){
		.gid = c->sgid, .qpn = c->qp->qp_num,
	};
	rdmamsg__group_datagram(last->group, &d);
	m = rdmamsg__member_find(last->group, all[0].group->id);
	assert_non_null(m);
	assert_int_equal(m->reports, 1);
	assert_true(m->report_at);
	assert_true(last->group->report.pos >= 0);
	end_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flush__with_losses_ALL_HAVE_IT),
		cmocka_unit_test(flush__one_stands_still_IS_BEHIND),
		cmocka_unit_test(flush__one_goes_IS_GONE),
		cmocka_unit_test(flush__one_has_it_and_leaves_IS_NOT_GONE),
		cmocka_unit_test(flush__nobody_IS_OVER_AT_ONCE),
		cmocka_unit_test(flush__left_meanwhile_IS_TOLD_FIRST),
		cmocka_unit_test(flush__wrong_FAILS),
		cmocka_unit_test(report__on_request_IS_FOLLOWED_BY_OTHERS),
		cmocka_unit_test(members__ARE_SEEN),
		cmocka_unit_test(members__one_stands_still_LAGS_AND_LOSES),
	};

	return run_members("flush", tests, sizeof(tests) / sizeof(*tests));
}
