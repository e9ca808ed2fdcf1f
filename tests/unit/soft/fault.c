/* SPDX-License-Identifier: BSD-2-Clause */
/* Injected faults: the calls of soft_ctl.h, on this process. */
#include "../../qp_walk.h"
#include "base/masked.h"
#include "soft/control/soft_ctl.h"
#include "soft/soft.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "../own_fabric.h"

#define SIZE	(256u << 10)
#define ALL	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static struct soft_ctl *ctl;
static struct ibv_context *c;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp[2];
static struct ibv_mr *mr;
static uint8_t *mem;
static uint8_t ack_timeout = 8;		/* 1 ms */

static void walk(struct ibv_qp *q, uint32_t peer, uint8_t port)
{
	struct ibv_qp_attr a = {
		.port_num = port, .qp_access_flags = ALL,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = peer, .max_dest_rd_atomic = 16,
		.min_rnr_timer = 1, .timeout = ack_timeout, .retry_cnt = 7,
		.rnr_retry = 7, .max_rd_atomic = 16,
	};

	assert_int_equal(qp_walk(soft_modify_qp, q, &a, IBV_QPS_RTS), 0);
}

/* The requester is on port 1, the responder on port 2. */
static int setup(void **state)
{
	struct ibv_device **list = soft_get_device_list(NULL);

	c = soft_open_device(list[0]);
	soft_free_device_list(list);
	if (!c || soft_ctl_open(NULL, &ctl))
		return -1;
	pd = soft_alloc_pd(c);
	cq = soft_create_cq(c, 256, NULL, NULL, 0);
	mem = calloc(2, SIZE);
	mr = soft_reg_mr(pd, mem, 2 * SIZE, ALL);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr a = {
			.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
			.cap = { 64, 64, 4, 4, 64 },
		};

		qp[i] = soft_create_qp(pd, &a);
		if (!qp[i])
			return -1;
	}
	walk(qp[0], qp[1]->qp_num, 1);
	walk(qp[1], qp[0]->qp_num, 2);
	return 0;
}

/* A longer ack timeout: 8 tries of 0.5 s, for tests that repair a fault. */
static int setup_patient(void **state)
{
	int ret;

	ack_timeout = 17;
	ret = setup(state);
	ack_timeout = 8;
	return ret;
}

static int teardown(void **state)
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(soft_destroy_qp(qp[i]), 0);
	assert_int_equal(soft_dereg_mr(mr), 0);
	assert_int_equal(soft_destroy_cq(cq), 0);
	assert_int_equal(soft_dealloc_pd(pd), 0);
	assert_int_equal(soft_close_device(c), 0);
	soft_ctl_close(ctl);
	free(mem);
	return 0;
}

static int post(enum ibv_wr_opcode op, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)mem, len, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.addr += 8 * wr_id;
		wr.wr.atomic.remote_addr = (uintptr_t)mem + SIZE;
		wr.wr.atomic.rkey = mr->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)mem + SIZE;
		wr.wr.rdma.rkey = mr->rkey;
	}
	return ibv_post_send(qp[0], &wr, &bad);
}

/* Adds 1 to the same word by a masked atomic. */
static int post_masked(uint64_t wr_id)
{
	const struct masked add = {
		.size = 8, .kind = MASKED_ADD, .value = { 1 },
	};
	struct ibv_sge sge = { (uintptr_t)mem + 8 * wr_id, 8, mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = {
			.remote_addr = (uintptr_t)mem + SIZE, .rkey = mr->rkey,
		},
	};

	return soft_post_masked(qp[0], &wr, &add);
}

