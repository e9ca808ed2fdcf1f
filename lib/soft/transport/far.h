/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transport of a queue pair whose peer is on another host: RC of IBTA
 * volume 1, chapter 9.7, over packets that a network may lose, double and
 * reorder. requester.c and responder.c are its two ends; what a request means
 * stays in engine/ and verbs/, which do not know how it came. All L.
 *
 *   requester, by PSN:      una            next            end
 *     ... acknowledged       | sent once    | sent earlier  | never sent ...
 *
 * A loss takes `next` back to `una`. A read has as many PSNs as its answer has
 * packets, and is asked for in parts of 16.
 *
 *   responder, for a request with PSN p:
 *     p == epsn   execute, epsn goes on        p before epsn   a duplicate
 *     p behind    NAK, once until p == epsn
 */
#ifndef SOFT_TRANSPORT_FAR_H
#define SOFT_TRANSPORT_FAR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "soft/fabric/limits.h"
#include "soft/fabric/thread.h"
#include "soft/net/net.h"
#include "soft/verbs/qp.h"

struct ibv_qp_attr;
struct soft_dev;

#define SOFT_WINDOW_UNIT	256u	/* of a window: a packet */

/* The message of which more packets are to come. */
enum far_message { FAR_NONE, FAR_SEND, FAR_WRITE };

struct soft_far {
	struct list node;		/* dev->fars */
	struct soft_qp *qp;
	struct soft_path path;
	uint32_t mtu;			/* bytes of a payload */

	/* requester */
	bool asks;			/* has sent a request */
	uint32_t next, end;		/* PSNs, see above */
	struct soft_timer timer;	/* runs while something is unanswered */
	bool asked_again;		/* for the answer to a read: once */
	uint64_t waited;		/* ns since the last progress */
	uint32_t timeouts;		/* in turn */

	/* window.c */
	uint32_t window;		/* in SOFT_WINDOW_UNIT */
	uint32_t threshold;		/* above it the window grows slowly */
	bool full;			/* all of the window was used */
	bool timing;
	uint32_t timed;			/* PSN of the packet that is timed */
	uint64_t timed_at, shrunk_at;	/* ns */
	uint64_t crowded_at;		/* ns; the last loss or mark */
	uint32_t window_before;		/* the timer expired; or 0 */
	uint64_t rtt, rtt_var, rtt_least; /* ns; 0: not measured yet */

	/* responder */
	bool hears;			/* has received a request */
	uint32_t epsn, msn;
	uint32_t offset;		/* of the message in progress */
	uint8_t in;			/* enum far_message */
	uint64_t addr;			/* of a write in progress */
	uint32_t rkey, total;
	bool nak_sent;			/* for a gap, until it is filled */
	bool gap;			/* that NAK is due */
	bool repeats;			/* answers of atomics are due again */
	uint64_t notified_at;		/* ns; marks.c */
	struct soft_rd redo[SOFT_MAX_RD]; /* reads to answer once more */
	uint32_t redo_head, redo_tail;
};

/* ---- far.c ------------------------------------------------------------- */

/*
 * Returns 0 if the peer of these attributes is reached through shared memory, 1
 * if the queue pair has a transport now, or an errno as a negative number.
 */
int soft_far_up(struct soft_dev *dev, struct soft_qp *qp,
		const struct ibv_qp_attr *a);
/* The queue pair is reset or destroyed. */
void soft_far_down(struct soft_dev *dev, struct soft_qp *qp);
/* A packet has arrived. */
void soft_far_packet(struct soft_dev *dev, const struct soft_path *back,
		     const struct packet *p);
/* As far_route of struct soft_verbs_upward. */
int soft_far_route(struct soft_dev *dev, struct soft_path *path, bool group);
/* As far_group there. Returns 0, or -errno without a socket. */
int soft_far_group(struct soft_dev *dev, const uint8_t mgid[16], bool join);
/* As far_look there. */
void soft_far_look(const struct soft_qp *qp, uint32_t *window, uint32_t *rtt);
/* The socket takes packets again. */
void soft_far_room(struct soft_dev *dev);
/* Returns true if a comes before b. */
static inline bool soft_far_before(uint32_t a, uint32_t b)
{
	return ((a - b) & SOFT_PSN_MASK) > SOFT_PSN_MASK / 2;
}

/* ---- requester.c ------------------------------------------------------- */

/*
 * Sends what the window permits of the request at sq_next. Returns true if
 * nothing is left of it.
 */
bool soft_far_push(struct soft_dev *dev, struct soft_qp *qp,
		   struct soft_swqe *wqe);
void soft_far_timer(struct soft_dev *dev, struct soft_timer *t);
void soft_far_answered(struct soft_dev *dev, struct soft_far *far,
		       const struct packet *p);

/* ---- ud.c -------------------------------------------------------------- */

/* Sends a datagram to wqe->ah->path, or drops it. */
void soft_far_datagram(struct soft_dev *dev, struct soft_qp *qp,
		       struct soft_swqe *wqe);
/* A datagram has arrived. */
void soft_far_arrives(struct soft_dev *dev, const struct soft_path *back,
		      const struct packet *p);

/* ---- window.c ---------------------------------------------------------- */

void soft_window_begin(struct soft_far *far);
/* A packet with this PSN goes out, and an answer to it is asked for. */
void soft_window_sent(struct soft_far *far, uint32_t psn);
/* All before una is answered, which n PSNs were not before. */
void soft_window_answered(struct soft_far *far, uint32_t una, uint32_t n);
/* Something was lost: a packet in between, or all if a timer told. */
void soft_window_lost(struct soft_far *far, bool all);
/* The timer was wrong: an answer comes to what was sent before it expired. */
void soft_window_not_lost(struct soft_far *far);
/* A router has marked a packet, because its queue is long. */
void soft_window_marked(struct soft_far *far);
/* Returns how many PSNs may be unanswered. */
static inline uint32_t soft_window_psns(const struct soft_far *far)
{
	return far->window / SOFT_WINDOW_UNIT;
}
/* Returns how long to wait for an answer, in ns. */
uint64_t soft_window_wait(const struct soft_far *far);

/* ---- marks.c ----------------------------------------------------------- */

/* A packet has arrived that a router has marked. */
void soft_far_marked(struct soft_dev *dev, struct soft_far *far,
		     const struct packet *p);
/* The peer has got a packet that a router has marked. */
void soft_far_notified(struct soft_dev *dev, struct soft_far *far);

/* ---- responder.c ------------------------------------------------------- */

void soft_far_request(struct soft_dev *dev, struct soft_far *far,
		      const struct packet *p);
/* Sends due answers. Returns false if more is due, and there is room. */
bool soft_far_answer(struct soft_dev *dev, struct soft_qp *qp);

#endif
