/* SPDX-License-Identifier: BSD-2-Clause */
/* CRC-32C (Castagnoli), as in iSCSI: RFC 3720, appendix B.4. */
#ifndef RDMAMSG_BASE_CRC32C_H
#define RDMAMSG_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/*
 * Returns the CRC of the bytes behind those of 'crc', which is 0 at the
 * beginning. Uses the instruction of the processor if there is one.
 */
uint32_t rdmamsg__crc32c(uint32_t crc, const void *buf, size_t len);
/* The same without the instruction. */
uint32_t rdmamsg__crc32c_table(uint32_t crc, const void *buf, size_t len);

#endif
