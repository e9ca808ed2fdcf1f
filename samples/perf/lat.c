/* SPDX-License-Identifier: BSD-2-Clause */
/* Ping-pong: the client sends the next message when the answer has arrived. */
#include "perf.h"

static int send_one(struct perf_link *l)
{
	const uint8_t *data = l->pattern +
			      (l->check ? perf_offset(l->sent) : 0);
	struct iovec iov = { (void *)data, l->size };

	if (l->size <= l->inline_max)
		return rdmamsg_fast_send(l->ep, data, l->size,
					 perf_tag_of(l->sent));
	/* without a cookie, because the answer shows that the memory is free */
	return rdmamsg_sendv(l->ep, &iov, 1, perf_tag_of(l->sent), NULL);
}

void perf_lat(struct perf_link *l)
{
	uint64_t last, now;

	l->begin = last = perf_ticks();
	while (l->sent < l->count) {
		int ret;

		while ((ret = send_one(l)) == -EAGAIN)
			if (!perf_link_turn(l))
				return;
		if (ret)
			perf_link_fail(l, ret);
		l->sent++;
		while (l->answered < l->sent)
			if (!perf_link_turn(l))
				return;
		now = perf_ticks();
		l->samples[l->sent - 1] = now - last;
		last = now;
		if (!(l->sent % 256))
			perf_link_progress(l);
	}
	l->end = last;
}
