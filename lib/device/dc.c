/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The masks of state changes are those that Linux requires (hw/mlx5/qp.c), and
 * the commands those of include/linux/mlx5/mlx5_ifc.h.
 */
#include "config.h"

#include "device/dc.h"

#include "base/base.h"
#include "base/util.h"
#include "device/device.h"
#include "device/loopback.h"
#include "device/quirks.h"
#include "device/verbs_call.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#ifdef HAVE_MLX5DV

#include <infiniband/mlx5dv.h>

/* The loss of a message is told after less than 2 s: 7 times 268 ms. */
#define ACK_TIMEOUT	16
#define RETRIES		7
#define RNR_ENDLESS	7	/* the library bounds the time */
#define RNR_TIMER	12	/* 0.64 ms */
#define INLINE		128u
#define READS		16
#define QUERY_DCT	0x713

struct dct_command {
	__be16 opcode, uid, reserved, op_mod;
	__be32 dctn, reserved2;
};

struct dct_answer {
	uint8_t head[16];
	uint8_t before[48];
	__be32 violations;
	uint8_t behind[12];
};

static int refuse(int err, const char *what)
{
	return rdmamsg__fail(err, "%s: %s", what, strerror(-err));
}

int rdmamsg__dc_supported(const struct rdmamsg_device *d)
{
	if (d->v->mlx5_is_supported &&
	    d->v->mlx5_is_supported(d->verbs->device))
		return 0;
	return rdmamsg__fail(-EOPNOTSUPP, "libmlx5 is absent, or does not "
			     "support device %s", d->name);
}

/* Returns the value of an option of endpoints. */
static uint8_t chosen(uint32_t option, uint8_t by_default)
{
	return option == RDMAMSG_NONE ? 0 : option ? (uint8_t)option :
	       by_default;
}

/* ---- targets ----------------------------------------------------------- */

static int access_flags(const struct rdmamsg_device *d)
{
	return IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
	       (rdmamsg__atomic_scope(d) != RDMAMSG_ATOMIC_NONE ?
		IBV_ACCESS_REMOTE_ATOMIC : 0);
}

static int dct_walk(const struct rdmamsg_device *d, struct ibv_qp *dct,
		    uint8_t min_rnr_timer, const struct oob *path)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = path->port,
		.pkey_index = path->pkey_index,
		.qp_access_flags = (unsigned int)access_flags(d),
		.path_mtu = (enum ibv_mtu)path->local.mtu,
		.min_rnr_timer = min_rnr_timer,
	};
	int err;

	rdmamsg__loopback_address(path, &attr.ah_attr);
	err = rdmamsg__v_modify_qp(d->v, dct, &attr, IBV_QP_STATE |
				   IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
				   IBV_QP_PORT);
	attr.qp_state = IBV_QPS_RTR;
	if (!err)
		err = rdmamsg__v_modify_qp(d->v, dct, &attr, IBV_QP_STATE |
					   IBV_QP_MIN_RNR_TIMER | IBV_QP_AV |
					   IBV_QP_PATH_MTU);
	return err;
}

int rdmamsg__dct_open(const struct rdmamsg_device *d,
		      const struct dct_attr *a, const struct oob *path,
		      struct ibv_qp **ret)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_DRIVER, .send_cq = a->cq, .recv_cq = a->cq,
		.pd = a->pd, .srq = a->srq, .comp_mask = IBV_QP_INIT_ATTR_PD,
	};
	struct mlx5dv_qp_init_attr mlx5 = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
		.dc_init_attr = {
			.dc_type = MLX5DV_DCTYPE_DCT,
			.dct_access_key = a->key,
		},
	};
	struct ibv_qp *dct;
	int err = rdmamsg__v_mlx5_create_qp(d->v, d->verbs, &attr, &mlx5, &dct);

	if (err)
		return refuse(err, "creating a target of DC");
	err = dct_walk(d, dct, chosen(a->min_rnr_timer, RNR_TIMER), path);
	if (err) {
		(void)rdmamsg__v_destroy_qp(d->v, dct);
		return refuse(err, "starting a target of DC");
	}
	*ret = dct;
	return 0;
}

