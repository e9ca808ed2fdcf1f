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
#include "device/device.h"
#include "device/loopback.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <stdlib.h>

#ifdef HAVE_MLX5DV

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#define WAIT_MS		5000u	/* for a definition, at most */
#define INLINE_MOST	1024u	/* bytes asked for */
#define INLINE_LEAST	64u
#define ENTRY		16u	/* bytes of inline data */
#define HEAD		4u	/* of inline data, which entries may use */
#define ENTRIES_MOST	((INLINE_MOST + HEAD) / ENTRY)
#define LEVELS_MOST	4u	/* of keys in each other */

struct umr {
	const struct rdmamsg_device *d;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	struct mlx5dv_qp_ex *dv;
	uint32_t room;			/* entries of a list */
	uint64_t posted;		/* requests */
	bool broken;			/* a request has failed */
};

struct umr_key {
	struct ibv_mr ibv;		/* of the last key: lkey, rkey */
	const struct rdmamsg_device *d;
	uint32_t count, size;
	struct mlx5dv_mkey *key[];	/* inner keys first */
};

static int refuse(int err, const char *what)
{
	return rdmamsg__fail(err, "%s: %s", what, strerror(-err));
}

/* ---- the queue pair ---------------------------------------------------- */

static int create_qp(struct umr *u, uint32_t max_inline)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = u->cq, .recv_cq = u->cq, .qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
			.max_recv_sge = 1, .max_inline_data = max_inline,
		},
		.pd = u->pd, .send_ops_flags = IBV_QP_EX_WITH_LOCAL_INV,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};
	struct mlx5dv_qp_init_attr mlx5 = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		.send_ops_flags = MLX5DV_QP_EX_WITH_MR_LIST |
				  MLX5DV_QP_EX_WITH_MR_INTERLEAVED,
	};
	int err = rdmamsg__v_mlx5_create_qp(u->d->v, u->d->verbs, &attr, &mlx5,
					    &u->qp);

	if (!err)
		u->room = min((attr.cap.max_inline_data + HEAD) / ENTRY,
			      ENTRIES_MOST);
	return err;
}

/* No attribute tells the largest inline size, so try smaller sizes. */
static int create(struct umr *u)
{
	uint32_t max_inline = INLINE_MOST;
	int err = create_qp(u, max_inline);

	while (err && err != -ENOMEM && err != -EOPNOTSUPP &&
	       max_inline > INLINE_LEAST) {
		max_inline /= 2;
		err = create_qp(u, max_inline);
	}
	if (err)
		return refuse(err, "creating a queue pair that defines keys");
	u->ex = u->d->v->qp_to_qp_ex(u->qp);
	u->dv = u->ex ? u->d->v->mlx5_qp_ex_from_ibv_qp_ex(u->ex) : NULL;
	return u->dv ? 0 : rdmamsg__fail(-EOPNOTSUPP, "the queue pair has no "
					 "calls that define keys");
}

static int walk(struct umr *u)
{
	struct oob path;
	int err = rdmamsg__loopback_path(u->d, 0, &path);

	for (enum ibv_qp_state to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++)
		if (!err)
			err = rdmamsg__loopback_step(u->d, u->qp, &path,
						     u->qp->qp_num, to);
	return err;
}

static int new_mkey(const struct umr *u, uint16_t entries,
		    struct mlx5dv_mkey **ret)
{
	struct mlx5dv_mkey_init_attr attr = {
		.pd = u->pd, .max_entries = entries,
		.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
	};
	int err = rdmamsg__v_mlx5_create_mkey(u->d->v, &attr, ret);

	return err ? refuse(err, "creating an indirect key") : 0;
}

/* No attribute tells whether a device has indirect keys, so create one. */
static int try_mkey(const struct umr *u)
{
	struct mlx5dv_mkey *key;
	int err = new_mkey(u, 4, &key);

	if (!err)
		(void)rdmamsg__v_mlx5_destroy_mkey(u->d->v, key);
	return err;
}

static int make(struct umr *u)
{
	int err = rdmamsg__v_create_cq(u->d->v, u->d->verbs, 1, NULL, NULL, 0,
				       &u->cq);

	if (err)
		return refuse(err, "creating a completion queue");
	err = create(u);
	if (!err)
		err = try_mkey(u);
	return err ? err : walk(u);
}

int rdmamsg__umr_open(const struct rdmamsg_device *d, struct ibv_pd *pd,
		      struct umr **ret)
{
	struct umr *u;
	int err;

	if (!d->v->mlx5_is_supported ||
	    !d->v->mlx5_is_supported(d->verbs->device))
		return rdmamsg__fail(-EOPNOTSUPP, "libmlx5 is absent, or does "
				     "not support device %s", d->name);
	u = calloc(1, sizeof(*u));
	if (!u)
		return rdmamsg__fail(-ENOMEM, "no memory for a queue pair");
	u->d = d;
	u->pd = pd;
	err = make(u);
	if (err)
		rdmamsg__umr_close(u);
	else
		*ret = u;
	return err;
}

