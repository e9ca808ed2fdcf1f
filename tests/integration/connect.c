/* SPDX-License-Identifier: BSD-2-Clause */
/* Connecting, accepting, closing: addresses, data, limits, every state. */
#include "common.h"
#include "harm.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>

static struct pair p;

/* ---- addresses -------------------------------------------------------- */

static void listen_at(const char *host, const char *service)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = &p,
		.on_request = pair_on_request,
	};

	if (rdmamsg_listen(p.s.ctx, host, service, &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(p.listener, p.port);
}

static void exchange(void)
{
	WAIT_FOR((p.c.connected && p.s.connected) || p.c.closed || p.s.closed);
	if (p.c.closed || p.s.closed)
		fail_msg("%s", p.c.closed ? p.c.why.text : p.s.why.text);
	assert_int_equal(end_send(&p.c, HOW_SEND, 10, 1), 0);
	assert_int_equal(end_send(&p.s, HOW_SENDV, 100000, 2), 0);
	pair_close(&p);
}

static void connect_to(const char *listen_host, const char *host,
		       const char *source, const char *device)
{
	pair_init(&p, NULL);
	p.c.opts.source = source;
	p.c.opts.device = device;
	listen_at(listen_host, "0");
	if (rdmamsg_connect(p.c.ctx, host, p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect(%s): %s", host, rdmamsg_error());
	exchange();
	pair_fini(&p);
}

static void connect__ipv4_and_ipv6_CONNECT(void **state)
{
	connect_to(test_addr(), test_addr(), NULL, NULL);
	connect_to(test_addr6(), test_addr6(), NULL, NULL);
}

static void connect__wildcard_listener_TAKES_BOTH(void **state)
{
	connect_to(NULL, test_addr(), NULL, NULL);
	connect_to(NULL, test_addr6(), NULL, NULL);
}

static void connect__name_IS_RESOLVED(void **state)
{
	connect_to(NULL, test_name(), NULL, NULL);
	connect_to(NULL, test_on_soft() ? "localhost" : "rxe-host6", NULL, NULL);
	connect_to(test_name(), test_addr(), NULL, NULL);
}

static void connect__source_address_and_device_ARE_USED(void **state)
{
	connect_to(NULL, test_addr(), test_addr(), NULL);
	connect_to(NULL, test_addr6(), test_addr6(), NULL);
	connect_to(NULL, test_addr(), NULL, test_device());
	connect_to(NULL, test_addr6(), NULL, test_device());
	connect_to(NULL, test_addr(), test_addr(), test_device());
}

static void connect__bad_source_or_device_FAILS_AT_ONCE(void **state)
{
	struct rdmamsg_ep *ep;

	pair_init(&p, NULL);
	p.c.opts.source = test_name();
	assert_error(rdmamsg_connect(p.c.ctx, test_addr(), "1", &p.c.opts, &ep),
		     -EINVAL, "source");
	p.c.opts.source = "192.0.2.7";
	assert_int_not_equal(rdmamsg_connect(p.c.ctx, test_addr(), "1",
					     &p.c.opts, &ep), 0);
	p.c.opts.source = NULL;
	p.c.opts.device = "nosuch0";
	assert_error(rdmamsg_connect(p.c.ctx, test_addr(), "1", &p.c.opts, &ep),
		     -ENODEV, "nosuch0");
	assert_int_equal(p.c.closed, 0);
	pair_fini(&p);
}

static void listen__only_on_a_device_TAKES_ITS_CLIENTS(void **state)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .device = test_device(),
	};

	pair_init(&p, NULL);
	opts.ep = &p.s.opts;
	p.s.opts.handlers = &p.s.on;
	if (rdmamsg_listen(p.s.ctx, NULL, "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(p.listener, p.port);
	pair_connect(&p);
	assert_string_equal(rdmamsg_device_name(p.c.ep), test_device());
	rdmamsg_ep_close(p.c.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	pair_fini(&p);
}

static void listen__port_taken_or_wrong_SAYS_SO(void **state)
{
	struct rdmamsg_listener *l;

	pair_init(&p, NULL);
	listen_at(test_addr(), "0");
	assert_true(rdmamsg_listener_port(p.listener) > 0);
	assert_ptr_equal(rdmamsg_listener_ctx(p.listener), p.s.ctx);
	assert_ptr_equal(rdmamsg_listener_user(p.listener), &p);
	assert_error(rdmamsg_listen(p.c.ctx, test_addr(), p.port, NULL, &l),
		     -EADDRINUSE, "in use");
	assert_error(rdmamsg_listen(p.c.ctx, "192.0.2.1", "0", NULL, &l),
		     -EADDRNOTAVAIL, "address");
	assert_error(rdmamsg_listen(p.c.ctx, NULL, "nosuchservice", NULL, &l),
		     -EINVAL, "nosuchservice");
	assert_error(rdmamsg_listen(p.c.ctx, NULL, NULL, NULL, &l), -EINVAL,
		     "service");
	rdmamsg_listener_close(p.listener);
	rdmamsg_listener_close(NULL);
	/* free again */
	assert_int_equal(rdmamsg_listen(p.c.ctx, test_addr(), p.port, NULL,
					NULL), 0);
	pair_fini(&p);
}

/* ---- data ------------------------------------------------------------- */

static uint8_t hello_seen[RDMAMSG_HELLO_DATA_MAX];
static size_t hello_seen_len;
static struct sockaddr_storage peer_seen;

static void look_and_accept(struct rdmamsg_listener *l,
			    struct rdmamsg_request *req)
{
	const void *data = rdmamsg_request_data(req, &hello_seen_len);

	memcpy(hello_seen, data, hello_seen_len);
	if (rdmamsg_request_peer(req, &peer_seen))
		note("rdmamsg_request_peer: %s", rdmamsg_error());
	if (rdmamsg_accept(req, &p.s.opts, &p.s.ep))
		note("rdmamsg_accept: %s", rdmamsg_error());
}

static void check_peer_data(const struct end *e, size_t len, uint32_t tag)
{
	size_t got = 1;
	const void *data = rdmamsg_ep_peer_data(e->ep, &got);

	assert_int_equal(got, len);
	if (len)
		assert_memory_equal(data, pattern(tag), len);
}

static void data__both_ways_ARRIVES(void **state)
{
	static const size_t lens[][3] = {
		/* hello, setup of the client, of the server */
		{ 0, 0, 0 }, { 1, 1, 0 }, { 5, 0, 1 }, { 32, 4096, 4096 },
		{ 31, 4095, 17 },
	};

	for (size_t n = 0; n < ARRAY_SIZE(lens); n++) {
		struct rdmamsg_listen_options opts = {
			.size = sizeof(opts), .on_request = look_and_accept,
		};
		struct sockaddr_in *peer = (struct sockaddr_in *)&peer_seen;

		pair_init(&p, NULL);
		p.c.opts.hello_data = pattern(1);
		p.c.opts.hello_data_len = lens[n][0];
		p.c.opts.setup_data = pattern(2);
		p.c.opts.setup_data_len = lens[n][1];
		p.s.opts.setup_data = pattern(3);
		p.s.opts.setup_data_len = lens[n][2];
		if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts,
				   &p.listener))
			fail_msg("rdmamsg_listen: %s", rdmamsg_error());
		listener_service(p.listener, p.port);
		pair_connect(&p);
		assert_int_equal(hello_seen_len, lens[n][0]);
		if (hello_seen_len)
			assert_memory_equal(hello_seen, pattern(1),
					    hello_seen_len);
		assert_int_equal(peer->sin_family, AF_INET);
		assert_string_equal(inet_ntoa(peer->sin_addr), test_addr());
		check_peer_data(&p.s, lens[n][1], 2);
		check_peer_data(&p.c, lens[n][2], 3);
		pair_close(&p);
		pair_fini(&p);
	}
}

static void data__too_long_or_missing_EINVAL(void **state)
{
	static const struct {
		size_t hello, setup;
		const char *word;
	} cases[] = {
		{ 33, 0, "hello_data_len" }, { 0, 4097, "setup_data_len" },
	};
	struct rdmamsg_listen_options opts = { .size = sizeof(opts) };
	struct rdmamsg_listener *l;
	struct rdmamsg_ep *ep;

	pair_init(&p, NULL);
	opts.ep = &p.c.opts;
	for (int missing = 0; missing < 2; missing++)
		for (size_t n = 0; n < ARRAY_SIZE(cases); n++) {
			p.c.opts.hello_data = p.c.opts.setup_data =
				missing ? NULL : pattern(0);
			p.c.opts.hello_data_len = cases[n].hello - 2 * missing *
						  !!cases[n].hello;
			p.c.opts.setup_data_len = cases[n].setup - 2 * missing *
						  !!cases[n].setup;
			assert_error(rdmamsg_connect(p.c.ctx, test_addr(), "1",
						     &p.c.opts, &ep),
				     -EINVAL, cases[n].word);
			assert_error(rdmamsg_listen(p.s.ctx, NULL, "0", &opts,
						    &l), -EINVAL,
				     cases[n].word);
		}
	pair_fini(&p);
}

/* ---- options ---------------------------------------------------------- */

static void options__out_of_range_NAME_THE_FIELD(void **state)
{
	static const struct {
		size_t offset;
		uint32_t value;
		const char *name;
	} cases[] = {
#define CASE(field, value) \
	{ offsetof(struct rdmamsg_ep_options, field), (value), #field }
		CASE(flags, 0x80), CASE(max_msg_size, 0x80000000u),
		CASE(inline_max, 513), CASE(eager_max, (1 << 20) + 1),
		CASE(recv_depth, 65537), CASE(send_depth, 65537),
		CASE(send_queue, 65537), CASE(dead_after_ms, 1),
		CASE(stall_after_ms, 1), CASE(peer_timeout_ms, 1),
		CASE(ack_timeout, 32), CASE(retry_count, 8),
		CASE(rnr_retry_count, 8), CASE(min_rnr_timer, 32),
		CASE(responder_resources, 256), CASE(initiator_depth, 256),
		CASE(tos, 256), CASE(timeout_ms, 86400001),
		CASE(close_timeout_ms, 86400001), CASE(max_copy, 0x80000000u),
#undef CASE
	};
	struct rdmamsg_listen_options opts = { .size = sizeof(opts) };
	struct rdmamsg_listener *l;
	struct rdmamsg_ep *ep;

	pair_init(&p, NULL);
	for (size_t n = 0; n < ARRAY_SIZE(cases); n++) {
		struct rdmamsg_ep_options o = p.c.opts;

		*(uint32_t *)((char *)&o + cases[n].offset) = cases[n].value;
		opts.ep = &o;
		assert_error(rdmamsg_connect(p.c.ctx, test_addr(), "1", &o, &ep),
			     -EINVAL, cases[n].name);
		assert_error(rdmamsg_listen(p.s.ctx, NULL, "0", &opts, &l),
			     -EINVAL, cases[n].name);
	}
	p.c.opts.size = 3;
	assert_error(rdmamsg_connect(p.c.ctx, test_addr(), "1", &p.c.opts, &ep),
		     -EINVAL, "size");
	assert_error(rdmamsg_connect(p.c.ctx, NULL, "1", NULL, &ep), -EINVAL,
		     "host");
	assert_error(rdmamsg_connect(p.c.ctx, test_addr(), NULL, NULL, &ep),
		     -EINVAL, "service");
	assert_error(rdmamsg_connect(NULL, test_addr(), "1", NULL, &ep),
		     -EINVAL, "context");
	assert_error(rdmamsg_connect(p.c.ctx, test_addr(), "nosuch", NULL, &ep),
		     -EINVAL, "nosuch");
	pair_fini(&p);
}

static void options__beyond_the_device_SAY_ITS_LIMIT(void **state)
{
	struct rdmamsg_device_info d = { .size = sizeof(d) };
	char limit[16];

	assert_true(rdmamsg_devices(&d, sizeof(d), 1) >= 1);
	if (d.max_qp_wr >= 65536 && d.max_cqe >= 65536)
		skip_because("the device takes any depth");
	snprintf(limit, sizeof(limit), "%u", d.max_qp_wr < 65536 ?
		 d.max_qp_wr : d.max_cqe);
	pair_init(&p, NULL);
	pair_listen(&p);
	p.c.opts.recv_depth = 65536;
	p.c.opts.max_msg_size = 100;
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.closed);
	assert_non_null(strstr(p.c.why.text, limit));
	assert_int_equal(p.c.why.error, -EINVAL);
	pair_fini(&p);
}

static void info__depths_ARE_CLAMPED_AND_AGREED(void **state)
{
	struct rdmamsg_device_info d = { .size = sizeof(d) };
	struct rdmamsg_ep_info c, s;
	struct sockaddr_in *a;

	assert_true(rdmamsg_devices(&d, sizeof(d), 1) >= 1);
	pair_init(&p, NULL);
	p.c.opts.initiator_depth = 255;
	p.c.opts.responder_resources = 255;
	p.s.opts.initiator_depth = 255;
	p.s.opts.responder_resources = 4;
	p.s.opts.max_msg_size = 12345;
	p.c.opts.recv_depth = 7;
	p.c.opts.tos = 32;
	pair_listen(&p);
	pair_connect(&p);
	c = end_info(&p.c);
	s = end_info(&p.s);
	assert_in_range(c.initiator_depth, 1, 4);
	assert_in_range(s.initiator_depth, 1, d.max_read_initiator);
	assert_in_range(c.responder_resources, 1, d.max_read_responder);
	assert_int_equal(s.responder_resources, 4);
	assert_int_equal(c.max_send, 12345);
	assert_int_equal(c.recv_depth, 7);
	assert_int_equal(s.send_credits, 7);
	assert_int_equal(c.send_credits, 64);
	assert_int_equal(c.qp_num, s.peer_qp_num);
	assert_int_equal(s.qp_num, c.peer_qp_num);
	assert_memory_equal(c.session, s.session, sizeof(c.session));
	assert_int_equal(c.version, 1);
	assert_int_equal(c.mtu, 4096);
	assert_int_equal(c.port, 1);
	assert_string_equal(c.device, test_device());
	assert_true(c.max_inline_data >= c.inline_max);
	a = (struct sockaddr_in *)&c.peer;
	assert_int_equal(ntohs(a->sin_port), atoi(p.port));
	assert_string_equal(inet_ntoa(a->sin_addr), test_addr());
	a = (struct sockaddr_in *)&s.local;
	assert_int_equal(ntohs(a->sin_port), atoi(p.port));
	a = (struct sockaddr_in *)&c.local;
	assert_memory_equal(&a->sin_port,
			    &((struct sockaddr_in *)&s.peer)->sin_port, 2);
	pair_close(&p);
	pair_fini(&p);
}

static void info__before_connected_IS_ZERO(void **state)
{
	struct rdmamsg_ep_info i;

	pair_init(&p, NULL);
	pair_listen(&p);
	if (rdmamsg_connect(p.c.ctx, test_name(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	i = end_info(&p.c);
	assert_int_equal(i.qp_num, 0);
	assert_int_equal(i.max_send, 0);
	assert_string_equal(i.device, "");
	assert_string_equal(rdmamsg_device_name(p.c.ep), "");
	assert_null(rdmamsg_ep_peer_data(p.c.ep, NULL));
	assert_null(rdmamsg_ep_reason(p.c.ep));
	assert_int_equal(rdmamsg_ep_state(p.c.ep), RDMAMSG_CONNECTING);
	assert_ptr_equal(rdmamsg_ep_ctx(p.c.ep), p.c.ctx);
	exchange();
	pair_fini(&p);
}

/* ---- what does not come to be ----------------------------------------- */

static void expect_end(enum rdmamsg_who who, enum rdmamsg_cause cause,
		       int error)
{
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.connected, 0);
	if (p.c.why.who != who || p.c.why.cause != cause ||
	    (error && p.c.why.error != error))
		fail_msg("closed by %d, cause %d, error %d: %s", p.c.why.who,
			 p.c.why.cause, p.c.why.error, p.c.why.text);
}

static void dial(const char *host, const char *service, uint32_t timeout_ms)
{
	p.c.closed = 0;
	p.c.opts.timeout_ms = timeout_ms;
	if (rdmamsg_connect(p.c.ctx, host, service, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect(%s): %s", host, rdmamsg_error());
}

static void connect__nobody_listens_REFUSED(void **state)
{
	pair_init(&p, NULL);
	pair_listen(&p);
	rdmamsg_listener_close(p.listener);
	dial(test_addr(), p.port, WAIT_MS);
	expect_end(RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REFUSED, -ECONNREFUSED);
	assert_non_null(strstr(p.c.why.text, p.port));
	pair_fini(&p);
}

static const char reject_data[RDMAMSG_HELLO_DATA_MAX + 1] =
	"no more than thirty-two of these";

static void say_no(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	size_t *len = rdmamsg_listener_user(l);

	if (rdmamsg_reject(req, *len ? reject_data : NULL, *len))
		note("rdmamsg_reject: %s", rdmamsg_error());
}

static void reject__with_data_IS_IN_THE_REASON(void **state)
{
	static const size_t lens[] = { 0, 1, RDMAMSG_HELLO_DATA_MAX };

	for (size_t n = 0; n < ARRAY_SIZE(lens); n++) {
		struct rdmamsg_listen_options opts = {
			.size = sizeof(opts), .on_request = say_no,
			.user = (void *)(uintptr_t)&lens[n],
		};

		pair_init(&p, NULL);
		if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts,
				   &p.listener))
			fail_msg("rdmamsg_listen: %s", rdmamsg_error());
		dial(test_addr(), listener_service(p.listener, p.port),
		     WAIT_MS);
		expect_end(RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REJECTED,
			   -ECONNREFUSED);
		assert_int_equal(p.c.why.data_len, lens[n]);
		assert_memory_equal(p.c.why_data, reject_data, lens[n]);
		assert_true(p.c.why.cm_event >= 0);
		pair_fini(&p);
	}
}

static void reject_too_much(struct rdmamsg_listener *l,
			    struct rdmamsg_request *req)
{
	if (rdmamsg_reject(req, reject_data, RDMAMSG_HELLO_DATA_MAX + 1) !=
	    -EINVAL)
		note("33 bytes with a reject");
}

static void reject__too_long_EINVAL_BUT_REJECTED(void **state)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .on_request = reject_too_much,
	};

	pair_init(&p, NULL);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	dial(test_addr(), listener_service(p.listener, p.port), WAIT_MS);
	expect_end(RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REJECTED, -ECONNREFUSED);
	assert_int_equal(p.c.why.data_len, 0);
	pair_fini(&p);
}

static void connect__unreachable_address_ENDS_IN_TIME(void **state)
{
	uint64_t start;

	pair_init(&p, NULL);
	pair_listen(&p);
	if (test_on_soft())
		harm_silence(true);
	start = now_ms();
	if (test_on_soft())
		dial(test_addr(), p.port, 3000);
	else
		dial("10.9.0.77", "4711", 3000);
	WAIT_FOR(p.c.closed);
	if (test_on_soft())
		harm_silence(false);
	assert_true(now_ms() - start < 3000 + WAIT_MS / 4);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_NETWORK);
	assert_true(p.c.why.cause == RDMAMSG_CAUSE_UNREACHABLE ||
		    p.c.why.cause == RDMAMSG_CAUSE_TIMEOUT);
	pair_fini(&p);
}

static void connect__no_device_leads_there_ENODEV(void **state)
{
	struct rdmamsg_ep *ep;
	int ret;

	pair_init(&p, NULL);
	/* the loop-back interface has none but the soft HCA */
	p.c.opts.device = "hw";
	ret = rdmamsg_connect(p.c.ctx, "127.0.0.1", "4711", &p.c.opts, &ep);
	if (ret) {
		assert_error(ret, -ENODEV, "rdma link");
	} else {
		expect_end(RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ADDRESS, -ENODEV);
		assert_non_null(strstr(p.c.why.text, "rdma link"));
	}
	pair_fini(&p);
}

static void connect__name_that_is_none_UNRESOLVED(void **state)
{
	pair_init(&p, NULL);
	dial("no-such-host.invalid", "4711", WAIT_MS);
	expect_end(RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ADDRESS, -EADDRNOTAVAIL);
	assert_non_null(strstr(p.c.why.text, "no-such-host.invalid"));
	pair_fini(&p);
}

static void connect__nobody_accepts_TIMEOUT(void **state)
{
	struct rdmamsg_listen_options opts = { .size = sizeof(opts) };
	uint64_t start = now_ms();

	pair_init(&p, NULL);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	dial(test_addr(), listener_service(p.listener, p.port), 2000);
	expect_end(RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_TIMEOUT, -ETIMEDOUT);
	assert_true(now_ms() - start >= 2000);
	assert_non_null(strstr(p.c.why.text, "timeout_ms"));
	pair_fini(&p);
}

/* ---- later, elsewhere ------------------------------------------------- */

static struct rdmamsg_request *waiting[128];
static int waiting_count;

static void put_off(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	waiting[waiting_count++] = req;
}

static void listen_put_off(void)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .on_request = put_off,
	};

	waiting_count = 0;
	pair_init(&p, NULL);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(p.listener, p.port);
}

