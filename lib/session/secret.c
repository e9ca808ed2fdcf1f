/* SPDX-License-Identifier: BSD-2-Clause */
/* Pre-shared keys: read, derived, proven, compared. */
#include "base/base.h"
#include "base/fd.h"
#include "session/hmac.h"
#include "session/secret.h"
#include "wire/proto.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>

_Static_assert(HMAC_LEN == PROTO_PROOF_LEN, "a proof is an HMAC");

/* A proof under the derived key tells nothing of other uses of the same key. */
static int derive(const void *key, size_t len, struct secret **ret)
{
	struct secret *s;
	int err;

	if (len < SECRET_MIN || len > SECRET_MAX)
		return rdmamsg__fail(-EINVAL, "a key of %zu bytes: must be %d "
				     "to %d", len, SECRET_MIN, SECRET_MAX);
	s = malloc(sizeof(*s));
	if (!s)
		return rdmamsg__fail(-ENOMEM, "no memory for a key");
	err = rdmamsg__hmac(key, len, PROTO_AUTH_KEY, strlen(PROTO_AUTH_KEY),
			    s->key);
	if (err) {
		rdmamsg__secret_free(s);
		return err;
	}
	*ret = s;
	return 0;
}

/*
 * The group may read a file of root, so that a program without privileges can
 * use the key.
 */
static int check_mode(int fd, const char *file)
{
	struct stat st;
	mode_t wrong;

	if (fstat(fd, &st))
		return rdmamsg__fail(-errno, "key file %s: %s", file,
				     strerror(errno));
	if (!S_ISREG(st.st_mode))
		return rdmamsg__fail(-EINVAL, "key file %s: not a regular file",
				     file);
	if (st.st_uid && st.st_uid != geteuid())
		return rdmamsg__fail(-EACCES, "key file %s: belongs to user "
				     "%u, must belong to this user or to root",
				     file, st.st_uid);
	wrong = st.st_mode & (st.st_uid ? 077 : 037);
	if (wrong)
		return rdmamsg__fail(-EACCES, "key file %s: mode %04o gives "
				     "others access to the key: chmod 600",
				     file, st.st_mode & 07777);
	return 0;
}

