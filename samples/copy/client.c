/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client: one file after the other, read straight into the messages. What
 * is in flight is bounded by the server's credits.
 */
#include "bar.h"
#include "copy.h"

#include <rdmamsg/rdmamsg.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONNECT_MS	15000

struct client {
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	const char *host;
	bool ended;			/* END was sent */
	bool answered;			/* the result of this file is there */
	struct copy_result result;
	int send_error;
	struct bar bar;
};

/* A file on its way. */
struct source {
	const char *path;
	int fd;
	uint64_t size;
	uint32_t mode;
	struct copy_digest *digest;
};

/* ---- from the server -------------------------------------------------- */

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	struct client *c = rdmamsg_ep_user(ep);

	if (c->answered || rdmamsg_msg_tag(msg) != COPY_RESULT ||
	    copy_result_decode(&c->result, rdmamsg_msg_data(msg),
			       rdmamsg_msg_len(msg)) ||
	    (!c->ended && !c->result.failed)) {
		fprintf(stderr, "rdmamsg-copy: %s: not an answer of "
			COPY_HELLO "\n", c->host);
		rdmamsg_ep_abort(ep);
	} else {
		c->answered = true;
	}
	rdmamsg_msg_free(msg);
}

/* The cookie is the length. */
static void on_sent(struct rdmamsg_ep *ep, void *cookie, int status)
{
	struct client *c = rdmamsg_ep_user(ep);

	if (status)
		c->send_error = status;
	else
		bar_add(&c->bar, (uintptr_t)cookie);
}

static void on_stalled(struct rdmamsg_ep *ep, uint32_t silent_ms)
{
	struct client *c = rdmamsg_ep_user(ep);

	bar_clear(&c->bar);
	fprintf(stderr, "rdmamsg-copy: %s has not answered for %u s, waiting\n",
		c->host, silent_ms / 1000);
}

/* ---- waiting ---------------------------------------------------------- */

/* Handles what comes next. The library closes what is silent for too long. */
static int step(struct client *c)
{
	int ret = rdmamsg_wait(c->ctx, -1);

	if (ret < 0 && ret != -EINTR)
		return ret;
	return rdmamsg_ep_state(c->ep) == RDMAMSG_CLOSED ? -ENOTCONN : 0;
}

static int wait_answer(struct client *c)
{
	int ret = 0;

	while (!c->answered && !ret)
		ret = step(c);
	return c->answered ? 0 : ret;
}

static int send_small(struct client *c, const void *data, size_t len,
		      enum copy_tag tag)
{
	int ret;

	while ((ret = rdmamsg_send(c->ep, data, len, tag, NULL)) == -EAGAIN) {
		ret = step(c);
		if (ret)
			break;
	}
	return ret;
}

/* ---- one file --------------------------------------------------------- */

