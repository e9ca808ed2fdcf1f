/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands: resolving addresses. The device reaches only this host. */
#include "soft/cm/id.h"
#include "soft/cm/far.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include <infiniband/ib.h>

#include "soft/fabric/sockaddr.h"

#define PORT_FIRST	32768
#define PORT_COUNT	28000

int soft_cm_copy_addr(struct sockaddr_storage *dst, const void *src, size_t len)
{
	struct sockaddr_storage a;

	memset(&a, 0, sizeof(a));
	memcpy(&a, src, min(len, sizeof(a)));
	if (!soft_addr_len(&a) || len < soft_addr_len(&a))
		return -EINVAL;
	*dst = a;
	return 0;
}

void soft_cm_new_port(struct soft_cm_id *id)
{
	struct soft_dev *dev = id->file->dev;

	if (!dev->cm_port_last)
		dev->cm_port_last = (uint16_t)(dev->guid % PORT_COUNT);
	dev->cm_port_last = (uint16_t)((dev->cm_port_last + 1) % PORT_COUNT);
	*soft_addr_port(&id->src) = htons((uint16_t)(PORT_FIRST +
						      dev->cm_port_last));
}

/* ---- resolving -------------------------------------------------------- */

static bool is_group(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET6)
		return IN6_IS_ADDR_MULTICAST(
			&((const struct sockaddr_in6 *)a)->sin6_addr);
	return IN_MULTICAST(ntohl(
		((const struct sockaddr_in *)a)->sin_addr.s_addr));
}

static void loopback(struct sockaddr_storage *a)
{
	sa_family_t family = a->ss_family;

	memset(a, 0, sizeof(*a));
	a->ss_family = family;
	if (family == AF_INET6)
		((struct sockaddr_in6 *)a)->sin6_addr = in6addr_loopback;
	else
		((struct sockaddr_in *)a)->sin_addr.s_addr =
			htonl(INADDR_LOOPBACK);
}

/* Uses the destination address as source, because both are on one host. */
static void default_source(struct soft_cm_id *id)
{
	uint16_t port = *soft_addr_port(&id->src);

	if (id->ib && (!id->src.ss_family || soft_addr_is_any(&id->src))) {
		soft_cm_own_gid(id, &id->src);
		*soft_addr_port(&id->src) = port;
		return;
	}
	if (id->src.ss_family && !soft_addr_is_any(&id->src))
		return;
	if (is_group(&id->dst)) {
		id->src.ss_family = id->dst.ss_family;
		loopback(&id->src);
		if (id->file->dev->far)
			soft_cm_far_group(id);
		*soft_addr_port(&id->src) = port;
		return;
	}
	id->src = id->dst;
	*soft_addr_port(&id->src) = port;
}

/*
 * A bound id keeps its address and ignores the source: Linux,
 * resolve_prepare_src(). Only a source with a port gets a name. Other ids need
 * no name, because they do not listen.
 */
static int set_source(struct soft_cm_id *id, struct sockaddr_storage *src)
{
	int ret;

	if (id->state == SOFT_CM_BOUND)
		return 0;
	if (!src->ss_family ||
	    (soft_addr_is_any(src) && !*soft_addr_port(src)))
		return 0;
	if (*soft_addr_port(src))
		return soft_cm_bind_id(id, src);
	ret = soft_cm_local(id, src, true);
	if (!ret)
		id->src = *src;
	return ret;
}

/* Returns true if the families match. The IPv6 wildcard includes IPv4. */
static bool match(const struct sockaddr_storage *src,
		  const struct sockaddr_storage *dst, sa_family_t given)
{
	return !src->ss_family || src->ss_family == dst->ss_family ||
	       (soft_addr_is_any(src) && src->ss_family == given);
}

/*
 * Returns 0 if the device reaches id->dst, -ENODEV if it does not, or -errno.
 */
static int find_dst(struct soft_cm_id *id)
{
	int ret;

	if (id->file->dev->absent || soft_addr_is_any(&id->dst))
		return -ENODEV;
	if (is_group(&id->dst) && soft_cm_is_ud(id))
		return 0;
	ret = id->file->dev->all_far && !soft_cm_is_ud(id) ? -EADDRNOTAVAIL :
	      soft_cm_local(id, &id->dst, false);
	return ret == -EADDRNOTAVAIL ? soft_cm_far_resolve(id) : ret;
}

/* Copies an address of the id's family. */
static int take_addr(struct soft_cm_id *id, const void *from, size_t len,
		     struct sockaddr_storage *ret)
{
	const struct sockaddr_storage *ss = from;
	bool bound = id->state == SOFT_CM_BOUND;

