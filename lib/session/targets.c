/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses to dial for another lane: two that the program has given, and those
 * that the peer has announced. The latter come from a stranger. They are few,
 * and serve only to dial with the proof of the session, which no other host can
 * answer.
 */
#include "base/base.h"
#include "base/util.h"
#include "device/choose.h"
#include "session/ep.h"
#include "session/resume.h"
#include "wire/addresses.h"
#include "wire/proto.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <rdmamsg/failover.h>
#include <rdmamsg/rdmamsg.h>

static bool is_loopback(const struct proto_address *a)
{
	static const struct in6_addr one = IN6ADDR_LOOPBACK_INIT;

	return a->kind == 4 ? a->ip[0] == 127 :
	       !memcmp(a->ip, &one, sizeof(one));
}

static bool is_at(const struct proto_address *a, const char *host,
		  const char *service)
{
	struct proto_address given;

	return rdmamsg__address_parse(host, service, &given) &&
	       rdmamsg__address_is_same(a, &given);
}

/*
 * Returns true if dialling the address makes sense. A peer of another host does
 * not choose ports of this one's loopback; its other addresses are not known.
 */
static bool is_new(const struct rdmamsg_ep *ep, const struct proto_address *a)
{
	const struct resume *r = ep->resume;
	const struct sockaddr *peer = &ep->connect.peer_addr.any;

	if (is_loopback(a) && !rdmamsg__addr_is_loopback(peer))
		return false;
	if (r->host && is_at(a, r->host, r->service ? r->service :
			     ep->connect.service))
		return false;
	return !is_at(a, ep->connect.host, ep->connect.service);
}

/* Returns the target that the lane leads to, among the new addresses. */
static uint32_t find_lane(const struct rdmamsg_ep *ep)
{
	const struct resume *r = ep->resume;
	struct proto_address at;

	if (r->target < TARGET_ANNOUNCED)
		return r->target;
	rdmamsg__address_of(&ep->connect.peer_addr.any, &at);
	for (uint32_t i = 0; i < r->announced.count; i++)
		if (rdmamsg__address_is_same(&r->announced.at[i], &at))
			return TARGET_ANNOUNCED + i;
	return TARGET_NONE;
}

void rdmamsg__targets_hear(struct rdmamsg_ep *ep, const void *setup, size_t len)
{
	struct resume *r = (ep->carries ? ep->carries : ep)->resume;

	if (r)
		rdmamsg__setup_addresses(&r->offered, setup, len);
}

static void add(struct rdmamsg_ep *ep, const struct proto_addresses *said)
{
	for (uint32_t i = 0; i < said->count; i++)
		if (is_new(ep, &said->at[i]))
			rdmamsg__announce_put(&ep->resume->announced,
					      &said->at[i]);
}

/*
 * Earlier announcements stay behind the latest, as far as there is room. An
 * address is not announced while its device is away, and may come back.
 */
void rdmamsg__targets_learn(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;
	const struct proto_addresses earlier = r->announced;

	r->announced.count = 0;
	if (!ep->connect.passive &&
	    !(r->opts.flags & RDMAMSG_FAILOVER_GIVEN_ONLY)) {
		add(ep, &r->offered);
		add(ep, &earlier);
	}
	r->lane_target = find_lane(ep);
	if (r->lane_target == TARGET_NONE)
		r->target = TARGET_FIRST;
}

uint32_t rdmamsg__targets_count(const struct resume *r)
{
	return 1 + (r->host != NULL) + r->announced.count;
}

uint32_t rdmamsg__target_next(const struct resume *r, uint32_t t)
{
	if (t == TARGET_FIRST && r->host)
		return TARGET_OTHER;
	t = t == TARGET_FIRST ? TARGET_ANNOUNCED : t + 1;
	return t - TARGET_ANNOUNCED < r->announced.count ? t : TARGET_FIRST;
}

uint32_t rdmamsg__target_apart(const struct resume *r, uint32_t t)
{
	return t == r->lane_target ? rdmamsg__target_next(r, t) : t;
}

/* A name of a device is for the address that it was given for. */
static const char *kind_of_device(const char *device)
{
	return rdmamsg__asked_by_name(device) ? NULL : device;
}

static void get_announced(const struct rdmamsg_ep *ep,
			  const struct proto_address *a, struct target *ret)
{
	(void)inet_ntop(a->kind == 4 ? AF_INET : AF_INET6, a->ip, ret->ip,
			sizeof(ret->ip));
	snprintf(ret->port, sizeof(ret->port), "%u", a->port);
	ret->host = ret->ip;
	ret->service = ret->port;
	ret->source = NULL;
	ret->device = kind_of_device(ep->connect.device);
}

void rdmamsg__target_get(const struct rdmamsg_ep *ep, uint32_t t,
			 struct target *ret)
{
	const struct resume *r = ep->resume;

	if (t >= TARGET_ANNOUNCED &&
	    t - TARGET_ANNOUNCED < r->announced.count) {
		get_announced(ep, &r->announced.at[t - TARGET_ANNOUNCED], ret);
	} else if (t == TARGET_OTHER && r->host) {
		ret->host = r->host;
		ret->service = r->service ? r->service : ep->connect.service;
		ret->source = r->source;
		ret->device = r->device;
	} else {
		ret->host = ep->connect.host;
		ret->service = ep->connect.service;
		ret->source = ep->connect.source;
		ret->device = ep->connect.device;
	}
}
