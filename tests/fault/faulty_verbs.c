/* SPDX-License-Identifier: BSD-2-Clause */
/* A verbs table whose calls fail on demand. */
#include "device/verbs_api.h"
#include "qp/rawqp.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <stdlib.h>
#include <rdmamsg/verbs.h>

#include "faulty_call.h"

/* ---- limbo: objects whose destruction failed -------------------------- */

static struct limbo {
	enum faulty_kind kind;
	void *obj;
} limbo[256];
static int limbo_count;

void faulty_limbo_add(enum faulty_kind kind, void *obj)
{
	if (limbo_count == (int)(sizeof(limbo) / sizeof(limbo[0])))
		abort();
	limbo[limbo_count++] = (struct limbo){ kind, obj };
}

static int unmake(const struct limbo *l)
{
	switch (l->kind) {
	case FAULTY_QPS:
		return ibv_destroy_qp(l->obj);
	case FAULTY_MKEYS:
		return rdmamsg__verbs_system.mlx5_destroy_mkey(l->obj);
	case FAULTY_CQS:
		return ibv_destroy_cq(l->obj);
	case FAULTY_SRQS:
		return ibv_destroy_srq(l->obj);
	case FAULTY_MRS:
		return ibv_dereg_mr(l->obj);
	case FAULTY_MWS:
		return faulty_ops.dealloc_mw(l->obj);
	case FAULTY_CHANNELS:
		return ibv_destroy_comp_channel(l->obj);
	case FAULTY_PDS:
		return ibv_dealloc_pd(l->obj);
	case FAULTY_DEVICES:
		return ibv_close_device(l->obj);
	case FAULTY_IDS:
		return rdmamsg__verbs_system.destroy_id(l->obj);
	default:
		abort();
	}
}

/* Returns true if a struct rdmamsg_qp will destroy the queue pair again. */
static bool is_owned(const struct limbo *l)
{
	const struct rdmamsg_qp *q = l->kind == FAULTY_QPS ?
				     rdmamsg__rawqp_of(l->obj) : NULL;

	return q && q->ctx;
}

static void limbo_forget(const void *obj)
{
	int n = 0;

	for (int i = 0; i < limbo_count; i++)
		if (limbo[i].obj != obj)
			limbo[n++] = limbo[i];
	limbo_count = n;
}

void faulty_limbo_empty(void)
{
	static bool inside;
	int n = 0;

	if (inside)
		return;
	inside = true;
	for (int i = 0; i < limbo_count; i++) {
		if (is_owned(&limbo[i]))
			limbo[n++] = limbo[i];
		else if (unmake(&limbo[i]))
			fprintf(stderr, "faulty: %s could not be unmade: %m\n",
				faulty_kinds[limbo[i].kind]);
		else
			faulty_living[limbo[i].kind]--;
	}
	limbo_count = n;
	inside = false;
}

/* ---- devices ---------------------------------------------------------- */

static struct ibv_device **get_device_list(int *num)
{
	MAKE(get_device_list, FAULTY_LISTS, struct ibv_device *,
	     ibv_get_device_list(num));
}

static void free_device_list(struct ibv_device **list)
{
	faulty_living[FAULTY_LISTS]--;
	ibv_free_device_list(list);
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	struct ibv_context *verbs;

	faulty_limbo_empty();
	FAIL_N(open_device);
	verbs = ibv_open_device(device);
	if (verbs) {
		faulty_living[FAULTY_DEVICES]++;
		faulty_patch(verbs);
	}
	return verbs;
}

static int close_device(struct ibv_context *verbs)
{
	UNMAKE(close_device, FAULTY_DEVICES, verbs, ibv_close_device(verbs));
}

static int query_device(struct ibv_context *verbs, struct ibv_device_attr *attr)
{
	FAIL_P(query_device);
	return ibv_query_device(verbs, attr);
}

static int query_device_ex(struct ibv_context *verbs,
			   struct ibv_device_attr_ex *attr)
{
	FAIL_P(query_device_ex);
	return ibv_query_device_ex(verbs, NULL, attr);
}

static int query_port(struct ibv_context *verbs, uint8_t port,
		      struct ibv_port_attr *attr)
{
	FAIL_P(query_port);
	return ibv_query_port(verbs, port, attr);
}

static int query_gid(struct ibv_context *verbs, uint8_t port, int index,
		     union ibv_gid *gid)
{
	FAIL_M(query_gid);
	return ibv_query_gid(verbs, port, index, gid);
}

static int query_gid_ex(struct ibv_context *verbs, uint32_t port,
			uint32_t index, struct ibv_gid_entry *entry)
{
	FAIL_P(query_gid_ex);
	return ibv_query_gid_ex(verbs, port, index, entry, 0);
}

