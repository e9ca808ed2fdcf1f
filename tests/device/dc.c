/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of dynamically connected transport: creation, states, queries.
 * The rules are those of rdma-core (providers/mlx5) and of Linux (hw/mlx5).
 */
#include "config.h"
#include "device.h"

#ifdef HAVE_MLX5DV

#include "dc.h"

/* ---- the device ------------------------------------------------------- */

static void mlx5_query_device__bits_ANSWERS_KNOWN(void)
{
	struct mlx5dv_context a = {
		.comp_mask = MLX5DV_CONTEXT_MASK_DC_ODP_CAPS |
			     MLX5DV_CONTEXT_MASK_DCI_STREAMS | 1ull << 62,
		.dc_odp_caps = 77,
	};

	check_call(v->mlx5_query_device(ctx, &a), 0);
	check(a.comp_mask & MLX5DV_CONTEXT_MASK_DC_ODP_CAPS);
	check(!(a.comp_mask & 1ull << 62));
	check(a.dc_odp_caps != 77);
	a.comp_mask = 0;
	check_call(v->mlx5_query_device(ctx, &a), 0);
	check_is(a.comp_mask, 0);
}

/*
 * rdma-core 47 has appended these. An older header has neither the bit nor the
 * fields.
 */
static void mlx5_query_device__reads_of_DC_THE_MOST(void)
{
	struct {
		struct mlx5dv_context a;
		uint64_t room[8];
	} newer = { .a.comp_mask = 1 << 14 };
	const size_t at = (offsetof(struct mlx5dv_context, crypto_caps) +
			   sizeof(newer.a.crypto_caps) + 7) / 8;
	uint64_t most[2];

	check_call(v->mlx5_query_device(ctx, &newer.a), 0);
	check_is(newer.a.comp_mask, 1 << 14);
	memcpy(most, (uint64_t *)&newer + at, sizeof(most));
	check(most[0] >= how.depth && most[0] < 1024);
	check(most[1] >= how.depth && most[1] < 1024);
}

static void mlx5_create_qp__device_of_others_EOPNOTSUPP(void)
{
	struct mlx5dv_qp_init_attr m = mlx5_attr(MLX5DV_DCTYPE_DCI);
	struct ibv_qp_init_attr_ex a = dci_attr(new_cq(16, NULL));

	if (has_dc())
		create(&a, MLX5DV_DCTYPE_DCI);
	else if (v->mlx5_create_qp)
		check_null(v->mlx5_create_qp(ctx, &a, &m), EOPNOTSUPP);
}

/* ---- creation --------------------------------------------------------- */

static void fails(struct ibv_qp_init_attr_ex a, struct mlx5dv_qp_init_attr m,
		  int err)
{
	check_null(v->mlx5_create_qp(ctx, &a, &m), err);
}

static void mlx5_create_qp__types_disagree_EINVAL(void)
{
	struct mlx5dv_qp_init_attr m = mlx5_attr(MLX5DV_DCTYPE_DCI);
	struct ibv_qp_init_attr_ex a;

	a = dci_attr(new_cq(16, NULL));
	a.qp_type = IBV_QPT_RC;
	fails(a, m, EINVAL);
	a.qp_type = IBV_QPT_DRIVER;
	m.comp_mask = 0;
	fails(a, m, EINVAL);
	m = mlx5_attr(0);
	fails(a, m, EINVAL);
	m = mlx5_attr(MLX5DV_DCTYPE_DCI);
	m.comp_mask |= 1ull << 40;
	fails(a, m, EINVAL);
}

static void mlx5_create_qp__flags_CHECKED(void)
{
	struct mlx5dv_qp_init_attr m = mlx5_attr(MLX5DV_DCTYPE_DCI);
	struct ibv_qp_init_attr_ex a;
	struct ibv_qp *qp;

	a = dci_attr(new_cq(16, NULL));
	m.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
	m.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE |
			 MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE;
	fails(a, m, EINVAL);
	m.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE;
	qp = v->mlx5_create_qp(ctx, &a, &m);
	keep(qp, undo_qp);
}

