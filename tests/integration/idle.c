/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An idle context sleeps: its descriptor stays quiet and it uses no processor
 * time. A message costs a fixed number of system calls.
 */
#include "clock.h"
#include "common.h"
#include "harm.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define QUIET_MS	1000
/*
 * Completions, credits and timers that earlier work has left wake a context a
 * few times, however slow the machine is.
 */
#define WAKES_MAX	20
/* the part of the time that sleeping contexts may use */
#define BUSY_PART	10
/*
 * more than the lingering of an unused device, every drain and every back-off
 */
#define LINGER_MS	6500
#define STEP_MS		100
#define NO_KEEPALIVE_MS	3600000

static struct pair p;

/* ---- quiet ------------------------------------------------------------ */

static uint64_t cpu_us(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (uint64_t)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

/* The work of the contexts since the check began. */
struct nap {
	uint64_t began, used;		/* ms, us of processor time */
	unsigned int wakes;
};

static struct nap lie_down(void)
{
	return (struct nap){ .began = now_ms(), .used = cpu_us() };
}

/*
 * Returns true if contexts that have just slept for QUIET_MS have used little
 * processor time since the check began. A virtual machine counts waiting for
 * its processor as used time. Finite work becomes a small part of the time in
 * the end, and a thread that spins never does.
 */
static bool slept(const struct nap *nap)
{
	uint64_t ms = now_ms() - nap->began, us = cpu_us() - nap->used;

	check_notes();
	if (us <= ms * 1000 / BUSY_PART)
		return true;
	if (ms > WAIT_MS)
		fail_msg("%llu us of processor time in %llu ms",
			 (unsigned long long)us, (unsigned long long)ms);
	return false;
}

/* A context that wakes up by itself does not stop at WAKES_MAX. */
static void woke(struct nap *nap)
{
	check_notes();
	if (++nap->wakes > WAKES_MAX)
		fail_msg("woke up %u times in %llu ms", nap->wakes,
			 (unsigned long long)(now_ms() - nap->began));
}

/* Lets the time pass in steps, so that what a timer begins can end. */
static void outlast(unsigned int ms)
{
	for (unsigned int passed = 0; passed < ms; passed += STEP_MS) {
		clock_pass(STEP_MS);
		test_pump(1);
		check_notes();
	}
}

/* Waits until neither descriptor has been readable for QUIET_MS. */
static void fall_asleep(struct nap *nap, struct rdmamsg *a, struct rdmamsg *b)
{
	struct pollfd fds[2] = {
		{ .fd = rdmamsg_fd(a), .events = POLLIN },
		{ .fd = b ? rdmamsg_fd(b) : -1, .events = POLLIN },
	};

	while (poll(fds, 2, QUIET_MS) > 0) {
		woke(nap);
		for (int i = 0; i < 2; i++)
			if (fds[i].revents)
				rdmamsg_process(i ? b : a);
	}
}

static void check_quiet(struct rdmamsg *a, struct rdmamsg *b)
{
	struct nap nap = lie_down();

	do
		fall_asleep(&nap, a, b);
	while (!slept(&nap));
}

/* rdmamsg_wait() must sleep inside as well. */
static void check_wait_sleeps(struct rdmamsg *ctx)
{
	struct nap nap = lie_down();
	int ret;

	do {
		while ((ret = rdmamsg_wait(ctx, QUIET_MS / 2)) > 0)
			woke(&nap);
		assert_int_equal(ret, 0);
	} while (!slept(&nap));
}

/* Postpones keepalives, and keeps retransmission fast. */
static void be_patient(struct end *e)
{
	e->opts.dead_after_ms = NO_KEEPALIVE_MS;
	e->tuning.ack_timeout = 15;
}

static void patient_pair(void)
{
	pair_init(&p, NULL);
	be_patient(&p.c);
	be_patient(&p.s);
	pair_listen(&p);
}

static void check_pair_quiet(void)
{
	if (!p.c.ep && !p.s.ep)
		outlast(LINGER_MS);
	check_quiet(p.c.ctx, p.s.ctx);
}

static void idle__context_just_opened_IS_QUIET(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);

	check_quiet(ctx, NULL);
	check_wait_sleeps(ctx);
}

