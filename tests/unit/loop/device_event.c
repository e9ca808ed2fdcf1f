/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: each async event of a device is told once, with the endpoint or
 * queue pair that it concerns, does what the manual says, and is acknowledged
 * once.
 */
#include "base/base.h"
#include "cm/rdma/cm.h"
#include "device/device.h"
#include "device/verbs_api.h"
#include "session/ep.h"
#include "soft/control/soft_ctl.h"
#include "soft/verbs/calls.h"
#include "../../verbs_of.h"
#include "../own_fabric.h"
#include "../until.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/group.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/verbs.h>

#define SIDES	2

static struct rdmamsg *ctx;
static struct soft_ctl *ctl;
static struct rdmamsg_ep *ep[SIDES];
static uint32_t connected, closed;
static struct rdmamsg_reason why;
static struct rdmamsg_qp *qp;
static struct ibv_srq *qp_srq;
static struct rdmamsg_group *group;
static uint32_t joined, lost, ended;

static struct told {
	int type;
	uint32_t port;
	struct rdmamsg_ep *ep;
	struct rdmamsg_qp *qp;
} told[64];
static uint32_t told_count;

/* ---- reads and acknowledgements --------------------------------------- */

int __real_soft_get_async_event(struct ibv_context *verbs,
				struct ibv_async_event *event);
int __wrap_soft_get_async_event(struct ibv_context *verbs,
				struct ibv_async_event *event);
void __real_soft_ack_async_event(struct ibv_async_event *event);
void __wrap_soft_ack_async_event(struct ibv_async_event *event);
static uint32_t reads, acks;

int __wrap_soft_get_async_event(struct ibv_context *verbs,
				struct ibv_async_event *event)
{
	int ret = __real_soft_get_async_event(verbs, event);

	reads += !ret;
	/* like mlx5 */
	if (!ret && event->event_type == IBV_EVENT_DEVICE_FATAL)
		event->element.port_num = 1;
	return ret;
}

void __wrap_soft_ack_async_event(struct ibv_async_event *event)
{
	acks++;
	__real_soft_ack_async_event(event);
}

/* ---- a context with one of each --------------------------------------- */

static void on_event(struct rdmamsg *c, const struct rdmamsg_event *ev)
{
	assert_ptr_equal(c, ctx);
	assert_string_equal(ev->device, "soft0");
	assert_true(told_count < sizeof(told) / sizeof(told[0]));
	told[told_count++] = (struct told){ ev->type, ev->port, ev->ep,
					    ev->qp };
}

static void on_connected(struct rdmamsg_ep *e)
{
	ep[connected++] = e;
}

static void on_closed(struct rdmamsg_ep *e, const struct rdmamsg_reason *r)
{
	if (e == ep[0])
		why = *r;
	closed++;
}

static void on_joined(struct rdmamsg_group *g)
{
	joined++;
}

static void on_lost(struct rdmamsg_group *g, const struct rdmamsg_reason *r)
{
	lost++;
	why = *r;
}

static void on_ended(struct rdmamsg_group *g, const struct rdmamsg_reason *r)
{
	ended++;
}

#define WAIT_FOR(condition)	UNTIL(ctx, condition)

static void connect_to_itself(struct rdmamsg_srq *srq)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_connected = on_connected,
		.on_closed = on_closed,
	};
	const struct rdmamsg_ep_options eo = {
		.size = sizeof(eo), .handlers = &on, .srq = srq,
		.dead_after_ms = RDMAMSG_NONE, .timeout_ms = WAIT_MS,
	};
	const struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .ep = &eo,
	};
	struct rdmamsg_listener *l;
	char port[8];

	connected = closed = 0;
	assert_int_equal(rdmamsg_listen(ctx, "127.0.0.1", "0", &lo, &l), 0);
	(void)snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(l));
	assert_int_equal(rdmamsg_connect(ctx, "127.0.0.1", port, &eo, NULL),
			 0);
	WAIT_FOR(connected == SIDES);
	rdmamsg_listener_close(l);
}