static void accept__later_CONNECTS(void **state)
{
	listen_put_off();
	dial(test_addr(), p.port, WAIT_MS);
	WAIT_FOR(waiting_count);
	for (int i = 0; i < 5; i++)
		test_pump(100);
	/* the listener need not be there any more */
	rdmamsg_listener_close(p.listener);
	assert_int_equal(rdmamsg_accept(waiting[0], &p.s.opts, &p.s.ep), 0);
	exchange();
	pair_fini(&p);
}

static void reject__later_REJECTS(void **state)
{
	listen_put_off();
	dial(test_addr(), p.port, WAIT_MS);
	WAIT_FOR(waiting_count);
	for (int i = 0; i < 5; i++)
		test_pump(100);
	assert_int_equal(rdmamsg_reject(waiting[0], "x", 1), 0);
	expect_end(RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REJECTED, 0);
	pair_fini(&p);
}

static void accept__bad_options_REJECTS(void **state)
{
	listen_put_off();
	dial(test_addr(), p.port, WAIT_MS);
	WAIT_FOR(waiting_count);
	p.s.opts.recv_depth = 1 << 20;
	assert_error(rdmamsg_accept(waiting[0], &p.s.opts, &p.s.ep), -EINVAL,
		     "recv_depth");
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(p.s.closed, 0);
	pair_fini(&p);
}

