/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-info: shows RDMA devices, ports, GIDs, P_Keys, capabilities. */
#include "info.h"
#include "../output.h"

#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include <rdmamsg/version.h>

/* Long options without a short one. */
enum { OPT_JSON = 256, OPT_WATCH, OPT_COUNT, OPT_STATS,
       OPT_METRICS, OPT_DUMP };

struct options options;

static bool watch;
static const char *stats, *metrics, *dump;

static const char usage[] =
"Usage: rdmamsg-info [OPTION...]\n"
"\n"
"Shows the RDMA devices of this host, their ports, GIDs and P_Keys; or follows\n"
"their events; or prints the statistics or the objects of a running program, or\n"
"gives the statistics of all programs to Prometheus.\n"
"\n"
"  -d, --device=NAME       only this device; also hw or soft\n"
"  -p, --port=NUMBER       only this port\n"
"  -v, --verbose           every attribute, and what works\n"
"      --json              all of it, as a JSON object; with --watch an object\n"
"                          for each event\n"
"      --watch             follow events of devices and ports, a line each, until\n"
"                          a signal\n"
"      --count=N           with --watch: end after N events\n"
"      --stats=PATH        statistics of the program with RDMAMSG_STATS=PATH\n"
"      --dump=PATH         its devices, endpoints with their peers, groups and\n"
"                          other objects, as rdmamsg_dump(3) describes them\n"
"      --metrics=[ADDR:]PORT   serve the statistics of all programs with\n"
"                          RDMAMSG_STATS, or of that of --stats, by HTTP, until\n"
"                          a signal; ADDR is 127.0.0.1 if there is none\n"
"  -h, --help              print this and exit\n"
"  -V, --version           print the version and exit\n"
"\n"
"Exit status: 0 done, 1 something could not be shown, 2 wrong usage.\n";

static const struct option names[] = {
	{ "device", required_argument, NULL, 'd' },
	{ "port", required_argument, NULL, 'p' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "watch", no_argument, NULL, OPT_WATCH },
	{ "count", required_argument, NULL, OPT_COUNT },
	{ "stats", required_argument, NULL, OPT_STATS },
	{ "dump", required_argument, NULL, OPT_DUMP },
	{ "metrics", required_argument, NULL, OPT_METRICS },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

static uint32_t number(const char *option, const char *arg, unsigned long most)
{
	char *end;
	unsigned long n = strtoul(arg, &end, 10);

	if (*end || *arg < '0' || *arg > '9' || !n || n > most)
		errx(WRONG_USE, "--%s '%s': a number from 1 to %lu", option,
		     arg, most);
	return (uint32_t)n;
}

static void parse(int argc, char **argv)
{
	const char *program;		/* what is asked of a program */
	int c;

	while ((c = getopt_long(argc, argv, "d:p:vhV", names, NULL)) != -1)
		switch (c) {
		case 'd':
			options.device = optarg;
			break;
		case 'p':
			options.port = number("port", optarg, 255);
			break;
		case 'v':
			options.verbose = true;
			break;
		case OPT_JSON:
			options.json = true;
			break;
		case OPT_WATCH:
			watch = true;
			break;
		case OPT_COUNT:
			options.count = number("count", optarg, UINT32_MAX);
			break;
		case OPT_STATS:
			stats = optarg;
			break;
		case OPT_DUMP:
			dump = optarg;
			break;
		case OPT_METRICS:
			metrics = optarg;
			break;
		case 'h':
			printf("%s", usage);
			exit(ALL_WELL);
		case 'V':
			printf("rdmamsg-info %d.%d.%d\n", RDMAMSG_VERSION_MAJOR,
			       RDMAMSG_VERSION_MINOR, RDMAMSG_VERSION_PATCH);
			exit(ALL_WELL);
		default:
			fprintf(stderr, "rdmamsg-info: see --help\n");
			exit(WRONG_USE);
		}
	if (optind < argc)
		errx(WRONG_USE, "'%s': there are no operands; see --help",
		     argv[optind]);
	program = metrics ? "metrics" : stats ? "stats" : dump ? "dump" : NULL;
	if (program && watch)
		errx(WRONG_USE, "--watch and --%s: one of them; see --help",
		     program);
	if (dump && program[0] != 'd')
		errx(WRONG_USE, "--dump and --%s: one of them; see --help",
		     program);
	if (options.count && !watch)
		errx(WRONG_USE, "--count is for --watch; see --help");
	if (program && (options.device || options.port || options.verbose))
		errx(WRONG_USE, "--%s has no use for -d, -p and -v; see "
		     "--help", program);
	if ((metrics || dump) && options.json)
		errx(WRONG_USE, "--%s has no use for --json; see --help",
		     program);
}

int main(int argc, char **argv)
{
	argv[0] = (char *)(uintptr_t)"rdmamsg-info";
	output_check(FAILED);
	parse(argc, argv);
	return watch ? watch_devices() :
	       metrics ? serve_metrics(metrics, stats) :
	       dump ? show_objects(dump) : stats ? show_stats(stats) : show_devices();
}
