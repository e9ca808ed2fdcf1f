/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages with references: one message to many endpoints, freed in any thread,
 * kept beyond the context.
 */
#include "common.h"
#include "thread.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>

#define FAN	16

static struct pair p;

/* ---- one client with FAN endpoints, one server ------------------------- */

static struct hub {
	struct rdmamsg *ctx, *server;
	struct rdmamsg_listener *listener;
	struct rdmamsg_ep_handlers on;
	struct rdmamsg_ep_options opts;
	struct rdmamsg_ep *ep[FAN], *back[FAN];
	unsigned int connected, accepted, closed, arrived, sent;
	size_t len;		/* of the message that must arrive */
	uint32_t tag;
} hub;

static void hub_connected(struct rdmamsg_ep *ep)
{
	if (rdmamsg_ep_ctx(ep) == hub.server)
		hub.back[hub.accepted++] = ep;
	else
		hub.connected++;
}

static void hub_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (rdmamsg_msg_len(msg) != hub.len ||
	    rdmamsg_msg_tag(msg) != hub.tag ||
	    (hub.len && memcmp(rdmamsg_msg_data(msg), pattern(hub.tag),
			       hub.len)))
		note("message %u is wrong", hub.arrived);
	hub.arrived++;
	rdmamsg_msg_free(msg);
}

static void hub_complete(struct rdmamsg_ep *ep, void *cookie, int status)
{
	if (status)
		note("a send ended with %d", status);
	hub.sent++;
}

static void hub_closed(struct rdmamsg_ep *ep,
		       const struct rdmamsg_reason *reason)
{
	hub.closed++;
}

static void hub_open(uint32_t flags)
{
	struct rdmamsg_listen_options listen = {
		.size = sizeof(listen), .ep = &hub.opts,
	};
	char port[8];

	memset(&hub, 0, sizeof(hub));
	hub.on = (struct rdmamsg_ep_handlers){
		.size = sizeof(hub.on), .on_connected = hub_connected,
		.on_message = hub_message, .on_complete = hub_complete,
		.on_closed = hub_closed,
	};
	hub.opts = (struct rdmamsg_ep_options){
		.size = sizeof(hub.opts), .handlers = &hub.on, .flags = flags,
	};
	hub.ctx = test_open(NULL);
	hub.server = test_open(NULL);
	assert_int_equal(rdmamsg_listen(hub.server, test_addr(), "0", &listen,
					&hub.listener), 0);
	listener_service(hub.listener, port);
	for (int i = 0; i < FAN; i++)
		assert_int_equal(rdmamsg_connect(hub.ctx, test_addr(), port,
						 &hub.opts, &hub.ep[i]), 0);
	WAIT_FOR(hub.connected == FAN && hub.accepted == FAN);
}

static void hub_close(void)
{
	for (int i = 0; i < FAN; i++)
		rdmamsg_ep_close(hub.ep[i]);
	WAIT_FOR(hub.closed == 2 * FAN);
	test_close(hub.ctx);
	test_close(hub.server);
}

static struct rdmamsg_stats stats_of(struct rdmamsg *ctx)
{
	struct rdmamsg_stats s = { .size = sizeof(s) };

	assert_int_equal(rdmamsg_get_stats(ctx, &s), 0);
	return s;
}

static struct rdmamsg_msg *message(size_t len, uint32_t tag)
{
	struct rdmamsg_msg *msg;

	assert_int_equal(rdmamsg_msg_alloc(hub.ep[0], len, &msg), 0);
	if (len)
		memcpy(rdmamsg_msg_data(msg), pattern(tag), len);
	hub.len = len;
	hub.tag = tag;
	return msg;
}

static void send_to(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	int ret;

	while ((ret = rdmamsg_msg_send(ep, msg, hub.tag, &hub)) == -EAGAIN)
		test_pump(100);
	if (ret)
		fail_msg("rdmamsg_msg_send: %s", rdmamsg_error());
}

/* ---- one message to all ------------------------------------------------ */

