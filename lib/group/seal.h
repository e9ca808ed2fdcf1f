/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seal of a group with a key: who does not have the key can neither make
 * nor change a frame. The seals of two groups with the same key differ.
 */
#ifndef RDMAMSG_LIB_SEAL_H
#define RDMAMSG_LIB_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "wire/frame.h"

struct hmac;
struct secret;

/*
 * Prepares the seal of a group; rdmamsg__hmac_free() ends it. -ENOMEM,
 * -ECANCELED: the process exits.
 */
int rdmamsg__seal_new(const struct secret *key, const union ibv_gid *mgid,
		      struct hmac **ret);
/* Appends the seal of these 'len' bytes. The same errors. */
int rdmamsg__seal_put(struct hmac *seal, uint8_t *frame, uint32_t len);
/* Returns true if the frame, 'len' bytes with its seal, ends with it. */
bool rdmamsg__seal_right(struct hmac *seal, const uint8_t *frame,
			 uint32_t len);

#endif
