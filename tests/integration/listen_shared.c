/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners of several contexts share a port. */
#include "common.h"
#include "harm.h"
#include "listen_port.h"

#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/oob.h>
#include <sys/wait.h>

/* ---- whose turn it is --------------------------------------------------- */

static void turns__one_after_the_other_GET_AS_MANY(void **state)
{
	clients_open();
	members_open(MEMBERS, shared);
	for (int i = 0; i < 3 * MEMBERS; i++)
		(void)client_connected(i);
	for (int i = 0; i < MEMBERS; i++) {
		WAIT_FOR(members[i].connected == 3);
		assert_int_equal(stats(&members[i]).accepted, 3);
		assert_int_equal(rdmamsg_listener_port(members[i].l),
				 atoi(port));
	}
}

static void turns__a_new_member_TAKES_PART(void **state)
{
	clients_open();
	members_open(2, shared);
	for (int i = 0; i < 4; i++)
		(void)client_connected(i);
	members[2].ctx = test_open(NULL);
	member_join(&members[2], shared, NULL);
	for (int i = 4; i < 10; i++)
		(void)client_connected(i);
	assert_int_equal(stats(&members[0]).accepted, 4);
	assert_int_equal(stats(&members[1]).accepted, 4);
	assert_int_equal(stats(&members[2]).accepted, 2);
}

static void load__fewest_endpoints_GETS_THE_NEXT(void **state)
{
	clients_open();
	members_open(2, by_load);
	for (int i = 0; i < 6; i++)
		(void)client_connected(i);
	assert_int_equal(stats(&members[0]).accepted, 3);
	members[2].ctx = test_open(NULL);
	member_join(&members[2], by_load, NULL);
	/* the newcomer gets all until it has as many */
	for (int i = 6; i < 9; i++)
		(void)client_connected(i);
	assert_int_equal(stats(&members[2]).accepted, 3);
	for (int i = 9; i < 12; i++)
		(void)client_connected(i);
	for (int i = 0; i < 3; i++)
		assert_int_equal(stats(&members[i]).accepted, 4);
}

static void load__endpoints_of_the_program_COUNT(void **state)
{
	struct rdmamsg *server = test_open(NULL);
	struct rdmamsg_ep_options ep = { .size = sizeof(ep) };
	struct rdmamsg_listen_options o = { .size = sizeof(o), .ep = &ep };
	struct rdmamsg_listener *l;
	struct rdmamsg_ep *out;
	char other[8];

	clients_open();
	members_open(2, by_load);
	assert_int_equal(rdmamsg_listen(server, test_addr(), "0", &o, &l), 0);
	/* the first in turn has a connection of its own */
	assert_int_equal(rdmamsg_connect(members[0].ctx, test_addr(),
					 listener_service(l, other), NULL,
					 &out), 0);
	(void)client_connected(0);
	assert_int_equal(stats(&members[0]).accepted, 0);
	assert_int_equal(stats(&members[1]).accepted, 1);
}

static struct rdmamsg_request *put_off_req[8];
static int put_off_count;

static void on_put_off(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	put_off_req[put_off_count++] = req;
}

static void load__unanswered_requests_COUNT(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_put_off,
		.on_failed = on_member_failed,
	};
	struct rdmamsg_listen_options o = { .handlers = &on };

	clients_open();
	put_off_count = 0;
	members[0].ctx = test_open(NULL);
	member_join(&members[0], by_load, &o);
	members[1].ctx = test_open(NULL);
	member_join(&members[1], by_load, NULL);
	/* the first member never answers, and so has one more each time */
	for (unsigned int i = 0; i < 4; i++) {
		(void)client_dial((int)i);
		WAIT_FOR(connected + (unsigned int)put_off_count == i + 1);
	}
	assert_int_equal(put_off_count, 2);
	while (put_off_count)
		assert_int_equal(rdmamsg_request_reject(
					put_off_req[--put_off_count], NULL, 0),
				 0);
	WAIT_FOR(closed == 2);
}

