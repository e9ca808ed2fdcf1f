/* SPDX-License-Identifier: BSD-2-Clause */
/* The device and its objects. */
#include "nulldev_objects.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define QP_DEPTH	4096
#define CQ_DEPTH	65536
#define QPS_MAX		4096

struct ibv_device nulldev_device = {
	.name = NULLDEV_NAME, .dev_name = NULLDEV_NAME,
	.node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB,
};
static struct null_qp *qps[QPS_MAX];	/* indexed by number */
/* held by who changes qps: a thread of the library may destroy one */
static pthread_mutex_t qps_lock = PTHREAD_MUTEX_INITIALIZER;

uint32_t nulldev_vendor = 1;
enum ibv_port_state nulldev_port = IBV_PORT_ACTIVE;
struct ibv_qp_attr nulldev_rts;

void nulldev_pass(uint32_t n)
{
	for (uint32_t i = 1; i < QPS_MAX; i++)
		if (qps[i])
			null_pass(qps[i], n);
}

void nulldev_cut(bool on)
{
	null_is_cut = on;
	if (!on)
		nulldev_pass(UINT32_MAX);
}

static struct ibv_device **get_device_list(int *num)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	if (!list)
		return NULL;
	list[0] = &nulldev_device;
	if (num)
		*num = 1;
	return list;
}

static void free_device_list(struct ibv_device **list)
{
	free(list);
}

static const char *get_device_name(struct ibv_device *d)
{
	return d->name;
}

static __be64 get_device_guid(struct ibv_device *d)
{
	return htobe64(1);
}

static struct ibv_context *open_device(struct ibv_device *d)
{
	struct ibv_context *verbs = calloc(1, sizeof(*verbs));

	if (!verbs)
		return NULL;
	verbs->device = d;
	null_ops(&verbs->ops);
	verbs->async_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	verbs->num_comp_vectors = 1;
	nulldev_counts.contexts++;
	return verbs;
}

static int close_device(struct ibv_context *verbs)
{
	close(verbs->async_fd);
	free(verbs);
	nulldev_counts.contexts--;
	return 0;
}

static int query_device(struct ibv_context *verbs, struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	strcpy(attr->fw_ver, "0");
	attr->node_guid = htobe64(1);
	attr->vendor_id = nulldev_vendor;
	attr->phys_port_cnt = 1;
	attr->max_mr_size = UINT64_MAX;
	attr->max_qp = QPS_MAX - 1;
	attr->max_qp_wr = QP_DEPTH;
	attr->max_sge = NULL_SGE_MAX;
	attr->max_cq = 65536;
	attr->max_cqe = CQ_DEPTH;
	attr->max_mr = 65536;
	attr->max_pd = 65536;
	attr->max_qp_rd_atom = 16;
	attr->max_qp_init_rd_atom = 16;
	return 0;
}

static int query_port(struct ibv_context *verbs, uint8_t port,
		      struct ibv_port_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->state = nulldev_port;
	attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
	attr->gid_tbl_len = 1;
	attr->pkey_tbl_len = 1;
	attr->lid = 1;
	attr->link_layer = IBV_LINK_LAYER_INFINIBAND;
	return 0;
}

static int query_gid(struct ibv_context *verbs, uint8_t port, int index,
		     union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[15] = 1;
	return 0;
}

static int query_gid_ex(struct ibv_context *verbs, uint32_t port,
			uint32_t index, struct ibv_gid_entry *e)
{
	memset(e, 0, sizeof(*e));
	e->gid_index = index;
	e->port_num = port;
	e->gid_type = IBV_GID_TYPE_IB;
	return query_gid(verbs, (uint8_t)port, (int)index, &e->gid);
}

static int query_pkey(struct ibv_context *verbs, uint8_t port, int index,
		      __be16 *pkey)
{
	*pkey = htobe16(0xffff);
	return 0;
}

static int get_async_event(struct ibv_context *verbs,
			   struct ibv_async_event *event)
{
	errno = EAGAIN;
	return -1;
}

static void ack_async_event(struct ibv_async_event *event)
{
}

static struct ibv_pd *alloc_pd(struct ibv_context *verbs)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	if (pd)
		pd->context = verbs;
	nulldev_counts.pds += pd != NULL;
	return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	nulldev_counts.pds--;
	return 0;
}

