/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses of ids that are GIDs (AF_IB), on InfiniBand. The id keeps the GID
 * as an address of IPv6, and the lower 16 bits of the service ID as its port. The
 * upper bits are the port space.
 */
#include "soft/cm/id.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include <infiniband/ib.h>

#include "soft/fabric/gid.h"
#include "soft/fabric/sockaddr.h"

#define PORT_BITS	16

/*
 * Returns the port space of a service ID, or 0. A program that leaves it open
 * gets that of the id: Linux, cma_select_ib_ps().
 */
static uint16_t space_of(const struct soft_cm_id *id, uint64_t sid,
			 uint64_t mask)
{
	uint64_t part = sid >> PORT_BITS & mask >> PORT_BITS;

	if (!(mask >> PORT_BITS) || part == id->ps)
		return id->ps;
	return id->ps == RDMA_PS_IB && (part == RDMA_PS_TCP ||
					part == RDMA_PS_UDP) ?
	       (uint16_t)part : 0;
}

int soft_cm_take_ib(struct soft_cm_id *id, const void *src, size_t len,
		    struct sockaddr_storage *ret)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr_ib ib;
	uint64_t sid, mask;
	uint16_t ps;

	if (len < sizeof(ib))
		return -EINVAL;
	if (!soft_is_ib(id->file->dev))
		return -EOPNOTSUPP;
	memcpy(&ib, src, sizeof(ib));
	sid = be64toh(ib.sib_sid);
	mask = be64toh(ib.sib_sid_mask);
	ps = space_of(id, sid, mask);
	if (!ps)
		return -EPROTONOSUPPORT;
	memcpy(&in6.sin6_addr, &ib.sib_addr, 16);
	in6.sin6_port = htons((uint16_t)(sid & mask));
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, &in6, sizeof(in6));
	id->ps = ps;
	id->ib = true;
	return 0;
}

void soft_cm_own_gid(const struct soft_cm_id *id, struct sockaddr_storage *addr)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };

	soft_ib_gid(id->file->dev, id->file->dev->node, 1,
		    (uint8_t *)&in6.sin6_addr);
	memset(addr, 0, sizeof(*addr));
	memcpy(addr, &in6, sizeof(in6));
}

int soft_cm_local(const struct soft_cm_id *id,
		  const struct sockaddr_storage *addr, bool own)
{
	const struct soft_dev *dev = id->file->dev;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
	uint32_t node;
	uint8_t port;

	if (!id->ib)
		return soft_addr_local(addr);
	return soft_ib_gid_port(dev, (const uint8_t *)&in6->sin6_addr, &node,
				&port) && (!own || node == dev->node) ? 0 :
	       -EADDRNOTAVAIL;
}

void soft_cm_to_ib(const struct soft_cm_id *id, bool peer,
		   struct __kernel_sockaddr_storage *ret)
{
	const struct sockaddr_storage *addr = peer ? &id->dst : &id->src;
	struct sockaddr_ib ib = { .sib_family = AF_IB };

	ib.sib_pkey = htobe16(soft_pkey(id->file->dev, 1));
	soft_cm_gid(id, peer, (uint8_t *)&ib.sib_addr);
	/* the service ID is port space and port: IBTA annex A11 */
	ib.sib_sid = htobe64((uint64_t)id->ps << PORT_BITS |
		ntohs(((const struct sockaddr_in *)addr)->sin_port));
	ib.sib_sid_mask = htobe64(UINT64_MAX);
	memcpy(ret, &ib, sizeof(ib));
}
