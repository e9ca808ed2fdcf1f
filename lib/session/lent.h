/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much of this context's memory the messages of one peer take: large ones
 * that are being read, and all that the program holds. It bounds what one peer
 * can make the context keep:
 *
 *   bytes <= max_lent + own, and bytes <= room + own
 *
 * unless it is a single message. 'room' is what is left of the budget for all
 * others. 'own' is memory that the endpoint is entitled to for posted receives
 * and does not have, because the program keeps the messages in it. Posted
 * receives, and messages that wait for their turn with their credit, are
 * bounded by recv_depth and do not count. The record outlives the endpoint, as
 * its messages do. All endpoints with peers of one address have a bound as
 * well, see account.h.
 *
 * Messages of the peer that the program passes on count in 'sent' until their
 * operation ends, with a bound of the same size. They stop the program's next
 * rdmamsg_msg_send() and never the arrival of messages: else two peers that
 * pass on to each other would wait for each other.
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
	uint32_t refs;			/* the endpoint, and messages */
	bool wanted;			/* the endpoint waits for some of it */
	size_t bytes, sent;
	size_t max;			/* max_lent of the endpoint */
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;		/* NULL: it has ended */
	struct account *account;	/* of the peer's address, or NULL */
};

int rdmamsg__lent_new(struct rdmamsg_ep *ep);
void rdmamsg__lent_end(struct rdmamsg_ep *ep);
/* The context ends, and with it the messages that are still lent. */
void rdmamsg__lents_free(struct rdmamsg *ctx);
/*
 * Whether the peer's messages may take so much more. If not, the endpoint is
 * touched when that may have changed.
 */
bool rdmamsg__lent_allows(struct rdmamsg_ep *ep, size_t size, size_t own);
void rdmamsg__lent_put(struct lent *l, size_t size);
/*
 * Whether the program may pass on one more message. If not, memory that comes
 * back is a reason to ask again.
 */
bool rdmamsg__lent_passes(const struct rdmamsg_msg *msg);
/* The program passes on so much, and the operation with it has ended. */
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

/* Bytes of this context's memory that a message takes. */
static inline size_t rdmamsg__msg_bytes(const struct rdmamsg_msg *msg)
{
	return msg->kind == MSG_USER ? 0 : msg->room;
}

/*
 * A message goes to the program, and comes back: for sending, or to us. 'by'
 * is the record of the peer that sent it, where its bytes are counted already.
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

/* The operation that it was passed to is over, or it was ours. */
static inline void rdmamsg__msg_done(struct rdmamsg_msg *msg)
{
	if (unlikely(msg->lent == MSG_SENT)) {
		msg->lent = MSG_OURS;
		rdmamsg__lent_sent(msg->lent_by, rdmamsg__msg_bytes(msg));
	}
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
