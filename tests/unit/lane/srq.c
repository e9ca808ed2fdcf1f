/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the limit of a shared receive queue, on a device that reports it
 * at once if the queue is armed while fewer receives are posted.
 */
#include "base/list.h"
#include "device/verbs_api.h"
#include "lane/srq.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/memory.h>

#define LIMIT	60
#define KEPT	40
#define SGE	3
#define TURNS	200

static struct verbs_api eager;		/* the soft HCA, reporting at once */
static struct rdmamsg_srq *shared;
static struct rdmamsg_pool *pool;
static unsigned int arms, low_arms, reports;
static struct ibv_srq *reached;		/* the queue of a pending event */
/* the event to acknowledge is the test's own */
static bool made_up;
static struct rdmamsg_msg *kept[KEPT];

static void report(struct ibv_srq *srq)
{
	uint64_t one = 1;

	reached = srq;
	assert_int_equal(write(srq->context->async_fd, &one, sizeof(one)),
			 sizeof(one));
}

static int modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
	const struct srq *q = ibv->srq_context;
	int ret = rdmamsg__verbs_soft.modify_srq(ibv, attr, mask);

	if (ret || !(mask & IBV_SRQ_LIMIT))
		return ret;
	arms++;
	if (q->posted < attr->srq_limit) {
		low_arms++;
		report(ibv);
	}
	return 0;
}

static int get_async_event(struct ibv_context *verbs,
			   struct ibv_async_event *ret)
{
	made_up = reached;
	if (!reached)
		return rdmamsg__verbs_soft.get_async_event(verbs, ret);
	ret->event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
	ret->element.srq = reached;
	reached = NULL;
	return 0;
}

static void ack_async_event(struct ibv_async_event *ev)
{
	if (!made_up)
		rdmamsg__verbs_soft.ack_async_event(ev);
}

static void on_event(struct rdmamsg *ctx, const struct rdmamsg_event *ev)
{
	reports += ev->type == IBV_EVENT_SRQ_LIMIT_REACHED;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (server.messages < KEPT)
		kept[server.messages] = msg;
	else
		rdmamsg_msg_free(msg);
	server.messages++;
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_message = on_message, .on_closed = on_closed,
};

/* The pool has 64 buffers, and most of them are needed to reach the limit. */
static void open_server(uint32_t limit, uint32_t overcommit)
{
	static const struct rdmamsg_ctx_handlers on = {
		.size = sizeof(on), .on_event = on_event,
	};
	const struct rdmamsg_options o = { .size = sizeof(o), .handlers = &on };
	const struct rdmamsg_pool_options po = {
		.size = sizeof(po), .max_bytes = 512 << 10,
	};
	struct rdmamsg_srq_options so = {
		.size = sizeof(so), .depth = 128, .limit = limit,
		.overcommit = overcommit, .sge = SGE,
	};

	assert_int_equal(rdmamsg_open(&server.ctx, &o), 0);
	assert_int_equal(rdmamsg_pool_create(server.ctx, &po, &pool), 0);
	so.recv_pool = pool;
	assert_int_equal(rdmamsg_srq_create(server.ctx, &so, &shared), 0);
}

static void connect_them(void)
{
	struct rdmamsg_ep_options eo = {
		.size = sizeof(eo), .handlers = &handlers, .user = &server,
		.srq = shared,
	};
	const struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .ep = &eo,
	};
	struct rdmamsg_listener *l;

	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lo, &l),
			 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	eo.srq = NULL;
	connect_client(&eo);
	WAIT_FOR(server.ep);
}

static void begin(uint32_t limit, uint32_t overcommit)
{
	eager = rdmamsg__verbs_soft;
	eager.modify_srq = modify_srq;
	eager.get_async_event = get_async_event;
	eager.ack_async_event = ack_async_event;
	rdmamsg__verbs = &eager;
	arms = low_arms = reports = 0;
	clear_ends();
	memset(kept, 0, sizeof(kept));
	open_server(limit, overcommit);
	connect_them();
}

static int set_up(void **state)
{
	begin(LIMIT, 0);
	return 0;
}

static int set_up_overcommitted(void **state)
{
	begin(0, 200);
	return 0;
}

