/* SPDX-License-Identifier: BSD-2-Clause */
#include "raw.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CREDIT		100000		/* credit granted in every header */
#define RECV_ID		0x10000u
#define SENDS		512

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void check(bool good, const char *what)
{
	if (good)
		return;
	printf("not ok raw peer: %s: %m\n", what);
	fflush(stdout);
	_exit(1);
}

uint8_t raw_hello_saying(uint8_t out[PROTO_HELLO_MAX], uint32_t features,
			 const char *text)
{
	struct proto_hello h = {
		.lowest = PROTO_VERSION, .highest = PROTO_VERSION,
		.features = features, .credits = 16,
		.data = (const uint8_t *)text,
		.data_len = (uint8_t)strlen(text),
	};

	return (uint8_t)rdmamsg__hello_encode(&h, out);
}

uint8_t raw_hello(uint8_t out[PROTO_HELLO_MAX])
{
	return raw_hello_saying(out, 0, "");
}

/* ---- connections ------------------------------------------------------ */

bool raw_on_iwarp;

static void learn_device(const struct raw *r)
{
	raw_on_iwarp = r->id->verbs->device->transport_type ==
		       IBV_TRANSPORT_IWARP;
}

int raw_event(struct raw *r, int ms)
{
	struct pollfd fd = { r->channel->fd, POLLIN, 0 };
	struct rdma_cm_event *ev;
	int type;

	if (poll(&fd, 1, ms) != 1 || rdma_get_cm_event(r->channel, &ev))
		return -1;
	type = ev->event;
	r->event_status = ev->status;
	r->event_conn = ev->param.conn;
	r->event_data_len = ev->param.conn.private_data ?
			    ev->param.conn.private_data_len : 0;
	if (r->event_data_len)
		memcpy(r->event_data, ev->param.conn.private_data,
		       r->event_data_len);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		r->id = ev->id;
		learn_device(r);
	}
	rdma_ack_cm_event(ev);
	return type;
}

static void post_receive(struct raw *r, uint32_t slot)
{
	struct ibv_sge sge = {
		(uintptr_t)r->recv + (size_t)slot * RAW_RECV_SIZE,
		RAW_RECV_SIZE, r->mr->lkey,
	};
	struct ibv_recv_wr wr = {
		.wr_id = RECV_ID + slot, .sg_list = &sge, .num_sge = 1,
	}, *bad;

	(void)ibv_post_recv(r->id->qp, &wr, &bad);
}

static void resources(struct raw *r, const struct raw_options *o)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { SENDS, RAW_RECVS, 1, 1, 0 },
	};

	if (!r->mem) {
		size_t size = RAW_SEND_SIZE + RAW_RECVS * RAW_RECV_SIZE;

		check(!posix_memalign((void **)&r->mem, 4096, size), "memory");
		memset(r->mem, 0x5a, size);
		r->recv = r->mem + RAW_SEND_SIZE;
		r->pd = ibv_alloc_pd(r->id->verbs);
		check(r->pd, "ibv_alloc_pd");
		r->mr = ibv_reg_mr(r->pd, r->mem, size,
				   IBV_ACCESS_LOCAL_WRITE |
				   IBV_ACCESS_REMOTE_READ |
				   /* so that reads may write there */
				   (raw_on_iwarp ? IBV_ACCESS_REMOTE_WRITE :
				    0));
		check(r->mr, "ibv_reg_mr");
	}
	r->cq = ibv_create_cq(r->id->verbs, SENDS + RAW_RECVS, NULL, NULL, 0);
	check(r->cq, "ibv_create_cq");
	attr.send_cq = attr.recv_cq = r->cq;
	check(!rdma_create_qp(r->id, r->pd, &attr), "rdma_create_qp");
	r->qp = true;
	r->number = r->inbox_head = r->inbox_tail = 0;
	r->bursts = r->under_way = 0;
	r->deaf = o->deaf;
	for (uint32_t i = 0; i < (r->deaf ? 1 : RAW_RECVS); i++)
		post_receive(r, i);
}

static struct rdma_conn_param parameters(const struct raw_options *o)
{
	return (struct rdma_conn_param){
		.private_data = o->data, .private_data_len = o->data_len,
		.responder_resources = o->reads_served, .initiator_depth = 4,
		/* Soft-RoCE takes 7 as infinite */
		.retry_count = 5, .rnr_retry_count = 7,
	};
}

int raw_connect(struct raw *r, const char *host, uint16_t port,
		const struct raw_options *o)
{
	struct rdma_conn_param param = parameters(o);
	struct addrinfo *ai;
	char service[8];

	r->channel = rdma_create_event_channel();
	check(r->channel, "rdma_create_event_channel");
	snprintf(service, sizeof(service), "%u", port);
	check(!getaddrinfo(host, service, NULL, &ai), "getaddrinfo");
	check(!rdma_create_id(r->channel, &r->id, NULL, RDMA_PS_TCP),
	      "rdma_create_id");
	check(!rdma_resolve_addr(r->id, NULL, ai->ai_addr, 2000) &&
	      raw_event(r, RAW_WAIT_MS) == RDMA_CM_EVENT_ADDR_RESOLVED,
	      "rdma_resolve_addr");
	learn_device(r);
	freeaddrinfo(ai);
	check(!rdma_resolve_route(r->id, 2000) &&
	      raw_event(r, RAW_WAIT_MS) == RDMA_CM_EVENT_ROUTE_RESOLVED,
	      "rdma_resolve_route");
	if (o->no_establish)
		/*
		 * librdmacm establishes by itself only if the id has a queue
		 * pair
		 */
		param.qp_num = 0x4242;
	else
		resources(r, o);
	check(!rdma_connect(r->id, &param), "rdma_connect");
	return raw_event(r, RAW_WAIT_MS);
}

