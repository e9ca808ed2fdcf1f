/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/proto.h"

#include <assert.h>
#include <errno.h>

#define KEY_ACCESS_ALL	(PROTO_KEY_READ | PROTO_KEY_WRITE | PROTO_KEY_ATOMIC)

#define BIT(type)	(1u << (type))
#define SETUP_REQUIRED	(BIT(PROTO_SETUP_RECV_SIZE) | \
			 BIT(PROTO_SETUP_RECV_DEPTH) | \
			 BIT(PROTO_SETUP_MAX_MSG) | BIT(PROTO_SETUP_SESSION))
#define SETUP_LAST	PROTO_SETUP_ADDRESSES

struct wire_key {
	uint8_t version;
	uint8_t access;
	uint16_t zero;
	uint32_t rkey;
	uint64_t region;
	uint64_t addr;
	uint64_t len;
};

struct wire_rndv {
	uint32_t count;
	uint32_t total;
};

struct wire_item {
	uint16_t type;
	uint16_t len;
};

_Static_assert(sizeof(struct wire_key) == PROTO_KEY_LEN, "wire key");
_Static_assert(sizeof(struct wire_rndv) == PROTO_RNDV_LEN, "wire rndv");
_Static_assert(SETUP_LAST < 32, "types seen fit a word");
_Static_assert(SETUP_LAST * sizeof(struct wire_item) + 5 * sizeof(uint32_t) +
	       16 + PROTO_SETUP_DATA_MAX + 8 + PROTO_PATH_LEN +
	       PROTO_NONCE_LEN + PROTO_RESUMABLE_LEN + PROTO_PROOF_ITEM_LEN +
	       PROTO_ADDRESSES_LEN <= PROTO_SETUP_MAX, "setup fits");

static size_t padding(size_t len)
{
	return -len & 3;
}

static uint8_t *put_item(uint8_t *p, uint16_t type, const void *value,
			 size_t len)
{
	struct wire_item w = { .type = htole16(type), .len = htole16(len) };

	memcpy(p, &w, sizeof(w));
	p += sizeof(w);
	memcpy(p, value, len);
	p += len;
	memset(p, 0, padding(len));
	return p + padding(len);
}

static uint8_t *put_u32_item(uint8_t *p, uint16_t type, uint32_t value)
{
	uint32_t w = htole32(value);

	return put_item(p, type, &w, sizeof(w));
}

static int get_u32(uint32_t *ret, const uint8_t *value, size_t len)
{
	uint32_t w;

	if (len < sizeof(w))
		return -EPROTO;
	memcpy(&w, value, sizeof(w));
	*ret = le32toh(w);
	return 0;
}

static int get_proof(struct proto_proof *ret, const uint8_t *value, size_t len)
{
	uint32_t w[3];

	if (len < sizeof(w))
		return -EPROTO;
	memcpy(w, value, sizeof(w));
	ret->low = le32toh(w[0]);
	ret->high = le32toh(w[1]);
	ret->rkey = le32toh(w[2]);
	return ret->low || ret->high ? 0 : -EPROTO;
}

static uint8_t *put_proof(uint8_t *p, const struct proto_proof *proof)
{
	const uint32_t w[] = {
		htole32(proof->low), htole32(proof->high),
		htole32(proof->rkey),
	};

	_Static_assert(sizeof(w) == PROTO_PROOF_ITEM_LEN, "wire proof");
	return put_item(p, PROTO_SETUP_PROOF, w, sizeof(w));
}

static int get_item(struct proto_setup *s, unsigned int type,
		    const uint8_t *value, size_t len)
{
	struct proto_addresses addresses;

	switch (type) {
	case PROTO_SETUP_RECV_SIZE:
		return get_u32(&s->recv_size, value, len);
	case PROTO_SETUP_RECV_DEPTH:
		return get_u32(&s->recv_depth, value, len);
	case PROTO_SETUP_MAX_MSG:
		return get_u32(&s->max_msg, value, len);
	case PROTO_SETUP_DEAD_AFTER:
		return get_u32(&s->dead_after_ms, value, len);
	case PROTO_SETUP_PIECES:
		return get_u32(&s->pieces, value, len);
	case PROTO_SETUP_SESSION:
		if (len < sizeof(s->session))
			return -EPROTO;
		memcpy(s->session, value, sizeof(s->session));
		return 0;
	case PROTO_SETUP_REFUSED:
		if (len < 2 * sizeof(uint32_t) ||
		    get_u32(&s->refused, value, len) || !s->refused)
			return -EPROTO;
		return get_u32(&s->limit, value + 4, len - 4);
	case PROTO_SETUP_PATH:
		return rdmamsg__path_decode(&s->path, value, len);
	case PROTO_SETUP_NONCE:
		if (len < sizeof(s->nonce))
			return -EPROTO;
		memcpy(s->nonce, value, sizeof(s->nonce));
		s->has_nonce = true;
		return 0;
	case PROTO_SETUP_RESUME:
		return rdmamsg__resumable_decode(&s->resume, value, len);
	case PROTO_SETUP_PROOF:
		return get_proof(&s->proof, value, len);
	case PROTO_SETUP_ADDRESSES:
		return rdmamsg__addresses_decode(&addresses, value, len);
	case PROTO_SETUP_DATA:
		/* the program owns all of it, so there is no unknown tail */
		if (len > PROTO_SETUP_DATA_MAX)
			return -EPROTO;
		s->data = value;
		s->data_len = len;
		return 0;
	}
	return -EPROTO;
}

