/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft/cm/far.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "soft/cm/mad.h"
#include "soft/fabric/gid.h"
#include "soft/fabric/sockaddr.h"

#define WAIT_FIRST	200000000ull	/* ns until a message goes out again */
#define WAIT_MOST	4000000000ull
#define REQ_NS		60000000000ull
#define DREQ_NS		4000000000ull

/*
 * On the network, the number of an id names its process as well. Few programs
 * have so many ids that one has no such number.
 */
#define NUMBER_IDS	22
#define NUMBER_MOST	((1u << NUMBER_IDS) - 1)

static uint32_t number_of(const struct soft_dev *dev, uint32_t handle)
{
	return handle ? dev->node << NUMBER_IDS | handle : 0;
}

static uint32_t handle_of(uint32_t number)
{
	return number & NUMBER_MOST;
}

/* The port of *ret stays. */
static void addr_of(const uint8_t gid[16], uint32_t scope,
		    struct sockaddr_storage *ret)
{
	const in_port_t port = *soft_addr_port(ret);

	soft_gid_to_addr(gid, ret);
	if (ret->ss_family == AF_INET6)
		((struct sockaddr_in6 *)ret)->sin6_scope_id = scope;
	*soft_addr_port(ret) = port;
}

static struct soft_cm_far *far_new(struct soft_cm_id *id)
{
	struct soft_cm_far *far = calloc(1, sizeof(*far));

	if (!far)
		return NULL;
	(void)!getrandom(&far->tid, sizeof(far->tid), GRND_NONBLOCK);
	soft_cm_far_free(id);
	id->far = far;
	return far;
}

void soft_cm_far_free(struct soft_cm_id *id)
{
	free(id->far);
	id->far = NULL;
}

int soft_cm_far_resolve(struct soft_cm_id *id)
{
	struct soft_dev *dev = id->file->dev;
	struct soft_path path = { .mtu = 0 };
	struct soft_cm_far *far;
	int ret;

	if (!dev->far || id->ib)
		return -ENODEV;
	soft_addr_to_gid(&id->dst, path.to);
	if (soft_path_local(path.to))
		path.scope = ((struct sockaddr_in6 *)&id->dst)->sin6_scope_id;
	if (id->src.ss_family && !soft_addr_is_any(&id->src))
		soft_addr_to_gid(&id->src, path.from);
	ret = soft_net_route(&path);
	if (ret)
		return ret == -ENOMEM || ret == -EMFILE || ret == -ENFILE ?
		       ret : -ENODEV;
	ret = soft_net_open(dev);
	if (ret)
		return ret;
	far = id->handle <= NUMBER_MOST ? far_new(id) : NULL;
	if (!far)
		return -ENOMEM;
	far->path = path;
	far->mtu = (uint8_t)soft_path_mtu(path.mtu);
	if (!id->src.ss_family)
		id->src.ss_family = id->dst.ss_family;
	addr_of(path.from, path.scope, &id->src);
	return 0;
}

void soft_cm_far_group(struct soft_cm_id *id)
{
	struct soft_dev *dev = id->file->dev;
	const bool v4 = id->src.ss_family == AF_INET;
	const uint32_t loopback = dev->gids[0].ifindex;

	if (!soft_is_roce(dev))
		return;
	soft_gids_read(dev);
	for (int i = 0; i < SOFT_GIDS; i++) {
		const struct soft_gid *g = &dev->gids[i];

		if (!g->ifindex || g->ifindex == loopback ||
		    soft_gid_v4(g->gid.raw) != v4 ||
		    soft_path_local(g->gid.raw))
			continue;
		addr_of(g->gid.raw, 0, &id->src);
		return;
	}
}

bool soft_cm_far_listens(const struct soft_cm_id *id)
{
	const struct soft_dev *dev = id->file->dev;

	return dev->far && !id->ib &&
	       (dev->all_far || !soft_addr_is_loopback(&id->src));
}

int soft_cm_far_listen(const struct soft_cm_id *id)
{
	struct soft_dev *dev = id->file->dev;
	int ret = soft_cm_far_listens(id) ? soft_net_open(dev) : 0;

	/* whatever holds the port, processes of this host are still heard */
	if (!dev->far_asked) {
		soft_cm_port_taken(dev, ret);
		return 0;
	}
	/* the port of the listener may be in use as well */
	return ret == -EADDRINUSE ? -EADDRNOTAVAIL : ret;
}

