/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first face of connection management: librdmacm's asynchronous calls, as
 * thin as they can be over the commands. Queue pairs are their user's; there
 * is no synchronous mode: who needs that uses the real librdmacm above the
 * same commands.
 */
#include "cm.h"
#include "soft.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cma_channel {
	struct rdma_event_channel rdma;
	struct soft_cm_file *file;
};

/* A context that ids of all channels have on the device. */
struct cma_verbs {
	struct cma_verbs *next;
	struct ibv_context *verbs;
	int ids;
};

struct cma_id {
	struct rdma_cm_id rdma;
	struct cma_verbs *on;
	uint32_t handle;
	uint32_t acked;			/* events */
	pthread_mutex_t lock;
	pthread_cond_t cond;
};

struct cma_event {
	struct rdma_cm_event rdma;
	struct cma_id *counts_for;
	uint8_t data[RDMA_MAX_PRIVATE_DATA];
};

/* The first is for new ids; the device of the others has been removed. */
static pthread_mutex_t verbs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cma_verbs *contexts;
static int verbs_refs;

static struct cma_id *cma_id(struct rdma_cm_id *id)
{
	return (struct cma_id *)id;
}

static struct soft_cm_file *file_of(const struct rdma_cm_id *id)
{
	return ((struct cma_channel *)id->channel)->file;
}

static int result(int ret)
{
	if (!ret)
		return 0;
	errno = -ret;
	return -1;
}

static void verbs_close(struct cma_verbs **at)
{
	struct cma_verbs *old = *at;

	*at = old->next;
	(void)soft_close_device(old->verbs);
	free(old);
}

/* Those that no id refers to any more. */
static void verbs_sweep(void)
{
	struct cma_verbs **at = contexts ? &contexts->next : &contexts;

	while (*at) {
		if ((*at)->ids)
			at = &(*at)->next;
		else
			verbs_close(at);
	}
}

static void verbs_renew(void)
{
	struct ibv_device **list;
	struct cma_verbs *fresh;

	if (contexts && (!soft_ctx(contexts->verbs)->removed ||
			 soft_dev_absent()))
		return;
	fresh = calloc(1, sizeof(*fresh));
	if (!fresh)
		return;
	list = soft_get_device_list(NULL);
	if (list && list[0])
		fresh->verbs = soft_open_device(list[0]);
	else
		errno = ENODEV;
	soft_free_device_list(list);
	if (!fresh->verbs) {
		free(fresh);
		return;
	}
	fresh->next = contexts;
	contexts = fresh;
	verbs_sweep();
}

static bool verbs_get(void)
{
	bool there;

	(void)pthread_mutex_lock(&verbs_lock);
	verbs_renew();
	there = contexts;
	verbs_refs += there;
	(void)pthread_mutex_unlock(&verbs_lock);
	return there;
}

static void verbs_put(void)
{
	(void)pthread_mutex_lock(&verbs_lock);
	if (!--verbs_refs)
		while (contexts)
			verbs_close(&contexts);
	(void)pthread_mutex_unlock(&verbs_lock);
}

static void verbs_take(struct cma_id *id)
{
	if (id->on)
		return;
	(void)pthread_mutex_lock(&verbs_lock);
	verbs_renew();
	id->on = contexts;
	id->on->ids++;
	id->rdma.verbs = id->on->verbs;
	(void)pthread_mutex_unlock(&verbs_lock);
}

static void verbs_let_go(struct cma_id *id)
{
	if (!id->on)
		return;
	(void)pthread_mutex_lock(&verbs_lock);
	id->on->ids--;
	verbs_sweep();
	(void)pthread_mutex_unlock(&verbs_lock);
}

/* ---- channels and ids ------------------------------------------------- */

struct rdma_event_channel *soft_cma_create_event_channel(void)
{
	struct cma_channel *ch = calloc(1, sizeof(*ch));
	int err;

