/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device. Functions of the data path are named null_*, which is how
 * tests/bench/instructions tells them from the library's.
 */
#include "nulldev.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define QP_DEPTH	4096
#define CQ_DEPTH	65536
#define INLINE_MAX	512
#define QPS_MAX		4096

struct nulldev_counts nulldev_counts;

struct null_channel {
	struct ibv_comp_channel ibv;
	struct null_cq *pending;	/* with an event nobody has got yet */
};

struct null_cq {
	struct ibv_cq ibv;
	struct null_cq *next;		/* pending */
	struct ibv_wc *ring;
	uint32_t mask, head, tail;
	bool armed;
	bool raised;
};

struct null_recv {
	uint64_t wr_id;
	uint8_t *addr;
	uint32_t length;
};

struct null_qp {
	struct ibv_qp ibv;
	struct null_qp *peer;
	uint32_t dest;
	struct null_recv *recvs;
	uint32_t mask, head, tail;
	bool all_signaled;
};

static struct ibv_device device = { .name = NULLDEV_NAME,
				    .dev_name = NULLDEV_NAME,
				    .node_type = IBV_NODE_CA,
				    .transport_type = IBV_TRANSPORT_IB };
static struct null_qp *qps[QPS_MAX];	/* by number */

/* No call: the C library's copying would be counted as ours. */
static inline void copy(void *dst, const void *src, size_t len)
{
#if defined(__x86_64__)
	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(len)
			 : : "memory");
#else
	uint8_t *d = dst;
	const uint8_t *s = src;

	while (len--)
		*d++ = *s++;
#endif
}

/* ---- data path -------------------------------------------------------- */

__attribute__((noinline)) static void null_raise(struct null_cq *cq)
{
	struct null_channel *ch = (struct null_channel *)cq->ibv.channel;
	uint64_t one = 1;

	cq->armed = false;
	nulldev_counts.events++;
	if (cq->raised || !ch)
		return;
	cq->raised = true;
	cq->next = ch->pending;
	ch->pending = cq;
	(void)!write(ch->ibv.fd, &one, sizeof(one));
}

static inline void complete(struct ibv_cq *ibv, const struct ibv_qp *qp,
			    uint64_t wr_id, enum ibv_wc_status status,
			    enum ibv_wc_opcode opcode, uint32_t len)
{
	struct null_cq *cq = (struct null_cq *)ibv;
	struct ibv_wc *wc = &cq->ring[cq->tail & cq->mask];

	wc->wr_id = wr_id;
	wc->status = status;
	wc->opcode = opcode;
	wc->vendor_err = 0;
	wc->byte_len = len;
	wc->qp_num = qp->qp_num;
	wc->wc_flags = 0;
	cq->tail++;
	if (__builtin_expect(cq->armed, 0))
		null_raise(cq);
}

__attribute__((noinline)) static void null_fail(struct null_qp *qp)
{
	qp->ibv.state = IBV_QPS_ERR;
	while (qp->head != qp->tail)
		complete(qp->ibv.recv_cq, &qp->ibv,
			 qp->recvs[qp->head++ & qp->mask].wr_id,
			 IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV, 0);
}

static inline uint32_t gather(uint8_t *dst, const struct ibv_send_wr *wr)
{
	uint32_t len = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		copy(dst + len, (void *)(uintptr_t)wr->sg_list[i].addr,
		     wr->sg_list[i].length);
		len += wr->sg_list[i].length;
	}
	return len;
}

