/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided operations. Each end has a board that the peer writes and reads:
 * slots of bytes, and words that count atomics.
 *
 * A write replaces a whole slot. Each of its bytes tells the slot's version,
 * which is the number of writes to this slot so far. So a board is right if all
 * its bytes have a version between the last that must be there and the last
 * that was accepted. The words are those of atomics.c.
 */
#include "model.h"
#include "sim.h"
#include "../post.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/rma.h>

#define ENTRIES		6		/* more than a request has */
#define COOKIES		0x10000u
#define UNTOUCHED	0xee		/* bytes before a read, and after use */

static const size_t lengths[SLOTS] = { 1, 40, 600, SLOT_MAX };

static struct {
	struct board board;
	uint8_t local[TOUCHES][SLOT_MAX];
	uint8_t values[MESSAGES][SLOT_MAX];
} memory[2];

/* ---- versions ---------------------------------------------------------- */

static void write_version(uint8_t *dst, uint32_t slot, uint32_t version)
{
	for (uint32_t i = 0; i < lengths[slot]; i++)
		dst[i] = (uint8_t)(version + i * 7 + slot);
}

/* The last write up to this one that is not taken back. */
static uint32_t last_kept(const struct end *e, uint32_t slot, uint32_t version)
{
	while (e->taken[slot][version])
		version--;
	return version;
}

static void check_version(const struct end *e, const char *what,
			  const uint8_t *bytes, uint32_t slot, uint32_t low,
			  uint32_t high)
{
	low = last_kept(e, slot, low);
	for (uint32_t i = 0; i < lengths[slot]; i++) {
		uint8_t version = (uint8_t)(bytes[i] - i * 7 - slot);

		if (version < low || version > high)
			sim_fail("%d: %s: byte %u of slot %u has version %u "
				 "instead of %u to %u", e->index, what, i, slot,
				 version, low, high);
		if (e->taken[slot][version])
			sim_fail("%d: %s: byte %u of slot %u has version %u, "
				 "which has timed out", e->index, what, i, slot,
				 version);
	}
}

/* The writes of e arrive there. */
struct board *board_for(const struct end *e)
{
	return &memory[!e->index].board;
}

void onesided_note(const struct end *e, uint8_t versions[SLOTS])
{
	for (uint32_t i = 0; i < SLOTS; i++)
		versions[i] = e->versions[i];
}

void onesided_check_noted(const struct end *from, const uint8_t *versions)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		check_version(from, "at the delivery of a message",
			      board_for(from)->slots[i], i, versions[i],
			      from->versions[i]);
}

/* ---- operations -------------------------------------------------------- */

bool end_can_touch(const struct end *e)
{
	return ends[0].connected && ends[1].connected && !e->closed &&
	       !e->closing && !e->blocked && e->touched < e->to_touch;
}

/* Cuts the memory into gather entries. Returns their number. */
static int cut(struct end *e, struct rdmamsg_sge *sge, uint8_t *mem,
	       uint32_t slot, bool copy)
{
	uint32_t count = 1 + sim_below(ENTRIES);
	size_t from = 0;

	for (uint32_t i = 0; i < count; i++) {
		size_t to = i + 1 == count ? lengths[slot] : from +
			    sim_below((uint32_t)(lengths[slot] - from) + 1);

		sge[i].data = mem + from;
		sge[i].len = to - from;
		sge[i].region = copy && sim_once_in(2) ? NULL : e->local;
		from = to;
	}
	return (int)count;
}

static uint32_t flags(void)
{
	return sim_once_in(4) ? (uint32_t)RDMAMSG_FENCE : 0;
}

static uint64_t offset_of(uint32_t slot)
{
	return offsetof(struct board, slots) + slot * SLOT_MAX;
}

/* A write with a fence follows: earlier reads must not see it. */
static void note_fence(struct end *e, uint32_t slot)
{
	for (uint32_t n = 0; n < e->touched; n++) {
		struct touch *t = &e->touch[n];

		if (t->kind == TOUCH_READ && t->slot == slot && !t->fence)
			t->fence = e->versions[slot];
	}
}

/* A write of this version was taken back. Its fence holds nothing back. */
static void take_back(struct end *e, uint32_t slot, uint32_t version)
{
	e->taken[slot][version] = true;
	for (uint32_t n = 0; n < e->touched; n++)
		if (e->touch[n].slot == slot && e->touch[n].fence == version)
			e->touch[n].fence = 0;
}

/* Returns the last version that a read may see now. */
static uint32_t last_for(const struct end *e, const struct touch *t)
{
	return t->fence ? t->fence - 1 : e->versions[t->slot];
}

