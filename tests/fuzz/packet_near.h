/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Another process of this host in the fuzz target packet. It has a node number,
 * to which packets are forwarded, and a listener, which requests look for.
 */
#ifndef TESTS_FUZZ_PACKET_NEAR_H
#define TESTS_FUZZ_PACKET_NEAR_H

#include "packet_host.h"

#include "soft/fabric/names.h"
#include "soft/fabric/rec.h"
#include "soft/fabric/ring.h"
#include "soft/fabric/wire.h"

#define NEAR		5		/* its node number */
#define NEAR_PORT	(PORT + 2)

static struct soft_ring near_ring[2];
static int near_listener;

/* The device's thread handles the events that wait. L */
static void handle_events(void)
{
	struct epoll_event ev;

	for (int i = 0; i < 256 && epoll_wait(dev->epfd, &ev, 1, 0) == 1;
	     i++) {
		struct soft_watch *w = dev->watch[ev.data.fd];

		if (w && ev.data.fd != dev->timerfd)
			w->fn(dev, w, ev.events);
	}
}

/* The process connects to this one. */
static void meet_near(void)
{
	const struct soft_msg hello = {
		.magic = SOFT_MSG_MAGIC, .type = SOFT_MSG_HELLO, .node = NEAR,
	};
	int memory = soft_rings_create(), bell = eventfd(0, EFD_NONBLOCK), fd;

	must(memory >= 0 && bell >= 0 && !soft_rings_map(memory, near_ring));
	soft_lock(dev);
	fd = soft_name_connect(dev, "node/%u", dev->node);
	must(fd >= 0);
	handle_events();
	must(!soft_msg_send(fd, &hello, sizeof(hello),
			    (int[]){ memory, bell }, 2));
	handle_events();
	must(dev->to[NEAR] != NULL);
	near_listener = soft_name_listen(dev, 8, "cm/%x/%u/127.0.0.1",
					 RDMA_PS_TCP, NEAR_PORT);
	must(near_listener >= 0 &&
	     !fcntl(near_listener, F_SETFL, O_NONBLOCK));
	soft_unlock(dev);
	close(memory);
	close(bell);
}

/* A forwarded record is a packet as it came. */
static void take_forwarded(void)
{
	struct soft_ring *r = &near_ring[1];

	while (soft_ring_avail(r)) {
		const struct soft_rec *rec = soft_ring_read(r);
		const uint8_t *at = (const uint8_t *)(rec + 1);
		const uint32_t skip = sizeof(struct soft_path);
		struct packet p;

		must(rec->op == SOFT_PACKET && rec->bytes > skip &&
		     packet_get(&p, at + skip, rec->bytes - skip));
		must(p.dst >> SOFT_QPN_BITS == NEAR || p.dst == SOFT_QPN_CM);
		soft_ring_consume(r, sizeof(*rec) + rec->bytes);
	}
}

/*
 * The listener answers the next who looks for it, and hangs up: with another
 * node than its own if 'to' says so.
 */
static bool answer_seek(uint8_t to, bool answers)
{
	const struct soft_msg m = {
		.magic = SOFT_MSG_MAGIC, .type = SOFT_MSG_LOOKUP,
		.node = to & 1 ? dev->node : to & 2 ? NEAR + 1 : NEAR,
		.to = to & 4 ? SOFT_LINK_IB : SOFT_LINK_ROCE,
	};
	const int fd = accept(near_listener, NULL, NULL);

	if (fd < 0)
		return false;
	if (answers)
		(void)soft_msg_send(fd, &m, sizeof(m), NULL, 0);
	close(fd);
	handle_events();
	return true;
}

#endif
