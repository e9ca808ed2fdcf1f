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
#include "soft/fabric/path.h"
#include "soft/net/packet.h"

struct soft_dev;
struct soft_net;

/* Opens the socket, if it is not open. Returns 0 or -errno. */
int soft_net_open(struct soft_dev *dev);
void soft_net_close(struct soft_dev *dev);
/*
 * Finds the way to ret->to: the address and the MTU there. An address in
 * ret->from that is not zero stays. Returns 0 or -errno.
 */
int soft_net_route(struct soft_path *ret);
/*
 * Joins or leaves the group of an address on the interfaces that have a GID.
 * Nobody else on this host gets what this socket sends there.
 */
void soft_net_group(struct soft_dev *dev, const uint8_t mgid[16], bool join);
/* Writes ret->mtu, of the interface ret->scope. Returns 0 or -errno. */
int soft_net_interface(struct soft_path *ret);

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
