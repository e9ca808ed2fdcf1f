/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE
#include "common.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define CONTEXTS_MAX	256

static struct rdmamsg *contexts[CONTEXTS_MAX];
static int context_count;
static char first_note[256];
bool errors_are_fine;

/* ---- contexts --------------------------------------------------------- */

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
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
	/* the same tests, with receives that are shared */
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
		if (fds[i].revents && rdmamsg_process(ctx[i]) < 0)
			fail_msg("rdmamsg_process: %s", rdmamsg_error());
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

/* ---- ends of connections ---------------------------------------------- */

static void on_connected(struct rdmamsg_ep *ep)
{
	struct end *e = rdmamsg_ep_user(ep);

	if (e->connected++ || e->closed || e->received)
		note("%s: on_connected out of turn", e->name);
	if (rdmamsg_ep_state(ep) != RDMAMSG_CONNECTED)
		note("%s: on_connected, but state %d", e->name,
		     rdmamsg_ep_state(ep));
	if (e->then_connected)
		e->then_connected(e);
}

static void check_message(struct end *e, const struct rdmamsg_msg *msg)
{
	const struct expected *x = &e->expected[e->received];
	size_t len = rdmamsg_msg_len(msg);

	if (e->expect_nothing)
		return;
	if (e->received >= e->expected_count)
		note("%s: message %zu of %zu bytes, not expected", e->name,
		     e->received, len);
	else if (len != x->len || rdmamsg_msg_tag(msg) != x->tag)
		note("%s: message %zu: %zu bytes, tag %u, not %zu, %u", e->name,
		     e->received, len, rdmamsg_msg_tag(msg), x->len, x->tag);
	else if (len && len <= PATTERN_MAX &&
		 memcmp(rdmamsg_msg_data(msg), pattern(x->tag), len))
		note("%s: message %zu of %zu bytes: wrong content", e->name,
		     e->received, len);
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct end *e = rdmamsg_ep_user(ep);

	if (e->connected != 1 || e->closed)
		note("%s: a message when connected %u, closed %u", e->name,
		     e->connected, e->closed);
	check_message(e, msg);
	e->received++;
	if (e->then_message) {
		e->then_message(e, msg);
		return;
	}
	if (!e->keep) {
		rdmamsg_msg_free(msg);
		return;
	}
	if (e->kept_count == e->kept_room) {
		e->kept_room = e->kept_room ? 2 * e->kept_room : 64;
		e->kept = realloc(e->kept, e->kept_room * sizeof(*e->kept));
	}
	e->kept[e->kept_count++] = msg;
}

static void on_sent(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct end *e = rdmamsg_ep_user(ep);
	struct cookie *c = cookie;

	if (c->count++ || e->closed)
		note("%s: on_sent %u times, closed %u", e->name, c->count,
		     e->closed);
	if (status > 0)
		note("%s: on_sent with status %d", e->name, status);
	c->status = status;
	if (status)
		e->sent_failed++;
	else
		e->sent_ok++;
	if (e->then_sent)
		e->then_sent(e);
}

static void on_writable(struct rdmamsg_ep *ep)
{
	struct end *e = rdmamsg_ep_user(ep);

	if (e->closed)
		note("%s: on_writable after on_closed", e->name);
	e->writable++;
	if (e->then_writable)
		e->then_writable(e);
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct end *e = rdmamsg_ep_user(ep);

	if (e->closed++)
		note("%s: on_closed twice", e->name);
	if (rdmamsg_ep_state(ep) != RDMAMSG_CLOSED ||
	    rdmamsg_ep_reason(ep) != why)
		note("%s: on_closed, but state %d", e->name,
		     rdmamsg_ep_state(ep));
	if (!why->who || !why->cause || !why->text[0] ||
	    (why->error == 0) != (why->cause == RDMAMSG_CAUSE_CLOSED))
		note("%s: closed by %d, cause %d, error %d: '%s'", e->name,
		     why->who, why->cause, why->error, why->text);
	e->why = *why;
	if (why->data_len)
		memcpy(e->why_data, why->data, why->data_len);
	e->why.data = e->why_data;
	for (const struct cookie *c = e->cookies; c; c = c->next)
		if (c->count != 1)
			note("%s: closed with a cookie given back %u times",
			     e->name, c->count);
	if (e->then_closed)
		e->then_closed(e);
	e->ep = NULL;
}

void end_init(struct end *e, const char *name, struct rdmamsg *ctx)
{
	memset(e, 0, sizeof(*e));
	e->name = name;
	e->ctx = ctx;
	e->on = (struct rdmamsg_handlers) {
		.size = sizeof(e->on),
		.on_connected = on_connected,
		.on_message = on_message,
		.on_sent = on_sent,
		.on_writable = on_writable,
		.on_closed = on_closed,
	};
	e->opts = (struct rdmamsg_ep_options) {
		.size = sizeof(e->opts), .user = e, .handlers = &e->on,
		.timeout_ms = WAIT_MS, .close_timeout_ms = WAIT_MS,
	};
}

