/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulated device, connection manager and C library for one process and one
 * thread. Nothing happens by itself: the scheduler of steps.c decides which
 * request the device executes, which completion and which event becomes
 * visible, when a lane dies and how the clock advances. All randomness comes
 * from one seed, so a schedule repeats exactly.
 */
#ifndef RDMAMSG_TESTS_MODEL_SIM_H
#define RDMAMSG_TESTS_MODEL_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "device/verbs_api.h"
#include "random.h"
#include "runner.h"

/* ---- steps.c ----------------------------------------------------------- */

/* The device works, or the clock advances by at most ms. */
void sim_sleep(uint32_t ms);

/* ---- libc.c: descriptors, the clock, memory ---------------------------- */

/* A descriptor that is readable while its count is not 0. */
int sim_fd_new(void);
void sim_fd_free(int fd);
void sim_fd_add(int fd, int n);
/* Returns true if an epoll descriptor is readable. */
bool sim_fd_ready(int epfd);
/* Returns the time of the first timer, or 0. */
uint64_t sim_timer_next(void);
/* Returns the number of open descriptors. */
unsigned int sim_fds(void);

/* ---- device.c, data.c -------------------------------------------------- */

#define SIM_SGE_MAX	4
#define SIM_INLINE_MAX	96

struct sim_channel {
	struct ibv_comp_channel ibv;
	struct sim_cq *pending;		/* list of CQs with an unread event */
};

struct sim_cq {
	struct ibv_cq ibv;
	struct sim_cq *next;		/* in pending */
	struct ibv_wc *ring;
	uint32_t mask, head, tail;
	bool armed, raised;
};

struct sim_wqe {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	uint32_t imm, rkey, sges, inlined;
	uint64_t raddr, compare, swap;
	struct ibv_sge sge[SIM_SGE_MAX];
	uint8_t data[SIM_INLINE_MAX];
	/* loose.c */
	bool told;			/* has completed */
	bool asked;			/* a read: the peer will answer it */
	bool answered;			/* the answer is in 'taken' */
	uint8_t *taken;			/* bytes on their way, or NULL */
};

struct sim_recv {
	uint64_t wr_id;
	uint8_t *addr;
	uint32_t len, lkey;
};

/*
 * Sends [head, done) are executed and not acknowledged, [done, tail) are not
 * executed. In the error state, those from 'bad' on fail. A loose queue pair:
 * see loose.c.
 */
struct sim_qp {
	struct ibv_qp ibv;
	struct sim_qp *next;
	uint32_t dest;
	bool cut;			/* nothing reaches the peer any more */
	bool gone;			/* destroyed, but its bytes may arrive */
	bool closes;			/* those before 'bad' arrive */
	bool signal_all;
	enum ibv_wc_status why;		/* of request 'bad' */
	struct sim_wqe *sends;
	uint32_t depth, smask, head, done, tail, bad;
	struct sim_recv *recvs;
	uint32_t rmask, rhead, rtail;
	struct ibv_wc *came;		/* receives that are not visible yet */
	uint32_t chead, ctail;
};

struct sim_mr {
	struct ibv_mr ibv;
	uint64_t iova;
	int access;
};

struct sim_counts {
	int contexts, pds, mrs, channels, cqs, qps, ids, event_channels;
};

extern struct sim_counts sim_counts;
extern struct sim_qp *sim_qps;		/* list */
extern const struct verbs_api sim_verbs;

/*
 * The kind of the device: InfiniBand, which completes requests in order when
 * the peer has them, or an unknown kind, a completion of which proves nothing
 * but itself.
 */
extern bool sim_loose;
/*
 * The end of a connection may overtake what was sent and acknowledged before.
 * No network does that, but a session with failover must not care.
 */
extern bool sim_rude;

/* Returns the memory of a key, or NULL if it does not reach all of it. */
void *sim_memory(uint32_t key, uint64_t addr, uint64_t len, int access);
struct sim_qp *sim_qp_find(uint32_t num);
void sim_ops(struct ibv_context_ops *ops);

/* Each step of a queue pair, and whether it is possible now. */
bool sim_can_execute(const struct sim_qp *qp);
void sim_execute(struct sim_qp *qp);
bool sim_can_ack(const struct sim_qp *qp);
void sim_ack(struct sim_qp *qp);
bool sim_can_arrive(const struct sim_qp *qp);
void sim_arrive(struct sim_qp *qp);
/* Returns true if the queue pair must not notice the connection's end yet. */
bool sim_end_waits(const struct sim_qp *qp);
bool sim_can_time_out(const struct sim_qp *qp);
/*
 * The queue pair enters the error state. Some executed requests may succeed
 * still, and all others fail.
 */
