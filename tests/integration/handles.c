/* SPDX-License-Identifier: BSD-2-Clause */
/* Handles that are NULL, and endpoints that outlive their context. */
#define _GNU_SOURCE
#include "common.h"
#include "zeros.h"
#include "../post.h"

#include <rdmamsg/chain.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/fast.h>
#include <rdmamsg/flow.h>
#include <rdmamsg/layout.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rma.h>
#include <rdmamsg/verbs.h>

/* ---- zeros ------------------------------------------------------------ */

/* Accessors have a neutral value for NULL; what ends an object may get NULL. */
static const struct zeros_answer answers[] = {
	{ "rdmamsg_chain_cancel", ZEROS_NOTHING },
	{ "rdmamsg_chain_destroy", ZEROS_NOTHING },
	{ "rdmamsg_close", ZEROS_NOTHING },
	{ "rdmamsg_dc_address_destroy", ZEROS_NOTHING },
	{ "rdmamsg_dc_sender_destroy", ZEROS_NOTHING },
	{ "rdmamsg_dc_target_destroy", ZEROS_NOTHING },
	{ "rdmamsg_dump", ZEROS_NOTHING },
	{ "rdmamsg_ep_abort", ZEROS_NOTHING },
	{ "rdmamsg_ep_close", ZEROS_NOTHING },
	{ "rdmamsg_ep_hold", ZEROS_NOTHING },
	{ "rdmamsg_ep_release", ZEROS_NOTHING },
	{ "rdmamsg_ep_set_user", ZEROS_NOTHING },
	{ "rdmamsg_fast_completed", ZEROS_NOTHING },
	{ "rdmamsg_gid_text", ZEROS_NOTHING },
	{ "rdmamsg_group_leave", ZEROS_NOTHING },
	{ "rdmamsg_listener_close", ZEROS_NOTHING },
	{ "rdmamsg_msg_free", ZEROS_NOTHING },
	{ "rdmamsg_set_log", ZEROS_NOTHING },
	{ "rdmamsg_srq_destroy", ZEROS_NOTHING },
	{ "rdmamsg_stop", ZEROS_NOTHING },
	{ "rdmamsg_team_abort", ZEROS_NOTHING },
	{ "rdmamsg_team_destroy", ZEROS_NOTHING },
	{ "rdmamsg_timer_destroy", ZEROS_NOTHING },
	{ "rdmamsg_chain_user", ZEROS_NULL },
	{ "rdmamsg_dc_address_user", ZEROS_NULL },
	{ "rdmamsg_dc_sender_user", ZEROS_NULL },
	{ "rdmamsg_dc_target_user", ZEROS_NULL },
	{ "rdmamsg_ep_ctx", ZEROS_NULL },
	{ "rdmamsg_ep_peer_data", ZEROS_NULL },
	{ "rdmamsg_ep_user", ZEROS_NULL },
	{ "rdmamsg_group_user", ZEROS_NULL },
	{ "rdmamsg_layout_region", ZEROS_NULL },
	{ "rdmamsg_listener_ctx", ZEROS_NULL },
	{ "rdmamsg_listener_user", ZEROS_NULL },
	{ "rdmamsg_msg_data", ZEROS_NULL },
	{ "rdmamsg_qp_user", ZEROS_NULL },
	{ "rdmamsg_region_mr", ZEROS_NULL },
	{ "rdmamsg_request_data", ZEROS_NULL },
	{ "rdmamsg_team_user", ZEROS_NULL },
	{ "rdmamsg_user", ZEROS_NULL },
	{ "rdmamsg_cache_destroy", ZEROS_VALUE },
	{ "rdmamsg_dc_target_port", ZEROS_VALUE },
	{ "rdmamsg_layout_destroy", ZEROS_VALUE },
	{ "rdmamsg_listener_port", ZEROS_VALUE },
	{ "rdmamsg_msg_len", ZEROS_VALUE },
	{ "rdmamsg_msg_tag", ZEROS_VALUE },
	{ "rdmamsg_pd_destroy", ZEROS_VALUE },
	{ "rdmamsg_pool_destroy", ZEROS_VALUE },
	{ "rdmamsg_port_is_usable", ZEROS_VALUE },
	{ "rdmamsg_qp_destroy", ZEROS_VALUE },
	{ "rdmamsg_region_destroy", ZEROS_VALUE },
	{ "rdmamsg_window_destroy", ZEROS_VALUE },
	{ "rdmamsg_xrc_srq_destroy", ZEROS_VALUE },
	{ "rdmamsg_xrcd_close", ZEROS_VALUE },
	{ "rdmamsg_device_caps", ZEROS_COUNT },
	{ "rdmamsg_devices", ZEROS_COUNT },
	{ "rdmamsg_ep_device_name", ZEROS_POINTER },
	{ "rdmamsg_ep_reason", ZEROS_POINTER },
	{ "rdmamsg_error", ZEROS_POINTER },
	{ "rdmamsg_name", ZEROS_POINTER },
	{ "rdmamsg_team_reason", ZEROS_POINTER },
	{ "rdmamsg_version", ZEROS_POINTER },
	{ "rdmamsg_wait_reason", ZEROS_POINTER },
	{ "rdmamsg_chain_path", ZEROS_VALUE, RDMAMSG_CHAIN_LOOP },
	{ "rdmamsg_ep_state", ZEROS_VALUE, RDMAMSG_CLOSED },
	{ "rdmamsg_team_path", ZEROS_VALUE, RDMAMSG_CHAIN_LOOP },
	{ NULL, ZEROS_EINVAL }
};

