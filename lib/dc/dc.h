/* SPDX-License-Identifier: BSD-2-Clause */
/* Targets and senders over connections that the library makes on demand. */
#ifndef RDMAMSG_LIB_DC_DC_H
#define RDMAMSG_LIB_DC_DC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <rdmamsg/dc.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#include "base/handles.h"
#include "base/list.h"
#include "base/timer.h"
#include "wire/dc.h"

#define TARGET_SENDERS	65536u	/* default of max_senders */

/* The part of a context for targets and senders. */
struct dcs {
	struct list targets;
	struct list senders;
	struct list due_targets;	/* that have ended */
	struct list due_senders;	/* with work for the loop */
	struct timer again;		/* some have settled in this call */
	struct handles ports;		/* struct dc_port */
	struct rdmamsg *ctx;
};

struct rdmamsg_dc_target {
	struct rdmamsg *ctx;
	struct list node;		/* of the context */
	struct list due;
	struct rdmamsg_dc_target_options opts;
	struct rdmamsg_listener *listener;	/* NULL: ending */
	struct list links;		/* connections */
	struct list visitors;		/* sessions, see visitor.c */
	struct list tickets;		/* given, see ticket.c */
	struct door *door;		/* of tickets and sessions */
	struct dc_port *dc;		/* of them; NULL: none yet */
	uint32_t sessions;		/* visitors */
	uint32_t granted;		/* credits of all visitors */
	/* violations that devices have counted: the last that were seen */
	uint32_t seen_violations;
	uint32_t old_violations;	/* of ports that have failed */
	bool no_port;			/* the device has no DC */
	struct dev *dev;		/* that keys are of; NULL: none given */
	char *host;			/* NULL: any address */
	/* of this host, that the last request came to */
	struct sockaddr_storage asked;
	char *device;			/* of the options, or NULL */
	uint16_t port;
	bool armed;
	uint32_t connections;
	uint32_t object;		/* number in the context */
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
	bool asks;			/* for DC, before a connection */
	bool evicted;			/* closed for another address */
	uint64_t used;			/* 'uses' of the sender, at last */
};

enum dc_kind {
	DC_COPY,
	DC_BORROW,
	/* one-sided operations */
	DC_WRITE,
	DC_WRITE_IMM,
	DC_READ,
	DC_FETCH_ADD,
	DC_COMPARE_SWAP,
	DC_MASKED,
};

/* A one-sided operation. */
struct dc_op {
	enum dc_kind kind;
	int count;
	const struct rdmamsg_sge *entry;
	const struct rdmamsg_key *key;
	uint64_t offset;
	uint64_t operand, expected;
	const struct masked *masked;	/* DC_MASKED: else NULL */
	void *result;
	uint32_t value;
	uint32_t flags;
};

/*
 * A message or one-sided operation that waits for a connection, or for room in
 * its queue.
 */
struct dc_msg {
	struct list node;		/* of its address or session */
	void *cookie;
	struct dc_flight *flight;	/* of a session; or NULL */
	enum dc_kind kind;
	uint32_t tag;
	int iovcnt;
	size_t copied;			/* bytes of the program in here */
	union {
		struct iovec iov[RDMAMSG_SEGMENTS_MAX];	/* DC_BORROW */
		uint8_t data[1];	/* DC_COPY: 'copied' bytes */
		struct {		/* and gather entries behind */
			struct dc_op op;
			struct rdmamsg_key key;
		};
	};
};

struct rdmamsg_dc_address {
	struct rdmamsg_dc_sender *sender;
	struct initiator *initiator;	/* NULL: no connection */
	struct list node;		/* of the sender */
	struct dc_session *session;	/* NULL: none, see session.c */
	struct list waiting;		/* for an initiator; of the sender */
	struct list msgs;		/* struct dc_msg, in order */
	void *user;
	uint64_t access_key;
	uint32_t held;			/* by functions that use it */
	bool unused;			/* the program has destroyed it */
	bool leaves;			/* takes no more: unused, or shut down */
	bool connects;			/* its target has no DC for it */
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
	struct rdmamsg_ep_tuning tuning;	/* ep.tuning */
	struct list addresses;
	struct list waiting;		/* addresses, the first comes next */
	uint32_t wait_count;
	struct list initiators;
	uint32_t open;			/* initiators, in any state */
	uint32_t closing;		/* of them, evicted */
	struct list sessions;		/* struct dc_session */
	struct list ports;		/* struct dc_port, of the sessions */
	uint32_t session_count;
	bool told_sessions;		/* some have an order of the program */
	uint32_t address_count;
	uint32_t queued;		/* messages of all addresses */
	size_t copied;			/* bytes of them */
	size_t wanted;			/* bytes that found no room */
	bool ending;
	bool cut;			/* timeout_ms of the shutdown */
	bool want_writable;
	uint64_t round;			/* of the context, when it settled */
	uint64_t uses;
	uint64_t id;
	uint32_t object;		/* number in the context */
	uint64_t connects;
	uint64_t evictions;
};

/* way.c */
/* Returns true if the address wants DC before a connection. */
bool rdmamsg__dc_asks(const struct rdmamsg_dc_address *a);
/* Returns true if the target may offer DC to a sender that asks. */
bool rdmamsg__dc_offers(const struct rdmamsg_dc_target *t);

