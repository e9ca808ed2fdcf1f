/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Authentication of an endpoint with a pre-shared key, see rdmamsg-proto(7):
 *
 *   initiator				responder
 *   SETUP with nonce		->
 *				<-	AUTH with nonce and proof
 *   AUTH with proof		->
 *				<-	SETUP
 *
 * Each side checks the proof of the other before it goes on. Until then the
 * responder has one receive, as before any SETUP.
 */
#ifndef RDMAMSG_LIB_AUTH_H
#define RDMAMSG_LIB_AUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "session/secret.h"
#include "wire/proto.h"

struct rdmamsg_ep;

struct auth {
	struct secret secret;
	struct challenge challenge;
	bool sent, seen;		/* AUTH: ours, the peer's */
	bool proven;			/* the peer's proof is right */
};

/* Returns NULL if there is no memory. */
struct auth *rdmamsg__auth_new(const struct secret *s);
/* For another try to connect, with a new nonce. */
void rdmamsg__auth_anew(struct auth *a);
/* Clears and frees. a may be NULL. */
void rdmamsg__auth_free(struct auth *a);

/* Returns true if the peer must prove that it has the key. */
bool rdmamsg__auth_wants_proof(const struct rdmamsg_ep *ep);
/* Returns true if an AUTH of the peer is the next message. */
bool rdmamsg__auth_is_due(const struct rdmamsg_ep *ep);
/* Adds a new nonce to the initiator's SETUP, if there is a key. -errno */
int rdmamsg__auth_begin(struct rdmamsg_ep *ep, struct proto_setup *s);
/* Takes the nonce of the initiator's SETUP. Returns why to refuse it, or 0. */
enum proto_reject rdmamsg__auth_meet(struct rdmamsg_ep *ep,
				     const struct proto_setup *s);
/* Computes our AUTH. -errno */
int rdmamsg__auth_prove(struct rdmamsg_ep *ep, struct proto_auth *ret);
/*
 * Checks the peer's AUTH. -EPROTO: malformed; -EACCES: the proof is wrong;
 * -ENOMEM.
 */
int rdmamsg__auth_check(struct rdmamsg_ep *ep, const void *buf, size_t len);

#endif
