/* SPDX-License-Identifier: BSD-2-Clause */
/* A child that echoes messages: callbacks of its end. */
#ifndef TESTS_INTEGRATION_ECHO_BACK_H
#define TESTS_INTEGRATION_ECHO_BACK_H

#include <stddef.h>
#include <string.h>

#include "common.h"

/* Echoes that could not be sent at once. */
static struct rdmamsg_msg *held[256];
static size_t held_count;

static void send_back(struct end *e)
{
	size_t n = 0;

	while (n < held_count &&
	       !rdmamsg_msg_send(e->ep, held[n], rdmamsg_msg_tag(held[n]),
				 NULL))
		n++;
	held_count -= n;
	memmove(held, held + n, held_count * sizeof(held[0]));
}

static void echo(struct end *e, struct rdmamsg_msg *msg)
{
	if (held_count == ARRAY_SIZE(held)) {
		note("the child holds too many messages");
		rdmamsg_msg_free(msg);
		return;
	}
	held[held_count++] = msg;
	send_back(e);
}

/* on_request. The user of the listener is the end. */
static void accept_end(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct end *e = rdmamsg_listener_user(l);

	if (rdmamsg_request_accept(req, &e->opts, &e->ep))
		note("rdmamsg_request_accept: %s", rdmamsg_error());
}

#endif
