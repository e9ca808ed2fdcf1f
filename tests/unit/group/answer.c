/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a publisher answers requests, keeps its rate and its history,
 * and joins as it should; and what strangers send to the group hurts nobody.
 */
#include "../own_fabric.h"
#include "../until.h"
#include "base/base.h"
#include "base/ctx.h"
#include "base/timer.h"
#include "base/util.h"
#include "device/verbs_api.h"
#include "group/audience.h"
#include "group/carrier.h"
#include "group/group.h"
#include "soft/control/soft_ctl.h"
#include "wire/frame.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include <rdma/rdma_cma.h>
#include <rdmamsg/group.h>

#define GROUP	"239.1.2.3"

/* A context with one membership. */
static struct end {
	struct rdmamsg *ctx;
	struct rdmamsg_group *group;
	uint32_t joined, closed, writable, messages, lost, first_lost;
	struct rdmamsg_reason why;
} pub, sub[2], stranger;

static void on_joined(struct rdmamsg_group *g)
{
	((struct end *)rdmamsg_group_user(g))->joined++;
}

static void on_writable(struct rdmamsg_group *g)
{
	((struct end *)rdmamsg_group_user(g))->writable++;
}

static void on_message(struct rdmamsg_group *g,
		       const struct rdmamsg_group_message *msg)
{
	((struct end *)rdmamsg_group_user(g))->messages++;
}

static void on_gap(struct rdmamsg_group *g,
		   const struct rdmamsg_group_sender *sender, uint32_t first,
		   uint32_t last)
{
	struct end *e = rdmamsg_group_user(g);

	if (!e->lost)
		e->first_lost = first;
	e->lost += last - first + 1;
}

static void on_closed(struct rdmamsg_group *g, const struct rdmamsg_reason *why)
{
	struct end *e = rdmamsg_group_user(g);

	e->closed++;
	e->why = *why;
}

static void turn(void)
{
	struct end *const all[] = { &pub, &sub[0], &sub[1], &stranger };

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (all[i]->ctx)
			assert_true(rdmamsg_wait(all[i]->ctx, 1) >= 0);
}

#define WAIT_FOR(condition)	UNTIL_BY(turn(), condition)

/* Starts to join. */
static void begin(struct end *e, struct rdmamsg_group_options opts)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined,
		.on_writable = on_writable, .on_message = on_message,
		.on_gap = on_gap, .on_closed = on_closed,
	};

	memset(e, 0, sizeof(*e));
	opts.size = sizeof(opts);
	opts.user = e;
	opts.handlers = &on;
	assert_int_equal(rdmamsg_open(&e->ctx, NULL), 0);
	assert_int_equal(rdmamsg_group_join(e->ctx, GROUP, &opts, &e->group),
			 0);
}

static void join(struct end *e, struct rdmamsg_group_options opts)
{
	begin(e, opts);
	WAIT_FOR(e->joined);
}

static void subscribe(struct end *e)
{
	join(e, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_SUBSCRIBE | RDMAMSG_GROUP_REPAIR,
	});
}

/* Without repair it does not report. */
static void listen_only(struct end *e)
{
	join(e, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_SUBSCRIBE,
	});
}

static void end_all(void)
{
	struct end *const all[] = { &pub, &sub[0], &sub[1], &stranger };

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		if (all[i]->ctx)
			rdmamsg_close(all[i]->ctx);
		memset(all[i], 0, sizeof(*all[i]));
	}
}

static struct rdmamsg_group_stats counters(const struct end *e)
{
	struct rdmamsg_group_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_group_get_stats(e->group, &st), 0);
	return st;
}

static void publish(void)
{
	int ret;

	while ((ret = rdmamsg_group_publish(pub.group, "x", 1)) == -EAGAIN)
		turn();
	assert_int_equal(ret, 0);
}