static inline enum ibv_wc_status do_send(struct null_qp *qp,
					 const struct ibv_send_wr *wr)
{
	struct null_qp *peer = qp->peer;
	struct null_recv *r;

	if (!peer || peer->ibv.state == IBV_QPS_ERR)
		return IBV_WC_RETRY_EXC_ERR;
	if (peer->head == peer->tail)
		return IBV_WC_RNR_RETRY_EXC_ERR;
	r = &peer->recvs[peer->head++ & peer->mask];
	complete(peer->ibv.recv_cq, &peer->ibv, r->wr_id, IBV_WC_SUCCESS,
		 IBV_WC_RECV, gather(r->addr, wr));
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status null_do(struct null_qp *qp,
				  const struct ibv_send_wr *wr)
{
	uint64_t remote = wr->wr.rdma.remote_addr;

	if (qp->ibv.state == IBV_QPS_ERR)
		return IBV_WC_WR_FLUSH_ERR;
	switch (wr->opcode) {
	case IBV_WR_RDMA_READ:
		for (int i = 0; i < wr->num_sge; i++) {
			copy((void *)(uintptr_t)wr->sg_list[i].addr,
			     (void *)(uintptr_t)remote, wr->sg_list[i].length);
			remote += wr->sg_list[i].length;
		}
		return IBV_WC_SUCCESS;
	case IBV_WR_RDMA_WRITE:
		(void)gather((void *)(uintptr_t)remote, wr);
		return IBV_WC_SUCCESS;
	default:
		return IBV_WC_LOC_QP_OP_ERR;
	}
}

static int null_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr,
			  struct ibv_send_wr **bad)
{
	struct null_qp *qp = (struct null_qp *)ibv;

	nulldev_counts.doorbells++;
	for (; wr; wr = wr->next) {
		enum ibv_wc_status status;

		nulldev_counts.sends++;
		status = wr->opcode == IBV_WR_SEND &&
			 ibv->state != IBV_QPS_ERR ? do_send(qp, wr) :
			 null_do(qp, wr);
		if (wr->send_flags & IBV_SEND_SIGNALED || qp->all_signaled ||
		    status)
			complete(ibv->send_cq, ibv, wr->wr_id, status,
				 IBV_WC_SEND, 0);
		if (status && ibv->state != IBV_QPS_ERR)
			null_fail(qp);
	}
	return 0;
}

static int null_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr,
			  struct ibv_recv_wr **bad)
{
	struct null_qp *qp = (struct null_qp *)ibv;

	nulldev_counts.recv_posts++;
	for (; wr; wr = wr->next) {
		struct null_recv *r = &qp->recvs[qp->tail & qp->mask];

		if (qp->tail - qp->head > qp->mask) {
			*bad = wr;
			return ENOMEM;
		}
		r->wr_id = wr->wr_id;
		r->addr = (void *)(uintptr_t)wr->sg_list->addr;
		r->length = wr->sg_list->length;
		qp->tail++;
		nulldev_counts.recvs++;
		if (ibv->state == IBV_QPS_ERR)
			null_fail(qp);
	}
	return 0;
}

static int null_poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct null_cq *cq = (struct null_cq *)ibv;
	int got = 0;

	nulldev_counts.polls++;
	while (got < n && cq->head != cq->tail)
		copy(&wc[got++], &cq->ring[cq->head++ & cq->mask], sizeof(*wc));
	nulldev_counts.empty_polls += !got;
	return got;
}

static int null_req_notify_cq(struct ibv_cq *ibv, int solicited)
{
	nulldev_counts.arms++;
	((struct null_cq *)ibv)->armed = true;
	return 0;
}

/* ---- objects ---------------------------------------------------------- */

