/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast without frames: the sender publishes datagrams with its queue
 * pair's number as immediate data, each when the one before is sent, and each
 * receiver prints what it gets.
 * 'multicast -m GROUP' receives, 'multicast -m GROUP -s' sends. Datagrams sent
 * before a receiver has joined do not arrive.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rdmamsg/group.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/rma.h>

static const char usage[] =
"Usage: multicast -m GROUP [-s] [-b ADDR] [-c COUNT] [-l BYTES] [-t SECONDS]\n"
"\n"
"  -m GROUP    multicast address, such as 239.1.2.3\n"
"  -s          send; otherwise receive\n"
"  -b ADDR     local address\n"
"  -c COUNT    messages; 4\n"
"  -l BYTES    of each; 64\n"
"  -t SECONDS  wait for a message; 60\n"
"  -h          this text\n";

static struct {
	const char *group, *addr;
	bool sends;
	unsigned long count, bytes, seconds;
} o = { .count = 4, .bytes = 64, .seconds = 60 };

static struct rdmamsg *ctx;
static bool joined, closed, writable;
static int failure;
static unsigned long received, sent;

static int fail(const char *what)
{
	fprintf(stderr, "multicast: %s: %s\n", what, rdmamsg_error());
	return 1;
}

/* ---- handlers --------------------------------------------------------- */

static void on_joined(struct rdmamsg_group *group)
{
	struct rdmamsg_group_attr info = { .size = sizeof(info) };
	char mgid[INET6_ADDRSTRLEN];

	joined = true;
	if (rdmamsg_group_query(group, &info))
		return;
	inet_ntop(AF_INET6, info.mgid, mgid, sizeof(mgid));
	printf("joined dgid: %s, mlid 0x%x, sl %d\n", mgid, info.mlid,
	       info.sl);
}

static void on_message(struct rdmamsg_group *group,
		       const struct rdmamsg_group_message *msg)
{
	(void)group;
	if (received == o.count)
		return;
	printf("received message %lu: %zu bytes of queue pair 0x%x",
	       ++received, msg->len, msg->sender->qp_num);
	if (msg->has_imm)
		printf(", immediate data 0x%x", msg->imm);
	printf("\n");
}

static void on_writable(struct rdmamsg_group *group)
{
	(void)group;
	writable = true;
}

static void on_closed(struct rdmamsg_group *group,
		      const struct rdmamsg_reason *why)
{
	(void)group;
	closed = true;
	failure = why->error;
	if (failure)
		fprintf(stderr, "multicast: %s\n", why->text);
}

static void on_sent(struct rdmamsg_group *group, uint64_t n)
{
	(void)group;
	sent = n;
	printf("sent message %lu\n", sent);
}

/* ---- sending and receiving -------------------------------------------- */

/* Waits once. Returns 0, or the status after an error. */
static int turn(int timeout_ms)
{
	int n = rdmamsg_wait(ctx, timeout_ms);

	return n < 0 && n != -EINTR ? fail("waiting") : 0;
}

static int send_one(struct rdmamsg_group *group, void *data, uint32_t imm)
{
	const struct rdmamsg_sge s = { data, o.bytes, NULL };
	const struct rdmamsg_op op = {
		.size = sizeof(op), .kind = RDMAMSG_OP_SEND,
		.flags = RDMAMSG_OP_IMM, .imm = imm, .sge = &s, .count = 1,
	};
	int ret;

	while ((ret = rdmamsg_group_post(group, &op)) == -EAGAIN) {
		writable = false;
		while (!writable && !closed)
			if (turn(-1))
				return 1;
		if (closed)
			return 1;
	}
	return ret ? fail("sending") : 0;
}

/* Waits until the device has sent n datagrams. */
static int await_sent(unsigned long n)
{
	while (sent < n && !closed)
		if (turn(-1))
			return 1;
	return sent < n;
}

static int send_all(struct rdmamsg_group *group)
{
	struct rdmamsg_group_attr info = { .size = sizeof(info) };
	void *data;
	int ret = 0;

	if (rdmamsg_group_query(group, &info))
		return fail("the group");
	if (o.bytes > info.mtu) {
		fprintf(stderr, "multicast: %lu bytes are larger than the MTU "
			"of device %s, %u\n", o.bytes, info.device, info.mtu);
		return 1;
	}
	data = calloc(1, o.bytes + 1);
	if (!data)
		return 1;
	for (unsigned long i = 0; i < o.count && !ret; i++) {
		ret = send_one(group, data, info.qp_num);
		if (!ret)
			ret = await_sent(i + 1);
	}
	free(data);
	return ret;
}

static int receive_all(void)
{
	unsigned long before = received;
	time_t since = time(NULL);

	printf("waiting for messages...\n");
	while (received < o.count && !closed) {
		if (turn(1000))
			return 1;
		if (received != before)
			since = time(NULL);
		before = received;
		if (time(NULL) - since > (time_t)o.seconds) {
			fprintf(stderr, "multicast: no message for %lu s\n",
				o.seconds);
			return 1;
		}
	}
	return 0;
}

static int run(void)
{
	static const struct rdmamsg_group_handlers on = {
		.size = sizeof(on), .on_joined = on_joined,
		.on_message = on_message, .on_writable = on_writable,
		.on_closed = on_closed, .on_sent = on_sent,
	};
	const struct rdmamsg_group_options opts = {
		.size = sizeof(opts), .handlers = &on, .source = o.addr,
		.flags = RDMAMSG_GROUP_RAW | (o.sends ?
			 RDMAMSG_GROUP_PUBLISH : RDMAMSG_GROUP_SUBSCRIBE),
	};
	struct rdmamsg_group *group;
	int ret = 0;

	if (rdmamsg_group_join(ctx, o.group, &opts, &group))
		return fail("joining");
	while (!joined && !closed && !ret)
		ret = turn(-1);
	if (!ret && !closed)
		ret = o.sends ? send_all(group) : receive_all();
	/* the library sends all accepted messages before it leaves the group */
	if (!closed)
		rdmamsg_group_leave(group);
	while (!closed && !turn(-1))
		;
	return ret || failure;
}

static unsigned long number(int option, const char *arg, unsigned long least)
{
	char *end;
	unsigned long n = strtoul(arg, &end, 10);

	if (*end || *arg < '0' || *arg > '9' || n < least || n > 1ul << 30) {
		fprintf(stderr, "multicast: '-%c %s': a number from %lu\n",
			option, arg, least);
		exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	int c, ret;

	while ((c = getopt(argc, argv, "m:sb:c:l:t:h")) != -1)
		switch (c) {
		case 'm': o.group = optarg; break;
		case 's': o.sends = true; break;
		case 'b': o.addr = optarg; break;
		case 'c': o.count = number(c, optarg, 1); break;
		case 'l': o.bytes = number(c, optarg, 0); break;
		case 't': o.seconds = number(c, optarg, 1); break;
		case 'h': printf("%s", usage); return 0;
		default: return 2;
		}
	if (!o.group || optind < argc) {
		fprintf(stderr, "multicast: a group is needed: -m GROUP\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (rdmamsg_open(&ctx, NULL))
		return fail("opening");
	ret = run();
	rdmamsg_close(ctx);
	return ret;
}
