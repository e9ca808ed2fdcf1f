/* SPDX-License-Identifier: BSD-2-Clause */
/* Of an endpoint: its state, why it ended, what was negotiated. */
#ifndef RDMAMSG_ENDPOINT_H
#define RDMAMSG_ENDPOINT_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

enum rdmamsg_state {
	RDMAMSG_CONNECTING = 1,
	RDMAMSG_CONNECTED,
	RDMAMSG_CLOSING,
	RDMAMSG_CLOSED,
};

enum rdmamsg_state rdmamsg_ep_state(const struct rdmamsg_ep *ep);
/* "connected", ...: static text, "unknown" for any other value. */
const char *rdmamsg_state_name(enum rdmamsg_state state);
/*
 * Why it ends or has ended: final when CLOSED, cause NONE while no end is in
 * sight. Valid as long as the endpoint, and never NULL.
 */
const struct rdmamsg_reason *rdmamsg_ep_reason(const struct rdmamsg_ep *ep);
/* "peer", "refused", ...: static text, "unknown" for any other value. */
const char *rdmamsg_who_name(enum rdmamsg_who who);
const char *rdmamsg_cause_name(enum rdmamsg_cause cause);

struct rdmamsg *rdmamsg_ep_ctx(const struct rdmamsg_ep *ep);
/* What the peer gave as setup_data. Valid as long as the endpoint. */
const void *rdmamsg_ep_peer_data(const struct rdmamsg_ep *ep, size_t *ret_len);

/* Keep the memory of an endpoint past on_closed, even past rdmamsg_close();
 * give it back. */
void rdmamsg_ep_hold(struct rdmamsg_ep *ep);
void rdmamsg_ep_release(struct rdmamsg_ep *ep);

/* With what else the atomic operations on memory of this host are atomic. */
enum rdmamsg_atomic {
	RDMAMSG_ATOMIC_NONE,	/* the device has no atomic operations */
	RDMAMSG_ATOMIC_DEVICE,	/* with those through the same device */
	RDMAMSG_ATOMIC_HOST,	/* with the processors' as well */
};

/* What keeps other peers from reading a large message that is announced. */
enum rdmamsg_guard {
	RDMAMSG_GUARD_NONE,	/* not known before there is a device */
	RDMAMSG_GUARD_ADDRESS,	/* its rkey and a random address */
	RDMAMSG_GUARD_DOMAIN,	/* a protection domain: RDMAMSG_EP_GUARD */
};

/* What was negotiated and granted; zeros before it is known. */
struct rdmamsg_ep_attr {
	size_t size;
	struct sockaddr_storage local;
	struct sockaddr_storage peer;
	char device[64];
	uint32_t port;
	uint32_t qp_num;
	uint32_t peer_qp_num;
	uint32_t mtu;			/* path MTU, bytes */
	uint8_t gid[16];
	uint32_t inline_max;		/* largest message sent inline */
	uint32_t eager_max;		/* largest message sent by copy */
	uint32_t max_send;		/* largest message the peer takes */
	uint32_t max_receive;		/* largest message taken from it */
	uint32_t send_credits;		/* messages the peer has room for */
	uint32_t send_depth;
	uint32_t recv_depth;
	uint32_t responder_resources;
	uint32_t initiator_depth;
	uint32_t max_inline_data;	/* granted by the device */
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t version;		/* protocol version in use */
	uint8_t session[16];
	uint64_t bytes_pinned;		/* buffers of its posted receives */
	uint64_t bytes_private;		/* the library's structs for it */
	uint32_t one_sided;		/* 1: the peer knows these operations */
	uint32_t atomic_scope;		/* of atomics, enum rdmamsg_atomic */
	uint32_t send_invalidate;	/* 1: both sides have it */
	uint32_t guard;			/* of messages, enum rdmamsg_guard */
};

int rdmamsg_ep_query(const struct rdmamsg_ep *ep, struct rdmamsg_ep_attr *info);

/* The device that carries it, "" before that is known. */
const char *rdmamsg_ep_device_name(const struct rdmamsg_ep *ep);

int rdmamsg_ep_stats(const struct rdmamsg_ep *ep,
		     struct rdmamsg_counters *stats);

#ifdef __cplusplus
}
#endif

#endif
