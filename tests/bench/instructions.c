/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program moves 64-byte messages between two ends in one thread, or reads
 * and writes the peer's memory, over a device that only copies. instructions.sh
 * runs it under callgrind, which counts the instructions in measured_*(), and
 * subtracts those of the device in null_*(). Usage: instructions
 * single|pingpong|stream|msg|ref|read|write [COUNT]
 */
#include "../fake/nulldev.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/fast.h>
#include <rdmamsg/rma.h>

#define SIZE	64

struct side {
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	uint64_t received;
	uint64_t sent;
	uint64_t to_send;
};

static struct side client, server;
static uint8_t data[SIZE], remote[SIZE];
static struct rdmamsg_sge here = { data, SIZE, NULL };
static struct rdmamsg_region *there;
static struct rdmamsg_key key;

static void on_connected(struct rdmamsg_ep *ep)
{
	struct side *s = rdmamsg_user(rdmamsg_ep_ctx(ep));

	s->ep = ep;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct side *s = rdmamsg_ep_user(ep);

	s->received++;
	rdmamsg_msg_free(msg);
}

/* A read or a write counts as an arrived message. */
static void on_complete(struct rdmamsg_ep *ep, void *cookie, int status)
{
	if (!status && cookie == &here)
		server.received++;
}

static void on_writable(struct rdmamsg_ep *ep)
{
	struct side *s = rdmamsg_ep_user(ep);

	while (s->sent < s->to_send && !rdmamsg_send(ep, data, SIZE, 0, NULL))
		s->sent++;
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	struct side *s = rdmamsg_ep_user(ep);

	if (why->error) {
		fprintf(stderr, "instructions: %s\n", why->text);
		exit(1);
	}
	s->ep = NULL;
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_message = on_message, .on_writable = on_writable,
	.on_complete = on_complete, .on_closed = on_closed,
};

static void must(int ret)
{
	if (ret < 0) {
		fprintf(stderr, "instructions: %s\n", rdmamsg_error());
		exit(1);
	}
}

static void both(void)
{
	must(rdmamsg_process(client.ctx));
	must(rdmamsg_process(server.ctx));
}

static void connect_them(void)
{
	const struct rdmamsg_options copts = {
		.size = sizeof(copts), .user = &client,
	};
	const struct rdmamsg_options sopts = {
		.size = sizeof(sopts), .user = &server,
	};
	const struct rdmamsg_ep_tuning tuning = {
		.size = sizeof(tuning), .recv_depth = 64,
	};
	struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers,
		.user = &server, .tuning = &tuning,
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts,
	};
	struct rdmamsg_listener *l;
	char port[8];

	must(rdmamsg_open(&client.ctx, &copts));
	must(rdmamsg_open(&server.ctx, &sopts));
	must(rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts, &l));
	snprintf(port, sizeof(port), "%u", rdmamsg_listener_port(l));
	opts.user = &client;
	must(rdmamsg_connect(client.ctx, "127.0.0.1", port, &opts, NULL));
	while (!client.ep || !server.ep)
		both();
}

static void register_both(void)
{
	must(rdmamsg_region_create(client.ctx, data, SIZE,
				   RDMAMSG_ACCESS_LOCAL_WRITE, &here.region));
	must(rdmamsg_region_register(here.region, client.ep));
	must(rdmamsg_region_create(server.ctx, remote, SIZE,
				   RDMAMSG_ACCESS_READ | RDMAMSG_ACCESS_WRITE,
				   &there));
	must(rdmamsg_region_get_key(there, server.ep, &key));
}

/* Sends one message at a time. Completions and credits are part of its cost. */
__attribute__((noinline)) void measured_single(uint64_t n);
__attribute__((noinline)) void measured_single(uint64_t n)
{
	while (n--) {
		rdmamsg_fast_send(client.ep, data, SIZE, 0);
		rdmamsg_fast_poll(server.ctx);
		rdmamsg_fast_poll(client.ctx);
	}
}

/* Sends a message and its answer, which carry the credits. */
__attribute__((noinline)) void measured_pingpong(uint64_t n);
__attribute__((noinline)) void measured_pingpong(uint64_t n)
{
	while (n--) {
		rdmamsg_fast_send(client.ep, data, SIZE, 0);
		rdmamsg_fast_poll(server.ctx);
		rdmamsg_fast_send(server.ep, data, SIZE, 0);
		rdmamsg_fast_poll(client.ctx);
	}
}

