/* SPDX-License-Identifier: BSD-2-Clause */
/* The state that the files of this folder share. */
#ifndef SOFT_NET_STATE_H
#define SOFT_NET_STATE_H

#include <sys/socket.h>
#include <sys/types.h>

#include <netinet/udp.h>

#include "soft/fabric/dev.h"
#include "soft/net/net.h"

/* newer than the headers of some systems */
#ifndef UDP_SEGMENT
#define UDP_SEGMENT	103
#endif
#ifndef UDP_GRO
#define UDP_GRO		104
#endif

#define NET_RUNS	16u		/* messages of one system call */
#define NET_SEGMENTS	64u		/* UDP_MAX_SEGMENTS of Linux */
#define NET_RUN		65000u		/* bytes of a run, of 65,507 */
#define NET_BUFFER	(256u << 10)	/* to send; less than a send buffer */
#define NET_ARRIVALS	16u		/* datagrams of one system call */
#define NET_DATAGRAM	65536u

/*
 * Packets of equal size to one process, which the kernel takes as one message,
 * and may hand over as one. Only the last one may be shorter.
 */
struct net_run {
	struct soft_path path;
	uint32_t process;		/* which the receiver steers by */
	uint32_t begin, bytes;		/* in the buffer */
	uint32_t each, count;
	bool closed;
};

struct soft_net {
	struct soft_watch watch;
	bool watched;			/* by the thread */
	bool blocked;			/* the socket takes no more */
	bool whole;			/* no UDP_SEGMENT: a run is a packet */
	uint32_t runs, sent;		/* sent: so many of the runs */
	uint32_t used;			/* bytes of the buffer */
	struct net_run run[NET_RUNS];
	uint8_t *buffer, *arrivals;
	/* no process had the number then (ns; 0: unknown), after this one */
	uint64_t absent[SOFT_NODES], absent_guid[SOFT_NODES];
	/* steer.c */
	uint64_t steered, pause;	/* ns: probes were sent; until the next */
	bool told;			/* of an error that is to be read */
	uint64_t round;			/* of the last probe that came */
	/* fate.c */
	uint64_t drawn;			/* decisions so far */
	struct list held;		/* packets that are late */
	uint32_t holds;
};

/* The fate of a packet while faults are injected. */
enum net_fate { NET_PASSES, NET_LOST, NET_TWICE };

/* NET_LOST for one that is held back, too. */
enum net_fate net_fate(struct soft_dev *dev, const struct soft_path *path,
		       const uint8_t *at, uint32_t len);
void net_drop_held(struct soft_net *net);
/* As soft_net_put(), without injected faults. */
void net_put(struct soft_dev *dev, const struct soft_path *path, uint32_t len);

/*
 * Returns the CRC of a packet from the port. 'id' is the identification of
 * IPv4.
 */
uint32_t net_crc(const uint8_t from[16], const uint8_t to[16], uint32_t id,
		 const uint8_t *packet, uint32_t len, uint16_t port);
/* Checks the CRC at the end of a packet that has arrived. */
bool net_crc_ok(const uint8_t from[16], const uint8_t to[16], uint16_t port,
		const uint8_t *packet, uint32_t len);

/* Asks who has which place at the port, if that was not done just before. */
void net_steer(struct soft_dev *dev);
/* Returns true if that is a probe and no packet. */
bool net_probed(struct soft_dev *dev, const uint8_t from[16],
		const uint8_t *at, uint32_t len);
/* This process has no socket. */
void net_unsteer(struct soft_dev *dev);

/*
 * Reads what the network has said of packets that were sent. Returns true if
 * that was anything.
 */
bool soft_net_errors(struct soft_dev *dev);
/* The thread waits for what net->watched and net->blocked say. */
void net_wait(struct soft_dev *dev);

#endif
