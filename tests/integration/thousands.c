/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thousands of endpoints in one context: a server in this process, and all its
 * clients in one child. Each side has one shared receive queue. Most endpoints
 * are idle while some are active, and afterwards each of them passes a message.
 */
#define _GNU_SOURCE
#include "common.h"

#include <dirent.h>
#include <sys/resource.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED	1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED	1
#endif
#endif

#define AT_ONCE		50	/* connections made at the same time */
#define ACTIVE_EACH	20	/* messages of an active endpoint */
#define ACTIVE_WINDOW	4	/* in flight at the same time */

struct conn {
	struct rdmamsg_ep *ep;
	uint32_t base;		/* tag of the first message in each direction */
	uint32_t sent, received, to_send;
};

static struct side {
	struct rdmamsg *ctx;
	struct rdmamsg_srq *srq;
	struct conn *conns;
	uint32_t opened, connected, closed, graceful;
	uint64_t received;
	bool echoes;
} me;

/*
 * Returns fewer for Soft-RoCE in a small virtual machine and for sanitizers, and
 * for iWARP, where each needs receives of its own in the shared queue.
 */
static uint32_t idle_count(void)
{
	static uint32_t count;

#ifdef SANITIZED
	count = 1000;
#endif
	if (!count)
		count = !test_on_soft() ? 500 : test_iwarp() ? 2000 : 10000;
	return count;
}

static uint32_t active_count(void)
{
	return idle_count() / 5;
}

/* ---- messages --------------------------------------------------------- */

/* Returns a size for the inline, the eager or the rendezvous path. */
static size_t size_of(uint32_t tag)
{
	return tag % 16 == 7 ? 20000 : tag * 613 % 4000;
}

static void pour(struct conn *c)
{
	while (c->ep && c->sent < c->to_send &&
	       c->sent < c->received + ACTIVE_WINDOW) {
		uint32_t tag = c->base + c->sent;
		int ret = rdmamsg_send(c->ep, pattern(tag), size_of(tag), tag,
				       NULL);

		if (ret == -EAGAIN)
			return;
		if (ret) {
			note("rdmamsg_send: %s", rdmamsg_error());
			return;
		}
		c->sent++;
	}
}

static void on_connected(struct rdmamsg_ep *ep)
{
	struct conn *c = rdmamsg_ep_user(ep);

	if (me.echoes) {
		const uint32_t *base = rdmamsg_ep_peer_data(ep, NULL);

		c = &me.conns[me.opened++ % idle_count()];
		c->base = *base;
		rdmamsg_ep_set_user(ep, c);
	}
	c->ep = ep;
	me.connected++;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct conn *c = rdmamsg_ep_user(ep);
	uint32_t tag = rdmamsg_msg_tag(msg);

	if (tag != c->base + c->received)
		note("message %u where %u was due", tag,
		     c->base + c->received);
	if (rdmamsg_msg_len(msg) != size_of(tag) ||
	    memcmp(rdmamsg_msg_data(msg), pattern(tag), size_of(tag)))
		note("message %u is damaged", tag);
	rdmamsg_msg_free(msg);
	c->received++;
	me.received++;
	if (me.echoes)
		c->to_send++;
	pour(c);
}

static void on_writable(struct rdmamsg_ep *ep)
{
	pour(rdmamsg_ep_user(ep));
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct conn *c = rdmamsg_ep_user(ep);

	me.closed++;
	me.graceful += why->cause == RDMAMSG_CAUSE_CLOSED;
	if (why->cause != RDMAMSG_CAUSE_CLOSED)
		note("an endpoint ended: %s", why->text);
	if (c)
		c->ep = NULL;
}

/* ---- both sides ------------------------------------------------------- */

static void begin(bool echoes)
{
	/* 1 message and 6 control messages for each endpoint */
	const struct rdmamsg_srq_options srq = {
		.size = sizeof(srq), .depth = 16384, .floor = 1,
		.overcommit = test_iwarp() ? 100 : 600,
	};

	memset(&me, 0, sizeof(me));
	me.echoes = echoes;
	me.ctx = test_open(NULL);
	me.conns = calloc(idle_count(), sizeof(*me.conns));
	assert_non_null(me.conns);
	if (rdmamsg_srq_create(me.ctx, &srq, &me.srq))
		fail_msg("rdmamsg_srq_create: %s", rdmamsg_error());
}

static struct rdmamsg_ep_options ep_options(void)
{
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on),
		.on_connected = on_connected, .on_message = on_message,
		.on_writable = on_writable, .on_closed = on_closed,
	};
	static const struct rdmamsg_ep_tuning tuning = {
		.size = sizeof(tuning), .send_depth = 16,
	};

	return (struct rdmamsg_ep_options) {
		.size = sizeof(struct rdmamsg_ep_options), .handlers = &on,
		.timeout_ms = WAIT_MS, .close_timeout_ms = WAIT_MS,
		.srq = me.srq, .dead_after_ms = 20000, .tuning = &tuning,
	};
}

static void end(void)
{
	assert_int_equal(me.opened, idle_count());
	assert_int_equal(me.closed, idle_count());
	assert_int_equal(me.graceful, idle_count());
	rdmamsg_srq_destroy(me.srq);
	test_close(me.ctx);
	free(me.conns);
}

