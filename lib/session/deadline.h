/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines of operations, which rdmamsg_post() sets. A deadline stands in for
 * the cookie of its operation, so that only operations with one pay for it. It
 * lives until the program has been told that the operation has ended.
 */
#ifndef RDMAMSG_LIB_DEADLINE_H
#define RDMAMSG_LIB_DEADLINE_H

struct op_deadline;
struct rdmamsg_ep;
struct rdmamsg_op;
struct sessions;

/* Begins to run, for an operation that is about to be accepted. -ENOMEM */
int rdmamsg__deadline_new(struct rdmamsg_ep *ep, const struct rdmamsg_op *op,
			  struct op_deadline **ret);
/* The operation was not accepted. Frees the deadline. */
void rdmamsg__deadline_drop(struct rdmamsg_ep *ep, struct op_deadline *d);
/* The operation has ended. rdmamsg__deadline_tell() follows. */
void rdmamsg__deadline_stop(struct rdmamsg_ep *ep, struct op_deadline *d);
/* Frees the deadline, and calls the function of the program that is due. */
void rdmamsg__deadline_tell(struct rdmamsg_ep *ep, struct op_deadline *d,
			    int status);
/* Returns the cookie of the program, or NULL after on_complete. */
const void *rdmamsg__deadline_cookie(const struct op_deadline *d);
/* The context closes, and no operation is left. */
void rdmamsg__deadlines_free(struct sessions *s);

#endif
