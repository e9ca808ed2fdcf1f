/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: their state, both queues, and how queues end. */
#ifndef SOFT_VERBS_QP_H
#define SOFT_VERBS_QP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/list.h"
#include "base/masked.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/fault.h"
#include "soft/fabric/limits.h"
#include "soft/fabric/thread.h"
#include "soft/verbs/mr.h"
#include "soft/verbs/rq.h"
#include "soft/verbs/srq.h"

struct soft_ah;
struct soft_dci;
struct soft_dct;
struct soft_far;
struct soft_offers;
struct soft_raw;
struct soft_rss;
struct soft_wire;

/* A masked atomic, as a raw request of mlx5 (rdma-core, mlx5/qp.c:3365). */
#define SOFT_WR_MASKED	IBV_WR_DRIVER1
#define SOFT_WC_MASKED	IBV_WC_DRIVER2

/*
 * The definition of an indirect key (mlx5dv.h, MLX5DV_WC_UMR): umr.c. The
 * request has the key in rkey, and its entries in the inline data. A list's
 * entry has the length in 'length', one of an interleaved layout has that in
 * the lower 16 bits, and the stride in the upper ones.
 */
#define SOFT_WR_UMR	((enum ibv_wr_opcode)12)	/* verbs.h has none */
#define SOFT_WC_UMR	IBV_WC_DRIVER1

/* Requests of cross-channel queue pairs (cross.h), as raw requests of mlx5. */
#define SOFT_WR_WAIT		((enum ibv_wr_opcode)16)
#define SOFT_WR_SEND_ENABLE	((enum ibv_wr_opcode)17)
#define SOFT_WR_RECV_ENABLE	((enum ibv_wr_opcode)18)
#define SOFT_WC_RAW		IBV_WC_DRIVER2

/* In 'swap' of such a definition: what it changes. */
enum {
	SOFT_UMR_ACCESS = 1 << 0,	/* to compare_add */
	SOFT_UMR_LIST = 1 << 1,		/* of imm entries */
	SOFT_UMR_INTERLEAVED = 1 << 2,	/* likewise, raddr times */
};

/* A posted send request. */
struct soft_swqe {
	uint64_t wr_id;
	uint8_t op;			/* enum ibv_wr_opcode */
	uint8_t status;			/* ibv_wc_status for its completion */
	uint8_t try;			/* read: number of its try */
	bool signaled, done, inlined, started;
	bool again;			/* injected: send a duplicate */
	bool show;			/* this try shows its payload */
	bool shown;			/* some try has shown its payload */
	bool push;			/* the peer refused to fetch */
	bool told;			/* completed early: order.h */
	bool went;			/* a datagram, to the network */
	uint8_t part;			/* far read: packets of a request */
	unsigned int flags;
	uint32_t imm;			/* network order; rkey to invalidate */
	uint32_t psn;
	uint32_t packets;		/* PSNs; 1 through shared memory */
	uint32_t length;
	uint32_t sent;			/* bytes pushed; read: bytes received */
	uint32_t num_sge;
	uint64_t raddr;
	uint32_t rkey;
	uint64_t compare_add, swap;
	uint32_t srqn;			/* XRC */
	struct ibv_sge *sge;
	uint8_t *data;			/* inline */
	uint8_t *taken;			/* if told: the payload; or NULL */
	struct soft_ah *ah;		/* datagram: counted reference */
	uint32_t dest_qpn;
	uint32_t asked;			/* far read: packets asked for */
	union {
		uint32_t qkey;
		uint16_t stream;	/* DCI */
	};
};

/* Returns true if the request is not sent. */
static inline bool soft_is_local(const struct soft_swqe *wqe)
{
	return wqe->op == IBV_WR_LOCAL_INV || wqe->op == IBV_WR_BIND_MW ||
	       wqe->op >= SOFT_WR_UMR;	/* and those of cross.h */
}

/* In ex_ops: calls of mlx5 build requests, too. */
#define SOFT_EX_MLX5	(1ull << 63)

