/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages on the sockets between nodes: one datagram, host byte order. */
#ifndef SOFT_FABRIC_MSG_H
#define SOFT_FABRIC_MSG_H

#include <stddef.h>
#include <stdint.h>

enum soft_msg_type {
	SOFT_MSG_HELLO = 1,		/* with rings and two doorbells */
	SOFT_MSG_WELCOME,		/* with two doorbells */
	SOFT_MSG_FABRIC_ASK,
	SOFT_MSG_FABRIC,		/* with the fabric's memory */
	SOFT_MSG_LOOKUP,	/* from the listener, 'to' is its link layer */
	SOFT_MSG_REQ,			/* from here: struct soft_cm_msg */
	SOFT_MSG_REP,
	SOFT_MSG_RTU,
	SOFT_MSG_REJ,
	SOFT_MSG_BUSY,
	SOFT_MSG_DREQ,
	SOFT_MSG_DREP,
	SOFT_MSG_CTL,			/* struct soft_ctl_msg */
	SOFT_MSG_CTL_DONE,
};
#define SOFT_MSG_MAGIC	0x5051u
#define SOFT_MSG_MAX	768

struct soft_msg {
	uint16_t magic;
	uint16_t type;
	uint32_t node;			/* of the sender */
	uint32_t to, from;		/* handles of CM ids */
};

int soft_msg_send(int fd, const void *msg, size_t len, const int *fds, int n);
/*
 * Returns the length, 0 at the end of the stream, or -errno. Received
 * descriptors are close-on-exec. Unused elements of fds become -1.
 */
int soft_msg_recv(int fd, void *buf, size_t size, int *fds, int n);

#endif
