/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations with timeout_ms over the soft HCA. The time stands still unless a
 * test lets it pass, and a test can hold the completions of the client's device
 * back.
 */
#ifndef TESTS_UNIT_OP_TIMEOUT_H
#define TESTS_UNIT_OP_TIMEOUT_H

#include "../../integration/clock.h"
#include "base/ctx.h"
#include "device/cq.h"
#include "session/ep.h"
#include "../own_fabric.h"
#include "../soft_calls.h"
#include "../two_ends.h"

#include <errno.h>
#include <string.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/flow.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/post.h>

#define LARGE		(1u << 20)
#define ROOM		4096u
#define TIMEOUT		1000u
#define MANY		512

/* The calls that told the program of an operation. */
struct told {
	unsigned int complete, late;
	int status, late_status;
};

static struct told told[MANY];
static uint32_t got[MANY];
static uint8_t data[LARGE];
static uint64_t there[ROOM / 8], here[ROOM / 8];
static struct rdmamsg_key key;
static struct rdmamsg_region *to, *from;
static const struct ibv_cq *held;	/* its completions do not come */
static uint32_t failed;			/* number of a queue pair */
static bool in_call, reentered, ended, late_after_end;
static struct rdmamsg_ep_options opts;
static struct rdmamsg_ep_handlers handlers;
static void (*then)(struct told *t);	/* in on_complete */

static inline int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int n = cq == held ? 0 : soft_ops.poll_cq(cq, room, wc);

	/* the soft HCA carried out the request before the queue pair failed */
	for (int i = 0; i < n; i++)
		if (failed && wc[i].qp_num == failed)
			wc[i].status = IBV_WC_WR_FLUSH_ERR;
	return n;
}

static inline void hold(void)
{
	held = client.ep->lane.cq->ibv;
}

static inline void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	assert_true(s->messages < MANY);
	got[s->messages++] = rdmamsg_msg_tag(msg);
	rdmamsg_msg_free(msg);
}

static inline void on_done(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct told *t = cookie;

	reentered |= in_call;
	if (rdmamsg_ep_user(ep) != &client)
		return;
	t->complete++;
	t->status = status;
	client.sent++;
	if (then)
		then(t);
}

static inline void on_late(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct told *t = cookie;

	assert_ptr_equal(ep, client.ep);
	reentered |= in_call;
	late_after_end |= ended;
	assert_int_equal(t->status, RDMAMSG_OVERDUE);
	t->late++;
	t->late_status = status;
}

static inline void on_end(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	ended |= rdmamsg_ep_user(ep) == &client;
	on_closed(ep, why);
}

static inline int set_up(void **state)
{
	static const struct rdmamsg_ep_tuning tuning = {
		.size = sizeof(tuning), .recv_depth = 4, .max_copy = LARGE,
	};

	handlers = (struct rdmamsg_ep_handlers){
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_complete = on_done, .on_message = on_message,
		.on_closed = on_end,
	};
	opts = (struct rdmamsg_ep_options){
		.size = sizeof(opts), .handlers = &handlers,
		.send_queue = 16, .tuning = &tuning,
	};
	clear_ends();
	memset(told, 0, sizeof(told));
	memset(here, 0, sizeof(here));
	there[0] = 40;
	held = NULL;
	failed = 0;
	then = NULL;
	in_call = reentered = ended = late_after_end = false;
	replace_calls(poll_cq, NULL);
	return 0;
}

static inline int tear_down(void **state)
{
	held = NULL;
	clock_go();
	(void)leave_soft(state);
	assert_false(reentered || late_after_end);
	return 0;
}

/* Connects both ends, and the client reaches the server's memory. */
static inline void connect_still(void)
{
	connect_ends(&opts);
	share_memory(there, here, ROOM, RDMAMSG_ACCESS_READ |
		     RDMAMSG_ACCESS_WRITE | RDMAMSG_ACCESS_ATOMIC |
		     RDMAMSG_ACCESS_LOCAL_WRITE, &key, &to, &from);
	clock_stop();
}

static inline void let_work(unsigned int rounds)
{
	while (rounds--)
		both();
}

static inline void pass(uint32_t ms)
{
	clock_pass(ms);
	let_work(3);
}

static inline int post(const struct rdmamsg_op *op)
{
	int ret;

	in_call = true;
	ret = rdmamsg_post(client.ep, op);
	in_call = false;
	return ret;
}

static inline void post_it(struct rdmamsg_op op, struct told *t)
{
	op.size = sizeof(op);
	op.cookie = t;
	op.timeout_ms = TIMEOUT;
	op.on_late = on_late;
	assert_int_equal(post(&op), 0);
}

static inline void send_it(size_t len, uint32_t tag)
{
	const struct rdmamsg_sge s = { data, len, NULL };

	post_it((struct rdmamsg_op){
		.kind = RDMAMSG_OP_SEND, .sge = &s, .count = 1, .tag = tag,
	}, &told[tag]);
}

/* The server takes nothing, and all credits are used. */
static inline uint32_t use_credits(void)
{
	uint32_t n = 0;

	assert_int_equal(rdmamsg_ep_pause(server.ep), 0);
	do {
		assert_int_equal(rdmamsg_send(client.ep, data, 8, n++, NULL),
				 0);
		let_work(2);
	} while (!client.ep->send.queued);
	return n;
}

static inline void check(const struct told *t, int status)
{
	assert_int_equal(t->complete, 1);
	assert_int_equal(t->status, status);
	assert_int_equal(t->late, 0);
}

static inline void check_late(const struct told *t, int status)
{
	assert_int_equal(t->complete, 1);
	assert_int_equal(t->status, RDMAMSG_OVERDUE);
	assert_int_equal(t->late, 1);
	assert_int_equal(t->late_status, status);
}

static inline struct rdmamsg_op op_of(enum rdmamsg_op_kind kind,
				      const struct rdmamsg_sge *s)
{
	static const uint64_t two = 2, forty = 40;
	struct rdmamsg_op op = { .kind = kind };

	if (kind != RDMAMSG_OP_FLUSH)
		op.key = &key;
	if (kind == RDMAMSG_OP_WRITE || kind == RDMAMSG_OP_READ) {
		op.sge = s;
		op.count = 1;
	} else if (kind != RDMAMSG_OP_FLUSH) {
		op.operand = &two;
		op.result = &here[1];
	}
	if (kind == RDMAMSG_OP_COMPARE_SWAP)
		op.compare = &forty;
	return op;
}

#endif
