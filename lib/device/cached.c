/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attributes of an open device and of its ports, queried once. A device and the
 * static part of a port do not change. An event forgets the dynamic part.
 */
#include "base/base.h"
#include "device/cached.h"
#include "device/device.h"
#include "device/query.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/rdmamsg.h>

struct cached_port {
	uint32_t known;			/* enum rdmamsg_port_part */
	struct rdmamsg_port_attr attr;
};

/*
 * The lock is held during a query: an event that comes meanwhile forgets its
 * result afterwards.
 */
struct device_cache {
	pthread_mutex_t lock;
	bool known, extended_known;
	struct rdmamsg_device_attr attr;
	struct ibv_device_attr_ex extended;
	uint32_t ports;
	struct cached_port port[];	/* of port 1, 2, ... */
};

struct device_cache *rdmamsg__cache_new(const struct rdmamsg_device *d)
{
	const uint32_t ports = d->attr.phys_port_cnt;
	struct device_cache *c = calloc(1, sizeof(*c) +
					   ports * sizeof(c->port[0]));

	if (!c)
		return NULL;
	pthread_mutex_init(&c->lock, NULL);
	c->ports = ports;
	return c;
}

void rdmamsg__cache_free(struct device_cache *c)
{
	if (!c)
		return;
	pthread_mutex_destroy(&c->lock);
	free(c);
}

void rdmamsg__cache_forget(struct device_cache *c)
{
	pthread_mutex_lock(&c->lock);
	c->known = c->extended_known = false;
	for (uint32_t i = 0; i < c->ports; i++)
		c->port[i].known = 0;
	pthread_mutex_unlock(&c->lock);
}

static void forget_port(struct device_cache *c, uint32_t port)
{
	pthread_mutex_lock(&c->lock);
	if (port && port <= c->ports)
		c->port[port - 1].known &= ~(uint32_t)RDMAMSG_PORT_DYNAMIC;
	pthread_mutex_unlock(&c->lock);
}

void rdmamsg__cache_event(struct device_cache *c,
			  const struct ibv_async_event *ev)
{
	switch (ev->event_type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		forget_port(c, (uint32_t)ev->element.port_num);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		rdmamsg__cache_forget(c);
		break;
	default:
		break;
	}
}

/*
 * Returns true if an event tells of each change. On Ethernet no event tells of
 * a new MTU or speed.
 */
static bool tells_changes(const struct rdmamsg_device *d,
			  const struct rdmamsg_port_attr *a)
{
	return d->verbs->device->transport_type != IBV_TRANSPORT_IWARP &&
	       a->link_layer == IBV_LINK_LAYER_INFINIBAND &&
	       d->attr.device_cap_flags & IBV_DEVICE_PORT_ACTIVE_EVENT;
}

static int query(const struct rdmamsg_device *d, uint32_t port,
		 struct cached_port *p)
{
	struct ibv_port_attr attr;
	int ret = rdmamsg__v_query_port(d->v, d->verbs, (uint8_t)port, &attr);

	if (ret)
		return rdmamsg__fail_verbs(ret, "attributes of the port");
	p->attr.size = sizeof(p->attr);
	rdmamsg__fill_port(&p->attr, d->verbs, d->attr.device_cap_flags, port,
			   &attr);
	p->known = RDMAMSG_PORT_STATIC;
	if (tells_changes(d, &p->attr))
		p->known |= RDMAMSG_PORT_DYNAMIC;
	return 0;
}

/* Returns the port, with the lock held, or -errno and a text. */
static int port_of(const struct rdmamsg_device *d, uint32_t port,
		   uint32_t parts, struct cached_port **ret)
{
	struct cached_port *p = &d->cache->port[port - 1];
	int err = parts & ~p->known ? query(d, port, p) : 0;

	if (!err)
		*ret = p;
	return err;
}

static int count_active(const struct rdmamsg_device *d, uint32_t *ret)
{
	struct cached_port *p;
	uint32_t n = 0;

	for (uint32_t i = 1; i <= d->cache->ports; i++) {
		int err = port_of(d, i, RDMAMSG_PORT_DYNAMIC, &p);

		if (err)
			return err;
		n += p->attr.state == IBV_PORT_ACTIVE;
	}
	*ret = n;
	return 0;
}

/* Called with the lock held. Returns 0, or -errno and no text. */
static int query_extended(const struct rdmamsg_device *d)
{
	struct device_cache *c = d->cache;
	int err = 0;

	if (!c->extended_known) {
		memset(&c->extended, 0, sizeof(c->extended));
		err = rdmamsg__v_query_device_ex(d->v, d->verbs, &c->extended);
	}
	c->extended_known = !err;
	return err;
}

int rdmamsg__cache_extended(const struct rdmamsg_device *d,
			    struct ibv_device_attr_ex *ret)
{
	struct device_cache *c = d->cache;
	int err;

	pthread_mutex_lock(&c->lock);
	err = query_extended(d);
	if (!err)
		*ret = c->extended;
	pthread_mutex_unlock(&c->lock);
	return err ? rdmamsg__fail_verbs(err, "querying the RDMA device") : 0;
}

int rdmamsg__cache_device(const struct rdmamsg_device *d,
			  struct rdmamsg_device_attr *ret)
{
	struct device_cache *c = d->cache;
	int err;

	pthread_mutex_lock(&c->lock);
	if (!c->known)
		rdmamsg__fill_device(&c->attr, d->v, d->verbs, &d->attr,
				     query_extended(d) ? NULL : &c->extended);
	c->known = true;
	err = count_active(d, &c->attr.ports_active);
	if (!err)
		*ret = c->attr;
	pthread_mutex_unlock(&c->lock);
	return err;
}

int rdmamsg__cache_port(const struct rdmamsg_device *d, uint32_t port,
			uint32_t parts, struct rdmamsg_port_attr *ret)
{
	struct cached_port *p;
	int err;

	if (!port || port > d->cache->ports)
		return rdmamsg__fail(-EINVAL, "port %u: device %s has %u", port,
				     d->name, d->cache->ports);
	pthread_mutex_lock(&d->cache->lock);
	err = port_of(d, port, parts, &p);
	if (!err)
		*ret = p->attr;
	pthread_mutex_unlock(&d->cache->lock);
	return err;
}