/* ---- what is reported of the port --------------------------------------- */

static void keep(void *arg, const char *text)
{
	strncat(arg, text, 8192 - strlen(arg) - 1);
}

static void check_reports(const struct member *m, unsigned int count)
{
	char text[8192] = "", want[64];
	static char metrics[65536];

	assert_int_equal(stats(m).members, count);
	rdmamsg_dump(m->ctx, keep, text);
	(void)snprintf(want, sizeof(want), count ?
		       "port %s, shared by %u listeners:" : "port %s:", port,
		       count);
	assert_non_null(strstr(text, want));
	assert_in_range(rdmamsg_stats_text(m->ctx, metrics, sizeof(metrics)), 1,
			sizeof(metrics) - 1);
	(void)snprintf(want, sizeof(want), ",port=\"%s\"} %u\n", port, count);
	assert_non_null(strstr(strstr(metrics, "rdmamsg_listener_members{"),
			       want));
}

static void reports__of_a_shared_port_COUNT_ITS_MEMBERS(void **state)
{
	members_open(3, shared);
	for (int i = 0; i < 3; i++)
		check_reports(&members[i], 3);
	test_close(members[0].ctx);
	member_close(&members[1]);
	check_reports(&members[2], 1);
	member_close(&members[2]);
	members[0].ctx = test_open(NULL);
	member_join(&members[0], 0, NULL);
	check_reports(&members[0], 0);
}

/* ---- a thread that is stuck --------------------------------------------- */

static void stuck__its_requests_WAIT_AND_OTHERS_ARE_SERVED(void **state)
{
	struct rdmamsg_listen_options o = {
		.max_requests = 2, .max_per_source = RDMAMSG_NONE,
	};

	clients_open();
	members[0].ctx = test_open(NULL);
	member_join(&members[0], shared, NULL);
	member_stuck(&members[1], shared, NULL, &o);
	for (int i = 0; i < 8; i++)
		(void)client_dial(i);
	WAIT_FOR(connected == 6);
	assert_int_equal(stats(&members[0]).accepted, 6);
	assert_int_equal(stats(&members[1]).requests, 2);
	assert_int_equal(stats(&members[1]).rejected_requests, 0);
	/* no member is left that may take one */
	test_drive(members[1].ctx);
	UNTIL_BY(test_drive(members[1].ctx); test_pump(1), connected == 8);
	assert_int_equal(stats(&members[1]).accepted, 2);
	rdmamsg_close(members[1].ctx);
}

static void nothing(struct rdmamsg *ctx, void *arg)
{
}

static void stuck__its_queue_is_full_ANOTHER_SERVES(void **state)
{
	static const struct rdmamsg_options small = {
		.size = sizeof(small), .submit_depth = 2,
	};

	clients_open();
	members[0].ctx = test_open(NULL);
	member_join(&members[0], shared, NULL);
	member_stuck(&members[1], shared, &small, NULL);
	while (!rdmamsg_submit(members[1].ctx, nothing, NULL))
		;
	for (int i = 0; i < 4; i++)
		(void)client_connected(i);
	assert_int_equal(stats(&members[0]).accepted, 4);
	assert_int_equal(stats(&members[1]).requests, 0);
	rdmamsg_close(members[1].ctx);
}

static void stuck__peer_gives_up_IS_NOT_SERVED(void **state)
{
	clients_open();
	members[0].ctx = test_open(NULL);
	member_join(&members[0], shared, NULL);
	member_stuck(&members[1], shared, NULL, NULL);
	for (int i = 0; i < 2; i++)
		(void)client_dial(i);
	WAIT_FOR(connected == 1 && stats(&members[1]).requests == 1);
	for (int i = 0; i < 2; i++)
		if (!clients[i].connected)
			rdmamsg_ep_abort(clients[i].ep);
	WAIT_FOR(closed == 1);
	UNTIL_BY(test_drive(members[1].ctx); test_pump(1),
		 stats(&members[1]).requests +
		 stats(&members[1]).half_open == 0);
	assert_int_equal(members[1].connected, 0);
	rdmamsg_close(members[1].ctx);
}

