/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: sizes, events and overruns. */
#include "device.h"

static void writes(uint64_t from, uint64_t to)
{
	struct request r;

	for (uint64_t id = from; id < to; id++) {
		r = request(IBV_WR_RDMA_WRITE, id, 8);
		post(0, &r);
	}
}

static struct ibv_comp_channel *channel;

static void pair_noticed(void)
{
	how.channel = channel = new_channel();
	pair();
}

static void noticed(struct ibv_cq *want)
{
	struct ibv_cq *cq = NULL;
	void *context;

	check(readable(channel->fd, 60000));
	check_call(v->get_cq_event(channel, &cq, &context), 0);
	check(cq == want);
	check(context == cq->cq_context);
	v->ack_cq_events(cq, 1);
}

/* Leaves n unpolled completions in the queue. */
static void fill_queue(uint64_t n)
{
	pair_noticed();
	for (uint64_t i = 0; i < n; i++) {
		check_call(ibv_req_notify_cq(end[0].scq, 0), 0);
		writes(i, i + 1);
		noticed(end[0].scq);
	}
}

static void create_cq__bad_values_EINVAL(void)
{
	struct ibv_device_attr a;

	check_call(v->query_device(ctx, &a), 0);
	check_null(v->create_cq(ctx, 0, NULL, NULL, 0), EINVAL);
	check_null(v->create_cq(ctx, a.max_cqe + 1, NULL, NULL, 0), EINVAL);
	check_null(v->create_cq(ctx, 8, NULL, NULL, ctx->num_comp_vectors),
		   EINVAL);
}

static void create_cq__AT_LEAST_AS_LARGE(void)
{
	struct ibv_cq *cq = new_cq(100, NULL);
	struct ibv_wc wc[4];

	check(cq->cqe >= 100);
	check_is(ibv_poll_cq(cq, 4, wc), 0);
	check_is(ibv_poll_cq(cq, 0, wc), 0);
}

static void resize_cq__KEEPS_WHAT_IS_THERE(void)
{
	struct ibv_wc wc[4];

	pair();
	writes(0, 20);
	for (uint64_t i = 0; i < 5; i++)
		(void)sent(0, i, IBV_WC_SUCCESS);
	(void)next_wc(end[0].scq);	/* request 5 */
	check_call(v->resize_cq(end[0].scq, 1000), 0);
	check(end[0].scq->cqe >= 1000);
	for (uint64_t i = 6; i < 20; i++)
		(void)sent(0, i, IBV_WC_SUCCESS);
	check_is(ibv_poll_cq(end[0].scq, 4, wc), 0);
	check_call(v->resize_cq(end[0].scq, 32), 0);
	writes(20, 30);
	for (uint64_t i = 20; i < 30; i++)
		(void)sent(0, i, IBV_WC_SUCCESS);
	quiet();
}

static void resize_cq__smaller_than_what_is_there_EINVAL(void)
{
	fill_queue(40);
	check_call(v->resize_cq(end[0].scq, 4), EINVAL);
	for (uint64_t i = 0; i < 40; i++)
		(void)sent(0, i, IBV_WC_SUCCESS);
}

static void resize_cq__bad_values_EINVAL(void)
{
	struct ibv_cq *cq = new_cq(8, NULL);
	struct ibv_device_attr a;

	check_call(v->query_device(ctx, &a), 0);
	check_call(v->resize_cq(cq, 0), EINVAL);
	check_call(v->resize_cq(cq, a.max_cqe + 1), EINVAL);
}

/* ---- overrun ---------------------------------------------------------- */

/* Posts more requests than the queue has entries, and polls none. */
static void overrun(void)
{
	how.cqe = 8;
	how.cap.max_send_wr = 256;
	pair();
	check(end[0].scq->cqe < 200);
	writes(0, 200);
}

static void overrun__CQ_ERR(void)
{
	overrun();
	check(expect_event(IBV_EVENT_CQ_ERR).element.cq == end[0].scq);
}

