/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-sub: writes what is published to groups, a line for each message. */
#include "topic.h"

#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
"Usage: rdmamsg-sub [OPTION...] GROUP...\n"
"\n"
"Writes each message of the multicast groups to standard output, a line each,\n"
"until a signal ends it.\n"
"\n"
"  -a, --address ADDR   local address to receive at\n"
"  -d, --device NAME    RDMA device to receive through\n"
"  -t, --timeout SEC    until the groups are joined; 10\n"
"  -n, --count N        end after N messages\n"
"      --raw            plain datagrams, of programs without rdmamsg\n"
"      --repair         ask publishers for what is missing\n"
"      --json           a JSON object for each message and each gap\n"
"  -h, --help           this text\n"
"      --version        the version of the library\n"
"\n"
"Gaps are told on standard error. Exit status: 0, 1 after a failure, 2 for\n"
"wrong use, 3 if messages were lost.\n";

static unsigned long messages;
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

static void on_message(struct rdmamsg_group *group,
		       const struct rdmamsg_group_message *msg)
{
	const struct topic *t = rdmamsg_group_user(group);

	if (options.count && messages == options.count)
		return;
	messages++;
	if (options.json) {
		printf("{\"group\": \"%s\", \"sender\": \"%016" PRIx64
		       "\", \"number\": %" PRIu32 ", \"data\": \"", t->address,
		       msg->sender->id, msg->number);
		put_json(msg->data, msg->len);
		printf("\"}\n");
	} else {
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
		       t->address, sender->id, first, last);
	else
		fprintf(stderr, "rdmamsg-sub: %s: messages %" PRIu32 " to %"
			PRIu32 " of sender %016" PRIx64 " are lost\n",
			t->address, first, last, sender->id);
}

int main(int argc, char **argv)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = topic_joined,
		.on_message = on_message, .on_gap = on_gap,
		.on_closed = topic_closed,
	};

	options_parse(argc, argv, usage, false);
	topics_join(options.operands, options.operand_count, &on);
	while (!stopped && (!options.count || messages < options.count)) {
		turn(-1);
		if (fflush(stdout))
			err(FAILED, "standard output");
	}
	topics_leave();
	return lost ? LOSS : ALL_WELL;
}
