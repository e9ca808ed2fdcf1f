/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-doctor: says what keeps RDMA from working, and what mends it. */
#include "doctor.h"
#include "../output.h"
#include "parse.h"

#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <rdmamsg/version.h>

/* Long options without a short one. */
enum { OPT_JSON = 256, OPT_ROOT };

struct options options = { .root = "", .port = DOCTOR_PORT };

static const char usage[] =
"Usage: rdmamsg-doctor [OPTION...] [HOST[:PORT]]\n"
"       rdmamsg-doctor --serve [-a ADDR] [-p PORT]\n"
"\n"
"Looks at what RDMA needs on this host, and with HOST at the way there. Each\n"
"finding is ok, a warning or wrong, with the command that mends it. Changes\n"
"nothing.\n"
"\n"
"  -s, --serve             answer doctors on other hosts\n"
"  -a, --address=ADDR      --serve: listen only at this address\n"
"  -p, --port=PORT         --serve: port number or service name; default: "
DOCTOR_PORT "\n"
"  -q, --quiet             only warnings and what is wrong\n"
"      --json              all of it, as a JSON object\n"
"      --root=DIR          look at another root, for tests and images\n"
"  -h, --help              print this and exit\n"
"  -V, --version           print the version and exit\n"
"\n"
"Exit status: 0 all is well, 1 warnings, 2 wrong, or wrong usage.\n";

static const struct option names[] = {
	{ "serve", no_argument, NULL, 's' },
	{ "address", required_argument, NULL, 'a' },
	{ "port", required_argument, NULL, 'p' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "root", required_argument, NULL, OPT_ROOT },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

static void set_root(const char *dir)
{
	struct stat st;

	if (stat(dir, &st))
		err(WRONG, "--root '%s'", dir);
	if (!S_ISDIR(st.st_mode))
		errx(WRONG, "--root '%s': not a directory", dir);
	options.root = dir;
}

static void set_target(const char *target)
{
	char host[256], port[32];

	if (!parse_target(target, host, sizeof(host), port, sizeof(port)))
		errx(WRONG, "'%s': not HOST or HOST:PORT; see --help", target);
	options.target = target;
}

/* Options that exclude each other. */
static void check_usage(bool listens)
{
	if (options.serve && options.target)
		errx(WRONG, "'%s': --serve has no operand; see --help",
		     options.target);
	if (options.serve && (options.root[0] || options.json || options.quiet))
		errx(WRONG, "--serve goes with -a and -p only; see --help");
	if (options.target && options.root[0])
		errx(WRONG, "--root: the way to a HOST is that of this system");
	if (listens && !options.serve)
		errx(WRONG, "-a and -p go with --serve; the port of HOST is "
		     "HOST:PORT");
}

static void parse(int argc, char **argv)
{
	bool listens = false;
	int c;

	while ((c = getopt_long(argc, argv, "sa:p:qhV", names, NULL)) != -1)
		switch (c) {
		case 's':
			options.serve = true;
			break;
		case 'a':
			options.address = optarg;
			listens = true;
			break;
		case 'p':
			options.port = optarg;
			listens = true;
			break;
		case 'q':
			options.quiet = true;
			break;
		case OPT_JSON:
			options.json = true;
			break;
		case OPT_ROOT:
			set_root(optarg);
			break;
		case 'h':
			printf("%s", usage);
			exit(OK);
		case 'V':
			printf("rdmamsg-doctor %d.%d.%d\n",
			       RDMAMSG_VERSION_MAJOR, RDMAMSG_VERSION_MINOR,
			       RDMAMSG_VERSION_PATCH);
			exit(OK);
		default:
			fprintf(stderr, "rdmamsg-doctor: see --help\n");
			exit(WRONG);
		}
	if (argc - optind > 1)
		errx(WRONG, "'%s': there is one HOST; see --help",
		     argv[optind + 1]);
	if (optind < argc)
		set_target(argv[optind]);
	check_usage(listens);
}

static int examine(void)
{
	enum verdict worst;
	struct facts f;

	run_checks(&f);
	if (options.target)
		examine_peer(&f, options.target);
	facts_free(&f);
	report_print(options.target);
	worst = report_worst();
	report_clear();
	return (int)worst;
}

int main(int argc, char **argv)
{
	argv[0] = (char *)(uintptr_t)"rdmamsg-doctor";
	output_check(WRONG);
	parse(argc, argv);
	return options.serve ? serve() : examine();
}
