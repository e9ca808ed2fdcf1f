/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attributes of targets and addresses, options that count for queue pairs of
 * DC, and masked atomics of an address before it posts any.
 */
#include "dc_halls.h"
#include "../dc_post.h"

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/oob.h>

static bool is_native(void)
{
	return DC_PATH == RDMAMSG_DC_NATIVE &&
	       test_has(RDMAMSG_CAP_DC, RDMAMSG_CAP_NATIVE);
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
	struct rdmamsg_masked_attr m = { .size = sizeof(m) };

	start(1, 0, 0);
	assert_error(rdmamsg_dc_address_query(NULL, &a), -EINVAL, "NULL");
	assert_error(rdmamsg_dc_address_query(to[0], NULL), -EINVAL, "struct");
	assert_error(rdmamsg_dc_address_masked_query(NULL, &m), -EINVAL,
		     "NULL");
	assert_error(rdmamsg_dc_address_masked_query(to[0], &m), -ENOTCONN,
		     "no connection");
	rdmamsg_dc_sender_destroy(sender);
	assert_error(rdmamsg_dc_address_query(to[0], &a), -ESHUTDOWN,
		     "destroyed");
	assert_error(rdmamsg_dc_address_masked_query(to[0], &m), -ESHUTDOWN,
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

/* ---- options ----------------------------------------------------------- */

static const struct rdmamsg_path some_path = {
	.size = sizeof(some_path), .flags = RDMAMSG_PATH_GLOBAL,
	.traffic_class = 0x48, .flow_label = 0x12345, .hop_limit = 9,
	.mtu = 512,
};

static const struct rdmamsg_ep_options some_options = {
	.size = sizeof(some_options), .path = &some_path,
	.tuning = TUNING(.ack_timeout = 15, .retry_count = 3,
			 .rnr_retry_count = 5, .min_rnr_timer = 20,
			 .initiator_depth = 4),
};

static void assert_target_has_them(const struct hall *h)
{
	const struct rdmamsg_dc_target_attr a = attr_of_target(h);

	assert_int_equal(a.min_rnr_timer, 20);
	assert_int_equal(a.mtu, 512);
	assert_int_equal(a.traffic_class, 0x48);
	assert_int_equal(a.flow_label, 0x12345);
	assert_int_equal(a.hop_limit, 9);
}

static void assert_initiator_has_them(struct rdmamsg_dc_address *to_it)
{
	const struct rdmamsg_dc_address_attr a = attr_of(to_it);

	assert_int_equal(a.ack_timeout, 15);
	assert_int_equal(a.retry_count, 3);
	assert_int_equal(a.rnr_retry_count, 5);
	assert_int_equal(a.initiator_depth, 4);
	assert_int_equal(a.mtu, 512);
	assert_int_equal(a.traffic_class, 0x48);
	assert_int_equal(a.flow_label, 0x12345);
	assert_int_equal(a.hop_limit, 9);
}

/* Without DC on the device, connections ignore the path. */
void options__of_connections_ARE_THOSE_OF_DC(void **state)
{
	const struct rdmamsg_dc_target_options topts = {
		.size = sizeof(topts), .user = &halls[1], .access_key = 7,
		.on_message = on_message, .on_destroyed = on_target_destroyed,
		.ep = &some_options, .path = RDMAMSG_DC_NATIVE,
	};
	const struct rdmamsg_dc_sender_options sopts = {
		.size = sizeof(sopts), .on_complete = on_complete,
		.on_destroyed = on_sender_destroyed, .ep = &some_options,
		.path = RDMAMSG_DC_NATIVE,
	};
	struct rdmamsg_dc_sender *with;
	struct hall *h = &halls[1];

	start(1, 0, 0);
	memset(h, 0, sizeof(*h));
	assert_int_equal(rdmamsg_dc_target_create(far, test_addr(), "0", &topts,
						  &h->target), 0);
	assert_int_equal(rdmamsg_dc_sender_create(near, &sopts, &with), 0);
	(void)snprintf(h->port, sizeof(h->port), "%u",
		       rdmamsg_dc_target_port(h->target));
	assert_int_equal(rdmamsg_dc_address_create(with, test_addr(), h->port,
						   7, NULL, &to[1]), 0);
	send_one(to[1]);
	assert_int_equal(h->messages, 1);
	if (is_native()) {
		assert_target_has_them(h);
		assert_initiator_has_them(to[1]);
	}
	rdmamsg_dc_sender_destroy(with);
	WAIT_FOR(gone == 1);
	gone = 0;
	finish(2);
}

void options__out_of_range_REFUSED_AT_ONCE(void **state)
{
	struct rdmamsg_path path = { .size = sizeof(path), .mtu = 300 };
	struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .tuning = TUNING(.min_rnr_timer = 32),
	};
	const struct rdmamsg_dc_target_options topts = {
		.size = sizeof(topts), .ep = &ep, .path = RDMAMSG_DC_NATIVE,
	};
	const struct rdmamsg_dc_sender_options sopts = {
		.size = sizeof(sopts), .ep = &ep, .path = RDMAMSG_DC_NATIVE,
	};
	struct rdmamsg_dc_target *t;
	struct rdmamsg_dc_sender *s;

	start(1, 0, 0);
	assert_error(rdmamsg_dc_target_create(far, test_addr(), "0", &topts,
					      &t), -EINVAL, "min_rnr_timer");
	assert_error(rdmamsg_dc_sender_create(near, &sopts, &s), -EINVAL,
		     "min_rnr_timer");
	ep.tuning = NULL;
	ep.path = &path;
	assert_error(rdmamsg_dc_target_create(far, test_addr(), "0", &topts,
					      &t), -EINVAL, "mtu");
	assert_error(rdmamsg_dc_sender_create(near, &sopts, &s), -EINVAL,
		     "mtu");
	finish(1);
}

/* ---- masked atomics ---------------------------------------------------- */

/* Returns the error of the call, else the status of the operation. */
static int add_to(uint32_t bytes)
{
	static const uint64_t one[4] = { 1, 1, 1, 1 };
	const uint64_t aligned = -(uintptr_t)halls[0].memory % 32;
	struct cookie c = { 0 };
	int ret = dc_add_fields(to[0], &halls[0].key, aligned, bytes, one, NULL,
				NULL, 0, &c);

	if (ret)
		return ret;
	WAIT_FOR(c.count);
	return c.status;
}

void masked__sizes_ARE_THOSE_THAT_WORK(void **state)
{
	struct rdmamsg_masked_attr m = { .size = sizeof(m) };

	start(1, 0, 0);
	send_one(to[0]);
	assert_int_equal(rdmamsg_dc_address_masked_query(to[0], &m), 0);
	assert_true(m.reason[0]);
	assert_int_equal(m.how == RDMAMSG_CAP_ABSENT, !atomics);
	assert_int_equal(m.sizes != 0, atomics);
	if (is_native()) {
		assert_int_equal(m.how, RDMAMSG_CAP_SOFTWARE);
		assert_int_equal(m.unit, 8);
	}
	if (atomics)
		assert_int_equal(m.max_field, 8);
	for (uint32_t bytes = 4; bytes <= 32; bytes *= 2)
		assert_int_equal(add_to(bytes),
				 m.sizes & bytes ? 0 : -EOPNOTSUPP);
	finish(1);
}
