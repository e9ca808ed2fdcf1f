/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the file of topics: its lines, the patterns that match names,
 * and files that are refused whole.
 */
#include "group/topics.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <rdmamsg/diag.h>
#include <rdmamsg/group.h>

static char dir[] = "/tmp/rdmamsg-topics.XXXXXX";
static char file[64];
static char seen[512];			/* "NAME=ADDRESS " of each topic */

static int note_topic(const struct topic *t, void *user)
{
	size_t len = strlen(seen);

	snprintf(seen + len, sizeof(seen) - len, "%s=%s%s%s ", t->name,
		 t->address, t->key_file ? "," : "",
		 t->key_file ? t->key_file : "");
	return 0;
}

/* ---- lines ------------------------------------------------------------ */

static int parse(const char *text, size_t len, struct topics_error *e)
{
	char *copy = malloc(len + !len);	/* without a byte behind it */
	int ret;

	assert_non_null(copy);
	memcpy(copy, text, len);
	seen[0] = 0;
	ret = rdmamsg__topics_parse(copy, len, note_topic, NULL, e);
	free(copy);
	return ret;
}

static void lines__of_each_form_NAME_TOPICS(void **state)
{
	static const char text[] =
		"# ticks\n"
		"\n"
		"ticks.eur.usd 239.1.2.3\n"
		"  ticks.eur-gbp\t239.1.2.4   7000\t# with a port\r\n"
		"\t \r\n"
		"A_b.9 239.1.2.5:7001#no blank\n"
		"six ff15::1\n"
		"six.port ff15::1 7002\n"
		"six.in [ff15::1]:7003\n"
		"mgid ff12:401b:ffff:0:0:0:0:1 65535\n"
		"key 239.1.2.6 /etc/key\n"
		"key.port 239.1.2.6 7004\t/a/b # c\n"
		"last 224.0.0.255";
	struct topics_error e;

	assert_int_equal(parse(text, strlen(text), &e), 0);
	assert_string_equal(seen, "ticks.eur.usd=239.1.2.3 "
		"ticks.eur-gbp=239.1.2.4:7000 A_b.9=239.1.2.5:7001 "
		"six=ff15::1 six.port=[ff15::1]:7002 six.in=[ff15::1]:7003 "
		"mgid=[ff12:401b:ffff:0:0:0:0:1]:65535 "
		"key=239.1.2.6,/etc/key key.port=239.1.2.6:7004,/a/b last=224.0.0.255 ");
	assert_int_equal(parse("", 0, &e), 0);
	assert_string_equal(seen, "");
}