static int query_pkey(struct ibv_context *verbs, uint8_t port, int index,
		      __be16 *pkey)
{
	FAIL_M(query_pkey);
	return ibv_query_pkey(verbs, port, index, pkey);
}

static struct ibv_async_event fake_event;
static enum { FAKE_NONE, FAKE_READY, FAKE_TAKEN } fake;

void faulty_async_event(const struct ibv_async_event *ev)
{
	fake_event = *ev;
	fake = FAKE_READY;
}

static int get_async_event(struct ibv_context *verbs,
			   struct ibv_async_event *ev)
{
	FAIL_M(get_async_event);
	if (fake == FAKE_READY) {
		fake = FAKE_TAKEN;
		*ev = fake_event;
		return 0;
	}
	return ibv_get_async_event(verbs, ev);
}

static void ack_async_event(struct ibv_async_event *ev)
{
	if (fake == FAKE_TAKEN)
		fake = FAKE_NONE;
	else
		ibv_ack_async_event(ev);
}

static struct ibv_pd *alloc_pd(struct ibv_context *verbs)
{
	MAKE(alloc_pd, FAULTY_PDS, struct ibv_pd, ibv_alloc_pd(verbs));
}

static int dealloc_pd(struct ibv_pd *pd)
{
	UNMAKE(dealloc_pd, FAULTY_PDS, pd, ibv_dealloc_pd(pd));
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			     int access)
{
	MAKE(reg_mr, FAULTY_MRS, struct ibv_mr,
	     ibv_reg_mr(pd, addr, len, access));
}

static struct ibv_mr *reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len,
				  uint64_t iova, int access)
{
	MAKE(reg_mr_iova, FAULTY_MRS, struct ibv_mr,
	     ibv_reg_mr_iova(pd, addr, len, iova, access));
}

static int dereg_mr(struct ibv_mr *mr)
{
	UNMAKE(dereg_mr, FAULTY_MRS, mr, ibv_dereg_mr(mr));
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *verbs)
{
	MAKE(create_comp_channel, FAULTY_CHANNELS, struct ibv_comp_channel,
	     ibv_create_comp_channel(verbs));
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
	UNMAKE(destroy_comp_channel, FAULTY_CHANNELS, channel,
	       ibv_destroy_comp_channel(channel));
}

static struct ibv_cq *create_cq(struct ibv_context *verbs, int cqe, void *arg,
				struct ibv_comp_channel *channel, int vector)
{
	MAKE(create_cq, FAULTY_CQS, struct ibv_cq,
	     ibv_create_cq(verbs, cqe, arg, channel, vector));
}

static int destroy_cq(struct ibv_cq *cq)
{
	UNMAKE(destroy_cq, FAULTY_CQS, cq, ibv_destroy_cq(cq));
}

static int resize_cq(struct ibv_cq *cq, int cqe)
{
	FAIL_P(resize_cq);
	return ibv_resize_cq(cq, cqe);
}

static struct ibv_srq *create_srq(struct ibv_pd *pd,
				  struct ibv_srq_init_attr *attr)
{
	MAKE(create_srq, FAULTY_SRQS, struct ibv_srq, ibv_create_srq(pd, attr));
}

static struct ibv_srq *create_srq_ex(struct ibv_context *verbs,
				     struct ibv_srq_init_attr_ex *attr)
{
	MAKE(create_srq_ex, FAULTY_SRQS, struct ibv_srq,
	     ibv_create_srq_ex(verbs, attr));
}

static int modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	FAIL_P(modify_srq);
	return ibv_modify_srq(srq, attr, mask);
}

static int destroy_srq(struct ibv_srq *srq)
{
	UNMAKE(destroy_srq, FAULTY_SRQS, srq, ibv_destroy_srq(srq));
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
			void **arg)
{
	faulty_limbo_empty();
	if (faulty_delayed()) {
		errno = EAGAIN;
		return -1;
	}
	FAIL_M(get_cq_event);
	return ibv_get_cq_event(channel, cq, arg);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd,
				struct ibv_qp_init_attr *attr)
{
	MAKE(create_qp, FAULTY_QPS, struct ibv_qp, ibv_create_qp(pd, attr));
}

static struct ibv_qp *create_qp_ex(struct ibv_context *verbs,
				   struct ibv_qp_init_attr_ex *attr)
{
	MAKE(create_qp_ex, FAULTY_QPS, struct ibv_qp,
	     ibv_create_qp_ex(verbs, attr));
}

