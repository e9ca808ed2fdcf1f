/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the port, the GID and the P_Key of an address, as the CM does. */
#include "base/base.h"
#include "base/util.h"
#include "device/choose.h"
#include "device/device.h"
#include "device/path.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "wire/proto.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>

#define RANGE(...)	RANGE_OF(struct rdmamsg_path, __VA_ARGS__)

/* fields that stay 0 depend on the device */
static const struct range ranges[] = {
	RANGE(port, 0, 0, 1, 255),
	RANGE(gid_index, 0, RDMAMSG_NONE, 1, 254),
	RANGE(pkey, 0, 0, 1, 0xffff),
	RANGE(pkey_index, 0, 0, 0, 0xffff),
	RANGE(service_level, 0, 0, 0, 15),
	RANGE(src_path_bits, 0, 0, 0, 127),
	RANGE(traffic_class, 0, RDMAMSG_NONE, 0, 255),
	RANGE(flow_label, 0, 0, 0, 0xfffff),
	RANGE(hop_limit, 64, 1, 1, 255),
	RANGE(mtu, 4096, 256, 256, 4096),
	RANGE(psn, 0, RDMAMSG_NONE, 0, 0xffffff),
};

int rdmamsg__path_copy(struct rdmamsg_path *dst, const struct rdmamsg_path *src)
{
	int ret = rdmamsg__opts_copy(dst, sizeof(*dst), src, "rdmamsg_path");

	if (ret)
		return ret;
	if (dst->flags & ~(uint32_t)RDMAMSG_PATH_GLOBAL)
		return rdmamsg__fail(-EINVAL, "path flags 0x%x: unknown bits",
				     dst->flags);
	if (dst->pkey && dst->pkey_index)
		return rdmamsg__fail(-EINVAL, "pkey and pkey_index: one of "
				     "them says which P_Key");
	ret = rdmamsg__set_ranges(dst, ranges,
				  sizeof(ranges) / sizeof(ranges[0]));
	if (!ret && dst->mtu & (dst->mtu - 1))
		ret = rdmamsg__fail(-EINVAL, "mtu %u: must be 256, 512, 1024, "
				    "2048 or 4096", dst->mtu);
	return ret;
}

/* ---- the port ---------------------------------------------------------- */

void rdmamsg__addr_gid(const struct sockaddr *addr, union ibv_gid *ret)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;

	memset(ret, 0, sizeof(*ret));
	if (addr->sa_family == AF_INET6) {
		memcpy(ret->raw,
		       &((const struct sockaddr_in6 *)addr)->sin6_addr, 16);
		return;
	}
	ret->raw[10] = ret->raw[11] = 0xff;
	memcpy(ret->raw + 12, &in->sin_addr, 4);
}

/* An entry of a table of the port cannot be read. */
static int fail_entry(const struct verbs_api *v, struct ibv_context *verbs,
		      uint8_t port, int err, const char *table, int index)
{
	char what[128];

	snprintf(what, sizeof(what), "entry %d of the %s table of %s port %u",
		 index, table, v->get_device_name(verbs->device), port);
	return rdmamsg__fail_verbs(err, what);
}

/* Returns 1 if the port is active, 0, or -errno and a text. */
static int port_active(const struct verbs_api *v, struct ibv_context *verbs,
		       uint8_t port, struct ibv_port_attr *attr)
{
	int ret = rdmamsg__v_query_port(v, verbs, port, attr);
	char what[96];

	if (!ret)
		return attr->state == IBV_PORT_ACTIVE ||
		       attr->state == IBV_PORT_ACTIVE_DEFER;
	snprintf(what, sizeof(what), "port %u of device %s", port,
		 v->get_device_name(verbs->device));
	return rdmamsg__fail_verbs(ret, what);
}

