/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm's asynchronous calls over the commands of cm/cm.h. The program
 * makes the queue pairs. There is no synchronous mode. Programs that need it
 * use the real librdmacm above preload/.
 */
#include "soft/cma/cma.h"

#include <stdlib.h>
#include <string.h>

#include <infiniband/ib.h>

#include "soft/cma/calls.h"
#include "soft/fabric/limits.h"

/* ---- channels and ids ------------------------------------------------- */

struct rdma_event_channel *soft_cma_channel_new(void)
{
	struct cma_channel *ch = calloc(1, sizeof(*ch));
	int err;

	if (!ch)
		return NULL;
	if (!cma_verbs_get())
		goto err_ch;
	err = soft_cm_open(&ch->file);
	if (err) {
		errno = -err;
		goto err_verbs;
	}
	ch->rdma.fd = ch->file->fd;
	return &ch->rdma;

err_verbs:
	err = errno;
	cma_verbs_put();
	errno = err;
err_ch:
	free(ch);
	return NULL;
}

void soft_cma_destroy_event_channel(struct rdma_event_channel *channel)
{
	soft_cm_close(((struct cma_channel *)channel)->file);
	cma_verbs_put();
	free(channel);
}

struct cma_id *cma_id_new(struct rdma_event_channel *channel, void *context,
			     enum rdma_port_space ps)
{
	struct cma_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->rdma.channel = channel;
	id->rdma.context = context;
	id->rdma.ps = ps;
	id->rdma.qp_type = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ?
			   IBV_QPT_UD : IBV_QPT_RC;
	list_init(&id->groups);
	(void)pthread_mutex_init(&id->lock, NULL);
	(void)pthread_cond_init(&id->cond, NULL);
	return id;
}

void cma_id_free(struct cma_id *id)
{
	cma_verbs_let_go(id);
	(void)pthread_cond_destroy(&id->cond);
	(void)pthread_mutex_destroy(&id->lock);
	free(id);
}

int soft_cma_create_id(struct rdma_event_channel *channel,
		       struct rdma_cm_id **ret, void *context,
		       enum rdma_port_space ps)
{
	struct rdma_ucm_create_id cmd = {
		.ps = (uint16_t)ps, .qp_type = IBV_QPT_RC,
	};
	struct rdma_ucm_create_id_resp resp;
	struct cma_id *id;
	int err;

	if (!channel)
		return cma_result(-EOPNOTSUPP);
	id = cma_id_new(channel, context, ps);
	if (!id)
		return cma_result(-ENOMEM);
	cmd.uid = (uintptr_t)id;
	err = soft_cm_create_id(cma_file(&id->rdma), &cmd, &resp);
	if (err) {
		cma_id_free(id);
		return cma_result(err);
	}
	id->handle = resp.id;
	*ret = &id->rdma;
	return 0;
}

void cma_wait_acks(struct cma_id *id, const uint32_t *acked, uint32_t events)
{
	(void)pthread_mutex_lock(&id->lock);
	while (*acked < events)
		(void)pthread_cond_wait(&id->cond, &id->lock);
	(void)pthread_mutex_unlock(&id->lock);
}

int soft_cma_destroy_id(struct rdma_cm_id *rdma)
{
	struct cma_id *id = cma_id(rdma);
	const struct rdma_ucm_destroy_id cmd = { .id = id->handle };
	struct rdma_ucm_destroy_id_resp resp = { 0 };
	int err = soft_cm_destroy_id(cma_file(rdma), &cmd, &resp);

	if (err)
		return cma_result(err);
	cma_wait_acks(id, &id->acked, resp.events_reported);
	cma_forget_groups(id);
	cma_id_free(id);
	return 0;
}

int soft_cma_migrate_id(struct rdma_cm_id *rdma,
			struct rdma_event_channel *channel)
{
	struct cma_id *id = cma_id(rdma);
	const struct rdma_ucm_migrate_id cmd = { .id = id->handle };
	struct rdma_ucm_migrate_resp resp = { 0 };
	int err;

