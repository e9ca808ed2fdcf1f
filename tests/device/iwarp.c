/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of iWARP. On other devices, these cases check nothing. The
 * connection manager connects queue pairs, and disconnects both ends together.
 */
#include "device.h"

#define EVENT_MS	30000
/* private data: most that rdma_conn_param permits */
#define WHOLE		255

static struct rdma_event_channel *channel;
static struct rdma_cm_id *asks, *asked;
static struct rdma_conn_param answer;	/* as the asking side sees it */

struct told {
	struct rdma_cm_event event;
	uint8_t data[256];
};

static int undo_channel(void *ch)
{
	v->destroy_event_channel(ch);
	return 0;
}

static int undo_id(void *id)
{
	return v->destroy_id(id);
}

static struct told expect_cm(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct told told;

	check(readable(channel->fd, EVENT_MS));
	check_call(v->get_cm_event(channel, &event), 0);
	told.event = *event;
	if (event->param.conn.private_data_len)
		memcpy(told.data, event->param.conn.private_data,
		       event->param.conn.private_data_len);
	check_call(v->ack_cm_event(event), 0);
	if (told.event.event != type)
		fail(__FILE__, __LINE__, "%s, not %s",
		     rdma_event_str(told.event.event), rdma_event_str(type));
	return told;
}

static struct rdma_cm_id *new_id(void)
{
	struct rdma_cm_id *id;

	check_call(v->create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	keep(id, undo_id);
	return id;
}

static void iwarp__device_IS_ONE(void)
{
	if (!is_iwarp())
		skip_rest("the device is not of iWARP");
}

/* On iWARP, rdma_init_qp_attr() gives access flags and no path. */
static void init(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT };
	int mask;

	check_call(v->init_qp_attr(id, &a, &mask), 0);
	check_is(mask, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT);
	a.qp_access_flags = how.qp_access;
	check_call(v->modify_qp(qp, &a, mask), 0);
	check_state(qp, IBV_QPS_INIT);
}

/* Connects as far as the request, which carries the data. */
static void ask(const char *data, uint8_t len)
{
	struct sockaddr_in at = own_address(0);
	struct rdma_conn_param p = {
		.responder_resources = 3, .initiator_depth = 2,
		.private_data = data, .private_data_len = len,
	};
	struct rdma_cm_id *l;
	struct told told;

	ends();
	channel = v->create_event_channel();
	keep(channel, undo_channel);
	l = new_id();
	check_call(v->bind_addr(l, (struct sockaddr *)&at), 0);
	check_call(v->listen(l, 4), 0);
	at.sin_port = v->get_src_port(l);
	asks = new_id();
	check_call(v->resolve_addr(asks, NULL, (struct sockaddr *)&at, 2000),
		   0);
	(void)expect_cm(RDMA_CM_EVENT_ADDR_RESOLVED);
	check_call(v->resolve_route(asks, 2000), 0);
	(void)expect_cm(RDMA_CM_EVENT_ROUTE_RESOLVED);
	init(asks, end[0].qp);
	p.qp_num = end[0].qp->qp_num;
	check_call(v->connect(asks, &p), 0);
	told = expect_cm(RDMA_CM_EVENT_CONNECT_REQUEST);
	asked = told.event.id;
	keep(asked, undo_id);
	check_is(told.event.param.conn.private_data_len, len);
	check(!memcmp(told.data, data, len));
	check_is(told.event.param.conn.responder_resources, 2);
	check_is(told.event.param.conn.initiator_depth, 3);
	check_is(told.event.param.conn.qp_num, 0);
}

static void connect_them(void)
{
	struct rdma_conn_param p = {
		.responder_resources = 2, .initiator_depth = 3,
		.private_data = "yes", .private_data_len = 3,
	};
	struct told told;

	ask("please", 6);
	init(asked, end[1].qp);
	p.qp_num = end[1].qp->qp_num;
	check_call(v->accept(asked, &p), 0);
	for (int i = 0; i < 2; i++) {
		told = expect_cm(RDMA_CM_EVENT_ESTABLISHED);
		if (told.event.id == asked)
			continue;
		check(told.event.id == asks);
		check_is(told.event.param.conn.private_data_len, 3);
		check(!memcmp(told.data, "yes", 3));
		answer = told.event.param.conn;
	}
}