/* Returns 1 if the port has the address, 0, or -errno and a text. */
static int port_has(const struct verbs_api *v, struct ibv_context *verbs,
		    uint8_t port, int gids, const struct sockaddr *local)
{
	union ibv_gid want, gid;
	int ret, err = 0;

	rdmamsg__addr_gid(local, &want);
	for (int i = 0; i < gids; i++) {
		ret = rdmamsg__v_query_gid(v, verbs, port, i, &gid);
		if (!ret && !memcmp(gid.raw, want.raw, sizeof(gid.raw)))
			return 1;
		if (ret && !err)
			err = fail_entry(v, verbs, port, ret, "GID", i);
	}
	return err;
}

int rdmamsg__find_port(const struct verbs_api *v, struct ibv_context *verbs,
		       const struct sockaddr *local, uint8_t *ret_port,
		       bool *ret_has)
{
	struct ibv_device_attr dev;
	struct ibv_port_attr attr;
	int ret, err = 0;

	*ret_has = false;
	*ret_port = 0;
	ret = rdmamsg__v_query_device(v, verbs, &dev);
	if (ret)
		return rdmamsg__fail_verbs(ret, "attributes of the device");
	for (uint8_t p = 1; p && p <= dev.phys_port_cnt; p++) {
		ret = port_active(v, verbs, p, &attr);
		if (ret > 0 && !*ret_port)
			*ret_port = p;
		if (ret > 0)
			ret = local ? port_has(v, verbs, p, attr.gid_tbl_len,
					       local) : 0;
		if (ret > 0) {
			*ret_has = true;
			*ret_port = p;
			return 0;
		}
		err = ret ? ret : err;
	}
	/* without an address any active port will do */
	return local || !*ret_port ? err : 0;
}

/* ---- its port, GID and P_Key ------------------------------------------ */

static bool is_ipv4(const uint8_t gid[static 16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid, mapped, sizeof(mapped));
}

/*
 * Scores: RoCE v2 first. Then the address itself, any IPv4, any address that is
 * not link-local.
 */
static int gid_score(const struct ibv_gid_entry *e, const union ibv_gid *want)
{
	int score = 1;

	if (!e->gid.global.interface_id && !e->gid.global.subnet_prefix)
		return 0;
	if (e->gid_type == IBV_GID_TYPE_ROCE_V2)
		score += 8;
	if (want && !memcmp(want->raw, e->gid.raw, sizeof(want->raw)))
		return score + 4;
	if (is_ipv4(e->gid.raw))
		return score + 2;
	return score + !IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)
					      e->gid.raw);
}

static uint8_t roce_version(const struct ibv_gid_entry *e)
{
	return e->gid_type == IBV_GID_TYPE_ROCE_V2 ? 2 :
	       e->gid_type == IBV_GID_TYPE_ROCE_V1 ? 1 : 0;
}

static void set_gid(struct oob *oob, const struct ibv_gid_entry *e)
{
	oob->local.has_gid = true;
	oob->local.roce = roce_version(e);
	memcpy(oob->local.gid, e->gid.raw, sizeof(e->gid.raw));
}

static int find_gid(struct oob *oob, const struct rdmamsg_device *d,
		    const struct ibv_port_attr *port,
		    const struct sockaddr *local)
{
	struct ibv_gid_entry e, best = { .gid_type = 0 };
	union ibv_gid want;
	int ret, err = 0, unread = 0, score = 0;

	if (local)
		rdmamsg__addr_gid(local, &want);
	/* an InfiniBand port uses its first GID */
	for (int i = 0; i < min(port->gid_tbl_len, 255); i++) {
		int s;

		ret = rdmamsg__v_query_gid_ex(d->v, d->verbs, oob->port,
					      (uint32_t)i, &e);
		if (ret && ret != -ENODATA && !err) {
			err = ret;
			unread = i;
		}
		if (ret)
			continue;
		s = gid_score(&e, local ? &want : NULL);
		if (s <= score)
			continue;
		score = s;
		best = e;
		oob->gid_index = (uint8_t)i;
		if (oob->local.link == PROTO_OOB_IB)
			break;
	}
	if (!score && err)
		return fail_entry(d->v, d->verbs, oob->port, err, "GID",
				  unread);
	if (score)
		set_gid(oob, &best);
	else if (oob->local.link == PROTO_OOB_ETHERNET)
		return rdmamsg__fail(-ENODEV, "device %s port %u has no GID: "
				     "give its network interface an address",
				     d->name, oob->port);
	return 0;
}

