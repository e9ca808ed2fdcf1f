/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of a two-host test. The program prints a line for each event, and the
 * scripts wait for these lines:
 *
 *	pid PID				first of all
 *	listening PORT			server
 *	connected DEVICE LOCAL-ADDRESS
 *	message N			received and checked (each -e messages),
 *					or one-sided operation completed
 *	stalled, resumed
 *	port-event NAME
 *	path CHANGE MS REPEATED TEXT	with -F
 *	one-sided N ADDED DOUBT COUNTER	before total, with -M: operations, adds
 *					done and perhaps done, and what the peer
 *					has added here
 *	left FILES BYTES		last, with -F or -M: more than before the
 *					context
 *	word CODE DATA			before closed: what the peer's program said
 *	mark				SIGUSR1: what comes is timed from here
 *	total SENT RECEIVED		before each closed
 *	closed WHO CAUSE MS TEXT	MS since the mark, or the start
 *	error TEXT			a check failed
 *
 * SIGUSR2 starts the sending that -W holds back, SIGTERM closes gracefully,
 * with -C with a word and with -B by an abort with a word. A client that is not
 * connected yet ends at once.
 * Ends when -N connections (1) are over. Exit status: 0 when the last one was
 * closed gracefully, 3 when it was not, 1 when a check failed, 2 when it could
 * not start.
 */
#include "peer.h"

#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rdmamsg.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define LARGE_IN_FLIGHT	4
#define AGAIN_MS	200	/* pause before each reconnect */
#define WORD		"enough"
#define LEFT_BYTES	((long)512 << 10)	/* that the allocator may keep */

struct options opt = {
	.port = "0", .sizes = { 64 }, .size_count = 1, .every = 1,
	.connections = 1,
	.ep.timeout_ms = 60000,	/* a test may ask for less */
	/* another connection takes half a minute on a busy host */
	.ep.close_timeout_ms = 60000,
};

