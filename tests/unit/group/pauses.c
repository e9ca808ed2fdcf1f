/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: how long a repair takes, and how many subscribers ask for it, in
 * groups of 9 to 1000. Requests and answers are the library's, the network and
 * the clock are the test's.
 */
#include "moved_clock.h"
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/timer.h"
#include "base/util.h"
#include "group/audience.h"
#include "group/backoff.h"
#include "group/gather.h"
#include "group/group.h"
#include "group/history.h"
#include "wire/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/timerfd.h>
#include <cmocka.h>

#define MOST		1000u	/* subscribers */
#define WINDOW		64u	/* messages */
#define SPREAD		16u	/* of these each subscriber loses one */
#define BETWEEN_US	500000u	/* from one loss to the next */
#define MTU		1024u
#define ON_WAY		(64 * MOST)	/* datagrams, at most */
#define WAIT_US		10000000u	/* longer than any repair takes */

/* No timer of the kernel runs by that clock. */
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value,
			   struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value,
			   struct itimerspec *old)
{
	return 0;
}

uint64_t __wrap_rdmamsg__now_ns(void);
uint64_t __wrap_rdmamsg__now_ns(void)
{
	return now * 1000;
}

/* ---- the group --------------------------------------------------------- */

enum loss {
	LOSS_ONE,		/* a subscriber loses a message */
	LOSS_TWO,		/* it loses two */
	LOSS_ALL,		/* all lose the same */
	LOSS_EACH,		/* each loses one of SPREAD */
};

struct world {
	uint32_t subscribers;
	uint32_t rtt;		/* us */
	bool known;		/* round trip and audience */
	uint32_t late;		/* us, a process may run so much later */
	uint32_t lose_requests;	/* the next ones */
	uint32_t lose_repairs;
};

struct sub {
	struct rdmamsg_group group;
	struct member m;
	uint32_t requests;	/* since the loss */
};

/* A datagram under way: to the publisher, to one subscriber, or to all. */
struct datum {
	uint64_t at;		/* us */
	enum { TO_PUBLISHER, TO_ONE } to;
	uint32_t who;		/* the subscriber at one end */
	uint32_t number;	/* of the message */
	uint32_t count;		/* of ranges */
	uint8_t ranges[SPREAD * FRAME_RANGE_LEN];
};

static struct world w;
static struct rdmamsg ctx;
static struct carrier carrier;
static struct rdmamsg_group publisher;
static struct sub subs[MOST];
static struct carrier_to ways[MOST];
static struct datum on_way[ON_WAY];
static uint32_t on_way_count;
static uint64_t seed;

static void ignore_message(struct stream *s, uint32_t number,
			   const void *data, uint32_t len)
{
}

static void fail_gap(struct stream *s, uint32_t first, uint32_t last)
{
	fail_msg("%u to %u are given up", first, last);
}

static const struct stream_events events = { ignore_message, fail_gap };

static struct carrier_peer place_of(uint32_t i)
{
	struct carrier_peer p = { .qpn = 100 + i };

	memcpy(p.gid.raw, &i, sizeof(i));
	p.gid.raw[15] = 1;
	return p;
}

static void add_sub(uint32_t i)
{
	struct sub *s = &subs[i];
	struct rdmamsg_group *g = &s->group;
	const struct carrier_peer at = place_of(i);
	struct subscriber *known = NULL;

	memset(s, 0, sizeof(*s));
	g->ctx = &ctx;
	g->carrier = &carrier;
	g->state = GROUP_JOINED;
	g->id = (i + 1) * 0x9e3779b97f4a7c15u;
	list_init(&g->members);
	list_init(&g->room.streams);
	g->room.max = 1 << 20;
	g->room.max_message = MTU;
	rdmamsg__ask_init(g);
	s->m.group = g;
	s->m.who.id = publisher.id;
	list_add_tail(&g->members, &s->m.node);
	assert_int_equal(rdmamsg__stream_init(&s->m.stream, &events, &g->room,
					      WINDOW), 0);
	if (w.known)
		known = rdmamsg__audience_place(publisher.audience, &at);
	if (known)
		known->last.rtt = w.rtt;
	s->m.rtt = w.known ? w.rtt : 0;
}

