/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: in a program with a Turkish locale, where I is not the capital
 * of i and numbers have a decimal comma, the words of the environment and the
 * texts of the library are those of every other locale.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "../own_fabric.h"
#include "base/base.h"

#include <ctype.h>
#include <ftw.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <rdmamsg/diag.h>
#include <rdmamsg/rdmamsg.h>

#define NAME	"tr_TR.UTF-8"

static char dir[] = "/tmp/rdmamsg-locale.XXXXXX";

/* Returns the exit status of a child in which fn() runs. */
static int in_child(int (*fn)(const void *arg), const void *arg)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(fn(arg));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void locale__of_this_test_IS_TURKISH(void **state)
{
	char text[8];

	/* not by strcasecmp(), which a sanitizer replaces */
	assert_int_not_equal(tolower('I'), 'i');
	snprintf(text, sizeof(text), "%.1f", 0.5);
	assert_string_equal(text, "0,5");
}

/* ---- RDMAMSG_LOG ------------------------------------------------------- */

static int level_of(const void *value)
{
	(void)setenv("RDMAMSG_LOG", value, 1);
	rdmamsg__env_init();
	return rdmamsg__log_level;
}

static void log__words_in_any_case_ARE_READ(void **state)
{
	static const struct {
		const char *value;
		int level;
	} words[] = {
		{ "INFO", RDMAMSG_LOG_INFO }, { "info", RDMAMSG_LOG_INFO },
		{ "Info,JSON", RDMAMSG_LOG_INFO }, { "WARN", RDMAMSG_LOG_WARN },
		{ "ERROR", RDMAMSG_LOG_ERROR }, { "NONE", RDMAMSG_LOG_NONE },
		{ "DEBUG", RDMAMSG_LOG_DEBUG },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		assert_int_equal(in_child(level_of, words[i].value),
				 words[i].level);
}

/* ---- the soft HCA ------------------------------------------------------- */

/* Returns 0 if a context opens, with these words in the environment. */
static int opens(const void *words)
{
	struct rdmamsg *ctx;
	char *copy = strdup(words), *at = copy;
	int ret;

	for (char *w; (w = strsep(&at, " ")); )
		(void)putenv(w);
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	ret = rdmamsg_open(&ctx, NULL);
	if (ret)
		return 1;
	rdmamsg_close(ctx);
	free(copy);
	return 0;
}

static void soft__its_words_ARE_READ(void **state)
{
	static const char *const words[] = {
		"RDMAMSG_SOFT_LINK=iwarp RDMAMSG_SOFT_PORTS=1",
		"RDMAMSG_SOFT_LINK=ib",
		"RDMAMSG_SOFT_LINK=ethernet RDMAMSG_SOFT_ATOMICS=plain",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		assert_int_equal(in_child(opens, words[i]), 0);
}

/* ---- texts ---------------------------------------------------------------- */

static int has_plain_numbers(const void *unused)
{
	struct rdmamsg_options o = {
		.size = sizeof(o), .max_registered = (size_t)1234567 << 10,
	};
	static char text[1 << 16];
	struct rdmamsg *ctx;
	int len;

	(void)unused;
	(void)setenv("RDMAMSG_DEVICE", "soft", 1);
	if (rdmamsg_open(&ctx, &o))
		return 1;
	len = rdmamsg_stats_text(ctx, text, sizeof(text));
	rdmamsg_close(ctx);
	return len <= 0 || !strstr(text, "} 948147456\n");
}

static void statistics__numbers_ARE_THOSE_OF_C(void **state)
{
	assert_int_equal(in_child(has_plain_numbers, NULL), 0);
}

/* ---- the locale ------------------------------------------------------------ */

static int unlink_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int remove_locale(void **state)
{
	return nftw(dir, unlink_one, 8, FTW_DEPTH | FTW_PHYS);
}

static bool make_locale(void)
{
	char command[128];

	if (!mkdtemp(dir))
		return false;
	snprintf(command, sizeof(command), "exec localedef -i tr_TR -f UTF-8 "
		 "%s/" NAME " 2>/dev/null", dir);
	(void)setenv("LOCPATH", dir, 1);
	return !system(command) && setlocale(LC_ALL, NAME);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(locale__of_this_test_IS_TURKISH),
		cmocka_unit_test(log__words_in_any_case_ARE_READ),
		cmocka_unit_test(soft__its_words_ARE_READ),
		cmocka_unit_test(statistics__numbers_ARE_THOSE_OF_C),
	};

	join_own_fabric("locale");
	if (!make_locale()) {
		fprintf(stderr, "skip: localedef makes no Turkish locale: the "
			"package locales has its source\n");
		(void)remove_locale(NULL);
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, remove_locale);
}