static void expect(uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	int n = 0;

	for (int i = 0; i < 40000 && !n; i++) {
		n = ibv_poll_cq(cq, 1, &wc);
		if (!n && i > 1000)
			(void)poll(NULL, 0, 1);
	}
	assert_int_equal(n, 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

static void expect_event(enum ibv_event_type type, int port)
{
	struct pollfd p = { .fd = c->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	assert_int_equal(poll(&p, 1, 20000), 1);
	assert_int_equal(soft_get_async_event(c, &ev), 0);
	assert_int_equal(ev.event_type, type);
	if (port)
		assert_int_equal(ev.element.port_num, port);
	soft_ack_async_event(&ev);
}

static uint32_t self(void)
{
	return qp[0]->qp_num >> 14;
}

static void set_port(uint8_t port, enum soft_port state)
{
	assert_int_equal(soft_ctl_port(ctl, self(), port, state), 0);
}

static enum ibv_port_state port_state(uint8_t port)
{
	struct ibv_port_attr a;

	assert_int_equal(soft_query_port(c, port, &a), 0);
	return a.state;
}

static void port__down_at_the_asking_end_RETRY_EXC(void **state)
{
	set_port(1, SOFT_PORT_DOWN);
	expect_event(IBV_EVENT_PORT_ERR, 1);
	assert_int_equal(port_state(1), IBV_PORT_DOWN);
	assert_int_equal(port_state(2), IBV_PORT_ACTIVE);
	assert_int_equal(post(IBV_WR_RDMA_WRITE, 1, 100), 0);
	assert_int_equal(post(IBV_WR_RDMA_WRITE, 2, 100), 0);
	expect(1, IBV_WC_RETRY_EXC_ERR);
	expect(2, IBV_WC_WR_FLUSH_ERR);
	set_port(1, SOFT_PORT_ARMED);
	assert_int_equal(port_state(1), IBV_PORT_ARMED);
	set_port(1, SOFT_PORT_UP);
	expect_event(IBV_EVENT_PORT_ACTIVE, 1);
}

static void port__black_hole_at_the_asked_end_RETRY_EXC(void **state)
{
	struct pollfd p = { .fd = c->async_fd, .events = POLLIN };

	set_port(2, SOFT_PORT_BLACK_HOLE);
	assert_int_equal(port_state(2), IBV_PORT_ACTIVE);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(post(IBV_WR_RDMA_READ, 1, 100), 0);
	expect(1, IBV_WC_RETRY_EXC_ERR);
	set_port(2, SOFT_PORT_UP);
}

/* The port comes up before the last retry, so no request fails. */
static void port__up_again_GOES_ON(void **state)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	for (int round = 0; round < 4; round++) {
		uint8_t port = (uint8_t)(1 + round % 2);

		set_port(port, SOFT_PORT_BLACK_HOLE);
		for (uint64_t i = 0; i < 4; i++)
			assert_int_equal(post(IBV_WR_RDMA_READ, 2 * i, SIZE),
					 0);
		set_port(port, SOFT_PORT_UP);
		for (uint64_t i = 0; i < 4; i++)
			expect(2 * i, IBV_WC_SUCCESS);
	}
	assert_int_equal(soft_query_qp(qp[0], &a, IBV_QP_STATE, &init), 0);
	assert_int_equal(a.qp_state, IBV_QPS_RTS);
}

/*
 * The asked end is deaf in the middle of it: reads are done again, an atomic
 * never is.
 */
static void port__deaf_in_between_ATOMICS_HAPPEN_ONCE(void **state)
{
	uint64_t *target = (uint64_t *)(mem + SIZE), n = 0;

	for (int round = 0; round < 50; round++) {
		for (uint64_t i = 0; i < 16; i++)
			assert_int_equal(i % 2 ? post_masked(i) :
					 post(IBV_WR_ATOMIC_FETCH_AND_ADD, i,
					      8), 0);
		set_port(2, SOFT_PORT_BLACK_HOLE);
		set_port(2, SOFT_PORT_UP);
		for (uint64_t i = 0; i < 16; i++)
			expect(i, IBV_WC_SUCCESS);
		for (uint64_t i = 0; i < 16; i++)
			assert_int_equal(((uint64_t *)mem)[i], n++);
		assert_int_equal(*target, n);
	}
}

/* Returns the number of the first request that failed, out of retries. */
static uint64_t first_lost(uint32_t seed)
{
	const struct soft_ctl_faults f = { .drop = 700000, .seed = seed };
	const struct soft_ctl_faults none = { 0 };
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
	uint64_t i;

	assert_int_equal(soft_ctl_faults(ctl, SOFT_CTL_ALL, &f), 0);
	for (i = 0; i < 1000 && wc.status == IBV_WC_SUCCESS; i++) {
		int n = 0;

		assert_int_equal(post(IBV_WR_RDMA_WRITE, i, 8), 0);
		for (int t = 0; t < 40000 && !n; t++) {
			n = ibv_poll_cq(cq, 1, &wc);
			if (!n)
				(void)poll(NULL, 0, 1);
		}
		assert_int_equal(n, 1);
		assert_int_equal(wc.wr_id, i);
	}
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(soft_ctl_faults(ctl, SOFT_CTL_ALL, &none), 0);
	return i;
}

static void faults__same_seed_SAME_REQUESTS(void **state)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	uint64_t lost[3];

	for (int i = 0; i < 3; i++) {
		lost[i] = first_lost(i == 2 ? 12 : 11);
		for (int j = 0; j < 2; j++)
			assert_int_equal(soft_modify_qp(qp[j], &reset,
							IBV_QP_STATE), 0);
		walk(qp[0], qp[1]->qp_num, 1);
		walk(qp[1], qp[0]->qp_num, 2);
	}
	assert_int_equal(lost[0], lost[1]);
}

static void faults__all_delayed_ARRIVES_LATER(void **state)
{
	const struct soft_ctl_faults f = { .delay = 1000000, .delay_us = 3000 };
	const struct soft_ctl_faults much = { .delay = 1000001 };

	assert_int_equal(soft_ctl_faults(ctl, self(), &much), -EINVAL);
	assert_int_equal(soft_ctl_faults(ctl, self(), &f), 0);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(post(IBV_WR_RDMA_WRITE, i, SIZE), 0);
	for (uint64_t i = 0; i < 4; i++)
		expect(i, IBV_WC_SUCCESS);
	assert_int_equal(soft_ctl_faults(ctl, self(),
					 &(struct soft_ctl_faults){ 0 }), 0);
}

static void refuse__second_ENOMEM(void **state)
{
	struct ibv_cq *q[3];

	assert_int_equal(soft_ctl_refuse(ctl, self(), SOFT_OBJ_CQ, 2), 0);
	q[0] = soft_create_cq(c, 1, NULL, NULL, 0);
	errno = 0;
	q[1] = soft_create_cq(c, 1, NULL, NULL, 0);
	assert_int_equal(errno, ENOMEM);
	q[2] = soft_create_cq(c, 1, NULL, NULL, 0);
	assert_non_null(q[0]);
	assert_null(q[1]);
	assert_non_null(q[2]);
	assert_int_equal(soft_destroy_cq(q[0]), 0);
	assert_int_equal(soft_destroy_cq(q[2]), 0);
	assert_int_equal(soft_ctl_refuse(ctl, self(), SOFT_OBJECTS, 1),
			 -EINVAL);
}

static struct ibv_context *open_again(void)
{
	struct ibv_device **list = soft_get_device_list(NULL);
	struct ibv_context *fresh = list[0] ? soft_open_device(list[0]) : NULL;

	soft_free_device_list(list);
	return fresh;
}

/* Binds a new id. Returns 0 or an errno. */
static int bind_once(in_addr_t addr)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_addr = { htonl(addr) },
	};
	struct rdma_event_channel *ch = soft_cma_create_event_channel();
	struct rdma_cm_id *id;
	int ret;

	assert_non_null(ch);
	assert_int_equal(soft_cma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	ret = soft_cma_bind_addr(id, (struct sockaddr *)&in) ? errno : 0;
	assert_int_equal(soft_cma_destroy_id(id), 0);
	soft_cma_destroy_event_channel(ch);
	return ret;
}

