/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: queue pairs of the program: each type exchanges messages with
 * its own type, and the device grants each option or refuses it with the right
 * error.
 */
#include "qp.h"

static void connected__of_each_type_TALK(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct rdmamsg *ctx = test_open(NULL);
		struct rdmamsg_qp_options o = options(types[i]);
		struct rdmamsg_qp *a = make(ctx, &o), *b;
		uint8_t rec[RDMAMSG_OOB_MAX];
		int len;

		o.flags = RDMAMSG_QP_TWO_CQS | RDMAMSG_QP_SIGNAL_ALL;
		o.user = &o;
		b = make(ctx, &o);
		assert_ptr_equal(rdmamsg_qp_user(b), &o);
		assert_ptr_equal(verbs_of(a).send_cq, verbs_of(a).recv_cq);
		assert_ptr_not_equal(verbs_of(b).send_cq,
				     verbs_of(b).recv_cq);
		assert_int_equal(info(a).state, IBV_QPS_INIT);
		assert_true(info(a).max_send >= 16 && info(a).max_recv >= 16);
		assert_true(info(a).max_inline >= 32);
		assert_int_equal(info(a).type, types[i]);
		assert_null(verbs_of(a).qp_ex);
		post_receive(b);
		introduce(a, b);
		send_imm(a);
		check_arrives(a, b);
		len = rdmamsg_qp_record(b, rec, sizeof(rec));
		assert_error(rdmamsg_qp_connect(a, rec, (size_t)len), -EALREADY,
			     "peer");
		assert_int_equal(rdmamsg_qp_destroy(a), 0);
		/* rdmamsg_close() destroys the other queue pair */
		test_close(ctx);
	}
}

static void connect__hostile_records_REFUSED(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_qp_options o = options(IBV_QPT_RC);
	struct rdmamsg_qp *a = make(ctx, &o), *b = make(ctx, &o);
	uint8_t rec[RDMAMSG_OOB_MAX], bad[RDMAMSG_OOB_MAX];
	int len = rdmamsg_qp_record(b, rec, sizeof(rec));

	assert_error(rdmamsg_qp_record(b, rec, 10), -EINVAL, "room");
	for (int n = 0; n < len; n++)
		assert_error(rdmamsg_qp_connect(a, rec, (size_t)n), -EPROTO,
			     "record");
	memcpy(bad, rec, sizeof(bad));
	bad[8] = 2;
	assert_error(rdmamsg_qp_connect(a, bad, (size_t)len), -EPROTO,
		     "record");
	memcpy(bad, rec, sizeof(bad));
	bad[56] ^= 2;
	assert_error(rdmamsg_qp_connect(a, bad, (size_t)len), -EHOSTUNREACH,
		     "partition");
	assert_error(rdmamsg_qp_connect(a, NULL, 0), -EINVAL, "NULL");
	introduce(a, b);
	test_close(ctx);
}

