/* SPDX-License-Identifier: BSD-2-Clause */
/* The connector that exchanges records. */
#include "base/ctx.h"
#include "cm/connect.h"
#include "session/ep.h"
#include "cm/oob/oob.h"

#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

static void nothing(struct rdmamsg_ep *ep)
{
}

static void free_oob(struct rdmamsg_ep *ep)
{
	free(ep->connect.oob);
}

static const char *device_name(const struct rdmamsg_ep *ep, char room[static 64])
{
	return ep->connect.device;
}

static int attr(const struct rdmamsg_ep *ep, struct ibv_qp_attr *attr,
		int *mask)
{
	rdmamsg__oob_attr(ep->connect.oob, ep->tuning.tos, attr, mask);
	return 0;
}

static void learn_port(struct rdmamsg_ep *ep)
{
	ep->lane.port = ep->connect.oob->port;
	memcpy(ep->lane.gid.raw, ep->connect.oob->local.gid,
	       sizeof(ep->lane.gid.raw));
}

static void reject(struct rdmamsg_request *req, enum proto_reject code,
		   const void *data, size_t len)
{
	rdmamsg__oob_reject(req->oob, code, req->limit, data, len);
}

static int move(struct rdmamsg_request *req, struct rdmamsg *to)
{
	req->oob->ctx = to;
	return 0;
}

static void drop(struct rdmamsg_request *req)
{
	if (req->oob)
		rdmamsg__oob_conn_free(req->oob);
	req->oob = NULL;
}

static const char *over(const struct rdmamsg_listener *l)
{
	return "TCP";
}

const struct connector rdmamsg__by_record = {
	.waits = "connecting over TCP",
	.knows_session = true,
	.without_cm = true,
	.ends_unseen = true,
	.init = rdmamsg__oob_init,
	.dial = rdmamsg__oob_dial,
	.resolved = rdmamsg__oob_resolved,
	.redial = rdmamsg__oob_dial_again,
	.again = rdmamsg__dial_again,
	.refused = rdmamsg__dial_refused,
	.stop = rdmamsg__oob_stop,
	.cancel = rdmamsg__dial_stop,
	.connected = rdmamsg__oob_connected,
	.disconnect = nothing,
	.release = nothing,
	.free = free_oob,
	.device_name = device_name,
	.attr = attr,
	.learn_port = learn_port,
	.accept = rdmamsg__oob_accept,
	.reject = reject,
	.move = move,
	.drop = drop,
	.listen = rdmamsg__oob_listen_addr,
	.unlisten = rdmamsg__oob_unlisten,
	.over = over,
};
