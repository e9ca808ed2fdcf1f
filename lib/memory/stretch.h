/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registered memory, and the budget that it comes out of.
 *
 * max_registered has two shares: one for messages that arrive, one for
 * messages that are sent. Neither can use up the other, so a context that is
 * full of outgoing messages can still receive.
 *
 * A stretch of which nothing is in use stays registered as a spare. The
 * coldest spares go as soon as another stretch of the share needs room.
 */
#ifndef RDMAMSG_LIB_STRETCH_H
#define RDMAMSG_LIB_STRETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/rdmamsg.h>

#include "base/list.h"

enum direction { DIR_IN, DIR_OUT, DIRECTIONS };

struct budget {
	size_t cap;
	size_t used;			/* bytes of all stretches */
	size_t spare;			/* of these: of spares */
	size_t posted;			/* of used: where receives are posted */
	size_t posted_spare;		/* of posted: of spares */
	/*
	 * The largest message that peers were told they may send, and how many
	 * endpoints told this size. posted + largest <= cap, so that memory for
	 * it comes back when the program frees its messages.
	 */
	size_t largest;
	uint32_t largest_count;
	struct list spares;		/* coldest first */
};

/* What memory was made of. */
struct pages {
	bool huge, advised, on_node;
};

struct stretch {
	struct list spare_node;
	struct dev *dev;
	struct rdmamsg_pool *owner;	/* the program's pool, or NULL */
	enum direction dir;
	bool posted;			/* receives are posted from it */
	void *mem;
	size_t size;
	struct ibv_mr *mr;		/* local access only, or NULL */
	struct pages pages;
	/* Takes a spare out of where it belongs, unmaps it and frees it. */
	void (*drop)(struct stretch *s);
};

void rdmamsg__budgets_init(struct rdmamsg *ctx);
size_t rdmamsg__registered(const struct rdmamsg *ctx);
/* Bytes that a new stretch may have, spares given up. */
size_t rdmamsg__budget_room(const struct rdmamsg *ctx, enum direction dir,
			    bool posted);
/*
 * Whether a message of this size fits as soon as enough others are freed.
 * Memory that endpoints keep for as long as they live is not counted on.
 */
bool rdmamsg__out_fits(const struct rdmamsg *ctx, size_t size);
/* The largest message that can be announced to one more peer. */
uint32_t rdmamsg__budget_largest(const struct rdmamsg *ctx, uint32_t wanted);
/* An endpoint announces this size to its peer, or has ended. */
void rdmamsg__budget_announce(struct rdmamsg *ctx, uint32_t size);
/*
 * Returns true if this was the last of the largest size. Then the sizes of all
 * other endpoints are announced again.
 */
bool rdmamsg__budget_withdraw(struct rdmamsg *ctx, uint32_t size);

/*
 * Maps and, if asked to, registers s->size bytes; dev, owner, dir, posted and
 * drop are set. -ENOBUFS: a limit of the context or of the owner is reached.
 */
int rdmamsg__stretch_map(struct stretch *s, bool reg);
void rdmamsg__stretch_dereg(struct stretch *s);
/* Spare or not. */
void rdmamsg__stretch_unmap(struct stretch *s);
/* Nothing of it is in use any more: it may be dropped at any time from here. */
void rdmamsg__stretch_spare(struct stretch *s);
/* Something of it is in use again. Harmless if it is no spare. */
void rdmamsg__stretch_use(struct stretch *s);
/* Drops the spares of a device. */
void rdmamsg__spares_drop(struct dev *dev);

#endif
