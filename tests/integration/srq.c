/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues: many connections, little memory, nobody starves. */
#include "clock.h"
#include "many.h"

#include <unistd.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>

static struct pair p;

/* ---- echo ------------------------------------------------------------- */

static void echo(unsigned int conns, uint32_t each, uint32_t len,
		 const struct rdmamsg_srq_options *opts)
{
	many_start(opts);
	echoes = true;
	many_connect(conns);
	assert_int_equal(many_stats().endpoints, conns);
	for (unsigned int i = 0; i < conns; i++)
		many_send(&client.conns[i], each, len);
	WAIT_FOR(client.received == conns * each);
	assert_int_equal(server.received, conns * each);
	if (!opts || opts->overcommit <= 100)
		assert_int_equal(many_stats().ran_empty, 0);
	many_close();
	assert_int_equal(client.graceful, conns);
	assert_int_equal(server.graceful, conns);
	many_finish();
}

static void echo__one_ARRIVES(void **state)
{
	echo(1, 1000, 0, NULL);
}

static void echo__four_connections_ARRIVE(void **state)
{
	echo(4, 500, 0, NULL);
}

static void echo__floor_1_ARRIVES(void **state)
{
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .floor = 1, .depth = 256,
	};

	echo(20, 100, 64, &o);
}

static void echo__exactly_full_ARRIVES(void **state)
{
	/* 10 endpoints with 1 + 6 receives, and a batch of 10 */
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .floor = 1, .depth = 80,
	};

	echo(10, 200, 0, &o);
}

static void echo__context_default_IS_TAKEN(void **state)
{
	struct rdmamsg_srq_options o = { .size = sizeof(o), .depth = 128 };
	struct rdmamsg_options opts = { .size = sizeof(opts), .srq = &o };

	pair_init(&p, &opts);
	pair_listen(&p);
	pair_connect(&p);
	assert_int_equal(end_info(&p.c).bytes_pinned, 0);
	for (uint32_t i = 0; i < 300; i++) {
		end_send_all(&p.c, i % HOW_COUNT, i * 100, i);
		end_send_all(&p.s, i % HOW_COUNT, i, i);
	}
	pair_close(&p);
	pair_fini(&p);
}

static void large__several_at_once_ARRIVE(void **state)
{
	struct rdmamsg_srq_options o = { .size = sizeof(o), .depth = 64 };
	struct rdmamsg_options opts = { .size = sizeof(opts), .srq = &o };

	pair_init(&p, &opts);
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t i = 0; i < 40; i++) {
		end_send_all(&p.c, HOW_SENDV, 20000 + i, i);
		end_send_all(&p.s, HOW_SENDV, 30000 + i, i);
	}
	pair_close(&p);
	pair_fini(&p);
}

/* ---- sharing ---------------------------------------------------------- */

static uint32_t credits(const struct conn *c)
{
	struct rdmamsg_ep_attr info = { .size = sizeof(info) };

	assert_int_equal(rdmamsg_ep_query(c->ep, &info), 0);
	return info.send_credits;
}

static void share__who_uses_it_GETS_MORE(void **state)
{
	struct rdmamsg_srq_options o = { .size = sizeof(o), .depth = 1024 };

	many_start(&o);
	many_connect(4);
	assert_int_equal(credits(&client.conns[0]), 4);
	many_send(&client.conns[0], 2000, 64);
	WAIT_FOR(server.received == 2000);
	/* up to recv_depth; the last half may be unannounced */
	WAIT_FOR(credits(&client.conns[0]) >= 32);
	assert_true(credits(&client.conns[0]) <= 64);
	assert_int_equal(credits(&client.conns[1]), 4);
	/* other endpoints still deliver */
	many_send(&client.conns[1], 100, 64);
	WAIT_FOR(server.received == 2100);
	many_finish();
}

static void share__little_of_it_ALL_GO_ON(void **state)
{
	/* 8 endpoints with 2 + 6 receives, a batch of 10, and 6 to share */
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 80, .floor = 2,
	};

	many_start(&o);
	many_connect(8);
	for (unsigned int i = 0; i < 8; i++)
		many_send(&client.conns[i], 300, 64);
	WAIT_FOR(server.received == 8 * 300);
	assert_int_equal(many_stats().ran_empty, 0);
	many_finish();
}

static void share__full_NEXT_IS_REFUSED(void **state)
{
	/* 2 endpoints with 4 + 6 receives, and a batch of 4 */
	struct rdmamsg_srq_options o = { .size = sizeof(o), .depth = 32 };

	many_start(&o);
	many_connect(2);
	many_dial(NULL);
	WAIT_FOR(client.closed == 1);
	assert_int_equal(many_stats().refused, 1);
	assert_int_equal(many_stats().endpoints, 2);
	/* when one endpoint has closed, another one fits */
	rdmamsg_ep_close(client.conns[0].ep);
	WAIT_FOR(client.closed == 2 && server.closed == 1);
	many_dial(NULL);
	WAIT_FOR(client.connected == 3);
	many_send(&client.conns[3], 50, 64);
	WAIT_FOR(server.received == 50);
	many_finish();
}