/* The last endpoint has the reference of the caller, unless 'keep'. */
static void fan_out(struct rdmamsg_msg *msg, bool keep)
{
	unsigned int arrived = hub.arrived, sent = hub.sent;

	for (int i = 0; i < FAN; i++) {
		if (keep || i < FAN - 1)
			assert_int_equal(rdmamsg_msg_ref(msg), 0);
		send_to(hub.ep[i], msg);
	}
	WAIT_FOR(hub.arrived == arrived + FAN && hub.sent == sent + FAN);
}

/* Returns true if the endpoint sends the bytes of the message where they are. */
static bool is_in_place(size_t len, uint32_t flags)
{
	struct rdmamsg_ep_attr a = { .size = sizeof(a) };

	assert_int_equal(rdmamsg_ep_query(hub.ep[0], &a), 0);
	return len > a.eager_max || (!flags && !test_iwarp());
}

static void fan_out_one(size_t len, uint32_t tag, uint32_t flags)
{
	uint64_t copied = stats_of(hub.ctx).bytes_copied;

	fan_out(message(len, tag), false);
	assert_int_equal(stats_of(hub.ctx).msgs_lent, 0);
	copied = stats_of(hub.ctx).bytes_copied - copied;
	assert_int_equal(copied, is_in_place(len, flags) ? 0 : FAN * len);
}

static void fan_out_sizes(uint32_t flags)
{
	struct rdmamsg_ep_attr a = { .size = sizeof(a) };

	hub_open(flags);
	assert_int_equal(rdmamsg_ep_query(hub.ep[0], &a), 0);
	const size_t sizes[] = {
		0, 1, a.inline_max, a.inline_max + 1, a.eager_max - 1,
		a.eager_max, a.eager_max + 1, a.pieces_max,
		a.pieces_max + 1, 65536, (1 << 20) + 1,
	};

	for (uint32_t n = 0; n < ARRAY_SIZE(sizes); n++)
		fan_out_one(sizes[n], n + 1, flags);
	hub_close();
}

static void ref__to_16_endpoints_all_sizes_ARRIVES(void **state)
{
	fan_out_sizes(0);
}

static void ref__to_16_endpoints_with_headers_ARRIVES(void **state)
{
	fan_out_sizes(RDMAMSG_EP_FULL_HEADERS);
}

static void ref__to_16_endpoints_with_crc_ARRIVES(void **state)
{
	fan_out_sizes(RDMAMSG_EP_CRC);
}

/* Each endpoint writes a header of its own for such a tag. */
static void ref__long_tag_ARRIVES(void **state)
{
	hub_open(0);
	fan_out(message(1000, 0x12345678), false);
	hub_close();
}

/* The memory of a large message is registered for one peer after another. */
static void ref__sent_again_and_again_ARRIVES(void **state)
{
	struct rdmamsg_msg *msg;

	hub_open(0);
	for (size_t len = 1000; len <= 1000000; len *= 1000) {
		msg = message(len, 3);
		for (int round = 0; round < 3; round++)
			fan_out(msg, true);
		assert_int_equal(stats_of(hub.ctx).msgs_lent, 1);
		rdmamsg_msg_free(msg);
		WAIT_FOR(!stats_of(hub.ctx).msgs_lent);
	}
	hub_close();
}

/* ---- the rules --------------------------------------------------------- */

static void set_len__of_a_shared_message_EBUSY(void **state)
{
	struct rdmamsg_msg *msg;

	hub_open(0);
	msg = message(100, 1);
	assert_int_equal(rdmamsg_msg_ref(msg), 0);
	assert_error(rdmamsg_msg_set_len(msg, 50), -EBUSY, "references");
	send_to(hub.ep[0], msg);
	WAIT_FOR(hub.sent == 1 && hub.arrived == 1);
	/* the other reference is the only one now */
	assert_int_equal(rdmamsg_msg_set_len(msg, 50), 0);
	hub.len = 50;
	send_to(hub.ep[0], msg);
	WAIT_FOR(hub.arrived == 2);
	hub_close();
}

static void pool__destroyed_after_the_last_free_GONE(void **state)
{
	struct rdmamsg_pool *pool;
	struct rdmamsg_msg *msg;

	hub_open(0);
	assert_int_equal(rdmamsg_pool_create(hub.ctx, NULL, &pool), 0);
	assert_int_equal(rdmamsg_pool_alloc(pool, hub.ep[0], 100, &msg), 0);
	assert_int_equal(rdmamsg_msg_ref(msg), 0);
	rdmamsg_msg_free(msg);
	assert_error(rdmamsg_pool_destroy(pool), -EBUSY, "in use");
	rdmamsg_msg_free(msg);
	assert_int_equal(rdmamsg_pool_destroy(pool), 0);
	hub_close();
}

