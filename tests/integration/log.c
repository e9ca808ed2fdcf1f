/* SPDX-License-Identifier: BSD-2-Clause */
/* The log: its lines, its output, and its environment variables. */
#include "common.h"

#include <rdmamsg/diag.h>

static struct pair p;

/* Makes a line of each possible level on its standard output. */
static int log_to_output(int argc, char **argv)
{
	struct rdmamsg_listener *l;
	struct rdmamsg *ctx;

	dup2(STDOUT_FILENO, STDERR_FILENO);
	if (rdmamsg_open(&ctx, NULL))
		return 1;
	if (rdmamsg_listen(ctx, test_addr(), "0", NULL, &l))	/* info */
		return 1;
	if (rdmamsg_listen(ctx, NULL, NULL, NULL, &l) != -EINVAL) /* debug */
		return 1;
	rdmamsg_close(ctx);
	say("end\n");
	return 0;
}

static void print_line(void *arg, enum rdmamsg_log_level level,
		       const char *line)
{
	say("%s %d: %s\n", (const char *)arg, level, line);
}

static int log_to_callback(int argc, char **argv)
{
	char name[] = "callback";

	rdmamsg_set_log(print_line, name, RDMAMSG_LOG_ERROR);
	return log_to_output(argc, argv);
}

struct log {
	char text[16384];
};

static void read_log(const char *role, const char *name, const char *value,
		     struct log *log)
{
	size_t at = 0;
	struct child c;

	if (name)
		setenv(name, value, 1);
	child_start(&c, role, NULL);
	if (name)
		unsetenv(name);
	for (;;) {
		char line[512];

		child_line(&c, line, sizeof(line));
		if (!strcmp(line, "end"))
			break;
		at += (size_t)snprintf(log->text + at, sizeof(log->text) - at,
				       "%s\n", line);
		assert_true(at < sizeof(log->text));
	}
	log->text[at] = 0;
	assert_int_equal(child_wait(&c), 0);
}

static void check_log(const struct log *log, const char *has, const char *not)
{
	if (has && !strstr(log->text, has))
		fail_msg("no '%s' in the log:\n%s", has, log->text);
	if (not && strstr(log->text, not))
		fail_msg("'%s' in the log:\n%s", not, log->text);
}

static void env__unknown_variable_IS_REPORTED(void **state)
{
	static struct log log;

	read_log("log", "RDMAMSG_FOO", "1", &log);
	check_log(&log, "RDMAMSG_FOO", "info:");
	check_log(&log, "rdmamsg-env(7)", "=1");
	/* a prefix of a known variable, and a known variable as a prefix */
	read_log("log", "RDMAMSG_LO", "debug", &log);
	check_log(&log, "RDMAMSG_LO:", "debug:");
	read_log("log", "RDMAMSG_LOGS", "debug", &log);
	check_log(&log, "RDMAMSG_LOGS", "debug:");
	read_log("log", "RDMAMSG_SOFT_FABIRC", "x", &log);
	check_log(&log, "RDMAMSG_SOFT_FABIRC", "info:");
	read_log("log", "RDMAMSG_SOFT_NO_VM", "1", &log);
	assert_string_equal(log.text, "");
	/* the variables of the test machines are no typing errors */
	read_log("log", "RDMAMSG_VM_FOO", "1", &log);
	assert_string_equal(log.text, "");
	read_log("log", "RDMAMSGFOO", "1", &log);
	assert_string_equal(log.text, "");
}

static void env__no_variable_IS_SILENT(void **state)
{
	static struct log log;

	read_log("log", NULL, NULL, &log);
	assert_string_equal(log.text, "");
}

static void env__log_levels_AS_ASKED(void **state)
{
	static struct log log;

	read_log("log", "RDMAMSG_LOG", "none", &log);
	assert_string_equal(log.text, "");
	read_log("log", "RDMAMSG_LOG", "error", &log);
	assert_string_equal(log.text, "");
	read_log("log", "RDMAMSG_LOG", "warn", &log);
	assert_string_equal(log.text, "");
	read_log("log", "RDMAMSG_LOG", "info", &log);
	check_log(&log, "rdmamsg: info: context 0: listening on port", "debug:");
	read_log("log", "RDMAMSG_LOG", "INFO", &log);
	check_log(&log, "rdmamsg: info: context 0: listening on port", "debug:");
	read_log("log", "RDMAMSG_LOG", "debug", &log);
	check_log(&log, "rdmamsg: info: context 0: listening on port", NULL);
	check_log(&log, "rdmamsg: debug: rdmamsg_listen: service", NULL);
	read_log("log", "RDMAMSG_LOG", "loud", &log);
	check_log(&log, "RDMAMSG_LOG is 'loud'", "info:");
}

static void env__log_level_WINS_OVER_THE_PROGRAMS(void **state)
{
	static struct log log;

	read_log("log-callback", NULL, NULL, &log);
	assert_string_equal(log.text, "");
	read_log("log-callback", "RDMAMSG_LOG", "info", &log);
	check_log(&log, "callback 3: context 0: listening on port", "rdmamsg: ");
	read_log("log-callback", "RDMAMSG_LOG", "debug", &log);
	check_log(&log, "callback 4: rdmamsg_listen: service", "rdmamsg: info");
}

static unsigned int lines_of[5];
static unsigned int begun, ended;	/* lines that tell of a connection */
static char sessions[8][16];		/* that they name */
static unsigned int session_count;