static int all_zero(const uint8_t *p, size_t len)
{
	while (len--)
		if (*p++)
			return 0;
	return 1;
}

static int setup_in_range(const struct proto_setup *s)
{
	return s->recv_size >= PROTO_RECV_MIN &&
	       s->recv_size <= PROTO_MSG_MAX &&
	       s->recv_depth && s->recv_depth <= PROTO_DEPTH_MAX &&
	       s->max_msg && s->max_msg <= PROTO_MSG_MAX;
}

/* Others have taken the types between. */
static int is_known(unsigned int type)
{
	return (type >= PROTO_SETUP_RECV_SIZE && type <= PROTO_SETUP_PROOF) ||
	       type == PROTO_SETUP_ADDRESSES;
}

/* internal */

void rdmamsg__key_encode(const struct proto_key *k,
			 uint8_t out[static PROTO_KEY_LEN])
{
	struct wire_key w = {
		.version = PROTO_KEY_VERSION, .access = k->access,
		.rkey = htole32(k->rkey), .region = htole64(k->region),
		.addr = htole64(k->addr), .len = htole64(k->len),
	};

	assert(!(k->access & ~KEY_ACCESS_ALL));
	assert(k->addr + k->len >= k->addr);
	memcpy(out, &w, sizeof(w));
}

int rdmamsg__key_decode(struct proto_key *k, const void *buf, size_t len)
{
	struct wire_key w;
	uint64_t addr, n;

	if (len < sizeof(w))
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	/*
	 * A key has its own version. Decoding skips nothing that it does not
	 * know, because that could be a restriction.
	 */
	if (w.version != PROTO_KEY_VERSION || w.zero ||
	    (w.access & ~KEY_ACCESS_ALL))
		return -EPROTO;
	addr = le64toh(w.addr);
	n = le64toh(w.len);
	/* an end of 2^64 is refused too, because users compute addr + len */
	if (addr + n < addr)
		return -EPROTO;

	*k = (struct proto_key) {
		.access = w.access, .rkey = le32toh(w.rkey),
		.region = le64toh(w.region), .addr = addr, .len = n,
	};
	return 0;
}

size_t rdmamsg__rndv_encode(const struct proto_rndv *r,
			    uint8_t out[static PROTO_RNDV_MAX])
{
	struct wire_rndv w = {
		.count = htole32(r->count), .total = htole32(r->total),
	};
	uint8_t *p = out + sizeof(w);
	uint32_t i;

	assert(r->count >= 1 && r->count <= PROTO_KEYS_MAX);
	memcpy(out, &w, sizeof(w));
	for (i = 0; i < r->count; i++, p += PROTO_KEY_LEN)
		rdmamsg__key_encode(&r->keys[i], p);
	if (r->has_crc) {
		uint32_t crc = htole32(r->crc);

		memcpy(p, &crc, sizeof(crc));
		p += sizeof(crc);
	}
	return p - out;
}

int rdmamsg__rndv_decode(struct proto_rndv *r, const void *buf, size_t len)
{
	const uint8_t *p = buf;
	struct wire_rndv w;
	struct proto_rndv d = { 0 };
	uint32_t i, left;
	int err;

	if (len < sizeof(w))
		return -EPROTO;
	memcpy(&w, p, sizeof(w));
	p += sizeof(w);
	d.count = le32toh(w.count);
	d.total = le32toh(w.total);
	if (d.count < 1 || d.count > PROTO_KEYS_MAX ||
	    d.total > PROTO_MSG_MAX ||
	    len - sizeof(w) < (size_t)d.count * PROTO_KEY_LEN)
		return -EPROTO;

	/* subtract, because a sum of 64-bit lengths could wrap */
	left = d.total;
	for (i = 0; i < d.count; i++, p += PROTO_KEY_LEN) {
		struct proto_key *k = &d.keys[i];

		err = rdmamsg__key_decode(k, p, PROTO_KEY_LEN);
		if (err)
			return err;
		if (!(k->access & PROTO_KEY_READ) || !k->len || k->len > left)
			return -EPROTO;
		left -= k->len;
	}
	if (left)
		return -EPROTO;
	len -= (size_t)(p - (const uint8_t *)buf);
	d.has_crc = !get_u32(&d.crc, p, len);

	*r = d;
	return 0;
}

