/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path migration: a connection moves to another port in the middle of its
 * traffic. 'apm -s -a ADDR' is the server, 'apm -a ADDR' the client. They send
 * a message back and forth. After -m messages the client migrates. Both sides
 * print what happens to their paths, also when a port fails.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdmamsg/diag.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rdmamsg.h>

#define WAIT_MS	60000		/* longest wait for any event */
#define FILL	0x12		/* each byte of a message */

static struct {
	bool server;
	const char *addr, *port;
	unsigned long messages, bytes, pause_ms, migrate_after, alternate,
		      lid;
} o = { false, NULL, "51216", 100, 1000000, 500, 0, 0, 0 };

static struct rdmamsg *ctx;
static struct rdmamsg_ep *ep;
static uint8_t *payload;

static bool failed(const char *what)
{
	fprintf(stderr, "apm: %s: %s\n", what, rdmamsg_error());
	return false;
}

static void on_path(struct rdmamsg_ep *which,
		    const struct rdmamsg_path_event *ev)
{
	printf("path %s, port %u in use: %s\n",
	       rdmamsg_name(RDMAMSG_NAME_PATH_CHANGE, ev->change), ev->port,
	       ev->text);
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_path = on_path,
};

static unsigned long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (unsigned long)ts.tv_sec * 1000 +
	       (unsigned long)ts.tv_nsec / 1000000;
}

/* Lets the library work meanwhile. */
static void pause_a_little(void)
{
	const unsigned long end = now_ms() + o.pause_ms;
	unsigned long now = now_ms();

	for (; now < end; now = now_ms())
		if (rdmamsg_wait(ctx, (int)(end - now)) < 0)
			return;
}

/* Waits until the alternate path is armed. Returns false if it cannot be. */
static bool wait_armed(void)
{
	const unsigned long end = now_ms() + WAIT_MS;
	struct rdmamsg_ep_path_attr path = { .size = sizeof(path) };

	while (!rdmamsg_ep_path_query(ep, &path) &&
	       path.state == RDMAMSG_PATH_ARMING && now_ms() < end)
		(void)rdmamsg_wait(ctx, 100);
	if (path.state != RDMAMSG_PATH_ARMED)
		printf("no alternate path: %s\n", path.text);
	return path.state == RDMAMSG_PATH_ARMED;
}

static bool migrate(void)
{
	int ret;

	if (!wait_armed())
		return false;
	ret = rdmamsg_ep_migrate(ep, NULL);
	return !ret || failed("migrating");
}

static bool send_one(unsigned long n)
{
	if (rdmamsg_send_wait(ep, payload, o.bytes, (uint32_t)n, WAIT_MS))
		return failed("sending");
	printf("send: %lu\n", n);
	return true;
}

static bool receive_one(unsigned long n)
{
	struct rdmamsg_msg *msg;
	bool same;

	if (rdmamsg_recv_wait(ep, WAIT_MS, &msg))
		return failed("receiving");
	same = rdmamsg_msg_tag(msg) == n && rdmamsg_msg_len(msg) == o.bytes &&
	       !memcmp(rdmamsg_msg_data(msg), payload, o.bytes);
	rdmamsg_msg_free(msg);
	if (!same) {
		fprintf(stderr, "apm: message %lu is not the one sent; do both "
			"sides have the same -l?\n", n);
		return false;
	}
	printf("recv: %lu\n", n);
	return true;
}

static bool run_client(void)
{
	(void)wait_armed();
	for (unsigned long n = 1; n <= o.messages; n++) {
		pause_a_little();
		if (!send_one(n) || !receive_one(n))
			return false;
		if (n == o.migrate_after && !migrate())
			return false;
	}
	return true;
}

static bool run_server(void)
{
	for (unsigned long n = 1; n <= o.messages; n++) {
		if (!receive_one(n))
			return false;
		pause_a_little();
		if (!send_one(n))
			return false;
	}
	return true;
}

static bool accept_one(const struct rdmamsg_ep_options *opts)
{
	struct rdmamsg_listener *l;
	int ret;

	if (rdmamsg_listen(ctx, o.addr, o.port, NULL, &l))
		return failed("listening");
	printf("listening on port %u\n", rdmamsg_listener_port(l));
	ret = rdmamsg_listener_accept_wait(l, opts, -1, &ep);
	rdmamsg_listener_close(l);
	return !ret || failed("accepting");
}

