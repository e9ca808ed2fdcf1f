/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The environment, see rdmamsg-env(7). It is read once, and not by a privileged
 * process.
 */
#include "base/base.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <rdmamsg/diag.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char device[64];
static char stats[128];
static char topics[256];
static bool log_set;

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Ignores case in ASCII. In Turkish, strcasecmp() of "INFO" and "info" fails. */
static bool is_word(const char *value, const char *word)
{
	while (*word && lower(*value) == *word) {
		value++;
		word++;
	}
	return !*word && !*value;
}

static void set_log(const char *value)
{
	static const char *const names[] = {
		"none", "error", "warn", "info", "debug",
	};

	char level[16];
	size_t len = strcspn(value, ",");

	if (value[len] && is_word(value + len, ",json"))
		rdmamsg__log_json();
	else if (value[len])
		len = sizeof(level);	/* an unknown word */
	if (len < sizeof(level)) {
		memcpy(level, value, len);
		level[len] = 0;
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			if (is_word(level, names[i])) {
				rdmamsg__log_level = (int)i;
				log_set = true;
				return;
			}
		}
	}
	rdmamsg__log_level = RDMAMSG_LOG_WARN;
	log_warn("RDMAMSG_LOG is '%s', not none, error, warn, info or debug, "
		 "and \",json\" behind it for JSON", value);
}

static void set_device(const char *value)
{
	snprintf(device, sizeof(device), "%s", value);
}

static void set_path(char *path, size_t room, const char *name,
		     const char *value)
{
	if (strlen(value) < room)
		snprintf(path, room, "%s", value);
	else
		/* not log_warn(), because the log is off by default */
		rdmamsg__log(RDMAMSG_LOG_WARN, "%s has no effect: the path has "
			     "%zu bytes, at most %zu are possible", name,
			     strlen(value), room - 1);
}

static void set_stats(const char *value)
{
	set_path(stats, sizeof(stats), "RDMAMSG_STATS", value);
}

static void set_topics(const char *value)
{
	set_path(topics, sizeof(topics), "RDMAMSG_TOPICS", value);
}

/* Variables without a function here are read by the soft HCA. */
static const struct {
	const char *name;
	void (*set)(const char *value);
} vars[] = {
	{ "RDMAMSG_LOG", set_log },	/* first, because the others may log */
	{ "RDMAMSG_DEVICE", set_device },
	{ "RDMAMSG_SOFT_ATOMICS" },
	{ "RDMAMSG_SOFT_LAYOUTS" },
	{ "RDMAMSG_SOFT_FABRIC" },
	{ "RDMAMSG_SOFT_LACKS" },
	{ "RDMAMSG_SOFT_LINK" },
	{ "RDMAMSG_SOFT_NET" },
	{ "RDMAMSG_SOFT_NO_VM" },
	{ "RDMAMSG_SOFT_ORDER" },
	{ "RDMAMSG_SOFT_PART" },
	{ "RDMAMSG_SOFT_PATIENCE" },
	{ "RDMAMSG_SOFT_PORTS" },
	{ "RDMAMSG_STATS", set_stats },
	{ "RDMAMSG_TOPICS", set_topics },
};

/* Warns of unknown variables, because a misspelt variable has no effect. */
static void report_unknown(void)
{
	extern char **environ;

	for (char **e = environ; e && *e; e++) {
		size_t len = strcspn(*e, "=");
		bool known = strncmp(*e, "RDMAMSG_", 8) ||
			     !strncmp(*e, "RDMAMSG_VM", 10);

		for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++)
			known |= strlen(vars[i].name) == len &&
				 !strncmp(*e, vars[i].name, len);
		if (known)
			continue;
		/* not log_warn(), because the log is off by default */
		rdmamsg__log(RDMAMSG_LOG_WARN, "unknown environment variable "
			     "%.*s: see rdmamsg-env(7)", (int)len, *e);
	}
}

static void init(void)
{
	if (getauxval(AT_SECURE))
		return;
	for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++) {
		const char *value = getenv(vars[i].name);

		if (value && vars[i].set)
			vars[i].set(value);
	}
	report_unknown();
}

void rdmamsg__env_init(void)
{
	pthread_once(&once, init);
}

bool rdmamsg__env_log(void)
{
	return log_set;
}

const char *rdmamsg__env_device(void)
{
	rdmamsg__env_init();
	return device[0] ? device : NULL;
}

const char *rdmamsg__env_stats(void)
{
	rdmamsg__env_init();
	return stats[0] ? stats : NULL;
}

const char *rdmamsg__env_topics(void)
{
	rdmamsg__env_init();
	return topics[0] ? topics : NULL;
}