static void ref__NULL_and_message_not_ours_EINVAL(void **state)
{
	struct rdmamsg_msg *msg;

	hub_open(0);
	assert_error(rdmamsg_msg_ref(NULL), -EINVAL, "NULL");
	msg = message(1000, 1);
	send_to(hub.ep[0], msg);
	/* the library has it now, and its buffer does not go away */
	assert_error(rdmamsg_msg_ref(msg), -EINVAL, "not yours");
	WAIT_FOR(hub.arrived == 1);
	hub_close();
}

static void ref__sent_in_another_context_EINVAL(void **state)
{
	struct rdmamsg_msg *msg;

	hub_open(0);
	msg = message(1000, 1);
	assert_int_equal(rdmamsg_msg_ref(msg), 0);
	assert_error(rdmamsg_msg_send(hub.back[0], msg, 1, NULL), -EINVAL,
		     "another context");
	rdmamsg_msg_free(msg);
	rdmamsg_msg_free(msg);
	hub_close();
}

/* ---- passed on --------------------------------------------------------- */

/* Both references go while the message is in the slot of its receive. */
static void echo_twice(struct end *e, struct rdmamsg_msg *msg)
{
	uint32_t tag = rdmamsg_msg_tag(msg);

	if (rdmamsg_msg_ref(msg) ||
	    rdmamsg_msg_send(e->ep, msg, tag, NULL) ||
	    rdmamsg_msg_send(e->ep, msg, tag, NULL))
		note("echo: %s", rdmamsg_error());
}

static void echo(const struct rdmamsg_options *opts, uint32_t flags)
{
	static const size_t sizes[] = { 0, 100, 5000, 12000, 300000 };

	pair_init(&p, opts);
	p.s.then_message = echo_twice;
	p.s.opts.flags = p.c.opts.flags = flags;
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t i = 0; i < 100; i++) {
		size_t len = sizes[i % ARRAY_SIZE(sizes)];

		end_send_all(&p.c, HOW_SENDV, len, i + 1);
		end_expect(&p.c, len, i + 1);
		end_expect(&p.c, len, i + 1);
		WAIT_FOR(p.c.received == 2 * (i + 1));
	}
	WAIT_FOR(!end_stats(&p.s).msgs_lent);
	pair_close(&p);
	pair_fini(&p);
}

static void ref__sent_twice_in_on_message_ARRIVES(void **state)
{
	echo(NULL, 0);
	echo(NULL, RDMAMSG_EP_FULL_HEADERS);
}

static void ref__sent_twice_from_a_shared_queue_ARRIVES(void **state)
{
	static const struct rdmamsg_srq_options srq = { .size = sizeof(srq) };
	struct rdmamsg_options opts = { .size = sizeof(opts), .srq = &srq };

	echo(&opts, 0);
}

/* ---- another thread ---------------------------------------------------- */

/* Frees what it gets, after it has read it. */
static struct freer {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct rdmamsg_msg **queue;
	size_t count, room;
	bool ends;
	unsigned long sum;
} freer;

/* Returns NULL at the end. The caller has no lock. */
static struct rdmamsg_msg *freer_next(void)
{
	struct rdmamsg_msg *msg = NULL;

	pthread_mutex_lock(&freer.lock);
	while (!freer.count && !freer.ends)
		pthread_cond_wait(&freer.more, &freer.lock);
	if (freer.count)
		msg = freer.queue[--freer.count];
	pthread_mutex_unlock(&freer.lock);
	return msg;
}

static void *free_all(void *arg)
{
	struct rdmamsg_msg *msg;

	while ((msg = freer_next())) {
		const uint8_t *data = rdmamsg_msg_data(msg);

		freer.sum += data[0] + data[rdmamsg_msg_len(msg) - 1];
		rdmamsg_msg_free(msg);
	}
	return NULL;
}

