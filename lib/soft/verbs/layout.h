/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Layouts: keys of many blocks of registered memory, or of other such keys. All
 * L.
 */
#ifndef SOFT_VERBS_LAYOUT_H
#define SOFT_VERBS_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct iovec;
struct soft_dev;
struct soft_mr;
struct soft_qp;
struct soft_swqe;

/* Carries out SOFT_WR_UMR. Returns 0 or -EINVAL. */
int soft_layout_define(struct soft_dev *dev, const struct soft_qp *qp,
		       const struct soft_swqe *wqe);
/* Makes an indirect key free. Returns 0 or -EINVAL. */
int soft_layout_invalidate(struct soft_dev *dev, const struct soft_qp *qp,
			   uint32_t key, bool by_peer);
/* Returns true if a gather entry has the key of a layout. */
bool soft_layout_in(const struct soft_dev *dev, const struct ibv_sge *sge,
		    uint32_t n);
/*
 * Returns the block that begins at 'addr' of a layout, and shortens *len to its
 * length. Returns NULL if key, protection domain, bounds or access are wrong.
 */
void *soft_layout_block(struct soft_dev *dev, const struct ibv_pd *pd,
			uint32_t key, uint64_t addr, uint32_t *len, int access);

/*
 * Returns the region of an rkey that is a layout, or NULL if key, protection
 * domain, bounds or access are wrong.
 */
const struct soft_mr *soft_layout_of(const struct soft_dev *dev,
				     const struct ibv_pd *pd, uint32_t rkey,
				     uint64_t addr, uint64_t len, int access);
/*
 * Fills in up to 'max' blocks of len bytes from 'addr' on. Returns their
 * number, 0 if a block is not registered any more, or max + 1 if they are more.
 */
uint32_t soft_layout_parts(struct soft_dev *dev, const struct soft_mr *mr,
			   uint64_t addr, uint32_t len, int access,
			   struct iovec *parts, uint32_t max);
/* Copies bytes of a layout. Returns 0 or -EACCES. */
int soft_layout_read(struct soft_dev *dev, const struct soft_mr *mr,
		     uint64_t addr, void *dst, uint32_t len);
int soft_layout_write(struct soft_dev *dev, const struct soft_mr *mr,
		      uint64_t addr, const void *src, uint32_t len);

#endif
