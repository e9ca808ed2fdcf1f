/* SPDX-License-Identifier: BSD-2-Clause */
/* Unacknowledged transports: datagrams and unreliable connections. */
#include "device.h"

#define GRH	40u

static struct ibv_ah *ah;

static void pair_ud(void)
{
	how.type = IBV_QPT_UD;
	pair();
	ah = new_ah(NULL);
	fill(0, 1);
}

static struct request datagram(uint64_t id, uint32_t len)
{
	struct request r = request(IBV_WR_SEND, id, len);

	r.wr.wr.ud.ah = ah;
	r.wr.wr.ud.remote_qpn = end[1].qp->qp_num;
	r.wr.wr.ud.remote_qkey = QKEY;
	return r;
}

static void ud_send__behind_40_bytes_ARRIVES(void)
{
	static const uint32_t sizes[] = { 0, 1, 63, 1000 };
	struct request r;
	struct ibv_wc wc;

	pair_ud();
	for (uint64_t i = 0; i < 4; i++) {
		clear(1);
		receive(1, 10 + i, 0, 2000);
		r = datagram(i, sizes[i]);
		post(0, &r);
		check_is(sent(0, i, IBV_WC_SUCCESS).opcode, IBV_WC_SEND);
		wc = received(1, 10 + i, IBV_WC_SUCCESS);
		check_is(wc.opcode, IBV_WC_RECV);
		check_is(wc.byte_len, GRH + sizes[i]);
		check_is(wc.src_qp, end[0].qp->qp_num);
		check_is(wc.qp_num, end[1].qp->qp_num);
		check(wc.wc_flags & IBV_WC_GRH);
		check(!(wc.wc_flags & IBV_WC_WITH_IMM));
		check(!memcmp(end[0].mem, end[1].mem + GRH, sizes[i]));
		check(!end[1].mem[GRH + sizes[i]]);
	}
	quiet();
}

static void ud_send__of_a_whole_mtu_ARRIVES(void)
{
	uint32_t mtu = 128u << port.active_mtu;
	struct request r;

	pair_ud();
	receive(1, 2, 0, GRH + mtu);
	r = datagram(1, mtu);
	r.wr.opcode = IBV_WR_SEND_WITH_IMM;
	r.wr.imm_data = htobe32(0xabcdef01);
	post(0, &r);
	check(received(1, 2, IBV_WC_SUCCESS).wc_flags & IBV_WC_WITH_IMM);
	check(!memcmp(end[0].mem, end[1].mem + GRH, mtu));
	(void)sent(0, 1, IBV_WC_SUCCESS);
}

/* The datagram r is lost, and the next datagram arrives. */
static void lost(struct request *r)
{
	struct request next = datagram(2, 8);

	receive(1, 9, 0, 4096);
	post(0, r);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	quiet();
	post(0, &next);
	(void)sent(0, 2, IBV_WC_SUCCESS);
	check_is(received(1, 9, IBV_WC_SUCCESS).byte_len, GRH + 8);
	check_state(end[1].qp, IBV_QPS_RTS);
	quiet();
}

static void ud_send__another_qkey_LOST(void)
{
	struct request r;

	pair_ud();
	r = datagram(1, 16);
	r.wr.wr.ud.remote_qkey = QKEY + 1;
	lost(&r);
}

static void ud_send__the_highest_bit_THE_QUEUE_PAIRS_OWN_QKEY(void)
{
	struct request r;

	pair_ud();
	receive(1, 2, 0, 100);
	r = datagram(1, 8);
	r.wr.wr.ud.remote_qkey = 0x80010000;
	post(0, &r);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	(void)received(1, 2, IBV_WC_SUCCESS);
}

static void ud_send__nobody_of_that_number_LOST(void)
{
	struct request r;

	pair_ud();
	r = datagram(1, 16);
	r.wr.wr.ud.remote_qpn = end[1].qp->qp_num + 77;
	lost(&r);
}