uint32_t rdmamsg__umr_entries(const struct umr *u)
{
	return u->room;
}

void rdmamsg__umr_close(struct umr *u)
{
	if (!u)
		return;
	if (u->qp)
		(void)rdmamsg__v_destroy_qp(u->d->v, u->qp);
	if (u->cq)
		(void)rdmamsg__v_destroy_cq(u->d->v, u->cq);
	free(u);
}

/* ---- requests ---------------------------------------------------------- */

static void begin(struct umr *u)
{
	ibv_wr_start(u->ex);
	u->ex->wr_id = ++u->posted;
	u->ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
}

static int wait_for(struct umr *u)
{
	const uint64_t until = rdmamsg__now_ms() + WAIT_MS;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(u->cq, 1, &wc))) {
		if (rdmamsg__now_ms() >= until)
			return rdmamsg__fail(-ETIMEDOUT, "the device has not "
					     "defined a key in %u ms",
					     WAIT_MS);
		(void)sched_yield();
	}
	if (n < 0)
		return rdmamsg__fail(-EIO, "the completion queue failed");
	return wc.status == IBV_WC_SUCCESS ? 0 :
	       rdmamsg__fail(-EIO, "the definition of a key failed: %s",
			     rdmamsg__wc_text(wc.status));
}

/* Posts the request of a builder, and waits for its completion. */
static int finish(struct umr *u)
{
	int err = rdmamsg__verbs_ret(ibv_wr_complete(u->ex));

	if (err)
		refuse(err, "posting the definition of a key");
	else
		err = wait_for(u);
	u->broken = err;
	return err;
}

/* ---- keys -------------------------------------------------------------- */

static struct umr_key *key_new(const struct umr *u, uint32_t size)
{
	struct umr_key *k = calloc(1, sizeof(*k) + size * sizeof(k->key[0]));

	if (k) {
		k->d = u->d;
		k->size = size;
	}
	return k;
}

/* Adds a key, which becomes the key of the whole. */
static int add(struct umr *u, struct umr_key *k, uint32_t entries)
{
	struct mlx5dv_mkey *key = NULL;
	int err = new_mkey(u, (uint16_t)entries, &key);

	if (err)
		return err;
	k->key[k->count++] = key;
	k->ibv.lkey = key->lkey;
	k->ibv.rkey = key->rkey;
	return 0;
}

static int add_list(struct umr *u, struct umr_key *k, int access,
		    struct ibv_sge *sge, uint32_t n)
{
	int err = add(u, k, n);

	if (err)
		return err;
	begin(u);
	mlx5dv_wr_mr_list(u->dv, k->key[k->count - 1], (uint32_t)access,
			  (uint16_t)n, sge);
	return finish(u);
}

static int add_rounds(struct umr *u, struct umr_key *k, int access,
		      const struct umr_block *b, uint32_t n, uint32_t rounds)
{
	struct mlx5dv_mr_interleaved data[ENTRIES_MOST];
	int err = add(u, k, n);

	if (err)
		return err;
	/* the driver stores the sum in 16 bits, so the skip may wrap */
	for (uint32_t i = 0; i < n; i++)
		data[i] = (struct mlx5dv_mr_interleaved){
			.addr = b[i].addr, .bytes_count = b[i].len,
			.bytes_skip = (uint32_t)b[i].step - b[i].len,
			.lkey = b[i].lkey,
		};
	begin(u);
	mlx5dv_wr_mr_interleaved(u->dv, k->key[k->count - 1], (uint32_t)access,
				 rounds, (uint16_t)n, data);
	return finish(u);
}

/* Replaces each 'room' entries by a key of them. Returns 0 or -errno. */
static int fold(struct umr *u, struct umr_key *k, int access,
		struct ibv_sge *sge, uint32_t *n)
{
	uint32_t made = 0;

	for (uint32_t i = 0; i < *n; i += u->room) {
		const uint32_t some = min(*n - i, u->room);
		uint64_t len = 0;
		int err;

		for (uint32_t s = i; s < i + some; s++)
			len += sge[s].length;
		if (len > UINT32_MAX)
			return rdmamsg__fail(-EOPNOTSUPP, "blocks of 4 GiB "
					     "and more in a list");
		err = add_list(u, k, access, &sge[i], some);
		if (err)
			return err;
		sge[made++] = (struct ibv_sge){
			.length = (uint32_t)len, .lkey = k->ibv.lkey,
		};
	}
	*n = made;
	return 0;
}

static int add_tree(struct umr *u, struct umr_key *k, int access,
		    struct ibv_sge *sge, uint32_t n)
{
	int err = 0;

