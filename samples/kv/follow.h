/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef KV_FOLLOW_H
#define KV_FOLLOW_H

#include <stdint.h>

/*
 * Prints each change of the server's table. Returns 0 when change 'until' is made,
 * and has printed the copy then; 0: never returns.
 */
int follow(const char *host, const char *port, uint64_t until);

#endif
