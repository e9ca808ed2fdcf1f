/* SPDX-License-Identifier: BSD-2-Clause */
#include "soft/verbs/stream.h"

#include <stdlib.h>

struct soft_streams *soft_streams_new(unsigned int log_errored)
{
	const size_t max = (size_t)1 << log_errored;
	struct soft_streams *s = calloc(1, sizeof(*s) +
					max * sizeof(*s->errored));

	if (s)
		s->max = (uint16_t)max;
	return s;
}

/* Returns the place of the stream, or s->count. */
static uint16_t find(const struct soft_streams *s, uint16_t stream)
{
	uint16_t i = 0;

	while (i < s->count && s->errored[i] != stream)
		i++;
	return i;
}

bool soft_stream_is_errored(const struct soft_streams *s, uint16_t stream)
{
	return find(s, stream) < s->count;
}

bool soft_stream_fail(struct soft_streams *s, uint16_t stream)
{
	if (s->count < s->max && !soft_stream_is_errored(s, stream))
		s->errored[s->count++] = stream;
	return s->count < s->max;
}

bool soft_stream_reset(struct soft_streams *s, uint16_t stream)
{
	const uint16_t i = find(s, stream);

	if (i == s->count)
		return false;
	s->errored[i] = s->errored[--s->count];
	return true;
}
