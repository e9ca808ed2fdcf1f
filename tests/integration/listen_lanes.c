/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a request for another lane of a session reaches any member of the
 * shared port. The listener of the session decides, drained or closed or not.
 */
#include "common.h"
#include "harm.h"
#include "listen_port.h"

#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/listener.h>

static const struct rdmamsg_failover lanes = {
	.size = sizeof(lanes), .rungs = RDMAMSG_RUNG_LANE,
	.timeout_ms = 100000,
};

/* ---- the lane is lost --------------------------------------------------- */

/*
 * A request for another lane reaches the first member that looks. The session
 * of the other one goes on in its own context.
 */
static void lane__reaches_any_member_SESSION_GOES_ON(void **state)
{
	harm_find();
	clients_open();
	failover = &lanes;
	members_open(2, shared);
	for (int i = 0; i < 4; i++)
		(void)client_connected(i);
	errors_are_fine = texts_are_fine = true;
	harm_remove();
	WAIT_FOR(members[0].failed && members[1].failed);
	WAIT_FOR(harm_removed());
	harm_add();
	WAIT_PASSING(resumed == 4 || closed);
	assert_int_equal(closed, 0);
	for (int i = 0; i < 4; i++)
		client_end(&clients[i]);
	for (int i = 0; i < 2; i++)
		assert_int_equal(members[i].connected, 2);
}

/* ---- the lane is up ----------------------------------------------------- */

static struct member *const owner = &members[0], *const other = &members[1];

/*
 * The owner has the session. The loops of both run only if the test drives them,
 * so that the other one takes the request for another lane.
 */
static void session_of_owner(void)
{
	clients_open();
	failover = &lanes;
	member_stuck(owner, shared, NULL, NULL);
	(void)client_dial(0);
	UNTIL_BY(test_drive(owner->ctx); test_pump(1),
		 clients[0].connected && owner->connected);
	member_stuck(other, shared, NULL, NULL);
	while (rdmamsg_process(other->ctx) > 0)
		;
}

static void client_moves(void)
{
	const struct rdmamsg_migrate_options o = {
		.size = sizeof(o), .lane = 1,
	};

	assert_int_equal(rdmamsg_ep_migrate(clients[0].ep, &o), 0);
}

static void other_takes_the_lane(void)
{
	WAIT_FOR(rdmamsg_process(other->ctx) > 0);
	UNTIL_BY(test_drive(owner->ctx); test_drive(other->ctx); test_pump(1),
		 resumed || not_moved || closed);
	assert_int_equal(closed, 0);
}

static void session_ends(void)
{
	rdmamsg_ep_close(clients[0].ep);
	UNTIL_BY(test_drive(owner->ctx); test_pump(1), closed);
	assert_int_equal(clients[0].why.error, 0);
	for (int i = 0; i < 2; i++)
		rdmamsg_close(members[i].ctx);
}

static void lane__of_a_member_that_drains_IS_REFUSED(void **state)
{
	session_of_owner();
	/* asks the client to move, which has no other address */
	assert_int_equal(rdmamsg_listener_drain(owner->l), 0);
	test_drive(owner->ctx);
	other_takes_the_lane();
	assert_int_equal(not_moved, 1);
	assert_int_equal(resumed, 0);
	session_ends();
}

static void lane__through_a_member_that_drains_IS_ACCEPTED(void **state)
{
	session_of_owner();
	assert_int_equal(rdmamsg_listener_drain(other->l), 0);
	client_moves();
	other_takes_the_lane();
	assert_int_equal(resumed, 1);
	session_ends();
}

static void lane__of_a_member_that_has_closed_IS_ACCEPTED(void **state)
{
	session_of_owner();
	member_close(owner);
	client_moves();
	other_takes_the_lane();
	assert_int_equal(resumed, 1);
	session_ends();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(lane__reaches_any_member_SESSION_GOES_ON),
		TEST(lane__of_a_member_that_drains_IS_REFUSED),
		TEST(lane__through_a_member_that_drains_IS_ACCEPTED),
		TEST(lane__of_a_member_that_has_closed_IS_ACCEPTED),
	};

	return test_main(tests, NULL, argc, argv);
}
