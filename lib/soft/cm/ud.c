/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram ids: service lookup (SIDR) and multicast joins. The events carry the
 * data of an address handle. To receive from a group, the program attaches its
 * queue pair, as librdmacm does.
 */
#include "soft/cm/id.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/ib.h>

#include "soft/fabric/gid.h"
#include "soft/fabric/groups.h"
#include "soft/fabric/limits.h"
#include "soft/fabric/sockaddr.h"
#include "soft/fabric/wire.h"

#define MLID_FIRST	0xc001
#define MLID_COUNT	0x3ffe
#define IPOIB_QKEY	0x0b1bu		/* for IPoIB groups */
#define HOPS		64

bool soft_cm_is_ud(const struct soft_cm_id *id)
{
	return id->qp_type == IBV_QPT_UD;
}

uint32_t soft_cm_qkey(const struct soft_cm_id *id)
{
	return id->ps == RDMA_PS_IPOIB ? IPOIB_QKEY : RDMA_UDP_QKEY;
}

/*
 * Returns our GID or the peer's. On InfiniBand the GID of the peer needs a
 * wire.
 */
void soft_cm_gid(const struct soft_cm_id *id, bool peer, uint8_t gid[16])
{
	const struct soft_dev *dev = id->file->dev;

	const struct sockaddr_storage *addr = peer ? &id->dst : &id->src;

	if (!soft_is_ib(dev) || (id->ib && addr->ss_family &&
				 !soft_addr_is_any(addr)))
		soft_addr_to_gid(addr, gid);
	else
		soft_ib_gid(dev, peer && id->wire ? id->wire->peer : dev->node,
			    1, gid);
}

/* If the table lacks the address, returns a GID of the same family. */
static uint8_t sgid_index(const struct soft_cm_id *id)
{
	struct soft_dev *dev = id->file->dev;
	uint8_t gid[16];
	int index;

	soft_cm_gid(id, false, gid);
	index = soft_gid_index(dev, 1, gid);
	if (index < 0) {
		soft_gids_read(dev);
		index = soft_gid_index(dev, 1, gid);
	}
	return (uint8_t)(index < 0 ? !soft_gid_v4(gid) : index);
}

/* Fills in the address of the peer. */
void soft_cm_ah(const struct soft_cm_id *id, struct ib_uverbs_ah_attr *ah)
{
	const struct soft_dev *dev = id->file->dev;
	uint32_t node = id->wire ? id->wire->peer : dev->node;

	memset(ah, 0, sizeof(*ah));
	ah->port_num = 1;
	ah->grh.hop_limit = HOPS;
	soft_cm_gid(id, true, ah->grh.dgid);
	if (soft_is_ib(dev)) {
		/* the LID suffices in one subnet */
		ah->dlid = soft_lid(dev, node, 1);
		return;
	}
	ah->is_global = 1;
	ah->grh.sgid_index = sgid_index(id);
}

/* ---- services --------------------------------------------------------- */

void soft_cm_fill_ud(struct soft_cm_event *ev, const struct soft_cm_id *id,
		     const struct soft_cm_msg *m, size_t private_len)
{
	struct rdma_ucm_ud_param *ud = &ev->resp.param.ud;

	memset(ud, 0, sizeof(*ud));
	memcpy(ud->private_data, m->param.private_data,
	       min(m->param.private_data_len, private_len));
	ud->private_data_len = (uint8_t)private_len;
	ud->qp_num = m->param.qp_num & 0xffffff;
	ud->qkey = m->param.qkey;
	soft_cm_ah(id, &ud->ah_attr);
}

/* ---- groups ----------------------------------------------------------- */

/* Maps an IP group to an MGID: Linux ip_ib_mc_map(), ipv6_ib_mc_map(). */
static void ip_to_mgid(const struct soft_cm_id *id,
		       const struct sockaddr_storage *addr, uint8_t mgid[16])
{
	static const uint8_t v4[6] = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff };
	static const uint8_t v6[6] = { 0xff, 0x12, 0x60, 0x1b, 0xff, 0xff };
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
	uint32_t ip;

	memset(mgid, 0, 16);
	if (addr->ss_family == AF_INET6) {
		/* the subnet administrator has assigned this MGID */
		if (in6->sin6_addr.s6_addr[0] == 0xff &&
		    in6->sin6_addr.s6_addr[2] == 0xa0 &&
		    in6->sin6_addr.s6_addr[3] == 0x1b) {
			memcpy(mgid, &in6->sin6_addr, 16);
			return;
		}
		memcpy(mgid, v6, sizeof(v6));
		memcpy(mgid + 6, in6->sin6_addr.s6_addr + 6, 10);
	} else {
		memcpy(mgid, v4, sizeof(v4));
		ip = ((const struct sockaddr_in *)addr)->sin_addr.s_addr &
		     htobe32(0x0fffffff);
		memcpy(mgid + 12, &ip, 4);
	}
	/* a group of the connection manager, not of IPoIB */
	if (id->ps == RDMA_PS_UDP)
		mgid[3] = 0x01;
}