size_t rdmamsg__setup_encode(const struct proto_setup *s,
			     uint8_t out[static PROTO_SETUP_MAX])
{
	uint8_t *p = out;

	assert(setup_in_range(s));
	assert(s->data_len <= PROTO_SETUP_DATA_MAX);
	p = put_u32_item(p, PROTO_SETUP_RECV_SIZE, s->recv_size);
	p = put_u32_item(p, PROTO_SETUP_RECV_DEPTH, s->recv_depth);
	p = put_u32_item(p, PROTO_SETUP_MAX_MSG, s->max_msg);
	p = put_item(p, PROTO_SETUP_SESSION, s->session, sizeof(s->session));
	if (s->dead_after_ms)
		p = put_u32_item(p, PROTO_SETUP_DEAD_AFTER, s->dead_after_ms);
	if (s->data_len)
		p = put_item(p, PROTO_SETUP_DATA, s->data, s->data_len);
	if (s->refused) {
		uint32_t w[2] = { htole32(s->refused), htole32(s->limit) };

		p = put_item(p, PROTO_SETUP_REFUSED | PROTO_SETUP_MUST_KNOW, w,
			     sizeof(w));
	}
	if (s->path.offer) {
		uint8_t w[PROTO_PATH_LEN];

		rdmamsg__path_encode(&s->path, w);
		p = put_item(p, PROTO_SETUP_PATH, w, sizeof(w));
	}
	if (s->has_nonce)
		p = put_item(p, PROTO_SETUP_NONCE | PROTO_SETUP_MUST_KNOW,
			     s->nonce, sizeof(s->nonce));
	if (s->pieces)
		p = put_u32_item(p, PROTO_SETUP_PIECES, s->pieces);
	if (s->resume.window) {
		uint8_t w[PROTO_RESUMABLE_LEN];

		rdmamsg__resumable_encode(&s->resume, w);
		p = put_item(p, PROTO_SETUP_RESUME, w, sizeof(w));
	}
	if (s->proof.low || s->proof.high)
		p = put_proof(p, &s->proof);
	return p - out;
}

int rdmamsg__setup_decode(struct proto_setup *s, const void *buf, size_t len)
{
	const uint8_t *p = buf;
	struct proto_setup d = { 0 };
	uint32_t seen = 0;
	struct wire_item w;
	unsigned int type, must_know;
	size_t n;

	while (len) {
		if (len < sizeof(w))
			return -EPROTO;
		memcpy(&w, p, sizeof(w));
		p += sizeof(w);
		len -= sizeof(w);
		must_know = le16toh(w.type) & PROTO_SETUP_MUST_KNOW;
		type = le16toh(w.type) & ~PROTO_SETUP_MUST_KNOW;
		n = le16toh(w.len);
		if (n + padding(n) > len || !all_zero(p + n, padding(n)))
			return -EPROTO;
		if (is_known(type)) {
			/* a repeated item is ambiguous */
			if (seen & BIT(type) || get_item(&d, type, p, n))
				return -EPROTO;
			seen |= BIT(type);
		} else if (must_know) {
			return -EPROTO;
		}
		p += n + padding(n);
		len -= n + padding(n);
	}
	if ((seen & SETUP_REQUIRED) != SETUP_REQUIRED || !setup_in_range(&d))
		return -EPROTO;

	*s = d;
	return 0;
}

size_t rdmamsg__setup_add_addresses(uint8_t out[static PROTO_SETUP_MAX],
				    size_t len, const struct proto_addresses *a)
{
	uint8_t w[PROTO_ADDRESSES_LEN];

	if (!a->count)
		return len;
	return put_item(out + len, PROTO_SETUP_ADDRESSES, w,
			rdmamsg__addresses_encode(a, w)) - out;
}

void rdmamsg__setup_addresses(struct proto_addresses *ret, const void *buf,
			      size_t len)
{
	const uint8_t *p = buf;
	struct wire_item w;

	ret->count = 0;
	while (len) {
		size_t n;

		memcpy(&w, p, sizeof(w));
		n = sizeof(w) + le16toh(w.len) + padding(le16toh(w.len));
		if ((le16toh(w.type) & ~PROTO_SETUP_MUST_KNOW) ==
		    PROTO_SETUP_ADDRESSES)
			(void)rdmamsg__addresses_decode(ret, p + sizeof(w),
							le16toh(w.len));
		p += n;
		len -= n;
	}
}

size_t rdmamsg__auth_encode(const struct proto_auth *a,
			    uint8_t out[static PROTO_AUTH_LEN])
{
	memcpy(out, a->proof, sizeof(a->proof));
	if (!a->has_nonce)
		return sizeof(a->proof);
	memcpy(out + sizeof(a->proof), a->nonce, sizeof(a->nonce));
	return PROTO_AUTH_LEN;
}

int rdmamsg__auth_decode(struct proto_auth *a, bool has_nonce, const void *buf,
			 size_t len)
{
	struct proto_auth d = { .has_nonce = has_nonce };

	if (len < (has_nonce ? PROTO_AUTH_LEN : PROTO_PROOF_LEN))
		return -EPROTO;
	memcpy(d.proof, buf, sizeof(d.proof));
	if (has_nonce)
		memcpy(d.nonce, (const uint8_t *)buf + sizeof(d.proof),
		       sizeof(d.nonce));
	*a = d;
	return 0;
}
