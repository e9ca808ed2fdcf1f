/* SPDX-License-Identifier: BSD-2-Clause */
/* Log, environment, error texts. The environment is read once per process. */
#include "base/base.h"
#include "device/verbs_api.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>
#include <infiniband/verbs.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char lines[64][512];
static enum rdmamsg_log_level levels[64];
static int count;

static void collect(void *arg, enum rdmamsg_log_level level, const char *line)
{
	assert_ptr_equal(arg, &count);
	levels[count] = level;
	snprintf(lines[count++], sizeof(lines[0]), "%s", line);
}

/* Runs fn in a child with its stderr in 'out'; returns its exit status. */
static int in_child(int (*fn)(void), char *out, size_t size)
{
	int fds[2], status;
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		dup2(fds[1], 2);
		close(fds[0]);
		close(fds[1]);
		_exit(fn());
	}
	close(fds[1]);
	while ((got = read(fds[0], out + n, size - 1 - n)) > 0)
		n += (size_t)got;
	out[n] = 0;
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int all_levels(void)
{
	rdmamsg__env_init();
	log_error("an error");
	log_warn("a warning");
	log_info("an information");
	log_debug("for debugging");
	return 0;
}

static void log__nothing_asked_SILENT(void **state)
{
	char out[4096];

	unsetenv("RDMAMSG_LOG");
	assert_int_equal(in_child(all_levels, out, sizeof(out)), 0);
	assert_string_equal(out, "");
}

/* As in a program whose locale is Turkish, where I and i are two letters. */
int __wrap_strcasecmp(const char *a, const char *b);
int __wrap_strcasecmp(const char *a, const char *b)
{
	while (*a && (*a == *b || (*a != 'I' && *b != 'I' &&
				   (*a | 32) == (*b | 32)))) {
		a++;
		b++;
	}
	return *a - *b;
}

static void log__environment_SETS_THE_LEVEL(void **state)
{
	static const struct {
		const char *value;
		int lines;
	} cases[] = {
		{ "none", 0 }, { "error", 1 }, { "warn", 2 }, { "INFO", 3 },
		{ "debug", 4 },
	};
	char out[4096], *p;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int n = 0;

		setenv("RDMAMSG_LOG", cases[i].value, 1);
		assert_int_equal(in_child(all_levels, out, sizeof(out)), 0);
		for (p = out; (p = strchr(p, '\n')); p++)
			n++;
		assert_int_equal(n, cases[i].lines);
		assert_null(strstr(out, "RDMAMSG_LOG"));
	}
	unsetenv("RDMAMSG_LOG");
}

/* NNNN-NN-NNTNN:NN:NN.NNNZ */
static bool is_time(const char *text)
{
	for (const char *like = "0000-00-00T00:00:00.000Z"; *like; like++) {
		if (*like == '0' ? *text < '0' || *text > '9' : *text != *like)
			return false;
		text++;
	}
	return true;
}

static void log__lines_HAVE_THE_TIME(void **state)
{
	char out[4096];

	setenv("RDMAMSG_LOG", "error", 1);
	assert_int_equal(in_child(all_levels, out, sizeof(out)), 0);
	assert_true(is_time(out));
	assert_string_equal(out + 24, " rdmamsg: error: an error\n");
	unsetenv("RDMAMSG_LOG");
}

static int awkward_text(void)
{
	rdmamsg__env_init();
	log_error("a \"word\", a \\ and\n\1");
	return 0;
}

static void log__json_ONE_OBJECT_A_LINE(void **state)
{
	char out[4096];

	setenv("RDMAMSG_LOG", "warn,JSON", 1);
	assert_int_equal(in_child(awkward_text, out, sizeof(out)), 0);
	assert_int_equal(strncmp(out, "{\"time\":\"", 9), 0);
	assert_true(is_time(out + 9));
	assert_string_equal(out + 33, "\",\"level\":\"error\",\"text\":"
			    "\"a \\\"word\\\", a \\\\ and\\u000a\\u0001\"}\n");
	setenv("RDMAMSG_LOG", "info,xml", 1);
	assert_int_equal(in_child(all_levels, out, sizeof(out)), 0);
	assert_non_null(strstr(out, "RDMAMSG_LOG is 'info,xml'"));
	assert_null(strstr(out, "an information"));
	unsetenv("RDMAMSG_LOG");
}

static void log__environment_misspelt_SAYS_SO(void **state)
{
	char out[4096];

	setenv("RDMAMSG_LOG", "loud", 1);
	assert_int_equal(in_child(all_levels, out, sizeof(out)), 0);
	assert_non_null(strstr(out, "loud"));
	assert_non_null(strstr(out, "a warning"));
	assert_null(strstr(out, "an information"));
	unsetenv("RDMAMSG_LOG");
}

static void env__unknown_variable_REPORTED(void **state)
{
	char out[4096];

	setenv("RDMAMSG_LOGG", "debug", 1);
	setenv("RDMAMSG_VM_ADDR", "10.9.0.1", 1);
	setenv("RDMAMSGX", "not ours", 1);
	assert_int_equal(in_child(all_levels, out, sizeof(out)), 0);
	assert_non_null(strstr(out, "RDMAMSG_LOGG"));
	assert_null(strstr(out, "RDMAMSG_VM"));
	assert_null(strstr(out, "RDMAMSGX"));
	unsetenv("RDMAMSG_LOGG");
	unsetenv("RDMAMSG_VM_ADDR");
	unsetenv("RDMAMSGX");
}