int rdmamsg__dct_violations(const struct rdmamsg_device *d, struct ibv_qp *dct,
			    uint32_t *ret)
{
	const struct dct_command in = {
		.opcode = htobe16(QUERY_DCT), .dctn = htobe32(dct->qp_num),
	};
	struct dct_answer out;

	if (!d->v->mlx5_devx_qp_query ||
	    d->v->mlx5_devx_qp_query(dct, &in, sizeof(in), &out, sizeof(out)))
		return rdmamsg__fail(-EOPNOTSUPP, "device %s does not tell of "
				     "access key violations", d->name);
	*ret = be32toh(out.violations);
	return 0;
}

/* ---- initiators -------------------------------------------------------- */

int rdmamsg__dci_open(const struct rdmamsg_device *d, struct ibv_pd *pd,
		      struct ibv_cq *cq, uint32_t depth, struct dci *ret)
{
	const uint64_t atomics =
		rdmamsg__atomic_scope(d) == RDMAMSG_ATOMIC_NONE ? 0 :
		IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
		IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_DRIVER, .send_cq = cq, .recv_cq = cq,
		.cap = {
			.max_send_wr = depth,
			.max_send_sge = (uint32_t)min(RDMAMSG_SEGMENTS_MAX,
						      d->attr.max_sge),
			.max_inline_data = INLINE,
		},
		.pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND |
				  IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_RDMA_READ | atomics,
	};
	struct mlx5dv_qp_init_attr mlx5 = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
		.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI,
	};
	int err = rdmamsg__v_mlx5_create_qp(d->v, d->verbs, &attr, &mlx5,
					    &ret->qp);

	if (err)
		return refuse(err, "creating an initiator of DC");
	ret->max_inline = attr.cap.max_inline_data;
	ret->max_sge = min(attr.cap.max_send_sge, RDMAMSG_SEGMENTS_MAX);
	ret->ex = d->v->qp_to_qp_ex(ret->qp);
	ret->dv = ret->ex ? d->v->mlx5_qp_ex_from_ibv_qp_ex(ret->ex) : NULL;
	if (ret->dv)
		return 0;
	(void)rdmamsg__v_destroy_qp(d->v, ret->qp);
	ret->qp = NULL;
	return rdmamsg__fail(-EOPNOTSUPP, "an initiator of DC has no calls "
			     "that address its requests");
}

int rdmamsg__dci_start(const struct rdmamsg_device *d, const struct dci *dci,
		       const struct dci_attr *a, const struct oob *path)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RESET, .port_num = path->port,
		.pkey_index = path->pkey_index,
		.path_mtu = (enum ibv_mtu)path->local.mtu,
		.timeout = chosen(a->ack_timeout, ACK_TIMEOUT),
		.retry_cnt = chosen(a->retry_count, RETRIES),
		.rnr_retry = chosen(a->rnr_retry_count, RNR_ENDLESS),
		.max_rd_atomic = (uint8_t)min(d->attr.max_qp_init_rd_atom,
					      chosen(a->depth, READS)),
	};
	int err = rdmamsg__v_modify_qp(d->v, dci->qp, &attr, IBV_QP_STATE);

	attr.qp_state = IBV_QPS_INIT;
	if (!err)
		err = rdmamsg__v_modify_qp(d->v, dci->qp, &attr, IBV_QP_STATE |
					   IBV_QP_PKEY_INDEX | IBV_QP_PORT);
	attr.qp_state = IBV_QPS_RTR;
	if (!err)
		err = rdmamsg__v_modify_qp(d->v, dci->qp, &attr, IBV_QP_STATE |
					   IBV_QP_PATH_MTU);
	attr.qp_state = IBV_QPS_RTS;
	if (!err)
		err = rdmamsg__v_modify_qp(d->v, dci->qp, &attr, IBV_QP_STATE |
					   IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC);
	return err ? refuse(err, "starting an initiator of DC") : 0;
}

