/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/util.h"
#include "group/pace.h"

#include <stdbool.h>
#include <stdint.h>

#define SECOND	1000000000u	/* ns */
#define LEAST	16u		/* smallest burst, tokens */

void rdmamsg__pace_init(struct pace *p, uint32_t rate, uint64_t now)
{
	*p = (struct pace){ .rate = rate, .when = now };
	p->burst = rate ? max(rate / 500, LEAST) : UINT32_MAX;
	p->tokens = p->burst;
}

bool rdmamsg__pace_refill(struct pace *p, uint64_t now)
{
	/* for at most a second, the product below fits in 64 bits */
	uint64_t passed = min(now - p->when, (uint64_t)SECOND);
	uint64_t come;

	if (!p->rate)
		return true;
	if (p->when > now)
		return false;		/* it owes some */
	come = passed * p->rate / SECOND;
	if (come >= p->burst - p->tokens) {
		p->tokens = p->burst;
		p->when = now;
		return true;
	}
	p->tokens += (uint32_t)come;
	p->when += come * SECOND / p->rate;
	return p->tokens;
}

void rdmamsg__pace_owe(struct pace *p, uint32_t count)
{
	p->tokens = 0;
	p->when += (uint64_t)count * SECOND / p->rate;
}

uint32_t rdmamsg__pace_wait(const struct pace *p)
{
	uint32_t half = p->burst / 2;

	if (!p->rate || p->tokens >= half)
		return 1;
	return (uint32_t)((uint64_t)(half - p->tokens) * 1000000 / p->rate) + 1;
}
