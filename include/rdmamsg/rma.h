/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations: regions, keys, windows. */
#ifndef RDMAMSG_RMA_H
#define RDMAMSG_RMA_H

#include <rdmamsg/rdmamsg.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdmamsg_region;		/* memory for one-sided operations */
struct rdmamsg_cache;		/* regions of memory that is used again */

/* Permitted uses of a region. */
enum rdmamsg_access {
	RDMAMSG_ACCESS_READ = 1u << 0,		/* peers with a key may read */
	RDMAMSG_ACCESS_WRITE = 1u << 1,		/* peers with a key may write */
	RDMAMSG_ACCESS_ATOMIC = 1u << 2,	/* peers: atomic operations */
	RDMAMSG_ACCESS_LOCAL_WRITE = 1u << 3,	/* target of rdmamsg_read() */
	RDMAMSG_ACCESS_WINDOW = 1u << 4,	/* windows may be bound to it */
};

/*
 * Declares memory for one-sided operations, and registers nothing. With access
 * 0 the region can only be the source of rdmamsg_write(). The memory stays the
 * caller's and must stay mapped until the region is destroyed. rdmamsg_close()
 * destroys regions that are left.
 */
int rdmamsg_region_create(struct rdmamsg *ctx, void *addr, size_t len,
			  uint32_t access, struct rdmamsg_region **ret);

/*
 * Declares len bytes of the dmabuf fd, beginning at 'offset'. A dmabuf may be
 * memory of another device. In gather entries, 'data' is the offset from the
 * beginning of the region. The program may close fd when the call returns. If
 * the device does not support dmabuf memory, registering gives -EOPNOTSUPP.
 */
int rdmamsg_region_dmabuf(struct rdmamsg *ctx, int fd, uint64_t offset,
			  size_t len, uint32_t access,
			  struct rdmamsg_region **ret);

/*
 * Puts the region into a protection domain. NULL means the domain of each
 * device, where a new region is. -EBUSY: the region is registered.
 */
int rdmamsg_region_set_pd(struct rdmamsg_region *region, struct rdmamsg_pd *pd);

/*
 * Registers the region with the device of the endpoint, until the library
 * closes that device. The registration serves all endpoints of the context on
 * the device in this protection domain. Registering takes long and pins the
 * memory. -EPERM: the endpoint is in another protection domain. -EAGAIN: the
 * endpoint has lost its connection, and failover makes another. -ENOTCONN,
 * -ENOMEM.
 */
int rdmamsg_region_register(struct rdmamsg_region *region,
			  const struct rdmamsg_ep *ep);

/* A peer needs the key to reach a region. The program sends the bytes. */
struct rdmamsg_key {
	uint8_t bytes[32];
};

/*
 * Registers the region if necessary, and writes a key with the region's remote
 * access to *ret. Until it is revoked, the key serves every peer that knows it
 * and is connected through this device in this protection domain. Without an
 * endpoint (NULL) the region is in a domain that has a device, and the key fits
 * into setup_data: an endpoint with this device and this 'pd' serves it. With
 * failover the key is of the first lane's device alone.
 */
int rdmamsg_region_get_key(struct rdmamsg_region *region,
			  const struct rdmamsg_ep *ep,
			  struct rdmamsg_key *ret);

/*
 * The same before the endpoint exists, so that the key fits into hello_data or
 * setup_data of the options for rdmamsg_request_accept(): the peer has it when
 * it is connected. Keeps the device open until the request ends. The endpoint
 * must be in the protection domain of the region, else rdmamsg_request_accept()
 * gives -EPERM. A request that is moved leaves its keys behind. -EPERM: the
 * request has a key of another domain. -EOPNOTSUPP: the request came out of
 * band, so its endpoint chooses the device. -ECONNRESET: the peer gave up.
 * -ENODEV, -ESHUTDOWN.
 */
int rdmamsg_request_get_key(struct rdmamsg_request *req,
			    struct rdmamsg_region *region,
			    struct rdmamsg_key *ret);

/*
 * Ends all registrations of the region. If a peer uses an earlier key, it gets
 * an access error, which ends the connection. The region can be registered
 * again, and has other keys then. -EBUSY: operations of this program use the
 * region, or a window is bound to it. Another error: the device did not end a
 * registration, and peers may still reach the memory.
 */
