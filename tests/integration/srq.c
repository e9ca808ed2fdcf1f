/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues: many connections, little memory, nobody starves. */
#include "common.h"

#define MOST	1000

/* One of many connections, at either side. */
struct conn {
	struct rdmamsg_ep *ep;
	uint32_t sent, received, to_send, len;
	unsigned int closed, graceful;
};

static struct side {
	struct rdmamsg *ctx;
	struct conn conns[MOST];
	unsigned int opened, connected, closed, graceful;
	uint32_t received;
	struct rdmamsg_msg *kept[MOST];
	unsigned int keep, kept_count;
	int last_error;
	char last_text[192];
} server, client;

static struct rdmamsg_srq *srq;
static struct pair p;
static struct rdmamsg_listener *listener;
static char service[8];
static bool echoes;		/* the server sends back what it gets */
static size_t pool_bytes;	/* of the server's pool; 0: none */
static struct rdmamsg_pool *pool;

static void pour(struct conn *c)
{
	while (c->ep && c->sent < c->to_send) {
		size_t len = c->len ? c->len : c->sent * 37 % 3000;
		int ret = rdmamsg_send(c->ep, pattern(c->sent), len, c->sent,
				       NULL);

		if (ret == -EAGAIN)
			return;
		if (ret) {
			note("rdmamsg_send: %s", rdmamsg_error());
			return;
		}
		c->sent++;
	}
}

static struct side *side_of(struct rdmamsg_ep *ep)
{
	return rdmamsg_ep_ctx(ep) == server.ctx ? &server : &client;
}

static void on_connected(struct rdmamsg_ep *ep)
{
	struct side *s = side_of(ep);
	struct conn *c = rdmamsg_ep_user(ep);

	if (s == &server) {
		c = &s->conns[s->opened++];
		rdmamsg_ep_set_user(ep, c);
	}
	c->ep = ep;
	s->connected++;
	pour(c);
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = side_of(ep);
	struct conn *c = rdmamsg_ep_user(ep);
	uint32_t tag = rdmamsg_msg_tag(msg);

	if (tag != c->received)
		note("message %u where %u was due", tag, c->received);
	if (memcmp(rdmamsg_msg_data(msg), pattern(tag), rdmamsg_msg_len(msg)))
		note("message %u is damaged", tag);
	c->received++;
	s->received++;
	if (s->kept_count < s->keep) {
		s->kept[s->kept_count++] = msg;
		return;
	}
	if (echoes && s == &server) {
		c->len = (uint32_t)rdmamsg_msg_len(msg);
		c->to_send++;
		pour(c);
	}
	rdmamsg_msg_free(msg);
}

static void on_writable(struct rdmamsg_ep *ep)
{
	pour(rdmamsg_ep_user(ep));
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct side *s = side_of(ep);
	struct conn *c = rdmamsg_ep_user(ep);

	s->closed++;
	s->graceful += why->cause == RDMAMSG_CAUSE_CLOSED;
	s->last_error = why->error;
	snprintf(s->last_text, sizeof(s->last_text), "%s", why->text);
	if (c)
		c->ep = NULL;
}

static const struct rdmamsg_handlers handlers = {
	.size = sizeof(handlers),
	.on_connected = on_connected, .on_message = on_message,
	.on_writable = on_writable, .on_closed = on_closed,
};

static struct rdmamsg_ep_options ep_options(void)
{
	return (struct rdmamsg_ep_options) {
		.size = sizeof(struct rdmamsg_ep_options),
		.handlers = &handlers, .timeout_ms = WAIT_MS,
		.close_timeout_ms = WAIT_MS,
	};
}

