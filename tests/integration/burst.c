/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Back-pressure in a callback: one callback sends more than the send queues
 * hold, to peers whose programs do nothing meanwhile. It can send as much as
 * the peers have granted, as fast as the devices take it.
 */
#include "many.h"

#include <sched.h>

#include <rdmamsg/endpoint.h>

#define CREDITS		512u	/* recv_depth; send_depth is 128 */
#define TURN		64u	/* messages to a peer before the next one */

static uint32_t peers;
static bool called, failed;

/* Repeats the call while the device is busy, which it must not be for ever. */
static void send_one(struct conn *c)
{
	uint64_t end = now_ms() + WAIT_MS;
	int ret;

	do {
		ret = rdmamsg_send(c->ep, pattern(c->sent), c->sent % 900,
				   c->sent, NULL);
		if (ret == -EAGAIN)
			sched_yield();
	} while (ret == -EAGAIN && now_ms() < end);
	failed |= ret != 0;
	if (ret)
		note("message %u: %d, %s", c->sent, ret, rdmamsg_error());
	else
		c->sent++;
}

static void send_all(struct rdmamsg *ctx, void *arg)
{
	while (!failed && server.conns[peers - 1].sent < CREDITS)
		for (uint32_t i = 0; i < peers; i++)
			for (uint32_t n = 0; n < TURN && !failed; n++)
				send_one(&server.conns[i]);
	called = true;
}

static void start(uint32_t n)
{
	struct rdmamsg_ep_options opts = many_ep_options();

	many_start(NULL);
	opts.tuning = TUNING(.recv_depth = CREDITS);
	for (peers = 0; peers < n; peers++)
		many_dial(&opts);
	WAIT_FOR(client.connected == n && server.connected == n);
}

static void burst(uint32_t n)
{
	struct rdmamsg_stats c = { .size = sizeof(c) };

	start(n);
	called = failed = false;
	assert_int_equal(rdmamsg_submit(server.ctx, send_all, NULL), 0);
	WAIT_FOR(called);
	check_notes();
	WAIT_FOR(client.received == n * CREDITS);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(rdmamsg_ep_get_stats(server.conns[i].ep, &c),
				 0);
		assert_int_equal(c.credit_stalls, 0);
	}
	many_finish();
}

static void burst__to_an_idle_peer_AS_MUCH_AS_GRANTED(void **state)
{
	burst(1);
}

static void burst__to_many_idle_peers_AS_MUCH_AS_GRANTED(void **state)
{
	burst(20);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(burst__to_an_idle_peer_AS_MUCH_AS_GRANTED),
		TEST(burst__to_many_idle_peers_AS_MUCH_AS_GRANTED),
	};

	return test_main(tests, NULL, argc, argv);
}
