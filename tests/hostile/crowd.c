/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server, a crowd that opens as many connections as it can and says nothing,
 * and an innocent client that connects and exchanges messages meanwhile. The
 * crowd is made of plain verbs and rdma_cm. With TEST_SRQ the server has a
 * shared receive queue of that depth.
 * Usage: crowd [ADDRESS]
 *
 * The innocent has a source address of its own if the server's is a loopback
 * address, or if TEST_INNOCENT names one. Else the address of both is the same.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/rdmamsg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "together.h"
#include "wire/proto.h"

#define CROWD		400
#define ROUNDS		5
#define MESSAGES	20
#define HALF_OPEN	48
#define REQUESTS	24
#define SETUP_MS	4000
#define HOLD_MS		4000		/* delay of the program's answer */
#define STEP_MS		20000		/* bound of a step of the test */
#define BOUND_MS	15000 /* for one round of the innocent client */
#define SMALL		((size_t)4 << 20)

enum phase { QUIET, SILENT, WAITING, OVER };

/* Memory that the processes share. */
static struct shared {
	struct harm harm;
	_Atomic uint32_t port;
	_Atomic int phase;		/* enum phase, for the server */
	_Atomic bool quit;
	_Atomic bool want_stats;
	_Atomic uint32_t rounds;	/* rounds of the innocent client */
	_Atomic uint32_t slowest;	/* ms, the slowest of these rounds */
	struct rdmamsg_stats stats;
	struct rdmamsg_listener_stats door;
} *shared;

static const char *address = "10.9.0.1";

#define UNTIL(what, ms) \
	do { \
		for (int i_ = 0; i_ < (ms) && !(what); i_++) \
			usleep(1000); \
	} while (0)

static uint32_t srq_depth(void)
{
	const char *depth = getenv("TEST_SRQ");

	return depth ? (uint32_t)atoi(depth) : 0;
}

/* ---- the server ------------------------------------------------------- */

static struct rdmamsg_ep_options server_ep;
static struct held {
	struct rdmamsg_request *req;
	uint64_t until;
} held[REQUESTS];
static unsigned int held_count;

static void on_echo(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (rdmamsg_msg_send(ep, msg, rdmamsg_msg_tag(msg), NULL))
		rdmamsg_msg_free(msg);
}

static const struct rdmamsg_ep_handlers echo = {
	.size = sizeof(echo), .on_message = on_echo,
};

/* In the phase WAITING the program answers the crowd late. */
static void on_request(struct rdmamsg_listener *l, struct rdmamsg_request *req)
{
	size_t len;
	const void *data = rdmamsg_request_data(req, &len);

	if (shared->phase == WAITING &&
	    (len != 8 || memcmp(data, "innocent", 8)) &&
	    held_count < REQUESTS)
		held[held_count++] = (struct held){ req, now_ms() + HOLD_MS };
	else
		(void)rdmamsg_request_accept(req, &server_ep, NULL);
}

static void answer_held(void)
{
	unsigned int left = 0;

	for (unsigned int i = 0; i < held_count; i++)
		if (shared->phase == WAITING && now_ms() < held[i].until)
			held[left++] = held[i];
		else
			(void)rdmamsg_request_reject(held[i].req, NULL, 0);
	held_count = left;
}

static int server(void)
{
	const struct rdmamsg_srq_options so = {
		.size = sizeof(so), .depth = srq_depth(),
	};
	static const struct rdmamsg_listener_handlers on = {
		.size = sizeof(on), .on_request = on_request,
	};
	struct rdmamsg_listen_options lo = {
		.size = sizeof(lo), .handlers = &on, .max_half_open = HALF_OPEN,
		.max_requests = REQUESTS, .setup_timeout_ms = SETUP_MS,
	};
	struct rdmamsg_listener *l;
	struct rdmamsg *ctx;

	server_ep.size = sizeof(server_ep);
	server_ep.handlers = &echo;
	if (rdmamsg_open(&ctx, NULL) ||
	    (so.depth && rdmamsg_srq_create(ctx, &so, &server_ep.srq)) ||
	    rdmamsg_listen(ctx, address, "0", &lo, &l)) {
		harmed("server: %s", rdmamsg_error());
		return 1;
	}
	shared->port = rdmamsg_listener_port(l);
	while (!shared->quit) {
		if (rdmamsg_wait(ctx, 20) < 0)
			harmed("server: %s", rdmamsg_error());
		answer_held();
		if (!shared->want_stats)
			continue;
		shared->stats.size = sizeof(shared->stats);
		shared->door.size = sizeof(shared->door);
		rdmamsg_get_stats(ctx, &shared->stats);
		rdmamsg_listener_get_stats(l, &shared->door);
		shared->want_stats = false;
	}
	rdmamsg_close(ctx);
	return 0;
}

static void get_stats(void)
{
	shared->want_stats = true;
	UNTIL(!shared->want_stats, STEP_MS);
}

/* ---- the innocent ----------------------------------------------------- */