static void begin(struct world like)
{
	static struct audience audience;
	static struct subscriber room[AUDIENCE_MAX];

	w = like;
	now = 1000000000;
	seed = 53;
	on_way_count = 0;
	memset(&ctx, 0, sizeof(ctx));
	assert_int_equal(rdmamsg__timers_init(&ctx.loop.timers), 0);
	assert_int_equal(rdmamsg__timers_reserve(&ctx.loop.timers,
						 (int)w.subscribers), 0);
	carrier = (struct carrier){ .ctx = &ctx, .mtu = MTU };
	audience = (struct audience){ .members = room };
	publisher = (struct rdmamsg_group){
		.ctx = &ctx, .carrier = &carrier, .state = GROUP_JOINED,
		.id = 99, .mtu = MTU, .audience = &audience,
		.opts = { .history = WINDOW, .history_bytes = 1 << 20 },
	};
	assert_int_equal(rdmamsg__repair_new(&publisher), 0);
	rdmamsg__repair_pace(&publisher, 0);
	for (uint32_t i = 0; i < w.subscribers; i++)
		add_sub(i);
}

static void end(void)
{
	for (uint32_t i = 0; i < w.subscribers; i++) {
		rdmamsg__timer_stop(&ctx.loop.timers, &subs[i].group.ask);
		rdmamsg__stream_fini(&subs[i].m.stream);
	}
	rdmamsg__repair_free(&publisher);
	rdmamsg__timers_fini(&ctx.loop.timers);
}

/* ---- the network ------------------------------------------------------- */

/* A heap: the next one is the first. */
static void put(struct datum d)
{
	uint32_t at = on_way_count++;

	assert_true(on_way_count <= ON_WAY);
	d.at = now + w.rtt / 2;
	if (w.late)
		d.at += rdmamsg__random_below(&seed, w.late);
	for (; at && on_way[(at - 1) / 2].at > d.at; at = (at - 1) / 2)
		on_way[at] = on_way[(at - 1) / 2];
	on_way[at] = d;
}

static struct datum take_next(void)
{
	const struct datum d = on_way[0], last = on_way[--on_way_count];
	uint32_t at = 0, child;

	while ((child = 2 * at + 1) < on_way_count) {
		if (child + 1 < on_way_count &&
		    on_way[child + 1].at < on_way[child].at)
			child++;
		if (on_way[child].at >= last.at)
			break;
		on_way[at] = on_way[child];
		at = child;
	}
	on_way[at] = last;
	return d;
}

int __wrap_rdmamsg__member_send(struct member *m, const struct frame *f);
int __wrap_rdmamsg__member_send(struct member *m, const struct frame *f)
{
	struct sub *s = list_entry(m, struct sub, m);
	struct datum d = {
		.to = TO_PUBLISHER, .who = (uint32_t)(s - subs),
		.count = f->length,
	};

	assert_int_equal(f->type, FRAME_NACK);
	assert_true(f->length <= SPREAD);
	s->requests++;
	if (w.lose_requests) {
		w.lose_requests--;
		return 0;
	}
	memcpy(d.ranges, f->data, f->data_len);
	put(d);
	return 0;
}

const struct carrier_to *
__wrap_rdmamsg__subscriber_way(struct rdmamsg_group *g,
			       const struct carrier_peer *at);
const struct carrier_to *
__wrap_rdmamsg__subscriber_way(struct rdmamsg_group *g,
			       const struct carrier_peer *at)
{
	return &ways[at->qpn - 100];
}

static void send_to(uint32_t who, uint32_t number)
{
	put((struct datum){ .to = TO_ONE, .who = who, .number = number });
}

