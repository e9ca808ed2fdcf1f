/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A carrier is a UD queue pair with a CM id. It serves the groups of a context
 * that are joined from the same local address. It moves datagrams and knows no
 * frames.
 */
#ifndef RDMAMSG_LIB_CARRIER_H
#define RDMAMSG_LIB_CARRIER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "base/list.h"
#include "device/verbs_api.h"
#include "memory/stretch.h"
#include "session/ep.h"

#define CARRIERS	1024u		/* per context */

struct carrier_wants {
	const char *source, *device;	/* or NULL */
	enum rdma_port_space ps;
	bool bound;			/* bind to source or device: no route */
	bool unicast;			/* no multicast is needed */
	uint32_t recv_depth, send_depth;
	struct sockaddr_storage via;	/* local address of the route */
};

enum carrier_state { CARRIER_RESOLVING, CARRIER_READY, CARRIER_FAILED };

struct recv_slot;

/* A request whose completion is reported. */
struct carrier_note {
	struct rdmamsg_group *group;	/* or NULL */
	uint64_t message;
};

struct carrier {
	struct list node;		/* in groups->carriers */
	struct rdmamsg *ctx;
	struct cm_owner owner;		/* of the id */
	const struct verbs_api *v;
	struct rdma_cm_id *id;
	enum rdma_port_space ps;
	bool bound, unicast;
	char *source, *device;		/* of the program, or NULL */
	struct sockaddr_storage via;	/* local address of the route */
	enum carrier_state state;
	uint32_t index;			/* in wr_id */

	struct dev *dev;
	struct cq *cq;
	struct ibv_qp *qp;
	uint8_t port;
	bool is_ib;			/* link layer of the port */
	bool port_down;			/* IBV_EVENT_PORT_ERR has come */
	uint32_t mtu;			/* largest payload of a datagram */
	uint32_t qkey;
	uint8_t sgid_index;		/* of datagrams; once joined */
	union ibv_gid sgid;		/* GID at sgid_index */
	bool addressed;			/* both are known */
	struct list waiting;		/* groups that wait for room */
	struct list draining;		/* groups that leave */

	struct stretch recv_mem, send_mem;
	struct recv_slot *recv_slots;
	struct carrier_note *notes;	/* one for each request */
	uint32_t max_inline;
	uint32_t recv_depth, send_depth;
	struct ibv_recv_wr *reposts;	/* to be posted */
	uint32_t repost_count;
	uint32_t sent, done;		/* requests sent, requests completed */
	/* a call has handled completions before the loop: */
	bool left;			/* the loop has to do something */
	bool leaves;			/* it gets a completion for that */
	uint32_t left_to;		/* 'done' after that */
	uint32_t round_sent;		/* 'sent' at the first of these calls */
	struct list old_ahs;		/* requests still use them */
	struct list groups;		/* struct rdmamsg_group */
	uint32_t users;			/* groups, ended ones included */
	uint64_t deaf_until;		/* ms: see rdmamsg__carrier_way() */
};

/* The sender of a datagram. */
struct carrier_peer {
	union ibv_gid gid;
	uint32_t qpn;
	uint16_t slid;
	uint8_t sl, path_bits;
};

/* The destination of a datagram. */
struct carrier_to {
	struct ibv_ah *ah;
	uint32_t qpn, qkey;
	const uint32_t *imm;		/* host byte order, or NULL */
	bool signaled;			/* wants a completion */
	struct carrier_note note;	/* for the completion */
};

struct datagram {
	const uint8_t *data;		/* after the GRH */
	uint32_t len;
	const struct ibv_grh *grh;	/* as received */
	union ibv_gid to;		/* from grh; IPv4 is mapped */
	struct carrier_peer from;
	bool has_imm;
	uint32_t imm;			/* host byte order */
};

/*
 * In events of the device, this bit of qp_context marks the queue pair of a
 * carrier.
 */
#define CARRIER_TAG	2u
struct carrier *rdmamsg__carrier_of(const struct ibv_qp *ibv);
/* Names a carrier for rdmamsg__carrier_failed(). */
uint64_t rdmamsg__carrier_key(const struct carrier *c);
/* Its queue pair has failed: the groups join again on another one. */
void rdmamsg__carrier_failed(struct rdmamsg *ctx, uint64_t key, int type);

/*
 * Sets wants->via to the local address of the route to the group. Without a
 * route, or if the program has named source or device, sets only its family.
 */