void end_fini(struct end *e)
{
	while (e->cookies) {
		struct cookie *c = e->cookies;

		e->cookies = c->next;
		free(c);
	}
	free(e->kept);
	free(e->expected);
	e->kept = NULL;
	e->expected = NULL;
	e->kept_count = e->kept_room = 0;
	e->expected_count = e->expected_room = 0;
}

struct cookie *end_cookie(struct end *e)
{
	struct cookie *c = calloc(1, sizeof(*c));

	c->next = e->cookies;
	e->cookies = c;
	return c;
}

static void drop_cookie(struct end *e)
{
	struct cookie *c = e->cookies;

	e->cookies = c->next;
	free(c);
}

void end_expect(struct end *e, size_t len, uint32_t tag)
{
	if (e->expected_count == e->expected_room) {
		e->expected_room = e->expected_room ? 2 * e->expected_room : 64;
		e->expected = realloc(e->expected, e->expected_room *
				      sizeof(*e->expected));
	}
	e->expected[e->expected_count].len = len;
	e->expected[e->expected_count++].tag = tag;
}

static int send_msg(struct end *e, size_t len, uint32_t tag, void *cookie)
{
	struct rdmamsg_msg *msg;
	int ret = rdmamsg_msg_alloc(e->ep, len, &msg);

	if (ret)
		return ret;
	if (len)
		memcpy(rdmamsg_msg_data(msg), pattern(tag), len);
	ret = rdmamsg_msg_send(e->ep, msg, tag, cookie);
	if (ret)
		rdmamsg_msg_free(msg);
	return ret;
}

int end_sendv(struct end *e, int segments, size_t len, uint32_t tag)
{
	struct iovec iov[RDMAMSG_SEGMENTS_MAX];
	struct cookie *c = end_cookie(e);
	size_t at = 0;
	int ret;

	for (int i = 0; i < segments; i++) {
		/* uneven, and some of them empty */
		size_t n = i == segments - 1 ? len - at :
			   i % 3 == 1 ? 0 : (len - at) / 2;

		iov[i].iov_base = n ? (void *)(uintptr_t)(pattern(tag) + at) :
				  NULL;
		iov[i].iov_len = n;
		at += n;
	}
	ret = rdmamsg_sendv(e->ep, iov, segments, tag, c);
	if (ret) {
		drop_cookie(e);
		return ret;
	}
	e->sent++;
	end_expect(e->peer, at, tag);
	return 0;
}

int end_send(struct end *e, enum how how, size_t len, uint32_t tag)
{
	struct cookie *c;
	int ret;

	if (how == HOW_SENDV)
		return end_sendv(e, 1 + tag % 4, len, tag);
	c = end_cookie(e);
	if (how == HOW_MSG)
		ret = send_msg(e, len, tag, c);
	else
		ret = rdmamsg_send(e->ep, pattern(tag), len, tag, c);
	if (ret) {
		drop_cookie(e);
		return ret;
	}
	e->sent++;
	end_expect(e->peer, len, tag);
	return 0;
}

void end_send_all(struct end *e, enum how how, size_t len, uint32_t tag)
{
	int ret;

	for (;;) {
		unsigned int before = e->writable;

		ret = end_send(e, how, len, tag);
		if (ret != -EAGAIN)
			break;
		WAIT_FOR(e->writable != before || e->closed);
		if (e->closed)
			fail_msg("%s: closed: %s", e->name, e->why.text);
	}
	if (ret)
		fail_msg("%s: sending %zu bytes (%d): %s", e->name, len, how,
			 rdmamsg_error());
}

void end_release(struct end *e)
{
	for (size_t i = 0; i < e->kept_count; i++)
		rdmamsg_msg_free(e->kept[i]);
	e->kept_count = 0;
}

struct rdmamsg_stats end_stats(const struct end *e)
{
	struct rdmamsg_stats s = { .size = sizeof(s) };

	if (rdmamsg_stats(e->ctx, &s))
		fail_msg("rdmamsg_stats: %s", rdmamsg_error());
	return s;
}

struct rdmamsg_ep_info end_info(const struct end *e)
{
	struct rdmamsg_ep_info i = { .size = sizeof(i) };

	if (rdmamsg_ep_info(e->ep, &i))
		fail_msg("rdmamsg_ep_info: %s", rdmamsg_error());
	return i;
}

void end_check_cookies(const struct end *e)
{
	for (const struct cookie *c = e->cookies; c; c = c->next)
		if (c->count != 1)
			fail_msg("%s: a cookie given back %u times", e->name,
				 c->count);
	assert_int_equal(e->sent_ok + e->sent_failed, e->sent);
}

/* ---- pairs ------------------------------------------------------------ */

const char *test_addr(void)
{
	return getenv("RDMAMSG_VM_ADDR");
}

const char *test_addr6(void)
{
	return getenv("RDMAMSG_VM_ADDR6");
}

const char *test_name(void)
{
	const char *name = getenv("RDMAMSG_VM_HOST");

	return name ? name : "rxe-host";
}

const char *test_device(void)
{
	const char *name = getenv("RDMAMSG_VM_DEVICE");

	return name ? name : "rxe0";
}