static void make_qp(void)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = 8, .max_sge = 1 },
	};
	const struct rdmamsg_qp_options plain = { .size = sizeof(plain) };
	struct rdmamsg_qp_options o = { .size = sizeof(o) };
	struct rdmamsg_qp *first;

	/* the domain of the device, for a shared receive queue */
	assert_int_equal(rdmamsg_qp_create(ctx, &plain, &first), 0);
	qp_srq = soft_create_srq(verbs_of(first).qp->pd, &attr);
	assert_non_null(qp_srq);
	o.srq = qp_srq;
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &qp), 0);
	assert_int_equal(rdmamsg_qp_destroy(first), 0);
}

static void join_group(void)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined, .on_lost = on_lost,
		.on_closed = on_ended,
	};
	const struct rdmamsg_group_options o = {
		.size = sizeof(o), .handlers = &on,
	};

	joined = lost = ended = 0;
	assert_int_equal(rdmamsg_group_join(ctx, "239.1.2.3", &o, &group), 0);
	WAIT_FOR(joined == 1);
}

static int set_up(void **state)
{
	static const struct rdmamsg_ctx_handlers on = {
		.size = sizeof(on), .on_event = on_event,
	};
	const struct rdmamsg_options o = { .size = sizeof(o), .handlers = &on };

	told_count = reads = acks = 0;
	assert_int_equal(rdmamsg_open(&ctx, &o), 0);
	connect_to_itself(NULL);
	make_qp();
	join_group();
	assert_int_equal(soft_ctl_open(NULL, &ctl), 0);
	return 0;
}

static int tear_down(void **state)
{
	soft_ctl_close(ctl);
	assert_int_equal(rdmamsg_qp_destroy(qp), 0);
	(void)soft_destroy_srq(qp_srq);
	rdmamsg_close(ctx);
	assert_int_equal(acks, reads);
	return 0;
}

/* ---- one event -------------------------------------------------------- */

static void raise_event(enum ibv_event_type type, uint32_t element)
{
	/* the process is the only node of its fabric */
	assert_int_equal(soft_ctl_event(ctl, SOFT_CTL_ALL, type, element), 0);
}

/*
 * Raises an event and a last one, about another port. Returns what was told
 * before the last one. Events keep their order.
 */
static struct told *raise_and_count(enum ibv_event_type type, uint32_t element,
				    uint32_t *count)
{
	told_count = 0;
	raise_event(type, element);
	raise_event(IBV_EVENT_CLIENT_REREGISTER, 2);
	WAIT_FOR(told_count &&
		 told[told_count - 1].type == IBV_EVENT_CLIENT_REREGISTER);
	*count = told_count - 1;
	assert_int_equal(acks, reads);
	return told;
}

static struct told expect_one(enum ibv_event_type type, uint32_t element)
{
	uint32_t count;
	struct told *t = raise_and_count(type, element, &count);

	if (count != 1)
		fail_msg("'%s' is told %u times",
			 rdmamsg_name(RDMAMSG_NAME_EVENT, type), count);
	assert_int_equal(t->type, type);
	return *t;
}

static void expect_none(enum ibv_event_type type, uint32_t element)
{
	uint32_t count;

	(void)raise_and_count(type, element, &count);
	if (count)
		fail_msg("'%s' is told",
			 rdmamsg_name(RDMAMSG_NAME_EVENT, type));
}

static uint32_t qpn_of(const struct rdmamsg_ep *e)
{
	return e->lane.hot.qp->qp_num;
}

/* ---- ports ------------------------------------------------------------ */

static void port__each_event_IS_TOLD_WITH_ITS_PORT(void **state)
{
	static const enum ibv_event_type types[] = {
		IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_LID_CHANGE,
		IBV_EVENT_PKEY_CHANGE, IBV_EVENT_SM_CHANGE,
		IBV_EVENT_GID_CHANGE,
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct told t = expect_one(types[i], 2);

		assert_int_equal(t.port, 2);
		assert_null(t.ep);
		assert_null(t.qp);
	}
	assert_int_equal(closed, 0);
	assert_int_equal(lost, 0);		/* it uses port 1 */
}

/* ---- queue pairs of the program --------------------------------------- */

static const enum ibv_event_type qp_types[] = {
	IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR,
	IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED, IBV_EVENT_PATH_MIG,
	IBV_EVENT_PATH_MIG_ERR, IBV_EVENT_QP_LAST_WQE_REACHED,
};
#define QP_TYPES	(sizeof(qp_types) / sizeof(qp_types[0]))