static void freer_start(void)
{
	memset(&freer, 0, sizeof(freer));
	pthread_mutex_init(&freer.lock, NULL);
	pthread_cond_init(&freer.more, NULL);
	start_thread(&freer.thread, free_all, NULL);
}

static void freer_give(struct rdmamsg_msg *msg)
{
	pthread_mutex_lock(&freer.lock);
	if (freer.count == freer.room) {
		freer.room = freer.room ? 2 * freer.room : 64;
		freer.queue = realloc(freer.queue,
				      freer.room * sizeof(*freer.queue));
		assert_non_null(freer.queue);
	}
	freer.queue[freer.count++] = msg;
	pthread_cond_signal(&freer.more);
	pthread_mutex_unlock(&freer.lock);
}

static void freer_end(void)
{
	pthread_mutex_lock(&freer.lock);
	freer.ends = true;
	pthread_cond_signal(&freer.more);
	pthread_mutex_unlock(&freer.lock);
	pthread_join(freer.thread, NULL);
	free(freer.queue);
}

/* Both threads have a reference, and either may be the last. */
static void give_and_free(struct end *e, struct rdmamsg_msg *msg)
{
	if (rdmamsg_msg_ref(msg))
		note("rdmamsg_msg_ref: %s", rdmamsg_error());
	freer_give(msg);
	rdmamsg_msg_free(msg);
}

static void free_elsewhere(size_t len, unsigned int count, uint32_t max_lent)
{
	struct rdmamsg_options opts = {
		.size = sizeof(opts), .max_registered = 8 << 20,
	};

	pair_init(&p, &opts);
	p.s.then_message = give_and_free;
	p.s.keep = false;
	p.s.tuning.max_lent = max_lent;
	p.s.opts.max_msg_size = 1 << 20;
	freer_start();
	pair_listen(&p);
	pair_connect(&p);
	for (unsigned int i = 0; i < count; i++)
		end_send_all(&p.c, HOW_SENDV, len, i + 1);
	WAIT_FOR(p.s.received == count);
	freer_end();
	WAIT_FOR(!end_stats(&p.s).msgs_lent);
	pair_close(&p);
	pair_fini(&p);
}

/* The buffers that are back let the peer send more than the limits hold. */
static void free__small_ones_in_another_thread_STALLS_NOBODY(void **state)
{
	free_elsewhere(8000, 5000, 0);
}

static void free__large_ones_in_another_thread_STALLS_NOBODY(void **state)
{
	free_elsewhere(500000, 100, 600000);
}

/* The thread keeps references while the messages are being sent. */
static void free__while_being_sent_ARRIVES(void **state)
{
	hub_open(0);
	freer_start();
	for (unsigned int n = 0; n < 200; n++) {
		struct rdmamsg_msg *msg = message(n % 2 ? 1000 : 100000, n + 1);

		assert_int_equal(rdmamsg_msg_ref(msg), 0);
		freer_give(msg);
		fan_out(msg, false);
	}
	freer_end();
	WAIT_FOR(!stats_of(hub.ctx).msgs_lent);
	hub_close();
}

static struct rdmamsg_msg *passing;

static void *ref_and_free(void *arg)
{
	for (int i = 0; i < 10000; i++) {
		if (rdmamsg_msg_ref(passing))
			note("rdmamsg_msg_ref: %s", rdmamsg_error());
		rdmamsg_msg_free(passing);
	}
	rdmamsg_msg_free(passing);
	return NULL;
}

static void ref__in_4_threads_IS_COUNTED(void **state)
{
	pthread_t threads[4];

	hub_open(0);
	passing = message(1000, 1);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(rdmamsg_msg_ref(passing), 0);
		start_thread(&threads[i], ref_and_free, NULL);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(stats_of(hub.ctx).msgs_lent, 1);
	assert_memory_equal(rdmamsg_msg_data(passing), pattern(1), 1000);
	rdmamsg_msg_free(passing);
	WAIT_FOR(!stats_of(hub.ctx).msgs_lent);
	hub_close();
}

/* ---- beyond the context ------------------------------------------------ */

#define HELD	4

static struct held {
	struct rdmamsg_msg *msg[HELD];
	unsigned int count;
} held;

static const size_t held_sizes[HELD] = { 10, 5000, 12000, 700000 };