static void mlx5_create_qp__unknown_flag_EINVAL(void)
{
	struct mlx5dv_qp_init_attr m = mlx5_attr(MLX5DV_DCTYPE_DCI);
	struct ibv_cq *cq = new_cq(16, NULL);
	struct ibv_qp_init_attr_ex rc = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.cap = how.cap, .pd = pd, .comp_mask = IBV_QP_INIT_ATTR_PD,
	};

	m.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
	m.create_flags = 1u << 30;
	fails(dci_attr(cq), m, EINVAL);
	m.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
	fails(rc, m, EINVAL);
}

/* A target takes one flag, and no operations of mlx5. */
static void mlx5_create_qp__target_other_flags_EINVAL(void)
{
	static const uint32_t wrong[] = {
		MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE,
		MLX5DV_QP_CREATE_TUNNEL_OFFLOADS,
		MLX5DV_QP_CREATE_PACKET_BASED_CREDIT_MODE,
	};
	struct mlx5dv_qp_init_attr m = mlx5_attr(MLX5DV_DCTYPE_DCT);
	struct ibv_qp_init_attr_ex a;
	struct ibv_qp *qp;

	srq = new_srq(16);
	a = dct_attr(new_cq(16, NULL));
	m.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		m.create_flags = wrong[i];
		fails(a, m, EINVAL);
	}
	m.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE;
	qp = v->mlx5_create_qp(ctx, &a, &m);
	keep(qp, undo_qp);
	m = mlx5_attr(MLX5DV_DCTYPE_DCT);
	m.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
	m.send_ops_flags = MLX5DV_QP_EX_WITH_RAW_WQE;
	fails(a, m, EINVAL);
}

static void mlx5_create_qp__initiator_UMR_EOPNOTSUPP(void)
{
	static const uint64_t ops[] = {
		MLX5DV_QP_EX_WITH_MR_LIST, MLX5DV_QP_EX_WITH_MR_INTERLEAVED,
		MLX5DV_QP_EX_WITH_MKEY_CONFIGURE,
	};
	struct mlx5dv_qp_init_attr m = mlx5_attr(MLX5DV_DCTYPE_DCI);
	struct ibv_qp_init_attr_ex a;

	a = dci_attr(new_cq(16, NULL));
	m.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		m.send_ops_flags = ops[i];
		fails(a, m, EOPNOTSUPP);
	}
	m = mlx5_attr(MLX5DV_DCTYPE_DCI);
	a.send_ops_flags |= IBV_QP_EX_WITH_TSO;
	fails(a, m, EOPNOTSUPP);
}

/* Only a builder takes the address of a target. */
static void mlx5_create_qp__initiator_without_operations_NO_BUILDER(void)
{
	struct ibv_qp_init_attr_ex a;
	struct ibv_qp *qp;

	a = dci_attr(new_cq(16, NULL));
	a.comp_mask = IBV_QP_INIT_ATTR_PD;
	qp = create(&a, MLX5DV_DCTYPE_DCI);
	check(!v->qp_to_qp_ex(qp));
	a.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;	/* no domain */
	fails(a, mlx5_attr(MLX5DV_DCTYPE_DCI), EINVAL);
}

/* More streams than the device has. */
static void mlx5_create_qp__too_many_streams_EINVAL(void)
{
	struct mlx5dv_qp_init_attr m = mlx5_attr(MLX5DV_DCTYPE_DCI);
	struct mlx5dv_context caps = {
		.comp_mask = MLX5DV_CONTEXT_MASK_DCI_STREAMS,
	};

	check_call(v->mlx5_query_device(ctx, &caps), 0);
	m.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
	m.dc_init_attr.dci_streams.log_num_concurent =
		caps.dci_streams_caps.max_log_num_concurent + 1;
	fails(dci_attr(new_cq(16, NULL)), m, EINVAL);
}