/* ---- sending ---------------------------------------------------------- */

static void send_mad(struct soft_dev *dev, const struct soft_path *path,
		     const struct mad *mad)
{
	struct packet p = { .opcode = PACKET_UD | PACKET_SEND_ONLY,
			    .dst = SOFT_QPN_CM, .src = SOFT_QPN_CM,
			    .qkey = MAD_QKEY, .psn = dev->mad_psn++,
			    .bytes = MAD_LENGTH };
	uint8_t *at = soft_net_room(dev);
	uint32_t head;

	if (!at)
		return;			/* as if the network had lost it */
	head = packet_put(&p, at);
	mad_put(mad, at + head);
	soft_net_put(dev, path, head + MAD_LENGTH);
}

static void send_last(struct soft_cm_id *id, const struct soft_cm_msg *m)
{
	struct soft_cm_far *far = id->far;
	struct mad mad = { .m = *m, .ud = soft_cm_is_ud(id), .tid = far->tid,
			   .guid = id->file->dev->device_guid,
			   .mtu = far->mtu };

	memcpy(mad.from, far->path.from, 16);
	memcpy(mad.to, far->path.to, 16);
	/* a request is refused without a number of ours */
	if (m->hdr.type == SOFT_MSG_REJ && id->passive &&
	    far->last.hdr.type != SOFT_MSG_REP)
		mad.m.hdr.from = 0;
	mad.m.hdr.from = number_of(id->file->dev, mad.m.hdr.from);
	if (m->hdr.type == SOFT_MSG_DREQ)
		mad.m.param.qp_num = id->peer_qpn;
	send_mad(id->file->dev, &far->path, &mad);
}

/* Returns true for a message that the peer has to answer. */
static bool is_asking(const struct soft_cm_id *id, const struct soft_cm_msg *m)
{
	return m->hdr.type == SOFT_MSG_REQ || m->hdr.type == SOFT_MSG_DREQ ||
	       (m->hdr.type == SOFT_MSG_REP && !soft_cm_is_ud(id));
}

int soft_cm_far_send(struct soft_cm_id *id, const struct soft_cm_msg *m)
{
	struct soft_cm_far *far = id->far;

	send_last(id, m);
	/* an answer is kept as well: a duplicate gets it again */
	far->last = *m;
	if (!is_asking(id, m))
		return 0;
	far->wait = WAIT_FIRST;
	far->until = soft_now() + (m->hdr.type == SOFT_MSG_DREQ ? DREQ_NS :
				   REQ_NS);
	soft_timer_set(id->file->dev, &id->timer, far->wait);
	return 0;
}

bool soft_cm_far_again(struct soft_cm_id *id)
{
	struct soft_cm_far *far = id->far;

	if ((id->state != SOFT_CM_REQ_SENT && id->state != SOFT_CM_REP_SENT &&
	     id->state != SOFT_CM_DREQ_SENT) || soft_now() >= far->until)
		return false;
	send_last(id, &far->last);
	far->wait = min(2 * far->wait, WAIT_MOST);
	soft_timer_set(id->file->dev, &id->timer, far->wait);
	return true;
}

void soft_cm_far_connect(struct soft_cm_id *id)
{
	struct soft_cm_msg m;

	id->peer = 0;
	soft_cm_msg_init(&m, id, SOFT_MSG_REQ);
	m.psn = id->psn;
	m.param = id->param;
	memcpy(&m.src, &id->src, sizeof(m.src));
	memcpy(&m.dst, &id->dst, sizeof(m.dst));
	id->state = SOFT_CM_REQ_SENT;
	(void)soft_cm_far_send(id, &m);
}

void soft_cm_far_answer(struct soft_dev *dev, const struct soft_cm_from *from,
			const struct soft_cm_msg *m)
{
	struct mad mad = { .m = *m, .ud = from->ud, .tid = from->tid,
			   .guid = dev->device_guid };

	mad.m.hdr.from = number_of(dev, mad.m.hdr.from);
	send_mad(dev, from->path, &mad);
}

/* ---- receiving -------------------------------------------------------- */