static void accept__peer_has_gone_ECONNRESET(void **state)
{
	struct rdmamsg_ep *ep;
	uint64_t end = now_ms() + WAIT_MS;
	int ret;

	listen_put_off();
	dial(test_addr(), p.port, WAIT_MS);
	WAIT_FOR(waiting_count);
	rdmamsg_ep_abort(p.c.ep);
	WAIT_FOR(p.c.closed);
	for (int i = 0; i < 5; i++)
		test_pump(100);
	ret = rdmamsg_accept(waiting[0], &p.s.opts, &ep);
	if (ret) {
		assert_int_equal(ret, -ECONNRESET);
	} else {
		/* the news was slower: then it ends at once */
		while (!p.s.closed && now_ms() < end)
			test_pump(100);
		assert_int_equal(p.s.closed, 1);
	}
	pair_fini(&p);
}

static void close__with_requests_waiting_REJECTS_THEM(void **state)
{
	listen_put_off();
	dial(test_addr(), p.port, WAIT_MS);
	WAIT_FOR(waiting_count);
	test_close(p.s.ctx);
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
	test_close(p.c.ctx);
	check_notes();
}

static void listener_close__with_requests_queued_REJECTS_THEM(void **state)
{
	struct rdmamsg_listen_options opts = { .size = sizeof(opts) };

	pair_init(&p, NULL);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	dial(test_addr(), listener_service(p.listener, p.port), WAIT_MS);
	/* until the request is there */
	while (!rdmamsg_process(p.s.ctx))
		rdmamsg_process(p.c.ctx);
	rdmamsg_listener_close(p.listener);
	expect_end(RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REJECTED, 0);
	pair_fini(&p);
}