static void datagram__with_a_peer_SENDS(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_qp_options o = options(IBV_QPT_UD);
	struct rdmamsg_qp *a = make(ctx, &o), *b = make(ctx, &o);
	struct ibv_send_wr wr = {
		.wr_id = 6, .opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED, .imm_data = htobe32(77),
	}, *bad;
	char grh[40];
	struct ibv_sge room = { .addr = (uintptr_t)grh, .length = sizeof(grh) };
	struct ibv_recv_wr recv = {
		.wr_id = 5, .sg_list = &room, .num_sge = 1,
	}, *bad_recv;
	struct ibv_mr *mr;
	uint8_t rec[RDMAMSG_OOB_MAX];
	int len = rdmamsg_qp_record(a, rec, sizeof(rec));
	uint32_t qpn;

	assert_int_equal(info(a).state, IBV_QPS_RTS);
	assert_null(verbs_of(a).ah);
	introduce(a, b);
	introduce(a, b);	/* a second peer is fine, here the same one */
	rec[56] ^= 2;		/* an unreachable peer changes nothing */
	assert_error(rdmamsg_qp_connect(a, rec, (size_t)len), -EHOSTUNREACH,
		     "partition");
	assert_int_equal(info(a).peer_qp_num, info(b).qp_num);
	wr.wr.ud.ah = verbs_of(a).ah;
	qpn = verbs_of(a).peer_qp_num;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = 0x11111111;
	assert_int_equal(qpn, info(b).qp_num);
	assert_int_equal(rdmamsg_qp_register(b, grh, sizeof(grh),
					     IBV_ACCESS_LOCAL_WRITE, &mr), 0);
	room.lkey = mr->lkey;
	assert_int_equal(ibv_post_recv(verbs_of(b).qp, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(verbs_of(a).qp, &wr, &bad), 0);
	check_arrives(a, b);
	assert_int_equal(rdmamsg_qp_deregister(b, mr), 0);
	test_close(ctx);
}

/* Only datagrams of InfiniBand carry a source that is not the queue pair's. */
static void datagram__of_another_source_IS_TOLD(void **state)
{
	enum { SOURCE = 0x123456 };
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_qp_options o = options(IBV_QPT_UD);
	const char *link = getenv("RDMAMSG_SOFT_LINK");
	struct rdmamsg_qp *a, *b = make(ctx, &o);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .wr.ud.remote_qkey = 0x11111111,
	}, *bad;
	char grh[40];
	struct ibv_sge room = { .addr = (uintptr_t)grh, .length = sizeof(grh) };
	struct ibv_recv_wr recv = { .sg_list = &room, .num_sge = 1 }, *bad_recv;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	o.create_flags = IBV_QP_CREATE_SOURCE_QPN;
	o.source_qpn = SOURCE;
	if (!test_on_soft() || !link || strcmp(link, "ib") != 0) {
		assert_error(rdmamsg_qp_create(ctx, &o, &a), -EOPNOTSUPP,
			     "queue pair");
		test_close(ctx);
		return;
	}
	a = make(ctx, &o);
	introduce(a, b);
	assert_int_not_equal(info(a).qp_num, SOURCE);
	wr.wr.ud.ah = verbs_of(a).ah;
	wr.wr.ud.remote_qpn = verbs_of(a).peer_qp_num;
	assert_int_equal(rdmamsg_qp_register(b, grh, sizeof(grh),
					     IBV_ACCESS_LOCAL_WRITE, &mr), 0);
	room.lkey = mr->lkey;
	assert_int_equal(ibv_post_recv(verbs_of(b).qp, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(verbs_of(a).qp, &wr, &bad), 0);
	wc = completion(verbs_of(b).recv_cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.src_qp, SOURCE);
	assert_int_equal(rdmamsg_qp_deregister(b, mr), 0);
	test_close(ctx);
}

static void builder__batch_of_two_ARRIVES(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_qp_options o = options(IBV_QPT_RC);
	struct rdmamsg_qp *a, *b;
	struct ibv_qp_ex *ex;

	o.send_ops = IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_SEND;
	a = make(ctx, &o);
	b = make(ctx, &o);
	assert_int_equal(info(a).send_ops, o.send_ops);
	ex = verbs_of(a).qp_ex;
	assert_non_null(ex);
	post_receive(b);
	post_receive(b);
	introduce(a, b);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = 0;
	ibv_wr_send_imm(ex, htobe32(1));
	ibv_wr_set_sge_list(ex, 0, NULL);
	ex->wr_id = 2;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(ex, htobe32(2));
	ibv_wr_set_sge_list(ex, 0, NULL);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(completion(verbs_of(a).send_cq).wr_id, 2);
	for (uint32_t i = 1; i <= 2; i++)
		assert_int_equal(be32toh(completion(verbs_of(b).recv_cq)
					 .imm_data), i);
	test_close(ctx);
}

/* Messages and writes arrive in the memory of the other side. */
static void memory__sent_and_written_ARRIVES(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_qp_options o = options(IBV_QPT_RC);
	struct rdmamsg_qp *a, *b;
	struct ibv_mr *mr;
	char mem[3][64] = { "sent or written" };
	struct ibv_sge src = { .length = 16 }, dst = { .length = 64 };
	struct ibv_recv_wr recv = { .sg_list = &dst, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = &src, .num_sge = 1,
	}, *bad;

	o.flags = RDMAMSG_QP_SIGNAL_ALL;
	o.access = IBV_ACCESS_REMOTE_WRITE;
	a = make(ctx, &o);
	b = make(ctx, &o);
	assert_error(rdmamsg_qp_register(a, NULL, 0, 0, &mr), -EINVAL,
		     "memory");
	assert_int_equal(rdmamsg_qp_deregister(a, NULL), 0);
	assert_int_equal(rdmamsg_qp_register(a, mem, sizeof(mem),
					     IBV_ACCESS_LOCAL_WRITE |
					     IBV_ACCESS_REMOTE_WRITE, &mr), 0);
	src.addr = (uintptr_t)mem[0];
	dst.addr = (uintptr_t)mem[1];
	src.lkey = dst.lkey = mr->lkey;
	assert_int_equal(ibv_post_recv(verbs_of(b).qp, &recv, &bad_recv), 0);
	introduce(a, b);
	assert_int_equal(ibv_post_send(verbs_of(a).qp, &wr, &bad), 0);
	assert_int_equal(completion(verbs_of(a).send_cq).status,
			 IBV_WC_SUCCESS);
	assert_int_equal(completion(verbs_of(b).recv_cq).byte_len, 16);
	assert_string_equal(mem[1], mem[0]);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = (uintptr_t)mem[2];
	wr.wr.rdma.rkey = mr->rkey;
	assert_int_equal(ibv_post_send(verbs_of(a).qp, &wr, &bad), 0);
	assert_int_equal(completion(verbs_of(a).send_cq).status,
			 IBV_WC_SUCCESS);
	assert_string_equal(mem[2], mem[0]);
	assert_int_equal(rdmamsg_qp_deregister(a, mr), 0);
	test_close(ctx);
}

/* ---- windows ---------------------------------------------------------- */

/* Posts a request of one of the three kinds, through either interface. */
static void post_window(struct rdmamsg_qp *q, enum ibv_wr_opcode op,
			struct ibv_mw *mw, struct ibv_mr *mr)
{
	const struct ibv_mw_bind_info info = {
		mr, (uintptr_t)mr->addr, 8, IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_send_wr wr = {
		.opcode = op, .send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	struct ibv_qp_ex *ex = verbs_of(q).qp_ex;

	if (op == IBV_WR_BIND_MW) {
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info = info;
	} else {
		wr.invalidate_rkey = mw->rkey;
	}
	if (!ex) {
		assert_int_equal(ibv_post_send(verbs_of(q).qp, &wr, &bad),
				 0);
		return;
	}
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	if (op == IBV_WR_BIND_MW) {
		ibv_wr_bind_mw(ex, mw, ibv_inc_rkey(mw->rkey), &info);
	} else if (op == IBV_WR_LOCAL_INV) {
		ibv_wr_local_inv(ex, mw->rkey);
	} else {
		ibv_wr_send_inv(ex, mw->rkey);
		ibv_wr_set_sge_list(ex, 0, NULL);
	}
	assert_int_equal(ibv_wr_complete(ex), 0);
}

static enum ibv_wc_status window_status(struct rdmamsg_qp *q,
					enum ibv_wr_opcode op,
					struct ibv_mw *mw, struct ibv_mr *mr)
{
	enum ibv_wc_status status;

	post_window(q, op, mw, mr);
	status = completion(verbs_of(q).send_cq).status;
	if (op == IBV_WR_BIND_MW && !status)
		mw->rkey = ibv_inc_rkey(mw->rkey);
	return status;
}

/* The owner invalidates the window, then the peer invalidates it. */
static void window__of_type_2_GIVEN_AND_TAKEN_BACK(void **state)
{
	static const uint64_t ops[] = {
		0, IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
		IBV_QP_EX_WITH_SEND_WITH_INV,
	};
	static char mem[64];

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		struct rdmamsg *ctx = test_open(NULL);
		struct rdmamsg_qp_options o = options(IBV_QPT_RC);
		struct rdmamsg_qp *a, *b;
		struct ibv_mr *mr;
		struct ibv_mw *mw;
		struct ibv_wc wc;

		o.send_ops = ops[i];
		o.access = IBV_ACCESS_REMOTE_WRITE;
		a = make(ctx, &o);
		b = make(ctx, &o);
		assert_int_equal(rdmamsg_qp_register(b, mem, sizeof(mem),
						     IBV_ACCESS_LOCAL_WRITE |
						     IBV_ACCESS_MW_BIND,
						     &mr), 0);
		mw = ibv_alloc_mw(verbs_of(b).qp->pd, IBV_MW_TYPE_2);
		assert_non_null(mw);
		introduce(a, b);
		assert_int_equal(window_status(b, IBV_WR_BIND_MW, mw, mr), 0);
		assert_int_equal(window_status(b, IBV_WR_LOCAL_INV, mw, mr), 0);
		assert_int_equal(window_status(b, IBV_WR_BIND_MW, mw, mr), 0);
		post_receive(b);
		assert_int_equal(window_status(a, IBV_WR_SEND_WITH_INV, mw, mr),
				 0);
		wc = completion(verbs_of(b).recv_cq);
		assert_int_equal(wc.status, 0);
		/*
		 * Linux 6.1 does not report the rkey to programs (rxe_resp.c,
		 * do_complete())
		 */
		if (test_on_soft()) {
			assert_true(wc.wc_flags & IBV_WC_WITH_INV);
			assert_int_equal(wc.invalidated_rkey, mw->rkey);
		}
		/* the rkey of a window that does not exist */
		mw->rkey ^= 0x100;
		post_receive(b);
		post_window(a, IBV_WR_SEND_WITH_INV, mw, mr);
		assert_int_not_equal(completion(verbs_of(b).recv_cq).status,
				     0);
		mw->rkey ^= 0x100;
		assert_int_equal(ibv_dealloc_mw(mw), 0);
		assert_int_equal(rdmamsg_qp_deregister(b, mr), 0);
		test_close(ctx);
	}
}

/* ---- callbacks instead of polling ------------------------------------- */

static struct told {
	uint32_t calls, sent, received;
	bool frees;			/* frees itself in its callback */
} told[2];

static void on_completion(struct rdmamsg_qp *q, struct ibv_cq *cq)
{
	struct told *t = rdmamsg_qp_user(q);
	struct ibv_wc wc;

	t->calls++;
	while (ibv_poll_cq(cq, 1, &wc) == 1) {
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id == 6)
			t->sent++;
		else
			t->received++;
	}
	if (t->frees)
		assert_int_equal(rdmamsg_qp_destroy(q), 0);
}

static void told_pair(struct rdmamsg *ctx, uint32_t flags,
		      struct rdmamsg_qp *qp[2])
{
	static const struct rdmamsg_qp_handlers on = {
		.size = sizeof(on), .on_completion = on_completion,
	};
	struct rdmamsg_qp_options o = options(IBV_QPT_RC);

	memset(told, 0, sizeof(told));
	o.flags = flags;
	o.handlers = &on;
	for (int i = 0; i < 2; i++) {
		o.user = &told[i];
		qp[i] = make(ctx, &o);
	}
	for (int i = 0; i < 8; i++)
		post_receive(qp[1]);
	introduce(qp[0], qp[1]);
}

static void wait_told(struct rdmamsg *ctx, uint32_t sent, uint32_t received,
		      int (*turn)(struct rdmamsg *ctx))
{
	uint64_t end = now_ms() + WAIT_MS;

	while (told[0].sent != sent || told[1].received != received) {
		assert_true(turn(ctx) >= 0);
		if (now_ms() > end)
			fail_msg("told of %u and %u", told[0].sent,
				 told[1].received);
	}
}

static int sleep_and_process(struct rdmamsg *ctx)
{
	return rdmamsg_wait(ctx, WAIT_MS);
}

static void told__in_each_mode_ALL_OF_THEM(void **state)
{
	static int (*const turns[])(struct rdmamsg *ctx) = {
		sleep_and_process, rdmamsg_process, rdmamsg_poll,
	};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(turns); i++) {
		struct rdmamsg *ctx = test_open(NULL);
		struct rdmamsg_qp *qp[2];

		told_pair(ctx, i % 2 ? RDMAMSG_QP_TWO_CQS : 0, qp);
		for (uint32_t n = 1; n <= 5; n++) {
			send_imm(qp[0]);
			wait_told(ctx, n, n, turns[i / 2]);
		}
		/* callbacks without a completion must end at some time */
		for (int n = 0; n < 3; n++)
			assert_true(rdmamsg_process(ctx) >= 0);
		assert_int_equal(rdmamsg_process(ctx), 0);
		assert_in_range(told[0].calls, 1, 10);
		assert_int_equal(rdmamsg_qp_destroy(qp[0]), 0);
		test_close(ctx);
	}
}

