/* SPDX-License-Identifier: BSD-2-Clause */
/* Every access to registered memory, through lkey or rkey. All L. */
#ifndef SOFT_VERBS_ACCESS_H
#define SOFT_VERBS_ACCESS_H

#include <stdint.h>

#include <infiniband/verbs.h>

struct soft_dev;
struct soft_fetch;
struct soft_qp;
struct soft_shown;
struct soft_swqe;

/*
 * Returns the memory behind a key of a region, or NULL if key, protection
 * domain, bounds or access are wrong.
 */
void *soft_mr_at(struct soft_dev *dev, const struct ibv_pd *pd, uint32_t key,
		 uint64_t addr, uint64_t len, int access);
/* mw.c. Likewise for the key of a window. */
void *soft_mw_at(struct soft_dev *dev, const struct soft_qp *qp,
		 const struct ibv_pd *pd, uint32_t rkey, uint64_t addr,
		 uint64_t len, int access);
/* Likewise for an rkey in a peer's request: region or window. */
void *soft_remote_at(struct soft_dev *dev, const struct soft_qp *qp,
		     const struct ibv_pd *pd, uint32_t rkey, uint64_t addr,
		     uint64_t len, int access);

/*
 * Copy between memory and a gather list, which begins at an offset. Return 0 or
 * -EACCES.
 */
int soft_gather(struct soft_qp *qp, const struct ibv_sge *sge, uint32_t n,
		uint32_t offset, void *dst, uint32_t len);
int soft_scatter(struct soft_qp *qp, const struct ibv_sge *sge, uint32_t n,
		 uint32_t offset, const void *src, uint32_t len);
int soft_scatter_in(struct soft_dev *dev, const struct ibv_pd *pd,
		    const struct ibv_sge *sge, uint32_t n, uint32_t offset,
		    const void *src, uint32_t len);

/* ---- large payloads, which fabric/vm.h shows and fetches --------------- */

/*
 * Shows the next len bytes of a request. Returns the length of *ret, or
 * -EACCES.
 */
int soft_vm_show(struct soft_dev *dev, struct soft_qp *qp,
		 struct soft_swqe *wqe, uint32_t len, struct soft_shown *ret);
/* Withdraws what the peer was offered: engine/offer.h. */
void soft_vm_end_offers(struct soft_dev *dev, struct soft_qp *qp);
/* Withdraws all ranges that requests of a queue pair have shown. */
void soft_vm_forget(struct soft_dev *dev, struct soft_qp *qp);
/* Like soft_vm_read(), into a scatter list from an offset. */
int soft_vm_scatter(struct soft_dev *dev, const struct ibv_pd *pd,
		    const struct ibv_sge *sge, uint32_t n, uint32_t offset,
		    const struct soft_fetch *from, uint32_t len);

#endif
