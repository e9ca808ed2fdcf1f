/* SPDX-License-Identifier: BSD-2-Clause */
/* CM addresses: the ones of this host, and no other. */
#include "cm.h"

#include <endian.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#define PORT_FIRST	32768
#define PORT_COUNT	28000

/* ---- addresses -------------------------------------------------------- */

static size_t addr_len(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
	       a->ss_family == AF_INET ? sizeof(struct sockaddr_in) : 0;
}

in_port_t *soft_cm_port_of(struct sockaddr_storage *a)
{
	/* at the same place in both families */
	return &((struct sockaddr_in *)a)->sin_port;
}

bool soft_cm_is_any(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(
			&((const struct sockaddr_in6 *)a)->sin6_addr);
	return !((const struct sockaddr_in *)a)->sin_addr.s_addr;
}

void soft_cm_unmap(struct sockaddr_storage *a)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)a;
	struct sockaddr_in in = { .sin_family = AF_INET };

	if (a->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		return;
	in.sin_port = in6->sin6_port;
	memcpy(&in.sin_addr, in6->sin6_addr.s6_addr + 12, 4);
	memset(a, 0, sizeof(*a));
	memcpy(a, &in, sizeof(in));
}

/* Whose address it is, the kernel knows best. */
bool soft_cm_is_local(const struct sockaddr_storage *addr)
{
	struct sockaddr_storage a = *addr;
	int fd = socket(a.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ok;

	if (fd < 0)
		return false;
	*soft_cm_port_of(&a) = 0;
	ok = !bind(fd, (struct sockaddr *)&a, (socklen_t)addr_len(&a));
	close(fd);
	return ok;
}

bool soft_gid_local(const uint8_t gid[16])
{
	struct sockaddr_storage a;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a;

	memset(&a, 0, sizeof(a));
	a.ss_family = AF_INET6;
	memcpy(&in6->sin6_addr, gid, 16);
	soft_cm_unmap(&a);
	return !soft_cm_is_any(&a) && soft_cm_is_local(&a);
}

int soft_cm_copy_addr(struct sockaddr_storage *dst, const void *src, size_t len)
{
	struct sockaddr_storage a;

	memset(&a, 0, sizeof(a));
	memcpy(&a, src, min(len, sizeof(a)));
	if (!addr_len(&a) || len < addr_len(&a))
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
	*soft_cm_port_of(&id->src) = htons((uint16_t)(PORT_FIRST +
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

/* Where we come from when we go there: the same, on one host. */
static void default_source(struct soft_cm_id *id)
{
	uint16_t port = *soft_cm_port_of(&id->src);

	if (id->src.ss_family && !soft_cm_is_any(&id->src))
		return;
	if (is_group(&id->dst)) {
		id->src.ss_family = id->dst.ss_family;
		loopback(&id->src);
		*soft_cm_port_of(&id->src) = port;
		return;
	}
	id->src = id->dst;
	*soft_cm_port_of(&id->src) = port;
}

int soft_cm_resolve_addr(struct soft_cm_file *file,
			 const struct rdma_ucm_resolve_addr *cmd)
{
	struct sockaddr_storage src, dst;
	struct soft_cm_id *id;
	bool group;
	int ret = soft_cm_copy_addr(&dst, &cmd->dst_addr, cmd->dst_size);

	memset(&src, 0, sizeof(src));
	if (!ret && cmd->src_size)
		ret = soft_cm_copy_addr(&src, &cmd->src_addr, cmd->src_size);
	if (ret)
		return ret;
	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	if (!id || (id->state != SOFT_CM_IDLE && id->state != SOFT_CM_BOUND)) {
		ret = -EINVAL;
		goto out;
	}
	soft_cm_unmap(&dst);
	soft_cm_unmap(&src);
	if (src.ss_family && !soft_cm_is_any(&src)) {
		if (src.ss_family != dst.ss_family)
			ret = -EINVAL;
		else if (!soft_cm_is_local(&src))
			ret = -EADDRNOTAVAIL;
		if (ret)
			goto out;
		id->src = src;
	}
	id->dst = dst;
	group = is_group(&dst) && soft_cm_is_ud(id);
	if (file->dev->absent || soft_cm_is_any(&dst) ||
	    (!group && !soft_cm_is_local(&dst))) {
		soft_cm_raise(id, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
		goto out;
	}
	default_source(id);
	if (!*soft_cm_port_of(&id->src))
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

/* One bound to all addresses is on no port of a device yet. */
bool soft_cm_on_device(const struct soft_cm_id *id)
{
	return (id->state >= SOFT_CM_ADDR && id->state != SOFT_CM_LISTEN) ||
	       (addr_len(&id->src) && !soft_cm_is_any(&id->src));
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
	resp->src_size = (uint16_t)addr_len(&id->src);
	resp->dst_size = (uint16_t)addr_len(&id->dst);
	memcpy(&resp->src_addr, &id->src, resp->src_size);
	memcpy(&resp->dst_addr, &id->dst, resp->dst_size);
	resp->port_num = soft_cm_on_device(id);
	if (resp->port_num) {
		resp->node_guid = htobe64(file->dev->device_guid);
		resp->pkey = htobe16(0xffff);
	}
out:
	soft_unlock(file->dev);
	return ret;
}