static void mlx5_create_qp__target_lacks_a_queue_EINVAL(void)
{
	struct mlx5dv_qp_init_attr m = mlx5_attr(MLX5DV_DCTYPE_DCT);
	struct ibv_qp_init_attr_ex a;

	srq = new_srq(16);
	a = dct_attr(new_cq(16, NULL));
	a.srq = NULL;
	fails(a, m, EINVAL);
	a.srq = srq;
	a.recv_cq = NULL;
	fails(a, m, EINVAL);
}

/* The comp_mask of a target is IBV_QP_INIT_ATTR_PD. */
static void mlx5_create_qp__target_other_mask_EINVAL(void)
{
	struct mlx5dv_qp_init_attr m = mlx5_attr(MLX5DV_DCTYPE_DCT);
	struct ibv_qp_init_attr_ex a;

	srq = new_srq(16);
	a = dct_attr(new_cq(16, NULL));
	a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	a.send_ops_flags = OPS;
	fails(a, m, EINVAL);
	a.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH;
	fails(a, m, EINVAL);
	a.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	fails(a, m, EINVAL);
	a.comp_mask = 0;
	fails(a, m, EINVAL);
	a = dct_attr(end[1].rcq);
	a.recv_cq = new_cq(16, NULL);
	m.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
	fails(a, m, EINVAL);
}

static void mlx5_create_qp__refused_call_of_libibverbs(void)
{
	struct ibv_cq *cq = new_cq(16, NULL);
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_DRIVER, .send_cq = cq, .recv_cq = cq,
		.cap = how.cap,
	};

	check(!v->create_qp(pd, &a));
}

/* ---- states ----------------------------------------------------------- */

/* Every attribute has a value that other queue pairs take. */
static void refuses(struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr a = step_attr(to, 0);

	a.alt_ah_attr = a.ah_attr;
	a.alt_port_num = port_num;
	a.alt_timeout = how.timeout;
	a.path_mig_state = IBV_MIG_REARM;
	check_call(v->modify_qp(qp, &a, mask), EINVAL);
}

/* Each bit less or more than required is refused. */
static void exact(struct ibv_qp *qp, enum ibv_qp_state to, int required,
		  int optional)
{
	refuses(qp, to, required | IBV_QP_RATE_LIMIT);
	for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1)
		if (required & bit)
			refuses(qp, to, required & ~bit);
		else if (!(optional & bit))
			refuses(qp, to, required | bit);
	dc_step(qp, to, required);
}

static void modify_dci__masks_EXACT(void)
{
	struct ibv_qp_init_attr_ex a;
	struct ibv_qp *qp;

	a = dci_attr(new_cq(16, NULL));
	qp = create(&a, MLX5DV_DCTYPE_DCI);
	refuses(qp, IBV_QPS_RTR, DCI_RTR);
	exact(qp, IBV_QPS_INIT, DCI_INIT, 0);
	refuses(qp, IBV_QPS_RTS, DCI_RTS);
	exact(qp, IBV_QPS_RTR, IBV_QP_STATE | IBV_QP_PATH_MTU,
	      IBV_QP_PKEY_INDEX | IBV_QP_AV);
	exact(qp, IBV_QPS_RTS, DCI_RTS, IBV_QP_MIN_RNR_TIMER);
	refuses(qp, IBV_QPS_SQD, IBV_QP_STATE);
	refuses(qp, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_ALT_PATH);
	refuses(qp, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_ALT_PATH |
		IBV_QP_PATH_MIG_STATE);
	dc_step(qp, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER);
	dc_step(qp, IBV_QPS_ERR, IBV_QP_STATE);
	refuses(qp, IBV_QPS_RTS, DCI_RTS);
	dc_step(qp, IBV_QPS_RESET, IBV_QP_STATE);
}

