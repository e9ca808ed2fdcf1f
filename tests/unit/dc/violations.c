/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: targets of DC on a device that does not count access key
 * violations, or refuses queries of queue pairs.
 */
#include "config.h"
#include "device/verbs_api.h"
#include "../own_fabric.h"
#include "../soft_calls.h"
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

#include <infiniband/verbs.h>
#include <rdmamsg/dc.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#define KEY	5u

static struct rdmamsg *ctx;
static struct rdmamsg_dc_target *target;
static struct rdmamsg_dc_sender *sender;
static struct rdmamsg_dc_address *to;
static unsigned int violations, messages, completed;
static int status;
static bool query_fails;

/* ---- the device -------------------------------------------------------- */

static int devx_qp_query_refused(struct ibv_qp *qp, const void *in,
				 size_t inlen, void *out, size_t outlen)
{
	return EOPNOTSUPP;
}

static int query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		    struct ibv_qp_init_attr *init)
{
	return query_fails ? EIO :
	       rdmamsg__verbs_soft.query_qp(qp, attr, mask, init);
}

/* ---- a target and a sender --------------------------------------------- */

static void on_violation(struct rdmamsg_dc_target *t,
			 const struct sockaddr_storage *from)
{
	violations++;
}

static void on_message(struct rdmamsg_dc_target *t, struct rdmamsg_msg *msg,
		       uint64_t id)
{
	messages++;
	rdmamsg_msg_free(msg);
}

static void on_complete(struct rdmamsg_dc_sender *s,
			struct rdmamsg_dc_address *a, void *cookie, int how)
{
	completed++;
	status = how;
}

static void make_with(uint32_t path, uint32_t sender_path, const char *host)
{
	const struct rdmamsg_dc_target_options topts = {
		.size = sizeof(topts), .access_key = KEY, .path = path,
		.on_message = on_message, .on_violation = on_violation,
	};
	const struct rdmamsg_dc_sender_options sopts = {
		.size = sizeof(sopts), .on_complete = on_complete,
		.path = sender_path,
	};

	assert_int_equal(rdmamsg_dc_target_create(ctx, host, "0", &topts,
						  &target), 0);
	assert_int_equal(rdmamsg_dc_sender_create(ctx, &sopts, &sender), 0);
}

static void make(uint32_t path, const char *host)
{
	make_with(path, path, host);
}

static void send_with(uint64_t key)
{
	const unsigned int before = completed;
	char port[8];

	(void)snprintf(port, sizeof(port), "%u",
		       rdmamsg_dc_target_port(target));
	assert_int_equal(rdmamsg_dc_address_create(sender, "127.0.0.1", port,
						   key, NULL, &to), 0);
	assert_int_equal(rdmamsg_dc_send(to, "x", 1, 0, &status), 0);
	UNTIL(ctx, completed > before);
}

static struct rdmamsg_dc_target_attr attr(void)
{
	struct rdmamsg_dc_target_attr a = { .size = sizeof(a) };

	assert_int_equal(rdmamsg_dc_target_query(target, &a), 0);
	return a;
}

static int set_up(void **state)
{
	violations = messages = completed = 0;
	query_fails = false;
	replace_calls(NULL, NULL);
	soft_table.query_qp = query_qp;
	return rdmamsg_open(&ctx, NULL);
}

static int tear_down(void **state)
{
	rdmamsg_close(ctx);
	rdmamsg__verbs = NULL;
	return 0;
}

static void assert_error(int ret, int error, const char *text)
{
	assert_int_equal(ret, error);
	assert_non_null(strstr(rdmamsg_error(), text));
}

/* ---- cases ------------------------------------------------------------- */

static void arm__device_does_not_count_EOPNOTSUPP(void **state)
{
#ifndef HAVE_MLX5DV
	skip();
#endif
	soft_table.mlx5_devx_qp_query = devx_qp_query_refused;
	make(RDMAMSG_DC_NATIVE, "127.0.0.1");
	for (int i = 0; i < 2; i++) {
		assert_error(rdmamsg_dc_target_arm(target), -EOPNOTSUPP,
			     "soft0");
		assert_error(rdmamsg_dc_target_arm(target), -EOPNOTSUPP,
			     "RDMAMSG_DC_CONNECTIONS");
		assert_int_equal(attr().armed, 0);
		assert_int_equal(attr().path, RDMAMSG_DC_NATIVE);
		assert_int_equal(attr().counts_violations, 0);
		/* refused, and counted, by the library */
		send_with(KEY + 1);
		assert_int_equal(status, -EACCES);
		assert_int_equal(attr().key_violations, i + 1);
	}
	assert_int_equal(violations, 0);
	send_with(KEY);
	assert_int_equal(status, 0);
	UNTIL(ctx, messages == 1);
}

