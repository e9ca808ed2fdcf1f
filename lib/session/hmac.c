/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * HMAC-SHA256, by libcrypto. A handler of libcrypto frees its tables in
 * exit(3), while other threads may go on serving peers. A later HMAC() would
 * use freed memory.
 *
 * Handlers run in reverse order. The handler here is registered after that of
 * libcrypto, whoever has initialised libcrypto. So it runs first, awaits the
 * HMAC() that are in progress, and forbids others. OPENSSL_INIT_NO_ATEXIT would
 * not do: if the program has initialised libcrypto, it comes too late, and else
 * it takes the handler from the program.
 */
#include "base/base.h"
#include "session/hmac.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>

#define WAIT_S	60	/* a thread may wait for a processor */

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic bool ended;

/*
 * Awaits the HMAC() that are in progress. The wait ends even if a child of a bare
 * clone(2) has inherited a lock that nobody releases.
 */
static void stop(void)
{
	struct timespec until;

	ended = true;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	if (!pthread_rwlock_timedwrlock(&lock, &until))
		pthread_rwlock_unlock(&lock);
}

/* The threads whose HMAC() were in progress are not in the child. */
static void in_child(void)
{
	lock = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
}

static void start(void)
{
	(void)pthread_atfork(NULL, NULL, in_child);
	/*
	 * Registers libcrypto's handler. Without an option that is not yet done
	 * the call returns before. Fails if libcrypto has already ended.
	 */
	if (!OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CRYPTO_STRINGS, NULL))
		ended = true;
	/* without memory, the process exits as if this were not here */
	else
		(void)atexit(stop);
}

void rdmamsg__hmac_init(void)
{
	pthread_once(&once, start);
}

static int has_ended(void)
{
	return rdmamsg__fail(-ECANCELED, "libcrypto has ended, because the "
			     "process exits");
}

static int has_none(void)
{
	return rdmamsg__fail(-ENOMEM, "libcrypto has no memory, or does not "
			     "provide HMAC-SHA256");
}

static int compute(const void *key, size_t key_len, const void *data,
		   size_t len, uint8_t out[static HMAC_LEN])
{
	unsigned int n = 0;

	if (ended)
		return has_ended();
	return HMAC(EVP_sha256(), key, (int)key_len, data, len, out, &n) &&
	       n == HMAC_LEN ? 0 : has_none();
}

int rdmamsg__hmac(const void *key, size_t key_len, const void *data, size_t len,
		  uint8_t out[static HMAC_LEN])
{
	int err;

	rdmamsg__hmac_init();
	pthread_rwlock_rdlock(&lock);
	err = compute(key, key_len, data, len, out);
	pthread_rwlock_unlock(&lock);
	return err;
}

/* ---- many messages under one key --------------------------------------- */

struct hmac {
	EVP_MAC_CTX *with_key;
};

static EVP_MAC_CTX *prepare(const void *key, size_t key_len)
{
	char digest[] = "SHA256";
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest,
						 0),
		OSSL_PARAM_construct_end(),
	};
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	EVP_MAC_CTX *c = mac ? EVP_MAC_CTX_new(mac) : NULL;

	EVP_MAC_free(mac);
	if (c && EVP_MAC_init(c, key, key_len, params))
		return c;
	EVP_MAC_CTX_free(c);
	return NULL;
}

int rdmamsg__hmac_new(const void *key, size_t key_len, struct hmac **ret)
{
	struct hmac *h = calloc(1, sizeof(*h));
	int err = 0;

	if (!h)
		return rdmamsg__fail(-ENOMEM, "no memory for a key");
	rdmamsg__hmac_init();
	pthread_rwlock_rdlock(&lock);
	if (ended)
		err = has_ended();
	else
		h->with_key = prepare(key, key_len);
	pthread_rwlock_unlock(&lock);
	if (!err && !h->with_key)
		err = has_none();
	if (err)
		free(h);
	else
		*ret = h;
	return err;
}

void rdmamsg__hmac_free(struct hmac *h)
{
	if (!h)
		return;
	pthread_rwlock_rdlock(&lock);
	if (!ended)
		EVP_MAC_CTX_free(h->with_key);
	pthread_rwlock_unlock(&lock);
	free(h);
}

static int put(EVP_MAC_CTX *c, const void *data, size_t len,
	       uint8_t out[static HMAC_LEN])
{
	size_t n = 0;

	if (ended)
		return has_ended();
	return EVP_MAC_init(c, NULL, 0, NULL) &&
	       EVP_MAC_update(c, data, len) &&
	       EVP_MAC_final(c, out, &n, HMAC_LEN) && n == HMAC_LEN ?
	       0 : has_none();
}

int rdmamsg__hmac_put(struct hmac *h, const void *data, size_t len,
		      uint8_t out[static HMAC_LEN])
{
	int err;

	pthread_rwlock_rdlock(&lock);
	err = put(h->with_key, data, len, out);
	pthread_rwlock_unlock(&lock);
	return err;
}
