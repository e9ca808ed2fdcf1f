/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Binding, listening and finding listeners. A listener owns an abstract socket
 * with a name of port space, port and address. A process that connects to the
 * socket gets the number of the listener's node.
 */
#include "soft/cm/id.h"
#include "soft/cm/far.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <infiniband/ib.h>

#include "soft/fabric/gid.h"
#include "soft/fabric/names.h"
#include "soft/fabric/sockaddr.h"

#define NAME_BACKLOG	1024
#define LOOKUP_NS	60000000000ull	/* as long as for a REP */
#define PLACES		32		/* names of one kind per port */

#define TEXT_MAX	(INET6_ADDRSTRLEN + sizeof("%4294967295"))

/* The kind of a name: an address of IPv4 or IPv6, or a GID. */
static char kind_of(bool ib, const struct sockaddr_storage *a)
{
	return ib ? 'g' : a->ss_family == AF_INET6 ? '6' : '4';
}

/*
 * A link-local address belongs to a link: two links may have the same one. An
 * address of a node of InfiniBand has no link.
 */
static uint32_t link_of(bool ib, const struct sockaddr_storage *a)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)a;

	return !ib && a->ss_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ? in6->sin6_scope_id : 0;
}

static void addr_text(bool ib, const struct sockaddr_storage *a,
		      char buf[static TEXT_MAX])
{
	const void *at = a->ss_family == AF_INET6 ?
		(const void *)&((const struct sockaddr_in6 *)a)->sin6_addr :
		(const void *)&((const struct sockaddr_in *)a)->sin_addr;
	uint32_t link = link_of(ib, a);
	size_t len;

	if (soft_addr_is_any(a)) {
		(void)snprintf(buf, TEXT_MAX, "*%c", kind_of(ib, a));
		return;
	}
	if (ib)
		*buf++ = 'g';
	if (!inet_ntop(a->ss_family, at, buf, INET6_ADDRSTRLEN))
		buf[0] = 0;
	len = strlen(buf);
	if (link)
		(void)snprintf(buf + len, TEXT_MAX - len, "%%%u", link);
}

/* ---- binding ---------------------------------------------------------- */

/* Takes the name at the port of id->src. */
static int take_name(const struct soft_cm_id *id, const char *name)
{
	struct sockaddr_storage src = id->src;

	return soft_name_listen(id->file->dev, 0, "cm/%x/%u/%s", id->ps,
				(unsigned int)ntohs(*soft_addr_port(&src)),
				name);
}

/* Returns 0 if the name is free, -EADDRNOTAVAIL if taken, or -errno. */
static int look_for(const struct soft_cm_id *id, const char *name)
{
	int fd = take_name(id, name);

	if (fd >= 0)
		close(fd);
	return fd == -EADDRINUSE ? -EADDRNOTAVAIL : min(fd, 0);
}

/*
 * A bound address also takes one of PLACES names of its kind: 4, 6, g for a
 * GID, or d for IPv6 that includes IPv4. Needed because names cannot be listed, and the
 * wildcard must know whether an address is bound to its port.
 */
static void place_text(char kind, int i, char text[8])
{
	(void)snprintf(text, 8, "#%c%d", kind, i % PLACES);
}

static int take_place(struct soft_cm_id *id, char kind)
{
	char text[8];
	int fd = -EADDRINUSE;

	for (int i = 0; i < PLACES && fd == -EADDRINUSE; i++) {
		place_text(kind, i, text);
		fd = take_name(id, text);
	}
	return fd;
}

static int look_for_places(const struct soft_cm_id *id, const char *kinds)
{
	char text[8];
	int ret = 0;

	for (; *kinds && !ret; kinds++)
		for (int i = 0; i < PLACES && !ret; i++) {
			place_text(*kinds, i, text);
			ret = look_for(id, text);
		}
	return ret;
}

