/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections of the kernel's connection manager. */
#include "device/ucm.h"

#include <string.h>

static void copy_param(struct rdma_ucm_conn_param *to,
		       const struct rdma_conn_param *from)
{
	to->qp_num = from->qp_num;
	to->srq = from->srq;
	to->responder_resources = from->responder_resources;
	to->initiator_depth = from->initiator_depth;
	to->flow_control = from->flow_control;
	to->retry_count = from->retry_count;
	to->rnr_retry_count = from->rnr_retry_count;
	to->private_data_len = from->private_data_len;
	if (from->private_data_len)
		memcpy(to->private_data, from->private_data,
		       from->private_data_len);
	to->valid = 1;
}

int rdmamsg__ucm_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct rdma_ucm_connect cmd = { .id = ucm_id(id)->handle };

	copy_param(&cmd.conn_param, param);
	return rdmamsg__ucm_command(id->channel, RDMA_USER_CM_CMD_CONNECT, &cmd,
				    sizeof(cmd), 0);
}

/* Accepts without parameters: the queue pair of this side is ready. */
int rdmamsg__ucm_establish(struct rdma_cm_id *id)
{
	const struct rdma_ucm_accept cmd = { .id = ucm_id(id)->handle };

	return rdmamsg__ucm_command(id->channel, RDMA_USER_CM_CMD_ACCEPT, &cmd,
				    sizeof(cmd), 0);
}

int rdmamsg__ucm_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	/* the kernel made this id, so tell it our pointer */
	struct rdma_ucm_accept cmd = {
		.uid = (uintptr_t)id, .id = ucm_id(id)->handle,
	};

	copy_param(&cmd.conn_param, param);
	return rdmamsg__ucm_command(id->channel, RDMA_USER_CM_CMD_ACCEPT, &cmd,
				    sizeof(cmd), 0);
}

int rdmamsg__ucm_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	struct rdma_ucm_reject cmd = {
		.id = ucm_id(id)->handle, .private_data_len = len,
	};

	if (len)
		memcpy(cmd.private_data, data, len);
	return rdmamsg__ucm_command(id->channel, RDMA_USER_CM_CMD_REJECT, &cmd,
				    sizeof(cmd), 0);
}

int rdmamsg__ucm_disconnect(struct rdma_cm_id *id)
{
	const struct rdma_ucm_disconnect cmd = { .id = ucm_id(id)->handle };

	return rdmamsg__ucm_command(id->channel, RDMA_USER_CM_CMD_DISCONNECT,
				    &cmd, sizeof(cmd), 0);
}

void rdmamsg__ucm_copy_ah(struct ibv_ah_attr *to,
			  const struct ib_uverbs_ah_attr *from)
{
	memcpy(to->grh.dgid.raw, from->grh.dgid, sizeof(to->grh.dgid.raw));
	to->grh.flow_label = from->grh.flow_label;
	to->grh.sgid_index = from->grh.sgid_index;
	to->grh.hop_limit = from->grh.hop_limit;
	to->grh.traffic_class = from->grh.traffic_class;
	to->dlid = from->dlid;
	to->sl = from->sl;
	to->src_path_bits = from->src_path_bits;
	to->static_rate = from->static_rate;
	to->is_global = from->is_global;
	to->port_num = from->port_num;
}

int rdmamsg__ucm_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr,
			      int *mask)
{
	struct ib_uverbs_qp_attr from = { .qp_attr_mask = 0 };
	const struct rdma_ucm_init_qp_attr cmd = {
		.response = (uintptr_t)&from, .id = ucm_id(id)->handle,
		.qp_state = attr->qp_state,
	};

	if (rdmamsg__ucm_command(id->channel, RDMA_USER_CM_CMD_INIT_QP_ATTR,
				 &cmd, sizeof(cmd), sizeof(from)))
		return -1;
	*mask = (int)from.qp_attr_mask;
	attr->cur_qp_state = (enum ibv_qp_state)from.cur_qp_state;
	attr->path_mtu = (enum ibv_mtu)from.path_mtu;
	attr->path_mig_state = (enum ibv_mig_state)from.path_mig_state;
	attr->qkey = from.qkey;
	attr->rq_psn = from.rq_psn;
	attr->sq_psn = from.sq_psn;
	attr->dest_qp_num = from.dest_qp_num;
	attr->qp_access_flags = from.qp_access_flags;
	rdmamsg__ucm_copy_ah(&attr->ah_attr, &from.ah_attr);
	rdmamsg__ucm_copy_ah(&attr->alt_ah_attr, &from.alt_ah_attr);
	attr->pkey_index = from.pkey_index;
	attr->alt_pkey_index = from.alt_pkey_index;
	attr->max_rd_atomic = from.max_rd_atomic;
	attr->max_dest_rd_atomic = from.max_dest_rd_atomic;
	attr->min_rnr_timer = from.min_rnr_timer;
	attr->port_num = from.port_num;
	attr->timeout = from.timeout;
	attr->retry_cnt = from.retry_cnt;
	attr->rnr_retry = from.rnr_retry;
	attr->alt_port_num = from.alt_port_num;
	attr->alt_timeout = from.alt_timeout;
	return 0;
}
