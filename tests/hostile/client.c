/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile client against a server that has an innocent client as well.
 * Usage: client [ADDRESS [CASE]]
 */
#include "misdeeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct raw raw;

/* ---- requests that are none ------------------------------------------- */

/* The answer is a reject with this code, and no endpoint was made. */
static void refused(const char *name, const void *data, uint8_t len,
		    enum proto_reject code)
{
	struct raw_options o = { .data = data, .data_len = len };
	uint32_t before = victims->ended;
	struct proto_hello h = { 0 };
	int type;

	if (!wanted(name))
		return;
	type = raw_connect(&raw, address, (uint16_t)victims->port, &o);
	(void)rdmamsg__hello_decode(&h, raw.event_data, raw.event_data_len);
	if (type != RDMA_CM_EVENT_REJECTED)
		verdict(name, false, "CM event %d, not a reject", type);
	else if (h.reject != code)
		verdict(name, false, "rejected with %u, not %u", h.reject,
			code);
	else if (victims->ended != before || !victims_innocent_goes_on())
		verdict(name, false, "others: %s", victims->harm);
	else
		verdict(name, true, " ");
	raw_close(&raw);
}

static void refused_hellos(void)
{
	uint8_t hello[PROTO_HELLO_MAX] = { 0 }, len = raw_hello(hello);
	uint8_t bad[PROTO_HELLO_MAX];

	refused("hello-none", NULL, 0, PROTO_REJECT_PROTOCOL);
	memset(bad, 0xff, sizeof(bad));
	refused("hello-garbage", bad, sizeof(bad), PROTO_REJECT_PROTOCOL);
	/* the CM pads it with zeros: cut where that is wrong */
	refused("hello-cut", hello, 6, PROTO_REJECT_PROTOCOL);
	memcpy(bad, hello, sizeof(bad));
	bad[0] ^= 1;
	refused("hello-magic", bad, len, PROTO_REJECT_PROTOCOL);
	memcpy(bad, hello, sizeof(bad));
	bad[6] = 23;
	refused("hello-length-lies", bad, len, PROTO_REJECT_PROTOCOL);
	memcpy(bad, hello, sizeof(bad));
	bad[7] = 200;
	refused("hello-data-length-lies", bad, len, PROTO_REJECT_PROTOCOL);
	memcpy(bad, hello, sizeof(bad));
	bad[4] = bad[5] = 9;
	refused("hello-version-9", bad, len, PROTO_REJECT_VERSION);
	memcpy(bad, hello, sizeof(bad));
	bad[4] = 1;
	bad[5] = 0;
	refused("hello-version-none", bad, len, PROTO_REJECT_VERSION);
}

/* ---- connections ------------------------------------------------------ */

static bool connect_raw(struct raw_options o)
{
	static uint8_t hello[PROTO_HELLO_MAX];

	o.data_len = raw_hello(hello);
	o.data = hello;
	return raw_connect(&raw, address, (uint16_t)victims->port, &o) ==
	       (o.no_establish ? RDMA_CM_EVENT_CONNECT_RESPONSE :
		RDMA_CM_EVENT_ESTABLISHED);
}

static void misbehave(const struct misdeed *m)
{
	uint32_t before = victims->ended;
	bool did;

	if (!wanted(m->name) || m->passive_only)
		return;
	did = connect_raw(m->how) && (m->before_setup || raw_setup(&raw)) &&
	      m->fn(&raw);
	judge(m->name, did, before, misdeed_causes(m));
	raw_close(&raw);
}

/* The answer to the request is left unanswered. */
static void not_established(void)
{
	uint32_t before = victims->ended;
	bool did;

	if (!wanted("never-established"))
		return;
	did = connect_raw((struct raw_options){ .no_establish = true });
	judge("never-established", did, before, CAUSE(TIMEOUT) |
	      CAUSE(UNREACHABLE) | CAUSE(REJECTED));
	raw_close(&raw);
}

/* Many that connect and say nothing. */
static void crowd(void)
{
	static struct raw many[30];
	uint32_t before = victims->ended;
	bool did = true;

	if (!wanted("crowd"))
		return;
	for (int i = 0; i < 30; i++) {
		did &= connect_raw((struct raw_options){ .reads_served = 4 });
		many[i] = raw;
		memset(&raw, 0, sizeof(raw));
	}
	if (!did)
		verdict("crowd", false, "not connected");
	else if (!victims_ended(before + 30))
		verdict("crowd", false, "%u of 30 ended; %s",
			victims->ended - before, victims->harm);
	else
		verdict("crowd", victims_innocent_goes_on(), "%s",
			victims->harm);
	for (int i = 0; i < 30; i++)
		raw_close(&many[i]);
}

const char victim[] = "server";

_Atomic int *victim_wish(void)
{
	return &victims->wish_server;
}

bool meet(void)
{
	uint32_t before = victims->ended;
	bool met = connect_raw((struct raw_options){ .reads_served = 4 });

	raw_close(&raw);
	return met && victims_ended(before + 1);
}

void misbehave_all(void)
{
	refused_hellos();
	not_established();
	for (int i = 0; misdeeds[i]; i++)
		for (const struct misdeed *m = misdeeds[i]; m->name; m++)
			misbehave(m);
	crowd();
}