static const char *innocent_source(void)
{
	if (getenv("TEST_INNOCENT"))
		return getenv("TEST_INNOCENT");
	return strncmp(address, "127.", 4) ? NULL : "127.0.0.2";
}

static bool talk(struct rdmamsg_ep *ep)
{
	struct rdmamsg_msg *msg;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		if (rdmamsg_send_wait(ep, &i, sizeof(i), i, STEP_MS) ||
		    rdmamsg_recv_wait(ep, STEP_MS, &msg))
			return false;
		if (rdmamsg_msg_tag(msg) != i)
			harmed("innocent: message %u has tag %u", i,
			       rdmamsg_msg_tag(msg));
		rdmamsg_msg_free(msg);
	}
	return true;
}

static void one_round(struct rdmamsg *ctx, const char *port)
{
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .hello_data = "innocent",
		.hello_data_len = 8, .timeout_ms = STEP_MS,
		.source = innocent_source(),
	};
	uint64_t begin = now_ms();
	struct rdmamsg_ep *ep;
	uint32_t ms;

	if (rdmamsg_connect_wait(ctx, address, port, &opts, STEP_MS, &ep)) {
		harmed("innocent: no connection after %llu ms: %s",
		       (unsigned long long)(now_ms() - begin), rdmamsg_error());
		return;
	}
	if (!talk(ep))
		harmed("innocent: %s", rdmamsg_error());
	(void)rdmamsg_ep_close_wait(ep, STEP_MS);
	ms = (uint32_t)(now_ms() - begin);
	if (ms > shared->slowest)
		shared->slowest = ms;
	shared->rounds++;
}

static int innocent(void)
{
	struct rdmamsg *ctx;
	char port[8];

	UNTIL(shared->port || shared->quit, STEP_MS);
	snprintf(port, sizeof(port), "%u", shared->port);
	if (rdmamsg_open(&ctx, NULL)) {
		harmed("innocent: %s", rdmamsg_error());
		return 1;
	}
	while (!shared->quit && !harm->done) {
		one_round(ctx, port);
		usleep(10000);
	}
	rdmamsg_close(ctx);
	return 0;
}

/* The innocent client must finish some rounds, each in bounded time. */
static void judge(const char *name)
{
	uint32_t before = shared->rounds;
	bool good;

	shared->slowest = 0;
	UNTIL(shared->rounds >= before + ROUNDS || harm->done,
	      ROUNDS * STEP_MS);
	good = shared->rounds >= before + ROUNDS && !harm->done &&
	       shared->slowest < BOUND_MS;
	verdict(name, good, "%u rounds, the slowest took %u ms; %s",
		shared->rounds - before, shared->slowest, harm->text);
}

/* ---- the crowd -------------------------------------------------------- */

static struct rdma_event_channel *channel;
static struct rdma_cm_id *ids[CROWD];
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static unsigned int dialled, established, rejected, other_ends;
static uint32_t limits[16];

static void fail(const char *what)
{
	printf("not ok crowd: %s: %m\n", what);
	fflush(stdout);
	_exit(1);
}

static void count_reject(const struct rdma_cm_event *ev)
{
	const struct rdma_conn_param *c = &ev->param.conn;
	struct proto_hello h;

	rejected++;
	if (!rdmamsg__hello_decode(&h, c->private_data, c->private_data_len) &&
	    h.reject == PROTO_REJECT_LIMIT && h.limit < 16)
		limits[h.limit]++;
}

/* Returns the type of the next event, or -1. */
static int next_event(int ms, struct rdma_cm_id **ret)
{
	struct pollfd fd = { channel->fd, POLLIN, 0 };
	struct rdma_cm_event *ev;
	int type;

	if (poll(&fd, 1, ms) != 1 || rdma_get_cm_event(channel, &ev))
		return -1;
	type = ev->event;
	*ret = ev->id;
	if (type == RDMA_CM_EVENT_REJECTED)
		count_reject(ev);
	else if (type == RDMA_CM_EVENT_ESTABLISHED)
		established++;
	else if (type > RDMA_CM_EVENT_ROUTE_RESOLVED)
		other_ends++;
	rdma_ack_cm_event(ev);
	return type;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 },
	};

	if (!pd) {
		pd = ibv_alloc_pd(id->verbs);
		cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	}
	if (!pd || !cq)
		fail("ibv_create_cq");
	attr.send_cq = attr.recv_cq = cq;
	if (rdma_create_qp(id, pd, &attr))
		fail("rdma_create_qp");
}

