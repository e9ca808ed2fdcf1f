/* SPDX-License-Identifier: BSD-2-Clause */
/* Masked atomics, tried over a pair. */
#include "base/base.h"
#include "base/masked.h"
#include "device/masked.h"
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

/* An operation, and the operand before and after it. */
struct example {
	struct masked m;
	uint64_t before[MASKED_WORDS], after[MASKED_WORDS];
};

/* In the first word, a field of 8 bits would carry into the next. */
static const struct example addition = {
	.m = {
		.kind = MASKED_ADD, .value = { 1, 1, 0, 4 },
		.mask = { TOP | 1u << 31 | 1u << 7, TOP, TOP, TOP },
	},
	.before = { 0x01020304050607ff, 1, 2, 3 },
	.after = { 0x0102030405060700, 2, 2, 7 },
};

/* Bits that are not compared differ, and others are not swapped. */
static const struct example swap = {
	.m = {
		.kind = MASKED_SWAP, .value = { 0xaabb, 5, 6, 7 },
		.mask = { 0xff, UINT64_MAX, 1, 0 },
		.expected = { 0x04ffff, 1, 2, 0 },
		.compare = { 0xff0000, UINT64_MAX, 2, 0 },
	},
	.before = { 0x0102030405040708, 1, 2, 3 },
	.after = { 0x01020304050407bb, 5, 2, 3 },
};

static int wrong(const char *what)
{
	return rdmamsg__fail(-EIO, "%s gave a wrong result", what);
}

/*
 * Returns the bytes of an operand: those of the lower half of the first word, if
 * the operand has 4 bytes.
 */
static const uint8_t *operand(const uint64_t *words, uint32_t size)
{
	const bool half = size == sizeof(uint32_t);

	return (const uint8_t *)words +
	       (half && BYTE_ORDER == BIG_ENDIAN ? sizeof(uint32_t) : 0);
}

/*
 * Executes an example in an operand of 'size' bytes. The answer tells the byte
 * order in which the device answers.
 */
static int execute(struct trial *t, const struct example *e, uint32_t size,
		   const char *what, bool *ret_swapped)
{
	struct ibv_sge sge = { (uintptr_t)t->mem, size, t->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1,
		.wr.atomic = {
			.remote_addr = (uintptr_t)t->mem + TARGET,
			.rkey = t->mr->rkey,
		},
	};
	struct masked m = e->m;
	const uint8_t *before = operand(e->before, size);
	int err;

	m.size = size;
	memset(t->mem, 0, TRIAL_MEM);
	memcpy(t->mem + TARGET, before, size);
	err = rdmamsg__pair_masked(t, &wr, &m);
	if (err)
		return err;
	if (memcmp(t->mem + TARGET, operand(e->after, size), size))
		return wrong(what);
	*ret_swapped = memcmp(t->mem, before, size);
	if (*ret_swapped)
		masked_swap_bytes(t->mem, size);
	return memcmp(t->mem, before, size) ? wrong(what) : 0;
}

/* All answers must have the same byte order. */
static int try_size(struct trial *t, uint32_t size, struct masked_caps *caps)
{
	bool first, second;
	int err = rdmamsg__pair_get(t);

	if (!err)
		err = execute(t, &addition, size, "an addition of fields",
			      &first);
	if (!err)
		err = execute(t, &swap, size, "a swap of bits", &second);
	if (err)
		return err;
	if (first != second || (caps->sizes && first != caps->swapped))
		return rdmamsg__fail(-EIO, "masked atomics answer in different "
				     "byte orders");
	caps->swapped = first;
	caps->sizes |= size;
	return 0;
}

int rdmamsg__trial_masked(struct trial *t, struct masked_caps *ret)
{
	struct masked_caps caps = { .max_field = MASKED_FIELD };
	int err = 0;

	for (uint32_t size = 4; size <= MASKED_MAX && !err; size *= 2)
		err = rdmamsg__try(try_size(t, size, &caps));
	if (!caps.sizes)
		return rdmamsg__fail_again(err);
	*ret = caps;
	return 0;
}

/* ---- the ability ------------------------------------------------------- */

static uint32_t largest(const struct masked_caps *caps)
{
	uint32_t size = MASKED_MAX;

	while (size && !(caps->sizes & size))
		size /= 2;
	return size;
}

static void set_native(const struct masked_caps *caps,
		       struct rdmamsg_device_cap_attr *ret)
{
	ret->limits.ext_atomics = (struct rdmamsg_cap_ext_atomics){
		.sizes = caps->sizes, .max_field = caps->max_field,
		.unit = sizeof(uint32_t), .max_inline = largest(caps),
		.swapped = caps->swapped,
	};
}

/* One compare-and-swap. */
static void set_software(struct rdmamsg_device_cap_attr *ret)
{
	ret->limits.ext_atomics = (struct rdmamsg_cap_ext_atomics){
		.sizes = MASKED_SMALL, .max_field = MASKED_FIELD,
		.unit = sizeof(uint64_t),
	};
}

static int say_native(const struct masked_caps *caps,
		      struct rdmamsg_device_cap_attr *ret)
{
	const uint32_t size = largest(caps);

	set_native(caps, ret);
	return rdmamsg__cap_say(ret, RDMAMSG_CAP_NATIVE, size, "additions of "
				"fields and swaps of bits in up to %u bytes "
				"worked", size);
}

static int say_software(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	int err = rdmamsg__trial_atomics(t);

	set_software(ret);
	return err ? err : rdmamsg__cap_say(ret, RDMAMSG_CAP_SOFTWARE,
					    sizeof(uint64_t), "by "
					    "compare-and-swap, which worked");
}

static int say_untried(const struct trial *t,
		       struct rdmamsg_device_cap_attr *ret)
{
	const bool native = masked_has(&t->d.masked, MASKED_SMALL);

	if (native)
		set_native(&t->d.masked, ret);
	else
		set_software(ret);
	return rdmamsg__cap_untried(ret, native ? RDMAMSG_CAP_NATIVE :
				    RDMAMSG_CAP_SOFTWARE, native ?
				    largest(&t->d.masked) : sizeof(uint64_t),
				    "%s the device reports; not tried: %s",
				    native ? "as" : "by compare-and-swap, "
				    "which", t->pair.text);
}

int rdmamsg__try_masked(struct trial *t, struct rdmamsg_device_cap_attr *ret)
{
	struct masked_caps caps = { .sizes = 0 };
	int err;

	if (rdmamsg__atomic_scope(&t->d) == RDMAMSG_ATOMIC_NONE)
		return rdmamsg__cap_untried(ret, RDMAMSG_CAP_ABSENT, 0,
					    "the device reports no atomics "
					    "(IBV_ATOMIC_NONE)");
	err = rdmamsg__pair_get(t);
	if (err && t->pair.no_path)
		return say_untried(t, ret);
	if (!err)
		err = rdmamsg__trial_masked(t, &caps);
	if (masked_has(&caps, MASKED_SMALL))
		return say_native(&caps, ret);
	/* a device that reports what it has not is used as it reports */
	if (err && t->d.masked.sizes)
		return err;
	err = rdmamsg__pair_get(t);
	return err ? err : say_software(t, ret);
}
