/* SPDX-License-Identifier: BSD-2-Clause */
/* Netlink messages: attributes in, attributes out. */
#include "soft/preload/nldev.h"

#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>

/* Appends len zeroed bytes, padded. Returns their offset, or 0 on failure. */
static size_t append(struct nl_answer *a, size_t len)
{
	const size_t padded = NLMSG_ALIGN(len), at = a->len;
	uint8_t *more = a->at;

	if (a->failed)
		return 0;
	if (a->room - a->len < padded) {
		const size_t room = 2 * a->room + padded;

		more = realloc(a->at, room);
		if (!more) {
			a->failed = true;
			return 0;
		}
		a->at = more;
		a->room = room;
	}
	memset(a->at + at, 0, padded);
	a->len += padded;
	return at;
}

static struct nlmsghdr *header(struct nl_answer *a)
{
	return (struct nlmsghdr *)(a->at + a->message);
}

size_t nl_length(const struct nl_answer *a)
{
	return a->len - a->message;
}

void nl_begin(struct nl_answer *a, uint16_t type, uint16_t flags)
{
	const size_t at = append(a, NLMSG_HDRLEN);

	if (a->failed)
		return;
	a->message = at;
	header(a)->nlmsg_type = type;
	header(a)->nlmsg_flags = flags;
	header(a)->nlmsg_seq = a->seq;
	header(a)->nlmsg_pid = a->portid;
}

void nl_end(struct nl_answer *a)
{
	if (nl_length(a) > NL_MESSAGE_MAX)
		a->failed = true;
	if (!a->failed)
		header(a)->nlmsg_len = (uint32_t)nl_length(a);
}

/* ---- attributes ------------------------------------------------------- */

void nl_put(struct nl_answer *a, uint16_t type, const void *data, size_t len)
{
	const size_t at = append(a, NLA_HDRLEN + len);
	struct nlattr attr = {
		.nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = type,
	};

	if (a->failed)
		return;
	memcpy(a->at + at, &attr, sizeof(attr));
	if (len)
		memcpy(a->at + at + NLA_HDRLEN, data, len);
}

void nl_put_u8(struct nl_answer *a, uint16_t type, uint8_t value)
{
	nl_put(a, type, &value, sizeof(value));
}

void nl_put_u32(struct nl_answer *a, uint16_t type, uint32_t value)
{
	nl_put(a, type, &value, sizeof(value));
}

void nl_put_u64(struct nl_answer *a, uint16_t type, uint64_t value)
{
	nl_put(a, type, &value, sizeof(value));
}

void nl_put_string(struct nl_answer *a, uint16_t type, const char *text)
{
	nl_put(a, type, text, strlen(text) + 1);
}

size_t nl_nest(struct nl_answer *a, uint16_t type)
{
	const size_t at = a->len;

	nl_put(a, type | NLA_F_NESTED, NULL, 0);
	return at;
}

void nl_nest_end(struct nl_answer *a, size_t nest)
{
	const uint16_t len = (uint16_t)(a->len - nest);

	if (!a->failed)
		memcpy(a->at + nest + offsetof(struct nlattr, nla_len), &len,
		       sizeof(len));
}

uint32_t nl_get_u32(const struct nlmsghdr *request, uint16_t type,
		    uint32_t none)
{
	const uint8_t *at = (const uint8_t *)request + NLMSG_HDRLEN;
	size_t left = request->nlmsg_len - NLMSG_HDRLEN;
	struct nlattr attr;
	uint32_t value;

	while (left >= NLA_HDRLEN) {
		memcpy(&attr, at, sizeof(attr));
		if (attr.nla_len < NLA_HDRLEN || attr.nla_len > left)
			break;
		if ((attr.nla_type & NLA_TYPE_MASK) == type &&
		    attr.nla_len >= NLA_HDRLEN + sizeof(value)) {
			memcpy(&value, at + NLA_HDRLEN, sizeof(value));
			return value;
		}
		if (NLA_ALIGN((size_t)attr.nla_len) >= left)
			break;
		at += NLA_ALIGN(attr.nla_len);
		left -= NLA_ALIGN((size_t)attr.nla_len);
	}
	return none;
}

/* ---- ends ------------------------------------------------------------- */

void nl_done(struct nl_answer *a)
{
	nl_begin(a, NLMSG_DONE, NLM_F_MULTI);
	(void)append(a, sizeof(int));
	nl_end(a);
}

void nl_error(struct nl_answer *a, const struct nlmsghdr *request, int err)
{
	struct nlmsgerr e = { .error = err, .msg = *request };
	size_t at;

	nl_begin(a, NLMSG_ERROR, 0);
	at = append(a, sizeof(e));
	if (!a->failed)
		memcpy(a->at + at, &e, sizeof(e));
	nl_end(a);
}
