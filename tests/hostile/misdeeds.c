/* SPDX-License-Identifier: BSD-2-Clause */
#include "misdeeds.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int failures;
const char *only_case;

bool wanted(const char *name)
{
	return !only_case || !strcmp(only_case, name);
}

void verdict(const char *name, bool good, const char *fmt, ...)
{
	va_list ap;

	failures += !good;
	printf("%s %s", good ? "ok" : "not ok", name);
	if (!good) {
		printf(": ");
		va_start(ap, fmt);
		vprintf(fmt, ap);
		va_end(ap);
	}
	printf("\n");
	fflush(stdout);
}

uint32_t misdeed_causes(const struct misdeed *m)
{
	return m->causes |
	       (m->many && getenv("TEST_SRQ") ? CAUSE(PROTOCOL) : 0);
}

/* A time-out may bring these. The test waits for it, so it is short. */
#define OF_TIME	(CAUSE(TIMEOUT) | CAUSE(TRANSPORT) | CAUSE(ABORTED) | \
		 CAUSE(UNREACHABLE) | CAUSE(RESOURCES))

void be_patient(uint32_t causes, bool timed)
{
	victims->timeout_ms = timed || causes & OF_TIME ? TIMEOUT_MS :
							  PATIENT_MS;
}

bool misdeed_possible(const char *name, const char *not_on_iwarp)
{
	if (!not_on_iwarp || !raw_on_iwarp)
		return true;
	printf("skip %s # %s\n", name, not_on_iwarp);
	return false;
}

const char *misdeed_not_on_iwarp(const struct misdeed *m)
{
	return m->floods && victims_srq_depth() ?
	       "iWARP ends a connection whose message finds no receive" :
	       m->not_on_iwarp;
}

void judge(const char *name, bool did, uint32_t before, uint32_t causes)
{
	const struct ending *e;

	victims->timeout_ms = TIMEOUT_MS;
	if (!victims_ended(before + 1)) {
		verdict(name, false, "%u connections ended, not one; %s",
			victims->ended - before, victims->harm);
	} else {
		e = &victims->endings[before % REASONS];
		if (!(causes & 1u << e->cause) || !e->text[0])
			verdict(name, false, "ended by %d, cause %d, error %d: "
				"%s", e->who, e->cause, e->error, e->text);
		/*
		 * if the victim ends the connection during the misdeed, the
		 * case is good
		 */
		else if (!did && e->cause == RDMAMSG_CAUSE_ABORTED)
			verdict(name, false, "the peer could not do it");
		else if (!victims_innocent_goes_on())
			verdict(name, false, "the innocent: %s",
				victims->harmed ? victims->harm : "stalled");
		else
			verdict(name, true, " ");
		printf("#   %s\n", e->text);
	}
	fflush(stdout);
}

/* ---- building blocks -------------------------------------------------- */

bool do_data(struct raw *r, uint32_t number, uint32_t tag, uint32_t len)
{
	static const uint8_t zeros[RAW_RECV_SIZE];

	return raw_message(r, PROTO_DATA, number, tag, zeros, len) >= 0;
}

bool do_message(struct raw *r, uint8_t type, const void *body, size_t len)
{
	return raw_message(r, type, 0, 0, body, (uint32_t)len) >= 0;
}

bool do_keep_busy(struct raw *r)
{
	victims->busy = victims->release = false;
	return do_data(r, r->number++, BUSY_TAG, 0) && victims_busy();
}

bool do_release(bool did)
{
	victims->release = true;
	return did;
}

struct proto_rndv good_rndv(const struct raw *r, uint32_t len)
{
	return (struct proto_rndv){
		.total = len, .count = 1,
		.keys[0] = {
			.access = PROTO_KEY_READ, .rkey = r->mr->rkey,
			.addr = (uintptr_t)r->mem, .len = len,
		},
	};
}

bool do_rndv_body(struct raw *r, const void *body, size_t len)
{
	uint32_t size = (uint32_t)len;

	return raw_message(r, PROTO_RNDV, r->number, 0, body, size) >= 0;
}

bool do_rndv(struct raw *r, const struct proto_rndv *w)
{
	uint8_t body[PROTO_RNDV_MAX];

	return do_rndv_body(r, body, rdmamsg__rndv_encode(w, body));
}

bool large_from_victim(struct raw *r, struct proto_hdr *hdr,
		       struct proto_key *key)
{
	struct proto_rndv w;
	const uint8_t *body;
	uint32_t len;

	/* the server echoes what it reads; make the client send */
	if (!r->passive && raw_announce(r, 100000, 1) != IBV_WC_SUCCESS)
		return false;
	if (!raw_receive_type(r, PROTO_RNDV, hdr, &body, &len) ||
	    rdmamsg__rndv_decode(&w, body, len))
		return false;
	*key = w.keys[0];
	return true;
}

bool do_vanish(struct raw *r)
{
	raw_vanish(r);
	return true;
}

bool do_leave(struct raw *r)
{
	raw_drop(r);
	return true;
}

const struct misdeed *const misdeeds[] = {
	setup_misdeeds, message_misdeeds, memory_misdeeds, pieces_misdeeds,
	word_misdeeds,
	NULL,
};
