/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line. */
#include "perf.h"
#include "plot.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdmamsg/diag.h>

#define TO_EXIT(status)	((status) + 1)
#define TIME_MOST	3600	/* s */
#define PAUSE_MOST_MS	60000
#define DROP_MOST	100	/* percent */

enum { OPT_POLL = 256, OPT_EVENT, OPT_ONCE, OPT_CHECK, OPT_JSON, OPT_SRQ,
       OPT_COLD, OPT_PLOT, OPT_COMPACT, OPT_HIST, OPT_STEPS,
       OPT_CPUS, OPT_ONLY,
       OPT_RATE, OPT_TIME, OPT_GROUP, OPT_DROP, OPT_NO_REPAIR, OPT_UNORDERED,
       OPT_GUARD, OPT_CRC, OPT_FAILOVER, OPT_KEY_FILE, OPT_PAUSE };

static const struct option long_options[] = {
	{ "address", required_argument, NULL, 'a' },
	{ "port", required_argument, NULL, 'p' },
	{ "device", required_argument, NULL, 'd' },
	{ "size", required_argument, NULL, 's' },
	{ "steps", required_argument, NULL, OPT_STEPS },
	{ "count", required_argument, NULL, 'n' },
	{ "poll", no_argument, NULL, OPT_POLL },
	{ "event", no_argument, NULL, OPT_EVENT },
	{ "once", no_argument, NULL, OPT_ONCE },
	{ "check", no_argument, NULL, OPT_CHECK },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "cold", no_argument, NULL, OPT_COLD },
	{ "pause", required_argument, NULL, OPT_PAUSE },
	{ "plot", required_argument, NULL, OPT_PLOT },
	{ "compact", no_argument, NULL, OPT_COMPACT },
	{ "hist", no_argument, NULL, OPT_HIST },
	{ "cpus", required_argument, NULL, OPT_CPUS },
	{ "only", required_argument, NULL, OPT_ONLY },
	{ "rate", required_argument, NULL, OPT_RATE },
	{ "time", required_argument, NULL, OPT_TIME },
	{ "subscribers", required_argument, NULL, 'S' },
	{ "group", required_argument, NULL, OPT_GROUP },
	{ "drop", required_argument, NULL, OPT_DROP },
	{ "no-repair", no_argument, NULL, OPT_NO_REPAIR },
	{ "unordered", no_argument, NULL, OPT_UNORDERED },
	{ "srq", no_argument, NULL, OPT_SRQ },
	{ "guard", no_argument, NULL, OPT_GUARD },
	{ "crc", no_argument, NULL, OPT_CRC },
	{ "failover", required_argument, NULL, OPT_FAILOVER },
	{ "key-file", required_argument, NULL, OPT_KEY_FILE },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};
#define OPTIONS (sizeof(long_options) / sizeof(long_options[0]) - 1)

