/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts, listeners, and the ways to each other. */

#include <stdbool.h>
#include <rdmamsg/rdmamsg.h>

#include "nth.h"

void do_open(void)
{
	open_ctx(CLIENT);
	close_ctx(CLIENT);
}

void do_listen(void)
{
	start_listening();
	rdmamsg_listener_close(listener);
	listener = NULL;
}

const struct scenario connect_scenarios[] = {
	{ "open", NOTHING, do_open },
	{ "listen", OPEN, do_listen },
	{ "connect", LISTENING, do_connect },
	{ "name", LISTENING, do_connect, .by_name = true,
	  .calls = " strdup calloc pthread_create getaddrinfo " },
	{ "move", LISTENING, do_connect, .moving = true,
	  .calls = " migrate_id create_event_channel malloc accept reject "
		   "create_qp get_cm_event epoll_ctl " },
	{ NULL },
};