static void told__frees_itself_LEAVES_NOTHING(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_qp *qp[2];
	int before = 0;

	for (int i = 0; i < 5; i++) {
		told_pair(ctx, RDMAMSG_QP_TWO_CQS, qp);
		if (!i)
			before = open_fds();
		assert_int_equal(open_fds(), before);
		told[1].frees = true;
		send_imm(qp[0]);
		wait_told(ctx, 1, 1, rdmamsg_process);
		assert_int_equal(rdmamsg_qp_destroy(qp[0]), 0);
	}
	test_close(ctx);
}

static void told__solicited_only_NOT_THE_OTHERS(void **state)
{
	struct ibv_send_wr wr = {
		.wr_id = 6, .opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED,
	}, *bad;
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_qp *qp[2];

	told_pair(ctx, RDMAMSG_QP_TWO_CQS | RDMAMSG_QP_SOLICITED, qp);
	send_imm(qp[0]);
	send_imm(qp[0]);
	/* the sends are acknowledged, so they have arrived */
	wait_told(ctx, 2, 0, sleep_and_process);
	assert_int_equal(rdmamsg_process(ctx), 0);
	assert_int_equal(told[1].calls, 0);
	assert_int_equal(ibv_post_send(verbs_of(qp[0]).qp, &wr, &bad), 0);
	wait_told(ctx, 3, 3, sleep_and_process);
	assert_int_equal(told[1].calls, 1);
	test_close(ctx);
}

