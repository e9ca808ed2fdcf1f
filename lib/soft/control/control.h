/* SPDX-License-Identifier: BSD-2-Clause */
/* Orders of rdmamsg-soft-ctl(1), as the nodes execute them. */
#ifndef SOFT_CONTROL_CONTROL_H
#define SOFT_CONTROL_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "soft/control/soft_ctl.h"
#include "soft/fabric/msg.h"

struct soft_dev;

enum soft_ctl_op {
	SOFT_CTL_NODE = 1, SOFT_CTL_QPS, SOFT_CTL_PORT, SOFT_CTL_FAULTS,
	SOFT_CTL_REFUSE, SOFT_CTL_REMOVE, SOFT_CTL_ADD, SOFT_CTL_EVENT,
	SOFT_CTL_GROUPS, SOFT_CTL_SET, SOFT_CTL_OBJECTS,
};
#define SOFT_CTL_PAGE	8		/* elements of one answer */
#define SOFT_CTL_OBJECT_PAGE	4

/* An order, and its answer on the same socket. The socket is no wire. */
struct soft_ctl_msg {
	struct soft_msg hdr;
	uint32_t op;
	int32_t result;			/* answer: 0 or -errno */
	uint32_t arg[3];
	uint32_t fresh;			/* apply to later nodes as well */
	uint64_t value;			/* of SOFT_CTL_SET */
	union {
		struct soft_ctl_faults faults;
		struct soft_ctl_node node;
		struct soft_ctl_qp qps[SOFT_CTL_PAGE];
		struct soft_ctl_group groups[SOFT_CTL_PAGE];
		struct soft_ctl_object objects[SOFT_CTL_OBJECT_PAGE];
	};
};
_Static_assert(sizeof(struct soft_ctl_msg) <= SOFT_MSG_MAX, "one datagram");

/* Executes an order and answers. Returns 0 or -errno: close fd. L */
int soft_ctl_asked(struct soft_dev *dev, int fd, const struct soft_msg *msg,
		   size_t len);
/*
 * ctl_objects.c. Lists the objects of kind arg[1] from number arg[0] on.
 * Answers with arg[1] objects, and the next number in arg[0], 0 at the end. Returns 0 or
 * -EINVAL. L
 */
int soft_list_objects(const struct soft_dev *dev, const struct soft_ctl_msg *m,
		      struct soft_ctl_msg *a);
void soft_remove(struct soft_dev *dev);					/* L */
void soft_readd(struct soft_dev *dev);					/* L */

#endif