/* The server shares its receives; the clients have their own. */
static void start(const struct rdmamsg_srq_options *opts)
{
	struct rdmamsg_ep_options ep = ep_options();
	struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .ep = &ep, .backlog = MOST,
	};
	struct rdmamsg_pool_options po = {
		.size = sizeof(po), .max_bytes = pool_bytes,
	};
	struct rdmamsg_srq_options so = { .size = sizeof(so) };

	memset(&server, 0, sizeof(server));
	memset(&client, 0, sizeof(client));
	echoes = false;
	server.ctx = test_open(NULL);
	client.ctx = test_open(NULL);
	if (opts)
		so = *opts;
	if (pool_bytes) {
		assert_int_equal(rdmamsg_pool_create(server.ctx, &po, &pool),
				 0);
		so.recv_pool = pool;
		pool_bytes = 0;
	}
	if (rdmamsg_srq_create(server.ctx, &so, &srq))
		fail_msg("rdmamsg_srq_create: %s", rdmamsg_error());
	ep.srq = srq;
	if (rdmamsg_listen(server.ctx, test_addr(), "0", &lo, &listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(listener, service);
}

static struct conn *dial(const struct rdmamsg_ep_options *opts)
{
	struct conn *c = &client.conns[client.opened++];
	struct rdmamsg_ep_options ep = opts ? *opts : ep_options();

	ep.user = c;
	if (rdmamsg_connect(client.ctx, test_addr(), service, &ep, &c->ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	return c;
}

/* At most 50 at once: that is what a CM can take. */
static void connect_all(unsigned int n)
{
	while (client.opened < n) {
		dial(NULL);
		if (client.opened % 50 == 0)
			WAIT_FOR(client.connected == client.opened &&
				 server.connected == client.opened);
	}
	WAIT_FOR(client.connected == n && server.connected == n);
}

static struct rdmamsg_srq_stats stats(void)
{
	struct rdmamsg_srq_stats s = { .size = sizeof(s) };

	assert_int_equal(rdmamsg_srq_stats(srq, &s), 0);
	return s;
}

static void close_all(void)
{
	for (unsigned int i = 0; i < client.opened; i++)
		if (client.conns[i].ep)
			rdmamsg_ep_close(client.conns[i].ep);
	WAIT_FOR(client.closed == client.opened &&
		 server.closed == server.opened);
}

/* Nothing is lost and nothing is left. */
static void finish(void)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };
	struct rdmamsg_srq_stats s;

	close_all();
	s = stats();
	assert_int_equal(s.endpoints, 0);
	assert_int_equal(s.promised, 0);
	rdmamsg_stats(client.ctx, &st);
	assert_int_equal(st.rnr_errors, 0);
	rdmamsg_srq_close(srq);
	test_close(client.ctx);
	test_close(server.ctx);
}

static void send_from(struct conn *c, uint32_t count, uint32_t len)
{
	c->to_send = c->sent + count;
	c->len = len;
	pour(c);
}

/* ---- the ordinary ----------------------------------------------------- */

static void echo(unsigned int conns, uint32_t each, uint32_t len,
		 const struct rdmamsg_srq_options *opts)
{
	start(opts);
	echoes = true;
	connect_all(conns);
	assert_int_equal(stats().endpoints, conns);
	for (unsigned int i = 0; i < conns; i++)
		send_from(&client.conns[i], each, len);
	WAIT_FOR(client.received == conns * each);
	assert_int_equal(server.received, conns * each);
	if (!opts || opts->overcommit <= 100)
		assert_int_equal(stats().ran_empty, 0);
	close_all();
	assert_int_equal(client.graceful, conns);
	assert_int_equal(server.graceful, conns);
	finish();
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
	/* 10 of 1 and 6, and the batch of 10 */
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
	struct rdmamsg_ep_info info = { .size = sizeof(info) };

	assert_int_equal(rdmamsg_ep_info(c->ep, &info), 0);
	return info.send_credits;
}

static void share__who_uses_it_GETS_MORE(void **state)
{
	struct rdmamsg_srq_options o = { .size = sizeof(o), .depth = 1024 };

	start(&o);
	connect_all(4);
	assert_int_equal(credits(&client.conns[0]), 4);
	send_from(&client.conns[0], 2000, 64);
	WAIT_FOR(server.received == 2000);
	/* its recv_depth: half of them may not have been announced */
	assert_in_range(credits(&client.conns[0]), 32, 64);
	assert_int_equal(credits(&client.conns[1]), 4);
	/* the others are not behind */
	send_from(&client.conns[1], 100, 64);
	WAIT_FOR(server.received == 2100);
	finish();
}

static void share__little_of_it_ALL_GO_ON(void **state)
{
	/* 8 of 2 and 6, the batch of 10, and 6 to share */
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 80, .floor = 2,
	};

	start(&o);
	connect_all(8);
	for (unsigned int i = 0; i < 8; i++)
		send_from(&client.conns[i], 300, 64);
	WAIT_FOR(server.received == 8 * 300);
	assert_int_equal(stats().ran_empty, 0);
	finish();
}

