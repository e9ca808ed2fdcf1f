/* SPDX-License-Identifier: BSD-2-Clause */
/* Pools of the program: messages from them, and endpoints that use them. */
#include "common.h"

#include <rdmamsg/memory.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#define MB	((size_t)1 << 20)

static struct pair p;

static struct rdmamsg_pool_stats stats(const struct rdmamsg_pool *pool)
{
	struct rdmamsg_pool_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_pool_get_stats(pool, &st), 0);
	return st;
}

static struct rdmamsg_pool *create(struct rdmamsg *ctx, uint32_t flags,
				   size_t max_bytes)
{
	struct rdmamsg_pool_options o = {
		.size = sizeof(o), .flags = flags,
		.max_bytes = max_bytes,
	};
	struct rdmamsg_pool *pool;

	assert_int_equal(rdmamsg_pool_create(ctx, &o, &pool), 0);
	return pool;
}

static void send_from(struct rdmamsg_pool *pool, size_t len, uint32_t tag)
{
	struct rdmamsg_msg *msg;

	assert_int_equal(rdmamsg_pool_alloc(pool, p.c.ep, len, &msg), 0);
	assert_int_equal(rdmamsg_msg_len(msg), len);
	memcpy(rdmamsg_msg_data(msg), pattern(tag), len);
	end_expect(&p.s, len, tag);
	assert_int_equal(rdmamsg_msg_send(p.c.ep, msg, tag, NULL), 0);
}

/*
 * Acknowledged messages come back when the library reads the next completion.
 */
static void wait_unused(struct rdmamsg_pool *pool)
{
	struct cookie *c = end_cookie(&p.c);

	end_expect(&p.s, 1, 99);
	assert_int_equal(rdmamsg_send(p.c.ep, pattern(99), 1, 99, c), 0);
	p.c.sent++;
	WAIT_FOR(stats(pool).used == 0);
}

static void options__out_of_range_EINVAL(void **state)
{
	struct rdmamsg *ctx = test_open(NULL), *other = test_open(NULL);
	struct rdmamsg_pool_options o = { .size = sizeof(o), .flags = 4 };
	struct rdmamsg_ep_options e = { .size = sizeof(e) };
	struct rdmamsg_pool_stats st = { .size = 0 };
	struct rdmamsg_pool *pool;
	struct rdmamsg_srq *srq;
	struct rdmamsg_ep *ep;

	assert_error(rdmamsg_pool_create(ctx, &o, &pool), -EINVAL, "flags");
	o.flags = RDMAMSG_POOL_NODE;
	o.node = 1024;
	assert_error(rdmamsg_pool_create(ctx, &o, &pool), -EINVAL, "node");
	assert_error(rdmamsg_pool_create(ctx, NULL, NULL), -EINVAL, "NULL");
	assert_error(rdmamsg_pool_create(NULL, NULL, &pool), -EINVAL, "NULL");
	assert_int_equal(rdmamsg_pool_destroy(NULL), 0);
	assert_int_equal(rdmamsg_pool_create(ctx, NULL, &pool), 0);
	assert_error(rdmamsg_pool_get_stats(pool, &st), -EINVAL, "struct");
	assert_error(rdmamsg_pool_get_stats(NULL, &st), -EINVAL, "NULL");
	e.send_pool = pool;
	assert_error(rdmamsg_connect(other, test_addr(), "1", &e, &ep), -EINVAL,
		     "another context");
	assert_int_equal(rdmamsg_srq_create(ctx, NULL, &srq), 0);
	e.recv_pool = pool;
	e.srq = srq;
	assert_error(rdmamsg_connect(ctx, test_addr(), "1", &e, &ep), -EINVAL,
		     "recv_pool");
	assert_int_equal(rdmamsg_pool_destroy(pool), 0);
}

