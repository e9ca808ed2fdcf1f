/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: one-sided operations over the soft HCA with fewer abilities than
 * it has, and with injected failures.
 */
#include "base/ctx.h"
#include "base/list.h"
#include "device/verbs_api.h"
#include "session/tx.h"
#include "memory/memory.h"
#include "memory/region.h"
#include "memory/stretch.h"
#include "session/ep.h"
#include "session/send.h"
#include "wire/proto.h"
#include "../../post.h"
#include "../../verbs_of.h"
#include "../own_fabric.h"
#include "../two_ends.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rma.h>
#include <rdmamsg/verbs.h>

#define ROOM		((size_t)1 << 20)

/* ---- the device ------------------------------------------------------- */

static struct ibv_context_ops soft_ops;
static uint32_t port_max;	/* largest request that was posted */
static uint64_t mr_max;		/* max_mr_size, unless 0 */
static int last_vector;		/* of a completion queue */
static uint32_t largest;	/* request that was posted */
static uint32_t window_changes;	/* bindings and invalidations, posted */
static uint32_t fenced;		/* the fenced ones of these */
static bool broken;		/* post_send and modify_qp fail */
static bool no_inline;		/* queue pairs have no inline data */
static bool invalidates = true;	/* false: SEND_WITH_INV becomes SEND */
static bool disguised;		/* the header of SEND_WITH_INV says DATA */
static struct ibv_mr *held[4];	/* regions that dereg_mr() kept */
static uint32_t holds, held_count;	/* dereg_mr() fails so many times */
/* the next completion of this opcode ... */
static enum ibv_wc_opcode turned;
static enum ibv_wc_status turned_to;	/* ... gets this status, unless 0 */
static struct verbs_api table;	/* the soft HCA's calls, some replaced */

static int query_port(struct ibv_context *verbs, uint8_t port,
		      struct ibv_port_attr *attr)
{
	int ret = rdmamsg__verbs_soft.query_port(verbs, port, attr);

	if (!ret && port_max)
		attr->max_msg_sz = port_max;
	return ret;
}

static int query_device(struct ibv_context *verbs, struct ibv_device_attr *attr)
{
	int ret = rdmamsg__verbs_soft.query_device(verbs, attr);

	if (!ret && mr_max)
		attr->max_mr_size = mr_max;
	return ret;
}

static struct ibv_cq *create_cq(struct ibv_context *verbs, int cqe, void *arg,
				struct ibv_comp_channel *channel, int vector)
{
	last_vector = vector;
	return rdmamsg__verbs_soft.create_cq(verbs, cqe, arg, channel, 0);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd,
				struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp;

	if (no_inline)
		attr->cap.max_inline_data = 0;
	qp = rdmamsg__verbs_soft.create_qp(pd, attr);
	if (no_inline)
		attr->cap.max_inline_data = 0;
	return qp;
}

/* The device has no raw requests without inline data. */
static struct ibv_qp *mlx5_create_qp(struct ibv_context *verbs,
				     struct ibv_qp_init_attr_ex *attr,
				     struct mlx5dv_qp_init_attr *mlx5)
{
	if (!no_inline)
		return rdmamsg__verbs_soft.mlx5_create_qp(verbs, attr, mlx5);
	errno = EOPNOTSUPP;
	return NULL;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return broken ? EIO : rdmamsg__verbs_soft.modify_qp(qp, attr, mask);
}

static int dereg_mr(struct ibv_mr *mr)
{
	if (!holds)
		return rdmamsg__verbs_soft.dereg_mr(mr);
	holds--;
	held[held_count++] = mr;
	return EIO;
}

