/* SPDX-License-Identifier: BSD-2-Clause */
#include "clock.h"
#include "common.h"

#include <poll.h>
#include <signal.h>
#include <time.h>
#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/memory.h>

#define CONTEXTS_MAX	256

static struct rdmamsg *contexts[CONTEXTS_MAX];
static int context_count;
static char first_note[256];
bool errors_are_fine, texts_are_fine;

static uint64_t test_began;
static struct {
	uint64_t ms;
	const char *condition;
} longest_wait;

/* ---- contexts --------------------------------------------------------- */

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* A test that lets time pass (clock.h) takes no longer for that. */
static uint64_t real_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void test_waited(uint64_t ms, const char *condition)
{
	if (ms <= longest_wait.ms)
		return;
	longest_wait.ms = ms;
	longest_wait.condition = condition;
}

void note(const char *fmt, ...)
{
	va_list ap;

	if (first_note[0])
		return;
	va_start(ap, fmt);
	vsnprintf(first_note, sizeof(first_note), fmt, ap);
	va_end(ap);
}

void check_notes(void)
{
	char text[sizeof(first_note)];

	if (!first_note[0])
		return;
	memcpy(text, first_note, sizeof(text));
	first_note[0] = 0;
	fail_msg("%s", text);
}

void assert_error(int ret, int error, const char *word)
{
	if (ret != error)
		fail_msg("got %d (%s), not %d: %s", ret, strerror(-ret), error,
			 ret < 0 ? rdmamsg_error() : "no error");
	if (!strstr(rdmamsg_error(), word))
		fail_msg("no '%s' in '%s'", word, rdmamsg_error());
}

struct rdmamsg *test_open(const struct rdmamsg_options *opts)
{
	const char *floor = getenv("TEST_SRQ");
	struct rdmamsg_srq_options srq = {
		.size = sizeof(srq), .depth = 16384,
		.floor = floor ? (uint32_t)atoi(floor) : 0,
	};
	struct rdmamsg_options o = { .size = sizeof(o) };
	struct rdmamsg *ctx;

	if (context_count == CONTEXTS_MAX)
		fail_msg("more than %d contexts", CONTEXTS_MAX);
	/* TEST_SRQ runs the same tests with shared receives */
	if (floor && !(opts && opts->srq)) {
		if (opts)
			o = *opts;
		if (o.size > sizeof(o))
			o.size = sizeof(o);
		o.srq = &srq;
		opts = &o;
	}
	if (rdmamsg_open(&ctx, opts))
		fail_msg("rdmamsg_open: %s", rdmamsg_error());
	contexts[context_count++] = ctx;
	return ctx;
}

void test_close(struct rdmamsg *ctx)
{
	for (int i = 0; i < context_count; i++)
		if (contexts[i] == ctx)
			contexts[i] = contexts[--context_count];
	rdmamsg_close(ctx);
}

/* A test whose callbacks make calls that fail sets texts_are_fine. */
static void process(struct rdmamsg *ctx)
{
	char before[256];

	snprintf(before, sizeof(before), "%s", rdmamsg_error());
	if (rdmamsg_process(ctx) < 0)
		fail_msg("rdmamsg_process: %s", rdmamsg_error());
	if (!texts_are_fine && strcmp(before, rdmamsg_error()))
		note("rdmamsg_process left a text: %s", rdmamsg_error());
}

void test_pump(int timeout_ms)
{
	struct pollfd fds[CONTEXTS_MAX];
	struct rdmamsg *ctx[CONTEXTS_MAX];
	int n = context_count;

	for (int i = 0; i < n; i++) {
		ctx[i] = contexts[i];
		fds[i].fd = rdmamsg_fd(ctx[i]);
		fds[i].events = POLLIN;
		fds[i].revents = 0;
	}
	if (poll(fds, (nfds_t)n, timeout_ms) < 0 && errno != EINTR)
		fail_msg("poll: %s", strerror(errno));
	for (int i = 0; i < n; i++)
		if (fds[i].revents)
			process(ctx[i]);
}

bool test_idle(void)
{
	for (int i = 0; i < context_count; i++) {
		struct pollfd p = {
			.fd = rdmamsg_fd(contexts[i]), .events = POLLIN,
		};

		if (poll(&p, 1, 0))
			return false;
	}
	return true;
}

void test_pass(uint32_t ms)
{
	uint64_t end = now_ms() + ms, now;

	if (test_on_soft()) {
		clock_pass(ms);
		do
			test_pump(1);
		while (!clock_others_sleep() || !test_idle());
		return;
	}
	while ((now = now_ms()) < end)
		test_pump((int)(end - now));
}

