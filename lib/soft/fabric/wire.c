/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first node that needs a wire makes it. The socket of a wire reports to
 * each end when the other process ends. If two nodes make a wire to each other
 * at the same time, they get two wires. Then each node sends on one and reads
 * both.
 */
#include "soft/fabric/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/util.h"
#include "soft/fabric/dev.h"
#include "soft/fabric/names.h"
#include "soft/fabric/upward.h"
#include "soft/fabric/vm.h"

#define ACCEPT_MAX	64		/* of other users, at once */

/* A message in an outbox. */
struct letter {
	struct list node;
	size_t len;
	uint8_t data[];
};

static void on_socket(struct soft_dev *dev, struct soft_watch *watch,
		      uint32_t events);

static struct soft_wire *wire_new(uint32_t peer)
{
	struct soft_wire *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	list_init(&w->node);
	list_init(&w->outbox);
	w->sock.fd = w->bell = w->near = -1;
	w->sock.fn = on_socket;
	w->peer = peer;
	return w;
}

static void wire_free(struct soft_wire *w)
{
	while (!list_empty(&w->outbox)) {
		struct letter *l = list_first(&w->outbox, struct letter, node);

		list_del(&l->node);
		free(l);
	}
	free(w->lost);
	free(w);
}

void soft_wire_hold(struct soft_wire *w)
{
	w->refs++;
}

void soft_wire_put(struct soft_dev *dev, struct soft_wire *w)
{
	if (w && !--w->refs && w->dead)
		wire_free(w);
}

static void wire_ready(struct soft_dev *dev, struct soft_wire *w)
{
	w->known = true;
	list_del(&w->node);
	list_add_tail(&dev->wires, &w->node);
	w->rx.shm->sleeping = soft_sleeps(dev);
	soft_vm_init(dev, w);
	if (!dev->to[w->peer])
		dev->to[w->peer] = w;
}

/* ---- the end of a wire ------------------------------------------------ */

void soft_wire_mute(struct soft_wire *w)
{
	/* those of a wire to this process are the device's */
	if (w->bell >= 0 && w->sock.fd >= 0)
		close(w->bell);
	if (w->near >= 0 && w->sock.fd >= 0)
		close(w->near);
	w->bell = w->near = -1;
}

void soft_wire_down(struct soft_dev *dev, struct soft_wire *w)
{
	struct list *n;

	if (w->dead)
		return;
	w->dead = true;
	list_del(&w->node);
	soft_watch_del(dev, &w->sock);
	soft_wire_mute(w);
	if (w->sock.fd >= 0)
		close(w->sock.fd);
	w->sock.fd = -1;
	if (w->known && dev->to[w->peer] == w) {
		dev->to[w->peer] = NULL;
		list_for_each(n, &dev->wires) {
			struct soft_wire *o = list_entry(n, struct soft_wire,
							 node);

			if (o->peer == w->peer)
				dev->to[w->peer] = o;
		}
	}
	w->refs++;
	if (w->known)
		soft_fabric_up->wire_down(dev, w);
	/* nothing pushes into the ring of a dead wire */
	soft_ring_unmap(&w->tx);
	if (w->mine || w->peer != dev->node)
		soft_ring_unmap(&w->rx);
	soft_wire_put(dev, w);
}

void soft_wires_close(struct soft_dev *dev)
{
	while (!list_empty(&dev->wires))
		soft_wire_down(dev, list_first(&dev->wires, struct soft_wire,
					       node));
	while (!list_empty(&dev->handshakes))
		soft_wire_down(dev, list_first(&dev->handshakes,
					       struct soft_wire, node));
}

/* ---- making a wire ---------------------------------------------------- */

static int make_loop(struct soft_dev *dev, struct soft_wire *w)
{
	int ret = soft_ring_loop(&w->tx, &w->rx);

	w->bell = dev->bell;
	w->near = dev->near;
	return ret;
}