int __wrap_rdmamsg__group_send(struct rdmamsg_group *g,
			       const struct carrier_to *to, uint32_t number,
			       const struct gather *from, uint8_t flags,
			       uint32_t *index, uint32_t last);
int __wrap_rdmamsg__group_send(struct rdmamsg_group *g,
			       const struct carrier_to *to, uint32_t number,
			       const struct gather *from, uint8_t flags,
			       uint32_t *index, uint32_t last)
{
	++*index;
	rdmamsg__repair_sent(g);
	g->st.sent_datagrams++;
	if (w.lose_repairs) {
		w.lose_repairs--;
		return 0;
	}
	if (to != &g->to) {
		send_to((uint32_t)(to - ways), number);
		return 0;
	}
	for (uint32_t i = 0; i < w.subscribers; i++)
		send_to(i, number);
	return 0;
}

/* As take() of receive.c does it. */
static void hear(struct sub *s, uint32_t number, bool repeated)
{
	static const uint8_t content = 1;
	const struct frame f = {
		.type = FRAME_DATA, .number = number, .length = 1,
		.size = 1, .data = &content, .data_len = 1,
	};
	const bool taken = rdmamsg__stream_data(&s->m.stream, &f) ==
			   STREAM_TAKEN;

	s->m.heard = now / 1000;
	s->m.audience = rdmamsg__subscribers(&publisher);
	rdmamsg__ask_heard(&s->m, taken && repeated);
}

static void arrive(const struct datum *d)
{
	const struct frame f = {
		.type = FRAME_NACK, .length = d->count, .data = d->ranges,
		.data_len = d->count * FRAME_RANGE_LEN,
	};
	const struct datagram from = { .from = place_of(d->who) };

	if (d->to == TO_PUBLISHER)
		rdmamsg__repair_nack(&publisher, &f, &from);
	else
		hear(&subs[d->who], d->number, true);
}

/* ---- a loss ------------------------------------------------------------ */

static uint32_t published;

static bool loses(enum loss loss, uint32_t i, uint32_t number, uint32_t first)
{
	if (loss == LOSS_ONE || loss == LOSS_TWO)
		return i == first % w.subscribers &&
		       number - first <= (loss == LOSS_TWO);
	return loss == LOSS_ALL ? number == first :
				  number - first == i % SPREAD;
}

/* The messages come to all others at once. */
static void publish(enum loss loss, bool none, uint32_t first)
{
	static uint8_t content = 1;
	const struct iovec piece = { &content, 1 };
	const struct gather from = { &piece, 1, 1 };
	const struct kept *kept;

	assert_int_equal(rdmamsg__repair_keep(&publisher, &from, &kept), 0);
	publisher.number = published + 1;
	publisher.st.sent_datagrams++;
	for (uint32_t i = 0; i < w.subscribers; i++)
		if (none || !loses(loss, i, published, first))
			hear(&subs[i], published, false);
	published++;
}

static bool have_all(void)
{
	for (uint32_t i = 0; i < w.subscribers; i++)
		if (subs[i].m.stream.next != published)
			return false;
	return true;
}

/* Goes on to what happens next. */
static void step(uint64_t until)
{
	const struct timers *ts = &ctx.loop.timers;
	const uint64_t due = ts->count ? ts->heap[0]->when : until;
	const uint64_t comes = on_way_count ? on_way[0].at : until;
	struct datum d;

	now = max(now, min(min(due, comes), until));
	if (comes <= now && on_way_count) {
		d = take_next();
		arrive(&d);
	} else if (due <= now) {
		(void)rdmamsg__timers_run(&ctx.loop.timers);
	}
}

struct result {
	uint32_t us, longest;	/* until all have it; mean, most */
	uint32_t askers;	/* mean */
	uint32_t most_asks;	/* of all together, for a loss */
};

