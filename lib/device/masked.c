/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the masked atomics of an open device, once. */
#include "device/masked.h"

#include "base/base.h"
#include "device/device.h"
#include "device/quirks.h"
#include "device/trial.h"
#include "device/verbs_call.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include <infiniband/verbs.h>
#include <rdmamsg/device.h>

/*
 * ms of all requests, because a loop waits for them. A card takes microseconds
 * for each.
 */
#define TRIAL_MS	100u

/*
 * Returns true if the answer holds. Without a path to itself, the device may
 * have one later. A device that does not deliver is not asked again, because
 * that takes TRIAL_MS.
 */
static bool is_final(const struct trial *t)
{
	return !t->pair.no_path || t->pair.error == -EHOSTUNREACH ||
	       t->pair.error == -ETIMEDOUT;
}

/*
 * The trial has the device open for itself. So nothing of it reaches the events
 * and completions of others.
 */
static int find(const struct rdmamsg_device *d, struct masked_caps *ret,
		bool *final)
{
	struct ibv_context *verbs;
	struct trial t;
	int err = rdmamsg__open_by_name(d->v, d->name, &verbs);

	if (!err)
		err = rdmamsg__trial_open(d->v, verbs, &t);
	*final = false;
	if (err)
		return err;
	t.until = rdmamsg__now_ms() + TRIAL_MS;
	err = rdmamsg__trial_masked(&t, ret);
	*final = is_final(&t);
	rdmamsg__trial_close(&t);
	return err;
}

/* Returns true if no trial can find masked atomics. */
static bool is_hopeless(const struct rdmamsg_device *d)
{
	return !d->v->mlx5_is_supported ||
	       !d->v->mlx5_is_supported(d->verbs->device) ||
	       rdmamsg__atomic_scope(d) == RDMAMSG_ATOMIC_NONE;
}

static bool find_out(struct rdmamsg_device *d)
{
	bool final = true;

	if (d->v->query_masked)
		rdmamsg__v_query_masked(d->v, d->verbs, &d->masked);
	else if (!is_hopeless(d) &&
		 rdmamsg__try(find(d, &d->masked, &final)))
		log_info("device %s: masked atomics in software: %s", d->name,
			 rdmamsg__text());
	return final;
}

struct masked_caps rdmamsg__device_masked(struct rdmamsg_device *d)
{
	struct masked_caps ret;

	if (d->masked_known)
		return d->masked;
	(void)pthread_mutex_lock(&d->masked_lock);
	if (!d->masked_known)
		d->masked_known = find_out(d);
	ret = d->masked;
	(void)pthread_mutex_unlock(&d->masked_lock);
	return ret;
}
