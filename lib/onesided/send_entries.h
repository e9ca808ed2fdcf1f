/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages from gather entries and from layouts. */
#ifndef RDMAMSG_LIB_ONESIDED_SEND_ENTRIES_H
#define RDMAMSG_LIB_ONESIDED_SEND_ENTRIES_H

#include <stddef.h>
#include <stdint.h>

#include <rdmamsg/layout.h>
#include <rdmamsg/rma.h>

#include "session/op.h"

/*
 * Sends the entries as one message. A message above eager_max is read by the
 * peer with the keys of the entries' regions; an entry without a region is as in
 * rdmamsg_sendv(). key: of the window that the message invalidates, or NULL.
 */
int rdmamsg__send_entries(struct rdmamsg_ep *ep, const struct rdmamsg_sge *src,
			  int count, uint32_t tag,
			  const struct rdmamsg_key *key, void *cookie,
			  enum tell tell);

/* layout_ep.c: sends len bytes of the layout from 'offset' on as one message. */
int rdmamsg__layout_send(struct rdmamsg_ep *ep, struct rdmamsg_layout *layout,
			 uint64_t offset, size_t len, uint32_t tag,
			 void *cookie, enum tell tell);

#endif
