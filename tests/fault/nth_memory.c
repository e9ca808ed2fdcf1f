/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenarios of one-sided operations, pools of the program, shared receives. */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <rdmamsg/layout.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#include <stdlib.h>
#include <string.h>

#include "faulty.h"
#include "nth.h"
#include "../post.h"

static uint8_t far[65536], near[65536];

/* Starts operation n. None of them is a message that must arrive. */
static int rma_item(const struct rdmamsg_key *key,
		    struct rdmamsg_region *region, uint32_t n,
		    struct item *item)
{
	struct rdmamsg_sge small = { pattern, 64, NULL };
	struct rdmamsg_sge copied = { pattern, 4000, NULL };
	struct rdmamsg_sge large = { near, sizeof(near), region };
	struct rdmamsg_ep *ep = ends[CLIENT].ep;
	static const uint64_t one = 1;
	static const uint32_t half = 1;
	const struct post_swap swap = {
		.expected = &one, .desired = &one,
	};
	static uint64_t was;

	item->received = true;
	switch (n) {
	case 0:
		return rdmamsg_write(ep, &small, 1, key, 0, 0, item);
	case 1:
		return rdmamsg_write(ep, &copied, 1, key, 64, 0, item);
	case 2:
		return post_notify(ep, &large, 1, key, 0, n, 0, item);
	case 3:
		return rdmamsg_read(ep, &large, 1, key, 0, 0, item);
	case 4:
		return rdmamsg_fetch_add(ep, key, 0, 1, &was, 0, item);
	case 5:
		return post_masked_swap(ep, key, 16, 8, &swap, &was, 0, item);
	case 6:
		return post_add_fields(ep, key, 20, 4, &half, NULL, &was, 0,
				       item);
	case 7:
		return rdmamsg_flush(ep, item);
	default:
		return rdmamsg_compare_swap(ep, key, 8, 0, 1, &was,
					    RDMAMSG_FENCE, item);
	}
}

typedef int item_fn(const struct rdmamsg_key *key,
		    struct rdmamsg_region *region, uint32_t n,
		    struct item *item);

static void rma_items(const struct rdmamsg_key *key,
		      struct rdmamsg_region *region, item_fn *start,
		      uint32_t count)
{
	for (uint32_t n = 0; n < count && ends[CLIENT].ep && !failure[0];) {
		struct item *item = &ends[CLIENT].items[n];
		int ret;

		ends[CLIENT].writable = false;
		item->state = ACCEPTED;
		ret = start(key, region, n, item);
		if (ret)
			item->state = REFUSED;
		if (ret == -EAGAIN && drive(writable_or_closed, BODY_MS))
			continue;
		if (ret == -EAGAIN)
			fail("operation %u: -EAGAIN and no on_writable", n);
		told(ret);
		n++;
	}
	if (!drive(is_exchanged, BODY_MS))
		fail("one-sided operations: not over");
}

static void do_rma(void)
{
	struct rdmamsg_region *there = NULL, *here = NULL;
	struct rdmamsg_cache *cache = NULL;
	struct rdmamsg_key key;
	int ret;

	ret = told(rdmamsg_region_create(ctxs[SERVER], far, sizeof(far),
					 RDMAMSG_ACCESS_READ |
					 RDMAMSG_ACCESS_WRITE |
					 RDMAMSG_ACCESS_ATOMIC, &there));
	if (!ret)
		ret = told(rdmamsg_region_get_key(there, ends[SERVER].ep, &key));
	if (!ret)
		ret = told(rdmamsg_cache_create(ctxs[CLIENT], NULL, &cache));
	if (!ret)
		ret = told(rdmamsg_cache_get(cache, ends[CLIENT].ep, near,
					     sizeof(near),
					     RDMAMSG_ACCESS_LOCAL_WRITE,
					     &here));
	if (!ret)
		rma_items(&key, here, rma_item, 9);
	if (here)
		(void)rdmamsg_cache_put(cache, here);
	/* fails if an endpoint has not ended yet */
	(void)rdmamsg_region_destroy(there);
	(void)rdmamsg_cache_destroy(cache);
	texts_start();
}

