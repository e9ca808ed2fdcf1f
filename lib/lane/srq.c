/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues: made and freed. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/handles.h"
#include "base/list.h"
#include "base/util.h"
#include "device/cq.h"
#include "device/device.h"
#include "device/late.h"
#include "device/verbs_call.h"
#include "lane/lanes.h"
#include "lane/srq.h"
#include "memory/pool.h"
#include "memory/share.h"
#include "memory/stretch.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

static int check_range(const char *name, uint32_t value, uint32_t lowest,
		       uint32_t highest)
{
	if (value >= lowest && value <= highest)
		return 0;
	return rdmamsg__fail(-EINVAL, "rdmamsg_srq_options: %s %u: must be %u "
			     "to %u", name, value, lowest, highest);
}

int rdmamsg__srq_options_set(struct rdmamsg_srq_options *o,
			     const struct rdmamsg_srq_options *opts)
{
	int ret = rdmamsg__opts_copy(o, sizeof(*o), opts,
				     "rdmamsg_srq_options");

	if (ret)
		return ret;
	o->depth = o->depth ? o->depth : 4096;
	o->buffer_size = o->buffer_size ? o->buffer_size :
			 PROTO_RECV_MIN - PROTO_HDR_LEN;
	o->floor = o->floor ? o->floor : 4;
	o->overcommit = o->overcommit ? o->overcommit : 100;
	ret = check_range("depth", o->depth, 16, 1u << 20);
	if (!ret)
		ret = check_range("buffer_size", o->buffer_size, 1, 1u << 20);
	if (!ret)
		ret = check_range("floor", o->floor, 1, 1u << 12);
	if (!ret)
		ret = check_range("overcommit", o->overcommit, 100, 10000);
	if (!ret)
		ret = check_range("limit", o->limit, 0, o->depth);
	if (!ret && o->comp_vector != RDMAMSG_NONE)
		ret = check_range("comp_vector", o->comp_vector, 0, 1u << 16);
	if (!o->comp_vector)
		o->comp_vector = VECTOR_ANY;
	o->sge = o->sge ? o->sge : 1;
	return ret ? ret : check_range("sge", o->sge, 1, 255);
}

static uint32_t buf_size(const struct rdmamsg_srq_options *o)
{
	return max(o->buffer_size + PROTO_HDR_LEN, (uint32_t)PROTO_RECV_MIN);
}

static int set_options(struct rdmamsg *ctx, struct rdmamsg_srq_options *o,
		       const struct rdmamsg_srq_options *opts)
{
	int ret = rdmamsg__srq_options_set(o, opts);

	if (!ret)
		ret = rdmamsg__userpool_check(ctx, o->recv_pool,
					      "rdmamsg_srq_options: recv_pool",
					      buf_size(o));
	if (!ret && o->recv_pool)
		o->recv_pool->refs++;
	return ret;
}

int rdmamsg_srq_create(struct rdmamsg *ctx,
		       const struct rdmamsg_srq_options *opts,
		       struct rdmamsg_srq **ret_srq)
{
	struct rdmamsg_srq *srq;
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	if (!ret_srq)
		return rdmamsg__fail(-EINVAL,
				     "rdmamsg_srq_create: ret is NULL");
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return rdmamsg__fail(-ENOMEM, "no memory for a shared receive "
				     "queue");
	ret = set_options(ctx, &srq->opts, opts);
	if (ret) {
		free(srq);
		return ret;
	}
	srq->ctx = ctx;
	srq->object = ++ctx->objects;
	srq->refs = 1;
	list_init(&srq->parts);
	list_add_tail(&ctx->lanes->srq_list, &srq->node);
	*ret_srq = srq;
	return 0;
}

int rdmamsg__srq_options_check(const struct rdmamsg *ctx,
			       const struct rdmamsg_srq *srq)
{
	if (!srq || srq->ctx == ctx)
		return 0;
	return rdmamsg__fail(-EINVAL, "srq: it belongs to another context");
}

/* ---- the part on a device --------------------------------------------- */

static int take_index(struct rdmamsg *ctx, struct srq *q)
{
	uint32_t at;
	int err = rdmamsg__handle_give(&ctx->lanes->srqs, q, 0, SRQ_PARTS, &at);

	if (err == -EMFILE)
		return rdmamsg__fail(err, "a context has at most %d shared "
				     "receive queues in use", SRQ_PARTS);
	if (err)
		return rdmamsg__fail(err, "no memory for a shared receive "
				     "queue");
	q->wr_id = (uint64_t)SRQ_KEY << 32 | 0x80000000u | at << 24;
	return 0;
}

