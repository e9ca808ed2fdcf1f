/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of large messages, and how it is registered to be read into. */
#ifndef RDMAMSG_LIB_LARGE_H
#define RDMAMSG_LIB_LARGE_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>

#include "base/list.h"
#include "memory/pool.h"
#include "memory/stretch.h"

/*
 * A peer that announces a large message is believed in steps: memory is pinned
 * for what follows only when what comes before has arrived. Step 0 is the
 * first SINK_STEP bytes, each further step doubles what is registered.
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
 * Registers up to the byte at 'offset', of which 'arrived' bytes have been
 * read. *ret_end is the end of what lkey is for. -EAGAIN: when more has
 * arrived; else -errno of registering.
 */
int rdmamsg__sink_ready(struct sink *s, struct dev *dev, size_t offset,
			size_t arrived, uint32_t *ret_lkey, size_t *ret_end);
void rdmamsg__sink_dereg(struct sink *s, struct dev *dev);

struct large {
	struct stretch stretch;		/* first */
	struct list node;		/* of dev->large, when spare */
	struct sink sink;		/* DIR_IN */
};

int rdmamsg__large_get(struct dev *dev, enum direction dir, size_t size,
		       struct large **ret);
void rdmamsg__large_put(struct large *l);

/* A message that is in no pool. */
struct loose_msg {
	struct rdmamsg_msg msg;		/* first */
	struct list node;		/* dev->loose */
	struct large *large;		/* NULL: USER */
};

int rdmamsg__msg_large(struct dev *dev, enum direction dir, size_t len,
		       struct rdmamsg_msg **ret);
int rdmamsg__msg_user(struct dev *dev, void *data, struct rdmamsg_msg **ret);
static inline struct sink *rdmamsg__msg_sink(struct rdmamsg_msg *msg)
{
	return &((struct loose_msg *)msg)->large->sink;
}

#endif
