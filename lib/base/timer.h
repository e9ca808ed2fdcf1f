/* SPDX-License-Identifier: BSD-2-Clause */
/* Timers of a context: one heap, one timerfd. */
#ifndef RDMAMSG_LIB_TIMER_H
#define RDMAMSG_LIB_TIMER_H

#include <stdint.h>

struct timer {
	uint64_t when;		/* ms, CLOCK_MONOTONIC */
	int pos;		/* in the heap, -1: idle */
	void (*fn)(struct timer *t);
};

struct timers {
	struct timer **heap;
	int count, room, promised;
	int fd;
	uint64_t armed;		/* what fd is set to, 0: nothing */
};

int rdmamsg__timers_init(struct timers *ts);
void rdmamsg__timers_fini(struct timers *ts);
void rdmamsg__timer_init(struct timer *t, void (*fn)(struct timer *t));
/* Cannot fail: room was made by rdmamsg__timers_reserve(). */
void rdmamsg__timer_set(struct timers *ts, struct timer *t, uint64_t ms);
void rdmamsg__timer_stop(struct timers *ts, struct timer *t);
/* Room for n more timers to run at once, and its return. */
int rdmamsg__timers_reserve(struct timers *ts, int n);
void rdmamsg__timers_release(struct timers *ts, int n);
int rdmamsg__timers_run(struct timers *ts);

#endif
