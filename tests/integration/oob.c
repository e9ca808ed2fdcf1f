/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: connecting without the connection manager: over the built-in
 * exchange and over one of the test's own, with peers that keep the rules,
 * break them, or end in the middle.
 */
#define _GNU_SOURCE
#include "common.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <signal.h>

/* ---- pairs ------------------------------------------------------------ */

static void oob_listen(struct pair *p, const char *addr)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = p, .on_request = pair_on_request,
		.device = test_device(),
	};

	if (rdmamsg_oob_listen(p->s.ctx, addr, "0", &opts, &p->listener))
		fail_msg("rdmamsg_oob_listen: %s", rdmamsg_error());
	listener_service(p->listener, p->port);
}

static void wait_connected(struct pair *p)
{
	WAIT_FOR((p->s.connected && p->c.connected) || p->c.closed ||
		 p->s.closed);
	if (p->c.closed || p->s.closed)
		fail_msg("not connected: %s", p->c.closed ? p->c.why.text :
			 p->s.why.text);
}

static void oob_connect(struct pair *p, const char *addr)
{
	if (rdmamsg_oob_connect(p->c.ctx, addr, p->port, &p->c.opts, &p->c.ep))
		fail_msg("rdmamsg_oob_connect: %s", rdmamsg_error());
	wait_connected(p);
}

static void oob_init(struct pair *p)
{
	pair_init(p, NULL);
	p->c.opts.device = p->s.opts.device = test_device();
}

/* All ways of sending, both ways. */
static void talk(struct pair *p)
{
	static const size_t sizes[] = { 0, 1, 200, 5000, 100000, 3000000 };
	uint32_t tag = 1;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		end_send_all(&p->c, sizes[i] > 65536 ? HOW_SENDV : HOW_SEND,
			     sizes[i], tag++);
		end_send_all(&p->s, HOW_MSG, sizes[i], tag++);
	}
	WAIT_FOR(p->c.received == p->c.expected_count &&
		 p->s.received == p->s.expected_count);
}

static void connect__over_tcp_TALKS(void **state)
{
	const char *const addrs[] = { test_addr(), test_addr6() };

	for (size_t i = 0; i < ARRAY_SIZE(addrs); i++) {
		struct rdmamsg_ep_info ci, si;
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
		talk(&p);
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
	talk(&p);
	/* the server closes */
	rdmamsg_ep_close(p.s.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_CLOSED);
	pair_fini(&p);
}

/* Of the IPv4 address, as it is to be written. */
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
	p.c.opts.ack_timeout = 14;
	p.c.opts.rnr_retry_count = 3;
	oob_listen(&p, test_addr());
	oob_connect(&p, test_addr());
	assert_int_equal(end_info(&p.c).mtu, 256);
	assert_int_equal(end_info(&p.s).mtu, 256);
	talk(&p);
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
	struct rdmamsg_ep *ep;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct rdmamsg_path path = bad[i].path;

		path.size = sizeof(path);
		opts.path = &path;
		assert_error(rdmamsg_oob_offer(ctx, &opts, &ep), bad[i].error,
			     bad[i].word);
	}
	/* the connection manager finds its own */
	assert_error(rdmamsg_connect(ctx, test_addr(), "1", &opts, &ep),
		     -EINVAL, "path");
	test_close(ctx);
}

/* ---- over a transport of our own -------------------------------------- */

struct record {
	uint8_t bytes[RDMAMSG_OOB_MAX];
	size_t len;
};

static void get_record(struct rdmamsg_ep *ep, struct record *r)
{
	int len = rdmamsg_oob_record(ep, r->bytes, sizeof(r->bytes));

	if (len <= 0)
		fail_msg("rdmamsg_oob_record: %s", rdmamsg_error());
	r->len = (size_t)len;
}

static void make_offer(struct end *e, struct record *r)
{
	if (rdmamsg_oob_offer(e->ctx, &e->opts, &e->ep))
		fail_msg("rdmamsg_oob_offer: %s", rdmamsg_error());
	get_record(e->ep, r);
}

static void make_answer(struct end *e, const struct record *offer,
			struct record *r)
{
	if (rdmamsg_oob_answer(e->ctx, offer->bytes, offer->len, &e->opts,
			       &e->ep))
		fail_msg("rdmamsg_oob_answer: %s", rdmamsg_error());
	get_record(e->ep, r);
}

