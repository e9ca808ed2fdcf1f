/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the device that an out-of-band connection uses, on hosts with
 * and without RDMA devices. The test provides the lists of libibverbs.
 */
#include "base/base.h"
#include "device/choose.h"
#include "device/device.h"
#include "device/path.h"
#include "device/verbs_api.h"
#include "cm/oob/oob.h"
#include "session/ep.h"
#include "../../tuning.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/verbs.h>

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct ibv_device **__wrap_ibv_get_device_list(int *num);
void __wrap_ibv_free_device_list(struct ibv_device **list);
struct ibv_context *__wrap_ibv_open_device(struct ibv_device *device);

/* the list has a device, which cannot be opened */
static bool hardware;
static unsigned int opened;
static enum ibv_transport_type transport = IBV_TRANSPORT_IB;

struct ibv_device **__wrap_ibv_get_device_list(int *num)
{
	static struct ibv_device device = { .name = "hw0", .dev_name = "hw0" };
	struct ibv_device **list;

	if (!hardware) {
		errno = ENOSYS;
		return NULL;
	}
	list = calloc(2, sizeof(*list));
	list[0] = &device;
	device.transport_type = transport;
	*num = 1;
	return list;
}

void __wrap_ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

struct ibv_context *__wrap_ibv_open_device(struct ibv_device *device)
{
	opened++;
	errno = ENODEV;
	return NULL;
}

#define HW	(&rdmamsg__verbs_system)
#define SOFT	(&rdmamsg__verbs_soft)

static const struct row {
	const char *asked, *local;
	/* with hardware and without; NULL: -ENODEV */
	const struct verbs_api *with, *without;
} rows[] = {
	{ NULL, NULL, NULL, SOFT },
	{ NULL, "127.0.0.1", SOFT, SOFT },
	{ NULL, "192.0.2.1", NULL, SOFT },
	{ "hw", NULL, NULL, NULL },
	{ "hw", "127.0.0.1", NULL, NULL },
	{ "soft", NULL, SOFT, SOFT },
	{ "soft", "192.0.2.1", SOFT, SOFT },
	{ "soft0", NULL, SOFT, SOFT },
	/*
	 * a full name is accepted; opening the device finds out whether it
	 * exists
	 */
	{ "hw0", NULL, HW, HW },
};

static void try(const struct row *r, const struct verbs_api *want)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	const struct verbs_api *v = NULL;
	char *name = NULL;
	int ret;

	if (r->local)
		assert_int_equal(inet_pton(AF_INET, r->local, &in.sin_addr), 1);
	ret = rdmamsg__choose_device(r->asked, r->local ?
				   (struct sockaddr *)&in : NULL, &v, &name);
	if (ret != (want ? 0 : -ENODEV) || v != want)
		fail_msg("asked for %s at %s %s hardware: %d (%s)", r->asked,
			 r->local, hardware ? "with" : "without", ret,
			 ret ? rdmamsg_error() : name);
	if (want)
		assert_string_equal(name, want == SOFT ? "soft0" : "hw0");
	else	/* the text names the remedy */
		assert_non_null(strstr(rdmamsg_error(), "RDMAMSG_DEVICE=soft"));
	free(name);
}

static void device__by_what_there_is_CHOSEN(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		hardware = true;
		try(&rows[i], rows[i].with);
		hardware = false;
		try(&rows[i], rows[i].without);
	}
	assert_true(opened > 0);
}

static struct ibv_port_attr port_attr;

static int query_port(struct ibv_context *c, uint8_t port,
		      struct ibv_port_attr *attr)
{
	*attr = port_attr;
	return 0;
}

/* ACTIVE_DEFER: the port was active, and may be again without a change. */
static const struct sockaddr *ip(const char *text)
{
	static struct sockaddr_in in = { .sin_family = AF_INET };

	assert_int_equal(inet_pton(AF_INET, text, &in.sin_addr), 1);
	return (struct sockaddr *)&in;
}

