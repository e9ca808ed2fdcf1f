/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: cork and uncork over the soft HCA: which sends share a doorbell,
 * and what is refused between the two calls.
 */
#include "device/verbs_api.h"
#include "session/ep.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/fast.h>
#include <rdmamsg/flow.h>

#define MANY	34

static struct rdmamsg_ep_options opts;
static const uint8_t data[3000];
static bool disordered;

/* Sends of the client: how often each has completed. */
static struct cookie {
	unsigned int count;
} cookies[MANY];

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	disordered |= rdmamsg_msg_tag(msg) != s->messages;
	s->messages++;
	rdmamsg_msg_free(msg);
}

static void on_done(struct rdmamsg_ep *ep, void *cookie, int status)
{
	((struct cookie *)cookie)->count++;
}

static int set_up(void **state)
{
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_complete = on_done, .on_message = on_message,
		.on_closed = on_closed,
	};

	opts = (struct rdmamsg_ep_options){
		.size = sizeof(opts), .handlers = &handlers,
	};
	clear_ends();
	memset(cookies, 0, sizeof(cookies));
	disordered = false;
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return 0;
}

static void send_it(size_t len, uint32_t tag)
{
	assert_int_equal(rdmamsg_send(client.ep, data, len, tag, &cookies[tag]),
			 0);
}

static unsigned int posts;
static int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr,
			struct ibv_send_wr **bad);

static int counted(struct ibv_qp *qp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad)
{
	posts++;
	return post_send(qp, wr, bad);
}

/* Both ends have the same device: counts only while the client sends. */
static void count_posts(void)
{
	struct ibv_context_ops *ops = &client.ep->lane.hot.qp->context->ops;

	post_send = ops->post_send;
	ops->post_send = counted;
}

static void count_no_more(void)
{
	client.ep->lane.hot.qp->context->ops.post_send = post_send;
}

static void cork__sends_SHARE_A_DOORBELL(void **state)
{
	uint32_t n = 0;

	connect_ends(&opts);
	count_posts();
	posts = 0;
	for (; n < 4; n++)
		send_it(100, n);
	assert_int_equal(posts, 4);
	posts = 0;
	assert_int_equal(rdmamsg_cork(client.ctx), 0);
	assert_int_equal(rdmamsg_cork(client.ctx), 0);
	for (; n < 8; n++)
		send_it(100, n);
	for (; n < 14; n++)
		assert_int_equal(rdmamsg_send(client.ep, data, 100, n, NULL),
				 0);
	assert_int_equal(rdmamsg_uncork(client.ctx), 0);
	assert_int_equal(posts, 0);
	assert_int_equal(rdmamsg_uncork(client.ctx), 0);
	assert_int_equal(posts, 1);
	/* as many as a batch holds go at once */
	assert_int_equal(rdmamsg_cork(client.ctx), 0);
	for (; n < 34; n++)
		send_it(3000, n);
	assert_int_equal(posts, 2);
	assert_int_equal(rdmamsg_uncork(client.ctx), 0);
	assert_int_equal(posts, 3);
	count_no_more();
	WAIT_FOR(server.messages == 34);
	assert_false(disordered);
}

static void cork__calls_that_wait_EDEADLK(void **state)
{
	struct rdmamsg_msg *msg;

	connect_ends(&opts);
	assert_int_equal(rdmamsg_uncork(client.ctx), -EINVAL);
	assert_int_equal(rdmamsg_cork(NULL), -EINVAL);
	assert_int_equal(rdmamsg_cork(client.ctx), 0);
	assert_int_equal(rdmamsg_poll(client.ctx), -EDEADLK);
	assert_non_null(strstr(rdmamsg_error(), "cork"));
	assert_int_equal(rdmamsg_fast_poll(client.ctx), -EDEADLK);
	assert_int_equal(rdmamsg_process(client.ctx), -EDEADLK);
	assert_int_equal(rdmamsg_wait(client.ctx, 0), -EDEADLK);
	assert_int_equal(rdmamsg_run(client.ctx), -EDEADLK);
	assert_int_equal(rdmamsg_recv_wait(client.ep, 0, &msg), -EDEADLK);
	assert_int_equal(rdmamsg_uncork(client.ctx), 0);
	assert_true(rdmamsg_poll(client.ctx) >= 0);
}

static void cork__closed_meanwhile_CLOSES(void **state)
{
	connect_ends(&opts);
	assert_int_equal(rdmamsg_cork(client.ctx), 0);
	assert_int_equal(rdmamsg_cork(client.ctx), 0);
	send_it(100, 0);
	rdmamsg_close(client.ctx);
	client.ctx = NULL;
	assert_int_equal(cookies[0].count, 1);
}

static void cork_inside(struct rdmamsg *ctx, void *arg)
{
	assert_int_equal(rdmamsg_cork(ctx), 0);
	send_it(100, 0);
	assert_int_equal(rdmamsg_uncork(ctx), 0);
	assert_int_equal(rdmamsg_uncork(ctx), 0);
	*(bool *)arg = true;
}

static void cork__in_a_callback_DOES_NOTHING(void **state)
{
	bool ran = false;

	connect_ends(&opts);
	assert_int_equal(rdmamsg_submit(client.ctx, cork_inside, &ran), 0);
	WAIT_FOR(ran && server.messages == 1);
}

/* The endpoint fails while corked: the loop must learn of it. */
static void cork__device_refuses_CLOSES(void **state)
{
	connect_ends(&opts);
	assert_int_equal(rdmamsg_cork(client.ctx), 0);
	send_it(100, 0);
	rdmamsg_ep_abort(client.ep);
	assert_int_equal(rdmamsg_uncork(client.ctx), 0);
	WAIT_FOR(client.closed);
	assert_int_equal(cookies[0].count, 1);
}

#define TEST(fn)	cmocka_unit_test_setup_teardown(fn, set_up, leave_soft)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cork__sends_SHARE_A_DOORBELL),
		TEST(cork__calls_that_wait_EDEADLK),
		TEST(cork__closed_meanwhile_CLOSES),
		TEST(cork__in_a_callback_DOES_NOTHING),
		TEST(cork__device_refuses_CLOSES),
	};

	join_own_fabric("cork");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
