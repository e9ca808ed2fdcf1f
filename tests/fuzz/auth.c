/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: an AUTH of either side survives a round trip, byte for byte.
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
	static const size_t lens[2] = { PROTO_PROOF_LEN, PROTO_AUTH_LEN };
	uint8_t out[PROTO_AUTH_LEN];
	struct proto_auth a;

	for (int nonce = 0; nonce < 2; nonce++) {
		int err = rdmamsg__auth_decode(&a, nonce, data, size);

		must(!err == (size >= lens[nonce]));
		if (err)
			continue;
		must(a.has_nonce == nonce);
		must(rdmamsg__auth_encode(&a, out) == lens[nonce]);
		must(!memcmp(out, data, lens[nonce]));
	}
	return 0;
}
