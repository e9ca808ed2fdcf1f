/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: connecting without the connection manager. Peers break the rules
 * of the built-in exchange, or end in the middle.
 */
#include "oob_pair.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/oob.h>

/* Connects with blocking calls. The library never waits for them. */
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
	struct oob_record offer;
	struct end other;
	struct pair p;
	int fd[5];

	oob_init(&p);
	oob_listen(&p, test_addr());
	end_init(&other, "other", test_open(NULL));
	other.opts.device = test_device();
	oob_make_offer(&other, &offer);

	fd[0] = raw_connect(p.port);		/* sends nothing */
	fd[1] = raw_connect(p.port);
	put(fd[1], "GET / HTTP/1.0\r\n\r\n", 18);
	fd[2] = raw_connect(p.port);
	put(fd[2], offer.bytes, offer.len - 1);	/* never sends the last byte */
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
	oob_talk(&p);
	pair_close(&p);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		close(fd[i]);
	rdmamsg_ep_abort(other.ep);
	WAIT_FOR(other.closed);
	pair_fini(&p);
	test_close(other.ctx);
	end_fini(&other);
}

#define HELD	2		/* connections of one address: its share */

static uint64_t turned_away(const struct pair *p)
{
	struct rdmamsg_listener_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_listener_get_stats(p->listener, &st), 0);
	return st.rejected_requests;
}

/* An address has its part of the backlog, and learns it. */
static void listen__at_its_limit_NAMED_AND_TRIED_AGAIN(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = pair_on_request,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on, .device = test_device(),
		.backlog = 4,
	};
	uint8_t answer[RDMAMSG_OOB_MAX];
	struct pair p;
	int fd[HELD], more;

	oob_init(&p);
	opts.user = &p;
	assert_int_equal(rdmamsg_oob_listen(p.s.ctx, test_addr(), "0", &opts,
					    &p.listener), 0);
	listener_service(p.listener, p.port);
	for (int i = 0; i < HELD; i++)
		fd[i] = raw_connect(p.port);
	more = raw_connect(p.port);
	put(more, "unread", 6);
	WAIT_FOR(turned_away(&p) == 1);
	/* a reject, whose hello has the code LIMIT and names the limit */
	assert_int_equal(recv(more, answer, sizeof(answer), 0), 88);
	assert_int_equal(answer[8], 3);
	assert_int_equal(answer[64 + 14], 5);
	assert_int_equal(answer[64 + 20], 1);
	close(more);
	/* the client tries again until there is room */
	if (rdmamsg_oob_connect(p.c.ctx, test_addr(), p.port, &p.c.opts,
				&p.c.ep))
		fail_msg("rdmamsg_oob_connect: %s", rdmamsg_error());
	WAIT_FOR(turned_away(&p) >= 3 || p.c.closed);
	if (p.c.closed)
		fail_msg("%s", p.c.why.text);
	for (int i = 0; i < HELD; i++)
		close(fd[i]);
	oob_wait_connected(&p);
	oob_talk(&p);
	pair_close(&p);
	pair_fini(&p);
}

static void listen__garbage_IS_AN_OFFENCE(void **state)
{
	struct rdmamsg_listener_stats st = { .size = sizeof(st) };
	struct pair p;
	int fd;

	oob_init(&p);
	oob_listen(&p, test_addr());
	fd = raw_connect(p.port);
	put(fd, "GET / HTTP/1.0\r\n\r\n", 18);
	WAIT_FOR(!rdmamsg_listener_get_stats(p.listener, &st) &&
		 st.offences == 1);
	close(fd);
	/* the address waits a little */
	oob_connect(&p, test_addr());
	oob_talk(&p);
	pair_close(&p);
	pair_fini(&p);
}

/* Accepts the first offer. A repeated offer must fail with -EALREADY. */
static void accept_once(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct pair *p = rdmamsg_listener_user(l);
	int ret = rdmamsg_request_accept(req, &p->s.opts,
					 p->s.ep ? NULL : &p->s.ep);

	texts_are_fine |= ret != 0;
	if (ret != (p->s.incoming++ ? -EALREADY : 0))
		note("rdmamsg_request_accept: %d, %s", ret, rdmamsg_error());
}

/* The sender of an offer ends before SETUP, and the same offer comes again. */
static void accept__peer_ends_in_the_middle_IS_TOLD(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = accept_once,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	uint8_t answer[RDMAMSG_OOB_MAX];
	struct oob_record offer;
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
	oob_make_offer(&other, &offer);
	fd = raw_connect(p.port);
	put(fd, offer.bytes, offer.len);
	WAIT_FOR(p.s.ep);
	again = raw_connect(p.port);
	put(again, offer.bytes, offer.len);
	WAIT_FOR(p.s.incoming == 2);
	/* the listener sends a record of refusal and closes */
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

/* A fake server sends these bytes, and the connection ends with this cause. */
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
		/*
		 * read the whole offer first: an unread offer turns the close
		 * into a reset
		 */
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(listen__strangers_DO_NO_HARM),
		TEST(listen__at_its_limit_NAMED_AND_TRIED_AGAIN),
		TEST(listen__garbage_IS_AN_OFFENCE),
		TEST(accept__peer_ends_in_the_middle_IS_TOLD),
		TEST(connect__strange_answers_END_IT),
		TEST(accept_wait__closed_listener_ENDS_REQUESTS),
	};

	end_on_iwarp(NO_OOB);
	return test_main(tests, NULL, argc, argv);
}
