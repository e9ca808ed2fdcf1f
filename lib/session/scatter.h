/* SPDX-License-Identifier: BSD-2-Clause */
/* Large messages that are read into the blocks of a layout. */
#ifndef RDMAMSG_LIB_SCATTER_H
#define RDMAMSG_LIB_SCATTER_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdmamsg/rdmamsg.h>

struct rdmamsg_ep;
struct rdmamsg_layout;
struct rndv_in;

/* The gather entries of one read. */
struct scatter {
	uint32_t len;			/* bytes of all entries */
	uint32_t count;
	struct ibv_sge sge[RDMAMSG_SEGMENTS_MAX];
};

/*
 * Makes bytes of the layout, from 'at' on, the destination. The layout counts
 * the message as an operation until rdmamsg__scatter_drop(), which does nothing
 * for another destination.
 */
void rdmamsg__scatter_take(struct rndv_in *in, struct rdmamsg_layout *layout,
			   uint64_t at);
void rdmamsg__scatter_drop(struct rndv_in *in);
/*
 * Registers the layout with the lane's device, and creates the message, which
 * has no data of its own. After false as rdmamsg__destination_get().
 */
bool rdmamsg__scatter_begin(struct rdmamsg_ep *ep, struct rndv_in *in);
/* Finds the blocks for the next read, of at most 'room' bytes. */
void rdmamsg__scatter_next(const struct rndv_in *in, uint32_t room,
			   struct scatter *ret);
/* Returns the CRC of the message in the layout. */
uint32_t rdmamsg__scatter_crc(const struct rndv_in *in);

#endif
