/* SPDX-License-Identifier: BSD-2-Clause */
/* The device and addresses of the tests, and a pair of ends. */
#include "common.h"

#include <rdmamsg/device.h>

const char *test_addr(void)
{
	return getenv("RDMAMSG_VM_ADDR");
}

const char *test_addr6(void)
{
	return getenv("RDMAMSG_VM_ADDR6");
}

const char *test_name(void)
{
	const char *name = getenv("RDMAMSG_VM_HOST");

	return name ? name : "rxe-host";
}

const char *test_device(void)
{
	const char *name = getenv("RDMAMSG_VM_DEVICE");

	return name ? name : "rxe0";
}

/* A name other than that of the soft HCA means another device. */
int test_unknown_device(void)
{
	struct rdmamsg_device_attr a = { .size = sizeof(a) };

	return rdmamsg_device_query("hw", &a) == -ENODEV ? -ENODEV : -ENXIO;
}

bool test_on_soft(void)
{
	return !strcmp(test_device(), "soft0");
}

bool test_over_packets(void)
{
	const char *net = getenv("RDMAMSG_SOFT_NET");

	return test_on_soft() && net && !strcmp(net, "all");
}

const char *test_kind(void)
{
	return test_on_soft() ? "soft" :
	       test_on_siw() ? "iwarp" : "soft-roce";
}

const char *listener_service(struct rdmamsg_listener *l, char buf[static 8])
{
	snprintf(buf, 8, "%u", rdmamsg_listener_port(l));
	return buf;
}

void pair_init(struct pair *p, const struct rdmamsg_options *opts)
{
	memset(p, 0, sizeof(*p));
	end_init(&p->s, "server", test_open(opts));
	end_init(&p->c, "client", test_open(opts));
	p->s.peer = &p->c;
	p->c.peer = &p->s;
}

void pair_on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct pair *p = rdmamsg_listener_user(l);

	if (rdmamsg_request_accept(req, &p->s.opts, &p->s.ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
}

void pair_listen(struct pair *p)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = pair_on_request,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = p, .handlers = &on,
	};

	if (rdmamsg_listen(p->s.ctx, test_addr(), "0", &opts, &p->listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(p->listener, p->port);
}

void pair_connect(struct pair *p)
{
	if (rdmamsg_connect(p->c.ctx, test_addr(), p->port, &p->c.opts,
			    &p->c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR((p->s.connected && p->c.connected) || p->c.closed ||
		 p->s.closed);
	if (p->c.closed || p->s.closed)
		fail_msg("not connected: %s", p->c.closed ? p->c.why.text :
			 p->s.why.text);
}

void pair_open(struct pair *p)
{
	pair_init(p, NULL);
	pair_listen(p);
	pair_connect(p);
}

static void check_graceful(const struct end *e)
{
	if (e->why.cause != RDMAMSG_CAUSE_CLOSED || e->why.error)
		fail_msg("%s: closed by %d, cause %d, error %d: %s", e->name,
			 e->why.who, e->why.cause, e->why.error, e->why.text);
	assert_int_equal(e->received, e->expected_count);
	assert_int_equal(e->sent_failed, 0);
	end_check_cookies(e);
}

void pair_check_graceful(const struct pair *p)
{
	check_graceful(&p->c);
	check_graceful(&p->s);
}

void pair_close(struct pair *p)
{
	rdmamsg_ep_close(p->c.ep);
	WAIT_FOR(p->c.closed && p->s.closed);
	pair_check_graceful(p);
}

void pair_fini(struct pair *p)
{
	test_close(p->c.ctx);
	test_close(p->s.ctx);
	check_notes();
	end_fini(&p->c);
	end_fini(&p->s);
}

bool pair_keeps_alive(const struct pair *p, uint64_t times)
{
	const struct rdmamsg_stats c = end_stats(&p->c);
	const struct rdmamsg_stats s = end_stats(&p->s);

	if (test_iwarp())
		return c.pings + s.pings >= times;
	return c.keepalives >= times && s.keepalives >= times;
}
