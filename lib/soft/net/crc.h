/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CRC-32 of Ethernet, which RoCE calls the invariant CRC when it leaves out
 * what routers change: IBTA volume 1, annex A17; Linux, rxe_icrc.c.
 */
#ifndef SOFT_NET_CRC_H
#define SOFT_NET_CRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The register after eight bytes of ones, which stand for the LRH. */
#define SOFT_CRC_SEED	0xdebb20e3u

/*
 * Returns the register behind the bytes. Neither end is complemented. Uses
 * carry-less multiplication if the processor has it.
 */
uint32_t soft_crc(uint32_t reg, const void *buf, size_t len);
/* The same without that instruction. */
uint32_t soft_crc_table(uint32_t reg, const void *buf, size_t len);

/*
 * Two bytes of a packet are unknown, and len bytes follow them. 'diff' is the
 * register that was received, exclusive-or the one with zeros for the unknown
 * bytes. Returns true if some value of the two bytes explains it.
 */
bool soft_crc_explains(uint32_t diff, size_t len);

#endif