static void lose(uint32_t millionths)
{
	const struct soft_ctl_faults f = { .drop = millionths };
	struct soft_ctl *ctl;

	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	assert_int_equal(soft_ctl_faults(ctl, SOFT_CTL_ALL, &f), 0);
	soft_ctl_close(ctl);
}

/* ---- history ---------------------------------------------------------- */

static void history__exceeded_IS_TOLD(void **state)
{
	enum { COUNT = 200, HISTORY = 16 };

	subscribe(&sub[0]);
	join(&pub, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR,
		.history = HISTORY, .history_ms = 1,
	});
	publish();
	WAIT_FOR(sub[0].messages == 1);
	lose(1000000);
	for (int i = 1; i < COUNT; i++)
		publish();
	/* all requests up to here have completed, and were lost */
	WAIT_FOR(pub.group->carrier->sent - pub.group->carrier->done <
		 pub.group->carrier->send_depth / 4);
	lose(0);
	publish();
	WAIT_FOR(sub[0].messages + sub[0].lost == COUNT + 1);
	assert_int_equal(sub[0].first_lost, 1);
	assert_in_range(sub[0].lost, COUNT / 2, COUNT);
	assert_true(sub[0].messages > 2);
	assert_int_equal(counters(&sub[0]).lost_messages, sub[0].lost);
	end_all();
}

static void history__of_young_messages_IS_WRITABLE_LATER(void **state)
{
	enum { HISTORY = 16, MS = 150 };
	uint64_t until = rdmamsg__now_ms() + WAIT_MS;
	int ret = 0;

	join(&pub, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR,
		.history = HISTORY, .history_ms = MS, .rate = RDMAMSG_NONE,
	});
	/* again, if the test stood still meanwhile */
	do {
		for (int i = 0; i < HISTORY + 1; i++)
			ret = rdmamsg_group_publish(pub.group, "x", 1);
	} while (!ret && rdmamsg__now_ms() < until);
	assert_int_equal(ret, -EAGAIN);
	assert_int_equal(pub.writable, 0);
	assert_true(counters(&pub).refused > 0);
	WAIT_FOR(pub.writable);
	assert_int_equal(rdmamsg_group_publish(pub.group, "x", 1), 0);
	end_all();
}

/*
 * The pauses of an idle publisher double. A test that stands still makes them
 * longer.
 */
static void heartbeats__of_an_idle_publisher_GET_RARE(void **state)
{
	enum { BEATS = 5, MS = 10 + 20 + 40 + 80 + 160 };
	uint64_t begun, before;

	/* it reports no round trip, so the first pause is the longest */
	listen_only(&sub[0]);
	join(&pub, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR,
	});
	WAIT_FOR(counters(&sub[0]).received_datagrams == 3);
	begun = rdmamsg__now_ms();
	publish();
	before = counters(&pub).sent_datagrams;
	WAIT_FOR(counters(&pub).sent_datagrams >= before + BEATS);
	assert_true(rdmamsg__now_ms() - begun + 5 >= MS);
	WAIT_FOR(counters(&sub[0]).received_datagrams >= 3 + 1 + BEATS);
	assert_int_equal(sub[0].messages, 1);
	end_all();
}

/* ---- answers ---------------------------------------------------------- */

/* Asks for 'count' messages from 'number' on. */
static void ask(const struct end *by, uint32_t number, uint32_t count)
{
	const struct frame_range range = {
		.number = number, .count = count, .last = FRAME_TO_END,
	};
	uint8_t payload[FRAME_RANGE_LEN];
	const struct frame f = {
		.type = FRAME_NACK, .sender = pub.group->id, .length = 1,
		.data = payload, .data_len = sizeof(payload),
	};
	const struct carrier *c = by->group->carrier;
	const struct datagram d = {
		.from = { .gid = c->sgid, .qpn = c->qp->qp_num },
	};

	rdmamsg__range_encode(&range, payload);
	rdmamsg__repair_nack(pub.group, &f, &d);
}

