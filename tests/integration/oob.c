/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: connecting without the connection manager, over the built-in
 * exchange.
 */
#include "oob_pair.h"

#include <arpa/inet.h>
#include <signal.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/oob.h>

#define ONLY_SOFT "only the soft HCA has fabrics"

static void connect__over_tcp_TALKS(void **state)
{
	const char *const addrs[] = { test_addr(), test_addr6() };

	for (size_t i = 0; i < ARRAY_SIZE(addrs); i++) {
		struct rdmamsg_ep_attr ci, si;
		struct pair p;

		oob_init(&p);
		p.c.opts.setup_data = "from the client";
		p.c.opts.setup_data_len = 15;
		oob_listen(&p, addrs[i]);
		oob_connect(&p, addrs[i]);
		ci = end_info(&p.c);
		si = end_info(&p.s);
		assert_string_equal(ci.device, test_device());
		assert_int_equal(ci.peer_qp_num, si.qp_num);
		assert_int_equal(si.peer_qp_num, ci.qp_num);
		assert_int_equal(ci.mtu, si.mtu);
		assert_true(ci.mtu >= 256 && ci.port == 1);
		assert_memory_equal(ci.session, si.session, 16);
		assert_memory_equal(rdmamsg_ep_peer_data(p.s.ep, NULL),
				    "from the client", 15);
		oob_talk(&p);
		pair_close(&p);
		pair_fini(&p);
	}
}

static void connect__by_name_CONNECTS(void **state)
{
	struct pair p;

	oob_init(&p);
	oob_listen(&p, NULL);
	oob_connect(&p, test_name());
	oob_talk(&p);
	/* the server closes */
	rdmamsg_ep_close(p.s.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_CLOSED);
	pair_fini(&p);
}

/* A side learns only from CLOSE that the other side has more to send. */
static void close__under_load_LOSES_NOTHING(void **state)
{
	for (int side = 0; side < 2; side++) {
		struct pair p;
		struct end *closes = side ? &p.s : &p.c;

		oob_init(&p);
		p.c.opts.send_queue = p.s.opts.send_queue = 64;
		oob_listen(&p, test_addr());
		oob_connect(&p, test_addr());
		for (uint32_t i = 0; i < 40; i++) {
			size_t len = i % 2 ? 1000000 : 100;

			end_send_all(&p.c, HOW_SENDV, len, 2 * i);
			end_send_all(&p.s, HOW_SENDV, len, 2 * i + 1);
		}
		rdmamsg_ep_close(closes->ep);
		WAIT_FOR(p.c.closed && p.s.closed);
		assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_CLOSED);
		assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_CLOSED);
		assert_int_equal(p.c.received, p.c.expected_count);
		assert_int_equal(p.s.received, p.s.expected_count);
		assert_int_equal(p.c.sent_failed + p.s.sent_failed, 0);
		end_check_cookies(&p.c);
		end_check_cookies(&p.s);
		pair_fini(&p);
	}
}

/* Returns the GID index of an IPv4 address in its text form. */
static uint32_t gid_index_of(const char *addr)
{
	struct rdmamsg_path path = { .size = sizeof(path) };
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .device = test_device(), .path = &path,
	};
	struct rdmamsg *ctx = test_open(NULL);
	uint8_t record[RDMAMSG_OOB_MAX], want[4];
	uint32_t found = 0;
	struct rdmamsg_ep *ep;
	const char *link = getenv("RDMAMSG_SOFT_LINK");

	/* InfiniBand has one GID, which is not an address */
	if (link && !strcmp(link, "ib"))
		found = RDMAMSG_NONE;
	inet_pton(AF_INET, addr, want);
	for (uint32_t i = 0; !found && i < 16; i++) {
		path.gid_index = i ? i : RDMAMSG_NONE;
		if (rdmamsg_oob_offer(ctx, &opts, &ep))
			continue;
		if (rdmamsg_oob_record(ep, record, sizeof(record)) > 0 &&
		    record[34] == 0xff && !memcmp(record + 36, want, 4))
			found = path.gid_index;
		rdmamsg_ep_abort(ep);
	}
	test_close(ctx);
	return found;
}

