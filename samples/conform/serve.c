/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server. A client keeps its place until it ends or is silent for too long.
 * No address has more places than it leaves to others, so no address takes all.
 */
#include "conform.h"
#include "peer.h"

#include <arpa/inet.h>
#include <err.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>

#define TURN_MS		1	/* between looks at the completions */
#define CLIENTS		16u
#define SILENT_MS	10000	/* after which a client loses its place */

static struct client {
	struct peer_end end;	/* end.id is NULL: a free place */
	struct in_addr addr;
	bool leaving;
	int64_t until;		/* ms, PEER_MS after the request */
	int64_t silent_at;	/* ms */
} clients[CLIENTS];
static unsigned int taken;

static void let_go(struct client *c)
{
	struct rdma_cm_id *id = c->end.id;

	(void)rdma_disconnect(id);
	peer_end_close(&c->end);
	(void)rdma_destroy_id(id);
	c->end.id = NULL;
	taken--;
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

static void refuse(struct rdma_cm_id *id, bool busy)
{
	const struct peer_hello h = { .magic = htonl(PEER_MAGIC),
				      .version = htonl(PEER_VERSION),
				      .busy = htonl(busy) };

	(void)rdma_reject(id, &h, sizeof(h));
	(void)rdma_destroy_id(id);
}

/* Returns a free place; NULL if the address has as many as are free. */
static struct client *find_place(struct in_addr addr)
{
	struct client *ret = NULL;
	unsigned int own = 0;

	for (unsigned int i = 0; i < CLIENTS; i++)
		if (!clients[i].end.id)
			ret = &clients[i];
		else
			own += clients[i].addr.s_addr == addr.s_addr;
	return own < CLIENTS - taken ? ret : NULL;
}

static struct in_addr peer_of(struct rdma_cm_id *id)
{
	struct sockaddr_in from;

	memcpy(&from, rdma_get_peer_addr(id), sizeof(from));
	return from.sin_addr;
}

/* Returns an errno if the device has no room. */
static int admit(struct client *c, struct rdma_cm_id *id)
{
	int ret = peer_end_open(&c->end, id);

	if (ret) {
		c->end.id = NULL;
		return ret;
	}
	taken++;
	c->addr = peer_of(id);
	c->leaving = false;
	c->until = now_ms() + PEER_MS;
	c->silent_at = now_ms() + SILENT_MS;
	return 0;
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
	struct client *c;

	if (!is_known(asks)) {
		refuse(id, false);
		return;
	}
	c = find_place(peer_of(id));
	if (!c || admit(c, id)) {
		refuse(id, true);
		return;
	}
	m.addr = htobe64((uintptr_t)peer_data(&c->end));
	m.rkey = htonl(c->end.mr->rkey);
	m.version = htonl(PEER_VERSION);
	if (rdma_accept(id, &p))
		let_go(c);
}

static uint32_t wrong_bytes(struct client *c, uint32_t seed)
{
	const uint8_t *data = peer_data(&c->end);
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < PEER_MEM; i++)
		wrong += data[i] != peer_byte(seed, i);
	return wrong;
}

/* Answers the message in slot i. */
static void answer(struct client *c, unsigned int i)
{
	struct peer_message *to = peer_slot(&c->end, PEER_DEPTH + i);

	*to = *peer_slot(&c->end, i);
	c->leaving |= ntohl(to->op) == PEER_LEAVE;
	if (c->leaving)
		return;
	if (ntohl(to->op) == PEER_CHECK)
		to->wrong = htonl(wrong_bytes(c, ntohl(to->seed)));
	if (peer_recv(&c->end, i) || peer_send(&c->end, i, PEER_DEPTH))
		c->leaving = true;
}

/* At most as many messages as a client can send ahead, because others wait. */
static void serve_messages(struct client *c)
{
	struct ibv_wc wc;

	for (int n = 2 * PEER_DEPTH; n && !c->leaving &&
	     ibv_poll_cq(c->end.cq, 1, &wc) == 1; n--) {
		c->silent_at = now_ms() + SILENT_MS;
		if (wc.status != IBV_WC_SUCCESS)
			break;		/* the CM tells of the end */
		if (wc.wr_id < PEER_DEPTH)
			answer(c, (unsigned int)wc.wr_id);
	}
	if (c->leaving || now_ms() > c->until || now_ms() > c->silent_at)
		let_go(c);
}

static struct client *client_of(const struct rdma_cm_id *id)
{
	for (unsigned int i = 0; i < CLIENTS; i++)
		if (clients[i].end.id == id)
			return &clients[i];
	return NULL;
}

static void on_event(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *ev, copy;
	uint8_t data[256] = { 0 };
	struct client *c;

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
	c = client_of(copy.id);
	if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		on_request(copy.id, &copy.param.conn);
	else if (c && copy.event != RDMA_CM_EVENT_ESTABLISHED)
		let_go(c);
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
		if (poll(&p, 1, taken ? TURN_MS : -1) > 0)
			on_event(channel);
		for (unsigned int i = 0; i < CLIENTS; i++)
			if (clients[i].end.id)
				serve_messages(&clients[i]);
	}
}