int soft_cm_far_take(struct soft_cm_id *id, const struct soft_cm_from *from)
{
	struct soft_cm_far *far = id->handle <= NUMBER_MOST ? far_new(id) :
				  NULL;

	if (!far)
		return -ENOMEM;
	far->path = *from->path;
	far->tid = from->tid;
	if (!from->ud && (!from->mtu || from->mtu > IBV_MTU_4096))
		return -EMSGSIZE;
	far->mtu = from->mtu;
	/* without a descriptor for the question, believe the peer */
	if (!from->ud && !soft_net_route(&far->path) &&
	    soft_path_mtu(far->path.mtu) < from->mtu)
		return -EMSGSIZE;
	/* what the peer says of itself is not proven; its packets' source is */
	addr_of(far->path.to, far->path.scope, &id->dst);
	addr_of(far->path.from, far->path.scope, &id->src);
	id->passive = true;
	return 0;
}

/* Returns the listener at the address, or NULL. */
static struct soft_cm_id *listener_of(struct soft_dev *dev,
				      const struct soft_cm_from *from,
				      const struct soft_cm_msg *m)
{
	struct soft_cm_id *any = NULL;
	struct sockaddr_storage to = { .ss_family = AF_INET };
	uint8_t gid[16];
	struct list *n;

	addr_of(from->path->from, 0, &to);
	list_for_each(n, &dev->cm_ids) {
		struct soft_cm_id *id = list_entry(n, struct soft_cm_id, node);

		if (id->state != SOFT_CM_LISTEN || id->ps != m->ps || id->ib ||
		    *soft_addr_port(&id->src) != m->dst.sin6_port)
			continue;
		if (!soft_addr_is_any(&id->src)) {
			soft_addr_to_gid(&id->src, gid);
			if (!memcmp(gid, from->path->from, 16))
				return id;
		} else if (id->src.ss_family == to.ss_family ||
			   (id->src.ss_family == AF_INET6 && !id->afonly)) {
			any = id;
		}
	}
	return any;
}

/* Returns the id that a request with the peer's number has made, or NULL. */
static struct soft_cm_id *id_of_request(struct soft_dev *dev,
					const struct soft_cm_from *from,
					uint32_t number)
{
	struct list *n;

	list_for_each(n, &dev->cm_ids) {
		struct soft_cm_id *id = list_entry(n, struct soft_cm_id, node);

		if (id->far && id->passive && id->peer == number &&
		    soft_path_same(&id->far->path, from->path) &&
		    id->far->tid == from->tid)
			return id;
	}
	return NULL;
}

/* The reply to a request, or what was sent instead, was lost. */
static void repeat_reply(struct soft_cm_id *id)
{
	const uint16_t last = id->far->last.hdr.type;

	if (last == SOFT_MSG_REP || last == SOFT_MSG_REJ)
		send_last(id, &id->far->last);
}

/* Returns true if the message repeats one that was answered before. */
static bool is_duplicate(struct soft_dev *dev, const struct soft_cm_from *from,
			 struct soft_cm_msg *m)
{
	struct soft_cm_id *id = NULL;

	switch (m->hdr.type) {
	case SOFT_MSG_REQ:
		id = id_of_request(dev, from, m->hdr.from);
		if (id)
			repeat_reply(id);
		return id;
	case SOFT_MSG_REP:
		id = soft_cm_find(dev, m->hdr.to);
		if (!id || !id->far || id->passive ||
		    !soft_path_same(&id->far->path, from->path) ||
		    id->state != SOFT_CM_CONNECTED || soft_cm_is_ud(id))
			return false;
		(void)soft_cm_send(id, SOFT_MSG_RTU, 0);
		return true;
	case SOFT_MSG_DREQ:
		id = soft_cm_find(dev, m->hdr.to);
		if (id && id->far && id->state != SOFT_CM_OVER)
			return false;
		/* this end has closed, or was never there */
		m->hdr.type = SOFT_MSG_DREP;
		m->hdr.to = m->hdr.from;
		m->hdr.from = id ? id->handle : 0;
		soft_cm_far_answer(dev, from, m);
		return true;
	default:
		return false;
	}
}

