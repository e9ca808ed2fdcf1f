/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fast path, inlined down to ibv_post_send() and ibv_poll_cq(). It needs
 * the headers of libibverbs, and no library besides librdmamsg. The two inline
 * functions handle the ordinary case, and call the library in all others. The
 * library also exports both functions.
 *
 * The inline functions use structs of the library. The library exports the
 * symbol rdmamsg_fast_layout_N, where N is the number of its layout. A program
 * compiled with another layout neither links nor loads: the symbol is missing.
 */
#ifndef RDMAMSG_FAST_H
#define RDMAMSG_FAST_H

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Layout of the structs below. The symbol further down has this number. */
#define RDMAMSG_FAST_LAYOUT	3

/* The head of struct rdmamsg_ep. Private: programs must not use it. */
struct rdmamsg_hot_ep {
	struct ibv_qp *qp;
	uint64_t wr_id;		/* upper half of wr_id of every request */
	uint64_t bytes_sent;
	uint64_t sq_posted;	/* requests posted in all */
	uint32_t len_end;	/* fast path: len < len_end */
	uint32_t look_at;	/* the earlier of stop and signal_at */
	uint32_t stop;		/* sq_posted at which there is no room */
	uint32_t signal_at;	/* sq_posted of the next signalled request */
	uint32_t signal_every;	/* requests per signalled request */
	uint32_t number;	/* of the next message */
	uint32_t low;		/* lower half of its immediate data */
	struct ibv_sge sge;
	struct ibv_send_wr wr;
};

/* The head of struct rdmamsg. Private. */
struct rdmamsg_hot_ctx {
	struct ibv_cq *cq;
	int32_t polls;		/* until the next rdmamsg_poll() */
	struct ibv_wc wc[16];
};

/* in strict C, <endian.h> does not define htole32() */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define RDMAMSG_LE32(x)	(x)
#else
#define RDMAMSG_LE32(x)	__builtin_bswap32(x)
#endif

#ifndef RDMAMSG_INLINE
#define RDMAMSG_INLINE static inline
#endif

/*
 * The library defines the symbol of its layout. Each file that includes this
 * header has a pointer to the symbol. The loader resolves pointers when it
 * loads the program, even with lazy binding of functions.
 */
extern const char rdmamsg_fast_layout_3;
#ifndef RDMAMSG_FAST_TWINS
#if defined(__has_attribute)
#if __has_attribute(__retain__)
__attribute__((__retain__))	/* with --gc-sections as well */
#endif
#endif
__attribute__((__used__))
static const char *const rdmamsg_fast_layout = &rdmamsg_fast_layout_3;
#endif

/* Handles n completions of rdmamsg_fast_poll(). Programs do not call it. */
void rdmamsg_fast_completed(struct rdmamsg *ctx, int n);

/*
 * rdmamsg_send() without a cookie. Fast path: len <= inline_max of the
 * endpoint, and tag <= 65535.
 */
RDMAMSG_INLINE int rdmamsg_fast_send(struct rdmamsg_ep *ep, const void *buf,
				     size_t len, uint32_t tag)
{
	struct rdmamsg_hot_ep *h = (struct rdmamsg_hot_ep *)ep;
	uint32_t at;
	struct ibv_send_wr *bad;

	if (__builtin_expect(!h || len >= h->len_end || tag > 0xffff, 0))
		return rdmamsg_send(ep, buf, len, tag, NULL);
	at = (uint32_t)h->sq_posted;
	if (__builtin_expect(at == h->look_at, 0)) {
		if (at == h->stop)
			return rdmamsg_send(ep, buf, len, tag, NULL);
		h->wr.send_flags |= IBV_SEND_SIGNALED;
		h->signal_at += h->signal_every;
		h->look_at = (int32_t)(h->stop - h->signal_at) < 0 ?
			     h->stop : h->signal_at;
	}
	h->wr.imm_data = RDMAMSG_LE32(tag << 16 | h->low);
	h->sge.addr = (uintptr_t)buf;
	h->sge.length = (uint32_t)len;
	h->wr.num_sge = len != 0;
	h->wr.wr_id = h->wr_id | (at & 0x7fffffffu);
	h->bytes_sent += len;
	if (__builtin_expect(ibv_post_send(h->qp, &h->wr, &bad), 0)) {
		h->bytes_sent -= len;
		h->len_end = 0;
		return rdmamsg_send(ep, buf, len, tag, NULL);
	}

	h->wr.send_flags = IBV_SEND_INLINE;
	h->low = ++h->number & 0xf;
	h->sq_posted++;
	return 0;
}

/* rdmamsg_poll(). Fast path: the context has one completion queue. */
RDMAMSG_INLINE int rdmamsg_fast_poll(struct rdmamsg *ctx)
{
	struct rdmamsg_hot_ctx *h = (struct rdmamsg_hot_ctx *)ctx;
	int n;

	if (__builtin_expect(!h || --h->polls < 0, 0))
		return rdmamsg_poll(ctx);
	n = ibv_poll_cq(h->cq, 16, h->wc);
	if (n > 0)
		rdmamsg_fast_completed(ctx, n);
	else if (__builtin_expect(n < 0, 0))
		return rdmamsg_poll(ctx);
	return n;
}

#ifdef __cplusplus
}
#endif

#endif
