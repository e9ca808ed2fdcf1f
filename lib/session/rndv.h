/* SPDX-License-Identifier: BSD-2-Clause */
/* Large messages: what this side announces, and what it reads. */
#ifndef RDMAMSG_LIB_RNDV_H
#define RDMAMSG_LIB_RNDV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#include "base/list.h"
#include "memory/large.h"
#include "session/destination.h"
#include "wire/proto.h"

struct account;
struct dev;
struct lent;
struct rdmamsg_layout;
struct rdmamsg_region;
struct op;
struct verbs_api;

/* A large message that this side has announced. */
struct rndv_out {
	uint32_t total;
	uint32_t count;
	uint64_t since;			/* ms */
	const struct verbs_api *v;	/* of the registrations */
	bool has_crc;
	uint32_t crc;			/* of the message */
	struct rdmamsg_msg *payload;	/* owned large message, or NULL */
	bool source;			/* the payload's memory is registered */
	uint64_t reader;		/* rendezvous.reader */
	/* registrations of the segments that are not empty */
	struct ibv_mr *mr[RDMAMSG_SEGMENTS_MAX];
	/* NULL: registered for this message only */
	struct rdmamsg_region *region[RDMAMSG_SEGMENTS_MAX];
	uint64_t addr[RDMAMSG_SEGMENTS_MAX];
	void *base[RDMAMSG_SEGMENTS_MAX];
	uint64_t len[RDMAMSG_SEGMENTS_MAX];
};

enum in_state { IN_ANNOUNCED, IN_READING, IN_REFUSED, IN_READY };

/* A large message that the peer has announced and this side reads. */
struct rndv_in {
	struct list node;		/* rndv.fetching, in order of numbers */
	struct rdmamsg_ep *ep;
	struct rdmamsg_msg *announced;	/* in rndv.waiting */
	struct destination dst;
	struct sink sink;		/* memory of the program */
	void *again;			/* the same, to be registered again */
	struct rdmamsg_layout *layout;	/* scatter.h, or NULL */
	uint64_t at;			/* of the message in the layout */
	enum in_state state;
	uint8_t done;			/* enum proto_done to send */
	bool done_due;
	bool asked;			/* on_incoming was called */
	bool refused;			/* a read of it, by the peer's device */
	uint32_t number;
	uint32_t tag;
	uint32_t reads;			/* outstanding */
	uint32_t key;			/* index of the key of the next read */
	uint64_t offset;		/* of the next read in this key */
	uint32_t filled;		/* bytes of reads that are posted */
	uint32_t arrived;		/* bytes of reads that are done */
	struct proto_rndv wire;
};

struct rendezvous {
	struct list out;		/* struct op: announced by this side */
	uint32_t count;			/* of 'out' */
	uint32_t fetch_count; /* announced by the peer, no DONE sent */
	struct list fetching;		/* rndv_in of those announcements */
	struct rndv_in *asking;		/* in on_incoming, or NULL */
	/*
	 * Announcements of large messages that have not arrived, and the data
	 * messages behind them, in order. Each keeps its receive buffer and its
	 * credit.
	 */
	struct {
		struct rdmamsg_msg *first, **last;
		uint32_t count;
		struct rdmamsg_msg *unparsed;	/* RNDV without a rndv_in */
	} waiting;
	struct lent *lent;		/* memory of the peer's messages */
	struct account *shares;		/* account of the SRQ, or NULL */
	size_t charged;			/* to lent->account, for receives */
	uint64_t reader;		/* id for sources, 0 before the first */
	uint32_t announced_max;		/* largest message, as in our SETUP */
	uint32_t holds_max; /* largest message for the library's memory */
};

/* rndv.c */
/*
 * Registers the segments. 'regions' is NULL, or has the region of each segment,
 * already registered, or NULL.
 */
int rdmamsg__rndv_prepare(struct rdmamsg_ep *ep, const struct iovec *iov,
			  int iovcnt, uint32_t total,
			  struct rdmamsg_region *const *regions,
			  struct rdmamsg_msg *payload, struct rndv_out **ret);
void rdmamsg__rndv_free(struct rdmamsg_ep *ep, struct rndv_out *r);
void rdmamsg__rndv_announce(struct rdmamsg_ep *ep, struct op *op);
/* Sends the announcement of an operation in rndv.out. */
void rdmamsg__rndv_tell(struct rdmamsg_ep *ep, struct op *op);
/* Returns the id of the endpoint for sources. */
uint64_t rdmamsg__rndv_reader(struct rdmamsg_ep *ep);
/* The endpoint has ended: the peer reads no source any more. */
void rdmamsg__rndv_end(struct rdmamsg_ep *ep);
/* The lane is lost: ends the registrations, makes others for a device. */
void rdmamsg__rndv_forget(struct rdmamsg_ep *ep, struct rndv_out *r);
int rdmamsg__rndv_register(struct dev *dev, struct rndv_out *r);
static inline bool rdmamsg__rndv_registered(const struct rndv_out *r)
{
	return !r->count || r->mr[0];
}
/* The lane is lost: a message that is not whole must be read again. */
void rdmamsg__rndv_in_lost(struct rndv_in *in);
/* Returns 0. -EPROTO: the announcement is wrong, and the endpoint ends. */
int rdmamsg__rndv_check(struct rdmamsg_ep *ep, const void *buf, size_t len);
/* Creates the rndv_in of this announcement. -ENOMEM */
int rdmamsg__rndv_in_new(struct rdmamsg_ep *ep, struct rdmamsg_msg *announced);
void rdmamsg__rndv_done(struct rdmamsg_ep *ep, const struct proto_hdr *hdr);
void rdmamsg__rndv_read_done(struct rdmamsg_ep *ep, struct op *op, int status);
void rdmamsg__rndv_proven(struct rdmamsg_ep *ep, struct op *op, int status);
void rdmamsg__rndv_pump(struct rdmamsg_ep *ep);
void rdmamsg__rndv_in_free(struct rndv_in *in);

#endif
