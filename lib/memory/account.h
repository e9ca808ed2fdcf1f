/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An account counts what the peers at one address use of a context's receive
 * memory, or of a shared receive queue. rdmamsg__is_fair() limits this part.
 * Only endpoints of listeners whose max_per_source is 0 have accounts.
 */
#ifndef RDMAMSG_LIB_ACCOUNT_H
#define RDMAMSG_LIB_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include <rdmamsg/rdmamsg.h>

#include "base/addrmap.h"

struct account {
	struct addr_node node;	/* first; key.of: NULL, or a struct srq */
	size_t posted;		/* bytes, or receives if key.of is an SRQ */
	size_t lent, sent;	/* bytes of messages, as in struct lent */
};

/* rdmamsg__account_get() and _like() return NULL if there is no memory. */
struct account *rdmamsg__account_get(struct rdmamsg *ctx, const void *of,
				     const struct sockaddr_storage *addr);
/* Returns the account of the address of 'other', for 'of'. */
struct account *rdmamsg__account_like(struct rdmamsg *ctx, const void *of,
				      const struct account *other);
void rdmamsg__account_put(struct rdmamsg *ctx, struct account *a);
/*
 * Returns true if rdmamsg__is_fair() leaves no memory for another connection of
 * this address.
 */
bool rdmamsg__account_is_full(const struct rdmamsg *ctx,
			      const struct sockaddr_storage *addr);

#endif
