/* SPDX-License-Identifier: BSD-2-Clause */
/* Connecting: addresses, failing connects, many at once. */
#include "clock.h"
#include "common.h"
#include "harm.h"
#include "request.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/oob.h>

static struct pair p;

/* ---- addresses -------------------------------------------------------- */

static void listen_at(const char *host, const char *service)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = pair_on_request,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = &p, .handlers = &on,
	};

	if (rdmamsg_listen(p.s.ctx, host, service, &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(p.listener, p.port);
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
	pair_exchange(&p);
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

/* A name may have addresses of both families, in either order. */
static const char *first_address(const char *name)
{
	static char addr[INET6_ADDRSTRLEN];
	struct addrinfo *ai, hints = { .ai_socktype = SOCK_STREAM };

	assert_int_equal(getaddrinfo(name, NULL, &hints, &ai), 0);
	assert_int_equal(getnameinfo(ai->ai_addr, ai->ai_addrlen, addr,
				     sizeof(addr), NULL, 0, NI_NUMERICHOST), 0);
	freeaddrinfo(ai);
	return addr;
}

static void connect__name_IS_RESOLVED(void **state)
{
	char name6[32];

	/* the name of the IPv6 address alone */
	snprintf(name6, sizeof(name6), "%s6", test_name());
	connect_to(NULL, test_name(), NULL, NULL);
	connect_to(NULL, test_on_soft() ? "localhost" : name6, NULL, NULL);
	connect_to(test_name(), first_address(test_name()), NULL, NULL);
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
		     test_unknown_device(), "nosuch0");
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
	assert_string_equal(rdmamsg_ep_device_name(p.c.ep), test_device());
	rdmamsg_ep_close(p.c.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	pair_fini(&p);
}

/* Expects that the second cannot have the port of the first. */
static void check_clash(const char *first, const char *second)
{
	struct rdmamsg_listener *l;

	listen_at(first, "0");
	assert_error(rdmamsg_listen(p.c.ctx, second, p.port, NULL, &l),
		     -EADDRINUSE, "in use");
	rdmamsg_listener_close(p.listener);
}

static void listen__all_and_one_address_IN_USE(void **state)
{
	pair_init(&p, NULL);
	check_clash(test_addr(), "0.0.0.0");
	check_clash("0.0.0.0", test_addr());
	check_clash(test_addr(), NULL);
	check_clash(NULL, test_addr());
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
	/* the closed listener's port is free again */
	assert_int_equal(rdmamsg_listen(p.c.ctx, test_addr(), p.port, NULL,
					NULL), 0);
	pair_fini(&p);
}

/* ---- failing connects ------------------------------------------------- */

static void connect__nobody_listens_REFUSED(void **state)
{
	pair_init(&p, NULL);
	pair_listen(&p);
	rdmamsg_listener_close(p.listener);
	dial(&p.c, test_addr(), p.port, WAIT_MS);
	expect_end(&p.c, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REFUSED,
		   -ECONNREFUSED);
	assert_non_null(strstr(p.c.why.text, p.port));
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
		dial(&p.c, test_addr(), p.port, 3000);
	else
		dial(&p.c, "10.9.0.77", "4711", 3000);
	WAIT_FOR(p.c.closed);
	if (test_on_soft())
		harm_silence(false);
	assert_true(now_ms() - start < 3000 + WAIT_MS / 4);
	assert_int_equal(p.c.why.who, RDMAMSG_WHO_NETWORK);
	/* the address does not answer, or the request gets no answer */
	if (!test_on_soft())
		assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_UNREACHABLE);
	else
		assert_true(p.c.why.cause == RDMAMSG_CAUSE_UNREACHABLE ||
			    p.c.why.cause == RDMAMSG_CAUSE_TIMEOUT);
	assert_int_equal(p.c.why.error, p.c.why.cause ==
			 RDMAMSG_CAUSE_TIMEOUT ? -ETIMEDOUT : -EHOSTUNREACH);
	pair_fini(&p);
}

static void connect__no_device_leads_there_ENODEV(void **state)
{
	const char *preload = getenv("LD_PRELOAD");
	struct rdmamsg_ep *ep;
	int ret;

	if (preload && strstr(preload, "soft-preload"))
		skip_because("libibverbs has the soft HCA, so \"hw\" has "
			     "loop-back addresses");
	pair_init(&p, NULL);
	/* only the soft HCA uses the loop-back interface */
	p.c.opts.device = "hw";
	ret = rdmamsg_connect(p.c.ctx, "127.0.0.1", "4711", &p.c.opts, &ep);
	if (ret) {
		assert_error(ret, -ENODEV, "rdma link");
	} else {
		expect_end(&p.c, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ADDRESS,
			   -ENODEV);
		assert_non_null(strstr(p.c.why.text, "rdma link"));
	}
	pair_fini(&p);
}

static void connect__name_that_is_none_UNRESOLVED(void **state)
{
	pair_init(&p, NULL);
	dial(&p.c, "no-such-host.invalid", "4711", WAIT_MS);
	expect_end(&p.c, RDMAMSG_WHO_LOCAL, RDMAMSG_CAUSE_ADDRESS,
		   -EADDRNOTAVAIL);
	assert_non_null(strstr(p.c.why.text, "no-such-host.invalid"));
	pair_fini(&p);
}

/* ---- the same error from three calls --------------------------------- */

static int (*const connects[])(struct rdmamsg *ctx, const char *host,
			       const char *service,
			       const struct rdmamsg_ep_options *opts,
			       struct rdmamsg_ep **ret) = {
	rdmamsg_connect, rdmamsg_oob_connect,
};
static int (*const listens[])(struct rdmamsg *ctx, const char *host,
			      const char *service,
			      const struct rdmamsg_listen_options *opts,
			      struct rdmamsg_listener **ret) = {
	rdmamsg_listen, rdmamsg_oob_listen,
};

static void say_no(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	if (rdmamsg_request_reject(req, "no", 2))
		note("rdmamsg_request_reject: %s", rdmamsg_error());
}

/* The error comes with on_closed, even if the library knows it at once. */
static void expect_cause(int way, const char *host, const char *service,
			 enum rdmamsg_who who, enum rdmamsg_cause cause,
			 int error)
{
	p.c.closed = 0;
	if (connects[way](p.c.ctx, host, service, &p.c.opts, &p.c.ep))
		fail_msg("connecting to %s: %s", host, rdmamsg_error());
	expect_end(&p.c, who, cause, error);
}

static unsigned int rejects;		/* lines of the log */

static void count_rejects(void *arg, enum rdmamsg_log_level level,
			  const char *line)
{
	rejects += strstr(line, ": a request of ") &&
		   strstr(line, " is rejected: by the program");
}

static void connect__refused_and_rejected_DIFFER(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = say_no,
	};
	const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	const char *const hosts[] = { test_addr(), test_addr6() };

	for (size_t way = 0; way < (test_iwarp() ? 1 : ARRAY_SIZE(connects));
	     way++)
		for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
			pair_init(&p, NULL);
			p.c.opts.device = test_device();
			if (listens[way](p.s.ctx, hosts[i], "0", &opts,
					 &p.listener))
				fail_msg("listening: %s", rdmamsg_error());
			listener_service(p.listener, p.port);
			rejects = 0;
			rdmamsg_set_log(count_rejects, NULL,
					RDMAMSG_LOG_INFO);
			expect_cause(way, hosts[i], p.port, RDMAMSG_WHO_PEER,
				     RDMAMSG_CAUSE_REJECTED, -ECONNABORTED);
			assert_int_equal(rejects, 1);
			assert_int_equal(p.c.why.data_len, 2);
			rdmamsg_listener_close(p.listener);
			expect_cause(way, hosts[i], p.port, RDMAMSG_WHO_PEER,
				     RDMAMSG_CAUSE_REFUSED, -ECONNREFUSED);
			assert_int_equal(p.c.why.data_len, 0);
			pair_fini(&p);
		}
}

