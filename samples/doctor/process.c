/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks of the limits, libraries and environment of a process. */
#include "doctor.h"
#include "parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <linux/capability.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/version.h>

#define FEW_FILES	64	/* a process with endpoints has 22 */
#define SOME_FILES	1024
#define FEW_THREADS	16
#define SOME_ENDPOINTS	64
#define LITTLE_SPACE	((uint64_t)4 << 30)

/* ---- limits ----------------------------------------------------------- */

static bool limit_of(const char *name, uint64_t *soft, uint64_t *hard)
{
	char text[8192];

	return root_read(text, sizeof(text), "/proc/self/limits") > 0 &&
	       parse_limit(text, name, soft, hard);
}

/*
 * The shell's ulimit is enough if the hard limit allows what is needed. Else
 * only root can raise the limits.
 */
static void mend_limit(struct finding *f, const char *ulimit, uint64_t unit,
		       uint64_t need, uint64_t hard, const char *prlimit)
{
	if (hard == UNLIMITED)
		mend(f, "ulimit -S -%s unlimited", ulimit);
	else if (hard >= need)
		mend(f, "ulimit -S -%s %" PRIu64, ulimit, hard / unit);
	else
		mend(f, "prlimit --pid $$ --%s=%" PRIu64 ":%" PRIu64,
		     prlimit, need, need);
}

static uint64_t pinned(uint32_t endpoints)
{
	struct rdmamsg_memory_estimate e = { .size = sizeof(e) };

	return rdmamsg_estimate(NULL, NULL, endpoints, &e) ? 0 : e.pinned_idle;
}

void check_memlock(const struct facts *f)
{
	uint64_t soft, hard, one = pinned(1), some = pinned(SOME_ENDPOINTS);
	bool needed = facts_kernel_device(f);
	struct finding *low;

	if (!limit_of("Max locked memory", &soft, &hard)) {
		found("", OK, "unknown");
	} else if (soft == UNLIMITED) {
		found("", OK, "unlimited");
	} else if (host_has_cap(CAP_IPC_LOCK)) {
		found("", OK, "%" PRIu64 " KB, which CAP_IPC_LOCK overrides",
		      soft / 1024);
	} else if (soft < some) {
		/* the soft HCA locks no memory */
		low = found("", soft < one && needed ? WRONG : WARNING,
			    "%" PRIu64 " KB: one endpoint needs %" PRIu64
			    " KB, %u need %" PRIu64 " KB%s", soft / 1024,
			    one / 1024, SOME_ENDPOINTS, some / 1024,
			    hard < some ? "; root raises the limit" : "");
		mend_limit(low, "l", 1024, some, hard, "memlock");
	} else {
		found("", OK, "%" PRIu64 " KB", soft / 1024);
	}
}

void check_files(const struct facts *f)
{
	struct finding *low;
	uint64_t soft, hard;

	(void)f;
	if (!limit_of("Max open files", &soft, &hard)) {
		found("", OK, "unknown");
	} else if (soft < SOME_FILES) {
		low = found("", soft < FEW_FILES ? WRONG : WARNING, "%" PRIu64
			    ": a process with endpoints needs %u, and a "
			    "program its own", soft, FEW_FILES);
		mend_limit(low, "n", 1, SOME_FILES, hard, "nofile");
	} else {
		found("", OK, "%" PRIu64, soft);
	}
}

void check_processes(const struct facts *f)
{
	struct finding *low;
	uint64_t soft, hard;

	(void)f;
	if (!limit_of("Max processes", &soft, &hard)) {
		found("", OK, "unknown");
	} else if (soft < FEW_THREADS) {
		low = found("", WARNING, "%" PRIu64 ": resolving a name and "
			    "the soft HCA take a thread each", soft);
		mend_limit(low, "u", 1, FEW_THREADS, hard, "nproc");
	} else {
		found("", OK, soft == UNLIMITED ? "unlimited" : "%" PRIu64,
		      soft);
	}
}

void check_space(const struct facts *f)
{
	struct finding *low;
	uint64_t soft, hard;

	(void)f;
	if (!limit_of("Max address space", &soft, &hard)) {
		found("", OK, "unknown");
	} else if (soft < LITTLE_SPACE) {
		low = found("", WARNING, "%" PRIu64 " MB: pools of messages "
			    "grow up to 2 GB each", soft >> 20);
		mend_limit(low, "v", 1024, LITTLE_SPACE, hard, "as");
	} else {
		found("", OK, soft == UNLIMITED ? "unlimited" :
		      "%" PRIu64 " KB", soft / 1024);
	}
}

