/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls: the address segment of raw requests of an initiator. The program takes
 * the segment of an address handle (mlx5dv_init_obj(3)), and adds number and
 * key of the target. The fields are those of rdma-core, mlx5/verbs.c,
 * mlx5_create_ah(). The initiator keeps an address handle for each segment.
 */
#include "config.h"

#include "soft/verbs/dc.h"

#include <stdlib.h>

#include "soft/fabric/dev.h"
#include "soft/verbs/ah.h"
#include "soft/verbs/ctx.h"

#ifdef HAVE_MLX5DV

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include "soft/verbs/calls.h"
#include "soft/verbs/qp.h"
#include "soft/verbs/umr.h"

#define HAS_GRH		(1u << 30)
#define FLOW_LABEL	0xfffffu
/* The segment without key and number of the target. */
#define PATH_AT		offsetof(struct mlx5_wqe_av, stat_rate_sl)
#define PATH_LEN	(sizeof(struct mlx5_wqe_av) - PATH_AT)

_Static_assert(sizeof(struct mlx5_wqe_av) ==
	       sizeof(((struct soft_ah *)0)->av), "of an address handle");

#endif

struct soft_av {
	struct soft_av *next;
	struct soft_ah *ah;
};

void soft_avs_free(struct soft_qp *qp)
{
	struct soft_dev *dev = soft_dev_of(qp->ibv.context);
	struct soft_av *a = qp->dci->avs, *next;

	if (!a)
		return;
	soft_lock(dev);
	for (; a; a = next) {
		next = a->next;
		soft_ah_put(a->ah);
		free(a);
	}
	soft_unlock(dev);
}

#ifdef HAVE_MLX5DV

struct mlx5_wqe_av *soft_av_of(struct ibv_ah *ibv)
{
	struct soft_ah *ah = (struct soft_ah *)ibv;
	struct mlx5_wqe_av *av = (void *)ah->av;
	const struct ibv_ah_attr *a = &ah->attr;
	const bool ib = soft_is_ib(soft_dev_of(ibv->context));

	memset(av, 0, sizeof(*av));
	av->stat_rate_sl = ib ? a->sl & 0xf : (uint8_t)((a->sl & 7) << 1);
	if (ib) {
		av->fl_mlid = a->src_path_bits & 0x7f;
		av->rlid = htobe16(a->dlid);
	}
	if (!a->is_global)
		return av;
	av->tclass = a->grh.traffic_class;
	av->hop_limit = a->grh.hop_limit;
	av->grh_gid_fl = htobe32((ib ? HAS_GRH : 0) |
				 (uint32_t)a->grh.sgid_index << 20 |
				 (a->grh.flow_label & FLOW_LABEL));
	memcpy(av->rgid, a->grh.dgid.raw, sizeof(av->rgid));
	return av;
}

/* The segment has no port: packets leave at that of the initiator. */
static struct ibv_ah_attr attr_of(const struct soft_qp *qp,
				  const struct mlx5_wqe_av *av, bool ib)
{
	const uint32_t fields = be32toh(av->grh_gid_fl);
	struct ibv_ah_attr a = {
		.port_num = qp->attr.port_num,
		.is_global = !ib || fields & HAS_GRH,
		.sl = ib ? av->stat_rate_sl & 0xf : av->stat_rate_sl >> 1 & 7,
	};

	if (ib) {
		a.dlid = be16toh(av->rlid);
		a.src_path_bits = av->fl_mlid & 0x7f;
	}
	if (!a.is_global)
		return a;
	a.grh.sgid_index = (uint8_t)(fields >> 20);
	a.grh.flow_label = fields & FLOW_LABEL;
	a.grh.traffic_class = av->tclass;
	a.grh.hop_limit = av->hop_limit;
	memcpy(a.grh.dgid.raw, av->rgid, sizeof(av->rgid));
	return a;
}

static bool is_of(const struct soft_av *a, const struct mlx5_wqe_av *av)
{
	return !memcmp((const uint8_t *)a->ah->av + PATH_AT,
		       (const uint8_t *)av + PATH_AT, PATH_LEN);
}

/* The handle belongs to the queue pair, and so counts for no domain. */
static int add(struct soft_qp *qp, const struct mlx5_wqe_av *av,
	       struct soft_av **ret)
{
	struct soft_dev *dev = soft_dev_of(qp->ibv.context);
	struct ibv_ah_attr attr = attr_of(qp, av, soft_is_ib(dev));
	struct soft_av *a = calloc(1, sizeof(*a));

	if (!a)
		return ENOMEM;
	a->ah = (struct soft_ah *)soft_create_ah(qp->ibv.pd, &attr);
	if (!a->ah) {
		free(a);
		return errno;
	}
	soft_lock(dev);
	((struct soft_pd *)a->ah->ibv.pd)->users--;
	soft_unlock(dev);
	memcpy(a->ah->av, av, sizeof(a->ah->av));
	a->next = qp->dci->avs;
	qp->dci->avs = a;
	*ret = a;
	return 0;
}

int soft_raw_aim(struct soft_qp *qp, const struct mlx5_wqe_av *av)
{
	const uint32_t number = be32toh(av->dqp_dct);
	struct soft_av *a = qp->dci->avs;

	/* without it a device takes a segment of another length */
	if (!(number & MLX5_EXTENDED_UD_AV))
		return EOPNOTSUPP;
	while (a && !is_of(a, av))
		a = a->next;
	if (!a) {
		int err = add(qp, av, &a);

		if (err)
			return err;
	}
	soft_qp_ex_aim(qp, &a->ah->ibv, number & ~MLX5_EXTENDED_UD_AV,
		       be64toh(av->key.dc_key), 0);
	return 0;
}

#endif
