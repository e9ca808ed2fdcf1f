/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/verbs_api.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <infiniband/verbs.h>

#include "other_device.h"

#define soft	rdmamsg__verbs_soft

enum call refused;
int refusal, open_error, registered;
struct verbs_api table;
enum ibv_wr_opcode from_op, to_op;
bool other_imm, other_inline, long_windows;
enum ibv_wc_status wc_status;
bool generous, ports_down, no_atomics;
unsigned int no_caps;

static int alive;		/* objects that exist */
static int opened;		/* contexts that are open */
static struct ibv_context_ops ops;
static struct verbs_context vops;

static bool refuses(enum call call)
{
	if (call != refused)
		return false;
	errno = refusal;
	return true;
}

#define MAKE(call, type, real) do { \
		type *made_; \
		if (refuses(call)) \
			return NULL; \
		made_ = (real); \
		alive += made_ != NULL; \
		return made_; \
	} while (0)
#define UNMAKE(real) do { \
		int ret_ = (real); \
		alive -= !ret_; \
		return ret_; \
	} while (0)

static struct ibv_pd *alloc_pd(struct ibv_context *ctx)
{
	MAKE(ALLOC_PD, struct ibv_pd, soft.alloc_pd(ctx));
}

static int dealloc_pd(struct ibv_pd *p)
{
	UNMAKE(soft.dealloc_pd(p));
}

static struct ibv_cq *t_create_cq(struct ibv_context *ctx, int cqe, void *arg,
				  struct ibv_comp_channel *ch, int vector)
{
	MAKE(CREATE_CQ, struct ibv_cq,
	     soft.create_cq(ctx, cqe, arg, ch, vector));
}

static int destroy_cq(struct ibv_cq *q)
{
	UNMAKE(soft.destroy_cq(q));
}

static int resize_cq(struct ibv_cq *q, int cqe)
{
	return refuses(RESIZE_CQ) ? refusal : soft.resize_cq(q, cqe);
}

static struct ibv_mr *reg_mr(struct ibv_pd *p, void *addr, size_t len,
			     int access)
{
	registered++;
	if (generous)
		access &= ~IBV_ACCESS_ON_DEMAND;
	MAKE(REG_MR, struct ibv_mr, soft.reg_mr(p, addr, len, access));
}

static struct mlx5dv_mkey *create_mkey(struct mlx5dv_mkey_init_attr *a)
{
	MAKE(CREATE_MKEY, struct mlx5dv_mkey, soft.mlx5_create_mkey(a));
}

static int destroy_mkey(struct mlx5dv_mkey *k)
{
	UNMAKE(soft.mlx5_destroy_mkey(k));
}

static struct ibv_qp *mlx5_create_qp(struct ibv_context *ctx,
				     struct ibv_qp_init_attr_ex *a,
				     struct mlx5dv_qp_init_attr *m)
{
	MAKE(MLX5_CREATE_QP, struct ibv_qp, soft.mlx5_create_qp(ctx, a, m));
}

static int dereg_mr(struct ibv_mr *m)
{
	UNMAKE(soft.dereg_mr(m));
}

static struct ibv_qp *create_qp(struct ibv_pd *p, struct ibv_qp_init_attr *a)
{
	if (generous && a->qp_type == IBV_QPT_RAW_PACKET)
		a->qp_type = IBV_QPT_UD;
	MAKE(CREATE_QP, struct ibv_qp, soft.create_qp(p, a));
}

static struct ibv_qp *t_create_qp_ex(struct ibv_context *ctx,
				     struct ibv_qp_init_attr_ex *a)
{
	if (generous && a->comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER &&
	    a->qp_type == IBV_QPT_UD)
		a->comp_mask = IBV_QP_INIT_ATTR_PD;
	MAKE(CREATE_QP_EX, struct ibv_qp, soft.create_qp_ex(ctx, a));
}

static int destroy_qp(struct ibv_qp *q)
{
	UNMAKE(soft.destroy_qp(q));
}

static int modify_qp(struct ibv_qp *q, struct ibv_qp_attr *a, int mask)
{
	bool migrates = mask == IBV_QP_PATH_MIG_STATE;
	bool loads = mask & IBV_QP_ALT_PATH;

	if (refuses(MODIFY_QP) || (migrates && refuses(MIGRATE)) ||
	    (loads && refuses(LOAD_PATH)))
		return refusal;
	return soft.modify_qp(q, a, mask);
}

