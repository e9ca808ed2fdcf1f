/* SPDX-License-Identifier: BSD-2-Clause */
#include "topic.h"
#include "../output.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct options options = {
	.timeout_ms = 10000, .members = 1, .size = 100,
};
struct rdmamsg *ctx;
struct topic topics[TOPICS_MAX];
int topic_count;
volatile sig_atomic_t stopped;
static volatile sig_atomic_t signals;	/* signals received */
static bool leaving_at_once;
static const char *unicast;		/* one of these groups, or NULL */

#define LARGEST	(16u << 20)		/* bytes of a message */

/* ---- options ---------------------------------------------------------- */

static unsigned long number(const char *arg, unsigned long least,
			    unsigned long most, const char *what)
{
	char *end;
	unsigned long n = strtoul(arg, &end, 10);

	if (*end || *arg < '0' || *arg > '9' || n < least || n > most)
		errx(WRONG_USE, "%s '%s': a number from %lu to %lu", what, arg,
		     least, most);
	return n;
}

static uint32_t milliseconds(const char *arg, const char *what)
{
	return 1000 * (uint32_t)number(arg, 1, 3600, what);
}

static void add_topic(const char *name, const char *address)
{
	struct topic *t = &topics[topic_count];

	if (topic_count == TOPICS_MAX)
		errx(WRONG_USE, "too many groups: at most %d", TOPICS_MAX);
	if (strlen(name) >= sizeof(t->name))
		errx(WRONG_USE, "'%s' is not the address of a group", name);
	if (!strncmp(address, "unicast:", 8))
		unicast = name;
	strcpy(t->name, name);
	strcpy(t->address, address);
	topic_count++;
}

static void add_group(const char *text)
{
	add_topic(text, text);
}

/* Patterns may have matches in common. */
static int add_match(const char *name, const char *address, void *user)
{
	for (int i = 0; i < topic_count; i++)
		if (!strcmp(topics[i].name, name))
			return 0;
	/* its line of the file may have a key, too */
	add_topic(name, name);
	return 0;
}

static int list_match(const char *name, const char *address, void *user)
{
	printf(options.json ? "{\"name\": \"%s\", \"address\": \"%s\"}\n" :
	       "%s %s\n", name, address);
	return 0;
}

/* A variable of the environment can be wrong as well, and is no usage. */
static bool is_wrong_use(int ret)
{
	return ret == -EINVAL && !strstr(rdmamsg_error(), "RDMAMSG_");
}

static void each_match(const char *pattern,
		       int (*on_topic)(const char *name, const char *address,
				       void *user))
{
	int ret = rdmamsg_topics_each(pattern, on_topic, NULL);

	if (ret < 0)
		errx(is_wrong_use(ret) ? WRONG_USE : FAILED, "%s",
		     rdmamsg_error());
	if (!ret)
		errx(FAILED, "no topic matches '%s'", pattern);
}

static void add_operand(const struct program *p, const char *text)
{
	if (p->patterns && strchr(text, '*'))
		each_match(text, add_match);
	else
		add_group(text);
}

static void list_topics(char **patterns, int count)
{
	if (!count)
		each_match("*", list_match);
	for (int i = 0; i < count; i++)
		each_match(patterns[i], list_match);
	exit(ALL_WELL);
}

/* An address has a colon or is one of IPv4. */
static bool is_name(const char *text)
{
	struct in_addr a;

	return !strchr(text, ':') && inet_pton(AF_INET, text, &a) != 1;
}

static bool has_several_names(void)
{
	int names = 0;

	for (int i = 0; i < topic_count; i++)
		names += is_name(topics[i].name);
	return names > 1;
}

/* The library takes a fully written address for an MGID. */
static void add_mgid(const char *arg)
{
	struct in6_addr a;
	char text[INET6_ADDRSTRLEN];

	if (inet_pton(AF_INET6, arg, &a) != 1)
		errx(WRONG_USE, "--mgid '%s': not an MGID, such as "
		     "ff12:401b:ffff::1", arg);
	for (int i = 0; i < 8; i++)
		sprintf(text + 5 * i, i < 7 ? "%02x%02x:" : "%02x%02x",
			a.s6_addr[2 * i], a.s6_addr[2 * i + 1]);
	add_group(text);
}

