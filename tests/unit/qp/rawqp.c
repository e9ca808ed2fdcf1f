/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: queue pairs with each kind of option, on a device with no
 * optional abilities and on one with all of them. The library grants an option
 * or refuses it with the reason.
 */
#include "base/ctx.h"
#include "base/list.h"
#include "device/async.h"
#include "device/device.h"
#include "device/verbs_api.h"
#include "qp/rawqp.h"
#include "../../verbs_of.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <string.h>

static const uint8_t key[40];

#define FULL_QPTS	0xffffffff

static const struct ibv_device_attr_ex full = {
	.orig_attr = {
		.max_qp_wr = 1000, .max_sge = 30,
		.device_cap_flags = IBV_DEVICE_XRC,
	},
	.device_cap_flags_ex = IBV_DEVICE_RAW_SCATTER_FCS |
			       IBV_DEVICE_PCI_WRITE_END_PADDING,
	.tso_caps = { .max_tso = 65536, .supported_qpts = FULL_QPTS },
	.rss_caps = {
		.supported_qpts = FULL_QPTS,
		.max_rwq_indirection_table_size = 64,
		.rx_hash_fields_mask = 0x1ff | (uint64_t)IBV_RX_HASH_INNER,
		.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
	},
	.raw_packet_caps = IBV_RAW_PACKET_CAP_CVLAN_STRIPPING |
			   IBV_RAW_PACKET_CAP_SCATTER_FCS,
};
static const struct ibv_device_attr_ex bare = {
	.orig_attr = { .max_qp_wr = 1000, .max_sge = 30 },
};

#define RSS(...)	.rss = &(const struct rdmamsg_rss){ __VA_ARGS__ }
#define GOOD_RSS	.queues = 4, .function = IBV_RX_HASH_FUNC_TOEPLITZ, \
			.key = key, .key_len = 40

