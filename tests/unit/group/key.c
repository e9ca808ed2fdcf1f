/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a group with a key takes nothing from those who do not have it,
 * nor what they have recorded of an earlier membership.
 */
#include "members.h"
#include "base/util.h"
#include "group/audience.h"
#include "group/seal.h"
#include "session/hmac.h"

#include <sys/stat.h>
#include <unistd.h>

#define PUBLISHER	(&all[0])
#define ONE		(&all[1])
#define LAST		(&all[SUBSCRIBERS])
#define SENDER		54u		/* the id of a stranger's frames */
#define FAKE		0x100000u	/* first queue pair of subscribers */

static const char key[] = "a key of the group", other[] = "another key of it";

static void join(struct end *m, uint32_t flags, const char *with)
{
	flags |= m == PUBLISHER ? RDMAMSG_GROUP_PUBLISH :
		 RDMAMSG_GROUP_SUBSCRIBE;
	join_one(m, (struct rdmamsg_group_options){
		.flags = flags, .key = with, .key_len = with ? sizeof(key) - 1 : 0,
	});
}

/* All have joined, the last one with this key, or none. */
static void begin(uint32_t flags, const char *of_last)
{
	published = 0;
	for (int i = 0; i <= SUBSCRIBERS; i++)
		join(&all[i], flags, i == SUBSCRIBERS ? of_last : key);
	for (int i = 0; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].joined);
}

static struct rdmamsg_group_stats counters(const struct end *m)
{
	struct rdmamsg_group_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_group_get_stats(m->group, &st), 0);
	return st;
}

static bool is_believed(const struct end *m)
{
	const struct member *p =
		rdmamsg__member_find(m->group, PUBLISHER->group->id);

	return p && !p->unproven;
}

/* The first message begins the proof. */
static void believe(void)
{
	publish(1);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		WAIT_FOR(is_believed(&all[i]));
}

/* ---- a datagram of a stranger ------------------------------------------ */

static uint8_t datagram[FRAME_HDR_LEN + 1024];
static uint32_t datagram_len;

/* As a member with this seal would send it, or one without a key. */
static void encode(struct frame f, struct hmac *seal)
{
	static const uint8_t nothing[100];

	f.sealed = seal != NULL;
	if (f.type == FRAME_DATA) {
		f.data = nothing;
		f.size = f.length = f.data_len = sizeof(nothing);
	}
	rdmamsg__frame_encode(&f, datagram);
	datagram_len = FRAME_HDR_LEN + f.data_len;
	if (f.data_len)
		memcpy(datagram + FRAME_HDR_LEN, f.data, f.data_len);
	datagram_len += rdmamsg__challenge_encode(&f, datagram + datagram_len);
	if (!seal)
		return;
	assert_int_equal(rdmamsg__seal_put(seal, datagram, datagram_len), 0);
	datagram_len += FRAME_SEAL_LEN;
}

static void to_group(const struct end *m)
{
	const struct datagram d = {
		.data = datagram, .len = datagram_len, .from = stranger_at(),
	};

	rdmamsg__group_datagram(m->group, &d);
}

static void to_one(const struct end *m)
{
	const struct datagram d = {
		.data = datagram, .len = datagram_len, .from = stranger_at(),
	};

	rdmamsg__group_unicast(m->group->carrier, &d);
}

/* ---- with the key ------------------------------------------------------- */

static void key__with_losses_IS_EXACT(void **state)
{
	begin(RDMAMSG_GROUP_REPAIR, key);
	publish(1);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].due == published);
	drop(50000);
	publish(500);
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(all[i].due == published);
		assert_int_equal(all[i].messages, published);
		assert_false(all[i].bad);
		assert_int_equal(counters(&all[i]).dropped_key, 0);
	}
	drop(0);
	assert_int_equal(counters(PUBLISHER).dropped_key, 0);
	assert_int_equal(rdmamsg_group_flush(PUBLISHER->group, 60000), 0);
	WAIT_FOR(PUBLISHER->flushes);
	assert_int_equal(PUBLISHER->flushed.members, SUBSCRIBERS);
	assert_int_equal(PUBLISHER->flushed.behind, 0);
	end_all();
}

