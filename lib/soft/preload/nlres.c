/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers to "rdma resource show", in place of the kernel's. The resources are
 * those of all processes of the fabric, which tell them over the sockets that
 * rdmamsg-soft-ctl(1) uses. They are only shown.
 */
#include "soft/preload/nldev.h"

#include <errno.h>
#include <linux/netlink.h>
#include <string.h>

#include <rdma/rdma_netlink.h>

#include "soft/control/soft_ctl.h"

#define ENTRY_MAX	512u		/* bytes of an entry of a list */
#define OBJECTS_MAX	(1u << 20)	/* that one process may tell of */

/* Finds the next node that answers. A stopped process does not. */
static bool next_node(struct soft_ctl *ctl, uint32_t *next,
		      struct soft_ctl_node *ret)
{
	int err;

	do
		err = soft_ctl_next(ctl, next, ret);
	while (err == -ETIMEDOUT);
	return !err;
}

static void tell_sum(struct nl_answer *a, const char *name, uint64_t n)
{
	const size_t nest = nl_nest(a, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);

	nl_put_string(a, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, name);
	nl_put_u64(a, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, n);
	nl_nest_end(a, nest);
}

int nldev_summary(struct ask *ask)
{
	uint64_t pd = 0, cq = 0, qp = 0, cm_id = 0, mr = 0, ctx = 0, srq = 0;
	struct nl_answer *a = ask->a;
	struct soft_ctl_node d;
	struct soft_ctl *ctl;
	uint32_t next = 0;
	size_t nest;
	int err = soft_ctl_open(NULL, &ctl);

	if (err)
		return err;
	while (next_node(ctl, &next, &d)) {
		pd += d.pds;
		cq += d.cqs;
		qp += d.qps;
		cm_id += d.cm_ids;
		mr += d.mrs;
		ctx += d.contexts;
		srq += d.srqs;
	}
	soft_ctl_close(ctl);
	nldev_begin(ask);
	nest = nl_nest(a, RDMA_NLDEV_ATTR_RES_SUMMARY);
	tell_sum(a, "pd", pd);
	tell_sum(a, "cq", cq);
	tell_sum(a, "qp", qp);
	tell_sum(a, "cm_id", cm_id);
	tell_sum(a, "mr", mr);
	tell_sum(a, "ctx", ctx);
	tell_sum(a, "srq", srq);
	nl_nest_end(a, nest);
	nl_end(a);
	return 0;
}

/* ---- lists ------------------------------------------------------------ */

/* A list in as many messages as it needs. */
struct res_list {
	struct ask *ask;
	uint16_t attr, entry;		/* of the list, and of one resource */
	enum soft_ctl_kind kind;
	bool open;			/* a message is begun */
	size_t nest, inner;
};

static void list_end(struct res_list *l)
{
	if (!l->open)
		return;
	nl_nest_end(l->ask->a, l->nest);
	nl_end(l->ask->a);
	l->open = false;
}

static void entry_begin(struct res_list *l)
{
	if (l->open && nl_length(l->ask->a) + ENTRY_MAX > NL_MESSAGE_MAX)
		list_end(l);
	if (!l->open) {
		nldev_begin(l->ask);
		l->nest = nl_nest(l->ask->a, l->attr);
		l->open = true;
	}
	l->inner = nl_nest(l->ask->a, l->entry);
}

static void entry_end(struct res_list *l, const struct soft_ctl_node *d)
{
	nl_put_u32(l->ask->a, RDMA_NLDEV_ATTR_RES_PID, (uint32_t)d->pid);
	nl_nest_end(l->ask->a, l->inner);
}

/* ---- queue pairs ------------------------------------------------------ */