	if (bound && (ss->ss_family == AF_IB) != id->ib)
		return -EINVAL;
	return ss->ss_family == AF_IB ? soft_cm_take_ib(id, from, len, ret) :
	       soft_cm_copy_addr(ret, from, len);
}

static int take_addrs(struct soft_cm_id *id,
		      const struct rdma_ucm_resolve_addr *cmd,
		      struct sockaddr_storage *src,
		      struct sockaddr_storage *dst)
{
	int ret = take_addr(id, &cmd->dst_addr, cmd->dst_size, dst);

	memset(src, 0, sizeof(*src));
	if (ret || !cmd->src_size)
		return ret;
	if ((cmd->src_addr.ss_family == AF_IB) != id->ib)
		return -EINVAL;
	return take_addr(id, &cmd->src_addr, cmd->src_size, src);
}

int soft_cm_resolve_addr(struct soft_cm_file *file,
			 const struct rdma_ucm_resolve_addr *cmd)
{
	struct sockaddr_storage src, dst;
	struct soft_cm_id *id;
	sa_family_t given;
	int ret;

	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	if (!id || (id->state != SOFT_CM_IDLE && id->state != SOFT_CM_BOUND)) {
		ret = -EINVAL;
		goto out;
	}
	ret = take_addrs(id, cmd, &src, &dst);
	if (ret)
		goto out;
	given = dst.ss_family;
	soft_addr_unmap(&dst);
	soft_addr_unmap(&src);
	if (!match(id->state == SOFT_CM_BOUND ? &id->src : &src, &dst, given))
		ret = -EINVAL;
	else
		ret = set_source(id, &src);
	if (ret)
		goto out;
	id->dst = dst;
	ret = find_dst(id);
	if (ret == -ENODEV) {
		soft_cm_raise(id, RDMA_CM_EVENT_ADDR_ERROR, ret);
		ret = 0;
		goto out;
	}
	if (ret)
		goto out;
	default_source(id);
	if (!*soft_addr_port(&id->src))
		soft_cm_new_port(id);
	id->state = SOFT_CM_ADDR;
	soft_cm_raise(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
out:
	soft_unlock(file->dev);
	return ret;
}

int soft_cm_resolve_route(struct soft_cm_file *file,
			  const struct rdma_ucm_resolve_route *cmd)
{
	struct soft_cm_id *id;
	int ret = 0;

	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	if (id && id->state == SOFT_CM_ADDR) {
		id->state = SOFT_CM_ROUTE;
		soft_cm_raise(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	} else {
		ret = -EINVAL;
	}
	soft_unlock(file->dev);
	return ret;
}

/*
 * Returns false if the id is bound to the wildcard, because it has no device
 * yet.
 */
bool soft_cm_on_device(const struct soft_cm_id *id)
{
	return (id->state >= SOFT_CM_ADDR && id->state != SOFT_CM_LISTEN) ||
	       (soft_addr_len(&id->src) && !soft_addr_is_any(&id->src));
}

/* An address that is not known yet has a size all the same: Linux. */
static void query_ib(const struct soft_cm_id *id,
		     struct rdma_ucm_query_addr_resp *resp)
{
	resp->src_size = resp->dst_size = sizeof(struct sockaddr_ib);
	if (id->src.ss_family)
		soft_cm_to_ib(id, false, &resp->src_addr);
	if (id->dst.ss_family)
		soft_cm_to_ib(id, true, &resp->dst_addr);
}

int soft_cm_query_addr(struct soft_cm_file *file,
		       const struct rdma_ucm_query *cmd,
		       struct rdma_ucm_query_addr_resp *resp)
{
	struct soft_cm_id *id;
	int ret = 0;

	memset(resp, 0, sizeof(*resp));
	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	if (!id) {
		ret = -EINVAL;
		goto out;
	}
	if (id->ib) {
		query_ib(id, resp);
	} else {
		resp->src_size = (uint16_t)soft_addr_len(&id->src);
		resp->dst_size = (uint16_t)soft_addr_len(&id->dst);
		memcpy(&resp->src_addr, &id->src, resp->src_size);
		memcpy(&resp->dst_addr, &id->dst, resp->dst_size);
	}
	resp->port_num = soft_cm_on_device(id);
	if (resp->port_num) {
		resp->node_guid = htobe64(file->dev->device_guid);
		resp->pkey = htobe16(soft_pkey(file->dev, resp->port_num));
	}
out:
	soft_unlock(file->dev);
	return ret;
}
