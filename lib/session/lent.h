/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A struct lent counts the context's memory that the messages of one peer use:
 * large messages that are being read, and all messages that the program has.
 * The library takes another message only if afterwards
 *
 *   bytes <= max_lent + own, and bytes <= room + own
 *
 * or if it is the only message. 'room' is what the budget has left for all
 * others. 'own' is memory that the endpoint lacks for its posted receives,
 * because the program keeps messages in that memory. Posted receives do not
 * count, nor do messages that wait behind a large message: recv_depth bounds
 * both. A struct lent outlives its endpoint, because messages do. All endpoints
 * with peers of one address together have a bound as well, see account.h.
 *
 * If the program passes on a message of the peer with rdmamsg_msg_send(), the
 * message counts in 'sent' until its operation ends. The bound is
 * sent <= max_lent, unless it is the only message. Beyond the bound
 * rdmamsg_msg_send() returns -EAGAIN, but messages still arrive. Otherwise two
 * peers that pass on to each other could deadlock.
 */
#ifndef RDMAMSG_LIB_LENT_H
#define RDMAMSG_LIB_LENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#include "base/list.h"
#include "device/device.h"
#include "memory/pool.h"
#include "memory/account.h"

struct lent {
	struct list node;		/* of the context */
	uint32_t refs;			/* the endpoint and its messages */
	bool wanted;			/* the endpoint waits for memory */
	size_t bytes, sent;
	size_t max;			/* max_lent of the endpoint */
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;		/* NULL: the endpoint has ended */
	struct account *account;	/* of the peer's address, or NULL */
};

int rdmamsg__lent_new(struct rdmamsg_ep *ep);
void rdmamsg__lent_end(struct rdmamsg_ep *ep);
/* The context ends. Messages that are still lent become invalid. */
void rdmamsg__lents_free(struct rdmamsg *ctx);
/*
 * Returns true if the peer's messages may take 'size' more bytes. Otherwise the
 * endpoint is touched when that may have changed.
 */
bool rdmamsg__lent_allows(struct rdmamsg_ep *ep, size_t size, size_t own);
void rdmamsg__lent_put(struct lent *l, size_t size);
/*
 * Returns true if the program may pass on a message of 'size' bytes. Otherwise
 * the program can try again when memory has come back. 'l' may be NULL.
 */
bool rdmamsg__lent_passes(const struct lent *l, size_t size);
/* The program passes on 'size' bytes; the operation with them has ended. */
void rdmamsg__lent_pass(struct lent *l, size_t size);
void rdmamsg__lent_sent(struct lent *l, size_t size);

static inline void rdmamsg__lent_add(struct lent *l, size_t size)
{
	l->bytes += size;
	if (l->account)
		l->account->lent += size;
}

static inline void rdmamsg__lent_sub(struct lent *l, size_t size)
{
	l->bytes -= size;
	if (l->account)
		l->account->lent -= size;
}

/* Returns the bytes of the context's memory that a message uses. */
static inline size_t rdmamsg__msg_bytes(const struct rdmamsg_msg *msg)
{
	return msg->kind == MSG_USER ? 0 : msg->room;
}

/*
 * rdmamsg__msg_lend() gives a message to the program. 'by' is the struct lent
 * of the peer that sent the message, which counts its bytes already, or NULL.
 * The message comes back with rdmamsg__msg_pass() to be sent, or with
 * rdmamsg__msg_back().
 */
static inline void rdmamsg__msg_lend(struct rdmamsg_msg *msg, struct lent *by)
{
	msg->lent = MSG_LENT;
	msg->lent_by = by;
	msg->dev->msgs_out++;
}

static inline void rdmamsg__msg_pass(struct rdmamsg_msg *msg)
{
	if (msg->lent == MSG_IN_PLACE) {
		msg->lent = MSG_PASSED;
		return;
	}
	msg->lent = msg->lent_by ? MSG_SENT : MSG_OURS;
	if (msg->lent_by)
		rdmamsg__lent_pass(msg->lent_by, rdmamsg__msg_bytes(msg));
	if (unlikely(!--msg->dev->msgs_out && !msg->dev->device))
		rdmamsg__reap(msg->dev->ctx);
}

/* The same for a message that is MSG_SENT or MSG_SHARED. */
void rdmamsg__sent_done(struct rdmamsg_msg *msg);
/* The operation with msg has ended. Frees msg. */
static inline void rdmamsg__msg_done(struct rdmamsg_msg *msg)
{
	if (unlikely(msg->lent >= MSG_SENT))
		rdmamsg__sent_done(msg);
	else
		rdmamsg__msg_put(msg);
}

static inline void rdmamsg__msg_back(struct rdmamsg_msg *msg)
{
	msg->lent = MSG_OURS;
	if (msg->lent_by)
		rdmamsg__lent_put(msg->lent_by, rdmamsg__msg_bytes(msg));
	if (unlikely(!--msg->dev->msgs_out && !msg->dev->device))
		rdmamsg__reap(msg->dev->ctx);
}

#endif