bool test_on_soft(void)
{
	return !strcmp(test_device(), "soft0");
}

const char *test_kind(void)
{
	return test_on_soft() ? "soft" : "soft-roce";
}

const char *listener_service(struct rdmamsg_listener *l, char buf[static 8])
{
	snprintf(buf, 8, "%u", rdmamsg_listener_port(l));
	return buf;
}

void pair_init(struct pair *p, const struct rdmamsg_options *opts)
{
	memset(p, 0, sizeof(*p));
	end_init(&p->s, "server", test_open(opts));
	end_init(&p->c, "client", test_open(opts));
	p->s.peer = &p->c;
	p->c.peer = &p->s;
}

void pair_on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct pair *p = rdmamsg_listener_user(l);

	if (rdmamsg_accept(req, &p->s.opts, &p->s.ep))
		note("rdmamsg_accept: %s", rdmamsg_error());
}

void pair_listen(struct pair *p)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .user = p, .on_request = pair_on_request,
	};

	if (rdmamsg_listen(p->s.ctx, test_addr(), "0", &opts, &p->listener))
		fail_msg("rdmamsg_listen: %s", rdmamsg_error());
	listener_service(p->listener, p->port);
}

void pair_connect(struct pair *p)
{
	if (rdmamsg_connect(p->c.ctx, test_addr(), p->port, &p->c.opts,
			    &p->c.ep))
		fail_msg("rdmamsg_connect: %s", rdmamsg_error());
	WAIT_FOR((p->s.connected && p->c.connected) || p->c.closed ||
		 p->s.closed);
	if (p->c.closed || p->s.closed)
		fail_msg("not connected: %s", p->c.closed ? p->c.why.text :
			 p->s.why.text);
}

void pair_open(struct pair *p)
{
	pair_init(p, NULL);
	pair_listen(p);
	pair_connect(p);
}

static void check_graceful(const struct end *e)
{
	if (e->why.cause != RDMAMSG_CAUSE_CLOSED || e->why.error)
		fail_msg("%s: closed by %d, cause %d, error %d: %s", e->name,
			 e->why.who, e->why.cause, e->why.error, e->why.text);
	assert_int_equal(e->received, e->expected_count);
	assert_int_equal(e->sent_failed, 0);
	end_check_cookies(e);
}

void pair_close(struct pair *p)
{
	rdmamsg_ep_close(p->c.ep);
	WAIT_FOR(p->c.closed && p->s.closed);
	check_graceful(&p->c);
	check_graceful(&p->s);
}

void pair_fini(struct pair *p)
{
	test_close(p->c.ctx);
	test_close(p->s.ctx);
	check_notes();
	end_fini(&p->c);
	end_fini(&p->s);
}

/* ---- processes -------------------------------------------------------- */

void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	fflush(stdout);
}

void child_start(struct child *c, const char *role, const char *arg)
{
	int to[2], from[2];

	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		fail_msg("pipe: %s", strerror(errno));
	fflush(NULL);
	c->pid = fork();
	if (c->pid < 0)
		fail_msg("fork: %s", strerror(errno));
	if (!c->pid) {
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		execl("/proc/self/exe", "child", "--child", role, arg, NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	c->to = to[1];
	c->from = from[0];
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

void child_line(struct child *c, char *buf, size_t size)
{
	struct pollfd fd = { .fd = c->from, .events = POLLIN };
	size_t n = 0;

	while (n < size - 1) {
		ssize_t got;

		WAIT_FOR(poll(&fd, 1, 0) > 0);
		got = read(c->from, buf + n, 1);
		if (got != 1)
			fail_msg("the child said '%.*s' and ended", (int)n, buf);
		if (buf[n] == '\n')
			break;
		n++;
	}
	buf[n] = 0;
}

void child_say(struct child *c, const char *line)
{
	if (write(c->to, line, strlen(line)) < 0)
		fail_msg("to the child: %s", strerror(errno));
}

int child_wait(struct child *c)
{
	int status = 0;

	WAIT_FOR(waitpid(c->pid, &status, WNOHANG) == c->pid);
	close(c->to);
	close(c->from);
	return status;
}

int open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

int rdma_count(const char *what)
{
	char word[16];
	int count = -1, n;
	FILE *f = popen("rdma resource show", "r");

	if (!f)
		return -1;
	while (fscanf(f, "%15s", word) == 1)
		if (!strcmp(word, what) && fscanf(f, "%d", &n) == 1)
			count = n;
	pclose(f);
	return count;
}

/* ---- main ------------------------------------------------------------- */

static void dump_line(void *arg, const char *text)
{
	fprintf(stderr, "  %s\n", text);
}

/* Not safe in a signal handler; it is about to fail anyway. */
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
	errors_are_fine = false;
	rdmamsg_set_log(on_log, NULL, RDMAMSG_LOG_ERROR);
	return 0;
}

int test_teardown(void **state)
{
	while (context_count)
		test_close(contexts[context_count - 1]);
	alarm(0);
	return 0;
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
