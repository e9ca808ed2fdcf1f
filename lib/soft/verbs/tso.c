/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests whose payload the device cuts into segments of TCP (TSO). The header
 * stays beside the send queue until then. engine/tso.c builds the frames.
 */
#include "soft/verbs/flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "soft/verbs/qp.h"

int soft_raw_init(struct soft_qp *qp, uint32_t max_header)
{
	qp->raw = calloc(1, sizeof(*qp->raw));
	if (!qp->raw)
		return ENOMEM;
	qp->raw->max_header = max_header;
	if (max_header)
		qp->raw->headers = malloc(((size_t)qp->sq_mask + 1) *
					  max_header);
	return max_header && !qp->raw->headers ? ENOMEM : 0;
}

void soft_raw_free(struct soft_raw *raw)
{
	if (raw)
		free(raw->headers);
	free(raw);
}

uint8_t *soft_tso_header(const struct soft_qp *qp, const struct soft_swqe *wqe)
{
	return qp->raw->headers + (size_t)(wqe - qp->sq) * qp->raw->max_header;
}

/* A header ends with that of TCP. */
static bool header_ok(const uint8_t *header, uint32_t size)
{
	struct soft_frame f;

	if (size < FRAME_HEADER)
		return false;
	soft_frame_parse(&f, header, size);
	return f.l4 && f.proto == FRAME_TCP &&
	       f.l4 + (f.l4[12] >> 4) * 4 == f.end;
}

int soft_tso_take(struct soft_qp *qp, struct soft_swqe *wqe, const void *header,
		  uint16_t size, uint16_t mss)
{
	if (!qp->raw || !mss || size > qp->raw->max_header ||
	    size + mss > FRAME_MAX || !header_ok(header, size))
		return EINVAL;
	memcpy(soft_tso_header(qp, wqe), header, size);
	wqe->compare_add = size;
	wqe->swap = mss;
	return 0;
}
