/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes of messages and slots. Each write has a version, so that a byte of a
 * slot tells which write has written it.
 */
#include "netsim.h"

#include <string.h>

#define STEP	7u		/* from one byte to the next */
#define UNSTEP	183u		/* 7 * 183 = 1 modulo 256 */
#define SLOT	61u

static uint8_t bytes[256 + LENGTH_MAX];

void bytes_init(void)
{
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(STEP * i);
}

static const uint8_t *pattern(uint8_t from)
{
	return bytes + (uint8_t)(UNSTEP * from);
}

const uint8_t *bytes_of_slot(uint32_t slot, uint32_t offset, uint8_t version)
{
	return pattern((uint8_t)(version + SLOT * slot + STEP * offset));
}

const uint8_t *bytes_of_message(uint32_t id)
{
	return pattern((uint8_t)(100 + 5 * id));
}

static uint8_t version_of(uint8_t byte, uint32_t slot, uint32_t offset)
{
	return (uint8_t)(byte - SLOT * slot - STEP * offset);
}

static bool is_written_by(const struct end *e, uint8_t version, uint32_t slot,
			  uint32_t offset)
{
	const struct request *r = &e->request[e->writer[version]];

	return r->slot == slot && offset >= r->offset &&
	       offset - r->offset < r->len;
}

void bytes_check(const struct end *e, const char *what, uint32_t id,
		 const uint8_t *p, const uint8_t *least, uint8_t most,
		 uint32_t slot, uint32_t offset, uint32_t len)
{
	if (!memcmp(p, least, len))
		return;
	for (uint32_t i = 0; i < len; i++) {
		const uint8_t is = version_of(p[i], slot, offset + i);
		const uint8_t was = version_of(least[i], slot, offset + i);

		if (is != was && (is < was || is > most ||
				  !is_written_by(e, is, slot, offset + i)))
			sim_fail("end %d, %s %u: byte %u of slot %u has "
				 "version %u, not %u to %u", e->index, what,
				 id, offset + i, slot, is, was, most);
	}
}
