/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A region that was offered is read without a request, by a connection of this
 * process to itself; and each reason why a request follows nevertheless.
 */
#include "soft/engine/engine.h"
#include "soft/engine/offer.h"
#include "soft/engine/req.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/fault.h"
#include "soft/fabric/shared.h"
#include "soft/fabric/vm.h"
#include "soft/fabric/wire.h"
#include "soft/soft.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/qp.h"
#include "pair.h"

#include <stdatomic.h>

#include "../own_fabric.h"

#define LEN	20000u
#define OFFERS	8		/* that a queue pair remembers */

static struct soft_dev *dev(void)
{
	return soft_dev_of(c);
}

static struct soft_wire *wire(void)
{
	return dev()->to[dev()->node];
}

/* Requests for a read that the peer has seen. */
static uint64_t requests(void)
{
	return dev()->count[0][SOFT_RX_READS];
}

static void fill(void)
{
	for (uint32_t i = 0; i < LEN; i++) {
		mem[0][i] = 0;
		mem[1][i] = (uint8_t)(i * 7 + i / 251 + 1);
	}
}

/* Offers as to a peer that sleeps, or that polls. */
static void offer_to(bool sleeps, struct ibv_mr *r, uint64_t at, uint64_t len)
{
	struct soft_ring_shm *shm = wire()->tx.shm;
	uint32_t was = atomic_exchange(&shm->sleeping, sleeps);

	soft_offer_read(qp[1], r, at, len);
	atomic_store(&shm->sleeping, was);
	/* it comes before the message that tells the program */
	assert_int_equal(ibv_poll_cq(cq, 1, &(struct ibv_wc){ 0 }), 0);
}

static void offer(uint64_t at, uint64_t len)
{
	offer_to(true, mr[1], at, len);
}

static void post_read(uint64_t at, uint32_t len)
{
	assert_int_equal(post(qp[0], IBV_WR_RDMA_READ, 1, len, at,
			      mr[1]->rkey), 0);
}

/* Reads, with so many requests. */
static void read_by(uint64_t at, uint32_t len, uint64_t expected)
{
	const uint64_t before = requests();

	post_read(at, len);
	expect(1, IBV_WC_SUCCESS);
	assert_int_equal(requests() - before, expected);
	assert_memory_equal(mem[0], (void *)(uintptr_t)at, len);
}

static uint64_t there(void)
{
	return (uintptr_t)mem[1];
}

static void read__offered_NO_REQUEST(void **state)
{
	for (int i = 0; i < 3; i++) {
		fill();
		offer(there(), LEN);
		read_by(there(), LEN, 0);
		/* the peer expects the next number */
		assert_int_equal(post_recv(qp[1], 2, 100), 0);
		assert_int_equal(post(qp[0], IBV_WR_SEND, 3, 100, 0, 0), 0);
		(void)next(cq);
		(void)next(cq);
	}
	/* an offer holds until it is withdrawn */
	read_by(there(), LEN, 0);
}

static void read__part_of_the_offered_NO_REQUEST(void **state)
{
	fill();
	offer(there() + 1000, 5000);
	read_by(there() + 1000, 1, 0);
	read_by(there() + 2000, 3999, 0);
	read_by(there() + 2001, 3999, 0);
	read_by(there() + 2002, 3999, 1);
	read_by(there() + 999, 100, 1);
	read_by(there() + 1000, 5001, 1);
	/* what holds has not changed */
	read_by(there() + 1000, 5000, 0);
}

static void read__peer_is_awake_NOT_OFFERED(void **state)
{
	fill();
	offer_to(false, mr[1], there(), LEN);
	read_by(there(), LEN, 1);
}

static void read__many_offers_THE_LAST_HOLD(void **state)
{
	fill();
	for (uint32_t i = 0; i <= OFFERS; i++)
		offer(there() + 100 * i, 100);
	read_by(there(), 100, 1);
	for (uint32_t i = 1; i <= OFFERS; i++)
		read_by(there() + 100 * i, 100, 0);
}