	if (!channel)
		return cma_result(-EOPNOTSUPP);
	err = soft_cm_migrate_id(cma_file(rdma),
				 ((struct cma_channel *)channel)->file, &cmd,
				 &resp);
	if (err)
		return cma_result(err);
	cma_wait_acks(id, &id->acked, resp.events_reported);
	rdma->channel = channel;
	return 0;
}

int soft_cma_set_option(struct rdma_cm_id *id, int level, int optname,
			void *optval, size_t optlen)
{
	const struct rdma_ucm_set_option cmd = {
		.id = cma_id(id)->handle, .level = (uint32_t)level,
		.optname = (uint32_t)optname, .optlen = (uint32_t)optlen,
	};

	return cma_result(soft_cm_set_option(cma_file(id), &cmd, optval));
}

/* ---- addresses -------------------------------------------------------- */

static int update_gids(struct rdma_cm_id *id)
{
	const struct rdma_ucm_query cmd = {
		.id = cma_id(id)->handle, .option = RDMA_USER_CM_QUERY_GID,
	};
	struct rdma_ib_addr *ib = &id->route.addr.addr.ibaddr;
	struct rdma_ucm_query_addr_resp resp;
	struct sockaddr_ib src, dst;
	int err = soft_cm_query_gid(cma_file(id), &cmd, &resp);

	if (err)
		return err;
	memcpy(&src, &resp.src_addr, sizeof(src));
	memcpy(&dst, &resp.dst_addr, sizeof(dst));
	memcpy(&ib->sgid, &src.sib_addr, sizeof(ib->sgid));
	memcpy(&ib->dgid, &dst.sib_addr, sizeof(ib->dgid));
	ib->pkey = resp.pkey;
	return 0;
}

int cma_update(struct rdma_cm_id *id)
{
	const struct rdma_ucm_query cmd = {
		.id = cma_id(id)->handle, .option = RDMA_USER_CM_QUERY_ADDR,
	};
	struct rdma_ucm_query_addr_resp resp;
	int err = soft_cm_query_addr(cma_file(id), &cmd, &resp);

	if (err)
		return err;
	memcpy(&id->route.addr.src_storage, &resp.src_addr, resp.src_size);
	memcpy(&id->route.addr.dst_storage, &resp.dst_addr, resp.dst_size);
	if (!resp.port_num)
		return 0;
	id->port_num = resp.port_num;
	cma_verbs_take(cma_id(id));
	return update_gids(id);
}

int soft_cma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct rdma_ucm_bind cmd = {
		.id = cma_id(id)->handle, .addr_size = cma_addr_len(addr),
	};
	int err;

	memcpy(&cmd.addr, addr, cmd.addr_size);
	err = soft_cm_bind(cma_file(id), &cmd);
	return cma_result(err ? err : cma_update(id));
}

int soft_cma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
			  struct sockaddr *dst, int timeout_ms)
{
	struct rdma_ucm_resolve_addr cmd = {
		.id = cma_id(id)->handle, .timeout_ms = (uint32_t)timeout_ms,
		.dst_size = cma_addr_len(dst),
	};

	memcpy(&cmd.dst_addr, dst, cmd.dst_size);
	if (src) {
		cmd.src_size = cma_addr_len(src);
		memcpy(&cmd.src_addr, src, cmd.src_size);
	}
	memcpy(&id->route.addr.dst_storage, dst, cmd.dst_size);
	return cma_result(soft_cm_resolve_addr(cma_file(id), &cmd));
}

int soft_cma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	const struct rdma_ucm_resolve_route cmd = {
		.id = cma_id(id)->handle, .timeout_ms = (uint32_t)timeout_ms,
	};

	return cma_result(soft_cm_resolve_route(cma_file(id), &cmd));
}

__be16 soft_cma_get_src_port(struct rdma_cm_id *id)
{
	/* sin_port and sin6_port have the same offset */
	return id->route.addr.src_sin.sin_port;
}