static bool connect_one(const struct rdmamsg_ep_options *opts)
{
	return !rdmamsg_connect_wait(ctx, o.addr, o.port, opts, WAIT_MS, &ep) ||
	       failed(o.addr);
}

static bool run(void)
{
	const struct rdmamsg_failover failover = {
		.size = sizeof(failover), .rungs = RDMAMSG_RUNG_PATH,
		.port = (uint32_t)o.alternate, .lid = (uint32_t)o.lid,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.failover = &failover,
	};
	bool good;

	if (!(o.server ? accept_one(&opts) : connect_one(&opts)))
		return false;
	good = o.server ? run_server() : run_client();
	if (rdmamsg_ep_close_wait(ep, WAIT_MS) && good)
		good = failed("closing");
	return good;
}

/* ---- options ---------------------------------------------------------- */

static unsigned long number(const char *arg, unsigned long least,
			    unsigned long most, int opt)
{
	char *end;
	unsigned long n = strtoul(arg, &end, 10);

	if (*end || end == arg || n < least || n > most) {
		fprintf(stderr, "apm: -%c %s: a number from %lu to %lu; "
			"see --help\n", opt, arg, least, most);
		exit(2);
	}
	return n;
}

static const char usage[] =
"Usage: apm [-s] -a ADDR [OPTION...]\n"
"A connection that migrates to another port of the device.\n"
"\n"
"  -s            server, at ADDR of this host; else a client of ADDR\n"
"  -a ADDR       address\n"
"  -p PORT       port number or service name (51216)\n"
"  -c MESSAGES   how many each side sends (100); the same at both\n"
"  -l BYTES      length of a message (1000000); the same at both\n"
"  -r PORT       port of the device for the alternate path (any active port)\n"
"  -d LID        where the alternate path leads; needs -r (the peer's port)\n"
"  -m MESSAGES   client: migrate after that many (never)\n"
"  -w MS         pause before a message (500)\n"
"  -h, --help    print this and exit\n";

static void check_options(int argc, char **argv)
{
	if (!o.addr)
		fprintf(stderr, "apm: -a ADDR is missing; see --help\n");
	else if (optind != argc)
		fprintf(stderr, "apm: '%s': no operand is expected; "
			"see --help\n", argv[optind]);
	else if (o.lid && !o.alternate)
		fprintf(stderr, "apm: -d needs -r PORT; see --help\n");
	else if (o.migrate_after > o.messages)
		fprintf(stderr, "apm: -m %lu: there are only %lu messages; "
			"see --help\n", o.migrate_after, o.messages);
	else if (o.server && o.migrate_after)
		fprintf(stderr, "apm: -m: the client migrates; see --help\n");
	else
		return;
	exit(2);
}

static void options(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "sa:p:c:l:r:d:m:w:h", longs,
				NULL)) != -1) {
		switch (c) {
		case 's': o.server = true; break;
		case 'a': o.addr = optarg; break;
		case 'p': o.port = optarg; break;
		case 'c': o.messages = number(optarg, 1, 1u << 30, c); break;
		case 'l': o.bytes = number(optarg, 1, 1u << 26, c); break;
		case 'r': o.alternate = number(optarg, 1, 254, c); break;
		case 'd': o.lid = number(optarg, 1, 0xbfff, c); break;
		case 'm':
			o.migrate_after = number(optarg, 1, 1u << 30, c);
			break;
		case 'w': o.pause_ms = number(optarg, 0, 3600000, c); break;
		case 'h': fputs(usage, stdout); exit(0);
		default: fputs("apm: see --help\n", stderr); exit(2);
		}
	}
	check_options(argc, argv);
}

int main(int argc, char **argv)
{
	bool good;

	options(argc, argv);
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	payload = malloc(o.bytes);
	if (!payload || rdmamsg_open(&ctx, NULL)) {
		fprintf(stderr, "apm: %s\n", payload ? rdmamsg_error() :
			"no memory");
		free(payload);
		return 1;
	}
	memset(payload, FILL, o.bytes);
	good = run();
	rdmamsg_close(ctx);
	free(payload);
	return !good;
}
