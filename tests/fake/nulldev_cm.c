/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection management: any address and any port lead to this process. */
#include "nulldev_objects.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

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
	struct id *next;		/* in the list of all ids */
	struct id *peer;
	uint16_t port;			/* local port */
	bool listening;
	bool afonly;			/* RDMA_OPTION_ID_AFONLY */
	bool over;
	uint32_t peer_qp;
};

static struct id *ids;
static struct ibv_context *cm_verbs;	/* the context that the CM opens */
static uint16_t last_port = 40000;

#define id_of(rdma_id)	((struct id *)(rdma_id))

/*
 * The library connects iWARP devices in a thread. LOCKED holds the lock until
 * the end of the function.
 */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static pthread_mutex_t *lock_it(void)
{
	pthread_mutex_lock(&lock);
	return &lock;
}

static void unlock_it(pthread_mutex_t **l)
{
	pthread_mutex_unlock(*l);
}

#define LOCKED	pthread_mutex_t *held \
	__attribute__((cleanup(unlock_it), unused)) = lock_it()

struct rdma_event_channel *nullcm_create_event_channel(void)
{
	LOCKED;
	struct cm_channel *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	ch->rdma.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	ch->last = &ch->first;
	return &ch->rdma;
}

void nullcm_destroy_event_channel(struct rdma_event_channel *rdma)
{
	LOCKED;
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

int nullcm_get_cm_event(struct rdma_event_channel *rdma,
			struct rdma_cm_event **event)
{
	LOCKED;
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

int nullcm_ack_cm_event(struct rdma_cm_event *event)
{
	LOCKED;
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

int nullcm_create_id(struct rdma_event_channel *channel,
		     struct rdma_cm_id **ret, void *context,
		     enum rdma_port_space ps)
{
	LOCKED;
	struct id *id = new_id(channel, context);

	if (!id)
		return -1;
	*ret = &id->rdma;
	return 0;
}

/* Drops the unread events of an id that is destroyed. */
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

int nullcm_destroy_id(struct rdma_cm_id *rdma)
{
	LOCKED;
	struct id *id = id_of(rdma), **at = &ids;

	if (id->peer)
		(void)nullcm_disconnect(rdma);
	for (struct id *i = ids; i; i = i->next)
		if (i->peer == id)
			i->peer = NULL;
	forget_events(id);
	while (*at != id)
		at = &(*at)->next;
	*at = id->next;
	free(id);
	nulldev_counts.ids--;
	/* destroying the last id closes the device */
	if (!ids && cm_verbs) {
		(void)nulldev_verbs.close_device(cm_verbs);
		cm_verbs = NULL;
	}
	return 0;
}

int nullcm_migrate_id(struct rdma_cm_id *id,
		      struct rdma_event_channel *channel)
{
	LOCKED;
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

int nullcm_set_option(struct rdma_cm_id *id, int level, int optname,
		      void *optval, size_t optlen)
{
	LOCKED;
	int value;

	if (level == RDMA_OPTION_ID && optname == RDMA_OPTION_ID_AFONLY) {
		memcpy(&value, optval, sizeof(value));
		id_of(id)->afonly = value;
	}
	return 0;
}

static uint16_t port_of(const struct sockaddr *addr)
{
	/* sin_port and sin6_port have the same offset */
	return ntohs(((const struct sockaddr_in *)addr)->sin_port);
}

static size_t addr_len(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
	       sizeof(struct sockaddr_in);
}

static bool is_any(const struct sockaddr *addr)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;

	return addr->sa_family == AF_INET6 ?
	       IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr) :
	       !((const struct sockaddr_in *)addr)->sin_addr.s_addr;
}

static bool is_v6(const struct id *i)
{
	return i->rdma.route.addr.src_addr.sa_family == AF_INET6;
}

/* As in Linux, cma_check_port(): the families are separate if both say so. */
static bool is_taken(const struct id *id)
{
	for (struct id *i = ids; i; i = i->next)
		if (i->listening && i->port == id->port &&
		    (is_v6(i) == is_v6(id) || !(is_v6(i) ? i : id)->afonly))
			return true;
	return false;
}

/*
 * Finds the listener for an address. On iWARP one at IPv6 takes IPv6 only:
 * Linux 6.1, cma.c, iw_conn_req_handler() fails for a mapped address.
 */
static struct id *listener_at(const struct sockaddr *addr)
{
	bool dual = nulldev_device.transport_type != IBV_TRANSPORT_IWARP;
	bool v6 = addr->sa_family == AF_INET6;

	for (struct id *i = ids; i; i = i->next)
		if (i->listening && i->port == port_of(addr) &&
		    (is_v6(i) == v6 || (!v6 && dual && !i->afonly)))
			return i;
	return NULL;
}

static void bind_device(struct rdma_cm_id *id)
{
	if (!cm_verbs)
		cm_verbs = nulldev_verbs.open_device(&nulldev_device);
	id->verbs = cm_verbs;
	id->port_num = 1;
	id->route.addr.addr.ibaddr.sgid.raw[15] = 1;
}

int nullcm_bind_addr(struct rdma_cm_id *rdma, struct sockaddr *addr)
{
	LOCKED;
	struct id *id = id_of(rdma);

	memcpy(&rdma->route.addr.src_storage, addr, addr_len(addr));
	id->port = port_of(addr) ? port_of(addr) : ++last_port;
	rdma->route.addr.src_sin.sin_port = htons(id->port);
	if (!is_any(addr))
		bind_device(rdma);
	return 0;
}

int nullcm_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
			struct sockaddr *dst, int timeout_ms)
{
	LOCKED;
	memcpy(&id->route.addr.dst_storage, dst, addr_len(dst));
	/* this process is both source and destination */
	memcpy(&id->route.addr.src_storage, dst, addr_len(dst));
	id_of(id)->port = ++last_port;
	id->route.addr.src_sin.sin_port = htons(last_port);
	bind_device(id);
	return raise_event(id_of(id), RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL,
			   NULL);
}

int nullcm_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	LOCKED;
	return raise_event(id_of(id), RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL,
			   NULL);
}

