/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC domains of the program, and their shared receive queues. */
#include "qp/xrc.h"

#include "base/base.h"
#include "base/ctx.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/util.h"
#include "device/choose.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/pd.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

struct rdmamsg_xrcd {
	struct list node;		/* in ctx->xrcds */
	struct rdmamsg *ctx;
	const struct verbs_api *v;
	struct dev *dev;
	char *device;
	struct rdmamsg_pd *pd;
	struct ibv_xrcd *ibv;
	struct list srqs;
};

struct rdmamsg_xrc_srq {
	struct list node;		/* in xrcd->srqs */
	struct rdmamsg_xrcd *xrcd;
	void *context;
	struct ibv_cq *cq;
	struct ibv_srq *ibv;
	uint32_t number;
};

static bool is_lost(const struct rdmamsg_xrcd *x)
{
	return x->dev->device->gone || rdmamsg__device_lost(x->dev->device);
}

/* ---- domains ---------------------------------------------------------- */

static int open_device(struct rdmamsg_xrcd *x, const char *device)
{
	int ret = rdmamsg__choose_device(device, NULL, &x->v, &x->device);

	if (!ret)
		ret = rdmamsg__dev_get(x->ctx, x->v, x->device, x->pd,
				       &x->dev);
	if (ret)
		return ret;
	if (x->dev->device->attr.device_cap_flags & IBV_DEVICE_XRC)
		return 0;
	return rdmamsg__fail(-EOPNOTSUPP, "device %s has no XRC "
			     "(IBV_DEVICE_XRC)", x->device);
}

/* The kernel shares the domain of a file among those that open it. */
static int open_domain(struct rdmamsg_xrcd *x, const char *file)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1, .oflags = O_CREAT,
	};
	int ret;

	if (file)
		attr.fd = fd_high(open(file, O_RDONLY | O_CREAT | O_CLOEXEC,
				       S_IRUSR | S_IWUSR));
	if (file && attr.fd < 0)
		return rdmamsg__fail(-errno, "%s, the file of an XRC domain: "
				     "%s", file, strerror(errno));
	ret = rdmamsg__v_open_xrcd(x->dev->device->verbs, &attr, &x->ibv);
	if (attr.fd >= 0)
		(void)close(attr.fd);
	return ret ? rdmamsg__fail_verbs(ret, "XRC domain") : 0;
}

static void domain_free(struct rdmamsg_xrcd *x)
{
	rdmamsg__pd_rele(x->pd);
	if (x->dev)
		rdmamsg__dev_put(x->dev);
	list_del(&x->node);
	free(x->device);
	free(x);
}

int rdmamsg_xrcd_open(struct rdmamsg *ctx,
		      const struct rdmamsg_xrcd_options *opts,
		      struct rdmamsg_xrcd **ret_x)
{
	struct rdmamsg_xrcd_options o;
	struct rdmamsg_xrcd *x;
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	if (!ret_x)
		return rdmamsg__fail(-EINVAL, "rdmamsg_xrcd_open: ret is NULL");
	ret = rdmamsg__opts_copy(&o, sizeof(o), opts, "rdmamsg_xrcd_options");
	if (!ret)
		ret = rdmamsg__pd_check(ctx, o.pd);
	if (ret)
		return ret;
	x = calloc(1, sizeof(*x));
	if (!x)
		return rdmamsg__fail(-ENOMEM, "no memory for an XRC domain");
	x->ctx = ctx;
	x->pd = o.pd;
	rdmamsg__pd_hold(x->pd);
	list_init(&x->node);
	list_init(&x->srqs);
	ret = open_device(x, o.device);
	if (!ret)
		ret = open_domain(x, o.file);
	if (ret) {
		domain_free(x);
		return ret;
	}
	list_add_tail(&ctx->xrcds, &x->node);
	*ret_x = x;
	return 0;
}

int rdmamsg_xrcd_close(struct rdmamsg_xrcd *x)
{
	int ret = x ? rdmamsg__ctx_check(x->ctx) : 0;

	if (ret || !x)
		return ret;
	if (!list_empty(&x->srqs))
		return rdmamsg__fail(-EBUSY, "rdmamsg_xrcd_close: the domain "
				     "has shared receive queues: "
				     "rdmamsg_xrc_srq_destroy()");
	ret = rdmamsg__v_close_xrcd(x->ibv);
	if (ret == -EBUSY)
		return rdmamsg__fail(ret, "rdmamsg_xrcd_close: the domain has "
				     "queue pairs: rdmamsg_qp_destroy()");
	/* a removed device leaves only our memory to free */
	if (ret && !is_lost(x))
		return rdmamsg__fail_verbs(ret, "closing an XRC domain");
	domain_free(x);
	return 0;
}

/* ---- shared receive queues -------------------------------------------- */

#define RANGE(...)	RANGE_OF(struct rdmamsg_xrc_srq_options, __VA_ARGS__)

static const struct range ranges[] = {
	RANGE(max_recv, 128, 0, 0, 1u << 20),
	RANGE(max_recv_sge, 1, 0, 0, 1024),
	RANGE(comp_vector, VECTOR_ANY, RDMAMSG_NONE, 0, VECTOR_ANY),
};

static int check_limits(const struct rdmamsg_xrcd *x,
			const struct rdmamsg_xrc_srq_options *o)
{
	const struct ibv_device_attr *a = &x->dev->device->attr;

	if (o->max_recv > (uint32_t)max(min(a->max_srq_wr, a->max_cqe), 0))
		return rdmamsg__fail(-EINVAL, "max_recv %u: device %s allows "
				     "%d (its max_srq_wr and max_cqe)",
				     o->max_recv, x->device,
				     min(a->max_srq_wr, a->max_cqe));
	if (o->max_recv_sge > (uint32_t)max(a->max_srq_sge, 1))
		return rdmamsg__fail(-EINVAL, "max_recv_sge %u: device %s "
				     "allows %d (its max_srq_sge)",
				     o->max_recv_sge, x->device,
				     a->max_srq_sge);
	return 0;
}

