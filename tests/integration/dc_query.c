/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of targets and addresses. */
#include "dc_halls.h"

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>

static bool is_native(void)
{
	struct rdmamsg_cap cap = { .size = sizeof(cap) };

	if (DC_PATH != RDMAMSG_DC_NATIVE)
		return false;
	assert_int_equal(rdmamsg_cap_query(test_device(), RDMAMSG_CAP_DC, &cap),
			 0);
	return cap.how == RDMAMSG_CAP_NATIVE;
}

static struct rdmamsg_dc_address_attr attr_of(struct rdmamsg_dc_address *a)
{
	struct rdmamsg_dc_address_attr ret = { .size = sizeof(ret) };

	assert_int_equal(rdmamsg_dc_address_query(a, &ret), 0);
	return ret;
}

static struct rdmamsg_dc_target_attr attr_of_target(const struct hall *h)
{
	struct rdmamsg_dc_target_attr ret = { .size = sizeof(ret) };

	assert_int_equal(rdmamsg_dc_target_query(h->target, &ret), 0);
	return ret;
}

static void send_one(struct rdmamsg_dc_address *a)
{
	struct cookie c = { 0 };

	assert_int_equal(rdmamsg_dc_send(a, "x", 1, 0, &c), 0);
	WAIT_FOR(c.count);
	assert_int_equal(c.status, 0);
}

/* ---- addresses --------------------------------------------------------- */

static void assert_no_initiator(const struct rdmamsg_dc_address_attr *a)
{
	assert_int_equal(a->access_key, 7);
	assert_int_equal(a->path, RDMAMSG_DC_AUTO);
	assert_int_equal(a->qp_num, 0);
	assert_int_equal(a->peer_qp_num, 0);
	assert_int_equal(a->max_send, 0);
	assert_string_equal(a->device, "");
}

static void assert_open(const struct rdmamsg_dc_address_attr *a)
{
	assert_int_equal(a->state, RDMAMSG_DC_OPEN);
	assert_int_equal(a->path, is_native() ? RDMAMSG_DC_NATIVE :
			 RDMAMSG_DC_CONNECTIONS);
	assert_true(a->max_send >= 1u << 20);
	assert_int_equal(a->queued, 0);
}

void address__query_FOLLOWS_ITS_STATE(void **state)
{
	struct rdmamsg_dc_address_attr a;
	struct rdmamsg_dc_address *fresh;
	struct cookie c = { 0 };

	start(1, 0, 0);
	fresh = address_of(&halls[0]);
	a = attr_of(fresh);
	assert_no_initiator(&a);
	assert_int_equal(a.state, RDMAMSG_DC_IDLE);
	assert_int_equal(rdmamsg_dc_send(fresh, "x", 1, 0, &c), 0);
	a = attr_of(fresh);
	assert_no_initiator(&a);
	assert_int_equal(a.state, RDMAMSG_DC_WAITING);
	assert_int_equal(a.queued, 1);
	WAIT_FOR(attr_of(fresh).state == RDMAMSG_DC_CONNECTING || c.count);
	WAIT_FOR(c.count);
	a = attr_of(fresh);
	assert_open(&a);
	/* an idle initiator keeps its target until another needs it */
	assert_true(a.qp_num && a.port && a.mtu >= 256);
	if (!test_iwarp())
		assert_int_not_equal(a.peer_qp_num, 0);
	assert_int_equal(a.qp_state, IBV_QPS_RTS);
	if (test_on_soft())
		assert_string_equal(a.device, test_device());
	if (is_native())
		assert_int_equal(a.peer_qp_num,
				 attr_of_target(&halls[0]).dct_num);
	rdmamsg_dc_address_destroy(fresh);
	finish(1);
}

void address__query_of_no_use_REFUSED(void **state)
{
	struct rdmamsg_dc_address_attr a = { .size = sizeof(a) };

	start(1, 0, 0);
	assert_error(rdmamsg_dc_address_query(NULL, &a), -EINVAL, "NULL");
	assert_error(rdmamsg_dc_address_query(to[0], NULL), -EINVAL, "struct");
	rdmamsg_dc_sender_destroy(sender);
	assert_error(rdmamsg_dc_address_query(to[0], &a), -ESHUTDOWN,
		     "destroyed");
	finish(1);
}

/* ---- targets ----------------------------------------------------------- */

void target__query_TELLS_OF_ITS_DCT(void **state)
{
	struct rdmamsg_dc_target_attr a;

	start(2, 0, 0);
	a = attr_of_target(&halls[1]);
	assert_int_equal(a.path, RDMAMSG_DC_CONNECTIONS);
	assert_int_equal(a.dct_num, 0);
	assert_int_equal(a.max_receives, 0);
	assert_null(a.pd);
	send_one(to[1]);
	a = attr_of_target(&halls[1]);
	if (!is_native()) {
		assert_int_equal(a.path, RDMAMSG_DC_CONNECTIONS);
		assert_int_equal(a.dct_num, 0);
		finish(2);
		return;
	}
	assert_int_equal(a.path, RDMAMSG_DC_NATIVE);
	assert_true(a.dct_num && a.port && a.mtu >= 256);
	assert_int_equal(a.state, IBV_QPS_RTR);
	assert_true(a.access & IBV_ACCESS_REMOTE_READ &&
		    a.access & IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(a.min_rnr_timer, 12);
	assert_true(a.receives && a.receives <= a.max_receives);
	assert_true(a.cq_entries >= a.receives);
	assert_string_equal(a.device, attr_of(to[1]).device);
	if (test_on_soft())
		assert_int_equal(a.counts_violations, 1);
	finish(2);
}
