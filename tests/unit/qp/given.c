/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: what the program asks for reaches the queue pair: the path of an
 * endpoint without the CM, the options of a queue pair of the program, and the
 * domain of XRC.
 */
#include "config.h"

#include "base/util.h"
#include "chain/channel.h"
#include "device/cross.h"
#include "device/device.h"
#include "device/verbs_api.h"
#include "device/verbs_call.h"
#include "qp/rawqp.h"
#include "session/ep.h"
#include "../../tuning.h"
#include "../../verbs_of.h"
#include "../own_fabric.h"
#include "../until.h"

#include <endian.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define SIZE	64

/* A step of a queue pair, as the device was asked for it. */
struct step {
	uint32_t qp_num;
	struct ibv_qp_attr attr;
	int mask;
};

static struct rdmamsg *ctx;
static struct verbs_api table;	/* the soft HCA's calls, four replaced */
static struct step steps[16];
static unsigned int step_count;
static struct ibv_qp_init_attr_ex made;	/* of the last create_qp_ex() */

/* P_Keys of the port, of which the soft HCA has one */
static const uint16_t pkeys[] = { 0xffff, 0x0001, 0x8001, 0x8002 };

static int query_port(struct ibv_context *verbs, uint8_t port,
		      struct ibv_port_attr *attr)
{
	int ret = rdmamsg__verbs_soft.query_port(verbs, port, attr);

	attr->pkey_tbl_len = sizeof(pkeys) / sizeof(pkeys[0]);
	return ret;
}

static int query_pkey(struct ibv_context *verbs, uint8_t port, int index,
		      __be16 *pkey)
{
	(void)verbs;
	(void)port;
	*pkey = htobe16(pkeys[index]);
	return 0;
}

static int note_step(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr soft = *attr;

	if (step_count < sizeof(steps) / sizeof(steps[0]))
		steps[step_count++] = (struct step){ qp->qp_num, *attr, mask };
	soft.pkey_index = 0;
	return rdmamsg__verbs_soft.modify_qp(qp, &soft, mask);
}

static struct ibv_qp *note_qp(struct ibv_context *verbs,
			      struct ibv_qp_init_attr_ex *attr)
{
	made = *attr;
	return rdmamsg__verbs_soft.create_qp_ex(verbs, attr);
}

static int set_up(void **state)
{
	step_count = 0;
	memset(&made, 0, sizeof(made));
	table = rdmamsg__verbs_soft;
	table.modify_qp = note_step;
	table.create_qp_ex = note_qp;
	table.query_port = query_port;
	table.query_pkey = query_pkey;
	rdmamsg__verbs = &table;
	return rdmamsg_open(&ctx, NULL);
}

static int tear_down(void **state)
{
	rdmamsg_close(ctx);
	return 0;
}

/* The attributes of the step, which has set each bit of 'mask'. */
static const struct ibv_qp_attr *step(uint32_t qp_num, enum ibv_qp_state to,
				      int mask)
{
	for (unsigned int i = 0; i < step_count; i++) {
		const struct step *s = &steps[i];

		if (s->qp_num != qp_num || s->attr.qp_state != to)
			continue;
		assert_int_equal(s->mask & mask, mask);
		return &s->attr;
	}
	fail_msg("queue pair 0x%x was not set to state %d", qp_num, to);
	return NULL;
}

/* ---- the path of an endpoint ------------------------------------------- */

/* Connects two endpoints of the context without the CM. */
static void connect_both(const struct rdmamsg_ep_options *offers,
			 const struct rdmamsg_ep_options *answers,
			 struct rdmamsg_ep *ret[2])
{
	uint8_t record[RDMAMSG_OOB_MAX];
	int len;

	if (rdmamsg_oob_offer(ctx, offers, &ret[0]))
		fail_msg("rdmamsg_oob_offer: %s", rdmamsg_error());
	len = rdmamsg_oob_record(ret[0], record, sizeof(record));
	assert_true(len > 0);
	if (rdmamsg_oob_answer(ctx, record, (size_t)len, answers, &ret[1]))
		fail_msg("rdmamsg_oob_answer: %s", rdmamsg_error());
	len = rdmamsg_oob_record(ret[1], record, sizeof(record));
	assert_true(len > 0);
	assert_int_equal(rdmamsg_oob_finish(ret[0], record, (size_t)len), 0);
}

