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
	uint32_t depth;		/* receives on each device; 4096, 16..1048576 */
	uint32_t buffer_size;	/* payload in one piece; 8176, at most 1 MB */
	uint32_t floor;		/* credits always left to a peer; 4, 1..4096 */
	uint32_t overcommit;	/* credits for 100 receives; 100, 100..10000 */
	uint32_t limit;		/* on_event when fewer are posted; none */
	struct rdmamsg_pool *recv_pool;	/* buffers; NULL: the library's own */
	/* of the receives' completion queue, as of endpoints */
	uint32_t comp_vector;
	uint32_t sge;			/* entries of a receive; 1, 1..255 */
};

/*
 * Writes a new shared receive queue to *ret. Endpoints with the queue in their
 * options share its receives. The library creates the queue on a device with
 * the first endpoint there. An endpoint gets credits by demand, at most its
 * recv_depth. recv_pool stays the program's, and the queue uses it until the
 * library has destroyed the queue. -EINVAL: recv_pool is of another context or
 * has no room for one buffer; -ENOMEM.
 */
int rdmamsg_srq_create(struct rdmamsg *ctx,
		       const struct rdmamsg_srq_options *opts,
		       struct rdmamsg_srq **ret);

/*
 * Releases the queue. The library destroys it when no endpoint and no listener
 * uses it. srq may be NULL.
 */
void rdmamsg_srq_destroy(struct rdmamsg_srq *srq);

struct rdmamsg_srq_stats {
	size_t size;
	/* now */
	uint64_t endpoints;
	uint64_t posted;		/* receives at the device */
	uint64_t promised;		/* credits granted, not yet used */
	uint64_t spare;			/* credits that can still be granted */
	uint64_t bytes_pinned;		/* buffers */
	uint64_t bytes_private;		/* the library's structs */
	/* since the queue was created */
	uint64_t ran_empty;		/* no receive left: RNR is possible */
	uint64_t limit_events;
	uint64_t strays;		/* messages of ended connections */
	uint64_t refused;		/* endpoints without room for them */
	/*
	 * of the completion queues of the receives, now: endpoints and other
	 * shared receive queues of that vector use them, too
	 */
	uint64_t comp_vector;
	uint64_t cq_entries;		/* granted by the devices */
};

int rdmamsg_srq_get_stats(const struct rdmamsg_srq *srq,
			  struct rdmamsg_srq_stats *stats);

/* ---- pools ------------------------------------------------------------ */

enum rdmamsg_pool_flags {
	RDMAMSG_POOL_HUGE = 1u << 0,	/* huge pages, if available */
	RDMAMSG_POOL_NODE = 1u << 1,	/* prefer NUMA node 'node' */
};

struct rdmamsg_pool_options {
	size_t size;
	uint32_t flags;		/* enum rdmamsg_pool_flags */
	uint32_t node;
	size_t max_bytes;	/* most registered; no limit */
};

/*
 * Writes a new pool of registered buffers to *ret, for rdmamsg_pool_alloc() and
 * for endpoints with the pool in their options. The pool registers memory with
 * each device when it is needed, up to max_bytes. Peers have no access to this
 * memory. rdmamsg_close() destroys pools that are left. -ENOMEM.
 */
int rdmamsg_pool_create(struct rdmamsg *ctx,
			const struct rdmamsg_pool_options *opts,
			struct rdmamsg_pool **ret);

/*
 * Frees the pool and all its memory. pool may be NULL. -EBUSY: an endpoint,
 * listener or shared receive queue uses the pool, or a message of it is with
 * the program or being sent.
 */
int rdmamsg_pool_destroy(struct rdmamsg_pool *pool);

/*
 * Allocates a message of len bytes like rdmamsg_msg_alloc(). Every endpoint on
 * the device and in the protection domain of ep sends it without a copy.
 * -EAGAIN: max_bytes or a limit of the context is reached, and on_writable of
 * ep follows when memory may have come back. -ENOBUFS: buffers of other sizes
 * that are in use leave no room. -EMSGSIZE; -ENOTCONN, -ESHUTDOWN.
 */
int rdmamsg_pool_alloc(struct rdmamsg_pool *pool, struct rdmamsg_ep *ep,
		       size_t len, struct rdmamsg_msg **ret);

struct rdmamsg_pool_stats {
	size_t size;
	/* now */
	uint64_t bytes;			/* registered */
	uint64_t bytes_huge;		/* of bytes: on reserved huge pages */
	uint64_t bytes_advised;		/* of bytes: with MADV_HUGEPAGE */
	uint64_t bytes_node;		/* of bytes: on NUMA node 'node' */
	uint64_t buffers;		/* of all sizes */
	uint64_t used;			/* of buffers: in use */
	/* since the pool was created */
	uint64_t refused;		/* requests that max_bytes refused */
	uint64_t received_rendezvous;	/* large messages read into the pool */
};

int rdmamsg_pool_get_stats(const struct rdmamsg_pool *pool,
			   struct rdmamsg_pool_stats *stats);

struct rdmamsg_memory_estimate {
	size_t size;
	uint64_t pinned_idle;		/* bytes, all endpoints connected */
	uint64_t pinned_most;		/* bytes, all queues full */
};

/*
 * Computes the registered memory of this number of endpoints of one context on
 * one device. Unless srq is NULL, the endpoints share one receive queue. Large
 * messages need memory besides. The call creates nothing. Any thread.
 */
int rdmamsg_estimate(const struct rdmamsg_ep_options *opts,
		     const struct rdmamsg_srq_options *srq,
		     uint32_t endpoints, struct rdmamsg_memory_estimate *ret);

/* ---- protection domains ----------------------------------------------- */

/*
 * Each endpoint and each region is in a protection domain: the domain of the
 * device, or a domain that the program creates. A key works only through
 * endpoints in the domain of its region. Pools, shared receive queues and the
 * library's buffers have a part in each domain that their endpoints use.
 */
struct rdmamsg_pd_options {
	size_t size;
	/*
	 * Opens this device, and keeps it open as long as the domain: regions
	 * of the domain have keys before there is an endpoint. NULL: uses no
	 * device before the first endpoint or queue pair there
	 */
	const char *device;
};

/* -ENODEV, -ENXIO: no such device; -EACCES, -EPERM, -EMFILE; -ENOMEM. */
int rdmamsg_pd_create(struct rdmamsg *ctx,
		      const struct rdmamsg_pd_options *opts,
		      struct rdmamsg_pd **ret);
/*
 * Destroys the domain on all devices. pd may be NULL. -EBUSY: the domain still
 * has an endpoint, listener, queue pair or region, a message of it is in use,
 * or the program has created objects in it with verbs; rdmamsg_error() says
 * which. rdmamsg_close() destroys domains that are left.
 */
int rdmamsg_pd_destroy(struct rdmamsg_pd *pd);
#ifdef __cplusplus
}
#endif

#endif
