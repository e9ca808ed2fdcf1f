/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The soft HCA: a software RDMA device for the processes of one host and, over
 * UDP, of others. This header has the calls that programs make. The folders are layers, and each
 * includes only itself and those below it in this picture:
 *
 *   tools/    rdmamsg-soft(1), rdmamsg-soft-ctl(1)
 *   preload/  the names of libibverbs and librdmacm, for LD_PRELOAD
 *   soft.h    this header; soft.c connects the layers
 *   control/  what rdmamsg-soft-ctl(1) asks a node, and device removal
 *   cma/      librdmacm's asynchronous calls over the commands of cm/
 *   cm/       connection manager: the commands of the kernel's rdma_cm device
 *   transport/  queue pairs whose peer is on another host: PSNs, repetition
 *   engine/   progress: requester, responder, datagrams, path migration
 *   verbs/    the objects and calls of libibverbs
 *   net/      packets of RoCE v2: the UDP socket, headers, CRC
 *   fabric/   shared memory, names, rings, wires, nodes, the thread, faults
 *   base/     of lib/, with list.h: no RDMA
 *
 * fabric/ and verbs/ call the layers above them through the tables in
 * fabric/upward.h and verbs/upward.h. Every call that opens the device is in
 * soft.c, which sets the tables first.
 *
 * Locking: dev->lock protects the device and all its objects. Functions marked
 * L require it. It is the innermost lock: its holder takes no other lock.
 * Processes share no lock. They share rings, and one word per direction that
 * requests a doorbell.
 */
#ifndef SOFT_SOFT_H
#define SOFT_SOFT_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "soft/cma/calls.h"
#include "soft/engine/calls.h"
#include "soft/verbs/calls.h"
#include "soft/verbs/mlx5.h"

struct soft_dev;

/* As in libibverbs */
struct ibv_context *soft_open_device(struct ibv_device *device);
__be64 soft_get_device_guid(struct ibv_device *device);
/* As rdma_create_event_channel() */
struct rdma_event_channel *soft_cma_create_event_channel(void);
/* As soft_dev_far_error() */
int soft_far_error(void);
/* Opens the device. Returns 0 or -errno. End it with soft_dev_put(). */
int soft_open(struct soft_dev **ret);

#endif