/* Messages before the proof are lost. */
static void key__without_repair_ARRIVES(void **state)
{
	begin(0, key);
	believe();
	for (int i = 1; i <= SUBSCRIBERS; i++)
		all[i].due = published;
	publish(300);
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(all[i].due == published);
		assert_int_equal(all[i].messages, 300);
		assert_false(all[i].bad);
	}
	end_all();
}

/* Messages before the proof are repaired. */
static void key__published_at_once_IS_ALL(void **state)
{
	for (int round = 0; round < 5; round++) {
		begin(RDMAMSG_GROUP_REPAIR, key);
		publish(100);
		for (int i = 1; i <= SUBSCRIBERS; i++) {
			WAIT_FOR(all[i].due == published);
			assert_int_equal(all[i].messages, published);
			assert_false(all[i].bad);
			assert_true(counters(&all[i]).dropped_unproven > 0);
		}
		end_all();
	}
}

static void key__late_with_backlog_IS_WHOLE(void **state)
{
	begin(RDMAMSG_GROUP_REPAIR, key);
	publish(100);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].due == published);
	rdmamsg_close(LAST->ctx);
	join_one(LAST, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_REPAIR | RDMAMSG_GROUP_SUBSCRIBE,
		.key = key, .key_len = sizeof(key) - 1, .backlog = 30,
	});
	WAIT_FOR(LAST->backlogs && LAST->due == published);
	assert_int_equal(LAST->backlog, 30);
	assert_int_equal(LAST->marked, 30);
	assert_false(LAST->bad);
	end_all();
}

static void key__of_a_file_IS_THE_SAME(void **state)
{
	char path[] = "/tmp/rdmamsg-key-XXXXXX";
	const int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, key, sizeof(key) - 1), sizeof(key) - 1);
	begin(RDMAMSG_GROUP_REPAIR, key);
	rdmamsg_close(LAST->ctx);
	join_one(LAST, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_REPAIR | RDMAMSG_GROUP_SUBSCRIBE,
		.key_file = path,
	});
	WAIT_FOR(LAST->joined);
	LAST->due = published;
	publish(10);
	WAIT_FOR(LAST->due == published);
	assert_int_equal(LAST->messages, 10);
	end_all();
	assert_int_equal(fchmod(fd, 0644), 0);
	assert_int_equal(rdmamsg_open(&LAST->ctx, NULL), 0);
	assert_int_equal(rdmamsg_group_join(LAST->ctx, GROUP,
		&(struct rdmamsg_group_options){
			.size = sizeof(struct rdmamsg_group_options),
			.key_file = path,
		}, &LAST->group), -EACCES);
	assert_int_equal(rdmamsg_group_join(LAST->ctx, GROUP,
		&(struct rdmamsg_group_options){
			.size = sizeof(struct rdmamsg_group_options),
			.key = key, .key_len = 15,
		}, &LAST->group), -EINVAL);
	assert_int_equal(rdmamsg_group_join(LAST->ctx, GROUP,
		&(struct rdmamsg_group_options){
			.size = sizeof(struct rdmamsg_group_options),
			.key = key, .key_len = 16,
			.flags = RDMAMSG_GROUP_RAW,
		}, &LAST->group), -EINVAL);
	rdmamsg_close(LAST->ctx);
	close(fd);
	unlink(path);
}

