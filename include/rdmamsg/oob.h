/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections without the RDMA connection manager. */
#ifndef RDMAMSG_OOB_H
#define RDMAMSG_OOB_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

enum rdmamsg_path_flags {
	RDMAMSG_PATH_GLOBAL = 1u << 0,	/* InfiniBand: by GID, not by LID */
};

/*
 * Path to the peer, in opts->path. Each side has its own. rdmamsg_connect() and
 * accepting a request of rdmamsg_listen() take 'pkey' alone: -EHOSTUNREACH, the
 * interface on the way to the peer is in another partition.
 */
struct rdmamsg_path {
	size_t size;
	uint32_t flags;			/* enum rdmamsg_path_flags */
	uint32_t port;			/* of the device; chosen */
	uint32_t gid_index;		/* NONE is 0; chosen, ..254 */
	uint32_t pkey;			/* P_Key, excludes pkey_index */
	uint32_t pkey_index;		/* index of the P_Key; 0 */
	uint32_t service_level;		/* 0, ..15 */
	uint32_t src_path_bits;		/* added to the LID; 0, ..127 */
	uint32_t traffic_class;		/* tos or 0, ..255 */
	uint32_t flow_label;		/* 20 bits; 0 */
	uint32_t hop_limit;		/* 64, 1..255 */
	uint32_t mtu;			/* most bytes; 4096 */
	uint32_t psn;			/* first PSN, 24 bits; random */
};

#define RDMAMSG_OOB_MAX	256		/* most bytes of a record */

/*
 * Used like rdmamsg_connect() and rdmamsg_listen(), but host and service are a
 * TCP address, IPv4 or IPv6. The two sides exchange records of their queue
 * pairs over TCP. rdmamsg_request_accept(), rdmamsg_request_reject() and all
 * other calls are the same. -EOPNOTSUPP: the device is iWARP.
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
 * Connects over a transport of the program:
 *
 * 1. The first side creates an endpoint with rdmamsg_oob_offer(). The program
 *    brings its record (rdmamsg_oob_record()) to the second side.
 * 2. The second side passes the record to rdmamsg_oob_answer(), which creates
 *    an endpoint. The program brings its record to the first side.
 * 3. The first side passes that record to rdmamsg_oob_finish().
 *
 * Each side gets on_connected or on_closed within timeout_ms after it created
 * its endpoint. A record serves for one connection. The library uses the soft
 * HCA if the options ask for it, or on a host without RDMA devices; its records
 * serve within this host. -ENODEV: there are devices, and none has an active
 * port; -ENXIO: none has the name in the options.
 */
int rdmamsg_oob_offer(struct rdmamsg *ctx,
		      const struct rdmamsg_ep_options *opts,
		      struct rdmamsg_ep **ret);
/*
 * -EPROTO: record is broken or is not an offer; -EPROTONOSUPPORT: the record
 * has another version; -EALREADY: this context has answered the offer;
 * -EHOSTUNREACH: the ports have different link layers, partitions, or RoCE
 * versions.
 */
int rdmamsg_oob_answer(struct rdmamsg *ctx, const void *record, size_t len,
		       const struct rdmamsg_ep_options *opts,
		       struct rdmamsg_ep **ret);
/*
 * Writes the record of ep to buf and returns its length. -EINVAL: ep is not of
 * rdmamsg_oob_offer() or rdmamsg_oob_answer(), or size is too small.
 */
int rdmamsg_oob_record(const struct rdmamsg_ep *ep, void *buf, size_t size);
/*
 * -EPROTO, -EPROTONOSUPPORT: the record is refused, and the endpoint still
 * waits for the right record. -EALREADY: the endpoint has its answer, or has
 * ended.
 */
int rdmamsg_oob_finish(struct rdmamsg_ep *ep, const void *record, size_t len);

#ifdef __cplusplus
}
#endif

#endif
