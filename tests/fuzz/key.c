/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: an accepted key survives a round trip, byte for byte, and its
 * memory range does not wrap.
 */
#include "wire/proto.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t out[PROTO_KEY_LEN];
	struct proto_key k;

	if (rdmamsg__key_decode(&k, data, size))
		return 0;
	must(size >= sizeof(out));
	must(!(k.access & ~(PROTO_KEY_READ | PROTO_KEY_WRITE |
			    PROTO_KEY_ATOMIC)));
	must(k.addr + k.len >= k.addr);
	rdmamsg__key_encode(&k, out);
	must(!memcmp(out, data, sizeof(out)));
	return 0;
}