static void remove__calls_EIO_then_ADDED_AGAIN(void **state)
{
	struct rdma_event_channel *ch = soft_cma_create_event_channel();
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = 1,
		.sin_addr = { htonl(INADDR_LOOPBACK) },
	};
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct ibv_context *fresh;
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	union ibv_gid gid;

	assert_int_equal(soft_cma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(soft_cma_resolve_addr(id, NULL, (void *)&to, 1000), 0);
	assert_int_equal(soft_cma_get_cm_event(ch, &ev), 0);
	assert_int_equal(ev->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	soft_cma_ack_cm_event(ev);
	assert_int_equal(soft_ctl_remove(ctl, self()), 0);
	expect_event(IBV_EVENT_DEVICE_FATAL, 0);
	assert_int_equal(soft_cma_get_cm_event(ch, &ev), 0);
	assert_int_equal(ev->event, RDMA_CM_EVENT_DEVICE_REMOVAL);
	soft_cma_ack_cm_event(ev);
	assert_int_equal(soft_cma_destroy_id(id), 0);
	assert_int_equal(soft_query_device(c, &attr), EIO);
	assert_int_equal(soft_query_port(c, 1, &port), EIO);
	assert_int_equal(soft_query_gid(c, 1, 0, &gid), -1);
	assert_int_equal(errno, EIO);
	assert_int_equal(post(IBV_WR_RDMA_WRITE, 1, 8), EIO);
	assert_null(soft_alloc_pd(c));
	assert_int_equal(errno, EIO);
	assert_null(open_again());
	/* an address needs a device, all addresses do not */
	assert_int_equal(bind_once(INADDR_LOOPBACK), ENODEV);
	assert_int_equal(bind_once(INADDR_ANY), 0);
	/* new ids find no device */
	assert_int_equal(soft_cma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(soft_cma_resolve_addr(id, NULL, (void *)&to, 1000), 0);
	assert_int_equal(soft_cma_get_cm_event(ch, &ev), 0);
	assert_int_equal(ev->event, RDMA_CM_EVENT_ADDR_ERROR);
	soft_cma_ack_cm_event(ev);
	assert_int_equal(soft_ctl_add(ctl, self()), 0);
	assert_int_equal(bind_once(INADDR_LOOPBACK), 0);
	fresh = open_again();
	assert_non_null(fresh);
	assert_int_equal(soft_query_port(fresh, 1, &port), 0);
	assert_int_equal(soft_query_port(c, 1, &port), EIO);
	assert_int_equal(soft_cma_resolve_addr(id, NULL, (void *)&to, 1000), 0);
	assert_int_equal(soft_cma_get_cm_event(ch, &ev), 0);
	assert_int_equal(ev->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	soft_cma_ack_cm_event(ev);
	assert_int_equal(soft_query_device(id->verbs, &attr), 0);
	assert_int_equal(soft_cma_destroy_id(id), 0);
	soft_cma_destroy_event_channel(ch);
	assert_int_equal(soft_close_device(fresh), 0);
}

static void event__any_RAISED(void **state)
{
	uint32_t qpn = qp[1]->qp_num;

	assert_int_equal(soft_ctl_event(ctl, self(), IBV_EVENT_QP_FATAL, qpn),
			 0);
	expect_event(IBV_EVENT_QP_FATAL, 0);
	assert_int_equal(soft_ctl_event(ctl, self(), IBV_EVENT_GID_CHANGE, 2),
			 0);
	expect_event(IBV_EVENT_GID_CHANGE, 2);
	assert_int_equal(soft_ctl_event(ctl, self(), IBV_EVENT_COMM_EST,
					qpn + 1), -EINVAL);
	assert_int_equal(soft_ctl_event(ctl, self(), IBV_EVENT_PORT_ERR, 9),
			 -EINVAL);
}

static void list__nodes_and_queue_pairs_TOLD(void **state)
{
	struct soft_ctl_node node;
	struct soft_ctl_qp q[4];
	struct soft_ctl *none;
	uint32_t next = self(), index = 0;

	assert_int_equal(soft_ctl_next(ctl, &next, &node), 0);
	assert_int_equal(node.node, self());
	assert_int_equal(node.qps, 2);
	assert_int_equal(node.contexts, 1);
	assert_int_equal(soft_ctl_qps(ctl, self(), &index, q, 1), 1);
	assert_int_equal(q[0].qpn, qp[0]->qp_num);
	assert_int_equal(soft_ctl_qps(ctl, self(), &index, q, 4), 1);
	assert_int_equal(q[0].qpn, qp[1]->qp_num);
	assert_int_equal(q[0].state, IBV_QPS_RTS);
	assert_int_equal(q[0].peer, qp[0]->qp_num);
	assert_int_equal(soft_ctl_remove(ctl, 1000), -ENOENT);
	assert_int_equal(soft_ctl_open("nobody-is-here", &none), -ENOENT);
	assert_int_equal(soft_ctl_open("a/b", &none), -EINVAL);
}

/* ---- RNR NAKs --------------------------------------------------------- */

static struct soft_rnr naks(struct ibv_qp *of)
{
	struct soft_rnr n;

	soft_rnr_naks(c, of, &n);
	return n;
}

static int send_one(uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)mem, 8, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};

	return ibv_post_send(qp[0], &wr, &bad);
}

static int receive_one(uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)mem + SIZE, 8, mr->lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1,
	};

	return ibv_post_recv(qp[1], &wr, &bad);
}