static void modify_dci__optional_attributes_TAKEN(void)
{
	struct ibv_qp_init_attr_ex a;
	struct ibv_qp *qp;

	a = dci_attr(new_cq(16, NULL));
	qp = create(&a, MLX5DV_DCTYPE_DCI);
	refuses(qp, IBV_QPS_ERR, IBV_QP_STATE);
	dc_step(qp, IBV_QPS_RESET, IBV_QP_STATE);
	dc_step(qp, IBV_QPS_INIT, DCI_INIT);
	dc_step(qp, IBV_QPS_INIT, IBV_QP_STATE);
	dc_step(qp, IBV_QPS_INIT, DCI_INIT);
	refuses(qp, IBV_QPS_INIT, DCI_INIT | IBV_QP_ACCESS_FLAGS);
	dc_step(qp, IBV_QPS_RTR, DCI_RTR | IBV_QP_PKEY_INDEX);
	refuses(qp, IBV_QPS_INIT, DCI_INIT);
	dc_step(qp, IBV_QPS_RTS, DCI_RTS | IBV_QP_MIN_RNR_TIMER);
	refuses(qp, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS);
	check_state(qp, IBV_QPS_RTS);
}

/* RTR is the last state. */
static void modify_dct__masks_EXACT(void)
{
	struct ibv_qp_init_attr_ex a;
	struct ibv_qp *qp;

	srq = new_srq(16);
	a = dct_attr(new_cq(16, NULL));
	qp = create(&a, MLX5DV_DCTYPE_DCT);
	refuses(qp, IBV_QPS_RTR, DCT_RTR);
	refuses(qp, IBV_QPS_ERR, IBV_QP_STATE);
	exact(qp, IBV_QPS_INIT, DCT_INIT, 0);
	refuses(qp, IBV_QPS_INIT, DCT_INIT);
	refuses(qp, IBV_QPS_ERR, IBV_QP_STATE);
	refuses(qp, IBV_QPS_RESET, IBV_QP_STATE);
	exact(qp, IBV_QPS_RTR, DCT_RTR, 0);
	check(qp->qp_num);
	refuses(qp, IBV_QPS_RTS, DCI_RTS);
	refuses(qp, IBV_QPS_RTS, IBV_QP_STATE);
	refuses(qp, IBV_QPS_SQD, IBV_QP_STATE);
	refuses(qp, IBV_QPS_ERR, IBV_QP_STATE);
	refuses(qp, IBV_QPS_RESET, IBV_QP_STATE);
}

/*
 * A target has no destination, and a request brings that of an initiator: Linux
 * (hw/mlx5/qp.c, mlx5_ib_modify_dct()) only reads the route.
 */
static void modify_dct__no_lid_TAKEN(void)
{
	struct ibv_qp_init_attr_ex a;
	struct ibv_qp_attr to;
	struct ibv_qp *qp;

	if (port.link_layer == IBV_LINK_LAYER_ETHERNET)
		return;
	srq = new_srq(16);
	a = dct_attr(new_cq(16, NULL));
	qp = create(&a, MLX5DV_DCTYPE_DCT);
	dc_step(qp, IBV_QPS_INIT, DCT_INIT);
	to = step_attr(IBV_QPS_RTR, 0);
	to.ah_attr.is_global = 0;
	to.ah_attr.dlid = 0;
	to.ah_attr.port_num = 0;
	check_call(v->modify_qp(qp, &to, DCT_RTR), EINVAL);
	to.ah_attr.port_num = 1;
	check_call(v->modify_qp(qp, &to, DCT_RTR), 0);
	a = dci_attr(new_cq(16, NULL));
	qp = create(&a, MLX5DV_DCTYPE_DCI);
	dc_step(qp, IBV_QPS_INIT, DCI_INIT);
	check_call(v->modify_qp(qp, &to, DCI_RTR), 0);
}

/* The device draws the number of a target when it becomes RTR. */
static void modify_dct__number_IN_RTR(void)
{
	struct ibv_qp_init_attr_ex a;
	struct ibv_qp *qp[2];
	uint32_t before;

	srq = new_srq(16);
	a = dct_attr(new_cq(16, NULL));
	for (int i = 0; i < 2; i++) {
		qp[i] = create(&a, MLX5DV_DCTYPE_DCT);
		dc_step(qp[i], IBV_QPS_INIT, DCT_INIT);
	}
	before = qp[0]->qp_num;
	check_is(qp[1]->qp_num, before);
	for (int i = 0; i < 2; i++) {
		dc_step(qp[i], IBV_QPS_RTR, DCT_RTR);
		check(qp[i]->qp_num != before);
	}
	check(qp[0]->qp_num != qp[1]->qp_num);
}

