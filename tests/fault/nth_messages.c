/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenarios of messages: every send call, and ends with messages in flight. */
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/submit.h"
#include "device/device.h"
#include "memory/memory.h"
#include "memory/stretch.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <rdmamsg/flow.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#include <string.h>

#include "faulty.h"
#include "nth.h"

static const struct kind {
	enum { SEND, SENDV, MSG, REF, POST } how;
	uint32_t len;
} items[ITEMS] = {
	{ SEND, 0 }, { SEND, 32 }, { SEND, 4000 }, { SENDV, 6000 },
	{ SENDV, LARGEST }, { SENDV, 30000 }, { SEND, 40000 }, { MSG, 100 },
	{ MSG, 70000 }, { SEND, 1 }, { SENDV, 50000 }, { SENDV, 50001 },
	{ REF, 4000 }, { REF, 60000 }, { POST, 4000 }, { POST, 60000 },
};

static int send_msg(struct rdmamsg_ep *ep, uint32_t tag, uint32_t len,
		    void *cookie)
{
	struct rdmamsg_msg *msg;
	int ret = rdmamsg_msg_alloc(ep, len, &msg);

	if (ret)
		return ret;
	memcpy(rdmamsg_msg_data(msg), pattern + tag, len);
	ret = rdmamsg_msg_send(ep, msg, tag, cookie);
	if (ret)
		rdmamsg_msg_free(msg);
	return ret;
}

/* The program keeps a reference until the call has returned. */
static int send_ref(struct rdmamsg_ep *ep, uint32_t tag, uint32_t len,
		    void *cookie)
{
	struct rdmamsg_msg *msg;
	int ret = rdmamsg_msg_alloc(ep, len, &msg);

	if (ret)
		return ret;
	memcpy(rdmamsg_msg_data(msg), pattern + tag, len);
	ret = rdmamsg_msg_ref(msg);
	if (!ret) {
		ret = rdmamsg_msg_send(ep, msg, tag, cookie);
		if (ret)
			rdmamsg_msg_free(msg);
	}
	rdmamsg_msg_free(msg);
	return ret;
}

static int post_timed(struct rdmamsg_ep *ep, uint32_t tag, uint32_t len,
		      void *cookie, uint32_t timeout_ms)
{
	const struct rdmamsg_sge s = { pattern + tag, len, NULL };

	return rdmamsg_post(ep, &(const struct rdmamsg_op){
		.size = sizeof(struct rdmamsg_op), .kind = RDMAMSG_OP_SEND,
		.sge = &s, .count = 1, .tag = tag, .cookie = cookie,
		.timeout_ms = timeout_ms, .on_late = on_late,
	});
}

/* With a deadline that is never reached. */
static int post_send(struct rdmamsg_ep *ep, uint32_t tag, uint32_t len,
		     void *cookie)
{
	return post_timed(ep, tag, len, cookie, INT32_MAX);
}

static int send_item(struct end *e, uint32_t tag)
{
	const struct kind *k = &items[tag];
	struct item *item = &e->items[tag];
	struct iovec iov[3] = {
		{ pattern + tag, k->len / 3 },
		{ pattern + tag + k->len / 3, k->len / 3 },
		{ pattern + tag + k->len / 3 * 2, k->len - k->len / 3 * 2 },
	};
	int ret;

	item->state = ACCEPTED;
	switch (k->how) {
	case SEND:
		ret = rdmamsg_send(e->ep, pattern + tag, k->len, tag, item);
		break;
	case SENDV:
		ret = rdmamsg_sendv(e->ep, iov, 3, tag, item);
		break;
	case POST:
		ret = post_send(e->ep, tag, k->len, item);
		break;
	case REF:
		ret = send_ref(e->ep, tag, k->len, item);
		break;
	default:
		ret = send_msg(e->ep, tag, k->len, item);
	}
	if (ret)
		item->state = NOT_SENT;
	return ret;
}

bool writable_or_closed(void)
{
	for (int i = 0; i < 2; i++)
		if (ends[i].writable || ends[i].closed)
			return true;
	return false;
}

void send_items(struct end *e, uint32_t first, uint32_t last)
{
	for (uint32_t tag = first; tag <= last && e->ep && !failure[0];) {
		int ret;

		e->writable = false;
		ret = send_item(e, tag);
		if (ret != -EAGAIN) {
			if (told(ret))
				e->items[tag].state = REFUSED;
			tag++;
			continue;
		}
		/* with failover, one end may live on after the other has ended */
		turn(20);
		if (!drive(writable_or_closed, BODY_MS))
			fail("%s: item %u: -EAGAIN and no on_writable", e->name,
			     tag);
	}
}

