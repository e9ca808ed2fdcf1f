/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each async event can be raised: by soft_ctl.h, and by the program that is
 * made of it.
 */
#include "soft/control/soft_ctl.h"
#include "soft/soft.h"
#include "pair.h"

#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../own_fabric.h"

enum about { DEVICE, PORT, QP, CQ, SRQ };

static const struct event {
	enum ibv_event_type type;
	const char *name;
	enum about about;
} events[] = {
	{ IBV_EVENT_CQ_ERR, "CQ_ERR", CQ },
	{ IBV_EVENT_QP_FATAL, "QP_FATAL", QP },
	{ IBV_EVENT_QP_REQ_ERR, "QP_REQ_ERR", QP },
	{ IBV_EVENT_QP_ACCESS_ERR, "QP_ACCESS_ERR", QP },
	{ IBV_EVENT_COMM_EST, "COMM_EST", QP },
	{ IBV_EVENT_SQ_DRAINED, "SQ_DRAINED", QP },
	{ IBV_EVENT_PATH_MIG, "PATH_MIG", QP },
	{ IBV_EVENT_PATH_MIG_ERR, "PATH_MIG_ERR", QP },
	{ IBV_EVENT_DEVICE_FATAL, "DEVICE_FATAL", DEVICE },
	{ IBV_EVENT_PORT_ACTIVE, "PORT_ACTIVE", PORT },
	{ IBV_EVENT_PORT_ERR, "PORT_ERR", PORT },
	{ IBV_EVENT_LID_CHANGE, "LID_CHANGE", PORT },
	{ IBV_EVENT_PKEY_CHANGE, "PKEY_CHANGE", PORT },
	{ IBV_EVENT_SM_CHANGE, "SM_CHANGE", PORT },
	{ IBV_EVENT_SRQ_ERR, "SRQ_ERR", SRQ },
	{ IBV_EVENT_SRQ_LIMIT_REACHED, "SRQ_LIMIT_REACHED", SRQ },
	{ IBV_EVENT_QP_LAST_WQE_REACHED, "QP_LAST_WQE_REACHED", QP },
	{ IBV_EVENT_CLIENT_REREGISTER, "CLIENT_REREGISTER", PORT },
	{ IBV_EVENT_GID_CHANGE, "GID_CHANGE", PORT },
};
#define EVENTS	(sizeof(events) / sizeof(*events))
/* there are no work queues of their own; it is the only one without */
_Static_assert(EVENTS == IBV_EVENT_WQ_FATAL, "each");

static struct soft_ctl *ctl;
static struct ibv_srq *srq;

static uint32_t self(void)
{
	return qp[1]->qp_num >> 14;
}

static int setup(void **state)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 4, .max_sge = 1 } };

	if (open_device(state) || soft_ctl_open(NULL, &ctl))
		return -1;
	srq = soft_create_srq(pd, &a);
	if (!srq)
		return -1;
	make_pair(srq);
	return 0;
}

static int teardown(void **state)
{
	destroy_pair();
	assert_int_equal(soft_destroy_srq(srq), 0);
	soft_ctl_close(ctl);
	return close_device(state);
}

static uint32_t element(const struct event *e)
{
	return e->about == DEVICE ? 0 : e->about == PORT ? 2 : qp[1]->qp_num;
}

/* Expects exactly one event, of this type and for this object. */
static void expect_this(const struct event *e)
{
	struct ibv_async_event ev = expect_event(e->type);

	switch (e->about) {
	case PORT:
		assert_int_equal(ev.element.port_num, 2);
		break;
	case QP:
		assert_ptr_equal(ev.element.qp, qp[1]);
		break;
	case CQ:
		assert_ptr_equal(ev.element.cq, cq);
		break;
	case SRQ:
		assert_ptr_equal(ev.element.srq, srq);
		break;
	case DEVICE:
		break;
	}
	assert_false(event_waits());
}

static void event__each_RAISED_ONCE(void **state)
{
	for (size_t i = 0; i < EVENTS; i++) {
		assert_int_equal(soft_ctl_event(ctl, self(), events[i].type,
						element(&events[i])), 0);
		expect_this(&events[i]);
	}
}

