/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls that lib/device makes to the layers above. */
#ifndef RDMAMSG_LIB_DEVICE_USE_H
#define RDMAMSG_LIB_DEVICE_USE_H

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#include "base/submit.h"
#include "device/use.h"

struct rdmamsg_device;

extern const struct device_use rdmamsg__device_use;

/* device_event.c */
struct qp_owner rdmamsg__qp_owner(const struct ibv_qp *ibv);
void rdmamsg__qp_refused(const struct ibv_qp *ibv);
void rdmamsg__deliver_event(struct rdmamsg *ctx, struct mail *mail);
void rdmamsg__deliver_removed(struct rdmamsg *ctx, struct mail *mail);

/* device_watch.c: the device was removed */
void rdmamsg__watched_removed(struct rdmamsg *ctx,
			      const struct rdmamsg_device *d);

#endif