static void idle__listener_open_IS_QUIET(void **state)
{
	pair_init(&p, NULL);
	pair_listen(&p);
	check_quiet(p.s.ctx, p.c.ctx);
	check_wait_sleeps(p.s.ctx);
	rdmamsg_listener_close(p.listener);
	check_quiet(p.s.ctx, p.c.ctx);
	pair_fini(&p);
}

static void idle__connected_IS_QUIET(void **state)
{
	patient_pair();
	pair_connect(&p);
	check_pair_quiet();
	check_wait_sleeps(p.c.ctx);
	check_wait_sleeps(p.s.ctx);
	pair_close(&p);
	pair_fini(&p);
}

static void traffic(void)
{
	static const size_t sizes[] = {
		0, 64, 240, 5000, 8000, 60000, 2 << 20,
	};

	for (enum how how = 0; how < HOW_COUNT; how++)
		for (uint32_t n = 0; n < ARRAY_SIZE(sizes); n++) {
			if (how == HOW_SEND && sizes[n] > 65536)
				continue;
			end_send_all(&p.c, how, sizes[n], n);
			end_send_all(&p.s, how, sizes[n], n);
		}
	/* send until refused, so that both sides have waited */
	for (uint32_t n = 0; n < 200; n++)
		end_send_all(&p.c, HOW_SEND, 64, n);
	WAIT_FOR(p.s.received == p.s.expected_count &&
		 p.c.received == p.c.expected_count);
}

static void idle__after_traffic_on_all_paths_IS_QUIET(void **state)
{
	patient_pair();
	pair_connect(&p);
	traffic();
	check_pair_quiet();
	traffic();
	check_pair_quiet();
	pair_close(&p);
	pair_fini(&p);
}

static void idle__after_traffic_by_polling_IS_QUIET(void **state)
{
	patient_pair();
	pair_connect(&p);
	for (uint32_t n = 0; n < 100; n++) {
		end_send_all(&p.c, HOW_SEND, 64, n);
		while (p.s.received < p.s.expected_count) {
			rdmamsg_poll(p.s.ctx);
			rdmamsg_poll(p.c.ctx);
		}
	}
	check_pair_quiet();
	pair_close(&p);
	pair_fini(&p);
}

static void idle__unread_messages_ARE_QUIET(void **state)
{
	pair_init(&p, NULL);
	be_patient(&p.c);
	be_patient(&p.s);
	p.s.on.on_message = NULL;
	pair_listen(&p);
	pair_connect(&p);
	for (uint32_t n = 0; n < 30; n++)
		end_send_all(&p.c, HOW_SENDV, 1000 * n, n);
	check_pair_quiet();
	rdmamsg_ep_abort(p.c.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	pair_fini(&p);
}

static void idle__after_a_graceful_end_IS_QUIET(void **state)
{
	patient_pair();
	pair_connect(&p);
	traffic();
	pair_close(&p);
	check_pair_quiet();
	check_wait_sleeps(p.c.ctx);
	pair_fini(&p);
}

static void idle__after_a_refused_connect_IS_QUIET(void **state)
{
	pair_init(&p, NULL);
	if (rdmamsg_connect(p.c.ctx, test_addr(), "1", &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_REFUSED);
	check_pair_quiet();
	pair_fini(&p);
}

static void reject(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	if (rdmamsg_request_reject(req, "no", 2))
		note("rdmamsg_request_reject: %s", rdmamsg_error());
}

static void idle__after_a_rejected_connect_IS_QUIET(void **state)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = reject,
	};
	static const struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};

	pair_init(&p, NULL);
	if (rdmamsg_listen(p.s.ctx, test_addr(), "0", &opts, &p.listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(p.listener, p.port);
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_REJECTED);
	check_pair_quiet();
	pair_fini(&p);
}

