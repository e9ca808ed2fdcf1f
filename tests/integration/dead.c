/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: dead_after_ms over a black hole, which lets nothing pass and
 * tells nobody, and over a port that is down: many connections at once, each
 * with other requests under way.
 */
#include "clock.h"
#include "common.h"
#include "harm.h"

#include <signal.h>
#include <sys/wait.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rma.h>

#define ROOM		((size_t)1 << 20)
#define PUMP_MS		20
#define EXTRA_MS	(5 * PUMP_MS)	/* beyond 1.25 times dead_after_ms */

/* ---- the connections -------------------------------------------------- */

enum what {
	IDLE, UNSIGNALED, SIGNALED, ANSWERED, RENDEZVOUS, READS, WRITES,
	SHARED, WHATS
};

static const char *const names[] = {
	[IDLE] = "idle", [UNSIGNALED] = "unsignaled sends",
	[SIGNALED] = "signaled sends", [ANSWERED] = "answered sends",
	[RENDEZVOUS] = "rendezvous", [READS] = "reads", [WRITES] = "writes",
	[SHARED] = "sends to over-committed receives",
};

static struct conn {
	struct pair p;
	enum what what;
	uint32_t dead_after_ms;
	struct rdmamsg_region *far_region, *near_region;
	struct rdmamsg_srq *srq;
	struct rdmamsg_key key;
	uint8_t *far, *near;
	size_t done;			/* completions of posted operations */
	uint64_t closed_at[2];		/* of the client, of the server */
} conns[2 * WHATS];
static size_t conn_count;

static struct conn *conn_of(struct end *e)
{
	return e->arg;
}

static void note_closed(struct end *e)
{
	struct conn *c = conn_of(e);

	c->closed_at[e == &c->p.s] = now_ms();
}

static void answer(struct end *e, struct rdmamsg_msg *msg)
{
	if (rdmamsg_msg_send(e->ep, msg, 0, NULL))
		rdmamsg_msg_free(msg);
}

static void make_regions(struct conn *c)
{
	c->far = calloc(1, ROOM);
	c->near = calloc(1, ROOM);
	assert_int_equal(rdmamsg_region_create(c->p.s.ctx, c->far, ROOM,
					       RDMAMSG_ACCESS_READ |
					       RDMAMSG_ACCESS_WRITE,
					       &c->far_region), 0);
	assert_int_equal(rdmamsg_region_get_key(c->far_region, c->p.s.ep,
					       &c->key), 0);
	assert_int_equal(rdmamsg_region_create(c->p.c.ctx, c->near, ROOM,
					       RDMAMSG_ACCESS_LOCAL_WRITE,
					       &c->near_region), 0);
	assert_int_equal(rdmamsg_region_register(c->near_region, c->p.c.ep), 0);
}

static void open_conn(enum what what, uint32_t dead_after_ms)
{
	const struct rdmamsg_srq_options srq = {
		.size = sizeof(srq), .depth = 64,
		.overcommit = test_iwarp() ? 100 : 1000,
	};
	struct conn *c = &conns[conn_count++];

	memset(c, 0, sizeof(*c));
	pair_init(&c->p, NULL);
	c->what = what;
	c->dead_after_ms = dead_after_ms;
	c->p.s.arg = c->p.c.arg = c;
	c->p.s.expect_nothing = c->p.c.expect_nothing = true;
	c->p.s.then_closed = c->p.c.then_closed = note_closed;
	c->p.s.opts.dead_after_ms = c->p.c.opts.dead_after_ms = dead_after_ms;
	c->p.s.name = c->p.c.name = names[what];
	if (what == ANSWERED)
		c->p.s.then_message = answer;
	if (what == SHARED) {
		assert_int_equal(rdmamsg_srq_create(c->p.s.ctx, &srq, &c->srq),
				 0);
		c->p.s.opts.srq = c->srq;
	}
	pair_listen(&c->p);
	pair_connect(&c->p);
	make_regions(c);
}

