/* SPDX-License-Identifier: BSD-2-Clause */
/* State of an endpoint, reason of its end, negotiated values. */
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
/*
 * Returns why the connection ends or has ended. Before the end begins, cause is
 * RDMAMSG_CAUSE_NONE. In state RDMAMSG_CLOSED the reason is final. Valid as
 * long as the endpoint, never NULL.
 */
const struct rdmamsg_reason *rdmamsg_ep_reason(const struct rdmamsg_ep *ep);

struct rdmamsg *rdmamsg_ep_ctx(const struct rdmamsg_ep *ep);
/* Returns the peer's setup_data, valid as long as the endpoint, or NULL. */
const void *rdmamsg_ep_peer_data(const struct rdmamsg_ep *ep, size_t *ret_len);

/*
 * rdmamsg_ep_hold() keeps the memory of an endpoint past on_closed, even past
 * rdmamsg_close(). rdmamsg_ep_release() releases it. The library counts holds.
 */
void rdmamsg_ep_hold(struct rdmamsg_ep *ep);
void rdmamsg_ep_release(struct rdmamsg_ep *ep);

/* Scope of peers' atomic operations on memory of this host. */
enum rdmamsg_atomic {
	RDMAMSG_ATOMIC_NONE,	/* the device has no atomic operations */
	RDMAMSG_ATOMIC_DEVICE,	/* atomic within the same device */
	RDMAMSG_ATOMIC_HOST,	/* atomic with processors as well */
};

/* Protection of an announced large message against other peers. */
enum rdmamsg_guard {
	RDMAMSG_GUARD_NONE,	/* not known yet: no device */
	RDMAMSG_GUARD_ADDRESS,	/* an rkey and a random address */
	RDMAMSG_GUARD_DOMAIN,	/* a protection domain: RDMAMSG_EP_GUARD */
};

/* How the peer is reached. */
enum rdmamsg_way {
	RDMAMSG_WAY_NONE,	/* not known yet: no device */
	RDMAMSG_WAY_DEVICE,	/* an RDMA device of the kernel */
	RDMAMSG_WAY_MEMORY,	/* the soft HCA, within this host */
	RDMAMSG_WAY_UDP,	/* the soft HCA, by RoCE v2 over UDP */
};

/* Negotiated and granted values; 0 while not known. */
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
	uint32_t max_receive;		/* largest message this side takes */
	uint32_t send_credits;		/* messages that can be sent now */
	uint32_t send_depth;
	uint32_t recv_depth;
	uint32_t responder_resources;
	uint32_t initiator_depth;
	uint32_t max_inline_data;	/* granted by the device */
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t version;		/* protocol version in use */
	uint8_t session[16];
	uint64_t bytes_pinned;		/* buffers of posted receives */
	uint64_t bytes_private;		/* the library's structs */
	uint32_t one_sided;		/* 1: the peer supports rma.h */
	uint32_t atomic_scope;		/* enum rdmamsg_atomic */
	uint32_t send_invalidate;	/* 1: both sides support it */
	uint32_t guard;			/* enum rdmamsg_guard */
	uint32_t pieces_max;		/* largest message sent in pieces */
	uint32_t crc;			/* 1: messages have a CRC-32C */
	uint32_t cq_entries;		/* granted, shared by endpoints */
	uint32_t comp_vector;		/* of the completion queue */
	uint32_t way;			/* enum rdmamsg_way */
};

int rdmamsg_ep_query(const struct rdmamsg_ep *ep, struct rdmamsg_ep_attr *attr);

/* Returns the name of the endpoint's device, "" while not known. */
const char *rdmamsg_ep_device_name(const struct rdmamsg_ep *ep);

int rdmamsg_ep_get_stats(const struct rdmamsg_ep *ep,
			 struct rdmamsg_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