static void overrun__QUEUE_PAIR_IN_ERROR(void)
{
	overrun();
	(void)expect_event(IBV_EVENT_CQ_ERR);
	check(expect_event(IBV_EVENT_QP_FATAL).element.qp == end[0].qp);
	check_state(end[0].qp, IBV_QPS_ERR);
	check_state(end[1].qp, IBV_QPS_RTS);
}

static void overrun__events_TOLD_ONCE(void)
{
	overrun();
	(void)expect_event(IBV_EVENT_CQ_ERR);
	(void)expect_event(IBV_EVENT_QP_FATAL);
	check(!readable(ctx->async_fd, 30));
}

static void overrun__what_had_room_IS_THERE(void)
{
	int room;

	overrun();
	(void)expect_event(IBV_EVENT_CQ_ERR);
	room = end[0].scq->cqe;
	for (int i = 0; i < room; i++)
		(void)sent(0, (uint64_t)i, IBV_WC_SUCCESS);
}

/* ---- notices ---------------------------------------------------------- */

static void notify__of_any_ONCE(void)
{
	pair_noticed();
	check_call(ibv_req_notify_cq(end[0].scq, 0), 0);
	writes(0, 3);
	noticed(end[0].scq);
	for (uint64_t i = 0; i < 3; i++)
		(void)sent(0, i, IBV_WC_SUCCESS);
	check(!readable(channel->fd, 20));
	check_call(ibv_req_notify_cq(end[0].scq, 0), 0);
	writes(3, 4);
	noticed(end[0].scq);
	(void)sent(0, 3, IBV_WC_SUCCESS);
}

static void notify__not_asked_for_NONE(void)
{
	pair_noticed();
	writes(0, 1);
	(void)sent(0, 0, IBV_WC_SUCCESS);
	check(!readable(channel->fd, 20));
}

static void notify__of_what_was_there_before_NONE(void)
{
	fill_queue(1);
	check_call(ibv_req_notify_cq(end[0].scq, 0), 0);
	check(!readable(channel->fd, 20));
	(void)sent(0, 0, IBV_WC_SUCCESS);
}

static void send_one(uint64_t id, unsigned int flags)
{
	struct request r = request(IBV_WR_SEND, id, 8);

	r.wr.send_flags |= flags;
	receive(1, id, 0, 8);
	post(0, &r);
	(void)sent(0, id, IBV_WC_SUCCESS);
}

static void arm(struct ibv_cq *cq, int solicited_only)
{
	check_call(ibv_req_notify_cq(cq, solicited_only), 0);
}

/* Completes n receives of end 1 without an event. */
static void received_unarmed(uint64_t n)
{
	pair_noticed();
	for (uint64_t i = 0; i < n; i++)
		send_one(i, 0);
	check(!readable(channel->fd, 20));
}

/* Arming alone raises the event, because no request is in flight. */
static void arm_tells(struct ibv_cq *cq, int solicited_only)
{
	arm(cq, solicited_only);
	check(readable(channel->fd, 5000));
	noticed(cq);
}

static void arm_is_quiet(struct ibv_cq *cq, int solicited_only)
{
	arm(cq, solicited_only);
	check(!readable(channel->fd, 20));
}

static void notify__of_what_came_unarmed_AT_ONCE(void)
{
	received_unarmed(3);
	arm_tells(end[1].rcq, 0);
	/* this event reports all three completions */
	arm_is_quiet(end[1].rcq, 0);
	for (uint64_t i = 0; i < 3; i++)
		(void)received(1, i, IBV_WC_SUCCESS);
}

/* A program that polls one completion and sleeps gets an event for the rest. */
static void notify__of_what_was_left_AT_ONCE(void)
{
	received_unarmed(3);
	for (uint64_t i = 0; i < 3; i++) {
		arm_tells(end[1].rcq, 0);
		(void)received(1, i, IBV_WC_SUCCESS);
	}
	arm_is_quiet(end[1].rcq, 0);
}

