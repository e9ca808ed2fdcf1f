/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmamsg-pub: publishes lines of standard input, or files, to groups. */
#include "topic.h"

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>

static const char usage[] =
"Usage: rdmamsg-pub [OPTION...] GROUP...\n"
"       rdmamsg-pub --file [OPTION...] GROUP FILE...\n"
"       rdmamsg-pub --messages=N [--size=N] [OPTION...] GROUP...\n"
"\n"
"Publishes each line of standard input to each multicast group, or each file\n"
"as one message, or N messages of one size, and ends when all has been sent.\n"
"A group is an address, or the name of a topic of /etc/rdmamsg/topics.\n"
"\n"
"  -a, --address=ADDR      local address to publish from\n"
"  -b, --bind=ADDR         the same as --address\n"
"  -d, --device=NAME       RDMA device to publish through\n"
"  -m, --group=GROUP       one more group\n"
"  -M, --mgid=MGID         one more, by its MGID; needs an address or a device\n"
"  -p, --port-space=SPACE  udp or ipoib; udp\n"
"  -c, --members=N         memberships of each group; 1\n"
"  -t, --timeout=SEC       until the groups are joined; 10\n"
"      --settle=SEC        wait between joining and publishing, for switches\n"
"      --file              publish files, not lines\n"
"  -C, --messages=N        publish N messages, not lines; 0: join, and leave\n"
"  -S, --size=N            bytes of each of them; 100; 0: join, and leave\n"
"      --rate=N            datagrams a second, 0: any number; by the device\n"
"      --raw               plain datagrams, for programs without rdmamsg\n"
"      --immediate         with the queue pair's number as immediate data\n"
"      --repair            repeat what subscribers miss\n"
"      --max-message=BYTES largest message; 1 MB, at most 16 MB\n"
"      --linger=SEC        with --repair: stay until nobody has asked for so\n"
"                          long; half a second\n"
"      --confirm=N         with --repair: wait, at most --timeout, until N\n"
"                          subscribers or more, and all there are, have all\n"
"      --flow=HOW          with --repair: wait for subscribers: slowest, or a\n"
"                          number: for as many as that\n"
"      --parity=N          with --repair: one datagram more behind N, from which\n"
"                          subscribers make one that they have lost\n"
"      --key-file=FILE     the key of the group: who has another sees nothing\n"
"      --json              tell on standard error what was published, as JSON\n"
"  -v, --verbose           tell on standard error what was joined\n"
"  -h, --help              this text\n"
"  -V, --version           the version of the library\n"
"\n"
"Exit status: 0, 1 after a failure, 2 for wrong use, 3 if messages were not\n"
"sent or, with --confirm, not received, 128 + N after signal N.\n";

