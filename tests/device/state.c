/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pair states. The required attributes of each step come from
 * ibv_modify_qp(3). The optional attributes come from qp_state_table in Linux,
 * drivers/infiniband/core/verbs.c.
 */
#include "device.h"

static const enum ibv_qp_state up[] = {
	IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
};

static int modify(struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr a = step_attr(to, qp->qp_num);

	a.cur_qp_state = qp->state;
	return -rdmamsg__verbs_ret(v->modify_qp(qp, &a, mask));
}

static struct ibv_qp *one(enum ibv_qp_type type)
{
	return new_qp(type, new_cq(8, NULL), NULL);
}

/* Each transition without one required attribute fails and changes nothing. */
static void required(enum ibv_qp_type type)
{
	struct ibv_qp *qp = one(type);

	for (int s = 0; s < 3; s++) {
		enum ibv_qp_state before = state_of(qp);
		int mask = qp_step_mask(type, up[s]);

		for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
			if (!(mask & bit) || bit == IBV_QP_STATE)
				continue;
			if (!modify(qp, up[s], mask & ~bit))
				fail(__FILE__, __LINE__,
				     "step to %d without 0x%x is taken",
				     up[s], bit);
			check_is(state_of(qp), before);
		}
		check_is(modify(qp, up[s], mask), 0);
		check_is(state_of(qp), up[s]);
		check_is(qp->state, up[s]);
	}
}

static void rc__without_what_a_step_needs_EINVAL(void)
{
	required(IBV_QPT_RC);
}

static void uc__without_what_a_step_needs_EINVAL(void)
{
	required(IBV_QPT_UC);
}

static void ud__without_what_a_step_needs_EINVAL(void)
{
	required(IBV_QPT_UD);
}

/* Returns the optional attributes, without those of alternate paths. */
static int optional(enum ibv_qp_type type, enum ibv_qp_state to)
{
	bool ud = type == IBV_QPT_UD;

	switch (to) {
	case IBV_QPS_RTR:
		return IBV_QP_PKEY_INDEX |
		       (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	case IBV_QPS_RTS:
		return IBV_QP_CUR_STATE |
		       (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS) |
		       (type == IBV_QPT_RC ? IBV_QP_MIN_RNR_TIMER : 0);
	default:
		return 0;
	}
}

/* Tries each step with each attribute that it does not require. */
static void others(enum ibv_qp_type type)
{
	const int apart = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_CAP;

	for (int s = 0; s < 3; s++) {
		int may = optional(type, up[s]);

		for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
			int mask = qp_step_mask(type, up[s]), ret;
			struct ibv_qp *qp;

			if ((mask | apart) & bit)
				continue;
			qp = one(type);
			for (int i = 0; i < s; i++)
				step(qp, up[i], qp->qp_num);
			ret = modify(qp, up[s], mask | bit);
			if (ret != (may & bit ? 0 : EINVAL))
				fail(__FILE__, __LINE__,
				     "step to %d with 0x%x: %d", up[s], bit,
				     ret);
			drop(qp);
		}
	}
}

static void rc__with_what_a_step_may_not_set_EINVAL(void)
{
	others(IBV_QPT_RC);
}

static void uc__with_what_a_step_may_not_set_EINVAL(void)
{
	others(IBV_QPT_UC);
}

static void ud__with_what_a_step_may_not_set_EINVAL(void)
{
	others(IBV_QPT_UD);
}

/* Tries the transition from each state to each other state. */
static void steps__that_are_none_EINVAL(void)
{
	/* a bit for each permitted next state */
	static const uint8_t from[] = {
		[IBV_QPS_RESET] = 1 << IBV_QPS_RESET | 1 << IBV_QPS_INIT,
		[IBV_QPS_INIT] = 1 << IBV_QPS_RESET | 1 << IBV_QPS_INIT |
				 1 << IBV_QPS_RTR | 1 << IBV_QPS_ERR,
		[IBV_QPS_RTR] = 1 << IBV_QPS_RESET | 1 << IBV_QPS_RTS |
				1 << IBV_QPS_ERR,
		[IBV_QPS_RTS] = 1 << IBV_QPS_RESET | 1 << IBV_QPS_RTS |
				1 << IBV_QPS_SQD | 1 << IBV_QPS_ERR,
	};
	struct ibv_qp *qp = one(IBV_QPT_RC);

	for (int s = IBV_QPS_RESET; s <= IBV_QPS_RTS; s++) {
		for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++) {
			int mask = qp_step_mask(IBV_QPT_RC, to);

			if (from[s] & 1 << to)
				continue;
			if (modify(qp, to, to > s ? mask : IBV_QP_STATE) !=
			    EINVAL)
				fail(__FILE__, __LINE__, "%d to %d is taken",
				     s, to);
			check_is(state_of(qp), s);
		}
		if (s < IBV_QPS_RTS)
			step(qp, up[s], qp->qp_num);
	}
}

