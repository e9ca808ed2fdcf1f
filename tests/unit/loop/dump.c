/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: each kind of object has its lines in the dump. */
#include "device/verbs_api.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <stdlib.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/group.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rma.h>
#include <rdmamsg/verbs.h>

static char dumped[1 << 16];

static void add_line(void *arg, const char *text)
{
	size_t at = strlen(dumped);

	assert_ptr_equal(arg, dumped);
	assert_null(strchr(text, '\n'));
	snprintf(dumped + at, sizeof(dumped) - at, "%s\n", text);
}

static void dump(const struct rdmamsg *ctx)
{
	dumped[0] = 0;
	rdmamsg_dump(ctx, add_line, dumped);
}

/* Fails unless a line has the words in this order. */
static void __attribute__((format(printf, 1, 2))) shows(const char *fmt, ...)
{
	char words[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	if (!strstr(dumped, words))
		fail_msg("no '%s' in\n%s", words, dumped);
}

static void shows_not(const char *words)
{
	if (strstr(dumped, words))
		fail_msg("'%s' in\n%s", words, dumped);
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_closed = on_closed,
};

static void open_client(void)
{
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	assert_int_equal(rdmamsg_open(&client.ctx, NULL), 0);
}

static int set_up(void **state)
{
	clear_ends();
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return 0;
}

static void dump__without_objects_HAS_NONE(void **state)
{
	open_client();
	dump(client.ctx);
	shows("0 endpoints");
	shows_not("pool ");
	shows_not("region ");
	shows_not("queue ");
	shows_not("group ");
	shows_not("port ");
}

static void dump__of_a_port_HAS_STATE_AND_USERS(void **state)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};

	connect_ends(&opts);
	dump(client.ctx);
	shows("  port 1: ACTIVE, Ethernet, MTU 4096, 100000 Mb/s: 1 endpoints, "
	      "0 queue pairs, 0 groups\n");
	shows_not("  port 2: ");
}

static void dump__of_a_pool_HAS_BUFFERS_AND_BYTES(void **state)
{
	const struct rdmamsg_pool_options limited = {
		.size = sizeof(limited), .max_bytes = 1 << 20,
	};
	struct rdmamsg_pool_stats s = { .size = sizeof(s) };
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};
	struct rdmamsg_pool *pool, *other;
	struct rdmamsg_msg *msg;

	connect_ends(&opts);
	assert_int_equal(rdmamsg_pool_create(client.ctx, NULL, &pool), 0);
	assert_int_equal(rdmamsg_pool_create(client.ctx, &limited, &other), 0);
	assert_int_equal(rdmamsg_pool_alloc(other, client.ep, 3000, &msg), 0);
	assert_int_equal(rdmamsg_pool_get_stats(other, &s), 0);
	dump(client.ctx);
	shows("pool 1 (%p): 0 of 0 buffers in use, 0 bytes registered, no "
	      "limit, refused 0\n", (void *)pool);
	shows("pool 2 (%p): 1 of %u buffers in use, %u bytes registered of at "
	      "most 1048576, refused 0\n", (void *)other,
	      (unsigned int)s.buffers, (unsigned int)s.bytes);
	rdmamsg_msg_free(msg);
}

static void dump__of_a_region_HAS_MEMORY_AND_ACCESS(void **state)
{
	static uint8_t mem[8192], other[100];
	const uint32_t access = RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_ATOMIC;
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};
	struct rdmamsg_region *a, *b;

	connect_ends(&opts);
	assert_int_equal(rdmamsg_region_create(client.ctx, mem, sizeof(mem),
					       access, &a), 0);
	assert_int_equal(rdmamsg_region_create(client.ctx, other,
					       sizeof(other), 0, &b), 0);
	assert_int_equal(rdmamsg_region_register(a, client.ep), 0);
	dump(client.ctx);
	shows("(%p): 8192 bytes at %p, access read atomic, registered with 1 "
	      "devices, 0 users\n", (void *)a, (void *)mem);
	shows("(%p): 100 bytes at %p, access none, registered with 0 devices, "
	      "0 users\n", (void *)b, (void *)other);
	assert_int_equal(rdmamsg_region_destroy(a), 0);
	dump(client.ctx);
	shows_not("8192 bytes at");
}