static int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int n = soft_ops.poll_cq(cq, room, wc);

	for (int i = 0; i < n; i++) {
		if (!turned_to || wc[i].status || wc[i].opcode != turned)
			continue;
		wc[i].status = turned_to;
		turned_to = IBV_WC_SUCCESS;
	}
	return n;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	if (broken) {
		*bad = wr;
		return ENOMEM;
	}
	for (struct ibv_send_wr *w = wr; w; w = w->next) {
		uint32_t len = 0;

		if (w->opcode == IBV_WR_SEND_WITH_INV && disguised)
			*(uint8_t *)(uintptr_t)w->sg_list->addr = PROTO_DATA;
		if (w->opcode == IBV_WR_SEND_WITH_INV && !invalidates)
			w->opcode = IBV_WR_SEND;

		if (w->opcode == IBV_WR_BIND_MW ||
		    w->opcode == IBV_WR_LOCAL_INV) {
			window_changes++;
			fenced += (w->send_flags & IBV_SEND_FENCE) != 0;
		}
		for (int i = 0; i < w->num_sge; i++)
			len += w->sg_list[i].length;
		largest = max(largest, len);
	}
	return soft_ops.post_send(qp, wr, bad);
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	struct ibv_context *verbs = rdmamsg__verbs_soft.open_device(device);

	if (!verbs)
		return NULL;
	soft_ops = verbs->ops;
	verbs->num_comp_vectors = 3;
	verbs->ops.post_send = post_send;
	verbs->ops.poll_cq = poll_cq;
	return verbs;
}

/* ---- both ends -------------------------------------------------------- */

static struct rdmamsg_key key;		/* of the server's memory */
static struct rdmamsg_ep_options opts;	/* of both ends */
static struct rdmamsg_ep_tuning tuning;

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	s->messages++;
	memcpy(s->mem, rdmamsg_msg_data(msg), rdmamsg_msg_len(msg));
	rdmamsg_msg_free(msg);
}

static void on_writable(struct rdmamsg_ep *ep)
{
	((struct side *)rdmamsg_ep_user(ep))->writable++;
}

static void on_invalidated(struct rdmamsg_ep *ep, struct rdmamsg_window *w)
{
	((struct side *)rdmamsg_ep_user(ep))->invalidated++;
}

static void side_memory(struct side *s, uint32_t access)
{
	s->mem = calloc(1, ROOM);
	assert_int_equal(rdmamsg_region_create(s->ctx, s->mem, ROOM, access,
					       &s->region), 0);
	assert_int_equal(rdmamsg_region_register(s->region, s->ep), 0);
}

/* With the options, and the device, as the test has set them. */
static void connect_both(void)
{
	static const struct rdmamsg_ep_handlers handlers = {
		.size = sizeof(handlers), .on_connected = on_connected,
		.on_complete = on_complete, .on_message = on_message,
		.on_writable = on_writable, .on_closed = on_closed,
		.on_invalidated = on_invalidated,
	};

	opts.handlers = &handlers;
	connect_ends(&opts);
	side_memory(&client, RDMAMSG_ACCESS_LOCAL_WRITE);
	side_memory(&server, RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE |
		    RDMAMSG_ACCESS_WINDOW);
	assert_int_equal(rdmamsg_region_get_key(server.region, server.ep, &key),
			 0);
}

static int set_up(void **state)
{
	/* timers start no traffic of their own */
	tuning = (struct rdmamsg_ep_tuning){
		.size = sizeof(tuning), .stall_after_ms = RDMAMSG_NONE,
		.fetch_timeout_ms = RDMAMSG_NONE,
	};
	opts = (struct rdmamsg_ep_options){
		.size = sizeof(opts), .dead_after_ms = RDMAMSG_NONE,
		.tuning = &tuning,
	};
	clear_ends();
	mr_max = 0;
	port_max = largest = window_changes = fenced = 0;
	broken = no_inline = disguised = false;
	holds = held_count = 0;
	invalidates = true;
	turned_to = IBV_WC_SUCCESS;
	table = rdmamsg__verbs_soft;
	table.open_device = open_device;
	table.query_device = query_device;
	table.query_port = query_port;
	table.create_cq = create_cq;
	table.create_qp = create_qp;
	table.mlx5_create_qp = mlx5_create_qp;
	table.modify_qp = modify_qp;
	table.dereg_mr = dereg_mr;
	rdmamsg__verbs = &table;
	return 0;
}

static int tear_down(void **state)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	free(client.mem);
	free(server.mem);
	return 0;
}

static void fill(uint8_t *mem, size_t len)
{
	for (size_t i = 0; i < len; i++)
		mem[i] = (uint8_t)((uint32_t)i * 2654435761u >> 24);
}

/* ---- the port's max_msg_sz -------------------------------------------- */