static void connect__path_given_IS_TAKEN(void **state)
{
	struct rdmamsg_path c = {
		.size = sizeof(c), .port = 1,
		.gid_index = gid_index_of(test_addr()),
		.pkey = 0x7fff, .hop_limit = 3, .traffic_class = 96,
		.flow_label = 5, .mtu = 512, .psn = RDMAMSG_NONE,
	}, s = {
		.size = sizeof(s), .mtu = 256, .psn = 0xffffff,
	};
	struct pair p;

	assert_int_not_equal(c.gid_index, 0);
	oob_init(&p);
	p.c.opts.path = &c;
	p.s.opts.path = &s;
	p.c.tuning.ack_timeout = 14;
	p.c.tuning.rnr_retry_count = 3;
	oob_listen(&p, test_addr());
	oob_connect(&p, test_addr());
	assert_int_equal(end_info(&p.c).mtu, 256);
	assert_int_equal(end_info(&p.s).mtu, 256);
	oob_talk(&p);
	pair_close(&p);
	pair_fini(&p);
}

static void path__out_of_range_EINVAL(void **state)
{
	static const struct {
		struct rdmamsg_path path;
		int error;
		const char *word;
	} bad[] = {
		{ { .flags = 2 }, -EINVAL, "flags" },
		{ { .port = 200 }, -EINVAL, "port" },
		{ { .port = 256 }, -EINVAL, "port" },
		{ { .gid_index = 253 }, -EINVAL, "gid_index" },
		{ { .gid_index = 255 }, -EINVAL, "gid_index" },
		{ { .pkey = 0x1234 }, -EINVAL, "pkey 0x1234" },
		{ { .pkey = 0x10000 }, -EINVAL, "pkey" },
		{ { .pkey_index = 60000 }, -EINVAL, "pkey_index" },
		{ { .pkey = 1, .pkey_index = 1 }, -EINVAL, "pkey_index" },
		{ { .service_level = 16 }, -EINVAL, "service_level" },
		{ { .src_path_bits = 128 }, -EINVAL, "src_path_bits" },
		{ { .traffic_class = 256 }, -EINVAL, "traffic_class" },
		{ { .flow_label = 1 << 20 }, -EINVAL, "flow_label" },
		{ { .hop_limit = 256 }, -EINVAL, "hop_limit" },
		{ { .mtu = 255 }, -EINVAL, "mtu" },
		{ { .mtu = 1500 }, -EINVAL, "mtu" },
		{ { .mtu = 8192 }, -EINVAL, "mtu" },
		{ { .psn = 1 << 24 }, -EINVAL, "psn" },
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .device = test_device(),
	};
	struct rdmamsg *ctx = test_open(NULL);
	struct rdmamsg_path path;
	struct rdmamsg_ep *ep;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		path = bad[i].path;
		path.size = sizeof(path);
		opts.path = &path;
		assert_error(rdmamsg_oob_offer(ctx, &opts, &ep), bad[i].error,
			     bad[i].word);
	}
	/* the connection manager resolves its own path */
	assert_error(rdmamsg_connect(ctx, test_addr(), "1", &opts, &ep),
		     -EINVAL, "takes the partition of the interface");
	test_close(ctx);
}

/* ---- rejects and requests --------------------------------------------- */

static void reject_it(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct pair *p = rdmamsg_listener_user(l);
	struct sockaddr_storage peer, local;
	size_t len;
	const void *data = rdmamsg_request_data(req, &len);

	if (len != 6 || memcmp(data, "please", 6))
		note("hello_data is not there");
	if (rdmamsg_request_addrs(req, NULL, &peer) ||
	    (peer.ss_family != AF_INET && peer.ss_family != AF_INET6))
		note("the peer has no address");
	if (rdmamsg_request_addrs(req, &local, NULL) ||
	    local.ss_family != peer.ss_family)
		note("the request came to no address");
	if (rdmamsg_request_reject(req, "never", 5))
		note("rdmamsg_request_reject: %s", rdmamsg_error());
	p->s.received++;
}

static void connect__rejected_TELLS_WHY(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = reject_it,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	struct pair p;

	oob_init(&p);
	opts.user = &p;
	p.c.opts.hello_data = "please";
	p.c.opts.hello_data_len = 6;
	assert_int_equal(rdmamsg_oob_listen(p.s.ctx, test_addr(), "0", &opts,
					    &p.listener), 0);
	listener_service(p.listener, p.port);
	assert_int_equal(rdmamsg_oob_connect(p.c.ctx, test_addr(), p.port,
					     &p.c.opts, &p.c.ep), 0);
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_REJECTED);
	assert_int_equal(p.c.why.data_len, 5);
	assert_memory_equal(p.c.why_data, "never", 5);
	pair_fini(&p);
}