/* target.c */
/* Frees the target if it has ended. */
void rdmamsg__dc_target_settle(struct rdmamsg_dc_target *t);
/* Asks the sessions of a target to end. */
void rdmamsg__dc_target_leave(struct rdmamsg_dc_target *t);
/* Ends those soon that have not ended meanwhile. */
void rdmamsg__dc_target_cut(struct rdmamsg_dc_target *t);
void rdmamsg__dc_target_free(struct rdmamsg_dc_target *t);

/* sender.c */
void rdmamsg__dc_sender_due(struct rdmamsg_dc_sender *s);
void rdmamsg__dc_sender_settle(struct rdmamsg_dc_sender *s);
/* The context shuts down. Nothing of it is freed. */
void rdmamsg__dc_sender_leave(struct rdmamsg_dc_sender *s);
/* Cancels what has not left meanwhile. */
void rdmamsg__dc_sender_cut(struct rdmamsg_dc_sender *s);
bool rdmamsg__dc_sender_has_left(const struct rdmamsg_dc_sender *s);
void rdmamsg__dc_sender_free(struct rdmamsg_dc_sender *s);
void rdmamsg__dc_complete(struct rdmamsg_dc_address *a, void *cookie,
			  int status);

/* address.c */
/* Takes a message out of the queue of its address. */
void rdmamsg__dc_take_off(struct rdmamsg_dc_address *a, struct dc_msg *m);
void rdmamsg__dc_msg_free(struct dc_msg *m);
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
/* Returns 0 if a call with this name can use the address. */
int rdmamsg__dc_check(const struct rdmamsg_dc_address *a, const char *name);
/* Returns true if the address has a connection and no message waits for it. */
bool rdmamsg__dc_is_free(const struct rdmamsg_dc_address *a);
/*
 * Returns true if the connection has decided about the message, and sets the
 * text of an error. Otherwise the message waits for room, or for the next
 * connection.
 */
bool rdmamsg__dc_is_decided(struct rdmamsg_dc_address *a, int ret);
/* Returns true if the sender can keep one more message with this copy. */
bool rdmamsg__dc_has_room(const struct rdmamsg_dc_sender *s, size_t copied);
/*
 * Returns memory of 'size' bytes for a message that waits, of which 'copied'
 * are the program's, or an error in *ret.
 */
struct dc_msg *rdmamsg__dc_msg_new(struct rdmamsg_dc_sender *s, size_t size,
				   size_t copied, int *ret);
/*
 * Adds a message that is filled in. A session may take it at once, or refuse
 * it. Then it is freed.
 */
int rdmamsg__dc_add(struct rdmamsg_dc_address *a, struct dc_msg *m);
/* Returns the value of an endpoint's option, which is as the program set it. */
static inline uint32_t rdmamsg__dc_option(uint32_t option, uint32_t by_default,
					  uint32_t none)
{
	return option == RDMAMSG_NONE ? none : option ? option : by_default;
}

uint32_t rdmamsg__dc_max_copy(const struct rdmamsg_dc_sender *s);

/* rma.c */
/* Registers the regions if necessary, and calls the endpoint. */
int rdmamsg__dc_issue(struct rdmamsg_ep *ep, const struct dc_op *op,
		      void *cookie);
/* The waiting operation does not use its regions any more. */
void rdmamsg__dc_release(const struct dc_op *op);

/* initiator.c */
/* Makes connections for the addresses that wait. */
void rdmamsg__dc_connect(struct rdmamsg_dc_sender *s);
void rdmamsg__dc_close(struct initiator *i);
/* Ends the messages that wait, and then tells why. */
void rdmamsg__dc_fail(struct rdmamsg_dc_address *a, int status,
		      const struct rdmamsg_reason *why);
/* The same, for a context that shuts down and counts it. */
void rdmamsg__dc_lost(struct rdmamsg_dc_address *a, int status,
		      const struct rdmamsg_reason *why);

/* dcs.c */
/*
 * Checks the options of connections, if queue pairs of DC use them as well: a
 * connection checks its own. ep may be NULL. path: enum rdmamsg_dc_path.
 */
int rdmamsg__dc_options_check(const struct rdmamsg_ep_options *ep,
			      uint32_t path);
int rdmamsg__dcs_open(struct rdmamsg *ctx);
void rdmamsg__dcs_settle(struct rdmamsg *ctx);
void rdmamsg__dcs_close(struct rdmamsg *ctx);
/*
 * The context shuts down: messages that wait are sent, and all sessions end.
 * rdmamsg__dcs_cut() cancels what is left.
 */
void rdmamsg__dcs_leave(struct rdmamsg *ctx);
void rdmamsg__dcs_cut(struct rdmamsg *ctx);
bool rdmamsg__dcs_have_left(const struct rdmamsg *ctx);
/* Lets the loop settle soon. */
void rdmamsg__dcs_wake(struct rdmamsg *ctx);

static inline bool rdmamsg__dcs_due(const struct dcs *d)
{
	return !list_empty(&d->due_targets) || !list_empty(&d->due_senders);
}

/* address.c: sends the segments as one message, lent until on_complete. */
int rdmamsg__dc_sendv(struct rdmamsg_dc_address *a, const struct iovec *iov,
		      int iovcnt, uint32_t tag, void *cookie);

#endif
