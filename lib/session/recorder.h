/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last events of an endpoint with failover: states, lanes, paths, credits,
 * and the steps of its end. rdmamsg_dump() and rdmamsg_ep_history() print them.
 * Nothing that happens for each message is an event.
 */
#ifndef RDMAMSG_LIB_RECORDER_H
#define RDMAMSG_LIB_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include <rdmamsg/rdmamsg.h>

#define EVENTS_MAX	64
#define EVENT_DEVICES	4		/* names; later devices have none */

enum event_kind {		/* its two values */
	EVENT_STATE = 1,	/* enum ep_state */
	EVENT_LANE,		/* device, port: the first lane */
	EVENT_LOST,		/* reason and device */
	EVENT_DOWN,		/* ms since the loss: the lane is freed */
	EVENT_TRY,		/* number, target of targets.c */
	EVENT_TRY_FAILED,	/* reason */
	EVENT_CARRIER,		/* device: another lane is connected */
	EVENT_RESUME_SENT,	/* next message expected, rendezvous out */
	EVENT_RESUME_TAKEN,	/* next message the peer expects */
	EVENT_RESUMED,		/* device, ms since the loss */
	EVENT_REPLAY,		/* first message, count */
	EVENT_REPLAYED,		/* next message */
	EVENT_PATH,		/* enum rdmamsg_path_change, alternate port */
	EVENT_PORT,		/* enum ibv_event_type, port */
	EVENT_NO_CREDIT,	/* next message */
	EVENT_CREDIT,		/* messages below this one may be sent */
	EVENT_SILENT,		/* ms: the peer's program */
	EVENT_HEARD,
	EVENT_UNACKED,		/* ms, requests */
	EVENT_CLOSE_SENT,	/* 1: it confirms the peer's CLOSE */
	EVENT_CLOSE_TAKEN,	/* 1: it confirms our CLOSE */
	EVENT_DISCONNECT,	/* 1: by the peer */
	EVENT_MOVE,		/* enum move_event, port */
	EVENT_ENDS,		/* reason */
};

/* Of a planned move. */
enum move_event {
	MOVE_ASKED,		/* by the program */
	MOVE_ASKED_PEER,	/* the program asked, and the peer will dial */
	MOVE_ASKED_BY_PEER,
	MOVE_MIGRATES,		/* to the port of the alternate path */
	MOVE_DONE,
	MOVE_FAILED,
};

struct event {
	uint64_t ms : 48;	/* since the endpoint was made */
	uint64_t kind : 16;
	uint32_t a, b;
};

_Static_assert(sizeof(struct event) == 16, "64 of them in 1 KB");

struct recorder {
	uint64_t since;		/* ms, the endpoint was made */
	uint64_t count;		/* events so far */
	struct event ring[EVENTS_MAX];
	bool no_credit;		/* EVENT_NO_CREDIT was the last of the two */
	uint32_t limit;		/* of credits at the last tick */
	char devices[EVENT_DEVICES][64];
};

/* Returns NULL if there is no memory. */
struct recorder *rdmamsg__recorder_new(void);
void rdmamsg__recorder_free(struct recorder *r);

/* Adds an event. r may be NULL. */
void rdmamsg__record(struct recorder *r, enum event_kind kind, uint32_t a,
		     uint32_t b);
/* Its first value is the device. */
void rdmamsg__record_device(struct recorder *r, enum event_kind kind,
			    const char *device, uint32_t b);
/* Its values are the reason and a device, or NULL. */
void rdmamsg__record_reason(struct recorder *r, enum event_kind kind,
			    const struct rdmamsg_reason *why,
			    const char *device);
/*
 * Adds an event when sends have waited for credit since the last call, and when
 * there is credit again. 'limit' is that of the credits, 'number' the next
 * message.
 */
void rdmamsg__record_credit(struct recorder *r, bool waits, uint32_t limit,
			    uint32_t number);

/* Calls line() for each event, the oldest first. */
void rdmamsg__recorder_print(const struct recorder *r,
			     void (*line)(void *arg, const char *text),
			     void *arg);

#endif
