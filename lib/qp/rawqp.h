/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue pair of the program's. */
#ifndef RDMAMSG_LIB_RAWQP_H
#define RDMAMSG_LIB_RAWQP_H

#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

#include "base/list.h"
#include "base/watch.h"
#include "device/path.h"

struct rdmamsg_qp {
	struct list node;		/* of the context */
	struct rdmamsg *ctx;		/* NULL: it could not be destroyed */
	const struct verbs_api *v;
	struct dev *dev;
	char *device;
	void *user;
	struct rdmamsg_qp_options opts;	/* in range; its pointers are unused */
	struct rdmamsg_rss rss;
	struct ibv_qp *ibv;
	struct ibv_qp_ex *ex;
	struct ibv_cq *send_cq, *recv_cq;	/* the same, unless TWO_CQS */
	struct ibv_comp_channel *channel;	/* NULL: they are polled */
	struct watch watch;
	struct ibv_xrcd *xrcd;		/* ours, or NULL */
	struct ibv_rwq_ind_table *table;
	struct ibv_wq **wqs;
	struct ibv_qp_cap cap;
	enum ibv_qp_state state;
	struct oob oob;
	uint8_t mtu;			/* its code, once connected */
	struct ibv_ah *ah;
};

/*
 * lib/qp/rawqp_check.c: what makes no sense, and what the device does not have
 */
int rdmamsg__rawqp_ranges(struct rdmamsg_qp_options *o);
int rdmamsg__rawqp_check(const struct rdmamsg_qp_options *o,
			 const struct rdmamsg_rss *rss,
			 const struct ibv_device_attr_ex *a,
			 const char *device);

/* lib/qp/rawqp_event.c: what tells of completions, if anything is to */
int rdmamsg__rawqp_channel(struct rdmamsg_qp *q);
int rdmamsg__rawqp_arm(struct rdmamsg_qp *q, struct ibv_cq *cq);
void rdmamsg__rawqp_unwatch(struct rdmamsg_qp *q);
/* Its completion queues are gone; frees it, when its events are through. */
void rdmamsg__rawqp_end(struct rdmamsg_qp *q);

/* lib/qp/rawqp_make.c: what has been made when it fails is for unmake */
int rdmamsg__rawqp_make(struct rdmamsg_qp *q);
/* Its ibv is gone; frees q. */
void rdmamsg__rawqp_unmake(struct rdmamsg_qp *q);

/* The device's events tell a queue pair of ours by this bit of its context. */
#define RAWQP_TAG	1u
struct rdmamsg_qp *rdmamsg__rawqp_of(const struct ibv_qp *ibv);
void rdmamsg__rawqps_free(struct rdmamsg *ctx);

#endif
