/* SPDX-License-Identifier: BSD-2-Clause */
/* The batch of a context: requests for one lane, posted with one doorbell. */
#ifndef RDMAMSG_LIB_BATCH_H
#define RDMAMSG_LIB_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#include "base/masked.h"
#include "base/util.h"
#include "lane/lane.h"
#include "wire/proto.h"

#define TX_BATCH	16
#define TX_STAGE	512	/* inline payload of an entry, bytes */

struct tx_batch {
	struct lane *lane;	/* NULL: the batch is empty */
	struct tx_entry *next;
	bool signal;		/* a completion is wanted */
	bool odd;		/* an entry is no inline message */
	struct tx_entry {
		struct ibv_send_wr wr;	/* first */
		struct ibv_sge sge;
		struct proto_hdr hdr;	/* contiguous with data */
		union {
			uint8_t data[TX_STAGE];
			/* one-sided, and reads of messages */
			struct ibv_sge sges[RDMAMSG_SEGMENTS_MAX];
		};
	} entries[TX_BATCH];
};

void rdmamsg__batch_init(struct tx_batch *b);
/*
 * Posts the entries, at least one. If the device refuses an entry, calls
 * lane_events.unposted() for each operation that was not posted, and then
 * lane_events.failed().
 */
void rdmamsg__batch_post(struct tx_batch *b);

/*
 * Posts a masked atomic for op, behind a batch that is empty. If the device
 * refuses it, calls the same functions of lane_events.
 */
void rdmamsg__lane_masked(struct lane *l, struct op *op, struct ibv_send_wr *wr,
			  const struct masked *m);

/* Returns true if the batch takes another entry of this lane. */
static inline bool rdmamsg__batch_takes(const struct tx_batch *b,
					const struct lane *l)
{
	return likely(b->lane == l) &&
	       likely(b->next != b->entries + TX_BATCH);
}

/* Adds an entry. rdmamsg__batch_takes() must be true. */
static inline struct tx_entry *rdmamsg__batch_add(struct tx_batch *b,
						  struct lane *l)
{
	struct rdmamsg_hot_ep *h = &l->hot;
	struct tx_entry *e = b->next++;

	e->wr.wr_id = h->wr_id | (h->sq_posted & 0x7fffffffu);
	h->sq_posted++;
	return e;
}

#endif
