/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group-lat: both sides of a group. A message has the time that the schedule
 * names, so a late publisher does not make the latency look shorter.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE	/* for ppoll() */
#endif
#include "group.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <rdmamsg/device.h>
#include <rdmamsg/group.h>

#define SECOND		UINT64_C(1000000000)	/* ns */
#define LOOK		50000000	/* ns between looks at shared memory */
#define PATIENCE_S	60u
#define TAIL_NS		10000000	/* between messages after those */
#define FAILED		1
#define FAST_RATE	50000u	/* messages/s */
#define HISTORY		16384u	/* messages that a publisher keeps */

/* A message begins with this. */
struct stamp {
	uint64_t due;		/* ns of CLOCK_MONOTONIC */
	uint64_t number;	/* from 0, those of the warm-up as well */
};
_Static_assert(sizeof(struct stamp) == PERF_GROUP_LEAST, "as options.c says");

struct side {
	const struct perf_options *o;
	struct group_shared *shared;
	struct rdmamsg *ctx;
	struct rdmamsg_group *group;
	uint64_t next;		/* number of the next message */
	bool joined, closed, done;

	/* a publisher */
	uint8_t *data;
	uint64_t begin;		/* ns: when the first message is due */
	uint64_t end;		/* number behind the measured messages */
	uint64_t late;		/* ns: the longest behind the schedule */
	bool full;		/* until on_writable */

	/* a subscriber */
	struct group_result *result;
	uint64_t *samples;
	uint8_t *awaited;	/* a bit for each measured message */
	uint32_t base;		/* the library's number of message 0 */
	int64_t repairs;	/* datagrams, up to the message before */
	uint64_t repeated, asked;	/* before the first measured message */
	bool heard;
	bool tail;		/* a message behind the measured ones has come */
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

static void fail(struct side *s, const char *what)
{
	perf_complain("%s: %s", what, rdmamsg_error());
	s->closed = true;
}

/* Polls once, or sleeps for LOOK at most, and until 'when' if that is not 0. */
static void turn(struct side *s, uint64_t when)
{
	struct pollfd p = { .fd = rdmamsg_fd(s->ctx), .events = POLLIN };
	struct timespec ts = { 0, LOOK };
	uint64_t now;

	if (!s->o->event) {
		(void)rdmamsg_fast_poll(s->ctx);
		return;
	}
	now = when ? now_ns() : 0;
	if (when < now + LOOK && when)
		ts.tv_nsec = when > now ? (long)(when - now) : 0;
	(void)ppoll(&p, 1, &ts, NULL);
	(void)rdmamsg_process(s->ctx);
}

/* ---- both ------------------------------------------------------------- */

static void on_joined(struct rdmamsg_group *group)
{
	struct side *s = rdmamsg_group_user(group);

	s->full = false;
	s->joined = true;
}

static void on_closed(struct rdmamsg_group *group,
		      const struct rdmamsg_reason *why)
{
	struct side *s = rdmamsg_group_user(group);

	if (!s->done && !s->closed)
		perf_complain("%s: %s", s->o->group, why->text);
	s->closed = true;
}

static void on_writable(struct rdmamsg_group *group)
{
	((struct side *)rdmamsg_group_user(group))->full = false;
}

/*
 * A schedule that is fast has no other limit than the device's, and keeps each
 * message for as long as half of the history lasts.
 */
static void set_pace(struct rdmamsg_group_options *opts, uint32_t rate)
{
	if (rate <= FAST_RATE)
		return;
	opts->rate = RDMAMSG_NONE;
	opts->history_ms = HISTORY / 2 * 1000 / rate;
	opts->history_ms += !opts->history_ms;
}

static int join(struct side *s, uint32_t flags,
		const struct rdmamsg_group_handlers *on)
{
	struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .user = s, .handlers = on,
		.flags = flags | (s->o->no_repair ? 0 : RDMAMSG_GROUP_REPAIR) |
			 (s->o->unordered ? RDMAMSG_GROUP_UNORDERED : 0),
		.source = s->o->host, .max_message = s->shared->size,
	};

	set_pace(&opts, s->o->rate);
	if (rdmamsg_open(&s->ctx, &perf_context) ||
	    rdmamsg_group_join(s->ctx, s->o->group, &opts, &s->group)) {
		fail(s, s->o->group);
		return FAILED;
	}
	while (!s->joined && !s->closed)
		turn(s, 0);
	return s->closed ? FAILED : 0;
}

static int leave(struct side *s, int status)
{
	s->done = true;
	rdmamsg_close(s->ctx);
	return status;
}

/* ---- the publisher ---------------------------------------------------- */

static uint64_t due(const struct side *s, uint64_t number)
{
	const uint64_t tail = number > s->end ? number - s->end : 0;

	return s->begin + (number - tail) * SECOND / s->o->rate +
	       tail * TAIL_NS;
}

