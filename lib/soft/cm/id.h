/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM ids, their events and messages.
 *
 *   active:   IDLE -> BOUND -> ADDR -> ROUTE -> LOOKUP -> REQ_SENT -> REP_RCVD
 *   passive:  IDLE -> BOUND -> LISTEN;  REQ_RCVD -> REP_SENT
 *   both:     -> CONNECTED -> DREQ_SENT | DREQ_RCVD -> OVER
 *   iWARP:    REQ_SENT -> CONNECTED;  REQ_RCVD -> CONNECTED;  -> OVER
 *   datagrams (SIDR): a REQ, then a REP or REJ, and no further message
 */
#ifndef SOFT_CM_ID_H
#define SOFT_CM_ID_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/util.h"
#include "base/list.h"
#include "soft/cm/cm.h"
#include "soft/cm/ucm_abi.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/msg.h"
#include "soft/fabric/thread.h"

struct packet;
struct soft_cm_far;
struct soft_path;
struct soft_qp;
struct soft_wire;

enum soft_cm_state {
	SOFT_CM_IDLE, SOFT_CM_BOUND, SOFT_CM_ADDR, SOFT_CM_ROUTE,
	SOFT_CM_LISTEN, SOFT_CM_LOOKUP, SOFT_CM_REQ_SENT, SOFT_CM_REP_RCVD,
	SOFT_CM_REQ_RCVD, SOFT_CM_REP_SENT, SOFT_CM_CONNECTED,
	SOFT_CM_DREQ_SENT, SOFT_CM_DREQ_RCVD, SOFT_CM_OVER,
};

/* if the backlog of a name is full, or nobody listens yet */
#define SOFT_LOOKUP_NS	10000000ull
#define SOFT_LOOKUP_TRIES 6000

struct soft_cm_id {
	struct list node;		/* dev->cm_ids */
	struct soft_cm_file *file;
	uint32_t handle;
	uint64_t uid;			/* chosen by the user */
	uint16_t ps;
	uint8_t qp_type;
	enum soft_cm_state state;
	struct sockaddr_storage src, dst;
	bool ib;			/* they are GIDs: ib.c */
	bool afonly;
	uint8_t ack_timeout;		/* 0: default */

	/* listener: its names; two for IPv6 that includes IPv4 */
	struct soft_watch sock[2];
	uint32_t backlog, waiting;	/* requests not yet accepted */

	/* connection */
	struct soft_watch lookup;
	bool wildcard;			/* lookup of the wildcard name */
	uint32_t tries;
	uint32_t refusals;		/* lookups that found no listener */
	struct soft_wire *wire;
	uint32_t peer;			/* handle of the peer's id */
	uint32_t listener;		/* handle, until accepted */
	struct rdma_ucm_conn_param param; /* of connect or accept */
	uint32_t psn, peer_psn, peer_qpn;
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count;
	struct soft_timer timer;
	uint32_t events_reported;
	bool fin_waits;			/* iWARP: for the port to be up */
	struct soft_cm_far *far;	/* far.h: the peer is on another host */
	bool passive;			/* far: the peer has asked */
};

struct soft_cm_event {
	struct list node;		/* file->events */
	uint32_t owner;			/* handle; counts in events_reported */
	uint32_t child;			/* CONNECT_REQUEST: the new id */
	uint32_t mc;			/* group; counts there, too */
	struct rdma_ucm_event_resp resp;
};

/* A group that an id has joined. */
struct soft_cm_mc {
	struct list node;		/* dev->cm_mcs */
	struct soft_cm_id *id;
	uint32_t handle;		/* not a handle of an id */
	uint64_t uid;
	uint8_t mgid[16];
	int slot;			/* soft_groups_leave() */
	uint32_t events_reported;
};

/* A message between connection managers. */
struct soft_cm_msg {
	struct soft_msg hdr;
	uint16_t ps;
	uint8_t reason;			/* REJ */
	uint8_t iwarp;			/* of the sender */
	uint32_t psn;
	struct sockaddr_in6 src, dst;	/* or sockaddr_in */
	struct rdma_ucm_conn_param param;
};
_Static_assert(sizeof(struct soft_cm_msg) <= SOFT_MSG_MAX, "one datagram");

/* IB reject reasons, enum ib_cm_rej_reason in Linux include/rdma/ib_cm.h */
enum { SOFT_REJ_INVALID_SERVICE = 8, SOFT_REJ_MTU = 26,
       SOFT_REJ_CONSUMER = 28 };
