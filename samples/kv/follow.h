/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef KV_FOLLOW_H
#define KV_FOLLOW_H

#include <stdint.h>

/*
 * Prints each change of the server's table. When change 'until' is made, prints
 * the copy and returns 0. With 'until' 0 it goes on without end.
 */
int follow(const char *host, const char *port, uint64_t until);

#endif
