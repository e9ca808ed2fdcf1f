/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMAMSG_SOFT_NET=all where there are no packets, because the link is no
 * Ethernet of RoCE: processes of this host are still reached.
 */
#include "soft/soft.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "../own_fabric.h"

/* Returns the event that resolving the address of this host ends with. */
static enum rdma_cm_event_type resolve(struct rdma_event_channel *ch)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(7),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	enum rdma_cm_event_type ret;
	struct rdma_cm_id *id;

	assert_int_equal(soft_cma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(soft_cma_resolve_addr(id, NULL, (struct sockaddr *)&to,
					       1000), 0);
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(soft_cma_get_cm_event(ch, &event), 0);
	ret = event->event;
	assert_int_equal(soft_cma_ack_cm_event(event), 0);
	assert_int_equal(soft_cma_destroy_id(id), 0);
	return ret;
}

static void resolve__all_on_another_link_REACHED(void **state)
{
	static const char *const links[] = { "ib", "iwarp" };

	for (int i = 0; i < 2; i++) {
		struct rdma_event_channel *ch;

		join_own_fabric(links[i]);
		assert_int_equal(setenv("RDMAMSG_SOFT_LINK", links[i], 1), 0);
		ch = soft_cma_create_event_channel();
		assert_non_null(ch);
		assert_int_equal(resolve(ch), RDMA_CM_EVENT_ADDR_RESOLVED);
		soft_cma_destroy_event_channel(ch);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resolve__all_on_another_link_REACHED),
	};

	(void)setenv("RDMAMSG_SOFT_NET", "all", 1);
	return cmocka_run_group_tests_name("near", tests, NULL, NULL);
}
