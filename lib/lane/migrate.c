/* SPDX-License-Identifier: BSD-2-Clause */
#include "lane/migrate.h"

#include "base/base.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "lane/lane.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <infiniband/verbs.h>

#define BASE_GID	0	/* index of the GID that each port has */

static int port_attr(const struct lane *l, uint8_t port,
		     struct ibv_port_attr *ret)
{
	const struct rdmamsg_device *d = l->dev->device;
	int err = rdmamsg__v_query_port(d->v, d->verbs, port, ret);

	if (err)
		return rdmamsg__fail_verbs(err, "querying a port");
	if (ret->state != IBV_PORT_ACTIVE)
		return rdmamsg__fail(-ENETDOWN, "port %u of device %s is not "
				     "active", port, d->name);
	return 0;
}

int rdmamsg__migrate_check(const struct lane *l, uint32_t port)
{
	const struct rdmamsg_device *d = l->dev->device;
	struct ibv_port_attr attr;

	if (port > d->attr.phys_port_cnt)
		return rdmamsg__fail(-EINVAL, "failover.port %u: device %s has "
				     "%u", port, d->name,
				     d->attr.phys_port_cnt);
	if (port == l->port)
		return rdmamsg__fail(-EINVAL, "failover.port %u: the "
				     "connection itself uses this port of "
				     "device %s", port, d->name);
	return port_attr(l, (uint8_t)port, &attr);
}

int rdmamsg__migrate_lack(const struct lane *l)
{
	const struct rdmamsg_device *d = l->dev->device;
	struct ibv_port_attr attr;
	int err;

	if (rdmamsg__is_iwarp(d))
		return rdmamsg__fail(-EOPNOTSUPP, "device %s is iWARP, which "
				     "has no alternate paths", d->name);
	err = rdmamsg__v_query_port(d->v, d->verbs, l->port, &attr);
	if (err)
		return rdmamsg__fail_verbs(err, "querying the port");
	if (attr.link_layer == IBV_LINK_LAYER_ETHERNET)
		return rdmamsg__fail(-EOPNOTSUPP, "port %u of device %s is "
				     "Ethernet, where Linux refuses alternate "
				     "paths", l->port, d->name);
	if (!(d->attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG))
		return rdmamsg__fail(-EOPNOTSUPP, "device %s has no alternate "
				     "paths", d->name);
	return 0;
}

int rdmamsg__migrate_route(const struct lane *l, struct route *ret)
{
	const struct rdmamsg_device *d = l->dev->device;
	struct ibv_qp_attr attr;
	__be16 pkey;
	int err;

	err = rdmamsg__v_query_qp(l->v, l->hot.qp, &attr, IBV_QP_AV |
				  IBV_QP_PKEY_INDEX | IBV_QP_TIMEOUT);
	if (!err)
		err = rdmamsg__v_query_pkey(d->v, d->verbs, l->port,
					    attr.pkey_index, &pkey);
	if (err)
		return rdmamsg__fail_verbs(err, "querying the path");
	ret->ah = attr.ah_attr;
	ret->pkey = be16toh(pkey);
	ret->timeout = attr.timeout;
	return 0;
}

/* Returns the index of the P_Key at the port, or -1. */
static int find_pkey(const struct lane *l, uint8_t port, uint16_t pkey)
{
	const struct rdmamsg_device *d = l->dev->device;
	struct ibv_port_attr attr;
	__be16 is;

	if (rdmamsg__v_query_port(d->v, d->verbs, port, &attr))
		return -1;
	for (int i = 0; i < attr.pkey_tbl_len; i++)
		if (!rdmamsg__v_query_pkey(d->v, d->verbs, port, i, &is) &&
		    be16toh(is) == pkey)
			return i;
	return -1;
}

/* ---- finding a port --------------------------------------------------- */

