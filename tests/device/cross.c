/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cross-channel queue pairs. libibverbs refuses their flags for other devices,
 * so these cases check nothing there.
 */
#include "config.h"
#include "device.h"

#ifdef HAVE_MLX5DV
#include <endian.h>

#include <infiniband/mlx5dv.h>

#define CROSS		(1u << 2)
#define MANAGED_SEND	(1u << 3)
#define MANAGED_RECV	(1u << 4)

#define OP_WAIT		0x0f
#define OP_RECV_ENABLE	0x16
#define OP_SEND_ENABLE	0x17

#define ADD		1
#define ADD_DOUBLE	2
#define MAXLOC		3
#define AND		4
#define OR		5
#define XOR		6

static bool have_cross(void)
{
	return v->mlx5_init_obj && v->mlx5_is_supported &&
	       v->mlx5_is_supported(ctx->device) &&
	       !strncmp(v->get_device_name(ctx->device), "soft", 4);
}

static int undo_qp(void *qp)
{
	return v->destroy_qp(qp);
}

static int undo_cq(void *cq)
{
	return v->destroy_cq(cq);
}

/* Returns NULL, with errno set, if the device refuses the flags. */
static struct ibv_qp *try_create(enum ibv_qp_type type, struct ibv_cq *scq,
				 struct ibv_cq *rcq, uint32_t flags)
{
	struct mlx5dv_qp_init_attr m = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		.send_ops_flags = type == IBV_QPT_RC ?
				  MLX5DV_QP_EX_WITH_RAW_WQE : 0,
	};
	struct ibv_qp_init_attr_ex a = {
		.qp_type = type, .send_cq = scq, .recv_cq = rcq,
		.cap = how.cap, .pd = pd, .create_flags = flags,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_CREATE_FLAGS |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};

	return v->mlx5_create_qp(ctx, &a, &m);
}

static struct ibv_qp *create(struct ibv_cq *scq, struct ibv_cq *rcq,
			     uint32_t flags)
{
	struct ibv_qp *qp = try_create(IBV_QPT_RC, scq, rcq, flags);

	check(qp);
	keep(qp, undo_qp);
	return qp;
}

static void join(struct ibv_qp *a, struct ibv_qp *b)
{
	walk(a, b->qp_num);
	walk(b, a->qp_num);
}

/* Connected ends with these flags. */
static void cross_pair(uint32_t flags0, uint32_t flags1)
{
	ends();
	end[0].qp = create(end[0].scq, end[0].rcq, flags0);
	end[1].qp = create(end[1].scq, end[1].rcq, flags1);
	join(end[0].qp, end[1].qp);
}

/* A queue pair for waits and enables alone, and its completion queue. */
struct master {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
};

static struct master new_master(uint32_t flags)
{
	struct master m = { .cq = new_cq(64, NULL) };
	struct ibv_qp *peer;

	m.qp = create(m.cq, m.cq, flags);
	peer = create(m.cq, m.cq, 0);
	join(m.qp, peer);
	return m;
}