static void share__program_keeps_messages_OTHERS_GO_ON(void **state)
{
	struct rdmamsg_srq_options o = { .size = sizeof(o), .depth = 128 };

	many_start(&o);
	many_connect(4);
	server.keep = 500;
	many_send(&client.conns[0], 500, 64);
	WAIT_FOR(server.received == 500);
	many_send(&client.conns[1], 100, 64);
	WAIT_FOR(server.received == 600);
	for (unsigned int i = 0; i < server.kept_count; i++)
		rdmamsg_msg_free(server.kept[i]);
	many_send(&client.conns[0], 100, 64);
	WAIT_FOR(server.received == 700);
	many_finish();
}

/* ---- joining the queue in on_message ---------------------------------- */

static struct pair late;
static struct rdmamsg_request *put_off;

static void put_it_off(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	put_off = req;
}

static void accept_late(struct end *e, struct rdmamsg_msg *msg)
{
	if (rdmamsg_request_accept(put_off, &late.s.opts, &late.s.ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
	put_off = NULL;
	rdmamsg_msg_free(msg);
}

static void late_open(void)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = put_it_off,
	};
	const struct rdmamsg_listen_options o = {
		.size = sizeof(o), .handlers = &on,
		/* all endpoints have one source address */
		.max_per_source = RDMAMSG_NONE,
	};

	memset(&late, 0, sizeof(late));
	end_init(&late.s, "late server", p.s.ctx);
	end_init(&late.c, "late client", p.c.ctx);
	late.s.peer = &late.c;
	late.c.peer = &late.s;
	assert_int_equal(rdmamsg_listen(p.s.ctx, test_addr(), "0", &o,
					&late.listener), 0);
	listener_service(late.listener, late.port);
	assert_int_equal(rdmamsg_connect(p.c.ctx, test_addr(), late.port,
					 &late.c.opts, &late.c.ep), 0);
	WAIT_FOR(put_off);
}

/* The receive of the delivered message counts as available. */
static void join__in_on_message_THE_LAST_PLACE(void **state)
{
	/* 2 endpoints with 1 + 6 receives, and a batch of 2 */
	const struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 16, .floor = 1,
	};

	pair_init(&p, NULL);
	assert_int_equal(rdmamsg_srq_create(p.s.ctx, &o, &srq), 0);
	p.s.opts.srq = srq;
	pair_listen(&p);
	pair_connect(&p);
	late_open();
	late.s.opts.srq = srq;
	p.s.then_message = accept_late;
	end_send_all(&p.c, HOW_SEND, 100, 1);
	WAIT_FOR((late.c.connected && late.s.connected) || late.c.closed);
	assert_int_equal(late.c.closed, 0);
	p.s.then_message = NULL;
	for (uint32_t i = 0; i < 100; i++) {
		end_send_all(&p.c, HOW_SEND, 100, i);
		end_send_all(&late.c, HOW_SEND, 100, i);
	}
	WAIT_FOR(p.s.received == 101 && late.s.received == 100);
	pair_close(&late);
	pair_close(&p);
	rdmamsg_srq_destroy(srq);
	end_fini(&late.s);
	end_fini(&late.c);
	pair_fini(&p);
}

/* ---- over-commit ------------------------------------------------------ */

static void share__others_have_gone_FEWER_ARE_POSTED(void **state)
{
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 1024, .floor = 8,
	};
	uint32_t many;

	many_start(&o);
	echoes = true;
	many_connect(20);
	many = many_stats().posted;
	assert_true(many >= 20 * 8);
	for (unsigned int i = 1; i < 20; i++)
		rdmamsg_ep_close(client.conns[i].ep);
	WAIT_FOR(client.closed == 19 && server.closed == 19);
	/* one at a time, so that used receives are not posted again */
	for (uint32_t i = 1; i <= 2 * many; i++) {
		many_send(&client.conns[0], 1, 64);
		WAIT_FOR(client.received == i);
	}
	assert_in_range(many_stats().posted, 8, many / 2);
	/* new endpoints get as many receives as before */
	for (unsigned int i = 0; i < 20; i++)
		many_dial(NULL);
	WAIT_FOR(client.connected == 40 && server.connected == 40);
	assert_true(many_stats().posted >= 20 * 8);
	assert_int_equal(many_stats().ran_empty, 0);
	many_finish();
}

static void overcommit__eightfold_ARRIVES(void **state)
{
	/* more messages than receives: RNR NAKs delay them, none is lost */
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 16, .overcommit = 800,
	};

	skip_on_iwarp(NO_RNR);
	echo(10, 300, 64, &o);
}

