/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/proto.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>

#define FLAG_GID	1u

struct wire_oob {
	uint32_t magic;
	uint16_t version;
	uint16_t len;
	uint8_t kind;
	uint8_t link;
	uint8_t mtu;
	uint8_t flags;
	uint32_t qp_num;
	uint32_t psn;
	uint16_t lid;
	uint8_t resp_res;
	uint8_t init_depth;
	uint8_t gid[16];
	uint8_t token[16];
	uint16_t pkey;
	uint16_t hello;
	uint16_t hello_len;
	uint8_t roce;
	uint8_t reserved;	/* sent as zero, ignored */
};

_Static_assert(sizeof(struct wire_oob) == PROTO_OOB_LEN, "wire record");
_Static_assert(PROTO_OOB_LEN + PROTO_HELLO_MAX <= PROTO_OOB_MAX, "room");

size_t rdmamsg__oob_encode(const struct proto_oob *r,
			   uint8_t out[static PROTO_OOB_MAX])
{
	struct wire_oob w = {
		.magic = htole32(PROTO_OOB_MAGIC),
		.version = htole16(PROTO_OOB_VERSION),
		.len = htole16((uint16_t)(sizeof(w) + r->hello_len)),
		.kind = r->kind, .link = r->link, .mtu = r->mtu,
		.flags = r->has_gid ? FLAG_GID : 0,
		.qp_num = htole32(r->qp_num), .psn = htole32(r->psn),
		.lid = htole16(r->lid), .resp_res = r->resp_res,
		.init_depth = r->init_depth, .pkey = htole16(r->pkey),
		.hello = htole16(sizeof(w)),
		.hello_len = htole16(r->hello_len), .roce = r->roce,
	};

	assert(r->hello_len <= PROTO_HELLO_MAX);
	memcpy(w.gid, r->gid, sizeof(w.gid));
	memcpy(w.token, r->token, sizeof(w.token));
	memcpy(out, &w, sizeof(w));
	memcpy(out + sizeof(w), r->hello, r->hello_len);
	return sizeof(w) + r->hello_len;
}

int rdmamsg__oob_length(const void *buf, size_t len)
{
	struct wire_oob w;
	size_t own;

	if (len < offsetof(struct wire_oob, kind))
		return 0;
	memcpy(&w, buf, offsetof(struct wire_oob, kind));
	own = le16toh(w.len);
	if (le32toh(w.magic) != PROTO_OOB_MAGIC || own < sizeof(w) ||
	    own > PROTO_OOB_MAX)
		return -EPROTO;
	if (le16toh(w.version) != PROTO_OOB_VERSION)
		return -EPROTONOSUPPORT;
	return (int)own;
}

/* Returns true if the record has a queue pair, and an address to reach it. */
static bool reachable(const struct wire_oob *w)
{
	uint32_t qp_num = le32toh(w->qp_num);
	bool gid = w->flags & FLAG_GID;

	if (!qp_num || qp_num > 0xffffff || le32toh(w->psn) > 0xffffff)
		return false;
	if (w->mtu < 1 || w->mtu > 5)
		return false;
	/* a LID works in one InfiniBand subnet, a GID everywhere */
	return (w->link == PROTO_OOB_IB && (gid || w->lid)) ||
	       (w->link == PROTO_OOB_ETHERNET && gid);
}

int rdmamsg__oob_decode(struct proto_oob *r, const void *buf, size_t len)
{
	struct proto_hello unused;
	struct wire_oob w;
	size_t hello, hello_len;
	int own = rdmamsg__oob_length(buf, len);

	if (own < 0)
		return own;
	if (!own || (size_t)own != len)
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	hello = le16toh(w.hello);
	hello_len = le16toh(w.hello_len);
	if (w.kind < PROTO_OOB_OFFER || w.kind > PROTO_OOB_REJECT ||
	    hello < sizeof(w) || hello + hello_len > len ||
	    hello_len > PROTO_HELLO_MAX)
		return -EPROTO;
	if (w.kind != PROTO_OOB_REJECT && !reachable(&w))
		return -EPROTO;
	if (rdmamsg__hello_decode(&unused, (const uint8_t *)buf + hello,
				  hello_len))
		return -EPROTO;
	*r = (struct proto_oob) {
		.kind = w.kind, .link = w.link, .mtu = w.mtu,
		.has_gid = w.flags & FLAG_GID,
		.qp_num = le32toh(w.qp_num), .psn = le32toh(w.psn),
		.lid = le16toh(w.lid), .resp_res = w.resp_res,
		.init_depth = w.init_depth, .pkey = le16toh(w.pkey),
		.roce = w.roce, .hello_len = (uint8_t)hello_len,
	};
	memcpy(r->gid, w.gid, sizeof(r->gid));
	memcpy(r->token, w.token, sizeof(r->token));
	memcpy(r->hello, (const uint8_t *)buf + hello, hello_len);
	return 0;
}
