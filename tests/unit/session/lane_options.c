/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the options of an endpoint count for each of its lanes. An
 * option that is RDMAMSG_NONE stays so at a replacement lane, and one that the
 * program leaves out has its default there.
 */
#include "lanes.h"

#include <stddef.h>
#include <rdma/rdma_cma.h>

static struct verbs_api table;
static int tos;			/* of the last connection; -1: not set */

static int set_option(struct rdma_cm_id *id, int level, int name, void *value,
		      size_t len)
{
	if (level == RDMA_OPTION_ID && name == RDMA_OPTION_ID_TOS)
		tos = *(const uint8_t *)value;
	return rdmamsg__verbs_soft.set_option(id, level, name, value, len);
}

static void connect_tuned(const struct rdmamsg_ep_tuning *t)
{
	static const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .tuning = t,
		.failover = &failover,
	};

	tos = -1;
	table = rdmamsg__verbs_soft;
	table.set_option = set_option;
	rdmamsg__verbs = &table;
	(void)set_up(NULL);
	connect_ends(&opts);
}

/* The attributes of a lane that options decide. */
struct lane_attr {
	uint32_t retry_cnt, rnr_retry, min_rnr_timer, timeout, rd_atomic;
	uint32_t dest_rd_atomic, max_inline;
	int tos;
};

static struct lane_attr attr_of(const struct side *s)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	assert_int_equal(table.query_qp(s->ep->lane.hot.qp, &a, IBV_QP_STATE |
					IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_CAP |
					IBV_QP_MIN_RNR_TIMER |
					IBV_QP_MAX_QP_RD_ATOMIC |
					IBV_QP_MAX_DEST_RD_ATOMIC, &init), 0);
	assert_int_equal(a.qp_state, IBV_QPS_RTS);
	return (struct lane_attr){
		a.retry_cnt, a.rnr_retry, a.min_rnr_timer, a.timeout,
		a.max_rd_atomic, a.max_dest_rd_atomic,
		a.cap.max_inline_data, tos,
	};
}

static void lose_and_compare(const char *field)
{
	const struct side *sides[2] = { &client, &server };
	struct lane_attr was[2] = { attr_of(&client), attr_of(&server) };

	tos = -1;
	lose(&client);
	WAIT_FOR((resumed[0] && resumed[1]) || client.closed || server.closed);
	assert_false(client.closed || server.closed);
	for (int i = 0; i < 2; i++) {
		const struct lane_attr is = attr_of(sides[i]);

		if (memcmp(&is, &was[i], sizeof(is)))
			fail_msg("%s: another lane differs", field);
	}
	close_both();
	(void)tear_down(NULL);
}

#define TUNED(name)	{ #name, offsetof(struct rdmamsg_ep_tuning, name) }

static const struct field {
	const char *name;
	size_t offset;
} fields[] = {
	TUNED(max_copy), TUNED(inline_max), TUNED(eager_max),
	TUNED(pieces_max), TUNED(max_lent), TUNED(stall_after_ms),
	TUNED(peer_timeout_ms), TUNED(fetch_timeout_ms), TUNED(ack_timeout),
	TUNED(retry_count), TUNED(rnr_retry_count), TUNED(min_rnr_timer),
	TUNED(tos), TUNED(comp_vector),
};

static void none__at_another_lane_STAYS_NONE(void **state)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		struct rdmamsg_ep_tuning t = { .size = sizeof(t) };

		memcpy((char *)&t + fields[i].offset,
		       &(uint32_t){ RDMAMSG_NONE }, sizeof(uint32_t));
		connect_tuned(&t);
		lose_and_compare(fields[i].name);
	}
}

static void value__at_another_lane_STAYS(void **state)
{
	static const struct rdmamsg_ep_tuning t = {
		.size = sizeof(t), .inline_max = 64, .eager_max = 4096,
		.retry_count = 3, .rnr_retry_count = 2, .min_rnr_timer = 5,
		.ack_timeout = 9, .tos = 32, .initiator_depth = 3,
		.responder_resources = 5,
	};

	connect_tuned(&t);
	assert_int_equal(tos, 32);
	lose_and_compare("values");
}

static void defaults__at_another_lane_STAY(void **state)
{
	connect_tuned(NULL);
	assert_int_equal(tos, -1);
	lose_and_compare("defaults");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none__at_another_lane_STAYS_NONE),
		cmocka_unit_test(value__at_another_lane_STAYS),
		cmocka_unit_test(defaults__at_another_lane_STAY),
	};

	join_own_fabric("lane-options");
	return cmocka_run_group_tests_name("lane_options", tests, NULL, NULL);
}