int rdmamsg_region_revoke(struct rdmamsg_region *region);

/*
 * Revokes the region and frees it. On failure the region is not freed. region
 * may be NULL.
 */
int rdmamsg_region_destroy(struct rdmamsg_region *region);

/*
 * A cache keeps regions of memory that a program uses again. Above its limits
 * the cache destroys the least recently used regions. The cache does not watch
 * the program's memory: the program calls rdmamsg_cache_invalidate().
 */
struct rdmamsg_cache_options {
	size_t size;
	size_t max_bytes;		/* of all regions; 256 MB */
	uint32_t max_regions;		/* 256 */
};

/* rdmamsg_close() destroys caches that are left. */
int rdmamsg_cache_create(struct rdmamsg *ctx,
			 const struct rdmamsg_cache_options *opts,
			 struct rdmamsg_cache **ret);

/*
 * Returns a region with at least this memory and this access in *ret,
 * registered to the endpoint's device in its protection domain. With remote
 * access the region has exactly this memory and remote access, because its key
 * reaches the whole region. If the cache has no such region, it registers one.
 * The region belongs to the cache, and stays until rdmamsg_cache_put(). Call
 * that once for each rdmamsg_cache_get(). -ENOBUFS: the regions in use leave no
 * room.
 */
int rdmamsg_cache_get(struct rdmamsg_cache *cache, const struct rdmamsg_ep *ep,
		      void *addr, size_t len, uint32_t access,
		      struct rdmamsg_region **ret);
int rdmamsg_cache_put(struct rdmamsg_cache *cache,
		      struct rdmamsg_region *region);

/*
 * Removes all regions that contain any of this memory. Call it before the
 * memory is freed or mapped anew. -EBUSY: such a region is in use, and nothing
 * was removed. Another error: the regions were removed, but the device did not
 * end a registration, and peers may still reach the memory.
 */
int rdmamsg_cache_invalidate(struct rdmamsg_cache *cache, const void *addr,
			     size_t len);

struct rdmamsg_cache_stats {
	size_t size;
	size_t bytes;			/* registered now */
	uint32_t regions;
	uint64_t hits;
	uint64_t misses;
	uint64_t evictions;		/* destroyed to make room */
};

int rdmamsg_cache_get_stats(const struct rdmamsg_cache *cache,
			    struct rdmamsg_cache_stats *stats);

/*
 * Destroys the cache and its regions. cache may be NULL. -EBUSY: a region is in
 * use. On failure the cache still exists.
 */
int rdmamsg_cache_destroy(struct rdmamsg_cache *cache);

/*
 * Makes a key of len bytes at buf that a peer has sent. The call ignores bytes
 * after the key. -EPROTO: the bytes are not a key. Any thread.
 */
int rdmamsg_key_import(const void *buf, size_t len, struct rdmamsg_key *ret);

struct rdmamsg_key_attr {
	size_t size;
	uint64_t region;	/* number in error texts */
	uint64_t len;		/* bytes that the key reaches */
	uint32_t access;	/* RDMAMSG_ACCESS_READ, _WRITE, _ATOMIC */
};

int rdmamsg_key_query(const struct rdmamsg_key *key,
		     struct rdmamsg_key_attr *attr);

/* A gather entry: part of a region, or other memory for a small write. */
struct rdmamsg_sge {
	void *data;
	size_t len;
	struct rdmamsg_region *region;	/* NULL: a write copies it */
};

enum rdmamsg_rma_flags {
	/* the operation begins when all earlier reads and atomics are done */
	RDMAMSG_FENCE = 1u << 0,
};

/*
 * Everyday one-sided operations; rdmamsg_post() of <rdmamsg/post.h> has all.
 * They access the peer's memory behind a key, 'offset' bytes
 * from its beginning. The peer's program takes no part. Operations and messages
 * begin in the order of the calls. An operation with a cookie ends with
 * on_complete. Local memory is in use until on_complete, or until on_closed if
 * there is no cookie. An operation has up to RDMAMSG_SEGMENTS_MAX gather
 * entries in registered regions, of any length.
 *
 * -EAGAIN: nothing was accepted, and on_writable follows. -ERANGE: the range is
 * outside of the key. -EACCES: the key or a region does not allow the
 * operation. -EPERM: a region is in another protection domain than the
 * endpoint. -EOPNOTSUPP: the peer or a device does not support the operation.
 * -ENOTCONN, -ESHUTDOWN.
 */

