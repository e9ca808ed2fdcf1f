/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of lib/ and cm/ share, from the ground up: each header knows
 * those before it.
 */
#ifndef RDMAMSG_LIB_INTERNAL_H
#define RDMAMSG_LIB_INTERNAL_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#define RDMAMSG_FAST_TWINS	/* no rdmamsg_open() macro in here */
#include <rdmamsg/fast.h>
#include <rdmamsg/rdmamsg.h>

#include "list.h"
#include "proto.h"
#include "verbs_api.h"

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define min(a, b)	((a) < (b) ? (a) : (b))
#define max(a, b)	((a) > (b) ? (a) : (b))

#include "base.h"
#include "timer.h"
#include "submit.h"
#include "qpmap.h"
#include "pd.h"
#include "device.h"
#include "poison.h"
#include "pool.h"
#include "ep.h"
#include "srq.h"
#include "ctx.h"
#include "region.h"
#include "rma.h"
#include "connect.h"
#include "oob.h"
#include "rawqp.h"

#endif
