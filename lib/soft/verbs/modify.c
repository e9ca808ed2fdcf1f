/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_modify_qp(); steps.c has the attributes of each transition. */
#include "soft/verbs/qp.h"

#include <errno.h>

#include "soft/fabric/wire.h"
#include "soft/verbs/access.h"
#include "soft/verbs/ah.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/dc.h"
#include "soft/verbs/upward.h"

/* IB_QP_ATTR_STANDARD_BITS of Linux, rdma/ib_verbs.h */
#define STANDARD	((IBV_QP_DEST_QPN << 1) - 1)

/*
 * Queue pairs of DC have no destination. A target's path tells its route only:
 * Linux, hw/mlx5/qp.c, mlx5_ib_modify_dct(); core/cache.c, rdma_check_ah_attr().
 */
static bool path_ok(const struct soft_dev *dev, const struct soft_qp *qp,
		    const struct ibv_ah_attr *a)
{
	return qp->dci || qp->dct ? soft_ah_source_ok(dev, a) :
	       soft_ah_attr_ok(dev, a);
}

static int check_values(const struct soft_dev *dev, const struct soft_qp *qp,
			const struct ibv_qp_attr *a, int mask)
{
	if (mask & IBV_QP_PORT && (!a->port_num || a->port_num > dev->ports))
		return EINVAL;
	if (mask & IBV_QP_PKEY_INDEX && a->pkey_index)
		return EINVAL;
	if (mask & IBV_QP_AV && !path_ok(dev, qp, &a->ah_attr))
		return EINVAL;
	if (mask & IBV_QP_PATH_MTU && (a->path_mtu < IBV_MTU_256 ||
				       a->path_mtu > IBV_MTU_4096))
		return EINVAL;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC && a->max_rd_atomic > SOFT_MAX_RD)
		return EINVAL;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC &&
	    a->max_dest_rd_atomic > SOFT_MAX_RD)
		return EINVAL;
	if ((mask & IBV_QP_TIMEOUT && a->timeout > 31) ||
	    (mask & IBV_QP_RETRY_CNT && a->retry_cnt > 7) ||
	    (mask & IBV_QP_RNR_RETRY && a->rnr_retry > 7) ||
	    (mask & IBV_QP_MIN_RNR_TIMER && a->min_rnr_timer > 31))
		return EINVAL;
	return 0;
}

static int check_path(const struct soft_dev *dev, const struct ibv_qp_attr *a)
{
	/* modify_qp() of Linux ib_uverbs: both port numbers must agree */
	if (a->alt_ah_attr.port_num != a->alt_port_num ||
	    !soft_ah_attr_ok(dev, &a->alt_ah_attr))
		return EINVAL;
	return a->alt_pkey_index || a->alt_timeout > 31 ? EINVAL : 0;
}

/* Returns 0, or EINVAL if the migration state does not permit these values. */
static int check_migration(const struct soft_dev *dev, const struct soft_qp *qp,
			   const struct ibv_qp_attr *a, int mask)
{
	enum ibv_mig_state now = qp->attr.path_mig_state;
	bool path = mask & IBV_QP_ALT_PATH;
	bool state = mask & IBV_QP_PATH_MIG_STATE;
	bool rearm = state && a->path_mig_state == IBV_MIG_REARM;

	if (path && check_path(dev, a))
		return EINVAL;
	/* the peer has agreed to an armed path, so a new path needs REARM */
	if (path && now == IBV_MIG_ARMED && !rearm)
		return EINVAL;
	if (!state)
		return 0;
	if (rearm)
		return path || qp->attr.alt_port_num ? 0 : EINVAL;
	if (a->path_mig_state != IBV_MIG_MIGRATED || now == IBV_MIG_REARM)
		return EINVAL;
	return now == IBV_MIG_ARMED && qp->state != IBV_QPS_RTS ? EINVAL : 0;
}

