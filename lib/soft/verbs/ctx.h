/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts and their asynchronous events. */
#ifndef SOFT_VERBS_CTX_H
#define SOFT_VERBS_CTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/list.h"
#include "soft/fabric/dev.h"

struct soft_cq;
struct soft_qp;
struct soft_srq;
struct soft_wq;

/* An event that the program has not yet read. */
struct soft_async {
	struct list node;		/* ctx->async */
	struct ibv_async_event ev;
};

struct soft_ctx {
	struct verbs_context v;		/* ends with the ibv_context */
	struct soft_dev *dev;
	struct list node;		/* dev->contexts */
	uint32_t num;
	struct list async;
	_Atomic bool removed;		/* the device was removed */
	int objects;			/* completion queues of this context */
};

extern const char soft_device_name[];	/* "soft0" */

static inline struct soft_ctx *soft_ctx(struct ibv_context *c)
{
	return (struct soft_ctx *)((char *)c -
				   offsetof(struct soft_ctx, v.context));
}

static inline struct soft_dev *soft_dev_of(struct ibv_context *c)
{
	return soft_ctx(c)->dev;
}

/* soft_open_device() and soft_get_device_guid() of soft.h */
struct ibv_context *soft_ctx_open(struct ibv_device *device);
__be64 soft_ctx_guid(void);
/* Returns 0, ENOMEM for an injected refusal, EIO if the device was removed. */
int soft_may_create(struct ibv_context *verbs, enum soft_object what);
/* In a forked child: all contexts lose the device. L */
void soft_ctx_forked(struct soft_dev *dev);

/* ---- async.c: raise an event. All L ----------------------------------- */

void soft_async_qp(struct soft_dev *dev, struct soft_qp *qp,
		   enum ibv_event_type type);
void soft_async_srq(struct soft_dev *dev, struct soft_srq *srq,
		    enum ibv_event_type type);
void soft_async_cq(struct soft_dev *dev, struct soft_cq *cq);
void soft_async_wq(struct soft_dev *dev, struct soft_wq *wq);
void soft_async_port(struct soft_dev *dev, uint8_t port,
		     enum ibv_event_type type);
/* Raises PORT_ACTIVE or PORT_ERR for each port that differs from *were. */
void soft_async_ports(struct soft_dev *dev, const struct soft_faults *were);
void soft_async_device(struct soft_ctx *ctx, enum ibv_event_type type);
/* Drops unread events of an object that is being destroyed. */
void soft_async_forget(struct soft_ctx *ctx, const void *object);

/* The attributes of a port, or EINVAL. */
int soft_port_attr(struct soft_dev *dev, uint8_t port,
		   struct ibv_port_attr *attr);

#endif
