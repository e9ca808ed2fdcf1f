/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that are tried over a pair of queue pairs. */
#include "base/base.h"
#include "base/layout.h"
#include "base/util.h"
#include "device/quirks.h"
#include "device/trial.h"
#include "device/umr.h"
#include "device/verbs_call.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/endpoint.h>

#define LEN		64u	/* bytes of a trial request */
#define TARGET		1024u	/* offset of what the peer reaches */
#define IMMEDIATE	0x1234abcdu

/* Writes LEN bytes at the offset, and 0 everywhere else. */
static void fill(struct trial *t, uint32_t offset)
{
	memset(t->mem, 0, TRIAL_MEM);
	for (uint32_t i = 0; i < LEN; i++)
		t->mem[offset + i] = (uint8_t)(i + 1);
}

static bool holds(const struct trial *t, uint32_t offset, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (t->mem[offset + i] != (uint8_t)(i + 1))
			return false;
	return true;
}

static struct ibv_sge source_sge(const struct trial *t)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)t->mem, .length = LEN, .lkey = t->mr->lkey,
	};
}

/* Tells that the device answers for an ability that could not be tried. */
static int untried(const struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	if (!t->pair.no_path)
		return rdmamsg__fail(t->pair.error, "%s", t->pair.text);
	return rdmamsg__cap_untried(ret, RDMAMSG_CAP_NATIVE, 0, "every "
				    "reliable connection has it; not tried: %s",
				    t->pair.text);
}

/* ---- sends ------------------------------------------------------------ */

static int no_inline(struct rdmamsg_device_cap_attr *ret)
{
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_SOFTWARE, 0, "the device "
				"takes no inline data; messages are copied "
				"into registered memory");
}

/* An lkey of 0 shows that the device does not read the memory itself. */
int rdmamsg__try_inline(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	struct ibv_sge sge = source_sge(t);
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE,
	};
	struct ibv_wc wc;
	int err = rdmamsg__pair_get(t);

	if (err && !t->pair.no_path)
		return err;
	if (!t->pair.max_inline)
		return no_inline(ret);
	if (err)
		return rdmamsg__cap_untried(ret, RDMAMSG_CAP_NATIVE,
					    t->pair.max_inline, "a queue pair "
					    "was granted %u bytes; not tried: "
					    "%s", t->pair.max_inline,
					    t->pair.text);
	fill(t, 0);
	sge.length = min(LEN, t->pair.max_inline);
	sge.lkey = 0;
	err = rdmamsg__pair_do(t, 0, &wr, true, &wc);
	if (err)
		return err;
	if (!holds(t, TRIAL_RECV, sge.length))
		return rdmamsg__fail(-EIO, "inline data arrived changed");
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, t->pair.max_inline,
				"a queue pair was granted %u bytes, and %u "
				"were sent", t->pair.max_inline, sge.length);
}

int rdmamsg__try_immediate(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htobe32(IMMEDIATE),
	};
	struct ibv_sge sge = source_sge(t);
	struct ibv_wc wc;
	int err = rdmamsg__pair_get(t);

	if (err && rdmamsg__is_iwarp(&t->d))
		return rdmamsg__cap_untried(ret, RDMAMSG_CAP_ABSENT, 0, "iWARP "
					    "has no immediate data (RFC 5040)");
	if (err)
		return untried(t, ret);
	fill(t, 0);
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.wr.rdma.remote_addr = (uintptr_t)t->mem + TARGET;
	wr.wr.rdma.rkey = t->mr->rkey;
	err = rdmamsg__pair_do(t, 0, &wr, true, &wc);
	if (err)
		return err;
	if (!(wc.wc_flags & IBV_WC_WITH_IMM) ||
	    wc.imm_data != htobe32(IMMEDIATE) || !holds(t, TARGET, LEN))
		return rdmamsg__fail(-EIO, "the immediate data of a write did "
				     "not arrive");
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 0, "a write with "
				"immediate data arrived");
}

/* ---- one-sided requests ----------------------------------------------- */