static void hold(struct end *e, struct rdmamsg_msg *msg)
{
	if (rdmamsg_msg_ref(msg))
		note("rdmamsg_msg_ref: %s", rdmamsg_error());
	rdmamsg_msg_free(msg);
	held.msg[held.count++] = msg;
}

/* Receives a message of each path, and closes both contexts. */
static void hold_beyond_close(void)
{
	memset(&held, 0, sizeof(held));
	pair_init(&p, NULL);
	p.s.then_message = hold;
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t i = 0; i < HELD; i++)
		end_send_all(&p.c, HOW_SENDV, held_sizes[i], i + 1);
	WAIT_FOR(held.count == HELD);
	pair_close(&p);
	pair_fini(&p);
}

static bool is_mapped(const void *mem)
{
	uintptr_t page = (uintptr_t)mem & ~((uintptr_t)getpagesize() - 1);

	return !msync((void *)page, 1, MS_ASYNC);
}

static void check_held(uint32_t i)
{
	struct rdmamsg_msg *msg = held.msg[i];

	assert_int_equal(rdmamsg_msg_len(msg), held_sizes[i]);
	assert_int_equal(rdmamsg_msg_tag(msg), i + 1);
	assert_memory_equal(rdmamsg_msg_data(msg), pattern(i + 1),
			    held_sizes[i]);
}

static void free__received_after_close_GIVES_THE_MEMORY_BACK(void **state)
{
	const void *mem[HELD];

	hold_beyond_close();
	for (uint32_t i = 0; i < HELD; i++) {
		check_held(i);
		mem[i] = rdmamsg_msg_data(held.msg[i]);
		assert_true(is_mapped(mem[i]));
	}
	for (uint32_t i = 0; i < HELD; i++) {
		check_held(i);
		rdmamsg_msg_free(held.msg[i]);
	}
	for (uint32_t i = 0; i < HELD; i++)
		assert_false(is_mapped(mem[i]));
}

static void ref__after_close_WORKS(void **state)
{
	hold_beyond_close();
	for (uint32_t i = 0; i < HELD; i++) {
		assert_int_equal(rdmamsg_msg_ref(held.msg[i]), 0);
		assert_error(rdmamsg_msg_set_len(held.msg[i], 1), -EBUSY,
			     "references");
		rdmamsg_msg_free(held.msg[i]);
		check_held(i);
		assert_int_equal(rdmamsg_msg_set_len(held.msg[i], 1), 0);
		rdmamsg_msg_free(held.msg[i]);
	}
}

static void send__of_a_message_after_close_EINVAL(void **state)
{
	hold_beyond_close();
	hub_open(0);
	for (uint32_t i = 0; i < HELD; i++) {
		assert_error(rdmamsg_msg_send(hub.ep[0], held.msg[i], 1, NULL),
			     -EINVAL, "another context");
		check_held(i);
		rdmamsg_msg_free(held.msg[i]);
	}
	hub_close();
}

/* Allocated ones, of which two are in one slab with the messages of others. */
static void free__allocated_after_close_GIVES_THE_MEMORY_BACK(void **state)
{
	struct rdmamsg_msg *a, *b, *large, *freed;
	const void *mem, *large_mem;

	hub_open(0);
	large = message(300000, 1);
	a = message(1000, 1);
	freed = message(1000, 1);
	b = message(1000, 1);
	assert_int_equal(rdmamsg_msg_ref(large), 0);
	assert_int_equal(rdmamsg_msg_ref(a), 0);
	assert_int_equal(rdmamsg_msg_ref(b), 0);
	rdmamsg_msg_free(freed);
	hub_close();
	mem = rdmamsg_msg_data(a);
	large_mem = rdmamsg_msg_data(large);
	/* as long as it was, since nobody may send it any more */
	for (int i = 0; i < 2; i++) {
		assert_memory_equal(rdmamsg_msg_data(a), pattern(1), 1000);
		rdmamsg_msg_free(a);
		rdmamsg_msg_free(large);
	}
	assert_true(is_mapped(mem));
	assert_false(is_mapped(large_mem));
	assert_memory_equal(rdmamsg_msg_data(b), pattern(1), 1000);
	rdmamsg_msg_free(b);
	rdmamsg_msg_free(b);
	assert_false(is_mapped(mem));
}