/* ---- libraries -------------------------------------------------------- */

static void check_version(void)
{
	struct finding *f;
	char built[32];

	snprintf(built, sizeof(built), "%d.%d.%d", RDMAMSG_VERSION_MAJOR,
		 RDMAMSG_VERSION_MINOR, RDMAMSG_VERSION_PATCH);
	if (!strcmp(built, rdmamsg_version())) {
		found("librdmamsg", OK, "version %s", built);
		return;
	}
	f = found("librdmamsg", WARNING, "version %s, but this program is of "
		  "%s", rdmamsg_version(), built);
	mend(f, "ldconfig, and unset LD_LIBRARY_PATH");
}

/* The path without the name of the file. */
static size_t dir_len(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) : 0;
}

void check_libraries(const struct facts *f)
{
	char verbs[512] = "", cm[512] = "";
	struct finding *one;
	size_t len;
	char *maps;

	(void)f;
	check_version();
	maps = root_slurp("/proc/self/maps", &len);
	if (!maps)
		return;
	(void)parse_mapped(maps, "libibverbs.so", verbs, sizeof(verbs));
	(void)parse_mapped(maps, "librdmacm.so", cm, sizeof(cm));
	free(maps);
	if (!verbs[0] || !cm[0])
		return;
	if (dir_len(verbs) == dir_len(cm) &&
	    !strncmp(verbs, cm, dir_len(verbs))) {
		found("rdma-core", OK, "%s, %s", verbs, cm + dir_len(cm) + 1);
		return;
	}
	one = found("rdma-core", WARNING, "%s and %s are not of one "
		    "installation", verbs, cm);
	mend(one, "unset LD_LIBRARY_PATH, or remove one installation");
}

/* ---- environment ------------------------------------------------------ */

static bool is_log_level(const char *value)
{
	static const char *const levels[] = {
		"none", "error", "warn", "info", "debug",
	};

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		size_t len = strlen(levels[i]);

		if (!strncasecmp(levels[i], value, len) &&
		    (!value[len] || !strcasecmp(value + len, ",json")))
			return true;
	}
	return false;
}

static bool is_fabric(const char *value)
{
	return strlen(value) <= 32 && !strchr(value, '/');
}

static bool is_atomics(const char *value)
{
	return !strcmp(value, "masked") || !strcmp(value, "big-endian") ||
	       !strcmp(value, "plain");
}

static bool is_layouts(const char *value)
{
	return !strcmp(value, "native") || !strcmp(value, "none");
}

static bool is_net(const char *value)
{
	return !strcmp(value, "0") || !strcmp(value, "1") ||
	       !strcmp(value, "all");
}

static bool is_lacks(const char *value)
{
	return !strcmp(value, "windows") || !strcmp(value, "resizing") ||
	       !strcmp(value, "windows,resizing") ||
	       !strcmp(value, "resizing,windows");
}

static bool is_link(const char *value)
{
	return !strcmp(value, "ethernet") || !strcmp(value, "ib") ||
	       !strcmp(value, "iwarp");
}

static bool is_number(const char *value, unsigned long least,
		      unsigned long most)
{
	char *end;
	const unsigned long n = strtoul(value, &end, 10);

	return !*end && n >= least && n <= most;
}

static bool is_part(const char *value)
{
	return is_number(value, 1, 65535);
}

static bool is_seed(const char *value)
{
	return is_number(value, 0, 4294967295);
}

static bool is_patience(const char *value)
{
	return is_number(value, 0, 600000);
}

static bool is_port_count(const char *value)
{
	return value[0] >= '1' && value[0] <= '8' && !value[1];
}

/*
 * The variables of rdmamsg-env(7), and their values. The test suite's variables
 * are not listed: their names begin with RDMAMSG_VM.
 */
