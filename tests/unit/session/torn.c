/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: siw sends wrong bytes if a short request, or the answer to a
 * short read, comes from memory on both sides of a page boundary (Linux 6.1,
 * siw_qp_tx.c, siw_try_1seg()). No such request is posted.
 */
#include "../own_fabric.h"
#include "../soft_calls.h"
#include "../two_ends.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <infiniband/verbs.h>
#include <rdmamsg/layout.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

#define PAGE	4096u
#define SHORT	32u		/* MAX_HDR_INLINE of siw_qp_tx.c */
#define ROOM	((2u << 20) + 2 * PAGE)

static unsigned int torn;		/* requests that siw sends wrong */
static unsigned int reads, writes;	/* short ones */
static uint8_t *far, *near;
static struct rdmamsg_region *far_region, *near_region;
static struct rdmamsg_key key;
static size_t received;
static unsigned int wrong;

static bool crosses(uint64_t addr, uint32_t len)
{
	return len && addr / PAGE != (addr + len - 1) / PAGE;
}

static void look_at(const struct ibv_send_wr *wr)
{
	const bool read = wr->opcode == IBV_WR_RDMA_READ;
	uint32_t len = 0;

	for (int i = 0; i < wr->num_sge; i++)
		len += wr->sg_list[i].length;
	if (!len || len > SHORT)
		return;
	reads += read;
	writes += wr->opcode == IBV_WR_RDMA_WRITE;
	if (read ? crosses(wr->wr.rdma.remote_addr, len) :
	    wr->num_sge == 1 && !(wr->send_flags & IBV_SEND_INLINE) &&
	    crosses(wr->sg_list[0].addr, len))
		torn++;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	for (const struct ibv_send_wr *at = wr; at; at = at->next)
		look_at(at);
	return soft_ops.post_send(qp, wr, bad);
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	received = rdmamsg_msg_len(msg);
	wrong += memcmp(rdmamsg_msg_data(msg), server.mem, received) != 0;
	rdmamsg_msg_free(msg);
}

static int set_up_with(uint32_t inline_max)
{
	static const struct rdmamsg_ep_handlers handlers =
		END_HANDLERS(on_message);
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.tuning = TUNING(.inline_max = inline_max),
	};
	struct rdmamsg_key theirs;

	clear_ends();
	torn = reads = writes = wrong = 0;
	received = 0;
	replace_calls(NULL, post_send);
	connect_ends(&opts);
	far = aligned_alloc(PAGE, ROOM);
	near = aligned_alloc(PAGE, ROOM);
	for (uint32_t i = 0; i < ROOM; i++)
		far[i] = (uint8_t)(i * 7 + i / PAGE);
	assert_int_equal(rdmamsg_region_create(server.ctx, far, ROOM,
					       RDMAMSG_ACCESS_READ |
					       RDMAMSG_ACCESS_WRITE |
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &far_region), 0);
	assert_int_equal(rdmamsg_region_create(client.ctx, near, ROOM,
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &near_region), 0);
	assert_int_equal(rdmamsg_region_register(near_region, client.ep), 0);
	assert_int_equal(rdmamsg_region_get_key(far_region, server.ep,
						&theirs), 0);
	return rdmamsg_key_import(&theirs, sizeof(theirs), &key);
}

static int set_up(void **state)
{
	return set_up_with(0);
}

static int set_up_few(void **state)
{
	return set_up_with(1);
}

static int tear_down(void **state)
{
	(void)rdmamsg_region_destroy(far_region);
	(void)rdmamsg_region_destroy(near_region);
	(void)leave_soft(state);
	free(far);
	free(near);
	return torn ? -1 : 0;
}

static void read_at(const struct rdmamsg_key *from, size_t at, size_t len,
		    size_t to)
{
	const struct rdmamsg_sge s = { near + to, len, near_region };
	const unsigned int before = client.sent;

	memset(near + to, 0, len);
	assert_int_equal(rdmamsg_read(client.ep, &s, 1, from, at, 0, &client),
			 0);
	WAIT_FOR(client.sent == before + 1);
	assert_int_equal(client.status, 0);
}

