/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM ids that are bound before they are resolved: their queue pairs and their
 * ports, as in Linux, rdma_init_qp_attr() and resolve_prepare_src().
 */
#include "soft/soft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../own_fabric.h"

static struct rdma_event_channel *ch;
static struct rdma_cm_id *id;

static int setup(void **state)
{
	ch = soft_cma_create_event_channel();
	return ch ? soft_cma_create_id(ch, &id, NULL, RDMA_PS_TCP) : -1;
}

static int teardown(void **state)
{
	assert_int_equal(soft_cma_destroy_id(id), 0);
	soft_cma_destroy_event_channel(ch);
	return 0;
}

static struct sockaddr_in ipv4(const char *addr, __be16 port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = port };

	assert_int_equal(inet_pton(AF_INET, addr, &in.sin_addr), 1);
	return in;
}

/* 0 or an errno. */
static int bind_to(struct rdma_cm_id *i, const char *addr, __be16 port)
{
	struct sockaddr_in in = ipv4(addr, port);

	return soft_cma_bind_addr(i, (struct sockaddr *)&in) ? errno : 0;
}

/* Resolves 127.0.0.1 from an address, or from none. Returns 0 or an errno. */
static int resolve_from(const char *addr, __be16 port)
{
	struct sockaddr_in to = ipv4("127.0.0.1", htons(7)), from;

	if (addr)
		from = ipv4(addr, port);
	return soft_cma_resolve_addr(id, addr ? (struct sockaddr *)&from : NULL,
				     (struct sockaddr *)&to, 1000) ? errno : 0;
}

static void expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;

	assert_int_equal(soft_cma_get_cm_event(ch, &ev), 0);
	assert_int_equal(ev->event, type);
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
}

/* 0 or an errno; *ret_mask with it. */
static int init_attr(enum ibv_qp_state state, struct ibv_qp_attr *ret,
		     int *ret_mask)
{
	memset(ret, 0, sizeof(*ret));
	ret->qp_state = state;
	return soft_cma_init_qp_attr(id, ret, ret_mask) ? errno : 0;
}

/* ---- queue pairs ------------------------------------------------------ */

/* Creates a queue pair as rdma_create_qp(3) does. */
static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { 4, 4, 1, 1, 0 },
	};
	struct ibv_qp *qp = soft_create_qp(pd, &init);
	struct ibv_qp_attr a;
	int mask;

	assert_non_null(qp);
	assert_int_equal(init_attr(IBV_QPS_INIT, &a, &mask), 0);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			 IBV_QP_ACCESS_FLAGS);
	assert_int_equal(a.qp_access_flags, 0);
	assert_int_equal(a.port_num, 1);
	assert_int_equal(soft_modify_qp(qp, &a, mask), 0);
	return qp;
}

static void init_qp_attr__bound_INIT(void **state)
{
	struct ibv_qp_attr a;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	int mask;

	assert_int_equal(bind_to(id, "127.0.0.1", 0), 0);
	assert_non_null(id->verbs);
	pd = soft_alloc_pd(id->verbs);
	cq = soft_create_cq(id->verbs, 16, NULL, NULL, 0);
	qp = create_qp(pd, cq);
	assert_int_equal(init_attr(IBV_QPS_RTR, &a, &mask), EINVAL);
	assert_int_equal(resolve_from(NULL, 0), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(soft_destroy_qp(qp), 0);
	assert_int_equal(soft_destroy_cq(cq), 0);
	assert_int_equal(soft_dealloc_pd(pd), 0);
}

static void init_qp_attr__bound_to_no_device_EINVAL(void **state)
{
	struct ibv_qp_attr a;
	int mask;

	assert_int_equal(init_attr(IBV_QPS_INIT, &a, &mask), EINVAL);
	assert_int_equal(bind_to(id, "0.0.0.0", 0), 0);
	assert_int_equal(init_attr(IBV_QPS_INIT, &a, &mask), EINVAL);
}

/* ---- ports ------------------------------------------------------------ */

static void resolve_addr__bound_KEEPS_ADDRESS_AND_PORT(void **state)
{
	const struct sockaddr_in *src = &id->route.addr.src_sin;
	__be16 port;

	assert_int_equal(bind_to(id, "127.0.0.2", 0), 0);
	port = soft_cma_get_src_port(id);
	assert_int_equal(resolve_from("127.0.0.1", htons(9)), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(soft_cma_get_src_port(id), port);
	assert_int_equal(src->sin_addr.s_addr,
			 ipv4("127.0.0.2", 0).sin_addr.s_addr);
}

static void resolve_addr__bound_to_all_KEEPS_ITS_PORT(void **state)
{
	__be16 port;

	assert_int_equal(bind_to(id, "0.0.0.0", 0), 0);
	port = soft_cma_get_src_port(id);
	assert_int_equal(resolve_from("127.0.0.1", 0), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(soft_cma_get_src_port(id), port);
}

static void resolve_addr__bound_to_another_family_EINVAL(void **state)
{
	struct sockaddr_in6 to = {
		.sin6_family = AF_INET6, .sin6_port = htons(7),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};

	assert_int_equal(bind_to(id, "127.0.0.1", 0), 0);
	errno = 0;
	assert_int_equal(soft_cma_resolve_addr(id, NULL, (void *)&to, 1000),
			 -1);
	assert_int_equal(errno, EINVAL);
}

static void resolve_addr__source_port_TAKEN(void **state)
{
	struct rdma_cm_id *other;
	__be16 port;

	assert_int_equal(soft_cma_create_id(ch, &other, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(bind_to(other, "127.0.0.1", 0), 0);
	port = soft_cma_get_src_port(other);
	assert_int_equal(resolve_from("127.0.0.1", port), EADDRINUSE);
	assert_int_equal(soft_cma_destroy_id(other), 0);
	/* now it is free, and then this id's */
	assert_int_equal(resolve_from("127.0.0.1", port), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(soft_cma_get_src_port(id), port);
	assert_int_equal(soft_cma_create_id(ch, &other, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(bind_to(other, "127.0.0.1", port), EADDRINUSE);
	assert_int_equal(soft_cma_destroy_id(other), 0);
}

/* A refused source address has no effect on a later resolution. */
static void resolve_addr__after_a_refusal_FROM_ANY_PORT(void **state)
{
	struct rdma_cm_id *other;
	__be16 port;

	assert_int_equal(soft_cma_create_id(ch, &other, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(bind_to(other, "127.0.0.2", 0), 0);
	port = soft_cma_get_src_port(other);
	assert_int_equal(bind_to(id, "127.0.0.2", port), EADDRINUSE);
	assert_int_equal(resolve_from(NULL, 0), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_not_equal(soft_cma_get_src_port(id), port);
	assert_int_equal(id->route.addr.src_sin.sin_addr.s_addr,
			 ipv4("127.0.0.1", 0).sin_addr.s_addr);
	assert_int_equal(soft_cma_destroy_id(other), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(init_qp_attr__bound_INIT),
		TEST(init_qp_attr__bound_to_no_device_EINVAL),
		TEST(resolve_addr__bound_KEEPS_ADDRESS_AND_PORT),
		TEST(resolve_addr__bound_to_all_KEEPS_ITS_PORT),
		TEST(resolve_addr__bound_to_another_family_EINVAL),
		TEST(resolve_addr__source_port_TAKEN),
		TEST(resolve_addr__after_a_refusal_FROM_ANY_PORT),
	};

	join_own_fabric("bound");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
