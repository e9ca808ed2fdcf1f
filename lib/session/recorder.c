/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring of events, and their text. */
#include "base/base.h"
#include "base/util.h"
#include "device/async.h"
#include "session/ep.h"
#include "session/recorder.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rdmamsg.h>

#define LINE_MAX_LEN	256

struct recorder *rdmamsg__recorder_new(void)
{
	struct recorder *r = calloc(1, sizeof(*r));

	if (r)
		r->since = rdmamsg__now_ms();
	return r;
}

void rdmamsg__recorder_free(struct recorder *r)
{
	free(r);
}

void rdmamsg__record(struct recorder *r, enum event_kind kind, uint32_t a,
		     uint32_t b)
{
	if (!r)
		return;
	r->ring[r->count++ % EVENTS_MAX] = (struct event){
		.ms = rdmamsg__now_ms() - r->since, .kind = kind, .a = a,
		.b = b,
	};
}

/* Returns the index of the name, or EVENT_DEVICES if there is no room. */
static uint32_t device_index(struct recorder *r, const char *name)
{
	uint32_t i = 0;

	if (!name)
		return EVENT_DEVICES;
	while (i < EVENT_DEVICES && *r->devices[i] &&
	       strcmp(r->devices[i], name) != 0)
		i++;
	if (i < EVENT_DEVICES)
		snprintf(r->devices[i], sizeof(r->devices[i]), "%s", name);
	return i;
}

static const char *device_name(const struct recorder *r, uint32_t i)
{
	return i < EVENT_DEVICES ? r->devices[i] : "another device";
}

void rdmamsg__record_device(struct recorder *r, enum event_kind kind,
			    const char *device, uint32_t b)
{
	if (r)
		rdmamsg__record(r, kind, device_index(r, device), b);
}

/*
 * a: 31..24 who  23..16 cause  15..0 wc_status
 * b: 31..16 device  15..0 errno
 */
void rdmamsg__record_reason(struct recorder *r, enum event_kind kind,
			    const struct rdmamsg_reason *why,
			    const char *device)
{
	if (!r)
		return;
	rdmamsg__record(r, kind, (uint32_t)why->who << 24 |
			(uint32_t)why->cause << 16 |
			((uint32_t)why->wc_status & 0xffff),
			device_index(r, device) << 16 |
			((uint32_t)-why->error & 0xffff));
}

void rdmamsg__record_credit(struct recorder *r, bool waits, uint32_t limit,
			    uint32_t number)
{
	bool lasts;

	if (!r)
		return;
	lasts = waits && limit == number && r->limit == limit;
	r->limit = limit;
	if (lasts && !r->no_credit)
		rdmamsg__record(r, EVENT_NO_CREDIT, number, 0);
	else if (r->no_credit && limit != number)
		rdmamsg__record(r, EVENT_CREDIT, limit, 0);
	else
		return;
	r->no_credit = lasts;
}

/* ---- text ------------------------------------------------------------- */

static void reason_text(const struct event *e, char *buf, size_t size)
{
	uint32_t status = e->a & 0xffff, error = e->b & 0xffff;
	int n = snprintf(buf, size, "%s, %s",
			 rdmamsg_name(RDMAMSG_NAME_WHO, e->a >> 24),
			 rdmamsg_name(RDMAMSG_NAME_CAUSE, e->a >> 16 & 0xff));

	if (error && n < (int)size)
		n += snprintf(buf + n, size - (size_t)n, ", %s",
			      strerror((int)error));
	if (status && n < (int)size)
		snprintf(buf + n, size - (size_t)n, " (%s)",
			 ibv_wc_status_str(status));
}

static void close_text(const struct event *e, char *buf, size_t size)
{
	switch (e->kind) {
	case EVENT_CLOSE_SENT:
		snprintf(buf, size, "CLOSE sent%s", e->a ?
			 ", which confirms the peer's" : "");
		break;
	case EVENT_CLOSE_TAKEN:
		snprintf(buf, size, "CLOSE of the peer%s", e->a ?
			 ", which confirms ours" : "");
		break;
	default:
		snprintf(buf, size, "disconnected by %s", e->a ? "the peer" :
			 "this side");
	}
}

static void lane_text(const struct recorder *r, const struct event *e,
		      char *buf, size_t size)
{
	char why[LINE_MAX_LEN / 2];

	switch (e->kind) {
	case EVENT_LANE:
		snprintf(buf, size, "connected on %s, port %u",
			 device_name(r, e->a), e->b);
		break;
	case EVENT_LOST:
		reason_text(e, why, sizeof(why));
		snprintf(buf, size, "connection on %s lost: %s",
			 device_name(r, e->b >> 16), why);
		break;
	case EVENT_DOWN:
		snprintf(buf, size, "its queue pair is freed, %u ms after the "
			 "loss", e->a);
		break;
	case EVENT_TRY:
		snprintf(buf, size, "try %u for another connection%s", e->a,
			 e->b > 1 ? ", to an address that the peer has "
			 "announced" : e->b ? ", to the other address" : "");
		break;
	case EVENT_TRY_FAILED:
		reason_text(e, why, sizeof(why));
		snprintf(buf, size, "the try has failed: %s", why);
		break;
	case EVENT_CARRIER:
		snprintf(buf, size, "another connection is ready on %s",
			 device_name(r, e->a));
		break;
	default:
		snprintf(buf, size, "resumed on %s after %u ms",
			 device_name(r, e->a), e->b);
	}
}