static void share__full_NEXT_IS_REFUSED(void **state)
{
	/* 2 of 4 and 6, the batch of 4 */
	struct rdmamsg_srq_options o = { .size = sizeof(o), .depth = 32 };

	start(&o);
	connect_all(2);
	dial(NULL);
	WAIT_FOR(client.closed == 1);
	assert_int_equal(stats().refused, 1);
	assert_int_equal(stats().endpoints, 2);
	/* there is room again when one has gone */
	rdmamsg_ep_close(client.conns[0].ep);
	WAIT_FOR(client.closed == 2 && server.closed == 1);
	dial(NULL);
	WAIT_FOR(client.connected == 3);
	send_from(&client.conns[3], 50, 64);
	WAIT_FOR(server.received == 50);
	finish();
}

static void share__program_keeps_messages_OTHERS_GO_ON(void **state)
{
	struct rdmamsg_srq_options o = { .size = sizeof(o), .depth = 128 };

	start(&o);
	connect_all(4);
	server.keep = 500;
	send_from(&client.conns[0], 500, 64);
	WAIT_FOR(server.received == 500);
	send_from(&client.conns[1], 100, 64);
	WAIT_FOR(server.received == 600);
	for (unsigned int i = 0; i < server.kept_count; i++)
		rdmamsg_msg_free(server.kept[i]);
	send_from(&client.conns[0], 100, 64);
	WAIT_FOR(server.received == 700);
	finish();
}

/* ---- a pool of the program's ------------------------------------------- */

static struct rdmamsg_pool_stats pool_stats(void)
{
	struct rdmamsg_pool_stats s = { .size = sizeof(s) };

	assert_int_equal(rdmamsg_pool_stats(pool, &s), 0);
	return s;
}

/* Gives the queue back, and then the pool; the listener has it as well. */
static void finish_with_pool(void)
{
	close_all();
	rdmamsg_listener_close(listener);
	assert_error(rdmamsg_pool_destroy(pool), -EBUSY, "shared receive");
	rdmamsg_srq_close(srq);
	assert_int_equal(pool_stats().used, 0);
	assert_int_equal(rdmamsg_pool_destroy(pool), 0);
	test_close(client.ctx);
	test_close(server.ctx);
}

static void pool__of_the_program_IS_USED(void **state)
{
	struct rdmamsg_srq_options o = { .size = sizeof(o), .depth = 128 };

	pool_bytes = SIZE_MAX;
	start(&o);
	echoes = true;
	assert_int_equal(pool_stats().bytes, 0);
	connect_all(4);
	assert_true(pool_stats().used >= stats().posted);
	assert_true(pool_stats().bytes >= stats().bytes_pinned);
	for (unsigned int i = 0; i < 4; i++)
		send_from(&client.conns[i], 300, 0);
	WAIT_FOR(client.received == 1200);
	/* what is large is read into it as well */
	echoes = false;
	for (unsigned int i = 0; i < 4; i++)
		send_from(&client.conns[i], 10, 20000);
	WAIT_FOR(server.received == 1240);
	assert_int_equal(pool_stats().received_rendezvous, 40);
	finish_with_pool();
}

static void pool__at_its_cap_NEXT_IS_REFUSED(void **state)
{
	/* a batch of 32, and 10 for each: 42, then 32 more at once */
	struct rdmamsg_srq_options o = { .size = sizeof(o), .depth = 1024 };

	pool_bytes = 512 << 10;
	start(&o);
	connect_all(1);
	dial(NULL);
	WAIT_FOR(client.closed == 1);
	assert_int_equal(stats().refused, 1);
	assert_int_equal(stats().endpoints, 1);
	assert_true(pool_stats().bytes <= 512 << 10);
	send_from(&client.conns[0], 100, 64);
	WAIT_FOR(server.received == 100);
	/* in the place of the first one there is room again */
	rdmamsg_ep_close(client.conns[0].ep);
	WAIT_FOR(client.closed == 2 && server.closed >= 1);
	dial(NULL);
	WAIT_FOR(client.connected == 2);
	send_from(&client.conns[2], 100, 64);
	WAIT_FOR(server.received == 200);
	assert_int_equal(stats().ran_empty, 0);
	server.closed = server.opened - 1;
	finish_with_pool();
}