static uint32_t port_space(const char *arg)
{
	if (!strcmp(arg, "ipoib") || !strcmp(arg, "0x2") ||
	    !strcmp(arg, "0x0002"))
		return RDMAMSG_GROUP_IPOIB;
	if (strcmp(arg, "udp") && strcmp(arg, "0x111") &&
	    strcmp(arg, "0x0111"))
		errx(WRONG_USE, "--port-space '%s': udp or ipoib", arg);
	return 0;
}

static void take_flow(const char *arg)
{
	options.flow = RDMAMSG_GROUP_FLOW_SLOWEST;
	if (!strcmp(arg, "slowest"))
		return;
	options.flow = RDMAMSG_GROUP_FLOW_QUORUM;
	options.quorum = (uint32_t)number(arg, 1, 254,
					  "--flow other than slowest");
}

/* Adds as many memberships of each group as the option says. */
static void add_members(void)
{
	int groups = topic_count;

	for (unsigned int k = 1; k < options.members; k++)
		for (int i = 0; i < groups; i++)
			add_topic(topics[i].name, topics[i].address);
}

void options_parse(int argc, char **argv, const struct program *p)
{
	int c;

	argv[0] = (char *)(uintptr_t)p->name;
	output_check(FAILED);
	while ((c = getopt_long(argc, argv, p->shorts, p->options,
				NULL)) != -1)
		switch (c) {
		case 'a':
		case 'b':
			options.source = optarg;
			break;
		case 'd':
			options.device = optarg;
			break;
		case 't':
			options.timeout_ms = milliseconds(optarg, "--timeout");
			break;
		case 'm':
			add_operand(p, optarg);
			break;
		case 'M':
			options.by_mgid = true;
			add_mgid(optarg);
			break;
		case 'c':
			options.members = (unsigned int)
				number(optarg, 1, TOPICS_MAX, "--members");
			break;
		case 'n':
			/* fall through */
		case 'C':
			options.counts = true;
			options.each = c == 'C';
			options.count = number(optarg, c == 'n', 1ul << 40,
					       c == 'n' ? "--count" :
					       "--messages");
			break;
		case 'S':
			options.sized = true;
			options.size = number(optarg, 0, LARGEST, "--size");
			break;
		case 'p':
			options.flags |= port_space(optarg);
			break;
		case 'w':
			options.wait_ms = milliseconds(optarg, "--wait");
			break;
		case OPT_RATE:
			options.rate = (uint32_t)number(optarg, 0, 100000000,
							"--rate");
			if (!options.rate)
				options.rate = RDMAMSG_NONE;
			break;
		case OPT_SETTLE:
			options.settle_ms = milliseconds(optarg, "--settle");
			break;
		case OPT_LINGER:
			options.linger_ms = milliseconds(optarg, "--linger");
			break;
		case OPT_MAX:
			options.max_message = (uint32_t)
				number(optarg, 1, LARGEST, "--max-message");
			break;
		case OPT_IMMEDIATE:
			options.immediate = true;
			break;
		case 'v':
			options.verbose = true;
			break;
		case OPT_FILE:
			options.files = true;
			break;
		case OPT_RAW:
			options.flags |= RDMAMSG_GROUP_RAW;
			break;
		case OPT_REPAIR:
			options.flags |= RDMAMSG_GROUP_REPAIR;
			break;
		case OPT_UNORDERED:
			options.flags |= RDMAMSG_GROUP_UNORDERED;
			break;
		case OPT_CONFIRM:
			options.confirm = (uint32_t)
				number(optarg, 1, 254, "--confirm");
			break;
		case OPT_BACKLOG:
			options.backlog = (uint32_t)
				number(optarg, 1, UINT32_MAX, "--backlog");
			break;
		case OPT_FLOW:
			take_flow(optarg);
			break;
		case OPT_PARITY:
			options.parity = (uint32_t)
				number(optarg, 1, 32, "--parity");
			break;
		case OPT_KEY_FILE:
			options.key_file = optarg;
			break;
		case OPT_LIST:
			options.list = true;
			break;
		case OPT_JSON:
			options.json = true;
			break;
		case 'V':
			printf("%s %d.%d.%d\n", p->name, RDMAMSG_VERSION_MAJOR,
			       RDMAMSG_VERSION_MINOR, RDMAMSG_VERSION_PATCH);
			exit(ALL_WELL);
		case 'h':
			printf("%s", p->usage);
			exit(ALL_WELL);
		default:
			fprintf(stderr, "%s: see --help\n", p->name);
			exit(WRONG_USE);
		}
	if (options.flags & RDMAMSG_GROUP_RAW &&
	    options.flags & RDMAMSG_GROUP_REPAIR)
		errx(WRONG_USE, "--raw and --repair: plain datagrams have no "
		     "number that could be asked for");
	if (options.immediate && !(options.flags & RDMAMSG_GROUP_RAW))
		errx(WRONG_USE, "--immediate needs --raw: messages of frames "
		     "have no immediate data");
	if (options.files && options.counts)
		errx(WRONG_USE, "--file and --messages: one of them");
	if (options.sized && !options.counts)
		errx(WRONG_USE, "--size needs --messages: it is the size of "
		     "each of them");
	if (options.confirm && !(options.flags & RDMAMSG_GROUP_REPAIR))
		errx(WRONG_USE, "--confirm needs --repair: without it "
		     "subscribers do not report");
	if (options.backlog && !(options.flags & RDMAMSG_GROUP_REPAIR))
		errx(WRONG_USE, "--backlog needs --repair: without it "
		     "publishers keep nothing");
	if (options.flags & RDMAMSG_GROUP_UNORDERED &&
	    !(options.flags & RDMAMSG_GROUP_REPAIR))
		errx(WRONG_USE, "--unordered needs --repair: without it no "
		     "message waits for another");
	if (options.flow && !(options.flags & RDMAMSG_GROUP_REPAIR))
		errx(WRONG_USE, "--flow needs --repair: without it subscribers "
		     "do not report");
	if (options.parity && !(options.flags & RDMAMSG_GROUP_REPAIR))
		errx(WRONG_USE, "--parity needs --repair: without it no "
		     "message waits for another");
	if (options.key_file && options.flags & RDMAMSG_GROUP_RAW)
		errx(WRONG_USE, "--key-file and --raw: plain datagrams have no "
		     "seal");
	if (options.linger_ms && !(options.flags & RDMAMSG_GROUP_REPAIR))
		errx(WRONG_USE, "--linger needs --repair: without it nobody "
		     "asks for messages");
	if (options.max_message && options.flags & RDMAMSG_GROUP_RAW)
		errx(WRONG_USE, "--max-message and --raw: the MTU bounds a "
		     "plain datagram");
	if (options.by_mgid && !options.source && !options.device)
		errx(WRONG_USE, "--mgid needs --address or --device: no route "
		     "leads to an MGID");
	/* when all have everything nobody is left to ask */
	if (options.confirm && !options.linger_ms)
		options.linger_ms = 1;
	options.flags |= p->flags;
	options.operands = argv + optind;
	options.operand_count = argc - optind;
	if (options.list)
		list_topics(options.operands, options.operand_count);
	/* with --file the first operand is a group, the others are files */
	while (options.operand_count && !(options.files && topic_count)) {
		add_operand(p, *options.operands++);
		options.operand_count--;
	}
	if (unicast && !(options.flags & RDMAMSG_GROUP_REPAIR))
		errx(WRONG_USE, "'%s' needs --repair: its subscribers report "
		     "to the publisher", unicast);
	if (!topic_count)
		errx(WRONG_USE, "no group, such as 239.1.2.3; see --help");
	options.prefix = has_several_names();
	add_members();
}