static int device_is_rxe7(void)
{
	const char *device = rdmamsg__env_device();

	return !device || strcmp(device, "rxe7");
}

static int device_is_none(void)
{
	return rdmamsg__env_device() != NULL;
}

static int device_is_cut(void)
{
	const char *device = rdmamsg__env_device();

	return !device || strlen(device) >= 64;
}

static void env__device(void **state)
{
	char out[4096], longer[200];

	setenv("RDMAMSG_DEVICE", "rxe7", 1);
	assert_int_equal(in_child(device_is_rxe7, out, sizeof(out)), 0);
	assert_string_equal(out, "");
	setenv("RDMAMSG_DEVICE", "", 1);
	assert_int_equal(in_child(device_is_none, out, sizeof(out)), 0);
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = 0;
	setenv("RDMAMSG_DEVICE", longer, 1);
	assert_int_equal(in_child(device_is_cut, out, sizeof(out)), 0);
	unsetenv("RDMAMSG_DEVICE");
	assert_int_equal(in_child(device_is_none, out, sizeof(out)), 0);
}

static void set_log__callback_GETS_LINES(void **state)
{
	char longer[2000];

	count = 0;
	rdmamsg_set_log(collect, &count, RDMAMSG_LOG_INFO);
	errno = EXDEV;
	all_levels();
	assert_int_equal(errno, EXDEV);		/* logging keeps errno */
	assert_int_equal(count, 3);
	assert_int_equal(levels[0], RDMAMSG_LOG_ERROR);
	assert_int_equal(levels[2], RDMAMSG_LOG_INFO);
	assert_string_equal(lines[1], "a warning");
	/* a line that is too long is cut */
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = 0;
	log_info("%s", longer);
	assert_int_equal(count, 4);
	assert_in_range(strlen(lines[3]), 100, sizeof(lines[3]) - 1);
	rdmamsg_set_log(collect, &count, RDMAMSG_LOG_NONE);
	all_levels();
	assert_int_equal(count, 4);
	rdmamsg_set_log(NULL, NULL, RDMAMSG_LOG_DEBUG);
	all_levels();			/* the former callback gets no line */
	assert_int_equal(count, 4);
}

/* ---- error texts ------------------------------------------------------ */

static void fail__keeps_text_PER_THREAD(void **state)
{
	assert_int_equal(rdmamsg__fail(-EXDEV, "%s %d", "number", 7), -EXDEV);
	assert_string_equal(rdmamsg_error(), "number 7");
	/* a second failure replaces the text of the first */
	rdmamsg__fail(-EXDEV, "again");
	assert_string_equal(rdmamsg_error(), "again");
}

/* Each errno has its own advice in the text. */
static void fail_verbs__texts_DIFFER(void **state)
{
	static const int errs[] = {
		-EACCES, -ENOMEM, -ENODEV, -EADDRINUSE, -EADDRNOTAVAIL, -EIO,
	};
	char texts[6][512];

	for (int i = 0; i < 6; i++) {
		assert_int_equal(rdmamsg__fail_verbs(errs[i], "thing"),
				 errs[i]);
		snprintf(texts[i], sizeof(texts[i]), "%s", rdmamsg_error());
		assert_memory_equal(texts[i], "thing: ", 7);
		for (int j = 0; j < i; j++)
			assert_string_not_equal(texts[i], texts[j]);
	}
	assert_non_null(strstr(texts[0], "/dev/infiniband"));
	assert_non_null(strstr(texts[2], "rdma link add"));
}

static void verbs_ret__all_conventions_NEGATIVE_ERRNO(void **state)
{
	errno = EBUSY;
	assert_int_equal(rdmamsg__verbs_ret(0), 0);
	assert_int_equal(rdmamsg__verbs_ret(-1), -EBUSY);
	assert_int_equal(rdmamsg__verbs_ret(ENOMEM), -ENOMEM);
	assert_int_equal(rdmamsg__verbs_ret(-ENOMEM), -ENOMEM);
	assert_int_equal(rdmamsg__verbs_null(), -EBUSY);
	errno = 0;
	assert_true(rdmamsg__verbs_ret(-1) < 0);
	assert_true(rdmamsg__verbs_null() < 0);
}

static void texts__every_status_AND_EVENT(void **state)
{
	for (int i = IBV_WC_SUCCESS; i <= IBV_WC_GENERAL_ERR + 10; i++)
		assert_true(strlen(rdmamsg__wc_text(i)) > 0);
	for (int i = -1; i <= IBV_EVENT_WQ_FATAL + 5; i++)
		assert_true(strlen(rdmamsg__event_text(i)) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/*
		 * the first cases need children of a process that has not read
		 * its environment
		 */
		cmocka_unit_test(log__nothing_asked_SILENT),
		cmocka_unit_test(log__environment_SETS_THE_LEVEL),
		cmocka_unit_test(log__lines_HAVE_THE_TIME),
		cmocka_unit_test(log__json_ONE_OBJECT_A_LINE),
		cmocka_unit_test(log__environment_misspelt_SAYS_SO),
		cmocka_unit_test(env__unknown_variable_REPORTED),
		cmocka_unit_test(env__device),
		cmocka_unit_test(set_log__callback_GETS_LINES),
		cmocka_unit_test(fail__keeps_text_PER_THREAD),
		cmocka_unit_test(fail_verbs__texts_DIFFER),
		cmocka_unit_test(verbs_ret__all_conventions_NEGATIVE_ERRNO),
		cmocka_unit_test(texts__every_status_AND_EVENT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