/* ---- tries ------------------------------------------------------------ */

static unsigned int tries;

static void count_tries(void *arg, enum rdmamsg_log_level level,
			const char *line)
{
	tries += !!strstr(line, "; again in ");
}

/* The program that the peer connects to starts later. */
static void retry__until_somebody_listens_CONNECTS(void **state)
{
	for (size_t way = 0; way < (test_iwarp() ? 1 : ARRAY_SIZE(connects));
	     way++) {
		static const struct rdmamsg_listener_handlers on = {
			.size = sizeof(on), .on_request = pair_on_request,
		};
		const struct rdmamsg_listen_options opts = {
			.size = sizeof(opts), .user = &p, .handlers = &on,
		};

		tries = 0;
		rdmamsg_set_log(count_tries, NULL, RDMAMSG_LOG_INFO);
		pair_init(&p, NULL);
		p.c.opts.device = test_device();
		p.c.opts.flags |= RDMAMSG_EP_RETRY;
		p.c.opts.timeout_ms = WAIT_MS;
		if (listens[way](p.s.ctx, test_addr(), "0", &opts,
				 &p.listener))
			fail_msg("listening: %s", rdmamsg_error());
		listener_service(p.listener, p.port);
		rdmamsg_listener_close(p.listener);
		if (connects[way](p.c.ctx, test_addr(), p.port, &p.c.opts,
				  &p.c.ep))
			fail_msg("connecting: %s", rdmamsg_error());
		WAIT_FOR(tries >= 2);
		if (listens[way](p.s.ctx, test_addr(), p.port, &opts,
				 &p.listener))
			fail_msg("listening: %s", rdmamsg_error());
		pair_exchange(&p);
		pair_fini(&p);
	}
}