/*
 * One that uses its share wants more than the cap leaves, 16 buffers beside 8:
 * who comes then needs 7 of them.
 */
static void pool__too_little_for_one_NEXT_IS_ACCEPTED(void **state)
{
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 1024, .floor = 1,
		.buffer_size = (64 << 10) - 16,
	};

	/* 39 to begin with, then 4, 4 and 7: for a share of 16 */
	pool_bytes = (54 + 8) * (size_t)(64 << 10);
	start(&o);
	connect_all(1);
	send_from(&client.conns[0], 500, 64);
	WAIT_FOR(server.received == 500);
	assert_true(pool_stats().refused > 0);
	connect_all(2);
	assert_int_equal(stats().refused, 0);
	send_from(&client.conns[1], 100, 64);
	WAIT_FOR(server.received == 600);
	assert_int_equal(stats().ran_empty, 0);
	finish_with_pool();
}

static void pool__that_does_not_fit_EINVAL(void **state)
{
	struct rdmamsg_srq_options o = { .size = sizeof(o) };
	struct rdmamsg_options opts = { .size = sizeof(opts), .srq = &o };
	struct rdmamsg *ctx = test_open(NULL), *other = test_open(NULL);
	struct rdmamsg_pool_options po = {
		.size = sizeof(po), .max_bytes = 200000,
	};

	assert_int_equal(rdmamsg_pool_create(other, NULL, &o.recv_pool), 0);
	assert_error(rdmamsg_srq_create(ctx, &o, &srq), -EINVAL,
		     "another context");
	assert_int_equal(rdmamsg_open(&ctx, &opts), -EINVAL);
	assert_int_equal(rdmamsg_pool_destroy(o.recv_pool), 0);
	assert_int_equal(rdmamsg_pool_create(ctx, &po, &o.recv_pool), 0);
	assert_error(rdmamsg_srq_create(ctx, &o, &srq), -EINVAL, "max_bytes");
	assert_int_equal(rdmamsg_pool_destroy(o.recv_pool), 0);
}

/* ---- over-commit ------------------------------------------------------ */

static void share__others_have_gone_FEWER_ARE_POSTED(void **state)
{
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 1024, .floor = 8,
	};
	uint32_t many;

	start(&o);
	echoes = true;
	connect_all(20);
	many = stats().posted;
	assert_true(many >= 20 * 8);
	for (unsigned int i = 1; i < 20; i++)
		rdmamsg_ep_close(client.conns[i].ep);
	WAIT_FOR(client.closed == 19 && server.closed == 19);
	/* one at a time: what has been used is not posted again */
	for (uint32_t i = 1; i <= 2 * many; i++) {
		send_from(&client.conns[0], 1, 64);
		WAIT_FOR(client.received == i);
	}
	assert_in_range(stats().posted, 8, many / 2);
	/* for those that come, there are as many as before */
	for (unsigned int i = 0; i < 20; i++)
		dial(NULL);
	WAIT_FOR(client.connected == 40 && server.connected == 40);
	assert_true(stats().posted >= 20 * 8);
	assert_int_equal(stats().ran_empty, 0);
	finish();
}

static void overcommit__eightfold_ARRIVES(void **state)
{
	/* more than there is to receive: RNR delays, nothing is lost */
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 16, .overcommit = 800,
	};

	echo(10, 300, 64, &o);
}

static void overcommit__IS_COUNTED(void **state)
{
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 16, .overcommit = 800,
	};

	start(&o);
	connect_all(10);
	for (unsigned int i = 0; i < 10; i++)
		send_from(&client.conns[i], 100, 64);
	/* the server sleeps meanwhile: they fill its receives and more */
	for (int i = 0; i < 20; i++) {
		test_drive(client.ctx);
		usleep(1000);
	}
	WAIT_FOR(server.received == 1000);
	assert_true(stats().ran_empty > 0);
	finish();
}

/* ---- ends ------------------------------------------------------------- */