static void tell_qp(struct nl_answer *a, const struct soft_ctl_qp *q)
{
	if (q->port)
		nl_put_u32(a, RDMA_NLDEV_ATTR_PORT_INDEX, q->port);
	nl_put_u32(a, RDMA_NLDEV_ATTR_RES_LQPN, q->qpn);
	if (q->type == IBV_QPT_RC || q->type == IBV_QPT_UC) {
		nl_put_u32(a, RDMA_NLDEV_ATTR_RES_RQPN, q->peer);
		nl_put_u32(a, RDMA_NLDEV_ATTR_RES_RQ_PSN, q->rq_psn);
		nl_put_u8(a, RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, q->migration);
	}
	nl_put_u32(a, RDMA_NLDEV_ATTR_RES_SQ_PSN, q->sq_psn);
	nl_put_u8(a, RDMA_NLDEV_ATTR_RES_TYPE, q->type);
	nl_put_u8(a, RDMA_NLDEV_ATTR_RES_STATE, q->state);
}

static void list_qps(struct res_list *l, struct soft_ctl *ctl,
		     const struct soft_ctl_node *d)
{
	struct soft_ctl_qp qps[64];
	uint32_t index = 0;
	int n;

	while ((n = soft_ctl_qps(ctl, d->node, &index, qps, 64)) > 0)
		for (int i = 0; i < n; i++) {
			if (l->ask->port && qps[i].port != l->ask->port)
				continue;
			entry_begin(l);
			tell_qp(l->ask->a, &qps[i]);
			entry_end(l, d);
		}
}

/* ---- other objects ---------------------------------------------------- */

static void tell_pd(struct nl_answer *a, const struct soft_ctl_object *o)
{
	nl_put_u64(a, RDMA_NLDEV_ATTR_RES_USECNT, o->users);
	nl_put_u32(a, RDMA_NLDEV_ATTR_RES_PDN, o->num);
	nl_put_u32(a, RDMA_NLDEV_ATTR_RES_CTXN, o->ctx);
}

static void tell_cq(struct nl_answer *a, const struct soft_ctl_object *o)
{
	nl_put_u32(a, RDMA_NLDEV_ATTR_RES_CQE, o->entries);
	nl_put_u64(a, RDMA_NLDEV_ATTR_RES_USECNT, o->users);
	nl_put_u32(a, RDMA_NLDEV_ATTR_RES_CQN, o->num);
	nl_put_u32(a, RDMA_NLDEV_ATTR_RES_CTXN, o->ctx);
}

/* Without the keys, which Linux tells the administrator only. */
static void tell_mr(struct nl_answer *a, const struct soft_ctl_object *o)
{
	nl_put_u64(a, RDMA_NLDEV_ATTR_RES_MRLEN, o->len);
	nl_put_u32(a, RDMA_NLDEV_ATTR_RES_MRN, o->num);
	nl_put_u32(a, RDMA_NLDEV_ATTR_RES_PDN, o->pd);
}

static void tell_srq(struct nl_answer *a, const struct soft_ctl_object *o)
{
	nl_put_u32(a, RDMA_NLDEV_ATTR_RES_SRQN, o->num);
	nl_put_u8(a, RDMA_NLDEV_ATTR_RES_TYPE, o->type);
	nl_put_u32(a, RDMA_NLDEV_ATTR_RES_PDN, o->pd);
	if (o->cq)
		nl_put_u32(a, RDMA_NLDEV_ATTR_RES_CQN, o->cq);
	/* rdma(8) wants the table of queue pairs, and takes an empty one */
	nl_nest_end(a, nl_nest(a, RDMA_NLDEV_ATTR_RES_QP));
}

static void tell_ctx(struct nl_answer *a, const struct soft_ctl_object *o)
{
	nl_put_u32(a, RDMA_NLDEV_ATTR_RES_CTXN, o->num);
}

static void tell_addr(struct nl_answer *a, uint16_t attr,
		      const struct sockaddr_in6 *addr)
{
	struct sockaddr_storage ss;

	if (!addr->sin6_family)
		return;
	memset(&ss, 0, sizeof(ss));
	memcpy(&ss, addr, sizeof(*addr));
	nl_put(a, attr, &ss, sizeof(ss));
}