static struct ibv_device **get_device_list(int *num)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	if (!list)
		return NULL;
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

	if (!verbs)
		return NULL;
	verbs->device = d;
	verbs->ops.post_send = null_post_send;
	verbs->ops.post_recv = null_post_recv;
	verbs->ops.poll_cq = null_poll_cq;
	verbs->ops.req_notify_cq = null_req_notify_cq;
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
	attr->vendor_id = 1;
	attr->phys_port_cnt = 1;
	attr->max_mr_size = UINT64_MAX;
	attr->max_qp = QPS_MAX - 1;
	attr->max_qp_wr = QP_DEPTH;
	attr->max_sge = 16;
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
	attr->state = IBV_PORT_ACTIVE;
	attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
	attr->gid_tbl_len = 1;
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

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len,
			     int access)
{
	static uint32_t key;
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = len;
	mr->lkey = mr->rkey = ++key;
	nulldev_counts.mrs++;
	return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	nulldev_counts.mrs--;
	return 0;
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

/* More queues, then. */
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

static uint32_t free_qp_num(void)
{
	for (uint32_t i = 1; i < QPS_MAX; i++)
		if (!qps[i])
			return i;
	return 0;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd,
				struct ibv_qp_init_attr *attr)
{
	uint32_t num = free_qp_num();
	struct null_qp *qp;

	if (!num || attr->cap.max_recv_wr > QP_DEPTH ||
	    attr->cap.max_send_wr > QP_DEPTH ||
	    attr->cap.max_inline_data > INLINE_MAX) {
		errno = num ? EINVAL : ENOMEM;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	qp->mask = pow2(attr->cap.max_recv_wr) - 1;
	qp->recvs = calloc(qp->mask + 1, sizeof(*qp->recvs));
	if (!qp->recvs) {
		free(qp);
		return NULL;
	}
	qp->all_signaled = attr->sq_sig_all;
	qp->ibv.context = pd->context;
	qp->ibv.qp_context = attr->qp_context;
	qp->ibv.pd = pd;
	qp->ibv.send_cq = attr->send_cq;
	qp->ibv.recv_cq = attr->recv_cq;
	qp->ibv.qp_num = num;
	qp->ibv.qp_type = attr->qp_type;
	qps[num] = qp;
	nulldev_counts.qps++;
	return &qp->ibv;
}

static int modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct null_qp *qp = (struct null_qp *)ibv;

	if (mask & IBV_QP_DEST_QPN) {
		qp->dest = attr->dest_qp_num;
		qp->peer = qp->dest < QPS_MAX ? qps[qp->dest] : NULL;
	}
	if (!(mask & IBV_QP_STATE))
		return 0;
	if (attr->qp_state == IBV_QPS_ERR)
		null_fail(qp);
	else
		ibv->state = attr->qp_state;
	return 0;
}

static int destroy_qp(struct ibv_qp *ibv)
{
	struct null_qp *qp = (struct null_qp *)ibv;

	for (uint32_t i = 1; i < QPS_MAX; i++)
		if (qps[i] && qps[i]->peer == qp)
			qps[i]->peer = NULL;
	qps[ibv->qp_num] = NULL;
	free(qp->recvs);
	free(qp);
	nulldev_counts.qps--;
	return 0;
}

/* ---- connection management -------------------------------------------- */

struct cm_channel {
	struct rdma_event_channel rdma;
	struct event *first, **last;
};

struct event {
	struct rdma_cm_event rdma;
	struct event *next;
	uint8_t data[256];
};

struct id {
	struct rdma_cm_id rdma;
	struct id *next;		/* of all */
	struct id *peer;
	uint16_t port;			/* ours */
	bool listening;
	bool over;
	uint32_t peer_qp;
};

static struct id *ids;
static struct ibv_context *cm_verbs;	/* librdmacm's own */
static uint16_t last_port = 40000;

#define id_of(rdma_id)	((struct id *)(rdma_id))

static struct rdma_event_channel *create_event_channel(void)
{
	struct cm_channel *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	ch->rdma.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	ch->last = &ch->first;
	return &ch->rdma;
}

static void destroy_event_channel(struct rdma_event_channel *rdma)
{
	struct cm_channel *ch = (struct cm_channel *)rdma;

	while (ch->first) {
		struct event *ev = ch->first;

		ch->first = ev->next;
		free(ev);
	}
	close(rdma->fd);
	free(ch);
}

static int raise_event(struct id *id, enum rdma_cm_event_type type, int status,
		       const struct rdma_conn_param *param, struct id *listener)
{
	struct cm_channel *ch = (struct cm_channel *)id->rdma.channel;
	struct event *ev = calloc(1, sizeof(*ev));
	uint64_t one = 1;

	if (!ev)
		return -1;
	if (listener)
		ch = (struct cm_channel *)listener->rdma.channel;
	ev->rdma.id = &id->rdma;
	ev->rdma.listen_id = listener ? &listener->rdma : NULL;
	ev->rdma.event = type;
	ev->rdma.status = status;
	if (param) {
		ev->rdma.param.conn = *param;
		if (param->private_data)
			memcpy(ev->data, param->private_data,
			       param->private_data_len);
		ev->rdma.param.conn.private_data = ev->data;
	}
	*ch->last = ev;
	ch->last = &ev->next;
	return write(ch->rdma.fd, &one, sizeof(one)) < 0 ? -1 : 0;
}

static int get_cm_event(struct rdma_event_channel *rdma,
			struct rdma_cm_event **event)
{
	struct cm_channel *ch = (struct cm_channel *)rdma;
	struct event *ev = ch->first;
	uint64_t one;

	if (read(rdma->fd, &one, sizeof(one)) != sizeof(one))
		return -1;
	ch->first = ev->next;
	if (!ch->first)
		ch->last = &ch->first;
	*event = &ev->rdma;
	return 0;
}

static int ack_cm_event(struct rdma_cm_event *event)
{
	free(event);
	return 0;
}

static struct id *new_id(struct rdma_event_channel *channel, void *context)
{
	struct id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->rdma.channel = channel;
	id->rdma.context = context;
	id->rdma.ps = RDMA_PS_TCP;
	id->next = ids;
	ids = id;
	nulldev_counts.ids++;
	return id;
}

static int create_id(struct rdma_event_channel *channel,
		     struct rdma_cm_id **ret, void *context,
		     enum rdma_port_space ps)
{
	struct id *id = new_id(channel, context);

	if (!id)
		return -1;
	*ret = &id->rdma;
	return 0;
}

/* Events of this id that nobody has fetched go with it. */
static void forget_events(struct id *id)
{
	struct cm_channel *ch = (struct cm_channel *)id->rdma.channel;
	struct event **at = &ch->first;
	uint64_t one;

	while (*at) {
		struct event *ev = *at;

		if (ev->rdma.id != &id->rdma) {
			at = &ev->next;
			continue;
		}
		*at = ev->next;
		free(ev);
		(void)!read(ch->rdma.fd, &one, sizeof(one));
	}
	ch->last = at;
}

static int disconnect(struct rdma_cm_id *rdma);

static int destroy_id(struct rdma_cm_id *rdma)
{
	struct id *id = id_of(rdma), **at = &ids;

	if (id->peer)
		(void)disconnect(rdma);
	for (struct id *i = ids; i; i = i->next)
		if (i->peer == id)
			i->peer = NULL;
	forget_events(id);
	while (*at != id)
		at = &(*at)->next;
	*at = id->next;
	free(id);
	nulldev_counts.ids--;
	/* the last one puts the light out */
	if (!ids && cm_verbs) {
		(void)close_device(cm_verbs);
		cm_verbs = NULL;
	}
	return 0;
}

static int migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	struct cm_channel *from = (struct cm_channel *)id->channel;
	struct cm_channel *to = (struct cm_channel *)channel;
	struct event **at = &from->first;
	uint64_t one = 1;

	while (*at) {
		struct event *ev = *at;

		if (ev->rdma.id != id) {
			at = &ev->next;
			continue;
		}
		*at = ev->next;
		(void)!read(from->rdma.fd, &one, sizeof(one));
		ev->next = NULL;
		*to->last = ev;
		to->last = &ev->next;
		(void)!write(to->rdma.fd, &one, sizeof(one));
	}
	from->last = at;
	id->channel = channel;
	return 0;
}

