/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What devices ask of the layers above. lib/loop gives it to each context.
 */
#ifndef RDMAMSG_LIB_USE_H
#define RDMAMSG_LIB_USE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

struct cq;
struct dev;
struct mail;

/* Of a queue pair; ctx is NULL if there is none any more. */
struct qp_owner {
	struct rdmamsg *ctx;
	bool is_ep;			/* else one of the program's own */
	uint32_t ep_key;
};

struct device_use {
	/* The device is closed: all that is registered with it ends. */
	void (*release)(struct dev *dev);
	/* The dev goes: all that is left of it is freed. */
	void (*free)(struct dev *dev);
	/* Its protection domain goes: first what is kept for new endpoints. */
	void (*drop_kept)(struct dev *dev);
	/* Then, when the program has no messages, the memory in it. */
	void (*drop_spares)(struct dev *dev);
	/* Whether the program has messages of it, or sends some elsewhere. */
	bool (*has_messages)(const struct dev *dev);
	/* No more completions come from the queue: -errno, and which call. */
	void (*cq_failed)(struct rdmamsg *ctx, const struct cq *cq, int err,
			  const char *what);
	struct qp_owner (*owner)(const struct ibv_qp *qp);
	/* Takes a struct async_mail: an event, the removal of the device. */
	void (*event)(struct rdmamsg *ctx, struct mail *mail);
	void (*removed)(struct rdmamsg *ctx, struct mail *mail);
};

#endif
