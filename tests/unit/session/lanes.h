/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two endpoints whose lanes are lost or left, under traffic of all kinds in
 * both directions: each message must arrive once and in order.
 */
#ifndef RDMAMSG_TESTS_LANES_H
#define RDMAMSG_TESTS_LANES_H

#include "session/ep.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>
#include <stdlib.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>

#define SIZE_MAX_MSG	(1u << 20)
#define OUT_MAX		64		/* messages with a cookie */

/* One direction of the traffic. */
struct flow {
	uint32_t sent, received, completed, cookies;
	uint32_t end;			/* messages to send */
	unsigned int seed;
	uint8_t *buf[OUT_MAX];		/* of messages that are not copied */
	bool bad;
};

static struct flow flows[2];		/* of the client, of the server */
static unsigned int down[2], resumed[2], standby[2], not_moved[2];

static struct flow *from(const struct rdmamsg_ep *ep)
{
	return &flows[rdmamsg_ep_user(ep) == &server];
}

static struct flow *to(const struct rdmamsg_ep *ep)
{
	return &flows[rdmamsg_ep_user(ep) != &server];
}

static void on_path(struct rdmamsg_ep *ep, const struct rdmamsg_path_event *ev)
{
	int i = rdmamsg_ep_user(ep) == &server;

	down[i] += ev->change == RDMAMSG_PATH_CHANGE_DOWN;
	resumed[i] += ev->change == RDMAMSG_PATH_CHANGE_RESUMED;
	standby[i] += ev->change == RDMAMSG_PATH_CHANGE_STANDBY;
	not_moved[i] += ev->change == RDMAMSG_PATH_CHANGE_NOT_MOVED;
}

/* The bytes of a message depend on its number only. */
static uint8_t byte_of(uint32_t number, uint32_t at)
{
	return (uint8_t)(number * 7 + at * 3 + (at >> 8));
}

static uint32_t size_of(uint32_t number)
{
	static const uint32_t sizes[] = {
		0, 1, 64, 200, 240, 241, 1000, 4096, 8176, 8177, 20000, 65536,
		131072, 131073, 300000, SIZE_MAX_MSG,
	};
	uint32_t h = number * 2654435761u >> 16;

	return h % 4 ? h % 300 : sizes[h / 4 % 16];
}

static void fill(uint8_t *p, uint32_t number, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = byte_of(number, i);
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct flow *f = to(ep);
	uint32_t number = f->received++;
	const uint8_t *p = rdmamsg_msg_data(msg);
	size_t len = rdmamsg_msg_len(msg);

	f->bad |= rdmamsg_msg_tag(msg) != number || len != size_of(number);
	for (size_t i = 0; i < len && !f->bad; i++)
		f->bad |= p[i] != byte_of(number, (uint32_t)i);
	if (f->bad)
		print_error("message %u: tag %u, %zu bytes\n", number,
			    rdmamsg_msg_tag(msg), len);
	if (number % 7 == 0) {
		assert_int_equal(rdmamsg_msg_ref(msg), 0);
		rdmamsg_msg_free(msg);
	}
	rdmamsg_msg_free(msg);
}

static void completed(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct flow *f = from(ep);
	uint32_t slot = (uint32_t)(uintptr_t)cookie - 1;

	if (status)
		print_error("status %d\n", status);
	f->bad |= status != 0;
	free(f->buf[slot]);
	f->buf[slot] = NULL;
	f->completed++;
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_message = on_message, .on_complete = completed,
	.on_closed = on_closed, .on_path = on_path,
};

/* Keeps a reference until the call has returned. */
static int send_ref(struct rdmamsg_ep *ep, uint32_t number, uint32_t len)
{
	struct rdmamsg_msg *msg;
	int ret = rdmamsg_msg_alloc(ep, len, &msg);

	if (ret)
		return ret;
	fill(rdmamsg_msg_data(msg), number, len);
	assert_int_equal(rdmamsg_msg_ref(msg), 0);
	ret = rdmamsg_msg_send(ep, msg, number, NULL);
	if (ret)
		rdmamsg_msg_free(msg);
	rdmamsg_msg_free(msg);
	return ret;
}

static int send_one(struct rdmamsg_ep *ep, struct flow *f)
{
	static uint8_t room[SIZE_MAX_MSG];
	uint32_t number = f->sent, len = size_of(number), slot = 0;
	struct iovec iov;
	int ret;

	if (number % 5 == 4)
		return send_ref(ep, number, len);
	if (len <= 65536 && number % 3) {
		fill(room, number, len);
		return rdmamsg_send(ep, room, len, number, NULL);
	}
	while (slot < OUT_MAX && f->buf[slot])
		slot++;
	if (slot == OUT_MAX)
		return -EAGAIN;
	f->buf[slot] = malloc(len + 1);
	assert_non_null(f->buf[slot]);
	fill(f->buf[slot], number, len);
	iov.iov_base = f->buf[slot];
	iov.iov_len = len;
	ret = rdmamsg_sendv(ep, &iov, 1, number, (void *)(uintptr_t)(slot + 1));
	if (ret) {
		free(f->buf[slot]);
		f->buf[slot] = NULL;
		return ret;
	}
	f->cookies++;
	return 0;
}

/* Sends a few messages, as far as there is room. */
static inline void send_some(struct side *s, unsigned int count)
{
	struct flow *f = from(s->ep);

	while (count-- && f->sent < f->end) {
		int ret = send_one(s->ep, f);

		if (ret == -EAGAIN)
			return;
		assert_int_equal(ret, 0);
		f->sent++;
	}
}

/* The lane of one side fails, as if its network was gone. */
static inline void lose(struct side *s)
{
	struct rdmamsg_ep *ep = s->ep;

	rdmamsg__ep_reason(ep, RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_TRANSPORT,
			   -ETIMEDOUT, "the test has cut the lane");
	rdmamsg__ep_kill(ep);
}

static int set_up(void **state)
{
	memset(&client, 0, sizeof(client));
	memset(&server, 0, sizeof(server));
	memset(flows, 0, sizeof(flows));
	memset(down, 0, sizeof(down));
	memset(resumed, 0, sizeof(resumed));
	memset(standby, 0, sizeof(standby));
	memset(not_moved, 0, sizeof(not_moved));
	return 0;
}

static int tear_down(void **state)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < OUT_MAX; j++)
			free(flows[i].buf[j]);
	return 0;
}

static bool is_done(const struct flow *f)
{
	return f->received == f->end && f->completed == f->cookies;
}

static inline void expect_whole(void)
{
	WAIT_FOR((is_done(&flows[0]) && is_done(&flows[1])) || flows[0].bad ||
		 flows[1].bad || client.closed || server.closed);
	assert_false(flows[0].bad);
	assert_false(flows[1].bad);
	assert_false(client.closed);
	assert_false(server.closed);
}

static inline void close_both(void)
{
	rdmamsg_ep_close(client.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(client.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_CLOSED);
}

#endif