static void ud_send__more_than_the_mtu_LOST(void)
{
	struct request r;

	pair_ud();
	r = datagram(1, (128u << port.active_mtu) + 1);
	lost(&r);
}

static void ud_send__no_receive_LOST(void)
{
	struct request r;

	pair_ud();
	r = datagram(1, 8);
	post(0, &r);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	quiet();
	receive(1, 2, 0, 100);
	quiet();
}

static void ud_send__receive_too_short_LOST(void)
{
	struct request r;

	pair_ud();
	receive(1, 2, 0, GRH + 7);
	r = datagram(1, 8);
	post(0, &r);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	quiet();
	check_state(end[1].qp, IBV_QPS_RTS);
	r = datagram(3, 7);
	post(0, &r);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	(void)received(1, 2, IBV_WC_SUCCESS);
}

static void ud_send__solicited_NOTICED(void)
{
	struct ibv_comp_channel *channel = new_channel();
	struct request r;
	struct ibv_cq *cq;
	void *context;

	how.channel = channel;
	pair_ud();
	receive(1, 2, 0, 100);
	receive(1, 3, 0, 100);
	check_call(ibv_req_notify_cq(end[1].rcq, 1), 0);
	r = datagram(1, 8);
	post(0, &r);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	check(!readable(channel->fd, 30));
	r.wr.send_flags |= IBV_SEND_SOLICITED;
	post(0, &r);
	check(readable(channel->fd, 60000));
	check_call(v->get_cq_event(channel, &cq, &context), 0);
	check(cq == end[1].rcq);
	v->ack_cq_events(cq, 1);
}

static int undo_ah(void *p)
{
	return v->destroy_ah(p);
}

static void ah_from_wc__ANSWERS(void)
{
	struct request r;
	struct ibv_wc wc;

	pair_ud();
	receive(1, 2, 0, 100);
	receive(0, 3, 4096, 100);
	r = datagram(1, 8);
	post(0, &r);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	wc = received(1, 2, IBV_WC_SUCCESS);
	ah = v->create_ah_from_wc(pd, &wc, (void *)end[1].mem, 1);
	keep(ah, undo_ah);
	r = datagram(4, 8);
	r.sge[0] = (struct ibv_sge){ (uintptr_t)end[1].mem, 8,
				     end[1].mr->lkey };
	r.wr.wr.ud.remote_qpn = wc.src_qp;
	post(1, &r);
	(void)sent(1, 4, IBV_WC_SUCCESS);
	check_is(received(0, 3, IBV_WC_SUCCESS).src_qp, end[1].qp->qp_num);
}

static void ah__bad_values_REFUSED(void)
{
	struct ibv_ah_attr attr;

	address(&attr, NULL);
	attr.port_num = 9;
	check_null(v->create_ah(pd, &attr), EINVAL);
	address(&attr, NULL);
	attr.is_global = 0;
	attr.dlid = 0;
	check_null(v->create_ah(pd, &attr), EINVAL);
}

/* Either posting fails, or the completion reports an error. */
static void never_done(enum ibv_wr_opcode op)
{
	struct request r = datagram(1, 8);

	if (how.type == IBV_QPT_UC)
		aim(&r, (uintptr_t)end[1].mem, end[1].mr->rkey);
	r.wr.opcode = op;
	if (!try_post(0, &r))
		check(next_wc(end[0].scq).status != IBV_WC_SUCCESS);
	check(!end[1].mem[1]);
}

static void ud_post__a_write_NEVER_DONE(void)
{
	pair_ud();
	never_done(IBV_WR_RDMA_WRITE);
}

static void ud_post__a_read_NEVER_DONE(void)
{
	pair_ud();
	never_done(IBV_WR_RDMA_READ);
}

static void ud_send__wrong_local_key_ONLY_SQE(void)
{
	struct request r;

	pair_ud();
	receive(0, 20, 0, 100);
	r = datagram(1, 8);
	r.sge[0].lkey ^= 0xff00;
	post(0, &r);
	(void)sent(0, 1, IBV_WC_LOC_PROT_ERR);
	check_state(end[0].qp, IBV_QPS_SQE);
	quiet();
	enter(end[0].qp, IBV_QPS_RTS);
	receive(1, 21, 0, 100);
	r = datagram(2, 8);
	post(0, &r);
	(void)sent(0, 2, IBV_WC_SUCCESS);
	(void)received(1, 21, IBV_WC_SUCCESS);
}

