/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pair that defines indirect keys. At most one request is under way.
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

#include <string.h>

#include <infiniband/mlx5dv.h>

#define INLINE_MOST	1024u	/* bytes asked for */
#define INLINE_LEAST	64u
#define ENTRY		16u	/* bytes of inline data */
#define HEAD		4u	/* of inline data, which entries may use */
#define ENTRIES_MOST	((INLINE_MOST + HEAD) / ENTRY)

struct umr {
	const struct rdmamsg_device *d;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	struct mlx5dv_qp_ex *dv;
	uint32_t room;			/* entries of a list */
	uint64_t posted;		/* requests */
};

_Static_assert(ENTRIES_MOST == UMR_ENTRIES, "room of a round");

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

int rdmamsg__umr_mkey(const struct umr *u, uint16_t entries,
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
	int err = rdmamsg__umr_mkey(u, 4, &key);

	if (!err)
		(void)rdmamsg__v_mlx5_destroy_mkey(u->d->v, key);
	return err;
}

static int make(struct umr *u, struct ibv_comp_channel *channel)
{
	int err = rdmamsg__v_create_cq(u->d->v, u->d->verbs, 1, NULL, channel,
				       0, &u->cq);

	if (err)
		return refuse(err, "creating a completion queue");
	err = channel ? rdmamsg__umr_arm(u) : 0;
	if (!err)
		err = create(u);
	if (!err)
		err = try_mkey(u);
	return err ? err : walk(u);
}

int rdmamsg__umr_open(const struct rdmamsg_device *d, struct ibv_pd *pd,
		      struct ibv_comp_channel *channel, struct umr **ret)
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
	err = make(u, channel);
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

const struct verbs_api *rdmamsg__umr_table(const struct umr *u)
{
	return u->d->v;
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

int rdmamsg__umr_arm(struct umr *u)
{
	int err = rdmamsg__verbs_ret(ibv_req_notify_cq(u->cq, 0));

	return err ? refuse(err, "arming the completion queue of keys") : 0;
}

static void begin(struct umr *u)
{
	ibv_wr_start(u->ex);
	u->ex->wr_id = ++u->posted;
	u->ex->wr_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
}

static int post(struct umr *u)
{
	int err = rdmamsg__verbs_ret(ibv_wr_complete(u->ex));

	return err ? refuse(err, "posting the definition of a key") : 0;
}

int rdmamsg__umr_post_list(struct umr *u, struct mlx5dv_mkey *key, int access,
			   struct ibv_sge *sge, uint32_t n)
{
	begin(u);
	mlx5dv_wr_mr_list(u->dv, key, (uint32_t)access, (uint16_t)n, sge);
	return post(u);
}

int rdmamsg__umr_post_rounds(struct umr *u, struct mlx5dv_mkey *key, int access,
			     const struct umr_block *b, uint32_t n,
			     uint32_t rounds)
{
	struct mlx5dv_mr_interleaved data[ENTRIES_MOST];

	/* the driver stores the sum in 16 bits, so the skip may wrap */
	for (uint32_t i = 0; i < n; i++)
		data[i] = (struct mlx5dv_mr_interleaved){
			.addr = b[i].addr, .bytes_count = b[i].len,
			.bytes_skip = (uint32_t)b[i].step - b[i].len,
			.lkey = b[i].lkey,
		};
	begin(u);
	mlx5dv_wr_mr_interleaved(u->dv, key, (uint32_t)access, rounds,
				 (uint16_t)n, data);
	return post(u);
}

int rdmamsg__umr_poll(struct umr *u)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(u->cq, 1, &wc);

	if (n < 0)
		return rdmamsg__fail(-EIO, "the completion queue failed");
	return !n || wc.status == IBV_WC_SUCCESS ? n :
	       rdmamsg__fail(-EIO, "the definition of a key failed: %s",
			     rdmamsg__wc_text(wc.status));
}

#else

int rdmamsg__umr_open(const struct rdmamsg_device *d, struct ibv_pd *pd,
		      struct ibv_comp_channel *channel, struct umr **ret)
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

int rdmamsg__umr_arm(struct umr *u)
{
	return -EOPNOTSUPP;
}

int rdmamsg__umr_poll(struct umr *u)
{
	return -EOPNOTSUPP;
}

#endif