static void close_listener_and_accept(struct rdmamsg_listener *l,
				      struct rdmamsg_request *req)
{
	rdmamsg_listener_close(l);
	if (rdmamsg_accept(req, &p.s.opts, &p.s.ep))
		note("rdmamsg_accept: %s", rdmamsg_error());
}

static void listener_close__in_on_request_IS_FINE(void **state)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .on_request = close_listener_and_accept,
	};

	pair_init(&p, NULL);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	dial(test_addr(), listener_service(p.listener, p.port), WAIT_MS);
	exchange();
	pair_fini(&p);
}

/* Another thread with a context of its own takes requests over. */
static struct rdmamsg *other;
static pthread_t other_thread;

static void *run_other(void *arg)
{
	rdmamsg_run(other);
	rdmamsg_close(other);
	return NULL;
}

static void accept_there(struct rdmamsg *ctx, struct rdmamsg_request *req,
			 void *arg)
{
	if (ctx != other || arg != &p || !pthread_equal(pthread_self(),
							other_thread))
		note("moved, but not there");
	if (rdmamsg_accept(req, &p.s.opts, &p.s.ep))
		note("rdmamsg_accept: %s", rdmamsg_error());
	if (rdmamsg_ep_ctx(p.s.ep) != other)
		note("the endpoint is in another context");
}