struct fate {
	enum loss loss;
	uint32_t requests, repairs;	/* the first ones get lost */
};

static void lose(struct fate f, struct result *r)
{
	const uint64_t begun = now;
	const uint32_t first = published;
	const uint32_t count = f.loss == LOSS_EACH ? SPREAD :
			       f.loss == LOSS_TWO ? 2 : 1;
	uint32_t asks = 0;

	for (uint32_t i = 0; i < w.subscribers; i++)
		subs[i].requests = 0;
	for (uint32_t i = 0; i < count; i++)
		publish(f.loss, false, first);
	w.lose_requests = f.requests;
	w.lose_repairs = f.repairs;
	publish(f.loss, true, first);
	while (!have_all()) {
		assert_true(now < begun + WAIT_US);
		step(UINT64_MAX);
	}
	r->us += (uint32_t)(now - begun);
	r->longest = max(r->longest, (uint32_t)(now - begun));
	/* what was asked needlessly */
	while (now < begun + BETWEEN_US)
		step(begun + BETWEEN_US);
	for (uint32_t i = 0; i < w.subscribers; i++) {
		r->askers += subs[i].requests != 0;
		asks += subs[i].requests;
	}
	r->most_asks = max(r->most_asks, asks);
}

static struct result measure(struct world like, struct fate f)
{
	const uint32_t rounds = like.subscribers < 100 ? 40 : 20;
	struct result r = { 0 }, first = { 0 };

	published = 0;
	begin(like);
	publish(LOSS_ONE, true, 0);
	lose((struct fate){ LOSS_ONE, 0, 0 }, &first);
	for (uint32_t i = 0; i < rounds; i++)
		lose(f, &r);
	end();
	r.us /= rounds;
	r.askers /= rounds;
	return r;
}

/* ---- tests ------------------------------------------------------------- */

static const uint32_t sizes[] = { 9, 64, 254, 1000 };
static const uint32_t rtts[] = { 20, 1000, 5000 };

#define COUNT(of)	(sizeof(of) / sizeof(*(of)))
#define COUNTED		254u	/* a publisher counts no more */
#define EACH_US		20u	/* of those that it counts */
#define LEAST_US	100u	/* publishers collect for so long */
#define AGAIN_US	10000u	/* the least for more, and if unknown */

/* Calls it for all sizes and round trips. */
static void for_all(void (*check)(const struct world *like))
{
	for (size_t n = 0; n < COUNT(sizes); n++)
		for (size_t r = 0; r < COUNT(rtts); r++) {
			const struct world like = {
				.subscribers = sizes[n], .rtt = rtts[r],
				.known = true,
			};

			check(&like);
		}
}

static uint32_t unit(const struct world *like)
{
	return max(like->rtt, LEAST_US);
}

/* The longest pause, then a request and its answer. */
static uint32_t at_most(const struct world *like)
{
	uint32_t steps = 1;

	while (like->subscribers >> steps && steps < 8)
		steps++;
	return (steps + 2) * unit(like);
}

static void check_loss(const struct world *like)
{
	struct result r;

	r = measure(*like, (struct fate){ LOSS_ONE, 0, 0 });
	assert_in_range(r.longest, 1, at_most(like));
	r = measure(*like, (struct fate){ LOSS_EACH, 0, 0 });
	assert_in_range(r.longest, 1, at_most(like));
	/* somebody draws a short pause */
	r = measure(*like, (struct fate){ LOSS_ALL, 0, 0 });
	assert_in_range(r.us, 1, 4 * unit(like));
}

static void loss__of_many_TAKES_ROUND_TRIPS(void **state)
{
	for_all(check_loss);
}

