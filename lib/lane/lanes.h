/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of a context that lanes share. */
#ifndef RDMAMSG_LIB_LANES_H
#define RDMAMSG_LIB_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#include "base/list.h"
#include "wire/proto.h"

#define TX_BATCH	16
#define TX_STAGE	512	/* inline payload that a batch can hold */
#define SRQ_PARTS	128	/* of one context */

/* Requests being put together for one endpoint, posted as a chain. */
struct tx_batch {
	struct rdmamsg_ep *ep;	/* NULL: none */
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

struct lanes {
	struct list srq_list;		/* struct rdmamsg_srq */
	struct rdmamsg_srq *srq;	/* of endpoints that have no other */
	struct srq *srqs[SRQ_PARTS];	/* by index in their wr_id */
	uint32_t srq_hint;
	struct tx_batch tx;
};

#endif