static uint32_t number_of(struct ibv_cq *cq)
{
	struct mlx5dv_cq out;
	struct mlx5dv_obj obj = { .cq = { .in = cq, .out = &out } };

	check_call(v->mlx5_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	return out.cqn;
}

static int try_raw(struct ibv_qp *qp, uint64_t id, const void *r)
{
	struct ibv_qp_ex *ex = v->qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_id = id;
	ex->wr_flags = 0;
	mlx5dv_wr_raw_wqe(v->mlx5_qp_ex_from_ibv_qp_ex(ex), r);
	return ibv_wr_complete(ex);
}

static int try_queue(struct ibv_qp *qp, uint64_t id, uint8_t op,
		     uint32_t number, uint32_t index)
{
	struct {
		struct mlx5_wqe_ctrl_seg ctrl;
		__be32 reserved[2], index, number;
	} r;

	memset(&r, 0, sizeof(r));
	mlx5dv_set_ctrl_seg(&r.ctrl, 0, op, 0, qp->qp_num,
			    MLX5_WQE_CTRL_CQ_UPDATE, 2, 0, 0);
	r.index = htobe32(index);
	r.number = htobe32(number);
	return try_raw(qp, id, &r);
}

#define wait_for(qp, id, cq, n) \
	check_call(try_queue(qp, id, OP_WAIT, number_of(cq), n), 0)
#define enable_sends(qp, id, to, n) \
	check_call(try_queue(qp, id, OP_SEND_ENABLE, (to)->qp_num, n), 0)
#define enable_receives(qp, id, to, n) \
	check_call(try_queue(qp, id, OP_RECV_ENABLE, (to)->qp_num, n), 0)

static void done(struct ibv_cq *cq, uint64_t id)
{
	struct ibv_wc wc = expect(cq, id, IBV_WC_SUCCESS);

	check_is(wc.opcode, MLX5DV_WC_RAW_WQE);
}

/* Writes 8 bytes, which complete with this id. */
static void write_at(int i, uint64_t id)
{
	struct request r = request(IBV_WR_RDMA_WRITE, id, 8);

	if (i) {
		r.sge[0].addr = (uintptr_t)end[1].mem;
		r.sge[0].lkey = end[1].mr->lkey;
		aim(&r, (uintptr_t)end[0].mem, end[0].mr->rkey);
	}
	post(i, &r);
}

/* ---- creation --------------------------------------------------------- */

static void create_qp__cross_channel_not_RC_EOPNOTSUPP(void)
{
	if (!have_cross())
		return;
	ends();
	for (uint32_t f = CROSS; f <= MANAGED_RECV; f *= 2) {
		check_null(try_create(IBV_QPT_UD, end[0].scq, end[0].rcq, f),
			   EOPNOTSUPP);
		check_null(try_create(IBV_QPT_UC, end[0].scq, end[0].rcq, f),
			   EOPNOTSUPP);
		(void)create(end[0].scq, end[0].rcq, f);
	}
	(void)create(end[0].scq, end[0].rcq,
		     CROSS | MANAGED_SEND | MANAGED_RECV);
}

/*
 * Linux core/uverbs_std_types_qp.c, check_creation_flags(); of the source
 * number mlx5/verbs.c, create_qp().
 */
static void create_qp__flags_of_packets_EINVAL(void)
{
	static const uint32_t flags[] = {
		IBV_QP_CREATE_SCATTER_FCS, IBV_QP_CREATE_CVLAN_STRIPPING,
		IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
		IBV_QP_CREATE_PCI_WRITE_END_PADDING,
		IBV_QP_CREATE_SOURCE_QPN, 1u << 20,
	};

	if (!have_cross())
		return;
	ends();
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		check_null(try_create(IBV_QPT_RC, end[0].scq, end[0].rcq,
				      flags[i]), EINVAL);
		check_null(try_create(IBV_QPT_UC, end[0].scq, end[0].rcq,
				      flags[i] | CROSS), EINVAL);
	}
	for (size_t i = 0; i < 2; i++)
		check_null(try_create(IBV_QPT_UD, end[0].scq, end[0].rcq,
				      flags[i]), EINVAL);
}

/* ---- waits ------------------------------------------------------------ */

static void wait__completions_missing_WAITS(void)
{
	if (!have_cross())
		return;
	cross_pair(CROSS, 0);
	wait_for(end[0].qp, 1, end[1].scq, 2);
	write_at(0, 2);
	write_at(1, 3);
	(void)sent(1, 3, IBV_WC_SUCCESS);
	quiet();
	write_at(1, 4);
	(void)sent(1, 4, IBV_WC_SUCCESS);
	done(end[0].scq, 1);
	(void)sent(0, 2, IBV_WC_SUCCESS);
	quiet();
}

static void wait__completions_there_GOES_ON(void)
{
	if (!have_cross())
		return;
	cross_pair(CROSS, 0);
	write_at(1, 1);
	(void)sent(1, 1, IBV_WC_SUCCESS);
	wait_for(end[0].qp, 2, end[1].scq, 1);
	wait_for(end[0].qp, 3, end[1].scq, 0);
	done(end[0].scq, 2);
	done(end[0].scq, 3);
	quiet();
}

static void wait__index_wraps_WAITS(void)
{
	if (!have_cross())
		return;
	cross_pair(CROSS, 0);
	wait_for(end[0].qp, 1, end[1].scq, UINT32_MAX);
	done(end[0].scq, 1);		/* one before the first */
	wait_for(end[0].qp, 2, end[1].scq, INT32_MAX);
	quiet();
}