/*
 * Connects with a limit in which tries fit, also where a try takes long, and
 * expects that the reason says so.
 */
static void expect_tries(int way, const char *host, const char *service,
			 enum rdmamsg_who who, enum rdmamsg_cause cause,
			 int error)
{
	char text[32];

	tries = 0;
	rdmamsg_set_log(count_tries, NULL, RDMAMSG_LOG_INFO);
	p.c.opts.flags |= RDMAMSG_EP_RETRY;
	for (uint32_t ms = 500; !tries && ms < WAIT_MS; ms *= 4) {
		p.c.opts.timeout_ms = ms;
		p.c.closed = 0;
		if (connects[way](p.c.ctx, host, service, &p.c.opts, &p.c.ep))
			fail_msg("connecting to %s: %s", host, rdmamsg_error());
		WAIT_FOR(p.c.closed);
	}
	expect_end(&p.c, who, cause, error);
	assert_true(tries > 0);
	snprintf(text, sizeof(text), "tries in %u ms", p.c.opts.timeout_ms);
	assert_non_null(strstr(p.c.why.text, text));
}

static void retry__nobody_listens_SAYS_WHAT_IT_MET(void **state)
{
	for (size_t way = 0; way < (test_iwarp() ? 1 : ARRAY_SIZE(connects));
	     way++) {
		pair_init(&p, NULL);
		p.c.opts.device = test_device();
		if (listens[way](p.s.ctx, test_addr(), "0", NULL, &p.listener))
			fail_msg("listening: %s", rdmamsg_error());
		listener_service(p.listener, p.port);
		rdmamsg_listener_close(p.listener);
		expect_tries((int)way, test_addr(), p.port, RDMAMSG_WHO_PEER,
			     RDMAMSG_CAUSE_REFUSED, -ECONNREFUSED);
		assert_non_null(strstr(p.c.why.text, p.port));
		pair_fini(&p);
	}
}

/* TCP does not connect to groups: the system reports an unreachable network. */
static const char *const no_hosts[] = { "255.255.255.255", "ff0e::1" };

static void oob_connect__no_way_there_UNREACHABLE(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(no_hosts); i++) {
		pair_init(&p, NULL);
		expect_cause(1, no_hosts[i], "4711", RDMAMSG_WHO_NETWORK,
			     RDMAMSG_CAUSE_UNREACHABLE, -EHOSTUNREACH);
		assert_non_null(strstr(p.c.why.text, no_hosts[i]));
		pair_fini(&p);
	}
}

/* The network may recover. */
static void retry__no_way_there_TRIES_UNTIL_THE_TIME_IS_OVER(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(no_hosts); i++) {
		pair_init(&p, NULL);
		expect_tries(1, no_hosts[i], "4711", RDMAMSG_WHO_NETWORK,
			     RDMAMSG_CAUSE_UNREACHABLE, -EHOSTUNREACH);
		assert_non_null(strstr(p.c.why.text, no_hosts[i]));
		pair_fini(&p);
	}
}

