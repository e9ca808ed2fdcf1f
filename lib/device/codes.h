/* SPDX-License-Identifier: BSD-2-Clause */
/* Codes of verbs as numbers. */
#ifndef RDMAMSG_LIB_DEVICE_CODES_H
#define RDMAMSG_LIB_DEVICE_CODES_H

#include <stdint.h>

/* Returns the rate of a link in Mb/s, or 0 if a code is unknown. */
uint32_t rdmamsg__link_mbps(uint32_t width, uint32_t speed);
/* Returns the number of virtual lanes of max_vl_num, or 0. */
uint32_t rdmamsg__vl_count(uint32_t code);

#endif