static void arm__device_counts_TOLD(void **state)
{
	make(RDMAMSG_DC_NATIVE, "127.0.0.1");
	assert_int_equal(rdmamsg_dc_target_arm(target), 0);
	assert_int_equal(attr().armed, 1);
#ifdef HAVE_MLX5DV
	assert_int_equal(attr().counts_violations, 1);
#endif
	send_with(KEY + 1);
	UNTIL(ctx, violations == 1);
	assert_int_equal(attr().armed, 0);
}

/* Connections tell of violations, whatever the device counts. */
static void arm__connections_TOLD(void **state)
{
	soft_table.mlx5_devx_qp_query = devx_qp_query_refused;
	make(RDMAMSG_DC_CONNECTIONS, "127.0.0.1");
	assert_int_equal(rdmamsg_dc_target_arm(target), 0);
	send_with(KEY + 1);
	UNTIL(ctx, violations == 1);
	assert_int_equal(rdmamsg_dc_target_arm(target), 0);
	soft_table.mlx5_is_supported = NULL;
	send_with(KEY + 2);
	UNTIL(ctx, violations == 2);
}

/* Unless the program insists on DC, the target has no DCT then. */
static void arm__path_is_left_to_the_library_TOLD(void **state)
{
	for (int counts = 0; counts < 2; counts++) {
		soft_table.mlx5_devx_qp_query = counts ?
			rdmamsg__verbs_soft.mlx5_devx_qp_query :
			devx_qp_query_refused;
		messages = violations = 0;
		make_with(RDMAMSG_DC_AUTO, RDMAMSG_DC_NATIVE, "127.0.0.1");
		assert_int_equal(rdmamsg_dc_target_arm(target), 0);
		send_with(KEY);
		assert_int_equal(status, 0);
		UNTIL(ctx, messages == 1);
#ifdef HAVE_MLX5DV
		assert_int_equal(attr().path, counts ? RDMAMSG_DC_NATIVE :
				 RDMAMSG_DC_CONNECTIONS);
#endif
		send_with(KEY + 1);
		UNTIL(ctx, violations == 1);
		rdmamsg_dc_sender_destroy(sender);
		rdmamsg_dc_target_destroy(target);
	}
}

/* A device without DC makes connections, too. */
static void arm__no_DC_TOLD(void **state)
{
	soft_table.mlx5_is_supported = NULL;
	make(RDMAMSG_DC_NATIVE, "127.0.0.1");
	assert_int_equal(rdmamsg_dc_target_arm(target), 0);
	send_with(KEY + 1);
	UNTIL(ctx, violations == 1);
}

/* Before the first sender, a target of all addresses has no device. */
static void arm__device_unknown_TOLD_OF_REQUESTS(void **state)
{
	soft_table.mlx5_devx_qp_query = devx_qp_query_refused;
	make(RDMAMSG_DC_NATIVE, NULL);
	assert_int_equal(rdmamsg_dc_target_arm(target), 0);
	send_with(KEY + 1);
	UNTIL(ctx, violations == 1);
}

static void arm__destroyed_ESHUTDOWN(void **state)
{
	make(RDMAMSG_DC_CONNECTIONS, "127.0.0.1");
	assert_error(rdmamsg_dc_target_arm(NULL), -EINVAL, "NULL");
	send_with(KEY);
	rdmamsg_dc_target_destroy(target);
	assert_error(rdmamsg_dc_target_arm(target), -ESHUTDOWN, "destroyed");
}

static void query__device_refuses_IS_TOLD(void **state)
{
	struct rdmamsg_dc_target_attr t = { .size = sizeof(t) };
	struct rdmamsg_dc_address_attr a = { .size = sizeof(a) };

	make(RDMAMSG_DC_NATIVE, "127.0.0.1");
	send_with(KEY);
	assert_int_equal(status, 0);
	query_fails = true;
#ifdef HAVE_MLX5DV
	assert_error(rdmamsg_dc_target_query(target, &t), -EIO,
		     "a target of DC");
#endif
	assert_error(rdmamsg_dc_address_query(to, &a), -EIO, "an initiator");
	query_fails = false;
	assert_int_equal(rdmamsg_dc_address_query(to, &a), 0);
	assert_int_equal(a.state, RDMAMSG_DC_OPEN);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(arm__device_does_not_count_EOPNOTSUPP),
		TEST(arm__device_counts_TOLD),
		TEST(arm__connections_TOLD),
		TEST(arm__path_is_left_to_the_library_TOLD),
		TEST(arm__no_DC_TOLD),
		TEST(arm__device_unknown_TOLD_OF_REQUESTS),
		TEST(arm__destroyed_ESHUTDOWN),
		TEST(query__device_refuses_IS_TOLD),
	};

	join_own_fabric("dc-violations");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