uint32_t test_dead_after_ms(void)
{
	return test_on_soft() ? 20000 : 2000;
}

void test_drive(struct rdmamsg *ctx)
{
	while (rdmamsg_process(ctx) > 0)
		;
}

/* ---- messages --------------------------------------------------------- */

const uint8_t *pattern(uint32_t tag)
{
	static uint64_t *words;
	size_t count = (PATTERN_MAX + (1u << 16)) / sizeof(*words);

	if (!words) {
		uint64_t x = 88172645463325252ull;

		words = malloc(count * sizeof(*words));
		for (size_t i = 0; i < count; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			words[i] = x;
		}
	}
	return (const uint8_t *)words + tag * 2654435761u % 65521u;
}

size_t mixed_size(uint32_t n)
{
	static const size_t sizes[] = {
		10, 300000, 5000, 0, 70000, 100, 1, 1 << 20, 8000, 20, 9000,
	};

	return sizes[n % ARRAY_SIZE(sizes)] + n % 7;
}

/* ---- main ------------------------------------------------------------- */

static void dump_line(void *arg, const char *text)
{
	fprintf(stderr, "  %s\n", text);
}

/* Not async-signal-safe, but the test fails here anyway. */
static void on_alarm(int sig)
{
	fprintf(stderr, "no end after %d s\n", TEST_SECONDS);
	for (int i = 0; i < context_count; i++)
		rdmamsg_dump(contexts[i], dump_line, NULL);
	_exit(1);
}

static void on_log(void *arg, enum rdmamsg_log_level level, const char *line)
{
	if (level == RDMAMSG_LOG_ERROR && !errors_are_fine)
		note("the library says: %s", line);
	if (getenv("RDMAMSG_LOG"))
		fprintf(stderr, "[%d] %s\n", getpid(), line);
}

int test_setup(void **state)
{
	struct sigaction sa = { .sa_handler = on_alarm };

	sigaction(SIGALRM, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
	alarm(TEST_SECONDS);
	first_note[0] = 0;
	errors_are_fine = texts_are_fine = false;
	rdmamsg_set_log(on_log, NULL, RDMAMSG_LOG_ERROR);
	test_began = real_ms();
	longest_wait.ms = 0;
	return 0;
}

/* run.sh adds the name of the test, whose result comes next. */
static void print_time(void)
{
	double took = (double)(real_ms() - test_began) / 1000;

	if (took < 1)
		return;
	printf("# took %.1f", took);
	if (longest_wait.ms)
		printf(" # waited %.1f s for %s",
		       (double)longest_wait.ms / 1000, longest_wait.condition);
	printf("\n");
}

int test_teardown(void **state)
{
	while (context_count)
		test_close(contexts[context_count - 1]);
	alarm(0);
	print_time();
	return 0;
}

bool test_is_child(int argc, char **argv)
{
	return argc > 2 && !strcmp(argv[1], "--child");
}

int test_child(const struct role *roles, int argc, char **argv)
{
	int ret;

	for (; roles && roles->name; roles++) {
		if (strcmp(roles->name, argv[2]))
			continue;
		alarm(TEST_SECONDS);
		ret = roles->fn(argc - 3, argv + 3);
		while (context_count)
			test_close(contexts[context_count - 1]);
		if (!first_note[0])
			return ret;
		fprintf(stderr, "child %s: %s\n", argv[2], first_note);
		return 1;
	}
	return 127;
}

void need_rdma(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	if (!test_addr() || !test_addr6()) {
		fprintf(stderr, "skip: no RDMAMSG_VM_ADDR: not in the test "
			"machine\n");
		exit(77);
	}
	if (rdmamsg_devices(NULL, 0, 0) <= 0) {
		fprintf(stderr, "skip: no RDMA device: %s\n", rdmamsg_error());
		exit(77);
	}
}

void skip_because(const char *why)
{
	fprintf(stderr, "skip: %s\n", why);
	skip();
}

bool test_on_siw(void)
{
	return !strncmp(test_device(), "siw", 3);
}

void check_refused(const struct end *e, const struct cookie *c)
{
	/* of many requests, some may have completed */
	if (test_iwarp() && (!c->status || c->status == -ECANCELED))
		return;
	assert_int_equal(c->status, -EACCES);
	assert_int_equal(e->why.cause, RDMAMSG_CAUSE_ACCESS);
}

void skip_on_iwarp(const char *why)
{
	if (test_iwarp())
		skip_because(why);
}

void end_on_iwarp(const char *why)
{
	if (!test_iwarp())
		return;
	fprintf(stderr, "skip: %s\n", why);
	exit(77);
}
