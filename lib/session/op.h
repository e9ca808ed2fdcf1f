/* SPDX-License-Identifier: BSD-2-Clause */
/* Accepted operations. */
#ifndef RDMAMSG_LIB_OP_H
#define RDMAMSG_LIB_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct rdmamsg_ep;
struct rdmamsg_msg;
struct rndv_in;
struct rndv_out;

enum op_kind { OP_EAGER, OP_RNDV, OP_READ, OP_PROOF, OP_CTRL, OP_RMA };

/* How the end of an operation is told: what its cookie is. */
enum tell {
	TELL_PROGRAM,			/* the program's, or NULL */
	TELL_WAITER,			/* a struct rdmamsg_waiter */
	TELL_DEADLINE,			/* a struct op_deadline */
};

/* An operation may be a piece of a message. */
enum piece { PIECE_NONE, PIECE_FIRST, PIECE_MORE };

/* An accepted operation. Slots of the send queue point to operations. */
struct op {
	struct op *next;		/* free list */
	struct list node;		/* in send.queue or rndv.out */
	enum op_kind kind;
	uint8_t refs;			/* rendezvous: request and DONE */
	uint8_t ctrl;			/* OP_CTRL: proto_type, 0: keepalive */
	uint8_t tell;			/* enum tell */
	bool invalidate;		/* OP_EAGER: PROTO_INVALIDATE */
	uint8_t piece;			/* OP_EAGER: enum piece */
	int status;
	uint32_t number;
	uint32_t tag;			/* PIECE_MORE: its index */
	uint32_t len;
	void *cookie;
	struct rdmamsg_msg *msg;	/* buffer to free at the end, or NULL */
	struct rndv_out *rndv;
	union {
		struct rndv_in *in;	/* OP_READ, OP_PROOF */
		uint64_t region;	/* invalidate: of the peer's window */
	};
	uint32_t rkey;			/* invalidate: of the window */
};

/* op.c. -ENOMEM; -EAGAIN: op_max is reached. */
int rdmamsg__ops_grow(struct rdmamsg_ep *ep);
void rdmamsg__ops_free(struct rdmamsg_ep *ep);
struct op *rdmamsg__op_get(struct rdmamsg_ep *ep);
void rdmamsg__op_put(struct rdmamsg_ep *ep, struct op *op);
void rdmamsg__op_complete(struct rdmamsg_ep *ep, struct op *op, int status);
/* Returns true if on_complete will have this cookie of the program. */
bool rdmamsg__op_has(const struct op *op, const void *cookie);
/*
 * The operation has ended, and send.late is not 0, or it has a deadline:
 * on_complete comes behind that of the operations before.
 */
void rdmamsg__tell_late(struct rdmamsg_ep *ep, struct op *op, int status);
/*
 * Calls on_complete for the operations that have ended when it is called,
 * unless that must still wait.
 */
void rdmamsg__tell_untold(struct rdmamsg_ep *ep);

#endif
