/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Damage to the device of the tests, in all processes that use it: rdma(8)
 * removes a device of the kernel, whose interface goes down, and
 * rdmamsg-soft-ctl(1) damages the soft HCA.
 */
#ifndef RDMAMSG_TESTS_INTEGRATION_HARM_H
#define RDMAMSG_TESTS_INTEGRATION_HARM_H

#include <stdbool.h>
#include <sys/types.h>

/* Finds the device. Call this function first. */
void harm_find(void);
const char *harm_device(void);

void harm_link(bool up); /* the device's port reports the change */
/* Works on the soft HCA only, while a process has the device open. */
void harm_port(unsigned int port, bool up);
/* The same for one process, to a state of rdmamsg-soft-ctl(1). */
void harm_port_of(pid_t pid, unsigned int port, const char *state);
/* Requests of one process are lost. What it receives is acknowledged. */
void harm_drop_of(pid_t pid, bool on);
void harm_silence(bool on); /* nothing passes, and no event reports that */

void harm_remove(void);			/* returns before the device has gone */
bool harm_removed(void);
void harm_add(void);

#endif