static void overcommit__IS_COUNTED(void **state)
{
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 16, .overcommit = 800,
	};

	skip_on_iwarp(NO_RNR);
	many_start(&o);
	many_connect(10);
	for (unsigned int i = 0; i < 10; i++)
		many_send(&client.conns[i], 100, 64);
	/* the server sleeps: more messages than its receives arrive */
	for (int i = 0;
	     i < 20 || (test_on_soft() && !clock_others_sleep()); i++) {
		test_drive(client.ctx);
		usleep(1000);
	}
	WAIT_FOR(server.received == 1000);
	assert_true(many_stats().ran_empty > 0);
	many_finish();
}

/* ---- ends ------------------------------------------------------------- */

static void abort__with_messages_queued_OTHERS_GO_ON(void **state)
{
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 80, .floor = 8,
	};

	many_start(&o);
	for (int round = 0; round < 30; round++) {
		unsigned int was = client.connected;
		uint32_t got;

		/*
		 * connect one after the other, so that both sides number them
		 * alike
		 */
		many_connect(was + 1);
		many_connect(was + 2);
		/* messages are in the server's queue when it aborts */
		many_send(&client.conns[was], 8, 64);
		many_send(&client.conns[was + 1], 8, 64);
		test_drive(client.ctx);
		got = server.conns[was + 1].received;
		rdmamsg_ep_abort(server.conns[was].ep);
		WAIT_FOR(server.conns[was + 1].received == got + 8);
		rdmamsg_ep_abort(client.conns[was + 1].ep);
		WAIT_FOR(client.closed == was + 2 && server.closed == was + 2);
	}
	assert_int_equal(many_stats().ran_empty, 0);
	many_finish();
}

static void close__before_its_endpoints_LASTS(void **state)
{
	many_start(NULL);
	many_connect(3);
	rdmamsg_srq_destroy(srq);
	rdmamsg_listener_close(listener);
	many_send(&client.conns[2], 100, 64);
	WAIT_FOR(server.received == 100);
	many_close();
	test_close(server.ctx);
	test_close(client.ctx);
}

static void close__context_with_all_of_it_LEAKS_NOTHING(void **state)
{
	many_start(NULL);
	many_connect(3);
	many_send(&client.conns[2], 100, 64);
	test_close(server.ctx);
	WAIT_FOR(client.closed == 3);
	test_close(client.ctx);
}

/* ---- the limit -------------------------------------------------------- */

static void event__limit_reached_IS_COUNTED(void **state)
{
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 64, .limit = 40,
	};

	many_start(&o);
	many_connect(2);
	/* no more than 28 are posted yet */
	many_send(&client.conns[0], 40, 64);
	WAIT_FOR(many_stats().limit_events > 0);
	many_finish();
}

/* ---- many ------------------------------------------------------------- */

static void many__ALL_ARE_SERVED(void **state)
{
	/* the test machine can take 100, the soft HCA MANY_MAX */
	const unsigned int n = test_on_soft() ? MANY_MAX : 100;
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = n * 12, .floor = 2,
	};
	struct rdmamsg_ep_attr info = { .size = sizeof(info) };

	many_start(&o);
	echoes = true;
	many_connect(n);
	rdmamsg_ep_query(server.conns[0].ep, &info);
	/* a page for the endpoint itself */
	assert_true(info.bytes_private <
		    (uint64_t)sysconf(_SC_PAGESIZE) + 1404);
	for (unsigned int i = 0; i < n; i++)
		many_send(&client.conns[i], 5, 64);
	WAIT_FOR(client.received == 5 * n);
	assert_int_equal(many_stats().ran_empty, 0);
	many_finish();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(echo__one_ARRIVES),
		TEST(echo__four_connections_ARRIVE),
		TEST(echo__floor_1_ARRIVES),
		TEST(echo__exactly_full_ARRIVES),
		TEST(echo__context_default_IS_TAKEN),
		TEST(large__several_at_once_ARRIVE),
		TEST(share__who_uses_it_GETS_MORE),
		TEST(share__little_of_it_ALL_GO_ON),
		TEST(share__full_NEXT_IS_REFUSED),
		TEST(share__program_keeps_messages_OTHERS_GO_ON),
		TEST(join__in_on_message_THE_LAST_PLACE),
		TEST(share__others_have_gone_FEWER_ARE_POSTED),
		TEST(overcommit__eightfold_ARRIVES),
		TEST(overcommit__IS_COUNTED),
		TEST(abort__with_messages_queued_OTHERS_GO_ON),
		TEST(close__before_its_endpoints_LASTS),
		TEST(close__context_with_all_of_it_LEAKS_NOTHING),
		TEST(event__limit_reached_IS_COUNTED),
		TEST(many__ALL_ARE_SERVED),
	};

	return test_main(tests, NULL, argc, argv);
}
