/* SPDX-License-Identifier: BSD-2-Clause */
/* Async events of devices. lib/loop delivers them. */
#ifndef RDMAMSG_LIB_ASYNC_H
#define RDMAMSG_LIB_ASYNC_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/submit.h"
#include "device/use.h"

struct dev;
struct rdmamsg_device;

/* An event for one context. */
struct async_mail {
	struct mail mail;
	int type;
	uint32_t port;
	enum qp_kind kind;		/* whose queue pair, if of one */
	uint64_t key;			/* of struct qp_owner */
	const void *of;			/* the ibv_cq or ibv_srq, or NULL */
	const struct rdmamsg_device *d;	/* may be closed by now */
	bool own;			/* struct quirks: the connection ended */
	char device[64];
};

/*
 * async.c: every context of a device watches for its events. The first context
 * that runs reads them, and mails each event to the contexts that it concerns.
 */
int rdmamsg__async_start(struct dev *dev);
void rdmamsg__async_stop(struct dev *dev);
void rdmamsg__async_read(struct rdmamsg *ctx, struct rdmamsg_device *d);
/* Every context of a removed device calls on_event, and ends its endpoints. */
void rdmamsg__async_removed(struct rdmamsg_device *d);
/*
 * Detaches the owner from a queue pair that could not be destroyed, because the
 * device may still report events of it.
 */
void rdmamsg__async_forget(struct rdmamsg_device *d, struct ibv_qp *qp);

#endif
