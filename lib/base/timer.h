/* SPDX-License-Identifier: BSD-2-Clause */
/* The timers of a context: one heap, one timerfd. */
#ifndef RDMAMSG_LIB_TIMER_H
#define RDMAMSG_LIB_TIMER_H

#include <stdint.h>

struct timer {
	uint64_t when;		/* us, CLOCK_MONOTONIC */
	int pos;		/* in the heap; -1: not running */
	void (*fn)(struct timer *t);
};

struct timers {
	struct timer **heap;
	int count, room, promised;
	int fd;
	uint64_t armed;		/* us, time that fd is set to; 0: none */
};

int rdmamsg__timers_init(struct timers *ts);
void rdmamsg__timers_fini(struct timers *ts);
void rdmamsg__timer_init(struct timer *t, void (*fn)(struct timer *t));
/* Cannot fail, because rdmamsg__timers_reserve() has made room. */
void rdmamsg__timer_set_us(struct timers *ts, struct timer *t, uint64_t us);
static inline void rdmamsg__timer_set(struct timers *ts, struct timer *t,
				      uint64_t ms)
{
	rdmamsg__timer_set_us(ts, t, ms * 1000);
}

/* Makes it due at this time, unless it is due earlier. */
void rdmamsg__timer_by(struct timers *ts, struct timer *t, uint64_t us);

/* Returns when it is due or, if it does not run, when it was. */
static inline uint64_t rdmamsg__timer_ms(const struct timer *t)
{
	return t->when / 1000;
}

void rdmamsg__timer_stop(struct timers *ts, struct timer *t);
/*
 * Reserves room for n more running timers. rdmamsg__timers_release() undoes it.
 */
int rdmamsg__timers_reserve(struct timers *ts, int n);
void rdmamsg__timers_release(struct timers *ts, int n);
int rdmamsg__timers_run(struct timers *ts);
/*
 * For a program that polls: runs what is due without a system call. The
 * descriptor stays readable, until rdmamsg__timers_run().
 */
int rdmamsg__timers_poll(struct timers *ts);

#endif
