/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port: what a target or sender has on one device for DC. It is a DCT with a
 * shared receive queue, and some initiators (DCIs). A peer is the DCT of the
 * other side. An initiator is bound to one peer until all of its requests are
 * complete. Peers without an initiator wait in a row.
 *
 *   peer --+                  +-- DCI 0, bound to a peer
 *   peer --+-- row of port ---+-- DCI 1
 *   peer --+                  +-- ...
 *
 * The row has one place for each address with peers that wait, and the next
 * initiator is for the next address. Anybody with the access key is a peer, and
 * can leave a request unanswered. So an address has at most half of the
 * initiators, peers that have not proven to take requests together have half,
 * and those of one address a quarter. If one does not answer, those that wait
 * for the same process do not try.
 */
#ifndef RDMAMSG_LIB_DC_PORT_H
#define RDMAMSG_LIB_DC_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#include "base/handles.h"
#include "base/list.h"
#include "base/timer.h"
#include "device/dc.h"
#include "device/path.h"
#include "memory/memory.h"
#include "memory/pool.h"
#include "memory/stretch.h"
#include "wire/dc_frame.h"

#define PORT_SLOTS	64u	/* requests of an initiator */
#define PORT_SPARE	2u	/* of them, that only ask for a completion */
#define PORT_SILENT	16u	/* at least one of these has a completion */
#define PORT_DCIS	256u	/* initiators of a port, at most */
#define PORT_SLOT	4096u	/* bytes of a frame, at most */
/* from slot to slot, so that frames do not share lines of a cache */
#define PORT_STRIDE	(PORT_SLOT + 64)
#define PORT_TICK_MS	500u
#define PORT_DEAF_MS	600000u	/* after an address that a stranger has named */
#define PORT_PORTS	2048u	/* of a context */
#define PORT_LAZY	8u	/* receives that are not posted before others */

struct cq;
struct dc_port;
struct port_dci;

/* A request under way. Its meaning is the user's. */
struct dc_tx {
	uint8_t kind;
	bool late;			/* nobody waits for its completion */
	uint8_t *slot;			/* its memory */
	void *of;
	void *cookie;
};

/* Peers of an origin that wait for an initiator. */
struct dc_queue {
	struct list node;		/* of the port, if one may be served */
	struct list peers;
};

/* The address that peers have come from. */
struct dc_origin {
	void **slot;			/* that names it */
	uint32_t peers;
	uint32_t bound, doubtful;	/* of them, with an initiator */
	struct dc_queue row, doubts;
};

struct dc_peer {
	struct dc_port *port;
	struct dc_origin *origin;
	struct list row;		/* of its origin */
	struct port_dci *dci;		/* bound, or NULL */
	struct dc_to to;
	uint32_t handle;		/* of this side, in the port */
	uint64_t token;			/* of the handle: random */
	/* requests that it must take before it is trusted; 0: it is */
	uint32_t doubtful;
	bool counted;			/* in origin->doubtful */
};

struct port_ops {
	/*
	 * A frame has arrived in msg->buf. Returns true if the callee keeps the
	 * message.
	 */
	bool (*frame)(struct dc_port *p, const struct dc_frame *f,
		      struct rdmamsg_msg *msg, size_t len);
	/* The peer has an initiator: posts what is due. May end no peer. */
	void (*pump)(struct dc_peer *peer);
	/* A request has completed. May end no peer. */
	void (*done)(struct dc_peer *peer, const struct dc_tx *tx,
		     const struct ibv_wc *wc);
	/*
	 * All requests under way are complete, and the peer may end. why: the
	 * completion that failed, or NULL.
	 */
	void (*idle)(struct dc_peer *peer, const struct ibv_wc *why);
	/* Returns true if the peer has something to post now. */
	bool (*wants)(const struct dc_peer *peer);
	/* An initiator leaves its peer for another. NULL: not told. */
	void (*evicted)(struct dc_port *p);
	/*
	 * If other peers wait, the requests of a peer fail after this many
	 * ticks without progress. 0: they do not fail sooner than otherwise.
	 */
	uint32_t patience;
	/* Returns true if one more initiator may be bound. */
	bool (*may_bind)(struct dc_port *p);
	/* Receives are posted again, after a shortage. */
	void (*fed)(struct dc_port *p);
	/*
	 * Twice a second. May end peers. If the port has failed, ends all of
	 * them and closes the port.
	 */
	void (*tick)(struct dc_port *p);
};