static void notify__solicited_only_NOT_FOR_OTHERS(void)
{
	pair_noticed();
	check_call(ibv_req_notify_cq(end[1].rcq, 1), 0);
	send_one(1, 0);
	check(!readable(channel->fd, 20));
	send_one(2, IBV_SEND_SOLICITED);
	noticed(end[1].rcq);
	(void)received(1, 1, IBV_WC_SUCCESS);
	(void)received(1, 2, IBV_WC_SUCCESS);
}

static void notify__solicited_only_of_what_came_unarmed_AT_ONCE(void)
{
	pair_noticed();
	send_one(1, 0);
	arm_is_quiet(end[1].rcq, 1);
	send_one(2, IBV_SEND_SOLICITED);
	noticed(end[1].rcq);
	send_one(3, IBV_SEND_SOLICITED);
	send_one(4, 0);
	arm_tells(end[1].rcq, 1);
	for (uint64_t i = 1; i < 4; i++)
		(void)received(1, i, IBV_WC_SUCCESS);
	/* the remaining completion is not solicited */
	arm_is_quiet(end[1].rcq, 1);
	arm_tells(end[1].rcq, 0);
	(void)received(1, 4, IBV_WC_SUCCESS);
}

static void notify__solicited_only_ERRORS_TOO(void)
{
	pair_noticed();
	receive(1, 1, 0, 8);
	check_call(ibv_req_notify_cq(end[1].rcq, 1), 0);
	enter(end[1].qp, IBV_QPS_ERR);
	(void)received(1, 1, IBV_WC_WR_FLUSH_ERR);
	/* nothing that could still raise the event is under way */
	check(readable(channel->fd, 5000));
	noticed(end[1].rcq);
}

/* ---- polled by calls -------------------------------------------------- */

static int undo_cq_ex(void *cq)
{
	return v->destroy_cq(ibv_cq_ex_to_cq(cq));
}

static void cq_ex__polled_by_calls_TELLS_ALL(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 64, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN |
		IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |
		IBV_WC_EX_WITH_SRC_QP,
	};
	struct ibv_poll_cq_attr poll = { .comp_mask = 0 };
	struct ibv_cq_ex *ex;
	struct ibv_qp *qp;
	struct request r;
	int ret;

	ends();
	ex = ibv_create_cq_ex(ctx, &attr);
	keep(ex, undo_cq_ex);
	qp = new_qp(IBV_QPT_RC, ibv_cq_ex_to_cq(ex), NULL);
	end[1].qp = qp;
	walk(end[0].qp, qp->qp_num);
	walk(qp, end[0].qp->qp_num);
	check_is(ibv_start_poll(ex, &poll), ENOENT);
	for (uint64_t i = 0; i < 3; i++) {
		receive(1, 10 + i, 0, 64);
		r = request(IBV_WR_SEND_WITH_IMM, i, (uint32_t)i + 1);
		post(0, &r);
		(void)sent(0, i, IBV_WC_SUCCESS);
	}
	check_is(ibv_start_poll(ex, &poll), 0);
	for (uint64_t i = 0; i < 3; i++) {
		check_is(ex->wr_id, 10 + i);
		check_is(ex->status, IBV_WC_SUCCESS);
		check_is(ibv_wc_read_opcode(ex), IBV_WC_RECV);
		check_is(ibv_wc_read_byte_len(ex), i + 1);
		check_is(be32toh(ibv_wc_read_imm_data(ex)), 0x12345678);
		check(ibv_wc_read_wc_flags(ex) & IBV_WC_WITH_IMM);
		check_is(ibv_wc_read_qp_num(ex), qp->qp_num);
		ret = ibv_next_poll(ex);
		check_is(ret, i < 2 ? 0 : ENOENT);
	}
	ibv_end_poll(ex);
}

/* Polls the first completion, and ends the poll with next(). */
static void poll_one(struct ibv_cq_ex *ex, uint64_t id, uint64_t *time)
{
	struct ibv_poll_cq_attr poll = { .comp_mask = 0 };

	check_is(ibv_start_poll(ex, &poll), 0);
	check_is(ex->wr_id, id);
	*time = ibv_wc_read_completion_ts(ex);
	ibv_end_poll(ex);
}

