/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The name of an endpoint in the log: its context, its two addresses, and its
 * session.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "session/ep.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Returns true if the number of the session is that of both sides: the side that
 * connects has chosen it, and the other side learns it with SETUP.
 */
static bool has_session(const struct rdmamsg_ep *ep)
{
	return !ep->connect.passive || ep->connect.setup_seen ||
	       ep->connect.carrier;
}

const char *rdmamsg__ep_session(const struct rdmamsg_ep *ep,
				char buf[static SESSION_TEXT])
{
	const uint8_t *s = ep->connect.session;

	buf[0] = 0;
	if (has_session(ep))
		snprintf(buf, SESSION_TEXT, ", session %02x%02x%02x%02x", s[0],
			 s[1], s[2], s[3]);
	return buf;
}

void rdmamsg__ep_addr_set(union ep_addr *to, const struct sockaddr *from)
{
	const sa_family_t family = from->sa_family;

	memmove(to, from, family == AF_IB ? sizeof(to->ib) :
		family == AF_INET6 ? sizeof(to->v6) : sizeof(to->v4));
}

const char *rdmamsg__ep_name(const struct rdmamsg_ep *ep)
{
	static _Thread_local char name[256];
	char local[96] = "", peer[96] = "", session[SESSION_TEXT];
	int saved = errno;

	/* before it is resolved an endpoint has no addresses */
	if (ep->connect.local_addr.any.sa_family)
		(void)rdmamsg__addr_text(&ep->connect.local_addr.any, local,
					 sizeof(local));
	if (ep->connect.peer_addr.any.sa_family)
		(void)rdmamsg__addr_text(&ep->connect.peer_addr.any, peer,
					 sizeof(peer));
	snprintf(name, sizeof(name), "context %u: %s -> %s%s", ep->ctx->number,
		 local, peer, rdmamsg__ep_session(ep, session));
	errno = saved;
	return name;
}