static void exports__with_zeros_ANSWER(void **state)
{
	assert_true(zeros_all("rdmamsg_open", answers) > 200);
}

/* ---- endpoints after their context ------------------------------------ */

static struct pair p;
static struct rdmamsg_key key;		/* of memory of the peer */

static void get_key(void)
{
	static char mem[64];
	struct rdmamsg_region *r;

	assert_int_equal(rdmamsg_region_create(p.s.ctx, mem, sizeof(mem),
					       RDMAMSG_ACCESS_READ |
					       RDMAMSG_ACCESS_WRITE, &r), 0);
	assert_int_equal(rdmamsg_region_get_key(r, p.s.ep, &key), 0);
}

/* Closes the context of an endpoint that the program holds. */
static struct rdmamsg_ep *outlive(void)
{
	struct rdmamsg_ep *ep;

	pair_open(&p);
	get_key();
	ep = p.c.ep;
	rdmamsg_ep_hold(ep);
	test_close(p.c.ctx);
	p.c.ctx = NULL;
	assert_null(p.c.ep);
	return ep;
}

#define ENDED(call)	assert_error(call, -ESHUTDOWN, "context")

static void endpoint__after_its_context_ENDED(void **state)
{
	static const struct post_swap swap;
	struct rdmamsg_masked_attr masked = { .size = sizeof(masked) };
	struct rdmamsg_ep_flow_attr flow = { .size = sizeof(flow) };
	const struct rdmamsg_alternate alt = { .size = sizeof(alt), .port = 1 };
	struct rdmamsg_window *window;
	struct rdmamsg_msg *msg;
	struct rdmamsg_ep *ep = outlive();
	uint64_t result;
	char buf[1024] = "x";
	struct iovec iov = { buf, 1 };
	struct rdmamsg_sge sge = { .len = 1 };
	const struct rdmamsg_op op = {
		.size = sizeof(op), .kind = RDMAMSG_OP_SEND, .sge = &sge,
		.count = 1,
	};

	ENDED(rdmamsg_post(ep, &op));
	ENDED(rdmamsg_send(ep, buf, 1, 0, NULL));
	ENDED(rdmamsg_sendv(ep, &iov, 1, 0, NULL));
	ENDED(rdmamsg_fast_send(ep, buf, 1, 0));
	ENDED(rdmamsg_send_wait(ep, buf, 1, 0, 0));
	ENDED(rdmamsg_recv_wait(ep, 0, &msg));
	ENDED(rdmamsg_ep_meet_wait(ep, 1, 0));
	ENDED(rdmamsg_msg_alloc(ep, 1, &msg));
	ENDED(post_regions(ep, &sge, 1, 0, NULL));
	ENDED(post_invalidate(ep, buf, 1, 0, &key, NULL));
	ENDED(rdmamsg_write(ep, &sge, 1, &key, 0, 0, NULL));
	ENDED(post_notify(ep, &sge, 1, &key, 0, 0, 0, NULL));
	ENDED(rdmamsg_flush(ep, NULL));
	ENDED(rdmamsg_read(ep, &sge, 1, &key, 0, 0, NULL));
	ENDED(rdmamsg_fetch_add(ep, &key, 0, 1, &result, 0, NULL));
	ENDED(rdmamsg_compare_swap(ep, &key, 0, 0, 1, &result, 0, NULL));
	ENDED(post_masked_swap(ep, &key, 0, 8, &swap, &result, 0, NULL));
	ENDED(post_add_fields(ep, &key, 0, 8, &result, &result, &result, 0,
			      NULL));
	ENDED(rdmamsg_ep_masked_query(ep, &masked));
	ENDED(rdmamsg_window_create(ep, &window));
	ENDED(rdmamsg_ep_migrate(ep, NULL));
	ENDED(rdmamsg_ep_set_alternate(ep, &alt));
	ENDED(rdmamsg_ep_pause(ep));
	ENDED(rdmamsg_ep_resume(ep));
	ENDED(rdmamsg_ep_cancel(ep, NULL));
	ENDED(rdmamsg_ep_flow_query(ep, &flow));
	ENDED(rdmamsg_oob_record(ep, buf, sizeof(buf)));
	ENDED(rdmamsg_oob_finish(ep, buf, sizeof(buf)));
	rdmamsg_ep_close(ep);
	rdmamsg_ep_abort(ep);
	ENDED(rdmamsg_ep_close_with(ep, 1, "x", 1));
	ENDED(rdmamsg_ep_abort_with(ep, 1, "x", 1));
	/* releases it */
	assert_error(rdmamsg_ep_close_wait(ep, 0), -ECANCELED, "context");
	pair_fini(&p);
}

