/* SPDX-License-Identifier: BSD-2-Clause */
/* Description: an accepted word is in its input and survives a round trip. */
#include "wire/word.h"

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
	uint8_t out[PROTO_WORD_MAX];
	struct proto_word w, again;
	size_t len;

	if (rdmamsg__word_decode(&w, data, size))
		return 0;
	must(w.data_len <= PROTO_WORD_DATA_MAX);
	must(w.data == data + PROTO_WORD_LEN);
	must(w.data_len <= size - PROTO_WORD_LEN);
	len = rdmamsg__word_encode(&w, out);
	must(len == PROTO_WORD_LEN + (size_t)w.data_len && len <= size);
	must(!rdmamsg__word_decode(&again, out, len));
	must(again.code == w.code && again.data_len == w.data_len);
	must(!memcmp(again.data, w.data, w.data_len));
	return 0;
}