	if (!ch)
		return NULL;
	if (!verbs_get())
		goto err_ch;
	err = soft_cm_open(&ch->file);
	if (err) {
		errno = -err;
		goto err_verbs;
	}
	ch->rdma.fd = ch->file->fd;
	return &ch->rdma;

err_verbs:
	err = errno;
	verbs_put();
	errno = err;
err_ch:
	free(ch);
	return NULL;
}

void soft_cma_destroy_event_channel(struct rdma_event_channel *channel)
{
	soft_cm_close(((struct cma_channel *)channel)->file);
	verbs_put();
	free(channel);
}

static struct cma_id *id_new(struct rdma_event_channel *channel, void *context,
			     enum rdma_port_space ps)
{
	struct cma_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->rdma.channel = channel;
	id->rdma.context = context;
	id->rdma.ps = ps;
	id->rdma.qp_type = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ?
			   IBV_QPT_UD : IBV_QPT_RC;
	(void)pthread_mutex_init(&id->lock, NULL);
	(void)pthread_cond_init(&id->cond, NULL);
	return id;
}

static void id_free(struct cma_id *id)
{
	verbs_let_go(id);
	(void)pthread_cond_destroy(&id->cond);
	(void)pthread_mutex_destroy(&id->lock);
	free(id);
}

int soft_cma_create_id(struct rdma_event_channel *channel,
		       struct rdma_cm_id **ret, void *context,
		       enum rdma_port_space ps)
{
	struct rdma_ucm_create_id cmd = {
		.ps = (uint16_t)ps, .qp_type = IBV_QPT_RC,
	};
	struct rdma_ucm_create_id_resp resp;
	struct cma_id *id;
	int err;

	if (!channel)
		return result(-EOPNOTSUPP);
	id = id_new(channel, context, ps);
	if (!id)
		return result(-ENOMEM);
	cmd.uid = (uintptr_t)id;
	err = soft_cm_create_id(file_of(&id->rdma), &cmd, &resp);
	if (err) {
		id_free(id);
		return result(err);
	}
	id->handle = resp.id;
	*ret = &id->rdma;
	return 0;
}

static void wait_acks(struct cma_id *id, uint32_t events)
{
	(void)pthread_mutex_lock(&id->lock);
	while (id->acked < events)
		(void)pthread_cond_wait(&id->cond, &id->lock);
	(void)pthread_mutex_unlock(&id->lock);
}

int soft_cma_destroy_id(struct rdma_cm_id *rdma)
{
	struct cma_id *id = cma_id(rdma);
	const struct rdma_ucm_destroy_id cmd = { .id = id->handle };
	struct rdma_ucm_destroy_id_resp resp = { 0 };
	int err = soft_cm_destroy_id(file_of(rdma), &cmd, &resp);

	if (err)
		return result(err);
	wait_acks(id, resp.events_reported);
	id_free(id);
	return 0;
}

int soft_cma_migrate_id(struct rdma_cm_id *rdma,
			struct rdma_event_channel *channel)
{
	struct cma_id *id = cma_id(rdma);
	const struct rdma_ucm_migrate_id cmd = { .id = id->handle };
	struct rdma_ucm_migrate_resp resp = { 0 };
	int err;

	if (!channel)
		return result(-EOPNOTSUPP);
	err = soft_cm_migrate_id(file_of(rdma),
				 ((struct cma_channel *)channel)->file, &cmd,
				 &resp);
	if (err)
		return result(err);
	wait_acks(id, resp.events_reported);
	rdma->channel = channel;
	return 0;
}

int soft_cma_set_option(struct rdma_cm_id *id, int level, int optname,
			void *optval, size_t optlen)
{
	const struct rdma_ucm_set_option cmd = {
		.id = cma_id(id)->handle, .level = (uint32_t)level,
		.optname = (uint32_t)optname, .optlen = (uint32_t)optlen,
	};

	return result(soft_cm_set_option(file_of(id), &cmd, optval));
}

