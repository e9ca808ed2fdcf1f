/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection management where there is no connection: services (RDMA_PS_UDP)
 * that are asked for, and groups that are joined.
 */
#include "soft/cm/id.h"
#include "soft/soft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../own_fabric.h"

static struct rdma_event_channel *ch;
static struct sockaddr_in addr;		/* of the listener */
static struct rdma_cm_id *listener;

static struct rdma_cm_event *expect(enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *ev;

	assert_int_equal(soft_cma_get_cm_event(ch, &ev), 0);
	assert_int_equal(ev->event, type);
	assert_int_equal(ev->status, status);
	return ev;
}

static int setup(void **state)
{
	addr.sin_family = AF_INET;
	addr.sin_port = 0;
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ch = soft_cma_create_event_channel();
	if (!ch || soft_cma_create_id(ch, &listener, NULL, RDMA_PS_UDP) ||
	    soft_cma_bind_addr(listener, (struct sockaddr *)&addr) ||
	    soft_cma_listen(listener, 0))
		return -1;
	addr.sin_port = soft_cma_get_src_port(listener);
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(soft_cma_destroy_id(listener), 0);
	soft_cma_destroy_event_channel(ch);
	return 0;
}

static struct rdma_cm_id *resolved(struct rdma_event_channel *c)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	if (soft_cma_create_id(c, &id, NULL, RDMA_PS_UDP) ||
	    soft_cma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000) ||
	    soft_cma_get_cm_event(c, &ev) ||
	    ev->event != RDMA_CM_EVENT_ADDR_RESOLVED ||
	    soft_cma_ack_cm_event(ev) || soft_cma_resolve_route(id, 1000) ||
	    soft_cma_get_cm_event(c, &ev) ||
	    ev->event != RDMA_CM_EVENT_ROUTE_RESOLVED ||
	    soft_cma_ack_cm_event(ev))
		return NULL;
	return id;
}

static void connect__a_service_TELLS_ITS_QP(void **state)
{
	static const char ask[181] = "ask";
	struct rdma_conn_param p = { .private_data = ask };
	struct rdma_cm_id *id = resolved(ch), *server;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT };
	struct rdma_cm_event *ev;
	struct ibv_port_attr port;
	struct ibv_ah *ah;
	struct ibv_pd *pd;
	int mask;

	assert_non_null(id);
	assert_int_equal(id->qp_type, IBV_QPT_UD);
	assert_int_equal(soft_cma_init_qp_attr(id, &a, &mask), 0);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			 IBV_QP_QKEY);
	assert_int_equal(a.qkey, RDMA_UDP_QKEY);
	p.private_data_len = 181;
	assert_int_equal(soft_cma_connect(id, &p), -1);
	p.private_data_len = 4;
	assert_int_equal(soft_cma_connect(id, &p), 0);
	ev = expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(ev->param.ud.private_data_len, 180);
	assert_string_equal(ev->param.ud.private_data, "ask");
	server = ev->id;
	assert_ptr_equal(ev->listen_id, listener);
	assert_int_equal(server->qp_type, IBV_QPT_UD);
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	p.private_data = "answer";
	p.private_data_len = 7;
	p.qp_num = 0x1234;
	assert_int_equal(soft_cma_accept(server, &p), 0);
	ev = expect(RDMA_CM_EVENT_ESTABLISHED, 0);
	assert_ptr_equal(ev->id, id);
	assert_int_equal(ev->param.ud.private_data_len, 136);
	assert_string_equal(ev->param.ud.private_data, "answer");
	assert_int_equal(ev->param.ud.qp_num, 0x1234);
	assert_int_equal(ev->param.ud.qkey, RDMA_UDP_QKEY);
	/* good for an address handle as it is */
	assert_int_equal(soft_query_port(id->verbs, 1, &port), 0);
	assert_int_equal(ev->param.ud.ah_attr.dlid, port.lid);
	pd = soft_alloc_pd(id->verbs);
	ah = soft_create_ah(pd, &ev->param.ud.ah_attr);
	assert_non_null(ah);
	assert_int_equal(soft_destroy_ah(ah), 0);
	assert_int_equal(soft_dealloc_pd(pd), 0);
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	/* there is nothing to end */
	assert_int_equal(soft_cma_disconnect(id), -1);
	assert_int_equal(soft_cma_destroy_id(server), 0);
	assert_int_equal(soft_cma_destroy_id(id), 0);
}