static void message_text(const struct event *e, char *buf, size_t size)
{
	switch (e->kind) {
	case EVENT_RESUME_SENT:
		snprintf(buf, size, "RESUME sent: message %u is next here, "
			 "%u large messages are announced", e->a, e->b);
		break;
	case EVENT_RESUME_TAKEN:
		snprintf(buf, size, "RESUME of the peer: message %u is next "
			 "there", e->a);
		break;
	case EVENT_REPLAY:
		snprintf(buf, size, "%u messages from %u are sent again", e->b,
			 e->a);
		break;
	case EVENT_REPLAYED:
		snprintf(buf, size, "all messages before %u are sent again",
			 e->a);
		break;
	case EVENT_NO_CREDIT:
		snprintf(buf, size, "message %u waits for a credit of the peer",
			 e->a);
		break;
	default:
		snprintf(buf, size, "the peer has given credit up to message "
			 "%u", e->a);
	}
}

static void other_text(const struct event *e, char *buf, size_t size)
{
	switch (e->kind) {
	case EVENT_STATE:
		snprintf(buf, size, "state %s", rdmamsg__ep_state_name(e->a));
		break;
	case EVENT_PATH:
		snprintf(buf, size, "path %s, alternate port %u",
			 rdmamsg_name(RDMAMSG_NAME_PATH_CHANGE, e->a), e->b);
		break;
	case EVENT_PORT:
		snprintf(buf, size, "port %u: %s", e->b,
			 rdmamsg__event_text((int)e->a));
		break;
	case EVENT_SILENT:
		snprintf(buf, size, "the peer's program is silent for %u ms",
			 e->a);
		break;
	case EVENT_HEARD:
		snprintf(buf, size, "the peer's program answers again");
		break;
	case EVENT_UNACKED:
		snprintf(buf, size, "%u requests without an acknowledgement "
			 "for %u ms", e->b, e->a);
		break;
	default:
		snprintf(buf, size, "event %u", (unsigned int)e->kind);
	}
}

static void move_text(const struct event *e, char *buf, size_t size)
{
	static const char *const texts[] = {
		[MOVE_ASKED] = "a move to another connection is asked",
		[MOVE_ASKED_PEER] = "the peer is asked to move",
		[MOVE_ASKED_BY_PEER] = "the peer asks to move",
		[MOVE_DONE] = "the move is done",
		[MOVE_FAILED] = "the move has failed",
	};

	if (e->a == MOVE_MIGRATES)
		snprintf(buf, size, "a migration to port %u is asked", e->b);
	else
		snprintf(buf, size, "%s", e->a <= MOVE_FAILED ? texts[e->a] :
			 "a move");
}

static void text_of(const struct recorder *r, const struct event *e, char *buf,
		    size_t size)
{
	switch (e->kind) {
	case EVENT_LANE:
	case EVENT_LOST:
	case EVENT_DOWN:
	case EVENT_TRY:
	case EVENT_TRY_FAILED:
	case EVENT_CARRIER:
	case EVENT_RESUMED:
		lane_text(r, e, buf, size);
		break;
	case EVENT_RESUME_SENT:
	case EVENT_RESUME_TAKEN:
	case EVENT_REPLAY:
	case EVENT_REPLAYED:
	case EVENT_NO_CREDIT:
	case EVENT_CREDIT:
		message_text(e, buf, size);
		break;
	case EVENT_CLOSE_SENT:
	case EVENT_CLOSE_TAKEN:
	case EVENT_DISCONNECT:
		close_text(e, buf, size);
		break;
	case EVENT_MOVE:
		move_text(e, buf, size);
		break;
	case EVENT_ENDS:
		memcpy(buf, "ends: ", 6);
		reason_text(e, buf + 6, size - 6);
		break;
	default:
		other_text(e, buf, size);
	}
}

void rdmamsg__recorder_print(const struct recorder *r,
			     void (*line)(void *arg, const char *text),
			     void *arg)
{
	uint64_t first = r->count > EVENTS_MAX ? r->count - EVENTS_MAX : 0;
	char text[LINE_MAX_LEN];

	for (uint64_t i = first; i != r->count; i++) {
		const struct event *e = &r->ring[i % EVENTS_MAX];
		int n = snprintf(text, sizeof(text), "%6llu.%03u s  ",
				 (unsigned long long)e->ms / 1000,
				 (unsigned int)(e->ms % 1000));

		text_of(r, e, text + n, sizeof(text) - (size_t)n);
		line(arg, text);
	}
}

/* public */

/* Counts the whole text, and writes the part that fits. */
struct output {
	char *buf;
	size_t size, len;
};

static void append(void *arg, const char *text)
{
	struct output *o = arg;
	size_t left = o->size > o->len ? o->size - o->len : 0;

	o->len += (size_t)snprintf(left ? o->buf + o->len : NULL, left, "%s\n",
				   text);
}

int rdmamsg_ep_history(const struct rdmamsg_ep *ep, char *buf, size_t size)
{
	struct output o = { buf, size, 0 };
	int ret = rdmamsg__ep_look(ep);

	if (ret)
		return ret;
	if (!buf && size)
		return rdmamsg__fail(-EINVAL, "rdmamsg_ep_history: buf is "
				     "NULL");
	if (size)
		*buf = 0;
	if (ep->recorder)
		rdmamsg__recorder_print(ep->recorder, append, &o);
	return (int)o.len;
}
