/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: completion queues at the device's limits, and on devices that
 * cannot resize them. If a completion queue is full, the library creates
 * another one, and each endpoint uses its own. If the device has no more
 * queues, the endpoint ends with the reason.
 */
#include "base/ctx.h"
#include "base/list.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/verbs_api.h"

#include <rdmamsg/fast.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../../fake/nulldev.h"

#define PAIRS	6

static struct verbs_api device;		/* the null device, with limits */
static int max_cqe;
static int most_cqe;			/* the largest that memory permits */
static long max_cqs;
static bool can_resize;

static int query_device(struct ibv_context *verbs, struct ibv_device_attr *attr)
{
	int ret = nulldev_verbs.query_device(verbs, attr);

	attr->max_cqe = max_cqe;
	return ret;
}

static struct ibv_cq *create_cq(struct ibv_context *verbs, int cqe, void *arg,
				struct ibv_comp_channel *channel, int vector)
{
	assert_in_range(cqe, 1, max_cqe);
	if (nulldev_counts.cqs < max_cqs && cqe <= most_cqe)
		return nulldev_verbs.create_cq(verbs, cqe, arg, channel,
					       vector);
	errno = ENOMEM;
	return NULL;
}

/* The null device's ring needs no change. */
static int resize_cq(struct ibv_cq *cq, int cqe)
{
	return can_resize && cqe <= max_cqe ? 0 : EOPNOTSUPP;
}

static struct end {
	struct rdmamsg_ep *ep;
	uint32_t sent, received;
	bool connected;
	int error;
	char text[256];
} clients[PAIRS], servers[PAIRS];

static struct rdmamsg *client, *server;
static struct rdmamsg_listener *listener;
static uint32_t accepted;

static void on_connected(struct rdmamsg_ep *ep)
{
	struct end *e = rdmamsg_ep_user(ep);

	e->ep = ep;
	e->connected = true;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct end *e = rdmamsg_ep_user(ep);

	assert_int_equal(rdmamsg_msg_tag(msg), e->received++);
	rdmamsg_msg_free(msg);
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct end *e = rdmamsg_ep_user(ep);

	e->ep = NULL;
	e->error = why->error;
	snprintf(e->text, sizeof(e->text), "%s", why->text);
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_message = on_message, .on_closed = on_closed,
};

/*
 * An endpoint needs send_depth + 16 + 16 + recv_depth + RECV_RESERVE entries.
 */
static struct rdmamsg_ep_options options(struct end *e)
{
	static const struct rdmamsg_ep_tuning tuning = {
		.size = sizeof(tuning), .send_depth = 300, .recv_depth = 300,
	};

	return (struct rdmamsg_ep_options) {
		.size = sizeof(struct rdmamsg_ep_options), .user = e,
		.handlers = &handlers, .tuning = &tuning,
	};
}

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct rdmamsg_ep_options o = options(&servers[accepted]);

	if (!rdmamsg_request_accept(req, &o, NULL))
		accepted++;
}

static void turn(void)
{
	assert_true(rdmamsg_process(client) >= 0);
	assert_true(rdmamsg_process(server) >= 0);
}

/* Returns true if the endpoint connects; the null device needs few turns. */
static bool connect_one(struct end *e, uint32_t flags)
{
	struct rdmamsg_ep_options o = options(e);
	char port[8];

	o.flags = flags;
	snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(listener));
	assert_int_equal(rdmamsg_connect(client, "127.0.0.1", port, &o, &e->ep),
			 0);
	for (int i = 0; i < 100 && e->ep && !e->connected; i++)
		turn();
	for (int i = 0; i < 10; i++)
		turn();
	return e->connected;
}

