/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A carrier is a UD queue pair with an id of the connection manager, and serves
 * the groups of a context that are joined through the same port. It moves
 * datagrams and knows no frames.
 */
#ifndef RDMAMSG_LIB_CARRIER_H
#define RDMAMSG_LIB_CARRIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "base/list.h"
#include "device/verbs_api.h"
#include "memory/stretch.h"
#include "session/ep.h"

#define CARRIERS	1024u		/* of one context */

struct carrier_wants {
	const char *source, *device;	/* or NULL */
	enum rdma_port_space ps;
	bool bound;			/* to source or device: no route */
	uint32_t recv_depth, send_depth;
};

enum carrier_state { CARRIER_RESOLVING, CARRIER_READY, CARRIER_FAILED };

struct recv_slot;

struct carrier {
	struct list node;		/* of the context */
	struct rdmamsg *ctx;
	struct cm_owner owner;		/* of the id */
	const struct verbs_api *v;
	struct rdma_cm_id *id;
	enum rdma_port_space ps;
	bool bound;
	char *source, *device;		/* as asked for, or NULL */
	enum carrier_state state;
	uint32_t index;			/* in wr_id */

	struct dev *dev;
	struct cq *cq;
	struct ibv_qp *qp;
	uint8_t port;
	bool is_ib;			/* the port is of InfiniBand */
	uint32_t mtu;			/* largest payload of a datagram */
	uint32_t qkey;
	uint8_t sgid_index;		/* of what is sent; once joined */
	union ibv_gid sgid;		/* there */
	struct list waiting;		/* groups that have found no room */
	struct list draining;		/* those that leave */

	struct stretch recv_mem, send_mem;
	struct recv_slot *recv_slots;
	uint32_t max_inline;
	uint32_t recv_depth, send_depth;
	struct ibv_recv_wr *reposts;	/* not posted yet */
	uint32_t repost_count;
	uint32_t sent, done;		/* all requests, and those completed */
	struct list old_ahs;		/* in use by requests */
	struct list groups;		/* struct rdmamsg_group */
};

/* Who has sent a datagram. */
struct carrier_peer {
	union ibv_gid gid;
	uint32_t qpn;
	uint16_t slid;
	uint8_t sl, path_bits;
};

/* Where a datagram goes. */
struct carrier_to {
	struct ibv_ah *ah;
	uint32_t qpn, qkey;
	const uint32_t *imm;		/* in host order, or NULL */
	bool signaled;			/* its completion is wanted */
};

struct datagram {
	const uint8_t *data;		/* without GRH */
	uint32_t len;
	const struct ibv_grh *grh;	/* as it came */
	union ibv_gid to;		/* out of it; IPv4: mapped */
	struct carrier_peer from;
	bool has_imm;
	uint32_t imm;			/* in host order */
};

/*
 * The carrier for these wants, a new one if there is none; each call is paired
 * with a put. It may be resolving still. -errno
 */
int rdmamsg__carrier_get(struct rdmamsg *ctx,
			 const struct sockaddr_storage *group,
			 const struct carrier_wants *wants, uint32_t timeout_ms,
			 struct carrier **ret);
/* The last group has gone: the carrier goes too. */
void rdmamsg__carrier_put(struct carrier *c);
/* Which of the port's addresses is the source of what is sent. */
void rdmamsg__carrier_address(struct carrier *c, uint8_t sgid_index);
/* It serves nobody any more. Its groups look for another one, or end. */
void rdmamsg__carrier_lost(struct carrier *c, enum rdmamsg_who who,
			   enum rdmamsg_cause cause, int error,
			   const char *text);
/* Its device fails or has gone: its groups end. */
void rdmamsg__carrier_end(struct carrier *c, enum rdmamsg_cause cause,
			  int error, const char *text);

/*
 * A buffer for a datagram, or NULL: all are in use. It is sent by the next
 * call, and not kept for later.
 */
void *rdmamsg__carrier_buffer(struct carrier *c);
uint32_t rdmamsg__carrier_room(const struct carrier *c);
/* -errno; the buffer is free then. */
int rdmamsg__carrier_send(struct carrier *c, uint32_t len,
			  const struct carrier_to *to);
/*
 * The way to whom a datagram came from: by its addresses, never by its content.
 * -errno; the caller drops the address handle.
 */
int rdmamsg__carrier_way(struct carrier *c, const struct carrier_peer *peer,
			 struct carrier_to *ret);
/* Destroyed when no request needs it any more. */
void rdmamsg__carrier_drop_ah(struct carrier *c, struct ibv_ah *ah);

/* For the poll loop: a completion with GROUP_KEY. */
void rdmamsg__carrier_done(struct rdmamsg *ctx, const struct ibv_wc *wc);

struct cm_event;
void rdmamsg__carrier_cm_event(struct carrier *c, const struct cm_event *ev);

#endif
