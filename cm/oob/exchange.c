/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connects without the CM. One side offers a record. The other side answers
 * with its own record when it can receive. Then the first side sends its SETUP.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/util.h"
#include "device/choose.h"
#include "device/device.h"
#include "cm/connect.h"
#include "session/ep.h"
#include "cm/oob/oob.h"
#include "session/sessions.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/rdmamsg.h>

void rdmamsg__oob_psn(struct oob *oob)
{
	uint32_t psn = 0;

	(void)!getrandom(&psn, sizeof(psn), GRND_NONBLOCK);
	if (oob->path.psn)
		psn = oob->path.psn == RDMAMSG_NONE ? 0 : oob->path.psn;
	oob->local.psn = psn & 0xffffff;
}

int rdmamsg__oob_init(struct rdmamsg_ep *ep)
{
	struct oob *oob = calloc(1, sizeof(*oob));
	int ret;

	if (!oob)
		return rdmamsg__fail(-ENOMEM, "no memory for an endpoint");
	ep->connect.oob = oob;
	ret = rdmamsg__path_copy(&oob->path, ep->opts.path);
	ep->opts.path = NULL;		/* the caller owns it */
	if (ret)
		return ret;
	rdmamsg__oob_psn(oob);
	return 0;
}

/*
 * Prepares all that does not depend on the peer: the queue pair in INIT, and
 * our record.
 */
static int prepare(struct rdmamsg_ep *ep, const struct sockaddr *local)
{
	struct proto_oob *r = &ep->connect.oob->local;
	int ret = rdmamsg__ep_resources(ep);

	if (!ret)
		ret = rdmamsg__path_local(ep->connect.oob, ep->lane.dev->device,
					  local);
	if (!ret)
		ret = rdmamsg__qp_init(ep);
	if (ret)
		return ret;
	r->qp_num = ep->lane.hot.qp->qp_num;
	r->resp_res = ep->lane.resp_res;
	r->init_depth = ep->lane.init_depth;
	rdmamsg__hello_fill(ep, r->hello, &r->hello_len);
	return 0;
}

int rdmamsg__oob_begin(struct rdmamsg_ep *ep, const struct sockaddr *local)
{
	struct proto_oob *r = &ep->connect.oob->local;
	int ret = prepare(ep, local);

	if (ret)
		return ret;
	r->kind = PROTO_OOB_OFFER;
	memcpy(r->token, ep->connect.session, sizeof(r->token));
	rdmamsg__ep_enter(ep, EP_REQUESTED);
	return 0;
}

/* Takes the queue pair to RTS. Both records must be known. */
static int make_ready(struct rdmamsg_ep *ep)
{
	int ret = rdmamsg__path_match(ep->connect.oob);

	return ret ? ret : rdmamsg__qp_ready(ep);
}

/* Returns true if an endpoint has accepted this offer already: a replay. */
static bool is_taken(const struct rdmamsg_ep *ep, const struct proto_oob *offer)
{
	struct list *n;

	list_for_each(n, &ep->ctx->sessions->eps) {
		const struct rdmamsg_ep *e = list_entry(n, struct rdmamsg_ep,
							node);

		if (e != ep && e->connect.oob && e->connect.passive &&
		    !memcmp(e->connect.session, offer->token,
			    sizeof(e->connect.session)))
			return true;
	}
	return false;
}

int rdmamsg__oob_reply(struct rdmamsg_ep *ep, const struct proto_oob *offer,
		       const struct sockaddr *local)
{
	struct proto_oob *r = &ep->connect.oob->local;
	struct proto_hello h;
	int ret;

	if (is_taken(ep, offer))
		return rdmamsg__fail(-EALREADY, "this offer has been answered");
	if (rdmamsg__hello_decode(&h, offer->hello, offer->hello_len))
		return rdmamsg__oob_fail_record(-EPROTO);
	ret = rdmamsg__hello_version(&h);
	if (ret < 0)
		return rdmamsg__fail(ret, "no common protocol version: the "
				     "peer speaks %u to %u, this library %u",
				     h.lowest, h.highest, PROTO_VERSION);
	ep->connect.passive = true;
	ep->connect.version = (uint32_t)ret;
	ret = rdmamsg__crc_check(ep, &h);
	if (ret)
		return ret;
	ep->credit.limit = h.credits;
	ep->connect.hello_ok = true;
	rdmamsg__ep_enter(ep, EP_SETUP);
	memcpy(ep->connect.session, offer->token, sizeof(ep->connect.session));
	ep->connect.oob->peer = *offer;
	ret = prepare(ep, local);
	if (!ret)
		ret = rdmamsg__path_match(ep->connect.oob);
	if (ret)
		return ret;
	rdmamsg__features_take(ep, &h);
	ret = rdmamsg__qp_ready(ep);
	if (ret)
		return ret;
	r->kind = PROTO_OOB_ANSWER;
	memcpy(r->token, offer->token, sizeof(r->token));
	return 0;
}