static void records__exchanged_TALK(void **state)
{
	struct record offer, answer;
	struct pair p;

	oob_init(&p);
	make_offer(&p.c, &offer);
	make_answer(&p.s, &offer, &answer);
	assert_int_equal(rdmamsg_oob_finish(p.c.ep, answer.bytes, answer.len),
			 0);
	/* once only */
	assert_error(rdmamsg_oob_finish(p.c.ep, answer.bytes, answer.len),
		     -EALREADY, "answer");
	wait_connected(&p);
	talk(&p);
	pair_close(&p);
	pair_fini(&p);
}

static void records__damaged_ARE_REFUSED(void **state)
{
	struct record offer, answer, bad;
	struct rdmamsg_ep *ep;
	struct pair p;

	oob_init(&p);
	make_offer(&p.c, &offer);
	for (size_t n = 0; n < offer.len; n++)
		assert_error(rdmamsg_oob_answer(p.s.ctx, offer.bytes, n,
						&p.s.opts, &ep), -EPROTO,
			     "record");
	bad = offer;
	assert_error(rdmamsg_oob_answer(p.s.ctx, bad.bytes, bad.len + 1,
					&p.s.opts, &ep), -EPROTO, "record");
	bad.bytes[4]++;
	assert_error(rdmamsg_oob_answer(p.s.ctx, bad.bytes, bad.len, &p.s.opts,
					&ep), -EPROTONOSUPPORT, "version");
	bad = offer;
	bad.bytes[9] = bad.bytes[9] == 1 ? 2 : 1;	/* another link */
	bad.bytes[11] = 1;
	assert_error(rdmamsg_oob_answer(p.s.ctx, bad.bytes, bad.len, &p.s.opts,
					&ep), -EHOSTUNREACH, "port is");
	bad = offer;
	bad.bytes[56] ^= 1;				/* another partition */
	assert_error(rdmamsg_oob_answer(p.s.ctx, bad.bytes, bad.len, &p.s.opts,
					&ep), -EHOSTUNREACH, "partition");
	bad = offer;
	bad.bytes[64 + 4] = bad.bytes[64 + 5] = 99;	/* the hello's versions */
	assert_error(rdmamsg_oob_answer(p.s.ctx, bad.bytes, bad.len, &p.s.opts,
					&ep), -EPROTONOSUPPORT, "version");

	make_answer(&p.s, &offer, &answer);
	assert_error(rdmamsg_oob_answer(p.s.ctx, offer.bytes, offer.len,
					&p.s.opts, &ep), -EALREADY,
		     "answered");
	assert_error(rdmamsg_oob_answer(p.s.ctx, answer.bytes, answer.len,
					&p.s.opts, &ep), -EPROTO, "offer");
	assert_error(rdmamsg_oob_finish(p.c.ep, offer.bytes, offer.len),
		     -EPROTO, "offer");
	for (size_t n = 0; n < answer.len; n++)
		assert_error(rdmamsg_oob_finish(p.c.ep, answer.bytes, n),
			     -EPROTO, "record");
	bad = answer;
	bad.bytes[40]++;				/* the token */
	assert_error(rdmamsg_oob_finish(p.c.ep, bad.bytes, bad.len), -EPROTO,
		     "another offer");
	assert_error(rdmamsg_oob_finish(p.s.ep, answer.bytes, answer.len),
		     -EINVAL, "offer");
	assert_error(rdmamsg_oob_record(p.s.ep, bad.bytes, answer.len - 1),
		     -EINVAL, "bytes");

	/* after all that the right one is still good */
	assert_int_equal(rdmamsg_oob_finish(p.c.ep, answer.bytes, answer.len),
			 0);
	wait_connected(&p);
	talk(&p);
	pair_close(&p);
	pair_fini(&p);
}

static void records__without_an_answer_TIME_OUT(void **state)
{
	struct record offer, answer;
	struct pair p;

	oob_init(&p);
	p.c.opts.timeout_ms = p.s.opts.timeout_ms = 300;
	make_offer(&p.c, &offer);
	make_answer(&p.s, &offer, &answer);
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_TIMEOUT);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_TIMEOUT);
	/* a replay of an offer whose endpoint has gone waits in vain as well */
	make_answer(&p.s, &offer, &answer);
	p.s.closed = 0;
	WAIT_FOR(p.s.closed);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_TIMEOUT);
	pair_fini(&p);
}

