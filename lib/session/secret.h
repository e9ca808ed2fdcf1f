/* SPDX-License-Identifier: BSD-2-Clause */
/* Pre-shared keys, and proofs of having the key, see struct proto_auth. */
#ifndef RDMAMSG_LIB_SECRET_H
#define RDMAMSG_LIB_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/proto.h"

#define SECRET_MIN	16		/* bytes of the program's key */
#define SECRET_MAX	4096

/* Derived from the program's key, which the library does not keep. */
struct secret {
	uint8_t key[32];
};

/* A proof covers both sides' values. */
struct challenge {
	uint8_t session[16];
	uint8_t initiator[PROTO_NONCE_LEN];
	uint8_t responder[PROTO_NONCE_LEN];
};

/*
 * Makes a secret from len bytes at key, or from the contents of a file. If both
 * are NULL, *ret is NULL. -EINVAL: both are given, or the length is out of
 * range. -EACCES: others can read the file. -ENOMEM, -errno of open(2).
 */
int rdmamsg__secret_new(const void *key, size_t len, const char *file,
			struct secret **ret);
/* Clears and frees. s may be NULL. */
void rdmamsg__secret_free(struct secret *s);

/* -EAGAIN, -EIO: the kernel has no random bytes. */
int rdmamsg__secret_nonce(uint8_t nonce[static PROTO_NONCE_LEN]);
/*
 * Computes the proof of the initiator or of the responder. -ENOMEM,
 * -ECANCELED: the process exits. So do the others below.
 */
int rdmamsg__secret_prove(const struct secret *s, const struct challenge *c,
			  bool initiator,
			  uint8_t proof[static PROTO_PROOF_LEN]);
/* Returns 0 if the proof is right, -EACCES if it is wrong, or -ENOMEM. */
int rdmamsg__secret_verify(const struct secret *s, const struct challenge *c,
			   bool initiator,
			   const uint8_t proof[static PROTO_PROOF_LEN]);

/*
 * Derives the secret of a session from both nonces, and from the pre-shared key
 * unless it is NULL. See wire/resume.h. -ENOMEM
 */
int rdmamsg__secret_session(const struct secret *key,
			    const struct challenge *c, struct secret *ret);
/* Computes the proof for another lane of the session. -ENOMEM */
int rdmamsg__secret_lane(const struct secret *s, bool initiator,
			 const uint8_t session[static 16], uint32_t epoch,
			 uint8_t proof[static PROTO_LANE_PROOF_LEN]);

#endif