static void both_disconnected(void)
{
	(void)expect_cm(RDMA_CM_EVENT_DISCONNECTED);
	(void)expect_cm(RDMA_CM_EVENT_DISCONNECTED);
	check_state(end[0].qp, IBV_QPS_ERR);
	check_state(end[1].qp, IBV_QPS_ERR);
}

static void iwarp_attr__RNIC_WITHOUT_THE_REST(void)
{
	static const uint8_t zeros[10];
	struct ibv_device_attr a;

	check_is(ctx->device->node_type, IBV_NODE_RNIC);
	check_call(v->query_device(ctx, &a), 0);
	check_is(a.atomic_cap, IBV_ATOMIC_NONE);
	check_is(a.max_sge_rd, 1);
	check_is(a.max_mcast_grp, 0);
	check_is(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	check_is(port.gid_tbl_len, 1);
	/* the GID is a MAC address */
	check(gid.raw[5] && !memcmp(gid.raw + 6, zeros, sizeof(zeros)));
}

static void iwarp_connect__ESTABLISHED_AND_NO_RESPONSE(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };
	struct request r;
	int mask = -1;

	connect_them();
	check_state(end[0].qp, IBV_QPS_RTS);
	check_state(end[1].qp, IBV_QPS_RTS);
	check_call(v->init_qp_attr(asks, &a, &mask), 0);
	check(!(mask & IBV_QP_STATE));
	receive(1, 2, 0, 8);
	fill(0, 1);
	r = request(IBV_WR_SEND, 1, 8);
	post(0, &r);
	(void)received(1, 2, IBV_WC_SUCCESS);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	same(8);
}

static void iwarp_connect__reads_of_the_answer_AS_THE_PEER_GAVE_THEM(void)
{
	connect_them();
	check_is(answer.responder_resources, 3);
	check_is(answer.initiator_depth, 2);
}

static void iwarp_connect__most_private_data_ITS_LENGTH(void)
{
	char data[WHOLE];

	memset(data, 'x', sizeof(data));
	ask(data, sizeof(data));
	check_call(v->reject(asked, data, sizeof(data)), 0);
	check_is(expect_cm(RDMA_CM_EVENT_REJECTED).event
		 .param.conn.private_data_len, WHOLE);
}

static void iwarp_connect__rejected_ECONNREFUSED(void)
{
	struct told told;

	ask("please", 6);
	check_call(v->reject(asked, "no", 2), 0);
	told = expect_cm(RDMA_CM_EVENT_REJECTED);
	check(told.event.id == asks);
	check_is(told.event.status, -ECONNREFUSED);
	check_is(told.event.param.conn.private_data_len, 2);
}

static void iwarp_connect__rejected_FLUSHES(void)
{
	ask("please", 6);
	receive(0, 2, 0, 8);
	check_call(v->reject(asked, "no", 2), 0);
	check_is(expect_cm(RDMA_CM_EVENT_REJECTED).event
		 .param.conn.private_data_len, 2);
	(void)received(0, 2, IBV_WC_WR_FLUSH_ERR);
	check_state(end[0].qp, IBV_QPS_ERR);
}

static void iwarp_connect__no_such_queue_pair_EINVAL(void)
{
	struct rdma_conn_param p = { .qp_num = 0 };

	ask("please", 6);
	p.qp_num = end[1].qp->qp_num ^ 0x1000;
	check_call(v->accept(asked, &p), EINVAL);
}

static void iwarp_modify__to_rts_by_hand_EINVAL(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };

	ends();
	step(end[0].qp, IBV_QPS_INIT, 0);
	check_call(v->modify_qp(end[0].qp, &a, IBV_QP_STATE), EINVAL);
}

/* The asked side sends, and the asking side has sent nothing. */
static void asked_side_sends(void)
{
	struct request r = request(IBV_WR_SEND, 1, 8);

	r.sge[0].addr = (uintptr_t)end[1].mem;
	r.sge[0].lkey = end[1].mr->lkey;
	fill(1, 1);
	post(1, &r);
	(void)received(0, 2, IBV_WC_SUCCESS);
	(void)sent(1, 1, IBV_WC_SUCCESS);
	check(!memcmp(end[0].mem, end[1].mem, 8));
}

