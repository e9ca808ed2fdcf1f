/* SPDX-License-Identifier: BSD-2-Clause */
/* Option structs of older and newer programs, and values out of range. */
#include "base/base.h"
#include "base/ctx.h"
#include "cm/rdma/cm.h"
#include "session/ep.h"
#include "session/sessions.h"

#include <errno.h>
#include <stdint.h>
#include <stddef.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct opts {
	size_t size;
	uint32_t a, b;
	void *c;
};

static void copy__null_ALL_DEFAULTS(void **state)
{
	struct opts o = { 1, 2, 3, &o };

	assert_int_equal(rdmamsg__opts_copy(&o, sizeof(o), NULL, "opts"), 0);
	assert_int_equal(o.size, sizeof(o));
	assert_int_equal(o.a, 0);
	assert_int_equal(o.b, 0);
	assert_null(o.c);
}

/*
 * Copies from structs of each size up to sizeof(full), at the end of their
 * memory.
 */
static void copy__shorter_THE_REST_IS_ZERO(void **state)
{
	struct opts full = { 0, 0x11111111, 0x22222222, &full }, o, expected;

	for (size_t size = sizeof(size_t); size <= sizeof(full); size++) {
		char *mem = malloc(size);

		full.size = size;
		memcpy(mem, &full, size);
		memset(&o, 0xa5, sizeof(o));
		assert_int_equal(rdmamsg__opts_copy(&o, sizeof(o), mem, "opts"),
				 0);
		memset(&expected, 0, sizeof(expected));
		memcpy(&expected, &full, size);
		expected.size = sizeof(expected);
		assert_memory_equal(&o, &expected, sizeof(o));
		free(mem);
	}
}

static void copy__longer_MUST_BE_ZERO(void **state)
{
	struct {
		struct opts o;
		char more[40];
	} newer;
	struct opts o;

	for (size_t i = 0; i <= sizeof(newer.more); i++) {
		memset(&newer, 0, sizeof(newer));
		newer.o.size = sizeof(newer);
		newer.o.a = 7;
		if (i < sizeof(newer.more)) {
			newer.more[i] = 1;
			assert_int_equal(rdmamsg__opts_copy(&o, sizeof(o),
							    &newer, "opts"),
					 -EINVAL);
			assert_non_null(strstr(rdmamsg_error(), "opts"));
			continue;
		}
		assert_int_equal(rdmamsg__opts_copy(&o, sizeof(o), &newer,
						    "opts"), 0);
		assert_int_equal(o.a, 7);
		assert_int_equal(o.size, sizeof(o));
	}
}

static void copy__senseless_size_EINVAL(void **state)
{
	static const size_t sizes[] = { 0, 1, 7, 4097, SIZE_MAX };
	struct opts o, in = { 0 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		in.size = sizes[i];
		assert_int_equal(rdmamsg__opts_copy(&o, sizeof(o), &in, "opts"),
				 -EINVAL);
	}
}

/* ---- through the calls ------------------------------------------------ */

static struct rdmamsg *ctx;

static int open_it(void **state)
{
	return rdmamsg_open(&ctx, NULL);
}

static int close_it(void **state)
{
	rdmamsg_close(ctx);
	return 0;
}

static void open__out_of_range_EINVAL(void **state)
{
	struct rdmamsg *c = (void *)&c;
	struct rdmamsg_options o = { .size = sizeof(o) };

	o.submit_depth = (1u << 20) + 1;
	assert_int_equal(rdmamsg_open(&c, &o), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "submit_depth"));
	o.submit_depth = 0;
	o.spin_us = 1000001;
	assert_int_equal(rdmamsg_open(&c, &o), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "spin_us"));
	o.spin_us = RDMAMSG_NONE;
	/* a failed rdmamsg_open() does not set c */
	assert_ptr_equal(c, &c);
	assert_int_equal(rdmamsg_open(&c, &o), 0);
	rdmamsg_close(c);
	assert_int_equal(rdmamsg_open(NULL, NULL), -EINVAL);
}

struct asked {
	struct rdmamsg_ep_options o;
	struct rdmamsg_ep_tuning t;
};

#define FIELD(name)	{ #name, offsetof(struct asked, o.name) }
#define TUNED(name)	{ #name, offsetof(struct asked, t.name) }

static const struct field {
	const char *name;
	size_t offset;
} fields[] = {
	FIELD(timeout_ms), FIELD(max_msg_size), FIELD(send_queue),
	FIELD(dead_after_ms), FIELD(close_timeout_ms),
	TUNED(max_copy), TUNED(inline_max), TUNED(eager_max),
	TUNED(recv_depth), TUNED(send_depth), TUNED(stall_after_ms),
	TUNED(peer_timeout_ms), TUNED(fetch_timeout_ms),
	TUNED(ack_timeout), TUNED(retry_count), TUNED(rnr_retry_count),
	TUNED(min_rnr_timer), TUNED(responder_resources),
	TUNED(initiator_depth), TUNED(tos),
};