/* Somebody else's queue pair must not become the peer. */
static void records__of_two_exchanges_mixed_up_ARE_REFUSED(void **state)
{
	struct record offer[2], answer[2];
	struct pair p, q;

	oob_init(&p);
	oob_init(&q);
	p.c.opts.timeout_ms = p.s.opts.timeout_ms = 2000;
	q.c.opts.timeout_ms = q.s.opts.timeout_ms = 2000;
	make_offer(&p.c, &offer[0]);
	make_offer(&q.c, &offer[1]);
	make_answer(&p.s, &offer[0], &answer[0]);
	make_answer(&q.s, &offer[1], &answer[1]);
	/* a forger: the token of one, the queue pair of the other */
	memcpy(answer[1].bytes + 40, answer[0].bytes + 40, 16);
	assert_int_equal(rdmamsg_oob_finish(p.c.ep, answer[1].bytes,
					    answer[1].len), 0);
	WAIT_FOR(p.c.closed && p.s.closed && q.s.closed && q.c.closed);
	assert_int_equal(p.c.connected + q.c.connected, 0);
	pair_fini(&p);
	pair_fini(&q);
}

/* ---- rejects and requests --------------------------------------------- */

static void reject_it(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct pair *p = rdmamsg_listener_user(l);
	struct sockaddr_storage peer;
	size_t len;
	const void *data = rdmamsg_request_data(req, &len);

	if (len != 6 || memcmp(data, "please", 6))
		note("hello_data is not there");
	if (rdmamsg_request_peer(req, &peer) ||
	    (peer.ss_family != AF_INET && peer.ss_family != AF_INET6))
		note("the peer has no address");
	if (rdmamsg_reject(req, "never", 5))
		note("rdmamsg_reject: %s", rdmamsg_error());
	p->s.received++;
}

static void connect__rejected_TELLS_WHY(void **state)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .on_request = reject_it,
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
	if (rdmamsg_accept(req, &p->s.opts, NULL) != -EINVAL)
		note("rdmamsg_accept with a bad path");
}

static void accept__bad_path_TELLS_BOTH(void **state)
{
	struct rdmamsg_path path = { .size = sizeof(path), .pkey = 0x123 };
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .on_request = accept_badly,
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
	struct pair p;
	int ret;

	oob_init(&p);
	oob_listen(&p, test_addr());
	rdmamsg_listener_close(p.listener);
	ret = rdmamsg_oob_connect(p.c.ctx, test_addr(), p.port, &p.c.opts,
				  &p.c.ep);
	if (!ret) {
		WAIT_FOR(p.c.closed);
		assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_REFUSED);
		ret = p.c.why.error;
	}
	assert_int_equal(ret, -ECONNREFUSED);
	pair_fini(&p);
}

static void listen__again_on_the_port_of_before_WORKS(void **state)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .on_request = pair_on_request,
	};
	struct pair p;

	oob_init(&p);
	opts.user = &p;
	oob_listen(&p, test_addr());
	oob_connect(&p, test_addr());
	rdmamsg_listener_close(p.listener);
	/* connections of the port are still there */
	if (rdmamsg_oob_listen(p.s.ctx, test_addr(), p.port, &opts,
			       &p.listener))
		fail_msg("%s", rdmamsg_error());
	assert_error(rdmamsg_oob_listen(p.s.ctx, test_addr(), p.port, &opts,
					NULL), -EADDRINUSE, "port");
	talk(&p);
	pair_close(&p);
	pair_fini(&p);
}

static struct pair *mover;

static void moved(struct rdmamsg *ctx, struct rdmamsg_request *req, void *arg)
{
	mover->s.ctx = ctx;
	if (rdmamsg_accept(req, &mover->s.opts, &mover->s.ep))
		note("rdmamsg_accept: %s", rdmamsg_error());
}

static void move_it(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	if (rdmamsg_request_move(req, rdmamsg_listener_user(l), moved, NULL))
		note("rdmamsg_request_move: %s", rdmamsg_error());
}

static void request__moved_CONNECTS_THERE(void **state)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .on_request = move_it,
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
	talk(&p);
	pair_close(&p);
	pair_fini(&p);
	test_close(listening);
}

/* ---- strangers -------------------------------------------------------- */

/* Blocking; the library never waits for it. */
static int raw_connect(const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *ai;
	int fd;

	if (getaddrinfo(test_addr(), port, &hints, &ai))
		fail_msg("getaddrinfo");
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, ai->ai_addr, ai->ai_addrlen))
		fail_msg("connect: %s", strerror(errno));
	freeaddrinfo(ai);
	return fd;
}

static void put(int fd, const void *buf, size_t len)
{
	if (send(fd, buf, len, MSG_NOSIGNAL) != (ssize_t)len)
		fail_msg("send: %s", strerror(errno));
}

