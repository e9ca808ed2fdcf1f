/* SPDX-License-Identifier: BSD-2-Clause */
/* Kinds of devices, and how each kind differs. */
#include "device/device.h"
#include "device/quirks.h"
#include "device/verbs_api.h"
#include "device/verbs_call.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/utsname.h>

#include <infiniband/verbs.h>
#include <rdmamsg/endpoint.h>
#include <rdmamsg/rdmamsg.h>

#define RXE_VENDOR_ID	0xffffffu
#define SIW_VENDOR_ID	0x626d74u	/* Linux 6.1, siw.h */
/*
 * Same as SOFT_VENDOR_ID of lib/soft/fabric/limits.h. Needed here because
 * rdmamsg-soft(1) preloads the soft HCA into libibverbs.
 */
#define SOFT_VENDOR_ID	0x50f7cau

#define WINDOW_CAPS	(IBV_DEVICE_MEM_WINDOW_TYPE_2A | \
			 IBV_DEVICE_MEM_WINDOW_TYPE_2B)

#define IWARP	.no_last_wqe = true, .cm_only = true, \
		.no_immediates = true, .connects_in_call = true, \
		.read_sink_access = IBV_ACCESS_REMOTE_WRITE, \
		.plain_addresses = true, .torn_max = 32

/*
 * KIND_ROCE, KIND_IB and KIND_IWARP: no card was tested. Of a device of no known
 * kind nothing is expected that one of them does not give.
 */
static const struct quirks quirks[] = {
	[KIND_UNKNOWN] = {
		.no_last_wqe = true, .no_immediates = true,
		.read_sink_access = IBV_ACCESS_REMOTE_WRITE,
		.plain_addresses = true,
	},
	[KIND_SOFT_ROCE] = {
		.acks_in_order = true,
		.keeps_receives = true, .no_last_wqe = true,
		.seven_is_endless = true, .fails_without_route = true,
		.removal_by_cm = true, .loose_windows = true,
		.doubtful_reads = true, .flushes_failures = true,
		.datagram_rate = 25000, .pieces_max = 131072,
	},
	[KIND_ROCE] = { .acks_in_order = true },
	[KIND_IB] = { .acks_in_order = true },
	[KIND_IWARP] = {
		IWARP, .cancels_connect = true, .misses_first = true,
	},
	[KIND_SIW] = {
		IWARP, .cancels_connect = true, .request_errors_are_own = true,
		.refuses_a_key = true, .misses_first = true,
		.keeps_receives = true, .keeps_sends = true,
		.removal_by_cm = true, .swaps_depths = true,
		.ends_as_local_error = true,
	},
	[KIND_SOFT] = {
		.acks_in_order = true, .host_atomics = true,
		.pieces_max = 131072, .pieces_polling = 32768,
	},
	[KIND_SOFT_IWARP] = { IWARP },
};

const char *rdmamsg__kind_name(enum device_kind kind)
{
	static const char *const names[] = {
		[KIND_UNKNOWN] = "unknown",
		[KIND_SOFT_ROCE] = "soft-roce", [KIND_ROCE] = "roce",
		[KIND_IB] = "infiniband", [KIND_IWARP] = "iwarp",
		[KIND_SIW] = "iwarp",
		[KIND_SOFT] = "soft", [KIND_SOFT_IWARP] = "soft",
	};

	return names[kind];
}

const char *rdmamsg__kind_board(enum device_kind kind)
{
	return kind == KIND_SOFT || kind == KIND_SOFT_IWARP ? "soft HCA" : NULL;
}

enum device_kind rdmamsg__kind_of(const struct verbs_api *v,
				  struct ibv_context *verbs,
				  const struct ibv_device_attr *attr)
{
	struct ibv_port_attr port;

	if (verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		return attr->vendor_id == SOFT_VENDOR_ID ? KIND_SOFT_IWARP :
		       attr->vendor_id == SIW_VENDOR_ID ? KIND_SIW : KIND_IWARP;
	if (verbs->device->transport_type != IBV_TRANSPORT_IB)
		return KIND_UNKNOWN;
	if (attr->vendor_id == RXE_VENDOR_ID)
		return KIND_SOFT_ROCE;
	if (attr->vendor_id == SOFT_VENDOR_ID)
		return KIND_SOFT;
	if (!rdmamsg__v_query_port(v, verbs, 1, &port) &&
	    port.link_layer == IBV_LINK_LAYER_ETHERNET)
		return KIND_ROCE;
	return KIND_IB;
}

uint32_t rdmamsg__kind_pieces_max(enum device_kind kind)
{
	return quirks[kind].pieces_max;
}

const struct quirks *rdmamsg__quirks(const struct rdmamsg_device *d)
{
	return &quirks[d->kind];
}

bool rdmamsg__flushes_failures(const struct rdmamsg_device *d)
{
	unsigned int major = 0, minor = 0;
	struct utsname u;

	return rdmamsg__quirks(d)->flushes_failures && !uname(&u) &&
	       sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 4));
}

bool rdmamsg__is_iwarp(const struct rdmamsg_device *d)
{
	return d->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

int rdmamsg__sink_access(const struct rdmamsg_device *d)
{
	return IBV_ACCESS_LOCAL_WRITE | rdmamsg__quirks(d)->read_sink_access;
}

const char *rdmamsg__window_lack(const struct rdmamsg_device *d)
{
	if (!(d->attr.device_cap_flags & WINDOW_CAPS))
		return "it has no memory windows of type 2";
	if (rdmamsg__quirks(d)->loose_windows)
		return "the memory windows of Soft-RoCE do not keep to their "
		       "bounds";
	return NULL;
}

enum rdmamsg_atomic rdmamsg__atomic_scope(const struct rdmamsg_device *d)
{
	if (rdmamsg__quirks(d)->host_atomics)
		return RDMAMSG_ATOMIC_HOST;
	switch (d->attr.atomic_cap) {
	case IBV_ATOMIC_NONE:
		return RDMAMSG_ATOMIC_NONE;
	case IBV_ATOMIC_GLOB:
		return RDMAMSG_ATOMIC_HOST;
	default:
		return RDMAMSG_ATOMIC_DEVICE;
	}
}
