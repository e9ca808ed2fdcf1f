/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: frames of DC, and the answer to a request for DC, survive a
 * round trip, byte for byte.
 */
#include "wire/dc_frame.h"
#include "wire/proto.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
	if (!ok)
		abort();
}

static void try_answer(const uint8_t *data, size_t size)
{
	uint8_t out[DCA_LEN];
	struct dc_answer a;

	if (rdmamsg__dca_decode(&a, data, size))
		return;
	must(size == sizeof(out));
	rdmamsg__dca_encode(&a, out);
	must(!memcmp(out, data, size));
}

static void try_hello(const uint8_t *data, size_t size)
{
	uint8_t out[DCF_HELLO_LEN];
	struct dc_hello_frame h;

	if (rdmamsg__dcf_hello_decode(&h, data, size))
		return;
	must(size == sizeof(out));
	must(h.place.dctn && h.place.dctn <= 0xffffff);
	memcpy(out, data, DCF_LEN);
	rdmamsg__dcf_hello_encode(&h, out);
	must(!memcmp(out, data, size));
}

static void try_welcome(const uint8_t *data, size_t size)
{
	uint8_t out[DCF_WELCOME_LEN];
	struct dc_welcome w;

	if (rdmamsg__dcf_welcome_decode(&w, data, size))
		return;
	must(size == sizeof(out));
	must(w.eager <= DCF_EAGER_MAX && w.max_msg <= PROTO_MSG_MAX);
	memcpy(out, data, DCF_LEN);
	rdmamsg__dcf_welcome_encode(&w, out);
	must(!memcmp(out, data, size));
}

static void try_rndv(const uint8_t *data, size_t size)
{
	struct proto_rndv wire;

	if (!rdmamsg__rndv_decode(&wire, data + DCF_LEN, size - DCF_LEN))
		must(wire.count && wire.count <= PROTO_KEYS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t out[DCF_LEN];
	struct dc_frame f;

	try_answer(data, size);
	if (rdmamsg__dcf_decode(&f, data, size))
		return 0;
	must(f.type && f.type <= DCF_TYPE_MAX);
	rdmamsg__dcf_encode(&f, out);
	must(!memcmp(out, data, sizeof(out)));
	try_hello(data, size);
	try_welcome(data, size);
	try_rndv(data, size);
	return 0;
}
