/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-soft: runs a program on the soft HCA. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY		"libsoft-preload.so"

static const char usage[] =
"Usage: rdmamsg-soft [OPTIONS] COMMAND [ARGUMENT...]\n"
"\n"
"Runs COMMAND on the soft HCA, a software RDMA device in user space: it finds\n"
"the device soft0 and no other. All programs of one user on this host, in one\n"
"network namespace, reach each other.\n"
"\n"
"  -f, --fabric=NAME   join the fabric NAME instead of the common one\n"
"  -l, --link=LAYER    ethernet (RoCE v2), ib (InfiniBand); ethernet\n"
"  -p, --ports=COUNT   ports of the device, 1 to 8; 2\n"
"  -h, --help          print this and end\n"
"  -V, --version       print the version and end\n";

/* Beside this program in the build tree, or where it was installed. */
static bool find_library(char *path, size_t size)
{
	static const char dir[] = "/.libs/" LIBRARY;
	ssize_t n = readlink("/proc/self/exe", path, size - sizeof(dir));
	char *end;

	if (n > 0) {
		path[n] = 0;
		end = strrchr(path, '/');
		strcpy(end ? end : path, dir);
		if (!access(path, R_OK))
			return true;
	}
	(void)snprintf(path, size, "%s/%s", PRELOAD_DIR, LIBRARY);
	return !access(path, R_OK);
}

/* After what is there: sanitizers want to be first. */
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

static int fail(int status, const char *what)
{
	(void)fprintf(stderr, "rdmamsg-soft: %s: %s\n", what, strerror(errno));
	return status;
}

static int bad(const char *option, const char *value)
{
	(void)fprintf(stderr, "rdmamsg-soft: %s: '%s' is none\n"
		      "Try 'rdmamsg-soft --help'.\n", option, value);
	return 125;
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
	char path[4096];
	int c;

	while ((c = getopt_long(argc, argv, "+f:l:p:hV", options,
				NULL)) != -1) {
		switch (c) {
		case 'f':
			if (setenv("RDMAMSG_SOFT_FABRIC", optarg, 1))
				return fail(125, optarg);
			break;
		case 'l':
			if (strcmp(optarg, "ib") && strcmp(optarg, "ethernet"))
				return bad("--link", optarg);
			if (setenv("RDMAMSG_SOFT_LINK", optarg, 1))
				return fail(125, optarg);
			break;
		case 'p':
			if (*optarg < '1' || *optarg > '8' || optarg[1])
				return bad("--ports", optarg);
			if (setenv("RDMAMSG_SOFT_PORTS", optarg, 1))
				return fail(125, optarg);
			break;
		case 'h':
			(void)fputs(usage, stdout);
			return fflush(stdout) ? 125 : 0;
		case 'V':
			(void)printf("rdmamsg-soft %s\n", PACKAGE_VERSION);
			return fflush(stdout) ? 125 : 0;
		default:
			(void)fputs("Try 'rdmamsg-soft --help'.\n", stderr);
			return 125;
		}
	}
	if (optind == argc) {
		(void)fputs(usage, stderr);
		return 125;
	}
	if (!find_library(path, sizeof(path)))
		return fail(125, path);
	if (strpbrk(path, " :")) {
		(void)fprintf(stderr, "rdmamsg-soft: %s: LD_PRELOAD takes no "
			      "path with a space or a colon\n", path);
		return 125;
	}
	if (add_preload(path))
		return fail(125, "LD_PRELOAD");
	(void)execvp(argv[optind], argv + optind);
	return fail(errno == ENOENT ? 127 : 126, argv[optind]);
}