static void move_there(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	if (rdmamsg_request_move(req, other, accept_there, &p))
		note("rdmamsg_request_move: %s", rdmamsg_error());
}

static void echo(struct end *e, struct rdmamsg_msg *msg)
{
	if (rdmamsg_msg_send(e->ep, msg, rdmamsg_msg_tag(msg), NULL))
		note("echo: %s", rdmamsg_error());
}

static void move__to_another_thread_IS_SERVED_THERE(void **state)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .on_request = move_there,
	};

	pair_init(&p, NULL);
	p.s.then_message = echo;
	p.s.expect_nothing = true;
	assert_int_equal(rdmamsg_open(&other, NULL), 0);
	pthread_create(&other_thread, NULL, run_other, NULL);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	dial(test_addr(), listener_service(p.listener, p.port), WAIT_MS);
	WAIT_FOR(p.c.connected || p.c.closed);
	assert_int_equal(p.c.closed, 0);
	for (uint32_t n = 0; n < 20; n++) {
		/* the peer is in the other thread: no list of its own */
		end_expect(&p.c, 1000 * n, n);
		assert_int_equal(rdmamsg_sendv(p.c.ep, &(struct iovec) {
			(void *)(uintptr_t)pattern(n), 1000 * n }, 1, n, NULL),
			0);
		WAIT_FOR(p.c.received == n + 1);
	}
	rdmamsg_ep_close(p.c.ep);
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_CLOSED);
	rdmamsg_stop(other);
	pthread_join(other_thread, NULL);
	assert_int_equal(p.s.closed, 1);
	assert_int_equal(p.s.received, 20);
	pair_fini(&p);
}