void rdmamsg__carrier_route(const struct sockaddr_storage *group,
			    struct carrier_wants *wants);
/*
 * Returns the carrier for these wants. Makes it if needed. Each call needs a
 * put. The carrier may still be resolving. Returns 0 or -errno.
 */
int rdmamsg__carrier_get(struct rdmamsg *ctx,
			 const struct sockaddr_storage *group,
			 const struct carrier_wants *wants, uint32_t timeout_ms,
			 struct carrier **ret);
/* Frees the carrier after its last group has gone. */
void rdmamsg__carrier_put(struct carrier *c);
/* Sets the port's address that is the source of datagrams. */
void rdmamsg__carrier_address(struct carrier *c, uint8_t sgid_index);
/*
 * The carrier serves no group any more. Its groups find another carrier, or
 * end.
 */
void rdmamsg__carrier_lost(struct carrier *c, enum rdmamsg_who who,
			   enum rdmamsg_cause cause, int error,
			   const char *text);
/* The device has failed or is gone. All groups of the carrier end. */
void rdmamsg__carrier_end(struct carrier *c, enum rdmamsg_cause cause,
			  int error, const char *text);

/*
 * Returns a buffer for a datagram, or NULL if all are in use. Use it at once:
 * rdmamsg__carrier_send() sends it.
 */
void *rdmamsg__carrier_buffer(struct carrier *c);
uint32_t rdmamsg__carrier_room(const struct carrier *c);
/*
 * The queue is full. In a callback, handles completions that are there, but
 * calls no callback. Returns true if there is room now.
 */
bool rdmamsg__carrier_make_room(struct carrier *c);
/* Requests in the queue report nothing to this group any more. */
void rdmamsg__carrier_unnote(struct carrier *c, const struct rdmamsg_group *g);
/* Returns 0, or -errno. Then the buffer is free again. */
int rdmamsg__carrier_send(struct carrier *c, uint32_t len,
			  const struct carrier_to *to);
/*
 * Finds the way back to the sender of a datagram, from its addresses and never
 * from its content. Returns 0 or -errno. The caller drops the address handle.
 * The kernel waits for an address that does not answer. After such an address
 * the call returns -EAGAIN for a while.
 */
int rdmamsg__carrier_way(struct carrier *c, const struct carrier_peer *peer,
			 struct carrier_to *ret);
/* The same of a peer that has proved its address, so that nothing is refused. */
int rdmamsg__carrier_known_way(struct carrier *c,
			       const struct carrier_peer *peer,
			       struct carrier_to *ret);
/* Destroys the address handle when no request needs it any more. */
void rdmamsg__carrier_drop_ah(struct carrier *c, struct ibv_ah *ah);
/* The same of one that is kept, if it is. */
void rdmamsg__carrier_forget_way(struct carrier *c, struct carrier_to *way);

/* Handles a completion with GROUP_KEY. */
void rdmamsg__carrier_done(struct rdmamsg *ctx, const struct ibv_wc *wc);
/*
 * Handles it inside a call, see base/ctx.h. Callbacks, and all that can lead to
 * one, wait for the loop: an early completion stays for it.
 */
void rdmamsg__carrier_early(struct rdmamsg *ctx, struct cq *cq,
			    const struct ibv_wc *wc);

/* carrier_qp.c */
/*
 * Makes queue pair, memory and receives on the device of the id. After -errno
 * call rdmamsg__carrier_unmake().
 */
int rdmamsg__carrier_make(struct carrier *c);
void rdmamsg__carrier_unmake(struct carrier *c);
/* Destroys dropped address handles that no request needs any more, or all. */
void rdmamsg__carrier_old_ahs(struct carrier *c, bool all);

/* datagram.c: posts all receives. */
int rdmamsg__carrier_receives(struct carrier *c);

/* Bytes of a receive, and of the buffer of a request. */
#define GRH		((uint32_t)sizeof(struct ibv_grh))
#define CARRIER_LINE	64u

static inline uint32_t rdmamsg__carrier_recv_size(const struct carrier *c)
{
	return (GRH + c->mtu + CARRIER_LINE - 1) / CARRIER_LINE * CARRIER_LINE;
}

static inline uint32_t rdmamsg__carrier_send_size(const struct carrier *c)
{
	return (c->mtu + CARRIER_LINE - 1) / CARRIER_LINE * CARRIER_LINE;
}

#endif