/* Makes a new MGID for a join to the wildcard address. */
static void new_mgid(struct soft_dev *dev, uint8_t mgid[16])
{
	static const uint8_t head[6] = { 0xff, 0x12, 0xa0, 0x1b, 0xfe, 0x80 };
	uint64_t tail = htobe64(dev->guid + ((uint64_t)dev->cm_mc_last << 16));

	memset(mgid, 0, 16);
	memcpy(mgid, head, sizeof(head));
	memcpy(mgid + 8, &tail, 8);
}

static int to_mgid(const struct soft_cm_id *id,
		   const struct sockaddr_storage *addr, uint8_t mgid[16])
{
	struct soft_dev *dev = id->file->dev;

	if (addr->ss_family == AF_IB) {
		memcpy(mgid, &((const struct sockaddr_ib *)addr)->sib_addr,
		       16);
		return soft_is_ib(dev) && soft_gid_mcast(mgid) ? 0 : -EINVAL;
	}
	if (soft_addr_is_any(addr)) {
		if (!soft_is_ib(dev))
			return -EINVAL;
		new_mgid(dev, mgid);
		return 0;
	}
	soft_addr_to_gid(addr, mgid);
	if (!soft_gid_mcast(mgid))
		return -EINVAL;
	if (soft_is_ib(dev))
		ip_to_mgid(id, addr, mgid);
	return 0;
}

uint16_t soft_cm_mlid(const uint8_t mgid[16])
{
	uint32_t h = 2166136261u;

	for (int i = 0; i < 16; i++)
		h = (h ^ mgid[i]) * 16777619u;
	return (uint16_t)(MLID_FIRST + h % MLID_COUNT);
}

/*
 * Notes the group of an IP address, so that members on two link layers are
 * refused. A group without an IP address belongs to one link layer.
 */
static int note_join(struct soft_cm_id *id, struct soft_cm_mc *mc,
		     const struct sockaddr_storage *addr)
{
	uint8_t ip[16];

	if (addr->ss_family == AF_IB || soft_addr_is_any(addr))
		return 0;
	soft_addr_to_gid(addr, ip);
	return soft_groups_join(id->file->dev, ip, &mc->slot);
}

/* status: 0, or -EPROTOTYPE if the group has members on another link layer */
static int tell_joined(struct soft_cm_id *id, const struct soft_cm_mc *mc,
		       int status)
{
	struct soft_dev *dev = id->file->dev;
	struct soft_cm_event *ev =
		soft_cm_event_new(id, status ? RDMA_CM_EVENT_MULTICAST_ERROR :
				  RDMA_CM_EVENT_MULTICAST_JOIN, status);
	struct rdma_ucm_ud_param *ud;

	if (!ev)
		return -ENOMEM;
	ud = &ev->resp.param.ud;
	ev->mc = mc->handle;
	ev->resp.uid = mc->uid;
	ev->resp.id = mc->handle;
	ud->qp_num = SOFT_QPN_MCAST;
	ud->qkey = soft_cm_qkey(id);
	ud->ah_attr.is_global = 1;
	ud->ah_attr.port_num = 1;
	ud->ah_attr.grh.hop_limit = 1;
	memcpy(ud->ah_attr.grh.dgid, mc->mgid, 16);
	if (soft_is_ib(dev))
		ud->ah_attr.dlid = soft_cm_mlid(mc->mgid);
	else
		ud->ah_attr.grh.sgid_index = sgid_index(id);
	soft_cm_event_post(id, ev);
	return 0;
}

static int join(struct soft_cm_file *file, uint32_t handle, uint64_t uid,
		const struct sockaddr_storage *addr,
		struct rdma_ucm_create_id_resp *resp)
{
	struct soft_dev *dev = file->dev;
	struct soft_cm_mc *mc = calloc(1, sizeof(*mc));
	struct soft_cm_id *id;
	int ret = -EINVAL;