static void close_conn(struct conn *c)
{
	if (c->p.c.ep && !c->p.c.closed) {
		rdmamsg_ep_close(c->p.c.ep);
		WAIT_FOR(c->p.c.closed && c->p.s.closed);
		assert_int_equal(c->p.c.why.cause, RDMAMSG_CAUSE_CLOSED);
		assert_int_equal(c->p.s.why.cause, RDMAMSG_CAUSE_CLOSED);
	}
	rdmamsg_srq_destroy(c->srq);
	assert_int_equal(rdmamsg_region_destroy(c->far_region), 0);
	assert_int_equal(rdmamsg_region_destroy(c->near_region), 0);
	pair_fini(&c->p);
	free(c->far);
	free(c->near);
}

static void close_all(void)
{
	while (conn_count)
		close_conn(&conns[--conn_count]);
}

/* ---- activities of the connections ------------------------------------ */

static int act(struct conn *c, struct cookie *cookie)
{
	struct rdmamsg_sge s = { c->near, ROOM, c->near_region };
	struct iovec iov = { c->near, c->what == RENDEZVOUS ? ROOM : 100 };

	if (c->what == READS)
		return rdmamsg_read(c->p.c.ep, &s, 1, &c->key, 0, 0, cookie);
	if (c->what == WRITES)
		return rdmamsg_write(c->p.c.ep, &s, 1, &c->key, 0, 0, cookie);
	return rdmamsg_sendv(c->p.c.ep, &iov, 1, 0, cookie);
}

/*
 * Starts one operation when the one before has completed. Operations without a
 * cookie start five at a time.
 */
static void act_now(struct conn *c)
{
	struct end *e = &c->p.c;
	struct cookie *cookie;
	int ret;

	if (c->what == IDLE || e->closed)
		return;
	if (c->what == UNSIGNALED || c->what == ANSWERED || c->what == SHARED) {
		for (int i = 0; i < 5; i++)
			c->done += !rdmamsg_send(e->ep, "x", 1, 0, NULL);
		return;
	}
	if (e->sent != e->sent_ok + e->sent_failed)
		return;
	cookie = end_cookie(e);
	ret = act(c, cookie);
	if (ret) {
		e->cookies = cookie->next;
		free(cookie);
	}
	e->sent += !ret;
	c->done = e->sent_ok;
}

/* The clock stands still while both sides and their device are at work. */
static void pump(void)
{
	for (size_t i = 0; i < conn_count; i++)
		act_now(&conns[i]);
	test_pass(PUMP_MS);
	check_notes();
}

static void pump_for(uint64_t ms)
{
	for (uint64_t end = now_ms() + ms; now_ms() < end; )
		pump();
}

static bool all_closed(void)
{
	for (size_t i = 0; i < conn_count; i++)
		if (!conns[i].p.c.closed || !conns[i].p.s.closed)
			return false;
	return true;
}

static void check_open(void)
{
	for (size_t i = 0; i < conn_count; i++) {
		const struct pair *p = &conns[i].p;

		if (p->c.closed || p->s.closed)
			fail_msg("%s of %u ms: %s", p->c.name,
				 conns[i].dead_after_ms, p->c.closed ?
				 p->c.why.text : p->s.why.text);
	}
}

static void check_goes_on(void)
{
	size_t had[2 * WHATS];

	for (size_t i = 0; i < conn_count; i++)
		had[i] = conns[i].done;
	for (size_t i = 0; i < conn_count; i++)
		for (uint64_t end = now_ms() + WAIT_MS;
		     conns[i].what != IDLE && conns[i].done < had[i] + 3; ) {
			assert_true(now_ms() < end);
			pump();
		}
	check_open();
}

/* ---- cuts ------------------------------------------------------------- */

static void check_ended(const struct conn *c, const struct end *e,
			uint64_t since)
{
	uint64_t dead = c->dead_after_ms, took;

	took = c->closed_at[e == &c->p.s] - since;
	if (took < dead || took > dead + dead / 4 + EXTRA_MS ||
	    e->why.who != RDMAMSG_WHO_NETWORK ||
	    e->why.cause != RDMAMSG_CAUSE_TRANSPORT ||
	    e->why.error != -ETIMEDOUT)
		fail_msg("%s of %u ms: the %s closed after %u ms, by %d, "
			 "cause %d: %s", e->name, c->dead_after_ms,
			 e == &c->p.s ? "server" : "client",
			 (unsigned int)took, e->why.who, e->why.cause,
			 e->why.text);
	end_check_cookies(e);
}