/*
 * Publishes what is due, up to number 'end'. If the group has no room, the
 * message keeps its time and is tried again.
 */
static void publish(struct side *s, uint64_t end)
{
	while (!s->full && !s->closed && s->next < end) {
		const struct stamp stamp = { due(s, s->next), s->next };
		const uint64_t now = now_ns();
		int ret;

		if (now < stamp.due)
			return;
		memcpy(s->data, &stamp, sizeof(stamp));
		ret = rdmamsg_group_publish(s->group, s->data, s->shared->size);
		s->full = ret == -EAGAIN;
		if (ret && !s->full)
			fail(s, "publishing");
		if (ret)
			return;
		s->next++;
		if (now - stamp.due > s->late)
			s->late = now - stamp.due;
	}
}

/*
 * Publishes by the schedule, up to number 'end' and then until *count has come
 * to 'enough'.
 */
static int publish_until(struct side *s, uint64_t end,
			 const _Atomic uint32_t *count, uint32_t enough)
{
	const uint64_t most = due(s, end) + PATIENCE_S * SECOND;

	while ((s->next < end || *count < enough) && !s->closed) {
		publish(s, s->next < end ? end : UINT64_MAX);
		s->shared->published = (uint32_t)s->next;
		turn(s, s->full ? 0 : due(s, s->next));
		if (now_ns() < most)
			continue;
		if (s->next < end)
			perf_complain("the publisher is %u s behind its "
				      "schedule: lower --rate", PATIENCE_S);
		else
			perf_complain("only %u of %u subscribers have received "
				      "what was published %u s ago", *count,
				      enough, PATIENCE_S);
		return FAILED;
	}
	return s->closed ? FAILED : 0;
}

/* Tells the parent and the subscribers where the messages come from. */
static int introduce(struct side *s)
{
	struct rdmamsg_device_attr dev = { .size = sizeof(dev) };
	struct rdmamsg_group_attr g = { .size = sizeof(g) };
	const uint32_t size = s->shared->size;

	if (rdmamsg_group_query(s->group, &g) || !g.device ||
	    rdmamsg_device_query(g.device, &dev)) {
		fail(s, "the device");
		return FAILED;
	}
	if (g.rate && s->o->rate > g.rate / (1 + size / g.mtu)) {
		perf_complain("--rate %u: messages of %u bytes are at least %u "
			      "datagrams, and %s has %u datagrams/s: a rate of "
			      "%u at most", s->o->rate, size, 1 + size / g.mtu,
			      g.device, g.rate, g.rate / (1 + size / g.mtu));
		return FAILED;
	}
	s->shared->id = g.id;
	s->shared->soft = !strcmp(dev.kind, "soft");
	memcpy(s->shared->device, dev.name, sizeof(s->shared->device) - 1);
	s->shared->joined++;
	return 0;
}

static int publish_all(struct side *s)
{
	struct group_shared *m = s->shared;

	while (!m->go)
		turn(s, 0);
	s->begin = now_ns();
	if (publish_until(s, m->warm, &m->heard, s->o->subscribers))
		return FAILED;
	s->late = 0;
	m->first = (uint32_t)s->next;
	s->end = s->next + m->count;
	if (publish_until(s, s->end, &m->joined, 0))
		return FAILED;
	m->took = now_ns() - due(s, m->first);
	m->late = s->late;
	/*
	 * Further messages show what was lost at the end. They are few, so that
	 * the measured ones stay in the history and can be repaired.
	 */
	return publish_until(s, s->end, &m->done, s->o->subscribers);
}

int group_publisher(const struct perf_options *o, struct group_shared *shared)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined,
		.on_writable = on_writable, .on_closed = on_closed,
	};
	struct side s = { .o = o, .shared = shared, .end = UINT64_MAX };
	const uint8_t *pattern = perf_pattern(shared->size);

	s.data = (uint8_t *)(uintptr_t)pattern;
	(void)prctl(PR_SET_TIMERSLACK, 1);
	if (!pattern) {
		perf_complain("no memory for %u bytes", shared->size);
		return FAILED;
	}
	return leave(&s, join(&s, RDMAMSG_GROUP_PUBLISH, &on) ||
			 introduce(&s) || publish_all(&s));
}

/* ---- a subscriber ----------------------------------------------------- */

/* Returns how many repairs have brought something. */
static int64_t useful_repairs(const struct side *s)
{
	struct rdmamsg_group_stats st = { .size = sizeof(st) };

	if (s->o->no_repair ||
	    rdmamsg_group_get_sender_stats(s->group, s->shared->id, &st))
		return 0;
	return (int64_t)(st.received_repeated - st.dropped_late -
			 st.dropped_double);
}

