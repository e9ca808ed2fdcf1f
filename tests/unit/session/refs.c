/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages with references over the soft HCA: their registrations, and what they
 * count for.
 */
#include "base/ctx.h"
#include "device/verbs_api.h"
#include "memory/large.h"
#include "memory/pool.h"
#include "memory/share.h"
#include "memory/source.h"
#include "session/ep.h"
#include "session/lent.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>

#define LARGE	(1u << 20)
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

static struct rdmamsg_ep_options opts;
static struct rdmamsg_ep_handlers handlers;
static struct verbs_api counting;
static unsigned int registered;		/* all memory, now */
/* those for peers to read; a freed one is NULL */
static const struct ibv_mr *exports[8];
static unsigned int exported;
static struct rdmamsg_msg *received;
static bool forwards;

static struct ibv_mr *count_reg(struct ibv_pd *pd, void *addr, size_t len,
				int access)
{
	registered++;
	return rdmamsg__verbs_soft.reg_mr(pd, addr, len, access);
}

static struct ibv_mr *count_iova(struct ibv_pd *pd, void *addr, size_t len,
				 uint64_t iova, int access)
{
	struct ibv_mr *mr = rdmamsg__verbs_soft.reg_mr_iova(pd, addr, len, iova,
							    access);

	registered++;
	if (access == IBV_ACCESS_REMOTE_READ) {
		assert_true(exported < ARRAY_SIZE(exports));
		exports[exported++] = mr;
	}
	return mr;
}

static int count_dereg(struct ibv_mr *mr)
{
	registered--;
	for (unsigned int i = 0; i < exported; i++)
		if (exports[i] == mr)
			exports[i] = NULL;
	return rdmamsg__verbs_soft.dereg_mr(mr);
}

static void keep(struct rdmamsg_msg *msg)
{
	assert_int_equal(rdmamsg_msg_ref(msg), 0);
	rdmamsg_msg_free(msg);
	received = msg;
}

/* Sends it back, and keeps a reference. */
static void forward(struct rdmamsg_msg *msg)
{
	assert_int_equal(rdmamsg_msg_ref(msg), 0);
	assert_int_equal(rdmamsg_msg_send(server.ep, msg, 0, NULL), 0);
	received = msg;
	forwards = false;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	s->messages++;
	if (s == &server && forwards)
		forward(msg);
	else if (s == &server && !received)
		keep(msg);
	else
		rdmamsg_msg_free(msg);
}

static int set_up(void **state)
{
	handlers = (struct rdmamsg_ep_handlers)END_HANDLERS(on_message);
	opts = (struct rdmamsg_ep_options){
		.size = sizeof(opts), .handlers = &handlers,
	};
	clear_ends();
	registered = exported = 0;
	received = NULL;
	memset(exports, 0, sizeof(exports));
	forwards = false;
	counting = rdmamsg__verbs_soft;
	counting.reg_mr = count_reg;
	counting.reg_mr_iova = count_iova;
	counting.dereg_mr = count_dereg;
	rdmamsg__verbs = &counting;
	return 0;
}

static struct rdmamsg_msg *message(struct rdmamsg_ep *ep, size_t len)
{
	struct rdmamsg_msg *msg;

	assert_int_equal(rdmamsg_msg_alloc(ep, len, &msg), 0);
	memset(rdmamsg_msg_data(msg), 7, len);
	return msg;
}

static void send_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	unsigned int before = server.messages, sent = client.sent;

	assert_int_equal(rdmamsg_msg_send(ep, msg, 1, &client), 0);
	WAIT_FOR(server.messages == before + 1 && client.sent == sent + 1);
	assert_int_equal(client.status, 0);
}

static const struct source *source_of(struct rdmamsg_msg *msg)
{
	return &((struct loose_msg *)msg)->large->source;
}

static void drop_received(void)
{
	rdmamsg_msg_free(received);
	both();
}

/* ---- registrations ------------------------------------------------------ */

/* Each peer gets a key of its own, which ends with its operation. */
static void large__shared_IS_REGISTERED_FOR_EACH_SEND(void **state)
{
	struct rdmamsg_msg *msg;

	connect_ends(&opts);
	msg = message(client.ep, LARGE);
	for (unsigned int i = 1; i < 4; i++) {
		assert_int_equal(rdmamsg_msg_ref(msg), 0);
		send_message(client.ep, msg);
		assert_int_equal(exported, i);
		assert_null(exports[i - 1]);
		assert_null(source_of(msg)->mr);
	}
	rdmamsg_msg_free(msg);
	drop_received();
}

/* A peer that has read this memory before, does not read what others get. */
static void source__of_an_earlier_message_ENDS(void **state)
{
	struct rdmamsg_ep *first;
	struct rdmamsg_msg *msg;

	connect_ends(&opts);
	first = client.ep;
	send_message(first, message(first, LARGE));
	connect_client(&opts);
	msg = message(first, LARGE);
	assert_non_null(source_of(msg)->mr);
	assert_int_equal(rdmamsg_msg_ref(msg), 0);
	send_message(client.ep, msg);
	assert_null(source_of(msg)->mr);
	rdmamsg_msg_free(msg);
	drop_received();
}

