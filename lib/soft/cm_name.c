/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A listener has a name of its own, made of port space, port and address; who
 * connects to it is told the node.
 */
#include "cm.h"

#include <arpa/inet.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define NAME_BACKLOG	1024
#define RETRY_NS	10000000ull	/* of a name that too many ask */
#define LOOKUP_TRIES	6000
#define LOOKUP_NS	60000000000ull	/* of an answer: as long as of a REP */
/*
 * Programs tell their client to connect and then listen: on a device a request
 * takes longer than listening does. perftest 4.5 with -R is one.
 */
#define PATIENCE	3
#define PLACES		32		/* of one kind at one port */

static void addr_text(const struct sockaddr_storage *a, char *buf, size_t size)
{
	const void *at = a->ss_family == AF_INET6 ?
		(const void *)&((const struct sockaddr_in6 *)a)->sin6_addr :
		(const void *)&((const struct sockaddr_in *)a)->sin_addr;

	if (soft_cm_is_any(a))
		(void)snprintf(buf, size, "*%c",
			       a->ss_family == AF_INET6 ? '6' : '4');
	else if (!inet_ntop(a->ss_family, at, buf, (socklen_t)size))
		buf[0] = 0;
}

/* ---- binding ---------------------------------------------------------- */

/* A name of id->src's port. */
static int take_name(const struct soft_cm_id *id, const char *name)
{
	struct sockaddr_storage src = id->src;

	return soft_name_listen(id->file->dev, 0, "cm/%x/%u/%s", id->ps,
				(unsigned int)ntohs(*soft_cm_port_of(&src)),
				name);
}

static bool is_taken(const struct soft_cm_id *id, const char *name)
{
	int fd = take_name(id, name);

	if (fd >= 0)
		close(fd);
	return fd == -EADDRINUSE;
}

/*
 * An address cannot tell which others are bound to its port. So each takes a
 * place there too, of its kind: 4, 6, or d for IPv6 that is not kept apart
 * from IPv4.
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

static bool any_place_taken(const struct soft_cm_id *id, const char *kinds)
{
	char text[8];

	for (; *kinds; kinds++)
		for (int i = 0; i < PLACES; i++) {
			place_text(*kinds, i, text);
			if (is_taken(id, text))
				return true;
		}
	return false;
}

static bool clashes(const struct soft_cm_id *id, bool v6, bool dual)
{
	if (soft_cm_is_any(&id->src))
		return any_place_taken(id, dual ? "46d" : v6 ? "6d" : "4d");
	return ((!v6 || dual) && is_taken(id, "*4")) ||
	       (v6 && is_taken(id, "*6"));
}

/*
 * Takes the names of id->src, which keeps others off the port: all addresses
 * and one of them exclude each other, unless both are apart from the other
 * family (Linux cma_check_port()). Each takes its own before it looks for the
 * other's, so that of two at the same time not both succeed. Who calls there
 * before it listens is refused.
 */
static int take_names(struct soft_cm_id *id)
{
	bool v6 = id->src.ss_family == AF_INET6, any = soft_cm_is_any(&id->src);
	bool dual = v6 && !id->afonly;
	char text[INET6_ADDRSTRLEN];
	int fd;

	addr_text(&id->src, text, sizeof(text));
	fd = take_name(id, text);
	if (fd < 0)
		return fd;
	id->sock[0].fd = fd;
	if (!any || dual) {
		fd = any ? take_name(id, "*4") :
		     take_place(id, dual ? 'd' : v6 ? '6' : '4');
		if (fd < 0)
			goto err;
		id->sock[1].fd = fd;
	}
	if (!clashes(id, v6, dual))
		return 0;
	fd = -EADDRNOTAVAIL;
err:
	soft_cm_unlisten(id);
	return fd;
}

