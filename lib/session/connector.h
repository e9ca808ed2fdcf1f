/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connector is a way to connect a lane: through the connection manager
 * (cm/rdma), or with records over TCP or over a transport of the program
 * (cm/oob). Each endpoint, request and listener has one connector for life. A
 * function that fails returns -errno and sets rdmamsg__text().
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
	/* Text for EP_RESOLVING after the name is resolved. */
	const char *waits;
	/* Both sides know the session id before SETUP, which must match. */
	bool knows_session;
	/* Connects queue pairs without the connection manager. */
	bool without_cm;
	/* No event tells that the peer has disconnected. */
	bool ends_unseen;

	/* Checks and takes the options of a new endpoint. -EINVAL */
	int (*init)(struct rdmamsg_ep *ep);
	/* Dials connect.addr and the next. Also 0 if on_closed will follow. */
	int (*dial)(struct rdmamsg_ep *ep);
	/* Dials after a name was resolved. on_closed reports errors. */
	void (*resolved)(struct rdmamsg_ep *ep);
	/* Dials the same address again, after a back-off. */
	int (*redial)(struct rdmamsg_ep *ep);
	/* The back-off is over: redial(), or on_closed follows. */
	void (*again)(struct rdmamsg_ep *ep);
	/*
	 * Dials another lane for the session of ep: makes a carrier. NULL: such
	 * connections have one lane for life.
	 */
	int (*another)(struct rdmamsg_ep *ep, const char *host,
		       const char *service,
		       const struct rdmamsg_ep_options *opts,
		       struct rdmamsg_ep **ret);
	/*
	 * The peer has refused in its SETUP, and the lane has drained: frees it
	 * and dials again after a back-off. Returns false if there is no time
	 * left, or no memory; the reason is set.
	 */
	bool (*refused)(struct rdmamsg_ep *ep);
	/* Stops dialling. */
	void (*stop)(struct rdmamsg_ep *ep);
	/* Stops all of connecting, also the resolving of a name. */
	void (*cancel)(struct rdmamsg_ep *ep);
	/* Both sides have exchanged SETUP. */
	void (*connected)(struct rdmamsg_ep *ep);
	/* Disconnects from the peer, once. */
	void (*disconnect)(struct rdmamsg_ep *ep);
	/* The queue pair is gone. release() may come twice, free() is last. */
	void (*release)(struct rdmamsg_ep *ep);
	void (*free)(struct rdmamsg_ep *ep);

	/* For the lane: its device, attributes of a step, its port and GID. */
	const char *(*device_name)(const struct rdmamsg_ep *ep,
				   char room[static 64]);
	int (*attr)(const struct rdmamsg_ep *ep, struct ibv_qp_attr *attr,
		    int *mask);
	void (*learn_port)(struct rdmamsg_ep *ep);

	/* A request. accept() takes over its id or connection. */
	int (*accept)(struct rdmamsg_ep *ep, struct rdmamsg_request *req);
	void (*reject)(struct rdmamsg_request *req, enum proto_reject code,
		       const void *data, size_t len);
	/*
	 * Names the device that decides the request, or returns NULL. The
	 * member is NULL if the endpoint chooses its device.
	 */
	const char *(*request_device)(const struct rdmamsg_request *req,
				      char room[static 64]);
	/* Moves it to the context of another thread, which gets its events. */
	int (*move)(struct rdmamsg_request *req, struct rdmamsg *to);
	void (*drop)(struct rdmamsg_request *req);

	int (*listen)(struct rdmamsg_listener *l, struct addrinfo *ai);
	void (*unlisten)(struct rdmamsg_listener *l);
	/*
	 * Adds the addresses of the context's listeners that a peer of ep may
	 * connect to. NULL if another() is.
	 */
	void (*addresses)(const struct rdmamsg_ep *ep,
			  struct proto_addresses *ret);
	/* Kind of the port, for the log. */
	const char *(*over)(const struct rdmamsg_listener *l);
};

#endif
