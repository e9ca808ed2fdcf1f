/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: endpoints on an iWARP device are refused with -EOPNOTSUPP and
 * the reason, whichever way they come.
 */
#include "device/verbs_api.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "../../fake/nulldev.h"

static struct rdmamsg *ctx;
static bool closed;
static struct rdmamsg_reason why;
static unsigned int requests, warnings;

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *reason)
{
	closed = true;
	why = *reason;
}

static const struct rdmamsg_handlers handlers = {
	.size = sizeof(handlers), .on_closed = on_closed,
};

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	requests++;
	assert_int_equal(rdmamsg_reject(req, NULL, 0), 0);
}

static void on_log(void *arg, enum rdmamsg_log_level level, const char *line)
{
	warnings += level == RDMAMSG_LOG_WARN && strstr(line, "iWARP");
}

static int set_up(void **state)
{
	nulldev_device.transport_type = IBV_TRANSPORT_IWARP;
	rdmamsg__verbs = &nulldev_verbs;
	closed = false;
	requests = warnings = 0;
	rdmamsg_set_log(on_log, NULL, RDMAMSG_LOG_WARN);
	return rdmamsg_open(&ctx, NULL);
}

static int tear_down(void **state)
{
	rdmamsg_close(ctx);
	nulldev_device.transport_type = IBV_TRANSPORT_IB;
	return nulldev_counts.qps || nulldev_counts.cqs || nulldev_counts.mrs ||
	       nulldev_counts.ids ? -1 : 0;
}

static void check_refused(int ret)
{
	assert_int_equal(ret, -EOPNOTSUPP);
	assert_non_null(strstr(rdmamsg_error(), "iWARP"));
	assert_non_null(strstr(rdmamsg_error(), NULLDEV_NAME));
}

static void turns(void)
{
	for (int i = 0; i < 20; i++)
		assert_true(rdmamsg_process(ctx) >= 0);
}

static struct rdmamsg_ep_options ep_options(void)
{
	return (struct rdmamsg_ep_options) {
		.size = sizeof(struct rdmamsg_ep_options),
		.handlers = &handlers,
	};
}

static void connect__address_leads_there_CLOSED(void **state)
{
	struct rdmamsg_ep_options o = ep_options();

	assert_int_equal(rdmamsg_connect(ctx, "127.0.0.1", "7", &o, NULL), 0);
	turns();
	assert_true(closed);
	assert_int_equal(why.error, -EOPNOTSUPP);
	assert_int_equal(why.who, RDMAMSG_WHO_LOCAL);
	assert_int_equal(why.cause, RDMAMSG_CAUSE_RESOURCES);
	assert_non_null(strstr(why.text, "iWARP"));
	assert_int_equal(nulldev_counts.pds, 0);
}

static void connect__device_named_EOPNOTSUPP(void **state)
{
	struct rdmamsg_ep_options o = ep_options();
	struct rdmamsg_ep *ep;

	o.device = NULLDEV_NAME;
	check_refused(rdmamsg_connect(ctx, "127.0.0.1", "7", &o, &ep));
}

static void listen__device_named_EOPNOTSUPP(void **state)
{
	struct rdmamsg_listen_options o = {
		.size = sizeof(o), .device = NULLDEV_NAME,
	};
	struct rdmamsg_listener *l;

	check_refused(rdmamsg_listen(ctx, NULL, "0", &o, &l));
	check_refused(rdmamsg_oob_listen(ctx, NULL, "0", &o, &l));
}

static void listen__own_address_EOPNOTSUPP(void **state)
{
	struct rdmamsg_listener *l;

	check_refused(rdmamsg_listen(ctx, "10.0.0.1", "0", NULL, &l));
	assert_int_equal(nulldev_counts.ids, 0);
}

/* A peer that knows nothing of what is refused here. */
struct peer {
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
};

