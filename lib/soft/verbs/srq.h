/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues, and the extended connections (XRC) that use them. */
#ifndef SOFT_VERBS_SRQ_H
#define SOFT_VERBS_SRQ_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/list.h"
#include "soft/verbs/rq.h"

struct soft_cq;
struct soft_dev;
struct soft_qp;

/* An XRC domain. All handles that were opened by one file share it. */
struct soft_domain {
	struct list node;		/* dev->domains */
	int refs;
	int name;			/* socket that holds the name, or -1 */
	bool by_file;
	dev_t st_dev;
	ino_t st_ino;
};

struct soft_xrcd {
	struct ibv_xrcd ibv;
	struct soft_domain *domain;
	int users;
};

struct soft_srq {
	struct ibv_srq ibv;
	struct soft_rq rq;
	uint32_t num;
	uint32_t limit;			/* 0: not armed */
	int users;			/* queue pairs */
	struct soft_xrcd *xrcd;		/* NULL: not XRC */
	struct soft_cq *cq;		/* XRC: for its completions */
	uint32_t async_fetched;
};

struct soft_srq *soft_srq_find(const struct soft_dev *dev,
			       uint32_t num);		/* L */
/* Moves one receive, if any, into the empty queue of a queue pair. L */
void soft_srq_take(struct soft_dev *dev, struct soft_qp *qp);
/*
 * xrc.c. Selects the shared receive queue that a request names. Returns false
 * if the domain of the queue pair has no such queue. L
 */
bool soft_xrc_choose(struct soft_dev *dev, struct soft_qp *qp, uint32_t srqn);

#endif
