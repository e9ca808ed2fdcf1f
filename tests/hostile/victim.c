/* SPDX-License-Identifier: BSD-2-Clause */
#include "victim.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>

#include "../fds.h"

#define LARGE	100000
#define OVERDUE_MS	2	/* less than most cases last */
#define BUSY_MS	60000	/* far longer than what the test does meanwhile */

struct shared *victims;
static const char *address;
static struct rdmamsg *ctx;
static struct rdmamsg_srq *srq;
static pid_t server_pid, client_pid;
static uint8_t pattern[LARGE];

static void __attribute__((format(printf, 1, 2))) harmed(const char *fmt, ...)
{
	va_list ap;

	if (victims->harmed)
		return;
	va_start(ap, fmt);
	vsnprintf(victims->harm, sizeof(victims->harm), fmt, ap);
	va_end(ap);
	victims->harmed = true;
}

uint32_t victims_srq_depth(void)
{
	const char *depth = getenv("TEST_SRQ");

	return depth ? (uint32_t)atoi(depth) : 0;
}

/* With TEST_SRQ the endpoints share receives. */
static int open_context(void)
{
	const struct rdmamsg_srq_options opts = {
		.size = sizeof(opts), .depth = victims_srq_depth(),
	};
	int ret = rdmamsg_open(&ctx, NULL);

	return ret || !opts.depth ? ret : rdmamsg_srq_create(ctx, &opts, &srq);
}

/* ---- the connection to the raw peer ----------------------------------- */

/* The user pointer counts the sends of an endpoint that have not ended. */
static uintptr_t unended(const struct rdmamsg_ep *ep)
{
	return (uintptr_t)rdmamsg_ep_user(ep);
}

static void count_accepted(struct rdmamsg_ep *ep)
{
	victims->accepted++;
	rdmamsg_ep_set_user(ep, (void *)(unended(ep) + 1));
}

static void stay_busy(void)
{
	victims->busy = true;
	for (int i = 0; i < BUSY_MS && !victims->release; i++)
		usleep(1000);
}

/* Each cookie is a cell, which must exist until its completion. */
static void on_raw_ended(struct rdmamsg_ep *ep, void *cookie, int status)
{
	if (victims->busy_sent && !status && *(bool *)cookie) {
		victims->busy_sent = false;
		stay_busy();
	}
	free(cookie);
	victims->done++;
	rdmamsg_ep_set_user(ep, (void *)(unended(ep) - 1));
}

static void on_raw_sent(struct rdmamsg_ep *ep, void *cookie, int status)
{
	if (status != RDMAMSG_OVERDUE)
		on_raw_ended(ep, cookie, status);
}

/* Returns a cell that records whether its message is large. */
static void *new_cookie(size_t len)
{
	bool *cookie = malloc(sizeof(*cookie));

	*cookie = len >= LARGE;
	return cookie;
}

/* A message that the peer does not take soon is overdue. */
static int post_raw(struct rdmamsg_ep *ep, size_t len, void *cookie)
{
	const struct rdmamsg_sge s = { pattern, len, NULL };

	return rdmamsg_post(ep, &(const struct rdmamsg_op){
		.size = sizeof(struct rdmamsg_op), .kind = RDMAMSG_OP_SEND,
		.sge = &s, .count = 1, .tag = 7, .cookie = cookie,
		.timeout_ms = OVERDUE_MS, .on_late = on_raw_ended,
	});
}

static void send_raw(struct rdmamsg_ep *ep, size_t len)
{
	struct iovec iov = { pattern, len };
	void *cookie = new_cookie(len);

	if (len < LARGE ? rdmamsg_sendv(ep, &iov, 1, 7, cookie) :
			  post_raw(ep, len, cookie))
		free(cookie);
	else
		count_accepted(ep);
}

static void on_raw_connected(struct rdmamsg_ep *ep)
{
	victims->connected++;
}

/* Sends a key, with which every peer may write to that memory only. */
static void send_key(struct rdmamsg_ep *ep)
{
	static struct rdmamsg_region *region;
	static uint8_t memory[4096];
	struct rdmamsg_key key;

	if (!region && rdmamsg_region_create(ctx, memory, sizeof(memory),
					     RDMAMSG_ACCESS_WRITE, &region))
		harmed("no region: %s", rdmamsg_error());
	if (rdmamsg_region_get_key(region, ep, &key) ||
	    rdmamsg_send(ep, &key, sizeof(key), KEY_TAG, NULL))
		harmed("no key: %s", rdmamsg_error());
}

static void on_raw_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	void *cookie;

	if (rdmamsg_msg_tag(msg) == KEY_TAG) {
		rdmamsg_msg_free(msg);
		send_key(ep);
		return;
	}

	if (rdmamsg_msg_tag(msg) == BUSY_TAG)
		stay_busy();
	if (rdmamsg_msg_tag(msg) == SINK_TAG ||
	    rdmamsg_msg_tag(msg) == BUSY_TAG) {
		rdmamsg_msg_free(msg);
		return;
	}
	victims->large = (uintptr_t)rdmamsg_msg_data(msg);
	cookie = new_cookie(rdmamsg_msg_len(msg));
	if (rdmamsg_msg_send(ep, msg, rdmamsg_msg_tag(msg), cookie)) {
		free(cookie);
		rdmamsg_msg_free(msg);
	} else {
		count_accepted(ep);
	}
}