static struct srq *part(void)
{
	return list_first(&shared->parts, struct srq, node);
}

static void send_some(unsigned int n)
{
	unsigned int end = server.messages + n;

	while (server.messages < end) {
		while (client.sent < end &&
		       !rdmamsg_send(client.ep, "x", 1, 0, NULL))
			client.sent++;
		both();
	}
}

static void limit__armed_when_it_is_reached_NOT_BEFORE(void **state)
{
	assert_true(arms > 0);
	assert_int_equal(low_arms, 0);
	/* the missing receives are fewer than a batch */
	assert_true(part()->posted + part()->batch > LIMIT);
	send_some(1);
	WAIT_FOR(reports);
	assert_int_equal(low_arms, 0);
}

static void limit__memory_lacks_NOT_ARMED_AGAIN(void **state)
{
	unsigned int before;

	send_some(KEPT);
	assert_true(part()->posted < LIMIT);
	before = arms;
	for (int i = 0; i < TURNS; i++)
		both();
	assert_int_equal(arms, before);
	assert_int_equal(low_arms, 0);
	assert_true(reports > 0);
	/* freed memory lets the library arm the queue again */
	for (int i = 0; i < KEPT; i++)
		rdmamsg_msg_free(kept[i]);
	send_some(10);
	WAIT_FOR(arms > before);
	assert_true(part()->posted + part()->batch > LIMIT);
	assert_int_equal(low_arms, 0);
	before = reports;
	send_some(100);
	WAIT_FOR(reports > before);
	assert_int_equal(low_arms, 0);
}

/* The device reports the limit again and again while memory is missing. */
static void limit__reported_and_memory_lacks_NO_STORM(void **state)
{
	unsigned int before;

	send_some(KEPT);
	before = arms;
	for (int i = 0; i < 10; i++) {
		unsigned int had = reports;

		report(part()->ibv);
		WAIT_FOR(reports > had);
	}
	assert_int_equal(arms, before);
	for (int i = 0; i < KEPT; i++)
		rdmamsg_msg_free(kept[i]);
}

static void sge__of_the_options_IS_THE_DEVICES_QUEUES(void **state)
{
	struct ibv_srq_attr attr;

	assert_int_equal(rdmamsg__verbs_soft.query_srq(part()->ibv, &attr), 0);
	assert_int_equal(attr.max_sge, SGE);
	send_some(3);
	WAIT_FOR(server.messages == 3);
}

static uint64_t ran_empty(void)
{
	struct rdmamsg_srq_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_srq_get_stats(shared, &st), 0);
	return st.ran_empty;
}

/* With limit 0, the library arms the queue only to count ran_empty. */
static void limit__0_and_overcommitted_PROGRAM_NOT_TOLD(void **state)
{
	report(part()->ibv);
	WAIT_FOR(ran_empty());
	assert_int_equal(reports, 0);
}

/* ---- a device without shared receive queues --------------------------- */

static int query_device(struct ibv_context *verbs, struct ibv_device_attr *attr)
{
	int ret = rdmamsg__verbs_soft.query_device(verbs, attr);

	attr->max_srq = attr->max_srq_wr = attr->max_srq_sge = 0;
	return ret;
}

static void device__without_any_EOPNOTSUPP(void **state)
{
	struct rdmamsg_ep_options eo = {
		.size = sizeof(eo), .handlers = &handlers, .user = &client,
	};
	struct rdmamsg_listener *l;

	eager = rdmamsg__verbs_soft;
	eager.query_device = query_device;
	rdmamsg__verbs = &eager;
	clear_ends();
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", NULL, &l),
			 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
	assert_int_equal(rdmamsg_srq_create(client.ctx, NULL, &eo.srq), 0);
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", service, &eo,
					 NULL), 0);
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.error, -EOPNOTSUPP);
	assert_non_null(strstr(client.why.text, "max_srq is 0"));
}

/* ---- the completion vector --------------------------------------------- */

static uint32_t vectors_used;		/* set of 1 << vector */

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
	vectors_used |= 1u << vector;
	return rdmamsg__verbs_soft.create_cq(verbs, cqe, arg, ch, 0);
}

