/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SOFT_ENGINE_MASKED_H
#define SOFT_ENGINE_MASKED_H

struct masked;

/*
 * Executes a masked atomic on m->size bytes, which are aligned to that, and
 * copies their previous value to 'was'. An operand of up to 8 bytes is atomic
 * with respect to the processors. Of larger operands each word is, and the
 * lock of the device excludes all other requests to memory of this process. L
 */
void soft_masked_do(const struct masked *m, void *at, void *was);

#endif