/* Layouts on both sides, of 40 blocks each. */
static int layout_item(const struct rdmamsg_key *key,
		       struct rdmamsg_region *region, uint32_t n,
		       struct item *item)
{
	struct rdmamsg_sge s = { NULL, 4000, region };
	struct rdmamsg_sge copied = { pattern, 200, NULL };
	struct rdmamsg_ep *ep = ends[CLIENT].ep;

	item->received = true;
	switch (n) {
	case 0:
		return rdmamsg_write(ep, &s, 1, key, 0, 0, item);
	case 1:
		return rdmamsg_read(ep, &s, 1, key, 0, 0, item);
	case 2:
		return rdmamsg_write(ep, &copied, 1, key, 50, 0, item);
	default:
		return post_notify(ep, &s, 1, key, 0, n, 0, item);
	}
}

static int layout_make(int side, uint8_t *mem, uint32_t access,
		       struct rdmamsg_region **ret_region,
		       struct rdmamsg_layout **ret)
{
	const struct rdmamsg_layout_options o = {
		.size = sizeof(o), .access = access,
	};
	struct rdmamsg_layout_part part = {
		.len = 100, .dims = 1, .count = { 40 }, .stride = { 150 },
	};
	int err = told(rdmamsg_region_create(ctxs[side], mem, sizeof(far),
					     access, ret_region));

	if (!err)
		err = told(rdmamsg_layout_create(ctxs[side], &o, ret));
	part.region = *ret_region;
	return err ? err : told(rdmamsg_layout_define(*ret, &part, 1, 1));
}

/* A layout is registered by a key of its own, or by the memory it touches. */
static long layout_keys(void)
{
	return faulty_alive(FAULTY_MRS) + faulty_alive(FAULTY_MKEYS);
}

/* Waits for the key, which may be one of software after a fault. */
static int layout_key(struct rdmamsg_layout *layout, void *buf, size_t room,
		      size_t *ret)
{
	struct item *item = &ends[SERVER].items[0];
	int err;

	item->state = ACCEPTED;
	item->received = true;
	err = told(rdmamsg_layout_get_key(layout, ends[SERVER].ep, buf, room,
					  ret, item));
	if (err)
		item->state = REFUSED;
	else if (!drive(is_exchanged, BODY_MS))
		fail("the key of a layout: not over");
	return err ? err : item->status;
}

static void do_layout(void)
{
	struct rdmamsg_region *there = NULL, *here = NULL;
	struct rdmamsg_layout *theirs = NULL, *mine = NULL;
	struct rdmamsg_key key;
	uint8_t bytes[200];
	bool imported = false;
	size_t len;
	long keys;
	int ret;

	ret = layout_make(SERVER, far, RDMAMSG_ACCESS_READ |
			  RDMAMSG_ACCESS_WRITE, &there, &theirs);
	if (!ret)
		ret = layout_make(CLIENT, near, RDMAMSG_ACCESS_LOCAL_WRITE,
				  &here, &mine);
	if (!ret)
		ret = told(rdmamsg_layout_register(mine, ends[CLIENT].ep));
	if (!ret)
		ret = layout_key(theirs, bytes, sizeof(bytes), &len);
	if (!ret)
		ret = told(rdmamsg_layout_import(ctxs[CLIENT], bytes, len,
						 &key));
	imported = !ret;
	if (!ret)
		rma_items(&key, rdmamsg_layout_region(mine), layout_item, 4);
	/* these fail if an endpoint has not ended yet */
	if (imported)
		(void)rdmamsg_layout_forget(ctxs[CLIENT], &key);
	keys = layout_keys();
	if (!ret && !told(rdmamsg_layout_invalidate(theirs)) &&
	    layout_keys() >= keys)
		fail("a layout is invalid, and still registered");
	(void)rdmamsg_layout_destroy(theirs);
	(void)rdmamsg_layout_destroy(mine);
	(void)rdmamsg_region_destroy(there);
	(void)rdmamsg_region_destroy(here);
	texts_start();
}