static uint32_t *field_of(struct asked *a, const struct field *f)
{
	return (uint32_t *)((char *)a + f->offset);
}

static int try_ep(const struct rdmamsg_ep_options *o, struct asked *ret)
{
	struct rdmamsg_ep *ep;
	int err = rdmamsg__ep_new(ctx, &rdmamsg__by_cm, o, &ep);

	if (err)
		return err;
	ret->o = ep->opts;
	ret->t = ep->tuning;
	(void)rdmamsg__ep_made(ep, -ECANCELED, NULL);	/* frees ep */
	return 0;
}

static int try_field(const struct field *f, uint32_t value, struct asked *ret)
{
	struct asked a = { .o.size = sizeof(a.o), .t.size = sizeof(a.t) };

	a.o.tuning = &a.t;
	*field_of(&a, f) = value;
	return try_ep(&a.o, ret);
}

static void ep__too_large_EINVAL_NAMES_THE_FIELD(void **state)
{
	const int promised = ctx->loop.timers.promised;

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		struct asked got;

		assert_int_equal(try_field(&fields[i], RDMAMSG_NONE - 1, &got),
				 -EINVAL);
		assert_non_null(strstr(rdmamsg_error(), fields[i].name));
		assert_int_equal(ctx->sessions->ep_count, 0);
		assert_int_equal(ctx->loop.timers.promised, promised);
	}
}

/* RDMAMSG_NONE is either a valid value of a field, or gives -EINVAL. */
static void ep__none_IS_ACCEPTED_OR_EINVAL(void **state)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		struct asked got;
		int ret = try_field(&fields[i], RDMAMSG_NONE, &got);

		if (ret)
			assert_int_equal(ret, -EINVAL);
		else
			assert_true(*field_of(&got, &fields[i]) <= 31 ||
				    *field_of(&got, &fields[i]) ==
				    RDMAMSG_NONE);
	}
}

static void ep__null_HAS_DEFAULTS(void **state)
{
	struct asked got;

	assert_int_equal(try_ep(NULL, &got), 0);
	assert_int_equal(got.o.max_msg_size, 64 << 20);
	assert_int_equal(got.t.max_lent, 64 << 20);
	assert_int_equal(got.o.timeout_ms, 10000);
	assert_int_equal(got.t.recv_depth, 64);
	assert_int_equal(got.t.send_depth, 128);
	assert_int_equal(got.o.send_queue, 0);
	assert_int_equal(got.t.retry_count, 7);
	assert_int_equal(got.t.peer_timeout_ms, RDMAMSG_NONE);
	assert_int_equal(got.t.tos, RDMAMSG_NONE);
}

static void ep__data_TOO_LONG_OR_MISSING_EINVAL(void **state)
{
	static const char data[RDMAMSG_SETUP_DATA_MAX + 1];
	struct rdmamsg_ep_options o = { .size = sizeof(o) };
	struct asked got;

	o.hello_data = data;
	o.hello_data_len = RDMAMSG_HELLO_DATA_MAX + 1;
	assert_int_equal(try_ep(&o, &got), -EINVAL);
	o.hello_data = NULL;
	o.hello_data_len = 1;
	assert_int_equal(try_ep(&o, &got), -EINVAL);
	o.hello_data_len = 0;
	o.setup_data = data;
	o.setup_data_len = RDMAMSG_SETUP_DATA_MAX + 1;
	assert_int_equal(try_ep(&o, &got), -EINVAL);
	o.setup_data = NULL;
	o.setup_data_len = 1;
	assert_int_equal(try_ep(&o, &got), -EINVAL);
	o.setup_data = data;
	o.setup_data_len = RDMAMSG_SETUP_DATA_MAX;
	assert_int_equal(try_ep(&o, &got), 0);
}

static void ep__flags_and_handlers_CHECKED(void **state)
{
	struct rdmamsg_ep_handlers on = { .size = 3 };
	struct rdmamsg_ep_options o = { .size = sizeof(o), .flags = 1u << 31 };
	struct asked got;

	assert_int_equal(try_ep(&o, &got), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "flags"));
	o.flags = 0;
	o.handlers = &on;
	assert_int_equal(try_ep(&o, &got), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "rdmamsg_ep_handlers"));
}

