/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-sub writes the messages of groups, a line for each message. */
#include "topic.h"

#include <arpa/inet.h>
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
"Usage: rdmamsg-sub [OPTION...] GROUP...\n"
"       rdmamsg-sub --list [--json] [PATTERN...]\n"
"\n"
"Writes each message of the multicast groups to standard output, a line each,\n"
"until a signal ends it. A group is an address, the name of a topic of\n"
"/etc/rdmamsg/topics, or a pattern of names, such as 'ticks.*'. Lines of\n"
"several topics begin with their names.\n"
"\n"
"  -a, --address=ADDR      local address to receive at\n"
"  -b, --bind=ADDR         the same as --address\n"
"  -d, --device=NAME       RDMA device to receive through\n"
"  -m, --group=GROUP       one more group\n"
"  -M, --mgid=MGID         one more, by its MGID; needs an address or a device\n"
"  -p, --port-space=SPACE  udp or ipoib; udp\n"
"  -c, --members=N         memberships of each group; 1\n"
"  -t, --timeout=SEC       until the groups are joined; 10\n"
"  -n, --count=N           end after N messages\n"
"  -C, --messages=N        end after N messages for each membership; 0: join,\n"
"                          and leave\n"
"  -w, --wait=SEC          fail if no message comes for so long\n"
"      --max-message=BYTES largest message; 1 MB, at most 16 MB\n"
"      --raw               plain datagrams, of programs without rdmamsg\n"
"      --repair            ask publishers for what is missing\n"
"      --unordered         with --repair: write each message when it is whole,\n"
"                          also before an earlier one that is repaired\n"
"      --backlog=N         with --repair: the last N messages of each publisher\n"
"                          that has kept them, first\n"
"      --key-file=FILE     the key of the group: who has another sees nothing\n"
"      --json              a JSON object for each message and each gap\n"
"      --list              list the topics that match the patterns, or all\n"
"  -v, --verbose           tell on standard error what was joined\n"
"  -h, --help              this text\n"
"  -V, --version           the version of the library\n"
"\n"
"Gaps are told on standard error. Exit status: 0, 1 after a failure, 2 for\n"
"wrong use, 3 if messages were lost, 128 + N if signal N came\n"
"before the messages of --count or --messages.\n";

