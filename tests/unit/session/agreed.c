/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: a peer sends a message larger than the agreed maximum. */
#include "device/verbs_api.h"
#include "session/ep.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>

#define AGREED	100u

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	s->messages++;
	assert_true(rdmamsg_msg_len(msg) <= AGREED);
	rdmamsg_msg_free(msg);
}

static void message__larger_than_max_msg_size_PROTOCOL(void **state)
{
	static uint8_t bytes[2 * AGREED];

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	for (unsigned int good = 0; good < 3; good++) {
		connect_anew(on_message, (struct rdmamsg_ep_options){
			.max_msg_size = AGREED,
		});
		for (unsigned int i = 0; i < good; i++)
			assert_int_equal(rdmamsg_send(client.ep, bytes, AGREED,
						      0, NULL), 0);
		WAIT_FOR(server.messages == good);
		assert_int_equal(rdmamsg_send(client.ep, bytes, AGREED + 1, 0,
					      NULL), -EMSGSIZE);
		/* a peer that ignores the agreed max_msg */
		client.ep->connect.peer.max_msg = RDMAMSG_MSG_MAX;
		assert_int_equal(rdmamsg_send(client.ep, bytes, AGREED + 1, 0,
					      NULL), 0);
		WAIT_FOR(client.closed && server.closed);
		assert_int_equal(server.messages, good);
		assert_int_equal(server.why.cause, RDMAMSG_CAUSE_PROTOCOL);
		rdmamsg_close(client.ctx);
		rdmamsg_close(server.ctx);
	}
	rdmamsg__verbs = &rdmamsg__verbs_system;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(message__larger_than_max_msg_size_PROTOCOL),
	};

	join_own_fabric("agreed");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
