/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations: regions, keys, windows. */
#ifndef RDMAMSG_RMA_H
#define RDMAMSG_RMA_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdmamsg_region;		/* memory for one-sided operations */
struct rdmamsg_cache;		/* regions kept for memory used again */

/* What a region may be used for. */
enum rdmamsg_access {
	RDMAMSG_ACCESS_READ = 1u << 0,		/* peers with a key may read */
	RDMAMSG_ACCESS_WRITE = 1u << 1,		/* write */
	RDMAMSG_ACCESS_ATOMIC = 1u << 2,	/* and count there */
	RDMAMSG_ACCESS_LOCAL_WRITE = 1u << 3,	/* rdmamsg_read() into it */
	RDMAMSG_ACCESS_WINDOW = 1u << 4,	/* windows may be bound to it */
};

/*
 * Declares memory for one-sided operations: with access 0 only as a source of
 * rdmamsg_write(). It stays the caller's and must be there until the region is
 * destroyed. Nothing is registered yet. It ends with its context at the latest.
 */
int rdmamsg_region_create(struct rdmamsg *ctx, void *addr, size_t len,
			  uint32_t access, struct rdmamsg_region **ret);

/*
 * The same for len bytes from 'offset' on of a dmabuf, which may be memory of
 * another device. In gather entries, 'data' is the offset from there. The
 * descriptor is free on return. Registering gives -EOPNOTSUPP where the device
 * takes none.
 */
int rdmamsg_region_dmabuf(struct rdmamsg *ctx, int fd, uint64_t offset,
			  size_t len, uint32_t access,
			  struct rdmamsg_region **ret);

/*
 * Puts it in a protection domain, NULL for those of the devices, where a new
 * one is. -EBUSY while it is registered.
 */
int rdmamsg_region_set_pd(struct rdmamsg_region *region, struct rdmamsg_pd *pd);

/*
 * Registers it with the device of the endpoint, for the endpoint's own
 * operations, until that device is closed. Takes long, pins the memory; once
 * done it is done for all endpoints of the device in this protection domain.
 * -EPERM: the endpoint is in another one. -ENOTCONN, -ENOMEM.
 */
int rdmamsg_region_register(struct rdmamsg_region *region,
			  const struct rdmamsg_ep *ep);

/* What a peer needs to reach a region: bytes to be sent as they are. */
struct rdmamsg_key {
	uint8_t bytes[32];
};

/*
 * rdmamsg_region_register(), and a key with the region's remote access in *ret.
 * It is good for every peer of endpoints on this device and in this protection
 * domain that comes to know it, until revoked.
 */
int rdmamsg_region_get_key(struct rdmamsg_region *region,
			  const struct rdmamsg_ep *ep,
			  struct rdmamsg_key *ret);

/*
 * Ends all its registrations: a peer that uses a key of it from here on gets
 * an access error, which costs the connection. It may be registered, and given
 * keys again, with other keys. -EBUSY while own operations use it; another
 * error is the device's, which may still let peers reach it.
 */
int rdmamsg_region_revoke(struct rdmamsg_region *region);

/* The same, and frees it. NULL is fine. */
int rdmamsg_region_destroy(struct rdmamsg_region *region);

/*
 * Keeps registrations of memory that is used again and again, within bounds:
 * what was used least recently goes. Nothing watches the program's memory: it
 * has to say when some goes away.
 */
struct rdmamsg_cache_options {
	size_t size;
	size_t max_bytes;		/* of all its regions; 256 MB */
	uint32_t max_regions;		/* 256 */
};

/* Ends with its context at the latest. */
int rdmamsg_cache_create(struct rdmamsg *ctx,
			 const struct rdmamsg_cache_options *opts,
			 struct rdmamsg_cache **ret);

/*
 * A region that has this memory and allows this access, registered to the
 * endpoint's device, in its protection domain; with remote access it is just
 * that, as its key gives all. Registered now if there is none. It stays the
 * cache's, and there until rdmamsg_cache_put(). -ENOBUFS: what is in use fills
 * it.
 */
int rdmamsg_cache_get(struct rdmamsg_cache *cache, const struct rdmamsg_ep *ep,
		      void *addr, size_t len, uint32_t access,
		      struct rdmamsg_region **ret);
int rdmamsg_cache_put(struct rdmamsg_cache *cache,
		      struct rdmamsg_region *region);

/*
 * Before this memory is freed or mapped anew: forgets what has any of it.
 * -EBUSY, and all is left as it was, when some of that is in use. Another
 * error is the device's, which may still let peers reach it: it is forgotten.
 */
int rdmamsg_cache_invalidate(struct rdmamsg_cache *cache, const void *addr,
			     size_t len);

struct rdmamsg_cache_counters {
	size_t size;
	size_t bytes;			/* registered now */
	uint32_t regions;
	uint64_t hits;
	uint64_t misses;
	uint64_t evictions;		/* for want of room */
};

int rdmamsg_cache_stats(const struct rdmamsg_cache *cache,
		       struct rdmamsg_cache_counters *info);

/* NULL is fine. -EBUSY when a region of it is in use. */
int rdmamsg_cache_destroy(struct rdmamsg_cache *cache);