/* Lines of debug may come before the server knows the session. */
static void note_session(enum rdmamsg_log_level level, const char *line)
{
	const char *at = strstr(line, ", session ");
	unsigned int i = 0;
	char text[16];

	if (!at && level == RDMAMSG_LOG_DEBUG)
		return;
	if (!at || sscanf(at, ", session %15[0-9a-f]:", text) != 1 ||
	    strlen(text) != 8)
		note("no session: '%s'", line);
	while (i < session_count && strcmp(sessions[i], text))
		i++;
	if (at && i == session_count && i < ARRAY_SIZE(sessions))
		strcpy(sessions[session_count++], text);
}

static void count_line(void *arg, enum rdmamsg_log_level level,
		       const char *line)
{
	if (arg != lines_of || level < RDMAMSG_LOG_ERROR ||
	    level > RDMAMSG_LOG_DEBUG || !line[0] || strchr(line, '\n'))
		note("level %d: '%s'", level, line);
	else
		lines_of[level]++;
	if (strncmp(line, "context ", 8) || !strstr(line, " -> "))
		return;
	note_session(level, line);
	begun += !!strstr(line, ": connected on ");
	ended += !!strstr(line, ": closed (");
}

/* The session in the lines of this endpoint. */
static const char *session_of(const struct end *e, char buf[static 16])
{
	const struct rdmamsg_ep_attr info = end_info(e);

	snprintf(buf, 16, "%02x%02x%02x%02x", info.session[0], info.session[1],
		 info.session[2], info.session[3]);
	return buf;
}

/* Causes one error, and some lines of info and debug. */
static void make_lines(enum rdmamsg_log_level level)
{
	memset(lines_of, 0, sizeof(lines_of));
	begun = ended = 0;
	rdmamsg_set_log(count_line, lines_of, level);
	pair_open(&p);
	p.s.keep = true;
	end_send_all(&p.c, HOW_SEND, 1, 1);
	WAIT_FOR(p.s.received);
	rdmamsg_msg_free(p.s.kept[0]);
	rdmamsg_msg_free(p.s.kept[0]);	/* the library owns it from here on */
	p.s.kept_count = 0;
	assert_error(rdmamsg_sendv(p.c.ep, NULL, 1, 0, NULL), -EINVAL, "");
	pair_close(&p);
	pair_fini(&p);
}

/* The client's and the server's lines, of each of two connections. */
static void lines__of_both_sides_NAME_ONE_SESSION(void **state)
{
	char text[16];

	if (getenv("RDMAMSG_LOG")) {
		skip_because("RDMAMSG_LOG is set");
		return;
	}
	session_count = begun = ended = 0;
	rdmamsg_set_log(count_line, lines_of, RDMAMSG_LOG_DEBUG);
	pair_init(&p, NULL);
	pair_listen(&p);
	for (unsigned int n = 1; n <= 2; n++) {
		p.c.connected = p.s.connected = p.c.closed = p.s.closed = 0;
		pair_connect(&p);
		assert_int_equal(begun, 2 * n);
		assert_int_equal(session_count, n);
		assert_string_equal(session_of(&p.c, text), sessions[n - 1]);
		assert_string_equal(session_of(&p.s, text), sessions[n - 1]);
		pair_close(&p);
		assert_int_equal(ended, 2 * n);
		assert_int_equal(session_count, n);
	}
	pair_fini(&p);
}

static void set_log__levels_AS_ASKED(void **state)
{
	if (getenv("RDMAMSG_LOG")) {
		skip_because("RDMAMSG_LOG is set");
		return;
	}
	make_lines(RDMAMSG_LOG_NONE);
	assert_int_equal(lines_of[RDMAMSG_LOG_ERROR], 0);
	make_lines(RDMAMSG_LOG_ERROR);
	assert_int_equal(lines_of[RDMAMSG_LOG_ERROR], 1);
	assert_int_equal(lines_of[RDMAMSG_LOG_INFO], 0);
	make_lines(RDMAMSG_LOG_WARN);
	assert_int_equal(lines_of[RDMAMSG_LOG_ERROR], 1);
	assert_int_equal(lines_of[RDMAMSG_LOG_INFO], 0);
	make_lines(RDMAMSG_LOG_INFO);
	assert_int_equal(lines_of[RDMAMSG_LOG_ERROR], 1);
	assert_true(lines_of[RDMAMSG_LOG_INFO] > 0);
	assert_int_equal(lines_of[RDMAMSG_LOG_DEBUG], 0);
	/* of both sides */
	assert_int_equal(begun, 2);
	assert_int_equal(ended, 2);
	make_lines(RDMAMSG_LOG_DEBUG);
	assert_true(lines_of[RDMAMSG_LOG_INFO] > 0);
	assert_true(lines_of[RDMAMSG_LOG_DEBUG] > 0);
	rdmamsg_set_log(NULL, NULL, RDMAMSG_LOG_DEBUG);
	memset(lines_of, 0, sizeof(lines_of));
	assert_error(rdmamsg_open(NULL, NULL), -EINVAL, "ret");
	assert_int_equal(lines_of[RDMAMSG_LOG_DEBUG], 0);
}

int main(int argc, char **argv)
{
	static const struct role roles[] = {
		{ "log", log_to_output }, { "log-callback", log_to_callback },
		{ NULL },
	};
	const struct CMUnitTest tests[] = {
		TEST(env__unknown_variable_IS_REPORTED),
		TEST(env__no_variable_IS_SILENT),
		TEST(env__log_levels_AS_ASKED),
		TEST(env__log_level_WINS_OVER_THE_PROGRAMS),
		TEST(set_log__levels_AS_ASKED),
		TEST(lines__of_both_sides_NAME_ONE_SESSION),
	};

	return test_main(tests, roles, argc, argv);
}
