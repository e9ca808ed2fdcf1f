/* SPDX-License-Identifier: BSD-2-Clause */
/* State of a process. A process has one thread and one context. */
#ifndef CHAOS_WORKER_H
#define CHAOS_WORKER_H

#include "chaos.h"

#include <stdlib.h>

#include <rdmamsg/fast.h>
#include <rdmamsg/rdmamsg.h>

/* A connection is never freed, so that callbacks after on_closed are seen. */
struct conn {
	struct conn *next;
	struct rdmamsg_ep *ep;		/* NULL: closed */
	struct record *r;
	uint8_t *tx, *rx;		/* arrays of the record */
	struct plan plan;
	int side;
	bool blocked;			/* from -EAGAIN until on_writable */
	uint64_t blocked_at;
	bool shut;			/* the endpoint accepts no more sends */
	bool no_copy; /* rdmamsg_send() lacks memory for this message */
	uint32_t in_flight;		/* bytes with a cookie */
	uint32_t asked;			/* number after the last on_incoming */
	uint64_t late_at;		/* worker_late() when the end began */
	uint64_t closing_at; /* ms; when either side began to close */
	uint8_t **out, **in;		/* memory lent, by number */
	struct scattered **scattered;	/* layouts lent, by number */
	struct onesided *os;		/* NULL: none */
};

/* A message that the program holds. */
struct held {
	struct held *next;
	struct rdmamsg_msg *msg;
	uint8_t *mem;			/* memory of on_incoming, or NULL */
	uint64_t until;
};

struct worker {
	struct board *board;
	struct journal *j;
	const struct scenario *sc;
	uint32_t slot;
	bool server;
	bool rough;			/* calls may fail in this process */
	bool finishing;
	bool in_a_hurry;		/* the context closes without waiting */
	uint64_t finish_at;
	struct rng rng;
	struct rdmamsg *ctx;
	struct rdmamsg_srq *srq;
	struct rdmamsg_pool *recv_pool, *send_pool;
	struct rdmamsg_listener *listener;
	uint64_t again_at;		/* time of the next listen or connect */
	uint32_t dialed;
	struct conn *conns;
	uint32_t live;
	struct held *held;
	uint32_t writables;		/* on_writable in this turn */
};

extern struct worker w;

/* Memory that the fault injector leaves alone. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void __real_free(void *p);
void *own_alloc(size_t size);

uint64_t worker_late(void);
#define VIOLATION(c, fmt, ...) \
	violation(w.j, "connection %08x side %d: " fmt, (c)->r->id, (c)->side, \
		  ##__VA_ARGS__)

/* worker_end.c */
void begin(void);
void end(void);

/* conn.c */
extern const struct rdmamsg_ep_handlers conn_handlers;
void conn_options(const struct conn *c, struct rdmamsg_ep_options *o,
		  struct rdmamsg_ep_tuning *t);
void conn_dial(void);
void conn_accept(struct rdmamsg_request *req);
void conn_step(struct conn *c);
/* Notes an abort of each endpoint before rdmamsg_close() aborts them. */
void conn_abort_all(void);
/* Closes or aborts the connection if its time has come. */
void conn_ends(struct conn *c);
bool conn_is_up(const struct conn *c);

/* send.c */
void send_some(struct conn *c, uint32_t most);
void send_forget(struct conn *c);
void on_complete(struct rdmamsg_ep *ep, void *cookie, int status);
void on_writable(struct rdmamsg_ep *ep);
/* Message n has ended: its memory is the program's again. */
void send_ended(struct conn *c, uint32_t n, int status);
/* Cuts a message into up to 16 segments, some of them empty. */
int send_cut(const struct conn *c, uint32_t n, uint8_t *buf, uint32_t len,
	     struct iovec *iov);

/* late.c */
/* Sends these bytes with a timeout. */
int late_send(struct conn *c, uint32_t n, uint8_t *buf, uint32_t len,
	      void *cookie);
/*
 * In on_complete. Returns true for RDMAMSG_TIMED_OUT and RDMAMSG_OVERDUE, which
 * only a message with a timeout may have.
 */
bool late_told(struct conn *c, uint32_t n, int status);

/* receive.c */
void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg);
int on_incoming(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
		struct rdmamsg_buffer *dst);
void receive_forget(struct conn *c);
void held_step(bool all);
/*
 * Takes a held message with this much room out of the list. Returns NULL if
 * there is none.
 */
struct rdmamsg_msg *held_take(size_t len);

/* scatter.c */
/* In on_incoming. Returns false if the message has to go elsewhere. */
bool scatter_lend(struct conn *c, struct rdmamsg_ep *ep, uint32_t n,
		  size_t len);
/* Checks and frees the layout. Returns a copy of the message. */
uint8_t *scatter_take(struct conn *c, uint32_t n, size_t len);
void scatter_forget(struct conn *c, uint32_t n);

/* onesided.c */
#define COOKIE_RMA	((uintptr_t)1 << 40)
void onesided_start(struct conn *c);
void onesided_key(struct conn *c, uint8_t *dst);
void onesided_import(struct conn *c, const uint8_t *src);
void onesided_some(struct conn *c);
void onesided_stamp(const struct conn *c, struct stamp *s);
void onesided_stamped(struct conn *c, const struct stamp *s);
void onesided_sent(struct conn *c, void *cookie, int status);
void onesided_closed(struct conn *c);
void on_written(struct rdmamsg_ep *ep, uint32_t value);

/* inject.c */
void inject_start(void);
void inject_step(void);
void inject_end(void);
const char *inject_leftovers(void);

#endif