static void alloc__every_size_ARRIVES(void **state)
{
	const size_t sizes[] = { 0, 1, 240, 241, 8176, 8177, MB, 3 * MB };
	struct rdmamsg_pool *pool;
	uint64_t bytes;

	pair_open(&p);
	pool = create(p.c.ctx, 0, 0);
	for (uint32_t i = 0; i < ARRAY_SIZE(sizes); i++)
		send_from(pool, sizes[i], i);
	WAIT_FOR(p.s.received == ARRAY_SIZE(sizes));
	wait_unused(pool);
	bytes = stats(pool).bytes;
	assert_true(stats(pool).buffers >= 4);
	/* the library copies only small messages, which are cheaper inline */
	send_from(pool, MB, 20);
	assert_int_equal(end_stats(&p.c).bytes_copied, 0);
	assert_int_equal(stats(pool).bytes, bytes);
	WAIT_FOR(p.s.received == ARRAY_SIZE(sizes) + 2);
	wait_unused(pool);
	assert_int_equal(rdmamsg_pool_destroy(pool), 0);
	pair_close(&p);
	pair_fini(&p);
}

static void alloc__without_a_connection_ENOTCONN(void **state)
{
	struct rdmamsg *other = test_open(NULL);
	struct rdmamsg_pool *pool, *theirs;
	struct rdmamsg_msg *msg;

	pair_open(&p);
	pool = create(p.c.ctx, 0, 0);
	theirs = create(other, 0, 0);
	assert_error(rdmamsg_pool_alloc(pool, NULL, 1, &msg), -EINVAL, "NULL");
	assert_error(rdmamsg_pool_alloc(NULL, p.c.ep, 1, &msg), -EINVAL,
		     "NULL");
	assert_error(rdmamsg_pool_alloc(pool, p.c.ep, 1, NULL), -EINVAL,
		     "NULL");
	assert_error(rdmamsg_pool_alloc(theirs, p.c.ep, 1, &msg), -EINVAL,
		     "another context");
	assert_error(rdmamsg_pool_alloc(pool, p.c.ep,
					(size_t)RDMAMSG_MSG_MAX + 1, &msg),
		     -EMSGSIZE, "at most");
	rdmamsg_ep_close(p.c.ep);
	assert_error(rdmamsg_pool_alloc(pool, p.c.ep, 1, &msg), -ESHUTDOWN,
		     "closing or closed");
	WAIT_FOR(p.c.closed && p.s.closed);
	pair_fini(&p);
}

/*
 * A full pool gives -EAGAIN and on_writable. If other sizes fill it, -ENOBUFS.
 */
static void cap__reached_RECOVERS(void **state)
{
	struct rdmamsg_msg *msgs[4096], *msg;
	struct rdmamsg_pool *pool;
	size_t n = 0;
	int err;

	pair_open(&p);
	pool = create(p.c.ctx, 0, MB);
	while (!(err = rdmamsg_pool_alloc(pool, p.c.ep, 4000, &msgs[n])))
		assert_true(++n < ARRAY_SIZE(msgs));
	assert_int_equal(err, -EAGAIN);
	assert_int_equal(n, MB / 4096);
	assert_int_equal(stats(pool).bytes, MB);
	assert_int_equal(stats(pool).used, n);
	assert_int_equal(stats(pool).refused, 1);
	assert_error(rdmamsg_pool_alloc(pool, p.c.ep, 100, &msg), -ENOBUFS,
		     "max_bytes");
	assert_error(rdmamsg_pool_destroy(pool), -EBUSY, "in use");
	p.c.writable = 0;
	rdmamsg_msg_free(msgs[--n]);
	WAIT_FOR(p.c.writable);
	assert_int_equal(rdmamsg_pool_alloc(pool, p.c.ep, 4000, &msgs[n]), 0);
	for (n++; n;)
		rdmamsg_msg_free(msgs[--n]);
	assert_int_equal(rdmamsg_pool_destroy(pool), 0);
	pair_close(&p);
	pair_fini(&p);
}

/*
 * The message takes the last buffer and has no cookie. No later message can
 * confirm its arrival.
 */
