/* SPDX-License-Identifier: BSD-2-Clause */
/* Authentication: the steps of each side. ctrl.c sends and receives. */
#include "session/auth.h"
#include "session/ep.h"
#include "session/secret.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

struct auth *rdmamsg__auth_new(const struct secret *s)
{
	struct auth *a = calloc(1, sizeof(*a));

	if (a)
		a->secret = *s;
	return a;
}

void rdmamsg__auth_anew(struct auth *a)
{
	const struct secret secret = a->secret;

	*a = (struct auth){ .secret = secret };
}

void rdmamsg__auth_free(struct auth *a)
{
	if (a)
		OPENSSL_cleanse(a, sizeof(*a));
	free(a);
}

bool rdmamsg__auth_wants_proof(const struct rdmamsg_ep *ep)
{
	return ep->connect.auth && !ep->connect.auth->proven;
}

bool rdmamsg__auth_is_due(const struct rdmamsg_ep *ep)
{
	const struct auth *a = ep->connect.auth;

	return a && ep->state == EP_SETUP && !a->seen && !ep->connect.refused &&
	       (ep->connect.passive ? a->sent : ep->connect.setup_sent);
}

int rdmamsg__auth_begin(struct rdmamsg_ep *ep, struct proto_setup *s)
{
	struct auth *a = ep->connect.auth;
	int err;

	if (!a || ep->connect.passive)
		return 0;
	err = rdmamsg__secret_nonce(a->challenge.initiator);
	if (err)
		return err;
	memcpy(a->challenge.session, ep->connect.session,
	       sizeof(a->challenge.session));
	memcpy(s->nonce, a->challenge.initiator, sizeof(s->nonce));
	s->has_nonce = true;
	return 0;
}

enum proto_reject rdmamsg__auth_meet(struct rdmamsg_ep *ep,
				     const struct proto_setup *s)
{
	struct auth *a = ep->connect.auth;

	if (!a)
		return s->has_nonce ? PROTO_REJECT_KEYED : PROTO_REJECT_NONE;
	if (!s->has_nonce)
		return PROTO_REJECT_UNKEYED;
	memcpy(a->challenge.session, s->session, sizeof(s->session));
	memcpy(a->challenge.initiator, s->nonce, sizeof(s->nonce));
	return PROTO_REJECT_NONE;
}

int rdmamsg__auth_prove(struct rdmamsg_ep *ep, struct proto_auth *ret)
{
	struct auth *a = ep->connect.auth;
	int err = 0;

	*ret = (struct proto_auth){ .has_nonce = ep->connect.passive };
	if (ret->has_nonce) {
		err = rdmamsg__secret_nonce(a->challenge.responder);
		memcpy(ret->nonce, a->challenge.responder, sizeof(ret->nonce));
	}
	if (!err)
		err = rdmamsg__secret_prove(&a->secret, &a->challenge,
					    !ep->connect.passive, ret->proof);
	return err;
}

int rdmamsg__auth_check(struct rdmamsg_ep *ep, const void *buf, size_t len)
{
	struct auth *a = ep->connect.auth;
	struct proto_auth peer;
	int err = rdmamsg__auth_decode(&peer, !ep->connect.passive, buf, len);

	if (err)
		return err;
	if (peer.has_nonce)
		memcpy(a->challenge.responder, peer.nonce, sizeof(peer.nonce));
	err = rdmamsg__secret_verify(&a->secret, &a->challenge,
				     ep->connect.passive, peer.proof);
	a->proven = !err;
	return err;
}
