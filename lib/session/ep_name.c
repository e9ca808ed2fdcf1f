/* SPDX-License-Identifier: BSD-2-Clause */
/* The name of an endpoint in the log: its context, its two addresses. */
#include "base/base.h"
#include "base/ctx.h"
#include "session/ep.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

const char *rdmamsg__ep_name(const struct rdmamsg_ep *ep)
{
	static _Thread_local char name[224];
	char local[96] = "", peer[96] = "";
	int saved = errno;

	/* before it is resolved an endpoint has no addresses */
	if (ep->connect.local_addr.ss_family)
		(void)rdmamsg__addr_text(&ep->connect.local_addr, local,
					 sizeof(local));
	if (ep->connect.peer_addr.ss_family)
		(void)rdmamsg__addr_text(&ep->connect.peer_addr, peer,
					 sizeof(peer));
	snprintf(name, sizeof(name), "context %u: %s -> %s", ep->ctx->number,
		 local, peer);
	errno = saved;
	return name;
}