static struct rdmamsg_ep *raw_ep;	/* the client's, to the raw peer */

static void on_raw_closed(struct rdmamsg_ep *ep,
			  const struct rdmamsg_reason *why)
{
	struct ending *e = &victims->endings[victims->ended % REASONS];

	e->who = why->who;
	e->cause = why->cause;
	e->error = why->error;
	snprintf(e->text, sizeof(e->text), "%s", why->text);
	if (unended(ep))
		harmed("%ju sends have not ended at on_closed",
		       (uintmax_t)unended(ep));
	raw_ep = NULL;
	victims->ended++;
}

static const struct rdmamsg_ep_handlers raw_handlers = {
	.size = sizeof(raw_handlers),
	.on_connected = on_raw_connected, .on_message = on_raw_message,
	.on_complete = on_raw_sent, .on_closed = on_raw_closed,
};

static struct rdmamsg_ep_options raw_options(void)
{
	const uint32_t ms = victims->timeout_ms;
	static struct rdmamsg_ep_tuning tuning = {
		.size = sizeof(tuning),
		/* one poll of the completion queue returns all receives */
		.recv_depth = 8,
	};

	tuning.fetch_timeout_ms = 3 * ms;
	return (struct rdmamsg_ep_options){
		.size = sizeof(struct rdmamsg_ep_options),
		.handlers = &raw_handlers,
		.timeout_ms = ms, .close_timeout_ms = ms,
		.dead_after_ms = 2 * ms,
		.max_msg_size = MAX_MSG,
		.send_queue = 64, .srq = srq, .tuning = &tuning,
	};
}

/* ---- the server ------------------------------------------------------- */

static void on_echo(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (rdmamsg_msg_send(ep, msg, rdmamsg_msg_tag(msg), NULL)) {
		harmed("server: no echo: %s", rdmamsg_error());
		rdmamsg_msg_free(msg);
	}
}

static void on_innocent_closed(struct rdmamsg_ep *ep,
			       const struct rdmamsg_reason *why)
{
	if (!victims->quit)
		harmed("%s: closed: %s", getpid() == server_pid ? "server" :
		       "client", why->text);
}

static const struct rdmamsg_ep_handlers innocent_handlers = {
	.size = sizeof(innocent_handlers),
	.on_message = on_echo, .on_closed = on_innocent_closed,
};

static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	struct rdmamsg_ep_options opts = raw_options();
	struct rdmamsg_ep_tuning deep = *opts.tuning;
	size_t len;
	const void *data = rdmamsg_request_data(req, &len);

	if (len == 8 && !memcmp(data, "innocent", 8)) {
		opts.handlers = &innocent_handlers;
		opts.timeout_ms = opts.close_timeout_ms = 30000;
		opts.dead_after_ms = 60000;
	} else if (len == strlen(GUARDED) && !memcmp(data, GUARDED, len)) {
		opts.flags = RDMAMSG_EP_GUARD;
		opts.srq = NULL;
	} else if (len == strlen(DEEP) && !memcmp(data, DEEP, len)) {
		deep.recv_depth = 32;
		opts.tuning = &deep;
	}
	(void)rdmamsg_request_accept(req, &opts, NULL);
}

/*
 * The soft HCA reserves two descriptors when a process makes an event channel,
 * and releases them when it opens a context. After this call they are reserved,
 * whatever the library did last, so that two counts can be compared.
 */
static void reserve_fds(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	if (channel)
		rdma_destroy_event_channel(channel);
}

static void grant_stats(void)
{
	victims->stats.size = sizeof(victims->stats);
	rdmamsg_get_stats(ctx, &victims->stats);
	victims->srq.size = sizeof(victims->srq);
	if (srq)
		rdmamsg_srq_get_stats(srq, &victims->srq);
	reserve_fds();
	victims->fds = open_fds();
}

/* With TEST_SHARED its port is one that other contexts may join. */
static int server(void)
{
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	struct rdmamsg_listen_options opts = {
		.size = sizeof(opts), .handlers = &on,
		/* all misbehaving peers come from one address, in turn */
		.max_per_source = RDMAMSG_NONE, .slow_ms = RDMAMSG_NONE,
	};
	struct rdmamsg_listener *l;

	if (getenv("TEST_SHARED"))
		opts.flags |= RDMAMSG_LISTEN_SHARED;
	server_pid = getpid();
	if (open_context() ||
	    rdmamsg_listen(ctx, address, "0", &opts, &l)) {
		harmed("server: %s", rdmamsg_error());
		return 1;
	}
	victims->port = rdmamsg_listener_port(l);
	while (!victims->quit) {
		if (rdmamsg_wait(ctx, 20) < 0)
			harmed("server: %s", rdmamsg_error());
		if (victims->wish_server == WISH_STATS) {
			grant_stats();
			victims->wish_server = WISH_NONE;
		}
	}
	rdmamsg_close(ctx);
	return 0;
}

