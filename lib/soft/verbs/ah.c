/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles: the destination of datagrams, and their header. */
#include "soft/verbs/ah.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "soft/fabric/bytes.h"
#include "soft/fabric/gid.h"
#include "soft/fabric/sockaddr.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/mr.h"
#include "soft/verbs/upward.h"

#define NEXT_IB		0x1b	/* next header of a GRH on InfiniBand */
#define LID_MCAST	0xc000
/*
 * A work completion has no field for the kind of RoCE header. mlx5 reports the
 * kind in the service level, and UCX 1.13 reads it there.
 */
#define SL_ROCE_V2	0x8
#define SL_IPV6		0x1
#define SL_IPV4		0x2

/* ---- headers ---------------------------------------------------------- */

static uint32_t header_sum(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
	return sum;
}

static uint16_t checksum(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~(sum + (sum >> 16));
}

static bool is_ipv4(const struct soft_ah *ah)
{
	return ah->grh[0] >> 4 != 6;
}

/* An IPv4 header takes the last 20 of the 40 bytes, as in RoCE v2. */
static void make_header(const struct soft_dev *dev, struct soft_ah *ah,
			const union ibv_gid *sgid)
{
	const struct ibv_global_route *r = &ah->attr.grh;
	uint8_t *h = ah->grh;

	if (!soft_is_ib(dev) && soft_gid_v4(sgid->raw) &&
	    soft_gid_v4(r->dgid.raw)) {
		h += 20;
		h[0] = 0x45;
		h[1] = r->traffic_class;
		h[6] = 0x40;
		h[8] = r->hop_limit;
		h[9] = IPPROTO_UDP;
		memcpy(h + 12, sgid->raw + 12, 4);
		memcpy(h + 16, r->dgid.raw + 12, 4);
		ah->sum = header_sum(h);
		return;
	}
	h[0] = (uint8_t)(0x60 | r->traffic_class >> 4);
	h[1] = (uint8_t)(r->traffic_class << 4 | (r->flow_label >> 16 & 0xf));
	soft_put16(h + 2, r->flow_label & 0xffff);
	h[6] = soft_is_ib(dev) ? NEXT_IB : IPPROTO_UDP;
	h[7] = r->hop_limit;
	memcpy(h + 8, sgid->raw, 16);
	memcpy(h + 24, r->dgid.raw, 16);
}

void soft_ah_header(const struct soft_ah *ah, uint32_t length, uint8_t grh[40])
{
	uint32_t rest = 12 + 8 + ((length + 3) & ~3u) + 4; /* BTH, DETH, ICRC */

	memcpy(grh, ah->grh, 40);
	if (grh[0] >> 4 == 6) {
		soft_put16(grh + 4, rest + (grh[6] == IPPROTO_UDP ? 8 : 0));
		return;
	}
	rest += 20 + 8;
	soft_put16(grh + 22, rest);
	soft_put16(grh + 30, checksum(ah->sum + rest));
}

void soft_ah_arrived(const struct soft_dev *dev, const struct soft_path *back,
		     uint32_t length, uint8_t grh[SOFT_GRH], uint8_t *sl)
{
	struct soft_ah ah = { .attr.grh.hop_limit = 64 };
	union ibv_gid from;

	memcpy(&from, back->to, 16);
	memcpy(&ah.attr.grh.dgid, back->from, 16);
	make_header(dev, &ah, &from);
	soft_ah_header(&ah, length, grh);
	*sl = SL_ROCE_V2 | (is_ipv4(&ah) ? SL_IPV4 : SL_IPV6);
}

/* ---- creation --------------------------------------------------------- */

bool soft_ah_source_ok(const struct soft_dev *dev,
		       const struct ibv_ah_attr *a)
{
	struct soft_gid sgid;

	if (!a->port_num || a->port_num > dev->ports)
		return false;
	if (a->is_global)
		return !soft_port_gid(dev, a->port_num, a->grh.sgid_index,
				      &sgid);
	return soft_is_ib(dev);
}

bool soft_ah_attr_ok(const struct soft_dev *dev, const struct ibv_ah_attr *a)
{
	return soft_ah_source_ok(dev, a) && (a->is_global || a->dlid);
}

static int take_ib(const struct soft_dev *dev, struct soft_ah *ah)
{
	const struct ibv_ah_attr *a = &ah->attr;
	uint32_t node;

	ah->slid = soft_lid(dev, dev->node, a->port_num);
	ah->sl = a->sl;
	if (ah->mcast)
		return a->dlid >= LID_MCAST && a->dlid != 0xffff ? 0 : EINVAL;
	if (a->dlid ? soft_lid_port(dev, a->dlid, &node, &ah->port) :
	    soft_ib_gid_port(dev, a->grh.dgid.raw, &node, &ah->port))
		ah->node = (int)node;
	else
		ah->node = SOFT_NODES;	/* no such port: drop all datagrams */
	return 0;
}

/* The destination is on another host, or a group that reaches there. */
static int take_far(struct soft_dev *dev, struct soft_ah *ah,
		    const struct soft_gid *sgid)
{
	int ret;

	memcpy(ah->path.to, ah->attr.grh.dgid.raw, 16);
	memcpy(ah->path.from, sgid->gid.raw, 16);
	if (ah->mcast || soft_path_local(ah->path.from))
		ah->path.scope = sgid->ifindex;
	soft_lock(dev);
	ret = soft_verbs_up->far_route(dev, &ah->path, ah->mcast);
	soft_unlock(dev);
	ah->far = !ret;
	/* a group has members on this host, whatever the network does */
	if (!ret || ah->mcast)
		return 0;
	return ret == -ENETUNREACH || ret == -EINVAL ||
	       ret == -EADDRNOTAVAIL ? EHOSTUNREACH : -ret;
}

