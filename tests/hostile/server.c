/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile server, and a client that is also connected to a good server from
 * the same context. Usage: server [ADDRESS [CASE]]
 */
#include "misdeeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct raw raw;

static bool wait_request(void)
{
	victims_wish(&victims->wish_client, WISH_CONNECT);
	return raw_request(&raw, RAW_WAIT_MS);
}

static void accept_with(const void *data, uint8_t len)
{
	struct raw_options o = {
		.data = data, .data_len = len, .reads_served = 4,
	};

	(void)raw_accept(&raw, &o);
}

/* ---- invalid answers -------------------------------------------------- */

static void reject_with(const void *data, uint8_t len)
{
	raw_reject(&raw, data, len);
}

static void answers(const char *name, const void *data, uint8_t len,
		    void (*answer)(const void *data, uint8_t len),
		    uint32_t causes)
{
	uint32_t before = victims->ended;
	bool did;

	if (!wanted(name))
		return;
	be_patient(causes, false);
	did = wait_request();
	if (did)
		answer(data, len);
	judge(name, did, before, causes);
	raw_drop(&raw);
}

static void rejects(const char *name, const void *data, uint8_t len,
		    uint32_t causes)
{
	answers(name, data, len, reject_with, causes);
}

/* The client repeats its request until its deadline. */
static void rejects_each(const char *name, const void *data, uint8_t len)
{
	uint32_t before = victims->ended, count = 0;

	if (!wanted(name))
		return;
	for (bool more = wait_request(); more;
	     more = victims->ended == before && raw_request(&raw, 2000)) {
		reject_with(data, len);
		raw_drop(&raw);
		count++;
	}
	judge(name, count > 1, before, CAUSE(RESOURCES));
	if (count < 2)
		verdict(name, false, "the client tried %u times", count);
}

static void accepts(const char *name, const void *data, uint8_t len,
		    uint32_t causes)
{
	answers(name, data, len, accept_with, causes);
}

static void bad_answers(void)
{
	uint8_t hello[PROTO_HELLO_MAX] = { 0 }, len = raw_hello(hello);
	uint8_t bad[PROTO_HELLO_MAX];

	/* on iWARP it looks like the answer of a host without a listener */
	rejects("reject-bare", NULL, 0, CAUSE(REJECTED) | CAUSE(PROTOCOL) |
		(raw_on_iwarp ? CAUSE(REFUSED) : 0));
	memset(bad, 0xff, sizeof(bad));
	rejects("reject-garbage", bad, sizeof(bad),
		CAUSE(REJECTED) | CAUSE(PROTOCOL));
	memcpy(bad, hello, sizeof(bad));
	bad[14] = 77;
	rejects("reject-unknown-code", bad, len, CAUSE(REJECTED));
	bad[14] = PROTO_REJECT_APP;
	bad[7] = 200;
	rejects("reject-data-length-lies", bad, len,
		CAUSE(REJECTED) | CAUSE(PROTOCOL));

	memcpy(bad, hello, sizeof(bad));
	bad[14] = PROTO_REJECT_LIMIT;
	rejects("reject-limit-unknown", bad, len, CAUSE(RESOURCES));
	bad[20] = PROTO_LIMIT_ENDPOINTS;
	rejects("reject-limit", bad, len, CAUSE(RESOURCES));
	bad[20] = PROTO_LIMIT_HALF_OPEN;
	rejects_each("reject-limit-for-now", bad, len);

	accepts("accept-bare", NULL, 0, CAUSE(PROTOCOL));
	memset(bad, 0xff, sizeof(bad));
	accepts("accept-garbage", bad, sizeof(bad), CAUSE(PROTOCOL));
	memcpy(bad, hello, sizeof(bad));
	bad[4] = bad[5] = 9;
	accepts("accept-version-9", bad, len, CAUSE(VERSION));
}

static void never_answers(void)
{
	uint32_t before = victims->ended;
	bool did;

	if (!wanted("never-answers"))
		return;
	did = wait_request();
	judge("never-answers", did, before, CAUSE(TIMEOUT) |
	      CAUSE(UNREACHABLE));
	raw_drop(&raw);
}

/* The server accepts and vanishes before the client learns of it. */
static void accept_and_gone(void)
{
	uint8_t hello[PROTO_HELLO_MAX] = { 0 };
	struct raw_options o = { .data = hello, .data_len = raw_hello(hello) };
	uint32_t before = victims->ended;
	bool did;

	if (!wanted("accept-and-gone"))
		return;
	did = wait_request();
	if (did) {
		(void)raw_accept(&raw, &o);
		raw_vanish(&raw);
		raw_drop(&raw);
	}
	judge("accept-and-gone", did, before, CAUSE(ABORTED) |
	      CAUSE(TRANSPORT) | CAUSE(TIMEOUT) | CAUSE(REJECTED) |
	      CAUSE(RESOURCES));
	raw_drop(&raw);
}

/* ---- connections ------------------------------------------------------ */

static bool set_up(const struct misdeed *m)
{
	static uint8_t hello[PROTO_HELLO_MAX];
	uint32_t connected = victims->connected;
	struct raw_options o = m->how;

	o.data_len = raw_hello_saying(hello, o.features, "");
	o.data = hello;
	if (!wait_request() ||
	    raw_accept(&raw, &o) != RDMA_CM_EVENT_ESTABLISHED)
		return false;
	if (m->before_setup)
		return raw_may_send(&raw);
	if (!raw_setup(&raw))
		return false;
	for (int i = 0; i < 10000 && victims->connected == connected; i++)
		usleep(1000);
	if (m->wish)
		victims_wish(&victims->wish_client, m->wish);
	return true;
}

static void misbehave(const struct misdeed *m)
{
	uint32_t before = victims->ended;
	bool did;

	if (!wanted(m->name) || m->active_only ||
	    !misdeed_possible(m->name, misdeed_not_on_iwarp(m)))
		return;
	be_patient(misdeed_causes(m), m->timed);
	did = set_up(m) && m->fn(&raw);
	if (m->then)
		victims_wish(&victims->wish_client, m->then);
	judge(m->name, did, before, misdeed_causes(m));
	raw_drop(&raw);
}

const char victim[] = "client";

_Atomic int *victim_wish(void)
{
	return &victims->wish_client;
}

bool meet(void)
{
	uint32_t before = victims->ended;

	victims->raw_port = raw_listen(&raw, address);
	if (!wait_request())
		return false;
	reject_with(NULL, 0);
	raw_drop(&raw);
	return victims_ended(before + 1);
}

void misbehave_all(void)
{
	bad_answers();
	never_answers();
	accept_and_gone();
	for (int i = 0; misdeeds[i]; i++)
		for (const struct misdeed *m = misdeeds[i]; m->name; m++)
			misbehave(m);
	raw_close(&raw);
}
