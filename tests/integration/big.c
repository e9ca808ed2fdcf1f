/* SPDX-License-Identifier: BSD-2-Clause */
/* The largest message, and one byte more. The test takes a while. */
#include "common.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define BIG		((size_t)RDMAMSG_MSG_MAX)
#define BIG_SECONDS	1500	/* bound for the whole test */
#define TAG		4711

/* Every 8 bytes contain their position. */
static uint64_t word_at(size_t i)
{
	return (i + 1) * 0x9e3779b97f4a7c15u;
}

static void *big_memory(void)
{
	/* one more page for the message that is too large */
	void *mem = mmap(NULL, BIG + 1, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		fail_msg("no memory: run it with -m 8192");
	return mem;
}

static void fill(uint64_t *mem)
{
	for (size_t i = 0; i < (BIG + 1) / 8; i++)
		mem[i] = word_at(i);
}

/* Returns the index of the first wrong byte, or BIG. */
static size_t check(const uint8_t *mem)
{
	const uint64_t *words = (const uint64_t *)mem;
	uint64_t last = word_at(BIG / 8);

	for (size_t i = 0; i < BIG / 8; i++)
		if (words[i] != word_at(i))
			return i * 8;
	return memcmp(mem + BIG / 8 * 8, &last, BIG % 8) ? BIG / 8 * 8 : BIG;
}

/* ---- the sender: a child ---------------------------------------------- */

static void wait_until(struct end *e, const size_t *count, size_t goal)
{
	while (*count < goal && !e->closed)
		test_pump(1000);
	if (*count < goal)
		note("closed: %s", e->why.text);
}

static int role_sender(int argc, char **argv)
{
	uint8_t *mem = big_memory();
	struct end e;
	struct iovec iov = { mem, BIG };
	struct rdmamsg_stats s;
	int ret;

	alarm(BIG_SECONDS);
	fill((uint64_t *)mem);
	end_init(&e, "sender", test_open(NULL));
	e.opts.close_timeout_ms = BIG_SECONDS * 1000;
	if (rdmamsg_connect(e.ctx, test_addr(), argv[0], &e.opts, &e.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	while (!e.connected && !e.closed)
		test_pump(1000);
	if (e.closed)
		fail_msg("not connected: %s", e.why.text);

	ret = rdmamsg_sendv(e.ep, &iov, 1, TAG, end_cookie(&e));
	if (ret)
		fail_msg("rdmamsg_sendv: %s", rdmamsg_error());
	wait_until(&e, &e.sent_ok, 1);
	s = end_stats(&e);
	if (s.bytes_copied || s.sent_rendezvous != 1 || s.bytes_sent != BIG)
		note("%llu copied, %llu by rendezvous, %llu bytes",
		     (unsigned long long)s.bytes_copied,
		     (unsigned long long)s.sent_rendezvous,
		     (unsigned long long)s.bytes_sent);
	say("sent\n");
	rdmamsg_ep_close(e.ep);
	while (!e.closed)
		test_pump(1000);
	if (e.why.cause != RDMAMSG_CAUSE_CLOSED)
		note("closed: %s", e.why.text);
	return 0;
}

static const struct role roles[] = { { "sender", role_sender }, { NULL } };

/* ---- the receiver ----------------------------------------------------- */

static struct pair p;
static uint8_t *own;
static uint64_t began;

static void progress(const char *what)
{
	printf("  %3u s: %s\n", (unsigned int)(now_ms() - began) / 1000, what);
}

static int take_own(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
		    struct rdmamsg_buffer *dst)
{
	progress("announced");
	dst->data = own;
	return 0;
}

static int take_default(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
			struct rdmamsg_buffer *dst)
{
	progress("announced");
	return 0;
}

static void check_big(struct end *e, struct rdmamsg_msg *msg)
{
	size_t good;

	progress("arrived");
	if (own && rdmamsg_msg_data(msg) != own)
		note("it is in other memory");
	if (rdmamsg_msg_len(msg) != BIG || rdmamsg_msg_tag(msg) != TAG) {
		note("%zu bytes, tag %u", rdmamsg_msg_len(msg),
		     rdmamsg_msg_tag(msg));
	} else {
		good = check(rdmamsg_msg_data(msg));
		if (good != BIG)
			note("wrong from byte %zu on", good);
		progress("checked");
	}
	rdmamsg_msg_free(msg);
}

static void receive(const char *where)
{
	/* the library's own memory has a lower limit */
	struct rdmamsg_options opts = {
		.size = sizeof(opts), .max_registered = (size_t)6 << 30,
	};
	struct rdmamsg_stats s;
	struct child child;
	char line[64];

	alarm(BIG_SECONDS);
	began = now_ms();
	printf("  one message of %zu bytes into %s memory\n", BIG, where);
	pair_init(&p, own ? NULL : &opts);
	p.s.expect_nothing = true;
	p.s.then_message = check_big;
	p.s.on.on_incoming = own ? take_own : take_default;
	p.s.opts.close_timeout_ms = BIG_SECONDS * 1000;
	p.s.opts.max_msg_size = RDMAMSG_MSG_MAX;
	pair_listen(&p);
	child_start(&child, "sender", p.port);
	/* the child fills its memory before */
	while (!p.s.connected && !p.s.closed)
		test_pump(1000);
	assert_false(p.s.closed);
	progress("connected");
	while (!p.s.received && !p.s.closed)
		test_pump(1000);
	check_notes();
	assert_int_equal(p.s.received, 1);
	s = end_stats(&p.s);
	assert_int_equal(s.bytes_copied, 0);
	assert_int_equal(s.bytes_received, BIG);
	assert_int_equal(s.received_rendezvous, 1);
	child_line(&child, line, sizeof(line));
	assert_string_equal(line, "sent");
	WAIT_FOR(p.s.closed);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(child_wait(&child), 0);
	progress("closed");
	pair_fini(&p);
}

static void big__into_own_memory_ARRIVES(void **state)
{
	own = big_memory();
	receive("its own");
	munmap(own, BIG + 1);
	own = NULL;
}

static void big__into_the_librarys_memory_ARRIVES(void **state)
{
	receive("the library's");
}

/* The call reads none of these bytes, so none needs to exist. */
static void big__one_byte_more_EMSGSIZE(void **state)
{
	const struct rdmamsg_options room = {
		.size = sizeof(room), .max_registered = 8ull << 30,
	};
	static char byte;
	struct rdmamsg_msg *msg;
	struct iovec two[2] = { { &byte, BIG }, { &byte, 1 } };
	struct iovec one = { &byte, BIG + 1 };
	struct iovec wraps[2] = { { &byte, SIZE_MAX }, { &byte, 2 } };

	pair_init(&p, &room);
	p.s.opts.max_msg_size = RDMAMSG_MSG_MAX;
	pair_listen(&p);
	pair_connect(&p);
	assert_int_equal(end_info(&p.c).max_send, BIG);
	assert_error(rdmamsg_sendv(p.c.ep, two, 2, 0, NULL), -EMSGSIZE,
		     "at most");
	assert_error(rdmamsg_sendv(p.c.ep, &one, 1, 0, NULL), -EMSGSIZE,
		     "at most");
	assert_error(rdmamsg_sendv(p.c.ep, wraps, 2, 0, NULL), -EMSGSIZE,
		     "at most");
	assert_error(rdmamsg_send(p.c.ep, &byte, BIG + 1, 0, NULL), -EMSGSIZE,
		     "max_copy");
	assert_error(rdmamsg_send_wait(p.c.ep, &byte, BIG + 1, 0, WAIT_MS),
		     -EMSGSIZE, "at most");
	assert_error(rdmamsg_msg_alloc(p.c.ep, BIG + 1, &msg), -EMSGSIZE,
		     "at most");
	end_send_all(&p.c, HOW_SENDV, 10, 1);
	pair_close(&p);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(big__one_byte_more_EMSGSIZE),
		TEST(big__into_own_memory_ARRIVES),
		TEST(big__into_the_librarys_memory_ARRIVES),
	};

	return test_main(tests, roles, argc, argv);
}
