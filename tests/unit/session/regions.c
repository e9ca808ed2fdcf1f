/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: messages from regions over the soft HCA: what is registered, what
 * is announced, how long a region is in use, and what is refused.
 */
#include "base/ctx.h"
#include "base/list.h"
#include "device/verbs_api.h"
#include "memory/region.h"
#include "session/ep.h"
#include "../../post.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>
#include <rdmamsg/flow.h>
#include <rdmamsg/rma.h>

#define LARGE	(1u << 20)
#define MIDDLE	50000u

static struct rdmamsg_ep_options opts;
static struct rdmamsg_ep_tuning tuning;
static struct rdmamsg_ep_handlers handlers;
static uint8_t data[2 * LARGE], other[LARGE];
static struct rdmamsg_region *region;
static uint8_t got[2 * LARGE];
static size_t got_len;

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	got_len = rdmamsg_msg_len(msg);
	assert_true(got_len <= sizeof(got));
	memcpy(got, rdmamsg_msg_data(msg), got_len);
	s->messages++;
	rdmamsg_msg_free(msg);
}

static int set_up(void **state)
{
	handlers = (struct rdmamsg_ep_handlers){
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_complete = on_complete, .on_message = on_message,
		.on_closed = on_closed,
	};
	tuning = (struct rdmamsg_ep_tuning){ .size = sizeof(tuning) };
	opts = (struct rdmamsg_ep_options){
		.size = sizeof(opts), .handlers = &handlers, .tuning = &tuning,
	};
	clear_ends();
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	for (size_t i = 0; i < sizeof(other); i++)
		other[i] = (uint8_t)(i * 11 + i / 241);
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	return 0;
}

static void connect_with(uint32_t access)
{
	connect_ends(&opts);
	assert_int_equal(rdmamsg_region_create(client.ctx, data, sizeof(data),
					       access, &region), 0);
}

static void connect_and_register(void)
{
	connect_with(RDMAMSG_ACCESS_READ);
	assert_int_equal(rdmamsg_region_register(region, client.ep), 0);
}

static int send_from(void *mem, size_t len, struct rdmamsg_region *r)
{
	const struct rdmamsg_sge s = { mem, len, r };

	return post_regions(client.ep, &s, 1, 5, &client);
}

/* The announcement of the client's only large message. */
static const struct rndv_out *announced(void)
{
	assert_false(list_empty(&client.ep->rndv.out));
	return list_first(&client.ep->rndv.out, struct op, node)->rndv;
}

static void send__large_HAS_THE_KEY_OF_THE_REGION(void **state)
{
	connect_and_register();
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(rdmamsg_ep_pause(server.ep), 0);
		assert_int_equal(send_from(data + 4096, LARGE, region), 0);
		assert_ptr_equal(announced()->mr[0],
				 rdmamsg__region_mr(region,
						    client.ep->lane.dev));
		assert_int_equal(rdmamsg_region_revoke(region), -EBUSY);
		assert_int_equal(rdmamsg_ep_resume(server.ep), 0);
		WAIT_FOR(server.messages == i + 1 && client.sent == i + 1);
		assert_int_equal(client.status, 0);
		assert_int_equal(got_len, LARGE);
		assert_memory_equal(got, data + 4096, LARGE);
		memset(got, 0, sizeof(got));
	}
	assert_int_equal(rdmamsg_region_revoke(region), 0);
}

static void send__middle_size_IS_NOT_COPIED(void **state)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };

	connect_and_register();
	assert_int_equal(send_from(data, MIDDLE, region), 0);
	WAIT_FOR(server.messages == 1 && client.sent == 1);
	assert_memory_equal(got, data, MIDDLE);
	assert_int_equal(rdmamsg_ep_get_stats(client.ep, &st), 0);
	assert_int_equal(st.sent_rendezvous, 1);
	assert_int_equal(st.bytes_copied, 0);
}

static void send__small_sizes_ARRIVE(void **state)
{
	static const size_t sizes[] = { 0, 1, 300, 8000 };

	connect_and_register();
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(send_from(data + i, sizes[i], region), 0);
		WAIT_FOR(server.messages == i + 1 && client.sent == i + 1);
		assert_int_equal(got_len, sizes[i]);
		assert_memory_equal(got, data + i, sizes[i]);
	}
	assert_int_equal(region->busy, 0);
	assert_int_equal(post_regions(client.ep, NULL, 0, 5, &client), 0);
	WAIT_FOR(server.messages == 5);
	assert_int_equal(got_len, 0);
}

/* Only the segment without a region is registered for the message. */
static void send__mixed_segments_ARRIVE(void **state)
{
	struct rdmamsg_sge s[4];

	connect_and_register();
	s[0] = (struct rdmamsg_sge){ data + LARGE, 100000, region };
	s[1] = (struct rdmamsg_sge){ NULL, 0, NULL };
	s[2] = (struct rdmamsg_sge){ other, 70000, NULL };
	s[3] = (struct rdmamsg_sge){ data, 10, region };
	assert_int_equal(rdmamsg_ep_pause(server.ep), 0);
	assert_int_equal(post_regions(client.ep, s, 4, 5, &client), 0);
	assert_int_equal(announced()->count, 3);
	assert_ptr_equal(announced()->region[0], region);
	assert_null(announced()->region[1]);
	assert_ptr_equal(announced()->mr[0], announced()->mr[2]);
	assert_int_equal(region->busy, 2);
	assert_int_equal(rdmamsg_ep_resume(server.ep), 0);
	WAIT_FOR(server.messages == 1 && client.sent == 1);
	assert_int_equal(got_len, 170010);
	assert_memory_equal(got, data + LARGE, 100000);
	assert_memory_equal(got + 100000, other, 70000);
	assert_memory_equal(got + 170000, data, 10);
	assert_int_equal(region->busy, 0);
}

