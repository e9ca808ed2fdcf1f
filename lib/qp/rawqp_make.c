/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes a program's queue pair, and what it needs. */
#include "base/base.h"
#include "base/list.h"
#include "base/util.h"
#include "device/cq.h"
#include "device/cross.h"
#include "device/device.h"
#include "device/pd.h"
#include "device/verbs_call.h"
#include "qp/rawqp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/verbs.h>

/* Makes a queue that keeps what it has when it is full. */
static int make_unwatched(struct rdmamsg_qp *q, uint32_t entries,
			  struct ibv_cq **ret)
{
	const struct rdmamsg_device *d = q->dev->device;
	struct ibv_cq_init_attr_ex attr = {
		.cqe = entries, .cq_context = q->user, .channel = q->channel,
		.comp_vector = q->opts.comp_vector,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	};
	int err = rdmamsg__v_create_cq_ex(d->verbs, &attr, ret);

	return err == -EOPNOTSUPP || err == -EINVAL || err == -ENOSYS ?
	       rdmamsg__fail(-EOPNOTSUPP, "RDMAMSG_QP_IGNORE_OVERRUN: device "
			     "%s cannot make such a completion queue", d->name) :
	       err ? rdmamsg__fail_verbs(err, "completion queue") : 0;
}

static int make_cq(struct rdmamsg_qp *q, uint64_t entries, struct ibv_cq **ret)
{
	const struct rdmamsg_device *d = q->dev->device;
	int err;

	if (entries > (uint64_t)max(d->attr.max_cqe, 1))
		return rdmamsg__fail(-EINVAL, "a completion queue for %llu "
				     "requests, by max_send and max_recv of "
				     "all queues: device %s allows %d (its "
				     "max_cqe)", (unsigned long long)entries,
				     d->name, d->attr.max_cqe);
	if (q->opts.flags & RDMAMSG_QP_IGNORE_OVERRUN)
		return make_unwatched(q, (uint32_t)max(entries, (uint64_t)1),
				      ret);
	err = rdmamsg__v_create_cq(q->v, d->verbs,
				   (uint32_t)max(entries, (uint64_t)1),
				   q->user, q->channel, q->opts.comp_vector,
				   ret);
	return err ? rdmamsg__fail_verbs(err, "completion queue") : 0;
}

static int set_vector(struct rdmamsg_qp *q)
{
	const struct rdmamsg_device *d = q->dev->device;

	q->opts.comp_vector = rdmamsg__comp_vector(q->dev->ctx, d->verbs,
						   q->opts.comp_vector);
	if (q->opts.comp_vector < (uint32_t)max(d->verbs->num_comp_vectors, 1))
		return 0;
	return rdmamsg__fail(-EINVAL, "comp_vector %u: device %s has %d "
			     "(num_comp_vectors)", q->opts.comp_vector, d->name,
			     d->verbs->num_comp_vectors);
}

static int arm(struct rdmamsg_qp *q)
{
	int ret = 0;

	if (q->channel)
		ret = rdmamsg__rawqp_arm(q, q->recv_cq);
	if (!ret && q->channel && q->send_cq != q->recv_cq)
		ret = rdmamsg__rawqp_arm(q, q->send_cq);
	return ret ? rdmamsg__fail_verbs(ret, "arming a completion queue") : 0;
}

/* Counts the receives that can complete before the program polls. */
static int count_receives(const struct rdmamsg_qp *q, uint64_t *ret)
{
	struct ibv_srq_attr attr;
	int err;

	*ret = (uint64_t)q->opts.max_recv * max(q->rss.queues, 1u);
	if (!q->opts.srq)
		return 0;
	err = rdmamsg__v_query_srq(q->v, q->opts.srq, &attr);
	if (err)
		return rdmamsg__fail_verbs(err, "srq");
	*ret = attr.max_wr;
	return 0;
}

static int number_cqs(struct rdmamsg_qp *q)
{
	const struct rdmamsg_device *d = q->dev->device;
	int ret = rdmamsg__cross_number(d, q->send_cq, &q->send_cq_number);

	if (!ret)
		ret = rdmamsg__cross_number(d, q->recv_cq, &q->recv_cq_number);
	return ret ? rdmamsg__fail(ret, "RDMAMSG_QP_CROSS_CHANNEL: no request "
				   "can wait for a completion queue of device "
				   "%s", d->name) : 0;
}