static void cap__last_one_sent_COMES_BACK(void **state)
{
	struct rdmamsg_pool *pool;
	struct rdmamsg_msg *msg;
	int err;

	pair_init(&p, NULL);
	p.c.tuning.eager_max = p.s.tuning.eager_max = 200000;
	p.c.tuning.recv_depth = p.s.tuning.recv_depth = 4;
	/* no keepalive and no timer sends anything */
	p.c.opts.dead_after_ms = p.c.tuning.stall_after_ms = RDMAMSG_NONE;
	p.c.tuning.fetch_timeout_ms = RDMAMSG_NONE;
	pair_listen(&p);
	pair_connect(&p);
	pool = create(p.c.ctx, 0, MB / 4);
	for (uint32_t i = 0; i < 10; i++) {
		p.c.writable = 0;
		send_from(pool, 100000, i);
		WAIT_FOR(p.s.received == i + 1);
		err = rdmamsg_pool_alloc(pool, p.c.ep, 100000, &msg);
		if (err) {
			assert_int_equal(err, -EAGAIN);
			WAIT_FOR(p.c.writable && !stats(pool).used);
		} else {
			rdmamsg_msg_free(msg);
		}
	}
	assert_int_equal(stats(pool).bytes, MB / 4);
	pair_close(&p);
	pair_fini(&p);
}

/* Unused buffers of one size make room for another size. */
static void cap__of_other_sizes_unused_GO(void **state)
{
	struct rdmamsg_msg *msg, *kept;
	struct rdmamsg_pool *pool;

	pair_open(&p);
	pool = create(p.c.ctx, 0, MB + MB / 2);
	assert_int_equal(rdmamsg_pool_alloc(pool, p.c.ep, 4000, &kept), 0);
	/* 256 KB are in use, so that 512 KB and 1 MB do not fit together */
	for (uint32_t i = 0; i < 6; i++) {
		assert_int_equal(rdmamsg_pool_alloc(pool, p.c.ep,
						    (i % 2 ? MB : MB / 2) - 16,
						    &msg), 0);
		rdmamsg_msg_free(msg);
		assert_true(stats(pool).bytes <= MB + MB / 2);
	}
	assert_int_equal(stats(pool).refused, 0);
	/* a request beyond the cap frees nothing */
	assert_int_equal(stats(pool).bytes, MB / 4 + MB);
	assert_error(rdmamsg_pool_alloc(pool, p.c.ep, 2 * MB - 16, &msg),
		     -ENOBUFS, "max_bytes");
	assert_int_equal(stats(pool).bytes, MB / 4 + MB);
	rdmamsg_msg_free(kept);
	assert_int_equal(rdmamsg_pool_destroy(pool), 0);
	pair_close(&p);
	pair_fini(&p);
}

/* Endpoints use a pool up to its cap, not only in whole batches. */
static void cap__less_than_a_batch_left_IS_USED(void **state)
{
	struct rdmamsg_pool *pool;
	uint32_t n = 0;

	pair_init(&p, NULL);
	p.c.tuning.eager_max = p.s.tuning.eager_max = 60000;
	/* the pool has sixteen buffers of 64 KB, half a batch */
	pool = create(p.c.ctx, 0, MB);
	p.c.opts.send_pool = pool;
	pair_listen(&p);
	pair_connect(&p);
	while (!end_send(&p.c, HOW_SEND, 60000, n))
		n++;
	assert_int_equal(stats(pool).bytes, MB);
	/* SETUP may still hold one buffer */
	assert_true(n >= 15);
	WAIT_FOR(p.s.received == n && p.c.writable);
	pair_close(&p);
	pair_fini(&p);
}