static void tell_cm_id(struct nl_answer *a, const struct soft_ctl_object *o)
{
	if (o->port)
		nl_put_u32(a, RDMA_NLDEV_ATTR_PORT_INDEX, o->port);
	if (o->qpn) {
		nl_put_u32(a, RDMA_NLDEV_ATTR_RES_LQPN, o->qpn);
		nl_put_u8(a, RDMA_NLDEV_ATTR_RES_TYPE, o->type);
	}
	nl_put_u32(a, RDMA_NLDEV_ATTR_RES_PS, o->ps);
	nl_put_u8(a, RDMA_NLDEV_ATTR_RES_STATE, o->state);
	tell_addr(a, RDMA_NLDEV_ATTR_RES_SRC_ADDR, &o->src);
	tell_addr(a, RDMA_NLDEV_ATTR_RES_DST_ADDR, &o->dst);
	nl_put_u32(a, RDMA_NLDEV_ATTR_RES_CM_IDN, o->num);
}

static void tell_object(struct nl_answer *a, enum soft_ctl_kind kind,
			const struct soft_ctl_object *o)
{
	static void (*const tell[SOFT_CTL_KINDS])(struct nl_answer *a,
					const struct soft_ctl_object *o) = {
		[SOFT_CTL_PD] = tell_pd, [SOFT_CTL_CQ] = tell_cq,
		[SOFT_CTL_MR] = tell_mr, [SOFT_CTL_CM_ID] = tell_cm_id,
		[SOFT_CTL_CTX] = tell_ctx, [SOFT_CTL_SRQ] = tell_srq,
	};

	tell[kind](a, o);
}

static void list_objects(struct res_list *l, struct soft_ctl *ctl,
			 const struct soft_ctl_node *d)
{
	struct soft_ctl_object objects[16];
	uint32_t next = 1, told = 0;
	int n;

	while (told < OBJECTS_MAX &&
	       (n = soft_ctl_objects(ctl, d->node, l->kind, &next, objects,
				     16)) > 0) {
		told += (uint32_t)n;
		for (int i = 0; i < n; i++) {
			if (l->ask->port && objects[i].port != l->ask->port)
				continue;
			entry_begin(l);
			tell_object(l->ask->a, l->kind, &objects[i]);
			entry_end(l, d);
		}
	}
}

/* ---- requests --------------------------------------------------------- */

/* SOFT_CTL_KINDS stands for queue pairs. */
static const struct {
	uint16_t cmd, attr, entry;
	enum soft_ctl_kind kind;
} lists[] = {
#define LIST(name, kind) { \
	RDMA_NLDEV_CMD_RES_##name##_GET, RDMA_NLDEV_ATTR_RES_##name, \
	RDMA_NLDEV_ATTR_RES_##name##_ENTRY, kind }
	LIST(QP, SOFT_CTL_KINDS), LIST(CM_ID, SOFT_CTL_CM_ID),
	LIST(CQ, SOFT_CTL_CQ), LIST(MR, SOFT_CTL_MR), LIST(PD, SOFT_CTL_PD),
	LIST(CTX, SOFT_CTL_CTX), LIST(SRQ, SOFT_CTL_SRQ),
#undef LIST
};
#define LISTS	(sizeof(lists) / sizeof(lists[0]))

int nldev_list(struct ask *ask, uint16_t cmd)
{
	struct res_list l = { .ask = ask };
	struct soft_ctl_node d;
	struct soft_ctl *ctl;
	uint32_t next = 0;
	size_t i = 0;
	int err;

	while (i < LISTS && lists[i].cmd != cmd)
		i++;
	if (i == LISTS)
		return -EOPNOTSUPP;
	l.attr = lists[i].attr;
	l.entry = lists[i].entry;
	l.kind = lists[i].kind;
	err = soft_ctl_open(NULL, &ctl);
	if (err)
		return err;
	while (next_node(ctl, &next, &d))
		if (l.kind == SOFT_CTL_KINDS)
			list_qps(&l, ctl, &d);
		else
			list_objects(&l, ctl, &d);
	soft_ctl_close(ctl);
	list_end(&l);
	return 0;
}