static int set_up(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	const struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .handlers = &on,
	};

	device = nulldev_verbs;
	device.query_device = query_device;
	device.create_cq = create_cq;
	device.resize_cq = resize_cq;
	rdmamsg__verbs = &device;
	max_cqe = 1500;
	most_cqe = INT32_MAX;
	max_cqs = 1000;
	can_resize = true;
	accepted = 0;
	memset(clients, 0, sizeof(clients));
	memset(servers, 0, sizeof(servers));
	if (rdmamsg_open(&client, NULL) || rdmamsg_open(&server, NULL))
		return -1;
	return rdmamsg_listen(server, "127.0.0.1", "0", &lo, &listener);
}

static int tear_down(void **state)
{
	rdmamsg_close(client);
	rdmamsg_close(server);
	return nulldev_counts.cqs || nulldev_counts.qps || nulldev_counts.mrs ||
	       nulldev_counts.channels ? -1 : 0;
}

static int cqs_of(const struct rdmamsg *ctx)
{
	const struct dev *dev =
		list_first(&ctx->devices->devs, struct dev, node);
	struct list *n;
	int count = 0;

	list_for_each(n, &dev->cqs) {
		const struct cq *cq = list_entry(n, struct cq, node);

		assert_true(cq->used <= cq->room);
		count++;
	}
	return count;
}

/* Sends 1000 messages from a to b; 'poll' drives both contexts. */
static void talk(struct end *a, struct end *b, int (*poll)(struct rdmamsg *))
{
	uint32_t end = a->sent + 1000;

	for (int turns = 0; b->received < end && turns < 100000; turns++) {
		while (a->sent < end &&
		       !rdmamsg_send(a->ep, "x", 1, a->sent, NULL))
			a->sent++;
		assert_true(poll(client) >= 0);
		assert_true(poll(server) >= 0);
	}
	assert_int_equal(b->received, end);
}

static void limit__of_one_met_MORE_ARE_MADE(void **state)
{
	for (int i = 0; i < PAIRS; i++)
		assert_true(connect_one(&clients[i], 0));
	/* each completion queue has room for two endpoints */
	assert_int_equal(cqs_of(client), PAIRS / 2);
	assert_int_equal(cqs_of(server), PAIRS / 2);
	for (int i = 0; i < PAIRS; i++) {
		talk(&clients[i], &servers[i], rdmamsg_process);
		talk(&servers[i], &clients[i], rdmamsg_poll);
		talk(&clients[i], &servers[i], rdmamsg_fast_poll);
	}
}

static void limit__one_has_gone_ITS_ROOM_IS_TAKEN(void **state)
{
	for (int i = 0; i < 4; i++)
		assert_true(connect_one(&clients[i], 0));
	assert_int_equal(cqs_of(client), 2);
	rdmamsg_ep_abort(clients[0].ep);
	for (int i = 0; i < 100 && (clients[0].ep || servers[0].ep); i++)
		turn();
	assert_null(servers[0].ep);
	assert_true(connect_one(&clients[4], 0));
	assert_int_equal(cqs_of(client), 2);
	talk(&clients[4], &servers[4], rdmamsg_process);
}

static void limit__higher_FEWER_ARE_MADE(void **state)
{
	max_cqe = 3000;
	for (int i = 0; i < 4; i++)
		assert_true(connect_one(&clients[i], 0));
	assert_int_equal(cqs_of(client), 1);
	assert_true(connect_one(&clients[4], 0));
	assert_int_equal(cqs_of(client), 2);
	talk(&clients[3], &servers[3], rdmamsg_process);
	talk(&clients[4], &servers[4], rdmamsg_process);
}

static void fixed__limit_of_one_met_MORE_ARE_MADE(void **state)
{
	can_resize = false;
	for (int i = 0; i < 3; i++)
		assert_true(connect_one(&clients[i], 0));
	/* each completion queue has room for two endpoints */
	assert_int_equal(cqs_of(client), 2);
	talk(&clients[2], &servers[2], rdmamsg_process);
}

