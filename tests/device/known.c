/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Abilities that devices are known to have. A case that asks the device itself
 * would check nothing on a device that has lost an ability.
 */
#include "config.h"
#include "device.h"

#define SOFT_ETHERNET	(1u << 0)
#define SOFT_IB		(1u << 1)
#define SOFT_IWARP	(1u << 2)
#define BELOW		(1u << 3)	/* the soft HCA below libibverbs */

/* not listed: absent, or not known */
static const struct {
	const char *ability;
	unsigned int devices;
} known[] = {
#ifdef HAVE_MLX5DV
	{ DC, SOFT_ETHERNET | SOFT_IB | BELOW },
	{ DC_STREAMS, SOFT_ETHERNET | SOFT_IB | BELOW },
	{ INDIRECT_KEYS, SOFT_ETHERNET | SOFT_IB | BELOW },
	{ CROSS_CHANNEL, SOFT_ETHERNET | SOFT_IB | BELOW },
	{ RAW_REQUESTS, SOFT_ETHERNET | SOFT_IB | BELOW },
#endif
	/* libibverbs has no call for them */
	{ MASKED_ATOMICS, SOFT_ETHERNET | SOFT_IB },
	{ PATH_MIGRATION, SOFT_ETHERNET | SOFT_IB | BELOW },
};

/* The name and the environment say it, because the device itself is tested. */
static unsigned int device(void)
{
	const char *link = getenv("RDMAMSG_SOFT_LINK");

	if (strncmp(v->get_device_name(ctx->device), "soft", 4))
		return 0;
	if (link && !strcmp(link, "iwarp"))
		return SOFT_IWARP;
#ifdef CONFORM_INSTALLED
	return BELOW;
#else
	if (v != &rdmamsg__verbs_soft)
		return BELOW;
	return link && !strcmp(link, "ib") ? SOFT_IB : SOFT_ETHERNET;
#endif
}

bool has(const char *ability, bool reported)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(*known) && !reported; i++)
		if (!strcmp(known[i].ability, ability) &&
		    known[i].devices & device())
			fail(__FILE__, __LINE__, "%s has %s, and reports none",
			     v->get_device_name(ctx->device), ability);
	return reported;
}