static void wait__several_share_a_queue_EACH_IN_TURN(void)
{
	struct master m[3];

	if (!have_cross())
		return;
	cross_pair(0, 0);
	for (uint32_t i = 0; i < 3; i++) {
		m[i] = new_master(CROSS);
		wait_for(m[i].qp, 10 + i, end[0].scq, i + 1);
	}
	for (uint32_t i = 0; i < 3; i++) {
		struct ibv_wc wc;

		for (uint32_t k = i; k < 3; k++)
			check_is(ibv_poll_cq(m[k].cq, 1, &wc), 0);
		write_at(0, i);
		(void)sent(0, i, IBV_WC_SUCCESS);
		done(m[i].cq, 10 + i);
	}
	quiet();
}

static void wait__queue_that_overruns_unharmed_COUNTS_ALL(void)
{
	struct ibv_cq_init_attr_ex a = {
		.cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	};
	struct ibv_cq_ex *cq;
	struct master m;
	struct ibv_qp *a0, *a1;

	if (!have_cross())
		return;
	cross_pair(0, 0);
	m = new_master(CROSS);
	cq = ibv_create_cq_ex(ctx, &a);
	check(cq);
	keep(ibv_cq_ex_to_cq(cq), undo_cq);
	a0 = create(ibv_cq_ex_to_cq(cq), end[0].rcq, 0);
	a1 = create(end[1].scq, end[1].rcq, 0);
	join(a0, a1);
	end[0].qp = a0;
	wait_for(m.qp, 1, ibv_cq_ex_to_cq(cq), 40);
	for (uint64_t i = 0; i < 40; i++)
		write_at(0, i);
	done(m.cq, 1);
	check_is(state_of(a0), IBV_QPS_RTS);
}

static void wait__each_other_DESTROYED(void)
{
	struct master a, b;

	if (!have_cross())
		return;
	ends();
	a = new_master(CROSS);
	b = new_master(CROSS);
	wait_for(a.qp, 1, b.cq, 1);
	wait_for(b.qp, 2, a.cq, 1);
	drop(a.qp);
	drop(b.qp);
}

static void destroy_cq__waited_for_EBUSY(void)
{
	struct ibv_cq *cq;
	struct master m;

	if (!have_cross())
		return;
	ends();
	m = new_master(CROSS);
	cq = new_cq(4, NULL);
	wait_for(m.qp, 1, cq, 1);
	check_call(v->destroy_cq(cq), EBUSY);
	enter(m.qp, IBV_QPS_ERR);
	(void)expect(m.cq, 1, IBV_WC_WR_FLUSH_ERR);
	drop(cq);
}

/* A wait that the queue has not reached holds nothing. */
static void wait__queue_gone_LOC_QP_OP_ERR(void)
{
	struct ibv_cq *first, *second;
	struct master m;

	if (!have_cross())
		return;
	cross_pair(0, 0);
	m = new_master(CROSS);
	first = end[0].scq;
	second = new_cq(4, NULL);
	wait_for(m.qp, 1, first, 1);
	wait_for(m.qp, 2, second, 1);
	drop(second);
	write_at(0, 3);
	done(m.cq, 1);
	(void)expect(m.cq, 2, IBV_WC_LOC_QP_OP_ERR);
	check_is(state_of(m.qp), IBV_QPS_ERR);
}

static void wait__error_FLUSHES(void)
{
	if (!have_cross())
		return;
	cross_pair(CROSS, 0);
	wait_for(end[0].qp, 1, end[1].scq, 1);
	write_at(0, 2);
	enter(end[0].qp, IBV_QPS_ERR);
	(void)sent(0, 1, IBV_WC_WR_FLUSH_ERR);
	(void)sent(0, 2, IBV_WC_WR_FLUSH_ERR);
	quiet();
}

/* ---- enables ---------------------------------------------------------- */

static void enable__two_of_three_sends_TWO(void)
{
	struct master m;

	if (!have_cross())
		return;
	cross_pair(CROSS | MANAGED_SEND, 0);
	m = new_master(CROSS);
	for (uint64_t i = 1; i <= 3; i++)
		write_at(0, i);
	quiet();
	enable_sends(m.qp, 10, end[0].qp, 2);
	done(m.cq, 10);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	(void)sent(0, 2, IBV_WC_SUCCESS);
	quiet();
	enable_sends(m.qp, 11, end[0].qp, 1);	/* takes nothing back */
	enable_sends(m.qp, 12, end[0].qp, 3);
	done(m.cq, 11);
	done(m.cq, 12);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	quiet();
}