/* Subscribers that report are a few, and each is answered at once. */
static void answer__goes_to_one_OR_TO_ALL(void **state)
{
	for (int i = 0; i < 2; i++)
		listen_only(&sub[i]);
	join(&pub, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR,
	});
	publish();
	WAIT_FOR(sub[0].messages == 1 && sub[1].messages == 1);
	ask(&sub[0], 0, 1);
	WAIT_FOR(counters(&sub[0]).received_repeated == 1);
	/* an answer to all would come before this one */
	publish();
	WAIT_FOR(sub[0].messages == 2 && sub[1].messages == 2);
	assert_int_equal(counters(&sub[1]).received_repeated, 0);
	assert_int_equal(counters(&pub).sent_repeated, 1);
	for (int i = 0; i < 2; i++)
		ask(&sub[i], 1, 1);
	WAIT_FOR(counters(&sub[0]).received_repeated == 2 &&
		 counters(&sub[1]).received_repeated == 1);
	assert_int_equal(counters(&pub).sent_repeated, 2);
	assert_int_equal(counters(&pub).requests, 3);
	end_all();
}

/* A stranger asks for the whole history, again and again. */
static void asker__asks_without_end_GETS_A_MULTIPLE(void **state)
{
	enum { COUNT = 200, TIMES = 300 };
	uint64_t begun, most;

	join(&sub[0], (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_SUBSCRIBE,
	});
	join(&pub, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR,
		.rate = RDMAMSG_NONE,
	});
	for (int i = 0; i < COUNT; i++)
		publish();
	begun = rdmamsg__now_ms();
	for (int i = 0; i < TIMES; i++) {
		ask(&sub[0], 0, COUNT);
		WAIT_FOR(!rdmamsg__repair_pending(pub.group));
	}
	/* heartbeats are published as well */
	most = 4 * (counters(&pub).sent_datagrams -
		    counters(&pub).sent_repeated) + 50 +
	       (rdmamsg__now_ms() - begun + 1000) / 1000 * 50;
	assert_in_range(counters(&pub).sent_repeated, COUNT, most);
	assert_true(counters(&pub).requests_dropped > 0);
	/* another is still repaired */
	most = counters(&pub).sent_repeated;
	subscribe(&sub[1]);
	sub[1].group->carrier->sgid.raw[15] ^= 1;
	ask(&sub[1], 0, 1);
	WAIT_FOR(!rdmamsg__repair_pending(pub.group));
	assert_int_equal(counters(&pub).sent_repeated, most + 1);
	end_all();
}

static void report(const struct end *by, uint64_t id, uint8_t flags)
{
	const struct frame_report r = { .id = id, .rtt = 20 };
	uint8_t payload[FRAME_REPORT_LEN];
	const struct frame f = {
		.type = FRAME_REPORT, .flags = flags,
		.sender = pub.group->id, .length = sizeof(payload),
		.data = payload, .data_len = sizeof(payload),
	};
	const struct carrier *c = by->group->carrier;
	const struct datagram d = {
		.from = { .gid = c->sgid, .qpn = c->qp->qp_num },
	};

	rdmamsg__report_encode(&r, payload);
	rdmamsg__subscriber_report(pub.group, &f, &d);
}

/* Each answer takes a place in the send queue. */
static void reports__of_a_flood_FEW_ARE_ANSWERED(void **state)
{
	enum { REPORTS = 1000 };
	uint64_t begun, before, most;

	listen_only(&sub[0]);
	join(&pub, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR,
	});
	begun = rdmamsg__now_ms();
	before = counters(&pub).sent_datagrams;
	report(&sub[0], 53, 0);
	assert_int_equal(counters(&pub).sent_datagrams, before + 1);
	for (int i = 0; i < REPORTS; i++)
		report(&sub[0], 53, 0);
	most = (rdmamsg__now_ms() - begun) / 2 + 1;
	assert_in_range(counters(&pub).sent_datagrams - before, 1, most);
	end_all();
}

