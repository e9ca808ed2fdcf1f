/* SPDX-License-Identifier: BSD-2-Clause */
#include "config.h"
#include "abilities.h"
#include "common.h"

#include <infiniband/verbs.h>
#include <rdmamsg/diag.h>

#define SOFT_ETHERNET	(1u << 0)
#define SOFT_IB		(1u << 1)
#define SOFT_IWARP	(1u << 2)
#define RXE		(1u << 3)
#define SOFT		(SOFT_ETHERNET | SOFT_IB)	/* all but iWARP */

/* not listed: absent, or not known */
static const struct {
	enum rdmamsg_cap_id cap;
	enum rdmamsg_cap_how how;
	unsigned int devices;
} known[] = {
	{ RDMAMSG_CAP_ATOMICS, RDMAMSG_CAP_NATIVE, SOFT | RXE },
	{ RDMAMSG_CAP_SRQ, RDMAMSG_CAP_NATIVE, SOFT | SOFT_IWARP | RXE },
	{ RDMAMSG_CAP_CHAINS, RDMAMSG_CAP_SOFTWARE, SOFT_IWARP | RXE },
	/* the soft HCA does without when RDMAMSG_SOFT_LAYOUTS is none */
	{ RDMAMSG_CAP_UMR, RDMAMSG_CAP_SOFTWARE, SOFT | RXE },
#ifdef HAVE_MLX5DV
	{ RDMAMSG_CAP_CHAINS, RDMAMSG_CAP_NATIVE, SOFT },
	{ RDMAMSG_CAP_DC, RDMAMSG_CAP_NATIVE, SOFT },
	{ RDMAMSG_CAP_UMR, RDMAMSG_CAP_NATIVE, SOFT },
#endif
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

static bool is_known(enum rdmamsg_cap_id cap, enum rdmamsg_cap_how how)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].cap == cap && known[i].how == how)
			return known[i].devices & device();
	return false;
}

bool test_ability(enum rdmamsg_cap_id cap, enum rdmamsg_cap_how how, bool seen)
{
	struct rdmamsg_device_cap_attr c = { .size = sizeof(c) };

	if (seen || !is_known(cap, how))
		return seen;
	(void)rdmamsg_device_cap_query(test_device(), cap, &c);
	fail_msg("%s has %s, %s, but the library: %s", test_device(), c.name,
		 rdmamsg_name(RDMAMSG_NAME_CAP_HOW, how), c.reason);
	return false;
}

bool test_has(enum rdmamsg_cap_id cap, enum rdmamsg_cap_how how)
{
	struct rdmamsg_device_cap_attr c = { .size = sizeof(c) };

	assert_int_equal(rdmamsg_device_cap_query(test_device(), cap, &c), 0);
	return test_ability(cap, how, c.how == how);
}

/* A device of the kernel stays what it is, and to ask it takes siw long. */
bool test_iwarp(void)
{
	static char asked[64];
	static bool answer;
	struct rdmamsg_device_attr attr = { .size = sizeof(attr) };
	unsigned int is = device();
	bool seen;

	if (!test_on_soft() && !strcmp(asked, test_device()))
		return answer;
	if (rdmamsg_device_query(test_device(), &attr))
		return false;
	seen = attr.transport == IBV_TRANSPORT_IWARP;
	if (is && seen != (is == SOFT_IWARP))
		fail_msg("the library takes %s for %s", test_device(),
			 seen ? "iWARP" : "another transport");
	snprintf(asked, sizeof(asked), "%s", test_device());
	return answer = seen;
}