/* ---- addresses -------------------------------------------------------- */

static uint16_t sockaddr_len(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
	       sizeof(struct sockaddr_in);
}

static void addr_gid(const struct sockaddr *addr, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (addr->sa_family == AF_INET6) {
		memcpy(gid->raw, &((const struct sockaddr_in6 *)addr)->sin6_addr,
		       16);
		return;
	}
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, &((const struct sockaddr_in *)addr)->sin_addr, 4);
}

/* What librdmacm keeps in the id, asked again after each step. */
static int update(struct rdma_cm_id *id)
{
	const struct rdma_ucm_query cmd = {
		.id = cma_id(id)->handle, .option = RDMA_USER_CM_QUERY_ADDR,
	};
	struct rdma_ucm_query_addr_resp resp;
	int err = soft_cm_query_addr(file_of(id), &cmd, &resp);

	if (err)
		return err;
	memcpy(&id->route.addr.src_storage, &resp.src_addr, resp.src_size);
	memcpy(&id->route.addr.dst_storage, &resp.dst_addr, resp.dst_size);
	if (resp.port_num) {
		id->port_num = resp.port_num;
		verbs_take(cma_id(id));
		id->route.addr.addr.ibaddr.pkey = resp.pkey;
		addr_gid(&id->route.addr.src_addr,
			 &id->route.addr.addr.ibaddr.sgid);
		if (resp.dst_size)
			addr_gid(&id->route.addr.dst_addr,
				 &id->route.addr.addr.ibaddr.dgid);
	}
	return 0;
}

int soft_cma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct rdma_ucm_bind cmd = {
		.id = cma_id(id)->handle, .addr_size = sockaddr_len(addr),
	};
	int err;

	memcpy(&cmd.addr, addr, cmd.addr_size);
	err = soft_cm_bind(file_of(id), &cmd);
	return result(err ? err : update(id));
}

int soft_cma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
			  struct sockaddr *dst, int timeout_ms)
{
	struct rdma_ucm_resolve_addr cmd = {
		.id = cma_id(id)->handle, .timeout_ms = (uint32_t)timeout_ms,
		.dst_size = sockaddr_len(dst),
	};

	memcpy(&cmd.dst_addr, dst, cmd.dst_size);
	if (src) {
		cmd.src_size = sockaddr_len(src);
		memcpy(&cmd.src_addr, src, cmd.src_size);
	}
	memcpy(&id->route.addr.dst_storage, dst, cmd.dst_size);
	return result(soft_cm_resolve_addr(file_of(id), &cmd));
}

int soft_cma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	const struct rdma_ucm_resolve_route cmd = {
		.id = cma_id(id)->handle, .timeout_ms = (uint32_t)timeout_ms,
	};

	return result(soft_cm_resolve_route(file_of(id), &cmd));
}

__be16 soft_cma_get_src_port(struct rdma_cm_id *id)
{
	/* at the same place in both families */
	return id->route.addr.src_sin.sin_port;
}

int soft_cma_listen(struct rdma_cm_id *id, int backlog)
{
	const struct rdma_ucm_listen cmd = {
		.id = cma_id(id)->handle, .backlog = (uint32_t)backlog,
	};
	int err = soft_cm_listen(file_of(id), &cmd);

	return result(err ? err : update(id));
}

/* ---- connections ------------------------------------------------------ */

static uint8_t depth(uint8_t asked)
{
	return asked == 0xff ? SOFT_MAX_RD : asked;
}

static void copy_param(struct rdma_ucm_conn_param *to,
		       const struct rdma_conn_param *from)
{
	memset(to, 0, sizeof(*to));
	to->qp_num = from->qp_num;
	to->srq = from->srq;
	to->responder_resources = depth(from->responder_resources);
	to->initiator_depth = depth(from->initiator_depth);
	to->flow_control = from->flow_control;
	to->retry_count = from->retry_count;
	to->rnr_retry_count = from->rnr_retry_count;
	to->private_data_len = from->private_data_len;
	if (from->private_data_len)
		memcpy(to->private_data, from->private_data,
		       from->private_data_len);
	to->valid = 1;
}

