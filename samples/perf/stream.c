/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages in one direction, many in flight. All sends happen in callbacks,
 * because the library posts those in batches: the first when the server is
 * ready, others when there is room (rate) or when messages arrive (bw).
 */
#include "perf.h"

#define COPY_MAX	8192	/* larger: in place, as by lat and bw */

static int send_one(struct perf_link *l, void *cookie)
{
	const uint8_t *data = l->pattern +
			      (l->check ? perf_offset(l->sent) : 0);
	struct iovec iov = { (void *)data, l->size };

	if (l->test == PERF_RATE && l->size <= COPY_MAX)
		return rdmamsg_send(l->ep, data, l->size, perf_tag_of(l->sent),
				    cookie);
	return rdmamsg_sendv(l->ep, &iov, 1, perf_tag_of(l->sent), cookie);
}

void perf_stream(struct perf_link *l)
{
	while (l->sent < l->count && !l->error &&
	       (l->test == PERF_RATE || l->flying < l->window)) {
		uint64_t *sample = NULL;
		int ret;

		if (!(l->sent % l->every)) {
			sample = &l->samples[l->sent / l->every];
			*sample = perf_ticks();
		}
		ret = send_one(l, sample);
		if (ret == -EAGAIN)
			return;		/* on_writable follows */
		if (ret) {
			perf_link_fail(l, ret);
			return;
		}
		l->sent++;
		l->flying += sample != NULL;
	}
}
