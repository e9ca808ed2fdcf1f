/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection that survives the loss of a port: see rdmamsg_failover(7).
 * Endpoints that outlive their connection: see rdmamsg_reconnect(3).
 */
#ifndef RDMAMSG_FAILOVER_H
#define RDMAMSG_FAILOVER_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a connection goes on when its path fails. */
enum rdmamsg_rung {
	/*
	 * The device migrates to an alternate path, over another port of the
	 * same InfiniBand device.
	 */
	RDMAMSG_RUNG_PATH = 1u << 0,
	/* As LANE, and another connection is made in advance. */
	RDMAMSG_RUNG_STANDBY = 1u << 1,
	/* Another connection is made when the first has failed. */
	RDMAMSG_RUNG_LANE = 1u << 2,
};

enum rdmamsg_failover_flag {
	/* connect: do not connect to addresses that the peer has announced */
	RDMAMSG_FAILOVER_GIVEN_ONLY = 1u << 0,
};

/*
 * In opts->failover. Both sides ask for it. The library copies the strings.
 *
 * With STANDBY or LANE, each side keeps a copy of the messages that the peer
 * may not have yet. The side that has connected connects again, to the address
 * it connected to, to 'host', and to the addresses that the other side has
 * announced, in turn; the other side needs a listener. Then both send again
 * what the other lacks. Each message arrives once and in order.
 */
struct rdmamsg_failover {
	size_t size;
	uint32_t port;		/* of the first alternate path; any active */
	uint32_t rungs;		/* enum rdmamsg_rung; 0: PATH and LANE */
	/*
	 * Longest without a connection; 10000. The side that has accepted waits
	 * longer while the peer may not know of the loss.
	 */
	uint32_t timeout_ms;
	uint32_t keep_bytes;	/* for copies of messages; 1 MB, 64 KB.. */
	/* connect: another address of the peer, and from where to reach it */
	const char *host;	/* NULL: none */
	const char *service;	/* NULL: that of rdmamsg_connect() */
	const char *source;	/* numeric local address, or NULL */
	const char *device;	/* name of the RDMA device, or NULL */
	/*
	 * accept: addresses at which the peer may connect again. NULL: those of
	 * the context's listeners; "": none; else a list of numeric addresses
	 * "ADDR", "ADDR:PORT" and "[ADDR]:PORT", separated by commas.
	 */
	const char *announce;
	uint32_t flags;		/* enum rdmamsg_failover_flag */
	/* where the first alternate path leads; LID of the peer's other port */
	uint32_t lid;
};

/*
 * In opts->reconnect of rdmamsg_connect(): the endpoint stays when its
 * connection ends, unless one of the two programs has closed or aborted it. It
 * connects again to the same host and service, with pauses that double. The
 * peer sees a new endpoint, with the same hello_data and setup_data. Sends
 * without a connection wait in send_queue, or give -EAGAIN if that is full or
 * 0. Operations that the peer may not have complete with RDMAMSG_IN_DOUBT.
 * Failover, if on, comes first.
 *
 * Declared for programs and bindings to come. In this version
 * rdmamsg_connect(), rdmamsg_listen() and rdmamsg_request_accept() answer
 * -EOPNOTSUPP.
 */
struct rdmamsg_reconnect {
	size_t size;
	uint32_t flags;		/* enum rdmamsg_reconnect_flag */
	/* longest without a connection, then on_closed; RDMAMSG_NONE: ever */
	uint32_t timeout_ms;	/* 60000 */
	uint32_t first_ms;	/* pause before the first try; 20 */
	uint32_t max_ms;	/* longest pause; 1000 */
};

enum rdmamsg_reconnect_flag {
	/* a reject by the peer's program is no end: tries again */
	RDMAMSG_RECONNECT_REJECTED = 1u << 0,
	/* as is the peer's rdmamsg_ep_close() or _abort(): it may restart */
	RDMAMSG_RECONNECT_CLOSED = 1u << 1,
};

/* For on_disconnected. Valid during the callback. */
struct rdmamsg_disconnect_event {
	size_t size;
	const struct rdmamsg_reason *why;	/* the connection has ended */
	/* operations that complete with RDMAMSG_IN_DOUBT */
	uint32_t in_doubt;
	uint32_t queued;	/* sends that wait for the next connection */
	uint32_t again_ms;	/* pause before the first try */
};

/*
 * In opts->on_demand: the endpoint connects when it is first used, and may lose
 * its connection to another endpoint when the context has max_lanes. The
 * program does not notice: operations wait in send_queue until there is a
 * connection again. on_connected comes with the first one. Both sides ask for
 * it.
 *
 * Declared for programs and bindings to come. In this version
 * rdmamsg_connect(), rdmamsg_listen() and rdmamsg_request_accept() answer
 * -EOPNOTSUPP.
 */
struct rdmamsg_on_demand {
	size_t size;
	uint32_t flags;		/* enum rdmamsg_on_demand_flag */
	uint32_t wait_ms;	/* longest wait for a connection; 10000 */
	/* ends an unused connection; RDMAMSG_NONE: if its place is needed */
	uint32_t idle_ms;	/* RDMAMSG_NONE */
	/* where this side can be reached: see struct rdmamsg_failover */
	const char *announce;
};

enum rdmamsg_on_demand_flag {
	/*
	 * If the peer has announced no address, keeps the connection, so that
	 * this side can always send. Without the flag it waits for the peer.
	 */
	RDMAMSG_ON_DEMAND_KEEP = 1u << 0,
};

