/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: an accepted out-of-band record is in range and survives a round
 * trip. The decoder refuses shorter and longer input.
 */
#include "wire/proto.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
	if (!ok)
		abort();
}

static void check_range(const struct proto_oob *r)
{
	must(r->kind >= PROTO_OOB_OFFER && r->kind <= PROTO_OOB_REJECT);
	must(r->hello_len >= PROTO_HELLO_LEN &&
	     r->hello_len <= PROTO_HELLO_MAX);
	if (r->kind == PROTO_OOB_REJECT)
		return;
	must(r->qp_num && r->qp_num <= 0xffffff && r->psn <= 0xffffff);
	must(r->mtu >= 1 && r->mtu <= 5);
	must(r->link == PROTO_OOB_ETHERNET ? r->has_gid :
	     r->link == PROTO_OOB_IB && (r->lid || r->has_gid));
}

static void check_round_trip(const struct proto_oob *r)
{
	uint8_t out[PROTO_OOB_MAX], again[PROTO_OOB_MAX];
	size_t len = rdmamsg__oob_encode(r, out);
	struct proto_oob got;

	must(len == (size_t)PROTO_OOB_LEN + r->hello_len);
	must(rdmamsg__oob_length(out, len) == (int)len);
	must(!rdmamsg__oob_decode(&got, out, len));
	must(rdmamsg__oob_encode(&got, again) == len);
	must(!memcmp(out, again, len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int len = rdmamsg__oob_length(data, size);
	struct proto_oob r;
	uint8_t *more;

	must(len <= PROTO_OOB_MAX && (len <= 0 || len >= PROTO_OOB_LEN));
	if (rdmamsg__oob_decode(&r, data, size))
		return 0;
	must((size_t)len == size);
	check_range(&r);
	check_round_trip(&r);
	must(rdmamsg__oob_decode(&r, data, size - 1));
	more = calloc(1, size + 1);
	must(more != NULL);
	memcpy(more, data, size);
	must(rdmamsg__oob_decode(&r, more, size + 1));
	free(more);
	return 0;
}
