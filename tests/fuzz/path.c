/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: an accepted alternate path is in range and survives a round
 * trip.
 */
#include "wire/path.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t out[PROTO_PATH_LEN], again[PROTO_PATH_LEN];
	struct proto_path p, q;

	if (rdmamsg__path_decode(&p, data, size))
		return 0;
	must(size >= sizeof(out));
	must(p.offer && p.state < PROTO_PATH_STATES);
	must(!(p.flags & ~PROTO_PATH_SAME));
	must(!p.port == !p.lid && p.lid <= PROTO_LID_MAX);
	must(p.state == PROTO_PATH_OFFERED || (p.port && p.seen));
	rdmamsg__path_encode(&p, out);
	must(!rdmamsg__path_decode(&q, out, sizeof(out)));
	must(q.migrations == p.migrations && q.offer == p.offer &&
	     q.seen == p.seen && q.state == p.state && q.port == p.port &&
	     q.lid == p.lid && !memcmp(q.gid, p.gid, sizeof(p.gid)));
	rdmamsg__path_encode(&q, again);
	must(!memcmp(out, again, sizeof(out)));
	return 0;
}