static void iwarp_send__asked_side_first_ARRIVES(void)
{
	connect_them();
	receive(0, 2, 0, 8);
	asked_side_sends();
}

/* The request is posted before the asking side knows that it is accepted. */
static void iwarp_send__with_the_answer_ARRIVES(void)
{
	struct rdma_conn_param p = { .private_data_len = 0 };

	ask("please", 6);
	receive(0, 2, 0, 8);
	init(asked, end[1].qp);
	p.qp_num = end[1].qp->qp_num;
	check_call(v->accept(asked, &p), 0);
	asked_side_sends();
}

/* Returns the completion of a Send that finds no receive. */
static struct ibv_wc sent_to_none(void)
{
	struct request r;

	connect_them();
	r = request(IBV_WR_SEND, 1, 8);
	post(0, &r);
	return next_wc(end[0].scq);
}

static void iwarp_send__no_receive_REM_INV_REQ_ERR(void)
{
	struct ibv_wc wc;

	wc = sent_to_none();
	wc_is(__FILE__, __LINE__, &wc, 1, IBV_WC_REM_INV_REQ_ERR);
}

static void iwarp_send__no_receive_ENDS_THE_CONNECTION(void)
{
	check_is(sent_to_none().wr_id, 1);
	both_disconnected();
}

/*
 * The requester may learn of a refused Write only by the end of the connection.
 * The memory stays as it was.
 */
static void write_refused(uint64_t addr, uint32_t rkey)
{
	struct request r = request(IBV_WR_RDMA_WRITE, 1, 8);

	fill(0, 1);
	aim(&r, addr, rkey);
	receive(1, 2, 0, 64);
	post(0, &r);
	check_is(next_wc(end[0].scq).wr_id, 1);
	(void)received(1, 2, IBV_WC_WR_FLUSH_ERR);
	both_disconnected();
	for (uint32_t i = 0; i < MEM; i++)
		check(!end[1].mem[i]);
	quiet();
}

/* Returns the address of a part of the memory of end 1. */
static uint64_t part(void)
{
	return (uintptr_t)end[1].mem + 4096;
}

static struct ibv_mr *part_mr(int access)
{
	return new_mr(pd, end[1].mem + 4096, 64, IBV_ACCESS_LOCAL_WRITE |
		      access);
}

static void iwarp_write__wrong_key_ENDS_BOTH(void)
{
	connect_them();
	write_refused(part(), end[1].mr->rkey ^ 0xff00);
}

static void iwarp_write__deregistered_ENDS_BOTH(void)
{
	struct ibv_mr *mr;
	uint32_t rkey;

	connect_them();
	mr = part_mr(REMOTE);
	rkey = mr->rkey;
	drop(mr);
	write_refused(part(), rkey);
}

static void iwarp_write__one_byte_beyond_ENDS_BOTH(void)
{
	connect_them();
	write_refused(part() + 57, part_mr(REMOTE)->rkey);
}

static void iwarp_write__one_byte_before_ENDS_BOTH(void)
{
	connect_them();
	write_refused(part() - 1, part_mr(REMOTE)->rkey);
}

static void iwarp_write__address_that_wraps_ENDS_BOTH(void)
{
	connect_them();
	write_refused(UINT64_MAX - 3, part_mr(REMOTE)->rkey);
}

static void iwarp_write__another_domain_ENDS_BOTH(void)
{
	struct ibv_mr *mr;

	connect_them();
	mr = new_mr(new_pd(), end[1].mem, MEM, IBV_ACCESS_LOCAL_WRITE | REMOTE);
	write_refused(part(), mr->rkey);
}

static void iwarp_write__where_one_may_read_ENDS_BOTH(void)
{
	connect_them();
	write_refused(part(), part_mr(IBV_ACCESS_REMOTE_READ)->rkey);
}