/* The counters name the kind of pages. The pool works with any kind. */
static void pages__huge_and_of_a_node_OR_PLAIN(void **state)
{
	struct rdmamsg_pool *pool;
	struct rdmamsg_pool_stats st;

	pair_open(&p);
	pool = create(p.c.ctx, RDMAMSG_POOL_HUGE | RDMAMSG_POOL_NODE, 0);
	send_from(pool, 5000, 1);
	send_from(pool, 5 * MB, 2);
	WAIT_FOR(p.s.received == 2);
	st = stats(pool);
	assert_int_equal(st.bytes % (2 * MB), 0);
	assert_true(st.bytes_huge + st.bytes_advised <= st.bytes);
	assert_true(st.bytes_node <= st.bytes);
	wait_unused(pool);
	assert_int_equal(rdmamsg_pool_destroy(pool), 0);
	pair_close(&p);
	pair_fini(&p);
}

static void endpoint__with_three_pools_USES_THEM(void **state)
{
	struct rdmamsg_pool *recv, *send, *ctrl;
	uint64_t before;

	pair_init(&p, NULL);
	recv = create(p.c.ctx, 0, 0);
	send = create(p.c.ctx, 0, 0);
	ctrl = create(p.c.ctx, 0, 0);
	p.c.opts.recv_pool = recv;
	p.c.opts.send_pool = send;
	p.c.tuning.ctrl_pool = ctrl;
	pair_listen(&p);
	pair_connect(&p);
	before = stats(recv).used;
	assert_true(before >= 64);
	assert_true(stats(send).buffers && stats(ctrl).buffers);
	for (uint32_t i = 0; i < 30; i++) {
		enum how how = i % 2 ? HOW_SENDV : HOW_MSG;

		end_send_all(&p.c, how, mixed_size(i), i);
		end_send_all(&p.s, how, mixed_size(i), i);
	}
	WAIT_FOR(p.s.received == 30 && p.c.received == 30);
	assert_error(rdmamsg_pool_destroy(recv), -EBUSY, "endpoints");
	pair_close(&p);
	assert_int_equal(stats(recv).used, 0);
	assert_int_equal(rdmamsg_pool_destroy(recv), 0);
	assert_int_equal(rdmamsg_pool_destroy(send), 0);
	assert_int_equal(rdmamsg_pool_destroy(ctrl), 0);
	pair_fini(&p);
}

static void endpoint__beyond_the_cap_IS_REFUSED(void **state)
{
	pair_init(&p, NULL);
	p.c.opts.recv_pool = create(p.c.ctx, 0, 300000);
	pair_listen(&p);
	assert_int_equal(rdmamsg_connect(p.c.ctx, test_addr(), p.port,
					 &p.c.opts, &p.c.ep), 0);
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_RESOURCES);
	assert_non_null(strstr(p.c.why.text, "max_bytes"));
	pair_fini(&p);
}

/* ---- large messages ---------------------------------------------------- */

/* The receiver has the pool, and a large message stays in its buffer. */
static void large_pair(size_t max_bytes)
{
	pair_init(&p, NULL);
	p.s.opts.recv_pool = create(p.s.ctx, 0, max_bytes);
	p.s.tuning.recv_depth = 8;
	pair_listen(&p);
	pair_connect(&p);
}

static void large__fits_READ_INTO_THE_POOL(void **state)
{
	const struct rdmamsg_pool *pool;
	uint64_t before;

	large_pair(0);
	pool = p.s.opts.recv_pool;
	before = stats(pool).buffers;
	for (uint32_t i = 0; i < 20; i++)
		end_send_all(&p.c, HOW_SENDV, 300000 + i, i);
	WAIT_FOR(p.s.received == 20);
	assert_int_equal(stats(pool).received_rendezvous, 20);
	assert_int_equal(end_stats(&p.s).received_rendezvous, 20);
	assert_true(stats(pool).buffers > before);
	pair_close(&p);
	assert_int_equal(stats(pool).used, 0);
	assert_int_equal(rdmamsg_pool_destroy(p.s.opts.recv_pool), 0);
	pair_fini(&p);
}

