/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a queue pair fails, and all that the device says is that its
 * requests were flushed, or that it failed. On Soft-RoCE a request of this side
 * may have failed. On siw the connection may have ended.
 */
#include "base/base.h"
#include "device/device.h"
#include "device/verbs_api.h"
#include "session/ep.h"
#include "../own_fabric.h"
#include "../soft_calls.h"
#include "../two_ends.h"

#include <errno.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>

static uint32_t failed;		/* number of the failed queue pair */
static bool hold;		/* the CQ reports no completion */
static bool port_down;
static enum ibv_wc_status status;	/* of the failed queue pair */

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int n = hold ? 0 : soft_ops.poll_cq(cq, room, wc);

	/* the soft HCA carried out the request before the QP failed */
	for (int i = 0; i < n; i++)
		if (failed && wc[i].qp_num == failed)
			wc[i].status = status;
	return n;
}

static int query_port(struct ibv_context *verbs, uint8_t port,
		      struct ibv_port_attr *attr)
{
	int ret = rdmamsg__verbs_soft.query_port(verbs, port, attr);

	if (port_down)
		attr->state = IBV_PORT_DOWN;
	return ret;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	rdmamsg_msg_free(msg);
}

static int set_up(void **state)
{
	failed = 0;
	hold = port_down = false;
	status = IBV_WC_WR_FLUSH_ERR;
	replace_calls(poll_cq, NULL);
	soft_table.query_port = query_port;
	connect_anew(on_message, (struct rdmamsg_ep_options){ .size = 0 });
	return 0;
}

static int tear_down(void **state)
{
	return leave_soft(state);
}

/* The client's queue pair fails before a send has its completion. */
static void fail_client(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *qp = client.ep->lane.hot.qp;

	hold = true;
	assert_int_equal(rdmamsg_send(client.ep, "12345678", 8, 0, &client), 0);
	for (int i = 0; i < 10; i++)
		assert_true(rdmamsg_process(client.ctx) >= 0);
	assert_true(rdmamsg__sq_used(&client.ep->lane) > 0);
	failed = qp->qp_num;
	assert_int_equal(rdmamsg__verbs_soft.modify_qp(qp, &attr, IBV_QP_STATE),
			 0);
	hold = false;
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.wc_status, status);
}

static void text_has(const char *part, bool want)
{
	if (!strstr(client.why.text, part) == want)
		fail_msg("%s", client.why.text);
}

static void flush__device_tells_its_failures_BLAMES_THE_PEER(void **state)
{
	port_down = true;
	fail_client();
	assert_int_equal(client.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_ACCESS);
	assert_int_equal(client.why.error, -EACCES);
	text_has("the peer asked for memory that it may not reach", true);
	text_has("this side", false);
}

static void flush__of_any_failure_NAMES_BOTH_SIDES(void **state)
{
	client.ep->lane.flushes_failures = true;
	fail_client();
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_ACCESS);
	assert_int_equal(client.why.error, -EACCES);
	text_has("the peer asked for memory that it may not reach", true);
	text_has("or a request of this side failed", true);
	text_has("soft0 does not tell", true);
}

/* Without a port that is active, each request fails. */
static void flush__port_down_BLAMES_THE_NETWORK(void **state)
{
	struct rdmamsg_device *d = client.ep->lane.dev->device;
	enum device_kind kind = d->kind;

	client.ep->lane.flushes_failures = true;
	d->kind = KIND_SOFT_ROCE;
	port_down = true;
	fail_client();
	d->kind = kind;
	assert_int_equal(client.why.who, RDMAMSG_WHO_NETWORK);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_TRANSPORT);
	assert_int_equal(client.why.error, -ENETDOWN);
	text_has("its network interface is down", true);
	text_has("the peer", false);
}

/* siw has this status for what TCP does not take. */
static void local_error__of_siw_THE_CONNECTION_HAS_ENDED(void **state)
{
	struct rdmamsg_device *d = client.ep->lane.dev->device;
	enum device_kind kind = d->kind;

	status = IBV_WC_LOC_QP_OP_ERR;
	d->kind = KIND_SIW;
	fail_client();
	d->kind = kind;
	assert_int_equal(client.why.who, RDMAMSG_WHO_NETWORK);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_TRANSPORT);
	assert_int_equal(client.why.error, -ECONNRESET);
	text_has("could not be sent", true);
}

static void local_error__of_others_BLAMES_THE_DEVICE(void **state)
{
	status = IBV_WC_LOC_QP_OP_ERR;
	fail_client();
	assert_int_equal(client.why.who, RDMAMSG_WHO_DEVICE);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_TRANSPORT);
	assert_int_equal(client.why.error, -ENETDOWN);
}

static int (*soft_post)(struct ibv_qp *qp, struct ibv_send_wr *wr,
			struct ibv_send_wr **bad);

/* The client's queue pair has left RTS, and nothing has told this process. */
static int post_unconnected(struct ibv_qp *qp, struct ibv_send_wr *wr,
			    struct ibv_send_wr **bad)
{
	if (qp != client.ep->lane.hot.qp)
		return soft_post(qp, wr, bad);
	*bad = wr;
	return ENOTCONN;
}

static void fail_post(void)
{
	struct ibv_context_ops *ops =
		&client.ep->lane.hot.qp->context->ops;

	soft_post = ops->post_send;
	ops->post_send = post_unconnected;
	(void)rdmamsg_send(client.ep, "12345678", 8, 0, &client);
	WAIT_FOR(client.closed);
	ops->post_send = soft_post;
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_TRANSPORT);
}

static void unposted__on_siw_THE_CONNECTION_HAS_ENDED(void **state)
{
	struct rdmamsg_device *d = client.ep->lane.dev->device;
	enum device_kind kind = d->kind;

	d->kind = KIND_SIW;
	fail_post();
	d->kind = kind;
	assert_int_equal(client.why.who, RDMAMSG_WHO_NETWORK);
	assert_int_equal(client.why.error, -ECONNRESET);
	text_has("could not be sent", true);
}

static void unposted__on_others_BLAMES_THE_DEVICE(void **state)
{
	fail_post();
	assert_int_equal(client.why.who, RDMAMSG_WHO_DEVICE);
	assert_int_equal(client.why.error, -ENOTCONN);
	text_has("posting to the send queue failed", true);
}

int main(void)
{
#define CASE(f)	cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(flush__device_tells_its_failures_BLAMES_THE_PEER),
		CASE(flush__of_any_failure_NAMES_BOTH_SIDES),
		CASE(flush__port_down_BLAMES_THE_NETWORK),
		CASE(local_error__of_siw_THE_CONNECTION_HAS_ENDED),
		CASE(local_error__of_others_BLAMES_THE_DEVICE),
		CASE(unposted__on_siw_THE_CONNECTION_HAS_ENDED),
		CASE(unposted__on_others_BLAMES_THE_DEVICE),
	};

	join_own_fabric("flushed");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
