/* SPDX-License-Identifier: BSD-2-Clause */
/* The hello of both sides: version, features, rejects. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/masked.h"
#include "base/util.h"
#include "device/device.h"
#include "device/quirks.h"
#include "lane/srq.h"
#include "cm/connect.h"
#include "session/credit.h"
#include "session/ep.h"
#include "session/resume.h"
#include "session/rma.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

/* Call it after rdmamsg__ep_resources(), because it reads the lane. */
uint32_t rdmamsg__features(const struct rdmamsg_ep *ep)
{
	const struct rdmamsg_device *d = ep->lane.dev->device;
	const uint8_t masked = ep->lane.masked_sizes;
	const struct rdmamsg_ep *session = ep->carries ? ep->carries : ep;
	/* a window belongs to its queue pair, and so to one lane */
	bool inv = !session->resume &&
		   d->attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS &&
		   !rdmamsg__window_lack(d);
	bool imm = !(ep->opts.flags & RDMAMSG_EP_FULL_HEADERS) &&
		   !rdmamsg__quirks(d)->no_immediates;

	return PROTO_FEATURE_RMA | PROTO_FEATURE_WORD |
	       (masked == MASKED_SIZES ? PROTO_FEATURE_MASKED : 0) |
	       (masked ? PROTO_FEATURE_MASKED_SMALL : 0) |
	       (inv ? PROTO_FEATURE_INVALIDATE : 0) |
	       (imm ? PROTO_FEATURE_IMM : 0) |
	       (ep->opts.srq ? PROTO_FEATURE_OVERCOMMIT : 0) |
	       (ep->failover ? PROTO_FEATURE_PATH : 0) |
	       (session->resume ? PROTO_FEATURE_RESUME |
		PROTO_FEATURE_LANE_AUTH : 0) |
	       (ep->carries ? PROTO_FEATURE_LANE : 0) |
	       (ep->opts.flags & RDMAMSG_EP_CRC ? PROTO_FEATURE_CRC : 0);
}

void rdmamsg__features_take(struct rdmamsg_ep *ep, const struct proto_hello *h)
{
	ep->connect.features = h->features &
		       (rdmamsg__features(ep) | PROTO_FEATURE_OVERCOMMIT);
}

static const char no_crc[] =
	"this side asks for a CRC over messages (RDMAMSG_EP_CRC), and the peer "
	"does not: set it on both sides or on none";

static bool lacks_crc(const struct rdmamsg_ep *ep,
		      const struct proto_hello *peer)
{
	return ep->opts.flags & RDMAMSG_EP_CRC &&
	       !(peer->features & PROTO_FEATURE_CRC);
}

int rdmamsg__crc_check(struct rdmamsg_ep *ep, const struct proto_hello *peer)
{
	if (!lacks_crc(ep, peer))
		return 0;
	ep->connect.refused = PROTO_REJECT_CRC;
	return rdmamsg__fail(-EPROTONOSUPPORT, "%s", no_crc);
}

void rdmamsg__hello_fill(struct rdmamsg_ep *ep,
			 uint8_t out[static PROTO_HELLO_MAX], uint8_t *ret_len)
{
	struct proto_hello h = {
		.lowest = PROTO_VERSION_LOWEST,
		.highest = PROTO_VERSION,
		.features = rdmamsg__features(ep),
		.credits = (uint16_t)min(rdmamsg__granted(ep), 0xffffu),
		.epoch = ep->carries ? ep->carries->resume->epoch : 0,
		.data = ep->connect.hello_data,
		.data_len = (uint8_t)ep->opts.hello_data_len,
	};

	*ret_len = (uint8_t)rdmamsg__hello_encode(&h, out);
}

/* An answer to an earlier request proves nothing: it may be repeated. */
static bool is_answer(const struct resume *r, const struct proto_hello *h)
{
	return h->epoch == r->epoch &&
	       !rdmamsg__lane_verify(r, false, h->epoch, h->data, h->data_len);
}

