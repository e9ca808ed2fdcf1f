/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: on an iWARP device, only the connection manager connects queue
 * pairs. Calls that connect without it return -EOPNOTSUPP and the reason.
 */
#include "device/verbs_api.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdint.h>
#include <stddef.h>
#include <infiniband/verbs.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "../../fake/nulldev.h"

static struct rdmamsg *ctx;

static int set_up(void **state)
{
	nulldev_device.transport_type = IBV_TRANSPORT_IWARP;
	rdmamsg__verbs = &nulldev_verbs;
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

static struct rdmamsg_ep_options ep_options(void)
{
	return (struct rdmamsg_ep_options) {
		.size = sizeof(struct rdmamsg_ep_options),
	};
}

static void listen__out_of_band_EOPNOTSUPP(void **state)
{
	struct rdmamsg_listen_options o = {
		.size = sizeof(o), .device = NULLDEV_NAME,
	};
	struct rdmamsg_listener *l;

	check_refused(rdmamsg_oob_listen(ctx, NULL, "0", &o, &l));
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
		TEST(listen__out_of_band_EOPNOTSUPP),
		TEST(offer__out_of_band_EOPNOTSUPP),
		TEST(answer__out_of_band_EOPNOTSUPP),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
