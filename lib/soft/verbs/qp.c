/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls: queue pairs. */
#include "soft/verbs/qp.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/cq.h"
#include "soft/verbs/cross.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/dc.h"
#include "soft/verbs/flow.h"
#include "soft/verbs/upward.h"
#include "soft/verbs/wq.h"

/*
 * Linux, core/uverbs_cmd.c, create_qp(), for an indirection table, and
 * hw/mlx5/qp.c, create_rss_raw_qp_tir().
 */
static int check_rss(const struct ibv_qp_init_attr_ex *a, bool pd)
{
	if (a->qp_type != IBV_QPT_RAW_PACKET)
		return EOPNOTSUPP;
	if (!(a->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE))
		return EINVAL;
	return !pd || a->send_cq || a->recv_cq || a->srq || a->create_flags ||
	       a->cap.max_recv_wr || a->cap.max_recv_sge ||
	       a->cap.max_send_wr || a->comp_mask &
	       (IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
		IBV_QP_INIT_ATTR_MAX_TSO_HEADER) ? EINVAL : 0;
}

static int check_objects(const struct soft_dev *dev,
			 struct ibv_qp_init_attr_ex *a)
{
	bool pd = a->comp_mask & IBV_QP_INIT_ATTR_PD && a->pd;

	if (dev->iwarp && a->qp_type != IBV_QPT_RC)
		return EOPNOTSUPP;
	if (a->qp_type == IBV_QPT_RAW_PACKET && !soft_is_roce(dev))
		return EOPNOTSUPP;
	if (a->comp_mask & (IBV_QP_INIT_ATTR_IND_TABLE |
			    IBV_QP_INIT_ATTR_RX_HASH))
		return check_rss(a, pd);
	switch (a->qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_RAW_PACKET:
		if (!pd || !a->send_cq || !a->recv_cq)
			return EINVAL;
		break;
	case IBV_QPT_XRC_SEND:
		if (!pd || !a->send_cq || a->srq)
			return EINVAL;
		a->recv_cq = NULL;
		break;
	case IBV_QPT_XRC_RECV:
		if (!(a->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !a->xrcd ||
		    a->srq)
			return EINVAL;
		/*
		 * shared receive queues supply the memory; keep pd for queries
		 */
		if (!pd)
			a->pd = NULL;
		a->send_cq = a->recv_cq = NULL;
		a->cap = (struct ibv_qp_cap){ .max_send_wr = 0 };
		return 0;
	default:
		return EOPNOTSUPP;
	}
	if (a->srq || !a->recv_cq)
		a->cap.max_recv_wr = a->cap.max_recv_sge = 0;
	return a->srq && ((struct soft_srq *)a->srq)->xrcd ? EINVAL : 0;
}

bool soft_qp_cap_ok(const struct ibv_qp_cap *cap)
{
	return cap->max_send_wr <= SOFT_MAX_WR &&
	       cap->max_recv_wr <= SOFT_MAX_WR &&
	       cap->max_send_sge <= SOFT_MAX_SGE &&
	       cap->max_recv_sge <= SOFT_MAX_SGE &&
	       cap->max_inline_data <= SOFT_MAX_INLINE;
}

/*
 * Returns the create flags for a type. For a card, libibverbs refuses those of
 * cross-channel queue pairs with EINVAL (cmd_qp.c, CREATE_QP_EX2 flags), though
 * its kernel has them.
 */
static uint32_t flags_of(const struct soft_dev *dev, enum ibv_qp_type type)
{
	if (type == IBV_QPT_RAW_PACKET)
		return IBV_QP_CREATE_SCATTER_FCS |
		       IBV_QP_CREATE_CVLAN_STRIPPING;
	/* Linux, hw/mlx5/qp.c: another number is for IP over InfiniBand */
	if (type == IBV_QPT_UD)
		return IBV_QP_CREATE_BLOCK_SELF_MCAST_LB |
		       (soft_is_ib(dev) ? IBV_QP_CREATE_SOURCE_QPN : 0);
	return type == IBV_QPT_RC && !dev->iwarp ? SOFT_CROSS_FLAGS : 0;
}

/*
 * Linux, core/uverbs_std_types_qp.c, check_creation_flags(), and cmd_qp.c. Only
 * datagrams have a source number: mlx5/verbs.c, create_qp().
 */
static int check_flags(const struct soft_dev *dev, enum ibv_qp_type type,
		       uint32_t flags)
{
	const uint32_t packets = IBV_QP_CREATE_SCATTER_FCS |
				 IBV_QP_CREATE_CVLAN_STRIPPING;
	const uint32_t datagrams = packets | IBV_QP_CREATE_BLOCK_SELF_MCAST_LB |
				   IBV_QP_CREATE_PCI_WRITE_END_PADDING;
	const uint32_t known = datagrams | IBV_QP_CREATE_SOURCE_QPN |
			       SOFT_CROSS_FLAGS;
	const uint32_t wrong = type == IBV_QPT_UD ? packets :
			       IBV_QP_CREATE_SOURCE_QPN |
			       (type == IBV_QPT_RAW_PACKET ? 0 : datagrams);

	if (flags & (~known | wrong))
		return EINVAL;
	return flags & ~flags_of(dev, type) ? EOPNOTSUPP : 0;
}

static int check_init(const struct soft_dev *dev,
		      struct ibv_qp_init_attr_ex *a)
{
	const uint32_t taken = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
			       IBV_QP_INIT_ATTR_CREATE_FLAGS |
			       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
			       IBV_QP_INIT_ATTR_IND_TABLE |
			       IBV_QP_INIT_ATTR_RX_HASH |
			       IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
	int err;

