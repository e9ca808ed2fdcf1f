/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dynamically connected transport that fails: access keys, and errors, which
 * end the initiator but not the target.
 */
#include "config.h"
#include "device.h"

#ifdef HAVE_MLX5DV

#include "dc.h"

#include <endian.h>

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

	dc_pair();
	other = new_dci();
	receive_shared(11, 0, MEM);
	send_dc(end[0].qp, dct, 1, 8, KEY + 1);
	send_dc(end[0].qp, dct, 2, 8, KEY);
	(void)sent(0, 1, IBV_WC_REM_ACCESS_ERR);
	(void)sent(0, 2, IBV_WC_WR_FLUSH_ERR);
	check_state(dct, IBV_QPS_RTR);
	/* the violation has taken no receive */
	fill(0, 3);
	send_dc(other, dct, 3, 100, KEY);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	(void)received(1, 11, IBV_WC_SUCCESS);
	restart(end[0].qp);
	works(end[0].qp, dct, 4);
	quiet();
}

static struct ibv_qp *new_dct_of(uint64_t key)
{
	struct mlx5dv_qp_init_attr m = mlx5_attr(MLX5DV_DCTYPE_DCT);
	struct ibv_qp_init_attr_ex a = dct_attr(end[1].rcq);
	struct ibv_qp *qp;

	m.dc_init_attr.dct_access_key = key;
	qp = v->mlx5_create_qp(ctx, &a, &m);
	keep(qp, undo_qp);
	dc_step(qp, IBV_QPS_INIT, DCT_INIT);
	dc_step(qp, IBV_QPS_RTR, DCT_RTR);
	return qp;
}

/* Each target has a key of its own, and each request names one. */
static void dc_key__of_each_target_ITS_OWN(void)
{
	static const uint64_t keys[] = { 0, 1, UINT64_MAX };
	enum { N = sizeof(keys) / sizeof(*keys) };
	struct ibv_qp *to[N];

	dc_pair();
	for (int i = 0; i < N; i++) {
		to[i] = new_dct_of(keys[i]);
		receive_shared(10, 0, MEM);
		send_dc(end[0].qp, to[i], 1, 8, keys[i]);
		(void)sent(0, 1, IBV_WC_SUCCESS);
		(void)received(1, 10, IBV_WC_SUCCESS);
	}
	for (int i = 0; i < N; i++) {
		send_dc(end[0].qp, to[i], 2, 8, keys[(i + 1) % N]);
		(void)sent(0, 2, IBV_WC_REM_ACCESS_ERR);
		restart(end[0].qp);
	}
	quiet();
}

/* Without ARM_DCT nobody is told, and each ARM_DCT tells once. */
static void dc_key__violations_COUNTED_AND_TOLD(void)
{
	struct ibv_async_event ev;

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

/* The address vector and the rights of a target are those of its two steps. */
static void query_dct__command_WHAT_THE_STEPS_SET(void)
{
	struct ibv_qp_init_attr_ex a;
	struct ibv_qp_attr to;
	struct dct_answer d;
	__be32 label;

	ends();
	srq = new_srq(16);
	a = dct_attr(end[1].rcq);
	dct = create(&a, MLX5DV_DCTYPE_DCT);
	how.qp_access = IBV_ACCESS_REMOTE_WRITE;
	dc_step(dct, IBV_QPS_INIT, DCT_INIT);
	to = step_attr(IBV_QPS_RTR, 0);
	to.ah_attr.grh.traffic_class = 0x24;
	to.ah_attr.grh.flow_label = 0x12345;
	to.ah_attr.grh.hop_limit = 3;
	to.min_rnr_timer = 21;
	to.path_mtu = IBV_MTU_512;
	check_call(v->modify_qp(dct, &to, DCT_RTR), 0);
	d = ask_dct();
	check_is(d.dctc[13] & 0xe, 0x4);
	check_is(d.dctc[18], 21);
	memcpy(&label, d.dctc + 28, sizeof(label));
	check_is(be32toh(label), 0x24012345);
	check_is(d.dctc[40], IBV_MTU_512);
	check_is(d.dctc[47], 3);
}

/* ---- errors ----------------------------------------------------------- */

/* An error ends the initiator. The target serves all others. */
static void ends_initiator(const struct request *r, enum ibv_wc_status status)
{
	struct ibv_qp *other = new_dci();

	post_dc(r);
	(void)sent(0, r->wr.wr_id, status);
	check_state(dct, IBV_QPS_RTR);
	check(!readable(ctx->async_fd, 0));
	works(other, dct, 50);
	restart(end[0].qp);
	works(end[0].qp, dct, 51);
	quiet();
}

static void dc_write__wrong_rkey_REM_ACCESS_ERR(void)
{
	struct request r;

	dc_pair();
	r = request(IBV_WR_RDMA_WRITE, 1, 8);
	r.wr.wr.rdma.rkey ^= 0x100;
	ends_initiator(&r, IBV_WC_REM_ACCESS_ERR);
}

static void dc_read__without_access_REM_INV_REQ_ERR(void)
{
	struct request r;

	how.qp_access = IBV_ACCESS_REMOTE_WRITE;
	dc_pair();
	r = request(IBV_WR_RDMA_READ, 1, 8);
	ends_initiator(&r, IBV_WC_REM_INV_REQ_ERR);
}

static void dc_send__local_key_LOC_PROT_ERR(void)
{
	struct request r;

	dc_pair();
	r = request(IBV_WR_SEND, 1, 8);
	r.sge[0].lkey ^= 0x100;
	ends_initiator(&r, IBV_WC_LOC_PROT_ERR);
}

static void dc_send__too_long_LOC_LEN_ERR(void)
{
	struct ibv_wc wc;

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
	struct request r;

	dc_pair();
	other = new_dci();
	send_dc(other, dct, 1, 300000, KEY);
	quiet();
	drop(other);
	/* what it sent last may still be on its way: behind it */
	r = request(IBV_WR_RDMA_WRITE, 2, 8);
	post_dc(&r);
	(void)sent(0, 2, IBV_WC_SUCCESS);
	works(end[0].qp, dct, 3);
	quiet();
}

static void dc_initiator__in_error_FLUSHES(void)
{
	dc_pair();
	enter(end[0].qp, IBV_QPS_ERR);
	send_dc(end[0].qp, dct, 1, 8, KEY);
	(void)sent(0, 1, IBV_WC_WR_FLUSH_ERR);
	restart(end[0].qp);
	works(end[0].qp, dct, 2);
	quiet();
}

const struct device_case dc_error_cases[] = {
	GATE(dc__device_supports_it),
	CASE(dc_key__wrong_REM_ACCESS_ERR),
	CASE(dc_key__of_each_target_ITS_OWN),
	CASE(dc_key__violations_COUNTED_AND_TOLD),
	CASE(query_dct__command_ATTRIBUTES),
	CASE(query_dct__command_WHAT_THE_STEPS_SET),
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

#endif