static struct ibv_qp_ex *qp_to_qp_ex(struct ibv_qp *qp)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	faulty_patch_ex(ex);
	return ex;
}

static struct ibv_ah *create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	MAKE(create_ah, FAULTY_AHS, struct ibv_ah, ibv_create_ah(pd, attr));
}

static int destroy_ah(struct ibv_ah *ah)
{
	faulty_living[FAULTY_AHS]--;
	return ibv_destroy_ah(ah);
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	FAIL_P(modify_qp);
	return ibv_modify_qp(qp, attr, mask);
}

static int query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		    struct ibv_qp_init_attr *init)
{
	FAIL_P(query_qp);
	return ibv_query_qp(qp, attr, mask, init);
}

static int destroy_qp(struct ibv_qp *qp)
{
	limbo_forget(qp);
	UNMAKE(destroy_qp, FAULTY_QPS, qp, ibv_destroy_qp(qp));
}

/* ---- libmlx5 ------------------------------------------------------------ */

static const struct verbs_api *const real = &rdmamsg__verbs_system;

static bool mlx5_is_supported(struct ibv_device *device)
{
	return real->mlx5_is_supported(device);
}

static struct ibv_qp *mlx5_create_qp(struct ibv_context *verbs,
				     struct ibv_qp_init_attr_ex *attr,
				     struct mlx5dv_qp_init_attr *mlx5)
{
	MAKE(mlx5_create_qp, FAULTY_QPS, struct ibv_qp,
	     real->mlx5_create_qp(verbs, attr, mlx5));
}

static struct mlx5dv_qp_ex *mlx5_qp_ex_from_ibv_qp_ex(struct ibv_qp_ex *ex)
{
	return real->mlx5_qp_ex_from_ibv_qp_ex(ex);
}

static struct mlx5dv_mkey *mlx5_create_mkey(struct mlx5dv_mkey_init_attr *attr)
{
	MAKE(mlx5_create_mkey, FAULTY_MKEYS, struct mlx5dv_mkey,
	     real->mlx5_create_mkey(attr));
}

static int mlx5_destroy_mkey(struct mlx5dv_mkey *mkey)
{
	UNMAKE(mlx5_destroy_mkey, FAULTY_MKEYS, mkey,
	       real->mlx5_destroy_mkey(mkey));
}

static int mlx5_init_obj(struct mlx5dv_obj *obj, uint64_t types)
{
	FAIL_P(mlx5_init_obj);
	return real->mlx5_init_obj(obj, types);
}

/* ---- connections ------------------------------------------------------ */

static struct rdma_event_channel *create_event_channel(void)
{
	MAKE(create_event_channel, FAULTY_CM_CHANNELS,
	     struct rdma_event_channel, real->create_event_channel());
}

static void destroy_event_channel(struct rdma_event_channel *channel)
{
	faulty_limbo_empty();
	faulty_living[FAULTY_CM_CHANNELS]--;
	real->destroy_event_channel(channel);
}

static int create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
		     void *context, enum rdma_port_space ps)
{
	int ret;

	faulty_limbo_empty();
	FAIL_M(create_id);
	ret = real->create_id(channel, id, context, ps);
	faulty_living[FAULTY_IDS] += !ret;
	return ret;
}

static int destroy_id(struct rdma_cm_id *id)
{
	UNMAKE(destroy_id, FAULTY_IDS, id, real->destroy_id(id));
}

static int migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	FAIL_M(migrate_id);
	return real->migrate_id(id, channel);
}

static int bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	FAIL_M(bind_addr);
	return real->bind_addr(id, addr);
}

static int resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
			struct sockaddr *dst, int timeout_ms)
{
	FAIL_M(resolve_addr);
	return real->resolve_addr(id, src, dst, timeout_ms);
}

static int resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	FAIL_M(resolve_route);
	return real->resolve_route(id, timeout_ms);
}

static int do_listen(struct rdma_cm_id *id, int backlog)
{
	FAIL_M(listen);
	return real->listen(id, backlog);
}

static int do_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	FAIL_M(connect);
	return real->connect(id, param);
}

static int establish(struct rdma_cm_id *id)
{
	FAIL_M(establish);
	return real->establish(id);
}

static int do_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	FAIL_M(accept);
	return real->accept(id, param);
}

static int reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	FAIL_M(reject);
	return real->reject(id, data, len);
}

static int disconnect(struct rdma_cm_id *id)
{
	FAIL_M(disconnect);
	return real->disconnect(id);
}

static int init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr,
			int *mask)
{
	FAIL_M(init_qp_attr);
	return real->init_qp_attr(id, attr, mask);
}