static const char help[] =
"Usage: rdmamsg-perf server [OPTION...]\n"
"       rdmamsg-perf TEST HOST [OPTION...]\n"
"       rdmamsg-perf plot FILE... [--plot=FILE] [--compact]\n"
"       rdmamsg-perf compare [OPTION...]\n"
"       rdmamsg-perf group-lat [OPTION...]\n"
"\n"
"Measures messages between a server and a client. Start the server on one host,\n"
"then a TEST with the server's address as HOST on the other.\n"
"\n"
"Tests:\n"
"  lat         latency, one way: half of a round trip\n"
"  rate        messages per second, one way, as many in flight as fit\n"
"  bw          bytes per second, one way, a few large messages in flight\n"
"  write-lat   one-sided writes: half of a round trip; always polls\n"
"  read-lat    a read, from the call to its completion\n"
"  atomic-lat  a fetch-and-add of 8 bytes, from the call to its completion\n"
"  write-bw, read-bw\n"
"              bytes per second, many writes or reads in flight\n"
"  tune        sizes from which each message path is the fastest\n"
"  conns       many connections: setup rate, memory of each, and round trips\n"
"              with 64 messages in flight over all of them\n"
"\n"
"plot draws the results of --json, each FILE in curves of its own: latency and\n"
"rates over size, and latency over time. gnuplot makes the pictures.\n"
"\n"
"compare measures rdmamsg in turns with TCP and, where they are installed,\n"
"ZeroMQ, UCX and libfabric, on this host and the same two processors. It takes\n"
"-a, -s SMALL[,LARGE], -n ROUNDS, --json, and:\n"
"      --cpus=A,B      processors of server and client; default: the first two\n"
"      --only=NAME,... rivals whose names begin so; default: all\n"
"\n"
"group-lat measures a group on this host, from the time at which a message is to\n"
"be published to its delivery, at a fixed rate. It takes -a, -s, -n, --poll,\n"
"--event, --json, --hist, --plot, --compact, and:\n"
"      --rate=N        messages per second; default: 20000\n"
"      --time=SECONDS  messages for so long, instead of -n; default: 5\n"
"  -S, --subscribers=N subscribers, each a process; default: 1\n"
"      --group=ADDRESS multicast address; default: " PERF_GROUP "\n"
"      --drop=PERCENT  lose this percentage of the datagrams (the soft HCA only)\n"
"      --no-repair     do not repair losses\n"
"      --unordered     deliver each message when it is whole, also before one\n"
"                      that is repaired\n"
"\n"
"Options of the server:\n"
"  -a, --address=ADDR  listen on this address; default: all\n"
"  -d, --device=NAME   use this RDMA device; default: by address\n"
"      --once          exit after one client\n"
"Options of tests:\n"
"  -s, --size=SIZE,... bytes of a message, up to 2147483647; K, M, G: powers of\n"
"                      1024 (not tune)\n"
"      --steps=FROM:TO[:STEP]\n"
"                      measure sizes from FROM to TO, STEP bytes apart, and print\n"
"                      the two neighbours whose times differ the most, instead\n"
"                      of a table; STEP is " PERF_STRING(PERF_STEP) " by default (not atomic-lat, tune,\n"
"                      conns)\n"
"  -n, --count=COUNT   messages, or connections of conns; default: as many as it\n"
"                      takes for three digits that stay, a second at most\n"
"      --check         verify every byte (lat, rate, bw)\n"
"      --json          print an object on a line for each size (not tune)\n"
"      --cold          measure the first messages of a new connection for each\n"
"                      size, which touch fresh memory; default: messages after\n"
"                      a warm-up, which is left out (not tune, conns)\n"
"      --pause=MS      rest for so long after the warm-up, and measure the\n"
"                      first 16 messages that follow (not tune, conns)\n"
"      --hist          print how the latencies are distributed (not tune, conns)\n"
"      --plot=FILE     draw into FILE.svg or FILE.png with gnuplot, or for '-' as\n"
"                      text (also of plot; not tune, conns)\n"
"      --compact       a small picture: nothing over time, and bandwidths of\n"
"                      rate and bw only (with --plot)\n"
"      --guard         guard both ends of each connection (not tune)\n"
"      --crc           a CRC-32C over each message (not tune)\n"
"      --failover=HOST go on over another connection when one is lost, to the\n"
"                      first host or to HOST, its other address or the same;\n"
"                      print the longest time without traffic (not tune, conns,\n"
"                      write-lat)\n"
"Options of both:\n"
"  -p, --port=PORT     port number or service name; default: " PERF_PORT "\n"
"      --poll          poll for messages; default: client yes, server as its\n"
"                      client does\n"
"      --event         sleep until a message arrives (not write-lat)\n"
"      --key-file=FILE pre-shared key of both sides, readable by its owner only\n"
"      --srq           all connections share their receives (server, conns)\n"
"  -h, --help          print this and exit\n"
"  -V, --version       print the version and exit\n"
"\n"
"Times of rate and bw are from sending a message to its confirmation. rate takes\n"
"the time of one message in 64.\n"
"Exit status: 0 measured without errors, 1 failed or with errors, 2 wrong usage,\n"
"128 + N interrupted by signal N.\n";

