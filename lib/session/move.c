/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Planned moves. A carrier connects while the present lane works. Then the
 * endpoint leaves the present lane as if it had failed. Only the side that has
 * connected can dial. So the other side asks it to, with a PING.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "session/ep.h"
#include "session/live.h"
#include "session/move.h"
#include "session/resume.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/failover.h>
#include <rdmamsg/rdmamsg.h>

static void start(struct rdmamsg_ep *ep, enum move_event how)
{
	rdmamsg__record(ep->recorder, EVENT_MOVE, how, 0);
	ep->resume->moving = true;
	ep->ctrl.due |= CTRL_LANE;
	rdmamsg__ep_touch(ep);
}

static int copy(char **dst, const char *src)
{
	*dst = src ? strdup(src) : NULL;
	return src && !*dst ? -ENOMEM : 0;
}

/* Makes the address the other address of the endpoint. */
static int take_address(struct resume *r,
			const struct rdmamsg_migrate_options *o)
{
	char *s[4] = { NULL, NULL, NULL, NULL };
	const char *host = o->host ? o->host : r->ep->connect.host;
	const char *service = o->service || o->host ? o->service :
			      r->ep->connect.service;

	if (copy(&s[0], host) || copy(&s[1], service) ||
	    copy(&s[2], o->source) || copy(&s[3], o->device)) {
		for (int i = 0; i < 4; i++)
			free(s[i]);
		return rdmamsg__fail(-ENOMEM, "no memory to move an endpoint");
	}
	rdmamsg__resume_forget_address(r);
	r->host = s[0];
	r->service = s[1];
	r->source = s[2];
	r->device = s[3];
	/* a standby lane may lead to another address */
	rdmamsg__carrier_drop(r);
	r->lane_target = TARGET_FIRST;
	return 0;
}

bool rdmamsg__move_has_address(const struct rdmamsg_migrate_options *o)
{
	return o->host || o->service || o->source || o->device;
}

int rdmamsg__move(struct rdmamsg_ep *ep,
		  const struct rdmamsg_migrate_options *o)
{
	struct resume *r = ep->resume;
	const bool told = rdmamsg__move_has_address(o);

	if (!rdmamsg__keeps(ep))
		return rdmamsg__fail(-EOPNOTSUPP, "both sides must have "
				     "failover with RDMAMSG_RUNG_LANE or "
				     "RDMAMSG_RUNG_STANDBY to move");
	if (ep->connect.passive && told)
		return rdmamsg__fail(-EINVAL, "only the side that connects has "
				     "addresses: give none, and the peer takes "
				     "its own");
	/* while a lane takes over, its RESUME must not be dropped */
	if (r->lane != LANE_UP || r->down || r->moving || r->ask_move)
		return rdmamsg__fail(-EBUSY, "the endpoint is between two "
				     "connections: on_path tells when it has "
				     "another");
	if (ep->connect.passive) {
		rdmamsg__record(ep->recorder, EVENT_MOVE, MOVE_ASKED_PEER, 0);
		r->ask_move = true;
		ep->ctrl.due |= CTRL_PING;
		rdmamsg__ep_touch(ep);
		return 0;
	}
	if (told && take_address(r, o))
		return -ENOMEM;
	start(ep, MOVE_ASKED);
	return 0;
}

void rdmamsg__move_asked(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;

	if (!rdmamsg__keeps(ep) || ep->connect.passive ||
	    ep->state != EP_OPEN || r->lane != LANE_UP || r->moving)
		return;
	ep_info(ep, "the peer asks for another connection");
	start(ep, MOVE_ASKED_BY_PEER);
}