/* It has a reference, so it outlives the context, too. */
static void message__after_its_context_ENDED(void **state)
{
	struct rdmamsg_msg *msg;
	struct rdmamsg_ep *ep;

	pair_open(&p);
	ep = p.c.ep;
	assert_int_equal(rdmamsg_msg_alloc(ep, 100, &msg), 0);
	assert_int_equal(rdmamsg_msg_ref(msg), 0);
	rdmamsg_ep_hold(ep);
	test_close(p.c.ctx);
	p.c.ctx = NULL;
	ENDED(rdmamsg_msg_send(ep, msg, 0, NULL));
	assert_int_equal(rdmamsg_msg_len(msg), 100);
	rdmamsg_msg_free(msg);
	assert_int_equal(rdmamsg_msg_set_len(msg, 50), 0);
	rdmamsg_msg_free(msg);
	rdmamsg_ep_release(ep);
	pair_fini(&p);
}

static void endpoint__after_its_context_ASKED(void **state)
{
	struct rdmamsg_stats stats = { .size = sizeof(stats) };
	struct rdmamsg_ep_attr attr = { .size = sizeof(attr) };
	struct rdmamsg_ep_path_attr path = { .size = sizeof(path) };
	struct rdmamsg_ep_objects objects = { .size = sizeof(objects) };
	struct rdmamsg_ep *ep = outlive();
	char buf[1024];
	size_t len;

	assert_null(rdmamsg_ep_ctx(ep));
	assert_int_equal(rdmamsg_ep_state(ep), RDMAMSG_CLOSED);
	assert_int_equal(rdmamsg_ep_reason(ep)->who, RDMAMSG_WHO_LOCAL);
	assert_ptr_equal(rdmamsg_ep_user(ep), &p.c);
	rdmamsg_ep_set_user(ep, NULL);
	assert_null(rdmamsg_ep_user(ep));
	assert_null(rdmamsg_ep_peer_data(ep, &len));
	assert_string_equal(rdmamsg_ep_device_name(ep), test_device());
	assert_int_equal(rdmamsg_ep_query(ep, &attr), 0);
	assert_string_equal(attr.device, test_device());
	assert_int_equal(rdmamsg_ep_get_stats(ep, &stats), 0);
	assert_int_equal(rdmamsg_ep_path_query(ep, &path), 0);
	assert_true(rdmamsg_ep_history(ep, buf, sizeof(buf)) >= 0);
	assert_int_equal(rdmamsg_ep_verbs(ep, &objects), 0);
	assert_null(objects.qp);
	assert_null(objects.pd);
	rdmamsg_ep_hold(ep);
	rdmamsg_ep_release(ep);
	rdmamsg_ep_release(ep);
	pair_fini(&p);
}

