/* SPDX-License-Identifier: BSD-2-Clause */
/* Posted receives, of a queue pair or of a shared receive queue. */
#ifndef SOFT_VERBS_RQ_H
#define SOFT_VERBS_RQ_H

#include <stdint.h>

#include <infiniband/verbs.h>

struct soft_rwqe {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t length;
	struct ibv_sge *sge;
};

struct soft_rq {
	struct soft_rwqe *wqe;
	struct ibv_sge *sges;
	uint32_t mask, room, head, tail, max_sge;
};

/*
 * Prefetches the buffer of the receive `ahead` places behind the head.
 * Prefetches the entry twice as far behind, for its buffer's address.
 */
static inline void soft_rq_prefetch(const struct soft_rq *rq, uint32_t ahead)
{
	uint32_t near = (rq->head + ahead) & rq->mask;
	uint32_t far = (rq->head + 2 * ahead) & rq->mask;
	/*
	 * an integer, because an entry that is not posted has no valid address
	 */
	uintptr_t at = (uintptr_t)rq->sges[near * rq->max_sge].addr;

	__builtin_prefetch((const void *)at, 1);
	__builtin_prefetch((const void *)(at + 64), 1);
	__builtin_prefetch(&rq->wqe[far]);
	__builtin_prefetch(&rq->sges[far * rq->max_sge]);
}

int soft_rq_init(struct soft_rq *rq, uint32_t wr, uint32_t sge);
void soft_rq_fini(struct soft_rq *rq);
/* Returns 0, ENOMEM if the queue is full, or EINVAL. L */
int soft_rq_post(struct soft_rq *rq, const struct ibv_recv_wr *wr);

#endif
