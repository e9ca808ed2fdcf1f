/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of targets and senders over dynamically connected transport. All
 * numbers are little-endian. The two sides of a session name it by a handle
 * each. A frame has the handle of the side that receives it.
 *
 *  sender                              target
 *    | connection request, "RDC12"       |
 *    |---------------------------------->|
 *    |      reject with struct dc_answer |
 *    |<----------------------------------|
 *    | HELLO                             |   the first frame to its DCT
 *    |---------------------------------->|
 *    |                           WELCOME |   to the DCT in HELLO
 *    |<----------------------------------|
 *    | DATA, RNDV, WRITTEN: numbered     |
 *    |---------------------------------->|
 *    |        CREDIT, DONE (of the RNDV) |
 *    |<----------------------------------|
 *    | ASK                               |   the target answers with CREDIT
 *    |---------------------------------->|
 *    | BYE                               |   either side. A target asks with
 *    |<--------------------------------->|   BYE, and waits for the sender's
 *
 * Header of each frame:
 *
 *  0 u8 type  1 u8 version (2)  2 u16 0  4 u32 handle  8 u32 number
 *  12 u32 tag  16 u64 token of the handle
 *
 * The token is random, and only the two sides know it. Anybody with the access
 * key can send frames, so a frame without the right token is of no session.
 *
 * DATA: the number of the message, its tag; payload.
 * RNDV: the same; struct proto_rndv.
 * WRITTEN: the number of the message; the tag is the value. The data that were
 * written before can be read.
 * CREDIT: the target takes messages with numbers below 'number', modulo 2^32.
 * The tag is the number of the last ASK, or 0.
 * ASK: the number of the ASK, not 0. A target does not answer if it drops the
 * sender's messages, or may forget the sender earlier than DCF_FORGET_MS later.
 * DONE: the number of the RNDV; the tag is an enum proto_done.
 */
#ifndef RDMAMSG_LIB_WIRE_DC_FRAME_H
#define RDMAMSG_LIB_WIRE_DC_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define DCF_VERSION	2
#define DCF_LEN		24u
#define DCF_HELLO_LEN	80u	/* with the header */
#define DCF_WELCOME_LEN	48u
#define DCF_CREDITS_MAX	65536u
#define DCF_EAGER_MAX	65536u
/* a target keeps a session for this time after the sender's last frame */
#define DCF_FORGET_MS	6000u

enum dcf_type {
	DCF_HELLO = 1,
	DCF_WELCOME,
	DCF_DATA,
	DCF_RNDV,
	DCF_WRITTEN,
	DCF_CREDIT,
	DCF_DONE,
	DCF_BYE,
	DCF_ASK,
	DCF_TYPE_MAX = DCF_ASK,
};

struct dc_frame {
	uint8_t type;
	uint32_t handle;
	uint32_t number;
	uint32_t tag;
	uint64_t token;			/* of the handle */
};

/* A port of a device, and a DCT there. */
struct dc_place {
	uint32_t dctn;			/* 24 bits */
	uint16_t lid;
	uint8_t mtu;			/* enum ibv_mtu */
	uint8_t link;			/* enum proto_oob_link */
	uint8_t gid[16];
};

/*
 * Behind the header of HELLO:
 *
 *  24 u64 sender  32 u64 access key of the sender's DCT  40 u64 token
 *  48 u32 handle  52 u32 0  56 the place: u32 number of the DCT, u16 LID,
 *  u8 MTU code, u8 link layer, GID
 *
 * The token in the header is the ticket of the answer, and a target makes no
 * session without it.
 */
struct dc_hello_frame {
	uint64_t sender;
	uint64_t key;
	uint64_t token;
	uint32_t handle;
	struct dc_place place;
};

enum dcf_status {
	DCF_OK,
	DCF_BUSY,			/* make a connection */
};

/*
 * Behind the header of WELCOME, whose tag is an enum dcf_status:
 *
 *  24 u64 token  32 u32 handle  36 u32 payload of DATA, at most  40 u32 bytes
 *  of a message, at most  44 u32 0
 *
 * The number in the header is the first credit, as in CREDIT.
 */
struct dc_welcome {
	uint64_t token;
	uint32_t handle;
	uint32_t eager;
	uint32_t max_msg;
};

void rdmamsg__dcf_encode(const struct dc_frame *f, void *out);
/* -EPROTO: too short, or an unknown type. -EPROTONOSUPPORT: the version. */
int rdmamsg__dcf_decode(struct dc_frame *f, const void *buf, size_t len);
/* These two write and read what is behind the header, at the whole frame. */
void rdmamsg__dcf_hello_encode(const struct dc_hello_frame *h, uint8_t *frame);
int rdmamsg__dcf_hello_decode(struct dc_hello_frame *h, const uint8_t *frame,
			      size_t len);
void rdmamsg__dcf_welcome_encode(const struct dc_welcome *w, uint8_t *frame);
int rdmamsg__dcf_welcome_decode(struct dc_welcome *w, const uint8_t *frame,
				size_t len);

/*
 * Data of the reject that answers a request:
 *
 *  0 u16 DCA_MAGIC  2 u16 LID
 *  4 u32 number of the DCT | MTU code << 24 | link layer << 28
 *  8 u64 ticket: the token in the header of HELLO  16 GID
 */
#define DCA_MAGIC	0x3244u		/* "D2" */
#define DCA_LEN		32u

struct dc_answer {
	struct dc_place place;
	uint64_t ticket;
};

void rdmamsg__dca_encode(const struct dc_answer *a,
			 uint8_t out[static DCA_LEN]);
/* -EPROTO: another length, no magic, or a field out of range. */
int rdmamsg__dca_decode(struct dc_answer *a, const void *buf, size_t len);

#endif
