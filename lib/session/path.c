/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of the program: which path an endpoint has, and to leave that path. */
#include "base/base.h"
#include "lane/migrate.h"
#include "session/ep.h"
#include "session/failover.h"
#include "session/move.h"
#include "session/resume.h"
#include "session/send.h"
#include "wire/path.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <rdmamsg/failover.h>
#include <rdmamsg/rdmamsg.h>

int rdmamsg_ep_path_query(const struct rdmamsg_ep *ep,
			  struct rdmamsg_ep_path_attr *attr)
{
	struct rdmamsg_ep_path_attr p = {
		.size = sizeof(p), .state = RDMAMSG_PATH_NONE,
		.text = "failover is off for this endpoint",
	};
	const struct failover *f;
	int err = rdmamsg__ep_look(ep);

	if (err)
		return err;
	f = ep->failover;
	p.port = ep->lane.port;
	if (f) {
		p.state = f->state;
		p.alternate = f->own.port;
		p.peer_alternate = f->peer.port;
		p.migrations = f->migrations + f->own.migrations;
		memcpy(p.text, f->text, sizeof(p.text));
	} else if (ep->resume) {
		snprintf(p.text, sizeof(p.text), "no path migration: it is not "
			 "among the rungs");
	}
	if (ep->resume) {
		p.resumes = ep->resume->resumes;
		p.down = ep->resume->down;
		p.standby = rdmamsg__resume_stands_by(ep->resume);
	}
	return rdmamsg__give(attr, &p, sizeof(p));
}

/* Returns 0 if the endpoint can migrate to the port. */
static int check_armed(const struct rdmamsg_ep *ep, uint32_t port)
{
	const struct failover *f = ep->failover;

	if (!f)
		return rdmamsg__fail(-EOPNOTSUPP, "failover is off for this "
				     "endpoint");
	if (!rdmamsg__has_paths(f))
		return rdmamsg__fail(-EOPNOTSUPP, "no alternate path: %s",
				     f->text);
	if (f->state == RDMAMSG_PATH_ARMING)
		return rdmamsg__fail(-EBUSY, "the alternate path is not armed "
				     "yet: on_path tells when it is");
	if (f->state != RDMAMSG_PATH_ARMED)
		return rdmamsg__fail(-EHOSTUNREACH, "no alternate path: %s",
				     f->text);
	if (port && port != f->own.port)
		return rdmamsg__fail(-EINVAL, "port %u: the alternate path is "
				     "on port %u", port, f->own.port);
	return 0;
}

static bool is_between_lanes(const struct rdmamsg_ep *ep)
{
	return ep->state == EP_OPEN && rdmamsg__lane_lost(ep);
}

int rdmamsg_ep_migrate(struct rdmamsg_ep *ep,
		       const struct rdmamsg_migrate_options *opts)
{
	struct rdmamsg_migrate_options o;
	int ret = rdmamsg__ep_check(ep);

	if (!ret)
		ret = rdmamsg__opts_copy(&o, sizeof(o), opts,
					 "rdmamsg_migrate_options");
	/* between two lanes, rdmamsg__move() refuses */
	if (!ret && !is_between_lanes(ep))
		ret = rdmamsg__tx_check(ep);
	if (!ret && (o.lane || rdmamsg__move_has_address(&o) ||
		     is_between_lanes(ep) ||
		     (!o.port && rdmamsg__keeps(ep) &&
		      !(ep->failover && rdmamsg__has_paths(ep->failover)))))
		return rdmamsg__move(ep, &o);
	if (!ret)
		ret = check_armed(ep, o.port);
	if (!ret)
		ret = rdmamsg__migrate_now(&ep->lane);
	if (ret)
		return ret;
	rdmamsg__failover_migrating(ep);
	return 0;
}

/* Returns 0 if the endpoint can have the alternate path. */
static int check_alternate(const struct rdmamsg_ep *ep,
			   const struct rdmamsg_alternate *a)
{
	const struct failover *f = ep->failover;

	if (a->lid > PROTO_LID_MAX)
		return rdmamsg__fail(-EINVAL, "rdmamsg_alternate: lid %u: "
				     "must be 0 to %u", a->lid, PROTO_LID_MAX);
	if (!f)
		return rdmamsg__fail(-EOPNOTSUPP, "path migration is off for "
				     "this endpoint");
	if (!rdmamsg__has_paths(f))
		return rdmamsg__fail(-EOPNOTSUPP, "no alternate path: %s",
				     f->text);
	return a->port ? rdmamsg__migrate_check(&ep->lane, a->port) : 0;
}

int rdmamsg_ep_set_alternate(struct rdmamsg_ep *ep,
			     const struct rdmamsg_alternate *alt)
{
	struct rdmamsg_alternate a;
	int ret = rdmamsg__ep_check(ep);

	if (!ret)
		ret = rdmamsg__opts_copy(&a, sizeof(a), alt,
					 "rdmamsg_alternate");
	if (!ret)
		ret = rdmamsg__tx_check(ep);
	if (!ret)
		ret = check_alternate(ep, &a);
	if (ret)
		return ret;
	rdmamsg__failover_set(ep, a.port, a.lid);
	return 0;
}