static void black_hole__longer_CLOSES_IN_BOUNDS(void **state)
{
	uint64_t since;

	if (!test_on_soft())
		skip_because("packets of one host to itself never leave it");
	for (enum what what = 0; what < WHATS; what++) {
		open_conn(what, 1000);
		open_conn(what, 3000);
	}
	clock_stop();
	check_goes_on();
	pump_for(500);
	check_open();
	since = now_ms();
	harm_silence(true);
	for (uint64_t end = now_ms() + WAIT_MS; !all_closed(); pump())
		if (now_ms() > end)
			fail_msg("not all of them have ended");
	harm_silence(false);
	for (size_t i = 0; i < conn_count; i++) {
		check_ended(&conns[i], &conns[i].p.c, since);
		check_ended(&conns[i], &conns[i].p.s, since);
	}
	clock_go();
	close_all();
}

static void cut__shorter_LIVES_ON(void **state)
{
	if (!test_on_soft())
		skip_because("Soft-RoCE fails what it cannot send");
	harm_find();
	for (enum what what = 0; what < WHATS; what++)
		open_conn(what, 4000);
	clock_stop();
	check_goes_on();
	harm_silence(true);
	pump_for(1500);
	harm_silence(false);
	check_goes_on();
	harm_link(false);
	pump_for(1500);
	harm_link(true);
	check_goes_on();
	clock_go();
	close_all();
}

/* ---- a peer that is stopped ------------------------------------------- */

#define DEAD_MS		60000
#define STEP_MS		1000

static struct pair p;

static volatile sig_atomic_t jumps;

static void on_jump(int sig)
{
	jumps = 1;
}

/*
 * Echoes. After SIGUSR1 this process sees that more time than its dead_after_ms
 * has passed.
 */
static int role_peer(int argc, char **argv)
{
	signal(SIGUSR1, on_jump);
	pair_init(&p, NULL);
	p.s.expect_nothing = true;
	p.s.opts.dead_after_ms = DEAD_MS;
	p.s.then_message = answer;
	pair_listen(&p);
	say("%s\n", p.port);
	while (!p.s.closed) {
		test_pump(100);
		if (jumps)
			clock_pass(2 * DEAD_MS);
		jumps = 0;
	}
	say("%d\n", p.s.why.cause);
	return 0;
}

