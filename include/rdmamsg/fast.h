/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fast path, inlined down to ibv_post_send() and ibv_poll_cq(). Needs the
 * verbs headers and -libverbs at most. Both calls do the ordinary case only
 * and leave the rest to the library; both exist as exported functions too.
 *
 * The inlines look into the library's structs, so a program that includes
 * this header has rdmamsg_open() compare layouts: -ELIBBAD when they differ.
 */
#ifndef RDMAMSG_FAST_H
#define RDMAMSG_FAST_H

#include <endian.h>
#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RDMAMSG_FAST_LAYOUT	1u

/* The head of struct rdmamsg_ep. All private: not for programs. */
struct rdmamsg_hot_ep {
	struct ibv_qp *qp;
	uint64_t wr_id;		/* upper half of every request's id */
	uint32_t ready;		/* the inline may go ahead */
	uint32_t inline_max;	/* payload bytes */
	uint32_t number;	/* of the next data message */
	uint32_t limit;		/* the peer takes numbers below this */
	uint32_t sq_posted;	/* requests posted and completed, ever */
	uint32_t sq_done;
	uint32_t sq_data;	/* outstanding requests that data may make */
	uint32_t unsignalled;	/* since the last completion asked for */
	uint32_t signal_every;
	uint32_t granted;	/* our side of the credits, for the header */
	uint32_t announced;	/* last value of it that was sent */
	uint32_t seen;		/* likewise CREDIT messages processed */
	uint64_t sent_inline;
	uint64_t bytes_sent;
};

/* The head of struct rdmamsg. All private. */
struct rdmamsg_hot_ctx {
	struct ibv_cq *cq;	/* NULL: not exactly one, take the long way */
	uint32_t polls;		/* until the slow path has its turn */
};

#ifndef RDMAMSG_INLINE
#define RDMAMSG_INLINE static inline
#endif

/* What the inlines leave to the library. */
int rdmamsg_fast_completed(struct rdmamsg *ctx, struct ibv_wc *wc, int n);
int rdmamsg_open_fast(struct rdmamsg **ret, const struct rdmamsg_options *opts,
		      uint32_t layout);

/* rdmamsg_send() without a cookie, fastest up to the inline limit. */
RDMAMSG_INLINE int rdmamsg_fast_send(struct rdmamsg_ep *ep, const void *buf,
				     size_t len, uint32_t tag)
{
	struct rdmamsg_hot_ep *h = (struct rdmamsg_hot_ep *)ep;
	struct { uint8_t type, flags; uint16_t seen; uint32_t word[3]; } hdr;
	struct ibv_sge sge[2];
	struct ibv_send_wr wr, *bad;

	if (__builtin_expect(!h->ready || len > h->inline_max ||
			     (int32_t)(h->limit - h->number) <= 0 ||
			     h->sq_posted - h->sq_done >= h->sq_data, 0))
		return rdmamsg_send(ep, buf, len, tag, NULL);

	hdr.type = 1;
	hdr.flags = 0;
	hdr.seen = htole16((uint16_t)h->seen);
	hdr.word[0] = htole32(h->granted);
	hdr.word[1] = htole32(h->number);
	hdr.word[2] = htole32(tag);
	sge[0].addr = (uintptr_t)&hdr;
	sge[0].length = sizeof(hdr);
	sge[1].addr = (uintptr_t)buf;
	sge[1].length = (uint32_t)len;
	wr.wr_id = h->wr_id | (h->sq_posted & 0x7fffffffu);
	wr.next = NULL;
	wr.sg_list = sge;
	wr.num_sge = len ? 2 : 1;
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_INLINE;
	if (h->unsignalled + 1 >= h->signal_every)
		wr.send_flags |= IBV_SEND_SIGNALED;
	if (__builtin_expect(ibv_post_send(h->qp, &wr, &bad), 0))
		return rdmamsg_send(ep, buf, len, tag, NULL);

	h->unsignalled++;
	if (wr.send_flags & IBV_SEND_SIGNALED)
		h->unsignalled = 0;
	h->sq_posted++;
	h->number++;
	h->announced = h->granted;
	h->sent_inline++;
	h->bytes_sent += len;
	return 0;
}

/* rdmamsg_poll(). */
RDMAMSG_INLINE int rdmamsg_fast_poll(struct rdmamsg *ctx)
{
	struct rdmamsg_hot_ctx *h = (struct rdmamsg_hot_ctx *)ctx;
	struct ibv_wc wc[16];
	int n;

	if (__builtin_expect(!h->cq || !--h->polls, 0))
		return rdmamsg_poll(ctx);
	n = ibv_poll_cq(h->cq, 16, wc);
	if (!n)
		return 0;
	return rdmamsg_fast_completed(ctx, wc, n);
}

#ifndef RDMAMSG_FAST_TWINS
#define rdmamsg_open(ret, opts)	\
	rdmamsg_open_fast((ret), (opts), RDMAMSG_FAST_LAYOUT)
#endif

#ifdef __cplusplus
}
#endif

#endif