static void path__of_an_endpoint_REACHES_ITS_QUEUE_PAIR(void **state)
{
	/* the second GID of the soft HCA is ::1 */
	const struct rdmamsg_path path[2] = {
		{ .size = sizeof(path[0]), .port = 1, .gid_index = 1,
		  .pkey = 0x7fff, .hop_limit = 3, .traffic_class = 96,
		  .flow_label = 5, .service_level = 4, .src_path_bits = 2,
		  .mtu = 512, .psn = RDMAMSG_NONE },
		{ .size = sizeof(path[1]), .gid_index = 1, .mtu = 256,
		  .psn = 0xffffff },
	};
	const struct rdmamsg_ep_options o[2] = {
		{
			.size = sizeof(o[0]), .device = "soft0",
			.path = &path[0],
			.tuning = TUNING(.tos = 32, .ack_timeout = 14,
					 .rnr_retry_count = 3),
		},
		{
			.size = sizeof(o[1]), .device = "soft0",
			.path = &path[1], .tuning = TUNING(.tos = 32),
		},
	};
	static const uint8_t loopback[16] = { [15] = 1 };
	const struct ibv_qp_attr *a;
	struct rdmamsg_ep *ep[2];
	uint32_t num[2];

	connect_both(&o[0], &o[1], ep);
	for (int i = 0; i < 2; i++)
		num[i] = ep[i]->lane.hot.qp->qp_num;

	a = step(num[0], IBV_QPS_INIT, IBV_QP_PORT | IBV_QP_PKEY_INDEX);
	assert_int_equal(a->port_num, 1);
	assert_int_equal(a->pkey_index, 0);
	a = step(num[0], IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU |
		 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
	assert_int_equal(a->ah_attr.port_num, 1);
	assert_int_equal(a->ah_attr.is_global, 1);
	assert_int_equal(a->ah_attr.sl, 4);
	assert_int_equal(a->ah_attr.src_path_bits, 2);
	assert_int_equal(a->ah_attr.grh.sgid_index, 1);
	assert_memory_equal(a->ah_attr.grh.dgid.raw, loopback, 16);
	assert_int_equal(a->ah_attr.grh.hop_limit, 3);
	assert_int_equal(a->ah_attr.grh.traffic_class, 96);
	assert_int_equal(a->ah_attr.grh.flow_label, 5);
	assert_int_equal(a->path_mtu, IBV_MTU_256);
	assert_int_equal(a->dest_qp_num, num[1]);
	assert_int_equal(a->rq_psn, 0xffffff);
	a = step(num[0], IBV_QPS_RTS, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
		 IBV_QP_RNR_RETRY);
	assert_int_equal(a->sq_psn, 0);
	assert_int_equal(a->timeout, 14);
	assert_int_equal(a->rnr_retry, 3);

	/* what the other side has not given is as it would be by default */
	a = step(num[1], IBV_QPS_RTR, IBV_QP_AV | IBV_QP_RQ_PSN);
	assert_int_equal(a->ah_attr.sl, 0);
	assert_int_equal(a->ah_attr.src_path_bits, 0);
	assert_int_equal(a->ah_attr.grh.hop_limit, 64);
	assert_int_equal(a->ah_attr.grh.traffic_class, 32);
	assert_int_equal(a->ah_attr.grh.flow_label, 0);
	assert_int_equal(a->path_mtu, IBV_MTU_256);
	assert_int_equal(a->rq_psn, 0);
	a = step(num[1], IBV_QPS_RTS, IBV_QP_SQ_PSN);
	assert_int_equal(a->sq_psn, 0xffffff);
	rdmamsg_ep_abort(ep[0]);
	rdmamsg_ep_abort(ep[1]);
}

/* The chance that all are equal is less than 2^-70. */
static void psn__of_each_queue_pair_IS_RANDOM(void **state)
{
	const struct rdmamsg_ep_options o = {
		.size = sizeof(o), .device = "soft0",
	};
	struct rdmamsg_ep *ep[2];
	uint32_t psn[4];

	for (int i = 0; i < 4; i += 2) {
		connect_both(&o, &o, ep);
		for (int j = 0; j < 2; j++) {
			psn[i + j] = step(ep[j]->lane.hot.qp->qp_num,
					  IBV_QPS_RTS, IBV_QP_SQ_PSN)->sq_psn;
			rdmamsg_ep_abort(ep[j]);
		}
	}
	assert_true(psn[0] != psn[1] || psn[0] != psn[2] || psn[0] != psn[3]);
	for (int i = 0; i < 4; i++)
		assert_true(psn[i] < 1u << 24);
}

static void traffic_class__none_IS_0(void **state)
{
	const struct rdmamsg_path path = {
		.size = sizeof(path), .traffic_class = RDMAMSG_NONE,
	};
	const struct rdmamsg_ep_options o = {
		.size = sizeof(o), .device = "soft0", .path = &path,
		.tuning = TUNING(.tos = 32),
	};
	struct rdmamsg_ep *ep[2];

	connect_both(&o, &o, ep);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(step(ep[i]->lane.hot.qp->qp_num, IBV_QPS_RTR,
				      IBV_QP_AV)->ah_attr.grh.traffic_class, 0);
		rdmamsg_ep_abort(ep[i]);
	}
}