/* The server receives large messages in blocks of 1,000 bytes. */
static void do_layout_recv(void)
{
	static uint8_t memory[ITEMS * SCATTERED * 2];
	static const struct rdmamsg_layout_options o = {
		.size = sizeof(o), .access = RDMAMSG_ACCESS_LOCAL_WRITE,
	};
	struct rdmamsg_layout_part part = {
		.len = 1000, .dims = 1, .count = { sizeof(memory) / 1500 },
		.stride = { 1500 },
	};
	struct rdmamsg_layout *layout = NULL;
	int ret = told(rdmamsg_region_create(ctxs[SERVER], memory,
					     sizeof(memory), o.access,
					     &part.region));

	if (!ret)
		ret = told(rdmamsg_layout_create(ctxs[SERVER], &o, &layout));
	if (!ret)
		ret = told(rdmamsg_layout_define(layout, &part, 1, 1));
	if (!ret)
		scattered = layout;
	do_exchange();
	scattered = NULL;
	/* these fail if an endpoint has not ended yet */
	(void)rdmamsg_layout_destroy(layout);
	(void)rdmamsg_region_destroy(part.region);
	texts_start();
}

/* If rdmamsg_region_revoke() succeeds, the region is deregistered. */
static void do_revoke(void)
{
	struct rdmamsg_region *region;
	struct rdmamsg_key key;
	long mrs;

	if (told(rdmamsg_region_create(ctxs[SERVER], far, sizeof(far),
				       RDMAMSG_ACCESS_READ, &region)) ||
	    told(rdmamsg_region_get_key(region, ends[SERVER].ep, &key)))
		return;
	mrs = faulty_alive(FAULTY_MRS);
	if (!told(rdmamsg_region_revoke(region)) &&
	    faulty_alive(FAULTY_MRS) >= mrs)
		fail("a region is revoked, and still registered");
	if (rdmamsg_region_destroy(region))
		fail("a region is not destroyed: %s", rdmamsg_error());
}

/*
 * Binds a window, uses it, and the owner invalidates it. Then binds it again,
 * and the peer invalidates it.
 */
static int window_item(struct rdmamsg_window *w, struct rdmamsg_region *region,
		       struct rdmamsg_key *key, uint32_t n, struct item *item)
{
	struct rdmamsg_sge s = { pattern, 64, NULL };

	switch (n) {
	case 1:
		return rdmamsg_write(ends[CLIENT].ep, &s, 1, key, 0, 0, item);
	case 2:
		return rdmamsg_window_invalidate(w, item);
	case 4:
		return post_invalidate(ends[CLIENT].ep, pattern + n, 64, n, key,
				       item);
	default:
		return rdmamsg_window_bind(w, region, 0, 64,
					   RDMAMSG_ACCESS_WRITE, key, item);
	}
}

static void window_items(struct rdmamsg_window *w,
			 struct rdmamsg_region *region)
{
	struct rdmamsg_key key;

	for (uint32_t n = 0; n < 6 && !failure[0];) {
		struct end *e = &ends[n == 1 || n == 4 ? CLIENT : SERVER];
		struct item *item = &e->items[n];
		int ret;

		if (!ends[CLIENT].ep || !ends[SERVER].ep)
			return;
		e->writable = false;
		item->received = n != 4;
		item->state = ACCEPTED;
		ret = window_item(w, region, &key, n, item);
		if (ret)
			item->state = REFUSED;
		if (ret == -EAGAIN && drive(writable_or_closed, BODY_MS))
			continue;
		if (ret == -EAGAIN)
			fail("window, step %u: -EAGAIN and no on_writable", n);
		if (told(ret))
			return;
		if (!drive(is_exchanged, BODY_MS))
			fail("window, step %u: not over", n);
		n++;
	}
}