static void send__from_the_cache_HITS(void **state)
{
	struct rdmamsg_cache_stats st = { .size = sizeof(st) };
	struct rdmamsg_cache *cache;

	connect_ends(&opts);
	assert_int_equal(rdmamsg_cache_create(client.ctx, NULL, &cache), 0);
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(rdmamsg_cache_get(cache, client.ep, other,
						   LARGE, RDMAMSG_ACCESS_READ,
						   &region), 0);
		assert_int_equal(send_from(other, LARGE, region), 0);
		/* the message keeps it from now on */
		assert_int_equal(rdmamsg_cache_put(cache, region), 0);
		assert_int_equal(rdmamsg_cache_invalidate(cache, other, LARGE),
				 -EBUSY);
		WAIT_FOR(server.messages == i + 1 && client.sent == i + 1);
		assert_memory_equal(got, other, LARGE);
	}
	assert_int_equal(rdmamsg_cache_get_stats(cache, &st), 0);
	assert_int_equal(st.misses, 1);
	assert_int_equal(st.hits, 3);
	assert_int_equal(rdmamsg_cache_invalidate(cache, other, LARGE), 0);
}

/* A message that ends early leaves the region to the program. */
static void send__cancelled_or_aborted_FREES_THE_REGION(void **state)
{
	tuning.recv_depth = 2;
	opts.send_queue = 8;
	connect_and_register();
	assert_int_equal(rdmamsg_ep_pause(server.ep), 0);
	for (int i = 0; i < 6; i++)
		assert_int_equal(
			post_regions(client.ep,
				     &(struct rdmamsg_sge){data, LARGE, region},
				     1, 5, i == 5 ? (void *)&region : &client),
			0);
	assert_int_equal(region->busy, 6);
	assert_int_equal(rdmamsg_ep_cancel(client.ep, &region), 0);
	WAIT_FOR(client.sent == 1);
	assert_int_equal(region->busy, 5);
	rdmamsg_ep_abort(client.ep);
	WAIT_FOR(client.closed);
	assert_int_equal(client.sent, 6);
	assert_int_equal(region->busy, 0);
	assert_int_equal(rdmamsg_region_destroy(region), 0);
}

static void send__bad_arguments_ARE_REFUSED(void **state)
{
	const struct rdmamsg_sge none = { data, 10, NULL };
	struct rdmamsg_region *closed;
	struct rdmamsg_pd *pd;

	connect_with(RDMAMSG_ACCESS_READ);
	assert_int_equal(send_from(data, LARGE, region), -EINVAL);
	assert_int_equal(rdmamsg_region_register(region, client.ep), 0);
	assert_int_equal(send_from(other, 10, region), -EINVAL);
	assert_int_equal(send_from(data + 1, sizeof(data), region), -EINVAL);
	assert_int_equal(send_from(data, SIZE_MAX, region), -EINVAL);
	assert_int_equal(rdmamsg_region_create(client.ctx, other, LARGE,
					       RDMAMSG_ACCESS_WRITE, &closed),
			 0);
	assert_int_equal(rdmamsg_region_register(closed, client.ep), 0);
	assert_int_equal(send_from(other, LARGE, closed), -EACCES);
	assert_int_equal(rdmamsg_region_revoke(closed), 0);
	assert_int_equal(rdmamsg_region_destroy(closed), 0);
	assert_int_equal(rdmamsg_pd_create(client.ctx, NULL, &pd), 0);
	assert_int_equal(rdmamsg_region_create(client.ctx, other, LARGE,
					       RDMAMSG_ACCESS_READ, &closed),
			 0);
	assert_int_equal(rdmamsg_region_set_pd(closed, pd), 0);
	assert_int_equal(send_from(other, LARGE, closed), -EPERM);
	assert_int_equal(post_regions(client.ep, NULL, 1, 5, NULL), -EINVAL);
	assert_int_equal(post_regions(client.ep, &none, -1, 5, NULL), -EINVAL);
	assert_int_equal(post_regions(client.ep, &none, 17, 5, NULL), -EINVAL);
	assert_int_equal(post_regions(NULL, &none, 1, 5, NULL), -EINVAL);
	assert_int_equal(region->busy, 0);
}

#define TEST(fn)	cmocka_unit_test_setup_teardown(fn, set_up, leave_soft)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(send__large_HAS_THE_KEY_OF_THE_REGION),
		TEST(send__middle_size_IS_NOT_COPIED),
		TEST(send__small_sizes_ARRIVE),
		TEST(send__mixed_segments_ARRIVE),
		TEST(send__from_the_cache_HITS),
		TEST(send__cancelled_or_aborted_FREES_THE_REGION),
		TEST(send__bad_arguments_ARE_REFUSED),
	};

	join_own_fabric("regions");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
