/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory and descriptors that a child of fork(2) gives up. */
#ifndef RDMAMSG_LIB_FORKED_H
#define RDMAMSG_LIB_FORKED_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A forked child closes fd, which would else go on listening, or keep a
 * connection open, after the end of the parent.
 */
void rdmamsg__fd_own(int fd);
void rdmamsg__fd_disown(int fd);	/* before close(2); any fd */

/*
 * A forked child sees the memory as zeros. The kernel does that where it knows
 * MADV_WIPEONFORK. Elsewhere, and in emulators that ignore it, the child clears
 * the memory itself. Returns false if there is no memory.
 */
bool rdmamsg__wipe_on_fork(void *at, size_t size);
void rdmamsg__wipe_forget(const void *at);

/* Returns true in a child of the process that called rdmamsg__fork_forget(). */
bool rdmamsg__is_forked(void);
void rdmamsg__fork_forget(void);

#endif