/* An RNIC has one state for RESET and INIT. */
static void create__RESET_or_INIT_OF_IWARP(void)
{
	check_state(one(IBV_QPT_RC), is_iwarp() ? IBV_QPS_INIT :
						  IBV_QPS_RESET);
}

static void reset__RESET_or_INIT_OF_IWARP(void)
{
	struct ibv_qp *qp = one(IBV_QPT_RC);

	step(qp, IBV_QPS_INIT, 0);
	enter(qp, IBV_QPS_RESET);
	check_state(qp, is_iwarp() ? IBV_QPS_INIT : IBV_QPS_RESET);
}

static void values__no_such_port_EINVAL(void)
{
	struct ibv_qp *qp = one(IBV_QPT_RC);
	const enum ibv_qp_state before = state_of(qp);
	struct ibv_qp_attr a = step_attr(IBV_QPS_INIT, 0);
	int mask = qp_step_mask(IBV_QPT_RC, IBV_QPS_INIT);
	struct ibv_device_attr dev;

	check_call(v->query_device(ctx, &dev), 0);
	a.port_num = (uint8_t)(dev.phys_port_cnt + 1);
	check_call(v->modify_qp(qp, &a, mask), EINVAL);
	a.port_num = 0;
	check_call(v->modify_qp(qp, &a, mask), EINVAL);
	check_is(state_of(qp), before);
}

/* ibv_modify_qp(3): one invalid attribute means that no attribute changes. */
static void values__no_such_mtu_NOTHING_CHANGES(void)
{
	struct ibv_qp *qp = one(IBV_QPT_RC);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	step(qp, IBV_QPS_INIT, 0);
	a = step_attr(IBV_QPS_RTR, qp->qp_num);
	a.min_rnr_timer = 7;
	a.path_mtu = IBV_MTU_4096 + 1;
	check_call(v->modify_qp(qp, &a, qp_step_mask(IBV_QPT_RC, IBV_QPS_RTR)),
		   EINVAL);
	check_call(v->query_qp(qp, &a, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER,
			       &init), 0);
	check_is(a.qp_state, IBV_QPS_INIT);
	check_is(a.min_rnr_timer, 0);
}

static void values__too_many_reads_to_ask_EINVAL(void)
{
	struct ibv_qp *qp = one(IBV_QPT_RC);
	struct ibv_qp_attr a;

	step(qp, IBV_QPS_INIT, 0);
	step(qp, IBV_QPS_RTR, qp->qp_num);
	a = step_attr(IBV_QPS_RTS, qp->qp_num);
	a.max_rd_atomic = 255;
	check_call(v->modify_qp(qp, &a, qp_step_mask(IBV_QPT_RC, IBV_QPS_RTS)),
		   EINVAL);
}

static void values__too_many_reads_to_answer_EINVAL(void)
{
	struct ibv_qp *qp = one(IBV_QPT_RC);
	struct ibv_qp_attr a;

	step(qp, IBV_QPS_INIT, 0);
	a = step_attr(IBV_QPS_RTR, qp->qp_num);
	a.max_dest_rd_atomic = 255;
	check_call(v->modify_qp(qp, &a, qp_step_mask(IBV_QPT_RC, IBV_QPS_RTR)),
		   EINVAL);
}

static void values__no_such_pkey_EINVAL(void)
{
	struct ibv_qp *qp = one(IBV_QPT_RC);
	struct ibv_qp_attr a = step_attr(IBV_QPS_INIT, 0);

	a.pkey_index = port.pkey_tbl_len;
	check_call(v->modify_qp(qp, &a, qp_step_mask(IBV_QPT_RC, IBV_QPS_INIT)),
		   EINVAL);
}

