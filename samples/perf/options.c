/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line. */
#include "perf.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TO_EXIT(status)	((status) + 1)
#define STRING(x)	#x
#define VERSION(a, b, c) STRING(a) "." STRING(b) "." STRING(c)

enum { OPT_POLL = 256, OPT_EVENT, OPT_ONCE, OPT_CHECK, OPT_JSON, OPT_SRQ,
       OPT_HELP, OPT_VERSION };

static const struct option long_options[] = {
	{ "poll", no_argument, NULL, OPT_POLL },
	{ "event", no_argument, NULL, OPT_EVENT },
	{ "once", no_argument, NULL, OPT_ONCE },
	{ "check", no_argument, NULL, OPT_CHECK },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "srq", no_argument, NULL, OPT_SRQ },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static const char usage[] =
"usage: rdmamsg-perf server [-a ADDR] [-p PORT] [-d DEVICE] [--poll|--event]\n"
"                           [--once] [--srq]\n"
"       rdmamsg-perf lat|rate|bw HOST [-p PORT] [-s SIZE[,SIZE...]]\n"
"                           [-n COUNT] [--poll|--event] [--check] [--json]\n"
"       rdmamsg-perf write-lat|read-lat|atomic-lat|write-bw|read-bw HOST\n"
"                           [-p PORT] [-s SIZE[,SIZE...]] [-n COUNT]\n"
"                           [--poll|--event] [--json]\n"
"       rdmamsg-perf tune HOST [-p PORT] [-n COUNT] [--poll|--event]\n"
"       rdmamsg-perf conns HOST [-p PORT] [-n CONNECTIONS] [-s SIZE] [--srq]\n"
"                           [--poll|--event] [--json]\n";

static const char help[] =
"\n"
"  server      serve clients, until a signal\n"
"  lat         latency, one way: half of there and back\n"
"  rate        messages per second, one way, as many in flight as fit\n"
"  bw          bytes per second, one way, a few large messages in flight\n"
"  write-lat   one-sided: half of a write there and one back; polls\n"
"  read-lat    a read, from the call to its end\n"
"  atomic-lat  a fetch-and-add of 8 bytes, likewise\n"
"  write-bw, read-bw   bytes per second, many under way\n"
"  tune        which way of sending is fastest from which size on\n"
"  conns       many connections: how fast they are made, what they cost, and\n"
"              messages there and back with 64 under way over all of them\n"
"\n"
"  -a ADDR     listen on this address; default: all\n"
"  -p PORT     default: " PERF_PORT "\n"
"  -d DEVICE   RDMA device of the server; default: by address\n"
"  -s SIZE,... bytes of a message, up to 2147483647; K, M, G: powers of 1024\n"
"  -n COUNT    messages; default: by size\n"
"  --poll      spin while waiting; the client's default. A server that is\n"
"              told nothing spins while it has a client that does, unless\n"
"              only its device has something to do\n"
"  --event     sleep while waiting\n"
"  --once      end after one client\n"
"  --check     verify every byte\n"
"  --json      an object on a line for each size\n"
"  --srq       receives shared by all connections\n"
"\n"
"For rate and bw the times are from sending a message to its confirmation;\n"
"rate times one message of 64.\n";

__attribute__((format(printf, 1, 2))) static int wrong(const char *fmt, ...)
{
	va_list ap;

	fputs("rdmamsg-perf: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("\n", stderr);
	fputs(usage, stderr);
	return TO_EXIT(2);
}

/* "64", "4K": the number and where it ends, or -EINVAL. */
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
	at = *stop ? strchr(suffix, *stop & ~0x20) : NULL;
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

static int count(struct perf_options *o, const char *arg)
{
	const char *end;
	uint64_t n;

	if (number(arg, PERF_COUNT_MAX, &n, &end) || *end || !n)
		return wrong("-n %s: a number from 1 to %u", arg,
			     PERF_COUNT_MAX);
	o->count = (uint32_t)n;
	return 0;
}

static bool applies(const struct perf_options *o, int opt)
{
	switch (opt) {
	case 'a':
	case 'd':
	case OPT_ONCE:
		return o->command == CMD_SERVER;
	case OPT_CHECK:
		return o->command == CMD_TEST;
	case 's':
	case OPT_JSON:
		return o->command == CMD_TEST || o->command == CMD_CONNS;
	case OPT_SRQ:
		return o->command == CMD_SERVER || o->command == CMD_CONNS;
	case 'n':
		return o->command != CMD_SERVER;
	default:
		return true;
	}
}

static int foreign(int opt, const char *word)
{
	for (const struct option *l = long_options; l->name; l++)
		if (l->val == opt)
			return wrong("--%s is not an option of %s", l->name,
				     word);
	return wrong("-%c is not an option of %s", opt, word);
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
	case 'n':
		return count(o, arg);
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
	case OPT_SRQ:
		o->srq = true;
		return 0;
	default:
		return wrong("unknown option, or one without its argument");
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
	for (int i = PERF_LAT; i < PERF_TESTS; i++) {
		if (strcmp(word, perf_test_names[i]))
			continue;
		o->command = CMD_TEST;
		o->test = (enum perf_test)i;
		return 0;
	}
	return wrong("%s: not a command", word);
}

static int operands(struct perf_options *o, int argc, char **argv)
{
	int wanted = o->command == CMD_SERVER ? 0 : 1;

	if (argc < wanted)
		return wrong("which host?");
	if (argc > wanted)
		return wrong("%s: one word too many", argv[wanted]);
	if (wanted)
		o->host = argv[0];
	if (o->poll && o->event)
		return wrong("--poll or --event, not both");
	if (o->command != CMD_TEST || !perf_one_sided(o->test))
		return 0;
	if (o->check)
		return wrong("--check is not for one-sided tests");
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

/* --help and --version are good anywhere, even without a command. */
static int about(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		if (!strcmp(argv[i], "--help")) {
			printf("%s%s", usage, help);
			return TO_EXIT(0);
		}
		if (!strcmp(argv[i], "--version")) {
			puts("rdmamsg-perf " VERSION(RDMAMSG_VERSION_MAJOR,
						     RDMAMSG_VERSION_MINOR,
						     RDMAMSG_VERSION_PATCH));
			return TO_EXIT(0);
		}
	}
	return 0;
}

int perf_options(struct perf_options *o, int argc, char **argv)
{
	int opt, ret = about(argc, argv);

	if (ret)
		return ret;
	memset(o, 0, sizeof(*o));
	o->port = PERF_PORT;
	if (argc < 2)
		return wrong("which command?");
	ret = command(o, argv[1]);
	argc--;
	argv++;
	while (!ret && (opt = getopt_long(argc, argv, ":a:p:d:s:n:",
					  long_options, NULL)) != -1) {
		ret = applies(o, opt) ? option(o, opt, optarg) :
		      foreign(opt, argv[0]);
	}
	return ret ? ret : operands(o, argc - optind, argv + optind);
}
