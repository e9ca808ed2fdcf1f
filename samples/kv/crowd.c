/* SPDX-License-Identifier: BSD-2-Clause */
/* A client that asks faster than it reads. The server holds it up. */
#include "client.h"

#include <rdmamsg/endpoint.h>

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crowd.h"

#define REQUESTS	1000u
#define BYTES		50000u	/* of a value */
#define WAIT_MS		60000

static char bytes[KV_ITEM_MAX];

static void put_value(struct kv *kv)
{
	static const char value[BYTES];
	struct kv_item answer;

	if (kv_ask(kv, KV_PUT, "crowd", value, BYTES, 0, &answer) ||
	    answer.head.kind != KV_OK)
		errx(1, "the value is not stored: %s", kv->reason);
}

static size_t request(uint32_t id)
{
	const struct kv_item item = { {
		.magic = KV_MAGIC, .kind = KV_GET, .key_len = 5, .id = id,
	}, "crowd", NULL };

	return kv_build(bytes, &item);
}

static void check(const struct kv_item *answer, uint32_t id)
{
	if (answer->head.kind != KV_OK || answer->head.id != id ||
	    answer->head.value_len != BYTES)
		errx(1, "request %u has answer %u with %u bytes", id,
		     answer->head.id, answer->head.value_len);
}

/* ---- by message ------------------------------------------------------- */

static void take_answer(struct kv *kv, uint32_t id)
{
	struct rdmamsg_msg *msg;
	struct kv_item answer;

	if (rdmamsg_recv_wait(kv->ep, WAIT_MS, &msg))
		errx(1, "answer %u: %s", id, rdmamsg_error());
	if (kv_parse(rdmamsg_msg_data(msg), rdmamsg_msg_len(msg), &answer) <= 0)
		errx(1, "answer %u is malformed", id);
	check(&answer, id);
	rdmamsg_msg_free(msg);
}

/* The client has no queue of its own: on -EAGAIN the server holds it. */
static void crowd_by_message(struct kv *kv)
{
	uint32_t answered = 0;

	for (uint32_t id = 1; id <= REQUESTS; id++) {
		size_t len = request(id);
		int ret;

		while ((ret = rdmamsg_send(kv->ep, bytes, len, 0, NULL)) ==
		       -EAGAIN)
			take_answer(kv, ++answered);
		if (ret)
			errx(1, "request %u: %s", id, rdmamsg_error());
	}
	printf("%u answers by message while others were asked for\n", answered);
	while (answered < REQUESTS)
		take_answer(kv, ++answered);
}

/* ---- by TCP ----------------------------------------------------------- */

static void send_all(int fd)
{
	for (uint32_t id = 1; id <= REQUESTS; id++) {
		size_t len = request(id);

		if (send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
			err(1, "request %u", id);
	}
}

static void read_all(int fd)
{
	struct kv_item answer;
	size_t have = 0;
	long n = 0;

	for (uint32_t id = 1; id <= REQUESTS; id++) {
		while (!(n = kv_parse(bytes, have, &answer))) {
			ssize_t more = recv(fd, bytes + have,
					    sizeof(bytes) - have, 0);

			if (more <= 0)
				err(1, "answer %u", id);
			have += (size_t)more;
		}
		if (n < 0)
			errx(1, "answer %u is malformed", id);
		check(&answer, id);
		have -= (size_t)n;
		memmove(bytes, bytes + n, have);
	}
}

/* The sender is another process, which may be held up. */
static void crowd_by_tcp(struct kv *kv)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		err(1, "fork");
	if (!pid) {
		send_all(kv->fd);
		_exit(0);
	}
	read_all(kv->fd);
	if (waitpid(pid, &status, 0) < 0 || status)
		errx(1, "the sender has failed");
}

/* The server has answers for a connection that is no more: a broken pipe. */
static void leave(const char *host, const char *port)
{
	static struct kv kv;

	kv_open(&kv, true, host, port);
	send_all(kv.fd);
	if (recv(kv.fd, bytes, sizeof(bytes), MSG_PEEK) <= 0)
		err(1, "no answer");
	shutdown(kv.fd, SHUT_WR);
	kv_close(&kv);
}

int crowd(const char *host, const char *port, const char *tcp_port)
{
	static struct kv tcp, rdma;

	kv_open(&tcp, true, host, tcp_port);
	put_value(&tcp);
	for (int i = 0; i < 10; i++)
		leave(host, tcp_port);
	crowd_by_tcp(&tcp);
	kv_open(&rdma, false, host, port);
	crowd_by_message(&rdma);
	kv_close(&rdma);
	kv_close(&tcp);
	printf("%u answers each way\n", REQUESTS);
	return 0;
}
