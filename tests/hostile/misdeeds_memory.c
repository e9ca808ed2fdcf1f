/* SPDX-License-Identifier: BSD-2-Clause */
/* Misdeeds with rendezvous, keys and one-sided requests. */
#include "misdeeds.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Sends an ordinary message. Gives the victim's answer with the same tag. */
static bool ask(struct raw *r, uint32_t tag, uint32_t size,
		const uint8_t **body, uint32_t *len)
{
	struct proto_hdr hdr;

	do {
		if (!do_data(r, r->number++, tag, size) ||
		    !raw_receive_type(r, PROTO_DATA, &hdr, body, len))
			return false;
	} while (hdr.tag != tag);
	return true;
}

/* Exchanges an ordinary message, so the victim has handled all before it. */
static bool echo(struct raw *r, uint32_t tag)
{
	const uint8_t *body;
	uint32_t len;

	return ask(r, tag, 100, &body, &len) && len == 100;
}

static bool rndv_empty(struct raw *r)
{
	return do_rndv_body(r, NULL, 0);
}

static bool rndv_truncated(struct raw *r)
{
	struct proto_rndv w = good_rndv(r, 100000);
	uint8_t body[PROTO_RNDV_MAX];
	size_t len = rdmamsg__rndv_encode(&w, body);

	return do_rndv_body(r, body, len - 1);
}

static bool rndv_with(struct raw *r, size_t at, uint32_t value)
{
	struct proto_rndv w = good_rndv(r, 100000);
	uint8_t body[PROTO_RNDV_MAX] = { 0 };

	(void)rdmamsg__rndv_encode(&w, body);
	value = htole32(value);
	memcpy(body + at, &value, sizeof(value));
	return do_rndv_body(r, body, sizeof(body));
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

	return do_rndv(r, &w);
}

static bool rndv_no_such_key(struct raw *r)
{
	struct proto_rndv w = good_rndv(r, 100000);

	w.keys[0].rkey ^= 0x5a5a00;
	return do_rndv(r, &w);
}

static bool rndv_beyond_region(struct raw *r)
{
	struct proto_rndv w = good_rndv(r, 100000);

	w.keys[0].addr = (uintptr_t)r->recv + RAW_RECVS * RAW_RECV_SIZE - 50000;
	return do_rndv(r, &w);
}

static bool rndv_second_key_bad(struct raw *r)
{
	struct proto_rndv w = good_rndv(r, 100000);

	w.total = 200000;
	w.count = 2;
	w.keys[1] = w.keys[0];
	w.keys[1].rkey ^= 0x5a5a00;
	return do_rndv(r, &w);
}

/* Announces a message with a valid key, and destroys the queue pair. */
static bool rndv_then_silence(struct raw *r)
{
	struct proto_rndv w = good_rndv(r, 400000);
	bool good;

	w.total = MAX_MSG;
	w.count = 11;
	for (int i = 1; i < 11; i++)
		w.keys[i] = w.keys[0];
	w.keys[10].len = MAX_MSG - 10 * 400000;
	good = do_rndv(r, &w);
	raw_vanish(r);
	return good;
}

static bool rndv_no_reads(struct raw *r)
{
	return raw_announce(r, 100000, 0) >= 0;
}

/*
 * Announces as many messages as credits allow. The victim must read them all.
 */
static bool rndv_many(struct raw *r)
{
	uint32_t credit = r->peer.recv_depth, done = 0;
	struct proto_hdr hdr;
	const uint8_t *body;
	uint32_t len;

	while (done < 16) {
		if (r->number < 16 && r->number < credit) {
			if (raw_announce(r, 30000, SINK_TAG) != IBV_WC_SUCCESS)
				return false;
			continue;
		}
		if (!raw_receive(r, &hdr, &body, &len, RAW_WAIT_MS))
			return false;
		if ((int32_t)(hdr.credit - credit) > 0)
			credit = hdr.credit;
		done += hdr.type == PROTO_DONE;
	}
	return do_leave(r);
}

/* Announces 'count' messages at once, too large to be read in the meantime. */
static bool announce(struct raw *r, uint32_t count)
{
	struct proto_rndv w = good_rndv(r, 400000);
	bool did;

	w.total = MAX_MSG;
	w.count = 11;
	for (int i = 1; i < 11; i++)
		w.keys[i] = w.keys[0];
	w.keys[10].len = MAX_MSG - 10 * 400000;
	victims->busy = victims->release = false;
	did = do_data(r, r->number++, BUSY_TAG, 0) && victims_busy();
	for (uint32_t i = 0; did && i < count; i++, r->number++)
		did = do_rndv(r, &w);
	victims->release = true;
	return did;
}

static bool rndv_quota(struct raw *r)
{
	return announce(r, 16) && do_leave(r);
}