static void listen__strangers_DO_NO_HARM(void **state)
{
	struct record offer;
	struct end other;
	struct pair p;
	int fd[5];

	oob_init(&p);
	oob_listen(&p, test_addr());
	end_init(&other, "other", test_open(NULL));
	other.opts.device = test_device();
	make_offer(&other, &offer);

	fd[0] = raw_connect(p.port);		/* says nothing */
	fd[1] = raw_connect(p.port);
	put(fd[1], "GET / HTTP/1.0\r\n\r\n", 18);
	fd[2] = raw_connect(p.port);
	put(fd[2], offer.bytes, offer.len - 1);	/* never the last byte */
	fd[3] = raw_connect(p.port);
	put(fd[3], offer.bytes, 7);
	shutdown(fd[3], SHUT_WR);
	fd[4] = raw_connect(p.port);
	offer.bytes[8] = 2;			/* an answer */
	put(fd[4], offer.bytes, offer.len);
	for (int i = 0; i < 20; i++)
		test_pump(1);
	assert_int_equal(p.s.connected, 0);

	oob_connect(&p, test_addr());
	talk(&p);
	pair_close(&p);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		close(fd[i]);
	rdmamsg_ep_abort(other.ep);
	WAIT_FOR(other.closed);
	pair_fini(&p);
	test_close(other.ctx);
	end_fini(&other);
}

/* The first one; who says the same again is not let in. */
static void accept_once(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct pair *p = rdmamsg_listener_user(l);
	int ret = rdmamsg_accept(req, &p->s.opts, p->s.ep ? NULL : &p->s.ep);

	if (ret != (p->s.incoming++ ? -EALREADY : 0))
		note("rdmamsg_accept: %d, %s", ret, rdmamsg_error());
}

/* An offer whose sender ends before SETUP; and the same offer once more. */
static void accept__peer_ends_in_the_middle_IS_TOLD(void **state)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .on_request = accept_once,
	};
	uint8_t answer[RDMAMSG_OOB_MAX];
	struct record offer;
	struct end other;
	struct pair p;
	int fd, again;

	oob_init(&p);
	opts.user = &p;
	assert_int_equal(rdmamsg_oob_listen(p.s.ctx, test_addr(), "0", &opts,
					    &p.listener), 0);
	listener_service(p.listener, p.port);
	end_init(&other, "other", test_open(NULL));
	other.opts.device = test_device();
	make_offer(&other, &offer);
	fd = raw_connect(p.port);
	put(fd, offer.bytes, offer.len);
	WAIT_FOR(p.s.ep);
	again = raw_connect(p.port);
	put(again, offer.bytes, offer.len);
	WAIT_FOR(p.s.incoming == 2);
	/* refused by a record that says so, and then the end */
	assert_int_equal(recv(again, answer, sizeof(answer), 0), 88);
	assert_int_equal(answer[8], 3);
	assert_int_equal(recv(again, answer, sizeof(answer), 0), 0);
	close(again);
	assert_int_equal(p.s.closed, 0);
	close(fd);
	WAIT_FOR(p.s.closed);
	assert_int_equal(p.s.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_ABORTED);
	rdmamsg_ep_abort(other.ep);
	WAIT_FOR(other.closed);
	pair_fini(&p);
	test_close(other.ctx);
	end_fini(&other);
}

