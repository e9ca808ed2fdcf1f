/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One struct for every kind of operation, and the call that begins it on an
 * endpoint. rdmamsg_dc_post(), rdmamsg_group_post() and rdmamsg_chain_add()
 * take the same struct.
 */
#ifndef RDMAMSG_POST_H
#define RDMAMSG_POST_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdmamsg_key;
struct rdmamsg_layout;
struct rdmamsg_sge;

enum rdmamsg_op_kind {
	RDMAMSG_OP_SEND = 1,		/* a message */
	RDMAMSG_OP_WRITE,
	RDMAMSG_OP_READ,
	RDMAMSG_OP_FETCH_ADD,
	RDMAMSG_OP_COMPARE_SWAP,
	RDMAMSG_OP_FLUSH,		/* earlier writes have arrived */
};

enum rdmamsg_op_flags {
	/* besides RDMAMSG_FENCE. WRITE: the peer gets on_written with imm */
	RDMAMSG_OP_NOTIFY = 1u << 1,
	/* SEND to a group in raw mode: the datagram has immediate data */
	RDMAMSG_OP_IMM = 1u << 2,
};

/*
 * An operation. No kind copies a message: that is rdmamsg_send(), and allocated
 * messages are for rdmamsg_msg_send(). A field that its kind does not use is 0.
 * The call copies the struct, and what 'key', 'operand', 'compare' and the
 * masks point to. What 'sge', 'layout' and 'result' point to is lent until
 * on_complete (but see RDMAMSG_OVERDUE), or until on_closed if there is no
 * cookie; the array of entries itself is copied.
 */
struct rdmamsg_op {
	size_t size;
	uint32_t kind;			/* enum rdmamsg_op_kind */
	uint32_t flags;			/* enum rdmamsg_op_flags, _rma_flags */
	void *cookie;			/* NULL: no on_complete */

	/* SEND, WRITE: from; READ: into; up to RDMAMSG_SEGMENTS_MAX */
	const struct rdmamsg_sge *sge;
	uint32_t count;
	uint32_t tag;			/* SEND */
	uint32_t imm;			/* with RDMAMSG_OP_NOTIFY or _IMM */

	/* atomics: bytes of the operand; 0: 8, without masks */
	uint32_t width;
	/*
	 * The peer's memory. SEND: the window that the message invalidates, or
	 * NULL.
	 */
	const struct rdmamsg_key *key;
	uint64_t offset;		/* from the beginning of the key */

	/* SEND: 'len' bytes of a layout from 'offset' on, in place of sge */
	struct rdmamsg_layout *layout;
	size_t len;

	/* atomics: of 'width' bytes each, of any alignment */
	const void *operand;		/* to add, or to write */
	const void *compare;		/* COMPARE_SWAP: the value expected */
	/* COMPARE_SWAP: bits to write; FETCH_ADD: top bits of the fields */
	const void *mask;
	const void *compare_mask;	/* COMPARE_SWAP: bits to compare */
	void *result;			/* the value before, or NULL */

	/*
	 * From the call on; 0: none; needs a cookie and an endpoint, not a
	 * group, chain or address of DC. See RDMAMSG_OVERDUE
	 */
	uint32_t timeout_ms;
	/* with timeout_ms: the end after RDMAMSG_OVERDUE; or NULL */
	void (*on_late)(struct rdmamsg_ep *ep, void *cookie, int status);
};

/*
 * Statuses of on_complete after timeout_ms, if the operation has not ended. The
 * connection goes on, and later operations are not affected.
 *
 * RDMAMSG_TIMED_OUT: the operation had not begun, and never will: the peer gets
 * nothing of the message, and no memory was or will be read or written. What
 * was lent is the program's again.
 *
 * RDMAMSG_OVERDUE: the operation has begun and cannot be taken back. A message
 * may or may not arrive, a WRITE or atomic operation may or may not change the
 * peer's memory, now or later, and a READ may still write to 'sge'. What was
 * lent stays lent, 'result' as well, until on_late, or until on_closed without
 * on_late. on_complete does not come again.
 *
 * on_late comes once for each operation with RDMAMSG_OVERDUE, before on_closed,
 * with the status that on_complete would have had: 0 if the operation is done
 * after all, and its data is there. Then what was lent is the program's again.
 */
#define RDMAMSG_TIMED_OUT	(-110)	/* -ETIMEDOUT */
#define RDMAMSG_OVERDUE		(-62)	/* -ETIME */

/*
 * Begins the operation, as the short form of its kind does: rdmamsg_sendv(),
 * rdmamsg_write(), rdmamsg_read(), rdmamsg_fetch_add(), rdmamsg_compare_swap(),
 * rdmamsg_flush(), with the same errors and the same order. -EINVAL: there is
 * no such kind, or a field is not 0 that the kind does not use; rdmamsg_error()
 * names the field. -EINVAL: timeout_ms without a cookie or above INT32_MAX,
 * on_late without timeout_ms. -ENOMEM. The context's thread.
 *
 * A SEND with regions: a message above eager_max of rdmamsg_ep_query() is
 * neither copied nor registered again, because the peer reads it with the keys
 * of the regions. Each needs RDMAMSG_ACCESS_READ (-EACCES), because a key
 * reaches its whole region until the program revokes it. A SEND of a layout
 * lends its memory; up to RDMAMSG_SEGMENTS_MAX blocks are not copied, more are.
 * A SEND that invalidates a window has up to eager_max bytes; a key that is
 * not, or no longer, of a window bound for this endpoint ends the connection.
 *
 * WRITE with RDMAMSG_OP_NOTIFY: behind the write the peer gets on_written with
 * 'imm', in order with the messages. It takes a credit, like an empty message.
 *
 * Extended atomics ('width' is not 0) have operands of 4, 8, 16 or 32 bytes: a
 * uint32_t, a uint64_t, or 2 or 4 uint64_t in the order of their addresses. The
 * address is a multiple of 'width'. COMPARE_SWAP: a mask of NULL has all bits
 * set. FETCH_ADD: no field carries into the next. A set bit in 'mask' is the
 * top bit of a field, and the top bit of the operand always is; NULL makes each
 * integer one field. Endpoints whose devices lack these operations do them in
 * software, with operands of 4 and 8 bytes: rdmamsg_ep_masked_query(). There
 * on_complete reports -EBUSY if too many others change the value. -EOPNOTSUPP:
 * no operands of this size here.
 */
int rdmamsg_post(struct rdmamsg_ep *ep, const struct rdmamsg_op *op);

#ifdef __cplusplus
}
#endif

#endif