struct port_dci {
	struct dci dci;
	struct dc_port *port;
	uint32_t index;			/* in the port, and in wr_id */
	struct dc_peer *peer;		/* or NULL */
	struct cq *cq;
	struct stretch mem;
	uint32_t sent, done;
	uint32_t silent;		/* sent behind the last completion */
	uint32_t burst;			/* posted since it was bound */
	uint32_t seen, stalled;		/* done at the last tick, and since */
	uint64_t used;			/* port->uses, at last */
	bool broken;
	bool dead;			/* not used again */
	struct ibv_wc why;		/* the first that failed */
	struct dc_tx tx[PORT_SLOTS];
};

struct port_wants {
	struct dev *dev;
	const struct port_ops *ops;
	void *owner;
	const struct sockaddr *local;	/* address of the port, or NULL */
	uint64_t key;
	uint32_t receives;		/* at first; 0: depth */
	uint32_t depth;			/* receives, at most */
	size_t size;			/* of each */
	uint32_t initiators;
	const struct rdmamsg_ep_options *ep;	/* or NULL; checked */
};

struct dc_port {
	struct list node;		/* of the owner */
	struct rdmamsg *ctx;
	const struct port_ops *ops;
	void *owner;
	struct dev *dev;
	struct oob path;
	struct dci_attr dci_attr;
	uint32_t min_rnr_timer;
	struct cq *cq;			/* of receives */
	struct ibv_srq *srq;
	struct ibv_qp *dct;
	uint64_t key;
	struct pool *pool;
	size_t size;
	struct rdmamsg_msg **recv;	/* by slot; NULL: not posted */
	uint32_t *holes;		/* slots that are not posted */
	uint32_t hole_count;
	uint32_t receives;		/* slots that are in use */
	uint32_t depth;			/* slots */
	uint32_t index;			/* in wr_id */
	struct port_dci **dcis;
	uint32_t dci_count, dci_max;
	uint32_t bound;			/* initiators with a peer */
	uint64_t uses;
	uint32_t waiting;		/* peers that wait for an initiator */
	struct list row;		/* struct dc_queue of trusted ones */
	struct list doubts;		/* and of others */
	uint32_t doubtful;		/* of these, with an initiator */
	bool after_doubtful;		/* the last turn was theirs */
	struct dc_origin any;		/* of peers that are not limited */
	struct handles peers;
	struct timer tick;
	bool ticks;
	struct starving starving;
	bool failed;			/* the next tick ends it */
	bool told_version;		/* of frames that are ignored */
	uint64_t deaf_until;		/* ms: see rdmamsg__peer_open() */
};

/*
 * Takes over the reference of wants->dev if it returns 0. -EOPNOTSUPP: the
 * device has no DC.
 */
int rdmamsg__port_open(const struct port_wants *wants, struct dc_port **ret);
/* Lets the port have this many receives, if it has fewer. */
void rdmamsg__port_receive(struct dc_port *p, uint32_t receives);
/* Ends the port. Its peers are closed before, or use it no more. */
void rdmamsg__port_close(struct dc_port *p);
/* The DCT of this port, for the other side. */
void rdmamsg__port_place(const struct dc_port *p, struct dc_place *ret);
/* Handles a completion with DC_KEY. */
void rdmamsg__port_completed(struct rdmamsg *ctx, const struct ibv_wc *wc);

/* The queue delivers no more completions. */
void rdmamsg__ports_cq_failed(struct rdmamsg *ctx, const struct cq *cq);