/* ---- members that close ------------------------------------------------- */

/* Leaves one client with members[0] and one with members[1], which is stuck. */
static void one_each(struct rdmamsg_listen_options *o)
{
	clients_open();
	members[0].ctx = test_open(NULL);
	member_join(&members[0], shared, NULL);
	member_stuck(&members[1], shared, NULL, o);
	for (int i = 0; i < 2; i++)
		(void)client_dial(i);
	WAIT_FOR(connected == 1 && stats(&members[1]).requests == 1);
}

static void close__request_on_its_way_ANOTHER_SERVES(void **state)
{
	one_each(NULL);
	member_close(&members[1]);
	test_drive(members[1].ctx);
	WAIT_FOR(connected == 2);
	assert_int_equal(stats(&members[0]).accepted, 2);
	rdmamsg_close(members[1].ctx);
}

static void close__context_with_a_request_ANOTHER_SERVES(void **state)
{
	one_each(NULL);
	rdmamsg_close(members[1].ctx);
	WAIT_FOR(connected == 2);
	assert_int_equal(stats(&members[0]).accepted, 2);
}

static void drain__request_on_its_way_ANOTHER_SERVES(void **state)
{
	one_each(NULL);
	assert_int_equal(rdmamsg_listener_drain(members[1].l), 0);
	test_drive(members[1].ctx);
	WAIT_FOR(connected == 2);
	assert_int_equal(stats(&members[0]).accepted, 2);
	assert_int_equal(stats(&members[1]).rejected_draining, 0);
	rdmamsg_close(members[1].ctx);
}

static void shutdown__request_on_its_way_ANOTHER_SERVES(void **state)
{
	one_each(NULL);
	assert_int_equal(rdmamsg_shutdown(members[1].ctx, WAIT_MS), 0);
	test_drive(members[1].ctx);
	WAIT_FOR(connected == 2);
	assert_int_equal(stats(&members[0]).accepted, 2);
	rdmamsg_close(members[1].ctx);
}

static void close__the_last_SAYS_SO_AND_FREES_THE_PORT(void **state)
{
	struct rdmamsg_listener *l;

	one_each(NULL);
	member_close(&members[0]);
	assert_error(listen_alone(members[0].ctx, &l), -EADDRINUSE, "");
	member_close(&members[1]);
	/* the request that is still on its way does not hold the port */
	assert_int_equal(listen_alone(members[0].ctx, &l), 0);
	test_drive(members[1].ctx);
	WAIT_FOR(closed == 1);
	for (int i = 0; i < 2; i++)
		if (clients[i].closed) {
			assert_int_equal(clients[i].why.cause,
					 RDMAMSG_CAUSE_RESOURCES);
			assert_non_null(strstr(clients[i].why.text, "drain"));
		}
	rdmamsg_close(members[1].ctx);
}

static void close__the_first_OTHERS_GO_ON(void **state)
{
	clients_open();
	members_open(3, shared);
	(void)client_connected(0);
	test_close(members[0].ctx);
	for (int i = 1; i < 5; i++)
		(void)client_connected(i);
	assert_int_equal(stats(&members[1]).accepted, 2);
	assert_int_equal(stats(&members[2]).accepted, 2);
	/* its place is free for another */
	members[0].ctx = test_open(NULL);
	assert_int_equal(member_listen(&members[0], port, shared,
			 &(struct rdmamsg_listen_options){ .backlog = 1 }), 0);
	(void)client_connected(5);
	(void)client_connected(6);
	(void)client_connected(7);
	assert_int_equal(stats(&members[0]).accepted, 1);
}