static void left__of_an_earlier_membership_IS_IGNORED(void **state)
{
	listen_only(&sub[0]);
	join(&pub, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR,
	});
	report(&sub[0], 53, FRAME_LEFT);
	assert_int_equal(rdmamsg__subscribers(pub.group), 0);
	report(&sub[0], 53, 0);
	report(&sub[0], 52, FRAME_LEFT);
	assert_int_equal(rdmamsg__subscribers(pub.group), 1);
	report(&sub[0], 53, FRAME_LEFT);
	assert_int_equal(rdmamsg__subscribers(pub.group), 0);
	end_all();
}

/* The group was lost, or this process stood still. */
static void subscriber__could_not_be_heard_STAYS(void **state)
{
	struct audience *a;
	uint64_t now;

	listen_only(&sub[0]);
	join(&pub, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR,
	});
	report(&sub[0], 53, 0);
	a = pub.group->audience;
	now = rdmamsg__now_ms();
	a->members[0].heard = now - 10000;
	rdmamsg__subscribers_joined(pub.group);
	rdmamsg__subscribers_look(pub.group);
	assert_int_equal(rdmamsg__subscribers(pub.group), 1);
	a->members[0].heard = a->looked = now - 10000;
	rdmamsg__subscribers_look(pub.group);
	assert_int_equal(rdmamsg__subscribers(pub.group), 1);
	a->members[0].heard = now - 10000;
	rdmamsg__subscribers_look(pub.group);
	assert_int_equal(rdmamsg__subscribers(pub.group), 0);
	end_all();
}

static void subscriber__joins_again_elsewhere_IS_THE_SAME(void **state)
{
	listen_only(&sub[0]);
	listen_only(&sub[1]);
	join(&pub, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR,
	});
	report(&sub[0], 53, 0);
	/* a stranger that names its id does not displace it */
	report(&sub[1], 53, 0);
	assert_int_equal(rdmamsg__subscribers(pub.group), 2);
	report(&sub[1], 53, FRAME_LEFT);
	(void)poll(NULL, 0, 150);
	report(&sub[1], 53, 0);
	assert_int_equal(rdmamsg__subscribers(pub.group), 1);
	report(&sub[0], 54, 0);
	assert_int_equal(rdmamsg__subscribers(pub.group), 2);
	end_all();
}

static uint64_t handles;

static struct ibv_ah *count_handle(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	handles++;
	return rdmamsg__verbs_soft.create_ah(pd, attr);
}

/* They stay until what was sent has completed. */
static void asker__beyond_its_budget_COSTS_NO_HANDLES(void **state)
{
	enum { COUNT = 512, ROUNDS = 20 };
	struct verbs_api table = rdmamsg__verbs_soft;
	struct carrier *c;

	listen_only(&sub[0]);
	join(&pub, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR,
		.rate = RDMAMSG_NONE,
	});
	for (int i = 0; i < COUNT; i++)
		publish();
	table.create_ah = count_handle;
	c = pub.group->carrier;
	c->v = &table;
	handles = 0;
	for (int i = 0; i < ROUNDS; i++) {
		for (uint32_t n = 0; n < COUNT; n += 2)
			ask(&sub[0], n, 1);
		WAIT_FOR(!rdmamsg__repair_pending(pub.group));
	}
	c->v = &rdmamsg__verbs_soft;
	assert_true(counters(&pub).sent_repeated > 4 * COUNT);
	assert_in_range(handles, 1, counters(&pub).sent_repeated);
	end_all();
}

static struct ibv_ah *no_way(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	const struct timespec t = { .tv_nsec = 20000000 };

	(void)nanosleep(&t, NULL);
	errno = ETIMEDOUT;
	return NULL;
}

