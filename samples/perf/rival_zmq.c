/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * compare: ZeroMQ, loaded if it is installed. zmq.h is not needed for building:
 * these are the values and prototypes of its stable interface, version 4.
 */
#include "rival.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ZMQ_PAIR	0
#define ZMQ_SNDHWM	23
#define ZMQ_RCVHWM	24
#define HWM_LARGE	8	/* messages in a queue, as of rdmamsg's bw */
#define HWM_SMALL	1000	/* its default */
#define LARGE		65536

/* zmq_msg_t */
struct message {
	_Alignas(void *) unsigned char opaque[64];
};

static struct {
	void *(*ctx_new)(void);
	void *(*socket)(void *ctx, int type);
	int (*setsockopt)(void *socket, int option, const void *value,
			  size_t len);
	int (*bind)(void *socket, const char *address);
	int (*connect)(void *socket, const char *address);
	int (*send)(void *socket, const void *data, size_t len, int flags);
	int (*msg_init)(struct message *msg);
	int (*msg_init_size)(struct message *msg, size_t size);
	int (*msg_copy)(struct message *to, struct message *from);
	int (*msg_send)(struct message *msg, void *socket, int flags);
	int (*msg_recv)(struct message *msg, void *socket, int flags);
	void *(*msg_data)(struct message *msg);
	size_t (*msg_size)(const struct message *msg);
	int (*msg_close)(struct message *msg);
} zmq;

static bool load(void)
{
	const struct rival_symbol symbols[] = {
		{ "zmq_ctx_new", &zmq.ctx_new },
		{ "zmq_socket", &zmq.socket },
		{ "zmq_setsockopt", &zmq.setsockopt },
		{ "zmq_bind", &zmq.bind },
		{ "zmq_connect", &zmq.connect },
		{ "zmq_send", &zmq.send },
		{ "zmq_msg_init", &zmq.msg_init },
		{ "zmq_msg_init_size", &zmq.msg_init_size },
		{ "zmq_msg_copy", &zmq.msg_copy },
		{ "zmq_msg_send", &zmq.msg_send },
		{ "zmq_msg_recv", &zmq.msg_recv },
		{ "zmq_msg_data", &zmq.msg_data },
		{ "zmq_msg_size", &zmq.msg_size },
		{ "zmq_msg_close", &zmq.msg_close },
		{ NULL, NULL },
	};

	return rival_load("libzmq.so.5", symbols);
}

/*
 * A large message is copied once. Each send has a reference to it, which costs
 * ZeroMQ no copy, as long as the bytes stay the same.
 */
static struct {
	struct message msg;
	size_t size;		/* 0: none */
	uint8_t kind;
} large;

static int prepare(const uint8_t *msg, size_t size)
{
	if (large.size == size && large.kind == msg[0])
		return 0;
	if (large.size)
		(void)zmq.msg_close(&large.msg);
	large.size = 0;
	if (zmq.msg_init_size(&large.msg, size))
		return -1;
	memcpy(zmq.msg_data(&large.msg), msg, size);
	large.size = size;
	large.kind = msg[0];
	return 0;
}

static int put_large(void *conn, const uint8_t *msg, size_t size)
{
	struct message one;

	if (prepare(msg, size) || zmq.msg_init(&one))
		return -1;
	if (!zmq.msg_copy(&one, &large.msg) &&
	    zmq.msg_send(&one, conn, 0) == (int)size)
		return 0;
	(void)zmq.msg_close(&one);
	return -1;
}

static int zmq_put(void *conn, const uint8_t *msg, size_t size, bool more)
{
	(void)more;
	if (size >= LARGE)
		return put_large(conn, msg, size);
	return zmq.send(conn, msg, size, 0) == (int)size ? 0 : -1;
}

static enum rival_kind zmq_get(void *conn, size_t size)
{
	enum rival_kind kind = RIVAL_STOP;
	struct message msg;

	if (zmq.msg_init(&msg) || zmq.msg_recv(&msg, conn, 0) < 0)
		return RIVAL_STOP;
	if (zmq.msg_size(&msg) == size)
		kind = (enum rival_kind)*(uint8_t *)zmq.msg_data(&msg);
	(void)zmq.msg_close(&msg);
	return kind;
}

/* Returns NULL on failure. The end of the process closes the socket. */
static void *open_zmq(const struct rival_run *run, bool server)
{
	int hwm = run->size < LARGE ? HWM_SMALL : HWM_LARGE;
	char address[64];
	void *ctx, *s;

	snprintf(address, sizeof(address), "ipc://@rdmamsg-perf-%d-%u",
		 (int)getppid(), run->number);
	ctx = zmq.ctx_new();
	s = ctx ? zmq.socket(ctx, ZMQ_PAIR) : NULL;
	if (!s || zmq.setsockopt(s, ZMQ_SNDHWM, &hwm, sizeof(hwm)) ||
	    zmq.setsockopt(s, ZMQ_RCVHWM, &hwm, sizeof(hwm)))
		return NULL;
	return (server ? zmq.bind : zmq.connect)(s, address) ? NULL : s;
}

static const struct rival_ops ops = {
	.send = zmq_put, .recv = zmq_get, .open = open_zmq,
};

const struct rival rival_zmq[] = {
	{ .name = "ZeroMQ", .flags = "PAIR, ipc, 1 I/O thread beside the program",
	  .figures = { true, true, true }, .ops = &ops, .load = load,
	  .there = rival_loads, .serve = rival_server, .client = rival_client },
	{ .name = NULL },
};
