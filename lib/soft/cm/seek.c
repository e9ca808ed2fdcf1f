/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request from another host may have come to the wrong process. The name of
 * its listener, by which processes of this host find it too, leads to the right
 * one.
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
	uint32_t len;
	uint8_t at[PACKET_MAX];
};

static void end(struct soft_dev *dev, struct seek *s)
{
	soft_timer_stop(&s->timer);
	soft_watch_del(dev, &s->watch);
	close(s->watch.fd);
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
		return false;
	s = fd < 0 ? NULL : calloc(1, sizeof(*s));
	if (!s || soft_watch_add(dev, &s->watch, fd)) {
		free(s);
		if (fd >= 0)
			close(fd);
		return true;
	}
	s->watch.fn = on_answer;
	list_init(&s->timer.node);
	s->timer.fn = on_late;
	s->back = *back;
	s->len = p->length_all;
	memcpy(s->at, p->at, s->len);
	list_add_tail(&dev->seeks, &s->node);
	dev->seeking++;
	soft_timer_set(dev, &s->timer, SEEK_NS);
	return true;
}

void soft_cm_seeks_end(struct soft_dev *dev)
{
	while (!list_empty(&dev->seeks))
		end(dev, list_first(&dev->seeks, struct seek, node));
}