void rdmamsg__dci_fail(const struct rdmamsg_device *d, const struct dci *dci)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	(void)rdmamsg__v_modify_qp(d->v, dci->qp, &attr, IBV_QP_STATE);
}

static void begin(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(ex);
		return;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(ex, wr->wr.rdma.rkey,
				  wr->wr.rdma.remote_addr);
		return;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(ex, wr->wr.rdma.rkey,
				 wr->wr.rdma.remote_addr);
		return;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(ex, wr->wr.atomic.rkey,
				      wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add,
				      wr->wr.atomic.swap);
		return;
	default:
		ibv_wr_atomic_fetch_add(ex, wr->wr.atomic.rkey,
					wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
	}
}

int rdmamsg__dci_post(const struct dci *dci, const struct ibv_send_wr *wr,
		      const struct dc_to *to)
{
	struct ibv_qp_ex *ex = dci->ex;

	ibv_wr_start(ex);
	ex->wr_id = wr->wr_id;
	ex->wr_flags = wr->send_flags;
	begin(ex, wr);
	mlx5dv_wr_set_dc_addr(dci->dv, to->ah, to->dctn, to->key);
	if (wr->send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(ex, (void *)(uintptr_t)
				       wr->sg_list->addr, wr->sg_list->length);
	else
		ibv_wr_set_sge_list(ex, (size_t)wr->num_sge, wr->sg_list);
	return rdmamsg__verbs_ret(ibv_wr_complete(ex));
}

int rdmamsg__dci_send(const struct dci *dci, const struct dc_to *to,
		      uint64_t wr_id, unsigned int flags, size_t count,
		      const struct ibv_data_buf *parts)
{
	struct ibv_qp_ex *ex = dci->ex;

	ibv_wr_start(ex);
	ex->wr_id = wr_id;
	ex->wr_flags = flags;
	ibv_wr_send(ex);
	mlx5dv_wr_set_dc_addr(dci->dv, to->ah, to->dctn, to->key);
	ibv_wr_set_inline_data_list(ex, count, parts);
	return rdmamsg__verbs_ret(ibv_wr_complete(ex));
}

#else

int rdmamsg__dc_supported(const struct rdmamsg_device *d)
{
	return rdmamsg__fail(-EOPNOTSUPP, "the library was built without "
			     "infiniband/mlx5dv.h");
}

int rdmamsg__dct_open(const struct rdmamsg_device *d,
		      const struct dct_attr *attr, const struct oob *path,
		      struct ibv_qp **ret)
{
	return rdmamsg__dc_supported(d);
}

int rdmamsg__dct_violations(const struct rdmamsg_device *d, struct ibv_qp *dct,
			    uint32_t *ret)
{
	return rdmamsg__dc_supported(d);
}

int rdmamsg__dci_open(const struct rdmamsg_device *d, struct ibv_pd *pd,
		      struct ibv_cq *cq, uint32_t depth, struct dci *ret)
{
	return rdmamsg__dc_supported(d);
}

int rdmamsg__dci_start(const struct rdmamsg_device *d, const struct dci *dci,
		       const struct dci_attr *attr, const struct oob *path)
{
	return rdmamsg__dc_supported(d);
}

void rdmamsg__dci_fail(const struct rdmamsg_device *d, const struct dci *dci)
{
}

int rdmamsg__dci_post(const struct dci *dci, const struct ibv_send_wr *wr,
		      const struct dc_to *to)
{
	return -EOPNOTSUPP;
}

int rdmamsg__dci_send(const struct dci *dci, const struct dc_to *to,
		      uint64_t wr_id, unsigned int flags, size_t count,
		      const struct ibv_data_buf *parts)
{
	return -EOPNOTSUPP;
}

#endif