static void connect__rejected_or_nobody_UNREACHABLE(void **state)
{
	struct rdma_conn_param p = { 0 };
	struct rdma_cm_id *id = resolved(ch), *server;
	struct rdma_cm_event *ev;

	assert_int_equal(soft_cma_connect(id, &p), 0);
	ev = expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	server = ev->id;
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	assert_int_equal(soft_cma_reject(server, "no", 3), 0);
	ev = expect(RDMA_CM_EVENT_UNREACHABLE, SOFT_SIDR_REJECT);
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	assert_int_equal(soft_cma_destroy_id(server), 0);
	assert_int_equal(soft_cma_destroy_id(id), 0);

	addr.sin_port = htons(1);
	id = resolved(ch);
	assert_int_equal(soft_cma_connect(id, &p), 0);
	ev = expect(RDMA_CM_EVENT_UNREACHABLE, SOFT_SIDR_UNSUPPORTED);
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	assert_int_equal(soft_cma_destroy_id(id), 0);
}

/* Another process, which sends a request and dies after the answer. */
static void client(int fd)
{
	struct rdma_conn_param p = { 0 };
	struct rdma_event_channel *c = soft_cma_create_event_channel();
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	if (!c || read(fd, &addr, sizeof(addr)) != sizeof(addr))
		_exit(2);
	id = resolved(c);
	if (!id || soft_cma_connect(id, &p) || soft_cma_get_cm_event(c, &ev) ||
	    ev->event != RDMA_CM_EVENT_ESTABLISHED ||
	    ev->param.ud.qp_num != 77)
		_exit(3);
	_exit(0);
}

