/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection requests, and counters of a listener. */
#ifndef RDMAMSG_LISTENER_H
#define RDMAMSG_LISTENER_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdmamsg *rdmamsg_listener_ctx(const struct rdmamsg_listener *listener);
struct rdmamsg_listener_stats {
	size_t size;
	/* now */
	uint64_t requests;		/* not answered by the program */
	uint64_t half_open;		/* accepted, no SETUP yet */
	uint64_t endpoints;		/* the peer has sent SETUP */
	/* since the listener was created */
	uint64_t accepted;
	uint64_t rejected_requests;	/* by max_requests */
	uint64_t rejected_half_open;	/* by max_half_open */
	uint64_t rejected_endpoints;	/* by max_endpoints */
	uint64_t rejected_source;	/* by max_per_source */
	uint64_t rejected_memory;	/* no memory for receives */
	uint64_t slowed;		/* by slow_ms */
	uint64_t offences;		/* wrong keys, protocol errors */
	uint64_t setup_timeouts;	/* by setup_timeout_ms */
	uint64_t unproven;		/* no pre-shared key, or another one */
	uint64_t rejected_draining;	/* after ..._drain(), shutdown */
	uint64_t listening;		/* now: 0 while its device is removed */
	uint64_t removed;		/* removals of its device */
	/* now: listeners that share its port, itself included; 0: it is alone */
	uint64_t members;
};

/* Fills *stats. -EINVAL: size is not set, or an argument is NULL. */
int rdmamsg_listener_get_stats(const struct rdmamsg_listener *listener,
			       struct rdmamsg_listener_stats *stats);

/*
 * Rejects new requests from now on, and asks the endpoints that have come
 * through the listener to move to another address, see rdmamsg_ep_migrate().
 * Those that cannot move stay, and a lane that they lose is still replaced.
 * Endpoints in other contexts are not asked. -EINVAL: listener is NULL.
 */
int rdmamsg_listener_drain(struct rdmamsg_listener *listener);

/*
 * Writes the address of this host that the request came to and the port, and
 * those of the peer. Either may be NULL.
 */
int rdmamsg_request_addrs(const struct rdmamsg_request *req,
			  struct sockaddr_storage *ret_local,
			  struct sockaddr_storage *ret_peer);
/* Returns the peer's hello_data, valid as long as the request. */
const void *rdmamsg_request_data(const struct rdmamsg_request *req,
				 size_t *ret_len);

/*
 * Hands the request to another context. That context's thread calls
 * fn(ctx, req, arg), which accepts or rejects the request. Call this in the
 * thread that has the request now. On failure the request stays with that
 * thread. -EAGAIN: the queue of ctx is full.
 */
int rdmamsg_request_move(struct rdmamsg_request *req, struct rdmamsg *ctx,
			 void (*fn)(struct rdmamsg *ctx,
				    struct rdmamsg_request *req, void *arg),
			 void *arg);

#ifdef __cplusplus
}
#endif

#endif