static int make_cqs(struct rdmamsg_qp *q)
{
	bool two = q->opts.flags & RDMAMSG_QP_TWO_CQS;
	uint64_t recv;
	int ret = set_vector(q);

	if (!ret)
		ret = count_receives(q, &recv);
	if (!ret)
		ret = make_cq(q, q->opts.max_send + (two ? 0 : recv),
			      &q->send_cq);
	if (ret)
		return ret;
	q->recv_cq = q->send_cq;
	ret = two ? make_cq(q, recv, &q->recv_cq) : 0;
	if (!ret && q->opts.flags & RDMAMSG_QP_CROSS_CHANNEL)
		ret = number_cqs(q);
	return ret ? ret : arm(q);
}

int rdmamsg__rawqp_resize(struct rdmamsg_qp *q, struct ibv_cq *cq,
			  uint32_t entries)
{
	uint64_t recv, need = cq == q->send_cq ? q->opts.max_send : 0;
	int ret = count_receives(q, &recv);

	if (ret)
		return ret;
	if (cq == q->recv_cq)
		need += recv;
	if (entries < max(need, (uint64_t)1))
		return rdmamsg__fail(-EINVAL, "a completion queue of %u: the "
				     "requests of the queue pair need %llu",
				     entries, (unsigned long long)need);
	if (entries > (uint64_t)max(q->dev->device->attr.max_cqe, 1))
		return rdmamsg__fail(-EINVAL, "a completion queue of %u: "
				     "device %s allows %d (its max_cqe)",
				     entries,
				     q->dev->device->name,
				     q->dev->device->attr.max_cqe);
	ret = rdmamsg__v_resize_cq(q->v, cq, entries);
	return ret ? rdmamsg__fail_verbs(ret, "resizing a completion queue") :
		     0;
}

static int make_xrcd(struct rdmamsg_qp *q)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1, .oflags = O_CREAT,
	};
	int ret = rdmamsg__v_open_xrcd(q->dev->device->verbs, &attr, &q->xrcd);

	return ret ? rdmamsg__fail_verbs(ret, "XRC domain") : 0;
}

/* Makes the receive queues, sets them ready, and makes their table. */
static int make_table(struct rdmamsg_qp *q)
{
	struct ibv_context *verbs = q->dev->device->verbs;
	struct ibv_wq_init_attr attr = {
		.wq_type = IBV_WQT_RQ, .max_wr = q->opts.max_recv,
		.max_sge = q->opts.max_recv_sge, .pd = q->dev->pd,
		.cq = q->recv_cq,
	};
	struct ibv_rwq_ind_table_init_attr table = { .comp_mask = 0 };
	struct ibv_wq_attr ready = {
		.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY,
	};
	int ret;

	q->wqs = calloc(q->rss.queues, sizeof(*q->wqs));
	if (!q->wqs)
		return rdmamsg__fail(-ENOMEM, "no memory for a queue pair");
	for (uint32_t i = 0; i < q->rss.queues; i++) {
		ret = rdmamsg__v_create_wq(verbs, &attr, &q->wqs[i]);
		if (ret)
			return rdmamsg__fail_verbs(ret, "receive queue");
		if (rdmamsg__v_modify_wq(q->wqs[i], &ready))
			return rdmamsg__fail(-EIO, "a receive queue could not "
					     "be made ready");
	}
	while (1u << table.log_ind_tbl_size < q->rss.queues)
		table.log_ind_tbl_size++;
	table.ind_tbl = q->wqs;
	ret = rdmamsg__v_create_rwq_ind_table(verbs, &table, &q->table);
	return ret ? rdmamsg__fail_verbs(ret, "indirection table") : 0;
}

static void fill_rss(const struct rdmamsg_qp *q, struct ibv_qp_init_attr_ex *a)
{
	const struct rdmamsg_rss *rss = &q->rss;

	a->comp_mask |= IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
	a->rwq_ind_tbl = q->table;
	a->rx_hash_conf = (struct ibv_rx_hash_conf) {
		.rx_hash_function = rss->function,
		.rx_hash_key_len = rss->key_len,
		.rx_hash_key = (uint8_t *)(uintptr_t)rss->key,
		.rx_hash_fields_mask = rss->fields,
	};
	a->send_cq = a->recv_cq = NULL;
	memset(&a->cap, 0, sizeof(a->cap));
}

/*
 * Sets a bit of comp_mask for each field that is used, because a field without
 * its bit is ignored.
 */