bool is_exchanged(void)
{
	for (int i = 0; i < 2; i++) {
		for (int t = 0; t < ITEMS; t++) {
			struct item *item = &ends[i].items[t];

			if (item->state == ACCEPTED)
				return false;
			if (item->state == DONE && !item->status &&
			    !item->received && !ends[!i].closed)
				return false;
		}
	}
	return true;
}

/* Missing memory delays messages and loses none. */
void outlast_shortage(void)
{
	if (drive(is_exchanged, SHORTAGE_MS))
		return;
	if (faulty_disarm())
		reported++;
	if (!drive(is_exchanged, BODY_MS))
		fail("exchanging: not over");
}

void do_exchange(void)
{
	send_items(&ends[CLIENT], 0, ITEMS - 1);
	send_items(&ends[SERVER], 0, 5);
	outlast_shortage();
}

#define OVERDUE	15	/* a message that the peer reads */

static bool is_told(void)
{
	const struct item *item = &ends[CLIENT].items[OVERDUE];

	return item->state != ACCEPTED || item->overdue;
}

/* The peer reads the message after its deadline. */
static void do_overdue(void)
{
	struct item *item = &ends[CLIENT].items[OVERDUE];
	int ret;

	(void)told(rdmamsg_ep_pause(ends[SERVER].ep));
	item->state = ACCEPTED;
	ret = told(post_timed(ends[CLIENT].ep, OVERDUE, items[OVERDUE].len,
			      item, 1));
	if (ret)
		item->state = REFUSED;
	if (!drive(is_told, BODY_MS))
		fail("the deadline has passed, and nobody was told");
	if (!item->overdue && !reported)
		fail("a message was not overdue");
	if (ends[SERVER].ep)
		(void)told(rdmamsg_ep_resume(ends[SERVER].ep));
	outlast_shortage();
}

static void end_by(void (*end)(struct rdmamsg_ep *ep))
{
	if (!ends[CLIENT].ep)
		return;
	ends[CLIENT].expected_end = ends[SERVER].expected_end = true;
	end(ends[CLIENT].ep);
	if (!drive(is_closed, BODY_MS))
		fail("closing: not over");
}

void do_close(void)
{
	end_by(rdmamsg_ep_close);
}

/* -ESHUTDOWN: the fault has ended the endpoint. */
static void check_end(const char *call, int ret)
{
	if (ret && ret != -ESHUTDOWN)
		fail("%s: %d", call, ret);
	if (ret)
		texts_start();
}

static void close_with_word(struct rdmamsg_ep *ep)
{
	check_end("close_with", rdmamsg_ep_close_with(ep, 1, "a word", 6));
}

/* Its CLOSE has a body, in a buffer. */
static void do_close_with(void)
{
	end_by(close_with_word);
}

/* Messages accepted before a close arrive, even those beyond the credits. */
static void do_close_behind(void)
{
	send_items(&ends[CLIENT], 0, 7);
	send_items(&ends[SERVER], 0, 7);
	do_close();
	for (int i = 0; i < 2; i++)
		for (int t = 0; t < 8 && !reported; t++)
			if (!ends[i].items[t].received)
				fail("%s: a graceful close lost item %d",
				     ends[i].name, t);
}

static bool is_shut(void)
{
	return is_closed() && ctxs[SERVER]->shutdown.over;
}

/* The same for the end of a context. A call that fails begins nothing. */
static void do_shutdown(void)
{
	send_items(&ends[CLIENT], 0, 7);
	send_items(&ends[SERVER], 0, 7);
	ends[CLIENT].expected_end = ends[SERVER].expected_end = true;
	if (told(rdmamsg_shutdown(ctxs[SERVER], -1))) {
		if (faulty_disarm())
			reported++;
		if (rdmamsg_shutdown(ctxs[SERVER], -1))
			fail("shutting down: %s", rdmamsg_error());
	}
	if (!drive(is_shut, BODY_MS))
		fail("shutting down: not over");
	if (ctxs[SERVER]->shutdown.failed && !reported)
		fail("shutting down: a connection was lost");
	for (int i = 0; i < 2; i++)
		for (int t = 0; t < 8 && !reported; t++)
			if (!ends[i].items[t].received)
				fail("%s: a shutdown lost item %d",
				     ends[i].name, t);
	close_ctx(CLIENT);
	close_ctx(SERVER);
}