static int get_cm_event(struct rdma_event_channel *channel,
			struct rdma_cm_event **event)
{
	int ret;

	faulty_limbo_empty();
	FAIL_M(get_cm_event);
	ret = real->get_cm_event(channel, event);
	if (ret)
		return ret;
	faulty_living[FAULTY_CM_EVENTS]++;
	/* a request event creates an id */
	if ((*event)->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		faulty_living[FAULTY_IDS]++;
	return 0;
}

/* Acknowledges the event even if it fails: the caller has given it up. */
static int ack_cm_event(struct rdma_cm_event *event)
{
	int ret = real->ack_cm_event(event);

	faulty_living[FAULTY_CM_EVENTS] -= !ret;
	FAIL_M(ack_cm_event);
	return ret;
}

static int join_multicast(struct rdma_cm_id *id,
			  struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	FAIL_M(join_multicast);
	return real->join_multicast(id, attr, context);
}

/* Leaves the group even if it fails. detach_mcast() does likewise. */
static int leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	int ret = real->leave_multicast(id, addr);

	FAIL_M(leave_multicast);
	return ret;
}

static int detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid,
			uint16_t lid)
{
	int ret = real->detach_mcast(qp, gid, lid);

	FAIL_P(detach_mcast);
	return ret;
}

static int attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid,
			uint16_t lid)
{
	FAIL_P(attach_mcast);
	return real->attach_mcast(qp, gid, lid);
}

static int set_option(struct rdma_cm_id *id, int level, int optname,
		      void *optval, size_t optlen)
{
	return real->set_option(id, level, optname, optval, optlen);
}

static __be16 get_src_port(struct rdma_cm_id *id)
{
	return real->get_src_port(id);
}

static bool id_device(struct rdma_cm_id *id, struct id_device *ret)
{
	return real->id_device(id, ret);
}

const struct verbs_api faulty_verbs = {
	.get_device_list = get_device_list,
	.free_device_list = free_device_list,
	.get_device_name = ibv_get_device_name,
	.get_device_guid = ibv_get_device_guid,
	.open_device = open_device,
	.close_device = close_device,
	.query_device = query_device,
	.query_device_ex = query_device_ex,
	.query_port = query_port,
	.query_gid = query_gid,
	.query_gid_ex = query_gid_ex,
	.query_pkey = query_pkey,
	.get_async_event = get_async_event,
	.ack_async_event = ack_async_event,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.reg_mr = reg_mr,
	.reg_mr_iova = reg_mr_iova,
	.dereg_mr = dereg_mr,
	.create_comp_channel = create_comp_channel,
	.destroy_comp_channel = destroy_comp_channel,
	.create_cq = create_cq,
	.destroy_cq = destroy_cq,
	.resize_cq = resize_cq,
	.create_srq = create_srq,
	.create_srq_ex = create_srq_ex,
	.modify_srq = modify_srq,
	.destroy_srq = destroy_srq,
	.get_cq_event = get_cq_event,
	.ack_cq_events = ibv_ack_cq_events,
	.create_qp = create_qp,
	.create_qp_ex = create_qp_ex,
	.qp_to_qp_ex = qp_to_qp_ex,
	.mlx5_is_supported = mlx5_is_supported,
	.mlx5_create_qp = mlx5_create_qp,
	.mlx5_qp_ex_from_ibv_qp_ex = mlx5_qp_ex_from_ibv_qp_ex,
	.mlx5_create_mkey = mlx5_create_mkey,
	.mlx5_destroy_mkey = mlx5_destroy_mkey,
	.mlx5_init_obj = mlx5_init_obj,
	.create_ah = create_ah,
	.destroy_ah = destroy_ah,
	.attach_mcast = attach_mcast,
	.detach_mcast = detach_mcast,
	.modify_qp = modify_qp,
	.query_qp = query_qp,
	.destroy_qp = destroy_qp,
	.create_event_channel = create_event_channel,
	.destroy_event_channel = destroy_event_channel,
	.create_id = create_id,
	.destroy_id = destroy_id,
	.migrate_id = migrate_id,
	.set_option = set_option,
	.bind_addr = bind_addr,
	.resolve_addr = resolve_addr,
	.resolve_route = resolve_route,
	.listen = do_listen,
	.connect = do_connect,
	.establish = establish,
	.accept = do_accept,
	.reject = reject,
	.disconnect = disconnect,
	.init_qp_attr = init_qp_attr,
	.join_multicast = join_multicast,
	.leave_multicast = leave_multicast,
	.get_cm_event = get_cm_event,
	.ack_cm_event = ack_cm_event,
	.get_src_port = get_src_port,
	.id_device = id_device,
};
