/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that TCP has taken of a connection of iWARP before this side ended
 * it. They have completed, so the program may have destroyed the queue pair, and
 * the CM id. TCP sends their bytes all the same, then the end of the stream,
 * and repeats both until the peer has them:
 *
 *   queue pair ends ----> requests arrive ----> FIN is sent ----> freed
 *   soft_linger_new()     or are refused        soft_linger_fin()
 *
 * Linux closes a socket so, and the drivers release theirs as soon as the queue
 * pair is in error (6.1, siw_qp.c, siw_qp_modify(); siw_cm.c, siw_qp_cm_drop();
 * net/ipv4/tcp.c, __tcp_close()). All L.
 */
#ifndef SOFT_ENGINE_LINGER_H
#define SOFT_ENGINE_LINGER_H

#include <stddef.h>
#include <stdint.h>

struct soft_dev;
struct soft_msg;
struct soft_qp;
struct soft_wire;

/* ---- for cm/ ----------------------------------------------------------- */

/*
 * Keeps the requests of a queue pair that have completed before they arrived.
 * The caller flushes the queue pair. Without memory they are lost, as with the
 * host.
 */
void soft_linger_new(struct soft_dev *dev, struct soft_qp *qp);
/*
 * Sends the message that ends the connection of the CM id, behind all requests.
 * A port that is down carries it later.
 */
void soft_linger_fin(struct soft_dev *dev, struct soft_wire *w,
		     uint32_t cm_id, const struct soft_msg *fin, size_t len);
/* The peer's node has ended the connection of the CM id as well. */
void soft_linger_stop(struct soft_dev *dev, uint32_t cm_id, uint32_t peer);
void soft_linger_ports(struct soft_dev *dev);
void soft_linger_wire_down(struct soft_dev *dev, const struct soft_wire *w);

/* ---- for the rest of the engine ---------------------------------------- */

/*
 * Returns the requests that wait for an answer from queue pair 'src' to 'dst',
 * or NULL.
 */
struct soft_qp *soft_linger_find(const struct soft_dev *dev, uint32_t dst,
				 uint32_t src);
/* No further request of qp, which lingers, has to arrive, or can. */
void soft_linger_over(struct soft_dev *dev, struct soft_qp *qp);
/* Some requests of qp, which lingers, have been answered. */
void soft_linger_answered(struct soft_dev *dev, struct soft_qp *qp);

#endif