static const struct option names[] = {
	{ "address", required_argument, NULL, 'a' },
	{ "bind", required_argument, NULL, 'b' },
	{ "device", required_argument, NULL, 'd' },
	{ "group", required_argument, NULL, 'm' },
	{ "mgid", required_argument, NULL, 'M' },
	{ "port-space", required_argument, NULL, 'p' },
	{ "members", required_argument, NULL, 'c' },
	{ "timeout", required_argument, NULL, 't' },
	{ "settle", required_argument, NULL, OPT_SETTLE },
	{ "file", no_argument, NULL, OPT_FILE },
	{ "messages", required_argument, NULL, 'C' },
	{ "size", required_argument, NULL, 'S' },
	{ "rate", required_argument, NULL, OPT_RATE },
	{ "raw", no_argument, NULL, OPT_RAW },
	{ "immediate", no_argument, NULL, OPT_IMMEDIATE },
	{ "repair", no_argument, NULL, OPT_REPAIR },
	{ "linger", required_argument, NULL, OPT_LINGER },
	{ "confirm", required_argument, NULL, OPT_CONFIRM },
	{ "max-message", required_argument, NULL, OPT_MAX },
	{ "flow", required_argument, NULL, OPT_FLOW },
	{ "parity", required_argument, NULL, OPT_PARITY },
	{ "key-file", required_argument, NULL, OPT_KEY_FILE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

static const struct program program = {
	.name = "rdmamsg-pub", .usage = usage, .options = names,
	.shorts = "a:b:d:m:M:p:c:t:C:S:vhV", .flags = RDMAMSG_GROUP_PUBLISH,
};

#define CHUNK	65536

static unsigned long long messages, bytes;

static uint32_t qp_num(const struct topic *t)
{
	struct rdmamsg_group_attr info = { .size = sizeof(info) };

	return rdmamsg_group_query(t->group, &info) ? 0 : info.qp_num;
}

static int publish_imm(const struct topic *t, const void *data, size_t len)
{
	const struct rdmamsg_sge s = { (void *)(uintptr_t)data, len, NULL };

	return rdmamsg_group_post(t->group, &(struct rdmamsg_op){
		.size = sizeof(struct rdmamsg_op), .kind = RDMAMSG_OP_SEND,
		.flags = RDMAMSG_OP_IMM, .imm = qp_num(t), .sge = &s, .count = 1,
	});
}

static void publish_to(struct topic *t, const void *data, size_t len)
{
	int ret;

	for (;;) {
		t->writable = false;
		ret = options.immediate ?
		      publish_imm(t, data, len) :
		      rdmamsg_group_publish(t->group, data, len);
		if (ret != -EAGAIN)
			break;
		while (!t->writable && !stopped)
			turn(-1);
		if (stopped)
			return;
	}
	if (ret)
		errx(FAILED, "%s: %s", t->name, rdmamsg_error());
	messages++;
	bytes += len;
}

static void publish(const void *data, size_t len)
{
	for (int i = 0; i < topic_count && !stopped; i++)
		publish_to(&topics[i], data, len);
}

/* Publishes whole lines. Returns the length of the rest. */
static size_t publish_lines(char *buf, size_t len)
{
	char *line = buf, *end;

	while ((end = memchr(line, '\n', len - (size_t)(line - buf)))) {
		publish(line, (size_t)(end - line));
		line = end + 1;
	}
	len -= (size_t)(line - buf);
	memmove(buf, line, len);
	return len;
}

/* Serves the groups while standard input has no data. */
static void wait_for_input(void)
{
	struct pollfd fds[2] = {
		{ STDIN_FILENO, POLLIN, 0 }, { rdmamsg_fd(ctx), POLLIN, 0 },
	};

	while (!stopped && !fds[0].revents) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			err(FAILED, "poll");
		turn(0);
	}
}

static void publish_input(void)
{
	size_t len = 0, room = 2 * CHUNK;
	char *buf = malloc(room);
	ssize_t n = 1;

	while (buf && n > 0 && !stopped) {
		wait_for_input();
		if (stopped)
			break;
		if (room - len < CHUNK) {
			room *= 2;
			buf = realloc(buf, room);
			if (!buf)
				break;
		}
		n = read(STDIN_FILENO, buf + len, CHUNK);
		if (n < 0)
			err(FAILED, "standard input");
		len = publish_lines(buf, len + (size_t)n);
	}
	if (!buf)
		errx(FAILED, "no memory for a line of %zu bytes", room);
	if (len)
		publish(buf, len);	/* a last line without its newline */
	free(buf);
}

static void publish_messages(void)
{
	uint8_t *data = malloc(options.size + 1);

	if (!data)
		errx(FAILED, "no memory for %zu bytes", options.size);
	for (size_t i = 0; i < options.size; i++)
		data[i] = (uint8_t)i;
	/* like mckey: without --size there is no data */
	for (unsigned long i = 0; i < options.count && options.size && !stopped;
	     i++)
		publish(data, options.size);
	free(data);
}

static void publish_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	size_t len = 0, room = CHUNK, n;
	char *buf = malloc(room);

	if (!f)
		err(FAILED, "%s", path);
	while (buf && (n = fread(buf + len, 1, room - len, f))) {
		len += n;
		if (len == room)
			buf = realloc(buf, room *= 2);
	}
	if (!buf)
		errx(FAILED, "%s: no memory for %zu bytes", path, room);
	if (ferror(f))
		err(FAILED, "%s", path);
	publish(buf, len);
	free(buf);
	fclose(f);
}