static void fill(const struct rdmamsg_qp *q, struct ibv_qp_init_attr_ex *a)
{
	const struct rdmamsg_qp_options *o = &q->opts;

	*a = (struct ibv_qp_init_attr_ex) {
		.qp_context = (char *)(uintptr_t)q + RAWQP_TAG,
		.send_cq = q->send_cq, .recv_cq = q->recv_cq, .srq = o->srq,
		.cap = {
			.max_send_wr = o->max_send, .max_recv_wr = o->max_recv,
			.max_send_sge = o->max_send_sge,
			.max_recv_sge = o->max_recv_sge,
			.max_inline_data = o->max_inline,
		},
		.qp_type = o->type,
		.sq_sig_all = o->flags & RDMAMSG_QP_SIGNAL_ALL,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = q->dev->pd,
		.create_flags = o->create_flags, .source_qpn = o->source_qpn,
		.max_tso_header = (uint16_t)o->max_tso_header,
		.send_ops_flags = o->send_ops,
	};
	if (o->srq)
		a->cap.max_recv_wr = a->cap.max_recv_sge = 0;
	if (o->create_flags)
		a->comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	if (o->max_tso_header)
		a->comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
	if (o->send_ops)
		a->comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	if (o->rss)
		fill_rss(q, a);
	if (o->type != IBV_QPT_XRC_RECV)
		return;
	a->comp_mask = (a->comp_mask & ~(uint32_t)IBV_QP_INIT_ATTR_PD) |
		       IBV_QP_INIT_ATTR_XRCD;
	a->pd = NULL;
	a->xrcd = q->xrcd ? q->xrcd : o->xrcd;
	a->send_cq = a->recv_cq = NULL;
	memset(&a->cap, 0, sizeof(a->cap));
}

static int make_qp(struct rdmamsg_qp *q)
{
	struct rdmamsg_device *d = q->dev->device;
	struct ibv_qp_init_attr_ex attr;
	int ret;

	fill(q, &attr);
	/* some devices lack the extended call */
	if (attr.comp_mask == IBV_QP_INIT_ATTR_PD)
		ret = rdmamsg__v_create_qp(q->v, q->dev->pd,
					   (struct ibv_qp_init_attr *)&attr,
					   &q->ibv);
	else
		ret = rdmamsg__v_create_qp_ex(q->v, d->verbs, &attr, &q->ibv);
	if (ret == -EOPNOTSUPP || ret == -ENOSYS)
		return rdmamsg__fail(-EOPNOTSUPP, "device %s cannot make a "
				     "queue pair like this: type %d, create "
				     "flags 0x%x, send_ops 0x%llx", d->name,
				     q->opts.type, q->opts.create_flags,
				     (unsigned long long)q->opts.send_ops);
	if (ret)
		return rdmamsg__fail_verbs(ret, "queue pair");
	q->cap = attr.cap;
	if (q->opts.send_ops)
		q->ex = q->v->qp_to_qp_ex(q->ibv);
	return 0;
}

int rdmamsg__rawqp_make(struct rdmamsg_qp *q)
{
	int ret = rdmamsg__rawqp_channel(q);

	if (!ret)
		ret = make_cqs(q);
	if (!ret && q->opts.type == IBV_QPT_XRC_RECV && !q->opts.xrcd)
		ret = make_xrcd(q);
	if (!ret && q->opts.rss)
		ret = make_table(q);
	return ret ? ret : make_qp(q);
}

void rdmamsg__rawqp_unmake(struct rdmamsg_qp *q)
{
	if (q->ah)
		(void)rdmamsg__v_destroy_ah(q->v, q->ah);
	if (q->table)
		(void)rdmamsg__v_destroy_rwq_ind_table(q->table);
	for (uint32_t i = 0; q->wqs && i < q->rss.queues; i++)
		if (q->wqs[i])
			(void)rdmamsg__v_destroy_wq(q->wqs[i]);
	free(q->wqs);
	if (q->xrcd)
		(void)rdmamsg__v_close_xrcd(q->xrcd);
	if (q->recv_cq && q->recv_cq != q->send_cq)
		(void)rdmamsg__v_destroy_cq(q->v, q->recv_cq);
	if (q->send_cq)
		(void)rdmamsg__v_destroy_cq(q->v, q->send_cq);
	rdmamsg__rawqp_forget_groups(q);
	rdmamsg__pd_rele(q->opts.pd);
	if (q->dev)
		rdmamsg__dev_put(q->dev);
	list_del(&q->node);
	free(q->device);
	rdmamsg__rawqp_end(q);
}
