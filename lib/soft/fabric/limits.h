/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits of the device. */
#ifndef SOFT_FABRIC_LIMITS_H
#define SOFT_FABRIC_LIMITS_H

#define SOFT_VENDOR_ID	0x50f7cau	/* no OUI: the group bit is clear */
#define SOFT_PART_MAX	65535		/* vendor_part_id */
#define SOFT_PATIENCE	30		/* ms that a listener may be late */
#define SOFT_PATIENCE_MAX 600000
#define SOFT_FABRIC_USUAL "default"
#define SOFT_NODES	1024		/* 10 bits of a queue pair number */
#define SOFT_QPN_BITS	14
#define SOFT_QPS	(1u << SOFT_QPN_BITS)
#define SOFT_PORTS_MAX	8
#define SOFT_MAX_WR	16384
#define SOFT_MAX_SGE	32
#define SOFT_MAX_INLINE	1024
#define SOFT_MIN_INLINE	64u
#define SOFT_MAX_CQE	(1 << 20)
#define SOFT_MAX_RD	16
#define SOFT_MAX_MR	(1u << 20)
#define SOFT_MAX_SRQ	(1u << 16)
#define SOFT_MAX_MSG	0x80000000u
#define SOFT_PSN_MASK	0xffffffu
#define SOFT_SEGMENT	(64u << 10)	/* payload of one record */
#define SOFT_SHOW_MIN	(12u << 10)	/* shorter messages are copied */
#define SOFT_SHOW_MAX	(256u << 10)	/* bytes that one record shows */
#define SOFT_GIDS	32		/* of a port, on Ethernet */
#define SOFT_GUID_STEP	16		/* between the GUIDs of two nodes */
#define SOFT_MTU	4096
#define SOFT_GRH	40		/* bytes in front of a datagram */
#define SOFT_QPN_CM	1u		/* general services, QP 1 */
#define SOFT_QPN_MCAST	0xffffffu
#define SOFT_GROUPS	128		/* multicast groups of one node */
#define SOFT_GROUP_BUCKETS 32
#define SOFT_CQ_BUCKETS	64

/* Counters of a port. Those that every request changes share a cache line. */
enum soft_counter {
	SOFT_XMIT_DATA, SOFT_XMIT_PACKETS, SOFT_RCV_DATA, SOFT_RCV_PACKETS,
	SOFT_RX_WRITES, SOFT_RX_READS, SOFT_RX_ATOMICS, SOFT_XMIT_DISCARDS,
	SOFT_XMIT_MCAST, SOFT_RCV_MCAST, SOFT_LINK_DOWNED, SOFT_ACK_TIMEOUTS,
	SOFT_RNR_NAKS, SOFT_NO_BUFFER, SOFT_DUPLICATES, SOFT_DISORDER,
	SOFT_XMIT_WAIT, SOFT_COUNTERS
};

#endif