static void peer_connect(struct peer *p, uint16_t port)
{
	struct proto_hello h = {
		.lowest = PROTO_VERSION, .highest = PROTO_VERSION, .credits = 4,
	};
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(port),
	};
	uint8_t hello[PROTO_HELLO_MAX];
	struct rdma_conn_param param = {
		.private_data = hello,
		.private_data_len = (uint8_t)rdmamsg__hello_encode(&h, hello),
	};

	p->ch = nulldev_verbs.create_event_channel();
	assert_int_equal(nulldev_verbs.create_id(p->ch, &p->id, NULL,
						 RDMA_PS_TCP), 0);
	assert_int_equal(nulldev_verbs.resolve_addr(p->id, NULL,
						(struct sockaddr *)&to, 1), 0);
	assert_int_equal(nulldev_verbs.connect(p->id, &param), 0);
}

static void peer_is_rejected(struct peer *p)
{
	struct rdma_cm_event *ev;
	struct proto_hello h;

	do {
		assert_int_equal(nulldev_verbs.get_cm_event(p->ch, &ev), 0);
		if (ev->event == RDMA_CM_EVENT_REJECTED)
			break;
		(void)nulldev_verbs.ack_cm_event(ev);
	} while (true);
	assert_int_equal(rdmamsg__hello_decode(&h,
			ev->param.conn.private_data,
			ev->param.conn.private_data_len), 0);
	assert_int_equal(h.reject, PROTO_REJECT_RESOURCES);
	(void)nulldev_verbs.ack_cm_event(ev);
	(void)nulldev_verbs.destroy_id(p->id);
	nulldev_verbs.destroy_event_channel(p->ch);
}

static void listen__every_device_REQUESTS_ARE_REJECTED(void **state)
{
	const struct rdmamsg_listen_options o = {
		.size = sizeof(o), .on_request = on_request,
	};
	struct rdmamsg_listener *l;
	struct peer p;

	assert_int_equal(rdmamsg_listen(ctx, NULL, "0", &o, &l), 0);
	peer_connect(&p, rdmamsg_listener_port(l));
	turns();
	peer_is_rejected(&p);
	assert_int_equal(requests, 0);
	assert_int_equal(warnings, 1);
}

static void offer__out_of_band_EOPNOTSUPP(void **state)
{
	struct rdmamsg_ep_options o = ep_options();
	struct rdmamsg_ep *ep;

	check_refused(rdmamsg_oob_offer(ctx, &o, &ep));
	o.device = NULLDEV_NAME;
	check_refused(rdmamsg_oob_offer(ctx, &o, &ep));
}

static void answer__out_of_band_EOPNOTSUPP(void **state)
{
	struct proto_hello h = {
		.lowest = PROTO_VERSION, .highest = PROTO_VERSION, .credits = 4,
	};
	struct proto_oob r = {
		.kind = PROTO_OOB_OFFER, .link = PROTO_OOB_ETHERNET, .mtu = 5,
		.has_gid = 1, .qp_num = 7, .gid = { [15] = 1 }, .pkey = 0xffff,
	};
	struct rdmamsg_ep_options o = ep_options();
	uint8_t record[PROTO_OOB_MAX];
	struct rdmamsg_ep *ep;
	size_t len;

	r.hello_len = (uint8_t)rdmamsg__hello_encode(&h, r.hello);
	len = rdmamsg__oob_encode(&r, record);
	check_refused(rdmamsg_oob_answer(ctx, record, len, &o, &ep));
	o.device = NULLDEV_NAME;
	check_refused(rdmamsg_oob_answer(ctx, record, len, &o, &ep));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(connect__address_leads_there_CLOSED),
		TEST(connect__device_named_EOPNOTSUPP),
		TEST(listen__device_named_EOPNOTSUPP),
		TEST(listen__own_address_EOPNOTSUPP),
		TEST(listen__every_device_REQUESTS_ARE_REJECTED),
		TEST(offer__out_of_band_EOPNOTSUPP),
		TEST(answer__out_of_band_EOPNOTSUPP),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