	if (a->comp_mask & ~taken)
		return EINVAL;
	if (a->comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER) {
		if (a->qp_type != IBV_QPT_RAW_PACKET || !soft_is_roce(dev))
			return EOPNOTSUPP;
		if (a->max_tso_header > SOFT_MAX_TSO_HEADER)
			return EINVAL;
	}
	if (!(a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS))
		a->create_flags = 0;
	err = check_flags(dev, a->qp_type, a->create_flags);
	if (!err)
		err = check_objects(dev, a);
	if (err)
		return err;
	if (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		err = soft_qp_ex_check(dev, a->qp_type, a->send_ops_flags);
	if (err)
		return err;
	return soft_qp_cap_ok(&a->cap) ? 0 : EINVAL;
}

int soft_qp_number(struct soft_dev *dev, struct soft_qp *qp)
{
	for (uint32_t n = 0; n < SOFT_QPS; n++) {
		uint32_t i = (dev->qp_hint + n) % SOFT_QPS;

		/* on node 0, numbers 0 and 1 are management queue pairs */
		if (i < 2 || dev->qps[i] ||
		    (dev->node << SOFT_QPN_BITS | i) == SOFT_QPN_MCAST)
			continue;
		dev->qp_hint = i + 1;
		dev->qp_count++;
		dev->qps[i] = qp;
		qp->ibv.qp_num = dev->node << SOFT_QPN_BITS | i;
		qp->ibv.handle = qp->ibv.qp_num;
		return 0;
	}
	return ENOMEM;
}

static void qp_free(struct soft_qp *qp)
{
	soft_rq_fini(&qp->rq);
	soft_sq_fini(qp);
	soft_dc_free(qp);
	soft_raw_free(qp->raw);
	free(qp->rss);
	free(qp->dv);
	free(qp->offers);
	free(qp);
}

static int init_receives(struct soft_qp *qp)
{
	if (qp->ibv.qp_type == IBV_QPT_XRC_RECV)
		return soft_rq_init(&qp->rq, 1, SOFT_MAX_SGE);
	if (qp->srq)
		return soft_rq_init(&qp->rq, 1, qp->srq->rq.max_sge);
	return soft_rq_init(&qp->rq, qp->cap.max_recv_wr,
			    qp->cap.max_recv_sge);
}

/* Adds n to the user counts of all objects that the queue pair uses. L */
static void hold(struct soft_qp *qp, int n)
{
	if (qp->pd)
		qp->pd->users += n;
	if (qp->ibv.send_cq)
		soft_cq(qp->ibv.send_cq)->users += n;
	if (qp->ibv.recv_cq)
		soft_cq(qp->ibv.recv_cq)->users += n;
	if (qp->ibv.srq)
		((struct soft_srq *)qp->ibv.srq)->users += n;
	if (qp->xrcd)
		qp->xrcd->users += n;
	if (qp->rss)
		qp->rss->table->users += n;
}

/* The send queue of such a queue pair counts on, as that of a builder does. */
static void init_cross(struct soft_qp *qp)
{
	if (!(qp->create_flags & SOFT_CROSS_FLAGS))
		return;
	qp->gate = SOFT_GATE_CROSS;
	qp->ex_alone = true;
}

static struct soft_qp *qp_new(struct ibv_context *verbs,
			      const struct ibv_qp_init_attr_ex *attr)
{
	struct soft_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	if (attr->qp_type != IBV_QPT_XRC_RECV)
		qp->pd = (struct soft_pd *)attr->pd;
	qp->cap = attr->cap;
	/* as on hardware, some inline data works without asking */
	qp->cap.max_inline_data = max(qp->cap.max_inline_data,
				      SOFT_MIN_INLINE);
	qp->sq_sig_all = attr->sq_sig_all;
	qp->unreliable = attr->qp_type == IBV_QPT_UC ||
			 attr->qp_type == IBV_QPT_UD ||
			 attr->qp_type == IBV_QPT_RAW_PACKET;
	qp->addressed = attr->qp_type == IBV_QPT_UD;
	qp->sends_only = attr->qp_type == IBV_QPT_XRC_SEND;
	/* a program that does not set them may leave anything there */
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS)
		qp->create_flags = attr->create_flags;
	if (qp->create_flags & IBV_QP_CREATE_SOURCE_QPN)
		qp->source_qpn = attr->source_qpn & 0xffffff;
	(void)pthread_mutex_init(&qp->ex_lock, NULL);
	init_cross(qp);
	qp->state = soft_qp_first_state(soft_dev_of(verbs));
	qp->timer.fn = soft_verbs_up->timer;
	list_init(&qp->timer.node);
	list_init(&qp->late.node);
	list_init(&qp->pend_node);
	list_init(&qp->wait_node);
	list_init(&qp->windows);
	list_init(&qp->opened);
	qp->srq = (struct soft_srq *)attr->srq;
	/* a target of DC checks receive buffers with its own domain */
	qp->recv_pd = qp->srq && attr->qp_type != IBV_QPT_DRIVER ?
		      qp->srq->ibv.pd : attr->pd;
	if (attr->qp_type == IBV_QPT_XRC_RECV)
		qp->xrcd = (struct soft_xrcd *)attr->xrcd;
	qp->ibv.context = verbs;
	qp->ibv.qp_context = attr->qp_context;
	qp->ibv.pd = attr->pd;
	qp->ibv.send_cq = attr->send_cq;
	qp->ibv.recv_cq = attr->recv_cq;
	qp->ibv.srq = attr->srq;
	qp->ibv.qp_type = attr->qp_type;
	qp->ibv.state = IBV_QPS_RESET;
	return qp;
}

struct ibv_qp *soft_qp_make(struct ibv_context *verbs,
			    struct ibv_qp_init_attr_ex *a,
			    int (*init)(struct soft_qp *qp, const void *arg),
			    const void *arg)
{
	struct soft_dev *dev = soft_dev_of(verbs);
	struct soft_qp *qp;
	int err;

	if (a->comp_mask & IBV_QP_INIT_ATTR_PD && a->pd)
		a->pd = soft_pd_of(a->pd);
	err = soft_may_create(verbs, SOFT_OBJ_QP);
	if (err) {
		errno = err;
		return NULL;
	}
	qp = qp_new(verbs, a);
	if (!qp)
		return NULL;
	if (soft_sq_init(qp) || init_receives(qp))
		err = ENOMEM;
	else if (init)
		err = init(qp, arg);
	if (err)
		goto err_qp;
	soft_lock(dev);
	/* a target of DC has no number until it is ready to receive */
	err = qp->dct ? 0 : soft_qp_number(dev, qp);
	if (!err)
		hold(qp, 1);
	soft_unlock(dev);
	if (err)
		goto err_qp;
	if (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		soft_qp_ex_init(qp, a->send_ops_flags);
	(void)pthread_mutex_init(&qp->ibv.mutex, NULL);
	(void)pthread_cond_init(&qp->ibv.cond, NULL);
	a->cap = qp->cap;
	return &qp->ibv;

err_qp:
	qp_free(qp);
	errno = err;
	return NULL;
}

/* Sets the members of a queue pair of Ethernet frames. */
static int init_raw(struct soft_qp *qp, const void *arg)
{
	const struct ibv_qp_init_attr_ex *a = arg;

	if (a->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE)
		return soft_rss_new(a, &qp->rss);
	return soft_raw_init(qp, a->comp_mask &
			     IBV_QP_INIT_ATTR_MAX_TSO_HEADER ?
			     a->max_tso_header : 0);
}

struct ibv_qp *soft_create_qp_ex(struct ibv_context *verbs,
				 struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr_ex a = *attr;
	int err = check_init(soft_dev_of(verbs), &a);
	struct ibv_qp *qp;

	if (err) {
		errno = err;
		return NULL;
	}
	qp = soft_qp_make(verbs, &a, a.qp_type == IBV_QPT_RAW_PACKET ?
			  init_raw : NULL, &a);
	if (qp)
		attr->cap = a.cap;
	return qp;
}

struct ibv_qp *soft_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context, .send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq, .srq = attr->srq, .cap = attr->cap,
		.qp_type = attr->qp_type, .sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd,
	};
	struct ibv_qp *qp = soft_create_qp_ex(pd->context, &ex);