static void take_values(struct soft_qp *qp, const struct ibv_qp_attr *a,
			int mask)
{
#define TAKE(bit, field) \
	do { \
		if (mask & (bit)) \
			qp->attr.field = a->field; \
	} while (0)
	TAKE(IBV_QP_PKEY_INDEX, pkey_index);
	TAKE(IBV_QP_PORT, port_num);
	TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	TAKE(IBV_QP_AV, ah_attr);
	TAKE(IBV_QP_PATH_MTU, path_mtu);
	TAKE(IBV_QP_TIMEOUT, timeout);
	TAKE(IBV_QP_RETRY_CNT, retry_cnt);
	TAKE(IBV_QP_RNR_RETRY, rnr_retry);
	TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	TAKE(IBV_QP_DEST_QPN, dest_qp_num);
	TAKE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	TAKE(IBV_QP_ALT_PATH, alt_ah_attr);
	TAKE(IBV_QP_ALT_PATH, alt_pkey_index);
	TAKE(IBV_QP_ALT_PATH, alt_port_num);
	TAKE(IBV_QP_ALT_PATH, alt_timeout);
	TAKE(IBV_QP_QKEY, qkey);
#undef TAKE
	if (mask & IBV_QP_RQ_PSN)
		qp->epsn = a->rq_psn & SOFT_PSN_MASK;
	if (mask & IBV_QP_SQ_PSN)
		qp->psn_next = qp->una = a->sq_psn & SOFT_PSN_MASK;
	qp->retries = qp->attr.retry_cnt;
	qp->lost_ns = 0;
	qp->rnr_retries = qp->attr.rnr_retry;
}

static void enter(struct soft_dev *dev, struct soft_qp *qp,
		  enum ibv_qp_state to)
{
	enum ibv_qp_state from = qp->state;

	switch (to) {
	case IBV_QPS_RESET:
		soft_qp_reset(dev, qp);
		return;
	case IBV_QPS_ERR:
		qp->state = to;
		soft_qp_error(dev, qp);
		return;
	case IBV_QPS_SQD:
		qp->drained_told = false;
		break;
	default:
		break;
	}
	qp->state = to;
	if (to == IBV_QPS_SQD && from == IBV_QPS_RTS) {
		/* a request that waits for a retry after RNR has begun, too */
		qp->drain_to = (int32_t)(qp->begun - qp->sq_head) > 0 ?
			       qp->begun : qp->sq_head;
		soft_sq_drained(dev, qp);
		if (!qp->drained_told)
			soft_heed(dev);
	}
	if (to == IBV_QPS_RTS)
		soft_verbs_up->push(dev, qp);
}

/*
 * Finds the wire to the peer. An absent peer is no error yet, as with hardware.
 * Returns an errno only if this process lacks the resources for a wire.
 */
static int find_peer(struct soft_dev *dev, struct soft_qp *qp,
		     const struct ibv_qp_attr *a)
{
	int ret;

	if (qp->wire || qp->ibv.qp_type == IBV_QPT_UD || qp->dci || qp->raw)
		return 0;
	ret = soft_verbs_up->far_up(dev, qp, a);
	if (ret)
		return ret < 0 ? -ret : 0;
	ret = soft_wire_get(dev, a->dest_qp_num >> SOFT_QPN_BITS, &qp->wire);
	/* every user can fill the backlog of the peer: dialled again later */
	qp->dials = ret == -EAGAIN;
	qp->dial_until = 0;
	return ret == -EMFILE || ret == -ENFILE || ret == -ENOMEM ? -ret : 0;
}

/* ---- iWARP ------------------------------------------------------------ */

#define IWARP_ACK_TIMEOUT 16	/* 268 ms, TCP's shortest retransmission */
#define IWARP_RETRIES	7

int soft_qp_iwarp_up(struct soft_dev *dev, struct soft_qp *qp, uint32_t peer,
		     uint32_t cm_id, uint8_t ird, uint8_t ord, bool mute)
{
	int ret;

	if (qp->cm_id || qp->state != IBV_QPS_INIT)
		return -EINVAL;
	ret = soft_wire_get(dev, peer >> SOFT_QPN_BITS, &qp->wire);
	if (ret)
		return ret;
	qp->attr.dest_qp_num = peer;
	qp->attr.port_num = 1;
	qp->attr.path_mtu = IBV_MTU_4096;
	/*
	 * Needed because librdmacm sets INIT without access before it connects:
	 * Linux, c4iw rdma_init() enables reads and writes always.
	 */
	qp->attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE |
				   IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ;
	qp->attr.timeout = IWARP_ACK_TIMEOUT;
	qp->attr.retry_cnt = qp->retries = IWARP_RETRIES;
	qp->attr.max_rd_atomic = ord;
	qp->attr.max_dest_rd_atomic = ird;
	qp->epsn = qp->psn_next = qp->una = 0;
	qp->cm_id = cm_id;
	qp->gate = mute ? SOFT_GATE_MUTE : SOFT_GATE_OPEN;
	enter(dev, qp, IBV_QPS_RTS);
	return 0;
}

