/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/dc_frame.h"

#include "wire/proto.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DCTN_MAX	0xffffffu
#define MTU_MIN		1
#define MTU_MAX		5

struct wire_frame {
	uint8_t type, version;
	uint16_t zero;
	uint32_t handle, number, tag;
	uint64_t token;
};

struct wire_place {
	uint32_t dctn;
	uint16_t lid;
	uint8_t mtu, link;
	uint8_t gid[16];
};

struct wire_hello {
	uint64_t sender, key, token;
	uint32_t handle, zero;
	struct wire_place place;
};

struct wire_welcome {
	uint64_t token;
	uint32_t handle, eager, max_msg, zero;
};

struct wire_answer {
	uint16_t magic, lid;
	uint32_t dct;
	uint64_t ticket;
	uint8_t gid[16];
};

_Static_assert(sizeof(struct wire_frame) == DCF_LEN, "header");
_Static_assert(DCF_LEN + sizeof(struct wire_hello) == DCF_HELLO_LEN, "HELLO");
_Static_assert(DCF_LEN + sizeof(struct wire_welcome) == DCF_WELCOME_LEN,
	       "WELCOME");
_Static_assert(sizeof(struct wire_answer) == DCA_LEN, "answer");
_Static_assert(DCA_LEN <= PROTO_HELLO_DATA_MAX, "fits into a reject");

/* ---- frames ------------------------------------------------------------ */

void rdmamsg__dcf_encode(const struct dc_frame *f, void *out)
{
	const struct wire_frame w = {
		.type = f->type, .version = DCF_VERSION,
		.handle = htole32(f->handle), .number = htole32(f->number),
		.tag = htole32(f->tag), .token = htole64(f->token),
	};

	memcpy(out, &w, sizeof(w));
}

int rdmamsg__dcf_decode(struct dc_frame *f, const void *buf, size_t len)
{
	struct wire_frame w;

	/* frames of version 1 were shorter */
	if (len > offsetof(struct wire_frame, version) &&
	    ((const uint8_t *)buf)[1] != DCF_VERSION)
		return -EPROTONOSUPPORT;
	if (len < sizeof(w))
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	if (!w.type || w.type > DCF_TYPE_MAX || w.zero)
		return -EPROTO;
	*f = (struct dc_frame){
		.type = w.type, .handle = le32toh(w.handle),
		.number = le32toh(w.number), .tag = le32toh(w.tag),
		.token = le64toh(w.token),
	};
	return 0;
}

/* ---- places ------------------------------------------------------------ */

static struct wire_place to_wire(const struct dc_place *p)
{
	struct wire_place w = {
		.dctn = htole32(p->dctn), .lid = htole16(p->lid),
		.mtu = p->mtu, .link = p->link,
	};

	memcpy(w.gid, p->gid, sizeof(w.gid));
	return w;
}

static int from_wire(struct dc_place *p, const struct wire_place *w)
{
	*p = (struct dc_place){
		.dctn = le32toh(w->dctn), .lid = le16toh(w->lid),
		.mtu = w->mtu, .link = w->link,
	};
	memcpy(p->gid, w->gid, sizeof(p->gid));
	if (!p->dctn || p->dctn > DCTN_MAX || p->mtu < MTU_MIN ||
	    p->mtu > MTU_MAX || (p->link != PROTO_OOB_IB &&
				 p->link != PROTO_OOB_ETHERNET))
		return -EPROTO;
	return 0;
}

void rdmamsg__dca_encode(const struct dc_answer *a, uint8_t out[static DCA_LEN])
{
	const struct dc_place *p = &a->place;
	struct wire_answer w = {
		.magic = htole16(DCA_MAGIC), .lid = htole16(p->lid),
		.dct = htole32(p->dctn | (uint32_t)p->mtu << 24 |
			       (uint32_t)p->link << 28),
		.ticket = htole64(a->ticket),
	};

	memcpy(w.gid, p->gid, sizeof(w.gid));
	memcpy(out, &w, sizeof(w));
}

int rdmamsg__dca_decode(struct dc_answer *a, const void *buf, size_t len)
{
	struct wire_place place;
	struct wire_answer w;

	if (len != sizeof(w))
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	if (le16toh(w.magic) != DCA_MAGIC)
		return -EPROTO;
	w.dct = le32toh(w.dct);
	place = (struct wire_place){
		.dctn = htole32(w.dct & DCTN_MAX), .lid = w.lid,
		.mtu = w.dct >> 24 & 15, .link = (uint8_t)(w.dct >> 28),
	};
	memcpy(place.gid, w.gid, sizeof(place.gid));
	a->ticket = le64toh(w.ticket);
	return from_wire(&a->place, &place);
}

/* ---- the beginning of a session ---------------------------------------- */

void rdmamsg__dcf_hello_encode(const struct dc_hello_frame *h, uint8_t *frame)
{
	const struct wire_hello w = {
		.sender = htole64(h->sender), .key = htole64(h->key),
		.token = htole64(h->token), .handle = htole32(h->handle),
		.place = to_wire(&h->place),
	};

	memcpy(frame + DCF_LEN, &w, sizeof(w));
}

int rdmamsg__dcf_hello_decode(struct dc_hello_frame *h, const uint8_t *frame,
			      size_t len)
{
	struct wire_hello w;

	if (len != DCF_HELLO_LEN)
		return -EPROTO;
	memcpy(&w, frame + DCF_LEN, sizeof(w));
	if (w.zero)
		return -EPROTO;
	h->sender = le64toh(w.sender);
	h->key = le64toh(w.key);
	h->token = le64toh(w.token);
	h->handle = le32toh(w.handle);
	return from_wire(&h->place, &w.place);
}

void rdmamsg__dcf_welcome_encode(const struct dc_welcome *p, uint8_t *frame)
{
	const struct wire_welcome w = {
		.token = htole64(p->token), .handle = htole32(p->handle),
		.eager = htole32(p->eager), .max_msg = htole32(p->max_msg),
	};

	memcpy(frame + DCF_LEN, &w, sizeof(w));
}

int rdmamsg__dcf_welcome_decode(struct dc_welcome *p, const uint8_t *frame,
				size_t len)
{
	struct wire_welcome w;

	if (len != DCF_WELCOME_LEN)
		return -EPROTO;
	memcpy(&w, frame + DCF_LEN, sizeof(w));
	p->token = le64toh(w.token);
	p->handle = le32toh(w.handle);
	p->eager = le32toh(w.eager);
	p->max_msg = le32toh(w.max_msg);
	if (w.zero || p->eager > DCF_EAGER_MAX ||
	    p->max_msg > PROTO_MSG_MAX)
		return -EPROTO;
	return 0;
}
