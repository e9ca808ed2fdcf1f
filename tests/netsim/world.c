/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device without a fabric, a thread or descriptors. Its timers are in its
 * own lists; world_timers() does what the thread does when one expires.
 */
#include "netsim.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "soft/fabric/dev.h"
#include "soft/fabric/node.h"
#include "soft/fabric/shared.h"
#include "soft/fabric/upward.h"
#include "soft/soft.h"
#include "soft/verbs/ctx.h"

#define ROUNDS	64		/* as in thread.c */

uint64_t sim_now;
struct soft_dev *sim_dev;

static struct soft_fabric fabric;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_soft_node_open(struct soft_dev *dev);
void __wrap_soft_node_close(struct soft_dev *dev);
int __wrap_soft_thread_start(struct soft_dev *dev);
void __wrap_soft_thread_stop(struct soft_dev *dev);
void __wrap_soft_ring_bell(int fd);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	ts->tv_sec = (time_t)(sim_now / 1000000000u);
	ts->tv_nsec = (long)(sim_now % 1000000000u);
	return 0;
}

int __wrap_soft_node_open(struct soft_dev *dev)
{
	dev->fabric = &fabric;
	dev->count = fabric.counts[0].of;
	dev->guid = dev->device_guid = 0x0200000000000000ull;
	return 0;
}

void __wrap_soft_node_close(struct soft_dev *dev)
{
	dev->fabric = NULL;
}

/* A timerfd that is armed for time 1 is never armed again. */
int __wrap_soft_thread_start(struct soft_dev *dev)
{
	dev->timer_armed = 1;
	return 0;
}

void __wrap_soft_thread_stop(struct soft_dev *dev)
{
}

void __wrap_soft_ring_bell(int fd)
{
}

struct ibv_context *world_open(void)
{
	struct ibv_device **list;
	struct ibv_context *c;

	(void)setenv("RDMAMSG_SOFT_LINK", "ethernet", 1);
	(void)setenv("RDMAMSG_SOFT_NET", "all", 1);
	list = soft_get_device_list(NULL);
	c = soft_open_device(list[0]);
	soft_free_device_list(list);
	if (!c)
		sim_fail("the device does not open");
	sim_dev = soft_dev_of(c);
	return c;
}

static struct soft_timer *first_timer(void)
{
	struct soft_timer *first = NULL;

	for (int i = 0; i < SOFT_TIMER_LISTS; i++) {
		struct soft_timer *t;

		if (list_empty(&sim_dev->timers[i]))
			continue;
		t = list_first(&sim_dev->timers[i], struct soft_timer, node);
		if (!first || t->at < first->at)
			first = t;
	}
	return first;
}

uint64_t world_timer(void)
{
	const struct soft_timer *t = first_timer();

	return t ? t->at : SIM_NEVER;
}

static void progress(void)
{
	for (int i = 0; i < ROUNDS; i++)
		if (!soft_fabric_up->progress(sim_dev))
			return;
}

void world_progress(void)
{
	soft_lock(sim_dev);
	progress();
	soft_unlock(sim_dev);
}

void world_timers(void)
{
	struct soft_timer *t;

	soft_lock(sim_dev);
	(void)soft_fabric_up->progress(sim_dev);
	while ((t = first_timer()) && t->at <= sim_now) {
		soft_timer_stop(t);
		t->fn(sim_dev, t);
	}
	progress();
	soft_unlock(sim_dev);
}