static void expect_own(enum ibv_event_type type)
{
	struct told t = expect_one(type, verbs_of(qp).qp->qp_num);

	assert_ptr_equal(t.qp, qp);
	assert_null(t.ep);
	assert_int_equal(t.port, 0);
}

static void qp__of_the_program_IS_NAMED_AND_ENDS_NOTHING(void **state)
{
	for (size_t i = 0; i < QP_TYPES; i++)
		expect_own(qp_types[i]);
	/* its queues */
	expect_own(IBV_EVENT_CQ_ERR);
	expect_own(IBV_EVENT_SRQ_LIMIT_REACHED);
	expect_own(IBV_EVENT_SRQ_ERR);
	assert_int_equal(closed, 0);
	assert_int_equal(lost, 0);
}

/* The event is read, and its queue pair is gone before it is delivered. */
static void qp__destroyed_before_its_event_IS_NOT_NAMED(void **state)
{
	const struct rdmamsg_qp_options o = { .size = sizeof(o) };
	struct rdmamsg_qp *q;

	assert_int_equal(rdmamsg_qp_create(ctx, &o, &q), 0);
	told_count = 0;
	raise_event(IBV_EVENT_COMM_EST, verbs_of(q).qp->qp_num);
	raise_event(IBV_EVENT_CLIENT_REREGISTER, 2);
	assert_int_equal(rdmamsg_qp_destroy(q), 0);
	/* perhaps at the same address */
	assert_int_equal(rdmamsg_qp_create(ctx, &o, &q), 0);
	WAIT_FOR(told_count);
	assert_int_equal(told[0].type, IBV_EVENT_CLIENT_REREGISTER);
	assert_int_equal(rdmamsg_qp_destroy(q), 0);
}

/* ---- endpoints -------------------------------------------------------- */

static void ep__event_that_is_no_error_IS_TOLD(void **state)
{
	static const enum ibv_event_type types[] = {
		IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED, IBV_EVENT_PATH_MIG,
		IBV_EVENT_PATH_MIG_ERR,
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct told t = expect_one(types[i], qpn_of(ep[0]));

		assert_ptr_equal(t.ep, ep[0]);
		assert_null(t.qp);
	}
	expect_none(IBV_EVENT_QP_LAST_WQE_REACHED, qpn_of(ep[0]));
	assert_int_equal(closed, 0);
}

static void ep__error_ENDS_IT(void **state)
{
	static const struct {
		enum ibv_event_type type;
		enum rdmamsg_who who;
		int error;
	} rows[] = {
		{ IBV_EVENT_QP_FATAL, RDMAMSG_WHO_DEVICE, -EIO },
		{ IBV_EVENT_QP_REQ_ERR, RDMAMSG_WHO_PEER, -EPROTO },
		{ IBV_EVENT_QP_ACCESS_ERR, RDMAMSG_WHO_PEER, -EACCES },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rdmamsg_ep *e = ep[0];
		struct told t = expect_one(rows[i].type, qpn_of(e));

		assert_ptr_equal(t.ep, e);
		WAIT_FOR(closed == SIDES);
		assert_int_equal(why.who, rows[i].who);
		assert_int_equal(why.error, rows[i].error);
		connect_to_itself(NULL);
	}
	assert_int_equal(lost, 0);
}

/* siw has these events if the connection has ended, as well. */
static void expect_ended(enum ibv_event_type type, const char *text)
{
	struct rdmamsg_ep *e = ep[0];
	struct rdmamsg_device *d = e->lane.dev->device;
	const enum device_kind kind = d->kind;
	struct told t;

	d->kind = KIND_SIW;
	t = expect_one(type, qpn_of(e));
	assert_ptr_equal(t.ep, e);
	WAIT_FOR(closed == SIDES);
	d->kind = kind;
	assert_int_equal(why.who, RDMAMSG_WHO_NETWORK);
	assert_int_equal(why.cause, RDMAMSG_CAUSE_TRANSPORT);
	assert_int_equal(why.error, -ECONNRESET);
	assert_non_null(strstr(why.text, text));
}

static void ep__error_of_its_own_IS_NOT_THE_PEERS(void **state)
{
	expect_ended(IBV_EVENT_QP_REQ_ERR, "could not be answered");
}

static void ep__error_of_a_request_IS_NOT_THE_DEVICES(void **state)
{
	expect_ended(IBV_EVENT_QP_FATAL, "could not be sent");
}

