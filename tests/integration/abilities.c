/* SPDX-License-Identifier: BSD-2-Clause */
#include "abilities.h"
#include "common.h"

#define SOFT_ETHERNET	(1u << 0)
#define SOFT_IB		(1u << 1)
#define SOFT_IWARP	(1u << 2)
#define RXE		(1u << 3)

/* not listed: absent, or not known */
static const struct {
	enum rdmamsg_cap_id cap;
	enum rdmamsg_cap_how how;
	unsigned int devices;
} known[] = {
	{ RDMAMSG_CAP_CHAINS, RDMAMSG_CAP_NATIVE, SOFT_ETHERNET | SOFT_IB },
	{ RDMAMSG_CAP_CHAINS, RDMAMSG_CAP_SOFTWARE, SOFT_IWARP | RXE },
	{ RDMAMSG_CAP_UMR, RDMAMSG_CAP_NATIVE, SOFT_ETHERNET | SOFT_IB },
	/* the soft HCA does without when RDMAMSG_SOFT_LAYOUTS is none */
	{ RDMAMSG_CAP_UMR, RDMAMSG_CAP_SOFTWARE,
	  SOFT_ETHERNET | SOFT_IB | RXE },
};

/* The environment says it. The library's own answer is what is tested. */
static unsigned int device(void)
{
	const char *link = getenv("RDMAMSG_SOFT_LINK");

	if (!test_on_soft())
		return !strncmp(test_device(), "rxe", 3) ? RXE : 0;
	if (link && !strcmp(link, "iwarp"))
		return SOFT_IWARP;
	return link && !strcmp(link, "ib") ? SOFT_IB : SOFT_ETHERNET;
}

void skip_without(enum rdmamsg_cap_id cap, enum rdmamsg_cap_how how,
		  const char *why)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].cap == cap && known[i].how == how &&
		    known[i].devices & device())
			fail_msg("%s has it, but: %s", test_device(), why);
	skip_because(why);
}