static void rejected(struct rdmamsg_ep *ep, const struct proto_oob *r)
{
	struct proto_hello h;
	bool ours = !rdmamsg__hello_decode(&h, r->hello, r->hello_len);

	if (ours && rdmamsg__rejected_for_now(ep, &h))
		return;
	if (!ours || !rdmamsg__rejected(ep, &h))
		rdmamsg__ep_reason(ep, RDMAMSG_WHO_PEER, RDMAMSG_CAUSE_REJECTED,
				   -ECONNABORTED, "rejected by the peer, which "
				   "does not say why");
	rdmamsg__ep_kill(ep);
}

static void fail_ready(struct rdmamsg_ep *ep, int err)
{
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_LOCAL, err == -EHOSTUNREACH ?
			   RDMAMSG_CAUSE_UNREACHABLE : RDMAMSG_CAUSE_RESOURCES,
			   err, "%s", rdmamsg__text());
	rdmamsg__ep_kill(ep);
}

/* A listener at its limit does not read the offer, and knows no token. */
static bool is_early_limit(const struct proto_oob *answer)
{
	static const uint8_t none[sizeof(answer->token)];
	struct proto_hello h;

	return answer->kind == PROTO_OOB_REJECT &&
	       !memcmp(answer->token, none, sizeof(none)) &&
	       !rdmamsg__hello_decode(&h, answer->hello, answer->hello_len) &&
	       h.reject == PROTO_REJECT_LIMIT;
}

int rdmamsg__oob_take(struct rdmamsg_ep *ep, const struct proto_oob *answer)
{
	int ret;

	if (answer->kind == PROTO_OOB_OFFER)
		return rdmamsg__fail(-EPROTO, "an offer, where an answer was "
				     "to come: both sides offer");
	if (memcmp(answer->token, ep->connect.session,
		   sizeof(ep->connect.session)) && !is_early_limit(answer))
		return rdmamsg__fail(-EPROTO, "an answer to another offer");
	if (answer->kind == PROTO_OOB_REJECT) {
		rejected(ep, answer);
		return 0;
	}
	if (rdmamsg__hello_check(ep, answer->hello, answer->hello_len)) {
		rdmamsg__ep_kill(ep);
		return 0;
	}
	ep->connect.oob->peer = *answer;
	ret = rdmamsg__try(make_ready(ep));
	if (ret) {
		fail_ready(ep, ret);
		return 0;
	}
	rdmamsg__ep_enter(ep, EP_SETUP);
	ep->ctrl.due |= CTRL_SETUP;
	rdmamsg__ep_touch(ep);
	return 0;
}

/* ---- the walk to RTS -------------------------------------------------- */

void rdmamsg__oob_address(const struct oob *oob, uint32_t tos,
			  struct ibv_ah_attr *ah)
{
	const struct rdmamsg_path *p = &oob->path;
	bool ib = oob->local.link == PROTO_OOB_IB;

	ah->dlid = oob->peer.lid;
	ah->sl = (uint8_t)p->service_level;
	ah->src_path_bits = (uint8_t)p->src_path_bits;
	ah->port_num = oob->port;
	ah->is_global = !ib || oob->global || !oob->peer.lid ||
			(oob->local.has_gid && oob->peer.has_gid &&
			 memcmp(oob->local.gid, oob->peer.gid, 8) != 0);
	if (!ah->is_global)
		return;
	memcpy(ah->grh.dgid.raw, oob->peer.gid, sizeof(oob->peer.gid));
	ah->grh.sgid_index = oob->gid_index;
	ah->grh.flow_label = p->flow_label;
	ah->grh.hop_limit = (uint8_t)p->hop_limit;
	if (p->traffic_class)
		ah->grh.traffic_class = p->traffic_class == RDMAMSG_NONE ? 0 :
					(uint8_t)p->traffic_class;
	else if (tos != RDMAMSG_NONE)
		ah->grh.traffic_class = (uint8_t)tos;
}

void rdmamsg__oob_attr(const struct oob *oob, uint32_t tos,
		       struct ibv_qp_attr *attr, int *mask)
{
	*mask = IBV_QP_STATE;
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		attr->port_num = oob->port;
		attr->pkey_index = oob->pkey_index;
		*mask |= IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
		break;
	case IBV_QPS_RTR:
		rdmamsg__oob_address(oob, tos, &attr->ah_attr);
		attr->path_mtu = (enum ibv_mtu)min(oob->local.mtu,
						   oob->peer.mtu);
		attr->dest_qp_num = oob->peer.qp_num;
		attr->rq_psn = oob->peer.psn;
		attr->max_dest_rd_atomic = oob->peer.init_depth;
		*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			 IBV_QP_MIN_RNR_TIMER;
		break;
	default:
		attr->sq_psn = oob->local.psn;
		attr->max_rd_atomic = oob->peer.resp_res;
		*mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
	}
}

/* ---- public: over a transport of the program -------------------------- */

int rdmamsg__oob_fail_record(int err)
{
	return err == -EPROTONOSUPPORT ?
	       rdmamsg__fail(err, "a record of another version than %d",
			     PROTO_OOB_VERSION) :
	       rdmamsg__fail(err, "not a record of rdmamsg-proto(7), or a "
			     "broken one");
}