/* The window is still bound when the test destroys it. */
static void do_window(void)
{
	struct rdmamsg_region *region = NULL;
	struct rdmamsg_window *w;
	long mws;

	if (told(rdmamsg_region_create(ctxs[SERVER], far, sizeof(far),
				       RDMAMSG_ACCESS_WINDOW, &region)) ||
	    told(rdmamsg_region_register(region, ends[SERVER].ep)) ||
	    told(rdmamsg_window_create(ends[SERVER].ep, &w))) {
		told(rdmamsg_region_destroy(region));
		return;
	}
	window_items(w, region);
	mws = faulty_alive(FAULTY_MWS);
	if (ends[SERVER].ep && !told(rdmamsg_window_destroy(w)) &&
	    faulty_alive(FAULTY_MWS) >= mws)
		fail("a window is destroyed, and still there");
	/* a window that ended with its endpoint holds no region */
	told(rdmamsg_region_destroy(region));
}

/* Aborts with operations in flight. The contexts destroy the regions. */
static void do_rma_abort(void)
{
	struct rdmamsg_region *there = NULL, *here = NULL;
	struct rdmamsg_key key;

	if (told(rdmamsg_region_create(ctxs[SERVER], far, sizeof(far),
				       RDMAMSG_ACCESS_READ |
				       RDMAMSG_ACCESS_WRITE, &there)) ||
	    told(rdmamsg_region_get_key(there, ends[SERVER].ep, &key)) ||
	    told(rdmamsg_region_create(ctxs[CLIENT], near, sizeof(near),
				       RDMAMSG_ACCESS_LOCAL_WRITE, &here)) ||
	    told(rdmamsg_region_register(here, ends[CLIENT].ep)))
		return;
	for (uint32_t n = 0; n < 4; n++) {
		struct item *item = &ends[CLIENT].items[n];

		item->state = ACCEPTED;
		if (told(rma_item(&key, here, n, item)))
			item->state = REFUSED;
	}
	if (ends[CLIENT].ep)
		rdmamsg_ep_abort(ends[CLIENT].ep);
	if (!drive(is_closed, BODY_MS))
		fail("aborting: not over");
	reported++;
}

/* Messages from a pool of the program. */
static void do_pool(void)
{
	const struct rdmamsg_pool_options o = {
		.size = sizeof(o), .max_bytes = 16 << 20,
		.flags = RDMAMSG_POOL_HUGE | RDMAMSG_POOL_NODE,
	};
	struct rdmamsg_pool *pool = NULL;
	struct rdmamsg_msg *msg;

	if (told(rdmamsg_pool_create(ctxs[CLIENT], &o, &pool)))
		return;
	for (size_t len = 100; len < 1000000; len *= 10) {
		if (told(rdmamsg_pool_alloc(pool, ends[CLIENT].ep, len, &msg)))
			continue;
		memset(rdmamsg_msg_data(msg), 1, len);
		rdmamsg_msg_free(msg);
	}
	if (told(rdmamsg_pool_destroy(pool)))
		fail("a pool that is not in use could not be destroyed");
}

/* A domain that has a device, and a key of it without an endpoint. */
static void do_pd_device(void)
{
	const char *device = getenv("RDMAMSG_VM_DEVICE");
	const struct rdmamsg_pd_options opts = {
		.size = sizeof(opts), .device = device ? device : "soft0",
	};
	struct rdmamsg_region *region = NULL;
	struct rdmamsg_key key;
	struct rdmamsg_pd *pd;

	if (told(rdmamsg_pd_create(ctxs[CLIENT], &opts, &pd)))
		return;
	if (!told(rdmamsg_region_create(ctxs[CLIENT], near, sizeof(near),
					RDMAMSG_ACCESS_READ, &region)) &&
	    !told(rdmamsg_region_set_pd(region, pd)))
		told(rdmamsg_region_get_key(region, NULL, &key));
	told(rdmamsg_region_destroy(region));
	/* if this fails, rdmamsg_close() destroys the domain */
	told(rdmamsg_pd_destroy(pd));
}

/* A protection domain with a region, from creation to destruction. */
static void do_pd(void)
{
	struct rdmamsg_region *region = NULL;

	if (told(rdmamsg_pd_create(ctxs[CLIENT], NULL, &domain)))
		return;
	do_connect();
	if (!told(rdmamsg_region_create(ctxs[CLIENT], near, sizeof(near), 0,
					&region)) &&
	    !told(rdmamsg_region_set_pd(region, domain)) && ends[CLIENT].ep)
		told(rdmamsg_region_register(region, ends[CLIENT].ep));
	if (ends[CLIENT].connected && ends[CLIENT].ep)
		do_exchange();
	do_close();
	told(rdmamsg_region_destroy(region));
	/* if this fails, rdmamsg_close() destroys the domain */
	told(rdmamsg_pd_destroy(domain));
	domain = NULL;
}

