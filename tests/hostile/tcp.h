/* SPDX-License-Identifier: BSD-2-Clause */
/* Strangers at the TCP port of a listener: a part of strangers.c. */
#ifndef HOSTILE_TCP_H
#define HOSTILE_TCP_H

#define TCPS		300u	/* connections of a stranger, in turn */
#define TCP_HELD	30u	/* of them at a time */
#define TCP_ANSWER	88u	/* bytes at most for a connection: a reject */
#define TCP_GOOD	5u	/* connections of an innocent meanwhile */

/* Another address than the innocent's. Returns -1 if the host has none. */
static int tcp_stranger(void)
{
	struct sockaddr_in from = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 6),
	}, to = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)shared->tcp_port),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, address, &to.sin_addr);
	if (!bind(fd, (struct sockaddr *)&from, sizeof(from)) &&
	    !connect(fd, (struct sockaddr *)&to, sizeof(to)))
		return fd;
	close(fd);
	return -1;
}

/* Begins an offer and does not end it, or sends what is none, or nothing. */
static int tcp_begin(unsigned int n)
{
	static const char *const says[] = {
		"RMOB\1", "GET / HTTP/1.0\r\n\r\n", "",
	};
	const char *text = says[n % 3];
	int fd = tcp_stranger();

	if (fd >= 0)
		(void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
	return fd;
}

/* Returns the bytes that have been answered. */
static size_t tcp_end(int fd)
{
	uint8_t answer[4096];
	size_t got = 0;
	ssize_t n;

	while ((n = recv(fd, answer, sizeof(answer), MSG_DONTWAIT)) > 0)
		got += (size_t)n;
	close(fd);
	return got;
}

struct tcp_end {
	bool connected, closed;
};

static void on_tcp_connected(struct rdmamsg_ep *ep)
{
	struct tcp_end *e = rdmamsg_ep_user(ep);

	e->connected = true;
	rdmamsg_ep_close(ep);
}

static void on_tcp_closed(struct rdmamsg_ep *ep,
			  const struct rdmamsg_reason *why)
{
	struct tcp_end *e = rdmamsg_ep_user(ep);

	if (!e->connected)
		printf("# %s\n", why->text);
	e->closed = true;
}

static bool tcp_innocent(void)
{
	static const struct rdmamsg_handlers on = {
		.size = sizeof(on), .on_connected = on_tcp_connected,
		.on_closed = on_tcp_closed,
	};
	struct tcp_end e = { 0 };
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .timeout_ms = SERVED_MS,
		.handlers = &on, .user = &e,
	};
	struct rdmamsg_ep *ep;
	char port[8];

	snprintf(port, sizeof(port), "%u", shared->tcp_port);
	if (rdmamsg_oob_connect(ctx, address, port, &opts, &ep))
		return false;
	UNTIL_DOING(e.closed, (void)rdmamsg_wait(ctx, 5));
	return e.connected;
}

/* Whatever a stranger does there, its part is bounded, and others connect. */
static void tcp_crowd(void)
{
	unsigned int begun = 0, good = 0;
	int held[TCP_HELD];
	size_t answered = 0;

	memset(held, -1, sizeof(held));
	for (unsigned int n = 0; n < TCPS; n++) {
		int *fd = &held[n % TCP_HELD];

		if (*fd >= 0)
			answered += tcp_end(*fd);
		*fd = tcp_begin(n);
		begun += *fd >= 0;
		if (n % (TCPS / TCP_GOOD) == TCP_HELD)
			good += tcp_innocent();
	}
	for (unsigned int i = 0; i < TCP_HELD; i++)
		if (held[i] >= 0)
			answered += tcp_end(held[i]);
	verdict("tcp-strangers", begun == TCPS && good == TCP_GOOD &&
		answered <= begun * TCP_ANSWER && goes_on(),
		"%u connections, %zu bytes answered, %u of %u others "
		"connected; %s", begun, answered, good, TCP_GOOD, harm->text);
}

#endif
