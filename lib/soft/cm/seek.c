/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request from another host may have come to the wrong process. The name of
 * its listener, by which processes of this host find it too, leads to the right
 * one, which may listen a little later only.
 */
#include "soft/cm/far.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "soft/cm/mad.h"

#define SEEKS_MAX	64u	/* at once; the peer repeats its request */
#define SEEK_NS		1000000000ull

struct seek {
	struct soft_watch watch;
	struct soft_timer timer;
	struct list node;		/* dev->seeks */
	struct soft_path back;
	uint32_t waited;		/* as in struct packet */
	uint32_t len;
	uint8_t at[PACKET_MAX];
};

static void end(struct soft_dev *dev, struct seek *s)
{
	soft_timer_stop(&s->timer);
	if (s->watch.fd >= 0) {
		soft_watch_del(dev, &s->watch);
		close(s->watch.fd);
	}
	list_del(&s->node);
	dev->seeking--;
	free(s);
}

static void on_answer(struct soft_dev *dev, struct soft_watch *w,
		      uint32_t events)
{
	struct seek *s = list_entry(w, struct seek, watch);
	struct soft_msg msg;
	struct packet p;
	int fds[1], got = soft_msg_recv(w->fd, &msg, sizeof(msg), fds, 1);

	if (fds[0] >= 0)
		close(fds[0]);
	if (got == -EAGAIN || got == -EINTR)
		return;
	if (got == sizeof(msg) && msg.magic == SOFT_MSG_MAGIC &&
	    msg.type == SOFT_MSG_LOOKUP && msg.to == SOFT_LINK_ROCE &&
	    packet_get(&p, s->at, s->len)) {
		if (msg.node != dev->node) {
			/* if it is lost, the peer repeats it */
			(void)soft_net_forward(dev, msg.node, &s->back, &p);
		} else {
			/* it has begun to listen here meanwhile */
			p.forwarded = true;
			soft_cm_packet(dev, &s->back, &p);
		}
	}
	end(dev, s);
}

static void on_late(struct soft_dev *dev, struct soft_timer *t)
{
	end(dev, list_entry(t, struct seek, timer));
}

static struct seek *seek_new(struct soft_dev *dev, const struct soft_path *back,
			     const struct packet *p)
{
	struct seek *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->watch.fd = -1;
	s->watch.fn = on_answer;
	list_init(&s->timer.node);
	s->timer.fn = on_late;
	s->back = *back;
	s->len = p->length_all;
	memcpy(s->at, p->at, s->len);
	list_add_tail(&dev->seeks, &s->node);
	dev->seeking++;
	return s;
}

static void on_patience(struct soft_dev *dev, struct soft_timer *t)
{
	struct seek *s = list_entry(t, struct seek, timer);
	const struct seek old = *s;
	struct packet p;

	end(dev, s);		/* it may need its place again */
	if (packet_get(&p, old.at, old.len)) {
		p.waited = old.waited + SOFT_LOOKUP_NS / 1000000;
		soft_cm_packet(dev, &old.back, &p);
	}
}

/*
 * A listener may be late, as within the host: not_there() of name.c. Requests
 * without one leave room for those that have one.
 */
static bool be_patient(struct soft_dev *dev, const struct soft_path *back,
		       const struct packet *p)
{
	struct seek *s;

	if (p->waited >= dev->patience || dev->seeking >= SEEKS_MAX / 2)
		return false;
	s = seek_new(dev, back, p);
	if (!s)
		return false;
	s->waited = p->waited;
	s->timer.fn = on_patience;
	soft_timer_set(dev, &s->timer, SOFT_LOOKUP_NS);
	return true;
}

bool soft_cm_seek(struct soft_dev *dev, const struct soft_path *back,
		  const struct packet *p, const struct soft_cm_msg *m)
{
	struct seek *s;
	int fd;

	if (dev->seeking >= SEEKS_MAX)
		return true;
	fd = soft_cm_dial_name(dev, m, false);
	if (fd == -ECONNREFUSED)
		fd = soft_cm_dial_name(dev, m, true);
	if (fd == -ECONNREFUSED)
		return be_patient(dev, back, p);
	s = fd < 0 ? NULL : seek_new(dev, back, p);
	if (s && soft_watch_add(dev, &s->watch, fd)) {
		s->watch.fd = -1;
		end(dev, s);
		s = NULL;
	}
	if (!s) {
		if (fd >= 0)
			close(fd);
		return true;
	}
	soft_timer_set(dev, &s->timer, SEEK_NS);
	return true;
}

void soft_cm_seeks_end(struct soft_dev *dev)
{
	while (!list_empty(&dev->seeks))
		end(dev, list_first(&dev->seeks, struct seek, node));
}
