/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port that listeners of several contexts share (RDMAMSG_LISTEN_SHARED). The
 * ids that listen belong to the port, and so do the channels of their events.
 * The loop of each listener watches the channels. The first thread that finds a
 * request takes it into its own context, and gives it to one of the listeners:
 *
 *	channel --> any of the loops --> give --> the loop of the chosen one
 *	                                  ^                 |
 *	                                  +--- has closed --+
 *
 * One lock protects all ports, and the listeners' places in them. Under the lock
 * a listener and its context stay, and no callback runs. A listener's counts
 * have locks of their own, see session/door.h.
 */
#ifndef RDMAMSG_CM_SHARED_PORT_H
#define RDMAMSG_CM_SHARED_PORT_H

#include <stdint.h>
#include <sys/socket.h>

#include <rdma/rdma_cma.h>

#include "base/list.h"
#include "cm/connect.h"
#include "device/verbs_api.h"

struct shared_port {
	struct list node;		/* of all ports */
	struct list listeners;		/* the next in turn first */
	uint32_t refs;			/* listeners, requests on their way */
	uint32_t offer;			/* number of the current request */
	struct sockaddr_storage at;	/* with the port */
	char *device;			/* asked for, or NULL */
	struct listen_ids ids;
	struct port_channel {
		const struct verbs_api *v;
		struct rdma_event_channel *ch;	/* NULL: not in use */
	} channels[TABLES];
};

void rdmamsg__shared_port_lock(void);
void rdmamsg__shared_port_unlock(void);

/* The calls of this block need the lock. */
struct shared_port *rdmamsg__shared_port_find(const struct sockaddr *at);
void rdmamsg__shared_port_add(struct shared_port *port);
/* -EADDRINUSE, -EINVAL: l cannot share the port with its listeners. */
int rdmamsg__shared_port_check(const struct shared_port *port,
			       const struct rdmamsg_listener *l);
void rdmamsg__shared_port_put(struct shared_port *port);

/*
 * Returns the number of listeners that share the port of l, l included, or 0 if
 * the port is its own. Takes the lock.
 */
uint32_t rdmamsg__shared_port_members(const struct rdmamsg_listener *l);
/* The listener with this number, or NULL. In the thread of ctx. */
struct rdmamsg_listener *rdmamsg__listener_at(struct rdmamsg *ctx,
					      uint32_t object);
/*
 * Gives a request that no listener counts to one of the listeners, or rejects
 * it. In the thread that has the request.
 */
void rdmamsg__shared_port_give(struct shared_port *port,
			       struct rdmamsg_request *req);
/* Gives a request that waits at l to another listener. l takes no more. */
void rdmamsg__shared_port_pass(struct rdmamsg_listener *l,
			       struct rdmamsg_request *req);

#endif