/* Each side has its own table, and its own place of the partition in it. */
static void partition__by_value_or_index_REACHES_THE_QUEUE_PAIR(void **state)
{
	static const struct {
		uint32_t pkey, pkey_index;
		uint16_t want;
	} ways[] = {
		{ 0, 0, 0 }, { 0x7fff, 0, 0 },
		/* full membership before limited */
		{ 0x0001, 0, 2 }, { 0x8001, 0, 2 },
		{ 0, 1, 1 }, { 0, 2, 2 }, { 0x8002, 0, 3 }, { 0, 3, 3 },
	};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		const struct rdmamsg_path path[2] = {
			{ .size = sizeof(path[0]), .pkey = ways[i].pkey,
			  .pkey_index = ways[i].pkey_index },
			{ .size = sizeof(path[1]),
			  .pkey = pkeys[ways[i].want] | 0x8000 },
		};
		const struct rdmamsg_ep_options o[2] = {
			{ .size = sizeof(o[0]), .device = "soft0",
			  .path = &path[0] },
			{ .size = sizeof(o[1]), .device = "soft0",
			  .path = &path[1] },
		};
		struct rdmamsg_ep *ep[2];

		step_count = 0;
		connect_both(&o[0], &o[1], ep);
		assert_int_equal(step(ep[0]->lane.hot.qp->qp_num, IBV_QPS_INIT,
				      IBV_QP_PKEY_INDEX)->pkey_index,
				 ways[i].want);
		rdmamsg_ep_abort(ep[0]);
		rdmamsg_ep_abort(ep[1]);
	}
}

/* ---- queue pairs of the program ---------------------------------------- */

static struct rdmamsg_qp *make(const struct rdmamsg_qp_options *o)
{
	struct rdmamsg_qp *q;

	if (rdmamsg_qp_create(ctx, o, &q))
		fail_msg("rdmamsg_qp_create: %s", rdmamsg_error());
	return q;
}

static int introduce(struct rdmamsg_qp *q, const struct rdmamsg_qp *to)
{
	uint8_t record[RDMAMSG_OOB_MAX];
	int len = rdmamsg_qp_record(to, record, sizeof(record));

	assert_true(len > 0);
	return rdmamsg_qp_connect(q, record, (size_t)len);
}

static struct rdmamsg_qp_attr queried(const struct rdmamsg_qp *q)
{
	struct rdmamsg_qp_attr a = { .size = sizeof(a) };

