/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A shared receive queue: many connections with the memory of one.
 * 'srq -s -a ADDR' is the server, 'srq -a ADDR' the client. The client sends
 * over its connections in turn. After -w messages it waits until the server has
 * all of them. Both sides share their receives.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>

#define MOST	4096		/* connections */
#define WAIT_MS	60000		/* longest wait for any event */
#define BUFFER_MAX (1u << 20)

static struct {
	bool server;
	const char *addr, *port;
	unsigned long messages, bytes, conns, window;
} o = { false, NULL, "51216", 100, 100000, 4, 64 };

static struct rdmamsg *ctx;
static struct rdmamsg_ep *eps[MOST];
static unsigned long opened, open_now, sent, received, answers;
static uint8_t *payload;
static bool failed;

static void fail(const char *what)
{
	fprintf(stderr, "srq: %s: %s\n", what, rdmamsg_error());
	failed = true;
}

static void on_connected(struct rdmamsg_ep *ep)
{
	if (o.server)
		eps[opened++] = ep;
	open_now++;
}

/* The server answers when it has as many messages as the client may send. */
static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct rdmamsg_ep_attr info = { .size = sizeof(info) };

	if (!o.server) {
		answers++;
	} else {
		received++;
		if (rdmamsg_msg_len(msg) != o.bytes ||
		    memcmp(rdmamsg_msg_data(msg), payload, o.bytes)) {
			fprintf(stderr, "srq: message %lu is damaged\n",
				received);
			failed = true;
		}
		if (!rdmamsg_ep_query(ep, &info))
			printf("recv count: %lu, qp_num: %u\n", received,
			       info.qp_num);
		if ((!(received % o.window) || received == o.messages) &&
		    rdmamsg_send(eps[0], "go on", 5, 0, NULL))
			fail("answering");
	}
	rdmamsg_msg_free(msg);
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	open_now--;
	if (why->error) {
		fprintf(stderr, "srq: a connection ended: %s\n", why->text);
		failed = true;
	}
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_message = on_message, .on_closed = on_closed,
};

/* Every wait has an end, even if a message is lost. */
static void wait_until(const unsigned long *count, unsigned long value)
{
	while (!failed && *count != value) {
		int n = rdmamsg_wait(ctx, WAIT_MS);

		if (n <= 0 && n != -EINTR) {
			fprintf(stderr, "srq: nothing happens\n");
			failed = true;
		}
	}
}

static void serve(const struct rdmamsg_ep_options *ep)
{
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .ep = ep, .backlog = (uint32_t)o.conns,
	};
	struct rdmamsg_listener *l;

	if (rdmamsg_listen(ctx, o.addr, o.port, &opts, &l))
		fail("listening");
	if (failed)
		return;
	printf("listening on port %u\nwaiting for connection from client...\n",
	       rdmamsg_listener_port(l));
	fflush(stdout);
	while (open_now < o.conns && !failed)
		if (rdmamsg_wait(ctx, -1) < 0)
			fail("waiting");
	rdmamsg_listener_close(l);
	/* the client closes after the last answer */
	wait_until(&received, o.messages);
	wait_until(&open_now, 0);
}

static void send_next(void)
{
	struct rdmamsg_ep *ep = eps[sent % o.conns];
	struct iovec iov = { payload, o.bytes };
	int ret;

	while ((ret = rdmamsg_sendv(ep, &iov, 1, (uint32_t)sent, NULL)) ==
	       -EAGAIN && !failed)
		if (rdmamsg_wait(ctx, WAIT_MS) <= 0)
			fail("nothing happens");
	if (ret)
		fail("sending");
	else
		sent++;
}

static void run_client(const struct rdmamsg_ep_options *ep)
{
	for (; opened < o.conns && !failed; opened++)
		if (rdmamsg_connect(ctx, o.addr, o.port, ep, &eps[opened]))
			fail(o.addr);
	wait_until(&open_now, o.conns);
	for (unsigned long batch = 1; sent < o.messages && !failed; batch++) {
		while (sent < o.messages && sent < batch * o.window && !failed)
			send_next();
		printf("send count: %lu\n", sent);
		wait_until(&answers, batch);
	}
	for (unsigned long i = 0; i < o.conns && !failed; i++)
		rdmamsg_ep_close(eps[i]);
	wait_until(&open_now, 0);
}

static unsigned long number(const char *arg, unsigned long least,
			    unsigned long most, int opt)
{
	char *end;
	unsigned long n = strtoul(arg, &end, 10);

	if (*end || end == arg || n < least || n > most) {
		fprintf(stderr, "srq: -%c %s: a number from %lu to %lu; "
			"see --help\n", opt,
			arg, least, most);
		exit(2);
	}
	return n;
}

static const char usage[] =
"Usage: srq [-s] -a ADDR [OPTION...]\n"
"Many connections that share one receive queue.\n"
"\n"
"  -s              server, at ADDR of this host; else a client of ADDR\n"
"  -a ADDR         address\n"
"  -p PORT         port number or service name (51216)\n"
"  -c MESSAGES     how many the client sends (100)\n"
"  -l BYTES        length of a message (100000)\n"
"  -q CONNECTIONS  how many (4)\n"
"  -w MESSAGES     between two answers of the server (64)\n"
"  -h, --help      print this and exit\n";

static void options(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "sa:p:c:l:q:w:h", longs, NULL)) != -1) {
		switch (c) {
		case 's': o.server = true; break;
		case 'a': o.addr = optarg; break;
		case 'p': o.port = optarg; break;
		case 'c': o.messages = number(optarg, 1, 1u << 30, c); break;
		case 'l': o.bytes = number(optarg, 1, 1u << 30, c); break;
		case 'q': o.conns = number(optarg, 1, MOST, c); break;
		case 'w': o.window = number(optarg, 1, 1u << 14, c); break;
		case 'h': fputs(usage, stdout); exit(0);
		default: fputs("srq: see --help\n", stderr); exit(2);
		}
	}
	if (o.addr && optind == argc)
		return;
	if (o.addr)
		fprintf(stderr, "srq: '%s': no operand is expected; "
			"see --help\n", argv[optind]);
	else
		fprintf(stderr, "srq: -a ADDR is missing; see --help\n");
	exit(2);
}

static void run(void)
{
	/* 7 receives for each connection, -w messages, and a reserve */
	struct rdmamsg_srq_options srq = {
		.size = sizeof(srq), .floor = 1,
		.depth = (uint32_t)(2 * (8 * o.conns + o.window)),
		.buffer_size = o.bytes < BUFFER_MAX ? (uint32_t)o.bytes :
			       BUFFER_MAX,
	};
	const struct rdmamsg_ep_tuning tuning = {
		.size = sizeof(tuning), .eager_max = srq.buffer_size,
	};
	struct rdmamsg_ep_options ep = {
		.size = sizeof(ep), .handlers = &handlers, .tuning = &tuning,
	};

	if (rdmamsg_srq_create(ctx, &srq, &ep.srq))
		fail("shared receive queue");
	else if (o.server)
		serve(&ep);
	else
		run_client(&ep);
	rdmamsg_srq_destroy(ep.srq);
}

int main(int argc, char **argv)
{
	options(argc, argv);
	payload = malloc(o.bytes);
	if (!payload || rdmamsg_open(&ctx, NULL)) {
		fprintf(stderr, "srq: %s\n", payload ? rdmamsg_error() :
			"no memory");
		free(payload);
		return 1;
	}
	for (unsigned long i = 0; i < o.bytes; i++)
		payload[i] = (uint8_t)(i * 7);
	run();
	rdmamsg_close(ctx);
	free(payload);
	return failed;
}
