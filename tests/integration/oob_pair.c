/* SPDX-License-Identifier: BSD-2-Clause */
#include "oob_pair.h"

#include <rdmamsg/oob.h>

void oob_listen(struct pair *p, const char *addr)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = pair_on_request,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = p, .handlers = &on,
		.device = test_device(),
	};

	if (rdmamsg_oob_listen(p->s.ctx, addr, "0", &opts, &p->listener))
		fail_msg("rdmamsg_oob_listen: %s", rdmamsg_error());
	listener_service(p->listener, p->port);
}

void oob_wait_connected(struct pair *p)
{
	WAIT_FOR((p->s.connected && p->c.connected) || p->c.closed ||
		 p->s.closed);
	if (p->c.closed || p->s.closed)
		fail_msg("not connected: %s", p->c.closed ? p->c.why.text :
			 p->s.why.text);
}

void oob_connect(struct pair *p, const char *addr)
{
	if (rdmamsg_oob_connect(p->c.ctx, addr, p->port, &p->c.opts, &p->c.ep))
		fail_msg("rdmamsg_oob_connect: %s", rdmamsg_error());
	oob_wait_connected(p);
}

void oob_init(struct pair *p)
{
	pair_init(p, NULL);
	p->c.opts.device = p->s.opts.device = test_device();
}

/* Sends with every call, in both directions. */
void oob_talk(struct pair *p)
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

void oob_get_record(struct rdmamsg_ep *ep, struct oob_record *r)
{
	int len = rdmamsg_oob_record(ep, r->bytes, sizeof(r->bytes));

	if (len <= 0)
		fail_msg("rdmamsg_oob_record: %s", rdmamsg_error());
	r->len = (size_t)len;
}

void oob_make_offer(struct end *e, struct oob_record *r)
{
	if (rdmamsg_oob_offer(e->ctx, &e->opts, &e->ep))
		fail_msg("rdmamsg_oob_offer: %s", rdmamsg_error());
	oob_get_record(e->ep, r);
}
