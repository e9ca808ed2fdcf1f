/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shows the nodes of a fabric and injects faults, for rdmamsg-soft-ctl(1) and
 * tests. Every call sends an order to the nodes, including the node of this
 * process, and waits until they have executed it. Calls return 0 or -errno, and
 * -ENOENT if there is no such node.
 */
#ifndef SOFT_CONTROL_SOFT_CTL_H
#define SOFT_CONTROL_SOFT_CTL_H

#include <netinet/in.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "soft/fabric/fault.h"
#include "soft/fabric/gid.h"
#include "soft/fabric/limits.h"
#include "soft/fabric/path.h"

#define SOFT_CTL_ALL	UINT32_MAX	/* all nodes, and later ones */
#define SOFT_CTL_PORTS	SOFT_PORTS_MAX

struct soft_ctl_faults {
	uint32_t drop, delay;		/* millionths of the work requests */
	uint32_t duplicate, reorder;	/* of UC, UD, multicast */
	uint32_t delay_us;		/* at most 10 s */
	uint32_t seed;			/* repeats the same decisions */
};

struct soft_ctl_node {
	uint32_t node, ports, qps, contexts;
	int32_t pid;
	uint32_t absent;		/* the device is removed */
	uint64_t guid;
	uint8_t port[SOFT_CTL_PORTS];	/* enum soft_port */
	struct soft_ctl_faults faults;
	struct soft_rnr rnr;		/* since the device was opened */
	uint32_t pds, mrs, cqs, srqs, cm_ids;
	uint32_t on_network;		/* has the socket of RoCE v2 */
	struct soft_packets packets;
};

struct soft_ctl_qp {
	uint32_t qpn, peer;		/* queue pair numbers */
	uint8_t type, state, port, wired;
	uint32_t sends, recvs;		/* work requests in the queues */
	uint32_t retries;		/* left */
	uint8_t alt_port;		/* 0: no alternate path */
	uint8_t migration;		/* enum ibv_mig_state */
	uint16_t pad;
	uint32_t rnr_sent, rnr_received;
	uint32_t sq_psn, rq_psn;	/* of the next request */
	uint32_t window;		/* packets; 0: no far peer */
	uint32_t rtt;			/* us; 0: unknown */
};

struct soft_ctl_group {
	uint8_t mgid[16];
	uint32_t members;		/* queue pairs of this node */
	uint32_t pad;
};

/* Objects of a node that rdma(8) lists beside its queue pairs. */
enum soft_ctl_kind { SOFT_CTL_PD, SOFT_CTL_CQ, SOFT_CTL_MR, SOFT_CTL_CM_ID,
		     SOFT_CTL_CTX, SOFT_CTL_SRQ, SOFT_CTL_KINDS };

struct soft_ctl_object {
	uint32_t num, ctx;		/* numbers of the object and context */
	uint32_t pd, cq;		/* numbers of those it uses, or 0 */
	uint32_t users, entries;	/* entries: of a completion queue */
	uint32_t key;			/* of a region */
	uint32_t qpn;			/* peer of a CM id, or 0 */
	uint64_t len;			/* of a region */
	uint16_t ps;			/* of a CM id: enum rdma_port_space */
	uint8_t type;			/* enum ibv_qp_type, ibv_srq_type */
	uint8_t state;			/* enum rdma_cm_state of Linux */
	uint8_t port, pad[3];		/* port: of a CM id, or 0 */
	struct sockaddr_in6 src, dst;	/* or sockaddr_in, or family 0 */
};

struct soft_ctl;

/* NULL: the fabric in RDMAMSG_SOFT_FABRIC. -ENOENT: it has no node. */
int soft_ctl_open(const char *fabric, struct soft_ctl **ret);
void soft_ctl_close(struct soft_ctl *ctl);

/*
 * Returns the first node with a number >= *node and sets *node behind it.
 * Returns -ENOENT after the last node, and -ETIMEDOUT if the node does not
 * answer, for example because its process is stopped.
 */
int soft_ctl_next(struct soft_ctl *ctl, uint32_t *node,
		  struct soft_ctl_node *ret);
/* Lists up to max from *index on, sets *index behind them, returns how many. */
int soft_ctl_qps(struct soft_ctl *ctl, uint32_t node, uint32_t *index,
		 struct soft_ctl_qp *qps, int max);
/*
 * Likewise, from number *next on, first 1. max must be 4 or more. *next is 0
 * behind the last object, and the next call returns 0.
 */
int soft_ctl_objects(struct soft_ctl *ctl, uint32_t node,
		     enum soft_ctl_kind kind, uint32_t *next,
		     struct soft_ctl_object *objects, int max);
/* As soft_ctl_qps(); max must be 8 or more, because pages are not split. */
int soft_ctl_groups(struct soft_ctl *ctl, uint32_t node, uint32_t *index,
		    struct soft_ctl_group *groups, int max);

/* The counts of a queue pair of this process, or (NULL) of all together. */
void soft_rnr_naks(struct ibv_context *verbs, struct ibv_qp *qp,
		   struct soft_rnr *ret);

int soft_ctl_port(struct soft_ctl *ctl, uint32_t node, uint8_t port,
		  enum soft_port state);	/* port 0: each */
int soft_ctl_faults(struct soft_ctl *ctl, uint32_t node,
		    const struct soft_ctl_faults *faults);
/* The nth creation from now fails once with ENOMEM; 0: none. */
int soft_ctl_refuse(struct soft_ctl *ctl, uint32_t node, enum soft_object what,
		    uint32_t nth);
int soft_ctl_remove(struct soft_ctl *ctl, uint32_t node);
int soft_ctl_add(struct soft_ctl *ctl, uint32_t node);
/*
 * Sets an attribute of a port, 0: the default, and raises the event that tells.
 * -EOPNOTSUPP: the link layer has none; -EADDRINUSE: the LID is taken.
 */
int soft_ctl_set(struct soft_ctl *ctl, uint32_t node, enum soft_attr what,
		 uint8_t port, uint64_t value);
/* element: queue pair number, also for its CQs and SRQ, or port. */
int soft_ctl_event(struct soft_ctl *ctl, uint32_t node,
		   enum ibv_event_type type, uint32_t element);

#endif