static void abort__with_messages_queued_OTHERS_GO_ON(void **state)
{
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 80, .floor = 8,
	};

	start(&o);
	for (int round = 0; round < 30; round++) {
		unsigned int was = client.connected;
		uint32_t got;

		dial(NULL);
		dial(NULL);
		WAIT_FOR(client.connected == was + 2 &&
			 server.connected == was + 2);
		/* in the server's queue when the server gives up */
		send_from(&client.conns[was], 8, 64);
		send_from(&client.conns[was + 1], 8, 64);
		test_drive(client.ctx);
		got = server.conns[was + 1].received;
		rdmamsg_ep_abort(server.conns[was].ep);
		WAIT_FOR(server.conns[was + 1].received == got + 8);
		rdmamsg_ep_abort(client.conns[was + 1].ep);
		WAIT_FOR(client.closed == was + 2 && server.closed == was + 2);
	}
	assert_int_equal(stats().ran_empty, 0);
	finish();
}

static void close__before_its_endpoints_LASTS(void **state)
{
	start(NULL);
	connect_all(3);
	rdmamsg_srq_close(srq);
	rdmamsg_listener_close(listener);
	send_from(&client.conns[2], 100, 64);
	WAIT_FOR(server.received == 100);
	close_all();
	test_close(server.ctx);
	test_close(client.ctx);
}

static void close__context_with_all_of_it_LEAKS_NOTHING(void **state)
{
	start(NULL);
	connect_all(3);
	send_from(&client.conns[2], 100, 64);
	test_close(server.ctx);
	WAIT_FOR(client.closed == 3);
	test_close(client.ctx);
}

/* ---- options ---------------------------------------------------------- */

static void options__out_of_range_EINVAL(void **state)
{
	static const struct {
		struct rdmamsg_srq_options o;
		const char *word;
	} bad[] = {
		{ { .depth = 15 }, "depth" },
		{ { .depth = (1 << 20) + 1 }, "depth" },
		{ { .buffer_size = (1 << 20) + 1 }, "buffer_size" },
		{ { .floor = 5000 }, "floor" },
		{ { .overcommit = 99 }, "overcommit" },
		{ { .depth = 100, .limit = 101 }, "limit" },
	};
	struct rdmamsg *ctx = test_open(NULL);

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct rdmamsg_srq_options o = bad[i].o;

		o.size = sizeof(o);
		assert_error(rdmamsg_srq_create(ctx, &o, &srq), -EINVAL,
			     bad[i].word);
	}
	assert_error(rdmamsg_srq_create(ctx, NULL, NULL), -EINVAL, "NULL");
	assert_error(rdmamsg_srq_create(NULL, NULL, &srq), -EINVAL, "NULL");
	rdmamsg_srq_close(NULL);
}

static void options__of_another_context_EINVAL(void **state)
{
	struct rdmamsg_ep_options ep = ep_options();
	struct rdmamsg_ep *ret;

	start(NULL);
	ep.srq = srq;
	assert_error(rdmamsg_connect(client.ctx, test_addr(), service, &ep,
				     &ret), -EINVAL, "another context");
	finish();
}

static void options__beyond_the_device_EINVAL(void **state)
{
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 1 << 20,
	};

	if (!test_on_soft())
		skip_because("the limit of this device is not known");
	start(&o);
	dial(NULL);
	WAIT_FOR(client.closed == 1);
	finish();
}

static void event__limit_reached_IS_COUNTED(void **state)
{
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = 64, .limit = 40,
	};

	start(&o);
	connect_all(2);
	/* no more than 28 are posted yet */
	send_from(&client.conns[0], 40, 64);
	WAIT_FOR(stats().limit_events > 0);
	finish();
}

/* ---- completion queues ------------------------------------------------ */

static void cq__of_its_own_WORKS(void **state)
{
	struct rdmamsg_ep_options ep = ep_options();

	start(NULL);
	ep.flags = RDMAMSG_EP_OWN_CQ;
	dial(&ep);
	dial(NULL);
	dial(&ep);
	WAIT_FOR(client.connected == 3);
	for (int i = 0; i < 3; i++)
		send_from(&client.conns[i], 200, 0);
	WAIT_FOR(server.received == 600);
	rdmamsg_ep_abort(client.conns[0].ep);
	WAIT_FOR(client.closed == 1);
	send_from(&client.conns[2], 200, 0);
	WAIT_FOR(server.received == 800);
	finish();
}

