/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dynamically connected transport through the calls of libmlx5. The rules are
 * those of rdma-core (providers/mlx5) and of Linux (hw/mlx5). On devices that
 * libmlx5 does not support, these cases check nothing.
 */
#include "config.h"

#include "device.h"

#ifdef HAVE_MLX5DV

#include <endian.h>
#include <stdio.h>

#include <infiniband/mlx5dv.h>

#define KEY	0x0123456789abcdefull
#define OPS	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | \
		 IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE | \
		 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | \
		 IBV_QP_EX_WITH_RDMA_READ | \
		 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
		 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | \
		 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)

#define DCI_INIT	(IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define DCI_RTR		(IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_AV)
#define DCI_RTS		(IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | \
			 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | \
			 IBV_QP_SQ_PSN)
#define DCT_INIT	(IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | \
			 IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define DCT_RTR		(IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | \
			 IBV_QP_PATH_MTU)
#define DCT_QUERY	(IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT | \
			 IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU | \
			 IBV_QP_PKEY_INDEX)

static struct ibv_srq *srq;
static struct ibv_qp *dct;
static struct ibv_ah *ah;

static bool have_dc(void)
{
	if (v->mlx5_is_supported && v->mlx5_is_supported(ctx->device))
		return true;
	puts("checks nothing: libmlx5 does not support the device");
	return false;
}

/* ---- initiators and targets ------------------------------------------- */

static int undo_qp(void *qp)
{
	return v->destroy_qp(qp);
}

static struct ibv_qp_init_attr_ex dci_attr(struct ibv_cq *cq)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_DRIVER, .send_cq = cq, .recv_cq = cq,
		.cap = how.cap, .pd = pd, .send_ops_flags = OPS,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};
}

static struct ibv_qp_init_attr_ex dct_attr(struct ibv_cq *cq)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_DRIVER, .send_cq = cq, .recv_cq = cq,
		.pd = pd, .srq = srq, .comp_mask = IBV_QP_INIT_ATTR_PD,
	};
}

static struct mlx5dv_qp_init_attr mlx5_attr(enum mlx5dv_dc_type type)
{
	struct mlx5dv_qp_init_attr m = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
		.dc_init_attr.dc_type = type,
	};

	if (type == MLX5DV_DCTYPE_DCT)
		m.dc_init_attr.dct_access_key = KEY;
	return m;
}

static struct ibv_qp *create(struct ibv_qp_init_attr_ex *a,
			     enum mlx5dv_dc_type type)
{
	struct mlx5dv_qp_init_attr m = mlx5_attr(type);
	struct ibv_qp *qp = v->mlx5_create_qp(ctx, a, &m);

	keep(qp, undo_qp);
	return qp;
}

static void dc_step(struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr a = step_attr(to, 0);

	check_call(v->modify_qp(qp, &a, mask), 0);
}

static void bring_up(struct ibv_qp *dci)
{
	dc_step(dci, IBV_QPS_INIT, DCI_INIT);
	dc_step(dci, IBV_QPS_RTR, DCI_RTR);
	dc_step(dci, IBV_QPS_RTS, DCI_RTS);
}

static struct ibv_qp *new_dci(void)
{
	struct ibv_qp_init_attr_ex a = dci_attr(end[0].scq);
	struct ibv_qp *dci = create(&a, MLX5DV_DCTYPE_DCI);

	bring_up(dci);
	return dci;
}

static struct ibv_qp *new_dct(void)
{
	struct ibv_qp_init_attr_ex a = dct_attr(end[1].rcq);
	struct ibv_qp *qp = create(&a, MLX5DV_DCTYPE_DCT);

	dc_step(qp, IBV_QPS_INIT, DCT_INIT);
	dc_step(qp, IBV_QPS_RTR, DCT_RTR);
	return qp;
}

/* Memory and completion queues, a target, and an initiator as end 0. */
static void dc_pair(void)
{
	ends();
	srq = new_srq(64);
	dct = new_dct();
	ah = new_ah(NULL);
	end[0].qp = new_dci();
}