uint16_t raw_listen(struct raw *r, const char *host)
{
	struct addrinfo *ai;

	r->passive = true;
	r->channel = rdma_create_event_channel();
	check(r->channel, "rdma_create_event_channel");
	check(!getaddrinfo(host, "0", NULL, &ai), "getaddrinfo");
	check(!rdma_create_id(r->channel, &r->listen_id, NULL, RDMA_PS_TCP) &&
	      !rdma_bind_addr(r->listen_id, ai->ai_addr) &&
	      !rdma_listen(r->listen_id, 8), "rdma_listen");
	freeaddrinfo(ai);
	return ntohs(rdma_get_src_port(r->listen_id));
}

bool raw_request(struct raw *r, int ms)
{
	int type;

	/* drop late events of an earlier connection */
	do {
		type = raw_event(r, ms);
	} while (type >= 0 && type != RDMA_CM_EVENT_CONNECT_REQUEST);
	return type == RDMA_CM_EVENT_CONNECT_REQUEST;
}

int raw_accept(struct raw *r, const struct raw_options *o)
{
	struct rdma_conn_param param = parameters(o);

	resources(r, o);
	if (rdma_accept(r->id, &param))
		return -1;
	return raw_event(r, RAW_WAIT_MS);
}

/* Returns the status of a completed send, -1: none, -2: a receive completed. */
static int poll_once(struct raw *r)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(r->cq, 1, &wc) != 1)
		return -1;
	if (wc.wr_id < RECV_ID) {
		r->under_way--;
		return wc.status;
	}
	if (wc.status == IBV_WC_SUCCESS) {
		r->inbox[r->inbox_tail % RAW_RECVS].slot =
			(uint32_t)wc.wr_id - RECV_ID;
		r->inbox[r->inbox_tail++ % RAW_RECVS].len = wc.byte_len;
	}
	return -2;
}

bool raw_may_send(struct raw *r)
{
	uint64_t end = now_ms() + RAW_WAIT_MS;

	while (raw_on_iwarp && r->passive && r->inbox_tail == 0) {
		if (now_ms() > end)
			return false;
		if (poll_once(r) == -1)
			usleep(500);
	}
	return true;
}

void raw_reject(struct raw *r, const void *data, uint8_t len)
{
	check(!rdma_reject(r->id, data, len), "rdma_reject");
}

void raw_vanish(struct raw *r)
{
	if (r->qp)
		rdma_destroy_qp(r->id);
	r->qp = false;
}

void raw_drop(struct raw *r)
{
	if (r->id && r->qp)
		(void)rdma_disconnect(r->id);
	raw_vanish(r);
	if (r->cq)
		ibv_destroy_cq(r->cq);
	r->cq = NULL;
	if (r->id)
		rdma_destroy_id(r->id);
	r->id = NULL;
}

void raw_close(struct raw *r)
{
	raw_drop(r);
	if (r->mr)
		ibv_dereg_mr(r->mr);
	if (r->pd)
		ibv_dealloc_pd(r->pd);
	free(r->mem);
	if (r->listen_id)
		rdma_destroy_id(r->listen_id);
	if (r->channel)
		rdma_destroy_event_channel(r->channel);
	memset(r, 0, sizeof(*r));
}

/* ---- requests --------------------------------------------------------- */

static int wait_send(struct raw *r)
{
	uint64_t end = now_ms() + RAW_WAIT_MS;

	while (now_ms() < end) {
		int status = poll_once(r);

		if (status >= 0)
			return status;
		if (status == -1)
			usleep(500);
	}
	return -1;
}

static int post(struct raw *r, struct ibv_send_wr *wr, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)r->mem, len, r->mr->lkey };
	struct ibv_send_wr *bad;

	wr->sg_list = &sge;
	wr->num_sge = len ? 1 : 0;
	wr->send_flags = IBV_SEND_SIGNALED;
	if (ibv_post_send(r->id->qp, wr, &bad))
		return -1;
	r->under_way++;
	return wait_send(r);
}

int raw_send(struct raw *r, const void *buf, uint32_t len)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	if (len)
		memcpy(r->mem, buf, len);
	return post(r, &wr, len);
}

static void header(uint8_t *out, uint8_t type, uint32_t number, uint32_t tag)
{
	struct proto_hdr hdr = {
		.type = type, .number = number, .tag = tag, .credit = CREDIT,
	};

	rdmamsg__hdr_encode(&hdr, out);
}