static void meet(struct child *child)
{
	char port[16];

	pair_init(&p, NULL);
	p.c.expect_nothing = true;
	p.c.opts.dead_after_ms = DEAD_MS;
	child_start(child, "peer", "");
	child_line(child, port, sizeof(port));
	if (rdmamsg_connect(p.c.ctx, test_addr(), port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.connected || p.c.closed);
	assert_false(p.c.closed);
}

static void ask(void)
{
	assert_int_equal(rdmamsg_send(p.c.ep, "x", 1, 0, NULL), 0);
}

static void stop(const struct child *child)
{
	int status;

	kill(child->pid, SIGSTOP);
	assert_int_equal(waitpid(child->pid, &status, WUNTRACED), child->pid);
	assert_true(WIFSTOPPED(status));
}

/* The time that has passed for this side has passed for the child as well. */
static void go_on(const struct child *child)
{
	kill(child->pid, SIGUSR1);
	kill(child->pid, SIGCONT);
}

/* A device of the kernel has the time to answer. */
static void pass(uint32_t ms)
{
	for (uint32_t i = 0; i < ms && !p.c.closed; i += STEP_MS) {
		clock_pass(STEP_MS);
		if (!test_on_soft())
			usleep(50000);
		test_pump(1);
		check_notes();
	}
}

/* Neither side declares the other dead. */
static void stopped__shorter_LIVES_ON(void **state)
{
	struct child child;
	char cause[16];

	meet(&child);
	ask();
	WAIT_FOR(p.c.received == 1);
	stop(&child);
	ask();
	pass(DEAD_MS / 2);
	go_on(&child);
	WAIT_FOR(p.c.received == 2 || p.c.closed);
	ask();
	WAIT_FOR(p.c.received == 3 || p.c.closed);
	assert_false(p.c.closed);
	rdmamsg_ep_close(p.c.ep);
	child_line(&child, cause, sizeof(cause));
	assert_int_equal(atoi(cause), RDMAMSG_CAUSE_CLOSED);
	assert_int_equal(child_wait(&child), 0);
	pair_fini(&p);
}

/*
 * A kernel device answers for its stopped process, but on iWARP the program has
 * to answer. The soft HCA stops with its process.
 */
static void stopped__longer_ENDS_ONLY_WITH_ITS_DEVICE(void **state)
{
	struct child child;
	uint64_t since;

	meet(&child);
	ask();
	WAIT_FOR(p.c.received == 1);
	since = now_ms();
	stop(&child);
	ask();
	pass(2 * DEAD_MS);
	if (test_on_soft() || test_iwarp()) {
		WAIT_FOR(p.c.closed);
		assert_true(now_ms() - since >= DEAD_MS);
		assert_int_equal(p.c.why.who, RDMAMSG_WHO_NETWORK);
		assert_int_equal(p.c.why.error, -ETIMEDOUT);
	} else {
		assert_false(p.c.closed);
	}
	go_on(&child);
	if (!p.c.closed) {
		WAIT_FOR(p.c.received == 2);
		rdmamsg_ep_close(p.c.ep);
	}
	assert_int_equal(child_wait(&child), 0);
	pair_fini(&p);
}

/* ---- a peer that announces a message and is stopped ------------------- */

#define LARGE	((size_t)16 << 20)

static pid_t announcer;

/* Answers with a large message. */
static void announce(struct end *e, struct rdmamsg_msg *msg)
{
	static uint8_t large[LARGE];
	struct iovec iov = { large, sizeof(large) };

	rdmamsg_msg_free(msg);
	if (rdmamsg_sendv(e->ep, &iov, 1, 1, NULL))
		note("rdmamsg_sendv: %s", rdmamsg_error());
}

static int role_announcer(int argc, char **argv)
{
	pair_init(&p, NULL);
	p.s.expect_nothing = true;
	p.s.then_message = announce;
	pair_listen(&p);
	say("%s\n", p.port);
	while (!p.s.closed)
		test_pump(1000);
	return 0;
}

/* No read of the message has begun. */
static int stop_announcer(struct rdmamsg_ep *ep, size_t len, uint32_t tag,
			  struct rdmamsg_buffer *dst)
{
	if (len != LARGE)
		note("a message of %zu bytes", len);
	p.c.incoming++;
	kill(announcer, SIGSTOP);
	return 0;
}

/* A device of the kernel serves the reads; the soft HCA stops with its peer. */
static void stopped__after_an_announcement_HOLDS_NO_MEMORY(void **state)
{
	struct rdmamsg_stats st;
	struct child child;
	char port[16];

	pair_init(&p, NULL);
	p.c.expect_nothing = true;
	p.c.opts.dead_after_ms = DEAD_MS;
	p.c.opts.max_msg_size = LARGE;
	p.c.on.on_incoming = stop_announcer;
	child_start(&child, "announcer", "");
	announcer = child.pid;
	child_line(&child, port, sizeof(port));
	if (rdmamsg_connect(p.c.ctx, test_addr(), port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.connected || p.c.closed);
	ask();
	WAIT_FOR(p.c.incoming);
	if (test_on_soft())
		pass(2 * DEAD_MS);
	WAIT_FOR(p.c.received == 1 || p.c.closed);
	if (p.c.closed)
		assert_int_equal(p.c.why.error, -ETIMEDOUT);
	st.size = sizeof(st);
	assert_int_equal(rdmamsg_get_stats(p.c.ctx, &st), 0);
	assert_int_equal(st.msgs_lent, 0);
	kill(child.pid, SIGCONT);
	if (!p.c.closed)
		rdmamsg_ep_close(p.c.ep);
	assert_int_equal(child_wait(&child), 0);
	pair_fini(&p);
}

int main(int argc, char **argv)
{
	static const struct role roles[] = {
		{ "peer", role_peer }, { "announcer", role_announcer },
		{ NULL, NULL },
	};
	const struct CMUnitTest tests[] = {
		TEST(black_hole__longer_CLOSES_IN_BOUNDS),
		TEST(cut__shorter_LIVES_ON),
		TEST(stopped__shorter_LIVES_ON),
		TEST(stopped__longer_ENDS_ONLY_WITH_ITS_DEVICE),
		TEST(stopped__after_an_announcement_HOLDS_NO_MEMORY),
	};

	return test_main(tests, roles, argc, argv);
}