/*
 * A key out of bytes that a peer has sent; more than a key are not looked at.
 * -EPROTO if they are none.
 */
int rdmamsg_key_import(const void *buf, size_t len, struct rdmamsg_key *ret);

struct rdmamsg_key_attr {
	size_t size;
	uint64_t region;	/* as errors name it */
	uint64_t len;		/* bytes it reaches */
	uint32_t access;	/* of READ, WRITE, ATOMIC */
};

int rdmamsg_key_query(const struct rdmamsg_key *key,
		     struct rdmamsg_key_attr *info);

/* A stretch of a region, or of other memory in a small write. */
struct rdmamsg_sge {
	void *data;
	size_t len;
	struct rdmamsg_region *region;	/* NULL: copied */
};

enum rdmamsg_rma_flags {
	/* begins when the reads and atomics before it are done */
	RDMAMSG_FENCE = 1u << 0,
};

/*
 * One-sided operations on the peer's memory behind a key, 'offset' bytes into
 * it; its program takes no part. They begin in the order of the calls,
 * messages included, and end with on_complete when they have a cookie; the
 * memory is in use until then, or on_closed. Any length; gather entries of
 * regions that are registered, up to RDMAMSG_SEGMENTS_MAX. -EAGAIN: nothing
 * was accepted, on_writable will tell. -ERANGE: outside of what the key
 * reaches. -EACCES: the key, or a region, does not allow it. -EPERM: a region
 * is in another protection domain. -EOPNOTSUPP: the peer or a device cannot.
 * -ENOTCONN, -ESHUTDOWN.
 */

/*
 * Writes the gather entries, one behind the other. Without a region all of
 * them are copied, up to eager_max bytes (rdmamsg_ep_query), and free on
 * return.
 */
int rdmamsg_write(struct rdmamsg_ep *ep, const struct rdmamsg_sge *src,
		  int count, const struct rdmamsg_key *key, uint64_t offset,
		  uint32_t flags, void *cookie);

/* And then on_written with 'value' at the peer, as a message would be. */
int rdmamsg_write_imm(struct rdmamsg_ep *ep, const struct rdmamsg_sge *src,
		      int count, const struct rdmamsg_key *key,
		      uint64_t offset, uint32_t value, uint32_t flags,
		      void *cookie);

/* Reads into the gather entries; their regions have LOCAL_WRITE. */
int rdmamsg_read(struct rdmamsg_ep *ep, const struct rdmamsg_sge *dst,
		 int count, const struct rdmamsg_key *key, uint64_t offset,
		 uint32_t flags, void *cookie);

/*
 * On the 8 bytes at an aligned address, in the peer's byte order, as one
 * step: add to them, or put 'desired' there if they are 'expected'. What was
 * there before is in *result, unless NULL, before on_complete.
 */
int rdmamsg_fetch_add(struct rdmamsg_ep *ep, const struct rdmamsg_key *key,
		      uint64_t offset, uint64_t add, uint64_t *result,
		      uint32_t flags, void *cookie);
int rdmamsg_compare_swap(struct rdmamsg_ep *ep, const struct rdmamsg_key *key,
			 uint64_t offset, uint64_t expected, uint64_t desired,
			 uint64_t *result, uint32_t flags, void *cookie);

/*
 * A memory window: access to a part of a region for the peer of this endpoint
 * alone, which costs no registration to give and to take back. Gone when
 * on_closed comes. -EOPNOTSUPP: the device has none that are worth it.
 */
int rdmamsg_window_create(struct rdmamsg_ep *ep, struct rdmamsg_window **ret);

/*
 * Gives access (READ, WRITE, ATOMIC) to len bytes of a region that is
 * registered and has RDMAMSG_ACCESS_WINDOW, whatever access that has else. The
 * key may be sent at once: it is good for what comes after this call. Until
 * invalidated the region cannot be revoked. An operation as the others:
 * on_complete, -EAGAIN.
 */
int rdmamsg_window_bind(struct rdmamsg_window *window,
			struct rdmamsg_region *region, size_t offset,
			size_t len, uint32_t access, struct rdmamsg_key *ret,
			void *cookie);

/* Takes it back: the key is dead with on_complete. */
int rdmamsg_window_invalidate(struct rdmamsg_window *window, void *cookie);

/*
 * A message as of rdmamsg_send(), of up to eager_max bytes (rdmamsg_ep_query),
 * that takes back the window behind the key as it arrives: the peer had given
 * access for one operation, which is over with this. A key that is not of a
 * window bound for this endpoint, or not any more, costs the connection.
 * -EOPNOTSUPP: one of the devices cannot, send_invalidate of rdmamsg_ep_query
 * tells before.
 */
int rdmamsg_send_invalidate(struct rdmamsg_ep *ep, const void *buf, size_t len,
			    uint32_t tag, const struct rdmamsg_key *key,
			    void *cookie);

/*
 * Bound or not. -EBUSY before on_complete; another error is the device's,
 * which may still let the peer reach what it was bound to: the window is gone.
 * NULL is fine.
 */
int rdmamsg_window_destroy(struct rdmamsg_window *window);

#ifdef __cplusplus
}
#endif

#endif
