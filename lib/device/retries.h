/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that a device has sent again, by its own counters. */
#ifndef RDMAMSG_LIB_RETRIES_H
#define RDMAMSG_LIB_RETRIES_H

#include <stdbool.h>
#include <stdint.h>

struct rdmamsg_device;

/*
 * Writes the sum over the ports of an open device, for all programs of the host,
 * since the device came. Returns false if the device does not count them. Reads
 * files of sysfs, for which a card may ask its firmware: not for the data path.
 * Any thread.
 */
bool rdmamsg__device_retries(const struct rdmamsg_device *d, uint64_t *ret);

#endif
