/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the program supplies the memory of a large message. The library
 * registers this memory while the message arrives, and deregisters it before
 * on_message or on_closed. In place of memory the program can name a layout,
 * which may have a dmabuf. No device here takes a dmabuf, so a memory file is a
 * stand-in.
 */
#include "device/verbs_api.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdmamsg/layout.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rma.h>

#define LARGE	((size_t)3 << 20)

static struct verbs_api table;
static uint8_t source[LARGE], target[LARGE];
static unsigned int registered, ever;	/* memory regions in target */
static bool refuses;			/* reg_mr for the layout's memory */

static bool in_target(const void *addr)
{
	return (uintptr_t)addr - (uintptr_t)target < LARGE;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			     int access)
{
	struct ibv_mr *mr;

	if (refuses && len == 2 * LARGE) {
		errno = ENOMEM;
		return NULL;
	}
	mr = rdmamsg__verbs_soft.reg_mr(pd, addr, len, access);
	if (mr && in_target(addr)) {
		registered++;
		ever++;
	}
	return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
	registered -= in_target(mr->addr);
	return rdmamsg__verbs_soft.dereg_mr(mr);
}

static int on_incoming(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
		       struct rdmamsg_buffer *dst)
{
	if (rdmamsg_ep_user(ep) == &server)
		dst->data = target;
	return 0;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	assert_true(ever > 0);
	assert_int_equal(registered, 0);
	assert_ptr_equal(rdmamsg_msg_data(msg), target);
	assert_memory_equal(target, source, LARGE);
	s->messages++;
	rdmamsg_msg_free(msg);
}

static void connect_both(void)
{
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_incoming = on_incoming, .on_message = on_message,
		.on_complete = on_complete, .on_closed = on_closed,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};

	clear_ends();
	registered = ever = 0;
	connect_ends(&opts);
}

static void send_large(void)
{
	const struct iovec v = { source, LARGE };

	assert_int_equal(rdmamsg_sendv(client.ep, &v, 1, 0, source), 0);
}

static void memory__of_a_message_that_came_IS_NOT_REGISTERED(void **state)
{
	connect_both();
	for (unsigned int i = 1; i <= 3; i++) {
		send_large();
		WAIT_FOR(server.messages == i && client.sent == i);
	}
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
}

/* After on_closed, the program may reuse its memory. */
static void memory__of_a_connection_that_ended_IS_NOT_REGISTERED(void **state)
{
	connect_both();
	send_large();
	WAIT_FOR(ever);
	rdmamsg_ep_abort(server.ep);
	WAIT_FOR(client.closed && server.closed);
	assert_int_equal(registered, 0);
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
}

/* ---- layouts ----------------------------------------------------------- */

#define BLOCK	((size_t)4096)

static struct rdmamsg_layout *layout;
static struct rdmamsg_region *region;
static uint8_t *mapped;			/* of the stand-in for a dmabuf */
static int received;			/* result of rdmamsg_layout_recv() */

/* Every other block of the region, which has twice LARGE bytes. */
static void make_layout(uint32_t access)
{
	const struct rdmamsg_layout_options o = {
		.size = sizeof(o), .access = access,
	};
	const struct rdmamsg_layout_part part = {
		.region = region, .len = BLOCK, .dims = 1,
		.count = { LARGE / BLOCK }, .stride = { 2 * BLOCK },
	};

	assert_int_equal(rdmamsg_layout_create(server.ctx, &o, &layout), 0);
	assert_int_equal(rdmamsg_layout_define(layout, &part, 1, 1), 0);
}

static int into_layout(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
		       struct rdmamsg_buffer *dst)
{
	received = rdmamsg_layout_recv(ep, layout, 0);
	/* ignored after a success */
	dst->data = target;
	return 0;
}