struct rdmamsg *ctx;
bool held_back, finishing;
static struct conn *conns;
static uint64_t mark, connect_at;
static uint32_t connected, ended;
static bool failed, graceful;
static int timer_fd = -1;

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void fail(const char *fmt, ...)
{
	va_list ap;

	failed = true;
	printf("error ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

/* ---- messages --------------------------------------------------------- */

static size_t size_of(uint32_t seq)
{
	return opt.sizes[seq % opt.size_count];
}

static uint8_t byte_of(uint32_t seq, size_t at)
{
	return (uint8_t)(seq * 131 + at * 7 + (at >> 8) + (at >> 16));
}

size_t first_wrong(const uint8_t *data, size_t len, uint32_t seq)
{
	size_t at = 0;

	while (at < len && data[at] == byte_of(seq, at))
		at++;
	return at;
}

static void check(struct conn *c, const struct rdmamsg_msg *msg)
{
	const uint8_t *data = rdmamsg_msg_data(msg);
	uint32_t seq = c->received++;
	size_t len = rdmamsg_msg_len(msg);

	if (rdmamsg_msg_tag(msg) != seq)
		fail("message %u where %u was due", rdmamsg_msg_tag(msg), seq);
	else if (len != size_of(seq))
		fail("message %u has %zu bytes, not %zu", seq, len,
		     size_of(seq));
	else if (first_wrong(data, len, seq) < len)
		fail("message %u is wrong at byte %zu", seq,
		     first_wrong(data, len, seq));
	if (c->received % opt.every == 0)
		printf("message %u\n", c->received);
}

void fill(uint8_t *buf, size_t len, uint32_t seq)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = byte_of(seq, i);
}

/* In memory of the library's. */
static int send_message(struct conn *c, size_t len)
{
	struct rdmamsg_msg *msg;
	int ret = rdmamsg_msg_alloc(c->ep, len, &msg);

	if (ret)
		return ret;
	fill(rdmamsg_msg_data(msg), len, c->sent);
	ret = rdmamsg_msg_send(c->ep, msg, c->sent, NULL);
	if (ret)
		rdmamsg_msg_free(msg);
	return ret;
}

/* Lent until on_complete. */
static int send_lent(struct conn *c, uint8_t *buf, size_t len)
{
	struct iovec iov = { buf, len };
	int ret = rdmamsg_sendv(c->ep, &iov, 1, c->sent, buf);

	if (ret)
		free(buf);
	else
		c->accepted++;
	return ret;
}

/* By the kinds of send in turn. What is too long to copy is lent. */
static int send_one(struct conn *c)
{
	size_t len = size_of(c->sent);
	uint8_t *buf;
	int ret;

	if (c->sent % 3 == 2) {
		ret = send_message(c, len);
	} else {
		buf = malloc(len + 1);
		if (!buf)
			return -ENOMEM;
		fill(buf, len, c->sent);
		if (c->sent % 3 == 1 || len > 65536) {
			ret = send_lent(c, buf, len);
		} else {
			ret = rdmamsg_send(c->ep, buf, len, c->sent, NULL);
			free(buf);
		}
	}
	c->sent += !ret;
	return ret;
}

static bool all_sent(const struct conn *c)
{
	return opt.count && c->sent == opt.count;
}

/*
 * Checks the result of a send. EIO: the device has gone, and on_closed follows.
 */
static void check_send(int ret)
{
	if (ret && ret != -EAGAIN && ret != -EIO)
		fail("send: %s", rdmamsg_error());
}

static void send_more(struct conn *c)
{
	int ret = 0;

	if (held_back || rdmamsg_ep_state(c->ep) != RDMAMSG_CONNECTED)
		return;
	while (!ret && !all_sent(c) &&
	       c->accepted - c->completed < LARGE_IN_FLIGHT) {
		ret = send_one(c);
		if (opt.pace_ms)
			break;
	}
	check_send(ret);
	if (all_sent(c))
		rdmamsg_ep_close(c->ep);
}

static void ping(struct conn *c)
{
	if (rdmamsg_ep_state(c->ep) != RDMAMSG_CONNECTED ||
	    c->sent != c->received)
		return;
	if (finishing || all_sent(c)) {
		rdmamsg_ep_close(c->ep);
		return;
	}
	if (held_back)
		return;
	check_send(send_one(c));
}

/* As the command line says. An error is that the endpoint ends already. */
static void finish(struct conn *c)
{
	if (opt.abort_code)
		rdmamsg_ep_abort_with(c->ep, opt.abort_code, WORD,
				      strlen(WORD));
	else if (opt.close_code)
		rdmamsg_ep_close_with(c->ep, opt.close_code, WORD,
				      strlen(WORD));
	else
		rdmamsg_ep_close(c->ep);
}

static void go_on(struct conn *c)
{
	if (opt.mix)
		mixed_go(c);
	if (opt.mode == PING)
		ping(c);
	else if (finishing)
		finish(c);
	else if (opt.mode == SEND)
		send_more(c);
	else if (opt.mode == RMA)
		onesided_go(c);
}

static void go_on_all(void)
{
	for (struct conn *c = conns; c; c = c->next)
		go_on(c);
}

/* ---- callbacks -------------------------------------------------------- */

static void on_connected(struct rdmamsg_ep *ep)
{
	struct rdmamsg_ep_attr info = { .size = sizeof(info) };
	struct conn *c = calloc(1, sizeof(*c));
	char addr[INET6_ADDRSTRLEN] = "?";

	if (!c || rdmamsg_ep_query(ep, &info)) {
		fail("connected: %s", rdmamsg_error());
		free(c);
		rdmamsg_ep_abort(ep);
		return;
	}
	if (info.local.ss_family == AF_INET)
		inet_ntop(AF_INET,
			  &((struct sockaddr_in *)&info.local)->sin_addr,
			  addr, sizeof(addr));
	else
		inet_ntop(AF_INET6,
			  &((struct sockaddr_in6 *)&info.local)->sin6_addr,
			  addr, sizeof(addr));
	c->ep = ep;
	c->next = conns;
	conns = c;
	connected++;
	rdmamsg_ep_set_user(ep, c);
	printf("connected %s %s\n", rdmamsg_ep_device_name(ep), addr);
	if (opt.mode == TARGET || opt.mix)
		onesided_send_key(c);
	go_on(c);
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct conn *c = rdmamsg_ep_user(ep);
	int ret;

	if (rdmamsg_msg_tag(msg) == KEY_TAG) {
		onesided_take_key(c, msg);
		rdmamsg_msg_free(msg);
		go_on(c);
		return;
	}
	check(c, msg);
	if (opt.mode == ECHO) {
		c->sent++;
		ret = rdmamsg_msg_send(ep, msg, rdmamsg_msg_tag(msg), NULL);
		if (!ret)
			return;
		if (rdmamsg_ep_state(ep) == RDMAMSG_CONNECTED && ret != -EIO)
			fail("echo: %s", rdmamsg_error());
	}
	rdmamsg_msg_free(msg);
	if (opt.mode == PING && !opt.pace_ms)
		ping(c);
}

static void on_complete(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct conn *c = rdmamsg_ep_user(ep);

	if (cookie == &c->step) {
		mixed_done(c, status);
		return;
	}
	free(cookie);
	c->completed++;
	if (opt.mode == RMA && !status) {
		c->received++;
		if (c->received % opt.every == 0)
			printf("message %u\n", c->received);
	}
	if (opt.mode == RMA && !opt.pace_ms)
		onesided_go(c);
	if (opt.mode == SEND && !opt.pace_ms)
		send_more(c);
}

static void on_writable(struct rdmamsg_ep *ep)
{
	go_on(rdmamsg_ep_user(ep));
}

static void on_stalled(struct rdmamsg_ep *ep, uint32_t silent_ms)
{
	(void)ep;
	(void)silent_ms;
	puts("stalled");
}

static void on_resumed(struct rdmamsg_ep *ep)
{
	(void)ep;
	puts("resumed");
}

static void on_path(struct rdmamsg_ep *ep, const struct rdmamsg_path_event *ev)
{
	(void)ep;
	printf("path %s %u %u %s\n",
	       rdmamsg_name(RDMAMSG_NAME_PATH_CHANGE, ev->change), ev->ms,
	       ev->repeated, ev->text);
}

static void forget(struct conn *c)
{
	struct conn **p = &conns;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	free(c);
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	static const char *const who[] = {
		"NONE", "LOCAL", "PEER", "NETWORK", "DEVICE",
	};
	static const char *const cause[] = {
		"NONE", "CLOSED", "ABORTED", "TIMEOUT", "ADDRESS", "REFUSED",
		"REJECTED", "UNREACHABLE", "PROTOCOL", "VERSION", "TRANSPORT",
		"ACCESS", "SILENT", "REMOVED", "RESOURCES",
	};
	struct conn *c = rdmamsg_ep_user(ep);

	graceful = why->cause == RDMAMSG_CAUSE_CLOSED;
	if (c) {
		if (opt.mix)
			mixed_report(c);
		printf("total %u %u\n", c->sent, c->received);
		if (c->accepted != c->completed)
			fail("%u sends completed, %u were accepted",
			     c->completed, c->accepted);
		if (graceful && opt.mode == PING && c->sent != c->received)
			fail("closed gracefully with a message lost");
	}
	if (why->code)
		printf("word %u %.*s\n", why->code, (int)why->data_len,
		       (const char *)why->data);
	printf("closed %s %s %llu %s\n", who[why->who], cause[why->cause],
	       (unsigned long long)(now_ms() - mark), why->text);
	if (c)
		forget(c);
	if (opt.reconnect && !graceful && connected < opt.reconnect)
		connect_at = now_ms() + AGAIN_MS;
	else
		ended++;
}

static void on_event(struct rdmamsg *unused, const struct rdmamsg_event *ev)
{
	(void)unused;
	if (ev->port)
		printf("port-event %s %s\n", ev->device, ev->name);
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers),
	.on_connected = on_connected,
	.on_message = on_message,
	.on_complete = on_complete,
	.on_writable = on_writable,
	.on_stalled = on_stalled,
	.on_resumed = on_resumed, .on_path = on_path,
	.on_closed = on_closed,
};

