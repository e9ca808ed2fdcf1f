/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The alternate path of one side: an item of SETUP, and the body of a PATH
 * message. Both sides send their own. The functions are pure, as in proto.h.
 *
 *  0 u32 migrations    4 u32 offer    8 u32 seen    12 u8 state   13 u8 flags
 * 14 u8  port         15 u8  0       16 u16 LID     18 u16 0      20 GID
 *
 * migrations: of the sender's queue pair, ever.
 * offer: number of the sender's alternate port, from 1. A new port, or the same
 * port after a migration, has the next number.
 * seen: last offer that the sender has from the receiver; 0: none.
 * port: 0 if the sender has no alternate port. Then LID and GID are 0.
 */
#ifndef RDMAMSG_LIB_PATH_WIRE_H
#define RDMAMSG_LIB_PATH_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define PROTO_PATH_LEN		36
#define PROTO_LID_MAX		0xbfffu		/* of one port */

/* State of the pair of 'offer' and 'seen' in the sender's queue pair. */
enum proto_path_state {
	PROTO_PATH_OFFERED,
	PROTO_PATH_LOADED,		/* to be armed by the device */
	PROTO_PATH_ARMED,
	PROTO_PATH_STATES,
};

/* The alternate port is the port in use: only the peer has another. */
#define PROTO_PATH_SAME		1u

struct proto_path {
	uint32_t migrations;
	uint32_t offer;
	uint32_t seen;
	uint8_t state;			/* enum proto_path_state */
	uint8_t flags;
	uint8_t port;
	uint16_t lid;
	uint8_t gid[16];
};

void rdmamsg__path_encode(const struct proto_path *p,
			  uint8_t out[static PROTO_PATH_LEN]);
/*
 * -EPROTO: too short, offer 0, an unknown state, a port without a LID of one
 * port, a LID without a port, or LOADED or ARMED without both offers.
 */
int rdmamsg__path_decode(struct proto_path *p, const void *buf, size_t len);

#endif
