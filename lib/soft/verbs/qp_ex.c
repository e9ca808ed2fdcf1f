/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * struct ibv_qp_ex: calls build work requests in the entries behind the tail of
 * the send queue, which the engine does not read. complete() locks the device.
 * qp->ex_lock excludes other builders. soft_sq_lock() excludes ibv_post_send(),
 * because it would use the same entries, and would move the tail. If the queue
 * pair is for builders (ex_alone), it takes ex_lock, too, and the calls before
 * complete() lock the device only if the queue seems to be full. Otherwise a
 * builder sets ex_busy under the lock of the device.
 */
#include "config.h"
#include "soft/verbs/qp.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/util.h"
#include "soft/verbs/ah.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/cross.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/dc.h"
#include "soft/verbs/flow.h"

#define QP_EX	(1u << 1)	/* rdma-core libibverbs/driver.h, VERBS_QP_EX */

static struct soft_qp *of(struct ibv_qp_ex *ex)
{
	return soft_qp(&ex->qp_base);
}

struct ibv_qp_ex *soft_qp_to_qp_ex(struct ibv_qp *qp)
{
	return soft_qp(qp)->ex_comp_mask & QP_EX ? &soft_qp(qp)->ex : NULL;
}

void soft_qp_ex_fail(struct soft_qp *qp, int err)
{
	if (!qp->ex_err)
		qp->ex_err = err;
}

static void fail(struct soft_qp *qp, int err)
{
	soft_qp_ex_fail(qp, err);
}

static void take_queue(struct soft_qp *qp)
{
	struct soft_dev *dev = soft_dev_of(qp->ibv.context);

	soft_lock(dev);
	qp->ex_busy = true;
	qp->ex_head = qp->sq_head + qp->told;
	soft_unlock(dev);
}

static void start(struct ibv_qp_ex *ex)
{
	struct soft_qp *qp = of(ex);
	uint32_t used;

	(void)pthread_mutex_lock(&qp->ex_lock);
	if (!qp->ex_alone)
		take_queue(qp);
	qp->ex_tail = qp->sq_tail;
	used = qp->sq_tail - qp->ex_head;
	qp->ex_room = qp->cap.max_send_wr - min(used, qp->cap.max_send_wr);
	qp->ex_count = 0;
	qp->ex_err = 0;
	qp->ex_wqe = NULL;
}

/* Returns true if requests have completed, so that there is room. */
static bool has_room(struct soft_qp *qp)
{
	struct soft_dev *dev = soft_dev_of(qp->ibv.context);

	soft_lock(dev);
	qp->ex_head = qp->sq_head + qp->told;
	qp->ex_room = qp->cap.max_send_wr - soft_sq_used(qp);
	soft_unlock(dev);
	return qp->ex_count < qp->ex_room;
}

struct soft_swqe *soft_qp_ex_begin(struct soft_qp *qp, enum ibv_wr_opcode op)
{
	const struct ibv_qp_ex *ex = &qp->ex;
	struct soft_swqe *wqe;

	qp->ex_wqe = NULL;
	if (unlikely(qp->ex_count >= qp->ex_room) && !has_room(qp))
		fail(qp, ENOMEM);
	if (unlikely(qp->ex_err))
		return NULL;
	wqe = &qp->sq[(qp->ex_tail + qp->ex_count++) & qp->sq_mask];
	wqe->wr_id = ex->wr_id;
	wqe->op = (uint8_t)op;
	wqe->flags = ex->wr_flags;
	wqe->signaled = qp->sq_sig_all || ex->wr_flags & IBV_SEND_SIGNALED;
	wqe->started = wqe->done = wqe->again = wqe->inlined = false;
	wqe->told = false;
	wqe->status = IBV_WC_SUCCESS;
	wqe->sent = wqe->length = wqe->num_sge = 0;
	wqe->imm = wqe->srqn = 0;
	wqe->raddr = 0;
	wqe->rkey = 0;
	wqe->ah = NULL;
	qp->ex_wqe = wqe;
	return wqe;
}

