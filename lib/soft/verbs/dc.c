/* SPDX-License-Identifier: BSD-2-Clause */
/* Initiators and targets of DC: creation, states, responders. */
#include "soft/verbs/dc.h"

#include <errno.h>
#include <stdlib.h>

#include "soft/fabric/wire.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/upward.h"

/* ---- creation --------------------------------------------------------- */

/* rdma-core, mlx5/verbs.c, create_dct(), and Linux, hw/mlx5/qp.c. */
static int check_target(struct ibv_qp_init_attr_ex *a)
{
	if (a->comp_mask != IBV_QP_INIT_ATTR_PD || !a->pd || !a->srq ||
	    !a->recv_cq || ((struct soft_srq *)a->srq)->xrcd)
		return EINVAL;
	a->cap = (struct ibv_qp_cap){ .max_send_wr = 0 };
	return 0;
}

static int check_initiator(const struct soft_dev *dev,
			   struct ibv_qp_init_attr_ex *a)
{
	if (a->comp_mask & ~(uint32_t)(IBV_QP_INIT_ATTR_PD |
				       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) ||
	    !(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd || !a->send_cq)
		return EINVAL;
	/* an initiator receives nothing; programs give a queue nevertheless */
	a->srq = NULL;
	a->cap.max_recv_wr = a->cap.max_recv_sge = 0;
	if (!soft_qp_cap_ok(&a->cap))
		return EINVAL;
	return a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ?
	       soft_qp_ex_check(dev, a->qp_type, a->send_ops_flags) : 0;
}

static struct soft_dct *dct_new(uint64_t key)
{
	struct soft_dct *dct = calloc(1, sizeof(*dct));

	if (!dct)
		return NULL;
	dct->key = key;
	list_init(&dct->node);
	for (int i = 0; i < SOFT_DCRS; i++)
		list_init(&dct->dcrs[i]);
	return dct;
}

static int dci_init(struct soft_qp *qp)
{
	qp->dci = calloc(1, sizeof(*qp->dci));
	if (!qp->dci)
		return ENOMEM;
	qp->dci->keys = calloc(qp->sq_mask + 1u, sizeof(*qp->dci->keys));
	if (!qp->dci->keys)
		return ENOMEM;
	qp->gate = SOFT_GATE_AIM;
	qp->addressed = qp->sends_only = true;
	return 0;
}

static int init(struct soft_qp *qp, const void *target_key)
{
	if (!target_key)
		return dci_init(qp);
	qp->dct = dct_new(*(const uint64_t *)target_key);
	return qp->dct ? 0 : ENOMEM;
}

struct ibv_qp *soft_create_dc(struct ibv_context *verbs,
			      struct ibv_qp_init_attr_ex *attr,
			      const uint64_t *target_key)
{
	struct ibv_qp_init_attr_ex a = *attr;
	struct soft_dev *dev = soft_dev_of(verbs);
	struct ibv_qp *qp;
	int err = dev->iwarp ? EOPNOTSUPP : target_key ? check_target(&a) :
		  check_initiator(dev, &a);

	if (err) {
		errno = err;
		return NULL;
	}
	qp = soft_qp_make(verbs, &a, init, target_key);
	if (qp)
		attr->cap = a.cap;
	return qp;
}

void soft_dc_free(struct soft_qp *qp)
{
	if (qp->dci) {
		soft_avs_free(qp);
		free(qp->dci->streams);
		free(qp->dci->keys);
	}
	free(qp->dci);
	free(qp->dct);
}

/* ---- states ----------------------------------------------------------- */

struct step {
	enum ibv_qp_state from, to;
	int required, optional;
};

/* Linux, hw/mlx5/qp.c: modify_dci_qp_is_ok() */
static const struct step dci_steps[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT,
	  IBV_QP_PKEY_INDEX | IBV_QP_PORT, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT,
	  0, IBV_QP_PKEY_INDEX | IBV_QP_PORT },
	{ IBV_QPS_INIT, IBV_QPS_RTR,
	  IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX | IBV_QP_AV },
	{ IBV_QPS_RTR, IBV_QPS_RTS,
	  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
	  IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_SQ_PSN, IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_MIN_RNR_TIMER },
};

/* Linux, hw/mlx5/qp.c: mlx5_ib_modify_dct() */
static const struct step dct_steps[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT,
	  IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT, 0 },
	{ IBV_QPS_INIT, IBV_QPS_RTR,
	  IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU, 0 },
};

