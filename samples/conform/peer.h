/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdmamsg-conform between two hosts: a server does what the cases of a client
 * ask for, over a connection of librdmacm for each case.
 */
#ifndef RDMAMSG_SAMPLES_CONFORM_PEER_H
#define RDMAMSG_SAMPLES_CONFORM_PEER_H

#include "../../tests/device/device.h"

#define PEER_PORT	7472
#define PEER_MAGIC	0x464e4f43u	/* "CONF" */
#define PEER_VERSION	1u
#define PEER_MEM	(1u << 20)
#define PEER_MS		60000		/* of a connection */
#define PEER_DEPTH	16

/*
 * The private data of a request, and of a refusal. All words are in network byte
 * order.
 */
struct peer_hello {
	uint32_t magic, version;
	uint32_t probe;		/* 1: asks for the version; any is accepted */
	uint32_t busy;		/* of a refusal, 1: the places are taken */
};

/* The private data of an answer: the server's memory, and its version. */
struct peer_memory {
	uint64_t addr;
	uint32_t rkey, version;
};

enum peer_op { PEER_ECHO = 1, PEER_CHECK, PEER_LEAVE };

struct peer_message {
	uint32_t op;		/* an answer has the same */
	uint32_t seed;		/* PEER_CHECK: of the memory */
	uint32_t wrong;		/* answer of PEER_CHECK: bytes */
	uint32_t pad;
};

/* Both ends of a connection. The first half of 'mem' is for messages. */
struct peer_end {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *mem;
};

static inline uint8_t peer_byte(uint32_t seed, uint32_t at)
{
	return (uint8_t)(seed + at * 7 + (at >> 8));
}

/* Creates all but the id. Returns 0 or an errno. */
int peer_end_open(struct peer_end *e, struct rdma_cm_id *id);
void peer_end_close(struct peer_end *e);
/* Posts a receive of a message into slot i. Returns 0 or an errno. */
int peer_recv(struct peer_end *e, unsigned int i);
/* Returns the message in slot i. */
struct peer_message *peer_slot(struct peer_end *e, unsigned int i);
/* Sends the message in slot i. Returns 0 or an errno. */
int peer_send(struct peer_end *e, unsigned int i, uint64_t wr_id);
/* The bytes behind the slots, which writes and reads use. */
uint8_t *peer_data(struct peer_end *e);

/* Serves until a signal ends the program. Returns an exit status. */
int peer_serve(const char *host, uint16_t service);

extern const struct device_case peer_cases[];
/* Passes if the server answers and has this version; its text says why not. */
extern const struct device_case peer_probe;
/* Sets the server of the cases. Returns false if the host has no address. */
bool peer_set(const char *host, uint16_t service);

#endif
