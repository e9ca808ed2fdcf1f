/* SPDX-License-Identifier: BSD-2-Clause */
/* Connecting without the connection manager. */
#ifndef RDMAMSG_OOB_H
#define RDMAMSG_OOB_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

enum rdmamsg_path_flags {
	RDMAMSG_PATH_GLOBAL = 1u << 0,	/* InfiniBand: by GID, not by LID */
};

/* The way to the peer, in its own opts->path of each side. */
struct rdmamsg_path {
	size_t size;
	uint32_t flags;			/* enum rdmamsg_path_flags */
	uint32_t port;			/* of the device; an active one */
	uint32_t gid_index;		/* NONE for 0; one that suits */
	uint32_t pkey;			/* P_Key by value, or */
	uint32_t pkey_index;		/* by its place in the table; 0 */
	uint32_t service_level;		/* 0..15; 0 */
	uint32_t src_path_bits;		/* of the LID, 0..127; 0 */
	uint32_t traffic_class;		/* 0..255; tos, or 0 */
	uint32_t flow_label;		/* 20 bits; 0 */
	uint32_t hop_limit;		/* 1..255; 64 */
	uint32_t mtu;			/* bytes at most; both ports have it */
	uint32_t psn;			/* the first, 24 bits; random */
};

#define RDMAMSG_OOB_MAX	256		/* bytes of a record, at most */

/*
 * As rdmamsg_connect() and rdmamsg_listen(), but over TCP, IPv4 or IPv6, the
 * two sides tell each other of their queue pairs and connect them by
 * themselves. rdmamsg_accept(), rdmamsg_reject() and all else are the same.
 * -EOPNOTSUPP: the device is iWARP.
 */
int rdmamsg_oob_connect(struct rdmamsg *ctx, const char *host,
			const char *service,
			const struct rdmamsg_ep_options *opts,
			struct rdmamsg_ep **ret);
int rdmamsg_oob_listen(struct rdmamsg *ctx, const char *host,
		       const char *service,
		       const struct rdmamsg_listen_options *opts,
		       struct rdmamsg_listener **ret);

/*
 * The same over a transport of the program's. One side makes an endpoint
 * with rdmamsg_oob_offer() and has its record brought to the other, which
 * gives it to rdmamsg_oob_answer(); the record of that endpoint goes back,
 * into rdmamsg_oob_finish(). Both are told on_connected or on_closed, within
 * timeout_ms from making them. A record is good for one connection; one of the
 * soft HCA, taken if asked for or on a host without RDMA devices, within this
 * host. -ENODEV: there are devices, and none has an active port.
 */
int rdmamsg_oob_offer(struct rdmamsg *ctx,
		      const struct rdmamsg_ep_options *opts,
		      struct rdmamsg_ep **ret);
/*
 * -EPROTO: no record, a broken one, or no offer; -EPROTONOSUPPORT: of another
 * version; -EALREADY: answered already; -EHOSTUNREACH: another kind of link,
 * or another partition.
 */
int rdmamsg_oob_answer(struct rdmamsg *ctx, const void *record, size_t len,
		       const struct rdmamsg_ep_options *opts,
		       struct rdmamsg_ep **ret);
/* Its length, or -EINVAL: no such endpoint, or more than size bytes. */
int rdmamsg_oob_record(const struct rdmamsg_ep *ep, void *buf, size_t size);
/*
 * A record that is refused, with -EPROTO or -EPROTONOSUPPORT, leaves the
 * endpoint waiting for the right one. -EALREADY: it has been there.
 */
int rdmamsg_oob_finish(struct rdmamsg_ep *ep, const void *record, size_t len);

#ifdef __cplusplus
}
#endif

#endif