static int do_write(struct end *e, struct touch *t, uint8_t *mem, void *cookie)
{
	struct rdmamsg_sge sge[ENTRIES];
	bool copy = lengths[t->slot] <= EAGER_MAX && sim_once_in(2);
	int count = cut(e, sge, mem, t->slot, copy), ret;
	uint32_t how = flags();
	struct rdmamsg_op op = op_entries(RDMAMSG_OP_WRITE, sge, count,
					  &ends[!e->index].key,
					  offset_of(t->slot), how, cookie);

	t->version = ++e->versions[t->slot];
	write_version(mem, t->slot, t->version);
	t->timed = late_give(e, &op);
	ret = t->timed ? rdmamsg_post(e->ep, &op) :
	      rdmamsg_write(e->ep, sge, count, &ends[!e->index].key,
			    offset_of(t->slot), how, cookie);
	if (!ret && how)
		note_fence(e, t->slot);
	if (ret)
		e->versions[t->slot]--;
	return ret;
}

static int do_read(struct end *e, struct touch *t, uint8_t *mem, void *cookie)
{
	struct rdmamsg_sge sge[ENTRIES];
	int count = cut(e, sge, mem, t->slot, false);
	struct rdmamsg_op op = op_entries(RDMAMSG_OP_READ, sge, count,
					  &ends[!e->index].key,
					  offset_of(t->slot), flags(), cookie);

	t->version = e->versions[t->slot];
	memset(mem, UNTOUCHED, lengths[t->slot]);
	t->timed = late_give(e, &op);
	return rdmamsg_post(e->ep, &op);
}

void end_touch(struct end *e)
{
	uint32_t n = e->touched++;
	struct touch *t = &e->touch[n];
	uint8_t *mem = memory[e->index].local[n];
	void *cookie = sim_once_in(4) ? NULL : (void *)(uintptr_t)(COOKIES + n);
	int ret;

	/* the call may complete the operation */
	*t = (struct touch){
		.kind = (enum touch_kind)sim_below(TOUCH_KINDS),
		.slot = sim_below(SLOTS),
		.cookie = cookie ? COOKIE_OUT : COOKIE_NONE,
	};
	e->calling = true;
	ret = t->kind == TOUCH_WRITE ? do_write(e, t, mem, cookie) :
	      t->kind == TOUCH_READ ? do_read(e, t, mem, cookie) :
	      atomic_begin(e, t, cookie);
	e->calling = false;
	sim_trace("%d: begins operation %u, kind %d, slot %u, version %u: %d\n",
		  e->index, n, t->kind, t->slot, t->version, ret);
	if (!ret)
		return;
	e->touched--;
	if (ret == -EAGAIN)
		e->blocked = true;
	else if (ret == -ESHUTDOWN)
		e->to_touch = e->touched;
	else
		sim_fail("%d: beginning operation %u: %d, %s", e->index, n, ret,
			 rdmamsg_error());
}

int onesided_write_imm(struct end *e, uint32_t n, void *cookie)
{
	struct rdmamsg_sge sge[ENTRIES];
	uint8_t *mem = memory[e->index].values[n];
	uint32_t slot = sim_below(SLOTS);
	bool copy = lengths[slot] <= EAGER_MAX && sim_once_in(2);
	int count = cut(e, sge, mem, slot, copy), ret;
	uint32_t how = flags();

	write_version(mem, slot, ++e->versions[slot]);
	onesided_note(e, e->out[n].versions);
	ret = post_notify(e->ep, sge, count, &ends[!e->index].key,
			  offset_of(slot), n, how, cookie);
	if (!ret && how)
		note_fence(e, slot);
	sim_trace("%d: writes version %u of slot %u before value %u: %d\n",
		  e->index, e->versions[slot], slot, n, ret);
	if (ret)
		e->versions[slot]--;
	return ret;
}

/* ---- completions ------------------------------------------------------- */

static void check_written(struct end *e, const struct touch *t)
{
	check_version(e, "a completed write", board_for(e)->slots[t->slot],
		      t->slot, t->version, e->versions[t->slot]);
	if (t->version > e->sure[t->slot])
		e->sure[t->slot] = t->version;
}

/* Nothing of an operation that was taken back has come, nor comes later. */
static void check_untouched(const struct end *e, uint32_t n)
{
	const uint8_t *mem = memory[e->index].local[n];

	if (e->touch[n].kind >= TOUCH_ADD) {
		atomic_check_untouched(e, &e->touch[n]);
		return;
	}
	if (e->touch[n].kind == TOUCH_WRITE)
		return;		/* check_version() finds it */
	for (uint32_t i = 0; i < lengths[e->touch[n].slot]; i++)
		if (mem[i] != UNTOUCHED)
			sim_fail("%d: read %u has timed out, and wrote byte "
				 "%u", e->index, n, i);
}

static void check_status(const struct end *e, uint32_t n, int status)
{
	if (status && !(status == -ECANCELED && aborted))
		sim_fail("%d: operation %u has status %d: %s", e->index, n,
			 status, rdmamsg_ep_reason(e->ep)->text);
}

