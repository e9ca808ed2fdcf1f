/* SPDX-License-Identifier: BSD-2-Clause */
/* Strangers that ask for sessions that nobody has: a part of strangers.c. */
#ifndef HOSTILE_ASKS_H
#define HOSTILE_ASKS_H

#define ASKS		150
#define ASKS_EACH	50	/* then an innocent connects */
#define ASK_TIMES	4u	/* a reject is longer than most requests */
#define ASK_EACH	4096u	/* bytes of the server for a request */

static struct rdma_event_channel *channel;
/* private data, which no counter has */
static uint64_t asked, told_back;

/* Waits for the event, whose private data may be a hello. */
static bool await(enum rdma_cm_event_type type, struct proto_hello *ret)
{
	struct pollfd fd = { channel->fd, POLLIN, 0 };
	struct rdma_cm_event *ev;
	bool good;

	if (poll(&fd, 1, STEP_MS) != 1 || soft_cma_get_cm_event(channel, &ev))
		return false;
	good = ev->event == type;
	if (ret)
		(void)rdmamsg__hello_decode(ret, ev->param.conn.private_data,
					    ev->param.conn.private_data_len);
	told_back += ret ? ev->param.conn.private_data_len : 0;
	(void)soft_cma_ack_cm_event(ev);
	return good;
}

/* Returns true if the request is rejected. */
static bool ask_for_session(struct proto_hello *ret)
{
	uint8_t hello[PROTO_HELLO_MAX], data[PROTO_LANE_DATA_LEN];
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)shared->port),
	};
	struct rdma_conn_param param = { .private_data = hello, .qp_num = 1 };
	struct rdma_cm_id *id;
	bool good;
	struct proto_hello h = {
		.lowest = PROTO_VERSION, .highest = PROTO_VERSION,
		.features = PROTO_FEATURE_RESUME | PROTO_FEATURE_LANE,
		.epoch = 1, .data = data, .data_len = sizeof(data),
	};

	(void)!getrandom(data, sizeof(data), 0);
	param.private_data_len = (uint8_t)rdmamsg__hello_encode(&h, hello);
	asked += param.private_data_len;
	inet_pton(AF_INET, address, &at.sin_addr);
	if (soft_cma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return false;
	good = !soft_cma_resolve_addr(id, NULL, (struct sockaddr *)&at, 2000) &&
	       await(RDMA_CM_EVENT_ADDR_RESOLVED, NULL) &&
	       !soft_cma_resolve_route(id, 2000) &&
	       await(RDMA_CM_EVENT_ROUTE_RESOLVED, NULL) &&
	       !soft_cma_connect(id, &param) &&
	       await(RDMA_CM_EVENT_REJECTED, ret);
	(void)soft_cma_destroy_id(id);
	return good;
}

/* Sessions that nobody has, with new connections between them. */
static void sessions(void)
{
	const struct attack b = begin_attack();
	const uint64_t begun = now_ms();
	uint64_t longest = 0;
	uint32_t told = 0, later = 0, other = 0;

	channel = soft_cma_create_event_channel();
	for (uint32_t i = 0; channel && i < ASKS; i++) {
		struct proto_hello h = { 0 };

		if (!ask_for_session(&h))
			other++;
		else if (h.reject == PROTO_REJECT_SESSION)
			told++;
		else if (h.reject == PROTO_REJECT_LIMIT &&
			 rdmamsg__limit_passes(h.limit))
			later++;
		if (i % ASKS_EACH == 0)
			longest = max(longest, connect_once());
	}
	if (channel)
		soft_cma_destroy_event_channel(channel);
	verdict("sessions-of-nobody", told + later == ASKS &&
		longest <= CONNECT_MS &&
		told <= DOOR_ASKS * ((now_ms() - begun) / 1000 + 1) &&
		in_budget(&b, (struct cost){
			.strangers = 1, .each = ASK_EACH, .connects = true,
			.sent = asked, .got = told_back, .times = ASK_TIMES,
		}), "%u told, %u later, %u otherwise; %llu ms at most for a "
		"new connection; %s", told, later, other,
		(unsigned long long)longest, harm->text);
}

#endif
