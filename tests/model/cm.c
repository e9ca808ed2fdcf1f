/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection management: any address leads to this process. The events of an
 * id come in order, and the scheduler decides when each becomes visible.
 */
#include "sim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REJ_NO_LISTENER	8
#define REJ_TIMEOUT	4
#define REJ_CONSUMER	28

struct channel {
	struct rdma_event_channel rdma;
	struct sim_event *first, **last;
};

struct sim_id *sim_ids;
struct sim_conn *sim_conns;
static struct ibv_context *cm_verbs;	/* the context that the CM opens */
static uint16_t last_port;

#define id_of(rdma_id)	((struct sim_id *)(rdma_id))

/* ---- events ------------------------------------------------------------ */

struct rdma_event_channel *simcm_create_event_channel(void)
{
	struct channel *ch = calloc(1, sizeof(*ch));

	ch->rdma.fd = sim_fd_new();
	ch->last = &ch->first;
	sim_counts.event_channels++;
	return &ch->rdma;
}

void simcm_destroy_event_channel(struct rdma_event_channel *ch)
{
	sim_fd_free(ch->fd);
	free(ch);
	sim_counts.event_channels--;
}

static struct sim_event *raise_event(struct sim_id *id,
				     enum rdma_cm_event_type type, int status,
				     const struct rdma_conn_param *param)
{
	struct sim_event *ev = calloc(1, sizeof(*ev));

	ev->channel = id->rdma.channel;
	ev->rdma.id = &id->rdma;
	ev->rdma.event = type;
	ev->rdma.status = status;
	if (param) {
		ev->rdma.param.conn = *param;
		if (param->private_data)
			memcpy(ev->data, param->private_data,
			       param->private_data_len);
		ev->rdma.param.conn.private_data = ev->data;
	}
	*id->hidden_end = ev;
	id->hidden_end = &ev->next;
	return ev;
}

static bool is_withheld(const struct sim_id *id)
{
	const struct sim_qp *qp = id->conn ?
				  sim_qp_find(id->conn->qp[id->end]) : NULL;

	return id->hidden->rdma.event == RDMA_CM_EVENT_DISCONNECTED && qp &&
	       qp->ibv.state == IBV_QPS_RTS && sim_end_waits(qp);
}

bool sim_can_tell(const struct sim_id *id)
{
	return id->hidden && !is_withheld(id);
}

void sim_tell(struct sim_id *id)
{
	struct sim_event *ev = id->hidden;
	struct channel *ch = (struct channel *)ev->channel;

	sim_trace("sim: event %s, status %d\n",
		  rdma_event_str(ev->rdma.event), ev->rdma.status);
	id->hidden = ev->next;
	if (!id->hidden)
		id->hidden_end = &id->hidden;
	ev->next = NULL;
	*ch->last = ev;
	ch->last = &ev->next;
	sim_fd_add(ch->rdma.fd, 1);
}

int simcm_get_cm_event(struct rdma_event_channel *rdma,
		       struct rdma_cm_event **event)
{
	struct channel *ch = (struct channel *)rdma;
	struct sim_event *ev = ch->first;

	if (!ev) {
		errno = EAGAIN;
		return -1;
	}
	ch->first = ev->next;
	if (!ch->first)
		ch->last = &ch->first;
	sim_fd_add(rdma->fd, -1);
	*event = &ev->rdma;
	return 0;
}

int simcm_ack_cm_event(struct rdma_cm_event *event)
{
	free(event);
	return 0;
}

/* Drops the events of an id that ends. */
static void drop_events(struct sim_id *id)
{
	struct channel *ch = (struct channel *)id->rdma.channel;

	while (id->hidden) {
		struct sim_event *ev = id->hidden;

		id->hidden = ev->next;
		free(ev);
	}
	for (struct sim_event **at = &ch->first; *at;) {
		struct sim_event *ev = *at;

		if (ev->rdma.id != &id->rdma) {
			at = &ev->next;
			continue;
		}
		*at = ev->next;
		free(ev);
		sim_fd_add(ch->rdma.fd, -1);
	}
	ch->last = &ch->first;
	while (*ch->last)
		ch->last = &(*ch->last)->next;
}

/* ---- ids --------------------------------------------------------------- */

static struct sim_id *new_id(struct rdma_event_channel *channel, void *context)
{
	struct sim_id *id = calloc(1, sizeof(*id));

	id->rdma.channel = channel;
	id->rdma.context = context;
	id->rdma.ps = RDMA_PS_TCP;
	id->hidden_end = &id->hidden;
	id->next = sim_ids;
	sim_ids = id;
	sim_counts.ids++;
	return id;
}

int simcm_create_id(struct rdma_event_channel *channel,
		    struct rdma_cm_id **ret, void *context,
		    enum rdma_port_space ps)
{
	*ret = &new_id(channel, context)->rdma;
	return 0;
}

static struct sim_id *peer_of(const struct sim_id *id)
{
	return id->conn ? id->conn->id[!id->end] : NULL;
}

