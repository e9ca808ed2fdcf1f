/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls from lib/device to the layers above. lib/loop supplies them to each
 * context.
 */
#ifndef RDMAMSG_LIB_USE_H
#define RDMAMSG_LIB_USE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct cq;
struct dev;
struct mail;

enum qp_kind { QP_OF_NOBODY, QP_OF_EP, QP_OF_PROGRAM, QP_OF_GROUPS };

/* The owner of a queue pair. If the queue pair has no owner, ctx is NULL. */
struct qp_owner {
	struct rdmamsg *ctx;
	enum qp_kind kind;
	uint64_t key;		/* the owner may end before its mail arrives */
};

struct device_use {
	/* The device closes: deregisters all memory. */
	void (*release)(struct dev *dev);
	/* The dev ends: frees all that is left. */
	void (*free)(struct dev *dev);
	/* Takes back the messages that the program has freed in any thread. */
	void (*take_back)(struct rdmamsg *ctx);
	/*
	 * The protection domain ends. First frees what is kept for new
	 * endpoints.
	 */
	void (*drop_kept)(struct dev *dev);
	/* Then, if the program has no messages, frees memory of the domain. */
	void (*drop_spares)(struct dev *dev);
	/*
	 * Returns true if the program has messages of the dev, or sends some
	 * through another dev.
	 */
	bool (*has_messages)(const struct dev *dev);
	/*
	 * The queue delivers no more completions. 'what' names the failed call.
	 */
	void (*cq_failed)(struct rdmamsg *ctx, const struct cq *cq, int err,
			  const char *what);
	struct qp_owner (*owner)(const struct ibv_qp *qp);
	/* The device has refused a request of the peer. From any thread. */
	void (*refused)(const struct ibv_qp *qp);
	/* Takes a struct async_mail: an event, or the removal of the device. */
	void (*event)(struct rdmamsg *ctx, struct mail *mail);
	void (*removed)(struct rdmamsg *ctx, struct mail *mail);
};

#endif