static const struct option names[] = {
	{ "address", required_argument, NULL, 'a' },
	{ "bind", required_argument, NULL, 'b' },
	{ "device", required_argument, NULL, 'd' },
	{ "group", required_argument, NULL, 'm' },
	{ "mgid", required_argument, NULL, 'M' },
	{ "port-space", required_argument, NULL, 'p' },
	{ "members", required_argument, NULL, 'c' },
	{ "timeout", required_argument, NULL, 't' },
	{ "count", required_argument, NULL, 'n' },
	{ "messages", required_argument, NULL, 'C' },
	{ "wait", required_argument, NULL, 'w' },
	{ "max-message", required_argument, NULL, OPT_MAX },
	{ "raw", no_argument, NULL, OPT_RAW },
	{ "repair", no_argument, NULL, OPT_REPAIR },
	{ "unordered", no_argument, NULL, OPT_UNORDERED },
	{ "backlog", required_argument, NULL, OPT_BACKLOG },
	{ "key-file", required_argument, NULL, OPT_KEY_FILE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "list", no_argument, NULL, OPT_LIST },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

static const struct program program = {
	.name = "rdmamsg-sub", .usage = usage, .options = names,
	.shorts = "a:b:d:m:M:p:c:t:n:C:w:vhV",
	.flags = RDMAMSG_GROUP_SUBSCRIBE, .patterns = true,
};

static unsigned long messages, wanted;
static uint64_t lost;

static void put_json(const uint8_t *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (data[i] == '"' || data[i] == '\\')
			printf("\\%c", data[i]);
		else if (data[i] < 0x20 || data[i] > 0x7e)
			printf("\\u%04x", data[i]);
		else
			putchar(data[i]);
}

static void put_sender(const struct rdmamsg_group_message *msg)
{
	char gid[INET6_ADDRSTRLEN];

	if (!(options.flags & RDMAMSG_GROUP_RAW)) {
		printf("\"sender\": \"%016" PRIx64 "\", \"number\": %" PRIu32
		       ", ", msg->sender->id, msg->number);
		return;
	}
	inet_ntop(AF_INET6, msg->sender->gid, gid, sizeof(gid));
	printf("\"gid\": \"%s\", \"qp\": %" PRIu32 ", ", gid,
	       msg->sender->qp_num);
	if (msg->has_imm)
		printf("\"immediate\": %" PRIu32 ", ", msg->imm);
}

static bool is_enough(void)
{
	return options.counts && messages == wanted;
}

/*
 * Returns the milliseconds until a message is due, or -1. Exits if it is late.
 */
static int patience(void)
{
	static unsigned long before;
	static unsigned long long since;
	unsigned long long now = now_ms();

	if (!options.wait_ms)
		return -1;
	if (!since || messages != before)
		since = now;
	before = messages;
	if (now - since >= options.wait_ms)
		errx(FAILED, "no message for %u s, after %lu",
		     options.wait_ms / 1000, messages);
	return (int)(since + options.wait_ms - now);
}

static void on_message(struct rdmamsg_group *group,
		       const struct rdmamsg_group_message *msg)
{
	const struct topic *t = rdmamsg_group_user(group);

	if (is_enough())
		return;
	messages++;
	if (options.json) {
		printf("{\"group\": \"%s\", ", t->name);
		put_sender(msg);
		printf(msg->is_backlog ? "\"backlog\": true, \"data\": \"" :
		       "\"data\": \"");
		put_json(msg->data, msg->len);
		printf("\"}\n");
	} else {
		if (options.prefix)
			printf("%s: ", t->name);
		fwrite(msg->data, 1, msg->len, stdout);
		putchar('\n');
	}
}

static void on_gap(struct rdmamsg_group *group,
		   const struct rdmamsg_group_sender *sender, uint32_t first,
		   uint32_t last)
{
	const struct topic *t = rdmamsg_group_user(group);

	lost += last - first + 1u;
	if (options.json)
		printf("{\"group\": \"%s\", \"sender\": \"%016" PRIx64
		       "\", \"lost\": [%" PRIu32 ", %" PRIu32 "]}\n",
		       t->name, sender->id, first, last);
	else
		fprintf(stderr, "rdmamsg-sub: %s: messages %" PRIu32 " to %"
			PRIu32 " of sender %016" PRIx64 " are lost\n",
			t->name, first, last, sender->id);
}

static void on_backlog(struct rdmamsg_group *group,
		       const struct rdmamsg_group_sender *sender,
		       uint32_t first, uint32_t count, int less)
{
	const struct topic *t = rdmamsg_group_user(group);

	if (options.verbose || less)
		fprintf(stderr, "rdmamsg-sub: %s: %" PRIu32 " messages of sender "
			"%016" PRIx64 " from before%s\n", t->name, count,
			sender->id, less ? ", and it has not kept more" : "");
}

/* Nobody counts the messages of senders that the library does not follow. */
static void tell_unfollowed(void)
{
	struct rdmamsg_group_stats c = { .size = sizeof(c) };

	for (int i = 0; i < topic_count; i++) {
		if (!topics[i].group ||
		    rdmamsg_group_get_stats(topics[i].group, &c) ||
		    !c.dropped_senders)
			continue;
		lost += c.dropped_senders;
		warnx("%s: %" PRIu64 " datagrams of too many senders are lost",
		      topics[i].name, c.dropped_senders);
	}
}

/* Perhaps the key is a wrong one. */
static void tell_other_keys(void)
{
	struct rdmamsg_group_stats c = { .size = sizeof(c) };

	for (int i = 0; i < topic_count; i++)
		if (topics[i].group &&
		    !rdmamsg_group_get_stats(topics[i].group, &c) &&
		    c.dropped_key)
			warnx("%s: %" PRIu64 " datagrams %s are dropped",
			      topics[i].name, c.dropped_key, options.key_file ?
			      "without the key of --key-file" :
			      "with a key (see --key-file)");
}

/* With -C 0 it shall have joined. */
static bool is_cut_short(void)
{
	bool joined = true;

	if (!stopped || !options.counts)
		return false;
	for (int i = 0; i < topic_count; i++)
		joined &= topics[i].joined;
	return wanted ? messages < wanted : !joined;
}

int main(int argc, char **argv)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = topic_joined,
		.on_lost = topic_lost, .on_message = on_message,
		.on_gap = on_gap, .on_backlog = on_backlog,
		.on_closed = topic_closed,
	};

	bool cut_short;

	options_parse(argc, argv, &program);
	wanted = options.count;
	if (options.each)
		wanted *= (unsigned long)topic_count;
	topics_join(&on);
	while (!stopped && !is_enough()) {
		turn(patience());
		if (fflush(stdout) || ferror(stdout))
			err(FAILED, "standard output");
	}
	tell_unfollowed();
	tell_other_keys();
	cut_short = is_cut_short();
	topics_leave();
	if (cut_short)
		return 128 + stopped;
	return lost ? LOSS : ALL_WELL;
}