/* results on the full and on the bare device, and a word of the error text */
static const struct {
	struct rdmamsg_qp_options o;
	int full, bare;
	const char *word;
} table[] = {
	{ { .type = 0 }, 0, 0, "" },
	{ { .type = IBV_QPT_UC }, 0, 0, "" },
	{ { .type = IBV_QPT_UD }, 0, 0, "" },
	{ { .type = IBV_QPT_RAW_PACKET }, 0, 0, "" },
	{ { .type = IBV_QPT_XRC_SEND }, 0, -EOPNOTSUPP, "XRC" },
	{ { .type = IBV_QPT_XRC_RECV }, 0, -EOPNOTSUPP, "XRC" },
	{ { .type = IBV_QPT_DRIVER }, -EOPNOTSUPP, -EOPNOTSUPP,
	  "a call of the vendor (of mlx5: rdmamsg_dc(7))" },
	{ { .type = (enum ibv_qp_type)7 }, -EINVAL, -EINVAL, "type" },
	{ { .type = (enum ibv_qp_type)77 }, -EINVAL, -EINVAL, "type" },
	{ { .flags = 1 << 5 }, -EINVAL, -EINVAL, "flags" },
	{ { .flags = RDMAMSG_QP_SOLICITED }, -EINVAL, -EINVAL,
	  "on_completion" },
	{ { .access = 1 << 20 }, -EINVAL, -EINVAL, "access" },
	{ { .max_send = 1001 }, -EINVAL, -EINVAL, "allows 1000" },
	{ { .max_recv = 1001 }, -EINVAL, -EINVAL, "allows 1000" },
	{ { .max_recv = 1001, .srq = (struct ibv_srq *)8 }, 0, 0, "" },
	{ { .max_send_sge = 31 }, -EINVAL, -EINVAL, "allows 30" },
	{ { .max_recv_sge = 31 }, -EINVAL, -EINVAL, "allows 30" },
	{ { .ack_timeout = 32 }, -EINVAL, -EINVAL, "ack_timeout" },
	{ { .source_qpn = 5 }, -EINVAL, -EINVAL, "SOURCE_QPN" },
	{ { .xrcd = (struct ibv_xrcd *)8 }, -EINVAL, -EINVAL, "XRC_RECV" },
	{ { .type = IBV_QPT_XRC_SEND, .srq = (struct ibv_srq *)8 }, -EINVAL,
	  -EOPNOTSUPP, "XRC" },

	{ { .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB }, -EINVAL,
	  -EINVAL, "BLOCK_SELF_MCAST_LB" },
	{ { .type = IBV_QPT_UD,
	    .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB }, 0, 0, "" },
	{ { .create_flags = IBV_QP_CREATE_SCATTER_FCS }, -EINVAL, -EINVAL,
	  "SCATTER_FCS" },
	{ { .type = IBV_QPT_UD, .create_flags = IBV_QP_CREATE_SCATTER_FCS }, 0,
	  -EOPNOTSUPP, "SCATTER_FCS" },
	{ { .type = IBV_QPT_RAW_PACKET,
	    .create_flags = IBV_QP_CREATE_SCATTER_FCS }, 0, -EOPNOTSUPP,
	  "SCATTER_FCS" },
	{ { .type = IBV_QPT_UD, .create_flags = IBV_QP_CREATE_CVLAN_STRIPPING },
	  -EINVAL, -EINVAL, "CVLAN" },
	{ { .type = IBV_QPT_RAW_PACKET,
	    .create_flags = IBV_QP_CREATE_CVLAN_STRIPPING }, 0, -EOPNOTSUPP,
	  "CVLAN" },
	{ { .create_flags = IBV_QP_CREATE_SOURCE_QPN, .source_qpn = 3 },
	  -EINVAL, -EINVAL, "SOURCE_QPN" },
	{ { .type = IBV_QPT_UD, .create_flags = IBV_QP_CREATE_SOURCE_QPN,
	    .source_qpn = 3 }, 0, 0, "" },
	{ { .create_flags = IBV_QP_CREATE_PCI_WRITE_END_PADDING }, 0,
	  -EOPNOTSUPP, "PADDING" },
	{ { .create_flags = 1 << 20 }, -EINVAL, -EINVAL, "create_flags" },

	{ { .send_ops = 0x3ff }, 0, 0, "" },
	{ { .type = IBV_QPT_UC, .send_ops = IBV_QP_EX_WITH_RDMA_READ },
	  -EINVAL, -EINVAL, "RDMA_READ" },
	{ { .type = IBV_QPT_UD, .send_ops = IBV_QP_EX_WITH_RDMA_WRITE },
	  -EINVAL, -EINVAL, "RDMA_WRITE" },
	{ { .type = IBV_QPT_UD, .send_ops = IBV_QP_EX_WITH_SEND |
					    IBV_QP_EX_WITH_SEND_WITH_IMM },
	  0, 0, "" },
	{ { .type = IBV_QPT_XRC_RECV, .send_ops = IBV_QP_EX_WITH_SEND },
	  -EINVAL, -EOPNOTSUPP, "XRC" },
	{ { .send_ops = 1ull << 40 }, -EINVAL, -EINVAL, "send_ops" },
	{ { .send_ops = IBV_QP_EX_WITH_TSO }, -EINVAL, -EINVAL, "TSO" },
	{ { .type = IBV_QPT_UD, .send_ops = IBV_QP_EX_WITH_TSO }, -EINVAL,
	  -EINVAL, "together" },
	{ { .type = IBV_QPT_UD, .max_tso_header = 64 }, -EINVAL, -EINVAL,
	  "together" },
	{ { .type = IBV_QPT_RAW_PACKET, .send_ops = IBV_QP_EX_WITH_TSO,
	    .max_tso_header = 64 }, 0, -EOPNOTSUPP, "tso" },

	{ { .type = IBV_QPT_RAW_PACKET, RSS(GOOD_RSS) }, 0, -EOPNOTSUPP,
	  "rss" },
	{ { .type = IBV_QPT_RAW_PACKET, RSS(GOOD_RSS, .fields = 0x1ff) }, 0,
	  -EOPNOTSUPP, "rss" },
	{ { .type = IBV_QPT_RAW_PACKET,
	    RSS(GOOD_RSS, .fields = IBV_RX_HASH_INNER) }, -EINVAL, -EINVAL,
	  "INNER" },
	{ { .type = IBV_QPT_RAW_PACKET,
	    RSS(GOOD_RSS, .fields = IBV_RX_HASH_INNER | 1) }, 0, -EOPNOTSUPP,
	  "rss" },
	{ { .type = IBV_QPT_RAW_PACKET, RSS(GOOD_RSS, .fields = 1 << 9) },
	  -EINVAL, -EINVAL, "fields" },
	{ { .type = IBV_QPT_RAW_PACKET, RSS(.queues = 0) }, -EINVAL, -EINVAL,
	  "queues" },
	{ { .type = IBV_QPT_RAW_PACKET, RSS(.queues = 3) }, -EINVAL, -EINVAL,
	  "queues" },
	{ { .type = IBV_QPT_RAW_PACKET, RSS(.queues = 2, .key_len = 4) },
	  -EINVAL, -EINVAL, "key" },
	{ { .type = IBV_QPT_RAW_PACKET, RSS(.queues = 128, .function = 1) },
	  -EINVAL, -EOPNOTSUPP, "rss" },
	{ { .type = IBV_QPT_RAW_PACKET, RSS(.queues = 2, .function = 2) },
	  -EOPNOTSUPP, -EOPNOTSUPP, "rss" },
	{ { .type = IBV_QPT_RAW_PACKET, RSS(.queues = 2) }, -EOPNOTSUPP,
	  -EOPNOTSUPP, "rss" },
	{ { .type = IBV_QPT_RAW_PACKET, RSS(GOOD_RSS), .send_ops = 4 },
	  -EINVAL, -EINVAL, "rss" },
};

