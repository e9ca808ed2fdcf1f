/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The injector arms one call at a time, which fails once, after a random number
 * of calls. A failing ibv_poll_cq() or receive loses messages that the device
 * has acknowledged. No library could deliver them, so these calls never fail.
 */
#include "device/verbs_api.h"

#include <stdbool.h>
#include <stdint.h>

#include "../fault/faulty.h"
#include "worker.h"

#define AGAIN_MS	40	/* from one failure to the next */

static uint64_t armed_at;
static bool on;

static bool is_fair(enum faulty_call call)
{
	switch (call) {
	case FAULTY_poll_cq:
	case FAULTY_wc_recv:
	case FAULTY_close_device:
		return false;
	default:
		return faulty_count(call) > 0;
	}
}

/* Arms one of the calls that were made since the last time. */
static void arm(void)
{
	uint32_t from = rng_below(&w.rng, FAULTY_CALLS);

	armed_at = now_ms();
	for (uint32_t i = 0; i < FAULTY_CALLS; i++) {
		enum faulty_call call =
			(enum faulty_call)((from + i) % FAULTY_CALLS);

		if (!is_fair(call))
			continue;
		faulty_arm(call, 1 + rng_below(&w.rng, faulty_count(call)),
			   false);
		break;
	}
	faulty_count_start();
}

/* Without faults the table still counts objects that are not destroyed. */
void inject_start(void)
{
	rdmamsg__verbs = &faulty_verbs;
}

void inject_step(void)
{
	if (!(w.sc->harm & HARM_INJECT) || w.finishing)
		return;
	if (now_ms() - armed_at <= AGAIN_MS)
		return;
	w.j->injected += on && faulty_disarm();
	arm();
	on = true;
}

void inject_end(void)
{
	w.j->injected += faulty_disarm() && on;
	on = false;
}

const char *inject_leftovers(void)
{
	return faulty_leftovers();
}
