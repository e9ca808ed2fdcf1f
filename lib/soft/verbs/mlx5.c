/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls: mlx5dv_*(), for devices and queue pairs. */
#include "config.h"

#include "soft/verbs/mlx5.h"

#include <errno.h>

#ifdef HAVE_MLX5DV

#include <endian.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include "soft/verbs/calls.h"
#include "soft/verbs/cq.h"
#include "soft/verbs/cross.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/dc.h"
#include "soft/verbs/stream.h"
#include "soft/verbs/umr.h"

/* No card of this kind is iWARP. */
bool soft_mlx5_is_supported(struct ibv_device *device)
{
	return device->transport_type == IBV_TRANSPORT_IB;
}

/*
 * rdma-core 47 has appended these to struct mlx5dv_context. This header may be
 * older than that of the program, which sets the bit if it has the fields.
 */
#define MASK_MAX_DC_RD_ATOM	(1u << 14)
struct dc_reads {
	uint64_t most, most_init;	/* as requester, as responder */
};
#define DC_READS_AT \
	((offsetof(struct mlx5dv_context, crypto_caps) + \
	  sizeof(struct mlx5dv_crypto_caps) + 7) / 8 * 8)

static void tell_dc_reads(struct mlx5dv_context *attr)
{
	const struct dc_reads most = { SOFT_MAX_RD, SOFT_MAX_RD };

	memcpy((char *)attr + DC_READS_AT, &most, sizeof(most));
}

/* Without on-demand paging. */
int soft_mlx5_query_device(struct ibv_context *verbs,
			   struct mlx5dv_context *attr)
{
	const uint64_t known = MLX5DV_CONTEXT_MASK_DC_ODP_CAPS |
			       MLX5DV_CONTEXT_MASK_DCI_STREAMS |
			       MASK_MAX_DC_RD_ATOM;

	if (soft_dev_of(verbs)->iwarp)
		return EOPNOTSUPP;
	attr->version = 0;
	attr->flags = 0;
	attr->comp_mask &= known;
	if (attr->comp_mask & MLX5DV_CONTEXT_MASK_DC_ODP_CAPS)
		attr->dc_odp_caps = 0;
	if (attr->comp_mask & MLX5DV_CONTEXT_MASK_DCI_STREAMS)
		attr->dci_streams_caps = (struct mlx5dv_dci_streams_caps){
			SOFT_LOG_STREAMS, SOFT_LOG_ERRORED,
		};
	if (attr->comp_mask & MASK_MAX_DC_RD_ATOM)
		tell_dc_reads(attr);
	return 0;
}

/* ---- creation --------------------------------------------------------- */

static uint32_t flags_of(const struct mlx5dv_qp_init_attr *m)
{
	return m->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS ?
	       m->create_flags : 0;
}

/* rdma-core, mlx5/verbs.c, create_qp() and create_dct(). */
static int check_flags(const struct mlx5dv_qp_init_attr *m, bool target)
{
	const uint32_t scatter = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE |
				 MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE;
	const uint32_t lacking = MLX5DV_QP_CREATE_TUNNEL_OFFLOADS |
				 MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC |
				 MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_MC |
				 MLX5DV_QP_CREATE_PACKET_BASED_CREDIT_MODE |
				 MLX5DV_QP_CREATE_SIG_PIPELINING;
	const uint32_t known = target ?
			       MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE :
			       scatter | lacking;
	const uint32_t flags = flags_of(m);

	if (flags & ~known || (flags & scatter) == scatter)
		return EINVAL;
	/* scatter: hints for completion queues, which this device needs not */
	return flags & lacking ? EOPNOTSUPP : 0;
}

#define RC_OPS	((uint64_t)(MLX5DV_QP_EX_WITH_MR_LIST | \
			    MLX5DV_QP_EX_WITH_MR_INTERLEAVED | \
			    MLX5DV_QP_EX_WITH_MKEY_CONFIGURE | \
			    MLX5DV_QP_EX_WITH_RAW_WQE))

/* rdma-core, mlx5/qp.c, mlx5_qp_fill_wr_pfns(); this device has no copies. */
static uint64_t ops_for(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC ? RC_OPS :
	       type == IBV_QPT_DRIVER ? MLX5DV_QP_EX_WITH_RAW_WQE : 0;
}

static uint64_t ops_of(const struct mlx5dv_qp_init_attr *m)
{
	return m->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS ?
	       m->send_ops_flags : 0;
}