static void dump__of_a_shared_receive_queue_HAS_ITS_PARTS(void **state)
{
	const struct rdmamsg_srq_options shared = {
		.size = sizeof(shared), .depth = 64,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};
	struct rdmamsg_srq *srq;

	connect_ends(&opts);
	assert_int_equal(rdmamsg_srq_create(client.ctx, &shared, &srq), 0);
	dump(client.ctx);
	shows("shared receive queue 1 (%p): 0 endpoints, 0 posted",
	      (void *)srq);
	shows_not("receives posted\n");
	opts.srq = srq;
	connect_client(&opts);
	dump(client.ctx);
	shows("shared receive queue 1 (%p): 1 endpoints, ", (void *)srq);
	shows(" of 64 receives posted\n");
	rdmamsg_srq_destroy(srq);
}

static void dump__of_own_queue_pairs_HAS_STATE_AND_SIZES(void **state)
{
	const struct rdmamsg_qp_options rc = {
		.size = sizeof(rc), .device = "soft0", .max_send = 16,
		.max_recv = 32,
	};
	const struct rdmamsg_qp_options ud = {
		.size = sizeof(ud), .device = "soft0", .type = IBV_QPT_UD,
		.flags = RDMAMSG_QP_TWO_CQS,
	};
	struct rdmamsg_qp_attr a = { .size = sizeof(a) };
	struct rdmamsg_qp *p, *q;

	open_client();
	assert_int_equal(rdmamsg_qp_create(client.ctx, &rc, &p), 0);
	assert_int_equal(rdmamsg_qp_create(client.ctx, &ud, &q), 0);
	dump(client.ctx);
	assert_int_equal(rdmamsg_qp_query(p, &a), 0);
	shows("queue pair %p: qp 0x%x RC INIT on soft0 port %u, peer qp 0x0\n"
	      "  requests: %u sends, %u receives; completion queue entries: "
	      "%u for sends, %u for receives, one queue\n", (void *)p,
	      a.qp_num, a.port, a.max_send, a.max_recv, a.send_cq_entries,
	      a.recv_cq_entries);
	assert_int_equal(rdmamsg_qp_query(q, &a), 0);
	shows("queue pair %p: qp 0x%x UD RTS on soft0 ", (void *)q, a.qp_num);
	shows("%u for receives\n", a.recv_cq_entries);
	shows("0 endpoints, 2 queue pairs, 0 groups\n");
	assert_int_equal(rdmamsg_qp_destroy(p), 0);
	dump(client.ctx);
	shows("0 endpoints, 1 queue pairs, 0 groups\n");
	assert_int_equal(rdmamsg_qp_destroy(q), 0);
	dump(client.ctx);
	shows_not("queue pair 0x");
	shows_not("  port ");
}

static bool joined;

static void on_group_joined(struct rdmamsg_group *g)
{
	joined = true;
}

static void dump__of_a_group_HAS_ADDRESS_AND_FIGURES(void **state)
{
	const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_group_joined,
	};
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .handlers = &on, .source = "127.0.0.1",
		.flags = RDMAMSG_GROUP_PUBLISH,
	};
	struct rdmamsg_group_attr info = { .size = sizeof(info) };
	struct rdmamsg_group *g;

	open_client();
	assert_int_equal(rdmamsg_open(&server.ctx, NULL), 0);
	assert_int_equal(rdmamsg_group_join(client.ctx, "239.1.2.3", &opts,
					    &g), 0);
	dump(client.ctx);
	shows("group 1 (%p): 239.1.2.3, ", (void *)g);
	WAIT_FOR(joined);
	assert_int_equal(rdmamsg_group_publish(g, "seven b", 7), 0);
	assert_int_equal(rdmamsg_group_query(g, &info), 0);
	dump(client.ctx);
	shows("group 1 (%p): 239.1.2.3, joined on soft0 port %u, qp 0x%x, 0 "
	      "senders\n  sent 1 messages 7 bytes, received 0 messages 0 bytes, "
	      "lost 0 in 0 gaps, refused 0, joins 1\n", (void *)g, info.port,
	      info.qp_num);
	shows("0 endpoints, 0 queue pairs, 1 groups\n");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, leave_soft)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(dump__without_objects_HAS_NONE),
		TEST(dump__of_a_port_HAS_STATE_AND_USERS),
		TEST(dump__of_a_pool_HAS_BUFFERS_AND_BYTES),
		TEST(dump__of_a_region_HAS_MEMORY_AND_ACCESS),
		TEST(dump__of_a_shared_receive_queue_HAS_ITS_PARTS),
		TEST(dump__of_own_queue_pairs_HAS_STATE_AND_SIZES),
		TEST(dump__of_a_group_HAS_ADDRESS_AND_FIGURES),
	};

	join_own_fabric("dump");
	(void)unsetenv("RDMAMSG_DEVICE");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