static void wait__request_of_a_closed_member_ANOTHER_SERVES(void **state)
{
	struct rdmamsg_listen_options o = {
		.size = sizeof(o), .flags = shared,
	};

	clients_open();
	members[0].ctx = test_open(NULL);
	member_join(&members[0], shared, NULL);
	members[1].ctx = test_open(NULL);
	/* its requests wait for rdmamsg_listener_accept_wait() */
	assert_int_equal(rdmamsg_listen(members[1].ctx, test_addr(), port, &o,
					&members[1].l), 0);
	for (int i = 0; i < 4; i++)
		(void)client_dial(i);
	WAIT_FOR(connected == 2 && stats(&members[1]).requests == 2);
	member_close(&members[1]);
	WAIT_FOR(connected == 4);
}

static void drain__all_members_TELL_THE_PEER(void **state)
{
	struct client *c;

	clients_open();
	members_open(2, shared);
	for (int i = 0; i < 2; i++)
		assert_int_equal(rdmamsg_listener_drain(members[i].l), 0);
	c = client_dial(0);
	WAIT_FOR(c->closed);
	assert_int_equal(c->why.cause, RDMAMSG_CAUSE_RESOURCES);
	assert_non_null(strstr(c->why.text, "drain"));
	assert_int_equal(stats(&members[0]).rejected_draining +
			 stats(&members[1]).rejected_draining, 1);
}

static void shutdown__one_of_them_OTHERS_SERVE(void **state)
{
	clients_open();
	members_open(2, shared);
	for (int i = 0; i < 4; i++)
		(void)client_connected(i);
	assert_int_equal(rdmamsg_shutdown(members[0].ctx, WAIT_MS), 0);
	for (int i = 4; i < 8; i++)
		(void)client_connected(i);
	WAIT_FOR(closed == 2);
	assert_int_equal(stats(&members[1]).accepted, 6);
}

/* ---- limits ------------------------------------------------------------- */

static void limits__one_is_full_OTHERS_SERVE(void **state)
{
	struct rdmamsg_listen_options few = { .max_endpoints = 1 };

	clients_open();
	members[0].ctx = test_open(NULL);
	member_join(&members[0], shared, &few);
	members[1].ctx = test_open(NULL);
	member_join(&members[1], shared, NULL);
	for (int i = 0; i < 5; i++)
		(void)client_connected(i);
	assert_int_equal(stats(&members[0]).accepted, 1);
	assert_int_equal(stats(&members[0]).rejected_endpoints, 0);
	assert_int_equal(stats(&members[1]).accepted, 4);
}

static void limits__all_are_full_REJECT(void **state)
{
	struct client *c;

	clients_open();
	for (int i = 0; i < 2; i++) {
		struct rdmamsg_listen_options o = { .max_endpoints = 1 };

		members[i].ctx = test_open(NULL);
		member_join(&members[i], shared, &o);
		(void)client_connected(i);
	}
	c = client_dial(2);
	WAIT_FOR(c->closed);
	assert_int_equal(c->why.cause, RDMAMSG_CAUSE_RESOURCES);
	assert_int_equal(stats(&members[0]).rejected_endpoints +
			 stats(&members[1]).rejected_endpoints, 1);
}

/* Each member leaves room for other addresses, so the port does. */
static void limits__one_address_LEAVES_ROOM_FOR_OTHERS(void **state)
{
	struct client *other;

	if (strncmp(test_addr(), "127.", 4))
		skip_because("this host has one address with a device");
	clients_open();
	for (int i = 0; i < 2; i++) {
		struct rdmamsg_listen_options o = { .max_endpoints = 8 };

		members[i].ctx = test_open(NULL);
		member_join(&members[i], shared, &o);
	}
	for (int i = 0; i < 16; i++)
		(void)client_dial(i);
	WAIT_FOR(connected + closed == 16);
	assert_true(closed >= 2);
	other = client_dial_from(16, "127.0.0.2");
	WAIT_FOR(other->connected || other->closed);
	assert_int_equal(other->closed, 0);
	assert_int_equal(stats(&members[0]).rejected_source +
			 stats(&members[1]).rejected_source, closed);
}