/* Fills in port, LID and GID if the port will do. */
static int try_port(const struct lane *l, const struct route *route,
		    uint8_t port, struct proto_path *ret)
{
	const struct rdmamsg_device *d = l->dev->device;
	struct ibv_port_attr attr;
	union ibv_gid gid;
	int err = port_attr(l, port, &attr);

	if (err)
		return err;
	if (attr.link_layer == IBV_LINK_LAYER_ETHERNET || !attr.lid ||
	    attr.lid > PROTO_LID_MAX)
		return rdmamsg__fail(-ENETDOWN, "port %u of device %s has no "
				     "LID", port, d->name);
	if (128u << attr.active_mtu < l->mtu)
		return rdmamsg__fail(-ENETDOWN, "port %u of device %s has an "
				     "MTU of %u, the connection %u", port,
				     d->name, 128u << attr.active_mtu, l->mtu);
	if (find_pkey(l, port, route->pkey) < 0)
		return rdmamsg__fail(-ENETDOWN, "port %u of device %s is not "
				     "in partition 0x%x", port, d->name,
				     route->pkey);
	err = rdmamsg__v_query_gid(d->v, d->verbs, port, BASE_GID, &gid);
	if (err)
		return rdmamsg__fail_verbs(err, "querying a GID");
	ret->port = port;
	ret->lid = attr.lid;
	memcpy(ret->gid, gid.raw, sizeof(ret->gid));
	return 0;
}

int rdmamsg__migrate_find(const struct lane *l, const struct route *route,
			  uint32_t wanted, uint32_t first,
			  struct proto_path *ret)
{
	const struct rdmamsg_device *d = l->dev->device;

	ret->flags = 0;
	if (wanted)
		return try_port(l, route, (uint8_t)wanted, ret);
	if (first && !rdmamsg__try(try_port(l, route, (uint8_t)first, ret)))
		return 0;
	for (uint8_t p = 1; p && p <= d->attr.phys_port_cnt; p++)
		if (p != l->port && !rdmamsg__try(try_port(l, route, p, ret)))
			return 0;
	ret->flags = PROTO_PATH_SAME;
	return try_port(l, route, l->port, ret);
}

/* ---- the queue pair --------------------------------------------------- */

int rdmamsg__migrate_load(const struct lane *l, const struct route *route,
			  const struct proto_path *own,
			  const struct proto_path *peer)
{
	struct ibv_qp_attr attr = {
		.alt_ah_attr = route->ah, .alt_port_num = own->port,
		.alt_timeout = route->timeout,
		.path_mig_state = IBV_MIG_REARM,
	};
	int index = find_pkey(l, own->port, route->pkey);
	int err;

	if (index < 0)
		return rdmamsg__fail(-ENETDOWN, "port %u of device %s has left "
				     "partition 0x%x", own->port,
				     l->dev->device->name, route->pkey);
	/* one router-less subnet, because only its LIDs are known */
	if (memcmp(own->gid, peer->gid, 8))
		return rdmamsg__fail(-EHOSTUNREACH, "port %u of device %s and "
				     "port %u of the peer are in different "
				     "subnets", own->port,
				     l->dev->device->name, peer->port);
	attr.alt_pkey_index = (uint16_t)index;
	/* modify_qp() of Linux ib_uverbs: both port numbers must agree */
	attr.alt_ah_attr.port_num = own->port;
	attr.alt_ah_attr.dlid = peer->lid;
	attr.alt_ah_attr.src_path_bits = 0;
	attr.alt_ah_attr.grh.sgid_index = BASE_GID;
	memcpy(attr.alt_ah_attr.grh.dgid.raw, peer->gid, sizeof(peer->gid));
	err = rdmamsg__v_modify_qp(l->v, l->hot.qp, &attr,
				   IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
	return err ? rdmamsg__fail_verbs(err, "loading an alternate path") : 0;
}

int rdmamsg__migrate_state(const struct lane *l, enum ibv_mig_state *ret)
{
	struct ibv_qp_attr attr;
	int err = rdmamsg__v_query_qp(l->v, l->hot.qp, &attr,
				      IBV_QP_PATH_MIG_STATE);

	if (err)
		return rdmamsg__fail_verbs(err, "querying the migration state");
	*ret = attr.path_mig_state;
	return 0;
}

int rdmamsg__migrate_now(const struct lane *l)
{
	struct ibv_qp_attr attr = { .path_mig_state = IBV_MIG_MIGRATED };
	int err = rdmamsg__v_modify_qp(l->v, l->hot.qp, &attr,
				       IBV_QP_PATH_MIG_STATE);

	return err ? rdmamsg__fail_verbs(err, "migrating") : 0;
}
