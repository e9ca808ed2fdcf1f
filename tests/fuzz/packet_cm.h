/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections in the fuzz target packet: what both ends do. */
#ifndef TESTS_FUZZ_PACKET_CM_H
#define TESTS_FUZZ_PACKET_CM_H

#include "packet_host.h"

#define IDS	8

static struct rdma_cm_id *ids[IDS];
static struct ibv_qp *id_qp[IDS];

/* A message of the connection manager, then what to change of its bytes. */
struct order_mad {
	uint8_t kind, from, to, flags, number, offset, bytes[2];
};
enum { MAD_ANY_TID = 1, MAD_UD = 2, MAD_NO_TO = 4, MAD_FROM_PEER = 8,
       MAD_ANY_BYTES = 16, MAD_FORWARDED = 32, MAD_PORTS = 64 };

/* ---- messages of the connection manager -------------------------------- */

/* Returns the id that has that place among those with a far peer, or NULL. */
static struct soft_cm_id *far_id(uint8_t n)
{
	struct soft_cm_id *found = NULL;
	struct list *l;

	list_for_each(l, &dev->cm_ids) {
		struct soft_cm_id *id = list_entry(l, struct soft_cm_id, node);

		if (!id->far)
			continue;
		found = id;
		if (!n--)
			break;
	}
	return found;
}

static void address_mad(struct mad *mad, const struct order_mad *o)
{
	const struct soft_cm_id *id = far_id(o->to);

	mad->tid = o->number;
	mad->m.hdr.from = o->number + 1u;
	if (!id || o->kind % 9 == 0 || o->kind % 9 == MAD_SIDR_REQ - MAD_REQ)
		return;
	if (!(o->flags & MAD_ANY_TID))
		mad->tid = id->far->tid;
	if (!(o->flags & MAD_NO_TO))
		mad->m.hdr.to = dev->node << 22 | id->handle;
	if (o->flags & MAD_FROM_PEER)
		mad->m.hdr.from = id->peer;
}

static void make_mad(const struct order_mad *o, uint8_t at[MAD_LENGTH])
{
	static const uint16_t types[] = {
		SOFT_MSG_REQ, SOFT_MSG_BUSY, SOFT_MSG_REJ, SOFT_MSG_REP,
		SOFT_MSG_RTU, SOFT_MSG_DREQ, SOFT_MSG_DREP, SOFT_MSG_REQ,
		SOFT_MSG_REP,
	};
	const bool sidr = o->kind % 9 >= MAD_SIDR_REQ - MAD_REQ;
	struct mad mad = { .ud = sidr, .mtu = IBV_MTU_1024 };
	const bool ud = sidr != !!(o->flags & MAD_UD);

	mad.m.hdr.type = types[o->kind % 9];
	mad.m.ps = ud ? RDMA_PS_UDP : RDMA_PS_TCP;
	mad.m.src.sin6_family = mad.m.dst.sin6_family = AF_INET;
	mad.m.dst.sin6_port = htons(PORT + o->flags / MAD_PORTS);
	mad.m.reason = o->bytes[0];
	mad.m.param = (struct rdma_ucm_conn_param){
		.qp_num = PEER_QPN, .responder_resources = 4,
		.initiator_depth = 4, .retry_count = 3, .rnr_retry_count = 3,
	};
	address_mad(&mad, o);
	mad_put(&mad, at);
	at[17] = (uint8_t)(MAD_REQ + o->kind % 9);
}

static void send_mad(const uint8_t *data, size_t len)
{
	struct order_mad o = { 0 };
	struct packet p = {
		.opcode = PACKET_UD | PACKET_SEND_ONLY, .dst = SOFT_QPN_CM,
		.src = SOFT_QPN_CM, .qkey = MAD_QKEY, .bytes = MAD_LENGTH,
	};
	uint8_t at[PACKET_HEAD + 512] = { 0 };
	uint32_t head;

	memcpy(&o, data, min(len, sizeof(o)));
	if (o.flags & MAD_ANY_BYTES)
		p.bytes = (o.bytes[0] | o.bytes[1] << 8) % 320u;
	head = packet_put(&p, at);
	make_mad(&o, at + head);
	for (size_t i = sizeof(o); i < len; i++)
		at[head + (o.offset + i - sizeof(o)) % MAD_LENGTH] ^= data[i];
	arrive(&paths[o.from % PATHS], at, head + p.bytes + p.pad + PACKET_CRC,
	       o.flags & MAD_FORWARDED);
}

/* ---- connections of this side ------------------------------------------ */

