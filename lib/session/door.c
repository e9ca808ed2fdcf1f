/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts the visitors of a listener by stage and by address. */
#include "base/addrmap.h"
#include "base/base.h"
#include "base/list.h"
#include "base/util.h"
#include "session/door.h"
#include "wire/proto.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

struct door_source {
	struct addr_node node;		/* first */
	uint32_t at[DOOR_STAGES];
	uint32_t offences;
	uint64_t until;			/* ms, end of the time of rejects */
	struct list offender_node;	/* holds a reference */
	struct door_source *net;	/* its /64, with a reference; or NULL */
	uint32_t asks;			/* for sessions, since asked_at */
	uint64_t asked_at;		/* ms */
	struct list asker_node;		/* holds a reference */
	void *slot;			/* the user's */
};

/* Sources that have asked for sessions lately. */
struct askers {
	struct list list;		/* oldest asked_at first */
	uint32_t count;
};

struct door {
	pthread_mutex_t lock;
	uint32_t refs;			/* the listener and the visitors */
	uint32_t max[DOOR_STAGES];	/* for sum() */
	uint32_t max_per_source;	/* 0: rdmamsg__is_fair() */
	uint32_t setup_ms;
	uint32_t slow_ms;
	uint32_t at[DOOR_STAGES];
	struct addrmap sources;
	struct list offenders;		/* oldest offence first */
	uint32_t offender_count;
	struct askers askers;		/* addresses */
	struct askers asker_nets;	/* of a /64 each */
	struct rdmamsg_listener_stats st;
};

struct door *rdmamsg__door_new(const struct rdmamsg_listen_options *o)
{
	struct door *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	pthread_mutex_init(&d->lock, NULL);
	d->refs = 1;
	d->max[DOOR_RECORD] = o->backlog;
	d->max[DOOR_REQUEST] = o->max_requests;
	d->max[DOOR_HALF_OPEN] = o->max_half_open;
	d->max[DOOR_OPEN] = o->max_endpoints;
	d->max_per_source = o->max_per_source;
	d->setup_ms = o->setup_timeout_ms;
	d->slow_ms = o->slow_ms;
	d->st.size = sizeof(d->st);
	list_init(&d->offenders);
	list_init(&d->askers.list);
	list_init(&d->asker_nets.list);
	return d;
}

bool rdmamsg__door_is_fair(const struct door *d)
{
	return !d->max_per_source;
}

uint32_t rdmamsg__door_setup_ms(const struct door *d)
{
	return d->setup_ms;
}

/* ---- addresses that have offended ------------------------------------- */

static void source_put(struct door *d, struct door_source *s)
{
	struct door_source *net = s->net;

	if (rdmamsg__addrmap_put(&d->sources, s) && net)
		(void)rdmamsg__addrmap_put(&d->sources, net);
}

static void forgive(struct door *d, struct door_source *s)
{
	list_del(&s->offender_node);
	d->offender_count--;
	s->offences = 0;
	s->until = 0;
	source_put(d, s);
}

static void forgive_quiet(struct door *d, uint64_t now)
{
	while (!list_empty(&d->offenders)) {
		struct door_source *s = list_first(&d->offenders,
						   struct door_source,
						   offender_node);

		if (now < s->until + DOOR_QUIET_MS &&
		    d->offender_count <= DOOR_OFFENDERS)
			break;
		forgive(d, s);
	}
}

static uint32_t keep_out_ms(const struct door *d, uint32_t offences)
{
	_Static_assert(1 << 14 > DOOR_SLOW_MS, "doubled to the longest time");
	return min(d->slow_ms << min(offences, 14u), (uint32_t)DOOR_SLOW_MS);
}