static int make_remote(struct soft_dev *dev, struct soft_wire *w)
{
	struct soft_msg msg = {
		.magic = SOFT_MSG_MAGIC, .type = SOFT_MSG_HELLO,
		.node = dev->node,
	};
	struct soft_ring rings[2];
	int fd = soft_name_connect(dev, "node/%u", w->peer), memory, ret;

	if (fd < 0)
		return fd;
	memory = soft_rings_create();
	if (memory < 0) {
		ret = memory;
		goto err_fd;
	}
	ret = soft_rings_map(memory, rings);
	if (ret)
		goto err_memory;
	w->tx = rings[0];
	w->rx = rings[1];
	w->mine = true;
	ret = soft_msg_send(fd, &msg, sizeof(msg),
			    (int[]){ memory, dev->bell, dev->near }, 3);
	if (!ret)
		ret = soft_watch_add(dev, &w->sock, fd);
	if (ret)
		goto err_rings;
	close(memory);
	return 0;

err_rings:
	soft_ring_unmap(&w->tx);
	soft_ring_unmap(&w->rx);
err_memory:
	close(memory);
err_fd:
	close(fd);
	return ret;
}

int soft_wire_get(struct soft_dev *dev, uint32_t node, struct soft_wire **ret)
{
	struct soft_wire *w;
	int err;

	if (node >= SOFT_NODES)
		return -EHOSTUNREACH;
	w = dev->to[node];
	if (!w) {
		w = wire_new(node);
		if (!w)
			return -ENOMEM;
		err = node == dev->node ? make_loop(dev, w) :
		      make_remote(dev, w);
		if (err) {
			wire_free(w);
			return err;
		}
		wire_ready(dev, w);
	}
	w->refs++;
	*ret = w;
	return 0;
}

/*
 * Returns true for a writable file without a type. /proc/self/fd has the kind
 * of file, but /proc need not be mounted. Of such files only an eventfd can
 * block a writer, and with O_NONBLOCK it does not block either.
 */
static bool is_eventfd(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	struct stat st;

	return !fstat(fd, &st) && !(st.st_mode & S_IFMT) &&
	       poll(&p, 1, 0) == 1 && p.revents == POLLOUT;
}

/* Takes a doorbell that a peer has sent. Writing to it must not block. */
static int take_bell(int *bell, int *fd)
{
	int flags = fcntl(*fd, F_GETFL);

	if (*bell >= 0 || !is_eventfd(*fd) || flags < 0 ||
	    fcntl(*fd, F_SETFL, flags | O_NONBLOCK))
		return -EPROTO;
	*bell = *fd;
	*fd = -1;
	return 0;
}

/* The second one may be missing: then the first is rung instead. */
static int take_bells(struct soft_wire *w, int fds[2])
{
	int ret = take_bell(&w->bell, &fds[0]);

	return ret || fds[1] < 0 ? ret : take_bell(&w->near, &fds[1]);
}

static int on_hello(struct soft_dev *dev, struct soft_wire *w,
		    const struct soft_msg *msg, int fds[3])
{
	const struct soft_msg welcome = {
		.magic = SOFT_MSG_MAGIC, .type = SOFT_MSG_WELCOME,
		.node = dev->node,
	};
	struct soft_ring rings[2];
	int ret;

	if (w->known || msg->node >= SOFT_NODES || msg->node == dev->node ||
	    fds[0] < 0 || fds[1] < 0)
		return -EPROTO;
	ret = soft_rings_check(fds[0]);
	if (!ret)
		ret = take_bells(w, fds + 1);
	if (!ret)
		ret = soft_rings_map(fds[0], rings);
	if (ret)
		return ret;
	w->tx = rings[1];
	w->rx = rings[0];
	w->peer = msg->node;
	wire_ready(dev, w);
	/* if the peer has ended, its records in the ring are still valid */
	(void)soft_msg_send(w->sock.fd, &welcome, sizeof(welcome),
			    (int[]){ dev->bell, dev->near }, 2);
	return 0;
}

/* ---- messages --------------------------------------------------------- */

static int on_message(struct soft_dev *dev, struct soft_wire *w,
		      const struct soft_msg *msg, size_t len, int fds[3])
{
	struct soft_msg answer = {
		.magic = SOFT_MSG_MAGIC, .type = SOFT_MSG_FABRIC,
		.node = dev->node,
	};
	int ret;

	if (len < sizeof(*msg) || msg->magic != SOFT_MSG_MAGIC)
		return -EPROTO;
	switch (msg->type) {
	case SOFT_MSG_HELLO:
		return on_hello(dev, w, msg, fds);
	case SOFT_MSG_FABRIC_ASK:
		if (w->known)
			return -EPROTO;
		return soft_msg_send(w->sock.fd, &answer, sizeof(answer),
				     &dev->fabric_fd, 1);
	case SOFT_MSG_CTL:
		/* rdmamsg-soft-ctl(1) is no node */
		if (w->known)
			return -EPROTO;
		return soft_fabric_up->on_control(dev, w->sock.fd, msg, len);
	case SOFT_MSG_WELCOME:
		if (!w->mine || fds[0] < 0)
			return -EPROTO;
		ret = take_bells(w, fds);
		/*
		 * ring for records that were pushed before the doorbell arrived
		 */
		w->dirty = SOFT_NEWS;
		dev->bells_due = true;
		return ret;
	default:
		if (!w->known || msg->node != w->peer)
			return -EPROTO;
		soft_fabric_up->message(dev, w, msg, len);
		return 0;
	}
}