static int create(struct srq *q)
{
	const struct rdmamsg_srq_options *o = &q->owner->opts;
	struct rdmamsg_device *d = q->dev->device;
	struct ibv_srq_init_attr attr = {
		.srq_context = q,
		.attr = { .max_wr = o->depth, .max_sge = o->sge },
	};
	int ret;

	if (d->attr.max_srq <= 0)
		return rdmamsg__fail(-EOPNOTSUPP, "device %s has no shared "
				     "receive queues (its max_srq is 0)",
				     d->name);
	if (o->depth > (uint32_t)max(d->attr.max_srq_wr, 0))
		return rdmamsg__fail(-EINVAL, "depth %u of a shared receive "
				     "queue: device %s allows %d (its "
				     "max_srq_wr)", o->depth, d->name,
				     d->attr.max_srq_wr);
	if (o->sge > (uint32_t)max(d->attr.max_srq_sge, 1))
		return rdmamsg__fail(-EINVAL, "sge %u of a shared receive "
				     "queue: device %s allows %d (its "
				     "max_srq_sge)", o->sge, d->name,
				     d->attr.max_srq_sge);
	ret = rdmamsg__v_create_srq(d->v, q->dev->pd, &attr, &q->ibv);
	return ret ? rdmamsg__fail_verbs(ret, "shared receive queue") : 0;
}

/*
 * With overcommit > 100 the event means that the queue is empty, because more
 * is promised than posted.
 */
static bool tells_empty(const struct srq *q)
{
	return !q->owner->opts.limit && q->owner->opts.overcommit > 100;
}

/*
 * Arms the limit event. A queue that is armed below its limit raises the event
 * at once. So the functions that post receives arm the queue when posted >=
 * arm_at.
 */
void rdmamsg__srq_arm(struct srq *q)
{
	struct ibv_srq_attr attr = { .srq_limit = q->limit };
	int ret;

	q->arm_at = SRQ_NONE;
	ret = rdmamsg__v_modify_srq(q->dev->device->v, q->ibv, &attr,
				    IBV_SRQ_LIMIT);
	if (ret)
		log_warn("context %u: device %s reports no limit of shared "
			 "receive queue %u: %s", q->dev->ctx->number,
			 q->dev->device->name, q->owner->object,
			 strerror(-ret));
}

static void add_stats(struct rdmamsg_srq_stats *to,
		      const struct rdmamsg_srq_stats *st)
{
	to->ran_empty += st->ran_empty;
	to->limit_events += st->limit_events;
	to->strays += st->strays;
	to->refused += st->refused;
}

/* Frees a part, also one that is only partly made. No queue pair uses it. */
void rdmamsg__srq_part_free(struct srq *q)
{
	struct rdmamsg *ctx = q->dev->ctx;

	if (q->ibv && !rdmamsg__late_srq(q->dev, q->ibv) &&
	    rdmamsg__v_destroy_srq(q->dev->device->v, q->ibv))
		log_error("device %s: a shared receive queue could not be "
			  "destroyed", q->dev->device->name);
	for (uint32_t i = 0; q->slots && i < q->active; i++)
		if (q->slots[i].msg)
			rdmamsg__slot_put(q->slots[i].msg);
	if (q->pool)
		rdmamsg__pool_unuse(q->pool);
	if (q->cq)
		rdmamsg__cq_put(q->dev, q->cq, q->depth);
	rdmamsg__handle_take(&ctx->lanes->srqs, q, rdmamsg__srq_index(q));
	add_stats(&q->owner->st, &q->st);
	list_del(&q->node);
	list_del(&q->dev_node);
	free(q->slots);
	free(q);
}

static void set_up(struct srq *q)
{
	uint32_t size = (uint32_t)q->pool->buf_size;

	q->ready = q->holes = q->current = SRQ_NONE;
	q->limit = tells_empty(q) ? 1 : q->owner->opts.limit;
	q->arm_at = q->limit ? q->limit : SRQ_NONE;
	q->batch = rdmamsg__srq_batch(q->depth);
	q->account.floor = q->owner->opts.floor;
	q->account.capacity = (uint32_t)((uint64_t)q->depth *
				q->owner->opts.overcommit / 100) - q->batch;
	for (uint32_t i = 0; i < SRQ_BATCH; i++) {
		q->sge[i].length = size;
		q->wr[i].next = i + 1 < SRQ_BATCH ? &q->wr[i + 1] : NULL;
		q->wr[i].sg_list = &q->sge[i];
		q->wr[i].num_sge = 1;
	}
}

static int part_new(struct rdmamsg_srq *srq, struct dev *dev,
		    struct srq **ret_q)
{
	struct srq *q = calloc(1, sizeof(*q));
	int ret = -ENOMEM;