/* The receiving side polls nothing while its queue fills many times over. */
static void overrun__ignored_GOES_ON(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_qp_options o = options(IBV_QPT_RC);
	struct rdmamsg_qp *a, *b;

	o.flags = RDMAMSG_QP_TWO_CQS | RDMAMSG_QP_IGNORE_OVERRUN;
	if (!test_on_soft()) {
		assert_error(rdmamsg_qp_create(ctx, &o, &a), -EOPNOTSUPP,
			     "RDMAMSG_QP_IGNORE_OVERRUN");
		test_close(ctx);
		return;
	}
	a = make(ctx, &o);
	b = make(ctx, &o);
	introduce(a, b);
	for (uint32_t i = 0; i < 4 * info(b).recv_cq_entries; i++) {
		post_receive(b);
		send_imm(a);
		assert_int_equal(completion(verbs_of(a).send_cq).status,
				 IBV_WC_SUCCESS);
	}
	test_close(ctx);
}

static void cross__numbers_WHERE_REQUESTS_CAN_WAIT(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_qp_options o = options(IBV_QPT_RC);
	struct rdmamsg_qp *a;

	a = make(ctx, &o);
	assert_int_equal(info(a).send_cq_number, 0);
	o.flags = RDMAMSG_QP_TWO_CQS | RDMAMSG_QP_CROSS_CHANNEL;
	if (test_has(RDMAMSG_CAP_CHAINS, RDMAMSG_CAP_NATIVE)) {
		a = make(ctx, &o);
		assert_true(info(a).recv_cq_number != info(a).send_cq_number);
	} else {
		assert_error(rdmamsg_qp_create(ctx, &o, &a), -EOPNOTSUPP,
			     "RDMAMSG_QP_CROSS_CHANNEL");
	}
	test_close(ctx);
}

