/* SPDX-License-Identifier: BSD-2-Clause */
/* The addresses at which the listeners of a context answer. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "cm/connect.h"
#include "device/choose.h"
#include "device/device.h"
#include "session/ep.h"
#include "session/resume.h"
#include "session/sessions.h"
#include "wire/addresses.h"

#include "cm/rdma/cm.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <rdma/rdma_cma.h>

/* Many requests at once cost one look. */
#define FRESH_MS	1000

/*
 * Looks for the addresses of this host with an RDMA device, because the
 * listener is at no address.
 */
static void look(struct rdmamsg_listener *l, const struct listen_place *place,
		 bool loopback, struct proto_addresses *ret)
{
	const struct sockaddr *at = (const struct sockaddr *)&place->at;
	struct sockaddr_storage all[PROTO_ADDRESSES_MAX];

	ret->count = 0;
	for (int pass = 0; pass <= loopback; pass++) {
		unsigned int n = rdmamsg__device_addrs(place->v, l->device, pass,
						       all,
						       PROTO_ADDRESSES_MAX);

		for (unsigned int i = 0; i < n; i++)
			if (at->sa_family != AF_INET ||
			    all[i].ss_family == AF_INET)
				rdmamsg__announce_add(ret, &all[i], l->port);
	}
}

static void add_all(struct rdmamsg_listener *l,
		    const struct listen_place *place, bool loopback,
		    struct proto_addresses *ret)
{
	struct reach *r = &l->reach[rdmamsg__is_soft(place->v)][loopback];
	uint64_t now = rdmamsg__now_ms();

	if (!r->at || now > r->at + FRESH_MS) {
		look(l, place, loopback, &r->addresses);
		r->at = now;
	}
	for (uint32_t i = 0; i < r->addresses.count; i++)
		rdmamsg__announce_put(ret, &r->addresses.at[i]);
}

static void add(const struct rdmamsg_ep *ep, struct rdmamsg_listener *l,
		const struct listen_place *place, struct proto_addresses *ret)
{
	const bool loopback =
		rdmamsg__addr_is_loopback(&ep->connect.local_addr.any);
	const struct sockaddr *at;

	/* a session on a device does not go on on the soft HCA */
	if (!place->v || (rdmamsg__is_soft(place->v) &&
			  !rdmamsg__is_soft(ep->lane.v)))
		return;
	at = (const struct sockaddr *)&place->at;
	if (rdmamsg__addr_is_any(at))
		add_all(l, place, loopback, ret);
	else if (loopback || !rdmamsg__addr_is_loopback(at))
		rdmamsg__announce_add(ret, &place->at, l->port);
}

void rdmamsg__cm_addresses(const struct rdmamsg_ep *ep,
			   struct proto_addresses *ret)
{
	struct list *n;

	list_for_each(n, &ep->ctx->sessions->listeners) {
		struct rdmamsg_listener *l =
			list_entry(n, struct rdmamsg_listener, node);

		if (l->by != &rdmamsg__by_cm || l->draining || l->dead)
			continue;
		for (int i = 0; i < TABLES; i++)
			add(ep, l, &l->places[i], ret);
	}
}