static struct null_mr *mrs;

static struct ibv_mr *reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len,
				  uint64_t iova, int access)
{
	static uint32_t key;
	struct null_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.addr = addr;
	mr->ibv.length = len;
	mr->ibv.lkey = mr->ibv.rkey = ++key;
	mr->iova = iova;
	mr->next = mrs;
	mrs = mr;
	nulldev_counts.mrs++;
	return &mr->ibv;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			     int access)
{
	return reg_mr_iova(pd, addr, len, (uintptr_t)addr, access);
}

static int dereg_mr(struct ibv_mr *ibv)
{
	struct null_mr **at = &mrs;

	while (&(*at)->ibv != ibv)
		at = &(*at)->next;
	*at = (*at)->next;
	free(ibv);
	nulldev_counts.mrs--;
	return 0;
}

void *null_memory(uint32_t rkey, uint64_t addr)
{
	for (struct null_mr *mr = mrs; mr; mr = mr->next)
		if (mr->ibv.rkey == rkey)
			return (uint8_t *)mr->ibv.addr + (addr - mr->iova);
	return NULL;
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *verbs)
{
	struct null_channel *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	ch->ibv.context = verbs;
	ch->ibv.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	nulldev_counts.channels++;
	return &ch->ibv;
}

static int destroy_comp_channel(struct ibv_comp_channel *ch)
{
	close(ch->fd);
	free(ch);
	nulldev_counts.channels--;
	return 0;
}

static uint32_t pow2(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/* The library creates further completion queues instead. */
static int resize_cq(struct ibv_cq *cq, int cqe)
{
	return EOPNOTSUPP;
}

static struct ibv_cq *create_cq(struct ibv_context *verbs, int cqe,
				void *cq_context, struct ibv_comp_channel *ch,
				int comp_vector)
{
	struct null_cq *cq = calloc(1, sizeof(*cq));

	if (!cq)
		return NULL;
	cq->mask = pow2((uint32_t)cqe) - 1;
	cq->ring = calloc(cq->mask + 1, sizeof(*cq->ring));
	if (!cq->ring) {
		free(cq);
		return NULL;
	}
	cq->ibv.context = verbs;
	cq->ibv.channel = ch;
	cq->ibv.cq_context = cq_context;
	cq->ibv.cqe = (int)cq->mask + 1;
	nulldev_counts.cqs++;
	return &cq->ibv;
}

static void forget(struct null_cq *cq)
{
	struct null_channel *ch = (struct null_channel *)cq->ibv.channel;

	for (struct null_cq **at = ch ? &ch->pending : NULL; at && *at;
	     at = &(*at)->next) {
		uint64_t one;

		if (*at != cq)
			continue;
		*at = cq->next;
		(void)!read(ch->ibv.fd, &one, sizeof(one));
		return;
	}
}

static int destroy_cq(struct ibv_cq *ibv)
{
	struct null_cq *cq = (struct null_cq *)ibv;

	forget(cq);
	free(cq->ring);
	free(cq);
	nulldev_counts.cqs--;
	return 0;
}

static int get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq,
			void **cq_context)
{
	struct null_channel *ch = (struct null_channel *)ibv;
	uint64_t one;

	if (read(ibv->fd, &one, sizeof(one)) != sizeof(one))
		return -1;
	*cq = &ch->pending->ibv;
	*cq_context = (*cq)->cq_context;
	ch->pending->raised = false;
	ch->pending = ch->pending->next;
	return 0;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
}

/* Returns the number that qp has from now on, or 0 if all are taken. */
static uint32_t take_qp_num(struct null_qp *qp)
{
	uint32_t i = 1;

	pthread_mutex_lock(&qps_lock);
	while (i < QPS_MAX && qps[i])
		i++;
	if (i < QPS_MAX)
		qps[i] = qp;
	pthread_mutex_unlock(&qps_lock);
	return i < QPS_MAX ? i : 0;
}