	if (!mc)
		return -ENOMEM;
	list_init(&mc->node);
	mc->slot = -1;
	soft_lock(dev);
	id = soft_cm_id_of(file, handle);
	if (id && dev->iwarp) {
		ret = -ENOSYS;	/* Linux, rdma_join_multicast() */
		goto out;
	}
	if (!id || !soft_cm_is_ud(id) || !soft_cm_on_device(id) ||
	    (id->state != SOFT_CM_BOUND && id->state != SOFT_CM_ADDR))
		goto out;
	ret = to_mgid(id, addr, mc->mgid);
	if (ret)
		goto out;
	mc->handle = ++dev->cm_mc_last;
	mc->id = id;
	mc->uid = uid;
	ret = tell_joined(id, mc, note_join(id, mc, addr));
	if (ret) {
		soft_groups_leave(dev, mc->slot);
		goto out;
	}
	list_add_tail(&dev->cm_mcs, &mc->node);
	resp->id = mc->handle;
	mc = NULL;
out:
	soft_unlock(dev);
	free(mc);
	return ret;
}

/* Copies the address of a group. An AF_IB address is the MGID itself. */
static int copy_group(struct sockaddr_storage *dst, const void *src,
		      size_t len)
{
	struct sockaddr_ib ib;

	if (len < sizeof(ib) || ((const struct sockaddr_storage *)src)
				->ss_family != AF_IB)
		return soft_cm_copy_addr(dst, src, len);
	memcpy(&ib, src, sizeof(ib));
	memset(dst, 0, sizeof(*dst));
	memcpy(dst, &ib, sizeof(ib));
	return 0;
}

/* A send-only member differs only in not attaching its queue pair. */
int soft_cm_join_mcast(struct soft_cm_file *file,
		       const struct rdma_ucm_join_mcast *cmd,
		       struct rdma_ucm_create_id_resp *resp)
{
	struct sockaddr_storage addr;
	int ret = copy_group(&addr, &cmd->addr, cmd->addr_size);

	if (!ret && cmd->join_flags != RDMA_MC_JOIN_FLAG_FULLMEMBER &&
	    cmd->join_flags != RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER)
		ret = -EINVAL;
	return ret ? ret : join(file, cmd->id, cmd->uid, &addr, resp);
}

int soft_cm_join_ip_mcast(struct soft_cm_file *file,
			  const struct rdma_ucm_join_ip_mcast *cmd,
			  struct rdma_ucm_create_id_resp *resp)
{
	struct sockaddr_storage addr;
	int ret = soft_cm_copy_addr(&addr, &cmd->addr, sizeof(cmd->addr));

	return ret ? ret : join(file, cmd->id, cmd->uid, &addr, resp);
}

struct soft_cm_mc *soft_cm_mc_find(struct soft_dev *dev, uint32_t handle)
{
	struct list *n;

	list_for_each(n, &dev->cm_mcs) {
		struct soft_cm_mc *mc = list_entry(n, struct soft_cm_mc, node);

		if (mc->handle == handle)
			return mc;
	}
	return NULL;
}

static void mc_free(struct soft_cm_mc *mc)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &mc->id->file->events) {
		struct soft_cm_event *ev = list_entry(n, struct soft_cm_event,
						      node);

		if (ev->mc != mc->handle)
			continue;
		list_del(n);
		free(ev);
		soft_cm_uncount(mc->id->file);
	}
	soft_groups_leave(mc->id->file->dev, mc->slot);
	list_del(&mc->node);
	free(mc);
}

void soft_cm_leave_all(struct soft_cm_id *id)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &id->file->dev->cm_mcs) {
		struct soft_cm_mc *mc = list_entry(n, struct soft_cm_mc, node);

		if (mc->id == id)
			mc_free(mc);
	}
}

int soft_cm_leave_mcast(struct soft_cm_file *file,
			const struct rdma_ucm_destroy_id *cmd,
			struct rdma_ucm_destroy_id_resp *resp)
{
	struct soft_cm_mc *mc;
	int ret = -EINVAL;

	soft_lock(file->dev);
	mc = soft_cm_mc_find(file->dev, cmd->id);
	if (mc && mc->id->file == file) {
		resp->events_reported = mc->events_reported;
		mc_free(mc);
		ret = 0;
	}
	soft_unlock(file->dev);
	return ret;
}