/* The condition that the engine checks before it pushes a request. */
enum soft_gate {
	SOFT_GATE_OPEN = 0,
	SOFT_GATE_MUTE = 1 << 0,	/* iWARP: the peer is not in RTS yet */
	SOFT_GATE_AIM = 1 << 1,		/* DCI: the target of the request */
	SOFT_GATE_CROSS = 1 << 2,	/* waits, and is enabled: cross.h */
};

/* A read or atomic that this end has to answer. */
struct soft_rd {
	uint32_t psn, src_rkey, total, sent;
	uint64_t raddr;
	bool atomic, known, show;
	bool again;			/* far: answer once more */
	bool parts;			/* a read of a layout */
	const struct ibv_pd *pd;	/* compared, never dereferenced */
	uint8_t aux;			/* number of the try, to echo */
	uint64_t value[MASKED_WORDS];	/* answer of an atomic: total bytes */
};

struct soft_qp {
	union {				/* layout of rdma-core's verbs_qp */
		struct ibv_qp ibv;
		struct ibv_qp_ex ex;	/* the builder interface */
	};
	uint32_t ex_comp_mask;
	void *ex_xrcd;

	enum ibv_qp_state state;	/* ibv.state belongs to libibverbs */
	struct soft_wire *wire;		/* NULL: the peer is absent, or far */
	struct soft_far *far;		/* of transport/: the peer is far */
	uint32_t far_mtu;		/* bytes of its packets; 0: not far */
	struct soft_pd *pd;
	const struct ibv_pd *recv_pd;	/* of receive buffers */
	struct list pend_node;
	struct ibv_qp_attr attr;	/* as set by modify */
	int attr_mask;			/* attributes that were ever set */
	struct ibv_qp_cap cap;
	bool sq_sig_all;
	bool unreliable;		/* UC, UD, RAW_PACKET */
	bool addressed;			/* UD, DCI: requests have an address */
	bool sends_only;		/* DCI, XRC: sending end */
	uint32_t create_flags;
	uint32_t source_qpn;		/* with SOURCE_QPN */
	int groups;			/* attached to, and flows */

	/* migration: apm.c */
	uint8_t path;			/* in use: SOFT_F_PATH or 0 */
	bool path_due;			/* push a SOFT_PATH record */
	bool path_failed;		/* PATH_MIG_ERR was raised */

	/* requester */
	struct soft_swqe *sq;
	struct ibv_sge *sq_sges;
	uint8_t *sq_inline;
	struct masked *sq_masked;	/* NULL until the first one is posted */
	uint32_t sq_mask;
	uint32_t sq_head, sq_next, sq_tail; /* oldest, to push, free */
	uint32_t psn_next;		/* of the next posted request */
	struct soft_offers *offers;	/* of the peer: offer.h; or NULL */
	uint32_t una;			/* messages before it are acked */
	uint32_t reads_out;		/* pushed, not yet answered */
	uint32_t retries, rnr_retries;	/* retries left */
	uint8_t tries;			/* number of the current try */
	uint32_t drawn;			/* fault decisions so far */
	uint32_t told;			/* requests completed early */
	uint32_t taken;			/* bytes of copies in them */
	uint32_t orders;		/* decisions of order.h so far */
	struct soft_timer timer;	/* if `waiting`, pushing waits for it */
	bool dials;			/* the peer's backlog was full */
	uint64_t dial_until;		/* ns; 0: not dialled again yet */
	bool waiting;
	bool lost;			/* the timer runs after a loss */
	uint64_t lost_ns;		/* waited of this try's ack timeout */
	bool decided;			/* the delayed request passes now */
	bool reorder;			/* let the next request overtake */
	bool drained_told;
	uint32_t begun;			/* end of the requests begun */
	uint32_t drain_to;		/* SQD: `begun` on entry */