	if (qp)
		attr->cap = ex.cap;
	return qp;
}

/* Ends the queue pair itself. L */
static void end(struct soft_dev *dev, struct soft_qp *qp)
{
	/* push a due NAK if the ring has room */
	(void)soft_verbs_up->answer(dev, qp);
	soft_qp_reset(dev, qp);
	soft_mw_forget(qp);
	if (qp->ibv.qp_num) {
		dev->qps[qp->ibv.qp_num & (SOFT_QPS - 1)] = NULL;
		dev->qp_count--;
	}
	hold(qp, -1);
}

/*
 * Drops a handle. The queue pair ends with its last handle. Until then one of
 * the other handles counts as its user. Returns true if the caller must free
 * the queue pair.
 */
static bool let_go(struct soft_dev *dev, struct soft_qp *real,
		   struct soft_qp *handle)
{
	struct soft_qp *heir;

	if (handle != real) {
		list_del(&handle->opened);
		handle->xrcd->users--;
		if (!real->gone || !list_empty(&real->opened))
			return false;
		real->xrcd->users++;	/* end() decrements it */
		end(dev, real);
		return true;
	}
	if (list_empty(&real->opened)) {
		end(dev, real);
		return true;
	}
	heir = list_first(&real->opened, struct soft_qp, opened);
	real->gone = true;
	real->xrcd->users--;
	real->xrcd = heir->xrcd;
	real->ibv.context = heir->ibv.context;
	return false;
}

