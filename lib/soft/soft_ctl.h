/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fabric one can break: what rdmamsg-soft-ctl(1) and tests use. Every call
 * asks the nodes themselves, this process's own among them, and returns when
 * they have done it: 0 or -errno; -ENOENT when there is no such node.
 */
#ifndef SOFT_SOFT_CTL_H
#define SOFT_SOFT_CTL_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#define SOFT_CTL_ALL	UINT32_MAX	/* nodes; those to come included */
#define SOFT_CTL_PORTS	8

/*
 * Down is told, and nothing passes; armed likewise, with its own state. A black
 * hole is up to all who ask, and nothing passes.
 */
enum soft_port { SOFT_PORT_UP, SOFT_PORT_DOWN, SOFT_PORT_ARMED,
		 SOFT_PORT_BLACK_HOLE };

enum soft_object {
	SOFT_OBJ_CONTEXT, SOFT_OBJ_PD, SOFT_OBJ_MR, SOFT_OBJ_MW, SOFT_OBJ_CQ,
	SOFT_OBJ_CHANNEL, SOFT_OBJ_QP, SOFT_OBJ_SRQ, SOFT_OBJ_AH,
	SOFT_OBJ_XRCD, SOFT_OBJ_ID, SOFT_OBJECTS
};

struct soft_ctl_faults {
	uint32_t drop, delay;		/* millionths of the work requests */
	uint32_t duplicate, reorder;	/* of UC, UD and multicast */
	uint32_t delay_us;		/* at most 10 s */
	uint32_t seed;			/* the same one: the same requests */
};

struct soft_ctl_node {
	uint32_t node, ports, qps, contexts;
	int32_t pid;
	uint32_t absent;		/* removed */
	uint64_t guid;
	uint8_t port[SOFT_CTL_PORTS];	/* enum soft_port */
	struct soft_ctl_faults faults;
};

struct soft_ctl_qp {
	uint32_t qpn, peer;		/* numbers of queue pairs */
	uint8_t type, state, port, wired;
	uint32_t sends, recvs;		/* work requests in the queues */
	uint32_t retries;		/* left */
	uint8_t alt_port;		/* 0: no alternate path */
	uint8_t migration;		/* enum ibv_mig_state */
	uint16_t pad;
};

struct soft_ctl_group {
	uint8_t mgid[16];
	uint32_t members;		/* queue pairs of this node */
	uint32_t pad;
};

struct soft_ctl;

/* NULL: the fabric of the environment. -ENOENT: nobody is on it. */
int soft_ctl_open(const char *fabric, struct soft_ctl **ret);
void soft_ctl_close(struct soft_ctl *ctl);

/*
 * The first node from *node on, *node one behind it; -ENOENT: no more.
 * -ETIMEDOUT: it does not answer, since its process is stopped, say.
 */
int soft_ctl_next(struct soft_ctl *ctl, uint32_t *node,
		  struct soft_ctl_node *ret);
/* Up to max from *index on, *index behind them. The number of them. */
int soft_ctl_qps(struct soft_ctl *ctl, uint32_t node, uint32_t *index,
		 struct soft_ctl_qp *qps, int max);
/* Likewise, but at least 12 of room: a page is taken as a whole. */
int soft_ctl_groups(struct soft_ctl *ctl, uint32_t node, uint32_t *index,
		    struct soft_ctl_group *groups, int max);

int soft_ctl_port(struct soft_ctl *ctl, uint32_t node, uint8_t port,
		  enum soft_port state);	/* port 0: each */
int soft_ctl_faults(struct soft_ctl *ctl, uint32_t node,
		    const struct soft_ctl_faults *faults);
/* The nth from now fails with ENOMEM, once; 0: none. */
int soft_ctl_refuse(struct soft_ctl *ctl, uint32_t node, enum soft_object what,
		    uint32_t nth);
int soft_ctl_remove(struct soft_ctl *ctl, uint32_t node);
int soft_ctl_add(struct soft_ctl *ctl, uint32_t node);
/* element: the number of a queue pair (for its CQs and SRQ too) or a port. */
int soft_ctl_event(struct soft_ctl *ctl, uint32_t node,
		   enum ibv_event_type type, uint32_t element);

#endif