static const struct {
	const char *name;
	bool (*is_valid)(const char *value);	/* NULL: any */
	const char *values;
} known[] = {
	{ "RDMAMSG_LOG", is_log_level, "none, error, warn, info or debug, or one "
				       "with \",json\"" },
	{ "RDMAMSG_DEVICE" },
	{ "RDMAMSG_SOFT_ATOMICS", is_atomics, "masked, big-endian or plain" },
	{ "RDMAMSG_SOFT_FABRIC", is_fabric, "at most 32 characters, no slash" },
	{ "RDMAMSG_SOFT_LACKS", is_lacks, "windows, resizing, or both with a "
					  "comma" },
	{ "RDMAMSG_SOFT_LAYOUTS", is_layouts, "native or none" },
	{ "RDMAMSG_SOFT_LINK", is_link, "ethernet, ib or iwarp" },
	{ "RDMAMSG_SOFT_NET", is_net, "0, 1 or all" },
	{ "RDMAMSG_SOFT_NO_VM" },
	{ "RDMAMSG_SOFT_ORDER", is_seed, "0 to 4294967295" },
	{ "RDMAMSG_SOFT_PART", is_part, "1 to 65535" },
	{ "RDMAMSG_SOFT_PATIENCE", is_patience, "0 to 600000" },
	{ "RDMAMSG_SOFT_PORTS", is_port_count, "1 to 8" },
	{ "RDMAMSG_STATS" },
	{ "RDMAMSG_TOPICS" },
};

#define KNOWN	(sizeof(known) / sizeof(known[0]))

/* Returns the index, or KNOWN. */
static size_t find_known(const char *name)
{
	size_t i = 0;

	while (i < KNOWN && strcmp(known[i].name, name))
		i++;
	return i;
}

/* The characters that differ, where one may be missing or too many. */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int n = 0;

	while (*a && *b) {
		if (*a == *b) {
			a++, b++;
			continue;
		}
		n++;
		if (a[1] == *b)
			a++;
		else if (b[1] == *a)
			b++;
		else
			a++, b++;
	}
	return n + (unsigned int)(strlen(a) + strlen(b));
}

static const char *nearest(const char *name)
{
	const char *best = NULL;
	unsigned int least = 4;

	for (size_t i = 0; i < KNOWN; i++)
		if (distance(known[i].name, name) < least) {
			least = distance(known[i].name, name);
			best = known[i].name;
		}
	return best;
}

/* Returns false if no call would find a device by this value. */
static bool is_device(const struct facts *f, const char *value)
{
	if (!strcmp(value, "soft") || options.root[0] || f->error)
		return true;
	if (strcmp(value, "hw"))
		return facts_has(f, value);
	for_each_device(d, f)
		if (device_is_hw(d))
			return true;
	return false;
}

/* Returns what is wrong with the variable, or NULL. */
static struct finding *judge_variable(const struct facts *f, const char *name,
				      const char *value)
{
	const char *like = nearest(name);
	size_t i = find_known(name);

	if (i == KNOWN && strncmp(name, "RDMAMSG_VM", 10))
		return found(name, WARNING, "nobody reads it%s%s",
			     like ? ": do you mean " : "", like ? like : "");
	if (!strcmp(name, "RDMAMSG_DEVICE") && !is_device(f, value))
		return found(name, WRONG, "'%s': there is no such RDMA device",
			     value);
	if (!strcmp(name, "RDMAMSG_SOFT_NO_VM") && !strcmp(value, "1"))
		return found(name, WARNING, "the soft HCA copies large "
			     "messages twice");
	if (i < KNOWN && known[i].is_valid && !known[i].is_valid(value))
		return found(name, WARNING, "'%s' is not %s", value,
			     known[i].values);
	return NULL;
}

static void check_variable(const struct facts *f, const char *name,
			   const char *value)
{
	struct finding *one = judge_variable(f, name, value);

	if (one)
		mend(one, "unset %s", name);
	else
		found(name, OK, "'%s'", value);
}

void check_environment(const struct facts *f)
{
	char name[64], value[128];
	size_t len, at = 0;
	bool any = false;
	char *text = root_slurp("/proc/self/environ", &len);

	while (text && parse_variable(text, len, &at, name, sizeof(name),
				      value, sizeof(value)))
		if (!strncmp(name, "RDMAMSG_", 8)) {
			any = true;
			check_variable(f, name, value);
		}
	free(text);
	if (!any)
		found("", OK, "no variable is set");
}
