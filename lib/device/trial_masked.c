/* SPDX-License-Identifier: BSD-2-Clause */
/* Masked atomics, tried over a pair. */
#include "base/base.h"
#include "device/quirks.h"
#include "device/trial.h"

#include <stdint.h>

#include <rdmamsg/device.h>
#include <rdmamsg/endpoint.h>

int rdmamsg__try_masked(struct trial *t, struct rdmamsg_cap *ret)
{
	int err;

	if (rdmamsg__atomic_scope(&t->d) == RDMAMSG_ATOMIC_NONE)
		return rdmamsg__cap_untried(ret, RDMAMSG_CAP_ABSENT, 0,
					    "the device reports no atomics "
					    "(IBV_ATOMIC_NONE)");
	err = rdmamsg__pair_get(t);
	if (err && t->pair.no_path)
		return rdmamsg__cap_untried(ret, RDMAMSG_CAP_SOFTWARE,
					    sizeof(uint64_t), "by "
					    "compare-and-swap, which the "
					    "device reports; not tried: %s",
					    t->pair.text);
	if (!err)
		err = rdmamsg__trial_atomics(t);
	return err ? err : rdmamsg__cap_say(ret, RDMAMSG_CAP_SOFTWARE,
					    sizeof(uint64_t), "by "
					    "compare-and-swap, which worked");
}