static void two_completions(void)
{
	struct ibv_wc wc;
	int got = 0;

	for (int i = 0; i < 20000 && got < 2; i++) {
		int n = ibv_poll_cq(cq, 1, &wc);

		assert_true(n >= 0);
		if (n)
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
		else
			(void)poll(NULL, 0, 1);
		got += n;
	}
	assert_int_equal(got, 2);
}

/* rdmamsg-soft-ctl(1) prints the sums in one line. */
static void check_program(uint64_t n)
{
	char want[64], line[64] = "";
	FILE *f;

	if (access("lib/soft/tools/rdmamsg-soft-ctl", X_OK))
		return;
	(void)snprintf(want, sizeof(want), "rnr sent %llu received %llu\n",
		       (unsigned long long)n, (unsigned long long)n);
	f = popen("lib/soft/tools/rdmamsg-soft-ctl rnr", "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_int_equal(pclose(f), 0);
	assert_string_equal(line, want);
}

static void rnr__receives_are_posted_NONE(void **state)
{
	for (uint64_t i = 0; i < 100; i++) {
		assert_int_equal(receive_one(i), 0);
		assert_int_equal(send_one(i), 0);
		two_completions();
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(naks(qp[i]).sent, 0);
		assert_int_equal(naks(qp[i]).received, 0);
	}
	check_program(0);
}

static void rnr__no_receive_COUNTED_AT_BOTH_ENDS(void **state)
{
	struct soft_ctl_node node;
	struct soft_ctl_qp q[2];
	uint32_t index = 0, next = self();
	struct ibv_wc wc;

	assert_int_equal(send_one(1), 0);
	for (int i = 0; i < 20000 && naks(qp[0]).received < 2; i++) {
		assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
		(void)poll(NULL, 0, 1);
	}
	assert_true(naks(qp[0]).received >= 2);
	assert_int_equal(receive_one(2), 0);
	two_completions();
	assert_int_equal(naks(qp[1]).sent, naks(qp[0]).received);
	assert_int_equal(naks(qp[0]).sent, 0);
	assert_int_equal(naks(qp[1]).received, 0);
	assert_int_equal(soft_ctl_qps(ctl, self(), &index, q, 2), 2);
	assert_int_equal(q[0].rnr_received, naks(qp[0]).received);
	assert_int_equal(q[1].rnr_sent, naks(qp[0]).received);
	/* nothing else has asked or been asked in this process */
	assert_int_equal(soft_ctl_next(ctl, &next, &node), 0);
	assert_int_equal(node.rnr.sent, naks(qp[1]).sent);
	assert_int_equal(node.rnr.received, naks(NULL).received);
	check_program(node.rnr.sent);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(port__down_at_the_asking_end_RETRY_EXC),
		TEST(port__black_hole_at_the_asked_end_RETRY_EXC),
		cmocka_unit_test_setup_teardown(port__up_again_GOES_ON,
						setup_patient, teardown),
		cmocka_unit_test_setup_teardown(
			port__deaf_in_between_ATOMICS_HAPPEN_ONCE,
			setup_patient, teardown),
		TEST(faults__same_seed_SAME_REQUESTS),
		TEST(faults__all_delayed_ARRIVES_LATER),
		TEST(refuse__second_ENOMEM),
		TEST(remove__calls_EIO_then_ADDED_AGAIN),
		TEST(event__any_RAISED),
		TEST(list__nodes_and_queue_pairs_TOLD),
		TEST(rnr__receives_are_posted_NONE),
		TEST(rnr__no_receive_COUNTED_AT_BOTH_ENDS),
	};

	join_own_fabric("fault");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
