/* SPDX-License-Identifier: BSD-2-Clause */
/* The inlines of <rdmamsg/fast.h> as functions, for bindings and debuggers. */
#include <stddef.h>
#include <stdint.h>

struct rdmamsg;
struct rdmamsg_ep;
int rdmamsg_fast_send(struct rdmamsg_ep *ep, const void *buf, size_t len,
		      uint32_t tag);
int rdmamsg_fast_poll(struct rdmamsg *ctx);

#define RDMAMSG_INLINE
#define RDMAMSG_FAST_TWINS
#include <rdmamsg/fast.h>

/* A program compiled with another layout refers to another name. */
const char rdmamsg_fast_layout_3 = RDMAMSG_FAST_LAYOUT;