/* The indices count on although the queue was empty in between. */
static void enable__after_the_queue_was_empty_COUNTS_ON(void)
{
	struct master m;

	if (!have_cross())
		return;
	cross_pair(CROSS | MANAGED_SEND, 0);
	m = new_master(CROSS);
	for (uint32_t i = 1; i <= 200; i++) {
		write_at(0, i);
		enable_sends(m.qp, 1000 + i, end[0].qp, i);
		done(m.cq, 1000 + i);
		(void)sent(0, i, IBV_WC_SUCCESS);
	}
}

/* The peer hears of a receive that is not ready, and its send then waits. */
static void enable__receives_RNR_BEFORE(void)
{
	struct request r;
	struct master m;

	if (!have_cross())
		return;
	how.rnr_retry = 0;
	cross_pair(0, CROSS | MANAGED_RECV);
	receive(1, 1, 0, 8);
	r = request(IBV_WR_SEND, 2, 8);
	post(0, &r);
	(void)sent(0, 2, IBV_WC_RNR_RETRY_EXC_ERR);

	how.rnr_retry = 7;
	cross_pair(0, CROSS | MANAGED_RECV);
	m = new_master(CROSS);
	receive(1, 1, 0, 8);
	receive(1, 2, 0, 8);
	enable_receives(m.qp, 10, end[1].qp, 1);
	done(m.cq, 10);
	r = request(IBV_WR_SEND, 3, 8);
	post(0, &r);
	(void)received(1, 1, IBV_WC_SUCCESS);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	post(0, &r);
	quiet();
	enable_receives(m.qp, 11, end[1].qp, 2);
	(void)received(1, 2, IBV_WC_SUCCESS);
	(void)sent(0, 3, IBV_WC_SUCCESS);
}

static void enable__master_is_managed_WHEN_ENABLED(void)
{
	struct master m, top;

	if (!have_cross())
		return;
	cross_pair(CROSS | MANAGED_SEND, 0);
	m = new_master(CROSS | MANAGED_SEND);
	top = new_master(CROSS);
	write_at(0, 1);
	enable_sends(m.qp, 2, end[0].qp, 1);
	quiet();
	enable_sends(top.qp, 3, m.qp, 1);
	done(top.cq, 3);
	done(m.cq, 2);
	(void)sent(0, 1, IBV_WC_SUCCESS);
}

static void enable__bad_target_EINVAL(void)
{
	struct ibv_qp *qp;
	struct master m;

	if (!have_cross())
		return;
	cross_pair(CROSS | MANAGED_SEND | MANAGED_RECV, CROSS);
	m = new_master(CROSS);
	qp = end[0].qp;
	/* more than is posted */
	check_call(try_queue(m.qp, 1, OP_SEND_ENABLE, qp->qp_num, 1), EINVAL);
	check_call(try_queue(m.qp, 1, OP_RECV_ENABLE, qp->qp_num, 1), EINVAL);
	/* not managed */
	qp = end[1].qp;
	check_call(try_queue(m.qp, 1, OP_SEND_ENABLE, qp->qp_num, 0), EINVAL);
	check_call(try_queue(m.qp, 1, OP_RECV_ENABLE, qp->qp_num, 0), EINVAL);
	/* no such queue */
	check_call(try_queue(m.qp, 1, OP_SEND_ENABLE, 0xffffff, 0), EINVAL);
	check_call(try_queue(m.qp, 1, OP_WAIT, 0xffffffff, 0), EINVAL);
	quiet();
}

static void queue_request__no_cross_channel_EINVAL(void)
{
	struct ibv_qp *qp;

	if (!have_cross())
		return;
	cross_pair(MANAGED_SEND | MANAGED_RECV, 0);
	qp = end[0].qp;
	check_call(try_queue(qp, 1, OP_WAIT, number_of(end[0].scq), 0), EINVAL);
	check_call(try_queue(qp, 1, OP_SEND_ENABLE, qp->qp_num, 0), EINVAL);
	check_call(try_queue(qp, 1, OP_RECV_ENABLE, qp->qp_num, 0), EINVAL);
	quiet();
}