/* Returns a new request, or NULL after an error. */
static struct soft_swqe *begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode op,
			       uint64_t flag)
{
	if (unlikely(!(of(ex)->ex_ops & flag)))
		fail(of(ex), EOPNOTSUPP);
	return soft_qp_ex_begin(of(ex), op);
}

static void begin_remote(struct ibv_qp_ex *ex, enum ibv_wr_opcode op,
			 uint64_t flag, uint32_t rkey, uint64_t raddr,
			 uint32_t imm)
{
	struct soft_swqe *wqe = begin(ex, op, flag);

	if (unlikely(!wqe))
		return;
	wqe->rkey = rkey;
	wqe->raddr = raddr;
	wqe->imm = imm;
}

static void wr_cas(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr,
		   uint64_t compare, uint64_t swap)
{
	begin_remote(ex, IBV_WR_ATOMIC_CMP_AND_SWP,
		     IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, rkey, raddr, 0);
	if (of(ex)->ex_wqe) {
		of(ex)->ex_wqe->compare_add = compare;
		of(ex)->ex_wqe->swap = swap;
	}
}

static void wr_faa(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr,
		   uint64_t add)
{
	begin_remote(ex, IBV_WR_ATOMIC_FETCH_AND_ADD,
		     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, rkey, raddr, 0);
	if (of(ex)->ex_wqe)
		of(ex)->ex_wqe->compare_add = add;
}

static void wr_bind(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		    const struct ibv_mw_bind_info *info)
{
	struct soft_swqe *wqe = begin(ex, IBV_WR_BIND_MW,
				      IBV_QP_EX_WITH_BIND_MW);

	if (unlikely(!wqe))
		return;
	if (mw->type != IBV_MW_TYPE_2)
		fail(of(ex), EINVAL);
	else if (soft_mw_prepare(wqe, mw, rkey, info))
		fail(of(ex), EINVAL);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	begin_remote(ex, IBV_WR_LOCAL_INV, IBV_QP_EX_WITH_LOCAL_INV, 0, 0,
		     rkey);
}

static void wr_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr)
{
	begin_remote(ex, IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ, rkey,
		     raddr, 0);
}

static void wr_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr)
{
	begin_remote(ex, IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, rkey,
		     raddr, 0);
}

static void wr_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr,
			 __be32 imm)
{
	begin_remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM,
		     IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, rkey, raddr, imm);
}

static void wr_send(struct ibv_qp_ex *ex)
{
	(void)begin(ex, IBV_WR_SEND, IBV_QP_EX_WITH_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	begin_remote(ex, IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM, 0,
		     0, imm);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	begin_remote(ex, IBV_WR_SEND_WITH_INV, IBV_QP_EX_WITH_SEND_WITH_INV, 0,
		     0, rkey);
}

static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t size,
			uint16_t mss)
{
	struct soft_swqe *wqe = begin(ex, IBV_WR_TSO, IBV_QP_EX_WITH_TSO);

	if (wqe && soft_tso_take(of(ex), wqe, hdr, size, mss))
		fail(of(ex), EINVAL);
}

#ifdef HAVE_ATOMIC_WRITE
static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey,
			    uint64_t raddr, const void *value)
{
	of(ex)->ex_wqe = NULL;
	fail(of(ex), EOPNOTSUPP);
}
#endif

/* ---- setters ---------------------------------------------------------- */

static void set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn,
			uint32_t qkey)
{
	struct soft_swqe *wqe = of(ex)->ex_wqe;

	if (unlikely(!wqe || !ah || ah->pd != of(ex)->ibv.pd ||
		     of(ex)->dci)) {
		fail(of(ex), EINVAL);
		return;
	}
	wqe->ah = (struct soft_ah *)ah;
	wqe->dest_qpn = qpn & 0xffffff;
	wqe->qkey = qkey;
}

void soft_qp_ex_aim(struct soft_qp *qp, struct ibv_ah *ah, uint32_t dctn,
		    uint64_t key, uint16_t stream)
{
	struct soft_swqe *wqe = qp->ex_wqe;

	if (unlikely(!wqe || !ah || ah->pd != qp->ibv.pd ||
		     ((struct soft_ah *)ah)->mcast)) {
		fail(qp, EINVAL);
		return;
	}
	wqe->ah = (struct soft_ah *)ah;
	wqe->dest_qpn = dctn & 0xffffff;
	wqe->stream = stream;
	qp->dci->keys[wqe - qp->sq] = key;
}