/* More than a publisher counts are proven to as well. */
static void key__of_more_than_254_ARE_ANSWERED(void **state)
{
	struct audience *a;

	begin(RDMAMSG_GROUP_REPAIR, key);
	believe();
	rdmamsg_close(LAST->ctx);
	a = PUBLISHER->group->audience;
	while (a->count < AUDIENCE_MAX) {
		struct subscriber *s = &a->members[a->count++];

		*s = (struct subscriber){
			.at.qpn = FAKE + a->count,
			.heard = rdmamsg__now_ms() + 600000,
		};
	}
	join(LAST, RDMAMSG_GROUP_REPAIR, key);
	WAIT_FOR(LAST->joined);
	publish(1);
	WAIT_FOR(is_believed(LAST));
	/* the others have ways, which are to be dropped */
	while (a->count && a->members[a->count - 1].at.qpn >= FAKE)
		a->count--;
	end_all();
}

/* ---- without it --------------------------------------------------------- */

static void expect_nothing(const char *of_last)
{
	begin(RDMAMSG_GROUP_REPAIR, of_last);
	publish(20);
	for (int i = 1; i < SUBSCRIBERS; i++)
		WAIT_FOR(all[i].due == published);
	WAIT_FOR(counters(LAST).dropped_key >= published);
	assert_int_equal(LAST->messages, 0);
	assert_int_equal(LAST->gaps, 0);
	assert_int_equal(counters(LAST).senders, 0);
	end_all();
}

static void no_key__SEES_NOTHING(void **state)
{
	expect_nothing(NULL);
}

static void another_key__SEES_NOTHING(void **state)
{
	expect_nothing(other);
}

static void no_key__publishes_IS_DROPPED(void **state)
{
	const struct frame f = { .type = FRAME_DATA, .sender = SENDER };

	begin(RDMAMSG_GROUP_REPAIR, key);
	encode(f, NULL);
	to_group(ONE);
	to_one(ONE);
	assert_int_equal(counters(ONE).dropped_key, 1);
	assert_null(rdmamsg__member_find(ONE->group, SENDER));
	end_all();
}

/* Each bit of a frame, and each length. */
static void frame__changed_IS_DROPPED(void **state)
{
	struct frame f = { .type = FRAME_DATA };
	uint64_t dropped;

	begin(RDMAMSG_GROUP_REPAIR, key);
	believe();
	f.sender = PUBLISHER->group->id;
	encode(f, PUBLISHER->group->seal);
	dropped = counters(ONE).dropped_key;
	for (uint32_t i = 0; i < 8 * datagram_len; i++) {
		datagram[i / 8] ^= (uint8_t)(1u << i % 8);
		to_group(ONE);
		datagram[i / 8] ^= (uint8_t)(1u << i % 8);
	}
	for (; datagram_len; datagram_len--) {
		datagram[datagram_len - 1] ^= 1;
		to_group(ONE);
	}
	WAIT_FOR(ONE->due == published);
	assert_int_equal(ONE->messages, published);
	assert_int_equal(counters(ONE).senders, 1);
	assert_true(counters(ONE).dropped_key > dropped + 1000);
	end_all();
}

/* A key serves several groups, whose frames are not the same. */
static void frame__of_another_group_IS_DROPPED(void **state)
{
	union ibv_gid mgid = { .raw = { 0xff, 1, 2, 3 } };
	struct hmac *seal;
	uint64_t dropped;

	begin(RDMAMSG_GROUP_REPAIR, key);
	believe();
	assert_int_equal(rdmamsg__seal_new(PUBLISHER->group->key, &mgid,
					   &seal), 0);
	dropped = counters(ONE).dropped_key;
	encode((struct frame){
		.type = FRAME_DATA, .sender = PUBLISHER->group->id,
	}, seal);
	to_group(ONE);
	to_one(ONE);
	assert_int_equal(counters(ONE).dropped_key, dropped + 2);
	rdmamsg__hmac_free(seal);
	end_all();
}

static void report__without_key_IS_DROPPED(void **state)
{
	static const uint8_t payload[FRAME_REPORT_LEN];
	uint64_t dropped;

	begin(RDMAMSG_GROUP_REPAIR, key);
	believe();
	dropped = counters(PUBLISHER).dropped_key;
	encode((struct frame){
		.type = FRAME_REPORT, .sender = PUBLISHER->group->id,
		.data = payload, .data_len = sizeof(payload),
	}, NULL);
	to_one(PUBLISHER);
	assert_int_equal(counters(PUBLISHER).dropped_key, dropped + 1);
	end_all();
}

