/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane is one queue pair of an endpoint, with its posted and completed
 * requests. A lane knows no messages.
 */
#ifndef RDMAMSG_LIB_LANE_H
#define RDMAMSG_LIB_LANE_H

#include <stdbool.h>
#include <stdint.h>

#define RDMAMSG_FAST_TWINS	/* the library defines the layout */
#include <rdmamsg/fast.h>

#include <infiniband/verbs.h>

#include "base/util.h"

struct cq;
struct dev;
struct op;
struct pool;
struct rdmamsg_msg;
struct srq;
struct verbs_api;

/* A receive and its buffer. */
struct rx_slot {
	struct ibv_recv_wr wr;		/* first; a circular chain */
	struct ibv_sge sge;
	struct rdmamsg_msg *msg;	/* NULL: the program has kept it */
};

/*
 * A lane with its own receives has slots for all requests that its queue pair
 * takes. A lane with a shared receive queue, one of many, begins with a few and
 * allocates more when the program sends faster than requests complete.
 */
struct send_queue {
	struct op **slots;		/* NULL: no operation to tell */
	uint32_t mask;
	uint32_t ops;			/* slots that are not NULL */
	uint32_t done;			/* requests completed, ever */
	uint32_t data;			/* requests allowed for data */
	uint32_t total;			/* requests allowed in all */
	uint32_t more;			/* to be allowed with more slots */
};

struct receive_queue {
	struct rx_slot *head;		/* slot that completes next */
	struct rx_slot *slots;
	uint64_t posts;			/* receives posted, ever */
	int32_t spare;			/* rdmamsg__rq_posted() - low */
	uint32_t target;		/* slots: recv_depth + RECV_RESERVE */
	uint32_t low;			/* fewer posted need a refill */
	uint32_t tail;			/* slot to post next */
	uint32_t holes;			/* slots without a buffer */
	bool lacks;			/* holes, and no buffers for them */
};

#define READ_CHUNK	(1u << 20)	/* bytes of one request, at most */

struct lane;

/* Calls from a lane to its session. */
struct lane_events {
	/* The operation was not posted, so it does not complete. */
	void (*unposted)(struct lane *l, struct op *op);
	/* The device has refused a request. err is -errno. */
	void (*failed)(struct lane *l, int err, const char *what);
	/*
	 * Returns a buffer for a receive whose own buffer the program keeps, or
	 * NULL if there is none now. 'count' buffers are wanted in all.
	 */
	struct rdmamsg_msg *(*buffer)(struct lane *l, uint32_t count);
	/*
	 * Fills in attributes for the step to attr->qp_state, and their mask.
	 * Returns 0, or -errno with a text if the connection is gone.
	 */
	int (*attr)(struct lane *l, struct ibv_qp_attr *attr, int *mask);
};

struct lane {
	struct rdmamsg_hot_ep hot;	/* first: the inlines use it */

	/* hot */
	struct send_queue sq;
	struct srq *srq;		/* NULL: the lane uses rq */
	uint32_t share;			/* with srq: credits to keep granted */
	uint32_t chunk;			/* largest length of one request */
	struct receive_queue rq;

	/* cold */
	const struct lane_events *on;
	/*
	 * NULL: a completion proves all requests before it. Otherwise it proves
	 * itself alone, so that every request has one, and waits here for those
	 * of earlier requests: by slot, from sq.done on, CAME_*.
	 */
	uint8_t *came;
	struct dev *dev;
	struct cq *cq;
	uint32_t cq_share;
	uint32_t read_done;		/* sq.done after the last good read */
	const struct verbs_api *v;	/* of the device, or of the CM id */
	struct pool *recv_pool;
	struct ibv_qp_cap cap;
	bool raw;			/* the queue pair takes raw requests */
	bool masked_swapped;		/* struct masked_caps */
	uint8_t masked_sizes;
	bool flushes_failures;		/* struct quirks */
	union ibv_gid gid;
	uint32_t peer_qp_num, mtu;
	uint8_t port;
	uint8_t resp_res, init_depth;
	bool failed;			/* the device reported an error */
	bool drained;			/* no more completions are expected */
	bool last_wqe;			/* the srq gives no more receives */
	_Atomic bool refused_peer;	/* an event tells of a bad request */
	bool doubts_reads;		/* struct quirks */
	char device_name[64];		/* after the device is closed */
};

/* Requests posted and not completed. */
static inline uint32_t rdmamsg__sq_used(const struct lane *l)
{
	return (uint32_t)l->hot.sq_posted - l->sq.done;
}

/* Allocates more slots. Returns false if there are none to be had. */
bool rdmamsg__sq_grow(struct lane *l);

/* Returns true if n more requests for data can be posted. */
static inline bool rdmamsg__sq_fits(struct lane *l, uint32_t n)
{
	while ((int32_t)(l->sq.data - rdmamsg__sq_used(l) - n) < 0)
		if (!rdmamsg__sq_grow(l))
			return false;
	return true;
}

/* Returns true if a device may send wrong bytes (struct quirks, torn_max). */
bool rdmamsg__may_tear(const struct lane *l, uint32_t len);

#define TORN_PAGE	4096u	/* smallest page of a peer */

/*
 * Returns how many of len bytes one read at raddr may ask for. A peer that would
 * send wrong bytes gets one read for each page.
 */
static inline uint32_t rdmamsg__read_untorn(const struct lane *l,
					    uint64_t raddr, uint32_t len)
{
	if (likely(!l->came) || !rdmamsg__may_tear(l, len))
		return len;
	return min(len, TORN_PAGE - (uint32_t)(raddr % TORN_PAGE));
}

/*
 * Returns true if this side can learn what has arrived at the peer: completions
 * tell it, or a read behind the requests does.
 */
static inline bool rdmamsg__lane_proves(const struct lane *l)
{
	return !l->came || l->init_depth;
}

/* With 'came': how a request has ended. */
enum { CAME_NOT, CAME_WELL, CAME_REFUSED, CAME_CANCELED };

/*
 * With 'came': the completion of the request with this number has come. Requests
 * behind one that has failed have failed, too.
 */
void rdmamsg__sq_came(struct lane *l, uint32_t seq, uint8_t how);

/* Takes the next completed request. Returns its operation, or NULL. */
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