static void idle__after_a_bad_name_IS_QUIET(void **state)
{
	pair_init(&p, NULL);
	if (rdmamsg_connect(p.c.ctx, "no.such.name.invalid", "1", &p.c.opts,
			    &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.closed);
	assert_int_equal(p.c.why.cause, RDMAMSG_CAUSE_ADDRESS);
	check_pair_quiet();
	pair_fini(&p);
}

static void idle__after_no_answer_IS_QUIET(void **state)
{
	pair_init(&p, NULL);
	pair_listen(&p);
	p.c.opts.timeout_ms = 500;
	if (test_on_soft())
		harm_silence(true);
	/* no host in the test machine's network has this address */
	if (rdmamsg_connect(p.c.ctx, test_on_soft() ? test_addr() : "10.9.0.77",
			    p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.closed);
	check_pair_quiet();
	if (test_on_soft())
		harm_silence(false);
	pair_fini(&p);
}

static void idle__after_the_peers_abort_IS_QUIET(void **state)
{
	patient_pair();
	pair_connect(&p);
	end_send_all(&p.c, HOW_SEND, 64, 1);
	end_send_all(&p.c, HOW_SENDV, 1 << 20, 2);
	p.s.expect_nothing = true;
	rdmamsg_ep_abort(p.c.ep);
	WAIT_FOR(p.c.closed && p.s.closed);
	assert_int_equal(p.s.why.cause, RDMAMSG_CAUSE_ABORTED);
	check_pair_quiet();
	pair_fini(&p);
}

static void idle__after_the_device_was_removed_IS_QUIET(void **state)
{
	harm_find();
	patient_pair();
	pair_connect(&p);
	harm_remove();
	WAIT_FOR(p.c.closed && p.s.closed);
	WAIT_FOR(harm_removed());
	check_pair_quiet();
	check_wait_sleeps(p.c.ctx);
	harm_add();
	pair_fini(&p);
}

static void idle__after_a_stop_IS_QUIET(void **state)
{
	struct rdmamsg *ctx = test_open(NULL);

	rdmamsg_stop(ctx);
	assert_int_equal(rdmamsg_run(ctx), 0);
	test_drive(ctx);
	check_quiet(ctx, NULL);
}

/* ---- other processes -------------------------------------------------- */

static void echo_message(struct end *e, struct rdmamsg_msg *msg)
{
	if (rdmamsg_msg_send(e->ep, msg, 0, NULL)) {
		note("echo: %s", rdmamsg_error());
		rdmamsg_msg_free(msg);
	}
}

static void echo_closed(struct end *e)
{
	*(bool *)e->arg = true;
}

/* Serves one connection, and ends with it. */
static int serve(int argc, char **argv)
{
	struct pollfd fd = { .events = POLLIN };
	bool over = false;

	pair_init(&p, NULL);
	test_close(p.c.ctx);
	be_patient(&p.s);
	p.s.expect_nothing = true;
	p.s.then_message = echo_message;
	p.s.then_closed = echo_closed;
	p.s.arg = &over;
	pair_listen(&p);
	say("%s\n", p.port);
	fd.fd = rdmamsg_fd(p.s.ctx);
	while (!over) {
		if (poll(&fd, 1, -1) < 0 || rdmamsg_process(p.s.ctx) < 0)
			return 1;
	}
	return 0;
}

static void connect_child(struct child *child)
{
	pair_init(&p, NULL);
	be_patient(&p.c);
	p.c.expect_nothing = true;
	child_line(child, p.port, sizeof(p.port));
	if (rdmamsg_connect(p.c.ctx, test_addr(), p.port, &p.c.opts, &p.c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR(p.c.connected || p.c.closed);
	if (p.c.closed)
		fail_msg("not connected: %s", p.c.why.text);
}

static void idle__after_the_peers_SIGKILL_IS_QUIET(void **state)
{
	struct child child;

	child_start(&child, "server", NULL);
	connect_child(&child);
	end_send_all(&p.c, HOW_SEND, 64, 1);
	WAIT_FOR(p.c.received == 1);
	kill(child.pid, SIGKILL);
	assert_true(WIFSIGNALED(child_wait(&child)));
	WAIT_FOR(p.c.closed);
	check_pair_quiet();
	pair_fini(&p);
}

static void idle__beside_a_peer_that_is_stopped_IS_QUIET(void **state)
{
	struct child child;

	child_start(&child, "server", NULL);
	connect_child(&child);
	end_send_all(&p.c, HOW_SEND, 64, 1);
	WAIT_FOR(p.c.received == 1);
	kill(child.pid, SIGSTOP);
	for (uint32_t n = 0; n < 10; n++)
		end_send_all(&p.c, HOW_SEND, 64, n);
	check_pair_quiet();
	kill(child.pid, SIGCONT);
	WAIT_FOR(p.c.received == 11);
	rdmamsg_ep_close(p.c.ep);
	WAIT_FOR(p.c.closed);
	assert_int_equal(child_wait(&child), 0);
	pair_fini(&p);
}

/* ---- system calls ----------------------------------------------------- */

#define MANY	300
/* for a message and its echo; the thread of the soft HCA makes some calls */
#define CALLS_MAX	(test_on_soft() ? 8 : 6)

static char trace_file[] = "/tmp/rdmamsg-idle-trace.XXXXXX";

/* argv[0] is the output file of strace(1). */
static int serve_traced(int argc, char **argv)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0 || argc < 1)
		return 1;
	self[n] = 0;
	/* the leak checker is a tracer as well, and a process has only one */
	setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
	/* a traced process holds locks longer, so futex calls do not count */
	execlp("strace", "strace", "-f", "-e", "trace=!futex", "-o", argv[0],
	       self, "--child", "server", NULL);
	return 127;
}

static unsigned int trace_lines(void)
{
	FILE *f = fopen(trace_file, "r");
	unsigned int n = 0;
	char line[4096];

	if (!f)
		fail_msg("%s: %s", trace_file, strerror(errno));
	/* a call that another thread interrupts has two lines */
	while (fgets(line, sizeof(line), f))
		n += strchr(line, '\n') && !strstr(line, "<unfinished ...>");
	fclose(f);
	return n;
}

/*
 * Starts a traced child, which connects, echoes 'count' messages one at a time
 * and ends. Returns the number of its system calls.
 */
static unsigned int count_calls(unsigned int count)
{
	struct child child;

	child_start(&child, "traced", trace_file);
	connect_child(&child);
	for (unsigned int n = 0; n < count; n++) {
		end_send_all(&p.c, HOW_SEND, 64, n);
		WAIT_FOR(p.c.received == n + 1);
	}
	rdmamsg_ep_close(p.c.ep);
	WAIT_FOR(p.c.closed);
	assert_int_equal(child_wait(&child), 0);
	pair_fini(&p);
	return trace_lines();
}

static void calls__event_mode_echo_FEW_AND_FIXED(void **state)
{
	unsigned int few, many;
	int fd;

	if (system("strace -o /dev/null true 2>/dev/null")) {
		skip_because("strace does not work here");
		return;
	}
	fd = mkstemp(trace_file);
	assert_true(fd >= 0);
	close(fd);
	few = count_calls(MANY);
	many = count_calls(2 * MANY);
	unlink(trace_file);
	assert_true(many > few);
	if (many - few > CALLS_MAX * MANY)
		fail_msg("%u system calls for %d messages", many - few, MANY);
	print_message("# %u.%02u system calls for a message\n",
		      (many - few) / MANY, (many - few) % MANY * 100 / MANY);
}

int main(int argc, char **argv)
{
	static const struct role roles[] = {
		{ "server", serve }, { "traced", serve_traced }, { NULL },
	};
	const struct CMUnitTest tests[] = {
		TEST(idle__context_just_opened_IS_QUIET),
		TEST(idle__listener_open_IS_QUIET),
		TEST(idle__connected_IS_QUIET),
		TEST(idle__after_traffic_on_all_paths_IS_QUIET),
		TEST(idle__after_traffic_by_polling_IS_QUIET),
		TEST(idle__unread_messages_ARE_QUIET),
		TEST(idle__after_a_graceful_end_IS_QUIET),
		TEST(idle__after_a_refused_connect_IS_QUIET),
		TEST(idle__after_a_rejected_connect_IS_QUIET),
		TEST(idle__after_a_bad_name_IS_QUIET),
		TEST(idle__after_no_answer_IS_QUIET),
		TEST(idle__after_the_peers_abort_IS_QUIET),
		TEST(idle__after_the_device_was_removed_IS_QUIET),
		TEST(idle__after_a_stop_IS_QUIET),
		TEST(idle__after_the_peers_SIGKILL_IS_QUIET),
		TEST(idle__beside_a_peer_that_is_stopped_IS_QUIET),
		TEST(calls__event_mode_echo_FEW_AND_FIXED),
	};

	return test_main(tests, roles, argc, argv);
}
