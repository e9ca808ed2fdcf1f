/* SPDX-License-Identifier: BSD-2-Clause */
/* HMAC-SHA256, by libcrypto. */
#ifndef RDMAMSG_LIB_HMAC_H
#define RDMAMSG_LIB_HMAC_H

#include <stddef.h>
#include <stdint.h>

#define HMAC_LEN	32

/*
 * Makes rdmamsg__hmac() safe while the process exits. For rdmamsg_open(), so
 * that no connection comes before it.
 */
void rdmamsg__hmac_init(void);
/*
 * Any thread. -ECANCELED: exit(3) has been called. -ENOMEM: libcrypto has no
 * memory, or does not provide the digest.
 */
int rdmamsg__hmac(const void *key, size_t key_len, const void *data, size_t len,
		  uint8_t out[static HMAC_LEN]);

/*
 * The same for many messages under one key, which is prepared once. Each call
 * of rdmamsg__hmac_put() needs the object for itself. The errors are those of
 * rdmamsg__hmac().
 */
struct hmac;
int rdmamsg__hmac_new(const void *key, size_t key_len, struct hmac **ret);
/* Clears the key. h may be NULL. */
void rdmamsg__hmac_free(struct hmac *h);
int rdmamsg__hmac_put(struct hmac *h, const void *data, size_t len,
		      uint8_t out[static HMAC_LEN]);

#endif
