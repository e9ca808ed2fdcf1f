/* SPDX-License-Identifier: BSD-2-Clause */
/* Wires: a pair of rings and a socket between two nodes. */
#ifndef SOFT_WIRE_H
#define SOFT_WIRE_H

/* What was committed: nothing, what can wait, what its reader wants to know. */
enum { SOFT_CLEAN, SOFT_QUIET, SOFT_NEWS };

/* The other process's end, or our own. */
struct soft_wire {
	struct list node;		/* dev->wires */
	struct soft_watch sock;		/* fd -1: to ourselves */
	uint32_t peer;			/* its node number */
	bool known;			/* the peer has said who it is */
	bool mine;			/* we made it */
	uint8_t dirty;			/* doorbell not yet considered for it */
	bool eaten;			/* consumed, likewise */
	bool dead;
	struct soft_ring tx, rx;
	int bell;			/* the peer's, -1: not known yet */
	int refs;			/* queue pairs and CM ids */
	/* vm.c */
	pid_t pid;			/* of the peer */
	bool shows, fetches;		/* until that is refused */
	uint32_t turn;			/* large messages so far */
	uint32_t landed;		/* large segments */
	uint32_t push_cost, fetch_cost;	/* ns for a segment; 0: not known */
	uint64_t fetched;		/* bytes */
	uint64_t full_since;		/* ns; 0: there was room */
	struct list outbox;		/* messages: its socket had no room */
	uint32_t letters;		/* in it */
	/* requests to queue pairs we do not have: to be told as lost */
	struct soft_lost { uint32_t dst, src, psn; uint8_t aux; } *lost;
	uint32_t lost_count, lost_room;
};

/* Messages on the sockets between nodes: fixed size, numbers of this host. */
enum soft_msg_type {
	SOFT_MSG_HELLO = 1,		/* with the rings and our doorbell */
	SOFT_MSG_WELCOME,		/* with a doorbell */
	SOFT_MSG_FABRIC_ASK,
	SOFT_MSG_FABRIC,		/* with the fabric's memory */
	SOFT_MSG_LOOKUP,		/* who listens: sent upon connecting */
	SOFT_MSG_REQ,			/* from here on: CM, see cm.h */
	SOFT_MSG_REP,
	SOFT_MSG_RTU,
	SOFT_MSG_REJ,
	SOFT_MSG_BUSY,
	SOFT_MSG_DREQ,
	SOFT_MSG_DREP,
	SOFT_MSG_CTL,			/* struct soft_ctl_msg, soft_ctl.h */
	SOFT_MSG_CTL_DONE,
};
#define SOFT_MSG_MAGIC	0x5051u
#define SOFT_MSG_MAX	512

struct soft_msg {
	uint16_t magic;
	uint16_t type;
	uint32_t node;			/* who sends */
	uint32_t to, from;		/* CM ids */
};

/* Answered on the same socket, which need not be a wire's. */
enum soft_ctl_op {
	SOFT_CTL_NODE = 1, SOFT_CTL_QPS, SOFT_CTL_PORT, SOFT_CTL_FAULTS,
	SOFT_CTL_REFUSE, SOFT_CTL_REMOVE, SOFT_CTL_ADD, SOFT_CTL_EVENT,
	SOFT_CTL_GROUPS,
};
#define SOFT_CTL_PAGE	12		/* queue pairs of one answer */

struct soft_ctl_msg {
	struct soft_msg hdr;
	uint32_t op;
	int32_t result;			/* of the answer: 0 or -errno */
	uint32_t arg[3];
	uint32_t fresh;			/* new nodes are to have it as well */
	union {
		struct soft_ctl_faults faults;
		struct soft_ctl_node node;
		struct soft_ctl_qp qps[SOFT_CTL_PAGE];
		struct soft_ctl_group groups[SOFT_CTL_PAGE];
	};
};
_Static_assert(sizeof(struct soft_ctl_msg) <= SOFT_MSG_MAX, "one datagram");

int soft_msg_send(int fd, const void *msg, size_t len, const int *fds, int n);
/* Bytes, 0 at the end, -errno. Descriptors come close-on-exec; fds are -1. */
int soft_msg_recv(int fd, void *buf, size_t size, int *fds, int n);

/* The wire to a node, made if need be; a reference. L */
int soft_wire_get(struct soft_dev *dev, uint32_t node, struct soft_wire **ret);
void soft_wire_hold(struct soft_wire *w);
void soft_wire_put(struct soft_dev *dev, struct soft_wire *w);
void soft_wire_down(struct soft_dev *dev, struct soft_wire *w);	/* L */
int soft_wire_send(struct soft_dev *dev, struct soft_wire *w,
		   const struct soft_msg *msg, size_t len);
void soft_wires_close(struct soft_dev *dev);
void soft_bells(struct soft_dev *dev);
void soft_ring_bell(int fd);
void soft_accept(struct soft_dev *dev, struct soft_watch *w, uint32_t events);

#endif
