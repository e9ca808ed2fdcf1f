/* SPDX-License-Identifier: BSD-2-Clause */
/* Of a listener: requests examined or moved, port, counters. */
#ifndef RDMAMSG_LISTENER_H
#define RDMAMSG_LISTENER_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdmamsg *rdmamsg_listener_ctx(const struct rdmamsg_listener *listener);
struct rdmamsg_listener_counters {
	size_t size;
	/* now */
	uint64_t requests;		/* the program has not answered */
	uint64_t half_open;		/* accepted, no SETUP yet */
	uint64_t endpoints;		/* SETUP has come */
	/* since the listener was created */
	uint64_t accepted;
	uint64_t rejected_requests;	/* by max_requests */
	uint64_t rejected_half_open;	/* by max_half_open */
	uint64_t rejected_endpoints;	/* by max_endpoints */
	uint64_t rejected_source;	/* by max_per_source */
	uint64_t rejected_memory;	/* no receive memory */
	uint64_t slowed;		/* within the pause of slow_ms */
	uint64_t offences;		/* wrong keys, broken protocol */
	uint64_t setup_timeouts;	/* by setup_timeout_ms */
};

/* Fills in *stats. -EINVAL. */
int rdmamsg_listener_stats(const struct rdmamsg_listener *listener,
			   struct rdmamsg_listener_counters *stats);

/* Where the request comes from, and the hello_data it brought. */
int rdmamsg_request_peer(const struct rdmamsg_request *req,
			 struct sockaddr_storage *ret);
const void *rdmamsg_request_data(const struct rdmamsg_request *req,
				 size_t *ret_len);

/*
 * Hands the request to another context, whose thread then has it in
 * fn(ctx, req, arg) and accepts or rejects it there. Called in the thread
 * that has it now. On failure (-EAGAIN: that context's queue is full) it
 * stays there.
 */
int rdmamsg_request_move(struct rdmamsg_request *req, struct rdmamsg *ctx,
			 void (*fn)(struct rdmamsg *ctx,
				    struct rdmamsg_request *req, void *arg),
			 void *arg);

#ifdef __cplusplus
}
#endif

#endif
