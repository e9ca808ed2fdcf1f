/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues, pools, protection domains. */
#ifndef RDMAMSG_MEMORY_H
#define RDMAMSG_MEMORY_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- shared receive queues -------------------------------------------- */

struct rdmamsg_srq_options {
	size_t size;
	void *user;
	uint32_t depth;		/* receives on each device; 4096, 16..1048576 */
	uint32_t buffer_size;	/* payload in one piece; 8176, at most 1 MB */
	uint32_t floor;		/* messages that each peer may always send; 4 */
	uint32_t overcommit;	/* promised for 100 receives; 100..10000 */
	uint32_t limit;		/* on_event when fewer are left; none */
	struct rdmamsg_pool *recv_pool;	/* buffers; NULL: the library's own */
};

/*
 * Receives for all endpoints that have it in their options, in *ret. It comes
 * to a device with the first endpoint there. Up to the endpoint's recv_depth
 * messages are in flight to it, as demand and depth allow. recv_pool stays the
 * program's, and is in use until the queue has ended. -EINVAL: it is another
 * context's, or has no room for one buffer; -ENOMEM.
 */
int rdmamsg_srq_create(struct rdmamsg *ctx,
		       const struct rdmamsg_srq_options *opts,
		       struct rdmamsg_srq **ret);

/* Ends with the last endpoint and listener that was given it. NULL is fine. */
void rdmamsg_srq_destroy(struct rdmamsg_srq *srq);

void *rdmamsg_srq_user(const struct rdmamsg_srq *srq);

struct rdmamsg_srq_counters {
	size_t size;
	uint64_t endpoints;		/* now, as all up to bytes_private */
	uint64_t posted;		/* receives at the device */
	uint64_t promised;		/* messages that may still come */
	uint64_t spare;			/* that could be promised besides */
	uint64_t bytes_pinned;		/* buffers */
	uint64_t bytes_private;		/* the library's structs */
	uint64_t ran_empty;		/* no receive left: RNR is possible */
	uint64_t limit_events;
	uint64_t strays;		/* of connections that had ended */
	uint64_t refused;		/* endpoints for which it was full */
};

int rdmamsg_srq_stats(const struct rdmamsg_srq *srq,
		      struct rdmamsg_srq_counters *stats);

/* ---- pools ------------------------------------------------------------ */

enum rdmamsg_pool_flags {
	RDMAMSG_POOL_HUGE = 1u << 0,	/* huge pages, if there are any */
	RDMAMSG_POOL_NODE = 1u << 1,	/* on NUMA node 'node', if it can be */
};

struct rdmamsg_pool_options {
	size_t size;
	void *user;
	uint32_t flags;		/* enum rdmamsg_pool_flags */
	uint32_t node;
	size_t max_bytes;	/* registered; only the context's limit */
};

/*
 * Registered buffers in size classes, in *ret: for rdmamsg_pool_alloc(), and
 * for endpoints that have it in their options. Takes memory as it is used, on
 * each device, never beyond max_bytes; peers have no access to it. Ends with
 * its context at the latest. -ENOMEM.
 */
int rdmamsg_pool_create(struct rdmamsg *ctx,
			const struct rdmamsg_pool_options *opts,
			struct rdmamsg_pool **ret);

/*
 * Gives all its memory back. NULL is fine. -EBUSY while an endpoint, listener
 * or shared receive queue has it, or one of its messages is in use or being
 * sent.
 */
int rdmamsg_pool_destroy(struct rdmamsg_pool *pool);

/*
 * A message of len bytes for the endpoint's device, or any other endpoint of
 * it, as rdmamsg_msg_alloc() gives one. -EAGAIN: the cap is reached,
 * on_writable of the endpoint comes when messages come back; -ENOBUFS: what is
 * in use of other sizes fills it. -EMSGSIZE; -ENOTCONN, -ESHUTDOWN.
 */
int rdmamsg_pool_alloc(struct rdmamsg_pool *pool, struct rdmamsg_ep *ep,
		       size_t len, struct rdmamsg_msg **ret);

void *rdmamsg_pool_user(const struct rdmamsg_pool *pool);

struct rdmamsg_pool_counters {
	size_t size;
	uint64_t bytes;			/* registered now, as all up to used */
	uint64_t bytes_huge;		/* of them, on huge pages for sure */
	uint64_t bytes_advised;		/* huge pages were asked for */
	uint64_t bytes_node;		/* on the node that was asked for */
	uint64_t buffers;		/* of all classes */
	uint64_t used;			/* of these, in use */
	uint64_t refused;		/* by max_bytes: calls, messages, ... */
	uint64_t received_rendezvous;	/* large messages read into it */
};

int rdmamsg_pool_stats(const struct rdmamsg_pool *pool,
		       struct rdmamsg_pool_counters *stats);

struct rdmamsg_memory_estimate {
	size_t size;
	uint64_t pinned_idle;		/* bytes, when all are connected */
	uint64_t pinned_most;		/* bytes, when every queue is full */
};

/*
 * The registered memory of so many endpoints of a context on one device, made
 * with these options and, unless NULL, one shared receive queue; large
 * messages come on top. Makes nothing, takes no context. Any thread.
 */
int rdmamsg_estimate(const struct rdmamsg_ep_options *opts,
		     const struct rdmamsg_srq_options *srq,
		     uint32_t endpoints, struct rdmamsg_memory_estimate *ret);

/* ---- protection domains ----------------------------------------------- */

/*
 * Endpoints are in a protection domain, that of their device or one that the
 * program makes, and so are regions: a key is of use only through endpoints
 * in the domain of its region. Buffers, pools and shared receive queues have
 * a part of their own in each domain that endpoints bring them to.
 */
struct rdmamsg_pd_options {
	size_t size;
	void *user;
};

/* Nothing is made on a device before it is needed there. -ENOMEM. */
int rdmamsg_pd_create(struct rdmamsg *ctx,
		      const struct rdmamsg_pd_options *opts,
		      struct rdmamsg_pd **ret);
/*
 * NULL is fine. -EBUSY: an endpoint, listener, queue pair or region is in it,
 * a message of it is in use, or what the program has made there with verbs;
 * rdmamsg_error() says which. It ends with its context at the latest.
 */
int rdmamsg_pd_destroy(struct rdmamsg_pd *pd);
void *rdmamsg_pd_user(const struct rdmamsg_pd *pd);

#ifdef __cplusplus
}
#endif

#endif