	assert_int_equal(rdmamsg_qp_query(q, &a), 0);
	return a;
}

static void options__of_a_queue_pair_REACH_IT(void **state)
{
	const struct rdmamsg_path small = {
		.size = sizeof(small), .mtu = 512, .service_level = 3,
	};
	const struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = "soft0", .ack_timeout = 9,
		.retry_count = 5, .rnr_retry_count = 2, .min_rnr_timer = 4,
		.responder_resources = 3, .initiator_depth = 6,
		.access = IBV_ACCESS_REMOTE_READ,
	}, other = {
		.size = sizeof(other), .device = "soft0", .path = &small,
		.responder_resources = 4, .initiator_depth = 5,
	};
	struct rdmamsg_qp *q[2] = { make(&o), make(&other) };
	uint32_t num = queried(q[0]).qp_num;
	const struct ibv_qp_attr *a;

	assert_int_equal(introduce(q[0], q[1]), 0);
	assert_int_equal(introduce(q[1], q[0]), 0);
	a = step(num, IBV_QPS_INIT, IBV_QP_ACCESS_FLAGS);
	assert_int_equal(a->qp_access_flags, IBV_ACCESS_REMOTE_READ);
	a = step(num, IBV_QPS_RTR, IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_MAX_DEST_RD_ATOMIC);
	assert_int_equal(a->path_mtu, IBV_MTU_512);
	assert_int_equal(a->min_rnr_timer, 4);
	assert_int_equal(a->max_dest_rd_atomic, 3);	/* of 5 */
	a = step(num, IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	assert_int_equal(a->timeout, 9);
	assert_int_equal(a->retry_cnt, 5);
	assert_int_equal(a->rnr_retry, 2);
	assert_int_equal(a->max_rd_atomic, 4);		/* of 6 */
	a = step(queried(q[1]).qp_num, IBV_QPS_RTR, IBV_QP_AV);
	assert_int_equal(a->ah_attr.sl, 3);
	assert_int_equal(queried(q[0]).mtu, 512);
	assert_int_equal(queried(q[1]).mtu, 512);
}

/* Only some devices and links have another source number. */
static void qkey__of_a_datagram_REACHES_ITS_QUEUE_PAIR(void **state)
{
	const struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = "soft0", .type = IBV_QPT_UD,
		.qkey = 0x2345,
	};
	const uint32_t num = queried(make(&o)).qp_num;

	assert_int_equal(step(num, IBV_QPS_INIT, IBV_QP_QKEY)->qkey, 0x2345);
}

static void source__number_REACHES_THE_DEVICE(void **state)
{
	const struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = "soft0", .type = IBV_QPT_UD,
		.create_flags = IBV_QP_CREATE_SOURCE_QPN, .source_qpn = 0x1234,
	};
	struct rdmamsg_qp *q;

	if (!rdmamsg_qp_create(ctx, &o, &q))
		rdmamsg_qp_destroy(q);
	assert_int_equal(made.create_flags, IBV_QP_CREATE_SOURCE_QPN);
	assert_int_equal(made.source_qpn, 0x1234);
}

static void signal_all__without_a_flag_COMPLETES(void **state)
{
	struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = "soft0",
		.flags = RDMAMSG_QP_SIGNAL_ALL,
	};
	struct rdmamsg_qp *q[2] = { make(&o), make(&o) };
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
	struct ibv_send_wr send = { .wr_id = 2, .opcode = IBV_WR_SEND }, *bad;
	struct ibv_wc wc;

	assert_int_equal(introduce(q[0], q[1]), 0);
	assert_int_equal(introduce(q[1], q[0]), 0);
	assert_int_equal(ibv_post_recv(verbs_of(q[1]).qp, &recv, &bad_recv),
			 0);
	assert_int_equal(ibv_post_send(verbs_of(q[0]).qp, &send, &bad), 0);
	UNTIL_BY((void)sched_yield(),
		 ibv_poll_cq(verbs_of(q[0]).send_cq, 1, &wc) == 1);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void connect__refused_THE_PEER_IS_NOT_NAMED(void **state)
{
	const struct rdmamsg_path six = {
		.size = sizeof(six), .gid_index = 1,
	};
	const struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = "soft0",
	}, other = {
		.size = sizeof(other), .device = "soft0", .path = &six,
	};
	struct rdmamsg_qp *q = make(&o), *to = make(&other);

	assert_int_equal(introduce(q, to), -EHOSTUNREACH);
	assert_int_equal(queried(q).peer_qp_num, 0);
	assert_int_equal(queried(q).mtu, 0);
}

