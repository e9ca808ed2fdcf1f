/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids of the kernel's connection manager, and their addresses. */
#include "device/ucm.h"

#include <errno.h>
#include <infiniband/ib.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND_MAX	512

int rdmamsg__ucm_command(const struct rdma_event_channel *channel, uint32_t cmd,
			 const void *in, size_t in_len, size_t out_len)
{
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		uint8_t data[COMMAND_MAX];
	} req = {
		.hdr = {
			.cmd = cmd, .in = (uint16_t)in_len,
			.out = (uint16_t)out_len,
		},
	};
	ssize_t len = (ssize_t)(sizeof(req.hdr) + in_len), n;

	memcpy(req.data, in, in_len);
	n = write(channel->fd, &req, (size_t)len);
	if (n == len)
		return 0;
	if (n >= 0)
		errno = ENODATA;
	return -1;
}

/* ---- ids -------------------------------------------------------------- */

struct ucm_id *rdmamsg__ucm_id_new(struct rdma_event_channel *channel,
				   void *context, enum rdma_port_space ps)
{
	struct ucm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->rdma.channel = channel;
	id->rdma.context = context;
	id->rdma.ps = ps;
	id->rdma.qp_type = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ?
			   IBV_QPT_UD : IBV_QPT_RC;
	list_init(&id->groups);
	return id;
}

void rdmamsg__ucm_id_free(struct ucm_id *id)
{
	rdmamsg__ucm_forget_groups(id);
	free(id);
}

int rdmamsg__ucm_create_id(struct rdma_event_channel *channel,
			   struct rdma_cm_id **ret, void *context,
			   enum rdma_port_space ps)
{
	struct ucm_id *id = rdmamsg__ucm_id_new(channel, context, ps);
	struct rdma_ucm_create_id_resp resp = { .id = 0 };
	const struct rdma_ucm_create_id cmd = {
		.uid = (uintptr_t)id, .response = (uintptr_t)&resp,
		.ps = (uint16_t)ps, .qp_type = (uint8_t)(id ?
				id->rdma.qp_type : IBV_QPT_RC),
	};

	if (!id) {
		errno = ENOMEM;
		return -1;
	}
	if (rdmamsg__ucm_command(channel, RDMA_USER_CM_CMD_CREATE_ID, &cmd,
				 sizeof(cmd), sizeof(resp))) {
		rdmamsg__ucm_id_free(id);
		return -1;
	}
	id->handle = resp.id;
	*ret = &id->rdma;
	return 0;
}

int rdmamsg__ucm_destroy_handle(const struct rdma_event_channel *channel,
				uint32_t handle)
{
	struct rdma_ucm_destroy_id_resp resp = { .events_reported = 0 };
	const struct rdma_ucm_destroy_id cmd = {
		.id = handle, .response = (uintptr_t)&resp,
	};

	return rdmamsg__ucm_command(channel, RDMA_USER_CM_CMD_DESTROY_ID, &cmd,
				    sizeof(cmd), sizeof(resp));
}

/*
 * Ids that the kernel has refused to destroy. Its events still point to them.
 */
static _Atomic(struct ucm_id *) kept;

int rdmamsg__ucm_destroy_id(struct rdma_cm_id *id)
{
	if (!rdmamsg__ucm_destroy_handle(id->channel, ucm_id(id)->handle)) {
		rdmamsg__ucm_id_free(ucm_id(id));
		return 0;
	}
	ucm_id(id)->next_kept = atomic_exchange(&kept, ucm_id(id));
	return -1;
}

/*
 * Moves the id with its events. The kernel sends the events to the thread of
 * the other channel at once. So change id->channel before the command.
 */
int rdmamsg__ucm_migrate_id(struct rdma_cm_id *id,
			    struct rdma_event_channel *channel)
{
	struct rdma_ucm_migrate_resp resp = { .events_reported = 0 };
	struct rdma_event_channel *from = id->channel;
	const struct rdma_ucm_migrate_id cmd = {
		.id = ucm_id(id)->handle, .response = (uintptr_t)&resp,
		.fd = (uint32_t)from->fd,
	};

	id->channel = channel;
	if (!rdmamsg__ucm_command(channel, RDMA_USER_CM_CMD_MIGRATE_ID, &cmd,
				  sizeof(cmd), sizeof(resp)))
		return 0;
	id->channel = from;
	return -1;
}

int rdmamsg__ucm_set_option(struct rdma_cm_id *id, int level, int optname,
			    void *optval, size_t optlen)
{
	const struct rdma_ucm_set_option cmd = {
		.optval = (uintptr_t)optval, .id = ucm_id(id)->handle,
		.level = (uint32_t)level, .optname = (uint32_t)optname,
		.optlen = (uint32_t)optlen,
	};

	return rdmamsg__ucm_command(id->channel, RDMA_USER_CM_CMD_SET_OPTION,
				    &cmd, sizeof(cmd), 0);
}

/* ---- addresses -------------------------------------------------------- */

size_t rdmamsg__ucm_addr_len(const struct sockaddr *addr)
{
	switch (addr->sa_family) {
	case AF_IB:
		return sizeof(struct sockaddr_ib);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return sizeof(struct sockaddr_in);
	}
}

