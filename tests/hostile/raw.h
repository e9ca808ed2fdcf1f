/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The raw peer uses plain verbs and rdma_cm, so that it can break every rule.
 * It uses only the library's encoders. All waits are bounded.
 */
#ifndef RAW_H
#define RAW_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/proto.h"

#define RAW_WAIT_MS	15000
#define RAW_RECVS	256
#define RAW_RECV_SIZE	PROTO_RECV_MIN
#define RAW_SEND_SIZE	(512u << 10)

struct raw {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listen_id;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;		/* of mem: local and remote read */
	uint8_t *mem;			/* outgoing, then incoming messages */
	uint8_t *recv;
	int event_status;		/* of the last CM event */
	uint8_t event_data[256];
	uint8_t event_data_len;
	struct rdma_conn_param event_conn;
	bool qp;
	bool deaf;
	bool passive;
	uint32_t number;		/* number of the next data message */
	uint32_t bursts;		/* messages of raw_burst(), ever */
	uint32_t under_way;		/* sends without a completion */
	struct { uint32_t slot, len; } inbox[RAW_RECVS];
	uint32_t inbox_head, inbox_tail;
	struct proto_setup peer;	/* the peer's SETUP, without data */
	struct proto_key last_key;	/* of the last RNDV answered */
};

/* Options of a raw connection. */
struct raw_options {
	const void *data;		/* private data */
	uint8_t data_len;
	uint8_t reads_served;		/* responder resources */
	uint32_t features;		/* of the hello */
	bool deaf;			/* no receives, but one for SETUP */
	bool no_establish;		/* leave the answer unanswered */
};

/* The device, once it is known: since the first connection. */
extern bool raw_on_iwarp;

/* Correct hellos for private data. The second carries application data. */
uint8_t raw_hello(uint8_t out[PROTO_HELLO_MAX]);
uint8_t raw_hello_saying(uint8_t out[PROTO_HELLO_MAX], uint32_t features,
			 const char *text);

/*
 * Connects. Returns the last CM event: ESTABLISHED, REJECTED, ... or -1 if none
 * came in time.
 */
int raw_connect(struct raw *r, const char *host, uint16_t port,
		const struct raw_options *o);
/* Returns the port. */
uint16_t raw_listen(struct raw *r, const char *host);
/* Waits for a request, whose hello is in event_data. */
bool raw_request(struct raw *r, int ms);
int raw_accept(struct raw *r, const struct raw_options *o);
/*
 * Returns true if this side may send: on iWARP the side that connects sends first
 * (RFC 5044, 7.1.2), so this waits for its message, and leaves it.
 */
bool raw_may_send(struct raw *r);
void raw_reject(struct raw *r, const void *data, uint8_t len);
/* Destroys the queue pair without disconnecting. */
void raw_vanish(struct raw *r);
/* Destroys the rest of a connection. The listener stays. */
void raw_drop(struct raw *r);
void raw_close(struct raw *r);
/* Returns the type of the next CM event, or -1. */
int raw_event(struct raw *r, int ms);

/* Calls that wait for a completion. Return enum ibv_wc_status, or -1: none. */
int raw_send(struct raw *r, const void *buf, uint32_t len);
int raw_message(struct raw *r, uint8_t type, uint32_t number, uint32_t tag,
		const void *body, uint32_t len);
/* Sends 'len' bytes of payload alone, in compact form. */
int raw_compact(struct raw *r, uint32_t imm, uint32_t len);
int raw_rdma(struct raw *r, enum ibv_wr_opcode opcode, uint64_t addr,
	     uint32_t rkey, uint32_t len);
/* Posts 'count' messages without waiting. Returns as ibv_post_send(). */
int raw_burst(struct raw *r, uint8_t type, uint32_t count);
/* Waits until all posted messages are acknowledged. */
bool raw_settled(struct raw *r, int ms);

/* Receives a message. *body is valid until the next call. */
bool raw_receive(struct raw *r, struct proto_hdr *hdr, const uint8_t **body,
		 uint32_t *len, int ms);
/* Receives the next message of that type, and skips others. */
bool raw_receive_type(struct raw *r, uint8_t type, struct proto_hdr *hdr,
		      const uint8_t **body, uint32_t *len);
/* Exchanges correct SETUPs. */
bool raw_setup(struct raw *r);
/* Announces a large message correctly. */
int raw_announce(struct raw *r, uint32_t len, uint32_t tag);
/* Returns true if the other side ends the connection. */
bool raw_ended(struct raw *r, int ms);

#endif