static void fixed__large_limit_ONE_FOR_ALL(void **state)
{
	can_resize = false;
	max_cqe = 65536;
	for (int i = 0; i < PAIRS; i++)
		assert_true(connect_one(&clients[i], 0));
	assert_int_equal(cqs_of(client), 1);
	assert_int_equal(cqs_of(server), 1);
	/*
	 * the inline poll needs hot.cq, which only a single completion queue
	 * sets
	 */
	assert_non_null(client->hot.cq);
	talk(&clients[0], &servers[0], rdmamsg_fast_poll);
	talk(&clients[PAIRS - 1], &servers[PAIRS - 1], rdmamsg_process);
}

static void fixed__full_THE_NEXT_IS_LARGER(void **state)
{
	struct cq *first, *second;
	struct dev *dev;

	can_resize = false;
	max_cqe = 65536;
	assert_true(connect_one(&clients[0], 0));
	dev = list_first(&client->devices->devs, struct dev, node);
	first = list_first(&dev->cqs, struct cq, node);
	first->used = first->room;
	assert_true(connect_one(&clients[1], 0));
	assert_int_equal(cqs_of(client), 2);
	second = list_entry(first->node.next, struct cq, node);
	assert_int_equal(second->room, 2 * first->room);
	talk(&clients[1], &servers[1], rdmamsg_process);
}

/* The device has less memory than its limit promises. */
static void fixed__no_memory_for_so_many_SMALLER(void **state)
{
	can_resize = false;
	max_cqe = 65536;
	most_cqe = 1500;
	for (int i = 0; i < 3; i++)
		assert_true(connect_one(&clients[i], 0));
	/* a quarter of the size has room for one endpoint */
	assert_int_equal(cqs_of(client), 3);
	talk(&clients[2], &servers[2], rdmamsg_process);
}

static void limit__and_no_further_one_THE_NEXT_ENDS(void **state)
{
	for (int i = 0; i < 2; i++)
		assert_true(connect_one(&clients[i], 0));
	max_cqs = nulldev_counts.cqs;
	assert_false(connect_one(&clients[2], 0));
	assert_null(clients[2].ep);
	assert_int_equal(clients[2].error, -ENOMEM);
	assert_non_null(strstr(clients[2].text, "completion queue"));
	/*
	 * existing endpoints go on, and later ones connect once there are
	 * queues
	 */
	talk(&clients[1], &servers[1], rdmamsg_process);
	max_cqs = 1000;
	assert_true(connect_one(&clients[3], 0));
	assert_int_equal(cqs_of(client), 2);
	talk(&clients[3], &servers[accepted - 1], rdmamsg_process);
}

static void limit__below_what_one_needs_EINVAL(void **state)
{
	max_cqe = 600;
	assert_false(connect_one(&clients[0], 0));
	assert_int_equal(clients[0].error, -EINVAL);
	assert_non_null(strstr(clients[0].text, "at most 600"));
}

static void own__beside_shared_ENDS_WITH_ITS_ENDPOINT(void **state)
{
	assert_true(connect_one(&clients[0], 0));
	assert_true(connect_one(&clients[1], RDMAMSG_EP_OWN_CQ));
	assert_int_equal(cqs_of(client), 2);
	talk(&clients[1], &servers[1], rdmamsg_fast_poll);
	rdmamsg_ep_abort(clients[1].ep);
	for (int i = 0; i < 100 && clients[1].ep; i++)
		turn();
	assert_int_equal(cqs_of(client), 1);
	talk(&clients[0], &servers[0], rdmamsg_fast_poll);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(limit__of_one_met_MORE_ARE_MADE),
		TEST(limit__one_has_gone_ITS_ROOM_IS_TAKEN),
		TEST(limit__higher_FEWER_ARE_MADE),
		TEST(limit__and_no_further_one_THE_NEXT_ENDS),
		TEST(limit__below_what_one_needs_EINVAL),
		TEST(fixed__limit_of_one_met_MORE_ARE_MADE),
		TEST(fixed__large_limit_ONE_FOR_ALL),
		TEST(fixed__full_THE_NEXT_IS_LARGER),
		TEST(fixed__no_memory_for_so_many_SMALLER),
		TEST(own__beside_shared_ENDS_WITH_ITS_ENDPOINT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
