/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups of the kernel's connection manager. The event brings MGID,
 * MLID and Q_Key. The caller attaches the queue pair.
 */
#include "device/ucm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int join(struct ucm_group *group, uint16_t flags)
{
	const struct sockaddr *addr = (struct sockaddr *)&group->addr;
	struct rdma_ucm_create_id_resp resp = { .id = 0 };
	struct rdma_ucm_join_mcast cmd = {
		.response = (uintptr_t)&resp, .uid = (uintptr_t)group,
		.id = group->id->handle, .join_flags = flags,
		.addr_size = (uint16_t)rdmamsg__ucm_addr_len(addr),
	};

	memcpy(&cmd.addr, addr, cmd.addr_size);
	if (rdmamsg__ucm_command(group->id->rdma.channel,
				 RDMA_USER_CM_CMD_JOIN_MCAST, &cmd, sizeof(cmd),
				 sizeof(resp)))
		return -1;
	group->handle = resp.id;
	return 0;
}

int rdmamsg__ucm_join_multicast(struct rdma_cm_id *id,
				struct rdma_cm_join_mc_attr_ex *attr,
				void *context)
{
	const uint32_t need = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
			      RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	struct ucm_group *group;

	if (attr->comp_mask != need ||
	    attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) {
		errno = EINVAL;
		return -1;
	}
	group = calloc(1, sizeof(*group));
	if (!group) {
		errno = ENOMEM;
		return -1;
	}
	group->id = ucm_id(id);
	group->context = context;
	memcpy(&group->addr, attr->addr, rdmamsg__ucm_addr_len(attr->addr));
	if (join(group, (uint16_t)attr->join_flags)) {
		free(group);
		return -1;
	}
	list_add_tail(&ucm_id(id)->groups, &group->node);
	return 0;
}

static struct ucm_group *find(struct ucm_id *id, const struct sockaddr *addr)
{
	struct list *n;

	list_for_each(n, &id->groups) {
		struct ucm_group *group = list_entry(n, struct ucm_group, node);

		if (!memcmp(&group->addr, addr, rdmamsg__ucm_addr_len(addr)))
			return group;
	}
	return NULL;
}

static void group_free(struct ucm_group *group)
{
	list_del(&group->node);
	free(group);
}

int rdmamsg__ucm_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct rdma_ucm_destroy_id_resp resp = { .events_reported = 0 };
	struct rdma_ucm_destroy_id cmd = { .response = (uintptr_t)&resp };
	struct ucm_group *group = find(ucm_id(id), addr);
	int ret;

	if (!group) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	cmd.id = group->handle;
	ret = rdmamsg__ucm_command(id->channel, RDMA_USER_CM_CMD_LEAVE_MCAST,
				   &cmd, sizeof(cmd), sizeof(resp));
	if (!ret)
		group_free(group);
	return ret;
}

void rdmamsg__ucm_forget_groups(struct ucm_id *id)
{
	while (!list_empty(&id->groups))
		group_free(list_first(&id->groups, struct ucm_group, node));
}
