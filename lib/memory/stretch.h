/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registered memory and its budgets.
 *
 * max_registered is divided into two budgets: for messages that arrive and for
 * messages that are sent. A context that has used up one can still use the
 * other, so a context that is full of outgoing messages still receives.
 *
 * A stretch is one mapping. If nothing of it is in use, it stays registered as
 * a spare. When a new stretch needs room in the budget, the least recently used
 * spares are dropped. Those that nothing has used for some seconds go back to
 * the system, but for those of the program's pools.
 */
#ifndef RDMAMSG_LIB_STRETCH_H
#define RDMAMSG_LIB_STRETCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/rdmamsg.h>

#include "base/list.h"

enum direction { DIR_IN, DIR_OUT, DIRECTIONS };

struct budget {
	size_t cap;
	size_t used;			/* bytes of all stretches */
	size_t spare;			/* part of used: spares */
	size_t posted;			/* part of used: for posted receives */
	size_t posted_spare;		/* part of posted: spares */
	/*
	 * The largest size that endpoints announced to their peers, and the
	 * number of endpoints that announced it. posted + largest <= cap, so
	 * such a message fits when the program has freed its messages.
	 */
	size_t largest;
	uint32_t largest_count;
	struct list spares;		/* least recently used first */
};

/* Kind of the pages of a mapping. */
struct pages {
	bool huge, advised, on_node;
};

struct stretch {
	struct list spare_node;
	struct dev *dev;
	struct rdmamsg_pool *owner;	/* pool of the program, or NULL */
	enum direction dir;
	bool posted;			/* receives are posted from it */
	uint32_t round;			/* memory.round, of a spare's begin */
	void *mem;
	size_t size;
	struct ibv_mr *mr;		/* local access only, or NULL */
	struct pages pages;
	/*
	 * The context and the messages that outlive it, or 0 before the context
	 * closes.
	 */
	_Atomic uint32_t keepers;
	/* Removes a spare from its pool or list, unmaps it and frees it. */
	void (*drop)(struct stretch *s);
};

void rdmamsg__budgets_init(struct rdmamsg *ctx);
/* Prepares the timer that drops spares. -ENOMEM */
int rdmamsg__spares_init(struct rdmamsg *ctx);
size_t rdmamsg__registered(const struct rdmamsg *ctx);
/* Returns the bytes that a new stretch can have if all spares are dropped. */
size_t rdmamsg__budget_room(const struct rdmamsg *ctx, enum direction dir,
			    bool posted);
/*
 * Returns true if a message of this size fits when all other messages are
 * freed. Memory that endpoints keep while they live does not become free.
 */
bool rdmamsg__out_fits(const struct rdmamsg *ctx, size_t size);
/* Returns the largest message that can be announced to one more peer. */
uint32_t rdmamsg__budget_largest(const struct rdmamsg *ctx, uint32_t wanted);
/* An endpoint announces this size to its peer. */
void rdmamsg__budget_announce(struct rdmamsg *ctx, uint32_t size);
/*
 * An endpoint that announced this size has ended. Returns true if it was the
 * last one with the largest size. Then the caller calls
 * rdmamsg__budget_announce() again for each other endpoint.
 */
bool rdmamsg__budget_withdraw(struct rdmamsg *ctx, uint32_t size);

/*
 * Maps s->size bytes, and registers them if 'reg'. The caller has set dev,
 * owner, dir, posted and drop. -ENOBUFS: a limit of the context or of the owner
 * is reached.
 */
int rdmamsg__stretch_map(struct stretch *s, bool reg);
void rdmamsg__stretch_dereg(struct stretch *s);
/*
 * Unmaps a stretch, also a spare. If a message still keeps the memory, only
 * deregisters it and returns false: the message frees what has the stretch.
 */
bool rdmamsg__stretch_unmap(struct stretch *s);
/* A message keeps the memory beyond the context. Context's thread. */
void rdmamsg__stretch_keep(struct stretch *s);
/*
 * One of the keepers leaves. Returns true, with the memory unmapped, if it was
 * the last one. Any thread.
 */
bool rdmamsg__stretch_leave(struct stretch *s);
/* Nothing of s is in use: s becomes a spare, which can be dropped at once. */
void rdmamsg__stretch_spare(struct stretch *s);
/* Something of s is in use again. Does nothing if s is no spare. */
void rdmamsg__stretch_use(struct stretch *s);
/* Drops the spares of a device. */
void rdmamsg__spares_drop(struct dev *dev);

#endif