	/* builder, behind sq_tail: qp_ex.c */
	pthread_mutex_t ex_lock;
	bool ex_alone;			/* most requests are of builders */
	bool ex_busy;			/* otherwise: one is at work; L */
	uint64_t ex_ops;
	uint32_t ex_head;		/* sq_head + told, or earlier */
	uint32_t ex_tail, ex_room, ex_count;
	int ex_err;
	struct soft_swqe *ex_wqe;	/* the request that setters fill */
	void *dv;			/* its calls of mlx5, or NULL: mlx5.h */

	/* responder */
	struct soft_rq rq;
	uint32_t epsn;			/* expected */
	uint32_t offset;		/* of the message in progress */
	bool in_message, dropping;	/* dropping: until epsn arrives */
	bool recv_taken;		/* the message has taken a receive */
	bool ack_due, ack_asked;	/* asked: by the requester */
	uint8_t nak_due, nak_aux;	/* enum soft_nak */
	uint32_t nak_psn;
	struct soft_rd rd[SOFT_MAX_RD];
	uint32_t rd_head, rd_tail;
	struct soft_timer late;		/* if reads_late, their answers wait */
	bool reads_late;		/* order.h */
	bool offered;			/* to the peer: offer.h */
	uint32_t async_fetched;		/* events read; each needs an ack */
	struct soft_rnr rnr;
	struct list windows;		/* type 2, bound to this queue pair */

	/* XRC, receiving end: srq of the last request */
	struct soft_srq *srq;
	struct soft_xrcd *xrcd;
	struct soft_qp *real;		/* ibv_open_qp(): the original */
	struct list opened;		/* handles of ibv_open_qp(), or node */
	bool gone;			/* the first handle is destroyed */
	bool last_wqe_told;

	/* iWARP: modify.c */
	uint32_t cm_id;			/* handle of its connection, or 0 */
	uint8_t gate;			/* enum soft_gate */
	bool lingers;			/* part of struct linger: linger.h */

	/* cross.h */
	struct list wait_node;		/* cq->waiters */
	uint32_t wait_index;		/* completions to wait for */
	uint32_t sq_enabled;		/* managed: sends below it may start */
	uint32_t rq_held;		/* managed: receives behind rq.tail */

	/* Ethernet frames. NULL for other queue pairs */
	struct soft_raw *raw;		/* sends: flow.h */
	struct soft_rss *rss;		/* receives: wq.h */

	/* DC: dc.h. NULL for other queue pairs */
	struct soft_dci *dci;
	struct soft_dct *dct;
};

static inline struct soft_qp *soft_qp(struct ibv_qp *qp)
{
	return (struct soft_qp *)qp;
}

/* Returns the queue pair of a handle, which may come from ibv_open_qp(). */
static inline struct soft_qp *soft_qp_real(struct ibv_qp *ibv)
{
	struct soft_qp *qp = soft_qp(ibv);

	return qp->real ? qp->real : qp;
}

static inline struct soft_qp *soft_qp_find(struct soft_dev *dev, uint32_t qpn)
{
	return dev->qps[qpn & (SOFT_QPS - 1)];
}

/*
 * Requests that have not completed. Those that have completed early leave the
 * queue later, with the answer of the peer.
 */
static inline uint32_t soft_sq_used(const struct soft_qp *qp)
{
	return qp->sq_tail - qp->sq_head - qp->told;
}

static inline bool soft_can_receive(const struct soft_qp *qp)
{
	return qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
	       qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE;
}

/* ---- queue.c: both queues. All L -------------------------------------- */

int soft_sq_init(struct soft_qp *qp);
void soft_sq_fini(struct soft_qp *qp);
void soft_sq_complete(struct soft_dev *dev, struct soft_qp *qp,
		      const struct soft_swqe *wqe, enum ibv_wc_status status);
/* Completes the receive at the head. */
void soft_rq_complete(struct soft_dev *dev, struct soft_qp *qp,
		      struct ibv_wc *wc, bool solicited);
/*
 * Returns the state of a queue pair that is new or reset. RNICs have one state
 * for RESET and INIT, and call it INIT: Linux, cxgb4 to_ib_qp_state(),
 * siw_qp_state_to_ib_qp_state[] (since 6.12).
 */
