/* SPDX-License-Identifier: BSD-2-Clause */
/* Queues that wait for completions, or that other queues enable. */
#include "config.h"
#include "device.h"

#ifdef HAVE_MLX5DV
#include "cross.h"

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
	check_state(a0, IBV_QPS_RTS);
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
	check_state(m.qp, IBV_QPS_ERR);
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
	CASE(chain__three_queue_pairs_RUNS_ALONE),
#endif
	{ .name = NULL },
};
