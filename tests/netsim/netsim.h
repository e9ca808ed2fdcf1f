/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two queue pairs of the soft HCA and the network between them, in one thread.
 * lib/soft/{transport,engine,verbs} and the headers of packets are real. The
 * linker's --wrap replaces the clock, the thread and the fabric by world.c, and
 * the socket by net.c. All randomness comes from one seed, so that a schedule
 * repeats exactly.
 */
#ifndef RDMAMSG_TESTS_NETSIM_H
#define RDMAMSG_TESTS_NETSIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <infiniband/verbs.h>

#include "../model/random.h"
#include "../model/runner.h"

#define SIM_NEVER	UINT64_MAX
#define SIM_NONE	UINT32_MAX
#define DEPTH_MAX	8u
#define REQUESTS_MAX	48u
#define LENGTH_MAX	10240u
#define GUARD		16u		/* bytes behind a buffer */
#define SLOTS		4u		/* of a memory that the peer accesses */
#define WORDS		4u		/* of it, for atomics */

struct packet;
struct soft_dev;

struct totals {
	uint64_t steps, requests, failed, packets, lost, doubled, late;
};

extern struct totals totals;

/* ---- plan.c: what the seed decides before a schedule begins ------------- */

enum op {
	OP_SEND, OP_SEND_IMM, OP_SEND_INV, OP_WRITE, OP_WRITE_IMM, OP_READ,
	OP_FAA, OP_CAS, OP_BIND, OP_UNBIND, OPS
};

/* Kinds of packets, each of which the network loses with a share of its own. */
enum kind { KIND_DATA, KIND_READ, KIND_ANSWER, KIND_ACK, KINDS };

struct end_plan {
	uint32_t requests;		/* in all */
	uint32_t depth;			/* of them at once */
	uint32_t receives;		/* posted at once */
	uint32_t psn;			/* the first one */
	uint8_t timeout, retries, rnr_retries, rnr_timer, reads;
	uint32_t pause;			/* ns between two calls, at most */
	uint32_t late;			/* ns until receives follow, at most */
	uint32_t signal_every;
	uint32_t bad;			/* the request with a wrong key */
	uint32_t drains;		/* SQD behind this request */
	uint32_t weight[OPS];
};

/* The faults of the network for the packets of one end. Shares are of 256. */
struct weather {
	uint32_t lost[KINDS], doubled, late, bursts;
	uint32_t base, jitter, late_ns;	/* ns */
	uint32_t slower;		/* ns, from calm_at on */
	uint32_t cut;			/* packets until nothing passes */
};

struct plan {
	enum ibv_mtu path_mtu;
	uint32_t mtu, most;		/* bytes: of a packet, of a message */
	bool sure;			/* all requests succeed */
	bool calm;			/* none is lost, doubled or overtaken */
	uint64_t calm_at;		/* from then on none is lost or late */
	uint32_t blocks;		/* once in so many packets; 0: never */
	uint32_t grain;			/* ns; arrivals in it come at once */
	uint32_t batch;			/* packets that a call takes, at most */
	struct end_plan end[2];
	struct weather weather[2];	/* of what that end sends */
};

extern struct plan plan;

void plan_make(void);

/* ---- world.c: the clock, timers, and the device without its thread ------ */

extern struct soft_dev *sim_dev;

/* Opens the device. Returns its context. */
struct ibv_context *world_open(void);
/* Returns the time of the first timer, or SIM_NEVER. */
uint64_t world_timer(void);
/* The device's thread wakes: packets, then timers. */
void world_timers(void);
void world_progress(void);

/* ---- calls.c: the calls of lib/soft/net that both networks have --------- */

#define SIM_ROOM	1200u		/* a packet with 1,024 bytes */

extern struct soft_path sim_way;	/* of the packets, whoever sends them */
extern uint8_t sim_room[];		/* for the packet that is made */

/* ---- net.c ------------------------------------------------------------- */

