/* SPDX-License-Identifier: BSD-2-Clause */
/* Why the soft HCA could not be opened. */
#include "base/base.h"
#include "base/util.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FABRIC_MAX	32

static bool is_fabric(const char *value)
{
	return strlen(value) <= FABRIC_MAX && !strchr(value, '/');
}

/* The variables that the soft HCA reads, see rdmamsg-env(7). */
static const struct variable {
	const char *name;
	const char *values;		/* as the text has them */
	bool (*is_valid)(const char *value);
	const char *words;		/* each between two spaces */
	bool list;			/* of words, with commas */
	uint64_t least, most;		/* a number, if most is not 0 */
} variables[] = {
	{ "RDMAMSG_SOFT_ATOMICS", "masked, big-endian or plain",
	  .words = " masked big-endian plain " },
	{ "RDMAMSG_SOFT_FABRIC", "at most 32 characters without a slash",
	  .is_valid = is_fabric },
	{ "RDMAMSG_SOFT_LACKS", "windows, resizing, or both with a comma",
	  .words = " windows resizing ", .list = true },
	{ "RDMAMSG_SOFT_LAYOUTS", "native or none",
	  .words = " native none " },
	{ "RDMAMSG_SOFT_LINK", "ethernet, ib or iwarp",
	  .words = " ethernet ib iwarp " },
	{ "RDMAMSG_SOFT_NET", "0, 1 or all", .words = " 0 1 all " },
	{ "RDMAMSG_SOFT_NO_VM", "0 or 1", .words = " 0 1 " },
	{ "RDMAMSG_SOFT_ORDER", "0 to 4294967295", .most = UINT32_MAX },
	{ "RDMAMSG_SOFT_PART", "1 to 65535", .least = 1, .most = 65535 },
	{ "RDMAMSG_SOFT_PATIENCE", "0 to 600000", .most = 600000 },
	{ "RDMAMSG_SOFT_PORTS", "1 to 8", .words = " 1 2 3 4 5 6 7 8 " },
};

static bool has_word(const char *words, const char *word, size_t len)
{
	for (const char *at = words; (at = strchr(at, ' ')); at++)
		if (!strncmp(at + 1, word, len) && at[1 + len] == ' ')
			return true;
	return false;
}

static bool is_number(const struct variable *v, const char *value)
{
	char *end;
	unsigned long long n;

	errno = 0;
	n = strtoull(value, &end, 10);
	return !errno && !*end && n >= v->least && n <= v->most;
}

static bool is_valid(const struct variable *v, const char *value)
{
	if (v->is_valid)
		return v->is_valid(value);
	if (v->most)
		return is_number(v, value);
	while (v->list && strchr(value, ',')) {
		const size_t len = strcspn(value, ",");

		if (!has_word(v->words, value, len))
			return false;
		value += len + 1;
	}
	return (v->list && !*value) || has_word(v->words, value, strlen(value));
}

/* Names the variable whose value is wrong. */
static int wrong_value(int err)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
		const struct variable *v = &variables[i];
		const char *value = getenv(v->name);

		if (value && *value && !is_valid(v, value))
			return rdmamsg__fail(err, "soft HCA: %s=%.40s: its "
					     "values are %s", v->name, value,
					     v->values);
	}
	return rdmamsg__fail(err, "soft HCA: one of its variables has a value "
			     "that it cannot have: see rdmamsg-env(7)");
}

int rdmamsg__fail_soft(int err)
{
	switch (-err) {
	case EPERM:
		return rdmamsg__fail(err, "soft HCA: another user holds the "
				     "names of the fabric: RDMAMSG_SOFT_FABRIC "
				     "gives it another, which others cannot "
				     "guess");
	case EACCES:
		return rdmamsg__fail(err, "soft HCA: a sandbox forbids "
				     "@rdmamsg-soft/... (Landlock, AppArmor), "
				     "or memfd_create, eventfd, sockets or "
				     "threads (seccomp), or the process has "
				     "changed its user");
	case ENOSYS:
		return rdmamsg__fail(err, "soft HCA: the kernel or a sandbox "
				     "(seccomp) lacks a system call: it needs "
				     "memfd_create, eventfd, timerfd, epoll "
				     "and Unix sockets");
	case EUSERS:
		return rdmamsg__fail(err, "soft HCA: its fabric has as many "
				     "processes as it can have: "
				     "RDMAMSG_SOFT_FABRIC leads to another");
	case EBUSY:
		return rdmamsg__fail(err, "soft HCA: a process that joins the "
				     "fabric does not go on: it is stopped, "
				     "or RDMAMSG_SOFT_FABRIC leads to another");
	case ETIMEDOUT:
		return rdmamsg__fail(err, "soft HCA: a process of the fabric "
				     "could not be asked to join it, because "
				     "others connect to its name all the time: "
				     "end them, or RDMAMSG_SOFT_FABRIC gives "
				     "the fabric a name which others cannot "
				     "guess");
	case EFBIG:
		return rdmamsg__fail(err, "soft HCA: the limit on the size of "
				     "files, which holds for its memory as "
				     "well, is less than the 8 MB it needs: "
				     "raise it (ulimit -f unlimited, or "
				     "LimitFSIZE= of the service)");
	case EAGAIN:
		return rdmamsg__fail(err, "soft HCA: %s",
				     rdmamsg__thread_text(err));
	case EINVAL:
		return wrong_value(err);
	case ENODEV:
		return rdmamsg__fail(err, "soft HCA: it was removed: "
				     "'rdmamsg-soft-ctl add' adds it again");
	default:
		return rdmamsg__fail_verbs(err, "soft HCA");
	}
}