static void cq__vector_that_is_none_EINVAL(void **state)
{
	struct rdmamsg_ep_options ep = ep_options();

	start(NULL);
	ep.comp_vector = 60000;
	dial(&ep);
	WAIT_FOR(client.closed == 1);
	assert_int_equal(client.last_error, -EINVAL);
	assert_non_null(strstr(client.last_text, "comp_vector"));
	finish();
}

/* ---- estimates -------------------------------------------------------- */

static uint64_t registered(const struct side *s)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_stats(s->ctx, &st), 0);
	return st.bytes_registered;
}

static void estimate__of_idle_ones_IS_WHAT_THEY_TAKE(void **state)
{
	struct rdmamsg_srq_options o = { .size = sizeof(o), .depth = 512 };
	struct rdmamsg_estimate own = { .size = sizeof(own) };
	struct rdmamsg_estimate one = { .size = sizeof(one) };

	start(&o);
	connect_all(20);
	assert_int_equal(rdmamsg_estimate(NULL, NULL, 20, &own), 0);
	assert_int_equal(rdmamsg_estimate(NULL, &o, 20, &one), 0);
	assert_int_equal(registered(&client), own.pinned_idle);
	/* those that come one by one may waste a part of a slab */
	assert_in_range(registered(&server), one.pinned_idle / 2,
			2 * one.pinned_idle);
	assert_true(own.pinned_most > own.pinned_idle);
	assert_true(one.pinned_most > one.pinned_idle);
	assert_true(one.pinned_most < own.pinned_most);
	finish();
}

static void estimate__bad_options_EINVAL(void **state)
{
	struct rdmamsg_estimate e = { .size = sizeof(e) };
	struct rdmamsg_ep_options ep = ep_options();
	struct rdmamsg_srq_options o = { .size = sizeof(o), .depth = 1 };

	assert_error(rdmamsg_estimate(NULL, &o, 1, &e), -EINVAL, "depth");
	ep.recv_depth = 1 << 20;
	assert_error(rdmamsg_estimate(&ep, NULL, 1, &e), -EINVAL, "recv_depth");
	assert_error(rdmamsg_estimate(NULL, NULL, 1, NULL), -EINVAL, "struct");
	assert_int_equal(rdmamsg_estimate(NULL, NULL, 0, &e), 0);
	assert_int_equal(e.pinned_most, 0);
}

/* ---- many ------------------------------------------------------------- */

static void many__ALL_ARE_SERVED(void **state)
{
	/* what the test machine can take; the soft HCA takes a thousand */
	const unsigned int n = test_on_soft() ? MOST : 100;
	struct rdmamsg_srq_options o = {
		.size = sizeof(o), .depth = n * 12, .floor = 2,
	};
	struct rdmamsg_ep_info info = { .size = sizeof(info) };

	start(&o);
	echoes = true;
	connect_all(n);
	rdmamsg_ep_info(server.conns[0].ep, &info);
	assert_true(info.bytes_private < 8192);
	for (unsigned int i = 0; i < n; i++)
		send_from(&client.conns[i], 5, 64);
	WAIT_FOR(client.received == 5 * n);
	assert_int_equal(stats().ran_empty, 0);
	finish();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(options__out_of_range_EINVAL),
		TEST(options__of_another_context_EINVAL),
		TEST(options__beyond_the_device_EINVAL),
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
		TEST(share__others_have_gone_FEWER_ARE_POSTED),
		TEST(pool__of_the_program_IS_USED),
		TEST(pool__at_its_cap_NEXT_IS_REFUSED),
		TEST(pool__too_little_for_one_NEXT_IS_ACCEPTED),
		TEST(pool__that_does_not_fit_EINVAL),
		TEST(overcommit__eightfold_ARRIVES),
		TEST(overcommit__IS_COUNTED),
		TEST(abort__with_messages_queued_OTHERS_GO_ON),
		TEST(close__before_its_endpoints_LASTS),
		TEST(close__context_with_all_of_it_LEAKS_NOTHING),
		TEST(event__limit_reached_IS_COUNTED),
		TEST(cq__of_its_own_WORKS),
		TEST(cq__vector_that_is_none_EINVAL),
		TEST(estimate__of_idle_ones_IS_WHAT_THEY_TAKE),
		TEST(estimate__bad_options_EINVAL),
		TEST(many__ALL_ARE_SERVED),
	};

	return test_main(tests, NULL, argc, argv);
}