/* The pool has room for receives and small slabs, not for the message. */
static void large__beyond_the_cap_READ_ELSEWHERE(void **state)
{
	const struct rdmamsg_pool *pool;

	large_pair(MB);
	pool = p.s.opts.recv_pool;
	/* first too large for the cap, then for the room that is left */
	end_send_all(&p.c, HOW_SENDV, 2 * MB, 0);
	end_send_all(&p.c, HOW_SENDV, MB / 2, 1);
	end_send_all(&p.c, HOW_SENDV, MB / 2, 2);
	WAIT_FOR(p.s.received == 3);
	assert_int_equal(stats(pool).received_rendezvous, 0);
	assert_true(stats(pool).bytes <= MB);
	pair_close(&p);
	pair_fini(&p);
}

/* Sends until the server, which keeps all messages, accepts no more. */
static void send_until_full(void)
{
	while (!end_send(&p.c, HOW_SEND, 100, 1)) {
		WAIT_FOR(p.c.sent_ok + 1 >= p.c.sent);
		test_drive(p.s.ctx);
		test_drive(p.c.ctx);
	}
}

/* The server's pool fills up first, then its context. Later messages wait. */
static void large__pool_is_full_WAITS(void **state)
{
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .max_registered = 3 * MB,
		.max_send_registered = MB,
	};
	const struct rdmamsg_pool *pool;

	pair_init(&p, &opts);
	/* the receives take 320 KB, a message with its header 512 KB */
	p.s.opts.recv_pool = create(p.s.ctx, 0, MB);
	p.s.tuning.recv_depth = 8;
	p.s.keep = true;
	pool = p.s.opts.recv_pool;
	pair_listen(&p);
	pair_connect(&p);
	end_send_all(&p.c, HOW_SENDV, MB / 2 - 16, 0);
	WAIT_FOR(p.s.received == 1);
	assert_int_equal(stats(pool).received_rendezvous, 1);
	end_send_all(&p.c, HOW_SENDV, MB / 2 - 16, 1);
	WAIT_FOR(p.s.received == 2);
	assert_int_equal(stats(pool).refused, 1);
	end_send_all(&p.c, HOW_SENDV, MB / 2 - 16, 2);
	send_until_full();
	assert_int_equal(p.s.received, 2);
	p.s.keep = false;
	end_release(&p.s);
	WAIT_FOR(p.s.received == p.s.expected_count);
	assert_true(stats(pool).received_rendezvous > 1);
	assert_int_equal(p.c.sent_failed, 0);
	pair_close(&p);
	pair_fini(&p);
}

/* Alternates between two sizes that do not fit into the pool together. */
static void large__of_other_sizes_unused_GO(void **state)
{
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .max_registered = 9 * MB,
		.max_send_registered = MB,
	};
	const struct rdmamsg_pool *pool;

	pair_init(&p, &opts);
	p.s.opts.recv_pool = create(p.s.ctx, 0, 0);
	p.s.tuning.recv_depth = 8;
	pool = p.s.opts.recv_pool;
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t i = 0; i < 6; i++) {
		end_send_all(&p.c, HOW_SENDV, i % 2 ? 3 * MB : MB + MB / 2, i);
		WAIT_FOR(p.c.sent_ok == i + 1 || p.c.sent_failed);
		assert_int_equal(p.c.sent_failed, 0);
		WAIT_FOR(p.s.received == i + 1);
		assert_int_equal(stats(pool).received_rendezvous, i + 1);
	}
	assert_int_equal(stats(pool).refused, 0);
	pair_close(&p);
	assert_int_equal(rdmamsg_pool_destroy(p.s.opts.recv_pool), 0);
	pair_fini(&p);
}