struct soft_cm_id *soft_cm_far_id(struct soft_dev *dev,
				  const struct soft_cm_from *from,
				  const struct soft_msg *m)
{
	struct soft_cm_id *id = soft_cm_find(dev, m->to);

	if (m->to)
		return id && id->far &&
		       soft_path_same(&id->far->path, from->path) &&
		       /* an answer to a request has its number */
		       (id->state != SOFT_CM_REQ_SENT ||
			from->tid == id->far->tid) &&
		       (!id->peer || !m->from || id->peer == m->from) ? id :
		       NULL;
	/* a request is withdrawn before the peer knows our number */
	return m->from ? id_of_request(dev, from, m->from) : NULL;
}

bool soft_cm_far_smaller(struct soft_cm_id *id, uint8_t reason)
{
	if (reason != SOFT_REJ_MTU || id->state != SOFT_CM_REQ_SENT ||
	    id->far->mtu <= IBV_MTU_256)
		return false;
	id->far->mtu--;
	id->far->tid++;
	soft_cm_far_connect(id);
	return true;
}

/* The answer will take longer: IBTA volume 1, 12.6.6. */
static void on_delay(struct soft_dev *dev, const struct soft_cm_from *from,
		     const struct soft_cm_msg *m)
{
	struct soft_cm_id *id = soft_cm_far_id(dev, from, &m->hdr);

	if (id && soft_now() < id->far->until &&
	    (id->state == SOFT_CM_REQ_SENT || id->state == SOFT_CM_REP_SENT)) {
		id->far->wait = WAIT_MOST;
		soft_timer_set(dev, &id->timer, WAIT_MOST);
	}
}

/* The request is for the address that it came to, whatever it says. */
static void set_target(struct soft_cm_msg *m, const struct soft_path *back)
{
	struct sockaddr_storage to = { .ss_family = AF_INET };

	*soft_addr_port(&to) = m->dst.sin6_port;
	addr_of(back->from, back->scope, &to);
	memcpy(&m->dst, &to, sizeof(m->dst));
}

/* A message for an id of another process, which may have ended. */
static void pass_on(struct soft_dev *dev, const struct soft_cm_from *from,
		    const struct packet *p, const struct soft_cm_msg *m)
{
	struct soft_cm_msg end = *m;

	if (soft_net_forward(dev, m->hdr.to >> NUMBER_IDS, from->path, p) ||
	    m->hdr.type != SOFT_MSG_DREQ)
		return;
	end.hdr.type = SOFT_MSG_DREP;
	end.hdr.to = m->hdr.from;
	end.hdr.from = 0;
	soft_cm_far_answer(dev, from, &end);
}

void soft_cm_packet(struct soft_dev *dev, const struct soft_path *back,
		    const struct packet *p)
{
	struct soft_cm_from from = { .path = back };
	struct soft_cm_id *l;
	struct mad mad;

	if (p->bytes != MAD_LENGTH || p->qkey != MAD_QKEY ||
	    !soft_cm_carried(dev) || !mad_get(&mad, p->payload))
		return;
	from.tid = mad.tid;
	from.mtu = mad.mtu;
	from.ud = mad.ud;
	/* of an id of another process */
	if (mad.m.hdr.to && mad.m.hdr.to >> NUMBER_IDS != dev->node) {
		pass_on(dev, &from, p, &mad.m);
		return;
	}
	mad.m.hdr.to = handle_of(mad.m.hdr.to);
	if (mad.delay) {
		on_delay(dev, &from, &mad.m);
		return;
	}
	if (is_duplicate(dev, &from, &mad.m))
		return;
	if (mad.m.hdr.type == SOFT_MSG_REQ) {
		set_target(&mad.m, back);
		l = listener_of(dev, &from, &mad.m);
		if (!l && !p->forwarded && soft_cm_seek(dev, back, p, &mad.m))
			return;		/* another process may listen */
		mad.m.hdr.to = l ? l->handle : 0;
	}
	soft_cm_take(dev, &from, &mad.m);
}

/* No process of that host receives packets: nobody listens there. */
void soft_cm_refused(struct soft_dev *dev, const uint8_t to[16])
{
	struct list *n, *t;

	list_for_each_safe(n, t, &dev->cm_ids) {
		struct soft_cm_id *id = list_entry(n, struct soft_cm_id, node);

		if (id->far && id->state == SOFT_CM_REQ_SENT &&
		    !memcmp(id->far->path.to, to, 16))
			soft_cm_not_found(id, SOFT_REJ_INVALID_SERVICE);
	}
}