static bool reaches(const struct sim_id *id)
{
	return id->conn && !id->conn->dead && peer_of(id);
}

static void leave(struct sim_id *id)
{
	struct sim_conn *c = id->conn, **at = &sim_conns;

	if (!c)
		return;
	c->id[id->end] = NULL;
	id->conn = NULL;
	if (c->id[0] || c->id[1])
		return;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	free(c);
}

static void free_id(struct sim_id *id)
{
	struct sim_id **at = &sim_ids;

	drop_events(id);
	leave(id);
	while (*at != id)
		at = &(*at)->next;
	*at = id->next;
	free(id);
	sim_counts.ids--;
}

/* Tells the peer that this side has ended. */
static void say_end(struct sim_id *id)
{
	struct sim_id *peer = peer_of(id);

	if (!reaches(id) || peer->state == ID_OVER || id->state == ID_OVER)
		return;
	if (id->state == ID_UP || (id->state == ID_REP_RCVD &&
				   peer->state == ID_UP))
		(void)raise_event(peer, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	else
		(void)raise_event(peer, RDMA_CM_EVENT_REJECTED,
				  id->state == ID_REQ_SENT ? REJ_TIMEOUT :
				  REJ_CONSUMER, NULL);
	peer->state = ID_OVER;
}

static bool asks(const struct sim_event *ev, const struct sim_id *id,
		 const struct sim_id *listener)
{
	while (ev && ev->rdma.id != &id->rdma)
		ev = ev->next;
	return ev && ev->rdma.event == RDMA_CM_EVENT_CONNECT_REQUEST &&
	       ev->rdma.listen_id == &listener->rdma;
}

/* As the kernel does with requests that the program has not taken. */
static void drop_requests(const struct sim_id *listener)
{
	const struct channel *ch = (struct channel *)listener->rdma.channel;
	struct sim_id *next;

	for (struct sim_id *i = sim_ids; i; i = next) {
		next = i->next;
		if (!asks(i->hidden, i, listener) &&
		    !asks(ch->first, i, listener))
			continue;
		say_end(i);
		free_id(i);
	}
}

int simcm_destroy_id(struct rdma_cm_id *rdma)
{
	drop_requests(id_of(rdma));
	say_end(id_of(rdma));
	free_id(id_of(rdma));
	return 0;
}

int simcm_migrate_id(struct rdma_cm_id *rdma, struct rdma_event_channel *ch)
{
	sim_fail("an id is moved");
}

int simcm_set_option(struct rdma_cm_id *id, int level, int optname,
		     void *optval, size_t optlen)
{
	return 0;
}

static uint16_t port_of(const struct sockaddr *addr)
{
	return ntohs(((const struct sockaddr_in *)addr)->sin_port);
}

static void bind_device(struct rdma_cm_id *id)
{
	if (!cm_verbs) {
		int n;
		struct ibv_device **list = sim_verbs.get_device_list(&n);

		cm_verbs = sim_verbs.open_device(list[0]);
		sim_verbs.free_device_list(list);
	}
	id->verbs = cm_verbs;
	id->port_num = 1;
	id->route.addr.addr.ibaddr.sgid.raw[15] = 1;
}

int simcm_bind_addr(struct rdma_cm_id *rdma, struct sockaddr *addr)
{
	struct sim_id *id = id_of(rdma);

	memcpy(&rdma->route.addr.src_storage, addr, sizeof(struct sockaddr_in));
	id->port = port_of(addr) ? port_of(addr) : ++last_port;
	rdma->route.addr.src_sin.sin_port = htons(id->port);
	bind_device(rdma);
	return 0;
}

int simcm_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
		       struct sockaddr *dst, int timeout_ms)
{
	memcpy(&id->route.addr.dst_storage, dst, sizeof(struct sockaddr_in));
	memcpy(&id->route.addr.src_storage, dst, sizeof(struct sockaddr_in));
	id_of(id)->port = ++last_port;
	id->route.addr.src_sin.sin_port = htons(last_port);
	bind_device(id);
	(void)raise_event(id_of(id), RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
	return 0;
}

int simcm_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)raise_event(id_of(id), RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
	return 0;
}

int simcm_listen(struct rdma_cm_id *rdma, int backlog)
{
	id_of(rdma)->state = ID_LISTENS;
	return 0;
}

__be16 simcm_get_src_port(struct rdma_cm_id *id)
{
	return htons(id_of(id)->port);
}

/* ---- connections ------------------------------------------------------- */

static int over(void)
{
	errno = EINVAL;
	return -1;
}

static struct sim_id *listener_at(uint16_t port)
{
	for (struct sim_id *i = sim_ids; i; i = i->next)
		if (i->state == ID_LISTENS && i->port == port)
			return i;
	return NULL;
}

