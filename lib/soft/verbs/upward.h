/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls from verbs/ into the engine. soft.c sets the table before the device
 * opens. All L.
 */
#ifndef SOFT_VERBS_UPWARD_H
#define SOFT_VERBS_UPWARD_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct soft_dev;
struct soft_path;
struct soft_qp;
struct soft_swqe;
struct soft_timer;

struct soft_verbs_upward {
	/*
	 * Consumes records, and pushes for pending queue pairs. Returns true if
	 * there were any.
	 */
	bool (*progress)(struct soft_dev *dev);
	/* Pushes requests of the send queue. */
	void (*push)(struct soft_dev *dev, struct soft_qp *qp);
	/* Pushes due answers. Returns false if the ring is full. */
	bool (*answer)(struct soft_dev *dev, struct soft_qp *qp);
	/* The timer of a queue pair has expired. */
	void (*timer)(struct soft_dev *dev, struct soft_timer *t);
	/* ibv_modify_qp() sets the migration state. */
	void (*migrate)(struct soft_dev *dev, struct soft_qp *qp,
			enum ibv_mig_state state);
	/*
	 * iWARP: a connected queue pair ends, so its connection ends. Called
	 * before its requests are flushed.
	 */
	void (*hang_up)(struct soft_dev *dev, struct soft_qp *qp);
	/*
	 * The peer's address is known: returns 0 if shared memory leads there,
	 * 1 if packets do, or -errno.
	 */
	int (*far_up)(struct soft_dev *dev, struct soft_qp *qp,
		      const struct ibv_qp_attr *a);
	void (*far_down)(struct soft_dev *dev, struct soft_qp *qp);
	/* Sends of a request to a far peer. Returns true if all is sent. */
	bool (*far_push)(struct soft_dev *dev, struct soft_qp *qp,
			 struct soft_swqe *wqe);
	/*
	 * Opens the network and finds the way to path->to; for a group, the MTU
	 * of its interface. Returns 0 or -errno.
	 */
	int (*far_route)(struct soft_dev *dev, struct soft_path *path,
			 bool group);
	void (*far_datagram)(struct soft_dev *dev, struct soft_qp *qp,
			     struct soft_swqe *wqe);
	/* A group has its first member, or has lost its last one. */
	void (*far_group)(struct soft_dev *dev, const uint8_t mgid[16],
			  bool join);
	bool (*far_answer)(struct soft_dev *dev, struct soft_qp *qp);
	/*
	 * The window of packets and the round trip in us; 0: unknown, or not
	 * far.
	 */
	void (*far_look)(const struct soft_qp *qp, uint32_t *window,
			 uint32_t *rtt);
	/* DC: an initiator leaves its target, or a target ends. */
	void (*dc_over)(struct soft_dev *dev, struct soft_qp *qp);
};

extern const struct soft_verbs_upward *soft_verbs_up;	/* ctx.c */

#endif
