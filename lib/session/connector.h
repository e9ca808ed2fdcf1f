/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connector is one way from an address to a connected lane: the connection
 * manager's (cm/rdma), or records over TCP or the program's own transport
 * (cm/oob). An endpoint, a request and a listener have one for life, and nobody
 * else asks which one it is. Whatever fails returns -errno and leaves a text.
 */
#ifndef RDMAMSG_LIB_CONNECTOR_H
#define RDMAMSG_LIB_CONNECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#include "wire/proto.h"

struct addrinfo;
struct rdmamsg_listener;
struct rdmamsg_request;

struct connector {
	/* What an endpoint waits for in EP_RESOLVING, once it has addresses. */
	const char *waits;
	/* Both sides know the session before SETUP, which must name it. */
	bool knows_session;
	/* Nothing tells that the peer has disconnected. */
	bool ends_unseen;

	/* Checks and takes the options of a new endpoint. -EINVAL */
	int (*init)(struct rdmamsg_ep *ep);
	/* From connect.addr on. Also 0 if on_closed is to tell what failed. */
	int (*dial)(struct rdmamsg_ep *ep);
	/* The same after a name was resolved; on_closed tells errors. */
	void (*resolved)(struct rdmamsg_ep *ep);
	/* The same address once more, after a back-off. */
	int (*redial)(struct rdmamsg_ep *ep);
	/* Gives up what is on its way. */
	void (*stop)(struct rdmamsg_ep *ep);
	/* Both SETUPs are through. */
	void (*connected)(struct rdmamsg_ep *ep);
	/* Tells the peer, once. */
	void (*disconnect)(struct rdmamsg_ep *ep);
	/* The queue pair is gone. release() may come twice, free() is last. */
	void (*release)(struct rdmamsg_ep *ep);
	void (*free)(struct rdmamsg_ep *ep);

	/* For the lane: its device, attributes of a step, its port and GID. */
	const char *(*device)(const struct rdmamsg_ep *ep,
			      char room[static 64]);
	int (*attr)(const struct rdmamsg_ep *ep, struct ibv_qp_attr *attr,
		    int *mask);
	void (*port)(struct rdmamsg_ep *ep);

	/* A request: 'accept' takes over what it has below. */
	int (*accept)(struct rdmamsg_ep *ep, struct rdmamsg_request *req);
	void (*reject)(struct rdmamsg_request *req, enum proto_reject code,
		       const void *data, size_t len);
	/* To another thread's context, which gets its events from here on. */
	int (*move)(struct rdmamsg_request *req, struct rdmamsg *to);
	void (*drop)(struct rdmamsg_request *req);

	int (*listen)(struct rdmamsg_listener *l, struct addrinfo *ai);
	void (*unlisten)(struct rdmamsg_listener *l);
	/* Of which kind the port is, for the log. */
	const char *(*over)(const struct rdmamsg_listener *l);
};

#endif