static void request__never_larger_than_THE_PORT_CARRIES(void **state)
{
	struct rdmamsg_sge all = { .len = 100003 }, two[2];
	struct rdmamsg_ep_attr info = { .size = sizeof(info) };
	struct iovec iov = { .iov_len = 100003 };

	port_max = 9000;
	tuning.eager_max = 65536;
	connect_both();
	assert_int_equal(rdmamsg_ep_query(client.ep, &info), 0);
	assert_int_equal(info.eager_max, 9000 - PROTO_HDR_LEN);
	fill(client.mem, ROOM);
	all.data = client.mem;
	all.region = client.region;
	two[0] = two[1] = all;
	two[0].len = 8999;
	two[1].data = client.mem + 8999;
	two[1].len -= 8999;
	assert_int_equal(rdmamsg_write(client.ep, two, 2, &key, 5, 0, &all), 0);
	WAIT_FOR(client.sent == 1);
	assert_memory_equal(server.mem + 5, client.mem, 100003);
	memset(client.mem, 0, ROOM);
	assert_int_equal(rdmamsg_read(client.ep, &all, 1, &key, 5, 0, &all), 0);
	WAIT_FOR(client.sent == 2);
	assert_memory_equal(server.mem + 5, client.mem, 100003);
	/*
	 * the first message is one Send, the second one is read by the server
	 */
	assert_int_equal(rdmamsg_send(client.ep, client.mem + 7, 8984, 0, NULL),
			 0);
	WAIT_FOR(server.messages == 1);
	assert_memory_equal(server.mem, client.mem + 7, 8984);
	iov.iov_base = client.mem;
	assert_int_equal(rdmamsg_sendv(client.ep, &iov, 1, 0, &iov), 0);
	WAIT_FOR(client.sent == 3);
	assert_memory_equal(server.mem, client.mem, 100003);
	assert_int_equal(largest, 9000);
}

/* ---- the completion queue --------------------------------------------- */

static void query__completion_queue_AS_GRANTED(void **state)
{
	struct rdmamsg_ep_attr info = { .size = sizeof(info) };

	tuning.comp_vector = 2;
	opts.flags = RDMAMSG_EP_OWN_CQ;
	connect_both();
	assert_int_equal(last_vector, 2);
	assert_int_equal(rdmamsg_ep_query(client.ep, &info), 0);
	assert_int_equal(info.comp_vector, 2);
	assert_int_equal(info.cq_entries,
			 ep_verbs_of(client.ep).qp->send_cq->cqe);
	assert_true(info.cq_entries >= info.send_depth + info.recv_depth);
}

static void vector__not_given_CONTEXTS_TAKE_TURNS(void **state)
{
	struct rdmamsg_ep_attr c = { .size = sizeof(c) }, s = c;

	connect_both();
	assert_int_equal(rdmamsg_ep_query(client.ep, &c), 0);
	assert_int_equal(rdmamsg_ep_query(server.ep, &s), 0);
	assert_int_equal(c.comp_vector, client.ctx->number % 3);
	assert_int_equal(s.comp_vector, server.ctx->number % 3);
	assert_int_not_equal(c.comp_vector, s.comp_vector);
}

static void vector__none_IS_0(void **state)
{
	struct rdmamsg_ep_attr c = { .size = sizeof(c) }, s = c;

	tuning.comp_vector = RDMAMSG_NONE;
	connect_both();
	assert_int_equal(rdmamsg_ep_query(client.ep, &c), 0);
	assert_int_equal(rdmamsg_ep_query(server.ep, &s), 0);
	assert_int_equal(c.comp_vector, 0);
	assert_int_equal(s.comp_vector, 0);
}

/* ---- the registration ------------------------------------------------- */

static void region_mr__registered_HAS_THE_KEYS(void **state)
{
	struct rdmamsg_region *other;
	struct proto_key k;
	struct ibv_mr *mr;

	connect_both();
	assert_int_equal(rdmamsg__key_decode(&k, key.bytes, sizeof(key.bytes)),
			 0);
	mr = rdmamsg_region_mr(server.region, server.ep);
	assert_non_null(mr);
	assert_int_equal(mr->rkey, k.rkey);
	assert_ptr_equal(mr->addr, server.mem);
	assert_int_equal(mr->length, ROOM);
	assert_ptr_equal(mr->pd, ep_verbs_of(server.ep).pd);
	/* the lkey serves requests of queue pairs in the domain */
	assert_int_not_equal(mr->lkey, 0);
	assert_null(rdmamsg_region_mr(server.region, client.ep));
	assert_null(rdmamsg_region_mr(NULL, server.ep));
	assert_null(rdmamsg_region_mr(server.region, NULL));
	assert_int_equal(rdmamsg_region_create(client.ctx, client.mem, 100, 0,
					       &other), 0);
	assert_null(rdmamsg_region_mr(other, client.ep));
	assert_int_equal(rdmamsg_region_revoke(server.region), 0);
	assert_null(rdmamsg_region_mr(server.region, server.ep));
}