static void received__beyond_its_context_IS_NOT_REGISTERED(void **state)
{
	static const size_t sizes[] = { 100, LARGE };

	for (int i = 0; i < 2; i++) {
		const uint8_t *data;

		received = NULL;
		connect_ends(&opts);
		send_message(client.ep, message(client.ep, sizes[i]));
		rdmamsg_close(client.ctx);
		rdmamsg_close(server.ctx);
		clear_ends();
		assert_int_equal(registered, 0);
		data = rdmamsg_msg_data(received);
		assert_int_equal(data[0] + data[sizes[i] - 1], 14);
		rdmamsg_msg_free(received);
	}
}

/* ---- limits ------------------------------------------------------------- */

/* While the program has a reference, the message counts as lent. */
static void received__passed_on_COUNTS_LENT_THEN_SENT(void **state)
{
	struct lent *lent;
	size_t size;

	forwards = true;
	connect_ends(&opts);
	send_message(client.ep, message(client.ep, LARGE));
	lent = server.ep->rndv.lent;
	size = rdmamsg__msg_bytes(received);
	assert_int_equal(lent->bytes, size);
	assert_int_equal(lent->sent, 0);
	assert_int_equal(received->share->ops, 1);
	/* another thread could do that; the loop hears of it */
	rdmamsg_msg_free(received);
	assert_int_equal(lent->bytes, size);
	assert_true(rdmamsg_process(server.ctx) >= 0);
	assert_int_equal(lent->bytes, 0);
	assert_int_equal(lent->sent, size);
	WAIT_FOR(client.messages == 1 && !lent->sent);
	assert_int_equal(lent->refs, 1);
}

/* Beyond max_lent no more is passed on, and each is freed as it was. */
static void received__passed_on_beyond_max_lent_WAITS(void **state)
{
	struct lent *lent;

	connect_ends(&opts);
	send_message(client.ep, message(client.ep, LARGE));
	lent = server.ep->rndv.lent;
	lent->sent = lent->max;
	assert_int_equal(rdmamsg_msg_send(server.ep, received, 0, NULL),
			 -EAGAIN);
	assert_int_equal(received->share->refs, 1);
	lent->sent = 0;
	assert_int_equal(rdmamsg_msg_send(server.ep, received, 0, NULL), 0);
	WAIT_FOR(client.messages == 1 && !lent->sent);
	assert_int_equal(lent->refs, 1);
}

static void buffers__after_the_last_reference_ARE_FREE(void **state)
{
	struct rdmamsg_msg *msg;
	struct pool *pool;
	uint32_t used;

	connect_ends(&opts);
	msg = message(client.ep, 1000);
	pool = msg->slab->pool;
	used = pool->used;
	assert_int_equal(rdmamsg_msg_ref(msg), 0);
	rdmamsg_msg_free(msg);
	rdmamsg_msg_free(msg);
	assert_int_equal(pool->used, used);
	assert_true(rdmamsg_process(client.ctx) >= 0);
	assert_int_equal(pool->used, used - 1);
	assert_int_equal(msg->lent, MSG_OURS);
}

/* The loop of a program that waits for the descriptor hears of it, too. */
static void free__wakes_the_loop_ONCE(void **state)
{
	struct rdmamsg_msg *msg[2];
	struct pollfd fd = { .events = POLLIN };

	connect_ends(&opts);
	fd.fd = rdmamsg_fd(client.ctx);
	WAIT_FOR(!poll(&fd, 1, 0));
	for (int i = 0; i < 2; i++) {
		msg[i] = message(client.ep, 1000);
		assert_int_equal(rdmamsg_msg_ref(msg[i]), 0);
		rdmamsg_msg_free(msg[i]);
	}
	assert_int_equal(poll(&fd, 1, 0), 0);
	rdmamsg_msg_free(msg[0]);
	rdmamsg_msg_free(msg[1]);
	assert_int_equal(poll(&fd, 1, 0), 1);
	assert_true(rdmamsg_process(client.ctx) >= 0);
	assert_int_equal(msg[0]->lent, MSG_OURS);
	assert_int_equal(msg[1]->lent, MSG_OURS);
	assert_int_equal(poll(&fd, 1, 0), 0);
}

#define TEST(fn)	cmocka_unit_test_setup_teardown(fn, set_up, leave_soft)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(large__shared_IS_REGISTERED_FOR_EACH_SEND),
		TEST(source__of_an_earlier_message_ENDS),
		TEST(received__beyond_its_context_IS_NOT_REGISTERED),
		TEST(received__passed_on_COUNTS_LENT_THEN_SENT),
		TEST(received__passed_on_beyond_max_lent_WAITS),
		TEST(buffers__after_the_last_reference_ARE_FREE),
		TEST(free__wakes_the_loop_ONCE),
	};

	join_own_fabric("refs");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