/* Two receives of a queue pair that has no peer, flushed at different times. */
static void cq_ex__time_stamps_WHEN_COMPLETED(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 64, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};
	struct ibv_values_ex now = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_device_attr_ex device;
	uint64_t mask, from, time[2];
	struct ibv_cq_ex *ex;

	check_call(ibv_query_device_ex(ctx, NULL, &device), 0);
	mask = device.completion_timestamp_mask;
	check(mask && device.hca_core_clock);
	check_call(ibv_query_rt_values_ex(ctx, &now), 0);
	from = (uint64_t)now.raw_clock.tv_nsec & mask;
	ex = ibv_create_cq_ex(ctx, &attr);
	check(ex);
	keep(ex, undo_cq_ex);
	for (uint64_t i = 0; i < 2; i++) {
		end[1].qp = new_qp(IBV_QPT_RC, ibv_cq_ex_to_cq(ex), NULL);
		step(end[1].qp, IBV_QPS_INIT, 0);
		check_is(ibv_post_recv(end[1].qp, &(struct ibv_recv_wr){
			.wr_id = i }, &(struct ibv_recv_wr *){ NULL }), 0);
		enter(end[1].qp, IBV_QPS_ERR);
	}
	/* resizing moves completions, and their times with them */
	check_call(v->resize_cq(ibv_cq_ex_to_cq(ex), 128), 0);
	poll_one(ex, 0, &time[0]);
	poll_one(ex, 1, &time[1]);
	check_call(ibv_query_rt_values_ex(ctx, &now), 0);
	check(time[0] - from < time[1] - from);
	check(time[1] - from <
	      ((uint64_t)now.raw_clock.tv_nsec & mask) - from);
}

/* VLANs, flow tags and tags for tag matching; what nobody knows is EINVAL. */
static void cq_ex__fields_it_lacks_REFUSED(void)
{
	uint64_t lacks = IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG |
			 IBV_WC_EX_WITH_TM_INFO;
	struct ibv_cq_init_attr_ex attr = { .cqe = 8 };
	struct ibv_device_attr_ex device;

	if (!ibv_query_device_ex(ctx, NULL, &device) &&
	    device.raw_packet_caps & IBV_RAW_PACKET_CAP_CVLAN_STRIPPING)
		lacks &= ~(uint64_t)IBV_WC_EX_WITH_CVLAN;
	for (uint64_t bit = 1; bit <= lacks; bit <<= 1) {
		attr.wc_flags = bit;
		if (lacks & bit)
			check_null(ibv_create_cq_ex(ctx, &attr), EOPNOTSUPP);
	}
	attr.wc_flags = 1ull << 40;
	errno = 0;
	check(!ibv_create_cq_ex(ctx, &attr) && errno);
}

const struct device_case cq_cases[] = {
	CASE(create_cq__bad_values_EINVAL),
	CASE(create_cq__AT_LEAST_AS_LARGE),
	CASE(resize_cq__KEEPS_WHAT_IS_THERE),
	CASE(resize_cq__smaller_than_what_is_there_EINVAL),
	CASE(resize_cq__bad_values_EINVAL),
	CASE(overrun__CQ_ERR),
	CASE(overrun__QUEUE_PAIR_IN_ERROR),
	CASE(overrun__events_TOLD_ONCE),
	CASE(overrun__what_had_room_IS_THERE),
	CASE(notify__of_any_ONCE),
	CASE(notify__not_asked_for_NONE),
	CASE(notify__of_what_was_there_before_NONE),
	CASE(notify__of_what_came_unarmed_AT_ONCE),
	CASE(notify__of_what_was_left_AT_ONCE),
	CASE(notify__solicited_only_NOT_FOR_OTHERS),
	CASE(notify__solicited_only_of_what_came_unarmed_AT_ONCE),
	CASE(notify__solicited_only_ERRORS_TOO),
	CASE(cq_ex__polled_by_calls_TELLS_ALL),
	CASE(cq_ex__time_stamps_WHEN_COMPLETED),
	CASE(cq_ex__fields_it_lacks_REFUSED),
	{ .name = NULL },
};
