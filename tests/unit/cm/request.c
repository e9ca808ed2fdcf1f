/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: requests whose peer or device has gone when the program answers,
 * and those that a listener of one device refuses.
 */
#include "../own_fabric.h"
#include "../two_ends.h"
#include "base/ctx.h"
#include "cm/connect.h"
#include "cm/rdma/cm.h"
#include "device/verbs_api.h"
#include "session/ep.h"

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>

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
static void dial(const char *device)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = keep,
	};
	static const struct rdmamsg_handlers handlers = {
		.size = sizeof(handlers), .on_closed = on_closed,
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .handlers = &on,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .user = &client, .handlers = &handlers,
	};
	struct rdmamsg_listener *l;

	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts,
					&l), 0);
	l->device = device ? strdup(device) : NULL;
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", service,
					 &opts, &client.ep), 0);
}

static void expect_gone(void)
{
	struct rdmamsg_ep *ep;

	assert_int_equal(rdmamsg_accept(kept, NULL, &ep), -ECONNRESET);
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
	dial(NULL);
	WAIT_FOR(kept);
	tell(RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_null(kept->id);
	expect_gone();
}

/* The device is not asked any more. */
static void accept__peer_has_gone_ECONNRESET(void **state)
{
	dial(NULL);
	WAIT_FOR(kept);
	tell(RDMA_CM_EVENT_REJECTED);
	expect_gone();
	assert_int_equal(accepts, 0);
}

/* The device knows, and its event has not been read. */
static void accept__peer_has_just_gone_ECONNRESET(void **state)
{
	dial(NULL);
	WAIT_FOR(kept);
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

#define T(name)	cmocka_unit_test_setup_teardown(name, set_up, leave_soft)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(accept__device_removed_ECONNRESET),
		T(accept__peer_has_gone_ECONNRESET),
		T(accept__peer_has_just_gone_ECONNRESET),
		T(listener__of_the_device_TAKES_IT),
		T(listener__of_another_device_REJECTS),
	};

	join_own_fabric("request");
	return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