static void accept_badly(struct rdmamsg_listener *l,
			 struct rdmamsg_request *req)
{
	struct pair *p = rdmamsg_listener_user(l);

	p->s.incoming++;
	texts_are_fine = true;
	if (rdmamsg_request_accept(req, &p->s.opts, NULL) != -EINVAL)
		note("rdmamsg_request_accept with a bad path");
}

static void accept__bad_path_TELLS_BOTH(void **state)
{
	struct rdmamsg_path path = { .size = sizeof(path), .pkey = 0x123 };
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = accept_badly,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	struct pair p;

	for (int wait = 1; wait >= 0; wait--) {
		oob_init(&p);
		opts.user = &p;
		p.s.opts.path = &path;
		assert_int_equal(rdmamsg_oob_listen(p.s.ctx, test_addr(), "0",
						    &opts, &p.listener), 0);
		listener_service(p.listener, p.port);
		assert_int_equal(rdmamsg_oob_connect(p.c.ctx, test_addr(),
						     p.port, &p.c.opts,
						     &p.c.ep), 0);
		WAIT_FOR(wait ? p.c.closed : p.s.incoming);
		if (wait)
			assert_int_equal(p.c.why.cause,
					 RDMAMSG_CAUSE_RESOURCES);
		pair_fini(&p);
	}
}

static void connect__nobody_listens_REFUSED(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pair p;

	/* bind the port, so that no other process takes it */
	inet_pton(AF_INET, test_addr(), &at.sin_addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
	getsockname(fd, (struct sockaddr *)&at, &len);
	oob_init(&p);
	snprintf(p.port, sizeof(p.port), "%u", ntohs(at.sin_port));
	assert_int_equal(rdmamsg_oob_connect(p.c.ctx, test_addr(), p.port,
					     &p.c.opts, &p.c.ep), 0);
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_REFUSED);
	assert_int_equal(p.c.why.error, -ECONNREFUSED);
	pair_fini(&p);
	close(fd);
}

static void listen__again_on_the_port_of_before_WORKS(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = pair_on_request,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	struct pair p;

	oob_init(&p);
	opts.user = &p;
	oob_listen(&p, test_addr());
	oob_connect(&p, test_addr());
	rdmamsg_listener_close(p.listener);
	/* connections of the closed listener still use the port */
	if (rdmamsg_oob_listen(p.s.ctx, test_addr(), p.port, &opts,
			       &p.listener))
		fail_msg("%s", rdmamsg_error());
	assert_error(rdmamsg_oob_listen(p.s.ctx, test_addr(), p.port, &opts,
					NULL), -EADDRINUSE, "port");
	oob_talk(&p);
	pair_close(&p);
	pair_fini(&p);
}

static struct pair *mover;

