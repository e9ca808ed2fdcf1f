/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network way of the device: one UDP socket, through which the packets of
 * all queue pairs go that have their peer on another host. IPv4 addresses are
 * mapped ones, as in GIDs. All L.
 */
#ifndef SOFT_NET_NET_H
#define SOFT_NET_NET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "soft/net/packet.h"

struct soft_dev;
struct soft_net;

/* Where packets go, and from which address of this host. */
struct soft_path {
	uint8_t to[16], from[16];	/* GIDs */
	uint32_t scope;			/* interface of a link-local address */
	uint32_t mtu;			/* of the way, in bytes of IP; 0: unknown */
};

/* Opens the socket, if it is not open. Returns 0 or -errno. */
int soft_net_open(struct soft_dev *dev);
void soft_net_close(struct soft_dev *dev);
/*
 * Finds the way to ret->to: the address and the MTU there. An address in
 * ret->from that is not zero stays. Returns 0 or -errno.
 */
int soft_net_route(struct soft_path *ret);
/* Returns the largest enum ibv_mtu whose packets pass the way, or 0. */
int soft_net_mtu(const struct soft_path *path);
/* Returns true for an address that only its link knows. */
static inline bool soft_path_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

static inline bool soft_path_same(const struct soft_path *a,
				  const struct soft_path *b)
{
	return !__builtin_memcmp(a->to, b->to, 16) &&
	       !__builtin_memcmp(a->from, b->from, 16) && a->scope == b->scope;
}

/*
 * Room for a packet, or NULL: then no queue pair can send until the socket
 * takes more, and all that have something to send are pended then.
 */
uint8_t *soft_net_room(struct soft_dev *dev);
/* Sends the packet of len bytes in the room, to which the CRC is added. */
void soft_net_put(struct soft_dev *dev, const struct soft_path *path,
		  uint32_t len);
/* Hands what was put to the kernel. */
void soft_net_flush(struct soft_dev *dev);
/* Takes the packets that have arrived. Returns true if there were any. */
bool soft_net_receive(struct soft_dev *dev);
/*
 * Gives a packet to the process of a node. Returns false if there is none, or
 * if that is this one.
 */
bool soft_net_forward(struct soft_dev *dev, uint32_t node,
		      const struct soft_path *back, const struct packet *p);
/* Takes a packet that another process has received. */
void soft_net_forwarded(struct soft_dev *dev, const void *payload,
			uint32_t bytes);
/* The thread looks at the socket, or the polls of the program do. */
void soft_net_watch(struct soft_dev *dev, bool by_thread);

#endif