static void ep__tuning_COPIED_AND_CHECKED(void **state)
{
	struct rdmamsg_ep_tuning t = { .size = 3, .recv_depth = 8 };
	struct rdmamsg_ep_options o = { .size = sizeof(o), .tuning = &t };
	struct rdmamsg_ep *ep;
	struct asked got;

	assert_int_equal(try_ep(&o, &got), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "rdmamsg_ep_tuning"));
	t.size = sizeof(t);
	assert_int_equal(rdmamsg__ep_new(ctx, &rdmamsg__by_cm, &o, &ep), 0);
	assert_ptr_equal(ep->opts.tuning, &ep->tuning);
	t.recv_depth = 9;
	assert_int_equal(ep->tuning.recv_depth, 8);
	(void)rdmamsg__ep_made(ep, -ECANCELED, NULL);	/* frees ep */
	/* fields that the program does not know have their defaults */
	t.size = offsetof(struct rdmamsg_ep_tuning, recv_depth);
	assert_int_equal(try_ep(&o, &got), 0);
	assert_int_equal(got.t.recv_depth, 64);
}

/* Bad options fail before the library opens a device. */
static void listen__bad_options_EINVAL(void **state)
{
	struct rdmamsg_ep_options ep = { .size = sizeof(ep) };
	struct rdmamsg_listen_options o = { .size = sizeof(o), .ep = &ep };
	struct rdmamsg_listener *l;

	assert_int_equal(rdmamsg_listen(NULL, NULL, "0", &o, &l), -EINVAL);
	assert_int_equal(rdmamsg_listen(ctx, NULL, NULL, &o, &l), -EINVAL);
	o.backlog = 65536;
	assert_int_equal(rdmamsg_listen(ctx, NULL, "0", &o, &l), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "backlog"));
	o.backlog = 0;
	ep.hello_data_len = 1;		/* a length without data */
	assert_int_equal(rdmamsg_listen(ctx, NULL, "0", &o, &l), -EINVAL);
	ep.hello_data_len = 0;
	ep.setup_data_len = 1;
	assert_int_equal(rdmamsg_listen(ctx, NULL, "0", &o, &l), -EINVAL);
	ep.setup_data_len = 0;
	ep.size = 1;
	assert_int_equal(rdmamsg_listen(ctx, NULL, "0", &o, &l), -EINVAL);
}

static void connect__bad_arguments_EINVAL(void **state)
{
	struct rdmamsg_ep *ep;

	assert_int_equal(rdmamsg_connect(NULL, "::1", "1", NULL, &ep), -EINVAL);
	assert_int_equal(rdmamsg_connect(ctx, NULL, "1", NULL, &ep), -EINVAL);
	assert_int_equal(rdmamsg_connect(ctx, "::1", NULL, NULL, &ep), -EINVAL);
}

/* A NULL pointer gives an error, not a crash. */
static void calls__null_EINVAL(void **state)
{
	struct iovec iov = { NULL, 1 };

	assert_int_equal(rdmamsg_send(NULL, "", 1, 0, NULL), -EINVAL);
	assert_int_equal(rdmamsg_sendv(NULL, &iov, 1, 0, NULL), -EINVAL);
	assert_int_equal(rdmamsg_msg_send(NULL, NULL, 0, NULL), -EINVAL);
	assert_int_equal(rdmamsg_msg_alloc(NULL, 1, NULL), -EINVAL);
	assert_int_equal(rdmamsg_recv_wait(NULL, 0, NULL), -EINVAL);
	assert_int_equal(rdmamsg_send_wait(NULL, "", 1, 0, 0), -EINVAL);
	assert_int_equal(rdmamsg_ep_close_wait(NULL, 0), -EINVAL);
	assert_int_equal(rdmamsg_request_accept(NULL, NULL, NULL), -EINVAL);
	assert_int_equal(rdmamsg_request_reject(NULL, NULL, 0), -EINVAL);
	assert_int_equal(rdmamsg_listener_accept_wait(NULL, NULL, 0, NULL),
			 -EINVAL);
	assert_int_equal(rdmamsg_process(NULL), -EINVAL);
	assert_int_equal(rdmamsg_poll(NULL), -EINVAL);
	assert_int_equal(rdmamsg_wait(NULL, 0), -EINVAL);
	rdmamsg_ep_close(NULL);
	rdmamsg_ep_abort(NULL);
	rdmamsg_msg_free(NULL);
	rdmamsg_listener_close(NULL);
	rdmamsg_close(NULL);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, open_it, close_it)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copy__null_ALL_DEFAULTS),
		cmocka_unit_test(copy__shorter_THE_REST_IS_ZERO),
		cmocka_unit_test(copy__longer_MUST_BE_ZERO),
		cmocka_unit_test(copy__senseless_size_EINVAL),
		cmocka_unit_test(open__out_of_range_EINVAL),
		TEST(ep__too_large_EINVAL_NAMES_THE_FIELD),
		TEST(ep__none_IS_ACCEPTED_OR_EINVAL),
		TEST(ep__null_HAS_DEFAULTS),
		TEST(ep__data_TOO_LONG_OR_MISSING_EINVAL),
		TEST(ep__flags_and_handlers_CHECKED),
		TEST(ep__tuning_COPIED_AND_CHECKED),
		TEST(listen__bad_options_EINVAL),
		TEST(connect__bad_arguments_EINVAL),
		TEST(calls__null_EINVAL),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