/* The kernel looks for such an address while the thread waits. */
static void way__to_an_address_that_is_dead_IS_NOT_TRIED_AGAIN(void **state)
{
	struct verbs_api dead = rdmamsg__verbs_soft;
	struct carrier_to to;
	struct carrier_peer peer;
	struct carrier *c;
	uint64_t now;

	join(&pub, (struct rdmamsg_group_options){ 0 });
	c = pub.group->carrier;
	peer = (struct carrier_peer){ .gid = c->sgid, .qpn = 77 };
	dead.create_ah = no_way;
	c->v = &dead;
	now = rdmamsg__now_ms();
	assert_int_equal(rdmamsg__carrier_way(c, &peer, &to), -ETIMEDOUT);
	c->v = &rdmamsg__verbs_soft;
	/* 20 times as long as no_way() has taken */
	assert_true(c->deaf_until >= now + 300);
	c->deaf_until = now + 3600000;
	assert_int_equal(rdmamsg__carrier_way(c, &peer, &to), -EAGAIN);
	c->deaf_until = now;
	assert_int_equal(rdmamsg__carrier_way(c, &peer, &to), 0);
	rdmamsg__carrier_drop_ah(c, to.ah);
	end_all();
}

/* ---- joining ---------------------------------------------------------- */

static void join__in_vain_ENDS_WITH_ITS_DEADLINE(void **state)
{
	struct rdmamsg_group *g;

	begin(&pub, (struct rdmamsg_group_options){ .timeout_ms = 7000 });
	g = pub.group;
	assert_true(g->state == GROUP_WAITING || g->state == GROUP_JOINING);
	assert_true(g->timer.pos >= 0);
	assert_true(rdmamsg__timer_ms(&g->timer) <=
		    rdmamsg__now_ms() + 7000);
	g->timer.fn(&g->timer);
	WAIT_FOR(pub.closed);
	assert_int_equal(pub.joined, 0);
	assert_int_equal(pub.why.cause, RDMAMSG_CAUSE_TIMEOUT);
	assert_int_equal(pub.why.error, -ETIMEDOUT);
	assert_non_null(strstr(pub.why.text, "7000 ms"));
	end_all();
}

static uint32_t join_flags[4];
static int join_count;
static bool no_sendonly;

