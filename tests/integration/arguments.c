/* SPDX-License-Identifier: BSD-2-Clause */
/* Wrong options and arguments: the error text names the wrong one. */
#include "common.h"
#include "request.h"

#include <rdmamsg/chain.h>
#include <rdmamsg/dc.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/verbs.h>

static struct pair p;

/* ---- options ---------------------------------------------------------- */

#define FIELD(name, value) \
	{ #name, offsetof(struct rdmamsg_ep_options, name), (value), false }
#define TUNED(name, value) \
	{ #name, offsetof(struct rdmamsg_ep_tuning, name), (value), true }

static const struct {
	const char *name;
	size_t offset;
	uint32_t value;
	bool tuned;
} bad_fields[] = {
	FIELD(flags, 1u << 31),
	FIELD(timeout_ms, 86400001),
	FIELD(max_msg_size, 0x80000000u),
	TUNED(max_copy, 0x80000000u),
	TUNED(inline_max, 513),
	TUNED(eager_max, (1 << 20) + 1),
	TUNED(recv_depth, 65537),
	TUNED(recv_depth, RDMAMSG_NONE),
	TUNED(send_depth, 65537),
	TUNED(send_depth, RDMAMSG_NONE),
	FIELD(send_queue, 65537),
	FIELD(dead_after_ms, 9),
	FIELD(dead_after_ms, 86400001),
	TUNED(stall_after_ms, 9),
	TUNED(stall_after_ms, 86400001),
	TUNED(peer_timeout_ms, 9),
	TUNED(peer_timeout_ms, 86400001),
	TUNED(fetch_timeout_ms, 9),
	TUNED(fetch_timeout_ms, 86400001),
	FIELD(close_timeout_ms, 86400001),
	TUNED(ack_timeout, 32),
	TUNED(retry_count, 8),
	TUNED(rnr_retry_count, 8),
	TUNED(min_rnr_timer, 32),
	TUNED(responder_resources, 256),
	TUNED(initiator_depth, 256),
	TUNED(tos, 256),
	TUNED(create_flags, 1u << 20),
};

/* Checks the options for an endpoint, and for those that a listener accepts. */
static void check_ep_options(const struct rdmamsg_ep_options *opts,
			     const char *word)
{
	struct rdmamsg_listen_options listen = {
		.size = sizeof(listen), .ep = opts,
	};
	struct rdmamsg_ep *ep;
	int ret = rdmamsg_connect(p.c.ctx, test_addr(), "1", opts, &ep);

	if (ret != -EINVAL || !strstr(rdmamsg_error(), word))
		fail_msg("connect, %s: %d, %s", word, ret, rdmamsg_error());
	ret = rdmamsg_listen(p.s.ctx, test_addr(), "0", &listen, NULL);
	if (ret != -EINVAL || !strstr(rdmamsg_error(), word))
		fail_msg("listen, %s: %d, %s", word, ret, rdmamsg_error());
}

static void options__of_endpoints_out_of_range_NAMED(void **state)
{
	static const uint8_t data[RDMAMSG_SETUP_DATA_MAX + 1];
	struct rdmamsg_ep_options o;
	struct rdmamsg_ep_tuning t;

	pair_init(&p, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(bad_fields); i++) {
		o = p.c.opts;
		t = p.c.tuning;
		o.tuning = &t;
		memcpy((bad_fields[i].tuned ? (char *)&t : (char *)&o) +
		       bad_fields[i].offset, &bad_fields[i].value,
		       sizeof(uint32_t));
		check_ep_options(&o, bad_fields[i].name);
	}
	o = p.c.opts;
	o.hello_data = data;
	o.hello_data_len = RDMAMSG_HELLO_DATA_MAX + 1;
	check_ep_options(&o, "hello_data_len");
	o.hello_data = NULL;
	o.hello_data_len = 1;
	check_ep_options(&o, "hello_data");
	o = p.c.opts;
	o.setup_data = data;
	o.setup_data_len = RDMAMSG_SETUP_DATA_MAX + 1;
	check_ep_options(&o, "setup_data_len");
	o.setup_data = NULL;
	o.setup_data_len = 1;
	check_ep_options(&o, "setup_data");
	pair_fini(&p);
}

static const size_t bad_sizes[] = { 0, 1, sizeof(size_t) - 1, 4097, SIZE_MAX };

static void options__struct_sizes_out_of_range_NAMED(void **state)
{
	struct rdmamsg_ep_options ep_opts;
	struct rdmamsg_ep_tuning tuning;
	struct rdmamsg_ep_handlers on;

	pair_init(&p, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(bad_sizes); i++) {
		struct rdmamsg_options opts = { .size = bad_sizes[i] };
		struct rdmamsg_listen_options listen = { .size = bad_sizes[i] };
		struct rdmamsg_stats stats = { .size = bad_sizes[i] };
		struct rdmamsg *ctx;

		assert_error(rdmamsg_open(&ctx, &opts), -EINVAL,
			     "rdmamsg_options");
		assert_error(rdmamsg_listen(p.s.ctx, test_addr(), "0", &listen,
					    NULL), -EINVAL,
			     "rdmamsg_listen_options");
		ep_opts = p.c.opts;
		ep_opts.size = bad_sizes[i];
		check_ep_options(&ep_opts, "rdmamsg_ep_options");
		tuning = p.c.tuning;
		tuning.size = bad_sizes[i];
		ep_opts = p.c.opts;
		ep_opts.tuning = &tuning;
		check_ep_options(&ep_opts, "rdmamsg_ep_tuning");
		on = p.c.on;
		on.size = bad_sizes[i];
		ep_opts = p.c.opts;
		ep_opts.handlers = &on;
		check_ep_options(&ep_opts, "rdmamsg_ep_handlers");
		assert_error(rdmamsg_get_stats(p.s.ctx, &stats), -EINVAL,
			     "size");
	}
	pair_fini(&p);
}

/* The library accepts a newer program's options if the unknown fields are 0. */
static void options__longer_struct_ONLY_WITH_ZEROS(void **state)
{
	struct {
		struct rdmamsg_options opts;
		uint64_t more;
	} o = { .opts.size = sizeof(o) };
	struct {
		struct rdmamsg_stats stats;
		uint64_t more;
	} s = { .stats.size = sizeof(s), .more = 7 };
	struct rdmamsg *ctx = test_open(&o.opts);

	assert_int_equal(rdmamsg_get_stats(ctx, &s.stats), 0);
	assert_int_equal(s.more, 0);
	assert_int_equal(s.stats.size, sizeof(s));
	o.more = 1;
	assert_error(rdmamsg_open(&ctx, &o.opts), -EINVAL, "does not know");
}

/* An older program has fewer fields: the rest are defaults, or not filled. */
static void options__shorter_struct_IS_FINE(void **state)
{
	struct rdmamsg_stats s;
	struct rdmamsg_options o = {
		.size = offsetof(struct rdmamsg_options, spin_us),
		.spin_us = 0xffffff, .submit_depth = 0xffffff,
	};
	struct rdmamsg *ctx = test_open(&o);

	memset(&s, 0x55, sizeof(s));
	s.size = offsetof(struct rdmamsg_stats, msgs_received);
	assert_int_equal(rdmamsg_get_stats(ctx, &s), 0);
	assert_int_equal(s.msgs_sent, 0);
	assert_int_equal(s.msgs_received, 0x5555555555555555ull);

	pair_init(&p, NULL);
	p.c.opts.size = offsetof(struct rdmamsg_ep_options, source);
	p.c.opts.source = "not looked at";
	p.s.tuning.size = offsetof(struct rdmamsg_ep_tuning, tos);
	p.s.tuning.tos = 999;
	pair_listen(&p);
	pair_connect(&p);
	end_send_all(&p.c, HOW_SEND, 100, 1);
	pair_close(&p);
	pair_fini(&p);
}

/* ---- handlers --------------------------------------------------------- */

static int listen_with(const void *on)
{
	const struct rdmamsg_listen_options o = {
		.size = sizeof(o), .handlers = on,
	};

	return rdmamsg_listen(p.s.ctx, test_addr(), "0", &o, NULL);
}

static int open_with(const void *on)
{
	const struct rdmamsg_options o = { .size = sizeof(o), .handlers = on };
	struct rdmamsg *ctx;
	int ret = rdmamsg_open(&ctx, &o);

	if (!ret)
		rdmamsg_close(ctx);
	return ret;
}

static int create_chain_with(const void *on)
{
	const struct rdmamsg_chain_options o = {
		.size = sizeof(o), .handlers = on,
	};
	struct rdmamsg_chain *chain;

	return rdmamsg_chain_create(p.c.ctx, &o, &chain);
}

static int create_team_with(const void *on)
{
	const struct rdmamsg_team_options o = {
		.size = sizeof(o), .handlers = on,
	};
	struct rdmamsg_ep *eps[1] = { NULL };
	struct rdmamsg_team *team;

	return rdmamsg_team_create(p.c.ctx, &o, eps, 1, 0, &team);
}

static int create_qp_with(const void *on)
{
	const struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = test_device(), .handlers = on,
	};
	struct rdmamsg_qp *qp;
	int ret = rdmamsg_qp_create(p.c.ctx, &o, &qp);

	/* iWARP has no such queue pairs, which is checked later */
	return ret == -EOPNOTSUPP && test_iwarp() ? 0 : ret;
}

static const struct taker {
	const char *name;
	size_t size;
	int (*take)(const void *on);
} takers[] = {
	{ "rdmamsg_ctx_handlers", sizeof(struct rdmamsg_ctx_handlers),
	  open_with },
	{ "rdmamsg_listener_handlers",
	  sizeof(struct rdmamsg_listener_handlers), listen_with },
	{ "rdmamsg_chain_handlers", sizeof(struct rdmamsg_chain_handlers),
	  create_chain_with },
	{ "rdmamsg_team_handlers", sizeof(struct rdmamsg_team_handlers),
	  create_team_with },
	{ "rdmamsg_qp_handlers", sizeof(struct rdmamsg_qp_handlers),
	  create_qp_with },
};

static void check_handlers(const struct taker *t)
{
	union {
		size_t size;
		uint8_t bytes[256];
	} on = { 0 };

	assert_int_equal(t->take(NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad_sizes); i++) {
		on.size = bad_sizes[i];
		assert_error(t->take(&on), -EINVAL, t->name);
	}
	on.size = sizeof(on.size);
	assert_int_equal(t->take(&on), 0);
	on.size = t->size + sizeof(uint64_t);
	assert_int_equal(t->take(&on), 0);
	on.bytes[t->size] = 1;
	assert_error(t->take(&on), -EINVAL, "does not know");
}

static void handlers__struct_sizes_ARE_CHECKED(void **state)
{
	pair_init(&p, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(takers); i++)
		check_handlers(&takers[i]);
	pair_fini(&p);
}

static unsigned int shutdowns;

static void count_shutdown(struct rdmamsg *ctx, uint32_t failed)
{
	shutdowns++;
}

static void handlers__struct_IS_COPIED(void **state)
{
	struct rdmamsg_ctx_handlers of_ctx = {
		.size = sizeof(of_ctx), .on_shutdown = count_shutdown,
	};
	struct rdmamsg_listener_handlers of_listener = {
		.size = sizeof(of_listener), .on_request = pair_on_request,
	};
	const struct rdmamsg_options o = {
		.size = sizeof(o), .handlers = &of_ctx,
	};
	const struct rdmamsg_listen_options l = {
		.size = sizeof(l), .user = &p, .handlers = &of_listener,
	};

	shutdowns = 0;
	pair_init(&p, &o);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &l, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	memset(&of_ctx, 0xff, sizeof(of_ctx));
	memset(&of_listener, 0xff, sizeof(of_listener));
	listener_service(p.listener, p.port);
	pair_connect(&p);
	pair_close(&p);
	assert_int_equal(rdmamsg_shutdown_wait(p.c.ctx, WAIT_MS), 0);
	assert_int_equal(shutdowns, 1);
	pair_fini(&p);
}

/* ---- declared, and not built yet --------------------------------------- */

static void check_declared(const struct rdmamsg_ep_options *opts,
			   const char *word)
{
	const struct rdmamsg_listen_options listen = {
		.size = sizeof(listen), .ep = opts,
	};

	assert_error(rdmamsg_connect(p.c.ctx, test_addr(), "1", opts, NULL),
		     -EOPNOTSUPP, word);
	assert_error(rdmamsg_oob_offer(p.c.ctx, opts, &p.c.ep), -EOPNOTSUPP,
		     word);
	assert_error(rdmamsg_listen(p.s.ctx, test_addr(), "0", &listen, NULL),
		     -EOPNOTSUPP, word);
	/* the peer learns of it as of any reject */
	waiting_count = 0;
	p.c.closed = 0;
	dial(&p.c, test_addr(), p.port, WAIT_MS);
	WAIT_FOR(waiting_count);
	assert_error(rdmamsg_request_accept(waiting[0], opts, NULL),
		     -EOPNOTSUPP,
		     word);
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
}

static void declared__of_endpoints_EOPNOTSUPP(void **state)
{
	const struct rdmamsg_reconnect reconnect = {
		.size = sizeof(reconnect),
	};
	const struct rdmamsg_on_demand on_demand = {
		.size = sizeof(on_demand),
	};
	const struct rdmamsg_ep_dc dc = { .size = sizeof(dc) };
	const struct rdmamsg_ep_options cases[] = {
		{ .size = sizeof(cases[0]), .reconnect = &reconnect },
		{ .size = sizeof(cases[0]), .on_demand = &on_demand },
		{ .size = sizeof(cases[0]), .dc = &dc },
	};
	static const char *const words[] = { "reconnect", "on_demand", "dc" };

	listen_put_off(&p);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_declared(&cases[i], words[i]);
	pair_fini(&p);
}

static void declared__of_contexts_and_listeners_EOPNOTSUPP(void **state)
{
	const struct rdmamsg_options o = { .size = sizeof(o), .max_lanes = 64 };
	const struct rdmamsg_listen_dc dc = { .size = sizeof(dc) };
	const struct rdmamsg_listen_options l = {
		.size = sizeof(l), .dc = &dc,
	};
	struct rdmamsg *ctx;

	assert_error(rdmamsg_open(&ctx, &o), -EOPNOTSUPP, "max_lanes");
	pair_init(&p, NULL);
	assert_error(rdmamsg_listen(p.s.ctx, test_addr(), "0", &l, NULL),
		     -EOPNOTSUPP, "dc");
	pair_fini(&p);
}

static void note_disconnected(struct rdmamsg_ep *ep,
			      const struct rdmamsg_disconnect_event *event)
{
	note("on_disconnected without the option");
}

static void note_violation(struct rdmamsg_listener *l,
			   const struct sockaddr_storage *from)
{
	note("on_violation without the option");
}

/* Programs may set the handlers already. */
static void declared__handlers_alone_ARE_FINE(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_violation = note_violation,
	};
	struct rdmamsg_listen_options l = {
		.size = sizeof(l), .handlers = &on,
	};

	pair_init(&p, NULL);
	p.s.on.on_disconnected = p.c.on.on_disconnected = note_disconnected;
	l.ep = &p.s.opts;
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &l, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	dial(&p.c, test_addr(), listener_service(p.listener, p.port), WAIT_MS);
	WAIT_FOR(p.c.connected && p.s.connected);
	rdmamsg_ep_abort(p.c.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	pair_fini(&p);
}

static void options__of_contexts_and_listeners_NAMED(void **state)
{
	struct rdmamsg_options o = { .size = sizeof(o) };
	struct rdmamsg_listen_options l = {
		.size = sizeof(l), .backlog = 65536,
	};
	struct rdmamsg *ctx;

	o.spin_us = 1000001;
	assert_error(rdmamsg_open(&ctx, &o), -EINVAL, "spin_us");
	o.spin_us = RDMAMSG_NONE;
	o.submit_depth = (1 << 20) + 1;
	assert_error(rdmamsg_open(&ctx, &o), -EINVAL, "submit_depth");
	o.submit_depth = RDMAMSG_NONE;
	assert_error(rdmamsg_open(&ctx, &o), -EINVAL, "submit_depth");
	o.submit_depth = 1 << 20;
	ctx = test_open(&o);
	assert_error(rdmamsg_listen(ctx, test_addr(), "0", &l, NULL), -EINVAL,
		     "backlog");
}

/* ---- arguments -------------------------------------------------------- */

static void move_never(struct rdmamsg *ctx, struct rdmamsg_request *req,
		       void *arg)
{
	note("a request that could not be moved was");
}

static void line_never(void *arg, const char *text)
{
	note("a dump of no context: %s", text);
}

static void arguments__NULL_context_EINVAL(void **state)
{
	struct rdmamsg_stats stats = { .size = sizeof(stats) };
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_listener *l;
	struct rdmamsg_ep *ep;

	assert_error(rdmamsg_open(NULL, NULL), -EINVAL, "ret");
	assert_error(rdmamsg_fd(NULL), -EINVAL, "context");
	assert_error(rdmamsg_process(NULL), -EINVAL, "context");
	assert_error(rdmamsg_poll(NULL), -EINVAL, "context");
	assert_error(rdmamsg_wait(NULL, 0), -EINVAL, "context");
	assert_error(rdmamsg_run(NULL), -EINVAL, "context");
	assert_error(rdmamsg_connect(NULL, "a", "1", NULL, &ep), -EINVAL,
		     "context");
	assert_error(rdmamsg_connect_wait(NULL, "a", "1", NULL, 0, &ep),
		     -EINVAL, "context");
	assert_error(rdmamsg_listen(NULL, "a", "1", NULL, &l), -EINVAL,
		     "context");
	assert_error(rdmamsg_get_stats(NULL, &stats), -EINVAL, "context");
	rdmamsg_stop(NULL);
	rdmamsg_dump(NULL, line_never, NULL);
	rdmamsg_dump(ctx, NULL, NULL);
	rdmamsg_close(NULL);

	assert_error(rdmamsg_connect(ctx, NULL, "1", NULL, &ep), -EINVAL,
		     "host");
	assert_error(rdmamsg_connect(ctx, test_addr(), NULL, NULL, &ep),
		     -EINVAL, "service");
	assert_error(rdmamsg_connect(ctx, test_addr(), "0", NULL, &ep),
		     -EINVAL, "port to connect to is 0");
	assert_error(rdmamsg_oob_connect(ctx, test_addr(), "00", NULL, &ep),
		     -EINVAL, "port to connect to is 0");
	assert_error(rdmamsg_listen(ctx, NULL, NULL, NULL, &l), -EINVAL,
		     "service");
	assert_error(rdmamsg_get_stats(ctx, NULL), -EINVAL, "struct");
}

static void arguments__NULL_endpoint_EINVAL(void **state)
{
	struct rdmamsg_ep_attr info = { .size = sizeof(info) };
	struct rdmamsg_stats stats = { .size = sizeof(stats) };
	struct iovec iov = { (char[]){ "x" }, 1 };
	struct rdmamsg_msg *msg;

	assert_error(rdmamsg_ep_query(NULL, &info), -EINVAL, "endpoint");
	assert_error(rdmamsg_ep_get_stats(NULL, &stats), -EINVAL, "endpoint");
	assert_error(rdmamsg_send(NULL, "x", 1, 0, NULL), -EINVAL, "NULL");
	assert_error(rdmamsg_sendv(NULL, &iov, 1, 0, NULL), -EINVAL, "NULL");
	assert_error(rdmamsg_msg_send(NULL, NULL, 0, NULL), -EINVAL, "NULL");
	assert_error(rdmamsg_msg_alloc(NULL, 1, &msg), -EINVAL, "endpoint");
	assert_error(rdmamsg_send_wait(NULL, "x", 1, 0, 0), -EINVAL,
		     "endpoint");
	assert_error(rdmamsg_recv_wait(NULL, 0, &msg), -EINVAL, "endpoint");
	assert_error(rdmamsg_ep_close_wait(NULL, 0), -EINVAL, "endpoint");
	assert_error(rdmamsg_shutdown(NULL, 0), -EINVAL, "context");
	assert_error(rdmamsg_shutdown_wait(NULL, 0), -EINVAL, "context");
	rdmamsg_ep_close(NULL);
	rdmamsg_ep_abort(NULL);
	assert_error(rdmamsg_ep_close_with(NULL, 1, "x", 1), -EINVAL,
		     "endpoint");
	assert_error(rdmamsg_ep_abort_with(NULL, 1, "x", 1), -EINVAL,
		     "endpoint");
	rdmamsg_ep_hold(NULL);
	rdmamsg_ep_release(NULL);
	rdmamsg_msg_free(NULL);
	assert_error(rdmamsg_msg_ref(NULL), -EINVAL, "NULL");
	assert_error(rdmamsg_msg_set_len(NULL, 0), -EINVAL, "NULL");
}

static void arguments__NULL_request_and_listener_EINVAL(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);
	struct sockaddr_storage addr;
	struct rdmamsg_ep *ep;

	assert_error(rdmamsg_request_addrs(NULL, &addr, &addr), -EINVAL,
		     "request");
	assert_error(rdmamsg_request_accept(NULL, NULL, &ep), -EINVAL,
		     "request");
	assert_error(rdmamsg_request_reject(NULL, NULL, 0), -EINVAL, "request");
	assert_error(rdmamsg_request_move(NULL, ctx, move_never, NULL), -EINVAL,
		     "request");
	assert_error(rdmamsg_listener_accept_wait(NULL, NULL, 0, &ep), -EINVAL,
		     "listener");
	rdmamsg_listener_close(NULL);
}