static void connect__from_another_process_IS_TOLD(void **state)
{
	struct rdma_conn_param p = { .qp_num = 77 };
	struct rdma_cm_event *ev;
	struct rdma_cm_id *server;
	int fd[2], status;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	pid = fork();
	if (!pid)
		client(fd[1]);
	assert_int_equal(setup(state), 0);
	assert_int_equal(write(fd[0], &addr, sizeof(addr)), sizeof(addr));
	ev = expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	server = ev->id;
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	assert_int_equal(soft_cma_accept(server, &p), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(soft_cma_destroy_id(server), 0);
	assert_int_equal(teardown(state), 0);
	close(fd[0]);
	close(fd[1]);
}

/* ---- groups, by the commands ------------------------------------------ */

static struct soft_cm_file *file;

static uint32_t bound(uint16_t ps)
{
	const struct rdma_ucm_create_id create = { .uid = 5, .ps = ps };
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct rdma_ucm_create_id_resp resp;
	struct rdma_ucm_bind cmd = { .addr_size = sizeof(in) };

	assert_int_equal(soft_cm_create_id(file, &create, &resp), 0);
	memcpy(&cmd.addr, &in, sizeof(in));
	cmd.id = resp.id;
	assert_int_equal(soft_cm_bind(file, &cmd), 0);
	return resp.id;
}

static int join(uint32_t id, const char *group, uint32_t *mc)
{
	struct rdma_ucm_join_mcast cmd = { .uid = 99, .id = id };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct rdma_ucm_create_id_resp resp = { 0 };
	int ret;

	if (strchr(group, ':')) {
		(void)inet_pton(AF_INET6, group, &in6.sin6_addr);
		cmd.addr_size = sizeof(in6);
		memcpy(&cmd.addr, &in6, sizeof(in6));
	} else {
		(void)inet_pton(AF_INET, group, &in.sin_addr);
		cmd.addr_size = sizeof(in);
		memcpy(&cmd.addr, &in, sizeof(in));
	}
	ret = soft_cm_join_mcast(file, &cmd, &resp);
	*mc = resp.id;
	return ret;
}

static struct rdma_ucm_ud_param joined(uint32_t mc)
{
	struct rdma_ucm_event_resp ev;

	assert_int_equal(soft_cm_get_event(file, &ev), 0);
	assert_int_equal(ev.event, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_int_equal(ev.uid, 99);
	assert_int_equal(ev.id, mc);
	assert_int_equal(ev.param.ud.qp_num, 0xffffff);
	return ev.param.ud;
}

static void leave(uint32_t mc, uint32_t events)
{
	const struct rdma_ucm_destroy_id cmd = { .id = mc };
	struct rdma_ucm_destroy_id_resp resp;

	assert_int_equal(soft_cm_leave_mcast(file, &cmd, &resp), 0);
	assert_int_equal(resp.events_reported, events);
	assert_int_equal(soft_cm_leave_mcast(file, &cmd, &resp), -EINVAL);
}

static void destroy(uint32_t id, uint32_t events)
{
	const struct rdma_ucm_destroy_id cmd = { .id = id };
	struct rdma_ucm_destroy_id_resp resp;

	assert_int_equal(soft_cm_destroy_id(file, &cmd, &resp), 0);
	assert_int_equal(resp.events_reported, events);
}

static void join__on_ethernet_THE_ADDRESS_IS_THE_GROUP(void **state)
{
	static const uint8_t v4[16] = { [10] = 0xff, 0xff, 239, 1, 2, 3 };
	struct rdma_ucm_ud_param ud;
	uint32_t id, mc[2];
	struct rdma_ucm_event_resp ev;

	assert_int_equal(soft_cm_open(&file), 0);
	id = bound(RDMA_PS_UDP);
	assert_int_equal(join(id, "127.0.0.1", &mc[0]), -EINVAL);
	assert_int_equal(join(id, "239.1.2.3", &mc[0]), 0);
	ud = joined(mc[0]);
	assert_int_equal(ud.qkey, RDMA_UDP_QKEY);
	assert_memory_equal(ud.ah_attr.grh.dgid, v4, 16);
	assert_int_equal(ud.ah_attr.is_global, 1);
	assert_int_equal(join(id, "ff0e::9", &mc[1]), 0);
	assert_int_equal(joined(mc[1]).ah_attr.grh.dgid[0], 0xff);
	leave(mc[0], 1);
	/* its event goes with it */
	assert_int_equal(join(id, "239.1.2.3", &mc[0]), 0);
	leave(mc[0], 0);
	assert_int_equal(soft_cm_get_event(file, &ev), -EAGAIN);
	destroy(id, 2);
	id = bound(RDMA_PS_TCP);
	assert_int_equal(join(id, "239.1.2.3", &mc[0]), -EINVAL);
	destroy(id, 0);
	soft_cm_close(file);
}

static void join__on_infiniband_HAS_MGID_AND_MLID(void **state)
{
	static const uint8_t udp[16] = { 0xff, 0x12, 0x40, 0x01, 0xff, 0xff,
					 [12] = 0x0f, 1, 2, 3 };
	static const uint8_t ipoib[16] = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff,
					   [12] = 0x0f, 1, 2, 3 };
	struct rdma_ucm_ud_param a, b;
	uint32_t id[2], mc[2];

	assert_int_equal(soft_cm_open(&file), 0);
	id[0] = bound(RDMA_PS_UDP);
	id[1] = bound(RDMA_PS_IPOIB);
	assert_int_equal(join(id[0], "239.1.2.3", &mc[0]), 0);
	a = joined(mc[0]);
	assert_int_equal(join(id[1], "239.1.2.3", &mc[1]), 0);
	b = joined(mc[1]);
	assert_memory_equal(a.ah_attr.grh.dgid, udp, 16);
	assert_memory_equal(b.ah_attr.grh.dgid, ipoib, 16);
	assert_true(a.ah_attr.dlid > 0xc000 && a.ah_attr.dlid < 0xffff);
	assert_int_equal(b.qkey, 0x0b1b);
	leave(mc[0], 1);
	assert_int_equal(join(id[0], "239.1.2.3", &mc[0]), 0);
	assert_int_equal(joined(mc[0]).ah_attr.dlid, a.ah_attr.dlid);
	/* no address: one that nobody has */
	assert_int_equal(join(id[0], "0.0.0.0", &mc[0]), 0);
	a = joined(mc[0]);
	assert_int_equal(a.ah_attr.grh.dgid[2], 0xa0);
	destroy(id[0], 3);
	destroy(id[1], 1);
	soft_cm_close(file);
}

/* Joins with the asynchronous calls, as a program does. */
static struct rdma_cm_event *join_by_call(struct rdma_cm_id *id,
					  struct sockaddr_in *group,
					  uint32_t flags, void *context)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
			     RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = flags, .addr = (struct sockaddr *)group,
	};
	struct rdma_cm_event *ev;

	assert_int_equal(soft_cma_join_multicast_ex(id, &attr, context), 0);
	ev = expect(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_ptr_equal(ev->id, id);
	assert_ptr_equal(ev->param.ud.private_data, context);
	assert_int_equal(ev->param.ud.qp_num, 0xffffff);
	assert_int_equal(ev->param.ud.qkey, RDMA_UDP_QKEY);
	return ev;
}

