/* SPDX-License-Identifier: BSD-2-Clause */
/* The connector that uses the connection manager. */
#include "base/base.h"
#include "base/ctx.h"
#include "device/verbs_call.h"
#include "cm/connect.h"
#include "session/ep.h"

#include "cm/rdma/cm.h"

#include <stdio.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/rdmamsg.h>

int rdmamsg__cm_without_path(struct rdmamsg_ep *ep)
{
	return !ep->opts.path ? 0 :
	       rdmamsg__fail(-EINVAL, "path: the connection manager finds the "
			     "path, and takes the partition of the interface "
			     "that has the address: connect from an address in "
			     "that partition, or use rdmamsg_oob_connect(3) "
			     "and its like");
}

static void nothing(struct rdmamsg_ep *ep)
{
}

static void disconnect(struct rdmamsg_ep *ep)
{
	if (!ep->connect.id || ep->close.disconnect_sent ||
	    !ep->connect.established)
		return;
	ep->close.disconnect_sent = true;
	rdmamsg__record(ep->recorder, EVENT_DISCONNECT, 0, 0);
	/* The kernel repeats it. If all tries fail, the deadline ends it. */
	(void)rdmamsg__v_disconnect(ep->lane.v, ep->connect.id);
}

static void release(struct rdmamsg_ep *ep)
{
	rdmamsg__cm_abandon(ep);
	if (ep->connect.id)
		rdmamsg__cm_id_free(ep->lane.v, ep->connect.id);
	ep->connect.id = NULL;
}

static const char *device_name(const struct rdmamsg_ep *ep, char room[static 64])
{
	struct id_device on;

	if (!ep->lane.v->id_device(ep->connect.id, &on))
		return ep->connect.device;
	snprintf(room, 64, "%s", on.name);
	return room;
}

static int attr(const struct rdmamsg_ep *ep, struct ibv_qp_attr *attr,
		int *mask)
{
	return rdmamsg__v_init_qp_attr(ep->lane.v, ep->connect.id, attr, mask);
}

static void learn_port(struct rdmamsg_ep *ep)
{
	ep->lane.port = ep->connect.id->port_num;
	ep->lane.gid = ep->connect.id->route.addr.addr.ibaddr.sgid;
}

const struct connector rdmamsg__by_cm = {
	.waits = "resolving the address",
	.init = rdmamsg__cm_without_path,
	.dial = rdmamsg__cm_dial,
	.resolved = rdmamsg__cm_resolved,
	.redial = rdmamsg__cm_redial,
	.again = rdmamsg__dial_again,
	.refused = rdmamsg__dial_refused,
	.another = rdmamsg__dial_lane,
	.stop = rdmamsg__cm_abandon,
	.cancel = rdmamsg__dial_stop,
	.connected = nothing,
	.disconnect = disconnect,
	.release = release,
	.free = nothing,
	.device_name = device_name,
	.attr = attr,
	.learn_port = learn_port,
	.accept = rdmamsg__cm_accept,
	.reject = rdmamsg__cm_reject,
	.request_device = rdmamsg__cm_request_device,
	.move = rdmamsg__cm_move,
	.drop = rdmamsg__cm_drop,
	.listen = rdmamsg__cm_listen,
	.unlisten = rdmamsg__cm_unlisten,
	.addresses = rdmamsg__cm_addresses,
	.over = rdmamsg__cm_over,
};