static void receive_shared(uint64_t id, uint32_t offset, uint32_t len)
{
	struct ibv_sge sge = {
		(uintptr_t)end[1].mem + offset, len, end[1].mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1,
	};

	check_call(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

/* ---- requests --------------------------------------------------------- */

static void begin(struct ibv_qp_ex *ex, const struct request *r)
{
	const struct ibv_send_wr *wr = &r->wr;

	ex->wr_id = wr->wr_id;
	ex->wr_flags = wr->send_flags;
	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(ex);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(ex, wr->imm_data);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(ex, wr->wr.rdma.rkey,
				  wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(ex, wr->wr.rdma.rkey,
				      wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(ex, wr->wr.rdma.rkey,
				 wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(ex, wr->wr.atomic.rkey,
				      wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add,
				      wr->wr.atomic.swap);
		break;
	default:
		ibv_wr_atomic_fetch_add(ex, wr->wr.atomic.rkey,
					wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
	}
}

static struct ibv_qp_ex *start(struct ibv_qp *dci)
{
	struct ibv_qp_ex *ex = v->qp_to_qp_ex(dci);

	check(ex);
	ibv_wr_start(ex);
	return ex;
}

static int try_dc(struct ibv_qp *dci, const struct request *r, uint32_t dctn,
		  uint64_t key)
{
	struct ibv_qp_ex *ex = start(dci);

	begin(ex, r);
	mlx5dv_wr_set_dc_addr(v->mlx5_qp_ex_from_ibv_qp_ex(ex), ah, dctn, key);
	ibv_wr_set_sge_list(ex, (size_t)r->wr.num_sge, r->sge);
	return ibv_wr_complete(ex);
}

static void post_dc(const struct request *r)
{
	check_call(try_dc(end[0].qp, r, dct->qp_num, KEY), 0);
}

static void send_dc(struct ibv_qp *dci, struct ibv_qp *to, uint64_t id,
		    uint32_t len, uint64_t key)
{
	struct request r = request(IBV_WR_SEND, id, len);

	check_call(try_dc(dci, &r, to->qp_num, key), 0);
}

/* After an error: an initiator goes on only from RESET. */
static void restart(struct ibv_qp *dci)
{
	check_is(state_of(dci), IBV_QPS_ERR);
	enter(dci, IBV_QPS_RESET);
	bring_up(dci);
}

/* The pair works. */
static void works(struct ibv_qp *dci, struct ibv_qp *to, uint64_t id)
{
	receive_shared(100 + id, 0, MEM);
	fill(0, (uint32_t)id);
	clear(1);
	send_dc(dci, to, id, 5000, KEY);
	(void)sent(0, id, IBV_WC_SUCCESS);
	(void)received(1, 100 + id, IBV_WC_SUCCESS);
	same(5000);
}

/* ---- the device ------------------------------------------------------- */

static void mlx5_query_device__bits_ANSWERS_KNOWN(void)
{
	struct mlx5dv_context a = {
		.comp_mask = MLX5DV_CONTEXT_MASK_DC_ODP_CAPS |
			     MLX5DV_CONTEXT_MASK_DCI_STREAMS | 1ull << 62,
		.dc_odp_caps = 77,
	};

	if (!have_dc())
		return;
	check_call(v->mlx5_query_device(ctx, &a), 0);
	check(a.comp_mask & MLX5DV_CONTEXT_MASK_DC_ODP_CAPS);
	check(!(a.comp_mask & 1ull << 62));
	check(a.dc_odp_caps != 77);
	a.comp_mask = 0;
	check_call(v->mlx5_query_device(ctx, &a), 0);
	check_is(a.comp_mask, 0);
}

static void mlx5_create_qp__iwarp_EOPNOTSUPP(void)
{
	struct mlx5dv_qp_init_attr m = mlx5_attr(MLX5DV_DCTYPE_DCI);
	struct ibv_qp_init_attr_ex a = dci_attr(new_cq(16, NULL));

	if (have_dc() || !v->mlx5_create_qp)
		return;
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

	if (!have_dc())
		return;
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

	if (!have_dc())
		return;
	a = dci_attr(new_cq(16, NULL));
	m.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
	m.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE |
			 MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE;
	fails(a, m, EINVAL);
	m.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE;
	qp = v->mlx5_create_qp(ctx, &a, &m);
	keep(qp, undo_qp);
}

static void mlx5_create_qp__initiator_UMR_EOPNOTSUPP(void)
{
	struct mlx5dv_qp_init_attr m = mlx5_attr(MLX5DV_DCTYPE_DCI);
	struct ibv_qp_init_attr_ex a;

	if (!have_dc())
		return;
	a = dci_attr(new_cq(16, NULL));
	m.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
	m.send_ops_flags = MLX5DV_QP_EX_WITH_MR_LIST;
	fails(a, m, EOPNOTSUPP);
	m = mlx5_attr(MLX5DV_DCTYPE_DCI);
	a.send_ops_flags |= IBV_QP_EX_WITH_TSO;
	fails(a, m, EOPNOTSUPP);
}

/* More streams than the device has. */
static void mlx5_create_qp__too_many_streams_EINVAL(void)
{
	struct mlx5dv_qp_init_attr m = mlx5_attr(MLX5DV_DCTYPE_DCI);
	struct mlx5dv_context caps = {
		.comp_mask = MLX5DV_CONTEXT_MASK_DCI_STREAMS,
	};

	if (!have_dc())
		return;
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

	if (!have_dc())
		return;
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

	if (!have_dc())
		return;
	srq = new_srq(16);
	a = dct_attr(new_cq(16, NULL));
	a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	a.send_ops_flags = OPS;
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

	if (have_dc())
		check(!v->create_qp(pd, &a));
}

/* ---- states ----------------------------------------------------------- */

static void refuses(struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr a = step_attr(to, 0);

	check_call(v->modify_qp(qp, &a, mask), EINVAL);
}

/* Each bit less or more than required is refused. */
static void exact(struct ibv_qp *qp, enum ibv_qp_state to, int required,
		  int optional)
{
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

	if (!have_dc())
		return;
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
	dc_step(qp, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER);
	dc_step(qp, IBV_QPS_ERR, IBV_QP_STATE);
	refuses(qp, IBV_QPS_RTS, DCI_RTS);
	dc_step(qp, IBV_QPS_RESET, IBV_QP_STATE);
}

/* The number is usable in RTR only, and RTR is the last state. */
static void modify_dct__masks_EXACT(void)
{
	struct ibv_qp_init_attr_ex a;
	struct ibv_qp *qp;

	if (!have_dc())
		return;
	srq = new_srq(16);
	a = dct_attr(new_cq(16, NULL));
	qp = create(&a, MLX5DV_DCTYPE_DCT);
	exact(qp, IBV_QPS_INIT, DCT_INIT, 0);
	refuses(qp, IBV_QPS_INIT, DCT_INIT);
	exact(qp, IBV_QPS_RTR, DCT_RTR, 0);
	check(qp->qp_num);
	refuses(qp, IBV_QPS_RTS, DCI_RTS);
	refuses(qp, IBV_QPS_RTS, IBV_QP_STATE);
	refuses(qp, IBV_QPS_SQD, IBV_QP_STATE);
	refuses(qp, IBV_QPS_ERR, IBV_QP_STATE);
	refuses(qp, IBV_QPS_RESET, IBV_QP_STATE);
}

static void query_dct__in_RTR_SOME_ATTRIBUTES(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_init_attr_ex a;
	struct ibv_qp_attr is;
	struct ibv_qp *qp;

	if (!have_dc())
		return;
	srq = new_srq(16);
	a = dct_attr(new_cq(16, NULL));
	qp = create(&a, MLX5DV_DCTYPE_DCT);
	dc_step(qp, IBV_QPS_INIT, DCT_INIT);
	check_call(v->query_qp(qp, &is, IBV_QP_STATE, &init), EINVAL);
	dc_step(qp, IBV_QPS_RTR, DCT_RTR);
	for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1)
		check_call(v->query_qp(qp, &is, bit, &init),
			   bit & DCT_QUERY ? 0 : EINVAL);
	check_call(v->query_qp(qp, &is, DCT_QUERY, &init), 0);
	check_is(is.qp_state, IBV_QPS_RTR);
	check_is(is.qp_access_flags, how.qp_access);
	check_is(is.port_num, 1);
	check_is(is.min_rnr_timer, how.rnr_timer);
	check_is(is.path_mtu, port.active_mtu);
	check_is(is.ah_attr.grh.sgid_index, gid_index);
	check(init.srq == srq && init.qp_type == IBV_QPT_DRIVER);
}

static void query_dci__attributes_AS_SET(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr is;

	if (!have_dc())
		return;
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

/* ---- operations ------------------------------------------------------- */

static const uint32_t sizes[] = { 0, 1, 64, 4097, 65536, 70000, 300000, MEM };
#define SIZES	(sizeof(sizes) / sizeof(*sizes))

static void dc_send__sizes_ARRIVE(void)
{
	struct ibv_wc wc;

	if (!have_dc())
		return;
	dc_pair();
	for (size_t i = 0; i < SIZES; i++) {
		fill(0, (uint32_t)i);
		clear(1);
		receive_shared(10 + i, 0, MEM);
		send_dc(end[0].qp, dct, i, sizes[i], KEY);
		check_is(sent(0, i, IBV_WC_SUCCESS).opcode, IBV_WC_SEND);
		wc = received(1, 10 + i, IBV_WC_SUCCESS);
		check_is(wc.byte_len, sizes[i]);
		check_is(wc.qp_num, dct->qp_num);
		check_is(wc.src_qp, end[0].qp->qp_num);
		same(sizes[i]);
	}
	quiet();
}

static void dc_immediate__send_and_write_ARRIVE(void)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM,
	};
	struct request r;
	struct ibv_wc wc;

	if (!have_dc())
		return;
	dc_pair();
	for (uint64_t i = 0; i < 2; i++) {
		fill(0, (uint32_t)i);
		clear(1);
		receive_shared(10 + i, 0, MEM);
		r = request(ops[i], i, 9000);
		post_dc(&r);
		(void)sent(0, i, IBV_WC_SUCCESS);
		wc = received(1, 10 + i, IBV_WC_SUCCESS);
		check_is(wc.opcode, i ? IBV_WC_RECV_RDMA_WITH_IMM :
			 IBV_WC_RECV);
		check(wc.wc_flags & IBV_WC_WITH_IMM);
		check_is(be32toh(wc.imm_data), 0x12345678);
		same(9000);
	}
	quiet();
}

static void dc_write_read__sizes_MOVE(void)
{
	struct request r;

	if (!have_dc())
		return;
	dc_pair();
	for (size_t i = 0; i < SIZES; i++) {
		fill(0, (uint32_t)i);
		clear(1);
		r = request(IBV_WR_RDMA_WRITE, i, sizes[i]);
		post_dc(&r);
		(void)sent(0, i, IBV_WC_SUCCESS);
		same(sizes[i]);
		fill(1, (uint32_t)i + 9);
		r = request(IBV_WR_RDMA_READ, i, sizes[i]);
		post_dc(&r);
		(void)sent(0, i, IBV_WC_SUCCESS);
		check(!memcmp(end[0].mem, end[1].mem, sizes[i]));
	}
	quiet();
}

static void dc_atomics__many_ADD_UP(void)
{
	uint64_t *at;
	struct request r;

	if (!have_dc())
		return;
	dc_pair();
	at = (void *)end[1].mem;
	*at = 5;
	for (uint64_t i = 0; i < 40; i++) {
		r = request(IBV_WR_ATOMIC_FETCH_AND_ADD, i, 8);
		r.sge[0].addr += 8 * i;
		r.wr.wr.atomic.compare_add = 3;
		post_dc(&r);
	}
	for (uint64_t i = 0; i < 40; i++)
		(void)sent(0, i, IBV_WC_SUCCESS);
	for (uint64_t i = 0; i < 40; i++)
		check_is(((uint64_t *)(void *)end[0].mem)[i], 5 + 3 * i);
	check_is(*at, 125);
	r = request(IBV_WR_ATOMIC_CMP_AND_SWP, 50, 8);
	r.wr.wr.atomic.compare_add = 125;
	r.wr.wr.atomic.swap = 7;
	post_dc(&r);
	(void)sent(0, 50, IBV_WC_SUCCESS);
	check_is(*at, 7);
	check_is(*(uint64_t *)(void *)end[0].mem, 125);
}

/* ---- the builder ------------------------------------------------------ */

static void dc_builder__no_address_EINVAL(void)
{
	struct request r;
	struct ibv_qp_ex *ex;

	if (!have_dc())
		return;
	dc_pair();
	r = request(IBV_WR_SEND, 1, 8);
	ex = start(end[0].qp);
	begin(ex, &r);
	ibv_wr_set_sge_list(ex, 1, r.sge);
	check_call(ibv_wr_complete(ex), EINVAL);
	/* an address of a datagram has no access key */
	ex = start(end[0].qp);
	begin(ex, &r);
	ibv_wr_set_ud_addr(ex, ah, dct->qp_num, QKEY);
	ibv_wr_set_sge_list(ex, 1, r.sge);
	check_call(ibv_wr_complete(ex), EINVAL);
	works(end[0].qp, dct, 2);
	quiet();
}

/* Streams of an initiator without streams have no effect. */
static void dc_builder__stream_IGNORED(void)
{
	struct request r;
	struct ibv_qp_ex *ex;

	if (!have_dc())
		return;
	dc_pair();
	r = request(IBV_WR_RDMA_WRITE, 1, 8);
	ex = start(end[0].qp);
	begin(ex, &r);
	mlx5dv_wr_set_dc_addr_stream(v->mlx5_qp_ex_from_ibv_qp_ex(ex), ah,
				     dct->qp_num, KEY, 3);
	ibv_wr_set_sge_list(ex, 1, r.sge);
	check_call(ibv_wr_complete(ex), 0);
	(void)sent(0, 1, IBV_WC_SUCCESS);
}

static void dc_post__without_builder_FAILS(void)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = 1 };
	struct request r;

	if (!have_dc())
		return;
	dc_pair();
	r = request(IBV_WR_SEND, 1, 8);
	check_call(try_post(0, &r), EINVAL);
	check(ibv_post_recv(end[0].qp, &wr, &bad));
	check_call(ibv_post_recv(dct, &wr, &bad), EINVAL);
	check(!v->qp_to_qp_ex(dct));
	works(end[0].qp, dct, 2);
	quiet();
}

/* ---- many ends -------------------------------------------------------- */

/* An initiator changes its target with each message, and keeps the order. */
static void dc_targets__change_each_time_IN_ORDER(void)
{
	struct ibv_qp *to[3];
	struct ibv_wc wc;

	if (!have_dc())
		return;
	dc_pair();
	for (int i = 0; i < 3; i++)
		to[i] = new_dct();
	for (uint64_t i = 0; i < 30; i++)
		receive_shared(i, (uint32_t)i * 4096, 4096);
	for (uint64_t i = 0; i < 30; i++)
		send_dc(end[0].qp, to[i % 3], i, (uint32_t)i, KEY);
	for (uint64_t i = 0; i < 30; i++) {
		(void)sent(0, i, IBV_WC_SUCCESS);
		wc = received(1, i, IBV_WC_SUCCESS);
		check_is(wc.qp_num, to[i % 3]->qp_num);
		check_is(wc.byte_len, i);
	}
	quiet();
}

/* Requests without completions do not keep an initiator at its target. */
static void dc_targets__unsignalled_CHANGE(void)
{
	struct ibv_qp *other;
	struct request r;

	if (!have_dc())
		return;
	dc_pair();
	other = new_dct();
	fill(0, 1);
	r = request(IBV_WR_RDMA_WRITE, 1, 8);
	r.wr.send_flags = 0;
	post_dc(&r);
	r = request(IBV_WR_RDMA_WRITE, 2, 16);
	check_call(try_dc(end[0].qp, &r, other->qp_num, KEY), 0);
	(void)sent(0, 2, IBV_WC_SUCCESS);
	same(16);
	quiet();
}

/* A target serves many initiators, whose messages arrive in between. */
static void dc_initiators__many_ONE_TARGET(void)
{
	enum { N = 70, EACH = 3 };
	struct ibv_qp *dci[N];
	uint32_t seen[N] = { 0 };
	struct ibv_wc wc;

	if (!have_dc())
		return;
	dc_pair();
	for (int i = 0; i < N; i++)
		dci[i] = new_dci();
	for (uint32_t n = 0; n < EACH; n++) {
		for (uint32_t i = 0; i < N; i++)
			send_dc(dci[i], dct, i, n * 70000 + 8, KEY);
		for (uint32_t i = 0; i < N; i++) {
			int k = 0;

			receive_shared(i, 0, MEM);
			wc = received(1, i, IBV_WC_SUCCESS);
			while (k < N && dci[k]->qp_num != wc.src_qp)
				k++;
			check(k < N);
			check_is(seen[k]++, n);
			check_is(wc.byte_len, n * 70000 + 8);
		}
		for (int i = 0; i < N; i++)
			check_is(next_wc(end[0].scq).status, IBV_WC_SUCCESS);
	}
	quiet();
}

/* ---- keys ------------------------------------------------------------- */

/* The commands of Linux, include/linux/mlx5/mlx5_ifc.h. */
struct dct_command {
	__be16 opcode, uid, reserved, op_mod;
	__be32 dctn, reserved2;
};
#define QUERY_DCT	0x713
#define ARM_DCT		0x714

struct dct_answer {
	uint8_t head[16];
	uint8_t dctc[64];
};

static struct dct_command command(uint16_t opcode)
{
	return (struct dct_command){
		.opcode = htobe16(opcode), .dctn = htobe32(dct->qp_num),
	};
}

static struct dct_answer ask_dct(void)
{
	struct dct_command in = command(QUERY_DCT);
	struct dct_answer out;

	check_call(v->mlx5_devx_qp_query(dct, &in, sizeof(in), &out,
					 sizeof(out)), 0);
	return out;
}

static uint32_t violations(void)
{
	const struct dct_answer a = ask_dct();
	__be32 n;

	memcpy(&n, a.dctc + 48, sizeof(n));
	return be32toh(n);
}

static void arm(void)
{
	struct dct_command in = command(ARM_DCT);
	uint8_t out[16];

	check_call(v->mlx5_devx_qp_modify(dct, &in, sizeof(in), out,
					  sizeof(out)), 0);
}

static void violate(uint64_t id)
{
	send_dc(end[0].qp, dct, id, 8, KEY ^ 1ull << 63);
	(void)sent(0, id, IBV_WC_REM_ACCESS_ERR);
}

static void dc_key__wrong_REM_ACCESS_ERR(void)
{
	struct ibv_qp *other;

	if (!have_dc())
		return;
	dc_pair();
	other = new_dci();
	receive_shared(11, 0, MEM);
	send_dc(end[0].qp, dct, 1, 8, KEY + 1);
	send_dc(end[0].qp, dct, 2, 8, KEY);
	(void)sent(0, 1, IBV_WC_REM_ACCESS_ERR);
	(void)sent(0, 2, IBV_WC_WR_FLUSH_ERR);
	check_is(state_of(dct), IBV_QPS_RTR);
	/* the violation has taken no receive */
	fill(0, 3);
	send_dc(other, dct, 3, 100, KEY);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	(void)received(1, 11, IBV_WC_SUCCESS);
	restart(end[0].qp);
	works(end[0].qp, dct, 4);
	quiet();
}

/* Without ARM_DCT nobody is told, and each ARM_DCT tells once. */
static void dc_key__violations_COUNTED_AND_TOLD(void)
{
	struct ibv_async_event ev;

	if (!have_dc())
		return;
	dc_pair();
	check_is(violations(), 0);
	violate(1);
	restart(end[0].qp);
	check_is(violations(), 1);
	check(!readable(ctx->async_fd, 0));
	for (uint32_t i = 1; i < 3; i++) {
		arm();
		violate(2 * i);
		restart(end[0].qp);
		ev = expect_event(IBV_EVENT_QP_ACCESS_ERR);
		check(ev.element.qp == dct);
		violate(2 * i + 1);
		restart(end[0].qp);
		check(!readable(ctx->async_fd, 0));
		check_is(violations(), 1 + 2 * i);
	}
	works(end[0].qp, dct, 9);
}

static void query_dct__command_ATTRIBUTES(void)
{
	struct dct_command in;
	struct dct_answer a;
	__be64 key;

	if (!have_dc())
		return;
	dc_pair();
	a = ask_dct();
	memcpy(&key, a.dctc + 32, sizeof(key));
	check(be64toh(key) == KEY);
	check_is(a.dctc[0], 0);
	check_is(a.dctc[13] & 0xe, 0xe);
	check_is(a.dctc[18], how.rnr_timer);
	check_is(a.dctc[40], port.active_mtu);
	check_is(a.dctc[41], 1);
	check_is(a.dctc[45], gid_index);
	check_is(a.dctc[47], 64);
	in = command(QUERY_DCT);
	check(v->mlx5_devx_qp_query(dct, &in, sizeof(in), &a, 16));
	in.dctn = htobe32(dct->qp_num + 1);
	check(v->mlx5_devx_qp_query(dct, &in, sizeof(in), &a, sizeof(a)));
	in = command(ARM_DCT);
	check(v->mlx5_devx_qp_query(dct, &in, sizeof(in), &a, sizeof(a)));
	check(v->mlx5_devx_qp_modify(end[0].qp, &in, sizeof(in), &a,
				     sizeof(a)));
}

/* ---- errors ----------------------------------------------------------- */

/* An error ends the initiator. The target serves all others. */
static void ends_initiator(const struct request *r, enum ibv_wc_status status)
{
	struct ibv_qp *other = new_dci();

	post_dc(r);
	(void)sent(0, r->wr.wr_id, status);
	check_is(state_of(dct), IBV_QPS_RTR);
	check(!readable(ctx->async_fd, 0));
	works(other, dct, 50);
	restart(end[0].qp);
	works(end[0].qp, dct, 51);
	quiet();
}

static void dc_write__wrong_rkey_REM_ACCESS_ERR(void)
{
	struct request r;

	if (!have_dc())
		return;
	dc_pair();
	r = request(IBV_WR_RDMA_WRITE, 1, 8);
	r.wr.wr.rdma.rkey ^= 0x100;
	ends_initiator(&r, IBV_WC_REM_ACCESS_ERR);
}

static void dc_read__without_access_REM_INV_REQ_ERR(void)
{
	struct request r;

	if (!have_dc())
		return;
	how.qp_access = IBV_ACCESS_REMOTE_WRITE;
	dc_pair();
	r = request(IBV_WR_RDMA_READ, 1, 8);
	ends_initiator(&r, IBV_WC_REM_INV_REQ_ERR);
}

static void dc_send__local_key_LOC_PROT_ERR(void)
{
	struct request r;

	if (!have_dc())
		return;
	dc_pair();
	r = request(IBV_WR_SEND, 1, 8);
	r.sge[0].lkey ^= 0x100;
	ends_initiator(&r, IBV_WC_LOC_PROT_ERR);
}

static void dc_send__too_long_LOC_LEN_ERR(void)
{
	struct ibv_wc wc;

	if (!have_dc())
		return;
	dc_pair();
	receive_shared(11, 0, 100);
	send_dc(end[0].qp, dct, 1, 101, KEY);
	(void)sent(0, 1, IBV_WC_REM_INV_REQ_ERR);
	wc = received(1, 11, IBV_WC_LOC_LEN_ERR);
	check_is(wc.qp_num, dct->qp_num);
	check(!readable(ctx->async_fd, 0));
	restart(end[0].qp);
	works(end[0].qp, dct, 2);
	quiet();
}

/* The target's domain counts, not that of the shared receive queue. */
static void dc_recv__domain_of_the_target_CHECKED(void)
{
	struct ibv_pd *other;
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_recv_wr *bad, wr = {
		.wr_id = 11, .sg_list = &sge, .num_sge = 1,
	};

	if (!have_dc())
		return;
	dc_pair();
	other = new_pd();
	mr = new_mr(other, end[1].mem, MEM, IBV_ACCESS_LOCAL_WRITE);
	sge = (struct ibv_sge){ (uintptr_t)end[1].mem, 100, mr->lkey };
	check_call(ibv_post_srq_recv(srq, &wr, &bad), 0);
	send_dc(end[0].qp, dct, 1, 8, KEY);
	(void)sent(0, 1, IBV_WC_REM_OP_ERR);
	(void)received(1, 11, IBV_WC_LOC_PROT_ERR);
	restart(end[0].qp);
	works(end[0].qp, dct, 2);
}

static void dc_rnr__receive_later_ARRIVES(void)
{
	if (!have_dc())
		return;
	how.rnr_timer = 14;
	dc_pair();
	fill(0, 1);
	send_dc(end[0].qp, dct, 1, 70000, KEY);
	quiet();
	receive_shared(11, 0, MEM);
	(void)received(1, 11, IBV_WC_SUCCESS);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	same(70000);
}

static void dc_rnr__no_retries_RNR_RETRY_EXC_ERR(void)
{
	if (!have_dc())
		return;
	how.rnr_retry = 0;
	dc_pair();
	send_dc(end[0].qp, dct, 1, 8, KEY);
	send_dc(end[0].qp, dct, 2, 8, KEY);
	(void)sent(0, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	(void)sent(0, 2, IBV_WC_WR_FLUSH_ERR);
	restart(end[0].qp);
	works(end[0].qp, dct, 3);
	quiet();
}

static void dc_target__absent_RETRY_EXC_ERR(void)
{
	struct ibv_qp *gone;

	if (!have_dc())
		return;
	how.timeout = 8;
	how.retry_cnt = 1;
	dc_pair();
	gone = new_dct();
	works(end[0].qp, gone, 1);
	drop(gone);
	send_dc(end[0].qp, dct, 2, 0, KEY);
	receive_shared(12, 0, MEM);
	(void)sent(0, 2, IBV_WC_SUCCESS);
	(void)received(1, 12, IBV_WC_SUCCESS);
	for (uint64_t i = 3; i < 6; i++) {
		struct request r = request(IBV_WR_SEND, i, 8);

		/* numbers that no target has */
		check_call(try_dc(end[0].qp, &r, i == 3 ? 0 : i == 4 ?
				  end[0].qp->qp_num : 0xfffffe, KEY), 0);
		(void)sent(0, i, IBV_WC_RETRY_EXC_ERR);
		restart(end[0].qp);
	}
	works(end[0].qp, dct, 7);
}

/* Requests that the destroyed target has not answered fail. */
static void dc_target__destroyed_under_way_RETRY_EXC_ERR(void)
{
	struct ibv_qp *other;

	if (!have_dc())
		return;
	how.timeout = 8;
	how.retry_cnt = 1;
	dc_pair();
	other = new_dct();
	/* without a receive, the request waits for its retry */
	send_dc(end[0].qp, dct, 1, 70000, KEY);
	send_dc(end[0].qp, dct, 2, 8, KEY);
	quiet();
	drop(dct);
	(void)sent(0, 1, IBV_WC_RETRY_EXC_ERR);
	(void)sent(0, 2, IBV_WC_WR_FLUSH_ERR);
	restart(end[0].qp);
	works(end[0].qp, other, 3);
	quiet();
}

/* An initiator that ends takes no receive with it. */
static void dc_initiator__destroyed_under_way_TARGET_GOES_ON(void)
{
	struct ibv_qp *other;

	if (!have_dc())
		return;
	dc_pair();
	other = new_dci();
	send_dc(other, dct, 1, 300000, KEY);
	quiet();
	drop(other);
	works(end[0].qp, dct, 2);
	quiet();
}

static void dc_initiator__in_error_FLUSHES(void)
{
	if (!have_dc())
		return;
	dc_pair();
	enter(end[0].qp, IBV_QPS_ERR);
	send_dc(end[0].qp, dct, 1, 8, KEY);
	(void)sent(0, 1, IBV_WC_WR_FLUSH_ERR);
	restart(end[0].qp);
	works(end[0].qp, dct, 2);
	quiet();
}

const struct device_case dc_cases[] = {
	CASE(mlx5_query_device__bits_ANSWERS_KNOWN),
	CASE(mlx5_create_qp__iwarp_EOPNOTSUPP),
	CASE(mlx5_create_qp__types_disagree_EINVAL),
	CASE(mlx5_create_qp__flags_CHECKED),
	CASE(mlx5_create_qp__initiator_UMR_EOPNOTSUPP),
	CASE(mlx5_create_qp__too_many_streams_EINVAL),
	CASE(mlx5_create_qp__target_lacks_a_queue_EINVAL),
	CASE(mlx5_create_qp__target_other_mask_EINVAL),
	CASE(mlx5_create_qp__refused_call_of_libibverbs),
	CASE(modify_dci__masks_EXACT),
	CASE(modify_dct__masks_EXACT),
	CASE(query_dct__in_RTR_SOME_ATTRIBUTES),
	CASE(query_dci__attributes_AS_SET),
	CASE(dc_send__sizes_ARRIVE),
	CASE(dc_immediate__send_and_write_ARRIVE),
	CASE(dc_write_read__sizes_MOVE),
	CASE(dc_atomics__many_ADD_UP),
	CASE(dc_builder__no_address_EINVAL),
	CASE(dc_builder__stream_IGNORED),
	CASE(dc_post__without_builder_FAILS),
	CASE(dc_targets__change_each_time_IN_ORDER),
	CASE(dc_targets__unsignalled_CHANGE),
	CASE(dc_initiators__many_ONE_TARGET),
	CASE(dc_key__wrong_REM_ACCESS_ERR),
	CASE(dc_key__violations_COUNTED_AND_TOLD),
	CASE(query_dct__command_ATTRIBUTES),
	CASE(dc_write__wrong_rkey_REM_ACCESS_ERR),
	CASE(dc_read__without_access_REM_INV_REQ_ERR),
	CASE(dc_send__local_key_LOC_PROT_ERR),
	CASE(dc_send__too_long_LOC_LEN_ERR),
	CASE(dc_recv__domain_of_the_target_CHECKED),
	CASE(dc_rnr__receive_later_ARRIVES),
	CASE(dc_rnr__no_retries_RNR_RETRY_EXC_ERR),
	CASE(dc_target__absent_RETRY_EXC_ERR),
	CASE(dc_target__destroyed_under_way_RETRY_EXC_ERR),
	CASE(dc_initiator__destroyed_under_way_TARGET_GOES_ON),
	CASE(dc_initiator__in_error_FLUSHES),
	{ .name = NULL },
};

#else

const struct device_case dc_cases[] = { { .name = NULL } };

#endif