/* Linux: each driver, and ib_uverbs_modify_qp(), know the bits up to 20. */
static void values__unknown_attribute_EOPNOTSUPP(void)
{
	struct ibv_qp *qp = one(IBV_QPT_RC);

	check_is(modify(qp, IBV_QPS_INIT,
			qp_step_mask(IBV_QPT_RC, IBV_QPS_INIT) | 1 << 26),
		 EOPNOTSUPP);
}

static void path__without_grh_on_ethernet_EINVAL(void)
{
	struct ibv_qp *qp = one(IBV_QPT_RC);
	struct ibv_qp_attr a;

	if (port.link_layer != IBV_LINK_LAYER_ETHERNET)
		return;
	step(qp, IBV_QPS_INIT, 0);
	a = step_attr(IBV_QPS_RTR, qp->qp_num);
	a.ah_attr.is_global = 0;
	check_call(v->modify_qp(qp, &a, qp_step_mask(IBV_QPT_RC, IBV_QPS_RTR)),
		   EINVAL);
}

static void query__TELLS_WHAT_WAS_SET(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	how.timeout = 13;
	how.retry_cnt = 5;
	how.rnr_retry = 6;
	how.rnr_timer = 9;
	pair();
	check_call(v->query_qp(end[0].qp, &a, 0x1ffff, &init), 0);
	check_is(a.qp_state, IBV_QPS_RTS);
	check_is(a.path_mtu, port.active_mtu);
	check_is(a.dest_qp_num, end[1].qp->qp_num);
	check_is(a.qp_access_flags & REMOTE, REMOTE);
	check_is(a.port_num, port_num);
	check_is(a.pkey_index, 0);
	check_is(a.timeout, 13);
	check_is(a.retry_cnt, 5);
	check_is(a.rnr_retry, 6);
	check_is(a.min_rnr_timer, 9);
	check(a.max_rd_atomic >= how.depth);
	check(a.max_dest_rd_atomic >= how.depth);
	check_is(a.sq_psn, 0xfffffe);
	check(init.send_cq == end[0].scq && init.recv_cq == end[0].rcq);
	check_is(init.qp_type, IBV_QPT_RC);
}

static void query__state_AS_SET(void)
{
	struct ibv_qp *qp = one(IBV_QPT_RC);

	step(qp, IBV_QPS_INIT, 0);
	check_is(state_of(qp), IBV_QPS_INIT);
}

static void query__queues_AS_GRANTED(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	pair();
	check_call(v->query_qp(end[0].qp, &a, IBV_QP_CAP, &init), 0);
	check_is(init.cap.max_send_wr, end[0].cap.max_send_wr);
	check_is(init.cap.max_recv_wr, end[0].cap.max_recv_wr);
	check_is(init.cap.max_inline_data, end[0].cap.max_inline_data);
}

static void query__current_state_TOLD_TOO(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	pair();
	check_call(v->query_qp(end[0].qp, &a, IBV_QP_CUR_STATE, &init), 0);
	check_is(a.cur_qp_state, IBV_QPS_RTS);
}

/* ---- what may be posted ----------------------------------------------- */

static void post__before_its_time_REFUSED(void)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = 1 };
	struct request r;

	ends();
	r = request(IBV_WR_SEND, 1, 8);
	check_is(ibv_post_recv(end[0].qp, &wr, &bad), EINVAL);
	check_is(try_post(0, &r), EINVAL);
	step(end[0].qp, IBV_QPS_INIT, 0);
	check_is(ibv_post_recv(end[0].qp, &wr, &bad), 0);
}

static void post__before_rts_REFUSED(void)
{
	struct request r;

	ends();
	r = request(IBV_WR_SEND, 1, 8);
	step(end[0].qp, IBV_QPS_INIT, 0);
	check_is(try_post(0, &r), EINVAL);
	step(end[0].qp, IBV_QPS_RTR, end[1].qp->qp_num);
	check_is(try_post(0, &r), EINVAL);
}

