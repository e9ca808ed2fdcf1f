/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The soft HCA: a software RDMA device for one host. What its files share.
 *
 *   verbs calls          CM commands (cm.h)
 *        |                    |
 *   objects: ctx pd mr cq qp srq ...      cm ids, event files
 *        |                    |
 *   engine: requester (req.c) responder (resp.c), progress (engine.c)
 *        |                    |
 *   wires: rings (ring.h)     socket messages (wire.c)
 *        |             and large payloads, fetched where they are (vm.c)
 *   node: names, fabric state, peers (node.c); the device's thread (thread.c)
 *
 * One mutex for each device, dev->lock, protects everything below it; functions
 * marked L are called with it held. No lock is ever shared with another
 * process: what two processes share is a pair of rings, and a word for each
 * direction that asks for a doorbell.
 */
#ifndef SOFT_PRIV_H
#define SOFT_PRIV_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <infiniband/verbs.h>

#include "../list.h"
#include "ring.h"
#include "soft_ctl.h"

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define min(a, b)	((a) < (b) ? (a) : (b))
#define max(a, b)	((a) > (b) ? (a) : (b))

#include "limits.h"
#include "rec.h"
#include "fault.h"
#include "dev.h"
#include "wire.h"
#include "objects.h"
#include "engine.h"
#include "vm.h"
#include "calls.h"

#endif