static void offend(struct door *d, struct door_source *s)
{
	uint64_t now = rdmamsg__now_ms();

	if (now >= s->until + DOOR_QUIET_MS)
		s->offences = 0;
	if (list_empty(&s->offender_node)) {
		s->node.refs++;
		d->offender_count++;
	}
	list_del(&s->offender_node);
	list_add_tail(&d->offenders, &s->offender_node);
	s->until = now + keep_out_ms(d, s->offences);
	s->offences += s->offences < UINT32_MAX;
	d->st.offences++;
	forgive_quiet(d, now);
}

void rdmamsg__visitor_offends(struct visitor *v)
{
	struct door *d = v->door;

	if (!d || d->slow_ms == RDMAMSG_NONE)
		return;
	pthread_mutex_lock(&d->lock);
	offend(d, v->source);
	pthread_mutex_unlock(&d->lock);
}

/* ---- sessions that nobody has ------------------------------------------ */

static void forget_asker(struct door *d, struct askers *askers)
{
	struct door_source *s = list_first(&askers->list, struct door_source,
					   asker_node);

	list_del(&s->asker_node);
	askers->count--;
	s->asks = 0;
	source_put(d, s);
}

static bool may_ask(struct door *d, struct askers *askers,
		    struct door_source *s, uint32_t most)
{
	const uint64_t now = rdmamsg__now_ms();

	if (s->asks && now - s->asked_at < 1000)
		return s->asks < most && ++s->asks;
	if (list_empty(&s->asker_node)) {
		s->node.refs++;
		askers->count++;
	}
	list_del(&s->asker_node);
	list_add_tail(&askers->list, &s->asker_node);
	s->asked_at = now;
	s->asks = 1;
	while (askers->count > DOOR_ASKERS)
		forget_asker(d, askers);
	return true;
}

/*
 * A host can have all addresses of a /64, more than are remembered. So the /64
 * has a budget, too, and is not forgotten for its addresses.
 */
bool rdmamsg__visitor_may_ask(struct visitor *v)
{
	struct door *d = v->door;
	struct door_source *net;
	bool ret;

	if (!d)
		return true;
	net = v->source->net;
	pthread_mutex_lock(&d->lock);
	ret = may_ask(d, &d->askers, v->source, DOOR_ASKS) &&
	      (!net || may_ask(d, &d->asker_nets, net, DOOR_NET * DOOR_ASKS));
	pthread_mutex_unlock(&d->lock);
	return ret;
}

/* ---- limits ----------------------------------------------------------- */

/* Visitors at this stage and at the stages before it, except DOOR_RECORD. */
static uint32_t sum(const uint32_t at[DOOR_STAGES], enum door_stage stage)
{
	uint32_t n = at[stage];

	while (stage-- > DOOR_REQUEST)
		n += at[stage];
	return n;
}

/*
 * A host can have all addresses of a /64. So these together leave a part to
 * others, too: used + 1 <= 2 * DOOR_NET * (left - 1).
 */
static bool net_has_room(const struct door_source *s, size_t used, size_t left)
{
	return !s->net || !used ||
	       (left && used + 1 <= 2 * DOOR_NET * (left - 1));
}

static bool has_room(const struct door *d, const struct door_source *s,
		     enum door_stage stage)
{
	uint32_t limit = d->max[stage], all = sum(d->at, stage);

	if (limit == RDMAMSG_NONE)
		return true;
	if (all >= limit)
		return false;
	return d->max_per_source ||
	       (rdmamsg__is_fair(sum(s->at, stage), limit - all, 1) &&
		net_has_room(s, s->net ? sum(s->net->at, stage) : 0,
			     limit - all));
}

static bool is_kept_out(struct door *d, const struct door_source *s)
{
	uint64_t now = rdmamsg__now_ms();

	forgive_quiet(d, now);
	return now < s->until;
}

