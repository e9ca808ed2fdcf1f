/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two queue pairs of one process, connected as iWARP by the connection manager;
 * for unit tests. Sends complete in cq, receives in rcq.
 */
#ifndef TESTS_UNIT_SOFT_IWARP_H
#define TESTS_UNIT_SOFT_IWARP_H

#include "soft/control/soft_ctl.h"
#include "soft/fabric/dev.h"
#include "soft/verbs/ctx.h"
#include "pair.h"

#include <arpa/inet.h>

#include "../own_fabric.h"

#define WAIT_MS		60000
#define LEN		4096u

static struct rdma_event_channel *ch;
static struct rdma_cm_id *listener, *id[2];	/* of qp[] */
static struct soft_ctl *ctl;
static struct ibv_cq *rcq;

/* ---- the connection --------------------------------------------------- */

static inline struct rdma_cm_id *expect_cm(enum rdma_cm_event_type type)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct rdma_cm_event *ev;
	struct rdma_cm_id *of;

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(soft_cma_get_cm_event(ch, &ev), 0);
	assert_int_equal(ev->event, type);
	of = ev->id;
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	return of;
}

static inline void make_qp(int i)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq, .recv_cq = rcq, .qp_type = IBV_QPT_RC,
		.cap = { 64, 64, 4, 4, 64 },
	};

	qp[i] = soft_create_qp(pd, &a);
	assert_non_null(qp[i]);
}

static inline void connect_ends(void)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct rdma_conn_param p = {
		.responder_resources = 4, .initiator_depth = 4,
	};

	assert_int_equal(soft_cma_create_id(ch, &listener, NULL, RDMA_PS_TCP),
			 0);
	assert_int_equal(soft_cma_bind_addr(listener,
					    (struct sockaddr *)&addr), 0);
	assert_int_equal(soft_cma_listen(listener, 0), 0);
	addr.sin_port = soft_cma_get_src_port(listener);
	assert_int_equal(soft_cma_create_id(ch, &id[0], NULL, RDMA_PS_TCP), 0);
	assert_int_equal(soft_cma_resolve_addr(id[0], NULL,
					       (struct sockaddr *)&addr, 1000),
			 0);
	expect_cm(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(soft_cma_resolve_route(id[0], 1000), 0);
	expect_cm(RDMA_CM_EVENT_ROUTE_RESOLVED);
	p.qp_num = qp[0]->qp_num;
	assert_int_equal(soft_cma_connect(id[0], &p), 0);
	id[1] = expect_cm(RDMA_CM_EVENT_CONNECT_REQUEST);
	p.qp_num = qp[1]->qp_num;
	assert_int_equal(soft_cma_accept(id[1], &p), 0);
	expect_cm(RDMA_CM_EVENT_ESTABLISHED);
	expect_cm(RDMA_CM_EVENT_ESTABLISHED);
}

static inline int set_up(void **state)
{
	if (open_device(NULL) || soft_ctl_open(NULL, &ctl))
		return -1;
	rcq = soft_create_cq(c, 256, NULL, NULL, 0);
	ch = soft_cma_create_event_channel();
	if (!rcq || !ch)
		return -1;
	make_qp(0);
	make_qp(1);
	connect_ends();
	return 0;
}

static inline void port(enum soft_port state)
{
	assert_int_equal(soft_ctl_port(ctl, SOFT_CTL_ALL, 1, state), 0);
}

static inline void drop_all(bool yes)
{
	const struct soft_ctl_faults f = { .drop = yes ? 1000000 : 0 };

	assert_int_equal(soft_ctl_faults(ctl, SOFT_CTL_ALL, &f), 0);
}

static inline void destroy_id(int i)
{
	if (id[i])
		assert_int_equal(soft_cma_destroy_id(id[i]), 0);
	id[i] = NULL;
}

static inline int tear_down(void **state)
{
	port(SOFT_PORT_UP);
	drop_all(false);
	destroy_id(0);
	destroy_id(1);
	assert_int_equal(soft_cma_destroy_id(listener), 0);
	for (int i = 0; i < 2; i++)
		if (qp[i])
			assert_int_equal(soft_destroy_qp(qp[i]), 0);
	soft_cma_destroy_event_channel(ch);
	assert_int_equal(soft_destroy_cq(rcq), 0);
	soft_ctl_close(ctl);
	return close_device(state);
}

/* ---- messages --------------------------------------------------------- */

static inline void fill(uint8_t seed)
{
	for (uint32_t i = 0; i < SIZE; i++)
		mem[0][i] = (uint8_t)(seed + i % 251);
}

static inline void has_arrived(uint64_t wr_id, uint8_t seed)
{
	struct ibv_wc wc = next(rcq);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < LEN; i++)
		assert_int_equal(mem[1][i], (uint8_t)(seed + i % 251));
}

/* Joins a fabric of iWARP, whose requests complete in the order of this seed. */
static inline void join_iwarp(const char *test, const char *order)
{
	(void)setenv("RDMAMSG_SOFT_LINK", "iwarp", 1);
	(void)setenv("RDMAMSG_SOFT_ORDER", order, 1);
	join_own_fabric(test);
}

#define IWARP(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

#endif