/* Messages of the program stay, and freeing unused slabs makes room. */
static void alloc__of_other_sizes_unused_GO(void **state)
{
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .max_registered = 16 * MB,
		.max_send_registered = 4 * MB + MB / 2,
	};
	struct rdmamsg_msg *kept, *msg;
	struct rdmamsg_pool *pool;

	pair_init(&p, &opts);
	pair_listen(&p);
	pair_connect(&p);
	pool = create(p.c.ctx, 0, 0);
	assert_int_equal(rdmamsg_pool_alloc(pool, p.c.ep, MB - 16, &kept), 0);
	assert_int_equal(rdmamsg_pool_alloc(pool, p.c.ep, MB - 16, &msg), 0);
	rdmamsg_msg_free(msg);
	memcpy(rdmamsg_msg_data(kept), pattern(1), MB - 16);
	assert_int_equal(stats(pool).bytes, 2 * MB);
	/* large messages from the library's own memory have the same limit */
	assert_int_equal(rdmamsg_msg_alloc(p.c.ep, 2 * MB, &msg), 0);
	rdmamsg_msg_free(msg);
	assert_int_equal(rdmamsg_pool_alloc(pool, p.c.ep, 2 * MB - 16, &msg),
			 0);
	assert_int_equal(rdmamsg_msg_alloc(p.c.ep, 2 * MB, &msg), -EAGAIN);
	assert_memory_equal(rdmamsg_msg_data(kept), pattern(1), MB - 16);
	end_expect(&p.s, MB - 16, 1);
	assert_int_equal(rdmamsg_msg_send(p.c.ep, kept, 1, NULL), 0);
	WAIT_FOR(p.s.received == 1);
	pair_close(&p);
	pair_fini(&p);
}

static struct rdmamsg_pool *tiny;
static unsigned int tries;

/* Takes and frees a message, which makes no room for the next request. */
static void take_one(struct end *e)
{
	struct rdmamsg_msg *msg;

	tries++;
	if (!rdmamsg_pool_alloc(tiny, e->ep, 1000, &msg))
		rdmamsg_msg_free(msg);
	if (!rdmamsg_msg_alloc(e->ep, 1000, &msg))
		rdmamsg_msg_free(msg);
}

static void alloc__at_the_cap_from_on_writable_DOES_NOT_SPIN(void **state)
{
	struct rdmamsg_msg *msgs[1024];
	size_t n = 0;

	pair_init(&p, NULL);
	p.c.then_writable = take_one;
	pair_listen(&p);
	pair_connect(&p);
	tiny = create(p.c.ctx, 0, 256 << 10);
	while (!rdmamsg_pool_alloc(tiny, p.c.ep, 1000, &msgs[n]))
		assert_true(++n < ARRAY_SIZE(msgs));
	tries = 0;
	end_send_all(&p.c, HOW_SEND, 3000, 1);
	take_one(&p.c);
	/* on_writable comes once in each call at most */
	for (int i = 0; i < 20; i++)
		test_pump(20);
	assert_in_range(tries, 2, 21);
	rdmamsg_msg_free(msgs[--n]);
	WAIT_FOR(p.c.writable);
	while (n)
		rdmamsg_msg_free(msgs[--n]);
	WAIT_FOR(p.s.received == 1);
	pair_close(&p);
	pair_fini(&p);
}

/* Missing receives count once, until the pool has enough of them. */
static void receives__missing_COUNT_ONCE(void **state)
{
	const struct rdmamsg_pool *pool;

	pair_init(&p, NULL);
	p.s.opts.recv_pool = create(p.s.ctx, 0, 320 << 10);
	p.s.tuning.recv_depth = 8;
	pool = p.s.opts.recv_pool;
	pair_listen(&p);
	pair_connect(&p);
	for (uint64_t i = 1; i < 3; i++) {
		p.s.keep = true;
		send_until_full();
		assert_int_equal(stats(pool).refused, i);
		p.s.keep = false;
		end_release(&p.s);
		/* the pool has enough buffers again */
		end_send_all(&p.c, HOW_SEND, 100, 1);
		WAIT_FOR(p.s.received == p.s.expected_count);
	}
	pair_close(&p);
	pair_fini(&p);
}

