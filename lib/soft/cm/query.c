/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands: queries of an id. They return addresses as GIDs (AF_IB), and the
 * path. query_route is the older command and uses sockaddr_in6.
 */
#include "soft/cm/id.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include <infiniband/ib.h>
#include <infiniband/sa.h>

#define PATH_RATE	IBV_RATE_100_GBPS
#define PATH_LIFETIME	14		/* about 67 ms */

/*
 * SOFT_CM_LISTEN > SOFT_CM_ROUTE, but a listener has no path. iWARP has none:
 * Linux, cma_resolve_iw_route().
 */
static bool has_path(const struct soft_cm_id *id)
{
	return id->state >= SOFT_CM_ROUTE && id->state != SOFT_CM_LISTEN &&
	       !id->file->dev->iwarp;
}

int soft_cm_query_gid(struct soft_cm_file *file,
		      const struct rdma_ucm_query *cmd,
		      struct rdma_ucm_query_addr_resp *resp)
{
	struct soft_cm_id *id;
	int ret = soft_cm_query_addr(file, cmd, resp);

	if (ret)
		return ret;
	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	if (id) {
		resp->src_size = resp->dst_size = sizeof(struct sockaddr_ib);
		soft_cm_to_ib(id, false, &resp->src_addr);
		soft_cm_to_ib(id, true, &resp->dst_addr);
	} else {
		ret = -EINVAL;
	}
	soft_unlock(file->dev);
	return ret;
}

int soft_cm_query_path(struct soft_cm_file *file,
		       const struct rdma_ucm_query *cmd,
		       struct rdma_ucm_query_path_resp *resp, size_t size)
{
	struct ibv_path_data path = {
		.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
			 IBV_PATH_FLAG_BIDIRECTIONAL,
		.path = {
			.flowlabel_hoplimit = htobe32(64),
			.reversible_numpath = IBV_PATH_RECORD_REVERSIBLE | 1,
			.mtu = 2 << 6 | IBV_MTU_4096,
			.rate = 2 << 6 | PATH_RATE,
			.packetlifetime = 2 << 6 | PATH_LIFETIME,
		},
	};
	struct soft_cm_id *id;
	int ret = 0;

	_Static_assert(sizeof(path) == sizeof(resp->path_data[0]), "one path");
	if (size < sizeof(*resp))
		return -ENOSPC;
	memset(resp, 0, sizeof(*resp));
	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	if (!id) {
		ret = -EINVAL;
	} else if (has_path(id) && size >= sizeof(*resp) + sizeof(path)) {
		soft_cm_gid(id, true, path.path.dgid.raw);
		soft_cm_gid(id, false, path.path.sgid.raw);
		path.path.pkey = htobe16(soft_pkey(file->dev, 1));
		memcpy(resp->path_data, &path, sizeof(path));
		resp->num_paths = 1;
	}
	soft_unlock(file->dev);
	return ret;
}

int soft_cm_query_route(struct soft_cm_file *file, uint32_t handle,
			struct rdma_ucm_query_route_resp *resp)
{
	const struct rdma_ucm_query cmd = { .id = handle };
	struct rdma_ucm_query_addr_resp addr;
	struct ib_user_path_rec *path = &resp->ib_route[0];
	struct soft_cm_id *id;
	int ret = soft_cm_query_addr(file, &cmd, &addr);

	if (ret)
		return ret;
	memset(resp, 0, sizeof(*resp));
	resp->node_guid = addr.node_guid;
	resp->port_num = addr.port_num;
	resp->ibdev_index = addr.ibdev_index;
	memcpy(&resp->src_addr, &addr.src_addr, sizeof(resp->src_addr));
	memcpy(&resp->dst_addr, &addr.dst_addr, sizeof(resp->dst_addr));
	soft_lock(file->dev);
	id = soft_cm_id_of(file, handle);
	/* librdmacm reads these GIDs even without a path */
	if (id) {
		soft_cm_gid(id, false, path->sgid);
		soft_cm_gid(id, true, path->dgid);
		path->pkey = htobe16(soft_pkey(file->dev, 1));
	}
	if (id && has_path(id)) {
		resp->num_paths = 1;
		path->reversible = path->numb_path = 1;
		path->hop_limit = 64;
		path->mtu_selector = path->rate_selector =
			path->packet_life_time_selector = 2;
		path->mtu = IBV_MTU_4096;
		path->rate = PATH_RATE;
		path->packet_life_time = PATH_LIFETIME;
	}
	soft_unlock(file->dev);
	return id ? 0 : -EINVAL;
}

/* A request that arrives before the RTU counts as RTU: Linux cm_establish(). */
int soft_cm_notify(struct soft_cm_file *file, const struct rdma_ucm_notify *cmd)
{
	struct soft_cm_id *id;
	int ret = 0;

	if (cmd->event != IBV_EVENT_COMM_EST)
		return -EINVAL;
	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	if (id && file->dev->iwarp) {
		ret = 0;	/* Linux, rdma_notify() */
	} else if (id && id->state == SOFT_CM_REP_SENT) {
		id->state = SOFT_CM_CONNECTED;
		soft_cm_raise(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	} else {
		ret = id && id->state == SOFT_CM_CONNECTED ? -EISCONN : -EINVAL;
	}
	soft_unlock(file->dev);
	return ret;
}
