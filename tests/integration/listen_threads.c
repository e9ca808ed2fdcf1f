/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: threads whose listeners share a port. Members close, contexts and
 * the device go while clients connect, and each client is served or hears of its
 * end.
 */
#include "common.h"
#include "harm.h"
#include "listen_port.h"
#include "thread.h"

#include <pthread.h>
#include <rdmamsg/device.h>
#include <rdmamsg/listener.h>

static struct worker workers[MEMBERS];

static void workers_listen(bool end_at_once)
{
	for (int i = 0; i < MEMBERS; i++) {
		struct worker *w = &workers[i];
		const struct rdmamsg_listen_options o = {
			.size = sizeof(o), .ep = &w->opts, .flags = shared,
		};

		worker_open(w, NULL);
		if (end_at_once)
			w->on.on_closed = NULL;
		if (rdmamsg_listen(w->ctx, test_addr(), i ? port : "0", &o,
				   &w->listener))
			fail_msg("rdmamsg_listen: %s", rdmamsg_error());
		listener_service(w->listener, port);
	}
	for (int i = 0; i < MEMBERS; i++)
		worker_start(&workers[i]);
}

static void threads__each_has_its_share_AND_TALKS(void **state)
{
	static struct pair p;

	workers_listen(false);
	pair_init(&p, NULL);
	for (int i = 0; i < 3 * MEMBERS; i++) {
		client_connect(&p.c, port);
		for (uint32_t n = 0; n < 20; n++)
			client_echo(&p.c, HOW_SENDV, mixed_size(n), n);
		WAIT_FOR(p.c.received == p.c.expected_count);
		client_close(&p.c);
	}
	for (int i = 0; i < MEMBERS; i++) {
		worker_wait_closed(&workers[i], 3);
		worker_end(&workers[i]);
		assert_int_equal(workers[i].connected, 3);
		assert_int_equal(workers[i].echoed, 60);
	}
	pair_fini(&p);
}

static void close_here(struct rdmamsg *ctx, void *arg)
{
	struct worker *w = arg;

	worker_check(w);
	rdmamsg_listener_close(w->listener);
}

static unsigned int closed_at_workers(void)
{
	unsigned int sum = 0;

	for (int i = 0; i < MEMBERS; i++)
		sum += workers[i].closed;
	return sum;
}

/* Each member in its order closes while clients connect. Others serve. */
static void close_while_connecting(const int order[MEMBERS - 1])
{
	unsigned int total = 0;

	clients_open();
	workers_listen(false);
	for (int i = 0; i < CLIENTS; i++) {
		(void)client_dial(i);
		if (i % (CLIENTS / MEMBERS) == CLIENTS / MEMBERS / 2 &&
		    i / (CLIENTS / MEMBERS) < MEMBERS - 1) {
			struct worker *w =
				&workers[order[i / (CLIENTS / MEMBERS)]];

			assert_int_equal(rdmamsg_submit(w->ctx, close_here, w),
					 0);
		}
		test_pump(0);
	}
	WAIT_FOR(connected == CLIENTS || closed);
	for (int i = 0; i < CLIENTS; i++)
		if (clients[i].closed)
			fail_msg("client %d: %s", i, clients[i].why.text);
	for (int i = 0; i < CLIENTS; i++)
		client_end(&clients[i]);
	WAIT_FOR(closed_at_workers() == CLIENTS);
	for (int i = 0; i < MEMBERS; i++) {
		worker_end(&workers[i]);
		total += workers[i].connected;
	}
	assert_int_equal(total, CLIENTS);
}

static void threads__first_members_close_OTHERS_SERVE_ALL(void **state)
{
	close_while_connecting((const int[]){ 0, 1, 2 });
}

static void threads__last_members_close_OTHERS_SERVE_ALL(void **state)
{
	close_while_connecting((const int[]){ 3, 2, 1 });
}

/* Contexts close while clients connect, and at last no one listens. */
static void threads__contexts_close_EVERY_CLIENT_HEARS(void **state)
{
	struct rdmamsg_listener *l;

	for (int round = 0; round < 5; round++) {
		clients_open();
		workers_listen(true);
		for (int i = 0; i < CLIENTS; i++)
			(void)client_dial(i);
		WAIT_FOR(connected >= (unsigned int)(4 * round));
		for (int i = 0; i < MEMBERS; i++)
			rdmamsg_stop(workers[i].ctx);
		for (int i = 0; i < MEMBERS; i++) {
			pthread_join(workers[i].thread, NULL);
			workers[i].thread = pthread_self();
			rdmamsg_close(workers[i].ctx);
		}
		WAIT_FOR(closed == CLIENTS);
		assert_int_equal(listen_alone(client_ctx, &l), 0);
		test_close(client_ctx);
	}
}

static bool device_is_there(void)
{
	struct rdmamsg_device_attr attr = { .size = sizeof(attr) };

	return !rdmamsg_device_query(NULL, &attr);
}

/* The device goes while clients connect: each client hears of its end. */
static void threads__device_removed_EVERY_CLIENT_HEARS(void **state)
{
	harm_find();
	for (unsigned int round = 0; round < 3; round++) {
		clients_open();
		WAIT_FOR(device_is_there());
		workers_listen(true);
		for (int i = 0; i < CLIENTS; i++)
			(void)client_dial(i);
		WAIT_FOR(connected >= 8 * round);
		harm_remove();
		WAIT_FOR(closed == CLIENTS);
		WAIT_FOR(harm_removed());
		harm_add();
		for (int i = 0; i < MEMBERS; i++)
			worker_end(&workers[i]);
		test_close(client_ctx);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(threads__each_has_its_share_AND_TALKS),
		TEST(threads__first_members_close_OTHERS_SERVE_ALL),
		TEST(threads__last_members_close_OTHERS_SERVE_ALL),
		TEST(threads__contexts_close_EVERY_CLIENT_HEARS),
		TEST(threads__device_removed_EVERY_CLIENT_HEARS),
	};

	return test_main(tests, NULL, argc, argv);
}
