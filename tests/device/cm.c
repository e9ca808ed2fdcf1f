/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection management: ids, addresses, and events. */
#include "device.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <unistd.h>

#define EVENT_MS	30000	/* far beyond what anything takes */
#define RESOLVE_MS	2000

static struct rdma_event_channel *channel;
/* their addresses are contexts of ids and groups */
static char context[4];

static int undo_channel(void *ch)
{
	v->destroy_event_channel(ch);
	return 0;
}

static struct rdma_event_channel *new_cm_channel(void)
{
	struct rdma_event_channel *ch = v->create_event_channel();

	keep(ch, undo_channel);
	return ch;
}

static int undo_id(void *id)
{
	return v->destroy_id(id);
}

static struct rdma_cm_id *new_id(enum rdma_port_space ps, void *its)
{
	struct rdma_cm_id *id;

	if (!channel)
		channel = new_cm_channel();
	check_call(v->create_id(channel, &id, its, ps), 0);
	check(id->context == its);
	keep(id, undo_id);
	return id;
}

/* A copy of an event, because acknowledging it frees its data. */
struct told {
	struct rdma_cm_event event;
	uint8_t data[256];
};

static struct told expect_cm(struct rdma_event_channel *ch,
			     enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct told told;
	uint8_t len;

	check(readable(ch->fd, EVENT_MS));
	check_call(v->get_cm_event(ch, &event), 0);
	told.event = *event;
	len = event->param.conn.private_data_len;
	if (event->id->qp_type == IBV_QPT_RC && len)
		memcpy(told.data, event->param.conn.private_data, len);
	check_call(v->ack_cm_event(event), 0);
	if (told.event.event != type)
		fail(__FILE__, __LINE__, "%s, not %s",
		     rdma_event_str(told.event.event), rdma_event_str(type));
	return told;
}

static void check_device(struct rdma_cm_id *id)
{
	struct id_device on;

	check(v->id_device(id, &on));
	check(!strcmp(on.name, v->get_device_name(ctx->device)));
	check_is(on.transport, ctx->device->transport_type);
	check_is(id->port_num, port_num);
}

static struct rdma_cm_id *new_listener(void)
{
	struct rdma_cm_id *l = new_id(RDMA_PS_TCP, &context[0]);
	struct sockaddr_in at = own_address(0);

	check_call(v->bind_addr(l, (struct sockaddr *)&at), 0);
	check_call(v->listen(l, 4), 0);
	check(v->get_src_port(l) != 0);
	return l;
}

static struct rdma_cm_id *resolve(uint16_t at)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP, &context[1]);
	struct sockaddr_in to = own_address(at);
	struct told told;

	check_call(v->resolve_addr(id, NULL, (struct sockaddr *)&to,
				   RESOLVE_MS), 0);
	told = expect_cm(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	check(told.event.id == id);
	check_is(told.event.status, 0);
	check_call(v->resolve_route(id, RESOLVE_MS), 0);
	told = expect_cm(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	check(told.event.id == id);
	return id;
}

#define ASKS_QP		0x4711
#define ASKED_QP	0x4712

/* No queue pair has these numbers, because the cases send nothing. */
static struct rdma_conn_param param(const char *data, uint32_t qp_num)
{
	return (struct rdma_conn_param) {
		.private_data = data,
		.private_data_len = (uint8_t)(strlen(data) + 1),
		.responder_resources = 3, .initiator_depth = 2,
		.flow_control = 1, .retry_count = 7, .rnr_retry_count = 7,
		.qp_num = qp_num,
	};
}

/* Connects to the listener. Returns the id of the connection request. */
static struct rdma_cm_id *ask(struct rdma_cm_id *l,
				  struct rdma_cm_id **ret_asks)
{
	struct rdma_cm_id *asks = resolve(ntohs(v->get_src_port(l)));
	struct rdma_conn_param p = param("please", ASKS_QP);
	struct told told;

	check_call(v->connect(asks, &p), 0);
	told = expect_cm(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	check(told.event.listen_id == l);
	check(told.event.id != l && told.event.id != asks);
	check(told.event.id->context == l->context);
	check(!strcmp((char *)told.data, "please"));
	/* the listener sees both values swapped */
	check_is(told.event.param.conn.responder_resources, 2);
	check_is(told.event.param.conn.initiator_depth, 3);
	check_is(told.event.param.conn.qp_num, ASKS_QP);
	keep(told.event.id, undo_id);
	*ret_asks = asks;
	return told.event.id;
}

/* One end disconnects, and the other end follows. */
static void part(struct rdma_cm_id *one, struct rdma_cm_id *other)
{
	check_call(v->disconnect(one), 0);
	(void)expect_cm(other->channel, RDMA_CM_EVENT_DISCONNECTED);
	/* some devices have disconnected this end already */
	(void)v->disconnect(other);
	(void)expect_cm(one->channel, RDMA_CM_EVENT_DISCONNECTED);
}

static void cm_bind__own_address_ON_THE_DEVICE(void)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP, NULL);
	struct sockaddr_in at = own_address(0);

	check_call(v->bind_addr(id, (struct sockaddr *)&at), 0);
	check(!memcmp(&id->route.addr.src_sin.sin_addr, &at.sin_addr, 4));
	check_device(id);
}