static int query_qp(struct ibv_qp *q, struct ibv_qp_attr *a, int mask,
		    struct ibv_qp_init_attr *init)
{
	return refuses(QUERY_QP) ? refusal : soft.query_qp(q, a, mask, init);
}

static struct ibv_srq *create_srq(struct ibv_pd *p, struct ibv_srq_init_attr *a)
{
	MAKE(CREATE_SRQ, struct ibv_srq, soft.create_srq(p, a));
}

static int destroy_srq(struct ibv_srq *s)
{
	UNMAKE(soft.destroy_srq(s));
}

static struct ibv_ah *create_ah(struct ibv_pd *p, struct ibv_ah_attr *a)
{
	MAKE(CREATE_AH, struct ibv_ah, soft.create_ah(p, a));
}

static int destroy_ah(struct ibv_ah *ah)
{
	UNMAKE(soft.destroy_ah(ah));
}

static int attach_mcast(struct ibv_qp *q, const union ibv_gid *gid,
			uint16_t lid)
{
	return refuses(ATTACH) ? refusal : soft.attach_mcast(q, gid, lid);
}

/* The refused call detaches too, because else the queue pair could not go. */
static int detach_mcast(struct ibv_qp *q, const union ibv_gid *gid,
			uint16_t lid)
{
	int ret = soft.detach_mcast(q, gid, lid);

	return refuses(DETACH) ? refusal : ret;
}

static int query_device(struct ibv_context *ctx, struct ibv_device_attr *a)
{
	int ret = soft.query_device(ctx, a);

	a->device_cap_flags &= ~no_caps;
	if (no_atomics)
		a->atomic_cap = IBV_ATOMIC_NONE;
	/*
	 * another vendor, because the library knows the soft HCA's scope from
	 * its vendor
	 */
	if (no_atomics)
		a->vendor_id = 1;
	return refuses(QUERY_DEVICE) ? refusal : ret;
}

static int query_device_ex(struct ibv_context *ctx,
			   struct ibv_device_attr_ex *a)
{
	int ret = soft.query_device_ex(ctx, a);

	if (generous) {
		a->tso_caps.max_tso = 4321;
		a->rss_caps.supported_qpts = 1u << IBV_QPT_RAW_PACKET;
		a->rss_caps.max_rwq_indirection_table_size = 128;
	}
	return ret;
}

static int query_port(struct ibv_context *ctx, uint8_t port,
		      struct ibv_port_attr *a)
{
	int ret = soft.query_port(ctx, port, a);

	if (ports_down)
		a->state = IBV_PORT_DOWN;
	return refuses(QUERY_PORT) ? refusal : ret;
}

/* ---- calls through the context ----------------------------------------- */

static struct ibv_mw *alloc_mw(struct ibv_pd *p, enum ibv_mw_type type)
{
	MAKE(ALLOC_MW, struct ibv_mw, ops.alloc_mw(p, type));
}

static int dealloc_mw(struct ibv_mw *mw)
{
	UNMAKE(ops.dealloc_mw(mw));
}

static struct ibv_xrcd *open_xrcd(struct ibv_context *ctx,
				  struct ibv_xrcd_init_attr *a)
{
	MAKE(OPEN_XRCD, struct ibv_xrcd, vops.open_xrcd(ctx, a));
}

static int close_xrcd(struct ibv_xrcd *x)
{
	UNMAKE(vops.close_xrcd(x));
}

