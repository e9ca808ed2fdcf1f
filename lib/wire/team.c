/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/team.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <rdmamsg/rdmamsg.h>

#define NUMBER_MAX	0xffffffu	/* of queue pairs and packets */

struct wire_fail {
	uint32_t rank;
	uint32_t error;
	uint8_t who;
	uint8_t cause;
	uint16_t text_len;
};

struct wire_meet {
	uint32_t can, qp_num, psn, recv_qp_num;
};

struct wire_hello {
	char magic[4];
	uint32_t size, rank;
};

_Static_assert(sizeof(struct wire_hello) == PROTO_TEAM_HELLO_LEN, "wire HELLO");
_Static_assert(sizeof(struct wire_meet) == PROTO_TEAM_MEET_LEN, "wire MEET");
_Static_assert(sizeof(struct wire_fail) == PROTO_TEAM_FAIL_LEN, "wire FAIL");

static bool is_printable(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return true;
}

/* internal */

size_t rdmamsg__team_fail_encode(const struct proto_team_fail *f,
				 uint8_t out[static PROTO_TEAM_FAIL_MAX])
{
	size_t len = strnlen(f->text, sizeof(f->text) - 1);
	struct wire_fail w = {
		.rank = htole32(f->rank), .error = htole32(f->error),
		.who = f->who, .cause = f->cause,
		.text_len = htole16((uint16_t)len),
	};

	memcpy(out, &w, sizeof(w));
	for (size_t i = 0; i < len; i++)
		out[sizeof(w) + i] = is_printable(&f->text[i], 1) ?
				     (uint8_t)f->text[i] : '?';
	return sizeof(w) + len;
}

int rdmamsg__team_fail_decode(struct proto_team_fail *f, const void *buf,
			      size_t len)
{
	const char *text = (const char *)buf + PROTO_TEAM_FAIL_LEN;
	struct wire_fail w;
	size_t text_len;

	if (len < sizeof(w))
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	text_len = le16toh(w.text_len);
	if (text_len > len - sizeof(w) || text_len >= sizeof(f->text) ||
	    !is_printable(text, text_len) || !w.error ||
	    le32toh(w.error) > 4095 || w.who > RDMAMSG_WHO_DEVICE ||
	    w.cause > RDMAMSG_CAUSE_CRC)
		return -EPROTO;
	*f = (struct proto_team_fail){
		.rank = le32toh(w.rank), .error = le32toh(w.error),
		.who = w.who, .cause = w.cause,
	};
	memcpy(f->text, text, text_len);
	return 0;
}

void rdmamsg__team_meet_encode(const struct proto_team_meet *m,
			       uint8_t out[static PROTO_TEAM_MEET_LEN])
{
	const struct wire_meet w = {
		.can = htole32(m->can), .qp_num = htole32(m->qp_num),
		.psn = htole32(m->psn), .recv_qp_num = htole32(m->recv_qp_num),
	};

	memcpy(out, &w, sizeof(w));
}

int rdmamsg__team_meet_decode(struct proto_team_meet *m, const void *buf,
			      size_t len)
{
	struct wire_meet w;

	if (len < sizeof(w))
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	if (le32toh(w.can) > 1 || le32toh(w.qp_num) > NUMBER_MAX ||
	    le32toh(w.psn) > NUMBER_MAX ||
	    le32toh(w.recv_qp_num) > NUMBER_MAX)
		return -EPROTO;
	*m = (struct proto_team_meet){
		.can = le32toh(w.can), .qp_num = le32toh(w.qp_num),
		.psn = le32toh(w.psn), .recv_qp_num = le32toh(w.recv_qp_num),
	};
	return 0;
}

void rdmamsg__team_hello_encode(const struct proto_team_hello *h,
				uint8_t out[static PROTO_TEAM_HELLO_LEN])
{
	const struct wire_hello w = {
		.magic = { 'T', 'E', 'A', 'M' }, .size = htole32(h->size),
		.rank = htole32(h->rank),
	};

	memcpy(out, &w, sizeof(w));
}

int rdmamsg__team_hello_decode(struct proto_team_hello *h, const void *buf,
			       size_t len)
{
	struct wire_hello w;

	if (len != sizeof(w))
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	if (memcmp(w.magic, "TEAM", sizeof(w.magic)) != 0)
		return -EPROTO;
	h->size = le32toh(w.size);
	h->rank = le32toh(w.rank);
	return h->rank < h->size ? 0 : -EPROTO;
}