static void leave_qp_num(struct null_qp *qp)
{
	pthread_mutex_lock(&qps_lock);
	for (uint32_t i = 1; i < QPS_MAX; i++)
		if (qps[i] && qps[i]->peer == qp)
			qps[i]->peer = NULL;
	qps[qp->ibv.qp_num] = NULL;
	pthread_mutex_unlock(&qps_lock);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd,
				struct ibv_qp_init_attr *attr)
{
	struct null_qp *qp;

	if (attr->cap.max_recv_wr > QP_DEPTH ||
	    attr->cap.max_send_wr > QP_DEPTH ||
	    attr->cap.max_inline_data > NULL_INLINE_MAX) {
		errno = EINVAL;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	qp->mask = pow2(attr->cap.max_recv_wr) - 1;
	qp->recvs = calloc(qp->mask + 1, sizeof(*qp->recvs));
	if (!qp->recvs)
		goto err_qp;
	qp->all_signaled = attr->sq_sig_all;
	qp->held_end = &qp->held;
	qp->ibv.context = pd->context;
	qp->ibv.qp_context = attr->qp_context;
	qp->ibv.pd = pd;
	qp->ibv.send_cq = attr->send_cq;
	qp->ibv.recv_cq = attr->recv_cq;
	qp->ibv.qp_type = attr->qp_type;
	qp->ibv.qp_num = take_qp_num(qp);
	if (!qp->ibv.qp_num)
		goto err_recvs;
	nulldev_counts.qps++;
	return &qp->ibv;

err_recvs:
	free(qp->recvs);
err_qp:
	free(qp);
	errno = ENOMEM;
	return NULL;
}

static int modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct null_qp *qp = (struct null_qp *)ibv;

	if (mask & IBV_QP_DEST_QPN) {
		qp->dest = attr->dest_qp_num;
		pthread_mutex_lock(&qps_lock);
		qp->peer = qp->dest < QPS_MAX ? qps[qp->dest] : NULL;
		pthread_mutex_unlock(&qps_lock);
	}
	if (!(mask & IBV_QP_STATE))
		return 0;
	if (attr->qp_state == IBV_QPS_RTS)
		nulldev_rts = *attr;
	if (attr->qp_state == IBV_QPS_ERR)
		null_fail(qp);
	else
		ibv->state = attr->qp_state;
	return 0;
}

void null_join(uint32_t a, uint32_t b)
{
	qps[a]->peer = qps[b];
	qps[b]->peer = qps[a];
	qps[a]->ibv.state = qps[b]->ibv.state = IBV_QPS_RTS;
}

static int destroy_qp(struct ibv_qp *ibv)
{
	struct null_qp *qp = (struct null_qp *)ibv;

	leave_qp_num(qp);
	null_drop(qp);
	free(qp->recvs);
	free(qp);
	nulldev_counts.qps--;
	return 0;
}

const struct verbs_api nulldev_verbs = {
	.get_device_list = get_device_list,
	.free_device_list = free_device_list,
	.get_device_name = get_device_name,
	.get_device_guid = get_device_guid,
	.open_device = open_device,
	.close_device = close_device,
	.query_device = query_device,
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
	.resize_cq = resize_cq,
	.destroy_cq = destroy_cq,
	.get_cq_event = get_cq_event,
	.ack_cq_events = ack_cq_events,
	.create_qp = create_qp,
	.modify_qp = modify_qp,
	.destroy_qp = destroy_qp,
	.create_event_channel = nullcm_create_event_channel,
	.destroy_event_channel = nullcm_destroy_event_channel,
	.create_id = nullcm_create_id,
	.destroy_id = nullcm_destroy_id,
	.migrate_id = nullcm_migrate_id,
	.set_option = nullcm_set_option,
	.bind_addr = nullcm_bind_addr,
	.resolve_addr = nullcm_resolve_addr,
	.resolve_route = nullcm_resolve_route,
	.listen = nullcm_listen,
	.connect = nullcm_connect,
	.establish = nullcm_establish,
	.accept = nullcm_accept,
	.reject = nullcm_reject,
	.disconnect = nullcm_disconnect,
	.init_qp_attr = nullcm_init_qp_attr,
	.get_cm_event = nullcm_get_cm_event,
	.ack_cm_event = nullcm_ack_cm_event,
	.get_src_port = nullcm_get_src_port,
	.id_device = rdmamsg__verbs_id_device,
};
