/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The batch of a context: requests for one lane, put together and posted with
 * one doorbell.
 */
#ifndef RDMAMSG_LIB_BATCH_H
#define RDMAMSG_LIB_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#include "base/util.h"
#include "lane/lane.h"
#include "wire/proto.h"

#define TX_BATCH	16
#define TX_STAGE	512	/* inline payload that a batch can hold */

struct tx_batch {
	struct lane *lane;	/* NULL: none */
	struct tx_entry *next;
	bool signal;		/* somebody waits for one of them */
	bool odd;		/* one is no inline message */
	struct tx_entry {
		struct ibv_send_wr wr;	/* first */
		struct ibv_sge sge;
		struct proto_hdr hdr;	/* and, in one piece */
		union {
			uint8_t data[TX_STAGE];
			/* one-sided */
			struct ibv_sge sges[RDMAMSG_SEGMENTS_MAX];
		};
	} entries[TX_BATCH];
};

void rdmamsg__batch_init(struct tx_batch *b);
/*
 * Posts the entries; there is one at least. If the device refuses one, the lane
 * tells which operations were not posted, and that it has failed.
 */
void rdmamsg__batch_post(struct tx_batch *b);

/* Whether the next entry can be of this lane. */
static inline bool rdmamsg__batch_takes(const struct tx_batch *b,
					const struct lane *l)
{
	return likely(b->lane == l) &&
	       likely(b->next != b->entries + TX_BATCH);
}

/* The next entry, of a lane that it takes. */
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
