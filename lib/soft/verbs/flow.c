/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls: steering of Ethernet frames. As on mlx5, the first rule that matches
 * gets a frame, and so do other queue pairs with the same rule. Sniffers get
 * every frame besides.
 */
#include "soft/verbs/flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "soft/fabric/groups.h"
#include "soft/verbs/ah.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/qp.h"

/* ---- which nodes ------------------------------------------------------ */

/* No MGID begins so. NULL: the group of flows without an address. */
static void key_of(const uint8_t *mac, uint8_t ret[16])
{
	memset(ret, 0, 16);
	ret[0] = mac ? 2 : 1;
	if (mac)
		memcpy(ret + 10, mac, FRAME_MAC);
}

void soft_flow_members(struct soft_dev *dev, struct soft_raw *raw,
		       const uint8_t mac[FRAME_MAC])
{
	uint32_t epoch = soft_groups_epoch(dev);
	uint64_t one[2], all[2];
	uint8_t key[16];

	if (likely(raw->known && raw->epoch == epoch &&
		   !memcmp(raw->mac, mac, FRAME_MAC)))
		return;
	key_of(mac, key);
	memcpy(one, key, sizeof(one));
	key_of(NULL, key);
	memcpy(all, key, sizeof(all));
	memset(raw->members, 0, sizeof(raw->members));
	for (uint32_t n = 0; n < SOFT_NODES; n++)
		if (soft_groups_has(dev, n, one) ||
		    soft_groups_has(dev, n, all))
			raw->members[n / 64] |= 1ull << n % 64;
	memcpy(raw->mac, mac, FRAME_MAC);
	raw->epoch = epoch;
	raw->known = true;
}

/* ---- specs ------------------------------------------------------------ */

static uint32_t size_of(enum ibv_flow_spec_type type)
{
	switch (type) {
	case IBV_FLOW_SPEC_ETH:
		return sizeof(struct ibv_flow_spec_eth);
	case IBV_FLOW_SPEC_IPV4:
		return sizeof(struct ibv_flow_spec_ipv4);
	case IBV_FLOW_SPEC_IPV4_EXT:
		return sizeof(struct ibv_flow_spec_ipv4_ext);
	case IBV_FLOW_SPEC_IPV6:
		return sizeof(struct ibv_flow_spec_ipv6);
	case IBV_FLOW_SPEC_TCP:
	case IBV_FLOW_SPEC_UDP:
		return sizeof(struct ibv_flow_spec_tcp_udp);
	default:
		return 0;
	}
}

/* Reads the spec at *at, and moves behind it. */
static struct ibv_flow_spec next_spec(const uint8_t **at)
{
	struct ibv_flow_spec s;

	memset(&s, 0, sizeof(s));
	memcpy(&s.hdr, *at, sizeof(s.hdr));
	memcpy(&s, *at, min((size_t)s.hdr.size, sizeof(s)));
	*at += s.hdr.size;
	return s;
}

/* Returns 0 or an errno, and the bytes of all specs. */
static int check_specs(const struct ibv_flow_attr *a, uint32_t *ret)
{
	const uint8_t *from = (const uint8_t *)(a + 1), *at = from;

	for (uint8_t i = 0; i < a->num_of_specs; i++) {
		struct ibv_flow_spec s;
		uint32_t size;

		memcpy(&s.hdr, at, sizeof(s.hdr));
		size = size_of(s.hdr.type);
		/* tunnels, ESP and actions */
		if (!size)
			return EOPNOTSUPP;
		if (s.hdr.size != size)
			return EINVAL;
		at += size;
	}
	*ret = (uint32_t)(at - from);
	return 0;
}

/* `masked` and `mask` have the layout of the value that programs write. */
static bool same(const void *have, const void *want, const void *mask,
		 size_t len)
{
	const uint8_t *h = have, *w = want, *m = mask;

	for (size_t i = 0; i < len; i++)
		if ((h[i] ^ w[i]) & m[i])
			return false;
	return true;
}