/* enum ib_cm_sidr_status, likewise */
enum { SOFT_SIDR_UNSUPPORTED = 1, SOFT_SIDR_REJECT = 2 };

/* Bytes of private data. The CMA header takes 36 bytes of a request. */
enum { SOFT_PRIVATE_CMA = 36, SOFT_PRIVATE_REQ = 92 - 36, SOFT_PRIVATE_REP = 196,
       SOFT_PRIVATE_REJ = 148, SOFT_PRIVATE_SIDR_REQ = 216 - 36,
       SOFT_PRIVATE_SIDR_REP = 136,
       /* MPA has 512, rdma_ucm_conn_param.private_data_len is an uint8_t */
       SOFT_PRIVATE_IWARP = 255 };

/* ---- functions. All L -------------------------------------------------- */

struct soft_cm_id *soft_cm_find(struct soft_dev *dev, uint32_t handle);
struct soft_cm_id *soft_cm_id_of(struct soft_cm_file *file, uint32_t handle);
struct soft_cm_id *soft_cm_id_new(struct soft_cm_file *file);
void soft_cm_id_free(struct soft_cm_id *id);
struct soft_cm_event *soft_cm_event_new(struct soft_cm_id *id, uint32_t type,
					int status);
void soft_cm_event_post(struct soft_cm_id *owner, struct soft_cm_event *ev);
void soft_cm_uncount(struct soft_cm_file *file);
void soft_cm_raise(struct soft_cm_id *id, uint32_t type, int status);
void soft_cm_hang_up(struct soft_cm_id *id);
/* conn.c. The lookup has found the node of the listener, or has failed. */
void soft_cm_found(struct soft_cm_id *id, uint32_t node, uint32_t listener);
void soft_cm_not_found(struct soft_cm_id *id, int status);
/*
 * The listener's link layer is not ours. The event has status -EPROTOTYPE, and
 * both names as private data, because no hardware reports such a fault.
 */
void soft_cm_unlike(struct soft_cm_id *id, uint32_t link);
void soft_cm_later(struct soft_cm_id *id);
void soft_cm_lookup(struct soft_cm_id *id);
/* name.c. Binds an idle id to the address, and claims its port. */
int soft_cm_bind_id(struct soft_cm_id *id, const struct sockaddr_storage *addr);
void soft_cm_unlisten(struct soft_cm_id *id);
void soft_cm_end_lookup(struct soft_cm_id *id);
bool soft_cm_on_device(const struct soft_cm_id *id);
/*
 * ib.c. Takes an address of AF_IB, and makes the id one of GIDs. -EOPNOTSUPP:
 * the link layer is not InfiniBand; -EPROTONOSUPPORT: the service ID is of
 * another port space.
 */
int soft_cm_take_ib(struct soft_cm_id *id, const void *src, size_t len,
		    struct sockaddr_storage *ret);
/* Returns our address or the peer's as one of AF_IB. */
void soft_cm_to_ib(const struct soft_cm_id *id, bool peer,
		   struct __kernel_sockaddr_storage *ret);
/* The GID of our first port, with port 0. */
void soft_cm_own_gid(const struct soft_cm_id *id,
		     struct sockaddr_storage *addr);
/*
 * Returns 0 if this host has the address; of a GID if a node of the fabric has
 * it, or if 'own' this process. Else -EADDRNOTAVAIL, or another -errno.
 */
int soft_cm_local(const struct soft_cm_id *id,
		  const struct sockaddr_storage *addr, bool own);
int soft_cm_copy_addr(struct sockaddr_storage *dst, const void *src,
		      size_t len);
/*
 * name.c. Connects to the name of a listener for messages 'm'; 'any' is that of
 * the wildcard. Returns a descriptor or -errno.
 */
int soft_cm_dial_name(struct soft_dev *dev, const struct soft_cm_msg *m,
		      bool any);
/* Sets the port of id->src to a port that may be free. */
void soft_cm_new_port(struct soft_cm_id *id);
/* conn.c. Begins a message of this id to its peer. */
void soft_cm_msg_init(struct soft_cm_msg *m, const struct soft_cm_id *id,
		      enum soft_msg_type type);
/* Sends a message without private data to the peer, if any. */
int soft_cm_send(struct soft_cm_id *id, enum soft_msg_type type,
		 uint8_t reason);