static void try(size_t i, const struct ibv_device_attr_ex *a, int want)
{
	const struct rdmamsg_qp_handlers none = { .size = sizeof(none) };
	struct rdmamsg_qp_options o = table[i].o;
	int ret = rdmamsg__rawqp_ranges(&o, &none);

	if (!ret)
		ret = rdmamsg__rawqp_check(&o, o.rss, a, "dev0");
	if (ret != want)
		fail_msg("row %zu, %s device: %d (%s), not %d", i,
			 a == &full ? "full" : "bare", ret, rdmamsg_error(),
			 want);
	if (ret && !strstr(rdmamsg_error(), table[i].word))
		fail_msg("row %zu: no '%s' in '%s'", i, table[i].word,
			 rdmamsg_error());
}

static void check__every_option_GRANTED_OR_REFUSED(void **state)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		try(i, &full, table[i].full);
		try(i, &bare, table[i].bare);
	}
}

/* The size of the shared receive queue decides the size of the CQ. */
static void cq__of_a_shared_queue_HAS_ROOM(void **state)
{
	struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = "soft0", .max_send = 8,
	};
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = 1000, .max_sge = 1 },
	};
	struct rdmamsg_qp *a, *b;
	struct rdmamsg *ctx;

	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &a), 0);
	o.srq = rdmamsg__verbs_soft.create_srq(verbs_of(a).qp->pd, &attr);
	assert_non_null(o.srq);
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &b), 0);
	assert_true(verbs_of(b).recv_cq->cqe >= 1008);
	assert_int_equal(rdmamsg_qp_destroy(b), 0);
	assert_int_equal(rdmamsg__verbs_soft.destroy_srq(o.srq), 0);
	assert_int_equal(rdmamsg_qp_destroy(a), 0);
	rdmamsg_close(ctx);
}

/* ---- completion queues of other sizes and vectors ---------------------- */

static struct verbs_api vectored;	/* the soft HCA with three vectors */
static int last_vector;

static struct ibv_context *open_vectored(struct ibv_device *device)
{
	struct ibv_context *verbs = rdmamsg__verbs_soft.open_device(device);

	if (verbs)
		verbs->num_comp_vectors = 3;
	return verbs;
}