static int look_for_clash(const struct soft_cm_id *id, bool v6, bool dual)
{
	int ret = 0;

	if (id->ib)
		return soft_addr_is_any(&id->src) ? look_for_places(id, "g") :
		       look_for(id, "*g");
	if (soft_addr_is_any(&id->src))
		return look_for_places(id, dual ? "46d" : v6 ? "6d" : "4d");
	if (!v6 || dual)
		ret = look_for(id, "*4");
	if (!ret && v6)
		ret = look_for(id, "*6");
	return ret;
}

/*
 * Takes the names of id->src. The wildcard and an address cannot have the same
 * port, unless their families are separate: Linux, cma_check_port(). Each id
 * takes its own names first and then looks for others, so that of two
 * concurrent ids at most one succeeds. A connection to a name that does not
 * listen yet is refused.
 */
static int take_names(struct soft_cm_id *id)
{
	bool v6 = id->src.ss_family == AF_INET6;
	bool any = soft_addr_is_any(&id->src);
	bool dual = v6 && !id->afonly && !id->ib;
	char text[TEXT_MAX];
	int fd;

	addr_text(id->ib, &id->src, text);
	fd = take_name(id, text);
	if (fd < 0)
		return fd;
	id->sock[0].fd = fd;
	if (!any || dual) {
		fd = any ? take_name(id, "*4") :
		     take_place(id, dual ? 'd' : kind_of(id->ib, &id->src));
		if (fd < 0)
			goto err;
		id->sock[1].fd = fd;
	}
	fd = look_for_clash(id, v6, dual);
	if (!fd)
		return 0;
err:
	soft_cm_unlisten(id);
	return fd;
}

/* Takes the requested port, or a free one. */
static int take_port(struct soft_cm_id *id)
{
	int ret = -EADDRINUSE;

	if (*soft_addr_port(&id->src))
		return take_names(id);
	for (int i = 0; i < 1000 && (ret == -EADDRINUSE ||
				     ret == -EADDRNOTAVAIL); i++) {
		soft_cm_new_port(id);
		ret = take_names(id);
	}
	return ret;
}

/*
 * An address needs a device: Linux, rdma_bind_addr_dst(). All addresses need
 * none.
 */
static int has_device(const struct soft_cm_id *id)
{
	int ret = soft_addr_is_any(&id->src) ? 0 :
		  soft_cm_local(id, &id->src, true);

	return !ret && !soft_addr_is_any(&id->src) && id->file->dev->absent ?
	       -ENODEV : ret;
}

int soft_cm_bind_id(struct soft_cm_id *id, const struct sockaddr_storage *addr)
{
	int ret;

	if (id->state != SOFT_CM_IDLE)
		return -EINVAL;
	id->src = *addr;
	soft_addr_unmap(&id->src);
	ret = has_device(id);
	if (!ret)
		ret = take_port(id);
	if (ret)
		memset(&id->src, 0, sizeof(id->src));
	else
		id->state = SOFT_CM_BOUND;
	return ret;
}

/*
 * librdmacm binds an id to the AF_IB wildcard to find out if the device has the
 * newer commands, on any link layer. It makes no other use of that id.
 */
static int bind_ib(struct soft_cm_id *id, const struct rdma_ucm_bind *cmd)
{
	static const uint8_t any[16];
	struct sockaddr_storage addr;
	struct sockaddr_ib ib;
	int ret;

	if (!id || id->state != SOFT_CM_IDLE || cmd->addr_size < sizeof(ib))
		return -EINVAL;
	ret = soft_cm_take_ib(id, &cmd->addr, cmd->addr_size, &addr);
	if (!ret)
		return soft_cm_bind_id(id, &addr);
	memcpy(&ib, &cmd->addr, sizeof(ib));
	if (ret != -EOPNOTSUPP || id->ps != RDMA_PS_IB ||
	    memcmp(&ib.sib_addr, any, sizeof(any)))
		return ret;
	id->state = SOFT_CM_BOUND;
	return 0;
}

