/* SPDX-License-Identifier: BSD-2-Clause */
/* Initiators, as the port uses them. */
#ifndef RDMAMSG_LIB_DC_DCI_H
#define RDMAMSG_LIB_DC_DCI_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/ctx.h"
#include "dc/port.h"

/*
 * wr_id: DC_KEY, 1 bit for receives, 11 bits of the port's index, 20 bits: the
 * slot of a receive, or 8 bits of the initiator's index, 12 bits of position
 */
#define WR_RECV		0x80000000u
#define WR_PORT		20
#define WR_DCI		12

static inline uint64_t rdmamsg__port_wr_id(const struct dc_port *p,
					   uint32_t low)
{
	return (uint64_t)DC_KEY << 32 | p->index << WR_PORT | low;
}

/* Adds an initiator to the port. Returns 0 or -errno. */
int rdmamsg__port_dci_new(struct dc_port *p);
void rdmamsg__port_dci_free(struct port_dci *d);
void rdmamsg__port_dci_unbind(struct port_dci *d);
/* The peer is not bound, and leaves the row. */
void rdmamsg__port_leave_row(struct dc_peer *peer);
void rdmamsg__origin_init(struct dc_origin *o);
/* low: of the wr_id. */
void rdmamsg__port_dci_completed(struct port_dci *d, uint32_t low,
				 const struct ibv_wc *wc);
/* Twice a second. */
void rdmamsg__port_dci_look(struct port_dci *d);

#endif