/*
 * Status of an atomic operation that was under way when a connection failed, or
 * whose result Soft-RoCE has lost: see rdmamsg_write(3). The peer's memory may
 * or may not have changed. The program must read it.
 */
#define RDMAMSG_IN_DOUBT	(-121)	/* -EREMOTEIO */

enum rdmamsg_path_state {
	RDMAMSG_PATH_NONE = 1,	/* no alternate path, 'text' says why */
	RDMAMSG_PATH_ARMING,	/* both sides load the alternate path */
	RDMAMSG_PATH_ARMED,	/* the alternate path is ready */
	RDMAMSG_PATH_MIGRATED,	/* migrated, and NONE since then */
};

struct rdmamsg_ep_path_attr {
	size_t size;
	enum rdmamsg_path_state state;
	uint32_t port;		/* in use; 0 while not known */
	uint32_t alternate;	/* port of the alternate path; 0: none */
	uint32_t peer_alternate;	/* its port at the peer; 0: none */
	uint32_t migrations;	/* of this endpoint so far */
	char text[192];		/* the reason for the state */
	uint32_t resumes;	/* other connections that took over so far */
	uint32_t down;		/* 1: no connection now, another is tried */
	uint32_t standby;	/* 1: a connection made in advance is ready */
};

/* Writes the state of the endpoint's paths to *ret, as on_path told it last. */
int rdmamsg_ep_path_query(const struct rdmamsg_ep *ep,
			  struct rdmamsg_ep_path_attr *attr);

/*
 * Writes the last 64 events of an endpoint with failover to buf, one a line and
 * with their times, for people: states, connections lost and tried, paths,
 * messages sent again, credits, the steps of its end. on_closed may call it.
 * Writes at most 'size' bytes, the last of them 0. Returns the length of the
 * whole text like snprintf(), 0 without failover. buf may be NULL if size is 0.
 */
int rdmamsg_ep_history(const struct rdmamsg_ep *ep, char *buf, size_t size);

enum rdmamsg_path_change {
	RDMAMSG_PATH_CHANGE_ARMED = 1,	/* an alternate path is ready */
	RDMAMSG_PATH_CHANGE_MIGRATED,	/* it is now the path in use */
	RDMAMSG_PATH_CHANGE_LOST,	/* it is not ready any more */
	RDMAMSG_PATH_CHANGE_DOWN,	/* no connection: another is tried */
	RDMAMSG_PATH_CHANGE_RESUMED,	/* another connection has taken over */
	RDMAMSG_PATH_CHANGE_STANDBY,	/* a connection in advance is ready */
	RDMAMSG_PATH_CHANGE_NOT_MOVED,	/* a planned move: 'text' says why */
};

/* For on_path. Valid during the callback. */
struct rdmamsg_path_event {
	size_t size;
	enum rdmamsg_path_change change;
	uint32_t port;		/* in use now */
	uint32_t alternate;	/* port of the alternate path; 0: none */
	const char *text;	/* the reason */
	uint32_t ms;		/* RESUMED: time without a connection */
	uint32_t repeated;	/* RESUMED: messages that are sent again */
};

struct rdmamsg_migrate_options {
	size_t size;
	uint32_t port;		/* to migrate to; that of the alternate path */
	uint32_t lane;		/* 1: over another connection */
	/* as in struct rdmamsg_failover: where to; each of them means 'lane' */
	const char *host;
	const char *service;
	const char *source;
	const char *device;
};

/*
 * Moves both sides of an open endpoint without loss: to the alternate path, or
 * over another connection, which is made first. Without an alternate path at
 * both sides it is another connection. on_path follows. opts may be NULL.
 *
 * The side that has connected connects again. It uses the address in opts,
 * which becomes the endpoint's other address, or without one the next of those
 * it knows. The side that has accepted asks its peer to connect, and gives no
 * address. If the connection cannot be made, the endpoint stays where it is,
 * and on_path tells NOT_MOVED on the side that connects.
 *
 * -EBUSY: the alternate path is not ready yet, or the endpoint moves already;
 * -EHOSTUNREACH: there is no alternate path; -EOPNOTSUPP: the endpoint can have
 * neither; -EINVAL: the alternate path is on another port, or this side has
 * accepted and opts has an address. -ENOTCONN, -ESHUTDOWN, -ENOMEM.
 */
int rdmamsg_ep_migrate(struct rdmamsg_ep *ep,
		       const struct rdmamsg_migrate_options *opts);

struct rdmamsg_alternate {
	size_t size;
	uint32_t port;		/* of this device; any active */
	uint32_t lid;		/* where it leads; LID of the peer's port */
};

/*
 * Loads or replaces the alternate path of an open endpoint, at both sides.
 * on_path tells LOST if a path was armed, and ARMED when the new one is. The
 * port stays the wanted one, and the LID holds until the next migration.
 *
 * -EINVAL: no such port, the port in use, or no LID of one port; -ENETDOWN: the
 * port is not active; -EOPNOTSUPP: the endpoint has no alternate paths, the
 * text says why. -ENOTCONN, -ESHUTDOWN.
 */
int rdmamsg_ep_set_alternate(struct rdmamsg_ep *ep,
			     const struct rdmamsg_alternate *alt);

#ifdef __cplusplus
}
#endif

#endif