int soft_cma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct rdma_ucm_connect cmd = { .id = cma_id(id)->handle };

	copy_param(&cmd.conn_param, param);
	return result(soft_cm_connect(file_of(id), &cmd));
}

int soft_cma_establish(struct rdma_cm_id *id)
{
	return result(soft_cm_establish(file_of(id), cma_id(id)->handle));
}

int soft_cma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct rdma_ucm_accept cmd = {
		.id = cma_id(id)->handle, .uid = (uintptr_t)id,
	};

	copy_param(&cmd.conn_param, param);
	return result(soft_cm_accept(file_of(id), &cmd));
}

int soft_cma_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	struct rdma_ucm_reject cmd = {
		.id = cma_id(id)->handle, .private_data_len = len,
	};

	if (len)
		memcpy(cmd.private_data, data, len);
	return result(soft_cm_reject(file_of(id), &cmd));
}

int soft_cma_disconnect(struct rdma_cm_id *id)
{
	const struct rdma_ucm_disconnect cmd = { .id = cma_id(id)->handle };

	return result(soft_cm_disconnect(file_of(id), &cmd));
}

static void copy_ah(struct ibv_ah_attr *to, const struct ib_uverbs_ah_attr *from)
{
	memset(to, 0, sizeof(*to));
	memcpy(to->grh.dgid.raw, from->grh.dgid, 16);
	to->dlid = from->dlid;
	to->sl = from->sl;
	to->grh.hop_limit = from->grh.hop_limit;
	to->grh.sgid_index = from->grh.sgid_index;
	to->is_global = from->is_global;
	to->port_num = from->port_num;
}

int soft_cma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr,
			  int *mask)
{
	const struct rdma_ucm_init_qp_attr cmd = {
		.id = cma_id(id)->handle, .qp_state = attr->qp_state,
	};
	struct ib_uverbs_qp_attr a;
	int err = soft_cm_init_qp_attr(file_of(id), &cmd, &a);

	if (err)
		return result(err);
	*mask = (int)a.qp_attr_mask;
	attr->path_mtu = (enum ibv_mtu)a.path_mtu;
	attr->qkey = a.qkey;
	attr->rq_psn = a.rq_psn;
	attr->sq_psn = a.sq_psn;
	attr->dest_qp_num = a.dest_qp_num;
	attr->qp_access_flags = a.qp_access_flags;
	copy_ah(&attr->ah_attr, &a.ah_attr);
	attr->pkey_index = a.pkey_index;
	attr->max_rd_atomic = a.max_rd_atomic;
	attr->max_dest_rd_atomic = a.max_dest_rd_atomic;
	attr->min_rnr_timer = a.min_rnr_timer;
	attr->port_num = a.port_num;
	attr->timeout = a.timeout;
	attr->retry_cnt = a.retry_cnt;
	attr->rnr_retry = a.rnr_retry;
	return 0;
}

/* ---- events ----------------------------------------------------------- */

/* The listener's event brings a new id with it. */
static int take_request(struct cma_event *ev,
			const struct rdma_ucm_event_resp *resp)
{
	struct cma_id *l = (struct cma_id *)(uintptr_t)resp->uid;
	struct cma_id *id = id_new(l->rdma.channel, l->rdma.context,
				   l->rdma.ps);

	if (!id)
		return -ENOMEM;
	id->handle = resp->id;
	ev->rdma.id = &id->rdma;
	ev->rdma.listen_id = &l->rdma;
	if (update(&id->rdma)) {
		id_free(id);
		return -ENOMEM;
	}
	return 0;
}

