/* SPDX-License-Identifier: BSD-2-Clause */
/* Targets and senders over connections that the library makes on demand. */
#ifndef RDMAMSG_LIB_DC_DC_H
#define RDMAMSG_LIB_DC_DC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/rdmamsg.h>

#include "base/list.h"
#include "base/timer.h"
#include "wire/dc.h"

/* The part of a context for targets and senders. */
struct dcs {
	struct list targets;
	struct list senders;
	struct list due_targets;	/* that have ended */
	struct list due_senders;	/* with work for the loop */
	struct timer again;		/* some have settled in this call */
	struct rdmamsg *ctx;
};

struct rdmamsg_dc_target {
	struct rdmamsg *ctx;
	struct list node;		/* of the context */
	struct list due;
	struct rdmamsg_dc_target_options opts;
	struct rdmamsg_listener *listener;	/* NULL: ending */
	struct list links;		/* connections */
	uint16_t port;
	bool armed;
	uint32_t connections;
	uint64_t violations;
	uint64_t messages;
};

enum initiator_state {
	INITIATOR_CONNECTING,
	INITIATOR_OPEN,
	INITIATOR_CLOSING,		/* until on_closed */
};

/* A connection of a sender. */
struct initiator {
	struct list node;		/* of the sender */
	struct rdmamsg_dc_address *address;
	struct rdmamsg_ep *ep;
	enum initiator_state state;
	bool evicted;			/* closed for another address */
	uint64_t used;			/* 'uses' of the sender, at last */
};

/* A message that waits for a connection, or for room in its queue. */
struct dc_msg {
	struct list node;		/* of its address */
	void *cookie;
	uint32_t tag;
	int iovcnt;			/* -1: 'data' is a copy */
	size_t len;
	union {
		struct iovec iov[RDMAMSG_SEGMENTS_MAX];
		uint8_t data[1];	/* len bytes */
	};
};

struct rdmamsg_dc_address {
	struct rdmamsg_dc_sender *sender;
	struct initiator *initiator;	/* NULL: no connection */
	struct list node;		/* of the sender */
	struct list waiting;		/* for an initiator; of the sender */
	struct list msgs;		/* struct dc_msg, in order */
	void *user;
	uint64_t access_key;
	uint32_t held;			/* by functions that use it */
	bool unused;			/* the program has destroyed it */
	const char *service;		/* in 'host', behind its end */
	char host[];
};

/* 10,000 of these, with names of 60 bytes, take less than 256 bytes each. */
_Static_assert(sizeof(struct rdmamsg_dc_address) <= 128, "small");

struct rdmamsg_dc_sender {
	struct rdmamsg *ctx;
	struct list node;		/* of the context */
	struct list due;
	struct rdmamsg_dc_sender_options opts;
	struct rdmamsg_ep_options ep;
	struct list addresses;
	struct list waiting;		/* addresses, the first comes next */
	uint32_t wait_count;
	struct list initiators;
	uint32_t open;			/* initiators, in any state */
	uint32_t closing;		/* of them, evicted */
	uint32_t address_count;
	uint32_t queued;		/* messages of all addresses */
	bool ending;
	bool want_writable;
	uint64_t round;			/* of the context, when it settled */
	uint64_t uses;
	uint64_t id;
	uint64_t connects;
	uint64_t evictions;
};

/* target.c */
void rdmamsg__dc_target_free(struct rdmamsg_dc_target *t);

/* sender.c */
void rdmamsg__dc_sender_due(struct rdmamsg_dc_sender *s);
void rdmamsg__dc_sender_settle(struct rdmamsg_dc_sender *s);
void rdmamsg__dc_sender_free(struct rdmamsg_dc_sender *s);
void rdmamsg__dc_complete(struct rdmamsg_dc_address *a, void *cookie,
			  int status);

/* address.c */
/* Hands messages over to the connection, as many as it takes. */
void rdmamsg__dc_pump(struct rdmamsg_dc_address *a);
/* Ends all messages that wait. */
void rdmamsg__dc_cancel(struct rdmamsg_dc_address *a, int status);
/* Puts the address at the end of the row. */
void rdmamsg__dc_wait(struct rdmamsg_dc_address *a);
/* Takes the first address off the row, which is not empty. */
struct rdmamsg_dc_address *rdmamsg__dc_unwait(struct rdmamsg_dc_sender *s);
/* Frees an address that nobody needs any more. */
void rdmamsg__dc_address_put(struct rdmamsg_dc_address *a);

/* initiator.c */
/* Makes connections for the addresses that wait. */
void rdmamsg__dc_connect(struct rdmamsg_dc_sender *s);
void rdmamsg__dc_close(struct initiator *i);

/* dcs.c */
int rdmamsg__dcs_open(struct rdmamsg *ctx);
void rdmamsg__dcs_settle(struct rdmamsg *ctx);
void rdmamsg__dcs_close(struct rdmamsg *ctx);
/* Lets the loop settle soon. */
void rdmamsg__dcs_wake(struct rdmamsg *ctx);

static inline bool rdmamsg__dcs_due(const struct dcs *d)
{
	return !list_empty(&d->due_targets) || !list_empty(&d->due_senders);
}

#endif