/* A record goes over a queue pair that the library itself connects. */
static void device__of_iwarp_alone_EOPNOTSUPP(void **state)
{
	const struct verbs_api *v;
	char *name = NULL;
	int ret;

	hardware = true;
	transport = IBV_TRANSPORT_IWARP;
	ret = rdmamsg__choose_device("hw", ip("192.0.2.1"), &v, &name);
	transport = IBV_TRANSPORT_IB;
	assert_int_equal(ret, -EOPNOTSUPP);
	assert_non_null(strstr(rdmamsg__text(), "iWARP"));
}

static const struct verbs_api *dial(const char *asked, const char *to,
				    bool *or_soft)
{
	return rdmamsg__choose_dial(asked, ip(to), or_soft);
}

static void dial__soft_HCA_COMES_LAST(void **state)
{
	bool or_soft = false;

	hardware = false;
	assert_ptr_equal(dial(NULL, "192.0.2.1", &or_soft),
			 &rdmamsg__verbs_soft);
	assert_ptr_equal(dial("hw", "192.0.2.1", &or_soft), rdmamsg__verbs);
	assert_false(or_soft);
	hardware = true;
	assert_ptr_equal(dial(NULL, "192.0.2.1", &or_soft), rdmamsg__verbs);
	assert_false(or_soft);
	assert_ptr_equal(dial(NULL, "127.0.0.1", &or_soft), rdmamsg__verbs);
	assert_true(or_soft);
	assert_ptr_equal(dial(NULL, "127.0.0.1", &or_soft),
			 &rdmamsg__verbs_soft);
	assert_false(or_soft);
}

/* Beside devices at the wildcard, in place of them at a loopback address. */
static void soft__by_the_address_LISTENS(void **state)
{
	assert_true(rdmamsg__choose_soft_listens(ip("0.0.0.0"), 0));
	assert_false(rdmamsg__choose_soft_listens(ip("0.0.0.0"), -EADDRINUSE));
	assert_false(rdmamsg__choose_soft_listens(ip("127.0.0.1"), 0));
	assert_true(rdmamsg__choose_soft_listens(ip("127.0.0.1"), -ENODEV));
	assert_false(rdmamsg__choose_soft_listens(ip("127.0.0.1"),
						  -EADDRINUSE));
	hardware = true;
	assert_false(rdmamsg__choose_soft_listens(ip("192.0.2.1"), -ENODEV));
	hardware = false;
	assert_true(rdmamsg__choose_soft_listens(ip("192.0.2.1"), -ENODEV));
}

static void port__by_its_state_TAKEN(void **state)
{
	struct ibv_device **list = SOFT->get_device_list(NULL);
	struct verbs_api table = *SOFT;
	struct ibv_context *verbs = table.open_device(list[0]);
	uint8_t port;
	bool has;

	SOFT->free_device_list(list);
	table.query_port = query_port;
	for (int s = IBV_PORT_NOP; s <= IBV_PORT_ACTIVE_DEFER; s++) {
		port_attr.state = s;
		assert_int_equal(rdmamsg__find_port(&table, verbs, NULL, &port,
						    &has), 0);
		assert_int_equal(port, s >= IBV_PORT_ACTIVE);
	}
	assert_int_equal(table.close_device(verbs), 0);
}

static void port__given_and_not_active_ENETDOWN(void **state)
{
	struct ibv_device **list = SOFT->get_device_list(NULL);
	struct verbs_api table = *SOFT;
	struct rdmamsg_device d = {
		.v = &table, .verbs = table.open_device(list[0]),
		.name = "soft0", .attr.phys_port_cnt = 1,
	};
	struct oob oob = { .path = { .mtu = 4096, .port = 1 } };

	SOFT->free_device_list(list);
	table.query_port = query_port;
	port_attr = (struct ibv_port_attr){
		.state = IBV_PORT_ARMED, .gid_tbl_len = 1, .pkey_tbl_len = 1,
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
	};
	assert_int_equal(rdmamsg__path_local(&oob, &d, NULL), -ENETDOWN);
	assert_non_null(strstr(rdmamsg_error(),
			       "port 1 of device soft0 is not active"));
	port_attr.state = IBV_PORT_ACTIVE;
	assert_int_equal(rdmamsg__path_local(&oob, &d, NULL), 0);
	assert_int_equal(table.close_device(d.verbs), 0);
}

