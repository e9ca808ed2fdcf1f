/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ids whose addresses are GIDs (AF_IB): on InfiniBand, by the rules of Linux
 * cma_get_port() and cma_check_port().
 */
#include "soft/cm/id.h"
#include "soft/soft.h"

#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <infiniband/ib.h>

#include "../own_fabric.h"

static const uint8_t any[16];
static uint8_t gids[2][16];		/* of the ports */
static struct ibv_context *verbs;
static struct rdma_event_channel *ch;

static int setup(void **state)
{
	struct ibv_device **list = soft_get_device_list(NULL);

	/* keeps the device open, and so its GIDs */
	verbs = soft_open_device(list[0]);
	soft_free_device_list(list);
	ch = soft_cma_create_event_channel();
	if (!verbs || !ch)
		return -1;
	return soft_query_gid(verbs, 1, 0, (union ibv_gid *)gids[0]) ||
	       soft_query_gid(verbs, 2, 0, (union ibv_gid *)gids[1]);
}

static int teardown(void **state)
{
	soft_cma_destroy_event_channel(ch);
	assert_int_equal(soft_close_device(verbs), 0);
	return 0;
}

static struct sockaddr *address(const uint8_t gid[16], uint64_t sid)
{
	static struct sockaddr_ib ib;

	ib = (struct sockaddr_ib){
		.sib_family = AF_IB, .sib_sid = htobe64(sid),
		.sib_sid_mask = htobe64(UINT64_MAX),
	};
	memcpy(&ib.sib_addr, gid, 16);
	return (struct sockaddr *)&ib;
}

static struct rdma_cm_id *new_id(enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	assert_int_equal(soft_cma_create_id(ch, &id, NULL, ps), 0);
	return id;
}

static void expect_bind(enum rdma_port_space ps, const uint8_t gid[16],
			uint64_t sid, int error)
{
	struct rdma_cm_id *id = new_id(ps);
	int ret = soft_cma_bind_addr(id, address(gid, sid));

	assert_int_equal(ret ? errno : 0, error);
	assert_int_equal(soft_cma_destroy_id(id), 0);
}

/* Expects the error when the second one is bound, in either order. */
static void expect_pair(const uint8_t a[16], const uint8_t b[16], int error)
{
	const uint64_t sid = (uint64_t)RDMA_PS_IB << 16 | 4711;

	for (int i = 0; i < 2; i++) {
		struct rdma_cm_id *first = new_id(RDMA_PS_IB);

		assert_int_equal(soft_cma_bind_addr(first, address(i ? b : a,
								   sid)), 0);
		expect_bind(RDMA_PS_IB, i ? a : b, sid, error);
		assert_int_equal(soft_cma_destroy_id(first), 0);
	}
}

static void bind__two_gids_AS_LINUX_ALLOWS(void **state)
{
	expect_pair(gids[0], gids[1], 0);
	expect_pair(gids[0], gids[0], EADDRINUSE);
	expect_pair(any, gids[1], EADDRNOTAVAIL);
	expect_pair(any, any, EADDRINUSE);
}

static void bind__what_cannot_be_REFUSED(void **state)
{
	uint8_t other[16];

	memcpy(other, gids[0], 16);
	other[15] = 9;			/* there is no such port */
	expect_bind(RDMA_PS_TCP, other, 0x01060001, EADDRNOTAVAIL);
	expect_bind(RDMA_PS_TCP, any, 0x01060001, 0);
	expect_bind(RDMA_PS_TCP, any, 0x01110001, EPROTONOSUPPORT);
	expect_bind(RDMA_PS_UDP, any, 0x01110001, 0);
	/* the space of all, but not of what is not of IP */
	expect_bind(RDMA_PS_IB, any, 0x01110001, 0);
	expect_bind(RDMA_PS_IB, any, 0x1000000000000001, EPROTONOSUPPORT);
}

static struct rdma_cm_event *expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;

	assert_int_equal(soft_cma_get_cm_event(ch, &ev), 0);
	assert_int_equal(ev->event, type);
	return ev;
}

