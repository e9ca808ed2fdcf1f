/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls from fabric/ into the layers above. soft.c sets the table before the
 * device opens. All L.
 */
#ifndef SOFT_FABRIC_UPWARD_H
#define SOFT_FABRIC_UPWARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct soft_dev;
struct soft_faults;
struct soft_msg;
struct packet;
struct soft_path;
struct soft_wire;

struct soft_fabric_upward {
	/*
	 * Consumes records, and pushes for pending queue pairs. Returns true if
	 * there were any.
	 */
	bool (*progress)(struct soft_dev *dev);
	/* Queue pairs that waited for completions have to push. */
	void (*woken)(struct soft_dev *dev);
	/* A completion queue has overrun, so its queue pairs must fail. */
	void (*overrun)(struct soft_dev *dev);
	/* A wire with a known peer has died. */
	void (*wire_down)(struct soft_dev *dev, struct soft_wire *w);
	/* A message of the connection manager has arrived. */
	void (*message)(struct soft_dev *dev, struct soft_wire *w,
			const struct soft_msg *msg, size_t len);
	/*
	 * An order of rdmamsg-soft-ctl(1). If it returns -errno, fd is closed.
	 */
	int (*on_control)(struct soft_dev *dev, int fd,
			  const struct soft_msg *msg, size_t len);
	/* dev->faults.port has changed from *were. */
	void (*ports)(struct soft_dev *dev, const struct soft_faults *were);
	/* A packet has arrived, to which an answer would go that way. */
	void (*net_packet)(struct soft_dev *dev, const struct soft_path *back,
			   const struct packet *p);
	/* Another process has received a packet for this one. */
	void (*net_forwarded)(struct soft_dev *dev, const void *payload,
			      uint32_t bytes);
	/* The socket takes packets again. */
	void (*net_room)(struct soft_dev *dev);
	/* No process receives packets at the address (a GID). */
	void (*net_refused)(struct soft_dev *dev, const uint8_t to[16]);
	/* The thread looks for packets from now on, or polls do. */
	void (*net_watch)(struct soft_dev *dev, bool by_thread);
	/* Hands the packets that were put to the kernel. */
	void (*net_flush)(struct soft_dev *dev);
	void (*net_close)(struct soft_dev *dev);
	/* This process is a forked child: its contexts lose the device. */
	void (*forked)(struct soft_dev *dev);
};

extern const struct soft_fabric_upward *soft_fabric_up;	/* dev.c */

#endif
