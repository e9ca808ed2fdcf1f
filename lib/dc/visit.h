/* SPDX-License-Identifier: BSD-2-Clause */
/* A visitor of a target, and its messages that are not delivered. */
#ifndef RDMAMSG_LIB_DC_VISIT_H
#define RDMAMSG_LIB_DC_VISIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "dc/dc.h"
#include "dc/port.h"
#include "dc/visitor.h"
#include "memory/memory.h"

struct rdmamsg_msg;
struct proto_rndv;
struct ticket;

#define VISIT_RECEIVE	4096u	/* bytes of a receive, with the header */

/* The kinds of struct dc_tx. */
enum visit_tx { TX_FRAME, TX_DONE, TX_READ, TX_BYE };
enum item_state { ITEM_WAITS, ITEM_DONE_DUE, ITEM_DONE_SENT };

/* A message that is not delivered, or whose DONE has not arrived. */
struct item {
	struct list node;		/* of the visitor */
	enum item_state state;
	uint32_t number, tag;
	uint8_t type;			/* DATA, RNDV or WRITTEN */
	uint8_t result;			/* enum proto_done */
	struct rdmamsg_msg *msg;	/* NULL: RNDV without memory */
	struct proto_rndv *wire;	/* of RNDV */
	uint32_t key;			/* of the next read */
	uint64_t offset;		/* in this key */
	uint32_t filled, arrived;	/* bytes */
};

struct visitor {
	struct dc_peer peer;		/* first */
	struct list node;		/* of the target */
	struct rdmamsg_dc_target *t;
	struct ticket *ticket;		/* its admission */
	uint64_t sender;
	uint32_t far_handle;
	uint64_t far_token;
	uint32_t next, announced, grant;
	uint32_t limit;			/* in the last CREDIT or WELCOME */
	bool welcome_due, probe_due, bye_due;
	uint32_t asked;			/* number of the last ASK; 0: none */
	bool unheard;			/* no frame since HELLO */
	bool leaves;			/* has been asked to end */
	/*
	 * An answer has failed. The visitor may still send, so what it sends is
	 * delivered. Any frame shows that it is there, and ends this.
	 */
	bool deaf;
	bool ended;
	uint8_t reason;			/* tag of BYE: 1, after an error */
	uint32_t quiet;			/* ticks since a sign of life */
	uint32_t farewell;		/* ticks since it has been asked to */
	uint32_t reads;
	uint32_t hungry;		/* ticks without memory */
	uint32_t kept;			/* of both lists */
	struct list queue;		/* struct item, in order */
	struct list dones;		/* struct item */
	/* one for each credit, so that no message lacks memory for it */
	struct item *items;
	struct list spare;
	struct starving starving;	/* for memory of the first message */
};

static inline struct visitor *visitor_of(struct dc_peer *peer)
{
	return (struct visitor *)peer;
}

/* visitor.c */
/* The visitor has broken the protocol. */
void rdmamsg__visitor_refuse(struct visitor *v, const char *what);

/* answer.c */
/* Promises credits for receives that are posted. */
void rdmamsg__visitor_announce(struct visitor *v);
bool rdmamsg__visitor_wants(const struct dc_peer *peer);
void rdmamsg__visitor_pump(struct dc_peer *peer);
/* Sends what is due, if there is an initiator. */
void rdmamsg__visitor_go_on(struct visitor *v);
uint32_t rdmamsg__visitor_max_msg(const struct rdmamsg_dc_target *t);

/* fetch.c */
void rdmamsg__item_free(struct visitor *v, struct item *i);
/* The large message finds no memory. Its sender is told. */
void rdmamsg__item_refuse(struct visitor *v, struct item *i);
void rdmamsg__visitor_deliver(struct rdmamsg_dc_target *t,
			      struct rdmamsg_msg *msg, uint64_t sender);
void rdmamsg__visitor_written(struct visitor *v, uint32_t value);
/* Reads the first message of the queue, as far as there is room. */
void rdmamsg__fetch_some(struct visitor *v);
bool rdmamsg__fetch_due(const struct visitor *v);
/* A read has completed. */
void rdmamsg__fetch_done(struct visitor *v, const struct dc_tx *tx);
/* All reads are over. What has not arrived is read again. */
void rdmamsg__fetch_again(struct visitor *v);
/* Refuses a message that waits for memory. */
void rdmamsg__fetch_refuse(struct visitor *v);
void rdmamsg__fetch_fed(struct starving *w);

#endif