/* ---- the device's max_mr_size ----------------------------------------- */

static void region__larger_than_the_device_allows_EINVAL(void **state)
{
	const struct rdmamsg_qp_options o = { .size = sizeof(o) };
	struct rdmamsg_region *region;
	struct rdmamsg_qp *qp;
	struct ibv_mr *mr;

	mr_max = ROOM;
	connect_both();
	assert_int_equal(rdmamsg_region_create(client.ctx, client.mem, ROOM + 1,
					       RDMAMSG_ACCESS_READ, &region),
			 0);
	assert_int_equal(rdmamsg_region_register(region, client.ep), -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "1048577 bytes"));
	assert_non_null(strstr(rdmamsg_error(), "max_mr_size"));
	assert_int_equal(rdmamsg_region_destroy(region), 0);
	assert_int_equal(rdmamsg_qp_create(client.ctx, &o, &qp), 0);
	assert_int_equal(rdmamsg_qp_register(qp, client.mem, ROOM + 1, 0, &mr),
			 -EINVAL);
	assert_non_null(strstr(rdmamsg_error(), "max_mr_size"));
	assert_int_equal(rdmamsg_qp_register(qp, client.mem, ROOM, 0, &mr), 0);
	assert_int_equal(rdmamsg_qp_deregister(qp, mr), 0);
	assert_int_equal(rdmamsg_qp_destroy(qp), 0);
}

/* ---- failures --------------------------------------------------------- */

/* The write takes several doorbells, and the first one fails. */
static void write__that_cannot_be_posted_ENDS_AT_ONCE(void **state)
{
	struct rdmamsg_sge all = { .len = 40 * 4096 };
	struct pollfd fd = { .events = POLLIN };

	port_max = 8192;
	connect_both();
	all.data = client.mem;
	all.region = client.region;
	fd.fd = rdmamsg_fd(client.ctx);
	WAIT_FOR(poll(&fd, 1, 0) == 0);
	broken = true;
	assert_int_equal(rdmamsg_write(client.ep, &all, 1, &key, 0, 0, &all),
			 0);
	/*
	 * a failed device reports nothing, so the library wakes the loop itself
	 */
	assert_int_equal(poll(&fd, 1, 0), 1);
	assert_true(rdmamsg_process(client.ctx) >= 0);
	assert_true(client.closed);
	assert_int_equal(client.sent, 1);
	assert_int_equal(client.status, -ECANCELED);
	broken = false;
}

/*
 * No operation follows this write, and the program awaits no completion for it.
 */
static void write__without_a_cookie_FREES_ITS_REGION(void **state)
{
	struct rdmamsg_sge s = { .len = 1000 };
	int ret;

	connect_both();
	fill(client.mem, 1000);
	s.data = client.mem;
	s.region = client.region;
	assert_int_equal(rdmamsg_write(client.ep, &s, 1, &key, 0, 0, NULL), 0);
	WAIT_FOR((ret = rdmamsg_region_revoke(client.region)) != -EBUSY);
	assert_int_equal(ret, 0);
	assert_memory_equal(server.mem, client.mem, 1000);
	assert_false(client.closed);
}

static void cache__write_without_a_cookie_FREES_ITS_ROOM(void **state)
{
	const struct rdmamsg_cache_options o = {
		.size = sizeof(o), .max_regions = 1,
	};
	struct rdmamsg_sge s = { .len = 1000 };
	struct rdmamsg_region *other;
	struct rdmamsg_cache *cache;
	int ret;

	connect_both();
	fill(client.mem, 1000);
	s.data = client.mem;
	assert_int_equal(rdmamsg_cache_create(client.ctx, &o, &cache), 0);
	assert_int_equal(rdmamsg_cache_get(cache, client.ep, client.mem, 1000,
					   0, &s.region), 0);
	assert_int_equal(rdmamsg_write(client.ep, &s, 1, &key, 0, 0, NULL), 0);
	assert_int_equal(rdmamsg_cache_put(cache, s.region), 0);
	WAIT_FOR((ret = rdmamsg_cache_get(cache, client.ep, client.mem + 4096,
					  8, 0, &other)) != -ENOBUFS);
	assert_int_equal(ret, 0);
	assert_memory_equal(server.mem, client.mem, 1000);
}