static void srq__of_another_domain_EPERM(void **state)
{
	struct rdmamsg_qp_options o = { .size = sizeof(o), .device = "soft0" };
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = 4, .max_sge = 1 },
	};
	struct ibv_qp *first = verbs_of(make(&o)).qp;
	struct ibv_pd *pd = rdmamsg__verbs_soft.alloc_pd(first->context);
	struct rdmamsg_qp *q;

	assert_non_null(pd);
	o.srq = rdmamsg__verbs_soft.create_srq(pd, &attr);
	assert_non_null(o.srq);
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &q), -EPERM);
	assert_non_null(strstr(rdmamsg_error(), "another protection domain"));
	assert_int_equal(rdmamsg__verbs_soft.destroy_srq(o.srq), 0);
	assert_int_equal(rdmamsg__verbs_soft.dealloc_pd(pd), 0);
}

/* ---- requests that wait ------------------------------------------------ */

/* A request elsewhere waits for a receive, by the number of its queue. */
static void cross__number_of_a_queue_A_REQUEST_WAITS_FOR_IT(void **state)
{
	const struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = "soft0",
		.flags = RDMAMSG_QP_TWO_CQS | RDMAMSG_QP_CROSS_CHANNEL,
	};
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad;
	struct rdmamsg_qp *q[2];
	const struct dev *dev;
	struct cross waits;
	struct ibv_cq *cq;
	struct ibv_wc wc;

#ifndef HAVE_MLX5DV
	skip();
#endif
	q[0] = make(&o);
	q[1] = make(&o);
	dev = q[0]->dev;
	assert_int_equal(introduce(q[0], q[1]), 0);
	assert_int_equal(introduce(q[1], q[0]), 0);
	assert_int_equal(rdmamsg__v_create_cq(&table, dev->device->verbs, 4,
					      NULL, NULL, 0, &cq), 0);
	assert_int_equal(rdmamsg__channel_circle(dev, cq, 4, &waits), 0);
	for (uint32_t i = 1; i <= 2; i++) {
		rdmamsg__cross_begin(&waits, i);
		rdmamsg__cross_wait(&waits, true,
				    queried(q[1]).recv_cq_number, i);
		assert_int_equal(rdmamsg__cross_end(&waits), 0);
	}
	for (uint32_t i = 1; i <= 2; i++) {
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
		assert_int_equal(ibv_post_recv(verbs_of(q[1]).qp, &recv,
					       &bad_recv), 0);
		assert_int_equal(ibv_post_send(verbs_of(q[0]).qp, &send,
					       &bad), 0);
		UNTIL_BY((void)sched_yield(), ibv_poll_cq(cq, 1, &wc) == 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, i);
	}
	rdmamsg__cross_close(dev->device, &waits);
	rdmamsg__channel_drop(dev, cq);
}

/* ---- loopback of groups ------------------------------------------------ */

#define GRH	40u
#define QKEY	0x11111111u

static union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 77, 3, 4 } };