/* ---- running ---------------------------------------------------------- */

static struct rdmamsg_listener *listener;	/* NULL: a client */

static int start_server(void)
{
	struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .ep = &opt.ep, .device = opt.ep.device,
		.setup_timeout_ms = 60000,
	};

	if (rdmamsg_listen(ctx, opt.host, opt.port, &lo, &listener))
		return -1;
	printf("listening %u\n", rdmamsg_listener_port(listener));
	return 0;
}

static int start_client(void)
{
	connect_at = 0;
	return rdmamsg_connect(ctx, opt.host, opt.port, &opt.ep, NULL);
}

static void on_signal(int fd)
{
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGUSR1) {
		mark = now_ms();
		puts("mark");
		return;
	}
	if (info.ssi_signo == SIGUSR2)
		held_back = false;
	else
		finishing = true;
	go_on_all();
}

static void on_timer(void)
{
	uint64_t n;

	if (read(timer_fd, &n, sizeof(n)) == sizeof(n))
		go_on_all();
}

/* A client that is asked to end does not wait for its connection. */
static bool is_left(void)
{
	return finishing && !listener && !conns;
}

static int run(int signal_fd)
{
	struct pollfd p[] = {
		{ .fd = rdmamsg_fd(ctx), .events = POLLIN },
		{ .fd = signal_fd, .events = POLLIN },
		{ .fd = timer_fd, .events = POLLIN },
	};

	while (ended < opt.connections && !is_left()) {
		poll(p, 3, connect_at ? AGAIN_MS : -1);
		if (connect_at && now_ms() >= connect_at && start_client())
			return -1;
		if (p[1].revents)
			on_signal(signal_fd);
		if (p[2].revents)
			on_timer();
		if (p[0].revents && rdmamsg_process(ctx) < 0)
			return -1;
	}
	return 0;
}