static void enable__target_gone_LOC_QP_OP_ERR(void)
{
	struct master m;

	if (!have_cross())
		return;
	cross_pair(CROSS | MANAGED_SEND, 0);
	m = new_master(CROSS);
	write_at(0, 1);
	wait_for(m.qp, 2, end[1].scq, 1);
	enable_sends(m.qp, 3, end[0].qp, 1);
	enter(end[0].qp, IBV_QPS_RESET);
	enter(end[1].qp, IBV_QPS_RESET);
	join(end[0].qp, end[1].qp);
	write_at(1, 4);
	done(m.cq, 2);
	(void)expect(m.cq, 3, IBV_WC_LOC_QP_OP_ERR);
}

static void managed__error_FLUSHES(void)
{
	if (!have_cross())
		return;
	cross_pair(CROSS | MANAGED_SEND | MANAGED_RECV, 0);
	write_at(0, 1);
	receive(0, 2, 0, 8);
	enter(end[0].qp, IBV_QPS_ERR);
	(void)sent(0, 1, IBV_WC_WR_FLUSH_ERR);
	(void)received(0, 2, IBV_WC_WR_FLUSH_ERR);
	receive(0, 3, 0, 8);
	(void)received(0, 3, IBV_WC_WR_FLUSH_ERR);
	quiet();
}

/* ---- calculations ----------------------------------------------------- */

struct calc {
	struct mlx5_wqe_ctrl_seg ctrl;
	struct mlx5_wqe_raddr_seg raddr;
	struct mlx5_wqe_data_seg data[3];
};

/* A write to end 1 of what the first n values in the memory of end 0 give. */
static struct calc calc_request(uint8_t opmod, uint8_t n)
{
	struct calc r;

	memset(&r, 0, sizeof(r));
	mlx5dv_set_ctrl_seg(&r.ctrl, 0, MLX5_OPCODE_RDMA_WRITE, opmod,
			    end[0].qp->qp_num, MLX5_WQE_CTRL_CQ_UPDATE,
			    (uint8_t)(2 + n), 0, 0);
	r.raddr.raddr = htobe64((uintptr_t)end[1].mem);
	r.raddr.rkey = htobe32(end[1].mr->rkey);
	for (uint8_t i = 0; i < n; i++)
		mlx5dv_set_data_seg(&r.data[i], 8, end[0].mr->lkey,
				    (uintptr_t)end[0].mem + 8u * i);
	return r;
}

static void put(int i, uint32_t at, uint64_t value)
{
	value = htobe64(value);
	memcpy(end[i].mem + 8 * at, &value, sizeof(value));
}

static uint64_t got(uint32_t at)
{
	uint64_t value;

	memcpy(&value, end[1].mem + 8 * at, sizeof(value));
	return be64toh(value);
}

static uint64_t calculated(uint8_t opmod, uint64_t a, uint64_t b, uint64_t c)
{
	struct calc r = calc_request(opmod, 3);

	put(0, 0, a);
	put(0, 1, b);
	put(0, 2, c);
	put(1, 1, 77);
	check_call(try_raw(end[0].qp, 1, &r), 0);
	check_is(sent(0, 1, IBV_WC_SUCCESS).byte_len, 8);
	check_is(got(1), 77);
	return got(0);
}

static uint64_t bits(double x)
{
	uint64_t ret;

	memcpy(&ret, &x, sizeof(ret));
	return ret;
}

static void calc__each_operation_RESULT(void)
{
	if (!have_cross())
		return;
	how.cap.max_send_sge = 3;
	cross_pair(CROSS, 0);
	check_is(calculated(ADD, 1, 2, 3), 6);
	check_is(calculated(ADD, (uint64_t)-5, 2, (uint64_t)-1), -4);
	check_is(calculated(ADD, UINT64_MAX, 1, 0), 0);
	check_is(calculated(ADD_DOUBLE, bits(1.5), bits(-4), bits(0.25)),
		 bits(-2.25));
	check_is(calculated(AND, 0xff0f, 0x0fff, 0xfff7), 0x0f07);
	check_is(calculated(OR, 1, 1ull << 63, 4), (1ull << 63) + 5);
	check_is(calculated(XOR, 7, 1, UINT64_MAX), UINT64_MAX - 6);
	quiet();
}

