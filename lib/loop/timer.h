/* SPDX-License-Identifier: BSD-2-Clause */
/* Timers of the program, when their context is closed. */
#ifndef RDMAMSG_LIB_LOOP_TIMER_H
#define RDMAMSG_LIB_LOOP_TIMER_H

struct rdmamsg;

void rdmamsg__user_timers_stop(struct rdmamsg *ctx);
void rdmamsg__user_timers_free(struct rdmamsg *ctx);

#endif