/* ---- groups ----------------------------------------------------------- */

static void on_signal(int sig)
{
	stopped = sig;
	signals++;
}

void topic_joined(struct rdmamsg_group *group)
{
	((struct topic *)rdmamsg_group_user(group))->joined = true;
}

void topic_lost(struct rdmamsg_group *group, const struct rdmamsg_reason *why)
{
	struct topic *t = rdmamsg_group_user(group);

	t->joined = false;
	warnx("%s: %s: joining again", t->name, why->text);
}

void topic_writable(struct rdmamsg_group *group)
{
	((struct topic *)rdmamsg_group_user(group))->writable = true;
}

void topic_closed(struct rdmamsg_group *group,
		  const struct rdmamsg_reason *why)
{
	struct topic *t = rdmamsg_group_user(group);

	t->group = NULL;
	t->joined = false;
	if (why->error && !leaving_at_once)
		errx(FAILED, "%s: %s", t->name, why->text);
}

unsigned long long now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (unsigned long long)t.tv_sec * 1000 +
	       (unsigned long long)t.tv_nsec / 1000000;
}

void turn_for(unsigned int ms)
{
	unsigned long long end = now_ms() + ms, now;

	while (!stopped && (now = now_ms()) < end)
		turn((int)(end - now));
}

void turn(int timeout_ms)
{
	int n = rdmamsg_wait(ctx, timeout_ms);

	if (n < 0 && n != -EINTR)
		errx(FAILED, "%s", rdmamsg_error());
}

