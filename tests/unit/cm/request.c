/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: requests whose peer or device has gone when the program answers,
 * those that a listener refuses, and what an accepted one agrees on.
 */
#include "../own_fabric.h"
#include "../two_ends.h"
#include "base/ctx.h"
#include "cm/connect.h"
#include "cm/rdma/cm.h"
#include "cm/shared_port.h"
#include "device/verbs_api.h"
#include "session/ep.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdlib.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>

static struct rdmamsg_request *kept;
static struct verbs_api table;		/* the soft HCA */

static unsigned int accepts;

static int accept_id(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	accepts++;
	return rdmamsg__verbs_soft.accept(id, param);
}

/* Linux, ucma_accept(): the id waits for no answer any more. */
static int accept_too_late(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	accepts++;
	errno = EINVAL;
	return -1;
}

static void keep(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	kept = req;
}

static int set_up(void **state)
{
	table = rdmamsg__verbs_soft;
	table.accept = accept_id;
	rdmamsg__verbs = &table;
	kept = NULL;
	accepts = 0;
	clear_ends();
	return rdmamsg_open(&client.ctx, NULL) ||
	       rdmamsg_open(&server.ctx, NULL) ? -1 : 0;
}

/* The listener serves this device, or each one. */
static struct rdmamsg_listener *listen_for(const char *device)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = keep,
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .handlers = &on,
	};
	struct rdmamsg_listener *l;

	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts,
					&l), 0);
	l->device = device ? strdup(device) : NULL;
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	return l;
}

static void dial(const char *device)
{
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_closed = on_closed,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .user = &client, .handlers = &handlers,
	};

	(void)listen_for(device);
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", service,
					 &opts, &client.ep), 0);
}

/* Listens, and keeps the request of a client. */
static void get_request(void)
{
	dial(NULL);
	WAIT_FOR(kept);
}

static void expect_gone(void)
{
	struct rdmamsg_ep *ep;

	assert_int_equal(rdmamsg_request_accept(kept, NULL, &ep), -ECONNRESET);
	assert_non_null(strstr(rdmamsg_error(), "gone"));
}

static void tell(enum rdma_cm_event_type type)
{
	const struct cm_event ev = { .type = type };

	kept->owner.event(server.ctx, &kept->owner, &ev);
}

/* The kernel waits for the id, so the library frees it before the answer. */
static void accept__device_removed_ECONNRESET(void **state)
{
	get_request();
	tell(RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_null(kept->id);
	expect_gone();
}

/* Some kernels wait until nobody has the device open. */
static void key__device_removed_LETS_IT_GO(void **state)
{
	static uint8_t mem[4096];
	struct rdmamsg_region *region;
	struct rdmamsg_key key;

	get_request();
	assert_int_equal(rdmamsg_region_create(server.ctx, mem, sizeof(mem),
					       RDMAMSG_ACCESS_READ, &region),
			 0);
	assert_int_equal(rdmamsg_request_get_key(kept, region, &key), 0);
	assert_non_null(kept->keys.dev);
	tell(RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_null(kept->keys.dev);
	assert_int_equal(rdmamsg_request_get_key(kept, region, &key),
			 -ECONNRESET);
	expect_gone();
	assert_int_equal(rdmamsg_region_destroy(region), 0);
}

/* The device is not asked any more. */
static void accept__peer_has_gone_ECONNRESET(void **state)
{
	get_request();
	tell(RDMA_CM_EVENT_REJECTED);
	expect_gone();
	assert_int_equal(accepts, 0);
}

/* The device knows, and its event has not been read. */
static void accept__peer_has_just_gone_ECONNRESET(void **state)
{
	get_request();
	table.accept = accept_too_late;
	expect_gone();
	assert_int_equal(accepts, 1);
}

static void listener__of_the_device_TAKES_IT(void **state)
{
	dial("soft0");
	WAIT_FOR(kept || client.closed);
	assert_non_null(kept);
}

static void listener__of_another_device_REJECTS(void **state)
{
	dial("another0");
	WAIT_FOR(kept || client.closed);
	assert_null(kept);
	assert_int_equal(client.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_REJECTED);
}

static void client__of_another_device_DOES_NOT_ASK(void **state)
{
	dial(NULL);
	client.ep->connect.device = strdup("another0");
	WAIT_FOR(kept || client.closed);
	assert_null(kept);
	assert_int_equal(client.why.who, RDMAMSG_WHO_LOCAL);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_ADDRESS);
	assert_int_equal(client.why.error, -ENODEV);
}

/* ---- what is agreed ----------------------------------------------------- */

static struct rdmamsg_ep *accept_for(uint32_t timeout_ms)
{
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .timeout_ms = timeout_ms,
	};
	struct rdmamsg_ep *ep;

	assert_int_equal(rdmamsg_request_accept(kept, &opts, &ep), 0);
	return ep;
}