static int take_gid(struct oob *oob, const struct rdmamsg_device *d,
		    const struct ibv_port_attr *port, uint32_t index)
{
	struct ibv_gid_entry e;
	int ret = -ENODATA;

	if (index < (uint32_t)port->gid_tbl_len && index <= 255)
		ret = rdmamsg__v_query_gid_ex(d->v, d->verbs, oob->port, index,
					      &e);
	if (ret && ret != -ENODATA)
		return fail_entry(d->v, d->verbs, oob->port, ret, "GID",
				  (int)index);
	if (ret || !gid_score(&e, NULL))
		return rdmamsg__fail(-EINVAL, "gid_index %u: there is no such "
				     "GID on port %u of device %s", index,
				     oob->port, d->name);
	oob->gid_index = (uint8_t)index;
	oob->global = true;
	set_gid(oob, &e);
	return 0;
}

/* Finds a P_Key by value. Full membership is better than limited. */
static int find_pkey(struct oob *oob, const struct rdmamsg_device *d,
		     const struct ibv_port_attr *port)
{
	uint32_t value = oob->path.pkey;
	int ret, err = 0, unread = 0, found = -1;
	__be16 pkey;

	for (int i = 0; i < port->pkey_tbl_len; i++) {
		ret = rdmamsg__v_query_pkey(d->v, d->verbs, oob->port, i,
					    &pkey);
		if (ret && !err) {
			err = ret;
			unread = i;
		}
		if (ret)
			continue;
		if (value ? ((be16toh(pkey) ^ value) & 0x7fff) != 0 :
			    (uint32_t)i != oob->path.pkey_index)
			continue;
		if (found >= 0 && !(be16toh(pkey) & 0x8000))
			continue;
		found = i;
		oob->local.pkey = be16toh(pkey);
	}
	if (found < 0 && err)
		return fail_entry(d->v, d->verbs, oob->port, err, "P_Key",
				  unread);
	if (found < 0 && value)
		return rdmamsg__fail(-EINVAL, "pkey 0x%x: port %u of device %s "
				     "is not in that partition", value,
				     oob->port, d->name);
	if (found < 0)
		return rdmamsg__fail(-EINVAL, "pkey_index %u: port %u of "
				     "device %s has %u", oob->path.pkey_index,
				     oob->port, d->name, port->pkey_tbl_len);
	oob->pkey_index = (uint16_t)found;
	return 0;
}

/* The port of the options, or one that is active. */
static int choose_port(struct oob *oob, const struct rdmamsg_device *d,
		       const struct sockaddr *local, struct ibv_port_attr *attr)
{
	bool unused;
	int ret = 0;

	oob->port = (uint8_t)oob->path.port;
	/* find_gid() fails if it needs the entry that cannot be read */
	if (!oob->port)
		ret = rdmamsg__try(rdmamsg__find_port(d->v, d->verbs, local,
						      &oob->port, &unused));
	if (ret && !oob->port)
		return rdmamsg__fail_again(ret);
	if (!oob->port)
		return rdmamsg__fail(-ENETDOWN,
				     "no port of device %s is active", d->name);
	if (oob->port > d->attr.phys_port_cnt)
		return rdmamsg__fail(-EINVAL, "port %u: device %s has %u",
				     oob->port, d->name, d->attr.phys_port_cnt);
	ret = port_active(d->v, d->verbs, oob->port, attr);
	if (!ret)
		return rdmamsg__fail(-ENETDOWN, "port %u of device %s is not "
				     "active", oob->port, d->name);
	return ret < 0 ? ret : 0;
}

