/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of the program for the key of a layout. Each ends once, in the loop
 * or with its owner, which is an endpoint or a target.
 */
#ifndef RDMAMSG_LIB_LAYOUT_ASK_H
#define RDMAMSG_LIB_LAYOUT_ASK_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct dev;
struct rdmamsg;
struct rdmamsg_layout;

struct layout_ask {
	struct rdmamsg_layout *layout;	/* NULL: changed, or gone */
	struct dev *dev;		/* status != 0: may be gone */
	void *buf;			/* of the program, as is ret_len */
	size_t *ret_len;
	void *owner;
	void *cookie;
	/* Calls the program. The memory of the ask is freed already. */
	void (*done)(const struct layout_ask *ask, int status);

	/* private */
	struct rdmamsg *ctx;
	struct list node;		/* of a job, or due */
	struct list of_ctx;
	int status;
};

/*
 * Copies the ask, which has its first fields, and begins. The layout is
 * defined. room: bytes of buf. -EINVAL, -EMSGSIZE, -ENOMEM, and errors of
 * registering.
 */
int rdmamsg__layout_ask(const struct layout_ask *ask, size_t room);
/* The job of these asks has ended. */
void rdmamsg__layout_asks_due(struct list *asks, int status);
/* The layout changes or ends. */
void rdmamsg__layout_asks_cancel(const struct rdmamsg_layout *layout);
/* The dev ends, and keys that no one has been told are of no use. */
void rdmamsg__layout_asks_dev(const struct dev *dev);
/* The owner begins to end: no key comes any more. */
void rdmamsg__layout_asks_drop(const struct rdmamsg *ctx, const void *owner);
/* The owner ends: tells the program now. */
void rdmamsg__layout_asks_end(const struct rdmamsg *ctx, const void *owner);
int rdmamsg__layout_asks_init(struct rdmamsg *ctx);

#endif