static struct ibv_cq *create_vectored(struct ibv_context *verbs, int cqe,
				      void *arg, struct ibv_comp_channel *ch,
				      int vector)
{
	last_vector = vector;
	return rdmamsg__verbs_soft.create_cq(verbs, cqe, arg, ch, 0);
}

static void cq__vector_IS_CHECKED_AND_USED(void **state)
{
	struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = "soft0", .comp_vector = 3,
	};
	struct rdmamsg_qp_attr a = { .size = sizeof(a) };
	struct rdmamsg_qp *q;
	struct rdmamsg *ctx;

	vectored = rdmamsg__verbs_soft;
	vectored.open_device = open_vectored;
	vectored.create_cq = create_vectored;
	rdmamsg__verbs = &vectored;
	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &q), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "comp_vector 3: device soft0 "
			       "has 3"));
	o.comp_vector = 2;
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &q), 0);
	assert_int_equal(last_vector, 2);
	assert_int_equal(rdmamsg_qp_query(q, &a), 0);
	assert_int_equal(a.comp_vector, 2);
	assert_int_equal(rdmamsg_qp_destroy(q), 0);
	rdmamsg_close(ctx);
	rdmamsg__verbs = &rdmamsg__verbs_system;
}

/* In verbs, the context of a completion queue is the program's. */
static void cq__context_IS_THE_USER(void **state)
{
	int mine;
	const struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = "soft0", .user = &mine,
		.flags = RDMAMSG_QP_TWO_CQS,
	};
	struct rdmamsg_qp *q;
	struct rdmamsg *ctx;

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &q), 0);
	assert_ptr_equal(rdmamsg_qp_user(q), &mine);
	assert_ptr_equal(verbs_of(q).send_cq->cq_context, &mine);
	assert_ptr_equal(verbs_of(q).recv_cq->cq_context, &mine);
	assert_int_equal(rdmamsg_qp_destroy(q), 0);
	rdmamsg_close(ctx);
	rdmamsg__verbs = &rdmamsg__verbs_system;
}

static void resized(struct rdmamsg_qp *q, struct ibv_cq *cq, uint32_t entries,
		    int want, const char *word)
{
	assert_int_equal(rdmamsg_qp_resize_cq(q, cq, entries), want);
	if (want)
		assert_non_null(strstr(rdmamsg_error(), word));
}

static void cq__resized_HAS_THE_ROOM(void **state)
{
	const struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = "soft0", .max_send = 8,
		.max_recv = 16, .flags = RDMAMSG_QP_TWO_CQS,
	};
	struct rdmamsg_qp_attr a = { .size = sizeof(a) };
	struct rdmamsg_qp *q, *other;
	struct ibv_cq *send, *recv;
	struct rdmamsg *ctx;

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &q), 0);
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &other), 0);
	send = verbs_of(q).send_cq;
	recv = verbs_of(q).recv_cq;
	resized(q, send, 5000, 0, "");
	assert_true(send->cqe >= 5000 && recv->cqe < 5000);
	resized(q, recv, 6000, 0, "");
	assert_int_equal(rdmamsg_qp_query(q, &a), 0);
	assert_int_equal(a.send_cq_entries, send->cqe);
	assert_int_equal(a.recv_cq_entries, recv->cqe);
	assert_true(a.recv_cq_entries >= 6000);
	resized(q, send, 8, 0, "");
	resized(q, send, 7, -EINVAL, "need 8");
	resized(q, recv, 15, -EINVAL, "need 16");
	resized(q, send, UINT32_MAX, -EINVAL, "max_cqe");
	resized(q, NULL, 100, -EINVAL, "not a completion queue");
	resized(q, verbs_of(other).send_cq, 100, -EINVAL, "not a completion");
	assert_int_equal(rdmamsg_qp_destroy(other), 0);
	assert_int_equal(rdmamsg_qp_destroy(q), 0);
	rdmamsg_close(ctx);
	rdmamsg__verbs = &rdmamsg__verbs_system;
}

/* ---- more than a completion queue can hold ----------------------------- */