static int join_noted(struct rdma_cm_id *id,
		      struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	const struct rdmamsg_group *g = context;

	/* no datagram may find the queue pair without receives */
	assert_true(g->carrier->recv_slots && !g->carrier->reposts);
	assert_true(join_count < 4);
	join_flags[join_count++] = attr->join_flags;
	if (no_sendonly &&
	    attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return rdmamsg__verbs_soft.join_multicast(id, attr, context);
}

static void publisher__only_JOINS_FOR_SENDING(void **state)
{
	const uint32_t sendonly = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
	const uint32_t full = RDMA_MC_JOIN_FLAG_FULLMEMBER;
	struct verbs_api noted = rdmamsg__verbs_soft;

	noted.join_multicast = join_noted;
	for (int i = 0; i < 3; i++) {
		join_count = 0;
		no_sendonly = i == 1;
		begin(&pub, (struct rdmamsg_group_options){
			.flags = RDMAMSG_GROUP_PUBLISH |
				 (i == 2 ? RDMAMSG_GROUP_SUBSCRIBE : 0u),
		});
		pub.group->carrier->v = &noted;
		WAIT_FOR(pub.joined);
		pub.group->carrier->v = &rdmamsg__verbs_soft;
		assert_int_equal(join_count, i == 1 ? 2 : 1);
		assert_int_equal(join_flags[0], i == 2 ? full : sendonly);
		if (i == 1)
			assert_int_equal(join_flags[1], full);
		end_all();
	}
}

static void values__of_the_group_ARE_TOLD(void **state)
{
	static const uint8_t mgid[16] = {
		[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 1, [14] = 2,
		[15] = 3,
	};
	struct rdmamsg_group_attr info = { .size = sizeof(info) };

	join(&pub, (struct rdmamsg_group_options){ 0 });
	assert_int_equal(rdmamsg_group_query(pub.group, &info), 0);
	assert_memory_equal(info.mgid, mgid, sizeof(mgid));
	assert_int_equal(info.qkey, RDMA_UDP_QKEY);
	assert_int_equal(info.mlid, pub.group->mlid);
	assert_int_equal(info.sl, 0);
	assert_int_equal(info.port, 1);
	end_all();
}

/* ---- a slow one ------------------------------------------------------- */

/* It has few receives, and does not serve them for a while. */
static void subscriber__slow_LOSES_ALONE(void **state)
{
	enum { COUNT = 200 };

	join(&sub[0], (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_SUBSCRIBE,
	});
	join(&sub[1], (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_SUBSCRIBE, .recv_depth = 16,
	});
	join(&pub, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_PUBLISH, .rate = RDMAMSG_NONE,
	});
	publish();
	WAIT_FOR(sub[0].messages == 1 && sub[1].messages == 1);
	for (int i = 1; i < COUNT; i++)
		assert_int_equal(rdmamsg_group_publish(pub.group, "x", 1), 0);
	for (uint64_t end = rdmamsg__now_ms() + WAIT_MS;
	     sub[0].messages != COUNT;) {
		assert_true(rdmamsg__now_ms() < end);
		assert_true(rdmamsg_wait(sub[0].ctx, 10) >= 0);
	}
	WAIT_FOR(sub[1].messages >= 16);
	publish();
	WAIT_FOR(sub[0].messages == COUNT + 1 &&
		 sub[1].messages + sub[1].lost == COUNT + 1);
	assert_int_equal(sub[0].lost, 0);
	assert_true(sub[1].lost > 0);
	assert_true(counters(&sub[1]).gaps > 0);
	end_all();
}

/* ---- the rate --------------------------------------------------------- */

/* Heartbeats do not count; repetitions do. */
static void rate__bounds_WHAT_IS_PUBLISHED(void **state)
{
	enum { RATE = 1000, COUNT = 300, BURST = 16 };
	uint64_t begun;

	join(&pub, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_PUBLISH, .rate = RATE,
	});
	begun = rdmamsg__now_ms();
	for (int i = 0; i < COUNT; i++)
		publish();
	assert_true(rdmamsg__now_ms() - begun >=
		    (COUNT - 2 * BURST) * 1000 / RATE);
	end_all();
}

/* ---- strangers -------------------------------------------------------- */

/*
 * Sends a datagram of the group that is no honest frame: random bytes, or the
 * header of a frame with random fields and a payload that may not fit.
 */
static void send_hostile(unsigned int *seed, uint64_t id)
{
	static const uint32_t lengths[] = { 0, 1, 100, 65536, 1 << 20, ~0u };
	uint8_t bytes[FRAME_HDR_LEN + 256];
	uint32_t len = (uint32_t)rand_r(seed) % sizeof(bytes);
	struct frame f = {
		.type = 1 + (uint32_t)rand_r(seed) % 5,
		.flags = (uint8_t)rand_r(seed),
		.sender = 1 + (uint32_t)rand_r(seed) % 100,
		.number = (uint32_t)rand_r(seed) * 2 + 1,
		.oldest = (uint32_t)rand_r(seed),
		.length = lengths[rand_r(seed) % 6],
		.size = (uint16_t)(1 + rand_r(seed) % 300),
		.index = (uint16_t)(rand_r(seed) % 4),
	};
	int ret;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)rand_r(seed);
	if (rand_r(seed) % 8 == 0) {
		/* of the honest one: an END, or a number far away */
		f.sender = id;
		f.number |= 1u << 30;
		f.number &= ~(1u << 31);
		f.type = rand_r(seed) % 2 ? FRAME_END : FRAME_DATA;
	}
	if (rand_r(seed) % 8)
		rdmamsg__frame_encode(&f, bytes);
	/* often a whole fragment */
	if (rand_r(seed) % 2 && f.size <= 256)
		len = FRAME_HDR_LEN + f.size;
	while ((ret = rdmamsg_group_publish(stranger.group, bytes,
					    len)) == -EAGAIN)
		turn();
	assert_int_equal(ret, 0);
}