static void count_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	assert_ptr_equal(rdmamsg_msg_data(msg), received ? target : NULL);
	assert_int_equal(rdmamsg_msg_len(msg), LARGE);
	s->messages++;
	rdmamsg_msg_free(msg);
}

static void connect_with_layout(uint32_t flags)
{
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_incoming = into_layout, .on_message = count_message,
		.on_complete = on_complete, .on_closed = on_closed,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .flags = flags,
	};

	clear_ends();
	registered = ever = 0;
	received = 1;
	connect_ends(&opts);
}

static void check_blocks(const uint8_t *mem)
{
	for (size_t at = 0; at < LARGE; at += BLOCK) {
		assert_memory_equal(mem + 2 * at, source + at, BLOCK);
		for (size_t i = 0; i < BLOCK; i++)
			assert_int_equal(mem[2 * at + BLOCK + i], 0);
	}
}

static void close_both(void)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
}

/* After the error the program names other memory, which is used. */
static void layout__cannot_be_registered_IN_OTHER_MEMORY(void **state)
{
	uint8_t *mem = calloc(2, LARGE);

	connect_with_layout(0);
	assert_int_equal(rdmamsg_region_create(server.ctx, mem, 2 * LARGE,
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &region), 0);
	make_layout(RDMAMSG_ACCESS_LOCAL_WRITE);
	for (unsigned int i = 1; i <= 2; i++) {
		refuses = i == 1;
		send_large();
		WAIT_FOR(server.messages == i && client.sent == i);
		assert_int_equal(client.status, 0);
		assert_int_equal(received, refuses ? -ENOMEM : 0);
	}
	assert_memory_equal(target, source, LARGE);
	check_blocks(mem);
	close_both();
	free(mem);
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
				    size_t len, uint64_t iova, int fd,
				    int access)
{
	mapped = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		      (off_t)offset);
	assert_ptr_not_equal(mapped, MAP_FAILED);
	return rdmamsg__verbs_soft.reg_mr_iova(pd, mapped, len, iova, access);
}

static void make_dmabuf(void)
{
	int fd = memfd_create("dmabuf", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 2 * LARGE), 0);
	assert_int_equal(rdmamsg_region_dmabuf(server.ctx, fd, 0, 2 * LARGE,
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &region), 0);
	close(fd);
	make_layout(RDMAMSG_ACCESS_LOCAL_WRITE);
}

static void layout__of_a_dmabuf_IN_THE_BLOCKS(void **state)
{
	connect_with_layout(0);
	make_dmabuf();
	send_large();
	WAIT_FOR(server.messages && client.sent);
	assert_int_equal(received, 0);
	check_blocks(mapped);
	close_both();
	munmap(mapped, 2 * LARGE);
}

static void layout__of_a_dmabuf_with_CRC_EOPNOTSUPP(void **state)
{
	connect_with_layout(RDMAMSG_EP_CRC);
	make_dmabuf();
	send_large();
	WAIT_FOR(server.messages && client.sent);
	assert_int_equal(received, -EOPNOTSUPP);
	assert_memory_equal(target, source, LARGE);
	close_both();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			memory__of_a_message_that_came_IS_NOT_REGISTERED),
		cmocka_unit_test(
			memory__of_a_connection_that_ended_IS_NOT_REGISTERED),
		cmocka_unit_test(layout__cannot_be_registered_IN_OTHER_MEMORY),
		cmocka_unit_test(layout__of_a_dmabuf_IN_THE_BLOCKS),
		cmocka_unit_test(layout__of_a_dmabuf_with_CRC_EOPNOTSUPP),
	};

	for (size_t i = 0; i < LARGE; i++)
		source[i] = (uint8_t)(i * 7 + i / 251);
	join_own_fabric("incoming");
	table = rdmamsg__verbs_soft;
	table.reg_mr = reg_mr;
	table.dereg_mr = dereg_mr;
	table.reg_dmabuf_mr = reg_dmabuf_mr;
	rdmamsg__verbs = &table;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