static enum proto_limit limit_for(struct door *d, const struct door_source *s)
{
	if (is_kept_out(d, s))
		return PROTO_LIMIT_SLOWED;
	if (sum(d->at, DOOR_OPEN) >= d->max[DOOR_OPEN])
		return PROTO_LIMIT_ENDPOINTS;
	if (!has_room(d, s, DOOR_OPEN) ||
	    (d->max_per_source &&
	     sum(s->at, DOOR_OPEN) >= d->max_per_source))
		return PROTO_LIMIT_SOURCE;
	if (!has_room(d, s, DOOR_HALF_OPEN))
		return PROTO_LIMIT_HALF_OPEN;
	if (!has_room(d, s, DOOR_REQUEST))
		return PROTO_LIMIT_REQUESTS;
	return PROTO_LIMIT_NONE;
}

static void count_refusal(struct door *d, enum proto_limit limit)
{
	switch (limit) {
	case PROTO_LIMIT_REQUESTS:
		d->st.rejected_requests++;
		break;
	case PROTO_LIMIT_HALF_OPEN:
		d->st.rejected_half_open++;
		break;
	case PROTO_LIMIT_SLOWED:
		d->st.slowed++;
		break;
	case PROTO_LIMIT_ENDPOINTS:
		d->st.rejected_endpoints++;
		break;
	case PROTO_LIMIT_SOURCE:
		d->st.rejected_source++;
		break;
	case PROTO_LIMIT_MEMORY:
		d->st.rejected_memory++;
		break;
	case PROTO_LIMIT_DRAINING:
		d->st.rejected_draining++;
		break;
	default:
		break;
	}
}

/*
 * The listener closes its oldest TCP connection to make room for a new one. So
 * only the part of each address is limited here.
 */
static enum proto_limit limit_for_record(struct door *d,
					 const struct door_source *s)
{
	uint32_t limit = d->max[DOOR_RECORD];
	uint32_t left = limit - min(limit, d->at[DOOR_RECORD]);

	if (is_kept_out(d, s))
		return PROTO_LIMIT_SLOWED;
	return d->max_per_source ||
	       (rdmamsg__is_fair(s->at[DOOR_RECORD], left, 1) &&
		net_has_room(s, s->net ? s->net->at[DOOR_RECORD] : 0, left)) ?
	       PROTO_LIMIT_NONE : PROTO_LIMIT_REQUESTS;
}

static void count(struct door *d, struct door_source *s, enum door_stage stage,
		  int n)
{
	d->at[stage] += (uint32_t)n;
	s->at[stage] += (uint32_t)n;
	if (s->net)
		s->net->at[stage] += (uint32_t)n;
}

static void move(struct visitor *v, enum door_stage stage)
{
	struct door *d = v->door;

	count(d, v->source, v->stage, -1);
	count(d, v->source, stage, 1);
	d->st.accepted += stage == DOOR_HALF_OPEN;
	v->stage = stage;
}

static void come(struct door *d, struct door_source *s, enum door_stage stage,
		 struct visitor *v)
{
	d->refs++;
	s->node.refs++;
	count(d, s, stage, 1);
	*v = (struct visitor){ .door = d, .source = s, .stage = stage };
}

static struct door_source *source_get(struct door *d,
				      const struct sockaddr_storage *from)
{
	struct door_source *s;
	struct addr_key key;

	rdmamsg__addr_key(&key, NULL, from);
	s = rdmamsg__addrmap_get(&d->sources, &key, sizeof(*s));
	if (!s || s->node.refs > 1)
		return s;
	list_init(&s->offender_node);
	list_init(&s->asker_node);
	if (!rdmamsg__addr_net(&key, d))
		return s;
	s->net = rdmamsg__addrmap_get(&d->sources, &key, sizeof(*s));
	if (!s->net) {
		(void)rdmamsg__addrmap_put(&d->sources, s);
		return NULL;
	}
	if (s->net->node.refs == 1)
		list_init(&s->net->asker_node);
	return s;
}

static int admit(struct door *d, const struct sockaddr_storage *from,
		 enum door_stage stage, struct visitor *v)
{
	struct door_source *s = source_get(d, from);
	int limit;