static void outbox_send(struct soft_dev *dev, struct soft_wire *w)
{
	while (!list_empty(&w->outbox)) {
		struct letter *l = list_first(&w->outbox, struct letter, node);

		if (soft_msg_send(w->sock.fd, l->data, l->len, NULL, 0) ==
		    -EAGAIN)
			return;
		list_del(&l->node);
		free(l);
		w->letters--;
	}
	soft_watch_mod(dev, &w->sock, EPOLLIN);
}

int soft_wire_send(struct soft_dev *dev, struct soft_wire *w,
		   const struct soft_msg *msg, size_t len)
{
	struct letter *l;
	int ret = -EAGAIN;

	if (w->dead)
		return -ECONNRESET;
	if (w->sock.fd < 0) {
		soft_fabric_up->message(dev, w, msg, len);
		return 0;
	}
	if (list_empty(&w->outbox))
		ret = soft_msg_send(w->sock.fd, msg, len, NULL, 0);
	/* the peer was killed, and the thread has not noticed yet */
	if (ret == -EPIPE)
		ret = -ECONNRESET;
	if (ret != -EAGAIN)
		return ret;
	l = malloc(sizeof(*l) + len);
	if (!l)
		return -ENOMEM;
	memcpy(l->data, msg, len);
	l->len = len;
	list_add_tail(&w->outbox, &l->node);
	w->letters++;
	soft_watch_mod(dev, &w->sock, EPOLLIN | EPOLLOUT);
	return 0;
}

void soft_wire_take_rest(struct soft_dev *dev, struct soft_wire *w)
{
	uint64_t end = atomic_load_explicit(&w->rx.shm->tail,
					    memory_order_acquire);
	uint64_t at;

	do {
		at = w->rx.pos;
		(void)soft_fabric_up->progress(dev);
	} while (!w->dead && w->rx.pos != at &&
		 end - w->rx.pos - 1 < SOFT_RING_SIZE);
}

/* Returns true if this process can open n more descriptors. Else sets errno. */
static bool have_room(int fd, int n)
{
	int more = fd_copy(fd), err;
	bool ok;

	if (more < 0)
		return false;
	ok = n < 2 || have_room(fd, n - 1);
	err = errno;
	close(more);
	errno = err;
	return ok;
}

/*
 * Returns true if a HELLO must wait. It brings three descriptors. The kernel
 * drops them if this process cannot open three more, so the HELLO stays in the
 * socket.
 */
static bool must_wait(const struct soft_wire *w)
{
	struct soft_msg msg;

	return !w->known && !w->mine &&
	       recv(w->sock.fd, &msg, sizeof(msg), MSG_PEEK | MSG_DONTWAIT) ==
	       sizeof(msg) && msg.type == SOFT_MSG_HELLO &&
	       !have_room(w->sock.fd, 3);
}

static void on_socket(struct soft_dev *dev, struct soft_watch *watch,
		      uint32_t events)
{
	struct soft_wire *w = list_entry(watch, struct soft_wire, sock);
	_Alignas(16) uint8_t buf[SOFT_MSG_MAX];

	w->refs++;
	if (events & EPOLLOUT)
		outbox_send(dev, w);
	for (int i = 0; i < 64 && !w->dead; i++) {
		int fds[3], got;

		/* do not wait if the sender has ended */
		if (!(events & EPOLLHUP) && unlikely(must_wait(w))) {
			soft_watch_rest(dev, watch);
			break;
		}
		got = soft_msg_recv(w->sock.fd, buf, sizeof(buf), fds, 3);
		if (got == -EAGAIN || got == -EINTR)
			break;
		if (got <= 0 || on_message(dev, w, (struct soft_msg *)buf,
					   (size_t)got, fds)) {
			if (w->known && got <= 0)
				soft_wire_take_rest(dev, w);
			soft_wire_down(dev, w);
		}
		for (int j = 0; j < 3; j++)
			if (fds[j] >= 0)
				close(fds[j]);
	}
	soft_wire_put(dev, w);
}