static void nothing(struct rdmamsg *ctx, void *arg)
{
}

static void move__to_a_full_queue_EAGAIN_AND_STAYS(void **state)
{
	const struct rdmamsg_options one = {
		.size = sizeof(one), .submit_depth = 2,
	};
	struct rdmamsg *full;

	listen_put_off();
	full = test_open(&one);
	while (!rdmamsg_submit(full, nothing, NULL))
		;
	dial(test_addr(), p.port, WAIT_MS);
	while (!waiting_count) {
		rdmamsg_process(p.s.ctx);
		rdmamsg_process(p.c.ctx);
	}
	assert_error(rdmamsg_request_move(waiting[0], full, accept_there, NULL),
		     -EAGAIN, "");
	assert_int_equal(rdmamsg_accept(waiting[0], &p.s.opts, &p.s.ep), 0);
	exchange();
	test_close(full);
	pair_fini(&p);
}

/* ---- many ------------------------------------------------------------- */

#define MANY	100

static struct end clients[MANY], servers[MANY];
static int accepted;

static void accept_many(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct end *e = &servers[accepted++];

	if (rdmamsg_accept(req, &e->opts, &e->ep))
		note("rdmamsg_accept: %s", rdmamsg_error());
}

static int count_connected(const struct end *e)
{
	int n = 0;

	for (int i = 0; i < MANY; i++)
		n += e[i].connected && !e[i].closed;
	return n;
}

static int count_closed(const struct end *e)
{
	int n = 0;

	for (int i = 0; i < MANY; i++)
		n += e[i].closed;
	return n;
}

static void connect__a_hundred_at_once_ALL_CONNECT(void **state)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .on_request = accept_many,
	};
	struct rdmamsg *a = test_open(NULL), *b = test_open(NULL);
	struct rdmamsg_listener *l;
	char port[8];

	accepted = 0;
	for (int i = 0; i < MANY; i++) {
		end_init(&clients[i], "client", b);
		end_init(&servers[i], "server", a);
		clients[i].expect_nothing = servers[i].expect_nothing = true;
	}
	if (rdmamsg_listen(a, test_addr(), "0", &opts, &l))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(l, port);
	for (int i = 0; i < MANY; i++)
		if (rdmamsg_connect(b, test_addr(), port, &clients[i].opts,
				    &clients[i].ep))
			fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(count_connected(clients) == MANY &&
		 count_connected(servers) == MANY);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(rdmamsg_send(clients[i].ep, "hello", 5, 0,
					      NULL), 0);
		rdmamsg_ep_close(i % 2 ? clients[i].ep : servers[i].ep);
	}
	WAIT_FOR(count_closed(clients) == MANY && count_closed(servers) == MANY);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(clients[i].why.cause, RDMAMSG_CAUSE_CLOSED);
		assert_int_equal(servers[i].why.cause, RDMAMSG_CAUSE_CLOSED);
	}
}

/* ---- the close matrix ------------------------------------------------- */

enum when { RESOLVING, ROUTING, REQUESTED, SETUP, OPEN, CLOSING, TIMES };
enum act { CLOSE, ABORT, CLOSE_TWICE, CLOSE_ABORT, ACTS };

static void act_on(struct end *e, enum act act)
{
	/* it lives until its on_closed returns, which is not inside of these */
	if (act != ABORT)
		rdmamsg_ep_close(e->ep);
	if (act == CLOSE_TWICE)
		rdmamsg_ep_close(e->ep);
	if (act == ABORT || act == CLOSE_ABORT)
		rdmamsg_ep_abort(e->ep);
}