/* ---- recorded ----------------------------------------------------------- */

/* The frames of a membership that is over: nobody answers for it. */
static void replay__of_the_dead_IS_NOT_BELIEVED(void **state)
{
	begin(RDMAMSG_GROUP_REPAIR, key);
	believe();
	for (uint32_t n = 0; n < 100; n++) {
		encode((struct frame){
			.type = FRAME_DATA, .sender = SENDER, .number = n,
			.flags = FRAME_REPAIRS,
		}, PUBLISHER->group->seal);
		to_group(ONE);
		turn(n % 10 ? 0 : 10);
	}
	assert_true(counters(ONE).dropped_unproven >= 100);
	publish(10);
	WAIT_FOR(ONE->due == published);
	assert_int_equal(ONE->messages, published);
	assert_false(ONE->bad);
	end_all();
}

/* An answer to an earlier challenge, or to that of another. */
static void replay__of_an_answer_IS_NOT_BELIEVED(void **state)
{
	struct frame f = { .type = FRAME_DATA, .sender = SENDER };
	struct member *m;

	begin(RDMAMSG_GROUP_REPAIR, key);
	believe();
	encode(f, PUBLISHER->group->seal);
	to_group(ONE);
	m = rdmamsg__member_find(ONE->group, SENDER);
	assert_non_null(m);
	f.type = FRAME_HEARTBEAT;
	f.flags = FRAME_REPAIRS | FRAME_ANSWER;
	f.challenge = rdmamsg__proof_challenge(m) + 1;
	encode(f, PUBLISHER->group->seal);
	to_one(ONE);
	assert_true(m->unproven);
	f.challenge = m->challenge;
	encode(f, PUBLISHER->group->seal);
	to_one(ONE);
	assert_false(m->unproven);
	end_all();
}

/* A stranger that replays frames of a living sender is not its place. */
static void replay__of_the_living_DOES_NOT_TAKE_ITS_PLACE(void **state)
{
	begin(RDMAMSG_GROUP_REPAIR, key);
	publish(50);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].due == published);
	rdmamsg_close(LAST->ctx);
	join(LAST, RDMAMSG_GROUP_REPAIR, key);
	WAIT_FOR(LAST->joined);
	LAST->due = published;
	encode((struct frame){
		.type = FRAME_HEARTBEAT, .flags = FRAME_REPAIRS,
		.sender = PUBLISHER->group->id, .number = published,
	}, PUBLISHER->group->seal);
	to_group(LAST);
	UNTIL_BY((publish(1), to_group(LAST), turn(1)), is_believed(LAST));
	publish(10);
	WAIT_FOR(LAST->due == published);
	assert_false(LAST->bad);
	end_all();
}

/* A number so old is not where a late joiner begins. */
static void replay__of_an_old_number_BEGINS_NOW(void **state)
{
	struct member *m;

	begin(RDMAMSG_GROUP_REPAIR, key);
	believe();
	rdmamsg_close(LAST->ctx);
	PUBLISHER->group->number = 20000;
	join(LAST, RDMAMSG_GROUP_REPAIR, key);
	WAIT_FOR(LAST->joined);
	encode((struct frame){
		.type = FRAME_HEARTBEAT, .flags = FRAME_REPAIRS,
		.sender = PUBLISHER->group->id, .number = 17,
	}, PUBLISHER->group->seal);
	to_group(LAST);
	m = rdmamsg__member_find(LAST->group, PUBLISHER->group->id);
	assert_non_null(m);
	assert_int_equal(m->joined_at, 17);
	encode((struct frame){
		.type = FRAME_HEARTBEAT, .sender = PUBLISHER->group->id,
		.flags = FRAME_REPAIRS | FRAME_ANSWER, .number = 20000,
		.challenge = rdmamsg__proof_challenge(m),
	}, PUBLISHER->group->seal);
	to_one(LAST);
	assert_false(m->unproven);
	assert_int_equal(m->stream.next, 20000);
	assert_int_equal(LAST->gaps, 0);
	PUBLISHER->group->number = 0;
	end_all();
}

