/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls: indirect keys (mlx5dv_create_mkey(3)), and the requests that define
 * them (mlx5dv_wr_post(3)), with the rules of rdma-core, mlx5/qp.c and
 * mlx5/verbs.c. layout.c executes the requests.
 */
#include "config.h"

#include "soft/verbs/mlx5.h"

#include <errno.h>

#ifdef HAVE_MLX5DV

#include <stdlib.h>
#include <string.h>

#include "base/layout.h"
#include "base/util.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/qp.h"
#include "soft/verbs/umr.h"

#define REMOTE_INVALIDATE	(1u << 4)	/* mlx5dv.h of rdma-core 43 */
#define HEAD	4u	/* sizeof(struct mlx5_wqe_inl_data_seg) */
#define ACCESS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct mkey {
	struct mlx5dv_mkey dv;		/* first: the program has its address */
	struct soft_mr mr;
};

/* ---- keys ------------------------------------------------------------- */

static int check(const struct soft_dev *dev,
		 const struct mlx5dv_mkey_init_attr *a)
{
	/* no signatures, no cryptography, no tags */
	const uint32_t known = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT |
			       REMOTE_INVALIDATE;

	/* the driver makes each key indirect, but wants a flag */
	if (dev->iwarp || dev->no_layouts || a->create_flags & ~known ||
	    !a->create_flags)
		return EOPNOTSUPP;
	return a->max_entries > LAYOUT_PARTS ? EINVAL : 0;
}

static struct mkey *mkey_new(struct ibv_pd *pd, uint16_t entries)
{
	const struct layout room = {
		.sources = entries, .groups = 1, .parts = entries,
	};
	struct mkey *k = calloc(1, sizeof(*k));
	struct layout *l = calloc(1, sizeof(*l) + rdmamsg__layout_room(&room));

	if (!k || !l) {
		free(k);
		free(l);
		return NULL;
	}
	*l = room;
	rdmamsg__layout_place(l, l + 1);
	k->mr.layout = l;
	k->mr.entries = entries;
	k->mr.ibv.context = pd->context;
	k->mr.ibv.pd = pd;
	return k;
}

static void mkey_free(struct mkey *k)
{
	free(k->mr.layout);
	free(k);
}

struct mlx5dv_mkey *soft_mlx5_create_mkey(struct mlx5dv_mkey_init_attr *attr)
{
	struct ibv_pd *pd = soft_pd_of(attr->pd);
	struct soft_dev *dev = soft_dev_of(pd->context);
	const uint32_t entries = (attr->max_entries + 3u) & ~3u;
	struct mkey *k;
	int err = check(dev, attr);

	if (!err)
		err = soft_may_create(pd->context, SOFT_OBJ_MR);
	if (err) {
		errno = err;
		return NULL;
	}
	k = mkey_new(pd, (uint16_t)entries);
	if (!k)
		return NULL;
	k->mr.peers_invalidate = attr->create_flags & REMOTE_INVALIDATE;
	soft_lock(dev);
	err = soft_key_new(&dev->keys, &k->mr, NULL, &k->mr.ibv.lkey);
	if (!err) {
		((struct soft_pd *)pd)->users++;
		dev->mrs++;
		k->mr.num = ++dev->object_last;
	}
	soft_unlock(dev);
	if (err) {
		mkey_free(k);
		errno = err;
		return NULL;
	}
	k->mr.ibv.rkey = k->mr.ibv.handle = k->mr.ibv.lkey;
	k->dv.lkey = k->dv.rkey = k->mr.ibv.lkey;
	attr->max_entries = (uint16_t)entries;
	return &k->dv;
}

int soft_mlx5_destroy_mkey(struct mlx5dv_mkey *mkey)
{
	struct mkey *k = (struct mkey *)mkey;
	struct soft_dev *dev = soft_dev_of(k->mr.ibv.context);

	soft_lock(dev);
	soft_key_free(&dev->keys, k->mr.ibv.lkey);
	((struct soft_pd *)k->mr.ibv.pd)->users--;
	dev->mrs--;
	soft_unlock(dev);
	mkey_free(k);
	return 0;
}

/* ---- requests --------------------------------------------------------- */

/*
 * While a request lacks setters, wqe->sent is their number. wqe->srqn is the
 * number of entries that the key can have.
 */
static void configure(struct mlx5dv_qp_ex *ex, struct mlx5dv_mkey *mkey,
		      uint8_t setters, struct mlx5dv_mkey_conf_attr *attr)
{
	struct soft_qp *qp = soft_builder_qp(ex);
	struct soft_swqe *wqe;

	if (!(qp->ex.wr_flags & IBV_SEND_INLINE) || attr->comp_mask ||
	    attr->conf_flags & ~(uint32_t)MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR)
		soft_qp_ex_fail(qp, EOPNOTSUPP);
	wqe = soft_qp_ex_begin(qp, SOFT_WR_UMR);
	if (!wqe)
		return;
	wqe->rkey = mkey->lkey;
	wqe->srqn = ((struct mkey *)mkey)->mr.entries;
	wqe->sent = setters;
	wqe->compare_add = wqe->swap = 0;
}

/*
 * Returns the request if it lacks a setter and has none of these properties.
 * Otherwise fails.
 */
