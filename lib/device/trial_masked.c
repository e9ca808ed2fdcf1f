/* SPDX-License-Identifier: BSD-2-Clause */
/* Masked atomics, tried over a pair. */
#include "base/base.h"
#include "base/masked.h"
#include "device/quirks.h"
#include "device/trial.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>
#include <rdmamsg/endpoint.h>

#define TARGET	1024u	/* offset of the operand */
#define TOP	(1ull << 63)

/* An addition to 32 bytes, in which one field would carry into another. */
static int add_fields(struct trial *t)
{
	static const uint64_t before[MASKED_WORDS] = { 0xffff, 1, 2, 3 };
	static const uint64_t after[MASKED_WORDS] = { 0xff00, 2, 2, 7 };
	const struct masked m = {
		.size = sizeof(before), .kind = MASKED_ADD,
		.value = { 1, 1, 0, 4 },
		.mask = { TOP | 1u << 7, TOP, TOP, TOP },
	};
	struct ibv_sge sge = {
		(uintptr_t)t->mem, sizeof(before), t->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1,
		.wr.atomic = {
			.remote_addr = (uintptr_t)t->mem + TARGET,
			.rkey = t->mr->rkey,
		},
	};
	int err;

	memset(t->mem, 0, TRIAL_MEM);
	memcpy(t->mem + TARGET, before, sizeof(before));
	err = rdmamsg__pair_masked(t, &wr, &m);
	if (err)
		return err;
	if (t->d.masked.swapped)
		masked_swap_bytes(t->mem, sizeof(before));
	if (memcmp(t->mem, before, sizeof(before)) ||
	    memcmp(t->mem + TARGET, after, sizeof(after)))
		return rdmamsg__fail(-EIO, "an addition of fields gave a wrong "
				     "result");
	return 0;
}

static int say_native(struct trial *t, struct rdmamsg_cap *ret)
{
	int err = add_fields(t);

	return err ? err : rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE,
					    MASKED_MAX, "an addition of fields "
					    "in %u bytes worked", MASKED_MAX);
}

static int say_software(struct trial *t, struct rdmamsg_cap *ret)
{
	int err = rdmamsg__trial_atomics(t);

	return err ? err : rdmamsg__cap_say(ret, RDMAMSG_CAP_SOFTWARE,
					    sizeof(uint64_t), "by "
					    "compare-and-swap, which worked");
}

int rdmamsg__try_masked(struct trial *t, struct rdmamsg_cap *ret)
{
	const bool native = rdmamsg__has_masked(&t->d);
	int err;

	if (rdmamsg__atomic_scope(&t->d) == RDMAMSG_ATOMIC_NONE)
		return rdmamsg__cap_untried(ret, RDMAMSG_CAP_ABSENT, 0,
					    "the device reports no atomics "
					    "(IBV_ATOMIC_NONE)");
	err = rdmamsg__pair_get(t);
	if (err && t->pair.no_path)
		return rdmamsg__cap_untried(ret, native ? RDMAMSG_CAP_NATIVE :
					    RDMAMSG_CAP_SOFTWARE, native ?
					    MASKED_MAX : sizeof(uint64_t), "%s "
					    "the device reports; not tried: %s",
					    native ? "as" : "by "
					    "compare-and-swap, which",
					    t->pair.text);
	if (err)
		return err;
	return native ? say_native(t, ret) : say_software(t, ret);
}