static int take_ethernet(struct soft_dev *dev, struct soft_ah *ah,
			 const struct soft_gid *sgid)
{
	const uint8_t *dgid = ah->attr.grh.dgid.raw;
	int index, ret;

	ah->node = -1;
	soft_lock(dev);
	index = soft_gid_index(dev, 1, dgid);
	soft_unlock(dev);
	if (ah->mcast)
		return dev->far ? take_far(dev, ah, sgid) : 0;
	if (index >= 0 && !dev->all_far)
		return 0;
	ret = dev->all_far ? -EADDRNOTAVAIL : soft_gid_local(dgid);
	if (ret == -EADDRNOTAVAIL && dev->far)
		return take_far(dev, ah, sgid);
	return ret == -EADDRNOTAVAIL ? EHOSTUNREACH : -ret;
}

/* Returns 0 or an errno. */
static int take_sgid(struct soft_dev *dev, const struct ibv_ah_attr *attr,
		     struct soft_gid *ret)
{
	bool ok;

	soft_lock(dev);
	ok = soft_ah_attr_ok(dev, attr);
	if (ok && attr->is_global)
		(void)soft_port_gid(dev, attr->port_num, attr->grh.sgid_index,
				    ret);
	soft_unlock(dev);
	return ok ? 0 : EINVAL;
}

struct ibv_ah *soft_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct soft_dev *dev = soft_dev_of(pd->context);
	struct soft_gid sgid;
	struct soft_ah *ah;
	int err = dev->iwarp ? EOPNOTSUPP : take_sgid(dev, attr, &sgid);

	if (!err)
		err = soft_may_create(pd->context, SOFT_OBJ_AH);
	if (err) {
		errno = err;
		return NULL;
	}
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	pd = soft_pd_of(pd);
	ah->ibv.context = pd->context;
	ah->ibv.pd = pd;
	ah->attr = *attr;
	ah->mcast = attr->is_global && soft_gid_mcast(attr->grh.dgid.raw);
	err = soft_is_ib(dev) ? take_ib(dev, ah) : take_ethernet(dev, ah, &sgid);
	if (err) {
		free(ah);
		errno = err;
		return NULL;
	}
	if (attr->is_global)
		make_header(dev, ah, &sgid.gid);
	if (!soft_is_ib(dev))
		ah->sl = SL_ROCE_V2 | (is_ipv4(ah) ? SL_IPV4 : SL_IPV6);
	ah->users = 1;
	soft_lock(dev);
	((struct soft_pd *)pd)->users++;
	soft_unlock(dev);
	return &ah->ibv;
}

/*
 * The last user frees the handle. Users are the program and queued datagrams.
 */
void soft_ah_put(struct soft_ah *ah)
{
	if (ah && !--ah->users)
		free(ah);
}

int soft_destroy_ah(struct ibv_ah *ibv)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);

	soft_lock(dev);
	((struct soft_pd *)ibv->pd)->users--;
	soft_ah_put((struct soft_ah *)ibv);
	soft_unlock(dev);
	return 0;
}

/* ---- from a completion ------------------------------------------------ */

/*
 * Returns the index of our GID. If it is unknown, returns -1, or on Ethernet
 * the index of a GID of the same family.
 */
static int find_index(struct soft_dev *dev, uint8_t port, const uint8_t gid[16])
{
	int index;

	soft_lock(dev);
	index = soft_gid_index(dev, port, gid);
	soft_unlock(dev);
	return index >= 0 || soft_is_ib(dev) ? index : !soft_gid_v4(gid);
}

int soft_init_ah_from_wc(struct ibv_context *verbs, uint8_t port,
			 struct ibv_wc *wc, struct ibv_grh *grh,
			 struct ibv_ah_attr *attr)
{
	struct soft_dev *dev = soft_dev_of(verbs);
	const uint8_t *ip = (const uint8_t *)grh + 20;
	uint8_t to[16] = { [10] = 0xff, [11] = 0xff };
	struct soft_ah head;
	uint32_t first;
	int index;

	memset(attr, 0, sizeof(*attr));
	attr->dlid = wc->slid;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	attr->is_global = 1;
	memcpy(head.grh, grh, sizeof(head.grh));
	if (is_ipv4(&head)) {
		memcpy(attr->grh.dgid.raw, to, 12);
		memcpy(attr->grh.dgid.raw + 12, ip + 12, 4);
		memcpy(to + 12, ip + 16, 4);
		attr->grh.traffic_class = ip[1];
		attr->grh.hop_limit = ip[8];
	} else {
		first = be32toh(grh->version_tclass_flow);
		attr->grh.dgid = grh->sgid;
		memcpy(to, grh->dgid.raw, 16);
		attr->grh.flow_label = first & 0xfffff;
		attr->grh.traffic_class = (uint8_t)(first >> 20);
		attr->grh.hop_limit = grh->hop_limit;
	}
	/*
	 * as in libibverbs: the header of a multicast has no GID of this port
	 */
	index = soft_gid_mcast(to) ? -1 : find_index(dev, port, to);
	if (index < 0) {
		errno = EINVAL;
		return -1;
	}
	attr->grh.sgid_index = (uint8_t)index;
	return 0;
}

struct ibv_ah *soft_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
				      struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;

	if (soft_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return soft_create_ah(pd, &attr);
}