/* Nobody drives the other end, if there is one, so its end is not graceful. */
static void do_shutdown_wait(void)
{
	int n;

	ends[CLIENT].expected_end = ends[SERVER].expected_end = true;
	n = told(rdmamsg_shutdown_wait(ctxs[SERVER], 50));
	if (n > 1)
		fail("shutting down: %d connections of 1", n);
	close_ctx(SERVER);
	if (!drive(is_closed, BODY_MS))
		fail("shutting down: the other end is not told");
	close_ctx(CLIENT);
}

/* Aborts with all kinds of operations in flight. */
static void abort_by(void (*end)(struct rdmamsg_ep *ep))
{
	for (uint32_t i = 0; i < 6; i++) {
		if (ends[CLIENT].ep)
			send_item(&ends[CLIENT], i);
		if (ends[SERVER].ep)
			send_item(&ends[SERVER], i);
	}
	texts_start();
	if (ends[CLIENT].ep)
		end(ends[CLIENT].ep);
	if (!drive(is_closed, BODY_MS))
		fail("aborting: not over");
	reported++;
}

void do_abort(void)
{
	abort_by(rdmamsg_ep_abort);
}

static void abort_with_word(struct rdmamsg_ep *ep)
{
	check_end("abort_with", rdmamsg_ep_abort_with(ep, 1, "a word", 6));
}

static void do_abort_with(void)
{
	abort_by(abort_with_word);
}

void do_teardown(void)
{
	for (uint32_t i = 0; i < 6; i++) {
		send_item(&ends[CLIENT], i);
		send_item(&ends[SERVER], i);
	}
	texts_start();
	close_ctx(CLIENT);
	close_ctx(SERVER);
	if (!is_closed())
		fail("rdmamsg_close: an endpoint was not told");
	reported++;
}

/* When the program frees a message, a waiting sender becomes writable. */
static void do_starve(void)
{
	struct rdmamsg_ep *ep = ends[CLIENT].ep;
	size_t limit = ctxs[CLIENT]->memory->budget[DIR_OUT].cap;
	static struct rdmamsg_msg *msgs[4096];
	int n = 0;

	ctxs[CLIENT]->memory->budget[DIR_OUT].cap =
		ctxs[CLIENT]->memory->budget[DIR_OUT].used;
	while (n < 4096 && !rdmamsg_msg_alloc(ep, 4000, &msgs[n]))
		n++;
	if (rdmamsg_send(ep, pattern, 4000, 0, NULL) != -EAGAIN)
		fail("sent without a buffer");
	drive(writable_or_closed, 50);
	if (ends[CLIENT].writable)
		fail("writable without a buffer");
	rdmamsg_msg_free(msgs[--n]);
	if (!drive(writable_or_closed, 200))
		fail("a buffer has come back, and nobody was told");
	while (n)
		rdmamsg_msg_free(msgs[--n]);
	ctxs[CLIENT]->memory->budget[DIR_OUT].cap = limit;
}

/* A message outlives its endpoint and its device. */
void do_keep(void)
{
	struct list *n;

	keeping = true;
	send_items(&ends[CLIENT], 4, 4);
	outlast_shortage();
	keeping = false;
	do_close();
	/* make the device's last use look long ago */
	list_for_each(n, &ctxs[SERVER]->devices->devs)
		list_entry(n, struct dev, node)->reap = true;
	ctxs[SERVER]->devices->reap = true;
	rdmamsg__loop_kick(&ctxs[SERVER]->loop);
	turn(0);
	if (kept && memcmp(rdmamsg_msg_data(kept), pattern + 4,
			   rdmamsg_msg_len(kept)))
		fail("a kept message is damaged");
	rdmamsg_msg_free(kept);
	kept = NULL;
}

/* The context closes before its endpoints. */
static void do_keep_longer(void)
{
	keeping = true;
	send_items(&ends[CLIENT], 4, 5);
	if (!drive(is_exchanged, BODY_MS))
		fail("exchanging: not over");
	keeping = false;
	kept = NULL;
	reported++;
	close_ctx(SERVER);
	close_ctx(CLIENT);
}