int nullcm_listen(struct rdma_cm_id *rdma, int backlog)
{
	LOCKED;
	struct id *id = id_of(rdma);

	if (is_taken(id)) {
		errno = EADDRINUSE;
		return -1;
	}
	id->listening = true;
	return 0;
}

int nullcm_connect(struct rdma_cm_id *rdma, struct rdma_conn_param *param)
{
	LOCKED;
	struct id *id = id_of(rdma), *child;
	struct id *l = listener_at(&rdma->route.addr.dst_addr);

	if (!l)
		return raise_event(id, RDMA_CM_EVENT_REJECTED,
				   8 /* invalid service ID */, NULL, NULL);
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

int nullcm_accept(struct rdma_cm_id *rdma, struct rdma_conn_param *param)
{
	LOCKED;
	struct id *id = id_of(rdma);

	if (!id->peer)
		return 0;
	id->peer->peer_qp = param->qp_num;
	if (nulldev_device.transport_type == IBV_TRANSPORT_IWARP) {
		null_join(id->peer_qp, param->qp_num);
		return raise_event(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0,
				   param, NULL) ?:
		       raise_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL,
				   NULL);
	}
	return raise_event(id->peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, param,
			   NULL);
}

int nullcm_establish(struct rdma_cm_id *rdma)
{
	LOCKED;
	struct id *id = id_of(rdma);

	return id->peer ? raise_event(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0,
				      NULL, NULL) : 0;
}

int nullcm_reject(struct rdma_cm_id *rdma, const void *data, uint8_t len)
{
	LOCKED;
	const struct rdma_conn_param param = {
		.private_data = data, .private_data_len = len,
	};
	struct id *id = id_of(rdma);
	struct id *peer = id->peer;

	if (!peer)
		return 0;
	id->peer = peer->peer = NULL;
	return raise_event(peer, RDMA_CM_EVENT_REJECTED,
			   28 /* consumer reject */, &param, NULL);
}

int nullcm_disconnect(struct rdma_cm_id *rdma)
{
	LOCKED;
	struct id *id = id_of(rdma);
	struct id *peer = id->peer;

	/* the cut loses the disconnect request, too */
	if (null_is_cut)
		return 0;
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

int nullcm_init_qp_attr(struct rdma_cm_id *rdma, struct ibv_qp_attr *attr,
			int *mask)
{
	LOCKED;
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

__be16 nullcm_get_src_port(struct rdma_cm_id *id)
{
	LOCKED;
	return htons(id_of(id)->port);
}

void nulldev_remove(void)
{
	LOCKED;
	for (struct id *i = ids; i; i = i->next)
		if (i->rdma.verbs)
			(void)raise_event(i, RDMA_CM_EVENT_DEVICE_REMOVAL, 0,
					  NULL, NULL);
}
