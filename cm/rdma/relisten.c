/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listeners whose device was removed. No event tells every process that an
 * address has a device again, so such a listener tries to bind once a second.
 */
#include "base/base.h"
#include "base/ctx.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/timer.h"
#include "base/util.h"
#include "cm/connect.h"
#include "device/choose.h"
#include "device/verbs_call.h"

#include "cm/rdma/cm.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>

#include <rdmamsg/rdmamsg.h>

#define AGAIN_FIRST_MS	100u
#define AGAIN_LAST_MS	1000u

static void wait_for_device(struct rdmamsg_listener *l)
{
	rdmamsg__timer_set(&l->ctx->loop.timers, &l->again.timer,
			   l->again.wait_ms);
	l->again.wait_ms = min(2 * l->again.wait_ms, AGAIN_LAST_MS);
}

/* The callback may close the listener. */
static void try_again(struct timer *t)
{
	struct rdmamsg_listener *l =
		list_entry(t, struct rdmamsg_listener, again.timer);
	const struct verbs_api *v = l->again.v;

	if (rdmamsg__try(rdmamsg__cm_listen_at(
			l, v, (struct sockaddr *)&l->again.at, false,
			l->ids[rdmamsg__is_soft(v)]))) {
		wait_for_device(l);
		return;
	}
	l->dead = false;
	log_info("listener %p: its device is back, listening on port %u",
		 (void *)l, l->port);
	rdmamsg__tell(&l->ctx->loop, l->opts.on_back, l);
}

int rdmamsg__relisten_init(struct rdmamsg_listener *l)
{
	if (l->again.reserved)
		return 0;
	if (rdmamsg__timers_reserve(&l->ctx->loop.timers, 1))
		return rdmamsg__fail(-ENOMEM, "no memory for a listener");
	rdmamsg__timer_init(&l->again.timer, try_again);
	l->again.reserved = true;
	return 0;
}

void rdmamsg__relisten_soon(struct rdmamsg_listener *l,
			    const struct verbs_api *v)
{
	l->again.v = v;
	l->again.wait_ms = AGAIN_FIRST_MS;
	wait_for_device(l);
}

void rdmamsg__relisten_end(struct rdmamsg_listener *l)
{
	if (!l->again.reserved)
		return;
	rdmamsg__timer_stop(&l->ctx->loop.timers, &l->again.timer);
	rdmamsg__timers_release(&l->ctx->loop.timers, 1);
	l->again.reserved = false;
}