/* Sends one datagram to the group. */
static void send_to_group(struct rdmamsg_qp *q, struct ibv_ah *ah)
{
	struct ibv_send_wr wr = {
		.wr_id = 2, .opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED, .wr.ud = {
			.ah = ah, .remote_qpn = 0xffffff, .remote_qkey = QKEY,
		},
	}, *bad;
	struct ibv_wc wc;

	assert_int_equal(ibv_post_send(verbs_of(q).qp, &wr, &bad), 0);
	UNTIL_BY((void)sched_yield(),
		 ibv_poll_cq(verbs_of(q).send_cq, 1, &wc) == 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* Returns the number of the queue pair that sent the next datagram. */
static uint32_t received_from(struct rdmamsg_qp *q)
{
	struct ibv_wc wc;

	UNTIL_BY((void)sched_yield(),
		 ibv_poll_cq(verbs_of(q).recv_cq, 1, &wc) == 1);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	return wc.src_qp;
}

/* A member of the group, with two receives that share a header. */
static struct rdmamsg_qp *member(uint32_t create_flags, uint8_t *grh,
				 struct ibv_mr **mr)
{
	const struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = "soft0", .type = IBV_QPT_UD,
		.max_send = 4, .max_recv = 4, .flags = RDMAMSG_QP_TWO_CQS,
		.create_flags = create_flags,
	};
	struct rdmamsg_qp *q = make(&o);
	struct ibv_sge sge = { (uintptr_t)grh, GRH, 0 };
	struct ibv_recv_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1,
	}, *bad;

	assert_int_equal(rdmamsg_qp_register(q, grh, GRH,
					     IBV_ACCESS_LOCAL_WRITE, mr), 0);
	sge.lkey = (*mr)->lkey;
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_post_recv(verbs_of(q).qp, &wr, &bad),
				 0);
	assert_int_equal(rdmamsg__verbs_soft.attach_mcast(verbs_of(q).qp,
							  &group, 0), 0);
	return q;
}

/* The datagram of the sender itself, if any, comes before that of the other. */
static void first_received_from(uint32_t create_flags, int want)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = { .dgid = group },
	};
	static uint8_t grh[2][GRH];
	struct rdmamsg_qp *q[2];
	struct ibv_mr *mr[2];
	struct ibv_ah *ah;

	q[0] = member(create_flags, grh[0], &mr[0]);
	q[1] = member(0, grh[1], &mr[1]);
	ah = rdmamsg__verbs_soft.create_ah(verbs_of(q[0]).qp->pd, &attr);
	assert_non_null(ah);
	send_to_group(q[0], ah);
	assert_int_equal(received_from(q[1]), queried(q[0]).qp_num);
	send_to_group(q[1], ah);
	assert_int_equal(received_from(q[0]), queried(q[want]).qp_num);
	assert_int_equal(rdmamsg__verbs_soft.destroy_ah(ah), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rdmamsg__verbs_soft.detach_mcast(
				 verbs_of(q[i]).qp, &group, 0), 0);
		assert_int_equal(rdmamsg_qp_deregister(q[i], mr[i]), 0);
		assert_int_equal(rdmamsg_qp_destroy(q[i]), 0);
	}
}

static void loopback__blocked_by_a_flag_NOT_TO_ITSELF(void **state)
{
	first_received_from(0, 0);
	first_received_from(IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, 1);
}

/* ---- XRC ---------------------------------------------------------------- */

/* A shared receive queue of the domain, with its completions in 'cq'. */
static struct ibv_srq *shared(struct ibv_pd *pd, struct ibv_cq *cq,
			      struct ibv_xrcd *xrcd)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 4, .max_sge = 1 }, .pd = pd, .cq = cq,
		.xrcd = xrcd, .srq_type = IBV_SRQT_XRC,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(pd->context, &attr);

	assert_non_null(srq);
	return srq;
}