int simcm_connect(struct rdma_cm_id *rdma, struct rdma_conn_param *param)
{
	struct sim_id *id = id_of(rdma), *child;
	struct sim_id *l = listener_at(port_of(&rdma->route.addr.dst_addr));
	struct sim_conn *c;

	if (!l) {
		(void)raise_event(id, RDMA_CM_EVENT_REJECTED, REJ_NO_LISTENER,
				  NULL);
		id->state = ID_OVER;
		return 0;
	}
	child = new_id(l->rdma.channel, l->rdma.context);
	c = calloc(1, sizeof(*c));
	c->next = sim_conns;
	sim_conns = c;
	c->id[0] = id;
	c->id[1] = child;
	c->qp[0] = param->qp_num;
	id->conn = child->conn = c;
	child->end = 1;
	id->state = ID_REQ_SENT;
	child->state = ID_REQ_RCVD;
	child->port = l->port;
	child->rdma.route.addr.src_storage = rdma->route.addr.dst_storage;
	child->rdma.route.addr.dst_storage = rdma->route.addr.src_storage;
	bind_device(&child->rdma);
	raise_event(child, RDMA_CM_EVENT_CONNECT_REQUEST, 0, param)
		->rdma.listen_id = &l->rdma;
	return 0;
}

int simcm_accept(struct rdma_cm_id *rdma, struct rdma_conn_param *param)
{
	struct sim_id *id = id_of(rdma), *peer = peer_of(id);

	if (id->state != ID_REQ_RCVD)
		return over();
	id->conn->qp[1] = param->qp_num;
	id->state = ID_REP_SENT;
	if (!reaches(id)) {
		sim_qp_find(param->qp_num)->cut = true;
		(void)raise_event(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT,
				  NULL);
		id->state = ID_OVER;
		return 0;
	}
	peer->state = ID_REP_RCVD;
	(void)raise_event(peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, param);
	return 0;
}

int simcm_establish(struct rdma_cm_id *rdma)
{
	struct sim_id *id = id_of(rdma);

	if (id->state != ID_REP_RCVD)
		return over();
	id->state = ID_UP;
	if (!reaches(id) || peer_of(id)->state == ID_OVER)
		return 0;
	peer_of(id)->state = ID_UP;
	(void)raise_event(peer_of(id), RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
	return 0;
}

int simcm_reject(struct rdma_cm_id *rdma, const void *data, uint8_t len)
{
	const struct rdma_conn_param param = {
		.private_data = data, .private_data_len = len,
	};
	struct sim_id *id = id_of(rdma);

	if (id->state != ID_REQ_RCVD)
		return over();
	id->state = ID_OVER;
	if (!reaches(id) || peer_of(id)->state == ID_OVER)
		return 0;
	peer_of(id)->state = ID_OVER;
	(void)raise_event(peer_of(id), RDMA_CM_EVENT_REJECTED, REJ_CONSUMER,
			  &param);
	return 0;
}

int simcm_disconnect(struct rdma_cm_id *rdma)
{
	struct sim_id *id = id_of(rdma);
	struct sim_qp *qp;

	if (id->state == ID_OVER || !id->conn)
		return over();
	qp = sim_qp_find(id->conn->qp[id->end]);
	if (sim_loose && qp)
		loose_disconnect(qp);
	if (!reaches(id) || peer_of(id)->state == ID_OVER) {
		(void)raise_event(id, RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT,
				  NULL);
	} else {
		say_end(id);
		(void)raise_event(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	}
	id->state = ID_OVER;
	return 0;
}

/* The request is lost. */
static void lose_request(struct sim_conn *c)
{
	struct sim_id *child = c->id[1];

	if (child && child->hidden && child->hidden->rdma.event ==
	    RDMA_CM_EVENT_CONNECT_REQUEST && sim_once_in(2))
		free_id(child);
}

void sim_conn_cut(struct sim_conn *c)
{
	sim_trace("sim: the connection of qps %u and %u is cut\n", c->qp[0],
		  c->qp[1]);
	c->dead = true;
	for (int i = 0; i < 2; i++) {
		struct sim_qp *qp = sim_qp_find(c->qp[i]);
		struct sim_id *id = c->id[i];

		if (qp)
			qp->cut = true;
		if (!id || (id->state != ID_REQ_SENT &&
			    id->state != ID_REP_SENT))
			continue;
		(void)raise_event(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT,
				  NULL);
		id->state = ID_OVER;
	}
	lose_request(c);
}

int simcm_init_qp_attr(struct rdma_cm_id *rdma, struct ibv_qp_attr *attr,
		       int *mask)
{
	struct sim_id *id = id_of(rdma);

	*mask = IBV_QP_STATE;
	if (attr->qp_state != IBV_QPS_INIT && id->state == ID_OVER)
		return over();
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		attr->port_num = 1;
		*mask |= IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
		break;
	case IBV_QPS_RTR:
		attr->dest_qp_num = id->conn->qp[!id->end];
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

void simcm_reset(void)
{
	if (cm_verbs)
		(void)sim_verbs.close_device(cm_verbs);
	cm_verbs = NULL;
	last_port = 40000;
}