static void connect__no_way_there_UNREACHABLE(void **state)
{
	static const char *const hosts[] = { "192.0.2.1", "2001:db8::1" };
	/* the kernel may have no route, or ask for the address in vain */
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .timeout_ms = 3000,
	};
	struct rdmamsg_ep *ep;

	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		pair_init(&p, NULL);
		p.c.opts.timeout_ms = opts.timeout_ms;
		/* the soft HCA has no routes to other devices */
		if (test_on_soft())
			expect_cause(0, hosts[i], "4711", RDMAMSG_WHO_LOCAL,
				     RDMAMSG_CAUSE_ADDRESS, -ENODEV);
		else
			expect_cause(0, hosts[i], "4711", RDMAMSG_WHO_NETWORK,
				     RDMAMSG_CAUSE_UNREACHABLE, -EHOSTUNREACH);
		assert_non_null(strstr(p.c.why.text, hosts[i]));
		assert_error(rdmamsg_connect_wait(p.c.ctx, hosts[i], "4711",
						  &opts, WAIT_MS, &ep),
			     p.c.why.error, hosts[i]);
		pair_fini(&p);
	}
}

#define TEN_S	10000	/* three are less than the manager's own 60 s */

static void connect__nobody_accepts_TIMEOUT(void **state)
{
	struct rdmamsg_listen_options opts = { .size = sizeof(opts) };
	struct rdmamsg_listener_stats st = { .size = sizeof(st) };

	pair_init(&p, NULL);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	dial(&p.c, test_addr(), listener_service(p.listener, p.port),
	     3 * TEN_S);
	WAIT_FOR(!rdmamsg_listener_get_stats(p.listener, &st) && st.requests);
	clock_pass(2 * TEN_S);
	test_pump(1);
	assert_int_equal(p.c.closed, 0);
	clock_pass(TEN_S);
	expect_end(&p.c, RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_TIMEOUT,
		   -ETIMEDOUT);
	assert_non_null(strstr(p.c.why.text, "timeout_ms"));
	pair_fini(&p);
}

/* ---- many ------------------------------------------------------------- */

#define MANY	100

static struct end clients[MANY], servers[MANY];

/* Requests arrive in any order. Private data has the number of each. */
static void accept_many(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	size_t len;
	const uint8_t *number = rdmamsg_request_data(req, &len);
	struct end *e = &servers[*number];

	if (rdmamsg_request_accept(req, &e->opts, &e->ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
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
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = accept_many,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
		.setup_timeout_ms = WAIT_MS,
	};
	struct rdmamsg *a = test_open(NULL), *b = test_open(NULL);
	struct rdmamsg_listener *l;
	uint8_t numbers[MANY];
	char port[8];

	for (int i = 0; i < MANY; i++) {
		end_init(&clients[i], "client", b);
		end_init(&servers[i], "server", a);
		numbers[i] = (uint8_t)i;
		clients[i].opts.hello_data = &numbers[i];
		clients[i].opts.hello_data_len = 1;
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
	WAIT_FOR(count_closed(clients) == MANY &&
		 count_closed(servers) == MANY);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(clients[i].why.cause, RDMAMSG_CAUSE_CLOSED);
		assert_int_equal(servers[i].why.cause, RDMAMSG_CAUSE_CLOSED);
	}
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
	static const struct rdmamsg_ep_options plain = {
		.size = sizeof(plain),
	};
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
	dial(&p.c, test_addr(), listener_service(p.listener, p.port), WAIT_MS);
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(connect__ipv4_and_ipv6_CONNECT),
		TEST(connect__wildcard_listener_TAKES_BOTH),
		TEST(connect__name_IS_RESOLVED),
		TEST(connect__source_address_and_device_ARE_USED),
		TEST(connect__bad_source_or_device_FAILS_AT_ONCE),
		TEST(listen__only_on_a_device_TAKES_ITS_CLIENTS),
		TEST(listen__all_and_one_address_IN_USE),
		TEST(listen__port_taken_or_wrong_SAYS_SO),
		TEST(connect__nobody_listens_REFUSED),
		TEST(retry__until_somebody_listens_CONNECTS),
		TEST(retry__nobody_listens_SAYS_WHAT_IT_MET),
		TEST(connect__unreachable_address_ENDS_IN_TIME),
		TEST(connect__no_device_leads_there_ENODEV),
		TEST(connect__name_that_is_none_UNRESOLVED),
		TEST(connect__refused_and_rejected_DIFFER),
		TEST(oob_connect__no_way_there_UNREACHABLE),
		TEST(retry__no_way_there_TRIES_UNTIL_THE_TIME_IS_OVER),
		TEST(connect__no_way_there_UNREACHABLE),
		TEST(connect__nobody_accepts_TIMEOUT),
		TEST(connect__a_hundred_at_once_ALL_CONNECT),
		TEST(connect__from_on_closed_CONNECTS),
	};

	return test_main(tests, NULL, argc, argv);
}