/* The soft HCA and Soft-RoCE grant or refuse each option. */
#define GRANTED 1

static void options__each_GRANTED_OR_REFUSED(void **state)
{
	static const uint8_t key[40];
	static const struct rdmamsg_rss rss = {
		.size = sizeof(rss), .queues = 2, .key = key, .key_len = 40,
		.function = IBV_RX_HASH_FUNC_TOEPLITZ,
	};
	static const struct {
		struct rdmamsg_qp_options o;
		int soft, rxe;
		int ib;		/* the soft HCA as InfiniBand, if not `soft` */
	} table[] = {
		{ { .type = IBV_QPT_DRIVER }, -EOPNOTSUPP, -EOPNOTSUPP },
		{ { .type = IBV_QPT_RAW_PACKET }, 0, -EOPNOTSUPP,
		  -EOPNOTSUPP },
		{ { .type = IBV_QPT_UD,
		    .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB }, 0,
		  -EOPNOTSUPP },
		{ { .type = IBV_QPT_RC,
		    .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB },
		  -EINVAL, -EINVAL },
		{ { .type = IBV_QPT_UD,
		    .create_flags = IBV_QP_CREATE_SCATTER_FCS },
		  -EINVAL, -EOPNOTSUPP, -EOPNOTSUPP },
		{ { .type = IBV_QPT_RAW_PACKET,
		    .create_flags = IBV_QP_CREATE_SCATTER_FCS },
		  0, -EOPNOTSUPP, -EOPNOTSUPP },
		{ { .type = IBV_QPT_RAW_PACKET,
		    .create_flags = IBV_QP_CREATE_CVLAN_STRIPPING },
		  0, -EOPNOTSUPP, -EOPNOTSUPP },
		{ { .type = IBV_QPT_RAW_PACKET, .max_tso_header = 64,
		    .send_ops = IBV_QP_EX_WITH_TSO | IBV_QP_EX_WITH_SEND },
		  0, -EOPNOTSUPP, -EOPNOTSUPP },
		{ { .type = IBV_QPT_UD, .source_qpn = 5,
		    .create_flags = IBV_QP_CREATE_SOURCE_QPN },
		  -EOPNOTSUPP, -EOPNOTSUPP, GRANTED },
		{ { .type = IBV_QPT_RC, .source_qpn = 5,
		    .create_flags = IBV_QP_CREATE_SOURCE_QPN },
		  -EINVAL, -EINVAL },
		{ { .create_flags = IBV_QP_CREATE_PCI_WRITE_END_PADDING },
		  -EOPNOTSUPP, -EOPNOTSUPP },
		{ { .type = IBV_QPT_UD, .send_ops = IBV_QP_EX_WITH_TSO,
		    .max_tso_header = 64 }, -EOPNOTSUPP, -EOPNOTSUPP },
		{ { .type = IBV_QPT_UD, .rss = &rss }, -EOPNOTSUPP,
		  -EOPNOTSUPP },
		{ { .send_ops = 0x3ff }, 0, 0 },
		{ { .type = IBV_QPT_UD, .send_ops = IBV_QP_EX_WITH_SEND }, 0,
		  0 },
		{ { .max_send = 1 << 19 }, -EINVAL, -EINVAL },
		{ { .max_send_sge = 500 }, -EINVAL, -EINVAL },
	};
	const char *link = getenv("RDMAMSG_SOFT_LINK");
	const bool ib = link && !strcmp(link, "ib");
	struct rdmamsg *ctx = test_open(NULL);

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct rdmamsg_qp_options o = table[i].o;
		int want = test_on_soft() ? table[i].soft : table[i].rxe;
		struct rdmamsg_qp *q = NULL;
		int ret;

		o.size = sizeof(o);
		o.device = test_device();
		if (ib && test_on_soft() && table[i].ib)
			want = table[i].ib == GRANTED ? 0 : table[i].ib;
		ret = rdmamsg_qp_create(ctx, &o, &q);
		if (ret != want)
			fail_msg("row %zu: %d, not %d: %s", i, ret, want,
				 ret ? rdmamsg_error() : "granted");
		if (!ret) {
			assert_int_equal(info(q).create_flags, o.create_flags);
			assert_int_equal(info(q).send_ops, o.send_ops);
			/* the device has heard of them */
			assert_int_equal(!verbs_of(q).qp_ex, !o.send_ops);
			assert_int_equal(rdmamsg_qp_destroy(q), 0);
		}
	}
	test_close(ctx);
}