/* The program keeps what arrives, until less than a batch of room is left. */
static void receives__less_than_a_batch_left_ARE_POSTED(void **state)
{
	const struct rdmamsg_pool *pool;

	pair_init(&p, NULL);
	p.s.tuning.eager_max = p.c.tuning.eager_max = 60000;
	p.s.tuning.recv_depth = 128;
	/* 160 receives of 64 KB, and room for sixteen more */
	p.s.opts.recv_pool = create(p.s.ctx, 0, 11 * MB);
	pool = p.s.opts.recv_pool;
	p.s.keep = true;
	pair_listen(&p);
	pair_connect(&p);
	assert_int_equal(stats(pool).bytes, 10 * MB);
	send_until_full();
	assert_int_equal(stats(pool).bytes, 11 * MB);
	p.s.keep = false;
	end_release(&p.s);
	WAIT_FOR(p.s.received == p.s.expected_count);
	pair_close(&p);
	pair_fini(&p);
}

static uint8_t place[400000];

static int into_place(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
		      struct rdmamsg_buffer *dst)
{
	dst->data = place;
	return 0;
}

static void large__on_incoming_GOES_BEFORE(void **state)
{
	pair_init(&p, NULL);
	p.s.opts.recv_pool = create(p.s.ctx, 0, 0);
	p.s.on.on_incoming = into_place;
	pair_listen(&p);
	pair_connect(&p);
	end_send_all(&p.c, HOW_SENDV, 300000, 0);
	WAIT_FOR(p.s.received == 1);
	assert_memory_equal(place, pattern(0), 300000);
	assert_int_equal(stats(p.s.opts.recv_pool).received_rendezvous, 0);
	pair_close(&p);
	pair_fini(&p);
}

/* ---- after release ---------------------------------------------------- */

#ifdef __SANITIZE_ADDRESS__
static void free_and_look(struct end *e, struct rdmamsg_msg *msg)
{
	void *data = rdmamsg_msg_data(msg);

	rdmamsg_msg_free(msg);
	if (!__asan_address_is_poisoned(data))
		note("a message freed in its callback can be touched");
}

static void release__in_the_callback_CANNOT_BE_TOUCHED(void **state)
{
	pair_init(&p, NULL);
	p.s.then_message = free_and_look;
	pair_listen(&p);
	pair_connect(&p);
	/* use each slot more than once */
	for (uint32_t i = 0; i < 300; i++)
		end_send_all(&p.c, HOW_SEND, 100, i);
	WAIT_FOR(p.s.received == 300);
	pair_close(&p);
	pair_fini(&p);
}
#endif

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(options__out_of_range_EINVAL),
		TEST(alloc__every_size_ARRIVES),
		TEST(alloc__without_a_connection_ENOTCONN),
		TEST(cap__reached_RECOVERS),
		TEST(cap__last_one_sent_COMES_BACK),
		TEST(cap__of_other_sizes_unused_GO),
		TEST(cap__less_than_a_batch_left_IS_USED),
		TEST(pages__huge_and_of_a_node_OR_PLAIN),
		TEST(endpoint__with_three_pools_USES_THEM),
		TEST(endpoint__beyond_the_cap_IS_REFUSED),
		TEST(large__fits_READ_INTO_THE_POOL),
		TEST(large__beyond_the_cap_READ_ELSEWHERE),
		TEST(large__pool_is_full_WAITS),
		TEST(large__of_other_sizes_unused_GO),
		TEST(alloc__of_other_sizes_unused_GO),
		TEST(alloc__at_the_cap_from_on_writable_DOES_NOT_SPIN),
		TEST(receives__missing_COUNT_ONCE),
		TEST(receives__less_than_a_batch_left_ARE_POSTED),
		TEST(large__on_incoming_GOES_BEFORE),
#ifdef __SANITIZE_ADDRESS__
		TEST(release__in_the_callback_CANNOT_BE_TOUCHED),
#endif
	};

	return test_main(tests, NULL, argc, argv);
}
