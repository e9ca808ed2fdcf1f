/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdmamsg-conform: asks a device what tests/device asks, through one port. The
 * cases that need a private header or the control of the soft HCA are left out.
 */
#include "config.h"
#include "conform.h"
#include "peer.h"
#include "verbs.h"
#include "../output.h"

#include <err.h>
#include <getopt.h>
#include <stdio.h>

#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/version.h>

#define COMPLETION_MS	5000	/* a card takes microseconds */
#define CASE_MS		60000
#define RUN_S		600	/* the run */
#define RUN_S_MAX	86400

struct options options = { .port = 1, .seconds = RUN_S,
			   .service = PEER_PORT };

#ifndef HAVE_MLX5DV
static void mlx5dv__was_there_FOR_THE_BUILD(void)
{
	skip_rest("built without infiniband/mlx5dv.h: DC, indirect keys and raw "
		  "requests are not asked for");
}

static const struct device_case missing_cases[] = {
	GATE(mlx5dv__was_there_FOR_THE_BUILD),
	{ .name = NULL },
};
#endif

static const struct device_case *const lists[] = {
	order_cases, apm_cases,
#ifndef HAVE_MLX5DV
	missing_cases,
#else
	dc_cases, dc_error_cases, dc_op_cases, dc_raw_cases, dc_stream_cases,
	umr_cases, umr_use_cases, umr_atomic_cases, masked_raw_cases,
#endif
	mcast_cases, error_cases, attr_cases, busy_cases, cm_cases, cq_cases,
	domain_cases, iwarp_cases, mr_cases, mw_cases, op_cases, srq_cases,
	state_cases, ud_cases,
};
#define LISTS	(sizeof(lists) / sizeof(*lists))

static const struct device_case *const peer_lists[] = { peer_cases };
#define PEER_LISTS	(sizeof(peer_lists) / sizeof(*peer_lists))

static const char usage[] =
"Usage: rdmamsg-conform -d DEVICE [OPTION...] [CASE...]\n"
"       rdmamsg-conform -d DEVICE --peer=HOST [OPTION...] [CASE...]\n"
"       rdmamsg-conform server [-a ADDRESS] [--service=PORT]\n"
"\n"
"Asks a device how it behaves, through one port that sends to itself, and\n"
"reports each difference from what rdmamsg and its tests expect. With --peer,\n"
"asks how it behaves with the device of another host, on which the server runs.\n"
"\n"
"  -d, --device=NAME       the device; rdmamsg-info shows their names\n"
"  -p, --port=NUMBER       the port, by default 1\n"
"  -t, --time=SECONDS      end after this time, by default 600\n"
"      --peer=HOST         name or IPv4 address of the server\n"
"      --service=PORT      RDMA port of the server, by default 7472\n"
"  -a, --address=ADDRESS   server: listen there only\n"
"  -v, --verbose           print what passes, and the device's capabilities\n"
"      --json              print a JSON object\n"
"  -h, --help              print this and exit\n"
"  -V, --version           print the version and exit\n"
"\n"
"With a CASE, only the cases of these names.\n"
"\n"
"Exit status: 0 all as expected, 1 differences, 2 wrong usage or no device.\n";

enum { OPT_JSON = 256, OPT_PEER, OPT_SERVICE };

static const struct option long_options[] = {
	{ "device", required_argument, NULL, 'd' },
	{ "port", required_argument, NULL, 'p' },
	{ "peer", required_argument, NULL, OPT_PEER },
	{ "service", required_argument, NULL, OPT_SERVICE },
	{ "address", required_argument, NULL, 'a' },
	{ "time", required_argument, NULL, 't' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

static int number_of(const char *option, const char *arg, int max)
{
	char *rest;
	unsigned long n = strtoul(arg, &rest, 10);

	if (*rest || *arg < '0' || *arg > '9' || !n || n > (unsigned long)max)
		errx(WRONG_USE, "--%s '%s': a number from 1 to %d", option, arg,
		     max);
	return (int)n;
}

static bool is_case(const char *name)
{
	const struct device_case *const *from = options.peer ? peer_lists :
						lists;
	size_t n = options.peer ? PEER_LISTS : LISTS;

	for (size_t i = 0; i < n; i++)
		for (const struct device_case *c = from[i]; c->name; c++)
			if (!strcmp(c->name, name))
				return true;
	return false;
}

/* Returns the operands, which end with NULL. */
static char **parse(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "a:d:p:t:vhV", long_options, NULL)) !=
	       -1)
		switch (c) {
		case 'd':
			options.device = optarg;
			break;
		case 'p':
			options.port = (uint8_t)number_of("port", optarg, 255);
			break;
		case 't':
			options.seconds = number_of("time", optarg, RUN_S_MAX);
			break;
		case OPT_PEER:
			options.peer = optarg;
			break;
		case OPT_SERVICE:
			options.service = (uint16_t)number_of("service", optarg,
							      65535);
			break;
		case 'a':
			options.address = optarg;
			break;
		case 'v':
			options.verbose = true;
			break;
		case OPT_JSON:
			options.json = true;
			break;
		case 'h':
			printf("%s", usage);
			exit(AS_EXPECTED);
		case 'V':
			printf("rdmamsg-conform %d.%d.%d\n",
			       RDMAMSG_VERSION_MAJOR, RDMAMSG_VERSION_MINOR,
			       RDMAMSG_VERSION_PATCH);
			exit(AS_EXPECTED);
		default:
			fprintf(stderr, "rdmamsg-conform: see --help\n");
			exit(WRONG_USE);
		}
	if (optind + 1 == argc && !strcmp(argv[optind], "server"))
		exit(peer_serve(options.address, options.service));
	for (int i = optind; i < argc; i++)
		if (!is_case(argv[i]))
			errx(WRONG_USE, "'%s' is no case; see --help", argv[i]);
	if (!options.device)
		errx(WRONG_USE, "which device? -d DEVICE; see --help");
	return argv + optind;
}