static void read_counters(const struct side *s, uint64_t *repeated,
			  uint64_t *asked)
{
	struct rdmamsg_group_stats st = { .size = sizeof(st) };

	(void)rdmamsg_group_get_stats(s->group, &st);
	*repeated = st.received_repeated;
	*asked = st.asked;
}

/*
 * Ends when all measured messages have been delivered, or told in gaps. Without
 * an order some of them may come behind later ones.
 */
static void look_for_the_end(struct side *s)
{
	struct group_result *r = s->result;

	if (!s->tail || (s->o->unordered &&
			 r->delivered + r->told < s->shared->count))
		return;
	s->done = true;
	read_counters(s, &r->repeated, &r->asked);
	r->repeated -= s->repeated;
	r->asked -= s->asked;
}

/* Returns true if the measured message of this place comes again. */
static bool is_double(struct side *s, uint64_t place)
{
	const uint8_t bit = (uint8_t)(1u << place % 8);
	const bool again = !(s->awaited[place / 8] & bit);

	s->awaited[place / 8] &= (uint8_t)~bit;
	return again;
}

/*
 * If a repair has brought something since the message before, it was this
 * message or a part of it: behind a missing message nothing is delivered, and
 * without an order a message is when its last part has come.
 */
static void measured(struct side *s, const struct stamp *stamp, uint64_t now,
		     int64_t repairs, bool overtaken)
{
	struct group_result *r = s->result;
	uint64_t sample = now - stamp->due;

	if (is_double(s, stamp->number - s->shared->first) ||
	    now < stamp->due) {
		r->wrong++;
		return;
	}
	if (repairs > s->repairs)
		sample |= GROUP_REPAIRED;
	s->samples[r->delivered++] = sample;
	r->overtaken += overtaken;
}

static void on_message(struct rdmamsg_group *group,
		       const struct rdmamsg_group_message *msg)
{
	const uint64_t now = now_ns();
	struct side *s = rdmamsg_group_user(group);
	struct stamp stamp;
	int64_t repairs;
	bool overtaken;

	if (msg->sender->id != s->shared->id || s->done)
		return;
	if (msg->len != s->shared->size) {
		s->result->wrong++;
		return;
	}
	memcpy(&stamp, msg->data, sizeof(stamp));
	overtaken = stamp.number < s->next;
	s->result->wrong += overtaken && !s->o->unordered;
	if (!overtaken)
		s->next = stamp.number + 1;
	s->base = msg->number - (uint32_t)stamp.number;
	if (!s->heard)
		s->shared->heard++;
	s->heard = true;
	repairs = useful_repairs(s);
	if (stamp.number >= s->shared->first) {
		if (stamp.number - s->shared->first < s->shared->count)
			measured(s, &stamp, now, repairs, overtaken);
		else
			s->tail = true;
		look_for_the_end(s);
	} else if (!s->result->delivered) {	/* before it is set, too */
		read_counters(s, &s->repeated, &s->asked);
	}
	s->repairs = repairs;
}

static void on_gap(struct rdmamsg_group *group,
		   const struct rdmamsg_group_sender *sender, uint32_t first,
		   uint32_t last)
{
	struct side *s = rdmamsg_group_user(group);
	const uint64_t from = s->shared->first, end = from + s->shared->count;
	uint64_t a = first - s->base, b = last - s->base;

	if (sender->id != s->shared->id || s->done || from == UINT32_MAX)
		return;
	/* earlier repairs were of messages behind the gap */
	s->repairs = useful_repairs(s);
	a = a < from ? from : a;
	b = b >= end ? end - 1 : b;
	if (a > b)
		return;
	s->result->told += b - a + 1;
	s->result->gaps++;
	look_for_the_end(s);
}

int group_subscriber(const struct perf_options *o, struct group_shared *shared,
		     uint32_t which)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined,
		.on_message = on_message, .on_gap = on_gap,
		.on_closed = on_closed,
	};
	const size_t bits = shared->count / 8 + 1;
	struct side s = {
		.o = o, .shared = shared, .result = &shared->results[which],
		.samples = shared->samples + (size_t)which * shared->count,
		.awaited = malloc(bits),
	};
	int ret;

	if (!s.awaited) {
		perf_complain("no memory for %u messages", shared->count);
		return FAILED;
	}
	/* no first touch of these pages in a measurement */
	memset(s.awaited, UINT8_MAX, bits);
	memset(s.samples, 0, shared->count * sizeof(*s.samples));
	ret = join(&s, RDMAMSG_GROUP_SUBSCRIBE, &on);
	if (!ret) {
		shared->joined++;
		while (!s.done && !s.closed)
			turn(&s, 0);
		shared->done++;
		ret = s.closed ? FAILED : 0;
	}
	ret = leave(&s, ret);
	free(s.awaited);
	return ret;
}