static struct rdma_conn_param param = {
	.responder_resources = 4, .initiator_depth = 4, .retry_count = 2,
	.rnr_retry_count = 2, .qp_num = 5,
};

/* As a program does: its queue pair has what the peer has said. */
static void raise_qp(struct rdma_cm_id *id, struct ibv_qp *q)
{
	for (int to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++) {
		struct ibv_qp_attr a = { .qp_state = (enum ibv_qp_state)to };
		int mask;

		if (soft_cma_init_qp_attr(id, &a, &mask) ||
		    soft_modify_qp(q, &a, mask))
			return;
	}
}

static int place_of(const struct rdma_cm_id *id)
{
	int i = 0;

	while (i < IDS && ids[i] != id)
		i++;
	return i;
}

static void destroy(int i)
{
	must(!soft_cma_destroy_id(ids[i]));
	ids[i] = NULL;
	if (id_qp[i])
		must(!soft_destroy_qp(id_qp[i]));
	id_qp[i] = NULL;
}

static void accept_id(int i)
{
	if (ids[i]->qp_type == IBV_QPT_RC && !id_qp[i]) {
		id_qp[i] = new_qp(IBV_QPT_RC, NULL);
		raise_qp(ids[i], id_qp[i]);
	}
	(void)soft_cma_accept(ids[i], &param);
}

static void begin(enum rdma_port_space ps, int to)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(PORT) };
	const int i = place_of(NULL);

	if (i == IDS)
		return;
	memcpy(&a.sin_addr, paths[to].to + 12, 4);
	must(!soft_cma_create_id(ch, &ids[i], NULL, ps));
	(void)soft_cma_resolve_addr(ids[i], NULL, (struct sockaddr *)&a, 1000);
}

static void command(uint8_t op, uint8_t which)
{
	const int i = which % IDS;

	if (op % 8 < 2)
		begin(op & 1 ? RDMA_PS_UDP : RDMA_PS_TCP, PEER);
	if (op % 8 == 7)
		begin(RDMA_PS_TCP, INNOCENT);
	if (!ids[i])
		return;
	switch (op % 8) {
	case 2:
		(void)soft_cma_disconnect(ids[i]);
		break;
	case 3:
		accept_id(i);
		break;
	case 4:
		(void)soft_cma_reject(ids[i], "no", 2);
		break;
	case 5:
		(void)soft_cma_establish(ids[i]);
		break;
	case 6:
		destroy(i);
		break;
	default:
		break;
	}
}

static bool is_innocent(const struct soft_cm_id *id)
{
	return id->far &&
	       !memcmp(id->far->path.to, paths[INNOCENT].to, 16);
}

/*
 * A host that answers nothing is not answered for, and requests that this side
 * has not accepted are bounded.
 */
static void check_ids(void)
{
	const bool late = now - BEGIN >= 60000000000ull;
	struct list *l;

	list_for_each(l, &dev->cm_ids) {
		const struct soft_cm_id *id = list_entry(l, struct soft_cm_id,
							 node);

		must(id->waiting <= BACKLOG);
		must(!is_innocent(id) || id->state <= SOFT_CM_ROUTE ||
		     (!id->peer && id->state == SOFT_CM_REQ_SENT) ||
		     (late && id->state == SOFT_CM_OVER));
	}
}

/* Bits of 'how': what not to do as a usual program does. */
static void on_event(const struct rdma_cm_event *ev, uint8_t how)
{
	const int i = place_of(ev->id);

	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		(void)soft_cma_resolve_route(ev->id, 1000);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		(void)soft_cma_connect(ev->id, &param);
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (!(how & 1))
			accept_id(i);
		else if (how & 2)
			destroy(i);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		id_qp[i] = id_qp[i] ? id_qp[i] : new_qp(IBV_QPT_RC, NULL);
		raise_qp(ev->id, id_qp[i]);
		(void)(how & 4 ? soft_cma_reject(ev->id, NULL, 0) :
		       soft_cma_establish(ev->id));
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		if (!(how & 8))
			(void)soft_cma_disconnect(ev->id);
		break;
	default:
		break;
	}
}

static void take_events(uint8_t how)
{
	struct rdma_cm_event *ev, copy;

	while (!soft_cma_get_cm_event(ch, &ev)) {
		const int i = place_of(NULL);

		copy = *ev;
		(void)soft_cma_ack_cm_event(ev);
		if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			if (i == IDS) {
				must(!soft_cma_destroy_id(copy.id));
				continue;
			}
			ids[i] = copy.id;
		}
		on_event(&copy, how);
	}
}

#endif
