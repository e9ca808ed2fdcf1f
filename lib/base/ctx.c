/* SPDX-License-Identifier: BSD-2-Clause */
/* The check that a context can be used. */
#include "base/base.h"
#include "base/ctx.h"
#include "base/util.h"

#include <errno.h>

#include <rdmamsg/rdmamsg.h>

int rdmamsg__ctx_check(const struct rdmamsg *ctx)
{
	if (likely(ctx && ctx->magic == CTX_MAGIC))
		return 0;
	if (!ctx)
		return rdmamsg__fail(-EINVAL, "the context is NULL");
	return rdmamsg__fail(-ECHILD, "this process was forked from the one "
			     "that opened the context, which cannot be used "
			     "here");
}
