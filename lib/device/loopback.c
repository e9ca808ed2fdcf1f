/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/loopback.h"

#include "base/base.h"
#include "base/util.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/verbs_call.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/*
 * The loss of a message is told after less than 2 s: 7 times 268 ms. Not 7
 * retries, because Soft-RoCE takes 7 for endless.
 */
#define ACK_TIMEOUT	16
#define RETRIES		6

int rdmamsg__loopback_path(const struct rdmamsg_device *d, uint32_t port,
			   struct oob *ret)
{
	const struct rdmamsg_path path = { .size = sizeof(path), .port = port };
	int err;

	memset(ret, 0, sizeof(*ret));
	if (rdmamsg__is_iwarp(d))
		return rdmamsg__fail(-EOPNOTSUPP, "only the connection manager "
				     "connects queue pairs of iWARP");
	err = rdmamsg__path_copy(&ret->path, &path);
	return err ? err : rdmamsg__path_local(ret, d, NULL);
}

void rdmamsg__loopback_address(const struct oob *path, struct ibv_ah_attr *ret)
{
	const struct rdmamsg_path *p = &path->path;

	memset(ret, 0, sizeof(*ret));
	ret->port_num = path->port;
	ret->dlid = path->local.lid;
	ret->sl = (uint8_t)p->service_level;
	ret->src_path_bits = (uint8_t)p->src_path_bits;
	ret->is_global = path->local.link == PROTO_OOB_ETHERNET ||
			 path->global || !path->local.lid;
	if (!ret->is_global)
		return;
	memcpy(ret->grh.dgid.raw, path->local.gid, 16);
	ret->grh.sgid_index = path->gid_index;
	ret->grh.flow_label = p->flow_label;
	ret->grh.hop_limit = (uint8_t)p->hop_limit;
	if (p->traffic_class != RDMAMSG_NONE)
		ret->grh.traffic_class = (uint8_t)p->traffic_class;
}

static int to_init(const struct rdmamsg_device *d, struct ibv_qp *qp,
		   const struct oob *path)
{
	const bool atomics = rdmamsg__atomic_scope(d) != RDMAMSG_ATOMIC_NONE;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = path->port,
		.pkey_index = path->pkey_index,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_WRITE |
				   (atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0),
	};

	return rdmamsg__v_modify_qp(d->v, qp, &attr, IBV_QP_STATE |
				    IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(const struct rdmamsg_device *d, struct ibv_qp *qp,
		  const struct oob *path, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)path->local.mtu,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = d->attr.max_qp_rd_atom > 0,
		.min_rnr_timer = 12,
	};

	rdmamsg__loopback_address(path, &attr.ah_attr);
	return rdmamsg__v_modify_qp(d->v, qp, &attr, IBV_QP_STATE | IBV_QP_AV |
				    IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(const struct rdmamsg_device *d, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .timeout = ACK_TIMEOUT,
		.retry_cnt = RETRIES, .rnr_retry = RETRIES,
		.max_rd_atomic = d->attr.max_qp_init_rd_atom > 0,
	};

	return rdmamsg__v_modify_qp(d->v, qp, &attr, IBV_QP_STATE |
				    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				    IBV_QP_MAX_QP_RD_ATOMIC);
}

int rdmamsg__loopback_step(const struct rdmamsg_device *d, struct ibv_qp *qp,
			   const struct oob *path, uint32_t peer,
			   enum ibv_qp_state to)
{
	int err;

	if (to == IBV_QPS_INIT)
		err = to_init(d, qp, path);
	else if (to == IBV_QPS_RTR)
		err = to_rtr(d, qp, path, peer);
	else
		err = to_rts(d, qp);
	return err ? rdmamsg__fail(err, "connecting a queue pair of the device "
				   "to itself: %s", strerror(-err)) : 0;
}
