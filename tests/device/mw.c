/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows give access to the bound range only. */
#include "device.h"

#define PART	4096u
#define LEN	64u

static struct ibv_mr *mr;
static struct ibv_mw *mw;

/* Creates a window of end 1 for a part of its memory. */
static void setup(enum ibv_mw_type type)
{
	how.mr_access = IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_MW_BIND;
	pair();
	mr = end[1].mr;
	mw = new_mw(type);
	fill(0, 1);
}

static struct ibv_mw_bind_info info(unsigned int access)
{
	return (struct ibv_mw_bind_info){
		.mr = mr, .addr = (uintptr_t)end[1].mem + PART, .length = LEN,
		.mw_access_flags = access,
	};
}

static struct request bind_request(uint64_t id, unsigned int access)
{
	struct request r = request(IBV_WR_BIND_MW, id, 0);

	r.wr.bind_mw.mw = mw;
	r.wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	r.wr.bind_mw.bind_info = info(access);
	return r;
}

/* Binds a window of type 2, which gets a new key. */
static void bind_window(unsigned int access)
{
	struct request r = bind_request(50, access);

	post(1, &r);
	check_is(sent(1, 50, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
	mw->rkey = r.wr.bind_mw.rkey;
}

static void bind_call(unsigned int access)
{
	struct ibv_mw_bind b = {
		.wr_id = 51, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = info(access),
	};

	check_call(ibv_bind_mw(end[1].qp, mw, &b), 0);
	check_is(sent(1, 51, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
}

static void access_window(enum ibv_wr_opcode op, uint64_t offset,
			  uint32_t rkey, enum ibv_wc_status status)
{
	struct request r = request(op, 1, 8);

	aim(&r, (uintptr_t)end[1].mem + PART + offset, rkey);
	post(0, &r);
	(void)sent(0, 1, status);
}

static void open_inside(void)
{
	access_window(IBV_WR_RDMA_WRITE, 0, mw->rkey, IBV_WC_SUCCESS);
	access_window(IBV_WR_RDMA_WRITE, LEN - 8, mw->rkey, IBV_WC_SUCCESS);
	access_window(IBV_WR_RDMA_READ, 0, mw->rkey, IBV_WC_SUCCESS);
	check(!memcmp(end[0].mem, end[1].mem + PART, 8));
}

#define RW	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static void bind_mw__type_1_OPENS(void)
{
	uint32_t old;

	setup(IBV_MW_TYPE_1);
	old = mw->rkey;
	bind_call(RW);
	check(mw->rkey != old);
	open_inside();
}

static void bind_mw__type_1_beyond_REM_ACCESS_ERR(void)
{
	setup(IBV_MW_TYPE_1);
	bind_call(RW);
	access_window(IBV_WR_RDMA_WRITE, LEN - 7, mw->rkey,
		      IBV_WC_REM_ACCESS_ERR);
}

static void bind_mw__type_1_again_OLD_KEY_IS_OF_NO_USE(void)
{
	uint32_t old;

	setup(IBV_MW_TYPE_1);
	bind_call(RW);
	old = mw->rkey;
	bind_call(RW);
	check(mw->rkey != old);
	open_inside();
	access_window(IBV_WR_RDMA_WRITE, 0, old, IBV_WC_REM_ACCESS_ERR);
}

static void bind__type_2_OPENS(void)
{
	setup(IBV_MW_TYPE_2);
	bind_window(RW);
	open_inside();
}

static void bind__type_2_beyond_REM_ACCESS_ERR(void)
{
	setup(IBV_MW_TYPE_2);
	bind_window(RW);
	access_window(IBV_WR_RDMA_WRITE, LEN - 7, mw->rkey,
		      IBV_WC_REM_ACCESS_ERR);
}

static void bind__type_2_before_REM_ACCESS_ERR(void)
{
	setup(IBV_MW_TYPE_2);
	bind_window(RW);
	access_window(IBV_WR_RDMA_WRITE, (uint64_t)-1, mw->rkey,
		      IBV_WC_REM_ACCESS_ERR);
}

static void bind__for_reading_write_REM_ACCESS_ERR(void)
{
	setup(IBV_MW_TYPE_2);
	bind_window(IBV_ACCESS_REMOTE_READ);
	access_window(IBV_WR_RDMA_WRITE, 0, mw->rkey, IBV_WC_REM_ACCESS_ERR);
}

/* Programs also ask for local access, which has no effect on a window. */
static void bind__local_write_named_OPENS(void)
{
	setup(IBV_MW_TYPE_2);
	bind_window(RW | IBV_ACCESS_LOCAL_WRITE);
	open_inside();
}

static void bind_mw__local_write_named_OPENS(void)
{
	setup(IBV_MW_TYPE_1);
	bind_call(RW | IBV_ACCESS_LOCAL_WRITE);
	open_inside();
}

static void bind__not_yet_REM_ACCESS_ERR(void)
{
	setup(IBV_MW_TYPE_2);
	access_window(IBV_WR_RDMA_WRITE, 0, mw->rkey, IBV_WC_REM_ACCESS_ERR);
}

static void bind__region_that_may_not_MW_BIND_ERR(void)
{
	struct request r;

	setup(IBV_MW_TYPE_2);
	mr = new_mr(pd, end[1].mem, MEM, IBV_ACCESS_LOCAL_WRITE);
	r = bind_request(50, RW);
	post(1, &r);
	(void)sent(1, 50, IBV_WC_MW_BIND_ERR);
	check_state(end[1].qp, IBV_QPS_ERR);
}

static void bind__beyond_the_region_MW_BIND_ERR(void)
{
	struct request r;

	setup(IBV_MW_TYPE_2);
	r = bind_request(50, RW);
	r.wr.bind_mw.bind_info.length = MEM;
	post(1, &r);
	(void)sent(1, 50, IBV_WC_MW_BIND_ERR);
}

static void local_inv__REVOKES(void)
{
	struct request r;

	setup(IBV_MW_TYPE_2);
	bind_window(RW);
	open_inside();
	r = request(IBV_WR_LOCAL_INV, 60, 0);
	r.wr.invalidate_rkey = mw->rkey;
	post(1, &r);
	check_is(sent(1, 60, IBV_WC_SUCCESS).opcode, IBV_WC_LOCAL_INV);
	access_window(IBV_WR_RDMA_WRITE, 0, mw->rkey, IBV_WC_REM_ACCESS_ERR);
}

static struct ibv_wc invalidated(void)
{
	struct request r;

	setup(IBV_MW_TYPE_2);
	bind_window(RW);
	open_inside();
	receive(1, 70, 0, 64);
	r = request(IBV_WR_SEND_WITH_INV, 61, 8);
	r.wr.invalidate_rkey = mw->rkey;
	post(0, &r);
	(void)sent(0, 61, IBV_WC_SUCCESS);
	return received(1, 70, IBV_WC_SUCCESS);
}

static void send_with_inv__REVOKES(void)
{
	(void)invalidated();
	access_window(IBV_WR_RDMA_WRITE, 0, mw->rkey, IBV_WC_REM_ACCESS_ERR);
}

static void send_with_inv__TELLS_THE_KEY(void)
{
	struct ibv_wc wc = invalidated();

	check(wc.wc_flags & IBV_WC_WITH_INV);
	check_is(wc.invalidated_rkey, mw->rkey);
}

static void dealloc_mw__while_bound_REVOKES(void)
{
	uint32_t rkey;

	setup(IBV_MW_TYPE_2);
	bind_window(RW);
	rkey = mw->rkey;
	drop(mw);
	access_window(IBV_WR_RDMA_WRITE, 0, rkey, IBV_WC_REM_ACCESS_ERR);
}

static void dereg_mr__with_a_window_REFUSED(void)
{
	setup(IBV_MW_TYPE_2);
	bind_window(RW);
	check(v->dereg_mr(mr));
	open_inside();
}

static void bind_mw__of_type_2_EINVAL(void)
{
	struct ibv_mw_bind b = { .wr_id = 51 };

	setup(IBV_MW_TYPE_2);
	b.bind_info = info(RW);
	check_call(ibv_bind_mw(end[1].qp, mw, &b), EINVAL);
}

const struct device_case mw_cases[] = {
	CASE(bind_mw__type_1_OPENS),
	CASE(bind_mw__type_1_beyond_REM_ACCESS_ERR),
	CASE(bind_mw__type_1_again_OLD_KEY_IS_OF_NO_USE),
	CASE(bind__type_2_OPENS),
	CASE(bind__type_2_beyond_REM_ACCESS_ERR),
	CASE(bind__type_2_before_REM_ACCESS_ERR),
	CASE(bind__for_reading_write_REM_ACCESS_ERR),
	CASE(bind__local_write_named_OPENS),
	CASE(bind_mw__local_write_named_OPENS),
	CASE(bind__not_yet_REM_ACCESS_ERR),
	CASE(bind__region_that_may_not_MW_BIND_ERR),
	CASE(bind__beyond_the_region_MW_BIND_ERR),
	CASE(local_inv__REVOKES),
	CASE(send_with_inv__REVOKES),
	CASE(send_with_inv__TELLS_THE_KEY),
	CASE(dealloc_mw__while_bound_REVOKES),
	CASE(dereg_mr__with_a_window_REFUSED),
	CASE(bind_mw__of_type_2_EINVAL),
	{ .name = NULL },
};