static void query_dct__in_RTR_SOME_ATTRIBUTES(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_init_attr_ex a;
	struct ibv_qp_attr is;
	struct ibv_qp *qp;

	srq = new_srq(16);
	a = dct_attr(new_cq(16, NULL));
	qp = create(&a, MLX5DV_DCTYPE_DCT);
	check_call(v->query_qp(qp, &is, IBV_QP_STATE, &init), EINVAL);
	dc_step(qp, IBV_QPS_INIT, DCT_INIT);
	check_call(v->query_qp(qp, &is, IBV_QP_STATE, &init), EINVAL);
	dc_step(qp, IBV_QPS_RTR, DCT_RTR);
	for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1)
		check_call(v->query_qp(qp, &is, bit, &init),
			   bit & DCT_QUERY ? 0 : EINVAL);
	check_call(v->query_qp(qp, &is, IBV_QP_RATE_LIMIT, &init), EINVAL);
	check_call(v->query_qp(qp, &is, DCT_QUERY, &init), 0);
	check_is(is.qp_state, IBV_QPS_RTR);
	check_is(is.qp_access_flags, how.qp_access);
	check_is(is.port_num, port_num);
	check_is(is.min_rnr_timer, how.rnr_timer);
	check_is(is.path_mtu, port.active_mtu);
	check_is(is.ah_attr.grh.sgid_index, gid_index);
	check(init.srq == srq && init.qp_type == IBV_QPT_DRIVER);
}

static void query_dci__attributes_AS_SET(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr is;

	dc_pair();
	check_call(v->query_qp(end[0].qp, &is, IBV_QP_STATE | IBV_QP_TIMEOUT |
			       IBV_QP_CAP, &init), 0);
	check_is(is.qp_state, IBV_QPS_RTS);
	check_is(is.timeout, how.timeout);
	check_is(is.retry_cnt, how.retry_cnt);
	check(is.cap.max_send_wr >= how.cap.max_send_wr);
	check_is(is.cap.max_recv_wr, 0);
	check_is(init.qp_type, IBV_QPT_DRIVER);
}

const struct device_case dc_cases[] = {
	CASE(mlx5_create_qp__device_of_others_EOPNOTSUPP),
	GATE(dc__device_supports_it),
	CASE(mlx5_query_device__bits_ANSWERS_KNOWN),
	CASE(mlx5_query_device__reads_of_DC_THE_MOST),
	CASE(mlx5_create_qp__types_disagree_EINVAL),
	CASE(mlx5_create_qp__flags_CHECKED),
	CASE(mlx5_create_qp__unknown_flag_EINVAL),
	CASE(mlx5_create_qp__target_other_flags_EINVAL),
	CASE(mlx5_create_qp__initiator_UMR_EOPNOTSUPP),
	CASE(mlx5_create_qp__initiator_without_operations_NO_BUILDER),
	CASE(mlx5_create_qp__too_many_streams_EINVAL),
	CASE(mlx5_create_qp__target_lacks_a_queue_EINVAL),
	CASE(mlx5_create_qp__target_other_mask_EINVAL),
	CASE(mlx5_create_qp__refused_call_of_libibverbs),
	CASE(modify_dci__masks_EXACT),
	CASE(modify_dci__optional_attributes_TAKEN),
	CASE(modify_dct__masks_EXACT),
	CASE(modify_dct__no_lid_TAKEN),
	CASE(modify_dct__number_IN_RTR),
	CASE(query_dct__in_RTR_SOME_ATTRIBUTES),
	CASE(query_dci__attributes_AS_SET),
	{ .name = NULL },
};

#endif