/* Passes over connections of other users, which fill the backlog. */
static int accept_own(const struct soft_watch *listener)
{
	int fd = -1;

	for (int i = 0; i < ACCEPT_MAX; i++) {
		fd = fd_high(accept4(listener->fd, NULL, NULL,
				     SOCK_CLOEXEC | SOCK_NONBLOCK));
		if (fd < 0 || soft_same_user(fd))
			return fd;
		close(fd);
	}
	errno = EAGAIN;
	return -1;
}

void soft_accept(struct soft_dev *dev, struct soft_watch *listener,
		 uint32_t events)
{
	int fd = accept_own(listener);
	struct soft_wire *w;

	if (fd < 0) {
		soft_watch_rest(dev, listener);
		return;
	}
	w = wire_new(0);
	if (!w || soft_watch_add(dev, &w->sock, fd)) {
		free(w);
		close(fd);
		return;
	}
	list_add_tail(&dev->handshakes, &w->node);
}

/* ---- doorbells -------------------------------------------------------- */

static uint32_t take_back(_Atomic uint32_t *flag)
{
	return atomic_load_explicit(flag, memory_order_relaxed) ?
	       atomic_exchange(flag, 0) : 0;
}

/*
 * The doorbell is an edge-triggered eventfd that is normally not read. A peer
 * could fill its counter. So after EAGAIN the writer empties the counter first.
 */
void soft_ring_bell(int fd)
{
	uint64_t n = 1;

	if (write(fd, &n, sizeof(n)) == sizeof(n) || errno != EAGAIN)
		return;
	(void)!read(fd, &n, sizeof(n));
	n = 1;
	(void)!write(fd, &n, sizeof(n));
}

/* Returns what `sleeping` was, or 0 if no doorbell is due. */
static uint32_t wants_to_know(struct soft_wire *w)
{
	_Atomic uint32_t *flag = &w->tx.shm->sleeping;

	if (w->dirty == SOFT_CLEAN ||
	    (w->dirty == SOFT_QUIET &&
	     !(atomic_load_explicit(flag, memory_order_relaxed) &
	       SOFT_SLEEPS_LIGHTLY)))
		return 0;
	return take_back(flag);
}

static void ring(struct soft_wire *w, uint32_t sleeps)
{
	soft_ring_bell(sleeps & SOFT_SLEEPS_NEAR && w->near >= 0 ? w->near :
		       w->bell);
}

void soft_bell_early(struct soft_wire *w)
{
	uint32_t sleeps;

	if (w->bell < 0)
		return;
	/* without a fence this may be missed, and soft_bells() rings */
	sleeps = take_back(&w->tx.shm->sleeping);
	if (sleeps)
		ring(w, sleeps);
}

void soft_bells(struct soft_dev *dev)
{
	struct list *n;

	dev->bells_due = false;
	/* pairs with the fences in fall_asleep() and soft_rec_new() */
	atomic_thread_fence(memory_order_seq_cst);
	list_for_each(n, &dev->wires) {
		struct soft_wire *w = list_entry(n, struct soft_wire, node);
		uint32_t sleeps;

		if (w->bell < 0)
			continue;
		sleeps = wants_to_know(w);
		if (sleeps)
			ring(w, sleeps);
		/* the peer's thread waits for room */
		if (w->eaten && take_back(&w->rx.shm->full))
			soft_ring_bell(w->bell);
		w->dirty = SOFT_CLEAN;
		w->eaten = false;
	}
}

/*
 * Keeps one entry per queue pair of the peer, because each has at most one
 * connection. So a peer that reads no NAKs can cause at most SOFT_QPS entries.
 */
void soft_wire_lost(struct soft_wire *w, const struct soft_rec *rec)
{
	struct soft_lost *l;
	uint32_t i = 0;

	while (i < w->lost_count && w->lost[i].src != rec->src)
		i++;
	if (i == w->lost_room) {
		uint32_t room = 2 * w->lost_room + 16;

		l = realloc(w->lost, room * sizeof(*l));
		if (!l)
			return;
		w->lost = l;
		w->lost_room = room;
	}
	if (i == w->lost_count)
		w->lost_count++;
	l = &w->lost[i];
	l->dst = rec->dst;
	l->src = rec->src;
	l->psn = rec->psn;
	l->aux = rec->aux;
}
