/* SPDX-License-Identifier: BSD-2-Clause */
/* The active side over the CM: tries the addresses of a name in turn. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/util.h"
#include "device/choose.h"
#include "device/device.h"
#include "device/verbs_call.h"
#include "cm/connect.h"
#include "session/ep.h"
#include "session/sessions.h"
#include "wire/proto.h"

#include "cm/rdma/cm.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdmamsg/rdmamsg.h>

/*
 * For one attempt at address resolution. Linux sends three ARP or ND requests,
 * one second apart, and no more until it is asked again. A longer attempt would
 * not find a host that comes back later.
 */
#define RESOLVE_MS	2000

int rdmamsg__cm_fail(const struct rdmamsg *ctx, int err, const char *what)
{
	if (err == -EACCES && (geteuid() != ctx->sessions->euid ||
			       getegid() != ctx->sessions->egid))
		return rdmamsg__fail(-EPERM, "%s: the credentials of this "
				     "process changed since rdmamsg_open(), "
				     "and the device serves only those that "
				     "opened it: open the context after "
				     "setuid()", what);
	return rdmamsg__fail_verbs(err, what);
}

int rdmamsg__cm_ms(const struct rdmamsg_ep *ep)
{
	uint64_t now = rdmamsg__now_ms();
	uint64_t left = ep->deadline > now ? ep->deadline - now : 1;

	/* the last address gets all the time that is left */
	return (int)(ep->connect.addr->ai_next ? min(left, (uint64_t)RESOLVE_MS)
					       : left);
}

static int given_source(const struct rdmamsg_ep *ep, const char *device,
			struct sockaddr_storage *src)
{
	struct addrinfo *ai;