/* A peer that has the region's key could access memory that is reused later. */
static void cache__not_let_go_of_IS_TOLD(void **state)
{
	struct rdmamsg_cache_stats info = { .size = sizeof(info) };
	struct rdmamsg_region *region;
	struct rdmamsg_cache *cache;

	connect_both();
	assert_int_equal(rdmamsg_cache_create(server.ctx, NULL, &cache), 0);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(rdmamsg_cache_get(cache, server.ep,
						   server.mem + i * 1000, 1000,
						   RDMAMSG_ACCESS_READ,
						   &region), 0);
		assert_int_equal(rdmamsg_cache_put(cache, region), 0);
	}
	holds = 1;
	assert_int_equal(rdmamsg_cache_invalidate(cache, server.mem + 999, 2),
			 -EIO);
	assert_non_null(strstr(rdmamsg_error(), "still reach"));
	/* the cache drops both regions in spite of the failure */
	assert_int_equal(rdmamsg_cache_invalidate(cache, server.mem + 999, 2),
			 0);
	assert_int_equal(rdmamsg_cache_get_stats(cache, &info), 0);
	assert_int_equal(info.regions, 1);
	holds = 1;
	assert_int_equal(rdmamsg_cache_destroy(cache), -EIO);
	assert_int_equal(rdmamsg_cache_destroy(cache), 0);
	assert_int_equal(held_count, 2);
	while (held_count)
		assert_int_equal(rdmamsg__verbs_soft.dereg_mr(
						held[--held_count]), 0);
}

static void client_alone(void)
{
	for (int i = 0; i < 10; i++)
		assert_true(rdmamsg_process(client.ctx) >= 0);
}

/* The endpoint has no credits left, but write_imm waits for a buffer alone. */
static void write_imm__without_a_buffer_WRITABLE_WITH_ONE(void **state)
{
	static struct rdmamsg_msg *msgs[4096];
	struct rdmamsg_sge s = { .len = 8 };
	size_t limit;
	int n = 0;

	no_inline = true;
	tuning.recv_depth = 1;
	connect_both();
	s.data = client.mem;
	s.region = client.region;
	assert_int_equal(rdmamsg_write(client.ep, &s, 1, &key, 0, 0, &s), 0);
	WAIT_FOR(client.sent == 1);
	/* the message takes the only credit; the server's loop stops here */
	assert_int_equal(rdmamsg_send(client.ep, "x", 1, 0, &s), 0);
	while (client.sent < 2)
		assert_true(rdmamsg_wait(client.ctx, WAIT_MS) > 0);
	client_alone();
	limit = client.ctx->memory->budget[DIR_OUT].cap;
	client.ctx->memory->budget[DIR_OUT].cap =
		client.ctx->memory->budget[DIR_OUT].used;
	while (n < 4096 && !rdmamsg_msg_alloc(client.ep, 4000, &msgs[n]))
		n++;
	assert_in_range(n, 1, 4095);
	assert_int_equal(post_notify(client.ep, &s, 1, &key, 0, 1, 0, NULL),
			 -EAGAIN);
	client_alone();
	assert_int_equal(client.writable, 0);
	rdmamsg_msg_free(msgs[--n]);
	client_alone();
	assert_int_equal(client.writable, 1);
	assert_int_equal(post_notify(client.ep, &s, 1, &key, 0, 1, 0, NULL), 0);
	while (n)
		rdmamsg_msg_free(msgs[--n]);
	client.ctx->memory->budget[DIR_OUT].cap = limit;
}

/*
 * Another endpoint's messages hold the buffers, and follow its keepalive. The
 * completion of the keepalive does not confirm these messages.
 */