static int set_option(struct rdma_cm_id *id, int level, int optname,
		      void *optval, size_t optlen)
{
	return 0;
}

static uint16_t port_of(const struct sockaddr *addr)
{
	/* at the same place in both families */
	return ntohs(((const struct sockaddr_in *)addr)->sin_port);
}

static size_t addr_len(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
	       sizeof(struct sockaddr_in);
}

static struct id *listener_at(uint16_t port)
{
	for (struct id *i = ids; i; i = i->next)
		if (i->listening && i->port == port)
			return i;
	return NULL;
}

static int bind_addr(struct rdma_cm_id *rdma, struct sockaddr *addr)
{
	struct id *id = id_of(rdma);

	memcpy(&rdma->route.addr.src_storage, addr, addr_len(addr));
	id->port = port_of(addr) ? port_of(addr) : ++last_port;
	rdma->route.addr.src_sin.sin_port = htons(id->port);
	return 0;
}

static void bind_device(struct rdma_cm_id *id)
{
	if (!cm_verbs)
		cm_verbs = open_device(&device);
	id->verbs = cm_verbs;
	id->port_num = 1;
	id->route.addr.addr.ibaddr.sgid.raw[15] = 1;
}

static int resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
			struct sockaddr *dst, int timeout_ms)
{
	memcpy(&id->route.addr.dst_storage, dst, addr_len(dst));
	/* we are where we go */
	memcpy(&id->route.addr.src_storage, dst, addr_len(dst));
	id_of(id)->port = ++last_port;
	id->route.addr.src_sin.sin_port = htons(last_port);
	bind_device(id);
	return raise_event(id_of(id), RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL,
			   NULL);
}