/* A subscriber that is said to have left holds up nobody: so that is old. */
static void replay__of_a_report_CHANGES_NOTHING(void **state)
{
	static const uint8_t payload[FRAME_REPORT_LEN] = { STRANGER };
	struct audience *a;
	struct frame f = {
		.type = FRAME_REPORT, .data = payload,
		.data_len = sizeof(payload), .oldest = 7, .number = 12,
	};

	begin(RDMAMSG_GROUP_REPAIR, key);
	believe();
	a = PUBLISHER->group->audience;
	f.sender = PUBLISHER->group->id;
	encode(f, PUBLISHER->group->seal);
	to_one(PUBLISHER);
	assert_int_equal(a->count, SUBSCRIBERS + 1);
	assert_int_equal(a->members[SUBSCRIBERS].due, 12);
	assert_int_equal(counters(PUBLISHER).dropped_unproven, 0);
	f.number = 3;
	encode(f, PUBLISHER->group->seal);
	to_one(PUBLISHER);
	assert_int_equal(a->members[SUBSCRIBERS].due, 12);
	assert_int_equal(counters(PUBLISHER).dropped_unproven, 1);
	f.flags = FRAME_LEFT;
	encode(f, PUBLISHER->group->seal);
	to_one(PUBLISHER);
	assert_int_equal(a->count, SUBSCRIBERS + 1);
	assert_int_equal(counters(PUBLISHER).dropped_unproven, 2);
	f.oldest = 8;
	encode(f, PUBLISHER->group->seal);
	to_one(PUBLISHER);
	assert_int_equal(a->count, SUBSCRIBERS);
	assert_int_equal(counters(PUBLISHER).dropped_unproven, 2);
	end_all();
}

static struct member *publisher_at(const struct end *m)
{
	struct member *p = rdmamsg__member_find(m->group,
						PUBLISHER->group->id);

	assert_non_null(p);
	return p;
}

/* Ten seconds of silence are no reason to begin anew. */
static void replay__after_a_silence_IS_NOT_GIVEN_TWICE(void **state)
{
	begin(0, key);
	believe();
	for (int i = 1; i <= SUBSCRIBERS; i++)
		all[i].due = published;
	publish(10);
	WAIT_FOR(ONE->due == published);
	publisher_at(ONE)->heard = 0;
	for (uint32_t n = 0; n < published; n++) {
		encode((struct frame){
			.type = FRAME_DATA, .number = n,
			.sender = PUBLISHER->group->id,
		}, PUBLISHER->group->seal);
		to_group(ONE);
	}
	assert_int_equal(ONE->messages, 10);
	publish(10);
	WAIT_FOR(ONE->due == published);
	assert_int_equal(ONE->messages, 20);
	assert_false(ONE->bad);
	end_all();
}

/* Its last heartbeat, again and again from elsewhere, locks nobody out. */
static void replay__of_a_heartbeat_CHANGES_NOTHING(void **state)
{
	struct carrier_peer at;
	struct member *p;
	uint64_t due;

	begin(RDMAMSG_GROUP_REPAIR, key);
	believe();
	WAIT_FOR(ONE->due == published);
	p = publisher_at(ONE);
	at = p->from;
	p->heard -= 5000;
	due = p->report_at;
	assert_true(due);
	for (int i = 0; i < 100; i++) {
		p->here = p->asked_there = 0;	/* so that it is asked for */
		const uint64_t heard = p->heard;

		encode((struct frame){
			.type = FRAME_HEARTBEAT, .flags = FRAME_REPAIRS,
			.sender = PUBLISHER->group->id, .number = published,
			.audience = SUBSCRIBERS,
		}, PUBLISHER->group->seal);
		to_group(ONE);
		assert_int_equal(p->heard, heard);
	}
	/* nor is the report put off that its own place gets */
	assert_true(p->report_at == due);
	assert_memory_equal(&at.gid, &p->from.gid, sizeof(at.gid));
	assert_int_equal(at.qpn, p->from.qpn);
	publish(10);
	WAIT_FOR(ONE->due == published);
	assert_int_equal(counters(ONE).dropped_forged, 0);
	end_all();
}