/* This side asks for no more reads than the peer serves, nor serves more. */
static void reads__of_the_peer_ARE_NOT_EXCEEDED(void **state)
{
	struct rdmamsg_ep *ep;

	get_request();
	kept->init_depth = 1;
	kept->resp_res = 2;
	ep = accept_for(0);
	assert_int_equal(ep->lane.init_depth, 1);
	assert_int_equal(ep->lane.resp_res, 2);
}

/* Half-open, it has setup_timeout_ms of the listener. */
static void time__of_the_listener_IS_LESS(void **state)
{
	struct rdmamsg_ep *ep;

	get_request();
	ep = accept_for(3600000);
	assert_in_range(rdmamsg__timer_ms(&ep->timer), 1,
			rdmamsg__now_ms() + WAIT_MS);
}

static void requests__default_IS_THE_BACKLOG(void **state)
{
	const struct rdmamsg_listen_options o = {
		.size = sizeof(o), .backlog = 1000,
	};
	struct rdmamsg_listener *l;

	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &o, &l),
			 0);
	assert_int_equal(l->opts.max_requests, 1000);
	assert_int_equal(l->opts.max_half_open, 1000);
}

/* Another listener of the port has lost the device. */
static void listener__of_a_lost_port_LISTENS_LATER(void **state)
{
	const struct rdmamsg_listen_options o = {
		.size = sizeof(o), .flags = RDMAMSG_LISTEN_SHARED,
	};
	struct rdmamsg_listener *first, *second;

	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &o,
					&first), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(first));
	first->shared->ids.at[0][0].lost = true;
	assert_int_equal(rdmamsg_listen(client.ctx, "127.0.0.1", service, &o,
					&second), 0);
	assert_true(second->dead);
}

/* ---- versions ----------------------------------------------------------- */

static struct proto_hello rejected_with;
static unsigned int freed;

static int reject_id(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	assert_int_equal(rdmamsg__hello_decode(&rejected_with, data, len), 0);
	return 0;
}

static int destroy_id(struct rdma_cm_id *id)
{
	freed++;
	return 0;
}

static void version__none_in_common_REJECTED(void **state)
{
	static struct rdma_cm_id id;
	static struct verbs_api other;
	const struct proto_hello hello = {
		.lowest = PROTO_VERSION + 1, .highest = PROTO_VERSION + 1,
		.credits = 1,
	};
	struct cm_event ev = { .v = &other, .id = &id };
	struct rdmamsg_listener *l;

	l = listen_for(NULL);
	other = rdmamsg__verbs_soft;
	other.reject = reject_id;
	other.destroy_id = destroy_id;
	freed = 0;
	ev.conn.private_data_len =
		(uint8_t)rdmamsg__hello_encode(&hello, ev.data);
	rdmamsg__request_cm(l, &ev);
	assert_null(kept);
	assert_int_equal(rejected_with.reject, PROTO_REJECT_VERSION);
	assert_int_equal(freed, 1);
}

#define T(name)	cmocka_unit_test_setup_teardown(name, set_up, leave_soft)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(accept__device_removed_ECONNRESET),
		T(key__device_removed_LETS_IT_GO),
		T(accept__peer_has_gone_ECONNRESET),
		T(accept__peer_has_just_gone_ECONNRESET),
		T(listener__of_the_device_TAKES_IT),
		T(listener__of_another_device_REJECTS),
		T(client__of_another_device_DOES_NOT_ASK),
		T(reads__of_the_peer_ARE_NOT_EXCEEDED),
		T(time__of_the_listener_IS_LESS),
		T(requests__default_IS_THE_BACKLOG),
		T(listener__of_a_lost_port_LISTENS_LATER),
		T(version__none_in_common_REJECTED),
	};

	join_own_fabric("request");
	return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