static int resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	return raise_event(id_of(id), RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL,
			   NULL);
}

static int do_listen(struct rdma_cm_id *rdma, int backlog)
{
	struct id *id = id_of(rdma);

	if (listener_at(id->port)) {
		errno = EADDRINUSE;
		return -1;
	}
	id->listening = true;
	return 0;
}

static int do_connect(struct rdma_cm_id *rdma, struct rdma_conn_param *param)
{
	struct id *id = id_of(rdma), *child;
	struct id *l = listener_at(port_of(&rdma->route.addr.dst_addr));

	if (!l)
		return raise_event(id, RDMA_CM_EVENT_REJECTED,
				   8 /* no such service */, NULL, NULL);
	child = new_id(l->rdma.channel, l->rdma.context);
	if (!child)
		return -1;
	child->peer = id;
	id->peer = child;
	child->peer_qp = param->qp_num;
	child->port = l->port;
	child->rdma.route.addr.src_storage = rdma->route.addr.dst_storage;
	child->rdma.route.addr.dst_storage = rdma->route.addr.src_storage;
	bind_device(&child->rdma);
	return raise_event(child, RDMA_CM_EVENT_CONNECT_REQUEST, 0, param, l);
}

static int do_accept(struct rdma_cm_id *rdma, struct rdma_conn_param *param)
{
	struct id *id = id_of(rdma);

	if (!id->peer)
		return 0;
	id->peer->peer_qp = param->qp_num;
	return raise_event(id->peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, param,
			   NULL);
}

static int establish(struct rdma_cm_id *rdma)
{
	struct id *id = id_of(rdma);

	return id->peer ? raise_event(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0,
				      NULL, NULL) : 0;
}

static int do_reject(struct rdma_cm_id *rdma, const void *data, uint8_t len)
{
	const struct rdma_conn_param param = {
		.private_data = data, .private_data_len = len,
	};
	struct id *id = id_of(rdma);
	struct id *peer = id->peer;

	if (!peer)
		return 0;
	id->peer = peer->peer = NULL;
	return raise_event(peer, RDMA_CM_EVENT_REJECTED,
			   28 /* by its program */, &param, NULL);
}

static int disconnect(struct rdma_cm_id *rdma)
{
	struct id *id = id_of(rdma);
	struct id *peer = id->peer;

	if (peer && !peer->over)
		(void)raise_event(peer, RDMA_CM_EVENT_DISCONNECTED, 0, NULL,
				  NULL);
	if (!id->over)
		(void)raise_event(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL,
				  NULL);
	id->over = true;
	if (peer)
		peer->over = true;
	return 0;
}

static int init_qp_attr(struct rdma_cm_id *rdma, struct ibv_qp_attr *attr,
			int *mask)
{
	*mask = IBV_QP_STATE;
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		attr->port_num = 1;
		*mask |= IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
		break;
	case IBV_QPS_RTR:
		attr->dest_qp_num = id_of(rdma)->peer_qp;
		attr->path_mtu = IBV_MTU_4096;
		attr->max_dest_rd_atomic = 16;
		*mask |= IBV_QP_DEST_QPN | IBV_QP_PATH_MTU | IBV_QP_AV |
			 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			 IBV_QP_MIN_RNR_TIMER;
		break;
	case IBV_QPS_RTS:
		attr->max_rd_atomic = 16;
		*mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
		break;
	default:
		break;
	}
	return 0;
}

static __be16 get_src_port(struct rdma_cm_id *id)
{
	return htons(id_of(id)->port);
}

static struct ibv_context **get_devices(int *num)
{
	if (num)
		*num = 0;
	return calloc(1, sizeof(struct ibv_context *));
}

static void free_devices(struct ibv_context **list)
{
	free(list);
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
	.get_async_event = get_async_event,
	.ack_async_event = ack_async_event,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.reg_mr = reg_mr,
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
	.reject = do_reject,
	.disconnect = disconnect,
	.init_qp_attr = init_qp_attr,
	.get_cm_event = get_cm_event,
	.ack_cm_event = ack_cm_event,
	.get_src_port = get_src_port,
	.get_devices = get_devices,
	.free_devices = free_devices,
};
