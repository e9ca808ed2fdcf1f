/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: a client of rdmamsg-conform server that takes what it gets. It asks
 * for connections all the time, from two addresses, and asks nothing over those
 * that it has. Prints a line when the server is busy.
 *
 * Usage: flood PORT
 */
#include "../../samples/conform/peer.h"

#include <arpa/inet.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>

#define IDS	32u	/* more than the server has places */

static struct rdma_event_channel *channel;
static struct sockaddr_in server = {
	.sin_family = AF_INET, .sin_addr.s_addr = 0x0100007f,
};

static void begin(unsigned int i)
{
	struct sockaddr_in from = { .sin_family = AF_INET };
	struct rdma_cm_id *id;

	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + i % 2);
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, (struct sockaddr *)&from,
			      (struct sockaddr *)&server, 5000))
		err(1, "address");
	id->context = (void *)(uintptr_t)i;
}

static void ask(struct rdma_cm_id *id)
{
	const struct peer_hello h = { .magic = htonl(PEER_MAGIC),
				      .version = htonl(PEER_VERSION) };
	struct rdma_conn_param p = {
		.private_data = &h, .private_data_len = sizeof(h),
		.retry_count = 7, .rnr_retry_count = 7,
	};
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};

	if (rdma_create_qp(id, NULL, &attr) || rdma_connect(id, &p))
		err(1, "connect");
}

static bool is_refused(const struct rdma_cm_event *ev)
{
	struct peer_hello h;

	if (ev->event != RDMA_CM_EVENT_REJECTED ||
	    ev->param.conn.private_data_len < sizeof(h))
		return false;
	memcpy(&h, ev->param.conn.private_data, sizeof(h));
	return h.busy;
}

/* Returns true if the id has ended. */
static bool has_ended(struct rdma_cm_id *id, enum rdma_cm_event_type event)
{
	switch (event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rdma_resolve_route(id, 5000))
			err(1, "route");
		return false;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		ask(id);
		return false;
	case RDMA_CM_EVENT_ESTABLISHED:
		return false;
	default:
		return true;
	}
}

static void on_event(struct rdma_cm_event *ev)
{
	static bool told;
	enum rdma_cm_event_type event = ev->event;
	struct rdma_cm_id *id = ev->id;
	unsigned int i = (unsigned int)(uintptr_t)id->context;

	if (is_refused(ev) && !told) {
		(void)printf("busy\n");
		(void)fflush(stdout);
		told = true;
	}
	(void)rdma_ack_cm_event(ev);
	if (!has_ended(id, event))
		return;
	if (id->qp)
		rdma_destroy_qp(id);
	(void)rdma_destroy_id(id);
	begin(i);
}

int main(int argc, char **argv)
{
	struct rdma_cm_event *ev;

	if (argc != 2)
		errx(2, "usage: flood PORT");
	server.sin_port = htons((uint16_t)atoi(argv[1]));
	channel = rdma_create_event_channel();
	if (!channel)
		err(1, "channel");
	for (unsigned int i = 0; i < IDS; i++)
		begin(i);
	while (!rdma_get_cm_event(channel, &ev))
		on_event(ev);
	err(1, "events");
}
