/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams: UD and multicast. All L. */
#ifndef SOFT_ENGINE_UD_H
#define SOFT_ENGINE_UD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A peer counts as stopped if it takes nothing from a full ring for this time.
 * On a loaded host, a peer that runs may be off the processor for some of it.
 * The members of a group wait for each other, so their time is shorter.
 */
#define SOFT_STALL_NS		2000000000ull
#define SOFT_STALL_GROUP_NS	200000000ull

struct soft_dev;
struct soft_path;
struct soft_qp;
struct soft_rec;
struct soft_swqe;
struct soft_wire;

/* Returns false if the ring is full. Then push again later. */
bool soft_ud_push(struct soft_dev *dev, struct soft_qp *qp,
		  struct soft_swqe *wqe);
/*
 * Called if the ring has no room for an unreliable request. Returns true if the
 * request must be dropped, because the peer has taken nothing for 'after' ns.
 * Else makes the queue pair pending and returns false.
 */
bool soft_give_up(struct soft_dev *dev, struct soft_qp *qp,
		  struct soft_wire *w, uint64_t after);
/* The same for a datagram that has come from the network, along the path. */
void soft_ud_packet(struct soft_dev *dev, const struct soft_rec *rec,
		    const struct soft_path *back, const void *payload);
void soft_ud_arrives(struct soft_dev *dev, struct soft_wire *w,
		     const struct soft_rec *rec, const void *payload);

#endif