static void send__without_a_buffer_WRITABLE_WHEN_ANOTHER_HAS_SENT(void **state)
{
	struct rdmamsg_ep *first;
	size_t limit;

	/*
	 * the slab has fewer buffers than the number of messages per signalled
	 * one
	 */
	tuning.eager_max = 16000;
	connect_both();
	first = client.ep;
	connect_client(&opts);
	assert_int_equal(rdmamsg_send(first, client.mem, 1000, 0, &limit), 0);
	WAIT_FOR(client.sent == 1);
	limit = client.ctx->memory->budget[DIR_OUT].cap;
	client.ctx->memory->budget[DIR_OUT].cap =
		client.ctx->memory->budget[DIR_OUT].used;
	first->ctrl.due |= CTRL_KEEPALIVE;
	rdmamsg__tx_pump(first);
	rdmamsg__tx_flush(client.ctx);
	assert_true(first->live.keepalive_out);
	while (!list_empty(&first->send.pool->free_slabs))
		assert_int_equal(rdmamsg_send(first, client.mem, 1000, 0, NULL),
				 0);
	assert_int_equal(rdmamsg_send(client.ep, client.mem, 1000, 0, NULL),
			 -EAGAIN);
	assert_true(first->live.keepalive_out);
	WAIT_FOR(client.writable);
	assert_int_equal(rdmamsg_send(client.ep, client.mem, 1000, 0, NULL), 0);
	client.ctx->memory->budget[DIR_OUT].cap = limit;
}

/* ---- which side an error is blamed on --------------------------------- */

static void expect_ours(struct side *s, enum ibv_wc_status status,
			const char *word)
{
	WAIT_FOR(s->closed);
	assert_int_equal(s->why.who, RDMAMSG_WHO_LOCAL);
	assert_int_equal(s->why.cause, RDMAMSG_CAUSE_ACCESS);
	assert_int_equal(s->why.error, -EACCES);
	assert_int_equal(s->why.wc_status, status);
	if (!strstr(s->why.text, word))
		fail_msg("no '%s' in '%s'", word, s->why.text);
	assert_int_equal(s->sent, 1);
	assert_true(s->status < 0);
}

static void write__from_memory_that_is_refused_OURS(void **state)
{
	struct rdmamsg_sge s = { .len = 1000 };
	struct ibv_mr *mr;

	connect_both();
	s.data = client.mem;
	s.region = client.region;
	mr = rdmamsg__region_mr(client.region, client.ep->lane.dev);
	mr->lkey ^= 0x10;
	assert_int_equal(rdmamsg_write(client.ep, &s, 1, &key, 0, 0, &s), 0);
	mr->lkey ^= 0x10;
	expect_ours(&client, IBV_WC_LOC_PROT_ERR, "memory of this program");
}

static struct rdmamsg_key window_key;

static struct rdmamsg_window *bound_window(void)
{
	struct rdmamsg_window *w;

	assert_int_equal(rdmamsg_window_create(server.ep, &w), 0);
	assert_int_equal(rdmamsg_window_bind(w, server.region, 0, 8,
					     RDMAMSG_ACCESS_READ, &window_key,
					     w), 0);
	return w;
}

static void window_bind__that_fails_OURS(void **state)
{
	connect_both();
	turned = IBV_WC_BIND_MW;
	turned_to = IBV_WC_MW_BIND_ERR;
	(void)bound_window();
	expect_ours(&server, IBV_WC_MW_BIND_ERR, "window");
}

static void window_invalidate__that_fails_OURS(void **state)
{
	struct rdmamsg_window *w;

	connect_both();
	w = bound_window();
	WAIT_FOR(server.sent == 1);
	server.sent = 0;
	turned = IBV_WC_LOCAL_INV;
	turned_to = IBV_WC_MW_BIND_ERR;
	assert_int_equal(rdmamsg_window_invalidate(w, w), 0);
	expect_ours(&server, IBV_WC_MW_BIND_ERR, "window");
}

/* Outstanding reads may still write to the memory of the window. */
static void window__changes_behind_reads_ARE_FENCED(void **state)
{
	struct rdmamsg_window *w;

	connect_both();
	w = bound_window();
	WAIT_FOR(server.sent == 1);
	assert_int_equal(rdmamsg_window_invalidate(w, w), 0);
	WAIT_FOR(server.sent == 2);
	assert_int_equal(window_changes, 2);
	assert_int_equal(fenced, 2);
}