static void iwarp_read__into_what_is_not_written_remotely_LOC_ACCESS_ERR(void)
{
	struct request r;
	struct ibv_mr *mr;

	connect_them();
	mr = new_mr(pd, end[0].mem, 4096, IBV_ACCESS_LOCAL_WRITE);
	fill(1, 3);
	r = request(IBV_WR_RDMA_READ, 1, 64);
	post(0, &r);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	check(!memcmp(end[0].mem, end[1].mem, 64));
	clear(0);
	r.wr.wr_id = 2;
	r.sge[0].lkey = mr->lkey;
	post(0, &r);
	(void)sent(0, 2, IBV_WC_LOC_ACCESS_ERR);
	check(!end[0].mem[1]);
	both_disconnected();
}

static void iwarp_disconnect__what_was_sent_ARRIVES_FIRST(void)
{
	struct request r;

	connect_them();
	fill(0, 1);
	receive(1, 20, 0, 4096);
	receive(1, 21, 0, 4096);
	r = request(IBV_WR_SEND, 1, 4096);
	post(0, &r);
	(void)sent(0, 1, IBV_WC_SUCCESS);
	check_call(v->disconnect(asks), 0);
	(void)received(1, 20, IBV_WC_SUCCESS);
	(void)received(1, 21, IBV_WC_WR_FLUSH_ERR);
	both_disconnected();
	check_call(v->disconnect(asked), 0);
	same(4096);
}

/* rdma_disconnect() of librdmacm sets SQD first, as if it were the first. */
static void iwarp_disconnect__after_the_peer_NO_ERROR(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD };

	connect_them();
	check_call(v->disconnect(asks), 0);
	both_disconnected();
	check_call(v->modify_qp(end[1].qp, &a, IBV_QP_STATE), 0);
	check_call(v->disconnect(asked), 0);
	check_state(end[1].qp, IBV_QPS_ERR);
}

static void iwarp_error__of_one_side_ENDS_BOTH(void)
{
	connect_them();
	receive(1, 2, 0, 8);
	enter(end[0].qp, IBV_QPS_ERR);
	(void)received(1, 2, IBV_WC_WR_FLUSH_ERR);
	both_disconnected();
}

static void iwarp_destroy_id__ENDS_BOTH(void)
{
	connect_them();
	receive(0, 2, 0, 8);
	drop(asked);
	(void)received(0, 2, IBV_WC_WR_FLUSH_ERR);
	check(expect_cm(RDMA_CM_EVENT_DISCONNECTED).event.id == asks);
	check_state(end[1].qp, IBV_QPS_ERR);
}

const struct device_case iwarp_cases[] = {
	GATE(iwarp__device_IS_ONE),
	CASE(iwarp_attr__RNIC_WITHOUT_THE_REST),
	CASE(iwarp_connect__ESTABLISHED_AND_NO_RESPONSE),
	CASE(iwarp_connect__reads_of_the_answer_AS_THE_PEER_GAVE_THEM),
	CASE(iwarp_connect__most_private_data_ITS_LENGTH),
	CASE(iwarp_connect__rejected_ECONNREFUSED),
	CASE(iwarp_connect__rejected_FLUSHES),
	CASE(iwarp_connect__no_such_queue_pair_EINVAL),
	CASE(iwarp_modify__to_rts_by_hand_EINVAL),
	CASE(iwarp_send__asked_side_first_ARRIVES),
	CASE(iwarp_send__with_the_answer_ARRIVES),
	CASE(iwarp_send__no_receive_REM_INV_REQ_ERR),
	CASE(iwarp_send__no_receive_ENDS_THE_CONNECTION),
	CASE(iwarp_write__wrong_key_ENDS_BOTH),
	CASE(iwarp_write__deregistered_ENDS_BOTH),
	CASE(iwarp_write__one_byte_beyond_ENDS_BOTH),
	CASE(iwarp_write__one_byte_before_ENDS_BOTH),
	CASE(iwarp_write__address_that_wraps_ENDS_BOTH),
	CASE(iwarp_write__another_domain_ENDS_BOTH),
	CASE(iwarp_write__where_one_may_read_ENDS_BOTH),
	CASE(iwarp_read__into_what_is_not_written_remotely_LOC_ACCESS_ERR),
	CASE(iwarp_disconnect__what_was_sent_ARRIVES_FIRST),
	CASE(iwarp_disconnect__after_the_peer_NO_ERROR),
	CASE(iwarp_error__of_one_side_ENDS_BOTH),
	CASE(iwarp_destroy_id__ENDS_BOTH),
	{ .name = NULL },
};