/* A message that was received outlives the context. */
static void do_keep_reference(void)
{
	keeping = true;
	send_items(&ends[CLIENT], 4, 5);
	outlast_shortage();
	keeping = false;
	if (kept && told(rdmamsg_msg_ref(kept)))
		kept = NULL;	/* it ends with the context */
	reported++;
	close_ctx(SERVER);
	close_ctx(CLIENT);
	if (!kept)
		return;
	if (memcmp(rdmamsg_msg_data(kept), pattern + rdmamsg_msg_tag(kept),
		   rdmamsg_msg_len(kept)))
		fail("a kept message is damaged");
	rdmamsg_msg_free(kept);
	rdmamsg_msg_free(kept);
	kept = NULL;
}

/*
 * Between the two calls a full send queue takes completions, and among them is
 * what the peer has sent.
 */
static void do_corked(void)
{
	struct end *e = &ends[CLIENT];
	uint32_t tag = 0;
	int ret = 0;

	send_items(&ends[SERVER], 0, 2);
	if (told(rdmamsg_cork(ctxs[CLIENT])))
		return;
	for (; tag < 4 && e->ep; tag++) {
		ret = send_item(e, tag);
		if (ret == -EAGAIN)
			break;
		if (told(ret))
			e->items[tag].state = REFUSED;
	}
	told(rdmamsg_uncork(ctxs[CLIENT]));
	send_items(e, tag, 4);
	outlast_shortage();
}

static void do_delayed(void)
{
	faulty_delay(300);
	do_exchange();
	faulty_delay(0);
}

const struct scenario message_scenarios[] = {
	{ "exchange", CONNECTED, do_exchange },
	{ "late", CONNECTED, do_delayed, .calls = "" },
	{ "overdue", CONNECTED, do_overdue },
	{ "corked", CONNECTED, do_corked, .narrow = true,
	  .calls = " calloc malloc realloc post_send poll_cq wc_send "
		   "wc_recv " },
	{ "starve", CONNECTED, do_starve, .calls = "" },
	{ "keep", CONNECTED, do_keep,
	  .calls = " dereg_mr dealloc_pd destroy_cq destroy_comp_channel "
		   "close_device mmap " },
	{ "keep-longer", CONNECTED, do_keep_longer,
	  .calls = " dereg_mr dealloc_pd destroy_cq close_device " },
	{ "keep-reference", CONNECTED, do_keep_reference,
	  .calls = " calloc dereg_mr dealloc_pd destroy_cq close_device " },
	{ "close", CONNECTED, do_close },
	{ "close-with", CONNECTED, do_close_with },
	{ "close-behind", CONNECTED, do_close_behind },
	{ "shutdown", CONNECTED, do_shutdown },
	{ "shutdown-wait", LISTENING, do_shutdown_wait },
	/* each waits for the peer; the others fail in "shutdown" */
	{ "shutdown-in-vain", CONNECTED, do_shutdown_wait,
	  .calls = " malloc disconnect " },
	{ "abort", CONNECTED, do_abort },
	{ "abort-with", CONNECTED, do_abort_with },
	{ "teardown", CONNECTED, do_teardown },
	{ "guarded-connect", LISTENING, do_connect, .guarded = true,
	  .calls = " calloc realloc mmap reg_mr alloc_pd create_cq create_qp "
		   "mlx5_create_qp "
		   "create_comp_channel epoll_ctl connect accept modify_qp "
		   "init_qp_attr " },
	{ "guarded-exchange", CONNECTED, do_exchange, .guarded = true,
	  .calls = " calloc mmap reg_mr reg_mr_iova dereg_mr getrandom "
		   "post_send post_recv wc_send wc_recv " },
	{ "guarded-keep", CONNECTED, do_keep, .guarded = true,
	  .calls = " dereg_mr dealloc_pd destroy_cq destroy_comp_channel "
		   "close_device " },
	{ "guarded-close", CONNECTED, do_close, .guarded = true,
	  .calls = " dereg_mr dealloc_pd destroy_qp destroy_cq "
		   "close_device " },
	{ "guarded-abort", CONNECTED, do_abort, .guarded = true,
	  .calls = " calloc reg_mr_iova dereg_mr dealloc_pd destroy_qp "
		   "getrandom " },
	{ "guarded-teardown", CONNECTED, do_teardown, .guarded = true,
	  .calls = " reg_mr_iova dereg_mr dealloc_pd destroy_qp destroy_cq "
		   "close_device " },
	{ NULL },
};
