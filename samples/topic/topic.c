/* SPDX-License-Identifier: BSD-2-Clause */
#include "topic.h"

#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options options = { .timeout_ms = 10000 };
struct rdmamsg *ctx;
struct topic topics[TOPICS_MAX];
int topic_count;
volatile sig_atomic_t stopped;

/* ---- options ---------------------------------------------------------- */

static unsigned long number(const char *arg, unsigned long most,
			    const char *what)
{
	char *end;
	unsigned long n = strtoul(arg, &end, 10);

	if (*end || end == arg || *arg == '-' || !n || n > most)
		errx(WRONG_USE, "%s '%s': a number from 1 to %lu", what, arg,
		     most);
	return n;
}

void options_parse(int argc, char **argv, const char *usage, bool publishes)
{
	enum { FILES = 256, RAW, REPAIR, JSON, VERSION };
	static const struct option names[] = {
		{ "address", required_argument, NULL, 'a' },
		{ "device", required_argument, NULL, 'd' },
		{ "timeout", required_argument, NULL, 't' },
		{ "count", required_argument, NULL, 'n' },
		{ "file", no_argument, NULL, FILES },
		{ "raw", no_argument, NULL, RAW },
		{ "repair", no_argument, NULL, REPAIR },
		{ "json", no_argument, NULL, JSON },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, VERSION },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, publishes ? "a:d:t:h" :
				"a:d:t:n:h", names, NULL)) != -1)
		switch (c) {
		case 'a':
			options.source = optarg;
			break;
		case 'd':
			options.device = optarg;
			break;
		case 't':
			options.timeout_ms = 1000 *
				(uint32_t)number(optarg, 3600, "--timeout");
			break;
		case 'n':
			if (publishes)
				errx(WRONG_USE, "--count is for rdmamsg-sub");
			options.count = number(optarg, 1ul << 40, "--count");
			break;
		case FILES:
			if (!publishes)
				errx(WRONG_USE, "--file is for rdmamsg-pub");
			options.files = true;
			break;
		case RAW:
			options.flags |= RDMAMSG_GROUP_RAW;
			break;
		case REPAIR:
			options.flags |= RDMAMSG_GROUP_REPAIR;
			break;
		case JSON:
			options.json = true;
			break;
		case VERSION:
			printf("rdmamsg %d.%d.%d\n", RDMAMSG_VERSION_MAJOR,
			       RDMAMSG_VERSION_MINOR, RDMAMSG_VERSION_PATCH);
			exit(ALL_WELL);
		case 'h':
			printf("%s", usage);
			exit(ALL_WELL);
		default:
			fprintf(stderr, "see --help\n");
			exit(WRONG_USE);
		}
	if (options.flags & RDMAMSG_GROUP_RAW &&
	    options.flags & RDMAMSG_GROUP_REPAIR)
		errx(WRONG_USE, "--raw and --repair: plain datagrams have no "
		     "number that could be asked for");
	options.flags |= publishes ? RDMAMSG_GROUP_PUBLISH :
			 RDMAMSG_GROUP_SUBSCRIBE;
	options.operands = argv + optind;
	options.operand_count = argc - optind;
	if (!options.operand_count)
		errx(WRONG_USE, "no group, such as 239.1.2.3; see --help");
}

/* ---- groups ----------------------------------------------------------- */

static void on_signal(int sig)
{
	stopped = sig;
}

void topic_joined(struct rdmamsg_group *group)
{
	((struct topic *)rdmamsg_group_user(group))->joined = true;
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
	if (why->error)
		errx(FAILED, "%s: %s", t->address, why->text);
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
	};

	if (rdmamsg_group_join(ctx, t->address, &opts, &t->group))
		errx(FAILED, "%s: %s", t->address, rdmamsg_error());
}

void topics_join(char **addresses, int count,
		 const struct rdmamsg_group_handlers *on)
{
	struct sigaction sa = { .sa_handler = on_signal };

	if (count > TOPICS_MAX)
		errx(WRONG_USE, "%d groups: at most %d", count, TOPICS_MAX);
	(void)sigaction(SIGINT, &sa, NULL);
	(void)sigaction(SIGTERM, &sa, NULL);
	if (rdmamsg_open(&ctx, NULL))
		errx(FAILED, "%s", rdmamsg_error());
	for (; topic_count < count; topic_count++) {
		topics[topic_count].address = addresses[topic_count];
		join(&topics[topic_count], on);
	}
	for (int i = 0; i < topic_count && !stopped; i++)
		while (!topics[i].joined && !stopped)
			turn(-1);
}

void topics_leave(void)
{
	for (int i = 0; i < topic_count; i++)
		if (topics[i].group)
			rdmamsg_group_leave(topics[i].group);
	for (int i = 0; i < topic_count; i++)
		while (topics[i].group)
			turn(-1);
	rdmamsg_close(ctx);
}