static void send_invalidate__that_does_not_PROTOCOL(void **state)
{
	connect_both();
	(void)bound_window();
	WAIT_FOR(server.sent == 1);
	invalidates = false;
	assert_int_equal(
		post_invalidate(client.ep, "x", 1, 1, &window_key, NULL), 0);
	WAIT_FOR(server.closed);
	assert_int_equal(server.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_PROTOCOL);
	assert_int_equal(server.messages + server.invalidated, 0);
}

/*
 * A peer must not invalidate a window by an ordinary message, because the
 * owner would not learn of it.
 */
static void send_invalidate__as_another_message_PROTOCOL(void **state)
{
	connect_both();
	(void)bound_window();
	WAIT_FOR(server.sent == 1);
	/* an ordinary message arrives over the fast path */
	assert_int_equal(rdmamsg_send(client.ep, "x", 1, 1, NULL), 0);
	WAIT_FOR(server.messages == 1);
	disguised = true;
	assert_int_equal(
		post_invalidate(client.ep, "x", 1, 1, &window_key, NULL), 0);
	WAIT_FOR(server.closed || server.messages == 2);
	assert_true(server.closed);
	assert_int_equal(server.why.who, RDMAMSG_WHO_PEER);
	assert_int_equal(server.why.cause, RDMAMSG_CAUSE_PROTOCOL);
	assert_int_equal(server.messages, 1);
	assert_int_equal(server.invalidated, 0);
}

/* The read before it may still use the key that SEND_WITH_INV invalidates. */
static void send_invalidate__behind_a_read_WAITS_FOR_IT(void **state)
{
	struct rdmamsg_sge s = { .len = ROOM };
	struct rdmamsg_window *w;

	connect_both();
	fill(server.mem, ROOM);
	s.data = client.mem;
	s.region = client.region;
	assert_int_equal(rdmamsg_window_create(server.ep, &w), 0);
	for (unsigned int i = 1; i <= 20; i++) {
		memset(client.mem, 0, ROOM);
		assert_int_equal(rdmamsg_window_bind(w, server.region, 0, ROOM,
						     RDMAMSG_ACCESS_READ,
						     &window_key, w), 0);
		WAIT_FOR(server.sent == i);
		/* one doorbell for both requests */
		client.ctx->loop.in_callback++;
		assert_int_equal(rdmamsg_read(client.ep, &s, 1, &window_key, 0,
					      0, &s), 0);
		assert_int_equal(post_invalidate(client.ep, NULL, 0, 1,
						 &window_key, NULL),
				 0);
		client.ctx->loop.in_callback--;
		rdmamsg__tx_flush(client.ctx);
		WAIT_FOR((server.messages == i && client.sent == i) ||
			 client.closed || server.closed);
		if (client.closed || server.closed)
			fail_msg("turn %u: %s", i, client.closed ?
				 client.why.text : server.why.text);
		assert_int_equal(client.status, 0);
		assert_int_equal(server.invalidated, i);
		assert_memory_equal(client.mem, server.mem, ROOM);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
		T(request__never_larger_than_THE_PORT_CARRIES),
		T(query__completion_queue_AS_GRANTED),
		T(vector__not_given_CONTEXTS_TAKE_TURNS),
		T(vector__none_IS_0),
		T(region_mr__registered_HAS_THE_KEYS),
		T(region__larger_than_the_device_allows_EINVAL),
		T(write__that_cannot_be_posted_ENDS_AT_ONCE),
		T(write__without_a_cookie_FREES_ITS_REGION),
		T(cache__write_without_a_cookie_FREES_ITS_ROOM),
		T(cache__not_let_go_of_IS_TOLD),
		T(write_imm__without_a_buffer_WRITABLE_WITH_ONE),
		T(send__without_a_buffer_WRITABLE_WHEN_ANOTHER_HAS_SENT),
		T(write__from_memory_that_is_refused_OURS),
		T(window_bind__that_fails_OURS),
		T(window_invalidate__that_fails_OURS),
		T(window__changes_behind_reads_ARE_FENCED),
		T(send_invalidate__that_does_not_PROTOCOL),
		T(send_invalidate__as_another_message_PROTOCOL),
		T(send_invalidate__behind_a_read_WAITS_FOR_IT),
	};

	join_own_fabric("rma");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
