/* SPDX-License-Identifier: BSD-2-Clause */
/* SHA-256 by libcrypto. */
#include "copy.h"

#include <errno.h>
#include <openssl/evp.h>

/* Casts to libcrypto's context. struct copy_digest itself is never defined. */
static EVP_MD_CTX *evp(struct copy_digest *d)
{
	return (EVP_MD_CTX *)d;
}

struct copy_digest *copy_digest_new(void)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();

	if (ctx && !EVP_DigestInit_ex(ctx, EVP_sha256(), NULL)) {
		EVP_MD_CTX_free(ctx);
		ctx = NULL;
	}
	return (struct copy_digest *)ctx;
}

void copy_digest_free(struct copy_digest *d)
{
	EVP_MD_CTX_free(evp(d));
}

int copy_digest_add(struct copy_digest *d, const void *data, size_t len)
{
	return EVP_DigestUpdate(evp(d), data, len) ? 0 : -EIO;
}

int copy_digest_end(struct copy_digest *d, uint8_t sha[COPY_SHA_LEN])
{
	unsigned int len;

	return EVP_DigestFinal_ex(evp(d), sha, &len) ? 0 : -EIO;
}