static bool is_target(const struct mlx5dv_qp_init_attr *m)
{
	return m->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DC &&
	       m->dc_init_attr.dc_type == MLX5DV_DCTYPE_DCT;
}

static int check(const struct ibv_qp_init_attr_ex *a,
		 const struct mlx5dv_qp_init_attr *m)
{
	const uint64_t target_known = MLX5DV_QP_INIT_ATTR_MASK_DC |
				      MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
	const uint64_t known = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS |
			       MLX5DV_QP_INIT_ATTR_MASK_DC |
			       MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS |
			       MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;

	if (m->comp_mask & ~known ||
	    (bool)(m->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DC) !=
	    (a->qp_type == IBV_QPT_DRIVER))
		return EINVAL;
	if (is_target(m))
		return m->comp_mask & ~target_known ? EINVAL :
		       check_flags(m, true);
	if (ops_of(m) & ~ops_for(a->qp_type))
		return EOPNOTSUPP;
	return check_flags(m, false);
}

static void set_address(struct mlx5dv_qp_ex *ex, struct ibv_ah *ah,
			uint32_t dctn, uint64_t key)
{
	soft_qp_ex_aim(soft_builder_qp(ex), ah, dctn, key, 0);
}

/* rdma-core, mlx5/qp.c, checks no number, and a card without streams none. */
static void set_address_stream(struct mlx5dv_qp_ex *ex, struct ibv_ah *ah,
			       uint32_t dctn, uint64_t key, uint16_t stream)
{
	soft_qp_ex_aim(soft_builder_qp(ex), ah, dctn, key, stream);
}

/*
 * Frees the queue pair and returns NULL if there is no memory. raw: an
 * initiator takes raw requests.
 */
static struct ibv_qp *add_builder(struct ibv_qp *ibv, bool raw)
{
	struct soft_builder *b = calloc(1, sizeof(*b));
	struct soft_qp *qp = soft_qp(ibv);

	if (!b) {
		(void)soft_destroy_qp(ibv);
		errno = ENOMEM;
		return NULL;
	}
	b->qp = qp;
	if (qp->dci) {
		b->ex.wr_set_dc_addr = set_address;
		b->ex.wr_set_dc_addr_stream = set_address_stream;
		if (raw)
			soft_raw_builder(&b->ex);
	} else {
		soft_umr_builder(&b->ex);
		soft_raw_builder(&b->ex);
	}
	qp->dv = b;
	qp->ex_ops |= SOFT_EX_MLX5;
	/* rdma-core, mlx5/qp.c, fill_wr_builders_rc_xrc_dc() */
	soft_qp_ex_all(qp);
	return ibv;
}

/* Frees the queue pair and returns NULL if there is no memory. */
static struct ibv_qp *add_streams(struct ibv_qp *ibv,
				  const struct mlx5dv_dci_streams *streams)
{
	struct soft_streams *s = soft_streams_new(streams->log_num_errored);

	if (!s) {
		(void)soft_destroy_qp(ibv);
		errno = ENOMEM;
		return NULL;
	}
	soft_qp(ibv)->dci->streams = s;
	return ibv;
}

/* rdma-core, mlx5/verbs.c, create_qp(). */
static struct ibv_qp *create_initiator(struct ibv_context *verbs,
				       struct ibv_qp_init_attr_ex *a,
				       const struct mlx5dv_qp_init_attr *m)
{
	const struct mlx5dv_dci_streams *s = &m->dc_init_attr.dci_streams;
	const bool streams = m->comp_mask &
			     MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
	struct ibv_qp *qp;

	if (streams && (s->log_num_concurent > SOFT_LOG_STREAMS ||
			s->log_num_errored > SOFT_LOG_ERRORED)) {
		errno = EINVAL;
		return NULL;
	}
	qp = soft_create_dc(verbs, a, NULL);
	if (qp && streams)
		qp = add_streams(qp, s);
	return qp && a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ?
	       add_builder(qp, ops_of(m)) : qp;
}

static struct ibv_qp *create_other(struct ibv_context *verbs,
				   struct ibv_qp_init_attr_ex *a,
				   const struct mlx5dv_qp_init_attr *m)
{
	struct ibv_qp *qp = soft_create_qp_ex(verbs, a);

	if (!qp || !ops_of(m) || !soft_qp_to_qp_ex(qp))
		return qp;
	/* most requests of such a queue pair are not raw */
	if (ops_of(m) == MLX5DV_QP_EX_WITH_RAW_WQE)
		soft_qp(qp)->ex_alone = soft_qp(qp)->create_flags &
					SOFT_CROSS_FLAGS;
	return add_builder(qp, true);
}