/* What a server of the test's own says, and what comes of it. */
static void connect__strange_answers_END_IT(void **state)
{
	static const struct {
		const char *name;
		const char *bytes;
		size_t len;
		bool stay;
		enum rdmamsg_cause cause;
	} says[] = {
		{ "nothing", "", 0, false, RDMAMSG_CAUSE_ABORTED },
		{ "silence", "", 0, true, RDMAMSG_CAUSE_TIMEOUT },
		{ "garbage", "HTTP/1.0 400 Bad Request\r\n", 26, false,
		  RDMAMSG_CAUSE_PROTOCOL },
		{ "another version", "RMOB\2\0\100\0", 8, true,
		  RDMAMSG_CAUSE_VERSION },
		{ "part", "RMOB\1\0\130\0\2\2", 10, false,
		  RDMAMSG_CAUSE_ABORTED },
		{ "part and silence", "RMOB\1\0\130\0\2\2", 10, true,
		  RDMAMSG_CAUSE_TIMEOUT },
	};

	for (size_t i = 0; i < ARRAY_SIZE(says); i++) {
		struct sockaddr_in at = { .sin_family = AF_INET };
		socklen_t len = sizeof(at);
		int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
		char drain[RDMAMSG_OOB_MAX];
		struct end e;

		inet_pton(AF_INET, test_addr(), &at.sin_addr);
		assert_int_equal(bind(l, (struct sockaddr *)&at, len), 0);
		assert_int_equal(listen(l, 1), 0);
		getsockname(l, (struct sockaddr *)&at, &len);
		end_init(&e, says[i].name, test_open(NULL));
		e.opts.device = test_device();
		e.opts.timeout_ms = says[i].cause == RDMAMSG_CAUSE_TIMEOUT ?
				    300 : WAIT_MS;
		snprintf(drain, 8, "%u", ntohs(at.sin_port));
		assert_int_equal(rdmamsg_oob_connect(e.ctx, test_addr(), drain,
						     &e.opts, &e.ep), 0);
		fd = accept(l, NULL, NULL);
		/* the offer first: an unread one would make the end a reset */
		for (size_t got = 0; got < 88;) {
			ssize_t n = recv(fd, drain, sizeof(drain),
					 MSG_DONTWAIT);

			got += n > 0 ? (size_t)n : 0;
			test_pump(1);
		}
		put(fd, says[i].bytes, says[i].len);
		if (!says[i].stay)
			close(fd);
		WAIT_FOR(e.closed);
		if (e.why.cause != says[i].cause)
			fail_msg("%s: cause %d: %s", e.name, e.why.cause,
				 e.why.text);
		if (says[i].stay)
			close(fd);
		close(l);
		test_close(e.ctx);
		end_fini(&e);
	}
}

static void accept_wait__closed_listener_ENDS_REQUESTS(void **state)
{
	struct pair p;

	oob_init(&p);
	assert_int_equal(rdmamsg_oob_listen(p.s.ctx, test_addr(), "0", NULL,
					    &p.listener), 0);
	listener_service(p.listener, p.port);
	assert_int_equal(rdmamsg_oob_connect(p.c.ctx, test_addr(), p.port,
					     &p.c.opts, &p.c.ep), 0);
	for (int i = 0; i < 50; i++)
		test_pump(1);
	rdmamsg_listener_close(p.listener);
	WAIT_FOR(p.c.closed);
	assert_true(p.c.why.who == RDMAMSG_WHO_PEER);
	pair_fini(&p);
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
	p.s.opts.dead_after_ms = 2000;
	oob_listen(&p, test_addr());
	child_start(&child, "connect", p.port);
	child_line(&child, line, sizeof(line));
	assert_string_equal(line, "connected");
	WAIT_FOR(p.s.connected);
	kill(child.pid, SIGKILL);
	child_wait(&child);
	WAIT_FOR(p.s.closed);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_TRANSPORT);
	assert_int_equal(p.s.why.who, RDMAMSG_WHO_NETWORK);
	pair_fini(&p);
}

static void peer__aborts_IS_NOTICED(void **state)
{
	struct pair p;

	oob_init(&p);
	p.s.opts.dead_after_ms = 2000;
	oob_listen(&p, test_addr());
	oob_connect(&p, test_addr());
	rdmamsg_ep_abort(p.c.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
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
		{ NULL, NULL },
	};
	const struct CMUnitTest tests[] = {
		TEST(connect__over_tcp_TALKS),
		TEST(connect__by_name_CONNECTS),
		TEST(connect__path_given_IS_TAKEN),
		TEST(path__out_of_range_EINVAL),
		TEST(records__exchanged_TALK),
		TEST(records__damaged_ARE_REFUSED),
		TEST(records__without_an_answer_TIME_OUT),
		TEST(records__of_two_exchanges_mixed_up_ARE_REFUSED),
		TEST(connect__rejected_TELLS_WHY),
		TEST(accept__bad_path_TELLS_BOTH),
		TEST(connect__nobody_listens_REFUSED),
		TEST(listen__again_on_the_port_of_before_WORKS),
		TEST(request__moved_CONNECTS_THERE),
		TEST(listen__strangers_DO_NO_HARM),
		TEST(accept__peer_ends_in_the_middle_IS_TOLD),
		TEST(connect__strange_answers_END_IT),
		TEST(accept_wait__closed_listener_ENDS_REQUESTS),
		TEST(peer__killed_IS_NOTICED),
		TEST(peer__aborts_IS_NOTICED),
		TEST(connect__many_times_LEAVES_NOTHING),
	};

	return test_main(tests, roles, argc, argv);
}
