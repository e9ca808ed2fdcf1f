/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients over TCP: a stream of items. */
#include "server.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>

#define BACKLOG	128

struct tcp_client {
	struct session session;		/* first: its address is the client's */
	uv_tcp_t tcp;
	struct server *server;
	struct tcp_client *next, **link;
	bool parsing;
	size_t len;			/* bytes that have come, in 'bytes' */
	char bytes[2 * KV_ITEM_MAX];
};

/* ---- answers ---------------------------------------------------------- */

/* The part of an answer that did not go out at once. */
struct rest {
	uv_write_t write;
	struct tcp_client *client;
	char bytes[];
};

static void on_closed(uv_handle_t *handle)
{
	struct tcp_client *c = handle->data;

	session_close(&c->session);
}

static void hang_up(struct tcp_client *c)
{
	if (uv_is_closing((uv_handle_t *)&c->tcp))
		return;
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	uv_close((uv_handle_t *)&c->tcp, on_closed);
}

/* Also with an error, after hang_up(). */
static void on_written(uv_write_t *write, int status)
{
	struct rest *rest = write->data;

	session_end(&rest->client->session);
	free(rest);
}

static int write_rest(struct tcp_client *c, const char *bytes, size_t len)
{
	struct rest *rest = malloc(sizeof(*rest) + len);
	uv_buf_t buf;
	int ret;

	if (!rest)
		return UV_ENOMEM;
	memcpy(rest->bytes, bytes, len);
	rest->client = c;
	rest->write.data = rest;
	buf = uv_buf_init(rest->bytes, (unsigned int)len);
	ret = uv_write(&rest->write, (uv_stream_t *)&c->tcp, &buf, 1,
		       on_written);
	if (ret)
		free(rest);
	return ret;
}

static void answer(struct session *s, const void *bytes, size_t len)
{
	struct tcp_client *c = (struct tcp_client *)s;
	uv_buf_t buf = uv_buf_init((char *)bytes, (unsigned int)len);
	int n = UV_ECANCELED;

	if (!uv_is_closing((uv_handle_t *)&c->tcp))
		n = uv_try_write((uv_stream_t *)&c->tcp, &buf, 1);
	if (n == UV_EAGAIN)
		n = 0;
	if (n >= 0 && (size_t)n < len &&
	    !write_rest(c, (const char *)bytes + n, len - (size_t)n))
		return;
	if (n < 0 || (size_t)n < len)
		hang_up(c);
	session_end(s);
}

/* ---- requests --------------------------------------------------------- */

static void take_items(struct tcp_client *c)
{
	struct kv_item item;
	size_t at = 0;
	long n = 0;

	c->parsing = true;
	while (!c->session.held && !uv_is_closing((uv_handle_t *)&c->tcp) &&
	       (n = kv_parse(c->bytes + at, c->len - at, &item)) > 0) {
		at += (size_t)n;
		serve_item(c->server, &c->session, &item);
	}
	c->parsing = false;
	memmove(c->bytes, c->bytes + at, c->len - at);
	c->len -= at;
	if (n < 0)
		hang_up(c);
}

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *buf)
{
	struct tcp_client *c = handle->data;

	*buf = uv_buf_init(c->bytes + c->len,
			   (unsigned int)(sizeof(c->bytes) - c->len));
}

static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
	struct tcp_client *c = stream->data;

	if (len < 0) {
		hang_up(c);
		return;
	}
	c->len += (size_t)len;
	take_items(c);
}

static void hold(struct session *s)
{
	uv_read_stop((uv_stream_t *)&((struct tcp_client *)s)->tcp);
}

static void go_on(struct session *s)
{
	struct tcp_client *c = (struct tcp_client *)s;

	if (uv_is_closing((uv_handle_t *)&c->tcp))
		return;
	if (!c->parsing)
		take_items(c);
	if (!s->held && !uv_is_closing((uv_handle_t *)&c->tcp))
		uv_read_start((uv_stream_t *)&c->tcp, on_room, on_read);
}

static void free_client(struct session *s)
{
	free(s);
}

/* ---- connections ------------------------------------------------------ */

static const struct session_ways ways = {
	.answer = answer, .hold = hold, .go_on = go_on, .free = free_client,
};

static void add_client(struct server *s, struct tcp_client *c)
{
	session_init(&c->session, &ways);
	c->server = s;
	c->tcp.data = c;
	c->next = s->clients;
	c->link = &s->clients;
	if (c->next)
		c->next->link = &c->next;
	s->clients = c;
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct server *s = listener->data;
	struct tcp_client *c = status ? NULL : calloc(1, sizeof(*c));

	if (!c) {
		warnx("a TCP client is not served: %s",
		      uv_strerror(status ? status : UV_ENOMEM));
		return;
	}
	uv_tcp_init(&s->loop, &c->tcp);
	add_client(s, c);
	if (uv_accept(listener, (uv_stream_t *)&c->tcp) ||
	    uv_tcp_nodelay(&c->tcp, 1) ||
	    uv_read_start((uv_stream_t *)&c->tcp, on_room, on_read))
		hang_up(c);
}

static unsigned int bound_port(const uv_tcp_t *tcp)
{
	struct sockaddr_storage addr;
	int len = sizeof(addr);

	uv_tcp_getsockname(tcp, (struct sockaddr *)&addr, &len);
	/* the port is where IPv4 has it, too */
	return ntohs(((struct sockaddr_in6 *)&addr)->sin6_port);
}

unsigned int tcp_open(struct server *s, const char *addr, const char *port)
{
	struct sockaddr_storage any;
	const int number = atoi(port);
	int ret;

	if (uv_ip4_addr(addr, number, (struct sockaddr_in *)&any) &&
	    uv_ip6_addr(addr, number, (struct sockaddr_in6 *)&any))
		errx(1, "'%s' is no address of this host", addr);
	uv_tcp_init(&s->loop, &s->tcp);
	s->tcp.data = s;
	ret = uv_tcp_bind(&s->tcp, (struct sockaddr *)&any, 0);
	if (!ret)
		ret = uv_listen((uv_stream_t *)&s->tcp, BACKLOG, on_connection);
	if (ret)
		errx(1, "TCP port %s at %s: %s", port, addr, uv_strerror(ret));
	return bound_port(&s->tcp);
}

void tcp_close(struct server *s)
{
	uv_close((uv_handle_t *)&s->tcp, NULL);
	while (s->clients)
		hang_up(s->clients);
}