/* The report of one subscriber says nothing of another at its address. */
static void replay__of_another_at_a_place_CHANGES_NOTHING(void **state)
{
	static const uint8_t payload[FRAME_REPORT_LEN] = { STRANGER };
	struct audience *a;
	struct datagram d = { .data = datagram };
	uint32_t due;
	uint64_t id;

	begin(RDMAMSG_GROUP_REPAIR, key);
	believe();
	a = PUBLISHER->group->audience;
	WAIT_FOR(a->count == SUBSCRIBERS);
	due = a->members[0].due;
	id = a->members[0].last.id;
	encode((struct frame){
		.type = FRAME_REPORT, .data = payload, .number = 1000,
		.data_len = sizeof(payload), .oldest = 7,
		.sender = PUBLISHER->group->id,
	}, PUBLISHER->group->seal);
	d.len = datagram_len;
	d.from = a->members[0].at;
	rdmamsg__group_unicast(PUBLISHER->group->carrier, &d);
	assert_int_equal(a->members[0].due, due);
	assert_true(a->members[0].last.id == id);
	assert_int_equal(a->count, SUBSCRIBERS);
	end_all();
}

/* It reports only to have its answer. */
static void subscriber__without_repair_IS_NOT_COUNTED(void **state)
{
	begin(RDMAMSG_GROUP_REPAIR, key);
	believe();
	rdmamsg_group_leave(LAST->group);
	WAIT_FOR(LAST->closed &&
		 PUBLISHER->group->audience->count == SUBSCRIBERS - 1);
	rdmamsg_close(LAST->ctx);
	join(LAST, 0, key);
	WAIT_FOR(LAST->joined);
	publish(1);
	WAIT_FOR(is_believed(LAST));
	assert_int_equal(PUBLISHER->group->audience->count, SUBSCRIBERS - 1);
	LAST->due = published;
	publish(10);
	WAIT_FOR(LAST->due == published);
	end_all();
}

/* Replays of the dead from everywhere make no more reports than a clock. */
static void replay__from_many_places_MAKES_FEW_REPORTS(void **state)
{
	const struct carrier *c;
	uint64_t since;
	uint32_t sent;

	begin(RDMAMSG_GROUP_REPAIR, key);
	believe();
	encode((struct frame){
		.type = FRAME_HEARTBEAT, .sender = SENDER,
		.flags = FRAME_REPAIRS,
	}, PUBLISHER->group->seal);
	to_group(ONE);
	c = ONE->group->carrier;
	sent = c->sent;
	since = rdmamsg__now_us();
	for (uint32_t i = 0; i < 1000; i++) {
		const struct datagram d = {
			.data = datagram, .len = datagram_len,
			.from = { .gid = stranger_at().gid,
				  .qpn = 0x10000 + i % 2 },
		};

		rdmamsg__group_datagram(ONE->group, &d);
	}
	assert_true(c->sent - sent <=
		    (rdmamsg__now_us() - since) / 2000 + 2);
	end_all();
}

/* A membership that is lost and made again has its seal again. */
static void key__joined_again_GOES_ON(void **state)
{
	begin(RDMAMSG_GROUP_REPAIR, key);
	publish(10);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].due == published);
	rdmamsg__carrier_lost(PUBLISHER->group->carrier,
			      RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_UNREACHABLE,
			      -EHOSTUNREACH, "a test");
	WAIT_FOR(PUBLISHER->joined == 2);
	publish(10);
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(all[i].due == published);
		assert_false(all[i].bad);
	}
	end_all();
}