/*
 * Writes the gather entries one after the other. If an entry has no region, the
 * library copies all entries, up to eager_max bytes of rdmamsg_ep_query(), and
 * their memory is free on return.
 */
int rdmamsg_write(struct rdmamsg_ep *ep, const struct rdmamsg_sge *src,
		  int count, const struct rdmamsg_key *key, uint64_t offset,
		  uint32_t flags, void *cookie);

/*
 * on_complete tells that the data of all earlier writes of this endpoint is in
 * the peer's memory. The completion of a write tells only that its entries are
 * free, on iWARP. -EOPNOTSUPP: the peer's device serves no reads, which tell it
 * there.
 */
int rdmamsg_flush(struct rdmamsg_ep *ep, void *cookie);

/*
 * Reads into the gather entries. Their regions must have
 * RDMAMSG_ACCESS_LOCAL_WRITE. Of memory that is written meanwhile, a read may
 * bring old and new bytes, in any mixture, with status 0.
 */
int rdmamsg_read(struct rdmamsg_ep *ep, const struct rdmamsg_sge *dst,
		 int count, const struct rdmamsg_key *key, uint64_t offset,
		 uint32_t flags, void *cookie);

/*
 * Atomic operations on 8 bytes in the peer's byte order. The address must be a
 * multiple of 8. rdmamsg_fetch_add() adds 'add'. rdmamsg_compare_swap() writes
 * 'desired' if the value equals 'expected'. Unless result is NULL, *result has
 * the previous value when on_complete reports success.
 */
int rdmamsg_fetch_add(struct rdmamsg_ep *ep, const struct rdmamsg_key *key,
		      uint64_t offset, uint64_t add, uint64_t *result,
		      uint32_t flags, void *cookie);
int rdmamsg_compare_swap(struct rdmamsg_ep *ep, const struct rdmamsg_key *key,
			 uint64_t offset, uint64_t expected, uint64_t desired,
			 uint64_t *result, uint32_t flags, void *cookie);

struct rdmamsg_masked_attr {
	size_t size;
	uint32_t how;		/* enum rdmamsg_cap_how */
	uint32_t sizes;		/* of operands: 4 | 8 | 16 | 32, 0 if absent */
	uint32_t max_field;	/* bytes */
	uint32_t unit;		/* bytes that are written back at least */
	char reason[128];	/* of 'how' */
};

/*
 * Extended atomics (<rdmamsg/post.h>) of a connected endpoint. -ENOTCONN,
 * -ESHUTDOWN
 */
int rdmamsg_ep_masked_query(const struct rdmamsg_ep *ep,
			    struct rdmamsg_masked_attr *attr);

/*
 * A memory window gives a part of a region to the peer of this endpoint alone.
 * Requests in the send queue bind and invalidate the window, without a
 * registration. The window is invalid from on_closed on. -EOPNOTSUPP: the
 * device has no windows of type 2 or does not check their bounds, or the peer
 * does not support one-sided operations.
 */
int rdmamsg_window_create(struct rdmamsg_ep *ep, struct rdmamsg_window **ret);

/*
 * Gives access (RDMAMSG_ACCESS_READ, _WRITE, _ATOMIC) to len bytes of a region,
 * beginning at 'offset'. The region must be registered and have
 * RDMAMSG_ACCESS_WINDOW, and needs no other access. The program can send the
 * key at once, because the message arrives after the binding. While the window
 * is bound, the region cannot be revoked. Ends with on_complete, like other
 * operations. -EAGAIN: too many operations. -EBUSY: the window is bound.
 */
int rdmamsg_window_bind(struct rdmamsg_window *window,
			struct rdmamsg_region *region, size_t offset,
			size_t len, uint32_t access, struct rdmamsg_key *ret,
			void *cookie);

/*
 * Ends the access. After on_complete the key is invalid, and the window can be
 * bound again.
 */
int rdmamsg_window_invalidate(struct rdmamsg_window *window, void *cookie);

/*
 * Destroys the window, bound or not. window may be NULL. -EBUSY: an operation
 * on the window has not completed. Another error: the window is gone, but the
 * device may still let the peer reach the memory.
 */
int rdmamsg_window_destroy(struct rdmamsg_window *window);

#ifdef __cplusplus
}
#endif

#endif
