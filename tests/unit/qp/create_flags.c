/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: an endpoint's create_flags reach a device that supports them. A
 * device without support causes a refusal with the reason.
 */
#include "device/device.h"
#include "session/ep.h"
#include "device/verbs_api.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>
#include "../../tuning.h"
#include "../../verbs_of.h"
#include "../own_fabric.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define PADDING	IBV_QP_CREATE_PCI_WRITE_END_PADDING

static struct rdmamsg *ctx;
static bool has_padding;	/* the device reports the flag */
static int refuses;		/* errno of create_qp_ex(), or 0 */
static uint32_t asked;		/* create_flags passed to the device */
static struct verbs_api table;	/* the soft HCA's calls, some replaced */

static int query_device_ex(struct ibv_context *verbs,
			   struct ibv_device_attr_ex *attr)
{
	int ret = rdmamsg__verbs_soft.query_device_ex(verbs, attr);

	if (!ret && has_padding)
		attr->device_cap_flags_ex |= IBV_DEVICE_PCI_WRITE_END_PADDING;
	return ret;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *verbs,
				   struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp;

	assert_true(attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS);
	assert_int_equal(attr->qp_type, IBV_QPT_RC);
	asked |= attr->create_flags;
	errno = refuses;
	if (refuses)
		return NULL;
	attr->create_flags = 0;
	qp = rdmamsg__verbs_soft.create_qp_ex(verbs, attr);
	attr->create_flags = asked;
	return qp;
}

static int set_up(void **state)
{
	has_padding = false;
	asked = 0;
	refuses = 0;
	table = rdmamsg__verbs_soft;
	table.query_device_ex = query_device_ex;
	table.create_qp_ex = create_qp_ex;
	/* which would create the queue pair */
	table.mlx5_is_supported = NULL;
	rdmamsg__verbs = &table;
	return rdmamsg_open(&ctx, NULL);
}

static int tear_down(void **state)
{
	rdmamsg_close(ctx);
	return 0;
}

/* rdmamsg_oob_offer() creates the queue pair at once. */
static int offer(uint32_t flags, struct rdmamsg_ep **ret)
{
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .device = "soft0",
		.tuning = TUNING(.create_flags = flags),
	};

	return rdmamsg_oob_offer(ctx, &opts, ret);
}

static void expect_refused(uint32_t flags, int error, const char *word)
{
	struct rdmamsg_ep *ep;

	assert_int_equal(offer(flags, &ep), error);
	if (!strstr(rdmamsg_error(), word))
		fail_msg("no '%s' in '%s'", word, rdmamsg_error());
}

static void flag__that_the_device_has_GRANTED(void **state)
{
	struct rdmamsg_ep_attr i = { .size = sizeof(i) };
	struct rdmamsg_ep *ep;

	has_padding = true;
	if (offer(PADDING, &ep))
		fail_msg("rdmamsg_oob_offer: %s", rdmamsg_error());
	assert_int_equal(asked, PADDING);
	/* the endpoint knows the capacities that the device granted */
	assert_int_equal(rdmamsg_ep_query(ep, &i), 0);
	assert_true(i.max_inline_data >= PROTO_HDR_LEN && i.max_send_sge);
	assert_ptr_equal(ep->lane.hot.qp->pd, ep->lane.dev->pd);
}

static void flag__that_it_has_not_EOPNOTSUPP(void **state)
{
	expect_refused(PADDING, -EOPNOTSUPP,
		       "IBV_DEVICE_PCI_WRITE_END_PADDING");
	assert_int_equal(asked, 0);
}

static void flag__that_it_only_claims_to_have_EOPNOTSUPP(void **state)
{
	has_padding = true;
	refuses = EOPNOTSUPP;
	expect_refused(PADDING, -EOPNOTSUPP, "queue pair");
	assert_int_equal(asked, PADDING);
}

static void flag__of_another_type_EINVAL(void **state)
{
	has_padding = true;
	expect_refused(IBV_QP_CREATE_SCATTER_FCS, -EINVAL, "SCATTER_FCS");
	expect_refused(IBV_QP_CREATE_SOURCE_QPN | PADDING, -EINVAL,
		       "SOURCE_QPN");
	expect_refused(1u << 20, -EINVAL, "create_flags 0x100000");
	assert_int_equal(asked, 0);
}

static void flag__none_THE_PLAIN_CALL(void **state)
{
	struct rdmamsg_ep *ep;

	refuses = EOPNOTSUPP;
	if (offer(0, &ep))
		fail_msg("rdmamsg_oob_offer: %s", rdmamsg_error());
	assert_int_equal(asked, 0);
}

/* ---- RSS of a device that only notes what it is asked for --------------- */

static const uint8_t rss_key[40] = { 0x6d, 0x5a, 0x56, 0xda };
static struct ibv_wq wqs[2];
static struct ibv_rwq_ind_table indirection;
static int made;		/* queues and tables not destroyed */
static struct ibv_cq *last_cq;
static uint64_t hashed;		/* the fields that the test asks for */

static struct ibv_wq *create_wq(struct ibv_context *verbs,
				struct ibv_wq_init_attr *attr)
{
	struct ibv_wq *wq = &wqs[made++];

	assert_int_equal(attr->wq_type, IBV_WQT_RQ);
	assert_int_equal(attr->max_wr, 4);
	assert_int_equal(attr->max_sge, 2);
	assert_non_null(attr->pd);
	assert_ptr_equal(attr->cq, last_cq);
	wq->context = verbs;
	return wq;
}

