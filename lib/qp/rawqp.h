/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue pair of the program. */
#ifndef RDMAMSG_LIB_RAWQP_H
#define RDMAMSG_LIB_RAWQP_H

#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/verbs.h>

#include "base/list.h"
#include "base/watch.h"
#include "device/path.h"

struct rdmamsg_qp {
	struct list node;		/* in ctx->qps */
	struct rdmamsg *ctx;		/* NULL: it could not be destroyed */
	uint64_t serial;		/* no other has it */
	const struct verbs_api *v;
	struct dev *dev;
	char *device;
	void *user;
	/* in range; its pointers are not followed */
	struct rdmamsg_qp_options opts;
	struct rdmamsg_qp_handlers on;
	struct rdmamsg_rss rss;
	struct ibv_qp *ibv;
	struct ibv_qp_ex *ex;
	struct ibv_cq *send_cq, *recv_cq;	/* equal, unless TWO_CQS */
	uint32_t send_cq_number, recv_cq_number;	/* CROSS_CHANNEL */
	struct ibv_comp_channel *channel;	/* NULL: the program polls */
	struct watch watch;
	struct ibv_xrcd *xrcd;		/* NULL: not ours */
	struct ibv_rwq_ind_table *table;
	struct ibv_wq **wqs;
	struct ibv_qp_cap cap;
	enum ibv_qp_state state;
	struct oob oob;
	uint8_t mtu;			/* code; valid if connected */
	struct ibv_ah *ah;
	struct list groups;		/* attached to: rawqp_group.c */
};

/* rawqp_check.c: invalid options, and options that the device lacks */
int rdmamsg__rawqp_ranges(struct rdmamsg_qp_options *o,
			  const struct rdmamsg_qp_handlers *on);
int rdmamsg__rawqp_check(const struct rdmamsg_qp_options *o,
			 const struct rdmamsg_rss *rss,
			 const struct ibv_device_attr_ex *a,
			 const char *device);

/* rawqp_event.c: completion events, if wanted */
int rdmamsg__rawqp_channel(struct rdmamsg_qp *q);
int rdmamsg__rawqp_arm(struct rdmamsg_qp *q, struct ibv_cq *cq);
void rdmamsg__rawqp_unwatch(struct rdmamsg_qp *q);
/* The completion queues are gone. Frees q when its events are handled. */
void rdmamsg__rawqp_end(struct rdmamsg_qp *q);

/* rawqp_group.c */
/* Detaches from all groups. Returns the first error. */
int rdmamsg__rawqp_leave_groups(struct rdmamsg_qp *q);
/* Frees the memory of groups that the queue pair could not leave. */
void rdmamsg__rawqp_forget_groups(struct rdmamsg_qp *q);

/* rawqp_make.c: on failure, rdmamsg__rawqp_unmake() frees what was made */
int rdmamsg__rawqp_make(struct rdmamsg_qp *q);
/* cq is one of the two of q. */
int rdmamsg__rawqp_resize(struct rdmamsg_qp *q, struct ibv_cq *cq,
			  uint32_t entries);
/* q->ibv is gone. Frees q. */
void rdmamsg__rawqp_unmake(struct rdmamsg_qp *q);

/*
 * In events of the device, this bit of qp_context marks a queue pair of the
 * program.
 */
#define RAWQP_TAG	1u
struct rdmamsg_qp *rdmamsg__rawqp_of(const struct ibv_qp *ibv);
/* Returns the queue pair with this serial number, or NULL. */
struct rdmamsg_qp *rdmamsg__rawqp_by_serial(const struct rdmamsg *ctx,
					    uint64_t serial);
/* Returns a queue pair that uses this ibv_cq or ibv_srq, or NULL. */
struct rdmamsg_qp *rdmamsg__rawqp_using(const struct rdmamsg *ctx,
					const void *of);
void rdmamsg__rawqps_free(struct rdmamsg *ctx);

#endif
