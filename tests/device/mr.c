/* SPDX-License-Identifier: BSD-2-Clause */
/* Both ends check every access: key, protection domain, bounds, rights. */
#include "device.h"

#include <sys/mman.h>

#define PART	4096u		/* offset within an end's memory */

/* ---- at the requester ------------------------------------------------- */

/*
 * A request from this sge fails at the requester, and changes nothing at the
 * peer.
 */
static void local_refused(enum ibv_wr_opcode op, struct ibv_sge sge)
{
	struct request r = request(op, 1, sge.length);

	fill(0, 1);
	r.sge[0] = sge;
	post(0, &r);
	(void)sent(0, 1, IBV_WC_LOC_PROT_ERR);
	check_state(end[0].qp, IBV_QPS_ERR);
	check(!end[1].mem[0]);
	quiet();
}

static void local__wrong_key_LOC_PROT_ERR(void)
{
	pair();
	local_refused(IBV_WR_RDMA_WRITE, (struct ibv_sge){
		(uintptr_t)end[0].mem, 64, end[0].mr->lkey ^ 0xff00,
	});
}

static void local__deregistered_LOC_PROT_ERR(void)
{
	struct ibv_mr *mr;
	uint32_t lkey;

	pair();
	mr = new_mr(pd, end[0].mem, 64, IBV_ACCESS_LOCAL_WRITE);
	lkey = mr->lkey;
	drop(mr);
	local_refused(IBV_WR_RDMA_WRITE, (struct ibv_sge){
		(uintptr_t)end[0].mem, 64, lkey,
	});
}

static void local__one_byte_beyond_LOC_PROT_ERR(void)
{
	struct ibv_mr *mr;

	pair();
	mr = new_mr(pd, end[0].mem + PART, 64, IBV_ACCESS_LOCAL_WRITE);
	local_refused(IBV_WR_RDMA_WRITE, (struct ibv_sge){
		(uintptr_t)end[0].mem + PART, 65, mr->lkey,
	});
}

static void local__one_byte_before_LOC_PROT_ERR(void)
{
	struct ibv_mr *mr;

	pair();
	mr = new_mr(pd, end[0].mem + PART, 64, IBV_ACCESS_LOCAL_WRITE);
	local_refused(IBV_WR_RDMA_WRITE, (struct ibv_sge){
		(uintptr_t)end[0].mem + PART - 1, 64, mr->lkey,
	});
}

static void local__another_domain_LOC_PROT_ERR(void)
{
	struct ibv_mr *mr;

	pair();
	mr = new_mr(new_pd(), end[0].mem, 64, IBV_ACCESS_LOCAL_WRITE);
	local_refused(IBV_WR_RDMA_WRITE, (struct ibv_sge){
		(uintptr_t)end[0].mem, 64, mr->lkey,
	});
}

static void local__read_into_what_is_only_read_LOC_PROT_ERR(void)
{
	struct ibv_mr *mr;

	pair();
	mr = new_mr(pd, end[0].mem, 64, 0);
	local_refused(IBV_WR_RDMA_READ, (struct ibv_sge){
		(uintptr_t)end[0].mem, 64, mr->lkey,
	});
}

static void local__second_of_a_list_LOC_PROT_ERR(void)
{
	struct request r;

	pair();
	r = request(IBV_WR_RDMA_WRITE, 1, 64);
	r.sge[1] = r.sge[0];
	r.sge[1].lkey ^= 0xff00;
	r.wr.num_sge = 2;
	post(0, &r);
	(void)sent(0, 1, IBV_WC_LOC_PROT_ERR);
}

static void local__gather_from_what_is_only_read_DONE(void)
{
	struct ibv_mr *mr;
	struct request r;

	pair();
	mr = new_mr(pd, end[0].mem, 64, 0);
	fill(0, 3);
	r = request(IBV_WR_RDMA_WRITE, 1, 64);
	r.sge[0].lkey = mr->lkey;
	post(0, &r);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	same(64);
}

/* ---- at the responder ------------------------------------------------- */