void soft_cm_new_psn(struct soft_cm_id *id);
void soft_cm_over(struct soft_cm_id *id);
/* Takes a request out of the backlog of its listener. */
void soft_cm_not_waiting(struct soft_cm_id *id);

/* The largest private data of a message of the id; 'max': of IB or RoCE. */
static inline size_t soft_cm_private(const struct soft_cm_id *id, size_t max)
{
	return id->file->dev->iwarp ? SOFT_PRIVATE_IWARP : max;
}

static inline size_t soft_cm_request_len(const struct soft_cm_id *id)
{
	size_t max = id->qp_type == IBV_QPT_UD ? SOFT_PRIVATE_SIDR_REQ :
		     SOFT_PRIVATE_REQ;

	/* the CMA header has addresses of IP */
	return soft_cm_private(id, max + (id->ib ? SOFT_PRIVATE_CMA : 0));
}

/* Returns true if CM messages pass. They use port 1. */
static inline bool soft_cm_carried(const struct soft_dev *dev)
{
	return likely(!dev->faulty) || soft_port_carries(dev, 1);
}

/* iwarp.c */
/* Returns 0, or -errno if the id cannot connect this queue pair. */
int soft_cm_iwarp_check(const struct soft_cm_id *id, uint32_t qp_num);
/* Brings the queue pair id->param.qp_num to RTS. Returns 0 or -errno. */
int soft_cm_iwarp_up(struct soft_cm_id *id, bool passive);
/* The active side is in RTS: the passive side may send. */
void soft_cm_iwarp_ready(struct soft_cm_id *id);
/*
 * Flushes the queue pair of a connection. Unless the peer ends it, what TCP has
 * taken still arrives.
 */
void soft_cm_iwarp_flush(struct soft_cm_id *id, bool by_peer);
/* Tells the peer of the end, behind what TCP has taken. */
void soft_cm_iwarp_fin(struct soft_cm_id *id);
/* The state of ports has changed. */
void soft_cm_iwarp_ports(struct soft_dev *dev);
/*
 * A rejected connection takes its queue pair along, and flushes it before the
 * event (Linux 6.1, siw_cm.c, siw_proc_mpareply(); siw_qp_llp_close()).
 */
void soft_cm_iwarp_rejected(struct soft_cm_id *id);
/* This side, or the peer, closes the connection. */
void soft_cm_iwarp_end(struct soft_cm_id *id);
void soft_cm_iwarp_ended(struct soft_cm_id *id);

/* ud.c */
bool soft_cm_is_ud(const struct soft_cm_id *id);
uint32_t soft_cm_qkey(const struct soft_cm_id *id);
void soft_cm_gid(const struct soft_cm_id *id, bool peer, uint8_t gid[16]);
void soft_cm_ah(const struct soft_cm_id *id, struct ib_uverbs_ah_attr *ah);
void soft_cm_fill_ud(struct soft_cm_event *ev, const struct soft_cm_id *id,
		     const struct soft_cm_msg *m, size_t private_len);
struct soft_cm_mc *soft_cm_mc_find(struct soft_dev *dev, uint32_t handle);
void soft_cm_leave_all(struct soft_cm_id *id);

/* ---- calls from other layers. All L ------------------------------------ */

void soft_cm_message(struct soft_dev *dev, struct soft_wire *w,
		     const struct soft_msg *msg, size_t len);
void soft_cm_wire_down(struct soft_dev *dev, struct soft_wire *w);
/* far.c: a packet for the connection manager; no process is there. */
void soft_cm_packet(struct soft_dev *dev, const struct soft_path *back,
		    const struct packet *p);
void soft_cm_refused(struct soft_dev *dev, const uint8_t to[16]);
/*
 * port.c: a listener or a group has no socket, for this reason; 0: it has one.
 * If another program has the port, it is tried again.
 */
void soft_cm_port_taken(struct soft_dev *dev, int err);
/* seek.c: the device closes. */
void soft_cm_seeks_end(struct soft_dev *dev);
/* iwarp.c: of struct soft_verbs_upward */
void soft_cm_iwarp_qp_over(struct soft_dev *dev, struct soft_qp *qp);
/* The device was removed: raises DEVICE_REMOVAL on every id that used it. */
void soft_cm_removed(struct soft_dev *dev);

#endif