static void post__before_its_time_TELLS_WHICH(void)
{
	struct ibv_recv_wr *bad_recv = NULL, recv = { .wr_id = 1 };
	struct ibv_send_wr *bad = NULL;
	struct request r;

	ends();
	r = request(IBV_WR_SEND, 1, 8);
	r.wr.sg_list = r.sge;
	check(ibv_post_send(end[0].qp, &r.wr, &bad));
	check(bad == &r.wr);
	check(ibv_post_recv(end[0].qp, &recv, &bad_recv));
	check(bad_recv == &recv);
}

static void rtr__RECEIVES_ALREADY(void)
{
	struct request r;

	how.last_down = true;
	pair();
	fill(0, 1);
	step(end[1].qp, IBV_QPS_INIT, 0);
	receive(1, 2, 0, 8);
	step(end[1].qp, IBV_QPS_RTR, end[0].qp->qp_num);
	r = request(IBV_WR_SEND, 1, 8);
	post(0, &r);
	(void)received(1, 2, IBV_WC_SUCCESS);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	same(8);
}

/* ---- the send queue drained ------------------------------------------- */

static void drain(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1,
	};

	check_call(v->modify_qp(qp, &a, IBV_QP_STATE |
				IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
}

static void sqd__nothing_under_way_TOLD_AT_ONCE(void)
{
	pair();
	drain(end[0].qp);
	check(expect_event(IBV_EVENT_SQ_DRAINED).element.qp == end[0].qp);
	check_state(end[0].qp, IBV_QPS_SQD);
}

static void sqd__what_is_posted_WAITS_FOR_RTS(void)
{
	struct request r;

	pair();
	drain(end[0].qp);
	(void)expect_event(IBV_EVENT_SQ_DRAINED);
	fill(0, 1);
	r = request(IBV_WR_RDMA_WRITE, 1, 8);
	post(0, &r);
	quiet();
	check(!end[1].mem[1]);
	enter(end[0].qp, IBV_QPS_RTS);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	same(8);
}

static void sqd__what_is_under_way_ENDS_FIRST(void)
{
	struct request r;

	pair();
	for (uint64_t i = 0; i < 8; i++) {
		r = request(IBV_WR_RDMA_WRITE, i, MEM);
		post(0, &r);
	}
	drain(end[0].qp);
	(void)expect_event(IBV_EVENT_SQ_DRAINED);
	enter(end[0].qp, IBV_QPS_RTS);
	for (uint64_t i = 0; i < 8; i++)
		(void)sent(0, i, IBV_WC_SUCCESS);
	quiet();
}

const struct device_case state_cases[] = {
	CASE(rc__without_what_a_step_needs_EINVAL),
	CASE(uc__without_what_a_step_needs_EINVAL),
	CASE(ud__without_what_a_step_needs_EINVAL),
	CASE(rc__with_what_a_step_may_not_set_EINVAL),
	CASE(uc__with_what_a_step_may_not_set_EINVAL),
	CASE(ud__with_what_a_step_may_not_set_EINVAL),
	CASE(steps__that_are_none_EINVAL),
	CASE(create__RESET_or_INIT_OF_IWARP),
	CASE(reset__RESET_or_INIT_OF_IWARP),
	CASE(values__no_such_port_EINVAL),
	CASE(values__no_such_mtu_NOTHING_CHANGES),
	CASE(values__too_many_reads_to_ask_EINVAL),
	CASE(values__too_many_reads_to_answer_EINVAL),
	CASE(values__no_such_pkey_EINVAL),
	CASE(values__unknown_attribute_EOPNOTSUPP),
	CASE(path__without_grh_on_ethernet_EINVAL),
	CASE(query__TELLS_WHAT_WAS_SET),
	CASE(query__state_AS_SET),
	CASE(query__queues_AS_GRANTED),
	CASE(query__current_state_TOLD_TOO),
	CASE(post__before_its_time_REFUSED),
	CASE(post__before_rts_REFUSED),
	CASE(post__before_its_time_TELLS_WHICH),
	CASE(rtr__RECEIVES_ALREADY),
	CASE(sqd__nothing_under_way_TOLD_AT_ONCE),
	CASE(sqd__what_is_posted_WAITS_FOR_RTS),
	CASE(sqd__what_is_under_way_ENDS_FIRST),
	{ .name = NULL },
};
