/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Layouts as indirect keys of mlx5. A key is defined by a request, which needs
 * a queue pair. So a device has one in each protection domain that has layouts.
 */
#ifndef RDMAMSG_LIB_UMR_H
#define RDMAMSG_LIB_UMR_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/layout.h"

struct dev;
struct rdmamsg_device;
struct umr;
struct umr_key;

#define UMR_BLOCKS	65536u	/* of a layout that is a list */

/* ---- umr.c ------------------------------------------------------------- */

/*
 * Makes the queue pair, and tries whether the device has such keys. Errors have
 * a text. -EOPNOTSUPP and others: it has none.
 */
int rdmamsg__umr_open(const struct rdmamsg_device *d, struct ibv_pd *pd,
		      struct umr **ret);
/* Returns the most blocks of a list that one request defines. */
uint32_t rdmamsg__umr_entries(const struct umr *umr);
/* Keys stay. umr may be NULL. */
void rdmamsg__umr_close(struct umr *umr);
/*
 * Makes a key of a layout, whose addresses begin at 0. The rkeys of its sources
 * are lkeys. access: enum ibv_access_flags. Waits until the key is defined.
 * Errors have a text. -EOPNOTSUPP: the device has no such layout, but others.
 */
int rdmamsg__umr_define(struct umr *umr, const struct layout *l, int access,
			struct umr_key **ret);
/* The key, as a memory region that no call of verbs knows. */
struct ibv_mr *rdmamsg__umr_mr(struct umr_key *key);
/* Returns 0 or -errno, and frees the key in both cases. */
int rdmamsg__umr_undefine(struct umr_key *key);
/*
 * The same with the queue pair of a dev, made by the first call. -EOPNOTSUPP:
 * the device has no such layout, or has failed to define one. The log has the
 * reason.
 */
int rdmamsg__dev_umr_define(struct dev *dev, const struct layout *l, int access,
			    struct umr_key **ret);

/* ---- umr_plan.c: what a layout looks like as entries ------------------- */

/* Blocks of a round. In each round the block begins 'step' bytes later. */
struct umr_block {
	uint64_t addr;
	uint32_t lkey;
	uint16_t len, step;
};

/*
 * Describes a layout by the blocks of one round, and the number of rounds.
 * Returns their number, or 0 if the layout needs more than 'room', or lengths
 * or steps of more than 16 bits.
 */
uint32_t rdmamsg__umr_rounds(const struct layout *l, uint32_t room,
			     struct umr_block *ret, uint32_t *ret_rounds);
/*
 * Describes a layout by all of its blocks, and stores at most 'room' of them.
 * Returns their number, or room + 1 if they are more.
 */
uint32_t rdmamsg__umr_blocks(const struct layout *l, uint32_t room,
			     struct ibv_sge *ret);

#endif