/* The same sum with another opcode. A send has no remote address. */
static struct calc calc_of(uint8_t opcode, uint8_t n, __be32 imm)
{
	const bool send = opcode == MLX5_OPCODE_SEND ||
			  opcode == MLX5_OPCODE_SEND_IMM;
	struct calc r = calc_request(ADD, n);

	if (send)
		memmove((uint8_t *)&r + sizeof(r.ctrl), r.data,
			sizeof(r.data));
	mlx5dv_set_ctrl_seg(&r.ctrl, 0, opcode, ADD, end[0].qp->qp_num,
			    MLX5_WQE_CTRL_CQ_UPDATE,
			    (uint8_t)((send ? 1 : 2) + n), 0, imm);
	return r;
}

static void calc__sends_and_writes_RESULT(void)
{
	static const uint8_t opcodes[] = {
		MLX5_OPCODE_SEND, MLX5_OPCODE_SEND_IMM, MLX5_OPCODE_RDMA_WRITE,
		MLX5_OPCODE_RDMA_WRITE_IMM,
	};

	if (!have_cross())
		return;
	how.cap.max_send_sge = 3;
	cross_pair(CROSS, 0);
	for (uint32_t i = 0; i < sizeof(opcodes); i++) {
		struct calc r = calc_of(opcodes[i], 3, htobe32(0x12345678));
		const bool imm = i % 2, send = i < 2;
		struct ibv_wc wc;

		clear(1);
		for (uint32_t k = 0; k < 3; k++)
			put(0, k, 10 * (k + 1) + i);
		if (send || imm)
			receive(1, 7, 0, 64);
		check_call(try_raw(end[0].qp, 1, &r), 0);
		(void)sent(0, 1, IBV_WC_SUCCESS);
		check_is(got(0), 60 + 3 * i);
		check_is(got(1), 0);
		if (!send && !imm)
			continue;
		wc = received(1, 7, IBV_WC_SUCCESS);
		check_is(wc.byte_len, 8);
		check(!(wc.wc_flags & IBV_WC_WITH_IMM) == !imm);
		if (imm)
			check_is(be32toh(wc.imm_data), 0x12345678);
	}
	quiet();
}

static void calc__behind_a_wait_TAKES_WHAT_CAME(void)
{
	struct calc r;

	if (!have_cross())
		return;
	how.cap.max_send_sge = 3;
	cross_pair(CROSS, 0);
	put(0, 0, 1);
	put(0, 1, 10);
	put(1, 0, 5);
	wait_for(end[0].qp, 1, end[0].rcq, 1);
	r = calc_request(ADD, 2);
	check_call(try_raw(end[0].qp, 2, &r), 0);
	receive(0, 3, 0, 8);
	{
		struct request s = request(IBV_WR_SEND, 4, 8);

		s.sge[0].addr = (uintptr_t)end[1].mem;
		s.sge[0].lkey = end[1].mr->lkey;
		post(1, &s);
	}
	(void)received(0, 3, IBV_WC_SUCCESS);
	(void)sent(1, 4, IBV_WC_SUCCESS);
	done(end[0].scq, 1);
	(void)sent(0, 2, IBV_WC_SUCCESS);
	check_is(got(0), 15);
}

/*
 * libmlx5 of MLNX_OFED also takes a calculation on a Read (src/qp.c, 1695), and
 * MAXLOC. No source says what either of them does, so the device has neither.
 */
static void calc__of_other_requests_EOPNOTSUPP(void)
{
	static const uint8_t opcodes[] = {
		MLX5_OPCODE_RDMA_READ, MLX5_OPCODE_SEND_INVAL,
		MLX5_OPCODE_ATOMIC_FA,
	};
	struct calc r;

	if (!have_cross())
		return;
	how.cap.max_send_sge = 3;
	cross_pair(CROSS, 0);
	for (size_t i = 0; i < sizeof(opcodes); i++)
		for (uint8_t opmod = ADD; opmod <= XOR; opmod++) {
			r = calc_request(opmod, 2);
			r.ctrl.opmod_idx_opcode =
				htobe32((uint32_t)opmod << 24 | opcodes[i]);
			check_call(try_raw(end[0].qp, 1, &r), EOPNOTSUPP);
		}
	r = calc_request(MAXLOC, 2);
	check_call(try_raw(end[0].qp, 1, &r), EOPNOTSUPP);
	check_is(calculated(ADD, 1, 2, 3), 6);
	quiet();
}