	if (rdmamsg__resolve_numeric(ep->connect.source, NULL, 0, &ai))
		return rdmamsg__fail(-EINVAL, "source '%s' is not a numeric "
				     "address", ep->connect.source);
	memcpy(src, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	if (src->ss_family != ep->connect.addr->ai_family)
		return rdmamsg__fail(-EINVAL, "source '%s' is not of the "
				     "peer's address family",
				     ep->connect.source);
	/* whether the source is the device's shows when the address resolves */
	return rdmamsg__asked_by_name(device) ?
	       rdmamsg__device_check(ep->lane.v, device, true) : 0;
}

static int bind_source(struct rdmamsg_ep *ep, struct sockaddr_storage *src)
{
	const char *device = rdmamsg__asked(ep->connect.device);

	if (ep->connect.source)
		return given_source(ep, device, src) ?: 1;
	/* the soft HCA treats all addresses of this host alike */
	if (!device || !strcmp(device, "hw") ||
	    rdmamsg__is_soft(ep->lane.v) ||
	    (rdmamsg__soft_below() && !strcmp(device, "soft")))
		return 0;
	return rdmamsg__device_addr(ep->lane.v, device,
				    ep->connect.addr->ai_family, src)
		       ?: 1;
}

/* Dials one address: id, options, address resolution. */
static int dial_addr(struct rdmamsg_ep *ep)
{
	const struct verbs_api *v;
	struct sockaddr_storage src = { 0 };
	uint8_t tos = (uint8_t)ep->tuning.tos;
	int ret, bound;

	ep->connect.or_soft |= ep->connect.all_soft;
	v = rdmamsg__choose_dial(rdmamsg__asked(ep->connect.device),
				 ep->connect.addr->ai_addr,
				 &ep->connect.or_soft);
	ep->lane.v = v;
	/* first, because its error text tells most about a wrong device */
	bound = bind_source(ep, &src);
	if (bound < 0)
		return bound;
	ep->connect.owner.event = rdmamsg__ep_cm_event;
	ret = rdmamsg__cm_id_new(ep->ctx, v, &ep->connect.owner, RDMA_PS_TCP,
				 &ep->connect.id);
	if (ret)
		return ret;
	if (ep->tuning.tos != RDMAMSG_NONE) {
		ret = rdmamsg__v_set_option(v, ep->connect.id, RDMA_OPTION_ID,
					    RDMA_OPTION_ID_TOS, &tos,
					    sizeof(tos));
		if (ret)
			return rdmamsg__cm_fail(ep->ctx, ret,
						"type of service");
	}
	rdmamsg__ep_addr_set(&ep->connect.peer_addr,
			     ep->connect.addr->ai_addr);
	rdmamsg__ep_enter(ep, EP_RESOLVING);
	ret = rdmamsg__v_resolve_addr(v, ep->connect.id, bound ?
				      (struct sockaddr *)&src : NULL,
				      ep->connect.addr->ai_addr,
				      min(rdmamsg__cm_ms(ep), RESOLVE_MS));
	/*
	 * As with RDMA_CM_EVENT_ADDR_ERROR: with siw the kernel refuses a
	 * loop-back address at once.
	 */
	if (ret == -EINVAL)
		ret = -ENODEV;
	if (ret == -EADDRINUSE && rdmamsg__is_soft(v))
		return rdmamsg__fail(ret, "the soft HCA cannot reach %s: UDP "
				     "port 4791 of RoCE v2 is taken in this "
				     "network namespace, by Soft-RoCE (then "
				     "an rxe device for the interface is the "
				     "way, see 'rdma link') or by another user",
				     ep->connect.host);
	if (ret)
		return rdmamsg__cm_fail(ep->ctx, ret,
					ep->connect.source &&
							ret == -EADDRNOTAVAIL
						? "source"
						: "address");
	return 0;
}

/*
 * Returns true if all addresses are tried again, now on the soft HCA: no device
 * leads to any of them, and it was not the soft HCA that was asked. A host that
 * is down is no such case, and another address of it may be the card's. A
 * session that has lost its device waits for it, and does not go on in
 * software.
 */
static bool begins_on_soft(struct rdmamsg_ep *ep)
{
	if (ep->connect.all_soft || ep->connect.led ||
	    rdmamsg__is_soft(ep->lane.v) ||
	    rdmamsg__choose_table(rdmamsg__asked(ep->connect.device)) ||
	    (ep->carries && !rdmamsg__is_soft(ep->carries->lane.v)))
		return false;
	ep->connect.all_soft = true;
	ep->connect.addr = ep->connect.addrs;
	return true;
}

/*
 * Goes on to the next address, or to the soft HCA. False: there is none. 'why'
 * is for the log.
 */
static bool next_addr(struct rdmamsg_ep *ep, const char *why)
{
	if (ep->connect.or_soft || (!ep->connect.addr->ai_next &&
				    begins_on_soft(ep))) {
		ep_info(ep, "%s; trying the soft HCA", why);
		return true;
	}
	if (!ep->connect.addr->ai_next)
		return false;
	ep_info(ep, "%s; trying the next address", why);
	ep->connect.addr = ep->connect.addr->ai_next;
	return true;
}

/*
 * Tries the addresses from connect.addr on. Returns 0 at the first that starts
 * address resolution, else the error of the last.
 */
static int try_addrs(struct rdmamsg_ep *ep)
{
	for (;;) {
		int ret = rdmamsg__try(dial_addr(ep));

		if (!ret)
			return 0;
		rdmamsg__drop_try(ep);
		ep->connect.led |= ret != -ENODEV;
		if (!next_addr(ep, rdmamsg__text()))
			return rdmamsg__fail_again(ret);
	}
}

int rdmamsg__cm_dial(struct rdmamsg_ep *ep)
{
	int ret = rdmamsg__try(try_addrs(ep));

	if (!rdmamsg__is_unreachable(ret))
		return rdmamsg__fail_again(ret);
	/* on_closed reports it, as if it had shown later */
	rdmamsg__dial_failed(ep, RDMAMSG_CAUSE_UNREACHABLE, ret);
	return 0;
}

void rdmamsg__cm_resolved(struct rdmamsg_ep *ep)
{
	int ret = rdmamsg__try(try_addrs(ep));

	if (ret)
		rdmamsg__dial_failed(ep, RDMAMSG_CAUSE_ADDRESS, ret);
}

int rdmamsg__cm_redial(struct rdmamsg_ep *ep)
{
	return try_addrs(ep);
}

void rdmamsg__cm_next(struct rdmamsg_ep *ep)
{
	const bool on_soft = ep->connect.all_soft;
	int ret;

	rdmamsg__drop_receives(ep);
	rdmamsg__drop_try(ep);
	if (!ep->connect.addr || !next_addr(ep, ep->close.reason.text)) {
		rdmamsg__dial_end(ep);
		return;
	}
	/* why no device leads there stays, until the soft HCA does */
	if (ep->connect.all_soft == on_soft)
		rdmamsg__ep_reason_forget(ep);
	ret = rdmamsg__try(try_addrs(ep));
	if (ret)
		rdmamsg__dial_failed(ep, RDMAMSG_CAUSE_ADDRESS, ret);
}

int rdmamsg_connect(struct rdmamsg *ctx, const char *host, const char *service,
		    const struct rdmamsg_ep_options *opts,
		    struct rdmamsg_ep **ret_ep)
{
	return rdmamsg__connect(ctx, &rdmamsg__by_cm, host, service, opts,
				ret_ep);
}
