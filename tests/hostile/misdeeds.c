/* SPDX-License-Identifier: BSD-2-Clause */
#include "misdeeds.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
	return m->causes | (m->many && getenv("TEST_SRQ") ? CAUSE(PROTOCOL) : 0);
}

void judge(const char *name, bool did, uint32_t before, uint32_t causes)
{
	const struct ending *e;

	if (!victims_ended(before + 1)) {
		verdict(name, false, "%u connections ended, not one; %s",
			victims->ended - before, victims->harm);
	} else {
		e = &victims->endings[before % REASONS];
		if (!(causes & 1u << e->cause) || !e->text[0])
			verdict(name, false, "ended by %d, cause %d, error %d: "
				"%s", e->who, e->cause, e->error, e->text);
		/* cut off in the middle of it by a verdict is as good as done */
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

/* ---- helpers ---------------------------------------------------------- */

static bool data(struct raw *r, uint32_t number, uint32_t tag, uint32_t len)
{
	static const uint8_t zeros[RAW_RECV_SIZE];

	return raw_message(r, PROTO_DATA, number, tag, zeros, len) >= 0;
}

/* The send goes out; whether it is acknowledged is the other side's affair. */
static bool message(struct raw *r, uint8_t type, const void *body, size_t len)
{
	return raw_message(r, type, 0, 0, body, (uint32_t)len) >= 0;
}

static bool rndv_body(struct raw *r, const void *body, size_t len)
{
	return raw_message(r, PROTO_RNDV, r->number, 0, body, (uint32_t)len) >= 0;
}

static struct proto_rndv good_rndv(const struct raw *r, uint32_t len)
{
	return (struct proto_rndv){
		.total = len, .count = 1,
		.keys[0] = {
			.access = PROTO_KEY_READ, .rkey = r->mr->rkey,
			.addr = (uintptr_t)r->mem, .len = len,
		},
	};
}

static bool rndv(struct raw *r, const struct proto_rndv *w)
{
	uint8_t body[PROTO_RNDV_MAX];

	return rndv_body(r, body, rdmamsg__rndv_encode(w, body));
}

/* An ordinary exchange works; makes sure that the victim is up to date. */
static bool echo(struct raw *r, uint32_t tag)
{
	struct proto_hdr hdr;
	const uint8_t *body;
	uint32_t len;

	do {
		if (!data(r, r->number++, tag, 100) ||
		    !raw_receive_type(r, PROTO_DATA, &hdr, &body, &len))
			return false;
	} while (hdr.tag != tag);
	return len == 100;
}

/* The victim announces something large: the key, or false. */
static bool large_from_victim(struct raw *r, struct proto_hdr *hdr,
			      struct proto_key *key)
{
	struct proto_rndv w;
	const uint8_t *body;
	uint32_t len;

	/* the server echoes what it reads; the client was asked to send */
	if (!r->passive && raw_announce(r, 100000, 1) != IBV_WC_SUCCESS)
		return false;
	if (!raw_receive_type(r, PROTO_RNDV, hdr, &body, &len) ||
	    rdmamsg__rndv_decode(&w, body, len))
		return false;
	*key = w.keys[0];
	return true;
}

/* ---- before SETUP ----------------------------------------------------- */

static bool silence(struct raw *r)
{
	return true;
}

static bool setup_garbage(struct raw *r)
{
	uint8_t body[200];

	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (uint8_t)(i * 37 + 11);
	return message(r, PROTO_SETUP, body, sizeof(body));
}

static bool setup_empty(struct raw *r)
{
	return message(r, PROTO_SETUP, NULL, 0);
}

static bool setup_with(struct raw *r, uint16_t type, uint32_t value)
{
	struct proto_setup s = {
		.recv_size = RAW_RECV_SIZE, .recv_depth = 16, .max_msg = 65536,
	};
	uint8_t body[PROTO_SETUP_MAX];
	size_t len = rdmamsg__setup_encode(&s, body);

	/* the items are in the order of their types, 8 bytes each */
	value = htole32(value);
	memcpy(body + 8 * (type - 1) + 4, &value, sizeof(value));
	return message(r, PROTO_SETUP, body, len);
}

static bool setup_small_receives(struct raw *r)
{
	return setup_with(r, PROTO_SETUP_RECV_SIZE, 10);
}

static bool setup_no_depth(struct raw *r)
{
	return setup_with(r, PROTO_SETUP_RECV_DEPTH, 0);
}

static bool setup_must_know(struct raw *r)
{
	static const uint8_t body[] = { 99, 0x80, 0, 0 };

	return message(r, PROTO_SETUP, body, sizeof(body));
}

/* It is the initiator's to choose. */
static bool setup_other_session(struct raw *r)
{
	struct proto_setup s = {
		.recv_size = RAW_RECV_SIZE, .recv_depth = 16, .max_msg = 65536,
	};
	uint8_t body[PROTO_SETUP_MAX];
	struct proto_hdr hdr;
	const uint8_t *theirs;
	uint32_t len;

	if (!raw_receive_type(r, PROTO_SETUP, &hdr, &theirs, &len) ||
	    rdmamsg__setup_decode(&r->peer, theirs, len))
		return false;
	memcpy(s.session, r->peer.session, sizeof(s.session));
	s.session[15] ^= 1;
	return message(r, PROTO_SETUP, body, rdmamsg__setup_encode(&s, body));
}

static bool data_first(struct raw *r)
{
	return data(r, 0, 0, 10);
}

static bool rndv_first(struct raw *r)
{
	struct proto_rndv w = good_rndv(r, 100000);

	return rndv(r, &w);
}

static bool close_first(struct raw *r)
{
	return message(r, PROTO_CLOSE, NULL, 0);
}

static bool done_first(struct raw *r)
{
	return message(r, PROTO_DONE, NULL, 0);
}

static bool nothing_first(struct raw *r)
{
	return raw_send(r, NULL, 0) >= 0;
}

static bool vanish(struct raw *r)
{
	raw_vanish(r);
	return true;
}

static bool leave(struct raw *r)
{
	raw_drop(r);
	return true;
}

/* ---- after it --------------------------------------------------------- */

static bool second_setup(struct raw *r)
{
	return setup_with(r, PROTO_SETUP_MAX_MSG, 65536);
}

static bool short_message(struct raw *r)
{
	static const uint8_t almost[PROTO_HDR_LEN - 1] = { PROTO_DATA };

	return raw_send(r, almost, sizeof(almost)) >= 0;
}

static bool empty_message(struct raw *r)
{
	return raw_send(r, NULL, 0) >= 0;
}

static bool unknown_type(struct raw *r)
{
	return message(r, 99, NULL, 0);
}

static bool type_zero(struct raw *r)
{
	return message(r, 0, NULL, 0);
}

static bool number_ahead(struct raw *r)
{
	return data(r, 1, SINK_TAG, 10);
}

static bool number_repeated(struct raw *r)
{
	return data(r, 0, SINK_TAG, 10) && data(r, 0, SINK_TAG, 10);
}

static bool number_wraps(struct raw *r)
{
	return data(r, UINT32_MAX, SINK_TAG, 10);
}

/* Far more than was allowed, as fast as it goes. */
static bool flood(struct raw *r)
{
	return !raw_burst(r, PROTO_DATA, 2000) || true;
}

static bool credit_insane(struct raw *r)
{
	struct proto_hdr hdr = { .type = PROTO_CREDIT, .credit = 0x40000000 };
	uint8_t wire[PROTO_HDR_LEN];

	rdmamsg__hdr_encode(&hdr, wire);
	return raw_send(r, wire, sizeof(wire)) >= 0;
}

static bool rndv_empty(struct raw *r)
{
	return rndv_body(r, NULL, 0);
}

static bool rndv_truncated(struct raw *r)
{
	struct proto_rndv w = good_rndv(r, 100000);
	uint8_t body[PROTO_RNDV_MAX];
	size_t len = rdmamsg__rndv_encode(&w, body);

	return rndv_body(r, body, len - 1);
}

static bool rndv_with(struct raw *r, size_t at, uint32_t value)
{
	struct proto_rndv w = good_rndv(r, 100000);
	uint8_t body[PROTO_RNDV_MAX] = { 0 };

	(void)rdmamsg__rndv_encode(&w, body);
	value = htole32(value);
	memcpy(body + at, &value, sizeof(value));
	return rndv_body(r, body, sizeof(body));
}

static bool rndv_no_keys(struct raw *r)
{
	return rndv_with(r, 0, 0);
}

static bool rndv_many_keys(struct raw *r)
{
	return rndv_with(r, 0, 17);
}

static bool rndv_huge_count(struct raw *r)
{
	return rndv_with(r, 0, UINT32_MAX);
}

static bool rndv_sum(struct raw *r)
{
	return rndv_with(r, 4, 100001);
}

static bool rndv_key_version(struct raw *r)
{
	return rndv_with(r, 8, 2);
}

static bool rndv_key_huge(struct raw *r)
{
	return rndv_with(r, 8 + 28, 0x80000000u);
}

static bool rndv_too_large(struct raw *r)
{
	struct proto_rndv w = good_rndv(r, MAX_MSG + 1);

	return rndv(r, &w);
}

static bool rndv_no_such_key(struct raw *r)
{
	struct proto_rndv w = good_rndv(r, 100000);

	w.keys[0].rkey ^= 0x5a5a00;
	return rndv(r, &w);
}

static bool rndv_beyond_region(struct raw *r)
{
	struct proto_rndv w = good_rndv(r, 100000);

	w.keys[0].addr = (uintptr_t)r->recv + RAW_RECVS * RAW_RECV_SIZE - 50000;
	return rndv(r, &w);
}

static bool rndv_second_key_bad(struct raw *r)
{
	struct proto_rndv w = good_rndv(r, 100000);

	w.total = 200000;
	w.count = 2;
	w.keys[1] = w.keys[0];
	w.keys[1].rkey ^= 0x5a5a00;
	return rndv(r, &w);
}

/* The key is good, the queue pair is gone: silence in the middle. */
static bool rndv_then_silence(struct raw *r)
{
	struct proto_rndv w = good_rndv(r, 400000);
	bool good;

	w.total = MAX_MSG;
	w.count = 11;
	for (int i = 1; i < 11; i++)
		w.keys[i] = w.keys[0];
	w.keys[10].len = MAX_MSG - 10 * 400000;
	good = rndv(r, &w);
	raw_vanish(r);
	return good;
}

static bool rndv_no_reads(struct raw *r)
{
	return raw_announce(r, 100000, 0) >= 0;
}

/* As many as the credits allow; all of them are fetched. */
static bool rndv_many(struct raw *r)
{
	struct proto_hdr hdr;
	const uint8_t *body;
	uint32_t len;

	for (int i = 0; i < 16; i++)
		if (raw_announce(r, 30000, SINK_TAG) != IBV_WC_SUCCESS)
			return false;
	for (int i = 0; i < 16; i++)
		if (!raw_receive_type(r, PROTO_DONE, &hdr, &body, &len))
			return false;
	return leave(r);
}

static bool done_unknown(struct raw *r)
{
	return raw_message(r, PROTO_DONE, 7, 0, NULL, 0) >= 0;
}

static bool done_twice(struct raw *r)
{
	struct proto_hdr hdr;
	struct proto_key key;

	return large_from_victim(r, &hdr, &key) &&
	       raw_message(r, PROTO_DONE, hdr.number, 0, NULL, 0) >= 0 &&
	       raw_message(r, PROTO_DONE, hdr.number, 0, NULL, 0) >= 0;
}

/* The key of a message that is over is worth nothing. */
static bool key_replayed(struct raw *r)
{
	struct proto_hdr hdr;
	struct proto_key key;
	int status;

	if (!large_from_victim(r, &hdr, &key) ||
	    raw_rdma(r, IBV_WR_RDMA_READ, key.addr, key.rkey, 1000) !=
	    IBV_WC_SUCCESS ||
	    raw_message(r, PROTO_DONE, hdr.number, 0, NULL, 0) !=
	    IBV_WC_SUCCESS)
		return false;
	/* a server has echoed by then what comes after the DONE */
	if (!r->passive && !echo(r, 5))
		return false;
	if (r->passive)
		while (victims->done != victims->accepted)
			usleep(1000);
	status = raw_rdma(r, IBV_WR_RDMA_READ, key.addr, key.rkey, 1000);
	if (status != IBV_WC_REM_ACCESS_ERR)
		printf("#   replayed key: status %d\n", status);
	return status == IBV_WC_REM_ACCESS_ERR;
}

/* Beyond the announced bytes, while the key is good. */
static bool key_stretched(struct raw *r)
{
	struct proto_hdr hdr;
	struct proto_key key;

	return large_from_victim(r, &hdr, &key) &&
	       raw_rdma(r, IBV_WR_RDMA_READ, key.addr + key.len - 10, key.rkey,
			20) == IBV_WC_REM_ACCESS_ERR;
}

/* Reading was allowed, writing not. */
static bool key_written(struct raw *r)
{
	struct proto_hdr hdr;
	struct proto_key key;

	return large_from_victim(r, &hdr, &key) &&
	       raw_rdma(r, IBV_WR_RDMA_WRITE, key.addr, key.rkey, 20) ==
	       IBV_WC_REM_ACCESS_ERR;
}

/* A key to write with, which the victim gives to those who ask. */
static bool ask_key(struct raw *r, struct proto_key *key)
{
	struct proto_hdr hdr;
	const uint8_t *body;
	uint32_t len;

	do {
		if (!data(r, r->number++, KEY_TAG, 0) ||
		    !raw_receive_type(r, PROTO_DATA, &hdr, &body, &len))
			return false;
	} while (hdr.tag != KEY_TAG);
	return !rdmamsg__key_decode(key, body, len);
}

/* It uses up a receive, in whose buffer is what was there before. */
static bool write_imm(struct raw *r)
{
	struct proto_key key;

	return ask_key(r, &key) &&
	       raw_rdma(r, IBV_WR_RDMA_WRITE_WITH_IMM, key.addr, key.rkey,
			200) >= 0;
}

static bool write_imm_empty(struct raw *r)
{
	return raw_rdma(r, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 0) >= 0;
}

static bool write_past_the_end(struct raw *r)
{
	struct proto_key key;

	return ask_key(r, &key) &&
	       raw_rdma(r, IBV_WR_RDMA_WRITE, key.addr + key.len - 10, key.rkey,
			20) == IBV_WC_REM_ACCESS_ERR;
}

static bool read_what_is_to_write(struct raw *r)
{
	struct proto_key key;

	return ask_key(r, &key) &&
	       raw_rdma(r, IBV_WR_RDMA_READ, key.addr, key.rkey, 20) ==
	       IBV_WC_REM_ACCESS_ERR;
}

/* The hello has promised nothing of the kind. */
static bool written_not_agreed(struct raw *r)
{
	return raw_message(r, PROTO_WRITTEN, r->number++, 1, NULL, 0) >= 0;
}

static bool write_anywhere(struct raw *r)
{
	return raw_rdma(r, IBV_WR_RDMA_WRITE, 4096, 0x1234, 100) > 0;
}

static bool read_anywhere(struct raw *r)
{
	return raw_rdma(r, IBV_WR_RDMA_READ, 4096, 0x1234, 100) > 0;
}

static bool atomic_anywhere(struct raw *r)
{
	return raw_rdma(r, IBV_WR_ATOMIC_FETCH_AND_ADD, 4096, 0x1234, 8) > 0;
}

/* Harmless, if many: the connection may live on. */
static bool ping_flood(struct raw *r)
{
	(void)raw_burst(r, PROTO_PING, 3000);
	return leave(r);
}

static bool pong_flood(struct raw *r)
{
	(void)raw_burst(r, PROTO_PONG, 3000);
	return leave(r);
}

static bool credit_flood(struct raw *r)
{
	(void)raw_burst(r, PROTO_CREDIT, 3000);
	return leave(r);
}

static bool close_then_data(struct raw *r)
{
	return message(r, PROTO_CLOSE, NULL, 0) && data(r, r->number, 0, 10);
}

static bool close_then_rndv(struct raw *r)
{
	return message(r, PROTO_CLOSE, NULL, 0) &&
	       raw_announce(r, 100000, 0) >= 0;
}

static bool close_twice(struct raw *r)
{
	return message(r, PROTO_CLOSE, NULL, 0) &&
	       (message(r, PROTO_CLOSE, NULL, 0), leave(r));
}

static bool close_then_silence(struct raw *r)
{
	return message(r, PROTO_CLOSE, NULL, 0);
}

static bool close_then_vanish(struct raw *r)
{
	return message(r, PROTO_CLOSE, NULL, 0) && vanish(r);
}

static bool larger_than_receive(struct raw *r)
{
	uint8_t *big = calloc(1, 100000);
	bool good;

	big[0] = PROTO_DATA;
	good = raw_send(r, big, 100000) >= 0;
	free(big);
	return good;
}

/* Everything under way, both ways, and then nothing. */
static bool leave_in_the_middle(struct raw *r)
{
	for (int i = 0; i < 4; i++)
		if (!data(r, r->number++, 1, 100) ||
		    raw_announce(r, 300000, 1) < 0)
			return false;
	return leave(r);
}

static bool vanish_in_the_middle(struct raw *r)
{
	for (int i = 0; i < 4; i++)
		if (!data(r, r->number++, 1, 100) ||
		    raw_announce(r, 300000, 1) < 0)
			return false;
	return vanish(r);
}

/* Never takes what it is sent: closing has a deadline. */
static bool never_done(struct raw *r)
{
	struct proto_hdr hdr;
	struct proto_key key;

	if (!large_from_victim(r, &hdr, &key))
		return false;
	/* a server closes when its peer does; a client is asked to */
	return r->passive || message(r, PROTO_CLOSE, NULL, 0);
}

/* Lives, and does not fetch: that has a bound of its own. */
static bool never_fetched(struct raw *r)
{
	struct proto_hdr hdr;
	struct proto_key key;

	if (!large_from_victim(r, &hdr, &key))
		return false;
	for (int i = 0; i < RAW_WAIT_MS / 100; i++) {
		if (!message(r, PROTO_PING, NULL, 0))
			return true;	/* it has ended */
		usleep(100000);
	}
	return false;
}

/* Nothing that is sent to it arrives: closing has a deadline. */
static bool deaf(struct raw *r)
{
	for (int i = 0; i < 3; i++)
		if (!data(r, r->number++, 1, 100))
			return false;
	return r->passive || message(r, PROTO_CLOSE, NULL, 0);
}

#define READS	.how = { .reads_served = 4 }
#define PROTO	CAUSE(PROTOCOL)

const struct misdeed misdeeds[] = {
	{ "silence-before-setup", silence, CAUSE(TIMEOUT), true, READS },
	{ "vanish-before-setup", vanish, CAUSE(TIMEOUT) | CAUSE(TRANSPORT) |
	  CAUSE(ABORTED), true, READS },
	{ "leave-before-setup", leave, CAUSE(ABORTED) | CAUSE(TRANSPORT), true,
	  READS },
	{ "setup-garbage", setup_garbage, PROTO, true, READS },
	{ "setup-empty", setup_empty, PROTO, true, READS },
	{ "setup-small-receives", setup_small_receives, PROTO, true, READS },
	{ "setup-no-depth", setup_no_depth, PROTO, true, READS },
	{ "setup-must-know", setup_must_know, PROTO, true, READS },
	{ "setup-other-session", setup_other_session, PROTO, true, READS,
	  .passive_only = true },
	{ "data-before-setup", data_first, PROTO, true, READS },
	{ "rndv-before-setup", rndv_first, PROTO, true, READS },
	{ "close-before-setup", close_first, PROTO, true, READS },
	{ "done-before-setup", done_first, PROTO, true, READS },
	{ "nothing-before-setup", nothing_first, PROTO, true, READS },

	{ "second-setup", second_setup, PROTO, READS },
	{ "short-message", short_message, PROTO, READS },
	{ "empty-message", empty_message, PROTO, READS },
	{ "unknown-type", unknown_type, PROTO, READS },
	{ "type-zero", type_zero, PROTO, READS },
	{ "number-ahead", number_ahead, PROTO, READS },
	{ "number-repeated", number_repeated, PROTO, READS },
	{ "number-wraps", number_wraps, PROTO, READS },
	{ "flood", flood, PROTO, READS },
	{ "credit-insane", credit_insane, PROTO, READS },
	{ "rndv-empty", rndv_empty, PROTO, READS },
	{ "rndv-truncated", rndv_truncated, PROTO, READS },
	{ "rndv-no-keys", rndv_no_keys, PROTO, READS },
	{ "rndv-many-keys", rndv_many_keys, PROTO, READS },
	{ "rndv-huge-count", rndv_huge_count, PROTO, READS },
	{ "rndv-sum-wrong", rndv_sum, PROTO, READS },
	{ "rndv-key-version", rndv_key_version, PROTO, READS },
	{ "rndv-key-huge", rndv_key_huge, PROTO, READS },
	{ "rndv-too-large", rndv_too_large, PROTO, READS },
	{ "rndv-no-such-key", rndv_no_such_key, CAUSE(ACCESS), READS },
	{ "rndv-beyond-region", rndv_beyond_region, CAUSE(ACCESS), READS },
	{ "rndv-second-key-bad", rndv_second_key_bad, CAUSE(ACCESS), READS },
	{ "rndv-then-silence", rndv_then_silence, CAUSE(TRANSPORT) |
	  CAUSE(ABORTED), READS },
	{ "rndv-no-reads-served", rndv_no_reads, PROTO },
	{ "rndv-many", rndv_many, CAUSE(ABORTED) | CAUSE(TRANSPORT), READS,
	  .many = true },
	{ "done-unknown", done_unknown, PROTO, READS },
	{ "done-twice", done_twice, PROTO, READS, .wish = WISH_SEND },
	{ "key-replayed", key_replayed, CAUSE(ACCESS), READS,
	  .wish = WISH_SEND },
	{ "key-stretched", key_stretched, CAUSE(ACCESS), READS,
	  .wish = WISH_SEND },
	{ "key-written", key_written, CAUSE(ACCESS), READS, .wish = WISH_SEND },
	{ "write-imm", write_imm, PROTO, READS },
	{ "write-imm-empty", write_imm_empty, PROTO, READS },
	{ "write-past-the-end", write_past_the_end, CAUSE(ACCESS), READS },
	{ "read-what-is-to-write", read_what_is_to_write, CAUSE(ACCESS), READS },
	{ "written-not-agreed", written_not_agreed, PROTO, READS },
	{ "write-anywhere", write_anywhere, CAUSE(ACCESS), READS },
	{ "read-anywhere", read_anywhere, CAUSE(ACCESS), READS },
	{ "atomic-anywhere", atomic_anywhere, CAUSE(ACCESS) | PROTO, READS },
	{ "ping-flood", ping_flood, PROTO | CAUSE(ABORTED) | CAUSE(TRANSPORT),
	  READS },
	{ "ping-flood-deaf", ping_flood, PROTO | CAUSE(ABORTED) |
	  CAUSE(TRANSPORT), .how = { .deaf = true } },
	{ "pong-flood", pong_flood, PROTO | CAUSE(ABORTED) | CAUSE(TRANSPORT),
	  READS },
	{ "credit-flood", credit_flood, PROTO | CAUSE(ABORTED) |
	  CAUSE(TRANSPORT), READS },
	/* all may be over before the second message is there */
	{ "close-then-data", close_then_data, PROTO | CAUSE(CLOSED), READS },
	{ "close-then-rndv", close_then_rndv, PROTO | CAUSE(CLOSED), READS },
	{ "close-twice", close_twice, PROTO | CAUSE(CLOSED) | CAUSE(ABORTED),
	  READS },
	{ "close-then-silence", close_then_silence, CAUSE(CLOSED) |
	  CAUSE(TIMEOUT), READS },
	{ "close-then-vanish", close_then_vanish, CAUSE(CLOSED) |
	  CAUSE(TRANSPORT) | CAUSE(ABORTED) | CAUSE(TIMEOUT), READS },
	{ "larger-than-receive", larger_than_receive, PROTO | CAUSE(ACCESS),
	  READS },
	{ "leave-in-the-middle", leave_in_the_middle, CAUSE(ABORTED) |
	  CAUSE(TRANSPORT), READS, .wish = WISH_SEND,
	  .many = true },
	{ "vanish-in-the-middle", vanish_in_the_middle, CAUSE(ABORTED) |
	  CAUSE(TRANSPORT), READS, .wish = WISH_SEND,
	  .many = true },
	{ "never-done", never_done, CAUSE(TIMEOUT), READS, .wish = WISH_SEND,
	  .then = WISH_CLOSE },
	{ "never-fetched", never_fetched, PROTO, READS, .wish = WISH_SEND },
	{ "deaf", deaf, CAUSE(TIMEOUT) | CAUSE(TRANSPORT),
	  .how = { .deaf = true, .reads_served = 4 }, .wish = WISH_SEND,
	  .then = WISH_CLOSE },
	{ NULL },
};
