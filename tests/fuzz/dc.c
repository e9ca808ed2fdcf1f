/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: hello data of a sender survive a round trip, byte for byte, and
 * no data are both hello data and the refusal of an access key.
 */
#include "wire/dc.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t out[DC_HELLO_LEN];
	struct dc_hello h;

	if (!rdmamsg__dc_hello_decode(&h, data, size)) {
		must(!rdmamsg__dc_is_violation(data, size) ||
		     size == sizeof(DC_VIOLATION) - 1);
		return 0;
	}
	must(size == sizeof(out));
	must(!rdmamsg__dc_is_violation(data, size));
	rdmamsg__dc_hello_encode(&h, out);
	must(!memcmp(out, data, sizeof(out)));
	return 0;
}
