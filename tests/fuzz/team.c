/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Description: an accepted record FAIL has a whole, printable text and an
 * errno, and survives a round trip, byte for byte. So do a MEET, whose numbers
 * have 24 bits, and what members tell each other when they connect.
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

static void meet(const uint8_t *data, size_t size)
{
	uint8_t out[PROTO_TEAM_MEET_LEN];
	struct proto_team_meet m;

	if (rdmamsg__team_meet_decode(&m, data, size))
		return;
	must(size >= sizeof(out) && m.qp_num < 1u << 24 && m.psn < 1u << 24 &&
	     m.recv_qp_num < 1u << 24);
	rdmamsg__team_meet_encode(&m, out);
	must(!memcmp(out, data, sizeof(out)));
}

static void hello(const uint8_t *data, size_t size)
{
	uint8_t out[PROTO_TEAM_HELLO_LEN];
	struct proto_team_hello h;

	if (rdmamsg__team_hello_decode(&h, data, size))
		return;
	must(size == sizeof(out));
	rdmamsg__team_hello_encode(&h, out);
	must(!memcmp(out, data, sizeof(out)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t out[PROTO_TEAM_FAIL_MAX];
	struct proto_team_fail f;
	size_t len;

	meet(data, size);
	hello(data, size);
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