/* Its place is followed while it goes on, and what is lost is repaired. */
static void key__joined_again_with_losses_MISSES_NOTHING(void **state)
{
	begin(RDMAMSG_GROUP_REPAIR, key);
	believe();
	rdmamsg__carrier_lost(PUBLISHER->group->carrier,
			      RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_UNREACHABLE,
			      -EHOSTUNREACH, "a test");
	WAIT_FOR(PUBLISHER->joined == 2);
	drop(50000);
	for (int i = 0; i < 40; i++) {
		publish(5);
		turn(10);
	}
	for (int i = 1; i <= SUBSCRIBERS; i++) {
		WAIT_FOR(all[i].due == published);
		assert_int_equal(all[i].gaps, 0);
		assert_false(all[i].bad);
		WAIT_FOR(publisher_at(&all[i])->from.qpn ==
			 PUBLISHER->group->carrier->qp->qp_num);
	}
	drop(0);
	end_all();
}

/* It has nothing to publish: its answer shows where it is. */
static void key__joined_again_and_idle_IS_FOLLOWED(void **state)
{
	begin(RDMAMSG_GROUP_REPAIR, key);
	believe();
	for (int i = 1; i <= SUBSCRIBERS; i++)
		WAIT_FOR(all[i].due == published);
	rdmamsg__carrier_lost(PUBLISHER->group->carrier,
			      RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_UNREACHABLE,
			      -EHOSTUNREACH, "a test");
	WAIT_FOR(PUBLISHER->joined == 2);
	for (int i = 1; i <= SUBSCRIBERS; i++)
		WAIT_FOR(publisher_at(&all[i])->from.qpn ==
			 PUBLISHER->group->carrier->qp->qp_num);
	end_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key__with_losses_IS_EXACT),
		cmocka_unit_test(key__without_repair_ARRIVES),
		cmocka_unit_test(key__published_at_once_IS_ALL),
		cmocka_unit_test(key__late_with_backlog_IS_WHOLE),
		cmocka_unit_test(key__of_a_file_IS_THE_SAME),
		cmocka_unit_test(key__of_more_than_254_ARE_ANSWERED),
		cmocka_unit_test(key__joined_again_GOES_ON),
		cmocka_unit_test(key__joined_again_with_losses_MISSES_NOTHING),
		cmocka_unit_test(key__joined_again_and_idle_IS_FOLLOWED),
		cmocka_unit_test(no_key__SEES_NOTHING),
		cmocka_unit_test(another_key__SEES_NOTHING),
		cmocka_unit_test(no_key__publishes_IS_DROPPED),
		cmocka_unit_test(frame__changed_IS_DROPPED),
		cmocka_unit_test(frame__of_another_group_IS_DROPPED),
		cmocka_unit_test(report__without_key_IS_DROPPED),
		cmocka_unit_test(replay__of_the_dead_IS_NOT_BELIEVED),
		cmocka_unit_test(replay__of_an_answer_IS_NOT_BELIEVED),
		cmocka_unit_test(replay__of_the_living_DOES_NOT_TAKE_ITS_PLACE),
		cmocka_unit_test(replay__of_an_old_number_BEGINS_NOW),
		cmocka_unit_test(replay__of_a_report_CHANGES_NOTHING),
		cmocka_unit_test(replay__after_a_silence_IS_NOT_GIVEN_TWICE),
		cmocka_unit_test(replay__of_a_heartbeat_CHANGES_NOTHING),
		cmocka_unit_test(replay__of_another_at_a_place_CHANGES_NOTHING),
		cmocka_unit_test(subscriber__without_repair_IS_NOT_COUNTED),
		cmocka_unit_test(replay__from_many_places_MAKES_FEW_REPORTS),
	};

	return run_members("group-key", tests, sizeof(tests) / sizeof(*tests));
}
