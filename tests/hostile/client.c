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

#define SRQ_SMALL	256

static struct raw raw;

/* ---- invalid requests ------------------------------------------------- */

/* Expects a reject with this code, and no endpoint at the server. */
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
	/* the CM pads private data with zeros, so cut where zeros are wrong */
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
	bad[4] = bad[5] = 1;
	refused("hello-version-1", bad, len, PROTO_REJECT_VERSION);
	memcpy(bad, hello, sizeof(bad));
	bad[4] = 1;
	bad[5] = 0;
	refused("hello-version-none", bad, len, PROTO_REJECT_VERSION);
}

/* ---- connections ------------------------------------------------------ */

static bool connect_saying(struct raw_options o, const char *text)
{
	static uint8_t hello[PROTO_HELLO_MAX];

	o.data_len = raw_hello_saying(hello, o.features, text);
	o.data = hello;
	return raw_connect(&raw, address, (uint16_t)victims->port, &o) ==
	       (o.no_establish ? RDMA_CM_EVENT_CONNECT_RESPONSE :
		RDMA_CM_EVENT_ESTABLISHED);
}

static bool connect_raw(struct raw_options o)
{
	return connect_saying(o, "");
}

static void misbehave(const struct misdeed *m)
{
	uint32_t before = victims->ended;
	bool did;

	if (!wanted(m->name) || m->passive_only ||
	    !misdeed_possible(m->name, misdeed_not_on_iwarp(m)))
		return;
	be_patient(misdeed_causes(m), m->timed);
	did = connect_saying(m->how, m->says ? m->says : "") &&
	      (m->before_setup || raw_setup(&raw)) &&
	      m->fn(&raw);
	judge(m->name, did, before, misdeed_causes(m));
	raw_close(&raw);
}

/* The client does not answer the server's reply to its request. */
static void not_established(void)
{
	uint32_t before = victims->ended;
	bool did;

	if (!wanted("never-established") ||
	    !misdeed_possible("never-established",
			      "iWARP has no message that establishes"))
		return;
	did = connect_raw((struct raw_options){ .no_establish = true });
	judge("never-established", did, before, CAUSE(TIMEOUT) |
	      CAUSE(UNREACHABLE) | CAUSE(REJECTED));
	raw_close(&raw);
}

static bool connect_well(const char *text)
{
	return connect_saying((struct raw_options){ .reads_served = 4 },
			      text) && raw_setup(&raw);
}

/*
 * The victim announces a large message on the first connection. The second
 * connection, the stranger's, reads with the rkey of that announcement. For an
 * unguarded message the stranger tries the memory's address, because the
 * registered address is unknown. For a guarded message the stranger knows both.
 */
static void stranger(const char *name, const char *text)
{
	uint32_t before = victims->ended;
	struct proto_hdr hdr;
	struct proto_key key;
	struct raw owner;
	int first = -1, second = -1;
	bool did;

	if (!wanted(name))
		return;
	did = connect_well(text) && large_from_victim(&raw, &hdr, &key);
	owner = raw;
	memset(&raw, 0, sizeof(raw));
	did &= connect_well(text);
	if (did)
		second = raw_rdma(&raw, IBV_WR_RDMA_READ, *text ? key.addr :
				  victims->large, key.rkey, 1000);
	if (second == IBV_WC_REM_ACCESS_ERR)
		judge(name, did, before, CAUSE(ACCESS));
	/* the key must have been valid all the time */
	if (did)
		first = raw_rdma(&owner, IBV_WR_RDMA_READ, key.addr, key.rkey,
				 1000);
	if (second != IBV_WC_REM_ACCESS_ERR || first != IBV_WC_SUCCESS)
		verdict(name, false, "status %d, and of its owner %d", second,
			first);
	raw_close(&raw);
	raw_close(&owner);
	if (!victims_ended(before + 2))
		verdict(name, false, "%u of 2 ended", victims->ended - before);
}

/* Many clients connect and send nothing. */
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

/*
 * The connections fill the server's shared receive queue. All of them send at
 * once as much as they may, data and control. Each message must find a receive.
 */
static void all_promised(void)
{
	static struct raw many[60];
	uint32_t before = victims->ended, n = 0;
	bool did = true;

	for (; n < 60 && connect_raw((struct raw_options){ .reads_served = 4 });
	     n++) {
		did &= raw_setup(&raw);
		many[n] = raw;
		memset(&raw, 0, sizeof(raw));
	}
	raw_close(&raw);
	victims->busy = victims->release = false;
	did &= n && do_data(&many[0], many[0].number++, BUSY_TAG, 0) &&
	       victims_busy();
	for (uint32_t i = 0; i < n; i++) {
		struct raw *r = &many[i];

		did &= !raw_burst(r, PROTO_DATA,
				  r->peer.recv_depth - r->number) &&
		       !raw_burst(r, PROTO_CREDIT, 2) &&
		       !raw_burst(r, PROTO_PING, 1) &&
		       !raw_burst(r, PROTO_PONG, 1) &&
		       !raw_burst(r, PROTO_CLOSE, 1);
	}
	for (uint32_t i = 0; i < n; i++)
		did &= raw_settled(&many[i], RAW_WAIT_MS);
	victims->release = true;
	victims_wish(&victims->wish_server, WISH_STATS);
	verdict("all-promised", did && victims->srq.refused &&
		!victims->srq.ran_empty && victims_innocent_goes_on(),
		"%u connections, %llu refused, the queue has run empty %llu "
		"times, sent %d; %s", n,
		(unsigned long long)victims->srq.refused,
		(unsigned long long)victims->srq.ran_empty, did, victims->harm);
	for (uint32_t i = 0; i < n; i++)
		raw_close(&many[i]);
	(void)victims_ended(before + n);
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
	/* a small shared receive queue has room for few other connections */
	if (victims_srq_depth() && victims_srq_depth() < SRQ_SMALL) {
		all_promised();
		return;
	}
	refused_hellos();
	not_established();
	for (int i = 0; misdeeds[i]; i++)
		for (const struct misdeed *m = misdeeds[i]; m->name; m++)
			misbehave(m);
	if (misdeed_possible("stranger-knows-rkey", "iWARP registers memory at "
			     "its own address"))
		stranger("stranger-knows-rkey", "");
	stranger("stranger-knows-key", GUARDED);
	crowd();
}
