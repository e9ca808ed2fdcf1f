/* SPDX-License-Identifier: BSD-2-Clause */
/* Checksums of Ethernet frames: of their headers, and of the frame itself. */
#ifndef SOFT_FABRIC_FRAME_SUM_H
#define SOFT_FABRIC_FRAME_SUM_H

#include <stdbool.h>
#include <stdint.h>

#include "soft/fabric/frame.h"

/* Writes the checksums of IPv4, and of TCP or UDP, if they are there. */
void soft_frame_sum(uint8_t *at, uint32_t len);
/* Returns true if the frame is of IPv4 and its checksums are right. */
bool soft_frame_sum_ok(const uint8_t *at, uint32_t len);
/* Writes the frame check sequence of IEEE 802.3 as it is on the wire. */
void soft_frame_fcs(const uint8_t *at, uint32_t len, uint8_t ret[FRAME_FCS]);

#endif