/* The operation has ended. */
static void ended(struct end *e, uint32_t n, int status)
{
	struct touch *t = &e->touch[n];
	uint8_t *mem = memory[e->index].local[n];

	t->status = status;
	totals.operations++;
	if (status == RDMAMSG_IN_DOUBT && t->kind >= TOUCH_ADD) {
		totals.doubts++;
		return;
	}
	if (status == RDMAMSG_TIMED_OUT) {
		if (t->kind == TOUCH_WRITE)
			take_back(e, t->slot, t->version);
		check_untouched(e, n);
		return;
	}
	check_status(e, n, status);
	if (status)
		return;
	if (t->kind >= TOUCH_ADD) {
		atomic_check_result(e, t);
		return;
	}
	if (t->kind == TOUCH_READ)
		check_version(e, "a read", mem, t->slot, t->version,
			      last_for(e, t));
	else if (ends_prove_writes())
		check_written(e, t);
	/* finds a later use of this memory */
	memset(mem, UNTOUCHED, lengths[t->slot]);
}

bool onesided_complete(struct end *e, void *cookie, int status)
{
	uint32_t n = (uint32_t)((uintptr_t)cookie - COOKIES);
	struct touch *t;

	if ((uintptr_t)cookie < COOKIES)
		return false;
	sim_trace("%d: completes operation %u, status %d\n", e->index, n,
		  status);
	if (n >= e->touched)
		sim_fail("%d: operation %u never began", e->index, n);
	t = &e->touch[n];
	if (t->cookie != COOKIE_OUT)
		sim_fail("%d: operation %u completes %s", e->index, n,
			 t->cookie != COOKIE_NONE ? "twice" :
			 "without a cookie");
	if (late_complete(e, &t->cookie, t->timed, status))
		ended(e, n, status);
	return true;
}

bool onesided_late(struct end *e, void *cookie, int status)
{
	uint32_t n = (uint32_t)((uintptr_t)cookie - COOKIES);

	if ((uintptr_t)cookie < COOKIES)
		return false;
	sim_trace("%d: ends operation %u late, status %d\n", e->index, n,
		  status);
	if (n >= e->touched || e->touch[n].cookie != COOKIE_OVERDUE)
		sim_fail("%d: operation %u is late, but not overdue",
			 e->index, n);
	e->touch[n].cookie = COOKIE_BACK;
	if (status == RDMAMSG_TIMED_OUT)
		sim_fail("%d: operation %u is overdue, then taken back",
			 e->index, n);
	ended(e, n, status);
	return true;
}

/* ---- from open to close ------------------------------------------------ */

static void must(int ret, const char *what)
{
	if (ret < 0)
		sim_fail("%s: %s", what, rdmamsg_error());
}

void onesided_open(struct end *e)
{
	struct board *b = &memory[e->index].board;

	memset(b->words, 0, sizeof(b->words));
	memset(b->swaps, 0, sizeof(b->swaps));
	for (uint32_t i = 0; i < SLOTS; i++)
		write_version(b->slots[i], i, 0);
	if (sim_once_in(2))
		e->to_touch = sim_below(TOUCHES + 1);
	must(rdmamsg_region_create(e->ctx, b, sizeof(*b), RDMAMSG_ACCESS_READ |
				   RDMAMSG_ACCESS_WRITE |
				   RDMAMSG_ACCESS_ATOMIC, &e->board),
	     "creating the region of a board");
	must(rdmamsg_region_create(e->ctx, memory[e->index].local,
				   sizeof(memory[0]) -
				   offsetof(typeof(memory[0]), local),
				   RDMAMSG_ACCESS_LOCAL_WRITE, &e->local),
	     "creating the region of local memory");
}

void onesided_connected(struct end *e)
{
	must(rdmamsg_region_register(e->local, e->ep), "registering memory");
	must(rdmamsg_region_register(e->bytes, e->ep), "registering the bytes");
	must(rdmamsg_region_get_key(e->board, e->ep, &e->key),
	     "making the key of a board");
}

void onesided_check(const struct end *e)
{
	for (uint32_t n = 0; n < e->touched; n++) {
		const struct touch *t = &e->touch[n];

		if (t->cookie == COOKIE_OUT || t->cookie == COOKIE_OVERDUE)
			sim_fail("%d: operation %u has not completed", e->index,
				 n);
		if (t->status == RDMAMSG_TIMED_OUT)
			check_untouched(e, n);
		if (t->kind == TOUCH_READ && t->cookie == COOKIE_NONE &&
			 !aborted)
			check_version(e, "a read without a cookie",
				      memory[e->index].local[n], t->slot,
				      t->version, last_for(e, t));
	}
	for (uint32_t i = 0; i < SLOTS; i++)
		check_version(e, "at the end", board_for(e)->slots[i], i,
			      aborted ? e->sure[i] : e->versions[i],
			      e->versions[i]);
	atomics_check(e);
}