	if (!s)
		return -ENOMEM;
	limit = (int)(stage == DOOR_RECORD ? limit_for_record(d, s) :
		      limit_for(d, s));
	if (!limit && v->door)
		move(v, stage);
	else if (!limit)
		come(d, s, stage, v);
	source_put(d, s);
	return limit;
}

int rdmamsg__door_admit(struct door *d, const struct sockaddr_storage *from,
			enum door_stage stage, struct visitor *v)
{
	int ret;

	pthread_mutex_lock(&d->lock);
	ret = admit(d, from, stage, v);
	if (ret > 0)
		count_refusal(d, (enum proto_limit)ret);
	pthread_mutex_unlock(&d->lock);
	return ret;
}

int rdmamsg__door_offer(struct door *d, const struct sockaddr_storage *from,
			struct visitor *v)
{
	int ret;

	pthread_mutex_lock(&d->lock);
	ret = admit(d, from, DOOR_REQUEST, v);
	pthread_mutex_unlock(&d->lock);
	return ret;
}

bool rdmamsg__door_slows(struct door *d, const struct sockaddr_storage *from)
{
	struct door_source *s = NULL;
	bool ret;

	pthread_mutex_lock(&d->lock);
	/* mostly there are none */
	if (!list_empty(&d->offenders))
		s = source_get(d, from);
	ret = s && is_kept_out(d, s);
	if (s)
		source_put(d, s);
	pthread_mutex_unlock(&d->lock);
	return ret;
}

uint32_t rdmamsg__door_requests(struct door *d)
{
	uint32_t n;

	pthread_mutex_lock(&d->lock);
	n = d->at[DOOR_REQUEST];
	pthread_mutex_unlock(&d->lock);
	return n;
}

void rdmamsg__door_refused(struct door *d, enum proto_limit limit)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	count_refusal(d, limit);
	pthread_mutex_unlock(&d->lock);
}

void rdmamsg__door_timed_out(struct door *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->st.setup_timeouts++;
	pthread_mutex_unlock(&d->lock);
}

void rdmamsg__door_unproven(struct door *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->st.unproven++;
	pthread_mutex_unlock(&d->lock);
}

void **rdmamsg__visitor_slot(struct visitor *v)
{
	return &v->source->slot;
}

void rdmamsg__visitor_move(struct visitor *v, enum door_stage stage)
{
	if (!v->door)
		return;
	pthread_mutex_lock(&v->door->lock);
	move(v, stage);
	pthread_mutex_unlock(&v->door->lock);
}

/* ---- the end ---------------------------------------------------------- */

/* Drops a reference and unlocks. */
static void put(struct door *d)
{
	bool last = !--d->refs;

	while (last && !list_empty(&d->offenders))
		forgive(d, list_first(&d->offenders, struct door_source,
				      offender_node));
	while (last && !list_empty(&d->askers.list))
		forget_asker(d, &d->askers);
	while (last && !list_empty(&d->asker_nets.list))
		forget_asker(d, &d->asker_nets);
	pthread_mutex_unlock(&d->lock);
	if (!last)
		return;
	rdmamsg__addrmap_fini(&d->sources);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

void rdmamsg__visitor_leave(struct visitor *v)
{
	struct door *d = v->door;

	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	count(d, v->source, v->stage, -1);
	source_put(d, v->source);
	v->door = NULL;
	put(d);
}

void rdmamsg__door_close(struct door *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	put(d);
}

void rdmamsg__door_stats(struct door *d, struct rdmamsg_listener_stats *ret)
{
	pthread_mutex_lock(&d->lock);
	*ret = d->st;
	ret->requests = d->at[DOOR_REQUEST];
	ret->half_open = d->at[DOOR_HALF_OPEN];
	ret->endpoints = d->at[DOOR_OPEN];
	pthread_mutex_unlock(&d->lock);
}