/* ---- the client ------------------------------------------------------- */

static const size_t sizes[] = { 1, 200, 4000, LARGE, 0, 30000 };
static struct rdmamsg_ep *innocent;
static uint32_t round_no;
static bool round_due;

static void on_innocent_connected(struct rdmamsg_ep *ep)
{
	round_due = true;
}

/* Other tests need the processor too, so the innocent waits between rounds. */
static void send_round(void)
{
	struct iovec iov = { pattern, sizes[round_no % 6] };

	round_due = false;
	if (rdmamsg_sendv(innocent, &iov, 1, round_no, NULL))
		harmed("client: round %u: %s", round_no, rdmamsg_error());
}

static void on_innocent_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (rdmamsg_msg_tag(msg) != round_no ||
	    rdmamsg_msg_len(msg) != sizes[round_no % 6] ||
	    memcmp(rdmamsg_msg_data(msg), pattern, rdmamsg_msg_len(msg)))
		harmed("client: round %u: a wrong echo", round_no);
	rdmamsg_msg_free(msg);
	round_no++;
	victims->rounds++;
	round_due = true;
}

static const struct rdmamsg_ep_handlers client_handlers = {
	.size = sizeof(client_handlers),
	.on_connected = on_innocent_connected,
	.on_message = on_innocent_message,
	.on_closed = on_innocent_closed,
};

static void do_wish(void)
{
	struct rdmamsg_ep_options opts = raw_options();
	char port[8];

	switch (atomic_load(&victims->wish_client)) {
	case WISH_STATS:
		grant_stats();
		break;
	case WISH_CONNECT:
		snprintf(port, sizeof(port), "%u", victims->raw_port);
		if (rdmamsg_connect(ctx, address, port, &opts, &raw_ep))
			harmed("client: %s", rdmamsg_error());
		break;
	case WISH_SEND:
		if (raw_ep) {
			send_raw(raw_ep, 10);
			send_raw(raw_ep, 5000);
			send_raw(raw_ep, LARGE);
		}
		break;
	case WISH_CLOSE:
		if (raw_ep)
			rdmamsg_ep_close(raw_ep);
		break;
	default:
		return;
	}
	victims->wish_client = WISH_NONE;
}

static int client(void)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &client_handlers,
		.hello_data = "innocent", .hello_data_len = 8,
		.timeout_ms = 30000, .dead_after_ms = 60000,
	};
	char port[8];

	while (!victims->port && !victims->quit)
		usleep(1000);
	snprintf(port, sizeof(port), "%u", victims->port);
	if (!open_context()) {
		opts.srq = srq;
		(void)rdmamsg_connect(ctx, address, port, &opts, &innocent);
	}
	if (!innocent) {
		harmed("client: %s", rdmamsg_error());
		return 1;
	}
	while (!victims->quit) {
		bool due = round_due;

		if (rdmamsg_wait(ctx, due ? 1 : 20) < 0)
			harmed("client: %s", rdmamsg_error());
		if (due)
			send_round();
		do_wish();
	}
	rdmamsg_close(ctx);
	return 0;
}

/* ---- the test's side -------------------------------------------------- */

static pid_t start(int (*fn)(void))
{
	pid_t parent = getpid(), pid;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* the signal does not come if the parent ended before */
	if (getppid() != parent)
		exit(1);
	exit(fn());
}

void victims_start(const char *where)
{
	address = where;
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)((uint32_t)i * 2654435761u >> 24);
	victims = mmap(NULL, sizeof(*victims), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (victims == MAP_FAILED)
		exit(1);
	victims->timeout_ms = TIMEOUT_MS;
	server_pid = start(server);
	client_pid = start(client);
}

static bool ended_well(pid_t pid, const char *name)
{
	int status;

	if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	    !WEXITSTATUS(status))
		return true;
	printf("not ok %s: ended with status 0x%x\n", name, status);
	return false;
}

bool victims_stop(void)
{
	bool good;

	victims->quit = true;
	good = ended_well(client_pid, "client");
	good &= ended_well(server_pid, "server");
	return good;
}

#define UNTIL(what) \
	do { \
		for (int i_ = 0; i_ < 20000 && !(what); i_++) \
			usleep(1000); \
	} while (0)

bool victims_ended(uint32_t count)
{
	UNTIL(victims->ended >= count || victims->harmed);
	return victims->ended == count;
}

bool victims_innocent_goes_on(void)
{
	uint32_t rounds = victims->rounds;

	UNTIL(victims->rounds >= rounds + 6 || victims->harmed);
	return victims->rounds >= rounds + 6 && !victims->harmed;
}

bool victims_busy(void)
{
	UNTIL(victims->busy);
	return victims->busy;
}

void victims_wish(_Atomic int *of, enum wish wish)
{
	*of = wish;
	UNTIL(*of == WISH_NONE);
}
