/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of a context for registered memory. */
#ifndef RDMAMSG_LIB_MEMORY_H
#define RDMAMSG_LIB_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addrmap.h"
#include "base/handles.h"
#include "base/list.h"
#include "base/timer.h"
#include "memory/stretch.h"

struct rdmamsg;

/* Member of a struct that waits for memory. */
struct starving {
	struct list node;		/* empty: does not wait */
	void (*fed)(struct starving *w);
};

struct memory {
	/*
	 * Set by lib/loop: rdmamsg__tx_ask(). Called if the program wants to
	 * remove a region that is in use. Unsignalled requests may use it, so
	 * the call posts a signalled request behind them.
	 */
	void (*ask)(struct rdmamsg *ctx);
	struct budget budget[DIRECTIONS];
	struct timer cool;		/* drops spares that nothing has used */
	uint32_t round;			/* of that timer */
	struct list starved;		/* struct starving */
	struct timer again;		/* retry if the system has no memory */
	uint32_t again_ms;
	uint64_t regions;		/* id of the last region */
	uint64_t readers;		/* id of the last reader of sources */
	struct addrmap accounts;	/* struct account */
	struct list region_list;
	struct handles imports;		/* struct layout_import */
	uint64_t import_serial;		/* of the last import */
	struct list asks, asks_due;	/* struct layout_ask */
	struct timer asks_timer;
	struct list caches;
	struct list pool_list;		/* struct rdmamsg_pool */
	struct shares *shares;		/* share.h */
};

/* starved.c: waiting for memory */
int rdmamsg__starved_init(struct rdmamsg *ctx);
/*
 * Calls w->fed() when memory has come back. For errors other than -ENOBUFS and
 * -EAGAIN a timer calls w->fed() as well.
 */
void rdmamsg__starve(struct rdmamsg *ctx, struct starving *w, int err);
void rdmamsg__feed(struct memory *m);
/* Returns true if a call that failed with err may succeed later. */
bool rdmamsg__passes(int err);

#endif
