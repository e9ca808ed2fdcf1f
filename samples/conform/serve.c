/* SPDX-License-Identifier: BSD-2-Clause */
/* The server, one connection after the other. */
#include "conform.h"
#include "peer.h"

#include <arpa/inet.h>
#include <err.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>

#define TURN_MS		1	/* between looks at the completions */

static struct peer_end one;
static bool busy, leaving;
static int64_t busy_until;

static int64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void let_go(void)
{
	struct rdma_cm_id *id = one.id;

	(void)rdma_disconnect(id);
	peer_end_close(&one);
	(void)rdma_destroy_id(id);
	busy = leaving = false;
}

static bool is_known(const struct rdma_conn_param *p)
{
	struct peer_hello h;

	if (p->private_data_len < sizeof(h))
		return false;
	memcpy(&h, p->private_data, sizeof(h));
	if (ntohl(h.magic) != PEER_MAGIC)
		return false;
	if (ntohl(h.version) != PEER_VERSION)
		warnx("a client has version %u of the cases, this server %u",
		      ntohl(h.version), PEER_VERSION);
	return h.probe || ntohl(h.version) == PEER_VERSION;
}

static void refuse(struct rdma_cm_id *id)
{
	const struct peer_hello h = { .magic = htonl(PEER_MAGIC),
				      .version = htonl(PEER_VERSION) };

	(void)rdma_reject(id, &h, sizeof(h));
	(void)rdma_destroy_id(id);
}

static void on_request(struct rdma_cm_id *id, const struct rdma_conn_param *asks)
{
	struct peer_memory m = { 0 };
	struct rdma_conn_param p = {
		.private_data = &m, .private_data_len = sizeof(m),
		.responder_resources = asks->initiator_depth,
		.initiator_depth = asks->responder_resources,
		.rnr_retry_count = 7,
	};

	if (!is_known(asks)) {
		refuse(id);
		return;
	}
	/* the next case: the end of the one before may be on its way */
	if (busy)
		let_go();
	if (peer_end_open(&one, id)) {
		refuse(id);
		return;
	}
	m.addr = htobe64((uintptr_t)peer_data(&one));
	m.rkey = htonl(one.mr->rkey);
	m.version = htonl(PEER_VERSION);
	busy = true;
	busy_until = now_ms() + PEER_MS;
	if (rdma_accept(id, &p))
		let_go();
}

static uint32_t wrong_bytes(uint32_t seed)
{
	const uint8_t *data = peer_data(&one);
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < PEER_MEM; i++)
		wrong += data[i] != peer_byte(seed, i);
	return wrong;
}

/* Answers the message in slot i. */
static void answer(unsigned int i)
{
	struct peer_message *to = peer_slot(&one, PEER_DEPTH + i);

	*to = *peer_slot(&one, i);
	leaving |= ntohl(to->op) == PEER_LEAVE;
	if (leaving)
		return;
	if (ntohl(to->op) == PEER_CHECK)
		to->wrong = htonl(wrong_bytes(ntohl(to->seed)));
	if (peer_recv(&one, i) || peer_send(&one, i, PEER_DEPTH))
		leaving = true;
}

static void serve_messages(void)
{
	struct ibv_wc wc;

	while (!leaving && ibv_poll_cq(one.cq, 1, &wc) == 1)
		if (wc.status != IBV_WC_SUCCESS)
			return;		/* the CM tells of the end */
		else if (wc.wr_id < PEER_DEPTH)
			answer((unsigned int)wc.wr_id);
	if (leaving || now_ms() > busy_until)
		let_go();
}

static void on_event(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *ev, copy;
	uint8_t data[256] = { 0 };

	if (rdma_get_cm_event(channel, &ev))
		return;
	copy = *ev;
	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		if (copy.param.conn.private_data_len)
			memcpy(data, copy.param.conn.private_data,
			       copy.param.conn.private_data_len);
		copy.param.conn.private_data = data;
	}
	(void)rdma_ack_cm_event(ev);
	if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		on_request(copy.id, &copy.param.conn);
	else if (busy && copy.id == one.id &&
		 copy.event != RDMA_CM_EVENT_ESTABLISHED)
		let_go();
}

static void find(const char *host, struct sockaddr_in *ret)
{
	const struct addrinfo hints = { .ai_family = AF_INET };
	struct addrinfo *list;

	if (!host)
		return;
	if (getaddrinfo(host, NULL, &hints, &list))
		errx(WRONG_USE, "'%s' has no IPv4 address", host);
	memcpy(ret, list->ai_addr, sizeof(*ret));
	freeaddrinfo(list);
}

int peer_serve(const char *host, uint16_t service)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in at = { .sin_family = AF_INET };
	struct pollfd p = { .events = POLLIN };
	struct rdma_cm_id *id;

	find(host, &at);
	at.sin_port = htons(service);
	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(id, (struct sockaddr *)&at) || rdma_listen(id, 4))
		err(WRONG_USE, "server");
	printf("listening on port %u\n", ntohs(rdma_get_src_port(id)));
	(void)fflush(stdout);
	p.fd = channel->fd;
	for (;;) {
		if (poll(&p, 1, busy ? TURN_MS : -1) > 0)
			on_event(channel);
		if (busy)
			serve_messages();
	}
}