static void remote_refused(enum ibv_wr_opcode op, uint64_t addr, uint32_t rkey)
{
	struct request r = request(op, 1, 8);
	uint8_t before[72];

	memcpy(before, end[1].mem + PART - 1, sizeof(before));
	fill(0, 1);
	aim(&r, addr, rkey);
	receive(1, 2, 0, 64);
	post(0, &r);
	(void)sent(0, 1, IBV_WC_REM_ACCESS_ERR);
	check_state(end[0].qp, IBV_QPS_ERR);
	(void)received(1, 2, IBV_WC_WR_FLUSH_ERR);
	check_state(end[1].qp, IBV_QPS_ERR);
	check(!memcmp(end[1].mem + PART - 1, before, sizeof(before)));
	quiet();
}

static struct ibv_mr *part(int access)
{
	return new_mr(pd, end[1].mem + PART, 64, access);
}

#define FULL	(IBV_ACCESS_LOCAL_WRITE | REMOTE)

static void remote__wrong_key_REM_ACCESS_ERR(void)
{
	pair();
	remote_refused(IBV_WR_RDMA_WRITE, (uintptr_t)end[1].mem,
		       end[1].mr->rkey ^ 0xff00);
}

/* UCX 1.22 asks a peer without a key to flush so (ib_md.h: 0xff is no key). */
static void remote__read_without_a_key_REM_ACCESS_ERR(void)
{
	pair();
	remote_refused(IBV_WR_RDMA_READ, 0, 0xff);
}

static void remote__deregistered_REM_ACCESS_ERR(void)
{
	struct ibv_mr *mr;
	uint32_t rkey;

	pair();
	mr = part(FULL);
	rkey = mr->rkey;
	drop(mr);
	remote_refused(IBV_WR_RDMA_WRITE, (uintptr_t)end[1].mem + PART, rkey);
}

static void remote__one_byte_beyond_REM_ACCESS_ERR(void)
{
	pair();
	remote_refused(IBV_WR_RDMA_WRITE, (uintptr_t)end[1].mem + PART + 57,
		       part(FULL)->rkey);
}

static void remote__one_byte_before_REM_ACCESS_ERR(void)
{
	pair();
	remote_refused(IBV_WR_RDMA_WRITE, (uintptr_t)end[1].mem + PART - 1,
		       part(FULL)->rkey);
}

static void remote__address_that_wraps_REM_ACCESS_ERR(void)
{
	pair();
	remote_refused(IBV_WR_RDMA_WRITE, UINT64_MAX - 3, part(FULL)->rkey);
}

static void remote__read_one_byte_beyond_REM_ACCESS_ERR(void)
{
	pair();
	remote_refused(IBV_WR_RDMA_READ, (uintptr_t)end[1].mem + PART + 57,
		       part(FULL)->rkey);
}

static void remote__another_domain_REM_ACCESS_ERR(void)
{
	struct ibv_mr *mr;

	pair();
	mr = new_mr(new_pd(), end[1].mem, 64, FULL);
	remote_refused(IBV_WR_RDMA_WRITE, (uintptr_t)end[1].mem, mr->rkey);
}

static void remote__write_where_one_may_read_REM_ACCESS_ERR(void)
{
	pair();
	remote_refused(IBV_WR_RDMA_WRITE, (uintptr_t)end[1].mem + PART,
		       part(FULL & ~IBV_ACCESS_REMOTE_WRITE)->rkey);
}

static void remote__read_where_one_may_write_REM_ACCESS_ERR(void)
{
	pair();
	remote_refused(IBV_WR_RDMA_READ, (uintptr_t)end[1].mem + PART,
		       part(FULL & ~IBV_ACCESS_REMOTE_READ)->rkey);
}

static void remote__atomic_where_there_are_none_REM_ACCESS_ERR(void)
{
	pair();
	remote_refused(IBV_WR_ATOMIC_FETCH_AND_ADD,
		       (uintptr_t)end[1].mem + PART,
		       part(FULL & ~IBV_ACCESS_REMOTE_ATOMIC)->rkey);
}

static void remote__nothing_at_all_NEEDS_NO_KEY(void)
{
	struct request r;

	pair();
	r = request(IBV_WR_RDMA_WRITE, 1, 0);
	aim(&r, 0, 0xdeadbeef);
	post(0, &r);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	r = request(IBV_WR_RDMA_READ, 2, 0);
	aim(&r, 0, 0xdeadbeef);
	post(0, &r);
	(void)sent(0, 2, IBV_WC_SUCCESS);
	quiet();
}