/*
 * On iWARP a refused request of the peer also ends the connection, which the
 * connection manager may tell first.
 */
static void ep__disconnected_by_a_refusal_IS_THE_REFUSAL(void **state)
{
	const struct cm_event ev = { .type = RDMA_CM_EVENT_DISCONNECTED };
	struct rdmamsg_ep *e = ep[0];
	struct rdmamsg_device *d = e->lane.dev->device;
	const enum device_kind kind = d->kind;

	d->kind = KIND_SIW;
	told_count = 0;
	raise_event(IBV_EVENT_QP_ACCESS_ERR, qpn_of(e));
	rdmamsg__ep_cm_event(ctx, &e->connect.owner, &ev);
	WAIT_FOR(closed == SIDES);
	d->kind = kind;
	assert_int_equal(why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(why.cause, RDMAMSG_CAUSE_ACCESS);
	assert_int_equal(why.error, -EACCES);
}

/* Both ends and the group share a queue, so it ends all of them. */
static void cq__error_ENDS_ITS_USERS(void **state)
{
	struct told t = expect_one(IBV_EVENT_CQ_ERR, qpn_of(ep[0]));

	assert_null(t.ep);
	assert_null(t.qp);
	WAIT_FOR(closed == SIDES && ended == 1);
	assert_int_equal(why.who, RDMAMSG_WHO_DEVICE);
}

static void srq__error_ENDS_ITS_USERS(void **state)
{
	const struct rdmamsg_srq_options so = {
		.size = sizeof(so), .depth = 128,
	};
	struct rdmamsg_srq *srq;
	struct told t;

	assert_int_equal(rdmamsg_srq_create(ctx, &so, &srq), 0);
	connect_to_itself(srq);
	t = expect_one(IBV_EVENT_SRQ_ERR, qpn_of(ep[0]));
	assert_null(t.ep);
	assert_null(t.qp);
	WAIT_FOR(closed == SIDES);
	rdmamsg_srq_destroy(srq);
}

/* ---- groups ----------------------------------------------------------- */

static void group__failed_queue_pair_IS_JOINED_AGAIN(void **state)
{
	struct rdmamsg_group_attr info = { .size = sizeof(info) };
	uint32_t before;

	assert_int_equal(rdmamsg_group_query(group, &info), 0);
	before = info.qp_num;
	(void)expect_one(IBV_EVENT_QP_FATAL, before);
	WAIT_FOR(lost == 1 && joined == 2);
	assert_int_equal(why.who, RDMAMSG_WHO_DEVICE);
	assert_int_equal(why.error, -EIO);
	assert_int_equal(rdmamsg_group_query(group, &info), 0);
	assert_int_not_equal(info.qp_num, before);
	assert_int_equal(closed, 0);
}

/* ---- the device ------------------------------------------------------- */

static void device__fatal_ENDS_ALL_AND_IS_THE_LAST(void **state)
{
	told_count = 0;
	raise_event(IBV_EVENT_DEVICE_FATAL, 0);
	WAIT_FOR(closed == SIDES && told_count >= 2);
	assert_int_equal(told[0].type, IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(told[0].port, 0);
	assert_int_equal(told[1].type, -1);
	assert_int_equal(told_count, 2);
	assert_int_equal(why.cause, RDMAMSG_CAUSE_REMOVED);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(port__each_event_IS_TOLD_WITH_ITS_PORT),
		TEST(qp__of_the_program_IS_NAMED_AND_ENDS_NOTHING),
		TEST(qp__destroyed_before_its_event_IS_NOT_NAMED),
		TEST(ep__event_that_is_no_error_IS_TOLD),
		TEST(ep__error_ENDS_IT),
		TEST(ep__error_of_its_own_IS_NOT_THE_PEERS),
		TEST(ep__error_of_a_request_IS_NOT_THE_DEVICES),
		TEST(ep__disconnected_by_a_refusal_IS_THE_REFUSAL),
		TEST(cq__error_ENDS_ITS_USERS),
		TEST(srq__error_ENDS_ITS_USERS),
		TEST(group__failed_queue_pair_IS_JOINED_AGAIN),
		TEST(device__fatal_ENDS_ALL_AND_IS_THE_LAST),
	};

	join_own_fabric("device-event");
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