static void limits__an_offender_IS_SLOWED_BY_ALL(void **state)
{
	static const char right[] = "the key of the port";
	static const char wrong[] = "the key of nobody at all";
	struct client *c;

	clients_open();
	for (int i = 0; i < 2; i++) {
		struct rdmamsg_listen_options o = {
			.key = right, .key_len = strlen(right),
			.slow_ms = 10000,
		};

		members[i].ctx = test_open(NULL);
		member_join(&members[i], shared, &o);
	}
	clients_key(wrong);
	c = client_dial(0);
	WAIT_FOR(c->closed);
	WAIT_FOR(stats(&members[0]).offences == 1);
	/* the other member's turn */
	clients_key(right);
	(void)client_dial(1);
	WAIT_FOR(stats(&members[0]).slowed > 0);
	assert_int_equal(stats(&members[1]).accepted, 0);
	assert_int_equal(stats(&members[1]).slowed, 0);
	rdmamsg_ep_abort(clients[1].ep);
	WAIT_FOR(clients[1].closed);
}

/* ---- what members have in common ---------------------------------------- */

static void options__that_differ_ARE_NAMED(void **state)
{
	static const char key[] = "a key of 16 bytes";
	struct member *a = &members[0], *b = &members[1];
	struct rdmamsg_listen_options o = { .size = 0 };
	struct rdmamsg_listener *l;

	a->ctx = test_open(NULL);
	b->ctx = test_open(NULL);
	member_join(a, shared, NULL);
	assert_error(listen_alone(b->ctx, &l), -EADDRINUSE, "");
	assert_error(member_listen(a, port, shared, &o), -EADDRINUSE,
		     "this context");
	assert_error(member_listen(b, port, by_load, &o), -EINVAL,
		     "RDMAMSG_LISTEN_BY_LOAD");
	o.key = key;
	o.key_len = strlen(key);
	assert_error(member_listen(b, port, shared, &o), -EINVAL, "key");
	o.key = NULL;
	o.key_len = 0;
	o.device = test_device();
	assert_error(member_listen(b, port, shared, &o), -EINVAL,
		     test_device());
	assert_error(member_listen(b, port, 4 | shared, &o), -EINVAL, "0x4");
	assert_error(member_listen(b, port, RDMAMSG_LISTEN_BY_LOAD, &o),
		     -EINVAL, "only with");
	o.flags = shared;
	assert_error(rdmamsg_oob_listen(b->ctx, test_addr(), "0", &o, &l),
		     -EOPNOTSUPP, "rdmamsg_listen");
}

static void options__alone_first_EADDRINUSE(void **state)
{
	struct rdmamsg_listen_options o = { .size = 0 };

	members[0].ctx = test_open(NULL);
	members[1].ctx = test_open(NULL);
	member_join(&members[0], 0, NULL);
	assert_error(member_listen(&members[1], port, shared, &o), -EADDRINUSE,
		     "");
}

static void options__key_of_the_context_IS_THE_SAME(void **state)
{
	static const char key[] = "a key of 16 bytes";
	const struct rdmamsg_options with = {
		.size = sizeof(with), .key = key, .key_len = strlen(key),
	};
	struct rdmamsg_listen_options o = {
		.key = key, .key_len = strlen(key),
	};
	struct client *c;

	clients_open();
	members[0].ctx = test_open(&with);
	member_join(&members[0], shared, NULL);
	members[1].ctx = test_open(NULL);
	member_join(&members[1], shared, &o);
	clients_key(key);
	for (int i = 0; i < 2; i++) {
		c = client_dial(i);
		WAIT_FOR(c->connected || c->closed);
		assert_int_equal(c->closed, 0);
	}
	assert_int_equal(stats(&members[1]).accepted, 1);
}

static void port__zero_IS_ANOTHER_EACH_TIME(void **state)
{
	struct rdmamsg_listen_options o = { .size = 0 };

	members[0].ctx = test_open(NULL);
	members[1].ctx = test_open(NULL);
	member_join(&members[0], shared, NULL);
	assert_int_equal(member_listen(&members[1], "0", shared, &o), 0);
	assert_int_not_equal(rdmamsg_listener_port(members[0].l),
			     rdmamsg_listener_port(members[1].l));
}

