/* SPDX-License-Identifier: BSD-2-Clause */
/* The contents of messages, which --check verifies. */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

static uint8_t *bytes;
static size_t have;
static uint32_t state = 0x9e3779b9u;

static uint32_t next(void)
{
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

const uint8_t *perf_pattern(size_t size)
{
	size_t want = (size + PERF_OFFSETS + 3) & ~(size_t)3;
	uint8_t *more;

	if (want <= have)
		return bytes;
	/* peers may still read the old bytes, so they stay: as many in all */
	if (want < 2 * have)
		want = 2 * have;
	more = malloc(want);
	if (!more)
		return NULL;
	if (have)
		memcpy(more, bytes, have);
	bytes = more;
	for (; have < want; have += 4) {
		uint32_t word = next();

		for (int i = 0; i < 4; i++)
			bytes[have + (size_t)i] = (uint8_t)(word >> 8 * i);
	}
	return bytes;
}

bool perf_matches(const struct rdmamsg_msg *msg, uint32_t number, uint32_t size)
{
	return rdmamsg_msg_tag(msg) == perf_tag_of(number) &&
	       rdmamsg_msg_len(msg) == size &&
	       !memcmp(rdmamsg_msg_data(msg),
		       bytes + perf_offset(number), size);
}
