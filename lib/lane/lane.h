/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane is one queue pair of an endpoint: the requests posted and completed,
 * and the queue pair's part of a device. A lane knows no message.
 */
#ifndef RDMAMSG_LIB_LANE_H
#define RDMAMSG_LIB_LANE_H

#include <stdbool.h>
#include <stdint.h>

#define RDMAMSG_FAST_TWINS	/* the library defines the layout */
#include <rdmamsg/fast.h>

#include <infiniband/verbs.h>

struct cq;
struct dev;
struct op;
struct pool;
struct rdmamsg_msg;
struct srq;
struct verbs_api;

/* A receive and its buffer. */
struct rx_slot {
	struct ibv_recv_wr wr;		/* first; chained in a circle */
	struct ibv_sge sge;
	struct rdmamsg_msg *msg;	/* NULL: the program has kept it */
};

struct send_queue {
	struct op **slots;		/* NULL: nobody to tell */
	uint32_t mask;
	uint32_t ops;			/* of slots, not NULL */
	uint32_t done;			/* requests completed, ever */
	uint32_t data;			/* that data may have outstanding */
	uint32_t total;			/* all that it can hold */
};

struct receive_queue {
	struct rx_slot *head;		/* completes next */
	struct rx_slot *slots;
	uint64_t posts;			/* receives posted, ever */
	int32_t spare;			/* posted receives above low */
	uint32_t target;		/* slots: recv_depth + RECV_RESERVE */
	uint32_t low;			/* fewer are worth a refill */
	uint32_t tail;			/* posted next */
	uint32_t holes;			/* slots without a buffer */
	bool lacks;			/* holes, for want of buffers */
};

#define READ_CHUNK	(1u << 20)	/* bytes of a request, at most */

struct lane;

/* What a lane reports to the session that it belongs to. */
struct lane_events {
	/* No completion will come for this operation. */
	void (*unposted)(struct lane *l, struct op *op);
	/* The device has refused a request: err is -errno. */
	void (*failed)(struct lane *l, int err, const char *what);
	/*
	 * Another buffer, for a receive whose own the program keeps. 'count' of
	 * them are wanted in all. NULL: none for now.
	 */
	struct rdmamsg_msg *(*buffer)(struct lane *l, uint32_t count);
	/*
	 * Attributes for a step of the queue pair, attr->qp_state, and their
	 * mask. Returns -errno and leaves a text if there are none any more.
	 */
	int (*attr)(struct lane *l, struct ibv_qp_attr *attr, int *mask);
};

struct lane {
	struct rdmamsg_hot_ep hot;	/* first: the inlines look here */

	/* hot */
	struct send_queue sq;
	struct receive_queue rq;
	struct srq *srq;		/* NULL: rq is its own */
	uint32_t share;			/* of the srq: credits to have out */
	uint32_t chunk;			/* bytes of a request, at most */

	/* cold */
	const struct lane_events *on;
	struct dev *dev;
	struct cq *cq;
	uint32_t cq_share;
	const struct verbs_api *v;	/* of its device, or the CM's id */
	struct pool *recv_pool;
	struct ibv_qp_cap cap;
	union ibv_gid gid;
	uint32_t peer_qp_num, mtu;
	uint8_t port;
	uint8_t resp_res, init_depth;
	bool failed;			/* the device reported an error */
	bool drained;			/* or nothing more is to be expected */
	bool last_wqe;			/* nothing more is taken from the srq */
	bool doubts_reads;		/* struct quirks */
	uint32_t doubted;		/* reads done, and not proven */
	char device_name[64];		/* once it is closed */
};

/* Requests posted and not completed. */
static inline uint32_t rdmamsg__sq_used(const struct lane *l)
{
	return (uint32_t)l->hot.sq_posted - l->sq.done;
}

/* The next request has completed. Returns its operation, or NULL. */
static inline struct op *rdmamsg__sq_take(struct lane *l)
{
	uint32_t slot = l->sq.done++ & l->sq.mask;
	struct op *op = l->sq.slots[slot];

	if (op) {
		l->sq.slots[slot] = NULL;
		l->sq.ops--;
	}
	return op;
}

static inline uint32_t rdmamsg__rq_posted(const struct lane *l)
{
	return (uint32_t)l->rq.spare + l->rq.low;
}

/* Receives completed, ever. */
static inline uint64_t rdmamsg__rx_count(const struct lane *l)
{
	return l->rq.posts - rdmamsg__rq_posted(l);
}

#endif