/* a soft HCA with huge limits */
static struct verbs_api vast;

static int query_device_ex(struct ibv_context *verbs,
			   struct ibv_device_attr_ex *attr)
{
	*attr = full;
	attr->orig_attr.max_qp_wr = 1 << 20;
	attr->rss_caps.max_rwq_indirection_table_size = 1u << 31;
	return 0;
}

static int query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	attr->max_wr = UINT32_MAX;
	return 0;
}

static void refused(struct rdmamsg *ctx, const struct rdmamsg_qp_options *o)
{
	struct rdmamsg_qp *q;

	assert_int_equal(rdmamsg_qp_create(ctx, o, &q), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "max_cqe"));
}

static void cq__of_too_many_queues_EINVAL(void **state)
{
	struct rdmamsg_rss rss = { .size = sizeof(rss), GOOD_RSS };
	struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = "soft0", .max_send = 8,
		.max_recv = 1 << 20, .type = IBV_QPT_RAW_PACKET, .rss = &rss,
	};
	struct rdmamsg_qp *q;
	struct ibv_srq srq;
	struct rdmamsg *ctx;

	vast = rdmamsg__verbs_soft;
	vast.query_device_ex = query_device_ex;
	vast.query_srq = query_srq;
	rdmamsg__verbs = &vast;
	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	/* queues * 4096 wraps to 0 in 32 bits */
	for (rss.queues = 1024; rss.queues; rss.queues *= 2)
		refused(ctx, &o);
	o = (struct rdmamsg_qp_options) {
		.size = sizeof(o), .device = "soft0", .max_send = 8,
	};
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &q), 0);
	/* the library only queries the length of this shared receive queue */
	srq = (struct ibv_srq) { .pd = verbs_of(q).qp->pd };
	o.srq = &srq;
	refused(ctx, &o);
	rdmamsg_close(ctx);
	rdmamsg__verbs = &rdmamsg__verbs_system;
}

/* ---- member of a multicast group when its context closes --------------- */

/* the soft HCA's calls, some counted */
static struct verbs_api watched;
static struct ibv_async_event event;
static unsigned int cqs_destroyed, devices_closed, told;
static struct ibv_qp *stuck;

static int destroy_cq(struct ibv_cq *cq)
{
	cqs_destroyed++;
	return rdmamsg__verbs_soft.destroy_cq(cq);
}

static int close_device(struct ibv_context *verbs)
{
	devices_closed++;
	return rdmamsg__verbs_soft.close_device(verbs);
}

static int get_async_event(struct ibv_context *verbs,
			   struct ibv_async_event *ret)
{
	if (!event.element.qp) {
		errno = EAGAIN;
		return -1;
	}
	*ret = event;
	event.element.qp = NULL;
	return 0;
}

static void ack_async_event(struct ibv_async_event *ev)
{
}

static int watch(void **state)
{
	watched = rdmamsg__verbs_soft;
	watched.destroy_cq = destroy_cq;
	watched.close_device = close_device;
	watched.get_async_event = get_async_event;
	watched.ack_async_event = ack_async_event;
	rdmamsg__verbs = &watched;
	cqs_destroyed = devices_closed = told = 0;
	stuck = NULL;
	return 0;
}

static int unwatch(void **state)
{
	rdmamsg__verbs = &rdmamsg__verbs_system;
	return 0;
}

static const struct rdmamsg_qp *told_of;

static void on_event(struct rdmamsg *ctx, const struct rdmamsg_event *ev)
{
	told++;
	told_of = ev->qp;
}

static const struct rdmamsg_ctx_handlers ctx_on = {
	.size = sizeof(ctx_on), .on_event = on_event,
};
static const struct rdmamsg_options with_events = {
	.size = sizeof(with_events), .handlers = &ctx_on,
};

/* Reports an event of this queue pair through the device of the context. */
static void tell_of(struct rdmamsg *ctx, struct ibv_qp *ibv)
{
	event.event_type = IBV_EVENT_QP_FATAL;
	event.element.qp = ibv;
	rdmamsg__async_read(ctx, list_first(&ctx->devices->devs, struct dev,
					    node)->device);
}

