/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: arbitrary messages over an open connection. The endpoint takes
 * them or ends, with a reason and in bounds, and nothing is left. Both ends are
 * on one soft HCA.
 */
#include "device/verbs_api.h"
#include "lane/batch.h"
#include "lane/lane.h"
#include "session/ep.h"
#include "session/tx.h"
#include "wire/proto.h"

#include <endian.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

#define SENDS_MAX	200u	/* messages of an input */
#define LATE_S		20	/* an endpoint ends far earlier */
#define PAYLOAD_MAX	180u	/* of a message, with the header inline */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The attacker is the client. */
static struct end {
	struct rdmamsg *ctx;
	struct rdmamsg_ep *ep;
	bool closed;
} client, server;
static char service[8];

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* ---- the two ends ----------------------------------------------------- */

static void on_connected(struct rdmamsg_ep *ep)
{
	((struct end *)rdmamsg_ep_user(ep))->ep = ep;
}

static void on_message(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	const uint8_t *at = rdmamsg_msg_data(msg);
	volatile uint8_t sum = 0;

	for (size_t i = 0; i < rdmamsg_msg_len(msg); i++)
		sum = (uint8_t)(sum + at[i]);
	rdmamsg_msg_free(msg);
}

static void on_closed(struct rdmamsg_ep *ep, const struct rdmamsg_reason *why)
{
	must(why->text[0]);
	((struct end *)rdmamsg_ep_user(ep))->closed = true;
}

static const struct rdmamsg_ep_handlers handlers = {
	.size = sizeof(handlers), .on_connected = on_connected,
	.on_message = on_message, .on_closed = on_closed,
};

static void both(void)
{
	must(rdmamsg_process(client.ctx) >= 0);
	must(rdmamsg_process(server.ctx) >= 0);
}

/* Waits until both sides are connected, or until both endpoints have ended. */
static void settle(bool connected)
{
	struct pollfd fds[2] = {
		{ rdmamsg_fd(client.ctx), POLLIN, 0 },
		{ rdmamsg_fd(server.ctx), POLLIN, 0 },
	};
	time_t until = time(NULL) + LATE_S;

	while (connected ? !client.ep || !server.ep :
	       !client.closed || !server.closed) {
		must(time(NULL) < until);
		(void)poll(fds, 2, 10);
		both();
	}
}

static void tear_down(void)
{
	rdmamsg_close(client.ctx);
	rdmamsg_close(server.ctx);
}

/* The contexts live as long as the process, the connection for one input. */
static void set_up(void)
{
	static const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .user = &server,
		.max_msg_size = 100000,
	};
	const struct rdmamsg_listen_options lopts = {
		.size = sizeof(lopts), .ep = &opts, .slow_ms = RDMAMSG_NONE,
	};
	struct rdmamsg_listener *l;
	char fabric[32];

	(void)snprintf(fabric, sizeof(fabric), "fuzz-%d", (int)getpid());
	(void)setenv("RDMAMSG_SOFT_FABRIC", fabric, 1);
	(void)setenv("RDMAMSG_LOG", "none", 0);
	rdmamsg__verbs = &rdmamsg__verbs_soft;
	must(!atexit(tear_down));
	must(!rdmamsg_open(&client.ctx, NULL));
	must(!rdmamsg_open(&server.ctx, NULL));
	must(!rdmamsg_listen(server.ctx, "127.0.0.1", "0", &lopts, &l));
	(void)snprintf(service, sizeof(service), "%u",
		       rdmamsg_listener_port(l));
}

static void connect_both(void)
{
	const struct rdmamsg_ep_options opts = {
		.size = sizeof(opts), .handlers = &handlers, .user = &client,
	};

	client.ep = server.ep = NULL;
	client.closed = server.closed = false;
	must(!rdmamsg_connect(client.ctx, "127.0.0.1", service, &opts, NULL));
	settle(true);
}

/* ---- messages --------------------------------------------------------- */

/*
 * A message of the input: form, type, what is added to the number that is due,
 * to the credit and to the CREDIT messages seen, tag, length, payload.
 */
struct record {
	uint8_t form, type;
	int8_t number, credit, seen;
	uint8_t tag, len;
};

#define COMPACT		1u	/* form: immediate data, no header */
#define FAR		2u	/* form: the additions are large */
#define PROCESS		4u	/* form: the server takes what has come */
#define LENGTH		8u	/* form: total length of pieces comes first */

static bool has_number(uint8_t type)
{
	return type == PROTO_DATA || type == PROTO_RNDV ||
	       type == PROTO_WRITTEN || type == PROTO_INVALIDATE ||
	       type == PROTO_FIRST || type == PROTO_MORE;
}

static bool has_room(const struct lane *l)
{
	return rdmamsg__sq_used(l) + TX_BATCH < l->sq.total;
}

static void send_record(const struct record *r, const uint8_t *payload,
			uint32_t *number)
{
	struct rdmamsg_ep *ep = client.ep;
	struct tx_entry *e = rdmamsg__tx_begin(ep, NULL);
	const int32_t times = r->form & FAR ? 1 << 24 : 1;
	const struct proto_hdr hdr = {
		.type = r->type, .flags = r->form >> 4,
		.seen = (uint16_t)(ep->credit.took + r->seen),
		.credit = ep->credit.granted + (uint32_t)(r->credit * times),
		.number = *number + (uint32_t)(r->number * times),
		.tag = r->tag,
	};
	const uint32_t total = htole32(r->tag * 64u);
	uint8_t *at = (uint8_t *)&e->hdr;
	uint32_t len = 0;

	if (r->form & COMPACT) {
		e->wr.opcode = IBV_WR_SEND_WITH_IMM;
		e->wr.imm_data = (__be32)htole32(
			(hdr.number & PROTO_NUMBER_MASK) |
			(uint32_t)(r->seen & 3) << 4 |
			(uint32_t)r->credit << 6 | (uint32_t)r->tag << 16);
	} else {
		e->wr.opcode = IBV_WR_SEND;
		rdmamsg__hdr_encode(&hdr, at);
		len = PROTO_HDR_LEN;
	}
	if (r->form & LENGTH) {
		memcpy(at + len, &total, sizeof(total));
		len += (uint32_t)sizeof(total);
	}
	memcpy(at + len, payload, r->len);
	e->sge.addr = (uintptr_t)at;
	e->sge.length = len + r->len;
	if (!r->number && (r->form & COMPACT || has_number(r->type)))
		++*number;
	rdmamsg__tx_end(ep);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t number = 0;
	struct record r;

	if (!client.ctx)
		set_up();
	connect_both();
	for (unsigned int i = 0; i < SENDS_MAX && size >= sizeof(r); i++) {
		memcpy(&r, data, sizeof(r));
		data += sizeof(r);
		size -= sizeof(r);
		if (r.len > size)
			r.len = (uint8_t)size;
		if (r.len > PAYLOAD_MAX)
			r.len = PAYLOAD_MAX;
		if (client.closed || !has_room(&client.ep->lane))
			break;
		send_record(&r, data, &number);
		data += r.len;
		size -= r.len;
		if (r.form & PROCESS)
			both();
	}
	for (int i = 0; i < 3; i++)
		both();
	if (!client.closed)
		rdmamsg_ep_abort(client.ep);
	settle(false);
	return 0;
}