struct ibv_qp *soft_mlx5_create_qp(struct ibv_context *verbs,
				   struct ibv_qp_init_attr_ex *attr,
				   struct mlx5dv_qp_init_attr *mlx5)
{
	int err = soft_dev_of(verbs)->iwarp ? EOPNOTSUPP : check(attr, mlx5);

	if (err) {
		errno = err;
		return NULL;
	}
	if (attr->qp_type != IBV_QPT_DRIVER)
		return create_other(verbs, attr, mlx5);
	switch (mlx5->dc_init_attr.dc_type) {
	case MLX5DV_DCTYPE_DCT:
		return soft_create_dc(verbs, attr,
				      &mlx5->dc_init_attr.dct_access_key);
	case MLX5DV_DCTYPE_DCI:
		return create_initiator(verbs, attr, mlx5);
	default:
		errno = EINVAL;
		return NULL;
	}
}

struct mlx5dv_qp_ex *soft_mlx5_qp_ex(struct ibv_qp_ex *ex)
{
	/* perftest asks for targets, too, which have no builder */
	return ex ? soft_qp(&ex->qp_base)->dv : NULL;
}

/* ---- streams ---------------------------------------------------------- */

/* rdma-core, mlx5/qp.c. Its test expects an error if the stream is in none. */
int soft_mlx5_dci_stream_id_reset(struct ibv_qp *ibv, uint16_t stream)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_qp *qp = soft_qp_real(ibv);
	int err = 0;

	soft_lock(dev);
	if (dev->iwarp || qp->state != IBV_QPS_RTS)
		err = EOPNOTSUPP;
	else if (!qp->dci || !qp->dci->streams ||
		 !soft_stream_reset(qp->dci->streams, stream))
		err = EINVAL;
	soft_unlock(dev);
	return err;
}

/* ---- objects ---------------------------------------------------------- */

/*
 * The device shows no memory of its queues. Of a completion queue it tells the
 * fields that have a meaning without it; the others become 0.
 */
int soft_mlx5_init_obj(struct mlx5dv_obj *obj, uint64_t types)
{
	const uint64_t known = MLX5DV_OBJ_CQ | MLX5DV_OBJ_AH;

	if (!types || types & ~known)
		return EOPNOTSUPP;
	if (types & MLX5DV_OBJ_CQ)
		*obj->cq.out = (struct mlx5dv_cq){
			.cqn = soft_cq(obj->cq.in)->num,
			.cqe_cnt = (uint32_t)obj->cq.in->cqe,
		};
	if (types & MLX5DV_OBJ_AH)
		*obj->ah.out = (struct mlx5dv_ah){
			.av = soft_av_of(obj->ah.in),
		};
	return 0;
}

/* ---- commands --------------------------------------------------------- */

/*
 * The layouts of Linux, include/linux/mlx5/mlx5_ifc.h. rdma-core 44 has no name
 * for the second command.
 */
#define QUERY_DCT	0x713
#define ARM_DCT		0x714		/* ..._FOR_KEY_VIOLATION */

struct dct_in {
	__be16 opcode, uid;
	__be16 reserved, op_mod;
	__be32 dctn;
	__be32 reserved2;
};

struct dct_out {
	uint8_t status[4];
	__be32 syndrome;
	uint8_t reserved[8];
};

struct dct_context {
	uint8_t state;
	uint8_t reserved[12];
	uint8_t access;			/* bits: 3 read, 2 write, 1 atomic */
	uint8_t reserved2[4];
	uint8_t min_rnr_nak;
	uint8_t reserved3[2];
	uint8_t srqn[3];
	uint8_t reserved4[4];
	__be32 tclass_flow_label;
	__be64 key;
	uint8_t mtu, port;
	__be16 pkey_index;
	uint8_t reserved5, my_addr_index, reserved6, hop_limit;
	__be32 violations;
	uint8_t reserved7[12];
};
_Static_assert(offsetof(struct dct_context, access) == 0x68 / 8, "flags");
_Static_assert(offsetof(struct dct_context, min_rnr_nak) == 0x90 / 8, "rnr");
_Static_assert(offsetof(struct dct_context, srqn) == 0xa8 / 8, "srqn");
_Static_assert(offsetof(struct dct_context, key) == 0x100 / 8, "key");
_Static_assert(offsetof(struct dct_context, violations) == 0x180 / 8, "count");
_Static_assert(sizeof(struct dct_context) == 0x200 / 8, "dctc");

