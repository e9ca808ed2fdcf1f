/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: the socket of RDMAMSG_STATS, and readers of all sorts. */
#include "base/ctx.h"
#include "device/verbs_api.h"
#include "loop/stats_server.h"
#include "../../fds.h"
#include "../own_fabric.h"
#include "../two_ends.h"
#include "exposition.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/memory.h>

#define POOLS	2000		/* so many that no socket takes their text */

static char dir[] = "/tmp/rdmamsg-stats-XXXXXX";
static char path[128];		/* of the first context */
static char logged[512];
static unsigned int refused;		/* accepts without a descriptor */
static char text[8 << 20];

static void on_log(void *arg, enum rdmamsg_log_level level, const char *line)
{
	(void)snprintf(logged, sizeof(logged), "%s", line);
	refused += strstr(line, "Too many open files") != NULL;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	((struct side *)rdmamsg_ep_user(ep))->messages++;
	rdmamsg_msg_free(msg);
}

static const struct rdmamsg_ep_handlers handlers =
	END_HANDLERS(on_message);

static void open_both(void)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
	};

	rdmamsg__verbs = &rdmamsg__verbs_soft;
	connect_ends(&opts);
}

static void close_both(void)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	clear_ends();
}

static struct sockaddr_un address_of(const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	assert_true(strlen(name) < sizeof(addr.sun_path));
	strcpy(addr.sun_path, name);
	return addr;
}

static int dial(const char *name)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct sockaddr_un addr = address_of(name);
	socklen_t len = sizeof(addr);

	if (name[0] == '@') {
		addr.sun_path[0] = 0;
		len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
				  strlen(name));
	}
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, len), 0);
	return fd;
}

/* Reads what has come. Returns true at the end. */
static bool read_some(int fd, size_t *len)
{
	ssize_t n = recv(fd, text + *len, sizeof(text) - 1 - *len,
			 MSG_DONTWAIT);

	if (n > 0)
		*len += (size_t)n;
	text[*len] = 0;
	assert_true(n >= 0 || errno == EAGAIN);
	return !n;
}

static void message(void)
{
	unsigned int sent = client.sent;

	if (!rdmamsg_send(client.ep, "hello", 5, 0, text))
		WAIT_FOR(client.sent > sent);
}

/* Reads what a path answers to a request, while messages pass. */
static void ask(const char *name, const char *request)
{
	size_t len = 0;
	int fd = dial(name);
	uint64_t end = rdmamsg__now_ms() + WAIT_MS;

	assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL),
			 strlen(request));
	while (!read_some(fd, &len)) {
		assert_true(rdmamsg__now_ms() < end);
		message();
	}
	close(fd);
}

/* Any word but GET only saves the wait for one. */
static void read_all(const char *name)
{
	ask(name, "\n");
	parse(text);
}

static void get__at_the_socket_IS_ANSWERED_AS_HTTP(void **state)
{
	char *body, *length;

	open_both();
	ask(path, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
	assert_int_equal(strncmp(text, "HTTP/1.0 200 OK\r\n", 17), 0);
	length = strstr(text, "\r\nContent-Length: ");
	body = strstr(text, "\r\n\r\n");
	assert_true(length && body && length < body);
	assert_non_null(strstr(text, "text/plain; version=0.0.4\r\n"));
	body += 4;
	assert_int_equal(strtoul(length + 18, NULL, 10), strlen(body));
	parse(body);
	assert_true(sample("rdmamsg_messages_sent_total{context=\"0\"}") > 0);
	close_both();
}

static void dump__at_the_socket_NAMES_ENDPOINTS_AND_PEERS(void **state)
{
	open_both();
	ask(path, "dump\n");
	assert_int_equal(strncmp(text, "rdmamsg ", 8), 0);
	assert_non_null(strstr(text, "context"));
	assert_non_null(strstr(text, "\nendpoint "));
	assert_non_null(strstr(text, " -> 127.0.0.1"));
	assert_int_equal(text[strlen(text) - 1], '\n');
	close_both();
}

/* Runs rdmamsg-info on the path, while messages pass. Returns its status. */
static int run_info(const char *to)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		(void)execl("/bin/sh", "sh", "-c", "exec \"${builddir:-.}\"/"
			    "samples/rdmamsg-info --stats=\"$0\" >\"$1\"",
			    path, to, NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, WNOHANG) != pid)
		message();
	return status;
}