static void destroy__in_groups_of_the_library_LEAVES_THEM(void **state)
{
	union ibv_gid gid = { .raw = { 0xff, 0x0e, [15] = 1 } };
	struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = "soft0", .type = IBV_QPT_UD,
	};
	struct rdmamsg_qp *a, *rc;
	struct rdmamsg *ctx;

	assert_int_equal(rdmamsg_open(&ctx, &with_events), 0);
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &a), 0);
	o.type = IBV_QPT_RC;
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &rc), 0);
	assert_int_equal(rdmamsg_qp_attach(NULL, &gid, 0), -EINVAL);
	assert_int_equal(rdmamsg_qp_attach(a, NULL, 0), -EINVAL);
	assert_int_equal(rdmamsg_qp_attach(rc, &gid, 0), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "type RC"));
	assert_int_equal(rdmamsg_qp_detach(a, &gid, 0), -ENOENT);
	for (gid.raw[15] = 1; gid.raw[15] < 4; gid.raw[15]++)
		assert_int_equal(rdmamsg_qp_attach(a, &gid, 0), 0);
	gid.raw[15] = 2;
	assert_int_equal(rdmamsg_qp_attach(a, &gid, 0), -EALREADY);
	/* the LID is part of a group's name */
	assert_int_equal(rdmamsg_qp_detach(a, &gid, 0xc001), -ENOENT);
	assert_int_equal(rdmamsg_qp_detach(a, &gid, 0), 0);
	assert_int_equal(rdmamsg_qp_detach(a, &gid, 0), -ENOENT);
	gid.raw[0] = 0x20;	/* not a group: the device's reason */
	assert_int_equal(rdmamsg_qp_attach(a, &gid, 0), -EINVAL);
	/* it is still in two groups */
	assert_int_equal(watched.destroy_qp(verbs_of(a).qp), EBUSY);
	assert_int_equal(rdmamsg_qp_destroy(a), 0);
	rdmamsg_close(ctx);
	assert_int_equal(cqs_destroyed, 2);
}

static void close__in_a_group_STAYS(void **state)
{
	const union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 1 } };
	struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = "soft0", .type = IBV_QPT_UD,
	};
	struct rdmamsg_qp *a, *b;
	struct rdmamsg *ctx[2];
	struct ibv_qp *ibv;

	for (int i = 0; i < 2; i++)
		assert_int_equal(rdmamsg_open(&ctx[i], &with_events), 0);
	assert_int_equal(rdmamsg_qp_create(ctx[0], &o, &a), 0);
	assert_int_equal(rdmamsg_qp_create(ctx[1], &o, &b), 0);
	ibv = verbs_of(a).qp;
	assert_int_equal(watched.attach_mcast(ibv, &group, 0), 0);
	assert_int_equal(rdmamsg_qp_destroy(a), -EBUSY);
	assert_non_null(strstr(rdmamsg_error(), "multicast group"));
	assert_non_null(strstr(rdmamsg_error(), "ibv_detach_mcast"));
	devices_closed = 0;
	rdmamsg_close(ctx[0]);
	/* the queue pair lives on: its CQ stays, its events reach no handler */
	assert_int_equal(cqs_destroyed, 0);
	tell_of(ctx[1], ibv);
	assert_int_equal(told, 0);
	rdmamsg_close(ctx[1]);
	assert_int_equal(cqs_destroyed, 1);
	assert_int_equal(devices_closed, 0);
	assert_int_equal(watched.detach_mcast(ibv, &group, 0), 0);
}