/* Sends as many messages as fit, from callbacks: several share a doorbell. */
__attribute__((noinline)) void measured_stream(uint64_t n);
__attribute__((noinline)) void measured_stream(uint64_t n)
{
	uint64_t end = server.received + n;

	client.to_send += n;
	on_writable(client.ep);
	while (server.received < end) {
		rdmamsg_fast_poll(server.ctx);
		rdmamsg_fast_poll(client.ctx);
	}
}

/* Allocates each message and sends it without a copy. */
__attribute__((noinline)) void measured_msg(uint64_t n);
__attribute__((noinline)) void measured_msg(uint64_t n)
{
	struct rdmamsg_msg *msg;

	while (n--) {
		(void)rdmamsg_msg_alloc(client.ep, SIZE, &msg);
		(void)rdmamsg_msg_send(client.ep, msg, 0, &key);
		rdmamsg_fast_poll(server.ctx);
		rdmamsg_fast_poll(client.ctx);
	}
}

/* Sends one message again and again, with a reference for each time. */
__attribute__((noinline)) void measured_ref(uint64_t n);
__attribute__((noinline)) void measured_ref(uint64_t n)
{
	struct rdmamsg_msg *msg;

	(void)rdmamsg_msg_alloc(client.ep, SIZE, &msg);
	while (n--) {
		(void)rdmamsg_msg_ref(msg);
		(void)rdmamsg_msg_send(client.ep, msg, 0, &key);
		rdmamsg_fast_poll(server.ctx);
		rdmamsg_fast_poll(client.ctx);
	}
	rdmamsg_msg_free(msg);
}

/* Reads once at a time, each read with its completion. */
__attribute__((noinline)) void measured_read(uint64_t n);
__attribute__((noinline)) void measured_read(uint64_t n)
{
	while (n--) {
		rdmamsg_read(client.ep, &here, 1, &key, 0, 0, &here);
		rdmamsg_fast_poll(client.ctx);
	}
}

__attribute__((noinline)) void measured_write(uint64_t n);
__attribute__((noinline)) void measured_write(uint64_t n)
{
	while (n--) {
		rdmamsg_write(client.ep, &here, 1, &key, 0, 0, &here);
		rdmamsg_fast_poll(client.ctx);
	}
}

static const struct {
	const char *name;
	void (*run)(uint64_t n);
} ways[] = {
	{ "single", measured_single },
	{ "pingpong", measured_pingpong },
	{ "stream", measured_stream },
	{ "msg", measured_msg },
	{ "ref", measured_ref },
	{ "read", measured_read },
	{ "write", measured_write },
};

int main(int argc, char **argv)
{
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 10000, before;
	struct rdmamsg_ep_attr info = { .size = sizeof(info) };

	rdmamsg__verbs = &nulldev_verbs;
	connect_them();
	register_both();
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (argc < 2 || strcmp(ways[i].name, argv[1]))
			continue;
		before = server.received;
		ways[i].run(n);
		if (server.received - before != n) {
			fprintf(stderr, "instructions: %llu of %llu arrived\n",
				(unsigned long long)(server.received - before),
				(unsigned long long)n);
			return 1;
		}
	}
	rdmamsg_ep_query(client.ep, &info);
	must(rdmamsg_region_destroy(here.region));
	must(rdmamsg_region_destroy(there));
	rdmamsg_ep_close(client.ep);
	while (client.ep || server.ep)
		both();
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
	if (nulldev_counts.qps || nulldev_counts.cqs || nulldev_counts.mrs ||
	    nulldev_counts.pds || nulldev_counts.channels ||
	    nulldev_counts.ids || nulldev_counts.contexts) {
		fprintf(stderr, "instructions: something was not freed\n");
		return 1;
	}
	printf("sends %lu doorbells %lu receives %lu polls %lu empty %lu\n",
	       nulldev_counts.sends, nulldev_counts.doorbells,
	       nulldev_counts.recvs, nulldev_counts.polls,
	       nulldev_counts.empty_polls);
	printf("idle endpoint: %llu bytes of receive buffers, %llu of "
	       "structs\n",
	       (unsigned long long)info.bytes_pinned,
	       (unsigned long long)info.bytes_private);
	return 0;
}