/* ---- the command line ------------------------------------------------- */

static int usage(void)
{
	fputs("peer server|client [OPTION]... [HOST PORT]\n"
	      "  -m idle|echo|ping|send|recv|target|rma\n"
	      "  -s SIZE[k|m],...  -n COUNT\n"
	      "  -e EVERY  -w PACE-MS  -W  -N CONNECTIONS  -r RECONNECT\n"
	      "  -S SOURCE  -D DEVICE  -d DEAD-AFTER-MS  -A ACK-TIMEOUT\n"
	      "  -P PEER-TIMEOUT-MS  -t STALL-AFTER-MS  -T TIMEOUT-MS\n"
	      "  -F HOST|-  -R lane|standby  -O FAILOVER-TIMEOUT-MS  -M\n"
	      "  -C CODE-OF-CLOSE  -B CODE-OF-ABORT\n",
	      stderr);
	return 2;
}

static bool set_mode(const char *name)
{
	static const char *const names[] = {
		[IDLE] = "idle", [ECHO] = "echo", [PING] = "ping",
		[SEND] = "send", [RECV] = "recv", [TARGET] = "target",
		[RMA] = "rma",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i])) {
			opt.mode = (enum mode)i;
			return true;
		}
	return false;
}

/* -F HOST: over other connections too, to this address of the peer; -: none. */
static struct rdmamsg_failover failover = {
	.size = sizeof(failover), .rungs = RDMAMSG_RUNG_LANE,
	.timeout_ms = 60000,
};

static bool set_sizes(char *list)
{
	char *end, *word = strtok(list, ",");

	for (opt.size_count = 0; word; word = strtok(NULL, ",")) {
		size_t size = strtoul(word, &end, 10);

		if (opt.size_count == SIZES_MAX)
			return false;
		size <<= *end == 'k' ? 10 : *end == 'm' ? 20 : 0;
		opt.sizes[opt.size_count++] = size;
	}
	return opt.size_count;
}

static uint32_t number(void)
{
	return (uint32_t)strtoul(optarg, NULL, 10);
}