/* ---- confirmation ------------------------------------------------------- */

#define AGAIN_MS	10	/* a subscriber may just have joined */

static void on_flushed(struct rdmamsg_group *group,
		       const struct rdmamsg_group_flushed *flushed)
{
	struct topic *t = rdmamsg_group_user(group);

	t->result = *flushed;
	t->flushed = true;
}

static void flush(struct topic *t, unsigned int ms)
{
	t->flushed = false;
	if (rdmamsg_group_flush(t->group, ms))
		errx(FAILED, "%s: %s", t->name, rdmamsg_error());
	while (!t->flushed && !stopped)
		turn(-1);
}

/* Returns true if all subscribers of the topic have everything. */
static bool is_confirmed(struct topic *t)
{
	const unsigned long long end = now_ms() + options.timeout_ms;
	const struct rdmamsg_group_flushed *f = &t->result;
	unsigned long long now;

	while ((now = now_ms()) < end) {
		flush(t, (unsigned int)(end - now));
		if (stopped)
			return false;
		if (f->behind || f->gone || f->uncounted ||
		    f->members >= options.confirm)
			break;
		turn_for(AGAIN_MS);
	}
	if (f->uncounted)
		warnx("%s: more than 254 subscribers: not all are counted",
		      t->name);
	if (f->behind || f->gone)
		warnx("%s: of %" PRIu32 " subscribers, %" PRIu32 " do not have "
		      "all messages, and %" PRIu32 " went before they had",
		      t->name, f->members, f->behind, f->gone);
	else if (f->members < options.confirm)
		warnx("%s: %" PRIu32 " of %" PRIu32 " subscribers have reported "
		      "in %" PRIu32 " s (--timeout); do they have --repair?",
		      t->name, f->members, options.confirm,
		      options.timeout_ms / 1000);
	return !f->behind && !f->gone && !f->uncounted &&
	       f->members >= options.confirm;
}

static bool confirm(void)
{
	bool all = true;

	for (int i = 0; i < topic_count && !stopped; i++)
		all &= is_confirmed(&topics[i]);
	return all;
}

/* Counts the datagrams that the device has refused, and tells them. */
static uint64_t count_unsent(void)
{
	struct rdmamsg_group_stats c = { .size = sizeof(c) };
	uint64_t sum = 0;

	for (int i = 0; i < topic_count; i++) {
		if (!topics[i].group ||
		    rdmamsg_group_get_stats(topics[i].group, &c))
			continue;
		sum += c.sent_failed;
		if (c.sent_failed)
			warnx("%s: the device has refused %" PRIu64
			      " datagrams", topics[i].name, c.sent_failed);
	}
	return sum;
}

int main(int argc, char **argv)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = topic_joined,
		.on_lost = topic_lost, .on_writable = topic_writable,
		.on_closed = topic_closed, .on_flushed = on_flushed,
	};
	bool confirmed;
	uint64_t unsent;

	options_parse(argc, argv, &program);
	if (options.files && !options.operand_count)
		errx(WRONG_USE, "--file: a group, and then files; see --help");
	topics_join(&on);
	turn_for(options.settle_ms);
	if (options.counts)
		publish_messages();
	else if (options.files)
		for (int i = 0; i < options.operand_count && !stopped; i++)
			publish_file(options.operands[i]);
	else
		publish_input();
	confirmed = !options.confirm || stopped || confirm();
	unsent = count_unsent();
	topics_leave();
	if (options.json)
		fprintf(stderr, "{\"messages\": %llu, \"bytes\": %llu}\n",
			messages, bytes);
	if (stopped)
		return 128 + stopped;
	return unsent || !confirmed ? LOSS : ALL_WELL;
}