static struct rdmamsg_stats stats(void)
{
	struct rdmamsg_stats st = { .size = sizeof(st) };

	assert_int_equal(rdmamsg_get_stats(me.ctx, &st), 0);
	return st;
}

/* ---- resources -------------------------------------------------------- */

static uint64_t cpu_ms(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000 +
	       (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1000;
}

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n - 3;	/* without ".", ".." and the descriptor of dir */
}

static uint64_t resident_mb(void)
{
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f && fscanf(f, "%*u %llu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE) >> 20;
}

/* Prints a line for the parent, and restarts the clock. */
static void needed(const char *phase)
{
	static uint64_t wall, cpu;

	if (phase)
		say("# needed, %s: %llu ms, %llu ms of CPU, %llu MB, %d "
		    "descriptors\n", phase,
		    (unsigned long long)(now_ms() - wall),
		    (unsigned long long)(cpu_ms() - cpu),
		    (unsigned long long)resident_mb(), descriptors());
	wall = now_ms();
	cpu = cpu_ms();
}

/* ---- the clients ------------------------------------------------------ */

static void connect_all(const char *service)
{
	struct rdmamsg_ep_options ep = ep_options();

	while (me.opened < idle_count()) {
		struct conn *c = &me.conns[me.opened++];

		c->base = 1000 * me.opened;
		ep.user = c;
		ep.setup_data = &c->base;
		ep.setup_data_len = sizeof(c->base);
		if (rdmamsg_connect(me.ctx, test_addr(), service, &ep, NULL))
			fail_msg("rdmamsg_connect: %s", rdmamsg_error());
		WAIT_FOR(me.opened - me.connected < AT_ONCE);
	}
	WAIT_FOR(me.connected == idle_count());
	needed("connected");
}

/*
 * Looks rarely, because adding up the statistics of all endpoints takes long.
 */
static bool has_sent_keepalives(uint64_t count)
{
	static uint64_t looked;

	if (now_ms() < looked + 50)
		return false;
	looked = now_ms();
	return stats().keepalives + stats().pings >= count;
}

/* Waits until the library has visited each endpoint once. */
static void idle(void)
{
	uint64_t before = stats().keepalives + stats().pings;

	WAIT_FOR(has_sent_keepalives(before + idle_count()));
	assert_int_equal(stats().msgs_received, 0);
	assert_int_equal(stats().endpoints, idle_count());
	needed("idle until each has sent a keepalive");
}

/* Echoes 'each' more messages on each of the first 'count' endpoints. */
static void exchange(uint32_t count, uint32_t each, const char *phase)
{
	uint64_t due = me.received + (uint64_t)count * each;

	for (uint32_t i = 0; i < count; i++) {
		me.conns[i].to_send += each;
		pour(&me.conns[i]);
	}
	WAIT_FOR(me.received == due);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(me.conns[i].received, me.conns[i].to_send);
	assert_int_equal(stats().endpoints, idle_count());
	needed(phase);
}

static void close_all(void)
{
	for (uint32_t i = 0; i < idle_count(); i++)
		rdmamsg_ep_close(me.conns[i].ep);
	WAIT_FOR(me.closed == idle_count());
	needed("closed");
}

static int clients(int argc, char **argv)
{
	needed(NULL);
	begin(false);
	connect_all(argv[0]);
	idle();
	exchange(active_count(), ACTIVE_EACH, "active");
	exchange(idle_count(), 1, "a message on each");
	close_all();
	end();
	return 0;
}

/* ---- the server ------------------------------------------------------- */

static void endpoints__idle_and_active_ALL_PASS_MESSAGES(void **state)
{
	/* all clients come from one address */
	struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .max_per_source = RDMAMSG_NONE,
		.setup_timeout_ms = WAIT_MS,
	};
	struct rdmamsg_ep_options ep;
	struct rdmamsg_listener *l;
	char service[8], line[128];
	struct child c;

	begin(true);
	ep = ep_options();
	/* on iWARP a side that hears PINGs sends none */
	if (test_iwarp())
		ep.dead_after_ms = RDMAMSG_NONE;
	lo.ep = &ep;
	if (rdmamsg_listen(me.ctx, test_addr(), "0", &lo, &l))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	child_start(&c, "clients", listener_service(l, service));
	do {
		child_line(&c, line, sizeof(line));
		printf("%s\n", line);
	} while (strncmp(line, "# needed, closed", 16) != 0);
	needed(NULL);
	WAIT_FOR(me.closed == idle_count());
	assert_int_equal(child_wait(&c), 0);
	assert_int_equal(me.received, idle_count() +
			 active_count() * ACTIVE_EACH);
	assert_int_equal(stats().msgs_lent, 0);
	printf("# needed by the server: %llu MB, %llu ms of CPU\n",
	       (unsigned long long)resident_mb(),
	       (unsigned long long)cpu_ms());
	end();
}

static const struct role roles[] = {
	{ "clients", clients },
	{ NULL, NULL }
};

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(endpoints__idle_and_active_ALL_PASS_MESSAGES),
	};

	return test_main(tests, roles, argc, argv);
}
