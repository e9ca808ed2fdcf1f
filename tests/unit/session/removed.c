/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: calls between the removal of a device and the loop's notice of
 * it. With failover the caller is asked to try again, and the session goes on.
 */
#include "memory/pool.h"
#include "session/ep.h"
#include "session/send.h"
#include "session/tx.h"
#include "soft/control/soft_ctl.h"
#include "../../post.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/flow.h>
#include <rdmamsg/layout.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rma.h>

#define LARGE	300000u		/* sent by rendezvous: needs the device */

static const struct rdmamsg_failover failover = {
	.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
};

static struct soft_ctl *ctl;
static unsigned int asked, arrived, resumed[2];
static uint8_t bytes[LARGE];
static struct rdmamsg_options context = { .size = sizeof(context) };
static uint32_t queue;			/* send_queue */

static void on_large(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	arrived++;
	rdmamsg_msg_free(msg);
}

static void on_path(struct rdmamsg_ep *ep, const struct rdmamsg_path_event *ev)
{
	resumed[rdmamsg_ep_user(ep) == &server] +=
		ev->change == RDMAMSG_PATH_CHANGE_RESUMED;
}

static struct rdmamsg_ep_handlers on = {
	.size = sizeof(on), .on_connected = on_connected,
	.on_message = on_large, .on_complete = on_complete,
	.on_closed = on_closed, .on_path = on_path,
};

/* The listener is at no address, so it outlives the device. */
static void connect_both(void)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &on, .failover = &failover,
		.user = &server, .send_queue = queue,
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts,
	};
	struct rdmamsg_listener *l;

	assert_int_equal(rdmamsg_open(&client.ctx, &context), 0);
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	assert_int_equal(rdmamsg_listen(server.ctx, NULL, "0", &lopts, &l), 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	connect_client(&opts);
	WAIT_FOR(server.ep);
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
}

static int send_large(void)
{
	const struct iovec iov = { bytes, LARGE };

	return rdmamsg_sendv(client.ep, &iov, 1, 0, &client);
}

static void take_device(void)
{
	assert_int_equal(soft_ctl_remove(ctl, SOFT_CTL_ALL), 0);
}

static void give_device(unsigned int times)
{
	assert_int_equal(soft_ctl_add(ctl, SOFT_CTL_ALL), 0);
	WAIT_FOR(resumed[0] == times && resumed[1] == times);
}

static void end(void)
{
	soft_ctl_close(ctl);
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
}

static int set_up(void **state)
{
	clear_ends();
	on.on_incoming = NULL;
	context.max_registered = 0;
	queue = 0;
	asked = arrived = resumed[0] = resumed[1] = 0;
	return 0;
}

static int tear_down(void **state)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	return 0;
}

static void sendv__device_removed_AGAIN(void **state)
{
	connect_both();
	take_device();
	assert_int_equal(send_large(), -EAGAIN);
	give_device(1);
	assert_int_equal(send_large(), 0);
	WAIT_FOR(arrived == 1 && client.sent == 1);
	assert_int_equal(client.status, 0);
	end();
}

static void msg_send__device_removed_AGAIN(void **state)
{
	struct rdmamsg_msg *msg;

	connect_both();
	assert_int_equal(rdmamsg_msg_alloc(client.ep, LARGE, &msg), 0);
	memset(rdmamsg_msg_data(msg), 1, LARGE);
	take_device();
	assert_int_equal(rdmamsg_msg_send(client.ep, msg, 0, NULL), -EAGAIN);
	give_device(1);
	assert_int_equal(rdmamsg_msg_send(client.ep, msg, 0, NULL), 0);
	WAIT_FOR(arrived == 1);
	end();
}

/* A buffer that was not used yet is registered at its first message. */
static void pool_alloc__device_removed_AGAIN(void **state)
{
	const struct rdmamsg_pool_options po = {
		.size = sizeof(po),
	};
	struct rdmamsg_pool *pool;
	struct rdmamsg_msg *msg;

	connect_both();
	assert_int_equal(rdmamsg_pool_create(client.ctx, &po, &pool), 0);
	take_device();
	assert_int_equal(rdmamsg_pool_alloc(pool, client.ep, 100, &msg),
			 -EAGAIN);
	give_device(1);
	assert_int_equal(rdmamsg_pool_alloc(pool, client.ep, 100, &msg), 0);
	assert_int_equal(rdmamsg_msg_send(client.ep, msg, 0, NULL), 0);
	WAIT_FOR(arrived == 1);
	end();
}

/* Fills the queue of the client, while the server takes no messages. */
static uint32_t fill_queue(void)
{
	uint32_t sent = 0;

	assert_int_equal(rdmamsg_ep_pause(server.ep), 0);
	while (!rdmamsg_send(client.ep, bytes, 1000, 0, NULL))
		sent++;
	assert_int_equal(client.ep->send.queued, queue);
	return sent;
}

static struct rdmamsg_msg *held[10000];
static uint32_t held_count;

/* Takes all buffers that there are. */
static void take_buffers(void)
{
	struct rdmamsg_msg *msg;

	while ((msg = rdmamsg__send_buffer(client.ep))) {
		assert_true(held_count < 10000);
		held[held_count++] = msg;
	}
}

/*
 * Queued operations have buffers of the former device. Without memory it
 * goes on waiting.
 */