static bool step_ok(const struct step *s, size_t n, enum ibv_qp_state from,
		    enum ibv_qp_state to, int mask)
{
	while (n && (s->from != from || s->to != to)) {
		s++;
		n--;
	}
	return n && (mask & s->required) == s->required &&
	       !(mask & ~(s->required | s->optional));
}

bool soft_dc_step_ok(const struct soft_qp *qp, enum ibv_qp_state to, int mask)
{
	if (!(mask & IBV_QP_STATE))
		return false;
	mask &= ~IBV_QP_STATE;
	if (qp->dct)
		return step_ok(dct_steps, sizeof(dct_steps) /
			       sizeof(*dct_steps), qp->state, to, mask);
	if (to == IBV_QPS_RESET)
		return !mask;
	if (to == IBV_QPS_ERR)
		return !mask && qp->state != IBV_QPS_RESET;
	return step_ok(dci_steps, sizeof(dci_steps) / sizeof(*dci_steps),
		       qp->state, to, mask);
}

/* Linux, hw/mlx5/qp.c: mlx5_ib_dct_query_qp() */
bool soft_dc_query_ok(const struct soft_qp *qp, int mask)
{
	const int known = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT |
			  IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU |
			  IBV_QP_PKEY_INDEX;

	return !qp->dct || (qp->state == IBV_QPS_RTR && !(mask & ~known));
}

int soft_dct_ready(struct soft_dev *dev, struct soft_qp *qp)
{
	int err = soft_qp_number(dev, qp);

	if (err)
		return err;
	/* no record comes from this number, so the engine asks the target */
	qp->attr.dest_qp_num = UINT32_MAX;
	list_add_tail(&dev->targets, &qp->dct->node);
	return 0;
}

/* ---- responders ------------------------------------------------------- */

static struct soft_qp *half_new(const struct soft_qp *target)
{
	struct soft_dcr *r = calloc(1, sizeof(*r));
	struct soft_qp *qp = r ? &r->qp : NULL;

	if (!r)
		return NULL;
	list_init(&r->node);
	qp->timer.fn = soft_verbs_up->timer;
	list_init(&qp->timer.node);
	list_init(&qp->late.node);
	list_init(&qp->pend_node);
	list_init(&qp->wait_node);
	list_init(&qp->windows);
	list_init(&qp->opened);
	qp->ibv.context = target->ibv.context;
	qp->ibv.pd = target->ibv.pd;
	qp->ibv.recv_cq = target->ibv.recv_cq;
	qp->ibv.qp_type = target->ibv.qp_type;
	qp->ibv.qp_num = target->ibv.qp_num;
	qp->pd = target->pd;
	qp->recv_pd = target->recv_pd;
	qp->srq = target->srq;
	qp->gone = true;		/* raises no events of its own */
	if (!soft_rq_init(&qp->rq, 1, qp->srq->rq.max_sge))
		return qp;
	soft_rq_fini(&qp->rq);
	free(r);
	return NULL;
}

struct soft_dcr *soft_dcr_new(const struct soft_qp *target, uint32_t dci)
{
	struct soft_qp *qp = half_new(target);
	struct soft_dcr *r;

	if (!qp)
		return NULL;
	r = list_entry(qp, struct soft_dcr, qp);
	qp->attr.dest_qp_num = dci;
	list_add_tail(&target->dct->dcrs[dci % SOFT_DCRS], &r->node);
	return r;
}

struct soft_dcr *soft_dcr_find(const struct soft_dct *dct, uint32_t dci)
{
	const struct list *head = &dct->dcrs[dci % SOFT_DCRS];

	for (struct list *n = head->next; n != head; n = n->next) {
		struct soft_dcr *r = list_entry(n, struct soft_dcr, node);

		if (r->qp.attr.dest_qp_num == dci)
			return r;
	}
	return NULL;
}

void soft_dcr_free(struct soft_dev *dev, struct soft_dcr *r)
{
	/* a receive that was taken comes back as flushed */
	soft_qp_error(dev, &r->qp);
	list_del(&r->node);
	list_del(&r->qp.pend_node);
	soft_wire_put(dev, r->qp.wire);
	soft_rq_fini(&r->qp.rq);
	free(r);
}
