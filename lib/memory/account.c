/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts receive memory by the address of the peer. */
#include "base/addrmap.h"
#include "base/ctx.h"
#include "memory/memory.h"
#include "memory/stretch.h"
#include "memory/account.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include <rdmamsg/rdmamsg.h>

struct account *rdmamsg__account_get(struct rdmamsg *ctx, const void *of,
				     const struct sockaddr_storage *addr)
{
	struct addr_key key;

	rdmamsg__addr_key(&key, of, addr);
	return rdmamsg__addrmap_get(&ctx->memory->accounts, &key,
				    sizeof(struct account));
}

struct account *rdmamsg__account_like(struct rdmamsg *ctx, const void *of,
				      const struct account *other)
{
	struct addr_key key = other->node.key;

	key.of = of;
	return rdmamsg__addrmap_get(&ctx->memory->accounts, &key,
				    sizeof(struct account));
}

void rdmamsg__account_put(struct rdmamsg *ctx, struct account *a)
{
	(void)rdmamsg__addrmap_put(&ctx->memory->accounts, a);
}

bool rdmamsg__account_is_full(const struct rdmamsg *ctx,
			      const struct sockaddr_storage *addr)
{
	const struct account *a;
	struct addr_key key;
	size_t left;

	rdmamsg__addr_key(&key, NULL, addr);
	a = rdmamsg__addrmap_find(&ctx->memory->accounts, &key);
	if (!a || !a->posted)
		return false;
	/* spare memory can hold receives */
	left = rdmamsg__budget_room(ctx, DIR_IN, true) +
	       ctx->memory->budget[DIR_IN].spare;
	return !rdmamsg__is_fair(a->posted + a->lent + a->sent, left, 1);
}
