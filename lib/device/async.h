/* SPDX-License-Identifier: BSD-2-Clause */
/* Async events of devices, read here and delivered by lib/loop. */
#ifndef RDMAMSG_LIB_ASYNC_H
#define RDMAMSG_LIB_ASYNC_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#include "base/submit.h"

struct dev;
struct rdmamsg_device;

/* To a context that an event concerns. */
struct async_mail {
	struct mail mail;
	int type;
	uint32_t port;
	uint32_t ep_key;
	bool for_ep;
	const void *of;			/* ibv_cq or ibv_srq that it is about */
	bool rawqp;			/* of the program's: its own concern */
	const struct rdmamsg_device *d;	/* which may have been closed since */
	char device[64];
};

/*
 * async.c: every context of a device watches for its events. The one that is
 * driven first reads them, and sends each to the contexts that it concerns.
 */
int rdmamsg__async_start(struct dev *dev);
void rdmamsg__async_stop(struct dev *dev);
void rdmamsg__async_read(struct rdmamsg *ctx, struct rdmamsg_device *d);
/* Every context of a removed device tells on_event, and ends its endpoints. */
void rdmamsg__async_removed(struct rdmamsg_device *d);
/* It could not be destroyed, but its owner goes: the device may tell of it. */
void rdmamsg__async_forget(struct rdmamsg_device *d, struct ibv_qp *qp);

#endif