/* ---- a device that is removed ------------------------------------------- */

static void removed__all_members_HEAR_OF_IT_AND_LISTEN_AGAIN(void **state)
{
	harm_find();
	clients_open();
	members_open(3, shared);
	harm_remove();
	WAIT_FOR(members[0].failed && members[1].failed && members[2].failed);
	WAIT_FOR(harm_removed());
	for (int i = 0; i < 3; i++) {
		assert_int_equal(members[i].failed, 1);
		assert_int_equal(stats(&members[i]).listening, 0);
		assert_int_equal(stats(&members[i]).removed, 1);
	}
	test_close(members[0].ctx);
	harm_add();
	WAIT_PASSING(stats(&members[1]).listening &&
		     stats(&members[2]).listening);
	for (int i = 0; i < 4; i++)
		(void)client_connected(i);
	assert_int_equal(stats(&members[1]).accepted, 2);
	assert_int_equal(stats(&members[2]).accepted, 2);
}

/* ---- a forked child ------------------------------------------------------ */

static int use_in_child(void)
{
	struct rdmamsg_listen_options o = { .backlog = 1 };

	if (member_listen(&members[2], port, shared, &o) != -ECHILD)
		return 1;
	for (int i = 0; i < 2; i++) {
		rdmamsg_listener_close(members[i].l);
		rdmamsg_close(members[i].ctx);
	}
	return 0;
}

static void fork__child_closes_PARENT_GOES_ON(void **state)
{
	int status = 0;
	pid_t pid;

	clients_open();
	members_open(2, shared);
	members[2].ctx = members[0].ctx;
	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(use_in_child());
	assert_true(pid > 0);
	WAIT_FOR(waitpid(pid, &status, WNOHANG) == pid);
	assert_int_equal(status, 0);
	for (int i = 0; i < 4; i++)
		(void)client_connected(i);
	assert_int_equal(stats(&members[1]).accepted, 2);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(turns__one_after_the_other_GET_AS_MANY),
		TEST(turns__a_new_member_TAKES_PART),
		TEST(load__fewest_endpoints_GETS_THE_NEXT),
		TEST(load__endpoints_of_the_program_COUNT),
		TEST(load__unanswered_requests_COUNT),
		TEST(reports__of_a_shared_port_COUNT_ITS_MEMBERS),
		TEST(stuck__its_requests_WAIT_AND_OTHERS_ARE_SERVED),
		TEST(stuck__its_queue_is_full_ANOTHER_SERVES),
		TEST(stuck__peer_gives_up_IS_NOT_SERVED),
		TEST(close__request_on_its_way_ANOTHER_SERVES),
		TEST(close__context_with_a_request_ANOTHER_SERVES),
		TEST(close__the_last_SAYS_SO_AND_FREES_THE_PORT),
		TEST(close__the_first_OTHERS_GO_ON),
		TEST(wait__request_of_a_closed_member_ANOTHER_SERVES),
		TEST(drain__request_on_its_way_ANOTHER_SERVES),
		TEST(drain__all_members_TELL_THE_PEER),
		TEST(shutdown__request_on_its_way_ANOTHER_SERVES),
		TEST(shutdown__one_of_them_OTHERS_SERVE),
		TEST(limits__one_is_full_OTHERS_SERVE),
		TEST(limits__all_are_full_REJECT),
		TEST(limits__one_address_LEAVES_ROOM_FOR_OTHERS),
		TEST(limits__an_offender_IS_SLOWED_BY_ALL),
		TEST(options__that_differ_ARE_NAMED),
		TEST(options__alone_first_EADDRINUSE),
		TEST(options__key_of_the_context_IS_THE_SAME),
		TEST(port__zero_IS_ANOTHER_EACH_TIME),
		TEST(removed__all_members_HEAR_OF_IT_AND_LISTEN_AGAIN),
		TEST(fork__child_closes_PARENT_GOES_ON),
	};

	return test_main(tests, NULL, argc, argv);
}
