/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters of a port by the names of their files. counters/ has the names of
 * InfiniBand's port counters. hw_counters/ has names and meanings of mlx5.
 */
#include <string.h>

#include "soft/fabric/count.h"
#include "soft/preload/preload.h"

const char *const preload_counters[] = {
	"VL15_dropped", "excessive_buffer_overrun_errors", "link_downed",
	"link_error_recovery", "local_link_integrity_errors",
	"multicast_rcv_packets", "multicast_xmit_packets",
	"port_rcv_constraint_errors", "port_rcv_data", "port_rcv_errors",
	"port_rcv_packets", "port_rcv_remote_physical_errors",
	"port_rcv_switch_relay_errors", "port_xmit_constraint_errors",
	"port_xmit_data", "port_xmit_discards", "port_xmit_packets",
	"port_xmit_wait", "symbol_error", "unicast_rcv_packets", "unicast_xmit_packets", NULL,
};

const char *const preload_hw_counters[] = {
	"duplicate_request", "local_ack_timeout_err", "out_of_buffer",
	"out_of_sequence", "rnr_nak_retry_err", "rx_atomic_requests",
	"rx_read_requests", "rx_write_requests", NULL,
};

/* A counter is plus - minus. Data is in units of 4 octets. */
static const struct count {
	const char *name;
	enum soft_counter plus, minus;	/* minus 0: none */
} counts[] = {
	{ "link_downed", SOFT_LINK_DOWNED, 0 },
	{ "multicast_rcv_packets", SOFT_RCV_MCAST, 0 },
	{ "multicast_xmit_packets", SOFT_XMIT_MCAST, 0 },
	{ "port_rcv_data", SOFT_RCV_DATA, 0 },
	{ "port_rcv_packets", SOFT_RCV_PACKETS, 0 },
	{ "port_xmit_data", SOFT_XMIT_DATA, 0 },
	{ "port_xmit_discards", SOFT_XMIT_DISCARDS, 0 },
	{ "port_xmit_packets", SOFT_XMIT_PACKETS, 0 },
	{ "port_xmit_wait", SOFT_XMIT_WAIT, 0 },
	{ "unicast_rcv_packets", SOFT_RCV_PACKETS, SOFT_RCV_MCAST },
	{ "unicast_xmit_packets", SOFT_XMIT_PACKETS, SOFT_XMIT_MCAST },
	{ "duplicate_request", SOFT_DUPLICATES, 0 },
	{ "local_ack_timeout_err", SOFT_ACK_TIMEOUTS, 0 },
	{ "out_of_buffer", SOFT_NO_BUFFER, 0 },
	{ "out_of_sequence", SOFT_DISORDER, 0 },
	{ "rnr_nak_retry_err", SOFT_RNR_NAKS, 0 },
	{ "rx_atomic_requests", SOFT_RX_ATOMICS, 0 },
	{ "rx_read_requests", SOFT_RX_READS, 0 },
	{ "rx_write_requests", SOFT_RX_WRITES, 0 },
};
_Static_assert(SOFT_XMIT_DATA == 0, "no counter is subtracted from it");

static bool lists(const char *const *names, const char *name)
{
	while (*names && strcmp(*names, name))
		names++;
	return *names;
}

static uint64_t value(const struct soft_dev *dev, unsigned int port,
		      const struct count *c)
{
	uint64_t n = soft_count_sum(dev, port, c->plus);

	/* the two sums are not taken at one moment */
	if (c->minus && n >= soft_count_sum(dev, port, c->minus))
		n -= soft_count_sum(dev, port, c->minus);
	return strstr(c->name, "_data") ? n / 4 : n;
}

bool preload_counter(const struct soft_dev *dev, unsigned int port,
		     const char *dir, const char *name,
		     unsigned long long *ret)
{
	if (!port || port > (unsigned int)dev->ports ||
	    !lists(strcmp(dir, "counters") ? preload_hw_counters :
		   preload_counters, name))
		return false;
	/* errors of cables and packets, of which there are none, stay 0 */
	*ret = 0;
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		if (!strcmp(counts[i].name, name))
			*ret = value(dev, port, &counts[i]);
	return true;
}
