/* SPDX-License-Identifier: BSD-2-Clause */
/* What a kind of device does differently. Nothing else asks for the kind. */
#ifndef RDMAMSG_LIB_QUIRKS_H
#define RDMAMSG_LIB_QUIRKS_H

#include <stdbool.h>

#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

#include "device/device.h"

struct quirks {
	/*
	 * Receives that are posted to a failed queue pair are accepted and
	 * never flushed (rdma-core v44.0, providers/rxe/rxe.c:1668).
	 */
	bool keeps_receives;
	/* No IBV_EVENT_QP_LAST_WQE_REACHED (Linux 6.1: rxe, siw). */
	bool no_last_wqe;
	/* retry_cnt 7 is not counted down (rxe_comp.c, COMPST_ERROR_RETRY). */
	bool seven_is_endless;
	/*
	 * A packet without a route fails the queue pair, with
	 * IBV_WC_LOC_QP_OP_ERR. While the interface is down no packet has one.
	 */
	bool fails_without_route;
	/* Only the connection manager tells of the device's removal. */
	bool removal_by_cm;
	/* Queue pairs are connected by the connection manager only. */
	bool cm_only;
	/*
	 * A window gives access to its whole region: check_rkey() looks at the
	 * region's bounds only, and do_complete() does not tell programs what
	 * was invalidated (Linux 6.1, rxe_resp.c).
	 */
	bool loose_windows;
	/*
	 * Atomics are atomic with the processor's, although atomic_cap is
	 * IBV_ATOMIC_HCA, because programs look for that
	 * (lib/soft/verbs/ctx.c).
	 */
	bool host_atomics;
	/*
	 * A read that fails after a packet was lost can complete with success:
	 * check_psn() completes it for a repeated response, check_ack() fails
	 * it without a status. The queue pair goes to error (rxe_comp.c,
	 * COMPST_ERROR).
	 */
	bool doubtful_reads;
	/*
	 * Datagrams a second that subscribers on the same host were seen to
	 * keep up with. 0: not measured.
	 */
	uint32_t datagram_rate;
};

const struct quirks *rdmamsg__quirks(const struct rdmamsg_device *d);

const char *rdmamsg__kind_name(enum device_kind kind);
enum device_kind rdmamsg__kind_of(const struct verbs_api *v,
				  struct ibv_context *verbs,
				  const struct ibv_device_attr *attr);

/* What a device can do, its kind considered. */
/* NULL, or what is the matter with the device's windows. */
const char *rdmamsg__window_lack(const struct rdmamsg_device *d);
enum rdmamsg_atomic rdmamsg__atomic_scope(const struct rdmamsg_device *d);

#endif
