/* SPDX-License-Identifier: BSD-2-Clause */
/* The device's thread: descriptors, timers, sleeping. */
#ifndef SOFT_FABRIC_THREAD_H
#define SOFT_FABRIC_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct soft_dev;

#define SOFT_TIMER_LISTS 64

struct soft_timer {
	struct list node;		/* in dev->timers */
	uint64_t at;			/* ns, CLOCK_MONOTONIC */
	void (*fn)(struct soft_dev *dev, struct soft_timer *t);	/* L */
};

/* A descriptor in the thread's epoll set. */
struct soft_watch {
	int fd;
	bool rests;			/* soft_watch_rest() */
	void (*fn)(struct soft_dev *dev, struct soft_watch *w,
		   uint32_t events);	/* L */
};

int soft_thread_start(struct soft_dev *dev);
void soft_thread_stop(struct soft_dev *dev);

int soft_watch_add(struct soft_dev *dev, struct soft_watch *w, int fd);	/* L */
void soft_watch_mod(struct soft_dev *dev, struct soft_watch *w,
		    uint32_t events);
void soft_watch_del(struct soft_dev *dev, struct soft_watch *w);	/* L */
/*
 * Call it after accept() has failed because no descriptor is left. Ignores the
 * listener for a moment. Clients wait in its backlog. Reads errno. L
 */
void soft_watch_rest(struct soft_dev *dev, struct soft_watch *w);
/*
 * accept() for a client that is answered and closed at once. If no descriptor
 * is free, uses the spare descriptor. Call soft_spare_put() afterwards. L
 */
int soft_spare_accept(struct soft_dev *dev, int listener);
void soft_spare_put(struct soft_dev *dev, int fd);

uint64_t soft_now(void);		/* ns, CLOCK_MONOTONIC */
void soft_timer_set(struct soft_dev *dev, struct soft_timer *t, uint64_t ns);
void soft_timer_stop(struct soft_timer *t);

/* The program polls: polls make progress, and peers ring no doorbells. L */
void soft_cover(struct soft_dev *dev);
/* The program is about to sleep: peers ring doorbells again. L */
void soft_uncover(struct soft_dev *dev);
/*
 * The program is about to wait for dev->near: peers ring that doorbell, so that
 * one thread wakes for a message and not two. Returns false if more records
 * arrive, so that it must not wait. L
 */
bool soft_attend(struct soft_dev *dev);
/* The program has woken, and from now on may do something else. L */
void soft_attend_end(struct soft_dev *dev);
/*
 * Called by polls, now and then. If the thread has not run since the last call,
 * handles the events that wait for the thread. L
 */
void soft_stand_in(struct soft_dev *dev);
/*
 * From now on this device wants a doorbell for every acknowledgement, because
 * it waits for one that its request did not ask for. This is rare. L
 */
void soft_heed(struct soft_dev *dev);
/* Returns the value for `sleeping` in struct soft_ring_shm. */
uint32_t soft_sleeps(const struct soft_dev *dev);

#endif