static void line__that_is_wrong_IS_NAMED(void **state)
{
	static const struct {
		const char *line, *why;
	} wrong[] = {
		{ "a", "no address" },
		{ "a # 239.1.2.3", "no address" },
		{ "a 239.1.2.3 7000 b", "key file, from / on" },
		{ "a 239.1.2.3 /b c", "more than" },
		{ "a 239.1.2.3 7000 /b c", "more than" },
		{ "a 239.1.2.3 /b 7000", "more than" },
		{ "a 10.1.2.3", "not the address" },
		{ "a fe80::1", "not the address" },
		{ "a localhost", "not the address" },
		{ "a 239.1.2.3:", "not the address" },
		{ "a 239.1.2.3 65536", "and its port" },
		{ "a 239.1.2.3 x", "and its port" },
		{ "a 239.1.2.3:7000 7000", "and its port" },
		{ "a [ff15::1]:7000 7000", "and its port" },
		{ "a 1111111111111111111111111111111111111111111111111111111",
		  "not the address" },
		{ "a..b 239.1.2.3", "not a name" },
		{ ".a 239.1.2.3", "not a name" },
		{ "a. 239.1.2.3", "not a name" },
		{ "a.* 239.1.2.3", "not a name" },
		{ "a/b 239.1.2.3", "not a name" },
		{ "\xc3\xa4 239.1.2.3", "not a name" },
		{ "239.1.2.3 239.1.2.3", "is an address" },
		{ "first 239.9.9.8", "an earlier line" },
		{ "\tfirst\t239.9.9.9", "an earlier line" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct topics_error e = { 0 };
		char text[256];

		snprintf(text, sizeof(text), "first 239.9.9.9\n\n%s\nlast x\n",
			 wrong[i].line);
		assert_int_equal(parse(text, strlen(text), &e), -EINVAL);
		assert_int_equal(e.line, 3);
		assert_non_null(e.why);
		if (!strstr(e.why, wrong[i].why))
			fail_msg("'%s': %s", wrong[i].line, e.why);
		assert_string_equal(seen, "");	/* nor those before it */
	}
}

static void names__that_begin_alike_ARE_OTHERS(void **state)
{
	static const char text[] =
		"a.b 239.1.1.1\na 239.1.1.2\na.bc 239.1.1.3\nA 239.1.1.2\n";
	struct topics_error e;

	assert_int_equal(parse(text, strlen(text), &e), 0);
	assert_string_equal(seen, "a.b=239.1.1.1 a=239.1.1.2 a.bc=239.1.1.3 "
				  "A=239.1.1.2 ");
}

static void byte__that_is_0_IS_REFUSED(void **state)
{
	static const char text[] = "a 239.1.2.3\0b 239.1.2.4\n";
	struct topics_error e = { 0 };

	assert_int_equal(parse(text, sizeof(text) - 1, &e), -EINVAL);
	assert_int_equal(e.line, 1);
}

static void length__of_names_and_lines_IS_BOUNDED(void **state)
{
	char text[TOPIC_LINE_MAX + 8];
	struct topics_error e = { 0 };

	for (size_t len = TOPIC_NAME_MAX; len <= TOPIC_NAME_MAX + 1; len++) {
		memset(text, 'a', len);
		text[1] = '.';
		strcpy(text + len, " 239.1.2.3");
		assert_int_equal(parse(text, strlen(text), &e),
				 len > TOPIC_NAME_MAX ? -EINVAL : 0);
	}
	memset(text, ' ', sizeof(text));
	memcpy(text, "a 239.1.2.3", 11);
	assert_int_equal(parse(text, TOPIC_LINE_MAX, &e), 0);
	assert_int_equal(parse(text, TOPIC_LINE_MAX + 1, &e), -EINVAL);
	assert_non_null(strstr(e.why, "1024"));
}

/* ---- patterns --------------------------------------------------------- */

static void pattern__with_stars_MATCHES(void **state)
{
	static const struct {
		const char *pattern, *name;
		bool matches;
	} cases[] = {
		{ "a.b", "a.b", true },
		{ "a.b", "a.bc", false },
		{ "a.b", "a", false },
		{ "a.b", "a.b.c", false },
		{ "a.b", "A.b", false },
		{ "*", "a", true },
		{ "*", "a.b.c", true },
		{ "a.*", "a", false },
		{ "a.*", "a.b", true },
		{ "a.*", "a.b.c", true },
		{ "a.*", "ab.c", false },
		{ "a.*.c", "a.b.c", true },
		{ "a.*.c", "a.c", false },
		{ "a.*.c", "a.b.b.c", false },
		{ "*.b", "a.b", true },
		{ "*.b", "b", false },
		{ "*.*", "a", false },
		{ "*.*", "a.b.c", true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(rdmamsg__topic_valid(cases[i].pattern, true));
		if (rdmamsg__topic_matches(cases[i].pattern, cases[i].name) !=
		    cases[i].matches)
			fail_msg("'%s' and '%s'", cases[i].pattern,
				 cases[i].name);
	}
	assert_false(rdmamsg__topic_valid("a*", true));
	assert_false(rdmamsg__topic_valid("*a", true));
	assert_false(rdmamsg__topic_valid("**", true));
	assert_false(rdmamsg__topic_valid("a.", true));
	assert_false(rdmamsg__topic_valid("", true));
	assert_false(rdmamsg__topic_valid("a.*", false));
}

/* ---- files ------------------------------------------------------------ */

static void write_file(const char *text, off_t size)
{
	FILE *f = fopen(file, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
	if (size)
		assert_int_equal(truncate(file, size), 0);
}

static int note_name(const char *name, const char *address, void *user)
{
	return note_topic(&(struct topic){ name, address, NULL }, NULL);
}

static int each(const char *pattern)
{
	seen[0] = 0;
	return rdmamsg_topics_each(pattern, note_name, NULL);
}

static void says(const char *word)
{
	if (!strstr(rdmamsg_error(), word))
		fail_msg("'%s' is not in: %s", word, rdmamsg_error());
}

static int stop_at_b(const char *name, const char *address, void *user)
{
	note_name(name, address, NULL);
	return strcmp(name, "t.b") ? 0 : *(int *)user;
}

static void topics__of_a_pattern_ARE_TOLD(void **state)
{
	int stop = -ECANCELED;

	write_file("t.a 239.1.1.1\nu 239.1.1.2\nt.b 239.1.1.3\nt.c 239.1.1.4\n",
		   0);
	assert_int_equal(each("t.*"), 3);
	assert_string_equal(seen, "t.a=239.1.1.1 t.b=239.1.1.3 t.c=239.1.1.4 ");
	assert_int_equal(each("u"), 1);
	assert_int_equal(each("v.*"), 0);
	assert_string_equal(seen, "");
	assert_int_equal(rdmamsg_topics_each("*", stop_at_b, &stop),
			 -ECANCELED);
	assert_string_equal(seen, "t.a=239.1.1.1 u=239.1.1.2 t.b=239.1.1.3 ");
	stop = 7;
	assert_int_equal(rdmamsg_topics_each("*", stop_at_b, &stop), 7);
	assert_int_equal(each("t.*x"), -EINVAL);
	says("'t.*x'");
	assert_int_equal(each(NULL), -EINVAL);
	assert_int_equal(rdmamsg_topics_each("*", NULL, NULL), -EINVAL);
}

static void name__of_a_topic_IS_FOUND(void **state)
{
	struct topic_address a;
	char *key = NULL;

	write_file("t.a 239.1.1.1 7\nt.b 239.1.1.3 /a/key\n", 0);
	assert_int_equal(rdmamsg__topic_find("t.a", &a, &key), 0);
	assert_string_equal(a.text, "239.1.1.1:7");
	assert_null(key);
	assert_int_equal(rdmamsg__topic_find("t.b", &a, &key), 0);
	assert_string_equal(a.text, "239.1.1.3");
	assert_string_equal(key, "/a/key");
	free(key);
	assert_int_equal(rdmamsg__topic_find("t.c", &a, &key), -ENOENT);
	says("'t.c'");
	says(file);
	write_file("t.a 239.1.1.1\nt.b\n", 0);
	assert_int_equal(rdmamsg__topic_find("t.a", &a, &key), -EINVAL);
	says("topics:2: no address");
	says("'t.a'");
}

static void file__that_cannot_be_read_IS_NAMED(void **state)
{
	unlink(file);
	assert_int_equal(each("*"), -ENOENT);
	says(file);
	assert_int_equal(mkfifo(file, 0600), 0);
	assert_int_equal(each("*"), -EINVAL);	/* and does not block */
	says("not a regular file");
	unlink(file);
	assert_int_equal(symlink(dir, file), 0);
	assert_int_equal(each("*"), -EINVAL);
	unlink(file);
	write_file("t.a 239.1.1.1\n", TOPICS_FILE_MAX + 1);
	assert_int_equal(each("*"), -EFBIG);
	says(file);
	write_file("t.a 239.1.1.1\n", 0);
	assert_int_equal(each("*"), 1);
}

static int make_dir(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	snprintf(file, sizeof(file), "%s/topics", dir);
	return setenv("RDMAMSG_TOPICS", file, 1);
}

static int remove_dir(void **state)
{
	unlink(file);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines__of_each_form_NAME_TOPICS),
		cmocka_unit_test(line__that_is_wrong_IS_NAMED),
		cmocka_unit_test(names__that_begin_alike_ARE_OTHERS),
		cmocka_unit_test(byte__that_is_0_IS_REFUSED),
		cmocka_unit_test(length__of_names_and_lines_IS_BOUNDED),
		cmocka_unit_test(pattern__with_stars_MATCHES),
		cmocka_unit_test(topics__of_a_pattern_ARE_TOLD),
		cmocka_unit_test(name__of_a_topic_IS_FOUND),
		cmocka_unit_test(file__that_cannot_be_read_IS_NAMED),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