static void info__of_two_contexts_IS_ONE_TEXT(void **state)
{
	const char *build = getenv("builddir");
	char to[160], *endpoints;
	size_t len;
	int fd;

	(void)snprintf(to, sizeof(to), "%s/samples/rdmamsg-info",
		       build ? build : ".");
	if (access(to, X_OK))
		skip();		/* only the tests are built */
	open_both();
	(void)snprintf(to, sizeof(to), "%s/out", dir);
	assert_int_equal(run_info(to), 0);
	fd = open(to, O_RDONLY);
	len = (size_t)read(fd, text, sizeof(text) - 1);
	assert_in_range(len, 1, sizeof(text) - 2);
	text[len] = 0;
	close(fd);
	assert_int_equal(unlink(to), 0);
	/* in comments behind the samples */
	endpoints = strstr(text, "# endpoint ");
	assert_non_null(endpoints);
	*endpoints = 0;
	parse(text);
	assert_true(sample("rdmamsg_messages_sent_total{context=\"0\"}") > 0);
	assert_int_equal(sample("rdmamsg_messages_sent_total{context=\"1\"}"),
			 0);
	assert_int_equal(samples_of("rdmamsg_device_info{"), 2);
	close_both();
}

static void socket__under_traffic_GIVES_THE_TEXT(void **state)
{
	struct rdmamsg_stats s = { .size = sizeof(s) };
	char second[160];
	uint64_t sent;

	open_both();
	(void)snprintf(second, sizeof(second), "%s.1", path);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(rdmamsg_get_stats(client.ctx, &s), 0);
		sent = s.msgs_sent;
		read_all(path);
		assert_int_equal(rdmamsg_get_stats(client.ctx, &s), 0);
		assert_in_range(sample("rdmamsg_messages_sent_total"
				       "{context=\"0\"}"), sent, s.msgs_sent);
		assert_true(s.msgs_sent > sent);
		read_all(second);
		(void)sample("rdmamsg_messages_received_total{context=\"1\"}");
	}
	close_both();
}

static void readers__that_never_read_ARE_CUT_OFF(void **state)
{
	int fds[2 * STATS_READERS], before;
	struct rdmamsg_pool *pool;
	size_t whole, len;

	open_both();
	before = open_fds();
	for (int i = 0; i < POOLS; i++)
		assert_int_equal(rdmamsg_pool_create(client.ctx, NULL, &pool),
				 0);
	whole = (size_t)rdmamsg_stats_text(client.ctx, NULL, 0);
	for (int i = 0; i < 2 * STATS_READERS; i++) {
		fds[i] = dial(path);
		for (int j = 0; j < 5; j++)
			message();
		/* the others wait in the backlog */
		assert_true(open_fds() <= before + i + 1 + STATS_READERS);
	}
	read_all(path);
	assert_int_equal(samples_of("rdmamsg_pool_buffers{"), POOLS);
	/* no more descriptors than those of this test */
	WAIT_FOR(open_fds() == before + 2 * STATS_READERS);
	for (int i = 0; i < 2 * STATS_READERS; i++) {
		len = 0;
		while (!read_some(fds[i], &len))
			both();
		assert_in_range(len, 1, whole - 1);
		close(fds[i]);
	}
	read_all(path);
	close_both();
}

static void reader__that_goes_away_COSTS_NOTHING(void **state)
{
	struct rdmamsg_pool *pool;
	int before;

	open_both();
	before = open_fds();
	for (int i = 0; i < POOLS; i++)
		assert_int_equal(rdmamsg_pool_create(client.ctx, NULL, &pool),
				 0);
	for (int i = 0; i < 3 * STATS_READERS; i++) {
		int fd = dial(path);

		message();
		close(fd);
	}
	WAIT_FOR(open_fds() == before);
	read_all(path);
	close_both();
}

/* The loop must not be woken again and again by what it cannot accept. */
static void accept__without_descriptors_IS_TRIED_LATER(void **state)
{
	struct rlimit none, all;
	size_t len = 0;
	uint64_t begun;
	int fd;

	open_both();
	refused = 0;
	begun = rdmamsg__now_ms();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
	fd = dial(path);
	none = all;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	WAIT_FOR(refused);
	for (int i = 0; i < 10; i++)
		assert_true(rdmamsg_process(client.ctx) >= 0);
	/* once, and again for each second that the test stood still */
	assert_in_range(refused, 1, 1 + (rdmamsg__now_ms() - begun) / 1000);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
	WAIT_FOR(read_some(fd, &len));
	parse(text);
	close(fd);
	close_both();
}

static void expect_no_effect(struct rdmamsg *ctx, const char *at,
			     const char *why)
{
	char before[256];

	(void)rdmamsg_pool_destroy((struct rdmamsg_pool *)NULL);
	assert_int_equal(rdmamsg_stats_text(NULL, NULL, 0), -EINVAL);
	(void)snprintf(before, sizeof(before), "%s", rdmamsg_error());
	logged[0] = 0;
	rdmamsg__stats_open(ctx, at);
	assert_null(ctx->stats);
	if (!strstr(logged, "has no effect") || !strstr(logged, why))
		fail_msg("not '%s': %s", why, logged);
	assert_string_equal(rdmamsg_error(), before);
}