void sim_qp_fail(struct sim_qp *qp, enum ibv_wc_status why);
void sim_qp_free(struct sim_qp *qp);
/* Frees the queue pairs that are gone. */
void sim_qps_reset(void);

/* Effects of a request, in data.c. */
bool sim_is_up(const struct sim_qp *qp);
/* Returns the number of requests that have not completed. */
uint32_t sim_used(const struct sim_qp *qp);
/* Returns true if the peer answers the request. */
bool sim_is_read(const struct sim_wqe *w);
uint32_t sim_length(const struct sim_wqe *w);
/* Copies the bytes of the request from the memory of the program. */
void sim_gather(uint8_t *dst, const struct sim_wqe *w);
/* Copies the answer to a read to the memory of the program. */
void sim_scatter(const struct sim_wqe *w, const uint8_t *src);
/* The peer's device carries out the request. */
void sim_carry_out(struct sim_qp *qp, struct sim_wqe *w);
/* The completion of the request becomes visible, if there is one. */
void sim_complete(struct sim_qp *qp, const struct sim_wqe *w,
		  enum ibv_wc_status status);

/* ---- loose.c ----------------------------------------------------------- */

/* Chooses what the device does in this schedule. */
void loose_choose(void);
/* A request is posted. */
void loose_post(struct sim_qp *qp, struct sim_wqe *w);
/* As those of any queue pair. */
bool loose_can_execute(const struct sim_qp *qp);
void loose_execute(struct sim_qp *qp);
bool loose_can_ack(const struct sim_qp *qp);
void loose_ack(struct sim_qp *qp);
bool loose_can_time_out(const struct sim_qp *qp);
void loose_fail(struct sim_qp *qp);
uint32_t loose_used(const struct sim_qp *qp);
/* Returns true if bytes of the queue pair may arrive when it is destroyed. */
bool loose_lingers(const struct sim_qp *qp);
/* The program ends the connection. */
void loose_disconnect(struct sim_qp *qp);
/* Returns true if a request that has arrived has not completed. */
bool loose_owes(const struct sim_qp *qp);
/* Returns true if requests of the queue pair arrive before its end. */
bool loose_is_ahead(const struct sim_qp *qp);

/* ---- cm.c -------------------------------------------------------------- */

enum sim_id_state {
	ID_IDLE, ID_LISTENS, ID_REQ_SENT, ID_REQ_RCVD, ID_REP_SENT, ID_REP_RCVD,
	ID_UP, ID_OVER,
};

struct sim_event {
	struct rdma_cm_event rdma;
	struct sim_event *next;
	struct rdma_event_channel *channel;
	uint8_t data[256];
};

struct sim_id {
	struct rdma_cm_id rdma;
	struct sim_id *next;
	struct sim_conn *conn;
	int end;			/* of conn */
	enum sim_id_state state;
	uint16_t port;
	struct sim_event *hidden, **hidden_end;
};

/* A connection: the initiator has end 0. */
struct sim_conn {
	struct sim_conn *next;
	struct sim_id *id[2];
	uint32_t qp[2];
	bool dead;
};

extern struct sim_id *sim_ids;		/* list */
extern struct sim_conn *sim_conns;	/* list */

bool sim_can_tell(const struct sim_id *id);
/* The next event of the id becomes visible. */
void sim_tell(struct sim_id *id);
/* Nothing more passes between the two sides. */
void sim_conn_cut(struct sim_conn *c);

struct rdma_event_channel *simcm_create_event_channel(void);
void simcm_destroy_event_channel(struct rdma_event_channel *ch);
int simcm_create_id(struct rdma_event_channel *ch, struct rdma_cm_id **ret,
		    void *context, enum rdma_port_space ps);
int simcm_destroy_id(struct rdma_cm_id *id);
int simcm_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *ch);
int simcm_set_option(struct rdma_cm_id *id, int level, int optname,
		     void *optval, size_t optlen);
int simcm_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int simcm_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
		       struct sockaddr *dst, int timeout_ms);
int simcm_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int simcm_listen(struct rdma_cm_id *id, int backlog);
int simcm_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int simcm_establish(struct rdma_cm_id *id);
int simcm_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int simcm_reject(struct rdma_cm_id *id, const void *data, uint8_t len);
int simcm_disconnect(struct rdma_cm_id *id);
int simcm_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr,
		       int *mask);
int simcm_get_cm_event(struct rdma_event_channel *ch,
		       struct rdma_cm_event **event);
int simcm_ack_cm_event(struct rdma_cm_event *event);
__be16 simcm_get_src_port(struct rdma_cm_id *id);
/* Forgets what a schedule has left. */
void simcm_reset(void);

#endif