static void send_by_xrc(struct rdmamsg_qp *q, const struct ibv_mr *mr,
			struct ibv_srq *to)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, SIZE, mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 2, .opcode = IBV_WR_SEND, .sg_list = &sge,
		.num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	struct ibv_wc wc;

	assert_int_equal(ibv_get_srq_num(to, &wr.qp_type.xrc.remote_srqn), 0);
	assert_int_equal(ibv_post_send(verbs_of(q).qp, &wr, &bad), 0);
	UNTIL_BY((void)sched_yield(),
		 ibv_poll_cq(verbs_of(q).send_cq, 1, &wc) == 1);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void xrc__in_the_domain_of_the_program_ARRIVES(void **state)
{
	struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = "soft0", .max_send = 4,
		.max_recv = 4, .type = IBV_QPT_XRC_SEND,
	};
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1, .oflags = O_CREAT,
	};
	static uint8_t from[SIZE], to[SIZE];
	struct rdmamsg_qp *sends = make(&o), *receives;
	struct ibv_pd *pd = verbs_of(sends).qp->pd;
	struct ibv_xrcd *xrcd = ibv_open_xrcd(pd->context, &domain);
	struct ibv_recv_wr recv = { .wr_id = 1, .num_sge = 1 }, *bad;
	struct ibv_mr *mr[2];
	struct ibv_srq *srq;
	struct ibv_sge sge;
	struct ibv_cq *cq;
	struct ibv_wc wc;

	assert_non_null(xrcd);
	o.type = IBV_QPT_XRC_RECV;
	o.xrcd = xrcd;
	receives = make(&o);
	assert_int_equal(made.qp_type, IBV_QPT_XRC_RECV);
	assert_int_equal(made.comp_mask, IBV_QP_INIT_ATTR_XRCD);
	assert_ptr_equal(made.xrcd, xrcd);
	assert_null(made.pd);
	assert_null(made.send_cq);
	assert_null(made.recv_cq);
	assert_int_equal(made.cap.max_send_wr + made.cap.max_recv_wr, 0);
	assert_int_equal(introduce(sends, receives), 0);
	assert_int_equal(introduce(receives, sends), 0);

	cq = rdmamsg__verbs_soft.create_cq(pd->context, 4, NULL, NULL, 0);
	assert_non_null(cq);
	srq = shared(pd, cq, xrcd);
	assert_int_equal(rdmamsg_qp_register(sends, from, SIZE, 0, &mr[0]), 0);
	assert_int_equal(rdmamsg_qp_register(sends, to, SIZE,
					     IBV_ACCESS_LOCAL_WRITE, &mr[1]),
			 0);
	memset(from, 0x5c, SIZE);
	sge = (struct ibv_sge){ (uintptr_t)to, SIZE, mr[1]->lkey };
	recv.sg_list = &sge;
	assert_int_equal(ibv_post_srq_recv(srq, &recv, &bad), 0);
	send_by_xrc(sends, mr[0], srq);
	UNTIL_BY((void)sched_yield(), ibv_poll_cq(cq, 1, &wc) == 1);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, SIZE);
	assert_int_equal(wc.qp_num, queried(receives).qp_num);
	assert_memory_equal(from, to, SIZE);

	assert_int_equal(rdmamsg_qp_deregister(sends, mr[0]), 0);
	assert_int_equal(rdmamsg_qp_deregister(sends, mr[1]), 0);
	assert_int_equal(rdmamsg_qp_destroy(receives), 0);
	assert_int_equal(rdmamsg__verbs_soft.destroy_srq(srq), 0);
	assert_int_equal(rdmamsg__verbs_soft.destroy_cq(cq), 0);
	/* nothing of the library holds the domain of the program */
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
		T(path__of_an_endpoint_REACHES_ITS_QUEUE_PAIR),
		T(psn__of_each_queue_pair_IS_RANDOM),
		T(traffic_class__none_IS_0),
		T(partition__by_value_or_index_REACHES_THE_QUEUE_PAIR),
		T(options__of_a_queue_pair_REACH_IT),
		T(signal_all__without_a_flag_COMPLETES),
		T(qkey__of_a_datagram_REACHES_ITS_QUEUE_PAIR),
		T(source__number_REACHES_THE_DEVICE),
		T(connect__refused_THE_PEER_IS_NOT_NAMED),
		T(srq__of_another_domain_EPERM),
		T(cross__number_of_a_queue_A_REQUEST_WAITS_FOR_IT),
		T(loopback__blocked_by_a_flag_NOT_TO_ITSELF),
		T(xrc__in_the_domain_of_the_program_ARRIVES),
	};

	join_own_fabric("given");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