int soft_cm_bind(struct soft_cm_file *file, const struct rdma_ucm_bind *cmd)
{
	struct sockaddr_storage addr;
	struct soft_cm_id *id;
	int ret;

	if (cmd->addr.ss_family == AF_IB) {
		soft_lock(file->dev);
		ret = bind_ib(soft_cm_id_of(file, cmd->id), cmd);
		soft_unlock(file->dev);
		return ret;
	}
	ret = soft_cm_copy_addr(&addr, &cmd->addr, cmd->addr_size);
	if (ret)
		return ret;
	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	ret = id ? soft_cm_bind_id(id, &addr) : -EINVAL;
	soft_unlock(file->dev);
	return ret;
}

/* ---- listening -------------------------------------------------------- */

void soft_cm_unlisten(struct soft_cm_id *id)
{
	for (int i = 0; i < 2; i++) {
		if (id->sock[i].fd < 0)
			continue;
		soft_watch_del(id->file->dev, &id->sock[i]);
		close(id->sock[i].fd);
		id->sock[i].fd = -1;
	}
}

/* Answers a process that looks for the listener of this name. */
static void on_door(struct soft_dev *dev, struct soft_watch *w, uint32_t events)
{
	struct soft_msg msg = {
		.magic = SOFT_MSG_MAGIC, .type = SOFT_MSG_LOOKUP,
		.node = dev->node, .to = soft_link(dev),
	};
	int fd = soft_spare_accept(dev, w->fd);
	struct list *n;

	if (fd < 0) {
		soft_spare_put(dev, fd);
		soft_watch_rest(dev, w);
		return;
	}
	list_for_each(n, &dev->cm_ids) {
		struct soft_cm_id *id = list_entry(n, struct soft_cm_id, node);

		if (w == &id->sock[0] || w == &id->sock[1])
			msg.from = id->handle;
	}
	if (soft_same_user(fd))
		(void)soft_msg_send(fd, &msg, sizeof(msg), NULL, 0);
	soft_spare_put(dev, fd);
}

/*
 * sock[1] of the IPv6 wildcard takes the port of IPv4. With iWARP it does not
 * listen: Linux 6.1, cma.c, iw_conn_req_handler() refuses a request that came
 * to a mapped address.
 */
static bool is_deaf_name(const struct soft_cm_id *id)
{
	return id->file->dev->iwarp && id->src.ss_family == AF_INET6 &&
	       soft_addr_is_any(&id->src);
}

int soft_cm_listen(struct soft_cm_file *file, const struct rdma_ucm_listen *cmd)
{
	const struct sockaddr_storage any = { .ss_family = AF_INET };
	struct soft_cm_id *id;
	int ret = 0;

	soft_lock(file->dev);
	id = soft_cm_id_of(file, cmd->id);
	if (!id)
		ret = -EINVAL;
	if (!ret && id->state == SOFT_CM_IDLE)
		ret = soft_cm_bind_id(id, &any);
	if (!ret && id->state != SOFT_CM_BOUND)
		ret = -EINVAL;
	if (!ret && id->sock[0].fd < 0)
		ret = -EOPNOTSUPP;	/* of the probe: see bind_ib() */
	if (!ret)
		ret = soft_cm_far_listen(id);
	for (int i = 0; !ret && i < 2; i++) {
		if (id->sock[i].fd < 0 || (i && is_deaf_name(id)))
			continue;
		id->sock[i].fn = on_door;
		ret = listen(id->sock[i].fd, NAME_BACKLOG) ? -errno :
		      soft_watch_add(file->dev, &id->sock[i], id->sock[i].fd);
	}
	if (!ret) {
		id->backlog = cmd->backlog && cmd->backlog < 1024 ?
			      cmd->backlog : 1024;
		id->state = SOFT_CM_LISTEN;
	}
	soft_unlock(file->dev);
	return ret;
}

/* ---- lookup ----------------------------------------------------------- */

void soft_cm_end_lookup(struct soft_cm_id *id)
{
	if (id->lookup.fd < 0)
		return;
	soft_timer_stop(&id->timer);
	soft_watch_del(id->file->dev, &id->lookup);
	close(id->lookup.fd);
	id->lookup.fd = -1;
}