static int modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr)
{
	assert_int_equal(attr->attr_mask, IBV_WQ_ATTR_STATE);
	assert_int_equal(attr->wq_state, IBV_WQS_RDY);
	wq->state = attr->wq_state;
	return 0;
}

static int destroy_wq(struct ibv_wq *wq)
{
	made--;
	return 0;
}

static struct ibv_rwq_ind_table *
create_table(struct ibv_context *verbs, struct ibv_rwq_ind_table_init_attr *a)
{
	made++;
	assert_int_equal(a->log_ind_tbl_size, 1);
	for (size_t i = 0; i < 2; i++) {
		assert_ptr_equal(a->ind_tbl[i], &wqs[i]);
		assert_int_equal(wqs[i].state, IBV_WQS_RDY);
	}
	indirection.context = verbs;
	return &indirection;
}

static int destroy_table(struct ibv_rwq_ind_table *t)
{
	made--;
	return 0;
}

static struct ibv_context *open_with_rss(struct ibv_device *device)
{
	struct ibv_context *c = rdmamsg__verbs_soft.open_device(device);
	struct verbs_context *v = c ? verbs_get_ctx(c) : NULL;

	if (!v)
		return c;
	v->create_wq = create_wq;
	v->modify_wq = modify_wq;
	v->destroy_wq = destroy_wq;
	v->create_rwq_ind_table = create_table;
	v->destroy_rwq_ind_table = destroy_table;
	return c;
}

static int query_rss(struct ibv_context *verbs, struct ibv_device_attr_ex *attr)
{
	int ret = rdmamsg__verbs_soft.query_device_ex(verbs, attr);

	attr->rss_caps = (struct ibv_rss_caps) {
		.supported_qpts = 1 << IBV_QPT_UD,
		.max_rwq_indirection_table_size = 2,
		.rx_hash_fields_mask = 0x1ff | (uint64_t)IBV_RX_HASH_INNER,
		.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
	};
	return ret;
}

static struct ibv_cq *note_cq(struct ibv_context *verbs, int cqe, void *context,
			      struct ibv_comp_channel *ch, int vector)
{
	last_cq = rdmamsg__verbs_soft.create_cq(verbs, cqe, context, ch,
						vector);
	return last_cq;
}

static struct ibv_qp *create_rss(struct ibv_context *verbs,
				 struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr_ex plain = {
		.qp_context = attr->qp_context, .send_cq = last_cq,
		.recv_cq = last_cq, .qp_type = attr->qp_type, .pd = attr->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};

	assert_true(attr->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE);
	assert_ptr_equal(attr->rwq_ind_tbl, &indirection);
	assert_true(attr->comp_mask & IBV_QP_INIT_ATTR_RX_HASH);
	assert_int_equal(attr->rx_hash_conf.rx_hash_function,
			 IBV_RX_HASH_FUNC_TOEPLITZ);
	assert_int_equal(attr->rx_hash_conf.rx_hash_fields_mask, hashed);
	assert_int_equal(attr->rx_hash_conf.rx_hash_key_len, sizeof(rss_key));
	assert_memory_equal(attr->rx_hash_conf.rx_hash_key, rss_key,
			    sizeof(rss_key));
	assert_null(attr->send_cq);
	assert_null(attr->recv_cq);
	return rdmamsg__verbs_soft.create_qp_ex(verbs, &plain);
}

/*
 * The mlx5 driver refuses these steps of a queue pair with an indirection
 * table.
 */
static int refuse_steps(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return EOPNOTSUPP;
}

static void make_and_destroy(uint64_t fields)
{
	const struct rdmamsg_rss rss = {
		.size = sizeof(rss), .queues = 2, .key = rss_key,
		.key_len = sizeof(rss_key), .fields = fields,
		.function = IBV_RX_HASH_FUNC_TOEPLITZ,
	};
	const struct rdmamsg_qp_options o = {
		.size = sizeof(o), .device = "soft0", .type = IBV_QPT_UD,
		.max_recv = 4, .max_recv_sge = 2, .rss = &rss,
	};
	struct rdmamsg_qp *qp;

	hashed = fields;
	if (rdmamsg_qp_create(ctx, &o, &qp))
		fail_msg("rdmamsg_qp_create: %s", rdmamsg_error());
	assert_int_equal(made, 3);
	assert_ptr_equal(wq_of(qp, 0), &wqs[0]);
	assert_ptr_equal(wq_of(qp, 1), &wqs[1]);
	assert_null(wq_of(qp, 2));
	assert_ptr_equal(verbs_of(qp).recv_cq, last_cq);
	assert_int_equal(rdmamsg_qp_destroy(qp), 0);
	assert_int_equal(made, 0);
}

static void rss__each_field_REACHES_A_DEVICE_WITHOUT_STEPS(void **state)
{
	table.open_device = open_with_rss;
	table.query_device_ex = query_rss;
	table.create_cq = note_cq;
	table.create_qp_ex = create_rss;
	table.modify_qp = refuse_steps;
	for (int i = 0; i < 9; i++) {
		make_and_destroy(1u << i);
		make_and_destroy(1u << i | (uint64_t)IBV_RX_HASH_INNER);
	}
	make_and_destroy(0x1ff);
	assert_null(wq_of(NULL, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
		T(flag__that_the_device_has_GRANTED),
		T(flag__that_it_has_not_EOPNOTSUPP),
		T(flag__that_it_only_claims_to_have_EOPNOTSUPP),
		T(flag__of_another_type_EINVAL),
		T(flag__none_THE_PLAIN_CALL),
		T(rss__each_field_REACHES_A_DEVICE_WITHOUT_STEPS),
	};

	join_own_fabric("create_flags");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
