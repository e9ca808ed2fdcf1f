/* SPDX-License-Identifier: BSD-2-Clause */
#include "session/word.h"
#include "base/base.h"
#include "session/ep.h"
#include "wire/proto.h"
#include "wire/word.h"

#include <errno.h>
#include <string.h>

#include <rdmamsg/rdmamsg.h>

_Static_assert(PROTO_WORD_DATA_MAX == RDMAMSG_HELLO_DATA_MAX,
	       "the data of a reason");
_Static_assert(PROTO_WORD_DATA_MAX == PROTO_HELLO_DATA_MAX, "word_data");

int rdmamsg__word_check(const char *name, const void *data, size_t len)
{
	if (len > PROTO_WORD_DATA_MAX || (len && !data))
		return rdmamsg__fail(-EINVAL, "%s: at most %d bytes", name,
				     PROTO_WORD_DATA_MAX);
	return 0;
}

void rdmamsg__word_keep(struct rdmamsg_ep *ep, uint32_t code, const void *data,
			size_t len)
{
	ep->close.code = code;
	ep->close.word_len = (uint8_t)len;
	if (len)
		memcpy(ep->connect.word_data, data, len);
}

bool rdmamsg__word_due(const struct rdmamsg_ep *ep)
{
	return (ep->close.code || ep->close.word_len) &&
	       ep->connect.features & PROTO_FEATURE_WORD;
}

size_t rdmamsg__word_write(const struct rdmamsg_ep *ep, uint8_t *out)
{
	const struct proto_word w = {
		.code = ep->close.code, .data = ep->connect.word_data,
		.data_len = ep->close.word_len,
	};

	return rdmamsg__word_encode(&w, out);
}

bool rdmamsg__word_take(struct rdmamsg_ep *ep, const struct rdmamsg_msg *msg)
{
	struct rdmamsg_reason *r = &ep->close.reason;
	struct proto_word w;

	if (!msg->len || !(ep->connect.features & PROTO_FEATURE_WORD))
		return true;
	if (rdmamsg__word_decode(&w, msg->data, msg->len)) {
		rdmamsg__ep_protocol(ep, "a broken word of its program");
		return false;
	}
	memcpy(ep->close.reason_data, w.data, w.data_len);
	r->code = w.code;
	r->data = w.data_len ? ep->close.reason_data : NULL;
	r->data_len = w.data_len;
	ep->close.has_word = true;
	return true;
}