static void join(struct topic *t, const struct rdmamsg_group_handlers *on)
{
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .user = t, .handlers = on,
		.flags = options.flags, .source = options.source,
		.device = options.device, .timeout_ms = options.timeout_ms,
		.rate = options.rate, .linger_ms = options.linger_ms,
		.max_message = options.max_message, .backlog = options.backlog,
		.flow = options.flow, .flow_quorum = options.quorum,
		.key_file = options.key_file, .parity = options.parity,
	};

	int ret = rdmamsg_group_join(ctx, t->address, &opts, &t->group);

	if (ret)
		errx(is_wrong_use(ret) ? WRONG_USE : FAILED, "'%s': %s",
		     t->name, rdmamsg_error());
}

static void describe(const struct topic *t)
{
	struct rdmamsg_group_attr i = { .size = sizeof(i) };
	char mgid[INET6_ADDRSTRLEN];

	if (rdmamsg_group_query(t->group, &i))
		return;
	inet_ntop(AF_INET6, i.mgid, mgid, sizeof(mgid));
	fprintf(stderr, "joined %s: device %s, port %d, MGID %s, MLID 0x%x, "
		"SL %d, Q_Key 0x%x, queue pair 0x%x\n", t->name, i.device,
		i.port, mgid, i.mlid, i.sl, i.qkey, i.qp_num);
}

void topics_join(const struct rdmamsg_group_handlers *on)
{
	struct sigaction sa = { .sa_handler = on_signal };

	(void)sigaction(SIGINT, &sa, NULL);
	(void)sigaction(SIGTERM, &sa, NULL);
	if (rdmamsg_open(&ctx, NULL))
		errx(FAILED, "%s", rdmamsg_error());
	for (int i = 0; i < topic_count; i++)
		join(&topics[i], on);
	for (int i = 0; i < topic_count && !stopped; i++)
		while (!topics[i].joined && !stopped)
			turn(-1);
	for (int i = 0; i < topic_count && options.verbose && !stopped; i++)
		describe(&topics[i]);
}

/* A group that is left while it is lost does not send the rest. */
static void await_joined(sig_atomic_t before)
{
	unsigned long long end = now_ms() + options.timeout_ms, now;

	for (int i = 0; i < topic_count; i++)
		while (topics[i].group && !topics[i].joined &&
		       signals == before) {
			now = now_ms();
			if (now >= end)
				errx(FAILED, "%s: the membership is lost, and "
				     "could not be joined again in %u s "
				     "(--timeout)", topics[i].name,
				     options.timeout_ms / 1000);
			turn((int)(end - now));
		}
}

void topics_leave(void)
{
	sig_atomic_t before = signals;

	if (options.flags & RDMAMSG_GROUP_PUBLISH && !stopped)
		await_joined(before);
	for (int i = 0; i < topic_count; i++)
		if (topics[i].group)
			rdmamsg_group_leave(topics[i].group);
	for (int i = 0; i < topic_count; i++)
		while (topics[i].group && signals == before)
			turn(200);	/* a signal may come just before */
	leaving_at_once = true;
	rdmamsg_close(ctx);
}