/* The parameters of the event fit both ends of a group. */
static void use_group(struct ibv_context *verbs, struct rdma_ud_param *ud)
{
	struct ibv_pd *pd = soft_alloc_pd(verbs);
	struct ibv_cq *cq = soft_create_cq(verbs, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
		.cap = { 4, 4, 1, 1, 0 },
	};
	struct ibv_qp *qp = soft_create_qp(pd, &a);
	struct ibv_ah *ah = soft_create_ah(pd, &ud->ah_attr);

	assert_non_null(ah);
	assert_int_equal(soft_attach_mcast(qp, &ud->ah_attr.grh.dgid,
					   ud->ah_attr.dlid), 0);
	assert_int_equal(soft_detach_mcast(qp, &ud->ah_attr.grh.dgid,
					   ud->ah_attr.dlid), 0);
	assert_int_equal(soft_destroy_ah(ah), 0);
	assert_int_equal(soft_destroy_qp(qp), 0);
	assert_int_equal(soft_destroy_cq(cq), 0);
	assert_int_equal(soft_dealloc_pd(pd), 0);
}

static void join_multicast__and_leave_BY_ADDRESS(void **state)
{
	struct sockaddr_in group[2] = {
		{ .sin_family = AF_INET }, { .sin_family = AF_INET },
	};
	struct sockaddr *g[2] = { (struct sockaddr *)&group[0],
				  (struct sockaddr *)&group[1] };
	struct rdma_cm_join_mc_attr_ex none = { .addr = g[0] };
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	(void)inet_pton(AF_INET, "239.1.2.3", &group[0].sin_addr);
	(void)inet_pton(AF_INET, "239.1.2.4", &group[1].sin_addr);
	assert_int_equal(soft_cma_create_id(ch, &id, NULL, RDMA_PS_UDP), 0);
	/* on no device yet */
	assert_int_equal(soft_cma_join_multicast(id, g[0], NULL), -1);
	assert_int_equal(soft_cma_resolve_addr(id, NULL, g[0], 1000), 0);
	assert_int_equal(soft_cma_ack_cm_event(
			 expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0)), 0);
	assert_int_equal(soft_cma_join_multicast_ex(id, &none, NULL), -1);
	assert_int_equal(errno, EINVAL);

	ev = join_by_call(id, &group[0], RDMA_MC_JOIN_FLAG_FULLMEMBER, &ch);
	use_group(id->verbs, &ev->param.ud);
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	ev = join_by_call(id, &group[1], RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
			  NULL);
	assert_int_equal(soft_cma_ack_cm_event(ev), 0);
	assert_int_equal(soft_cma_leave_multicast(id, g[0]), 0);
	assert_int_equal(soft_cma_leave_multicast(id, g[0]), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
	/* an event that nobody fetched goes with its group */
	assert_int_equal(soft_cma_join_multicast(id, g[0], NULL), 0);
	assert_int_equal(soft_cma_leave_multicast(id, g[0]), 0);
	/* and what is still joined with its id */
	assert_int_equal(soft_cma_destroy_id(id), 0);
}

static int set_ib(void **state)
{
	return setenv("RDMAMSG_SOFT_LINK", "ib", 1);
}

static int set_ib_setup(void **state)
{
	return set_ib(state) || setup(state);
}

static int unset_ib(void **state)
{
	return unsetenv("RDMAMSG_SOFT_LINK");
}

static int unset_ib_teardown(void **state)
{
	return unset_ib(state) || teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			connect__a_service_TELLS_ITS_QP, setup, teardown),
		{ "connect__a_service_on_infiniband",
		  connect__a_service_TELLS_ITS_QP, set_ib_setup,
		  unset_ib_teardown, NULL },
		cmocka_unit_test_setup_teardown(
			connect__rejected_or_nobody_UNREACHABLE, setup,
			teardown),
		cmocka_unit_test(connect__from_another_process_IS_TOLD),
		cmocka_unit_test_setup_teardown(
			join_multicast__and_leave_BY_ADDRESS, setup, teardown),
		{ "join_multicast__and_leave_on_infiniband",
		  join_multicast__and_leave_BY_ADDRESS, set_ib_setup,
		  unset_ib_teardown, NULL },
		cmocka_unit_test(
			join__on_ethernet_THE_ADDRESS_IS_THE_GROUP),
		cmocka_unit_test_setup_teardown(
			join__on_infiniband_HAS_MGID_AND_MLID, set_ib,
			unset_ib),
	};

	join_own_fabric("sidr");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
