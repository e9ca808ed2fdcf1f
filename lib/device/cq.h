/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues of a context. */
#ifndef RDMAMSG_LIB_CQ_H
#define RDMAMSG_LIB_CQ_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#include "base/list.h"
#include "device/early.h"

struct dev;
struct rdmamsg;

/* The option is not set: contexts take turns with the device's vectors. */
#define VECTOR_ANY	(RDMAMSG_NONE - 1)

struct cq {
	struct list node;
	struct ibv_cq *ibv;
	uint32_t room, used;		/* entries, entries promised */
	uint32_t events;		/* received, not acknowledged */
	bool unarmed;			/* arming failed, so no event comes */
	bool own;			/* ends with its one endpoint */
	uint32_t vector;
	struct early early;
	/* promised entries whose late queue pairs are destroyed: not used */
	_Atomic uint32_t late;
};

/* Returns the vector that the option means. RDMAMSG_NONE: 0. */
uint32_t rdmamsg__comp_vector(const struct rdmamsg *ctx,
			      const struct ibv_context *verbs, uint32_t option);
int rdmamsg__cq_rearm(struct dev *dev);
/*
 * Enables the inline poll, which needs exactly one completion queue, without
 * early completions.
 */
void rdmamsg__cq_inline(struct rdmamsg *ctx);
int rdmamsg__cq_get(struct dev *dev, uint32_t entries, uint32_t vector,
		    bool own, struct cq **ret);
/* Promises more entries of a queue that is in use. Returns 0 or -errno. */
int rdmamsg__cq_more(struct dev *dev, struct cq *cq, uint32_t entries);
void rdmamsg__cq_put(struct dev *dev, struct cq *cq, uint32_t entries);
void rdmamsg__cqs_free(struct dev *dev);
/* Moves the queues of a dev to a list, whose owner destroys them. */
void rdmamsg__cqs_take_out(struct dev *dev, struct list *to);
/* Takes out a queue that an endpoint owned. */
void rdmamsg__cq_take_out(struct dev *dev, struct cq *cq);

#endif