static bool is_eth(const struct soft_frame *f, const struct ibv_flow_spec *s)
{
	struct ibv_flow_eth_filter have = { .vlan_tag = htobe16(f->tci) };

	memcpy(have.dst_mac, f->at, FRAME_MAC);
	memcpy(have.src_mac, f->at + FRAME_MAC, FRAME_MAC);
	have.ether_type = htobe16(f->type);
	if (s->eth.mask.vlan_tag && !f->tagged)
		return false;
	return same(&have, &s->eth.val, &s->eth.mask, sizeof(have));
}

static bool is_ipv4(const struct soft_frame *f, const struct ibv_flow_spec *s)
{
	struct ibv_flow_ipv4_ext_filter have = { .src_ip = 0 };

	if (f->ip != 4)
		return false;
	memcpy(&have.src_ip, f->l3 + 12, 4);
	memcpy(&have.dst_ip, f->l3 + 16, 4);
	have.proto = f->proto;
	have.tos = f->l3[1];
	have.ttl = f->l3[8];
	have.flags = f->l3[6] >> 5;
	return s->hdr.type == IBV_FLOW_SPEC_IPV4 ?
	       same(&have, &s->ipv4.val, &s->ipv4.mask, sizeof(s->ipv4.val)) :
	       same(&have, &s->ipv4_ext.val, &s->ipv4_ext.mask, sizeof(have));
}

static bool is_ipv6(const struct soft_frame *f, const struct ibv_flow_spec *s)
{
	struct ibv_flow_ipv6_filter have;
	uint32_t first;

	if (f->ip != 6)
		return false;
	memset(&have, 0, sizeof(have));
	memcpy(&first, f->l3, sizeof(first));
	first = be32toh(first);
	memcpy(have.src_ip, f->l3 + 8, 16);
	memcpy(have.dst_ip, f->l3 + 24, 16);
	have.flow_label = htobe32(first & 0xfffff);
	have.next_hdr = f->proto;
	have.traffic_class = (uint8_t)(first >> 20);
	have.hop_limit = f->l3[7];
	return same(&have, &s->ipv6.val, &s->ipv6.mask,
		    offsetof(struct ibv_flow_ipv6_filter, hop_limit) + 1);
}

static bool is_l4(const struct soft_frame *f, const struct ibv_flow_spec *s)
{
	struct ibv_flow_tcp_udp_filter have;

	if (!f->l4 || f->proto != (s->hdr.type == IBV_FLOW_SPEC_TCP ?
				   FRAME_TCP : FRAME_UDP))
		return false;
	memcpy(&have.src_port, f->l4, 2);
	memcpy(&have.dst_port, f->l4 + 2, 2);
	return same(&have, &s->tcp_udp.val, &s->tcp_udp.mask, sizeof(have));
}

static bool matches(const struct soft_flow *flow, const struct soft_frame *f)
{
	const uint8_t *at = flow->specs;

	for (uint8_t i = 0; i < flow->count; i++) {
		const struct ibv_flow_spec s = next_spec(&at);
		bool ok = s.hdr.type == IBV_FLOW_SPEC_ETH ? is_eth(f, &s) :
			  s.hdr.type == IBV_FLOW_SPEC_IPV6 ? is_ipv6(f, &s) :
			  s.hdr.type == IBV_FLOW_SPEC_TCP ||
			  s.hdr.type == IBV_FLOW_SPEC_UDP ? is_l4(f, &s) :
			  is_ipv4(f, &s);

		if (!ok)
			return false;
	}
	switch (flow->type) {
	case IBV_FLOW_ATTR_MC_DEFAULT:
		return f->at[0] & 1;
	default:
		return true;
	}
}

/* ---- matching --------------------------------------------------------- */

static bool same_rule(const struct soft_flow *a, const struct soft_flow *b)
{
	return a->type == b->type && a->priority == b->priority &&
	       a->bytes == b->bytes && !memcmp(a->specs, b->specs, a->bytes);
}

void soft_flow_match(struct soft_dev *dev, const uint8_t *frame, uint32_t len,
		     void (*take)(struct soft_dev *dev,
				  const struct soft_flow *flow,
				  const uint8_t *frame, uint32_t len))
{
	const struct soft_flow *first = NULL;
	struct soft_frame f;
	struct list *n;

	soft_frame_parse(&f, frame, len);
	list_for_each(n, &dev->flows) {
		const struct soft_flow *flow =
			list_entry(n, struct soft_flow, node);

		if (flow->type == IBV_FLOW_ATTR_SNIFFER) {
			take(dev, flow, frame, len);
			continue;
		}
		if (first ? !same_rule(first, flow) : !matches(flow, &f))
			continue;
		take(dev, flow, frame, len);
		if (!first)
			first = flow;
	}
}