static inline enum ibv_qp_state soft_qp_first_state(const struct soft_dev *dev)
{
	return dev->iwarp ? IBV_QPS_INIT : IBV_QPS_RESET;
}

/* Enters the error state and flushes both queues. */
void soft_qp_error(struct soft_dev *dev, struct soft_qp *qp);
/* Enters SQE and flushes the send queue: unreliable queue pairs. */
void soft_sq_error(struct soft_dev *dev, struct soft_qp *qp);
void soft_qp_reset(struct soft_dev *dev, struct soft_qp *qp);
/* In SQD: raises SQ_DRAINED once, if no request is outstanding. */
void soft_sq_drained(struct soft_dev *dev, struct soft_qp *qp);

/* ---- qp.c -------------------------------------------------------------- */

bool soft_qp_cap_ok(const struct ibv_qp_cap *cap);
/*
 * Creates a queue pair from checked attributes, and sets a->cap. init() adds
 * what a queue pair of DC has, and returns 0 or an errno.
 */
struct ibv_qp *soft_qp_make(struct ibv_context *verbs,
			    struct ibv_qp_init_attr_ex *a,
			    int (*init)(struct soft_qp *qp, const void *arg),
			    const void *arg);
/* Gives the queue pair its number. Returns 0 or ENOMEM. L */
int soft_qp_number(struct soft_dev *dev, struct soft_qp *qp);

/* ---- post.c ------------------------------------------------------------ */

/* Like ibv_post_send(), but also binds windows of type `binds`. */
int soft_post_send_any(struct ibv_qp *qp, struct ibv_send_wr *wr,
		       struct ibv_send_wr **bad, enum ibv_mw_type binds);
/*
 * Locks the device while no builder uses the queue, so that the caller may fill
 * entries at the tail. Returns true if it has taken ex_lock as well. The caller
 * gives the result to soft_sq_unlock().
 */
bool soft_sq_lock(struct soft_dev *dev, struct soft_qp *qp);
void soft_sq_unlock(struct soft_dev *dev, struct soft_qp *qp, bool both);
/* Returns 0, or the errno with which posting fails in this state. L */
int soft_sq_may_post(const struct soft_qp *qp);
/* Appends the entry at the tail to the send queue. L */
void soft_sq_commit(struct soft_qp *qp, struct soft_swqe *wqe);
/* Pushes committed entries, or flushes them in an error state. L */
void soft_sq_kick(struct soft_dev *dev, struct soft_qp *qp);

/* ---- modify.c --------------------------------------------------------- */

/*
 * iWARP: the connection manager has connected the queue pair. Returns 0, or
 * -EINVAL if it is no unconnected queue pair.
 */
int soft_qp_iwarp_up(struct soft_dev *dev, struct soft_qp *qp, uint32_t peer,
		     uint32_t cm_id, uint8_t ird, uint8_t ord, bool mute);

/* ---- steps.c, qp_ex.c -------------------------------------------------- */

/*
 * Returns true if the transition exists and the mask has the right attributes.
 */
bool soft_step_ok(enum ibv_qp_type type, enum ibv_qp_state from,
		  enum ibv_qp_state to, int mask);
int soft_qp_ex_check(const struct soft_dev *dev, enum ibv_qp_type type,
		     uint64_t ops);
void soft_qp_ex_init(struct soft_qp *qp, uint64_t ops);
/* Lets a builder have all operations of RC, also those that nobody named. */
void soft_qp_ex_all(struct soft_qp *qp);
/* Sets the target of the request that a builder has begun. */
void soft_qp_ex_aim(struct soft_qp *qp, struct ibv_ah *ah, uint32_t dctn,
		    uint64_t key, uint16_t stream);
/* Begins another request of a builder. Returns NULL after an error. */
struct soft_swqe *soft_qp_ex_begin(struct soft_qp *qp, enum ibv_wr_opcode op);
/* Makes the builder's completion fail. */
void soft_qp_ex_fail(struct soft_qp *qp, int err);

#endif