static int complain(struct client *c, const char *path, const char *text)
{
	bar_clear(&c->bar);
	c->bar.on = false;
	fprintf(stderr, "rdmamsg-copy: %s: %s\n", path, text);
	return 1;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Fills a message. Less than its length means that the file has shrunk. */
static int fill(struct source *s, struct rdmamsg_msg *msg)
{
	char *data = rdmamsg_msg_data(msg);
	size_t len = rdmamsg_msg_len(msg), done = 0;

	while (done < len) {
		ssize_t n = read(s->fd, data + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ESTALE;
		done += (size_t)n;
	}
	return copy_digest_add(s->digest, data, len);
}

static int send_chunk(struct client *c, struct source *s, size_t len)
{
	struct rdmamsg_msg *msg;
	int ret;

	while ((ret = rdmamsg_msg_alloc(c->ep, len, &msg)) == -EAGAIN) {
		ret = step(c);
		if (ret)
			return ret;
	}
	if (ret)
		return ret;
	ret = fill(s, msg);
	if (ret) {
		rdmamsg_msg_free(msg);
		return ret;
	}
	while ((ret = rdmamsg_msg_send(c->ep, msg, COPY_DATA,
				       (void *)(uintptr_t)len)) == -EAGAIN) {
		ret = step(c);
		/* an early answer: the server does not want the rest */
		if (ret || c->answered)
			break;
	}
	if (ret || c->answered)
		rdmamsg_msg_free(msg);
	return ret;
}

static int send_data(struct client *c, struct source *s)
{
	uint64_t left = s->size;
	char more;

	while (left && !c->answered) {
		size_t len = left < COPY_CHUNK ? (size_t)left : COPY_CHUNK;
		int ret = send_chunk(c, s, len);

		if (ret || c->send_error)
			return ret ? ret : c->send_error;
		/* answers and the end of the connection are looked at */
		if (rdmamsg_process(c->ctx) < 0)
			return -ENOTCONN;
		left -= len;
	}
	return !c->answered && read(s->fd, &more, 1) > 0 ? -ESTALE : 0;
}

static int send_file(struct client *c, struct source *s)
{
	struct copy_begin b = { .size = s->size, .mode = s->mode };
	uint8_t buf[COPY_BEGIN_MAX], sha[COPY_SHA_LEN];
	int ret;

	strcpy(b.name, base_name(s->path));
	ret = send_small(c, buf, copy_begin_encode(&b, buf), COPY_BEGIN);
	if (!ret)
		ret = send_data(c, s);
	if (!ret && !c->answered)
		ret = copy_digest_end(s->digest, sha);
	c->ended = !ret && !c->answered;
	if (c->ended)
		ret = send_small(c, sha, sizeof(sha), COPY_END);
	if (ret && rdmamsg_ep_state(c->ep) == RDMAMSG_CONNECTED) {
		/* our fault: the server answers to this */
		if (!c->answered && !send_small(c, NULL, 0, COPY_CANCEL))
			(void)wait_answer(c);
		return ret;
	}
	return ret ? ret : wait_answer(c);
}

static int source_open(struct client *c, struct source *s)
{
	struct stat st;

	if (strlen(base_name(s->path)) > NAME_MAX)
		return complain(c, s->path, strerror(ENAMETOOLONG));
	/* O_NONBLOCK: a FIFO would wait for its writer */
	s->fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (s->fd < 0 || fstat(s->fd, &st))
		return complain(c, s->path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return complain(c, s->path, "not a regular file");
	s->digest = copy_digest_new();
	if (!s->digest)
		return complain(c, s->path, strerror(ENOMEM));
	s->size = (uint64_t)st.st_size;
	s->mode = st.st_mode & 0777;
	return 0;
}

static int copy_open(struct client *c, struct source *s)
{
	int ret;

	c->ended = c->answered = false;
	c->send_error = 0;
	bar_start(&c->bar, base_name(s->path), s->size);
	ret = send_file(c, s);
	if (ret == -ESTALE)
		return complain(c, s->path, "the file has changed its size "
				"while it was read");
	if (rdmamsg_ep_state(c->ep) != RDMAMSG_CONNECTED && !c->answered)
		return complain(c, s->path,
				"not copied: the connection is gone");
	if (ret)
		return complain(c, s->path, strerror(-ret));
	if (c->result.failed)
		return complain(c, s->path, c->result.text);
	bar_end(&c->bar);
	return 0;
}

static int copy_file(struct client *c, const char *path)
{
	struct source s = { .path = path, .fd = -1 };
	int failed = source_open(c, &s);

	if (!failed)
		failed = copy_open(c, &s);
	if (s.fd >= 0)
		close(s.fd);
	copy_digest_free(s.digest);
	return failed;
}

/* ---- the program ------------------------------------------------------ */

static int dial(struct client *c, const char *port)
{
	static const struct rdmamsg_handlers on = {
		.size = sizeof(on),
		.on_message = on_message,
		.on_sent = on_sent,
		.on_stalled = on_stalled,
	};
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts),
		.user = c,
		.handlers = &on,
		.timeout_ms = CONNECT_MS,
		.hello_data = COPY_HELLO,
		.hello_data_len = sizeof(COPY_HELLO) - 1,
		.max_msg_size = COPY_RESULT_MAX,
		.recv_depth = COPY_WINDOW,
		.peer_timeout_ms = COPY_SILENCE_MS,
	};
	const void *data;
	size_t len;

	if (rdmamsg_connect_wait(c->ctx, c->host, port, &opts, -1, &c->ep)) {
		fprintf(stderr, "rdmamsg-copy: %s: %s\n", c->host,
			rdmamsg_error());
		return -ENOTCONN;
	}
	data = rdmamsg_ep_peer_data(c->ep, &len);
	if (len == sizeof(COPY_HELLO) - 1 && !memcmp(data, COPY_HELLO, len))
		return 0;
	fprintf(stderr, "rdmamsg-copy: %s port %s: no server of "
		COPY_HELLO "\n", c->host, port);
	rdmamsg_ep_abort(c->ep);
	rdmamsg_ep_rele(c->ep);
	return -EPROTO;
}

/* Why the connection is over, once it is. */
static const char *closed_text(struct client *c)
{
	int ret = 0;

	while (!rdmamsg_ep_reason(c->ep) && (ret >= 0 || ret == -EINTR))
		ret = rdmamsg_wait(c->ctx, -1);
	return rdmamsg_ep_reason(c->ep) ? rdmamsg_ep_reason(c->ep)->text :
	       rdmamsg_error();
}

static int copy_all(struct client *c, char **files, int count)
{
	int failed = 0;

	for (int i = 0; i < count; i++) {
		failed += copy_file(c, files[i]);
		if (rdmamsg_ep_state(c->ep) == RDMAMSG_CONNECTED)
			continue;
		fprintf(stderr, "rdmamsg-copy: %s: %s\n", c->host,
			closed_text(c));
		if (i + 1 < count)
			fprintf(stderr, "rdmamsg-copy: %d more not copied\n",
				count - i - 1);
		failed += count - i - 1;
		break;
	}
	return failed;
}

int copy_client(char **files, int count, const char *host, const char *port)
{
	struct client c = { .host = host };
	int failed = 1;

	if (rdmamsg_open(&c.ctx, NULL)) {
		fprintf(stderr, "rdmamsg-copy: %s\n", rdmamsg_error());
		return 1;
	}
	if (!dial(&c, port)) {
		failed = copy_all(&c, files, count);
		/* everything was answered: how it ends does not matter */
		(void)rdmamsg_close_wait(c.ep, 5000);
	}
	rdmamsg_close(c.ctx);
	return failed ? 1 : 0;
}