static int make_queue(struct rdmamsg_xrc_srq *s,
		      const struct rdmamsg_xrc_srq_options *o)
{
	const struct rdmamsg_xrcd *x = s->xrcd;
	struct ibv_context *verbs = x->dev->device->verbs;
	struct ibv_srq_init_attr_ex attr = {
		.srq_context = s->context,
		.attr = {
			.max_wr = max(o->max_recv, 1u),
			.max_sge = o->max_recv_sge,
		},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC, .pd = x->dev->pd, .xrcd = x->ibv,
	};
	uint32_t vector = rdmamsg__comp_vector(x->ctx, verbs, o->comp_vector);
	int ret = rdmamsg__v_create_cq(x->v, verbs, attr.attr.max_wr,
				       s->context, NULL, vector, &s->cq);

	if (ret)
		return rdmamsg__fail_verbs(ret, "completion queue");
	attr.cq = s->cq;
	ret = rdmamsg__v_create_srq_ex(x->v, verbs, &attr, &s->ibv);
	if (!ret)
		ret = rdmamsg__v_get_srq_num(s->ibv, &s->number);
	return ret ? rdmamsg__fail_verbs(ret, "shared receive queue") : 0;
}

static void srq_free(struct rdmamsg_xrc_srq *s)
{
	if (s->cq && rdmamsg__v_destroy_cq(s->xrcd->v, s->cq))
		log_error("device %s: a completion queue could not be "
			  "destroyed", s->xrcd->device);
	list_del(&s->node);
	free(s);
}

int rdmamsg_xrc_srq_create(struct rdmamsg_xrcd *x,
			   const struct rdmamsg_xrc_srq_options *opts,
			   struct rdmamsg_xrc_srq **ret_s)
{
	struct rdmamsg_xrc_srq_options o;
	struct rdmamsg_xrc_srq *s;
	int ret = x ? rdmamsg__ctx_check(x->ctx) :
		  rdmamsg__fail(-EINVAL, "rdmamsg_xrc_srq_create: the domain "
				"is NULL");

	if (ret)
		return ret;
	if (!ret_s)
		return rdmamsg__fail(-EINVAL, "rdmamsg_xrc_srq_create: ret is "
				     "NULL");
	ret = rdmamsg__opts_copy(&o, sizeof(o), opts,
				 "rdmamsg_xrc_srq_options");
	if (!ret)
		ret = rdmamsg__set_ranges(&o, ranges,
					  sizeof(ranges) / sizeof(ranges[0]));
	if (!ret)
		ret = check_limits(x, &o);
	if (ret)
		return ret;
	s = calloc(1, sizeof(*s));
	if (!s)
		return rdmamsg__fail(-ENOMEM, "no memory for a shared receive "
				     "queue");
	s->xrcd = x;
	s->context = o.context;
	list_init(&s->node);
	ret = make_queue(s, &o);
	if (ret) {
		if (s->ibv)
			(void)rdmamsg__v_destroy_srq(x->v, s->ibv);
		srq_free(s);
		return ret;
	}
	list_add_tail(&x->srqs, &s->node);
	*ret_s = s;
	return 0;
}

int rdmamsg_xrc_srq_destroy(struct rdmamsg_xrc_srq *s)
{
	int ret = s ? rdmamsg__ctx_check(s->xrcd->ctx) : 0;

	if (ret || !s)
		return ret;
	ret = rdmamsg__v_destroy_srq(s->xrcd->v, s->ibv);
	if (ret && !is_lost(s->xrcd))
		return rdmamsg__fail_verbs(ret, "destroying a shared receive "
					   "queue");
	srq_free(s);
	return 0;
}

int rdmamsg_xrc_srq_verbs(const struct rdmamsg_xrc_srq *s,
			  struct rdmamsg_xrc_srq_objects *ret)
{
	struct rdmamsg_xrc_srq_objects v = { .size = sizeof(v) };

	if (!s)
		return rdmamsg__fail(-EINVAL, "rdmamsg_xrc_srq_verbs: srq is "
				     "NULL");
	v.srq = s->ibv;
	v.cq = s->cq;
	v.number = s->number;
	v.xrcd = s->xrcd->ibv;
	return rdmamsg__give(ret, &v, sizeof(v));
}

/* ---- the end of the context ------------------------------------------- */

/* The device still has the domain, which names our memory no more. */
static void leave(struct rdmamsg_xrcd *x)
{
	log_error("%s: the XRC domain remains and device %s stays open until "
		  "the process ends", rdmamsg__text(), x->device);
	rdmamsg__device_keep(x->dev->device);
	domain_free(x);
}

void rdmamsg__xrcds_free(struct rdmamsg *ctx)
{
	while (!list_empty(&ctx->xrcds)) {
		struct rdmamsg_xrcd *x = list_first(&ctx->xrcds,
						    struct rdmamsg_xrcd, node);

		while (!list_empty(&x->srqs)) {
			struct rdmamsg_xrc_srq *s =
				list_first(&x->srqs, struct rdmamsg_xrc_srq,
					   node);

			if (rdmamsg__try(rdmamsg_xrc_srq_destroy(s))) {
				list_del(&s->node);
				free(s);
			}
		}
		if (rdmamsg__try(rdmamsg_xrcd_close(x)))
			leave(x);
	}
}