/* Copies LEN bytes from the beginning of the memory to TARGET, or back. */
static int copy(struct trial *t, enum ibv_wr_opcode op)
{
	struct ibv_sge sge = source_sge(t);
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = op,
		.wr.rdma = {
			.remote_addr = (uintptr_t)t->mem + TARGET,
			.rkey = t->mr->rkey,
		},
	};
	struct ibv_wc wc;
	int err = rdmamsg__pair_do(t, 0, &wr, false, &wc);

	if (!err && (!holds(t, 0, LEN) || !holds(t, TARGET, LEN)))
		return rdmamsg__fail(-EIO, "the data arrived changed");
	return err;
}

int rdmamsg__try_write(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	int err = rdmamsg__pair_get(t);

	if (err)
		return untried(t, ret);
	fill(t, 0);
	err = copy(t, IBV_WR_RDMA_WRITE);
	return err ? err : rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 0,
					    "a write arrived");
}

int rdmamsg__try_read(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	int err = rdmamsg__pair_get(t);

	if (err)
		return untried(t, ret);
	fill(t, TARGET);
	err = copy(t, IBV_WR_RDMA_READ);
	return err ? err : rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, 0,
					    "a read returned the data");
}

static int check_halves(const struct trial *t)
{
	if (memcmp(t->mem + TARGET, t->mem, LEN / 2) ||
	    memcmp(t->mem + TARGET + LEN, t->mem + LEN / 2, LEN / 2))
		return rdmamsg__fail(-EIO, "the blocks arrived changed");
	return 0;
}

/* Writes two halves to two blocks, as a layout of the peer needs it. */
static int scatter(struct trial *t)
{
	int err = 0;

	fill(t, 0);
	for (uint32_t at = 0; at < LEN && !err; at += LEN / 2) {
		struct ibv_sge sge = {
			(uintptr_t)t->mem + at, LEN / 2, t->mr->lkey,
		};
		struct ibv_send_wr wr = {
			.sg_list = &sge, .num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.wr.rdma = {
				.remote_addr = (uintptr_t)t->mem + TARGET +
					       2 * at,
				.rkey = t->mr->rkey,
			},
		};
		struct ibv_wc wc;

		err = rdmamsg__pair_do(t, 0, &wr, false, &wc);
	}
	return err ? err : check_halves(t);
}

/* Writes to the key of a layout of two blocks. */
static int scatter_to(struct trial *t, struct umr *umr)
{
	struct layout_source memory = {
		.rkey = t->mr->lkey, .addr = (uintptr_t)t->mem + TARGET,
		.len = 2 * LEN,
	};
	struct layout_group group = { .parts = 1, .rounds = 1 };
	struct layout_part part = {
		.len = LEN / 2, .dims = 1, .count = { 2 }, .stride = { LEN },
	};
	struct layout l = {
		.sources = 1, .groups = 1, .parts = 1, .source = &memory,
		.group = &group, .part = &part, .len = LEN,
	};
	struct ibv_sge sge = source_sge(t);
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
	};
	struct umr_key *key;
	struct ibv_wc wc;
	int err = rdmamsg__umr_define(umr, &l, IBV_ACCESS_LOCAL_WRITE |
				      IBV_ACCESS_REMOTE_WRITE, &key);

	if (err)
		return err;
	fill(t, 0);
	wr.wr.rdma.rkey = rdmamsg__umr_mr(key)->rkey;
	err = rdmamsg__pair_do(t, 0, &wr, false, &wc);
	(void)rdmamsg__umr_undefine(key);
	return err ? err : check_halves(t);
}

static int scatter_native(struct trial *t, uint32_t *ret_entries)
{
	struct umr *umr;
	int err = rdmamsg__umr_open(&t->d, t->d.pd, NULL, &umr);

	if (err)
		return err;
	err = scatter_to(t, umr);
	*ret_entries = rdmamsg__umr_entries(umr);
	rdmamsg__umr_close(umr);
	return err;
}

static void set_native(struct rdmamsg_cap_umr *ret, uint32_t entries)
{
	ret->entries = entries;
	ret->blocks = UMR_BLOCKS;
	ret->max_step = UINT16_MAX;
}