/* Runs rdmamsg-soft-ctl(1) and returns its exit status. */
static int tell(const char *name, uint32_t about)
{
	char *program = (char *)"lib/soft/tools/rdmamsg-soft-ctl";
	char node[16], number[16];
	char *argv[] = {
		program, (char *)"-n", node, (char *)"event", (char *)name,
		number, NULL,
	};
	int status;
	pid_t pid;

	(void)snprintf(node, sizeof(node), "%u", self());
	(void)snprintf(number, sizeof(number), "%u", about);
	assert_int_equal(posix_spawn(&pid, program, NULL, NULL, argv, environ),
			 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void program__each_RAISED_ONCE(void **state)
{
	if (access("lib/soft/tools/rdmamsg-soft-ctl", X_OK))
		skip();
	for (size_t i = 0; i < EVENTS; i++) {
		assert_int_equal(tell(events[i].name, element(&events[i])), 0);
		expect_this(&events[i]);
	}
	assert_int_equal(tell("WQ_FATAL", 0), 2);
	assert_int_equal(tell("GID_CHANGE", 3), 1);
	assert_false(event_waits());
}

static void event__about_nothing_EINVAL(void **state)
{
	for (size_t i = 0; i < EVENTS; i++) {
		const struct event *e = &events[i];

		if (e->about == DEVICE)
			continue;
		assert_int_equal(soft_ctl_event(ctl, self(), e->type, 0),
				 -EINVAL);
		assert_int_equal(soft_ctl_event(ctl, self(), e->type,
				 e->about == PORT ? 3 : qp[1]->qp_num + 1),
				 -EINVAL);
		if (e->about == SRQ)
			assert_int_equal(soft_ctl_event(ctl, self(), e->type,
					 qp[0]->qp_num), -EINVAL);
	}
	assert_int_equal(soft_ctl_event(ctl, self(), IBV_EVENT_WQ_FATAL, 1),
			 -EOPNOTSUPP);
	assert_false(event_waits());
}

/* An XRC queue pair has one completion queue, or none. */
static void event__of_xrc_WHAT_IT_HAS(void **state)
{
	struct ibv_xrcd_init_attr d = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1, .oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd = soft_open_xrcd(c, &d);
	struct ibv_qp_init_attr_ex ini = {
		.qp_type = IBV_QPT_XRC_SEND, .send_cq = cq, .pd = pd,
		.cap = { 1, 0, 1, 0, 0 }, .comp_mask = IBV_QP_INIT_ATTR_PD,
	}, tgt = {
		.qp_type = IBV_QPT_XRC_RECV, .xrcd = xrcd,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
	};
	struct ibv_qp *x[2] = {
		soft_create_qp_ex(c, &ini), soft_create_qp_ex(c, &tgt),
	};

	assert_true(x[0] && x[1]);
	assert_int_equal(soft_ctl_event(ctl, self(), IBV_EVENT_CQ_ERR,
					x[0]->qp_num), 0);
	assert_ptr_equal(expect_event(IBV_EVENT_CQ_ERR).element.cq, cq);
	assert_int_equal(soft_ctl_event(ctl, self(), IBV_EVENT_CQ_ERR,
					x[1]->qp_num), -EINVAL);
	assert_int_equal(soft_ctl_event(ctl, self(), IBV_EVENT_PATH_MIG,
					x[1]->qp_num), 0);
	assert_ptr_equal(expect_event(IBV_EVENT_PATH_MIG).element.qp, x[1]);
	assert_false(event_waits());
	for (int i = 0; i < 2; i++)
		assert_int_equal(soft_destroy_qp(x[i]), 0);
	assert_int_equal(soft_close_xrcd(xrcd), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(event__each_RAISED_ONCE),
		TEST(program__each_RAISED_ONCE),
		TEST(event__about_nothing_EINVAL),
		TEST(event__of_xrc_WHAT_IT_HAS),
	};

	join_own_fabric("event");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
