/* SPDX-License-Identifier: BSD-2-Clause */
/* The simulated device and its objects. */
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define QP_DEPTH	4096
#define CQ_DEPTH	65536
#define MRS		1024

static struct ibv_device device = {
	.name = "sim0", .dev_name = "sim0", .node_type = IBV_NODE_CA,
	.transport_type = IBV_TRANSPORT_IB,
};

struct sim_counts sim_counts;
bool sim_loose, sim_rude;
struct sim_qp *sim_qps;
static uint32_t last_qp;
/* A key is the index << 12 | a generation, so that an old key is found out. */
static struct sim_mr *mrs[MRS];
static uint32_t generation;

/* ---- device ------------------------------------------------------------ */

static struct ibv_device **get_device_list(int *num)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	list[0] = &device;
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

	verbs->device = d;
	d->transport_type = sim_loose ? IBV_TRANSPORT_UNSPECIFIED :
			    IBV_TRANSPORT_IB;
	sim_ops(&verbs->ops);
	verbs->async_fd = sim_fd_new();
	verbs->num_comp_vectors = 1;
	sim_counts.contexts++;
	return verbs;
}

static int close_device(struct ibv_context *verbs)
{
	sim_fd_free(verbs->async_fd);
	free(verbs);
	sim_counts.contexts--;
	return 0;
}

static int query_device(struct ibv_context *verbs, struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	strcpy(attr->fw_ver, "0");
	attr->node_guid = htobe64(1);
	attr->vendor_id = 1;
	attr->phys_port_cnt = 1;
	attr->max_mr_size = UINT64_MAX;
	attr->max_qp = 65536;
	attr->max_qp_wr = QP_DEPTH;
	attr->max_sge = SIM_SGE_MAX;
	attr->max_cq = 65536;
	attr->max_cqe = CQ_DEPTH;
	attr->max_mr = MRS;
	attr->max_pd = 65536;
	attr->max_qp_rd_atom = 16;
	attr->max_qp_init_rd_atom = 16;
	attr->atomic_cap = IBV_ATOMIC_HCA;
	return 0;
}

static int query_port(struct ibv_context *verbs, uint8_t port,
		      struct ibv_port_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->state = IBV_PORT_ACTIVE;
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

/* ---- memory ------------------------------------------------------------ */

static struct ibv_pd *alloc_pd(struct ibv_context *verbs)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	pd->context = verbs;
	sim_counts.pds++;
	return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	sim_counts.pds--;
	return 0;
}

static struct ibv_mr *reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len,
				  uint64_t iova, int access)
{
	struct sim_mr *mr = calloc(1, sizeof(*mr));
	uint32_t i = 0;

	while (i < MRS && mrs[i])
		i++;
	if (i == MRS)
		sim_fail("more than %d registrations", MRS);
	mrs[i] = mr;
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.addr = addr;
	mr->ibv.length = len;
	mr->ibv.lkey = mr->ibv.rkey = i << 12 | (++generation & 0xfff);
	mr->iova = iova;
	mr->access = access;
	sim_counts.mrs++;
	return &mr->ibv;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			     int access)
{
	return reg_mr_iova(pd, addr, len, (uintptr_t)addr, access);
}

static int dereg_mr(struct ibv_mr *ibv)
{
	mrs[ibv->lkey >> 12] = NULL;
	free(ibv);
	sim_counts.mrs--;
	return 0;
}

void *sim_memory(uint32_t key, uint64_t addr, uint64_t len, int access)
{
	const struct sim_mr *mr = key >> 12 < MRS ? mrs[key >> 12] : NULL;

	if (!mr || mr->ibv.lkey != key || (mr->access & access) != access ||
	    addr - mr->iova > mr->ibv.length ||
	    mr->ibv.length - (addr - mr->iova) < len)
		return NULL;
	return (uint8_t *)mr->ibv.addr + (addr - mr->iova);
}

/* ---- completion queues ------------------------------------------------- */

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *verbs)
{
	struct sim_channel *ch = calloc(1, sizeof(*ch));

	ch->ibv.context = verbs;
	ch->ibv.fd = sim_fd_new();
	sim_counts.channels++;
	return &ch->ibv;
}

static int destroy_comp_channel(struct ibv_comp_channel *ch)
{
	sim_fd_free(ch->fd);
	free(ch);
	sim_counts.channels--;
	return 0;
}