static void cm_bind__any_address_ON_NONE(void)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP, NULL);
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct id_device on;

	check_call(v->bind_addr(id, (struct sockaddr *)&any), 0);
	check(!v->id_device(id, &on));
	check_call(v->listen(id, 4), 0);
	check(v->get_src_port(id) != 0);
}

static void cm_bind__taken_EADDRINUSE(void)
{
	struct rdma_cm_id *l = new_listener(), *id = new_id(RDMA_PS_TCP, NULL);
	struct sockaddr_in at = own_address(ntohs(v->get_src_port(l)));
	int ret = rdmamsg__verbs_ret(v->bind_addr(id, (struct sockaddr *)&at));

	/* some devices report the error in listen() */
	if (!ret)
		ret = rdmamsg__verbs_ret(v->listen(id, 4));
	check_is(ret, -EADDRINUSE);
}

static void cm_resolve__own_address_ON_THE_DEVICE(void)
{
	struct rdma_cm_id *id = resolve(4711);

	check_device(id);
	check(!memcmp(&id->route.addr.addr.ibaddr.sgid, &gid, sizeof(gid)) ||
	      port.link_layer == IBV_LINK_LAYER_INFINIBAND || is_iwarp());
	check(id->route.addr.src_sin.sin_addr.s_addr != 0);
}

static void cm_connect__accepted_ESTABLISHED(void)
{
	struct rdma_conn_param yes = param("yes", ASKED_QP);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	struct rdma_cm_id *asks, *asked = ask(new_listener(), &asks);
	struct told told;
	int mask = 0;

	check_device(asked);
	asked->context = &context[2];
	check_call(v->accept(asked, &yes), 0);
	told = expect_cm(channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
	check(told.event.id == asks);
	check(!strcmp((char *)told.data, "yes"));
	check_call(v->init_qp_attr(asks, &attr, &mask), 0);
	check_is(attr.dest_qp_num, ASKED_QP);
	check(mask & IBV_QP_DEST_QPN && mask & IBV_QP_AV);
	check_call(v->establish(asks), 0);
	told = expect_cm(channel, RDMA_CM_EVENT_ESTABLISHED);
	check(told.event.id == asked);
	check(told.event.id->context == &context[2]);
	part(asks, asked);
}

static void cm_connect__rejected_SAYS_WHY(void)
{
	struct rdma_cm_id *asks, *asked = ask(new_listener(), &asks);
	struct told told;

	check_call(v->reject(asked, "no", 3), 0);
	told = expect_cm(channel, RDMA_CM_EVENT_REJECTED);
	check(told.event.id == asks);
	check_is(told.event.status, 28);	/* IB_CM_REJ_CONSUMER_DEFINED */
	check(!strcmp((char *)told.data, "no"));
}

static void cm_connect__request_destroyed_REJECTED(void)
{
	struct rdma_cm_id *asks, *asked = ask(new_listener(), &asks);

	drop(asked);
	check(expect_cm(channel, RDMA_CM_EVENT_REJECTED).event.id == asks);
}

static void cm_connect__nobody_listens_REJECTED(void)
{
	struct rdma_cm_id *l = new_listener(), *asks;
	uint16_t at = ntohs(v->get_src_port(l));
	struct rdma_conn_param p = param("anybody?", ASKS_QP);

	drop(l);
	asks = resolve(at);
	check_call(v->connect(asks, &p), 0);
	check(expect_cm(channel, RDMA_CM_EVENT_REJECTED).event.id == asks);
}

/* The request moves to another channel, and so do its later events. */
static void cm_migrate__request_TOLD_THERE(void)
{
	struct rdma_cm_id *asks, *asked = ask(new_listener(), &asks);
	struct rdma_event_channel *other = new_cm_channel();
	struct rdma_conn_param yes = param("yes", ASKED_QP);

	check_call(v->migrate_id(asked, other), 0);
	check(asked->channel == other);
	check_call(v->accept(asked, &yes), 0);
	(void)expect_cm(channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
	check_call(v->establish(asks), 0);
	check(expect_cm(other, RDMA_CM_EVENT_ESTABLISHED).event.id == asked);
	part(asks, asked);
	/* destroy the id before its channel */
	drop(asked);
}

static void cm_migrate__with_an_event_COMES_ALONG(void)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP, NULL);
	struct rdma_event_channel *other = new_cm_channel();
	struct sockaddr_in to = own_address(4711);

	check_call(v->resolve_addr(id, NULL, (struct sockaddr *)&to,
				   RESOLVE_MS), 0);
	check(readable(channel->fd, EVENT_MS));
	check_call(v->migrate_id(id, other), 0);
	check(!readable(channel->fd, 0));
	check(expect_cm(other, RDMA_CM_EVENT_ADDR_RESOLVED).event.id == id);
	drop(id);
}

