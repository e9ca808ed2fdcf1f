/* SPDX-License-Identifier: BSD-2-Clause */
#include "request.h"

void pair_exchange(struct pair *p)
{
	WAIT_FOR((p->c.connected && p->s.connected) || p->c.closed ||
		 p->s.closed);
	if (p->c.closed || p->s.closed)
		fail_msg("%s", p->c.closed ? p->c.why.text : p->s.why.text);
	assert_int_equal(end_send(&p->c, HOW_SEND, 10, 1), 0);
	assert_int_equal(end_send(&p->s, HOW_SENDV, 100000, 2), 0);
	pair_close(p);
}

void expect_end(struct end *c, enum rdmamsg_who who, enum rdmamsg_cause cause,
		int error)
{
	WAIT_FOR(c->closed);
	assert_int_equal(c->connected, 0);
	if (c->why.who != who || c->why.cause != cause ||
	    (error && c->why.error != error))
		fail_msg("closed by %d, cause %d, error %d: %s", c->why.who,
			 c->why.cause, c->why.error, c->why.text);
}

void dial(struct end *c, const char *host, const char *service,
	  uint32_t timeout_ms)
{
	c->closed = 0;
	c->opts.timeout_ms = timeout_ms;
	if (rdmamsg_connect(c->ctx, host, service, &c->opts, &c->ep))
		fail_msg("rdmamsg_connect(%s): %s", host, rdmamsg_error());
}

struct rdmamsg_request *waiting[128];
int waiting_count;

void put_off(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	waiting[waiting_count++] = req;
}

void listen_put_off(struct pair *p)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = put_off,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};

	waiting_count = 0;
	pair_init(p, NULL);
	if (rdmamsg_listen(p->s.ctx, test_addr(), "0", &opts, &p->listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(p->listener, p->port);
}