/* A port has 1 << lmc LIDs, one for each value of the path bits. */
static int check_path_bits(const struct oob *oob,
			   const struct rdmamsg_device *d,
			   const struct ibv_port_attr *attr)
{
	if (oob->local.link != PROTO_OOB_IB ||
	    !(oob->path.src_path_bits >> attr->lmc))
		return 0;
	return rdmamsg__fail(-EINVAL, "src_path_bits %u: port %u of device %s "
			     "has %u LIDs", oob->path.src_path_bits, oob->port,
			     d->name, 1u << attr->lmc);
}

int rdmamsg__path_local(struct oob *oob, const struct rdmamsg_device *d,
			const struct sockaddr *local)
{
	const struct rdmamsg_path *p = &oob->path;
	struct ibv_port_attr attr;
	int ret;

	ret = choose_port(oob, d, local, &attr);
	if (ret)
		return ret;
	ret = rdmamsg__device_walks(d->name, d->verbs->device->transport_type);
	if (ret)
		return ret;
	oob->local.link = attr.link_layer == IBV_LINK_LAYER_ETHERNET ?
			  PROTO_OOB_ETHERNET : PROTO_OOB_IB;
	oob->local.lid = attr.lid;
	oob->local.mtu = (uint8_t)min((int)attr.active_mtu,
				      (int)RDMAMSG_MTU_CODE(p->mtu));
	oob->global = p->flags & RDMAMSG_PATH_GLOBAL;
	ret = check_path_bits(oob, d, &attr);
	if (ret)
		return ret;
	if (p->gid_index)
		ret = take_gid(oob, d, &attr, p->gid_index == RDMAMSG_NONE ?
			       0 : p->gid_index);
	else
		ret = find_gid(oob, d, &attr, local);
	return ret ? ret : find_pkey(oob, d, &attr);
}

int rdmamsg__path_match(const struct oob *oob)
{
	const struct proto_oob *a = &oob->local, *b = &oob->peer;

	if (a->link != b->link)
		return rdmamsg__fail(-EHOSTUNREACH, "the peer's port is "
				     "%s, this one is %s",
				     b->link == PROTO_OOB_IB ? "InfiniBand" :
				     "Ethernet", a->link == PROTO_OOB_IB ?
				     "InfiniBand" : "Ethernet");
	if ((a->pkey ^ b->pkey) & 0x7fff)
		return rdmamsg__fail(-EHOSTUNREACH, "the peer is in partition "
				     "0x%x, this side in 0x%x", b->pkey,
				     a->pkey);
	if (!((a->pkey | b->pkey) & 0x8000))
		return rdmamsg__fail(-EHOSTUNREACH, "both sides are limited "
				     "members of partition 0x%x", a->pkey);
	/* a record of an earlier library has no version */
	if (a->link == PROTO_OOB_ETHERNET && a->roce && b->roce &&
	    a->roce != b->roce)
		return rdmamsg__fail(-EHOSTUNREACH, "the peer uses RoCE "
				     "version %u, this side version %u: choose "
				     "a GID of the same version with gid_index",
				     b->roce, a->roce);
	if (a->link == PROTO_OOB_ETHERNET && is_ipv4(a->gid) != is_ipv4(b->gid))
		return rdmamsg__fail(-EHOSTUNREACH, "the peer's GID is an %s "
				     "address, this side's is not: see "
				     "gid_index", is_ipv4(b->gid) ? "IPv4" :
				     "IPv6");
	if ((oob->global || !b->lid) && a->link == PROTO_OOB_IB &&
	    !(a->has_gid && b->has_gid))
		return rdmamsg__fail(-EHOSTUNREACH, "a path by GID, and %s has "
				     "none", a->has_gid ? "the peer" :
				     "this side");
	return 0;
}