static bool parse(int argc, char **argv)
{
	int o;

	opt.ep.size = sizeof(opt.ep);
	opt.ep.handlers = &handlers;
	opt.ep.tuning = &opt.tuning;
	opt.tuning.size = sizeof(opt.tuning);
	while ((o = getopt(argc, argv,
			   "m:s:n:e:w:WN:r:S:D:d:A:P:t:T:F:R:O:MC:B:")) != -1)
		switch (o) {
		case 'm':
			if (!set_mode(optarg))
				return false;
			break;
		case 's':
			if (!set_sizes(optarg))
				return false;
			break;
		case 'n':
			opt.count = number();
			break;
		case 'e':
			opt.every = number();
			break;
		case 'w':
			opt.pace_ms = number();
			break;
		case 'W':
			held_back = true;
			break;
		case 'N':
			opt.connections = number();
			break;
		case 'r':
			opt.reconnect = number();
			break;
		case 'S':
			opt.ep.source = optarg;
			break;
		case 'D':
			opt.ep.device = optarg;
			break;
		case 'd':
			opt.ep.dead_after_ms = number();
			break;
		case 'A':
			opt.tuning.ack_timeout = number();
			break;
		case 'P':
			opt.tuning.peer_timeout_ms = number();
			break;
		case 't':
			opt.tuning.stall_after_ms = number();
			break;
		case 'T':
			opt.ep.timeout_ms = number();
			break;
		case 'F':
			failover.host = strcmp(optarg, "-") ? optarg : NULL;
			opt.ep.failover = &failover;
			break;
		case 'R':
			failover.rungs = strcmp(optarg, "standby") ?
					 RDMAMSG_RUNG_LANE :
					 RDMAMSG_RUNG_STANDBY;
			break;
		case 'O':
			failover.timeout_ms = number();
			break;
		case 'M':
			opt.mix = true;
			break;
		case 'C':
			opt.close_code = number();
			break;
		case 'B':
			opt.abort_code = number();
			break;
		default:
			return false;
		}
	if (argc - optind == 2) {
		opt.host = strcmp(argv[optind], "any") ? argv[optind] : NULL;
		opt.port = argv[optind + 1];
	}
	if (opt.mode == ECHO)
		opt.ep.send_queue = 256;
	return opt.every && (argc == optind || argc == optind + 2);
}

static int open_fds(void)
{
	struct itimerspec pace = {
		.it_interval = { opt.pace_ms / 1000,
				 opt.pace_ms % 1000 * 1000000 },
	};
	sigset_t set;

	pace.it_value = pace.it_interval;
	timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	if (timer_fd < 0 || timerfd_settime(timer_fd, 0, &pace, NULL))
		return -1;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_NONBLOCK);
}

static int count_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

/* Fails if more is left than the libraries below keep for the process. */
static void count_left(int files, size_t bytes)
{
	int more = count_files() - files;
	long grown = (long)(mallinfo2().uordblks - bytes);

	printf("left %d %ld\n", more, grown);
	if (more > 0 || grown > LEFT_BYTES)
		fail("not all was given back");
}

int main(int argc, char **argv)
{
	static const struct rdmamsg_ctx_handlers on = {
		.size = sizeof(on), .on_event = on_event,
	};
	const struct rdmamsg_options opts = {
		.size = sizeof(opts), .handlers = &on,
	};
	bool server = argc > 1 && !strcmp(argv[1], "server");
	int signal_fd, files = count_files();
	size_t bytes = mallinfo2().uordblks;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 2 || (!server && strcmp(argv[1], "client")) ||
	    !parse(argc - 1, argv + 1) || (!server && !opt.host))
		return usage();
	signal_fd = open_fds();
	if (signal_fd < 0) {
		perror("peer");
		return 2;
	}
	printf("pid %d\n", (int)getpid());
	mark = now_ms();
	if (rdmamsg_open(&ctx, &opts) || onesided_open() ||
	    (server ? start_server() : start_client()) || run(signal_fd)) {
		printf("failed %s\n", rdmamsg_error());
		return 2;
	}
	rdmamsg_close(ctx);
	close(signal_fd);
	close(timer_fd);
	if (opt.mix || opt.ep.failover)
		count_left(files, bytes);
	return failed ? 1 : graceful ? 0 : 3;
}