__attribute__((format(printf, 1, 2))) static int wrong(const char *fmt, ...)
{
	va_list ap;

	fputs("rdmamsg-perf: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("; see --help\n", stderr);
	return TO_EXIT(2);
}

/* Reads "64" or "4K". Returns the number and its end, or -EINVAL. */
static int number(const char *s, uint64_t max, uint64_t *ret, const char **end)
{
	static const char suffix[] = "KMG";
	const char *at;
	char *stop;
	uint64_t n;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	n = strtoull(s, &stop, 10);
	if (errno || n > max)
		return -ERANGE;
	at = *stop > '@' ? strchr(suffix, *stop & ~0x20) : NULL;
	if (at) {
		int shift = 10 * (int)(at - suffix + 1);

		if (n > max >> shift)
			return -ERANGE;
		n <<= shift;
		stop++;
	}
	*ret = n;
	*end = stop;
	return 0;
}

static int sizes(struct perf_options *o, const char *list)
{
	o->size_count = 0;
	for (const char *s = list;; s++) {
		uint64_t n;
		int ret = number(s, RDMAMSG_MSG_MAX, &n, &s);

		if (ret || (*s && *s != ','))
			return wrong("-s %s: %s", list, ret == -ERANGE ?
				     "at most 2147483647 bytes" :
				     "sizes are numbers, with K, M or G");
		if (o->size_count == PERF_SIZES_MAX)
			return wrong("-s: at most %d sizes", PERF_SIZES_MAX);
		o->sizes[o->size_count++] = (uint32_t)n;
		if (!*s)
			return 0;
	}
}

/* Reads "FROM:TO" or "FROM:TO:STEP". */
static int steps(struct perf_options *o, const char *arg)
{
	uint64_t n[3] = { 0, 0, PERF_STEP };
	const char *s = arg;

	for (int i = 0; i < 3; i++) {
		int ret = number(s, RDMAMSG_MSG_MAX, &n[i], &s);

		if (ret == -ERANGE)
			return wrong("--steps %s: at most 2147483647 bytes",
				     arg);
		if (!ret && !*s && i)
			break;
		if (ret || *s++ != ':' || i == 2)
			return wrong("--steps %s: FROM:TO[:STEP] are numbers, "
				     "with K, M or G", arg);
	}
	if (n[0] > n[1])
		return wrong("--steps %s: FROM is above TO", arg);
	if (!n[2])
		return wrong("--steps %s: STEP is at least 1", arg);
	if (n[1] - n[0] < n[2])
		return wrong("--steps %s: one size has no step: TO is at least "
			     "FROM + STEP", arg);
	if ((n[1] - n[0]) / n[2] >= PERF_STEPS_MAX)
		return wrong("--steps %s: at most %d sizes", arg,
			     PERF_STEPS_MAX);
	o->steps.from = (uint32_t)n[0];
	o->steps.to = (uint32_t)n[1];
	o->steps.step = (uint32_t)n[2];
	return 0;
}

/* 'name' is the option's, for the error text. */
static int natural(uint32_t *ret, const char *name, const char *arg,
		   uint32_t most)
{
	const char *end;
	uint64_t n;

	if (number(arg, most, &n, &end) || *end || !n)
		return wrong("%s %s: a number from 1 to %u", name, arg, most);
	*ret = (uint32_t)n;
	return 0;
}

static int percent(struct perf_options *o, const char *arg)
{
	char *end;

	o->drop = strtod(arg, &end);
	if (*arg < '0' || *arg > '9' || *end || !(o->drop < DROP_MOST))
		return wrong("--drop %s: a percentage, from 0 to less than %d",
			     arg, DROP_MOST);
	return 0;
}

static int processors(struct perf_options *o, const char *arg)
{
	const char *s = arg;
	uint64_t n[2];

	if (number(s, PERF_CPU_MAX, &n[0], &s) || *s != ',' ||
	    number(s + 1, PERF_CPU_MAX, &n[1], &s) || *s || n[0] == n[1])
		return wrong("--cpus %s: two different processors, as 0,1",
			     arg);
	o->cpus[0] = (int)n[0];
	o->cpus[1] = (int)n[1];
	return 0;
}

static bool applies(const struct perf_options *o, int opt)
{
	switch (opt) {
	case OPT_CPUS:
	case OPT_ONLY:
		return o->command == CMD_COMPARE;
	case OPT_RATE:
	case OPT_TIME:
	case 'S':
	case OPT_GROUP:
	case OPT_DROP:
	case OPT_NO_REPAIR:
	case OPT_UNORDERED:
		return o->command == CMD_GROUP;
	case 'a':
		return o->command == CMD_SERVER || o->command == CMD_COMPARE ||
		       o->command == CMD_GROUP;
	case 'd':
	case OPT_ONCE:
		return o->command == CMD_SERVER;
	case OPT_CHECK:
	case OPT_COLD:
	case OPT_PAUSE:
	case OPT_STEPS:
	case OPT_FAILOVER:
		return o->command == CMD_TEST;
	case OPT_HIST:
		return o->command == CMD_TEST || o->command == CMD_GROUP;
	case 's':
	case OPT_JSON:
		return o->command == CMD_TEST || o->command == CMD_CONNS ||
		       o->command == CMD_COMPARE || o->command == CMD_GROUP;
	case OPT_POLL:
	case OPT_EVENT:
		return o->command != CMD_PLOT && o->command != CMD_COMPARE;
	case OPT_GUARD:
		return o->command == CMD_TEST || o->command == CMD_CONNS;
	case OPT_SRQ:
		return o->command == CMD_SERVER || o->command == CMD_CONNS;
	case 'n':
		return o->command != CMD_SERVER && o->command != CMD_PLOT;
	case OPT_PLOT:
	case OPT_COMPACT:
		return o->command == CMD_TEST || o->command == CMD_PLOT ||
		       o->command == CMD_GROUP;
	default:
		return o->command != CMD_PLOT && o->command != CMD_COMPARE &&
		       o->command != CMD_GROUP;
	}
}

/* Checks that every given option belongs to this command. */
static int all_apply(const struct perf_options *o, const bool *given,
		     const char *word)
{
	for (size_t i = 0; i < OPTIONS; i++)
		if (given[i] && !applies(o, long_options[i].val))
			return wrong("--%s is not an option of %s",
				     long_options[i].name, word);
	return 0;
}

static int option(struct perf_options *o, int opt, const char *arg)
{
	switch (opt) {
	case 'a':
		o->host = arg;
		return 0;
	case 'p':
		o->port = arg;
		return 0;
	case 'd':
		o->device = arg;
		return 0;
	case 's':
		return sizes(o, arg);
	case OPT_STEPS:
		return steps(o, arg);
	case 'n':
		return natural(&o->count, "-n", arg, PERF_COUNT_MAX);
	case OPT_POLL:
		o->poll = true;
		return 0;
	case OPT_EVENT:
		o->event = true;
		return 0;
	case OPT_ONCE:
		o->once = true;
		return 0;
	case OPT_CHECK:
		o->check = true;
		return 0;
	case OPT_JSON:
		o->json = true;
		return 0;
	case OPT_COLD:
		o->cold = true;
		return 0;
	case OPT_PAUSE:
		return natural(&o->pause_ms, "--pause", arg, PAUSE_MOST_MS);
	case OPT_CPUS:
		return processors(o, arg);
	case OPT_ONLY:
		o->only = arg;
		return 0;
	case OPT_RATE:
		return natural(&o->rate, "--rate", arg, PERF_RATE_MAX);
	case OPT_TIME:
		return natural(&o->seconds, "--time", arg, TIME_MOST);
	case 'S':
		return natural(&o->subscribers, "-S", arg,
			       PERF_SUBSCRIBERS_MAX);
	case OPT_GROUP:
		o->group = arg;
		return 0;
	case OPT_DROP:
		return percent(o, arg);
	case OPT_NO_REPAIR:
		o->no_repair = true;
		return 0;
	case OPT_UNORDERED:
		o->unordered = true;
		return 0;
	case OPT_HIST:
		o->hist = true;
		return 0;
	case OPT_PLOT:
		o->plot = arg;
		return perf_plot_can(arg) ? 0 :
		       wrong("--plot '%s': FILE.svg, FILE.png or -", arg);
	case OPT_COMPACT:
		perf_plot_compact();
		return 0;
	case OPT_SRQ:
		o->srq = true;
		return 0;
	case OPT_GUARD:
		o->guard = true;
		return 0;
	case OPT_CRC:
		o->crc = true;
		return 0;
	case OPT_FAILOVER:
		o->failover = true;
		o->other = arg;
		return 0;
	case OPT_KEY_FILE:
		perf_context.key_file = arg;
		return 0;
	case 'h':
		fputs(help, stdout);
		return TO_EXIT(0);
	case 'V':
		printf("rdmamsg-perf %s\n", rdmamsg_version());
		return TO_EXIT(0);
	default:
		/* getopt has named the wrong option */
		fputs("rdmamsg-perf: see --help\n", stderr);
		return TO_EXIT(2);
	}
}

static int command(struct perf_options *o, const char *word)
{
	if (!strcmp(word, "server")) {
		o->command = CMD_SERVER;
		return 0;
	}
	if (!strcmp(word, "tune")) {
		o->command = CMD_TUNE;
		return 0;
	}
	if (!strcmp(word, "conns")) {
		o->command = CMD_CONNS;
		return 0;
	}
	if (!strcmp(word, "compare")) {
		o->command = CMD_COMPARE;
		return 0;
	}
	if (!strcmp(word, "group-lat")) {
		o->command = CMD_GROUP;
		return 0;
	}
	if (!strcmp(word, "plot")) {
		o->command = CMD_PLOT;
		return 0;
	}
	for (int i = PERF_LAT; i < PERF_TESTS; i++) {
		if (strcmp(word, perf_test_names[i]))
			continue;
		o->command = CMD_TEST;
		o->test = (enum perf_test)i;
		return 0;
	}
	return wrong("'%s' is no test, and not 'server'", word);
}

/* Returns true for HOST:PORT, and false for an IPv6 address. */
static bool has_port(const char *host)
{
	const char *colon = strchr(host, ':');

	return colon && !strchr(colon + 1, ':');
}

static int compare_sizes(const struct perf_options *o)
{
	if (o->size_count > 2)
		return wrong("compare takes two sizes");
	for (int i = 0; i < o->size_count; i++)
		if (!o->sizes[i])
			return wrong("-s 0: compare needs a byte");
	return 0;
}

static int group_values(const struct perf_options *o)
{
	if (o->count && o->seconds)
		return wrong("-n or --time, not both");
	if (o->no_repair && o->unordered)
		return wrong("--no-repair or --unordered, not both");
	if ((uint64_t)o->rate * o->seconds > PERF_COUNT_MAX)
		return wrong("--time %u: at most %u messages", o->seconds,
			     PERF_COUNT_MAX);
	for (int i = 0; i < o->size_count; i++)
		if (o->sizes[i] < PERF_GROUP_LEAST)
			return wrong("-s %u: messages of group-lat have at "
				     "least %d bytes, for their time and "
				     "number", o->sizes[i], PERF_GROUP_LEAST);
	return 0;
}

static int steps_values(const struct perf_options *o)
{
	if (o->size_count)
		return wrong("--steps or -s, not both");
	if (o->cold || o->pause_ms)
		return wrong("--steps or --%s, not both",
			     o->cold ? "cold" : "pause");
	if (o->hist)
		return wrong("--steps or --hist, not both");
	if (o->plot)
		return wrong("--steps or --plot, not both");
	if (o->test == PERF_ATOMIC_LAT)
		return wrong("--steps: atomic operations are on 8 bytes");
	if (!o->steps.from && perf_one_sided(o->test))
		return wrong("--steps: one-sided tests need a byte");
	return 0;
}

static int one_sided_values(const struct perf_options *o)
{
	if (o->check)
		return wrong("--check is not for one-sided tests");
	if (o->failover && o->test == PERF_WRITE_LAT)
		return wrong("write-lat looks at memory: no --failover");
	if (o->event && o->test == PERF_WRITE_LAT)
		return wrong("write-lat looks at memory: no --event");
	for (int i = 0; i < o->size_count; i++)
		if (!o->sizes[i] ||
		    (o->test == PERF_ATOMIC_LAT && o->sizes[i] != 8))
			return wrong("-s %u: %s", o->sizes[i], o->sizes[i] ?
				     "atomic operations are on 8 bytes" :
				     "one-sided tests need a byte");
	return 0;
}

static int test_values(const struct perf_options *o)
{
	int ret = o->steps.step ? steps_values(o) : 0;

	return ret || !perf_one_sided(o->test) ? ret : one_sided_values(o);
}

static int plot_operands(struct perf_options *o, int argc, char **argv)
{
	if (argc < 2)
		return wrong("plot: FILE is missing");
	o->files = argv + 1;
	o->file_count = argc - 1;
	if (!o->plot)
		o->plot = "-";
	return 0;
}

static int operands(struct perf_options *o, int argc, char **argv)
{
	int wanted = o->command == CMD_SERVER || o->command == CMD_COMPARE ||
		     o->command == CMD_GROUP ? 1 : 2;

	if (o->command == CMD_PLOT)
		return plot_operands(o, argc, argv);
	if (argc < wanted || !*argv[wanted - 1])
		return wrong("%s: HOST is missing", argv[0]);
	if (argc > wanted)
		return wrong("'%s': one operand too many", argv[wanted]);
	if (wanted == 2)
		o->host = argv[1];
	if (wanted == 2 && has_port(argv[1]))
		return wrong("'%s': the port goes to -p", argv[1]);
	if (wanted == 2 && !o->port[strspn(o->port, "0")])
		return wrong("-p '%s': 0 is for the server", o->port);
	if (o->command == CMD_COMPARE)
		return compare_sizes(o);
	if (o->poll && o->event)
		return wrong("--poll or --event, not both");
	if (o->command == CMD_CONNS && o->size_count > 1)
		return wrong("conns takes one size");
	if (o->json && o->hist)
		return wrong("--json or --hist, not both");
	if (o->json && o->plot && !strcmp(o->plot, "-"))
		return wrong("--json or --plot=-, not both");
	if (o->command == CMD_GROUP)
		return group_values(o);
	if (o->cold && o->failover)
		return wrong("--cold or --failover, not both");
	if (o->cold && o->pause_ms)
		return wrong("--cold or --pause, not both");
	if (o->guard && o->srq)
		return wrong("--guard or --srq, not both");
	return o->command == CMD_TEST ? test_values(o) : 0;
}

static void mark(bool *given, int opt)
{
	for (size_t i = 0; i < OPTIONS; i++)
		given[i] |= long_options[i].val == opt;
}

int perf_options(struct perf_options *o, int argc, char **argv)
{
	bool given[OPTIONS] = { false };
	int opt, ret = 0;

	argv[0] = (char *)"rdmamsg-perf";	/* getopt prints this name */
	memset(o, 0, sizeof(*o));
	o->port = PERF_PORT;
	o->group = PERF_GROUP;
	o->subscribers = 1;
	while (!ret && (opt = getopt_long(argc, argv, "a:p:d:s:n:S:hV",
					  long_options, NULL)) != -1) {
		mark(given, opt);
		ret = option(o, opt, optarg);
	}
	if (ret)
		return ret;
	argc -= optind;
	argv += optind;
	if (!argc)
		return wrong("which test, or server?");
	ret = command(o, argv[0]);
	if (!ret)
		ret = all_apply(o, given, argv[0]);
	return ret ? ret : operands(o, argc, argv);
}