/*
 * No program listens there. Some programs tell their client to connect before
 * they listen, for example perftest 4.5 with -R: with hardware the request
 * arrives late enough. So look again until dev->patience is used up.
 */
static void not_there(struct soft_cm_id *id)
{
	struct soft_dev *dev = id->file->dev;

	if (id->refusals * (SOFT_LOOKUP_NS / 1000000) >= dev->patience) {
		soft_cm_not_found(id, SOFT_REJ_INVALID_SERVICE);
		return;
	}
	id->refusals++;
	id->wildcard = false;
	soft_timer_set(dev, &id->timer, SOFT_LOOKUP_NS);
}

/* Returns true if packets of the listener's link layer are not ours. */
static bool is_unlike(const struct soft_dev *dev, const struct soft_msg *msg)
{
	return msg->to > SOFT_LINK_UNKNOWN && msg->to <= SOFT_LINK_IWARP &&
	       msg->to != soft_link(dev);
}

static void on_lookup(struct soft_dev *dev, struct soft_watch *w,
		      uint32_t events)
{
	struct soft_cm_id *id = list_entry(w, struct soft_cm_id, lookup);
	struct soft_msg msg;
	int fds[1], got = soft_msg_recv(w->fd, &msg, sizeof(msg), fds, 1);

	if (fds[0] >= 0)
		close(fds[0]);
	if (got == -EAGAIN || got == -EINTR)
		return;
	soft_cm_end_lookup(id);
	if (got != sizeof(msg) || msg.magic != SOFT_MSG_MAGIC ||
	    msg.type != SOFT_MSG_LOOKUP || msg.node >= SOFT_NODES)
		not_there(id);
	else if (is_unlike(dev, &msg))
		soft_cm_unlike(id, msg.to);
	else
		soft_cm_found(id, msg.node, msg.from);
}

int soft_cm_dial_name(struct soft_dev *dev, const struct soft_cm_msg *m,
		      bool any)
{
	const unsigned int port = ntohs(m->dst.sin6_port);
	struct sockaddr_storage to;
	char text[TEXT_MAX];

	memset(&to, 0, sizeof(to));
	memcpy(&to, &m->dst, sizeof(m->dst));
	if (any)
		return soft_name_connect(dev, "cm/%x/%u/*%c", m->ps, port,
					 kind_of(false, &to));
	addr_text(false, &to, text);
	return soft_name_connect(dev, "cm/%x/%u/%s", m->ps, port, text);
}

/* Looks for a listener at the address, then for a listener at the wildcard. */
void soft_cm_lookup(struct soft_cm_id *id)
{
	struct soft_dev *dev = id->file->dev;
	unsigned int port = ntohs(*soft_addr_port(&id->dst));
	char text[TEXT_MAX];
	int fd = -ECONNREFUSED;

	if (!soft_cm_carried(dev)) {
		soft_cm_later(id);
		return;
	}
	addr_text(id->ib, &id->dst, text);
	if (!id->wildcard)
		fd = soft_name_connect(dev, "cm/%x/%u/%s", id->ps, port, text);
	if (fd == -ECONNREFUSED) {
		id->wildcard = true;
		fd = soft_name_connect(dev, "cm/%x/%u/*%c", id->ps, port,
				       kind_of(id->ib, &id->dst));
	}
	if (fd == -ECONNREFUSED) {
		not_there(id);
		return;
	}
	if (fd == -EAGAIN && ++id->tries < SOFT_LOOKUP_TRIES) {
		soft_timer_set(dev, &id->timer, SOFT_LOOKUP_NS);
		return;
	}
	if (fd < 0) {
		soft_cm_not_found(id, fd);
		return;
	}
	id->lookup.fn = on_lookup;
	if (soft_watch_add(dev, &id->lookup, fd)) {
		close(fd);
		soft_cm_not_found(id, -ENOMEM);
		return;
	}
	soft_timer_set(dev, &id->timer, LOOKUP_NS);
}