static int bind_id(struct soft_cm_id *id, const struct sockaddr_storage *addr)
{
	int ret;

	if (id->state != SOFT_CM_IDLE)
		return -EINVAL;
	id->src = *addr;
	soft_cm_unmap(&id->src);
	if (!soft_cm_is_any(&id->src) && !soft_cm_is_local(&id->src))
		return -EADDRNOTAVAIL;
	if (*soft_cm_port_of(&id->src)) {
		ret = take_names(id);
	} else {
		ret = -EADDRINUSE;
		for (int i = 0; i < 1000 && (ret == -EADDRINUSE ||
					     ret == -EADDRNOTAVAIL); i++) {
			soft_cm_new_port(id);
			ret = take_names(id);
		}
	}
	if (!ret)
		id->state = SOFT_CM_BOUND;
	return ret;
}

/*
 * AF_IB to no address in particular: how librdmacm finds out whether the newer
 * commands are there. There is nothing else to do with such an id.
 */
static int bind_ib(struct soft_cm_id *id, const struct rdma_ucm_bind *cmd)
{
	static const uint8_t any[16];
	struct sockaddr_ib ib;

	if (!id || id->state != SOFT_CM_IDLE || cmd->addr_size < sizeof(ib))
		return -EINVAL;
	memcpy(&ib, &cmd->addr, sizeof(ib));
	if (id->ps != RDMA_PS_IB || memcmp(&ib.sib_addr, any, sizeof(any)))
		return -EOPNOTSUPP;
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
	ret = id ? bind_id(id, &addr) : -EINVAL;
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

/* Somebody asks who listens here. */
static void on_door(struct soft_dev *dev, struct soft_watch *w, uint32_t events)
{
	struct soft_msg msg = {
		.magic = SOFT_MSG_MAGIC, .type = SOFT_MSG_LOOKUP,
		.node = dev->node,
	};
	int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct list *n;

	if (fd < 0) {
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
	close(fd);
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
		ret = bind_id(id, &any);
	if (!ret && id->state != SOFT_CM_BOUND)
		ret = -EINVAL;
	if (!ret && id->sock[0].fd < 0)
		ret = -EOPNOTSUPP;	/* AF_IB */
	for (int i = 0; !ret && i < 2; i++) {
		if (id->sock[i].fd < 0)
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

/* ---- who listens there ------------------------------------------------ */

void soft_cm_end_lookup(struct soft_cm_id *id)
{
	if (id->lookup.fd < 0)
		return;
	soft_timer_stop(&id->timer);
	soft_watch_del(id->file->dev, &id->lookup);
	close(id->lookup.fd);
	id->lookup.fd = -1;
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
	if (got == sizeof(msg) && msg.magic == SOFT_MSG_MAGIC &&
	    msg.type == SOFT_MSG_LOOKUP && msg.node < SOFT_NODES)
		soft_cm_found(id, msg.node, msg.from);
	else
		soft_cm_not_found(id, SOFT_REJ_INVALID_SERVICE);
}

/* The exact address first, then who takes any of this family. */
void soft_cm_lookup(struct soft_cm_id *id)
{
	struct soft_dev *dev = id->file->dev;
	unsigned int port = ntohs(*soft_cm_port_of(&id->dst));
	char text[INET6_ADDRSTRLEN];
	int fd = -ECONNREFUSED;

	if (!soft_cm_carried(dev)) {
		soft_cm_later(id);
		return;
	}
	addr_text(&id->dst, text, sizeof(text));
	if (!id->wildcard)
		fd = soft_name_connect(dev, "cm/%x/%u/%s", id->ps, port, text);
	if (fd == -ECONNREFUSED) {
		id->wildcard = true;
		fd = soft_name_connect(dev, "cm/%x/%u/*%c", id->ps, port,
				       id->dst.ss_family == AF_INET6 ? '6' :
				       '4');
	}
	if (fd == -ECONNREFUSED && id->tries < PATIENCE) {
		id->tries++;
		id->wildcard = false;
		soft_timer_set(dev, &id->timer, RETRY_NS);
		return;
	}
	if (fd == -EAGAIN && ++id->tries < LOOKUP_TRIES) {
		soft_timer_set(dev, &id->timer, RETRY_NS);
		return;
	}
	if (fd < 0) {
		soft_cm_not_found(id, fd == -ECONNREFUSED ?
				  SOFT_REJ_INVALID_SERVICE : fd);
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
