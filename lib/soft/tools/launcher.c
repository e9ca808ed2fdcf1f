/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-soft: runs a program on the soft HCA. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define LIBRARY		"libsoft-preload.so"

#define FABRIC_MAX	32	/* the limit of soft_fabric_name() */
#define WRONG_USAGE	2
#define FAILED		125	/* exit statuses of env(1) and timeout(1) */
#define CANNOT_RUN	126
#define NOT_FOUND	127

static const char usage[] =
"Usage: rdmamsg-soft [OPTION...] COMMAND [ARGUMENT...]\n"
"\n"
"Runs COMMAND on the soft HCA, a software RDMA device in user space. COMMAND\n"
"finds the device soft0 and no other. All programs of one user in one network\n"
"namespace of this host reach each other.\n"
"\n"
"  -f, --fabric=NAME   join the fabric NAME instead of the common one\n"
"  -l, --link=LAYER    ethernet (RoCE v2), ib (InfiniBand) or iwarp; default:\n"
"                      ethernet\n"
"  -p, --ports=COUNT   ports of the device, 1 to 8; default: 2\n"
"  -h, --help          print this and exit\n"
"  -V, --version       print the version and exit\n"
"\n"
"Exit status: that of COMMAND; 2 wrong usage, 125 rdmamsg-soft failed, 126\n"
"COMMAND cannot be run, 127 COMMAND is not found.\n";

/* ---- the library ------------------------------------------------------ */

/*
 * Finds the directory of this program, without a final slash. AT_EXECFN has the
 * path of the program even if /proc is not mounted.
 */
static bool own_dir(char *dir, size_t size)
{
	char *self = realpath((const char *)getauxval(AT_EXECFN), NULL);
	char *end = self ? strrchr(self, '/') : NULL;
	bool fits;

	if (end)
		*end = '\0';
	fits = end && strlen(self) < size;
	if (fits)
		(void)memcpy(dir, self, strlen(self) + 1);
	free(self);
	return fits;
}

/* Sets the library's directory in the build tree, next to this program's. */
static void build_dir(const char *own, char *dir, size_t size)
{
	const char *slash = strrchr(own, '/');

	if (slash)
		(void)snprintf(dir, size, "%.*s/preload/.libs",
			       (int)(slash - own), own);
}

/*
 * Sets the library's directory if the installation was staged or moved as a
 * whole. Then the path from this program to the library is the same as from
 * BINDIR to PRELOAD_DIR.
 */
static bool moved_dir(const char *own, char *dir, size_t size)
{
	size_t same = 0, own_len = strlen(own), bin_len;

	for (size_t i = 0; BINDIR[i] && BINDIR[i] == PRELOAD_DIR[i]; i++)
		if (BINDIR[i] == '/')
			same = i + 1;
	bin_len = strlen(&BINDIR[same]);
	if (own_len <= bin_len || own[own_len - bin_len - 1] != '/' ||
	    strcmp(own + own_len - bin_len, &BINDIR[same]))
		return false;
	return snprintf(dir, size, "%.*s%s", (int)(own_len - bin_len), own,
			&PRELOAD_DIR[same]) < (int)size;
}

/* Finds the library. Returns 0, or an exit status after a message. */
static int find_library(char path[PATH_MAX])
{
	char dirs[3][PATH_MAX] = { "", "", PRELOAD_DIR };
	char own[PATH_MAX - sizeof("/preload/.libs")], unfit[PATH_MAX] = "";

	if (own_dir(own, sizeof(own))) {
		build_dir(own, dirs[0], sizeof(dirs[0]));
		(void)moved_dir(own, dirs[1], sizeof(dirs[1]));
	}
	for (int i = 0; i < 3; i++) {
		if (!*dirs[i] ||
		    snprintf(path, PATH_MAX, "%s/" LIBRARY, dirs[i]) >=
		    PATH_MAX || access(path, R_OK))
			continue;
		if (!strpbrk(path, " :"))
			return 0;
		if (!*unfit)
			(void)memcpy(unfit, path, strlen(path) + 1);
	}
	if (*unfit)
		(void)fprintf(stderr, "rdmamsg-soft: %s: LD_PRELOAD takes no "
			      "path with a space or a colon: move the "
			      "installation\n", unfit);
	else
		(void)fprintf(stderr, "rdmamsg-soft: " LIBRARY " is neither in "
			      "%s nor in %s: install rdmamsg again\n",
			      *dirs[1] ? dirs[1] : dirs[0], dirs[2]);
	return FAILED;
}