/*
 * Only the connection manager brings a queue pair to RTS. RESET, INIT and RTR of
 * an unconnected queue pair are one state, and SQD ends the connection: Linux,
 * siw_verbs_modify_qp() and siw_qp_modify(), c4iw_ib_modify_qp().
 *
 * rdma_disconnect() of librdmacm sets SQD even if the peer has disconnected
 * before. c4iw_modify_qp() refuses that. siw_qp_modify() does not, and neither
 * does the kernel's own iw_cm_disconnect(), because both sides may disconnect
 * at once.
 */
static int modify_iwarp(struct soft_dev *dev, struct soft_qp *qp,
			const struct ibv_qp_attr *attr, int mask)
{
	bool connected = qp->state == IBV_QPS_RTS;
	bool ended = qp->state == IBV_QPS_ERR;

	if (mask & IBV_QP_PORT && (!attr->port_num ||
				   attr->port_num > dev->ports))
		return EINVAL;
	if (mask & IBV_QP_STATE) {
		switch (attr->qp_state) {
		case IBV_QPS_RESET:
			if (connected)
				return EINVAL;
			enter(dev, qp, IBV_QPS_RESET);
			break;
		case IBV_QPS_INIT:
		case IBV_QPS_RTR:
			if (connected || ended)
				return EINVAL;
			qp->state = IBV_QPS_INIT;
			break;
		case IBV_QPS_RTS:
			if (!connected)
				return EINVAL;
			break;
		case IBV_QPS_SQD:
			if (!connected && !ended)
				return EINVAL;
			enter(dev, qp, IBV_QPS_ERR);
			break;
		case IBV_QPS_ERR:
			enter(dev, qp, IBV_QPS_ERR);
			break;
		default:
			return EINVAL;
		}
	}
	take_values(qp, attr, mask & IBV_QP_ACCESS_FLAGS);
	return 0;
}

static bool step_ok(const struct soft_qp *qp, enum ibv_qp_state to, int mask)
{
	return qp->dci || qp->dct ? soft_dc_step_ok(qp, to, mask) :
	       soft_step_ok(qp->ibv.qp_type, qp->state, to, mask);
}

/* ---- the call --------------------------------------------------------- */

int soft_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_qp *qp = soft_qp_real(ibv);
	enum ibv_qp_state to;
	int ret = EINVAL;

	/* rdma-core, mlx5/verbs.c, mlx5_modify_qp() */
	if (qp->rss)
		return EOPNOTSUPP;
	/*
	 * Linux, rxe_modify_qp() and siw_verbs_modify_qp(). Queue pairs of DC
	 * are those of mlx5_ib_modify_qp(), which knows rates.
	 */
	if (mask & ~(qp->dci || qp->dct ? STANDARD | IBV_QP_RATE_LIMIT :
		     STANDARD))
		return EOPNOTSUPP;
	soft_lock(dev);
	/*
	 * consume ACKs that have arrived, so that their requests are not
	 * flushed
	 */
	(void)soft_verbs_up->progress(dev);
	if (soft_ctx(ibv->context)->removed) {
		ret = EIO;
		goto out;
	}
	to = mask & IBV_QP_STATE ? attr->qp_state : qp->state;
	if (to < IBV_QPS_RESET || to > IBV_QPS_ERR)
		goto out;
	if (dev->iwarp) {
		ret = modify_iwarp(dev, qp, attr, mask);
		if (!ret && mask & IBV_QP_STATE)
			ibv->state = to;
		goto out;
	}
	if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != qp->state)
		goto out;
	if (!step_ok(qp, to, mask))
		goto out;
	ret = check_values(dev, qp, attr, mask);
	if (!ret)
		ret = check_migration(dev, qp, attr, mask);
	if (!ret && to == IBV_QPS_RTR && qp->state == IBV_QPS_INIT)
		ret = qp->dct ? soft_dct_ready(dev, qp) :
		      find_peer(dev, qp, attr);
	if (ret)
		goto out;
	soft_vm_end_offers(dev, qp);
	take_values(qp, attr, mask);
	if (mask & IBV_QP_PATH_MIG_STATE)
		soft_verbs_up->migrate(dev, qp, attr->path_mig_state);
	enter(dev, qp, to);
	if (mask & IBV_QP_STATE)
		ibv->state = to;
out:
	soft_unlock(dev);
	return ret;
}