static void free__many_times_LEAVES_NOTHING(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_qp_options o = options(IBV_QPT_RC);
	int before = 0;

	assert_int_equal(rdmamsg_qp_destroy(NULL), 0);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(rdmamsg_qp_destroy(make(ctx, &o)), 0);
		if (!i)
			before = open_fds();
	}
	assert_int_equal(open_fds(), before);
	test_close(ctx);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(connected__of_each_type_TALK),
		TEST(connect__hostile_records_REFUSED),
		TEST(datagram__with_a_peer_SENDS),
		TEST(datagram__of_another_source_IS_TOLD),
		TEST(builder__batch_of_two_ARRIVES),
		TEST(memory__sent_and_written_ARRIVES),
		TEST(window__of_type_2_GIVEN_AND_TAKEN_BACK),
		TEST(told__in_each_mode_ALL_OF_THEM),
		TEST(told__frees_itself_LEAVES_NOTHING),
		TEST(told__solicited_only_NOT_THE_OTHERS),
		TEST(overrun__ignored_GOES_ON),
		TEST(cross__numbers_WHERE_REQUESTS_CAN_WAIT),
		TEST(options__each_GRANTED_OR_REFUSED),
		TEST(free__many_times_LEAVES_NOTHING),
	};

	end_on_iwarp(NO_OOB);
	return test_main(tests, NULL, argc, argv);
}