static void moved(struct rdmamsg *ctx, struct rdmamsg_request *req, void *arg)
{
	mover->s.ctx = ctx;
	if (rdmamsg_request_accept(req, &mover->s.opts, &mover->s.ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
}

static void move_it(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	if (rdmamsg_request_move(req, rdmamsg_listener_user(l), moved, NULL))
		note("rdmamsg_request_move: %s", rdmamsg_error());
}

static void request__moved_CONNECTS_THERE(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = move_it,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	struct rdmamsg *listening;
	struct pair p;

	oob_init(&p);
	mover = &p;
	listening = test_open(NULL);
	opts.user = p.s.ctx;
	assert_int_equal(rdmamsg_oob_listen(listening, test_addr(), "0", &opts,
					    &p.listener), 0);
	listener_service(p.listener, p.port);
	oob_connect(&p, test_addr());
	oob_talk(&p);
	pair_close(&p);
	pair_fini(&p);
	test_close(listening);
}

/* ---- death ------------------------------------------------------------ */

static int connect_and_wait(int argc, char **argv)
{
	struct end e;
	char port[8] = "";

	snprintf(port, sizeof(port), "%s", argv[0]);
	end_init(&e, "child", test_open(NULL));
	e.opts.device = test_device();
	if (rdmamsg_oob_connect(e.ctx, test_addr(), port, &e.opts, &e.ep))
		return 1;
	while (!e.connected && !e.closed)
		test_pump(100);
	say("connected\n");
	for (;;)
		test_pump(1000);
}

static void peer__killed_IS_NOTICED(void **state)
{
	struct child child;
	struct pair p;
	char line[64];

	oob_init(&p);
	p.s.opts.dead_after_ms = test_dead_after_ms();
	oob_listen(&p, test_addr());
	child_start(&child, "connect", p.port);
	child_line(&child, line, sizeof(line));
	assert_string_equal(line, "connected");
	WAIT_FOR(p.s.connected);
	kill(child.pid, SIGKILL);
	child_wait(&child);
	WAIT_PASSING(p.s.closed);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_TRANSPORT);
	assert_int_equal(p.s.why.who, RDMAMSG_WHO_NETWORK);
	pair_fini(&p);
}

/* ---- two fabrics of the soft HCA --------------------------------------- */

/* TCP leads there, but the device does not. */
static int connect_from_another(int argc, char **argv)
{
	struct end e;
	char port[8] = "";

	snprintf(port, sizeof(port), "%s", argv[0]);
	if (setenv("RDMAMSG_SOFT_FABRIC", "oob-apart", 1))
		return 1;
	end_init(&e, "child", test_open(NULL));
	e.opts.device = test_device();
	if (rdmamsg_oob_connect(e.ctx, test_addr(), port, &e.opts, &e.ep))
		return 1;
	while (!e.closed)
		test_pump(100);
	say("%s\n", e.why.text);
	return e.connected;
}

static void connect__from_another_fabric_NAMES_IT(void **state)
{
	struct child child;
	struct pair p;
	char line[300];

	if (!test_on_soft()) {
		skip_because(ONLY_SOFT);
		return;
	}
	oob_init(&p);
	oob_listen(&p, test_addr());
	child_start(&child, "apart", p.port);
	child_line(&child, line, sizeof(line));
	assert_int_equal(child_wait(&child), 0);
	assert_non_null(strstr(line, "RDMAMSG_SOFT_FABRIC"));
	WAIT_FOR(p.s.closed);
	assert_non_null(strstr(p.s.why.text, "RDMAMSG_SOFT_FABRIC"));
	pair_fini(&p);
}

static void peer__aborts_IS_NOTICED(void **state)
{
	struct pair p;

	oob_init(&p);
	p.s.opts.dead_after_ms = test_dead_after_ms();
	oob_listen(&p, test_addr());
	oob_connect(&p, test_addr());
	rdmamsg_ep_abort(p.c.ep);
	WAIT_PASSING(p.c.closed && p.s.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_ABORTED);
	assert_int_equal(p.s.why.error, -ETIMEDOUT);
	pair_fini(&p);
}

static void connect__many_times_LEAVES_NOTHING(void **state)
{
	struct pair p;
	int before = -1;

	oob_init(&p);
	oob_listen(&p, test_addr());
	for (int i = 0; i < 30; i++) {
		oob_connect(&p, test_addr());
		rdmamsg_ep_close(i % 2 ? p.c.ep : p.s.ep);
		WAIT_FOR(p.c.closed && p.s.closed);
		assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_CLOSED);
		assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_CLOSED);
		p.c.connected = p.s.connected = p.c.closed = p.s.closed = 0;
		if (before < 0)
			before = open_fds();
	}
	assert_int_equal(open_fds(), before);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	static const struct role roles[] = {
		{ "connect", connect_and_wait },
		{ "apart", connect_from_another },
		{ NULL, NULL },
	};
	const struct CMUnitTest tests[] = {
		TEST(connect__over_tcp_TALKS),
		TEST(connect__by_name_CONNECTS),
		TEST(close__under_load_LOSES_NOTHING),
		TEST(connect__path_given_IS_TAKEN),
		TEST(path__out_of_range_EINVAL),
		TEST(connect__rejected_TELLS_WHY),
		TEST(accept__bad_path_TELLS_BOTH),
		TEST(connect__nobody_listens_REFUSED),
		TEST(listen__again_on_the_port_of_before_WORKS),
		TEST(request__moved_CONNECTS_THERE),
		TEST(peer__killed_IS_NOTICED),
		TEST(peer__aborts_IS_NOTICED),
		TEST(connect__from_another_fabric_NAMES_IT),
		TEST(connect__many_times_LEAVES_NOTHING),
	};

	end_on_iwarp(NO_OOB);
	return test_main(tests, roles, argc, argv);
}
