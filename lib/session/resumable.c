/* SPDX-License-Identifier: BSD-2-Clause */
/* The resumable part of an endpoint: its secret, proofs, and memory. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/timer.h"
#include "base/util.h"
#include "lane/srq.h"
#include "session/auth.h"
#include "session/connector.h"
#include "session/ep.h"
#include "session/resume.h"
#include "session/secret.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rdmamsg.h>

/* ---- proofs ------------------------------------------------------------ */

int rdmamsg__lane_prove(const struct resume *r, bool initiator, uint32_t epoch,
			uint8_t out[static PROTO_LANE_DATA_LEN])
{
	memcpy(out, r->session, sizeof(r->session));
	return rdmamsg__secret_lane(&r->secret, initiator, r->session, epoch,
				    out + sizeof(r->session));
}

int rdmamsg__lane_verify(const struct resume *r, bool initiator,
			 uint32_t epoch, const uint8_t *data, size_t len)
{
	uint8_t right[PROTO_LANE_DATA_LEN];
	int err;

	if (len != sizeof(right))
		return -EACCES;
	err = rdmamsg__lane_prove(r, initiator, epoch, right);
	if (!err && CRYPTO_memcmp(right, data, sizeof(right)))
		err = -EACCES;
	OPENSSL_cleanse(right, sizeof(right));
	return err;
}

int rdmamsg__lane_auth(struct rdmamsg_ep *carrier, const struct resume *r)
{
	struct auth *a = NULL;

	if (r->has_key) {
		a = rdmamsg__auth_new(&r->key);
		if (!a)
			return rdmamsg__fail(-ENOMEM, "no memory for another "
					     "connection");
	}
	rdmamsg__auth_free(carrier->connect.auth);
	carrier->connect.auth = a;
	return 0;
}

/* ---- the life of an endpoint ------------------------------------------ */

static int copy(char **dst, const char *src)
{
	if (!src)
		return 0;
	*dst = strdup(src);
	return *dst ? 0 : -ENOMEM;
}

void rdmamsg__resume_forget_address(struct resume *r)
{
	free(r->host);
	free(r->service);
	free(r->source);
	free(r->device);
	r->host = r->service = r->source = r->device = NULL;
}

static int fill(struct rdmamsg_ep *ep, struct resume *r,
		const struct rdmamsg_failover *opts)
{
	int err = rdmamsg__secret_nonce(r->nonce);

	if (!err)
		err = rdmamsg__announce_parse(opts->announce, &r->announce);
	if (err)
		return err;
	if (copy(&r->host, opts->host) || copy(&r->service, opts->service) ||
	    copy(&r->source, opts->source) || copy(&r->device, opts->device) ||
	    rdmamsg__timers_reserve(&ep->ctx->loop.timers, 1))
		return rdmamsg__fail(-ENOMEM, "no memory for failover");
	r->ep = ep;
	r->opts = *opts;
	/* "" is a list, too. r->announce has its addresses */
	r->opts.announce = opts->announce ? "" : NULL;
	list_init(&r->parked);
	list_init(&r->node);
	rdmamsg__timer_init(&r->timer, rdmamsg__resume_timer);
	return 0;
}

int rdmamsg__resume_new(struct rdmamsg_ep *ep,
			const struct rdmamsg_failover *opts)
{
	struct resume *r = calloc(1, sizeof(*r));
	int err = r ? fill(ep, r, opts) :
		  rdmamsg__fail(-ENOMEM, "no memory for failover");

	if (err) {
		if (r)
			rdmamsg__resume_forget_address(r);
		free(r);
		return err;
	}
	ep->resume = r;
	return 0;
}

void rdmamsg__resume_end(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;

	if (ep->carries)
		rdmamsg__carrier_ended(ep);
	if (!r || r->timer.fn == NULL)
		return;
	r->over = true;
	rdmamsg__registry_del(r);
	rdmamsg__carrier_drop(r);
	rdmamsg__timer_stop(&ep->ctx->loop.timers, &r->timer);
	rdmamsg__timers_release(&ep->ctx->loop.timers, 1);
	r->timer.fn = NULL;		/* so that this runs once */
}

void rdmamsg__resume_free(struct rdmamsg_ep *ep)
{
	struct resume *r = ep->resume;

	if (!r)
		return;
	rdmamsg__resume_end(ep);
	rdmamsg__keep_free(&r->keep);
	OPENSSL_cleanse(&r->secret, sizeof(r->secret));
	OPENSSL_cleanse(&r->key, sizeof(r->key));
	rdmamsg__renew_forget(r);
	rdmamsg__given_free(&r->given);
	free(r->renewed);
	rdmamsg__resume_forget_address(r);
	free(r);
	ep->resume = NULL;
}

void rdmamsg__resume_setup(const struct rdmamsg_ep *ep,
			   struct proto_resumable *ret)
{
	const struct resume *r = ep->resume;

	if (!r || !(ep->connect.features & PROTO_FEATURE_RESUME) ||
	    !rdmamsg__lane_proves(&ep->lane))
		return;
	memcpy(ret->nonce, r->nonce, sizeof(ret->nonce));
	ret->window = min(max(ep->tuning.recv_depth, ep->opts.srq ?
			      ep->opts.srq->opts.floor : 1u), PROTO_WINDOW_MAX);
}

static int derive(struct rdmamsg_ep *ep, const struct proto_resumable *peer)
{
	struct resume *r = ep->resume;
	const uint8_t *first = ep->connect.passive ? peer->nonce : r->nonce;
	const uint8_t *second = ep->connect.passive ? r->nonce : peer->nonce;
	struct challenge c;

	memcpy(r->session, ep->connect.session, sizeof(r->session));
	memcpy(c.session, r->session, sizeof(c.session));
	memcpy(c.initiator, first, sizeof(c.initiator));
	memcpy(c.responder, second, sizeof(c.responder));
	return rdmamsg__secret_session(ep->connect.auth ?
				       &ep->connect.auth->secret : NULL, &c,
				       &r->secret);
}

/* A session without a pre-shared key proves its own secret. */
static void keep_key(struct rdmamsg_ep *ep)
{
	const struct auth *a = ep->connect.auth;
	struct resume *r = ep->resume;

	r->key = a ? a->secret : r->secret;
	r->has_key = a || ep->connect.features & PROTO_FEATURE_LANE_AUTH;
}

int rdmamsg__resume_begin(struct rdmamsg_ep *ep)
{
	const struct proto_resumable *peer = &ep->connect.peer.resume;
	struct resume *r = ep->resume;
	int err;

	if (!r || !(ep->connect.features & PROTO_FEATURE_RESUME) ||
	    !peer->window || !ep->connect.by->another ||
	    !rdmamsg__lane_proves(&ep->lane))
		return 0;
	err = derive(ep, peer);
	if (!err)
		err = rdmamsg__keep_init(&r->keep, r->opts.keep_bytes,
					 peer->window, 0);
	if (err)
		return err;
	keep_key(ep);
	r->agreed = true;
	rdmamsg__targets_learn(ep);
	ep->send.op_max += 8;		/* for requests that a carrier brings */
	if (ep->connect.passive)
		rdmamsg__registry_add(r);
	return 0;
}
