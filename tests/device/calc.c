/* SPDX-License-Identifier: BSD-2-Clause */
/* Calculations of requests. */
#include "config.h"
#include "device.h"

#ifdef HAVE_MLX5DV
#include "cross.h"

#define ADD		1
#define ADD_DOUBLE	2
#define MAXLOC		3
#define AND		4
#define OR		5
#define XOR		6

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

#endif

const struct device_case calc_cases[] = {
#ifdef HAVE_MLX5DV
	CASE(calc__each_operation_RESULT),
	CASE(calc__sends_and_writes_RESULT),
	CASE(calc__behind_a_wait_TAKES_WHAT_CAME),
	CASE(calc__of_other_requests_EOPNOTSUPP),
	CASE(calc__bad_request_REFUSED),
#endif
	{ .name = NULL },
};
