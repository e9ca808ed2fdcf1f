/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Injected faults, packet by packet: what rdmamsg-soft-ctl(1) asks for happens
 * here as it does in a network, of acknowledgements and messages of the
 * connection manager as well.
 */
#include "soft/net/state.h"

#include <stdlib.h>
#include <string.h>

#define OVERTAKEN_NS	300000ull	/* how late a reordered packet is */
#define HELD_MAX	4096u

struct held {
	struct soft_timer timer;
	struct list node;		/* net->held */
	struct soft_path path;
	uint32_t len;
	uint8_t data[];
};

/* splitmix64, of the seed and of how many decisions there were before. */
static uint32_t draw(struct soft_dev *dev)
{
	uint64_t z = ((uint64_t)dev->faults.seed << 32 | dev->node) +
		     ++dev->net->drawn * 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	z ^= z >> 31;
	return (uint32_t)((z >> 32) * SOFT_SHARE_ALL >> 32);
}

static void release(struct soft_dev *dev, struct soft_timer *t)
{
	struct held *h = (struct held *)t;
	uint8_t *at = soft_net_room(dev);

	if (at) {
		memcpy(at, h->data, h->len);
		net_put(dev, &h->path, h->len);
	}
	dev->net->holds--;
	list_del(&h->node);
	free(h);
}

static void hold(struct soft_dev *dev, const struct soft_path *path,
		 const uint8_t *at, uint32_t len, uint64_t ns)
{
	struct held *h = dev->net->holds < HELD_MAX ?
			 malloc(sizeof(*h) + len) : NULL;

	if (!h)
		return;
	list_init(&h->timer.node);
	h->timer.fn = release;
	h->path = *path;
	h->len = len;
	memcpy(h->data, at, len);
	dev->net->holds++;
	list_add_tail(&dev->net->held, &h->node);
	soft_timer_set(dev, &h->timer, ns);
}

void net_drop_held(struct soft_net *net)
{
	while (!list_empty(&net->held)) {
		struct held *h = list_first(&net->held, struct held, node);

		soft_timer_stop(&h->timer);
		list_del(&h->node);
		free(h);
	}
}

enum net_fate net_fate(struct soft_dev *dev, const struct soft_path *path,
		       const uint8_t *at, uint32_t len)
{
	const struct soft_faults *f = &dev->faults;

	if (!soft_port_carries(dev, 1) || draw(dev) < f->drop)
		return NET_LOST;
	if (draw(dev) < f->delay) {
		hold(dev, path, at, len, f->delay_us * 1000ull);
		return NET_LOST;
	}
	if (draw(dev) < f->reorder) {
		hold(dev, path, at, len, OVERTAKEN_NS);
		return NET_LOST;
	}
	return draw(dev) < f->duplicate ? NET_TWICE : NET_PASSES;
}
