/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers to management datagrams (MADs) of InfiniBand. */
#ifndef SOFT_PRELOAD_MAD_H
#define SOFT_PRELOAD_MAD_H

#include <stdbool.h>
#include <stdint.h>

struct soft_dev;

#define MAD_SIZE	256

/*
 * Makes an answer of a request that a program sends to this LID. Returns false
 * if nobody answers: no port has the LID, or nobody serves the class.
 */
bool preload_mad(struct soft_dev *dev, uint16_t lid, uint8_t mad[MAD_SIZE]);

#endif
