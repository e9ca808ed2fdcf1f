/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client of kv-server, for programs of one thread that wait. Every call
 * returns 0, or a negative errno when the connection has ended: then the
 * program calls kv_connect() again. An answer of the server is no error.
 */
#ifndef KV_CLIENT_H
#define KV_CLIENT_H

#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#include "wire.h"

#define KV_BATCH	64	/* slots that are read at once */
#define KV_TRIES	1000	/* reads of a slot that changes all the time */

struct kv {
	const char *host, *port;
	bool tcp;
	uint32_t id;		/* of the last request */
	char bytes[KV_ITEM_MAX];	/* of the last answer */
	char reason[256];	/* why the connection has ended */

	/* client_tcp.c */
	int fd;

	/* client_rdma.c */
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	struct kv_hello hello;

	/* onesided.c */
	struct rdmamsg_key table, counters;
	struct rdmamsg_region *region;	/* 'landing' */
	struct kv_landing {
		uint64_t words[2];
		struct kv_slot slots[KV_BATCH];
	} *landing;
	bool done;		/* the operation */
	int status;
	unsigned long torn;	/* reads that met a change */
	bool no_atomics;	/* the device has none: by message */
	char counter[KV_KEY_MAX + 1];	/* the last one, and its place */
	uint64_t place;
};

/* Waits until a server listens there. Exits if that is hopeless. */
void kv_open(struct kv *kv, bool tcp, const char *host, const char *port);
void kv_connect(struct kv *kv);
void kv_close(struct kv *kv);

/* Sends a request and waits for its answer, which lasts until the next one. */
int kv_ask(struct kv *kv, int kind, const char *key, const void *value,
	   size_t len, uint64_t number, struct kv_item *ret);

/*
 * Reads the value one-sided, and asks the server only for one that is not
 * inline, or if changes have torn KV_TRIES reads.
 */
int kv_get(struct kv *kv, const char *key, struct kv_item *ret);
/* Reads up to KV_BATCH slots into landing->slots, each of them whole. */
int kv_read_slots(struct kv *kv, uint32_t first, uint32_t count);
/* Reads the number of changes in the table. */
int kv_read_sequence(struct kv *kv, uint64_t *ret);
/*
 * Adds to a counter by an atomic operation, or by message if the device has
 * none. *ret has the kind of an answer and the sum.
 */
int kv_add(struct kv *kv, const char *name, uint64_t number,
	   struct kv_item *ret);

/* The two ways behind it. */
int kv_tcp_connect(struct kv *kv);
int kv_tcp_ask(struct kv *kv, const void *bytes, size_t len,
	       struct kv_item *ret);
void kv_tcp_close(struct kv *kv);
void kv_rdma_open(struct kv *kv);
int kv_rdma_connect(struct kv *kv);
int kv_rdma_ask(struct kv *kv, const void *bytes, size_t len,
		struct kv_item *ret);
void kv_rdma_close(struct kv *kv);

#endif