static bool wanted(const char *name, char *const *wants)
{
	if (!*wants)
		return true;
	while (*wants && strcmp(*wants, name))
		wants++;
	return *wants;
}

/* Returns true if one of the list's cases runs. A gate alone is none. */
static bool list_wanted(const struct device_case *c, char *const *wants)
{
	while (c->name && !wanted(c->name, wants))
		c++;
	return c->name;
}

static char ended[300];		/* why no more cases run; empty: they do */

/*
 * Ends the run if the server does not answer, as a case that differs then says
 * nothing about the device.
 */
static void check_server(struct verdict *r)
{
	static char said[1024];
	struct verdict server;

	(void)snprintf(said, sizeof(said), "%s", r->said);
	r->said = said;
	server = run_case(&peer_probe);
	if (server.result != PASSED)
		(void)snprintf(ended, sizeof(ended), "%s: %s", options.peer,
			       server.said);
}

/* Runs a case, unless the run has ended. Its text lasts until the next one. */
static struct verdict ask(const struct device_case *c)
{
	static char nothing[1];
	struct verdict r = { .result = NOT_ASKED, .said = nothing };

	if (*ended)
		return r;
	r = run_case(c);
	if (run_over())
		(void)snprintf(ended, sizeof(ended), "the cases took more than "
			       "%d seconds", options.seconds);
	else if (options.peer && r.result == DIFFERS)
		check_server(&r);
	if (*ended)		/* the case may have been killed */
		r = (struct verdict){ .result = NOT_ASKED, .said = nothing };
	return r;
}

static void run_list(const struct device_case *c, char *const *wants)
{
	if (!list_wanted(c, wants))
		return;
	for (; c->name; c++) {
		struct verdict r;

		if (!c->gate && !wanted(c->name, wants))
			continue;
		r = ask(c);
		report_case(c->name, &r);
		if (r.result == LIST_SKIPPED)
			break;
	}
}

/* Sets the server, which answers. */
static void find_server(void)
{
	struct verdict r;

	if (!peer_set(options.peer, options.service))
		errx(WRONG_USE, "--peer '%s' has no IPv4 address",
		     options.peer);
	run_shared();
	r = run_case(&peer_probe);
	if (r.result != PASSED)
		errx(WRONG_USE, "--peer %s: %s", options.peer, r.said);
}

/* The cases call libibverbs, which may lack a device that the library has. */
static bool is_listed(const struct verbs_api *table)
{
	struct ibv_device **list;
	bool listed = false;
	int n = 0;

	list = table->get_device_list(&n);
	for (int i = 0; list && i < n; i++)
		listed |= !strcmp(table->get_device_name(list[i]),
				  options.device);
	if (list)
		table->free_device_list(list);
	return listed;
}

int main(int argc, char **argv)
{
	static struct facts facts;
	const struct verbs_api *table;
	const char *kind;
	char **wants;

	argv[0] = (char *)(uintptr_t)"rdmamsg-conform";
	output_check(DIFFERENCES);
	wants = parse(argc, argv);
	table = verbs_table();
	if (!is_listed(table))
		errx(WRONG_USE, "libibverbs has no device '%s'; see "
		     "rdmamsg-doctor(1)", options.device);
	run_limit(options.seconds * 1000);
	facts_get(&facts);
	if (facts.error)
		errx(WRONG_USE, "%s, port %u: %s", options.device, options.port,
		     facts.text);
	kind = facts_kind(&facts);
	port_num = options.port;
	bound_ms = COMPLETION_MS;
	if (!run_on(options.device, kind ? kind : "other", table, false,
		    CASE_MS))
		errx(DIFFERENCES, "which kernel is this?");
	if (options.peer)
		find_server();
	report_begin(&facts);
	for (size_t i = 0; options.peer && i < PEER_LISTS; i++)
		run_list(peer_lists[i], wants);
	for (size_t i = 0; !options.peer && i < LISTS; i++)
		run_list(lists[i], wants);
	return report_end(&facts, *ended ? ended : NULL);
}