static void set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	if (likely(of(ex)->ex_wqe))
		of(ex)->ex_wqe->srqn = srqn;
	else
		fail(of(ex), EINVAL);
}

static void set_inline_data_list(struct ibv_qp_ex *ex, size_t n,
				 const struct ibv_data_buf *list)
{
	struct soft_qp *qp = of(ex);
	struct soft_swqe *wqe = qp->ex_wqe;
	size_t length = 0;

	for (size_t i = 0; wqe && i < n; i++) {
		if (list[i].length > qp->cap.max_inline_data - length) {
			wqe = NULL;
			break;
		}
		memcpy(wqe->data + length, list[i].addr, list[i].length);
		length += list[i].length;
	}
	if (unlikely(!wqe)) {
		fail(qp, EINVAL);
		return;
	}
	wqe->inlined = true;
	wqe->length = (uint32_t)length;
}

static void set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	const struct ibv_data_buf one = { addr, length };

	set_inline_data_list(ex, 1, &one);
}

static void set_sge_list(struct ibv_qp_ex *ex, size_t n,
			 const struct ibv_sge *list)
{
	struct soft_qp *qp = of(ex);
	struct soft_swqe *wqe = qp->ex_wqe;
	uint64_t length = 0;

	if (unlikely(!wqe || n > qp->cap.max_send_sge ||
		     (n > 1 && wqe->op == IBV_WR_RDMA_READ &&
		      soft_dev_of(qp->ibv.context)->iwarp))) {
		fail(qp, EINVAL);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		wqe->sge[i] = list[i];
		length += list[i].length;
	}
	if (unlikely(length > SOFT_MAX_MSG)) {
		fail(qp, EINVAL);
		return;
	}
	wqe->num_sge = (uint32_t)n;
	wqe->length = (uint32_t)length;
}

static void set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr,
		    uint32_t length)
{
	const struct ibv_sge one = { addr, length, lkey };

	set_sge_list(ex, 1, &one);
}

/* ---- complete, abort -------------------------------------------------- */

/* Returns true if the request lacks its address. */
static bool lacks_address(const struct soft_qp *qp,
			  const struct soft_swqe *wqe)
{
	return qp->addressed && !wqe->ah && !soft_is_local(wqe);
}

static int check_built(const struct soft_qp *qp)
{
	if (qp->ex_err)
		return qp->ex_err;
	for (uint32_t i = 0; i < qp->ex_count; i++) {
		const struct soft_swqe *wqe = &qp->sq[(qp->ex_tail + i) &
						      qp->sq_mask];

		if ((wqe->op == IBV_WR_ATOMIC_CMP_AND_SWP ||
		     wqe->op == IBV_WR_ATOMIC_FETCH_AND_ADD) &&
		    (wqe->length != 8 || wqe->inlined))
			return EINVAL;
		if (qp->raw && (wqe->op == IBV_WR_TSO ? !wqe->length ||
				wqe->length > SOFT_MAX_TSO :
				wqe->length < FRAME_HEADER))
			return EINVAL;
		if (wqe->op == IBV_WR_RDMA_READ && wqe->inlined)
			return EINVAL;
		/* a definition of a key counts its missing setters in 'sent' */
		if (lacks_address(qp, wqe) ||
		    (wqe->op == SOFT_WR_UMR && wqe->sent))
			return EINVAL;
	}
	return 0;
}

/* Checks what the requests name. */
static int check_cross(struct soft_dev *dev, const struct soft_qp *qp)
{
	for (uint32_t i = 0; i < qp->ex_count; i++)
		if (!soft_cross_names(dev, &qp->sq[(qp->sq_tail + i) &
						   qp->sq_mask]))
			return EINVAL;
	return 0;
}