static void cm_destroy__event_not_fetched_GOES_TOO(void)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP, NULL);
	struct sockaddr_in to = own_address(4711);
	struct rdma_cm_event *event;

	check_call(v->resolve_addr(id, NULL, (struct sockaddr *)&to,
				   RESOLVE_MS), 0);
	check(readable(channel->fd, EVENT_MS));
	drop(id);
	check_call(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	check_call(v->get_cm_event(channel, &event), EAGAIN);
}

static void cm_join__group_TELLS_ITS_ADDRESS(void)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_UDP, &context[1]);
	struct sockaddr_in at = own_address(0), group = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef4d0305),
	};
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
			     RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
		.addr = (struct sockaddr *)&group,
	};
	struct told told;

	check_call(v->bind_addr(id, (struct sockaddr *)&at), 0);
	check_call(v->join_multicast(id, &attr, &context[2]), 0);
	told = expect_cm(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	check(told.event.id == id);
	check_is(told.event.status, 0);
	check(told.event.param.ud.private_data == &context[2]);
	check_is(told.event.param.ud.qp_num, 0xffffff);
	check_is(told.event.param.ud.ah_attr.grh.dgid.raw[12], port.link_layer
		 == IBV_LINK_LAYER_ETHERNET ? 0xef :
		 told.event.param.ud.ah_attr.grh.dgid.raw[12]);
	check_call(v->leave_multicast(id, attr.addr), 0);
	check_call(v->leave_multicast(id, attr.addr), EADDRNOTAVAIL);
	attr.comp_mask = 0;
	check_call(v->join_multicast(id, &attr, NULL), EINVAL);
}

static void cm_join__destroyed_with_it_LEAVES(void)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_UDP, NULL);
	struct sockaddr_in at = own_address(0), group = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef4d0306),
	};
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
			     RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
		.addr = (struct sockaddr *)&group,
	};

	check_call(v->bind_addr(id, (struct sockaddr *)&at), 0);
	check_call(v->join_multicast(id, &attr, NULL), 0);
	drop(id);
}

const struct device_case cm_cases[] = {
	CASE(cm_bind__own_address_ON_THE_DEVICE),
	CASE(cm_bind__any_address_ON_NONE),
	CASE(cm_bind__taken_EADDRINUSE),
	CASE(cm_resolve__own_address_ON_THE_DEVICE),
	CASE(cm_connect__accepted_ESTABLISHED),
	CASE(cm_connect__rejected_SAYS_WHY),
	CASE(cm_connect__request_destroyed_REJECTED),
	CASE(cm_connect__nobody_listens_REJECTED),
	CASE(cm_migrate__request_TOLD_THERE),
	CASE(cm_migrate__with_an_event_COMES_ALONG),
	CASE(cm_destroy__event_not_fetched_GOES_TOO),
	CASE(cm_join__group_TELLS_ITS_ADDRESS),
	CASE(cm_join__destroyed_with_it_LEAVES),
	{ NULL },
};
