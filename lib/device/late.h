/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs that another thread destroys, because the kernel waits for the
 * peer. The completion queues, shared receive queues and protection domains
 * that they use, and the device, stay open until they are destroyed:
 *
 *	dev in use -----------> dev closed -------------> all freed
 *	queue pairs are late,   its objects are parked    after the last
 *	as many as dev->late    here                      queue pair
 *	has users
 */
#ifndef RDMAMSG_LIB_LATE_H
#define RDMAMSG_LIB_LATE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct cq;
struct dev;
struct late;

struct late_qp {
	struct ibv_qp *ibv;		/* NULL: none */
	struct cq *cq;
	uint32_t share;			/* entries that are promised */
	struct late *late;		/* of the dev with the PD */
};

/*
 * Makes a queue pair late, which is in the error state and uses entries of a
 * completion queue. It has no owner any more. Returns 0 or -ENOMEM.
 */
int rdmamsg__late_take(struct dev *dev, struct ibv_qp *qp, struct cq *cq,
		       uint32_t share, struct late_qp *ret);
/* Destroys the queue pair. From any thread. */
void rdmamsg__late_destroy(struct late_qp *qp);

/*
 * Return true if queue pairs are late that may use the object. Then the last of
 * them frees it. Returns false otherwise: the caller frees it.
 */
bool rdmamsg__late_pd(struct dev *dev);
bool rdmamsg__late_srq(struct dev *dev, struct ibv_srq *srq);
/*
 * The dev closes: the same of all that it has. Then its reference of the device
 * is taken over, too. dev->late is gone in any case.
 */
bool rdmamsg__late_close(struct dev *dev);

#endif
