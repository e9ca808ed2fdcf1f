/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/path.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct wire_path {
	uint32_t migrations;
	uint32_t offer;
	uint32_t seen;
	uint8_t state;
	uint8_t flags;
	uint8_t port;
	uint8_t zero;		/* sent as zero, ignored */
	uint16_t lid;
	uint16_t zero2;
	uint8_t gid[16];
};

_Static_assert(sizeof(struct wire_path) == PROTO_PATH_LEN, "wire path");

static bool is_sane(const struct proto_path *p)
{
	if (!p->offer || p->state >= PROTO_PATH_STATES)
		return false;
	if (p->state != PROTO_PATH_OFFERED && (!p->port || !p->seen))
		return false;
	return p->port ? p->lid && p->lid <= PROTO_LID_MAX : !p->lid;
}

/* internal */

void rdmamsg__path_encode(const struct proto_path *p,
			  uint8_t out[static PROTO_PATH_LEN])
{
	struct wire_path w = {
		.migrations = htole32(p->migrations),
		.offer = htole32(p->offer), .seen = htole32(p->seen),
		.state = p->state, .flags = p->flags, .port = p->port,
		.lid = htole16(p->lid),
	};

	assert(is_sane(p));
	memcpy(w.gid, p->gid, sizeof(w.gid));
	memcpy(out, &w, sizeof(w));
}

int rdmamsg__path_decode(struct proto_path *p, const void *buf, size_t len)
{
	struct wire_path w;
	struct proto_path d;

	if (len < sizeof(w))
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	d = (struct proto_path) {
		.migrations = le32toh(w.migrations),
		.offer = le32toh(w.offer), .seen = le32toh(w.seen),
		.state = w.state, .flags = w.flags & PROTO_PATH_SAME,
		.port = w.port, .lid = le16toh(w.lid),
	};
	if (!is_sane(&d))
		return -EPROTO;
	memcpy(d.gid, w.gid, sizeof(d.gid));
	*p = d;
	return 0;
}