	while (n > u->room && !err)
		err = fold(u, k, access, sge, &n);
	return err ? err : add_list(u, k, access, sge, n);
}

/* Returns the keys that a tree needs, or 0 if it is too deep. */
static uint32_t keys_of(const struct umr *u, uint32_t n)
{
	uint32_t keys = 1, levels = 1;

	for (; n > u->room; levels++) {
		n = (n + u->room - 1) / u->room;
		keys += n;
	}
	return levels <= LEVELS_MOST ? keys : 0;
}

static int define_blocks(struct umr *u, const struct layout *l, int access,
			 struct umr_key **ret)
{
	const uint32_t most = (uint32_t)min(l->len, (uint64_t)UMR_BLOCKS);
	struct ibv_sge *sge = malloc(most * sizeof(*sge));
	struct umr_key *k;
	uint32_t n, keys;
	int err;

	if (!sge)
		return rdmamsg__fail(-ENOMEM, "no memory for the blocks of a "
				     "layout");
	n = rdmamsg__umr_blocks(l, most, sge);
	keys = n > most ? 0 : keys_of(u, n);
	k = keys ? key_new(u, keys) : NULL;
	if (!keys)
		err = rdmamsg__fail(-EOPNOTSUPP, "%s%u blocks, which are "
				    "neither few nor regular", n > most ?
				    "more than " : "", min(n, most));
	else if (!k)
		err = rdmamsg__fail(-ENOMEM, "no memory for a key");
	else
		err = add_tree(u, k, access, sge, n);
	free(sge);
	*ret = k;
	return err;
}

static int define(struct umr *u, const struct layout *l, int access,
		  struct umr_key **ret)
{
	struct umr_block block[ENTRIES_MOST];
	uint32_t rounds, n;

	*ret = NULL;
	n = rdmamsg__umr_rounds(l, u->room - 1, block, &rounds);
	if (!n)
		return define_blocks(u, l, access, ret);
	*ret = key_new(u, 1);
	return *ret ? add_rounds(u, *ret, access, block, n, rounds) :
	       rdmamsg__fail(-ENOMEM, "no memory for a key");
}

int rdmamsg__umr_define(struct umr *u, const struct layout *l, int access,
			struct umr_key **ret)
{
	struct umr_key *k;
	int err = define(u, l, access, &k);

	if (!err)
		*ret = k;
	else if (k)
		(void)rdmamsg__umr_undefine(k);
	return err;
}

struct ibv_mr *rdmamsg__umr_mr(struct umr_key *key)
{
	return &key->ibv;
}

int rdmamsg__umr_undefine(struct umr_key *k)
{
	int ret = 0;

	/* a key goes before those that it is made of */
	while (k->count) {
		int err = rdmamsg__v_mlx5_destroy_mkey(k->d->v,
						       k->key[--k->count]);

		ret = ret ? ret : err;
	}
	free(k);
	return ret;
}

/* ---- of a dev ---------------------------------------------------------- */

/*
 * After a try: returns -EOPNOTSUPP if layouts are possible in software, and
 * logs why they are. Else the call fails with the error of the try.
 */
static int fall_back(const struct dev *dev, int err)
{
	if (!err || err == -ENOMEM || rdmamsg__device_lost(dev->device))
		return rdmamsg__fail_again(err);
	log_info("device %s: layouts in software: %s", dev->device->name,
		 rdmamsg__text());
	return -EOPNOTSUPP;
}

int rdmamsg__dev_umr_define(struct dev *dev, const struct layout *l, int access,
			    struct umr_key **ret)
{
	int err;

	if (dev->umr_absent)
		return -EOPNOTSUPP;
	if (!dev->umr) {
		err = fall_back(dev, rdmamsg__try(
			rdmamsg__umr_open(dev->device, dev->pd, &dev->umr)));
		dev->umr_absent = err == -EOPNOTSUPP;
		if (err)
			return err;
	}
	err = fall_back(dev, rdmamsg__try(rdmamsg__umr_define(dev->umr, l,
							      access, ret)));
	if (dev->umr->broken) {
		rdmamsg__umr_close(dev->umr);
		dev->umr = NULL;
		dev->umr_absent = err == -EOPNOTSUPP;
	}
	return err;
}

#else

int rdmamsg__umr_open(const struct rdmamsg_device *d, struct ibv_pd *pd,
		      struct umr **ret)
{
	return rdmamsg__fail(-EOPNOTSUPP, "the library was built without "
			     "infiniband/mlx5dv.h");
}

uint32_t rdmamsg__umr_entries(const struct umr *u)
{
	return 0;
}

void rdmamsg__umr_close(struct umr *u)
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

int rdmamsg__dev_umr_define(struct dev *dev, const struct layout *l, int access,
			    struct umr_key **ret)
{
	return -EOPNOTSUPP;
}

#endif