/* A read has to see the write before it, which is executed later. */
static void read__behind_a_write_SEES_IT(void **state)
{
	struct ibv_sge from = { (uintptr_t)mem[0] + LEN, 100, mr[0]->lkey };
	struct ibv_sge to = { (uintptr_t)mem[0], 100, mr[0]->lkey };
	struct ibv_send_wr *bad, rd = {
		.wr_id = 2, .sg_list = &to, .num_sge = 1,
		.opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { there(), mr[1]->rkey },
	}, wr = {
		.wr_id = 1, .sg_list = &from, .num_sge = 1, .next = &rd,
		.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { there(), mr[1]->rkey },
	};

	fill();
	memset(mem[0] + LEN, 0x53, 100);
	offer(there(), LEN);
	assert_int_equal(ibv_post_send(qp[0], &wr, &bad), 0);
	expect(1, IBV_WC_SUCCESS);
	expect(2, IBV_WC_SUCCESS);
	assert_memory_equal(mem[0], mem[0] + LEN, 100);
}

/* Posts a read, which the peer executes, and holds back its answer. Locks. */
static struct soft_qp *post_read_and_hold(void)
{
	struct soft_qp *q = soft_qp(qp[0]);

	for (;;) {
		post_read(there(), LEN);
		soft_lock(dev());
		(void)soft_progress(dev());
		if (q->sq_head != q->sq_tail)
			return q;
		/* the device's thread was faster */
		soft_unlock(dev());
		expect(1, IBV_WC_SUCCESS);
	}
}

/* Offers as the peer would. L */
static void bring_offer(void)
{
	struct soft_rec rec = { .raddr = there(), .rkey = mr[1]->rkey };
	struct soft_fetch f = { .wire = wire() };

	(void)soft_vm_show_at(dev(), wire(), mem[1], LEN, mr[1]->rkey,
			      &f.shown);
	soft_vm_add_qp(wire(), qp[1]->qp_num, &f.shown);
	soft_offer_arrives(soft_qp(qp[0]), &rec, &f);
}

/* The peer knows its number: given back, it would be that of the next message. */
static void read__pushed_again_IS_A_REQUEST(void **state)
{
	struct soft_qp *q;
	uint32_t psn;

	fill();
	q = post_read_and_hold();
	psn = q->psn_next;
	q->sq_next = q->sq_head;
	q->sq[q->sq_head & q->sq_mask].started = false;
	q->reads_out--;
	q->tries++;
	bring_offer();
	soft_req_push(dev(), q);
	assert_int_equal(q->psn_next, psn);
	soft_unlock(dev());
	expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(mem[0], mem[1], LEN);
	assert_int_equal(post_recv(qp[1], 2, 100), 0);
	assert_int_equal(post(qp[0], IBV_WR_SEND, 3, 100, 0, 0), 0);
	(void)next(cq);
	(void)next(cq);
}

/* ---- an offer that has ended ------------------------------------------ */

static void read__region_is_gone_REM_ACCESS_ERR(void **state)
{
	struct ibv_mr *r = soft_reg_mr(pd, mem[1], LEN, ALL);
	uint32_t key = r->rkey;

	fill();
	offer_to(true, r, there(), LEN);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_READ, 1, 100, there(), key),
			 0);
	expect(1, IBV_WC_SUCCESS);
	assert_int_equal(soft_dereg_mr(r), 0);
	memset(mem[0], 0, LEN);
	assert_int_equal(post(qp[0], IBV_WR_RDMA_READ, 1, 100, there(), key),
			 0);
	expect(1, IBV_WC_REM_ACCESS_ERR);
	expect_event(IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(mem[0][0], 0);
}

