/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/word.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

struct wire_word {
	uint32_t code;
	uint8_t data_len;
	uint8_t zero[3];	/* sent as zero, ignored */
};

_Static_assert(sizeof(struct wire_word) == PROTO_WORD_LEN, "wire word");

/* internal */

size_t rdmamsg__word_encode(const struct proto_word *w,
			    uint8_t out[static PROTO_WORD_MAX])
{
	const struct wire_word head = {
		.code = htole32(w->code), .data_len = w->data_len,
	};

	assert(w->data_len <= PROTO_WORD_DATA_MAX);
	memcpy(out, &head, sizeof(head));
	if (w->data_len)
		memcpy(out + sizeof(head), w->data, w->data_len);
	return sizeof(head) + w->data_len;
}

int rdmamsg__word_decode(struct proto_word *w, const void *buf, size_t len)
{
	struct wire_word head;

	if (len < sizeof(head))
		return -EPROTO;
	memcpy(&head, buf, sizeof(head));
	if (head.data_len > PROTO_WORD_DATA_MAX ||
	    head.data_len > len - sizeof(head))
		return -EPROTO;
	*w = (struct proto_word) {
		.code = le32toh(head.code), .data_len = head.data_len,
		.data = (const uint8_t *)buf + sizeof(head),
	};
	return 0;
}