/* Connects. Answers to other clients of the crowd may arrive meanwhile. */
static void dial(struct rdma_cm_id **id)
{
	static uint8_t hello[PROTO_HELLO_MAX];
	struct proto_hello h = {
		.lowest = PROTO_VERSION, .highest = PROTO_VERSION,
		.credits = 16,
	};
	struct rdma_conn_param param = {
		.private_data = hello, .responder_resources = 1,
		.initiator_depth = 1, .retry_count = 5, .rnr_retry_count = 7,
	};
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)shared->port),
	};
	struct rdma_cm_id *of;
	int type;

	param.private_data_len = (uint8_t)rdmamsg__hello_encode(&h, hello);
	inet_pton(AF_INET, address, &at.sin_addr);
	if (rdma_create_id(channel, id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(*id, NULL, (struct sockaddr *)&at, 2000))
		fail("rdma_resolve_addr");
	do {
		type = next_event(STEP_MS, &of);
		if (type == RDMA_CM_EVENT_ADDR_RESOLVED &&
		    rdma_resolve_route(*id, 2000))
			fail("rdma_resolve_route");
		if (type == -1 || type == RDMA_CM_EVENT_ADDR_ERROR ||
		    type == RDMA_CM_EVENT_ROUTE_ERROR)
			fail("resolving");
	} while (of != *id || type != RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(*id);
	if (rdma_connect(*id, &param))
		fail("rdma_connect");
	dialled++;
}

/* Waits until each client of the crowd has its answer. */
static void answers(void)
{
	uint64_t end = now_ms() + STEP_MS;
	struct rdma_cm_id *of;

	while (established + rejected < dialled && now_ms() < end)
		(void)next_event(100, &of);
}

static void crowd_comes(void)
{
	dialled = established = rejected = other_ends = 0;
	memset(limits, 0, sizeof(limits));
	for (int i = 0; i < CROWD; i++)
		dial(&ids[i]);
}

static void crowd_goes(void)
{
	for (int i = 0; i < CROWD; i++) {
		rdma_destroy_qp(ids[i]);
		rdma_destroy_id(ids[i]);
	}
}

/* ---- the test --------------------------------------------------------- */

static void silent(void)
{
	uint64_t before = shared->stats.bytes_registered, timeouts;

	timeouts = shared->door.setup_timeouts;
	crowd_comes();
	judge("silent-crowd-innocent");
	answers();
	get_stats();
	verdict("silent-crowd-limited", dialled == CROWD && established &&
		rejected && limits[PROTO_LIMIT_HALF_OPEN] +
		limits[PROTO_LIMIT_REQUESTS] == rejected &&
		shared->door.rejected_half_open +
		shared->door.rejected_requests >= rejected,
		"%u dialled, %u established, %u rejected (%u by max_half_open, "
		"%u by max_requests), %u other ends", dialled, established,
		rejected, limits[PROTO_LIMIT_HALF_OPEN],
		limits[PROTO_LIMIT_REQUESTS], other_ends);
	verdict("silent-crowd-memory", shared->stats.bytes_registered <=
		before + SMALL, "%llu bytes registered before, then %llu",
		(unsigned long long)before,
		(unsigned long long)shared->stats.bytes_registered);
	UNTIL((get_stats(), !shared->door.half_open), STEP_MS / 10);
	verdict("silent-crowd-ends", !shared->door.half_open &&
		shared->door.setup_timeouts > timeouts,
		"%llu half-open, %llu ended by setup_timeout_ms",
		(unsigned long long)shared->door.half_open,
		(unsigned long long)shared->door.setup_timeouts);
	crowd_goes();
}

static void waiting(void)
{
	shared->phase = WAITING;
	crowd_comes();
	judge("waiting-crowd-innocent");
	answers();
	verdict("waiting-crowd-limited", limits[PROTO_LIMIT_REQUESTS] &&
		rejected + REQUESTS >= dialled && !established,
		"%u rejected, %u of them by max_requests", rejected,
		limits[PROTO_LIMIT_REQUESTS]);
	shared->phase = OVER;
	crowd_goes();
	UNTIL((get_stats(), !shared->door.requests), STEP_MS / 10);
	verdict("waiting-crowd-gone", !shared->door.requests, "%llu requests",
		(unsigned long long)shared->door.requests);
}

int main(int argc, char **argv)
{
	struct ibv_context **devices;
	pid_t pids[2];
	int n = 0;

	if (argc > 1)
		address = argv[1];
	else if (getenv("RDMAMSG_VM_ADDR"))
		address = getenv("RDMAMSG_VM_ADDR");
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	harm = &shared->harm;
	pids[0] = start(server);
	pids[1] = start(innocent);
	devices = rdma_get_devices(&n);
	if (!devices || !n) {
		fprintf(stderr, "no RDMA device\n");
		return 77;
	}
	rdma_free_devices(devices);
	channel = rdma_create_event_channel();
	if (!channel)
		fail("rdma_create_event_channel");
	/*
	 * librdmacm hides some events and waits for the next one, so do not
	 * block
	 */
	if (fcntl(channel->fd, F_SETFL, O_NONBLOCK))
		fail("fcntl");
	judge("crowd-before");
	get_stats();
	silent();
	waiting();
	judge("crowd-after");
	shared->quit = true;
	ended_well(pids[1], "innocent");
	ended_well(pids[0], "server");
	return failures ? 1 : 0;
}
