/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends a BEGIN and the data, read straight into messages. The server's credits
 * limit the bytes in flight.
 */
#include "client.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ALIVE_MS	30000	/* the server waits four times as long */

/* ---- from the server -------------------------------------------------- */

void client_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct client *c = rdmamsg_ep_user(ep);

	if (c->answered || rdmamsg_msg_tag(msg) != COPY_RESULT ||
	    copy_result_decode(&c->result, rdmamsg_msg_data(msg),
			       rdmamsg_msg_len(msg)) ||
	    (!c->ended && !c->result.failed)) {
		fprintf(stderr, "rdmamsg-copy: %s: not an answer of "
			COPY_HELLO "\n", c->job->host);
		rdmamsg_ep_abort(ep);
	} else {
		c->answered = true;
	}
	rdmamsg_msg_free(msg);
}

/* The cookie is the length of the message. */
void client_sent(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct client *c = rdmamsg_ep_user(ep);

	if (status)
		c->send_error = status;
	else
		bar_add(&c->bar, (uintptr_t)cookie);
}

static int wait_answer(struct client *c)
{
	int ret = 0;

	while (!c->answered && !ret)
		ret = client_step(c);
	return c->answered ? 0 : ret;
}

/* ---- to the server ---------------------------------------------------- */

static int send_small(struct client *c, const void *data, size_t len,
		      enum copy_tag tag)
{
	int ret;

	while ((ret = rdmamsg_send(c->ep, data, len, tag, NULL)) == -EAGAIN) {
		ret = client_step(c);
		if (ret)
			break;
	}
	return ret;
}

static int64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* An empty DATA message tells the server that the client is alive. */
static int keep_alive(struct client *c)
{
	if (now_ms() - c->heard_ms < ALIVE_MS)
		return 0;
	c->heard_ms = now_ms();
	return send_small(c, NULL, 0, COPY_DATA);
}

/* Waits for standard input, and serves the connection meanwhile. */
static int wait_input(struct client *c, int fd)
{
	struct pollfd p[2] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = rdmamsg_fd(c->ctx), .events = POLLIN },
	};

	while (!c->answered) {
		int n = poll(p, 2, ALIVE_MS), ret = 0;

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0 && p[1].revents)
			ret = rdmamsg_process(c->ctx);
		if (ret >= 0)
			ret = keep_alive(c);
		if (ret < 0 || !client_connected(c))
			return -ENOTCONN;
		if (n > 0 && p[0].revents)
			break;
	}
	return 0;
}

/*
 * Fills a message, and shortens it and sets *end at the end of standard input.
 * Returns -ESTALE if the file has shrunk.
 */
static int fill(struct client *c, struct source *s, struct rdmamsg_msg *msg,
		bool *end)
{
	char *data = rdmamsg_msg_data(msg);
	size_t len = rdmamsg_msg_len(msg), done = 0;
	bool stream = s->begin.size == COPY_SIZE_UNKNOWN;

	while (done < len && !*end) {
		int ret = stream ? wait_input(c, s->fd) : 0;
		ssize_t n;

		if (ret || c->answered)
			return ret;
		n = read(s->fd, data + done, len - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		*end = !n;
		done += (size_t)n;
	}
	if (!stream && done < len)
		return -ESTALE;
	(void)rdmamsg_msg_set_len(msg, done);
	return copy_digest_add(s->digest, data, done);
}

static int send_chunk(struct client *c, struct source *s, size_t len, bool *end)
{
	struct rdmamsg_msg *msg;
	int ret;

	while ((ret = rdmamsg_msg_alloc(c->ep, len, &msg)) == -EAGAIN) {
		ret = client_step(c);
		if (ret)
			return ret;
	}
	if (ret)
		return ret;
	ret = fill(c, s, msg, end);
	if (ret || c->answered) {
		rdmamsg_msg_free(msg);
		return ret;
	}
	len = rdmamsg_msg_len(msg);
	while ((ret = rdmamsg_msg_send(c->ep, msg, COPY_DATA,
				       (void *)(uintptr_t)len)) == -EAGAIN) {
		ret = client_step(c);
		/* an early answer means that the server rejects the rest */
		if (ret || c->answered)
			break;
	}
	if (ret || c->answered)
		rdmamsg_msg_free(msg);
	else
		c->heard_ms = now_ms();
	return ret;
}

static int send_data(struct client *c, struct source *s)
{
	uint64_t left = s->begin.size;
	bool end = false;
	char more;

	while (left && !end && !c->answered) {
		size_t len = left < COPY_CHUNK ? (size_t)left : COPY_CHUNK;
		int ret = send_chunk(c, s, len, &end);

		if (ret || c->send_error)
			return ret ? ret : c->send_error;
		/* handle answers, and the end of the connection */
		if (rdmamsg_process(c->ctx) < 0)
			return -ENOTCONN;
		if (s->begin.size != COPY_SIZE_UNKNOWN)
			left -= len;
	}
	if (c->answered || s->begin.size == COPY_SIZE_UNKNOWN)
		return 0;
	return read(s->fd, &more, 1) > 0 ? -ESTALE : 0;
}

static int send_contents(struct client *c, struct source *s)
{
	uint8_t sha[COPY_SHA_LEN];
	int ret = send_data(c, s);

	if (!ret && !c->answered)
		ret = copy_digest_end(s->digest, sha);
	c->ended = !ret && !c->answered;
	if (c->ended)
		ret = send_small(c, sha, sizeof(sha), COPY_END);
	if (ret && !c->answered && client_connected(c) &&
	    !send_small(c, NULL, 0, COPY_CANCEL))
		(void)wait_answer(c);
	return ret;
}

static int send_source(struct client *c, struct source *s)
{
	uint8_t buf[COPY_BEGIN_MAX];
	size_t len = copy_begin_encode(&s->begin, buf);
	int ret;

	c->ended = s->begin.kind != COPY_FILE;
	ret = send_small(c, buf, len, COPY_BEGIN);
	if (!ret && !c->ended)
		ret = send_contents(c, s);
	return ret ? ret : wait_answer(c);
}

int client_send(struct client *c, struct source *s)
{
	char text[COPY_TEXT_MAX + NI_MAXHOST];
	int ret;

	c->answered = false;
	c->send_error = 0;
	ret = send_source(c, s);
	if (ret == -ESTALE)
		return client_complain(c, s->path, "the file has changed its "
				       "size while it was read");
	if (!client_connected(c) && !c->answered)
		return client_complain(c, s->path, "not copied: the connection "
				       "is gone");
	if (ret)
		return client_complain(c, s->path, strerror(-ret));
	if (!c->result.failed)
		return 0;
	snprintf(text, sizeof(text), "at %s: %s", c->job->host, c->result.text);
	return client_complain(c, s->path, text);
}
