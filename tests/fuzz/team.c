/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: an accepted record FAIL has a whole, printable text and an
 * errno, and survives a round trip, byte for byte.
 */
#include "wire/team.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t out[PROTO_TEAM_FAIL_MAX];
	struct proto_team_fail f;
	size_t len;

	if (rdmamsg__team_fail_decode(&f, data, size))
		return 0;
	must(f.error >= 1 && f.error <= 4095);
	must(memchr(f.text, 0, sizeof(f.text)) != NULL);
	for (const char *c = f.text; *c; c++)
		must(*c >= ' ' && *c <= '~');
	len = rdmamsg__team_fail_encode(&f, out);
	must(len <= size && len == PROTO_TEAM_FAIL_LEN + strlen(f.text));
	must(!memcmp(out, data, len));
	return 0;
}
