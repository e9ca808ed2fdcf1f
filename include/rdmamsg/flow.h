/* SPDX-License-Identifier: BSD-2-Clause */
/* Control of the flow: pause, cancel, cork, and how far messages are. */
#ifndef RDMAMSG_FLOW_H
#define RDMAMSG_FLOW_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * After rdmamsg_ep_pause() the endpoint delivers nothing: no on_message,
 * on_incoming or on_written, until rdmamsg_ep_resume(). Messages that arrive
 * wait in their receives and keep their credits, so the peer stops after at
 * most recv_depth messages. Everything else goes on, also at other endpoints.
 * Callbacks follow after rdmamsg_ep_resume() has returned. rdmamsg_ep_close()
 * resumes. Either call may come at any time, and twice. -EINVAL, -ECHILD
 */
int rdmamsg_ep_pause(struct rdmamsg_ep *ep);
int rdmamsg_ep_resume(struct rdmamsg_ep *ep);

/*
 * Cancels the oldest accepted send with this cookie that has not begun. Its
 * on_complete follows with -ECANCELED, after this call has returned. The peer
 * gets nothing of the message. -EBUSY: the send has begun, or it is a one-sided
 * operation, and its on_complete follows as usual; -ENOENT: no send has this
 * cookie; -EINVAL: cookie is NULL; -ECHILD.
 */
int rdmamsg_ep_cancel(struct rdmamsg_ep *ep, void *cookie);

/*
 * Between the two calls the library collects sends, as in callbacks, and posts
 * up to 16 of one endpoint with one doorbell. The calls nest. In callbacks they
 * do nothing. Calls that run callbacks return -EDEADLK between them, except
 * rdmamsg_close(). -EINVAL: uncork without cork; -ECHILD.
 */
int rdmamsg_cork(struct rdmamsg *ctx);
int rdmamsg_uncork(struct rdmamsg *ctx);

/* How far the messages of an endpoint are. Bytes are payload. */
struct rdmamsg_ep_flow_attr {
	size_t size;
	uint32_t paused;	/* 1: by rdmamsg_ep_pause() */
	/* 1: max_lent or memory does not allow the next message */
	uint32_t lent_full;
	uint64_t lent;		/* memory of received messages kept, bytes */
	uint32_t waiting;	/* messages, arrived or announced */
	/* the first of these messages, if it is large */
	uint32_t incoming_tag;
	uint64_t incoming_len;	/* 0: it is not large, or there is none */
	uint64_t incoming_arrived;	/* bytes */
	uint32_t announced;	/* large sends that the peer may be reading */
	uint64_t announced_bytes;
	uint32_t queued;	/* accepted operations that have not begun */
	uint64_t queued_bytes;	/* of the sends among them */
};

/* Fills *flow, at most flow->size bytes. -EINVAL, -ECHILD */
int rdmamsg_ep_flow_query(const struct rdmamsg_ep *ep,
			  struct rdmamsg_ep_flow_attr *attr);

#ifdef __cplusplus
}
#endif

#endif
