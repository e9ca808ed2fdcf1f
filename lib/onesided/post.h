/* SPDX-License-Identifier: BSD-2-Clause */
/* The program's description of an operation. */
#ifndef RDMAMSG_LIB_ONESIDED_POST_H
#define RDMAMSG_LIB_ONESIDED_POST_H

#include <rdmamsg/post.h>

/*
 * Copies the program's struct, and checks that its kind uses every field that is
 * set. name: of the public call. -EINVAL
 */
int rdmamsg__op_take(struct rdmamsg_op *op, const struct rdmamsg_op *given,
		     const char *name);

#endif