void rdmamsg__oob_reject_fill(struct proto_oob *r,
			      const struct proto_oob *offer,
			      enum proto_reject code, uint32_t limit,
			      const void *data, size_t len)
{
	struct proto_hello h = {
		.lowest = PROTO_VERSION_LOWEST,
		.highest = PROTO_VERSION,
		.reject = (uint16_t)code, .limit = limit, .data = data,
		.data_len = (uint8_t)len,
	};

	memset(r, 0, sizeof(*r));
	r->kind = PROTO_OOB_REJECT;
	memcpy(r->token, offer->token, sizeof(r->token));
	r->hello_len = (uint8_t)rdmamsg__hello_encode(&h, r->hello);
}

static int new_ep(struct rdmamsg *ctx, const struct rdmamsg_ep_options *opts,
		  struct rdmamsg_ep **ret_ep)
{
	struct rdmamsg_ep *ep;
	int ret = rdmamsg__ctx_check(ctx);

	if (ret)
		return ret;
	ret = rdmamsg__ctx_takes(ctx);
	if (ret)
		return ret;
	ret = rdmamsg__ep_new(ctx, &rdmamsg__by_record, opts, &ep);
	if (ret)
		return ret;
	ret = rdmamsg__oob_init(ep);
	if (!ret)
		ret = rdmamsg__choose_device(ep->connect.device, NULL,
					   &ep->lane.v, &ep->connect.device);
	return rdmamsg__ep_made(ep, ret, ret_ep);
}

int rdmamsg_oob_offer(struct rdmamsg *ctx,
		      const struct rdmamsg_ep_options *opts,
		      struct rdmamsg_ep **ret_ep)
{
	struct rdmamsg_ep *ep;
	int ret;

	if (!ret_ep)
		return rdmamsg__fail(-EINVAL, "rdmamsg_oob_offer: ret is NULL");
	ret = new_ep(ctx, opts, &ep);
	if (ret)
		return ret;
	ret = rdmamsg__oob_begin(ep, NULL);
	return rdmamsg__ep_made(ep, ret, ret_ep);
}

int rdmamsg_oob_answer(struct rdmamsg *ctx, const void *record, size_t len,
		       const struct rdmamsg_ep_options *opts,
		       struct rdmamsg_ep **ret_ep)
{
	struct proto_oob offer;
	struct rdmamsg_ep *ep;
	int ret;

	if (!ret_ep || !record)
		return rdmamsg__fail(-EINVAL, "rdmamsg_oob_answer: %s is NULL",
				     record ? "ret" : "record");
	ret = rdmamsg__oob_decode(&offer, record, len);
	if (ret)
		return rdmamsg__oob_fail_record(ret);
	if (offer.kind != PROTO_OOB_OFFER)
		return rdmamsg__fail(-EPROTO, "an answer to an offer, not an "
				     "offer");
	ret = new_ep(ctx, opts, &ep);
	if (ret)
		return ret;
	ret = rdmamsg__oob_reply(ep, &offer, NULL);
	return rdmamsg__ep_made(ep, ret, ret_ep);
}

int rdmamsg__oob_give(const struct proto_oob *r, void *buf, size_t size)
{
	uint8_t out[PROTO_OOB_MAX];
	size_t len = rdmamsg__oob_encode(r, out);

	if (!buf || size < len)
		return rdmamsg__fail(-EINVAL, "the record has %zu bytes, there "
				     "is room for %zu", len, buf ? size : 0);
	memcpy(buf, out, len);
	return (int)len;
}

int rdmamsg_oob_record(const struct rdmamsg_ep *ep, void *buf, size_t size)
{
	int ret = rdmamsg__ep_check(ep);

	if (ret)
		return ret;
	if (!ep->connect.oob || !ep->connect.oob->local.kind)
		return rdmamsg__fail(-EINVAL, "this endpoint has no record: it "
				     "is not from rdmamsg_oob_offer() or "
				     "rdmamsg_oob_answer()");
	return rdmamsg__oob_give(&ep->connect.oob->local, buf, size);
}

int rdmamsg_oob_finish(struct rdmamsg_ep *ep, const void *record, size_t len)
{
	struct proto_oob answer;
	int ret = rdmamsg__ep_check(ep);

	if (ret)
		return ret;
	if (!record)
		return rdmamsg__fail(-EINVAL, "rdmamsg_oob_finish: record is "
				     "NULL");
	if (!ep->connect.oob ||
	    ep->connect.oob->local.kind != PROTO_OOB_OFFER ||
	    ep->connect.oob->conn)
		return rdmamsg__fail(-EINVAL, "this endpoint is not from "
				     "rdmamsg_oob_offer()");
	if (ep->state != EP_REQUESTED)
		return rdmamsg__fail(-EALREADY, "the endpoint has had its "
				     "answer, or has ended");
	ret = rdmamsg__oob_decode(&answer, record, len);
	if (ret)
		return rdmamsg__oob_fail_record(ret);
	return rdmamsg__oob_take(ep, &answer);
}