static void read__of_both_sides_of_a_boundary_TWO_READS(void **state)
{
	for (uint32_t len = 1; len <= SHORT + 1; len++)
		for (uint32_t on = 0; on <= len; on++) {
			const size_t at = 3 * PAGE - on;

			read_at(&key, at, len, PAGE - len / 2);
			assert_memory_equal(near + PAGE - len / 2, far + at,
					    len);
		}
	assert_int_equal(torn, 0);
	assert_true(reads > SHORT * SHORT / 2);
}

/* The device takes no more than a chunk, so that a few bytes are left. */
static void read__with_a_short_rest_TWO_READS(void **state)
{
	const size_t len = (1u << 20) + 20;

	read_at(&key, PAGE - 10, len, 0);
	assert_memory_equal(near, far + PAGE - 10, len);
	assert_int_equal(reads, 2);
	assert_int_equal(torn, 0);
}

static struct rdmamsg_layout *stripes(struct rdmamsg_key *ret)
{
	const struct rdmamsg_layout_part part = {
		.region = far_region, .offset = PAGE - 2, .len = 5, .dims = 1,
		.count = { 64 }, .stride = { PAGE + 1 },
	};
	const struct rdmamsg_layout_options o = {
		.size = sizeof(o),
		.access = RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE,
	};
	const size_t room = 1u << 16;
	const unsigned int before = server.sent;
	uint8_t *bytes = malloc(room);
	struct rdmamsg_layout *l;
	size_t len;

	assert_int_equal(rdmamsg_layout_create(server.ctx, &o, &l), 0);
	assert_int_equal(rdmamsg_layout_define(l, &part, 1, 1), 0);
	assert_int_equal(rdmamsg_layout_get_key(l, server.ep, bytes, room,
						&len, &len), 0);
	WAIT_FOR(server.sent == before + 1);
	assert_int_equal(server.status, 0);
	assert_int_equal(rdmamsg_layout_import(client.ctx, bytes, len, ret),
			 0);
	free(bytes);
	return l;
}

static void layout__of_short_blocks_IS_READ_AND_WRITTEN(void **state)
{
	struct rdmamsg_key blocks;
	struct rdmamsg_layout *l = stripes(&blocks);
	const struct rdmamsg_sge s = { near + PAGE - 7, 5 * 64, near_region };
	unsigned int before;

	read_at(&blocks, 0, 5 * 64, PAGE - 7);
	for (uint32_t i = 0; i < 64; i++)
		assert_memory_equal(near + PAGE - 7 + 5 * i,
				    far + PAGE - 2 + (PAGE + 1) * i, 5);
	for (uint32_t i = 0; i < s.len; i++)
		near[PAGE - 7 + i] = (uint8_t)(i + 1);
	before = client.sent;
	assert_int_equal(rdmamsg_write(client.ep, &s, 1, &blocks, 0, 0,
				       &client), 0);
	WAIT_FOR(client.sent == before + 1);
	/* a read behind the write tells that it has arrived */
	read_at(&key, 0, 1, 0);
	for (uint32_t i = 0; i < 64; i++)
		assert_memory_equal(near + PAGE - 7 + 5 * i,
				    far + PAGE - 2 + (PAGE + 1) * i, 5);
	assert_int_equal(torn, 0);
	assert_true(writes >= 64);
	assert_int_equal(rdmamsg_layout_forget(client.ctx, &blocks), 0);
	assert_int_equal(rdmamsg_layout_destroy(l), 0);
}

