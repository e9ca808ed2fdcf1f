/* SPDX-License-Identifier: BSD-2-Clause */
/* The headers of the C interface that the binding declares. */
#include <rdmamsg/rdmamsg.h>
#include <rdmamsg/chain.h>
#include <rdmamsg/device.h>
#include <rdmamsg/diag.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/failover.h>
#include <rdmamsg/flow.h>
#include <rdmamsg/group.h>
#include <rdmamsg/listener.h>
#include <rdmamsg/memory.h>
#include <rdmamsg/oob.h>
#include <rdmamsg/post.h>
#include <rdmamsg/rma.h>
#include <rdmamsg/timer.h>