/* The pointer alone stands for a work queue. */
static void event__of_a_work_queue_NAMES_ITS_QUEUE_PAIR(void **state)
{
	struct rdmamsg_qp_options o = { .size = sizeof(o), .device = "soft0" };
	struct ibv_wq one, other, *wqs[] = { &one };
	struct rdmamsg_qp *q;
	struct rdmamsg *ctx;

	assert_int_equal(rdmamsg_open(&ctx, &with_events), 0);
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &q), 0);
	q->wqs = wqs;
	q->rss.queues = 1;
	event.event_type = IBV_EVENT_WQ_FATAL;
	event.element.wq = &other;
	rdmamsg__async_read(ctx, q->dev->device);
	assert_true(rdmamsg_process(ctx) >= 0);
	assert_int_equal(told, 0);
	event.element.wq = &one;
	rdmamsg__async_read(ctx, q->dev->device);
	assert_true(rdmamsg_process(ctx) >= 0);
	assert_int_equal(told, 1);
	assert_ptr_equal(told_of, q);
	q->wqs = NULL;
	q->rss.queues = 0;
	rdmamsg_close(ctx);
}

/* ---- creation fails, and so does destruction --------------------------- */

static int refuse_modify(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	return EINVAL;
}

static int refuse_destroy(struct ibv_qp *ibv)
{
	stuck = ibv;
	return EIO;
}

static void new__cannot_be_undone_STAYS(void **state)
{
	struct rdmamsg_qp_options o = { .size = sizeof(o), .device = "soft0" };
	struct rdmamsg_qp *q;
	struct rdmamsg *ctx;
	struct dev *dev;
	int refs;

	assert_int_equal(rdmamsg_open(&ctx, &with_events), 0);
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &q), 0);
	dev = list_first(&ctx->devices->devs, struct dev, node);
	refs = dev->device->refs;
	watched.modify_qp = refuse_modify;
	watched.destroy_qp = refuse_destroy;
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &q), -EINVAL);
	/* the CQ and the object that events refer to still exist */
	assert_non_null(stuck);
	assert_int_equal(cqs_destroyed, 0);
	assert_int_equal(dev->device->refs, refs + 1);
	assert_null(rdmamsg__rawqp_of(stuck)->ctx);
	tell_of(ctx, stuck);
	watched.modify_qp = rdmamsg__verbs_soft.modify_qp;
	watched.destroy_qp = rdmamsg__verbs_soft.destroy_qp;
	rdmamsg_close(ctx);
	assert_int_equal(told, 0);
	assert_int_equal(cqs_destroyed, 1);
}

static void free__refused_STAYS(void **state)
{
	struct rdmamsg_qp_options o = { .size = sizeof(o), .device = "soft0" };
	struct rdmamsg_qp_attr info = { .size = sizeof(info) };
	struct rdmamsg_qp *q;
	struct rdmamsg *ctx;

	watched.destroy_qp = refuse_destroy;
	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &q), 0);
	assert_int_equal(rdmamsg_qp_destroy(q), -EIO);
	assert_non_null(strstr(rdmamsg_error(), "still there"));
	assert_int_equal(cqs_destroyed, 0);
	assert_int_equal(rdmamsg_qp_query(q, &info), 0);
	assert_int_equal(info.qp_num, verbs_of(q).qp->qp_num);
	watched.destroy_qp = rdmamsg__verbs_soft.destroy_qp;
	assert_int_equal(rdmamsg_qp_destroy(q), 0);
	assert_int_equal(cqs_destroyed, 1);
	rdmamsg_close(ctx);
}

static int removed_port(struct ibv_context *verbs, uint8_t port,
			struct ibv_port_attr *attr)
{
	return EIO;
}

/* The device refuses all calls before it reports its removal. */
static void free__of_a_removed_device_GOES(void **state)
{
	struct rdmamsg_qp_options o = { .size = sizeof(o), .device = "soft0" };
	struct rdmamsg_qp *q;
	struct rdmamsg *ctx;
	struct ibv_cq *cq;

	assert_int_equal(rdmamsg_open(&ctx, &with_events), 0);
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &q), 0);
	cq = verbs_of(q).send_cq;
	watched.destroy_qp = refuse_destroy;
	watched.query_port = removed_port;
	assert_int_equal(rdmamsg_qp_destroy(q), 0);
	assert_true(list_empty(&ctx->qps));
	/* an event queued before the removal reaches no handler */
	tell_of(ctx, stuck);
	assert_true(rdmamsg_process(ctx) >= 0);
	assert_int_equal(told, 0);
	assert_int_equal(rdmamsg__verbs_soft.destroy_qp(stuck), 0);
	assert_int_equal(rdmamsg__verbs_soft.destroy_cq(cq), 0);
	rdmamsg_close(ctx);
}

