/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of large messages, registered in steps. */
#ifndef RDMAMSG_LIB_LARGE_H
#define RDMAMSG_LIB_LARGE_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>

#include "base/list.h"
#include "memory/pool.h"
#include "memory/source.h"
#include "memory/stretch.h"

/*
 * A sink is memory that a large message is read into. A peer may announce a
 * large message and never send it, so the memory is registered in steps. Step 0
 * is the first SINK_STEP bytes, and each further step doubles the registered
 * bytes. A step is registered when half of the bytes before it have arrived.
 */
#define SINK_STEP	((size_t)1 << 20)
#define SINK_STEPS	12

struct sink {
	uint8_t *mem;
	size_t size;
	struct ibv_mr *mr[SINK_STEPS];
	uint32_t count;			/* steps registered */
};

/*
 * Registers the steps up to the byte at 'offset'. 'arrived' bytes have been
 * read so far. *ret_lkey is valid up to *ret_end. -EAGAIN: try again when more
 * bytes have arrived. Another error is that of registering.
 */
int rdmamsg__sink_ready(struct sink *s, struct dev *dev, size_t offset,
			size_t arrived, uint32_t *ret_lkey, size_t *ret_end);
void rdmamsg__sink_dereg(struct sink *s, struct dev *dev);

struct large {
	struct stretch stretch;		/* first */
	struct list node;		/* in dev->large, if spare */
	struct sink sink;		/* used with DIR_IN */
	struct source source;		/* used with DIR_OUT */
};

/* 'reader' is the id of a source's endpoint, or 0. */
int rdmamsg__large_get(struct dev *dev, enum direction dir, size_t size,
		       uint64_t reader, struct large **ret);
void rdmamsg__large_put(struct large *l);
void rdmamsg__large_free(struct large *l);

/* A message outside of pools: MSG_LARGE or MSG_USER. */
struct loose_msg {
	struct rdmamsg_msg msg;		/* first */
	struct list node;		/* dev->loose */
	struct large *large;		/* NULL: MSG_USER */
};

int rdmamsg__msg_large(struct dev *dev, enum direction dir, size_t len,
		       uint64_t reader, struct rdmamsg_msg **ret);
int rdmamsg__msg_user(struct dev *dev, void *data, struct rdmamsg_msg **ret);
/*
 * Returns the memory if peers can read the message there after its end, or NULL
 * if it must be registered for the message alone: the memory is no source, or
 * strangers could guess its address.
 */
struct large *rdmamsg__msg_source(struct rdmamsg_msg *msg);
static inline struct sink *rdmamsg__msg_sink(struct rdmamsg_msg *msg)
{
	return &((struct loose_msg *)msg)->large->sink;
}

#endif