int soft_destroy_qp(struct ibv_qp *ibv)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_qp *qp = soft_qp(ibv), *real = soft_qp_real(ibv);
	struct soft_ctx *ctx = soft_ctx(ibv->context);
	bool last;

	soft_lock(dev);
	if (real->groups) {
		soft_unlock(dev);
		return EBUSY;
	}
	last = let_go(dev, real, qp);
	soft_async_forget(ctx, ibv);
	soft_unlock(dev);
	(void)pthread_mutex_lock(&ibv->mutex);
	while (ibv->events_completed != qp->async_fetched)
		(void)pthread_cond_wait(&ibv->cond, &ibv->mutex);
	(void)pthread_mutex_unlock(&ibv->mutex);
	(void)pthread_cond_destroy(&ibv->cond);
	(void)pthread_mutex_destroy(&ibv->mutex);
	if (qp != real)
		free(qp);
	if (last)
		qp_free(real);
	return 0;
}

bool soft_qp_is_far(struct ibv_qp *ibv)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	bool far;

	soft_lock(dev);
	far = soft_qp_real(ibv)->far;
	soft_unlock(dev);
	return far;
}

int soft_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init)
{
	struct soft_dev *dev = soft_dev_of(ibv->context);
	struct soft_qp *qp = soft_qp_real(ibv);

	/* rdma-core, mlx5/verbs.c, mlx5_query_qp() */
	if (qp->rss)
		return EOPNOTSUPP;
	soft_lock(dev);
	if (!soft_dc_query_ok(qp, mask)) {
		soft_unlock(dev);
		return EINVAL;
	}
	*attr = qp->attr;
	if (qp->dci || qp->dct)
		attr->dest_qp_num = 0;
	attr->qp_state = attr->cur_qp_state = qp->state;
	attr->sq_psn = qp->psn_next;
	attr->rq_psn = qp->epsn;
	attr->cap = qp->cap;
	attr->sq_draining = qp->state == IBV_QPS_SQD && !qp->drained_told;
	memset(init, 0, sizeof(*init));
	init->qp_context = ibv->qp_context;
	init->send_cq = ibv->send_cq;
	init->recv_cq = ibv->recv_cq;
	init->srq = ibv->srq;
	init->qp_type = ibv->qp_type;
	init->sq_sig_all = qp->sq_sig_all;
	init->cap = qp->cap;
	soft_unlock(dev);
	return 0;
}
