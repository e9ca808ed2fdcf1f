/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One way, many in flight. What is sent in callbacks goes to the device in
 * bunches, so everything is: the first ones when the server says that it is
 * ready, the others as room comes (rate) or as messages have arrived (bw).
 */
#include "perf.h"

#define COPY_MAX	65536

static int send_one(struct perf_link *l, void *cookie)
{
	const uint8_t *data = l->pattern +
			      (l->check ? perf_offset(l->sent) : 0);
	struct iovec iov = { (void *)data, l->size };

	if (l->test == PERF_RATE && l->size <= COPY_MAX)
		return rdmamsg_send(l->ep, data, l->size, l->sent, cookie);
	return rdmamsg_sendv(l->ep, &iov, 1, l->sent, cookie);
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
			return;		/* on_writable comes */
		if (ret) {
			perf_link_fail(l, ret);
			return;
		}
		l->sent++;
		l->flying += sample != NULL;
	}
}
