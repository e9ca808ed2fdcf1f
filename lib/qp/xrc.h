/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC domains of the program. */
#ifndef RDMAMSG_LIB_XRC_H
#define RDMAMSG_LIB_XRC_H

struct rdmamsg;

/* Call it when the queue pairs of the program are destroyed. */
void rdmamsg__xrcds_free(struct rdmamsg *ctx);

#endif