/* Appends the library, because a sanitizer must be first. */
static int add_preload(const char *library)
{
	const char *old = getenv("LD_PRELOAD");
	char *all;
	int err;

	if (!old || !*old)
		return setenv("LD_PRELOAD", library, 1);
	if (asprintf(&all, "%s:%s", old, library) < 0)
		return -1;
	err = setenv("LD_PRELOAD", all, 1);
	free(all);
	return err;
}

/* ---- options ---------------------------------------------------------- */

static int fail(int status, const char *what)
{
	(void)fprintf(stderr, "rdmamsg-soft: %s: %s\n", what, strerror(errno));
	return status;
}

static int wrong(const char *option, const char *value, const char *expected)
{
	(void)fprintf(stderr, "rdmamsg-soft: %s '%s': %s; see --help\n", option,
		      value, expected);
	return WRONG_USAGE;
}

static int set(const char *variable, const char *value)
{
	return setenv(variable, value, 1) ? fail(FAILED, variable) : 0;
}

/* Returns 0, or an exit status. */
static int option(int c)
{
	switch (c) {
	case 'f':
		if (!*optarg || strlen(optarg) > FABRIC_MAX ||
		    strchr(optarg, '/'))
			return wrong("--fabric", optarg, "a name has 1 to 32 "
				     "characters and no slash");
		return set("RDMAMSG_SOFT_FABRIC", optarg);
	case 'l':
		if (strcmp(optarg, "ib") && strcmp(optarg, "ethernet") &&
		    strcmp(optarg, "iwarp"))
			return wrong("--link", optarg, "ethernet, ib or iwarp");
		return set("RDMAMSG_SOFT_LINK", optarg);
	case 'p':
		if (*optarg < '1' || *optarg > '8' || optarg[1])
			return wrong("--ports", optarg, "1 to 8");
		return set("RDMAMSG_SOFT_PORTS", optarg);
	default:
		/* getopt_long() has printed the option */
		(void)fputs("rdmamsg-soft: see --help\n", stderr);
		return WRONG_USAGE;
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "fabric", required_argument, NULL, 'f' },
		{ "link", required_argument, NULL, 'l' },
		{ "ports", required_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	char path[PATH_MAX];
	int c, status = 0;

	/* for messages of getopt_long() */
	argv[0] = (char *)"rdmamsg-soft";
	while (!status && (c = getopt_long(argc, argv, "+f:l:p:hV", options,
					   NULL)) != -1) {
		switch (c) {
		case 'h':
			(void)fputs(usage, stdout);
			return fflush(stdout) ? fail(FAILED, "standard output") : 0;
		case 'V':
			(void)printf("rdmamsg-soft %s\n", PACKAGE_VERSION);
			return fflush(stdout) ? fail(FAILED, "standard output") : 0;
		default:
			status = option(c);
		}
	}
	if (status)
		return status;
	if (optind == argc) {
		(void)fputs("rdmamsg-soft: COMMAND is missing; see --help\n",
			    stderr);
		return WRONG_USAGE;
	}
	status = find_library(path);
	if (status)
		return status;
	if (add_preload(path))
		return fail(FAILED, "LD_PRELOAD");
	(void)execvp(argv[optind], argv + optind);
	return fail(errno == ENOENT ? NOT_FOUND : CANNOT_RUN, argv[optind]);
}
