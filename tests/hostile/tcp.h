/* SPDX-License-Identifier: BSD-2-Clause */
/* Strangers at the TCP port of a listener: a part of strangers.c. */
#ifndef HOSTILE_TCP_H
#define HOSTILE_TCP_H

#define TCPS		300u	/* connections of a stranger, in turn */
#define TCP_HELD	30u	/* of them at a time, more than the backlog */
#define TCP_SHARE	11u	/* of the backlog, for an address: 2/3 */
#define TCP_EACH	4096u	/* bytes of the server for one of the backlog */
#define TCP_ANSWER	88u	/* bytes at most for a connection: a reject */
#define TCP_PACKETS	120u	/* bytes of a connection: SYN, ACK, FIN */
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

/* Returns true if the limit is named in an answer of the right length. */
static bool tcp_names_limit(int fd)
{
	uint8_t answer[TCP_ANSWER + 1];
	struct proto_hello h;
	struct proto_oob r;

	return recv(fd, answer, sizeof(answer), MSG_DONTWAIT | MSG_PEEK) ==
		       TCP_ANSWER &&
	       !rdmamsg__oob_decode(&r, answer, TCP_ANSWER) &&
	       r.kind == PROTO_OOB_REJECT &&
	       !rdmamsg__hello_decode(&h, r.hello, r.hello_len) &&
	       h.reject == PROTO_REJECT_LIMIT &&
	       h.limit == PROTO_LIMIT_REQUESTS;
}

static uint32_t tcp_named(const int *held)
{
	uint32_t n = 0;

	for (unsigned int i = 0; i < TCP_HELD; i++)
		n += held[i] >= 0 && tcp_names_limit(held[i]);
	return n;
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

/* Returns the ms until connected, or UINT64_MAX. */
static uint64_t tcp_innocent(void)
{
	const uint64_t begun = now_ms();
	uint64_t took = 0;
	static const struct rdmamsg_ep_handlers on = {
		.size = sizeof(on), .on_connected = on_tcp_connected,
		.on_closed = on_tcp_closed,
	};
	struct tcp_end e = { 0 };
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &on, .user = &e,
	};
	struct rdmamsg_ep *ep;
	char port[8];

	snprintf(port, sizeof(port), "%u", shared->tcp_port);
	if (rdmamsg_oob_connect(ctx, address, port, &opts, &ep))
		return UINT64_MAX;
	UNTIL_DOING(e.connected || e.closed, (void)rdmamsg_wait(ctx, 5));
	took = e.connected ? now_ms() - begun : UINT64_MAX;
	UNTIL_DOING(e.closed, (void)rdmamsg_wait(ctx, 5));
	return took;
}

/*
 * An address that says nothing has its part of the backlog, and learns it. A
 * connection of a stranger that sends nothing has three packets.
 */
static void tcp_silent(void)
{
	const struct attack b = begin_attack();
	uint32_t begun = 0, named = 0;
	int held[TCP_HELD];
	size_t answered = 0;
	uint64_t ms;

	for (unsigned int i = 0; i < TCP_HELD; i++) {
		held[i] = tcp_stranger();
		begun += held[i] >= 0;
	}
	UNTIL((named = tcp_named(held)) >= TCP_HELD - TCP_SHARE);
	ms = tcp_innocent();
	for (unsigned int i = 0; i < TCP_HELD; i++)
		if (held[i] >= 0)
			answered += tcp_end(held[i]);
	verdict("tcp-silent", begun == TCP_HELD &&
		named >= TCP_HELD - TCP_SHARE && ms <= CONNECT_MS &&
		in_budget(&b, (struct cost){
			.strangers = TCP_BACKLOG, .each = TCP_EACH,
			.connects = true,
			.sent = begun * TCP_PACKETS, .got = answered, .times = 1,
		}), "%u connections, %u have learnt the limit, %llu ms for "
		"another; %s", begun, named, (unsigned long long)ms,
		harm->text);
}

/* Whatever a stranger does there, its part is bounded, and others connect. */
static void tcp_garbage(void)
{
	const struct attack b = begin_attack();
	unsigned int begun = 0;
	int held[TCP_HELD];
	uint64_t longest = 0;
	size_t answered = 0;

	memset(held, -1, sizeof(held));
	for (unsigned int n = 0; n < TCPS; n++) {
		int *fd = &held[n % TCP_HELD];

		if (*fd >= 0)
			answered += tcp_end(*fd);
		*fd = tcp_begin(n);
		begun += *fd >= 0;
		if (n % (TCPS / TCP_GOOD) == TCP_HELD)
			longest = max(longest, tcp_innocent());
	}
	for (unsigned int i = 0; i < TCP_HELD; i++)
		if (held[i] >= 0)
			answered += tcp_end(held[i]);
	verdict("tcp-strangers", begun == TCPS && longest <= CONNECT_MS &&
		in_budget(&b, (struct cost){
			.strangers = TCP_BACKLOG, .each = TCP_EACH,
			.connects = true,
			.sent = begun * TCP_PACKETS, .got = answered, .times = 1,
		}), "%u connections, %zu bytes answered, %llu ms at most for "
		"%u others; %s", begun, answered, (unsigned long long)longest,
		TCP_GOOD, harm->text);
}

#endif