static bool rndv_quota_one_more(struct raw *r)
{
	return announce(r, 17);
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

/* Sends DONE for an announced message, with the number of another one. */
static bool done_other(struct raw *r)
{
	struct proto_hdr hdr;
	struct proto_key key;

	return large_from_victim(r, &hdr, &key) &&
	       raw_message(r, PROTO_DONE, hdr.number + 7, 0, NULL, 0) >= 0;
}

/* The key of a message must not work after its DONE. */
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
	/* the echo of a later message shows that the DONE was handled */
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

/* Reads beyond the announced bytes, while the key is valid. */
static bool key_stretched(struct raw *r)
{
	struct proto_hdr hdr;
	struct proto_key key;

	return large_from_victim(r, &hdr, &key) &&
	       raw_rdma(r, IBV_WR_RDMA_READ, key.addr + key.len - 10, key.rkey,
			20) == IBV_WC_REM_ACCESS_ERR;
}

/* Writes with a key that allows reading only. */
static bool key_written(struct raw *r)
{
	struct proto_hdr hdr;
	struct proto_key key;

	return large_from_victim(r, &hdr, &key) &&
	       raw_rdma(r, IBV_WR_RDMA_WRITE, key.addr, key.rkey, 20) ==
	       IBV_WC_REM_ACCESS_ERR;
}

/* Asks the victim for a key that allows writing. */
static bool ask_key(struct raw *r, struct proto_key *key)
{
	const uint8_t *body;
	uint32_t len;

	return ask(r, KEY_TAG, 0, &body, &len) &&
	       !rdmamsg__key_decode(key, body, len);
}

/* The write consumes a receive, whose buffer still has its old contents. */
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

static bool invalidate_not_agreed(struct raw *r)
{
	return raw_message(r, PROTO_INVALIDATE, r->number++, 1, NULL, 0) >= 0;
}

/* Sends a correct message that invalidates the given rkey. */
static bool invalidate(struct raw *r, uint32_t rkey)
{
	const struct proto_hdr hdr = {
		.type = PROTO_DATA, .number = r->number++, .tag = SINK_TAG,
		.credit = 1,
	};

	rdmamsg__hdr_encode(&hdr, r->mem);
	return raw_rdma(r, IBV_WR_SEND_WITH_INV, 0, rkey, PROTO_HDR_LEN) >= 0;
}

static bool invalidate_anything(struct raw *r)
{
	return invalidate(r, 0x12345678);
}

/* Invalidating the rkey of a region would end the access of all peers. */
static bool invalidate_a_region(struct raw *r)
{
	struct proto_key key;

	return ask_key(r, &key) && invalidate(r, key.rkey);
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

/* The key must be invalid before on_complete of the victim's program. */
static bool key_in_on_complete(struct raw *r)
{
	struct proto_hdr hdr;
	struct proto_key key;
	int status = -1;

	if (!large_from_victim(r, &hdr, &key))
		return false;
	victims->busy = victims->release = false;
	victims->busy_sent = true;
	if (raw_message(r, PROTO_DONE, hdr.number, 0, NULL, 0) ==
	    IBV_WC_SUCCESS && victims_busy())
		status = raw_rdma(r, IBV_WR_RDMA_READ, key.addr, key.rkey,
				  1000);
	victims->busy_sent = false;
	victims->release = true;
	return status == IBV_WC_REM_ACCESS_ERR;
}

/* Never sends DONE for a large message, so closing meets its deadline. */
static bool never_done(struct raw *r)
{
	struct proto_hdr hdr;
	struct proto_key key;

	if (!large_from_victim(r, &hdr, &key))
		return false;
	/* a server closes with its peer, a client closes on request */
	return r->passive || do_message(r, PROTO_CLOSE, NULL, 0);
}

/* Keeps the connection alive, and never reads the large message. */
static bool never_fetched(struct raw *r)
{
	struct proto_hdr hdr;
	struct proto_key key;

	if (!large_from_victim(r, &hdr, &key))
		return false;
	for (int i = 0; i < RAW_WAIT_MS / 100; i++) {
		if (raw_message(r, PROTO_PING, 0, 0, NULL, 0) !=
		    IBV_WC_SUCCESS)
			return true;	/* the connection has ended */
		usleep(100000);
	}
	return false;
}

const struct misdeed memory_misdeeds[] = {
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
	{ "rndv-many", rndv_many, CAUSE(ABORTED) | CAUSE(TRANSPORT), READS },
	{ "rndv-quota", rndv_quota, CAUSE(ABORTED) | CAUSE(TRANSPORT),
	  .how = { .reads_served = 4 }, .says = DEEP, .active_only = true,
	  .many = true },
	{ "rndv-quota-one-more", rndv_quota_one_more, PROTO,
	  .how = { .reads_served = 4 }, .says = DEEP, .active_only = true },
	{ "done-unknown", done_unknown, PROTO, READS },
	{ "done-other", done_other, PROTO, READS, .wish = WISH_SEND },
	{ "done-twice", done_twice, PROTO, READS, .wish = WISH_SEND },
	{ "key-replayed", key_replayed, CAUSE(ACCESS), READS,
	  .wish = WISH_SEND },
	{ "key-in-on-complete", key_in_on_complete, CAUSE(ACCESS), READS,
	  .wish = WISH_SEND },
	{ "key-stretched", key_stretched, CAUSE(ACCESS), READS,
	  .wish = WISH_SEND },
	{ "key-written", key_written, CAUSE(ACCESS), READS, .wish = WISH_SEND },
	{ "write-imm", write_imm, PROTO, READS, NO_IMM },
	{ "write-imm-empty", write_imm_empty, PROTO, READS, NO_IMM },
	{ "write-past-the-end", write_past_the_end, CAUSE(ACCESS), READS },
	{ "read-what-is-to-write", read_what_is_to_write, CAUSE(ACCESS),
	  READS },
	{ "invalidate-not-agreed", invalidate_not_agreed, PROTO, READS },
	{ "invalidate-anything", invalidate_anything, CAUSE(ACCESS), READS },
	{ "invalidate-a-region", invalidate_a_region, CAUSE(ACCESS), READS },
	{ "write-anywhere", write_anywhere, CAUSE(ACCESS), READS },
	{ "read-anywhere", read_anywhere, CAUSE(ACCESS), READS },
	{ "atomic-anywhere", atomic_anywhere, CAUSE(ACCESS) | PROTO, READS,
	  .not_on_iwarp = "iWARP has no atomics" },
	{ "never-done", never_done, CAUSE(TIMEOUT), READS, .wish = WISH_SEND,
	  .then = WISH_CLOSE },
	{ "never-fetched", never_fetched, PROTO, READS, .wish = WISH_SEND,
	  .timed = true },
	{ NULL },
};