static void check_twice_lost(const struct world *like)
{
	const uint32_t each = like->subscribers > COUNTED ? AGAIN_US :
			      EACH_US * like->subscribers;
	const uint32_t most = at_most(like) +
			      3 * max(5 * unit(like), each) / 2;

	for (int i = 0; i < 2; i++) {
		struct fate f = { LOSS_ONE, .requests = !i, .repairs = i };
		struct result r = measure(*like, f);

		assert_in_range(r.longest, 1, most);
		f.loss = LOSS_EACH;
		r = measure(*like, f);
		assert_in_range(r.longest, 1, most);
		/* the repair of another one puts the next request off */
		f.loss = LOSS_TWO;
		r = measure(*like, f);
		assert_in_range(r.longest, 1, most + at_most(like));
	}
}

static void request__or_repair_is_lost_TAKES_ROUND_TRIPS(void **state)
{
	for_all(check_twice_lost);
}

static void check_askers(const struct world *like)
{
	static const struct fate fates[] = {
		{ LOSS_ALL, 0, 0 }, { LOSS_ALL, 1, 0 }, { LOSS_ALL, 0, 1 },
	};

	for (size_t i = 0; i < COUNT(fates); i++) {
		const struct result r = measure(*like, fates[i]);

		assert_in_range(r.askers, 1,
				like->subscribers > COUNTED ? 80 : 20);
	}
}

static void subscribers__many_that_miss_the_same_FEW_ASK(void **state)
{
	for_all(check_askers);
}

/* The round trip was measured when the processes ran at once. */
static void processes__that_run_late_DO_NOT_FLOOD(void **state)
{
	for (size_t n = 0; n < COUNT(sizes); n++) {
		const struct world like = {
			.subscribers = sizes[n], .rtt = 20, .known = true,
			.late = 1000,
		};
		struct result r;

		r = measure(like, (struct fate){ LOSS_ALL, 0, 0 });
		assert_in_range(r.most_asks, 1, 3 * like.subscribers);
		r = measure(like, (struct fate){ LOSS_ONE, 0, 0 });
		assert_in_range(r.most_asks, 1, 4);
	}
}

static uint32_t requests_until(uint64_t until)
{
	uint32_t asks = 0;

	while (now < until)
		step(until);
	for (uint32_t i = 0; i < w.subscribers; i++)
		asks += subs[i].requests;
	return asks;
}

/* All miss the same, and all ask. */
static void publisher__that_does_not_answer_IS_NOT_FLOODED(void **state)
{
	for (size_t n = 0; n < COUNT(sizes); n++) {
		const uint32_t count = sizes[n];
		uint64_t begun;

		published = 0;
		begin((struct world){
			.subscribers = count, .rtt = 20, .known = true,
			.lose_requests = UINT32_MAX,
		});
		publish(LOSS_ONE, true, 0);
		publish(LOSS_ALL, false, 1);
		publish(LOSS_ALL, true, 1);
		begun = now;
		assert_in_range(requests_until(begun + 5000), count,
				2 * count + 5000 / EACH_US);
		assert_in_range(requests_until(begun + 1000000), 6 * count,
				14 * count);
		end();
	}
}

static void round_trip__unknown_WAITS_MILLISECONDS(void **state)
{
	const struct world like = { .subscribers = 9, .rtt = 20 };
	struct result r;

	r = measure(like, (struct fate){ LOSS_ONE, 0, 0 });
	assert_in_range(r.longest, 7000, 11000);
	r = measure(like, (struct fate){ LOSS_ONE, 1, 0 });
	assert_in_range(r.us, AGAIN_US, 2 * AGAIN_US + 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loss__of_many_TAKES_ROUND_TRIPS),
		cmocka_unit_test(request__or_repair_is_lost_TAKES_ROUND_TRIPS),
		cmocka_unit_test(subscribers__many_that_miss_the_same_FEW_ASK),
		cmocka_unit_test(processes__that_run_late_DO_NOT_FLOOD),
		cmocka_unit_test(
			publisher__that_does_not_answer_IS_NOT_FLOODED),
		cmocka_unit_test(round_trip__unknown_WAITS_MILLISECONDS),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