static void pass(enum rdma_cm_event_type type)
{
	assert_int_equal(soft_cma_ack_cm_event(expect(type)), 0);
}

static void check_address(struct sockaddr *sa, const uint8_t gid[16],
			  uint64_t sid)
{
	struct sockaddr_ib ib;

	memcpy(&ib, sa, sizeof(ib));
	assert_int_equal(ib.sib_family, AF_IB);
	assert_memory_equal(&ib.sib_addr, gid, 16);
	if (sid)
		assert_true(ib.sib_sid == htobe64(sid));
}

/* Without addresses of IP in front, a request has 36 bytes more. */
static void connect__by_gid_BOTH_SEE_GIDS(void **state)
{
	static char ask[217];
	struct rdma_conn_param p = { .private_data = ask };
	struct rdma_cm_id *l = new_id(RDMA_PS_UDP), *id = new_id(RDMA_PS_UDP);
	struct rdma_cm_event *ev;

	memset(ask, 'x', sizeof(ask));
	assert_int_equal(soft_cma_bind_addr(l, address(any, 0x01110007)), 0);
	assert_int_equal(soft_cma_listen(l, 0), 0);
	assert_int_equal(soft_cma_resolve_addr(id, NULL, address(gids[1],
						0x01110007), 1000), 0);
	pass(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(soft_cma_resolve_route(id, 1000), 0);
	pass(RDMA_CM_EVENT_ROUTE_RESOLVED);
	check_address(&id->route.addr.src_addr, gids[0], 0);
	check_address(&id->route.addr.dst_addr, gids[1], 0x01110007);
	p.private_data_len = 217;
	assert_int_equal(soft_cma_connect(id, &p), -1);
	p.private_data_len = 216;
	assert_int_equal(soft_cma_connect(id, &p), 0);
	ev = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(ev->param.ud.private_data_len, 216);
	assert_memory_equal(ev->param.ud.private_data, ask, 216);
	check_address(&ev->id->route.addr.src_addr, gids[1], 0x01110007);
	check_address(&ev->id->route.addr.dst_addr, gids[0], 0);
	assert_int_equal(soft_cma_destroy_id(ev->id), 0);
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	pass(RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(soft_cma_destroy_id(id), 0);
	assert_int_equal(soft_cma_destroy_id(l), 0);
}

static void resolve__what_cannot_be_REFUSED(void **state)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	uint8_t stranger[16] = { 0xfe, 0x80, [15] = 1 };
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);

	/* families do not mix */
	assert_int_equal(soft_cma_resolve_addr(id, (struct sockaddr *)&in,
				address(gids[0], 0x01060007), 1000), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(soft_cma_resolve_addr(id, NULL, address(stranger,
						0x01060007), 1000), 0);
	pass(RDMA_CM_EVENT_ADDR_ERROR);
	assert_int_equal(soft_cma_destroy_id(id), 0);
}

static void ethernet__no_gids_EOPNOTSUPP(void **state)
{
	const uint64_t sid = 0x01060007;
	struct rdma_cm_id *id;

	assert_int_equal(setenv("RDMAMSG_SOFT_LINK", "ethernet", 1), 0);
	join_own_fabric("afib-ethernet");
	assert_int_equal(setup(state), 0);
	expect_bind(RDMA_PS_TCP, any, sid, EOPNOTSUPP);
	id = new_id(RDMA_PS_TCP);
	assert_int_equal(soft_cma_resolve_addr(id, NULL, address(gids[0], sid),
					       1000), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(soft_cma_destroy_id(id), 0);
	teardown(state);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(bind__two_gids_AS_LINUX_ALLOWS),
		TEST(bind__what_cannot_be_REFUSED),
		TEST(connect__by_gid_BOTH_SEE_GIDS),
		TEST(resolve__what_cannot_be_REFUSED),
		cmocka_unit_test(ethernet__no_gids_EOPNOTSUPP),
	};

	join_own_fabric("afib");
	(void)setenv("RDMAMSG_SOFT_LINK", "ib", 1);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