/* A port of InfiniBand has 1 << lmc LIDs. */
static void path_bits__beyond_the_lids_EINVAL(void **state)
{
	struct ibv_device **list = SOFT->get_device_list(NULL);
	struct verbs_api table = *SOFT;
	struct rdmamsg_device d = {
		.v = &table, .verbs = table.open_device(list[0]),
		.name = "soft0", .attr.phys_port_cnt = 1,
	};
	struct oob oob = {
		.path = { .src_path_bits = 3, .mtu = 4096, .port = 1 },
	};

	SOFT->free_device_list(list);
	table.query_port = query_port;
	port_attr = (struct ibv_port_attr){
		.state = IBV_PORT_ACTIVE, .lmc = 2, .gid_tbl_len = 1,
		.pkey_tbl_len = 1, .link_layer = IBV_LINK_LAYER_INFINIBAND,
	};
	assert_int_equal(rdmamsg__path_local(&oob, &d, NULL), 0);
	oob.path.src_path_bits = 4;
	assert_int_equal(rdmamsg__path_local(&oob, &d, NULL), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "src_path_bits 4: port 1 of "
			       "device soft0 has 4 LIDs"));
	/* elsewhere they mean nothing */
	port_attr.link_layer = IBV_LINK_LAYER_ETHERNET;
	assert_int_equal(rdmamsg__path_local(&oob, &d, NULL), 0);
	assert_int_equal(table.close_device(d.verbs), 0);
}

/* The program names no device, and the hardware device has no active port. */
static void offer__hardware_without_a_link_ENODEV(void **state)
{
	uint8_t record[RDMAMSG_OOB_MAX];
	struct rdmamsg_ep *ep;
	struct rdmamsg_qp *qp;
	struct rdmamsg *ctx;

	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	hardware = true;
	assert_int_equal(rdmamsg_oob_offer(ctx, NULL, &ep), -ENODEV);
	assert_non_null(strstr(rdmamsg_error(), "active port"));
	assert_int_equal(rdmamsg_qp_create(ctx, NULL, &qp), -ENODEV);
	hardware = false;
	assert_int_equal(rdmamsg_oob_offer(ctx, NULL, &ep), 0);
	assert_string_equal(rdmamsg_ep_device_name(ep), "soft0");
	assert_true(rdmamsg_oob_record(ep, record, sizeof(record)) > 0);
	rdmamsg_close(ctx);
}

/* ---- what the queue pair has ------------------------------------------ */

static struct ibv_qp_attr attr_of(const struct rdmamsg_ep *ep)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	assert_int_equal(rdmamsg__verbs_soft.query_qp(
				 ep->lane.hot.qp, &a,
				 IBV_QP_STATE | IBV_QP_PORT | IBV_QP_AV |
				 IBV_QP_PKEY_INDEX | IBV_QP_PATH_MTU |
				 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				 IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				 IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				 IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_QP_RD_ATOMIC |
				 IBV_QP_MAX_DEST_RD_ATOMIC, &init), 0);
	return a;
}

