/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A layout becomes an interleaved key if its blocks repeat and are few in a
 * round. Otherwise its blocks become a list. A request has room for some
 * entries only, so a long list becomes a tree: keys of blocks, keys of such
 * keys, and so on.
 */
#include "config.h"

#include "device/umr.h"

#include "base/base.h"
#include "base/util.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <stdlib.h>

#ifdef HAVE_MLX5DV

#include <sched.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#define LEVELS_MOST	4u	/* of keys in each other */

struct umr_key {
	struct ibv_mr ibv;		/* of the last key: lkey, rkey */
	const struct verbs_api *v;
	uint32_t count, size;
	struct mlx5dv_mkey *key[];	/* inner keys first */
};

/* The entries of a level become keys of the next one, in the same array. */
struct umr_build {
	struct umr *umr;
	struct umr_key *key;
	int access;
	bool complete;			/* the last request is posted */
	uint32_t rounds;		/* 0: a list */
	uint32_t n;			/* blocks, or entries of this level */
	uint32_t at, made;		/* of the level: taken, keys made */
	struct ibv_sge *sge;		/* of a list */
	struct umr_block block[UMR_ENTRIES];
};

/* ---- planning ---------------------------------------------------------- */

static int no_memory(const char *what)
{
	return rdmamsg__fail(-ENOMEM, "no memory for %s", what);
}

static int key_new(struct umr_build *b, uint32_t size)
{
	struct umr_key *k = calloc(1, sizeof(*k) + size * sizeof(k->key[0]));

	if (!k)
		return no_memory("a key");
	k->v = rdmamsg__umr_table(b->umr);
	k->size = size;
	b->key = k;
	return 0;
}

/* Returns the keys that a tree needs, or 0 if it is too deep. */
static uint32_t keys_of(uint32_t room, uint32_t n)
{
	uint32_t keys = 1, levels = 1;

	for (; n > room; levels++) {
		n = (n + room - 1) / room;
		keys += n;
	}
	return levels <= LEVELS_MOST ? keys : 0;
}

static int plan_blocks(struct umr_build *b, const struct layout *l)
{
	const uint32_t most = (uint32_t)min(l->len, (uint64_t)UMR_BLOCKS);
	uint32_t keys;

	b->sge = malloc(most * sizeof(*b->sge));
	if (!b->sge)
		return no_memory("the blocks of a layout");
	b->n = rdmamsg__umr_blocks(l, most, b->sge);
	keys = b->n > most ? 0 : keys_of(rdmamsg__umr_entries(b->umr), b->n);
	return keys ? key_new(b, keys) :
	       rdmamsg__fail(-EOPNOTSUPP, "%s%u blocks, which are neither few "
			     "nor regular", b->n > most ? "more than " : "",
			     min(b->n, most));
}

static int plan(struct umr_build *b, const struct layout *l)
{
	b->n = rdmamsg__umr_rounds(l, rdmamsg__umr_entries(b->umr) - 1,
				   b->block, &b->rounds);
	if (b->n)
		return key_new(b, 1);
	b->rounds = 0;
	return plan_blocks(b, l);
}

static void build_free(struct umr_build *b)
{
	free(b->sge);
	free(b);
}

int rdmamsg__umr_build_new(struct umr *u, const struct layout *l, int access,
			   struct umr_build **ret)
{
	struct umr_build *b = calloc(1, sizeof(*b));
	int err;

	if (!b)
		return no_memory("a key");
	b->umr = u;
	b->access = access;
	err = plan(b, l);
	if (err)
		rdmamsg__umr_build_drop(b);
	else
		*ret = b;
	return err;
}

/* ---- requests ---------------------------------------------------------- */

/* Adds a key, which becomes the key of the whole. */
static int add(struct umr_build *b, uint32_t entries, struct mlx5dv_mkey **ret)
{
	struct umr_key *k = b->key;
	int err = rdmamsg__umr_mkey(b->umr, (uint16_t)entries, ret);

	if (err)
		return err;
	k->key[k->count++] = *ret;
	k->ibv.lkey = (*ret)->lkey;
	k->ibv.rkey = (*ret)->rkey;
	return 0;
}

/* Posts a key of 'n' entries from 'at' on. */
static int post_list(struct umr_build *b, uint32_t n, bool *ret_broken)
{
	struct mlx5dv_mkey *key;
	int err = add(b, n, &key);

	if (err)
		return err;
	err = rdmamsg__umr_post_list(b->umr, key, b->access, &b->sge[b->at], n);
	*ret_broken = err;
	return err;
}

