/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: message header, RNDV body, key, and the immediate data of a
 * compact message. None has optional parts, so encoding a decoded value gives
 * the bytes of the input.
 */
#include "wire/proto.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
	if (!ok)
		abort();
}

static void check_header(const uint8_t *data)
{
	uint8_t out[PROTO_HDR_LEN];
	struct proto_hdr h;

	rdmamsg__hdr_decode(&h, data);
	rdmamsg__hdr_encode(&h, out);
	must(!memcmp(out, data, sizeof(out)));
}

/* The four bytes of the number as if they were immediate data. */
static void check_immediate(const uint8_t *data)
{
	uint32_t imm, credits, seen, grant;

	memcpy(&imm, data + offsetof(struct proto_hdr, number), sizeof(imm));
	credits = rdmamsg__grant_credits(imm);
	seen = rdmamsg__grant_seen(imm);
	must(credits <= PROTO_GRANT_MAX && seen <= 3);
	grant = rdmamsg__grant_encode(credits, seen);
	must(grant == (imm & PROTO_IMM_MASK & ~(uint32_t)PROTO_NUMBER_MASK));
	/* more than fits is granted in part, and never changes another field */
	grant = rdmamsg__grant_encode(imm, seen);
	must(!(grant & ~(uint32_t)PROTO_IMM_MASK));
	must(!(grant & PROTO_NUMBER_MASK));
	must(rdmamsg__grant_seen(grant) == seen);
	must(rdmamsg__grant_credits(grant) <= imm);
}

static void check_key(const uint8_t *data, size_t size)
{
	uint8_t out[PROTO_KEY_LEN];
	struct proto_key k;

	if (rdmamsg__key_decode(&k, data, size))
		return;
	must(size >= sizeof(out));
	must(k.len <= UINT64_MAX - k.addr);
	rdmamsg__key_encode(&k, out);
	must(!memcmp(out, data, sizeof(out)));
}

static void check_rndv(const uint8_t *data, size_t size)
{
	uint8_t out[PROTO_RNDV_MAX];
	struct proto_rndv r;
	uint64_t sum = 0;
	uint32_t i;
	size_t len;

	if (rdmamsg__rndv_decode(&r, data, size))
		return;
	must(r.count >= 1 && r.count <= PROTO_KEYS_MAX);
	must(r.total <= PROTO_MSG_MAX);
	for (i = 0; i < r.count; i++) {
		must(r.keys[i].access & PROTO_KEY_READ);
		must(r.keys[i].len >= 1 && r.keys[i].len <= r.total);
		sum += r.keys[i].len;
	}
	must(sum == r.total);
	len = rdmamsg__rndv_encode(&r, out);
	must(len <= size && len <= sizeof(out));
	must(!memcmp(out, data, len));
	/* the CRC may be absent, the keys may not */
	must(rdmamsg__rndv_decode(&r, data, len - 1 -
				  (r.has_crc ? PROTO_CRC_LEN : 0)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < PROTO_HDR_LEN)
		return 0;
	check_header(data);
	check_immediate(data);
	data += PROTO_HDR_LEN;
	size -= PROTO_HDR_LEN;
	/*
	 * Every type of header goes on here, so that the fuzzer reaches the
	 * bodies.
	 */
	check_rndv(data, size);
	check_key(data, size);
	return 0;
}
