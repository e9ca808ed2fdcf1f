/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection that survives the loss of a port: see rdmamsg_failover(7). */
#ifndef RDMAMSG_FAILOVER_H
#define RDMAMSG_FAILOVER_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * In opts->failover. Both sides ask for it. Path migration then keeps an
 * alternate path ready, over another port of the same InfiniBand device. If the
 * path in use fails, the device migrates to the alternate path, and the
 * connection goes on without loss.
 */
struct rdmamsg_failover {
	size_t size;
	uint32_t port;		/* of the alternate path; any active port */
};

enum rdmamsg_path_state {
	RDMAMSG_PATH_NONE = 1,	/* no alternate path, 'text' says why */
	RDMAMSG_PATH_ARMING,	/* both sides load the alternate path */
	RDMAMSG_PATH_ARMED,	/* the alternate path is ready */
	RDMAMSG_PATH_MIGRATED,	/* migrated, and NONE since then */
};

/* Returns static text: "armed", ..., "unknown" for any other value. */
const char *rdmamsg_path_state_name(enum rdmamsg_path_state state);

struct rdmamsg_ep_path {
	size_t size;
	enum rdmamsg_path_state state;
	uint32_t port;		/* in use; 0 while not known */
	uint32_t alternate;	/* port of the alternate path; 0: none */
	uint32_t peer_alternate;	/* its port at the peer; 0: none */
	uint32_t migrations;	/* of this endpoint so far */
	char text[192];		/* the reason for the state */
};

/* Writes the state of the endpoint's paths to *ret, as on_path told it last. */
int rdmamsg_ep_path_query(const struct rdmamsg_ep *ep,
			  struct rdmamsg_ep_path *ret);

enum rdmamsg_path_change {
	RDMAMSG_PATH_CHANGE_ARMED = 1,	/* an alternate path is ready */
	RDMAMSG_PATH_CHANGE_MIGRATED,	/* it is now the path in use */
	RDMAMSG_PATH_CHANGE_LOST,	/* it is not ready any more */
};

/* Returns static text: "migrated", ..., "unknown" for any other value. */
const char *rdmamsg_path_change_name(enum rdmamsg_path_change change);

/* For on_path. Valid during the callback. */
struct rdmamsg_path_event {
	size_t size;
	enum rdmamsg_path_change change;
	uint32_t port;		/* in use now */
	uint32_t alternate;	/* port of the alternate path; 0: none */
	const char *text;	/* the reason */
};

struct rdmamsg_migrate_options {
	size_t size;
	uint32_t port;		/* to migrate to; that of the alternate path */
};

/*
 * Migrates both sides of an armed endpoint to the alternate path. on_path
 * follows. opts may be NULL. -EBUSY: the alternate path is not ready yet;
 * -EHOSTUNREACH: there is none; -EOPNOTSUPP: there can be none; -EINVAL: the
 * alternate path is on another port. -ENOTCONN, -ESHUTDOWN.
 */
int rdmamsg_ep_migrate(struct rdmamsg_ep *ep,
		       const struct rdmamsg_migrate_options *opts);

#ifdef __cplusplus
}
#endif

#endif
