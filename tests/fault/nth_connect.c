/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts, listeners, and the ways to each other. */

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <rdmamsg/device.h>
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

/* A query opens the device and must close it whatever fails. */
static void do_query(void)
{
	struct rdmamsg_device_attr list[2], attr = { .size = sizeof(attr) };
	struct rdmamsg_port_attr port = { .size = sizeof(port) };
	struct rdmamsg_gid_attr gids[2];
	uint16_t pkeys[2];
	int n = rdmamsg_devices(list, sizeof(list[0]), 2);

	told(n < 0 ? n : 0);
	for (int i = 0; i < n && i < 2; i++)
		reported += list[i].error != 0;
	told(rdmamsg_device_query(NULL, &attr));
	told(rdmamsg_port_query(NULL, 1, &port));
	n = rdmamsg_gids(NULL, 1, gids, sizeof(gids[0]), 2);
	told(n < 0 ? n : 0);
	n = rdmamsg_pkeys(NULL, 1, pkeys, 2);
	told(n < 0 ? n : 0);
}

const struct scenario connect_scenarios[] = {
	{ "query", NOTHING, do_query },
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
