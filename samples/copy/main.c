/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-copy: the command line. */
#include "copy.h"
#include "../output.h"

#include <rdmamsg/version.h>

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage_text[] =
	"Usage: rdmamsg-copy server DIR [OPTION...]\n"
	"       rdmamsg-copy [OPTION...] FILE... HOST[:PORT]\n"
	"\n"
	"Copies files over RDMA, with their permissions and modification times. The\n"
	"server writes files into DIR for every client that reaches its port.\n"
	"\n"
	"A FILE of '-' is standard input. An IPv6 address with a port is written\n"
	"[ADDR]:PORT.\n"
	"\n"
	"Options of the server:\n"
	"  -a, --address=ADDR  listen on this address; default: all\n"
	"Options of the client:\n"
	"  -r, --recursive     copy directories and their contents; symbolic links and\n"
	"                      special files are skipped, with a warning for each\n"
	"  -n, --name=NAME     name of the only FILE at the server; required for '-'\n"
	"  -f, --failover=HOST when the connection is lost, go on over another one, to\n"
	"                      HOST, another address of the server, or the first one\n"
	"Options of both:\n"
	"  -p, --port=PORT     port number or service name; default: " COPY_PORT ". With\n"
	"                      0 the server takes a free port and prints it\n"
	"  -k, --key-file=FILE pre-shared key of both sides, which only the owner can\n"
	"                      read; without the key nobody can connect\n"
	"  -h, --help          print this and exit\n"
	"  -V, --version       print the version and exit\n"
	"\n"
	"Exit status: 0 all files copied and verified, 1 not all of them, 2 wrong usage.\n";

static int usage(const char *text)
{
	fprintf(stderr, "rdmamsg-copy: %s; see --help\n", text);
	return 2;
}

/* Splits HOST, HOST:PORT, ADDR6, [ADDR6] or [ADDR6]:PORT in place. */
static bool split_host(char *arg, const char **host, const char **port)
{
	char *colon = strchr(arg, ':');

	*host = arg;
	if (arg[0] == '[') {
		char *end = strchr(arg, ']');

		if (!end || (end[1] && end[1] != ':'))
			return false;
		colon = end[1] ? end + 1 : NULL;
		*end = '\0';
		*host = arg + 1;
	} else if (colon && strchr(colon + 1, ':')) {
		return true;	/* an IPv6 address */
	}
	if (colon) {
		*colon = '\0';
		*port = colon + 1;
	}
	return **host && **port;
}

static int serve(char **argv, int argc, const struct copy_job *job,
		 const char *address)
{
	if (argc != 1)
		return usage("a server has one DIR");
	if (job->recursive || job->name || job->other)
		return usage("-r, -n and -f are for the client");
	return copy_server(argv[0], address, job->port, job->key_file);
}

static int send_files(char **argv, int argc, struct copy_job *job,
		      const char *address)
{
	bool input = false;

	for (int i = 0; i < argc - 1; i++)
		input |= !strcmp(argv[i], "-");
	if (argc < 2)
		return usage("FILE... and HOST are needed");
	if (address)
		return usage("-a is for the server");
	if (job->name && argc > 2)
		return usage("-n NAME is for one FILE");
	if (input && !job->name)
		return usage("standard input needs a name: -n NAME");
	if (job->name && (!*job->name || strchr(job->name, '/')))
		return usage("-n takes a name without a slash");
	if (job->name && strlen(job->name) > NAME_MAX) {
		fprintf(stderr, "rdmamsg-copy: -n takes a name of at most %d "
			"bytes, not %zu; see --help\n", NAME_MAX,
			strlen(job->name));
		return 2;
	}
	if (!split_host(argv[argc - 1], &job->host, &job->port))
		return usage("the last argument must be HOST or HOST:PORT");
	if (strchr(job->port, '/'))
		return usage("HOST:PORT has no path: the server's DIR takes "
			     "the files");
	if (!job->port[strspn(job->port, "0")])
		return usage("port 0 is for the server");
	job->files = argv;
	job->count = argc - 1;
	return copy_client(job);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "address", required_argument, NULL, 'a' },
		{ "recursive", no_argument, NULL, 'r' },
		{ "name", required_argument, NULL, 'n' },
		{ "failover", required_argument, NULL, 'f' },
		{ "key-file", required_argument, NULL, 'k' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL },
	};
	struct copy_job job = { .port = COPY_PORT };
	const char *address = NULL;
	int option;

	output_check(1);
	argv[0] = (char *)"rdmamsg-copy";	/* getopt prints this name */
	while ((option = getopt_long(argc, argv, "p:a:rn:f:k:hV", options,
				     NULL)) != -1)
		switch (option) {
		case 'p':
			job.port = optarg;
			break;
		case 'r':
			job.recursive = true;
			break;
		case 'n':
			job.name = optarg;
			break;
		case 'f':
			job.other = optarg;
			break;
		case 'k':
			job.key_file = optarg;
			break;
		case 'a':
			address = optarg;
			break;
		case 'h':
			return fputs(usage_text, stdout) < 0;
		case 'V':
			return printf("rdmamsg-copy %d.%d.%d\n",
				      RDMAMSG_VERSION_MAJOR,
				      RDMAMSG_VERSION_MINOR,
				      RDMAMSG_VERSION_PATCH) < 0;
		default:
			/* getopt has named the wrong option */
			fputs("rdmamsg-copy: see --help\n", stderr);
			return 2;
		}
	argv += optind;
	argc -= optind;
	if (!argc)
		return usage("'server DIR', or FILE... and HOST, are needed");
	if (!strcmp(argv[0], "server"))
		return serve(argv + 1, argc - 1, &job, address);
	return send_files(argv, argc, &job, address);
}