/* Reads at most 'size' bytes. Returns the length or -errno. */
static ssize_t read_all(int fd, uint8_t *buf, size_t size)
{
	size_t len = 0;

	while (len < size) {
		ssize_t n = read(fd, buf + len, size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

static int derive_from(int fd, const char *file, struct secret **ret)
{
	uint8_t buf[SECRET_MAX + 1];
	ssize_t len = read_all(fd, buf, sizeof(buf));
	int err;

	if (len < 0)
		err = rdmamsg__fail((int)len, "key file %s: %s", file,
				    strerror((int)-len));
	else if (len < SECRET_MIN || len > SECRET_MAX)
		err = rdmamsg__fail(-EINVAL, "key file %s: must have %d to %d "
				    "bytes", file, SECRET_MIN, SECRET_MAX);
	else
		err = derive(buf, (size_t)len, ret);
	OPENSSL_cleanse(buf, sizeof(buf));
	return err;
}

static int read_file(const char *file, struct secret **ret)
{
	/* opening a FIFO would otherwise wait for a writer */
	int fd = fd_high(open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK |
			      O_NOCTTY));
	int err;

	if (fd < 0)
		return rdmamsg__fail(-errno, "key file %s: %s", file,
				     strerror(errno));
	err = check_mode(fd, file);
	if (!err)
		err = derive_from(fd, file, ret);
	close(fd);
	return err;
}

int rdmamsg__secret_new(const void *key, size_t len, const char *file,
			struct secret **ret)
{
	*ret = NULL;
	if (file && (key || len))
		return rdmamsg__fail(-EINVAL, "key and key_file: give one of "
				     "them");
	if (file)
		return read_file(file, ret);
	if (!key && !len)
		return 0;
	if (!key)
		return rdmamsg__fail(-EINVAL, "key_len %zu: key is NULL", len);
	return derive(key, len, ret);
}

void rdmamsg__secret_free(struct secret *s)
{
	if (s)
		OPENSSL_cleanse(s, sizeof(*s));
	free(s);
}

int rdmamsg__secret_nonce(uint8_t nonce[static PROTO_NONCE_LEN])
{
	ssize_t n = getrandom(nonce, PROTO_NONCE_LEN, GRND_NONBLOCK);

	if (n == PROTO_NONCE_LEN)
		return 0;
	return rdmamsg__fail(n < 0 ? -errno : -EIO, "getrandom: the kernel has "
			     "no random bytes for a nonce");
}

int rdmamsg__secret_prove(const struct secret *s, const struct challenge *c,
			  bool initiator,
			  uint8_t proof[static PROTO_PROOF_LEN])
{
	const char *role = initiator ? PROTO_AUTH_INITIATOR :
			   PROTO_AUTH_RESPONDER;
	uint8_t data[sizeof(PROTO_AUTH_INITIATOR) - 1 + sizeof(*c)];

	_Static_assert(sizeof(PROTO_AUTH_INITIATOR) ==
		       sizeof(PROTO_AUTH_RESPONDER), "role");
	_Static_assert(sizeof(*c) == 16 + 2 * PROTO_NONCE_LEN, "no padding");
	memcpy(data, role, sizeof(PROTO_AUTH_INITIATOR) - 1);
	memcpy(data + sizeof(PROTO_AUTH_INITIATOR) - 1, c, sizeof(*c));
	return rdmamsg__hmac(s->key, sizeof(s->key), data, sizeof(data), proof);
}

int rdmamsg__secret_verify(const struct secret *s, const struct challenge *c,
			   bool initiator,
			   const uint8_t proof[static PROTO_PROOF_LEN])
{
	uint8_t right[PROTO_PROOF_LEN];
	int err = rdmamsg__secret_prove(s, c, initiator, right);

	if (!err && CRYPTO_memcmp(right, proof, sizeof(right)))
		err = -EACCES;
	OPENSSL_cleanse(right, sizeof(right));
	return err;
}

int rdmamsg__secret_session(const struct secret *key,
			    const struct challenge *c, struct secret *ret)
{
	static const struct secret zeros;
	uint8_t data[sizeof(PROTO_LANE_SECRET) - 1 + sizeof(*c)];

	memcpy(data, PROTO_LANE_SECRET, sizeof(PROTO_LANE_SECRET) - 1);
	memcpy(data + sizeof(PROTO_LANE_SECRET) - 1, c, sizeof(*c));
	if (!key)
		key = &zeros;
	return rdmamsg__hmac(key->key, sizeof(key->key), data, sizeof(data),
			     ret->key);
}

int rdmamsg__secret_lane(const struct secret *s, bool initiator,
			 const uint8_t session[static 16], uint32_t epoch,
			 uint8_t proof[static PROTO_LANE_PROOF_LEN])
{
	const char *role = initiator ? PROTO_LANE_INITIATOR :
			   PROTO_LANE_RESPONDER;
	uint8_t data[sizeof(PROTO_LANE_INITIATOR) - 1 + 16 + sizeof(epoch)];
	uint8_t *at = data + sizeof(PROTO_LANE_INITIATOR) - 1;
	uint8_t whole[PROTO_PROOF_LEN];
	int err;

	_Static_assert(sizeof(PROTO_LANE_INITIATOR) ==
		       sizeof(PROTO_LANE_RESPONDER), "role");
	epoch = htole32(epoch);
	memcpy(data, role, sizeof(PROTO_LANE_INITIATOR) - 1);
	memcpy(at, session, 16);
	memcpy(at + 16, &epoch, sizeof(epoch));
	err = rdmamsg__hmac(s->key, sizeof(s->key), data, sizeof(data), whole);
	memcpy(proof, whole, PROTO_LANE_PROOF_LEN);
	return err;
}