/* The peer's queue pair forbids the request, which fails as invalid. */
static void forbidden(enum ibv_wr_opcode op, unsigned int access)
{
	struct request r;

	how.qp_access = REMOTE & ~access;
	pair();
	r = request(op, 1, 8);
	post(0, &r);
	(void)sent(0, 1, IBV_WC_REM_INV_REQ_ERR);
	check_state(end[0].qp, IBV_QPS_ERR);
}

static void qp_access__no_writes_REM_INV_REQ_ERR(void)
{
	forbidden(IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE);
}

static void qp_access__no_reads_REM_INV_REQ_ERR(void)
{
	forbidden(IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ);
}

static void qp_access__no_atomics_REM_INV_REQ_ERR(void)
{
	forbidden(IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC);
}

/* ---- registering ------------------------------------------------------ */

static void reg_mr__bad_access_EINVAL(void)
{
	void *mem = new_mem(4096);

	check_null(v->reg_mr(pd, mem, 4096, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	check_null(v->reg_mr(pd, mem, 4096, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
}

static void reg_mr__no_such_memory_EFAULT(void)
{
	check_null(v->reg_mr(pd, (void *)4096, 4096, IBV_ACCESS_LOCAL_WRITE),
		   EFAULT);
}

#define MAP_LEN	(16 * 4096)

static int undo_map(void *p)
{
	return munmap(p, MAP_LEN);
}

static void reg_mr__memory_not_permitted_EFAULT(void)
{
	const size_t len = MAP_LEN;
	uint8_t *mem = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	check(mem != MAP_FAILED);
	keep(mem, undo_map);
	check_null(v->reg_mr(pd, mem, len, 0), EFAULT);
	check_null(v->reg_mr(pd, mem, len, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	check_call(mprotect(mem, len, PROT_READ | PROT_WRITE), 0);
	memset(mem, 1, len);
	(void)new_mr(pd, mem, len, IBV_ACCESS_LOCAL_WRITE);
	check_call(mprotect(mem, len, PROT_READ), 0);
	check_null(v->reg_mr(pd, mem, len, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	(void)new_mr(pd, mem, len, IBV_ACCESS_REMOTE_READ);
	/* protect a single page: the first, one inside, or the last */
	for (size_t at = 0; at < len; at += 4096) {
		check_call(mprotect(mem + at, 4096, PROT_NONE), 0);
		check_null(v->reg_mr(pd, mem, len, 0), EFAULT);
		check_null(v->reg_mr(pd, mem + at, 1, 0), EFAULT);
		check_call(mprotect(mem + at, 4096, PROT_READ), 0);
	}
	check_call(mprotect(mem, len, PROT_NONE), 0);
	check_null(v->reg_mr(pd, mem, len, 0), EFAULT);
}

static void reg_mr__keys_DIFFER(void)
{
	void *mem = new_mem(4096);
	struct ibv_mr *one = new_mr(pd, mem, 4096, FULL);
	struct ibv_mr *two = new_mr(pd, mem, 4096, FULL);

	check(one->lkey != two->lkey && one->rkey != two->rkey);
	check(one->addr == mem && one->length == 4096 && one->pd == pd);
}

static void write_there(uint64_t addr, uint32_t rkey)
{
	struct request r = request(IBV_WR_RDMA_WRITE, 7, 64);

	fill(0, 9);
	aim(&r, addr, rkey);
	post(0, &r);
	(void)sent(0, 7, IBV_WC_SUCCESS);
	check(!memcmp(end[0].mem, end[1].mem + PART, 64));
}

static void reg_mr__zero_based_BEGINS_AT_0(void)
{
	struct ibv_mr *mr;

	pair();
	mr = part(FULL | IBV_ACCESS_ZERO_BASED);
	write_there(0, mr->rkey);
}

static int undo_mr(void *mr)
{
	return v->dereg_mr(mr);
}

static void reg_mr_iova__IS_REACHED_THERE(void)
{
	const uint64_t iova = 0x123456789000;
	struct ibv_mr *mr;

	pair();
	mr = v->reg_mr_iova(pd, end[1].mem + PART, 64, iova, FULL);
	keep(mr, undo_mr);
	write_there(iova, mr->rkey);
	remote_refused(IBV_WR_RDMA_READ, iova + 57, mr->rkey);
}

static void rereg_mr__access_HAS_CHANGED(void)
{
	uint32_t lkey, rkey;
	struct ibv_mr *mr;

	pair();
	mr = part(FULL);
	lkey = mr->lkey;
	rkey = mr->rkey;
	check_call(v->rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			       IBV_ACCESS_LOCAL_WRITE |
			       IBV_ACCESS_REMOTE_READ), 0);
	/* the keys stay the same, because the peer has them */
	check_is(mr->lkey, lkey);
	check_is(mr->rkey, rkey);
	remote_refused(IBV_WR_RDMA_WRITE, (uintptr_t)end[1].mem + PART,
		       mr->rkey);
}

static void rereg_mr__translation_HAS_CHANGED(void)
{
	struct ibv_mr *mr;

	pair();
	mr = new_mr(pd, end[1].mem, 64, FULL);
	check_call(v->rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
			       end[1].mem + PART, 64, 0), 0);
	write_there((uintptr_t)end[1].mem + PART, mr->rkey);
	remote_refused(IBV_WR_RDMA_READ, (uintptr_t)end[1].mem, mr->rkey);
}

static void rereg_mr__domain_HAS_CHANGED(void)
{
	struct ibv_pd *other = new_pd();
	struct ibv_mr *mr;
	uint32_t rkey;

	pair();
	mr = part(FULL);
	rkey = mr->rkey;
	check_call(v->rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0),
		   0);
	check(mr->pd == other);
	check_is(mr->rkey, rkey);
	remote_refused(IBV_WR_RDMA_READ, (uintptr_t)end[1].mem + PART,
		       mr->rkey);
	drop(mr);
}

const struct device_case mr_cases[] = {
	CASE(local__wrong_key_LOC_PROT_ERR),
	CASE(local__deregistered_LOC_PROT_ERR),
	CASE(local__one_byte_beyond_LOC_PROT_ERR),
	CASE(local__one_byte_before_LOC_PROT_ERR),
	CASE(local__another_domain_LOC_PROT_ERR),
	CASE(local__read_into_what_is_only_read_LOC_PROT_ERR),
	CASE(local__second_of_a_list_LOC_PROT_ERR),
	CASE(local__gather_from_what_is_only_read_DONE),
	CASE(remote__wrong_key_REM_ACCESS_ERR),
	CASE(remote__read_without_a_key_REM_ACCESS_ERR),
	CASE(remote__deregistered_REM_ACCESS_ERR),
	CASE(remote__one_byte_beyond_REM_ACCESS_ERR),
	CASE(remote__one_byte_before_REM_ACCESS_ERR),
	CASE(remote__address_that_wraps_REM_ACCESS_ERR),
	CASE(remote__read_one_byte_beyond_REM_ACCESS_ERR),
	CASE(remote__another_domain_REM_ACCESS_ERR),
	CASE(remote__write_where_one_may_read_REM_ACCESS_ERR),
	CASE(remote__read_where_one_may_write_REM_ACCESS_ERR),
	CASE(remote__atomic_where_there_are_none_REM_ACCESS_ERR),
	CASE(remote__nothing_at_all_NEEDS_NO_KEY),
	CASE(qp_access__no_writes_REM_INV_REQ_ERR),
	CASE(qp_access__no_reads_REM_INV_REQ_ERR),
	CASE(qp_access__no_atomics_REM_INV_REQ_ERR),
	CASE(reg_mr__bad_access_EINVAL),
	CASE(reg_mr__no_such_memory_EFAULT),
	CASE(reg_mr__memory_not_permitted_EFAULT),
	CASE(reg_mr__keys_DIFFER),
	CASE(reg_mr__zero_based_BEGINS_AT_0),
	CASE(reg_mr_iova__IS_REACHED_THERE),
	CASE(rereg_mr__access_HAS_CHANGED),
	CASE(rereg_mr__translation_HAS_CHANGED),
	CASE(rereg_mr__domain_HAS_CHANGED),
	{ .name = NULL },
};
