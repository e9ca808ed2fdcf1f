/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * struct ibv_cq_ex: completion queues that calls poll. next() copies the
 * current completion out of the ring, so the device is not locked between
 * start_poll and end_poll and the program may post. Without the SINGLE_THREADED
 * flag, a mutex is held from start_poll to end_poll.
 */
#include "soft/verbs/cq.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "soft/fabric/limits.h"
#include "soft/fabric/thread.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/ctx.h"
#include "soft/verbs/mr.h"

#define TIMES	(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | \
		 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static struct soft_cq *of(struct ibv_cq_ex *ex)
{
	return (struct soft_cq *)ex;
}

static int next(struct ibv_cq_ex *ex)
{
	struct soft_cq *cq = of(ex);
	int got = soft_poll_cq(&cq->ibv, 1, &cq->cur);

	if (got != 1)
		return got ? EIO : ENOENT;
	ex->wr_id = cq->cur.wr_id;
	ex->status = cq->cur.status;
	return 0;
}

static void end(struct ibv_cq_ex *ex)
{
	if (!of(ex)->single)
		(void)pthread_mutex_unlock(&of(ex)->poll_lock);
}

static int start(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	int ret;

	if (attr->comp_mask)
		return EINVAL;
	if (!of(ex)->single)
		(void)pthread_mutex_lock(&of(ex)->poll_lock);
	ret = next(ex);
	if (ret)
		end(ex);
	return ret;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return of(ex)->cur.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return of(ex)->cur.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return of(ex)->cur.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return of(ex)->cur.imm_data;	/* or the invalidated rkey */
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return of(ex)->cur.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return of(ex)->cur.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return of(ex)->cur.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return of(ex)->cur.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return of(ex)->cur.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return of(ex)->cur.dlid_path_bits;
}

/* A frame has no P_Key, so that its VLAN tag has the place. */
static uint16_t read_cvlan(struct ibv_cq_ex *ex)
{
	return of(ex)->cur.pkey_index;
}

static uint64_t read_time(struct ibv_cq_ex *ex)
{
	return of(ex)->cur_time;
}

/* The raw clock does not follow steps of the wall clock, so convert now. */
static uint64_t read_wall_time(struct ibv_cq_ex *ex)
{
	struct timespec wall;

	(void)clock_gettime(CLOCK_REALTIME, &wall);
	return (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec -
	       (soft_now() - of(ex)->cur_time);
}

/* Returns 0 or an errno. */
static int check(struct ibv_context *verbs,
		 const struct ibv_cq_init_attr_ex *attr, uint32_t set)
{
	const uint32_t masks = IBV_CQ_INIT_ATTR_MASK_FLAGS |
			       IBV_CQ_INIT_ATTR_MASK_PD;
	const uint32_t flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED |
			       IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	const bool iwarp = soft_dev_of(verbs)->iwarp;
	const struct soft_pd *parent = attr->comp_mask &
				       IBV_CQ_INIT_ATTR_MASK_PD ?
		(const struct soft_pd *)attr->parent_domain : NULL;

	if (attr->comp_mask & ~masks || set & ~flags ||
	    attr->cqe > SOFT_MAX_CQE ||
	    attr->wc_flags & ~(uint64_t)IBV_CREATE_CQ_SUP_WC_FLAGS)
		return EINVAL;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD &&
	    (!parent || parent->ibv.context != verbs || !parent->parent_of))
		return EINVAL;
	/* flow tags, tag matching; no driver of iWARP has time stamps */
	return attr->wc_flags & ~(uint64_t)(IBV_WC_STANDARD_FLAGS |
					    (iwarp ? 0 : TIMES) |
					    (soft_is_roce(soft_dev_of(verbs)) ?
					     IBV_WC_EX_WITH_CVLAN : 0)) ?
	       EOPNOTSUPP : 0;
}

struct ibv_cq_ex *soft_create_cq_ex(struct ibv_context *verbs,
				    struct ibv_cq_init_attr_ex *attr)
{
	uint32_t set = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ?
		       attr->flags : 0;
	struct ibv_cq_ex *ex;
	struct ibv_cq *cq;
	int err = check(verbs, attr, set);

	if (err) {
		errno = err;
		return NULL;
	}
	cq = soft_create_cq(verbs, (int)attr->cqe, attr->cq_context,
			    attr->channel, (int)attr->comp_vector);
	if (!cq)
		return NULL;
	if (attr->wc_flags & TIMES) {
		soft_cq(cq)->times = malloc((soft_cq(cq)->mask + 1u) *
					    sizeof(uint64_t));
		if (!soft_cq(cq)->times) {
			(void)soft_destroy_cq(cq);
			errno = ENOMEM;
			return NULL;
		}
	}
	soft_cq(cq)->single = set & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	soft_cq(cq)->ignore_overrun = set & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	(void)pthread_mutex_init(&soft_cq(cq)->poll_lock, NULL);
	ex = &soft_cq(cq)->ex;
	ex->start_poll = start;
	ex->next_poll = next;
	ex->end_poll = end;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
	ex->read_cvlan = read_cvlan;
	ex->read_completion_ts = read_time;
	ex->read_completion_wallclock_ns = read_wall_time;
	return ex;
}
