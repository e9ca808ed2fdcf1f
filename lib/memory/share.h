/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared messages: messages with references, which any thread may free.
 *
 * The first rdmamsg_msg_ref() gives a message a struct share and makes it
 * MSG_SHARED. 'refs' counts the references of the program, 'ops' the operations
 * that send the message. A message stays lent until refs == 0, which the
 * context's thread learns either from its own calls or from 'returned'. The
 * message ends when refs == 0 && ops == 0.
 *
 * The struct shares of a context outlives the context, for as long as there are
 * shared messages. It is wiped in a forked child.
 */
#ifndef RDMAMSG_LIB_SHARE_H
#define RDMAMSG_LIB_SHARE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/submit.h"

struct lent;
struct rdmamsg;
struct rdmamsg_msg;

struct share {
	struct list node;		/* shares->live */
	struct share *next;		/* shares->returned */
	struct shares *owner;
	struct rdmamsg_msg *msg;
	struct lent *lent_by;		/* of the peer, as in the message */
	_Atomic uint32_t refs;		/* any thread */
	_Atomic uint32_t ops;		/* written by the context's thread */
	bool in_place;			/* in its slot, on_message runs */
	bool given;			/* the context's thread saw refs == 0 */
};

struct shares {
	uint32_t magic;			/* SHARES_MAGIC; 0 in a forked child */
	pthread_mutex_t lock;		/* for all below, except 'given' */
	struct rdmamsg *ctx;		/* NULL: closed */
	uint32_t users;			/* the context, and each share */
	struct list live;
	struct share *returned;		/* by other threads */
	bool posted;			/* 'mail' is on its way */
	struct mail mail;
	/* Set by lib/loop: rdmamsg__shared_given(). Context's thread. */
	void (*given)(struct share *s);
};

#define SHARES_MAGIC	0x53484152u

/* -ENOMEM */
int rdmamsg__shares_open(struct rdmamsg *ctx, void (*given)(struct share *s));
/*
 * The context closes, and no operation is left. Shared messages keep their
 * memory. Called before the devices are closed.
 */
void rdmamsg__shares_close(struct rdmamsg *ctx);
/* The context no longer runs mail. */
void rdmamsg__shares_free(struct rdmamsg *ctx);
/*
 * Takes back the messages whose last reference another thread has freed. The
 * loop does so, too. Context's thread.
 */
void rdmamsg__shares_drain(struct rdmamsg *ctx);

/* Makes msg, which the program has, a shared message. -ENOMEM */
int rdmamsg__share_new(struct rdmamsg_msg *msg);
/*
 * The message ends or is no longer shared: frees its share. Context's thread.
 */
void rdmamsg__share_end(struct share *s);
/* -ECHILD: this process was forked from the one that has the message. */
int rdmamsg__share_check(const struct share *s);
/* Drops a reference of the program. Returns true if it was the last one. */
bool rdmamsg__share_drop(struct share *s);
/* Any thread has dropped the last reference, and leaves the rest to others. */
void rdmamsg__share_return(struct share *s);
/* Returns true if the caller has the only reference. */
bool rdmamsg__share_is_alone(const struct share *s);
/*
 * The message has left its slot. 'by' is the struct lent that counts it, or
 * NULL.
 */
void rdmamsg__share_kept(struct share *s, struct lent *by);

/*
 * The slot of a receive is freed. An exception may have left on_message while
 * the message was in the slot. If the program shares it, the program keeps it.
 */
void rdmamsg__slot_put(struct rdmamsg_msg *msg);

#endif
