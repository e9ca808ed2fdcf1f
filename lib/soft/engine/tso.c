/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each segment has the header of the request with its own length, identification
 * and sequence number. FIN and PSH are of the last segment, CWR is of the first
 * (RFC 3168). Checksums are written if the request asks for them, as in other
 * requests.
 */
#include "soft/engine/tso.h"

#include <string.h>

#include "base/util.h"
#include "soft/verbs/access.h"
#include "soft/verbs/flow.h"
#include "soft/verbs/qp.h"

#define FIN	0x01
#define PSH	0x08
#define CWR	0x80

uint32_t soft_tso_count(const struct soft_swqe *wqe)
{
	uint32_t mss = (uint32_t)wqe->swap;

	return (wqe->length + mss - 1) / mss;
}

static void fix_ip(uint8_t *ip, uint32_t len, uint32_t i)
{
	if (ip[0] >> 4 == 6) {
		frame_put16(ip + 4, len - 40);
		return;
	}
	frame_put16(ip + 2, len);
	frame_put16(ip + 4, frame_be16(ip + 4) + i);
}

static void fix_tcp(uint8_t *tcp, uint32_t offset, bool first, bool last)
{
	uint32_t seq = (uint32_t)frame_be16(tcp + 4) << 16 |
		       frame_be16(tcp + 6);

	seq += offset;
	frame_put16(tcp + 4, seq >> 16);
	frame_put16(tcp + 6, seq);
	if (!last)
		tcp[13] &= (uint8_t)~(FIN | PSH);
	if (!first)
		tcp[13] &= (uint8_t)~CWR;
}

uint32_t soft_tso_build(struct soft_qp *qp, const struct soft_swqe *wqe,
			uint32_t i, uint8_t frame[FRAME_MAX])
{
	uint32_t size = (uint32_t)wqe->compare_add, mss = (uint32_t)wqe->swap;
	uint32_t offset = i * mss, len = min(mss, wqe->length - offset);
	struct soft_frame f;

	memcpy(frame, soft_tso_header(qp, wqe), size);
	if (wqe->inlined)
		memcpy(frame + size, wqe->data + offset, len);
	else if (soft_gather(qp, wqe->sge, wqe->num_sge, offset, frame + size,
			     len))
		return 0;
	/* of the header alone, whose length fields are not right yet */
	soft_frame_parse(&f, frame, size);
	fix_ip(frame + (f.l3 - f.at), (uint32_t)(f.end - f.l3) + len, i);
	fix_tcp(frame + (f.l4 - f.at), offset, !i,
		offset + len == wqe->length);
	return size + len;
}
