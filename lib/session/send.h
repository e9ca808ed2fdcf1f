/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of the program: whether the next may go, and how it goes. */
#ifndef RDMAMSG_LIB_SESSION_SEND_H
#define RDMAMSG_LIB_SESSION_SEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <rdmamsg/rdmamsg.h>

#include "lane/lane.h"
#include "session/credit.h"
#include "session/ep.h"
#include "session/keep.h"
#include "session/resume.h"
#include "wire/proto.h"

/* ---- send.c ------------------------------------------------------------ */

/*
 * Returns a buffer, or NULL: there is none. For what posts the send queue:
 * making room would post the same queue.
 */
struct rdmamsg_msg *rdmamsg__free_buffer(struct rdmamsg_ep *ep);
/* The same for calls of the program. In a callback, makes room (room.c). */
struct rdmamsg_msg *rdmamsg__send_buffer(struct rdmamsg_ep *ep);
struct rdmamsg_msg *rdmamsg__ctrl_buffer(struct rdmamsg_ep *ep);
/* Returns 0 if the endpoint can send, else -ENOTCONN, -ESHUTDOWN, ... */
int rdmamsg__tx_check(const struct rdmamsg_ep *ep);

/* The cookie of a send that a call waits for, on the stack of the call. */
struct rdmamsg_waiter {
	bool done;
	int status;
};
struct op_deadline;
struct rdmamsg_key;

/*
 * Like rdmamsg_sendv(), of up to eager_max bytes. The message invalidates the
 * peer's window behind the key. The endpoint is connected.
 */
int rdmamsg__send_invalidate(struct rdmamsg_ep *ep, const struct iovec *iov,
			     int iovcnt, uint32_t tag,
			     const struct rdmamsg_key *key, void *cookie,
			     enum tell tell);

/*
 * Like rdmamsg_sendv(). regions: the registered region of each segment, or
 * NULL; or NULL for all.
 */
int rdmamsg__sendv_regions(struct rdmamsg_ep *ep, const struct iovec *iov,
			   struct rdmamsg_region *const *regions, int count,
			   uint32_t tag, void *cookie, enum tell tell);
static inline int rdmamsg__sendv_waiter(struct rdmamsg_ep *ep,
					const struct iovec *iov, uint32_t tag,
					struct rdmamsg_waiter *waiter)
{
	return rdmamsg__sendv_regions(ep, iov, NULL, 1, tag, waiter,
				      TELL_WAITER);
}

/* rdmamsg_msg_send() with a deadline. */
int rdmamsg__msg_send(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg,
		      uint32_t tag, struct op_deadline *deadline);

/* ---- room.c ------------------------------------------------------------ */

/*
 * The endpoint cannot take a message. In a callback, posts all that was
 * accepted, and handles completions that are there, but calls no callback.
 * Returns true if there may be room now. The endpoint may have ended.
 */
bool rdmamsg__make_room(struct rdmamsg_ep *ep);
/* The same if all one-sided operations are in use: some may be free now. */
void rdmamsg__make_rma_room(struct rdmamsg_ep *ep);
/*
 * For a call in a callback: handles completions of the queue that tell of sent
 * messages and datagrams, as long as lacks(arg) returns true. Calls no callback.
 */
void rdmamsg__take_completions(struct rdmamsg *ctx, struct cq *cq,
			       bool (*lacks)(void *arg), void *arg);

/* ---- pieces.c: sending ------------------------------------------------- */

/* Returns true if rendezvous is faster for this length: both programs poll. */
bool rdmamsg__polls_for(const struct rdmamsg_ep *ep, size_t len);

/* Returns true if a message of this length may be sent in pieces. */
static inline bool rdmamsg__is_for_pieces(const struct rdmamsg_ep *ep,
					  size_t len)
{
	return unlikely(len > ep->send.copy_max) &&
	       len <= ep->send.pieces_max && !rdmamsg__polls_for(ep, len);
}

/*
 * Returns 1 if all pieces of such a message can be posted now, 0 if it is to be
 * announced: it then takes one credit and one place in the send queue, and
 * nothing is copied. -EAGAIN: it waits for room, and on_writable follows. In a
 * callback, makes room; the endpoint may have ended.
 */
int rdmamsg__pieces_ready(struct rdmamsg_ep *ep, size_t len);
/*
 * Posts all pieces, if they are ready and the endpoint can send. -EAGAIN: lacks
 * an operation or a buffer, and nothing was accepted.
 */
int rdmamsg__pieces_send(struct rdmamsg_ep *ep, const struct iovec *iov,
			 int iovcnt, uint32_t len, uint32_t tag, void *cookie,
			 enum tell tell);

/* ---- send_queue.c ------------------------------------------------------ */

/*
 * Returns true if 'count' more messages of len bytes in all can be kept, with
 * one CRC.
 */
static inline bool rdmamsg__can_keep(const struct rdmamsg_ep *ep,
				     uint32_t count, uint32_t len)
{
	return !rdmamsg__keeps(ep) ||
	       (!rdmamsg__holds_back(ep) &&
		rdmamsg__keep_room(&ep->resume->keep, count, ep->send.crc ?
				   len + PROTO_CRC_LEN : len));
}

static inline bool rdmamsg__can_post(struct rdmamsg_ep *ep)
{
	return rdmamsg__has_credit(ep) && rdmamsg__sq_fits(&ep->lane, 1) &&
	       rdmamsg__can_keep(ep, 1, ep->send.copy_max);
}

/* Returns true if there are credits and places for n messages. */
static inline bool rdmamsg__can_post_run(struct rdmamsg_ep *ep, uint32_t n)
{
	return (int32_t)(ep->credit.limit - rdmamsg__tx_number(ep) - n) >= 0 &&
	       rdmamsg__sq_fits(&ep->lane, n);
}

/*
 * Returns true if a request with a fence must not be posted yet. On siw it can
 * wait for ever: the answers to the peer's reads wait behind it. So if completions
 * prove only themselves, a fence is the end of all earlier requests.
 */
static inline bool rdmamsg__fence_holds(const struct rdmamsg_ep *ep)
{
	return ep->lane.came && rdmamsg__sq_used(&ep->lane);
}

/* Puts an accepted operation into send.queue. */
void rdmamsg__tx_queue(struct rdmamsg_ep *ep, struct op *op);
/* There may be room: posts queued operations, then calls on_writable. */
void rdmamsg__tx_pump(struct rdmamsg_ep *ep);
/* Counts a refused call. Returns -EAGAIN. on_writable follows. */
int rdmamsg__tx_again(struct rdmamsg_ep *ep);
/* Returns -EAGAIN. on_writable follows when memory has come back. */
int rdmamsg__no_buffer(struct rdmamsg_ep *ep);
/*
 * The device has refused with err what a call needs. If the device is gone and
 * the session goes on over another, ends the lane and returns -EAGAIN.
 * Otherwise returns err.
 */
int rdmamsg__tx_refused(struct rdmamsg_ep *ep, int err);

/* Keeps the next message, for a peer that loses its lane. There is room. */
void rdmamsg__keep_op(struct rdmamsg_ep *ep, struct op *op,
		      enum proto_type type);
/* Posts queued operations in the order of the calls. */
void rdmamsg__pump_queue(struct rdmamsg_ep *ep);
/* Posts an accepted operation whose turn has come. */
void rdmamsg__launch(struct rdmamsg_ep *ep, struct op *op);

#endif
