/* SPDX-License-Identifier: BSD-2-Clause */
/* The connector that uses the connection manager. */
#include "base/base.h"
#include "base/ctx.h"
#include "device/path.h"
#include "device/verbs_call.h"
#include "cm/connect.h"
#include "session/ep.h"

#include "cm/rdma/cm.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>

#define PARTITION	0x7fffu		/* bits of a P_Key, without membership */

static bool is_same(const struct rdmamsg_path *path, struct rdmamsg_path other)
{
	other.size = path->size;
	other.pkey = path->pkey;
	return !memcmp(path, &other, sizeof(other));
}

/*
 * Returns true if the path has a partition, and nothing else: zeros, or the
 * defaults that a listener has filled in.
 */
static bool is_partition(const struct rdmamsg_path *path)
{
	struct rdmamsg_path defaults;

	(void)rdmamsg__path_copy(&defaults, NULL);
	return path->pkey &&
	       (is_same(path, (struct rdmamsg_path){ .size = 0 }) ||
		is_same(path, defaults));
}

int rdmamsg__cm_pkey_valid(uint32_t pkey)
{
	return pkey <= 0xffff && pkey & PARTITION ? 0 :
	       rdmamsg__fail(-EINVAL, "pkey 0x%x: no port has it", pkey);
}

int rdmamsg__cm_init(struct rdmamsg_ep *ep)
{
	struct rdmamsg_path path;
	int ret;

	if (!ep->opts.path)
		return 0;
	ret = rdmamsg__opts_copy(&path, sizeof(path), ep->opts.path,
				 "rdmamsg_path");
	ep->opts.path = NULL;		/* the caller owns it */
	if (ret)
		return ret;
	if (!is_partition(&path))
		return rdmamsg__fail(-EINVAL, "path: the connection manager "
				     "finds the path, and takes the partition "
				     "of the interface that has the address: "
				     "pkey alone can be given here, the rest "
				     "to rdmamsg_oob_connect(3) and its like");
	ret = rdmamsg__cm_pkey_valid(path.pkey);
	if (ret)
		return ret;
	ep->connect.pkey = (uint16_t)path.pkey;
	return 0;
}

int rdmamsg__cm_check_pkey(uint16_t pkey, const struct rdma_cm_id *id)
{
	uint16_t has = be16toh(id->route.addr.addr.ibaddr.pkey);

	if (!pkey)
		return 0;
	/* the kernel gives an Ethernet port none: it has the default */
	if (!has)
		has = 0xffff;
	return !((has ^ pkey) & PARTITION) ? 0 :
	       rdmamsg__fail(-EHOSTUNREACH, "the interface on the way is in "
			     "partition 0x%x, and pkey asks for 0x%x: set "
			     "source to an address in that partition", has,
			     pkey);
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
	.init = rdmamsg__cm_init,
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