static void arguments__of_a_connected_endpoint_EINVAL(void **state)
{
	struct rdmamsg_ep_attr info = { .size = 1 };
	struct rdmamsg_msg *msg;

	pair_open(&p);
	assert_error(rdmamsg_ep_query(p.c.ep, &info), -EINVAL, "size");
	assert_error(rdmamsg_ep_query(p.c.ep, NULL), -EINVAL, "struct");
	assert_error(rdmamsg_ep_get_stats(p.c.ep, NULL), -EINVAL, "struct");
	assert_error(rdmamsg_msg_alloc(p.c.ep, 1, NULL), -EINVAL, "ret");
	assert_error(rdmamsg_msg_send(p.c.ep, NULL, 0, NULL), -EINVAL,
		     "message");
	assert_int_equal(rdmamsg_msg_alloc(p.c.ep, 100, &msg), 0);
	assert_error(rdmamsg_msg_set_len(msg, 100000), -EINVAL, "100000");
	rdmamsg_msg_free(msg);
	pair_close(&p);
	pair_fini(&p);
}

static void arguments__of_a_request_EINVAL(void **state)
{
	uint8_t data[RDMAMSG_HELLO_DATA_MAX + 1] = { 0 };

	listen_put_off(&p);
	dial(&p.c, test_addr(), p.port, WAIT_MS);
	WAIT_FOR(waiting_count);
	assert_int_equal(rdmamsg_request_addrs(waiting[0], NULL, NULL), 0);
	assert_error(rdmamsg_request_move(waiting[0], NULL, move_never, NULL),
		     -EINVAL, "context");
	assert_error(rdmamsg_request_move(waiting[0], p.c.ctx, NULL, NULL),
		     -EINVAL, "fn");
	/* the request ends, whatever rdmamsg_request_reject() returns */
	assert_error(rdmamsg_request_reject(waiting[0], data, sizeof(data)),
		     -EINVAL,
		     "32");
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_REJECTED);
	assert_int_equal(p.c.why.data_len, 0);
	pair_fini(&p);
}