static void *free_held(void *arg)
{
	for (uint32_t i = 0; i < HELD; i++)
		rdmamsg_msg_free(held.msg[i]);
	return NULL;
}

/* Whichever comes first: the context closes, or the other thread frees. */
static void free__beside_close_ENDS_BOTH(void **state)
{
	pthread_t thread;

	for (int round = 0; round < 20; round++) {
		memset(&held, 0, sizeof(held));
		pair_init(&p, NULL);
		p.s.then_message = hold;
		pair_listen(&p);
		pair_connect(&p);
		for (uint32_t i = 0; i < HELD; i++)
			end_send_all(&p.c, HOW_SENDV, held_sizes[i], i + 1);
		WAIT_FOR(held.count == HELD);
		pair_close(&p);
		start_thread(&thread, free_held, NULL);
		pair_fini(&p);
		pthread_join(thread, NULL);
	}
}

/* ---- processes --------------------------------------------------------- */

/* The memory is not there in a child, see rdmamsg(7). */
static int free_in_child(void)
{
	int wrong = 0;

	for (uint32_t i = 0; i < HELD; i++) {
		wrong += rdmamsg_msg_ref(held.msg[i]) != -ECHILD;
		rdmamsg_msg_free(held.msg[i]);
		wrong += rdmamsg_msg_len(held.msg[i]) != held_sizes[i];
	}
	return wrong;
}

static void free__in_a_forked_child_DOES_NOTHING(void **state)
{
	int status;
	pid_t pid;

	hold_beyond_close();
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(free_in_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (uint32_t i = 0; i < HELD; i++) {
		check_held(i);
		rdmamsg_msg_free(held.msg[i]);
	}
}

static struct rdmamsg_msg *late[2];

static void free_late(void)
{
	rdmamsg_msg_free(late[0]);
	rdmamsg_msg_free(late[0]);
}

/* Frees a message when the process exits, and another one never. */
static int exit_holding(int argc, char **argv)
{
	bool closes = *argv[0] == 'c';

	hub_open(0);
	for (int i = 0; i < 2; i++) {
		late[i] = message(i ? 500000 : 100, 1);
		if (rdmamsg_msg_ref(late[i]))
			return 1;
	}
	if (closes)
		hub_close();
	return atexit(free_late);
}

static void exit_with(const char *arg)
{
	struct child c;

	child_start(&c, "exit_holding", arg);
	assert_int_equal(child_wait(&c), 0);
}

static void exit__with_messages_held_IS_CLEAN(void **state)
{
	exit_with("closes");
	exit_with("goes");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(ref__to_16_endpoints_all_sizes_ARRIVES),
		TEST(ref__to_16_endpoints_with_headers_ARRIVES),
		TEST(ref__to_16_endpoints_with_crc_ARRIVES),
		TEST(ref__long_tag_ARRIVES),
		TEST(ref__sent_again_and_again_ARRIVES),
		TEST(set_len__of_a_shared_message_EBUSY),
		TEST(pool__destroyed_after_the_last_free_GONE),
		TEST(ref__NULL_and_message_not_ours_EINVAL),
		TEST(ref__sent_in_another_context_EINVAL),
		TEST(ref__sent_twice_in_on_message_ARRIVES),
		TEST(ref__sent_twice_from_a_shared_queue_ARRIVES),
		TEST(free__small_ones_in_another_thread_STALLS_NOBODY),
		TEST(free__large_ones_in_another_thread_STALLS_NOBODY),
		TEST(free__while_being_sent_ARRIVES),
		TEST(ref__in_4_threads_IS_COUNTED),
		TEST(free__received_after_close_GIVES_THE_MEMORY_BACK),
		TEST(ref__after_close_WORKS),
		TEST(send__of_a_message_after_close_EINVAL),
		TEST(free__allocated_after_close_GIVES_THE_MEMORY_BACK),
		TEST(free__beside_close_ENDS_BOTH),
		TEST(free__in_a_forked_child_DOES_NOTHING),
		TEST(exit__with_messages_held_IS_CLEAN),
	};
	static const struct role roles[] = {
		{ "exit_holding", exit_holding }, { NULL },
	};

	return test_main(tests, roles, argc, argv);
}