struct query_dct_out {
	struct dct_out head;
	struct dct_context dctc;
};

/* Returns 0 or an errno. */
static int check_command(const struct soft_qp *qp, uint16_t opcode,
			 const void *in, size_t inlen, size_t outlen)
{
	const size_t need = opcode == QUERY_DCT ? sizeof(struct query_dct_out) :
			    sizeof(struct dct_out);
	struct dct_in cmd;

	if (inlen < sizeof(cmd) || outlen < need)
		return EINVAL;
	memcpy(&cmd, in, sizeof(cmd));
	if (be16toh(cmd.opcode) != opcode)
		return EOPNOTSUPP;
	return !qp->dct || qp->state != IBV_QPS_RTR ||
	       (be32toh(cmd.dctn) & 0xffffff) != qp->ibv.qp_num ? EINVAL : 0;
}

static uint8_t access_bits(unsigned int flags)
{
	return (uint8_t)((flags & IBV_ACCESS_REMOTE_READ ? 1 << 3 : 0) |
			 (flags & IBV_ACCESS_REMOTE_WRITE ? 1 << 2 : 0) |
			 (flags & IBV_ACCESS_REMOTE_ATOMIC ? 1 << 1 : 0));
}

static void describe(const struct soft_qp *qp, struct dct_context *d)
{
	const struct ibv_global_route *r = &qp->attr.ah_attr.grh;
	const __be32 srqn = htobe32(qp->srq->num << 8);

	d->access = access_bits(qp->attr.qp_access_flags);
	d->min_rnr_nak = qp->attr.min_rnr_timer;
	memcpy(d->srqn, &srqn, sizeof(d->srqn));
	d->tclass_flow_label = htobe32((uint32_t)r->traffic_class << 24 |
				       (r->flow_label & 0xfffff));
	d->key = htobe64(qp->dct->key);
	d->mtu = (uint8_t)qp->attr.path_mtu;
	d->port = qp->attr.port_num;
	d->pkey_index = htobe16(qp->attr.pkey_index);
	d->my_addr_index = r->sgid_index;
	d->hop_limit = r->hop_limit;
	d->violations = htobe32(qp->dct->violations);
}

int soft_mlx5_devx_qp_query(struct ibv_qp *ibv, const void *in, size_t inlen,
			    void *out, size_t outlen)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	const struct soft_qp *qp = soft_qp(ibv);
	struct query_dct_out ret;
	int err;

	memset(&ret, 0, sizeof(ret));
	soft_lock(dev);
	err = check_command(qp, QUERY_DCT, in, inlen, outlen);
	if (!err)
		describe(qp, &ret.dctc);
	soft_unlock(dev);
	if (!err)
		memcpy(out, &ret, sizeof(ret));
	return err;
}

int soft_mlx5_devx_qp_modify(struct ibv_qp *ibv, const void *in, size_t inlen,
			     void *out, size_t outlen)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_qp *qp = soft_qp(ibv);
	int err;

	soft_lock(dev);
	err = check_command(qp, ARM_DCT, in, inlen, outlen);
	if (!err)
		qp->dct->armed = true;
	soft_unlock(dev);
	if (!err)
		memset(out, 0, sizeof(struct dct_out));
	return err;
}

#else

int soft_mlx5_dci_stream_id_reset(struct ibv_qp *qp, uint16_t stream)
{
	return EOPNOTSUPP;
}

int soft_mlx5_init_obj(struct mlx5dv_obj *obj, uint64_t types)
{
	return EOPNOTSUPP;
}

bool soft_mlx5_is_supported(struct ibv_device *device)
{
	return false;
}

int soft_mlx5_query_device(struct ibv_context *verbs,
			   struct mlx5dv_context *attr)
{
	return EOPNOTSUPP;
}

struct ibv_qp *soft_mlx5_create_qp(struct ibv_context *verbs,
				   struct ibv_qp_init_attr_ex *attr,
				   struct mlx5dv_qp_init_attr *mlx5)
{
	errno = EOPNOTSUPP;
	return NULL;
}

struct mlx5dv_qp_ex *soft_mlx5_qp_ex(struct ibv_qp_ex *ex)
{
	return NULL;
}

int soft_mlx5_devx_qp_query(struct ibv_qp *qp, const void *in, size_t inlen,
			    void *out, size_t outlen)
{
	return EOPNOTSUPP;
}

int soft_mlx5_devx_qp_modify(struct ibv_qp *qp, const void *in, size_t inlen,
			     void *out, size_t outlen)
{
	return EOPNOTSUPP;
}

#endif