static void calc__bad_request_REFUSED(void)
{
	struct calc r;

	if (!have_cross())
		return;
	how.cap.max_send_sge = 3;
	cross_pair(CROSS, 0);
	r = calc_request(7, 2);
	check_call(try_raw(end[0].qp, 1, &r), EOPNOTSUPP);
	r = calc_request(0, 2);
	check_call(try_raw(end[0].qp, 1, &r), EOPNOTSUPP);
	r = calc_request(ADD, 0);
	check_call(try_raw(end[0].qp, 1, &r), EINVAL);
	r = calc_request(ADD, 2);
	r.data[0].byte_count = htobe32(4);
	r.data[1].byte_count = htobe32(12);
	check_call(try_raw(end[0].qp, 1, &r), EINVAL);
	quiet();
	r = calc_request(ADD, 2);
	r.data[1].lkey ^= htobe32(0x5500);
	check_call(try_raw(end[0].qp, 1, &r), 0);
	(void)sent(0, 1, IBV_WC_LOC_PROT_ERR);
	cross_pair(0, 0);
	r = calc_request(ADD, 2);
	check_call(try_raw(end[0].qp, 1, &r), EINVAL);
}

/* ---- chains ----------------------------------------------------------- */

/* The program sleeps until the last completion raises an event. */
static void chain__three_queue_pairs_RUNS_ALONE(void)
{
	struct ibv_comp_channel *ch;
	struct master a, b, c;
	struct ibv_cq *last;
	struct ibv_qp *qp;

	if (!have_cross())
		return;
	cross_pair(CROSS | MANAGED_SEND, 0);
	a = new_master(CROSS);
	b = new_master(CROSS);
	ch = new_channel();
	last = new_cq(8, ch);
	c.qp = create(last, last, CROSS);
	qp = create(end[1].scq, end[1].rcq, 0);
	join(c.qp, qp);
	check_call(ibv_req_notify_cq(last, 0), 0);
	wait_for(c.qp, 3, b.cq, 1);
	wait_for(b.qp, 2, end[0].scq, 1);
	write_at(0, 9);
	enable_sends(a.qp, 1, end[0].qp, 1);
	check(readable(ch->fd, 10000));
	done(last, 3);
	(void)sent(0, 9, IBV_WC_SUCCESS);
}

#endif

const struct device_case cross_cases[] = {
#ifdef HAVE_MLX5DV
	CASE(create_qp__cross_channel_not_RC_EOPNOTSUPP),
	CASE(create_qp__flags_of_packets_EINVAL),
	CASE(wait__completions_missing_WAITS),
	CASE(wait__completions_there_GOES_ON),
	CASE(wait__index_wraps_WAITS),
	CASE(wait__several_share_a_queue_EACH_IN_TURN),
	CASE(wait__queue_that_overruns_unharmed_COUNTS_ALL),
	CASE(wait__each_other_DESTROYED),
	CASE(destroy_cq__waited_for_EBUSY),
	CASE(wait__queue_gone_LOC_QP_OP_ERR),
	CASE(wait__error_FLUSHES),
	CASE(enable__two_of_three_sends_TWO),
	CASE(enable__after_the_queue_was_empty_COUNTS_ON),
	CASE(enable__receives_RNR_BEFORE),
	CASE(enable__master_is_managed_WHEN_ENABLED),
	CASE(enable__bad_target_EINVAL),
	CASE(queue_request__no_cross_channel_EINVAL),
	CASE(enable__target_gone_LOC_QP_OP_ERR),
	CASE(managed__error_FLUSHES),
	CASE(calc__each_operation_RESULT),
	CASE(calc__sends_and_writes_RESULT),
	CASE(calc__behind_a_wait_TAKES_WHAT_CAME),
	CASE(calc__of_other_requests_EOPNOTSUPP),
	CASE(calc__bad_request_REFUSED),
	CASE(chain__three_queue_pairs_RUNS_ALONE),
#endif
	{ .name = NULL },
};
