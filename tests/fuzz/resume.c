/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: the parts of a RESUME, and the item of SETUP, survive a round
 * trip if they are accepted, and no entry is longer than the input.
 */
#include "wire/proto.h"
#include "wire/resume.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
	if (!ok)
		abort();
}

static void entries(const uint8_t *data, size_t size, uint32_t count)
{
	while (count--) {
		uint8_t out[PROTO_RESUME_ENTRY_LEN + PROTO_RNDV_MAX];
		struct proto_rndv r, s;
		uint32_t number, same;
		int n = rdmamsg__resume_entry_decode(&number, &r, data, size);

		if (n < 0)
			return;
		must(n > 0 && (size_t)n <= size);
		n = (int)rdmamsg__resume_entry_encode(number, &r, out);
		must((size_t)n <= sizeof(out));
		must(rdmamsg__resume_entry_decode(&same, &s, out,
						  (size_t)n) == n);
		must(same == number && s.total == r.total &&
		     s.count == r.count);
		n = rdmamsg__resume_entry_decode(&number, &r, data, size);
		data += n;
		size -= (size_t)n;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t item[PROTO_RESUMABLE_LEN], head[PROTO_RESUME_LEN];
	struct proto_resumable a, b;
	struct proto_resume h, again;

	if (!rdmamsg__resumable_decode(&a, data, size)) {
		must(a.window && a.window <= PROTO_WINDOW_MAX);
		rdmamsg__resumable_encode(&a, item);
		must(!rdmamsg__resumable_decode(&b, item, sizeof(item)));
		must(b.window == a.window &&
		     !memcmp(b.nonce, a.nonce, sizeof(a.nonce)));
	}
	if (rdmamsg__resume_decode(&h, data, size))
		return 0;
	rdmamsg__resume_encode(&h, head);
	must(!rdmamsg__resume_decode(&again, head, sizeof(head)));
	must(again.next == h.next && again.more == h.more &&
	     again.count == h.count && again.keys == h.keys);
	entries(data + sizeof(head), size - sizeof(head), h.count);
	return 0;
}