static void strangers__in_the_group_HURT_NOBODY(void **state)
{
	enum { COUNT = 3000, EVERY = 20 };
	struct rdmamsg_group_stats st;
	unsigned int seed = 53;

	join(&sub[0], (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_SUBSCRIBE | RDMAMSG_GROUP_REPAIR,
		.max_held = 1 << 20, .max_senders = 16,
	});
	join(&pub, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_REPAIR,
	});
	join(&stranger, (struct rdmamsg_group_options){
		.flags = RDMAMSG_GROUP_PUBLISH | RDMAMSG_GROUP_RAW,
		.rate = RDMAMSG_NONE,
	});
	for (uint32_t i = 0; i < COUNT; i++) {
		const struct member *m;

		if (i % EVERY == 0) {
			publish();
			/* messages of strangers count, too */
			m = rdmamsg__member_find(sub[0].group, pub.group->id);
			WAIT_FOR((m = rdmamsg__member_find(sub[0].group,
						pub.group->id)) &&
				 m->st.received_messages == i / EVERY + 1);
		}
		send_hostile(&seed, pub.group->id);
		if (i % 8 == 0)
			turn();
		assert_true(sub[0].group->room.used <=
			    sub[0].group->room.max);
		assert_true(sub[0].group->member_count <= 16);
	}
	WAIT_FOR(counters(&sub[0]).received_datagrams +
		 counters(&sub[0]).dropped_malformed +
		 counters(&sub[0]).dropped_senders +
		 counters(&sub[0]).dropped_late >= COUNT / 2);
	st = counters(&sub[0]);
	assert_true(st.dropped_malformed > 100);
	assert_true(st.dropped_forged > 100);
	assert_true(st.dropped_senders > 100);
	assert_int_equal(rdmamsg_group_get_sender_stats(sub[0].group,
							pub.group->id, &st),
			 0);
	assert_int_equal(st.lost_messages, 0);
	end_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(history__exceeded_IS_TOLD),
		cmocka_unit_test(history__of_young_messages_IS_WRITABLE_LATER),
		cmocka_unit_test(heartbeats__of_an_idle_publisher_GET_RARE),
		cmocka_unit_test(answer__goes_to_one_OR_TO_ALL),
		cmocka_unit_test(asker__asks_without_end_GETS_A_MULTIPLE),
		cmocka_unit_test(reports__of_a_flood_FEW_ARE_ANSWERED),
		cmocka_unit_test(left__of_an_earlier_membership_IS_IGNORED),
		cmocka_unit_test(subscriber__could_not_be_heard_STAYS),
		cmocka_unit_test(subscriber__joins_again_elsewhere_IS_THE_SAME),
		cmocka_unit_test(asker__beyond_its_budget_COSTS_NO_HANDLES),
		cmocka_unit_test(
			way__to_an_address_that_is_dead_IS_NOT_TRIED_AGAIN),
		cmocka_unit_test(join__in_vain_ENDS_WITH_ITS_DEADLINE),
		cmocka_unit_test(publisher__only_JOINS_FOR_SENDING),
		cmocka_unit_test(values__of_the_group_ARE_TOLD),
		cmocka_unit_test(subscriber__slow_LOSES_ALONE),
		cmocka_unit_test(rate__bounds_WHAT_IS_PUBLISHED),
		cmocka_unit_test(strangers__in_the_group_HURT_NOBODY),
	};

	join_own_fabric("answer");
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
