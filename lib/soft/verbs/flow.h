/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Steering of Ethernet frames. A frame goes to the nodes that have a flow for
 * its destination. The table of multicast groups tells which nodes those are:
 * an address is entered there as a group of its own, and a flow that names no
 * address as the group of all frames. Each node compares the other fields.
 */
#ifndef SOFT_VERBS_FLOW_H
#define SOFT_VERBS_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/list.h"
#include "soft/fabric/frame.h"
#include "soft/fabric/limits.h"

struct soft_dev;
struct soft_group;
struct soft_qp;
struct soft_swqe;

struct soft_flow {
	struct ibv_flow ibv;
	struct list node;		/* dev->flows, sorted by priority */
	struct soft_qp *qp;
	struct soft_group *group;
	enum ibv_flow_attr_type type;
	uint16_t priority;
	uint8_t port;
	uint8_t count;			/* of specs */
	uint32_t bytes;			/* of specs */
	uint8_t specs[];		/* as the program has written them */
};

/* The sending side of a raw queue pair: the nodes for one address. */
struct soft_raw {
	bool known;			/* at `epoch` */
	uint32_t epoch;
	uint8_t mac[FRAME_MAC];
	uint64_t members[SOFT_NODES / 64];
	uint32_t max_header;		/* of TSO */
	uint8_t *headers;		/* of entries of the send queue */
};

#define SOFT_MAX_TSO		65536u	/* payload of a request */
#define SOFT_MAX_TSO_HEADER	256u

/* tso.c */
/* Adds the sending side to a queue pair. Returns 0 or an errno. */
int soft_raw_init(struct soft_qp *qp, uint32_t max_header);
void soft_raw_free(struct soft_raw *raw);
/* Takes the header of a request, and the payload of its segments. */
int soft_tso_take(struct soft_qp *qp, struct soft_swqe *wqe, const void *header,
		  uint16_t size, uint16_t mss);
uint8_t *soft_tso_header(const struct soft_qp *qp, const struct soft_swqe *wqe);

/* flow.c. All L */
/* Brings raw->members up to date for the destination of a frame. */
void soft_flow_members(struct soft_dev *dev, struct soft_raw *raw,
		       const uint8_t mac[FRAME_MAC]);
/*
 * Calls take() for each flow that gets the frame. take() must not change flows.
 */
void soft_flow_match(struct soft_dev *dev, const uint8_t *frame, uint32_t len,
		     void (*take)(struct soft_dev *dev,
				  const struct soft_flow *flow,
				  const uint8_t *frame, uint32_t len));

#endif