static int occupy(const char *name)
{
	struct sockaddr_un addr = address_of(name);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static void path__that_cannot_be_bound_IS_LOGGED(void **state)
{
	char missing[128], used[128], file[128], longest[300];
	struct rdmamsg *ctx;
	struct stat st;
	int fd, before;

	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	rdmamsg__stats_close(ctx);
	(void)snprintf(missing, sizeof(missing), "%s/none/socket", dir);
	(void)snprintf(used, sizeof(used), "%s/used", dir);
	(void)snprintf(file, sizeof(file), "%s/file", dir);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	fd = occupy(used);
	assert_true(close(open(file, O_CREAT | O_WRONLY, 0600)) == 0);
	before = open_fds();
	expect_no_effect(ctx, missing, "No such file");
	expect_no_effect(ctx, longest, "too long");
	expect_no_effect(ctx, used, "%p");
	expect_no_effect(ctx, file, "%p");
	assert_int_equal(open_fds(), before);
	assert_int_equal(stat(used, &st), 0);
	assert_int_equal(stat(file, &st), 0);
	/* of a process that has ended */
	close(fd);
	rdmamsg__stats_open(ctx, used);
	assert_non_null(ctx->stats);
	rdmamsg_close(ctx);
	assert_int_equal(stat(used, &st), -1);
	assert_int_equal(unlink(file), 0);
}

static void file__of_a_closed_context_IS_REMOVED(void **state)
{
	struct rdmamsg *first, *second, *third;
	char other[160];
	struct stat st;
	int fd;

	(void)snprintf(other, sizeof(other), "%s.1", path);
	assert_int_equal(rdmamsg_open(&first, NULL), 0);
	assert_int_equal(rdmamsg_open(&second, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(stat(other, &st), 0);
	rdmamsg_close(first);
	assert_int_equal(stat(path, &st), -1);
	assert_int_equal(stat(other, &st), 0);
	/* the number is free again */
	assert_int_equal(rdmamsg_open(&third, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	/* the file of another process stays */
	assert_int_equal(unlink(path), 0);
	fd = occupy(path);
	rdmamsg_close(third);
	assert_int_equal(stat(path, &st), 0);
	close(fd);
	assert_int_equal(unlink(path), 0);
	rdmamsg_close(second);
	assert_int_equal(stat(other, &st), -1);
}

/* Readers that are not done do not keep the context open. */
static void close__with_readers_ENDS_THEM(void **state)
{
	struct rdmamsg_pool *pool;
	int fds[3], before = open_fds();
	struct rdmamsg *ctx;
	size_t len;

	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	for (int i = 0; i < POOLS; i++)
		assert_int_equal(rdmamsg_pool_create(ctx, NULL, &pool), 0);
	for (int i = 0; i < 3; i++)
		fds[i] = dial(path);
	while (rdmamsg_process(ctx) > 0)
		;
	rdmamsg_close(ctx);
	for (int i = 0; i < 3; i++) {
		len = 0;
		while (!read_some(fds[i], &len))
			;
		assert_true(len > 0);
		close(fds[i]);
	}
	assert_int_equal(open_fds(), before);
}

static void address__abstract_HAS_NO_FILE(void **state)
{
	struct rdmamsg *ctx;
	char name[64];
	size_t len = 0;
	int fd;

	assert_int_equal(rdmamsg_open(&ctx, NULL), 0);
	rdmamsg__stats_close(ctx);
	rdmamsg__stats_open(ctx, "@rdmamsg-unit-%p");
	assert_non_null(ctx->stats);
	(void)snprintf(name, sizeof(name), "@rdmamsg-unit-%d", (int)getpid());
	fd = dial(name);
	while (!read_some(fd, &len))
		assert_true(rdmamsg_process(ctx) >= 0);
	parse(text);
	close(fd);
	rdmamsg_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(socket__under_traffic_GIVES_THE_TEXT),
		cmocka_unit_test(get__at_the_socket_IS_ANSWERED_AS_HTTP),
		cmocka_unit_test(dump__at_the_socket_NAMES_ENDPOINTS_AND_PEERS),
		cmocka_unit_test(info__of_two_contexts_IS_ONE_TEXT),
		cmocka_unit_test(readers__that_never_read_ARE_CUT_OFF),
		cmocka_unit_test(reader__that_goes_away_COSTS_NOTHING),
		cmocka_unit_test(accept__without_descriptors_IS_TRIED_LATER),
		cmocka_unit_test(path__that_cannot_be_bound_IS_LOGGED),
		cmocka_unit_test(file__of_a_closed_context_IS_REMOVED),
		cmocka_unit_test(close__with_readers_ENDS_THEM),
		cmocka_unit_test(address__abstract_HAS_NO_FILE),
	};
	char variable[128];
	int ret;

	if (!mkdtemp(dir))
		return 1;
	(void)snprintf(variable, sizeof(variable), "%s/%%p.sock", dir);
	(void)snprintf(path, sizeof(path), "%s/%d.sock", dir, (int)getpid());
	(void)setenv("RDMAMSG_STATS", variable, 1);
	(void)alarm(120);	/* far beyond what all of it takes */
	join_own_fabric("stats-server");
	rdmamsg_set_log(on_log, NULL, RDMAMSG_LOG_WARN);
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	/* fails if a file is left */
	return rmdir(dir) || ret;
}
