/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"
#include "group/seal.h"
#include "session/hmac.h"
#include "session/secret.h"
#include "wire/frame.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <openssl/crypto.h>

#define ROLE	"rdmamsg group frame 2"

/* Seals of a group tell nothing of those of another, nor of connections. */
static int derive(const struct secret *key, const union ibv_gid *mgid,
		  uint8_t ret[static HMAC_LEN])
{
	uint8_t data[sizeof(ROLE) - 1 + sizeof(*mgid)];

	memcpy(data, ROLE, sizeof(ROLE) - 1);
	memcpy(data + sizeof(ROLE) - 1, mgid, sizeof(*mgid));
	return rdmamsg__hmac(key->key, sizeof(key->key), data, sizeof(data),
			     ret);
}

int rdmamsg__seal_new(const struct secret *key, const union ibv_gid *mgid,
		      struct hmac **ret)
{
	uint8_t derived[HMAC_LEN];
	int err = derive(key, mgid, derived);

	if (!err)
		err = rdmamsg__hmac_new(derived, sizeof(derived), ret);
	OPENSSL_cleanse(derived, sizeof(derived));
	return err;
}

int rdmamsg__seal_put(struct hmac *seal, uint8_t *frame, uint32_t len)
{
	uint8_t whole[HMAC_LEN];
	int err = rdmamsg__hmac_put(seal, frame, len, whole);

	if (!err)
		memcpy(frame + len, whole, FRAME_SEAL_LEN);
	return err;
}

bool rdmamsg__seal_right(struct hmac *seal, const uint8_t *frame, uint32_t len)
{
	uint8_t whole[HMAC_LEN];

	len -= FRAME_SEAL_LEN;
	return !rdmamsg__try(rdmamsg__hmac_put(seal, frame, len, whole)) &&
	       !CRYPTO_memcmp(whole, frame + len, FRAME_SEAL_LEN);
}