static void read__peer_in_error_FAILS(void **state)
{
	fill();
	offer(there(), LEN);
	enter(qp[1], IBV_QPS_ERR);
	post_read(there(), 100);
	expect(1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(mem[0][0], 0);
}

static void read__peer_permits_no_more_FAILS(void **state)
{
	struct ibv_qp_attr a = { .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	fill();
	offer(there(), LEN);
	assert_int_equal(soft_modify_qp(qp[1], &a, IBV_QP_ACCESS_FLAGS), 0);
	post_read(there(), 100);
	expect(1, IBV_WC_REM_INV_REQ_ERR);
	expect_event(IBV_EVENT_QP_REQ_ERR);
	/* nor does it offer any more */
	assert_int_equal(mem[0][0], 0);
}

static void read__another_connection_NOT_OFFERED(void **state)
{
	fill();
	offer(there(), LEN);
	read_by(there(), LEN, 0);
	for (int i = 0; i < 2; i++)
		enter(qp[i], IBV_QPS_RESET);
	walk(qp[0], qp[1]->qp_num);
	walk(qp[1], qp[0]->qp_num);
	read_by(there(), LEN, 1);
}

/* Of the peer's port, for example. */
static void read__after_a_fault_NOT_OFFERED(void **state)
{
	struct soft_faults *f = &dev()->fabric->node[dev()->node];

	fill();
	offer(there(), LEN);
	soft_lock(dev());
	f->port[0] = SOFT_PORT_BLACK_HOLE;
	soft_faults_take(dev());
	f->port[0] = SOFT_PORT_UP;
	soft_faults_take(dev());
	soft_unlock(dev());
	read_by(there(), LEN, 1);
}

static void read__while_faulty_IS_A_REQUEST(void **state)
{
	struct soft_faults *f = &dev()->fabric->node[dev()->node];

	fill();
	offer(there(), LEN);
	soft_lock(dev());
	f->drop = SOFT_SHARE_ALL;
	soft_faults_take(dev());
	soft_unlock(dev());
	post_read(there(), 100);
	expect(1, IBV_WC_RETRY_EXC_ERR);
	offer(there(), LEN);
	f->drop = 0;
	soft_lock(dev());
	soft_faults_take(dev());
	soft_unlock(dev());
}

/* ---- what cannot be --------------------------------------------------- */

static void read__own_memory_not_writable_LOC_PROT_ERR(void **state)
{
	struct ibv_mr *r = soft_reg_mr(pd, mem[0], LEN, 0);
	struct ibv_sge sge = { (uintptr_t)mem[0], 100, r->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { there(), mr[1]->rkey },
	};

	fill();
	offer(there(), LEN);
	assert_int_equal(ibv_post_send(qp[0], &wr, &bad), 0);
	expect(1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(mem[0][0], 0);
	assert_int_equal(soft_dereg_mr(r), 0);
}

static void offer__region_permits_no_reads_NOT_OFFERED(void **state)
{
	struct ibv_mr *r = soft_reg_mr(pd, mem[1], LEN, IBV_ACCESS_LOCAL_WRITE);

	offer_to(true, r, there(), LEN);
	offer_to(true, mr[1], there() - 1, LEN);	/* nor beyond it */
	offer_to(true, mr[1], there(), 0);
	offer_to(true, mr[1], there(), UINT64_MAX);
	soft_lock(dev());
	assert_null(soft_qp(qp[0])->offers);
	soft_unlock(dev());
	assert_int_equal(soft_dereg_mr(r), 0);
}

/* By a peer that is not this software. */
static void arrives__nonsense_IGNORED(void **state)
{
	struct soft_rec rec = { .raddr = there(), .rkey = mr[1]->rkey };
	struct soft_fetch f = {
		.wire = wire(), .shown.count = 1,
		.shown.range[0] = { .addr = there(), .len = LEN },
	};

	fill();
	soft_lock(dev());
	soft_offer_arrives(soft_qp(qp[0]), &rec, &f);
	f.shown.count = 3;
	soft_offer_arrives(soft_qp(qp[0]), &rec, &f);
	f.shown.count = 2;
	f.wire = NULL;
	soft_offer_arrives(soft_qp(qp[0]), &rec, &f);
	assert_null(soft_qp(qp[0])->offers);
	/* memory that is not there: a request finds out */
	f.wire = wire();
	f.shown.range[0].addr = 4096;
	f.shown.range[0].value = wire()->rx.shm->withdrawn[0];
	f.shown.range[1].value = wire()->rx.shm->withdrawn[0];
	soft_offer_arrives(soft_qp(qp[0]), &rec, &f);
	soft_unlock(dev());
	read_by(there(), LEN, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR(read__offered_NO_REQUEST),
		PAIR(read__part_of_the_offered_NO_REQUEST),
		PAIR(read__peer_is_awake_NOT_OFFERED),
		PAIR(read__many_offers_THE_LAST_HOLD),
		PAIR(read__behind_a_write_SEES_IT),
		PAIR(read__pushed_again_IS_A_REQUEST),
		PAIR(read__region_is_gone_REM_ACCESS_ERR),
		PAIR(read__peer_in_error_FAILS),
		PAIR(read__peer_permits_no_more_FAILS),
		PAIR(read__another_connection_NOT_OFFERED),
		PAIR(read__after_a_fault_NOT_OFFERED),
		PAIR(read__while_faulty_IS_A_REQUEST),
		PAIR(read__own_memory_not_writable_LOC_PROT_ERR),
		PAIR(offer__region_permits_no_reads_NOT_OFFERED),
		PAIR(arrives__nonsense_IGNORED),
	};

	(void)unsetenv("RDMAMSG_SOFT_NO_VM");
	join_own_fabric("offer");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