int raw_message(struct raw *r, uint8_t type, uint32_t number, uint32_t tag,
		const void *body, uint32_t len)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	header(r->mem, type, number, tag);
	if (len)
		memcpy(r->mem + PROTO_HDR_LEN, body, len);
	return post(r, &wr, PROTO_HDR_LEN + len);
}

int raw_compact(struct raw *r, uint32_t imm, uint32_t len)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htole32(imm),
	};

	return post(r, &wr, len);
}

int raw_rdma(struct raw *r, enum ibv_wr_opcode opcode, uint64_t addr,
	     uint32_t rkey, uint32_t len)
{
	struct ibv_send_wr wr = { .opcode = opcode };

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
	} else if (opcode == IBV_WR_SEND_WITH_INV) {
		wr.invalidate_rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	return post(r, &wr, len);
}

int raw_burst(struct raw *r, uint8_t type, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint8_t *buf = r->mem + (size_t)(r->bursts++ % SENDS) * 64;
		struct ibv_sge sge = {
			(uintptr_t)buf, PROTO_HDR_LEN, r->mr->lkey,
		};
		struct ibv_send_wr wr = {
			.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED,
		}, *bad;
		int ret;

		header(buf, type, type == PROTO_DATA ? r->number++ : 0, 0);
		while ((ret = ibv_post_send(r->id->qp, &wr, &bad)) == ENOMEM)
			if (wait_send(r) != IBV_WC_SUCCESS)
				return ENOMEM;
		if (ret)
			return ret;
		r->under_way++;
	}
	return 0;
}

bool raw_settled(struct raw *r, int ms)
{
	uint64_t end = now_ms() + (uint64_t)ms;

	while (r->under_way && now_ms() < end)
		if (poll_once(r) == -1)
			usleep(500);
	return !r->under_way;
}

bool raw_receive(struct raw *r, struct proto_hdr *hdr, const uint8_t **body,
		 uint32_t *len, int ms)
{
	uint64_t end = now_ms() + (uint64_t)ms;
	static uint8_t copy[RAW_RECV_SIZE];
	uint32_t slot;

	while (r->inbox_head == r->inbox_tail) {
		if (now_ms() >= end)
			return false;
		if (poll_once(r) == -1)
			usleep(500);
	}
	slot = r->inbox[r->inbox_head % RAW_RECVS].slot;
	*len = r->inbox[r->inbox_head++ % RAW_RECVS].len;
	memcpy(copy, r->recv + (size_t)slot * RAW_RECV_SIZE, *len);
	if (!r->deaf)
		post_receive(r, slot);
	if (*len < PROTO_HDR_LEN)
		return false;
	rdmamsg__hdr_decode(hdr, copy);
	*body = copy + PROTO_HDR_LEN;
	*len -= PROTO_HDR_LEN;
	return true;
}

bool raw_receive_type(struct raw *r, uint8_t type, struct proto_hdr *hdr,
		      const uint8_t **body, uint32_t *len)
{
	do {
		if (!raw_receive(r, hdr, body, len, RAW_WAIT_MS))
			return false;
	} while (hdr->type != type);
	return true;
}

static bool send_setup(struct raw *r)
{
	struct proto_setup s = {
		.recv_size = RAW_RECV_SIZE, .recv_depth = 64,
		.max_msg = PROTO_MSG_MAX, .dead_after_ms = 20000,
	};
	uint8_t buf[PROTO_SETUP_MAX];
	size_t len;

	memcpy(s.session, r->peer.session, sizeof(s.session));
	len = rdmamsg__setup_encode(&s, buf);
	return raw_message(r, PROTO_SETUP, 0, 0, buf, (uint32_t)len) ==
	       IBV_WC_SUCCESS;
}

static bool take_setup(struct raw *r)
{
	struct proto_hdr hdr;
	const uint8_t *body;
	uint32_t len;

	return raw_receive_type(r, PROTO_SETUP, &hdr, &body, &len) &&
	       !rdmamsg__setup_decode(&r->peer, body, len);
}

bool raw_setup(struct raw *r)
{
	if (r->passive)
		return take_setup(r) && send_setup(r);
	return send_setup(r) && take_setup(r);
}

int raw_announce(struct raw *r, uint32_t len, uint32_t tag)
{
	struct proto_rndv w = {
		.total = len, .count = 1,
		.keys[0] = {
			.access = PROTO_KEY_READ, .rkey = r->mr->rkey,
			.addr = (uintptr_t)r->mem, .len = len,
		},
	};
	uint8_t body[PROTO_RNDV_MAX];
	size_t n = rdmamsg__rndv_encode(&w, body);

	return raw_message(r, PROTO_RNDV, r->number++, tag, body, (uint32_t)n);
}

bool raw_ended(struct raw *r, int ms)
{
	uint64_t end = now_ms() + (uint64_t)ms;

	while (now_ms() < end) {
		int type = raw_event(r, 20);

		if (type == RDMA_CM_EVENT_DISCONNECTED ||
		    type == RDMA_CM_EVENT_REJECTED)
			return true;
	}
	return false;
}