static void send__in_a_cork_without_memory_AGAIN(void **state)
{
	uint32_t sent;

	queue = 128;
	context.max_registered = 8u << 20;
	connect_both();
	sent = fill_queue();
	take_device();
	give_device(1);
	rdmamsg__tx_ask(client.ctx);
	UNTIL_BY((both(), take_buffers()),
		 !rdmamsg__sq_used(&client.ep->lane));
	assert_int_equal(rdmamsg_ep_resume(server.ep), 0);
	WAIT_FOR(rdmamsg__has_credit(client.ep));
	assert_true(client.ep->send.queued);
	assert_int_equal(rdmamsg_cork(client.ctx), 0);
	assert_int_equal(rdmamsg_send(client.ep, bytes, 1000, 0, NULL),
			 -EAGAIN);
	assert_int_equal(rdmamsg_uncork(client.ctx), 0);
	while (held_count)
		rdmamsg__msg_put(held[--held_count]);
	WAIT_FOR(arrived == sent);
	end();
}

/* The region is registered again with each device that is lent to the lane. */
static void region__device_removed_twice_AGAIN(void **state)
{
	static uint8_t there[64];
	struct rdmamsg_region *from, *late, *to;
	struct rdmamsg_sge sge = { .data = bytes, .len = sizeof(there) };
	struct rdmamsg_key key;

	connect_both();
	assert_int_equal(rdmamsg_region_create(client.ctx, bytes, LARGE,
					       RDMAMSG_ACCESS_READ, &from), 0);
	assert_int_equal(rdmamsg_region_create(server.ctx, there,
					       sizeof(there),
					       RDMAMSG_ACCESS_WRITE, &to), 0);
	assert_int_equal(rdmamsg_region_get_key(to, server.ep, &key), 0);
	assert_int_equal(rdmamsg_region_register(from, client.ep), 0);
	sge.region = from;
	bytes[0] = 7;
	take_device();
	give_device(1);
	take_device();
	assert_int_equal(rdmamsg_write(client.ep, &sge, 1, &key, 0, 0, NULL),
			 -EAGAIN);
	give_device(2);
	assert_int_equal(rdmamsg_write(client.ep, &sge, 1, &key, 0, 0,
				       &client), 0);
	WAIT_FOR(client.sent == 1);
	assert_int_equal(client.status, 0);
	assert_int_equal(there[0], 7);
	assert_int_equal(rdmamsg_region_create(client.ctx, bytes, LARGE,
					       RDMAMSG_ACCESS_READ, &late), 0);
	take_device();
	assert_int_equal(rdmamsg_region_register(late, client.ep), -EAGAIN);
	WAIT_FOR(!client.ep->lane.dev);
	assert_int_equal(rdmamsg_region_register(late, client.ep), -EAGAIN);
	give_device(3);
	sge.len = LARGE;
	assert_int_equal(post_regions(client.ep, &sge, 1, 0, &client), 0);
	WAIT_FOR(arrived == 1 && client.sent == 2);
	assert_int_equal(client.status, 0);
	end();
}

/* ---- a message for a layout -------------------------------------------- */

#define ROW	1000u		/* bytes of a block, and as many between */

static uint8_t memory[2 * LARGE];
static struct rdmamsg_layout *layout;
static bool removed_first;

static int into_layout(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
		       struct rdmamsg_buffer *dst)
{
	asked++;
	if (removed_first)
		take_device();
	assert_int_equal(rdmamsg_layout_recv(ep, layout, 0), 0);
	if (!removed_first)
		take_device();
	return 0;
}

static void make_layout(void)
{
	const struct rdmamsg_layout_options o = {
		.size = sizeof(o), .access = RDMAMSG_ACCESS_LOCAL_WRITE,
	};
	struct rdmamsg_layout_part part = {
		.len = ROW, .dims = 1, .count = { LARGE / ROW },
		.stride = { 2 * ROW },
	};

	memset(memory, 0, sizeof(memory));
	for (uint32_t i = 0; i < LARGE; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251);
	assert_int_equal(rdmamsg_region_create(server.ctx, memory,
					       sizeof(memory), o.access,
					       &part.region), 0);
	assert_int_equal(rdmamsg_layout_create(server.ctx, &o, &layout), 0);
	assert_int_equal(rdmamsg_layout_define(layout, &part, 1, 1), 0);
}

/* The layout is registered again with the next device. */
static void receive_in_layout(void)
{
	on.on_incoming = into_layout;
	connect_both();
	make_layout();
	assert_int_equal(send_large(), 0);
	WAIT_FOR(asked);
	give_device(1);
	WAIT_FOR(arrived == 1 && client.sent == 1);
	assert_int_equal(client.status, 0);
	assert_int_equal(asked, 1);
	for (uint32_t i = 0; i < LARGE; i++)
		assert_int_equal(memory[i / ROW * 2 * ROW + i % ROW],
				 bytes[i]);
	assert_int_equal(rdmamsg_layout_destroy(layout), 0);
	end();
}

static void layout_recv__device_removed_before_READ_AGAIN(void **state)
{
	removed_first = true;
	receive_in_layout();
}

static void layout_recv__device_removed_after_READ_AGAIN(void **state)
{
	removed_first = false;
	receive_in_layout();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sendv__device_removed_AGAIN),
		TEST(msg_send__device_removed_AGAIN),
		TEST(pool_alloc__device_removed_AGAIN),
		TEST(send__in_a_cork_without_memory_AGAIN),
		TEST(region__device_removed_twice_AGAIN),
		TEST(layout_recv__device_removed_before_READ_AGAIN),
		TEST(layout_recv__device_removed_after_READ_AGAIN),
	};

	join_own_fabric("removed");
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	return cmocka_run_group_tests_name("removed", tests, NULL, NULL);
}