static void message__with_a_short_rest_ARRIVES(void **state)
{
	for (uint32_t on = 1; on < 20; on++) {
		const size_t len = (1u << 20) + 20;
		struct iovec iov = { near + PAGE - on, len };

		memcpy(iov.iov_base, far, len);
		server.mem = far;
		received = 0;
		assert_int_equal(rdmamsg_sendv(client.ep, &iov, 1, 0, &client),
				 0);
		WAIT_FOR(received == len);
	}
	assert_int_equal(wrong, 0);
	assert_int_equal(torn, 0);
	assert_true(reads >= 19 + 18);
}

/* Writes an entry, whose bytes are those at 'from'. */
static void write_entry(const struct rdmamsg_sge *s, uint8_t *from)
{
	const unsigned int before = client.sent;

	for (uint32_t i = 0; i < s->len; i++)
		from[i] = (uint8_t)(s->len + i * 3);
	assert_int_equal(rdmamsg_write(client.ep, s, 1, &key, 0, 0, &client),
			 0);
	WAIT_FOR(client.sent == before + 1);
	assert_int_equal(client.status, 0);
	/* a read behind the write tells that it has arrived */
	read_at(&key, 0, 1, 0);
	assert_memory_equal(far, from, s->len);
}

/* The library asks the device for less inline data than such a write has. */
static void write__with_a_small_inline_max_ARRIVES(void **state)
{
	for (uint32_t len = 2; len <= SHORT; len++) {
		uint8_t *from = near + 2 * PAGE - len / 2;
		const struct rdmamsg_sge s = { from, len, near_region };

		write_entry(&s, from);
	}
	assert_int_equal(torn, 0);
	assert_int_equal(writes, SHORT - 1);
}

static void message__with_a_small_inline_max_ARRIVES(void **state)
{
	for (uint32_t i = 0; i < 8 * SHORT; i++) {
		server.mem = near + i;
		received = 0;
		assert_int_equal(rdmamsg_send(client.ep, near + i,
					      1 + i % SHORT, 0, &client), 0);
		WAIT_FOR(received == 1 + i % SHORT);
	}
	assert_int_equal(wrong, 0);
	assert_int_equal(torn, 0);
}

static void write__out_of_a_layout_ARRIVES(void **state)
{
	const struct rdmamsg_layout_part part = {
		.region = near_region, .offset = PAGE, .len = 2 * PAGE,
	};
	const struct rdmamsg_layout_options o = {
		.size = sizeof(o), .access = RDMAMSG_ACCESS_LOCAL_WRITE,
	};
	struct rdmamsg_layout *l;

	assert_int_equal(rdmamsg_layout_create(client.ctx, &o, &l), 0);
	assert_int_equal(rdmamsg_layout_define(l, &part, 1, 1), 0);
	assert_int_equal(rdmamsg_layout_register(l, client.ep), 0);
	for (uint32_t len = 2; len <= SHORT; len++) {
		const size_t at = PAGE - len / 2;
		const struct rdmamsg_sge s = {
			(void *)at, len, rdmamsg_layout_region(l),
		};

		write_entry(&s, near + PAGE + at);
	}
	assert_int_equal(torn, 0);
	assert_int_equal(writes, SHORT - 1);
	assert_int_equal(rdmamsg_layout_destroy(l), 0);
}

int main(void)
{
#define CASE(f)	cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(read__of_both_sides_of_a_boundary_TWO_READS),
		CASE(read__with_a_short_rest_TWO_READS),
		CASE(layout__of_short_blocks_IS_READ_AND_WRITTEN),
		CASE(message__with_a_short_rest_ARRIVES),
		CASE(write__out_of_a_layout_ARRIVES),
		cmocka_unit_test_setup_teardown(
			write__with_a_small_inline_max_ARRIVES, set_up_few,
			tear_down),
		cmocka_unit_test_setup_teardown(
			message__with_a_small_inline_max_ARRIVES, set_up_few,
			tear_down),
	};

	join_own_fabric("torn");
	(void)setenv("RDMAMSG_SOFT_LINK", "iwarp", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
