/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/base.h"
#include "base/crc32c.h"
#include "base/util.h"
#include "memory/memory.h"
#include "session/crc.h"
#include "session/ep.h"
#include "session/op.h"
#include "wire/proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include <rdmamsg/rdmamsg.h>

uint32_t rdmamsg__crc_of(const struct iovec *iov, int iovcnt)
{
	uint32_t crc = 0;

	for (int i = 0; i < iovcnt; i++)
		crc = rdmamsg__crc32c(crc, iov[i].iov_base, iov[i].iov_len);
	return crc;
}

void rdmamsg__crc_add(struct rdmamsg_ep *ep, struct op *op, uint32_t crc)
{
	rdmamsg__crc_put(op->msg->data + op->len, crc);
	op->len += PROTO_CRC_LEN;
	/* bytes_sent counts payload only: launching adds op->len */
	ep->lane.hot.bytes_sent -= PROTO_CRC_LEN;
}

bool rdmamsg__crc_differs(struct rdmamsg_ep *ep, uint32_t len, uint32_t is,
			  uint32_t was)
{
	if (likely(is == was))
		return false;
	/* deliver no later message of the same batch */
	ep->close.gap = true;
	rdmamsg__ep_reason(ep, RDMAMSG_WHO_NETWORK, RDMAMSG_CAUSE_CRC,
			   -EBADMSG, "a message of %u bytes changed on its way "
			   "(CRC-32C %08x, sent %08x): a program changed it "
			   "before its completion, or memory, device or "
			   "network is faulty", len, is, was);
	rdmamsg__ep_kill(ep);
	return true;
}

bool rdmamsg__crc_take(struct rdmamsg_ep *ep, struct rdmamsg_msg *msg)
{
	if (msg->len < PROTO_CRC_LEN) {
		rdmamsg__ep_protocol(ep, "a message of %u bytes, its CRC has "
				     "%u", msg->len, PROTO_CRC_LEN);
		return false;
	}
	msg->len -= PROTO_CRC_LEN;
	return !rdmamsg__crc_differs(ep, msg->len,
				     rdmamsg__crc32c(0, msg->data, msg->len),
				     rdmamsg__crc_get(msg->data + msg->len));
}

void rdmamsg__crc_strip(struct rdmamsg_msg *msg, uint32_t left)
{
	msg->len = msg->len - left == PROTO_CRC_LEN ? left : 0;
}
