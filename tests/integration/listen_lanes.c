/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a request for another lane of a session reaches any member of the
 * shared port.
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(lane__reaches_any_member_SESSION_GOES_ON),
	};

	return test_main(tests, NULL, argc, argv);
}
