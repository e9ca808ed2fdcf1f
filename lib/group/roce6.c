/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IPv6 groups on RoCE v2, which the kernel's connection manager does not join
 * (Linux 6.1, cma_iboe_join_multicast()). The address is the MGID, and no
 * manager has to grant it. The membership of a socket makes the interface
 * accept the packets, and informs the switches.
 */
#include "base/base.h"
#include "base/fd.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "group/carrier.h"
#include "group/group.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define ALL_QPS		0xffffffu	/* destination in a group */
#define HOPS		64

bool rdmamsg__roce6_serves(const struct rdmamsg_group *g, int err)
{
	/* -524 is the kernel's ENOTSUPP, which user space does not define */
	return (err == -524 || err == -EOPNOTSUPP) &&
	       g->addr.ss_family == AF_INET6;
}

/* Finds an IPv6 address of the port, preferably the id's own. -ENODEV */
static int find_gid(const struct carrier *c, struct ibv_gid_entry *ret)
{
	const struct sockaddr_in6 *own =
		(struct sockaddr_in6 *)&c->id->route.addr.src_addr;
	struct ibv_port_attr port;
	bool found = false;
	int err = rdmamsg__v_query_port(c->v, c->dev->device->verbs, c->port,
					&port);

	for (int i = 0; !err && i < port.gid_tbl_len; i++) {
		struct ibv_gid_entry e;

		if (rdmamsg__v_query_gid_ex(c->v, c->dev->device->verbs,
					    c->port, (uint32_t)i, &e) ||
		    e.gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    IN6_IS_ADDR_V4MAPPED((struct in6_addr *)&e.gid))
			continue;
		if (!found)
			*ret = e;
		found = true;
		if (own->sin6_family == AF_INET6 &&
		    !memcmp(&e.gid, &own->sin6_addr, sizeof(e.gid))) {
			*ret = e;
			break;
		}
	}
	if (err)
		return rdmamsg__fail_verbs(err, "port of a group");
	return found ? 0 : rdmamsg__fail(-ENODEV, "device %s has no IPv6 "
					 "address for RoCE version 2",
					 c->dev->device->name);
}

static int join_socket(struct rdmamsg_group *g, uint32_t ifindex)
{
	struct ipv6_mreq mreq = {
		.ipv6mr_multiaddr =
			((struct sockaddr_in6 *)&g->addr)->sin6_addr,
		.ipv6mr_interface = ifindex,
	};

	g->socket = fd_high(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (g->socket >= 0 && !setsockopt(g->socket, IPPROTO_IPV6,
					  IPV6_JOIN_GROUP, &mreq,
					  sizeof(mreq)))
		return 0;
	return rdmamsg__fail(-errno, "joining the group: %s", strerror(errno));
}

int rdmamsg__roce6_join(struct rdmamsg_group *g, struct rdma_ud_param *ret)
{
	struct ibv_gid_entry e = { .gid_index = 0 };
	int err = find_gid(g->carrier, &e);

	if (!err && g->opts.flags & RDMAMSG_GROUP_SUBSCRIBE)
		err = join_socket(g, e.ndev_ifindex);
	if (err)
		return err;
	*ret = (struct rdma_ud_param){
		.ah_attr = {
			.grh = {
				.sgid_index = (uint8_t)e.gid_index,
				.hop_limit = HOPS,
			},
			.is_global = 1, .port_num = g->carrier->port,
		},
		.qp_num = ALL_QPS, .qkey = g->carrier->qkey,
	};
	memcpy(&ret->ah_attr.grh.dgid,
	       &((struct sockaddr_in6 *)&g->addr)->sin6_addr,
	       sizeof(ret->ah_attr.grh.dgid));
	return 0;
}

void rdmamsg__roce6_leave(struct rdmamsg_group *g)
{
	if (g->socket >= 0)
		close(g->socket);
	g->socket = -1;
}