/* The server receives all messages into a pool of the program. */
static void do_pool_exchange(void)
{
	struct rdmamsg_srq_options o = { .size = sizeof(o) };
	struct rdmamsg_srq *srq;

	if (told(rdmamsg_pool_create(ctxs[SERVER], NULL, &inbound)))
		inbound = NULL;
	o.recv_pool = inbound;
	if (!told(rdmamsg_srq_create(ctxs[SERVER], &o, &srq)))
		rdmamsg_srq_destroy(srq);
	start_listening();
	do_connect();
	if (ends[CLIENT].connected && ends[SERVER].connected)
		do_exchange();
}

/* The first CQ polled is that of the shared receive queue. */
static void do_srq_cq(void)
{
	ends[CLIENT].expected_end = ends[SERVER].expected_end = true;
	faulty_arm(FAULTY_poll_cq, 1, false);
	if (!drive(is_closed, BODY_MS))
		fail("the queue of shared receives fails, and nothing comes "
		     "of it");
	(void)faulty_disarm();
}

const struct scenario memory_scenarios[] = {
	{ "rma", CONNECTED, do_rma,
	  .calls = " calloc reg_mr dereg_mr mmap post_send wc_send poll_cq " },
	{ "rma-abort", CONNECTED, do_rma_abort,
	  .calls = " post_send dereg_mr destroy_qp " },
	{ "layout", CONNECTED, do_layout,
	  .calls = " malloc calloc reg_mr dereg_mr post_send wc_send poll_cq "
		   "create_cq modify_qp mlx5_create_qp mlx5_create_mkey "
		   "mlx5_destroy_mkey create_comp_channel "
		   "destroy_comp_channel req_notify_cq get_cq_event "
		   "epoll_ctl " },
	{ "layout-recv", CONNECTED, do_layout_recv,
	  .calls = " calloc reg_mr dereg_mr post_send wc_send poll_cq "
		   "modify_qp mlx5_create_qp mlx5_create_mkey "
		   "mlx5_destroy_mkey create_comp_channel req_notify_cq "
		   "epoll_ctl " },
	{ "revoke", CONNECTED, do_revoke, .calls = " dereg_mr " },
	{ "window", CONNECTED, do_window,
	  .calls = " calloc alloc_mw dealloc_mw reg_mr dereg_mr post_send "
		   "wc_send wc_recv " },
	{ "pool", CONNECTED, do_pool,
	  .calls = " calloc mmap madvise reg_mr dereg_mr " },
	{ "pool-exchange", OPEN, do_pool_exchange,
	  .calls = " calloc mmap reg_mr dereg_mr wc_recv " },
	{ "pd-device", OPEN, do_pd_device },
	{ "pd", LISTENING, do_pd,
	  .calls = " calloc alloc_pd dealloc_pd reg_mr dereg_mr create_qp "
		   "mlx5_create_qp "
		   "create_cq create_comp_channel mmap epoll_ctl " },
	{ "srq-open", NOTHING, do_open, .shared = true, .calls = " calloc " },
	{ "srq-connect", LISTENING, do_connect, .shared = true },
	{ "srq-exchange", CONNECTED, do_exchange, .shared = true,
	  .calls = " post_srq_recv modify_srq wc_recv wc_send calloc mmap "
		   "reg_mr get_async_event " },
	{ "srq-keep", CONNECTED, do_keep, .shared = true,
	  .calls = " destroy_srq destroy_cq dereg_mr " },
	{ "srq-own-cq", CONNECTED, do_srq_cq, .shared = true, .own_cq = true,
	  .calls = "" },
	{ "srq-abort", CONNECTED, do_abort, .shared = true },
	{ "srq-teardown", CONNECTED, do_teardown, .shared = true },
	{ NULL },
};
