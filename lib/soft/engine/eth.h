/* SPDX-License-Identifier: BSD-2-Clause */
/* Ethernet frames of raw queue pairs. All L. */
#ifndef SOFT_ENGINE_ETH_H
#define SOFT_ENGINE_ETH_H

#include <stdbool.h>

struct soft_dev;
struct soft_qp;
struct soft_rec;
struct soft_swqe;
struct soft_wire;

/* Returns false if a ring is full. Then push again later. */
bool soft_eth_push(struct soft_dev *dev, struct soft_qp *qp,
		   struct soft_swqe *wqe);
void soft_eth_arrives(struct soft_dev *dev, struct soft_wire *w,
		      const struct soft_rec *rec, const void *payload);

#endif