static int complete(struct ibv_qp_ex *ex)
{
	struct soft_qp *qp = of(ex);
	struct soft_dev *dev = soft_dev_of(qp->ibv.context);
	int ret = check_built(qp);

	soft_lock(dev);
	if (!ret)
		ret = soft_sq_may_post(qp);
	/* another thread may have reset the queue pair */
	if (!ret && qp->ex_tail != qp->sq_tail)
		ret = EINVAL;
	if (!ret && unlikely(qp->create_flags & SOFT_CROSS_CHANNEL))
		ret = check_cross(dev, qp);
	for (uint32_t i = 0; !ret && i < qp->ex_count; i++) {
		struct soft_swqe *wqe = &qp->sq[qp->sq_tail & qp->sq_mask];

		if (qp->addressed && wqe->ah)
			wqe->ah->users++;
		soft_sq_commit(qp, wqe);
	}
	if (!ret)
		soft_sq_kick(dev, qp);
	qp->ex_head = qp->sq_head + qp->told;
	qp->ex_busy = false;
	soft_unlock(dev);
	(void)pthread_mutex_unlock(&qp->ex_lock);
	return ret;
}

static void abandon(struct ibv_qp_ex *ex)
{
	struct soft_dev *dev = soft_dev_of(of(ex)->ibv.context);

	soft_lock(dev);
	of(ex)->ex_busy = false;
	soft_unlock(dev);
	(void)pthread_mutex_unlock(&of(ex)->ex_lock);
}

/* ---- creation --------------------------------------------------------- */

#define DATAGRAM_OPS	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define RAW_OPS		(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO)
#define UC_OPS		(DATAGRAM_OPS | IBV_QP_EX_WITH_RDMA_WRITE | \
			 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | \
			 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)
#define RC_OPS		(UC_OPS | IBV_QP_EX_WITH_RDMA_READ | \
			 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
			 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | \
			 IBV_QP_EX_WITH_SEND_WITH_INV)
#ifdef HAVE_ATOMIC_WRITE
#define ATOMIC_WRITE	IBV_QP_EX_WITH_ATOMIC_WRITE
#else
#define ATOMIC_WRITE	0
#endif
#define ALL_OPS		(RC_OPS | IBV_QP_EX_WITH_TSO | ATOMIC_WRITE)

#define NOT_IWARP_OPS	(IBV_QP_EX_WITH_SEND_WITH_IMM | \
			 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | \
			 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
			 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

int soft_qp_ex_check(const struct soft_dev *dev, enum ibv_qp_type type,
		     uint64_t ops)
{
	uint64_t can = type == IBV_QPT_UD ? DATAGRAM_OPS :
		       type == IBV_QPT_RAW_PACKET ? RAW_OPS :
		       type == IBV_QPT_UC ? UC_OPS :
		       type == IBV_QPT_XRC_RECV ? 0 : RC_OPS;

	if (dev->iwarp)
		can &= ~(uint64_t)NOT_IWARP_OPS;
	if (ops & ~(uint64_t)ALL_OPS)
		return EINVAL;
	return ops & ~can ? EOPNOTSUPP : 0;
}

void soft_qp_ex_all(struct soft_qp *qp)
{
	qp->ex_ops |= RC_OPS;
}

void soft_qp_ex_init(struct soft_qp *qp, uint64_t ops)
{
	struct ibv_qp_ex *ex = &qp->ex;

	qp->ex_ops = ops;
	qp->ex_alone = true;
	qp->ex_comp_mask |= QP_EX;
	ex->wr_atomic_cmp_swp = wr_cas;
	ex->wr_atomic_fetch_add = wr_faa;
	ex->wr_bind_mw = wr_bind;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_read = wr_read;
	ex->wr_rdma_write = wr_write;
	ex->wr_rdma_write_imm = wr_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_set_ud_addr = set_ud_addr;
	ex->wr_set_xrc_srqn = set_xrc_srqn;
	ex->wr_set_inline_data = set_inline_data;
	ex->wr_set_inline_data_list = set_inline_data_list;
	ex->wr_set_sge = set_sge;
	ex->wr_set_sge_list = set_sge_list;
	ex->wr_start = start;
	ex->wr_complete = complete;
	ex->wr_abort = abandon;
#ifdef HAVE_ATOMIC_WRITE
	ex->wr_atomic_write = wr_atomic_write;
#endif
}
