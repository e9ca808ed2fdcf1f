/* SPDX-License-Identifier: BSD-2-Clause */
/* Wires: a pair of rings and a socket between two nodes. */
#ifndef SOFT_FABRIC_WIRE_H
#define SOFT_FABRIC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "soft/fabric/msg.h"
#include "soft/fabric/rec.h"
#include "soft/fabric/ring.h"
#include "soft/fabric/thread.h"

/* The most urgent record since the last doorbell: none, QUIET, NEWS. */
enum { SOFT_CLEAN, SOFT_QUIET, SOFT_NEWS };

/* A request that must get a SOFT_NAK_LOST. */
struct soft_lost {
	uint32_t dst, src, psn;
	uint8_t aux;
};

/* A wire to another process, or to this one. */
struct soft_wire {
	struct list node;		/* dev->wires */
	struct soft_watch sock;		/* fd -1: wire to this process */
	uint32_t peer;			/* node number */
	bool known;			/* the peer has sent its number */
	bool mine;			/* this process made the wire */
	uint8_t dirty;			/* most urgent record, see above */
	bool eaten;			/* consumed since soft_bells() */
	bool dead;
	struct soft_ring tx, rx;
	int bell;			/* the peer's doorbell, or -1 */
	int near;			/* that of its program, or -1 */
	int refs;			/* queue pairs and CM ids */
	/* vm.c */
	pid_t pid;			/* of the peer */
	bool shows, fetches;		/* false after a refusal */
	uint32_t turn;			/* counts large messages */
	uint32_t landed;		/* counts large segments */
	uint32_t push_cost, fetch_cost;	/* ns for a segment; 0: unknown */
	uint64_t fetched;		/* bytes */
	uint64_t full_since;		/* ns; 0: the ring had room */
	uint64_t full_head;		/* the peer's position at full_since */
	struct list outbox;		/* messages that the socket refused */
	uint32_t letters;		/* length of outbox */
	struct soft_lost *lost;		/* NAKs to send */
	uint32_t lost_count, lost_room;
};

/* Returns the wire to a node with a reference. Makes the wire if needed. L */
int soft_wire_get(struct soft_dev *dev, uint32_t node, struct soft_wire **ret);
void soft_wire_hold(struct soft_wire *w);
void soft_wire_put(struct soft_dev *dev, struct soft_wire *w);
void soft_wire_down(struct soft_dev *dev, struct soft_wire *w);	/* L */
/* Consumes the records that the peer pushed before this call. L */
void soft_wire_take_rest(struct soft_dev *dev, struct soft_wire *w);
int soft_wire_send(struct soft_dev *dev, struct soft_wire *w,
		   const struct soft_msg *msg, size_t len);
/* Sends SOFT_NAK_LOST for the request when the ring has room. L */
void soft_wire_lost(struct soft_wire *w, const struct soft_rec *rec);
void soft_wires_close(struct soft_dev *dev);
/* Closes the peer's doorbells. */
void soft_wire_mute(struct soft_wire *w);
void soft_bells(struct soft_dev *dev);
/*
 * Rings now if the peer sleeps: it wakes while this side copies what follows.
 */
void soft_bell_early(struct soft_wire *w);
void soft_ring_bell(int fd);
void soft_accept(struct soft_dev *dev, struct soft_watch *w, uint32_t events);

#endif