/* ---- an endpoint's queue pair cannot be destroyed ---------------------- */

static void ep_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	*(bool *)rdmamsg_ep_user(ep) = true;
}

/*
 * The device still has the queue pair and reports an event after the endpoint
 * ended.
 */
static void event__of_one_that_has_gone_IS_NOBODYS(void **state)
{
	bool closed = false;
	const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_closed = ep_closed,
	};
	struct rdmamsg_ep_options o = {
		.size = sizeof(o), .device = "soft0", .handlers = &on,
		.user = &closed,
	};
	struct rdmamsg_ep *ep;
	struct rdmamsg *ctx;

	watched.destroy_qp = refuse_destroy;
	assert_int_equal(rdmamsg_open(&ctx, &with_events), 0);
	assert_int_equal(rdmamsg_oob_offer(ctx, &o, &ep), 0);
	rdmamsg_ep_abort(ep);
	for (int i = 0; i < 1000 && !closed; i++)
		assert_true(rdmamsg_wait(ctx, 10) >= 0);
	assert_true(closed);
	assert_non_null(stuck);
	tell_of(ctx, stuck);
	assert_true(rdmamsg_process(ctx) >= 0);
	assert_int_equal(told, 0);
	assert_int_equal(rdmamsg__verbs_soft.destroy_qp(stuck), 0);
	watched.destroy_qp = rdmamsg__verbs_soft.destroy_qp;
	rdmamsg_close(ctx);
}

/* ---- the device is removed --------------------------------------------- */

/* A closed device gives EIO: Linux uverbs_main.c, ib_uverbs_event_read() */
static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
			void **arg)
{
	errno = EIO;
	return -1;
}

static void on_completion(struct rdmamsg_qp *qp, struct ibv_cq *cq)
{
	told++;
}

static void removed__with_on_completion_IS_QUIET(void **state)
{
	static const struct rdmamsg_qp_handlers on = {
		.size = sizeof(on), .on_completion = on_completion,
	};
	struct rdmamsg_qp_options o = {
		.size = sizeof(o), .handlers = &on, .device = "soft0",
	};
	struct rdmamsg_qp *q;
	struct rdmamsg *ctx;

	watched.get_cq_event = get_cq_event;
	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &q), 0);
	/* while the device exists, an error leaves the watch on */
	q->watch.fn(&q->watch);
	assert_true(q->watch.on);
	q->dev->device->gone = true;
	q->watch.fn(&q->watch);
	assert_false(q->watch.on);
	assert_int_equal(told, 0);
	assert_int_equal(rdmamsg_qp_destroy(q), 0);
	rdmamsg_close(ctx);
}

#define WATCHED(fn) cmocka_unit_test_setup_teardown(fn, watch, unwatch)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check__every_option_GRANTED_OR_REFUSED),
		cmocka_unit_test(cq__of_a_shared_queue_HAS_ROOM),
		cmocka_unit_test(cq__of_too_many_queues_EINVAL),
		cmocka_unit_test(cq__vector_IS_CHECKED_AND_USED),
		cmocka_unit_test(cq__context_IS_THE_USER),
		cmocka_unit_test(cq__resized_HAS_THE_ROOM),
		WATCHED(destroy__in_groups_of_the_library_LEAVES_THEM),
		WATCHED(close__in_a_group_STAYS),
		WATCHED(event__of_a_work_queue_NAMES_ITS_QUEUE_PAIR),
		WATCHED(new__cannot_be_undone_STAYS),
		WATCHED(free__refused_STAYS),
		WATCHED(free__of_a_removed_device_GOES),
		WATCHED(event__of_one_that_has_gone_IS_NOBODYS),
		WATCHED(removed__with_on_completion_IS_QUIET),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