static int query(struct rdma_cm_id *id, uint32_t what,
		 struct rdma_ucm_query_addr_resp *resp)
{
	const struct rdma_ucm_query cmd = {
		.response = (uintptr_t)resp, .id = ucm_id(id)->handle,
		.option = what,
	};

	memset(resp, 0, sizeof(*resp));
	/* kernels before 5.9 do not report the index */
	resp->ibdev_index = UCM_NO_INDEX;
	return rdmamsg__ucm_command(id->channel, RDMA_USER_CM_CMD_QUERY, &cmd,
				    sizeof(cmd), sizeof(*resp));
}

static int update_gids(struct rdma_cm_id *id)
{
	struct rdma_ib_addr *ib = &id->route.addr.addr.ibaddr;
	struct rdma_ucm_query_addr_resp resp;
	struct sockaddr_ib src, dst;

	if (query(id, RDMA_USER_CM_QUERY_GID, &resp))
		return -1;
	memcpy(&src, &resp.src_addr, sizeof(src));
	memcpy(&dst, &resp.dst_addr, sizeof(dst));
	memcpy(&ib->sgid, &src.sib_addr, sizeof(ib->sgid));
	memcpy(&ib->dgid, &dst.sib_addr, sizeof(ib->dgid));
	ib->pkey = resp.pkey;
	return 0;
}

static int take_device(struct ucm_id *id,
		       const struct rdma_ucm_query_addr_resp *resp)
{
	int err = rdmamsg__ucm_find_device(resp->ibdev_index, resp->node_guid,
					   &id->device);

	if (err) {
		errno = -err;
		return -1;
	}
	id->bound = true;
	id->rdma.port_num = resp->port_num;
	return 0;
}

int rdmamsg__ucm_update(struct rdma_cm_id *id)
{
	struct rdma_ucm_query_addr_resp resp;

	if (query(id, RDMA_USER_CM_QUERY_ADDR, &resp))
		return -1;
	memcpy(&id->route.addr.src_storage, &resp.src_addr,
	       sizeof(id->route.addr.src_storage));
	memcpy(&id->route.addr.dst_storage, &resp.dst_addr,
	       sizeof(id->route.addr.dst_storage));
	if (!resp.node_guid)
		return 0;
	if (!ucm_id(id)->bound && take_device(ucm_id(id), &resp))
		return -1;
	return update_gids(id);
}

int rdmamsg__ucm_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct rdma_ucm_bind cmd = {
		.id = ucm_id(id)->handle,
		.addr_size = (uint16_t)rdmamsg__ucm_addr_len(addr),
	};

	memcpy(&cmd.addr, addr, cmd.addr_size);
	if (rdmamsg__ucm_command(id->channel, RDMA_USER_CM_CMD_BIND, &cmd,
				 sizeof(cmd), 0))
		return -1;
	return rdmamsg__ucm_update(id);
}

int rdmamsg__ucm_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
			      struct sockaddr *dst, int timeout_ms)
{
	struct rdma_ucm_resolve_addr cmd = {
		.id = ucm_id(id)->handle, .timeout_ms = (uint32_t)timeout_ms,
		.dst_size = (uint16_t)rdmamsg__ucm_addr_len(dst),
	};

	memcpy(&cmd.dst_addr, dst, cmd.dst_size);
	if (src) {
		cmd.src_size = (uint16_t)rdmamsg__ucm_addr_len(src);
		memcpy(&cmd.src_addr, src, cmd.src_size);
	}
	memcpy(&id->route.addr.dst_storage, dst, cmd.dst_size);
	return rdmamsg__ucm_command(id->channel, RDMA_USER_CM_CMD_RESOLVE_ADDR,
				    &cmd, sizeof(cmd), 0);
}

int rdmamsg__ucm_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	const struct rdma_ucm_resolve_route cmd = {
		.id = ucm_id(id)->handle, .timeout_ms = (uint32_t)timeout_ms,
	};

	return rdmamsg__ucm_command(id->channel, RDMA_USER_CM_CMD_RESOLVE_ROUTE,
				    &cmd, sizeof(cmd), 0);
}

int rdmamsg__ucm_listen(struct rdma_cm_id *id, int backlog)
{
	const struct rdma_ucm_listen cmd = {
		.id = ucm_id(id)->handle, .backlog = (uint32_t)backlog,
	};

	if (rdmamsg__ucm_command(id->channel, RDMA_USER_CM_CMD_LISTEN, &cmd,
				 sizeof(cmd), 0))
		return -1;
	return rdmamsg__ucm_update(id);
}

__be16 rdmamsg__ucm_get_src_port(struct rdma_cm_id *id)
{
	/* sin_port and sin6_port have the same offset */
	return id->route.addr.src_sin.sin_port;
}

bool rdmamsg__ucm_id_device(struct rdma_cm_id *id, struct id_device *ret)
{
	if (ucm_id(id)->bound)
		*ret = ucm_id(id)->device;
	return ucm_id(id)->bound;
}