static void team__of_an_endpoint_with_on_message_EINVAL(void **state)
{
	struct rdmamsg_ep *eps[2] = { NULL };
	struct rdmamsg_team *team;

	pair_open(&p);
	eps[1] = p.c.ep;
	assert_error(rdmamsg_team_create(p.c.ctx, NULL, eps, 2, 0, &team),
		     -EINVAL, "member 1 has on_message");
	/* its messages are not for chains */
	end_send_all(&p.s, HOW_SEND, 1, 0);
	pair_close(&p);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(options__of_endpoints_out_of_range_NAMED),
		TEST(options__struct_sizes_out_of_range_NAMED),
		TEST(options__longer_struct_ONLY_WITH_ZEROS),
		TEST(options__shorter_struct_IS_FINE),
		TEST(options__of_contexts_and_listeners_NAMED),
		TEST(handlers__struct_sizes_ARE_CHECKED),
		TEST(handlers__struct_IS_COPIED),
		TEST(declared__of_endpoints_EOPNOTSUPP),
		TEST(declared__of_contexts_and_listeners_EOPNOTSUPP),
		TEST(declared__handlers_alone_ARE_FINE),
		TEST(arguments__NULL_context_EINVAL),
		TEST(arguments__NULL_endpoint_EINVAL),
		TEST(arguments__NULL_request_and_listener_EINVAL),
		TEST(arguments__of_a_connected_endpoint_EINVAL),
		TEST(arguments__of_a_request_EINVAL),
		TEST(team__of_an_endpoint_with_on_message_EINVAL),
	};

	return test_main(tests, NULL, argc, argv);
}