int rdmamsg__hello_check(struct rdmamsg_ep *ep, const void *data,
			 size_t len)
{
	struct proto_hello h;
	int ret = rdmamsg__hello_decode(&h, data, len);

	if (ret) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_PROTOCOL,
				   -EPROTO, "what answers there does not speak "
				   "rdmamsg");
		return ret;
	}
	ret = rdmamsg__hello_version(&h);
	if (ret < 0) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_VERSION,
				   ret, "no common protocol version: the peer "
				   "speaks %u to %u, this library %u", h.lowest,
				   h.highest, PROTO_VERSION);
		return ret;
	}
	if (ep->carries && !is_answer(ep->carries->resume, &h)) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_AUTH,
				   -EACCES, "what answers there cannot prove "
				   "that it is the peer");
		return -EACCES;
	}
	ep->connect.version = (uint32_t)ret;
	rdmamsg__features_take(ep, &h);
	if (lacks_crc(ep, &h)) {
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_VERSION,
				   -EPROTONOSUPPORT, "%s", no_crc);
		return -EPROTONOSUPPORT;
	}
	ep->credit.limit = h.credits;
	ep->connect.hello_ok = true;
	return 0;
}

/*
 * Returns true if RDMAMSG_EP_RETRY waits for the successor of a listener that
 * drains. With addresses, rdmamsg__dial_end() tries all of them first.
 */
static bool waits_for_successor(const struct rdmamsg_ep *ep,
				const struct proto_hello *h)
{
	return h->limit == PROTO_LIMIT_DRAINING &&
	       ep->opts.flags & RDMAMSG_EP_RETRY && !ep->connect.addrs;
}

bool rdmamsg__rejected_for_now(struct rdmamsg_ep *ep,
			       const struct proto_hello *h)
{
	/*
	 * without a host the program has carried the record, for one try only
	 */
	if (h->reject != PROTO_REJECT_LIMIT || !ep->connect.host ||
	    !(rdmamsg__limit_passes(h->limit) || waits_for_successor(ep, h)))
		return false;
	rdmamsg__dial_back_off(ep, h->limit);
	return true;
}

bool rdmamsg__rejected(struct rdmamsg_ep *ep, const struct proto_hello *h)
{
	if (h->data_len) {
		memcpy(ep->close.reason_data, h->data, h->data_len);
		ep->close.reason.data = ep->close.reason_data;
		ep->close.reason.data_len = h->data_len;
	}
	switch (h->reject) {
	case PROTO_REJECT_VERSION:
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_VERSION,
				   -EPROTONOSUPPORT, "no common protocol "
				   "version: the peer speaks %u to %u, this "
				   "library %u", h->lowest, h->highest,
				   PROTO_VERSION);
		return true;
	case PROTO_REJECT_RESOURCES:
	case PROTO_REJECT_LIMIT:
		/* for rdmamsg__dial_end() */
		if (h->limit == PROTO_LIMIT_DRAINING)
			ep->connect.limit = PROTO_LIMIT_DRAINING;
		rdmamsg__ep_refused(ep, h->reject, h->limit);
		return true;
	case PROTO_REJECT_APP:
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REJECTED,
				   -ECONNABORTED, "rejected by the peer's "
				   "program");
		return true;
	case PROTO_REJECT_SESSION:
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_ABORTED,
				   -ECONNRESET, "the peer does not know this "
				   "session any more: it has ended the "
				   "connection, or was started again");
		return true;
	case PROTO_REJECT_CRC:
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_VERSION,
				   -EPROTONOSUPPORT, "the peer asks for a CRC "
				   "over messages (RDMAMSG_EP_CRC), and this "
				   "side does not: set it on both sides or on "
				   "none");
		return true;
	case PROTO_REJECT_PROTOCOL:
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_PROTOCOL,
				   -EPROTO, "the peer's library cannot use the "
				   "request: damaged, answered before, or for "
				   "another link layer or partition");
		return true;
	default:
		return false;
	}
}