void net_begin(void);
/* Returns when a packet arrives, or the socket takes packets again. */
uint64_t net_next(void);
/* The socket takes packets again, if it is time. */
void net_unblock(void);

/* ---- ends.c ------------------------------------------------------------ */

struct memory {
	uint64_t word[WORDS];
	uint8_t slot[SLOTS][LENGTH_MAX];
	uint8_t source[DEPTH_MAX][LENGTH_MAX];
	uint8_t sink[DEPTH_MAX][LENGTH_MAX + GUARD];
	uint8_t in[DEPTH_MAX][LENGTH_MAX + GUARD];
};

struct request {
	enum op op;
	uint32_t len, slot, offset, word;
	uint32_t imm;
	uint32_t rkey;			/* of the memory or, BIND, the window */
	uint64_t operand, compare;
	uint64_t before, after;		/* the word of an atomic */
	uint8_t version;		/* of what a write writes */
	bool fenced, signaled;
};

/* The memory window of an end. */
enum window {
	WINDOW_IDLE,
	WINDOW_OWN,			/* bound, or will be; nobody knows it */
	WINDOW_BINDING,			/* the peer gets its key */
	WINDOW_GIVEN,			/* the peer has its key */
	WINDOW_RETURNING,		/* the peer's SEND invalidates it */
	WINDOW_LEAVING,			/* this end invalidates it */
};

struct end {
	int index;
	struct end *peer;
	const struct end_plan *plan;
	struct ibv_qp *qp;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct memory *mem;
	uint64_t acts_at, receives_at, resumes_at;
	bool drained;

	/* requester */
	struct request request[REQUESTS_MAX];
	uint32_t posted, completed;
	uint32_t succeeded;		/* of the completed ones, at first */
	uint32_t message[REQUESTS_MAX];	/* those that take a receive */
	uint32_t messages;
	uint8_t versions;
	uint32_t writer[256];		/* request, by version */
	/* the memory of the peer after all posted requests */
	uint64_t word[WORDS];
	uint8_t image[SLOTS][LENGTH_MAX];
	/* the same when a read was posted */
	uint8_t least[DEPTH_MAX][LENGTH_MAX];

	/* receiver */
	uint32_t receives, received, flushed;
	enum window window;
	uint32_t window_key;
};

extern struct end ends[2];

void ends_init(struct ibv_context *c);
void ends_open(void);
void ends_close(void);
/* Returns when the program of an end does something, or SIM_NEVER. */
uint64_t end_next(const struct end *e);
void end_act(struct end *e);
bool end_is_over(const struct end *e);

/* ---- requests.c -------------------------------------------------------- */

/* Posts some requests at once. */
void requests_post(struct end *e);
bool request_takes_receive(const struct request *r);

/* ---- bytes.c ----------------------------------------------------------- */

void bytes_init(void);
/* Returns the bytes that a version of a slot has from the offset on. */
const uint8_t *bytes_of_slot(uint32_t slot, uint32_t offset, uint8_t version);
const uint8_t *bytes_of_message(uint32_t id);
/*
 * Bytes of a slot of the peer of e have to be those of 'least', or of later
 * writes up to version 'most'.
 */
void bytes_check(const struct end *e, const char *what, uint32_t id,
		 const uint8_t *p, const uint8_t *least, uint8_t most,
		 uint32_t slot, uint32_t offset, uint32_t len);

/* ---- rules.c ----------------------------------------------------------- */

/* A completion of the send queue, or of the receive queue. */
void rules_completed(struct end *e, const struct ibv_wc *wc);
void rules_received(struct end *e, const struct ibv_wc *wc);
/* Nothing happens any more. */
void rules_end(void);

/* ---- inside.c ---------------------------------------------------------- */

/* A schedule begins. */
void inside_begin(void);
/* The rules between two steps, and those at the end. */
void inside_check(const struct end *e);
void inside_rest(const struct end *e);

/* ---- steps.c ----------------------------------------------------------- */

void schedule_run(uint64_t seed);

#endif