/* Replaces the next entries of the level by a key of them. */
static int fold(struct umr_build *b, bool *ret_broken)
{
	const uint32_t some = min(b->n - b->at, rdmamsg__umr_entries(b->umr));
	uint64_t len = 0;
	int err;

	for (uint32_t s = b->at; s < b->at + some; s++)
		len += b->sge[s].length;
	if (len > UINT32_MAX)
		return rdmamsg__fail(-EOPNOTSUPP, "blocks of 4 GiB and more in "
				     "a list");
	err = post_list(b, some, ret_broken);
	if (err)
		return err;
	b->sge[b->made++] = (struct ibv_sge){
		.length = (uint32_t)len, .lkey = b->key->ibv.lkey,
	};
	b->at += some;
	if (b->at == b->n) {
		b->n = b->made;
		b->at = b->made = 0;
	}
	return 0;
}

static int post_rounds(struct umr_build *b, bool *ret_broken)
{
	struct mlx5dv_mkey *key;
	int err = add(b, b->n, &key);

	if (err)
		return err;
	err = rdmamsg__umr_post_rounds(b->umr, key, b->access, b->block, b->n,
				       b->rounds);
	*ret_broken = err;
	return err;
}

int rdmamsg__umr_build_step(struct umr_build *b, bool *ret_broken)
{
	int err;

	*ret_broken = false;
	if (b->complete)
		return 0;
	if (!b->rounds && (b->at || b->n > rdmamsg__umr_entries(b->umr))) {
		err = fold(b, ret_broken);
	} else {
		b->complete = true;
		err = b->rounds ? post_rounds(b, ret_broken) :
		      post_list(b, b->n, ret_broken);
	}
	return err ? err : 1;
}

struct umr_key *rdmamsg__umr_build_take(struct umr_build *b)
{
	struct umr_key *k = b->key;

	build_free(b);
	return k;
}

void rdmamsg__umr_build_drop(struct umr_build *b)
{
	if (b->key)
		(void)rdmamsg__umr_undefine(b->key);
	build_free(b);
}

/* ---- at once ----------------------------------------------------------- */

static int wait_for(struct umr *u)
{
	const uint64_t until = rdmamsg__now_ms() + UMR_WAIT_MS;
	int n;

	while (!(n = rdmamsg__umr_poll(u))) {
		if (rdmamsg__now_ms() >= until)
			return rdmamsg__umr_late();
		(void)sched_yield();
	}
	return n;
}

int rdmamsg__umr_define(struct umr *u, const struct layout *l, int access,
			struct umr_key **ret)
{
	struct umr_build *b;
	bool broken;
	int err = rdmamsg__umr_build_new(u, l, access, &b);

	if (err)
		return err;
	do {
		err = rdmamsg__umr_build_step(b, &broken);
		if (err > 0)
			err = wait_for(u);
	} while (err > 0);
	if (err)
		rdmamsg__umr_build_drop(b);
	else
		*ret = rdmamsg__umr_build_take(b);
	return err;
}

/* ---- keys -------------------------------------------------------------- */

struct ibv_mr *rdmamsg__umr_mr(struct umr_key *key)
{
	return &key->ibv;
}

int rdmamsg__umr_undefine(struct umr_key *k)
{
	int ret = 0;

	/* a key goes before those that it is made of */
	while (k->count) {
		int err = rdmamsg__v_mlx5_destroy_mkey(k->v,
						       k->key[--k->count]);

		ret = ret ? ret : err;
	}
	free(k);
	return ret;
}

#else

int rdmamsg__umr_build_new(struct umr *u, const struct layout *l, int access,
			   struct umr_build **ret)
{
	return -EOPNOTSUPP;
}

int rdmamsg__umr_build_step(struct umr_build *b, bool *ret_broken)
{
	return -EOPNOTSUPP;
}

struct umr_key *rdmamsg__umr_build_take(struct umr_build *b)
{
	return NULL;
}

void rdmamsg__umr_build_drop(struct umr_build *b)
{
}

int rdmamsg__umr_define(struct umr *u, const struct layout *l, int access,
			struct umr_key **ret)
{
	return -EOPNOTSUPP;
}

struct ibv_mr *rdmamsg__umr_mr(struct umr_key *key)
{
	return NULL;
}

int rdmamsg__umr_undefine(struct umr_key *k)
{
	return -EOPNOTSUPP;
}

#endif