static void get_to(enum when when)
{
	const char *host = when == RESOLVING ? test_name() : test_addr();

	listen_put_off();
	if (rdmamsg_connect(p.c.ctx, host, p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	if (when <= ROUTING)
		return;
	WAIT_FOR(waiting_count);
	if (when == REQUESTED)
		return;
	assert_int_equal(rdmamsg_accept(waiting[0], &p.s.opts, &p.s.ep), 0);
	if (when == SETUP) {
		/* until the client has heard, which cannot be seen */
		for (int i = 0; i < 200; i++) {
			rdmamsg_process(p.c.ctx);
			usleep(1000);
		}
		assert_int_equal(p.c.connected + p.s.connected, 0);
		return;
	}
	WAIT_FOR(p.c.connected && p.s.connected);
	if (when == CLOSING) {
		rdmamsg_ep_close(p.c.ep);
		rdmamsg_ep_close(p.s.ep);
	}
}

static void end_in(enum when when, enum act act, bool server)
{
	struct end *e = server ? &p.s : &p.c;

	get_to(when);
	act_on(e, act);
	assert_int_equal(e->closed, 0);
	WAIT_FOR(e->closed);
	if (when < OPEN || act == ABORT || act == CLOSE_ABORT)
		assert_int_equal(e->why.cause, RDMAMSG_CAUSE_ABORTED);
	else
		assert_int_equal(e->why.cause, RDMAMSG_CAUSE_CLOSED);
	if (when < CLOSING)
		assert_int_equal(e->why.who, RDMAMSG_WHO_LOCAL);
	if (when >= SETUP) {
		WAIT_FOR(p.c.closed && p.s.closed);
	} else if (waiting_count) {
		(void)rdmamsg_reject(waiting[0], NULL, 0);
	}
	pair_fini(&p);
}

static void close__in_every_state_of_the_client_ENDS(void **state)
{
	for (enum when when = 0; when < TIMES; when++)
		for (enum act act = 0; act < ACTS; act++)
			end_in(when, act, false);
}

static void close__in_every_state_of_the_server_ENDS(void **state)
{
	for (enum when when = SETUP; when < TIMES; when++)
		for (enum act act = 0; act < ACTS; act++)
			end_in(when, act, true);
}

static void close__context_in_every_state_ENDS(void **state)
{
	for (enum when when = 0; when < TIMES; when++)
		for (int server = 0; server < 2; server++) {
			get_to(when);
			test_close(server ? p.s.ctx : p.c.ctx);
			check_notes();
			assert_int_equal(server ? p.s.closed : p.c.closed,
					 server ? when >= SETUP : 1);
			test_close(server ? p.c.ctx : p.s.ctx);
			check_notes();
			end_fini(&p.c);
			end_fini(&p.s);
		}
}

static enum act act_now;

static void act_here(struct end *e)
{
	act_on(e, act_now);
}

static void act_message(struct end *e, struct rdmamsg_msg *msg)
{
	act_on(e, act_now);
	rdmamsg_msg_free(msg);
}

static void act_once(struct end *e)
{
	if (e->sent_ok + e->sent_failed == 1)
		act_on(e, act_now);
}

static void prepare(enum act act)
{
	act_now = act;
	pair_init(&p, NULL);
	p.c.expect_nothing = p.s.expect_nothing = true;
	pair_listen(&p);
}

static void finish(void)
{
	WAIT_FOR(p.c.closed && p.s.closed);
	end_check_cookies(&p.c);
	end_check_cookies(&p.s);
	pair_fini(&p);
}

static void close__inside_every_callback_ENDS(void **state)
{
	for (enum act act = 0; act < ACTS; act++) {
		prepare(act);
		p.c.then_connected = act_here;
		dial(test_addr(), p.port, WAIT_MS);
		WAIT_FOR(p.c.closed && (p.s.closed || !p.s.ep));
		pair_fini(&p);

		prepare(act);
		p.s.then_connected = act_here;
		dial(test_addr(), p.port, WAIT_MS);
		finish();

		prepare(act);
		p.s.then_message = act_message;
		pair_connect(&p);
		for (uint32_t n = 0; n < 10; n++)
			assert_int_equal(end_send(&p.c, HOW_SENDV, n % 3 * 50000,
						  n), 0);
		finish();

		prepare(act);
		p.c.then_sent = act_once;
		pair_connect(&p);
		for (uint32_t n = 0; n < 10; n++)
			assert_int_equal(end_send(&p.c, HOW_SENDV, n % 3 * 50000,
						  n), 0);
		finish();

		prepare(act);
		p.c.then_writable = act_here;
		pair_connect(&p);
		for (uint32_t n = 0; !end_send(&p.c, HOW_SEND, 10, n); n++)
			;
		finish();

		prepare(act);
		p.c.then_closed = act_here;
		p.s.then_closed = act_here;
		pair_connect(&p);
		rdmamsg_ep_close(p.c.ep);
		finish();
	}
}

static void close_listener_here(struct end *e)
{
	rdmamsg_listener_close(p.listener);
}

static void close__order_of_freeing_DOES_NOT_MATTER(void **state)
{
	struct rdmamsg_ep *ep;

	/* the listener before its endpoints, and in their callback */
	pair_open(&p);
	rdmamsg_listener_close(p.listener);
	pair_close(&p);
	pair_fini(&p);
	pair_init(&p, NULL);
	p.s.then_closed = close_listener_here;
	pair_listen(&p);
	pair_connect(&p);
	pair_close(&p);
	pair_fini(&p);
	/* a held endpoint after its context */
	pair_open(&p);
	ep = p.c.ep;
	rdmamsg_ep_hold(ep);
	rdmamsg_ep_hold(ep);
	test_close(p.c.ctx);
	assert_int_equal(rdmamsg_ep_state(ep), RDMAMSG_CLOSED);
	assert_int_equal(rdmamsg_ep_reason(ep)->cause, RDMAMSG_CAUSE_ABORTED);
	rdmamsg_ep_rele(ep);
	rdmamsg_ep_rele(ep);
	test_close(p.s.ctx);
	check_notes();
	end_fini(&p.c);
	end_fini(&p.s);
	rdmamsg_close(NULL);
}

static void close_context_here(struct end *e)
{
	rdmamsg_close(e->ctx);
}

static void close__context_in_a_callback_IS_IGNORED(void **state)
{
	errors_are_fine = true;
	pair_init(&p, NULL);
	p.c.then_connected = close_context_here;
	pair_listen(&p);
	pair_connect(&p);
	pair_close(&p);
	pair_fini(&p);
}

static void connect_again(struct end *e)
{
	struct end *other_end = e->arg;

	if (rdmamsg_connect(e->ctx, test_addr(), p.port, &other_end->opts,
			    &other_end->ep))
		note("in on_closed: %s", rdmamsg_error());
}

static void connect__from_on_closed_CONNECTS(void **state)
{
	static const struct rdmamsg_ep_options plain = { .size = sizeof(plain) };
	static const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = &plain,
	};
	static struct end second;

	pair_init(&p, NULL);
	end_init(&second, "second", p.c.ctx);
	p.c.then_closed = connect_again;
	p.c.arg = &second;
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	dial(test_addr(), listener_service(p.listener, p.port), WAIT_MS);
	WAIT_FOR(p.c.connected);
	rdmamsg_ep_abort(p.c.ep);
	WAIT_FOR(second.connected);
	p.c.then_closed = NULL;
	rdmamsg_ep_close(second.ep);
	WAIT_FOR(second.closed);
	test_close(p.c.ctx);
	test_close(p.s.ctx);
	check_notes();
}

static void close__peer_never_reads_ABORTS_IN_TIME(void **state)
{
	pair_init(&p, NULL);
	p.c.opts.close_timeout_ms = 1500;
	pair_listen(&p);
	pair_connect(&p);
	rdmamsg_ep_close(p.c.ep);
	/* only the client's loop turns */
	for (uint64_t end = now_ms() + WAIT_MS; !p.c.closed; usleep(1000)) {
		assert_true(now_ms() < end);
		rdmamsg_process(p.c.ctx);
	}
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_TIMEOUT);
	assert_int_equal(p.c.why.error, -ETIMEDOUT);
	WAIT_FOR(p.s.closed);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(connect__ipv4_and_ipv6_CONNECT),
		TEST(connect__wildcard_listener_TAKES_BOTH),
		TEST(connect__name_IS_RESOLVED),
		TEST(connect__source_address_and_device_ARE_USED),
		TEST(connect__bad_source_or_device_FAILS_AT_ONCE),
		TEST(listen__only_on_a_device_TAKES_ITS_CLIENTS),
		TEST(listen__port_taken_or_wrong_SAYS_SO),
		TEST(data__both_ways_ARRIVES),
		TEST(data__too_long_or_missing_EINVAL),
		TEST(options__out_of_range_NAME_THE_FIELD),
		TEST(options__beyond_the_device_SAY_ITS_LIMIT),
		TEST(info__depths_ARE_CLAMPED_AND_AGREED),
		TEST(info__before_connected_IS_ZERO),
		TEST(connect__nobody_listens_REFUSED),
		TEST(reject__with_data_IS_IN_THE_REASON),
		TEST(reject__too_long_EINVAL_BUT_REJECTED),
		TEST(connect__unreachable_address_ENDS_IN_TIME),
		TEST(connect__no_device_leads_there_ENODEV),
		TEST(connect__name_that_is_none_UNRESOLVED),
		TEST(connect__nobody_accepts_TIMEOUT),
		TEST(accept__later_CONNECTS),
		TEST(reject__later_REJECTS),
		TEST(accept__bad_options_REJECTS),
		TEST(accept__peer_has_gone_ECONNRESET),
		TEST(close__with_requests_waiting_REJECTS_THEM),
		TEST(listener_close__with_requests_queued_REJECTS_THEM),
		TEST(listener_close__in_on_request_IS_FINE),
		TEST(move__to_another_thread_IS_SERVED_THERE),
		TEST(move__to_a_full_queue_EAGAIN_AND_STAYS),
		TEST(connect__a_hundred_at_once_ALL_CONNECT),
		TEST(close__in_every_state_of_the_client_ENDS),
		TEST(close__in_every_state_of_the_server_ENDS),
		TEST(close__context_in_every_state_ENDS),
		TEST(close__inside_every_callback_ENDS),
		TEST(close__order_of_freeing_DOES_NOT_MATTER),
		TEST(close__context_in_a_callback_IS_IGNORED),
		TEST(connect__from_on_closed_CONNECTS),
		TEST(close__peer_never_reads_ABORTS_IN_TIME),
	};

	return test_main(tests, NULL, argc, argv);
}