static struct soft_swqe *lacks(struct soft_qp *qp, uint64_t what)
{
	struct soft_swqe *wqe = qp->ex_wqe;

	if (!qp->ex_err && wqe && wqe->op == SOFT_WR_UMR && wqe->sent &&
	    !(wqe->swap & what))
		return wqe;
	soft_qp_ex_fail(qp, EINVAL);
	return NULL;
}

static void set_access_flags(struct mlx5dv_qp_ex *ex, uint32_t access)
{
	struct soft_qp *qp = soft_builder_qp(ex);
	struct soft_swqe *wqe = lacks(qp, SOFT_UMR_ACCESS);

	if (!wqe)
		return;
	if (access & ~(uint32_t)ACCESS) {
		soft_qp_ex_fail(qp, EINVAL);
		return;
	}
	wqe->compare_add = access;
	wqe->swap |= SOFT_UMR_ACCESS;
	wqe->sent--;
}

/* Returns the request if it takes n entries. Otherwise fails. */
static struct soft_swqe *begin_layout(struct soft_qp *qp, uint16_t n,
				      uint64_t how)
{
	struct soft_swqe *wqe = lacks(qp, SOFT_UMR_LIST | SOFT_UMR_INTERLEAVED);
	uint32_t room = (qp->cap.max_inline_data + HEAD) /
			(uint32_t)sizeof(struct ibv_sge);

	if (!wqe)
		return NULL;
	/* the repetition takes the place of an entry */
	if (how == SOFT_UMR_INTERLEAVED)
		room -= room > 0;
	if (n > min(room, wqe->srqn)) {
		soft_qp_ex_fail(qp, ENOMEM);
		return NULL;
	}
	wqe->swap |= how;
	wqe->imm = n;
	wqe->sent--;
	return wqe;
}

static void set_layout_list(struct mlx5dv_qp_ex *ex, uint16_t n,
			    const struct ibv_sge *sge)
{
	struct soft_swqe *wqe = begin_layout(soft_builder_qp(ex), n,
					     SOFT_UMR_LIST);

	if (wqe)
		memcpy(wqe->data, sge, n * sizeof(*sge));
}

/* Cuts lengths and strides to 16 bits, as the driver does without a check. */
static void set_layout_interleaved(struct mlx5dv_qp_ex *ex, uint32_t repeat,
				   uint16_t n,
				   const struct mlx5dv_mr_interleaved *data)
{
	struct soft_swqe *wqe = begin_layout(soft_builder_qp(ex), n,
					     SOFT_UMR_INTERLEAVED);

	if (!wqe)
		return;
	wqe->raddr = repeat;
	for (uint32_t i = 0; i < n; i++) {
		const struct mlx5dv_mr_interleaved *d = &data[i];
		const struct ibv_sge e = {
			.addr = d->addr, .lkey = d->lkey,
			.length = (d->bytes_count & 0xffff) |
				  (d->bytes_count + d->bytes_skip) << 16,
		};

		memcpy(wqe->data + i * sizeof(e), &e, sizeof(e));
	}
}

static void mr_list(struct mlx5dv_qp_ex *ex, struct mlx5dv_mkey *mkey,
		    uint32_t access, uint16_t n, struct ibv_sge *sge)
{
	struct mlx5dv_mkey_conf_attr attr = { .conf_flags = 0 };

	configure(ex, mkey, 2, &attr);
	set_access_flags(ex, access);
	set_layout_list(ex, n, sge);
}

static void mr_interleaved(struct mlx5dv_qp_ex *ex, struct mlx5dv_mkey *mkey,
			   uint32_t access, uint32_t repeat, uint16_t n,
			   struct mlx5dv_mr_interleaved *data)
{
	struct mlx5dv_mkey_conf_attr attr = { .conf_flags = 0 };

	configure(ex, mkey, 2, &attr);
	set_access_flags(ex, access);
	set_layout_interleaved(ex, repeat, n, data);
}

/* No key has a signature or cryptography. */
static void set_sig_block(struct mlx5dv_qp_ex *ex,
			  const struct mlx5dv_sig_block_attr *attr)
{
	soft_qp_ex_fail(soft_builder_qp(ex), EINVAL);
}

static void set_crypto(struct mlx5dv_qp_ex *ex,
		       const struct mlx5dv_crypto_attr *attr)
{
	soft_qp_ex_fail(soft_builder_qp(ex), EINVAL);
}

void soft_umr_builder(struct mlx5dv_qp_ex *ex)
{
	ex->wr_mr_list = mr_list;
	ex->wr_mr_interleaved = mr_interleaved;
	ex->wr_mkey_configure = configure;
	ex->wr_set_mkey_access_flags = set_access_flags;
	ex->wr_set_mkey_layout_list = set_layout_list;
	ex->wr_set_mkey_layout_interleaved = set_layout_interleaved;
	ex->wr_set_mkey_sig_block = set_sig_block;
	ex->wr_set_mkey_crypto = set_crypto;
}

#else

struct mlx5dv_mkey *soft_mlx5_create_mkey(struct mlx5dv_mkey_init_attr *attr)
{
	errno = EOPNOTSUPP;
	return NULL;
}

int soft_mlx5_destroy_mkey(struct mlx5dv_mkey *mkey)
{
	return EOPNOTSUPP;
}

#endif