static int set_up_vectored(void **state)
{
	eager = rdmamsg__verbs_soft;
	eager.open_device = open_vectored;
	eager.create_cq = create_vectored;
	rdmamsg__verbs = &eager;
	vectors_used = 0;
	clear_ends();
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
	return 0;
}

static void listen_shared(const struct rdmamsg_srq_options *so)
{
	struct rdmamsg_ep_options eo = {
		.size = sizeof(eo), .handlers = &handlers, .user = &server,
		.tuning = TUNING(.comp_vector = 1),
	};
	const struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .ep = &eo,
	};
	struct rdmamsg_listener *l;

	assert_int_equal(rdmamsg_srq_create(server.ctx, so, &shared), 0);
	eo.srq = shared;
	assert_int_equal(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lo, &l),
			 0);
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
}

/* Sends go through one queue, and receives of all endpoints through another. */
static void vector__of_the_receives_IS_USED_AND_READABLE(void **state)
{
	const struct rdmamsg_srq_options so = {
		.size = sizeof(so), .depth = 128, .comp_vector = 2,
	};
	struct rdmamsg_srq_stats s = { .size = sizeof(s) };
	struct rdmamsg_ep_options eo = {
		.size = sizeof(eo), .handlers = &handlers,
	};

	listen_shared(&so);
	assert_int_equal(rdmamsg_srq_get_stats(shared, &s), 0);
	assert_int_equal(s.comp_vector, 2);
	assert_int_equal(s.cq_entries, 0);
	connect_client(&eo);
	WAIT_FOR(server.ep);
	assert_int_equal(vectors_used, 1u << 0 | 1u << 1 | 1u << 2);
	assert_int_equal(rdmamsg_srq_get_stats(shared, &s), 0);
	assert_true(s.cq_entries >= 128);
	assert_int_equal(s.comp_vector, 2);
	/* messages of the peer come through it */
	server.messages = KEPT;
	assert_int_equal(rdmamsg_send(client.ep, "x", 1, 0, NULL), 0);
	WAIT_FOR(server.messages == KEPT + 1);
	rdmamsg_srq_destroy(shared);
}

static void vector__that_the_device_lacks_EINVAL(void **state)
{
	const struct rdmamsg_srq_options far = {
		.size = sizeof(far), .comp_vector = 70000,
	};
	const struct rdmamsg_srq_options so = {
		.size = sizeof(so), .depth = 128, .comp_vector = 3,
	};
	struct rdmamsg_ep_options eo = {
		.size = sizeof(eo), .handlers = &handlers, .user = &client,
	};

	assert_int_equal(rdmamsg_srq_create(client.ctx, &far, &eo.srq),
			 -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "comp_vector"));
	listen_shared(NULL);
	assert_int_equal(rdmamsg_srq_create(client.ctx, &so, &eo.srq), 0);
	assert_int_equal(rdmamsg_connect(client.ctx, "127.0.0.1", service, &eo,
					 NULL), 0);
	WAIT_FOR(client.closed);
	assert_int_equal(client.why.error, -EINVAL);
	assert_non_null(strstr(client.why.text, "comp_vector 3: device soft0 "
			       "has 3"));
	rdmamsg_srq_destroy(eo.srq);
	rdmamsg_srq_destroy(shared);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, leave_soft)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(limit__armed_when_it_is_reached_NOT_BEFORE),
		TEST(limit__memory_lacks_NOT_ARMED_AGAIN),
		TEST(sge__of_the_options_IS_THE_DEVICES_QUEUES),
		TEST(limit__reported_and_memory_lacks_NO_STORM),
		cmocka_unit_test_setup_teardown(
			limit__0_and_overcommitted_PROGRAM_NOT_TOLD,
			set_up_overcommitted, leave_soft),
		cmocka_unit_test_setup_teardown(
			vector__of_the_receives_IS_USED_AND_READABLE,
			set_up_vectored, leave_soft),
		cmocka_unit_test_setup_teardown(
			vector__that_the_device_lacks_EINVAL,
			set_up_vectored, leave_soft),
		cmocka_unit_test_teardown(device__without_any_EOPNOTSUPP,
					  leave_soft),
	};

	join_own_fabric("srq");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