/* The other objects of these calls belong to a context that is open. */
static void endpoint__after_its_context_WITH_OTHERS(void **state)
{
	struct rdmamsg_key other;
	struct rdmamsg_ep *ep = outlive();
	struct rdmamsg_region *region, *cached;
	struct rdmamsg_cache *cache;
	struct rdmamsg_layout *layout;
	struct rdmamsg_chain *chain;
	struct rdmamsg_pool *pool;
	struct rdmamsg_team *team;
	struct rdmamsg_msg *msg;
	static char mem[4096];
	char buf[1024];
	size_t len;
	struct rdmamsg_layout_part part = { .len = 8 };
	const struct rdmamsg_sge sge = { .data = mem, .len = 1 };
	const struct rdmamsg_op op = {
		.size = sizeof(op), .kind = RDMAMSG_OP_SEND, .sge = &sge,
		.count = 1,
	};

	assert_int_equal(rdmamsg_region_create(p.s.ctx, mem, sizeof(mem),
					       RDMAMSG_ACCESS_READ,
					       &region), 0);
	ENDED(rdmamsg_region_register(region, ep));
	ENDED(rdmamsg_region_get_key(region, ep, &other));
	assert_null(rdmamsg_region_mr(region, ep));
	assert_int_equal(rdmamsg_cache_create(p.s.ctx, NULL, &cache), 0);
	ENDED(rdmamsg_cache_get(cache, ep, mem, 1, 0, &cached));
	assert_int_equal(rdmamsg_cache_destroy(cache), 0);
	part.region = region;
	assert_int_equal(rdmamsg_layout_create(p.s.ctx, NULL, &layout), 0);
	assert_int_equal(rdmamsg_layout_define(layout, &part, 1, 1), 0);
	ENDED(rdmamsg_layout_register(layout, ep));
	ENDED(post_layout(ep, layout, 0, 8, 0, NULL));
	ENDED(rdmamsg_layout_recv(ep, layout, 0));
	ENDED(rdmamsg_layout_get_key(layout, ep, buf, sizeof(buf), &len,
				     buf));
	rdmamsg_layout_destroy(layout);
	assert_int_equal(rdmamsg_pool_create(p.s.ctx, NULL, &pool), 0);
	ENDED(rdmamsg_pool_alloc(pool, ep, 1, &msg));
	rdmamsg_pool_destroy(pool);
	assert_int_equal(rdmamsg_chain_create(p.s.ctx, NULL, &chain), 0);
	ENDED(rdmamsg_chain_add(chain, 0, ep, &op));
	ENDED(rdmamsg_chain_recv(chain, 0, ep, mem, 1, 0));
	rdmamsg_chain_destroy(chain);
	ENDED(rdmamsg_team_create(p.s.ctx, NULL, (struct rdmamsg_ep *[]){
				  NULL, ep }, 2, 0, &team));
	rdmamsg_region_destroy(region);
	rdmamsg_ep_release(ep);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(exports__with_zeros_ANSWER),
		TEST(endpoint__after_its_context_ENDED),
		TEST(message__after_its_context_ENDED),
		TEST(endpoint__after_its_context_ASKED),
		TEST(endpoint__after_its_context_WITH_OTHERS),
	};

	return test_main(tests, NULL, argc, argv);
}
