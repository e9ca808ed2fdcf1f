/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive work queues, and the tables that spread packets over them. */
#ifndef SOFT_VERBS_WQ_H
#define SOFT_VERBS_WQ_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/list.h"
#include "soft/verbs/rq.h"

struct soft_dev;

#define SOFT_MAX_TABLE	256	/* entries of an indirection table */
#define SOFT_RSS_KEY	40	/* bytes: Linux, mlx5_ifc.h, tirc */
#define SOFT_RSS_FIELDS	((uint64_t)0x1ff | (uint64_t)IBV_RX_HASH_INNER)
#define SOFT_WQ_FLAGS	(IBV_WQ_FLAGS_CVLAN_STRIPPING | \
			 IBV_WQ_FLAGS_SCATTER_FCS)

/* ibv.state is set under the lock of the device. */
struct soft_wq {
	struct ibv_wq ibv;
	struct list node;		/* dev->wqs */
	struct soft_rq rq;
	uint32_t flags;			/* of SOFT_WQ_FLAGS */
	int users;			/* entries of tables */
	uint32_t async_fetched;
};

struct soft_table {
	struct ibv_rwq_ind_table ibv;
	int users;			/* queue pairs */
	uint32_t mask;
	struct soft_wq *wq[];
};

/* How a queue pair chooses among its receive queues. */
struct soft_rss {
	struct soft_table *table;
	uint64_t fields;		/* enum ibv_rx_hash_fields */
	uint8_t key[SOFT_RSS_KEY];
};

/* wq.c. All L */
/* Completes the receive at the head. */
void soft_wq_complete(struct soft_dev *dev, struct soft_wq *wq,
		      struct ibv_wc *wc);
/* Enters the error state and flushes the queue. */
void soft_wq_error(struct soft_dev *dev, struct soft_wq *wq);
/* Likewise, and raises WQ_FATAL. */
void soft_wq_fatal(struct soft_dev *dev, struct soft_wq *wq);

/* rss.c */
/* Returns 0 or an errno, and allocates *ret. */
int soft_rss_new(const struct ibv_qp_init_attr_ex *attr, struct soft_rss **ret);
/* The hash of 'len' bytes, at most SOFT_RSS_KEY - 4. */
uint32_t soft_toeplitz(const uint8_t key[SOFT_RSS_KEY], const uint8_t *data,
		       uint32_t len);
/* Returns the queue for the Ethernet frame. L */
struct soft_wq *soft_rss_choose(const struct soft_rss *rss,
				const uint8_t *frame, uint32_t len);

#endif