/* ---- UC --------------------------------------------------------------- */

static void pair_uc(void)
{
	how.type = IBV_QPT_UC;
	pair();
	fill(0, 1);
}

static void uc__sends_and_writes_ARRIVE(void)
{
	static const uint32_t sizes[] = { 0, 1, 4096, 70000 };
	struct request r;

	pair_uc();
	for (uint64_t i = 0; i < 4; i++) {
		clear(1);
		receive(1, 10 + i, 0, MEM);
		r = request(IBV_WR_SEND_WITH_IMM, i, sizes[i]);
		post(0, &r);
		(void)sent(0, i, IBV_WC_SUCCESS);
		check_is(received(1, 10 + i, IBV_WC_SUCCESS).byte_len,
			 sizes[i]);
		same(sizes[i]);
		clear(1);
		receive(1, 20 + i, 0, 0);
		r = request(IBV_WR_RDMA_WRITE_WITH_IMM, i, sizes[i]);
		post(0, &r);
		(void)sent(0, i, IBV_WC_SUCCESS);
		(void)received(1, 20 + i, IBV_WC_SUCCESS);
		same(sizes[i]);
	}
	quiet();
}

static void uc__no_receive_LOST(void)
{
	struct request r;

	pair_uc();
	r = request(IBV_WR_SEND, 1, 8);
	post(0, &r);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	quiet();
	receive(1, 2, 0, 8);
	quiet();
	r = request(IBV_WR_SEND, 3, 8);
	post(0, &r);
	(void)sent(0, 3, IBV_WC_SUCCESS);
	(void)received(1, 2, IBV_WC_SUCCESS);
}

static void uc__write_with_a_wrong_key_LOST(void)
{
	struct request r;

	pair_uc();
	r = request(IBV_WR_RDMA_WRITE, 1, 8);
	aim(&r, (uintptr_t)end[1].mem, end[1].mr->rkey ^ 0xff00);
	post(0, &r);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	quiet();
	check(!end[1].mem[1]);
	check_state(end[0].qp, IBV_QPS_RTS);
	check_state(end[1].qp, IBV_QPS_RTS);
}

static void uc_post__a_read_NEVER_DONE(void)
{
	pair_uc();
	never_done(IBV_WR_RDMA_READ);
}

static void uc_post__an_atomic_NEVER_DONE(void)
{
	pair_uc();
	never_done(IBV_WR_ATOMIC_FETCH_AND_ADD);
}

const struct device_case ud_cases[] = {
	CASE(ud_send__behind_40_bytes_ARRIVES),
	CASE(ud_send__of_a_whole_mtu_ARRIVES),
	CASE(ud_send__another_qkey_LOST),
	CASE(ud_send__the_highest_bit_THE_QUEUE_PAIRS_OWN_QKEY),
	CASE(ud_send__nobody_of_that_number_LOST),
	CASE(ud_send__more_than_the_mtu_LOST),
	CASE(ud_send__no_receive_LOST),
	CASE(ud_send__receive_too_short_LOST),
	CASE(ud_send__solicited_NOTICED),
	CASE(ah_from_wc__ANSWERS),
	CASE(ah__bad_values_REFUSED),
	CASE(ud_post__a_write_NEVER_DONE),
	CASE(ud_post__a_read_NEVER_DONE),
	CASE(ud_send__wrong_local_key_ONLY_SQE),
	CASE(uc__sends_and_writes_ARRIVE),
	CASE(uc__no_receive_LOST),
	CASE(uc__write_with_a_wrong_key_LOST),
	CASE(uc_post__a_read_NEVER_DONE),
	CASE(uc_post__an_atomic_NEVER_DONE),
	{ .name = NULL },
};