/* Says that layouts are possible in software. */
static int say_software(struct rdmamsg_device_cap_attr *ret, uint32_t most)
{
	char why[160];

	snprintf(why, sizeof(why), "%s", rdmamsg__text());
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_SOFTWARE, most, "a request "
				"for each block of the peer, which worked, and "
				"for up to %u blocks of this side; not native: "
				"%s", most, why);
}

int rdmamsg__try_layout(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	const uint32_t most = (uint32_t)min(t->d.attr.max_sge,
					    RDMAMSG_SEGMENTS_MAX);
	uint32_t entries;
	int err = rdmamsg__pair_get(t);

	ret->limits.umr = (struct rdmamsg_cap_umr){
		.parts = LAYOUT_PARTS, .depth = LAYOUT_DEPTH,
		.dims = LAYOUT_DIMS,
	};
	if (err && t->pair.no_path)
		return rdmamsg__cap_untried(ret, RDMAMSG_CAP_SOFTWARE, most,
					    "a request for each block of the "
					    "peer, and for up to %u blocks of "
					    "this side; not tried: %s", most,
					    t->pair.text);
	if (err)
		return err;
	if (!rdmamsg__try(scatter_native(t, &entries))) {
		set_native(&ret->limits.umr, entries);
		return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, most, "a "
					"request for a layout of the peer or, "
					"of more than %u blocks, of this "
					"side, through libmlx5, which worked",
					most);
	}
	err = rdmamsg__pair_get(t);
	if (!err)
		err = scatter(t);
	return err ? err : say_software(ret, most);
}

/* ---- atomics ---------------------------------------------------------- */

static const char *scope_text(enum rdmamsg_atomic scope)
{
	return scope == RDMAMSG_ATOMIC_HOST ?
	       "atomic with processors as well" :
	       "atomic within the same device";
}

/* Expects the value at TARGET to change from 'before' to 'after'. */
static int atomic(struct trial *t, struct ibv_send_wr *wr, uint64_t before,
		  uint64_t after)
{
	struct ibv_sge sge = source_sge(t);
	uint64_t found, left;
	struct ibv_wc wc;
	int err;

	sge.length = sizeof(found);
	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->wr.atomic.remote_addr = (uintptr_t)t->mem + TARGET;
	wr->wr.atomic.rkey = t->mr->rkey;
	err = rdmamsg__pair_do(t, 0, wr, false, &wc);
	if (err)
		return err;
	memcpy(&found, t->mem, sizeof(found));
	memcpy(&left, t->mem + TARGET, sizeof(left));
	if (found != before || left != after)
		return rdmamsg__fail(-EIO, "an atomic gave a wrong result");
	return 0;
}

int rdmamsg__trial_atomics(struct trial *t)
{
	struct ibv_send_wr add = {
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.wr.atomic.compare_add = 5,
	};
	struct ibv_send_wr swap = {
		.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = { .compare_add = 12, .swap = 1ull << 40 },
	};
	const uint64_t first = 7;
	int err;

	fill(t, 0);
	memcpy(t->mem + TARGET, &first, sizeof(first));
	err = atomic(t, &add, first, 12);
	return err ? err : atomic(t, &swap, 12, 1ull << 40);
}

/* Trying shows that atomics work. Only the device knows their scope. */
int rdmamsg__try_atomics(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	const enum rdmamsg_atomic scope = rdmamsg__atomic_scope(&t->d);
	int err;

	if (scope == RDMAMSG_ATOMIC_NONE)
		return rdmamsg__cap_untried(ret, RDMAMSG_CAP_ABSENT, 0,
					    "the device reports none "
					    "(IBV_ATOMIC_NONE)");
	err = rdmamsg__pair_get(t);
	if (err && t->pair.no_path)
		return rdmamsg__cap_untried(ret, RDMAMSG_CAP_NATIVE, scope,
					    "as the device reports: %s; not "
					    "tried: %s", scope_text(scope),
					    t->pair.text);
	if (!err)
		err = rdmamsg__trial_atomics(t);
	return err ? err : rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, scope,
					    "an addition and a swap worked; as "
					    "the device reports: %s",
					    scope_text(scope));
}