	if (q) {
		q->depth = srq->opts.depth;
		q->slots = calloc(q->depth, sizeof(*q->slots));
	}
	if (!q || !q->slots) {
		free(q);
		return rdmamsg__fail(-ENOMEM, "no memory for a shared receive "
				     "queue");
	}
	q->owner = srq;
	q->dev = dev;
	list_init(&q->node);
	list_init(&q->dev_node);
	ret = take_index(dev->ctx, q);
	if (!ret)
		ret = rdmamsg__pool_get(dev, DIR_IN, srq->opts.recv_pool,
					buf_size(&srq->opts), &q->pool);
	if (ret)
		goto err;
	rdmamsg__pool_use(q->pool, true);
	set_up(q);
	ret = rdmamsg__cq_get(dev, q->depth, srq->opts.comp_vector, false,
			      &q->cq);
	if (!ret)
		ret = create(q);
	if (ret)
		goto err;
	list_add_tail(&srq->parts, &q->node);
	list_add_tail(&dev->srqs, &q->dev_node);
	log_info("context %u: shared receive queue %u: %u receives on %s",
		 dev->ctx->number, srq->object, q->depth, dev->device->name);
	*ret_q = q;
	return 0;

err:
	rdmamsg__srq_part_free(q);
	return ret;
}

int rdmamsg__srq_part(struct rdmamsg_srq *srq, struct dev *dev,
		      struct srq **ret)
{
	struct list *n;

	list_for_each(n, &srq->parts) {
		struct srq *q = list_entry(n, struct srq, node);

		if (q->dev == dev && !q->failed) {
			*ret = q;
			return 0;
		}
	}
	return part_new(srq, dev, ret);
}

/* ---- events ----------------------------------------------------------- */

bool rdmamsg__srq_event(struct rdmamsg *ctx, const void *ibv, int type)
{
	struct srq *q = NULL;

	for (uint32_t i = 0; i < SRQ_PARTS && (!q || q->ibv != ibv); i++)
		q = rdmamsg__handle_of(&ctx->lanes->srqs, i);
	if (!q || q->ibv != ibv)
		return false;
	if (type == IBV_EVENT_SRQ_ERR) {
		q->failed = true;
		ctx->lanes->srq_failed(q, -EIO, "the device reports that the shared "
				  "receive queue has failed");
		return true;
	}
	if (tells_empty(q))
		q->st.ran_empty++;
	else
		q->st.limit_events++;
	if (q->limit)
		q->arm_at = q->limit;
	rdmamsg__srq_raise(q, q->batch);
	return !tells_empty(q);
}

/* ---- the end ---------------------------------------------------------- */

static void srq_free(struct rdmamsg_srq *srq)
{
	struct list *n, *t;

	list_for_each_safe(n, t, &srq->parts)
		rdmamsg__srq_part_free(list_entry(n, struct srq, node));
	if (srq->opts.recv_pool)
		srq->opts.recv_pool->refs--;
	list_del(&srq->node);
	free(srq);
}

void rdmamsg__srq_rele(struct rdmamsg_srq *srq)
{
	if (srq && !--srq->refs)
		srq_free(srq);
}

void rdmamsg__srqs_dev_free(struct dev *dev)
{
	while (!list_empty(&dev->srqs))
		rdmamsg__srq_part_free(list_first(&dev->srqs, struct srq,
						  dev_node));
}

void rdmamsg__srqs_free(struct rdmamsg *ctx)
{
	while (!list_empty(&ctx->lanes->srq_list))
		srq_free(list_first(&ctx->lanes->srq_list, struct rdmamsg_srq,
				    node));
}

void rdmamsg_srq_destroy(struct rdmamsg_srq *srq)
{
	if (srq && !rdmamsg__ctx_check(srq->ctx))
		rdmamsg__srq_rele(srq);
}

static void part_stats(struct rdmamsg_srq_stats *s, const struct srq *q)
{
	add_stats(s, &q->st);
	s->endpoints += q->account.eps + q->account.lobby;
	s->posted += q->posted;
	s->promised += q->account.promised;
	s->spare += rdmamsg__srq_spare(&q->account);
	s->bytes_pinned += (uint64_t)(q->active - q->hole_count) *
			   q->pool->buf_size;
	s->bytes_private += sizeof(*q) + q->depth * sizeof(*q->slots) +
			    q->active * sizeof(struct rdmamsg_msg);
	s->cq_entries += (uint64_t)q->cq->ibv->cqe;
	s->comp_vector = q->cq->vector;
}

int rdmamsg_srq_get_stats(const struct rdmamsg_srq *srq,
			  struct rdmamsg_srq_stats *stats)
{
	struct rdmamsg_srq_stats s;
	struct list *n;
	int ret;

	if (!srq)
		return rdmamsg__fail(-EINVAL,
				     "rdmamsg_srq_get_stats: srq is NULL");
	ret = rdmamsg__ctx_check(srq->ctx);
	if (ret)
		return ret;
	s = srq->st;
	s.bytes_private = sizeof(*srq);
	s.comp_vector = srq->opts.comp_vector >= VECTOR_ANY ? 0 :
			srq->opts.comp_vector;
	list_for_each(n, &srq->parts)
		part_stats(&s, list_entry(n, struct srq, node));
	return rdmamsg__give(stats, &s, sizeof(s));
}
