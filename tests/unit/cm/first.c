/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the peer's device does not notice the first message until more
 * arrives, as siw does. The connection is set up nevertheless.
 */
#include "../iwarp_ends.h"

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

static struct ibv_context_ops ops;
static unsigned int posts;

/* The second request of the connection carries out the first, too. */
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	int ret = ops.post_send(qp, wr, bad);

	if (++posts == 2)
		nulldev_cut(false);
	return ret;
}

static struct ibv_context *open_device(struct ibv_device *d)
{
	struct ibv_context *verbs = nulldev_verbs.open_device(d);

	ops = verbs->ops;
	verbs->ops.post_send = post_send;
	return verbs;
}

static int set_up(void **state)
{
	device = nulldev_verbs;
	device.open_device = open_device;
	use_iwarp(SIW_VENDOR);
	posts = 0;
	nulldev_cut(true);
	return 0;
}

static int tear_down(void **state)
{
	nulldev_cut(false);
	leave_iwarp();
	return nulldev_counts.qps || nulldev_counts.ids ? -1 : 0;
}

static void setup__not_noticed_IS_NUDGED(void **state)
{
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_closed = on_closed,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};

	connect_ends(&opts);
	assert_true(posts >= 2);
	assert_false(client.closed || server.closed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(setup__not_noticed_IS_NUDGED,
						set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