/*
 * -EHOSTUNREACH: a place of another kind. The call waits for an address that
 * does not answer. from: the address that has named the place, or NULL. If it
 * named another than itself in vain, such places return -EAGAIN for
 * PORT_DEAF_MS. Places that the program asked for do so for a shorter time.
 */
int rdmamsg__peer_open(struct dc_port *p, const struct dc_place *place,
		       uint64_t key, const struct sockaddr_storage *from,
		       struct dc_peer *peer);
/*
 * Lets the limits of an origin count for the peer, which has just been opened.
 * *slot is the same for all peers of the address, NULL at first, and lives as
 * long as they do. Returns 0 or -ENOMEM.
 */
int rdmamsg__peer_limit(struct dc_peer *peer, void **slot);
/* The peer has taken a request that needs one of its receives. */
void rdmamsg__peer_taken(struct dc_peer *peer);
/* No request of the peer is under way. */
void rdmamsg__peer_close(struct dc_peer *peer);
/*
 * Returns the peer that this side has given the handle and the token of the
 * frame, or NULL.
 */
struct dc_peer *rdmamsg__peer_of(const struct dc_port *p,
				 const struct dc_frame *f);
/*
 * Returns true if the peer can post now. Otherwise pump() follows, if something
 * is due.
 */
bool rdmamsg__peer_bind(struct dc_peer *peer);
/* Gives an idle initiator to no peer. Returns false if all are in use. */
bool rdmamsg__port_unbind(struct dc_port *p);
/* Lets peers of the row begin, if there are initiators for them. */
void rdmamsg__port_serve(struct dc_port *p);
/*
 * Lets the requests of the peer complete as flushed, although the device has
 * not completed them. The port is about to end.
 */
void rdmamsg__peer_drop(struct dc_peer *peer);
/* Lets idle() follow soon, if the peer posts nothing more. */
void rdmamsg__peer_ask(struct dc_peer *peer);
/* Fails the requests of the peer. idle() follows, if there are any. */
void rdmamsg__peer_fail(struct dc_peer *peer);

static inline bool rdmamsg__peer_busy(const struct dc_peer *peer)
{
	return peer->dci && peer->dci->sent != peer->dci->done;
}

#define PORT_BURST	128u	/* requests before the next peer's turn */

/* Returns how many requests the peer can post now. */
static inline uint32_t rdmamsg__peer_room(const struct dc_peer *peer)
{
	const struct port_dci *d = peer->dci;
	uint32_t used;

	if (!d || d->broken ||
	    (d->burst >= PORT_BURST && d->port->waiting))
		return 0;
	used = d->sent - d->done;
	return used < PORT_SLOTS - PORT_SPARE ? PORT_SLOTS - PORT_SPARE - used :
	       0;
}

/* Returns the memory of the next request. The peer has room. */
static inline uint8_t *rdmamsg__peer_slot(const struct dc_peer *peer)
{
	const struct port_dci *d = peer->dci;

	return (uint8_t *)d->mem.mem +
	       (size_t)(d->sent % PORT_SLOTS) * PORT_STRIDE;
}

/* Posts the frame in the slot. The peer has room. */
void rdmamsg__peer_send(struct dc_peer *peer, uint32_t len, struct dc_tx tx);
/*
 * Posts a frame with this header and body, of together at most max_inline
 * bytes. The body is free on return. The peer has room.
 */
void rdmamsg__peer_send_small(struct dc_peer *peer, const struct dc_frame *f,
			      const void *body, size_t len, struct dc_tx tx);
/* Posts another request. wr_id and flags for a completion are set here. */
void rdmamsg__peer_post(struct dc_peer *peer, struct ibv_send_wr *wr,
			struct dc_tx tx);
/* Returns an entry for memory of the slot. */
struct ibv_sge rdmamsg__peer_sge(const struct dc_peer *peer, uint32_t len);

#endif