static void fill_ud(struct cma_event *ev, const struct rdma_ucm_ud_param *ud)
{
	struct rdma_ud_param *p = &ev->rdma.param.ud;

	memcpy(ev->data, ud->private_data, sizeof(ev->data));
	p->private_data = ud->private_data_len ? ev->data : NULL;
	p->private_data_len = ud->private_data_len;
	p->qp_num = ud->qp_num;
	p->qkey = ud->qkey;
	copy_ah(&p->ah_attr, &ud->ah_attr);
}

static void fill_event(struct cma_event *ev,
		       const struct rdma_ucm_event_resp *resp)
{
	const struct rdma_ucm_conn_param *c = &resp->param.conn;
	struct rdma_conn_param *p = &ev->rdma.param.conn;

	memset(ev, 0, sizeof(*ev));
	ev->counts_for = (struct cma_id *)(uintptr_t)resp->uid;
	ev->rdma.id = &ev->counts_for->rdma;
	ev->rdma.event = (enum rdma_cm_event_type)resp->event;
	ev->rdma.status = (int)resp->status;
	if (ev->rdma.id->qp_type == IBV_QPT_UD) {
		fill_ud(ev, &resp->param.ud);
		return;
	}
	memcpy(ev->data, c->private_data, sizeof(ev->data));
	p->private_data = c->private_data_len ? ev->data : NULL;
	p->private_data_len = c->private_data_len;
	p->responder_resources = c->responder_resources;
	p->initiator_depth = c->initiator_depth;
	p->flow_control = c->flow_control;
	p->retry_count = c->retry_count;
	p->rnr_retry_count = c->rnr_retry_count;
	p->srq = c->srq;
	p->qp_num = c->qp_num;
}

int soft_cma_get_cm_event(struct rdma_event_channel *channel,
			  struct rdma_cm_event **ret)
{
	struct cma_channel *ch = (struct cma_channel *)channel;
	struct rdma_ucm_event_resp resp;
	struct cma_event *ev = malloc(sizeof(*ev));
	uint64_t one;
	int err;

	if (!ev)
		return result(-ENOMEM);
	/* ids that were destroyed have taken their events with them */
	do {
		if (read(channel->fd, &one, sizeof(one)) != sizeof(one)) {
			err = errno;
			free(ev);
			return result(-err);
		}
		err = soft_cm_get_event(ch->file, &resp);
		if (err)
			continue;
		fill_event(ev, &resp);
		if (resp.event == RDMA_CM_EVENT_ADDR_RESOLVED ||
		    resp.event == RDMA_CM_EVENT_ROUTE_RESOLVED)
			(void)update(ev->rdma.id);
		if (resp.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			err = take_request(ev, &resp);
		if (err) {
			(void)pthread_mutex_lock(&ev->counts_for->lock);
			ev->counts_for->acked++;
			(void)pthread_mutex_unlock(&ev->counts_for->lock);
		}
	} while (err);
	*ret = &ev->rdma;
	return 0;
}

int soft_cma_ack_cm_event(struct rdma_cm_event *event)
{
	struct cma_id *id = ((struct cma_event *)event)->counts_for;

	(void)pthread_mutex_lock(&id->lock);
	id->acked++;
	(void)pthread_cond_signal(&id->cond);
	(void)pthread_mutex_unlock(&id->lock);
	free(event);
	return 0;
}

/* ---- devices ---------------------------------------------------------- */

struct ibv_context **soft_cma_get_devices(int *num)
{
	struct ibv_context **list = calloc(2, sizeof(*list));

	if (!list)
		return NULL;
	(void)pthread_mutex_lock(&verbs_lock);
	list[0] = contexts ? contexts->verbs : NULL;
	(void)pthread_mutex_unlock(&verbs_lock);
	if (num)
		*num = list[0] != NULL;
	return list;
}

void soft_cma_free_devices(struct ibv_context **list)
{
	free(list);
}
