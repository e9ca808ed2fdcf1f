/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-copy: the command line. */
#include "copy.h"

#include <rdmamsg/version.h>

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage_text[] =
	"Usage: rdmamsg-copy server DIR [-p PORT] [-a ADDR]\n"
	"       rdmamsg-copy FILE... HOST[:PORT]\n"
	"Copies files over RDMA; the server takes them into DIR.\n"
	"\n"
	"  -p, --port=PORT     port number or service name (" COPY_PORT ");\n"
	"                      the server takes a free one for 0 and prints it\n"
	"  -a, --address=ADDR  server: listen on this address only\n"
	"  -h, --help          this text\n"
	"      --version       the version\n"
	"\n"
	"An IPv6 address with a port is written [ADDR]:PORT.\n"
	"Exit status: 0 all files copied and verified, 1 not all, 2 usage.\n";

static int usage(const char *text)
{
	fprintf(stderr, "rdmamsg-copy: %s; rdmamsg-copy --help shows how\n",
		text);
	return 2;
}

/* HOST, HOST:PORT, ADDR6, [ADDR6], [ADDR6]:PORT; in place. */
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

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "port", required_argument, NULL, 'p' },
		{ "address", required_argument, NULL, 'a' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL },
	};
	const char *port = COPY_PORT, *address = NULL, *host;
	int option;

	while ((option = getopt_long(argc, argv, "p:a:h", options, NULL)) != -1)
		switch (option) {
		case 'p':
			port = optarg;
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
			return usage("wrong usage");
		}
	argv += optind;
	argc -= optind;
	if (argc < 2)
		return usage("a server needs DIR, a client FILE and HOST");
	if (!strcmp(argv[0], "server"))
		return argc == 2 ? copy_server(argv[1], address, port) :
				   usage("a server has one DIR");
	if (address)
		return usage("-a is for the server");
	if (!split_host(argv[argc - 1], &host, &port))
		return usage("the last argument must be HOST or HOST:PORT");
	return copy_client(argv, argc - 1, host, port);
}
