/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a request moves to another context while its device is removed.
 * The request moves once or stays, in any order of both events.
 */
#include "base/ctx.h"
#include "base/submit.h"
#include "device/verbs_api.h"
#include "cm/connect.h"
#include "cm/rdma/cm.h"
#include "session/sessions.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../../fake/nulldev.h"

static struct verbs_api device;		/* the null device */
static struct rdmamsg *client, *from, *to;
static struct rdmamsg_request *pending, *moved;
static unsigned int migrations, moves;
static int migrate_error;
static bool closed;
static struct rdmamsg_reason why;

static int migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *ch)
{
	migrations++;
	if (!migrate_error)
		return nulldev_verbs.migrate_id(id, ch);
	errno = migrate_error;
	return -1;
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *r)
{
	closed = true;
	why = *r;
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_closed = on_closed,
};

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	pending = req;
}

static void on_moved(struct rdmamsg *ctx, struct rdmamsg_request *req,
		     void *arg)
{
	assert_ptr_equal(ctx, to);
	assert_ptr_equal(req, arg);
	moved = req;
	moves++;
}

static void nothing(struct rdmamsg *ctx, void *arg)
{
}

static void turns(struct rdmamsg *ctx)
{
	for (int i = 0; i < 10; i++)
		assert_true(rdmamsg_process(ctx) >= 0);
}

/* A request is pending in 'from'; its peer is in 'client'. */
static int set_up(void **state)
{
	const struct rdmamsg_ep_options eo = {
		.size = sizeof(eo), .handlers = &handlers,
	};
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	const struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .handlers = &on,
	};
	const struct rdmamsg_options small = {
		.size = sizeof(small), .submit_depth = 2,
	};
	struct rdmamsg_listener *l;
	char port[8];

	device = nulldev_verbs;
	device.migrate_id = migrate_id;
	rdmamsg__verbs = &device;
	pending = moved = NULL;
	migrations = moves = 0;
	migrate_error = 0;
	closed = false;
	if (rdmamsg_open(&client, NULL) || rdmamsg_open(&from, NULL) ||
	    rdmamsg_open(&to, &small) ||
	    rdmamsg_listen(from, NULL, "0", &lo, &l))
		return -1;
	snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(l));
	if (rdmamsg_connect(client, "127.0.0.1", port, &eo, NULL))
		return -1;
	turns(client);
	turns(from);
	return !pending;
}

static int tear_down(void **state)
{
	rdmamsg_close(from);
	rdmamsg_close(to);
	rdmamsg_close(client);
	return nulldev_counts.ids || nulldev_counts.qps ||
	       nulldev_counts.cqs || nulldev_counts.mrs ||
	       nulldev_counts.contexts ? -1 : 0;
}

static void check_gone(void)
{
	struct rdmamsg_ep *ep;

	assert_int_equal(moves, 1);
	assert_int_equal(rdmamsg_request_accept(moved, NULL, &ep), -ECONNRESET);
	turns(client);
	assert_true(closed);
}

static void move_it(void)
{
	assert_int_equal(rdmamsg_request_move(pending, to, on_moved, pending),
			 0);
	assert_int_equal(moves, 0);
}

static void removed__before_the_move_TOLD_WHEN_ACCEPTED(void **state)
{
	nulldev_remove();
	move_it();
	turns(from);
	turns(to);
	check_gone();
}

/* 'to' handles the removal event before it receives the request. */
static void removed__event_before_the_request_TOLD_WHEN_ACCEPTED(void **state)
{
	move_it();
	nulldev_remove();
	assert_true(rdmamsg__cm_process(to, &to->sessions->cm[0]) > 0);
	assert_int_equal(moves, 0);
	turns(to);
	check_gone();
}

static void removed__event_after_the_request_TOLD_WHEN_ACCEPTED(void **state)
{
	move_it();
	nulldev_remove();
	assert_true(rdmamsg__submit_run(&to->loop) > 0);
	assert_int_equal(moves, 1);
	turns(to);
	check_gone();
}

static void removed__already_told_IS_MOVED(void **state)
{
	nulldev_remove();
	turns(from);
	move_it();
	assert_int_equal(migrations, 0);
	turns(to);
	check_gone();
}

/* rdma_migrate_id() fails, as it does once the kernel has closed the id. */
static void removed__cannot_be_moved_STAYS(void **state)
{
	struct rdmamsg_ep *ep;

	migrate_error = EIO;
	assert_int_equal(rdmamsg_request_move(pending, to, on_moved, pending),
			 -EIO);
	nulldev_remove();
	turns(from);
	turns(to);
	assert_int_equal(moves, 0);
	assert_int_equal(rdmamsg_request_accept(pending, NULL, &ep),
			 -ECONNRESET);
	/* the failed move has freed its slot in the submit queue of 'to' */
	for (int i = 0; i < 10; i++) {
		assert_int_equal(rdmamsg_submit(to, nothing, NULL), 0);
		turns(to);
	}
}

/*
 * The submit queue of 'to' is full, so the request stays and 'to' gets no
 * event.
 */
static void full__HAS_NOT_LEFT(void **state)
{
	struct rdmamsg_ep *ep;

	while (!rdmamsg_submit(to, nothing, NULL))
		;
	assert_int_equal(rdmamsg_request_move(pending, to, on_moved, pending),
			 -EAGAIN);
	assert_int_equal(migrations, 0);
	nulldev_remove();
	turns(to);
	turns(from);
	assert_int_equal(rdmamsg_request_accept(pending, NULL, &ep),
			 -ECONNRESET);
}

/* 'to' closes before it processes the moved request. */
static void closed__with_the_request_on_its_way_REJECTED(void **state)
{
	move_it();
	rdmamsg_close(to);
	assert_int_equal(rdmamsg_open(&to, NULL), 0);
	turns(client);
	assert_true(closed);
	assert_int_equal(why.cause, RDMAMSG_CAUSE_REJECTED);
	assert_int_equal(moves, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(removed__before_the_move_TOLD_WHEN_ACCEPTED),
		TEST(removed__event_before_the_request_TOLD_WHEN_ACCEPTED),
		TEST(removed__event_after_the_request_TOLD_WHEN_ACCEPTED),
		TEST(removed__already_told_IS_MOVED),
		TEST(removed__cannot_be_moved_STAYS),
		TEST(full__HAS_NOT_LEFT),
		TEST(closed__with_the_request_on_its_way_REJECTED),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
