/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Layouts as indirect keys of mlx5. A key is defined by requests, which need a
 * queue pair. So a device has one in each protection domain that has layouts.
 */
#ifndef RDMAMSG_LIB_UMR_H
#define RDMAMSG_LIB_UMR_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/layout.h"

struct dev;
struct mlx5dv_mkey;
struct rdmamsg_device;
struct umr;
struct umr_build;
struct umr_job;
struct umr_key;
struct verbs_api;

#define UMR_BLOCKS	65536u	/* of a layout that is a list */
#define UMR_ENTRIES	64u	/* of a request, at most */
#define UMR_WAIT_MS	5000u	/* for one request, at most */

/* ---- umr.c: the queue pair --------------------------------------------- */

/* Blocks of a round. In each round the block begins 'step' bytes later. */
struct umr_block {
	uint64_t addr;
	uint32_t lkey;
	uint16_t len, step;
};

/*
 * Makes the queue pair, and tries whether the device has such keys. Completions
 * raise events of the channel, unless it is NULL. Errors have a text.
 * -EOPNOTSUPP and others: it has none.
 */
int rdmamsg__umr_open(const struct rdmamsg_device *d, struct ibv_pd *pd,
		      struct ibv_comp_channel *channel, struct umr **ret);
/* Returns the most blocks of a list that one request defines. */
uint32_t rdmamsg__umr_entries(const struct umr *umr);
const struct verbs_api *rdmamsg__umr_table(const struct umr *umr);
/* Keys stay. umr may be NULL. */
void rdmamsg__umr_close(struct umr *umr);
/* Requests an event of the next completion. */
int rdmamsg__umr_arm(struct umr *umr);
/*
 * Creates a key without a definition for this many entries. Errors have a text.
 */
int rdmamsg__umr_mkey(const struct umr *umr, uint16_t entries,
		      struct mlx5dv_mkey **ret);
/*
 * Posts a request that defines the key. No other request may be under way.
 * Errors have a text, and the queue pair is of no use after one.
 */
int rdmamsg__umr_post_list(struct umr *umr, struct mlx5dv_mkey *key, int access,
			   struct ibv_sge *sge, uint32_t n);
int rdmamsg__umr_post_rounds(struct umr *umr, struct mlx5dv_mkey *key,
			     int access, const struct umr_block *block,
			     uint32_t n, uint32_t rounds);
/*
 * Returns 1 if the request is done, 0 if it is under way, and -errno if it has
 * failed, with a text. Then the queue pair is of no use.
 */
int rdmamsg__umr_poll(struct umr *umr);

/* ---- umr_key.c: the keys of a layout, one request at a time ------------ */

/*
 * Plans the keys of a layout, whose addresses begin at 0. The rkeys of its
 * sources are lkeys. access: enum ibv_access_flags. Errors have a text.
 * -EOPNOTSUPP: the device has no such layout, but others.
 */
int rdmamsg__umr_build_new(struct umr *umr, const struct layout *l, int access,
			   struct umr_build **ret);
/*
 * Posts the next request. Returns 1 if it has posted one, 0 if the key is
 * defined, or -errno, with a text. *ret_broken: the queue pair is of no use.
 */
int rdmamsg__umr_build_step(struct umr_build *b, bool *ret_broken);
/* Frees the build, and returns its key, which is defined. */
struct umr_key *rdmamsg__umr_build_take(struct umr_build *b);
/* Frees the build and its keys. The device uses none of them. */
void rdmamsg__umr_build_drop(struct umr_build *b);
/*
 * Defines a key, and waits until it is defined. For tries outside of a loop.
 * Errors have a text.
 */
int rdmamsg__umr_define(struct umr *umr, const struct layout *l, int access,
			struct umr_key **ret);
/* The key, as a memory region that no call of verbs knows. */
struct ibv_mr *rdmamsg__umr_mr(struct umr_key *key);
/* Returns 0 or -errno, and frees the key in both cases. */
int rdmamsg__umr_undefine(struct umr_key *key);

/* ---- umr_loop.c: definitions of a dev, which its loop completes -------- */

/*
 * The end of a definition: key is NULL if err is not 0. -EOPNOTSUPP: the device
 * has failed to define it, and layouts are possible in software.
 */
typedef void umr_done_fn(void *arg, struct umr_key *key, int err);

/*
 * Begins to define a key with the queue pair of the dev, made by the first
 * call. done() follows once, from rdmamsg__dev_umr_poll() or the loop, within
 * UMR_WAIT_MS for each request. -EOPNOTSUPP: the device has no such layout, or
 * has failed to define one. The log has the reason. Other errors have a text.
 */
int rdmamsg__dev_umr_begin(struct dev *dev, const struct layout *l, int access,
			   umr_done_fn *done, void *arg, struct umr_job **ret);
/* done() does not follow. The device may go on with the last request. */
void rdmamsg__umr_cancel(struct umr_job *job);
/* Takes the completions that are there. */
void rdmamsg__dev_umr_poll(struct dev *dev);
/* Ends all definitions with -ECANCELED, and then the queue pair. */
void rdmamsg__dev_umr_close(struct dev *dev);

/* Returns -ETIMEDOUT with a text. */
int rdmamsg__umr_late(void);

/* ---- umr_plan.c: what a layout looks like as entries ------------------- */

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