static void options__of_the_path_REACH_THE_QUEUE_PAIR(void **state)
{
	const struct rdmamsg_path here = {
		.size = sizeof(here), .port = 1, .gid_index = 1,
		.pkey = 0x7fff, .hop_limit = 3, .traffic_class = 96,
		.flow_label = 5, .service_level = 4, .src_path_bits = 2,
		.mtu = 512, .psn = RDMAMSG_NONE,
	}, there = {
		.size = sizeof(there), .port = 1, .gid_index = 1, .mtu = 256,
		.psn = 0xffffff,
	};
	struct rdmamsg_ep_options o = {
		.size = sizeof(o), .path = &here,
		.tuning = TUNING(.ack_timeout = 14, .retry_count = 5,
				 .rnr_retry_count = 3, .min_rnr_timer = 20,
				 .responder_resources = 3,
				 .initiator_depth = 2),
	};
	uint8_t record[RDMAMSG_OOB_MAX];
	struct rdmamsg_ep *client, *server;
	struct ibv_qp_attr a, b;
	struct rdmamsg *ctx;
	int len;

	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	assert_int_equal(rdmamsg_oob_offer(ctx, &o, &client), 0);
	len = rdmamsg_oob_record(client, record, sizeof(record));
	o.path = &there;
	o.tuning = TUNING(.ack_timeout = 14, .retry_count = 5,
			  .rnr_retry_count = 3, .min_rnr_timer = 20,
			  .responder_resources = 7, .initiator_depth = 5);
	assert_int_equal(rdmamsg_oob_answer(ctx, record, (size_t)len, &o,
					    &server), 0);
	len = rdmamsg_oob_record(server, record, sizeof(record));
	assert_int_equal(rdmamsg_oob_finish(client, record, (size_t)len), 0);
	a = attr_of(client);
	b = attr_of(server);
	assert_int_equal(a.qp_state, IBV_QPS_RTS);
	assert_int_equal(a.port_num, 1);
	assert_int_equal(a.pkey_index, 0);
	assert_int_equal(a.path_mtu, IBV_MTU_256);
	assert_int_equal(b.path_mtu, IBV_MTU_256);
	assert_int_equal(a.dest_qp_num, server->lane.hot.qp->qp_num);
	assert_int_equal(b.dest_qp_num, client->lane.hot.qp->qp_num);
	assert_int_equal(a.sq_psn, 0);
	assert_int_equal(b.rq_psn, 0);
	assert_int_equal(a.rq_psn, 0xffffff);
	assert_int_equal(b.sq_psn, 0xffffff);
	assert_int_equal(a.ah_attr.sl, 4);
	assert_int_equal(a.ah_attr.src_path_bits, 2);
	assert_int_equal(a.ah_attr.is_global, 1);
	assert_int_equal(a.ah_attr.grh.sgid_index, 1);
	assert_int_equal(b.ah_attr.grh.sgid_index, 1);
	assert_int_equal(a.ah_attr.grh.hop_limit, 3);
	assert_int_equal(a.ah_attr.grh.traffic_class, 96);
	assert_int_equal(a.ah_attr.grh.flow_label, 5);
	/* those that the path of this side does not name */
	assert_int_equal(b.ah_attr.sl, 0);
	assert_int_equal(b.ah_attr.src_path_bits, 0);
	assert_int_equal(b.ah_attr.grh.hop_limit, 64);
	assert_int_equal(b.ah_attr.grh.flow_label, 0);
	assert_int_equal(a.timeout, 14);
	assert_int_equal(a.retry_cnt, 5);
	assert_int_equal(a.rnr_retry, 3);
	assert_int_equal(a.min_rnr_timer, 20);
	/* what one side issues is what the other serves */
	assert_int_equal(a.max_dest_rd_atomic, 3);
	assert_int_equal(b.max_rd_atomic, 3);
	assert_int_equal(a.max_rd_atomic, 2);
	assert_int_equal(b.max_dest_rd_atomic, 2);
	rdmamsg_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device__by_what_there_is_CHOSEN),
		cmocka_unit_test(device__of_iwarp_alone_EOPNOTSUPP),
		cmocka_unit_test(dial__soft_HCA_COMES_LAST),
		cmocka_unit_test(soft__by_the_address_LISTENS),
		cmocka_unit_test(port__by_its_state_TAKEN),
		cmocka_unit_test(port__given_and_not_active_ENETDOWN),
		cmocka_unit_test(path_bits__beyond_the_lids_EINVAL),
		cmocka_unit_test(offer__hardware_without_a_link_ENODEV),
		cmocka_unit_test(options__of_the_path_REACH_THE_QUEUE_PAIR),
	};

	unsetenv("RDMAMSG_DEVICE");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