static uint32_t pow2(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

static int resize_cq(struct ibv_cq *ibv, int cqe)
{
	struct sim_cq *cq = (struct sim_cq *)ibv;
	uint32_t mask = pow2((uint32_t)cqe) - 1, n = 0;
	struct ibv_wc *ring;

	if (mask <= cq->mask)
		return 0;
	ring = malloc((mask + 1) * sizeof(*ring));
	while (cq->head != cq->tail)
		ring[n++] = cq->ring[cq->head++ & cq->mask];
	free(cq->ring);
	cq->ring = ring;
	cq->mask = mask;
	cq->head = 0;
	cq->tail = n;
	ibv->cqe = (int)mask + 1;
	return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *verbs, int cqe,
				void *cq_context, struct ibv_comp_channel *ch,
				int comp_vector)
{
	struct sim_cq *cq = calloc(1, sizeof(*cq));

	cq->mask = pow2((uint32_t)cqe) - 1;
	cq->ring = malloc((cq->mask + 1) * sizeof(*cq->ring));
	cq->ibv.context = verbs;
	cq->ibv.channel = ch;
	cq->ibv.cq_context = cq_context;
	cq->ibv.cqe = (int)cq->mask + 1;
	sim_counts.cqs++;
	return &cq->ibv;
}

static int destroy_cq(struct ibv_cq *ibv)
{
	struct sim_cq *cq = (struct sim_cq *)ibv;
	struct sim_channel *ch = (struct sim_channel *)ibv->channel;

	for (struct sim_cq **at = ch ? &ch->pending : NULL; at && *at;
	     at = &(*at)->next) {
		if (*at != cq)
			continue;
		*at = cq->next;
		sim_fd_add(ch->ibv.fd, -1);
		break;
	}
	free(cq->ring);
	free(cq);
	sim_counts.cqs--;
	return 0;
}

static int get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq,
			void **cq_context)
{
	struct sim_channel *ch = (struct sim_channel *)ibv;

	if (!ch->pending) {
		errno = EAGAIN;
		return -1;
	}
	*cq = &ch->pending->ibv;
	*cq_context = (*cq)->cq_context;
	ch->pending->raised = false;
	ch->pending = ch->pending->next;
	sim_fd_add(ibv->fd, -1);
	return 0;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
}

/* ---- queue pairs ------------------------------------------------------- */

struct sim_qp *sim_qp_find(uint32_t num)
{
	struct sim_qp *qp = sim_qps;

	while (qp && qp->ibv.qp_num != num)
		qp = qp->next;
	return qp;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd,
				struct ibv_qp_init_attr *attr)
{
	struct sim_qp *qp;

	if (attr->cap.max_inline_data > SIM_INLINE_MAX) {
		errno = EINVAL;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	qp->depth = pow2(attr->cap.max_send_wr);
	/* as many again that have completed and not arrived */
	qp->smask = (sim_loose ? 2 : 1) * qp->depth - 1;
	qp->rmask = pow2(attr->cap.max_recv_wr) - 1;
	qp->sends = calloc(qp->smask + 1, sizeof(*qp->sends));
	qp->recvs = malloc((qp->rmask + 1) * sizeof(*qp->recvs));
	qp->came = malloc((qp->rmask + 1) * sizeof(*qp->came));
	qp->signal_all = attr->sq_sig_all;
	qp->ibv.context = pd->context;
	qp->ibv.qp_context = attr->qp_context;
	qp->ibv.pd = pd;
	qp->ibv.send_cq = attr->send_cq;
	qp->ibv.recv_cq = attr->recv_cq;
	qp->ibv.qp_num = ++last_qp;
	qp->ibv.qp_type = attr->qp_type;
	qp->next = sim_qps;
	sim_qps = qp;
	sim_counts.qps++;
	return &qp->ibv;
}

static int modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct sim_qp *qp = (struct sim_qp *)ibv;

	if (mask & IBV_QP_DEST_QPN)
		qp->dest = attr->dest_qp_num;
	if (!(mask & IBV_QP_STATE))
		return 0;
	if (attr->qp_state != IBV_QPS_ERR)
		ibv->state = attr->qp_state;
	else if (ibv->state != IBV_QPS_ERR)
		sim_qp_fail(qp, IBV_WC_WR_FLUSH_ERR);
	return 0;
}

void sim_qp_free(struct sim_qp *qp)
{
	struct sim_qp **at = &sim_qps;

	while (*at != qp)
		at = &(*at)->next;
	*at = qp->next;
	while (qp->head != qp->tail)
		free(qp->sends[qp->head++ & qp->smask].taken);
	free(qp->sends);
	free(qp->recvs);
	free(qp->came);
	free(qp);
}

static int destroy_qp(struct ibv_qp *ibv)
{
	struct sim_qp *qp = (struct sim_qp *)ibv;

	sim_trace("sim: qp %u is destroyed\n", ibv->qp_num);
	sim_counts.qps--;
	if (sim_loose && loose_lingers(qp))
		qp->gone = true;
	else
		sim_qp_free(qp);
	return 0;
}

void sim_qps_reset(void)
{
	while (sim_qps)
		sim_qp_free(sim_qps);
}

const struct verbs_api sim_verbs = {
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
	.create_event_channel = simcm_create_event_channel,
	.destroy_event_channel = simcm_destroy_event_channel,
	.create_id = simcm_create_id,
	.destroy_id = simcm_destroy_id,
	.migrate_id = simcm_migrate_id,
	.set_option = simcm_set_option,
	.bind_addr = simcm_bind_addr,
	.resolve_addr = simcm_resolve_addr,
	.resolve_route = simcm_resolve_route,
	.listen = simcm_listen,
	.connect = simcm_connect,
	.establish = simcm_establish,
	.accept = simcm_accept,
	.reject = simcm_reject,
	.disconnect = simcm_disconnect,
	.init_qp_attr = simcm_init_qp_attr,
	.get_cm_event = simcm_get_cm_event,
	.ack_cm_event = simcm_ack_cm_event,
	.get_src_port = simcm_get_src_port,
	.id_device = rdmamsg__verbs_id_device,
};