/* ---- the calls -------------------------------------------------------- */

static int check(const struct ibv_qp *qp, const struct ibv_flow_attr *a,
		 uint32_t *ret_bytes)
{
	const struct soft_dev *dev = soft_dev_of(qp->context);

	/* Linux, core/uverbs_cmd.c, ib_uverbs_ex_create_flow() */
	if (qp->qp_type != IBV_QPT_RAW_PACKET)
		return qp->qp_type == IBV_QPT_UD ? EOPNOTSUPP : EINVAL;
	if (a->comp_mask || a->type > IBV_FLOW_ATTR_SNIFFER || !a->port ||
	    a->port > dev->ports)
		return EINVAL;
	if (a->flags)
		return EOPNOTSUPP;
	/* Linux, hw/mlx5/fs.c: the default rules have no specs */
	if (a->type != IBV_FLOW_ATTR_NORMAL && a->num_of_specs)
		return EINVAL;
	return check_specs(a, ret_bytes);
}

/* Normal rules, then those of multicast, then those of everything. */
static uint32_t rank(const struct soft_flow *f)
{
	uint32_t class = f->type == IBV_FLOW_ATTR_NORMAL ? 0 :
			 f->type == IBV_FLOW_ATTR_MC_DEFAULT ? 1 : 2;

	return class << 16 | f->priority;
}

static void insert(struct soft_dev *dev, struct soft_flow *flow)
{
	struct list *n;

	list_for_each(n, &dev->flows)
		if (rank(list_entry(n, struct soft_flow, node)) > rank(flow))
			break;
	list_add_tail(n, &flow->node);	/* before n */
}

/* The key of the group: of the one address that the rule names. */
static void find_key(const struct soft_flow *flow, uint8_t ret[16])
{
	static const uint8_t whole[FRAME_MAC] = { 255, 255, 255, 255, 255, 255 };
	const uint8_t *at = flow->specs;

	key_of(NULL, ret);
	for (uint8_t i = 0; i < flow->count; i++) {
		const struct ibv_flow_spec s = next_spec(&at);

		if (s.hdr.type == IBV_FLOW_SPEC_ETH &&
		    !memcmp(s.eth.mask.dst_mac, whole, FRAME_MAC))
			key_of(s.eth.val.dst_mac, ret);
	}
}

struct ibv_flow *soft_create_flow(struct ibv_qp *ibv,
				  struct ibv_flow_attr *attr)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_flow *flow;
	uint32_t bytes = 0;
	uint8_t key[16];
	int err = check(ibv, attr, &bytes);

	if (!err)
		err = soft_may_create(ibv->context, SOFT_OBJ_AH);
	if (err) {
		errno = err;
		return NULL;
	}
	flow = calloc(1, sizeof(*flow) + bytes);
	if (!flow)
		return NULL;
	flow->ibv.context = ibv->context;
	flow->qp = soft_qp(ibv);
	flow->type = attr->type;
	flow->priority = attr->priority;
	flow->port = attr->port;
	flow->count = attr->num_of_specs;
	flow->bytes = bytes;
	memcpy(flow->specs, attr + 1, bytes);
	find_key(flow, key);
	soft_lock(dev);
	flow->group = soft_group_get(dev, key);
	if (flow->group) {
		flow->group->flows++;
		flow->qp->groups++;
		flow->ibv.handle = ++dev->object_last;
		insert(dev, flow);
	}
	soft_unlock(dev);
	if (flow->group)
		return &flow->ibv;
	free(flow);
	errno = ENOMEM;
	return NULL;
}

int soft_destroy_flow(struct ibv_flow *ibv)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_flow *flow = (struct soft_flow *)ibv;

	soft_lock(dev);
	list_del(&flow->node);
	flow->qp->groups--;
	flow->group->flows--;
	soft_group_put(dev, flow->group);
	soft_unlock(dev);
	free(flow);
	return 0;
}
