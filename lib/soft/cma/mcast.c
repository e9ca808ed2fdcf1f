/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups. The JOIN event has MGID, MLID and Q_Key. The program
 * attaches the receiving queue pair.
 */
#include "soft/cma/cma.h"

#include <stdlib.h>
#include <string.h>

#include "soft/cma/calls.h"

static int join(struct cma_id *id, struct cma_mc *mc, uint16_t flags)
{
	struct rdma_ucm_join_mcast cmd = {
		.uid = (uintptr_t)mc, .id = id->handle, .join_flags = flags,
		.addr_size = cma_addr_len((struct sockaddr *)&mc->addr),
	};
	struct rdma_ucm_create_id_resp resp;
	int err;

	memcpy(&cmd.addr, &mc->addr, cmd.addr_size);
	err = soft_cm_join_mcast(cma_file(&id->rdma), &cmd, &resp);
	if (!err)
		mc->handle = resp.id;
	return err;
}

int soft_cma_join_multicast_ex(struct rdma_cm_id *rdma,
			       struct rdma_cm_join_mc_attr_ex *attr,
			       void *context)
{
	const uint32_t need = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
			      RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	struct cma_id *id = cma_id(rdma);
	struct cma_mc *mc;
	int err;

	if (attr->comp_mask != need ||
	    attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return cma_result(-EINVAL);
	mc = calloc(1, sizeof(*mc));
	if (!mc)
		return cma_result(-ENOMEM);
	mc->id = id;
	mc->context = context;
	memcpy(&mc->addr, attr->addr, cma_addr_len(attr->addr));
	/* another thread may read the event before join() returns */
	(void)pthread_mutex_lock(&id->lock);
	err = join(id, mc, (uint16_t)attr->join_flags);
	if (err)
		free(mc);
	else
		list_add_tail(&id->groups, &mc->node);
	(void)pthread_mutex_unlock(&id->lock);
	return cma_result(err);
}

int soft_cma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr,
			    void *context)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
			     RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER, .addr = addr,
	};

	return soft_cma_join_multicast_ex(id, &attr, context);
}

static struct cma_mc *take(struct cma_id *id, const struct sockaddr *addr)
{
	struct cma_mc *found = NULL;
	struct list *n;

	(void)pthread_mutex_lock(&id->lock);
	list_for_each(n, &id->groups) {
		struct cma_mc *mc = list_entry(n, struct cma_mc, node);

		if (!found && !memcmp(&mc->addr, addr, cma_addr_len(addr)))
			found = mc;
	}
	if (found)
		list_del(&found->node);
	(void)pthread_mutex_unlock(&id->lock);
	return found;
}

int soft_cma_leave_multicast(struct rdma_cm_id *rdma, struct sockaddr *addr)
{
	struct cma_id *id = cma_id(rdma);
	struct cma_mc *mc = take(id, addr);
	struct rdma_ucm_destroy_id_resp resp = { 0 };
	struct rdma_ucm_destroy_id cmd = { 0 };
	int err;

	if (!mc)
		return cma_result(-EADDRNOTAVAIL);
	cmd.id = mc->handle;
	err = soft_cm_leave_mcast(cma_file(rdma), &cmd, &resp);
	cma_wait_acks(id, &mc->acked, resp.events_reported);
	free(mc);
	return cma_result(err);
}

/* Frees the groups of a destroyed id, whose events are acknowledged. */
void cma_forget_groups(struct cma_id *id)
{
	while (!list_empty(&id->groups)) {
		struct cma_mc *mc = list_first(&id->groups, struct cma_mc,
					       node);

		list_del(&mc->node);
		free(mc);
	}
}