int soft_cma_listen(struct rdma_cm_id *id, int backlog)
{
	const struct rdma_ucm_listen cmd = {
		.id = cma_id(id)->handle, .backlog = (uint32_t)backlog,
	};
	int err = soft_cm_listen(cma_file(id), &cmd);

	return cma_result(err ? err : cma_update(id));
}

/* ---- connections ------------------------------------------------------ */

static uint8_t depth(uint8_t asked)
{
	return asked == 0xff ? SOFT_MAX_RD : asked;
}

static void copy_param(struct rdma_ucm_conn_param *to,
		       const struct rdma_conn_param *from)
{
	memset(to, 0, sizeof(*to));
	to->qp_num = from->qp_num;
	to->srq = from->srq;
	to->responder_resources = depth(from->responder_resources);
	to->initiator_depth = depth(from->initiator_depth);
	to->flow_control = from->flow_control;
	to->retry_count = from->retry_count;
	to->rnr_retry_count = from->rnr_retry_count;
	to->private_data_len = from->private_data_len;
	if (from->private_data_len)
		memcpy(to->private_data, from->private_data,
		       from->private_data_len);
	to->valid = 1;
}

int soft_cma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct rdma_ucm_connect cmd = { .id = cma_id(id)->handle };

	copy_param(&cmd.conn_param, param);
	return cma_result(soft_cm_connect(cma_file(id), &cmd));
}

int soft_cma_establish(struct rdma_cm_id *id)
{
	return cma_result(soft_cm_establish(cma_file(id), cma_id(id)->handle));
}

int soft_cma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct rdma_ucm_accept cmd = {
		.id = cma_id(id)->handle, .uid = (uintptr_t)id,
	};

	copy_param(&cmd.conn_param, param);
	return cma_result(soft_cm_accept(cma_file(id), &cmd));
}

int soft_cma_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	struct rdma_ucm_reject cmd = {
		.id = cma_id(id)->handle, .private_data_len = len,
	};

	if (len)
		memcpy(cmd.private_data, data, len);
	return cma_result(soft_cm_reject(cma_file(id), &cmd));
}

int soft_cma_disconnect(struct rdma_cm_id *id)
{
	const struct rdma_ucm_disconnect cmd = { .id = cma_id(id)->handle };

	return cma_result(soft_cm_disconnect(cma_file(id), &cmd));
}

void cma_copy_ah(struct ibv_ah_attr *to, const struct ib_uverbs_ah_attr *from)
{
	memset(to, 0, sizeof(*to));
	memcpy(to->grh.dgid.raw, from->grh.dgid, 16);
	to->dlid = from->dlid;
	to->sl = from->sl;
	to->grh.hop_limit = from->grh.hop_limit;
	to->grh.sgid_index = from->grh.sgid_index;
	to->is_global = from->is_global;
	to->port_num = from->port_num;
}

int soft_cma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr,
			  int *mask)
{
	const struct rdma_ucm_init_qp_attr cmd = {
		.id = cma_id(id)->handle, .qp_state = attr->qp_state,
	};
	struct ib_uverbs_qp_attr a;
	int err = soft_cm_init_qp_attr(cma_file(id), &cmd, &a);

	if (err)
		return cma_result(err);
	*mask = (int)a.qp_attr_mask;
	attr->path_mtu = (enum ibv_mtu)a.path_mtu;
	attr->qkey = a.qkey;
	attr->rq_psn = a.rq_psn;
	attr->sq_psn = a.sq_psn;
	attr->dest_qp_num = a.dest_qp_num;
	attr->qp_access_flags = a.qp_access_flags;
	cma_copy_ah(&attr->ah_attr, &a.ah_attr);
	attr->pkey_index = a.pkey_index;
	attr->max_rd_atomic = a.max_rd_atomic;
	attr->max_dest_rd_atomic = a.max_dest_rd_atomic;
	attr->min_rnr_timer = a.min_rnr_timer;
	attr->port_num = a.port_num;
	attr->timeout = a.timeout;
	attr->retry_cnt = a.retry_cnt;
	attr->rnr_retry = a.rnr_retry;
	return 0;
}