static int post_send(struct ibv_qp *q, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	if (refuses(POST_SEND))
		return refusal;
	if (from_op != to_op && wr->opcode == from_op)
		wr->opcode = to_op;
	if (other_imm && wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		wr->imm_data ^= 1;
	if (other_inline && wr->send_flags & IBV_SEND_INLINE)
		*(uint8_t *)(uintptr_t)wr->sg_list->addr ^= 1;
	if (long_windows && wr->opcode == IBV_WR_BIND_MW)
		wr->bind_mw.bind_info.length += 64;
	return ops.post_send(q, wr, bad);
}

static int t_post_recv(struct ibv_qp *q, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad)
{
	return refuses(POST_RECV) ? refusal : ops.post_recv(q, wr, bad);
}

static int poll_cq(struct ibv_cq *q, int n, struct ibv_wc *wc)
{
	if (refuses(POLL_CQ))
		return -1;
	n = ops.poll_cq(q, n, wc);
	if (n > 0 && wc_status)
		wc->status = wc_status;
	return n;
}

/* These work queues have no function. */
static struct ibv_wq *create_wq(struct ibv_context *ctx,
				struct ibv_wq_init_attr *a)
{
	static struct ibv_wq wq;

	wq.context = ctx;
	assert_non_null(a->cq);
	MAKE(NONE + 100, struct ibv_wq, &wq);
}

static int modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *a)
{
	assert_int_equal(a->wq_state, IBV_WQS_RDY);
	return 0;
}

static int destroy_wq(struct ibv_wq *wq)
{
	UNMAKE(0);
}

static struct ibv_rwq_ind_table *
create_table(struct ibv_context *ctx, struct ibv_rwq_ind_table_init_attr *a)
{
	static struct ibv_rwq_ind_table tbl;

	tbl.context = ctx;
	assert_non_null(a->ind_tbl[0]);
	MAKE(NONE + 101, struct ibv_rwq_ind_table, &tbl);
}

static int destroy_table(struct ibv_rwq_ind_table *tbl)
{
	UNMAKE(0);
}

static struct ibv_context *t_open_device(struct ibv_device *d)
{
	struct ibv_context *ctx;
	struct verbs_context *v;

	errno = open_error;
	ctx = open_error ? NULL : soft.open_device(d);
	if (!ctx)
		return NULL;
	opened++;
	v = verbs_get_ctx(ctx);
	ops = ctx->ops;
	vops = *v;
	ctx->ops.alloc_mw = alloc_mw;
	ctx->ops.dealloc_mw = dealloc_mw;
	ctx->ops.post_send = post_send;
	ctx->ops.post_recv = t_post_recv;
	ctx->ops.poll_cq = poll_cq;
	v->open_xrcd = open_xrcd;
	v->close_xrcd = close_xrcd;
	if (generous) {
		v->create_wq = create_wq;
		v->modify_wq = modify_wq;
		v->destroy_wq = destroy_wq;
		v->create_rwq_ind_table = create_table;
		v->destroy_rwq_ind_table = destroy_table;
	}
	return ctx;
}

static int t_close_device(struct ibv_context *ctx)
{
	opened--;
	return soft.close_device(ctx);
}

int set_up(void **state)
{
	refused = NONE;
	alive = opened = registered = open_error = 0;
	from_op = to_op = IBV_WR_SEND;
	other_imm = other_inline = long_windows = false;
	generous = ports_down = no_atomics = false;
	wc_status = IBV_WC_SUCCESS;
	no_caps = 0;
	table = soft;
	table.alloc_pd = alloc_pd;
	table.dealloc_pd = dealloc_pd;
	table.create_cq = t_create_cq;
	table.destroy_cq = destroy_cq;
	table.resize_cq = resize_cq;
	table.reg_mr = reg_mr;
	table.mlx5_create_mkey = create_mkey;
	table.mlx5_destroy_mkey = destroy_mkey;
	table.mlx5_create_qp = mlx5_create_qp;
	table.dereg_mr = dereg_mr;
	table.create_qp = create_qp;
	table.create_qp_ex = t_create_qp_ex;
	table.destroy_qp = destroy_qp;
	table.modify_qp = modify_qp;
	table.query_qp = query_qp;
	table.create_srq = create_srq;
	table.destroy_srq = destroy_srq;
	table.create_ah = create_ah;
	table.destroy_ah = destroy_ah;
	table.attach_mcast = attach_mcast;
	table.detach_mcast = detach_mcast;
	table.query_device = query_device;
	table.query_device_ex = query_device_ex;
	table.query_port = query_port;
	table.open_device = t_open_device;
	table.close_device = t_close_device;
	rdmamsg__verbs = &table;
	return 0;
}

int tear_down(void **state)
{
	rdmamsg__verbs = &rdmamsg__verbs_system;
	/* no object leaks, whichever call failed */
	assert_int_equal(alive, 0);
	assert_int_equal(opened, 0);
	return 0;
}
